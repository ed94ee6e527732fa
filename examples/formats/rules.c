/* rules.c - rules for fields: which of them become bytes of a batch under a name, and which become tensors by functions
 * of the program's, that know what was drawn for the sample
 *
 * A loader has one function that makes tensors, fields.make. This one finds out for each sample which of its fields a
 * rule is for, and asks that rule. It reads nothing and has no lock, so that decoder threads call it concurrently.
 *
 * It needs data.c. */
#include "data.h"

#include <stdlib.h>

#define RULES       16u               /* of a loader */
#define MATCH_BYTES 64u               /* of a rule's pattern, with its NUL */
#define LEAST_DATA  (-(1 << 30))      /* what a rule returns below this is a fault of the program */

/* A rule. Those of one name share their tensor. */
typedef struct rule {
    bzna_rule given;                  /* without the caller's texts */
    char      match[MATCH_BYTES];
    char      name[BZNA_NAME_MAX];
    char      count[BZNA_NAME_MAX];   /* with ROWS, the name of the tensor with the counts */
    uint32_t  tensor;                 /* its number in the list of tensors; with ROWS, the next has the counts */
    uint64_t  bytes;                  /* of a sample in the tensor */
} rule;

/* A field that a rule is for. Values are in the order of rules. */
typedef struct value {
    bzna_field_info field;
    const rule     *rule;
} value;

struct bzna_rules {
    rule      rules[RULES];
    uint32_t  count;
    bzna_made made[2 * RULES];
    uint32_t  made_count;
    value    *values;
    uint32_t  value_count;
    uint32_t  first;                  /* names in fields.bytes before those of the rules: the caller's own */
    char     *bytes;                  /* fields.bytes */
};

/* ---- Which fields --------------------------------------------------------------------------- */

/* Returns 1 if a name matches a pattern of texts, * and ?. Both are short. */
static int fits(const char *name, const char *pattern)
{
    if (*pattern == '*')
        return fits(name, pattern + 1) || (*name && fits(name + 1, pattern));
    return *name ? (*pattern == '?' || *pattern == *name) && fits(name + 1, pattern + 1) : !*pattern;
}

/* Returns 1 if a rule matches a field's name: as a whole, by its end, or as a pattern. */
static int matches(const rule *r, const char *name)
{
    const size_t size = strlen(name), end = strlen(r->match);

    if (strpbrk(name, ",:="))                               /* fields.bytes cannot name it */
        return 0;
    if (r->match[0] == '.' && !strpbrk(r->match, "*?"))
        return strcmp(name, r->match + 1) == 0 || (size > end && strcmp(name + size - end, r->match) == 0);
    return fits(name, r->match);
}

/* Returns 1 if a rule is the first one that matches a field. */
static int owns(const bzna_rules *rules, const rule *r, const char *name)
{
    for (const rule *before = rules->rules; before < r; before++)
        if (matches(before, name))
            return 0;
    return matches(r, name);
}

/* ---- Opening -------------------------------------------------------------------------------- */

void bzna_formats_rule_init(bzna_rule *given, size_t struct_size)
{
    bzna_formats_data_init(given, struct_size);
}

/* Checks a rule by itself. The library checks dtype and shape. */
static bzna_status check(const bzna_rule *r, bzna_error *err)
{
    const size_t match = r->field ? strlen(r->field) : 0, name = r->name ? strlen(r->name) : match;
    const size_t most = BZNA_NAME_MAX - 1 - (r->kind == BZNA_RULE_ROWS ? strlen("_count") : 0);

    if (r->struct_size != sizeof *r)
        return DATA_FAIL(err, BZNA_E_STRUCT_SIZE, "struct_size: not set, or of another version");
    for (size_t i = 0; i < sizeof r->reserved / sizeof *r->reserved; i++)
        if (r->reserved[i])
            return DATA_FAIL(err, BZNA_E_STRUCT_SIZE, "reserved[%u]: a reserved word must be 0", (unsigned)i);
    if (match == 0 || match >= MATCH_BYTES)
        return DATA_MISUSE(err, "field: must have 1 to %u bytes", MATCH_BYTES - 1);
    if (name == 0 || name > most)
        return DATA_MISUSE(err, "name: must have 1 to %u bytes", (unsigned)most);
    if (!r->name && (r->field[0] == '.' || strpbrk(r->field, "*?")))
        return DATA_MISUSE(err, "name: required, because \"%s\" is not a field's name", r->field);
    if (strpbrk(r->name ? r->name : r->field, ",:="))
        return DATA_MISUSE(err, "name: must have no comma, colon or equals sign");
    if (r->kind > BZNA_RULE_ROWS)
        return DATA_MISUSE(err, "kind: %u is not known", r->kind);
    if (!r->call != (r->kind == BZNA_RULE_BYTES))
        return DATA_MISUSE(err, "call: bytes are passed on without one, and tensors are made by one");
    if (r->kind == BZNA_RULE_BYTES && (r->dtype || r->dimensions || r->shape[0]))
        return DATA_MISUSE(err, "dtype, dimensions, shape: only of tensors");
    if (r->dimensions > 4 || (r->kind == BZNA_RULE_ROWS && r->dimensions == 0))
        return DATA_MISUSE(err, "dimensions: %u; at most 4, and with ROWS at least 1", r->dimensions);
    return BZNA_OK;
}

/* Adds the tensors of the last rule, or finds those of one with its name. */
static bzna_status add_tensors(bzna_rules *rules, rule *r, bzna_error *err)
{
    const uint32_t is_rows = r->given.kind == BZNA_RULE_ROWS;
    bzna_made *made = &rules->made[rules->made_count];

    for (const rule *twin = rules->rules; twin < r; twin++) {
        if (strcmp(twin->name, r->name) != 0)
            continue;
        r->tensor = twin->tensor;
        if (twin->given.kind != r->given.kind)
            return DATA_MISUSE(err, "kind: differs from that of another rule with the name \"%s\"",
                               r->name);
        if (twin->given.dtype != r->given.dtype || twin->given.dimensions != r->given.dimensions ||
            memcmp(twin->given.shape, r->given.shape, sizeof r->given.shape) != 0)
            return DATA_MISUSE(err, "dtype, shape: differ from those of another rule with the name "
                               "\"%s\"", r->name);
        return BZNA_OK;
    }
    if (r->given.kind == BZNA_RULE_BYTES)
        return BZNA_OK;

    r->tensor = rules->made_count;
    made[0] = (bzna_made){ .name = r->name, .dtype = r->given.dtype, .dimensions = r->given.dimensions,
                           .zero = is_rows };
    memcpy(made->shape, r->given.shape, sizeof made->shape);
    rules->made_count++;
    if (is_rows) {
        memcpy(r->count, r->name, sizeof r->name);
        memcpy(r->count + strlen(r->name), "_count", sizeof "_count");      /* for which `check` leaves room */
        made[1] = (bzna_made){ .name = r->count, .dtype = BZNA_DTYPE_INT64, .zero = 1 };
        rules->made_count++;
    }
    return BZNA_OK;
}

/* Copies a rule. */
static bzna_status add(bzna_rules *rules, const bzna_rule *given, bzna_error *err)
{
    rule *r = &rules->rules[rules->count];

    if (check(given, err) != BZNA_OK)
        return err->status;
    r->given = *given;
    r->given.field = r->given.name = NULL;
    snprintf(r->match, sizeof r->match, "%s", given->field);
    snprintf(r->name, sizeof r->name, "%s", given->name ? given->name : given->field);
    r->bytes = given->dtype == BZNA_DTYPE_UINT8 ? 1 : given->dtype == BZNA_DTYPE_INT64 ? 8 : 4;
    for (uint32_t i = 0; i < given->dimensions; i++)
        r->bytes *= (uint64_t)given->shape[i];              /* the library refuses what does not fit */
    return add_tensors(rules, r, err);
}

/* Finds the fields of each rule. Fails if there is none of one. */
static bzna_status find_fields(bzna_rules *rules, const bzna_dataset *dataset, bzna_error *err)
{
    bzna_dataset_info info;

    if (bzna_dataset_get_info(dataset, &info, sizeof info, err) != BZNA_OK)
        return err->status;
    if (!(rules->values = malloc((info.field_count + 1) * sizeof *rules->values)))
        return bzna_formats_data_no_memory(err);

    for (uint32_t i = 0; i < rules->count; i++) {
        const uint32_t before = rules->value_count;

        for (uint32_t k = 0; k < info.field_count; k++) {
            value *v = &rules->values[rules->value_count];
            if (bzna_dataset_field_info(dataset, k, &v->field, sizeof v->field, err) != BZNA_OK)
                return err->status;
            v->rule = &rules->rules[i];
            rules->value_count += (uint32_t)owns(rules, v->rule, v->field.name);
        }
        if (rules->value_count == before)
            return DATA_FAIL(err, BZNA_E_NOT_FOUND, "rules[%u].field: the data set has no field that \"%s\" matches, "
                             "and no rule before it", i, rules->rules[i].match);
    }
    return BZNA_OK;
}

/* Makes the list of fields whose bytes are needed: those of the caller, then "name=field" of each rule. */
static bzna_status list_bytes(bzna_rules *rules, const char *own, bzna_error *err)
{
    const size_t size = own ? strlen(own) : 0, room = size + rules->value_count * 2 * BZNA_NAME_MAX + 1;
    char *at = rules->bytes = malloc(room);

    if (!at)
        return bzna_formats_data_no_memory(err);
    at += snprintf(at, room, "%s", own ? own : "");
    for (size_t i = 0; i < size; i++)
        rules->first += own[i] == ',';
    rules->first += size > 0;
    for (uint32_t i = 0; i < rules->value_count; i++)
        at += snprintf(at, room - (size_t)(at - rules->bytes), "%s%s=%s", at > rules->bytes ? "," : "",
                       rules->values[i].rule->name, rules->values[i].field.name);
    return BZNA_OK;
}

/* ---- Samples -------------------------------------------------------------------------------- */

/* Asks a rule about a value. */
static bzna_status ask(const value *v, const bzna_bytes *bytes, const bzna_make_input *sample, bzna_error *err)
{
    const rule *r = v->rule;
    const bzna_rule_input input = {
        sizeof input, v->field.kind, v->field.name, bytes->data, bytes->size, sample->sample, sample->geometry,
        sample->view_count, 0
    };
    void *const *out = &sample->out[r->tensor];
    uint64_t count = 0;
    bzna_status said;

    memset(out[0], 0, (size_t)r->bytes);
    said = r->given.call(r->given.user, &input, out[0], r->bytes, &count);
    if (said < 0) {
        DATA_FAIL(err, said == BZNA_E_CALLBACK || said < LEAST_DATA ? BZNA_E_CALLBACK : BZNA_E_FORMAT,
                  "the rule \"%s\" returned %d for its %s", r->name, (int)said, v->field.name);
        err->native_code = said;
        return err->status;
    }
    if (r->given.kind != BZNA_RULE_ROWS)
        return BZNA_OK;
    if (count > (uint64_t)r->given.shape[0])
        return DATA_FAIL(err, BZNA_E_MISMATCH, "the rule \"%s\" makes %llu rows of its %s, and there is room for %lld",
                         r->name, (data_llu)count, v->field.name, (long long)r->given.shape[0]);
    *(int64_t *)out[1] = (int64_t)count;
    return BZNA_OK;
}

/* Asks the rules about a sample. Of those that share a tensor, the first one is asked whose field is there. */
static bzna_status make(void *user, const bzna_make_input *sample, bzna_error *err)
{
    const bzna_rules *rules = user;
    uint32_t asked = 0;               /* bits of tensors */

    for (uint32_t i = 0; i < rules->value_count; i++) {
        const value *v = &rules->values[i];
        const bzna_bytes *bytes = &sample->values[rules->first + i];

        if (!bytes->data || !v->rule->given.call || asked >> v->rule->tensor & 1)
            continue;
        asked |= UINT32_C(1) << v->rule->tensor;
        if (ask(v, bytes, sample, err) != BZNA_OK)
            return err->status;
    }
    return BZNA_OK;
}

/* ---- For programs --------------------------------------------------------------------------- */

static bzna_status open_rules(bzna_rules *rules, const bzna_dataset *dataset, const bzna_rule *given, uint32_t count,
                              bzna_loader_config *config, bzna_error *err)
{
    char where[32];

    for (; rules->count < count; rules->count++)
        if (add(rules, &given[rules->count], err) != BZNA_OK) {
            snprintf(where, sizeof where, "rules[%u]", rules->count);
            return bzna_formats_data_prefix(err, where);
        }
    if (find_fields(rules, dataset, err) != BZNA_OK || list_bytes(rules, config->fields.bytes, err) != BZNA_OK)
        return err->status;

    config->fields.bytes = rules->bytes;
    if (rules->made_count) {
        config->fields.made = rules->made;
        config->fields.made_count = rules->made_count;
        config->fields.make = make;
        config->fields.make_user = rules;
    }
    return BZNA_OK;
}

bzna_status bzna_formats_rules_open(const bzna_dataset *dataset, const bzna_rule *given, uint32_t count,
                                    bzna_loader_config *config, bzna_rules **out, bzna_error *err)
{
    bzna_rules *rules = NULL;
    bzna_error e;

    bzna_error_init(&e, sizeof e);
    if (out)
        *out = NULL;
    if (!dataset || !given || !config || !out)
        DATA_MISUSE(&e, "bzna_formats_rules_open: an argument is NULL");
    else if (count < 1 || count > RULES)
        DATA_MISUSE(&e, "rules: there are %u, and must be 1 to %u", count, RULES);
    else if (config->struct_size != sizeof *config)
        DATA_FAIL(&e, BZNA_E_STRUCT_SIZE, "loader_config.struct_size: not set, or of another version");
    else if (config->fields.make || config->fields.made)
        DATA_MISUSE(&e, "rules: loader_config.fields.made and make are set already");
    else if (!(rules = calloc(1, sizeof *rules)))
        bzna_formats_data_no_memory(&e);
    else if (open_rules(rules, dataset, given, count, config, &e) == BZNA_OK)
        *out = rules;
    if (e.status != BZNA_OK)
        bzna_formats_rules_close(rules);
    return bzna_formats_data_return(err, &e);
}

void bzna_formats_rules_close(bzna_rules *rules)
{
    if (!rules)
        return;
    free(rules->values);
    free(rules->bytes);
    free(rules);
}

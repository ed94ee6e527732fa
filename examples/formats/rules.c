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
    char      count[BZNA_NAME_MAX + sizeof "_count"];       /* with ROWS, the name of the tensor with the counts */
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
    char     *bytes;                  /* fields.bytes: the names of the rules, and then the caller's own */
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

/* Returns the rule that a field belongs to, or NULL. */
static const rule *owner_of(const bzna_rules *rules, const char *name)
{
    for (uint32_t i = 0; i < rules->count; i++)
        if (matches(&rules->rules[i], name))
            return &rules->rules[i];
    return NULL;
}

/* ---- Opening -------------------------------------------------------------------------------- */

void bzna_formats_rule_init(bzna_rule *given, size_t struct_size)
{
    bzna_formats_data_init(given, struct_size);
}

/* Copies a rule, and checks it. The library checks dtype, shape, and the names of tensors. */
static bzna_status add(bzna_rules *rules, const bzna_rule *given, bzna_error *err)
{
    rule *r = &rules->rules[rules->count];
    const char *const field = given->field ? given->field : "", *const name = given->name ? given->name : field;
    const int is_rows = given->kind == BZNA_RULE_ROWS, is_bytes = given->kind == BZNA_RULE_BYTES;

    r->given = *given;
    r->given.field = r->given.name = NULL;
    if (given->struct_size != sizeof *given)
        return DATA_FAIL(err, BZNA_E_STRUCT_SIZE, "struct_size: not set, or of another version");
    if (given->reserved[0] || given->reserved[1] || given->reserved[2] || given->reserved[3])
        return DATA_FAIL(err, BZNA_E_STRUCT_SIZE, "reserved: a reserved word must be 0");
    if (!*field || snprintf(r->match, sizeof r->match, "%s", field) >= (int)sizeof r->match)
        return DATA_MISUSE(err, "field: must have 1 to %u bytes", MATCH_BYTES - 1);
    if (!*name || snprintf(r->name, sizeof r->name, "%s", name) >= (int)sizeof r->name || strpbrk(name, ",:=") ||
        (!given->name && (*name == '.' || strpbrk(name, "*?"))))
        return DATA_MISUSE(err, "name: required unless field is a name; 1 to %u bytes without comma, colon and equals "
                           "sign", BZNA_NAME_MAX - 1);
    if (given->kind > BZNA_RULE_ROWS)
        return DATA_MISUSE(err, "kind: %u is not known", given->kind);
    if (is_bytes ? given->call || given->dtype || given->dimensions || given->shape[0] : !given->call)
        return DATA_MISUSE(err, "call, dtype, dimensions, shape: only of tensors, which are made by a call");
    if (given->dimensions > 4 || (is_rows && !given->dimensions))
        return DATA_MISUSE(err, "dimensions: %u; at most 4, and with ROWS at least 1", given->dimensions);

    r->bytes = given->dtype == BZNA_DTYPE_UINT8 ? 1 : given->dtype == BZNA_DTYPE_INT64 ? 8 : 4;
    for (uint32_t i = 0; i < given->dimensions; i++)
        r->bytes *= (uint64_t)given->shape[i];              /* the library refuses what does not fit */

    for (const rule *twin = rules->rules; twin < r; twin++)
        if (!strcmp(twin->name, r->name)) {
            r->tensor = twin->tensor;
            if (twin->given.kind != given->kind || twin->given.dtype != given->dtype ||
                twin->given.dimensions != given->dimensions ||
                memcmp(twin->given.shape, given->shape, sizeof given->shape))
                return DATA_MISUSE(err, "kind, dtype, shape: differ from those of another rule with the name \"%s\"",
                                   r->name);
            return BZNA_OK;
        }
    r->tensor = rules->made_count;
    if (!is_bytes) {
        bzna_made *const made = &rules->made[rules->made_count++];
        *made = (bzna_made){ .name = r->name, .dtype = given->dtype, .dimensions = given->dimensions,
                             .zero = (uint32_t)is_rows };
        memcpy(made->shape, given->shape, sizeof made->shape);
    }
    if (is_rows) {
        snprintf(r->count, sizeof r->count, "%s_count", name);
        rules->made[rules->made_count++] = (bzna_made){ .name = r->count, .dtype = BZNA_DTYPE_INT64, .zero = 1 };
    }
    return BZNA_OK;
}

/* Finds the fields of each rule, and lists those whose bytes are needed: "name=field" of each, and then the caller's
 * own. Fails if there is no field of a rule. */
static bzna_status find_fields(bzna_rules *rules, const bzna_dataset *dataset, const char *own, bzna_error *err)
{
    bzna_dataset_info info;
    size_t room;
    char *at;

    if (bzna_dataset_get_info(dataset, &info, sizeof info, err) != BZNA_OK)
        return err->status;
    room = (info.field_count + (size_t)1) * 2 * BZNA_NAME_MAX + strlen(own);
    rules->values = malloc((info.field_count + (size_t)1) * sizeof *rules->values);
    at = rules->bytes = malloc(room);
    if (!rules->values || !rules->bytes)
        return bzna_formats_data_no_memory(err);

    for (uint32_t i = 0; i < rules->count; i++) {
        const rule *const r = &rules->rules[i];
        const uint32_t before = rules->value_count;

        for (uint32_t k = 0; k < info.field_count; k++) {
            value *v = &rules->values[rules->value_count];
            if (bzna_dataset_field_info(dataset, k, &v->field, sizeof v->field, err) != BZNA_OK)
                return err->status;
            if (owner_of(rules, v->field.name) != r)
                continue;
            v->rule = r;
            rules->value_count++;
            at += snprintf(at, room - (size_t)(at - rules->bytes), "%s=%s,", r->name, v->field.name);
        }
        if (rules->value_count == before)
            return DATA_FAIL(err, BZNA_E_NOT_FOUND, "rules[%u].field: the data set has no field that \"%s\" matches, "
                             "and no rule before it", i, r->match);
    }
    snprintf(*own ? at : at - 1, strlen(own) + 1, "%s", own);           /* without a comma at the end */
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
        const bzna_bytes *bytes = &sample->values[i];

        if (!bytes->data || !v->rule->given.call || asked >> v->rule->tensor & 1)
            continue;
        asked |= UINT32_C(1) << v->rule->tensor;
        if (ask(v, bytes, sample, err) != BZNA_OK)
            return err->status;
    }
    return BZNA_OK;
}

/* ---- For programs --------------------------------------------------------------------------- */

bzna_status bzna_formats_rules_open(const bzna_dataset *dataset, const bzna_rule *given, uint32_t count,
                                    bzna_loader_config *config, bzna_rules **out, bzna_error *err)
{
    bzna_rules *rules = NULL;
    char where[32];
    bzna_error e;

    bzna_error_init(&e, sizeof e);
    if (out)
        *out = NULL;
    if (!dataset || !given || !config || !out || count < 1 || count > RULES)
        DATA_MISUSE(&e, "bzna_formats_rules_open: an argument is NULL, or there are %u rules, and not 1 to %u", count,
                    RULES);
    else if (config->struct_size != sizeof *config)
        DATA_FAIL(&e, BZNA_E_STRUCT_SIZE, "loader_config.struct_size: not set, or of another version");
    else if (config->fields.make || config->fields.made)
        DATA_MISUSE(&e, "rules: loader_config.fields.made and make are set already");
    else if (!(rules = calloc(1, sizeof *rules)))
        bzna_formats_data_no_memory(&e);

    for (; rules && rules->count < count && e.status == BZNA_OK; rules->count++)
        if (add(rules, &given[rules->count], &e) != BZNA_OK) {
            snprintf(where, sizeof where, "rules[%u]", rules->count);
            bzna_formats_data_prefix(&e, where);
        }
    if (e.status != BZNA_OK ||
        find_fields(rules, dataset, config->fields.bytes ? config->fields.bytes : "", &e) != BZNA_OK) {
        bzna_formats_rules_close(rules);
        return bzna_formats_data_return(err, &e);
    }

    config->fields.bytes = rules->bytes;
    if (rules->made_count) {
        config->fields.made = rules->made;
        config->fields.made_count = rules->made_count;
        config->fields.make = make;
        config->fields.make_user = rules;
    }
    *out = rules;
    return BZNA_OK;
}

void bzna_formats_rules_close(bzna_rules *rules)
{
    if (!rules)
        return;
    free(rules->values);
    free(rules->bytes);
    free(rules);
}

/* copied.c - the parts of a sample, other than its picture, that a new data set copies: name, target, split, class
 * names, further fields
 *
 * Left behind are only what the new one says itself: a target a second time (cls, a RecordIO record's label of one
 * whole number), the number of a RecordIO record and its bytes as a whole. */
#include "tool.h"

#include <stdlib.h>
#include <string.h>

/* ---- splits ---- */

static const char *const split_names[] = { NULL, "train", "validation", "test" };

static int offset_order(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void read_split(archive *a, const char *path, uint32_t split)
{
    bzna_dataset_config config;
    bzna_dataset *own = NULL;
    bzna_sample_ref sample = { .struct_size = sizeof sample };
    bzna_dataset_config_init(&config, sizeof config);
    config.split = split_names[split];
    if (bzna_dataset_open(a->context, path, &config, &own, NULL) < 0) return;
    a->split_offsets[split] = tool_checked(calloc(bzna_dataset_count(own) + 1, sizeof(uint64_t)));
    for (uint64_t i = 0; i < bzna_dataset_count(own); i++)
        if (bzna_dataset_sample(own, i, &sample, sizeof sample, NULL) == BZNA_OK)
            a->split_offsets[split][a->split_counts[split]++] = sample.offset;
    qsort(a->split_offsets[split], a->split_counts[split], sizeof(uint64_t), offset_order);
    bzna_dataset_close(own);
}

void archive_read_splits(archive *a, const char *path)
{
    if (strcmp(a->container, "archive")) return;
    for (uint32_t split = 1; split < LENGTH(split_names); split++) read_split(a, path, split);
}

static uint32_t split_of(const archive *a, uint64_t offset)
{
    for (uint32_t split = 1; split < LENGTH(split_names); split++)
        if (a->split_counts[split] &&
            bsearch(&offset, a->split_offsets[split], a->split_counts[split], sizeof offset, offset_order))
            return split;
    return BZNA_SPLIT_NONE;
}


/* ---- names ---- */

bzna_status archive_copied_name(const archive *a, uint64_t index, tool_buffer *buffer, const char **name,
                                bzna_error *err)
{
    bzna_sample_ref sample = { .struct_size = sizeof sample };
    bzna_status status = archive_filename(a, index, buffer, name, err);
    if (status == BZNA_OK && *name && !**name) *name = NULL;      /* in an archive whose other samples have names */
    if (status < 0 || !*name || strcmp(a->container, "tar")) return status;
    const char *slash = strrchr(*name, '/');
    if (strchr(slash ? slash : *name, '.')) return status;         /* a file KEY.name: a key has no dot there */
    if ((status = bzna_dataset_sample(a->dataset, index, &sample, sizeof sample, err)) < 0) return status;
    if (!sample.image_count) return BZNA_OK;
    char *full = tool_format("%s.%s", *name, sample.image_names[0]);
    tool_buffer_reserve(buffer, strlen(full) + 1);
    memcpy(buffer->data, full, strlen(full) + 1);
    free(full);
    *name = (const char *)buffer->data;
    return BZNA_OK;
}


/* ---- fields ---- */

static int is_copied(const archive *a, const bzna_field_info *field, const bzna_sample_ref *sample)
{
    int is_record = !strcmp(a->container, "RecordIO"), is_tar = !strcmp(a->container, "tar");
    if (!strcmp(field->name, "target") || !strcmp(field->name, "name")) return 0;
    if (field->kind == BZNA_FIELD_IMAGE)    /* a further picture: mask, depth */
        return sample->image_count && strcmp(field->name, archive_default_track(sample)) &&
               (is_tar || !strcmp(a->container, "folder pairs") ||
                (!strcmp(a->container, "archive") && strcmp(field->name, "image") && strcmp(field->name, "thumb")));
    if (is_record && (!strcmp(field->name, "id") || !strcmp(field->name, "record"))) return 0;
    if (is_tar && !strcmp(field->name, "cls")) return 0;
    return !is_record || strcmp(field->name, "label") || sample->target == BZNA_TARGET_NONE;
}

/* "train" and so on in a field "split" is the split, in a tar, too, which has such a file as bytes. */
static void note_split(archive_copied *c, bzna_field_value *field)
{
    for (uint32_t i = 1; i < LENGTH(split_names) && !strcmp(field->name, "split"); i++)
        if (field->size == strlen(split_names[i]) && !memcmp(field->data, split_names[i], (size_t)field->size)) {
            if (c->split == BZNA_SPLIT_NONE) c->split = i;
            field->kind = BZNA_FIELD_TEXT;
        }
}

/* The kind of a value that was read. A tar has a picture under any name, KEY.masks, too. */
static uint32_t kind_of(const archive *a, uint64_t index, const bzna_field_info *field, const archive_value *value)
{
    bzna_image_info info = { .struct_size = sizeof info };
    int is_picture = value->kind == BZNA_FIELD_BYTES && !strcmp(a->container, "tar") &&
                     !pack_is_heif(value->data, value->size) &&
                     bzna_dataset_image_info(a->dataset, index, field->name, &info, sizeof info, NULL) == BZNA_OK;
    return is_picture ? (uint32_t)BZNA_FIELD_IMAGE : value->kind;
}

static bzna_status fields_read(const archive *a, const bzna_sample_ref *sample, archive_copied *c, bzna_error *err)
{
    for (uint32_t i = 0; i < a->fields.count && c->count < ARCHIVE_COPIED_MAX; i++) {
        const bzna_field_info *field = &a->fields.list[i];
        archive_value value;
        if (!is_copied(a, field, sample)) continue;
        bzna_status status = archive_value_read(a, sample->index, field, &c->values[c->count], &value, err);
        if (status == BZNA_E_NOT_FOUND) continue;
        if (status < 0) return status;
        if (!sample->image_count && pack_is_heif(value.data, value.size)) continue;      /* the picture */
        memcpy(c->field_names[c->count], field->name, sizeof field->name);
        c->fields[c->count] = (bzna_field_value){
            .struct_size = sizeof *c->fields, .name = c->field_names[c->count], .data = value.data, .size = value.size,
            .kind = kind_of(a, sample->index, field, &value),
        };
        note_split(c, &c->fields[c->count++]);
    }
    return BZNA_OK;
}

bzna_status archive_copied_read(const archive *a, uint64_t index, archive_copied *c, bzna_error *err)
{
    bzna_sample_ref sample = { .struct_size = sizeof sample };
    bzna_status status = bzna_dataset_sample(a->dataset, index, &sample, sizeof sample, err);
    c->count = 0;
    if (status < 0 || (status = bzna_dataset_target(a->dataset, index, &c->target, err)) < 0 ||
        (status = archive_copied_name(a, index, &c->name_buffer, &c->name, err)) < 0) return status;
    sample.index = index;
    sample.target = c->target;
    c->split = split_of(a, sample.offset);
    if ((status = fields_read(a, &sample, c, err)) == BZNA_OK) archive_copied_set_split(c, c->split);
    return status;
}

void archive_copied_set_split(archive_copied *c, uint32_t split)
{
    c->split = split;
    if (split == BZNA_SPLIT_NONE || c->count == ARCHIVE_COPIED_MAX) return;
    for (uint32_t i = 0; i < c->count; i++) if (!strcmp(c->fields[i].name, "split")) return;
    c->fields[c->count++] = (bzna_field_value){
        .struct_size = sizeof *c->fields, .kind = BZNA_FIELD_TEXT, .name = "split", .data = split_names[split],
        .size = strlen(split_names[split]),
    };
}

void archive_copied_free(archive_copied *c)
{
    free(c->name_buffer.data);
    for (size_t i = 0; i < LENGTH(c->values); i++) free(c->values[i].data);
}


/* ---- classes ---- */

int archive_join_classes(tool_names *classes, const archive *a, const char *path)
{
    for (size_t i = 0; i < a->classes.count && i < classes->count; i++)
        if (strcmp(classes->names[i], a->classes.names[i]))
            return tool_error("%s: its class %zu is called \"%s\", and \"%s\" in what comes before it", path, i,
                              a->classes.names[i], classes->names[i]);
    for (size_t i = classes->count; i < a->classes.count; i++)
        tool_names_add(classes, tool_format("%s", a->classes.names[i]));
    return EXIT_OK;
}

void archive_class_folders_add(archive_class_folders *c, const char *name, int64_t target)
{
    const char *slash = name ? strchr(name, '/') : NULL;
    enum { TARGET_MAX = 1000000 };
    if (target == BZNA_TARGET_NONE || c->is_ambiguous) return;
    c->is_ambiguous = !slash || slash == name || target < 0 || target > TARGET_MAX;
    while (!c->is_ambiguous && c->folders.count <= (uint64_t)target) tool_names_add(&c->folders, tool_format("%s", ""));
    if (c->is_ambiguous) return;
    char **folder = &c->folders.names[target];
    size_t length = (size_t)(slash - name);
    if (!**folder) {
        free(*folder);
        *folder = tool_format("%.*s", (int)length, name);
    } else {
        c->is_ambiguous = strlen(*folder) != length || strncmp(*folder, name, length) != 0;
    }
}

static int name_order(const void *a, const void *b) { return strcmp(*(char *const *)a, *(char *const *)b); }

void archive_class_folders_take(archive_class_folders *c, tool_names *classes)
{
    size_t count = c->folders.count;
    char **sorted = tool_checked(calloc(count + 1, sizeof *sorted));
    for (size_t i = 0; i < count; i++) sorted[i] = c->folders.names[i];
    if (count) qsort(sorted, count, sizeof *sorted, name_order);
    for (size_t i = 0; i < count && !c->is_ambiguous; i++)
        c->is_ambiguous = !*sorted[i] || (i && !strcmp(sorted[i - 1], sorted[i]));
    free(sorted);
    if (!c->is_ambiguous && !classes->count) *classes = c->folders;
    else                                     tool_names_free(&c->folders);
}

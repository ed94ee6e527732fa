/* assemble.c - bzna merge, append, subset, split, and index of an archive: archives from samples that are coded already
 *
 * Pictures are copied as they are coded, with targets, names and splits. What an archive cannot hold (a PNG in a tar,
 * say) is left out, by name. The new archive is written as OUT.partial, and renamed when it is complete. */
#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- the new archive ---- */

typedef struct assembly {
    const tool_options *options;
    const char         *path;
    char               *partial;
    int                 file;
    bzna_context       *context;
    bzna_writer        *writer;
    uint64_t            added, left_out;
    tool_buffer         image, thumb, name;
    tool_progress       progress;
} assembly;

/* Opens the writer, with the names of from's classes, if it has any. */
static bzna_status writer_open(assembly *a, const archive *from, bzna_error *err)
{
    bzna_writer_config config;
    char name[65536], **names = NULL;
    bzna_writer_config_init(&config, sizeof config);
    while (from && bzna_dataset_class(from->dataset, config.class_count, name, sizeof name, NULL, NULL) == BZNA_OK) {
        if (!(config.class_count & (config.class_count - 1)))
            names = tool_checked(realloc(names, 2 * (config.class_count + 1) * sizeof *names));
        names[config.class_count++] = tool_format("%s", name);
    }
    config.classes = (const char *const *)names;
    bzna_status status = bzna_writer_open(a->context, a->partial, &config, &a->writer, err);
    for (uint32_t i = 0; i < config.class_count; i++) free(names[i]);
    free(names);
    return status;
}

/* from: whose classes' names are kept; NULL: there are none. */
static int assembly_open(assembly *a, const tool_options *o, const char *path, const archive *from)
{
    const bzna_device cpu = { BZNA_DEVICE_CPU, 0 };
    bzna_error err = tool_empty_error();
    *a = (assembly){ .options = o, .path = path, .file = -1, .partial = tool_format("%s.partial", path) };
    struct stat status;
    if (tool_partial_open(a->partial, &a->file)) return EXIT_INPUT;
    if (!fstat(a->file, &status) && status.st_size > TOOL_ARCHIVE_FIRST && !o->overwrite) {
        close(a->file);
        a->file = -1;
        return tool_error("%s: an interrupted run has left it; to replace it: --overwrite", a->partial);
    }
    if (ftruncate(a->file, 0)) return tool_error("%s: cannot be written: %s", a->partial, strerror(errno));
    if (archive_open_context(cpu, 0, &a->context, &err) < 0 ||
        writer_open(a, from, &err) < 0) return tool_error("%s", err.message);
    return EXIT_OK;
}

static int assembly_finish(assembly *a)
{
    bzna_error err = tool_empty_error();
    if (bzna_writer_finish(a->writer, &err) < 0) return tool_error("%s: %s", a->partial, err.message);
    int result = tool_partial_rename(a->partial, a->file, a->path, a->options->overwrite);
    if (result != EXIT_OK) return result;
    if (a->options->json) {
        fputs("{\"archive\":", stdout);
        tool_json_string(a->path);
        printf(",\"samples\":%" PRIu64 ",\"left_out\":%" PRIu64 "}\n", a->added, a->left_out);
    } else {
        printf("%s: %" PRIu64 " samples\n", a->path, a->added);
    }
    if (!a->left_out) return EXIT_OK;
    return tool_error("%" PRIu64 " of %" PRIu64 " samples are left out", a->left_out, a->added + a->left_out);
}

static void assembly_close(assembly *a, int result)
{
    bzna_writer_close(a->writer);
    bzna_context_close(a->context);
    if (result != EXIT_OK && a->file >= 0 && !a->left_out) unlink(a->partial);
    if (a->file >= 0) close(a->file);
    free(a->partial);
    free(a->image.data);
    free(a->thumb.data);
    free(a->name.data);
}


/* ---- samples of data sets ---- */

/* Where the samples of an archive's splits lie, sorted. */
typedef struct part {
    const char *path;
    archive     archive;
    archive_fields fields;
    uint64_t   *offsets[4];
    size_t      counts[4];
    int         is_unindexed;         /* targets and names stand in the samples only */
} part;

static int offset_order(const void *a, const void *b)
{
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

static void part_read_split(part *p, uint32_t split)
{
    static const char *const names[] = { NULL, "train", "validation", "test" };
    bzna_dataset_config config;
    bzna_dataset *own = NULL;
    bzna_sample sample = { .struct_size = sizeof sample };
    bzna_dataset_config_init(&config, sizeof config);
    config.split = names[split];
    if (bzna_dataset_open(p->archive.context, p->path, &config, &own, NULL) < 0) return;
    p->offsets[split] = tool_checked(calloc(bzna_dataset_count(own) + 1, sizeof(uint64_t)));
    for (uint64_t i = 0; i < bzna_dataset_count(own); i++)
        if (bzna_dataset_get_sample(own, i, &sample, sizeof sample, NULL) == BZNA_OK)
            p->offsets[split][p->counts[split]++] = sample.offset;
    qsort(p->offsets[split], p->counts[split], sizeof(uint64_t), offset_order);
    bzna_dataset_close(own);
}

static int part_open(part *p, const tool_options *o, char *path)
{
    tool_options one = *o;
    *p = (part){ .path = path };
    one.operand = &path;
    one.operand_count = 1;
    if (archive_open(&p->archive, &one)) return EXIT_INPUT;
    p->fields = archive_fields_read(&p->archive);
    for (uint32_t split = 1; split < 4; split++) part_read_split(p, split);
    return EXIT_OK;
}

static void part_close(part *p)
{
    archive_close(&p->archive);
    archive_fields_free(&p->fields);
    for (int split = 0; split < 4; split++) free(p->offsets[split]);
}

static uint32_t split_of(const part *p, uint64_t offset)
{
    for (uint32_t split = 1; split < 4; split++)
        if (p->counts[split] &&
            bsearch(&offset, p->offsets[split], p->counts[split], sizeof offset, offset_order)) return split;
    return BZNA_SPLIT_NONE;
}

/* A thumbnail that is a picture of its own. */
static int has_thumb(const archive *a, uint64_t index, const char *track)
{
    bzna_image_info input, thumb;
    return bzna_dataset_get_image_info(a->dataset, index, track, &input, sizeof input, NULL) == BZNA_OK &&
           bzna_dataset_get_image_info(a->dataset, index, "thumb", &thumb, sizeof thumb, NULL) == BZNA_OK &&
           input.data_offset != thumb.data_offset;
}

/* Target, name and further fields. */
static bzna_status values_read(assembly *a, const archive *from, const archive_fields *fields, uint64_t index,
                               bzna_sample_desc *desc, archive_values *values, bzna_error *err)
{
    bzna_status status = bzna_dataset_target(from->dataset, index, &desc->target, err);
    if (status == BZNA_OK) status = archive_filename(from, index, &a->name, &desc->name, err);
    if (status == BZNA_OK) status = archive_values_read(from, fields, index, values, err);
    desc->fields = values->list;
    desc->field_count = values->count;
    return status;
}

/* The same as a sample has them itself: it is an mp4 of its own, in memory. The names of its fields are kept. */
static bzna_status inner_read(assembly *a, uint64_t size, bzna_sample_desc *desc, archive_fields *fields,
                              archive_values *values, bzna_error *err)
{
    archive inner = { .context = a->context };
    bzna_status status = bzna_dataset_open_memory(a->context, a->image.data, size, NULL, &inner.dataset, err);
    if (status < 0) return status;
    *fields = archive_fields_read(&inner);
    status = values_read(a, &inner, fields, 0, desc, values, err);
    bzna_dataset_close(inner.dataset);
    return status;
}

static bzna_status sample_copy(assembly *a, const part *p, uint64_t index, bzna_error *err)
{
    bzna_sample s = { .struct_size = sizeof s };
    bzna_sample_desc desc;
    bzna_image input, thumb;
    archive_fields fields = { NULL, 0 };
    archive_values values = { .count = 0 };
    bzna_status status = bzna_dataset_get_sample(p->archive.dataset, index, &s, sizeof s, err);
    if (status < 0) return status;
    const char *track = archive_default_track(&s);
    bzna_sample_desc_init(&desc, sizeof desc);
    desc.split = split_of(p, s.offset);
    desc.image = &input;
    if ((status = archive_read_picture(&p->archive, index, track, &a->image, &input, err)) < 0) return status;
    status = p->is_unindexed ? inner_read(a, s.size, &desc, &fields, &values, err)
                             : values_read(a, &p->archive, &p->fields, index, &desc, &values, err);
    input.orientation = 0;            /* a JPEG says it itself */
    if (status >= 0 && has_thumb(&p->archive, index, track)) {
        status = archive_read_picture(&p->archive, index, "thumb", &a->thumb, &thumb, err);
        thumb.orientation = 0;
        desc.thumb = &thumb;
    }
    if (status >= 0) status = bzna_writer_add(a->writer, &desc, err);
    archive_values_free(&values);
    archive_fields_free(&fields);
    return status;
}

/* A sample that cannot be copied is left out; EXIT_INPUT where none could be any more. */
static int sample_add(assembly *a, const part *p, uint64_t index)
{
    bzna_error err = tool_empty_error();
    bzna_status status = sample_copy(a, p, index, &err);
    tool_progress_show(&a->progress, a->added + a->left_out);
    if (status >= 0) return a->added++, EXIT_OK;
    tool_error("%s: sample %" PRIu64 " is left out: %s", p->path, index, err.message);
    a->left_out++;
    return status == BZNA_E_IO || status == BZNA_E_MEMORY || status == BZNA_E_STATE ? EXIT_INPUT : EXIT_OK;
}

static int range_add(assembly *a, const part *p, uint64_t first, uint64_t end)
{
    int result = EXIT_OK;
    for (uint64_t i = first; i < end && result == EXIT_OK; i++) result = sample_add(a, p, i);
    return result;
}


/* ---- the commands ---- */

static int refuse_existing(const tool_options *o)
{
    if (!o->out) return tool_usage_error(o->command, "-o must be given");
    if (o->overwrite || !tool_path_exists(o->out)) return EXIT_OK;
    tool_error("%s: already exists; to replace it: --overwrite", o->out);
    return EXIT_USAGE;
}

/* All samples of all operands, into path. */
static int concatenate(const tool_options *o, const char *path)
{
    assembly a;
    part *parts = tool_checked(calloc((size_t)o->operand_count, sizeof *parts));
    int result = EXIT_OK, opened = 0;
    uint64_t total = 0;
    while (result == EXIT_OK && opened < o->operand_count) {
        result = part_open(&parts[opened], o, o->operand[opened]);
        if (result == EXIT_OK) total += parts[opened++].archive.count;
    }
    if (result == EXIT_OK) {
        int named = 0;                /* the first that has names of classes */
        while (named < opened - 1 &&
               bzna_dataset_class(parts[named].archive.dataset, 0, NULL, 0, NULL, NULL) == BZNA_E_NOT_FOUND) named++;
        result = assembly_open(&a, o, path, &parts[named].archive);
        a.progress = tool_progress_start("samples", total);
        for (int i = 0; i < opened && result == EXIT_OK; i++)
            result = range_add(&a, &parts[i], 0, parts[i].archive.count);
        tool_progress_end(&a.progress);
        if (result == EXIT_OK) result = assembly_finish(&a);
        assembly_close(&a, result);
    }
    for (int i = 0; i < opened; i++) part_close(&parts[i]);
    free(parts);
    return result;
}

int tool_run_merge(const tool_options *o)
{
    int result = refuse_existing(o);
    return result == EXIT_OK ? concatenate(o, o->out) : result;
}

int tool_run_append(const tool_options *o)
{
    tool_options replacing = *o;
    if (o->operand_count < 2) return tool_usage_error(o->command, "too few arguments");
    replacing.overwrite = 1;
    return concatenate(&replacing, o->operand[0]);
}

/* Numbers of samples, with anything that is no digit between them. */
static int indices_add(assembly *a, const part *p, const char *path)
{
    FILE *in = fopen(path, "r");
    uint64_t index;
    int result = EXIT_OK, got = 0;
    if (!in) return tool_error("%s: cannot be opened: %s", path, strerror(errno));
    while (result == EXIT_OK && (got = fscanf(in, "%" SCNu64, &index)) == 1)
        result = index < p->archive.count ? sample_add(a, p, index)
            : tool_error("%s: there is no sample %" PRIu64 ": there are %" PRIu64, path, index, p->archive.count);
    if (result == EXIT_OK && got != EOF) result = tool_error("%s: must hold numbers of samples, from 0", path);
    fclose(in);
    return result;
}

/* The samples of a class, by its name or its number. */
static int class_add(assembly *a, const part *p, const char *class)
{
    char name[256], *end;
    int64_t wanted = strtoll(class, &end, 10), target;
    int is_number = end != class && !*end, result = EXIT_OK;
    for (uint64_t i = 0; i < p->archive.count && result == EXIT_OK; i++) {
        if (bzna_dataset_target(p->archive.dataset, i, &target, NULL) < 0 || target == BZNA_TARGET_NONE) continue;
        int is_it = is_number && target == wanted;
        if (!is_number && target >= 0)
            is_it = bzna_dataset_class(p->archive.dataset, target, name, sizeof name, NULL, NULL) == BZNA_OK &&
                    !strcmp(name, class);
        if (is_it) result = sample_add(a, p, i);
    }
    if (result == EXIT_OK && !a->added && !a->left_out)
        result = tool_error("%s: no sample is of class \"%s\"", p->path, class);
    return result;
}

int tool_run_subset(const tool_options *o)
{
    assembly a;
    part p;
    if (!o->indices == !o->class_name) return tool_usage_error(o->command, "give --indices or --class");
    int result = refuse_existing(o);
    if (result != EXIT_OK) return result;
    if (part_open(&p, o, o->operand[0])) return EXIT_INPUT;
    result = assembly_open(&a, o, o->out, &p.archive);
    a.progress = tool_progress_start("samples", p.archive.count);
    if (result == EXIT_OK) result = o->indices ? indices_add(&a, &p, o->indices) : class_add(&a, &p, o->class_name);
    tool_progress_end(&a.progress);
    if (result == EXIT_OK) result = assembly_finish(&a);
    assembly_close(&a, result);
    part_close(&p);
    return result;
}

/* OUT-00000-of-00004.bzna of OUT.bzna. */
static char *share_path(const char *out, int64_t share, int64_t count)
{
    const char *slash = strrchr(out, '/'), *dot = strrchr(slash ? slash : out, '.');
    int stem = (int)(dot ? dot - out : (ptrdiff_t)strlen(out));
    return tool_format("%.*s-%05" PRId64 "-of-%05" PRId64 "%s", stem, out, share, count, dot ? dot : "");
}

static int share_write(const tool_options *o, const part *p, int64_t share)
{
    assembly a;
    char *path = share_path(o->out, share, o->parts);
    uint64_t first = p->archive.count * (uint64_t)share / (uint64_t)o->parts;
    uint64_t end = p->archive.count * (uint64_t)(share + 1) / (uint64_t)o->parts;
    int result = EXIT_OK;
    if (!o->overwrite && tool_path_exists(path)) {
        result = tool_error("%s: already exists; to replace it: --overwrite", path);
    } else {
        result = assembly_open(&a, o, path, &p->archive);
        a.progress = tool_progress_start("samples", end - first);
        if (result == EXIT_OK) result = range_add(&a, p, first, end);
        tool_progress_end(&a.progress);
        if (result == EXIT_OK) result = assembly_finish(&a);
        assembly_close(&a, result);
    }
    free(path);
    return result;
}

int tool_run_split(const tool_options *o)
{
    part p;
    int result = EXIT_OK;
    if (!o->out || !o->parts) return tool_usage_error(o->command, "-o and --parts must be given");
    if (part_open(&p, o, o->operand[0])) return EXIT_INPUT;
    if (p.archive.count < (uint64_t)o->parts)
        result = tool_error("%s: has only %" PRIu64 " samples", p.path, p.archive.count);
    for (int64_t i = 0; i < o->parts && result == EXIT_OK; i++) result = share_write(o, &p, i);
    part_close(&p);
    return result;
}


/* ---- archives that lost their index ---- */

/* Reads the header of the box at `at`. Returns its size, 0 if there is no whole box. */
static uint64_t box_at(int file, uint64_t at, uint64_t end, char type[5], uint64_t *header)
{
    uint8_t bytes[16];
    ssize_t got = pread(file, bytes, sizeof bytes, (off_t)at);
    uint64_t size = 0;
    if (got < 8) return 0;
    memcpy(type, bytes + 4, 4);
    type[4] = 0;
    *header = 8;
    for (int i = 0; i < 4; i++) size = size << 8 | bytes[i];
    if (size == 1) {
        if (got < 16) return 0;
        size = 0;
        *header = 16;
        for (int i = 8; i < 16; i++) size = size << 8 | bytes[i];
    }
    return size < *header || size > end - at ? 0 : size;
}

/* The bytes of the sample at `at`: ftyp, then boxes up to the next ftyp; 0 if no whole sample begins there. */
static uint64_t sample_size_at(int file, uint64_t at, uint64_t end)
{
    char type[5];
    uint64_t header, next = at, size;
    int has_moov = 0, has_mdat = 0;
    while (next < end && (size = box_at(file, next, end, type, &header)) != 0) {
        int is_ftyp = !strcmp(type, "ftyp");
        if ((next == at) != is_ftyp || !tool_is_choice("ftyp|mdat|moov|free|skip|uuid|udta|meta", type)) break;
        has_moov |= !strcmp(type, "moov");
        has_mdat |= !strcmp(type, "mdat");
        next += size;
    }
    return has_moov && has_mdat ? next - at : 0;
}

/* The sizes of the samples that are whole, to be freed. */
static uint64_t *sizes_find(int file, uint64_t first, uint64_t end, size_t *count)
{
    uint64_t *sizes = NULL, size;
    size_t capacity = 0;
    for (*count = 0; first < end && (size = sample_size_at(file, first, end)) != 0; first += size) {
        if (*count == capacity) {
            capacity = capacity ? 2 * capacity : 1024;
            sizes = tool_checked(realloc(sizes, capacity * sizeof *sizes));
        }
        sizes[(*count)++] = size;
    }
    return sizes;
}

static int samples_recover(const tool_options *o, part *p, int file, uint64_t first, uint64_t end)
{
    assembly a;
    size_t count;
    uint64_t *sizes = sizes_find(file, first, end, &count);
    int result = count ? EXIT_OK : tool_error("%s: no whole sample was found in it", p->path);
    if (result == EXIT_OK) result = assembly_open(&a, o, o->out, NULL);
    if (result == EXIT_OK) {
        p->archive.context = a.context;
        result = archive_open_unindexed(&p->archive, file, first, sizes, count);
        a.progress = tool_progress_start("samples", count);
        if (result == EXIT_OK) result = range_add(&a, p, 0, count);
        tool_progress_end(&a.progress);
        bzna_dataset_close(p->archive.dataset);
    }
    if (count) {
        if (result == EXIT_OK) result = assembly_finish(&a);
        assembly_close(&a, result);
    }
    free(sizes);
    return result;
}

int index_recover_archive(const tool_options *o, const char *path)
{
    struct stat status;
    char type[5];
    uint64_t header, first, size;
    part p = { .path = path, .is_unindexed = 1 };
    int result = refuse_existing(o), file = -1;
    if (result != EXIT_OK) return result;
    file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &status)) result = tool_error("%s: cannot be opened: %s", path, strerror(errno));
    if (result == EXIT_OK) {
        uint64_t end = (uint64_t)status.st_size;
        first = box_at(file, 0, end, type, &header);
        size = first && !strcmp(type, "ftyp") ? box_at(file, first, UINT64_MAX, type, &header) : 0;
        if (!first || strcmp(type, "mdat")) {
            /* An unfinished mdat has length 0: its header is there all the same. */
            result = tool_error("%s: is not an archive: it does not begin with ftyp and mdat", path);
        } else {
            if (size && size <= end - first) end = first + size;
            result = samples_recover(o, &p, file, first + header, end);
        }
    }
    if (file >= 0) close(file);
    return result;
}

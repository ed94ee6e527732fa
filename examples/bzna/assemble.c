/* assemble.c - bzna merge, append, subset, split, and index of an archive: archives from samples that are coded already
 *
 * Pictures are copied as they are coded, with targets, names and splits. What an archive cannot hold (a PNG in a tar,
 * say) is left out, by name. The new archive is written as OUT.partial, and renamed when it is complete. */
#include "tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* ---- the new archive ---- */

typedef struct assembly {
    const tool_options *options;
    const char         *path;
    char               *partial;
    int                 file;
    bzna_context       *context;
    bzna_writer        *writer;
    uint64_t            added, left_out;
    int                 is_kept;                  /* the partial file has another name now, or is whole */
    tool_buffer         image, thumb;
    archive_copied      copied;
    tool_progress       progress;
} assembly;

static int assembly_open(assembly *a, const tool_options *o, const char *path, const tool_names *classes)
{
    bzna_writer_config config;
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
    bzna_writer_config_init(&config, sizeof config);
    config.class_count = (uint32_t)classes->count;
    config.classes = (const char *const *)classes->names;
    if (archive_open_context(cpu, 0, &a->context, &err) < 0 ||
        bzna_writer_open(a->context, a->partial, &config, &a->writer, &err) < 0) return tool_error("%s", err.message);
    return EXIT_OK;
}

static int assembly_finish(assembly *a)
{
    bzna_error err = tool_empty_error();
    if (!a->added)
        return tool_error("%s: nothing is written, since none of %" PRIu64 " samples could be", a->path, a->left_out);
    if (bzna_writer_finish(a->writer, &err) < 0) return tool_error("%s", err.message);
    int result = tool_partial_rename(a->partial, a->file, a->path, a->options->overwrite);
    a->is_kept = result == EXIT_OK || (!a->options->overwrite && tool_path_exists(a->path));
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

static void assembly_close(assembly *a)
{
    bzna_writer_close(a->writer);
    bzna_context_close(a->context);
    if (a->file >= 0 && !a->is_kept) unlink(a->partial);
    if (a->file >= 0) close(a->file);
    free(a->partial);
    free(a->image.data);
    free(a->thumb.data);
    archive_copied_free(&a->copied);
}


/* ---- samples of data sets ---- */

typedef struct part {
    const char *path;
    archive     archive;
    int         is_unindexed;         /* targets, names and fields are in the samples only */
} part;

static int part_open(part *p, const tool_options *o, char *path)
{
    tool_options one = *o;
    *p = (part){ .path = path };
    one.operand = &path;
    one.operand_count = 1;
    if (archive_open(&p->archive, &one)) return EXIT_INPUT;
    archive_read_splits(&p->archive, path);
    return EXIT_OK;
}

/* A thumbnail that is a picture of its own. */
static int has_thumb(const archive *a, uint64_t index, const char *track)
{
    bzna_image_info input, thumb;
    return bzna_dataset_image_info(a->dataset, index, track, &input, sizeof input, NULL) == BZNA_OK &&
           bzna_dataset_image_info(a->dataset, index, "thumb", &thumb, sizeof thumb, NULL) == BZNA_OK &&
           input.data_offset != thumb.data_offset;
}

/* The same of a sample that is an mp4 of its own, in memory. */
static bzna_status unindexed_read(assembly *a, uint64_t size, bzna_error *err)
{
    archive inner = { .context = a->context };
    bzna_status status = bzna_dataset_open_memory(a->context, a->image.data, size, NULL, &inner.dataset, err);
    if (status == BZNA_OK) archive_describe(&inner);
    if (status == BZNA_OK) status = archive_copied_read(&inner, 0, &a->copied, err);
    inner.context = NULL;
    archive_close(&inner);
    return status;
}

static bzna_status sample_copy(assembly *a, const part *p, uint64_t index, bzna_error *err)
{
    bzna_sample_ref s = { .struct_size = sizeof s };
    bzna_writer_sample desc;
    bzna_image input, thumb;
    archive_copied *c = &a->copied;
    bzna_status status = bzna_dataset_sample(p->archive.dataset, index, &s, sizeof s, err);
    if (status < 0) return status;
    const char *track = archive_default_track(&s);
    if ((status = archive_read_picture(&p->archive, index, track, &a->image, &input, err)) < 0) return status;
    status = p->is_unindexed ? unindexed_read(a, s.size, err) : archive_copied_read(&p->archive, index, c, err);
    if (status < 0) return status;
    bzna_writer_sample_init(&desc, sizeof desc);
    desc.image = &input;
    desc.target = c->target;
    desc.has_target = c->target != BZNA_TARGET_NONE;
    desc.name = c->name;
    desc.split = c->split;
    desc.fields = c->fields;
    desc.field_count = c->count;
    input.orientation = 0;            /* a JPEG says it itself */
    if (has_thumb(&p->archive, index, track)) {
        if ((status = archive_read_picture(&p->archive, index, "thumb", &a->thumb, &thumb, err)) < 0) return status;
        thumb.orientation = 0;
        desc.thumb = &thumb;
    }
    return bzna_writer_add(a->writer, BZNA_INDEX_NEXT, &desc, 0, err);
}

/* A sample that cannot be copied is left out; EXIT_INPUT where none could be any more. */
static int sample_add(assembly *a, const part *p, uint64_t index)
{
    bzna_error err = tool_empty_error();
    bzna_status status = sample_copy(a, p, index, &err);
    tool_progress_show(&a->progress, a->added + a->left_out);
    if (status >= 0) return a->added++, EXIT_OK;
    if (status == BZNA_E_IO || status == BZNA_E_MEMORY || status == BZNA_E_STATE)
        return tool_error("%s: sample %" PRIu64 ": %s", p->path, index, err.message);
    tool_error("%s: sample %" PRIu64 " is left out: %s", p->path, index, err.message);
    a->left_out++;
    return EXIT_OK;
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
    if (!o->out) return tool_usage_error(o->command, "-o is required");
    return tool_refuse_existing(o->out, o->overwrite);
}

/* All samples of all operands, into path. */
static int concatenate(const tool_options *o, const char *path)
{
    assembly a;
    part *parts = tool_checked(calloc((size_t)o->operand_count, sizeof *parts));
    int result = EXIT_OK, opened = 0;
    uint64_t total = 0;
    tool_names classes = { NULL, 0, 0 };
    while (result == EXIT_OK && opened < o->operand_count) {
        part *p = &parts[opened];
        result = part_open(p, o, o->operand[opened]);
        if (result != EXIT_OK) break;
        total += p->archive.count;
        opened++;
        result = archive_join_classes(&classes, &p->archive, p->path);
    }
    if (result == EXIT_OK) {
        result = assembly_open(&a, o, path, &classes);
        a.progress = tool_progress_start("samples", total);
        for (int i = 0; i < opened && result == EXIT_OK; i++)
            result = range_add(&a, &parts[i], 0, parts[i].archive.count);
        tool_progress_end(&a.progress);
        if (result == EXIT_OK) result = assembly_finish(&a);
        assembly_close(&a);
    }
    for (int i = 0; i < opened; i++) archive_close(&parts[i].archive);
    free(parts);
    tool_names_free(&classes);
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

static int indices_add(assembly *a, const part *p, const char *path)
{
    uint64_t *indices, count;
    int result = archive_read_indices(&p->archive, path, &indices, &count);
    for (uint64_t i = 0; i < count && result == EXIT_OK; i++) result = sample_add(a, p, indices[i]);
    free(indices);
    return result;
}

/* The samples of a class, by its name or its number. */
static int class_add(assembly *a, const part *p, const char *class)
{
    char *end;
    int64_t wanted = strtoll(class, &end, 10), target;
    size_t named = tool_names_find(&p->archive.classes, class);
    int result = EXIT_OK;
    if (named < p->archive.classes.count) wanted = (int64_t)named;
    else if (end == class || *end)
        return tool_error(p->archive.classes.count ? "%s: there is no class \"%s\"; bzna info --json lists them"
                          : "%s: its classes have no names: \"%s\" must be a number", p->path, class);
    for (uint64_t i = 0; i < p->archive.count && result == EXIT_OK; i++)
        if (bzna_dataset_target(p->archive.dataset, i, &target, NULL) == BZNA_OK && target == wanted &&
            target != BZNA_TARGET_NONE)
            result = sample_add(a, p, i);
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
    result = assembly_open(&a, o, o->out, &p.archive.classes);
    a.progress = tool_progress_start("samples", p.archive.count);
    if (result == EXIT_OK) result = o->indices ? indices_add(&a, &p, o->indices) : class_add(&a, &p, o->class_name);
    tool_progress_end(&a.progress);
    if (result == EXIT_OK) result = assembly_finish(&a);
    assembly_close(&a);
    archive_close(&p.archive);
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
    int result = tool_refuse_existing(path, o->overwrite);
    if (result == EXIT_OK) {
        result = assembly_open(&a, o, path, &p->archive.classes);
        a.progress = tool_progress_start("samples", end - first);
        if (result == EXIT_OK) result = range_add(&a, p, first, end);
        tool_progress_end(&a.progress);
        if (result == EXIT_OK) result = assembly_finish(&a);
        assembly_close(&a);
    }
    free(path);
    return result;
}

int tool_run_split(const tool_options *o)
{
    part p;
    int result = EXIT_OK;
    if (!o->out || !o->parts) return tool_usage_error(o->command, "-o and --parts are required");
    if (part_open(&p, o, o->operand[0])) return EXIT_INPUT;
    if (p.archive.count < (uint64_t)o->parts)
        result = tool_error("%s: has only %" PRIu64 " samples", p.path, p.archive.count);
    for (int64_t i = 0; i < o->parts && result == EXIT_OK; i++) result = share_write(o, &p, i);
    archive_close(&p.archive);
    return result;
}


/* ---- archives that lost their index ---- */

typedef struct file_box {
    uint64_t size, header;            /* size: 0: no whole box is there */
    char     type[5];
} file_box;

/* Reads the header of the box at `at`. Sets *error to errno where that cannot be read. */
static file_box box_at(int file, uint64_t at, uint64_t end, int *error)
{
    uint8_t bytes[16];
    file_box box = { .header = 8 };
    uint64_t size = 0;
    ssize_t got = 0, more = 1;
    while (got < (ssize_t)sizeof bytes && more > 0) {
        more = pread(file, bytes + got, sizeof bytes - (size_t)got, (off_t)at + got);
        if (more < 0 && errno == EINTR) more = 1;
        else if (more > 0) got += more;
    }
    if (more < 0) *error = errno;
    if (more < 0 || got < 8) return box;
    memcpy(box.type, bytes + 4, 4);
    for (int i = 0; i < 4; i++) size = size << 8 | bytes[i];
    if (size == 1) {
        if (got < 16) return box;
        size = 0;
        box.header = 16;
        for (int i = 8; i < 16; i++) size = size << 8 | bytes[i];
    }
    if (size >= box.header && size <= end - at) box.size = size;
    return box;
}

/* The bytes of the sample at `at`: ftyp, then boxes up to the next ftyp; 0 if no whole sample begins there. */
static uint64_t sample_size_at(int file, uint64_t at, uint64_t end, int *error)
{
    file_box box;
    uint64_t next = at;
    int has_moov = 0, has_mdat = 0;
    while (next < end && (box = box_at(file, next, end, error)).size) {
        int is_ftyp = !strcmp(box.type, "ftyp");
        if ((next == at) != is_ftyp || !tool_is_choice("ftyp|mdat|moov|free|skip|uuid|udta|meta", box.type)) break;
        has_moov |= !strcmp(box.type, "moov");
        has_mdat |= !strcmp(box.type, "mdat");
        next += box.size;
    }
    return has_moov && has_mdat ? next - at : 0;
}

/* The sizes of the samples that are whole, to be freed. */
static uint64_t *sizes_find(int file, uint64_t first, uint64_t end, size_t *count, int *error)
{
    uint64_t *sizes = NULL, size;
    size_t capacity = 0;
    for (*count = 0; first < end && (size = sample_size_at(file, first, end, error)) != 0; first += size) {
        if (*count == capacity) {
            capacity = capacity ? 2 * capacity : 1024;
            sizes = tool_checked(realloc(sizes, capacity * sizeof *sizes));
        }
        sizes[(*count)++] = size;
    }
    return sizes;
}

/* The names of the classes, as far as the names of samples tell. Damaged samples tell nothing. */
static int classes_recover(const part *p, tool_names *classes)
{
    archive_class_folders folders = { .is_ambiguous = 0 };
    assembly a = { .context = p->archive.context };
    bzna_error err = tool_empty_error();
    for (uint64_t i = 0; i < p->archive.count && !folders.is_ambiguous; i++) {
        bzna_sample_ref s = { .struct_size = sizeof s };
        bzna_image image;
        bzna_status status = bzna_dataset_sample(p->archive.dataset, i, &s, sizeof s, &err);
        if (status == BZNA_OK)
            status = archive_read_picture(&p->archive, i, archive_default_track(&s), &a.image, &image, &err);
        if (status == BZNA_OK) status = unindexed_read(&a, s.size, &err);
        if (status == BZNA_E_IO) break;
        if (status == BZNA_OK) archive_class_folders_add(&folders, a.copied.name, a.copied.target);
    }
    archive_class_folders_take(&folders, classes);
    free(a.image.data);
    archive_copied_free(&a.copied);
    return err.status == BZNA_E_IO ? tool_error("%s: %s", p->path, err.message) : EXIT_OK;
}

static int samples_recover(const tool_options *o, part *p, const tool_names *classes)
{
    assembly a;
    int result = assembly_open(&a, o, o->out, classes);
    a.progress = tool_progress_start("samples", p->archive.count);
    if (result == EXIT_OK) result = range_add(&a, p, 0, p->archive.count);
    tool_progress_end(&a.progress);
    if (result == EXIT_OK) result = assembly_finish(&a);
    assembly_close(&a);
    return result;
}

/* The samples from byte `first` on, as far as they are whole. */
static int range_recover(const tool_options *o, part *p, int file, uint64_t first, uint64_t end)
{
    const bzna_device cpu = { BZNA_DEVICE_CPU, 0 };
    bzna_error err = tool_empty_error();
    size_t count;
    tool_names classes = { NULL, 0, 0 };
    int error = 0, result = EXIT_OK;
    uint64_t *sizes = sizes_find(file, first, end, &count, &error);
    if (error) result = tool_error("%s: cannot be read: %s", p->path, strerror(error));
    else if (!count) result = tool_error("%s: no whole sample was found in it", p->path);
    if (result == EXIT_OK && o->classes) result = tool_names_read(&classes, o->classes);
    if (result == EXIT_OK && archive_open_context(cpu, 0, &p->archive.context, &err) < 0)
        result = tool_error("%s", err.message);
    if (result == EXIT_OK) result = archive_open_unindexed(&p->archive, file, first, sizes, count);
    if (result == EXIT_OK && !o->classes) result = classes_recover(p, &classes);
    if (result == EXIT_OK) result = samples_recover(o, p, &classes);
    archive_close(&p->archive);
    tool_names_free(&classes);
    free(sizes);
    return result;
}

int index_recover_archive(const tool_options *o, const char *path)
{
    struct stat status;
    part p = { .path = path, .is_unindexed = 1 };
    int result = refuse_existing(o), file = -1;
    if (result != EXIT_OK) return result;
    file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0 || fstat(file, &status)) result = tool_error("%s: cannot be opened: %s", path, strerror(errno));
    if (result == EXIT_OK) {
        uint64_t end = (uint64_t)status.st_size;
        int error = 0;
        file_box ftyp = box_at(file, 0, end, &error), mdat = { .size = 0 };
        if (ftyp.size && !strcmp(ftyp.type, "ftyp")) mdat = box_at(file, ftyp.size, UINT64_MAX, &error);
        if (error) {
            result = tool_error("%s: cannot be read: %s", path, strerror(error));
        } else if (strcmp(mdat.type, "mdat")) {
            /* An unfinished mdat has length 0: its header is there all the same. */
            result = tool_error("%s: is not an archive: it does not begin with ftyp and mdat", path);
        } else {
            if (mdat.size && mdat.size <= end - ftyp.size) end = ftyp.size + mdat.size;
            result = range_recover(o, &p, file, ftyp.size + mdat.header, end);
        }
    }
    if (file >= 0) close(file);
    return result;
}

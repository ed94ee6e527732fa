/* pack_output.c - the archive that is written, and how an interrupted run continues
 *
 * The archive is written as OUT.partial, which is locked, with a log next to it, and gets its name when it is complete:
 * under the name OUT there is never half an archive. --resume gives the samples that are in OUT.partial to the writer
 * once more, without encoding, and holds the bytes that it makes of them against those that are there. So the archive
 * is the same as that of a run that was not interrupted. */
#include "tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <libavcodec/avcodec.h>

/* ---- the partial file ---- */

/* Bytes of the partial file; one without samples counts as empty. */
static uint64_t partial_size(const pack_output *out)
{
    struct stat status;
    return fstat(out->file, &status) || status.st_size <= TOOL_ARCHIVE_FIRST ? 0 : (uint64_t)status.st_size;
}

static void partial_discard(const pack_output *out)
{
    unlink(out->partial);
    if (out->journal.path) unlink(out->journal.path);
}

int pack_output_is_finished(const tool_options *o, uint64_t *samples)
{
    char *path = (char *)(uintptr_t)o->out, *partial = tool_format("%s.partial", o->out);
    const tool_options one = { .operand = &path, .operand_count = 1, .format = "archive" };
    const bzna_device cpu = { BZNA_DEVICE_CPU, 0 };
    struct stat status;
    archive a = { .context = NULL };
    int is_left = !stat(partial, &status) && status.st_size > TOOL_ARCHIVE_FIRST;
    int finished = !is_left && tool_path_exists(path) && archive_open_context(cpu, 0, &a.context, NULL) == BZNA_OK &&
                   archive_try_open(&a, &one, NULL) == BZNA_OK;
    *samples = finished ? a.count : 0;
    archive_close(&a);
    free(partial);
    return finished;
}

int pack_output_open(pack_output *out, const tool_options *o)
{
    *out = (pack_output){ .options = o, .file = -1, .journal = { .file = -1 } };
    if (tool_is_folder(o->out)) return tool_error("%s: is a folder", o->out);
    out->partial = tool_format("%s.partial", o->out);
    if (tool_partial_open(out->partial, &out->file)) return EXIT_INPUT;
    if (!o->overwrite && tool_path_exists(o->out)) {
        if (o->resume && partial_size(out))
            tool_error("%s: already exists, and an interrupted run has left %s: to continue that run and replace it: "
                       "bzna pack --resume --overwrite ...", o->out, out->partial);
        else
            tool_error("%s: already exists; to replace it: bzna pack --overwrite ...", o->out);
    } else if (partial_size(out) && !o->overwrite && !o->resume) {
        tool_error("%s: an interrupted run has left it; to continue: bzna pack --resume ..., to begin again: bzna pack "
                   "--overwrite ...", out->partial);
    } else {
        return EXIT_OK;
    }
    if (!partial_size(out)) unlink(out->partial);
    close(out->file);
    out->file = -1;
    return EXIT_USAGE;
}


/* ---- writing ---- */

/* Counts the files that are done, up to the first that is not, and notes them in the log, unless it has them. */
static void files_count(pack_output *out)
{
    for (; out->done < out->files->count && out->files->list[out->done].is_done; out->done++) {
        const pack_file *file = &out->files->list[out->done];
        if (!out->is_logged) out->failure = pack_blocks_done(&out->blocks, file);
        if (out->failure.error) return;
        out->left_out += file->reason != NULL;
        out->written += !file->reason;
        out->small += !file->reason && file->is_small;
    }
}

/* A sample is written: that of the first file that is not done, as samples come in the order of files. */
static void sample_written(pack_output *out, const void *bytes, uint64_t size)
{
    pack_file *file = &out->files->list[out->done];
    file->is_done = 1;
    file->sample_size = size;
    file->checksum = pack_sample_checksum(bytes, (size_t)size);
    out->position += size;
    files_count(out);
}

/* Writes what comes after the samples: the index, and at last, at the beginning, the mark of a finished archive. Before
 * it is written, the rest is on the disk. */
static void end_write(pack_output *out, uint64_t offset, const void *src, uint64_t size)
{
    int is_mark = offset < TOOL_ARCHIVE_FIRST;
    out->failure = pack_blocks_flush(&out->blocks);
    if (!out->failure.error && is_mark) out->failure.error = tool_sync(out->file);
    if (!out->failure.error) out->failure = pack_blocks_write(&out->blocks, offset, src, size);
}

/* Writes; or, while samples are gone through that are there, compares. */
static bzna_status sink_write_at(void *user, uint64_t offset, const void *src, uint64_t size)
{
    pack_output *out = user;
    if (out->expected && (size != out->expected_size || offset != out->position ||
                          memcmp(src, out->expected, (size_t)size)))
        return BZNA_E_MISMATCH;
    if (out->done == out->files->count) {
        end_write(out, offset, src, size);
    } else {
        if (!out->expected) out->failure = pack_blocks_sample(&out->blocks, offset, src, size);
        if (offset && !out->failure.error) sample_written(out, src, size);
    }
    return out->failure.error ? BZNA_E_IO : BZNA_OK;
}

static int write_failed(const pack_output *out, const bzna_error *err)
{
    if (!out->failure.error) return tool_error("%s: %s", out->partial, err->message);
    return tool_error("%s: cannot be written: %s", out->failure.is_log ? out->journal.path : out->partial,
                      strerror(out->failure.error));
}

static int writer_open(pack_output *out)
{
    const bzna_device cpu = { BZNA_DEVICE_CPU, 0 };
    bzna_error err = tool_empty_error();
    bzna_sink sink = { .struct_size = sizeof sink, .user = out, .write_at = sink_write_at };
    if (archive_open_context(cpu, 0, &out->context, &err) < 0) return tool_error("%s", err.message);
    bzna_writer_config config;
    bzna_writer_config_init(&config, sizeof config);
    config.class_count = (uint32_t)out->files->classes.count;
    config.classes = (const char *const *)out->files->classes.names;
    config.queue_bytes = UINT64_MAX;              /* how far samples run ahead of their turn, pack_workers.c says */
    if (bzna_writer_open_sink(out->context, &sink, &config, &out->writer, &err) < 0) return write_failed(out, &err);
    out->position = TOOL_ARCHIVE_FIRST;
    return EXIT_OK;
}

static int partial_cut(pack_output *out, uint64_t size)
{
    if (!ftruncate(out->file, (off_t)size)) return EXIT_OK;
    out->failure = (pack_failure){ errno, 0 };
    return write_failed(out, NULL);
}

/* Whether an error of the writer is one that other samples would meet, too. */
static int is_lasting(bzna_status status)
{
    return status == BZNA_E_IO || status == BZNA_E_MEMORY || status == BZNA_E_CALLBACK || status == BZNA_E_STATE;
}

/* Leaves a file out; takes over the reason. */
static int file_leave_out(pack_output *out, size_t i, char *reason, int is_passing)
{
    bzna_error err = tool_empty_error();
    pack_file *file = &out->files->list[i];
    free(file->reason);
    file->reason = reason;
    file->is_passing = is_passing;
    file->is_done = 1;
    files_count(out);
    if (out->failure.error) return write_failed(out, NULL);
    return bzna_writer_add(out->writer, i, NULL, 0, &err) < 0 ? write_failed(out, &err) : EXIT_OK;
}

/* Adds one sample. One that the writer refuses is left out; only an error that later samples would meet, too, is
 * returned. */
static int sample_add(pack_output *out, size_t i, const bzna_image *input, const bzna_image *thumb)
{
    pack_file *file = &out->files->list[i];
    bzna_error err = tool_empty_error();
    archive_copied *c = &out->copied;
    c->count = 0;
    bzna_status status = file->archive ? archive_copied_read(file->archive, file->index, c, &err) : BZNA_OK;
    if (status < 0) return file_leave_out(out, i, tool_format("%s", err.message), is_lasting(status));
    if (!file->archive) archive_copied_set_split(c, file->split);
    bzna_writer_sample sample = {
        .struct_size = sizeof sample, .split = c->split, .name = *file->relative ? file->relative : NULL,
        .has_target = file->target != BZNA_TARGET_NONE, .target = file->target,
        .image = input, .thumb = thumb, .fields = c->fields, .field_count = c->count,
    };
    file->is_small = (uint64_t)input->width * input->height * 4 < (uint64_t)input->frame_width * input->frame_height;
    status = bzna_writer_add(out->writer, i, &sample, 0, &err);
    if (is_lasting(status)) return write_failed(out, &err);
    return status < 0 ? file_leave_out(out, i, tool_format("%s", err.message), 0) : EXIT_OK;
}

static bzna_image image_of(const pack_encoded *e)
{
    return (bzna_image){
        .struct_size = sizeof(bzna_image), .codec = e->codec,
        .width = (uint32_t)e->width, .height = (uint32_t)e->height,
        .frame_width = (uint32_t)e->frame_width, .frame_height = (uint32_t)e->frame_height,
        .color = { .primaries = 1, .transfer = 13, .matrix = 5, .full_range = 1, .present = 1 },
        .data = e->packet->data, .data_size = (uint64_t)e->packet->size,
    };
}

int pack_output_add(pack_output *out, pack_result *result)
{
    pack_file *file = &out->files->list[result->file];
    const pack_encoded *e = &result->input;
    int status;
    file->is_measured = e->is_measured;
    file->psnr = e->psnr;
    file->ssim = e->ssim;
    file->notes = e->notes;
    if (result->reason) {
        status = file_leave_out(out, result->file, result->reason, result->is_passing);
        result->reason = NULL;
    } else {
        bzna_image input = image_of(e), thumb = { 0 };
        if (result->thumb.packet) thumb = image_of(&result->thumb);
        status = sample_add(out, result->file, &input, result->thumb.packet ? &thumb : NULL);
    }
    return status;
}

/* ---- going on ---- */

/* The samples of an earlier run, while they are gone through. */
typedef struct earlier {
    archive     archive;
    tool_buffer sample, input, thumb;
} earlier;

static bzna_status picture_read(earlier *e, uint64_t index, const char *field, tool_buffer *buffer, bzna_image *image,
                                bzna_error *err)
{
    bzna_status status = archive_read_picture(&e->archive, index, field, buffer, image, err);
    image->orientation = 0;           /* a JPEG's own, which the writer takes from its bytes */
    return status;
}

/* The thumbnail of a sample, when it is a picture of its own. */
static int has_thumb(const earlier *e, uint64_t index)
{
    bzna_image_info input = { .struct_size = 0 }, thumb = { .struct_size = 0 };
    const bzna_dataset *d = e->archive.dataset;
    return bzna_dataset_image_info(d, index, "image", &input, sizeof input, NULL) == BZNA_OK &&
           bzna_dataset_image_info(d, index, "thumb", &thumb, sizeof thumb, NULL) == BZNA_OK &&
           input.data_offset != thumb.data_offset;
}

/* Gives one sample that is there to the writer again. */
static int sample_add_again(pack_output *out, earlier *e, uint64_t index)
{
    bzna_error err = tool_empty_error();
    bzna_image input, thumb;
    const pack_file *file = &out->files->list[out->done];
    int with_thumb = has_thumb(e, index), status = EXIT_OK;
    out->expected = e->sample.data;
    if (picture_read(e, index, "image", &e->input, &input, &err) < 0 ||
        (with_thumb && picture_read(e, index, "thumb", &e->thumb, &thumb, &err) < 0))
        status = tool_error("%s: the sample of %s: %s", out->partial, file->path, err.message);
    else
        status = sample_add(out, out->done, &input, with_thumb ? &thumb : NULL);
    if (status == EXIT_OK && file->reason)
        status = tool_error("%s: the sample of %s is not what this bzna would write (%s)", out->partial, file->path,
                            file->reason);
    out->expected = NULL;
    return status;
}

/* Whether the sample that a record describes is there, whole. Reads it. */
static int sample_is_sound(const pack_output *out, const pack_record *record, earlier *e)
{
    tool_buffer_reserve(&e->sample, record->size);
    uint64_t done = 0;
    ssize_t got = 1;
    while (done < record->size && got > 0) {
        got = pread(out->file, e->sample.data + done, (size_t)(record->size - done), (off_t)(out->position + done));
        if (got > 0) done += (uint64_t)got;
    }
    return done == record->size && pack_sample_checksum(e->sample.data, (size_t)done) == record->checksum;
}

/* Opens the samples whose bytes are all there. */
static int earlier_open(const pack_output *out, earlier *e)
{
    const pack_journal *j = &out->journal;
    uint64_t *sizes = tool_checked(calloc(j->count + 1, sizeof *sizes)), left = partial_size(out);
    size_t count = 0;
    left = left > TOOL_ARCHIVE_FIRST ? left - TOOL_ARCHIVE_FIRST : 0;
    for (size_t i = 0; i < j->count; i++) {
        if (j->records[i].reason) continue;
        if (j->records[i].size > left || j->records[i].size > UINT32_MAX) break;
        left -= j->records[i].size;
        sizes[count++] = j->records[i].size;
    }
    e->archive.context = out->context;
    int result = count ? archive_open_unindexed(&e->archive, out->file, TOOL_ARCHIVE_FIRST, sizes, count) : EXIT_OK;
    free(sizes);
    return result;
}

/* Whether a file can be read that an earlier run left out by no fault of the file's. */
static int can_be_read(const pack_file *file)
{
    AVPacket *bytes = tool_checked(av_packet_alloc());
    char *reason = pack_bytes_read(file, bytes);
    free(reason);
    av_packet_free(&bytes);
    return !reason;
}

/* Goes through the files that an earlier run has done. Stops at the first sample that is not whole, which a loss of
 * power may leave behind, and at the first file that is worth trying again. */
static int go_through_earlier(pack_output *out)
{
    earlier e = { .archive = { .count = 0 } };
    tool_progress progress = tool_progress_start("samples that are there", out->journal.count);
    uint64_t index = 0;
    int result = earlier_open(out, &e);
    out->is_logged = 1;
    for (size_t i = 0; i < out->journal.count; i++) out->files->list[i].was_tried = out->journal.records[i].is_passing;
    while (result == EXIT_OK && out->done < out->journal.count) {
        const pack_record *record = &out->journal.records[out->done];
        if (!record->reason && (index == e.archive.count || !sample_is_sound(out, record, &e))) break;
        pack_file *file = &out->files->list[out->done];
        if (record->is_passing && can_be_read(file)) break;
        out->expected_size = record->size;
        file->is_measured = record->is_measured;
        file->psnr = record->psnr;
        file->ssim = record->ssim;
        file->notes = record->notes;
        result = record->reason ? file_leave_out(out, out->done, tool_format("%s", record->reason), record->is_passing)
                                : sample_add_again(out, &e, index++);
        tool_progress_show(&progress, out->done);
    }
    tool_progress_end(&progress);
    out->is_logged = 0;
    bzna_dataset_close(e.archive.dataset);
    free(e.sample.data);
    free(e.input.data);
    free(e.thumb.data);
    out->resumed = out->done - out->left_out;
    if (result != EXIT_OK) return result;
    if (partial_cut(out, out->position)) return EXIT_INPUT;
    return pack_journal_keep(&out->journal, out->done);
}

int pack_output_begin(pack_output *out, pack_files *files, int gathers)
{
    const tool_options *o = out->options;
    int resume = o->resume && partial_size(out);
    out->files = files;
    if (pack_journal_open(&out->journal, out->partial)) return EXIT_INPUT;
    pack_blocks_open(&out->blocks, out->file, out->journal.file, gathers);
    out->has_blocks = 1;
    if (resume && pack_journal_read(&out->journal, o, files)) return EXIT_INPUT;
    if (resume && !out->journal.is_begun)
        return tool_error("%s: has no log next to it, without which no run can be continued; to begin again: bzna pack "
                          "--overwrite ...", out->partial);
    if (!resume && partial_cut(out, 0)) return EXIT_INPUT;
    if (!resume && pack_journal_begin(&out->journal, o, files)) return EXIT_INPUT;
    if (writer_open(out)) return EXIT_INPUT;
    return resume ? go_through_earlier(out) : EXIT_OK;
}


/* ---- the end ---- */

int pack_output_finish(pack_output *out)
{
    const tool_options *o = out->options;
    bzna_error err = tool_empty_error();
    if (bzna_writer_finish(out->writer, &err) < 0) return write_failed(out, &err);
    int result = tool_partial_rename(out->partial, out->file, o->out, o->overwrite);
    if (result == EXIT_OK || tool_path_exists(o->out)) {
        unlink(out->journal.path);
        out->position = 0;            /* there is nothing to continue */
    }
    return result;
}

void pack_output_close(pack_output *out)
{
    bzna_writer_close(out->writer);
    bzna_context_close(out->context);
    if (out->has_blocks && !out->failure.error) {
        out->failure = pack_blocks_flush(&out->blocks);
        if (out->failure.error) write_failed(out, NULL);
    }
    if (out->file >= 0 && out->writer && out->position > TOOL_ARCHIVE_FIRST)
        tool_error("%s has %zu of %zu files; to continue, give the same command with --resume", out->partial, out->done,
                   out->files->count);
    else if (out->file >= 0 && !partial_size(out))
        partial_discard(out);
    if (out->has_blocks) pack_blocks_close(&out->blocks);
    pack_journal_close(&out->journal);
    if (out->file >= 0) close(out->file);         /* which also unlocks it */
    free(out->partial);
    archive_copied_free(&out->copied);
}

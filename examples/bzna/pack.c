/* pack.c - bzna pack: encodes the pictures of a folder and writes them into an archive
 *
 * Processes encode pictures (pack_workers.c); the library's writer puts them into the order of the files
 * (pack_output.c), and what is done is noted (pack_journal.c). */
#include "tool.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- reports ---- */

/* How JPEG files that are kept as they are were checked; NULL: there are none, all pictures were decoded. */
static const char *check_name(const pack_settings *s)
{
    return !s->is_copy ? NULL : s->checks_headers ? "headers" : "decode";
}

static void report_json(const pack_output *out, const pack_settings *s, long long bytes, double seconds)
{
    const pack_files *f = out->files;
    const char *comma = "";
    printf("{\"samples\":%zu,\"resumed\":%zu,\"bytes\":%lld,\"seconds\":%.3f,\"classes\":[", out->done - out->left_out,
           out->resumed, bytes, seconds);
    for (size_t i = 0; i < f->classes.count; i++) {
        if (i) putchar(',');
        tool_json_string(f->classes.names[i]);
    }
    printf("],\"unreadable\":[");
    for (size_t i = 0; i < f->count; i++) {
        if (!f->list[i].reason) continue;
        printf("%s\n {\"file\":", comma);
        tool_json_string(f->list[i].path);
        printf(",\"reason\":");
        tool_json_string(f->list[i].reason);
        putchar('}');
        comma = ",";
    }
    putchar(']');
    for (size_t i = 0; i < PACK_NOTES; i++)
        printf(",\"%s\":%zu", pack_notes[i].name, pack_notes_count(f, pack_notes[i].bit));
    if (check_name(s)) printf(",\"check\":\"%s\"", check_name(s));
    puts("}");
}

enum { REPORT_LIMIT_S = 10 };         /* runs that are shorter tell nothing */

/* What limits the rate: the processors that encode, or what they wait for. */
static void report_limit(const tool_options *o, double seconds)
{
    double used = os_workers_seconds();
    if (used < 0) return;
    int processors = os_processor_count(), jobs = o->jobs && o->jobs < processors ? (int)o->jobs : processors;
    double busy = used / (seconds * jobs);
    const char *limit = busy < 0.8 ? "reading and writing files, or other programs, limit the rate"
                      : jobs < processors ? "more --jobs would be faster" : "encoding limits the rate";
    printf("%d of %d processors encoded for %.0f%% of the time: %s\n", jobs, processors, fmin(busy, 1) * 100, limit);
}

/* Where most pictures are small in their frames, and what helps. */
static void report_frames(FILE *file, const char *before, const pack_output *out, const pack_settings *s)
{
    if (out->small * 2 <= out->written) return;
    fprintf(file, "%s%zu of %zu pictures fill less than a quarter of their coded frames", before, out->small,
            out->written);
    if (s->frame_step_px > s->smallest_px)
        fputs(": with --frame exact the archive is smaller, and decodes faster\n", file);
    else
        fprintf(file, ", which have at least %dx%d pixels, as NVDEC needs\n", s->smallest_px, s->smallest_px);
}

enum { HINT_PICTURES = 200 };         /* after so many, who wants other frames need not wait for the end */

static void hint_frames(const pack_output *out, const pack_settings *s, const tool_progress *progress)
{
    if (s->options->json || s->frame_step_px <= s->smallest_px || out->small * 2 <= out->written) return;
    tool_progress_end(progress);
    report_frames(stderr, "bzna: note: ", out, s);
}

static void report(const pack_output *out, const pack_settings *s, double seconds)
{
    struct stat status;
    const tool_options *o = out->options;
    long long bytes = stat(o->out, &status) ? 0 : (long long)status.st_size;
    if (o->json) { report_json(out, s, bytes, seconds); return; }
    size_t pictures = out->done - out->left_out;
    printf("%s: %zu picture%s, %zu classes, %lld bytes, %.1f s", o->out, pictures, pictures == 1 ? "" : "s",
           out->files->classes.count, bytes, seconds);
    if (out->resumed) printf(" (%zu pictures by an earlier run)", out->resumed);
    putchar('\n');
    if (s->is_copy)
        puts(s->checks_headers
             ? "JPEG files were checked by their headers and end markers, and not decoded: bzna verify --decode would "
               "find damage between them"
             : "JPEG files were checked by decoding every one");
    if (seconds >= (double)REPORT_LIMIT_S) report_limit(o, seconds);
    report_frames(stdout, "", out, s);
    for (size_t i = 0; i < PACK_NOTES; i++) {
        size_t count = pack_notes_count(out->files, pack_notes[i].bit);
        if (count) printf("%zu of %zu pictures have %s\n", count, pictures, pack_notes[i].text);
    }
}

/* Prints the files that are left out, with the reasons. */
static void list_unreadable(const pack_files *f, size_t done)
{
    for (size_t i = 0; i < done; i++) {
        if (!f->list[i].reason) continue;
        tool_print_text(stderr, f->list[i].path);
        fputs(": ", stderr);
        tool_print_text(stderr, f->list[i].reason);
        fputc('\n', stderr);
    }
}


/* ---- the command ---- */

/* Encodes and writes the files that are not yet done. */
static int encode_and_write(pack_output *out, const pack_settings *s)
{
    const tool_options *o = s->options;
    const pack_job job = { s, out->files, o->jobs ? (size_t)o->jobs : (size_t)os_processor_count() };
    tool_progress progress = tool_progress_start("pictures", out->files->count);
    pack_workers *workers = pack_workers_new(&job, out->done);
    int result = EXIT_OK;
    os_interrupts_catch();
    progress.first = out->done;
    progress.is_json = o->json != 0;
    int is_hinted = 0;
    while (result == EXIT_OK && out->done < out->files->count && !os_interrupted()) {
        pack_result picture = { .reason = NULL };
        int status = pack_workers_next(workers, out->done, &picture);
        if (status == EXIT_OK) status = pack_output_add(out, &picture);
        if (status != PACK_AGAIN) result = status;
        pack_result_free(&picture);
        progress.failed = out->left_out;
        progress.bytes = out->position;
        if (!is_hinted && out->written >= HINT_PICTURES && out->done < out->files->count) {
            hint_frames(out, s, &progress);
            is_hinted = 1;
        }
        tool_progress_show(&progress, out->done);
    }
    tool_progress_end(&progress);
    pack_workers_end(workers);
    return os_interrupted() ? tool_error("interrupted") : result;
}

/* The exit status: some files are left out, those that could not be read, and those that are no class's. */
static int report_left_out(const pack_output *out, const pack_files *files)
{
    size_t outside = 0;
    for (size_t i = 0; i < files->count; i++)
        outside += files->list[i].reason && !strcmp(files->list[i].reason, PACK_OUTSIDE);
    if (!out->left_out) return EXIT_OK;
    if (!outside)
        return tool_error("%zu of %zu files could not be read and are left out", out->left_out, files->count);
    if (outside == out->left_out)
        return tool_error("%zu of %zu files are outside every class folder and are left out", outside, files->count);
    return tool_error("%zu of %zu files are left out: %zu could not be read, %zu are outside every class folder",
                      out->left_out, files->count, out->left_out - outside, outside);
}

/* --resume, but the archive is there. */
static int report_finished(const tool_options *o, uint64_t samples)
{
    struct stat status;
    long long bytes = stat(o->out, &status) ? 0 : (long long)status.st_size;
    if (o->json) printf("{\"samples\":%" PRIu64 ",\"resumed\":%" PRIu64 ",\"bytes\":%lld,\"seconds\":0,"
                        "\"finished\":true}\n", samples, samples, bytes);
    else printf("%s: is finished, with %" PRIu64 " pictures: there is nothing to continue\n", o->out, samples);
    return EXIT_OK;
}

/* No file is a picture. What the library makes of the operand may say why: a parquet file, a tar of tars. */
static int report_none(const tool_options *o, const pack_files *files)
{
    const bzna_device cpu = { BZNA_DEVICE_CPU, 0 };
    bzna_error err = tool_empty_error();
    archive a = { .context = NULL };
    int is_told = 0;
    if (!o->splits && !o->list && o->operand_count == 1 && archive_open_context(cpu, 0, &a.context, NULL) == BZNA_OK &&
        archive_try_open(&a, o, &err) < 0)
        is_told = err.status == BZNA_E_UNSUPPORTED || err.status == BZNA_E_NO_SAMPLES ||
                  (err.status == BZNA_E_FORMAT && !strstr(err.message, "it is one picture") &&
                   !strstr(err.message, "of no known kind"));
    archive_close(&a);
    if (is_told) return tool_error("%s", err.message);
    return tool_error("%s: none of its %zu files is a readable picture", o->splits ? o->splits : o->operand[0],
                      files->count);
}

/* Files that failed by no fault of theirs do not end a run, but there is no archive without them before another run has
 * tried them once more. */
static int refuse_passing(const pack_files *files)
{
    size_t count = 0;
    for (size_t i = 0; i < files->count; i++) count += files->list[i].is_passing && !files->list[i].was_tried;
    if (!count) return EXIT_OK;
    return tool_error("%zu of %zu files failed for want of memory, or since reading them failed: --resume tries them "
                      "once more, and leaves out what fails again", count, files->count);
}

static int pack_files_into(pack_output *out, const pack_settings *s, pack_files *files)
{
    const tool_options *o = s->options;
    int64_t start_ns = tool_now_ns();
    int result = pack_output_begin(out, files, s->checks_headers);
    if (result == EXIT_OK) result = encode_and_write(out, s);
    list_unreadable(files, out->done);
    if (result == EXIT_OK) result = refuse_passing(files);
    if (result == EXIT_OK && out->left_out == files->count)
        result = report_none(o, files);
    else if (result == EXIT_OK)
        result = pack_output_finish(out);
    if (result != EXIT_OK) return result;
    report(out, s, (double)(tool_now_ns() - start_ns) * 1e-9);
    if (o->report && pack_report_write(o, files)) return EXIT_INPUT;
    return report_left_out(out, files);
}

int tool_run_pack(const tool_options *o)
{
    pack_output out;
    pack_files files = { 0 };
    pack_settings settings;
    int result = pack_settings_read(o, &settings);
    if (result == EXIT_OK) result = pack_report_check(o);
    if (result == EXIT_OK) result = pack_stream_check(o);
    if (result != EXIT_OK) return result;
    pack_av_capture_messages();
    if (o->encoder && pack_encoder_check(&settings)) return EXIT_INPUT;
    if (!strcmp(o->out, "-")) return pack_stream(&settings);
    uint64_t samples;
    if (o->resume && !o->overwrite && pack_output_is_finished(o, &samples)) return report_finished(o, samples);
    result = pack_output_open(&out, o);
    if (result == EXIT_OK) {
        os_survive_broken_pipes();
        result = pack_files_collect(&files, &settings);
        if (result == EXIT_OK) result = pack_files_into(&out, &settings, &files);
    }
    pack_output_close(&out);
    pack_files_free(&files);
    os_interrupts_end();
    return result;
}

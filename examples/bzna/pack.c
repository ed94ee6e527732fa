/* pack.c - bzna pack: encodes the pictures of a folder and writes them into an archive
 *
 * Threads encode pictures; the caller's thread writes them in the order of the files. Pictures that are encoded but not
 * yet written are held in a window of fixed size, so memory does not depend on the number of pictures.
 *
 * The archive is written as OUT.partial and renamed at the end: a run that breaks off leaves no incomplete archive
 * under the name OUT. */
#include "tool.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <libavcodec/avcodec.h>

/* ---- encoding and writing ---- */

/* A picture between encoding and writing. */
typedef struct window_slot {
    pack_encoded input, thumb;
    int          is_ready;
} window_slot;

enum { WINDOW_SLOTS_PER_THREAD = 8 };

/* Shared by the threads; lock guards next, written, stop and each slot's is_ready. */
typedef struct packing {
    const tool_options *options;
    pack_files         *files;
    window_slot        *window;
    size_t              window_size;
    size_t              next;                   /* file to encode */
    size_t              written;                /* files */
    int                 stop;
    pthread_mutex_t     lock;
    pthread_cond_t      changed;
} packing;

/* Takes the next file, when there is room in the window for it. Returns SIZE_MAX when there is nothing left to do. */
static size_t next_file(packing *p)
{
    pthread_mutex_lock(&p->lock);
    while (!p->stop && p->next < p->files->count && p->next >= p->written + p->window_size)
        pthread_cond_wait(&p->changed, &p->lock);
    size_t index = p->stop || p->next >= p->files->count ? SIZE_MAX : p->next++;
    pthread_mutex_unlock(&p->lock);
    return index;
}

static void *encode_thread(void *argument)
{
    packing *p = argument;
    for (size_t index; (index = next_file(p)) != SIZE_MAX;) {
        pack_file *file = &p->files->list[index];
        window_slot *slot = &p->window[index % p->window_size];
        if (!file->reason) file->reason = pack_encode_file(p->options, file->path, &slot->input, &slot->thumb);
        pthread_mutex_lock(&p->lock);
        slot->is_ready = 1;
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->lock);
    }
    return NULL;
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

/* Writes one picture. One that the writer refuses is left out; only an error that later writes would meet, too, is
 * returned. */
static int write_picture(pack_file *file, const window_slot *slot, bzna_writer *writer)
{
    bzna_error err = tool_empty_error();
    if (file->reason) return EXIT_OK;
    bzna_image input = image_of(&slot->input), thumb = { 0 };
    if (slot->thumb.packet) thumb = image_of(&slot->thumb);
    const char *slash = strrchr(file->path, '/');
    bzna_sample_desc sample = {
        .struct_size = sizeof sample, .target = file->target,
        .name = slash ? slash + 1 : file->path, .image = &input, .thumb = slot->thumb.packet ? &thumb : NULL,
    };
    bzna_status status = bzna_writer_add(writer, &sample, &err);
    if (status == BZNA_E_IO || status == BZNA_E_MEMORY || status == BZNA_E_CALLBACK || status == BZNA_E_STATE)
        return tool_error("%s", err.message);
    if (status < 0) file->reason = tool_format("%s", err.message);
    return EXIT_OK;
}

static void slot_wait_ready(packing *p, const window_slot *slot)
{
    pthread_mutex_lock(&p->lock);
    while (!slot->is_ready) pthread_cond_wait(&p->changed, &p->lock);
    pthread_mutex_unlock(&p->lock);
}

static void slot_release(packing *p, window_slot *slot)
{
    av_packet_free(&slot->input.packet);
    av_packet_free(&slot->thumb.packet);
    pthread_mutex_lock(&p->lock);
    memset(slot, 0, sizeof *slot);
    p->written++;
    pthread_cond_broadcast(&p->changed);
    pthread_mutex_unlock(&p->lock);
}

static int write_in_order(packing *p, bzna_writer *writer)
{
    tool_progress progress = tool_progress_start("pictures", p->files->count);
    int result = EXIT_OK;
    for (size_t i = 0; i < p->files->count && result == EXIT_OK; i++) {
        window_slot *slot = &p->window[i % p->window_size];
        slot_wait_ready(p, slot);
        result = write_picture(&p->files->list[i], slot, writer);
        slot_release(p, slot);
        tool_progress_show(&progress, i + 1);
    }
    tool_progress_end(&progress);
    return result;
}

/* Encodes and writes all pictures. */
static int encode_and_write(const tool_options *o, pack_files *files, bzna_writer *writer)
{
    size_t jobs = o->jobs ? (size_t)o->jobs : (size_t)tool_processor_count(), started = 0;
    packing p = { .options = o, .files = files, .window_size = WINDOW_SLOTS_PER_THREAD * jobs };
    pthread_t *threads = tool_checked(calloc(jobs, sizeof *threads));
    p.window = tool_checked(calloc(p.window_size, sizeof *p.window));
    pthread_mutex_init(&p.lock, NULL);
    pthread_cond_init(&p.changed, NULL);
    while (started < jobs && !pthread_create(&threads[started], NULL, encode_thread, &p)) started++;
    int result = started ? write_in_order(&p, writer) : tool_error("no thread could be started");
    pthread_mutex_lock(&p.lock);
    p.stop = 1;
    pthread_cond_broadcast(&p.changed);
    pthread_mutex_unlock(&p.lock);
    for (size_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
    for (size_t i = 0; i < p.window_size; i++) {
        av_packet_free(&p.window[i].input.packet);
        av_packet_free(&p.window[i].thumb.packet);
    }
    pthread_cond_destroy(&p.changed);
    pthread_mutex_destroy(&p.lock);
    free(p.window);
    free(threads);
    return result;
}


/* ---- reports ---- */

static void report_json(const pack_files *f, size_t packed, long long bytes, double seconds)
{
    const char *comma = "";
    printf("{\"samples\":%zu,\"bytes\":%lld,\"seconds\":%.3f,\"classes\":[", packed, bytes, seconds);
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
    puts("]}");
}

static void report(const tool_options *o, const pack_files *f, size_t unreadable, double seconds)
{
    struct stat status;
    long long bytes = stat(o->out, &status) ? 0 : (long long)status.st_size;
    size_t packed = f->count - unreadable;
    if (o->json) report_json(f, packed, bytes, seconds);
    else printf("%s: %zu pictures, %zu classes, %lld bytes, %.1f s\n", o->out, packed, f->classes.count, bytes,
                seconds);
}

/* Prints the files that are left out, with the reasons. Returns their number. */
static size_t list_unreadable(const pack_files *f)
{
    size_t count = 0;
    for (size_t i = 0; i < f->count; i++) {
        if (!f->list[i].reason) continue;
        tool_print_text(stderr, f->list[i].path);
        fputs(": ", stderr);
        tool_print_text(stderr, f->list[i].reason);
        fputc('\n', stderr);
        count++;
    }
    return count;
}


/* ---- the partial file ---- */

/* Opens and locks the file that is written. A run that is killed leaves its file behind, but no lock, and the next run
 * takes the file over. */
static int partial_open(const char *path, int *file)
{
    struct stat opened, named;
    for (int i = 0; i < 10; i++) {
        *file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (*file < 0) return tool_error("%s: cannot be written: %s", path, strerror(errno));
        if (flock(*file, LOCK_EX | LOCK_NB)) {
            if (errno == EWOULDBLOCK) break;
            tool_error("warning: %s: cannot be locked (%s): make sure that no other bzna pack writes it", path,
                       strerror(errno));
            return EXIT_OK;
        }
        /* Another run may have renamed this file to its final name between open and flock. */
        if (!fstat(*file, &opened) && !stat(path, &named) &&
            opened.st_dev == named.st_dev && opened.st_ino == named.st_ino) return EXIT_OK;
        close(*file);
        *file = -1;
    }
    if (*file >= 0) close(*file);
    *file = -1;
    return tool_error("%s: another bzna pack is writing it", path);
}

static int partial_rename(const tool_options *o, const char *partial)
{
    if (!o->overwrite && tool_path_exists(o->out))
        return tool_error("%s: was made by another program meanwhile and is left as it is; the new archive is %s",
                          o->out, partial);
    if (!rename(partial, o->out)) return EXIT_OK;
    int result = tool_error("%s: cannot be written: %s", o->out, strerror(errno));
    unlink(partial);
    return result;
}


/* ---- the command ---- */

/* Writes a complete archive to path. */
static int write_archive(const tool_options *o, pack_files *files, const char *path, size_t *unreadable)
{
    const bzna_device cpu = { BZNA_DEVICE_CPU, 0 };
    bzna_context *context = NULL;
    bzna_writer *writer = NULL;
    bzna_error err = tool_empty_error();
    int result = EXIT_OK;
    if (archive_open_context(cpu, 0, &context, &err) < 0 ||
        bzna_writer_open(context, path, NULL, &writer, &err) < 0) {
        result = tool_error("%s", err.message);
    } else {
        pack_av_capture_messages();
        result = encode_and_write(o, files, writer);
        *unreadable = list_unreadable(files);
        if (result == EXIT_OK && *unreadable == files->count)
            result = tool_error("%s: none of its %zu files is a readable picture", o->operand[0], files->count);
        if (result == EXIT_OK && bzna_writer_finish(writer, &err) < 0) result = tool_error("%s", err.message);
    }
    bzna_writer_close(writer);
    bzna_context_close(context);
    return result;
}

/* With the partial file locked. */
static int pack_locked(const tool_options *o, const char *partial)
{
    pack_files files = { 0 };
    int64_t start_ns = tool_now_ns();
    size_t unreadable = 0;
    int result = pack_files_collect(&files, o->operand[0], o->class_order);
    if (result == EXIT_OK) result = write_archive(o, &files, partial, &unreadable);
    if (result != EXIT_OK) unlink(partial);
    else                   result = partial_rename(o, partial);
    if (result == EXIT_OK) {
        report(o, &files, unreadable, (double)(tool_now_ns() - start_ns) * 1e-9);
        if (unreadable)
            result = tool_error("%zu of %zu files could not be read and are left out", unreadable, files.count);
    }
    pack_files_free(&files);
    return result;
}

int tool_run_pack(const tool_options *o)
{
    int file = -1, result;
    if (o->tune_decode && strcmp(o->codec, "h265") && strcmp(o->codec, "h264")) {
        tool_error("--tune-decode: the encoders of h265 and h264 have it, %s has not", o->codec);
        return EXIT_USAGE;
    }
    if (tool_is_folder(o->out)) return tool_error("%s: is a folder", o->out);
    char *partial = tool_format("%s.partial", o->out);
    if (partial_open(partial, &file)) {
        result = EXIT_INPUT;
    } else if (!o->overwrite && tool_path_exists(o->out)) {
        tool_error("%s: already exists; to replace it: bzna pack --overwrite ...", o->out);
        result = EXIT_USAGE;
        unlink(partial);
    } else {
        result = pack_locked(o, partial);
    }
    if (file >= 0) close(file);       /* which also unlocks it */
    free(partial);
    return result;
}

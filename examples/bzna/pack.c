/* pack.c - bzna pack */
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

/* One place of the window in which pictures are coded ahead of what has been written. */
typedef struct place {
    coded input, thumb;
    int   ready;
} place;

/* Shared by the coding threads and the writing one; lock guards next, written, stop and each place's ready. */
typedef struct packing {
    const options  *options;
    entries        *entries;
    place          *places;
    size_t          window, next, written;
    int             stop;
    pthread_mutex_t lock;
    pthread_cond_t  changed;
} packing;

static void *pack_thread(void *argument)
{
    packing *p = argument;
    for (;;) {
        pthread_mutex_lock(&p->lock);
        while (!p->stop && p->next < p->entries->count && p->next >= p->written + p->window) pthread_cond_wait(&p->changed, &p->lock);
        size_t index = p->stop || p->next >= p->entries->count ? SIZE_MAX : p->next++;
        pthread_mutex_unlock(&p->lock);
        if (index == SIZE_MAX) return NULL;
        entry *e = &p->entries->list[index];
        place *at = &p->places[index % p->window];
        if (!e->reason) e->reason = file_code(p->options, e->path, &at->input, &at->thumb);
        pthread_mutex_lock(&p->lock);
        at->ready = 1;
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->lock);
    }
}

static bzna_image coded_image(const coded *c, uint32_t codec)
{
    return (bzna_image){
        .struct_size = sizeof(bzna_image), .codec = codec, .width = (uint32_t)c->width, .height = (uint32_t)c->height,
        .frame_width = (uint32_t)c->frame_width, .frame_height = (uint32_t)c->frame_height,
        .color = { .primaries = 1, .transfer = 13, .matrix = 5, .full_range = 1, .present = 1 },
        .data = c->packet->data, .data_size = (uint64_t)c->packet->size,
    };
}

/* Writes one finished picture. A picture that the writer refuses is listed; only a failed write ends it all. */
static int pack_write(const packing *p, entry *e, const place *at, bzna_writer *writer)
{
    bzna_error err = error_empty();
    uint32_t codec = !strcmp(p->options->codec, "h265") ? BZNA_CODEC_H265 : BZNA_CODEC_H264;
    if (e->reason) return EXIT_OK;
    bzna_image input = coded_image(&at->input, codec), thumb = { 0 };
    if (at->thumb.packet) thumb = coded_image(&at->thumb, codec);
    const char *slash = strrchr(e->path, '/');
    bzna_sample_desc sample = { .struct_size = sizeof sample, .has_target = e->target != BZNA_TARGET_NONE, .target = e->target,
                                .filename = slash ? slash + 1 : e->path, .input = &input, .thumb = at->thumb.packet ? &thumb : NULL };
    bzna_status status = bzna_writer_add(writer, &sample, &err);
    if (status == BZNA_E_IO || status == BZNA_E_MEMORY || status == BZNA_E_CALLBACK || status == BZNA_E_STATE)
        return complain("%s", err.message);
    if (status < 0) e->reason = text_make("%s", err.message);
    return EXIT_OK;
}

/* Takes the pictures in order as they become ready. */
static int pack_drain(packing *p, bzna_writer *writer)
{
    progress shown = progress_start("pictures", p->entries->count);
    int result = EXIT_OK;
    for (size_t i = 0; i < p->entries->count && result == EXIT_OK; i++) {
        place *at = &p->places[i % p->window];
        pthread_mutex_lock(&p->lock);
        while (!at->ready) pthread_cond_wait(&p->changed, &p->lock);
        pthread_mutex_unlock(&p->lock);
        result = pack_write(p, &p->entries->list[i], at, writer);
        av_packet_free(&at->input.packet);
        av_packet_free(&at->thumb.packet);
        pthread_mutex_lock(&p->lock);
        memset(at, 0, sizeof *at);
        p->written = i + 1;
        pthread_cond_broadcast(&p->changed);
        pthread_mutex_unlock(&p->lock);
        progress_show(&shown, i + 1);
    }
    progress_end(&shown);
    return result;
}

/* Codes and writes everything. */
static int pack_all(const options *o, entries *e, bzna_writer *writer)
{
    size_t jobs = o->jobs ? (size_t)o->jobs : (size_t)processors(), started = 0;
    packing p = { .options = o, .entries = e, .window = 8 * jobs };
    pthread_t *threads = checked(calloc(jobs, sizeof *threads));
    p.places = checked(calloc(p.window, sizeof *p.places));
    pthread_mutex_init(&p.lock, NULL);
    pthread_cond_init(&p.changed, NULL);
    while (started < jobs && !pthread_create(&threads[started], NULL, pack_thread, &p)) started++;
    int result = started ? pack_drain(&p, writer) : complain("no thread could be started");
    pthread_mutex_lock(&p.lock);
    p.stop = 1;
    pthread_cond_broadcast(&p.changed);
    pthread_mutex_unlock(&p.lock);
    for (size_t i = 0; i < started; i++) pthread_join(threads[i], NULL);
    for (size_t i = 0; i < p.window; i++) {
        av_packet_free(&p.places[i].input.packet);
        av_packet_free(&p.places[i].thumb.packet);
    }
    pthread_cond_destroy(&p.changed);
    pthread_mutex_destroy(&p.lock);
    free(p.places);
    free(threads);
    return result;
}

static void pack_report(const options *o, const entries *e, size_t unreadable, double seconds)
{
    struct stat status;
    long long size = stat(o->out, &status) ? 0 : (long long)status.st_size;
    const char *comma = "";
    if (!o->json) {
        printf("%s: %zu pictures, %zu classes, %lld bytes, %.1f s\n", o->out, e->count - unreadable, e->classes.count, size, seconds);
        return;
    }
    printf("{\"samples\":%zu,\"bytes\":%lld,\"seconds\":%.3f,\"classes\":[", e->count - unreadable, size, seconds);
    for (size_t i = 0; i < e->classes.count; i++) {
        if (i) putchar(',');
        json_string(e->classes.names[i]);
    }
    printf("],\"unreadable\":[");
    for (size_t i = 0; i < e->count; i++) {
        if (!e->list[i].reason) continue;
        printf("%s\n {\"file\":", comma);
        json_string(e->list[i].path);
        printf(",\"reason\":");
        json_string(e->list[i].reason);
        putchar('}');
        comma = ",";
    }
    puts("]}");
}

static size_t pack_list_unreadable(const entries *e)
{
    size_t count = 0;
    for (size_t i = 0; i < e->count; i++) {
        if (!e->list[i].reason) continue;
        print_plain(stderr, e->list[i].path);
        fputs(": ", stderr);
        print_plain(stderr, e->list[i].reason);
        fputc('\n', stderr);
        count++;
    }
    return count;
}

/* Opens and locks the file that is written to. A run that is killed leaves its file behind, but no lock, and the next
 * run takes it over. */
static int partial_open(const char *path, int *file)
{
    struct stat opened, named;
    for (int i = 0; i < 10; i++) {
        *file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0666);
        if (*file < 0) return complain("%s: cannot be written: %s", path, strerror(errno));
        if (flock(*file, LOCK_EX | LOCK_NB)) {
            if (errno != EWOULDBLOCK) {
                complain("warning: %s: cannot be locked (%s): no other bzna pack may write it", path, strerror(errno));
                return EXIT_OK;
            }
            break;
        }
        /* Its last owner may have given it its final name between the two calls. */
        if (!fstat(*file, &opened) && !stat(path, &named) &&
            opened.st_dev == named.st_dev && opened.st_ino == named.st_ino) return EXIT_OK;
        close(*file);
        *file = -1;
    }
    if (*file >= 0) close(*file);
    *file = -1;
    return complain("%s: another bzna pack is writing it", path);
}

/* Gives the whole archive its name. */
static int partial_finish(const options *o, const char *partial)
{
    if (!o->overwrite && is_there(o->out))
        return complain("%s: was made by another program meanwhile and is left as it is; the new archive is %s",
                        o->out, partial);
    if (!rename(partial, o->out)) return EXIT_OK;
    int result = complain("%s: cannot be written: %s", o->out, strerror(errno));
    unlink(partial);
    return result;
}

/* Makes a whole archive. */
static int pack_archive(const options *o, entries *e, const char *path, size_t *unreadable)
{
    bzna_context *context = NULL;
    bzna_writer *writer = NULL;
    bzna_error err = error_empty();
    bzna_context_config config;
    int result = EXIT_OK;
    bzna_context_config_init(&config, sizeof config);
    config.device = BZNA_DEVICE_CPU;
    if (bzna_context_open(&config, &context, &err) < 0 || bzna_writer_open(context, path, NULL, &writer, &err) < 0) {
        result = complain("%s", err.message);
    } else {
        av_log_set_callback(av_log_quiet);
        result = pack_all(o, e, writer);
        *unreadable = pack_list_unreadable(e);
        if (result == EXIT_OK && *unreadable == e->count)
            result = complain("%s: none of its %zu files is a readable picture", o->operand[0], e->count);
        if (result == EXIT_OK && bzna_writer_finish(writer, &err) < 0) result = complain("%s", err.message);
    }
    bzna_writer_close(writer);
    bzna_context_close(context);
    return result;
}

/* Writes OUT.partial and gives it its name at the end: a run that breaks off leaves no half archive under that name. */
int run_pack(const options *o)
{
    entries e = { 0 };
    int64_t start = now_ns();
    size_t unreadable = 0;
    int file = -1;
    char *partial = text_make("%s.partial", o->out);
    int result = is_folder(o->out) ? complain("%s: is a folder", o->out) : partial_open(partial, &file);
    if (result == EXIT_OK && !o->overwrite && is_there(o->out)) {
        complain("%s: is there already; to replace it: bzna pack --overwrite ...", o->out);
        result = EXIT_USAGE;
    }
    if (result == EXIT_OK) result = entries_collect(&e, o->operand[0], o->class_order);
    if (result == EXIT_OK) result = pack_archive(o, &e, partial, &unreadable);
    if (result == EXIT_OK) {
        result = partial_finish(o, partial);
        if (result == EXIT_OK) pack_report(o, &e, unreadable, (double)(now_ns() - start) * 1e-9);
        if (result == EXIT_OK && unreadable) result = complain("%zu of %zu files could not be read and are left out", unreadable, e.count);
    } else if (file >= 0) {
        unlink(partial);
    }
    if (file >= 0) close(file);                   /* and with it the lock */
    entries_free(&e);
    free(partial);
    return result;
}

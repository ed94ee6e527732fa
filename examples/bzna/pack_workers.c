/* pack_workers.c - processes that encode pictures
 *
 * Processes, not threads, where the system has fork: what a damaged picture does to a decoder costs that picture, not
 * the run; and what an encoder leaks (x265 3.5: 1.2 kB each, and determinism needs one for each picture) ends with its
 * process, which is replaced after some pictures. Which process encodes a picture has no effect on its bytes.
 *
 * The parent has one thread. It sends the numbers of files, and hands on results as they come: the library's writer
 * puts them into the order of the files. No file is sent that is far behind the first one that is not written, so that
 * the memory of pictures that wait for those before them does not depend on their number. */
#include "tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <libavcodec/avcodec.h>

enum { AHEAD_PER_WORKER = 8, QUEUE_DEPTH = 2, ENCODED_PER_WORKER = 1000, POLL_MS = 200 };

typedef struct worker {
    size_t queue[QUEUE_DEPTH], queued;            /* files that it was sent, in order */
    size_t sent;                      /* in its life */
} worker;

struct pack_workers {
    pack_job   job;
    os_worker *processes;
    int       *is_ready;              /* of each process: it has an answer */
    worker    *list;                  /* of each process: what it does */
    size_t     count;
    int        is_started;            /* the processes are */
    size_t     sent;                  /* files: up to which they were sent */
    size_t     ahead;                 /* how many are sent behind those that are done */
};

/* What a worker sends back; the reason's text or the bytes of both pictures follow. */
typedef struct reply_picture {
    uint32_t codec, size;
    int32_t  width, height, frame_width, frame_height, is_measured;
    double   psnr, ssim;
    uint32_t notes;
} reply_picture;

typedef struct reply {
    uint64_t      file;
    uint32_t      reason_size;        /* 0: it was encoded */
    int32_t       is_passing;
    reply_picture picture[2];
} reply;


/* ---- in a worker ---- */

static int read_all(int file, void *data, size_t size)
{
    for (size_t done = 0; done < size;) {
        ssize_t got = read(file, (char *)data + done, size - done);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) return -1;
        done += (size_t)got;
    }
    return 0;
}

static reply_picture reply_of(const pack_encoded *e)
{
    if (!e->packet) return (reply_picture){ .size = 0 };
    return (reply_picture){ e->codec, (uint32_t)e->packet->size, e->width, e->height, e->frame_width, e->frame_height,
                            e->is_measured, e->psnr, e->ssim, e->notes };
}

static int reply_send(int out, size_t file, const pack_result *r)
{
    reply head = { .file = file, .reason_size = r->reason ? (uint32_t)strlen(r->reason) + 1 : 0,
                   .is_passing = r->is_passing };
    const pack_encoded *pictures[2] = { &r->input, &r->thumb };
    for (int i = 0; i < 2 && !r->reason; i++) head.picture[i] = reply_of(pictures[i]);
    os_part parts[3] = { { &head, sizeof head }, { r->reason, head.reason_size } };
    size_t count = r->reason ? 2 : 1;
    for (int i = 0; i < 2 && head.picture[i].size; i++)
        parts[count++] = (os_part){ pictures[i]->packet->data, head.picture[i].size };
    return os_write_parts(out, parts, count);         /* together, so that the parent wakes once */
}

/* Encodes until the parent closes its ends, or is gone. */
static void worker_run(const void *given, int in, int out)
{
    const pack_job *job = given;
    uint64_t file;
    int error = 0;
    while (!error && !read_all(in, &file, sizeof file)) {
        pack_result r = { .reason = NULL };
        r.reason = pack_encode_file(job->settings, &job->files->list[file], &r.input, &r.thumb);
        r.is_passing = r.reason && pack_is_passing();
        error = reply_send(out, (size_t)file, &r);
        pack_result_free(&r);
    }
}


/* ---- starting and ending workers ---- */

void pack_result_free(pack_result *r)
{
    av_packet_free(&r->input.packet);
    av_packet_free(&r->thumb.packet);
    free(r->reason);
    *r = (pack_result){ .reason = NULL };
}

static int worker_start(pack_workers *w, size_t i)
{
    w->list[i] = (worker){ .sent = 0 };
    w->is_ready[i] = 0;
    int error = os_worker_start(&w->processes[i], worker_run, &w->job, w->processes, w->count);
    return error ? tool_error("no process could be started: %s", strerror(error)) : EXIT_OK;
}

/* Starts the processes, or as many as can be. It is done when a file needs one: those that are kept as they are do
 * not. */
static int workers_start(pack_workers *w)
{
    size_t started = 0;
    while (started < w->count && worker_start(w, started) == EXIT_OK) started++;
    w->count = started;
    w->is_started = 1;
    return started ? EXIT_OK : EXIT_INPUT;
}

pack_workers *pack_workers_new(const pack_job *job, size_t first)
{
    pack_workers *w = tool_checked(calloc(1, sizeof *w));
    size_t left = job->files->count - first;
    w->job = *job;
    w->sent = first;
    w->count = job->jobs < left ? job->jobs : left;
    w->list = tool_checked(calloc(w->count + 1, sizeof *w->list));
    w->processes = tool_checked(calloc(w->count + 1, sizeof *w->processes));
    w->is_ready = tool_checked(calloc(w->count + 1, sizeof *w->is_ready));
    w->ahead = AHEAD_PER_WORKER * (w->count + 1);
    for (size_t i = 0; i < w->count; i++) w->processes[i].in = -1;
    /* Encoders allocate and free the same 20 MB for every picture: keeping them saves a tenth of the time of H.264,
     * which the kernel takes to map and clear them. */
    os_keep_memory();
    return w;
}

void pack_workers_end(pack_workers *w)
{
    for (size_t i = 0; i < w->count; i++) if (w->processes[i].in >= 0) os_worker_kill(&w->processes[i]);
    free(w->list);
    free(w->processes);
    free(w->is_ready);
    free(w);
}


/* ---- giving out files, taking results ---- */

/* A worker that is gone shows when its answer is read, and so does one that cannot be reached. */
static void worker_send(pack_workers *w, size_t i, size_t file)
{
    worker *one = &w->list[i];
    uint64_t number = file;
    one->queue[one->queued++] = file;
    one->sent++;
    if (tool_write_all(w->processes[i].out, &number, sizeof number)) os_worker_hang_up(&w->processes[i]);
}

/* Whether a file needs no worker: one that is left out already, or whose bytes are kept without decoding them. */
static int is_done_here(const pack_workers *w, pack_result *result)
{
    const pack_file *from = &w->job.files->list[result->file];
    if (from->reason) result->reason = tool_format("%s", from->reason);
    return from->reason || pack_encode_keep(w->job.settings, from, &result->input);
}

/* First one file for each worker, then a second, which it begins without waiting for the parent. EXIT_OK: a file needs
 * none, and *result is its. PACK_AGAIN: all are sent that can be. */
static int send_files(pack_workers *w, size_t done, pack_result *result)
{
    for (size_t depth = 1; depth <= QUEUE_DEPTH; depth++)
        for (size_t i = 0; i < w->count; i++) {
            worker *one = &w->list[i];
            if (one->sent >= ENCODED_PER_WORKER) {
                if (one->queued) continue;
                os_worker_wait(&w->processes[i]);
                if (worker_start(w, i)) return EXIT_INPUT;
            }
            if (one->queued >= depth) continue;
            if (w->sent == w->job.files->count || w->sent >= done + w->ahead) return PACK_AGAIN;
            result->file = w->sent++;
            if (is_done_here(w, result)) return EXIT_OK;
            if (!w->is_started && workers_start(w)) return EXIT_INPUT;
            worker_send(w, i, result->file);
        }
    return PACK_AGAIN;
}

/* A worker that crashed has met a picture that is at fault; one that was ended from outside, or had no memory, has
 * not. */
static int worker_died(pack_workers *w, size_t i, pack_result *result)
{
    os_worker_end end = os_worker_wait(&w->processes[i]);
    worker old = w->list[i];
    if (!end.crash || !old.queued)
        return tool_error("a process that encodes ended with %s %d%s", end.signal ? "signal" : "status",
                          end.signal ? end.signal : end.status, end.is_killed ? ": is memory out?" : "");
    result->file = old.queue[0];
    result->reason = tool_format("the decoder or encoder crashed (signal %d)", end.crash);
    if (worker_start(w, i)) return EXIT_INPUT;
    for (size_t k = 1; k < old.queued; k++) worker_send(w, i, old.queue[k]);
    return EXIT_OK;
}

static int picture_receive(int in, const reply_picture *from, pack_encoded *to)
{
    if (!from->size) return 0;
    *to = (pack_encoded){ tool_checked(av_packet_alloc()), from->codec, from->width, from->height, from->frame_width,
                          from->frame_height, from->is_measured, from->psnr, from->ssim, from->notes };
    if (av_new_packet(to->packet, (int)from->size) < 0) exit(tool_error("out of memory"));
    return read_all(in, to->packet->data, from->size);
}

/* Returns -1 when the worker is gone. */
static int result_receive(pack_workers *w, size_t i, pack_result *result)
{
    worker *one = &w->list[i];
    int in = w->processes[i].in;
    reply head;
    if (read_all(in, &head, sizeof head)) return -1;
    int failed = 0;
    if (head.reason_size) {
        result->reason = tool_checked(malloc(head.reason_size));
        failed = read_all(in, result->reason, head.reason_size);
    } else {
        failed = picture_receive(in, &head.picture[0], &result->input) ||
                 picture_receive(in, &head.picture[1], &result->thumb);
    }
    if (failed) return pack_result_free(result), -1;
    result->file = (size_t)head.file;
    result->is_passing = head.is_passing;
    one->queued--;
    memmove(one->queue, one->queue + 1, one->queued * sizeof *one->queue);
    return 0;
}

int pack_workers_next(pack_workers *w, size_t done, pack_result *result)
{
    int status = send_files(w, done, result);
    if (status != PACK_AGAIN) return status;
    size_t i = 0;
    while (i < w->count && !w->is_ready[i]) i++;
    if (i == w->count) os_workers_wait(w->processes, w->count, w->is_ready, POLL_MS);
    for (i = 0; i < w->count && !w->is_ready[i];) i++;
    if (i == w->count) return PACK_AGAIN;
    w->is_ready[i] = 0;
    return result_receive(w, i, result) ? worker_died(w, i, result) : EXIT_OK;
}

/* write.c - writes an archive from several threads: pictures as they are, of any data set, with names, targets,
 * classes, splits, and fields of each kind
 *
 *     cc -std=c11 write.c benzina.o $(pkg-config --libs libavcodec libavutil libjpeg) -lm -lpthread -ldl -o write
 *     ./write out.bzna 4 train/               4 threads; the JPEG files of a folder
 *     ./write out.bzna 4 a.bzna more.tar      H.265, H.264, AV1 and JPEG in one archive; a.bzna may be the demo's
 *
 * The threads add samples when they have read them, each with its index: the archive is the same in every run. */
#include "example.h"

#include <pthread.h>
#include <string.h>

enum { THREADS_MAX = 64 };

typedef struct job {
    const bzna_dataset *from;
    bzna_writer        *writer;
    pthread_mutex_t     lock;
    uint64_t            next;                                /* the first sample that nobody has taken */
    uint64_t            left_out;
    bzna_status         status;                              /* what ended a thread first, and why */
    bzna_error          err;
} job;

/* What a thread needs for a sample: its bytes, twice for picture and thumbnail, and its name. */
typedef struct scratch {
    void  *bytes[2];
    size_t capacity;
    char   name[65536];
} scratch;

static void field_of(bzna_field_value *field, const char *name, uint32_t kind, const void *data, size_t size)
{
    bzna_field_value_init(field, sizeof *field);
    field->name = name;
    field->kind = kind;
    field->data = data;
    field->size = size;
}

/* Reads what the sample is. What it cannot read is an error of the sample, not of the archive. */
static bzna_status read_sample(const bzna_dataset *from, uint64_t index, scratch *s, bzna_image images[2],
                               bzna_writer_sample *desc, bzna_error *err)
{
    bzna_sample_ref where;
    bzna_status status = bzna_dataset_sample(from, index, &where, sizeof where, err);
    if (status < 0)
        return status;
    if (where.size > s->capacity) {
        free(s->bytes[0]);
        free(s->bytes[1]);
        s->bytes[0] = malloc((size_t)where.size);
        s->bytes[1] = malloc((size_t)where.size);
        s->capacity = s->bytes[0] && s->bytes[1] ? (size_t)where.size : 0;
        if (!s->capacity) return BZNA_E_MEMORY;
    }
    bzna_image_init(&images[0], sizeof images[0]);
    bzna_image_init(&images[1], sizeof images[1]);
    if ((status = bzna_dataset_read_image(from, index, "image", s->bytes[0], s->capacity, &images[0], err)) < 0)
        return status;
    desc->image = &images[0];
    if (bzna_dataset_read_image(from, index, "thumb", s->bytes[1], s->capacity, &images[1], NULL) >= 0)
        desc->thumb = &images[1];
    if (bzna_dataset_field(from, index, "name", s->name, sizeof s->name, NULL, NULL) >= 0)
        desc->name = s->name;
    status = bzna_dataset_target(from, index, &desc->target, err);
    desc->has_target = desc->target != BZNA_TARGET_NONE;
    return status;
}

/* Hands in one sample: of every ten, one is for validation. */
static bzna_status write_sample(job *j, uint64_t index, scratch *s, bzna_error *err)
{
    bzna_image       images[2];
    bzna_writer_sample desc;
    bzna_field_value fields[4];
    bzna_status      status;
    char             caption[64];
    const int64_t    source = (int64_t)index;
    bzna_writer_sample_init(&desc, sizeof desc);
    if ((status = read_sample(j->from, index, s, images, &desc, err)) == BZNA_OK) {
        const float    box[4]  = { 0.0f, 0.0f, (float)images[0].width, (float)images[0].height };
        const uint8_t  mask[3] = { (uint8_t)index, 0, 255 };
        const int      length  = snprintf(caption, sizeof caption, "picture %" PRIu64, index);
        field_of(&fields[0], "source", BZNA_FIELD_INTEGER, &source, sizeof source);
        field_of(&fields[1], "box", BZNA_FIELD_VECTOR, box, sizeof box);
        field_of(&fields[2], "caption", BZNA_FIELD_TEXT, caption, (size_t)length);
        field_of(&fields[3], "mask", BZNA_FIELD_BYTES, mask, sizeof mask);
        desc.split       = index % 10 == 9 ? BZNA_SPLIT_VALIDATION : BZNA_SPLIT_TRAIN;
        desc.fields      = fields;
        desc.field_count = 4;
        while ((status = bzna_writer_add(j->writer, index, &desc, 100000000, err)) == BZNA_AGAIN) {}
    }
    if (status >= 0 || status == BZNA_E_IO || status == BZNA_E_MEMORY) return status;
    fprintf(stderr, "sample %" PRIu64 " is left out: %s\n", index, err->message);     /* those behind it move up */
    pthread_mutex_lock(&j->lock);
    j->left_out++;
    pthread_mutex_unlock(&j->lock);
    while ((status = bzna_writer_add(j->writer, index, NULL, 100000000, err)) == BZNA_AGAIN) {}
    return status;
}

/* Each thread takes the smallest index that is left, so that none waits long for its turn. */
static void *work(void *user)
{
    job        *j = (job *)user;
    scratch    *s = (scratch *)calloc(1, sizeof *s);
    bzna_error  err;
    bzna_status status = s ? BZNA_OK : BZNA_E_MEMORY;
    bzna_error_init(&err, sizeof err);
    while (status == BZNA_OK) {
        pthread_mutex_lock(&j->lock);
        const uint64_t index = j->next < bzna_dataset_count(j->from) ? j->next++ : UINT64_MAX;
        pthread_mutex_unlock(&j->lock);
        if (index == UINT64_MAX) break;
        status = write_sample(j, index, s, &err);
    }
    pthread_mutex_lock(&j->lock);
    if (status < 0 && j->status == BZNA_OK) {
        j->status = status;
        j->err    = err;
    }
    pthread_mutex_unlock(&j->lock);
    if (s) { free(s->bytes[0]); free(s->bytes[1]); }
    free(s);
    return NULL;
}

/* The names of the classes of a data set, each with its NUL; NULL: none have names. */
static const char **class_names(const bzna_dataset *from, uint32_t *count)
{
    char         name[65536];
    const char **names = NULL;
    size_t       needed;
    for (*count = 0; bzna_dataset_class(from, *count, name, sizeof name, &needed, NULL) == BZNA_OK; ++*count) {
        const char **more = (const char **)realloc((void *)names, (*count + 1) * sizeof *names);
        char        *copy = (char *)malloc(needed);
        if (!more || !copy) abort();
        memcpy(copy, name, needed);
        names = more;
        names[*count] = copy;
    }
    return names;
}

static bzna_status run(job *j, uint32_t threads)
{
    pthread_t workers[THREADS_MAX];
    uint32_t  started = 0;
    while (started < threads && !pthread_create(&workers[started], NULL, work, j)) started++;
    if (!started) work(j);
    while (started) pthread_join(workers[--started], NULL);
    return j->status == BZNA_OK ? bzna_writer_finish(j->writer, &j->err) : j->status;
}

int main(int argc, char **argv)
{
    bzna_context      *context = NULL;
    bzna_dataset      *from = NULL;
    bzna_writer_config config;
    bzna_status        status;
    uint32_t           class_count = 0;
    const char       **classes = NULL;
    const int          threads = argc > 3 ? atoi(argv[2]) : 0;
    job                j;

    if (threads < 1 || threads > THREADS_MAX) {
        fprintf(stderr, "usage: %s OUT.bzna THREADS DATA...\n", argv[0]);
        return 2;
    }
    memset(&j, 0, sizeof j);
    bzna_error_init(&j.err, sizeof j.err);
    pthread_mutex_init(&j.lock, NULL);
    check(bzna_context_open(NULL, &context, &j.err), &j.err);
    check(bzna_dataset_open_list(context, (const char *const *)argv + 3, (uint32_t)argc - 3, NULL, &from, &j.err),
          &j.err);
    classes = class_names(from, &class_count);
    bzna_writer_config_init(&config, sizeof config);
    config.classes     = classes;
    config.class_count = class_count;
    check(bzna_writer_open(context, argv[1], &config, &j.writer, &j.err), &j.err);
    j.from = from;
    status = run(&j, (uint32_t)threads);
    if (status < 0) fprintf(stderr, "%s\n", j.err.message);
    else printf("%" PRIu64 " samples, %" PRIu64 " left out, %u classes\n", bzna_dataset_count(from) - j.left_out,
                j.left_out, class_count);
    bzna_writer_close(j.writer);
    bzna_dataset_close(from);
    bzna_context_close(context);
    pthread_mutex_destroy(&j.lock);
    while (class_count) free((void *)classes[--class_count]);
    free((void *)classes);
    return status < 0 || j.left_out > 0;
}

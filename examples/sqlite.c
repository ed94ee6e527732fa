/* sqlite.c - a data set in a table of SQLite: a function that reads rows, on many threads
 *
 *     cc -std=c11 sqlite.c benzina.o -lsqlite3 $(pkg-config --libs libavcodec libavutil libjpeg) -lm -lpthread -ldl
 *     ./a.out pack train.db train/              a table of the samples of any data set
 *     ./a.out load train.db [THREADS]           an epoch in shuffled order: its rate, and a sum of its pixels
 *     ./a.out load train/ [THREADS]             the same with any other data set
 *
 * The table is samples(image BLOB, target INTEGER, name TEXT). A row without a target is a sample without one, and a
 * row without an image fails when a loader reads the image.
 *
 * The library asks for values one by one, and on several threads at once. A connection of SQLite serves one thread at a
 * time, so a pool holds connections, and a reader borrows one for a call. The library asks for the fields of a sample
 * one after the other, so a connection keeps the row that it read last, and the next field needs no query. */
#include "example.h"

#include <pthread.h>
#include <sqlite3.h>
#include <string.h>
#include <time.h>

enum { IMAGE, TARGET, NAME, FIELDS };                       /* columns of the query, and fields of the provider */

static const bzna_provider_field fields[FIELDS] = {
    { .name = "image", .kind = BZNA_FIELD_IMAGE },
    { .name = "target", .kind = BZNA_FIELD_INTEGER },
    { .name = "name", .kind = BZNA_FIELD_TEXT },
};

typedef struct connection {
    sqlite3           *db;
    sqlite3_stmt      *row;           /* SELECT of one row by its rowid */
    uint64_t           index;         /* of the sample whose row it stands on; UINT64_MAX: none */
    struct connection *next;          /* in the pool */
} connection;

/* What the data set owns. */
typedef struct table {
    char           *path;
    sqlite3_int64  *rowids;           /* of each sample: rows may have been deleted between others */
    uint64_t        count;
    pthread_mutex_t lock;
    connection     *pool;             /* (lock) connections that nobody uses */
} table;

static void connection_close(connection *c)
{
    sqlite3_finalize(c->row);
    sqlite3_close(c->db);
    free(c);
}

/* Opens the database once more. Only one thread at a time uses a connection, so that SQLite need not lock it. */
static connection *connection_open(const char *path)
{
    static const char query[] = "SELECT image, target, name FROM samples WHERE rowid = ?";
    connection *c = calloc(1, sizeof *c);

    if (!c)
        return NULL;
    c->index = UINT64_MAX;
    if (sqlite3_open_v2(path, &c->db, SQLITE_OPEN_READONLY | SQLITE_OPEN_NOMUTEX, NULL) == SQLITE_OK &&
        sqlite3_prepare_v2(c->db, query, -1, &c->row, NULL) == SQLITE_OK)
        return c;
    fprintf(stderr, "%s: %s\n", path, c->db ? sqlite3_errmsg(c->db) : "no memory");
    connection_close(c);
    return NULL;
}

/* Takes a connection from the pool: the one that stands on the sample's row, else any, else a new one. */
static connection *pool_take(table *t, uint64_t index)
{
    connection *c, **at = &t->pool;

    pthread_mutex_lock(&t->lock);
    while (*at && (*at)->index != index)
        at = &(*at)->next;
    at = *at ? at : &t->pool;
    if ((c = *at) != NULL)
        *at = c->next;
    pthread_mutex_unlock(&t->lock);
    return c ? c : connection_open(t->path);
}

static void pool_give(table *t, connection *c)
{
    pthread_mutex_lock(&t->lock);
    c->next = t->pool;
    t->pool = c;
    pthread_mutex_unlock(&t->lock);
}

/* Steps to a sample's row. A busy or failing disk may be tried again, which E_IO says; all else is told by its number,
 * which the library puts into bzna_error.native_code. */
static bzna_status row_find(const table *t, connection *c, uint64_t index)
{
    int error;

    if (c->index == index)
        return BZNA_OK;
    c->index = UINT64_MAX;
    sqlite3_reset(c->row);
    sqlite3_bind_int64(c->row, 1, t->rowids[index]);
    error = sqlite3_step(c->row);
    if (error == SQLITE_ROW)
        c->index = index;
    return error == SQLITE_ROW ? BZNA_OK : error == SQLITE_BUSY || error == SQLITE_IOERR ? BZNA_E_IO : error;
}

/* Gives a value of the row on which a connection stands. */
static bzna_status row_value(sqlite3_stmt *row, uint32_t field, void *buffer, uint64_t capacity, uint64_t *size)
{
    const int64_t integer = field == TARGET ? sqlite3_column_int64(row, TARGET) : 0;
    const void *bytes;

    if (sqlite3_column_type(row, (int)field) == SQLITE_NULL)
        return BZNA_E_NOT_FOUND;
    bytes = field == IMAGE  ? sqlite3_column_blob(row, IMAGE) :
            field == TARGET ? (const void *)&integer :
                              (const void *)sqlite3_column_text(row, NAME);
    *size = field == TARGET ? sizeof integer : (uint64_t)sqlite3_column_bytes(row, (int)field);
    if (*size && *size <= capacity)                         /* else it is asked for again, with room */
        memcpy(buffer, bytes, (size_t)*size);
    return BZNA_OK;
}

static bzna_status table_read(void *user, uint64_t index, uint32_t field, void *buffer, uint64_t capacity,
                              uint64_t *size, bzna_error *err)
{
    (void)err;
    table *t = user;
    connection *c = pool_take(t, index);
    bzna_status status;

    if (!c)
        return BZNA_E_IO;
    status = row_find(t, c, index);
    if (status == BZNA_OK)
        status = row_value(c->row, field, buffer, capacity, size);
    pool_give(t, c);
    return status;
}

static void table_close(void *user)
{
    table *t = user;

    while (t->pool) {
        connection *c = t->pool;
        t->pool = c->next;
        connection_close(c);
    }
    pthread_mutex_destroy(&t->lock);
    free(t->rowids);
    free(t->path);
    free(t);
}

/* Finds the rows, in the order of their rowids. */
static int table_list(table *t, sqlite3 *db)
{
    sqlite3_stmt *list = NULL;
    uint64_t room = 0;
    int error = sqlite3_prepare_v2(db, "SELECT rowid FROM samples ORDER BY rowid", -1, &list, NULL);

    while (error == SQLITE_OK && sqlite3_step(list) == SQLITE_ROW) {
        if (t->count == room) {
            sqlite3_int64 *more = realloc(t->rowids, (size_t)(room = room ? 2 * room : 1024) * sizeof *more);
            if (!more)
                error = SQLITE_NOMEM;
            t->rowids = more ? more : t->rowids;
        }
        if (error == SQLITE_OK)
            t->rowids[t->count++] = sqlite3_column_int64(list, 0);
    }
    if (sqlite3_finalize(list) != SQLITE_OK || error != SQLITE_OK) {
        fprintf(stderr, "%s: %s\n", t->path, sqlite3_errmsg(db));
        return -1;
    }
    return 0;
}

static table *table_open(const char *path)
{
    table *t = calloc(1, sizeof *t);

    if (!t || pthread_mutex_init(&t->lock, NULL)) {
        free(t);
        return NULL;
    }
    if ((t->path = malloc(strlen(path) + 1)) != NULL && (t->pool = connection_open(strcpy(t->path, path))) != NULL &&
        !table_list(t, t->pool->db))
        return t;
    table_close(t);
    return NULL;
}

static bzna_status table_dataset(bzna_context *context, const char *path, bzna_dataset **out, bzna_error *err)
{
    bzna_provider provider;
    bzna_dataset_config config;
    bzna_status status;
    table *t = table_open(path);

    if (!t)
        return BZNA_E_IO;
    bzna_dataset_config_init(&config, sizeof config);
    config.name = path;                                     /* in messages */
    bzna_provider_init(&provider, sizeof provider);
    provider.user = t;
    provider.count = t->count;
    provider.fields = fields;
    provider.field_count = FIELDS;
    provider.read = table_read;
    provider.fingerprint = t->count ? (uint64_t)t->rowids[t->count - 1] : 0;
    provider.close = table_close;
    status = bzna_dataset_open_provider(context, &provider, &config, out, err);
    if (status != BZNA_OK)
        table_close(t);                                     /* it is still ours */
    return status;
}

/* Opens a table, or any other data set. */
static bzna_status any_dataset(bzna_context *context, const char *path, bzna_dataset **out, bzna_error *err)
{
    char head[16] = "";
    FILE *f = fopen(path, "rb");
    const int is_table = f && fread(head, 1, sizeof head, f) == sizeof head && !memcmp(head, "SQLite format 3", 16);

    if (f)
        fclose(f);
    return is_table ? table_dataset(context, path, out, err) : bzna_dataset_open(context, path, NULL, out, err);
}

/* Loads one epoch of small pictures. The sum does not depend on threads: each picture counts by its number. */
static void load(bzna_context *context, const char *path, uint32_t threads)
{
    enum { EDGE = 32 };
    bzna_loader_config config;
    bzna_dataset *dataset = NULL;
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_batch_info info;
    bzna_error err = { .struct_size = sizeof err };
    bzna_status status;
    uint64_t pictures = 0, failed = 0;
    double sum = 0;
    struct timespec begin, end;

    check(any_dataset(context, path, &dataset, &err), &err);
    bzna_loader_config_init(&config, sizeof config);
    config.output.batch_size = 64;
    config.output.width = config.output.height = EDGE;
    config.order.kind = BZNA_ORDER_SHUFFLE;
    config.warp.kind = BZNA_WARP_RANDOM_RESIZED_CROP;
    config.decode.threads = threads;
    config.read.threads = threads;                          /* queries take their time: several at once */
    timespec_get(&begin, TIME_UTC);
    check(bzna_loader_open(context, dataset, &config, &loader, &err), &err);

    while ((status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err)) == BZNA_OK) {
        check(bzna_batch_get_info(batch, &info, sizeof info, &err), &err);
        for (uint32_t i = 0; i < info.count; i++) {
            const float *slot = (const float *)info.image.data + (size_t)i * 3 * EDGE * EDGE;
            double of_slot = (double)(info.targets[i] + 1);
            for (int k = 0; k < 3 * EDGE * EDGE && info.status[i] == BZNA_OK; k++)
                of_slot += (double)slot[k] * (k % 7 + 1);
            sum += of_slot * (double)(info.indices[i] % 1000 + 1);
        }
        pictures += info.count;
        failed += report_failed(batch, &info);
        bzna_batch_release(batch);
    }
    check(status, &err);
    timespec_get(&end, TIME_UTC);

    printf("%" PRIu64 " pictures, %" PRIu64 " of them failed, sum %.12e\n", pictures, failed, sum);
    fprintf(stderr, "%.0f pictures/s\n", (double)pictures / ((double)(end.tv_sec - begin.tv_sec) +
                                                           1e-9 * (double)(end.tv_nsec - begin.tv_nsec)));
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

/* Ends the program with SQLite's message, if a call of it did not return what it should. */
static void db_check(sqlite3 *db, int result, int wanted, const char *path)
{
    if (result == wanted) return;
    fprintf(stderr, "%s: %s\n", path, sqlite3_errmsg(db));
    EXAMPLE_EXIT();
}

/* Inserts one sample of a data set. Returns SQLite's result. */
static int put(const bzna_dataset *dataset, sqlite3_stmt *insert, uint64_t index)
{
    static char bytes[1 << 24], name[4096];
    size_t size = 0;
    int64_t target;
    bzna_error err = { .struct_size = sizeof err };

    check(bzna_dataset_target(dataset, index, &target, &err), &err);
    check(bzna_dataset_field(dataset, index, "image", bytes, sizeof bytes, &size, &err), &err);
    sqlite3_reset(insert);
    sqlite3_bind_blob(insert, 1, bytes, (int)size, SQLITE_STATIC);
    if (target == BZNA_TARGET_NONE)
        sqlite3_bind_null(insert, 2);
    else
        sqlite3_bind_int64(insert, 2, target);
    if (bzna_dataset_field(dataset, index, "name", name, sizeof name, NULL, NULL) == BZNA_OK)
        sqlite3_bind_text(insert, 3, name, -1, SQLITE_STATIC);
    else
        sqlite3_bind_null(insert, 3);
    return sqlite3_step(insert);
}

static void pack(bzna_context *context, const char *path, const char *data)
{
    static const char create[] = "CREATE TABLE samples(image BLOB, target INTEGER, name TEXT); BEGIN";
    bzna_dataset *dataset = NULL;
    sqlite3 *db = NULL;
    sqlite3_stmt *insert = NULL;
    bzna_error err = { .struct_size = sizeof err };

    check(bzna_dataset_open(context, data, NULL, &dataset, &err), &err);
    const uint64_t count = bzna_dataset_count(dataset);
    const int opened = sqlite3_open(path, &db);
    db_check(db, opened, SQLITE_OK, path);
    db_check(db, sqlite3_exec(db, create, NULL, NULL, NULL), SQLITE_OK, path);
    db_check(db, sqlite3_prepare_v2(db, "INSERT INTO samples VALUES(?, ?, ?)", -1, &insert, NULL), SQLITE_OK, path);
    for (uint64_t i = 0; i < count; i++) db_check(db, put(dataset, insert, i), SQLITE_DONE, path);
    sqlite3_finalize(insert);
    db_check(db, sqlite3_exec(db, "COMMIT", NULL, NULL, NULL), SQLITE_OK, path);
    printf("%" PRIu64 " rows\n", count);
    sqlite3_close(db);
    bzna_dataset_close(dataset);
}

int main(int argc, char **argv)
{
    const int packs = argc > 3 && !strcmp(argv[1], "pack"), loads = argc > 2 && !strcmp(argv[1], "load");
    bzna_context *context = NULL;
    bzna_error err = { .struct_size = sizeof err };

    if (!packs && !loads) {
        fprintf(stderr, "usage: %s pack DATABASE DATA | load DATABASE-OR-DATA [THREADS]\n", argv[0]);
        return 2;
    }
    check(bzna_context_open(NULL, &context, &err), &err);
    if (packs) pack(context, argv[2], argv[3]);
    else load(context, argv[2], argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0);
    bzna_context_close(context);
    return 0;
}

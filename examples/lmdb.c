/* lmdb.c - a data set in an LMDB database: one descriptor, and no copy of a value
 *
 *     cc -std=c11 lmdb.c benzina.o -llmdb $(pkg-config --libs libavcodec libavutil libjpeg) -lm -lpthread -ldl -o lmdb
 *     ./lmdb pack train.mdb train/              a database of what any data set holds
 *     ./lmdb pack large.mdb train/ 1000         the same samples over and over, up to so many
 *     ./lmdb load train.mdb [THREADS]           an epoch in shuffled order, and its rate
 *
 * A value is a target, an int64_t, and the bytes of a picture's file after it; its key is the sample's name. LMDB maps
 * its file into memory, and what a transaction sees there stays as it is until the transaction ends. So one walk over
 * the keys finds all places, and the library reads pictures, targets and names where they lie. */
#include "../benzina.h"

#include <inttypes.h>
#include <lmdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { IMAGE, TARGET, NAME, FIELDS };

static const bzna_provider_field fields[FIELDS] = {
    { .name = "image", .kind = BZNA_FIELD_IMAGE, .located = 1 },
    { .name = "target", .kind = BZNA_FIELD_INTEGER, .located = 1 },
    { .name = "name", .kind = BZNA_FIELD_TEXT, .located = 1 },
};

/* A database that is read: what the data set owns. */
typedef struct database {
    MDB_env    *env;
    MDB_txn    *txn;                  /* open as long as the data set, since the places are in it */
    bzna_place *places;
    uint64_t    count;
} database;

static int mdb_check(int error, const char *what)
{
    if (error)
        fprintf(stderr, "%s: %s\n", what, mdb_strerror(error));
    return error;
}

static void database_close(void *user)
{
    database *d = user;
    if (d->txn)
        mdb_txn_abort(d->txn);
    if (d->env)
        mdb_env_close(d->env);
    free(d->places);
    free(d);
}

/* Where the values of one record lie. */
static void places_set(bzna_place *places, const MDB_val *key, const MDB_val *value)
{
    const size_t head = value->mv_size < sizeof(int64_t) ? value->mv_size : sizeof(int64_t);
    places[IMAGE].data = (const char *)value->mv_data + head;
    places[IMAGE].size = value->mv_size - head;
    places[TARGET].data = value->mv_data;
    places[TARGET].size = head;
    places[NAME].data = key->mv_data;
    places[NAME].size = key->mv_size;
}

/* Finds all records, in the order of their keys. */
static int database_walk(database *d, MDB_dbi dbi)
{
    MDB_cursor *cursor;
    MDB_stat stat;
    MDB_val key, value;
    int error = 0;

    if (mdb_check(mdb_stat(d->txn, dbi, &stat), "mdb_stat") ||
        mdb_check(mdb_cursor_open(d->txn, dbi, &cursor), "mdb_cursor_open"))
        return -1;
    d->places = calloc(stat.ms_entries ? stat.ms_entries * FIELDS : 1, sizeof *d->places);
    while (d->places && d->count < stat.ms_entries && !(error = mdb_cursor_get(cursor, &key, &value, MDB_NEXT)))
        places_set(d->places + d->count++ * FIELDS, &key, &value);
    mdb_cursor_close(cursor);
    if (d->places && d->count < stat.ms_entries)
        return mdb_check(error, "mdb_cursor_get"), -1;
    return d->places ? 0 : -1;
}

/* Without a lock file: nobody may write meanwhile. */
static database *database_open(const char *path)
{
    database *d = calloc(1, sizeof *d);
    MDB_dbi dbi;

    if (d && !mdb_check(mdb_env_create(&d->env), "mdb_env_create") &&
        !mdb_check(mdb_env_open(d->env, path, MDB_NOSUBDIR | MDB_RDONLY | MDB_NOLOCK, 0644), path) &&
        !mdb_check(mdb_txn_begin(d->env, NULL, MDB_RDONLY, &d->txn), "mdb_txn_begin") &&
        !mdb_check(mdb_dbi_open(d->txn, NULL, 0, &dbi), "mdb_dbi_open") && !database_walk(d, dbi))
        return d;
    if (d)
        database_close(d);
    return NULL;
}

static bzna_status database_dataset(bzna_context *context, const char *path, bzna_dataset **out, bzna_error *err)
{
    bzna_provider provider;
    bzna_dataset_config config;
    bzna_status status;
    database *d = database_open(path);

    if (!d)
        return BZNA_E_IO;
    bzna_dataset_config_init(&config, sizeof config);
    config.name = path;                                     /* in messages */
    bzna_provider_init(&provider, sizeof provider);
    provider.user = d;
    provider.count = d->count;
    provider.fields = fields;
    provider.field_count = FIELDS;
    provider.places = d->places;
    provider.fingerprint = d->count;                        /* of a database that changes, something better */
    provider.close = database_close;
    status = bzna_dataset_open_provider(context, &provider, &config, out, err);
    if (status != BZNA_OK)
        database_close(d);                                  /* it is still ours */
    return status;
}

static double seconds_between(const struct timespec *begin, const struct timespec *end)
{
    return (double)(end->tv_sec - begin->tv_sec) + 1e-9 * (double)(end->tv_nsec - begin->tv_nsec);
}

/* Loads one epoch in batches of 64 crops. */
static bzna_status load(bzna_context *context, const char *path, uint32_t threads, bzna_error *err)
{
    bzna_loader_config config;
    bzna_dataset *dataset = NULL;
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_batch_info info;
    uint64_t pictures = 0, failed = 0, sum = 0;
    struct timespec begin, end;
    bzna_status status = database_dataset(context, path, &dataset, err);

    bzna_loader_config_init(&config, sizeof config);
    config.output.batch_size = 64;
    config.output.width = config.output.height = 32;
    config.order.kind = BZNA_ORDER_SHUFFLE;
    config.warp.kind = BZNA_WARP_RANDOM_RESIZED_CROP;
    config.decode.threads = threads;
    timespec_get(&begin, TIME_UTC);
    if (status == BZNA_OK)
        status = bzna_loader_open(context, dataset, &config, &loader, err);

    while (status == BZNA_OK && (status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, err)) == BZNA_OK) {
        bzna_batch_get_info(batch, &info, sizeof info, NULL);
        for (uint32_t i = 0; i < info.count; i++)
            sum += (uint64_t)(info.targets[i] + 1) * (info.indices[i] % 1000 + 1);
        pictures += info.count;
        failed += info.failed;
        bzna_batch_release(batch);
    }
    timespec_get(&end, TIME_UTC);

    if (status >= 0)
        printf("%" PRIu64 " pictures, %" PRIu64 " of them failed, checksum %" PRIu64 "; %.0f pictures/s\n", pictures,
               failed, sum, (double)pictures / seconds_between(&begin, &end));
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
    return status;
}

/* Puts sample number `from` of a data set as record number `to`. */
static bzna_status put(const bzna_dataset *dataset, MDB_txn *txn, MDB_dbi dbi, uint64_t from, uint64_t to,
                       bzna_error *err)
{
    static char bytes[1 << 24];
    char name[32];
    int64_t target;
    size_t size = 0;
    bzna_status status = bzna_dataset_target(dataset, from, &target, err);
    MDB_val key = { (size_t)snprintf(name, sizeof name, "%010" PRIu64, to), name }, value = { 0, bytes };

    if (status == BZNA_OK)
        status = bzna_dataset_field(dataset, from, "image", bytes + sizeof target, sizeof bytes - sizeof target, &size,
                                    err);
    if (status != BZNA_OK)
        return status;
    memcpy(bytes, &target, sizeof target);
    value.mv_size = sizeof target + size;
    return mdb_check(mdb_put(txn, dbi, &key, &value, MDB_APPEND), "mdb_put") ? BZNA_E_IO : BZNA_OK;
}

/* Writes a database. count 0: each sample once. */
static bzna_status pack(bzna_context *context, const char *path, const char *data, uint64_t count, bzna_error *err)
{
    bzna_dataset *dataset = NULL;
    MDB_env *env = NULL;
    MDB_txn *txn = NULL;
    MDB_dbi dbi;
    bzna_status status = bzna_dataset_open(context, data, NULL, &dataset, err);
    const uint64_t samples = bzna_dataset_count(dataset);

    count = count ? count : samples;
    if (status == BZNA_OK &&
        (mdb_check(mdb_env_create(&env), "mdb_env_create") ||
         mdb_check(mdb_env_set_mapsize(env, (size_t)1 << 36), "mdb_env_set_mapsize") ||
         mdb_check(mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC, 0644), path) ||
         mdb_check(mdb_txn_begin(env, NULL, 0, &txn), "mdb_txn_begin") ||
         mdb_check(mdb_dbi_open(txn, NULL, 0, &dbi), "mdb_dbi_open")))
        status = BZNA_E_IO;
    for (uint64_t i = 0; i < count && status == BZNA_OK; i++)
        status = put(dataset, txn, dbi, i % samples, i, err);
    if (status == BZNA_OK && mdb_check(mdb_txn_commit(txn), "mdb_txn_commit"))
        status = BZNA_E_IO;
    else if (status != BZNA_OK && txn)
        mdb_txn_abort(txn);
    if (status == BZNA_OK)
        printf("%" PRIu64 " records\n", count);
    if (env)
        mdb_env_close(env);
    bzna_dataset_close(dataset);
    return status;
}

int main(int argc, char **argv)
{
    const int packs = argc > 3 && !strcmp(argv[1], "pack"), loads = argc > 2 && !strcmp(argv[1], "load");
    bzna_context *context = NULL;
    bzna_error err;
    bzna_status status;

    if (!packs && !loads) {
        fprintf(stderr, "usage: %s pack DATABASE DATA [COUNT] | load DATABASE [THREADS]\n", argv[0]);
        return 2;
    }
    bzna_error_init(&err, sizeof err);
    status = bzna_context_open(NULL, &context, &err);
    if (status == BZNA_OK)
        status = packs ? pack(context, argv[2], argv[3], argc > 4 ? strtoull(argv[4], NULL, 10) : 0, &err) :
                         load(context, argv[2], argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0, &err);
    if (status < 0)
        fprintf(stderr, "%s\n", err.message[0] ? err.message : bzna_status_text(status));
    bzna_context_close(context);
    return status < 0;
}

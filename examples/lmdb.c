/* lmdb.c - a data set in an LMDB database: one descriptor, and no copy of a value
 *
 *     cc -std=c11 lmdb.c benzina.o -llmdb $(pkg-config --libs libavcodec libavutil libjpeg) -lm -lpthread -ldl -o lmdb
 *     ./lmdb pack train.mdb train/              a database of the samples of any data set
 *     ./lmdb pack large.mdb train/ 1000         the same samples repeated, up to this number
 *     ./lmdb load train.mdb [THREADS]           an epoch in shuffled order, and its rate
 *
 * A value is a target, an int64_t, and the bytes of a picture's file after it; its key is the sample's name. LMDB maps
 * its file into memory, and memory that a transaction sees does not change until the transaction ends. So one walk over
 * the keys finds all places, and the library reads pictures, targets and names in place. */
#include "example.h"

#include <errno.h>
#include <lmdb.h>
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

/* Ends the program with LMDB's message, if a call of it failed. */
static void mdb_check(int error, const char *what)
{
    if (!error) return;
    fprintf(stderr, "%s: %s\n", what, mdb_strerror(error));
    EXAMPLE_EXIT();
}

static void database_close(void *user)
{
    database *d = user;
    mdb_txn_abort(d->txn);
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
static void database_walk(database *d, MDB_dbi dbi)
{
    MDB_cursor *cursor;
    MDB_stat stat;
    MDB_val key, value;

    mdb_check(mdb_stat(d->txn, dbi, &stat), "mdb_stat");
    mdb_check(mdb_cursor_open(d->txn, dbi, &cursor), "mdb_cursor_open");
    d->places = calloc(stat.ms_entries ? stat.ms_entries * FIELDS : 1, sizeof *d->places);
    if (!d->places) mdb_check(ENOMEM, "places of records");
    for (; d->count < stat.ms_entries; d->count++) {
        mdb_check(mdb_cursor_get(cursor, &key, &value, MDB_NEXT), "mdb_cursor_get");
        places_set(d->places + d->count * FIELDS, &key, &value);
    }
    mdb_cursor_close(cursor);
}

/* Without a lock file: nobody may write meanwhile. */
static database *database_open(const char *path)
{
    database *d = calloc(1, sizeof *d);
    MDB_dbi dbi;

    if (!d) mdb_check(ENOMEM, path);
    mdb_check(mdb_env_create(&d->env), "mdb_env_create");
    mdb_check(mdb_env_open(d->env, path, MDB_NOSUBDIR | MDB_RDONLY | MDB_NOLOCK, 0644), path);
    mdb_check(mdb_txn_begin(d->env, NULL, MDB_RDONLY, &d->txn), "mdb_txn_begin");
    mdb_check(mdb_dbi_open(d->txn, NULL, 0, &dbi), "mdb_dbi_open");
    database_walk(d, dbi);
    return d;
}

/* The data set owns the database, and closes it. */
static bzna_dataset *database_dataset(bzna_context *context, const char *path)
{
    bzna_provider provider;
    bzna_dataset_config config;
    bzna_dataset *dataset = NULL;
    bzna_error err = { .struct_size = sizeof err };
    database *d = database_open(path);

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
    check(bzna_dataset_open_provider(context, &provider, &config, &dataset, &err), &err);
    return dataset;
}

static double seconds_between(const struct timespec *begin, const struct timespec *end)
{
    return (double)(end->tv_sec - begin->tv_sec) + 1e-9 * (double)(end->tv_nsec - begin->tv_nsec);
}

/* Loads one epoch in batches of 64 crops. */
static void load(bzna_context *context, const char *path, uint32_t threads)
{
    bzna_loader_config config;
    bzna_dataset *dataset = database_dataset(context, path);
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_batch_info info;
    bzna_error err = { .struct_size = sizeof err };
    bzna_status status;
    uint64_t pictures = 0, failed = 0, sum = 0;
    struct timespec begin, end;

    bzna_loader_config_init(&config, sizeof config);
    config.output.batch_size = 64;
    config.output.width = config.output.height = 32;
    config.order.kind = BZNA_ORDER_SHUFFLE;
    config.warp.kind = BZNA_WARP_RANDOM_RESIZED_CROP;
    config.decode.threads = threads;
    timespec_get(&begin, TIME_UTC);
    check(bzna_loader_open(context, dataset, &config, &loader, &err), &err);

    while ((status = bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err)) == BZNA_OK) {
        check(bzna_batch_get_info(batch, &info, sizeof info, &err), &err);
        for (uint32_t i = 0; i < info.count; i++)
            sum += (uint64_t)(info.targets[i] + 1) * (info.indices[i] % 1000 + 1);
        pictures += info.count;
        failed += report_failed(batch, &info);
        bzna_batch_release(batch);
    }
    check(status, &err);
    timespec_get(&end, TIME_UTC);

    printf("%" PRIu64 " pictures, %" PRIu64 " of them failed, checksum %" PRIu64 "; %.0f pictures/s\n", pictures,
           failed, sum, (double)pictures / seconds_between(&begin, &end));
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

/* Puts sample number `from` of a data set as record number `to`. */
static void put(const bzna_dataset *dataset, MDB_txn *txn, MDB_dbi dbi, uint64_t from, uint64_t to)
{
    static char bytes[1 << 24];
    char name[32];
    int64_t target;
    size_t size = 0;
    bzna_error err = { .struct_size = sizeof err };
    MDB_val key = { (size_t)snprintf(name, sizeof name, "%010" PRIu64, to), name }, value = { 0, bytes };

    check(bzna_dataset_target(dataset, from, &target, &err), &err);
    check(bzna_dataset_field(dataset, from, "image", bytes + sizeof target, sizeof bytes - sizeof target, &size, &err),
          &err);
    memcpy(bytes, &target, sizeof target);
    value.mv_size = sizeof target + size;
    mdb_check(mdb_put(txn, dbi, &key, &value, MDB_APPEND), "mdb_put");
}

/* Writes a database. count 0: each sample once. */
static void pack(bzna_context *context, const char *path, const char *data, uint64_t count)
{
    bzna_dataset *dataset = NULL;
    MDB_env *env = NULL;
    MDB_txn *txn = NULL;
    MDB_dbi dbi;
    bzna_error err = { .struct_size = sizeof err };

    check(bzna_dataset_open(context, data, NULL, &dataset, &err), &err);
    const uint64_t samples = bzna_dataset_count(dataset);
    mdb_check(mdb_env_create(&env), "mdb_env_create");
    mdb_check(mdb_env_set_mapsize(env, (size_t)1 << 36), "mdb_env_set_mapsize");
    mdb_check(mdb_env_open(env, path, MDB_NOSUBDIR | MDB_NOLOCK | MDB_NOSYNC, 0644), path);
    mdb_check(mdb_txn_begin(env, NULL, 0, &txn), "mdb_txn_begin");
    mdb_check(mdb_dbi_open(txn, NULL, 0, &dbi), "mdb_dbi_open");
    count = count ? count : samples;
    for (uint64_t i = 0; i < count; i++) put(dataset, txn, dbi, i % samples, i);
    mdb_check(mdb_txn_commit(txn), "mdb_txn_commit");
    printf("%" PRIu64 " records\n", count);
    mdb_env_close(env);
    bzna_dataset_close(dataset);
}

int main(int argc, char **argv)
{
    const int packs = argc > 3 && !strcmp(argv[1], "pack"), loads = argc > 2 && !strcmp(argv[1], "load");
    bzna_context *context = NULL;
    bzna_error err = { .struct_size = sizeof err };

    if (!packs && !loads) {
        fprintf(stderr, "usage: %s pack DATABASE DATA [COUNT] | load DATABASE [THREADS]\n", argv[0]);
        return 2;
    }
    check(bzna_context_open(NULL, &context, &err), &err);
    if (packs) pack(context, argv[2], argv[3], argc > 4 ? strtoull(argv[4], NULL, 10) : 0);
    else load(context, argv[2], argc > 3 ? (uint32_t)strtoul(argv[3], NULL, 10) : 0);
    bzna_context_close(context);
    return 0;
}

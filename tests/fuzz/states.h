/* states.h - the target of saved states: 16 bytes that say what is loaded and how, then a state, which is restored and
 * continued. Include behind mutate.h. */
#ifndef BENZINA_FUZZ_STATES_H
#define BENZINA_FUZZ_STATES_H

enum { STATE_HEAD = 16, STATE_SAMPLES = 12 };

/* Twelve numbers with targets. */
static bzna_dataset *state_dataset(void)
{
    static uint8_t records[STATE_SAMPLES * 2];
    bzna_dataset *dataset = NULL;
    data_file file = { .size = sizeof records, .memory = records };
    const bzna_dataset_config all = { .struct_size = sizeof all };
    bzna_formats_config config = { .struct_size = sizeof config, .dataset = &all };
    bzna_error err;
    bzna_records r;
    bzna_formats_records_init(&r, sizeof r);
    r.data_type = r.label_type = BZNA_RECORD_UINT8;
    r.width = r.height = r.channels = 1;
    r.data_offset = 1;
    config.records = &r;
    for (size_t i = 0; i < sizeof records; i++)
        records[i] = (uint8_t)i;
    bzna_error_init(&err, sizeof err);
    FUZZ_CHECK(bzna_formats_open_records(fuzz_context(), &file, "state", &config, &dataset, &err) == BZNA_OK);
    return dataset;
}

static void state_config(bytes b, bzna_loader_config *config)
{
    bzna_loader_config_init(config, sizeof *config);
    config->output.batch_size = 1 + take(&b, 5);
    config->fields.bytes = "target";
    config->pipeline.no_threads = 1;
    config->order.kind = take(&b, 2);
    config->order.last_batch = take(&b, 4);
    config->order.seed = take(&b, 3);
    config->order.epochs = take(&b, 4) ? take(&b, 5) : BZNA_EPOCHS_ENDLESS;
    config->order.first_epoch = take(&b, 2) ? take(&b, 3) : UINT64_MAX - 2 - take(&b, 3);
    config->shard.world_size = 1 + take(&b, 3);
    config->shard.rank = take(&b, config->shard.world_size);
    config->pipeline.restore_any_pixels = take(&b, 2);
}

/* Batches from where the loader is; each sample is one that there is. */
static void state_draw(bzna_loader *loader)
{
    bzna_error err = { .struct_size = sizeof err };
    bzna_batch *batch = NULL;
    for (int n = 0; n < 10 && bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err) == BZNA_OK; n++) {
        bzna_batch_info info;
        bzna_batch_get_info(batch, &info, sizeof info, &err);
        for (uint32_t i = 0; i < info.count; i++)
            FUZZ_CHECK(info.indices[i] < STATE_SAMPLES && info.targets[i] == (int64_t)(2 * info.indices[i]));
        bzna_batch_release(batch);
    }
}

static void run_state(const uint8_t *data, size_t size)
{
    bytes rest = { data, size };
    const bytes settings = take_bytes(&rest, STATE_HEAD);
    bzna_dataset *dataset = state_dataset();
    bzna_error err = { .struct_size = sizeof err };
    bzna_loader *loader = NULL;
    bzna_loader_config config;
    bzna_loader_state state, again;
    memset(&state, 0, sizeof state);
    if (rest.size)
        memcpy(&state, rest.data, (size_t)bzi_min(rest.size, sizeof state));
    state_config(settings, &config);
    if (bzna_loader_open(fuzz_context(), dataset, &config, &loader, &err) == BZNA_OK) {
        if (bzna_loader_restore(loader, &state, &err) == BZNA_OK) {
            FUZZ_CHECK(bzna_loader_save(loader, &again, sizeof again, &err) == BZNA_OK);
            FUZZ_CHECK(again.epoch == state.epoch && again.position == state.position);
        }
        state_draw(loader);
    }
    bzna_loader_close(loader);
    bzna_dataset_close(dataset);
}

static void seeds_state(fuzz_give *give, void *user)
{
    for (uint8_t n = 0; n < 12; n++) {
        uint8_t input[STATE_HEAD + sizeof(bzna_loader_state)];
        bzna_dataset *dataset = state_dataset();
        bzna_loader *loader = NULL;
        bzna_batch *batch = NULL;
        bzna_error err = { .struct_size = sizeof err };
        bzna_loader_config config;
        bzna_loader_state state = { .struct_size = sizeof state };
        for (size_t i = 0; i < STATE_HEAD; i++)
            input[i] = (uint8_t)(n * (i + 1) * 5 / 3);
        state_config((bytes){ input, STATE_HEAD }, &config);
        if (bzna_loader_open(fuzz_context(), dataset, &config, &loader, &err) == BZNA_OK) {
            if (bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, NULL) == BZNA_OK)
                bzna_batch_release(batch);
            bzna_loader_save(loader, &state, sizeof state, NULL);
            memcpy(input + STATE_HEAD, &state, sizeof state);
            give(user, input, sizeof input);
        }
        bzna_loader_close(loader);
        bzna_dataset_close(dataset);
    }
}

/* Most states get the sum that fits them. */
static size_t mutate_state(uint8_t *data, size_t size, size_t capacity, unsigned seed)
{
    bzna_loader_state state;
    size = LLVMFuzzerMutate(data, size, capacity);
    if (size < STATE_HEAD + sizeof state || seed % 8 == 0)
        return size;
    memcpy(&state, data + STATE_HEAD, sizeof state);
    state.check = bzi_loader_state_check(&state);
    memcpy(data + STATE_HEAD, &state, sizeof state);
    return size;
}

#endif

/* files.h - targets of files as they lie on a disk: archives, video, HEIF, pictures, tars and their indices, RecordIO,
 * lists, record files, patterns of paths. Include behind mutate.h and the makers of tars and RecordIO. */
#ifndef BENZINA_FUZZ_FILES_H
#define BENZINA_FUZZ_FILES_H

static void run_file(const uint8_t *data, size_t size) { look_at_file((bytes){ data, size }, NULL); }

/* ---- Pictures that are files ---- */

static void run_picture(const uint8_t *data, size_t size)
{
    static const uint32_t codecs[] = { BZNA_CODEC_JPEG, BZNA_CODEC_STILL };
    const uint32_t codec = bzi_codec_recognize((bzi_span){ data, size });
    for (int i = 0; i < 2 && size; i++) {
        bzna_image image = { .struct_size = sizeof image, .codec = codecs[i], .data = data, .data_size = size };
        bzna_picture picture = { .struct_size = sizeof picture };
        uint8_t *copy = copied((bytes){ data, size });
        look_at_headers(&image);
        const bzi_codec *row = bzi_codec_of(&image);
        FUZZ_CHECK(!row->strip || row->strip(copy, size) <= size);
        free(copy);
        image.palette = size % 2;
        if (fuzz_decoder && codec == codecs[i])
            bzna_decoder_decode(fuzz_decoder, &image, &picture, NULL);
    }
    bzi_exif_orientation((bzi_span){ data, size });
    bzi_xmp_orientation((bzi_span){ data, size });
}

/* ---- HEIF and AVIF: examples/formats/heif.c ---- */

static void run_heif(const uint8_t *data, size_t size)
{
    bzna_image image = { .struct_size = sizeof image, .codec = BZNA_CODEC_OWN, .data = data, .data_size = size };
    bzna_picture picture = { .struct_size = sizeof picture };
    bzna_codec_shape shape = { .struct_size = sizeof shape };
    bzna_error err = { .struct_size = sizeof err };
    heif_state state = { .capacity = 0 };
    bzna_formats_heif_beside(data, size);
    if (!size)
        return;
    if (fuzz_decoder) {
        bzna_decoder_decode(fuzz_decoder, &image, &picture, NULL);
    } else if (heif_inspect(&state, data, size, &shape, &err) == BZNA_OK && shape.wrapped) {
        bzna_image_init(&image, sizeof image);
        if (heif_unwrap(&state, data, size, &image, &err) == BZNA_OK)
            look_at_headers(&image);
    }
    FUZZ_CHECK(!strncmp(err.message, "", 1) || memchr(err.message, 0, sizeof err.message));
    free(state.gathered);
}

/* ---- Tars ---- */

static void seeds_tar(fuzz_give *give, void *user)
{
    tar t = { NULL, 0, 0, 0 };
    tar_text(&t, "a.cls", "7");
    tar_text(&t, "a.txt", "one");
    tar_text(&t, "b.cls", "-1");
    give(user, t.bytes, t.size);
    tar_free(&t);
    tar_pax(&t, 'x', "path", "folder/of/a.sample.json");
    tar_text(&t, "short", "{}");
    tar_pax(&t, 'g', "size", "3");
    give(user, t.bytes, t.size);
    tar_free(&t);
    tar_long(&t, "a/name/that/is/longer/than/any/other.npy");
    tar_text(&t, "other", "\x93NUMPY");
    tar_member(&t, '5', "folder/", NULL, 0);
    tar_end(&t);
    give(user, t.bytes, t.size);
    tar_free(&t);
}

/* The size of an index, 2 bytes; the index; the tar that it may be of. */
static void run_tar_index(const uint8_t *data, size_t size)
{
    static const bzna_dataset_config config;
    static char name[] = "fuzz.tar";
    const bzi_memory *memory = &fuzz_context()->host->memory;
    bytes rest = { data, size };
    bytes text = take_bytes(&rest, size >= 2 ? 2 + bzi_be16(data) : 0);
    source s = { .b = rest };
    bzi_container c;
    bzi_tar_build b;
    bzna_error err;
    take_bytes(&text, 2);
    if (!text.size)
        return;
    memset(&c, 0, sizeof c);
    memset(&b, 0, sizeof b);
    c.host = fuzz_context()->host;
    c.arena.memory = memory;
    c.source.path = name;
    c.name = name;
    c.source.size = rest.size;
    c.source.callbacks = source_of(&s);
    b.c = &c;
    b.config = &config;
    c.own = bzi_arena_zero(&c.arena, 1, sizeof(bzi_tar));
    FUZZ_CHECK(c.own);
    bzi_tar_walk_begin(&b.walk, &c.source, memory, 0);
    if (bzi_tar_parse_index(&b, (bzi_span){ text.data, text.size }, &err) == BZNA_OK &&
        bzi_tar_finish(&b, &err) == BZNA_OK)
        for (uint64_t i = 0; i < c.count; i++) {
            bzi_extent extent = { 0 };
            if (bzi_tar_locate(&c, i, &extent, &err) == BZNA_OK)
                FUZZ_CHECK(extent.offset <= rest.size && extent.size <= rest.size - extent.offset);
        }
    bzi_tar_walk_end(&b.walk);
    bzi_buffer_free(memory, &b.members);
    bzi_buffer_free(memory, &b.begins);
    bzi_arena_free(&c.arena);
}

static void seeds_tar_index(fuzz_give *give, void *user)
{
    static const char index[] = "v1.2 2\ncls 512 1 a.cls txt 1536 3 a.txt\ncls 2560 2 b.cls\n";
    static const char old[] = "v1.1 1\ncls 512 1\n";
    const char *texts[] = { index, old };
    for (int i = 0; i < 2; i++) {
        tar t = { NULL, 0, 0, 0 };
        uint8_t head[2] = { 0, (uint8_t)strlen(texts[i]) };
        tar_raw(&t, head, 2);
        tar_raw(&t, texts[i], strlen(texts[i]));
        tar_text(&t, "a.cls", "7");
        tar_text(&t, "a.txt", "one");
        tar_text(&t, "b.cls", "-1");
        give(user, t.bytes, t.size);
        tar_free(&t);
    }
}

static size_t mutate_tar_index(uint8_t *data, size_t size, size_t capacity, unsigned seed)
{
    const size_t head = size >= 2 ? bzi_min(2 + bzi_be16(data), size) : 0;
    if (head < 2 || seed % 2 == 0)
        return mutate_behind(head, data, size, capacity, seed / 2);
    mutation m = { data, size, capacity, seed };
    const size_t now = mutation_apply(&m, 2, head - 2);
    data[0] = (uint8_t)(now >> 8);
    data[1] = (uint8_t)now;
    return m.size;
}

/* ---- RecordIO ---- */

static void seeds_recordio(fuzz_give *give, void *user)
{
    static const float labels[3] = { 1, 2.5f, -3 };
    rec_file *f = rec_new();
    rec_add_picture(f, 1, labels, 1, "\xff\xd8\xff\xe0", 4);
    rec_add_picture(f, 2, labels, 3, "\xff\xd8\xff\xe0", 4);
    rec_add(f, "ab\0\0\x0a\x23\xd7\xce" "cdef", 12);
    give(user, f->bytes, f->size);
    free(f);
}

/* Opens the bytes by a function of examples/formats, read by a source and then as memory. */
static void look_at_formats(bytes b, const bzna_formats_config *config,
                            bzna_status (*open)(bzna_context *context, data_file *file, const char *name,
                                                const bzna_formats_config *config, bzna_dataset **out, bzna_error *err))
{
    source s = { .b = b };
    const bzna_source callbacks = source_of(&s);

    for (int way = 0; way < 2; way++) {
        data_file file = { .size = b.size, .memory = b.data };
        bzna_error err = { .struct_size = sizeof err };
        bzna_dataset *dataset = NULL;
        bzna_status status;
        if (way)
            FUZZ_CHECK(bzna_formats_file_take(&file, &callbacks, &err) == BZNA_OK);
        status = open(fuzz_context(), &file, "fuzz", config, &dataset, &err);
        FUZZ_CHECK((status == BZNA_OK) == (dataset != NULL) && (status == BZNA_OK || err.message[0]));
        if (dataset)
            look_at_dataset(dataset, b.size);
        FUZZ_CHECK(s.closes == (way && status == BZNA_OK));
    }
}

static void run_recordio(const uint8_t *data, size_t size)
{
    const bzna_dataset_config all = { .struct_size = sizeof all };
    const bzna_formats_config config = { .struct_size = sizeof config, .dataset = &all };
    look_at_formats((bytes){ data, size }, &config, bzna_formats_open_recordio);
}

/* A file's size, 4 bytes, and its index. */
static void run_recordio_index(const uint8_t *data, size_t size)
{
    const data_span text = { (const char *)data + 4, size - 4 };
    recordio r = { .count = 0 };
    bzna_error err = { .struct_size = sizeof err };
    r.records.file.size = size >= 4 ? bzi_be32(data) : 0;
    if (size >= 4 && parse_index(&r, text, &err) == BZNA_OK)
        for (uint64_t i = 0; i < r.count; i++)
            FUZZ_CHECK(r.records.offsets[i] < r.records.file.size &&
                       (!i || r.records.offsets[i] > r.records.offsets[i - 1]));
    free(r.records.offsets);
}

static void seeds_recordio_index(fuzz_give *give, void *user)
{
    static const char one[] = "\0\0\x01\0" "0\t0\n1\t40\n2\t128\n", two[] = "\0\0\x01\0" "7\t64\r\n3\t0";
    give(user, one, sizeof one - 1);
    give(user, two, sizeof two - 1);
}

/* ---- Lists: MXNet's .lst, .csv, Caffe's ---- */

static void run_list(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    data_list list = { .text = { text, size } };
    bzna_error err = { .struct_size = sizeof err };

    FUZZ_CHECK(text);
    memcpy(text, data, size);
    if (parse(&list, &err) == BZNA_OK && sort_rows(&list, &err) == BZNA_OK)
        for (uint64_t i = 0; i < list.count; i++) {
            const data_list_row *row = &list.rows[i];
            FUZZ_CHECK(bzna_formats_list_find(&list, row->index) == row);
            FUZZ_CHECK(row->path >= text && row->path + row->path_size <= text + size);
            FUZZ_CHECK(row->first_label + row->label_count <= list.label_count && list.label_count <= size / 2 + 1);
            (void)bzna_formats_list_target(&list, row);
            (void)bzna_formats_list_check(&list, row, &err);
        }
    bzna_formats_list_free(&list);
}

static void seeds_list(fuzz_give *give, void *user)
{
    static const char *const texts[] = {
        "0\t1\ta.jpg\n7\t2\tb/c.jpg\n", "3\t0.5\t-1e3\tx y.png\r\n", "path,label\na.jpg,1\n\"b,c\"\"d.jpg\",2\n",
        "a.jpg,1,0.5,nan\n", "a.jpg 3\nfolder/b c.jpg 4\n", "name;label\n", "a.jpg\nb.jpg\n",
    };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        give(user, texts[i], strlen(texts[i]));
}

/* ---- Records of one size ---- */

static void run_records(const uint8_t *data, size_t size)
{
    bytes b = { data, size };
    const bzna_dataset_config all = { .struct_size = sizeof all };
    bzna_formats_config config = { .struct_size = sizeof config, .dataset = &all };
    bzna_records r;
    bzna_formats_records_init(&r, sizeof r);
    config.records = &r;
    r.data_type = take(&b, 8);
    r.layout = take(&b, 3);
    r.channels = take(&b, 8);
    r.label_type = take(&b, 8);
    r.width = take(&b, 1 << 16);
    r.height = take(&b, 1 << 16);
    r.header_bytes = take(&b, 1 << 16);
    r.stride = take(&b, 1 << 24);
    r.data_offset = take(&b, 1 << 24);
    r.label_offset = take(&b, 1 << 24);
    if (take(&b, 2)) {                                      /* sums of these wrap */
        r.stride *= (uint64_t)take(&b, UINT32_MAX) << 16;
        r.data_offset *= (uint64_t)take(&b, UINT32_MAX) << 16;
        r.label_offset *= (uint64_t)take(&b, UINT32_MAX) << 16;
        r.width *= take(&b, UINT32_MAX);
    }
    r.scale = (float)take(&b, 3);
    look_at_formats(b, &config, bzna_formats_open_records);
}

static void seeds_records(fuzz_give *give, void *user)
{
    uint8_t input[160];
    for (uint8_t type = 0; type < 8; type++) {
        memset(input, type, sizeof input);
        memcpy(input, (uint8_t[24]){ type, type % 2, 3, 1, 0, 2, 0, 3, 0, 4, 0, 0, 0, 0, 0, 1, 0, 0, 0 }, 24);
        give(user, input, sizeof input);
    }
}

/* ---- Patterns of paths. No folder is searched: what has wildcards is expanded, not matched. ---- */

/* What may stand for thousands of texts takes milliseconds: of patterns with a number above 99 or more than two open
 * braces, one in 32 is tried. */
static int is_left_out(const uint8_t *data, size_t size)
{
    uint32_t digits = 0, is_costly = 0, braces = 0, sum = 0;
    for (size_t i = 0; i < size; i++) {
        sum += data[i];
        digits = data[i] >= '0' && data[i] <= '9' ? digits + 1 : 0;
        braces += data[i] == '{';
        is_costly |= digits > 2 || braces > 2;
    }
    return is_costly && sum % 32;
}

static void try_pattern(const uint8_t *data, size_t size)
{
    char *pattern = malloc(size + 1), *dst;
    data_names paths = { .count = 0 };
    bzna_error err = { .struct_size = sizeof err };
    uint32_t count = 0;
    size_t needed = 0;
    FUZZ_CHECK(pattern);
    memcpy(pattern, data, size);
    pattern[size] = 0;
    bzna_formats_braces(pattern, NULL, 0, &needed, &count, &err);
    FUZZ_CHECK(count <= BZI_LIMIT_PARTS && needed <= count * (size + 1));
    if ((dst = malloc(needed + !needed)) && needed)
        FUZZ_CHECK(bzna_formats_braces(pattern, dst, needed, &needed, &count, &err) == BZNA_OK);
    free(dst);
    if (count && count <= 200 && !strpbrk(pattern, "*?["))
        bzna_formats_paths(&paths, pattern, &err);
    bzna_formats_data_free(&paths);
    free(pattern);
}

static void run_pattern(const uint8_t *data, size_t size)
{
    if (!is_left_out(data, size))
        try_pattern(data, size);
}

static void seeds_pattern(fuzz_give *give, void *user)
{
    static const char *const texts[] = { "a-{000..012}.tar", "{a,b{1,2}}::{x..z}", "{3..1..-2}{,,}\\{{}", "a::b" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        give(user, texts[i], strlen(texts[i]));
}

/* ---- Pairs: names of files in two folders. No folder is searched. ---- */

/* pairs.c asks for the extensions of all codecs: those of HEIF are enough here. */
const bzna_codec *bzna_formats_codecs(uint64_t *count)
{
    static bzna_codec codec;
    bzna_formats_heif(&codec);
    *count = 1;
    return &codec;
}

/* The first line has extensions. Then comes a name a line, by turns in one folder and in the other. */
static void run_pairs(const uint8_t *data, size_t size)
{
    char *text = malloc(size + 1);
    const bzna_formats_config config = { .struct_size = sizeof config, .extensions = text };
    pairs p = { .fields = { { .name = "a" }, { .name = "b" } }, .folders = { .count = 2 } };
    bzna_error err = { .struct_size = sizeof err };
    char *line, *next, path[BELOW + 64];
    int which = 0;

    FUZZ_CHECK(text);
    memcpy(text, data, size);
    text[size] = 0;
    for (line = strchr(text, '\n'); line; line = next) {
        *line++ = 0;
        next = strchr(line, '\n');
        if (next)
            *next = 0;
        snprintf(path, sizeof path, "%d/%s", which, line);
        if (strlen(line) < 64 && is_picture(path, &config) && !strchr(strrchr(path, '.'), '/'))
            FUZZ_CHECK(bzna_formats_data_add(&p.files, path, &err) == BZNA_OK);
        which = !which;
    }
    if (sort(&p, &err) == BZNA_OK) {
        FUZZ_CHECK(p.files.count % 2 == 0);
        for (uint32_t i = 0; i < p.files.count; i += 2) {
            const char *const *const files = (const char *const *)p.files.list + i;
            FUZZ_CHECK(files[0][0] == '0' && files[1][0] == '1' && !compare_stems(files[0], files[1]));
            FUZZ_CHECK(!i || compare_stems(files[-1], files[0]) < 0);
        }
    }
    bzna_formats_data_free(&p.files);
    free(text);
}

static void seeds_pairs(fuzz_give *give, void *user)
{
    static const char *const texts[] = { "npy raw\na.jpg\na.png\nb/c.heic\nb/c.npy\n", "x\na.jpg\nb.jpg\na.png\n",
                                         " x  yz \na.x\na.b.yz\na.b.x\na.X" };
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        give(user, texts[i], strlen(texts[i]));
}

#endif

/* Boxes found by type wherever they stand, tables of every shape, clean apertures, NAL units, parameter sets. A
 * small tree of boxes here rebuilds the archives of tests/data in other shapes; what they hold must stay as their .json
 * says. */
#include "library.h"
#include "test.h"
#include "known.h"

/* ---- A tree of boxes ---- */

#define KIDS_MAX 160

typedef struct node {
    char         type[5];
    int          container, large, to_end;
    uint8_t     *bytes;               /* a leaf's payload; a container's, up to its first child */
    size_t       size;
    struct node *kids[KIDS_MAX];
    int          count;
    size_t       at, payload_at;      /* where it was written last */
} node;

static node *node_make(const char *type, const void *bytes, size_t size)
{
    node *n = calloc(1, sizeof *n);
    memcpy(n->type, type, 4);
    n->bytes = malloc(size ? size : 1);
    if (size)
        memcpy(n->bytes, bytes, size);
    n->size = size;
    return n;
}

static void node_free(node *n)
{
    for (int i = 0; i < n->count; i++)
        node_free(n->kids[i]);
    free(n->bytes);
    free(n);
}

static void node_set(node *n, const void *bytes, size_t size)
{
    free(n->bytes);
    n->bytes = malloc(size ? size : 1);
    memcpy(n->bytes, bytes, size);
    n->size = size;
}

static void node_insert(node *parent, int at, node *kid)
{
    if (parent->count == KIDS_MAX)
        exit(1);
    memmove(parent->kids + at + 1, parent->kids + at, (size_t)(parent->count - at) * sizeof *parent->kids);
    parent->kids[at] = kid;
    parent->count++;
}

static void node_append(node *parent, node *kid) { node_insert(parent, parent->count, kid); }

static void node_remove(node *parent, node *kid)
{
    for (int i = 0; i < parent->count; i++)
        if (parent->kids[i] == kid) {
            memmove(parent->kids + i, parent->kids + i + 1, (size_t)(parent->count - i - 1) * sizeof *parent->kids);
            parent->count--;
            node_free(kid);
            return;
        }
}

/* Reads the boxes of [begin, end) as children of a node of that type. */
static node *node_parse(const char *type, const uint8_t *d, size_t begin, size_t end)
{
    static const char containers[] = "file moov trak mdia minf stbl stsd hvc1 avc1";
    node *n;
    size_t prefix = !strcmp(type, "stsd") ? 8 : !strcmp(type, "hvc1") || !strcmp(type, "avc1") ? 78 : 0;
    if (!strstr(containers, type))
        return node_make(type, d + begin, end - begin);
    n = node_make(type, d + begin, prefix);
    n->container = 1;
    for (size_t at = begin + prefix; at < end;) {
        char kid[5] = "";
        size_t size = be_get(d + at, 4), header = 8;
        node *k;
        if (size == 1) {
            size = be_get(d + at + 8, 8);
            header = 16;
        }
        memcpy(kid, d + at + 4, 4);
        if (size < header || size > end - at)
            exit(1);
        k = node_parse(kid, d, at + header, at + size);
        k->large = header == 16;
        node_append(n, k);
        at += size;
    }
    return n;
}

static size_t node_size(const node *n)
{
    size_t size = (!strcmp(n->type, "file") ? 0 : n->large ? 16u : 8u) + n->size;
    for (int i = 0; i < n->count; i++)
        size += node_size(n->kids[i]);
    return size;
}

static size_t node_write(node *n, uint8_t *d, size_t at)
{
    size_t size = node_size(n);
    n->at = at;
    if (strcmp(n->type, "file")) {
        be_put(d + at, n->to_end ? 0 : n->large ? 1 : size, 4);
        memcpy(d + at + 4, n->type, 4);
        if (n->large)
            be_put(d + at + 8, size, 8);
        at += n->large ? 16 : 8;
    }
    n->payload_at = at;
    memcpy(d + at, n->bytes, n->size);
    at += n->size;
    for (int i = 0; i < n->count; i++)
        at = node_write(n->kids[i], d, at);
    return at;
}

/* "moov/trak.2/mdia" */
static node *node_find(node *n, const char *path)
{
    while (n && *path) {
        int nth = path[4] == '.' ? atoi(path + 5) : 0;
        node *found = NULL;
        for (int i = 0; i < n->count && !found; i++)
            if (!strncmp(n->kids[i]->type, path, 4) && nth-- == 0)
                found = n->kids[i];
        n = found;
        path += strcspn(path, "/");
        path += *path == '/';
    }
    return n;
}

static node *node_need(node *n, const char *path)
{
    node *found = node_find(n, path);
    if (!found) {
        printf("no box %s\n", path);
        exit(1);
    }
    return found;
}

typedef void visitor(node *parent, node *n, void *data);

static void node_visit(node *parent, node *n, visitor *visit, void *data)
{
    for (int i = 0; i < n->count; i++)
        node_visit(n, n->kids[i], visit, data);
    visit(parent, n, data);
}

static void shift_chunks(node *parent, node *n, void *data)
{
    int wide = !strcmp(n->type, "co64") ? 8 : !strcmp(n->type, "stco") ? 4 : 0;
    (void)parent;
    for (size_t i = 0; wide && i < be_get(n->bytes + 4, 4); i++) {
        uint8_t *p = n->bytes + 8 + i * (size_t)wide;
        be_put(p, be_get(p, wide) + *(const uint64_t *)data, wide);
    }
}

/* Writes a file whose chunk offsets count from an mdat that began (payload) at old; corrects them. Returns memory of
 * exactly that size. */
static uint8_t *node_file(node *root, size_t old, size_t *size)
{
    uint8_t *d;
    uint64_t delta;
    *size = node_size(root);
    d = malloc(*size);
    node_write(root, d, 0);
    delta = node_need(root, "mdat")->payload_at - old;
    node_visit(NULL, root, shift_chunks, &delta);
    node_write(root, d, 0);
    return d;
}

/* ---- Opening what was built ---- */

typedef struct built {
    counter c;
    memory_source m;
    bzna_context *context;
    bzna_dataset *dataset;
    uint8_t *file;
    size_t size;
    bzna_error err;
    bzna_status status;
} built;

static void build_open(built *b, node *root, size_t old)
{
    bzna_source source;
    memset(b, 0, sizeof *b);
    b->context = context_of(&b->c);
    b->file = node_file(root, old, &b->size);
    b->err = fresh_error();
    source = source_of(&b->m, b->file, b->size);
    b->dataset = (bzna_dataset *)(void *)b;
    b->status = bzna_dataset_open_source(b->context, &source, NULL, &b->dataset, &b->err);
}

static void build_close(built *b)
{
    CHECK((b->status == BZNA_OK) == (b->dataset != NULL));
    bzna_dataset_close(b->dataset);
    CHECK_EQ(b->m.closes, b->dataset ? 1 : 0);
    bzna_context_close(b->context);
    CHECK_ALL_FREED(b->c);
    free(b->file);
}

typedef struct archive { uint8_t *file; size_t size; node *root; facts *f; } archive;

static archive archive_load(int a)
{
    archive r;
    r.file = slurp(archives[a], &r.size);
    r.root = node_parse("file", r.file, 0, r.size);
    r.f = &known[a];
    return r;
}

static void archive_free(archive *r)
{
    node_free(r->root);
    free(r->file);
}

/* Pictures, targets and names are what the .json says; where they lie is not asked. */
static void check_contents(const archive *r, const built *b, const char *what)
{
    static uint8_t buffer[1 << 18];
    int before = test_failures;
    if (b->status != BZNA_OK) {
        printf("  %s: %s: %s\n", what, bzna_status_name(b->status), b->err.message);
        test_failures++;
        return;
    }
    CHECK_EQ(bzna_dataset_count(b->dataset), r->f->count);
    for (int i = 0; i < r->f->count; i++) {
        const fact_sample *s = &r->f->samples[i];
        char name[64] = "";
        int64_t target = 77;
        CHECK_EQ(bzna_dataset_target(b->dataset, (uint64_t)i, &target, NULL), BZNA_OK);
        CHECK_EQ(target, s->target);
        CHECK_EQ(bzna_dataset_field(b->dataset, (uint64_t)i, "name", name, sizeof name, NULL, NULL), BZNA_OK);
        CHECK_STR(name, s->filename);
        for (int k = 0; k < s->image_count; k++) {
            const fact_image *m = &s->images[k];
            bzna_image image = { .struct_size = sizeof image };
            bzna_image_info info;
            bzna_error err = fresh_error();
            if (bzna_dataset_read_image(b->dataset, (uint64_t)i, m->name, buffer, sizeof buffer, &image, &err) !=
                BZNA_OK) {
                printf("  %s\n", err.message);
                test_failures++;
                continue;
            }
            CHECK(image.width == m->width && image.height == m->height && image.crop_x == 0 && image.crop_y == 0);
            CHECK(image.frame_width == m->frame_width && image.frame_height == m->frame_height);
            CHECK_EQ(image.data_size, m->size);
            CHECK(!memcmp(image.data, r->file + m->at, (size_t)m->size));
            CHECK_EQ(bzna_dataset_image_info(b->dataset, (uint64_t)i, m->name, &info, sizeof info, NULL), BZNA_OK);
            CHECK(!memcmp(b->file + info.data_offset, r->file + m->at, (size_t)m->size));
            CHECK(!memcmp(b->file + info.config_offset, image.config, (size_t)image.config_size));
        }
    }
    if (test_failures != before)
        printf("  in %s of %s\n", what, r->f->file);
}

TEST(the_tree_writes_what_it_read)
{
    for (int a = 0; a < 2; a++) {
        archive r = archive_load(a);
        size_t size;
        uint8_t *again = node_file(r.root, 40, &size);
        CHECK(size == r.size && !memcmp(again, r.file, size));
        free(again);
        archive_free(&r);
    }
}

/* ---- The same archive in other shapes ---- */

static void put_junk(node *parent, node *n, void *data)
{
    static const char *const types[] = { "free", "skip", "uuid", "udta", "wide", "xyz?" };
    int *count = data;
    (void)parent;
    if (!n->container || !strcmp(n->type, "stsd"))          /* stsd is a list of entries and nothing else */
        return;
    for (int i = n->count; i >= 0; i--) {
        uint8_t bytes[24];
        int kind = (*count)++ % 6;
        if (!strcmp(n->type, "file") && i == 0 && (kind == 2 || kind == 3 || kind == 5))
            continue;                                       /* a file begins with a box that says what it is */
        memset(bytes, 'j', sizeof bytes);
        memcpy(bytes + 4, "stszstcomoov", 12);              /* types inside are no boxes */
        node_insert(n, i, node_make(types[kind], bytes, kind == 2 ? 24 : (size_t)(*count % 3) * 8));
    }
}

static void reverse_kids(node *parent, node *n, void *data)
{
    (void)parent;
    (void)data;
    /* top level: see the moov-first variants; tracks keep their numbers */
    if (!strcmp(n->type, "file") || !strcmp(n->type, "moov"))
        return;
    for (int i = 0, k = n->count - 1; i < k; i++, k--) {
        node *t = n->kids[i];
        n->kids[i] = n->kids[k];
        n->kids[k] = t;
    }
}

static void make_large(node *parent, node *n, void *data)
{
    (void)parent;
    (void)data;
    n->large = 1;
}

static void widen_chunks(node *parent, node *n, void *data)
{
    uint8_t *wide;
    size_t count;
    (void)parent;
    (void)data;
    if (strcmp(n->type, "stco"))
        return;
    count = be_get(n->bytes + 4, 4);
    wide = calloc(8 + 8 * count, 1);
    memcpy(wide, n->bytes, 8);
    for (size_t i = 0; i < count; i++)
        be_put(wide + 8 + 8 * i, be_get(n->bytes + 8 + 4 * i, 4), 8);
    node_set(n, wide, 8 + 8 * count);
    memcpy(n->type, "co64", 4);
    free(wide);
}

static void old_headers(node *parent, node *n, void *data)
{
    uint8_t v0[84];
    (void)parent;
    (void)data;
    if (strcmp(n->type, "tkhd") || n->bytes[0] != 1)
        return;
    memcpy(v0, n->bytes, 4);
    v0[0] = 0;
    memcpy(v0 + 4, n->bytes + 8, 4);
    memcpy(v0 + 8, n->bytes + 16, 4);
    memcpy(v0 + 12, n->bytes + 20, 8);
    memcpy(v0 + 20, n->bytes + 32, 4);
    memcpy(v0 + 24, n->bytes + 36, 60);
    node_set(n, v0, 84);
}

static void new_headers(node *parent, node *n, void *data)
{
    uint8_t v1[96] = { 1 };
    (void)parent;
    (void)data;
    if (strcmp(n->type, "tkhd") || n->bytes[0] != 0)
        return;
    memcpy(v1 + 1, n->bytes + 1, 3);
    memcpy(v1 + 20, n->bytes + 12, 8);
    memcpy(v1 + 32, n->bytes + 20, 4);
    memcpy(v1 + 36, n->bytes + 24, 60);
    node_set(n, v1, 96);
}

static void names_without_nul(node *parent, node *n, void *data)
{
    (void)parent;
    (void)data;
    if (!strcmp(n->type, "hdlr") && n->bytes[n->size - 1] == 0)
        n->size--;
}

static void second_entries(node *parent, node *n, void *data)
{
    static const uint8_t entry[40] = { 0, 0, 0, 0, 0, 0, 0, 1, 0, 'x', '/', 'y' };
    (void)parent;
    (void)data;
    if (strcmp(n->type, "stsd"))
        return;
    n->bytes[7] = 3;
    node_append(n, node_make("mett", entry, sizeof entry));
    node_append(n, node_make("hvc1", "short", 5));          /* never looked into */
}

static void extra_kids(node *parent, node *n, void *data)
{
    (void)parent;
    (void)data;
    if (strcmp(n->type, "hvc1") && strcmp(n->type, "avc1"))
        return;
    node_insert(n, 0, node_make("btrt", "abcdefghijkl", 12));
    node_insert(n, 0, node_make("colr", "prof-an ICC profile", 19));
    node_insert(n, 1, node_make("fiel", "\1\0", 2));
    node_append(n, node_make("st3d", "\0\0\0\0\0", 5));
    node_append(n, node_make("colr", "rICC", 4));
}

static void zeros_at_the_end(node *parent, node *n, void *data)
{
    (void)parent;
    (void)data;
    if (!strcmp(n->type, "stsd") || !strcmp(n->type, "hvc1") || !strcmp(n->type, "avc1"))
        node_append(n, node_make("free", "", 0));
}

/* Leaves no mett entry and no chunk table alone that could be lost: what a metadata track needs is its handler's
 * name. */
static void moov_first(node *root)
{
    for (int i = 0; i < root->count; i++)
        if (!strcmp(root->kids[i]->type, "moov")) {
            node *moov = root->kids[i];
            memmove(root->kids + 2, root->kids + 1, (size_t)(i - 1) * sizeof *root->kids);
            root->kids[1] = moov;
            return;
        }
}

typedef struct variant { const char *name; visitor *visit; int moov_first, mdat_to_end, moov_to_end; } variant;

static const variant variants[] = {
    { "moov before mdat", NULL, 1, 0, 0 },
    { "moov before an mdat to the end of the file", NULL, 1, 1, 0 },
    { "a moov to the end of the file", NULL, 0, 0, 1 },
    { "free, skip, uuid, udta and unknown boxes everywhere", put_junk, 0, 0, 0 },
    { "the same, moov before mdat", put_junk, 1, 0, 0 },
    { "children in reverse order", reverse_kids, 0, 0, 0 },
    { "64-bit sizes everywhere", make_large, 0, 0, 0 },
    { "64-bit sizes, moov before mdat", make_large, 1, 0, 0 },
    { "64-bit sizes, moov to the end", make_large, 0, 0, 1 },
    { "co64", widen_chunks, 0, 0, 0 },
    { "co64, moov before mdat", widen_chunks, 1, 0, 0 },
    { "track headers of version 0", old_headers, 0, 0, 0 },
    { "track headers of version 1", new_headers, 0, 0, 0 },
    { "handler names without NUL", names_without_nul, 0, 0, 0 },
    { "more sample entries than one", second_entries, 0, 0, 0 },
    { "extra children in sample entries", extra_kids, 0, 0, 0 },
    { "empty boxes last", zeros_at_the_end, 0, 0, 0 } };

static void apply(node *root, const variant *v)
{
    int count = 0;
    if (v->moov_first)
        moov_first(root);
    if (v->mdat_to_end) {
        node_need(root, "mdat")->to_end = 1;
        node_need(root, "mdat")->large = 0;
    }
    if (v->moov_to_end) {
        node_need(root, "moov")->to_end = 1;
        node_need(root, "moov")->large = 0;
    }
    if (v->visit)
        node_visit(NULL, root, v->visit, &count);
    if (v->visit == make_large && (v->moov_to_end || v->mdat_to_end))
        node_need(root, v->moov_to_end ? "moov" : "mdat")->large = 0;
}

TEST(boxes_of_the_archive_are_found_by_type)
{
    for (int a = 0; a < 2; a++)
        for (size_t k = 0; k < sizeof variants / sizeof *variants; k++) {
            archive r = archive_load(a);
            built b;
            apply(r.root, &variants[k]);
            build_open(&b, r.root, 40);
            check_contents(&r, &b, variants[k].name);
            build_close(&b);
            archive_free(&r);
        }
}

/* Every sample rebuilt by the same means, and the outer tables with it. */
static void rebuild_samples(archive *r, const variant *v)
{
    node *stsz = node_need(r->root, "moov/trak/mdia/minf/stbl/stsz"),
         *stco = node_need(r->root, "moov/trak/mdia/minf/stbl/stco");
    node *mdat = node_need(r->root, "mdat");
    size_t tail = (size_t)(r->f->samples[7].offset + r->f->samples[7].size - 40), at = 0;
    uint8_t *bytes = malloc(mdat->size * 3 + (1 << 20));
    uint64_t grown;
    for (int i = 0; i < 8; i++) {
        const fact_sample *s = &r->f->samples[i];
        node *root = node_parse("file", r->file, (size_t)s->offset, (size_t)(s->offset + s->size));
        size_t size, old = node_size(root->kids[0]) + 8;    /* ftyp, then mdat's header */
        uint8_t *d;
        CHECK_STR(root->kids[1]->type, "mdat");
        apply(root, v);
        d = node_file(root, old, &size);
        memcpy(bytes + at, d, size);
        be_put(stsz->bytes + 12 + 4 * i, size, 4);
        be_put(stco->bytes + 8 + 4 * i, 40 + at, 4);
        at += size;
        free(d);
        node_free(root);
    }
    memcpy(bytes + at, mdat->bytes + tail, mdat->size - tail);
    grown = at - tail;
    shift_chunks(NULL, node_need(r->root, "moov/trak.1/mdia/minf/stbl/stco"), &grown);
    shift_chunks(NULL, node_need(r->root, "moov/trak.2/mdia/minf/stbl/stco"), &grown);
    node_set(mdat, bytes, at + mdat->size - tail);
    node_remove(node_need(r->root, "moov"), node_need(r->root, "moov/trak.3"));
    free(bytes);
}

TEST(boxes_of_the_samples_are_found_by_type)
{
    for (int a = 0; a < 2; a++)
        for (size_t k = 0; k < sizeof variants / sizeof *variants; k++) {
            archive r = archive_load(a);
            built b;
            rebuild_samples(&r, &variants[k]);
            build_open(&b, r.root, 40);
            check_contents(&r, &b, variants[k].name);
            build_close(&b);
            archive_free(&r);
        }
}

/* ---- Tables ---- */

/* Takes the place of a track's stsz: stz2 with entries of that many bits, or stsz with one size for all (0 bits). */
static void set_sizes(node *root, const char *track, uint32_t bits)
{
    char path[64];
    node *n;
    uint8_t bytes[64] = { 0 };
    size_t count;
    snprintf(path, sizeof path, "moov/%s/mdia/minf/stbl/stsz", track);
    n = node_need(root, path);
    count = be_get(n->bytes + 8, 4);
    be_put(bytes + 8, count, 4);
    if (bits == 0) {
        be_put(bytes + 4, be_get(n->bytes + 12, 4), 4);
        node_set(n, bytes, 12);
        return;
    }
    bytes[7] = (uint8_t)bits;
    for (size_t i = 0; i < count; i++) {
        uint64_t v = be_get(n->bytes + 12 + 4 * i, 4);
        if (bits == 4)
            bytes[12 + i / 2] |= (uint8_t)(v << (i % 2 ? 0 : 4));
        else
            be_put(bytes + 12 + i * bits / 8, v, (int)bits / 8);
    }
    memcpy(n->type, "stz2", 4);
    node_set(n, bytes, 12 + (count * bits + 7) / 8);
}

TEST(sizes_may_be_packed_or_common)
{
    static const struct { const char *name, *track; uint32_t bits; } cases[] = {
        { "targets of one common size", "trak.1", 0 }, { "4-bit sizes", "trak.1", 4 }, { "8-bit sizes", "trak.2", 8 },
        { "16-bit sizes", "trak.2", 16 },
        { "8-bit sizes of targets", "trak.1", 8 } };
    for (int a = 0; a < 2; a++)
        for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
            archive r = archive_load(a);
            built b;
            set_sizes(r.root, cases[k].track, cases[k].bits);
            build_open(&b, r.root, 40);
            check_contents(&r, &b, cases[k].name);
            build_close(&b);
            archive_free(&r);
        }
}

TEST(an_odd_number_of_4_bit_sizes_ends_in_half_a_byte)
{
    static const uint8_t stsz[] = { 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 5, 0x12, 0x3f, 0x50 };
    static const uint32_t sizes[5] = { 1, 2, 3, 15, 5 };
    archive r = archive_load(1);
    built b;
    node *n = node_need(r.root, "moov/trak.2/mdia/minf/stbl/stsz");
    memcpy(n->type, "stz2", 4);
    node_set(n, stsz, sizeof stsz);
    build_open(&b, r.root, 40);
    REQUIRE(b.status == BZNA_OK);
    for (uint32_t i = 0; i < 5; i++) {
        const bzi_mp4 *mp4 = b.dataset->parts[0].container->own;
        CHECK_EQ(mp4->filename->table.sizes[i], sizes[i]);
    }
    CHECK_EQ(((const bzi_mp4 *)b.dataset->parts[0].container->own)->filename->table.sample_count, 5);
    build_close(&b);
    archive_free(&r);
}

/* Gives a track, whose samples lie one behind the other, chunks of 1 to 5 samples each. */
static void set_chunks(node *root, const char *track, uint32_t *random)
{
    char path[64];
    node *stbl, *stsz, *stco, *stsc;
    uint8_t runs[8 + 12 * 16] = { 0 }, chunks[8 + 4 * 16] = { 0 };
    size_t count, n_chunks = 0, n_runs = 0;
    uint64_t at;
    snprintf(path, sizeof path, "moov/%s/mdia/minf/stbl", track);
    stbl = node_need(root, path);
    stsz = node_need(stbl, "stsz");
    stco = node_need(stbl, "stco");
    stsc = node_need(stbl, "stsc");
    count = be_get(stsz->bytes + 8, 4);
    at = be_get(stco->bytes + 8, 4);
    for (size_t i = 0; i < count; n_chunks++) {
        size_t each;
        *random = *random * 1664525u + 1013904223u;
        each = 1 + (*random >> 24) % 5;
        be_put(chunks + 8 + 4 * n_chunks, at, 4);
        if (n_runs == 0 || be_get(runs + 8 + 12 * (n_runs - 1) + 4, 4) != each) {
            be_put(runs + 8 + 12 * n_runs, n_chunks + 1, 4);
            be_put(runs + 8 + 12 * n_runs + 4, each, 4);
            be_put(runs + 8 + 12 * n_runs + 8, 1, 4);
            n_runs++;
        }
        for (size_t k = 0; k < each && i < count; k++, i++)  /* the last chunk may hold fewer than its run says */
            at += be_get(stsz->bytes + 12 + 4 * i, 4);
    }
    be_put(runs + 4, n_runs, 4);
    be_put(chunks + 4, n_chunks, 4);
    node_set(stsc, runs, 8 + 12 * n_runs);
    node_set(stco, chunks, 8 + 4 * n_chunks);
}

TEST(samples_may_share_chunks_in_any_way)
{
    uint32_t random = 7;
    for (int round = 0; round < 40; round++) {
        archive r = archive_load(round & 1);
        built b;
        for (int t = 0; t < 3; t++) {
            char track[32];
            snprintf(track, sizeof track, "trak.%d", t);
            set_chunks(r.root, track, &random);
        }
        if (round & 2)
            moov_first(r.root);
        if (round & 4)
            node_visit(NULL, r.root, widen_chunks, NULL);
        build_open(&b, r.root, 40);
        check_contents(&r, &b, "chunks of several samples");
        for (int i = 0; i < 8 && b.status == BZNA_OK; i++) {
            bzna_sample_ref sample = { .struct_size = sizeof sample };
            CHECK_EQ(bzna_dataset_sample(b.dataset, (uint64_t)i, &sample, sizeof sample, NULL), BZNA_OK);
            CHECK_EQ(sample.offset - node_need(r.root, "mdat")->payload_at, r.f->samples[i].offset - 40);
            CHECK_EQ(sample.size, r.f->samples[i].size);
        }
        build_close(&b);
        archive_free(&r);
    }
}

/* Targets are of one size: nothing needs to say so of each. */
TEST(samples_of_one_common_size_may_share_chunks)
{
    uint32_t random = 11;
    for (int round = 0; round < 10; round++) {
        archive r = archive_load(round & 1);
        built b;
        set_chunks(r.root, "trak.1", &random);
        set_sizes(r.root, "trak.1", 0);
        build_open(&b, r.root, 40);
        check_contents(&r, &b, "chunks of several samples of one size");
        build_close(&b);
        archive_free(&r);
    }
}

TEST(one_chunk_may_hold_everything)
{
    static const uint8_t stsc[20] = { 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0, 0, 0, 8, 0, 0, 0, 1 };
    archive r = archive_load(0);
    built b;
    node *stco = node_need(r.root, "moov/trak/mdia/minf/stbl/stco");
    node_set(node_need(r.root, "moov/trak/mdia/minf/stbl/stsc"), stsc, sizeof stsc);
    be_put(stco->bytes + 4, 1, 4);
    stco->size = 12;
    build_open(&b, r.root, 40);
    check_contents(&r, &b, "one chunk");
    build_close(&b);
    archive_free(&r);
}

/* ---- Wrong boxes ---- */

typedef struct wrong { const char *box, *bytes; size_t size; bzna_status status; const char *says; } wrong;

#define WRONG(box, bytes, status, says) { box, bytes, sizeof bytes - 1, status, says }
#define Z4 "\0\0\0\0"

static const wrong wrongs[] = { WRONG("stsz",
                                      Z4 Z4 "\0\0\0\x09"
                                            "abcdefghijklmnopqrstuvwxyz012345",
                                      BZNA_E_BOX, "9 entries need 36 bytes"),
                                WRONG("stsz",
                                      Z4 Z4 "\xff\xff\xff\xff"
                                            "abcd",
                                      BZNA_E_BOX, "4294967295 entries need 17179869180 bytes"),
                                WRONG("stsz", Z4 Z4, BZNA_E_BOX, "stsz"),
                                WRONG("stsz", "", BZNA_E_BOX, "stsz"),
                                WRONG("stsz", Z4 Z4 Z4, BZNA_E_NO_SAMPLES, "no samples"),
                                WRONG("stsz",
                                      Z4 "\0\0\0\x08"
                                         "\xff\xff\xff\xff",
                                      BZNA_E_BOX, "4294967295 samples of 8 bytes do not fit the file"),
                                WRONG("stco",
                                      Z4 "\0\0\0\x08"
                                         "abcdefghijklmnopqrstuvwxyz01234",
                                      BZNA_E_BOX, "8 entries need 32 bytes"),
                                WRONG("stco", Z4 "\xff\xff\xff\xff", BZNA_E_BOX, "4294967295 entries"),
                                WRONG("stco",
                                      Z4 "\0\0\0\x07"
                                         "abcdefghijklmnopqrstuvwxyz01",
                                      BZNA_E_BOX, "hold 7 of 8 samples"),
                                WRONG("stco", Z4 Z4, BZNA_E_BOX, "chunks (stco, stsc) hold 0 of 8"),
                                WRONG("stco", "", BZNA_E_BOX, "stco"),
                                WRONG("stsc",
                                      Z4 "\0\0\0\x02"
                                         "abcdefghijkl",
                                      BZNA_E_BOX, "2 entries need 24 bytes"),
                                WRONG("stsc", Z4 Z4, BZNA_E_BOX, "chunks (stco, stsc) hold 0 of 8"),
                                WRONG("stsc",
                                      Z4 "\0\0\0\x01" Z4 "\0\0\0\x01"
                                         "\0\0\0\x01",
                                      BZNA_E_BOX, "run 0"), /* first chunk 0 */
                                WRONG("stsc",
                                      Z4 "\0\0\0\x01"
                                         "\0\0\0\x02"
                                         "\0\0\0\x02"
                                         "\0\0\0\x01",
                                      BZNA_E_BOX, "run 0"), /* first chunk 2 */
                                WRONG("stsc",
                                      Z4 "\0\0\0\x01"
                                         "\0\0\0\x01" Z4 "\0\0\0\x01",
                                      BZNA_E_BOX, "0 samples each"),
                                WRONG("stsc",
                                      Z4 "\0\0\0\x02"
                                         "\0\0\0\x01"
                                         "\0\0\0\x01"
                                         "\0\0\0\x01"
                                         "\0\0\0\x01"
                                         "\0\0\0\x02"
                                         "\0\0\0\x01",
                                      BZNA_E_BOX, "run 0"), /* the same chunk twice */
                                WRONG("stsc",
                                      Z4 "\0\0\0\x03"
                                         "\0\0\0\x01"
                                         "\0\0\0\x01"
                                         "\0\0\0\x01"
                                         "\0\0\0\x05"
                                         "\0\0\0\x01"
                                         "\0\0\0\x01"
                                         "\0\0\0\x03"
                                         "\0\0\0\x01"
                                         "\0\0\0\x01",
                                      BZNA_E_BOX, "run 1"),
                                WRONG("stsc",
                                      Z4 "\0\0\0\x02"
                                         "\0\0\0\x01"
                                         "\0\0\0\x01"
                                         "\0\0\0\x01"
                                         "\0\0\0\x0b"
                                         "\0\0\0\x01"
                                         "\0\0\0\x01",
                                      BZNA_E_BOX, "chunks 1..10 of 8"),
                                WRONG("hdlr", Z4 Z4 "meta", BZNA_E_BOX, "hdlr"),
                                WRONG("tkhd", Z4 Z4, BZNA_E_BOX, "tkhd") };

TEST(wrong_tables_are_refused_with_box_and_byte_offset)
{
    for (size_t k = 0; k < sizeof wrongs / sizeof *wrongs; k++) {
        archive r = archive_load(0);
        char path[64];
        node *n;
        built b;
        int before = test_failures;
        snprintf(path, sizeof path,
                 !strcmp(wrongs[k].box, "tkhd") ? "moov/trak/%s" :
                 !strcmp(wrongs[k].box, "hdlr") ? "moov/trak/mdia/%s" :
                                                  "moov/trak/mdia/minf/stbl/%s",
                 wrongs[k].box);
        n = node_need(r.root, path);
        node_set(n, wrongs[k].bytes, wrongs[k].size);
        memset(&b, 0, sizeof b);
        b.context = context_of(&b.c);
        b.file = malloc(node_size(r.root));                 /* no shift: the tables are what is wrong */
        b.size = node_write(r.root, b.file, 0);
        {
            bzna_source source = source_of(&b.m, b.file, b.size);
            b.err = fresh_error();
            b.dataset = (bzna_dataset *)(void *)&b;
            b.status = bzna_dataset_open_source(b.context, &source, NULL, &b.dataset, &b.err);
        }
        CHECK_EQ(b.status, wrongs[k].status);
        CHECK(b.dataset == NULL);
        CHECK_CONTAINS(b.err.message, wrongs[k].says);
        CHECK_CONTAINS(b.err.message, "trak[0]");
        if (b.err.byte_offset != BZNA_NO_OFFSET) {
            node *chunks = node_need(r.root, "moov/trak/mdia");
            CHECK(b.err.byte_offset >= node_need(r.root, "moov/trak")->at &&
                  b.err.byte_offset <= chunks->at + node_size(chunks));
        }
        CHECK(b.c.largest < 1 << 20);                       /* no allocation by a count that nothing backs */
        if (test_failures != before)
            printf("  case %zu (%s): %s\n", k, wrongs[k].box, b.err.message);
        build_close(&b);
        archive_free(&r);
    }
}

/* 4 billion samples of a byte each in one chunk: must not be believed, and not allocated for. */
TEST(a_hostile_common_size_is_refused_without_allocating)
{
    static const uint8_t stsz[12] = { 0, 0, 0, 0, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff };
    static const uint8_t stsc[20] = { 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 1, 0xff, 0xff, 0xff, 0xff, 0, 0, 0, 1 };
    for (int t = 0; t < 3; t++) {
        archive r = archive_load(0);
        char path[64];
        built b;
        snprintf(path, sizeof path, "moov/trak.%d/mdia/minf/stbl/stsz", t);
        node_set(node_need(r.root, path), stsz, sizeof stsz);
        memcpy(path + strlen(path) - 4, "stsc", 4);
        node_set(node_need(r.root, path), stsc, sizeof stsc);
        build_open(&b, r.root, 40);
        CHECK_EQ(b.status, BZNA_E_BOX);
        CHECK_CONTAINS(b.err.message, "4294967295 samples");
        CHECK_CONTAINS(b.err.message, "stsz");
        CHECK_EQ(b.err.fourcc, BZI_FOURCC('s', 't', 's', 'z'));
        CHECK(b.c.largest < 1 << 20);
        build_close(&b);
        archive_free(&r);
    }
}

TEST(a_second_box_where_one_is_allowed_is_refused)
{
    static const struct { const char *parent, *box, *as; } cases[] = {
        { "", "moov", "moov" }, { "moov/trak/mdia/minf/stbl", "stsz", "stsz" },
        { "moov/trak/mdia/minf/stbl", "stsc", "stsc" },
        { "moov/trak/mdia/minf/stbl", "stco", "stco" }, { "moov/trak/mdia/minf", "stbl", "stbl" } };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        archive r = archive_load(1);
        node *parent = cases[k].parent[0] ? node_need(r.root, cases[k].parent) : r.root,
             *first = node_need(parent, cases[k].box);
        uint8_t *copy = malloc(node_size(first));
        built b;
        node_write(first, copy, 0);
        node_append(parent, node_parse(cases[k].as, copy, 8, node_size(first)));
        free(copy);
        build_open(&b, r.root, 40);
        CHECK_EQ(b.status, BZNA_E_BOX);
        CHECK_CONTAINS(b.err.message, "second");
        CHECK(b.err.byte_offset > first->at && b.err.byte_offset < b.size);
        build_close(&b);
        archive_free(&r);
    }
    {                                                       /* stco and co64 together, and stsz and stz2 */
        archive r = archive_load(1);
        built b;
        node_append(node_need(r.root, "moov/trak/mdia/minf/stbl"),
                    node_make("co64", "\0\0\0\0\0\0\0\1\0\0\0\0\0\0\0\50", 16));
        build_open(&b, r.root, 40);
        CHECK_EQ(b.status, BZNA_E_BOX);
        build_close(&b);
        archive_free(&r);
        r = archive_load(1);
        node_append(node_need(r.root, "moov/trak/mdia/minf/stbl"),
                    node_make("stz2", "\0\0\0\0\0\0\0\10\0\0\0\1\50", 13));
        build_open(&b, r.root, 40);
        CHECK_EQ(b.status, BZNA_E_BOX);
        build_close(&b);
        archive_free(&r);
    }
}

TEST(an_stz2_of_another_width_is_refused)
{
    archive r = archive_load(1);
    node *n = node_need(r.root, "moov/trak/mdia/minf/stbl/stsz");
    built b;
    memcpy(n->type, "stz2", 4);
    n->bytes[7] = 12;
    build_open(&b, r.root, 40);
    CHECK_EQ(b.status, BZNA_E_BOX);
    CHECK_CONTAINS(b.err.message, "12 is not 4, 8 or 16");
    CHECK_EQ(b.err.fourcc, BZI_FOURCC('s', 't', 'z', '2'));
    build_close(&b);
    archive_free(&r);
}

/* ---- Box sizes ---- */

/* Opens b->file as it is now. */
static void reopen(built *b)
{
    bzna_source source = source_of(&b->m, b->file, b->size);
    b->err = fresh_error();
    b->dataset = (bzna_dataset *)(void *)b;
    b->status = bzna_dataset_open_source(b->context, &source, NULL, &b->dataset, &b->err);
}

TEST(box_sizes_that_cannot_be_are_refused_where_they_stand)
{
    static const struct { const char *box; uint64_t size; bzna_status status; const char *says; } cases[] = {
        { "moov", 7, BZNA_E_BOX, "smaller than its header" }, { "moov", 4542, BZNA_E_TRUNCATED, "left in the file" },
        { "moov", 0xffffffffu, BZNA_E_TRUNCATED, "left in the file" },
        { "moov/trak", 7, BZNA_E_BOX, "smaller than its header" },
        { "moov/trak", 0, BZNA_E_BOX, "smaller than its header" },
        { "moov/trak.3", 3015, BZNA_E_BOX, "the box around it" },
        { "moov/trak/mdia", 363, BZNA_E_BOX, "the box around it" },
        { "moov/trak/mdia/minf/stbl/stsz", 0x7fffffff, BZNA_E_BOX, "the box around it" },
        { "moov/trak/mdia/minf/stbl/stsz", 4, BZNA_E_BOX, "smaller than its header" },
        { "moov/trak.3/mdia/minf/stbl/stsd/hvc1", 85, BZNA_E_BOX, "too few" },
        { "moov/trak.3/mdia/minf/stbl/stsd/hvc1/hvcC", 0xfffffff0u, BZNA_E_BOX, "the box around it" } };
    archive r = archive_load(0);
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        built b;
        const node *n = node_need(r.root, cases[k].box);
        const char *name = strrchr(cases[k].box, '/') ? strrchr(cases[k].box, '/') + 1 : cases[k].box;
        int before = test_failures;
        memset(&b, 0, sizeof b);
        b.context = context_of(&b.c);
        b.file = malloc(r.size);
        b.size = node_write(r.root, b.file, 0);
        be_put(b.file + n->at, cases[k].size, 4);
        reopen(&b);
        CHECK_EQ(b.status, cases[k].status);
        CHECK_EQ(b.err.byte_offset, n->at);
        CHECK_EQ(b.err.fourcc, be_get((const uint8_t *)name, 4));
        CHECK_CONTAINS(b.err.message, cases[k].says);
        if (test_failures != before)
            printf("  %s, size %llu: %s\n", cases[k].box, (unsigned long long)cases[k].size, b.err.message);
        build_close(&b);
    }
    archive_free(&r);
}

TEST(sizes_of_64_bits_do_not_wrap)
{
    static const uint64_t sizes[] = { 15, 8, 1, 0x7fffffffffffffffull, 0xffffffffffffffffull, 0xfffffffffffffff0ull };
    archive r = archive_load(0);
    for (size_t k = 0; k < 6; k++)
        for (int inner = 0; inner < 2; inner++) {
            built b;
            node *n = node_need(r.root, inner ? "moov/trak.1" : "moov");
            n->large = 1;
            memset(&b, 0, sizeof b);
            b.context = context_of(&b.c);
            b.file = malloc(node_size(r.root));
            b.size = node_write(r.root, b.file, 0);
            be_put(b.file + n->at + 8, sizes[k], 8);
            reopen(&b);
            CHECK_EQ(b.status, sizes[k] < 16 || inner ? BZNA_E_BOX : BZNA_E_TRUNCATED);
            CHECK_EQ(b.err.byte_offset, n->at);
            build_close(&b);
            n->large = 0;
        }
    archive_free(&r);
}

/* The archive with so many zeros behind it. */
static void build_longer(built *b, const archive *r, size_t zeros)
{
    memset(b, 0, sizeof *b);
    b->context = context_of(&b->c);
    b->size = r->size + zeros;
    b->file = calloc(b->size, 1);
    node_write(r->root, b->file, 0);
}

/* QuickTime ends lists of boxes with zeros. */
TEST(zeros_behind_the_last_box_are_padding)
{
    for (size_t zeros = 1; zeros < 8; zeros++) {
        archive r = archive_load(0);
        node *moov = node_need(r.root, "moov");
        built b;
        build_longer(&b, &r, zeros);
        be_put(b.file + moov->at, node_size(moov) + zeros, 4);        /* inside moov */
        reopen(&b);
        check_contents(&r, &b, "zeros at the end of moov");
        build_close(&b);
        archive_free(&r);
    }
}

/* At the end of every box around the file's last one. One byte that is not zero among them, or as many as a box header
 * has, are a damaged box. */
TEST(what_stands_behind_the_last_box_inside_another_is_padding_only_if_it_is_zero)
{
    static const char *const last[] = { "moov", "moov/trak.3", "moov/trak.3/mdia", "moov/trak.3/mdia/minf",
                                        "moov/trak.3/mdia/minf/stbl" };
    archive r = archive_load(0);
    for (size_t levels = 1; levels <= sizeof last / sizeof *last; levels++)
        for (size_t bytes = 1; bytes <= 8; bytes++)
            for (size_t odd = bytes < 8 ? 0 : bytes; odd <= bytes; odd++) {
                built b;                                    /* byte number odd is not zero; the last time, all are */
                int before = test_failures;
                build_longer(&b, &r, bytes);
                for (size_t k = 0; k < levels; k++) {
                    const node *n = node_need(r.root, last[k]);
                    CHECK_EQ(n->at + node_size(n), r.size);
                    be_put(b.file + n->at, node_size(n) + bytes, 4);
                }
                if (odd < bytes)
                    b.file[r.size + odd] = 1;
                reopen(&b);
                if (odd == bytes && bytes < 8) {
                    check_contents(&r, &b, "zeros at the end of a box");
                } else {
                    CHECK_EQ(b.status, bytes < 8 ? BZNA_E_TRUNCATED : BZNA_E_BOX);
                    CHECK_EQ(b.err.byte_offset, r.size);
                    CHECK(bytes == 8 || strstr(b.err.message, "too few for the header of a box"));
                }
                if (test_failures != before)
                    printf("  %d bytes behind the last box of %s, number %d is not zero: %s\n", (int)bytes,
                           last[levels - 1], (int)odd, b.err.message);
                build_close(&b);
            }
    archive_free(&r);
}

TEST(zeros_behind_the_last_box_of_the_file_are_padding_too)
{
    for (size_t zeros = 1; zeros < 20; zeros++) {
        archive r = archive_load(0);
        built b;
        build_longer(&b, &r, zeros);
        reopen(&b);
        check_contents(&r, &b, "zeros at the end of the file");
        build_close(&b);
        archive_free(&r);
    }
}

/* ---- Limits ---- */

/* benzina.h, chapter 8: a movie has 64 tracks at most. */
TEST(sixty_four_tracks_are_read_and_one_more_is_refused)
{
    for (int tracks = 64; tracks <= 65; tracks++) {
        archive r = archive_load(1);
        node *moov = node_need(r.root, "moov");
        built b;
        for (int i = 4; i < tracks; i++)
            node_append(moov, node_parse("trak", (const uint8_t *)"\0\0\0\x08" "mdia", 0, 8));
        build_open(&b, r.root, 40);
        if (tracks == 64) {
            check_contents(&r, &b, "64 tracks");
        } else {
            CHECK_EQ(b.status, BZNA_E_LIMIT);
            CHECK_CONTAINS(b.err.message, "tracks");
            CHECK_EQ(b.err.fourcc, bzi_type("trak"));
        }
        build_close(&b);
        archive_free(&r);
    }
}

TEST(boxes_nested_deeper_than_the_limit_are_refused)
{
    static uint8_t file[8 * 4000];
    bzi_window window = { .held = file, .at = 77 };
    bzi_movie *movie = calloc(1, sizeof *movie);
    bzna_error err;
    for (uint32_t i = 0; i < 4000; i++) { /* boxes that nobody reads are not descended into, however deep */
        be_put(file + 8 * i, 8 * (4000 - i), 4);
        memcpy(file + 8 * i + 4, "meta", 4);
    }
    bzi_movie_begin(movie, &err);
    movie->window = &window;
    CHECK_EQ(bzi_box_list(movie, 77, 77 + sizeof file, BZI_FILE), BZNA_OK);
    movie->depth = BZI_LIMIT_DEPTH;
    CHECK_EQ(bzi_box_list(movie, 77, 77 + sizeof file, BZI_FILE), BZNA_E_LIMIT);
    CHECK_CONTAINS(err.message, "nest too deep");
    CHECK_EQ(err.byte_offset, 77);
    free(movie);
}

TEST(more_boxes_than_the_limit_at_file_level_are_refused)
{
    built b;
    memset(&b, 0, sizeof b);
    b.context = context_of(&b.c);
    b.size = 8 * (BZI_LIMIT_TOP_BOXES + 10);
    b.file = malloc(b.size);
    for (size_t i = 0; i < b.size; i += 8)
        memcpy(b.file + i, "\0\0\0\x08" "free", 8);
    reopen(&b);
    CHECK_EQ(b.status, BZNA_E_LIMIT);
    CHECK_EQ(b.err.byte_offset, 8 * (uint64_t)BZI_LIMIT_TOP_BOXES);
    build_close(&b);
}

/* The movie boxes, cut at every byte, in memory of exactly that size: the sanitizer sees one byte too many. */
TEST(a_movie_box_cut_at_any_byte_is_read_no_further)
{
    for (int a = 0; a < 2; a++) {
        archive r = archive_load(a);
        const node *moov = node_need(r.root, "moov");
        size_t at, size = node_size(moov);
        bzi_movie *movie = calloc(1, sizeof *movie);
        node_write(r.root, r.file, 0);
        at = moov->at;
        for (size_t n = 0; n <= size - 8; n++) {
            uint8_t *exact = malloc(n ? n : 1);
            bzi_window window = { .held = exact };
            bzna_error err;
            memcpy(exact, r.file + at + 8, n);
            bzi_movie_begin(movie, &err);
            movie->window = &window;
            bzi_box_list(movie, 0, n, bzi_type("moov"));
            free(exact);
        }
        CHECK_EQ(movie->track_count, 4);
        free(movie);
        archive_free(&r);
    }
}

/* ---- Clean apertures ---- */

TEST(a_clean_aperture_is_where_the_standard_says)
{
    static const struct { uint32_t frame; int32_t n, d, off_n, off_d; int ok; uint32_t begin, length; } cases[] = {
        { 512, 500, 1, -12, 2, 1, 0, 500 },       { 512, 375, 1, -137, 2, 1, 0, 375 },       /* as archives have it */
        { 512, 512, 1, 0, 1, 1, 0, 512 },         { 512, 500, 1, 0, 1, 1, 6, 500 },          /* whole; centered */
        { 512, 500, 1, 12, 2, 1, 12, 500 },       { 512, 500, 1, 6, 1, 1, 12, 500 },         /* at the right */
        { 512, 500, 1, -4, 1, 1, 2, 500 },        { 512, 1, 1, -511, 2, 1, 0, 1 },
        { 512, 1, 1, 511, 2, 1, 511, 1 },         { 512, 1000, 2, -24, 4, 1, 0, 500 },
        { 1, 1, 1, 0, 1, 1, 0, 1 },               { 512, 100, 1, 10, 1, 1, 216, 100 },
        { 513, 512, 1, 1, 2, 1, 1, 512 },         { 1000, 3, 1, -997, 2, 1, 0, 3 },
        { 512, 500, 1, 14, 2, 0, 0, 0 },          { 512, 500, 1, -14, 2, 0, 0, 0 },          /* over an edge */
        { 512, 513, 1, 0, 1, 0, 0, 0 },           { 512, 0, 1, 0, 1, 0, 0, 0 },
        { 512, -5, 1, 0, 1, 0, 0, 0 },            { 512, 500, 0, 0, 1, 0, 0, 0 },
        { 512, 500, 1, 0, 0, 0, 0, 0 },           { 512, 500, -1, 0, 1, 0, 0, 0 },
        { 512, 1, 2, 0, 1, 0, 0, 0 },             { 512, INT32_MAX, 1, 0, 1, 0, 0, 0 },
        { 512, 500, 1, INT32_MAX, 1, 0, 0, 0 },   { 512, 500, 1, INT32_MIN, 1, 0, 0, 0 },
        { 65535, 65535, 1, 0, INT32_MAX, 1, 0, 65535 } };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        int32_t size[2] = { cases[i].n, cases[i].d }, offset[2] = { cases[i].off_n, cases[i].off_d };
        uint32_t begin = 0, length = 0;
        int ok = bzi_clap_side(cases[i].frame, size, offset, &begin, &length);
        if (ok != cases[i].ok || (ok && (begin != cases[i].begin || length != cases[i].length))) {
            printf("  %u, %d/%d at %d/%d: %d, %u + %u\n", cases[i].frame, size[0], size[1], offset[0], offset[1], ok,
                   begin, length);
            test_failures++;
        }
    }
}

/* ISO/IEC 14496-12: the center of the aperture is the frame's center (frame - 1) / 2 plus the offset. */
TEST(every_window_of_a_small_frame_has_its_clean_aperture)
{
    for (int32_t frame = 1; frame < 24; frame++)
        for (int32_t length = 1; length <= frame; length++)
            for (int32_t begin = -2; begin + length <= frame + 2; begin++) {
                int32_t size[2] = { 3 * length, 3 }, offset[2] = { 5 * (2 * begin + length - frame), 10 };
                uint32_t x = 99, w = 99;
                int ok = bzi_clap_side((uint32_t)frame, size, offset, &x, &w),
                    legal = begin >= 0 && begin + length <= frame;
                CHECK_EQ(ok, legal);
                if (ok && (x != (uint32_t)begin || w != (uint32_t)length)) {
                    printf("  frame %d, window %d + %d: %u + %u\n", frame, begin, length, x, w);
                    test_failures++;
                    return;
                }
            }
}

TEST(a_clean_aperture_off_the_corner_is_honored_and_an_illegal_one_fails_its_sample)
{
    static const struct { int32_t clap[8]; int ok; uint32_t x, y, w, h; } cases[] = {
        { { 100, 1, 50, 1, 0, 1, 0, 1 }, 1, 206, 231, 100, 50 },
        { { 100, 1, 50, 1, 412, 2, 462, 2 }, 1, 412, 462, 100, 50 },
        { { 512, 1, 512, 1, 0, 1, 0, 1 }, 1, 0, 0, 512, 512 },   { { 100, 1, 50, 1, 414, 2, 0, 1 }, 0, 0, 0, 0, 0 },
        { { 100, 1, 50, 1, 0, 1, -464, 2 }, 0, 0, 0, 0, 0 },     { { 100, 0, 50, 1, 0, 1, 0, 1 }, 0, 0, 0, 0, 0 },
        { { 0, 0, 0, 0, 0, 0, 0, 0 }, 0, 0, 0, 0, 0 } };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        archive r = archive_load(0);
        built b;
        bzna_image_info image;
        bzna_error err = fresh_error();
        uint8_t *clap = NULL;
        build_open(&b, r.root, 40);
        REQUIRE(b.status == BZNA_OK);
        for (size_t i = 40 + 14000; i < 40 + 21883 - 40 && !clap; i++)
            if (!memcmp(b.file + i, "clap", 4))
                clap = b.file + i + 4;
        REQUIRE(clap);
        for (int i = 0; i < 8; i++)
            be_put(clap + 4 * i, (uint32_t)cases[k].clap[i], 4);
        CHECK_EQ(bzna_dataset_image_info(b.dataset, 0, "bzna_input", &image, sizeof image, &err),
                 cases[k].ok ? BZNA_OK : BZNA_E_BOX);
        if (cases[k].ok) {
            CHECK(image.crop_x == cases[k].x && image.crop_y == cases[k].y && image.width == cases[k].w &&
                  image.height == cases[k].h);
            CHECK(image.frame_width == 512 && image.frame_height == 512);
            CHECK(!memcmp(image.clap, cases[k].clap, sizeof image.clap));
        } else {
            CHECK_CONTAINS(err.message, "sample 0");
            CHECK_CONTAINS(err.message, "clap");
        }
        CHECK_EQ(bzna_dataset_image_info(b.dataset, 1, "bzna_input", &image, sizeof image, NULL), BZNA_OK);
        build_close(&b);
        archive_free(&r);
    }
}

TEST(without_a_clean_aperture_the_picture_is_the_frame)
{
    archive r = archive_load(0);
    built b;
    bzna_image_info image;
    build_open(&b, r.root, 40);
    REQUIRE(b.status == BZNA_OK);
    for (size_t i = 40 + 14000; i < 40 + 21883 - 40; i++)
        if (!memcmp(b.file + i, "clap", 4))
            memcpy(b.file + i, "free", 4);
    CHECK_EQ(bzna_dataset_image_info(b.dataset, 0, "bzna_input", &image, sizeof image, NULL), BZNA_OK);
    CHECK(image.width == 512 && image.height == 512 && image.clap[1] == 0);
    build_close(&b);
    archive_free(&r);
}

/* ---- Sample entries ---- */

static bzna_status image_of(const void *entry_kids, size_t size, const char *type, bzi_image *image, bzna_error *err)
{
    uint8_t bytes[512] = { 0 };
    bzi_window window = { .held = bytes, .at = 1000 };
    bzi_movie *movie = calloc(1, sizeof *movie);
    bzna_status status;
    be_put(bytes + 32, 640, 2);
    be_put(bytes + 34, 480, 2);
    be_put(bytes, 86 + size, 4);
    memcpy(bytes + 4, type, 4);
    memcpy(bytes + 86, entry_kids, size);
    bzi_movie_begin(movie, err);
    movie->track = movie->tracks;
    movie->track_count = 1;
    movie->window = &window;
    status = bzi_box_list(movie, 1000, 1086 + size, bzi_type("stsd"));
    if (status == BZNA_OK)
        status = bzi_track_image(&movie->tracks[0], image, err);
    free(movie);
    return status;
}

TEST(color_comes_from_nclx_and_nclc_and_not_from_icc)
{
#define HVCC "\0\0\0\x1f" "hvcC\1\1\x60\0\0\0\0\0\0\0\0\0\0\xf0\0\xfc\xfd\xf8\xf8\0\0\x0f\0"
    bzi_image image;
    bzna_error err;
    CHECK_EQ(image_of(HVCC, 31, "hvc1", &image, &err), BZNA_OK);
    CHECK(!image.coded.color.present && image.coded.codec == BZNA_CODEC_H265 && image.coded.length_size == 4 &&
          image.coded.config_size == 23);
    CHECK(image.coded.frame_width == 640 && image.coded.frame_height == 480 && image.config_offset == 1000 + 86 + 8);
    CHECK_EQ(image_of(HVCC "\0\0\0\x13" "colrnclx\0\1\0\15\0\5\x80", 50, "hvc1", &image, &err), BZNA_OK);
    CHECK(image.coded.color.present && image.coded.color.primaries == 1 && image.coded.color.transfer == 13 &&
          image.coded.color.matrix == 5 && image.coded.color.full_range == 1);
    CHECK_EQ(image_of(HVCC "\0\0\0\x13" "colrnclx\0\11\0\20\0\11\0", 50, "hev1", &image, &err), BZNA_OK);
    CHECK(image.coded.color.present && image.coded.color.matrix == 9 && image.coded.color.full_range == 0 &&
          image.coded.codec == BZNA_CODEC_H265);
    CHECK_EQ(image_of(HVCC "\0\0\0\x12" "colrnclc\0\1\0\1\0\6", 49, "hvc1", &image, &err), BZNA_OK);
    CHECK(image.coded.color.present && image.coded.color.matrix == 6 && image.coded.color.full_range == 0);
    CHECK_EQ(image_of(HVCC "\0\0\0\x12" "colrprof\0\1\0\1\0\6", 49, "hvc1", &image, &err), BZNA_OK);
    CHECK(!image.coded.color.present);
    CHECK_EQ(image_of(HVCC "\0\0\0\x11" "colrnclx\0\1\0\1\0", 48, "hvc1", &image, &err), BZNA_E_BOX); /* cut off */
    CHECK_CONTAINS(err.message, "colr");
}

TEST(sample_entries_without_a_usable_configuration_are_refused)
{
    bzi_image image;
    bzna_error err;
    char bad[64];
    CHECK_EQ(image_of("", 0, "hvc1", &image, &err), BZNA_E_BOX);
    CHECK_CONTAINS(err.message, "hvcC");
    CHECK_EQ(image_of("\0\0\0\x1e"
                      "hvcC\1\1\x60\0\0\0\0\0\0\0\0\0\0\xf0\0\xfc\xfd\xf8\xf8\0\0\x0f",
                      30, "hvc1", &image, &err),
             BZNA_E_BOX);
    CHECK_EQ(image_of("\0\0\0\x0e" "avcC\1\x64\0\x16\xff\xe1", 14, "avc1", &image, &err), BZNA_E_BOX);
    CHECK_EQ(image_of("\0\0\0\x0f" "avcC\1\x64\0\x16\xff\xe0\0", 15, "avc1", &image, &err), BZNA_OK);
    CHECK(image.coded.codec == BZNA_CODEC_H264 && image.coded.length_size == 4);
    CHECK_EQ(image_of("\0\0\0\x0f" "avcC\1\x64\0\x16\xfd\xe0\0", 15, "avc3", &image, &err), BZNA_OK);
    CHECK(image.coded.codec == BZNA_CODEC_H264 && image.coded.length_size == 2);
    /* lengths of 3 bytes */
    CHECK_EQ(image_of("\0\0\0\x0f" "avcC\1\x64\0\x16\xfe\xe0\0", 15, "avc1", &image, &err), BZNA_E_BOX);
    CHECK_EQ(image_of(HVCC, 31, "vp09", &image, &err), BZNA_E_CODEC);
    CHECK_CONTAINS(err.message, "vp09");
    memcpy(bad, HVCC HVCC, 62);
    CHECK_EQ(image_of(bad, 62, "hvc1", &image, &err), BZNA_E_BOX);
    CHECK_CONTAINS(err.message, "second");
    CHECK_EQ(image_of("\0\0\0\x0c" "av1C\x81\0\0\0", 12, "av01", &image, &err), BZNA_OK);
    CHECK(image.coded.codec == BZNA_CODEC_AV1 && image.coded.length_size == 0);
}

/* ---- NAL units ---- */

static int units_of(bzi_nals n, char *text, size_t room)
{
    bzi_span nal;
    int got;
    size_t at = 0;
    text[0] = 0;
    while ((got = bzi_nals_next(&n, &nal)) > 0) {
        CHECK(nal.size > 0);
        for (uint64_t i = 0; i < nal.size && at + 4 < room; i++)
            at += (size_t)snprintf(text + at, room - at, "%x", nal.data[i]);
        at += (size_t)snprintf(text + at, room - at, " ");
    }
    return got;
}

/* Bytes in memory of exactly their size, so that a sanitizer sees every step outside. */
static bzi_span exact_span(const char *bytes, size_t size)
{
    uint8_t *exact = malloc(size ? size : 1);
    memcpy(exact, bytes, size);
    return (bzi_span){ exact, size };
}

/* exact: freed. */
static int units_are(bzi_span exact, bzi_nals nals, int end, const char *expected)
{
    char text[256];
    int got = units_of(nals, text, sizeof text);
    free((void *)(uintptr_t)exact.data);
    if (got == end && !strcmp(text, expected))
        return 1;
    printf("  %d \"%s\", not %d \"%s\"\n", got, text, end, expected);
    return 0;
}

static int annexb_is(const char *bytes, size_t size, const char *expected)
{
    bzi_span exact = exact_span(bytes, size);
    return units_are(exact, bzi_nals_of_unit(exact, 0), 0, expected);
}

TEST(annex_b_units_are_found_behind_start_codes_of_both_lengths)
{
    CHECK(annexb_is("\0\0\0\1\x65\x88", 6, "6588 "));
    CHECK(annexb_is("\0\0\1\x65\x88", 5, "6588 "));
    CHECK(annexb_is("\0\0\1\x67\0\0\0\1\x68\0\0\1\x65", 13, "67 68 65 "));
    CHECK(annexb_is("\0\0\1\x67\0\0\0\0\0\0\1\x68\0\0\0", 15, "67 68 "));       /* trailing zeros belong to nobody */
    CHECK(annexb_is("\0\0\0\0\0\1\x65", 7, "65 "));
    CHECK(annexb_is("\0\0\1\0\0\1\x65", 7, "65 "));                             /* an empty unit is none */
    CHECK(annexb_is("\0\0\1\x65\0\0\3\1\x01", 9, "650031" "1 ")); /* emulation prevention is no start code */
    CHECK(annexb_is("\0\0\1\x65\1\1\0\1", 8, "65110" "1 "));
    CHECK(annexb_is("\0\0\1", 3, ""));
    CHECK(annexb_is("\0\0\1\0", 4, ""));
    CHECK(annexb_is("\0\0\1\x65\0\0\1", 7, "65 "));
    CHECK(annexb_is("abc", 3, ""));                                             /* no start code: no unit */
    CHECK(annexb_is("\0\0", 2, ""));
    CHECK(annexb_is("", 0, ""));
    CHECK(annexb_is("xy\0\0\1\x65", 6, "65 "));
}

static int lengths_are(const char *bytes, size_t size, uint32_t length_size, int end, const char *expected)
{
    bzi_span exact = exact_span(bytes, size);
    return units_are(exact, bzi_nals_of_unit(exact, length_size), end, expected);
}

TEST(length_prefixed_units_are_found_and_wrong_lengths_noticed)
{
    CHECK(lengths_are("\2ab\1c", 5, 1, 0, "6162 63 "));
    CHECK(lengths_are("\0\2ab\0\1c", 7, 2, 0, "6162 63 "));
    CHECK(lengths_are("\0\0\0\2ab\0\0\0\1c", 11, 4, 0, "6162 63 "));
    CHECK(lengths_are("\0\0\0\0\0\0\0\1c\0\0\0\0", 13, 4, 0, "63 "));           /* empty units are skipped */
    CHECK(lengths_are("", 0, 4, 0, ""));
    CHECK(lengths_are("\3ab", 3, 1, -1, ""));
    CHECK(lengths_are("\1a\0\0", 4, 2, -1, ""));
    CHECK(lengths_are("\0\0\0\1a\0\0\0", 8, 4, -1, "61 "));                     /* half a length */
    CHECK(lengths_are("\xff\xff\xff\xff" "a", 5, 4, -1, ""));
    CHECK(lengths_are("\0\0\0\5abcd", 8, 4, -1, ""));
}

static int config_is(const char *bytes, size_t size, uint32_t codec, int end, const char *expected)
{
    bzi_span exact = exact_span(bytes, size);
    return units_are(exact, bzi_nals_of_config(exact, codec), end, expected);
}

TEST(units_of_hvcc_and_avcc_are_found_and_wrong_counts_noticed)
{
#define H22 "\1\1\x60\0\0\0\0\0\0\0\0\0\0\xf0\0\xfc\xfd\xf8\xf8\0\0\x0f"
    CHECK(config_is(H22 "\0", 23, BZNA_CODEC_H265, 0, ""));
    CHECK(config_is(H22 "\2\xa0\0\1\0\2ab\x21\0\2\0\1c\0\1d", 39, BZNA_CODEC_H265, 0, "6162 63 64 "));
    CHECK(config_is(H22 "\2\xa0\0\0\x21\0\1\0\1c", 32, BZNA_CODEC_H265, 0, "63 "));         /* an empty list */
    CHECK(config_is(H22 "\1\xa0\0\2\0\0\0\1c", 31, BZNA_CODEC_H265, 0, "63 "));             /* an empty unit */
    CHECK(config_is(H22 "\xff\xa0\0\1\0\1a", 29, BZNA_CODEC_H265, -1, "61 ")); /* more lists than there are */
    CHECK(config_is(H22 "\1\xa0\xff\xff\0\1a", 29, BZNA_CODEC_H265, -1, "61 "));            /* more units */
    CHECK(config_is(H22 "\1\xa0\0\1\xff\xff" "a", 29, BZNA_CODEC_H265, -1, ""));            /* a longer unit */
    CHECK(config_is(H22 "\1\xa0\0", 25, BZNA_CODEC_H265, -1, ""));
    CHECK(config_is(H22, 22, BZNA_CODEC_H265, -1, ""));
    CHECK(config_is("\1", 1, BZNA_CODEC_H265, -1, ""));
    CHECK(config_is("\1\x64\0\x16\xff\xe1\0\2ab\1\0\1c", 14, BZNA_CODEC_H264, 0, "6162 63 "));
    /* what high profiles append */
    CHECK(config_is("\1\x64\0\x16\xff\xe1\0\2ab\1\0\1c\xfd\xf8\xf8\0", 18, BZNA_CODEC_H264, 0, "6162 63 "));
    CHECK(config_is("\1\x64\0\x16\xff\xff\0\2ab", 10, BZNA_CODEC_H264, -1, "6162 "));       /* 31 sets promised */
    CHECK(config_is("\1\x64\0\x16\xff\xe0\xff\0\1c", 10, BZNA_CODEC_H264, -1, "63 ")); /* 255 picture sets promised */
    CHECK(config_is("\1\x64\0\x16\xff\xe1\xff\xff" "ab", 10, BZNA_CODEC_H264, -1, ""));
    CHECK(config_is("\1\x64", 2, BZNA_CODEC_H264, -1, ""));
}

/* ---- Parameter sets: made by x264 and x265, facts by ffprobe 5.1 ---- */

typedef struct sps_fact {
    const char *name, *hex;
    uint32_t    codec, width, height, chroma, depth;        /* without the window */
    int         full, primaries, transfer, matrix, location;    /* -1: not said */
    uint32_t    profile, level, coded_width, coded_height;
} sps_fact;

static const sps_fact sps_facts[] = {
    { "mini h264", "67640016acd94080106c05b810102d280000030008000003001078b16cb0", 1, 512, 512, 1, 8, 1, 2, 2, 5, 1,
        100, 22, 512, 512 },
    { "mini h265", "42010101600000030090000003000003005aa004020080596566924caf016e04040b482000000300200000030021", 2,
        512, 512, 1, 8, 1, 2, 2, 5, 1, 1, 90, 512, 512 },
    { "h264 1080", "67640028acd940780227e5c05a808080a0000003002000000641e30632c0", 1, 1920, 1080, 1, 8, 0, 1, 1, 1, -1,
        100, 40, 1920, 1088 },
    { "h264 4:2:2 10", "677a000ab6cd9447b011000003000100000300320f122596", 1, 64, 48, 2, 10, -1, -1, -1, -1, -1, 122,
        10, 64, 48 },
    { "h264 4:4:4", "67f4000a919b28497c7c5e0220000003002000000641e244b2c0", 1, 130, 70, 3, 8, -1, -1, -1, -1, -1, 244,
        10, 144, 80 },
    { "h264 baseline", "6742c00ad9024be226c044000003000400000300c83c489920", 1, 130, 70, 1, 8, -1, -1, -1, -1, -1, 66,
        10, 144, 80 },
    { "h264 scaling lists", "6764000aacd94426c044000003000400000300c83c489658", 1, 64, 64, 1, 8, -1, -1, -1, -1, -1,
        100, 10, 64, 64 },
    { "h264 gray", "6764000af36514be3e3f016c800000030080000019078912cb", 1, 66, 66, 0, 8, 1, 2, 2, 2, -1, 100, 10, 80,
        80 },
    { "h264 interlaced", "6764001eacd940b47b6022000003000200000300643e28532c", 1, 720, 480, 1, 8, -1, -1, -1, -1, -1,
        100, 30, 720, 480 },
    { "h265 12 bits", "420101040800000300998800000300001ea02083114a5959ae4caf016808000003000800000300c840", 2, 64, 48,
        1, 12, 0, 2, 2, 2, -1, 4, 30, 64, 48 },
    { "h265 4:2:2 10", "4201010408000003009d0800000300001eb020831365959ae4caf0168080000003008000000c84", 2, 64, 48, 2,
        10, 0, 2, 2, 2, -1, 4, 30, 64, 48 },
    { "h265 4:4:4", "4201010408000003009e0800000300001e9002240939ef2cacd24995e02d010000030001000003001908", 2, 130, 70,
        3, 8, 0, 2, 2, 2, -1, 4, 30, 136, 72 },
    { "h265 1080", "420101016000000300900000030000030078a003c08010e596566924caf016a0202036c20000030002000003003210", 2,
        1920, 1080, 1, 8, 0, 1, 1, 1, 2, 1, 120, 1920, 1080 },
    { "h265 gray", "4201010408000003009fc800000300001ec092049cf3e5959a4932bc05b02000000300200000030321", 2, 66, 66, 0,
        8, 1, 2, 2, 2, -1, 4, 30, 72, 72 },
    { "h265 odd", "42010101600000030090000003000003001ea0112049c9596566924caf016808000003000800000300c840", 2, 130, 70,
        1, 8, 0, 2, 2, 2, -1, 1, 30, 136, 72 },
    { "h265 scaling lists", "42010101600000030090000003000003001ea020810596566924e5780b4040000003004000000642", 2, 64,
        64, 1, 8, 0, 2, 2, 2, -1, 1, 30, 64, 64 },
    { "h265 sub-layers", "42010101600000030090000003000003001ea020810596562a4932bc05a02000000300200000030321", 2, 64,
        64, 1, 8, 0, 2, 2, 2, -1, 1, 30, 64, 64 } };

static size_t from_hex(const char *hex, uint8_t *bytes)
{
    size_t n = 0;
    for (; hex[2 * n]; n++) {
        char two[3] = { hex[2 * n], hex[2 * n + 1], 0 };
        bytes[n] = (uint8_t)strtoul(two, NULL, 16);
    }
    return n;
}

TEST(sequence_parameter_sets_of_both_codecs_are_understood)
{
    for (size_t k = 0; k < sizeof sps_facts / sizeof *sps_facts; k++) {
        const sps_fact *f = &sps_facts[k];
        uint8_t bytes[128], *exact;
        size_t size = from_hex(f->hex, bytes);
        bzi_span nal;
        bzi_format sps;
        int before = test_failures;
        exact = malloc(size);
        memcpy(exact, bytes, size);
        nal.data = exact;
        nal.size = size;
        CHECK(bzi_sps_read(f->codec, nal, &sps));
        CHECK_EQ(sps.width, f->coded_width);
        CHECK_EQ(sps.height, f->coded_height);
        CHECK_EQ(sps.width - sps.window[0] - sps.window[1], f->width);
        CHECK_EQ(sps.height - sps.window[2] - sps.window[3], f->height);
        CHECK_EQ(sps.window[0], 0);                         /* encoders pad right and below */
        CHECK_EQ(sps.window[2], 0);
        CHECK_EQ(sps.chroma_format, f->chroma);
        CHECK_EQ(sps.depth_luma, f->depth);
        CHECK_EQ(sps.depth_chroma, f->depth);
        CHECK_EQ(sps.color.present, f->full >= 0);
        if (f->full >= 0) {
            CHECK_EQ(sps.color.full_range, f->full);
            CHECK_EQ(sps.color.primaries, f->primaries);
            CHECK_EQ(sps.color.transfer, f->transfer);
            CHECK_EQ(sps.color.matrix, f->matrix);
        }
        CHECK_EQ(sps.chroma_location > 0, f->location >= 0);
        if (f->location >= 0)
            CHECK_EQ(sps.chroma_location, f->location + 1);
        CHECK_EQ(f->codec == BZNA_CODEC_H265 ? sps.profile[0] & 31u : sps.profile[0], f->profile);
        CHECK_EQ(sps.profile[f->codec == BZNA_CODEC_H265 ? 11 : 2], f->level);
        if (test_failures != before)
            printf("  in %s\n", f->name);
        for (size_t n = 0; n < size; n++) { /* cut short anywhere: refused, or read up to what it has; never beyond */
            uint8_t *part = malloc(n ? n : 1);
            memcpy(part, bytes, n);
            nal.data = part;
            nal.size = n;
            if (n < 8)
                CHECK(!bzi_sps_read(f->codec, nal, &sps));
            else
                bzi_sps_read(f->codec, nal, &sps);
            free(part);
        }
        free(exact);
    }
}

/* What hvcC and avcC repeat of the parameter sets must be what we read there (ISO/IEC 14496-15). */
TEST(parameter_sets_and_configurations_of_the_archives_agree)
{
    static uint8_t buffer[1 << 18];
    for (int a = 0; a < 2; a++) {
        archive r = archive_load(a);
        built b;
        build_open(&b, r.root, 40);
        REQUIRE(b.status == BZNA_OK);
        for (int i = 0; i < 8; i++)
            for (int k = 0; k < 2; k++) {
                const fact_image *m = &r.f->samples[i].images[k];
                bzna_image image = { .struct_size = sizeof image };
                const uint8_t *c;
                bzi_format sps;
                bzna_error err;
                CHECK_EQ(bzna_dataset_read_image(b.dataset, (uint64_t)i, m->name, buffer, sizeof buffer, &image, NULL),
                         BZNA_OK);
                CHECK_EQ(bzi_image_sps(&image, &sps, &err), BZNA_OK);
                CHECK_EQ(sps.width - sps.window[0] - sps.window[1], m->frame_width);
                CHECK_EQ(sps.height - sps.window[2] - sps.window[3], m->frame_height);
                CHECK(sps.chroma_format == 1 && sps.depth_luma == 8 && sps.depth_chroma == 8);
                CHECK(sps.color.present && sps.color.full_range && sps.color.matrix == 5);
                c = image.config;
                if (a == 0) {
                    CHECK(!memcmp(sps.profile, c + 1, 12));
                    CHECK_EQ(sps.chroma_format, c[16] & 3);
                    CHECK_EQ(sps.depth_luma - 8, c[17] & 7);
                    CHECK_EQ(sps.depth_chroma - 8, c[18] & 7);
                    CHECK_EQ(sps.sub_layers, c[21] >> 3 & 7);
                    CHECK_EQ(sps.nested, c[21] >> 2 & 1);
                } else {
                    CHECK(!memcmp(sps.profile, c + 1, 3));
                    CHECK_EQ(sps.chroma_format, c[image.config_size - 4] & 3);
                    CHECK_EQ(sps.depth_luma - 8, c[image.config_size - 3] & 7);
                }
            }
        build_close(&b);
        archive_free(&r);
    }
}

/* ---- Annex B ---- */

TEST(an_image_becomes_annex_b_without_the_encoders_banner)
{
    static uint8_t buffer[1 << 18], stream[1 << 18];
    /* VPS SPS PPS IDR; SPS PPS SEI (in the data) IDR */
    static const uint32_t kinds[2][4] = { { 32, 33, 34, 20 }, { 7, 8, 6, 5 } };
    for (int a = 0; a < 2; a++) {
        archive r = archive_load(a);
        built b;
        bzna_image image = { .struct_size = sizeof image };
        bzna_error err = fresh_error();
        size_t needed = 0, exact, at = 0;
        int unit = 0;
        build_open(&b, r.root, 40);
        REQUIRE(b.status == BZNA_OK);
        CHECK_EQ(bzna_dataset_read_image(b.dataset, 2, "bzna_input", buffer, sizeof buffer, &image, NULL), BZNA_OK);
        CHECK_EQ(bzna_image_annexb(&image, NULL, 0, &needed, &err), BZNA_E_BUFFER);
        CHECK(needed > image.data_size && needed < image.data_size + 200);      /* a 2.3 kB banner would not fit */
        exact = needed;
        memset(stream, 0xa5, sizeof stream);
        CHECK_EQ(bzna_image_annexb(&image, stream, exact - 1, &needed, &err), BZNA_E_BUFFER);
        CHECK(needed == exact && stream[exact - 1] == 0xa5);
        CHECK_EQ(bzna_image_annexb(&image, stream, exact, &needed, &err), BZNA_OK);
        CHECK(needed == exact && stream[exact] == 0xa5);
        while (at < exact && unit < 4) {
            size_t end = at + 4;
            CHECK(!memcmp(stream + at, "\0\0\0\1", 4));
            CHECK_EQ(a ? stream[at + 4] & 31 : stream[at + 4] >> 1 & 63, kinds[a][unit]);
            while (end < exact && memcmp(stream + end, "\0\0\0\1", 4))
                end++;
            at = end;
            unit++;
        }
        CHECK_EQ(unit, 4);
        CHECK_EQ(at, exact);
        CHECK(!memcmp(stream + exact - 100, (const uint8_t *)image.data + image.data_size - 100, 100));
        build_close(&b);
        archive_free(&r);
    }
}

TEST(annex_b_of_damaged_images_is_refused)
{
    uint8_t dst[64];
    size_t needed = 5;
    bzna_error err = fresh_error();
    bzna_image image = { .struct_size = sizeof image };
    CHECK_EQ(bzna_image_annexb(NULL, dst, sizeof dst, &needed, &err), BZNA_E_ARGUMENT);
    CHECK_EQ(needed, 0);
    CHECK_EQ(bzna_image_annexb(&image, dst, sizeof dst, &needed, &err), BZNA_E_ARGUMENT);
    image.codec = BZNA_CODEC_H264;
    image.data = "\0\0\0\5ab";
    image.data_size = 6;
    image.length_size = 4;
    CHECK_EQ(bzna_image_annexb(&image, dst, sizeof dst, &needed, &err), BZNA_E_BOX);
    CHECK_CONTAINS(err.message, "unit of the picture");
    image.config = "\1\x64\0\x16\xff\xe1\xff\xff" "ab";
    image.config_size = 10;
    CHECK_EQ(bzna_image_annexb(&image, dst, sizeof dst, &needed, &err), BZNA_E_BOX);
    CHECK_CONTAINS(err.message, "unit of the configuration");
    image.length_size = 3;
    CHECK_EQ(bzna_image_annexb(&image, dst, sizeof dst, &needed, &err), BZNA_E_ARGUMENT);
    CHECK_CONTAINS(err.message, "length_size");
    image.length_size = 4;
    image.codec = 99;
    CHECK_EQ(bzna_image_annexb(&image, dst, sizeof dst, &needed, &err), BZNA_E_CODEC);
    image.codec = BZNA_CODEC_AV1;                           /* the config's OBUs behind its 4 bytes, then the data */
    image.length_size = 0;
    image.config = "\x81\0\0\0XY";
    image.config_size = 6;
    image.data = "abc";
    image.data_size = 3;
    CHECK_EQ(bzna_image_annexb(&image, dst, sizeof dst, &needed, &err), BZNA_OK);
    CHECK(needed == 5 && !memcmp(dst, "XYabc", 5));
    image.struct_size = 3;
    CHECK_EQ(bzna_image_annexb(&image, dst, sizeof dst, &needed, &err), BZNA_E_STRUCT_SIZE);
}

/* ---- AV1: open bitstream units ---- */

/* Units as "type:bytes" and how it ended. */
static int obus_are(const char *bytes, size_t size, const char *expected, int end)
{
    uint8_t *exact = malloc(size ? size : 1);
    bzi_cursor rest;
    bzi_span payload;
    char text[256] = "";
    size_t at = 0;
    uint32_t type;
    int got;
    memcpy(exact, bytes, size);
    rest = bzi_cursor_make(exact, size, 0);
    while ((got = bzi_obu_next(&rest, &type, &payload)) > 0) {
        at += (size_t)snprintf(text + at, sizeof text - at, "%u:", type);
        for (uint64_t i = 0; i < payload.size && at + 4 < sizeof text; i++)
            at += (size_t)snprintf(text + at, sizeof text - at, "%x", payload.data[i]);
        at += (size_t)snprintf(text + at, sizeof text - at, " ");
    }
    free(exact);
    if (got == end && !strcmp(text, expected))
        return 1;
    printf("  %d \"%s\", not %d \"%s\"\n", got, text, end, expected);
    return 0;
}

/* 5.3 and 4.10.5: header byte = forbidden 1, type 4, extension 1, has_size 1, reserved 1. */
TEST(av1_units_are_found_and_wrong_sizes_noticed)
{
    CHECK(obus_are("", 0, "", 0));
    CHECK(obus_are("\x12\0\x0a\2\x61\x62\x32\1\x63", 9, "2: 1:6162 6:63 ", 0));
    CHECK(obus_are("\x32\0", 2, "6: ", 0));
    CHECK(obus_are("\x30\x61\x62", 3, "6:6162 ", 0));                           /* without a size: all that is left */
    CHECK(obus_are("\x30", 1, "6: ", 0));
    CHECK(obus_are("\x36\x08\1\x61\x7a\0", 6, "6:61 15: ", 0));                 /* an extension's byte */
    CHECK(obus_are("\x34\x08\x61", 3, "6:61 ", 0));
    CHECK(obus_are("\x33\1\x61", 3, "6:61 ", 0));                               /* the reserved bit means nothing */
    CHECK(obus_are("\x34", 1, "", -1));
    CHECK(obus_are("\x36\x08", 2, "", -1));
    CHECK(obus_are("\x32", 1, "", -1));
    CHECK(obus_are("\x32\2\x61", 3, "", -1));                                   /* one byte more than there is */
    CHECK(obus_are("\x12\0\x32\x7f\x61", 5, "2: ", -1));
    CHECK(obus_are("\xb2\1\x61", 3, "", -1));                                   /* the forbidden bit */
    CHECK(obus_are("\x32\x81\0\x61", 4, "6:61 ", 0)); /* longer than it needs to be: legal, up to 8 bytes */
    CHECK(obus_are("\x32\x81\x80\x80\x80\x80\x80\x80\0\x61", 10, "6:61 ", 0));
    CHECK(obus_are("\x32\x81\x80\x80\x80\x80\x80\x80\x80\0\x61", 11, "", -1));  /* nine */
    CHECK(obus_are("\x32\x81\x80\x80\x80\x80\x80\x80\x80\x80\x80\x80\0\x61", 14, "", -1));
    CHECK(obus_are("\x32\x80", 2, "", -1));                                     /* a size that never ends */
    CHECK(obus_are("\x32\xff\xff\xff\xff\xff\xff\xff\x7f\x61", 10, "", -1));    /* 2^56 - 1 */
    CHECK(obus_are("\x32\xff\xff\xff\xff\x0f\x61", 7, "", -1));                 /* 2^32 - 1 */
    CHECK(obus_are("\x32\x80\x80\x80\x80\x10\x61", 7, "", -1));                 /* 2^32: not 0 */
}

/* ---- AV1: sequence headers, written bit by bit from 5.5 ---- */

typedef struct bit_writer { uint8_t bytes[8192]; size_t bits; } bit_writer;

static void put(bit_writer *w, uint32_t n, uint64_t value)
{
    while (n--) {
        if (value >> n & 1)
            w->bytes[w->bits / 8] |= (uint8_t)(128 >> w->bits % 8);
        w->bits++;
    }
}

static void put_uvlc(bit_writer *w, uint32_t value)      /* 4.10.3 */
{
    uint32_t zeros = 0;
    while (((uint64_t)value + 1) >> (zeros + 1))
        zeros++;
    put(w, zeros, 0);
    put(w, zeros + 1, (uint64_t)value + 1);
}

static uint64_t av1_state = 88172645463325252ull;

static uint32_t roll(uint32_t n)                          /* 0 .. n - 1 */
{
    av1_state ^= av1_state << 13;
    av1_state ^= av1_state >> 7;
    av1_state ^= av1_state << 17;
    return (uint32_t)((av1_state >> 32) % n);
}

enum { GRAY, C420, C422, C444 };

/* What is chosen of a header; everything else in it is rolled. */
typedef struct av1_header {
    uint32_t reduced, profile, depth, chroma, width, height;
    uint32_t described, primaries, transfer, matrix, full, place;
    uint32_t timing, model, display, points, frame_ids, order_hints, content;
    int      legal;                   /* keep values that conforming streams do not have out of what is rolled */
} av1_header;

static int is_srgb(const av1_header *h)
{
    return h->described && h->primaries == 1 && h->transfer == 13 && h->matrix == 0;
}

static void put_operating_points(bit_writer *w, const av1_header *h)
{
    uint32_t delay = roll(32) + 1;
    put(w, 1, h->timing);                                 /* timing_info_present_flag */
    if (h->timing) {
        uint32_t equal = roll(2), model = h->model;
        put(w, 32, 1 + roll(0xfffffff0));                 /* num_units_in_display_tick */
        put(w, 32, 1 + roll(0xfffffff0));                 /* time_scale */
        put(w, 1, equal);
        if (equal)
            put_uvlc(w, roll(2) ? roll(5) : roll(0xfffffff0));
        put(w, 1, model);                                 /* decoder_model_info_present_flag */
        if (model) {
            put(w, 5, delay - 1);
            put(w, 32, 1 + roll(1000));
            put(w, 5, roll(32));
            put(w, 5, roll(32));
        }
    }
    put(w, 1, h->display);                                /* initial_display_delay_present_flag */
    put(w, 5, h->points - 1);
    for (uint32_t i = 0; i < h->points; i++) {
        uint32_t level = roll(2) ? roll(8) : 8 + roll(16), present;
        put(w, 12, h->points == 1 ? 0 : 0x100u | roll(0x100));       /* operating_point_idc */
        put(w, 5, level);
        if (level > 7)
            put(w, 1, roll(2));
        if (h->timing && h->model) {
            put(w, 1, present = roll(2));
            if (present) {
                put(w, delay, ((uint64_t)roll(0xffffffff)) & ((1ull << delay) - 1));
                put(w, delay, ((uint64_t)roll(0xffffffff)) & ((1ull << delay) - 1));
                put(w, 1, roll(2));
            }
        }
        if (h->display) {
            put(w, 1, present = roll(2));
            if (present)
                put(w, 4, roll(h->legal ? 10 : 16));
        }
    }
}

static void put_tools(bit_writer *w, const av1_header *h)
{
    if (!h->reduced) {
        put(w, 1, h->frame_ids);
        if (h->frame_ids) {
            put(w, 4, roll(h->legal ? 8 : 16));
            put(w, 3, roll(h->legal ? 5 : 8));
        }
    }
    put(w, 3, roll(8));                                   /* 128x128, filter intra, intra edge */
    if (!h->reduced) {
        put(w, 4, roll(16));                              /* interintra, masked, warped, dual filter */
        put(w, 1, h->order_hints);
        if (h->order_hints)
            put(w, 2, roll(4));
        put(w, 1, h->content == 2);                       /* seq_choose_screen_content_tools */
        if (h->content != 2)
            put(w, 1, h->content);
        if (h->content) {
            uint32_t choose = roll(2);
            put(w, 1, choose);
            if (!choose)
                put(w, 1, roll(2));
        }
        if (h->order_hints)
            put(w, 3, roll(8));
    }
    put(w, 3, roll(8));                                   /* superres, cdef, restoration */
}

/* 5.5.2. Returns how many bits there were when the color was complete. */
static size_t put_color(bit_writer *w, const av1_header *h)
{
    size_t end;
    put(w, 1, h->depth > 8);
    if (h->profile == 2 && h->depth > 8)
        put(w, 1, h->depth == 12);
    if (h->profile != 1)
        put(w, 1, h->chroma == GRAY);
    put(w, 1, h->described);
    if (h->described) {
        put(w, 8, h->primaries);
        put(w, 8, h->transfer);
        put(w, 8, h->matrix);
    }
    if (h->chroma == GRAY) {
        put(w, 1, h->full);
        return w->bits;
    }
    if (!is_srgb(h)) {
        put(w, 1, h->full);
        if (h->profile == 2 && h->depth == 12) {
            put(w, 1, h->chroma != C444);
            if (h->chroma != C444)
                put(w, 1, h->chroma == C420);
        }
        if (h->chroma == C420)
            put(w, 2, h->place);
    }
    end = w->bits;
    put(w, 1, roll(2));                                   /* separate_uv_delta_q */
    return end;
}

/* 5.5.1 whole, with film grain's flag and trailing bits. */
static size_t put_header(bit_writer *w, const av1_header *h)
{
    uint32_t width_bits = 1, height_bits = 1;
    size_t end;
    memset(w, 0, sizeof *w);
    put(w, 3, h->profile);
    put(w, 1, h->reduced || roll(2));                     /* still_picture */
    put(w, 1, h->reduced);
    if (h->reduced)
        put(w, 5, roll(24));
    else
        put_operating_points(w, h);
    while ((h->width - 1) >> width_bits)
        width_bits++;
    while ((h->height - 1) >> height_bits)
        height_bits++;
    width_bits += roll(17 - width_bits);
    height_bits += roll(17 - height_bits);
    put(w, 4, width_bits - 1);
    put(w, 4, height_bits - 1);
    put(w, width_bits, h->width - 1);
    put(w, height_bits, h->height - 1);
    put_tools(w, h);
    end = put_color(w, h);
    put(w, 1, roll(2));
    put(w, 1, 1);
    while (w->bits % 8)
        put(w, 1, 0);
    return end;
}

static av1_header roll_header(int legal)
{
    static const uint8_t kinds[][3] = { { 0, 8, C420 },  { 0, 10, C420 }, { 0, 8, GRAY },  { 0, 10, GRAY },
                                        { 1, 8, C444 },  { 1, 10, C444 }, { 2, 8, C422 },  { 2, 10, C422 },
                                        { 2, 12, C420 }, { 2, 12, C422 }, { 2, 12, C444 }, { 2, 8, GRAY },
                                        { 2, 10, GRAY }, { 2, 12, GRAY } };
    const uint8_t *kind = kinds[roll(sizeof kinds / sizeof *kinds)];
    av1_header h;
    memset(&h, 0, sizeof h);
    h.legal = legal;
    h.profile = kind[0];
    h.depth = kind[1];
    h.chroma = kind[2];
    h.reduced = roll(3) == 0;
    h.width = 1 + roll(legal ? 8192 : 1u << (1 + roll(16)));
    h.height = 1 + roll(legal ? 8192 : 1u << (1 + roll(16)));
    h.described = roll(2);
    h.primaries = h.transfer = h.matrix = 2;
    if (h.described) {
        static const uint8_t primaries[] = { 1, 2, 4, 5, 6, 7, 9, 12 }, transfers[] = { 1, 4, 6, 8, 13, 14, 16, 18 },
                             matrices[] = { 1, 2, 4, 5, 6, 7, 9, 10 };
        h.primaries = primaries[roll(8)];
        h.transfer = transfers[roll(8)];
        h.matrix = matrices[roll(8)];
        if (h.chroma == C444 && roll(2)) {                /* identity: sRGB, or with others of primaries, transfer */
            h.primaries = roll(4) ? 1 : 9;
            h.transfer = roll(4) ? 13 : 1;
            h.matrix = 0;
        }
    }
    h.full = roll(2);
    h.place = roll(legal ? 3 : 4);
    h.timing = roll(2);
    h.model = roll(2);
    h.display = roll(2);
    h.points = roll(2) ? 1 : 1 + roll(8);
    h.frame_ids = roll(2);
    h.order_hints = roll(2);
    h.content = roll(3);
    return h;
}

static int read_exact(const uint8_t *bytes, size_t size, bzi_format *sps, uint32_t *reduced)
{
    uint8_t *exact = malloc(size ? size : 1);
    bzi_span unit = { exact, size };
    int result;
    memcpy(exact, bytes, size);
    result = bzi_av1_read(unit, sps, reduced);
    free(exact);
    return result;
}

static void check_header(const av1_header *h, const bit_writer *w, size_t end)
{
    bzi_format sps;
    uint32_t reduced = 9;
    int before = test_failures;
    CHECK(read_exact(w->bytes, w->bits / 8, &sps, &reduced));
    CHECK_EQ(reduced, h->reduced);
    CHECK_EQ(sps.width, h->width);
    CHECK_EQ(sps.height, h->height);
    CHECK(!sps.window[0] && !sps.window[1] && !sps.window[2] && !sps.window[3]);
    CHECK_EQ(sps.depth_luma, h->depth);
    CHECK_EQ(sps.depth_chroma, h->depth);
    CHECK_EQ(sps.chroma_format, h->chroma);
    CHECK_EQ(sps.color.present, 1);                      /* the range is always said */
    CHECK_EQ(sps.color.primaries, h->primaries);
    CHECK_EQ(sps.color.transfer, h->transfer);
    CHECK_EQ(sps.color.matrix, h->matrix);
    CHECK_EQ(sps.color.full_range, h->full || (h->chroma != GRAY && is_srgb(h)));
    if (h->chroma == C420 && (h->place == 1 || h->place == 2)) {            /* H.273: 0 is left, 2 is top left */
        CHECK_EQ(sps.chroma_location, h->place == 1 ? BZI_CHROMA_LEFT : BZI_CHROMA_TOP_LEFT);
    } else if (h->chroma != C420 || h->place == 0) {
        CHECK_EQ(sps.chroma_location, 0);
    }
    for (size_t n = 0; n < w->bits / 8; n++)              /* cut: refused as long as anything of the above is missing */
        CHECK_EQ(read_exact(w->bytes, n, &sps, &reduced), n * 8 >= end);
    if (test_failures != before)
        printf("  in profile %u, %u bits, chroma %u, %ux%u, reduced %u, timing %u, model %u, display %u, points %u, "
               "ids %u, hints %u, content %u, described %u\n",
               h->profile, h->depth, h->chroma, h->width, h->height, h->reduced, h->timing, h->model, h->display,
               h->points, h->frame_ids, h->order_hints, h->content, h->described);
}

TEST(av1_sequence_headers_are_understood_with_every_option)
{
    int seen[3][13][4] = { 0 }, srgb = 0;
    for (int i = 0; i < 6000 && test_failures < 20; i++) {
        av1_header h = roll_header(i % 2);
        bit_writer w;
        if (i < 128) { /* every combination of what changes the layout, once; the rest is rolled */
            h.reduced = 0;
            h.timing = i & 1;
            h.model = i >> 1 & 1;
            h.display = i >> 2 & 1;
            h.frame_ids = i >> 3 & 1;
            h.order_hints = i >> 4 & 1;
            h.points = i >> 5 & 1 ? 32 : 1;
            h.content = (uint32_t)(i >> 6 & 1) + 1;
        }
        size_t end = put_header(&w, &h);
        check_header(&h, &w, end);
        seen[h.profile][h.depth][h.chroma]++;
        srgb += h.chroma == C444 && is_srgb(&h);
    }
    CHECK(seen[0][8][C420] && seen[0][10][C420] && seen[0][8][GRAY] && seen[1][8][C444] && seen[1][10][C444] &&
          seen[2][8][C422] && seen[2][10][C422] && seen[2][12][C420] && seen[2][12][C422] && seen[2][12][C444] &&
          seen[2][12][GRAY] && srgb);
}

/* A header by hand, so that the writer above is not the only witness. */
TEST(av1_sequence_headers_written_by_hand_are_understood)
{
    bzi_format sps;
    uint32_t reduced;
    /* 000 profile 0 | 1 still | 1 reduced | 00101 level | 0110 7 bits | 0101 6 bits | 1000001 66 | 110010 51 | 000 000
     * tools | 0 8 bits | 0 not gray | 1 described | 00000001 00001101 00000110 | 1 full | 10 top left | 0 one delta q |
     * 0 no grain | 1 and zeros to the byte's end */
    static const uint8_t by_hand[] = { 0x19, 0x59, 0x60, 0xe4, 0x01, 0x01, 0x0d, 0x06, 0xc4 };
    CHECK(read_exact(by_hand, sizeof by_hand, &sps, &reduced));
    CHECK(reduced && sps.width == 66 && sps.height == 51 && sps.depth_luma == 8 && sps.chroma_format == C420);
    CHECK(sps.color.present && sps.color.primaries == 1 && sps.color.transfer == 13 && sps.color.matrix == 6 &&
          sps.color.full_range == 1);
    CHECK_EQ(sps.chroma_location, BZI_CHROMA_TOP_LEFT);
    for (uint32_t profile = 3; profile < 8; profile++) {  /* reserved */
        uint8_t bytes[sizeof by_hand];
        memcpy(bytes, by_hand, sizeof by_hand);
        bytes[0] = (uint8_t)((bytes[0] & 0x1f) | profile << 5);
        CHECK(!read_exact(bytes, sizeof bytes, &sps, &reduced));
    }
    {                                                     /* 00 00 03 are three bytes: there is no emulation prevention
        in AV1 */
        bit_writer w;
        memset(&w, 0, sizeof w);
        put(&w, 5, 3);                                    /* profile 0, still, reduced */
        put(&w, 5, 0);
        put(&w, 8, 0xff);                                 /* 16 bits each */
        put(&w, 16, 1024);
        put(&w, 16, 13);
        put(&w, 6, 0);
        put(&w, 3, 0);                                    /* 8 bits, not gray, not described */
        put(&w, 1, 0);
        put(&w, 2, 1);
        put(&w, 3, 1);
        CHECK(!memcmp(w.bytes + 3, "\0\0\3", 3));
        CHECK(read_exact(w.bytes, (w.bits + 7) / 8, &sps, &reduced));
        CHECK(sps.width == 1025 && sps.height == 14 && sps.chroma_format == C420 && sps.depth_luma == 8);
        CHECK(sps.color.present && sps.color.matrix == 2 && !sps.color.full_range &&
              sps.chroma_location == BZI_CHROMA_LEFT);
    }
}

/* ---- H.264 and H.265: parameter sets written bit by bit, and what an archive says of pictures that have them ---- */

/* 9.1 of H.264. Its ue(v) is what AV1 calls uvlc(). */
static void put_se(bit_writer *w, int64_t value) { put_uvlc(w, (uint32_t)(value > 0 ? 2 * value - 1 : -2 * value)); }

/* Annex B. */
typedef struct byte_stream { uint8_t bytes[1 << 14]; size_t size; } byte_stream;

/* Ends a unit, and appends it behind a start code, with emulation prevention. */
static void stream_add(byte_stream *s, bit_writer *w)
{
    int zeros = 0;
    put(w, 1, 1);
    memcpy(s->bytes + s->size, "\0\0\0\1", 4);
    s->size += 4;
    for (size_t i = 0; i < (w->bits + 7) / 8; i++) {
        if (zeros >= 2 && w->bytes[i] <= 3) {
            s->bytes[s->size++] = 3;
            zeros = 0;
        }
        zeros = w->bytes[i] ? 0 : zeros + 1;
        s->bytes[s->size++] = w->bytes[i];
    }
    memset(w, 0, sizeof *w);
}

/* What is chosen of a sequence parameter set; the rest is rolled. */
typedef struct sps_choice {
    uint32_t profile, chroma, depth, width, height, window[4];              /* coded size; window in its units */
    uint32_t full, primaries, transfer, matrix;
    uint32_t poc_type, frame_num_bits, poc_bits, frames_only, always_zero;  /* H.264: slices depend on them */
    int      legal;                                                         /* only what libavcodec takes, too */
} sps_choice;

static sps_choice roll_sps(uint32_t codec, int legal)
{
    static const uint8_t high[] = { 100, 110, 122, 244, 44, 83, 86, 118, 128, 138, 139, 134, 135 };
    static const uint8_t primaries[] = { 1, 4, 5, 6, 7, 9 }, transfers[] = { 1, 4, 6, 8, 13, 16 };
    static const uint8_t matrices[] = { 1, 4, 5, 6, 9, 10 };
    uint32_t highs = legal ? 10 : sizeof high;            /* libavcodec does not know the last three */
    sps_choice c;
    memset(&c, 0, sizeof c);
    c.legal = legal;
    c.profile = codec == BZNA_CODEC_H265 ? 4 : roll(4) ? high[roll(highs)] : 66 + 11 * roll(3);
    c.chroma = codec == BZNA_CODEC_H265 || memchr(high, (int)c.profile, sizeof high) ? roll(4) : C420;
    c.depth = codec == BZNA_CODEC_H265 || memchr(high, (int)c.profile, sizeof high) ? 8 + 2 * roll(2) : 8;
    c.frames_only = codec == BZNA_CODEC_H265 || roll(2);
    c.width = codec == BZNA_CODEC_H265 ? 8 * (9 + roll(50)) : 16 * (5 + roll(25));
    c.height = codec == BZNA_CODEC_H265 ? 8 * (9 + roll(50)) : (c.frames_only ? 16 : 32) * (5 + roll(12));
    for (int i = 0; i < 4; i++)
        c.window[i] = roll(2) ? roll(8) : 0;
    c.full = roll(2);
    c.primaries = primaries[roll(6)];
    c.transfer = transfers[roll(6)];
    c.matrix = matrices[roll(6)];
    c.poc_type = roll(3);
    c.frame_num_bits = 4 + roll(13);
    c.poc_bits = 4 + roll(13);
    c.always_zero = roll(2);
    return c;
}

/* E.2.1 of both, up to the chroma location. The color stands behind all that a reader may have got wrong. */
static void put_vui(bit_writer *w, const sps_choice *c)
{
    uint32_t said = roll(2);
    put(w, 1, said);                                      /* aspect ratio */
    if (said) {
        put(w, 8, 255);
        put(w, 32, 0x00030002);
    }
    put(w, 1, said = roll(2));                            /* overscan */
    if (said)
        put(w, 1, roll(2));
    put(w, 1, 1);
    put(w, 3, 5);
    put(w, 1, c->full);
    put(w, 1, 1);
    put(w, 8, c->primaries);
    put(w, 8, c->transfer);
    put(w, 8, c->matrix);
    put(w, 1, said = c->chroma == C420 && roll(2));       /* chroma location */
    if (said) {
        put_uvlc(w, roll(6));
        put_uvlc(w, roll(6));
    }
}

static void put_window(bit_writer *w, const sps_choice *c)
{
    put(w, 1, 1);
    for (int i = 0; i < 4; i++)
        put_uvlc(w, c->window[i]);
}

/* H.264 7.3.2.1.1.1, as 7.4.2.1.1 has it: a list may be left out, be the default one, end early, or be whole. */
static void put_scaling_list(bit_writer *w, const sps_choice *c, int size)
{
    int how = (int)roll(4), last = 8, end = how == 1 ? 0 : how == 2 ? 1 + (int)roll((uint32_t)size - 1) : size;
    put(w, 1, how > 0);
    for (int i = 0; how && i < size && i <= end; i++) {
        int next = i == end ? 0 : 1 + (int)roll(255), delta = ((next - last + 128) & 255) - 128;
        int64_t far = delta < 0 ? delta - 0x7fffff00ll : delta + 0x7fffff00ll;     /* the same modulo 256 */
        put_se(w, c->legal || roll(4) ? delta : far);
        last = next;
    }
}

static void put_poc(bit_writer *w, const sps_choice *c)
{
    uint32_t cycle = roll(4) ? roll(6) : 255, range = c->legal || roll(8) ? 1000 : 0xffffffff;
    put_uvlc(w, c->poc_type);
    if (c->poc_type == 0)
        put_uvlc(w, c->poc_bits - 4);
    if (c->poc_type != 1)
        return;
    put(w, 1, c->always_zero);
    put_se(w, (int64_t)roll(range) - range / 2);
    put_se(w, (int64_t)roll(range) - range / 2);
    put_uvlc(w, cycle);
    while (cycle--)
        put_se(w, (int64_t)roll(range) - range / 2);
}

/* 7.3.2.1.1 */
static void put_h264_sps(bit_writer *w, const sps_choice *c)
{
    put(w, 8, 0x67);
    put(w, 8, c->profile);
    put(w, 8, 0);
    put(w, 8, 40);
    put_uvlc(w, 0);
    if (c->profile != 66 && c->profile != 77 && c->profile != 88) {
        put_uvlc(w, c->chroma);
        if (c->chroma == C444)
            put(w, 1, 0);                                 /* no separate planes */
        put_uvlc(w, c->depth - 8);
        put_uvlc(w, c->depth - 8);
        put(w, 1, roll(2));
        put(w, 1, 1);                                     /* scaling lists */
        for (int i = 0; i < (c->chroma == C444 ? 12 : 8); i++)
            put_scaling_list(w, c, i < 6 ? 16 : 64);
    }
    put_uvlc(w, c->frame_num_bits - 4);
    put_poc(w, c);
    put_uvlc(w, roll(5));                                 /* reference frames */
    put(w, 1, roll(2));
    put_uvlc(w, c->width / 16 - 1);
    put_uvlc(w, c->height / (c->frames_only ? 16 : 32) - 1);
    put(w, 1, c->frames_only);
    if (!c->frames_only)
        put(w, 1, roll(2));
    put(w, 1, 1);
    put_window(w, c);
    put(w, 1, 1);
    put_vui(w, c);
    put(w, 5, 0);                                         /* timing, HRDs, picture structure, restrictions */
}

/* The picture parameter set, and a slice's header with junk behind. */
static void put_h264_picture(byte_stream *s, bit_writer *w, const sps_choice *c)
{
    put(w, 8, 0x68);
    put(w, 2, 3);
    put(w, 2, 0);
    put(w, 3, 7);
    put(w, 3, 0);
    put(w, 3, 7);
    put(w, 3, 4);
    stream_add(s, w);
    put(w, 8, 0x65);
    put_uvlc(w, 0);
    put_uvlc(w, 7);
    put_uvlc(w, 0);
    put(w, c->frame_num_bits, 0);
    if (!c->frames_only)
        put(w, 1, 0);
    put_uvlc(w, 0);
    if (c->poc_type == 0)
        put(w, c->poc_bits, 0);
    if (c->poc_type == 1 && !c->always_zero)
        put_se(w, 0);
    put(w, 2, 0);
    put_se(w, 0);
    put_uvlc(w, 1);                                       /* no deblocking */
    put(w, 16, 0xa5a5);
    stream_add(s, w);
}

/* 7.3.7 of H.265: pictures that a picture may refer to, each with its distance and whether this one does. */
static void put_explicit_set(bit_writer *w, uint32_t negative, uint32_t positive)
{
    put_uvlc(w, negative);
    put_uvlc(w, positive);
    for (uint64_t i = 0; i < (uint64_t)negative + positive && i < 40; i++) {
        put_uvlc(w, roll(30));
        put(w, 1, roll(2));
    }
}

/* One set that is predicted from the one before, which has count pictures. Returns how many this one has. */
static uint32_t put_predicted_set(bit_writer *w, uint32_t count)
{
    uint32_t taken = 0;
    put(w, 1, 1);                                         /* inter_ref_pic_set_prediction_flag */
    put(w, 1, 1);
    put_uvlc(w, 5000);                                    /* so far that none falls on the picture itself */
    for (uint32_t i = 0; i <= count; i++) {
        uint32_t used = taken < 14 && roll(2), delta = !used && taken < 14 && roll(2);
        put(w, 1, used);
        if (!used)
            put(w, 1, delta);
        taken += used || delta;
    }
    return taken;
}

/* One to three sets that say all themselves, then some that are predicted. */
static void put_sets(bit_writer *w)
{
    uint32_t explicit_sets = 1 + roll(3), predicted = roll(3), count = 0;
    put_uvlc(w, explicit_sets + predicted);
    for (uint32_t i = 0; i < explicit_sets; i++) {
        uint32_t negative = roll(2) ? roll(16) : roll(3), positive = roll(16 - negative);
        if (i)
            put(w, 1, 0);
        put_explicit_set(w, negative, positive);
        count = negative + positive;
    }
    while (predicted--)
        count = put_predicted_set(w, count);
}

/* 7.3.3 */
static void put_profile(bit_writer *w)
{
    put(w, 8, 4);
    put(w, 32, 0x08000000);
    put(w, 48, 0x900000000000);
    put(w, 8, 120);
}

/* 7.3.2.2.1 up to the scaling lists. */
static void put_h265_sps_start(bit_writer *w, const sps_choice *c)
{
    static const uint32_t blocks[6] = { 0, 3, 0, 3, 0, 0 };
    put(w, 16, 0x4201);
    put(w, 8, 1);                                         /* one sub-layer */
    put_profile(w);
    put_uvlc(w, 0);
    put_uvlc(w, c->chroma);
    if (c->chroma == C444)
        put(w, 1, 0);
    put_uvlc(w, c->width);
    put_uvlc(w, c->height);
    put_window(w, c);
    put_uvlc(w, c->depth - 8);
    put_uvlc(w, c->depth - 8);
    put_uvlc(w, 4);
    put(w, 1, 1);
    put_uvlc(w, 15);                                      /* as many pictures are kept as may be */
    put_uvlc(w, 0);
    put_uvlc(w, 0);
    for (int i = 0; i < 6; i++)
        put_uvlc(w, blocks[i]);
}

/* The same up to the reference picture sets. */
static void put_h265_sps_head(bit_writer *w, const sps_choice *c)
{
    put_h265_sps_start(w, c);
    put(w, 4, 0);                                         /* no scaling lists; AMP, SAO; no PCM */
}

/* H.265 7.3.4: a list is that of another, or has coefficients; of the larger blocks, a first one of its own. */
static void put_h265_scaling_lists(bit_writer *w)
{
    for (int size = 0; size < 4; size++)
        for (int matrix = 0; matrix < 6; matrix += size == 3 ? 3 : 1) {
            const uint32_t whole = roll(2);
            put(w, 1, whole);
            if (!whole)
                put_uvlc(w, roll(3));
            if (whole && size > 1)
                put_se(w, (int64_t)roll(200) - 7);
            for (int i = 0; whole && i < (size ? 64 : 16); i++)
                put_se(w, (int64_t)roll(256) - 128);
        }
}

static void put_h265_sps_tail(bit_writer *w, const sps_choice *c)
{
    put(w, 3, 0);
    put(w, 1, 1);
    put_vui(w, c);
    put(w, 7, 0);                                         /* what else a VUI may say, and extensions */
}

static void put_h265_vps(byte_stream *s, bit_writer *w)
{
    put(w, 16, 0x4001);
    put(w, 16, 0x0c01);
    put(w, 16, 0xffff);
    put_profile(w);
    put(w, 1, 1);
    put_uvlc(w, 15);
    put_uvlc(w, 0);
    put_uvlc(w, 0);
    put(w, 6, 0);
    put_uvlc(w, 0);
    put(w, 2, 0);
    stream_add(s, w);
}

static void put_h265_picture(byte_stream *s, bit_writer *w)
{
    put(w, 16, 0x4401);
    put(w, 2, 3);
    put(w, 7, 0);
    put(w, 3, 7);                                         /* one reference each way, QP 26 */
    put(w, 3, 0);
    put(w, 2, 3);
    put(w, 10, 0);
    put_uvlc(w, 0);
    put(w, 2, 0);
    stream_add(s, w);
    put(w, 16, 0x2601);                                   /* an IDR picture */
    put(w, 2, 2);
    put_uvlc(w, 0);
    put_uvlc(w, 2);
    put(w, 16, 0xa5a5);
    stream_add(s, w);
}

/* A stream of one picture with such parameter sets. */
static void stream_make(byte_stream *s, uint32_t codec, const sps_choice *c)
{
    static bit_writer w;
    memset(&w, 0, sizeof w);
    memset(s, 0, sizeof *s);
    if (codec == BZNA_CODEC_H265) {
        put_h265_vps(s, &w);
        put_h265_sps_head(&w, c);
        put_sets(&w);
        put_h265_sps_tail(&w, c);
        stream_add(s, &w);
        put_h265_picture(s, &w);
    } else {
        put_h264_sps(&w, c);
        stream_add(s, &w);
        put_h264_picture(s, &w, c);
    }
}

static uint32_t window_px(const sps_choice *c, int side)
{
    uint32_t across = c->chroma == C420 || c->chroma == C422 ? 2 : 1;
    uint32_t down = (c->chroma == C420 ? 2u : 1u) * (c->frames_only ? 1 : 2);
    return c->window[side] * (side < 2 ? across : down);
}

static uint32_t shown_width(const sps_choice *c)  { return c->width - window_px(c, 0) - window_px(c, 1); }
static uint32_t shown_height(const sps_choice *c) { return c->height - window_px(c, 2) - window_px(c, 3); }

typedef struct memory_file { uint8_t bytes[1 << 16]; size_t size; } memory_file;

static bzna_status memory_write_at(void *user, uint64_t offset, const void *src, uint64_t size)
{
    memory_file *f = user;
    if (offset + size > sizeof f->bytes)
        return BZNA_E_IO;
    memcpy(f->bytes + offset, src, (size_t)size);
    f->size = offset + size > f->size ? (size_t)(offset + size) : f->size;
    return BZNA_OK;
}

/* Writes an archive of this one picture. */
static bzna_status write_picture(bzna_context *context, memory_file *f, uint32_t codec, const byte_stream *s,
                                 bzna_error *err)
{
    bzna_sink sink = { sizeof(bzna_sink), 0, f, memory_write_at, NULL };
    bzna_image image = { .struct_size = sizeof image, .codec = codec, .width = 1, .height = 1, .data = s->bytes,
                         .data_size = s->size };
    bzna_writer_sample desc = { .struct_size = sizeof desc, .image = &image };
    bzna_writer *writer = NULL;
    bzna_status status = bzna_writer_open_sink(context, &sink, NULL, &writer, err);
    f->size = 0;
    if (status == BZNA_OK)
        status = bzna_writer_add(writer, BZNA_INDEX_NEXT, &desc, 0, err);
    if (status == BZNA_OK)
        status = bzna_writer_finish(writer, err);
    bzna_writer_close(writer);
    return status;
}

/* What the writer read of the stream is what was written of it. */
static void check_described(bzna_context *context, uint32_t codec, const byte_stream *s, const sps_choice *c)
{
    static memory_file f;
    static uint8_t buffer[1 << 16];
    bzna_image image = { .struct_size = sizeof image };
    memory_source m;
    bzna_source source;
    bzna_dataset *dataset = NULL;
    bzna_error err = fresh_error();
    const uint8_t *config;
    int before = test_failures;
    CHECK_EQ(write_picture(context, &f, codec, s, &err), BZNA_OK);
    source = source_of(&m, f.bytes, f.size);
    if (test_failures == before)
        CHECK_EQ(bzna_dataset_open_source(context, &source, NULL, &dataset, &err), BZNA_OK);
    if (dataset && bzna_dataset_read_image(dataset, 0, "bzna_input", buffer, sizeof buffer, &image, &err) == BZNA_OK) {
        CHECK_EQ(image.frame_width, shown_width(c));
        CHECK_EQ(image.frame_height, shown_height(c));
        CHECK(image.color.present && image.color.full_range == c->full);
        CHECK_EQ(image.color.primaries, c->primaries);
        CHECK_EQ(image.color.transfer, c->transfer);
        CHECK_EQ(image.color.matrix, c->matrix);
        config = image.config;
        CHECK_EQ(codec == BZNA_CODEC_H265 ? config[1] & 31u : config[1], c->profile);
        config += codec == BZNA_CODEC_H265 ? 16 : image.config_size - 4;
        if (codec == BZNA_CODEC_H265 || c->profile == 100 || c->profile == 110 || c->profile == 122) {
            CHECK_EQ(config[0] & 3, c->chroma);
            CHECK_EQ(config[1] & 7, c->depth - 8);
            CHECK_EQ(config[2] & 7, c->depth - 8);
        }
    } else {
        CHECK(dataset != NULL);
    }
    bzna_dataset_close(dataset);
    if (test_failures != before)
        printf("  in profile %u, chroma %u, %u bits, %ux%u, pic_order_cnt_type %u: %s\n", c->profile, c->chroma,
               c->depth, c->width, c->height, c->poc_type, err.message);
}

static void check_parameter_sets(uint32_t codec, int count)
{
    static byte_stream s;
    counter counted;
    bzna_context *context = context_of(&counted);
    for (int i = 0; i < count && test_failures < 20; i++) {
        sps_choice c = roll_sps(codec, i % 2);
        stream_make(&s, codec, &c);
        check_described(context, codec, &s, &c);
    }
    bzna_context_close(context);
    CHECK_ALL_FREED(counted);
}

TEST(h264_parameter_sets_with_scaling_lists_and_every_order_count_type_are_read_to_their_end)
{
    check_parameter_sets(BZNA_CODEC_H264, 600);
}

TEST(h265_parameter_sets_with_sets_of_reference_pictures_are_read_to_their_end)
{
    check_parameter_sets(BZNA_CODEC_H265, 600);
}

/* By hand, so that the writer above is not the only witness. */
TEST(parameter_sets_written_by_hand_are_read_to_their_end)
{
    /* 67, profile 100, no constraints, level 10 | ue 0: 1 | 4:2:0: 010 | 8 and 8 bits: 1 1 | 0 | lists: 1, five not
     * said: 00000, the default one: 1 and se -8: 000010001, two not said: 00 | frame_num: 1 | order count type 1: 010,
     * 1, se 0: 1, se -1: 011, two in a cycle: 011, se 1: 010, se -2: 00101 | one reference: 010, 0 | 2x1 macroblocks:
     * 010 1 | frames: 1 | 1 | no window: 0 | VUI: 1, no aspect, no overscan: 0 0, 1, format 5: 101, full: 1,
     * 1, BT.2020: 00001001, PQ: 00010000, BT.2020: 00001001, no location: 0 | 00000 | 1 */
    static const char h264[] = "\0\0\0\1\x67\x64\0\x0a\xad\x04\x22\x56\xda\x2a\x2e\x9b\x84\x88\x04\x81"
                               "\0\0\0\1\x68\xce\x38\x80" "\0\0\0\1\x65\x88\x80";
    static byte_stream s;
    const sps_choice c = { .profile = 100, .chroma = C420, .depth = 8, .width = 32, .height = 16, .full = 1,
                           .primaries = 9, .transfer = 16, .matrix = 9, .poc_type = 1, .frames_only = 1 };
    counter counted;
    bzna_context *context = context_of(&counted);
    memcpy(s.bytes, h264, sizeof h264 - 1);
    s.size = sizeof h264 - 1;
    check_described(context, BZNA_CODEC_H264, &s, &c);
    bzna_context_close(context);
}

/* 16 pictures before and 16 behind are the most that a set can have. What claims more must cost no time. */
TEST(sets_of_more_reference_pictures_than_there_can_be_are_refused_at_once)
{
    static const struct { uint32_t negative, positive; int right; } cases[] = {
        { 16, 0, 1 }, { 0, 16, 1 }, { 17, 0, 0 }, { 0, 17, 0 }, { 0x80000000u, 0, 0 }, { 0, 0x80000000u, 0 },
        { 0x80000000u, 0x80000000u, 0 }, { 0xfffffffeu, 2, 0 }, { 2, 0xfffffffeu, 0 },
        { 0x40000000u, 0xc0000000u, 0 } };
    static byte_stream s;
    static memory_file f;
    counter counted;
    bzna_context *context = context_of(&counted);
    clock_t start = clock();
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
        for (int behind = 0; behind < 2 && clock() - start < CLOCKS_PER_SEC; behind++) {    /* a first, a second set */
            static bit_writer w;
            sps_choice c = roll_sps(BZNA_CODEC_H265, 1);
            bzna_error err = fresh_error();
            int before = test_failures;
            memset(&s, 0, sizeof s);
            put_h265_vps(&s, &w);
            put_h265_sps_head(&w, &c);
            put_uvlc(&w, 1 + (uint32_t)behind);
            if (behind) {
                put_explicit_set(&w, 1, 1);
                put(&w, 1, 0);
            }
            put_explicit_set(&w, cases[k].negative, cases[k].positive);
            put_h265_sps_tail(&w, &c);
            stream_add(&s, &w);
            put_h265_picture(&s, &w);
            if (cases[k].right) {
                check_described(context, BZNA_CODEC_H265, &s, &c);
            } else {
                CHECK_EQ(write_picture(context, &f, BZNA_CODEC_H265, &s, &err), BZNA_E_DECODE);
                CHECK_CONTAINS(err.message, "the sequence parameter set is damaged");
            }
            if (test_failures != before)
                printf("  %u before, %u behind\n", cases[k].negative, cases[k].positive);
        }
    CHECK(clock() - start < CLOCKS_PER_SEC);
    bzna_context_close(context);
    CHECK_ALL_FREED(counted);
}

/* Ends the parameter set that was begun, and reads it. */
static int read_ended_sps(bit_writer *w, const sps_choice *c, bzi_format *sps)
{
    static byte_stream s;
    bzi_span nal;
    s.size = 0;
    put_h265_sps_tail(w, c);
    stream_add(&s, w);
    nal.data = s.bytes + 4;
    nal.size = s.size - 4;
    return bzi_sps_read(BZNA_CODEC_H265, nal, sps);
}

static int read_h265_sps(const sps_choice *c)
{
    static bit_writer w;
    bzi_format sps;
    put_h265_sps_head(&w, c);
    put_uvlc(&w, 0);                                      /* no sets of reference pictures */
    return read_ended_sps(&w, c, &sps);
}

TEST(scaling_lists_of_h265_are_read_to_their_end)
{
    const sps_choice c = { .profile = 4, .chroma = C422, .depth = 10, .width = 72, .height = 80, .frames_only = 1,
                           .full = 1, .primaries = 9, .transfer = 16, .matrix = 10 };
    for (int i = 0; i < 200; i++) {
        static bit_writer w;
        bzi_format sps;
        put_h265_sps_start(&w, &c);
        put(&w, 2, i ? 3 : 2);                            /* lists there are; the first time, the standard's own */
        if (i)
            put_h265_scaling_lists(&w);
        put(&w, 3, 0);                                    /* AMP, SAO; no PCM */
        put_uvlc(&w, 0);                                  /* no sets of reference pictures */
        CHECK(read_ended_sps(&w, &c, &sps));
        CHECK(sps.color.present && sps.color.full_range && sps.color.primaries == 9 && sps.color.matrix == 10);
    }
}

TEST(windows_that_leave_nothing_and_pictures_beyond_the_limit_are_refused)
{
    const sps_choice good = { .profile = 4, .chroma = C444, .depth = 8, .width = 72, .height = 80, .frames_only = 1 };
    sps_choice c = good;
    c.window[0] = 30;
    c.window[1] = 41;                                     /* a column is left */
    CHECK(read_h265_sps(&c));
    c.window[1] = 42;
    CHECK(!read_h265_sps(&c));
    c = good;
    c.window[2] = 50;
    c.window[3] = 29;                                     /* a row is left */
    CHECK(read_h265_sps(&c));
    c.window[3] = 30;
    CHECK(!read_h265_sps(&c));
    c = good;
    c.width = c.height = 65536;
    CHECK(read_h265_sps(&c));
    c.width = 65537;
    CHECK(!read_h265_sps(&c));
    c.width = 65536;
    c.height = 65537;
    CHECK(!read_h265_sps(&c));
}

/* 7.3.3: of each sub-layer but the highest, profile (88 bits) and level (8) are present or not, each by itself. */
TEST(sub_layers_of_h265_may_have_a_level_without_a_profile)
{
    static const struct { uint32_t count, present[3]; } cases[] = {
        { 1, { 0 } }, { 1, { 1 } }, { 1, { 2 } }, { 1, { 3 } }, { 3, { 1, 0, 1 } }, { 3, { 1, 2, 0 } },
        { 3, { 2, 1, 3 } } };
    const sps_choice c = { .profile = 4, .chroma = C422, .depth = 10, .width = 72, .height = 80, .frames_only = 1,
                           .full = 1, .primaries = 9, .transfer = 16, .matrix = 10 };
    for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
        static bit_writer w;
        bzi_format sps;
        int before = test_failures;
        put(&w, 16, 0x4201);
        put(&w, 4, 0);
        put(&w, 3, cases[k].count);
        put(&w, 1, 1);
        put_profile(&w);
        for (uint32_t i = 0; i < 8; i++)                  /* as flags, then zeros up to eight pairs */
            put(&w, 2, i < cases[k].count ? cases[k].present[i] : 0);
        for (uint32_t i = 0; i < cases[k].count; i++) {
            for (int byte = 0; cases[k].present[i] & 2 && byte < 11; byte++)
                put(&w, 8, 0xb5);
            if (cases[k].present[i] & 1)
                put(&w, 8, 0x5d);
        }
        put_uvlc(&w, 0);
        put_uvlc(&w, c.chroma);
        put_uvlc(&w, c.width);
        put_uvlc(&w, c.height);
        put(&w, 1, 0);                                    /* no window */
        put_uvlc(&w, c.depth - 8);
        put_uvlc(&w, c.depth - 8);
        put_uvlc(&w, 4);
        put(&w, 1, 0);                                    /* of the highest sub-layer alone: */
        for (int i = 0; i < 3 + 6; i++)
            put_uvlc(&w, 0);                              /* its pictures; block sizes */
        put(&w, 4, 0);
        put_uvlc(&w, 0);                                  /* no sets of reference pictures */
        CHECK(read_ended_sps(&w, &c, &sps));
        CHECK_EQ(sps.sub_layers, cases[k].count + 1);
        CHECK_EQ(sps.profile[11], 120);
        CHECK(sps.chroma_format == C422 && sps.depth_luma == 10 && sps.width == 72 && sps.height == 80);
        CHECK(sps.color.present && sps.color.full_range && sps.color.primaries == 9 && sps.color.transfer == 16);
        CHECK_EQ(sps.color.matrix, 10);
        if (test_failures != before)
            printf("  in case %zu\n", k);
    }
}

#ifdef BENZINA_NO_AVCODEC
TEST(libavcodec_reads_the_same_from_av1_sequence_headers) { SKIP("built without libavcodec [libavcodec-dev]"); }
TEST(headers_of_av1_encoders_say_what_their_decoders_see) { SKIP("built without libavcodec [libavcodec-dev]"); }
TEST(damaged_av1_pictures_give_a_status) { SKIP("built without libavcodec [libavcodec-dev]"); }
TEST(an_av1_image_becomes_the_stream_that_its_decoder_takes) { SKIP("built without libavcodec [libavcodec-dev]"); }
TEST(libavcodec_reads_the_same_from_parameter_sets_written_bit_by_bit)
{
    SKIP("built without libavcodec [libavcodec-dev]");
}
#else
#include <libavcodec/bsf.h>
#include <libavutil/dict.h>
#include <libavutil/pixdesc.h>

static uint32_t chroma_of(const AVPixFmtDescriptor *d)
{
    return d->nb_components == 1 ? GRAY : !d->log2_chroma_w ? C444 : !d->log2_chroma_h ? C422 : C420;
}

/* What libavcodec says of an image: of a sequence header its AV1 parser and hardware decoder read as much as they need,
 * without a picture. */
TEST(libavcodec_reads_the_same_from_av1_sequence_headers)
{
    const AVCodec *codec = avcodec_find_decoder_by_name("av1");
    AVCodecParserContext *probe = av_parser_init(AV_CODEC_ID_AV1);
    int formats = 0, wholes = 0;
    if (!codec || !probe)
        SKIP("libavcodec has no AV1 parser or no av1 decoder here");
    av_parser_close(probe);
    for (int i = 0; i < 600 && test_failures < 20; i++) {
        av1_header h = roll_header(1);
        bit_writer w;
        uint8_t obu[300 + AV_INPUT_BUFFER_PADDING_SIZE] = { 0x0a }, *out = NULL;
        AVCodecContext *c = avcodec_alloc_context3(codec), *c2 = avcodec_alloc_context3(codec);
        AVCodecParserContext *parser = av_parser_init(AV_CODEC_ID_AV1);
        bzi_format sps;
        uint32_t reduced;
        int size, out_size = 0, before = test_failures;
        put_header(&w, &h);
        CHECK(read_exact(w.bytes, w.bits / 8, &sps, &reduced));
        size = (int)(w.bits / 8) + 2;
        REQUIRE(size < 130 && c && c2 && parser);
        obu[1] = (uint8_t)(size - 2);
        memcpy(obu + 2, w.bytes, w.bits / 8);
        parser->flags |= PARSER_FLAG_COMPLETE_FRAMES;
        c2->log_level_offset = c->log_level_offset = 64;
        av_parser_parse2(parser, c2, &out, &out_size, obu, size, AV_NOPTS_VALUE, AV_NOPTS_VALUE, 0);
        if (parser->format >= 0) {
            const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(parser->format);
            CHECK_EQ(sps.depth_luma, d->comp[0].depth);
            CHECK_EQ(sps.chroma_format, chroma_of(d));
            formats++;
        }
        c->extradata = av_mallocz((size_t)size + AV_INPUT_BUFFER_PADDING_SIZE);
        memcpy(c->extradata, obu, (size_t)size);
        c->extradata_size = size;
        if (avcodec_open2(c, codec, NULL) >= 0 && c->width > 0) {
            int place = (int)c->chroma_sample_location;
            CHECK_EQ(sps.width, c->width);
            CHECK_EQ(sps.height, c->height);
            if (c->color_range != AVCOL_RANGE_UNSPECIFIED)  /* 62 asks for it only where colors are described */
                CHECK_EQ(sps.color.full_range, c->color_range == AVCOL_RANGE_JPEG);
            CHECK_EQ(sps.color.primaries, c->color_primaries);
            CHECK_EQ(sps.color.transfer, c->color_trc);
            CHECK_EQ(sps.color.matrix, c->colorspace);
            CHECK_EQ(h.profile, c->profile);
            CHECK_EQ(sps.chroma_location > 0, place == AVCHROMA_LOC_LEFT || place == AVCHROMA_LOC_TOPLEFT);
            if (sps.chroma_location)
                CHECK_EQ(sps.chroma_location, place);
            wholes++;
        }
        if (test_failures != before)
            printf("  in header %d: profile %u, %u bits, chroma %u, %ux%u, reduced %u, place %u\n", i, h.profile,
                   h.depth, h.chroma, h.width, h.height, h.reduced, h.place);
        av_parser_close(parser);
        avcodec_free_context(&c);
        avcodec_free_context(&c2);
    }
    printf("AV1: libavcodec's parser read %d of 600 headers, its decoder %d\n", formats, wholes);
    if (!formats && !wholes)
        SKIP("this libavcodec tells nothing of a sequence header alone");
}

/* One key frame by an encoder of others; NULL, with *why: not here. filter: a bitstream filter of libavcodec, or
 * NULL. */
static AVPacket *av1_encode(const char *encoder, enum AVPixelFormat format, int width, int height, const char *options,
                            int range, const char *filter, const char **why)
{
    const AVCodec *codec = avcodec_find_encoder_by_name(encoder);
    AVCodecContext *c = codec ? avcodec_alloc_context3(codec) : NULL;
    AVPacket *packet = av_packet_alloc();
    AVFrame *f = av_frame_alloc();
    AVDictionary *dict = NULL;
    AVBSFContext *bsf = NULL;
    const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(format);
    int got = -1;
    *why = "libavcodec has no AV1 encoder here";
    f->format = format;
    f->width = width;
    f->height = height;
    f->pts = 0;
    if (av_frame_get_buffer(f, 0) < 0)
        abort();
    for (int p = 0; p < d->nb_components; p++) {
        int h = p ? AV_CEIL_RSHIFT(height, d->log2_chroma_h) : height, n = f->linesize[p];
        for (int y = 0; y < h; y++)
            for (int x = 0; x < n; x++)
                f->data[p][y * n + x] = (uint8_t)(d->comp[0].depth > 8 && x % 2 ? x / 70 & 1 :
                                                                                  (x * 3 + y * 5 + p * 40) & 255);
    }
    if (c) {
        c->width = width;
        c->height = height;
        c->pix_fmt = format;
        c->time_base = (AVRational){ 1, 25 };
        c->gop_size = 1;
        c->color_range = (enum AVColorRange)range;
        c->log_level_offset = 64;
        av_dict_parse_string(&dict, options, "=", ",", 0);
        *why = "the encoder does not take this";
        if (avcodec_open2(c, codec, &dict) >= 0 && avcodec_send_frame(c, f) >= 0 && avcodec_send_frame(c, NULL) >= 0)
            got = avcodec_receive_packet(c, packet);
        if (got >= 0 && filter) {
            if ((got = av_bsf_list_parse_str(filter, &bsf)) >= 0 &&
                (got = avcodec_parameters_from_context(bsf->par_in, c)) >= 0 && (got = av_bsf_init(bsf)) >= 0 &&
                (got = av_bsf_send_packet(bsf, packet)) >= 0)
                got = av_bsf_receive_packet(bsf, packet);
            av_bsf_free(&bsf);
        }
    }
    av_dict_free(&dict);
    avcodec_free_context(&c);
    av_frame_free(&f);
    if (got < 0)
        av_packet_free(&packet);
    return packet;
}

static AVFrame *av1_decode(const uint8_t *data, int size)
{
    AVFrame *f = decode_by("libdav1d", data, size);
    return f ? f : decode_by("libaom-av1", data, size);
}

/* The sequence header's unit, found by the size bytes alone. */
static bzi_span header_of(const uint8_t *data, size_t size)
{
    bzi_span none = { NULL, 0 }, s;
    for (size_t at = 0; at + 2 <= size;) {
        size_t length = 0, n = 1;
        for (int i = 0; i < 8 && at + n < size; i++) {
            length |= (size_t)(data[at + n] & 127) << 7 * i;
            if (!(data[at + n++] & 128))
                break;
        }
        s.data = data + at;
        s.size = n + length;
        if (s.size > size - at)
            return none;
        if ((data[at] >> 3 & 15) == 1)
            return s;
        at += n + length;
    }
    return none;
}

TEST(headers_of_av1_encoders_say_what_their_decoders_see)
{
    static const struct {
        const char *encoder;
        enum AVPixelFormat format;
        int width, height;
        const char *options;
        int range;
        const char *filter;
    } work[] = { { "libaom-av1", AV_PIX_FMT_YUV420P, 70, 54, "cpu-used=8", 0, NULL },
                 { "libaom-av1", AV_PIX_FMT_YUV420P, 71, 53, "cpu-used=8,still-picture=1", AVCOL_RANGE_JPEG, NULL },
                 { "libaom-av1", AV_PIX_FMT_YUV420P10, 66, 130, "cpu-used=8,aom-params=enable-order-hint=0",
                   AVCOL_RANGE_MPEG, NULL },
                 { "libaom-av1", AV_PIX_FMT_YUV420P12, 66, 130, "cpu-used=8", AVCOL_RANGE_MPEG, NULL },
                 { "libaom-av1", AV_PIX_FMT_YUV422P, 66, 50, "cpu-used=8", AVCOL_RANGE_JPEG, NULL },
                 { "libaom-av1", AV_PIX_FMT_YUV422P12, 66, 50, "cpu-used=8", AVCOL_RANGE_JPEG, NULL },
                 { "libaom-av1", AV_PIX_FMT_YUV444P, 65, 49, "cpu-used=8", AVCOL_RANGE_MPEG, NULL },
                 { "libaom-av1", AV_PIX_FMT_YUV444P12, 65, 49, "cpu-used=8", AVCOL_RANGE_MPEG, NULL },
                 { "libaom-av1", AV_PIX_FMT_GRAY8, 65, 49, "cpu-used=8", AVCOL_RANGE_JPEG, NULL },
                 { "libaom-av1", AV_PIX_FMT_GRAY10, 65, 49, "cpu-used=8", AVCOL_RANGE_MPEG, NULL },
                 { "libaom-av1", AV_PIX_FMT_GRAY12, 65, 49, "cpu-used=8", AVCOL_RANGE_MPEG, NULL },
                 { "libaom-av1", AV_PIX_FMT_GBRP, 65, 49, "cpu-used=8", 0, NULL },
                 { "libaom-av1", AV_PIX_FMT_YUV420P, 64, 64, "cpu-used=8", 0,
                   "av1_metadata=chroma_sample_position=vertical:color_range=pc" },
                 { "libaom-av1", AV_PIX_FMT_YUV420P, 64, 64, "cpu-used=8", 0,
                   "av1_metadata=chroma_sample_position=colocated:color_primaries=9:transfer_characteristics=16:matrix_"
                   "coefficients=9" },
                 { "libaom-av1", AV_PIX_FMT_YUV420P10, 64, 64, "cpu-used=8,still-picture=1", 0,
                   "av1_metadata=chroma_sample_position=colocated:color_range=tv" },
                 { "libaom-av1", AV_PIX_FMT_YUV420P, 64, 64, "cpu-used=8", 0,
                   "av1_metadata=tick_rate=30000/1001:num_ticks_per_picture=70000" },
                 { "librav1e", AV_PIX_FMT_YUV420P, 72, 56, "speed=10,qp=100", AVCOL_RANGE_MPEG, NULL },
                 { "librav1e", AV_PIX_FMT_YUV420P10, 72, 56, "speed=10,qp=100", AVCOL_RANGE_JPEG, NULL },
                 { "librav1e", AV_PIX_FMT_YUV444P, 72, 56, "speed=10,qp=100", AVCOL_RANGE_JPEG, NULL },
                 { "librav1e", AV_PIX_FMT_YUV422P10, 72, 56, "speed=10,qp=100", AVCOL_RANGE_MPEG, NULL },
                 { "libsvtav1", AV_PIX_FMT_YUV420P, 72, 64, "preset=10", AVCOL_RANGE_MPEG, NULL },
                 { "libsvtav1", AV_PIX_FMT_YUV420P10, 72, 64, "preset=10", AVCOL_RANGE_JPEG, NULL } };
    const char *why = NULL;
    int tried = 0;
    setenv("SVT_LOG", "0", 1);                            /* the encoder's own way to be quiet */
    for (size_t i = 0; i < sizeof work / sizeof *work; i++) {
        AVPacket *packet = av1_encode(work[i].encoder, work[i].format, work[i].width, work[i].height, work[i].options,
                                      work[i].range, work[i].filter, &why);
        AVFrame *f;
        const AVPixFmtDescriptor *d;
        bzi_cursor c;
        bzi_span header, payload;
        bzi_format sps;
        bzna_image image = { .struct_size = sizeof image, .codec = BZNA_CODEC_AV1 };
        bzna_error err = fresh_error();
        uint32_t type, reduced;
        int before = test_failures;
        if (!packet) {
            printf("%s %s: %s\n", work[i].encoder, av_get_pix_fmt_name(work[i].format), why);
            continue;
        }
        if (!(f = av1_decode(packet->data, packet->size))) {
            av_packet_free(&packet);
            SKIP("libavcodec has no AV1 decoder here");
        }
        d = av_pix_fmt_desc_get(f->format);
        header = header_of(packet->data, (size_t)packet->size);
        REQUIRE(header.data != NULL);
        c = bzi_cursor_make(header.data, header.size, 0);
        CHECK(bzi_obu_next(&c, &type, &payload) == 1 && type == 1);
        CHECK(read_exact(payload.data, (size_t)payload.size, &sps, &reduced));
        CHECK_EQ(sps.width, f->width);
        CHECK_EQ(sps.height, f->height);
        CHECK_EQ(sps.depth_luma, d->comp[0].depth);
        CHECK_EQ(sps.chroma_format, chroma_of(d));
        CHECK_EQ(sps.color.full_range, f->color_range == AVCOL_RANGE_JPEG);
        CHECK_EQ(sps.color.matrix, f->colorspace);
        CHECK_EQ(sps.color.primaries, f->color_primaries);
        CHECK_EQ(sps.color.transfer, f->color_trc);
        CHECK_EQ(sps.chroma_location > 0,
                 f->chroma_location == AVCHROMA_LOC_LEFT || f->chroma_location == AVCHROMA_LOC_TOPLEFT);
        if (sps.chroma_location)
            CHECK_EQ(sps.chroma_location, f->chroma_location);
        image.data = packet->data;                        /* and the whole picture is one that can stand alone */
        image.data_size = (uint64_t)packet->size;
        CHECK_EQ(bzi_image_sps(&image, &sps, &err), BZNA_OK);
        CHECK_EQ(sps.width, f->width);
        if (test_failures != before)
            printf("  in %s %s %s\n", work[i].encoder, av_get_pix_fmt_name(work[i].format),
                   work[i].filter ? work[i].filter : "");
        tried++;
        av_frame_free(&f);
        av_packet_free(&packet);
    }
    printf("AV1: headers of %d of %d pictures agree with their decoder\n", tried, (int)(sizeof work / sizeof *work));
    if (!tried)
        SKIP(why);
}

/* A picture as a track holds it: av1C of 4 bytes and the header, the packet as the sample. In memory of exactly its
 * size. */
static int av1_image(bzna_image *image, const char **why)
{
    AVPacket *packet = av1_encode("libaom-av1", AV_PIX_FMT_YUV420P10, 70, 54, "cpu-used=8", AVCOL_RANGE_MPEG,
                                  "av1_metadata=td=remove", why);
    bzi_span header;
    uint8_t *config, *data;
    memset(image, 0, sizeof *image);
    if (!packet)
        return 0;
    header = header_of(packet->data, (size_t)packet->size);
    config = malloc((size_t)header.size + 4);
    data = malloc((size_t)packet->size);
    memcpy(config, "\x81\0\0\0", 4);
    memcpy(config + 4, header.data, (size_t)header.size);
    memcpy(data, packet->data, (size_t)packet->size);
    image->struct_size = sizeof *image;
    image->codec = BZNA_CODEC_AV1;
    image->width = image->frame_width = 70;
    image->height = image->frame_height = 54;
    image->config = config;
    image->config_size = header.size + 4;
    image->data = data;
    image->data_size = (uint64_t)packet->size;
    av_packet_free(&packet);
    return 1;
}

/* Everything that looks at a coded picture, on copies of exact size. Returns the status of its description. */
static bzna_status explore_av1(const uint8_t *config, size_t config_size, const uint8_t *data, size_t data_size,
                               uint64_t *key_size)
{
    uint8_t *c = malloc(config_size ? config_size : 1), *d = malloc(data_size ? data_size : 1), *key, *stream;
    bzna_image image = { .struct_size = sizeof image,
                         .codec = BZNA_CODEC_AV1,
                         .frame_width = 70,
                         .frame_height = 54,
                         .width = 70,
                         .height = 54 };
    bzna_error err = fresh_error();
    bzna_status status, again;
    bzi_format sps;
    size_t needed = 0;
    if (config_size)
        memcpy(c, config, config_size);
    if (data_size)
        memcpy(d, data, data_size);
    image.config = c;
    image.config_size = config_size;
    image.data = d;
    image.data_size = data_size;
    status = bzi_image_sps(&image, &sps, &err);
    CHECK(status == BZNA_OK ||
          ((status == BZNA_E_DECODE || status == BZNA_E_BOX) && err.status == status && err.message[0]));
    CHECK(status != BZNA_OK || (sps.width >= 1 && sps.height >= 1 && sps.chroma_format <= 3 &&
                                (sps.depth_luma == 8 || sps.depth_luma == 10 || sps.depth_luma == 12)));
    *key_size = bzi_image_key(&image, NULL, 0);
    key = malloc((size_t)*key_size);
    CHECK_EQ(bzi_image_key(&image, key, *key_size), *key_size);
    CHECK_EQ(bzi_image_key(&image, key, *key_size - 1), *key_size);
    again = bzna_image_annexb(&image, NULL, 0, &needed, NULL);
    CHECK_EQ(again, data_size ? BZNA_E_BUFFER : BZNA_E_ARGUMENT);
    if (data_size) {
        CHECK_EQ(needed, data_size + (config_size > 4 ? config_size - 4 : 0));
        stream = malloc(needed);
        CHECK_EQ(bzna_image_annexb(&image, stream, needed, &needed, NULL), BZNA_OK);
        free(stream);
    }
    free(key);
    free(c);
    free(d);
    return status;
}

TEST(damaged_av1_pictures_give_a_status)
{
    bzna_image image;
    const char *why;
    uint8_t *config, *data;
    uint64_t key, whole_key;
    size_t config_size, data_size;
    int fine = 0, tried = 0;
    if (!av1_image(&image, &why))
        SKIP(why);
    config = (uint8_t *)(uintptr_t)image.config;
    data = (uint8_t *)(uintptr_t)image.data;
    config_size = (size_t)image.config_size;
    data_size = (size_t)image.data_size;
    CHECK_EQ(explore_av1(config, config_size, data, data_size, &whole_key), BZNA_OK);
    for (size_t n = 0; n < data_size; n++)
        CHECK(explore_av1(config, config_size, data, n, &key) < 0);         /* no cut leaves a picture */
    for (size_t n = 0; n < config_size; n++) {
        bzna_status status = explore_av1(config, n, data, data_size, &key);
        CHECK_EQ(status, n <= 4 ? BZNA_OK : BZNA_E_BOX); /* nothing of it: the sample has the header, too */
    }
    for (int part = 0; part < 2; part++)
        for (size_t at = 0; at < (part ? data_size : config_size); at++) {
            uint8_t *byte = (part ? data : config) + at, was = *byte;
            for (int how = 0; how < 11; how++) {
                *byte = (uint8_t)(how < 8 ? was ^ 1 << how : how == 8 ? 0 : how == 9 ? 0xff : ~was);
                fine += explore_av1(config, config_size, data, data_size, &key) == BZNA_OK;
                tried++;
            }
            *byte = was;
        }
    CHECK(fine > 0 && fine < tried);
    CHECK_EQ(explore_av1(config, config_size, data, data_size, &key), BZNA_OK);
    CHECK_EQ(key, whole_key);
    printf("AV1: %d of %d damaged pictures can be described\n", fine, tried);
    free(config);
    free(data);
}

TEST(an_av1_image_becomes_the_stream_that_its_decoder_takes)
{
    bzna_image image;
    const char *why;
    bzna_error err = fresh_error();
    size_t exact = 0, needed = 0, sent;
    uint8_t *stream, one[64], key[3][256];
    AVFrame *f;
    if (!av1_image(&image, &why))
        SKIP(why);
    sent = (size_t)(image.config_size - 4 + image.data_size);
    CHECK_EQ(bzna_image_annexb(&image, NULL, 0, &exact, &err), BZNA_E_BUFFER);
    CHECK_EQ(exact, sent);
    stream = malloc(sent + 1);
    memset(stream, 0xa5, sent + 1);
    CHECK_EQ(bzna_image_annexb(&image, stream, sent - 1, &needed, &err), BZNA_E_BUFFER);
    CHECK(needed == sent && stream[sent - 1] == 0xa5);
    CHECK_EQ(bzna_image_annexb(&image, NULL, sent, &needed, &err), BZNA_E_BUFFER);
    CHECK_EQ(needed, sent);
    CHECK_EQ(bzna_image_annexb(&image, stream, sent, NULL, &err), BZNA_OK);
    CHECK(stream[sent] == 0xa5);
    CHECK(!memcmp(stream, (const uint8_t *)image.config + 4, (size_t)image.config_size - 4));
    CHECK(!memcmp(stream + image.config_size - 4, image.data, (size_t)image.data_size));
    if ((f = av1_decode(stream, (int)sent)) != NULL)
        CHECK(f->width == 70 && f->height == 54 && f->format == AV_PIX_FMT_YUV420P10);
    av_frame_free(&f);

    /* The key: what the header is, wherever it stands; nothing of the picture. */
    memset(key, 0, sizeof key);
    CHECK(bzi_image_key(&image, key[0], sizeof key[0]) <= sizeof key[0]);
    ((uint8_t *)(uintptr_t)image.data)[image.data_size - 1] ^= 0x55;
    bzi_image_key(&image, key[1], sizeof key[1]);
    CHECK(!memcmp(key[0], key[1], sizeof key[0]));
    ((uint8_t *)(uintptr_t)image.config)[9] ^= 0x01;
    bzi_image_key(&image, key[2], sizeof key[2]);
    CHECK(memcmp(key[0], key[2], sizeof key[0]));

    for (uint64_t size = 0; size < 5; size++) {           /* a configuration without units */
        bzna_image bare = image;
        bare.config_size = size;
        CHECK_EQ(bzna_image_annexb(&bare, one, sizeof one, &needed, &err),
                 bare.data_size > sizeof one ? BZNA_E_BUFFER : BZNA_OK);
        CHECK_EQ(needed, image.data_size);
    }
    image.data_size = 0;
    CHECK_EQ(bzna_image_annexb(&image, one, sizeof one, &needed, &err), BZNA_E_ARGUMENT);
    CHECK_EQ(needed, 0);
    free((void *)(uintptr_t)image.config);
    free((void *)(uintptr_t)image.data);
    free(stream);
}
/* What libavcodec's decoder says of a stream before it fails on the picture. */
static AVCodecContext *libavcodec_sees(uint32_t codec, const byte_stream *s)
{
    const AVCodec *decoder = avcodec_find_decoder(codec == BZNA_CODEC_H265 ? AV_CODEC_ID_HEVC : AV_CODEC_ID_H264);
    AVCodecContext *c = decoder ? avcodec_alloc_context3(decoder) : NULL;
    AVPacket *packet = av_packet_alloc();
    AVFrame *f = av_frame_alloc();
    if (c && av_new_packet(packet, (int)s->size) >= 0) {
        memcpy(packet->data, s->bytes, s->size);
        c->thread_count = 1;
        c->log_level_offset = 64;
        if (avcodec_open2(c, decoder, NULL) >= 0 && avcodec_send_packet(c, packet) >= 0 &&
            avcodec_send_packet(c, NULL) >= 0)
            avcodec_receive_frame(c, f);
    }
    av_frame_free(&f);
    av_packet_free(&packet);
    return c;
}

/* That what is written above is what the standards say. */
TEST(libavcodec_reads_the_same_from_parameter_sets_written_bit_by_bit)
{
    static byte_stream s;
    int seen[3] = { 0 };
    for (int i = 0; i < 400 && test_failures < 20; i++) {
        uint32_t codec = i % 2 ? BZNA_CODEC_H265 : BZNA_CODEC_H264;
        sps_choice chosen = roll_sps(codec, 1);
        AVCodecContext *c;
        int before = test_failures;
        stream_make(&s, codec, &chosen);
        if (!(c = libavcodec_sees(codec, &s)))
            SKIP("libavcodec has no decoder here");
        if (c->width) {
            const AVPixFmtDescriptor *d = av_pix_fmt_desc_get(c->pix_fmt);
            CHECK_EQ(c->width, shown_width(&chosen));
            CHECK_EQ(c->height, shown_height(&chosen));
            CHECK_EQ(c->color_range, chosen.full ? AVCOL_RANGE_JPEG : AVCOL_RANGE_MPEG);
            CHECK_EQ(c->color_primaries, chosen.primaries);
            CHECK_EQ(c->color_trc, chosen.transfer);
            CHECK_EQ(c->colorspace, chosen.matrix);
            CHECK(d && d->comp[0].depth == (int)chosen.depth);
            CHECK(d && (chroma_of(d) == chosen.chroma || chosen.chroma == GRAY)); /* it may add neutral chroma */
            seen[codec]++;
        }
        if (test_failures != before)
            printf("  in codec %u, profile %u, chroma %u, %u bits\n", codec, chosen.profile, chosen.chroma,
                   chosen.depth);
        avcodec_free_context(&c);
    }
    printf("libavcodec read %d and %d of 200 parameter sets\n", seen[BZNA_CODEC_H264], seen[BZNA_CODEC_H265]);
    CHECK(seen[BZNA_CODEC_H264] > 100);
    CHECK(seen[BZNA_CODEC_H265] > 100 || avcodec_version() >> 16 > 59);     /* 62 keeps what it read to itself */
}
#endif

TEST_MAIN(
    facts_load();
    RUN(the_tree_writes_what_it_read)
    RUN(boxes_of_the_archive_are_found_by_type)
    RUN(boxes_of_the_samples_are_found_by_type)
    RUN(sizes_may_be_packed_or_common)
    RUN(an_odd_number_of_4_bit_sizes_ends_in_half_a_byte)
    RUN(samples_may_share_chunks_in_any_way)
    RUN(samples_of_one_common_size_may_share_chunks)
    RUN(one_chunk_may_hold_everything)
    RUN(wrong_tables_are_refused_with_box_and_byte_offset)
    RUN(a_hostile_common_size_is_refused_without_allocating)
    RUN(a_second_box_where_one_is_allowed_is_refused)
    RUN(an_stz2_of_another_width_is_refused)
    RUN(box_sizes_that_cannot_be_are_refused_where_they_stand)
    RUN(sizes_of_64_bits_do_not_wrap)
    RUN(zeros_behind_the_last_box_are_padding)
    RUN(what_stands_behind_the_last_box_inside_another_is_padding_only_if_it_is_zero)
    RUN(zeros_behind_the_last_box_of_the_file_are_padding_too)
    RUN(sixty_four_tracks_are_read_and_one_more_is_refused)
    RUN(boxes_nested_deeper_than_the_limit_are_refused)
    RUN(more_boxes_than_the_limit_at_file_level_are_refused)
    RUN(a_movie_box_cut_at_any_byte_is_read_no_further)
    RUN(a_clean_aperture_is_where_the_standard_says)
    RUN(every_window_of_a_small_frame_has_its_clean_aperture)
    RUN(a_clean_aperture_off_the_corner_is_honored_and_an_illegal_one_fails_its_sample)
    RUN(without_a_clean_aperture_the_picture_is_the_frame)
    RUN(color_comes_from_nclx_and_nclc_and_not_from_icc)
    RUN(sample_entries_without_a_usable_configuration_are_refused)
    RUN(annex_b_units_are_found_behind_start_codes_of_both_lengths)
    RUN(length_prefixed_units_are_found_and_wrong_lengths_noticed)
    RUN(units_of_hvcc_and_avcc_are_found_and_wrong_counts_noticed)
    RUN(sequence_parameter_sets_of_both_codecs_are_understood)
    RUN(parameter_sets_and_configurations_of_the_archives_agree)
    RUN(an_image_becomes_annex_b_without_the_encoders_banner)
    RUN(annex_b_of_damaged_images_is_refused)
    RUN(av1_units_are_found_and_wrong_sizes_noticed)
    RUN(av1_sequence_headers_are_understood_with_every_option)
    RUN(av1_sequence_headers_written_by_hand_are_understood)
    RUN(h264_parameter_sets_with_scaling_lists_and_every_order_count_type_are_read_to_their_end)
    RUN(h265_parameter_sets_with_sets_of_reference_pictures_are_read_to_their_end)
    RUN(parameter_sets_written_by_hand_are_read_to_their_end)
    RUN(sets_of_more_reference_pictures_than_there_can_be_are_refused_at_once)
    RUN(windows_that_leave_nothing_and_pictures_beyond_the_limit_are_refused)
    RUN(scaling_lists_of_h265_are_read_to_their_end)
    RUN(sub_layers_of_h265_may_have_a_level_without_a_profile)
    RUN(libavcodec_reads_the_same_from_parameter_sets_written_bit_by_bit)
    RUN(libavcodec_reads_the_same_from_av1_sequence_headers)
    RUN(headers_of_av1_encoders_say_what_their_decoders_see)
    RUN(damaged_av1_pictures_give_a_status)
    RUN(an_av1_image_becomes_the_stream_that_its_decoder_takes)
)

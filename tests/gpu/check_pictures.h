/* check_pictures.h - two coded pictures of each kind that NVDEC decodes, 160x160, 4:2:0, with the sums of their values,
 * for suites that decode on a GPU or on the fake driver, without files. tests/make/check_pictures.py makes them.
 * Include after benzina.c. */
#ifndef BENZINA_TEST_CHECK_PICTURES_H
#define BENZINA_TEST_CHECK_PICTURES_H

enum { CHECK_SIZE = 160 };

static const struct { uint32_t codec, depth; uint64_t sums[2]; const char *base64[2]; } check_pictures[] = {
    { BZNA_CODEC_H264, 8, { 0xd8e379382fd46ec2ull, 0x9ba275147f7d08fcull }, {
        "AAAAAWdkAAysTCIUK0IAAAMAAgAAAwBkHihUIwAAAAFo6EMBRLIsAAABZYiCH//0ZZwIYD/g+p4ztwLZkNana2rkrAhQkDoVvHcmx6RT"
        "r1Rb5shBuOLZCUE9QAAAvxPuCAnWL5/h0g/c4T9hOa9EZmYrsof4t9ytzpLdHfawYBmMLJVjd73vgiXre7VdJM+9AE8yPXc+t+0DXapy"
        "DvNCRnY5VGmQAW3Z6uVHAWjORzWoGiAw7ME",
        "AAAAAWdkAAysTCIUK0IAAAMAAgAAAwBkHihUIwAAAAFo6EMBRLIsAAABZYiCH//0YYfVF+hui24GtCMHyBYFVhZwCUfmOy0Mjj00wehD"
        "mgU1DUuyEp8x1+jdCwfJH7nC6T6J/VFLo4J8knmPyFLEpJwHSF1zRkqsyCUHskwYOyplzJoM/xOrris0tf5xyVuY5TwK7V9r8crnWdIf"
        "VGtYO9uB" } },
    { BZNA_CODEC_H265, 8, { 0x4679a04e54fb6091ull, 0x19d36216c96ce776ull }, {
        "AAAAAUABDAH//wFgAAADAJAAAAMAAAMAPJqAkAAAAAFCAQEBYAAAAwCQAAADAAADADygFCAoWWapJG2uaAgAAAMACAAAAwDIQAAAAAFE"
        "AcFxsRIAAAEoAa8EWPzL7C/kACfoI2kiX9HjUK5d2BbvuXSLwFfkAa+kXIPr6bkns4W1QNAAc+EgJFIz1vO0Eyox6psk/weVn4JbHC3B"
        "sE0WuHE3UPQhUfIbBKSH1Exv4e20zcg2MWhB2y0d2HqimdBjhBY6OsOU6N42weDbzwMi65w1De8o/vHVwibwfwcKPpjarUMf",
        "AAAAAUABDAH//wFgAAADAJAAAAMAAAMAPJqAkAAAAAFCAQEBYAAAAwCQAAADAAADADygFCAoWWapJG2uaAgAAAMACAAAAwDIQAAAAAFE"
        "AcFxsRIAAAEoAa8EWPzL6ruP9pGr4B2UlYKv88b/sDyQlHhtBeHrSb/WVEcVK/K5pwdO0byt3k3/wnB2T1GtfCY969oquAI1FdSqhm6i"
        "85paAupZUOnxdPp/UgMUVgszPPIbscONnwpNI0oBzg2DELhjg5LEY6MCPX0RQZrrgA" } },
    { BZNA_CODEC_H265, 10, { 0x1d94d9e7b4794d6dull, 0x6b6a57420674445aull }, {
        "AAAAAUABDAH//wIgAAADAJAAAAMAAAMAPJqAkAAAAAFCAQECIAAAAwCQAAADAAADADygFCAoTZZqkkba5oCAAAADAIAAAAyEAAAAAUQB"
        "wXGxEgAAASgBrwRY/MvsL+QAJ+gjaSJa4xNS4olhOk7Kl/cNFsx52Irb7QsiQboj+oQbK9x0vu5JYUMkpGmCCnqyedz2qX+z0p8T1llY"
        "Qx3tFD9i5a3LK3KI/TCAdF2/D3BOMIHCcuA9/IJWRLxNE9pRHLOPSbFysF5LwLlZjXxxX1cXHOJDwVNqHJpm5ws4bDWpgA",
        "AAAAAUABDAH//wIgAAADAJAAAAMAAAMAPJqAkAAAAAFCAQECIAAAAwCQAAADAAADADygFCAoTZZqkkba5oCAAAADAIAAAAyEAAAAAUQB"
        "wXGxEgAAASgBrwRY/Mvqu6WOQ69Pj/u1RKuPBkWegUKCC67TLAmTUHcEnk9PyKqnthR6tp5Yq6OYE2oyTAoxs2AsQyA7spcz4m2PK9vg"
        "6t/WZnM1+iaCjeImMKrjhDsVzDaloRjjRIlhTYcgcadRADwuNTgkNXdUCqvP3PbfwA" } },
    { BZNA_CODEC_AV1, 8, { 0x69340b26bee8f1c6ull, 0x199117d852cd5424ull }, {
        "EgAKCwAAAAO8/Pn/8wCAMkgQAJ/gIEHniyvcCALf1ZFzDV5MqAHTh8PdnRGLChQt1UYWj+VjwGxlggpA4g4wBsGRJmGR5IQf79HQ8ani"
        "rfhKxJFQbB8tTJA",
        "EgAKCwAAAAO8/Pn/8wCAMkgQAJ/gGovriyvcCALWXzh6xBymPuFwlt4ZhZppo4cRLMmEpFj7uCy2lZPf1DdhIgBaWM0pNlIoDvUUe+mG"
        "KaWf2PihDd4ZO8A" } },
    { BZNA_CODEC_JPEG, 8, { 0, 0 }, {
        "/9j/2wBDAAg+Pkk+SVVVVVVVVWRdZGhoaGRkZGRoaGhwcHCDg4NwcHBoaHBwfHyDg4+Tj4eHg4eTk5ubm7q6srLZ2eD/////xABVAAEB"
        "AQEBAAAAAAAAAAAAAAACAQUHBgEBAAMBAQEBAAAAAAAAAAAABAcACAUGAgMQAQAAAAAAAAAAAAAAAAAAAAARAQAAAAAAAAAAAAAAAAAA"
        "AAD/wAARCACgAKADASIAAhEAAxEA/9oADAMBAAIRAxEAPwDipoaGkOKaGQUpoZBSmhkFKaGQU9yaGkhKSmhkFKaGQUpoZBSmhkFOIGhs"
        "/s0qaGQUpoZBSmhkFKaGQU9yaGkhKSmhkFKaGQUpoZBSmhkFOIGhs/s0qaGQUpoZBSmhkFKaGQU9yaGkhKSmhkFKaGQUpoZBSmhkFOIG"
        "hs/s0qaGQUpoZBSmhkFKaGQU9yaGkhKSmhkFKaGQUpoZBSmhkFOIGhs/s0qaGQUpoZBSmhkFKaGQU9yaGkhKSmhkFKaGQUpoZBSmhkP2"
        "c4NDR+zapoZBSmhkFKaGQUpoZBTANDc9KSmhkFKaGQUpoZD9FNDIVkGhvLs8qaGQUpoZBSmhkFKaGQUwDQ3PSkpoZBKmhkPtTQyFU0Mh"
        "WQaG8ugVTQyClNDIKU0MgpTQyCmAaG56UFNDIfSmhkKpoZCqaGQrINDeXQipoZBSmhkFKaGQUpoZBTANDc9IymhkKpoZCqaGQqmhkKyD"
        "Q3l0OqaGQUpoZBSmhkFKaGQUwDQ3Pe6U0MhVNDIVTQyFU0MhX//Z",
        "/9j/2wBDAAg+Pkk+SVVVVVVVVWRdZGhoaGRkZGRoaGhwcHCDg4NwcHBoaHBwfHyDg4+Tj4eHg4eTk5ubm7q6srLZ2eD/////xABWAAEB"
        "AQEBAQAAAAAAAAAAAAACAwUHBgQBAQADAQEBAQAAAAAAAAAAAAQHAAgGBQMCEAEAAAAAAAAAAAAAAAAAAAAAEQEAAAAAAAAAAAAAAAAA"
        "AAAA/8AAEQgAoACgAwEiAAIRAAMRAP/aAAwDAQACEQMRAD8A+c0jc2j9U0jIKVNIyClTSMgpU0jIKe9NI0kJSVNIyClTSMgpU0jIKVNI"
        "yCnDDSNm9lFU0jIKVNIyClTSMgpU0jIKe9NI0kJSVNIyClTSMgpU0jIKVNIyCnDDSNm9lFU0jIKVNIyClTSMgpU0jIKe9NI0kJSVNIyC"
        "lTSMgpU0jIKVNIyCnDDSNm9lFU0jIKVNIyClTSMgpU0jIKe9NI0kJSVNIyClTSMgpU0jIKVNIyCnDDSNm9lVU0jIfZU0jIKVNIyClTSM"
        "gp700jSQlJU0jIKVNIyClTSMgpU0jIKc8NI0DswqmkZCqmkZD6KmkZBSppGQUxDSN56UlTSMgpU0jIKVNIyClTSMgpiGkbh2bVTSMhVT"
        "SMhVTSMh+1TSMgliGkbz0pKmkZBSppGQUqaRkFKmkZBTENI3Ds8qmkZCqmkZCqmkZCqmkZD9MQ0jeelBU0jIKVNIyClTSMgpU0jIKYhp"
        "G4dAqppGQqppGQqppGQqppGQrENI3npGVNIyClTSMgpU0jIKVNIyCmIaRuHQiqaRkKqaRkKqaRkKqaRkKxDSN57ulTSMgpU0jIKVNIyC"
        "lTSMgp//2Q" } },
};

/* The two pictures of a kind, and a session's flights of them. */
typedef struct check_pair {
    bzi_nvdec_format  want;           /* set codec, chroma and depth, then call check_pair_use */
    bzi_nvdec_picture coded[2];
    bzna_image        images[2];
    uint64_t          sums[2];        /* of their values, as check_sum makes them */
    uint8_t           bytes[2][768];
    bzi_flight        flights[2];
} check_pair;

/* Returns FNV-1a over the values of a frame, wherever they lie. low_zeros: bits below the value, which are skipped. */
BZI_MAYBE_UNUSED static uint64_t check_sum(const bzna_picture *p, uint32_t low_zeros)
{
    uint64_t sum = BZI_HASH_START;

    for (int i = 0; i < 3 && p->plane[i]; i++) {
        const uint32_t shift_x = i ? p->chroma_shift_x : 0, shift_y = i ? p->chroma_shift_y : 0;
        const uint32_t width = (p->frame_width + shift_x) >> shift_x, height = (p->frame_height + shift_y) >> shift_y;
        const uint32_t bytes = p->depth > 8 ? 2 : 1, step = p->step[i] ? p->step[i] : bytes;

        for (uint32_t y = 0; y < height; y++) {
            const uint8_t *row = (const uint8_t *)p->plane[i] + (int64_t)y * p->pitch[i];
            for (uint32_t x = 0; x < width; x++) {
                uint16_t value = row[x * step];
                if (bytes == 2)
                    memcpy(&value, row + x * step, 2);
                sum = (sum ^ (uint32_t)value >> low_zeros) * 0x100000001b3ull;
            }
        }
    }
    return sum;
}

/* The same of a mapped picture in a copy of its surface. */
BZI_MAYBE_UNUSED static uint64_t check_sum_copy(const bzi_flight *flight, const uint8_t *copy)
{
    const bzna_picture picture = bzi_check_in_copy(flight, copy);
    return check_sum(&picture, bzi_surface_low_zeros(picture.depth));
}

/* Takes the pictures of the kind. Returns 0 if there are none, else 1. */
static int check_pair_use(check_pair *pair)
{
    const size_t count = sizeof check_pictures / sizeof check_pictures[0];
    size_t k = 0;
    bzna_error ignored;

    while (k < count && (check_pictures[k].codec != pair->want.codec || check_pictures[k].depth != pair->want.depth ||
                         pair->want.chroma != 1))
        k++;
    for (int i = 0; i < 2 && k < count; i++) {
        static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
        bzna_image *image = &pair->images[i];
        bzi_image alone;
        uint32_t bits = 0, left = 0;

        memset(image, 0, sizeof *image);
        for (const char *digit = check_pictures[k].base64[i]; *digit; digit++) {
            bits = bits << 6 | (uint32_t)(strchr(digits, *digit) - digits);
            if ((left += 6) >= 8)
                pair->bytes[i][image->data_size++] = (uint8_t)(bits >> (left -= 8));
        }
        image->codec = pair->want.codec;
        image->width = image->height = image->frame_width = image->frame_height = CHECK_SIZE;
        image->data = pair->bytes[i];
        pair->sums[i] = check_pictures[k].sums[i];
        alone = bzi_image_alone(image);
        pair->coded[i].image = image;
        bzi_picture_describe(&alone, CHECK_SIZE, &pair->coded[i].sps, &pair->coded[i].picture, &ignored);
        pair->want.width = pair->want.height = CHECK_SIZE;
    }
    return k < count;
}

/* Decodes a picture as the library's self-check does, which compares it with what libavcodec makes of it; here, its
 * values must have their sum. Then the kernel's trial. */
BZI_MAYBE_UNUSED static bzna_status check_pair_decode(bzi_session *session, check_pair *pair, int which,
                                                      bzna_error *err)
{
    bzi_device *device = session->device;
    bzi_flight *flight = &pair->flights[which];
    void *pinned = NULL;
    uint64_t bytes = 0;
    bzna_status status;

    session->waits = 1;
    if ((status = bzi_session_submit(session, &pair->coded[which], NULL, err)) == BZNA_OK)
        status = bzi_session_map(session, flight, err);
    session->waits = 0;
    if (status == BZNA_OK) {
        bytes = bzi_check_surface_bytes(flight);
        status = bzi_device_pin(device, BZI_TRIAL_BYTES + bytes, &pinned, err);
    }
    if (status == BZNA_OK) {
        status = bzi_trial_picture(device, session->stream, &flight->picture, flight->address, bytes, pinned, err);
        if ((status == BZNA_OK || status == BZNA_E_DEVICE_LOST) &&
            check_sum_copy(flight, (uint8_t *)pinned + BZI_TRIAL_BYTES) != pair->sums[which])
            status = BZI_FAIL(err, BZNA_E_DEVICE, "wrong pixels");
    }
    bzi_session_unmap_all(session);
    bzi_device_unpin(device, pinned);
    if (status == BZNA_OK)
        return status;
    session->pending_count = 0;
    bzi_session_drop_all(session);
    bzi_nvdec_cache_open(&session->decoders, device);
    return status;
}
#endif

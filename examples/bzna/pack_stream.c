/* pack_stream.c - bzna pack - -o -: encodes pictures for another program, which writes the archive
 *
 * That program (the Python binding's Writer, for instance) writes names of picture files to standard input, each with a
 * NUL behind it, and reads from standard output: first {"codec":"h265"} on a line, with what the pictures are encoded
 * to, then for each name, in order, one line of JSON: {"reason":"..."}, or
 *
 *     {"codec":"h265","width":500,"height":375,"frame_width":512,"frame_height":512,"size":41675,"thumb":null}
 *
 * and behind it `size` bytes, the coded picture, as bzna_image's data. thumb is null, or has the same members; its
 * bytes follow those of the picture. Sizes in pixels are 0 where a JPEG file says them itself. The program ends with
 * its input. It encodes one picture at a time: start as many as there are processors. */
#include "tool.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libavcodec/avcodec.h>

static const char *codec_name(uint32_t codec)
{
    static const char *const names[] = { "unknown", "h264", "h265", "av1", "jpeg" };
    return names[codec < LENGTH(names) ? codec : 0];
}

/* Without its closing brace. */
static void print_picture(const pack_encoded *e)
{
    printf("{\"codec\":\"%s\",\"width\":%d,\"height\":%d,\"frame_width\":%d,\"frame_height\":%d,\"size\":%d",
           codec_name(e->codec), e->width, e->height, e->frame_width, e->frame_height, e->packet->size);
}

static void print_result(const pack_result *r)
{
    if (r->reason) {
        printf("{\"reason\":");
        tool_json_string(r->reason);
        puts("}");
        return;
    }
    print_picture(&r->input);
    printf(",\"thumb\":");
    if (r->thumb.packet) print_picture(&r->thumb);
    puts(r->thumb.packet ? "}}" : "null}");
    fwrite(r->input.packet->data, 1, (size_t)r->input.packet->size, stdout);
    if (r->thumb.packet) fwrite(r->thumb.packet->data, 1, (size_t)r->thumb.packet->size, stdout);
}

static void encode_named(const pack_settings *s, char *path)
{
    pack_file file = { .path = path, .relative = path, .target = BZNA_TARGET_NONE };
    pack_result result = { .reason = NULL };
    result.reason = pack_encode_file(s, &file, &result.input, &result.thumb);
    print_result(&result);
    pack_result_free(&result);
}

int pack_stream_check(const tool_options *o)
{
    int is_stream = !strcmp(o->out, "-"), has_input = o->operand_count == 1 && !strcmp(o->operand[0], "-");
    if (is_stream == has_input &&
        !(is_stream && (o->list || o->targets || o->shard || o->classes || o->report || o->resume)))
        return EXIT_OK;
    tool_error("- and -o - go together, with options that say how pictures are encoded, and no others");
    return EXIT_USAGE;
}

int pack_stream(const pack_settings *s)
{
    char *path = NULL;
    size_t capacity = 0;
    printf("{\"codec\":\"%s\"}\n", codec_name(s->codec));
    while (!fflush(stdout) && getdelim(&path, &capacity, '\0', stdin) > 0) encode_named(s, path);
    free(path);
    return EXIT_OK;
}

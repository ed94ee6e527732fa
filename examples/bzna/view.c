/* view.c - bzna view: samples of a data set as one HTML page, pictures inside */
#include "tool.h"

#include <stdlib.h>
#include <string.h>

/* ---- the page: all of it in one file, without a script of others ---- */

static const char page_begin[] =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
    "<style>\n"
    ":root { color-scheme: light dark; --line: #8885; --bad: #c00 }\n"
    "@media (prefers-color-scheme: dark) { :root { --bad: #f66 } }\n"
    "* { box-sizing: border-box }\n"
    "body { margin: 0; font: 15px/1.35 system-ui, sans-serif }\n"
    "header { position: sticky; top: 0; padding: 8px 12px; background: Canvas; border-bottom: 1px solid var(--line) }\n"
    "h1 { font-size: 17px; margin: 0 0 6px; overflow-wrap: anywhere }\n"
    "form { display: flex; flex-wrap: wrap; gap: 8px; align-items: center }\n"
    "select, input { font: inherit; padding: 6px; max-width: 100%; flex: 1 1 8em; min-width: 0 }\n"
    "#shown { flex: 1 0 8em }\n"
    "main { display: grid; gap: 10px; padding: 10px 12px }\n"
    "main { grid-template-columns: repeat(auto-fill, minmax(min(160px, 44vw), 1fr)) }\n"
    "figure { margin: 0; border: 1px solid var(--line); border-radius: 6px; overflow: hidden }\n"
    "figure[hidden] { display: none }\n"
    "figure.bad, figure.unsupported { border: 2px solid var(--bad) }\n"
    "img, .none { display: grid; width: 100%; height: auto; aspect-ratio: 4 / 3; background: #8881 }\n"
    "img { object-fit: scale-down }\n"
    ".none { place-items: center; color: var(--bad); font-weight: 600 }\n"
    "figcaption { padding: 6px 8px; font-size: 13px; overflow-wrap: anywhere }\n"
    ".error { color: var(--bad) }\n"
    "</style>\n";

static const char page_filters[] =
    "<form onsubmit=\"return false\"><select id=\"class\" aria-label=\"class\"><option value=\"\">all classes</option>"
    "</select><select id=\"status\" aria-label=\"status\"><option value=\"\">any status</option>"
    "<option value=\"ok\">sound</option><option value=\"bad\">damaged</option>"
    "<option value=\"unsupported\">not supported here</option></select>"
    "<input id=\"text\" type=\"search\" placeholder=\"index or name\" aria-label=\"index or name\">"
    "<output id=\"shown\"></output></form></header>\n<main>\n";

/* Reads the classes from the figures, and hides those that a filter leaves out. */
static const char page_end[] =
    "</main>\n<script>\n"
    "const figures = [...document.querySelectorAll('figure')], at = id => document.getElementById(id);\n"
    "const classes = new Map(figures.map(f => [f.dataset.target, f.dataset.class || f.dataset.target]));\n"
    "for (const [value, name] of [...classes].sort((a, b) => a[0] - b[0])) {\n"
    "  if (value !== '') at('class').add(new Option(name === value ? 'class ' + value : value + ' ' + name, value));\n"
    "}\n"
    "function filter() {\n"
    "  const wanted = at('class').value, status = at('status').value, text = at('text').value.toLowerCase();\n"
    "  let shown = 0;\n"
    "  for (const f of figures) {\n"
    "    f.hidden = (wanted !== '' && f.dataset.target !== wanted) ||\n"
    "      (status !== '' && f.dataset.status !== status) ||\n"
    "      !f.querySelector('figcaption').textContent.toLowerCase().includes(text);\n"
    "    shown += !f.hidden;\n"
    "  }\n"
    "  at('shown').value = shown + ' of ' + figures.length + ' samples';\n"
    "}\n"
    "for (const id of ['class', 'status', 'text']) at(id).addEventListener('input', filter);\n"
    "filter();\n"
    "</script></body></html>\n";


/* ---- text ---- */

/* Text from files: what HTML reads otherwise, and what could end the document, is escaped. */
static void html_text(FILE *file, const char *text)
{
    for (; *text; text++) {
        const unsigned char c = (unsigned char)*text;
        if (c < 0x20 || c == 0x7F || strchr("<>&\"'", c)) fprintf(file, "&#%d;", c < 0x20 || c == 0x7F ? 0xFFFD : c);
        else                                              fputc(c, file);
    }
}

static void base64(FILE *file, const uint8_t *data, size_t size)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < size; i += 3) {
        const uint32_t second = i + 1 < size ? data[i + 1] : 0, third = i + 2 < size ? data[i + 2] : 0;
        const uint32_t bits = (uint32_t)data[i] << 16 | second << 8 | third;
        fputc(digits[bits >> 18], file);
        fputc(digits[bits >> 12 & 63], file);
        fputc(i + 1 < size ? digits[bits >> 6 & 63] : '=', file);
        fputc(i + 2 < size ? digits[bits & 63] : '=', file);
    }
}


/* ---- one sample ---- */

typedef struct view {
    const tool_options *options;
    archive             data;
    bzna_decoder       *decoder;
    FILE               *file;
    tool_buffer         sample, name, planes, jpeg;
    uint64_t            failed;
    int                 is_cut;       /* the page is not complete */
} view;

/* Whether a status says that the sample is sound, but not for this build. */
static int is_unsupported(bzna_status status) { return status == BZNA_E_UNSUPPORTED || status == BZNA_E_CODEC; }

/* Decodes and shrinks the picture: what is smaller than the page's size stays as it is. */
static bzna_status picture_render(view *v, const bzna_picture *picture, tool_rgb *rgb, bzna_error *err)
{
    const uint32_t turned = picture->orientation > 4, edge = (uint32_t)v->options->size;
    const uint32_t in[2] = { turned ? picture->height : picture->width, turned ? picture->width : picture->height };
    const uint32_t longest = in[0] > in[1] ? in[0] : in[1];
    const double shrink = longest > edge ? (double)longest / edge : 1;
    bzna_output out;
    bzna_transform t;
    out = (bzna_output){ .struct_size = sizeof out };
    bzna_transform_init(&t, sizeof t);
    out.width = (uint32_t)(in[0] / shrink) ? (uint32_t)(in[0] / shrink) : 1;
    out.height = (uint32_t)(in[1] / shrink) ? (uint32_t)(in[1] / shrink) : 1;
    const double sx = (double)in[0] / out.width, sy = (double)in[1] / out.height;
    t.homography[0] = sx;
    t.homography[2] = (sx - 1) / 2;
    t.homography[4] = sy;
    t.homography[5] = (sy - 1) / 2;
    const size_t bytes = (size_t)out.width * out.height * 3 * sizeof(float);
    tool_buffer_reserve(&v->planes, bytes);
    bzna_status status = bzna_picture_render(picture, &t, &out, v->planes.data, bytes, err);
    if (status < 0) return status;
    *rgb = tool_rgb_alloc(out.width, out.height);
    tool_rgb_put_planes(rgb, 0, 0, (const float *)(const void *)v->planes.data, out.width, out.height);
    return BZNA_OK;
}

static bzna_status sample_picture(view *v, uint64_t index, tool_rgb *rgb, bzna_error *err)
{
    bzna_image image;
    bzna_picture picture;
    bzna_status status = archive_read_picture(&v->data, index, v->options->track, &v->sample, &image, err);
    if (status < 0) return status;
    picture = (bzna_picture){ .struct_size = sizeof picture };
    if ((status = bzna_decoder_decode(v->decoder, &image, &picture, err)) < 0) return status;
    return picture_render(v, &picture, rgb, err);
}

/* Encodes what is shown of a sample. Prints an error and returns EXIT_INPUT when it fails. */
static int jpeg_of(view *v, const tool_rgb *rgb, size_t *bytes)
{
    const tool_jpeg_source source = { rgb->width, rgb->height, { rgb->pixels }, { (ptrdiff_t)rgb->width * 3 },
                                      .quality = 90 };
    char *reason = tool_jpeg_encode(&source, &v->jpeg, bytes);
    const int result = reason ? tool_error("a picture of the page %s", reason) : EXIT_OK;
    free(reason);
    return result;
}

/* What is known of a sample, whether it can be shown or not. */
static void caption_write(view *v, uint64_t index, int64_t target, const char *class_name, const bzna_error *err)
{
    const char *name = NULL;
    bzna_sample_ref sample = { .struct_size = sizeof sample };
    bzna_image_info image = { .struct_size = sizeof image };
    fprintf(v->file, "<figcaption>#%" PRIu64, index);
    if (target != BZNA_TARGET_NONE) fprintf(v->file, " &middot; class %" PRId64 " ", target);
    html_text(v->file, class_name);
    archive_filename(&v->data, index, &v->name, &name, NULL);
    if (name) fputs("<br>", v->file), html_text(v->file, name);
    fputs("<br>", v->file);
    if (bzna_dataset_image_info(v->data.dataset, index, v->options->track, &image, sizeof image, NULL) == BZNA_OK) {
        const int turned = image.orientation > 4;
        fprintf(v->file, "%s %" PRIu32 "&times;%" PRIu32 ", ", archive_codec(&image).text,
                turned ? image.height : image.width, turned ? image.width : image.height);
    }
    if (bzna_dataset_sample(v->data.dataset, index, &sample, sizeof sample, NULL) == BZNA_OK && sample.size)
        fprintf(v->file, "%" PRIu64 " bytes", sample.size);
    if (err->status < 0) {
        fputs("<div class=\"error\">", v->file);
        html_text(v->file, err->message);
        fputs("</div>", v->file);
    }
    fputs("</figcaption></figure>\n", v->file);
}

static int sample_write(view *v, uint64_t index)
{
    bzna_error err = tool_empty_error();
    tool_rgb rgb = { NULL, 0, 0 };
    char class_name[256] = "";
    int64_t target = BZNA_TARGET_NONE;
    size_t bytes = 0;
    int result = EXIT_OK;
    err.status = sample_picture(v, index, &rgb, &err);
    if (bzna_dataset_target(v->data.dataset, index, &target, NULL) < 0) target = BZNA_TARGET_NONE;
    bzna_dataset_class(v->data.dataset, target, class_name, sizeof class_name, &bytes, NULL);
    const char *status = err.status >= 0 ? "ok" : is_unsupported(err.status) ? "unsupported" : "bad";
    fprintf(v->file, "<figure class=\"%s\" data-status=\"%s\" data-class=\"", status, status);
    html_text(v->file, class_name);
    fputs("\" data-target=\"", v->file);
    if (target != BZNA_TARGET_NONE) fprintf(v->file, "%" PRId64, target);
    fputs("\">", v->file);
    if (err.status >= 0 && (result = jpeg_of(v, &rgb, &bytes)) == EXIT_OK) {
        fprintf(v->file, "<img width=\"%" PRIu32 "\" height=\"%" PRIu32 "\" alt=\"sample %" PRIu64
                "\" src=\"data:image/jpeg;base64,", rgb.width, rgb.height, index);
        base64(v->file, v->jpeg.data, bytes);
        fputs("\">", v->file);
    } else {
        fprintf(v->file, "<div class=\"none\">%s</div>", is_unsupported(err.status) ? "not supported" : "damaged");
        v->failed++;
    }
    caption_write(v, index, target, class_name, &err);
    free(rgb.pixels);
    return result;
}


/* ---- the command ---- */

static int page_write(view *v)
{
    const tool_options *o = v->options;
    const uint64_t count = (uint64_t)o->count < v->data.count ? (uint64_t)o->count : v->data.count;
    tool_progress progress = tool_progress_start("samples", count);
    int result = EXIT_OK;
    fputs(page_begin, v->file);
    fputs("<title>", v->file), html_text(v->file, o->operand[0]), fputs("</title></head><body>\n<header><h1>", v->file);
    html_text(v->file, o->operand[0]);
    fputc(':', v->file);
    if (count < v->data.count) fprintf(v->file, " %s%" PRIu64 " of", o->shuffle ? "any " : "first ", count);
    fprintf(v->file, " %" PRIu64 " samples</h1>\n", v->data.count);
    fputs(page_filters, v->file);
    for (uint64_t i = 0; i < count && result == EXIT_OK; i++) {
        result = sample_write(v, o->shuffle ? bzna_order_permute((uint64_t)o->seed, 0, v->data.count, i) : i);
        tool_progress_show(&progress, i + 1);
    }
    tool_progress_end(&progress);
    v->is_cut = result != EXIT_OK;
    fputs(page_end, v->file);
    if (result == EXIT_OK && v->failed)
        result = tool_error("%" PRIu64 " of %" PRIu64 " samples cannot be shown", v->failed, count);
    return result;
}

int tool_run_view(const tool_options *o)
{
    view v = { .options = o };
    bzna_error err = tool_empty_error();
    tool_file out;
    if (archive_open(&v.data, o)) return EXIT_INPUT;
    int result = bzna_decoder_open(v.data.context, &v.decoder, &err) < 0 ? tool_error("%s", err.message)
                                                                         : tool_file_create(&out, o->out);
    if (result == EXIT_OK) {
        v.file = out.file;
        result = page_write(&v);
        if (v.is_cut) tool_file_discard(&out);
        else if (tool_file_close(&out)) result = EXIT_INPUT;
    }
    bzna_decoder_close(v.decoder);
    archive_close(&v.data);
    free(v.sample.data);
    free(v.name.data);
    free(v.planes.data);
    free(v.jpeg.data);
    return result;
}

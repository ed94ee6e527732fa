/* pack_report.c - bzna pack --report: what encoding has cost, as JSON or as a page with the worst pictures */
#include "tool.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <libavcodec/avcodec.h>
#include <libavutil/base64.h>

enum { WORST = 20, BINS = 24, SHOWN_EDGE_PX = 640 };

/* The numbers of one measure over all measured pictures, sorted. */
typedef struct measure {
    const char *name, *unit;
    int         decimals;
    double     *values;
    size_t      count;
} measure;

typedef struct quality_report {
    const pack_files *files;
    const tool_options *options;
    measure           psnr, ssim;
    const pack_file **worst;          /* by PSNR, the worst first */
    size_t            worst_count, packed;
    int64_t           source_bytes, bytes;
} quality_report;

static int value_order(const void *a, const void *b)
{
    double x = *(const double *)a, y = *(const double *)b;
    return x < y ? -1 : x > y;
}

static int file_order(const void *a, const void *b)
{
    const pack_file *x = *(const pack_file *const *)a, *y = *(const pack_file *const *)b;
    return x->psnr < y->psnr ? -1 : x->psnr > y->psnr ? 1 : x < y ? -1 : x > y;
}

static void report_collect(quality_report *r, const pack_files *files)
{
    r->psnr = (measure){ "PSNR", " dB", 2, tool_checked(calloc(files->count, sizeof(double))), 0 };
    r->ssim = (measure){ "SSIM", "", 4, tool_checked(calloc(files->count, sizeof(double))), 0 };
    r->worst = tool_checked(calloc(files->count, sizeof *r->worst));
    r->files = files;
    for (size_t i = 0; i < files->count; i++) {
        const pack_file *file = &files->list[i];
        if (file->reason) continue;
        r->packed++;
        r->source_bytes += file->size > 0 ? file->size : 0;
        r->bytes += (int64_t)file->sample_size;
        if (!file->is_measured) continue;
        r->worst[r->psnr.count] = file;
        r->psnr.values[r->psnr.count++] = file->psnr;
        r->ssim.values[r->ssim.count++] = file->ssim;
    }
    qsort(r->worst, r->psnr.count, sizeof *r->worst, file_order);
    qsort(r->psnr.values, r->psnr.count, sizeof(double), value_order);
    qsort(r->ssim.values, r->ssim.count, sizeof(double), value_order);
    r->worst_count = r->psnr.count < WORST ? r->psnr.count : WORST;
}

static void report_free(quality_report *r)
{
    free(r->psnr.values);
    free(r->ssim.values);
    free(r->worst);
}

/* The value that so much of all is not above. */
static double quantile(const measure *m, double share)
{
    return m->count ? m->values[(size_t)(share * (double)(m->count - 1))] : 0;
}

static double mean(const measure *m)
{
    double sum = 0;
    for (size_t i = 0; i < m->count; i++) sum += m->values[i];
    return m->count ? sum / (double)m->count : 0;
}

static const struct { const char *name; double share; } quantiles[] = {
    { "lowest", 0 }, { "1%", .01 }, { "5%", .05 }, { "25%", .25 }, { "median", .5 }, { "75%", .75 }, { "highest", 1 },
};


size_t pack_notes_count(const pack_files *files, uint32_t note)
{
    size_t count = 0;
    for (size_t i = 0; i < files->count; i++) count += !files->list[i].reason && files->list[i].notes & note;
    return count;
}


/* ---- JSON ---- */

static void json_measure(FILE *out, const measure *m)
{
    fprintf(out, "{\"mean\":%.*f", m->decimals, mean(m));
    for (size_t i = 0; i < LENGTH(quantiles); i++)
        fprintf(out, ",\"%s\":%.*f", quantiles[i].name, m->decimals, quantile(m, quantiles[i].share));
    fputc('}', out);
}

static void json_file(FILE *out, const pack_file *file, uint64_t index)
{
    fputs("{\"file\":", out);
    tool_json_write(out, file->path);
    if (file->reason) {
        fputs(",\"reason\":", out);
        tool_json_write(out, file->reason);
    } else {
        fprintf(out, ",\"index\":%" PRIu64 ",\"source_bytes\":%" PRId64 ",\"bytes\":%" PRIu64, index, file->size,
                file->sample_size);
        for (size_t i = 0, count = 0; i < PACK_NOTES && file->notes; i++)
            if (file->notes & pack_notes[i].bit)
                fprintf(out, "%s\"%s\"", count++ ? "," : ",\"notes\":[", pack_notes[i].name);
        if (file->notes) fputc(']', out);
        if (file->is_measured) fprintf(out, ",\"psnr\":%.4f,\"ssim\":%.6f", file->psnr, file->ssim);
    }
    fputc('}', out);
}

static void write_json(FILE *out, const quality_report *r)
{
    uint64_t index = 0;
    fprintf(out, "{\"samples\":%zu,\"measured\":%zu,\"source_bytes\":%" PRId64 ",\"bytes\":%" PRId64 ",\"psnr\":",
            r->packed, r->psnr.count, r->source_bytes, r->bytes);
    json_measure(out, &r->psnr);
    fputs(",\"ssim\":", out);
    json_measure(out, &r->ssim);
    for (size_t i = 0; i < PACK_NOTES; i++)
        fprintf(out, ",\"%s\":%zu", pack_notes[i].name, pack_notes_count(r->files, pack_notes[i].bit));
    fputs(",\"files\":[", out);
    for (size_t i = 0; i < r->files->count; i++) {
        fputs(i ? ",\n " : "\n ", out);
        json_file(out, &r->files->list[i], index);
        index += !r->files->list[i].reason;
    }
    fputs("]}\n", out);
}


/* ---- HTML ---- */

static void html_text(FILE *out, const char *text)
{
    for (; *text; text++)
        switch (*text) {
        case '<': fputs("&lt;", out); break;
        case '>': fputs("&gt;", out); break;
        case '&': fputs("&amp;", out); break;
        case '"': fputs("&quot;", out); break;
        default:  fputc((unsigned char)*text < 0x20 ? '?' : *text, out);
        }
}

/* How many pictures are in each of the equal parts between the lowest and the highest value. */
static void html_histogram(FILE *out, const measure *m)
{
    size_t bins[BINS] = { 0 }, most = 1;
    double low = quantile(m, 0), span = quantile(m, 1) - low;
    for (size_t i = 0; i < m->count; i++) {
        size_t bin = span > 0 ? (size_t)((m->values[i] - low) / span * (double)BINS) : 0;
        if (++bins[bin < BINS ? bin : BINS - 1] > most) most = bins[bin < BINS ? bin : BINS - 1];
    }
    fprintf(out, "<svg viewBox=\"0 0 480 130\" role=\"img\" aria-label=\"%s\">", m->name);
    for (int i = 0; i < BINS; i++) {
        double height = 100. * (double)bins[i] / (double)most;
        fprintf(out, "<rect x=\"%d\" y=\"%.1f\" width=\"18\" height=\"%.1f\"><title>%zu</title></rect>", i * 20,
                105 - height, height, bins[i]);
    }
    fprintf(out, "<text x=\"0\" y=\"125\">%.*f</text>"
            "<text x=\"480\" y=\"125\" text-anchor=\"end\">%.*f%s</text></svg>\n",
            m->decimals, low, m->decimals, low + span, m->unit);
}

static void html_measure(FILE *out, const measure *m)
{
    fprintf(out, "<h2>%s</h2>\n<table><tr><th>mean</th>", m->name);
    for (size_t i = 0; i < LENGTH(quantiles); i++) fprintf(out, "<th>%s</th>", quantiles[i].name);
    fprintf(out, "</tr><tr><td>%.*f%s</td>", m->decimals, mean(m), m->unit);
    for (size_t i = 0; i < LENGTH(quantiles); i++)
        fprintf(out, "<td>%.*f</td>", m->decimals, quantile(m, quantiles[i].share));
    fputs("</tr></table>\n", out);
    html_histogram(out, m);
}

/* A picture as a JPEG in the page, scaled to what is shown. */
static void html_picture(FILE *out, const pack_file *file)
{
    pack_settings s = pack_settings_jpeg(95);
    pack_encoded jpeg = { .packet = NULL }, none = { .packet = NULL };
    s.max_edge_px = SHOWN_EDGE_PX;
    char *reason = pack_encode_file(&s, file, &jpeg, &none);
    if (reason) {
        html_text(out, reason);
    } else {
        size_t size = AV_BASE64_SIZE((size_t)jpeg.packet->size);
        char *text = tool_checked(malloc(size));
        av_base64_encode(text, (int)size, jpeg.packet->data, jpeg.packet->size);
        fprintf(out, "<img src=\"data:image/jpeg;base64,%s\" alt=\"\">", text);
        free(text);
    }
    free(reason);
    av_packet_free(&jpeg.packet);
    av_packet_free(&none.packet);
}

static uint64_t sample_index(const pack_files *files, const pack_file *file)
{
    uint64_t index = 0;
    for (const pack_file *at = files->list; at < file; at++) index += !at->reason;
    return index;
}

static void html_worst(FILE *out, const quality_report *r, const archive *packed)
{
    fprintf(out, "<h2>The worst %zu by PSNR</h2>\n<p>Left the source, right what is in the archive, both scaled to at "
            "most %d pixels.</p>\n", r->worst_count, SHOWN_EDGE_PX);
    for (size_t i = 0; i < r->worst_count; i++) {
        const pack_file *file = r->worst[i];
        pack_file sample = { .path = file->path, .archive = packed, .index = sample_index(r->files, file) };
        fputs("<figure>", out);
        html_picture(out, file);
        html_picture(out, &sample);
        fputs("<figcaption>", out);
        html_text(out, file->path);
        fprintf(out, ": PSNR %.2f dB, SSIM %.4f, %" PRId64 " to %" PRIu64 " bytes, sample %" PRIu64
                "</figcaption></figure>\n", file->psnr, file->ssim, file->size, file->sample_size, sample.index);
    }
}

/* What pictures have that is not in the archive. */
static void html_notes(FILE *out, const quality_report *r)
{
    for (size_t i = 0; i < PACK_NOTES; i++) {
        size_t count = pack_notes_count(r->files, pack_notes[i].bit);
        if (count) fprintf(out, "<p>%zu pictures have %s.</p>\n", count, pack_notes[i].text);
    }
}

static void html_left_out(FILE *out, const quality_report *r)
{
    fprintf(out, "<h2>Left out: %zu</h2>\n<ul>\n", r->files->count - r->packed);
    for (size_t i = 0; i < r->files->count; i++) {
        if (!r->files->list[i].reason) continue;
        fputs("<li>", out);
        html_text(out, r->files->list[i].path);
        fputs(": ", out);
        html_text(out, r->files->list[i].reason);
        fputs("</li>\n", out);
    }
    fputs("</ul>\n", out);
}

static void write_html(FILE *out, const quality_report *r, const archive *packed)
{
    fputs("<!DOCTYPE html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">"
          "<meta name=\"viewport\" content=\"width=device-width\"><title>", out);
    html_text(out, r->options->out);
    fputs("</title><style>body{font:15px sans-serif;margin:1em;max-width:1284px;overflow-wrap:anywhere}"
          "table{border-collapse:collapse;display:block;overflow-x:auto}svg{display:block;width:100%;max-width:480px}"
          "td,th{padding:.2em .5em;text-align:right;white-space:nowrap;border-bottom:1px solid #ccc}rect{fill:#47a}"
          "figure{display:flex;flex-wrap:wrap;align-items:flex-start;gap:4px;margin:1em 0}"
          "img{max-width:calc(50% - 2px)}figcaption{width:100%}</style></head><body>\n<h1>", out);
    html_text(out, r->options->out);
    fprintf(out, "</h1>\n<p>%zu pictures, %" PRId64 " bytes of sources, %" PRId64 " bytes in the archive (%.1f%%). %zu "
            "were measured: what the encoder was given against what a decoder gets from it; PSNR over Y'CbCr, at most "
            "%d dB, SSIM over Y'.</p>\n", r->packed, r->source_bytes, r->bytes,
            r->source_bytes > 0 ? 100. * (double)r->bytes / (double)r->source_bytes : 0., r->psnr.count, PACK_PSNR_MAX);
    html_notes(out, r);
    html_measure(out, &r->psnr);
    html_measure(out, &r->ssim);
    html_worst(out, r, packed);
    html_left_out(out, r);
    fputs("</body></html>\n", out);
}


/* ---- the report ---- */

/* Before anything is encoded, since the measures are lost with a report that cannot be written. */
int pack_report_check(const tool_options *o)
{
    const char *dot = o->report ? strrchr(o->report, '.') : NULL, *slash = o->report ? strrchr(o->report, '/') : NULL;
    if (!o->report) return EXIT_OK;
    if (!dot || (strcmp(dot, ".json") && strcmp(dot, ".html"))) {
        tool_error("--report: the name must end in .html or .json, not as in \"%s\"", o->report);
        return EXIT_USAGE;
    }
    char *folder = slash ? tool_format("%.*s", (int)(slash - o->report + 1), o->report) : tool_format(".");
    int failed = access(tool_path_exists(o->report) ? o->report : folder, W_OK);
    free(folder);
    return failed ? tool_error("--report: %s: cannot be written: %s", o->report, strerror(errno)) : EXIT_OK;
}

int pack_report_write(const tool_options *o, const pack_files *files)
{
    quality_report r = { .options = o };
    tool_file out;
    archive packed = { .context = NULL };
    tool_options open = { .operand = (char *[]){ (char *)(uintptr_t)o->out }, .operand_count = 1 };
    if (archive_open(&packed, &open)) return EXIT_INPUT;
    report_collect(&r, files);
    int result = tool_file_create(&out, o->report);
    if (result == EXIT_OK) {
        if (!strcmp(strrchr(o->report, '.'), ".json")) write_json(out.file, &r);
        else                                          write_html(out.file, &r, &packed);
        result = tool_file_close(&out);
    }
    report_free(&r);
    archive_close(&packed);
    return result;
}

/* batch.c - bzna batch */
#include "tool.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

static int folder_make(const char *path)
{
    if (mkdir(path, 0777) == 0 || (errno == EEXIST && is_folder(path))) return EXIT_OK;
    return complain("%s: cannot be made: %s", path, strerror(errno));
}

enum { CONTACT_GAP_PX = 2 };

/* Writes each picture, and all of them side by side. */
static int batch_write(const bzna_batch_info *info, const char *folder)
{
    uint32_t height = (uint32_t)info->shape[2], width = (uint32_t)info->shape[3], columns = 1;
    while (columns * columns < info->count) columns++;
    uint32_t rows = (info->count + columns - 1) / columns;
    uint32_t sheet_width = columns * (width + CONTACT_GAP_PX) - CONTACT_GAP_PX;
    uint32_t sheet_height = rows * (height + CONTACT_GAP_PX) - CONTACT_GAP_PX;
    uint8_t *sheet = checked(calloc((size_t)sheet_width * sheet_height, 3)), *rgb = checked(malloc((size_t)width * height * 3));
    int result = EXIT_OK;
    for (uint32_t slot = 0; slot < info->count && result == EXIT_OK; slot++) {
        const float *planes = (const float *)info->data + (size_t)slot * 3 * width * height;
        char *path = text_make("%s/%05" PRIu32 ".ppm", folder, slot);
        uint8_t *corner = sheet + ((size_t)(slot / columns) * (height + CONTACT_GAP_PX) * sheet_width +
                                   (size_t)(slot % columns) * (width + CONTACT_GAP_PX)) * 3;
        rgb_from_planes(planes, width, height, rgb, (size_t)width * 3);
        rgb_from_planes(planes, width, height, corner, (size_t)sheet_width * 3);
        result = ppm_write(path, rgb, width, height);
        free(path);
    }
    if (result == EXIT_OK) {
        char *path = text_make("%s/contact.ppm", folder);
        result = ppm_write(path, sheet, sheet_width, sheet_height);
        free(path);
    }
    free(sheet);
    free(rgb);
    return result;
}

static void batch_row(const archive *a, const bzna_batch *batch, const bzna_batch_info *info, uint32_t slot, int json, bytes *buffer)
{
    bzna_error err = error_empty();
    const char *filename = NULL;
    char target[24] = "-";
    if (info->targets[slot] != BZNA_TARGET_NONE) snprintf(target, sizeof target, "%" PRId64, info->targets[slot]);
    sample_filename(a, info->indices[slot], buffer, &filename, NULL);
    if (info->status[slot] < 0) bzna_batch_error(batch, slot, &err);
    if (json) {
        printf("%s\n {\"slot\":%" PRIu32 ",\"index\":%" PRIu64 ",\"target\":%s,\"filename\":", slot ? "," : "", slot, info->indices[slot],
               info->targets[slot] == BZNA_TARGET_NONE ? "null" : target);
        json_string(filename);
        if (info->status[slot] < 0) printf(",\"error\":"), json_string(err.message);
        putchar('}');
        return;
    }
    printf("%5" PRIu32 " %8" PRIu64 " %8s  ", slot, info->indices[slot], target);
    print_plain(stdout, filename ? filename : "-");
    if (info->status[slot] < 0) printf("  "), print_plain(stdout, err.message);
    putchar('\n');
}

static void batch_report(const options *o, const archive *a, bzna_loader *loader, const bzna_batch *batch, const bzna_batch_info *info)
{
    bytes buffer = { NULL, 0 };
    bzna_loader_info who = { .struct_size = sizeof who };
    bzna_loader_describe(loader, &who, sizeof who);
    if (o->json) {
        printf("{\"decoder\":");
        json_string(who.decoder_name);
        printf(",\"reason\":");
        json_string(who.decoder_reason);
        printf(",\"sessions\":%" PRIu32 ",\"slots\":[", who.sessions);
    } else {
        printf("decoder  %s: %s\n\n%5s %8s %8s  %s\n", who.decoder_name, who.decoder_reason, "slot", "sample", "target", "file name");
    }
    for (uint32_t slot = 0; slot < info->count; slot++) batch_row(a, batch, info, slot, o->json != 0, &buffer);
    if (o->json) puts("\n]}");
    free(buffer.data);
}

int run_batch(const options *o)
{
    archive a;
    bzna_error err = error_empty();
    bzna_loader *loader = NULL;
    bzna_batch *batch = NULL;
    bzna_loader_config config;
    int result = EXIT_OK;
    if (archive_open_on(&a, o->operand[0], (int32_t)o->device, (uint32_t)o->sessions)) return EXIT_INPUT;
    bzna_loader_config_init(&config, sizeof config);
    config.batch_size = (uint32_t)o->batch;
    config.width = config.height = (uint32_t)o->size;
    config.seed = (uint64_t)o->seed;
    config.order = o->shuffle ? BZNA_ORDER_SHUFFLE : BZNA_ORDER_SEQUENTIAL;
    config.warp = warp_code(o->warp);
    config.flip_h = (float)o->flip;
    config.track = o->track;
    config.batches_in_flight = 1;
    config.decoder = decoder_code(o->decoder);
    config.output = BZNA_OUTPUT_HOST;             /* whoever decodes, the pixels are to be written */
    if (bzna_loader_open(a.context, a.dataset, &config, &loader, &err) < 0 ||
        bzna_loader_next(loader, BZNA_WAIT_FOREVER, &batch, &err) < 0) {
        result = complain("%s", err.message);
    } else if (batch && (result = folder_make(o->out)) == EXIT_OK) {
        bzna_batch_info info = { .struct_size = sizeof info };
        bzna_batch_describe(batch, &info, sizeof info);
        result = batch_write(&info, o->out);
        if (result == EXIT_OK) batch_report(o, &a, loader, batch, &info);
        if (result == EXIT_OK && info.failed) result = complain("%" PRIu32 " of %" PRIu32 " samples failed", info.failed, info.count);
    }
    bzna_batch_release(batch);
    bzna_loader_close(loader);
    archive_close(&a);
    return result;
}

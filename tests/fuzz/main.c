/* main.c - the fuzz targets of the library, in one program. Nothing may crash, hang, leak, read where it should not, or
 * take more memory than fuzz.h says; what is written must be read again.
 *
 * program_main.h says how it is called. */
#include "../../benzina.c"
#include "../../examples/formats/data.c"
#include "../../examples/formats/lists.c"
#include "../../examples/formats/paths.c"
#include "../../examples/formats/records.c"
#include "../../examples/formats/recordio.c"
#include "../../examples/formats/pairs.c"
#ifndef BENZINA_NO_CUDA
#  include "../fake/fake.h"
#endif

#include "../unit/heif.h"
#include "../unit/tars.h"
#include "../unit/recordio.h"
#include "fuzz.h"
#include "mutate.h"
#include "files.h"
#include "codecs.h"
#ifdef FUZZ_FORMATS
#  include "formats.h"
#endif
#include "states.h"
#include "writers.h"
#if !defined(BENZINA_NO_AVCODEC) || !defined(BENZINA_NO_JPEG)
#  include "loaders.h"
#endif

static const fuzz_target targets[] = {
    { "archive", run_file, mutate_file, NULL, NULL },
    { "heif", run_heif, mutate_file, NULL, NULL },
    { "avif", run_heif, mutate_file, NULL, NULL },
    { "jpeg", run_picture, mutate_file, NULL, NULL },
    { "stills", run_picture, mutate_file, NULL, NULL },
    { "tar", run_file, mutate_file, seeds_tar, mend_tar },
    { "tar_index", run_tar_index, mutate_tar_index, seeds_tar_index, NULL },
    { "recordio", run_recordio, mutate_file, seeds_recordio, NULL },
    { "recordio_index", run_recordio_index, NULL, seeds_recordio_index, NULL },
    { "lists", run_list, NULL, seeds_list, NULL },
    { "records", run_records, NULL, seeds_records, NULL },
    { "patterns", run_pattern, NULL, seeds_pattern, NULL },
    { "pairs", run_pairs, NULL, seeds_pairs, NULL },
    { "codecs", run_codec, mutate_codec, seeds_codec, NULL },
    { "state", run_state, mutate_state, seeds_state, NULL },
    { "writer", run_writer, NULL, seeds_writer, NULL },
#if !defined(BENZINA_NO_AVCODEC) || !defined(BENZINA_NO_JPEG)
    { "decode_archive", run_file, mutate_file, NULL, NULL },
    { "decode_heif", run_heif, mutate_file, NULL, NULL },
    { "decode_jpeg", run_picture, mutate_file, NULL, NULL },
    { "decode_stills", run_picture, mutate_file, NULL, NULL },
#  ifdef FUZZ_FORMATS                                       /* linked with the files of these codecs */
    { "decode_tiff", run_formats, NULL, NULL, NULL },
    { "decode_jpeg2000", run_formats, mutate_file, NULL, NULL },
    { "decode_gif_bmp_pnm", run_formats, NULL, NULL, NULL },
    { "decode_jxl", run_formats, mutate_file, NULL, NULL },
#  endif
    { "loader", run_loader, mutate_loader, seeds_loader, NULL },
#  ifndef BENZINA_NO_CUDA
    { "loader_gpu", run_loader_gpu, mutate_loader, seeds_loader, NULL },
#  endif
#endif
};
enum { TARGETS = sizeof targets / sizeof *targets };

static void target_begin(const fuzz_target *t)
{
    fuzz_context();
#if !defined(BENZINA_NO_AVCODEC) || !defined(BENZINA_NO_JPEG)
#  ifndef BENZINA_NO_AVCODEC
    av_log_set_level(AV_LOG_QUIET);
#  endif
    if (!strncmp(t->name, "decode_", 7))
        FUZZ_CHECK(bzna_decoder_open(fuzz_context(), &fuzz_decoder, NULL) == BZNA_OK);
#else
    (void)t;
#endif
}

/* One input, in memory of exactly its size. All that the library took comes back. */
static void target_run(const fuzz_target *target, const uint8_t *data, size_t size)
{
    static int warm;
    int64_t before;
    if (!warm++)                                            /* what lasts is made first */
        target->run(data, size);
    before = fuzz_ledger.held - fuzz_decoder_bytes();
    target->run(data, size);
    FUZZ_CHECK(fuzz_ledger.held - fuzz_decoder_bytes() == before);
}

#include "program_main.h"

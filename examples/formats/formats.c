/* formats.c - the list of codecs in this folder
 *
 * A program that opens no data sets by open.c or pairs.c may leave this file out, and fill in its own list of
 * codecs. */
#include "formats.h"

#include <stdatomic.h>

/* Files whose switches are set may be left out. */
#ifdef BENZINA_FORMATS_NO_HEIF
#  define bzna_formats_heif     formats_lacks_heif
#endif
#ifdef BENZINA_FORMATS_NO_STILLS
#  define bzna_formats_gif      formats_lacks_gif
#  define bzna_formats_bmp      formats_lacks_bmp
#  define bzna_formats_pnm      formats_lacks_pnm
#endif
#ifdef BENZINA_FORMATS_NO_TIFF
#  define bzna_formats_tiff     formats_lacks_tiff
#endif
#ifdef BENZINA_FORMATS_NO_JPEG2000
#  define bzna_formats_jpeg2000 formats_lacks_jpeg2000
#endif
#ifdef BENZINA_FORMATS_NO_JXL
#  define bzna_formats_jxl      formats_lacks_jxl
#endif

static void (*const fill[])(bzna_codec *codec) = {
    bzna_formats_heif, bzna_formats_gif, bzna_formats_bmp, bzna_formats_pnm, bzna_formats_tiff, bzna_formats_jpeg2000,
    bzna_formats_jxl,
};

#define COUNT (sizeof fill / sizeof fill[0])

const bzna_codec *bzna_formats_codecs(uint64_t *count)
{
    static bzna_codec codecs[COUNT];
    static atomic_int state;                                /* 0: empty, 1: a thread fills the array, 2: filled */
    int empty = 0;

    *count = COUNT;
    if (atomic_compare_exchange_strong(&state, &empty, 1)) {
        for (size_t i = 0; i < COUNT; i++)
            fill[i](&codecs[i]);
        atomic_store(&state, 2);
    }
    while (atomic_load(&state) != 2)
        ;                                                   /* another thread fills it, without waiting for anything */
    return codecs;
}

uint32_t bzna_formats_recognize(const void *data, uint64_t bytes)
{
    uint64_t count;
    const bzna_codec *codecs = bzna_formats_codecs(&count);

    for (uint32_t i = 0; i < count && bytes; i++)
        if (codecs[i].recognize(codecs[i].user, data, bytes < 512 ? bytes : 512))
            return BZNA_CODEC_OWN + i;
    return BZNA_CODEC_UNKNOWN;
}

#ifdef BENZINA_FORMATS_NO_HEIF
uint32_t bzna_formats_heif_beside(const void *data, uint64_t bytes) { return (void)data, (void)bytes, 0; }
#endif

/* formats.h - codecs of formats that benzina.c does not know, for bzna_context_config.own_codecs
 *
 * Each stands in a file of its own, which may be copied alone, with this header. */
#ifndef BENZINA_FORMATS_H
#define BENZINA_FORMATS_H

#include "benzina.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Fills in the codec of JPEG XL, by libjxl (jxl.c). It has nothing to be freed. */
void bzna_formats_jxl(bzna_codec *codec);

#ifdef __cplusplus
}
#endif
#endif

/* formats.h - formats that benzina.c does not know: codecs for bzna_context_config.own_codecs
 *
 *     bzna_context_config config = { .struct_size = sizeof config };
 *     config.own_codecs.ptr = bzna_formats_codecs(&config.own_codecs.count);
 *
 * From then on, all that is opened with this context has pictures of these kinds: folders, tars, archives, providers,
 * and single pictures. make builds libbenzina_formats, whose codecs the program bzna and the bindings register
 * themselves. It is linked with $(pkg-config --libs benzina_formats).
 *
 * Each file may also be copied alone, with this header, beside benzina.h and benzina.c. Its own comment says how it is
 * compiled, and its function fills in one codec:
 *
 *     bzna_codec codec;
 *     bzna_formats_jxl(&codec);
 *     config.own_codecs.ptr = &codec;
 *     config.own_codecs.count = 1;
 *
 * Switches: a file that is compiled with its switch needs no library. Its codec still recognizes pictures of its kind,
 * and refuses them with a message that names the library.
 *
 *     BENZINA_FORMATS_NO_JXL  jxl.c without libjxl
 */
#ifndef BENZINA_FORMATS_H
#define BENZINA_FORMATS_H

#include "benzina.h"

#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* As BZNA_API, of the library of formats. */
#define BZNA_FORMATS_API BZNA_API

/* All codecs of this folder, in the order in which they are asked. The array is made once and never changes. Any
 * thread.
 *     count    set to their number */
BZNA_FORMATS_API const bzna_codec *bzna_formats_codecs(uint64_t *count);

/* Fills in the codec of HEIF and AVIF (heif.c), which needs no library. It has nothing to be freed. Any thread. */
BZNA_FORMATS_API void bzna_formats_heif(bzna_codec *codec);

/* Fills in the codec of JPEG XL, by libjxl (jxl.c). It has nothing to be freed. Any thread. */
BZNA_FORMATS_API void bzna_formats_jxl(bzna_codec *codec);

/* Fails with a message, for the files of this folder. The library puts the codec's name, the sample and the file before
 * it. */
static inline bzna_status bzna_formats_fail(bzna_error *err, bzna_status status, const char *why)
{
    snprintf(err->message, sizeof err->message, "%s", why);
    return status;
}

#ifdef __cplusplus
}
#endif
#endif

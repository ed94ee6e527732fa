/* library.h - the library for suites, with all that is static in it. make compiles benzina.c once for them, and each
 * suite includes only its types and declarations, which tests/make/library.awk makes of benzina.c. By hand and for
 * other systems, where TEST_LINKED is not defined, benzina.c becomes a part of each suite.
 *
 * A suite that changes the library (#define pread my_pread) includes benzina.c itself instead. */
#ifndef BENZINA_TEST_LIBRARY_H
#define BENZINA_TEST_LIBRARY_H
#ifdef TEST_LINKED
#  include "library/library.h"
#else
#  include "../../benzina.c"
#endif

/* A box type as a constant, for arrays; elsewhere bzi_type("moov") does. */
#ifndef BZI_FOURCC
#  define BZI_FOURCC(a, b, c, d) ((uint32_t)(a) << 24 | (uint32_t)(b) << 16 | (uint32_t)(c) << 8 | (uint32_t)(d))
#endif
#endif

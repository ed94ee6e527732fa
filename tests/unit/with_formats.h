/* with_formats.h - contexts of a suite have the codecs of examples/formats, as those of bzna and of the bindings have
 *
 * It stands after "library.h" in a suite that is among FORMATS_SUITES in the Makefile. Tests of examples include it
 * before their own files. */
#ifndef TEST_WITH_FORMATS_H
#define TEST_WITH_FORMATS_H

#include "../../examples/formats/formats.h"

/* Adds them after those of the config, if it has room for them, and is none that shall be refused. */
__attribute__((unused))
static bzna_status context_open_with_formats(const bzna_context_config *config, bzna_context **out, bzna_error *err)
{
    bzna_context_config all;
    bzna_codec codecs[32];
    uint64_t count, given = config && config->struct_size == sizeof all ? config->own_codecs.count : 0;
    const bzna_codec *formats = bzna_formats_codecs(&count);

    if (config && (config->struct_size != sizeof all || count + given > 32 ||
                   !given != !config->own_codecs.ptr))
        return bzna_context_open(config, out, err);
    bzna_context_config_init(&all, sizeof all);
    if (config)
        all = *config;
    for (uint64_t i = 0; i < given + count; i++)
        codecs[i] = i < given ? all.own_codecs.ptr[i] : formats[i - given];
    all.own_codecs.ptr = codecs;
    all.own_codecs.count = given + count;
    return bzna_context_open(&all, out, err);
}

#define bzna_context_open context_open_with_formats

#endif

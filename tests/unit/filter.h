/* filter.h - a packet through libavcodec's bitstream filters. Include after benzina.c. */
#ifndef BENZINA_TEST_FILTER_H
#define BENZINA_TEST_FILTER_H

#include <libavcodec/bsf.h>

/* how: filters as on ffmpeg's command line. The packet becomes what comes out; 0, or libavcodec's error. */
static int filter(const char *how, const AVCodecContext *c, AVPacket *packet)
{
    AVBSFContext *f = NULL;
    int result = av_bsf_list_parse_str(how, &f);
    if (result >= 0 && (result = avcodec_parameters_from_context(f->par_in, c)) >= 0 &&
        (result = av_bsf_init(f)) >= 0 && (result = av_bsf_send_packet(f, packet)) >= 0)
        result = av_bsf_receive_packet(f, packet);
    av_bsf_free(&f);
    return result;
}

#endif

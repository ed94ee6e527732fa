/* replay.cpp - gives recorded packets to NVIDIA's own parser and prints what it makes of them. Usage: replay RECORD
 *
 * The parser is that of NVIDIA's Vulkan video samples (GitHub, nvpro-samples/vk_video_samples), whose structs are
 * nearly CUVID's; tests/nvparser/build.sh compiles it. RECORD is what the fake libnvcuvid writes where FAKE_RECORD is
 * set: which parser is made, what it is given, when it goes (tests/fake/fake_nvcuvid.c).
 *
 * A line "set N ..." has the content of a parameter set, or of a frame's header of AV1, the first time that it is seen.
 * A line "packet ..." has, in the order of the line "columns": the codec (CUVID's number), bytes and FNV-1a of the
 * packet; how many pictures were found at once and how often a sequence was announced; the sequence that is in force;
 * of the first picture what stands in the picture parameters; and the numbers of its sets. */
#include <cstdarg>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>
#include "vkvideo_parser/VulkanVideoParserIf.h"
#include "NvVideoParser/nvVulkanVideoParser.h"

enum { H264 = 4, H265 = 8, AV1 = 11, END_OF_PICTURE = 8 };

static std::string format(const char *text, ...) __attribute__((format(printf, 1, 2)));
static std::string format(const char *text, ...)
{
    char line[4096];
    va_list arguments;
    va_start(arguments, text);
    vsnprintf(line, sizeof line, text, arguments);
    va_end(arguments);
    return line;
}

static uint64_t fnv(const uint8_t *data, size_t size)
{
    uint64_t sum = 0xcbf29ce484222325u;
    for (size_t i = 0; i < size; i++)
        sum = (sum ^ data[i]) * 0x100000001b3u;
    return sum;
}

/* Flags are bit-fields: their bits from the lowest on. */
template <typename T> static std::string flags(const T &value)
{
    uint8_t bytes[sizeof(T)];
    std::string text = " flags=";
    memcpy(bytes, &value, sizeof bytes);
    for (size_t i = sizeof bytes; i-- > 0;)
        text += format("%02x", bytes[i]);
    return text;
}

template <size_t N> static std::string numbers(const char *name, const uint8_t (&list)[N])
{
    std::string text = format(" %s=", name);
    for (size_t i = 0; i < N; i++)
        text += format("%02x", list[i]);
    return text;
}

#define NUMBER(from, member) text += format(" " #member "=%lld", (long long)(from)->member)

/* ---- Parameter sets, as text ---- */

static std::string lists_of(const StdVideoH264ScalingLists *lists)
{
    std::string text;
    if (!lists)
        return text;
    text = format(" lists=%x default=%x", lists->scaling_list_present_mask, lists->use_default_scaling_matrix_mask);
    for (auto &list : lists->ScalingList4x4)
        text += numbers("4x4", list);
    for (auto &list : lists->ScalingList8x8)
        text += numbers("8x8", list);
    return text;
}

static std::string lists_of(const StdVideoH265ScalingLists *lists)
{
    std::string text;
    if (!lists)
        return text;
    for (auto &list : lists->ScalingList4x4)
        text += numbers("4x4", list);
    for (auto &list : lists->ScalingList8x8)
        text += numbers("8x8", list);
    for (auto &list : lists->ScalingList16x16)
        text += numbers("16x16", list);
    for (auto &list : lists->ScalingList32x32)
        text += numbers("32x32", list);
    return text + numbers("dc16", lists->ScalingListDCCoef16x16) + numbers("dc32", lists->ScalingListDCCoef32x32);
}

static std::string text_of(const StdVideoH264SequenceParameterSet *s)
{
    std::string text = "h264-sps" + flags(s->flags);
    NUMBER(s, profile_idc); NUMBER(s, level_idc); NUMBER(s, chroma_format_idc); NUMBER(s, seq_parameter_set_id);
    NUMBER(s, bit_depth_luma_minus8); NUMBER(s, bit_depth_chroma_minus8); NUMBER(s, log2_max_frame_num_minus4);
    NUMBER(s, pic_order_cnt_type); NUMBER(s, log2_max_pic_order_cnt_lsb_minus4); NUMBER(s, max_num_ref_frames);
    NUMBER(s, pic_width_in_mbs_minus1); NUMBER(s, pic_height_in_map_units_minus1);
    NUMBER(s, frame_crop_left_offset); NUMBER(s, frame_crop_right_offset);
    NUMBER(s, frame_crop_top_offset); NUMBER(s, frame_crop_bottom_offset);
    return text + lists_of(s->flags.seq_scaling_matrix_present_flag ? s->pScalingLists : nullptr);
}

static std::string text_of(const StdVideoH264PictureParameterSet *s)
{
    std::string text = "h264-pps" + flags(s->flags);
    NUMBER(s, pic_parameter_set_id); NUMBER(s, num_ref_idx_l0_default_active_minus1);
    NUMBER(s, num_ref_idx_l1_default_active_minus1); NUMBER(s, weighted_bipred_idc); NUMBER(s, pic_init_qp_minus26);
    NUMBER(s, pic_init_qs_minus26); NUMBER(s, chroma_qp_index_offset); NUMBER(s, second_chroma_qp_index_offset);
    return text + lists_of(s->flags.pic_scaling_matrix_present_flag ? s->pScalingLists : nullptr);
}

static std::string text_of(const StdVideoH265SequenceParameterSet *s)
{
    std::string text = "h265-sps" + flags(s->flags);
    NUMBER(s, chroma_format_idc); NUMBER(s, pic_width_in_luma_samples); NUMBER(s, pic_height_in_luma_samples);
    NUMBER(s, sps_max_sub_layers_minus1); NUMBER(s, sps_seq_parameter_set_id);
    NUMBER(s, bit_depth_luma_minus8); NUMBER(s, bit_depth_chroma_minus8); NUMBER(s, log2_max_pic_order_cnt_lsb_minus4);
    NUMBER(s, log2_min_luma_coding_block_size_minus3); NUMBER(s, log2_diff_max_min_luma_coding_block_size);
    NUMBER(s, log2_min_luma_transform_block_size_minus2); NUMBER(s, log2_diff_max_min_luma_transform_block_size);
    NUMBER(s, max_transform_hierarchy_depth_inter); NUMBER(s, max_transform_hierarchy_depth_intra);
    NUMBER(s, num_short_term_ref_pic_sets); NUMBER(s, num_long_term_ref_pics_sps);
    NUMBER(s, conf_win_left_offset); NUMBER(s, conf_win_right_offset);
    NUMBER(s, conf_win_top_offset); NUMBER(s, conf_win_bottom_offset);
    return text + lists_of(s->flags.sps_scaling_list_data_present_flag ? s->pScalingLists : nullptr);
}

static std::string text_of(const StdVideoH265PictureParameterSet *s)
{
    std::string text = "h265-pps" + flags(s->flags);
    NUMBER(s, pps_pic_parameter_set_id); NUMBER(s, num_extra_slice_header_bits); NUMBER(s, init_qp_minus26);
    NUMBER(s, num_ref_idx_l0_default_active_minus1); NUMBER(s, num_ref_idx_l1_default_active_minus1);
    NUMBER(s, diff_cu_qp_delta_depth); NUMBER(s, pps_cb_qp_offset); NUMBER(s, pps_cr_qp_offset);
    NUMBER(s, pps_beta_offset_div2); NUMBER(s, pps_tc_offset_div2); NUMBER(s, log2_parallel_merge_level_minus2);
    NUMBER(s, log2_max_transform_skip_block_size_minus2); NUMBER(s, diff_cu_chroma_qp_offset_depth);
    NUMBER(s, num_tile_columns_minus1); NUMBER(s, num_tile_rows_minus1);
    if (s->flags.tiles_enabled_flag && !s->flags.uniform_spacing_flag) {
        for (unsigned i = 0; i < s->num_tile_columns_minus1; i++)
            text += format(" column=%u", s->column_width_minus1[i] + 1);
        for (unsigned i = 0; i < s->num_tile_rows_minus1; i++)
            text += format(" row=%u", s->row_height_minus1[i] + 1);
    }
    return text + lists_of(s->flags.pps_scaling_list_data_present_flag ? s->pScalingLists : nullptr);
}

static std::string text_of(const StdVideoAV1SequenceHeader *s)
{
    std::string text = "av1-sequence" + flags(s->flags);
    NUMBER(s, seq_profile); NUMBER(s, max_frame_width_minus_1); NUMBER(s, max_frame_height_minus_1);
    NUMBER(s, order_hint_bits_minus_1); NUMBER(s, seq_force_integer_mv); NUMBER(s, seq_force_screen_content_tools);
    if (const StdVideoAV1ColorConfig *c = s->pColorConfig) {
        text += " color" + flags(c->flags);
        NUMBER(c, BitDepth); NUMBER(c, subsampling_x); NUMBER(c, subsampling_y); NUMBER(c, color_primaries);
        NUMBER(c, transfer_characteristics); NUMBER(c, matrix_coefficients); NUMBER(c, chroma_sample_position);
    }
    return text;
}

static std::string text_of(const VkParserAv1PictureData *a)
{
    std::string text = "av1-frame" + flags(a->std_info.flags);
    const StdVideoDecodeAV1PictureInfo *info = &a->std_info;
    const StdVideoAV1Quantization *q = &a->quantization;
    NUMBER(a, upscaled_width); NUMBER(a, frame_width); NUMBER(a, frame_height); NUMBER(a, showFrame);
    NUMBER(info, frame_type); NUMBER(info, OrderHint); NUMBER(info, primary_ref_frame);
    NUMBER(info, refresh_frame_flags); NUMBER(info, TxMode); NUMBER(info, delta_q_res); NUMBER(info, coded_denom);
    text += " q" + flags(q->flags);
    NUMBER(q, base_q_idx); NUMBER(q, DeltaQYDc); NUMBER(q, DeltaQUDc); NUMBER(q, DeltaQUAc); NUMBER(q, DeltaQVDc);
    NUMBER(q, DeltaQVAc); NUMBER(q, qm_y); NUMBER(q, qm_u); NUMBER(q, qm_v);
    text += format(" tiles=%ux%u", a->tileInfo.TileCols, a->tileInfo.TileRows);
    for (unsigned i = 0; i < a->tileInfo.TileCols && i < 64; i++)
        text += format(" column=%u", a->MiColStarts[i]);
    for (unsigned i = 0; i < a->tileInfo.TileRows && i < 64; i++)
        text += format(" row=%u", a->MiRowStarts[i]);
    return text;
}

/* ---- The parser's client ---- */

static std::map<std::string, int> sets;

static std::string number_of_set(const std::string &text)
{
    if (!sets.count(text)) {
        const int number = (int)sets.size() + 1;
        sets[text] = number;
        printf("set %d %s\n", number, text.c_str());
    }
    return format("%d", sets[text]);
}

struct Bitstream : public VulkanBitstreamBuffer {
    std::vector<uint8_t> bytes;
    std::vector<uint32_t> markers;
    explicit Bitstream(size_t size) : bytes(size) {}
    VkDeviceSize GetMaxSize() const override { return bytes.size(); }
    VkDeviceSize GetOffsetAlignment() const override { return 256; }
    VkDeviceSize GetSizeAlignment() const override { return 256; }
    VkDeviceSize Resize(VkDeviceSize size, VkDeviceSize, VkDeviceSize) override { bytes.resize(size); return size; }
    VkDeviceSize Clone(VkDeviceSize size, VkDeviceSize copied, VkDeviceSize from,
                       VkSharedBaseObj<VulkanBitstreamBuffer> &out) override
    {
        auto copy = std::make_shared<Bitstream>(size);
        memcpy(copy->bytes.data(), bytes.data() + from, copied);
        out = copy;
        return size;
    }
    int64_t MemsetData(uint32_t value, VkDeviceSize at, VkDeviceSize size) override
    {
        memset(bytes.data() + at, (int)value, size);
        return (int64_t)size;
    }
    int64_t CopyDataToBuffer(uint8_t *to, VkDeviceSize at, VkDeviceSize from, VkDeviceSize size) const override
    {
        memcpy(to + at, bytes.data() + from, size);
        return (int64_t)size;
    }
    int64_t CopyDataToBuffer(VkSharedBaseObj<VulkanBitstreamBuffer> &to, VkDeviceSize at, VkDeviceSize from,
                             VkDeviceSize size) const override
    {
        VkDeviceSize room;
        memcpy(to->GetDataPtr(at, room), bytes.data() + from, size);
        return (int64_t)size;
    }
    int64_t CopyDataFromBuffer(const uint8_t *from, VkDeviceSize source, VkDeviceSize at, VkDeviceSize size) override
    {
        memcpy(bytes.data() + at, from + source, size);
        return (int64_t)size;
    }
    int64_t CopyDataFromBuffer(const VkSharedBaseObj<VulkanBitstreamBuffer> &from, VkDeviceSize source, VkDeviceSize at,
                               VkDeviceSize size) override
    {
        VkDeviceSize room;
        memcpy(bytes.data() + at, from->GetReadOnlyDataPtr(source, room), size);
        return (int64_t)size;
    }
    uint8_t *GetDataPtr(VkDeviceSize at, VkDeviceSize &room) override
    {
        room = bytes.size() - at;
        return bytes.data() + at;
    }
    const uint8_t *GetReadOnlyDataPtr(VkDeviceSize at, VkDeviceSize &room) const override
    {
        room = bytes.size() - at;
        return bytes.data() + at;
    }
    void FlushRange(VkDeviceSize, VkDeviceSize) const override {}
    void InvalidateRange(VkDeviceSize, VkDeviceSize) const override {}
    VkBuffer GetBuffer() const override { return 0; }
    VkDeviceMemory GetDeviceMemory() const override { return 0; }
    uint32_t AddStreamMarker(uint32_t at) override { markers.push_back(at); return (uint32_t)markers.size() - 1; }
    uint32_t SetStreamMarker(uint32_t at, uint32_t i) override { markers[i] = at; return i; }
    uint32_t GetStreamMarker(uint32_t i) const override { return markers[i]; }
    uint32_t GetStreamMarkersCount() const override { return (uint32_t)markers.size(); }
    const uint32_t *GetStreamMarkersPtr(uint32_t first, uint32_t &count) const override
    {
        count = (uint32_t)markers.size() - first;
        return markers.data() + first;
    }
    uint32_t ResetStreamMarkers() override { markers.clear(); return 0; }
};

struct Client : public VkParserVideoDecodeClient {
    enum { SURFACES = 12, POOL = 64 };          /* as many as the library has by default; what there is */
    unsigned codec = 0;
    vkPicBuffBase pool[POOL];
    VkParserSequenceInfo sequence{};
    int sequences = 0, pictures = 0, beyond = 0;
    std::string first;                          /* of the packet's first picture */

    int32_t BeginSequence(const VkParserSequenceInfo *info) override
    {
        sequences++;
        sequence = *info;
        return info->nMinNumDecodeSurfaces > SURFACES ? info->nMinNumDecodeSurfaces : SURFACES;
    }
    bool AllocPictureBuffer(VkPicIf **out) override
    {
        for (int i = 0; i < POOL; i++)
            if (pool[i].IsAvailable()) {
                pool[i].AddRef();
                pool[i].m_picIdx = i;
                beyond += i >= SURFACES;
                *out = &pool[i];
                return true;
            }
        *out = nullptr;
        return false;
    }
    bool DecodePicture(VkParserPictureData *p) override
    {
        int references = 0, idr = 0, irap = 0;
        std::string numbers = "-";
        if (pictures++)
            return true;
        if (codec == H264) {
            const VkParserH264PictureData &h = p->CodecSpecific.h264;
            for (int i = 0; i < 16; i++)
                references += h.dpb[i].used_for_reference != 0;
            idr = h.frame_num == 0;
            numbers = number_of_set(text_of(h.pStdSps->GetStdH264Sps())) + "," +
                      number_of_set(text_of(h.pStdPps->GetStdH264Pps()));
        } else if (codec == H265) {
            const VkParserHevcPictureData &h = p->CodecSpecific.hevc;
            references = h.NumPocTotalCurr;
            idr = h.IdrPicFlag;
            irap = h.IrapPicFlag;
            numbers = number_of_set(text_of(h.pStdSps->GetStdH265Sps())) + "," +
                      number_of_set(text_of(h.pStdPps->GetStdH265Pps()));
        } else {
            const VkParserAv1PictureData &a = p->CodecSpecific.av1;
            idr = irap = a.std_info.frame_type == 0;
            numbers = number_of_set(text_of(a.pStdSps->GetStdAV1Sps())) + "," + number_of_set(text_of(&a));
            p->numSlices = a.khr_info.tileCount;
            if (a.pStdSps->GetStdAV1Sps()->pColorConfig)        /* which the sequence leaves out */
                sequence.uVideoFullRange = a.pStdSps->GetStdAV1Sps()->pColorConfig->flags.color_range;
        }
        first = format("%d %d %u %u %u %u %d %d %d %s", p->PicWidthInMbs, p->FrameHeightInMbs, p->numSlices,
                       p->field_pic_flag, p->ref_pic_flag, p->intra_pic_flag, idr, irap, references, numbers.c_str());
        return true;
    }
    bool UpdatePictureParameters(VkSharedBaseObj<StdVideoPictureParametersSet> &,
                                 VkSharedBaseObj<VkVideoRefCountBase> &) override { return true; }
    bool DisplayPicture(VkPicIf *, int64_t) override { return true; }
    void UnhandledNALU(const uint8_t *, size_t) override {}
    VkDeviceSize GetBitstreamBuffer(VkDeviceSize size, VkDeviceSize, VkDeviceSize, const uint8_t *begin,
                                    VkDeviceSize count, VkSharedBaseObj<VulkanBitstreamBuffer> &out) override
    {
        auto buffer = std::make_shared<Bitstream>(size);
        if (count)
            memcpy(buffer->bytes.data(), begin, count);
        out = buffer;
        return size;
    }
};

struct Parser {
    std::unique_ptr<Client> client;
    VkSharedBaseObj<VulkanVideoDecodeParser> parser;
};

static void ignore(const char *, ...) {}

static Parser parser_make(unsigned codec)
{
    static const VkExtensionProperties h264 = { VK_STD_VULKAN_VIDEO_CODEC_H264_DECODE_EXTENSION_NAME,
                                                VK_STD_VULKAN_VIDEO_CODEC_H264_DECODE_SPEC_VERSION };
    static const VkExtensionProperties h265 = { VK_STD_VULKAN_VIDEO_CODEC_H265_DECODE_EXTENSION_NAME,
                                                VK_STD_VULKAN_VIDEO_CODEC_H265_DECODE_SPEC_VERSION };
    static const VkExtensionProperties av1 = { VK_STD_VULKAN_VIDEO_CODEC_AV1_DECODE_EXTENSION_NAME,
                                               VK_STD_VULKAN_VIDEO_CODEC_AV1_DECODE_SPEC_VERSION };
    Parser p;
    VkParserInitDecodeParameters init{};
    p.client.reset(new Client);
    p.client->codec = codec;
    init.interfaceVersion = NV_VULKAN_VIDEO_PARSER_API_VERSION;
    init.pClient = p.client.get();
    init.defaultMinBufferSize = 2 << 20;
    init.bufferOffsetAlignment = init.bufferSizeAlignment = 256;
    init.inlineSessionParameters = true;
    if (codec == H264 || codec == H265 || codec == AV1)
        CreateVulkanVideoDecodeParser(codec == H264 ? VK_VIDEO_CODEC_OPERATION_DECODE_H264_BIT_KHR :
                                      codec == H265 ? VK_VIDEO_CODEC_OPERATION_DECODE_H265_BIT_KHR :
                                                      VK_VIDEO_CODEC_OPERATION_DECODE_AV1_BIT_KHR,
                                      codec == H264 ? &h264 : codec == H265 ? &h265 : &av1, ignore, 1, &init, p.parser);
    return p;
}

static void replay(Parser &p, unsigned codec, unsigned flags, const uint8_t *data, unsigned size)
{
    Client &c = *p.client;
    const VkParserSequenceInfo &s = c.sequence;
    VkParserBitstreamPacket packet{};
    size_t used = 0;
    bool accepted;
    c.pictures = c.sequences = c.beyond = 0;
    c.first = "- - - - - - - - - -";
    packet.pByteStream = data;
    packet.nDataLength = size;
    packet.bEOP = (flags & END_OF_PICTURE) != 0;
    accepted = p.parser->ParseByteStream(&packet, &used);
    printf("packet %u %u %016llx %d %d %d %d %d %d %d %d %d %u %u %u %u %d %d %d %d %s\n", codec, size,
           (unsigned long long)fnv(data, size), accepted ? c.pictures : -1, c.sequences, s.nCodedWidth, s.nCodedHeight,
           s.nDisplayWidth, s.nDisplayHeight, s.nDisplayOffsetX, s.nDisplayOffsetY, s.bProgSeq, s.nChromaFormat,
           s.uBitDepthLumaMinus8 + 8u, s.uBitDepthChromaMinus8 + 8u, s.uVideoFullRange, s.lColorPrimaries,
           s.lTransferCharacteristics, s.lMatrixCoefficients, c.beyond ? 99 : s.nMinNumDecodeSurfaces, c.first.c_str());
}

int main(int argc, char **argv)
{
    std::map<unsigned, Parser> parsers;
    uint32_t head[5];                           /* what: C, P or D; which parser; codec; flags; bytes that follow */
    FILE *in = argc == 2 ? fopen(argv[1], "rb") : nullptr;
    if (!in) {
        fprintf(stderr, "usage: replay RECORD\n");
        return 1;
    }
    printf("columns codec bytes fnv pictures sequences coded_width coded_height display_width display_height display_x "
           "display_y progressive chroma depth_luma depth_chroma full_range primaries transfer matrix surfaces "
           "width_mbs height_mbs slices field ref intra idr irap references sets\n");
    while (fread(head, sizeof head, 1, in) == 1) {
        std::vector<uint8_t> data(head[4] + 64u);
        if (head[4] && fread(data.data(), head[4], 1, in) != 1)
            return 1;
        if (head[0] == 'C')
            parsers[head[1]] = parser_make(head[2]);
        else if (head[0] == 'D')
            parsers.erase(head[1]);
        else if (parsers.count(head[1]) && parsers[head[1]].parser)
            replay(parsers[head[1]], head[2], head[3], data.data(), head[4]);
    }
    fclose(in);
    return 0;
}

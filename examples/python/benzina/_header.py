# Made from benzina.h and formats.h by `make bindings` (tests/make/bindings.py): change the headers, not this file.
"""What benzina.h declares: _c.py makes structs and functions of ctypes of it."""
import enum


class Status(enum.IntEnum):
    """What calls return, by the names of benzina.h. Below 0 are errors."""

    OK = 0
    END = 1
    AGAIN = 2
    E_ARGUMENT = -101
    E_STRUCT_SIZE = -102
    E_RANGE = -103
    E_STATE = -104
    E_BUFFER = -105
    E_CALLBACK = -106
    E_STOPPED = -107
    E_UNSUPPORTED = -108
    E_MEMORY = -201
    E_NOT_FOUND = -202
    E_IO = -203
    E_THREAD = -204
    E_FORMAT = -301
    E_TRUNCATED = -302
    E_BOX = -303
    E_LIMIT = -304
    E_NO_SAMPLES = -305
    E_UNFINISHED = -306
    E_CODEC = -401
    E_DECODE = -402
    E_MISMATCH = -403
    E_DEVICE = -501
    E_DEVICE_LOST = -502


# Pointers to functions: the result, then the arguments.
POINTERS = """
log_fn: void ptr i32 i32 str
codec_recognize_fn: i32 ptr ptr u64
codec_thread_begin_fn: i32 ptr ptr ptr
codec_thread_end_fn: void ptr ptr
codec_inspect_fn: i32 ptr ptr u64 ptr ptr
codec_decode_fn: i32 ptr ptr u64 ptr ptr ptr
codec_unwrap_fn: i32 ptr ptr u64 ptr ptr
provider_read_fn: i32 ptr u64 u32 ptr u64 ptr ptr
provider_locate_fn: i32 ptr u64 u32 ptr ptr
provider_unpack_fn: i32 ptr u64 u32 ptr u64 ptr u64 ptr ptr
transform_fn: i32 ptr ptr ptr ptr
picture_fn: i32 ptr ptr ptr ptr ptr
make_fn: i32 ptr ptr ptr
rule_fn: i32 ptr ptr ptr u64 ptr
alloc_fn: ptr ptr size size
release_fn: void ptr ptr size
read_at_fn: i64 ptr u64 ptr u64
size_fn: i64 ptr
close_fn: void ptr
device_alloc_fn: ptr ptr size ptr
device_release_fn: void ptr ptr size ptr
write_at_fn: i32 ptr u64 ptr u64
"""

# Members, those of one type after each other.
STRUCTS = """
error: u32 struct_size; i32 status; u64 byte_offset; i32 native_code; u32 fourcc; char message[488]
allocator: ptr user; alloc_fn alloc; release_fn release
source: u32 struct_size, reserved0; ptr user; read_at_fn read_at; size_fn size; close_fn close; ptr memory
device_allocator: ptr user; device_alloc_fn alloc; device_release_fn release
color: u16 primaries, transfer, matrix; u8 full_range, present
image: u32 struct_size, codec, width, height, frame_width, frame_height, crop_x, crop_y; color color; u32
    length_size, orientation; ptr config; u64 config_size; ptr data; u64 data_size; u32 palette, reserved1
rectangle: u32 x0, y0, x1, y1
codec_shape: u32 struct_size, width, height, pixels, depth, interleaved, chroma_shift_x, chroma_shift_y,
    chroma_left, chroma_top; color color; u32 orientation, wrapped, codecs; rectangle crop
codec_planes: u32 struct_size, width, height, step; ptr plane[3]; i64 pitch[3]; ptr palette
codec: u32 struct_size, reserved0; ptr user; str name, extensions; u64 fingerprint; codec_recognize_fn recognize;
    codec_thread_begin_fn thread_begin; codec_thread_end_fn thread_end; codec_inspect_fn inspect; codec_decode_fn
    decode; codec_unwrap_fn unwrap; close_fn close; u64 reserved[4]
device: i32 kind, ordinal
own_codecs: ptr ptr; u64 count, reserved[2]
context_config: u32 struct_size; i32 log_level; device device; allocator allocator; log_fn log; ptr log_user; u32
    log_any_thread, max_edge_px; u64 max_sample_bytes; u32 sessions, sessions_per_engine, session_depth,
    session_mapped; u64 decode_memory_bytes; device_allocator device_allocator; ptr cuda_context; u32 no_threads,
    codecs; own_codecs own_codecs
device_info: u32 struct_size, driver; device device; u64 memory_bytes; u32 compute_major, compute_minor, engines,
    sessions; i32 video; u32 device_count; char name[96], message[488]
codec_info: u32 struct_size, codec, chroma_format, depth, supported, engines, min_width, min_height, max_width,
    max_height, max_macroblocks, check; char check_message[128]
dataset_config: u32 struct_size, allow_empty; str name, split, format; ptr classes; u32 class_count, class_order,
    orientation, palette; str target; ptr index; u64 index_bytes
dataset_info: u32 struct_size, field_count; u64 size_bytes, sample_count, target_count; u32 part_count, track_count,
    brand_count, brands[8]; char container[20]; u64 trailing_bytes
field_info: u32 struct_size, kind; char name[32]
track_info: u32 struct_size, handler, format, flags; u64 sample_count; char name[32], mime[64]
sample_ref: u32 struct_size, image_count; u64 index, offset, size; i64 target; char image_names[4][32]
image_info: u32 struct_size, codec, fourcc, width, height, frame_width, frame_height, crop_x, crop_y; i32 clap[8];
    u32 length_size; color color; u64 config_offset, config_size, data_offset, data_size; u32 orientation, reserved0
provider_field: str name; u32 kind, located, codec, width, height, channels, layout, reserved0; u64 offset,
    reserved[2]
place: ptr data; u64 offset, size, file
provider: u32 struct_size, reserved0; ptr user; u64 count; ptr fields; u32 field_count, reserved1; u64 max_bytes;
    provider_read_fn read; provider_locate_fn locate; ptr places, files; u64 file_count; ptr classes; u32
    class_count, reserved2; u64 fingerprint; close_fn close; str kind; u64 size_bytes; provider_unpack_fn unpack;
    u64 reserved[2]
picture: u32 struct_size, depth, width, height, crop_x, crop_y, frame_width, frame_height, chroma_shift_x,
    chroma_shift_y, chroma_left, chroma_top; color color; ptr plane[3]; i64 pitch[3]; u32 orientation, step[3]
random: u32 key[2], counter[4], block[4], used, reserved0
operation: u32 kind, sign; f32 probability, magnitude[2]; u32 kernel_px; f32 ratio[2], value[3]; u32 value_space;
    f32 noise; u32 reserved0; u64 reserved[4]
policy: ptr operations; u32 operation_count, group_size, apply, draws, bins, bin[2]; f32 probability; u64
    reserved[4]
loader_augment: ptr policies; u32 policy_count, beyond_crop; u64 reserved[8]
drawn: u32 kind; f32 magnitude; u32 kernel_px, value_space; i32 area[4]; f32 value[3], noise; u32 key[2]
transform: u32 struct_size, filter; f64 homography[9]; f32 bias[3], scale[3], fill[3]; u32 fill_space, matrix,
    antialias, clamp_hue, grayscale, reserved0; f32 color[12], hls[3], brightness, contrast, saturation, hue; u32
    operation_count, reserved1; drawn operations[8]; f64 clip[6], clip_size[2]
sample_info: u32 struct_size, slot; u64 index, epoch; i64 target; u32 width, height, out_width, out_height; u64
    occurrence; u32 view, output
geometry: u32 struct_size, view, width, height, out_width, out_height, flip_h, flip_v; f64 homography[9],
    inverse[9], crop[4]
bytes: ptr data; u64 size
make_input: u32 struct_size, view_count; ptr sample, geometry, values, out
made: str name; u32 dtype, dimensions; i64 shape[4]; u32 zero, reserved0; u64 reserved[2]
output: u32 struct_size, width, height, dtype, layout, channels
mxnet: f64 shear_ratio; u32 canvas_px[2], crop_px[2], pad_px, short_edge_px, has_crop_start, crop_x_start,
    crop_y_start; f32 hls[3], contrast, illumination; u32 clamp_hue, reserved0; u64 reserved[4]
warp: u32 kind, crops; f64 scale[2], ratio[2], degrees[2], translate[2], flip_h, flip_v, rotate[2], shear[4],
    perspective, perspective_p; u32 resize, keep_ratio, random_crop, reserved0; mxnet mxnet; u64 reserved[8]
jitter: f32 brightness[2], contrast[2], saturation[2], hue[2], grayscale; u32 reserved0; u64 reserved[11]
buffer: ptr data; u64 bytes
loader_filter: u32 kind, antialias; u64 reserved[8]
loader_color: f32 mean[3], std[3], bias[3], scale[3], fill[3]; u32 fill_space, matrix, reserved0; ptr mean_image;
    u64 mean_image_bytes; jitter jitter; u64 reserved[8]
loader_output: u32 batch_size, width, height, dtype, layout, channels, views, slices; device device; ptr stream,
    buffers; u32 buffer_count, palette; str name, field; ptr warp, filter, color, augment; u64 reserved[7]
loader_outputs: ptr ptr; u64 count, reserved[8]
loader_order: u32 kind, last_batch; u64 seed, epochs, first_epoch; ptr indices; u64 index_count; f64 pad_value; i64
    pad_target; u64 reserved[6]
loader_shard: u32 rank, world_size; u64 reserved[8]
loader_fields: str image, tensors, bytes; ptr made; u32 made_count, geometry; make_fn make; ptr make_user; u64
    reserved[8]
loader_read: u32 threads, ahead_samples; u64 memory_bytes; u32 retries, reserved0; u64 backoff_ns, reserved[8]
loader_decode: u32 decoder, threads, jpeg, jpeg_shrink; f32 jpeg_shrink_margin; u32 hybrid; u64 reserved[7]
loader_errors: u32 on_error, on_callback_error; u64 reserved[8]
loader_pipeline: u32 batches_in_flight, restore_any_pixels; ptr cpus; u32 cpu_count, no_threads; transform_fn
    transform; ptr transform_user; picture_fn picture; ptr picture_user; u64 reserved[8]
loader_config: u32 struct_size, reserved0; loader_output output; loader_outputs extra_outputs; loader_order order;
    loader_shard shard; warp warp; loader_filter filter; loader_color color; loader_fields fields; loader_read read;
    loader_decode decode; loader_errors errors; loader_pipeline pipeline; loader_augment augment
tensor: u32 struct_size, dtype; device device; u32 dimensions, reserved0; i64 shape[6]; ptr data; u64 bytes; char
    name[32]; u64 reserved[4]
batch_info: u32 struct_size, count, failed, replaced; tensor image; u32 layout, last_of_epoch, operation_views,
    on_loan; u64 epoch, batch, position; ptr targets, indices, status, stream, operations, operation_counts, slices;
    u32 slice_count, slice_slots
loader_info: u32 struct_size, decoder; tensor image; u32 layout, sessions, threads, reader_threads,
    batches_in_flight, read_ahead; u64 samples_per_epoch, batches_per_epoch; char decoder_name[64],
    decoder_reason[128], image_field[32], image_field_reason[96]
stage_statistics: u64 count, bytes, busy_ns, wait_before_ns, wait_after_ns, depth, capacity, threads, reserved[2]
statistics: u32 struct_size, limiting_stage; stage_statistics stage[4]; u64 samples, samples_failed, failed_read,
    failed_format, failed_decode, failed_other, replaced, retries, read_memory_bytes, samples_nvdec,
    samples_software, fallbacks, samples_hybrid, decoders_made, decoders_reconfigured, sessions_lost, lock_waits,
    lock_wait_ns, elapsed_ns, samples_shrinkable; char advice[240]; i32 first_failed_status; u32 reserved0; u64
    first_failed_index; char first_failed_message[488]
loader_state: u32 struct_size, version; u64 seed, epoch, position, fingerprint, sample_count, end_epoch; u32 order,
    check; u64 pixels, list, reserved[6]
sink: u32 struct_size, reserved0; ptr user; write_at_fn write_at; close_fn close
writer_config: u32 struct_size, reserved0; ptr classes; u32 class_count, reserved1; u64 queue_bytes, reserved[4]
field_value: u32 struct_size, kind; str name; ptr data; u64 size
writer_sample: u32 struct_size, split; ptr image, thumb; i64 target; str name; ptr fields; u32 field_count,
    has_target; u64 reserved[2]
records: u32 struct_size, data_type, layout, width, height, channels; u64 header_bytes, stride, data_offset,
    label_offset; u32 label_type; f32 scale, bias; u32 reserved0
formats_config: u32 struct_size, reserved0; ptr dataset; str pairs, extensions, list; ptr records; u64 hold_bytes
formats_weights: u32 struct_size, weighting; ptr weights; u64 weight_count; ptr indices; u64 index_count,
    epoch_samples, seed; u32 by_part, reserved0
rule_input: u32 struct_size, kind; str field; ptr data; u64 size; ptr sample, geometry; u32 view_count, reserved0
rule: u32 struct_size, kind; str field, name; rule_fn call; ptr user; u32 dtype, dimensions; i64 shape[4]; u64
    reserved[4]
"""

# The result, then the arguments. &x: a pointer to one x or to several; out: where pointers go or stand.
FUNCTIONS = """
error_init: void &error size
status_name: str i32
status_text: str i32
version: u32
source_init: void &source size
image_init: void &image size
image_annexb: i32 &image ptr size &size &error
image_inspect: i32 &image &codec_shape &error
context_config_init: void &context_config size
context_open: i32 &context_config out &error
context_close: i32 ptr
context_device_info: i32 ptr &device_info size &error
context_codec_info: i32 ptr u32 u32 u32 &codec_info size &error
dataset_config_init: void &dataset_config size
dataset_open: i32 ptr str &dataset_config out &error
dataset_open_list: i32 ptr ptr u32 &dataset_config out &error
dataset_open_memory: i32 ptr ptr size &dataset_config out &error
dataset_open_source: i32 ptr &source &dataset_config out &error
dataset_close: i32 ptr
dataset_concat: i32 ptr out u32 out &error
dataset_range: i32 ptr u64 u64 out &error
dataset_count: u64 ptr
dataset_part_count: u64 ptr u32
dataset_get_info: i32 ptr &dataset_info size &error
dataset_field_info: i32 ptr u32 &field_info size &error
dataset_track_info: i32 ptr u32 &track_info size &error
dataset_sample: i32 ptr u64 &sample_ref size &error
dataset_target: i32 ptr u64 &i64 &error
dataset_class: i32 ptr i64 ptr size &size &error
dataset_field: i32 ptr u64 str ptr size &size &error
dataset_read_image: i32 ptr u64 str ptr size &image &error
dataset_image_info: i32 ptr u64 str &image_info size &error
provider_init: void &provider size
dataset_open_provider: i32 ptr &provider &dataset_config out &error
decoder_open: i32 ptr out &error
decoder_close: i32 ptr
decoder_decode: i32 ptr &image &picture &error
random_init: void &random u64 u64 u64 u32
random_u32: u32 &random
random_uniform: f64 &random f64 f64
order_permute: u64 u64 u64 u64 u64
geometry_box: u32 &geometry &f64 &f64
transform_init: void &transform size
picture_render: i32 &picture &transform &output ptr size &error
warp_draw: i32 &random &warp u32 u32 u32 u32 &f64 &error
jitter_draw: i32 &random &jitter &mxnet &transform &error
augment_draw: i32 &random &loader_augment u32 u32 &transform &error
loader_config_init: void &loader_config size
loader_open: i32 ptr ptr &loader_config out &error
loader_close: i32 ptr
loader_next: i32 ptr i64 out &error
loader_set_batches: i32 ptr u64 &u64 u64 &u32 u64 &error
loader_stop: i32 ptr &error
loader_reset: i32 ptr u64 &error
loader_save: i32 ptr &loader_state size &error
loader_restore: i32 ptr &loader_state &error
loader_get_info: i32 ptr &loader_info size &error
loader_get_config: i32 ptr &loader_config size &error
loader_statistics: i32 ptr &statistics size &error
statistics_since: i32 &statistics &statistics &statistics size &error
loader_tensor: i32 ptr u32 &tensor size &error
batch_get_info: i32 ptr &batch_info size &error
batch_tensor: i32 ptr str &tensor size &error
batch_bytes: i32 ptr str u32 out &u64 &error
batch_error: i32 ptr u32 &error
batch_release: i32 ptr
batch_move: i32 ptr ptr &error
batch_to_dlpack: i32 ptr str u32 out &error
writer_config_init: void &writer_config size
field_value_init: void &field_value size
writer_sample_init: void &writer_sample size
writer_open: i32 ptr str &writer_config out &error
writer_open_sink: i32 ptr &sink &writer_config out &error
writer_add: i32 ptr u64 &writer_sample i64 &error
writer_finish: i32 ptr &error
writer_close: i32 ptr
formats_codecs: &codec &u64
formats_recognize: u32 ptr u64
formats_heif: void &codec
formats_heif_beside: u32 ptr u64
formats_gif: void &codec
formats_bmp: void &codec
formats_pnm: void &codec
formats_tiff: void &codec
formats_jpeg2000: void &codec
formats_jxl: void &codec
formats_config_init: void &formats_config size
formats_records_init: void &records size
formats_open: i32 ptr str &formats_config out &error
formats_open_list: i32 ptr ptr u32 &formats_config out &error
formats_open_memory: i32 ptr ptr size &formats_config out &error
formats_open_source: i32 ptr &source &formats_config out &error
formats_braces: i32 str ptr size &size &u32 &error
formats_weights_init: void &formats_weights size
formats_weighted_list: i32 ptr &formats_weights u64 &u64 u64 &u64 &error
formats_weighted_give: i32 ptr ptr &formats_weights u64 &error
formats_policy_preset: i32 u32 u32 u32 &policy &error
formats_rule_init: void &rule size
formats_rules_open: i32 ptr &rule u32 &loader_config out &error
formats_rules_close: void ptr
"""

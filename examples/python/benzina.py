"""benzina - pictures for training neural networks, from Python                                         MIT license

One file over ctypes; no compiler is needed, and neither numpy nor torch, though either is used where it is there:

    import benzina
    from benzina import ops

    loader = benzina.DataLoader(benzina.Dataset("train.bzna"), shape=(224, 224), batch_size=256, shuffle=True, seed=1234,
                                mean=(0.485 * 255, 0.456 * 255, 0.406 * 255), std=(0.229 * 255, 0.224 * 255, 0.225 * 255),
                                warp_transform=ops.RandomResizedCrop(scale=(0.08, 1.0), ratio=(3/4, 4/3), flip_h=0.5))
    for epoch in range(90):
        loader.set_epoch(epoch)
        for images, targets in loader:          # torch tensors (else numpy arrays), N x 3 x H x W float32 and N int64
            ...

The library is looked for in $BENZINA_LIBRARY (then nowhere else), beside this file, in ../../build, and where the system keeps
libraries. The manual is the opening comment of benzina.h; what is said here is what Python adds.

Memory. Nothing is copied: tensors and arrays are views of the batch, which goes back to the loader when the last of them is gone,
even after loader and dataset. A loader has multibuffering batches (3); whoever collects more of them gets an Error that says
so, and wants copy=True or a larger multibuffering. Views may be written to.

Data sets. Dataset opens an archive, a folder of pictures, a tar shard, a .rec, or several. Dataset("photos").classes
names a folder's classes. DataLoader(..., tensors=["label:5"], bytes=["txt", "json"]) delivers further fields: the loop is then
`for images, targets, fields in loader`, and fields["txt"] a list with a text, or None, for each sample.

idx, cifar and csv make data sets of MNIST's, CIFAR's and tables' files.

Single samples. dataset.fields names what samples hold; dataset[i].fields["name"], or dataset.field(i, "name"), is what
one of them has. dataset[i].image() is the whole picture, upright, H x W x 3 uint8 in RGB. Writer writes archives, of picture
files, arrays, PIL pictures or coded ones.

Processes. A Dataset opened from a path, and a Context, can be pickled and copied: each copy opens the file again, by
its absolute path. A Dataset over a source, a DataLoader, a Batch and a Writer cannot, and say so.

GPU. Where the machine has one, it decodes and warps, unless decoder="software" or device="cpu" says otherwise. Batches
come to host memory, which is where numpy reads; but with torch, where torch has CUDA, they stay on the GPU, and
memory="host" or "device" is the last word. Targets, indices and status are always on the host. Nobody waits for the
GPU: what takes a batch by DLPack names its stream, as torch does, and that stream is made to wait (Batch.move); when
the last view is gone, the batch is written again behind what was enqueued on it by then. A consumer that uses several
streams must order them itself, as DLPack asks.

Low level. lib has every function of benzina.h, declared, structs every struct, and every object here a handle for them, which is valid
while the object lives: keep the object in a variable.

Threads. Callbacks (a source's read_at, a transform or picture callback written in Python) run on the library's threads, several at once,
each holding the interpreter's lock while it runs: right, and slow. The transforms of ops run without Python, the Constant warp excepted.
What callbacks are given is Python's own, and may be kept. An exception in a callback is raised where the next batch is asked for, with its
traceback: only damaged data cost a slot. (on_callback_error="sample" lets it pass as such.) A read_at that fails by an OSError or an
EOFError, as files and connections do, costs its sample; any other exception is a fault of the source, and raised. The last one is kept:
DataLoader.last_exception.

Normalization. y = (x - bias) * norm with x in 0..255: norm MULTIPLIES. The original's ImageNet example passes the standard
deviation where its reciprocal is meant. mean= and std= are the other spelling, y = (x - mean) / std; both at once are refused.
"""
import array as _array
import collections as _collections
import collections.abc as _abc
import concurrent.futures as _futures
import ctypes as _c
import ctypes.util as _ctypes_util
import enum as _enum
import errno as _errno
import inspect as _inspect
import io as _io
import itertools as _itertools
import json as _json
import math as _math
import os as _os
import random as _random
import re as _re
import shutil as _shutil
import subprocess as _subprocess
import sys as _sys
import tempfile as _tempfile
import threading as _threading
import time as _time
import traceback as _traceback
import types as _types
import warnings as _warnings
import weakref as _weakref

__all__ = ["Batch", "Context", "DataLoader", "Dataset", "Distributed", "Error", "Field", "Output", "Picture", "Random", "Sample", "Status",
           "Writer", "cifar", "compute_affine_matrix", "csv", "device_count", "distributed_from_env", "idx", "lib", "ops",
           "structs", "version"]


# ---- the C interface --------------------------------------------------------------------------------------------------------
# Structs and functions as benzina.h has them, in its order; tests/test_python.py holds every field and every argument to it.

class Status(_enum.IntEnum):
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


NO_OFFSET = 2**64 - 1
TARGET_NONE = -1
EPOCHS_ENDLESS = 2**64 - 1
WAIT_FOREVER = -1

DEVICE_AUTO, DEVICE_CPU, DEVICE_CUDA = 0, 1, 2
FILTER_LINEAR, FILTER_NEAREST, FILTER_CUBIC, FILTER_AREA, FILTER_LANCZOS4, FILTER_LANCZOS3, FILTER_CUBIC_075 = range(7)
ANTIALIAS_AUTO, ANTIALIAS_OFF = 0, 1
DTYPE_FLOAT32, DTYPE_FLOAT16, DTYPE_BFLOAT16, DTYPE_UINT8 = 0, 1, 2, 3
DTYPE_INT32, DTYPE_INT64, DTYPE_UINT64 = 16, 17, 18
LAYOUT_NCHW, LAYOUT_NHWC = 0, 1
CHANNELS_RGB, CHANNELS_BGR, CHANNELS_GRAY = 0, 1, 2
CODEC_UNKNOWN, CODEC_H264, CODEC_H265, CODEC_AV1, CODEC_JPEG, CODEC_STILL, CODEC_RAW, CODEC_HEIF = range(8)
PALETTE_COLORS, PALETTE_INDEX = 0, 1
DECODER_AUTO, DECODER_SOFTWARE, DECODER_NVDEC = 0, 1, 2
CHECK_NONE, CHECK_PASSED, CHECK_FAILED, CHECK_SKIPPED = 0, 1, 2, 3
FIELD_PICTURE, FIELD_INTEGER, FIELD_VECTOR, FIELD_TEXT, FIELD_BYTES = 1, 2, 3, 4, 5
ORDER_SEQUENTIAL, ORDER_SHUFFLE = 0, 1
LAST_PARTIAL, LAST_DROP, LAST_PAD = 0, 1, 2
WARP_NONE, WARP_RANDOM_RESIZED_CROP, WARP_CENTER_RESIZED_CROP, WARP_SIMILARITY, WARP_MXNET = range(5)
LAW_AUTO, LAW_BENZINA, LAW_TORCHVISION = 0, 1, 2
ON_ERROR_FILL, ON_ERROR_REPLACE, ON_ERROR_STOP = 0, 1, 2
ON_CALLBACK_ERROR_STOP, ON_CALLBACK_ERROR_SAMPLE = 0, 1
WEIGHTING_NONE, WEIGHTING_REPLACE, WEIGHTING_ONCE = 0, 1, 2
LOG_ERROR, LOG_WARNING, LOG_INFO, LOG_DEBUG = 1, 2, 3, 4
DLPACK_0, DLPACK_1 = 0, 1

structs = _types.SimpleNamespace()              # structs.error mirrors struct bzna_error, and so on

_types_by_name = {
    "u8": _c.c_uint8, "u16": _c.c_uint16, "u32": _c.c_uint32, "u64": _c.c_uint64, "i32": _c.c_int32, "i64": _c.c_int64,
    "f32": _c.c_float, "f64": _c.c_double, "size": _c.c_size_t, "char": _c.c_char, "ptr": _c.c_void_p, "str": _c.c_char_p,
    "alloc_fn": _c.CFUNCTYPE(_c.c_void_p, _c.c_void_p, _c.c_size_t, _c.c_size_t),
    "release_fn": _c.CFUNCTYPE(None, _c.c_void_p, _c.c_void_p, _c.c_size_t),
    "device_alloc_fn": _c.CFUNCTYPE(_c.c_uint64, _c.c_void_p, _c.c_size_t, _c.c_void_p),
    "device_release_fn": _c.CFUNCTYPE(None, _c.c_void_p, _c.c_uint64, _c.c_size_t, _c.c_void_p),
    "log_fn": _c.CFUNCTYPE(None, _c.c_void_p, _c.c_int32, _c.c_int32, _c.c_char_p),
    "read_at_fn": _c.CFUNCTYPE(_c.c_int64, _c.c_void_p, _c.c_uint64, _c.c_void_p, _c.c_uint64),
    "size_fn": _c.CFUNCTYPE(_c.c_int64, _c.c_void_p),
    "close_fn": _c.CFUNCTYPE(None, _c.c_void_p),
    "write_at_fn": _c.CFUNCTYPE(_c.c_int32, _c.c_void_p, _c.c_uint64, _c.c_void_p, _c.c_uint64),
    "transform_fn": _c.CFUNCTYPE(_c.c_int32, _c.c_void_p, _c.c_void_p, _c.c_void_p, _c.c_void_p),
    "picture_fn": _c.CFUNCTYPE(_c.c_int32, _c.c_void_p, _c.c_void_p, _c.c_void_p, _c.c_void_p, _c.c_void_p),
}

_STRUCTS = """
error:          u32 struct_size; i32 status; u64 byte_offset; i32 native_code; u32 fourcc; char message[232]
allocator:      ptr user; alloc_fn alloc; release_fn release
source:         u32 struct_size, reserved0; ptr user; read_at_fn read_at; size_fn size; close_fn close
sink:           u32 struct_size, reserved0; ptr user; write_at_fn write_at; close_fn close
device_allocator: ptr user; device_alloc_fn alloc; device_release_fn release
device:         i32 kind, ordinal
context_config: u32 struct_size; i32 log_level; device device; allocator allocator; log_fn log; ptr log_user;
                u32 log_any_thread, max_edge_px; u64 max_sample_bytes;
                u32 sessions, sessions_per_engine, session_depth, session_mapped; u64 decode_memory_bytes;
                device_allocator device_allocator; ptr cuda_context
device_info:    u32 struct_size, driver; device device; u64 memory_bytes; u32 compute_major, compute_minor, engines,
                sessions; i32 video; u32 reserved0; char name[96], message[232]
codec_info:     u32 struct_size, codec, chroma_format, depth, supported, engines, min_width, min_height, max_width,
                max_height, max_macroblocks, check; char check_message[128]
color:          u16 primaries, transfer, matrix; u8 full_range, present
image:          u32 struct_size, codec, width, height, frame_width, frame_height, crop_x, crop_y; color color;
                u32 length_size, orientation; ptr config; u64 config_size; ptr data; u64 data_size; u32 palette, reserved1
records:        u32 struct_size, data_type, layout, width, height, channels; u64 header_bytes, stride, data_offset,
                label_offset; u32 label_type; f32 scale, bias; u32 reserved0
dataset_config: u32 struct_size, reserved0; str name, split, format, list; ptr classes; u32 class_count, class_order,
                orientation, palette; ptr records; u64 reserved[4]
dataset_info:   u32 struct_size, field_count; u64 size_bytes, sample_count, target_count; u32 part_count, track_count,
                brand_count, brands[8]; char container[20]; u64 trailing_bytes
field_info:     u32 struct_size, kind; char name[32]
track_info:     u32 struct_size, handler, format, flags; u64 sample_count; char name[32], mime[64]
sample:         u32 struct_size, image_count; u64 index, offset, size; i64 target; char image_names[4][32]
image_info:     u32 struct_size, codec, fourcc, width, height, frame_width, frame_height, crop_x, crop_y; i32 clap[8];
                u32 length_size; color color; u64 config_offset, config_size, data_offset, data_size;
                u32 orientation, beside
picture:        u32 struct_size, depth, width, height, crop_x, crop_y, frame_width, frame_height, chroma_shift_x,
                chroma_shift_y, chroma_left, chroma_top; color color; ptr plane[3]; i64 pitch[3];
                u32 orientation, step[3]
random:         u32 key[2], counter[4], block[4], used, reserved0
transform:      u32 struct_size, filter; f64 homography[9]; f32 bias[3], scale[3], fill[3]; u32 fill_space, matrix,
                antialias, clamp_hue, grayscale, reserved0; f32 color[12], hls[3], brightness, contrast, saturation, hue
sample_info:    u32 struct_size, slot; u64 index, epoch; i64 target; u32 width, height, out_width, out_height;
                u64 occurrence; u32 view, output
output:         u32 struct_size, width, height, dtype, layout, channels
affine:         u32 struct_size, in_width, in_height, out_width, out_height, has_crop; f64 crop_x, crop_y, crop_width,
                crop_height, degrees, translate_x, translate_y; u32 flip_h, flip_v, resize, keep_ratio
warp:           u32 kind, law; f64 scale[2], ratio[2], degrees[2], translate[2], flip_h, flip_v, rotate[2], shear[4],
                perspective, perspective_p; u32 resize, keep_ratio, random_crop, reserved0; f64 shear_ratio;
                u32 canvas_px[2], crop_px[2], pad_px, short_edge_px, has_crop_start, crop_x_start, crop_y_start,
                reserved1; u64 reserved[4]
jitter:         f32 brightness[2], contrast[2], saturation[2], hue[2], grayscale, mxnet_hls[3], mxnet_contrast,
                mxnet_illumination; u32 mxnet_clamp_hue, reserved0; u64 reserved[2]
buffer:         ptr data; u64 bytes
loader_output:  u32 batch_size, width, height, dtype, layout, channels, views, slices; device device; ptr stream,
                buffers; u32 buffer_count, reserved0; u64 reserved[4]
loader_order:   u32 kind, last_batch; u64 seed, epochs, first_epoch; ptr indices; u64 index_count; ptr weights;
                u64 weight_count; u32 weighting, weights_by_part; u64 epoch_samples, reserved[4]
loader_shard:   u32 rank, world_size; u64 reserved[2]
loader_filter:  u32 kind, antialias; u64 reserved[2]
loader_color:   f32 mean[3], std[3], bias[3], scale[3], fill[3]; u32 fill_space, matrix, reserved0; ptr mean_image;
                u64 mean_image_bytes; jitter jitter; u64 reserved[2]
extra_output:   u32 struct_size, width, height, dtype, layout, channels, views, own_warp, own_filter, own_color;
                str name, field; warp warp; loader_filter filter; loader_color color
loader_outputs: ptr ptr; u64 count
loader_fields:  str image, tensors, bytes; u64 reserved[3]
loader_read:    u32 threads, ahead_samples; u64 memory_bytes; u32 retries, reserved0; u64 backoff_ns, reserved[4]
loader_decode:  u32 decoder, threads, verify_every, jpeg, jpeg_shrink, reserved0; u64 reserved[2]
loader_errors:  u32 policy, callback_policy; u64 reserved[2]
loader_pipeline: u32 batches_in_flight, restore_any_pixels; ptr cpus; u32 cpu_count, reserved0;
                transform_fn transform; ptr transform_user; picture_fn picture; ptr picture_user; u64 reserved[2]
loader_config:  u32 struct_size, reserved0; loader_output output; loader_outputs outputs; loader_order order;
                loader_shard shard; warp warp; loader_filter filter; loader_color color; loader_fields fields;
                loader_read read; loader_decode decode; loader_errors errors; loader_pipeline pipeline
tensor:         u32 struct_size, dtype; device device; u32 dimensions, reserved0; i64 shape[6]; ptr data; u64 bytes;
                char name[32]; u64 reserved[4]
batch_info:     u32 struct_size, count, failed, replaced; tensor image; u32 layout, last_of_epoch, slices, reserved0;
                u64 epoch, batch, position; ptr targets, indices, status, stream
loader_info:    u32 struct_size, decoder; tensor image; u32 layout, sessions, threads, reader_threads,
                batches_in_flight, read_ahead; u64 samples_per_epoch, batches_per_epoch; char decoder_name[64],
                decoder_reason[128], picture[32], picture_reason[96]
stage_stats:    u64 count, bytes, busy_ns, wait_before_ns, wait_after_ns, depth, capacity, reserved[3]
loader_stats:   u32 struct_size, limiting_stage; stage_stats stage[4]; u64 samples, samples_failed, failed_read,
                failed_format, failed_decode, failed_other, replaced, retries, read_memory_bytes, samples_nvdec,
                samples_software, fallbacks, decoders_made, decoders_reconfigured, sessions_lost, verified, verify_failed,
                samples_tiled, tiles, lock_waits, lock_wait_ns
loader_state:   u32 struct_size, version; u64 seed, epoch, position, fingerprint, sample_count, end_epoch; u32 order,
                check; u64 pixels, reserved[7]
writer_config:  u32 struct_size, class_count; ptr classes; u64 queue_bytes, reserved[4]
field_value:    u32 struct_size, kind; str name; ptr data; u64 size
sample_desc:    u32 struct_size, split; ptr image, thumb; i64 target; str name; ptr fields; u32 field_count, reserved0;
                u64 reserved[2]
"""


def _define_structs():
    for name, body in _re.findall(r"^(\w+):((?:.*\n)(?:[ ].*\n)*)", _STRUCTS, _re.M):
        fields = []
        for group in body.split(";"):
            type_name, names = group.split(None, 1)
            for declarator in names.split(","):
                field, *sizes = _re.findall(r"\w+", declarator)
                kind = _types_by_name[type_name]
                for size in reversed(sizes):
                    kind = kind * int(size)
                fields.append((field, kind))
        _types_by_name[name] = type("bzna_" + name, (_c.Structure,), {"_fields_": fields})
        setattr(structs, name, _types_by_name[name])


_define_structs()

# Result and arguments. &x: a pointer to a struct or number x; out: where a new object's pointer goes.
_FUNCTIONS = """
error_init: void &error size
status_name: str i32
status_text: str i32
version: u32
source_init: void &source size
sink_init: void &sink size
context_config_init: void &context_config size
context_open: i32 &context_config out &error
context_close: i32 ptr
device_count: i32 &u32 &error
context_get_device_info: i32 ptr &device_info size &error
context_get_codec_info: i32 ptr u32 u32 u32 &codec_info size &error
image_init: void &image size
image_annexb: i32 &image ptr size &size &error
dataset_config_init: void &dataset_config size
records_init: void &records size
dataset_open: i32 ptr str &dataset_config out &error
dataset_open_list: i32 ptr ptr u32 &dataset_config out &error
dataset_open_memory: i32 ptr ptr size &dataset_config out &error
dataset_open_source: i32 ptr &source &dataset_config out &error
dataset_close: i32 ptr
dataset_concat: i32 ptr out u32 out &error
dataset_range: i32 ptr u64 u64 out &error
dataset_count: u64 ptr
dataset_get_info: i32 ptr &dataset_info size &error
dataset_get_field_info: i32 ptr u32 &field_info size &error
dataset_get_track_info: i32 ptr u32 &track_info size &error
dataset_get_sample: i32 ptr u64 &sample size &error
dataset_target: i32 ptr u64 &i64 &error
dataset_class: i32 ptr i64 ptr size &size &error
dataset_field: i32 ptr u64 str ptr size &size &error
dataset_read_image: i32 ptr u64 str ptr size &image &error
dataset_get_image_info: i32 ptr u64 str &image_info size &error
picture_init: void &picture size
decoder_open: i32 ptr out &error
decoder_close: i32 ptr
decoder_decode: i32 ptr &image &picture &error
philox: void &u32 &u32 &u32
random_init: void &random u64 u64 u64 u32
random_fork: void &random u32 u64
random_u32: u32 &random
random_uniform: f64 &random f64 f64
permute: u64 u64 u64 u64 u64
transform_init: void &transform size
output_init: void &output size
picture_render: i32 &picture &transform &output ptr size &error
affine_init: void &affine size
affine_matrix: i32 &affine &f64 &error
warp_init: void &warp size
warp_draw: i32 &random &warp u32 u32 u32 u32 &f64 &error
homography_multiply: void &f64 &f64 &f64
jitter_init: void &jitter size
jitter_draw: i32 &random &jitter &transform &error
loader_config_init: void &loader_config size
extra_output_init: void &extra_output size
loader_open: i32 ptr ptr &loader_config out &error
loader_close: i32 ptr
loader_next: i32 ptr i64 out &error
loader_stop: i32 ptr &error
loader_reset: i32 ptr u64 &error
loader_save: i32 ptr &loader_state size &error
loader_restore: i32 ptr &loader_state &error
loader_get_info: i32 ptr &loader_info size &error
loader_get_stats: i32 ptr &loader_stats size &error
loader_tensor: i32 ptr u32 &tensor size &error
batch_get_info: i32 ptr &batch_info size &error
batch_tensor: i32 ptr str &tensor size &error
batch_bytes: i32 ptr str u32 out &u64 &error
batch_error: i32 ptr u32 &error
batch_slice: i32 ptr u32 out &u32 &error
batch_release: i32 ptr
batch_move: i32 ptr ptr &error
batch_to_dlpack: i32 ptr str u32 out &error
writer_config_init: void &writer_config size
field_value_init: void &field_value size
sample_desc_init: void &sample_desc size
writer_open: i32 ptr str &writer_config out &error
writer_open_sink: i32 ptr &sink &writer_config out &error
writer_add: i32 ptr &sample_desc &error
writer_add_at: i32 ptr u64 &sample_desc i64 &error
writer_finish: i32 ptr &error
writer_close: i32 ptr
"""


def _load_library():
    here = _os.path.dirname(_os.path.abspath(__file__))
    named = _os.environ.get("BENZINA_LIBRARY")
    tried = [named] if named else [_os.path.join(here, "libbenzina.so"), _os.path.join(here, "..", "..", "build", "libbenzina.so")]
    path = next((p for p in tried if _os.path.exists(p)), None) or (None if named else _ctypes_util.find_library("benzina"))
    if path is None:
        raise ImportError("libbenzina.so was not found: neither at " + " nor at ".join(tried) +
                          ("" if named else ", nor where the system keeps libraries; BENZINA_LIBRARY names it"))
    return _c.CDLL(path)


lib = _load_library()                           # its functions are declared: lib.bzna_version() and so on


_inits = {}                                     # of the structs that have one


def _define_functions():
    for line in _FUNCTIONS.strip().splitlines():
        name, *kinds = line.replace(":", "").split()
        kinds = [None if k == "void" else _c.POINTER(_c.c_void_p) if k == "out" else
                 _c.POINTER(_types_by_name[k[1:]]) if k[0] == "&" else _types_by_name[k] for k in kinds]
        function = getattr(lib, "bzna_" + name)
        function.restype, function.argtypes = kinds[0], kinds[1:]
        if name.endswith("_init") and len(kinds) == 3:
            _inits[name[:-len("_init")]] = function


_define_functions()
version = "%d.%d.%d" % (lib.bzna_version() // 10000, lib.bzna_version() // 100 % 100, lib.bzna_version() % 100)
if lib.bzna_version() // 100 != 3:              # until 1.0, structs may change with the minor version
    raise ImportError("this file is for libbenzina 0.3, the library found is " + version)


# ---- errors -----------------------------------------------------------------------------------------------------------------

class Error(Exception):
    """What the library reports. status: a Status; byte_offset: in the file, or None; native_code: errno and such, or 0.
    Error("text") has the text alone, and None for a status: torch raises errors of its workers again in this way."""

    def __init__(self, status=None, message="", byte_offset=None, native_code=0):
        if isinstance(status, str) and not message:
            status, message = None, status
        if status is not None:
            try:
                status = Status(status)
            except ValueError:                  # of a newer library
                status = int(status)
            message = message or lib.bzna_status_text(status).decode()
        super().__init__(status, message, byte_offset, native_code)
        self.status, self.message, self.byte_offset, self.native_code = self.args

    def __str__(self):
        if self.status is None:
            return self.message
        return "%s (%s)" % (self.message, lib.bzna_status_name(self.status).decode())


def _new(name):
    """A struct as the library's init function prepares it; one without, with its size set and all else zero."""
    kind = getattr(structs, name)
    if name not in _inits:
        return kind(struct_size=_c.sizeof(kind))
    made = kind()
    _inits[name](made, _c.sizeof(made))
    return made


# ---- numbers on their way to C ------------------------------------------------------------------------------------------------

_WHOLE = {kind: (-(1 << bits - 1), (1 << bits - 1) - 1) if kind(-1).value < 0 else (0, (1 << bits) - 1)
          for kind in (_c.c_uint8, _c.c_uint16, _c.c_uint32, _c.c_uint64, _c.c_size_t, _c.c_int32, _c.c_int64) for bits in [8 * _c.sizeof(kind)]}
_REAL = {_c.c_float: 2.0**128 * (1 - 2.0**-24), _c.c_double: _sys.float_info.max}


def _number(what, value, kind, low=None, high=None):
    """A number as C's type kind takes it: ctypes alone would cut off what is too large. Whole numbers are what has __index__, numpy's
    among them, real ones what has __float__, too. Others are refused, called what, and what is not within low..high, as far as given,
    and within the type."""
    try:
        if kind in _WHOLE:
            least, most = _WHOLE[kind]
            number = value.__index__()
        else:
            least, most = -_REAL[kind], _REAL[kind]
            number = float(value.__float__() if hasattr(value, "__float__") else value.__index__())
    except (AttributeError, TypeError, OverflowError):
        raise TypeError("%s: %r is no %snumber" % (what, value, "whole " if kind in _WHOLE else "")) from None
    if not _math.isfinite(number):
        raise ValueError("%s: %r is not finite" % (what, number))
    least, most = least if low is None else low, most if high is None else high
    if not least <= number <= most:
        raise ValueError("%s: %s is not within %s..%s" % ((what, *(x if isinstance(x, int) else "%g" % x for x in (number, least, most)))))
    return number


def _flag(what, value):
    """True or False, or a number that equals one of them."""
    if not any(value is known or (hasattr(value, "__float__") and value == known) for known in (False, True)):
        raise ValueError("%s: %r is neither True nor False" % (what, value))
    return bool(value)


def _put(struct, member, value, what=None, low=None, high=None):
    """Sets one number of a struct."""
    kind = next(kind for name, kind in struct._fields_ if name == member)
    setattr(struct, member, _number(what or member, value, kind, low, high))


def _many(what, values, kind):
    """An array.array of any number of them, all of one kind; quick, where they are Python's or numpy's own."""
    values = values.tolist() if hasattr(values, "tolist") else values
    if not isinstance(values, _abc.Iterable) or isinstance(values, (str, bytes)):
        raise TypeError("%s: %r is no list of numbers" % (what, values))
    values = list(values)
    kinds = set(map(type, values))
    if any(one.__name__ in ("bool", "bool_") for one in kinds):
        raise TypeError("%s: a mask, of True and False: give the numbers of what it takes, numpy.flatnonzero(mask)" % what)
    if not kinds <= ({int} if kind in _WHOLE else {int, float}) or not _all_fit(values, kind):
        values = [_number("%s[%d]" % (what, i), value, kind) for i, value in enumerate(values)]
    return _array.array({_c.c_uint64: "Q", _c.c_double: "d"}[kind], values)


def _all_fit(numbers, kind):
    if kind in _WHOLE:
        return not numbers or _WHOLE[kind][0] <= min(numbers) <= max(numbers) <= _WHOLE[kind][1]
    return all(map(_math.isfinite, map(float, numbers)))


def _error_of(status, err):
    if err is None or not err.message:
        return Error(status)
    message = err.message.decode("utf-8", "replace")
    message = _LOADER_CONFIG.sub(lambda field: _KEYWORDS.get(field[1], field[0]), message)
    message = _re.sub(r"\b(?:context|dataset)_config\.(\w+)", r"\1", message)
    message = message.replace("release one first, or raise batches_in_flight",     # their names here
                              "let go of one, give copy=True, or a larger multibuffering")
    return Error(status, message, None if err.byte_offset == NO_OFFSET else err.byte_offset, err.native_code)


def _check(status, err=None, cause=None):
    """cause: the last exception of a source or sink, which is blamed where reading or writing failed. What is no trouble with the data
    is raised itself, as if it had not gone through C."""
    if status == Status.E_CALLBACK and cause is not None:
        _raise_of_callback(cause, _error_of(status, err))
    if status < 0:
        raise _error_of(status, err) from (cause if status == Status.E_IO else None)
    return status


def _raise_of_callback(exception, error):
    """Raises what a user's callback raised, on whatever thread, with its own traceback; error says for which sample."""
    if isinstance(exception, StopIteration):    # which would end a loop over a loader in silence
        raise RuntimeError("%s: it raised StopIteration" % error.message) from exception
    if exception.__cause__ is None and exception.__context__ is None:
        raise exception from error
    raise exception


def _told(name, function, *arguments, source=None):
    """The struct that one of the library's get functions fills; source: what may have failed under it."""
    info, err = _new(name), _new("error")
    status = function(*arguments, info, _c.sizeof(info), err)
    _check(status, err, source and source.failure)
    return info


# ---- objects that C holds on to ---------------------------------------------------------------------------------------------

# What callbacks find by their user pointer, a number. A callback that comes too late finds nothing, instead of freed memory. Loaders
# own their hooks, and are found weakly: what a callback refers to, or its exception's traceback, may be the loader.
_registry = {}
_registry_keys = _itertools.count(1)


def _register(thing):
    key = next(_registry_keys)
    _registry[key] = thing
    return key


# The garbage collector may run inside a callback, on a thread of the library's, where nothing can be closed: closing is put off.
_put_off = _collections.deque()


def _dispose(close, handle, process, key=None):
    if _os.getpid() != process:                 # after fork, a child must not touch its parent's objects
        return
    if close(handle) == Status.E_STATE:
        _put_off.append((close, handle, process, key))
    elif key is not None:
        _registry.pop(key, None)


def _dispose_put_off():
    for _ in range(len(_put_off)):
        try:
            _dispose(*_put_off.popleft())
        except IndexError:                      # another thread was faster
            return


def _owned(owner, close, handle, key=None):
    """Closes handle once: when the owner says so, when it is collected, or before the interpreter ends; the latest made goes first."""
    return _weakref.finalize(owner, _dispose, close, handle, _os.getpid(), key)


class _Handled:
    """What holds a handle of the library's until its close(), or the end of a with block."""

    _gone = "it is closed"
    _handle = None

    @property
    def handle(self):
        if self._handle is None:
            raise Error(Status.E_STATE, self._gone)
        return self._handle

    def close(self):
        """Lets go; what was made with it stays usable."""
        self._handle = None
        self._close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()


def _uncopied(advice):
    """A __reduce__ for what holds a handle that only this process, and only one object, may hold."""
    def __reduce__(self):
        raise TypeError("a %s can be neither pickled nor copied: %s" % (type(self).__name__, advice))
    return __reduce__


def _callback(kind):
    """Makes a C function pointer of the function below it; it lives as long as the module."""
    return _types_by_name[kind]


def _check_callback(what, given, arguments):
    """Refuses what cannot be called with these arguments, by their names: a slip that would else be one of every sample."""
    if not callable(given):
        raise TypeError("%s: %r cannot be called; it must take (%s)" % (what, given, arguments))
    if isinstance(given, type):
        raise TypeError("%s: %s is a class; give an instance of it" % (what, given.__name__))
    package = type(given).__module__.split(".")[0]
    if package in ("torchvision", "albumentations", "kornia"):
        raise TypeError("%s: %s is a transform of %s's, which takes pictures; a callback takes (%s)" %
                        (what, type(given).__name__, package, arguments))
    called = given.forward if hasattr(given, "register_forward_hook") else given        # a module of torch's takes anything itself
    try:
        signature = _inspect.signature(called)
    except (TypeError, ValueError):             # of some that are written in C, nobody knows it
        return
    try:
        signature.bind(*arguments.split(", "))
    except TypeError as error:
        name = getattr(given, "__qualname__", type(given).__name__)
        raise TypeError("%s: %s%s is called with (%s): %s" % (what, name, signature, arguments, error)) from None


class Context(_Handled):
    """Log, limits and device, shared by what is made with it. device: None (a GPU where there is one), "cpu", "cuda",
    "cuda:0", a CUDA device's number, or (kind, ordinal) by DLPack's numbers, as __dlpack_device__() gives. log: a
    callable (level, status, message), called on the thread that calls the library, until this is closed. sessions,
    decode_memory_bytes: of the GPU's decoders; cuda_context: the address of a CUcontext to work in, instead of the
    device's primary context."""

    _gone = "the context is closed"
    _shared = False

    def __init__(self, device=None, log=None, log_level=LOG_WARNING, max_sample_bytes=0, max_edge_px=0, sessions=0, decode_memory_bytes=0,
                 cuda_context=None):
        _dispose_put_off()
        config = _new("context_config")
        self._device = config.device.kind, config.device.ordinal = _device_of(device)
        for name, value in dict(max_sample_bytes=max_sample_bytes, max_edge_px=max_edge_px, log_level=log_level, sessions=sessions,
                                decode_memory_bytes=decode_memory_bytes).items():
            _put(config, name, value)
        config.cuda_context = None if cuda_context is None else _number("cuda_context", cuda_context, _c.c_size_t)
        key = None
        if log is not None:
            _check_callback("log", log, "level, status, message")
            key = _register(log)
            config.log, config.log_user = _log_thunk, key
        handle, err = _c.c_void_p(), _new("error")
        status = lib.bzna_context_open(config, handle, err)
        if status < 0:
            _registry.pop(key, None)
        _check(status, err)
        self._handle = handle.value
        self._close = _owned(self, lib.bzna_context_close, self._handle, key)
        self._settings = (self._device, log, log_level, max_sample_bytes, max_edge_px,
                          sessions, decode_memory_bytes)
        self._cuda_context = cuda_context

    def __reduce__(self):
        """Another one with the same settings."""
        if self._shared:
            return _shared_context, (self._device,)
        if self._cuda_context:
            raise TypeError("a Context with a cuda_context can be neither pickled nor copied: it is this process's")
        return type(self), self._settings

    @property
    def device(self):
        """A structs.device_info; an Error that says why the processor works instead, where there is none."""
        return _told("device_info", lib.bzna_context_device_info, self.handle)

    def codec(self, codec, chroma_format=1, depth=8):
        """A structs.codec_info: what NVDEC can do with CODEC_H264 and so on. chroma_format: 0 gray, 1 4:2:0, 2 4:2:2, 3 4:4:4."""
        numbers = [_number(name, value, _c.c_uint32) for name, value in (("codec", codec), ("chroma_format", chroma_format), ("depth", depth))]
        return _told("codec_info", lib.bzna_context_codec_info, self.handle, *numbers)


def device_count():
    """CUDA devices of this machine; an Error where there is no driver, or the library was built without a GPU path."""
    count, err = _c.c_uint32(), _new("error")
    _check(lib.bzna_device_count(count, err), err)
    return count.value


def _device_of(device):
    """(kind, ordinal)"""
    found = _re.fullmatch(r"(cpu)|cuda|(?:cuda:)?(\d+)", str(device))
    if device is None:
        pair = DEVICE_AUTO, 0
    elif isinstance(device, (tuple, list)) and len(device) == 2:
        pair = tuple(_number("device", number, _c.c_int32) for number in device)
    elif found:
        pair = (DEVICE_CPU, 0) if found[1] else (DEVICE_CUDA, int(found[2] or 0))
    else:
        pair = None
    if pair is None or pair[0] not in (DEVICE_AUTO, DEVICE_CPU, DEVICE_CUDA) or not 0 <= pair[1] < 2**31:
        raise ValueError("device: %r is neither None, 'cpu', 'cuda', 'cuda:N', a number nor (kind, ordinal)" %
                         (device,))
    return pair


@_callback("log_fn")
def _log_thunk(user, level, code, message):
    log = _registry.get(user)
    if log is not None:
        log(level, code, message.decode("utf-8", "replace"))


_shared_contexts = {}                           # of each device: the context, and the process that it is of
_shared_contexts_lock = _threading.Lock()


def _shared_context(device=(DEVICE_AUTO, 0)):
    with _shared_contexts_lock:
        context, process = _shared_contexts.get(device, (None, None))
        if process != _os.getpid():
            context = Context(device)
            context._shared = True
            _shared_contexts[device] = context, _os.getpid()
        return context


# ---- sources ----------------------------------------------------------------------------------------------------------------

class _Failure:
    """The last exception of a source, which its data sets keep: a traceback leads to them, so that the source, which C and with it
    the registry hold, must not."""

    failure = None


class _ReadAtSource:
    """Over an object with read_at(offset, size) -> bytes and size, a number or a method."""

    def __init__(self, thing):
        self.thing = thing

    def size(self):
        return _number("size", self.thing.size() if callable(self.thing.size) else self.thing.size, _c.c_int64, 0)

    def read_into(self, offset, view):
        data = memoryview(self.thing.read_at(offset, len(view))).cast("B")
        if len(data) > len(view):
            raise ValueError("read_at returned %d bytes where %d were asked for" % (len(data), len(view)))
        view[:len(data)] = data
        return len(data)

    def close(self):
        self.thing = None


class _DescriptorSource:
    """A plain file: read by pread on a descriptor of our own, so that threads neither wait for one another nor move its position."""

    def __init__(self, file):
        if file.writable():
            file.flush()
        self.descriptor = _os.dup(file.fileno())

    def size(self):
        return _os.fstat(self.descriptor).st_size

    def read_into(self, offset, view):
        return _os.preadv(self.descriptor, [view], offset)

    def close(self):
        _os.close(self.descriptor)


class _FileSource:
    """Any other file-like object: one thread at a time moves its position and reads."""

    _OF_PYTHON = (_io.BytesIO, _io.BufferedReader, _io.BufferedRandom, _io.FileIO)

    def __init__(self, file):
        self.file, self.lock = file, _threading.Lock()
        self.is_trusted = type(file) in self._OF_PYTHON     # not to keep the memory that it reads into

    def size(self):
        with self.lock:
            return self.file.seek(0, _os.SEEK_END)

    def read_into(self, offset, view):
        with self.lock:
            self.file.seek(offset)
            if not hasattr(self.file, "readinto"):
                data = self.file.read(len(view))
            elif self.is_trusted:
                return self.file.readinto(view)
            else:
                buffer = bytearray(len(view))
                data = memoryview(buffer)[:_number("readinto", self.file.readinto(buffer), _c.c_int64, 0, len(view))]
        view[:len(data)] = data
        return len(data)

    def close(self):
        self.file = None


def _source_over(thing):
    if hasattr(thing, "read_at") and hasattr(thing, "size"):
        return _ReadAtSource(thing)
    if isinstance(thing, _io.TextIOBase):
        raise TypeError("source: the file is open as text; open it with 'rb'")
    raw = thing if isinstance(thing, _io.FileIO) else thing.raw if isinstance(thing, (_io.BufferedReader, _io.BufferedRandom)) else None
    if hasattr(thing, "seekable") and not thing.seekable():
        raise _io.UnsupportedOperation("source: a pipe or the like cannot seek, and samples are read at any place: give "
                                       "io.BytesIO(file.read()), or write what it gives to a file first")
    if isinstance(raw, _io.FileIO) and hasattr(_os, "preadv"):
        if not _os.fstat(thing.fileno()).st_size and _os.pread(thing.fileno(), 1, 0):
            raise _io.UnsupportedOperation("source: the file has bytes, but tells a size of 0, as those in /proc do: give "
                                           "io.BytesIO(file.read())")
        return _DescriptorSource(thing)
    if hasattr(thing, "seek") and hasattr(thing, "read"):
        return _FileSource(thing)
    raise TypeError("source: %s is neither a path, nor has it read_at and size, or seek and read" % type(thing).__name__)


def _callback_failed(holder, exception):
    """Keeps an exception for whoever asks, and gives the number that C is told. What is neither an OSError nor an EOFError is no trouble
    with the data, but a fault of the source."""
    kept = holder.kept()
    if kept is not None:
        kept.failure = exception
    if not isinstance(exception, (OSError, EOFError)):
        return 2**63 - 1
    return -abs(getattr(exception, "errno", None) or _errno.EIO)


@_callback("read_at_fn")
def _read_at_thunk(user, offset, dst, size):
    source = _registry.get(user)
    if source is None:
        return -_errno.EBADF
    try:
        return source.read_into(offset, memoryview((_c.c_char * size).from_address(dst)).cast("B"))
    except BaseException as exception:
        return _callback_failed(source, exception)


@_callback("size_fn")
def _size_thunk(user):
    source = _registry[user]
    try:
        return source.size()
    except BaseException as exception:
        return -abs(_callback_failed(source, exception))        # no size


@_callback("close_fn")
def _close_thunk(user):
    source = _registry.pop(user, None)
    if source is not None:
        source.close()


# ---- data sets --------------------------------------------------------------------------------------------------------------

class Sample(_collections.namedtuple("Sample", "index target filename offset size images")):
    """One sample of a dataset. target: -1 where it has none; filename, also called name: None likewise; offset and
    size: of its bytes in the file; images: the names of the pictures that it holds."""

    _dataset = None                             # that it was taken from

    @property
    def name(self):
        """In an archive, the file that it was made of; in a folder, its path there; its key in a tar; its number in a .rec."""
        return self.filename

    def __getstate__(self):
        """Goes with its dataset where that can be opened again, else without."""
        dataset = self._dataset
        return {"_dataset": dataset} if dataset is not None and dataset._handle and dataset._origin else None

    def __copy__(self):
        return self                             # like any tuple

    def __deepcopy__(self, memo):
        return self

    @property
    def fields(self):
        """What the sample holds, by name, each read when it is asked for: see Dataset.field. None where it has none."""
        return _Fields(self._of(), self.index)

    def image(self, field=None, shape=None, box=None, filter="linear", antialias=True):
        """The decoded picture as a numpy array, H x W x 3 uint8 in RGB: all of it, upright, neither scaled nor normalized.
        field: "image" (or None), "thumb", or one of images. It is decoded in software, on this thread. Where it is damaged,
        an Error names the sample.

        shape: (height, width) to resize it to, or one number for both; box: (left, top, right, bottom), the part of it that
        is resized, in pixels and parts of them; filter, antialias: as DataLoader's. So PIL's resize(size, resample, box)."""
        numpy = _installed("numpy")
        if numpy is None:
            raise ImportError("Sample.image() gives a numpy array: numpy is not installed")
        transform, output = _new("transform"), _new("output")                   # the identity
        transform.filter, transform.antialias = _choice("filter", filter), _choice("antialias", antialias)
        coded, kept = self._coded(field)
        decoder, picture, err = _c.c_void_p(), _new("picture"), _new("error")
        _check(lib.bzna_decoder_open(self._dataset._open_context().handle, decoder, err), err)
        try:
            status = lib.bzna_decoder_decode(decoder, coded, picture, err)
            if status == Status.OK:
                width, height = picture.width, picture.height
                if picture.orientation > 4:     # it lies on its side
                    width, height = height, width
                box = (0, 0, width, height) if box is None else _floats("box", box, 4, _c.c_double)
                output.height, output.width, transform.homography[:] = _resizing(box, shape)
                output.layout, output.dtype = LAYOUT_NHWC, DTYPE_UINT8          # as bzna extract
                pixels = numpy.empty((output.height, output.width, 3), numpy.uint8)
                status = lib.bzna_picture_render(picture, transform, output, pixels.ctypes.data, pixels.nbytes, err)
        finally:
            lib.bzna_decoder_close(decoder)
        if status < 0:
            error, name = _error_of(status, err), " (%s)" % self.filename if self.filename else ""
            message = "sample %d%s: %s" % (self.index, name, error.message)
            raise Error(error.status, message, error.byte_offset, error.native_code)
        return pixels

    def image_info(self, field=None):
        """A structs.image_info: what the file says of a picture, and where it lies there."""
        dataset = self._of()
        return _told("image_info", lib.bzna_dataset_image_info, dataset.handle, self.index, _track(field),
                     source=dataset._source)

    def _of(self):
        if self._dataset is None:
            raise ValueError("this Sample was not taken from a Dataset: it has no fields and no picture")
        return self._dataset

    def _coded(self, track="image"):
        """(structs.image, the buffer that it points into)."""
        handle = self._of().handle
        image, err, buffer = _new("image"), _new("error"), (_c.c_char * self.size)()
        status = lib.bzna_dataset_read_image(handle, self.index, _track(track), buffer, self.size, image, err)
        _check(status, err, self._dataset.last_exception)
        if image.config_size:                   # it may be the dataset's, which may be closed before the picture is used
            image.kept = _c.create_string_buffer(_c.string_at(image.config, image.config_size), image.config_size)
            image.config = _c.addressof(image.kept)
        return image, buffer


def _track(name):
    return ("image" if name is None else name).encode()


class _Fields(_abc.Mapping):
    """A sample's fields."""

    def __init__(self, dataset, index):
        self._dataset, self._index = dataset, index

    def __getitem__(self, name):
        if name not in self._dataset.fields:
            raise KeyError(name)
        return self._dataset.field(self._index, name)

    def __iter__(self):
        return iter(self._dataset.fields)

    def __len__(self):
        return len(self._dataset.fields)

    def __repr__(self):
        return "<fields %s of sample %d>" % (", ".join(self), self._index)


def _text_of(data):
    return None if data is None else data.split(b"\0")[0].decode("utf-8", "surrogateescape")


def _integer_of(data):
    number, = _array.array("q", data)
    return number


_FIELD_VALUES = {                               # of a field's bytes
    FIELD_PICTURE: bytes, FIELD_BYTES: bytes, FIELD_TEXT: _text_of, FIELD_INTEGER: _integer_of,
    FIELD_VECTOR: lambda data: _array.array("f", data),
}

Track = _collections.namedtuple("Track", "name handler format flags sample_count mime")


def _fourcc(number):
    return number.to_bytes(4, "big").decode("latin-1")


_DATASET_CHOICES = {
    "class_order": {"text": 0, "numeric": 1}, "orientation": {"apply": 0, "ignore": 1},
    "palette": {"colors": 0, "index": 1},
    "data_type": {"uint8": 1, "int32": 2, "int64": 3, "float32": 4},
    "label_type": {None: 0, "uint8": 1, "int32": 2, "int64": 3, "float32": 4},
    "layout": {"nchw": LAYOUT_NCHW, "nhwc": LAYOUT_NHWC},
}


def _records_of(members):
    records = _new("records")
    for name, value in members.items():
        if name == "struct_size" or not hasattr(records, name):
            raise ValueError("records: there is no %r among %s" % (name, ", ".join(n for n, _ in records._fields_[1:-1])))
        if isinstance(value, str) or value is None:
            value = _choice(name, value, _DATASET_CHOICES)
        _put(records, name, value, "records: " + name)
    return records


def _dataset_config(settings):
    """(structs.dataset_config, what it points to)."""
    config, kept = _new("dataset_config"), []
    for name, value in settings.items():
        if value is None:
            continue
        if name == "classes":
            names = [_text("classes", c) for c in value]
            kept.append((_c.c_char_p * len(names))(*names))
            config.class_count, value = len(names), _c.addressof(kept[-1])
        elif name == "records":
            kept.append(_records_of(value))
            value = _c.addressof(kept[-1])
        elif name in _DATASET_CHOICES:
            value = _choice(name, value, _DATASET_CHOICES)
        else:
            value = _text(name, value)
        setattr(config, name, value)
    return config, kept


def _is_path(thing):
    return isinstance(thing, (str, bytes, _os.PathLike))


def _path_bytes(path):
    path = _os.fsencode(path)
    if b"\0" in path:                           # where C would end it
        raise ValueError("path: there is a NUL in it (the bytes of a file are opened as io.BytesIO(data))")
    return path


def _absolute(path):
    """What the same path is from any folder."""
    path = _os.fsencode(path)
    parts = [path] if _os.path.exists(path) else path.split(b"::")
    return b"::".join(map(_os.path.abspath, parts))


class Dataset(_Handled):
    """The samples of a data set: len(dataset), dataset[i] -> Sample, dataset[i:j] -> a Dataset, a + b -> a Dataset.

    source: a path (of an archive, another mp4, a folder of pictures, a tar shard, a .rec), or a pattern of several
    ("shard-{000..146}.tar", "*.tar", "a.tar::b.tar"); or several in a list, which are laid end to end; or an object with read_at(offset, size) -> bytes, called by several threads at once, and size, a number
    or a method; or an open binary file. Of a file that the system opened, only its bytes count: its position stays, it may be
    closed. Any other file-like object is read under a lock, and must stay open.

    split            of an archive: "train", "validation" or "test"
    format           "archive", "folder", "tar", "RecordIO", ... (see info.container): other kinds are refused
    fields           names of fields: dataset.fields and dataset[i].fields show these alone; None: all. A DataLoader
                     delivers picture and target, and whatever else its tensors and bytes name
    list             path of a list of samples (.lst, .csv): which files of a folder, or what labels of a .rec
    classes          of a folder: its class folders, in the order of their numbers; None: all, in class_order
    class_order      "text": "10" comes before "2"; "numeric": after it
    orientation      "apply": pictures are turned as their EXIF data says; "ignore", as torchvision's ImageFolder does
    palette          "colors", or "index": what pictures with a palette give, indices as gray
    records          of a file of fixed-size records: a dict of bzna_records' members; types and layout by name, "uint8", "nhwc".
                     A file of MNIST's format (IDX) needs none; its labels are in another file: see idx
    """

    _gone = "the dataset is closed"
    _classes = _shown = None

    def __init__(self, source, split=None, name=None, context=None, *, format=None, fields=None, list=None, classes=None,
                 class_order="text", orientation="apply", palette="colors", records=None):
        _dispose_put_off()
        context = context or _shared_context()
        if records is None and format is None and _is_path(source):
            records = _idx_records(source)
        settings = dict(split=split, name=name, format=format, list=list, classes=classes and tuple(classes),
                        class_order=class_order, orientation=orientation, palette=palette,
                        records=records and dict(records))
        (config, kept), handle, err = _dataset_config(settings), _c.c_void_p(), _new("error")
        paths = source if isinstance(source, (tuple, type([]))) else None
        self._source = self._origin = None
        if paths is not None:
            array = (_c.c_char_p * len(paths))(*map(_path_bytes, paths))
            _check(lib.bzna_dataset_open_list(context.handle, array, len(paths), config, handle, err), err)
        elif _is_path(source):
            _check(lib.bzna_dataset_open(context.handle, _path_bytes(source), config, handle, err), err)
        else:
            over, self._source = _source_over(source), _Failure()
            over.kept = _weakref.ref(self._source)
            key = _register(over)
            callbacks = _new("source")
            callbacks.user, callbacks.close = key, _close_thunk
            callbacks.read_at, callbacks.size = _read_at_thunk, _size_thunk
            status = lib.bzna_dataset_open_source(context.handle, callbacks, config, handle, err)
            if status < 0:
                _close_thunk(key)
            _check(status, err, self._source.failure)
        del kept                                # the library has copied it
        self._adopt(context, handle.value)
        if fields is not None:
            self._shown = self._known(fields)
        if self._source is None:
            where = _absolute(source) if paths is None else [_absolute(path) for path in paths]
            settings.update(list=list and _os.path.abspath(list), fields=self._shown)
            self._origin = ("file", where, settings, context, self._length, self.info.size_bytes)

    @classmethod
    def _from_handle(cls, context, handle, source=None, origin=None):
        self = cls.__new__(cls)
        self._source, self._origin = source, origin
        self._adopt(context, handle)
        return self

    def _adopt(self, context, handle):
        self._context, self._handle = context, handle
        self._close = _owned(self, lib.bzna_dataset_close, handle)
        self._length = lib.bzna_dataset_count(handle)
        self._targets = self._filenames = None

    @classmethod
    def concat(cls, datasets, context=None):
        """Several data sets laid end to end."""
        datasets = list(datasets)
        handle, err = _c.c_void_p(), _new("error")
        context = context or (datasets[0]._context if datasets else _shared_context())
        parts = (_c.c_void_p * len(datasets))(*[d.handle for d in datasets])
        _check(lib.bzna_dataset_concat(context.handle, parts, len(datasets), handle, err), err)
        origins = []
        for d in datasets:                      # of a sum, its parts, so that many of them do not nest
            origins.extend(d._origin[1] if d._origin and d._origin[0] == "concat" else [d._origin])
        return cls._from_handle(context, handle.value, origin=None if None in origins else ("concat", origins, context))

    def range(self, first, count):
        """The samples first .. first + count - 1 as a data set."""
        handle, err = _c.c_void_p(), _new("error")
        first, count = _number("first", first, _c.c_uint64), _number("count", count, _c.c_uint64)
        _check(lib.bzna_dataset_range(self.handle, first, count, handle, err), err)
        origin = self._origin
        if origin and origin[0] == "range":     # of a range, so that many of them do not nest
            origin, first = origin[1], origin[2] + first
        origin = origin and ("range", origin, first, count)
        found = Dataset._from_handle(self._context, handle.value, self._source, origin)
        found._shown = self._shown
        return found

    @classmethod
    def _reopened(cls, origin):
        kind, what, *more = origin
        if kind == "range":
            return cls._reopened(what).range(*more)
        if kind == "concat":
            return Dataset.concat([cls._reopened(part) for part in what], *more)
        settings, context, count, size = more
        found = Dataset(what, context=context, **settings)
        if (len(found), found.info.size_bytes) != (count, size):
            where = ", ".join(map(_os.fsdecode, what if isinstance(what, list) else [what]))
            raise Error(Status.E_MISMATCH, "%s: %d samples in %d bytes, but %d in %d when it was opened first" %
                        (where, len(found), found.info.size_bytes, count, size))
        return found

    def __getstate__(self):
        _ = self.handle                         # what is closed says so
        if self._origin is None:
            raise TypeError("a Dataset over a source can be neither pickled nor copied: only a path can be opened again"
                            " (dataset[:] is a second one over the same source)")
        left = ("_handle", "_close", "_source", "_context", "_targets", "_filenames", "_classes")
        return {name: value for name, value in vars(self).items() if name not in left}

    def __setstate__(self, state):
        """Opens the files again."""
        twin = Dataset._reopened(state["_origin"])
        twin._close.detach()                    # the handle is this one's now
        self._source = None
        self._adopt(twin._context, twin._handle)
        vars(self).update(state)

    def _open_context(self):
        return self._context if self._context._handle else _shared_context()

    def __repr__(self):
        what = "closed" if self._handle is None else "%s, %d samples" % (self.info.container.decode(), len(self))
        return "<benzina.Dataset: %s>" % what

    def __add__(self, other):
        return Dataset.concat([self, other]) if isinstance(other, Dataset) else NotImplemented

    def __len__(self):
        return self._length

    def __iter__(self):
        return (self[i] for i in range(len(self)))

    def __getitem__(self, index):
        if isinstance(index, slice):
            first, end, step = index.indices(len(self))
            if step != 1:
                raise ValueError("a slice of a Dataset goes in steps of 1; give a DataLoader indices for other orders")
            return self.range(first, max(0, end - first))
        index = self._index(index)
        sample = _told("sample", lib.bzna_dataset_sample, self.handle, index, source=self._source)
        images = tuple(sample.image_names[i].value.decode("utf-8", "replace") for i in range(sample.image_count))
        found = Sample(index, sample.target, self.filename(index), sample.offset, sample.size, images)
        found._dataset = self
        return found

    def _index(self, index):
        if not hasattr(index, "__index__"):
            raise TypeError("a Dataset takes one index or a slice, not %r; DataLoader(indices=) takes others" % (index,))
        index = index.__index__()
        if not -len(self) <= index < len(self):
            raise IndexError("sample %d of %d" % (index, len(self)))
        return index + len(self) if index < 0 else index

    def target(self, index):
        target, err = _c.c_int64(), _new("error")
        _check(lib.bzna_dataset_target(self.handle, self._index(index), target, err), err, self.last_exception)
        return target.value

    def filename(self, index):
        """None for a sample without one."""
        return _text_of(self._field(self._index(index), b"name"))

    @property
    def fields(self):
        """The names of what its samples hold: "image", "target", ...; those that were chosen, where some were."""
        return list(self._field_kinds() if self._shown is None else self._shown)

    @property
    def classes(self):
        """The names of its classes, in the order of their numbers; [] where they have none."""
        if self._classes is None:
            self._classes = []
            while True:
                try:
                    name = self._value(lib.bzna_dataset_class, len(self._classes))
                except Error as error:
                    if error.status != Status.E_RANGE:
                        raise
                    name = None
                if name is None:
                    break
                self._classes.append(_text_of(name))
        return list(self._classes)

    def field(self, index, name):
        """What a sample has under a name: a number, an array.array of float32, text, bytes, or a picture's bytes as a
        stream of its own, as Writer.add takes it. None where this sample has none; a KeyError where no sample can."""
        index, kind = self._index(index), self._kind(name)
        data = self._field(index, name.encode())
        return None if data is None else _FIELD_VALUES[kind](data)

    def _known(self, names):
        names = [names] if isinstance(names, str) else list(names)
        for name in names:
            self._kind(name)
        return names

    def _kind(self, name):
        """FIELD_..., of the names, too, that targets and pictures have everywhere."""
        kinds = self._field_kinds()
        always = {"target": FIELD_INTEGER, "image": FIELD_PICTURE}
        if name not in kinds and name not in always:
            raise KeyError("%s: there is no such field among %s" % (name, ", ".join(kinds)))
        return kinds.get(name) or always[name]

    def _field_kinds(self):
        """{name: FIELD_...}"""
        infos = [_told("field_info", lib.bzna_dataset_field_info, self.handle, i)
                 for i in range(self.info.field_count)]
        return {info.name.decode("utf-8", "replace"): info.kind for info in infos}

    def _field(self, index, name):
        """Its bytes, or None."""
        return self._value(lib.bzna_dataset_field, index, name)

    def _value(self, function, *arguments):
        """The bytes that a function of the library's gives, or None where there are none."""
        handle, err, needed, size = self.handle, _new("error"), _c.c_size_t(), 256
        while True:
            buffer = _c.create_string_buffer(size)
            status = function(handle, *arguments, buffer, size, needed, err)
            if status == Status.E_NOT_FOUND:
                return None
            if status != Status.E_BUFFER or needed.value <= size:
                _check(status, err, self.last_exception)
                return buffer.raw[:needed.value]
            size = needed.value

    @property
    def targets(self):
        """All of them, -1 where there is none, as an array.array of int64 (numpy.asarray takes it as it is)."""
        if self._targets is None:
            self._targets = _array.array("q", (self.target(i) for i in range(len(self))))
        return self._targets

    @property
    def filenames(self):
        if self._filenames is None:
            self._filenames = [self.filename(i) for i in range(len(self))]
        return self._filenames

    @property
    def info(self):
        """A structs.dataset_info."""
        return _told("dataset_info", lib.bzna_dataset_get_info, self.handle)

    @property
    def tracks(self):
        result = []
        for i in range(self.info.track_count):
            t = _told("track_info", lib.bzna_dataset_track_info, self.handle, i)
            result.append(Track(t.name.decode("utf-8", "replace"), _fourcc(t.handler), _fourcc(t.format), t.flags, t.sample_count,
                                t.mime.decode("utf-8", "replace")))
        return result

    @property
    def last_exception(self):
        """The last exception that its source raised, on whatever thread."""
        return None if self._source is None else self._source.failure


# ---- records: IDX, CIFAR, CSV ---------------------------------------------------------------------------------------

def _idx_records(path):
    """What the records of a file are that is an IDX of pictures, by its first bytes and its size; None: it is none."""
    try:
        if not _os.path.isfile(path):
            return None
        with open(path, "rb") as file:
            head, size = file.read(20), _os.fstat(file.fileno()).st_size
    except (OSError, ValueError):
        return None                             # the library says why
    if len(head) < 20 or head[:3] != b"\0\0\x08" or head[3] not in (3, 4):
        return None
    shape = [int.from_bytes(head[at:at + 4], "big") for at in range(4, 4 + 4 * head[3], 4)]
    if 4 + 4 * head[3] + _math.prod(shape) != size:
        return None
    return dict(header_bytes=4 + 4 * head[3], width=shape[2], height=shape[1], channels=shape[3] if head[3] == 4 else 1,
                data_type="uint8", layout="nhwc" if head[3] == 4 else "nchw")


class _Memory:
    """Bytes as a source."""

    def __init__(self, data):
        self.data, self.size = memoryview(data), len(data)

    def read_at(self, offset, size):
        return self.data[offset:offset + size]


def _idx_of(path, dimensions):
    """(shape, bytes) of a file of MNIST's format, which may be compressed by gzip."""
    with open(path, "rb") as file:
        data = file.read()
    if data[:2] == b"\x1f\x8b":
        import gzip
        data = gzip.decompress(data)
    if len(data) < 4 or data[:3] != b"\0\0\x08" or data[3] != dimensions or len(data) < 4 + 4 * dimensions:
        raise ValueError("%s: not an IDX file of bytes in %d dimensions" % (_os.fspath(path), dimensions))
    shape = [int.from_bytes(data[4 + 4 * i:8 + 4 * i], "big") for i in range(dimensions)]
    data = memoryview(data)[4 + 4 * dimensions:]
    if len(data) != _math.prod(shape):
        raise ValueError("%s: %s bytes in a file of %s" % (_os.fspath(path), len(data), "x".join(map(str, shape))))
    return shape, data


def idx(path, labels=None, **settings):
    """MNIST's pictures, and its labels as targets: a Dataset of gray pictures, in memory. Both files may be .gz. settings: of Dataset."""
    (count, height, width), pixels = _idx_of(path, 3)
    size = height * width
    records = dict(width=width, height=height, channels=1, data_type="uint8", stride=size)
    if labels is not None:
        (label_count,), targets = _idx_of(labels, 1)
        if label_count != count:
            raise ValueError("%s: %d labels of %d pictures" % (_os.fspath(labels), label_count, count))
        pixels = b"".join(part for i in range(count) for part in (targets[i:i + 1], pixels[i * size:(i + 1) * size]))
        records.update(stride=size + 1, data_offset=1, label_type="uint8")
    return Dataset(_Memory(pixels), name=_os.fspath(path), records=records, **settings)


def cifar(paths, classes=10, **settings):
    """CIFAR's binary files, one or several: a Dataset. classes: 10, or 100, whose coarse labels are left out."""
    if classes not in (10, 100):
        raise ValueError("classes: %r is neither 10 nor 100" % (classes,))
    labels = 1 if classes == 10 else 2
    return Dataset(paths, records=dict(width=32, height=32, channels=3, data_type="uint8", data_offset=labels,
                                       label_offset=labels - 1, label_type="uint8"), **settings)


def csv(path, target=None, **settings):
    """A file of numbers with commas between them: a Dataset of vectors, the field "data", in memory. target: the number of the
    column that holds it. A first line of other words is left out."""
    import csv as reader
    columns, packed = None, []
    with open(path, newline="") as file:
        for number_of_row, row in enumerate(filter(None, reader.reader(file)), 1):
            try:
                values = [float(word) for word in row]
            except ValueError:
                if number_of_row == 1:
                    continue
                raise ValueError("%s: row %d: %r are not numbers" % (_os.fspath(path), number_of_row, row)) from None
            if columns not in (None, len(values)):
                raise ValueError("%s: row %d has %d columns, not %d" % (_os.fspath(path), number_of_row, len(values), columns))
            columns = len(values)
            if target is not None:
                number = values.pop(target)
                if not number.is_integer():
                    raise ValueError("%s: row %d: the target, %g, is no whole number" % (_os.fspath(path), number_of_row, number))
                packed.append(_array.array("q", [int(number)]).tobytes())
            packed.append(_array.array("f", values).tobytes())
    if not packed:
        raise ValueError("%s: there are no numbers" % _os.fspath(path))
    records = dict(width=columns - (target is not None), height=1, channels=1, data_type="float32")
    if target is not None:
        records.update(label_type="int64", data_offset=8)
    return Dataset(_Memory(b"".join(packed)), name=_os.fspath(path), records=records, **settings)


# ---- writing archives -----------------------------------------------------------------------------------------------

class _Sink:
    """An open binary file for a writer."""

    def __init__(self, file):
        if not (hasattr(file, "seek") and hasattr(file, "write")):
            raise TypeError("path: %s is neither a path nor a binary file" % type(file).__name__)
        self.file = file
        self.failure = None
        file.seek(0)
        if hasattr(file, "truncate"):
            file.truncate()                     # nothing else may follow the archive


@_callback("write_at_fn")
def _write_at_thunk(user, offset, src, size):
    sink = _registry.get(user)
    if sink is None:
        return Status.E_STATE.value
    try:
        sink.file.seek(offset)
        if sink.file.write(_c.string_at(src, size)) not in (size, None):
            raise OSError(_errno.EIO, "the file did not take all of %d bytes" % size)
        return 0
    except BaseException as exception:
        sink.failure = exception
        return Status.E_IO.value


@_callback("close_fn")
def _forget_thunk(user):
    _registry.pop(user, None)


_CODECS = {"h265": CODEC_H265, "h264": CODEC_H264, "av1": CODEC_AV1, "jpeg": CODEC_JPEG}
_SPLITS = {None: 0, "train": 1, "validation": 2, "test": 3}

# Options of `bzna pack`, by which pictures are encoded.
_ENCODER_OPTIONS = ("encoder", "crf", "preset", "chroma", "lossless", "tune_decode", "quality", "max_edge", "max_short_edge", "frame",
                    "thumb", "background")


def _tool():
    """The path of the program bzna."""
    here = _os.path.dirname(_os.path.abspath(__file__))
    named = _os.environ.get("BENZINA_TOOL")
    tried = [named] if named else [_os.path.join(here, "bzna"), _os.path.join(here, "..", "..", "build", "bzna")]
    found = next((path for path in tried if _os.path.exists(path)), None) or (None if named else _shutil.which("bzna"))
    if found is None:
        raise Error(Status.E_NOT_FOUND, "the program bzna, which encodes pictures, was not found: neither at " + " nor at ".join(tried) +
                    ("" if named else ", nor in PATH; BENZINA_TOOL names it"))
    return found


class _Encoder:
    """A process of `bzna pack - -o -`, which encodes one picture after the other."""

    _PICTURES = 1000                            # then another one takes its place, since encoders leak memory

    def __init__(self, command):
        self._said = _tempfile.TemporaryFile()
        self._process = _subprocess.Popen(command, stdin=_subprocess.PIPE, stdout=_subprocess.PIPE, stderr=self._said)
        self._left = self._PICTURES
        self._answer()                          # its first line: what it encodes to

    def _answer(self):
        line = self._process.stdout.readline()
        if not line.endswith(b"\n"):
            raise self._ended()
        return _json.loads(line)

    def _ended(self):
        """The error that says how it ended."""
        status = self._process.wait()
        self._said.seek(0)
        said = self._said.read().decode("utf-8", "replace").strip()
        if status == 2:                         # of its command line
            return ValueError(said.split("\n")[0])
        return Error(Status.E_DECODE, said or "the decoder or encoder crashed (%s %d)" %
                     (("signal", -status) if status < 0 else ("status", status)))

    def encode(self, path):
        """What pack_stream.c says of the picture, with its "data", and that of its "thumb"."""
        self._left -= 1
        try:
            self._process.stdin.write(path + b"\0")
            self._process.stdin.flush()
        except BrokenPipeError:
            raise self._ended() from None
        answer = self._answer()
        if "reason" not in answer:
            for part in filter(None, (answer, answer["thumb"])):
                part["data"] = self._process.stdout.read(part["size"])
                if len(part["data"]) != part["size"]:
                    raise self._ended()
        return answer

    @property
    def is_worn(self):
        return self._left <= 0

    def close(self):
        self._process.kill()                    # it has nothing that could be lost
        try:
            self._process.stdin.close()
        except BrokenPipeError:
            pass
        self._process.stdout.close()
        self._process.wait()
        self._said.close()


class _Encoders:
    """Processes that encode pictures for several threads, at most jobs of them. One is started when a picture finds none idle."""

    def __init__(self, codec, options, jobs):
        self._options = ["--codec=" + codec]
        for name, value in options.items():
            if name not in _ENCODER_OPTIONS:
                raise TypeError("Writer has no argument %s; pictures are encoded by %s" % (name, ", ".join(_ENCODER_OPTIONS)))
            option = "--" + name.replace("_", "-")
            if value is not None and value is not False:
                self._options.append(option if value is True else "%s=%s" % (option, value))
        self._idle, self._places = _collections.deque(), _threading.BoundedSemaphore(jobs)
        if len(self._options) > 1:              # which may be wrong: said at once
            self._idle.append(self._started())

    def _started(self):
        return _Encoder([_tool(), "pack", "-", "-o", "-", *self._options])

    def encode(self, path):
        with self._places:
            try:
                one = self._idle.pop()
            except IndexError:
                one = self._started()
            try:
                answer = one.encode(path)
            except BaseException:               # it crashed, or is in the middle of an answer
                one.close()
                raise
            if one.is_worn:
                one.close()
            else:
                self._idle.append(one)
        return answer

    def close(self):
        while self._idle:
            self._idle.pop().close()


def _is_pil(image):
    return hasattr(image, "getbands") and hasattr(image, "convert")


def _pixels(image):
    """A picture that is no file, as the bytes of one: PAM, PPM or PGM; None where it is one."""
    if _is_pil(image):
        if image.mode[0] in "IF":               # which PIL would cut off at 255
            raise TypeError("image: a PIL picture of mode %s; 8 bits are needed" % image.mode)
        if "A" in image.getbands() or "transparency" in image.info:
            image = image.convert("RGBA")
            return b"P7\nWIDTH %d\nHEIGHT %d\nDEPTH 4\nMAXVAL 255\nTUPLTYPE RGB_ALPHA\nENDHDR\n" % image.size + image.tobytes()
        image = image if image.mode == "L" else image.convert("RGB")
        return b"P%d\n%d %d\n255\n" % (5 if image.mode == "L" else 6, *image.size) + image.tobytes()
    view = memoryview(image)
    if view.ndim == 1:
        return None
    height, width, *channels = view.shape if view.ndim > 1 else (0, 0)
    if view.format != "B" or channels not in ([], [1], [3]) or 0 in view.shape:
        raise TypeError("image: an array of %s, shape %r; uint8 of H x W or H x W x 3 is needed"
                        % (getattr(image, "dtype", view.format), view.shape))
    return b"P%d\n%d %d\n255\n" % (6 if channels == [3] else 5, width, height) + view.tobytes()


def _is_elementary(data):
    """Whether bytes are a coded picture that is no file: start codes of H.264 and H.265, or AV1's first OBU."""
    return data[:3] == b"\0\0\1" or data[:4] == b"\0\0\0\1" or data[:2] == b"\x12\0"


def _field_bytes(name, value):
    """(FIELD_..., bytes) of what a sample has beside its picture."""
    if isinstance(value, str):
        return FIELD_TEXT, value.encode("utf-8", "surrogateescape")
    if isinstance(value, (bytes, bytearray)):
        return FIELD_BYTES, bytes(value)
    if not getattr(value, "shape", ()) and hasattr(value, "__index__"):
        return FIELD_INTEGER, _array.array("q", [_number(name, value, _c.c_int64)]).tobytes()
    numbers = value.tolist() if hasattr(value, "tolist") else value
    numbers = list(_flat(numbers))
    if isinstance(value, _abc.Mapping) or not all(hasattr(n, "__float__") for n in numbers):
        raise TypeError("%s: %s is neither a text, bytes, a number nor numbers" % (name, type(value).__name__))
    if any(isinstance(n, int) and abs(n) > 2**24 for n in numbers):
        raise ValueError("%s: vectors are of float32, which does not have every integer above 2**24" % name)
    return FIELD_VECTOR, _array.array("f", numbers).tobytes()


def _flat(numbers):
    if isinstance(numbers, str) or not isinstance(numbers, _abc.Iterable):
        yield numbers
        return
    for number in numbers:
        yield from _flat(number)


class Writer(_Handled):
    """Writes an archive:

        with benzina.Writer("train.bzna", codec="h265", classes=["cat", "dog"]) as writer:
            writer.add("photos/cat.jpg", target=0)
            writer.add(pixels, target=1, name="dog", box=(10, 20, 200, 180), caption="a dog")

    At the end of the block the archive is finished, by finish(). After an exception, or close() alone, it is left
    unfinished, and readers refuse it. The same samples give the same bytes.

    path             a path, or a binary file that can seek. What was there is lost at once: no open Dataset may be reading it
    codec            what pictures are encoded to: "h265", "h264", "av1", "jpeg"; "copy" keeps JPEG files as they are, and
                     encodes other pictures as jpeg. Processes of `bzna pack` encode, by its laws: frames of multiples of
                     512 pixels, thumbnails for what is larger than 512, and so on. $BENZINA_TOOL names that program; else it
                     is looked for beside this file, in ../../build and in PATH
    classes          the names of the targets 0, 1, ...: Dataset.classes
    jobs             how many pictures are encoded at once; None: as many as there are processors
    queue_bytes      memory for samples that wait for smaller indices, 64 MiB if it is 0; timeout: how many seconds add
                     waits when that is full
    encoder, crf, preset, chroma, lossless, tune_decode, quality, max_edge, max_short_edge, frame, thumb, background
                     as `bzna pack` has them: crf=28, frame="exact", lossless=True

    add encodes one picture, and returns when it is written. Several at a time: add_all; or threads of yours that call add,
    each sample with its index."""

    __reduce__ = _uncopied("one process writes an archive")
    _gone = "the writer is closed"
    _has_failed = False                         # a write did: nothing can be added any more

    def __init__(self, path, codec="h265", context=None, *, classes=None, jobs=None, queue_bytes=0, timeout=60, **options):
        _dispose_put_off()
        if codec not in _CODECS and codec != "copy":
            raise ValueError("codec: %r is none of %s" % (codec, ", ".join(map(repr, [*_CODECS, "copy"]))))
        self.codec, self.timeout = codec, _number("timeout", timeout, _c.c_double, 0)
        self.jobs = (_os.cpu_count() or 1) if jobs is None else _number("jobs", jobs, _c.c_uint32, 1)
        self._encoders = _Encoders(codec, options, self.jobs)
        _weakref.finalize(self, self._encoders.close)
        config = _new("writer_config")
        if isinstance(classes, (str, bytes)):
            raise TypeError("classes: a list of names is needed, not one name")
        self.classes = list(classes or ())
        names = (_c.c_char_p * len(self.classes))(*[_text("classes", name) for name in self.classes])
        config.classes, config.class_count = _c.addressof(names) if names else None, len(names)
        _put(config, "queue_bytes", queue_bytes)
        context, handle, err = context or _shared_context(), _c.c_void_p(), _new("error")
        self._sink = None
        if _is_path(path):
            _check(lib.bzna_writer_open(context.handle, _path_bytes(path), config, handle, err), err)
        else:
            self._sink = _Sink(path)
            key = _register(self._sink)
            callbacks = _new("sink")
            callbacks.user, callbacks.write_at, callbacks.close = key, _write_at_thunk, _forget_thunk
            status = lib.bzna_writer_open_sink(context.handle, callbacks, config, handle, err)
            if status < 0:
                _registry.pop(key)
            _check(status, err, self._sink.failure)
        self._handle = handle.value
        self._close = _owned(self, lib.bzna_writer_close, handle.value)

    def add(self, image, target=None, name=None, thumb=None, split=None, codec=None, size=None, thumb_size=None, *, index=None,
            fields=None, **more):
        """Adds one sample.

        image            a path of a picture file, its bytes, or a binary file; an array of uint8, H x W or H x W x 3 in RGB;
                         a PIL picture, as its pixels are: all these are encoded. A Sample: its frame of H.265, H.264 or AV1 is kept as
                         it is, with its thumbnail; its file (JPEG, PNG) is encoded as other files are. Bytes of one frame
                         that stands alone are kept, too: H.265 or H.264 with start codes (Annex B) and parameter sets,
                         AV1's OBUs
        target           a number, or the name of one of the writer's classes; None and -1: none
        name             None: of a path its last part, else none
        thumb            bytes of a coded picture, or a Sample with one; None: the encoder's, else the picture serves, if its
                         frame is at most 512x512
        split            None, "train", "validation", "test"
        codec            "h265", "h264", "av1", "jpeg": the bytes are a coded picture, and kept
        size, thumb_size of coded bytes: (width, height) of the picture, which begins in the frame's top left corner; None:
                         all of the frame
        index            where the sample stands in the archive, from 0: samples may come in any order, from several
                         threads; None: behind all that were added. See skip
        fields, further arguments
                         what the sample has beside its picture, by name: integers, texts, bytes, numbers and arrays of
                         numbers (vectors of float32); None: it has no such field. fields: a dict of them, for names that
                         are arguments here

        A sample that is refused raises, and leaves the archive as it was: others can be added."""
        self._write(self._described(image, target, name, thumb, split, codec, size, thumb_size, fields=fields, **more), index)

    def skip(self, index):
        """No sample comes at this index: those behind it move up."""
        self._write((None, None), index)

    def add_all(self, samples, on_error=None):
        """Adds samples, dicts of add's arguments, in their order, jobs of them encoded at once:

            writer.add_all({"image": path, "target": target} for path, target in found)

        on_error: a callable (sample, exception) for those that are refused, which are left out; None: the first one
        raises, behind those before it. Returns how many were added."""
        def described(sample):
            return self._described(**{name: value for name, value in sample.items() if name != "index"})
        samples, waiting, count = iter(samples), _collections.deque(), 0
        with _futures.ThreadPoolExecutor(self.jobs) as pool:
            try:
                while True:
                    for sample in _itertools.islice(samples, 4 * self.jobs - len(waiting)):
                        waiting.append((sample, pool.submit(described, sample)))
                    if not waiting:
                        return count
                    sample, future = waiting.popleft()
                    try:
                        self._write(future.result(), sample.get("index"))
                        count += 1
                    except Exception as error:
                        if on_error is None or self._has_failed or self._handle is None:
                            raise
                        on_error(sample, error)
                        if sample.get("index") is not None:
                            self.skip(sample["index"])
            finally:
                for _, future in waiting:
                    future.cancel()

    def _described(self, image, target=None, name=None, thumb=None, split=None, codec=None, size=None, thumb_size=None, *, fields=None,
                   **more):
        """(structs.sample_desc, what it points to)"""
        _ = self.handle                         # what is closed says so
        sample, kept = _new("sample_desc"), []
        if split not in _SPLITS:
            raise ValueError("split: %r is none of %s" % (split, ", ".join(map(repr, _SPLITS))))
        sample.split = _SPLITS[split]
        if isinstance(target, str):
            if target not in self.classes:
                raise ValueError("target: %r is none of the writer's %d classes" % (target, len(self.classes)))
            target = self.classes.index(target)
        if target is not None:
            sample.target = _number("target", target, _c.c_int64)
        if name is None and isinstance(image, (str, _os.PathLike)):
            name = _os.path.basename(_os.fsdecode(image))
        if name is not None:
            sample.name = _text("name", name)
        self._set_fields(sample, {**(fields or {}), **more}, kept)
        picture, small = self._pictures(image, codec, size, name, kept)
        if thumb is not None:
            small, buffer = _coded("thumb", thumb, codec, thumb_size, "bzna_thumb")
            kept.append(buffer)
        sample.image, sample.thumb = _c.addressof(picture), small and _c.addressof(small)
        kept += [picture, small]
        return sample, kept

    @staticmethod
    def _set_fields(sample, fields, kept):
        values = (structs.field_value * len(fields))()
        for value, (name, given) in zip(values, ((n, v) for n, v in fields.items() if v is not None)):
            name = _text("fields", name)
            kind, data = _field_bytes(_os.fsdecode(name), given)
            lib.bzna_field_value_init(value, _c.sizeof(value))
            value.kind, value.name, value.data, value.size = kind, name, _c.cast(_c.c_char_p(data), _c.c_void_p), len(data)
            kept.append(data)
            sample.field_count += 1
        sample.fields = _c.addressof(values) if sample.field_count else None
        kept.append(values)

    def _pictures(self, image, codec, size, name, kept):
        """(structs.image, that of a thumbnail or None), coded already or by an encoder."""
        if isinstance(image, Sample):
            picture, buffer = image._coded()
            if picture.codec in (CODEC_H264, CODEC_H265, CODEC_AV1) or (picture.codec, self.codec) == (CODEC_JPEG, "copy"):
                small, buffer_too = _thumbnail(image, picture, buffer)
                kept += [buffer, buffer_too]
                return picture, small
            is_file = picture.codec in (CODEC_JPEG, CODEC_STILL)
            image = image._dataset.field(image.index, "image") if is_file else image.image()
        if isinstance(image, (str, _os.PathLike)):
            return self._encoded(_os.path.abspath(_os.fsencode(image)), _os.fsdecode(image), kept)
        if hasattr(image, "read") and not _is_pil(image):
            image = image.read()
        try:
            file = _pixels(image)
        except TypeError as error:
            if str(error).startswith("image: "):
                raise
            raise TypeError("image: %s is neither a path, a Sample, bytes, an array nor a PIL picture" % type(image).__name__) from None
        if file is None:
            data = bytes(memoryview(image))
            if codec is not None or _is_elementary(data):
                picture, buffer = _coded("image", data, codec, size)
                kept.append(buffer)
                return picture, None
            if not data:
                raise ValueError("image: there are no bytes")
        with _tempfile.NamedTemporaryFile(suffix=".pam" if file else _os.path.splitext(name or "")[1]) as holder:
            holder.write(file or data)
            holder.flush()
            return self._encoded(_os.fsencode(holder.name), name or "image", kept)

    def _encoded(self, path, what, kept):
        answer = self._encoders.encode(path)
        if "reason" in answer:
            raise Error(Status.E_DECODE, "%s: %s" % (what, answer["reason"]))

        def image_of(part):
            image = _new("image")
            image.codec, image.width, image.height = _CODECS[part["codec"]], part["width"], part["height"]
            image.color = structs.color(1, 13, 5, 1, 1)         # as bzna pack: sRGB's primaries and transfer, BT.601, full range
            image.data, image.data_size = _c.cast(_c.c_char_p(part["data"]), _c.c_void_p), len(part["data"])
            kept.append(part["data"])
            return image
        return image_of(answer), answer["thumb"] and image_of(answer["thumb"])

    def _write(self, described, index):
        sample, kept = described
        err, end = _new("error"), _time.monotonic() + self.timeout
        while True:
            if index is None:
                status = lib.bzna_writer_add(self.handle, sample, err)
                break
            status = lib.bzna_writer_add_at(self.handle, _number("index", index, _c.c_uint64), sample, 10**8, err)
            if status != Status.AGAIN or _time.monotonic() > end:
                break
        del kept                                # the structs point into them
        self._has_failed |= status == Status.E_IO
        if status == Status.AGAIN:
            raise Error(status, "the sample was not taken: samples of smaller indices are missing, and queue_bytes hold no more")
        _check(status, err, self._sink and self._sink.failure)

    def finish(self):
        """Writes the index and closes the file."""
        err = _new("error")
        _check(lib.bzna_writer_finish(self.handle, err), err, self._sink and self._sink.failure)
        if self._sink and hasattr(self._sink.file, "flush"):
            self._sink.file.flush()
        self.close()

    def close(self):
        """Without finish, the archive is left unfinished."""
        super().close()
        self._encoders.close()

    def __exit__(self, kind, *_):
        try:
            if kind is None and self._handle is not None:
                self.finish()
        finally:
            self.close()


def _text(what, text):
    if not isinstance(text, (str, bytes, _os.PathLike)):
        raise TypeError("%s: %r is no text" % (what, text))
    text = _os.fspath(text)
    data = text.encode("utf-8", "surrogateescape") if isinstance(text, str) else text
    if b"\0" in data:
        raise ValueError("%s: %r has a NUL in it" % (what, text))
    return data


def _coded(what, image, codec, size, track=None):
    """(structs.image, what it points into) of a Sample's picture, or of coded bytes."""
    if isinstance(image, Sample):
        return image._coded(track if track in image.images else "image")
    try:
        data = bytes(memoryview(image))
    except TypeError:
        raise TypeError("%s: %s is neither a Sample nor coded bytes" % (what, type(image).__name__)) from None
    if codec is not None and codec not in _CODECS:
        raise ValueError("codec: %r is none of %s" % (codec, ", ".join(map(repr, _CODECS))))
    if codec is None or size is None:
        codec, frame = _inspected(what, data, [codec] if codec else list(_CODECS))
    return _image_of(data, codec, frame if size is None else size), data


def _image_of(data, codec, size):
    image = _new("image")
    image.codec, image.data, image.data_size = _CODECS[codec], _c.cast(_c.c_char_p(data), _c.c_void_p), len(data)
    image.width, image.height = (_number("size", edge, _c.c_uint32, 1, 65535) for edge in size)
    return image


def _inspected(what, data, codecs):
    """(codec, size of the frame): written to an archive in memory, the picture is described by what reads that."""
    refusals = []
    for codec in codecs:
        archive, image, sample = _io.BytesIO(), _image_of(data, codec, (1, 1)), _new("sample_desc")
        sample.image = _c.addressof(image)
        try:
            with Writer(archive) as writer:
                err = _new("error")
                _check(lib.bzna_writer_add(writer.handle, sample, err), err)
        except Error as error:
            refusals.append("%s: %s" % (codec, error.message))
            continue
        with Dataset(archive) as dataset:
            described, _ = dataset[0]._coded()
            return codec, (described.frame_width, described.frame_height)
    raise Error(Status.E_CODEC, "%s: not one coded picture with its parameter sets (%s)" % (what, "; ".join(refusals)))


def _thumbnail(sample, picture, buffer):
    """A sample's thumbnail, where it is not the picture itself."""
    if "bzna_thumb" not in sample.images or "bzna_input" not in sample.images:
        return None, None
    small, kept = sample._coded("thumb")        # both buffers hold the whole sample
    same = small.data - _c.addressof(kept) == picture.data - _c.addressof(buffer)
    return (None, None) if same else (small, kept)


# ---- random numbers ---------------------------------------------------------------------------------------------------------

class Random:
    """The numbers of one (seed, epoch, sample, operation), the same in every run and on every thread. A callback's rng is one."""

    def __init__(self, seed=0, epoch=0, sample=0, operation=16, _struct=None):
        self.struct = _struct if _struct is not None else structs.random()
        if _struct is None:
            numbers = [_number(name, value, _c.c_uint64) for name, value in (("seed", seed), ("epoch", epoch), ("sample", sample))]
            lib.bzna_random_init(self.struct, *numbers, _number("operation", operation, _c.c_uint32))

    def u32(self):
        return lib.bzna_random_u32(self.struct)

    def random(self):
        return lib.bzna_random_uniform(self.struct, 0.0, 1.0)

    def uniform(self, low=0.0, high=1.0):
        return lib.bzna_random_uniform(self.struct, low, high)

    def randrange(self, count):
        """0 .. count - 1."""
        count = _number("count", count, _c.c_uint64, 1)
        return min(int(self.random() * count), count - 1)

    def generator(self):
        """A numpy Generator seeded by the next four words."""
        import numpy
        return numpy.random.Generator(numpy.random.Philox([self.u32() for _ in range(4)]))


# ---- transforms -------------------------------------------------------------------------------------------------------------

def _is_list(values):
    return isinstance(values, _abc.Iterable) and not isinstance(values, (str, bytes))


def _floats(what, values, count, kind=_c.c_float):
    """count finite floats; a number stands for count equal ones."""
    if hasattr(values, "tolist"):               # an array's
        values = values.tolist()
    if not _is_list(values):
        values = [values] * count
    flat = []
    for v in values:                            # or rows of a matrix
        flat.extend(v if _is_list(v) else [v])
    if len(flat) != count:
        raise ValueError("%s: %d numbers, not %d" % (what, len(flat), count))
    return tuple(_number(what, v, kind) for v in flat)


def _pair(what, value, spread, low=None, high=None):
    """(lo, hi): two numbers as they are, or what spread makes of one."""
    pair = tuple(value) if _is_list(value) else spread(_number(what, value, _c.c_double))
    if len(pair) != 2:
        raise ValueError("%s: %r is neither a number nor two" % (what, value))
    return tuple(_number(what, v, _c.c_double, low, high) for v in pair)


def compute_affine_matrix(in_size, out_size, crop=None, degrees=0.0, translate=(0.0, 0.0), flip_h=False, flip_v=False, resize=False,
                          keep_ratio=False):
    """The warp that these make together, nine numbers, row-major. Sizes are (width, height); crop: center offset x, y, width, height."""
    affine = _new("affine")
    affine.in_width, affine.in_height = _size("in_size", in_size)
    affine.out_width, affine.out_height = _size("out_size", out_size)
    if crop is not None:
        affine.has_crop = 1
        affine.crop_x, affine.crop_y, affine.crop_width, affine.crop_height = _floats("crop", crop, 4, _c.c_double)
    _put(affine, "degrees", degrees)
    affine.translate_x, affine.translate_y = _floats("translate", translate, 2, _c.c_double)
    for name, value in dict(flip_h=flip_h, flip_v=flip_v, resize=resize, keep_ratio=keep_ratio).items():
        setattr(affine, name, _flag(name, value))
    matrix, err = (_c.c_double * 9)(), _new("error")
    _check(lib.bzna_affine_matrix(affine, matrix, err), err)
    return tuple(matrix)


def _resizing(box, shape):
    """(height, width, homography) of the part of a picture between left, top, right and bottom, resized to shape; None: as large as it is."""
    left, top, right, bottom = box
    if not (right > left and bottom > top):
        raise ValueError("box: %r is not (left, top, right, bottom)" % (box,))
    height, width = _height_width((round(bottom - top), round(right - left)) if shape is None else shape)
    if not (1 <= width <= 16384 and 1 <= height <= 16384):
        raise ValueError("shape: %r is not in 1..16384" % ((height, width),))
    x, y = (right - left) / width, (bottom - top) / height
    return height, width, (x, 0, left + x / 2 - 0.5, 0, y, top + y / 2 - 0.5, 0, 0, 1)


def _size(what, size):
    """Two edges of a picture."""
    if not _is_list(size) or len(size) != 2:
        raise ValueError("%s: %r is not (width, height)" % (what, size))
    return tuple(_number(what, edge, _c.c_uint32) for edge in size)


def _height_width(shape):
    sizes = tuple(shape) if _is_list(shape) else (shape, shape)
    if len(sizes) != 2:
        raise ValueError("shape: %r is not (height, width); channels are said by channels=" % (shape,))
    return tuple(_number("shape", edge, _c.c_uint32) for edge in sizes)


_LAWS = {"benzina": LAW_BENZINA, "torchvision": LAW_TORCHVISION}


def _sensible_scale(scale, meaning):
    """torchvision's transforms of these names begin with a size."""
    for number in scale if _is_list(scale) else [scale]:
        if not (hasattr(number, "__float__") and 0 < float(number) <= 10):
            raise ValueError("scale: %r: it is %s. The size of what comes out is DataLoader's shape" % (scale, meaning))


class _Ops:
    """Transforms, by the original's names. Every one can also be called in a callback of one's own: (index, in_size, out_size, rng),
    sizes being (width, height)."""

    class BiasTransform:
        """Base of what gives three numbers to subtract from R, G, B."""

    class NormTransform:
        """Base of what gives three numbers to multiply R, G, B by."""

    class WarpTransform:
        """Base of what gives a 3x3 matrix from output pixels to input pixels."""

    class OOBTransform:
        """Base of what gives the color of what lies outside the picture."""

    class ColorTransform:
        """Base of what gives the conversion to RGB: 0 BT.601 full range, 1 BT.601, 2 BT.709, 3 BT.2020."""

    class ConstantBiasTransform(BiasTransform):
        def __init__(self, bias=(0.0, 0.0, 0.0)):
            self.bias = _floats("bias", bias, 3)

        def __call__(self, index, in_size, out_size, rng):
            return self.bias

    class ConstantNormTransform(NormTransform):
        """norm multiplies: the reciprocal of a standard deviation, not the deviation itself (see std= of DataLoader)."""

        def __init__(self, norm=(1.0, 1.0, 1.0)):
            self.norm = _floats("norm", norm, 3)
            if 0 in self.norm:
                raise ValueError("norm: 0 would leave nothing of the picture")

        def __call__(self, index, in_size, out_size, rng):
            return self.norm

    class ConstantOOBTransform(OOBTransform):
        def __init__(self, oob=(0.0, 0.0, 0.0)):
            self.oob = _floats("oob", oob, 3)

        def __call__(self, index, in_size, out_size, rng):
            return self.oob

    class ConstantColorTransform(ColorTransform):
        def __init__(self, index=0):
            self.index = _number("index", index, _c.c_uint32, 0, 3)

        def __call__(self, index, in_size, out_size, rng):
            return self.index

    class ConstantWarpTransform(WarpTransform):
        """One matrix for every sample; by default the identity: the picture's top left corner, unscaled."""

        def __init__(self, warp=(1.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 1.0)):
            if not _is_list(warp):
                raise TypeError("warp: %r is not nine numbers" % (warp,))
            self.warp = _floats("warp", warp, 9, _c.c_double)
            a, b, c, d, e, f, g, h, i = self.warp
            if a * (e * i - f * h) - b * (d * i - f * g) + c * (d * h - e * g) == 0:
                raise ValueError("warp: %r is singular: it maps all pixels to a line" % (warp,))

        def __call__(self, index, in_size, out_size, rng):
            return self.warp

    class SimilarityTransform(WarpTransform):
        """A random crop, turned, moved, mirrored and resized.

        scale: of the crop's area, (lo, hi); a number s means between s and 1/s. ratio: of the crop's width to its height, likewise; None: the
        picture's own. degrees: (lo, hi); a number d means (-d, d). translate: at most these fractions of the output's width and height.
        flip_h, flip_v: probabilities. resize: scale the crop to the output; scale and ratio force it. keep_ratio: by one factor both
        ways. random_crop: anywhere, instead of centered. law: how the crop is drawn, "benzina" (area log-uniform) or
        "torchvision" (area uniform, whole pixels); None: as DataLoader's warp_law says, by default "benzina"
        ("torchvision" for RandomResizedCrop)."""

        def __init__(self, scale=(1.0, 1.0), ratio=None, degrees=0.0, translate=(0.0, 0.0), flip_h=0.0, flip_v=0.0, resize=False, keep_ratio=False,
                     random_crop=False, law=None):
            def between(x):
                return (min(x, 1 / x), max(x, 1 / x)) if x > 0 else (x, x)
            self.scale = _pair("scale", scale, between)
            self.ratio = None if ratio is None else tuple(sorted(_pair("ratio", ratio, between)))
            self.degrees = _pair("degrees", degrees, lambda d: (-abs(d), abs(d)))
            self.translate = _pair("translate", translate, lambda t: (t, t))
            self.flip_h, self.flip_v = (_number(name, flip, _c.c_double, 0, 1) for name, flip in (("flip_h", flip_h), ("flip_v", flip_v)))
            self.resize = _flag("resize", resize) or self.scale != (1.0, 1.0) or ratio is not None
            self.keep_ratio, self.random_crop = _flag("keep_ratio", keep_ratio), _flag("random_crop", random_crop)
            self.law = law
            if law is not None and law not in _LAWS:
                raise ValueError("law: %r is none of %s" % (law, ", ".join(map(repr, _LAWS))))
            for what, values in (("scale", self.scale), ("ratio", self.ratio or (1,))):
                if min(values) <= 0 or list(values) != sorted(values):
                    raise ValueError("%s: %r is not two positive numbers, the smaller one first" % (what, values))

        def _warp(self):
            """The structs.warp of these parameters."""
            warp = self._flipped(WARP_SIMILARITY)
            warp.scale[:], warp.ratio[:] = self.scale, self.ratio or (0, 0)
            warp.degrees[:], warp.translate[:] = self.degrees, self.translate
            warp.resize, warp.keep_ratio, warp.random_crop = self.resize, self.keep_ratio, self.random_crop
            return warp

        def _flipped(self, kind):
            """What every kind has."""
            warp = _new("warp")
            warp.kind, warp.law = kind, _LAWS.get(self.law, LAW_AUTO)
            warp.flip_h, warp.flip_v = self.flip_h, self.flip_v
            return warp

        def __call__(self, index, in_size, out_size, rng):
            matrix, err = (_c.c_double * 9)(), _new("error")
            _check(lib.bzna_warp_draw(rng.struct, self._warp(), *in_size, *out_size, matrix, err), err)
            return tuple(matrix)

    class RandomResizedCrop(SimilarityTransform):
        """scale: of the crop's area, as a fraction of the picture's, (lo, hi); ratio: of its width to its height;
        flip_h: the probability of mirroring; law: see SimilarityTransform, by default "torchvision"."""

        def __init__(self, scale=(0.08, 1.0), ratio=(3 / 4, 4 / 3), flip_h=0.0, law=None):
            _sensible_scale(scale, "the crop's area as a fraction of the picture's, (0.08, 1.0) by default")
            _Ops.SimilarityTransform.__init__(self, scale=scale, ratio=ratio, flip_h=flip_h, resize=True,
                                              random_crop=True, law=law)

        def _warp(self):
            warp = self._flipped(WARP_RANDOM_RESIZED_CROP)
            warp.scale[:], warp.ratio[:] = self.scale, self.ratio
            return warp

    class CenterResizedCrop(SimilarityTransform):
        """scale: of the edges; 224/256 resizes the short edge to 256 and takes the middle 224 x 224; above 1, there is
        a margin. flip_h, law: as RandomResizedCrop's."""

        def __init__(self, scale=1.0, keep_ratio=True, flip_h=0.0, law=None):
            _sensible_scale(scale, "the fraction of the picture's short edge that is shown, such as 224/256")
            self.edge_scale = scale = _number("scale", scale, _c.c_double)
            _Ops.SimilarityTransform.__init__(self, scale=(scale ** 2, scale ** 2), flip_h=flip_h, resize=True,
                                              keep_ratio=keep_ratio, law=law)

        def _warp(self):
            if not self.keep_ratio:
                return super()._warp()
            warp = self._flipped(WARP_CENTER_RESIZED_CROP)
            warp.scale[0] = self.edge_scale
            return warp

    class MXNetAffine(WarpTransform):
        """The affine augmentation of MXNet's ImageRecordIter, by its parameters' names. Integers, fractions and pixels are as there; a
        min_aspect_ratio is not: the ratio is drawn between 1 - max_aspect_ratio and 1 + max_aspect_ratio. fill_value is DataLoader's
        oob_transform, inter_method its inter_method."""

        def __init__(self, max_rotate_angle=0, rotate=-1, max_shear_ratio=0.0, min_random_scale=1.0, max_random_scale=1.0,
                     max_aspect_ratio=0.0, min_img_size=0, max_img_size=0, min_crop_size=-1, max_crop_size=-1, pad=0, resize=-1,
                     rand_crop=False, crop_x_start=-1, crop_y_start=-1, mirror=False, rand_mirror=False):
            warp = self._struct = _new("warp")
            warp.kind = WARP_MXNET
            real, whole = {}, {}
            for name, value in dict(max_rotate_angle=max_rotate_angle, rotate=rotate, max_aspect_ratio=max_aspect_ratio, min_img_size=min_img_size,
                                    max_img_size=max_img_size, min_random_scale=min_random_scale, max_random_scale=max_random_scale).items():
                real[name] = _number(name, value, _c.c_double)
            for name, value in dict(min_crop_size=min_crop_size, max_crop_size=max_crop_size, resize=resize, crop_x_start=crop_x_start,
                                    crop_y_start=crop_y_start).items():
                whole[name] = _number(name, value, _c.c_int32, -1)
            angle = abs(real["max_rotate_angle"])
            warp.degrees[:] = (rotate, rotate) if real["rotate"] > 0 else (-angle, angle)
            _put(warp, "shear_ratio", max_shear_ratio, "max_shear_ratio")
            warp.scale[:] = real["min_random_scale"], real["max_random_scale"]
            warp.ratio[:] = 1 - real["max_aspect_ratio"], 1 + real["max_aspect_ratio"]
            warp.canvas_px[:] = [_number(name, 0 if real[name] >= 1e6 else int(real[name]), _c.c_uint32) for name in ("min_img_size", "max_img_size")]
            sizes = [size for size in (whole["min_crop_size"], whole["max_crop_size"]) if size > 0]
            warp.crop_px[:] = (min(sizes), max(sizes)) if sizes else (0, 0)
            _put(warp, "pad_px", pad, "pad")
            warp.short_edge_px, warp.random_crop = max(0, whole["resize"]), _flag("rand_crop", rand_crop)
            if crop_x_start >= 0 or crop_y_start >= 0:
                warp.has_crop_start, warp.crop_x_start, warp.crop_y_start = 1, max(0, crop_x_start), max(0, crop_y_start)
            warp.flip_h = 1.0 if _flag("mirror", mirror) else 0.5 if _flag("rand_mirror", rand_mirror) else 0.0

        def _warp(self):
            return structs.warp.from_buffer_copy(self._struct)

        def __call__(self, index, in_size, out_size, rng):
            matrix, err = (_c.c_double * 9)(), _new("error")
            _check(lib.bzna_warp_draw(rng.struct, self._struct, *in_size, *out_size, matrix, err), err)
            return tuple(matrix)

    class ColorJitter:
        """Random colors, for DataLoader's jitter: torchvision's ColorJitter (a number b means factors of (max(0, 1 - b), 1 + b), hue of (-h,
        h) turns; in this order, in which torchvision's is random) and the probability of its RandomGrayscale. Before them MXNet's random_h,
        random_l, random_s, after them its max_random_contrast and max_random_illumination. clamp_hue: random_h stops at red, as there."""

        def __init__(self, brightness=0, contrast=0, saturation=0, hue=0, grayscale=0, random_h=0, random_l=0, random_s=0,
                     max_random_contrast=0, max_random_illumination=0, clamp_hue=False):
            jitter = self._struct = _new("jitter")
            for name, value in (("brightness", brightness), ("contrast", contrast), ("saturation", saturation)):
                factors = _pair(name, value, lambda b: (max(0.0, 1 - b), 1 + b) if b >= 0 else (b, b))
                if not 0 <= factors[0] <= factors[1]:
                    raise ValueError("%s: %r is neither a number from 0 on nor two, the smaller one first" % (name, value))
                if factors != (1, 1):
                    getattr(jitter, name)[:] = factors
            jitter.hue[:] = _pair("hue", hue, lambda h: (-h, h))
            if not -0.5 <= jitter.hue[0] <= jitter.hue[1] <= 0.5:
                raise ValueError("hue: %r is neither a number from 0 to 0.5 nor two from -0.5, the smaller one first" % (hue,))
            _put(jitter, "grayscale", grayscale)
            jitter.mxnet_hls[:] = [_number(name, value, _c.c_float) for name, value in
                                   (("random_h", random_h), ("random_l", random_l), ("random_s", random_s))]
            _put(jitter, "mxnet_contrast", max_random_contrast, "max_random_contrast")
            _put(jitter, "mxnet_illumination", max_random_illumination, "max_random_illumination")
            jitter.mxnet_clamp_hue = _flag("clamp_hue", clamp_hue)

        def __call__(self, rng, transform):
            """Draws one jitter on top of the transform's, in a transform callback of one's own."""
            err = _new("error")
            _check(lib.bzna_jitter_draw(rng.struct, self._struct, transform, err), err)

    compute_affine_matrix = staticmethod(compute_affine_matrix)


def _make_ops():
    """ops as a module, so that both `benzina.ops` and `from benzina import ops` feel like one."""
    module = _types.ModuleType(__name__ + ".ops", _Ops.__doc__)
    for name, value in vars(_Ops).items():
        if isinstance(value, type):
            value.__module__, value.__qualname__ = module.__name__, name
        if not name.startswith("__"):
            setattr(module, name, getattr(_Ops, name))
    _sys.modules[module.__name__] = module
    return module


ops = _make_ops()


def _inter_method_9(homography, rng):
    """Cubic where both sides grow, area where both shrink, else linear."""
    steps = [_math.hypot(homography[i], homography[i + 3]) for i in (0, 1)]
    return _INTER_METHODS[2 if max(steps) < 1 else 3 if min(steps) > 1 else 1]


def _inter_method_10(homography, rng):
    return _INTER_METHODS[rng.randrange(5)]


# MXNet's: OpenCV's filters, which are not widened where a picture shrinks.
_INTER_METHODS = {0: (FILTER_NEAREST, ANTIALIAS_OFF), 1: (FILTER_LINEAR, ANTIALIAS_OFF), 2: (FILTER_CUBIC_075, ANTIALIAS_OFF),
                  3: (FILTER_AREA, ANTIALIAS_AUTO), 4: (FILTER_LANCZOS4, ANTIALIAS_OFF), 9: _inter_method_9, 10: _inter_method_10}


class _Failures:
    """The exceptions of a loader's callbacks, which it owns: their tracebacks lead to it, so that the hooks, which a callback that runs
    holds, must not."""

    _MOST, _MOST_FRAMES = 1000, 20

    def __init__(self):
        self.last = None
        self._kept = {}                         # by the numbers that C was told, which errors have for native_code
        self._numbers = _itertools.count(1)

    def add(self, exception):
        """Where failures are let pass, only so many are kept, and fewer with the variables of their frames, which may be pictures."""
        number = next(self._numbers)
        self.last, self._kept[number] = exception, (exception, exception.__traceback__)
        self._kept.pop(number - self._MOST, None)
        if len(self._kept) > self._MOST_FRAMES:
            _traceback.clear_frames(exception.__traceback__)
        return -number

    def exception_of(self, error):
        """What a callback raised, of an Error that tells of it; else None."""
        if error.status != Status.E_CALLBACK or -error.native_code not in self._kept:
            return None
        exception, traceback = self._kept[-error.native_code]
        return exception.with_traceback(traceback)                      # without those who raised it again


class _Hooks:
    """What a loader's transform callback does to a sample: each of these (index, in_size, out_size, rng), or None."""

    def __init__(self):
        self.warp = self.bias = self.norm = self.oob = self.color = None
        self.filter = None                      # (homography, rng)
        self.own_colors = ()                    # of outputs, by number, that these are not for
        self.whole = None                       # (sample_info, rng, transform), last of all
        self.picture = None                     # (sample_info, rng, Picture), before any warp

    _failures = staticmethod(lambda: None)      # a weak reference to a _Failures, which is the loader's

    def failed(self, exception):
        """Keeps an exception, and gives the number that C is told."""
        failures = self._failures()
        return Status.E_CALLBACK.value if failures is None else failures.add(exception)

    def needed(self):
        return any((self.warp, self.bias, self.norm, self.oob, self.color, self.filter, self.whole))

    def apply(self, info, rng, transform):
        about = (info.index, (info.width, info.height), (info.out_width, info.out_height), rng)
        colors = info.output not in self.own_colors
        if self.warp and info.output == 0:      # other outputs have warps of their own, or share what this one gives
            transform.homography[:] = _floats("warp_transform", self.warp(*about), 9, _c.c_double)
        if self.bias and colors:
            transform.bias[:] = _floats("bias_transform", self.bias(*about), 3)
        if self.norm and colors:
            transform.scale[:] = _floats("norm_transform", self.norm(*about), 3)
        if self.oob and colors:
            transform.fill[:] = _floats("oob_transform", self.oob(*about), 3)
        if self.color and colors:
            transform.matrix = _number("color_transform", self.color(*about), _c.c_uint32, 0, 3) + 1
        if self.filter:
            transform.filter, transform.antialias = self.filter(transform.homography, rng)
        if self.whole:
            self.whole(info, rng, transform)


def _hooks_of(user):
    found = _registry.get(user)
    return None if found is None else found()


def _copied(name, address):
    """A struct of C's as Python's own, which may be kept for as long as anybody likes."""
    kind = getattr(structs, name)
    return kind.from_buffer_copy((_c.c_char * _c.sizeof(kind)).from_address(address))


@_callback("transform_fn")
def _transform_thunk(user, info, random, transform):
    hooks = _hooks_of(user)
    if hooks is None:
        return Status.E_CALLBACK.value
    try:
        own = _copied("transform", transform)
        hooks.apply(_copied("sample_info", info), Random(_struct=_copied("random", random)), own)
        _c.memmove(transform, _c.addressof(own), _c.sizeof(own))
        return 0
    except BaseException as exception:
        return hooks.failed(exception)


class Picture:
    """A decoded picture that a DataLoader's picture callback draws into, before it is warped. What is drawn after that has returned
    shows nowhere.

    planes           one numpy array of a gray picture, else three: Y', Cb, Cr, or G, B, R where is_rgb. They are the
                     picture without padding, as it is coded: not turned by its orientation (EXIF's number). Of uint8,
                     or uint16 where depth, the bits of a sample, is above 8
    chroma_shift     (x, y): Cb and Cr have 1 / 2**x of the columns and 1 / 2**y of the rows; (1, 1) for 4:2:0
    width, height    of planes[0]; full_range: Y' is 0..255 (of 8 bits), else 16..235
    gray             half of the largest sample: middle gray, filled into all planes of whatever kind

    The arrays are Python's own: they may be kept."""

    def __init__(self, struct, planes):
        self.width, self.height, self.depth = struct.width, struct.height, struct.depth
        self.chroma_shift = (struct.chroma_shift_x, struct.chroma_shift_y)
        self.orientation = struct.orientation or 1
        self.is_rgb = bool(struct.color.present) and struct.color.matrix == 0
        self.full_range = bool(struct.color.full_range)
        self.gray = 1 << (struct.depth - 1)
        self._origin = struct.crop_x, struct.crop_y
        self._frame = planes                    # of the whole coded frame
        self.planes = self.region(0, 0, self.width, self.height)

    def region(self, left, top, right, bottom):
        """What planes have of a rectangle, in whole pixels of planes[0]: subsampled chroma that it touches is part of it."""
        left, right = (min(max(edge, 0), self.width) + self._origin[0] for edge in (left, right))
        top, bottom = (min(max(edge, 0), self.height) + self._origin[1] for edge in (top, bottom))
        if right <= left or bottom <= top:      # nothing of chroma, either
            left = right = top = bottom = 0
        shifts = [(0, 0), self.chroma_shift, self.chroma_shift]
        return [plane[top >> y:-(-bottom >> y), left >> x:-(-right >> x)] for plane, (x, y) in zip(self._frame, shifts)]


def _plane_of(number, struct, address):
    """One plane of the whole coded frame, where C has it: nobody else may get to see this array, which dangles afterwards."""
    numpy = _installed("numpy")
    shift_x, shift_y = (struct.chroma_shift_x, struct.chroma_shift_y) if number else (0, 0)
    shape = -(-struct.frame_height >> shift_y), -(-struct.frame_width >> shift_x)
    kind = numpy.dtype(numpy.uint8 if struct.depth <= 8 else numpy.uint16)
    size = struct.pitch[number] * (shape[0] - 1) + shape[1] * kind.itemsize
    return numpy.ndarray(shape, kind, (_c.c_char * size).from_address(address), 0, (struct.pitch[number], kind.itemsize))


def _draw(function, info, rng, struct, addresses):
    """Calls a picture callback with a copy of the planes, and takes over what it drew. No variable here holds C's own planes: a
    traceback would keep it."""
    numbers = [i for i in range(3) if addresses[i]]
    picture = Picture(struct, [_plane_of(i, struct, addresses[i]).copy() for i in numbers])
    drawn = list(picture._frame)
    function(info, rng, picture)
    for i, own in zip(numbers, drawn):
        _plane_of(i, struct, addresses[i])[...] = own


@_callback("picture_fn")
def _picture_thunk(user, info, random, picture, planes):
    hooks = _hooks_of(user)
    if hooks is None:
        return Status.E_CALLBACK.value
    try:
        _draw(hooks.picture, _copied("sample_info", info), Random(_struct=_copied("random", random)), _copied("picture", picture),
              list((_c.c_void_p * 3).from_address(planes)))
        return 0
    except BaseException as exception:
        return hooks.failed(exception)


# ---- batches ----------------------------------------------------------------------------------------------------------------

class _DLTensor(_c.Structure):
    _fields_ = [("data", _c.c_void_p), ("device_type", _c.c_int32), ("device_id", _c.c_int32), ("dimensions", _c.c_int32),
                ("code", _c.c_uint8), ("bits", _c.c_uint8), ("lanes", _c.c_uint16), ("shape", _c.POINTER(_c.c_int64)),
                ("strides", _c.POINTER(_c.c_int64)), ("byte_offset", _c.c_uint64)]


class _DLManagedTensor(_c.Structure):
    _fields_ = [("tensor", _DLTensor), ("manager", _c.c_void_p), ("deleter", _c.c_void_p)]


class _DLManagedTensorVersioned(_c.Structure):
    _fields_ = [("major", _c.c_uint32), ("minor", _c.c_uint32), ("manager", _c.c_void_p), ("deleter", _c.c_void_p),
                ("flags", _c.c_uint64), ("tensor", _DLTensor)]


_DL_CODES = {0: "i", 1: "u", 2: "f", 4: "bf"}
_DTYPES = {"f4": "float32", "f2": "float16", "bf2": "bfloat16", "u1": "uint8", "i4": "int32", "i8": "int64", "u8": "uint64"}
_FORMATS = {"f4": "f", "f2": "H", "bf2": "H", "u1": "B", "i4": "i", "i8": "q", "u8": "Q"}      # as in struct and memoryview; which has float16 from Python 3.12 on only

# Prototypes of our own: ctypes.pythonapi is shared with everybody else in the process.
_capsule_new = _c.PYFUNCTYPE(_c.py_object, _c.c_void_p, _c.c_void_p, _c.c_void_p)(("PyCapsule_New", _c.pythonapi))
_capsule_is = _c.PYFUNCTYPE(_c.c_int, _c.c_void_p, _c.c_void_p)(("PyCapsule_IsValid", _c.pythonapi))
_capsule_pointer = _c.PYFUNCTYPE(_c.c_void_p, _c.c_void_p, _c.c_void_p)(("PyCapsule_GetPointer", _c.pythonapi))
_delete_fn = _c.CFUNCTYPE(None, _c.c_void_p)


def _delete_managed(address, process=None, managed=_DLManagedTensor):
    if process is None or process == _os.getpid():
        _delete_fn(managed.from_address(address).deleter)(address)


def _capsules(text, managed):
    """(name, destructor, struct) of one kind of capsule; capsules point to the first two for ever."""
    label = _c.create_string_buffer(text)

    @_c.CFUNCTYPE(None, _c.c_void_p)
    def destructor(capsule, is_named=_capsule_is, pointer=_capsule_pointer, name=_c.addressof(label),
                   delete=_delete_managed):
        # A number, not an object: the capsule has no references left, and must not get one. Whoever took the tensor has
        # renamed the capsule. C code that failed may drop the capsule with its exception set; the first call then
        # raises that one: it is said once more on stderr, and the tensor is given back all the same.
        pending = None
        try:
            ours = is_named(capsule, name)
        except BaseException as exception:
            pending, ours = exception, is_named(capsule, name)
        if ours:
            delete(pointer(capsule, name), managed=managed)
        if pending is not None:
            raise pending
    return label, destructor, managed


_CAPSULES = {DLPACK_0: _capsules(b"dltensor", _DLManagedTensor),
             DLPACK_1: _capsules(b"dltensor_versioned", _DLManagedTensorVersioned)}


def _export(batch, name, version=DLPACK_0):
    """The address of a DLManagedTensor(Versioned), which keeps the batch on loan until its deleter has run."""
    tensor, err = _c.c_void_p(), _new("error")
    _check(lib.bzna_batch_to_dlpack(batch, name, version, tensor, err), err)
    return tensor.value


class Field:
    """One array of a batch, in place: numpy.asarray(field), torch.from_dlpack(field), field.memoryview(). It and its views keep
    the batch's memory."""

    __reduce__ = _uncopied("copy its numbers, by numpy() or torch()")

    def __init__(self, batch, name):
        self._batch, self._name = batch, name.encode()
        address = _export(batch.handle, self._name)
        self._managed = _DLManagedTensor.from_address(address)
        _weakref.finalize(self, _delete_managed, address, _os.getpid()).atexit = False
        tensor = self._managed.tensor
        self.shape = tuple(tensor.shape[:tensor.dimensions])
        self._kind = _DL_CODES[tensor.code] + str(tensor.bits // 8)
        self.dtype = _DTYPES[self._kind]

    def __len__(self):
        return self.shape[0]

    def __repr__(self):
        return "<benzina.Field %s %s>" % ("x".join(map(str, self.shape)), self.dtype)

    @property
    def address(self):
        """0 where there is nothing: DLPack has NULL for the data of an empty tensor."""
        return (self._managed.tensor.data or 0) + self._managed.tensor.byte_offset

    @property
    def nbytes(self):
        return _math.prod(self.shape) * self._managed.tensor.bits // 8

    @property
    def on_host(self):
        return self._managed.tensor.device_type == DEVICE_CPU

    def __dlpack_device__(self):
        return (self._managed.tensor.device_type, self._managed.tensor.device_id)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        """A "dltensor_versioned" capsule of DLPack 1.0 for who takes that, by max_version; else a "dltensor" one."""
        if copy:
            raise BufferError("a batch is exported in place, never copied")
        if dl_device is not None and tuple(dl_device) != self.__dlpack_device__():
            raise BufferError("the batch lies on device %r, not %r" % (self.__dlpack_device__(), tuple(dl_device)))
        if not self.on_host and stream != -1:   # -1: the consumer orders its streams itself, behind Batch.stream
            if stream in (0, 2):                # tensors are given back on whatever thread, which 2 is another stream on
                raise BufferError("stream: %d is ambiguous; 1 is the legacy default stream" % stream)
            self._batch.move(1 if stream is None else stream)
        version = DLPACK_1 if max_version is not None and tuple(max_version) >= (1, 0) else DLPACK_0
        name, destructor, managed = _CAPSULES[version]
        address = _export(self._batch.handle, self._name, version)
        try:
            return _capsule_new(address, _c.addressof(name), _c.cast(destructor, _c.c_void_p))
        except BaseException:
            _delete_managed(address, managed=managed)
            raise

    def _typestr(self):
        if self.dtype == "bfloat16":            # no AttributeError: numpy would make an array of one object
            raise TypeError("bfloat16 is no type of numpy's: torch() has it, and memoryview() gives its bits")
        return ("<" if _sys.byteorder == "little" else ">") + self._kind

    @property
    def __array_interface__(self):
        if not self.on_host:
            raise AttributeError("the batch lies on a device")
        return {"version": 3, "shape": self.shape, "typestr": self._typestr(),
                "data": (self.address or _c.addressof(self._managed), False)}    # older numpy takes no 0, even where nothing is read

    @property
    def __cuda_array_interface__(self):
        if self._managed.tensor.device_type != DEVICE_CUDA:
            raise AttributeError("the batch lies in host memory")
        return {"version": 3, "shape": self.shape, "typestr": self._typestr(), "data": (self.address, False), "strides": None,
                "stream": self._batch.stream or 1}

    def memoryview(self):
        """The elements as a memoryview: nothing but Python is needed. float16 and bfloat16 come as their bits. An empty batch's has one dimension."""
        if not self.on_host:
            raise BufferError("the batch lies on a device")
        kind = _c.c_char * self.nbytes
        memory = kind.from_address(self.address) if self.nbytes else kind()
        memory.field = self                     # views keep memory, memory keeps this
        view = memoryview(memory).cast("B")
        return view.cast(_FORMATS[self._kind], self.shape) if self.nbytes else view.cast(_FORMATS[self._kind])

    def numpy(self):
        if not self.on_host:
            raise BufferError("the batch lies on a device")
        self._typestr()                         # says what numpy cannot have
        import numpy
        return numpy.asarray(self)

    def torch(self):
        import torch
        return torch.from_dlpack(self)


def _stream_number(stream):
    """Of a number, or of what torch, cupy and others have for a stream."""
    for name in ("cuda_stream", "ptr"):
        stream = getattr(stream, name, stream)
    if hasattr(stream, "__cuda_stream__"):
        stream = stream.__cuda_stream__()[1]
    return None if stream is None else _number("stream", stream, _c.c_size_t) or 1      # 0 is how frameworks name the legacy default stream, for which CUDA has a 1


class Batch(_Handled):
    """One batch on loan. images, targets, indices, status: Fields. count: real samples, the rest is padding; failed of them hold the
    out-of-bounds color, and errors() says why. release() gives it back at once, else the collector does; views stay valid.

    Of a batch on a GPU, images alone lie there; what is enqueued on stream (a CUstream as a number; None on the host) reads them finished."""

    __reduce__ = _uncopied("copy the numbers of its Fields, by numpy() or torch()")
    _gone = "the batch was released"

    def __init__(self, handle, failures=None):
        self._handle, self._failures = handle, failures
        self._close = _owned(self, lib.bzna_batch_release, handle)
        self._close.atexit = False              # views may live on in what Python does not collect
        self.info = _told("batch_info", lib.bzna_batch_get_info, handle)
        for name in ("count", "failed", "replaced", "epoch", "position"):
            setattr(self, name, getattr(self.info, name))
        self.number, self.last_of_epoch = self.info.batch, bool(self.info.last_of_epoch)
        self.shape = tuple(self.info.image.shape[:self.info.image.dimensions])

    @property
    def stream(self):
        return self.info.stream

    def move(self, stream):
        """Makes another stream wait for the batch on the GPU, instead of the one it was delivered to; giving it back then orders behind that."""
        err = _new("error")
        _check(lib.bzna_batch_move(self.handle, _stream_number(stream), err), err)
        self.info = _told("batch_info", lib.bzna_batch_get_info, self.handle)

    images = property(lambda self: Field(self, "image"), doc="N x 3 x H x W, as the loader's dtype, layout and channels say; of several views V x N x 3 x H x W")
    targets = property(lambda self: Field(self, "target"), doc="N int64, -1: none")
    indices = property(lambda self: Field(self, "index"), doc="N uint64: of the samples in the dataset")
    status = property(lambda self: Field(self, "status"), doc="N int32: 0, or a Status below 0")

    def __len__(self):
        return self.shape[-4]                   # before it, if anything, the number of views

    def __dlpack__(self, **options):
        return self.images.__dlpack__(**options)

    def __dlpack_device__(self):
        return (self.info.image.device.kind, self.info.image.device.ordinal)

    def tensor(self, name):
        """The Field of one of the loader's tensors, by name."""
        return Field(self, name)

    def bytes(self, name):
        """The values of one of the loader's bytes, as they are: a list with bytes, or None, for each slot."""
        data, size, err, values = _c.c_void_p(), _c.c_uint64(), _new("error"), []
        for slot in range(len(self)):
            _check(lib.bzna_batch_bytes(self.handle, name.encode(), slot, data, size, err), err)
            values.append(_c.string_at(data.value, size.value) if data.value else None)
        return values

    def errors(self):
        """{slot: Error} of the samples that failed. Where a callback raised an exception, it is the Error's __cause__."""
        result = {}
        for slot in range(len(self)):
            err = _new("error")
            status = lib.bzna_batch_error(self.handle, slot, err)
            if status < 0:
                error = result[slot] = _error_of(status, err)
                error.__cause__ = None if self._failures is None else self._failures.exception_of(error)
        return result

    def release(self):
        self.close()


# ---- loaders ----------------------------------------------------------------------------------------------------------------

Distributed = _collections.namedtuple("Distributed", "rank world_size local_rank")


def distributed_from_env(environ=None):
    """(rank, world_size, local_rank) as torchrun (RANK, WORLD_SIZE, LOCAL_RANK) or Slurm (SLURM_PROCID, SLURM_NTASKS, SLURM_LOCALID) say,
    in this order; (0, 1, 0) where neither does."""
    environ = _os.environ if environ is None else environ
    for rank, world, local in (("RANK", "WORLD_SIZE", "LOCAL_RANK"), ("SLURM_PROCID", "SLURM_NTASKS", "SLURM_LOCALID")):
        if rank in environ and world in environ:
            try:
                found = Distributed(int(environ[rank]), int(environ[world]), int(environ.get(local, 0)))
            except ValueError:
                raise ValueError("%s, %s, %s: not numbers" % (rank, world, local)) from None
            if not 0 <= found.rank < found.world_size or found.local_rank < 0:
                raise ValueError("%s=%d of %s=%d" % (rank, found.rank, world, found.world_size))
            return found
    return Distributed(0, 1, 0)


_CHOICES = {
    "last_batch": {"partial": LAST_PARTIAL, "drop": LAST_DROP, "pad": LAST_PAD},
    "on_error": {"fill": ON_ERROR_FILL, "replace": ON_ERROR_REPLACE, "stop": ON_ERROR_STOP},
    "on_callback_error": {"stop": ON_CALLBACK_ERROR_STOP, "sample": ON_CALLBACK_ERROR_SAMPLE},
    "weighting": {None: WEIGHTING_NONE, "replace": WEIGHTING_REPLACE, "once": WEIGHTING_ONCE},
    "warp_law": _LAWS,
    "dtype": {"float32": DTYPE_FLOAT32, "float16": DTYPE_FLOAT16, "bfloat16": DTYPE_BFLOAT16, "uint8": DTYPE_UINT8},
    "layout": {"NCHW": LAYOUT_NCHW, "NHWC": LAYOUT_NHWC, "nchw": LAYOUT_NCHW, "nhwc": LAYOUT_NHWC},
    "channels": {"RGB": CHANNELS_RGB, "BGR": CHANNELS_BGR, "gray": CHANNELS_GRAY, "grey": CHANNELS_GRAY},
    "filter": {"nearest": FILTER_NEAREST, "linear": FILTER_LINEAR, "cubic": FILTER_CUBIC, "lanczos": FILTER_LANCZOS3,
               "area": FILTER_AREA, "cubic-0.75": FILTER_CUBIC_075, "lanczos4": FILTER_LANCZOS4},
    "antialias": {True: ANTIALIAS_AUTO, False: ANTIALIAS_OFF},
    "jpeg_shrink": {True: 1, False: 0},
    "decoder": {"auto": DECODER_AUTO, "software": DECODER_SOFTWARE, "nvdec": DECODER_NVDEC},
    "jpeg_decoder": {"auto": DECODER_AUTO, "software": DECODER_SOFTWARE, "nvdec": DECODER_NVDEC},
}

# Arguments that are one field of a bzna_loader_config. The first of them have their place in DataLoader's signature.
_FIELDS = {
    "batch_size": "output.batch_size", "dtype": "output.dtype", "last_batch": "order.last_batch", "seed": "order.seed",
    "weighting": "order.weighting", "rank": "shard.rank", "world_size": "shard.world_size",
    "num_threads": "decode.threads", "decoder": "decode.decoder", "on_error": "errors.policy",
    "multibuffering": "pipeline.batches_in_flight",

    "layout": "output.layout", "channels": "output.channels", "views": "output.views", "first_epoch": "order.first_epoch", "epoch_samples": "order.epoch_samples",
    "weights_by_part": "order.weights_by_part", "warp_law": "warp.law", "filter": "filter.kind",
    "antialias": "filter.antialias",
    "matrix": "color.matrix", "fill_space": "color.fill_space", "track": "fields.image",
    "tensors": "fields.tensors", "bytes": "fields.bytes",
    "reader_threads": "read.threads", "read_ahead": "read.ahead_samples", "read_memory_bytes": "read.memory_bytes",
    "read_retries": "read.retries", "read_backoff_ns": "read.backoff_ns", "on_callback_error": "errors.callback_policy",
    "verify_every": "decode.verify_every", "jpeg_decoder": "decode.jpeg", "jpeg_shrink": "decode.jpeg_shrink",
    "restore_any_pixels": "pipeline.restore_any_pixels",
}
_KEYWORDS = {field: name for name, field in _FIELDS.items()}            # messages name them as the caller knows them
_KEYWORDS.update({"output.width": "shape", "output.height": "shape", "output.device": "memory", "order.kind": "shuffle",
                  "order.indices": "indices", "order.weights": "weights", "color.std": "std",
                  "color.mean_image": "mean_image", "color.mean_image_bytes": "mean_image", "warp.rotate": "rotate",
                  "warp.shear": "shear"})
_LOADER_CONFIG = _re.compile(r"loader_config\.(\w+\.\w+)")


def _configure(config, name, value):
    """Sets an argument's field."""
    group, member = _FIELDS[name].split(".")
    if name in _CHOICES and not (name == "decoder" and isinstance(value, int)):
        value = _choice(name, value)
    group = getattr(config, group)
    if dict(group._fields_)[member] in _WHOLE:
        _put(group, member, value, name)
    else:
        setattr(group, member, None if value is None else _text(name, value))


# What torch.utils.data.DataLoader has and this one has not, and what does that here.
_TORCHS = {
    "num_workers": "num_threads, the decoder's threads, and reader_threads: no processes are needed",
    "pin_memory": "memory and output, which say where batches lie: on the GPU, or in host memory, which is pinned then",
    "sampler": "shuffle; indices; weights and weighting; rank and world_size",
    "batch_sampler": "batch_size; shuffle; indices; weights and weighting",
    "collate_fn": "output, and warp_transform and its like, or transform, for each sample",
    "generator": "seed",
    "worker_init_fn": "seed",
    "prefetch_factor": "multibuffering, in batches, and read_ahead, in samples",
    "persistent_workers": "nothing: threads live as long as the loader",
    "multiprocessing_context": "nothing: threads do the work",
}


_WARPS = {"scale", "ratio", "degrees", "translate", "flip_h", "flip_v", "random_crop", "keep_ratio", "resize"}


def _refuse_unknown(settings):
    unknown = sorted(set(settings) - set(_FIELDS))
    if unknown:
        raise TypeError("DataLoader has no argument " + "; ".join(
            "%s (torch's; here: %s)" % (name, _TORCHS[name]) if name in _TORCHS else
            "%s (warp_transform has it: ops.SimilarityTransform, RandomResizedCrop, CenterResizedCrop)" % name if name in _WARPS else name
            for name in unknown))


def _fields_of(fields, settings):
    """The names of tensors and of bytes; settings gets what the library is told."""
    for name, value in (fields or {}).items():
        name = {"image": "track"}.get(name, name)
        if name not in ("track", "tensors", "bytes"):
            raise ValueError("fields: %r is none of 'image', 'tensors', 'bytes'" % (name,))
        if settings.get(name) is not None:
            raise ValueError("fields, %s: give one of the two" % name)
        settings[name] = value
    named = []
    for name in ("tensors", "bytes"):
        value = settings.pop(name, None) or ()
        value = value.split(",") if isinstance(value, str) else list(value)
        if value:
            settings[name] = ",".join(value)
        named.append(value)
    return [name.partition(":")[0] for name in named[0]], named[1]


def _warn_of_mean(mean, std):
    """Of torchvision's numbers, which are for pictures in 0..1."""
    def times_255(numbers):
        return "(%s)" % ", ".join("%.6g * 255" % n for n in numbers)
    if mean is None or not 0 < max(_floats("mean", mean, 3)) < 1:
        return
    advice = "mean=" + times_255(_floats("mean", mean, 3))
    if std is not None and max(_floats("std", std, 3)) < 1:
        advice += ", std=" + times_255(_floats("std", std, 3))
    _warnings.warn("mean: below 1, but pictures are in 0..255 here, not in 0..1: write " + advice, stacklevel=3)


def _choice(name, value, choices=_CHOICES):
    known = value
    if name == "dtype" and not isinstance(value, str):          # torch's and numpy's
        known = getattr(value, "__name__", str(value)).replace("torch.", "")
    try:
        return choices[name][known]
    except (KeyError, TypeError):
        raise ValueError("%s: %r is none of %s" %
                         (name, value, ", ".join(map(repr, choices.get(name, ["a number"]))))) from None


def _installed(name):
    try:
        return __import__(name)
    except (ImportError, OSError):              # OSError: it is there, and what it needs is not
        return None


def _torch_with_cuda():
    torch = _installed("torch")
    return torch is not None and torch.cuda.is_available()


_READERS = {
    "torch": Field.torch, "numpy": Field.numpy, "field": lambda field: field,
    "memoryview": Field.memoryview,
}


def _constant(name, kind, value):
    """One of ops for a constant, whose errors name the argument."""
    try:
        return kind(value)
    except (TypeError, ValueError) as error:
        raise type(error)("%s: %s; a callable or one of ops will do, too" % (name, error)) from None


_LIBRARY_WARPS = ops.SimilarityTransform, ops.RandomResizedCrop, ops.CenterResizedCrop, ops.MXNetAffine


def _set_distortion(warp, rotate, shear, perspective):
    """What torchvision's RandomAffine and RandomPerspective call degrees, shear, distortion_scale and p."""
    def around(d):
        return (-abs(d), abs(d))
    warp.rotate[:] = _pair("rotate", rotate, around)
    shear = tuple(shear) if _is_list(shear) else around(_number("shear", shear, _c.c_double))
    warp.shear[:] = _floats("shear", shear if len(shear) == 4 else shear + (0.0, 0.0), 4, _c.c_double)
    distortion, p = _pair("perspective", perspective, lambda d: (d, 0.5), 0, 1)
    if distortion and p:
        warp.perspective, warp.perspective_p = distortion, p


def _set_mean_image(color, image):
    """Returns what must live until the loader is open."""
    if image is None:
        return None
    view = memoryview(image.detach().cpu().numpy() if hasattr(image, "detach") else image)
    if view.format != "f":
        raise TypeError("mean_image: float32 is needed, not numbers of format %r" % view.format)
    kept = _c.create_string_buffer(view.tobytes(), view.nbytes)
    color.mean_image, color.mean_image_bytes = _c.addressof(kept), view.nbytes
    return kept


class Output:
    """A further output of a DataLoader's samples, from the same decode: other sizes, other views, another picture of each
    sample. It is fields[name] in the loop, and Batch.tensor(name).

    name             none that another tensor has
    shape            (height, width), or one number for both; None: the DataLoader's
    field            the picture that it is made of, by name; None: the one that the DataLoader's images are made of
    warp_transform   one of ops.SimilarityTransform, RandomResizedCrop, CenterResizedCrop: warps of its own, of as many views
                     as views says. None: each view is warped as that of the DataLoader's images, scaled to its own sizes
    dtype, layout, channels
                     as the DataLoader's
    own_color        True: pixels are 0..255 (masks, indices of palettes), or what mean, std, bias, norm, oob, mean_image,
                     matrix and fill_space say here, any of which says True. False: as the DataLoader's images
    filter, antialias
                     as the DataLoader's; None: as its images
    """

    def __init__(self, name, shape=None, field=None, warp_transform=None, views=0, dtype="float32", layout="NCHW",
                 channels="RGB", own_color=False, mean=None, std=None, bias=None, norm=None, oob=None, mean_image=None,
                 matrix=None, fill_space=None, filter=None, antialias=None):
        if warp_transform is not None and type(warp_transform) not in _LIBRARY_WARPS:
            raise TypeError("warp_transform: one of ops.SimilarityTransform, RandomResizedCrop and CenterResizedCrop, or None")
        self.name, self.field, self.warp_transform = name, field, warp_transform
        self._struct = e = _new("extra_output")
        e.height, e.width = (0, 0) if shape is None else _height_width(shape)
        e.dtype, e.layout, e.channels = _choice("dtype", dtype), _choice("layout", layout), _choice("channels", channels)
        _put(e, "views", views)
        e.name, e.field = _text("name", name), None if field is None else _text("field", field)
        for what, values in (("mean", mean), ("std", std), ("bias", bias), ("scale", norm), ("fill", oob)):
            if values is not None:
                getattr(e.color, what)[:] = _floats(what, values, 3)
        self._kept = _set_mean_image(e.color, mean_image)       # as long as this lives
        for group, what, value in ((e.color, "matrix", matrix), (e.color, "fill_space", fill_space),
                                   (e.filter, "filter", filter), (e.filter, "antialias", antialias)):
            if value is not None:
                _put(group, "kind" if what == "filter" else what, _choice(what, value) if what in _CHOICES else value, what)
        colors = (mean, std, bias, norm, oob, mean_image, matrix, fill_space)
        e.own_color = _flag("own_color", own_color) or any(given is not None for given in colors)
        e.own_filter = filter is not None or antialias is not None
        if warp_transform is not None:
            e.own_warp, e.warp = 1, warp_transform._warp()

    def __repr__(self):
        return "<benzina.Output %s>" % self.name


class DataLoader(_Handled):
    """Batches of a dataset. Every `for` goes through one epoch, the first through first_epoch, the next one through the one after it.

    dataset          a Dataset, or what makes one; or None with path=
    shape            (height, width) of the pictures that come out, or one number for both. None, where tensors or bytes are
                     named: no pictures, images is None
    shuffle, seed    the order and the random warps of epoch e follow from (seed, e). None: another seed in every run
    drop_last        no partial last batch; last_batch="pad" fills it from the epoch's start instead (Batch.count says what is real)
    epochs           how many there are; None: no end, and the first batches of the next epoch are decoded while this one is used up
    multibuffering   batches being filled, ready or in use
    timeout          seconds to wait for a batch at most, Error(AGAIN) after that; 0: no limit
    mean, std        y = (x - mean) / std, x in 0..255
    bias_transform, norm_transform
                     y = (x - bias) * norm: three numbers, one, an ops.Constant..., or a callable
    warp_transform   one of ops, nine numbers, or a callable (index, in_size, out_size, rng) -> 3x3 from output to input pixels, sizes being
                     (width, height) and rng a Random
    oob_transform, color_transform
                     the color outside the picture, and the conversion to RGB (see ops.ColorTransform; None: what the file says)
    transform        a callable (sample_info, rng, structs.transform) that may change all of it
    picture          a callable (sample_info, rng, Picture) that draws into decoded pictures before they are warped, once a sample
                     whatever the views; in software alone. Random erasing, of up to half of each edge:

                         def erase(sample, rng, picture):
                             width, height = (int(edge * rng.uniform(0.1, 0.5)) for edge in (picture.width, picture.height))
                             left, top = rng.randrange(picture.width - width + 1), rng.randrange(picture.height - height + 1)
                             for plane in picture.region(left, top, left + width, top + height):
                                 plane[...] = picture.gray
    rank, world_size this process's share (see distributed_from_env). Every rank gets as many batches; the last may be empty on some, unless
                     drop_last or last_batch="pad"
    indices          the samples of an epoch, instead of all; weights: how likely each is, with weighting="replace" or "once"
    on_error         "fill": the slot of a sample that fails holds the color outside, and a warning tells; "replace"; "stop"
    on_callback_error
                     "stop": an exception of a callback is raised where the next batch is asked for, whatever on_error is; "sample": its
                     sample counts as one that fails (Batch.errors() has the exceptions)
    output           "torch", "numpy", "field", "memoryview"; None: the first of torch, numpy, field that is there
    copy             True: tensors or arrays of their own, which may be kept in any number
    device           that decodes and warps: "cpu", "cuda:0", ... (see Context); None: the dataset's
    decoder          "auto": NVDEC where the device has it, and software for what that cannot; "software", "nvdec"
    jpeg_decoder     "nvdec": NVDEC decodes baseline JPEG of 4:2:0, too (best of one size), or opening fails; its pixels are near
                     libjpeg-turbo's, not equal. "auto", "software": never
    dtype            "float32", "float16", "bfloat16" (which numpy does not have: torch, or its bits by memoryview), "uint8" (rounded
                     to nearest, ties to even, saturated)
    channels         "RGB", "BGR", "gray" or "grey" (one channel, the luma); mean and std, bias and norm are in that order
    layout           "NCHW", "NHWC" (channels last; torch: images.permute(0, 3, 1, 2) is then NCHW in torch.channels_last)
    filter           "nearest", "linear", "cubic" (a = -0.5), "lanczos" (a = 3): PIL's; "cubic-0.75", "lanczos4", "area": OpenCV's
    antialias        True: where a picture shrinks, the filter is widened by as much, as in PIL and torchvision ("nearest" is not;
                     "area" always is); False: it is not, as in OpenCV
    jpeg_shrink      True: a JPEG that all its views shrink, with antialias, two-, four- or eightfold is decoded at 1/2, 1/4 or 1/8 of its size
    inter_method     MXNet's number instead of the two: 0 nearest, 1 linear, 2 cubic, 3 area, 4 lanczos4; 9: for each sample 2 where both
                     sides grow, 3 where both shrink, else 1; 10: for each sample any of 0 to 4. 9 and 10 run in Python
    memory           "host", "device"; None: the device for output="torch" where torch has CUDA and the context a GPU, else the host
    stream           the CUDA stream to which batches on the device are delivered: a number, or torch's or cupy's object; None: one of the
                     loader's own. What takes a batch by DLPack names its own stream all the same

    track            the picture of each sample: "image", "thumb", or one of Sample.images; None: the thumbnail where
                     shape is at most 512 and there is one
    tensors          names of numeric fields: N int64, -1 where a sample has none, or N x k float32; k is how many numbers the
                     first sample has, or stands behind a colon: ["id", "label:5"]. What is missing is NaN
    bytes            names of any fields. With either, the loop is `for images, targets, fields in loader`: fields is a
                     dict of tensors, and of lists with a text, bytes, a number, an array or None for each sample
    fields           all three in a dict: {"image": "jpg", "tensors": ["id"], "bytes": ["txt"]}
    views            so many views of each sample, each with its own random warp: images is V x N x C x H x W then
    outputs          further Outputs of the same decode, which are in the loop's fields, too
    mean_image       a mean for each pixel: an array of float32, C x H x W, in place of mean
    rotate, shear    degrees, drawn for each view, on top of the warp, as torchvision's RandomAffine draws them: a number d means
                     (-d, d); shear may have four, of x and y
    perspective      distortion_scale of torchvision's RandomPerspective, on top of that, or (distortion_scale, p); p is 0.5
    brightness, contrast, saturation
                     factors as of torchvision's ColorJitter: a number b means (max(0, 1 - b), 1 + b)
    hue              its turns of the hue: a number h, at most 0.5, means (-h, h). The four come in this order
    grayscale        the probability of torchvision's RandomGrayscale
    jitter           an ops.ColorJitter instead of the five, which has MXNet's random_h, max_random_contrast, ... as well

    Further settings of bzna_loader_config: reader_threads, read_ahead, read_retries, matrix, fill_space, ... (_FIELDS
    has them all).
    """

    __reduce__ = _uncopied("its threads and batches are this process's. Make one in each process, from a Dataset, "
                           "which can be pickled, and give it this one's state_dict()")
    _gone = "the loader is closed"

    def __init__(self, dataset, shape=None, path=None, batch_size=1, shuffle=False, drop_last=False, timeout=0, device=None, multibuffering=3, seed=None,
                 bias_transform=None, norm_transform=None, warp_transform=None, oob_transform=None, color_transform=None, transform=None, picture=None,
                 mean=None, std=None, num_threads=0, epochs=None, rank=0, world_size=1, indices=None, weights=None, weighting=None,
                 last_batch=None, on_error="fill", output=None, copy=False, decoder="auto", dtype="float32", memory=None, stream=None,
                 fields=None, outputs=(), mean_image=None, inter_method=None, brightness=0, contrast=0, saturation=0, hue=0, grayscale=0,
                 perspective=0, rotate=0, shear=0, jitter=None, **settings):
        _dispose_put_off()
        _refuse_unknown(settings)               # before anything else: who writes torch's arguments is told so
        self._tensors, self._bytes = _fields_of(fields, settings)
        if shape is None and not (self._tensors or self._bytes):
            raise TypeError("shape: (height, width) of the pictures that come out must be given")
        self._has_pictures = shape is not None
        if (dataset is None) == (path is None):
            raise ValueError("dataset, path: give one of the two")
        context = None if device is None else _shared_context(_device_of(device))
        if not isinstance(dataset, Dataset):
            dataset = Dataset(path if dataset is None else dataset, context=context)
        if context is None or context._device == dataset._context._device:
            context = dataset._context
        height, width = (0, 0) if shape is None else _height_width(shape)
        timeout = 0 if timeout is None else _number("timeout", timeout, _c.c_double, 0)
        shuffle, drop_last, copy = _flag("shuffle", shuffle), _flag("drop_last", drop_last), _flag("copy", copy)
        self._bytes = {name: dataset._kind(name) for name in self._bytes}
        if seed is None:
            if world_size != 1:
                raise ValueError("seed: all ranks need the same one")
            seed = _random.SystemRandom().getrandbits(63)
        if drop_last and last_batch not in (None, "drop"):
            raise ValueError("drop_last, last_batch: they contradict each other")
        if (mean is not None or std is not None) and (bias_transform is not None or norm_transform is not None):
            raise ValueError("mean, std, bias_transform, norm_transform: give (mean, std), which divides, or (bias, norm), which multiplies")
        if output not in (None, *_READERS):
            raise ValueError("output: %r is none of %s" % (output, ", ".join(map(repr, _READERS))))
        epochs = EPOCHS_ENDLESS if epochs is None else _number("epochs", epochs, _c.c_uint64, 1)
        if _choice("dtype", dtype) == DTYPE_BFLOAT16 and output == "numpy":
            raise ValueError("dtype, output: bfloat16 is no type of numpy's")
        if memory == "device" and output in ("numpy", "memoryview"):
            raise ValueError("memory: %s reads host memory" % output)
        if inter_method is not None and not settings.keys().isdisjoint(("filter", "antialias")):
            raise ValueError("inter_method, filter, antialias: give MXNet's number, or the other two")
        laws = {settings.get("warp_law"), getattr(warp_transform, "law", None)} - {None}
        if len(laws) > 1:
            raise ValueError("warp_law, warp_transform.law: they contradict each other")

        config = _new("loader_config")
        config.output.width, config.output.height = width, height
        where = self._memory(context, output, memory if self._has_pictures else "host")
        config.output.device, config.output.stream = where, _stream_number(stream)
        config.order.kind = ORDER_SHUFFLE if shuffle else ORDER_SEQUENTIAL
        config.order.epochs = epochs
        last_batch = "drop" if drop_last else last_batch or "partial"
        for name, value in dict(batch_size=batch_size, dtype=dtype, last_batch=last_batch, seed=seed,
                                weighting=weighting, rank=rank, world_size=world_size, num_threads=num_threads,
                                decoder=decoder, on_error=on_error, multibuffering=multibuffering).items():
            _configure(config, name, value)
        kept = self._set_samples(config, indices, weights)
        if mean is not None:
            config.color.mean[:] = _floats("mean", mean, 3)
        if std is not None:
            config.color.std[:] = _floats("std", std, 3)
            if 0 in config.color.std[:]:
                raise ValueError("std: nothing can be divided by 0")
        _warn_of_mean(mean, std)
        kept.append(_set_mean_image(config.color, mean_image))
        hooks = self._set_transforms(config, warp_transform, bias_transform, norm_transform, oob_transform, color_transform, transform)
        if picture is not None:
            _check_callback("picture", picture, "sample, rng, picture")
        if picture is not None and _installed("numpy") is None:
            raise ImportError("picture: it is given numpy arrays, and numpy is not installed")
        hooks.picture, self._failures = picture, _Failures()
        hooks._failures = _weakref.ref(self._failures)
        if (rotate, shear, perspective) != (0, 0, 0) and hooks.warp:
            raise ValueError("rotate, shear, perspective: they go on top of a warp of ops that the library draws, not of %r" % (warp_transform,))
        _set_distortion(config.warp, rotate, shear, perspective)
        drawn = brightness, contrast, saturation, hue, grayscale
        if jitter is not None and drawn != (0, 0, 0, 0, 0):
            raise ValueError("jitter, brightness, contrast, saturation, hue, grayscale: give an ops.ColorJitter, or its numbers")
        if jitter is not None and not isinstance(jitter, ops.ColorJitter):
            raise TypeError("jitter: %r is no ops.ColorJitter" % (jitter,))
        config.color.jitter = (ops.ColorJitter(*drawn) if jitter is None else jitter)._struct
        if inter_method is not None:
            method = _choice("inter_method", inter_method, {"inter_method": _INTER_METHODS})
            if callable(method):
                hooks.filter = method
            else:
                config.filter.kind, config.filter.antialias = method
        for name, value in settings.items():    # warp_law behind the warp
            _configure(config, name, value)
        outputs = list(outputs) if _is_list(outputs) else [outputs]
        for output_given in outputs:
            if not isinstance(output_given, Output):
                raise TypeError("outputs: %r is no Output" % (output_given,))
        self._outputs = [output.name for output in outputs]
        extras = (structs.extra_output * len(outputs))(*(output._struct for output in outputs))
        if outputs:
            config.outputs.ptr, config.outputs.count = _c.addressof(extras), len(extras)
            hooks.own_colors = [i for i, extra in enumerate(extras, 1) if extra.own_color]

        handle, err, key = _c.c_void_p(), _new("error"), None
        if hooks.needed() or picture:
            key = _register(_weakref.ref(hooks))
        if hooks.needed():
            config.pipeline.transform, config.pipeline.transform_user = _transform_thunk, key
        if picture:
            config.pipeline.picture, config.pipeline.picture_user = _picture_thunk, key
        status = lib.bzna_loader_open(context.handle, dataset.handle, config, handle, err)
        del kept                                # the library has copied it
        if status < 0:
            _registry.pop(key, None)
        _check(status, err)
        self.dataset, self.batch_size, self.shape, self.seed = dataset, batch_size, (height, width), seed
        self._context = context
        self.rank, self.world_size, self.drop_last, self.copy, self.output = rank, world_size, drop_last, copy, output
        self.timeout, self._stream = timeout, stream            # which must live as long as the loader
        self._hooks, self._handle, self._on_error = hooks, handle.value, on_error
        self._close = _owned(self, lib.bzna_loader_close, handle.value, key)
        self._epoch = config.order.first_epoch  # of the next batch
        self._inside = False                    # some of that epoch is delivered,
        self._resumed = False                   # or was, before the state was saved that this loader goes on from
        self._held = None                       # a batch of a later epoch, and the state before it
        self._moves = 0                         # so that an iterator sees that the loader went elsewhere
        self._iterator = None

    @staticmethod
    def _memory(context, output, memory):
        """Where batches are to lie."""
        if memory not in (None, "host", "device"):
            raise ValueError("memory: %r is none of None, 'host', 'device'" % (memory,))
        if memory == "device":
            return context.device.device
        if memory is None and output in (None, "torch"):
            info = _new("device_info")
            status = lib.bzna_context_device_info(context.handle, info, _c.sizeof(info), None)
            if status == Status.OK and _torch_with_cuda():
                return info.device
        return structs.device(DEVICE_CPU)

    @staticmethod
    def _set_samples(config, indices, weights):
        kept = []
        for name, values, kind in (("indices", indices, _c.c_uint64), ("weights", weights, _c.c_double)):
            if values is None:
                continue
            values = _many(name, values, kind)
            kept.append(values)
            setattr(config.order, name, values.buffer_info()[0])
            setattr(config.order, "index_count" if name == "indices" else "weight_count", len(values))
            if not values:
                raise ValueError("%s: there are none" % name)
        return kept

    @staticmethod
    def _set_transforms(config, warp, bias, norm, oob, color, whole):
        """Constants and the known warps go to the library; what is left is called."""
        hooks = _Hooks()
        hooks.whole = whole
        if whole is not None:
            _check_callback("transform", whole, "sample, rng, transform")
        for name, given, base in (("warp_transform", warp, ops.WarpTransform), ("bias_transform", bias, ops.BiasTransform),
                                  ("norm_transform", norm, ops.NormTransform), ("oob_transform", oob, ops.OOBTransform),
                                  ("color_transform", color, ops.ColorTransform)):
            if callable(given):
                _check_callback(name, given, "index, in_size, out_size, rng")
                if type(given).__module__ == base.__module__ and not isinstance(given, base):
                    raise TypeError("%s: %s is no %s" % (name, type(given).__name__, base.__name__))
        if type(warp) in _LIBRARY_WARPS:
            config.warp = warp._warp()
        elif warp is not None:
            hooks.warp = warp if callable(warp) else _constant("warp_transform", ops.ConstantWarpTransform, warp)
        for name, given, kind, field, attribute in (("bias", bias, ops.ConstantBiasTransform, "bias", "bias"),
                                                    ("norm", norm, ops.ConstantNormTransform, "scale", "norm"),
                                                    ("oob", oob, ops.ConstantOOBTransform, "fill", "oob")):
            if given is None:
                continue
            if not callable(given):
                given = _constant(name + "_transform", kind, given)
            if type(given) is kind:
                getattr(config.color, field)[:] = getattr(given, attribute)
            else:
                setattr(hooks, name, given)
        if color is not None and not callable(color):
            color = _constant("color_transform", ops.ConstantColorTransform, color)
        if type(color) is ops.ConstantColorTransform:
            config.color.matrix = color.index + 1
        else:
            hooks.color = color
        return hooks

    # -- one epoch after the other

    def __len__(self):
        """Batches of a whole epoch."""
        return self.info.batches_per_epoch

    def __iter__(self):
        """(images, targets) of one epoch, and a dict of fields where tensors, bytes or outputs name some."""
        if self.output is None:                 # found out now: what an import leaves behind must not hold a batch
            host = self.info.image.device.kind == DEVICE_CPU
            self.output = ("torch" if (_installed("torch") if host else _torch_with_cuda()) else
                           "numpy" if host and _installed("numpy") and self.info.image.dtype != DTYPE_BFLOAT16 else "field")
        if self.copy and self.output not in ("torch", "numpy"):
            raise ValueError("copy: there is neither torch nor numpy to copy with, or output says otherwise")
        return _Epoch(self, self._pair)

    def batches(self):
        """The Batches of one epoch, with indices, states and errors."""
        return _Epoch(self, lambda batch: batch)

    def _pair(self, batch):
        if batch.failed:
            slot, error = next(iter(batch.errors().items()))
            reason = "" if error.__cause__ is None else ": %r" % error.__cause__
            _warnings.warn("%d of %d samples failed; slot %d: %s%s" % (batch.failed, batch.count, slot, error, reason), RuntimeWarning, stacklevel=3)
        def read(field):
            tensor = _READERS[self.output](field)
            return tensor if not self.copy else tensor.clone() if self.output == "torch" else tensor.copy()

        pair = read(batch.images) if self._has_pictures else None, read(batch.targets)
        if not self._tensors and not self._bytes and not self._outputs:
            return pair
        fields = {name: read(batch.tensor(name)) for name in (*self._tensors, *self._outputs)}
        for name, kind in self._bytes.items():
            value_of = _FIELD_VALUES[kind]
            fields[name] = [None if data is None else value_of(data) for data in batch.bytes(name)]
        return (*pair, fields)

    @property
    def epoch(self):
        """Of the next batch."""
        return self._epoch

    def set_epoch(self, epoch):
        """Goes to the start of an epoch, unless the loader stands there, or inside it after load_state_dict."""
        epoch = _number("epoch", epoch, _c.c_uint64)
        if epoch == self._epoch and (self._resumed or not self._inside):
            return
        self._forget()
        self._reset(epoch)

    def _reset(self, epoch):
        err = _new("error")
        _check(lib.bzna_loader_reset(self.handle, epoch, err), err)
        self._epoch, self._inside, self._resumed = epoch, False, False

    def _forget(self):
        """What iterators there are are over."""
        self._moves += 1
        self._iterator = self._held = None

    def state_dict(self):
        """Where the run stands, after the last batch that was delivered: 128 bytes, to be kept beside the model's checkpoint."""
        return {"state": self._held[1] if self._held else self._save()}

    def _save(self):
        return bytes(_told("loader_state", lib.bzna_loader_save, self.handle))

    def load_state_dict(self, state_dict):
        """Goes on from a state, whatever the batch size, threads and world size were. The `for` that follows ends with its epoch."""
        data = state_dict["state"] if isinstance(state_dict, dict) else state_dict
        state, err = structs.loader_state(), _new("error")
        if len(data) != _c.sizeof(state):
            raise ValueError("state: %d bytes, not %d" % (len(data), _c.sizeof(state)))
        _c.memmove(_c.addressof(state), bytes(data), len(data))
        _check(lib.bzna_loader_restore(self.handle, state, err), err)
        self._forget()
        self.seed, self._epoch = state.seed, state.epoch
        self._inside = self._resumed = state.position > 0

    def _next(self):
        """The next Batch, or None after the last epoch. Waits in steps, so that an interrupt from the keyboard comes through."""
        _dispose_put_off()
        handle, err, end = _c.c_void_p(), _new("error"), _time.monotonic() + self.timeout if self.timeout else None
        while True:
            step = 0.1 if end is None else max(0.0, min(0.1, end - _time.monotonic()))
            status = lib.bzna_loader_next(self.handle, int(step * 1e9), handle, err)
            if status == Status.AGAIN:
                if end is not None and _time.monotonic() >= end:
                    raise Error(Status.AGAIN, "no batch within %g s" % self.timeout)
                continue
            if status < 0:
                self._fail(_error_of(status, err))
            return Batch(handle.value, self._failures) if status == Status.OK else None

    def _fail(self, error):
        """Raises what a callback raised, or else the error."""
        current = self._iterator() if self._iterator else None
        if error.status != Status.E_STATE:      # it stays, until the loader goes elsewhere
            self._inside = True
            if current is not None:
                current.close()
        of_source = self.dataset.last_exception
        exception = self._failures.exception_of(error)
        if error.status == Status.E_CALLBACK and not error.native_code:
            exception = of_source
        if exception is not None:
            _raise_of_callback(exception, error)
        raise error from (of_source if error.status == Status.E_IO else None)

    # -- about it

    @property
    def info(self):
        """A structs.loader_info."""
        return _told("loader_info", lib.bzna_loader_get_info, self.handle)

    @property
    def statistics(self):
        """A structs.loader_stats."""
        return _told("loader_stats", lib.bzna_loader_statistics, self.handle)

    @property
    def last_exception(self):
        """The last exception that a transform or the dataset's source raised, on whatever thread."""
        return self.dataset.last_exception if self._failures.last is None else self._failures.last

    def close(self):
        """Ends the threads. Batches that are out stay valid."""
        self._forget()
        super().close()


class _Epoch:
    """One way through an epoch."""

    def __init__(self, loader, read):
        current = loader._iterator() if loader._iterator else None
        if current is not None and not current._over:
            raise Error(Status.E_STATE, "this loader is being iterated: end that first, by its close(), or by set_epoch of the loader")
        if loader._inside and not loader._resumed:      # the last one was broken off
            loader._reset(loader._epoch + 1)
            loader._held = None
        loader._resumed = False
        self._loader, self._read, self._moves, self._over = loader, read, loader._moves, False
        loader._iterator = _weakref.ref(self)

    def __iter__(self):
        return self

    def close(self):
        """Ends it; what is left of the epoch is left out."""
        self._over = True

    def __next__(self):
        loader = self._loader
        if self._over:
            raise StopIteration
        if self._moves != loader._moves:
            self._over = True
            raise Error(Status.E_STATE, "the loader went elsewhere while it was iterated")
        if loader._held:
            batch, loader._held = loader._held[0], None
        else:
            before = loader._save()
            batch = loader._next()
            if batch is not None and batch.epoch != loader._epoch:
                loader._held, loader._epoch, loader._inside = (batch, before), batch.epoch, False
                batch = None
        if batch is None:
            self._over, loader._inside = True, False
            raise StopIteration
        loader._inside = not batch.last_of_epoch
        if batch.last_of_epoch:
            self._over = True
            loader._epoch += 1
        return self._read(batch)

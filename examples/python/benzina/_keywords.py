# Made from the table of settings in benzina.c by `make bindings` (tests/make/settings.py): change that.
"""Arguments that are one setting of a config, and names of choices."""
from . import _numbers


FIELDS = {
    "batch_size": "output.batch_size",
    "dtype": "output.dtype",
    "layout": "output.layout",
    "channels": "output.channels",
    "views": "output.views",
    "last_batch": "order.last_batch",
    "seed": "order.seed",
    "first_epoch": "order.first_epoch",
    "pad_value": "order.pad_value",
    "pad_target": "order.pad_target",
    "rank": "shard.rank",
    "world_size": "shard.world_size",
    "filter": "filter.kind",
    "antialias": "filter.antialias",
    "fill_space": "color.fill_space",
    "matrix": "color.matrix",
    "track": "fields.image",
    "tensors": "fields.tensors",
    "bytes": "fields.bytes",
    "reader_threads": "read.threads",
    "read_ahead": "read.ahead_samples",
    "read_memory_bytes": "read.memory_bytes",
    "read_retries": "read.retries",
    "read_backoff_ns": "read.backoff_ns",
    "decoder": "decode.decoder",
    "num_threads": "decode.threads",
    "jpeg_decoder": "decode.jpeg",
    "jpeg_shrink": "decode.jpeg_shrink",
    "jpeg_shrink_margin": "decode.jpeg_shrink_margin",
    "hybrid": "decode.hybrid",
    "on_error": "errors.on_error",
    "on_callback_error": "errors.on_callback_error",
    "multibuffering": "pipeline.batches_in_flight",
    "restore_any_pixels": "pipeline.restore_any_pixels",
    "no_threads": "pipeline.no_threads",
}

# Arguments of Context, which have the names of members.
CONTEXT = (
    "log_level",
    "max_edge_px",
    "max_sample_bytes",
    "sessions",
    "decode_memory_bytes",
    "no_threads",
)

# Arguments of DataLoader that are given by name, and the numbers of benzina.h.
CHOICES = {
    "last_batch": {
        "partial": _numbers.LAST_PARTIAL,
        "drop": _numbers.LAST_DROP,
        "pad": _numbers.LAST_PAD,
        "fill": _numbers.LAST_FILL,
    },
    "on_error": {
        "fill": _numbers.ON_ERROR_FILL,
        "replace": _numbers.ON_ERROR_REPLACE,
        "stop": _numbers.ON_ERROR_STOP,
    },
    "on_callback_error": {
        "stop": _numbers.ON_CALLBACK_ERROR_STOP,
        "sample": _numbers.ON_CALLBACK_ERROR_SAMPLE,
    },
    "dtype": {
        "float32": _numbers.DTYPE_FLOAT32,
        "float16": _numbers.DTYPE_FLOAT16,
        "bfloat16": _numbers.DTYPE_BFLOAT16,
        "uint8": _numbers.DTYPE_UINT8,
    },
    "layout": {
        "NCHW": _numbers.LAYOUT_NCHW,
        "nchw": _numbers.LAYOUT_NCHW,
        "NHWC": _numbers.LAYOUT_NHWC,
        "nhwc": _numbers.LAYOUT_NHWC,
    },
    "channels": {
        "RGB": _numbers.CHANNELS_RGB,
        "BGR": _numbers.CHANNELS_BGR,
        "gray": _numbers.CHANNELS_GRAY,
        "grey": _numbers.CHANNELS_GRAY,
    },
    "filter": {
        "linear": _numbers.FILTER_LINEAR,
        "nearest": _numbers.FILTER_NEAREST,
        "cubic": _numbers.FILTER_CUBIC,
        "area": _numbers.FILTER_AREA,
        "lanczos4": _numbers.FILTER_LANCZOS4,
        "lanczos": _numbers.FILTER_LANCZOS3,
        "cubic-0.75": _numbers.FILTER_CUBIC_075,
    },
    "antialias": {
        True: _numbers.ANTIALIAS_AUTO,
        False: _numbers.ANTIALIAS_OFF,
        "round": _numbers.ANTIALIAS_ROUND,
    },
    "decoder": {
        "auto": _numbers.DECODER_AUTO,
        "software": _numbers.DECODER_SOFTWARE,
        "nvdec": _numbers.DECODER_NVDEC,
    },
    "jpeg_decoder": {
        "auto": _numbers.DECODER_AUTO,
        "software": _numbers.DECODER_SOFTWARE,
        "nvdec": _numbers.DECODER_NVDEC,
    },
}

# Those of data sets, writers, rules and policies.
OTHER_CHOICES = {
    "rule_dtype": {
        "float32": _numbers.DTYPE_FLOAT32,
        "uint8": _numbers.DTYPE_UINT8,
        "int32": _numbers.DTYPE_INT32,
        "int64": _numbers.DTYPE_INT64,
    },
    "crops": {
        "benzina": _numbers.CROPS_BENZINA,
        "torchvision": _numbers.CROPS_TORCHVISION,
    },
    "class_order": {
        "text": _numbers.CLASS_ORDER_TEXT,
        "numeric": _numbers.CLASS_ORDER_NUMERIC,
    },
    "orientation": {
        "apply": _numbers.ORIENTATION_APPLY,
        "ignore": _numbers.ORIENTATION_IGNORE,
    },
    "palette": {
        "colors": _numbers.PALETTE_COLORS,
        "index": _numbers.PALETTE_INDEX,
    },
    "data_type": {
        "uint8": _numbers.RECORD_UINT8,
        "int32": _numbers.RECORD_INT32,
        "int64": _numbers.RECORD_INT64,
        "float32": _numbers.RECORD_FLOAT32,
    },
    "label_type": {
        None: _numbers.RECORD_NONE,
        "uint8": _numbers.RECORD_UINT8,
        "int32": _numbers.RECORD_INT32,
        "int64": _numbers.RECORD_INT64,
        "float32": _numbers.RECORD_FLOAT32,
    },
    "operation": {
        "identity": _numbers.OP_IDENTITY,
        "shear_x": _numbers.OP_SHEAR_X,
        "shear_y": _numbers.OP_SHEAR_Y,
        "translate_x": _numbers.OP_TRANSLATE_X,
        "translate_y": _numbers.OP_TRANSLATE_Y,
        "translate_x_px": _numbers.OP_TRANSLATE_X_PX,
        "translate_y_px": _numbers.OP_TRANSLATE_Y_PX,
        "rotate": _numbers.OP_ROTATE,
        "brightness": _numbers.OP_BRIGHTNESS,
        "contrast": _numbers.OP_CONTRAST,
        "saturation": _numbers.OP_SATURATION,
        "hue": _numbers.OP_HUE,
        "gamma": _numbers.OP_GAMMA,
        "posterize": _numbers.OP_POSTERIZE,
        "solarize": _numbers.OP_SOLARIZE,
        "solarize_add": _numbers.OP_SOLARIZE_ADD,
        "invert": _numbers.OP_INVERT,
        "grayscale": _numbers.OP_GRAYSCALE,
        "lighting": _numbers.OP_LIGHTING,
        "shuffle": _numbers.OP_SHUFFLE,
        "autocontrast": _numbers.OP_AUTOCONTRAST,
        "equalize": _numbers.OP_EQUALIZE,
        "sharpness": _numbers.OP_SHARPNESS,
        "blur": _numbers.OP_BLUR,
        "erase": _numbers.OP_ERASE,
        "cutout": _numbers.OP_CUTOUT,
        "grid_mask": _numbers.OP_GRID_MASK,
    },
    "policy_apply": {
        "all": _numbers.POLICY_ALL,
        "shuffle": _numbers.POLICY_SHUFFLE,
        "choose": _numbers.POLICY_CHOOSE,
    },
    "value_space": {
        "RGB": _numbers.FILL_RGB,
        "output": _numbers.FILL_OUTPUT,
    },
    "split": {
        None: _numbers.SPLIT_NONE,
        "train": _numbers.SPLIT_TRAIN,
        "validation": _numbers.SPLIT_VALIDATION,
        "test": _numbers.SPLIT_TEST,
    },
}

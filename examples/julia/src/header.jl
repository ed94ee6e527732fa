# header.jl - Made from benzina.h and formats.h by `make bindings` (tests/make/bindings.py): change the headers, not this file.
#
# The structs and constants of benzina.h. A struct that a call takes or fills in is mutable, and has an empty
# constructor, which leaves its members as they are: Benzina.sized makes one of zeros. Structs that lie in others,
# or in arrays, are values: Benzina.changed makes one anew with some members changed.

const bzna_status = Int32

const BZNA_VERSION_MAJOR = UInt32(0)
const BZNA_VERSION_MINOR = UInt32(4)
const BZNA_VERSION_PATCH = UInt32(0)
const BZNA_VERSION = UInt32(400)
const BZNA_OK = Int32(0)
const BZNA_END = Int32(1)
const BZNA_AGAIN = Int32(2)
const BZNA_E_ARGUMENT = Int32(-101)
const BZNA_E_STRUCT_SIZE = Int32(-102)
const BZNA_E_RANGE = Int32(-103)
const BZNA_E_STATE = Int32(-104)
const BZNA_E_BUFFER = Int32(-105)
const BZNA_E_CALLBACK = Int32(-106)
const BZNA_E_STOPPED = Int32(-107)
const BZNA_E_UNSUPPORTED = Int32(-108)
const BZNA_E_MEMORY = Int32(-201)
const BZNA_E_NOT_FOUND = Int32(-202)
const BZNA_E_IO = Int32(-203)
const BZNA_E_THREAD = Int32(-204)
const BZNA_E_FORMAT = Int32(-301)
const BZNA_E_TRUNCATED = Int32(-302)
const BZNA_E_BOX = Int32(-303)
const BZNA_E_LIMIT = Int32(-304)
const BZNA_E_NO_SAMPLES = Int32(-305)
const BZNA_E_UNFINISHED = Int32(-306)
const BZNA_E_CODEC = Int32(-401)
const BZNA_E_DECODE = Int32(-402)
const BZNA_E_MISMATCH = Int32(-403)
const BZNA_E_DEVICE = Int32(-501)
const BZNA_E_DEVICE_LOST = Int32(-502)
const BZNA_STATUS_RESERVED = Int32(-9999)

const BZNA_NO_OFFSET = typemax(UInt64)

# Levels of messages. A call that fails reports it only in its bzna_error, and logs nothing.
const BZNA_LOG_ERROR = Int32(1)
const BZNA_LOG_WARNING = Int32(2)
const BZNA_LOG_INFO = Int32(3)
const BZNA_LOG_DEBUG = Int32(4)

# How an image is coded. NVDEC decodes H264, H265, AV1 and, if decode.jpeg asks for it, JPEG. The rest is decoded in
# software. A writer accepts H264, H265, AV1 and JPEG.
const BZNA_CODEC_UNKNOWN = UInt32(0)
const BZNA_CODEC_H264 = UInt32(1)
const BZNA_CODEC_H265 = UInt32(2)
const BZNA_CODEC_AV1 = UInt32(3)
const BZNA_CODEC_JPEG = UInt32(4)
const BZNA_CODEC_STILL = UInt32(5)
const BZNA_CODEC_RAW = UInt32(6)
const BZNA_CODEC_OWN = UInt32(1000)

# How a picture with a palette is delivered.
const BZNA_PALETTE_COLORS = UInt32(0)
const BZNA_PALETTE_INDEX = UInt32(1)

# The kind of pixels that a codec writes. A codec drops alpha, as PIL's convert("RGB") does.
const BZNA_PIXELS_RGB = UInt32(0)
const BZNA_PIXELS_GRAY = UInt32(1)
const BZNA_PIXELS_YCBCR = UInt32(2)
const BZNA_PIXELS_INDEX = UInt32(3)

const BZNA_STREAM_LEGACY = Ptr{Cvoid}(1)
const BZNA_STREAM_PER_THREAD = Ptr{Cvoid}(2)

# Kinds of devices. The numbers are DLPack's.
const BZNA_DEVICE_AUTO = Int32(0)
const BZNA_DEVICE_CPU = Int32(1)
const BZNA_DEVICE_CUDA = Int32(2)

# The codecs that may be decoded, as bits of context_config.codecs.
const BZNA_ALLOW_H264 = UInt32(1)
const BZNA_ALLOW_H265 = UInt32(2)
const BZNA_ALLOW_AV1 = UInt32(4)
const BZNA_ALLOW_JPEG = UInt32(8)
const BZNA_ALLOW_PNG = UInt32(16)
const BZNA_ALLOW_WEBP = UInt32(32)
const BZNA_ALLOW_OWN = UInt32(64)

# Results of NVDEC's check for one kind of picture.
const BZNA_CHECK_NONE = UInt32(0)
const BZNA_CHECK_PASSED = UInt32(1)
const BZNA_CHECK_FAILED = UInt32(2)
const BZNA_CHECK_SKIPPED = UInt32(3)

const BZNA_TARGET_NONE = Int64(-1)
const BZNA_NAME_MAX = UInt32(32)
const BZNA_IMAGES_MAX = UInt32(4)

# The treatment of pictures whose EXIF data, XMP or codec says how to rotate and mirror them.
const BZNA_ORIENTATION_APPLY = UInt32(0)
const BZNA_ORIENTATION_IGNORE = UInt32(1)

# How the class folders of a folder are numbered.
const BZNA_CLASS_ORDER_TEXT = UInt32(0)
const BZNA_CLASS_ORDER_NUMERIC = UInt32(1)

# Kinds of fields.
const BZNA_FIELD_IMAGE = UInt32(1)
const BZNA_FIELD_INTEGER = UInt32(2)
const BZNA_FIELD_VECTOR = UInt32(3)
const BZNA_FIELD_TEXT = UInt32(4)
const BZNA_FIELD_BYTES = UInt32(5)

const BZNA_BY_READ = typemax(UInt64)
const BZNA_NO_VALUE = typemax(UInt64)
const BZNA_SIZE_UNKNOWN = UInt64(18446744073709551614)

# Purposes of random numbers. Each purpose has numbers of its own for each sample.
const BZNA_RANDOM_WARP = UInt32(0)
const BZNA_RANDOM_COLOR = UInt32(1)
const BZNA_RANDOM_ORDER = UInt32(2)
const BZNA_RANDOM_PICTURE = UInt32(3)
const BZNA_RANDOM_AUGMENT = UInt32(4)
const BZNA_RANDOM_USER = UInt32(16)

# How pixels between pixels are computed. Chroma that is subsampled is filtered linearly, unless the warp shrinks it.
const BZNA_FILTER_LINEAR = UInt32(0)
const BZNA_FILTER_NEAREST = UInt32(1)
const BZNA_FILTER_CUBIC = UInt32(2)
const BZNA_FILTER_AREA = UInt32(3)
const BZNA_FILTER_LANCZOS4 = UInt32(4)
const BZNA_FILTER_LANCZOS3 = UInt32(5)
const BZNA_FILTER_CUBIC_075 = UInt32(6)

# How filters act when a warp shrinks the picture.
const BZNA_ANTIALIAS_AUTO = UInt32(0)
const BZNA_ANTIALIAS_OFF = UInt32(1)
const BZNA_ANTIALIAS_ROUND = UInt32(2)

# Types of elements. Numbers are rounded to nearest, ties to even. Outputs have one of the first four.
const BZNA_DTYPE_FLOAT32 = UInt32(0)
const BZNA_DTYPE_FLOAT16 = UInt32(1)
const BZNA_DTYPE_BFLOAT16 = UInt32(2)
const BZNA_DTYPE_UINT8 = UInt32(3)
const BZNA_DTYPE_INT32 = UInt32(16)
const BZNA_DTYPE_INT64 = UInt32(17)
const BZNA_DTYPE_UINT64 = UInt32(18)

# The order of channels in memory.
const BZNA_LAYOUT_NCHW = UInt32(0)
const BZNA_LAYOUT_NHWC = UInt32(1)

# The channels of an output, in order.
const BZNA_CHANNELS_RGB = UInt32(0)
const BZNA_CHANNELS_BGR = UInt32(1)
const BZNA_CHANNELS_GRAY = UInt32(2)

# How Y'CbCr becomes R'G'B'. They have no effect on pictures that are coded as RGB.
const BZNA_MATRIX_AUTO = UInt32(0)
const BZNA_MATRIX_BT601_FULL = UInt32(1)
const BZNA_MATRIX_BT601 = UInt32(2)
const BZNA_MATRIX_BT709 = UInt32(3)
const BZNA_MATRIX_BT2020 = UInt32(4)
const BZNA_MATRIX_BT709_FULL = UInt32(5)
const BZNA_MATRIX_BT2020_FULL = UInt32(6)

# Units of the out-of-bounds color.
const BZNA_FILL_RGB = UInt32(0)
const BZNA_FILL_OUTPUT = UInt32(1)

# The operations of policies. Pixels are R'G'B' of the output, before it is normalized. Factors, thresholds and
# roundings are those of torchvision's functions for tensors of uint8. The comment of each describes its magnitude;
# operations whose comment does not mention one ignore it.
const BZNA_OP_IDENTITY = UInt32(0)
const BZNA_OP_SHEAR_X = UInt32(1)
const BZNA_OP_SHEAR_Y = UInt32(2)
const BZNA_OP_TRANSLATE_X = UInt32(3)
const BZNA_OP_TRANSLATE_Y = UInt32(4)
const BZNA_OP_TRANSLATE_X_PX = UInt32(5)
const BZNA_OP_TRANSLATE_Y_PX = UInt32(6)
const BZNA_OP_ROTATE = UInt32(7)
const BZNA_OP_BRIGHTNESS = UInt32(16)
const BZNA_OP_CONTRAST = UInt32(17)
const BZNA_OP_SATURATION = UInt32(18)
const BZNA_OP_HUE = UInt32(19)
const BZNA_OP_GAMMA = UInt32(20)
const BZNA_OP_POSTERIZE = UInt32(21)
const BZNA_OP_SOLARIZE = UInt32(22)
const BZNA_OP_SOLARIZE_ADD = UInt32(23)
const BZNA_OP_INVERT = UInt32(24)
const BZNA_OP_GRAYSCALE = UInt32(25)
const BZNA_OP_LIGHTING = UInt32(26)
const BZNA_OP_SHUFFLE = UInt32(27)
const BZNA_OP_AUTOCONTRAST = UInt32(28)
const BZNA_OP_EQUALIZE = UInt32(29)
const BZNA_OP_SHARPNESS = UInt32(30)
const BZNA_OP_BLUR = UInt32(31)
const BZNA_OP_ERASE = UInt32(48)
const BZNA_OP_CUTOUT = UInt32(49)
const BZNA_OP_GRID_MASK = UInt32(50)

# Which of its operations a policy applies.
const BZNA_POLICY_ALL = UInt32(0)
const BZNA_POLICY_SHUFFLE = UInt32(1)
const BZNA_POLICY_CHOOSE = UInt32(2)

const BZNA_OPERATIONS_MAX = UInt32(8)

# Kinds of warps.
const BZNA_WARP_CENTER_RESIZED_CROP = UInt32(0)
const BZNA_WARP_RANDOM_RESIZED_CROP = UInt32(1)
const BZNA_WARP_NONE = UInt32(2)
const BZNA_WARP_SIMILARITY = UInt32(3)
const BZNA_WARP_MXNET = UInt32(4)

# How crops are drawn.
const BZNA_CROPS_AUTO = UInt32(0)
const BZNA_CROPS_BENZINA = UInt32(1)
const BZNA_CROPS_TORCHVISION = UInt32(2)

# The order of an epoch's samples.
const BZNA_ORDER_SEQUENTIAL = UInt32(0)
const BZNA_ORDER_SHUFFLE = UInt32(1)
const BZNA_ORDER_GIVEN = UInt32(2)

# How an epoch ends if its last batch is not full. Every rank gets the same number of batches.
const BZNA_LAST_PARTIAL = UInt32(0)
const BZNA_LAST_DROP = UInt32(1)
const BZNA_LAST_PAD = UInt32(2)
const BZNA_LAST_FILL = UInt32(3)

# Who decodes.
const BZNA_DECODER_AUTO = UInt32(0)
const BZNA_DECODER_SOFTWARE = UInt32(1)
const BZNA_DECODER_NVDEC = UInt32(2)

# How a loader treats a sample that cannot be read or decoded. E_MEMORY, E_THREAD and E_DEVICE are no faults of a
# sample, and end the run with every setting: chapter 6.
const BZNA_ON_ERROR_FILL = UInt32(0)
const BZNA_ON_ERROR_REPLACE = UInt32(1)
const BZNA_ON_ERROR_STOP = UInt32(2)

# How a loader treats a sample that fails with E_CALLBACK, because transform, picture or a source's read_at failed. A
# sample that a provider fails costs its slot, whatever this setting is.
const BZNA_ON_CALLBACK_ERROR_STOP = UInt32(0)
const BZNA_ON_CALLBACK_ERROR_SAMPLE = UInt32(1)

const BZNA_WAIT_FOREVER = Int64(-1)
const BZNA_EPOCHS_ENDLESS = typemax(UInt64)

# The stages of the pipeline, in order.
const BZNA_STAGE_READ = Int(0)
const BZNA_STAGE_DECODE = Int(1)
const BZNA_STAGE_WARP = Int(2)
const BZNA_STAGE_DELIVER = Int(3)
const BZNA_STAGE_NONE = Int(4)

# Kinds of DLPack tensors (dlpack.h).
const BZNA_DLPACK_0 = UInt32(0)
const BZNA_DLPACK_1 = UInt32(1)

# A split that a sample belongs to.
const BZNA_SPLIT_NONE = UInt32(0)
const BZNA_SPLIT_TRAIN = UInt32(1)
const BZNA_SPLIT_VALIDATION = UInt32(2)
const BZNA_SPLIT_TEST = UInt32(3)

const BZNA_INDEX_NEXT = typemax(UInt64)

# The things that a HEIF file may hold besides its picture, as bits. No data set delivers any of it.
const BZNA_HEIF_THUMB = UInt32(1)
const BZNA_HEIF_AUXILIARY = UInt32(2)
const BZNA_HEIF_IMAGES = UInt32(4)
const BZNA_HEIF_SEQUENCE = UInt32(8)

# Types of numbers in record files. They are little-endian.
const BZNA_RECORD_NONE = UInt32(0)
const BZNA_RECORD_UINT8 = UInt32(1)
const BZNA_RECORD_INT32 = UInt32(2)
const BZNA_RECORD_INT64 = UInt32(3)
const BZNA_RECORD_FLOAT32 = UInt32(4)

# How samples are drawn by weights.
const BZNA_WEIGHTING_REPLACE = UInt32(1)
const BZNA_WEIGHTING_ONCE = UInt32(2)

# Policies that are well known, as torchvision 0.29 has them.
const BZNA_PRESET_RAND_AUGMENT = UInt32(0)
const BZNA_PRESET_TRIVIAL_WIDE = UInt32(1)
const BZNA_PRESET_AUTO_IMAGENET = UInt32(2)

# The result of a rule for a field.
const BZNA_RULE_BYTES = UInt32(0)
const BZNA_RULE_TENSOR = UInt32(1)
const BZNA_RULE_ROWS = UInt32(2)

mutable struct bzna_context end
mutable struct bzna_dataset end
mutable struct bzna_loader end
mutable struct bzna_batch end
mutable struct bzna_decoder end
mutable struct bzna_writer end
mutable struct bzna_rules end

# Why a call failed. The caller owns the struct. The library writes to it only when the call fails. It writes all
# members and as much of the message as fits, with a NUL, and sets struct_size to the bytes that it has written. A
# struct_size of 0 means the size of the library that runs. If struct_size leaves no room for a message, nothing is
# written; that is no error.
mutable struct bzna_error
    struct_size::UInt32
    status::bzna_status
    byte_offset::UInt64
    native_code::Int32
    fourcc::UInt32
    message::NTuple{488,Cchar}
    bzna_error() = new()
end

# The source of the library's memory. Both functions are called on any thread, concurrently. They must not call any
# bzna_* function. If both are NULL, the C library's functions are used; one without the other is E_ARGUMENT.
struct bzna_allocator
    user::Ptr{Cvoid}
    alloc::Ptr{Cvoid}
    release::Ptr{Cvoid}
end

# Bytes from anywhere, for bzna_dataset_open_source. The callbacks must not close any object.
mutable struct bzna_source
    struct_size::UInt32
    reserved0::UInt32
    user::Ptr{Cvoid}
    read_at::Ptr{Cvoid}
    size::Ptr{Cvoid}
    close::Ptr{Cvoid}
    memory::Ptr{Cvoid}
    bzna_source() = new()
end

# The source of device memory, such as a framework's caching allocator. Both functions are called on the caller's
# thread, and for staging memory on a loader's threads. They must not call any bzna_* function. If both are NULL,
# cuMemAlloc and cuMemFree are used; one without the other is E_ARGUMENT.
struct bzna_device_allocator
    user::Ptr{Cvoid}
    alloc::Ptr{Cvoid}
    release::Ptr{Cvoid}
end

# How numbers of a picture represent colors: code points of ISO/IEC 23091-2, as in colr nclx and in VUI. In each of
# the first three, 2 is "unspecified".
struct bzna_color
    primaries::UInt16
    transfer::UInt16
    matrix::UInt16
    full_range::UInt8
    present::UInt8
end

# One image: a coded picture. bzna_dataset_read_image fills it in; bzna_decoder_decode, bzna_image_annexb and a writer
# take it. It owns nothing.
mutable struct bzna_image
    struct_size::UInt32
    codec::UInt32
    width::UInt32
    height::UInt32
    frame_width::UInt32
    frame_height::UInt32
    crop_x::UInt32
    crop_y::UInt32
    color::bzna_color
    length_size::UInt32
    orientation::UInt32
    config::Ptr{Cvoid}
    config_size::UInt64
    data::Ptr{Cvoid}
    data_size::UInt64
    palette::UInt32
    reserved1::UInt32
    bzna_image() = new()
end

# A rectangle of pixels, before a picture is rotated.
struct bzna_rectangle
    x0::UInt32
    y0::UInt32
    x1::UInt32
    y1::UInt32
end

# The properties of a picture, which a codec's inspect or bzna_image_inspect fills in. The library clears the struct
# and sets struct_size before it calls inspect. Zero is the default of every member but width and height.
mutable struct bzna_codec_shape
    struct_size::UInt32
    width::UInt32
    height::UInt32
    pixels::UInt32
    depth::UInt32
    interleaved::UInt32
    chroma_shift_x::UInt32
    chroma_shift_y::UInt32
    chroma_left::UInt32
    chroma_top::UInt32
    color::bzna_color
    orientation::UInt32
    wrapped::UInt32
    codecs::UInt32
    crop::bzna_rectangle
    bzna_codec_shape() = new()
end

# Memory for a picture's pixels. The sample of plane i at column x and row y is at A codec may write only the samples
# of width * height pixels, and the palette.
mutable struct bzna_codec_planes
    struct_size::UInt32
    width::UInt32
    height::UInt32
    step::UInt32
    plane::NTuple{3,Ptr{Cvoid}}
    pitch::NTuple{3,Int64}
    palette::Ptr{UInt8}
    bzna_codec_planes() = new()
end

# A codec of your own. Any thread calls recognize, concurrently. The other functions are called concurrently, too, but
# never two at once with one state. No lock of the library is held. They must not close any object, nor call functions
# that take a context, data set or loader, with one exception: a state may have a decoder of its own, opened without a
# context, to decode the parts of a picture.
mutable struct bzna_codec
    struct_size::UInt32
    reserved0::UInt32
    user::Ptr{Cvoid}
    name::Cstring
    extensions::Cstring
    fingerprint::UInt64
    recognize::Ptr{Cvoid}
    thread_begin::Ptr{Cvoid}
    thread_end::Ptr{Cvoid}
    inspect::Ptr{Cvoid}
    decode::Ptr{Cvoid}
    unwrap::Ptr{Cvoid}
    close::Ptr{Cvoid}
    reserved::NTuple{4,UInt64}
    bzna_codec() = new()
end

# A device, wherever one appears.
struct bzna_device
    kind::Int32
    ordinal::Int32
end

# Codecs of the program's own, in the order in which they are asked.
struct bzna_own_codecs
    ptr::Ptr{bzna_codec}
    count::UInt64
    reserved::NTuple{2,UInt64}
end

# The settings of a context. Zero is the default of every member.
mutable struct bzna_context_config
    struct_size::UInt32
    log_level::Int32
    device::bzna_device
    allocator::bzna_allocator
    log::Ptr{Cvoid}
    log_user::Ptr{Cvoid}
    log_any_thread::UInt32
    max_edge_px::UInt32
    max_sample_bytes::UInt64
    sessions::UInt32
    sessions_per_engine::UInt32
    session_depth::UInt32
    session_mapped::UInt32
    decode_memory_bytes::UInt64
    device_allocator::bzna_device_allocator
    cuda_context::Ptr{Cvoid}
    no_threads::UInt32
    codecs::UInt32
    own_codecs::bzna_own_codecs
    bzna_context_config() = new()
end

# A CUDA device, as a context uses it.
mutable struct bzna_device_info
    struct_size::UInt32
    driver::UInt32
    device::bzna_device
    memory_bytes::UInt64
    compute_major::UInt32
    compute_minor::UInt32
    engines::UInt32
    sessions::UInt32
    video::bzna_status
    device_count::UInt32
    name::NTuple{96,Cchar}
    message::NTuple{488,Cchar}
    bzna_device_info() = new()
end

# NVDEC's abilities with one kind of picture: a codec, a chroma format and a depth. Sizes are those of coded frames.
mutable struct bzna_codec_info
    struct_size::UInt32
    codec::UInt32
    chroma_format::UInt32
    depth::UInt32
    supported::UInt32
    engines::UInt32
    min_width::UInt32
    min_height::UInt32
    max_width::UInt32
    max_height::UInt32
    max_macroblocks::UInt32
    check::UInt32
    check_message::NTuple{128,Cchar}
    bzna_codec_info() = new()
end

# Settings for opening a data set. Everything is copied. A setting that has no effect on the kind of file is
# E_ARGUMENT. Zero is the default of every member.
mutable struct bzna_dataset_config
    struct_size::UInt32
    allow_empty::UInt32
    name::Cstring
    split::Cstring
    format::Cstring
    classes::Ptr{Cstring}
    class_count::UInt32
    class_order::UInt32
    orientation::UInt32
    palette::UInt32
    target::Cstring
    index::Ptr{Cvoid}
    index_bytes::UInt64
    bzna_dataset_config() = new()
end

# A data set as a whole.
mutable struct bzna_dataset_info
    struct_size::UInt32
    field_count::UInt32
    size_bytes::UInt64
    sample_count::UInt64
    target_count::UInt64
    part_count::UInt32
    track_count::UInt32
    brand_count::UInt32
    brands::NTuple{8,UInt32}
    container::NTuple{20,Cchar}
    trailing_bytes::UInt64
    bzna_dataset_info() = new()
end

# One field of a data set's samples. Chapter 12 has the fields of tar.
mutable struct bzna_field_info
    struct_size::UInt32
    kind::UInt32
    name::NTuple{32,Cchar}
    bzna_field_info() = new()
end

# One track of an archive or a video.
mutable struct bzna_track_info
    struct_size::UInt32
    handler::UInt32
    format::UInt32
    flags::UInt32
    sample_count::UInt64
    name::NTuple{32,Cchar}
    mime::NTuple{64,Cchar}
    bzna_track_info() = new()
end

# The place of one sample in its file.
mutable struct bzna_sample_ref
    struct_size::UInt32
    image_count::UInt32
    index::UInt64
    offset::UInt64
    size::UInt64
    target::Int64
    image_names::NTuple{4,NTuple{32,Cchar}}
    bzna_sample_ref() = new()
end

# One image of a sample, as its container describes it, and the place of its bytes.
mutable struct bzna_image_info
    struct_size::UInt32
    codec::UInt32
    fourcc::UInt32
    width::UInt32
    height::UInt32
    frame_width::UInt32
    frame_height::UInt32
    crop_x::UInt32
    crop_y::UInt32
    clap::NTuple{8,Int32}
    length_size::UInt32
    color::bzna_color
    config_offset::UInt64
    config_size::UInt64
    data_offset::UInt64
    data_size::UInt64
    orientation::UInt32
    reserved0::UInt32
    bzna_image_info() = new()
end

# One field of a provider's samples. Zero is the default of every member that does not say otherwise.
struct bzna_provider_field
    name::Cstring
    kind::UInt32
    located::UInt32
    codec::UInt32
    width::UInt32
    height::UInt32
    channels::UInt32
    layout::UInt32
    reserved0::UInt32
    offset::UInt64
    reserved::NTuple{2,UInt64}
end

# Where a value of a provider is: in memory, in a part of a file, or in a whole file, which is { .file = number, .size
# = BZNA_SIZE_UNKNOWN }.
struct bzna_place
    data::Ptr{Cvoid}
    offset::UInt64
    size::UInt64
    file::UInt64
end

# Samples from the caller's functions, for bzna_dataset_open_provider. read, locate and unpack are called by several
# threads at once: the reader threads of loaders, with unpack also their decoder threads, and threads in
# bzna_dataset_* calls and in bzna_loader_open. No lock of the library is held. They may use other data sets, but must
# not close any object. Each function must give the same value in every call. A loader of pictures has one reader
# thread by default: raise read.threads if read calculates much or waits long. Without pictures, decoder threads read.
mutable struct bzna_provider
    struct_size::UInt32
    reserved0::UInt32
    user::Ptr{Cvoid}
    count::UInt64
    fields::Ptr{bzna_provider_field}
    field_count::UInt32
    reserved1::UInt32
    max_bytes::UInt64
    read::Ptr{Cvoid}
    locate::Ptr{Cvoid}
    places::Ptr{bzna_place}
    files::Ptr{Cstring}
    file_count::UInt64
    classes::Ptr{Cstring}
    class_count::UInt32
    reserved2::UInt32
    fingerprint::UInt64
    close::Ptr{Cvoid}
    kind::Cstring
    size_bytes::UInt64
    unpack::Ptr{Cvoid}
    reserved::NTuple{2,UInt64}
    bzna_provider() = new()
end

# A decoded picture: planes in memory. bzna_decoder_decode fills it in; bzna_picture_render takes it, from any source.
# It owns nothing.
mutable struct bzna_picture
    struct_size::UInt32
    depth::UInt32
    width::UInt32
    height::UInt32
    crop_x::UInt32
    crop_y::UInt32
    frame_width::UInt32
    frame_height::UInt32
    chroma_shift_x::UInt32
    chroma_shift_y::UInt32
    chroma_left::UInt32
    chroma_top::UInt32
    color::bzna_color
    plane::NTuple{3,Ptr{Cvoid}}
    pitch::NTuple{3,Int64}
    orientation::UInt32
    step::NTuple{3,UInt32}
    bzna_picture() = new()
end

# A stream of random numbers by a counter-based generator, Philox4x32-10 (Salmon et al. 2011, "Parallel random
# numbers: as easy as 1, 2, 3"). The stream of (seed, epoch, sample, purpose) is Words come in order 0..3 of block 0,
# 1, ... Test vectors, the first words of a stream: The struct is a plain value that owns nothing: copy it to repeat
# its numbers.
struct bzna_random
    key::NTuple{2,UInt32}
    counter::NTuple{4,UInt32}
    block::NTuple{4,UInt32}
    used::UInt32
    reserved0::UInt32
end

# One operation of a policy. Zero is the default of every member. The struct has no struct_size: it grows only into
# reserved words.
struct bzna_operation
    kind::UInt32
    sign::UInt32
    probability::Float32
    magnitude::NTuple{2,Float32}
    kernel_px::UInt32
    ratio::NTuple{2,Float32}
    value::NTuple{3,Float32}
    value_space::UInt32
    noise::Float32
    reserved0::UInt32
    reserved::NTuple{4,UInt64}
end

# A list of operations, and how they are drawn. Zero is the default of every member but the first two. The struct has
# no struct_size: it grows only into reserved words.
struct bzna_policy
    operations::Ptr{bzna_operation}
    operation_count::UInt32
    group_size::UInt32
    apply::UInt32
    draws::UInt32
    bins::UInt32
    bin::NTuple{2,UInt32}
    probability::Float32
    reserved::NTuple{4,UInt64}
end

# The policies of an output. Zero is the default of every member.
struct bzna_loader_augment
    policies::Ptr{bzna_policy}
    policy_count::UInt32
    beyond_crop::UInt32
    reserved::NTuple{8,UInt64}
end

# An operation that was drawn.
struct bzna_drawn
    kind::UInt32
    magnitude::Float32
    kernel_px::UInt32
    value_space::UInt32
    area::NTuple{4,Int32}
    value::NTuple{3,Float32}
    noise::Float32
    key::NTuple{2,UInt32}
end

# How one view of a sample is made. The steps have this order: Zero is the default of every member, and means a step
# that changes nothing. A loader writes the identities out: a transform callback finds them as numbers that it can
# multiply and add to. It may change every member but struct_size.
mutable struct bzna_transform
    struct_size::UInt32
    filter::UInt32
    homography::NTuple{9,Float64}
    bias::NTuple{3,Float32}
    scale::NTuple{3,Float32}
    fill::NTuple{3,Float32}
    fill_space::UInt32
    matrix::UInt32
    antialias::UInt32
    clamp_hue::UInt32
    grayscale::UInt32
    reserved0::UInt32
    color::NTuple{12,Float32}
    hls::NTuple{3,Float32}
    brightness::Float32
    contrast::Float32
    saturation::Float32
    hue::Float32
    operation_count::UInt32
    reserved1::UInt32
    operations::NTuple{8,bzna_drawn}
    clip::NTuple{6,Float64}
    clip_size::NTuple{2,Float64}
    bzna_transform() = new()
end

# The sample, view and output that a transform or picture callback is asked about.
mutable struct bzna_sample_info
    struct_size::UInt32
    slot::UInt32
    index::UInt64
    epoch::UInt64
    target::Int64
    width::UInt32
    height::UInt32
    out_width::UInt32
    out_height::UInt32
    occurrence::UInt64
    view::UInt32
    output::UInt32
    bzna_sample_info() = new()
end

# How a view of the first output shows its picture. Edges of pixels are counted from the corner: the pixel (0, 0) is
# from 0 to 1 in both directions, and its center is 0 to the homographies.
mutable struct bzna_geometry
    struct_size::UInt32
    view::UInt32
    width::UInt32
    height::UInt32
    out_width::UInt32
    out_height::UInt32
    flip_h::UInt32
    flip_v::UInt32
    homography::NTuple{9,Float64}
    inverse::NTuple{9,Float64}
    crop::NTuple{4,Float64}
    bzna_geometry() = new()
end

# A value of a field.
struct bzna_bytes
    data::Ptr{Cvoid}
    size::UInt64
end

# The input of fields.make for one sample. All of it is the loader's, and must not be used after the callback has
# returned.
mutable struct bzna_make_input
    struct_size::UInt32
    view_count::UInt32
    sample::Ptr{bzna_sample_info}
    geometry::Ptr{bzna_geometry}
    values::Ptr{bzna_bytes}
    out::Ptr{Ptr{Cvoid}}
    bzna_make_input() = new()
end

# A tensor [N, shape...] of batches, whose parts fields.make fills in. Zero is the default of every member but name.
struct bzna_made
    name::Cstring
    dtype::UInt32
    dimensions::UInt32
    shape::NTuple{4,Int64}
    zero::UInt32
    reserved0::UInt32
    reserved::NTuple{2,UInt64}
end

# The output of bzna_picture_render.
mutable struct bzna_output
    struct_size::UInt32
    width::UInt32
    height::UInt32
    dtype::UInt32
    layout::UInt32
    channels::UInt32
    bzna_output() = new()
end

# Advanced, used to continue runs of MXNet: parameters of its ImageRecordIter that nothing else has. The members
# before hls are only for the kind MXNET, and E_ARGUMENT with others. hls to clamp_hue change the colors of all views
# that are warped by this bzna_warp, whatever its kind, after the jitter. Zero is "none" for every member.
struct bzna_mxnet
    shear_ratio::Float64
    canvas_px::NTuple{2,UInt32}
    crop_px::NTuple{2,UInt32}
    pad_px::UInt32
    short_edge_px::UInt32
    has_crop_start::UInt32
    crop_x_start::UInt32
    crop_y_start::UInt32
    hls::NTuple{3,Float32}
    contrast::Float32
    illumination::Float32
    clamp_hue::UInt32
    reserved0::UInt32
    reserved::NTuple{4,UInt64}
end

# How warps are drawn. Zero is the default of every member. A setting that has no effect on the kind is E_ARGUMENT.
# The struct has no struct_size: it grows only into reserved words.
struct bzna_warp
    kind::UInt32
    crops::UInt32
    scale::NTuple{2,Float64}
    ratio::NTuple{2,Float64}
    degrees::NTuple{2,Float64}
    translate::NTuple{2,Float64}
    flip_h::Float64
    flip_v::Float64
    rotate::NTuple{2,Float64}
    shear::NTuple{4,Float64}
    perspective::Float64
    perspective_p::Float64
    resize::UInt32
    keep_ratio::UInt32
    random_crop::UInt32
    reserved0::UInt32
    mxnet::bzna_mxnet
    reserved::NTuple{8,UInt64}
end

# How colors are drawn. The out-of-bounds color is not changed. Zero is "none" for every member. The struct has no
# struct_size: it grows only into reserved words.
struct bzna_jitter
    brightness::NTuple{2,Float32}
    contrast::NTuple{2,Float32}
    saturation::NTuple{2,Float32}
    hue::NTuple{2,Float32}
    grayscale::Float32
    reserved0::UInt32
    reserved::NTuple{11,UInt64}
end

# A piece of the caller's memory.
struct bzna_buffer
    data::Ptr{Cvoid}
    bytes::UInt64
end

# How pixels are filtered.
struct bzna_loader_filter
    kind::UInt32
    antialias::UInt32
    reserved::NTuple{8,UInt64}
end

# How numbers are made of colors, in the order of the output's channels. Give mean and std, or bias and scale, not
# both.
struct bzna_loader_color
    mean::NTuple{3,Float32}
    std::NTuple{3,Float32}
    bias::NTuple{3,Float32}
    scale::NTuple{3,Float32}
    fill::NTuple{3,Float32}
    fill_space::UInt32
    matrix::UInt32
    reserved0::UInt32
    mean_image::Ptr{Cvoid}
    mean_image_bytes::UInt64
    jitter::bzna_jitter
    reserved::NTuple{8,UInt64}
end

# An output of a loader: config.output is the first one, the tensor "image", and the elements of config.extra_outputs
# are further ones, made of the same samples. Zero is the default of every member. The struct has no struct_size: it
# grows only into reserved words.
struct bzna_loader_output
    batch_size::UInt32
    width::UInt32
    height::UInt32
    dtype::UInt32
    layout::UInt32
    channels::UInt32
    views::UInt32
    slices::UInt32
    device::bzna_device
    stream::Ptr{Cvoid}
    buffers::Ptr{bzna_buffer}
    buffer_count::UInt32
    palette::UInt32
    name::Cstring
    field::Cstring
    warp::Ptr{bzna_warp}
    filter::Ptr{bzna_loader_filter}
    color::Ptr{bzna_loader_color}
    augment::Ptr{bzna_loader_augment}
    reserved::NTuple{7,UInt64}
end

# The outputs after the first one.
struct bzna_loader_outputs
    ptr::Ptr{bzna_loader_output}
    count::UInt64
    reserved::NTuple{8,UInt64}
end

# The samples of an epoch. Arrays are copied.
struct bzna_loader_order
    kind::UInt32
    last_batch::UInt32
    seed::UInt64
    epochs::UInt64
    first_epoch::UInt64
    indices::Ptr{UInt64}
    index_count::UInt64
    pad_value::Float64
    pad_target::Int64
    reserved::NTuple{6,UInt64}
end

# This process's share of each epoch, for distributed training: chapter 9.
struct bzna_loader_shard
    rank::UInt32
    world_size::UInt32
    reserved::NTuple{8,UInt64}
end

# The fields that batches are made of. Strings are copied.
struct bzna_loader_fields
    image::Cstring
    tensors::Cstring
    bytes::Cstring
    made::Ptr{bzna_made}
    made_count::UInt32
    geometry::UInt32
    make::Ptr{Cvoid}
    make_user::Ptr{Cvoid}
    reserved::NTuple{8,UInt64}
end

# Advanced, used with slow or failing storage: how samples are read.
struct bzna_loader_read
    threads::UInt32
    ahead_samples::UInt32
    memory_bytes::UInt64
    retries::UInt32
    reserved0::UInt32
    backoff_ns::UInt64
    reserved::NTuple{8,UInt64}
end

# How pictures are decoded.
struct bzna_loader_decode
    decoder::UInt32
    threads::UInt32
    jpeg::UInt32
    jpeg_shrink::UInt32
    jpeg_shrink_margin::Float32
    hybrid::UInt32
    reserved::NTuple{7,UInt64}
end

# How failures are treated.
struct bzna_loader_errors
    on_error::UInt32
    on_callback_error::UInt32
    reserved::NTuple{8,UInt64}
end

# Batches in flight, threads, callbacks.
struct bzna_loader_pipeline
    batches_in_flight::UInt32
    restore_any_pixels::UInt32
    cpus::Ptr{Int32}
    cpu_count::UInt32
    no_threads::UInt32
    transform::Ptr{Cvoid}
    transform_user::Ptr{Cvoid}
    picture::Ptr{Cvoid}
    picture_user::Ptr{Cvoid}
    reserved::NTuple{8,UInt64}
end

# The configuration of a loader. Zero is the default of every member. Only output.batch_size, width and height are
# required. Three whole configurations follow, in C. C++ before C++20 has no such initialisers: clear the struct with
# {}, and set struct_size and the members.
mutable struct bzna_loader_config
    struct_size::UInt32
    reserved0::UInt32
    output::bzna_loader_output
    extra_outputs::bzna_loader_outputs
    order::bzna_loader_order
    shard::bzna_loader_shard
    warp::bzna_warp
    filter::bzna_loader_filter
    color::bzna_loader_color
    fields::bzna_loader_fields
    read::bzna_loader_read
    decode::bzna_loader_decode
    errors::bzna_loader_errors
    pipeline::bzna_loader_pipeline
    augment::bzna_loader_augment
    bzna_loader_config() = new()
end

# A tensor of a batch, or of the batches that a loader yields. Elements are densely packed, the last dimension first
# in memory.
struct bzna_tensor
    struct_size::UInt32
    dtype::UInt32
    device::bzna_device
    dimensions::UInt32
    reserved0::UInt32
    shape::NTuple{6,Int64}
    data::Ptr{Cvoid}
    bytes::UInt64
    name::NTuple{32,Cchar}
    reserved::NTuple{4,UInt64}
end

# One batch, as it is in memory until it is released. Arrays have an element for each slot, and are on the host.
mutable struct bzna_batch_info
    struct_size::UInt32
    count::UInt32
    failed::UInt32
    replaced::UInt32
    image::bzna_tensor
    layout::UInt32
    last_of_epoch::UInt32
    operation_views::UInt32
    on_loan::UInt32
    epoch::UInt64
    batch::UInt64
    position::UInt64
    targets::Ptr{Int64}
    indices::Ptr{UInt64}
    status::Ptr{bzna_status}
    stream::Ptr{Cvoid}
    operations::Ptr{bzna_drawn}
    operation_counts::Ptr{UInt32}
    slices::Ptr{Ptr{Cvoid}}
    slice_count::UInt32
    slice_slots::UInt32
    bzna_batch_info() = new()
end

# The loader's batches, threads and decoder, with defaults filled in.
mutable struct bzna_loader_info
    struct_size::UInt32
    decoder::UInt32
    image::bzna_tensor
    layout::UInt32
    sessions::UInt32
    threads::UInt32
    reader_threads::UInt32
    batches_in_flight::UInt32
    read_ahead::UInt32
    samples_per_epoch::UInt64
    batches_per_epoch::UInt64
    decoder_name::NTuple{64,Cchar}
    decoder_reason::NTuple{128,Cchar}
    image_field::NTuple{32,Cchar}
    image_field_reason::NTuple{96,Cchar}
    bzna_loader_info() = new()
end

# One stage of the pipeline. Times are summed over its threads, in nanoseconds.
struct bzna_stage_statistics
    count::UInt64
    bytes::UInt64
    busy_ns::UInt64
    wait_before_ns::UInt64
    wait_after_ns::UInt64
    depth::UInt64
    capacity::UInt64
    threads::UInt64
    reserved::NTuple{2,UInt64}
end

# Counts and waits since the loader was opened, or over the time of bzna_statistics_since.
mutable struct bzna_statistics
    struct_size::UInt32
    limiting_stage::UInt32
    stage::NTuple{4,bzna_stage_statistics}
    samples::UInt64
    samples_failed::UInt64
    failed_read::UInt64
    failed_format::UInt64
    failed_decode::UInt64
    failed_other::UInt64
    replaced::UInt64
    retries::UInt64
    read_memory_bytes::UInt64
    samples_nvdec::UInt64
    samples_software::UInt64
    fallbacks::UInt64
    samples_hybrid::UInt64
    decoders_made::UInt64
    decoders_reconfigured::UInt64
    sessions_lost::UInt64
    lock_waits::UInt64
    lock_wait_ns::UInt64
    elapsed_ns::UInt64
    samples_shrinkable::UInt64
    advice::NTuple{240,Cchar}
    first_failed_status::bzna_status
    reserved0::UInt32
    first_failed_index::UInt64
    first_failed_message::NTuple{488,Cchar}
    bzna_statistics() = new()
end

# The position of a run: 128 bytes of plain data without pointers, to be saved with a model's checkpoint.
# bzna_loader_save fills it in, and bzna_loader_restore reads it. Its numbers have the byte order of the machine that
# saved it; a machine of the other order refuses it.
mutable struct bzna_loader_state
    struct_size::UInt32
    version::UInt32
    seed::UInt64
    epoch::UInt64
    position::UInt64
    fingerprint::UInt64
    sample_count::UInt64
    end_epoch::UInt64
    order::UInt32
    check::UInt32
    pixels::UInt64
    list::UInt64
    reserved::NTuple{6,UInt64}
    bzna_loader_state() = new()
end

# Bytes to anywhere, for bzna_writer_open_sink. The callbacks are never called concurrently. They must not close any
# object.
mutable struct bzna_sink
    struct_size::UInt32
    reserved0::UInt32
    user::Ptr{Cvoid}
    write_at::Ptr{Cvoid}
    close::Ptr{Cvoid}
    bzna_sink() = new()
end

# The settings of a writer. Zero is the default of every member.
mutable struct bzna_writer_config
    struct_size::UInt32
    reserved0::UInt32
    classes::Ptr{Cstring}
    class_count::UInt32
    reserved1::UInt32
    queue_bytes::UInt64
    reserved::NTuple{4,UInt64}
    bzna_writer_config() = new()
end

# A further field of a sample. An archive has at most 60 names of them.
struct bzna_field_value
    struct_size::UInt32
    kind::UInt32
    name::Cstring
    data::Ptr{Cvoid}
    size::UInt64
end

# One sample to write. The memory that it points to is read before the call returns, and stays the caller's.
mutable struct bzna_writer_sample
    struct_size::UInt32
    split::UInt32
    image::Ptr{bzna_image}
    thumb::Ptr{bzna_image}
    target::Int64
    name::Cstring
    fields::Ptr{bzna_field_value}
    field_count::UInt32
    has_target::UInt32
    reserved::NTuple{2,UInt64}
    bzna_writer_sample() = new()
end

# A record file, such as CIFAR, MNIST or raw tensors: all records have one size. The file is a header and then whole
# records; bytes after the last whole record are E_TRUNCATED. Data are a picture, the field "image", if data_type is
# UINT8 and channels is 1 or 3. Else they are the field "data", a vector of channels * height * width float32.
mutable struct bzna_records
    struct_size::UInt32
    data_type::UInt32
    layout::UInt32
    width::UInt32
    height::UInt32
    channels::UInt32
    header_bytes::UInt64
    stride::UInt64
    data_offset::UInt64
    label_offset::UInt64
    label_type::UInt32
    scale::Float32
    bias::Float32
    reserved0::UInt32
    bzna_records() = new()
end

# Settings for opening a data set. Everything is copied. Zero is the default of every member.
mutable struct bzna_formats_config
    struct_size::UInt32
    reserved0::UInt32
    dataset::Ptr{bzna_dataset_config}
    pairs::Cstring
    extensions::Cstring
    list::Cstring
    records::Ptr{bzna_records}
    hold_bytes::UInt64
    bzna_formats_config() = new()
end

# How the samples of an epoch are drawn. Zero is the default of every member but weights. Arrays are read during the
# call, and not kept.
mutable struct bzna_formats_weights
    struct_size::UInt32
    weighting::UInt32
    weights::Ptr{Float64}
    weight_count::UInt64
    indices::Ptr{UInt64}
    index_count::UInt64
    epoch_samples::UInt64
    seed::UInt64
    by_part::UInt32
    reserved0::UInt32
    bzna_formats_weights() = new()
end

# The value of a field that a rule is asked about.
mutable struct bzna_rule_input
    struct_size::UInt32
    kind::UInt32
    field::Cstring
    data::Ptr{Cvoid}
    size::UInt64
    sample::Ptr{bzna_sample_info}
    geometry::Ptr{bzna_geometry}
    view_count::UInt32
    reserved0::UInt32
    bzna_rule_input() = new()
end

# A rule for fields: how batches deliver them. Zero is the default of every member but field. A field belongs to the
# first rule that it matches. Rules of one name share a tensor, and must have the same kind, dtype and shape: for each
# sample, the first of these rules whose field the sample has makes the sample's part. If a sample has no such field,
# or fails before the rule is called, floats are NaN, integers are -1, uint8 is 0, and ROWS has only zeros, and 0
# rows. A field matches no rule if there is a comma, a colon or an equals sign in its name.
struct bzna_rule
    struct_size::UInt32
    kind::UInt32
    field::Cstring
    name::Cstring
    call::Ptr{Cvoid}
    user::Ptr{Cvoid}
    dtype::UInt32
    dimensions::UInt32
    shape::NTuple{4,Int64}
    reserved::NTuple{4,UInt64}
end

// Made from benzina.h and formats.h by `make bindings` (tests/make/bindings.py): change the headers, not this file.

//! benzina.h as C has it: structs, constants and functions. Nothing here is safe; the manual is the header's.

#![allow(non_camel_case_types)]

use std::ffi::{c_char, c_void};

/// The result of a call: `BZNA_OK`, a positive note, or a negative error.
pub type bzna_status = i32;

/// Receives one message. user is context_config.log_user, level is BZNA_LOG_..., code is the status that the message is
/// about or BZNA_OK, and message is UTF-8, valid until the function returns. It is called on the caller's thread inside
/// bzna_\* calls, unless log_any_thread is set: then on any thread, concurrently. It must not close any object.
pub type bzna_log_fn = Option<unsafe extern "C" fn(user: *mut c_void, level: i32, code: bzna_status, message: *const c_char)>;

/// Returns 1 if a file with this beginning is of the codec's kind, else 0. It must be quick: it is called for every
/// picture that no codec before it has recognized.
/// ```text
/// user    bzna_codec.user
/// head    the first bytes of the file
/// bytes   how many they are: 512, or all of a smaller file; never 0
/// ```
pub type bzna_codec_recognize_fn = Option<unsafe extern "C" fn(user: *mut c_void, head: *const c_void, bytes: u64) -> i32>;

/// Makes the state that a thread needs for decoding, and stores it in \*state, which is NULL before. Called before a
/// thread first inspects, decodes or unwraps. If it fails, thread_end is not called, and it is called again for the
/// thread's next picture.
/// ```text
/// user    bzna_codec.user
/// err     as for bzna_codec_inspect_fn
/// ```
pub type bzna_codec_thread_begin_fn = Option<unsafe extern "C" fn(user: *mut c_void, state: *mut *mut c_void, err: *mut bzna_error) -> bzna_status>;

/// Frees a state that thread_begin made, once, when its thread needs it no more: on that thread, or on the one that
/// closes a loader or decoder.
pub type bzna_codec_thread_end_fn = Option<unsafe extern "C" fn(user: *mut c_void, state: *mut c_void)>;

/// Fills in the properties of a picture, without decoding it. The library then compares the size with its limits, draws
/// transforms, and allocates planes. All members of shape must be right for decode.
/// ```text
/// state   this thread's, which thread_begin stored, or bzna_codec.user without thread_begin
/// data    all bytes of the file, which recognize accepted. They may be damaged in any way
/// bytes   how many they are
/// shape   cleared; to be filled in
/// err     a complete struct without an error, never NULL. A function that fails may write
///         err->message, in UTF-8; err->byte_offset, which counts from data; and
///         err->native_code. Without a message, the library's message has the number that the
///         function returns
/// ```
pub type bzna_codec_inspect_fn = Option<unsafe extern "C" fn(state: *mut c_void, data: *const c_void, bytes: u64, shape: *mut bzna_codec_shape, err: *mut bzna_error) -> bzna_status>;

/// Decodes a picture into planes. At least all pixels of the rectangle must be written. A codec that cannot decode a
/// part decodes the whole picture: the planes have room for it.
/// ```text
/// state, data, bytes, err   as for inspect, which was called for these bytes and this state.
///          It may have been called for other pictures since
/// needed   the rectangle, which the warp reads; never empty
/// planes   where to. Their contents are undefined
/// ```
pub type bzna_codec_decode_fn = Option<unsafe extern "C" fn(state: *mut c_void, data: *const c_void, bytes: u64, needed: *const bzna_rectangle, planes: *const bzna_codec_planes, err: *mut bzna_error) -> bzna_status>;

/// Finds the picture in a wrapper. The library then decodes it as a picture without a wrapper: by NVDEC, libjpeg-turbo
/// or libavcodec.
/// ```text
/// state, data, bytes, err   as for inspect
/// image   prepared by bzna_image_init. Set codec (H264, H265, AV1, JPEG or STILL), data and
///         data_size; for NAL units with lengths and AV1, config, config_size and length_size,
///         and width, height, frame_width and frame_height, unless they are the same as in the
///         stream. crop_x, crop_y, color and orientation may be set. data and config point into
///         the given bytes, or into the codec's own memory, which must stay as it is until the
///         state's next call and is copied
/// ```
pub type bzna_codec_unwrap_fn = Option<unsafe extern "C" fn(state: *mut c_void, data: *const c_void, bytes: u64, image: *mut bzna_image, err: *mut bzna_error) -> bzna_status>;

/// Gives a value of a provider's sample: sets \*size to its bytes, and writes it to buffer if it has no more than
/// capacity bytes. If it has more, nothing need be written, and the function is called again with a larger buffer,
/// perhaps later and by another thread; both times it returns BZNA_OK. A loader offers more than most samples need, so
/// that this is rare. bzna_provider says what the function returns, and on which threads it runs.
/// ```text
/// user       bzna_provider.user
/// index      of the sample, 0..count - 1
/// field      number of the field in bzna_provider.fields
/// buffer     capacity bytes without alignment; NULL if capacity is 0, to ask for the size alone
/// capacity   bytes at buffer
/// size       required, in bytes
/// err        a complete struct without an error, never NULL. A function that fails may write
///            err->message, in UTF-8; err->byte_offset; and err->native_code. The library puts
///            the data set and the sample before the message. Without one, its own has the
///            number that the function returns
/// ```
pub type bzna_provider_read_fn = Option<unsafe extern "C" fn(user: *mut c_void, index: u64, field: u32, buffer: *mut c_void, capacity: u64, size: *mut u64, err: *mut bzna_error) -> bzna_status>;

/// Says where a value of a provider's sample is. The library reads files as it reads its own kinds of data sets:
/// neighbors in one call, and with few descriptors. bzna_provider says what the function returns, and on which threads
/// it runs.
/// ```text
/// user    bzna_provider.user
/// index   of the sample, 0..count - 1
/// field   number of the field in bzna_provider.fields
/// place   all zeros, except size: set data, or file and offset; and set size
/// err     as for bzna_provider_read_fn
/// ```
pub type bzna_provider_locate_fn = Option<unsafe extern "C" fn(user: *mut c_void, index: u64, field: u32, place: *mut bzna_place, err: *mut bzna_error) -> bzna_status>;

/// Gives a value of a provider whose samples are records: the library reads a record once, and this function finds each
/// value in it. bzna_provider says what the function returns, and on which threads it runs.
/// ```text
/// user       bzna_provider.user
/// index      of the sample, 0..count - 1
/// field      number of the field in bzna_provider.fields
/// record     the record. The function may change it, for instance to join its parts, unless it
///            is in the provider's memory (bzna_place.data). Later calls for this sample may
///            find it changed, or read again
/// bytes      of the record
/// buffer     for a value that is not an IMAGE: capacity bytes without alignment, or NULL
/// capacity   bytes at buffer
/// place      all zeros, except size, which is required. For an IMAGE, set offset, its place in
///            the record. For another value, set data, in the record or in the provider's
///            memory, which the library copies; or write it to buffer, if it has at most
///            capacity bytes
/// err        as for bzna_provider_read_fn
/// ```
pub type bzna_provider_unpack_fn = Option<unsafe extern "C" fn(user: *mut c_void, index: u64, field: u32, record: *mut c_void, bytes: u64, buffer: *mut c_void, capacity: u64, place: *mut bzna_place, err: *mut bzna_error) -> bzna_status>;

/// Changes how one view of a sample is made. Called on decoder threads, concurrently, once for each view that has a
/// warp of its own.
/// ```text
/// user        pipeline.transform_user
/// sample      about the sample and the view
/// random      the view's own numbers, of BZNA_RANDOM_USER
/// transform   the result of the config's warp and color; may be changed
/// ```
/// Returns BZNA_OK, or a negative number, which becomes native_code. The sample fails with E_CALLBACK, and by default
/// the run with it (errors.on_callback_error),
/// ```text
/// - if the result is negative,
/// - if the homography is singular, or
/// - if a number is not finite.
/// ```
/// It must not call functions that take a context, data set or loader.
pub type bzna_transform_fn = Option<unsafe extern "C" fn(user: *mut c_void, sample: *const bzna_sample_info, random: *mut bzna_random, transform: *mut bzna_transform) -> bzna_status>;

/// Draws into a decoded picture before its views are warped. Called on decoder threads, concurrently, once for each
/// decoded picture.
/// ```text
/// user      pipeline.picture_user
/// sample    about the sample and the first output that is made of the picture
/// random    numbers of BZNA_RANDOM_PICTURE for this sample
/// picture   a copy of the coded frame; its crop_x, crop_y and orientation say which part of it
///           is seen
/// planes    the planes of picture, to draw into: planes[i] is picture->plane[i] and has its
///           pitch. They are the loader's, and not to be used after the callback has returned
/// ```
/// Returns BZNA_OK, or a negative number, which becomes native_code and fails the sample as above. It must not call
/// functions that take a context, data set or loader.
pub type bzna_picture_fn = Option<unsafe extern "C" fn(user: *mut c_void, sample: *const bzna_sample_info, random: *mut bzna_random, picture: *const bzna_picture, planes: *const *mut c_void) -> bzna_status>;

/// Makes a sample's part of tensors from its fields. Called on decoder threads, concurrently, once for each sample
/// before its pictures are decoded, or twice if NVDEC hands the sample on to software.
/// ```text
/// user    fields.make_user
/// input   the fields' values, the geometry drawn for the sample, and the memory to be filled
///         in. It is as for a sample without a value, or as an earlier call for this sample left
///         it
/// err     a message and a native code may be left in it
/// ```
/// Returns BZNA_OK, or a negative number, with which the sample fails:
/// ```text
/// BZNA_E_CALLBACK                     the program is at fault: errors.on_callback_error
/// E_FORMAT, E_MISMATCH, E_LIMIT, ...  the data are damaged
/// E_MEMORY                            the sample is made once more; then the run ends
/// any other                           as E_FORMAT; the number becomes native_code
/// ```
/// It must not call functions that take a context, data set or loader.
pub type bzna_make_fn = Option<unsafe extern "C" fn(user: *mut c_void, input: *const bzna_make_input, err: *mut bzna_error) -> bzna_status>;

/// Makes a sample's part of a tensor from a field. Called on decoder threads, concurrently, once for each sample that
/// has the field, before its pictures are decoded, or twice if NVDEC hands the sample on to software.
/// ```text
/// user        rule.user
/// input       the field's value, and what was drawn for the sample
/// out         the sample's part of the tensor, all zeros: to be filled in
/// out_bytes   bytes at out
/// count       for ROWS: to be set to the number of rows that were filled in; 0 before
/// ```
/// Returns BZNA_OK, or a negative number, which becomes native_code:
/// ```text
/// BZNA_E_CALLBACK, below -2^30   the program is at fault: E_CALLBACK (errors.on_callback_error). Bindings number
///                                their exceptions so
/// any other                      the data are damaged: the sample fails with E_FORMAT
/// ```
/// More rows than there is room for fail the sample with E_MISMATCH. The callback must not call functions that take a
/// context, data set or loader.
pub type bzna_rule_fn = Option<unsafe extern "C" fn(user: *mut c_void, input: *const bzna_rule_input, out: *mut c_void, out_bytes: u64, count: *mut u64) -> bzna_status>;

/// The version of this header. bzna_version returns that of the library.
pub const BZNA_VERSION_MAJOR: u32 = 0;
pub const BZNA_VERSION_MINOR: u32 = 4;
pub const BZNA_VERSION_PATCH: u32 = 0;
/// The version as one number: 400 is 0.4.0, 10203 is 1.2.3.
pub const BZNA_VERSION: u32 = 400;
/// Ok
pub const BZNA_OK: bzna_status = 0;
/// No more batches
pub const BZNA_END: bzna_status = 1;
/// Not ready within the timeout
pub const BZNA_AGAIN: bzna_status = 2;
/// An argument or a config field has no meaning
pub const BZNA_E_ARGUMENT: bzna_status = -101;
/// struct_size does not fit this library
pub const BZNA_E_STRUCT_SIZE: bzna_status = -102;
/// Index out of range
pub const BZNA_E_RANGE: bzna_status = -103;
/// Not allowed now, here or in this order
pub const BZNA_E_STATE: bzna_status = -104;
/// The buffer is too small
pub const BZNA_E_BUFFER: bzna_status = -105;
/// a callback failed
pub const BZNA_E_CALLBACK: bzna_status = -106;
/// The loader was stopped
pub const BZNA_E_STOPPED: bzna_status = -107;
/// Not supported by this build or version
pub const BZNA_E_UNSUPPORTED: bzna_status = -108;
/// Out of memory
pub const BZNA_E_MEMORY: bzna_status = -201;
/// No such file, track or field
pub const BZNA_E_NOT_FOUND: bzna_status = -202;
/// Reading or writing failed
pub const BZNA_E_IO: bzna_status = -203;
/// a thread could not be started
pub const BZNA_E_THREAD: bzna_status = -204;
/// Not a file of this kind
pub const BZNA_E_FORMAT: bzna_status = -301;
/// The file ends too early
pub const BZNA_E_TRUNCATED: bzna_status = -302;
/// a box contradicts the format
pub const BZNA_E_BOX: bzna_status = -303;
/// a limit is exceeded
pub const BZNA_E_LIMIT: bzna_status = -304;
/// There are no samples
pub const BZNA_E_NO_SAMPLES: bzna_status = -305;
/// The archive was never finished
pub const BZNA_E_UNFINISHED: bzna_status = -306;
/// No decoder for this codec, depth or chroma format
pub const BZNA_E_CODEC: bzna_status = -401;
/// The picture is damaged
pub const BZNA_E_DECODE: bzna_status = -402;
/// The picture is not what its container says
pub const BZNA_E_MISMATCH: bzna_status = -403;
/// No usable device, or its driver failed
pub const BZNA_E_DEVICE: bzna_status = -501;
/// The device was lost
pub const BZNA_E_DEVICE_LOST: bzna_status = -502;
/// Never returned
pub const BZNA_STATUS_RESERVED: bzna_status = -9999;

/// UINT64_MAX: bzna_error.byte_offset of an error that has no place in a file.
pub const BZNA_NO_OFFSET: u64 = u64::MAX;

// Levels of messages. A call that fails reports it only in its bzna_error, and logs nothing.
/// All samples of a batch failed
pub const BZNA_LOG_ERROR: i32 = 1;
/// a sample that failed or is made again; trouble with NVDEC or an index
pub const BZNA_LOG_WARNING: i32 = 2;
/// Why there is no GPU; that NVDEC decodes for batches in host memory; files without samples
pub const BZNA_LOG_INFO: i32 = 3;
/// Nothing uses it yet
pub const BZNA_LOG_DEBUG: i32 = 4;

// How an image is coded. NVDEC decodes H264, H265, AV1 and, if decode.jpeg asks for it, JPEG. The rest is decoded in
// software. A writer accepts H264, H265, AV1 and JPEG.
pub const BZNA_CODEC_UNKNOWN: u32 = 0;
pub const BZNA_CODEC_H264: u32 = 1;
pub const BZNA_CODEC_H265: u32 = 2;
pub const BZNA_CODEC_AV1: u32 = 3;
pub const BZNA_CODEC_JPEG: u32 = 4;
/// a file of PNG, WebP, or of a kind that a codec in context_config.own_codecs reads, distinguished by its content
pub const BZNA_CODEC_STILL: u32 = 5;
/// Pixels that are not coded: frame_width * frame_height bytes of gray, or three times as many of R, G and B. config is
/// two bytes: the number of channels (1 or 3) and BZNA_LAYOUT_...
pub const BZNA_CODEC_RAW: u32 = 6;
/// a file of the first codec in context_config.own_codecs. One more is the second, and so on
pub const BZNA_CODEC_OWN: u32 = 1000;

// How a picture with a palette is delivered.
/// Its colors
pub const BZNA_PALETTE_COLORS: u32 = 0;
/// Its indices, as gray: for masks of classes
pub const BZNA_PALETTE_INDEX: u32 = 1;

// The kind of pixels that a codec writes. A codec drops alpha, as PIL's convert("RGB") does.
/// Planes of R, G, B; or interleaved ones
pub const BZNA_PIXELS_RGB: u32 = 0;
/// One plane
pub const BZNA_PIXELS_GRAY: u32 = 1;
/// Planes of Y, Cb, Cr; chroma may be subsampled
pub const BZNA_PIXELS_YCBCR: u32 = 2;
/// One plane of numbers, 8 bits each, and a palette with the color of each number. If dataset_config.palette is
/// BZNA_PALETTE_INDEX, the numbers are the pixels
pub const BZNA_PIXELS_INDEX: u32 = 3;

/// The legacy default stream
pub const BZNA_STREAM_LEGACY: *mut c_void = 1 as *mut c_void;
/// The calling thread's own default stream
pub const BZNA_STREAM_PER_THREAD: *mut c_void = 2 as *mut c_void;

// Kinds of devices. The numbers are DLPack's.
/// a context: a GPU if there is one, else the CPU. A loader's batches: host memory
pub const BZNA_DEVICE_AUTO: i32 = 0;
/// The host
pub const BZNA_DEVICE_CPU: i32 = 1;
/// An NVIDIA GPU
pub const BZNA_DEVICE_CUDA: i32 = 2;

// The codecs that may be decoded, as bits of context_config.codecs.
pub const BZNA_ALLOW_H264: u32 = 1;
pub const BZNA_ALLOW_H265: u32 = 2;
pub const BZNA_ALLOW_AV1: u32 = 4;
pub const BZNA_ALLOW_JPEG: u32 = 8;
pub const BZNA_ALLOW_PNG: u32 = 16;
pub const BZNA_ALLOW_WEBP: u32 = 32;
/// The codecs of own_codecs. The kinds that they unwrap must be allowed, too
pub const BZNA_ALLOW_OWN: u32 = 64;

// Results of NVDEC's check for one kind of picture.
/// Not checked yet: it waits for a data set's first picture
pub const BZNA_CHECK_NONE: u32 = 0;
/// NVDEC decoded a picture to the expected pixels
pub const BZNA_CHECK_PASSED: u32 = 1;
/// It did not; the library does not use what failed
pub const BZNA_CHECK_FAILED: u32 = 2;
/// Nothing to check with, or the environment forbids it
pub const BZNA_CHECK_SKIPPED: u32 = 3;

/// The target of a sample that has none
pub const BZNA_TARGET_NONE: i64 = -1;
/// Bytes of a name in a struct, its NUL counted
pub const BZNA_NAME_MAX: usize = 32;
/// Images of a sample in an archive, at most
pub const BZNA_IMAGES_MAX: usize = 4;

// The treatment of pictures whose EXIF data, XMP or codec says how to rotate and mirror them.
/// They are rotated; transforms see that size
pub const BZNA_ORIENTATION_APPLY: u32 = 0;
/// They are not, as in torchvision's ImageFolder
pub const BZNA_ORIENTATION_IGNORE: u32 = 1;

// How the class folders of a folder are numbered.
/// By their names as text: "10" comes before "2"
pub const BZNA_CLASS_ORDER_TEXT: u32 = 0;
/// By their names as numbers: "2" comes before "10"
pub const BZNA_CLASS_ORDER_NUMERIC: u32 = 1;

// Kinds of fields.
/// a coded picture: bzna_image
pub const BZNA_FIELD_IMAGE: u32 = 1;
/// An int64_t
pub const BZNA_FIELD_INTEGER: u32 = 2;
/// float32 numbers
pub const BZNA_FIELD_VECTOR: u32 = 3;
/// UTF-8
pub const BZNA_FIELD_TEXT: u32 = 4;
/// Bytes without a meaning to the library
pub const BZNA_FIELD_BYTES: u32 = 5;

/// UINT64_MAX: in bzna_place.file, see there.
pub const BZNA_BY_READ: u64 = u64::MAX;
/// UINT64_MAX: in provider.places, the size of a value that a sample does not have.
pub const BZNA_NO_VALUE: u64 = u64::MAX;
/// UINT64_MAX - 1: in bzna_place, the size of a value that ends with its file, which the library finds when it reads
/// the value. RAW pixels and INTEGERs have as many bytes as their field says, and their file may have more bytes after
/// them.
pub const BZNA_SIZE_UNKNOWN: u64 = 18446744073709551614;

// Purposes of random numbers. Each purpose has numbers of its own for each sample.
/// a loader's warps
pub const BZNA_RANDOM_WARP: u32 = 0;
/// a loader's jitters
pub const BZNA_RANDOM_COLOR: u32 = 1;
/// a loader's order
pub const BZNA_RANDOM_ORDER: u32 = 2;
/// a loader's picture callback
pub const BZNA_RANDOM_PICTURE: u32 = 3;
/// a loader's policies
pub const BZNA_RANDOM_AUGMENT: u32 = 4;
/// a loader's transform callback; this and higher numbers are the user's
pub const BZNA_RANDOM_USER: u32 = 16;

// How pixels between pixels are computed. Chroma that is subsampled is filtered linearly, unless the warp shrinks it.
/// Two samples an axis
pub const BZNA_FILTER_LINEAR: u32 = 0;
/// The nearest sample
pub const BZNA_FILTER_NEAREST: u32 = 1;
/// a = -0.5, as in PIL; samples outside the picture have no weight
pub const BZNA_FILTER_CUBIC: u32 = 2;
/// The mean of the covered pixels; LINEAR if it enlarges
pub const BZNA_FILTER_AREA: u32 = 3;
/// As in OpenCV; the border is repeated
pub const BZNA_FILTER_LANCZOS4: u32 = 4;
/// As in PIL; samples outside the picture have no weight
pub const BZNA_FILTER_LANCZOS3: u32 = 5;
/// a = -0.75, as in OpenCV; the border is repeated
pub const BZNA_FILTER_CUBIC_075: u32 = 6;

// How filters act when a warp shrinks the picture.
/// All but NEAREST widen as much, as in PIL, torchvision
pub const BZNA_ANTIALIAS_AUTO: u32 = 0;
/// They do not, as in OpenCV; AREA with OFF is refused
pub const BZNA_ANTIALIAS_OFF: u32 = 1;
/// As AUTO, but RGB and gray pictures are rounded to whole samples after they were filtered along rows, and again after
/// columns, as in PIL. Warps that are not axis-aligned, and pictures of Y'CbCr, such as JPEG, are as with AUTO
pub const BZNA_ANTIALIAS_ROUND: u32 = 2;

// Types of elements. Numbers are rounded to nearest, ties to even. Outputs have one of the first four.
pub const BZNA_DTYPE_FLOAT32: u32 = 0;
/// IEEE binary16
pub const BZNA_DTYPE_FLOAT16: u32 = 1;
pub const BZNA_DTYPE_BFLOAT16: u32 = 2;
/// Numbers below 0 give 0, numbers above 255 give 255
pub const BZNA_DTYPE_UINT8: u32 = 3;
/// The tensor "status"
pub const BZNA_DTYPE_INT32: u32 = 16;
/// The tensor "target", and fields that are integers
pub const BZNA_DTYPE_INT64: u32 = 17;
/// The tensor "index"
pub const BZNA_DTYPE_UINT64: u32 = 18;

// The order of channels in memory.
/// Planes: all of one channel, then all of the next
pub const BZNA_LAYOUT_NCHW: u32 = 0;
/// Channels interleaved, "channels last"
pub const BZNA_LAYOUT_NHWC: u32 = 1;

// The channels of an output, in order.
pub const BZNA_CHANNELS_RGB: u32 = 0;
pub const BZNA_CHANNELS_BGR: u32 = 1;
/// One: 0.299 R + 0.587 G + 0.114 B
pub const BZNA_CHANNELS_GRAY: u32 = 2;

// How Y'CbCr becomes R'G'B'. They have no effect on pictures that are coded as RGB.
/// As the picture says: chapter 7
pub const BZNA_MATRIX_AUTO: u32 = 0;
/// Full range
pub const BZNA_MATRIX_BT601_FULL: u32 = 1;
/// Limited range
pub const BZNA_MATRIX_BT601: u32 = 2;
/// Limited range
pub const BZNA_MATRIX_BT709: u32 = 3;
/// Limited range
pub const BZNA_MATRIX_BT2020: u32 = 4;
/// Full range
pub const BZNA_MATRIX_BT709_FULL: u32 = 5;
/// Full range
pub const BZNA_MATRIX_BT2020_FULL: u32 = 6;

// Units of the out-of-bounds color.
/// R, G, B in 0..255, before bias and scale
pub const BZNA_FILL_RGB: u32 = 0;
/// The channels delivered, in their units
pub const BZNA_FILL_OUTPUT: u32 = 1;

// The operations of policies. Pixels are R'G'B' of the output, before it is normalized. Factors, thresholds and
// roundings are those of torchvision's functions for tensors of uint8. The comment of each describes its magnitude;
// operations whose comment does not mention one ignore it.
/// Nothing
pub const BZNA_OP_IDENTITY: u32 = 0;
/// Joining the warp. They move the output's picture, as the crop has made it. the tangent of the angle, about the top
/// left corner
pub const BZNA_OP_SHEAR_X: u32 = 1;
/// The same, for columns
pub const BZNA_OP_SHEAR_Y: u32 = 2;
/// To the right by this share of the output's width, rounded to whole pixels towards 0
pub const BZNA_OP_TRANSLATE_X: u32 = 3;
/// Downwards, by a share of its height, as X
pub const BZNA_OP_TRANSLATE_Y: u32 = 4;
/// To the right by pixels, rounded towards 0 to whole ones
pub const BZNA_OP_TRANSLATE_X_PX: u32 = 5;
/// Downwards by pixels, as X_PX
pub const BZNA_OP_TRANSLATE_Y_PX: u32 = 6;
/// Degrees, counterclockwise, about the middle
pub const BZNA_OP_ROTATE: u32 = 7;
/// Changing each pixel alone. the factor less 1: 0 changes nothing, -1 gives black
pub const BZNA_OP_BRIGHTNESS: u32 = 16;
/// The factor less 1, about the mean gray of all pixels
pub const BZNA_OP_CONTRAST: u32 = 17;
/// The factor less 1, which is torchvision's "Color"
pub const BZNA_OP_SATURATION: u32 = 18;
/// Turns: -0.5..0.5
pub const BZNA_OP_HUE: u32 = 19;
/// The exponent of pixels in 0..1: above 0, below 65536
pub const BZNA_OP_GAMMA: u32 = 20;
/// Bits that are kept, rounded to a whole number: 0..8
pub const BZNA_OP_POSTERIZE: u32 = 21;
/// Pixels at or above it are inverted: 0..256
pub const BZNA_OP_SOLARIZE: u32 = 22;
/// Added to pixels below 128: -255..255
pub const BZNA_OP_SOLARIZE_ADD: u32 = 23;
/// 255 - x
pub const BZNA_OP_INVERT: u32 = 24;
/// Three equal channels
pub const BZNA_OP_GRAYSCALE: u32 = 25;
/// The standard deviation of AlexNet's lighting noise: the three principal components of ImageNet's colors are added,
/// each times its eigenvalue and a normal number of this deviation. AlexNet has 0.1
pub const BZNA_OP_LIGHTING: u32 = 26;
/// Channels in one of their six orders
pub const BZNA_OP_SHUFFLE: u32 = 27;
/// Changing pixels by the whole picture, or by neighbors. each channel is stretched to 0..255
pub const BZNA_OP_AUTOCONTRAST: u32 = 28;
/// Each channel's histogram is made even
pub const BZNA_OP_EQUALIZE: u32 = 29;
/// The factor less 1: above 0 sharpens, and -1 is a blur of 3x3. The border stays as it is
pub const BZNA_OP_SHARPNESS: u32 = 30;
/// Gaussian blur: sigma in pixels, above 0, at most 1000
pub const BZNA_OP_BLUR: u32 = 31;
/// The rectangle's share of the output's area, above 0, at most 1: torchvision's RandomErasing. Up to 10 times area and
/// ratio are drawn, until the rectangle is smaller than the output; else nothing is erased
pub const BZNA_OP_ERASE: u32 = 48;
/// The square's edge as a share of the output's shorter one, 0..1. Its middle is any pixel of the output, so that part
/// of the square may be outside
pub const BZNA_OP_CUTOUT: u32 = 49;
/// The period of the squares as a share of the output's shorter edge, above 0, at most 1
pub const BZNA_OP_GRID_MASK: u32 = 50;

// Which of its operations a policy applies.
/// All groups, in order
pub const BZNA_POLICY_ALL: u32 = 0;
/// Different groups, in random order
pub const BZNA_POLICY_SHUFFLE: u32 = 1;
/// Each draw is any of all groups, as in RandAugment
pub const BZNA_POLICY_CHOOSE: u32 = 2;

/// How many operations may be drawn for a view, all policies together.
pub const BZNA_OPERATIONS_MAX: usize = 8;

// Kinds of warps.
/// The default: the middle, scaled to the output, so that nothing of the output is empty: torchvision's Resize and
/// CenterCrop. A picture of the output's size is copied
pub const BZNA_WARP_CENTER_RESIZED_CROP: u32 = 0;
/// a random crop, scaled to the output: training
pub const BZNA_WARP_RANDOM_RESIZED_CROP: u32 = 1;
/// Centered, one output pixel for one input pixel, which is copied: torchvision's CenterCrop. If an odd number of rows
/// or columns is cut off, the crop begins at half of it, rounded to an even number; an odd margin has its larger part
/// at the right and the bottom
pub const BZNA_WARP_NONE: u32 = 2;
/// The original's; the kinds above are cases of it
pub const BZNA_WARP_SIMILARITY: u32 = 3;
/// Advanced, used to continue runs of MXNet: the affine augmentation of its ImageRecordIter. A picture of w x h, with
/// its padding, that is smaller than the output of W x H is enlarged before it is cropped: if h < H, w becomes floor(w
/// H / h), and h becomes H; then, if w < W, h becomes floor(h W / w), and w becomes W. With mxnet.crop_px it is not
/// enlarged, and a crop larger than the picture is centered
pub const BZNA_WARP_MXNET: u32 = 4;

// How crops are drawn.
/// TORCHVISION for both resized crops, else BENZINA
pub const BZNA_CROPS_AUTO: u32 = 0;
/// The original's: log-uniform area, parts of pixels
pub const BZNA_CROPS_BENZINA: u32 = 1;
/// torchvision's. RandomResizedCrop: uniform area, whole pixels. Centered crops: its Resize and CenterCrop
pub const BZNA_CROPS_TORCHVISION: u32 = 2;

// The order of an epoch's samples.
/// As in the data set, or in order.indices
pub const BZNA_ORDER_SEQUENTIAL: u32 = 0;
/// Another permutation each epoch, by order.seed
pub const BZNA_ORDER_SHUFFLE: u32 = 1;
/// The caller gives each epoch's samples, by bzna_loader_set_batches: chapter 9. order.indices must be NULL
pub const BZNA_ORDER_GIVEN: u32 = 2;

// How an epoch ends if its last batch is not full. Every rank gets the same number of batches.
/// It has fewer samples; for some ranks it may have none: count is 0
pub const BZNA_LAST_PARTIAL: u32 = 0;
/// It is not delivered; if no other batch is left then, opening fails
pub const BZNA_LAST_DROP: u32 = 1;
/// It is filled from the start of the epoch's order; bzna_batch_info.count says how many of its samples are real. What
/// ends a run does so in the others, too. With sizes of bzna_loader_set_batches, each short batch is filled with the
/// samples that follow it in the list, then from the start
pub const BZNA_LAST_PAD: u32 = 2;
/// It is filled with order.pad_value and order.pad_target; bzna_batch_info.count says how many of its samples are real.
/// The slots after them have the index UINT64_MAX and no fields
pub const BZNA_LAST_FILL: u32 = 3;

// Who decodes.
/// NVDEC if the context has it; software for the rest
pub const BZNA_DECODER_AUTO: u32 = 0;
/// Software decodes everything
pub const BZNA_DECODER_SOFTWARE: u32 = 1;
/// NVDEC, or opening fails; software for the rest
pub const BZNA_DECODER_NVDEC: u32 = 2;

// How a loader treats a sample that cannot be read or decoded. E_MEMORY, E_THREAD and E_DEVICE are no faults of a
// sample, and end the run with every setting: chapter 6.
/// Its slot holds the out-of-bounds color
pub const BZNA_ON_ERROR_FILL: u32 = 0;
/// Its slot gets the sample at the position world_size further on in the epoch's order (with sizes of
/// bzna_loader_set_batches, at the next position), and after the end from its start, and so on up to 64 times. That is
/// the same sample in every run, and it is delivered at its own position as well
pub const BZNA_ON_ERROR_REPLACE: u32 = 1;
/// bzna_loader_next returns its error instead of its batch
pub const BZNA_ON_ERROR_STOP: u32 = 2;

// How a loader treats a sample that fails with E_CALLBACK, because transform, picture or a source's read_at failed. A
// sample that a provider fails costs its slot, whatever this setting is.
/// bzna_loader_next returns its error instead of its batch, whatever errors.on_error is
pub const BZNA_ON_CALLBACK_ERROR_STOP: u32 = 0;
/// It counts as a sample that cannot be read or decoded: errors.on_error
pub const BZNA_ON_CALLBACK_ERROR_SAMPLE: u32 = 1;

/// a timeout without an end
pub const BZNA_WAIT_FOREVER: i64 = -1;
/// Order.epochs of a run without an end
pub const BZNA_EPOCHS_ENDLESS: u64 = u64::MAX;

// The stages of the pipeline, in order.
/// Samples are read
pub const BZNA_STAGE_READ: usize = 0;
/// Pictures are decoded
pub const BZNA_STAGE_DECODE: usize = 1;
/// Outputs are made of them
pub const BZNA_STAGE_WARP: usize = 2;
/// Batches are on loan; waits are those in bzna_loader_next
pub const BZNA_STAGE_DELIVER: usize = 3;
/// None limits: threads wake one another most of the time
pub const BZNA_STAGE_NONE: usize = 4;

// Kinds of DLPack tensors (dlpack.h).
/// DLManagedTensor \*, for "dltensor" capsules
pub const BZNA_DLPACK_0: u32 = 0;
/// DLManagedTensorVersioned * of version 1.0, for "dltensor_versioned" capsules
pub const BZNA_DLPACK_1: u32 = 1;

// A split that a sample belongs to.
pub const BZNA_SPLIT_NONE: u32 = 0;
pub const BZNA_SPLIT_TRAIN: u32 = 1;
pub const BZNA_SPLIT_VALIDATION: u32 = 2;
pub const BZNA_SPLIT_TEST: u32 = 3;

/// The index of a sample that comes after all that were given before: bzna_writer_add.
pub const BZNA_INDEX_NEXT: u64 = u64::MAX;

// The things that a HEIF file may hold besides its picture, as bits. No data set delivers any of it.
/// Thumbnails
pub const BZNA_HEIF_THUMB: u32 = 1;
/// Alpha, depth and the like
pub const BZNA_HEIF_AUXILIARY: u32 = 2;
/// Further images
pub const BZNA_HEIF_IMAGES: u32 = 4;
/// An image sequence
pub const BZNA_HEIF_SEQUENCE: u32 = 8;

// Types of numbers in record files. They are little-endian.
/// There is no label
pub const BZNA_RECORD_NONE: u32 = 0;
pub const BZNA_RECORD_UINT8: u32 = 1;
pub const BZNA_RECORD_INT32: u32 = 2;
pub const BZNA_RECORD_INT64: u32 = 3;
pub const BZNA_RECORD_FLOAT32: u32 = 4;

// How samples are drawn by weights.
/// Each position is an independent draw
pub const BZNA_WEIGHTING_REPLACE: u32 = 1;
/// Draws without replacement (Efraimidis and Spirakis 2006): all samples are sorted, with 16 bytes each meanwhile
pub const BZNA_WEIGHTING_ONCE: u32 = 2;

// Policies that are well known, as torchvision 0.29 has them.
/// RandAugment (Cubuk et al. 2019): `draws` of 14 operations, of magnitude 0..30
pub const BZNA_PRESET_RAND_AUGMENT: u32 = 0;
/// TrivialAugmentWide (Mueller and Hutter 2021): one of 14 operations, of any magnitude
pub const BZNA_PRESET_TRIVIAL_WIDE: u32 = 1;
/// AutoAugment's policy for ImageNet (Cubuk et al. 2018): one of 25 pairs of operations
pub const BZNA_PRESET_AUTO_IMAGENET: u32 = 2;

// The result of a rule for a field.
/// Its bytes, for bzna_batch_bytes, under the rule's name
pub const BZNA_RULE_BYTES: u32 = 0;
/// a tensor \[N, shape...\]: call fills it in
pub const BZNA_RULE_TENSOR: u32 = 1;
/// a tensor \[N, shape...\] of which call fills in up to shape\[0\] rows, and with it NAME_count \[N\] int64, with the
/// number of rows of each sample
pub const BZNA_RULE_ROWS: u32 = 2;

opaque! {
    /// Allocator, log, limits and device
    bzna_context;
    /// Immutable samples with named fields
    bzna_dataset;
    /// Order, warps and threads over one data set
    bzna_loader;
    /// One batch on loan from a loader
    bzna_batch;
    /// Decodes single pictures in software
    bzna_decoder;
    /// Writes one archive
    bzna_writer;
    /// The rules of one loader, which know the fields of its data set
    bzna_rules;
}

structs! {
    /// Why a call failed. The caller owns the struct. The library writes to it only when the call fails. It writes all
    /// members and as much of the message as fits, with a NUL, and sets struct_size to the bytes that it has written. A
    /// struct_size of 0 means the size of the library that runs. If struct_size leaves no room for a message, nothing
    /// is written; that is no error.
    struct bzna_error {
        /// Set by the caller, in bytes; 0: the size of the library that runs. A call that fails sets it to the bytes
        /// that it has written
        struct_size: u32,
        /// The status that the call returned
        status: bzna_status,
        /// Where the box or field at fault begins, in bytes from the start of the file, or BZNA_NO_OFFSET
        byte_offset: u64,
        /// Errno, AVERROR or CUresult, as status suggests; 0: none
        native_code: i32,
        /// The type of the box at fault, or 0
        fourcc: u32,
        /// Names the file, and the box or field, in UTF-8 with a NUL at its end: "train.bzna:
        /// moov/trak\[2\]/mdia/minf/stbl/stsz at byte 1945002: ..." If a path is too long, its beginning is left out,
        /// never the reason
        message: [c_char; 488],
    }

    /// The source of the library's memory. Both functions are called on any thread, concurrently. They must not call
    /// any bzna_\* function. If both are NULL, the C library's functions are used; one without the other is E_ARGUMENT.
    struct bzna_allocator {
        /// Passed to both functions; the caller's
        user: *mut c_void,
        /// Returns size bytes whose address is a multiple of align (a power of two, at most 64), or NULL if there are
        /// none
        alloc: Option<unsafe extern "C" fn(user: *mut c_void, size: usize, align: usize) -> *mut c_void>,
        /// Frees ptr, which alloc returned; size is what alloc was asked for
        release: Option<unsafe extern "C" fn(user: *mut c_void, ptr: *mut c_void, size: usize)>,
    }

    /// Bytes from anywhere, for bzna_dataset_open_source. The callbacks must not close any object.
    struct bzna_source {
        /// sizeof the struct; bzna_source_init sets it
        struct_size: u32,
        /// Must be 0
        reserved0: u32,
        /// Passed to the functions; the caller's until close
        user: *mut c_void,
        /// Copies up to size bytes, from byte offset on, to dst. Returns how many it copied. After fewer than size, it
        /// is called again for the rest; 0 means the end of the data. Several threads call it at once. Failures:
        /// ```text
        /// a negative number   trouble with the data: E_IO, and the number becomes native_code
        /// more than size      a fault of read_at itself: E_CALLBACK
        /// ```
        /// A binding returns INT64_MAX if the user's code is at fault.
        read_at: Option<unsafe extern "C" fn(user: *mut c_void, offset: u64, dst: *mut c_void, size: u64) -> i64>,
        /// Returns the number of all bytes. A negative number becomes the native_code of E_IO. Called on the caller's
        /// thread, in bzna_dataset_open_source.
        size: Option<unsafe extern "C" fn(user: *mut c_void) -> i64>,
        /// Releases the source's resources. Called exactly once, on the thread that releases the data set last, and
        /// never if bzna_dataset_open_source failed. May be NULL.
        close: Option<unsafe extern "C" fn(user: *mut c_void)>,
        /// All bytes, if they are in memory. They are not copied, and must stay as they are until close; read_at may be
        /// NULL. NULL: read_at gives them
        memory: *const c_void,
    }

    /// The source of device memory, such as a framework's caching allocator. Both functions are called on the caller's
    /// thread, and for staging memory on a loader's threads. They must not call any bzna_\* function. If both are NULL,
    /// cuMemAlloc and cuMemFree are used; one without the other is E_ARGUMENT.
    struct bzna_device_allocator {
        /// Passed to both functions; the caller's
        user: *mut c_void,
        /// Returns the device address of size bytes, a multiple of 256, or NULL if there are none. The memory is first
        /// used on stream, a CUstream
        alloc: Option<unsafe extern "C" fn(user: *mut c_void, size: usize, stream: *mut c_void) -> *mut c_void>,
        /// Frees ptr, which alloc returned; size is what alloc was asked for. No other stream still uses the memory
        release: Option<unsafe extern "C" fn(user: *mut c_void, ptr: *mut c_void, size: usize, stream: *mut c_void)>,
    }

    /// How numbers of a picture represent colors: code points of ISO/IEC 23091-2, as in colr nclx and in VUI. In each
    /// of the first three, 2 is "unspecified".
    struct bzna_color {
        /// Not applied
        primaries: u16,
        /// Not applied
        transfer: u16,
        /// 0 to 2 and 4 to 10 are known; 0: the planes are G, B, R
        matrix: u16,
        /// 1: 0..255; 0: 16..235 for luma, 16..240 for chroma
        full_range: u8,
        /// 0: nothing is known, and the other members are ignored
        present: u8,
    }

    /// One image: a coded picture. bzna_dataset_read_image fills it in; bzna_decoder_decode, bzna_image_annexb and a
    /// writer take it. It owns nothing.
    struct bzna_image {
        /// sizeof the struct; bzna_image_init sets it
        struct_size: u32,
        /// BZNA_CODEC_...
        codec: u32,
        /// Pixels of the picture without padding
        width: u32,
        /// Pixels of the picture without padding
        height: u32,
        /// Pixels of the coded frame; 0: as the stream says (for a writer, for JPEG and STILL)
        frame_width: u32,
        /// Its height
        frame_height: u32,
        /// Where in the frame the picture begins, in pixels
        crop_x: u32,
        /// How far from the frame's top, in pixels
        crop_y: u32,
        /// The container's description of color. present 0: that of the stream applies, else BT.601, limited-range to a
        /// decoder, full-range to a writer. It has no effect on RGB, nor on a JPEG that is written
        color: bzna_color,
        /// Bytes of the length before each NAL unit: 1, 2 or 4; 0: start codes of Annex B, or a codec without NAL units
        length_size: u32,
        /// EXIF's number, 1..8: how the picture is to be rotated and mirrored. 0: as the picture itself says; a writer
        /// accepts no other number than that
        orientation: u32,
        /// The payload of hvcC, avcC or av1C; NULL if data has the parameter sets. Borrowed
        config: *const c_void,
        /// Bytes at config
        config_size: u64,
        /// The access unit, or the file's bytes. Borrowed
        data: *const c_void,
        /// Bytes at data
        data_size: u64,
        /// BZNA_PALETTE_...
        palette: u32,
        /// Must be 0
        reserved1: u32,
    }

    /// A rectangle of pixels, before a picture is rotated.
    struct bzna_rectangle {
        /// The first column
        x0: u32,
        /// The first row
        y0: u32,
        /// The column after the last
        x1: u32,
        /// The row after the last
        y1: u32,
    }

    /// The properties of a picture, which a codec's inspect or bzna_image_inspect fills in. The library clears the
    /// struct and sets struct_size before it calls inspect. Zero is the default of every member but width and height.
    struct bzna_codec_shape {
        /// Set by the library, in bytes
        struct_size: u32,
        /// Pixels, before the picture is rotated; required
        width: u32,
        /// Rows of pixels; required
        height: u32,
        /// BZNA_PIXELS_...
        pixels: u32,
        /// Bits of a sample: 8, or 9 to 16. Default 8. Above 8, a sample is a uint16_t of the machine, whose lowest
        /// bits hold the value: 0 to 2^depth - 1
        depth: u32,
        /// RGB: 1: R, G and B of a pixel are next to each other in one plane; 0: three planes
        interleaved: u32,
        /// YCBCR: log2 of the subsampling, 0 to 2. 4:2:0 has 1 in both. A plane of chroma has (width + 2^shift - 1) >>
        /// shift samples a row, and as many rows by the same formula
        chroma_shift_x: u32,
        /// The same for rows
        chroma_shift_y: u32,
        /// YCBCR: 1: chroma is co-sited with the left column; 0: centered, as in JPEG
        chroma_left: u32,
        /// 1: co-sited with the top row; 0: centered
        chroma_top: u32,
        /// YCBCR: matrix and range; present 0: BT.601, full range. GRAY: only the range has an effect. RGB and palettes
        /// are full range. Primaries and transfer are not applied: chapter 7
        color: bzna_color,
        /// EXIF's number, 1..8: how the picture is to be rotated and mirrored; 0 counts as 1. The codec leaves the
        /// planes as they are coded
        orientation: u32,
        /// 1: the bytes are a wrapper around a picture that the library decodes, so unwrap is called, and the other
        /// members are ignored. A codec without decode need not set it
        wrapped: u32,
        /// BZNA_ALLOW_... of the library's codecs that decode will use, by a bzna_decoder of its own: if
        /// context_config.codecs forbids one, the picture fails. 0: none
        codecs: u32,
        /// The part that is seen; all zeros: the whole picture
        crop: bzna_rectangle,
    }

    /// Memory for a picture's pixels. The sample of plane i at column x and row y is at A codec may write only the
    /// samples of width * height pixels, and the palette.
    struct bzna_codec_planes {
        /// Set by the library, in bytes
        struct_size: u32,
        /// Pixels of plane\[0\], as inspect said
        width: u32,
        /// Rows of plane\[0\]
        height: u32,
        /// Bytes from one sample of a row to the next: 1 or 2, and three times as many for interleaved RGB
        step: u32,
        /// R, G, B, or Y, Cb, Cr, or one plane; others are NULL. Interleaved RGB is at plane\[0\]; plane \[1\] and
        /// \[2\] are the first pixel's G and B. Multiples of 64, except these two
        plane: [*mut c_void; 3],
        /// Bytes from one row to the next; a multiple of 64
        pitch: [i64; 3],
        /// INDEX: 256 times R, G, B, all black at first. Else NULL
        palette: *mut u8,
    }

    /// A codec of your own. Any thread calls recognize, concurrently. The other functions are called concurrently, too,
    /// but never two at once with one state. No lock of the library is held. They must not close any object, nor call
    /// functions that take a context, data set or loader, with one exception: a state may have a decoder of its own,
    /// opened without a context, to decode the parts of a picture.
    struct bzna_codec {
        /// Required: sizeof the struct. Clear the rest, or initialize the members that you need
        struct_size: u32,
        /// Must be 0
        reserved0: u32,
        /// Passed to functions; the caller's until close
        user: *mut c_void,
        /// For messages; bzna_image_info.fourcc is its first four letters: "JXL (JPEG XL)". Required; fewer than
        /// BZNA_NAME_MAX bytes
        name: *const c_char,
        /// Extensions of files, in lower case, with blanks between: "jxl". Each has at most 13 bytes, and the text 255.
        /// They select the files of a folder, in lower or upper case, and the fields of a tar that are pictures. NULL:
        /// none. The codec then gets only files whose names have another picture's extension, and pictures that have no
        /// names
        extensions: *const c_char,
        /// Distinguishes versions of the codec that give other pixels: it is part of saved states, which are not
        /// restored with another fingerprint. 0 is as valid as any number
        fingerprint: u64,
        /// Required
        recognize: bzna_codec_recognize_fn,
        /// May be NULL: each state is user
        thread_begin: bzna_codec_thread_begin_fn,
        /// May be NULL; NULL without thread_begin
        thread_end: bzna_codec_thread_end_fn,
        /// Required if decode is
        inspect: bzna_codec_inspect_fn,
        /// May be NULL: every picture is unwrapped
        decode: bzna_codec_decode_fn,
        /// May be NULL: every picture is decoded
        unwrap: bzna_codec_unwrap_fn,
        /// Releases the resources of user. Called exactly once, when the last object that was made with the context is
        /// closed, on that thread; never if bzna_context_open failed. May be NULL
        close: Option<unsafe extern "C" fn(user: *mut c_void)>,
        /// Must be 0
        reserved: [u64; 4],
    }

    /// A device, wherever one appears.
    struct bzna_device {
        /// BZNA_DEVICE_...
        kind: i32,
        /// Number of the CUDA device, from 0; else it must be 0
        ordinal: i32,
    }

    /// Codecs of the program's own, in the order in which they are asked.
    struct bzna_own_codecs {
        /// An array; copied, with the texts that it points to. "Codecs of your own" describes them
        ptr: *const bzna_codec,
        /// Codecs at ptr, at most 32
        count: u64,
        /// Must be 0
        reserved: [u64; 2],
    }

    /// The settings of a context. Zero is the default of every member.
    struct bzna_context_config {
        /// sizeof the struct; bzna_context_config_init sets it
        struct_size: u32,
        /// The most verbose level that log receives, BZNA_LOG_...; default BZNA_LOG_WARNING
        log_level: i32,
        /// AUTO: a GPU if there is one that this build can use, else the CPU. The GPU is the device that is current on
        /// the thread that needs it first, or device 0. CUDA: that device, or the call fails. CPU: no GPU is looked for
        device: bzna_device,
        /// Host memory; default: the C library's, and large pages for blocks of 2 MiB or more
        allocator: bzna_allocator,
        /// Receives messages; NULL: they are dropped
        log: bzna_log_fn,
        /// Passed to log; the caller's
        log_user: *mut c_void,
        /// 0: log is called when a thread of the caller's opens a data set or a loader, closes a loader
        /// ```text
        /// r the context, takes a batch, restores a state, finishes an archive or asks for the
        /// evice. Up to 32 messages wait for that, and a message says how many more were dropped
        /// ```
        /// 1: log is called at once, from any thread
        log_any_thread: u32,
        /// The longest edge of a coded frame, in pixels, 1..65535; default 16384
        max_edge_px: u32,
        /// The largest sample, in bytes; default 256 MiB
        max_sample_bytes: u64,
        /// Advanced, used to tune decoding on one kind of GPU: NVDEC decode sessions of the context, at most 256.
        /// Default: sessions_per_engine for each engine
        sessions: u32,
        /// Advanced, used by configurations for several kinds of GPUs: NVDEC decode sessions for each engine of the
        /// device, at most 256 (and 256 in all). Default 4, or 3 if there is a single engine. sessions has precedence
        sessions_per_engine: u32,
        /// Advanced, used to tune decoding: how many pictures one session decodes at once, at most 16; default 4
        session_depth: u32,
        /// Advanced, used to tune decoding: how many decoded pictures of a session one launch of the kernel warps, at
        /// most 8; default 8
        session_mapped: u32,
        /// Advanced, used when a large model shares the GPU: device memory for the surfaces of the decoders of all
        /// sessions, in bytes. The driver uses more memory for each decoder, and does not report how much. Default: an
        /// eighth of the device's memory. With little memory, there are fewer decoders, and they change frame sizes.
        /// With none, a session ends
        decode_memory_bytes: u64,
        /// Advanced, used when a framework has an allocator of its own: allocates the device memory of batches and
        /// uploads. Default, all zeros: the driver's
        device_allocator: bzna_device_allocator,
        /// Advanced, used by programs that made a CUDA context: the CUcontext to work in, on its device. It is the
        /// caller's, and must live until everything made from this context is closed. NULL: the device's primary
        /// context
        cuda_context: *mut c_void,
        /// Advanced, used in sandboxes, and by hosts whose callbacks must stay on their own thread: 1: no call with
        /// this context starts a thread. Data sets are opened by the caller's thread alone, and loaders have
        /// pipeline.no_threads
        no_threads: u32,
        /// Advanced, used with files from strangers: BZNA_ALLOW_... of the codecs that may be decoded. A picture of
        /// another codec fails before a decoder sees it (E_CODEC): chapter 8. Default: all
        codecs: u32,
        /// Advanced, used for pictures that the library does not know: codecs that the library asks after its own have
        /// declined. Default: none
        own_codecs: bzna_own_codecs,
    }

    /// A CUDA device, as a context uses it.
    struct bzna_device_info {
        /// Set by the call: how many bytes were filled
        struct_size: u32,
        /// The CUDA version that the driver supports, 12040 = 12.4
        driver: u32,
        /// BZNA_DEVICE_CUDA, and the ordinal
        device: bzna_device,
        /// Device memory in all, in bytes
        memory_bytes: u64,
        /// Compute capability, 8 of 8.6
        compute_major: u32,
        /// Compute capability, 6 of 8.6
        compute_minor: u32,
        /// NVDEC engines for 8-bit 4:2:0 H.265, else for H.264
        engines: u32,
        /// Decode sessions that the context's loaders share; 0 before the first loader needs them
        sessions: u32,
        /// BZNA_OK if NVDEC can be used, else why not
        video: bzna_status,
        /// CUDA devices of this machine
        device_count: u32,
        /// The device's name, as the driver gives it
        name: [c_char; 96],
        /// More about video, if it is not BZNA_OK
        message: [c_char; 488],
    }

    /// NVDEC's abilities with one kind of picture: a codec, a chroma format and a depth. Sizes are those of coded
    /// frames.
    struct bzna_codec_info {
        /// Set by the call: how many bytes were filled
        struct_size: u32,
        /// BZNA_CODEC_..., as asked
        codec: u32,
        /// 0 gray, 1 4:2:0, 2 4:2:2, 3 4:4:4, as asked
        chroma_format: u32,
        /// Bits a sample: 8, 10 or 12, as asked
        depth: u32,
        /// 1: the device decodes it; 0: all that follows is 0
        supported: u32,
        /// NVDEC engines for this kind
        engines: u32,
        /// Pixels
        min_width: u32,
        /// Pixels
        min_height: u32,
        /// Pixels
        max_width: u32,
        /// Pixels
        max_height: u32,
        /// Width * height / 256 of a frame is at most this
        max_macroblocks: u32,
        /// BZNA_CHECK_...
        check: u32,
        /// Why the check failed or was skipped, and what the library avoids because of it
        check_message: [c_char; 128],
    }

    /// Settings for opening a data set. Everything is copied. A setting that has no effect on the kind of file is
    /// E_ARGUMENT. Zero is the default of every member.
    struct bzna_dataset_config {
        /// sizeof the struct; bzna_dataset_config_init sets it
        struct_size: u32,
        /// 1: class folders without pictures are classes, too, and have numbers; 0: they are refused
        allow_empty: u32,
        /// The name of the data set in error messages, in UTF-8; only if it is one file. Default: the path, "memory",
        /// "source" or "provider"
        name: *const c_char,
        /// "train", "validation" or "test": only the samples of that split, which an archive lists in tracks of their
        /// own (bzna_input_train, bzna_target_train, ...). E_NOT_FOUND if it has none. Default: all samples
        split: *const c_char,
        /// The kind of container, as bzna_dataset_info.container calls it. Default: found by content
        format: *const c_char,
        /// Names of a folder's class folders, in the order of their numbers; other folders are left out. Default: all
        /// of them, in class_order
        classes: *const *const c_char,
        /// Names at classes
        class_count: u32,
        /// BZNA_CLASS_ORDER_...; not together with classes
        class_order: u32,
        /// BZNA_ORIENTATION_...
        orientation: u32,
        /// BZNA_PALETTE_...
        palette: u32,
        /// The name of the integer field that is the target, such as "cls2" of a tar. In mp4 files also the name of a
        /// track of integers, such as "bzna_target"; with a split, the library uses that split's variant of the track.
        /// E_NOT_FOUND if there is none. Default: chapter 12 says which
        target: *const c_char,
        /// The text of an index (.idx) of one tar, in place of the file next to it, so that a tar that is opened by a
        /// source need not be walked over. Read until the call returns. Default: the file next to it, if the data set
        /// is opened by a path
        index: *const c_void,
        /// Bytes at index
        index_bytes: u64,
    }

    /// A data set as a whole.
    struct bzna_dataset_info {
        /// Set by the call: how many bytes were filled
        struct_size: u32,
        /// Fields of its samples: bzna_dataset_field_info
        field_count: u32,
        /// Of all its files, whole; 0 for folders; what provider.size_bytes says
        size_bytes: u64,
        /// Of the whole data set, as from bzna_dataset_count
        sample_count: u64,
        /// Samples that may have a target: in archives, each sample says whether it has one; 0: none has one
        target_count: u64,
        /// Files, or ranges of files, in the data set
        part_count: u32,
        /// Of the first file: bzna_dataset_track_info
        track_count: u32,
        /// Of the first file's ftyp, at most 8
        brand_count: u32,
        /// The major brand first
        brands: [u32; 8],
        /// Of the first file: "archive", "mp4 video", "folder", "tar", "provider", or a provider's kind
        container: [c_char; 20],
        /// Of the first file, after its last box: ignored
        trailing_bytes: u64,
    }

    /// One field of a data set's samples. Chapter 12 has the fields of tar.
    struct bzna_field_info {
        /// Set by the call: how many bytes were filled
        struct_size: u32,
        /// BZNA_FIELD_...
        kind: u32,
        /// UTF-8 with a NUL at its end
        name: [c_char; BZNA_NAME_MAX],
    }

    /// One track of an archive or a video.
    struct bzna_track_info {
        /// Set by the call: how many bytes were filled
        struct_size: u32,
        /// Four characters, such as "meta" or "vide"
        handler: u32,
        /// Of the sample entry, such as "mett" or "hvc1"; "jpeg" if that is mp4v, and its esds box says that the frames
        /// are JPEG
        format: u32,
        /// Of tkhd
        flags: u32,
        /// Of the track
        sample_count: u64,
        /// Of hdlr, such as "bzna_input"
        name: [c_char; BZNA_NAME_MAX],
        /// Of the sample entry, or ""
        mime: [c_char; 64],
    }

    /// The place of one sample in its file.
    struct bzna_sample_ref {
        /// Set by the call: how many bytes were filled
        struct_size: u32,
        /// Names at image_names
        image_count: u32,
        /// In the data set, as asked
        index: u64,
        /// Where the sample begins in its file, in bytes
        offset: u64,
        /// Bytes of the sample
        size: u64,
        /// BZNA_TARGET_NONE: it has none
        target: i64,
        /// Tracks of the images in it
        image_names: [[c_char; BZNA_NAME_MAX]; BZNA_IMAGES_MAX],
    }

    /// One image of a sample, as its container describes it, and the place of its bytes.
    struct bzna_image_info {
        /// Set by the call: how many bytes were filled
        struct_size: u32,
        /// BZNA_CODEC_...
        codec: u32,
        /// The sample entry, "hvc1" = 0x68766331, or the kind of file, "jpeg"
        fourcc: u32,
        /// Pixels of the picture without padding
        width: u32,
        /// Its height
        height: u32,
        /// Pixels of the coded frame
        frame_width: u32,
        /// Its height
        frame_height: u32,
        /// Where in the frame the picture begins, in pixels
        crop_x: u32,
        /// How far from the frame's top, in pixels
        crop_y: u32,
        /// The clean aperture as it is in the file: width, height, horizontal and vertical offset, each a numerator and
        /// a denominator. All 0: there is none
        clap: [i32; 8],
        /// As in bzna_image
        length_size: u32,
        /// As in bzna_image
        color: bzna_color,
        /// Where the config's payload begins in the file, in bytes
        config_offset: u64,
        /// Bytes of the config's payload
        config_size: u64,
        /// Where the access unit begins in the file, in bytes
        data_offset: u64,
        /// Bytes of the access unit
        data_size: u64,
        /// As in bzna_image
        orientation: u32,
        /// 0
        reserved0: u32,
    }

    /// One field of a provider's samples. Zero is the default of every member that does not say otherwise.
    struct bzna_provider_field {
        /// UTF-8, of fewer than BZNA_NAME_MAX bytes, without commas and colons; required. Some names have meanings: an
        /// INTEGER called "target" is the target, an IMAGE called "image" is the picture that loaders decode by default
        /// (without one, the first IMAGE is), and a TEXT called "name" is the sample's name
        name: *const c_char,
        /// BZNA_FIELD_..., which says what a value is, and is required:
        /// ```text
        /// IMAGE     a picture, as codec says
        /// INTEGER   an int64_t, in the machine's byte order
        /// VECTOR    any number of float32 numbers, in that order, too
        /// TEXT      UTF-8 without a NUL
        /// BYTES     any bytes
        /// ```
        kind: u32,
        /// 1: places or locate say where values are; 0: read gives them
        located: u32,
        /// IMAGE:
        /// ```text
        /// BZNA_CODEC_UNKNOWN           a file of JPEG, PNG, ..., distinguished by its content
        /// BZNA_CODEC_H264, H265, AV1   one picture with its parameter sets, in Annex B or OBUs, as
        ///                              bzna_image_annexb writes it
        /// BZNA_CODEC_RAW               pixels, as the next members say
        /// ```
        codec: u32,
        /// RAW: pixels
        width: u32,
        /// RAW: pixels
        height: u32,
        /// RAW: 1, gray; 3, RGB. Each is a byte
        channels: u32,
        /// RAW: BZNA_LAYOUT_...
        layout: u32,
        /// Must be 0
        reserved0: u32,
        /// RAW, with provider.unpack: where the pixels begin in each record, in bytes
        offset: u64,
        /// Must be 0
        reserved: [u64; 2],
    }

    /// Where a value of a provider is: in memory, in a part of a file, or in a whole file, which is { .file = number,
    /// .size = BZNA_SIZE_UNKNOWN }.
    struct bzna_place {
        /// Its bytes in memory, which must stay as they are until provider.close: nothing is copied. NULL: it is in a
        /// file
        data: *const c_void,
        /// Of its first byte in the file
        offset: u64,
        /// Bytes, or BZNA_SIZE_UNKNOWN; required
        size: u64,
        /// Number of the file in provider.files; or of a record, BZNA_BY_READ: then read gives it, and offset is the
        /// place that messages name
        file: u64,
    }

    /// Samples from the caller's functions, for bzna_dataset_open_provider. read, locate and unpack are called by
    /// several threads at once: the reader threads of loaders, with unpack also their decoder threads, and threads in
    /// bzna_dataset_\* calls and in bzna_loader_open. No lock of the library is held. They may use other data sets, but
    /// must not close any object. Each function must give the same value in every call. A loader of pictures has one
    /// reader thread by default: raise read.threads if read calculates much or waits long. Without pictures, decoder
    /// threads read.
    struct bzna_provider {
        /// sizeof the struct; bzna_provider_init sets it
        struct_size: u32,
        /// Must be 0
        reserved0: u32,
        /// Passed to the functions; the caller's until close
        user: *mut c_void,
        /// Samples; at least 1
        count: u64,
        /// Of the samples; copied
        fields: *const bzna_provider_field,
        /// 1..64
        field_count: u32,
        /// Must be 0
        reserved1: u32,
        /// Bytes of a value, at most; default context_config.max_sample_bytes, which always holds
        max_bytes: u64,
        /// Gives values; NULL if every field is located
        read: bzna_provider_read_fn,
        /// Says where values are; NULL if places says it
        locate: bzna_provider_locate_fn,
        /// Instead of locate, the places of all values, so that no function is called: field f of sample i is at
        /// places\[i * field_count + f\]. Places of fields that are not located are ignored. The array must stay as it
        /// is until close. NULL: locate says it
        places: *const bzna_place,
        /// Paths of the files that hold values; copied. If they are at most 64, and fewer than the samples, the library
        /// opens them with the data set. Otherwise it opens each file when it reads it, so a missing file fails only
        /// its samples
        files: *const *const c_char,
        /// Any number
        file_count: u64,
        /// Names of targets 0, 1, ...; copied. NULL: none have any
        classes: *const *const c_char,
        /// 0 without classes
        class_count: u32,
        /// Must be 0
        reserved2: u32,
        /// Distinguishes these samples from others: a saved state is not restored with another fingerprint. Default 0:
        /// only count and fields distinguish providers
        fingerprint: u64,
        /// Releases the provider's resources. Called exactly once, on the thread that releases the data set last, and
        /// never if bzna_dataset_open_provider failed. May be NULL
        close: Option<unsafe extern "C" fn(user: *mut c_void)>,
        /// The value of bzna_dataset_info.container, in UTF-8 of fewer than 20 bytes; copied. Default: "provider"
        kind: *const c_char,
        /// Of its files, for bzna_dataset_info; default: 0
        size_bytes: u64,
        /// Samples are records, and this function finds all fields in them but RAW pixels. A sample then has one place:
        /// places, locate or read give the whole record. Sample i is at places\[i\], and locate and read are called
        /// with field_count as the number of the field. NULL: each field has a place of its own
        unpack: bzna_provider_unpack_fn,
        /// Must be 0
        reserved: [u64; 2],
    }

    /// A decoded picture: planes in memory. bzna_decoder_decode fills it in; bzna_picture_render takes it, from any
    /// source. It owns nothing.
    struct bzna_picture {
        /// sizeof the struct
        struct_size: u32,
        /// Bits a sample: 8, or 9 to 16 in two bytes each; 0 counts as 8
        depth: u32,
        /// Pixels of the picture without padding
        width: u32,
        /// Its height
        height: u32,
        /// Where in the frame the picture begins, in pixels
        crop_x: u32,
        /// How far from the frame's top, in pixels
        crop_y: u32,
        /// Pixels of the coded frame, which the planes show whole; 0: the frame ends where the picture does
        frame_width: u32,
        /// Its height
        frame_height: u32,
        /// log2 of the subsampling, at most 2: 1 for 4:2:0
        chroma_shift_x: u32,
        /// The same for rows: 1 for 4:2:0
        chroma_shift_y: u32,
        /// 1: chroma is co-sited with the left column; 0: centered
        chroma_left: u32,
        /// 1: chroma is co-sited with the top row; 0: centered
        chroma_top: u32,
        /// The color description that applies: chapter 7. With matrix 0 the planes are G, B, R
        color: bzna_color,
        /// Y, Cb, Cr; plane\[1\] and \[2\] NULL: gray. Borrowed. Planes and pitches of samples of two bytes are
        /// multiples of 2
        plane: [*const c_void; 3],
        /// Bytes from one row of a plane to the next
        pitch: [i64; 3],
        /// EXIF's number, 1..8; 0 counts as 1. All sizes here are those of the planes as they are stored; homographies
        /// and outputs refer to the picture after it was rotated
        orientation: u32,
        /// Bytes from one sample of a row to the next; 0: the size of a sample. Interleaved planes have more
        step: [u32; 3],
    }

    /// A stream of random numbers by a counter-based generator, Philox4x32-10 (Salmon et al. 2011, "Parallel random
    /// numbers: as easy as 1, 2, 3"). The stream of (seed, epoch, sample, purpose) is Words come in order 0..3 of block
    /// 0, 1, ... Test vectors, the first words of a stream: The struct is a plain value that owns nothing: copy it to
    /// repeat its numbers.
    struct bzna_random {
        /// Of the stream
        key: [u32; 2],
        /// Of the next block
        counter: [u32; 4],
        /// Its words
        block: [u32; 4],
        /// Words of block already handed out; 4: all
        used: u32,
        /// 0
        reserved0: u32,
    }

    /// One operation of a policy. Zero is the default of every member. The struct has no struct_size: it grows only
    /// into reserved words.
    struct bzna_operation {
        /// BZNA_OP_...
        kind: u32,
        /// 1: half of the time, the magnitude is negated
        sign: u32,
        /// Above 0, at most 1; 0 counts as 1
        probability: f32,
        /// From \[0\] to \[1\], which may be the smaller one: drawn as the policy's bins say
        magnitude: [f32; 2],
        /// BLUR: pixels along an edge of the kernel, an odd number of 1..63; default 23. If the output is so small that
        /// a border cannot be reflected, the largest odd number with which it can is used
        kernel_px: u32,
        /// ERASE: height divided by width, lo..hi; default 0.3..3.3. GRID_MASK: \[0\] is the squares' edge as a share
        /// of their period, default 0.5; \[1\] is 0
        ratio: [f32; 2],
        /// The color that covers pixels, in units of value_space
        value: [f32; 3],
        /// BZNA_FILL_... of value and noise. Value 0 in RGB is black, and in units of the output it is the mean color,
        /// which torchvision erases with after it has normalized
        value_space: u32,
        /// ERASE: the standard deviation of a normal number that is added to value, drawn anew for each channel of each
        /// pixel. torchvision's value="random" is 1 in units of the output
        noise: f32,
        /// Must be 0
        reserved0: u32,
        /// Must be 0
        reserved: [u64; 4],
    }

    /// A list of operations, and how they are drawn. Zero is the default of every member but the first two. The struct
    /// has no struct_size: it grows only into reserved words.
    struct bzna_policy {
        /// An array; required
        operations: *const bzna_operation,
        /// Operations at operations, 1..256
        operation_count: u32,
        /// Operations that are drawn together, in order, each with its own probability: those of one group follow one
        /// another. Default 1; must divide operation_count. AutoAugment's sub-policies are groups of 2
        group_size: u32,
        /// BZNA_POLICY_...
        apply: u32,
        /// Groups that are drawn. ALL: must be 0. SHUFFLE: at most all of them; default all. CHOOSE: default 1
        draws: u32,
        /// 0: magnitudes are uniform between both ends. Else at least 2: a magnitude is one of this many evenly spaced
        /// values, from magnitude\[0\], which is number 0, to magnitude\[1\]
        bins: u32,
        /// With bins: the range of bins that are drawn, lo..hi, each with the same probability. RandAugment of
        /// magnitude 9 has 31 bins and 9..9, TrivialAugmentWide 31 bins and 0..30
        bin: [u32; 2],
        /// Of applying any; above 0, at most 1; 0 counts as 1
        probability: f32,
        /// Must be 0
        reserved: [u64; 4],
    }

    /// The policies of an output. Zero is the default of every member.
    struct bzna_loader_augment {
        /// An array; copied, with what it points to; NULL: none
        policies: *const bzna_policy,
        /// Policies at policies, at most 16
        policy_count: u32,
        /// 1: operations that join the warp bring in the input beyond the crop, as warp.rotate does; 0: they bring in
        /// the out-of-bounds color, as torchvision does. The color is not mixed with the border's pixels
        beyond_crop: u32,
        /// Must be 0
        reserved: [u64; 8],
    }

    /// An operation that was drawn.
    struct bzna_drawn {
        /// BZNA_OP_...
        kind: u32,
        /// As drawn, with its sign. For CUTOUT, GRID_MASK and ERASE, area has the result in pixels
        magnitude: f32,
        /// BLUR: as in bzna_operation; 0 counts as 23
        kernel_px: u32,
        /// As in bzna_operation
        value_space: u32,
        /// Pixels of the output. ERASE, CUTOUT: left, top, right and bottom edge. GRID_MASK: left and top of any
        /// square, the period, and the edge of a square. Right or period 0: nothing
        area: [i32; 4],
        /// ERASE, CUTOUT, GRID_MASK: as in bzna_operation. LIGHTING: the numbers added to R, G, B, in 0..255. SHUFFLE:
        /// which channel becomes R, G, B: 0, 1 and 2 in any order
        value: [f32; 3],
        /// As in bzna_operation
        noise: f32,
        /// Of the noise's random numbers
        key: [u32; 2],
    }

    /// How one view of a sample is made. The steps have this order: Zero is the default of every member, and means a
    /// step that changes nothing. A loader writes the identities out: a transform callback finds them as numbers that
    /// it can multiply and add to. It may change every member but struct_size.
    struct bzna_transform {
        /// sizeof the struct; bzna_transform_init sets it
        struct_size: u32,
        /// BZNA_FILTER_...
        filter: u32,
        /// 3x3, row-major, output to input pixels: chapter 7. Nine zeros count as the identity
        homography: [f64; 9],
        /// By channel, in the order delivered; \[0\] for GRAY
        bias: [f32; 3],
        /// Factors, in the same order; 0 counts as 1
        scale: [f32; 3],
        /// The out-of-bounds color, in units of fill_space
        fill: [f32; 3],
        /// BZNA_FILL_...
        fill_space: u32,
        /// BZNA_MATRIX_...
        matrix: u32,
        /// BZNA_ANTIALIAS_...
        antialias: u32,
        /// How hls treats hues past the ends of H. 0: they wrap around; 1: they stop at the end, as in MXNet
        clamp_hue: u32,
        /// 1: gray, as torchvision's RandomGrayscale makes it
        grayscale: u32,
        /// Must be 0
        reserved0: u32,
        /// 3x4, row-major: \[R G B\]' becomes color \[R G B 1\]', with R'G'B' in 0..255. Twelve zeros count as the
        /// identity
        color: [f32; 12],
        /// Added to OpenCV's H (0..180), L and S (0..255): -180..180, -255..255, -255..255
        hls: [f32; 3],
        /// torchvision's factor, at least 0; 0 counts as 1
        brightness: f32,
        /// torchvision's factor, at least 0, about the mean of the pixels that are inside the picture; 0 counts as 1
        contrast: f32,
        /// torchvision's factor, at least 0; 0 counts as 1
        saturation: f32,
        /// torchvision's, in turns: -0.5..0.5
        hue: f32,
        /// At operations
        operation_count: u32,
        /// Must be 0
        reserved1: u32,
        /// The operations that policies drew, in order. Operations that join the warp are in the homography and in clip
        /// already: here they are information, and have no effect
        operations: [bzna_drawn; BZNA_OPERATIONS_MAX],
        /// Outside of a rectangle, which moves with the output's picture, there is the out-of-bounds color. An output
        /// pixel is inside if \[u v\]' = clip \[x y 1\]' has -0.5 <= u <= clip_size\[0\] - 0.5, and the same for v and
        /// clip_size\[1\]. 2x3, row-major. Six zeros: there is no rectangle
        clip: [f64; 6],
        /// Width and height of the rectangle
        clip_size: [f64; 2],
    }

    /// The sample, view and output that a transform or picture callback is asked about.
    struct bzna_sample_info {
        /// Bytes that the library has filled in
        struct_size: u32,
        /// Of the batch, from 0
        slot: u32,
        /// Of the sample in the data set
        index: u64,
        /// From 0
        epoch: u64,
        /// BZNA_TARGET_NONE: it has none
        target: i64,
        /// Pixels of the picture without padding, rotated
        width: u32,
        /// Its height
        height: u32,
        /// Pixels of the output
        out_width: u32,
        /// Its height
        out_height: u32,
        /// The position in the epoch's order if an order can repeat a sample (chapter 9), else 0
        occurrence: u64,
        /// Number of the view, from 0
        view: u32,
        /// 0 is config.output, i + 1 is config.extra_outputs.ptr\[i\]; in a picture callback, the first output that is
        /// made of the picture
        output: u32,
    }

    /// How a view of the first output shows its picture. Edges of pixels are counted from the corner: the pixel (0, 0)
    /// is from 0 to 1 in both directions, and its center is 0 to the homographies.
    struct bzna_geometry {
        /// Bytes that the library has filled in
        struct_size: u32,
        /// Number of the view, from 0
        view: u32,
        /// Pixels of the picture without padding, rotated
        width: u32,
        /// Its height
        height: u32,
        /// Pixels of the output
        out_width: u32,
        /// Its height
        out_height: u32,
        /// 1: from left to right in the middle of the output, the picture is shown from right to left
        flip_h: u32,
        /// The same, from bottom to top
        flip_v: u32,
        /// Output to input pixels, as drawn: chapter 7
        homography: [f64; 9],
        /// Input to output pixels
        inverse: [f64; 9],
        /// The part that the output shows: left, top, right and bottom edge of the upright rectangle around it, in
        /// pixels of the picture. It may reach beyond the picture
        crop: [f64; 4],
    }

    /// A value of a field.
    struct bzna_bytes {
        /// As bzna_batch_bytes gives it, with a NUL behind it; NULL: the sample has none
        data: *const c_void,
        /// Bytes at data, without that NUL
        size: u64,
    }

    /// The input of fields.make for one sample. All of it is the loader's, and must not be used after the callback has
    /// returned.
    struct bzna_make_input {
        /// Bytes that the library has filled in
        struct_size: u32,
        /// At geometry; 0 in batches without pictures
        view_count: u32,
        /// About the sample and its first view; width and height are 0 in batches without pictures
        sample: *const bzna_sample_info,
        /// One for each view of the first output; or NULL
        geometry: *const bzna_geometry,
        /// One for each name in fields.bytes, in that order
        values: *const bzna_bytes,
        /// The sample's part of each tensor of fields.made, in that order, to be filled in
        out: *const *mut c_void,
    }

    /// A tensor \[N, shape...\] of batches, whose parts fields.make fills in. Zero is the default of every member but
    /// name.
    struct bzna_made {
        /// At most 31 bytes of UTF-8; copied
        name: *const c_char,
        /// BZNA_DTYPE_FLOAT32, _UINT8, _INT32 or _INT64
        dtype: u32,
        /// Numbers at shape, at most 4
        dimensions: u32,
        /// Of a sample, the outermost one first; each at least 1
        shape: [i64; 4],
        /// The numbers of a sample that failed in make, or before it was called. 0: floats are NaN, integers -1, and
        /// uint8 0; 1: all are 0
        zero: u32,
        /// Must be 0
        reserved0: u32,
        /// Must be 0
        reserved: [u64; 2],
    }

    /// The output of bzna_picture_render.
    struct bzna_output {
        /// sizeof the struct
        struct_size: u32,
        /// Pixels, 1..16384
        width: u32,
        /// Pixels, 1..16384
        height: u32,
        /// BZNA_DTYPE_FLOAT32, _FLOAT16, _BFLOAT16 or _UINT8
        dtype: u32,
        /// BZNA_LAYOUT_...
        layout: u32,
        /// BZNA_CHANNELS_...
        channels: u32,
    }

    /// Advanced, used to continue runs of MXNet: parameters of its ImageRecordIter that nothing else has. The members
    /// before hls are only for the kind MXNET, and E_ARGUMENT with others. hls to clamp_hue change the colors of all
    /// views that are warped by this bzna_warp, whatever its kind, after the jitter. Zero is "none" for every member.
    struct bzna_mxnet {
        /// max_shear_ratio
        shear_ratio: f64,
        /// min_img_size and max_img_size of the scaled picture, in pixels; 0: any
        canvas_px: [u32; 2],
        /// min_crop_size and max_crop_size of a square crop, which is resized to the output, in pixels; 0: the output's
        /// size
        crop_px: [u32; 2],
        /// Pad, pixels added on each side
        pad_px: u32,
        /// Resize of the short edge, in pixels, before all
        short_edge_px: u32,
        /// 1: crop_x_start and crop_y_start count
        has_crop_start: u32,
        /// Where the crop begins, in pixels
        crop_x_start: u32,
        /// How far from the top, in pixels
        crop_y_start: u32,
        /// random_h (at most 180), random_l, random_s (at most 255)
        hls: [f32; 3],
        /// max_random_contrast, below 1, and max_random_illumination. With c = 1 + U(-,+) of the one and i = U(-,+) of
        /// the other, y = ((x - mean) * c + i) * scale
        contrast: f32,
        /// See contrast
        illumination: f32,
        /// bzna_transform.clamp_hue
        clamp_hue: u32,
        /// Must be 0
        reserved0: u32,
        /// Must be 0
        reserved: [u64; 4],
    }

    /// How warps are drawn. Zero is the default of every member. A setting that has no effect on the kind is
    /// E_ARGUMENT. The struct has no struct_size: it grows only into reserved words.
    struct bzna_warp {
        /// BZNA_WARP_...
        kind: u32,
        /// BZNA_CROPS_...; must be 0 for NONE and MXNET
        crops: u32,
        /// By kind:
        /// ```text
        /// RANDOM_RESIZED_CROP   the crop's share of the picture's area, lo..hi; default 0.08..1
        /// CENTER_RESIZED_CROP   [0] is the output's edge as a fraction of the short edge of the
        ///                       resized picture; default 1; 224.0 / 256 for "resize to 256, crop
        ///                       224". [1] is 0
        /// SIMILARITY            the crop's share of the picture's area, lo..hi; default 1..1
        /// MXNET                 min_random_scale..max_random_scale; default 1..1
        /// ```
        scale: [f64; 2],
        /// The crop's width divided by its height, lo..hi. Default 3/4..4/3 for RANDOM_RESIZED_CROP, the input's own
        /// for SIMILARITY. MXNET: 1 - max_aspect_ratio..1 + max_aspect_ratio, default 1..1
        ratio: [f64; 2],
        /// SIMILARITY, MXNET: rotation, counterclockwise, lo..hi. MXNET draws whole degrees:
        /// -max_rotate_angle..max_rotate_angle, or for its rotate a range of no width
        degrees: [f64; 2],
        /// SIMILARITY: shift in x and y, at most plus or minus these fractions of the output's size
        translate: [f64; 2],
        /// Probability of mirroring left to right; every kind
        flip_h: f64,
        /// Probability of mirroring top to bottom; every kind
        flip_v: f64,
        /// Advanced: torchvision's RandomAffine and then RandomPerspective, applied to the output of every kind. They
        /// bring in parts of the input beyond the crop. rotate: degrees, clockwise, lo..hi
        rotate: [f64; 2],
        /// Advanced: degrees below 90: x lo..hi, y lo..hi
        shear: [f64; 4],
        /// Advanced: distortion_scale, 0..1; 0: none
        perspective: f64,
        /// Advanced: probability of perspective; default 0.5
        perspective_p: f64,
        /// SIMILARITY: 1 scales the crop to the output; implied by scale and ratio
        resize: u32,
        /// SIMILARITY: 1: resize scales both axes alike
        keep_ratio: u32,
        /// SIMILARITY: 1 crops anywhere, 0 in the middle. MXNET: rand_crop
        random_crop: u32,
        /// Must be 0
        reserved0: u32,
        /// Advanced: parameters of MXNet's alone
        mxnet: bzna_mxnet,
        /// Must be 0
        reserved: [u64; 8],
    }

    /// How colors are drawn. The out-of-bounds color is not changed. Zero is "none" for every member. The struct has no
    /// struct_size: it grows only into reserved words.
    struct bzna_jitter {
        /// torchvision's ColorJitter: factors, lo..hi; 0, 0: none
        brightness: [f32; 2],
        /// Factors, as for brightness
        contrast: [f32; 2],
        /// Factors, as for brightness
        saturation: [f32; 2],
        /// Shifts in turns, -0.5..0.5; 0, 0: none
        hue: [f32; 2],
        /// The probability of gray, as in RandomGrayscale, 0..1
        grayscale: f32,
        /// Must be 0
        reserved0: u32,
        /// Must be 0
        reserved: [u64; 11],
    }

    /// A piece of the caller's memory.
    struct bzna_buffer {
        /// Its address, on the device for outputs that are there
        data: *mut c_void,
        /// Its size
        bytes: u64,
    }

    /// How pixels are filtered.
    struct bzna_loader_filter {
        /// BZNA_FILTER_...
        kind: u32,
        /// BZNA_ANTIALIAS_...
        antialias: u32,
        /// Must be 0
        reserved: [u64; 8],
    }

    /// How numbers are made of colors, in the order of the output's channels. Give mean and std, or bias and scale, not
    /// both.
    struct bzna_loader_color {
        /// y = (x - mean) / std, for x in 0..255
        mean: [f32; 3],
        /// 0 counts as 1
        std: [f32; 3],
        /// y = (x - bias) * scale, for x in 0..255
        bias: [f32; 3],
        /// 0 counts as 1
        scale: [f32; 3],
        /// The out-of-bounds color; default black
        fill: [f32; 3],
        /// BZNA_FILL_... of fill
        fill_space: u32,
        /// Advanced, used if files say it wrong: BZNA_MATRIX_...
        matrix: u32,
        /// Must be 0
        reserved0: u32,
        /// Advanced, used to continue runs of MXNet or Caffe: a mean for each pixel, in place of mean or bias. float32
        /// \[channels, height, width\] of the output; copied. An output of another size or other channels needs a color
        /// of its own then
        mean_image: *const c_void,
        /// Bytes at mean_image
        mean_image_bytes: u64,
        /// Random colors, by numbers of BZNA_RANDOM_COLOR that are forked with the view. In an output without a warp of
        /// its own, that is the view of the first output
        jitter: bzna_jitter,
        /// Must be 0
        reserved: [u64; 8],
    }

    /// An output of a loader: config.output is the first one, the tensor "image", and the elements of
    /// config.extra_outputs are further ones, made of the same samples. Zero is the default of every member. The struct
    /// has no struct_size: it grows only into reserved words.
    struct bzna_loader_output {
        /// Samples of a batch, 1..65536; required in the first output, and 0 in further ones
        batch_size: u32,
        /// Pixels, 1..16384. The first output's is required; 0 in a further one: the first one's. Width and height 0
        /// with fields.tensors, bytes or made mean batches without pictures, on the host: without fields.image,
        /// fields.geometry, several views, buffers and further outputs
        width: u32,
        /// Its height
        height: u32,
        /// BZNA_DTYPE_FLOAT32, _FLOAT16, _BFLOAT16 or _UINT8
        dtype: u32,
        /// BZNA_LAYOUT_...
        layout: u32,
        /// BZNA_CHANNELS_...
        channels: u32,
        /// Advanced, used in contrastive learning: views of each sample, at most 64 in all outputs. Default 1; in an
        /// output without a warp of its own, as many as the first output has, and no other number is allowed. View n
        /// has the random numbers that are forked with n
        views: u32,
        /// Advanced, used by programs that drive several devices: equal parts that a batch is delivered in, one for
        /// each consumer. Default 1; must divide batch_size, and be 1 with several views or outputs
        slices: u32,
        /// Where batches are, whatever decodes. AUTO, CPU: in host memory. CUDA: on the context's device; ordinal is 0
        /// or that device's. With AUTO, a message at BZNA_LOG_INFO says if NVDEC decodes, so that batches are copied
        /// from the device
        device: bzna_device,
        /// Advanced, used by programs that have a stream: the consumer's CUstream, for batches on the device; refused
        /// if device is AUTO. It is the caller's, and must live until the loader is closed and the last batch on it has
        /// been released. NULL: the loader makes one, a non-blocking stream, which the default stream does not wait for
        /// (chapter 11)
        stream: *mut c_void,
        /// Advanced, used by programs that own their staging memory: an array of batches_in_flight * slices buffers,
        /// which batches use instead of the library's memory. The library copies the array, and borrows the buffers.
        /// ```text
        /// - buffers[batch * slices + slice] has room for batch_size / slices samples: all outputs
        ///   in order, each from a multiple of 256 bytes on.
        /// - It is aligned to 4 bytes, and none overlaps another.
        /// - It stays valid until the loader is closed and its batches are released.
        /// - Its addresses are the device's if device is CUDA
        /// ```
        buffers: *const bzna_buffer,
        /// Buffers at buffers
        buffer_count: u32,
        /// BZNA_PALETTE_INDEX: pictures with a palette come as its indices, whatever the data set's config says. All
        /// outputs of one field must say the same. Default: the data set's setting
        palette: u32,
        /// Further outputs: the name of the tensor, 1..31 bytes; required; copied
        name: *const c_char,
        /// Further outputs: the image field that it is made of; copied. A field is decoded once. NULL: the first
        /// output's
        field: *const c_char,
        /// Further outputs: how warps are drawn; copied.
        /// ```text
        /// NULL         view v has the warp, fill and colors of view v of the first output, as the
        ///              transform callback left them, which is not called for it again. The warp is
        ///              scaled from the sizes of the first output and its picture to those of this
        ///              one, so that edges meet edges
        /// not NULL     warps are drawn by it, and the transform callback is called. The random
        ///              numbers are forked with view numbers that continue those of earlier outputs
        ///              that have warps of their own
        /// ```
        warp: *const bzna_warp,
        /// Further outputs: how pixels are filtered; copied. NULL: as in the first output
        filter: *const bzna_loader_filter,
        /// Further outputs: how numbers are made of colors; copied. NULL: as in the first output
        color: *const bzna_loader_color,
        /// Further outputs: their policies; copied.
        /// ```text
        /// NULL         the policies of the first output: drawn anew with a warp of its own; else
        ///              the operations that were drawn for the first output's view. An output
        ///              without a warp, but with colors of its own, such as a mask, has only the
        ///              operations that join the warp
        /// not NULL     these, by random numbers that are forked as those of colors. Without a warp
        ///              of its own, they must not join the warp
        /// ```
        augment: *const bzna_loader_augment,
        /// Must be 0
        reserved: [u64; 7],
    }

    /// The outputs after the first one.
    struct bzna_loader_outputs {
        /// An array; copied, with what it points to
        ptr: *const bzna_loader_output,
        /// Outputs at ptr, at most 15
        count: u64,
        /// Must be 0
        reserved: [u64; 8],
    }

    /// The samples of an epoch. Arrays are copied.
    struct bzna_loader_order {
        /// BZNA_ORDER_...
        kind: u32,
        /// BZNA_LAST_...
        last_batch: u32,
        /// Of order, warps and colors
        seed: u64,
        /// To deliver, one after the other; default 1
        epochs: u64,
        /// The number of the first one: at most 2^64 - 2
        first_epoch: u64,
        /// Advanced, used by programs with their own samplers: the samples of an epoch, by index. They may repeat.
        /// NULL: all samples of the data set
        indices: *const u64,
        /// Indices at indices
        index_count: u64,
        /// With BZNA_LAST_FILL: every number of the pictures that fill the last batch, as it is in the tensor
        pad_value: f64,
        /// With BZNA_LAST_FILL: their targets
        pad_target: i64,
        /// Must be 0
        reserved: [u64; 6],
    }

    /// This process's share of each epoch, for distributed training: chapter 9.
    struct bzna_loader_shard {
        /// Of this process, 0 .. world_size - 1
        rank: u32,
        /// Processes that share the epoch; default 1
        world_size: u32,
        /// Must be 0
        reserved: [u64; 8],
    }

    /// The fields that batches are made of. Strings are copied.
    struct bzna_loader_fields {
        /// Which image of a sample: "image", "thumb", or the name of a track. A name that the first sample does not
        /// have is refused. Default: the thumbnail, if a sample has one and all outputs of it are at most 512 pixels
        /// wide and high; else the picture
        image: *const c_char,
        /// Further tensors of each batch: at most 16 fields by name, with commas between them. Names are UTF-8, and
        /// none is empty.
        /// ```text
        /// integers   [N] int64; -1 if a sample has none
        /// vectors    [N, k] float32. k is how many numbers the first sample has, or the number
        ///            after a colon: "cls,label:16". A shorter vector, or a sample that could not
        ///            be read, leaves NaN in the rest of its row; a longer one fails its sample
        ///            with E_MISMATCH
        /// ```
        /// "label=cls" is the field "cls" as the tensor "label"
        tensors: *const c_char,
        /// At most 64 fields of any kind for bzna_batch_bytes, by name, with commas between them. This is the only way
        /// to read a field that has the name of a tensor of every batch, such as "index". "text=note" is the field
        /// "note" under the name "text". If several fields have one name, as in "text=caption,text=note", the first
        /// that a sample has is used
        bytes: *const c_char,
        /// Tensors that make fills in: an array of at most 32
        made: *const bzna_made,
        /// Tensors at made
        made_count: u32,
        /// 1: batches have the tensor "geometry", \[N, 16\] float32, or \[N, views, 16\] with several views of the
        /// first output: the homography (9), width and height of the picture, the crop (4), and flip_h + 2 * flip_v, as
        /// in bzna_geometry. NaN if a sample failed before they were drawn
        geometry: u32,
        /// Fills in the tensors at made
        make: bzna_make_fn,
        /// Passed to make; the caller's
        make_user: *mut c_void,
        /// Must be 0
        reserved: [u64; 8],
    }

    /// Advanced, used with slow or failing storage: how samples are read.
    struct bzna_loader_read {
        /// Threads that read, at most 256; default 1, or with NVDEC one for two sessions, 2 to 8. If nothing is
        /// decoded, or all samples are in memory and no GPU is used, the default is none: decoder threads read. Raise
        /// it if each read waits long, as on network storage
        threads: u32,
        /// Samples read before they are decoded, at most 65536. Default: 2 for each decoder thread, 4 for each session,
        /// and 2; if software decodes, more while they are small: up to 1 MiB for each decoder thread, a quarter of
        /// memory_bytes, the slots of batches in flight, and 4096
        ahead_samples: u32,
        /// Memory of all samples read ahead, in bytes; default 1 GiB. A sample that is larger fails with E_LIMIT.
        /// Samples in the caller's memory need none
        memory_bytes: u64,
        /// How often a sample's read that failed with E_IO is tried again, at most 1000; default 0. Opening a data set
        /// is not tried again
        retries: u32,
        /// Must be 0
        reserved0: u32,
        /// Time before the first retry, in nanoseconds, doubled for each further one; default 10 ms. A sample that
        /// waits for a retry blocks neither readers nor samples that need its memory
        backoff_ns: u64,
        /// Must be 0
        reserved: [u64; 8],
    }

    /// How pictures are decoded.
    struct bzna_loader_decode {
        /// BZNA_DECODER_...
        decoder: u32,
        /// Threads that decode in software, or with NVDEC the pictures that it cannot decode; at most 1024; default one
        /// for each processor. Set it if several processes share a machine
        threads: u32,
        /// Advanced, used when a GPU waits for slow CPUs: with BZNA_DECODER_NVDEC, NVDEC decodes all JPEG that are
        /// baseline, 4:2:0, and of a size that it supports, or opening fails. It is fastest with pictures of one size.
        /// Pixels differ by up to 4 of 255. Default: software decodes JPEG
        jpeg: u32,
        /// Advanced, used with large photographs and small outputs: 1: a JPEG that all views shrink 2-fold (4-,
        /// 8-fold), with antialias, is decoded at 1/2 (1/4, 1/8) of its size by libjpeg-turbo. Pixels differ
        jpeg_shrink: u32,
        /// Advanced, used with jpeg_shrink for pixels that differ less: by how much all views must still shrink the
        /// decoded picture, 1 to 64. With 1.5, a JPEG is decoded at 1/2 of its size only if all views shrink it 3-fold.
        /// Default 1
        jpeg_shrink_margin: f32,
        /// Advanced, used when NVDEC limits a loader and processors idle: 1: decoder threads take pictures of H.264,
        /// H.265 and AV1 from NVDEC while bzna_loader_next waits and more pictures wait for NVDEC than it can begin.
        /// Batches are the same: chapter 11. Needs errors.on_error BZNA_ON_ERROR_FILL
        hybrid: u32,
        /// Must be 0
        reserved: [u64; 7],
    }

    /// How failures are treated.
    struct bzna_loader_errors {
        /// BZNA_ON_ERROR_...
        on_error: u32,
        /// BZNA_ON_CALLBACK_ERROR_...
        on_callback_error: u32,
        /// Must be 0
        reserved: [u64; 8],
    }

    /// Batches in flight, threads, callbacks.
    struct bzna_loader_pipeline {
        /// Batches being filled, ready, on loan, or released and still read on the device; at most 64; default 3
        batches_in_flight: u32,
        /// Advanced, used to change augmentation during a run: 1: bzna_loader_restore accepts states of runs that made
        /// other pixels, too
        restore_any_pixels: u32,
        /// Advanced, used on machines with several sockets: thread i runs on processor cpus\[i % cpu_count\]: decoders,
        /// then readers, then with a GPU the thread that waits until released batches may be written again. Copied.
        /// NULL: anywhere
        cpus: *const i32,
        /// Processors at cpus
        cpu_count: u32,
        /// Advanced, used when threads may not be made, and to debug callbacks: 1: the loader starts no thread.
        /// bzna_loader_next reads, decodes and warps on the thread that calls it, and callbacks run there. Batches are
        /// the same. decode.threads, read.threads and cpus have no effect. NVDEC is not used: chapter 4
        no_threads: u32,
        /// Advanced, used by programs with their own augmentation: changes the transform that warp and color gave a
        /// view. NULL: none
        transform: bzna_transform_fn,
        /// Passed to transform; the caller's
        transform_user: *mut c_void,
        /// Advanced, used for augmentation that no warp can do: is called with each decoded picture, to change its
        /// pixels before they are warped. All pictures are decoded in software then. NULL: none
        picture: bzna_picture_fn,
        /// Passed to picture; the caller's
        picture_user: *mut c_void,
        /// Must be 0
        reserved: [u64; 8],
    }

    /// The configuration of a loader. Zero is the default of every member. Only output.batch_size, width and height are
    /// required. Three whole configurations follow, in C. C++ before C++20 has no such initialisers: clear the struct
    /// with {}, and set struct_size and the members.
    struct bzna_loader_config {
        /// sizeof the struct; bzna_loader_config_init sets it
        struct_size: u32,
        /// Must be 0
        reserved0: u32,
        /// The first output: "image"
        output: bzna_loader_output,
        /// Advanced: the outputs after it
        extra_outputs: bzna_loader_outputs,
        /// The samples of an epoch
        order: bzna_loader_order,
        /// This process's share of them
        shard: bzna_loader_shard,
        /// Which part of a picture an output shows
        warp: bzna_warp,
        /// How pixels are filtered
        filter: bzna_loader_filter,
        /// How numbers are made of colors
        color: bzna_loader_color,
        /// The fields that batches are made of
        fields: bzna_loader_fields,
        /// Advanced: how samples are read
        read: bzna_loader_read,
        /// Who decodes
        decode: bzna_loader_decode,
        /// How failures are treated
        errors: bzna_loader_errors,
        /// Batches in flight, threads, callbacks
        pipeline: bzna_loader_pipeline,
        /// Random operations: RandAugment, blur, erasing, ...
        augment: bzna_loader_augment,
    }

    /// A tensor of a batch, or of the batches that a loader yields. Elements are densely packed, the last dimension
    /// first in memory.
    struct bzna_tensor {
        /// Set by the call: how many bytes were filled
        struct_size: u32,
        /// BZNA_DTYPE_...
        dtype: u32,
        /// CPU or CUDA: where data points to
        device: bzna_device,
        /// Numbers at shape
        dimensions: u32,
        /// 0
        reserved0: u32,
        /// Elements along each dimension, the outermost one first
        shape: [i64; 6],
        /// The loader's; valid until the batch is released. A device address if device is CUDA: void * as in DLPack, so
        /// that host code reads host tensors without a cast. NULL if it describes a loader's batches
        data: *mut c_void,
        /// Bytes at data
        bytes: u64,
        /// Of the tensor, such as "image"
        name: [c_char; BZNA_NAME_MAX],
        /// 0
        reserved: [u64; 4],
    }

    /// One batch, as it is in memory until it is released. Arrays have an element for each slot, and are on the host.
    struct bzna_batch_info {
        /// Set by the call: how many bytes were filled
        struct_size: u32,
        /// Real samples, which are in the first slots
        count: u32,
        /// Real samples that have a status below 0
        failed: u32,
        /// Real samples that are another sample than planned (errors.on_error); indices says which
        replaced: u32,
        /// The first output.
        /// ```text
        /// NCHW               {batch, channels, height, width}
        /// NHWC               {batch, height, width, channels}
        /// several views      {views, batch, ...}: the shape above, once for each view
        /// several slices     data is the first slice's: slices has all of them
        /// without pictures   bytes is 0, there is no name, and data means nothing; shape[0] is what
        ///                    it is with pictures
        /// ```
        image: bzna_tensor,
        /// BZNA_LAYOUT_... of image
        layout: u32,
        /// 1: no batch of this epoch comes after it
        last_of_epoch: u32,
        /// Of all outputs together; 0 without policies
        operation_views: u32,
        /// How many of the loader's pipeline.batches_in_flight are on loan now, this one included. A released batch
        /// stays on loan as long as DLPack tensors of it exist. 0 after fork
        on_loan: u32,
        /// From order.first_epoch on
        epoch: u64,
        /// Number in the epoch, from 0, or from a restored position
        batch: u64,
        /// Of this rank's first sample in the epoch's global order
        position: u64,
        /// BZNA_TARGET_NONE: the sample has none
        targets: *const i64,
        /// Of the samples in the data set
        indices: *const u64,
        /// BZNA_OK, or why the slot holds the out-of-bounds color
        status: *const bzna_status,
        /// The CUstream on which the image is finished (chapter 11); NULL for a batch on the host
        stream: *mut c_void,
        /// The operations that policies drew: BZNA_OPERATIONS_MAX for each view of each slot. The operations of view v
        /// of a slot begin at operations\[(slot * operation_views + v) * BZNA_OPERATIONS_MAX\], and
        /// operation_counts\[slot * operation_views + v\] says how many there are; 0 if the sample failed. The views of
        /// the first output come first, then the second output's, and so on. NULL without policies. The geometry is in
        /// the tensor "geometry": fields.geometry
        operations: *const bzna_drawn,
        /// NULL without policies
        operation_counts: *const u32,
        /// The address of each slice of image, on the device if the batch is there; the loader's memory, or the
        /// caller's of output.buffers
        slices: *const *mut c_void,
        /// Output.slices
        slice_count: u32,
        /// Slots of each slice: slice i begins with i * slice_slots
        slice_slots: u32,
    }

    /// The loader's batches, threads and decoder, with defaults filled in.
    struct bzna_loader_info {
        /// Set by the call: how many bytes were filled
        struct_size: u32,
        /// BZNA_DECODER_SOFTWARE or BZNA_DECODER_NVDEC
        decoder: u32,
        /// Of a full batch; data is NULL
        image: bzna_tensor,
        /// BZNA_LAYOUT_... of image
        layout: u32,
        /// NVDEC's decode sessions, shared with the context's other loaders; 0: software only
        sessions: u32,
        /// Decode.threads
        threads: u32,
        /// Read.threads; 0: decoder threads read
        reader_threads: u32,
        /// Pipeline.batches_in_flight
        batches_in_flight: u32,
        /// Read.ahead_samples; by default, as many as may be
        read_ahead: u32,
        /// Of this rank in a whole epoch, from its start; padding is not counted
        samples_per_epoch: u64,
        /// Of this rank in a whole epoch, from its start. With BZNA_ORDER_GIVEN, both numbers are of the epoch of the
        /// next batch, and 0 if its list was not given yet
        batches_per_epoch: u64,
        /// Such as "libavcodec 59.37.100"
        decoder_name: [c_char; 64],
        /// Why the loader uses this decoder
        decoder_reason: [c_char; 128],
        /// The field of each sample that is decoded
        image_field: [c_char; 32],
        /// Why that field
        image_field_reason: [c_char; 96],
    }

    /// One stage of the pipeline. Times are summed over its threads, in nanoseconds.
    struct bzna_stage_statistics {
        /// Samples that passed; in the last stage batches
        count: u64,
        /// Of the samples that passed
        bytes: u64,
        /// Working
        busy_ns: u64,
        /// Waiting for the stage before it
        wait_before_ns: u64,
        /// Blocked because the next queue was full (back-pressure)
        wait_after_ns: u64,
        /// Samples that wait in its queue now
        depth: u64,
        /// The most that its queue holds
        capacity: u64,
        /// That work in it: read.threads, decode.threads or NVDEC's sessions, the same, 1. Decoder threads that read
        /// count in the first, too. 0 in the first three with pipeline.no_threads
        threads: u64,
        /// 0
        reserved: [u64; 2],
    }

    /// Counts and waits since the loader was opened, or over the time of bzna_statistics_since.
    struct bzna_statistics {
        /// Set by the call: how many bytes were filled
        struct_size: u32,
        /// BZNA_STAGE_..., a judgement from the times: the stage that is busy while the one before it is blocked and
        /// the one after it waits for work. It is the consumer (DELIVER) when bzna_loader_next hardly waits, and NONE
        /// when no stage is busy, as with tiny batches
        limiting_stage: u32,
        /// By BZNA_STAGE_...
        stage: [bzna_stage_statistics; 4],
        /// Samples that were finished, whether they failed or not
        samples: u64,
        /// Samples that failed; by kind below
        samples_failed: u64,
        /// E_IO, E_TRUNCATED; E_CALLBACK of source, provider
        failed_read: u64,
        /// E_BOX, E_LIMIT, E_NOT_FOUND, ...
        failed_format: u64,
        /// E_DECODE, E_CODEC, E_MISMATCH
        failed_decode: u64,
        /// E_CALLBACK of transform or picture, E_MEMORY, ...
        failed_other: u64,
        /// Attempts at a replacement, by errors.on_error
        replaced: u64,
        /// Reads that were tried again, and samples that were made again because memory, a thread or the device was
        /// lacking
        retries: u64,
        /// That samples which are read ahead hold now
        read_memory_bytes: u64,
        /// Samples that NVDEC decoded
        samples_nvdec: u64,
        /// Samples that software decoded
        samples_software: u64,
        /// Samples that software decoded, because NVDEC could not; reasons are logged once
        fallbacks: u64,
        /// Samples that decode.hybrid has taken from NVDEC
        samples_hybrid: u64,
        /// The context's NVDEC decoders; constant in steady state
        decoders_made: u64,
        /// To another frame size; constant in steady state
        decoders_reconfigured: u64,
        /// The context's sessions that ended, because there was no memory for their decoders. If 32 driver calls in a
        /// row fail with a codec, software decodes it from then on, and sessions continue with other codecs
        sessions_lost: u64,
        /// How often a thread, the consumer's or one of the library's, found the loader's lock taken by another.
        /// Threads that wait for work do not count
        lock_waits: u64,
        /// How long they waited for it, together
        lock_wait_ns: u64,
        /// The time that all of this was counted over
        elapsed_ns: u64,
        /// JPEGs that were decoded at their full size, though all views shrink them so much that decode.jpeg_shrink
        /// would decode them at 1/2 or less
        samples_shrinkable: u64,
        /// limiting_stage in a sentence: how busy it was, and which setting would change that, such as "reading:
        /// decoders wait for it 92 % of the time; ... (read.threads: 1 now)"
        advice: [c_char; 240],
        /// The first sample that failed: its status, as from bzna_batch_error, the index of the sample in the data set,
        /// and the message, or BZNA_OK, 0 and "" if none failed
        first_failed_status: bzna_status,
        /// 0
        reserved0: u32,
        /// Its index
        first_failed_index: u64,
        /// Its message, with a NUL at its end
        first_failed_message: [c_char; 488],
    }

    /// The position of a run: 128 bytes of plain data without pointers, to be saved with a model's checkpoint.
    /// bzna_loader_save fills it in, and bzna_loader_restore reads it. Its numbers have the byte order of the machine
    /// that saved it; a machine of the other order refuses it.
    struct bzna_loader_state {
        /// 128
        struct_size: u32,
        /// 2, as in 0.3, whose states are restored
        version: u32,
        /// Order.seed
        seed: u64,
        /// That has begun
        epoch: u64,
        /// Samples of the epoch already delivered, to all ranks
        position: u64,
        /// Of data set and indices
        fingerprint: u64,
        /// Of an epoch, for all ranks together; with BZNA_ORDER_GIVEN of the epoch that has begun, and 0 at the start
        /// of one
        sample_count: u64,
        /// The first epoch that is not delivered
        end_epoch: u64,
        /// BZNA_ORDER_...
        order: u32,
        /// a hash of all other members, which finds damaged states. A program that has changed the position sets it to
        /// 0: then it is not compared
        check: u32,
        /// a hash of the settings that determine pixels: sizes, warp, colors, which picture; not dtype, layout, batch
        /// size or threads
        pixels: u64,
        /// BZNA_ORDER_GIVEN: a hash of the list of the epoch that has begun; 0 with other orders, and at the start of
        /// an epoch, which then accepts any list
        list: u64,
        /// 0
        reserved: [u64; 6],
    }

    /// Bytes to anywhere, for bzna_writer_open_sink. The callbacks are never called concurrently. They must not close
    /// any object.
    struct bzna_sink {
        /// sizeof the struct
        struct_size: u32,
        /// Must be 0
        reserved0: u32,
        /// Passed to the functions; the caller's until close
        user: *mut c_void,
        /// Writes all size bytes of src at byte offset. Returns BZNA_OK, or a negative number, which becomes the
        /// native_code of E_IO. The writer appends, and at the end overwrites 8 bytes, which mark the archive as
        /// finished. A sink whose archives shall survive a loss of power flushes what was written before it overwrites
        /// those.
        write_at: Option<unsafe extern "C" fn(user: *mut c_void, offset: u64, src: *const c_void, size: u64) -> bzna_status>,
        /// Releases the sink's resources. Called exactly once, by bzna_writer_close, and never if bzna_writer_open_sink
        /// failed. May be NULL.
        close: Option<unsafe extern "C" fn(user: *mut c_void)>,
    }

    /// The settings of a writer. Zero is the default of every member.
    struct bzna_writer_config {
        /// sizeof the struct; bzna_writer_config_init sets it
        struct_size: u32,
        /// Must be 0
        reserved0: u32,
        /// Names of the targets 0 .. class_count - 1, for bzna_dataset_class: UTF-8, at most 65535 bytes each; copied.
        /// NULL: none
        classes: *const *const c_char,
        /// 0 without classes
        class_count: u32,
        /// Must be 0
        reserved1: u32,
        /// Advanced, used by packers with many threads: memory for samples that wait for those of smaller indices
        /// (bzna_writer_add), in bytes. Default 64 MiB
        queue_bytes: u64,
        /// Must be 0
        reserved: [u64; 4],
    }

    /// A further field of a sample. An archive has at most 60 names of them.
    struct bzna_field_value {
        /// sizeof the struct; bzna_field_value_init sets it
        struct_size: u32,
        /// BZNA_FIELD_...; the same in all samples
        kind: u32,
        /// 1..31 bytes; not "image", "thumb", "target" or "name"
        name: *const c_char,
        /// The value in the form that bzna_dataset_field gives, but text has no NUL. A picture is a whole file: JPEG,
        /// PNG or another kind that folders may hold, which is kept as it is. Borrowed
        data: *const c_void,
        /// Bytes at data
        size: u64,
    }

    /// One sample to write. The memory that it points to is read before the call returns, and stays the caller's.
    struct bzna_writer_sample {
        /// sizeof the struct; bzna_writer_sample_init sets it
        struct_size: u32,
        /// BZNA_SPLIT_...: the sample is also listed in that split's tracks, which older readers ignore
        split: u32,
        /// The full image: H.264, H.265, AV1 or JPEG; required. Samples may differ in codec and size
        image: *const bzna_image,
        /// Its thumbnail. NULL: the image itself serves if its frame is at most 512x512 pixels, else the sample has no
        /// thumbnail
        thumb: *const bzna_image,
        /// The class number, written here and in the index: any but BZNA_TARGET_NONE. If has_target is 0, it must be 0
        /// or BZNA_TARGET_NONE
        target: i64,
        /// UTF-8, at most 65535 bytes; in folders, a path; or NULL
        name: *const c_char,
        /// Further fields
        fields: *const bzna_field_value,
        /// At most 60
        field_count: u32,
        /// 1: the sample has a target. 0: it has none. If any sample has a target, the index of targets has
        /// BZNA_TARGET_NONE for samples without one
        has_target: u32,
        /// Must be 0
        reserved: [u64; 2],
    }

    /// A record file, such as CIFAR, MNIST or raw tensors: all records have one size. The file is a header and then
    /// whole records; bytes after the last whole record are E_TRUNCATED. Data are a picture, the field "image", if
    /// data_type is UINT8 and channels is 1 or 3. Else they are the field "data", a vector of channels * height * width
    /// float32.
    struct bzna_records {
        /// sizeof the struct; bzna_formats_records_init sets it
        struct_size: u32,
        /// BZNA_RECORD_..., but not NONE
        data_type: u32,
        /// BZNA_LAYOUT_... of a picture's bytes: one plane for each channel, or channels interleaved. Must be 0 for
        /// vectors
        layout: u32,
        /// Pixels, or a factor of the vector's length; at least 1
        width: u32,
        /// Rows, or another factor; at least 1
        height: u32,
        /// At least 1
        channels: u32,
        /// Bytes before the first record; a file that has fewer is E_TRUNCATED
        header_bytes: u64,
        /// Bytes of a record; 0: what data and label need
        stride: u64,
        /// Where the data begin in a record, in bytes
        data_offset: u64,
        /// Where the label begins in a record, in bytes
        label_offset: u64,
        /// BZNA_RECORD_... An integer is the field "target", a FLOAT32 the field "label", a vector of one number. NONE:
        /// there is no label
        label_type: u32,
        /// Numbers of vectors are x * scale + bias; 0 counts as 1. If both are 0, the bits of FLOAT32 stay as they are
        scale: f32,
        /// Is added to x * scale. Both must be 0 for pictures
        bias: f32,
        /// Must be 0
        reserved0: u32,
    }

    /// Settings for opening a data set. Everything is copied. Zero is the default of every member.
    struct bzna_formats_config {
        /// sizeof the struct; bzna_formats_config_init sets it
        struct_size: u32,
        /// Must be 0
        reserved0: u32,
        /// The settings that the library itself has. NULL: all defaults
        dataset: *const bzna_dataset_config,
        /// Folders of a folder whose files of the same names make one sample, 2 to 4 of them with commas between them:
        /// "images,masks". Each is an image field of that name; "depth=out/depth" gives the field of a deeper folder a
        /// name. Default: the folder is not made of pairs. Of pairs, list and records, only one may be set
        pairs: *const c_char,
        /// Extensions of files that are pictures by codecs of the program's own beyond bzna_formats_codecs, in lower
        /// case and with blanks between them, for pairs. Default: none
        extensions: *const c_char,
        /// Path of a list: which files of a folder are samples, or the labels of a RecordIO file. Default: none
        list: *const c_char,
        /// What a record of a record file holds; NULL: there are none
        records: *const bzna_records,
        /// How many bytes of files of records that are opened by their paths may be held in memory, so that they are
        /// not read again; 1: none. A file is read when it is opened, if it and those that are held have at most so
        /// many bytes. Default: 256 MiB
        hold_bytes: u64,
    }

    /// How the samples of an epoch are drawn. Zero is the default of every member but weights. Arrays are read during
    /// the call, and not kept.
    struct bzna_formats_weights {
        /// sizeof the struct; bzna_formats_weights_init sets it
        struct_size: u32,
        /// BZNA_WEIGHTING_...; default REPLACE
        weighting: u32,
        /// How likely a sample is drawn. One weight for each sample of the data set (of indices, if they are given), or
        /// for each part, finite, at least 0, and one of them above 0
        weights: *const f64,
        /// Weights at weights
        weight_count: u64,
        /// The samples that are drawn from. NULL: all samples of the data set
        indices: *const u64,
        /// Indices at indices
        index_count: u64,
        /// Draws in an epoch. Default: as many as samples, or with ONCE as samples that have a weight
        epoch_samples: u64,
        /// Of the draws: the loader's, or another
        seed: u64,
        /// 1: weights are one for each part of a concatenation, shared evenly by its samples; not together with indices
        by_part: u32,
        /// Must be 0
        reserved0: u32,
    }

    /// The value of a field that a rule is asked about.
    struct bzna_rule_input {
        /// Bytes that were filled in
        struct_size: u32,
        /// BZNA_FIELD_... of the field
        kind: u32,
        /// The field's name
        field: *const c_char,
        /// The value as bzna_batch_bytes has it, with a NUL behind it. The library's, as are the members below: not to
        /// be used after the callback has returned
        data: *const c_void,
        /// Bytes at data, without that NUL
        size: u64,
        /// About the sample and its first view; width and height are 0 in batches without pictures
        sample: *const bzna_sample_info,
        /// One for each view of the first output; or NULL
        geometry: *const bzna_geometry,
        /// At geometry; 0 in batches without pictures
        view_count: u32,
        /// 0
        reserved0: u32,
    }

    /// A rule for fields: how batches deliver them. Zero is the default of every member but field. A field belongs to
    /// the first rule that it matches. Rules of one name share a tensor, and must have the same kind, dtype and shape:
    /// for each sample, the first of these rules whose field the sample has makes the sample's part. If a sample has no
    /// such field, or fails before the rule is called, floats are NaN, integers are -1, uint8 is 0, and ROWS has only
    /// zeros, and 0 rows. A field matches no rule if there is a comma, a colon or an equals sign in its name.
    struct bzna_rule {
        /// sizeof the struct; bzna_formats_rule_init sets it
        struct_size: u32,
        /// BZNA_RULE_...
        kind: u32,
        /// The field's name; or ".json" for "json" and all names that end so; or a pattern, in which * matches any text
        /// and ? one byte. At most 63 bytes; copied
        field: *const c_char,
        /// Its name in the batch, at most 31 bytes (ROWS: 25); copied. NULL: as field, which is a name then
        name: *const c_char,
        /// Must be NULL for BYTES; required for the others
        call: bzna_rule_fn,
        /// Passed to call; the caller's
        user: *mut c_void,
        /// BZNA_DTYPE_FLOAT32, _UINT8, _INT32 or _INT64
        dtype: u32,
        /// Numbers at shape, at most 4; ROWS: at least 1
        dimensions: u32,
        /// Of a sample, the outermost one first; each at least 1
        shape: [i64; 4],
        /// Must be 0
        reserved: [u64; 4],
    }
}

extern "C" {
    /// Sets error to "no error". struct_size is the size of the caller's bzna_error in bytes, or 0 for the size of the
    /// library that runs.
    pub fn bzna_error_init(error: *mut bzna_error, struct_size: usize);
    /// Returns the name of status, such as "BZNA_E_BOX", or "BZNA_?" for a number that this version does not know.
    pub fn bzna_status_name(status: bzna_status) -> *const c_char;
    /// Returns the meaning of status in English, such as "a box contradicts the format".
    pub fn bzna_status_text(status: bzna_status) -> *const c_char;
    /// Returns BZNA_VERSION of the library that runs, which may differ from that of this header.
    pub fn bzna_version() -> u32;
    /// Clears source and sets its struct_size, in bytes: pass sizeof \*source.
    pub fn bzna_source_init(source: *mut bzna_source, struct_size: usize);
    /// Clears image and sets its struct_size, in bytes: pass sizeof \*image.
    pub fn bzna_image_init(image: *mut bzna_image, struct_size: usize);
    /// Copies an image as a stream of its own, which other decoders can decode.
    pub fn bzna_image_annexb(image: *const bzna_image, dst: *mut c_void, capacity: usize, needed: *mut usize, err: *mut bzna_error) -> bzna_status;
    /// Fills in the properties of a coded picture, without decoding it: for codecs whose pictures consist of coded
    /// pictures, as HEIF's grids do.
    pub fn bzna_image_inspect(image: *const bzna_image, shape: *mut bzna_codec_shape, err: *mut bzna_error) -> bzna_status;
    /// Clears config, which makes every member the default, and sets its struct_size, in bytes: pass sizeof \*config.
    pub fn bzna_context_config_init(config: *mut bzna_context_config, struct_size: usize);
    /// Makes a context. config has its settings; it is copied, and NULL means all defaults. \*out becomes the context,
    /// to be closed with bzna_context_close.
    pub fn bzna_context_open(config: *const bzna_context_config, out: *mut *mut bzna_context, err: *mut bzna_error) -> bzna_status;
    /// Closes context; NULL does nothing.
    pub fn bzna_context_close(context: *mut bzna_context) -> bzna_status;
    /// Describes the device of context, and makes it ready for work if it was not.
    pub fn bzna_context_device_info(context: *mut bzna_context, info: *mut bzna_device_info, struct_size: usize, err: *mut bzna_error) -> bzna_status;
    /// Describes how NVDEC of the context's device handles one kind of picture, and the result of its self-check, once
    /// a picture of that kind was decoded.
    pub fn bzna_context_codec_info(context: *mut bzna_context, codec: u32, chroma_format: u32, depth: u32, info: *mut bzna_codec_info, struct_size: usize, err: *mut bzna_error) -> bzna_status;
    /// Clears config, which makes every member the default, and sets its struct_size, in bytes: pass sizeof \*config.
    pub fn bzna_dataset_config_init(config: *mut bzna_dataset_config, struct_size: usize);
    /// Opens the file or folder that path names, and detects its kind by its content: chapter 12.
    pub fn bzna_dataset_open(context: *mut bzna_context, path: *const c_char, config: *const bzna_dataset_config, out: *mut *mut bzna_dataset, err: *mut bzna_error) -> bzna_status;
    /// Opens several paths as one data set, one after the other.
    pub fn bzna_dataset_open_list(context: *mut bzna_context, paths: *const *const c_char, path_count: u32, config: *const bzna_dataset_config, out: *mut *mut bzna_dataset, err: *mut bzna_error) -> bzna_status;
    /// Opens a file in memory.
    pub fn bzna_dataset_open_memory(context: *mut bzna_context, bytes: *const c_void, size: usize, config: *const bzna_dataset_config, out: *mut *mut bzna_dataset, err: *mut bzna_error) -> bzna_status;
    /// Opens a file that the caller's functions read.
    pub fn bzna_dataset_open_source(context: *mut bzna_context, source: *const bzna_source, config: *const bzna_dataset_config, out: *mut *mut bzna_dataset, err: *mut bzna_error) -> bzna_status;
    /// Closes dataset; NULL does nothing.
    pub fn bzna_dataset_close(dataset: *mut bzna_dataset) -> bzna_status;
    /// Lays data sets end to end as one: index i of the whole is index i - (counts before) of its part.
    pub fn bzna_dataset_concat(context: *mut bzna_context, parts: *const *mut bzna_dataset, part_count: u32, out: *mut *mut bzna_dataset, err: *mut bzna_error) -> bzna_status;
    /// Makes a data set of the samples first .. first + count - 1 of dataset. \*out keeps dataset alive, so the caller
    /// may close dataset first.
    pub fn bzna_dataset_range(dataset: *mut bzna_dataset, first: u64, count: u64, out: *mut *mut bzna_dataset, err: *mut bzna_error) -> bzna_status;
    /// Returns how many samples dataset has; 0 for NULL.
    pub fn bzna_dataset_count(dataset: *const bzna_dataset) -> u64;
    /// Returns how many samples one part of dataset has: one of its files, or a range of one.
    pub fn bzna_dataset_part_count(dataset: *const bzna_dataset, part: u32) -> u64;
    /// Describes dataset as a whole. info is filled in, up to struct_size bytes: pass sizeof \*info.
    pub fn bzna_dataset_get_info(dataset: *const bzna_dataset, info: *mut bzna_dataset_info, struct_size: usize, err: *mut bzna_error) -> bzna_status;
    /// Describes one field of the samples of dataset. field is its number, from 0. info is filled in, up to struct_size
    /// bytes: pass sizeof \*info.
    pub fn bzna_dataset_field_info(dataset: *const bzna_dataset, field: u32, info: *mut bzna_field_info, struct_size: usize, err: *mut bzna_error) -> bzna_status;
    /// Describes one track of the first file of dataset. track is its number, from 0. info is filled in, up to
    /// struct_size bytes: pass sizeof \*info.
    pub fn bzna_dataset_track_info(dataset: *const bzna_dataset, track: u32, info: *mut bzna_track_info, struct_size: usize, err: *mut bzna_error) -> bzna_status;
    /// Says where sample number index of dataset is, and what it holds, for which archives, videos and tars read the
    /// sample. sample is filled in, up to struct_size bytes: pass sizeof \*sample.
    pub fn bzna_dataset_sample(dataset: *const bzna_dataset, index: u64, sample: *mut bzna_sample_ref, struct_size: usize, err: *mut bzna_error) -> bzna_status;
    /// Sets \*target to the target of sample number index of dataset, or to BZNA_TARGET_NONE if it has none.
    pub fn bzna_dataset_target(dataset: *const bzna_dataset, index: u64, target: *mut i64, err: *mut bzna_error) -> bzna_status;
    /// Copies the name of a class as text with a NUL at its end.
    pub fn bzna_dataset_class(dataset: *const bzna_dataset, target: i64, buffer: *mut c_void, capacity: usize, needed: *mut usize, err: *mut bzna_error) -> bzna_status;
    /// Copies the value of one field of a sample.
    pub fn bzna_dataset_field(dataset: *const bzna_dataset, index: u64, field: *const c_char, buffer: *mut c_void, capacity: usize, needed: *mut usize, err: *mut bzna_error) -> bzna_status;
    /// Reads a sample and finds one image in it, for bzna_decoder_decode or a writer.
    pub fn bzna_dataset_read_image(dataset: *const bzna_dataset, index: u64, field: *const c_char, buffer: *mut c_void, capacity: usize, image: *mut bzna_image, err: *mut bzna_error) -> bzna_status;
    /// Says where an image of a sample is, and how its container describes it.
    pub fn bzna_dataset_image_info(dataset: *const bzna_dataset, index: u64, field: *const c_char, info: *mut bzna_image_info, struct_size: usize, err: *mut bzna_error) -> bzna_status;
    /// Clears provider and sets its struct_size, in bytes: pass sizeof \*provider.
    pub fn bzna_provider_init(provider: *mut bzna_provider, struct_size: usize);
    /// Opens samples that the caller's functions give.
    pub fn bzna_dataset_open_provider(context: *mut bzna_context, provider: *const bzna_provider, config: *const bzna_dataset_config, out: *mut *mut bzna_dataset, err: *mut bzna_error) -> bzna_status;
    /// Opens a decoder, which works in software. context may be closed before it; NULL: the decoder has the defaults of
    /// a context's settings. \*out becomes the decoder, to be closed with bzna_decoder_close.
    pub fn bzna_decoder_open(context: *mut bzna_context, out: *mut *mut bzna_decoder, err: *mut bzna_error) -> bzna_status;
    /// Closes decoder; NULL does nothing.
    pub fn bzna_decoder_close(decoder: *mut bzna_decoder) -> bzna_status;
    /// Decodes one coded picture.
    pub fn bzna_decoder_decode(decoder: *mut bzna_decoder, image: *const bzna_image, picture: *mut bzna_picture, err: *mut bzna_error) -> bzna_status;
    /// Sets random to the start of the stream of (seed, epoch, sample, purpose). purpose is BZNA_RANDOM_...
    pub fn bzna_random_init(random: *mut bzna_random, seed: u64, epoch: u64, sample: u64, purpose: u32);
    /// Returns the next word of random, uniform in 0..2^32 - 1.
    pub fn bzna_random_u32(random: *mut bzna_random) -> u32;
    /// Returns lo + (hi - lo) * k / 2^53.
    pub fn bzna_random_uniform(random: *mut bzna_random, lo: f64, hi: f64) -> f64;
    /// Returns the index of the sample at a position of an epoch's shuffled order.
    pub fn bzna_order_permute(seed: u64, epoch: u64, count: u64, position: u64) -> u64;
    /// Finds where a box of the picture is in the output.
    pub fn bzna_geometry_box(geometry: *const bzna_geometry, area: *const f64, out: *mut f64) -> u32;
    /// Clears transform, writes out the identities that zeros mean (homography, color, scale), and sets its
    /// struct_size, in bytes: pass sizeof \*transform.
    pub fn bzna_transform_init(transform: *mut bzna_transform, struct_size: usize);
    /// Warps one picture on the caller's thread.
    pub fn bzna_picture_render(picture: *const bzna_picture, transform: *const bzna_transform, output: *const bzna_output, dst: *mut c_void, dst_bytes: usize, err: *mut bzna_error) -> bzna_status;
    /// Draws one warp, as a loader does for a view with numbers of BZNA_RANDOM_WARP.
    pub fn bzna_warp_draw(random: *mut bzna_random, warp: *const bzna_warp, in_width: u32, in_height: u32, out_width: u32, out_height: u32, out: *mut f64, err: *mut bzna_error) -> bzna_status;
    /// Draws one jitter, as a loader does for a view with numbers of BZNA_RANDOM_COLOR.
    pub fn bzna_jitter_draw(random: *mut bzna_random, jitter: *const bzna_jitter, mxnet: *const bzna_mxnet, transform: *mut bzna_transform, err: *mut bzna_error) -> bzna_status;
    /// Draws operations, as a loader does for a view with numbers of BZNA_RANDOM_AUGMENT.
    pub fn bzna_augment_draw(random: *mut bzna_random, augment: *const bzna_loader_augment, out_width: u32, out_height: u32, transform: *mut bzna_transform, err: *mut bzna_error) -> bzna_status;
    /// Clears config, which makes every member the default, and sets its struct_size, in bytes: pass sizeof \*config.
    pub fn bzna_loader_config_init(config: *mut bzna_loader_config, struct_size: usize);
    /// Checks the config, allocates everything and starts the threads.
    pub fn bzna_loader_open(context: *mut bzna_context, dataset: *mut bzna_dataset, config: *const bzna_loader_config, out: *mut *mut bzna_loader, err: *mut bzna_error) -> bzna_status;
    /// Stops the threads of loader, and releases its data set; NULL does nothing.
    pub fn bzna_loader_close(loader: *mut bzna_loader) -> bzna_status;
    /// Takes the next batch, in order.
    pub fn bzna_loader_next(loader: *mut bzna_loader, timeout_ns: i64, batch: *mut *mut bzna_batch, err: *mut bzna_error) -> bzna_status;
    /// Gives the samples of one epoch to a loader with BZNA_ORDER_GIVEN: chapter 9.
    pub fn bzna_loader_set_batches(loader: *mut bzna_loader, epoch: u64, indices: *const u64, index_count: u64, sizes: *const u32, size_count: u64, err: *mut bzna_error) -> bzna_status;
    /// Ends all waiting for batches of loader, now and later, with E_STOPPED, until bzna_loader_reset or
    /// bzna_loader_restore.
    pub fn bzna_loader_stop(loader: *mut bzna_loader, err: *mut bzna_error) -> bzna_status;
    /// Moves to the start of an epoch (set_epoch in other libraries), whatever epoch has begun.
    pub fn bzna_loader_reset(loader: *mut bzna_loader, epoch: u64, err: *mut bzna_error) -> bzna_status;
    /// Saves the position of the run of loader after the last batch that was delivered. state is filled in; struct_size
    /// is its size in bytes: pass sizeof \*state.
    pub fn bzna_loader_save(loader: *mut bzna_loader, state: *mut bzna_loader_state, struct_size: usize, err: *mut bzna_error) -> bzna_status;
    /// Continues from a state.
    pub fn bzna_loader_restore(loader: *mut bzna_loader, state: *const bzna_loader_state, err: *mut bzna_error) -> bzna_status;
    /// Describes the batches, threads and decoder of loader. info is filled in, up to struct_size bytes: pass sizeof
    /// \*info.
    pub fn bzna_loader_get_info(loader: *mut bzna_loader, info: *mut bzna_loader_info, struct_size: usize, err: *mut bzna_error) -> bzna_status;
    /// Gives the config of loader with its defaults filled in: the values that members of 0 mean here. config is filled
    /// in, up to struct_size bytes: pass sizeof \*config.
    pub fn bzna_loader_get_config(loader: *mut bzna_loader, config: *mut bzna_loader_config, struct_size: usize, err: *mut bzna_error) -> bzna_status;
    /// Gives the counts of loader since it was opened. stats is filled in, up to struct_size bytes: pass sizeof
    /// \*stats.
    pub fn bzna_loader_statistics(loader: *mut bzna_loader, stats: *mut bzna_statistics, struct_size: usize, err: *mut bzna_error) -> bzna_status;
    /// Gives the counts of a loader between two calls of bzna_loader_statistics, such as in an epoch, and the stage
    /// that limited it in that time.
    pub fn bzna_statistics_since(later: *const bzna_statistics, earlier: *const bzna_statistics, since: *mut bzna_statistics, struct_size: usize, err: *mut bzna_error) -> bzna_status;
    /// Describes one tensor of a full batch; its data is NULL.
    pub fn bzna_loader_tensor(loader: *mut bzna_loader, number: u32, tensor: *mut bzna_tensor, struct_size: usize, err: *mut bzna_error) -> bzna_status;
    /// Describes batch as it is in memory. info is filled in, up to struct_size bytes: pass sizeof \*info.
    pub fn bzna_batch_get_info(batch: *const bzna_batch, info: *mut bzna_batch_info, struct_size: usize, err: *mut bzna_error) -> bzna_status;
    /// Describes one tensor of a batch.
    pub fn bzna_batch_tensor(batch: *const bzna_batch, name: *const c_char, tensor: *mut bzna_tensor, struct_size: usize, err: *mut bzna_error) -> bzna_status;
    /// Finds the value of a field in one slot.
    pub fn bzna_batch_bytes(batch: *const bzna_batch, name: *const c_char, slot: u32, data: *mut *const c_void, size: *mut u64, err: *mut bzna_error) -> bzna_status;
    /// Returns the status of one slot of batch, and its message in err. slot counts from 0.
    pub fn bzna_batch_error(batch: *const bzna_batch, slot: u32, err: *mut bzna_error) -> bzna_status;
    /// Returns batch to its loader; NULL does nothing.
    pub fn bzna_batch_release(batch: *mut bzna_batch) -> bzna_status;
    /// Moves a batch on the device to another stream of its context.
    pub fn bzna_batch_move(batch: *mut bzna_batch, stream: *mut c_void, err: *mut bzna_error) -> bzna_status;
    /// Exports one tensor of a batch as a DLPack tensor.
    pub fn bzna_batch_to_dlpack(batch: *mut bzna_batch, name: *const c_char, version: u32, tensor: *mut *mut c_void, err: *mut bzna_error) -> bzna_status;
    /// Clears config, which makes every member the default, and sets its struct_size, in bytes: pass sizeof \*config.
    pub fn bzna_writer_config_init(config: *mut bzna_writer_config, struct_size: usize);
    /// Clears value and sets its struct_size, in bytes: pass sizeof \*value.
    pub fn bzna_field_value_init(value: *mut bzna_field_value, struct_size: usize);
    /// Clears sample and sets its struct_size, in bytes: pass sizeof \*sample.
    pub fn bzna_writer_sample_init(sample: *mut bzna_writer_sample, struct_size: usize);
    /// Makes an archive as a file, or empties the file that is there.
    pub fn bzna_writer_open(context: *mut bzna_context, path: *const c_char, config: *const bzna_writer_config, out: *mut *mut bzna_writer, err: *mut bzna_error) -> bzna_status;
    /// Makes an archive that the caller's functions write.
    pub fn bzna_writer_open_sink(context: *mut bzna_context, sink: *const bzna_sink, config: *const bzna_writer_config, out: *mut *mut bzna_writer, err: *mut bzna_error) -> bzna_status;
    /// Writes one sample.
    pub fn bzna_writer_add(writer: *mut bzna_writer, index: u64, sample: *const bzna_writer_sample, timeout_ns: i64, err: *mut bzna_error) -> bzna_status;
    /// Writes the index of the archive, and waits until a file is on the disk.
    pub fn bzna_writer_finish(writer: *mut bzna_writer, err: *mut bzna_error) -> bzna_status;
    /// Closes writer; NULL does nothing.
    pub fn bzna_writer_close(writer: *mut bzna_writer) -> bzna_status;
    /// All codecs of this folder, in the order in which they are asked.
    pub fn bzna_formats_codecs(count: *mut u64) -> *const bzna_codec;
    /// Returns the number of the codec that takes a file, for bzna_image.codec of a decoder whose context has all
    /// codecs; or BZNA_CODEC_UNKNOWN.
    pub fn bzna_formats_recognize(data: *const c_void, bytes: u64) -> u32;
    /// Fills in the codec of HEIF and AVIF (heif.c), which needs no library.
    pub fn bzna_formats_heif(codec: *mut bzna_codec);
    /// Returns BZNA_HEIF_... of a file; 0 also if it is damaged or of another kind.
    pub fn bzna_formats_heif_beside(data: *const c_void, bytes: u64) -> u32;
    /// Fills in the codec of GIF, of which it reads the first picture (stills.c).
    pub fn bzna_formats_gif(codec: *mut bzna_codec);
    /// Fills in the codec of BMP (stills.c).
    pub fn bzna_formats_bmp(codec: *mut bzna_codec);
    /// Fills in the codec of PBM, PGM, PPM and PAM (stills.c).
    pub fn bzna_formats_pnm(codec: *mut bzna_codec);
    /// Fills in the codec of TIFF, by libtiff (tiff.c).
    pub fn bzna_formats_tiff(codec: *mut bzna_codec);
    /// Fills in the codec of JPEG 2000, by OpenJPEG (jpeg2000.c).
    pub fn bzna_formats_jpeg2000(codec: *mut bzna_codec);
    /// Fills in the codec of JPEG XL, by libjxl (jxl.c).
    pub fn bzna_formats_jxl(codec: *mut bzna_codec);
    /// Clears config and sets its struct_size, in bytes: pass sizeof \*config.
    pub fn bzna_formats_config_init(config: *mut bzna_formats_config, struct_size: usize);
    /// Clears records and sets its struct_size, in bytes: pass sizeof \*records.
    pub fn bzna_formats_records_init(records: *mut bzna_records, struct_size: usize);
    /// Opens the files that a path or pattern names, of all kinds that this folder and the library know.
    pub fn bzna_formats_open(context: *mut bzna_context, path: *const c_char, config: *const bzna_formats_config, out: *mut *mut bzna_dataset, err: *mut bzna_error) -> bzna_status;
    /// Opens several paths as one data set, one after the other.
    pub fn bzna_formats_open_list(context: *mut bzna_context, paths: *const *const c_char, count: u32, config: *const bzna_formats_config, out: *mut *mut bzna_dataset, err: *mut bzna_error) -> bzna_status;
    /// Opens a file in memory, as bzna_dataset_open_memory does, which describes the parameters; or a picture of a
    /// codec of this folder, which is one sample, with the field "image".
    pub fn bzna_formats_open_memory(context: *mut bzna_context, bytes: *const c_void, size: usize, config: *const bzna_formats_config, out: *mut *mut bzna_dataset, err: *mut bzna_error) -> bzna_status;
    /// Opens a file that the caller's functions read, as bzna_dataset_open_source does, which describes the parameters;
    /// or a picture of a codec of this folder, which is one sample, with the field "image".
    pub fn bzna_formats_open_source(context: *mut bzna_context, source: *const bzna_source, config: *const bzna_formats_config, out: *mut *mut bzna_dataset, err: *mut bzna_error) -> bzna_status;
    /// Gives the texts to which the braces of a pattern expand (paths.c).
    pub fn bzna_formats_braces(pattern: *const c_char, dst: *mut c_char, capacity: usize, needed: *mut usize, count: *mut u32, err: *mut bzna_error) -> bzna_status;
    /// Clears weights and sets its struct_size, in bytes: pass sizeof \*weights.
    pub fn bzna_formats_weights_init(weights: *mut bzna_formats_weights, struct_size: usize);
    /// Draws the samples of an epoch, for bzna_loader_set_batches.
    pub fn bzna_formats_weighted_list(dataset: *const bzna_dataset, weights: *const bzna_formats_weights, epoch: u64, list: *mut u64, capacity: u64, count: *mut u64, err: *mut bzna_error) -> bzna_status;
    /// Draws the samples of an epoch, and gives them to a loader.
    pub fn bzna_formats_weighted_give(loader: *mut bzna_loader, dataset: *const bzna_dataset, weights: *const bzna_formats_weights, epoch: u64, err: *mut bzna_error) -> bzna_status;
    /// Sets policy to one that is well known.
    pub fn bzna_formats_policy_preset(preset: u32, draws: u32, magnitude: u32, policy: *mut bzna_policy, err: *mut bzna_error) -> bzna_status;
    /// Clears rule, and sets its struct_size, in bytes: pass sizeof \*rule.
    pub fn bzna_formats_rule_init(rule: *mut bzna_rule, struct_size: usize);
    /// Prepares the config of a loader for rules.
    pub fn bzna_formats_rules_open(dataset: *const bzna_dataset, given: *const bzna_rule, count: u32, config: *mut bzna_loader_config, out: *mut *mut bzna_rules, err: *mut bzna_error) -> bzna_status;
    /// Frees rules; NULL does nothing.
    pub fn bzna_formats_rules_close(rules: *mut bzna_rules);
}

//! benzina.h, line by line: types, constants and functions as C has them, written by hand.
//!
//! Nothing here is safe; the manual is the header's. tests/abi.rs holds every size, offset, constant and signature of this file
//! against the header by means of the C compiler, and fails where the header has something that this file has not.

#![allow(non_camel_case_types)]

use std::ffi::{c_char, c_void};

pub type bzna_status = i32;
pub type bzna_log_fn = Option<unsafe extern "C" fn(user: *mut c_void, level: i32, code: bzna_status, message: *const c_char)>;
pub type bzna_transform_fn = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        sample: *const bzna_sample_info,
        random: *mut bzna_random,
        transform: *mut bzna_transform,
    ) -> bzna_status,
>;

pub type bzna_picture_fn = Option<
    unsafe extern "C" fn(
        user: *mut c_void,
        sample: *const bzna_sample_info,
        random: *mut bzna_random,
        picture: *const bzna_picture,
        planes: *const *mut c_void,
    ) -> bzna_status,
>;

pub const BZNA_VERSION_MAJOR: u32 = 0;
pub const BZNA_VERSION_MINOR: u32 = 3;
pub const BZNA_VERSION_PATCH: u32 = 0;

pub const BZNA_OK: bzna_status = 0;
pub const BZNA_END: bzna_status = 1;
pub const BZNA_AGAIN: bzna_status = 2;
pub const BZNA_E_ARGUMENT: bzna_status = -101;
pub const BZNA_E_STRUCT_SIZE: bzna_status = -102;
pub const BZNA_E_RANGE: bzna_status = -103;
pub const BZNA_E_STATE: bzna_status = -104;
pub const BZNA_E_BUFFER: bzna_status = -105;
pub const BZNA_E_CALLBACK: bzna_status = -106;
pub const BZNA_E_STOPPED: bzna_status = -107;
pub const BZNA_E_UNSUPPORTED: bzna_status = -108;
pub const BZNA_E_MEMORY: bzna_status = -201;
pub const BZNA_E_NOT_FOUND: bzna_status = -202;
pub const BZNA_E_IO: bzna_status = -203;
pub const BZNA_E_THREAD: bzna_status = -204;
pub const BZNA_E_FORMAT: bzna_status = -301;
pub const BZNA_E_TRUNCATED: bzna_status = -302;
pub const BZNA_E_BOX: bzna_status = -303;
pub const BZNA_E_LIMIT: bzna_status = -304;
pub const BZNA_E_NO_SAMPLES: bzna_status = -305;
pub const BZNA_E_UNFINISHED: bzna_status = -306;
pub const BZNA_E_CODEC: bzna_status = -401;
pub const BZNA_E_DECODE: bzna_status = -402;
pub const BZNA_E_MISMATCH: bzna_status = -403;
pub const BZNA_E_DEVICE: bzna_status = -501;
pub const BZNA_E_DEVICE_LOST: bzna_status = -502;
pub const BZNA_STATUS_RESERVED: bzna_status = -9999;

pub const BZNA_NO_OFFSET: u64 = u64::MAX;
pub const BZNA_TARGET_NONE: i64 = -1;
pub const BZNA_NAME_MAX: usize = 32;
pub const BZNA_IMAGES_MAX: usize = 4;
/// CUDA's handles of the default streams, which in C are BZNA_STREAM_LEGACY and BZNA_STREAM_PER_THREAD.
pub const STREAM_LEGACY: *mut c_void = 1 as *mut c_void;
pub const STREAM_PER_THREAD: *mut c_void = 2 as *mut c_void;
pub const BZNA_WAIT_FOREVER: i64 = -1;
pub const BZNA_EPOCHS_ENDLESS: u64 = u64::MAX;

pub const BZNA_LOG_ERROR: i32 = 1;
pub const BZNA_LOG_WARNING: i32 = 2;
pub const BZNA_LOG_INFO: i32 = 3;
pub const BZNA_LOG_DEBUG: i32 = 4;

pub const BZNA_DEVICE_AUTO: i32 = 0;
pub const BZNA_DEVICE_CPU: i32 = 1;
pub const BZNA_DEVICE_CUDA: i32 = 2;

pub const BZNA_CODEC_UNKNOWN: u32 = 0;
pub const BZNA_CODEC_H264: u32 = 1;
pub const BZNA_CODEC_H265: u32 = 2;
pub const BZNA_CODEC_AV1: u32 = 3;
pub const BZNA_CODEC_JPEG: u32 = 4;
pub const BZNA_CODEC_STILL: u32 = 5;
pub const BZNA_PALETTE_COLORS: u32 = 0;
pub const BZNA_PALETTE_INDEX: u32 = 1;
pub const BZNA_CODEC_RAW: u32 = 6;
pub const BZNA_CODEC_HEIF: u32 = 7;
pub const BZNA_BESIDE_THUMB: u32 = 1;
pub const BZNA_BESIDE_AUXILIARY: u32 = 2;
pub const BZNA_BESIDE_IMAGES: u32 = 4;
pub const BZNA_BESIDE_SEQUENCE: u32 = 8;
pub const BZNA_ORIENTATION_APPLY: u32 = 0;
pub const BZNA_ORIENTATION_IGNORE: u32 = 1;
pub const BZNA_CLASS_ORDER_TEXT: u32 = 0;
pub const BZNA_CLASS_ORDER_NUMERIC: u32 = 1;
pub const BZNA_RECORD_NONE: u32 = 0;
pub const BZNA_RECORD_UINT8: u32 = 1;
pub const BZNA_RECORD_INT32: u32 = 2;
pub const BZNA_RECORD_INT64: u32 = 3;
pub const BZNA_RECORD_FLOAT32: u32 = 4;

pub const BZNA_FIELD_IMAGE: u32 = 1;
pub const BZNA_FIELD_INTEGER: u32 = 2;
pub const BZNA_FIELD_VECTOR: u32 = 3;
pub const BZNA_FIELD_TEXT: u32 = 4;
pub const BZNA_FIELD_BYTES: u32 = 5;

pub const BZNA_OPERATION_WARP: u32 = 0;
pub const BZNA_OPERATION_COLOR: u32 = 1;
pub const BZNA_OPERATION_ORDER: u32 = 2;
pub const BZNA_OPERATION_PICTURE: u32 = 3;
pub const BZNA_OPERATION_USER: u32 = 16;

pub const BZNA_FILTER_LINEAR: u32 = 0;
pub const BZNA_FILTER_NEAREST: u32 = 1;
pub const BZNA_FILTER_CUBIC: u32 = 2;
pub const BZNA_FILTER_AREA: u32 = 3;
pub const BZNA_FILTER_LANCZOS4: u32 = 4;
pub const BZNA_FILTER_LANCZOS3: u32 = 5;
pub const BZNA_FILTER_CUBIC_075: u32 = 6;
pub const BZNA_ANTIALIAS_AUTO: u32 = 0;
pub const BZNA_ANTIALIAS_OFF: u32 = 1;
pub const BZNA_DTYPE_FLOAT32: u32 = 0;
pub const BZNA_DTYPE_FLOAT16: u32 = 1;
pub const BZNA_DTYPE_BFLOAT16: u32 = 2;
pub const BZNA_DTYPE_UINT8: u32 = 3;
pub const BZNA_DTYPE_INT32: u32 = 16;
pub const BZNA_DTYPE_INT64: u32 = 17;
pub const BZNA_DTYPE_UINT64: u32 = 18;
pub const BZNA_LAYOUT_NCHW: u32 = 0;
pub const BZNA_LAYOUT_NHWC: u32 = 1;
pub const BZNA_CHANNELS_RGB: u32 = 0;
pub const BZNA_CHANNELS_BGR: u32 = 1;
pub const BZNA_CHANNELS_GRAY: u32 = 2;
pub const BZNA_MATRIX_AUTO: u32 = 0;
pub const BZNA_MATRIX_BT601_FULL: u32 = 1;
pub const BZNA_MATRIX_BT601: u32 = 2;
pub const BZNA_MATRIX_BT709: u32 = 3;
pub const BZNA_MATRIX_BT2020: u32 = 4;
pub const BZNA_MATRIX_BT709_FULL: u32 = 5;
pub const BZNA_MATRIX_BT2020_FULL: u32 = 6;
pub const BZNA_FILL_RGB: u32 = 0;
pub const BZNA_FILL_OUTPUT: u32 = 1;
pub const BZNA_LAW_AUTO: u32 = 0;
pub const BZNA_LAW_BENZINA: u32 = 1;
pub const BZNA_LAW_TORCHVISION: u32 = 2;

pub const BZNA_ORDER_SEQUENTIAL: u32 = 0;
pub const BZNA_ORDER_SHUFFLE: u32 = 1;
pub const BZNA_LAST_PARTIAL: u32 = 0;
pub const BZNA_LAST_DROP: u32 = 1;
pub const BZNA_LAST_PAD: u32 = 2;
pub const BZNA_WARP_NONE: u32 = 0;
pub const BZNA_WARP_RANDOM_RESIZED_CROP: u32 = 1;
pub const BZNA_WARP_CENTER_RESIZED_CROP: u32 = 2;
pub const BZNA_WARP_SIMILARITY: u32 = 3;
pub const BZNA_WARP_MXNET: u32 = 4;
pub const BZNA_DECODER_AUTO: u32 = 0;
pub const BZNA_DECODER_SOFTWARE: u32 = 1;
pub const BZNA_DECODER_NVDEC: u32 = 2;
pub const BZNA_CHECK_NONE: u32 = 0;
pub const BZNA_CHECK_PASSED: u32 = 1;
pub const BZNA_CHECK_FAILED: u32 = 2;
pub const BZNA_CHECK_SKIPPED: u32 = 3;
pub const BZNA_WEIGHTING_NONE: u32 = 0;
pub const BZNA_WEIGHTING_REPLACE: u32 = 1;
pub const BZNA_WEIGHTING_ONCE: u32 = 2;
pub const BZNA_ON_ERROR_FILL: u32 = 0;
pub const BZNA_ON_ERROR_REPLACE: u32 = 1;
pub const BZNA_ON_ERROR_STOP: u32 = 2;
pub const BZNA_ON_CALLBACK_ERROR_STOP: u32 = 0;
pub const BZNA_ON_CALLBACK_ERROR_SAMPLE: u32 = 1;

pub const BZNA_DLPACK_0: u32 = 0;
pub const BZNA_DLPACK_1: u32 = 1;

pub const BZNA_STAGE_READ: usize = 0;
pub const BZNA_STAGE_DECODE: usize = 1;
pub const BZNA_STAGE_WARP: usize = 2;
pub const BZNA_STAGE_DELIVER: usize = 3;

pub const BZNA_SPLIT_NONE: u32 = 0;
pub const BZNA_SPLIT_TRAIN: u32 = 1;
pub const BZNA_SPLIT_VALIDATION: u32 = 2;
pub const BZNA_SPLIT_TEST: u32 = 3;

/// One field of a struct: its name, where it begins and how long it is, in bytes, and its type.
#[doc(hidden)]
#[derive(Debug)]
pub struct Field(pub &'static str, pub usize, pub usize, pub &'static str);

/// The types that C hides.
macro_rules! opaque {
    ($($name:ident)*) => { $(#[repr(C)] #[derive(Debug)] pub struct $name { _hidden: [u8; 0] })* };
}

/// The types that C shows: the struct itself, a zeroed default (which is what the header asks for before struct_size is set; null
/// pointers and absent callbacks are zeros too), and a table of its fields for the test.
macro_rules! structs {
    ($($(#[$attribute:meta])* struct $name:ident { $($field:ident: $type:ty),* $(,)? })*) => {
        $(
            $(#[$attribute])*
            #[repr(C)]
            #[derive(Clone, Copy, Debug)]
            pub struct $name { $(pub $field: $type),* }

            impl Default for $name {
                fn default() -> Self {
                    // SAFETY: integers, floats, raw pointers, Option of fn pointers, and arrays and structs of these may be zero.
                    unsafe { std::mem::zeroed() }
                }
            }
        )*
        /// Every struct of this file: name, size, alignment, fields.
        #[doc(hidden)]
        pub const LAYOUT: &[(&str, usize, usize, &[Field])] = &[$((
            stringify!($name), std::mem::size_of::<$name>(), std::mem::align_of::<$name>(),
            &[$(Field(stringify!($field), std::mem::offset_of!($name, $field), std::mem::size_of::<$type>(), stringify!($type))),*],
        )),*];
    };
}

opaque! { bzna_context bzna_dataset bzna_decoder bzna_loader bzna_batch bzna_writer }

structs! {
    struct bzna_error {
        struct_size: u32,
        status: bzna_status,
        byte_offset: u64,
        native_code: i32,
        fourcc: u32,
        message: [c_char; 232],
    }

    struct bzna_allocator {
        user: *mut c_void,
        alloc: Option<unsafe extern "C" fn(user: *mut c_void, size: usize, align: usize) -> *mut c_void>,
        release: Option<unsafe extern "C" fn(user: *mut c_void, ptr: *mut c_void, size: usize)>,
    }

    struct bzna_source {
        struct_size: u32,
        reserved0: u32,
        user: *mut c_void,
        read_at: Option<unsafe extern "C" fn(user: *mut c_void, offset: u64, dst: *mut c_void, size: u64) -> i64>,
        size: Option<unsafe extern "C" fn(user: *mut c_void) -> i64>,
        close: Option<unsafe extern "C" fn(user: *mut c_void)>,
    }

    struct bzna_sink {
        struct_size: u32,
        reserved0: u32,
        user: *mut c_void,
        write_at: Option<unsafe extern "C" fn(user: *mut c_void, offset: u64, src: *const c_void, size: u64) -> bzna_status>,
        close: Option<unsafe extern "C" fn(user: *mut c_void)>,
    }

    struct bzna_device_allocator {
        user: *mut c_void,
        alloc: Option<unsafe extern "C" fn(user: *mut c_void, size: usize, stream: *mut c_void) -> u64>,
        release: Option<unsafe extern "C" fn(user: *mut c_void, ptr: u64, size: usize, stream: *mut c_void)>,
    }

    struct bzna_device {
        kind: i32,
        ordinal: i32,
    }

    struct bzna_context_config {
        struct_size: u32,
        log_level: i32,
        device: bzna_device,
        allocator: bzna_allocator,
        log: bzna_log_fn,
        log_user: *mut c_void,
        log_any_thread: u32,
        max_edge_px: u32,
        max_sample_bytes: u64,
        sessions: u32,
        sessions_per_engine: u32,
        session_depth: u32,
        session_mapped: u32,
        decode_memory_bytes: u64,
        device_allocator: bzna_device_allocator,
        cuda_context: *mut c_void,
    }

    /// A CUDA device, as a context uses it.
    struct bzna_device_info {
        struct_size: u32,
        driver: u32,
        device: bzna_device,
        memory_bytes: u64,
        compute_major: u32,
        compute_minor: u32,
        engines: u32,
        sessions: u32,
        video: bzna_status,
        reserved0: u32,
        name: [c_char; 96],
        message: [c_char; 232],
    }

    /// What a device decodes. Sizes are of coded frames, in pixels.
    struct bzna_codec_info {
        struct_size: u32,
        codec: u32,
        chroma_format: u32,
        depth: u32,
        supported: u32,
        engines: u32,
        min_width: u32,
        min_height: u32,
        max_width: u32,
        max_height: u32,
        max_macroblocks: u32,
        check: u32,
        check_message: [c_char; 128],
    }

    struct bzna_color {
        primaries: u16,
        transfer: u16,
        matrix: u16,
        full_range: u8,
        present: u8,
    }

    struct bzna_image {
        struct_size: u32,
        codec: u32,
        width: u32,
        height: u32,
        frame_width: u32,
        frame_height: u32,
        crop_x: u32,
        crop_y: u32,
        color: bzna_color,
        length_size: u32,
        orientation: u32,
        config: *const c_void,
        config_size: u64,
        data: *const c_void,
        data_size: u64,
        palette: u32,
        reserved1: u32,
    }

    /// A file of records of one size.
    struct bzna_records {
        struct_size: u32,
        data_type: u32,
        layout: u32,
        width: u32,
        height: u32,
        channels: u32,
        header_bytes: u64,
        stride: u64,
        data_offset: u64,
        label_offset: u64,
        label_type: u32,
        scale: f32,
        bias: f32,
        reserved0: u32,
    }

    struct bzna_dataset_config {
        struct_size: u32,
        reserved0: u32,
        name: *const c_char,
        split: *const c_char,
        format: *const c_char,
        list: *const c_char,
        classes: *const *const c_char,
        class_count: u32,
        class_order: u32,
        orientation: u32,
        palette: u32,
        records: *const bzna_records,
        reserved: [u64; 4],
    }

    /// What an archive is, as a whole.
    struct bzna_dataset_info {
        struct_size: u32,
        field_count: u32,
        size_bytes: u64,
        sample_count: u64,
        target_count: u64,
        part_count: u32,
        track_count: u32,
        brand_count: u32,
        brands: [u32; 8],
        container: [c_char; 20],
        trailing_bytes: u64,
    }

    /// One field of a data set's samples.
    struct bzna_field_info {
        struct_size: u32,
        kind: u32,
        name: [c_char; BZNA_NAME_MAX],
    }

    struct bzna_track_info {
        struct_size: u32,
        handler: u32,
        format: u32,
        flags: u32,
        sample_count: u64,
        name: [c_char; BZNA_NAME_MAX],
        mime: [c_char; 64],
    }

    /// Where one sample lies, and which pictures it holds.
    struct bzna_sample_ref {
        struct_size: u32,
        image_count: u32,
        index: u64,
        offset: u64,
        size: u64,
        target: i64,
        image_names: [[c_char; BZNA_NAME_MAX]; BZNA_IMAGES_MAX],
    }

    /// What the container says of one picture, and where its bytes lie in the file.
    struct bzna_image_info {
        struct_size: u32,
        codec: u32,
        fourcc: u32,
        width: u32,
        height: u32,
        frame_width: u32,
        frame_height: u32,
        crop_x: u32,
        crop_y: u32,
        clap: [i32; 8],
        length_size: u32,
        color: bzna_color,
        config_offset: u64,
        config_size: u64,
        data_offset: u64,
        data_size: u64,
        orientation: u32,
        beside: u32,
    }

    struct bzna_picture {
        struct_size: u32,
        depth: u32,
        width: u32,
        height: u32,
        crop_x: u32,
        crop_y: u32,
        frame_width: u32,
        frame_height: u32,
        chroma_shift_x: u32,
        chroma_shift_y: u32,
        chroma_left: u32,
        chroma_top: u32,
        color: bzna_color,
        plane: [*const c_void; 3],
        pitch: [i64; 3],
        orientation: u32,
        step: [u32; 3],
    }

    struct bzna_random {
        key: [u32; 2],
        counter: [u32; 4],
        block: [u32; 4],
        used: u32,
        reserved0: u32,
    }

    /// What happens to one sample: all of it is the transform callback's to change. struct_size is left alone.
    struct bzna_transform {
        struct_size: u32,
        filter: u32,
        homography: [f64; 9],
        bias: [f32; 3],
        scale: [f32; 3],
        fill: [f32; 3],
        fill_space: u32,
        matrix: u32,
        antialias: u32,
        clamp_hue: u32,
        grayscale: u32,
        reserved0: u32,
        color: [f32; 12],
        hls: [f32; 3],
        brightness: f32,
        contrast: f32,
        saturation: f32,
        hue: f32,
    }

    /// What a transform callback is told.
    struct bzna_sample_info {
        struct_size: u32,
        slot: u32,
        index: u64,
        epoch: u64,
        target: i64,
        width: u32,
        height: u32,
        out_width: u32,
        out_height: u32,
        occurrence: u64,
        view: u32,
        output: u32,
    }

    struct bzna_output {
        struct_size: u32,
        width: u32,
        height: u32,
        dtype: u32,
        layout: u32,
        channels: u32,
    }

    struct bzna_affine {
        struct_size: u32,
        in_width: u32,
        in_height: u32,
        out_width: u32,
        out_height: u32,
        has_crop: u32,
        crop_x: f64,
        crop_y: f64,
        crop_width: f64,
        crop_height: f64,
        degrees: f64,
        translate_x: f64,
        translate_y: f64,
        flip_h: u32,
        flip_v: u32,
        resize: u32,
        keep_ratio: u32,
    }

    /// A random warp: a kind, and what is set of the rest; zero is the default of the kind.
    struct bzna_warp {
        kind: u32,
        law: u32,
        scale: [f64; 2],
        ratio: [f64; 2],
        degrees: [f64; 2],
        translate: [f64; 2],
        flip_h: f64,
        flip_v: f64,
        rotate: [f64; 2],
        shear: [f64; 4],
        perspective: f64,
        perspective_p: f64,
        resize: u32,
        keep_ratio: u32,
        random_crop: u32,
        reserved0: u32,
        shear_ratio: f64,
        canvas_px: [u32; 2],
        crop_px: [u32; 2],
        pad_px: u32,
        short_edge_px: u32,
        has_crop_start: u32,
        crop_x_start: u32,
        crop_y_start: u32,
        reserved1: u32,
        reserved: [u64; 4],
    }

    /// How colors are drawn; zero is none of them.
    struct bzna_jitter {
        brightness: [f32; 2],
        contrast: [f32; 2],
        saturation: [f32; 2],
        hue: [f32; 2],
        grayscale: f32,
        mxnet_hls: [f32; 3],
        mxnet_contrast: f32,
        mxnet_illumination: f32,
        mxnet_clamp_hue: u32,
        reserved0: u32,
        reserved: [u64; 2],
    }

    struct bzna_buffer {
        data: *mut c_void,
        bytes: u64,
    }

    struct bzna_loader_output {
        batch_size: u32,
        width: u32,
        height: u32,
        dtype: u32,
        layout: u32,
        channels: u32,
        views: u32,
        slices: u32,
        device: bzna_device,
        stream: *mut c_void,
        buffers: *const bzna_buffer,
        buffer_count: u32,
        reserved0: u32,
        reserved: [u64; 4],
    }

    struct bzna_loader_order {
        kind: u32,
        last_batch: u32,
        seed: u64,
        epochs: u64,
        first_epoch: u64,
        indices: *const u64,
        index_count: u64,
        weights: *const f64,
        weight_count: u64,
        weighting: u32,
        weights_by_part: u32,
        epoch_samples: u64,
        reserved: [u64; 4],
    }

    struct bzna_loader_shard {
        rank: u32,
        world_size: u32,
        reserved: [u64; 2],
    }

    struct bzna_loader_filter {
        kind: u32,
        antialias: u32,
        reserved: [u64; 2],
    }

    struct bzna_loader_color {
        mean: [f32; 3],
        std: [f32; 3],
        bias: [f32; 3],
        scale: [f32; 3],
        fill: [f32; 3],
        fill_space: u32,
        matrix: u32,
        reserved0: u32,
        mean_image: *const c_void,
        mean_image_bytes: u64,
        jitter: bzna_jitter,
        reserved: [u64; 2],
    }

    struct bzna_extra_output {
        struct_size: u32,
        width: u32,
        height: u32,
        dtype: u32,
        layout: u32,
        channels: u32,
        views: u32,
        own_warp: u32,
        own_filter: u32,
        own_color: u32,
        name: *const c_char,
        field: *const c_char,
        warp: bzna_warp,
        filter: bzna_loader_filter,
        color: bzna_loader_color,
    }

    struct bzna_loader_outputs {
        ptr: *const bzna_extra_output,
        count: u64,
    }

    struct bzna_loader_fields {
        image: *const c_char,
        tensors: *const c_char,
        bytes: *const c_char,
        reserved: [u64; 3],
    }

    struct bzna_loader_read {
        threads: u32,
        ahead_samples: u32,
        memory_bytes: u64,
        retries: u32,
        reserved0: u32,
        backoff_ns: u64,
        reserved: [u64; 4],
    }

    struct bzna_loader_decode {
        decoder: u32,
        threads: u32,
        verify_every: u32,
        jpeg: u32,
        jpeg_shrink: u32,
        reserved0: u32,
        reserved: [u64; 2],
    }

    struct bzna_loader_errors {
        policy: u32,
        callback_policy: u32,
        reserved: [u64; 2],
    }

    struct bzna_loader_pipeline {
        batches_in_flight: u32,
        restore_any_pixels: u32,
        cpus: *const i32,
        cpu_count: u32,
        reserved0: u32,
        transform: bzna_transform_fn,
        transform_user: *mut c_void,
        picture: bzna_picture_fn,
        picture_user: *mut c_void,
        reserved: [u64; 2],
    }

    struct bzna_loader_config {
        struct_size: u32,
        reserved0: u32,
        output: bzna_loader_output,
        outputs: bzna_loader_outputs,
        order: bzna_loader_order,
        shard: bzna_loader_shard,
        warp: bzna_warp,
        filter: bzna_loader_filter,
        color: bzna_loader_color,
        fields: bzna_loader_fields,
        read: bzna_loader_read,
        decode: bzna_loader_decode,
        errors: bzna_loader_errors,
        pipeline: bzna_loader_pipeline,
    }

    /// Name, type, shape and place of a tensor: of what a loader yields (without data), or of a batch.
    struct bzna_tensor {
        struct_size: u32,
        dtype: u32,
        device: bzna_device,
        dimensions: u32,
        reserved0: u32,
        shape: [i64; 6],
        data: *mut c_void,
        bytes: u64,
        name: [c_char; BZNA_NAME_MAX],
        reserved: [u64; 4],
    }

    struct bzna_batch_info {
        struct_size: u32,
        count: u32,
        failed: u32,
        replaced: u32,
        image: bzna_tensor,
        layout: u32,
        last_of_epoch: u32,
        slices: u32,
        reserved0: u32,
        epoch: u64,
        batch: u64,
        position: u64,
        targets: *const i64,
        indices: *const u64,
        status: *const bzna_status,
        stream: *mut c_void,
    }

    /// What a loader yields, and who decodes.
    struct bzna_loader_info {
        struct_size: u32,
        decoder: u32,
        image: bzna_tensor,
        layout: u32,
        sessions: u32,
        threads: u32,
        reader_threads: u32,
        batches_in_flight: u32,
        read_ahead: u32,
        samples_per_epoch: u64,
        batches_per_epoch: u64,
        decoder_name: [c_char; 64],
        decoder_reason: [c_char; 128],
        picture: [c_char; 32],
        picture_reason: [c_char; 96],
    }

    struct bzna_stage_statistics {
        count: u64,
        bytes: u64,
        busy_ns: u64,
        wait_before_ns: u64,
        wait_after_ns: u64,
        depth: u64,
        capacity: u64,
        reserved: [u64; 3],
    }

    /// Counts since the loader was opened, stage by stage.
    struct bzna_statistics {
        struct_size: u32,
        limiting_stage: u32,
        stage: [bzna_stage_statistics; 4],
        samples: u64,
        samples_failed: u64,
        failed_read: u64,
        failed_format: u64,
        failed_decode: u64,
        failed_other: u64,
        replaced: u64,
        retries: u64,
        read_memory_bytes: u64,
        samples_nvdec: u64,
        samples_software: u64,
        fallbacks: u64,
        decoders_made: u64,
        decoders_reconfigured: u64,
        sessions_lost: u64,
        verified: u64,
        verify_failed: u64,
        samples_tiled: u64,
        tiles: u64,
        lock_waits: u64,
        lock_wait_ns: u64,
    }

    struct bzna_loader_state {
        struct_size: u32,
        version: u32,
        seed: u64,
        epoch: u64,
        position: u64,
        fingerprint: u64,
        sample_count: u64,
        end_epoch: u64,
        order: u32,
        check: u32,
        pixels: u64,
        reserved: [u64; 7],
    }

    struct bzna_writer_config {
        struct_size: u32,
        class_count: u32,
        classes: *const *const c_char,
        queue_bytes: u64,
        reserved: [u64; 4],
    }

    struct bzna_field_value {
        struct_size: u32,
        kind: u32,
        name: *const c_char,
        data: *const c_void,
        size: u64,
    }

    struct bzna_writer_sample {
        struct_size: u32,
        split: u32,
        image: *const bzna_image,
        thumb: *const bzna_image,
        target: i64,
        name: *const c_char,
        fields: *const bzna_field_value,
        field_count: u32,
        reserved0: u32,
        reserved: [u64; 2],
    }
}

// SAFETY: what data points to is an address to whoever has one; reading there is what is unsafe.
unsafe impl Send for bzna_tensor {}
unsafe impl Sync for bzna_tensor {}

#[rustfmt::skip] // one line each: tests/abi.rs reads them
extern "C" {
    pub fn bzna_error_init(error: *mut bzna_error, struct_size: usize);
    pub fn bzna_status_name(status: bzna_status) -> *const c_char;
    pub fn bzna_status_text(status: bzna_status) -> *const c_char;
    pub fn bzna_version() -> u32;
    pub fn bzna_source_init(source: *mut bzna_source, struct_size: usize);
    pub fn bzna_sink_init(sink: *mut bzna_sink, struct_size: usize);

    pub fn bzna_context_config_init(config: *mut bzna_context_config, struct_size: usize);
    pub fn bzna_context_open(config: *const bzna_context_config, out: *mut *mut bzna_context, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_context_close(context: *mut bzna_context) -> bzna_status;
    pub fn bzna_device_count(count: *mut u32, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_context_device_info(context: *mut bzna_context, info: *mut bzna_device_info, struct_size: usize, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_context_codec_info(context: *mut bzna_context, codec: u32, chroma_format: u32, depth: u32, info: *mut bzna_codec_info, struct_size: usize, err: *mut bzna_error) -> bzna_status;

    pub fn bzna_image_init(image: *mut bzna_image, struct_size: usize);
    pub fn bzna_image_annexb(image: *const bzna_image, dst: *mut c_void, capacity: usize, needed: *mut usize, err: *mut bzna_error) -> bzna_status;

    pub fn bzna_dataset_config_init(config: *mut bzna_dataset_config, struct_size: usize);
    pub fn bzna_records_init(records: *mut bzna_records, struct_size: usize);
    pub fn bzna_dataset_open(context: *mut bzna_context, path: *const c_char, config: *const bzna_dataset_config, out: *mut *mut bzna_dataset, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_dataset_open_list(context: *mut bzna_context, paths: *const *const c_char, count: u32, config: *const bzna_dataset_config, out: *mut *mut bzna_dataset, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_dataset_open_memory(context: *mut bzna_context, bytes: *const c_void, size: usize, config: *const bzna_dataset_config, out: *mut *mut bzna_dataset, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_dataset_open_source(context: *mut bzna_context, source: *const bzna_source, config: *const bzna_dataset_config, out: *mut *mut bzna_dataset, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_dataset_close(dataset: *mut bzna_dataset) -> bzna_status;
    pub fn bzna_dataset_concat(context: *mut bzna_context, parts: *const *mut bzna_dataset, part_count: u32, out: *mut *mut bzna_dataset, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_dataset_range(dataset: *mut bzna_dataset, first: u64, count: u64, out: *mut *mut bzna_dataset, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_dataset_count(dataset: *const bzna_dataset) -> u64;
    pub fn bzna_dataset_get_info(dataset: *const bzna_dataset, info: *mut bzna_dataset_info, struct_size: usize, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_dataset_field_info(dataset: *const bzna_dataset, field: u32, info: *mut bzna_field_info, struct_size: usize, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_dataset_track_info(dataset: *const bzna_dataset, track: u32, info: *mut bzna_track_info, struct_size: usize, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_dataset_sample(dataset: *const bzna_dataset, index: u64, sample: *mut bzna_sample_ref, struct_size: usize, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_dataset_target(dataset: *const bzna_dataset, index: u64, target: *mut i64, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_dataset_class(dataset: *const bzna_dataset, target: i64, buffer: *mut c_void, capacity: usize, needed: *mut usize, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_dataset_field(dataset: *const bzna_dataset, index: u64, field: *const c_char, buffer: *mut c_void, capacity: usize, needed: *mut usize, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_dataset_read_image(dataset: *const bzna_dataset, index: u64, field: *const c_char, buffer: *mut c_void, capacity: usize, image: *mut bzna_image, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_dataset_image_info(dataset: *const bzna_dataset, index: u64, field: *const c_char, info: *mut bzna_image_info, struct_size: usize, err: *mut bzna_error) -> bzna_status;

    pub fn bzna_picture_init(picture: *mut bzna_picture, struct_size: usize);
    pub fn bzna_decoder_open(context: *mut bzna_context, out: *mut *mut bzna_decoder, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_decoder_close(decoder: *mut bzna_decoder) -> bzna_status;
    pub fn bzna_decoder_decode(decoder: *mut bzna_decoder, image: *const bzna_image, picture: *mut bzna_picture, err: *mut bzna_error) -> bzna_status;

    pub fn bzna_random_philox(counter: *const u32, key: *const u32, out: *mut u32);
    pub fn bzna_random_init(random: *mut bzna_random, seed: u64, epoch: u64, sample: u64, operation: u32);
    pub fn bzna_random_fork(random: *mut bzna_random, view: u32, occurrence: u64);
    pub fn bzna_random_u32(random: *mut bzna_random) -> u32;
    pub fn bzna_random_uniform(random: *mut bzna_random, lo: f64, hi: f64) -> f64;
    pub fn bzna_order_permute(seed: u64, epoch: u64, count: u64, position: u64) -> u64;

    pub fn bzna_transform_init(transform: *mut bzna_transform, struct_size: usize);
    pub fn bzna_output_init(output: *mut bzna_output, struct_size: usize);
    pub fn bzna_picture_render(picture: *const bzna_picture, transform: *const bzna_transform, output: *const bzna_output, dst: *mut c_void, dst_bytes: usize, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_affine_init(affine: *mut bzna_affine, struct_size: usize);
    pub fn bzna_affine_matrix(affine: *const bzna_affine, homography: *mut f64, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_homography_multiply(a: *const f64, b: *const f64, out: *mut f64);
    pub fn bzna_warp_init(warp: *mut bzna_warp, struct_size: usize);
    pub fn bzna_warp_draw(random: *mut bzna_random, warp: *const bzna_warp, in_width: u32, in_height: u32, out_width: u32, out_height: u32, homography: *mut f64, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_jitter_init(jitter: *mut bzna_jitter, struct_size: usize);
    pub fn bzna_jitter_draw(random: *mut bzna_random, jitter: *const bzna_jitter, transform: *mut bzna_transform, err: *mut bzna_error) -> bzna_status;

    pub fn bzna_loader_config_init(config: *mut bzna_loader_config, struct_size: usize);
    pub fn bzna_extra_output_init(output: *mut bzna_extra_output, struct_size: usize);
    pub fn bzna_loader_open(context: *mut bzna_context, dataset: *mut bzna_dataset, config: *const bzna_loader_config, out: *mut *mut bzna_loader, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_loader_close(loader: *mut bzna_loader) -> bzna_status;
    pub fn bzna_loader_next(loader: *mut bzna_loader, timeout_ns: i64, batch: *mut *mut bzna_batch, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_loader_stop(loader: *mut bzna_loader, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_loader_reset(loader: *mut bzna_loader, epoch: u64, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_loader_save(loader: *mut bzna_loader, state: *mut bzna_loader_state, struct_size: usize, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_loader_restore(loader: *mut bzna_loader, state: *const bzna_loader_state, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_loader_get_info(loader: *mut bzna_loader, info: *mut bzna_loader_info, struct_size: usize, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_loader_statistics(loader: *mut bzna_loader, stats: *mut bzna_statistics, struct_size: usize, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_loader_tensor(loader: *mut bzna_loader, number: u32, tensor: *mut bzna_tensor, struct_size: usize, err: *mut bzna_error) -> bzna_status;

    pub fn bzna_batch_get_info(batch: *const bzna_batch, info: *mut bzna_batch_info, struct_size: usize, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_batch_tensor(batch: *const bzna_batch, name: *const c_char, tensor: *mut bzna_tensor, struct_size: usize, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_batch_bytes(batch: *const bzna_batch, name: *const c_char, slot: u32, data: *mut *const c_void, size: *mut u64, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_batch_error(batch: *const bzna_batch, slot: u32, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_batch_slice(batch: *const bzna_batch, slice: u32, data: *mut *mut c_void, count: *mut u32, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_batch_release(batch: *mut bzna_batch) -> bzna_status;
    pub fn bzna_batch_move(batch: *mut bzna_batch, stream: *mut c_void, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_batch_to_dlpack(batch: *mut bzna_batch, name: *const c_char, version: u32, tensor: *mut *mut c_void, err: *mut bzna_error) -> bzna_status;

    pub fn bzna_writer_config_init(config: *mut bzna_writer_config, struct_size: usize);
    pub fn bzna_field_value_init(value: *mut bzna_field_value, struct_size: usize);
    pub fn bzna_writer_sample_init(sample: *mut bzna_writer_sample, struct_size: usize);
    pub fn bzna_writer_open(context: *mut bzna_context, path: *const c_char, config: *const bzna_writer_config, out: *mut *mut bzna_writer, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_writer_open_sink(context: *mut bzna_context, sink: *const bzna_sink, config: *const bzna_writer_config, out: *mut *mut bzna_writer, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_writer_add(writer: *mut bzna_writer, sample: *const bzna_writer_sample, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_writer_add_at(writer: *mut bzna_writer, index: u64, sample: *const bzna_writer_sample, timeout_ns: i64, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_writer_finish(writer: *mut bzna_writer, err: *mut bzna_error) -> bzna_status;
    pub fn bzna_writer_close(writer: *mut bzna_writer) -> bzna_status;
}

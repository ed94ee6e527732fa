//! Pictures for training neural networks, decoded as fast as the hardware can: bindings for the C library of benzina.h, whose
//! comment is the manual.
//!
//! ```no_run
//! # fn main() -> benzina::Result<()> {
//! use benzina::{Context, ContextConfig};
//!
//! let ctx = Context::new(ContextConfig::default())?;
//! let data = ctx.open("train.bzna")?;
//! for batch in data.loader().batch_size(256).size(224, 224).shuffle(1234).random_resized_crop().open()? {
//!     let batch = batch?;
//!     if batch.failed() > 0 {
//!         eprintln!("{} of {} samples failed", batch.failed(), batch.count());
//!     }
//!     let (pixels, targets): (&[f32], &[i64]) = (batch.image(), batch.targets());
//!     # let _ = (pixels, targets);
//! }
//! # Ok(())
//! # }
//! ```
//!
//! If there is a GPU, it decodes and warps. Batches are in host memory in any case, because slices need host memory. For batches that stay
//! on the device, ask for [`Device::Auto`] or [`Device::Cuda`] ([`LoaderBuilder::device`]), and see [`Batch::device_image`].
//!
//! | type         | what it is                                                     | threads      |
//! |--------------|----------------------------------------------------------------|--------------|
//! | [`Context`]  | allocator, log, limits; a cheap handle, cloned as often as one likes | Send, Sync |
//! | [`Dataset`]  | the samples of an archive, or of several                       | Send, Sync   |
//! | [`Loader`]   | sampler, transforms and threads over a data set; yields batches | Send, Sync  |
//! | [`Batch`]    | pictures and targets, on loan from a loader until it is dropped | Send, Sync  |
//! | [`Decoder`]  | decodes single pictures                                        | Send         |
//! | [`Writer`]   | writes an archive                                              | Send, Sync   |
//!
//! Objects keep alive what they were made from, so that they may be dropped in any order: a batch outlives its loader, a loader its
//! data set. Slices of a batch or a decoder are borrowed from it, which the compiler checks.
//!
//! Callbacks may panic: the panic ends at the border to C and fails the call that ran the callback. A panic of a [`Provider`] fails one
//! sample. A panic of a loader's closure is resumed in the call that asks the loader for the batch: such a fault ends the run, unless
//! [`LoaderBuilder::on_callback_error`] says otherwise. Objects of this crate that are dropped inside a callback cannot be closed there
//! (the library refuses), and are leaked.

#![warn(missing_debug_implementations)]

/// The README's program is compiled with the tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

mod augment;
mod formats;
mod host;
#[doc(hidden)]
#[macro_use]
pub mod layout;
mod loader;
mod own_codec;
mod picture;
mod provider;
#[rustfmt::skip] // made by `make bindings`
pub mod raw;
mod rules;
#[rustfmt::skip] // likewise
mod settings;

#[cfg(feature = "stream")]
pub mod stream;

pub use augment::{Op, Policy, PolicyApply};
pub use host::{Seekable, Source};
pub use loader::{
    Batch, Batches, Channels, DecodeWith, Drawing, Dtype, Filter, LastBatch, Layout, Loader, LoaderBuilder, Next, OnCallbackError, OnError,
    Output, Plane, State, Weighting,
};
pub use own_codec::{OwnCodec, Pixels, Planes, Rectangle, Shape, Wrapped};
pub use picture::{Codec, Decoder, Image, Crops, Matrix, Picture, Random, Sample, Split, Value, Writer, WriterOptions};
pub use provider::{Kind, Place, Provider, ProviderField, ValueWriter};
pub use raw::bzna_codec_info as CodecInfo;
pub use raw::bzna_dataset_info as DatasetInfo;
pub use raw::bzna_device_info as DeviceInfo;
pub use raw::bzna_drawn as Drawn;
pub use raw::bzna_field_info as FieldInfo;
pub use raw::bzna_geometry as Geometry;
pub use raw::bzna_image_info as ImageInfo;
pub use raw::bzna_jitter as Jitter;
pub use raw::bzna_loader_info as LoaderInfo;
pub use raw::bzna_mxnet as Mxnet;
pub use raw::bzna_operation as Operation;
pub use raw::bzna_sample_info as SampleInfo;
pub use raw::bzna_stage_statistics as StageStatistics;
pub use raw::bzna_statistics as Statistics;
pub use raw::bzna_tensor as Tensor;
pub use raw::bzna_transform as Transform;
pub use raw::bzna_warp as Warp;
pub use rules::{Number, Rule, RuleInput};

use std::alloc::GlobalAlloc;
use std::ffi::{c_void, CStr, CString};
use std::fmt;
use std::io::{Read, Seek, Write};
use std::mem::size_of;
use std::path::Path;
use std::ptr::{self, NonNull};
use std::sync::Arc;

pub type Result<T, E = Error> = std::result::Result<T, E>;

// ---- Errors ---------------------------------------------------------------------------------------------------------------------

/// A status of the library: 0, a positive note, or a negative error. The numbers never change.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Status(pub i32);

macro_rules! statuses {
    ($($name:ident = $raw:ident;)*) => { impl Status { $(pub const $name: Status = Status(raw::$raw);)* } };
}

statuses! {
    OK = BZNA_OK;
    ARGUMENT = BZNA_E_ARGUMENT;
    STRUCT_SIZE = BZNA_E_STRUCT_SIZE;
    RANGE = BZNA_E_RANGE;
    STATE = BZNA_E_STATE;
    BUFFER = BZNA_E_BUFFER;
    CALLBACK = BZNA_E_CALLBACK;
    STOPPED = BZNA_E_STOPPED;
    UNSUPPORTED = BZNA_E_UNSUPPORTED;
    MEMORY = BZNA_E_MEMORY;
    NOT_FOUND = BZNA_E_NOT_FOUND;
    IO = BZNA_E_IO;
    THREAD = BZNA_E_THREAD;
    FORMAT = BZNA_E_FORMAT;
    TRUNCATED = BZNA_E_TRUNCATED;
    BOX = BZNA_E_BOX;
    LIMIT = BZNA_E_LIMIT;
    NO_SAMPLES = BZNA_E_NO_SAMPLES;
    UNFINISHED = BZNA_E_UNFINISHED;
    CODEC = BZNA_E_CODEC;
    DECODE = BZNA_E_DECODE;
    MISMATCH = BZNA_E_MISMATCH;
    DEVICE = BZNA_E_DEVICE;
    DEVICE_LOST = BZNA_E_DEVICE_LOST;
}

impl Status {
    /// "BZNA_E_BOX"; "BZNA_?" for a number that the library does not know.
    pub fn name(self) -> &'static str {
        // SAFETY: a string constant of the library, ASCII.
        unsafe { CStr::from_ptr(raw::bzna_status_name(self.0)) }.to_str().unwrap_or("BZNA_?")
    }

    /// "a box contradicts the format"
    pub fn text(self) -> &'static str {
        // SAFETY: as above.
        unsafe { CStr::from_ptr(raw::bzna_status_text(self.0)) }.to_str().unwrap_or("?")
    }
}

impl fmt::Debug for Status {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}({})", self.name(), self.0)
    }
}

/// An error: its status, message and place.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Error {
    pub status: Status,
    /// Names file, box or field: "train.bzna: moov/trak\[2\]/mdia/minf/stbl/stsz at byte 1945002: ..."
    pub message: String,
    /// In the file, of the box or field at fault.
    pub byte_offset: Option<u64>,
    /// errno, or the code of the decoder or driver; 0 when there is none.
    pub native_code: i32,
    /// Type of the box at fault.
    pub fourcc: Option<[u8; 4]>,
}

impl Error {
    /// An error of an [`OwnCodec`]'s.
    pub fn of(status: Status, message: impl Into<String>) -> Self {
        Error::new(status.0, message)
    }

    fn new(status: i32, message: impl Into<String>) -> Self {
        Error { status: Status(status), message: message.into(), byte_offset: None, native_code: 0, fourcc: None }
    }

    fn from_raw(status: i32, err: &raw::bzna_error) -> Self {
        Error {
            status: Status(status),
            message: text(&err.message),
            byte_offset: (err.byte_offset != raw::BZNA_NO_OFFSET).then_some(err.byte_offset),
            native_code: err.native_code,
            fourcc: (err.fourcc != 0).then(|| err.fourcc.to_be_bytes()),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}

/// A NUL-terminated field of a struct as text.
pub(crate) fn text(field: &[std::ffi::c_char]) -> String {
    let bytes: Vec<u8> = field.iter().take_while(|c| **c != 0).map(|c| c.to_ne_bytes()[0]).collect();
    String::from_utf8_lossy(&bytes).into_owned()
}

/// A slice that C tells by pointer and count. Where there is nothing, the pointer may be null, which a slice's must not be.
///
/// # Safety
///
/// As of [`std::slice::from_raw_parts`], but for that.
pub(crate) unsafe fn slice_of<'a, T>(first: *const T, count: usize) -> &'a [T] {
    if count == 0 {
        &[]
    } else {
        std::slice::from_raw_parts(first, count)
    }
}

/// The same, to be changed.
///
/// # Safety
///
/// As of [`std::slice::from_raw_parts_mut`], but for that.
pub(crate) unsafe fn slice_of_mut<'a, T>(first: *mut T, count: usize) -> &'a mut [T] {
    if count == 0 {
        &mut []
    } else {
        std::slice::from_raw_parts_mut(first, count)
    }
}

/// Calls a function that fills in a bzna_error; notes (positive) are passed on.
pub(crate) fn call(function: impl FnOnce(*mut raw::bzna_error) -> raw::bzna_status) -> Result<raw::bzna_status> {
    let mut err = raw::bzna_error::default();
    // SAFETY: the struct is as long as it says.
    unsafe { raw::bzna_error_init(&mut err, size_of::<raw::bzna_error>()) };
    let status = function(&mut err);
    if status < 0 {
        Err(Error::from_raw(status, &err))
    } else {
        Ok(status)
    }
}

/// Calls a function that makes an object.
pub(crate) fn make<T>(function: impl FnOnce(*mut *mut T, *mut raw::bzna_error) -> raw::bzna_status) -> Result<NonNull<T>> {
    let mut out = ptr::null_mut();
    call(|err| function(&mut out, err))?;
    NonNull::new(out).ok_or_else(|| Error::new(raw::BZNA_E_STATE, "the library made no object and no error"))
}

pub(crate) fn c_string(text: &str) -> Result<CString> {
    CString::new(text).map_err(|_| Error::new(raw::BZNA_E_ARGUMENT, format!("{text:?} has a NUL inside")))
}

pub(crate) fn c_path(path: &Path) -> Result<CString> {
    #[cfg(unix)]
    let bytes = Some(std::os::unix::ffi::OsStrExt::as_bytes(path.as_os_str()).to_vec());
    #[cfg(not(unix))]
    let bytes = path.to_str().map(|path| path.as_bytes().to_vec());
    bytes
        .and_then(|bytes| CString::new(bytes).ok())
        .ok_or_else(|| Error::new(raw::BZNA_E_ARGUMENT, format!("{}: not a path that the library can be given", path.display())))
}

// ---- Contexts -------------------------------------------------------------------------------------------------------------------

/// How grave a message of the log is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum LogLevel {
    Error = 1,
    Warning = 2,
    Info = 3,
    Debug = 4,
}

impl LogLevel {
    pub(crate) fn from_raw(level: i32) -> Self {
        match level {
            raw::BZNA_LOG_ERROR => LogLevel::Error,
            raw::BZNA_LOG_WARNING => LogLevel::Warning,
            raw::BZNA_LOG_INFO => LogLevel::Info,
            _ => LogLevel::Debug,
        }
    }
}

/// A device: a context is made for one, and batches are in its memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Device {
    /// The GPU if there is one that the library can use, else the processor.
    #[default]
    Auto,
    /// The processor and its memory.
    Cpu,
    /// A CUDA device by its ordinal, counted from 0.
    Cuda(u16),
}

impl From<Device> for raw::bzna_device {
    fn from(device: Device) -> Self {
        match device {
            Device::Auto => raw::bzna_device { kind: raw::BZNA_DEVICE_AUTO, ordinal: 0 },
            Device::Cpu => raw::bzna_device { kind: raw::BZNA_DEVICE_CPU, ordinal: 0 },
            Device::Cuda(ordinal) => raw::bzna_device { kind: raw::BZNA_DEVICE_CUDA, ordinal: ordinal.into() },
        }
    }
}

impl From<raw::bzna_device> for Device {
    fn from(device: raw::bzna_device) -> Self {
        match device.kind {
            raw::BZNA_DEVICE_CUDA => Device::Cuda(device.ordinal as u16),
            raw::BZNA_DEVICE_CPU => Device::Cpu,
            _ => Device::Auto,
        }
    }
}

/// The settings of a context.
#[derive(Default)]
pub struct ContextConfig {
    config: raw::bzna_context_config,
    allocator: Option<Box<host::Allocator>>,
    log: Option<Box<host::LogFn>>,
    codecs: Vec<Result<own_codec::Registered>>,
}

impl fmt::Debug for ContextConfig {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ContextConfig").field("config", &self.config).finish_non_exhaustive()
    }
}

impl ContextConfig {
    /// Default [`Device::Auto`]. With [`Device::Cuda`], [`Context::new`] fails if that device cannot be used.
    pub fn device(mut self, device: Device) -> Self {
        self.config.device = device.into();
        self
    }

    /// On the processor alone: the same as [`Device::Cpu`].
    pub fn cpu(self) -> Self {
        self.device(Device::Cpu)
    }

    /// On a CUDA device: the same as [`Device::Cuda`].
    pub fn cuda(self, ordinal: u16) -> Self {
        self.device(Device::Cuda(ordinal))
    }

    /// The CUcontext to work in, on its device, instead of the device's primary context.
    ///
    /// # Safety
    ///
    /// It must be one, and live as long as this context and all that is made from it.
    pub unsafe fn cuda_context(mut self, cuda_context: *mut c_void) -> Self {
        self.config.cuda_context = cuda_context;
        self
    }

    /// Where the library gets its memory from: [`std::alloc::System`], or any other. It is called from several threads at once, and
    /// must not call into this crate. All blocks are aligned to 64 bytes.
    pub fn allocator(mut self, allocator: impl GlobalAlloc + Send + Sync + 'static) -> Self {
        self.allocator = Some(Box::new(allocator));
        self
    }

    /// A codec that is asked for pictures that no kind of the library's takes, after those that were given before.
    pub fn codec(mut self, codec: impl OwnCodec) -> Self {
        self.codecs.push(own_codec::Registered::new(codec));
        self
    }

    /// A codec that is written in C, as those of `examples/formats` are, after those that were given before.
    ///
    /// # Safety
    /// It keeps the rules of `bzna_codec` in benzina.h, and its name and extensions live until the context is made.
    pub unsafe fn codec_in_c(mut self, codec: raw::bzna_codec) -> Self {
        self.codecs.push(Ok(own_codec::Registered::in_c(codec)));
        self
    }

    /// Who gets the messages up to `level`: on the thread that calls into this crate, inside the call. Different threads may call at once.
    pub fn log(mut self, level: LogLevel, log: impl Fn(LogLevel, Status, &str) + Send + Sync + 'static) -> Self {
        self.config.log_level = level as i32;
        self.log = Some(Box::new(log));
        self
    }
}

/// CUDA devices of this machine; an error if there is no driver ([`Status::DEVICE`]), or the library was built without a GPU path
/// ([`Status::UNSUPPORTED`]). Starts CUDA in this process.
pub fn device_count() -> Result<u32> {
    let mut all = DeviceInfo::default();
    // SAFETY: a struct of its own size is written.
    call(|err| unsafe { raw::bzna_context_device_info(ptr::null_mut(), &mut all, size_of::<DeviceInfo>(), err) }).map(|_| all.device_count)
}

impl DeviceInfo {
    pub fn name(&self) -> String {
        text(&self.name)
    }

    /// Why NVDEC cannot be used; None if it can.
    pub fn video_error(&self) -> Option<Error> {
        (self.video < 0).then(|| Error::new(self.video, text(&self.message)))
    }
}

impl FieldInfo {
    pub fn name(&self) -> String {
        text(&self.name)
    }
}

impl Tensor {
    pub fn name(&self) -> String {
        text(&self.name)
    }

    /// The outermost dimension first.
    pub fn shape(&self) -> Vec<usize> {
        self.shape.iter().take(self.dimensions as usize).map(|n| *n as usize).collect()
    }

    /// The device of the address `data`.
    pub fn device(&self) -> Device {
        self.device.into()
    }
}

impl Statistics {
    /// A sentence that names the limiting stage, and the setting that would change it.
    pub fn advice(&self) -> String {
        text(&self.advice)
    }

    /// The first sample that failed: its index in the data set, its status and its message.
    pub fn first_failed(&self) -> Option<(u64, Status, String)> {
        let status = Status(self.first_failed_status);
        (status != Status::OK).then(|| (self.first_failed_index, status, text(&self.first_failed_message)))
    }
}

impl LoaderInfo {
    /// "libavcodec 59.37.100", "NVDEC of NVIDIA H100 80GB HBM3"
    pub fn decoder_name(&self) -> String {
        text(&self.decoder_name)
    }

    /// Why this one, and why not the other.
    pub fn decoder_reason(&self) -> String {
        text(&self.decoder_reason)
    }

    /// Which picture of each sample is decoded: "image", "thumb".
    pub fn image_field(&self) -> String {
        text(&self.image_field)
    }

    /// Why that field.
    pub fn image_field_reason(&self) -> String {
        text(&self.image_field_reason)
    }
}

/// Allocator, log, limits and device, shared by everything below. Clones are the same context.
#[derive(Clone, Debug)]
pub struct Context(Arc<ContextInner>);

struct ContextInner {
    raw: NonNull<raw::bzna_context>,
    /// Those of the context's own codecs, with blanks between them: pairs list files by them.
    extensions: CString,
    _host: Arc<host::Host>,
}

// SAFETY: any thread may use a context, concurrently (chapter 4 of the manual); the host's callbacks are Send + Sync.
unsafe impl Send for ContextInner {}
unsafe impl Sync for ContextInner {}

impl fmt::Debug for ContextInner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Context").field("raw", &self.raw).finish_non_exhaustive()
    }
}

impl Drop for ContextInner {
    fn drop(&mut self) {
        // SAFETY: ours, and closed once. Refused inside a callback: the context then lives on, and so must its host.
        if unsafe { raw::bzna_context_close(self.raw.as_ptr()) } < 0 {
            std::mem::forget(self._host.clone());
        }
    }
}

/// Settings for opening a data set.
#[derive(Clone, Copy, Debug, Default)]
pub struct DatasetOptions<'a> {
    /// Its name in error messages; default: the path, "source" or "provider".
    pub name: Option<&'a str>,
    /// "train", "validation", "test": only the samples of that split. Default: all.
    pub split: Option<&'a str>,
    /// "archive", "folder", "tar", ...: the kind that it must be. Default: any.
    pub format: Option<&'a str>,
    /// The field of integers, or an mp4's track of them, that is the target. Default: the usual one.
    pub target: Option<&'a str>,
    /// The path of a list of samples: the files of a folder, or the labels of a .rec.
    pub list: Option<&'a str>,
    /// A folder's class folders, in the order of their numbers. Default: all.
    pub classes: &'a [&'a str],
    /// Class folders whose names are numbers are ordered by them, instead of as text.
    pub numeric_classes: bool,
    /// Class folders without pictures are classes, too; otherwise they are refused.
    pub empty_classes: bool,
    /// Pictures are not rotated as their EXIF data says.
    pub ignore_orientation: bool,
    /// Pictures with a palette are delivered as their indices, as gray, instead of colors.
    pub palette_indices: bool,
    /// Folders in the folder whose files of the same names make one sample: "images,masks", or "image=a/images,mask=a/masks".
    pub pairs: Option<&'a str>,
    /// The file is a record file; struct_size need not be set.
    pub records: Option<&'a raw::bzna_records>,
    /// The text of the index (.idx) of one tar or .rec, in place of the file next to it. Default: none.
    pub index: &'a [u8],
    /// How many bytes of record files may be held in memory, so that they are not read again; 1: none. 0: 256 MiB. See
    /// `bzna_formats_config.hold_bytes`.
    pub hold_bytes: u64,
}

impl Context {
    pub fn new(config: ContextConfig) -> Result<Context> {
        let ContextConfig { mut config, allocator, log, codecs } = config;
        let mut codecs = codecs.into_iter().collect::<Result<Vec<_>>>()?;
        let raw_codecs: Vec<_> = codecs.iter().map(|codec| codec.raw).chain(formats::codecs().iter().copied()).collect();
        // SAFETY: the texts of codecs live until the context is made.
        let extensions =
            codecs.iter().filter(|codec| !codec.raw.extensions.is_null()).map(|codec| unsafe { CStr::from_ptr(codec.raw.extensions) });
        let extensions = CString::new(extensions.map(CStr::to_bytes).collect::<Vec<_>>().join(&b' ')).unwrap_or_default();
        // Behind an Arc from the start: C is given its address, which a move of a Box would put into question.
        let host = Arc::new(host::Host { allocator, log });
        let user: *mut c_void = Arc::as_ptr(&host).cast_mut().cast();
        config.struct_size = size_of::<raw::bzna_context_config>() as u32;
        if host.allocator.is_some() {
            config.allocator = raw::bzna_allocator { user, alloc: Some(host::alloc), release: Some(host::release) };
        }
        if host.log.is_some() {
            config.log = Some(host::log);
            config.log_user = user;
        }
        if !raw_codecs.is_empty() {
            config.own_codecs = raw::bzna_own_codecs { ptr: raw_codecs.as_ptr(), count: raw_codecs.len() as u64, ..Default::default() };
        }
        // SAFETY: the config is whole, and `host` lives as long as the context, which every object of this crate keeps alive.
        let raw = make(|out, err| unsafe { raw::bzna_context_open(&config, out, err) })?;
        codecs.iter_mut().for_each(|codec| codec.taken = true); // the library closes them
        Ok(Context(Arc::new(ContextInner { raw, extensions, _host: host })))
    }

    /// Opens an archive, or another kind of data set: a folder of pictures, a tar shard, a .rec. If the file is shortened or overwritten
    /// while the data set is open, its samples fail, and the process continues.
    pub fn open(&self, path: impl AsRef<Path>) -> Result<Dataset> {
        self.open_with(path, DatasetOptions::default())
    }

    pub fn open_with(&self, path: impl AsRef<Path>, options: DatasetOptions<'_>) -> Result<Dataset> {
        let path = c_path(path.as_ref())?;
        with_options(self, options, |config| {
            // SAFETY: strings and config live for the call; the library copies them.
            make(|out, err| unsafe { raw::bzna_formats_open(self.as_raw(), path.as_ptr(), config, out, err) })
        })
        .map(|raw| Dataset { raw, context: self.clone() })
    }

    /// Opens several files, laid end to end.
    pub fn open_list(&self, paths: &[impl AsRef<Path>], options: DatasetOptions<'_>) -> Result<Dataset> {
        let paths = paths.iter().map(|path| c_path(path.as_ref())).collect::<Result<Vec<_>>>()?;
        let paths: Vec<_> = paths.iter().map(|path| path.as_ptr()).collect();
        let count = u32::try_from(paths.len()).map_err(|_| Error::new(raw::BZNA_E_LIMIT, "open_list: too many files"))?;
        with_options(self, options, |config| {
            // SAFETY: as above.
            make(|out, err| unsafe { raw::bzna_formats_open_list(self.as_raw(), paths.as_ptr(), count, config, out, err) })
        })
        .map(|raw| Dataset { raw, context: self.clone() })
    }

    /// Opens an archive that a source reads; files and byte slices are sources, too.
    pub fn open_source(&self, source: impl Source + 'static, options: DatasetOptions<'_>) -> Result<Dataset> {
        let source = host::source(source);
        let opened = with_options(self, options, |config| {
            // SAFETY: the callbacks fit the user pointer; on success the data set closes it, exactly once.
            make(|out, err| unsafe { raw::bzna_formats_open_source(self.as_raw(), &source, config, out, err) })
        });
        if let (Err(_), Some(close)) = (&opened, source.close) {
            // SAFETY: "on failure the caller still does".
            unsafe { close(source.user) };
        }
        opened.map(|raw| Dataset { raw, context: self.clone() })
    }

    /// Opens an archive behind a reader with one position, such as a [`std::io::Cursor`]: one read runs at a time.
    pub fn open_reader(&self, reader: impl Read + Seek + Send + 'static) -> Result<Dataset> {
        self.open_source(Seekable::new(reader), DatasetOptions::default())
    }

    /// Opens samples that a program gives by itself.
    pub fn open_provider(&self, provider: impl Provider + 'static, options: DatasetOptions<'_>) -> Result<Dataset> {
        provider::open(provider, |provider| {
            with_options(self, options, |config| {
                // SAFETY: the callbacks fit the user pointer; the library copies the struct and what it points to.
                make(|out, err| unsafe { raw::bzna_dataset_open_provider(self.as_raw(), provider, (*config).dataset, out, err) })
            })
        })
        .map(|raw| Dataset { raw, context: self.clone() })
    }

    /// Lays data sets end to end: the whole keeps its parts alive. All must be of this context.
    pub fn concat(&self, parts: &[&Dataset]) -> Result<Dataset> {
        // The parts' archives go on using their own contexts, which this one's handle would not keep.
        if parts.iter().any(|part| !Arc::ptr_eq(&part.context.0, &self.0)) {
            return Err(Error::new(raw::BZNA_E_ARGUMENT, "concat: a part is of another context"));
        }
        let parts: Vec<*mut raw::bzna_dataset> = parts.iter().map(|part| part.raw.as_ptr()).collect();
        let count = u32::try_from(parts.len()).map_err(|_| Error::new(raw::BZNA_E_LIMIT, "concat: too many parts"))?;
        // SAFETY: live data sets; the array is read during the call.
        let raw = make(|out, err| unsafe { raw::bzna_dataset_concat(self.as_raw(), parts.as_ptr(), count, out, err) })?;
        Ok(Dataset { raw, context: self.clone() })
    }

    /// A decoder of single pictures, without a loader.
    pub fn decoder(&self) -> Result<Decoder> {
        Decoder::new(self)
    }

    /// Begins an archive in a file, which is emptied if it is there.
    pub fn create(&self, path: impl AsRef<Path>) -> Result<Writer<'static>> {
        self.create_with(path, WriterOptions::default())
    }

    pub fn create_with(&self, path: impl AsRef<Path>, options: WriterOptions<'_>) -> Result<Writer<'static>> {
        Writer::create(self, path.as_ref(), options)
    }

    /// Begins an archive anywhere; pass `&mut sink` to have it back afterwards.
    pub fn create_in<'a>(&self, sink: impl Write + Seek + Send + 'a) -> Result<Writer<'a>> {
        self.create_in_with(sink, WriterOptions::default())
    }

    pub fn create_in_with<'a>(&self, sink: impl Write + Seek + Send + 'a, options: WriterOptions<'_>) -> Result<Writer<'a>> {
        Writer::create_in(self, sink, options)
    }

    /// The context's CUDA device; an error that says why the processor works instead, if there is none.
    pub fn device(&self) -> Result<DeviceInfo> {
        let mut info = DeviceInfo::default();
        // SAFETY: a live context; the struct is as long as it says, here and below.
        call(|err| unsafe { raw::bzna_context_device_info(self.as_raw(), &mut info, size_of::<DeviceInfo>(), err) }).map(|_| info)
    }

    /// The abilities of the device's NVDEC with pictures of a kind: chroma_format 0 (gray), 1 (4:2:0), 2 (4:2:2) or 3 (4:4:4), and bits a
    /// sample.
    pub fn codec(&self, codec: Codec, chroma_format: u32, depth: u32) -> Result<CodecInfo> {
        let mut info = CodecInfo::default();
        let size = size_of::<CodecInfo>();
        call(|err| unsafe { raw::bzna_context_codec_info(self.as_raw(), codec as u32, chroma_format, depth, &mut info, size, err) })
            .map(|_| info)
    }

    /// For the functions of [`raw`]: valid as long as this handle or a clone of it lives.
    pub fn as_raw(&self) -> *mut raw::bzna_context {
        self.0.raw.as_ptr()
    }

    /// Called when the library refused to close an object: the object continues to use its context, which must then never end.
    pub(crate) fn leak(&self) {
        std::mem::forget(self.clone());
    }
}

fn with_options<T>(
    context: &Context,
    options: DatasetOptions<'_>,
    open: impl FnOnce(*const raw::bzna_formats_config) -> Result<T>,
) -> Result<T> {
    let [name, split, format, list, pairs, target] =
        [options.name, options.split, options.format, options.list, options.pairs, options.target]
            .map(|text| text.map(c_string).transpose());
    let classes = options.classes.iter().map(|class| c_string(class)).collect::<Result<Vec<_>>>()?;
    let classes: Vec<_> = classes.iter().map(|class| class.as_ptr()).collect();
    let (name, split, format, list, pairs, target) = (name?, split?, format?, list?, pairs?, target?);
    let pointer = |text: &Option<CString>| text.as_ref().map_or(ptr::null(), |text| text.as_ptr());
    // The caller's struct_size is nobody's word: C would read as many bytes as it says.
    let records = options.records.map(|records| raw::bzna_records { struct_size: size_of::<raw::bzna_records>() as u32, ..*records });
    let config = raw::bzna_dataset_config {
        struct_size: size_of::<raw::bzna_dataset_config>() as u32,
        name: pointer(&name),
        split: pointer(&split),
        format: pointer(&format),
        target: pointer(&target),
        classes: if classes.is_empty() { ptr::null() } else { classes.as_ptr() },
        class_count: classes.len() as u32,
        class_order: options.numeric_classes.into(),
        allow_empty: options.empty_classes.into(),
        orientation: options.ignore_orientation.into(),
        palette: options.palette_indices.into(),
        index: if options.index.is_empty() { ptr::null() } else { options.index.as_ptr().cast() },
        index_bytes: options.index.len() as u64,
        ..Default::default()
    };
    open(&raw::bzna_formats_config {
        struct_size: size_of::<raw::bzna_formats_config>() as u32,
        dataset: &config,
        pairs: pointer(&pairs),
        extensions: context.0.extensions.as_ptr(),
        list: pointer(&list),
        records: records.as_ref().map_or(ptr::null(), ptr::from_ref),
        hold_bytes: options.hold_bytes,
        ..Default::default()
    })
}

/// None for an error of this status.
fn optional<T>(found: Result<T>, absent: Status) -> Result<Option<T>> {
    match found {
        Err(error) if error.status == absent => Ok(None),
        found => found.map(Some),
    }
}

/// What a function gives that is told a buffer and its size, and tells the size that it needs.
fn sized(mut get: impl FnMut(*mut c_void, usize, *mut usize, *mut raw::bzna_error) -> raw::bzna_status) -> Result<Vec<u8>> {
    let mut buffer = vec![0u8; 256];
    loop {
        let mut needed = 0;
        let (dst, size) = (buffer.as_mut_ptr().cast(), buffer.len());
        match call(|err| get(dst, size, &mut needed, err)) {
            Err(error) if error.status == Status::BUFFER && needed > buffer.len() => buffer.resize(needed, 0),
            Err(error) => return Err(error),
            Ok(_) => {
                buffer.truncate(needed);
                return Ok(buffer);
            }
        }
    }
}

// ---- Data sets ------------------------------------------------------------------------------------------------------------------

/// The samples of an archive, a folder, tar shards, ..., and their fields: pictures, targets, names. It never changes.
#[derive(Debug)]
pub struct Dataset {
    raw: NonNull<raw::bzna_dataset>,
    context: Context,
}

// SAFETY: any thread may use a dataset, concurrently (chapter 4 of the manual); sources are Send + Sync.
unsafe impl Send for Dataset {}
unsafe impl Sync for Dataset {}

impl Dataset {
    /// The number of samples.
    pub fn len(&self) -> u64 {
        // SAFETY: a live data set, here and below.
        unsafe { raw::bzna_dataset_count(self.as_raw()) }
    }

    /// False: an archive without samples is refused.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    pub fn info(&self) -> Result<DatasetInfo> {
        let mut info = DatasetInfo::default();
        call(|err| unsafe { raw::bzna_dataset_get_info(self.as_raw(), &mut info, size_of::<DatasetInfo>(), err) })?;
        Ok(info)
    }

    /// The names of a sample's fields: in an archive "image", "thumb", "target" and "name".
    pub fn fields(&self) -> Result<Vec<FieldInfo>> {
        let field = |number| {
            let mut info = FieldInfo::default();
            let size = size_of::<FieldInfo>();
            call(|err| unsafe { raw::bzna_dataset_field_info(self.as_raw(), number, &mut info, size, err) })?;
            Ok(info)
        };
        (0..self.info()?.field_count).map(field).collect()
    }

    /// The class of a sample; None if it has none.
    pub fn target(&self, index: u64) -> Result<Option<i64>> {
        let mut target = raw::BZNA_TARGET_NONE;
        call(|err| unsafe { raw::bzna_dataset_target(self.as_raw(), index, &mut target, err) })?;
        Ok((target != raw::BZNA_TARGET_NONE).then_some(target))
    }

    /// The name of a sample; None if it has none.
    pub fn name(&self, index: u64) -> Result<Option<String>> {
        let name = self.field(index, "name")?;
        Ok(name.map(|bytes| String::from_utf8_lossy(bytes.strip_suffix(b"\0").unwrap_or(&bytes)).into_owned()))
    }

    /// One field of a sample, by name; None if it has none. A picture is a stream of its own, an integer the bytes of an i64, text
    /// ends with a NUL.
    pub fn field(&self, index: u64, field: &str) -> Result<Option<Vec<u8>>> {
        let field = c_string(field)?;
        let found = sized(|dst, size, needed, err| unsafe {
            raw::bzna_dataset_field(self.as_raw(), index, field.as_ptr(), dst, size, needed, err)
        });
        optional(found, Status::NOT_FOUND)
    }

    /// The names of a folder's classes, in the order of their numbers; none if classes have no names.
    pub fn classes(&self) -> Result<Vec<String>> {
        let mut names = Vec::new();
        loop {
            let number = names.len() as i64;
            let found = sized(|dst, size, needed, err| unsafe { raw::bzna_dataset_class(self.as_raw(), number, dst, size, needed, err) });
            match optional(optional(found, Status::NOT_FOUND).map(Option::unwrap_or_default), Status::RANGE)? {
                Some(name) if !name.is_empty() => names.push(String::from_utf8_lossy(&name[..name.len() - 1]).into_owned()),
                _ => return Ok(names),
            }
        }
    }

    /// The place and the contents of a sample, without reading its pictures.
    pub fn sample(&self, index: u64) -> Result<raw::bzna_sample_ref> {
        let mut sample = raw::bzna_sample_ref::default();
        call(|err| unsafe { raw::bzna_dataset_sample(self.as_raw(), index, &mut sample, size_of::<raw::bzna_sample_ref>(), err) })?;
        Ok(sample)
    }

    /// The tracks of a sample's pictures: "bzna_input", "bzna_thumb".
    pub fn image_names(&self, index: u64) -> Result<Vec<String>> {
        let sample = self.sample(index)?;
        Ok(sample.image_names.iter().take(sample.image_count as usize).map(|name| text(name)).collect())
    }

    /// One coded picture of a sample: "image", "thumb", or one of [`image_names`](Dataset::image_names); None: the thumbnail if there is
    /// one, else the picture.
    pub fn image(&self, index: u64, field: Option<&str>) -> Result<Image> {
        Image::read(self, index, field)
    }

    /// The place of that picture, and how its container describes it, without its bytes.
    pub fn image_info(&self, index: u64, field: Option<&str>) -> Result<ImageInfo> {
        let field = field.map(c_string).transpose()?;
        let field = field.as_ref().map_or(ptr::null(), |field| field.as_ptr());
        let mut info = ImageInfo::default();
        let size = size_of::<ImageInfo>();
        call(|err| unsafe { raw::bzna_dataset_image_info(self.as_raw(), index, field, &mut info, size, err) })?;
        Ok(info)
    }

    /// The samples `first .. first + count`, as a data set: splits by position.
    pub fn range(&self, first: u64, count: u64) -> Result<Dataset> {
        let raw = make(|out, err| unsafe { raw::bzna_dataset_range(self.as_raw(), first, count, out, err) })?;
        Ok(Dataset { raw, context: self.context.clone() })
    }

    /// A loader over these samples, to be configured.
    pub fn loader(&self) -> LoaderBuilder<'_> {
        LoaderBuilder::new(Some(self))
    }

    pub fn context(&self) -> &Context {
        &self.context
    }

    /// For the functions of [`raw`]: valid as long as this data set lives.
    pub fn as_raw(&self) -> *mut raw::bzna_dataset {
        self.raw.as_ptr()
    }
}

impl Drop for Dataset {
    fn drop(&mut self) {
        // SAFETY: ours, and closed once.
        if unsafe { raw::bzna_dataset_close(self.raw.as_ptr()) } < 0 {
            self.context.leak();
        }
    }
}

//! Batches from tar shards that cannot seek: pipes, standard input, commands, gzip and zstd. With the feature `stream`, which compiles
//! `examples/stream`; `stream.h` there says all about windows, memory, ranks and resuming.

use crate::loader::Hooks;
use crate::{call, make, raw, Batch, Context, LoaderBuilder, Result, Status};
use std::ffi::{c_char, c_void, CStr, CString};
use std::fmt;
use std::mem::size_of;
use std::ptr::{self, NonNull};

#[repr(C)]
struct RawConfig {
    struct_size: u32,
    source_count: u32,
    sources: *const *const c_char,
    literal: u32,
    on_error: u32,
    loader: *const raw::bzna_loader_config,
    dataset: *const raw::bzna_dataset_config,
    memory_bytes: u64,
    samples_per_epoch: u64,
    rules: *const raw::bzna_rule,
    rule_count: u32,
    reserved0: u32,
    log: *const c_void,
    log_user: *mut c_void,
    reserved: [u64; 4],
}

/// The position of a run, and counts of what was read.
#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamInfo {
    struct_size: u32,
    /// Sources, braces expanded.
    pub shard_count: u32,
    /// Of the last batch.
    pub epoch: u64,
    /// Likewise, from 0.
    pub window: u64,
    /// 1: the last batch was the last of its epoch.
    pub last_of_epoch: u32,
    pub shards_left_out: u32,
    pub shards_read: u64,
    pub bytes_read: u64,
    /// Of the shards in memory.
    pub memory_bytes: u64,
    pub peak_bytes: u64,
    /// In batches that were delivered.
    pub samples: u64,
}

#[repr(C)]
#[derive(Clone, Copy, Debug, Default)]
struct RawState {
    struct_size: u32,
    version: u32,
    fingerprint: u64,
    epoch: u64,
    mark: [u64; 9],
    loader: raw::bzna_loader_state,
}

const STATE_BYTES: usize = size_of::<RawState>();

/// A place in a run: [`Stream::save`].
#[derive(Clone, Copy, Debug)]
pub struct StreamState(RawState);

impl StreamState {
    pub fn to_bytes(&self) -> [u8; STATE_BYTES] {
        // SAFETY: integers without padding.
        unsafe { std::mem::transmute(self.0) }
    }

    /// Any bytes: [`StreamOptions::resume`] refuses damaged ones.
    pub fn from_bytes(bytes: [u8; STATE_BYTES]) -> Self {
        // SAFETY: integers, so every bit pattern is one.
        StreamState(unsafe { std::mem::transmute::<[u8; STATE_BYTES], RawState>(bytes) })
    }
}

#[repr(C)]
struct RawStream {
    _private: [u8; 0],
}

extern "C" {
    fn bzna_stream_open(
        context: *mut raw::bzna_context,
        config: *const RawConfig,
        out: *mut *mut RawStream,
        err: *mut raw::bzna_error,
    ) -> raw::bzna_status;
    fn bzna_stream_wait(stream: *mut RawStream, timeout_ns: i64, err: *mut raw::bzna_error) -> raw::bzna_status;
    fn bzna_stream_next(
        stream: *mut RawStream,
        timeout_ns: i64,
        batch: *mut *mut raw::bzna_batch,
        err: *mut raw::bzna_error,
    ) -> raw::bzna_status;
    fn bzna_stream_get_info(stream: *mut RawStream, info: *mut StreamInfo, size: usize, err: *mut raw::bzna_error) -> raw::bzna_status;
    fn bzna_stream_source(stream: *const RawStream, index: u64) -> *const c_char;
    fn bzna_stream_save(stream: *mut RawStream, state: *mut RawState, size: usize, err: *mut raw::bzna_error) -> raw::bzna_status;
    fn bzna_stream_restore(stream: *mut RawStream, state: *const RawState, err: *mut raw::bzna_error) -> raw::bzna_status;
    fn bzna_stream_close(stream: *mut RawStream) -> raw::bzna_status;
}

/// Settings of a stream, besides its loader. Zeros are the defaults.
#[derive(Clone, Copy, Debug, Default)]
pub struct StreamOptions<'a> {
    /// Of all shards in memory, unpacked; 0: 1 GiB.
    pub memory_bytes: u64,
    /// Of all ranks together, so that each has the same number of batches; 0: each shard once.
    pub samples_per_epoch: u64,
    /// Shards that cannot be read are left out.
    pub leave_out: bool,
    /// Braces in sources are literal.
    pub literal: bool,
    /// The position from which the run continues.
    pub resume: Option<&'a StreamState>,
}

/// Batches of shards. An iterator, which ends after the last epoch or an error.
///
/// ```no_run
/// # fn main() -> benzina::Result<()> {
/// use benzina::stream::{settings, Stream, StreamOptions};
/// let context = benzina::Context::new(Default::default())?;
/// let loader = settings().batch_size(256).size(224, 224).shuffle(7).epochs(90);
/// let sources = ["pipe:curl -sf https://host/train-{000..146}.tar"];
/// for batch in Stream::open(&context, &sources, loader, StreamOptions::default())? {
///     let batch = batch?;
///     println!("{} pictures, {} of them failed", batch.count(), batch.failed());
/// }
/// # Ok(())
/// # }
/// ```
pub struct Stream {
    raw: NonNull<RawStream>,
    hooks: Option<Hooks>,
    context: Context,
    done: bool,
}

// SAFETY: another thread may take it over; it is used by one at a time, since all that waits takes &mut.
unsafe impl Send for Stream {}

impl fmt::Debug for Stream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stream").field("raw", &self.raw).finish_non_exhaustive()
    }
}

/// The settings of a stream's loader, as those of [`Dataset::loader`](crate::Dataset::loader).
pub fn settings() -> LoaderBuilder<'static> {
    LoaderBuilder::new(None)
}

impl Stream {
    /// Opens the shards, and waits until the first window is in memory.
    pub fn open<S: AsRef<str>>(context: &Context, sources: &[S], loader: LoaderBuilder<'_>, options: StreamOptions<'_>) -> Result<Stream> {
        let texts = sources.iter().map(|source| crate::c_string(source.as_ref())).collect::<Result<Vec<CString>>>()?;
        let pointers: Vec<_> = texts.iter().map(|text| text.as_ptr()).collect();
        let open = |loader: &mut raw::bzna_loader_config, rules: &[raw::bzna_rule]| {
            let config = RawConfig {
                struct_size: size_of::<RawConfig>() as u32,
                source_count: u32::try_from(pointers.len()).unwrap_or(u32::MAX),
                sources: pointers.as_ptr(),
                literal: options.literal.into(),
                on_error: options.leave_out.into(),
                loader,
                dataset: ptr::null(),
                memory_bytes: options.memory_bytes,
                samples_per_epoch: options.samples_per_epoch,
                rules: if rules.is_empty() { ptr::null() } else { rules.as_ptr() },
                rule_count: rules.len() as u32,
                reserved0: 0,
                log: ptr::null(),
                log_user: ptr::null_mut(),
                reserved: [0; 4],
            };
            // SAFETY: the config is read until bzna_stream_wait has returned; sources are copied.
            let raw = make(|out, err| unsafe { bzna_stream_open(context.as_raw(), &config, out, err) })?;
            // It closes the stream if what follows fails. The closures live in `loader` until then.
            let stream = Stream { raw, hooks: None, context: context.clone(), done: false };
            if let Some(state) = options.resume {
                call(|err| unsafe { bzna_stream_restore(raw.as_ptr(), &state.0, err) })?;
            }
            call(|err| unsafe { bzna_stream_wait(raw.as_ptr(), raw::BZNA_WAIT_FOREVER, err) })?;
            Ok(stream)
        };
        let (mut stream, hooks) = loader.configured(open)?;
        stream.hooks = Some(hooks);
        Ok(stream)
    }

    /// The next batch; None after the last epoch.
    pub fn next_batch(&mut self) -> Option<Result<Batch>> {
        let mut batch = ptr::null_mut();
        // SAFETY: a live stream, here and below.
        let status = call(|err| unsafe { bzna_stream_next(self.raw.as_ptr(), raw::BZNA_WAIT_FOREVER, &mut batch, err) });
        if let (Err(error), Some(hooks)) = (&status, &self.hooks) {
            if error.status == Status::CALLBACK {
                hooks.panics.resume(error.native_code);
            }
        }
        match status {
            Ok(_) => Some(Batch::new(NonNull::new(batch)?, self.context.clone())),
            Err(error) => Some(Err(error)),
        }
    }

    pub fn info(&self) -> Result<StreamInfo> {
        let mut info = StreamInfo::default();
        call(|err| unsafe { bzna_stream_get_info(self.raw.as_ptr(), &mut info, size_of::<StreamInfo>(), err) })?;
        Ok(info)
    }

    /// The source of a sample, by its index in a batch; the low 32 bits of that are its number in the shard.
    pub fn source(&self, index: u64) -> Option<String> {
        let text = unsafe { bzna_stream_source(self.raw.as_ptr(), index) };
        // SAFETY: a text that lives as long as the stream.
        (!text.is_null()).then(|| unsafe { CStr::from_ptr(text) }.to_string_lossy().into_owned())
    }

    /// The position of the run after the last batch.
    pub fn save(&mut self) -> Result<StreamState> {
        let mut state = RawState::default();
        call(|err| unsafe { bzna_stream_save(self.raw.as_ptr(), &mut state, STATE_BYTES, err) })?;
        Ok(StreamState(state))
    }

    /// Goes on from a state, also after an error.
    pub fn restore(&mut self, state: &StreamState) -> Result<()> {
        call(|err| unsafe { bzna_stream_restore(self.raw.as_ptr(), &state.0, err) })?;
        self.done = false;
        Ok(())
    }
}

impl Iterator for Stream {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = if self.done { None } else { self.next_batch() };
        self.done = !matches!(batch, Some(Ok(_)));
        batch
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        // SAFETY: ours, and closed once. Refused inside a callback: what it uses must stay then.
        if unsafe { bzna_stream_close(self.raw.as_ptr()) } < 0 {
            std::mem::forget(self.hooks.take());
            self.context.leak();
        }
    }
}

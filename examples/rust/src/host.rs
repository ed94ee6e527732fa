//! What the library calls back: allocator, log, sources of bytes and sinks for them.
//!
//! Every function that C calls goes through `guard`: a panic ends there, as a failure that C understands. Those of a loader's closures
//! are kept by `Panics`, and are resumed in the call that asks the loader for its batch.

use crate::{raw, LogLevel, Status};
use std::alloc::{GlobalAlloc, Layout};
use std::any::Any;
use std::collections::VecDeque;
use std::ffi::{c_char, c_void, CStr};
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::mem::size_of;
use std::panic::{catch_unwind, resume_unwind, AssertUnwindSafe};
use std::sync::{Arc, Mutex, PoisonError};

pub(crate) type LogFn = dyn Fn(LogLevel, Status, &str) + Send + Sync;
pub(crate) type Allocator = dyn GlobalAlloc + Send + Sync;

/// Runs a callback; what it panics with stays here, since unwinding into C is undefined. The panic hook has reported it by then.
pub(crate) fn guard<T>(otherwise: T, callback: impl FnOnce() -> T) -> T {
    // AssertUnwindSafe: what a callback captures is Sync or behind a lock, so a half-done change is its own to survive.
    catch_unwind(AssertUnwindSafe(callback)).unwrap_or_else(|payload| {
        std::mem::forget(payload); // dropping it could panic again
        otherwise
    })
}

/// The panics of a loader's closures, each by the number that C was told in its place, which comes back as an error's native code.
#[derive(Default)]
pub(crate) struct Panics(Mutex<(i32, VecDeque<Panic>)>);

type Panic = (i32, Box<dyn Any + Send>);

impl Panics {
    /// More than fail before the first of them is asked for; where failures are let pass, the oldest are dropped.
    const MOST: usize = 1024;

    /// Runs a closure; a panic becomes a failure with a number that no status has.
    pub(crate) fn guard(&self, callback: impl FnOnce() -> raw::bzna_status) -> raw::bzna_status {
        catch_unwind(AssertUnwindSafe(callback)).unwrap_or_else(|payload| {
            let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
            let number = i32::MIN + kept.0;
            kept.0 = (kept.0 + 1) & 0xfffffff;
            kept.1.push_back((number, payload));
            let oldest = if kept.1.len() > Self::MOST { kept.1.pop_front() } else { None };
            drop(kept);
            guard((), || drop(oldest)); // which could panic again
            number
        })
    }

    /// Goes on with the panic that an error tells of, if it is one of these.
    pub(crate) fn resume(&self, native_code: i32) {
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(at) = kept.1.iter().position(|(number, _)| *number == native_code) {
            let panic = kept.1.remove(at);
            drop(kept);
            if let Some((_, payload)) = panic {
                resume_unwind(payload);
            }
        }
    }
}

/// An io::Error as the negative number that a source returns: it becomes the native code of the library's error.
fn native(error: &io::Error) -> i64 {
    const EIO: i32 = 5;
    -i64::from(error.raw_os_error().filter(|code| *code > 0).unwrap_or(EIO))
}

/// What a context's callbacks use. The context keeps it, and every object keeps its context: C never calls after both are gone.
pub(crate) struct Host {
    pub(crate) allocator: Option<Box<Allocator>>,
    pub(crate) log: Option<Box<LogFn>>,
}

// bzna_allocator.release is told a size and no alignment, so all blocks are made with the strongest that the library asks for.
fn layout(size: usize) -> Option<Layout> {
    Layout::from_size_align(size.max(1), 64).ok()
}

pub(crate) unsafe extern "C" fn alloc(user: *mut c_void, size: usize, _align: usize) -> *mut c_void {
    let host = &*user.cast::<Host>();
    match (&host.allocator, layout(size)) {
        (Some(allocator), Some(layout)) => guard(std::ptr::null_mut(), || allocator.alloc(layout).cast()),
        _ => std::ptr::null_mut(),
    }
}

pub(crate) unsafe extern "C" fn release(user: *mut c_void, ptr: *mut c_void, size: usize) {
    let host = &*user.cast::<Host>();
    if let (Some(allocator), Some(layout)) = (&host.allocator, layout(size)) {
        guard((), || allocator.dealloc(ptr.cast(), layout));
    }
}

pub(crate) unsafe extern "C" fn log(user: *mut c_void, level: i32, code: raw::bzna_status, message: *const c_char) {
    let host = &*user.cast::<Host>();
    if let Some(log) = &host.log {
        let message = CStr::from_ptr(message).to_string_lossy();
        guard((), || log(LogLevel::from_raw(level), Status(code), &message));
    }
}

/// Bytes from anywhere, read at offsets.
///
/// `read_at` is called by the loader's reader threads, several at once, and by the thread that calls functions of a [`Dataset`]. The
/// contents must not change while the data set is open. Do not call into this crate from here.
///
/// [`Dataset`]: crate::Dataset
pub trait Source: Send + Sync {
    /// Copies up to `dst.len()` bytes from `offset` on and returns how many: fewer are asked for again, 0 is the end of the data. The
    /// error's raw_os_error becomes [`Error::native_code`](crate::Error::native_code). An error is trouble with the data: it fails its
    /// sample. A panic, and a count above `dst.len()`, are faults of the program, and end the run ([`Status::CALLBACK`]).
    fn read_at(&self, offset: u64, dst: &mut [u8]) -> io::Result<usize>;

    /// The number of bytes in all. Asked once, when the source is opened.
    fn size(&self) -> io::Result<u64>;
}

impl Source for File {
    #[cfg(unix)]
    fn read_at(&self, offset: u64, dst: &mut [u8]) -> io::Result<usize> {
        std::os::unix::fs::FileExt::read_at(self, dst, offset)
    }

    #[cfg(windows)]
    fn read_at(&self, offset: u64, dst: &mut [u8]) -> io::Result<usize> {
        std::os::windows::fs::FileExt::seek_read(self, dst, offset)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.metadata()?.len())
    }
}

impl Source for [u8] {
    fn read_at(&self, offset: u64, dst: &mut [u8]) -> io::Result<usize> {
        let rest = usize::try_from(offset).ok().and_then(|offset| self.get(offset..)).unwrap_or(&[]);
        let count = rest.len().min(dst.len());
        dst[..count].copy_from_slice(&rest[..count]);
        Ok(count)
    }

    fn size(&self) -> io::Result<u64> {
        Ok(self.len() as u64)
    }
}

impl Source for Vec<u8> {
    fn read_at(&self, offset: u64, dst: &mut [u8]) -> io::Result<usize> {
        self.as_slice().read_at(offset, dst)
    }

    fn size(&self) -> io::Result<u64> {
        self.as_slice().size()
    }
}

impl<S: Source + ?Sized> Source for &S {
    fn read_at(&self, offset: u64, dst: &mut [u8]) -> io::Result<usize> {
        (**self).read_at(offset, dst)
    }

    fn size(&self) -> io::Result<u64> {
        (**self).size()
    }
}

impl<S: Source + ?Sized> Source for Arc<S> {
    fn read_at(&self, offset: u64, dst: &mut [u8]) -> io::Result<usize> {
        (**self).read_at(offset, dst)
    }

    fn size(&self) -> io::Result<u64> {
        (**self).size()
    }
}

/// A source made of a reader that has one position: one read runs at a time.
#[derive(Debug)]
pub struct Seekable<R>(Mutex<R>);

impl<R: Read + Seek + Send> Seekable<R> {
    pub fn new(reader: R) -> Self {
        Seekable(Mutex::new(reader))
    }
}

impl<R: Read + Seek + Send> Source for Seekable<R> {
    fn read_at(&self, offset: u64, dst: &mut [u8]) -> io::Result<usize> {
        // A reader that panicked while it was locked is asked to seek first, as always: its poison says nothing of use.
        let mut reader = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        reader.seek(SeekFrom::Start(offset))?;
        reader.read(dst)
    }

    fn size(&self) -> io::Result<u64> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).seek(SeekFrom::End(0))
    }
}

unsafe extern "C" fn source_read_at<S: Source>(user: *mut c_void, offset: u64, dst: *mut c_void, size: u64) -> i64 {
    let source = &*user.cast::<S>();
    let Ok(size) = usize::try_from(size) else { return -1 };
    // The library's buffers are not initialized, and a slice must be.
    dst.cast::<u8>().write_bytes(0, size);
    let dst = std::slice::from_raw_parts_mut(dst.cast::<u8>(), size);
    // A panic is no trouble with the data: i64::MAX tells C so, and the run ends.
    guard(i64::MAX, || loop {
        match source.read_at(offset, dst) {
            Ok(count) => return i64::try_from(count).unwrap_or(i64::MAX), // a count above size is refused by the library
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return native(&error),
        }
    })
}

unsafe extern "C" fn source_size<S: Source>(user: *mut c_void) -> i64 {
    let source = &*user.cast::<S>();
    guard(-1, || match source.size() {
        Ok(size) => i64::try_from(size).unwrap_or(-1),
        Err(error) => native(&error),
    })
}

pub(crate) unsafe extern "C" fn close<T>(user: *mut c_void) {
    guard((), || drop(Box::from_raw(user.cast::<T>())));
}

/// The source as C has it. Whoever ends it calls `close` with `user`: the data set, or the caller where opening fails.
pub(crate) fn source<S: Source + 'static>(source: S) -> raw::bzna_source {
    raw::bzna_source {
        struct_size: size_of::<raw::bzna_source>() as u32,
        user: Box::into_raw(Box::new(source)).cast(),
        read_at: Some(source_read_at::<S>),
        size: Some(source_size::<S>),
        close: Some(close::<S>),
        ..Default::default()
    }
}

/// A writer and where it stands: most writes follow the one before, and a BufWriter would be emptied by a seek.
struct Sink<W> {
    writer: W,
    position: Option<u64>,
}

unsafe extern "C" fn sink_write_at<W: Write + Seek>(user: *mut c_void, offset: u64, src: *const c_void, size: u64) -> raw::bzna_status {
    // SAFETY: ours, and called by one thread at a time.
    let sink = &mut *user.cast::<Sink<W>>();
    let Ok(size) = usize::try_from(size) else { return raw::BZNA_E_IO };
    let src = std::slice::from_raw_parts(src.cast::<u8>(), size);
    guard(raw::BZNA_E_IO, || {
        let known = sink.position.take();
        if known != Some(offset) && sink.writer.seek(SeekFrom::Start(offset)).is_err() || sink.writer.write_all(src).is_err() {
            return raw::BZNA_E_IO;
        }
        sink.position = Some(offset + size as u64);
        raw::BZNA_OK
    })
}

unsafe fn sink_flush<W: Write>(user: *mut c_void) -> io::Result<()> {
    (*user.cast::<Sink<W>>()).writer.flush()
}

/// The last step of a finished sink, which C has no word for.
pub(crate) type Flush = unsafe fn(*mut c_void) -> io::Result<()>;

pub(crate) fn sink<W: Write + Seek + Send>(writer: W) -> (raw::bzna_sink, Flush) {
    let user = Box::into_raw(Box::new(Sink { writer, position: None }));
    let sink = raw::bzna_sink {
        struct_size: size_of::<raw::bzna_sink>() as u32,
        user: user.cast(),
        write_at: Some(sink_write_at::<W>),
        close: Some(close::<Sink<W>>),
        ..Default::default()
    };
    (sink, sink_flush::<W>)
}

// Here and in other files: what C calls, called by tests that need no library, so that miri can run them.
#[cfg(test)]
mod tests {
    use super::*;
    use std::alloc::System;
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    #[test]
    fn panics_are_numbered_and_go_on_once() {
        let panics = Panics::default();
        let first = panics.guard(|| panic!("one"));
        let second = panics.guard(|| std::panic::panic_any(2));
        assert_eq!((first, second), (i32::MIN, i32::MIN + 1));
        assert_eq!(panics.guard(|| raw::BZNA_E_IO), raw::BZNA_E_IO);
        panics.resume(raw::BZNA_E_IO);
        let resumed = catch_unwind(AssertUnwindSafe(|| panics.resume(second))).unwrap_err();
        assert_eq!(resumed.downcast_ref(), Some(&2));
        panics.resume(second);
        assert_eq!(panics.0.lock().unwrap().1.len(), 1);
    }

    #[test]
    fn of_many_panics_the_last_ones_are_kept() {
        let panics = Panics::default();
        let many = 3;
        let count = Panics::MOST + many;
        for i in 0..count {
            panics.guard(|| resume_unwind(Box::new(i))); // without the hook, which would report each
        }
        assert_eq!(panics.0.lock().unwrap().1.len(), Panics::MOST);
        panics.resume(i32::MIN);
        let kept = catch_unwind(AssertUnwindSafe(|| panics.resume(i32::MIN + many as i32))).unwrap_err();
        assert_eq!(kept.downcast_ref(), Some(&many));
    }

    struct Failing;

    impl Source for Failing {
        fn read_at(&self, offset: u64, _: &mut [u8]) -> io::Result<usize> {
            match offset {
                0 => Err(io::Error::from_raw_os_error(13)),
                1 => Err(io::ErrorKind::UnexpectedEof.into()),
                _ => panic!("mine"),
            }
        }

        fn size(&self) -> io::Result<u64> {
            Ok(u64::MAX)
        }
    }

    #[test]
    fn a_source_is_read_through_its_functions() {
        let read = |source: &raw::bzna_source, offset: u64, size: usize| {
            let mut bytes = vec![std::mem::MaybeUninit::<u8>::uninit(); size];
            let count = unsafe { source.read_at.unwrap()(source.user, offset, bytes.as_mut_ptr().cast(), size as u64) };
            (count, bytes.into_iter().map(|byte| unsafe { byte.assume_init() }).collect::<Vec<u8>>())
        };
        let drops = Arc::new(());
        let held = drops.clone();
        struct Held(Vec<u8>, #[allow(dead_code)] Arc<()>);
        impl Source for Held {
            fn read_at(&self, offset: u64, dst: &mut [u8]) -> io::Result<usize> {
                self.0.read_at(offset, dst)
            }
            fn size(&self) -> io::Result<u64> {
                self.0.size()
            }
        }
        let whole = source(Held((0..9).collect(), held));
        assert_eq!(read(&whole, 2, 4), (4, vec![2, 3, 4, 5]));
        assert_eq!(read(&whole, 7, 4), (2, vec![7, 8, 0, 0]));
        assert_eq!(read(&whole, u64::MAX, 1).0, 0);
        assert_eq!(unsafe { whole.size.unwrap()(whole.user) }, 9);
        unsafe { whole.close.unwrap()(whole.user) };
        assert_eq!(Arc::strong_count(&drops), 1);

        let failing = source(Failing);
        assert_eq!([0, 1, 2].map(|offset| read(&failing, offset, 3).0), [-13, -5, i64::MAX]);
        assert_eq!(unsafe { failing.size.unwrap()(failing.user) }, -1);
        unsafe { failing.close.unwrap()(failing.user) };

        let seekable = source(Seekable::new(io::Cursor::new(vec![5u8, 6, 7])));
        assert_eq!(read(&seekable, 1, 5), (2, vec![6, 7, 0, 0, 0]));
        assert_eq!(unsafe { seekable.size.unwrap()(seekable.user) }, 3);
        unsafe { seekable.close.unwrap()(seekable.user) };
    }

    #[test]
    fn a_sink_is_written_through_its_functions() {
        let mut bytes = io::Cursor::new(Vec::new());
        let (sink, flush) = sink(&mut bytes);
        let write = |offset, data: &[u8]| unsafe { sink.write_at.unwrap()(sink.user, offset, data.as_ptr().cast(), data.len() as u64) };
        assert_eq!([write(0, b"abc"), write(3, b"def"), write(1, b"XY"), write(6, b"g")], [0; 4]);
        assert!(unsafe { flush(sink.user) }.is_ok());
        unsafe { sink.close.unwrap()(sink.user) };
        assert_eq!(bytes.into_inner(), b"aXYdefg");
    }

    #[test]
    fn memory_comes_from_the_allocator_that_was_given() {
        struct Counting(Arc<AtomicUsize>);
        unsafe impl GlobalAlloc for Counting {
            unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
                self.0.fetch_add(layout.size(), SeqCst);
                System.alloc(layout)
            }
            unsafe fn dealloc(&self, ptr: *mut u8, layout: Layout) {
                self.0.fetch_sub(layout.size(), SeqCst);
                System.dealloc(ptr, layout);
            }
        }
        let held = Arc::new(AtomicUsize::new(0));
        let said = Arc::new(Mutex::new(Vec::new()));
        let heard = said.clone();
        let mut host = Host {
            allocator: Some(Box::new(Counting(held.clone()))),
            log: Some(Box::new(move |_, status, message| {
                heard.lock().unwrap().push((status, message.to_owned()));
                panic!("mine");
            })),
        };
        let user = std::ptr::addr_of_mut!(host).cast::<c_void>();
        let block = unsafe { alloc(user, 100, 64) };
        assert!(block as usize % 64 == 0 && held.load(SeqCst) == 100);
        unsafe { release(user, block, 100) };
        assert_eq!(held.load(SeqCst), 0);
        assert!(unsafe { alloc(user, usize::MAX, 64) }.is_null());
        let block = unsafe { alloc(user, 0, 64) };
        unsafe { release(user, block, 0) };
        unsafe { log(user, raw::BZNA_LOG_ERROR, raw::BZNA_E_IO, c"a message".as_ptr()) };
        assert_eq!(*said.lock().unwrap_or_else(PoisonError::into_inner), [(Status::IO, "a message".to_owned())]);
    }
}

//! Samples that a program gives by itself, field by field: a database, a generator, files of its own.

use crate::host::{close, guard};
use crate::{c_path, c_string, raw, Codec, Layout, Result};
use std::ffi::{c_char, c_void, CString};
use std::io;
use std::mem::size_of;
use std::path::PathBuf;

/// The kind of a field's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Kind {
    /// A file of JPEG, PNG, HEIF or any other kind, told apart by its content.
    Picture,
    /// One picture of H.264, H.265 or AV1 with its parameter sets.
    Frame(Codec),
    /// Pixels of a byte for each channel, of which there are 1 (gray) or 3 (RGB).
    Pixels { width: u32, height: u32, channels: u32, layout: Layout },
    /// An i64.
    Integer,
    /// Numbers of f32.
    Vector,
    /// UTF-8
    Text,
    /// Bytes without a meaning to the library.
    Bytes,
}

/// One field of a provider's samples. An integer called "target" is the target, a picture called "image" is the one that loaders take by
/// default, and a text called "name" is the sample's name.
#[derive(Clone, Debug)]
pub struct ProviderField {
    pub name: String,
    pub kind: Kind,
    /// [`Provider::locate`] says in which file a value is, instead of [`Provider::read`].
    pub located: bool,
}

impl ProviderField {
    pub fn new(name: impl Into<String>, kind: Kind) -> Self {
        ProviderField { name: name.into(), kind, located: false }
    }

    /// The same field, with values in files.
    pub fn located(self) -> Self {
        ProviderField { located: true, ..self }
    }
}

/// The place of a value in one of [`Provider::files`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Number of the file.
    pub file: u64,
    /// Of its first byte.
    pub offset: u64,
    /// Bytes; `None`: all to the file's end, and of pixels and integers as many as they have.
    pub size: Option<u64>,
}

impl Place {
    /// A whole file.
    pub fn whole(file: u64) -> Self {
        Place { file, offset: 0, size: None }
    }
}

/// Samples that a program gives by itself.
///
/// `read` and `locate` are called by the loader's reader threads, several at once, and by the thread that calls functions of a [`Dataset`] or
/// opens a [`Loader`]. They must give the same value for the same sample and field, perhaps twice. A loader has one reader thread by default: raise
/// [`LoaderBuilder::reader_threads`] if `read` calculates much.
///
/// [`Dataset`]: crate::Dataset
/// [`Loader`]: crate::Loader
/// [`LoaderBuilder::reader_threads`]: crate::LoaderBuilder::reader_threads
pub trait Provider: Send + Sync {
    /// How many samples there are. Asked once.
    fn count(&self) -> u64;

    /// The fields of the samples. Asked once.
    fn fields(&self) -> Vec<ProviderField>;

    /// Puts a value: that of the field with a number, of a sample. To put nothing is to say that the sample has no such value. An error
    /// is trouble with the data, which fails the sample after [`LoaderBuilder::read_retries`](crate::LoaderBuilder::read_retries) more attempts. A panic fails the
    /// sample with [`Status::CALLBACK`](crate::Status::CALLBACK). Without fields that it reads, a provider needs none.
    fn read(&self, index: u64, field: usize, value: &mut ValueWriter<'_>) -> io::Result<()> {
        let _ = (index, field, value);
        Ok(())
    }

    /// Says where a value of a located field is, which the library then reads by itself; `None`: the sample has no such value. Errors and
    /// panics are those of `read`.
    fn locate(&self, index: u64, field: usize) -> io::Result<Option<Place>> {
        let _ = (index, field);
        Ok(None)
    }

    /// The files that hold values of located fields, any number of them. If there are up to 64, they are opened with the data set;
    /// otherwise, each is opened when it is read. Called once.
    fn files(&self) -> Vec<PathBuf> {
        Vec::new()
    }

    /// Tells these samples from others: a saved state is not restored with another one. Asked once.
    fn fingerprint(&self) -> u64 {
        0
    }

    /// The names of targets 0, 1, .... Asked once.
    fn classes(&self) -> Vec<String> {
        Vec::new()
    }

    /// Bytes that a value has at most; 0: as many as a sample may have. Asked once.
    fn max_bytes(&self) -> u64 {
        0
    }
}

/// The place for a value, which a provider puts there.
#[derive(Debug)]
pub struct ValueWriter<'a> {
    room: *mut u8,
    capacity: usize,
    size: Option<usize>,
    lent: std::marker::PhantomData<&'a mut [u8]>,
}

impl ValueWriter<'_> {
    /// Puts bytes.
    pub fn put(&mut self, bytes: &[u8]) {
        self.size = Some(bytes.len());
        if !bytes.is_empty() && bytes.len() <= self.capacity {
            // SAFETY: there is room, which nobody else sees.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.room, bytes.len()) };
        }
    }

    pub fn put_integer(&mut self, integer: i64) {
        self.put(&integer.to_ne_bytes());
    }

    pub fn put_vector(&mut self, numbers: &[f32]) {
        // SAFETY: any bytes of floats may be read as bytes.
        self.put(unsafe { std::slice::from_raw_parts(numbers.as_ptr().cast(), std::mem::size_of_val(numbers)) });
    }

    pub fn put_text(&mut self, text: &str) {
        self.put(text.as_bytes());
    }

    /// Puts so many bytes, which `fill` writes in place: they are zeros before. If there is no room for them, `fill` is not called, and the
    /// value is asked for again, with room.
    pub fn fill(&mut self, size: usize, fill: impl FnOnce(&mut [u8])) {
        self.size = Some(size);
        if size == 0 || size <= self.capacity {
            // SAFETY: there is room, which nobody else sees, and which is initialized before it is lent.
            let room = if size == 0 {
                &mut []
            } else {
                unsafe {
                    self.room.write_bytes(0, size);
                    std::slice::from_raw_parts_mut(self.room, size)
                }
            };
            fill(room);
        }
    }
}

/// Leaves the text of an error for the library's message.
fn told(err: *mut raw::bzna_error, error: &io::Error) -> raw::bzna_status {
    // SAFETY: the library gives a struct that only this call writes.
    let room = unsafe { &mut (*err).message };
    let (text, most) = (error.to_string(), room.len() - 1);
    let mut size = text.len().min(most);
    while !text.is_char_boundary(size) {
        size -= 1;
    }
    for (to, byte) in room.iter_mut().zip(text.as_bytes()[..size].iter().chain(&[0])) {
        *to = *byte as c_char;
    }
    raw::BZNA_E_IO
}

unsafe extern "C" fn read<P: Provider>(
    user: *mut c_void,
    index: u64,
    field: u32,
    buffer: *mut c_void,
    capacity: u64,
    size: *mut u64,
    err: *mut raw::bzna_error,
) -> raw::bzna_status {
    let provider = &*user.cast::<P>();
    let capacity = usize::try_from(capacity).unwrap_or(usize::MAX);
    let mut value = ValueWriter { room: buffer.cast(), capacity, size: None, lent: std::marker::PhantomData };
    let status = guard(raw::BZNA_E_CALLBACK, || loop {
        match provider.read(index, field as usize, &mut value) {
            Ok(()) => return raw::BZNA_OK,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return told(err, &error),
        }
    });
    match value.size {
        Some(bytes) if status == raw::BZNA_OK => *size = bytes as u64,
        None if status == raw::BZNA_OK => return raw::BZNA_E_NOT_FOUND,
        _ => {}
    }
    status
}

unsafe extern "C" fn locate<P: Provider>(
    user: *mut c_void,
    index: u64,
    field: u32,
    place: *mut raw::bzna_place,
    err: *mut raw::bzna_error,
) -> raw::bzna_status {
    let provider = &*user.cast::<P>();
    guard(raw::BZNA_E_CALLBACK, || loop {
        match provider.locate(index, field as usize) {
            Ok(Some(found)) => {
                let size = found.size.unwrap_or(raw::BZNA_SIZE_UNKNOWN);
                // SAFETY: the library gives a place that only this call writes.
                unsafe { *place = raw::bzna_place { file: found.file, offset: found.offset, size, data: std::ptr::null() } };
                return raw::BZNA_OK;
            }
            Ok(None) => return raw::BZNA_E_NOT_FOUND,
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => return told(err, &error),
        }
    })
}

fn field(name: *const c_char, of: &ProviderField) -> raw::bzna_provider_field {
    let located = u32::from(of.located);
    let mut field = raw::bzna_provider_field { name, kind: raw::BZNA_FIELD_IMAGE, located, ..Default::default() };
    match of.kind {
        Kind::Picture => {}
        Kind::Frame(codec) => field.codec = codec as u32,
        Kind::Pixels { width, height, channels, layout } => {
            field.codec = raw::BZNA_CODEC_RAW;
            (field.width, field.height, field.channels, field.layout) = (width, height, channels, layout as u32);
        }
        Kind::Integer => field.kind = raw::BZNA_FIELD_INTEGER,
        Kind::Vector => field.kind = raw::BZNA_FIELD_VECTOR,
        Kind::Text => field.kind = raw::BZNA_FIELD_TEXT,
        Kind::Bytes => field.kind = raw::BZNA_FIELD_BYTES,
    }
    field
}

/// Calls `open` with the provider as C has it. On success the data set closes it, exactly once.
pub(crate) fn open<P: Provider + 'static, T>(provider: P, open: impl FnOnce(&raw::bzna_provider) -> Result<T>) -> Result<T> {
    let fields = provider.fields();
    let names = fields.iter().map(|field| c_string(&field.name)).collect::<Result<Vec<CString>>>()?;
    let fields: Vec<_> = fields.iter().zip(&names).map(|(of, name)| field(name.as_ptr(), of)).collect();
    let paths = provider.files().iter().map(|path| c_path(path)).collect::<Result<Vec<CString>>>()?;
    let files: Vec<_> = paths.iter().map(|path| path.as_ptr()).collect();
    let class_names = provider.classes().iter().map(|name| c_string(name)).collect::<Result<Vec<CString>>>()?;
    let classes: Vec<_> = class_names.iter().map(|name| name.as_ptr()).collect();
    let (count, max_bytes, fingerprint) = (provider.count(), provider.max_bytes(), provider.fingerprint());
    let whole = raw::bzna_provider {
        struct_size: size_of::<raw::bzna_provider>() as u32,
        user: Box::into_raw(Box::new(provider)).cast(),
        count,
        fields: fields.as_ptr(),
        field_count: fields.len() as u32,
        max_bytes,
        fingerprint,
        read: Some(read::<P>),
        locate: Some(locate::<P>),
        files: if files.is_empty() { std::ptr::null() } else { files.as_ptr() },
        file_count: files.len() as u64,
        classes: if classes.is_empty() { std::ptr::null() } else { classes.as_ptr() },
        class_count: classes.len() as u32,
        close: Some(close::<P>),
        ..Default::default()
    };
    let opened = open(&whole);
    if opened.is_err() {
        // SAFETY: "on failure it is still the caller's, and close was not called".
        unsafe { close::<P>(whole.user) };
    }
    opened
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Three(#[allow(dead_code)] std::sync::Arc<()>);

    impl Provider for Three {
        fn count(&self) -> u64 {
            3
        }

        fn fields(&self) -> Vec<ProviderField> {
            let raw = Kind::Pixels { width: 2, height: 1, channels: 3, layout: Layout::Nhwc };
            vec![ProviderField::new("image", raw), ProviderField::new("target", Kind::Integer), ProviderField::new("box", Kind::Vector)]
        }

        fn read(&self, index: u64, field: usize, value: &mut ValueWriter<'_>) -> io::Result<()> {
            match (index, field) {
                (0, 0) => value.fill(6, |room| room[1..].copy_from_slice(&[1, 2, 3, 4, 5])),
                (0, 1) => value.put_integer(-7),
                (0, 2) => value.put_vector(&[0.5, -1.0]),
                (1, 0) => return Err(io::ErrorKind::InvalidData.into()),
                (1, 1) => panic!("mine"),
                (1, 2) => value.put_vector(&[]),
                (2, 0) => value.put_text("tèxt"),
                _ => {}
            }
            Ok(())
        }

        fn classes(&self) -> Vec<String> {
            vec!["cat".into(), "dog".into()]
        }
    }

    #[test]
    fn a_provider_is_read_through_its_functions() {
        let drops = std::sync::Arc::new(());
        let user = open(Three(drops.clone()), |raw| {
            let fields = unsafe { crate::slice_of(raw.fields, raw.field_count as usize) };
            assert_eq!(fields.iter().map(|field| field.kind).collect::<Vec<_>>(), [1, 2, 3]);
            assert_eq!((fields[0].codec, fields[0].width, fields[0].layout), (raw::BZNA_CODEC_RAW, 2, raw::BZNA_LAYOUT_NHWC));
            assert_eq!(unsafe { std::ffi::CStr::from_ptr(*raw.classes.add(1)) }, c"dog");
            // Without alignment, as C may have it.
            let value = |index: u64, field: u32, capacity: usize| {
                let mut room = vec![std::mem::MaybeUninit::<u8>::uninit(); capacity + 1];
                let (mut size, mut err) = (99, raw::bzna_error::default());
                let at = if capacity == 0 { std::ptr::null_mut() } else { room[1..].as_mut_ptr().cast() };
                let status = unsafe { raw.read.unwrap()(raw.user, index, field, at, capacity as u64, &mut size, &mut err) };
                let fits = status == raw::BZNA_OK && size <= capacity as u64;
                let written = &room[1..][..if fits { size as usize } else { 0 }];
                (status, size, written.iter().map(|byte| unsafe { byte.assume_init() }).collect::<Vec<u8>>())
            };
            assert_eq!(value(0, 0, 6), (0, 6, vec![0, 1, 2, 3, 4, 5]));
            assert_eq!(value(0, 0, 5), (0, 6, vec![]));
            assert_eq!(value(0, 1, 0), (0, 8, vec![]));
            assert_eq!(value(0, 1, 8), (0, 8, (-7i64).to_ne_bytes().to_vec()));
            assert_eq!(value(0, 2, 9), (0, 8, [0.5f32.to_ne_bytes(), (-1f32).to_ne_bytes()].concat()));
            assert_eq!(value(1, 0, 9), (raw::BZNA_E_IO, 99, vec![]));
            assert_eq!(value(1, 1, 9), (raw::BZNA_E_CALLBACK, 99, vec![]));
            assert_eq!(value(1, 2, 0), (0, 0, vec![]));
            assert_eq!(value(2, 0, 9), (0, 5, "tèxt".as_bytes().to_vec()));
            assert_eq!(value(2, 1, 9), (raw::BZNA_E_NOT_FOUND, 99, vec![]));
            Ok((raw.user as usize, raw.close))
        });
        let (user, close) = user.unwrap();
        assert_eq!(std::sync::Arc::strong_count(&drops), 2);
        unsafe { close.unwrap()(user as *mut c_void) };
        assert_eq!(std::sync::Arc::strong_count(&drops), 1);
        let refused: Result<()> = open(Three(drops.clone()), |_| Err(crate::Error::new(raw::BZNA_E_FORMAT, "mine")));
        assert!(refused.is_err() && std::sync::Arc::strong_count(&drops) == 1);
    }
}

//! Pictures of kinds that the library does not know: codecs of the program's own.

use crate::host::{close, guard};
use crate::{c_string, raw, slice_of, Codec, Error, Result, Status};
use std::collections::VecDeque;
use std::ffi::{c_void, CString};
use std::mem::size_of;

/// The kind of a picture's pixels. Alpha is left out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Pixels {
    /// R, G and B next to each other, in one plane.
    #[default]
    Rgb,
    /// R, G and B in a plane each.
    RgbPlanes,
    Gray,
    /// Y, Cb and Cr in a plane each. The shifts are log2 of the subsampling of chroma, 0 to 2: both are 1 in 4:2:0. BT.601, full range.
    YCbCr {
        shift_x: u32,
        shift_y: u32,
    },
    /// Numbers of colors of a palette ([`Planes::set_palette`]).
    Index,
}

/// The properties of a picture.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shape {
    pub width: u32,
    pub height: u32,
    pub pixels: Pixels,
    /// Bits of a sample: 8, or 9 to 16, which are then written as u16; 0 counts as 8.
    pub depth: u32,
    /// EXIF's number, 1 to 8: how the picture is to be rotated; 0 counts as 1.
    pub orientation: u32,
    /// The bytes are a wrapper around a picture that the library decodes: [`OwnCodec::unwrap`] is called, and the other members are
    /// ignored.
    pub wrapped: bool,
}

/// A picture in a wrapper, which the library decodes as if it had come alone: by NVDEC, libjpeg-turbo or libavcodec.
#[derive(Clone, Copy, Debug)]
pub struct Wrapped<'a> {
    /// H264, H265, AV1, JPEG or Still.
    pub codec: Codec,
    /// Its bytes: those of the wrapper, or any that live as long.
    pub data: &'a [u8],
    /// The payload of hvcC, avcC or av1C; empty if data has the parameter sets.
    pub config: &'a [u8],
    /// Bytes of the length before each NAL unit: 1, 2 or 4; 0 for start codes, and for codecs without NAL units.
    pub length_size: u32,
    /// EXIF's number; 0: as the picture itself says.
    pub orientation: u32,
}

/// Part of a picture, before it is rotated: columns x0..x1 of rows y0..y1.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rectangle {
    pub x0: u32,
    pub y0: u32,
    pub x1: u32,
    pub y1: u32,
}

/// The place for a picture's pixels, as its [`Shape`] says. At least those of the rectangle that is needed must be written.
#[derive(Debug)]
pub struct Planes<'a> {
    raw: &'a raw::bzna_codec_planes,
    shape: Shape,
}

impl Planes<'_> {
    /// Columns of a plane's samples and its rows, and bytes of all samples of a column.
    fn size(&self, plane: usize) -> (usize, usize, usize) {
        let bytes = if self.shape.depth > 8 { 2 } else { 1 };
        let (width, height) = (self.shape.width as usize, self.shape.height as usize);
        match (self.shape.pixels, plane) {
            (Pixels::Rgb, 0) => (width, height, 3 * bytes),
            (Pixels::Gray | Pixels::Index, 0) | (Pixels::YCbCr { .. }, 0) | (Pixels::RgbPlanes, 0..=2) => (width, height, bytes),
            (Pixels::YCbCr { shift_x, shift_y }, 1 | 2) => {
                ((width + (1 << shift_x) - 1) >> shift_x, (height + (1 << shift_y) - 1) >> shift_y, bytes)
            }
            _ => panic!("a picture of {:?} has no plane {plane}", self.shape.pixels),
        }
    }

    fn address(&mut self, plane: usize, y: usize) -> (*mut u8, usize) {
        let (columns, rows, bytes) = self.size(plane);
        assert!(y < rows, "row {y} of a plane that has {rows}");
        // SAFETY: the library made planes of these rows for the shape.
        (unsafe { self.raw.plane[plane].cast::<u8>().offset(y as isize * self.raw.pitch[plane] as isize) }, columns * bytes)
    }

    /// The bytes of a row; of [`Pixels::Rgb`], R, G, B, R, G, B. Panics if there is no such row.
    pub fn row(&mut self, plane: usize, y: u32) -> &mut [u8] {
        let (first, bytes) = self.address(plane, y as usize);
        // SAFETY: as above; the library has filled the memory, and lends it to nobody else.
        unsafe { std::slice::from_raw_parts_mut(first, bytes) }
    }

    /// The same if samples have more than 8 bits.
    pub fn row16(&mut self, plane: usize, y: u32) -> &mut [u16] {
        assert!(self.shape.depth > 8, "samples of {} bits are bytes", self.shape.depth);
        let (first, bytes) = self.address(plane, y as usize);
        // SAFETY: as above; planes and pitches are multiples of 64.
        unsafe { std::slice::from_raw_parts_mut(first.cast::<u16>(), bytes / 2) }
    }

    /// The colors of [`Pixels::Index`], as R, G and B. Panics if there are more than 256, or if the picture has no palette.
    pub fn set_palette(&mut self, colors: &[[u8; 3]]) {
        assert!(!self.raw.palette.is_null() && colors.len() <= 256, "{} colors", colors.len());
        // SAFETY: there is room for 256 colors.
        unsafe { std::ptr::copy_nonoverlapping(colors.as_ptr().cast(), self.raw.palette, 3 * colors.len()) };
    }
}

/// A codec of the program's own ([`ContextConfig::codec`](crate::ContextConfig::codec)): it is asked for pictures that no kind of the
/// library's takes, in folders, tars, archives and providers alike. Chapter 13 of the manual has more.
///
/// Threads call it concurrently, each with its own state. It must give the same pixels for the same bytes. An error or a panic costs the
/// sample. An error of [`Status::MEMORY`](crate::Status::MEMORY) says nothing about the sample, which is made once more.
pub trait OwnCodec: Send + Sync + 'static {
    /// The state that a thread keeps from one picture to the next. It may be dropped on another thread.
    type State: Send;

    /// For messages: "JXL (JPEG XL)". At most 31 bytes. Asked once.
    fn name(&self) -> &str;

    /// Extensions of files, in lower case, with blanks between: which files of a folder are pictures, and which fields of a tar. Asked once.
    fn extensions(&self) -> &str {
        ""
    }

    /// Tells versions apart that give other pixels: a saved state is not restored with another one. Asked once.
    fn fingerprint(&self) -> u64 {
        0
    }

    /// Is a file that begins so of this kind? `head` has 512 bytes, or all of a smaller file.
    fn recognize(&self, head: &[u8]) -> bool;

    /// Makes the state of a thread.
    fn begin(&self) -> Result<Self::State>;

    /// Returns the properties of a picture, without decoding it. Any byte of it may be wrong.
    fn inspect(&self, state: &mut Self::State, data: &[u8]) -> Result<Shape>;

    /// Decodes a picture that inspect has described.
    fn decode(&self, state: &mut Self::State, data: &[u8], needed: Rectangle, planes: &mut Planes<'_>) -> Result<()>;

    /// Finds the picture in a wrapper, of which inspect said [`Shape::wrapped`].
    fn unwrap<'a>(&self, state: &'a mut Self::State, data: &'a [u8]) -> Result<Wrapped<'a>> {
        let _ = (state, data);
        Err(Error::of(Status::UNSUPPORTED, "the codec unwraps nothing"))
    }
}

/// A thread's state, and the codec that it is of.
struct Bound<C: OwnCodec> {
    codec: *const C,
    state: C::State,
    /// What inspect said of the pictures at these addresses, the newest last: planes are lent by it. A sample has at most 16 pictures.
    shapes: VecDeque<(usize, u64, Shape)>,
}

/// Calls a function of the user's, and puts its error where C sees it.
///
/// # Safety
///
/// err is a struct of the library's.
unsafe fn answer(err: *mut raw::bzna_error, function: impl FnOnce() -> Result<()>) -> raw::bzna_status {
    let panicked = || Err(Error::of(Status::DECODE, "the codec panicked"));
    match guard(None, || Some(function())).unwrap_or_else(panicked) {
        Ok(()) => raw::BZNA_OK,
        Err(error) => {
            let message = &mut (*err).message;
            let mut end = error.message.len().min(message.len() - 1);
            while !error.message.is_char_boundary(end) {
                end -= 1;
            }
            for (to, from) in message.iter_mut().zip(error.message.as_bytes()[..end].iter().chain(&[0])) {
                *to = *from as _;
            }
            (*err).byte_offset = error.byte_offset.unwrap_or(raw::BZNA_NO_OFFSET);
            (*err).native_code = error.native_code;
            error.status.0
        }
    }
}

unsafe extern "C" fn recognize<C: OwnCodec>(user: *mut c_void, head: *const c_void, bytes: u64) -> i32 {
    guard(0, || (*user.cast::<C>()).recognize(slice_of(head.cast(), bytes as usize)).into())
}

unsafe extern "C" fn thread_begin<C: OwnCodec>(user: *mut c_void, state: *mut *mut c_void, err: *mut raw::bzna_error) -> raw::bzna_status {
    let codec = user.cast_const().cast::<C>();
    answer(err, || {
        *state = Box::into_raw(Box::new(Bound { codec, state: (*codec).begin()?, shapes: VecDeque::new() })).cast();
        Ok(())
    })
}

unsafe extern "C" fn thread_end<C: OwnCodec>(_user: *mut c_void, state: *mut c_void) {
    close::<Bound<C>>(state);
}

unsafe extern "C" fn inspect<C: OwnCodec>(
    state: *mut c_void,
    data: *const c_void,
    bytes: u64,
    to: *mut raw::bzna_codec_shape,
    err: *mut raw::bzna_error,
) -> raw::bzna_status {
    answer(err, || {
        let bound = &mut *state.cast::<Bound<C>>();
        let mut shape = (*bound.codec).inspect(&mut bound.state, slice_of(data.cast(), bytes as usize))?;
        shape.depth = if shape.depth == 0 { 8 } else { shape.depth };
        if bound.shapes.len() == 16 {
            bound.shapes.pop_front();
        }
        bound.shapes.push_back((data as usize, bytes, shape));
        (*to).width = shape.width;
        (*to).height = shape.height;
        (*to).depth = shape.depth;
        (*to).orientation = shape.orientation;
        (*to).wrapped = shape.wrapped.into();
        (*to).pixels = match shape.pixels {
            Pixels::Rgb | Pixels::RgbPlanes => raw::BZNA_PIXELS_RGB,
            Pixels::Gray => raw::BZNA_PIXELS_GRAY,
            Pixels::YCbCr { .. } => raw::BZNA_PIXELS_YCBCR,
            Pixels::Index => raw::BZNA_PIXELS_INDEX,
        };
        (*to).interleaved = (shape.pixels == Pixels::Rgb).into();
        if let Pixels::YCbCr { shift_x, shift_y } = shape.pixels {
            ((*to).chroma_shift_x, (*to).chroma_shift_y) = (shift_x, shift_y);
        }
        Ok(())
    })
}

unsafe extern "C" fn decode<C: OwnCodec>(
    state: *mut c_void,
    data: *const c_void,
    bytes: u64,
    needed: *const raw::bzna_rectangle,
    planes: *const raw::bzna_codec_planes,
    err: *mut raw::bzna_error,
) -> raw::bzna_status {
    answer(err, || {
        let (bound, raw) = (&mut *state.cast::<Bound<C>>(), &*planes);
        let said = bound.shapes.iter().rev().find(|(at, size, _)| (*at, *size) == (data as usize, bytes));
        let Some(&(_, _, shape)) = said else {
            return Err(Error::of(Status::MISMATCH, "the picture was not inspected"));
        };
        let needed = Rectangle { x0: (*needed).x0, y0: (*needed).y0, x1: (*needed).x1, y1: (*needed).y1 };
        (*bound.codec).decode(&mut bound.state, slice_of(data.cast(), bytes as usize), needed, &mut Planes { raw, shape })
    })
}

unsafe extern "C" fn unwrap<C: OwnCodec>(
    state: *mut c_void,
    data: *const c_void,
    bytes: u64,
    to: *mut raw::bzna_image,
    err: *mut raw::bzna_error,
) -> raw::bzna_status {
    answer(err, || {
        let bound = &mut *state.cast::<Bound<C>>();
        let inner = (*bound.codec).unwrap(&mut bound.state, slice_of(data.cast(), bytes as usize))?;
        (*to).codec = inner.codec as u32;
        ((*to).data, (*to).data_size) = (inner.data.as_ptr().cast(), inner.data.len() as u64);
        if !inner.config.is_empty() {
            ((*to).config, (*to).config_size) = (inner.config.as_ptr().cast(), inner.config.len() as u64);
        }
        (*to).length_size = inner.length_size;
        (*to).orientation = inner.orientation;
        Ok(())
    })
}

/// A codec as C has it. Until a context has taken it, it is closed when this is dropped.
pub(crate) struct Registered {
    pub(crate) raw: raw::bzna_codec,
    pub(crate) taken: bool,
    _texts: Option<[CString; 2]>,
}

impl Registered {
    pub(crate) fn new<C: OwnCodec>(codec: C) -> Result<Self> {
        let texts = [c_string(codec.name())?, c_string(codec.extensions())?];
        let raw = raw::bzna_codec {
            struct_size: size_of::<raw::bzna_codec>() as u32,
            name: texts[0].as_ptr(),
            extensions: texts[1].as_ptr(),
            fingerprint: codec.fingerprint(),
            user: Box::into_raw(Box::new(codec)).cast(),
            recognize: Some(recognize::<C>),
            thread_begin: Some(thread_begin::<C>),
            thread_end: Some(thread_end::<C>),
            inspect: Some(inspect::<C>),
            decode: Some(decode::<C>),
            unwrap: Some(unwrap::<C>),
            close: Some(close::<C>),
            ..Default::default()
        };
        Ok(Registered { raw, taken: false, _texts: Some(texts) })
    }

    pub(crate) fn in_c(raw: raw::bzna_codec) -> Self {
        Registered { raw, taken: false, _texts: None }
    }
}

// SAFETY: what `user` points to is Send + Sync, and the texts are owned; of a codec in C, the caller has promised as much.
unsafe impl Send for Registered {}
unsafe impl Sync for Registered {}

impl Drop for Registered {
    fn drop(&mut self) {
        if let (false, Some(close)) = (self.taken, self.raw.close) {
            // SAFETY: no context has it.
            unsafe { close(self.raw.user) };
        }
    }
}

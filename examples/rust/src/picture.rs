//! Single pictures: coded ones, decoders, random numbers and warps, writers.

use crate::{c_string, call, host, make, raw, slice_of, Context, Dataset, Error, Result, Transform, Warp};
use std::ffi::{c_char, CString};
use std::fmt;
use std::io::{Seek, Write};
use std::marker::PhantomData;
use std::mem::{size_of, size_of_val};
use std::path::Path;
use std::ptr::{self, NonNull};
use std::time::Duration;

/// How a picture is coded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Codec {
    Unknown = raw::BZNA_CODEC_UNKNOWN as isize,
    H264 = raw::BZNA_CODEC_H264 as isize,
    H265 = raw::BZNA_CODEC_H265 as isize,
    Av1 = raw::BZNA_CODEC_AV1 as isize,
    Jpeg = raw::BZNA_CODEC_JPEG as isize,
    Still = raw::BZNA_CODEC_STILL as isize,
    Raw = raw::BZNA_CODEC_RAW as isize,
    /// A file of a codec that the context was given: TIFF and others of examples/formats, or a program's own.
    Own = raw::BZNA_CODEC_OWN as isize,
}

/// How Y'CbCr becomes R'G'B'.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Matrix {
    /// As container or stream say.
    Auto = raw::BZNA_MATRIX_AUTO as isize,
    Bt601Full = raw::BZNA_MATRIX_BT601_FULL as isize,
    Bt601 = raw::BZNA_MATRIX_BT601 as isize,
    Bt709 = raw::BZNA_MATRIX_BT709 as isize,
    Bt2020 = raw::BZNA_MATRIX_BT2020 as isize,
    Bt709Full = raw::BZNA_MATRIX_BT709_FULL as isize,
    Bt2020Full = raw::BZNA_MATRIX_BT2020_FULL as isize,
}

/// How a crop is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Crops {
    /// torchvision's for random and for centered resized crops, else the original's.
    #[default]
    Auto = raw::BZNA_CROPS_AUTO as isize,
    /// The original's: the area is log-uniform.
    Benzina = raw::BZNA_CROPS_BENZINA as isize,
    /// The area is uniform, boxes are of whole pixels; centered ones are those of Resize and CenterCrop.
    Torchvision = raw::BZNA_CROPS_TORCHVISION as isize,
}

/// One coded picture, with its bytes: read from a data set, or made to be written. It needs nothing of the data set afterwards.
pub struct Image {
    raw: raw::bzna_image, // points into `bytes` and `_config`
    bytes: Vec<u8>,
    _config: Vec<u8>, // empty if it is part of `bytes`, or if there is none
}

// SAFETY: the pointers are to the heap memory of the image's own vectors, which nothing changes: see Image::own_config.
unsafe impl Send for Image {}
unsafe impl Sync for Image {}

impl fmt::Debug for Image {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Image").field("raw", &self.raw).field("bytes", &self.bytes.len()).finish()
    }
}

impl Image {
    pub(crate) fn read(data: &Dataset, index: u64, field: Option<&str>) -> Result<Image> {
        let field: Option<CString> = field.map(c_string).transpose()?;
        let field = field.as_ref().map_or(ptr::null(), |field| field.as_ptr());
        let size = data.sample(index)?.size;
        match Image::read_into(data, index, field, size) {
            // what a codec copies to unwrap the picture follows the sample
            Err(error) if error.status.0 == raw::BZNA_E_BUFFER => Image::read_into(data, index, field, 2 * size + 65536),
            result => result,
        }
    }

    fn read_into(data: &Dataset, index: u64, field: *const c_char, size: u64) -> Result<Image> {
        let mut bytes = Vec::new();
        let room = usize::try_from(size).ok().filter(|size| bytes.try_reserve_exact(*size).is_ok());
        bytes.resize(room.ok_or_else(|| Error::new(raw::BZNA_E_MEMORY, format!("no memory for the {size} bytes of sample {index}")))?, 0u8);
        let mut image = raw::bzna_image { struct_size: size_of::<raw::bzna_image>() as u32, ..Default::default() };
        // SAFETY: a live data set, a name or NULL, and a buffer of the length given.
        call(|err| unsafe {
            raw::bzna_dataset_read_image(data.as_raw(), index, field, bytes.as_mut_ptr().cast(), bytes.len(), &mut image, err)
        })?;
        // SAFETY: just read from a live data set, which `data` borrows.
        Ok(unsafe { Image::own_config(image, bytes) })
    }

    /// An image whose data are in `bytes`. The config of a plain video or of raw records is the data set's, which may be dropped before the
    /// image is: it is copied.
    ///
    /// # Safety
    ///
    /// What the image points to is valid now, and its data stay so as long as the memory of `bytes`.
    unsafe fn own_config(mut image: raw::bzna_image, bytes: Vec<u8>) -> Image {
        let at = image.config.cast::<u8>();
        let is_inside = bytes.as_ptr_range().contains(&at);
        let config = if is_inside { Vec::new() } else { slice_of(at, image.config_size as usize).to_vec() };
        if !is_inside {
            image.config = if config.is_empty() { ptr::null() } else { config.as_ptr().cast() };
        }
        Image { raw: image, bytes, _config: config }
    }

    /// A picture to be written: an Annex B stream of one access unit and its parameter sets, showing width x height pixels.
    /// AV1 is a sequence of OBUs, JPEG a file, of which 0 x 0 is all.
    pub fn from_annexb(codec: Codec, width: u32, height: u32, bytes: Vec<u8>) -> Image {
        let raw = raw::bzna_image {
            struct_size: size_of::<raw::bzna_image>() as u32,
            codec: codec as u32,
            width,
            height,
            data: bytes.as_ptr().cast(),
            data_size: bytes.len() as u64,
            ..Default::default()
        };
        Image { raw, bytes, _config: Vec::new() }
    }

    pub fn codec(&self) -> Codec {
        match self.raw.codec {
            raw::BZNA_CODEC_H264 => Codec::H264,
            raw::BZNA_CODEC_H265 => Codec::H265,
            raw::BZNA_CODEC_AV1 => Codec::Av1,
            raw::BZNA_CODEC_JPEG => Codec::Jpeg,
            raw::BZNA_CODEC_STILL => Codec::Still,
            raw::BZNA_CODEC_RAW => Codec::Raw,
            raw::BZNA_CODEC_OWN.. => Codec::Own,
            _ => Codec::Unknown,
        }
    }

    /// Width and height without padding, in pixels.
    pub fn size(&self) -> (u32, u32) {
        (self.raw.width, self.raw.height)
    }

    /// Width and height of the coded frame.
    pub fn frame_size(&self) -> (u32, u32) {
        (self.raw.frame_width, self.raw.frame_height)
    }

    /// The access unit.
    pub fn data(&self) -> &[u8] {
        // SAFETY: inside the memory of `bytes`, which is neither changed nor freed while `self` is there.
        unsafe { slice_of(self.raw.data.cast(), self.raw.data_size as usize) }
    }

    /// The access unit as an Annex B stream, parameter sets first.
    pub fn annexb(&self) -> Result<Vec<u8>> {
        let mut needed = 0;
        // SAFETY: the image points to its own memory; no more than the length given is written.
        let run = |bytes: &mut [u8], needed: &mut usize| {
            call(|err| unsafe { raw::bzna_image_annexb(&self.raw, bytes.as_mut_ptr().cast(), bytes.len(), needed, err) })
        };
        match run(&mut [], &mut needed) {
            Err(error) if error.status != crate::Status::BUFFER => return Err(error),
            _ => {}
        }
        let mut bytes = vec![0; needed];
        run(&mut bytes, &mut needed)?;
        Ok(bytes)
    }
}

/// Decodes single pictures in software.
#[derive(Debug)]
pub struct Decoder {
    raw: NonNull<raw::bzna_decoder>,
    context: Context,
}

// SAFETY: "bzna_decoder: one thread at a time", whichever it is; every use is through &mut.
unsafe impl Send for Decoder {}

impl Decoder {
    pub(crate) fn new(context: &Context) -> Result<Decoder> {
        let raw = make(|out, err| unsafe { raw::bzna_decoder_open(context.as_raw(), out, err) })?;
        Ok(Decoder { raw, context: context.clone() })
    }

    /// Decodes one picture, which is lent until the decoder is used again: its planes are the decoder's, or those of a raw picture
    /// the image's own bytes. The decoder stays usable after an error.
    ///
    /// ```no_run
    /// # fn main() -> benzina::Result<()> {
    /// # let data = benzina::Context::new(Default::default())?.open("train.bzna")?;
    /// # let mut decoder = data.context().decoder()?;
    /// let image = data.image(0, None)?;
    /// let picture = decoder.decode(&image)?;
    /// println!("{:?}", picture.size());
    /// drop(image);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// So the picture outlives neither of them:
    ///
    /// ```compile_fail,E0505
    /// # fn main() -> benzina::Result<()> {
    /// # let data = benzina::Context::new(Default::default())?.open("train.bzna")?;
    /// # let mut decoder = data.context().decoder()?;
    /// let image = data.image(0, None)?;
    /// let picture = decoder.decode(&image)?;
    /// drop(image);
    /// println!("{:?}", picture.size());
    /// # Ok(())
    /// # }
    /// ```
    pub fn decode<'a>(&'a mut self, image: &'a Image) -> Result<Picture<'a>> {
        let mut picture = raw::bzna_picture { struct_size: size_of::<raw::bzna_picture>() as u32, ..Default::default() };
        // SAFETY: a live decoder, ours alone; the image has its bytes and its config. The planes are the decoder's until its next
        // call, or the image's: the picture borrows both.
        call(|err| unsafe { raw::bzna_decoder_decode(self.raw.as_ptr(), &image.raw, &mut picture, err) })?;
        Ok(Picture { raw: picture, _decoder: PhantomData, _image: PhantomData })
    }
}

impl Drop for Decoder {
    fn drop(&mut self) {
        // SAFETY: ours, and closed once.
        if unsafe { raw::bzna_decoder_close(self.raw.as_ptr()) } < 0 {
            self.context.leak();
        }
    }
}

/// A decoded picture: planes of Y', Cb and Cr in the decoder's memory, or in the image's.
#[derive(Debug)]
pub struct Picture<'a> {
    raw: raw::bzna_picture,
    _decoder: PhantomData<&'a mut Decoder>,
    _image: PhantomData<&'a Image>,
}

impl Picture<'_> {
    /// Width and height without padding, in pixels.
    pub fn size(&self) -> (u32, u32) {
        (self.raw.width, self.raw.height)
    }

    /// Warps the picture: `3 * height * width` floats, the red plane first.
    pub fn render(&self, width: u32, height: u32, transform: &Transform) -> Result<Vec<f32>> {
        let output = raw::bzna_output { struct_size: size_of::<raw::bzna_output>() as u32, width, height, ..Default::default() };
        let transform = Transform { struct_size: size_of::<Transform>() as u32, ..*transform };
        let mut pixels = vec![0f32; if width > 16384 || height > 16384 { 0 } else { 3 * width as usize * height as usize }];
        // SAFETY: the picture is as the decoder made it, and borrows what its planes lie in; dst is as long as it says.
        call(|err| unsafe {
            raw::bzna_picture_render(&self.raw, &transform, &output, pixels.as_mut_ptr().cast(), size_of::<f32>() * pixels.len(), err)
        })?;
        Ok(pixels)
    }
}

/// A counter-based random number generator: the same (seed, epoch, sample, operation) gives the same numbers everywhere.
#[derive(Clone, Debug)]
#[repr(transparent)] // the library lends one to transform callbacks
pub struct Random(raw::bzna_random);

impl Random {
    /// Operations from [`raw::BZNA_RANDOM_USER`] on are the user's.
    pub fn new(seed: u64, epoch: u64, sample: u64, operation: u32) -> Random {
        let mut random = raw::bzna_random::default();
        // SAFETY: plain values, here and below.
        unsafe { raw::bzna_random_init(&mut random, seed, epoch, sample, operation) };
        Random(random)
    }

    pub(crate) fn as_raw(&mut self) -> *mut raw::bzna_random {
        &mut self.0
    }

    pub fn u32(&mut self) -> u32 {
        unsafe { raw::bzna_random_u32(&mut self.0) }
    }

    /// In [lo, hi).
    pub fn uniform(&mut self, lo: f64, hi: f64) -> f64 {
        unsafe { raw::bzna_random_uniform(&mut self.0, lo, hi) }
    }
}

impl Transform {
    /// One output pixel for one input pixel, from the top left corner; colors as they are.
    pub fn identity() -> Transform {
        let mut transform = Transform::default();
        // SAFETY: the struct is as long as it says.
        unsafe { raw::bzna_transform_init(&mut transform, size_of::<Transform>()) };
        transform
    }
}

impl Warp {
    fn of(kind: u32) -> Warp {
        Warp { kind, ..Warp::default() }
    }

    /// 1:1, centered.
    pub fn none() -> Warp {
        Warp::of(raw::BZNA_WARP_NONE)
    }

    /// Crops of a random area (8 to 100 percent) and shape (3:4 to 4:3) at a random place, resized to the output.
    pub fn random_resized_crop() -> Warp {
        Warp::of(raw::BZNA_WARP_RANDOM_RESIZED_CROP)
    }

    /// The center, resized so that the output is this fraction of the picture's short edge: 224.0 / 256.0 to validate.
    pub fn center_resized_crop(fraction: f64) -> Warp {
        Warp { scale: [fraction, 0.0], ..Warp::of(raw::BZNA_WARP_CENTER_RESIZED_CROP) }
    }

    /// Rotations, translations and crops: 1:1 and centered, until its fields say more.
    pub fn similarity() -> Warp {
        Warp::of(raw::BZNA_WARP_SIMILARITY)
    }

    /// MXNet's affine augmentation. Parameters that only this has are fields of `mxnet`: canvas_px is its min and
    /// max_img_size, and so on.
    pub fn mxnet() -> Warp {
        Warp::of(raw::BZNA_WARP_MXNET)
    }

    /// Draws one warp: the homography of [`Transform`].
    pub fn draw(&self, random: &mut Random, input: (u32, u32), output: (u32, u32)) -> Result<[f64; 9]> {
        let mut homography = [0.0; 9];
        let to = homography.as_mut_ptr();
        // SAFETY: plain values; nine of them are written.
        call(|err| unsafe { raw::bzna_warp_draw(&mut random.0, self, input.0, input.1, output.0, output.1, to, err) })?;
        Ok(homography)
    }
}

/// Which split's tracks also list a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Split {
    #[default]
    None = raw::BZNA_SPLIT_NONE as isize,
    Train = raw::BZNA_SPLIT_TRAIN as isize,
    Validation = raw::BZNA_SPLIT_VALIDATION as isize,
    Test = raw::BZNA_SPLIT_TEST as isize,
}

/// The value of a field that is written with the picture.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Value<'a> {
    Integer(i64),
    Vector(&'a [f32]),
    Text(&'a str),
    Bytes(&'a [u8]),
}

impl Value<'_> {
    /// The kind and the bytes as C takes them, which lie in `self` or where it points to.
    fn parts(&self) -> (u32, *const std::ffi::c_void, usize) {
        match self {
            Value::Integer(number) => (raw::BZNA_FIELD_INTEGER, ptr::from_ref(number).cast(), size_of::<i64>()),
            Value::Vector(numbers) => (raw::BZNA_FIELD_VECTOR, numbers.as_ptr().cast(), size_of_val(*numbers)),
            Value::Text(text) => (raw::BZNA_FIELD_TEXT, text.as_ptr().cast(), text.len()),
            Value::Bytes(bytes) => (raw::BZNA_FIELD_BYTES, bytes.as_ptr().cast(), bytes.len()),
        }
    }
}

/// One sample to write: `Sample { target: Some(7), ..Sample::new(&image) }`.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    pub target: Option<i64>,
    pub name: Option<&'a str>,
    /// The full picture, of H.264, H.265, AV1 or JPEG; samples of one archive may differ.
    pub image: &'a Image,
    /// None: the picture itself serves, if its frame is at most 512x512.
    pub thumb: Option<&'a Image>,
    pub split: Split,
    /// Names and values. A name has the same kind in all samples; a sample may lack it.
    pub fields: &'a [(&'a str, Value<'a>)],
}

impl<'a> Sample<'a> {
    /// A picture, and nothing else.
    pub fn new(image: &'a Image) -> Sample<'a> {
        Sample { target: None, name: None, image, thumb: None, split: Split::None, fields: &[] }
    }
}

/// The settings of a writer.
#[derive(Clone, Copy, Debug, Default)]
pub struct WriterOptions<'a> {
    /// The names of the targets 0, 1, ..., for [`Dataset::classes`](crate::Dataset::classes).
    pub classes: &'a [&'a str],
    /// Memory for samples that wait for those of smaller indices. Default: 64 MiB.
    pub queue_bytes: u64,
}

fn with_config<T>(options: WriterOptions<'_>, open: impl FnOnce(*const raw::bzna_writer_config) -> Result<T>) -> Result<T> {
    let names = options.classes.iter().map(|class| c_string(class)).collect::<Result<Vec<_>>>()?;
    let classes: Vec<_> = names.iter().map(|class| class.as_ptr()).collect();
    open(&raw::bzna_writer_config {
        struct_size: size_of::<raw::bzna_writer_config>() as u32,
        class_count: classes.len() as u32,
        classes: if classes.is_empty() { ptr::null() } else { classes.as_ptr() },
        queue_bytes: options.queue_bytes,
        ..Default::default()
    })
}

/// Writes an archive, from as many threads as like to. One that is dropped without [`finish`](Writer::finish) is left unfinished:
/// readers say so, and `bzna index` makes a whole archive of its samples.
pub struct Writer<'a> {
    raw: NonNull<raw::bzna_writer>,
    flush: Option<(*mut std::ffi::c_void, host::Flush)>,
    context: Context,
    _sink: PhantomData<&'a mut ()>,
}

// SAFETY: the library takes calls from any threads at once, and calls a sink, which is Send, from one at a time. Closing takes the
// writer by value.
unsafe impl Send for Writer<'_> {}
unsafe impl Sync for Writer<'_> {}

impl fmt::Debug for Writer<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Writer").field("raw", &self.raw).finish_non_exhaustive()
    }
}

/// Calls with a sample as C takes it.
fn described<T>(sample: &Sample<'_>, call: impl FnOnce(*const raw::bzna_writer_sample) -> Result<T>) -> Result<T> {
    let name = sample.name.map(c_string).transpose()?;
    let names = sample.fields.iter().map(|(name, _)| c_string(name)).collect::<Result<Vec<_>>>()?;
    let fields: Vec<_> = sample
        .fields
        .iter()
        .zip(&names)
        .map(|((_, value), name)| {
            let (kind, data, size) = value.parts();
            let struct_size = size_of::<raw::bzna_field_value>() as u32;
            raw::bzna_field_value { struct_size, kind, name: name.as_ptr(), data, size: size as u64 }
        })
        .collect();
    call(&raw::bzna_writer_sample {
        struct_size: size_of::<raw::bzna_writer_sample>() as u32,
        split: sample.split as u32,
        image: &sample.image.raw,
        thumb: sample.thumb.map_or(ptr::null(), |thumb| &thumb.raw),
        target: sample.target.unwrap_or(0),
        has_target: sample.target.is_some().into(),
        name: name.as_ref().map_or(ptr::null(), |name| name.as_ptr()),
        fields: if fields.is_empty() { ptr::null() } else { fields.as_ptr() },
        field_count: fields.len() as u32,
        ..Default::default()
    })
}

impl<'a> Writer<'a> {
    pub(crate) fn create(context: &Context, path: &Path, options: WriterOptions<'_>) -> Result<Writer<'static>> {
        let path = crate::c_path(path)?;
        // SAFETY: path and config live for the call; the library copies them.
        let raw = with_config(options, |config| {
            make(|out, err| unsafe { raw::bzna_writer_open(context.as_raw(), path.as_ptr(), config, out, err) })
        })?;
        Ok(Writer { raw, flush: None, context: context.clone(), _sink: PhantomData })
    }

    pub(crate) fn create_in(context: &Context, sink: impl Write + Seek + Send + 'a, options: WriterOptions<'_>) -> Result<Writer<'a>> {
        let (sink, flush) = host::sink(sink);
        // SAFETY: the callbacks fit the user pointer; on success the writer closes it, exactly once.
        let opened = with_config(options, |config| {
            make(|out, err| unsafe { raw::bzna_writer_open_sink(context.as_raw(), &sink, config, out, err) })
        });
        if let (Err(_), Some(close)) = (&opened, sink.close) {
            // SAFETY: on failure it is still ours.
            unsafe { close(sink.user) };
        }
        Ok(Writer { raw: opened?, flush: Some((sink.user, flush)), context: context.clone(), _sink: PhantomData })
    }

    /// Writes one sample, behind all that were given: the same inputs give the same bytes. One that is refused leaves the archive as
    /// it was; a failed write ([`Status::IO`](crate::Status::IO)) ends the writer.
    pub fn add(&self, sample: &Sample<'_>) -> Result<()> {
        // SAFETY: a live writer; what the description points to lives for the call.
        described(sample, |desc| call(|err| unsafe { raw::bzna_writer_add(self.raw.as_ptr(), raw::BZNA_INDEX_NEXT, desc, 0, err) })).map(drop)
    }

    /// The same at an index, for several threads at once: samples come in any order, and the file has them in the order of their indices.
    /// None: no sample comes at this index, and later samples move up. False: the sample was not added, because its turn did not come
    /// within the timeout, and there is no room to keep it. If each thread takes the smallest index that is left, none waits long.
    #[must_use = "a sample that was not taken must be passed again"]
    pub fn add_at(&self, index: u64, sample: Option<&Sample<'_>>, timeout: Duration) -> Result<bool> {
        let timeout = i64::try_from(timeout.as_nanos()).unwrap_or(i64::MAX);
        // SAFETY: as above.
        let add = |desc| call(|err| unsafe { raw::bzna_writer_add(self.raw.as_ptr(), index, desc, timeout, err) });
        let status = match sample {
            Some(sample) => described(sample, add),
            None => add(ptr::null()),
        }?;
        Ok(status != raw::BZNA_AGAIN)
    }

    /// Writes the index and lets go of the file or sink.
    pub fn finish(self) -> Result<()> {
        // SAFETY: as above; the sink lives until the writer is closed, by the drop at the end of this function.
        call(|err| unsafe { raw::bzna_writer_finish(self.raw.as_ptr(), err) })?;
        match self.flush.map(|(user, flush)| unsafe { flush(user) }) {
            Some(Err(error)) => {
                let native_code = error.raw_os_error().unwrap_or(0);
                Err(Error { native_code, ..Error::new(raw::BZNA_E_IO, format!("flushing the archive failed: {error}")) })
            }
            _ => Ok(()),
        }
    }
}

impl Drop for Writer<'_> {
    fn drop(&mut self) {
        // SAFETY: ours, and closed once.
        if unsafe { raw::bzna_writer_close(self.raw.as_ptr()) } < 0 {
            self.context.leak();
        }
    }
}

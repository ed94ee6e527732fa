//! Loaders and the batches that they lend.

use crate::{
    augment, call, host, make, raw, rules, slice_of, slice_of_mut, Dataset, Device, Error, Jitter, LoaderInfo, Random, Result, Statistics,
};
use crate::{Drawn, Policy, SampleInfo, Status, Tensor, Transform, Warp};
use std::borrow::Borrow;
use std::ffi::{c_void, CString};
use std::fmt;
use std::iter::FusedIterator;
use std::mem::size_of;
use std::ptr::{self, NonNull};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

/// The last batch of an epoch, when it is not full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LastBatch {
    /// It has fewer samples.
    Partial = raw::BZNA_LAST_PARTIAL as isize,
    /// It is not delivered.
    Drop = raw::BZNA_LAST_DROP as isize,
    /// It is filled from the start of the epoch's order; [`Batch::count`] says how many samples are real.
    Pad = raw::BZNA_LAST_PAD as isize,
    /// It is filled with the values of [`LoaderBuilder::padding`]; [`Batch::count`] says how many samples are real.
    Fill = raw::BZNA_LAST_FILL as isize,
}

/// The treatment of a sample that cannot be read or decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnError {
    /// Its slot holds the out-of-bounds color.
    Fill = raw::BZNA_ON_ERROR_FILL as isize,
    /// Its slot takes another sample, the same in every run.
    Replace = raw::BZNA_ON_ERROR_REPLACE as isize,
    /// The loader returns its error instead of its batch, then and ever after.
    Stop = raw::BZNA_ON_ERROR_STOP as isize,
}

/// The treatment of a sample whose [`transform`](LoaderBuilder::transform) or [`picture`](LoaderBuilder::picture) closure, or whose source,
/// is at fault, by an error or a panic.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnCallbackError {
    /// The loader gives its panic, or its error, instead of its batch, whatever [`OnError`] is.
    #[default]
    Stop = raw::BZNA_ON_CALLBACK_ERROR_STOP as isize,
    /// It counts as one that cannot be read or decoded: [`OnError`] decides.
    Sample = raw::BZNA_ON_CALLBACK_ERROR_SAMPLE as isize,
}

/// Who decodes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum DecodeWith {
    /// NVDEC if the context has it; software for pictures that NVDEC cannot decode.
    #[default]
    Auto = raw::BZNA_DECODER_AUTO as isize,
    /// libavcodec, and libjpeg-turbo for JPEG.
    Software = raw::BZNA_DECODER_SOFTWARE as isize,
    /// NVDEC: opening the loader fails if it cannot be used.
    Nvdec = raw::BZNA_DECODER_NVDEC as isize,
}

/// The type of the pixels.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Dtype {
    #[default]
    F32 = raw::BZNA_DTYPE_FLOAT32 as isize,
    /// IEEE binary16, rounded to nearest even: [`Batch::image_bits`] on the host.
    F16 = raw::BZNA_DTYPE_FLOAT16 as isize,
    /// bfloat16, the upper half of an f32, rounded to nearest even: [`Batch::image_bits`] on the host.
    Bf16 = raw::BZNA_DTYPE_BFLOAT16 as isize,
    /// Rounded to nearest even, saturated: [`Batch::image_bytes`] on the host.
    U8 = raw::BZNA_DTYPE_UINT8 as isize,
}

/// The channels of a picture. Means, biases and scales are in their order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Channels {
    #[default]
    Rgb = raw::BZNA_CHANNELS_RGB as isize,
    Bgr = raw::BZNA_CHANNELS_BGR as isize,
    /// One: 0.299 R + 0.587 G + 0.114 B.
    Gray = raw::BZNA_CHANNELS_GRAY as isize,
}

/// How the values of a picture follow each other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Layout {
    /// The red plane, the green, the blue, each row by row.
    #[default]
    Nchw = raw::BZNA_LAYOUT_NCHW as isize,
    /// Red, green and blue of each pixel, row by row: channels last.
    Nhwc = raw::BZNA_LAYOUT_NHWC as isize,
}

/// How pixels are resampled.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub enum Filter {
    #[default]
    Linear = raw::BZNA_FILTER_LINEAR as isize,
    Nearest = raw::BZNA_FILTER_NEAREST as isize,
    /// PIL's, a = -0.5.
    Cubic = raw::BZNA_FILTER_CUBIC as isize,
    /// PIL's, a = 3.
    Lanczos = raw::BZNA_FILTER_LANCZOS3 as isize,
    /// The mean of the pixels that an output pixel covers; linear if a picture grows.
    Area = raw::BZNA_FILTER_AREA as isize,
    /// OpenCV's, a = -0.75.
    Cubic075 = raw::BZNA_FILTER_CUBIC_075 as isize,
    /// OpenCV's, over 8 x 8 pixels.
    Lanczos4 = raw::BZNA_FILTER_LANCZOS4 as isize,
}

/// How weights draw samples.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weighting {
    /// Each position is an independent draw.
    Replace = raw::BZNA_WEIGHTING_REPLACE as isize,
    /// Without replacement.
    Once = raw::BZNA_WEIGHTING_ONCE as isize,
}

/// A further output of a loader's samples, from the same decode: other sizes, other views, another picture of each sample. Without
/// a warp, filter or color of its own it has those of the loader's images; see [`LoaderBuilder::extra_output`].
#[must_use]
#[derive(Clone, Debug)]
pub struct Output {
    raw: raw::bzna_loader_output,
    name: String,
    field: Option<String>,
    warp: Option<Warp>,
    filter: Option<raw::bzna_loader_filter>,
    color: Option<raw::bzna_loader_color>,
    augment: Option<(Vec<Policy>, raw::bzna_loader_augment)>,
    mean_image: Option<Vec<f32>>,
}

impl Output {
    /// The name that no other tensor has.
    pub fn new(name: &str) -> Self {
        Output {
            raw: raw::bzna_loader_output::default(),
            name: name.to_owned(),
            field: None,
            warp: None,
            filter: None,
            color: None,
            augment: None,
            mean_image: None,
        }
    }

    /// Masks of classes with the pictures, warped in the same way: one channel of [`Dtype::U8`] with the numbers that the mask's pixels
    /// have, and 0 outside.
    pub fn mask(name: &str, field: &str) -> Self {
        let mask = Output::new(name).field(field).dtype(Dtype::U8).channels(Channels::Gray);
        mask.filter(Filter::Nearest).plain_color().palette_indices(true)
    }

    /// True: pictures with a palette come as its indices, whatever the data set's options say. All outputs of one
    /// field must say the same.
    pub fn palette_indices(mut self, indices: bool) -> Self {
        self.raw.palette = if indices { raw::BZNA_PALETTE_INDEX } else { raw::BZNA_PALETTE_COLORS };
        self
    }

    /// In pixels. Default: the size of the loader's images.
    pub fn size(mut self, width: u32, height: u32) -> Self {
        (self.raw.width, self.raw.height) = (width, height);
        self
    }

    /// The picture that it is made of. Default: that of the loader's images.
    pub fn field(mut self, name: &str) -> Self {
        self.field = Some(name.to_owned());
        self
    }

    /// So many views of each sample, with warps of their own.
    pub fn warp(mut self, views: u32, warp: &Warp) -> Self {
        (self.raw.views, self.warp) = (views, Some(*warp));
        self
    }

    pub fn dtype(mut self, dtype: Dtype) -> Self {
        self.raw.dtype = dtype as u32;
        self
    }

    pub fn channels(mut self, channels: Channels) -> Self {
        self.raw.channels = channels as u32;
        self
    }

    pub fn layout(mut self, layout: Layout) -> Self {
        self.raw.layout = layout as u32;
        self
    }

    /// A filter of its own, with antialias unless [`antialias`](Output::antialias) says otherwise.
    pub fn filter(mut self, filter: Filter) -> Self {
        self.filter.get_or_insert_with(Default::default).kind = filter as u32;
        self
    }

    /// The same as [`LoaderBuilder::antialias`], of a filter of its own.
    pub fn antialias(mut self, antialias: bool) -> Self {
        self.filter.get_or_insert_with(Default::default).antialias = antialias_of(antialias);
        self
    }

    /// Pixels are 0..255, as masks need them, and not y = (x - mean) / std.
    pub fn plain_color(mut self) -> Self {
        self.color.get_or_insert_with(Default::default);
        self
    }

    /// y = (x - bias) * scale, with an out-of-bounds color of its own.
    pub fn color(mut self, bias: [f32; 3], scale: [f32; 3], fill: [f32; 3]) -> Self {
        let color = self.color.get_or_insert_with(Default::default);
        (color.bias, color.scale, color.fill) = (bias, scale, fill);
        self
    }

    /// Policies of its own; an empty list means none; see [`LoaderBuilder::augment`]. Default: those of the loader's images.
    pub fn augment(mut self, policies: impl Into<Vec<Policy>>) -> Self {
        self.augment.get_or_insert_with(Default::default).0 = policies.into();
        self
    }

    /// The same as [`LoaderBuilder::beyond_crop`], of policies of its own.
    pub fn beyond_crop(mut self) -> Self {
        self.augment.get_or_insert_with(Default::default).1.beyond_crop = 1;
        self
    }

    /// A mean for each pixel; see [`LoaderBuilder::mean_image`].
    pub fn mean_image(mut self, mean: impl Into<Vec<f32>>) -> Self {
        self.mean_image = Some(mean.into());
        self.plain_color()
    }
}

fn antialias_of(antialias: bool) -> u32 {
    if antialias {
        raw::BZNA_ANTIALIAS_AUTO
    } else {
        raw::BZNA_ANTIALIAS_OFF
    }
}

type TransformFn = dyn Fn(&SampleInfo, &mut Random, &mut Transform) -> Result<(), Status> + Send + Sync;

/// The closure behind a thin pointer, for `transform_user`.
pub(crate) struct Transformer(Box<TransformFn>, Arc<host::Panics>);

unsafe extern "C" fn transform(
    user: *mut c_void,
    sample: *const raw::bzna_sample_info,
    random: *mut raw::bzna_random,
    transform: *mut raw::bzna_transform,
) -> raw::bzna_status {
    let transformer = &*user.cast::<Transformer>();
    let (sample, random, transform) = (&*sample, &mut *random.cast::<Random>(), &mut *transform);
    transformer.1.guard(|| result_of((transformer.0)(sample, random, transform)))
}

/// A decoded picture that the closure of [`LoaderBuilder::picture`] draws into, before it is warped. Sizes and planes are those of the
/// picture without padding, as it is coded: not rotated by its orientation.
pub struct Drawing<'a> {
    raw: &'a raw::bzna_picture,
    planes: [*mut u8; 3],
}

/// One plane of a [`Drawing`].
#[derive(Debug)]
pub struct Plane<'a> {
    /// From the first sample of the first row on; the last row ends with its last sample.
    pub data: &'a mut [u8],
    /// Bytes from one row to the next.
    pub stride: usize,
    /// Samples in a row, and rows.
    pub width: usize,
    pub height: usize,
    /// 1, or 2 if [`Drawing::depth`] is above 8: u16 in the machine's order of bytes.
    pub sample_bytes: usize,
}

impl Plane<'_> {
    /// The bytes of one row. Panics past the last one.
    pub fn row(&mut self, y: usize) -> &mut [u8] {
        assert!(y < self.height, "row {y} of {}", self.height);
        &mut self.data[y * self.stride..][..self.width * self.sample_bytes]
    }

    /// Fills a rectangle with one value; pixels outside the plane are left out. Panics if the value does not fit.
    pub fn fill(&mut self, columns: std::ops::Range<usize>, rows: std::ops::Range<usize>, value: u16) {
        assert!(self.sample_bytes == 2 || value < 256, "{value} is no sample of 8 bits");
        let (first, end) = (columns.start * self.sample_bytes, columns.end.min(self.width) * self.sample_bytes);
        for y in rows.start..rows.end.min(self.height) {
            if first < end {
                let bytes = value.to_ne_bytes();
                match self.sample_bytes {
                    1 => self.row(y)[first..end].fill(value as u8),
                    _ => self.row(y)[first..end].chunks_exact_mut(2).for_each(|sample| sample.copy_from_slice(&bytes)),
                }
            }
        }
    }
}

impl Drawing<'_> {
    /// Width and height, in pixels.
    pub fn size(&self) -> (usize, usize) {
        (self.raw.width as usize, self.raw.height as usize)
    }

    /// Bits of a sample.
    pub fn depth(&self) -> u32 {
        self.raw.depth
    }

    /// log2 of how many columns and rows of the picture a sample of Cb and Cr covers: (1, 1) for 4:2:0.
    pub fn chroma_shift(&self) -> (u32, u32) {
        (self.raw.chroma_shift_x, self.raw.chroma_shift_y)
    }

    /// The color description; if `present` is 1 and `matrix` is 0, the planes are G, B, R.
    pub fn color(&self) -> raw::bzna_color {
        self.raw.color
    }

    /// EXIF's number, 1..8: how the picture is rotated when it is warped.
    pub fn orientation(&self) -> u32 {
        self.raw.orientation.max(1)
    }

    /// 1: gray; 3: Y', Cb, Cr.
    pub fn plane_count(&self) -> usize {
        self.planes.iter().take_while(|plane| !plane.is_null()).count()
    }

    /// One plane. Panics if there is none.
    pub fn plane(&mut self, number: usize) -> Plane<'_> {
        assert!(number < self.plane_count(), "plane {number} of {}", self.plane_count());
        let (shift_x, shift_y) = if number > 0 { self.chroma_shift() } else { (0, 0) };
        let span = |first: u32, count: u32, shift: u32| ((first >> shift) as usize, (first + count).div_ceil(1 << shift) as usize);
        let (left, right) = span(self.raw.crop_x, self.raw.width, shift_x);
        let (top, bottom) = span(self.raw.crop_y, self.raw.height, shift_y);
        let (stride, sample_bytes) = (self.raw.pitch[number] as usize, if self.raw.depth > 8 { 2 } else { 1 });
        let size = (bottom - top - 1) * stride + (right - left) * sample_bytes;
        // SAFETY: inside the plane of the coded frame, a copy that nobody else looks at before the closure returns; borrowed from self.
        let data = unsafe { std::slice::from_raw_parts_mut(self.planes[number].add(top * stride + left * sample_bytes), size) };
        Plane { data, stride, width: right - left, height: bottom - top, sample_bytes }
    }

    /// Fills a rectangle of the picture with middle gray, in all planes, with the subsampled chroma that it touches.
    pub fn erase(&mut self, columns: std::ops::Range<usize>, rows: std::ops::Range<usize>) {
        for number in 0..self.plane_count() {
            let (x, y) = if number > 0 { self.chroma_shift() } else { (0, 0) };
            // Chroma begins where that of crop_x, crop_y does.
            let (odd_x, odd_y) = ((self.raw.crop_x & ((1 << x) - 1)) as usize, (self.raw.crop_y & ((1 << y) - 1)) as usize);
            let span = |range: &std::ops::Range<usize>, odd: usize, shift: u32| {
                (range.start + odd) >> shift..(range.end + odd).div_ceil(1 << shift)
            };
            let gray = 1 << (self.raw.depth - 1);
            self.plane(number).fill(span(&columns, odd_x, x), span(&rows, odd_y, y), gray);
        }
    }
}

impl fmt::Debug for Drawing<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Drawing").field("size", &self.size()).field("depth", &self.depth()).finish_non_exhaustive()
    }
}

type PictureFn = dyn Fn(&SampleInfo, &mut Random, &mut Drawing<'_>) -> Result<(), Status> + Send + Sync;

/// The closure behind a thin pointer, for `picture_user`.
pub(crate) struct Drawer(Box<PictureFn>, Arc<host::Panics>);

unsafe extern "C" fn draw(
    user: *mut c_void,
    sample: *const raw::bzna_sample_info,
    random: *mut raw::bzna_random,
    picture: *const raw::bzna_picture,
    planes: *const *mut c_void,
) -> raw::bzna_status {
    let drawer = &*user.cast::<Drawer>();
    let (sample, random, planes) = (&*sample, &mut *random.cast::<Random>(), &*planes.cast::<[*mut u8; 3]>());
    let mut drawing = Drawing { raw: &*picture, planes: *planes };
    drawer.1.guard(|| result_of((drawer.0)(sample, random, &mut drawing)))
}

/// What C is told of a closure's result.
pub(crate) fn result_of(result: Result<(), Status>) -> raw::bzna_status {
    match result {
        Ok(()) => raw::BZNA_OK,
        Err(status) if status.0 < 0 => status.0,
        Err(_) => raw::BZNA_E_CALLBACK,
    }
}

/// The settings of a loader; see [`Dataset::loader`]. Settings that are not given have the library's defaults: one epoch in sequence,
/// centered, one output pixel for one input pixel, a decoder thread for each processor; but batches are in host memory unless
/// [`device`](LoaderBuilder::device) says otherwise. Everything is checked by [`open`](LoaderBuilder::open).
#[must_use]
pub struct LoaderBuilder<'a> {
    /// None: of a stream, which has its own
    data: Option<&'a Dataset>,
    pub(crate) config: raw::bzna_loader_config,
    image: Option<String>,
    tensors: Option<String>,
    bytes: Option<String>,
    indices: Option<Vec<u64>>,
    weights: Option<Vec<f64>>,
    drawn_by: raw::bzna_formats_weights,
    cpus: Vec<i32>,
    outputs: Vec<Output>,
    policies: Vec<Policy>,
    mean_image: Option<Vec<f32>>,
    transform: Option<Arc<Transformer>>,
    picture: Option<Arc<Drawer>>,
    rules: Vec<rules::Rule>,
    panics: Arc<host::Panics>,
}

impl fmt::Debug for LoaderBuilder<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("LoaderBuilder").field("config", &self.config).field("image", &self.image).finish_non_exhaustive()
    }
}

impl<'a> LoaderBuilder<'a> {
    pub(crate) fn new(data: Option<&'a Dataset>) -> Self {
        let mut config = raw::bzna_loader_config::default();
        // SAFETY: the struct is as long as it says.
        unsafe { raw::bzna_loader_config_init(&mut config, size_of::<raw::bzna_loader_config>()) };
        config.output.device = Device::Cpu.into();
        LoaderBuilder {
            data,
            config,
            image: None,
            tensors: None,
            bytes: None,
            indices: None,
            weights: None,
            drawn_by: raw::bzna_formats_weights::default(),
            cpus: Vec::new(),
            outputs: Vec::new(),
            policies: Vec::new(),
            mean_image: None,
            transform: None,
            picture: None,
            rules: Vec::new(),
            panics: Arc::default(),
        }
    }

    /// Of the output, in pixels. Must be given.
    pub fn size(mut self, width: u32, height: u32) -> Self {
        (self.config.output.width, self.config.output.height) = (width, height);
        self
    }

    /// Another order in each epoch, by this seed.
    pub fn shuffle(mut self, seed: u64) -> Self {
        self.config.order.kind = raw::BZNA_ORDER_SHUFFLE;
        self.seed(seed)
    }

    /// An order of your own: [`Loader::set_indices`] or [`Loader::set_batches`] gives the samples of each epoch.
    ///
    /// ```no_run
    /// # fn main() -> benzina::Result<()> {
    /// # let data = benzina::Context::new(Default::default())?.open("train.bzna")?;
    /// # fn hardest_first() -> Vec<u64> { vec![3, 1, 2] }
    /// let loader = data.loader().batch_size(256).size(224, 224).given().epochs(90).seed(7).open()?;
    /// for epoch in 0..90 {
    ///     loader.set_indices(epoch, &hardest_first())?;
    ///     while let Some(batch) = loader.next_batch() {
    ///         let batch = batch?;
    ///         if batch.failed() > 0 {
    ///             eprintln!("{} of {} samples failed", batch.failed(), batch.count());
    ///         }
    ///         // learn from it
    ///         if batch.is_last_of_epoch() {
    ///             break;
    ///         }
    ///     }
    /// }
    /// # Ok(()) }
    /// ```
    pub fn given(mut self) -> Self {
        self.config.order.kind = raw::BZNA_ORDER_GIVEN;
        self
    }

    /// Epochs without end.
    pub fn endless(self) -> Self {
        self.epochs(raw::BZNA_EPOCHS_ENDLESS)
    }

    /// This process's share: one of `world_size`.
    pub fn shard(mut self, rank: u32, world_size: u32) -> Self {
        (self.config.shard.rank, self.config.shard.world_size) = (rank, world_size);
        self
    }

    /// Fills the last batch with pictures whose numbers are all `value`, as they are in the tensor, and with these targets.
    pub fn padding(mut self, value: f64, target: i64) -> Self {
        (self.config.order.pad_value, self.config.order.pad_target) = (value, target);
        self.last_batch(LastBatch::Fill)
    }

    /// Crops of a random area (8 to 100 percent) and shape (3:4 to 4:3) at a random place, resized to the output.
    pub fn random_resized_crop(mut self) -> Self {
        self.config.warp.kind = raw::BZNA_WARP_RANDOM_RESIZED_CROP;
        self
    }

    /// The center, resized so that the output is this fraction of the picture's short edge: 224.0 / 256.0 to validate, with
    /// [`Crops::Torchvision`](crate::Crops::Torchvision) as its Resize(256) and CenterCrop(224).
    pub fn center_resized_crop(mut self, fraction: f64) -> Self {
        self.config.warp.kind = raw::BZNA_WARP_CENTER_RESIZED_CROP;
        self.config.warp.scale[0] = fraction;
        self
    }

    /// Any warp, with all that it says: flips and how crops are drawn, too.
    pub fn warp(mut self, warp: &Warp) -> Self {
        self.config.warp = *warp;
        self
    }

    /// Probabilities of mirroring.
    pub fn flip(mut self, horizontally: f64, vertically: f64) -> Self {
        (self.config.warp.flip_h, self.config.warp.flip_v) = (horizontally, vertically);
        self
    }

    /// Turned clockwise by `rotate` degrees, lo..hi, and sheared by degrees in x, lo..hi, and in y, on top of the warp.
    pub fn rotate_shear(mut self, rotate: [f64; 2], shear: [f64; 4]) -> Self {
        (self.config.warp.rotate, self.config.warp.shear) = (rotate, shear);
        self
    }

    /// torchvision's RandomPerspective on top of the warp: how far corners go, 0..1, and how often; 0.0: half the time.
    pub fn perspective(mut self, distortion: f64, probability: f64) -> Self {
        (self.config.warp.perspective, self.config.warp.perspective_p) = (distortion, probability);
        self
    }

    /// Policies, which are applied one after the other behind the crop and the jitter: RandAugment, blur, erasing, ...
    pub fn augment(mut self, policies: impl Into<Vec<Policy>>) -> Self {
        self.policies = policies.into();
        self
    }

    /// Random colors: torchvision's ColorJitter and RandomGrayscale. MXNet's HLS, contrast and illumination
    /// are the warp's: [`crate::Mxnet`].
    pub fn jitter(mut self, jitter: Jitter) -> Self {
        self.config.color.jitter = jitter;
        self
    }

    /// y = (x - mean) / std for each of red, green, blue; x is in 0..255.
    pub fn mean_std(mut self, mean: [f32; 3], std: [f32; 3]) -> Self {
        (self.config.color.mean, self.config.color.std) = (mean, std);
        self
    }

    /// y = (x - bias) * scale; not together with mean and std.
    pub fn bias_scale(mut self, bias: [f32; 3], scale: [f32; 3]) -> Self {
        (self.config.color.bias, self.config.color.scale) = (bias, scale);
        self
    }

    /// A mean for each pixel, in place of one for each channel: channels * height * width of them, plane by plane.
    pub fn mean_image(mut self, mean: impl Into<Vec<f32>>) -> Self {
        self.mean_image = Some(mean.into());
        self
    }

    /// A further output; it is asked for by its name: [`Batch::tensor`], [`Batch::values`].
    pub fn extra_output(mut self, output: Output) -> Self {
        self.outputs.push(output);
        self
    }

    /// Which picture of a sample: "image", "thumb", or the name of a track. Default: the thumbnail, unless the output is larger than 512.
    pub fn image_field(mut self, name: &str) -> Self {
        self.image = Some(name.to_owned());
        self
    }

    /// Further fields of each batch, by name, commas between them: integers, and vectors, whose length may follow a colon, "id,label:5".
    /// For [`Batch::integers`] and [`Batch::vectors`].
    pub fn tensors(mut self, names: &str) -> Self {
        self.tensors = Some(names.to_owned());
        self
    }

    /// Fields of any kind, by name, for [`Batch::bytes`].
    pub fn bytes(mut self, names: &str) -> Self {
        self.bytes = Some(names.to_owned());
        self
    }

    /// How batches deliver a field: bytes, or a tensor that a closure fills in. A field belongs to the first rule that it matches.
    pub fn rule(mut self, rule: rules::Rule) -> Self {
        self.rules.push(rule);
        self
    }

    /// True, the default: the filter is widened if a picture shrinks, as in PIL and torchvision. False: it is not, as in OpenCV.
    pub fn antialias(mut self, antialias: bool) -> Self {
        self.config.filter.antialias = antialias_of(antialias);
        self
    }

    /// The memory of batches, whatever decodes: [`Device::Auto`] and [`Device::Cpu`] are host memory; with [`Device::Cuda`], opening fails
    /// if that is not the context's device. Default [`Device::Cpu`].
    pub fn device(mut self, device: Device) -> Self {
        self.config.output.device = device.into();
        self
    }

    /// The consumer's CUstream, for batches on the device; without, the loader makes one: [`Batch::stream`] names it.
    ///
    /// # Safety
    ///
    /// It must be a stream of the context's device and CUDA context, and live until the loader and all its batches are dropped.
    pub unsafe fn stream(mut self, stream: *mut c_void) -> Self {
        self.config.output.stream = stream;
        self
    }

    /// The samples of an epoch, instead of all; they may repeat.
    pub fn indices(mut self, indices: impl Into<Vec<u64>>) -> Self {
        self.indices = Some(indices.into());
        self
    }

    /// How likely each sample (of `indices`, when given) is drawn.
    pub fn weights(mut self, weighting: Weighting, weights: impl Into<Vec<f64>>) -> Self {
        self.drawn_by.weighting = weighting as u32;
        self.weights = Some(weights.into());
        self
    }

    /// The weights are one for each part of a concatenation, shared evenly by its samples; not together with `indices`.
    pub fn weights_by_part(mut self) -> Self {
        self.drawn_by.by_part = 1;
        self
    }

    /// Draws in an epoch, with weights. Default: as many as samples, or without replacement as samples that have a weight.
    pub fn epoch_samples(mut self, epoch_samples: u64) -> Self {
        self.drawn_by.epoch_samples = epoch_samples;
        self
    }

    /// Takes what lists are drawn by: then the loader is given them. None without weights.
    fn weighted(&mut self, data: &Dataset) -> Result<Option<Weighted>> {
        let Some(weights) = self.weights.take() else {
            let is_set = self.drawn_by.by_part != 0 || self.drawn_by.epoch_samples != 0;
            return if is_set {
                Err(Error::new(raw::BZNA_E_ARGUMENT, "weights_by_part, epoch_samples: only with weights"))
            } else {
                Ok(None)
            };
        };
        if self.config.order.kind == raw::BZNA_ORDER_GIVEN {
            return Err(Error::new(raw::BZNA_E_ARGUMENT, "weights: not with an order that is given (BZNA_ORDER_GIVEN)"));
        }
        self.config.order.kind = raw::BZNA_ORDER_GIVEN;
        let data = data.context().concat(&[data])?;
        Ok(Some(Weighted { data, weights, indices: self.indices.take(), by: self.drawn_by, given: Mutex::default() }))
    }

    /// How often a read that failed is tried again, and how long to wait before the first time; doubled each time.
    pub fn read_retries(mut self, times: u32, backoff: Duration) -> Self {
        self.config.read.retries = times;
        self.config.read.backoff_ns = u64::try_from(backoff.as_nanos()).unwrap_or(u64::MAX);
        self
    }

    /// Thread i runs on processor `cpus[i % cpus.len()]`, decoders first, then readers.
    pub fn cpus(mut self, cpus: impl Into<Vec<i32>>) -> Self {
        self.cpus = cpus.into();
        self
    }

    /// Called once for each sample, by the decoder threads, several at once: may change or replace the transform that the configuration
    /// gave this sample, with random numbers of its own. An error ends the run with [`Status::CALLBACK`], a panic is resumed in the call
    /// that asks for the batch, unless [`on_callback_error`](LoaderBuilder::on_callback_error) says otherwise. The closure must not use
    /// contexts, data sets or loaders.
    pub fn transform<F>(mut self, function: F) -> Self
    where
        F: Fn(&SampleInfo, &mut Random, &mut Transform) -> Result<(), Status> + Send + Sync + 'static,
    {
        self.transform = Some(Arc::new(Transformer(Box::new(function), self.panics.clone())));
        self
    }

    /// Called once for each decoded picture, before its views are warped, by the decoder threads, several at once: draws into it. In
    /// software alone: NVDEC decodes nothing for this loader. Errors and panics are as those of
    /// [`transform`](LoaderBuilder::transform). The closure must not use contexts, data sets or loaders. Random erasing:
    ///
    /// ```no_run
    /// # fn main() -> benzina::Result<()> {
    /// # let data = benzina::Context::new(Default::default())?.open("train.bzna")?;
    /// let loader = data.loader().batch_size(256).size(224, 224).picture(|_, random, picture| {
    ///     let mut span = |edge: usize| {
    ///         let length = random.uniform(0.1, 0.5) * edge as f64;
    ///         let first = random.uniform(0.0, edge as f64 - length);
    ///         first as usize..(first + length) as usize
    ///     };
    ///     let (columns, rows) = (span(picture.size().0), span(picture.size().1));
    ///     picture.erase(columns, rows);
    ///     Ok(())
    /// });
    /// # Ok(())
    /// # }
    /// ```
    pub fn picture<F>(mut self, function: F) -> Self
    where
        F: Fn(&SampleInfo, &mut Random, &mut Drawing<'_>) -> Result<(), Status> + Send + Sync + 'static,
    {
        self.picture = Some(Arc::new(Drawer(Box::new(function), self.panics.clone())));
        self
    }

    /// Checks the configuration, allocates, and starts the threads: decoding begins at once. The loader keeps the data set alive.
    pub fn open(mut self) -> Result<Loader> {
        let Some(data) = self.data else {
            return Err(Error::new(raw::BZNA_E_ARGUMENT, "these settings are for Stream::open: a loader is made by Dataset::loader"));
        };
        let context = data.context().clone();
        let weighted = self.weighted(data)?;
        // SAFETY: what the config points to lives for the call, and is copied; the closures live until the loader is closed.
        let ((raw, opened), hooks) = self.configured(|config, rules| {
            let opened = rules::Opened::of(rules, data, config)?;
            Ok((make(|out, err| unsafe { raw::bzna_loader_open(context.as_raw(), data.as_raw(), config, out, err) })?, opened))
        })?;
        let (transform, picture, rules, panics) = (hooks.transform, hooks.picture, hooks.rules, hooks.panics);
        let loader = Loader { raw, transform, picture, rules, opened, panics, weighted, context };
        loader.draw()?;
        Ok(loader)
    }

    /// Calls open with the finished config, and with the rules that it does not have yet. Both point to what lives for that call. The
    /// closures must live as long as the loader.
    pub(crate) fn configured<T>(
        mut self,
        open: impl FnOnce(&mut raw::bzna_loader_config, &[raw::bzna_rule]) -> Result<T>,
    ) -> Result<(T, Hooks)> {
        fn count<T>(items: &[T]) -> u64 {
            items.len() as u64
        }
        let policies = augment::raw_of(&self.policies);
        augment::point_to(&mut self.config.augment, &policies);
        let named = [&self.image, &self.tensors, &self.bytes].map(|name| name.as_deref().map(crate::c_string).transpose());
        let [image, tensors, bytes]: [Result<Option<CString>>; 3] = named;
        let (image, tensors, bytes) = (image?, tensors?, bytes?);
        let pointer = |name: &Option<CString>| name.as_ref().map_or(ptr::null(), |name| name.as_ptr());
        let config = &mut self.config;
        config.fields.image = pointer(&image);
        (config.fields.tensors, config.fields.bytes) = (pointer(&tensors), pointer(&bytes));
        if let Some(indices) = &self.indices {
            if indices.is_empty() {
                return Err(Error::new(raw::BZNA_E_NO_SAMPLES, "loader_config.order.indices: there are none"));
            }
            (config.order.indices, config.order.index_count) = (indices.as_ptr(), count(indices));
        }
        if !self.cpus.is_empty() {
            (config.pipeline.cpus, config.pipeline.cpu_count) = (self.cpus.as_ptr(), self.cpus.len() as u32);
        }
        set_mean_image(&mut config.color, &self.mean_image);
        let names = self.outputs.iter().map(|output| crate::c_string(&output.name)).collect::<Result<Vec<_>>>()?;
        let fields = self.outputs.iter().map(|output| output.field.as_deref().map(crate::c_string).transpose());
        let fields = fields.collect::<Result<Vec<_>>>()?;
        // First those that own what the others point to; neither moves any more.
        for output in &mut self.outputs {
            if let Some(color) = &mut output.color {
                set_mean_image(color, &output.mean_image);
            }
        }
        let own = |output: &Output| output.augment.as_ref().map(|(policies, augment)| (augment::raw_of(policies), *augment));
        let mut augments: Vec<_> = self.outputs.iter().map(own).collect();
        for (policies, augment) in augments.iter_mut().flatten() {
            augment::point_to(augment, policies);
        }
        let mut outputs: Vec<_> = self.outputs.iter().map(|output| output.raw).collect();
        for (i, raw) in outputs.iter_mut().enumerate() {
            let output = &self.outputs[i];
            (raw.name, raw.field) = (names[i].as_ptr(), pointer(&fields[i]));
            raw.warp = output.warp.as_ref().map_or(ptr::null(), ptr::from_ref);
            raw.filter = output.filter.as_ref().map_or(ptr::null(), ptr::from_ref);
            raw.color = output.color.as_ref().map_or(ptr::null(), ptr::from_ref);
            raw.augment = augments[i].as_ref().map_or(ptr::null(), |(_, augment)| ptr::from_ref(augment));
        }
        if !outputs.is_empty() {
            (config.extra_outputs.ptr, config.extra_outputs.count) = (outputs.as_ptr(), count(&outputs));
        }
        if let Some(transformer) = &self.transform {
            config.pipeline.transform = Some(transform);
            config.pipeline.transform_user = Arc::as_ptr(transformer).cast_mut().cast();
        }
        if let Some(drawer) = &self.picture {
            config.pipeline.picture = Some(draw);
            config.pipeline.picture_user = Arc::as_ptr(drawer).cast_mut().cast();
        }
        let askers: Vec<_> = self.rules.iter().map(|rule| rule.bind(&self.panics)).collect();
        let texts = self.rules.iter().map(rules::Rule::texts).collect::<Result<Vec<_>>>()?;
        let rules: Vec<_> = self.rules.iter().zip(&texts).zip(&askers).map(|((rule, texts), asker)| rule.raw(texts, asker)).collect();
        let made = open(config, &rules)?;
        Ok((made, Hooks { transform: self.transform, picture: self.picture, rules: askers, panics: self.panics }))
    }
}

/// What the lists of a loader are drawn by.
struct Weighted {
    data: Dataset,
    weights: Vec<f64>,
    indices: Option<Vec<u64>>,
    by: raw::bzna_formats_weights,
    /// The epochs whose lists the loader has.
    given: Mutex<Vec<u64>>,
}

impl Weighted {
    /// Gives the loader the lists of its current epoch and of the next one, so that its samples are read ahead.
    fn give(&self, loader: &Loader) -> Result<()> {
        let state = loader.save()?.0;
        let mut given = self.given.lock().unwrap_or_else(PoisonError::into_inner);
        given.retain(|&epoch| epoch >= state.epoch);
        let indices = self.indices.as_deref().unwrap_or_default();
        let by = raw::bzna_formats_weights {
            struct_size: size_of::<raw::bzna_formats_weights>() as u32,
            weights: self.weights.as_ptr(),
            weight_count: self.weights.len() as u64,
            indices: if self.indices.is_some() { indices.as_ptr() } else { ptr::null() },
            index_count: indices.len() as u64,
            seed: state.seed,
            ..self.by
        };
        for epoch in (state.epoch..state.end_epoch).take(2) {
            if !given.contains(&epoch) {
                // SAFETY: what `by` points to lives for the call, and is not kept.
                call(|err| unsafe { raw::bzna_formats_weighted_give(loader.as_raw(), self.data.as_raw(), &by, epoch, err) })?;
                given.push(epoch);
            }
        }
        Ok(())
    }
}

/// The closures of a loader, and where their panics are kept.
#[cfg_attr(not(feature = "stream"), allow(dead_code))]
pub(crate) struct Hooks {
    pub(crate) transform: Option<Arc<Transformer>>,
    pub(crate) picture: Option<Arc<Drawer>>,
    pub(crate) rules: Vec<Option<Arc<rules::Asker>>>,
    pub(crate) panics: Arc<host::Panics>,
}

fn set_mean_image(color: &mut raw::bzna_loader_color, mean: &Option<Vec<f32>>) {
    if let Some(mean) = mean {
        (color.mean_image, color.mean_image_bytes) = (mean.as_ptr().cast(), std::mem::size_of_val(&mean[..]) as u64);
    }
}

/// Sampler, transforms and threads over a data set: an iterator of batches, by value or by reference.
///
/// By reference, the loader can still be saved, stopped or reset:
///
/// ```no_run
/// # fn main() -> benzina::Result<()> {
/// # let data = benzina::Context::new(Default::default())?.open("train.bzna")?;
/// let loader = data.loader().batch_size(256).size(224, 224).shuffle(1234).epochs(90).open()?;
/// for batch in &loader {
///     let batch = batch?;
///     if batch.failed() > 0 {
///         eprintln!("{} of {} samples failed", batch.failed(), batch.count());
///     }
///     if batch.is_last_of_epoch() {
///         std::fs::write("checkpoint.loader", loader.save()?.to_bytes()).unwrap();
///     }
/// }
/// # Ok(())
/// # }
/// ```
pub struct Loader {
    raw: NonNull<raw::bzna_loader>,
    transform: Option<Arc<Transformer>>,
    picture: Option<Arc<Drawer>>,
    rules: Vec<Option<Arc<rules::Asker>>>,
    opened: Option<rules::Opened>,
    panics: Arc<host::Panics>,
    weighted: Option<Weighted>,
    context: crate::Context,
}

// SAFETY: any thread may use a loader; only one at a time waits in bzna_loader_next (a second one gets BZNA_E_STATE): chapter 4 of the
// manual. So sharing is sound, and at worst an error. The closures are Send + Sync.
unsafe impl Send for Loader {}
unsafe impl Sync for Loader {}

impl fmt::Debug for Loader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Loader").field("raw", &self.raw).finish_non_exhaustive()
    }
}

/// The result of [`Loader::poll`].
#[derive(Debug)]
#[allow(clippy::large_enum_variant)] // looked at and taken apart at once
pub enum Next {
    Batch(Batch),
    /// The last epoch is over.
    End,
    /// Not ready within the time.
    Later,
}

impl Loader {
    fn next(&self, timeout_ns: i64) -> Result<Next> {
        let mut batch = ptr::null_mut();
        // SAFETY: a live loader, here and below.
        let status = call(|err| unsafe { raw::bzna_loader_next(self.as_raw(), timeout_ns, &mut batch, err) }).inspect_err(|error| {
            if error.status == Status::CALLBACK {
                self.panics.resume(error.native_code);
            }
        })?;
        Ok(match NonNull::new(batch) {
            Some(raw) => {
                let batch = Batch::new(raw, self.context.clone())?;
                if batch.is_last_of_epoch() {
                    self.draw()?;
                }
                Next::Batch(batch)
            }
            None if status == raw::BZNA_END => Next::End,
            None => Next::Later,
        })
    }

    /// The next batch, in order; None after the last one. An error if another thread is waiting, all batches are on loan
    /// ([`Status::STATE`]), the loader was stopped ([`Status::STOPPED`]), or a closure failed ([`Status::CALLBACK`]).
    ///
    /// # Panics
    ///
    /// With the panic of a closure, once; from then on, until [`reset`](Loader::reset), it is an error.
    pub fn next_batch(&self) -> Option<Result<Batch>> {
        match self.next(raw::BZNA_WAIT_FOREVER) {
            Ok(Next::Batch(batch)) => Some(Ok(batch)),
            Ok(_) => None,
            Err(error) => Some(Err(error)),
        }
    }

    /// The next batch if it is there within a time; zero asks without waiting.
    pub fn poll(&self, timeout: Duration) -> Result<Next> {
        self.next(i64::try_from(timeout.as_nanos()).unwrap_or(i64::MAX))
    }

    /// An iterator of batches that ends after the last epoch, or after an error.
    pub fn iter(&self) -> Batches<&Loader> {
        self.into_iter()
    }

    /// Gives the samples of an epoch that has no list yet, with [`LoaderBuilder::given`]: of all ranks together, in order; they may
    /// repeat. Any thread may call it, also while another one waits for a batch. [`reset`](Loader::reset) and
    /// [`restore`](Loader::restore) forget all lists.
    pub fn set_indices(&self, epoch: u64, indices: &[u64]) -> Result<()> {
        // SAFETY: the indices are copied.
        call(|err| unsafe {
            raw::bzna_loader_set_batches(self.as_raw(), epoch, indices.as_ptr(), indices.len() as u64, ptr::null(), 0, err)
        })
        .map(drop)
    }

    /// Likewise, batch by batch: each of `batches` has the samples of one, at most as many as the loader's batches have room for.
    /// Ranks share whole batches.
    pub fn set_batches<B: AsRef<[u64]>>(&self, epoch: u64, batches: impl IntoIterator<Item = B>) -> Result<()> {
        let (mut indices, mut sizes) = (Vec::new(), Vec::new());
        for batch in batches {
            indices.extend_from_slice(batch.as_ref());
            sizes.push(u32::try_from(batch.as_ref().len()).unwrap_or(u32::MAX));
        }
        // SAFETY: both arrays are copied.
        call(|err| unsafe {
            raw::bzna_loader_set_batches(
                self.as_raw(),
                epoch,
                indices.as_ptr(),
                indices.len() as u64,
                sizes.as_ptr(),
                sizes.len() as u64,
                err,
            )
        })
        .map(drop)
    }

    /// Ends all waiting, now and later, until [`reset`](Loader::reset). Does not wait.
    pub fn stop(&self) -> Result<()> {
        call(|err| unsafe { raw::bzna_loader_stop(self.as_raw(), err) }).map(drop)
    }

    /// Draws the next lists, if samples are drawn by weights.
    fn draw(&self) -> Result<()> {
        self.weighted.as_ref().map_or(Ok(()), |weighted| weighted.give(self))
    }

    /// Draws lists anew: the library has forgotten them.
    fn draw_again(&self) -> Result<()> {
        if let Some(weighted) = &self.weighted {
            weighted.given.lock().unwrap_or_else(PoisonError::into_inner).clear();
        }
        self.draw()
    }

    /// Goes to the start of an epoch, whatever is under way; batches already delivered stay valid.
    pub fn reset(&self, epoch: u64) -> Result<()> {
        call(|err| unsafe { raw::bzna_loader_reset(self.as_raw(), epoch, err) })?;
        self.draw_again()
    }

    /// The position of the run after the last batch that was delivered.
    pub fn save(&self) -> Result<State> {
        let mut state = raw::bzna_loader_state::default();
        call(|err| unsafe { raw::bzna_loader_save(self.as_raw(), &mut state, size_of::<raw::bzna_loader_state>(), err) })?;
        Ok(State(state))
    }

    /// Goes on from a state of the same data set and order; threads, batch size and world size may differ.
    pub fn restore(&self, state: &State) -> Result<()> {
        call(|err| unsafe { raw::bzna_loader_restore(self.as_raw(), &state.0, err) })?;
        self.draw_again()
    }

    pub fn info(&self) -> Result<LoaderInfo> {
        let mut info = LoaderInfo::default();
        call(|err| unsafe { raw::bzna_loader_get_info(self.as_raw(), &mut info, size_of::<LoaderInfo>(), err) })?;
        Ok(info)
    }

    /// Counts and waits since the loader was opened.
    pub fn statistics(&self) -> Result<Statistics> {
        let mut statistics = Statistics::default();
        call(|err| unsafe { raw::bzna_loader_statistics(self.as_raw(), &mut statistics, size_of::<Statistics>(), err) })?;
        Ok(statistics)
    }

    /// The statistics since earlier ones of this loader, such as of an epoch, and the stage that limited it in that time.
    pub fn statistics_since(&self, earlier: &Statistics) -> Result<Statistics> {
        let (later, mut since) = (self.statistics()?, Statistics::default());
        call(|err| unsafe { raw::bzna_statistics_since(&later, earlier, &mut since, size_of::<Statistics>(), err) })?;
        Ok(since)
    }

    /// The tensors of a full batch: "image", if there are pictures, "target", "index", "status", then the further fields that `tensors` of
    /// the builder named, then the further outputs.
    pub fn tensors(&self) -> Result<Vec<Tensor>> {
        let mut tensors = Vec::new();
        loop {
            let mut tensor = Tensor::default();
            let number = tensors.len() as u32;
            match call(|err| unsafe { raw::bzna_loader_tensor(self.as_raw(), number, &mut tensor, size_of::<Tensor>(), err) }) {
                Ok(_) => tensors.push(tensor),
                Err(error) if error.status == Status::RANGE => return Ok(tensors),
                Err(error) => return Err(error),
            }
        }
    }

    /// For the functions of [`raw`]: valid as long as this loader lives.
    pub fn as_raw(&self) -> *mut raw::bzna_loader {
        self.raw.as_ptr()
    }
}

impl Drop for Loader {
    fn drop(&mut self) {
        // SAFETY: ours, and closed once; it waits for callbacks that are running. Refused inside a callback and after a fork: the
        // threads, if any, then run on, and what they use must stay.
        if unsafe { raw::bzna_loader_close(self.raw.as_ptr()) } < 0 {
            std::mem::forget((self.transform.take(), self.picture.take(), std::mem::take(&mut self.rules), self.opened.take()));
            self.context.leak();
        }
    }
}

/// The batches of a loader, until the last epoch is over or something fails; after an error it ends, and the loader can still be asked.
#[derive(Debug)]
pub struct Batches<L> {
    loader: L,
    done: bool,
}

impl<L: Borrow<Loader>> Iterator for Batches<L> {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        let batch = if self.done { None } else { self.loader.borrow().next_batch() };
        self.done = !matches!(batch, Some(Ok(_)));
        batch
    }
}

impl<L: Borrow<Loader>> FusedIterator for Batches<L> {}

impl IntoIterator for Loader {
    type Item = Result<Batch>;
    type IntoIter = Batches<Loader>;

    fn into_iter(self) -> Self::IntoIter {
        Batches { loader: self, done: false }
    }
}

impl<'a> IntoIterator for &'a Loader {
    type Item = Result<Batch>;
    type IntoIter = Batches<&'a Loader>;

    fn into_iter(self) -> Self::IntoIter {
        Batches { loader: self, done: false }
    }
}

/// One batch on loan, given back when it is dropped. It may outlive its loader:
///
/// ```no_run
/// # fn main() -> benzina::Result<()> {
/// # let loader = benzina::Context::new(Default::default())?.open("train.bzna")?.loader().open()?;
/// let batch = loader.next_batch().unwrap()?;
/// let pixels = batch.image();
/// drop(loader);
/// println!("{}", pixels[0]);
/// # Ok(())
/// # }
/// ```
///
/// Its slices do not outlive it:
///
/// ```compile_fail,E0505
/// # fn main() -> benzina::Result<()> {
/// # let loader = benzina::Context::new(Default::default())?.open("train.bzna")?.loader().open()?;
/// let batch = loader.next_batch().unwrap()?;
/// let pixels = batch.image();
/// drop(batch);
/// println!("{}", pixels[0]);
/// # Ok(())
/// # }
/// ```
pub struct Batch {
    raw: NonNull<raw::bzna_batch>,
    info: raw::bzna_batch_info,
    context: crate::Context, // the allocator that the batch's memory goes back to
}

// SAFETY: any thread may use a batch, concurrently, and releases it once: chapter 4 of the manual. The library writes nothing
// to a batch on loan, so shared slices of it are as good as those of a Vec.
unsafe impl Send for Batch {}
unsafe impl Sync for Batch {}

impl fmt::Debug for Batch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Batch")
            .field("epoch", &self.info.epoch)
            .field("batch", &self.info.batch)
            .field("shape", &self.shape())
            .finish_non_exhaustive()
    }
}

impl Batch {
    pub(crate) fn new(raw: NonNull<raw::bzna_batch>, context: crate::Context) -> Result<Self> {
        let mut batch = Batch { raw, info: raw::bzna_batch_info::default(), context };
        // SAFETY: a live batch; nothing of what is written changes until it is released.
        call(|err| unsafe { raw::bzna_batch_get_info(raw.as_ptr(), &mut batch.info, size_of::<raw::bzna_batch_info>(), err) })?;
        Ok(batch)
    }

    /// Batch, channels, height, width; with [`Layout::Nhwc`] batch, height, width, channels. This is the size of one view if there are
    /// several [`views`](Batch::views).
    pub fn shape(&self) -> [usize; 4] {
        [4, 3, 2, 1].map(|i| self.info.image.shape[self.info.image.dimensions as usize - i] as usize)
    }

    /// Views of each sample: [`image`](Batch::image) has them one after the other, each a batch.
    pub fn views(&self) -> usize {
        match self.info.image.dimensions {
            5 => self.info.image.shape[0] as usize,
            _ => 1,
        }
    }

    /// The number of real samples, which are in the first slots. Less than `shape()[0]` only if the last batch is padded.
    pub fn count(&self) -> usize {
        self.info.count as usize
    }

    /// How many samples have an [`error`](Batch::error).
    pub fn failed(&self) -> usize {
        self.info.failed as usize
    }

    /// Slots that hold another sample than planned; see [`OnError::Replace`].
    pub fn replaced(&self) -> usize {
        self.info.replaced as usize
    }

    pub fn epoch(&self) -> u64 {
        self.info.epoch
    }

    /// Number within the epoch, from 0.
    pub fn number(&self) -> u64 {
        self.info.batch
    }

    pub fn is_last_of_epoch(&self) -> bool {
        self.info.last_of_epoch != 0
    }

    pub fn dtype(&self) -> Dtype {
        match self.info.image.dtype {
            raw::BZNA_DTYPE_FLOAT16 => Dtype::F16,
            raw::BZNA_DTYPE_BFLOAT16 => Dtype::Bf16,
            raw::BZNA_DTYPE_UINT8 => Dtype::U8,
            _ => Dtype::F32,
        }
    }

    /// The device of the pixels, which [`device_image`](Batch::device_image) is an address of: [`Device::Cpu`] or [`Device::Cuda`].
    pub fn device(&self) -> Device {
        self.info.image.device.into()
    }

    /// The address of the pixels: of the device's memory, if [`device`](Batch::device) says so. Work that is enqueued on
    /// [`stream`](Batch::stream) from now on reads the finished batch; the batch may be dropped as soon as the work is enqueued.
    pub fn device_image(&self) -> *mut c_void {
        self.info.image.data
    }

    /// One tensor of the batch, by name: "image", "target", "index", "status".
    pub fn tensor(&self, name: &str) -> Result<Tensor> {
        let name = crate::c_string(name)?;
        let mut tensor = Tensor::default();
        // SAFETY: a live batch.
        call(|err| unsafe { raw::bzna_batch_tensor(self.raw.as_ptr(), name.as_ptr(), &mut tensor, size_of::<Tensor>(), err) })?;
        Ok(tensor)
    }

    /// The CUstream behind which the pixels are written; null for a batch in host memory, which is finished.
    pub fn stream(&self) -> *mut c_void {
        self.info.stream
    }

    /// Moves a batch on the device to another stream: work that is enqueued there from now on reads the finished batch, and dropping it
    /// orders behind that stream. [`Status::UNSUPPORTED`] for a batch in host memory.
    ///
    /// # Safety
    ///
    /// It must be a stream of the batch's device and CUDA context, and live until the batch is dropped.
    pub unsafe fn move_to_stream(&mut self, stream: *mut c_void) -> Result<()> {
        call(|err| raw::bzna_batch_move(self.raw.as_ptr(), stream, err))?;
        self.info.stream = stream;
        Ok(())
    }

    fn elements(&self, dtype: Dtype) -> usize {
        let device = self.device();
        assert!(device == Device::Cpu, "the batch is on {device:?}: open the loader with Device::Cpu, or take device_image()");
        assert!(self.dtype() == dtype && self.info.slice_count == 1, "the batch is not one block of {dtype:?}, but of {:?}", self.dtype());
        self.views() * self.shape().iter().product::<usize>()
    }

    /// All pixels, picture by picture, each as the loader's [`Layout`] says. Panics if the batch is on a device, or is not of
    /// [`Dtype::F32`].
    pub fn image(&self) -> &[f32] {
        let count = self.elements(Dtype::F32);
        // SAFETY: so many values at a 64-byte boundary, every one written, and left alone until the batch is released.
        unsafe { slice_of(self.info.image.data.cast(), count) }
    }

    /// The pixels, to be changed in place; the library does not look at them again.
    pub fn image_mut(&mut self) -> &mut [f32] {
        let count = self.elements(Dtype::F32);
        // SAFETY: as above, and the only borrow.
        unsafe { slice_of_mut(self.info.image.data.cast(), count) }
    }

    /// The pixels of a loader of [`Dtype::U8`]. Panics as [`image`](Batch::image) does.
    pub fn image_bytes(&self) -> &[u8] {
        let count = self.elements(Dtype::U8);
        // SAFETY: as above.
        unsafe { slice_of(self.info.image.data.cast(), count) }
    }

    /// [`Dtype::Bf16`] if the batch is of that type; else [`Dtype::F16`].
    fn dtype_of_bits(&self) -> Dtype {
        if self.dtype() == Dtype::Bf16 {
            Dtype::Bf16
        } else {
            Dtype::F16
        }
    }

    /// The pixels of a loader of [`Dtype::F16`] or [`Dtype::Bf16`], as bits, for f16::from_bits. Panics as [`image`](Batch::image) does.
    pub fn image_bits(&self) -> &[u16] {
        let count = self.elements(self.dtype_of_bits());
        // SAFETY: as above.
        unsafe { slice_of(self.info.image.data.cast(), count) }
    }

    /// The same, to be changed in place.
    pub fn image_bits_mut(&mut self) -> &mut [u16] {
        let count = self.elements(self.dtype_of_bits());
        // SAFETY: as above, and the only borrow.
        unsafe { slice_of_mut(self.info.image.data.cast(), count) }
    }

    /// The pixels of one slot, in its first view: three planes. Panics if there is no such slot, and as [`image`](Batch::image) does.
    pub fn picture(&self, slot: usize) -> &[f32] {
        let floats = self.shape()[1..].iter().product::<usize>();
        &self.image()[slot * floats..][..floats]
    }

    fn column<T>(&self, first: *const T) -> &[T] {
        // SAFETY: "shape[0] each", in host memory.
        unsafe { slice_of(first, self.shape()[0]) }
    }

    /// The classes, one a slot; [`raw::BZNA_TARGET_NONE`] if a sample has none.
    pub fn targets(&self) -> &[i64] {
        self.column(self.info.targets)
    }

    fn numbers<T>(&self, name: &str, dtype: u32) -> Result<(&[T], usize)> {
        let tensor = self.tensor(name)?;
        let shape = &tensor.shape[..tensor.dimensions as usize];
        if tensor.dtype != dtype || tensor.device.kind != raw::BZNA_DEVICE_CPU {
            return Err(Error::new(raw::BZNA_E_ARGUMENT, format!("{name}: a tensor of another type, or on a device")));
        }
        let width = shape[1..].iter().product::<i64>() as usize;
        // SAFETY: so many numbers, in host memory, until the batch is released.
        Ok((unsafe { slice_of(tensor.data.cast(), shape[0] as usize * width) }, width))
    }

    /// The values of one of the loader's [`output`](LoaderBuilder::extra_output)s of [`Dtype::F32`], as [`tensor`](Batch::tensor) has its
    /// shape.
    pub fn values(&self, name: &str) -> Result<&[f32]> {
        self.numbers(name, raw::BZNA_DTYPE_FLOAT32).map(|(numbers, _)| numbers)
    }

    /// The same of one of [`Dtype::U8`].
    pub fn value_bytes(&self, name: &str) -> Result<&[u8]> {
        self.numbers(name, raw::BZNA_DTYPE_UINT8).map(|(numbers, _)| numbers)
    }

    /// One of the loader's [`tensors`](LoaderBuilder::tensors) of integers, one a slot: -1 if a sample has none.
    pub fn integers(&self, name: &str) -> Result<&[i64]> {
        self.numbers(name, raw::BZNA_DTYPE_INT64).map(|(numbers, _)| numbers)
    }

    /// One of the loader's tensors of vectors, one row after the other, and the length of a row.
    pub fn vectors(&self, name: &str) -> Result<(&[f32], usize)> {
        self.numbers(name, raw::BZNA_DTYPE_FLOAT32)
    }

    /// The value of one of the loader's [`bytes`](LoaderBuilder::bytes) in a slot; None if the sample has none.
    pub fn bytes(&self, name: &str, slot: usize) -> Result<Option<&[u8]>> {
        let name = crate::c_string(name)?;
        let slot = u32::try_from(slot).unwrap_or(u32::MAX);
        let (mut data, mut size) = (ptr::null(), 0);
        // SAFETY: a live batch; what is pointed to lives until it is released.
        call(|err| unsafe { raw::bzna_batch_bytes(self.raw.as_ptr(), name.as_ptr(), slot, &mut data, &mut size, err) })?;
        Ok((!data.is_null()).then(|| unsafe { slice_of(data.cast(), size as usize) }))
    }

    /// Which samples of the data set these are.
    pub fn indices(&self) -> &[u64] {
        self.column(self.info.indices)
    }

    /// The operations that [`policies`](LoaderBuilder::augment) drew for a view of a slot: views of the images come first, then those of
    /// each output.
    pub fn drawn(&self, slot: usize, view: usize) -> &[Drawn] {
        let views = self.info.operation_views as usize;
        if slot >= self.shape()[0] || view >= views {
            return &[];
        }
        let at = slot * views + view;
        // SAFETY: so many counts and operations, until the batch is released.
        unsafe {
            let count = *self.info.operation_counts.add(at) as usize;
            slice_of(self.info.operations.add(at * raw::BZNA_OPERATIONS_MAX), count)
        }
    }

    /// Why a slot holds the out-of-bounds color; None if all is well.
    pub fn error(&self, slot: usize) -> Option<Error> {
        let slot = u32::try_from(slot).unwrap_or(u32::MAX);
        // SAFETY: a live batch.
        call(|err| unsafe { raw::bzna_batch_error(self.raw.as_ptr(), slot, err) }).err()
    }

    /// For the functions of [`raw`]: valid as long as this batch lives. Whoever exports it as a DLPack tensor keeps a clone of the context
    /// until the tensor's deleter has run.
    pub fn as_raw(&self) -> *mut raw::bzna_batch {
        self.raw.as_ptr()
    }

    pub fn context(&self) -> &crate::Context {
        &self.context
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        // SAFETY: on loan to us, and given back once.
        if unsafe { raw::bzna_batch_release(self.raw.as_ptr()) } < 0 {
            self.context.leak();
        }
    }
}

/// The position of a run: 128 bytes, to be saved with a model's checkpoint.
#[derive(Clone, Copy, Debug)]
pub struct State(raw::bzna_loader_state);

const STATE_BYTES: usize = size_of::<raw::bzna_loader_state>();

impl State {
    pub fn to_bytes(&self) -> [u8; STATE_BYTES] {
        // SAFETY: integers without padding, as tests/abi.rs holds.
        unsafe { std::mem::transmute(self.0) }
    }

    /// Any bytes: [`Loader::restore`] refuses damaged ones.
    pub fn from_bytes(bytes: [u8; STATE_BYTES]) -> Self {
        // SAFETY: integers, so every bit pattern is one. The library compares struct_size before anything else.
        State(unsafe { std::mem::transmute::<[u8; STATE_BYTES], raw::bzna_loader_state>(bytes) })
    }

    pub fn epoch(&self) -> u64 {
        self.0.epoch
    }

    /// Samples of the epoch already delivered, all ranks together.
    pub fn position(&self) -> u64 {
        self.0.position
    }
}

impl PartialEq for State {
    fn eq(&self, other: &Self) -> bool {
        self.to_bytes() == other.to_bytes()
    }
}

impl Eq for State {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transform_is_called_through_its_function() {
        let change = |sample: &SampleInfo, _: &mut Random, transform: &mut Transform| match sample.index {
            0 => {
                transform.brightness = 2.0;
                Ok(())
            }
            1 => Err(Status(-9)),
            2 => Err(Status(3)),
            _ => panic!("mine"),
        };
        let transformer = Transformer(Box::new(change), Arc::default());
        let mut raw = raw::bzna_transform::default();
        let mut called = |index| {
            let (sample, mut random) = (raw::bzna_sample_info { index, ..Default::default() }, raw::bzna_random::default());
            unsafe { transform(std::ptr::addr_of!(transformer).cast_mut().cast(), &sample, &mut random, &mut raw) }
        };
        assert_eq!([0, 1, 2, 3].map(&mut called), [raw::BZNA_OK, -9, raw::BZNA_E_CALLBACK, i32::MIN]);
        assert_eq!(raw.brightness, 2.0);
    }

    /// A picture of 5x3 at (1, 1) of a frame of 8x4, with planes in which every row but the last has its whole pitch.
    fn drawn(depth: u32, shift: u32, draw_into: fn(&mut Drawing<'_>)) -> (raw::bzna_status, [Vec<u8>; 3]) {
        let bytes = if depth > 8 { 2 } else { 1 };
        let (width, height) = (8usize >> shift, 4usize >> shift);
        let pitches = [8 * bytes + 4, width * bytes, width * bytes];
        let mut planes = [vec![0; pitches[0] * 3 + 8 * bytes], vec![0; pitches[1] * height], vec![0; pitches[2] * height]];
        let picture = raw::bzna_picture {
            width: 5,
            height: 3,
            frame_width: 8,
            frame_height: 4,
            crop_x: 1,
            crop_y: 1,
            depth,
            chroma_shift_x: shift,
            chroma_shift_y: shift,
            pitch: pitches.map(|pitch| pitch as _),
            ..Default::default()
        };
        let drawer = Drawer(
            Box::new(move |_, _, picture| {
                draw_into(picture);
                Ok(())
            }),
            Arc::default(),
        );
        let (sample, mut random) = (raw::bzna_sample_info::default(), raw::bzna_random::default());
        let pointers: [*mut c_void; 3] = planes.each_mut().map(|plane| plane.as_mut_ptr().cast());
        let status = unsafe { draw(std::ptr::addr_of!(drawer).cast_mut().cast(), &sample, &mut random, &picture, pointers.as_ptr()) };
        (status, planes)
    }

    #[test]
    fn planes_are_drawn_into_where_the_picture_lies() {
        let (status, planes) = drawn(8, 1, |picture| {
            assert_eq!((picture.size(), picture.plane_count(), picture.orientation()), ((5, 3), 3, 1));
            let mut luma = picture.plane(0);
            assert_eq!((luma.width, luma.height, luma.stride), (5, 3, 12));
            luma.row(2).fill(9);
            luma.fill(4..100, 0..1, 7);
            let chroma = picture.plane(2);
            assert_eq!((chroma.width, chroma.height, chroma.data.len()), (3, 2, 7));
            chroma.data.fill(1);
        });
        assert_eq!(status, raw::BZNA_OK);
        assert_eq!(planes[0][12..24], [0, 0, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0]);
        assert_eq!(planes[0][36..], [0, 9, 9, 9, 9, 9, 0, 0]);
        assert_eq!(planes[2], [1, 1, 1, 1, 1, 1, 1, 0]);

        let (status, planes) = drawn(10, 0, |picture| picture.erase(1..2, 2..9));
        assert_eq!(status, raw::BZNA_OK);
        let gray = planes[1].chunks_exact(2).map(|sample| u16::from_ne_bytes([sample[0], sample[1]])).enumerate();
        assert_eq!(gray.filter(|(_, sample)| *sample > 0).collect::<Vec<_>>(), [(8 * 3 + 2, 512)]);
        let (status, _) = drawn(8, 1, |picture| picture.plane(0).fill(0..1, 0..1, 256));
        assert_eq!(status, i32::MIN);
    }

    #[test]
    fn a_state_is_its_bytes() {
        let mut bytes = [0; STATE_BYTES];
        bytes.iter_mut().zip(0..).for_each(|(byte, i)| *byte = i);
        let state = State::from_bytes(bytes);
        assert_eq!(state.to_bytes(), bytes);
        assert_eq!(state, State(state.0));
    }

    #[test]
    fn slices_of_nothing_need_no_address() {
        assert!(unsafe { slice_of::<u64>(std::ptr::null(), 0) }.is_empty());
        assert!(unsafe { slice_of_mut::<u64>(std::ptr::null_mut(), 0) }.is_empty());
    }
}

// Made from the table of settings in benzina.c by `make bindings` (tests/make/settings.py): change that.

//! Methods of builders that set one setting each.

use crate::{Channels, ContextConfig, Crops, DecodeWith, Dtype, Filter, LastBatch, Layout, LoaderBuilder, Matrix, OnCallbackError, OnError};

impl LoaderBuilder<'_> {
    /// `output.batch_size`: samples of a batch, 1..65536; required in the first output, and 0 in further ones
    pub fn batch_size(mut self, batch_size: u32) -> Self {
        self.config.output.batch_size = batch_size;
        self
    }

    /// `output.dtype`: a \[`Dtype`\]
    pub fn dtype(mut self, dtype: Dtype) -> Self {
        self.config.output.dtype = dtype as u32;
        self
    }

    /// `output.layout`: a \[`Layout`\]
    pub fn layout(mut self, layout: Layout) -> Self {
        self.config.output.layout = layout as u32;
        self
    }

    /// `output.channels`: a \[`Channels`\]
    pub fn channels(mut self, channels: Channels) -> Self {
        self.config.output.channels = channels as u32;
        self
    }

    /// `output.views`: Advanced, used in contrastive learning: views of each sample, at most 64 in all outputs. Default
    /// 1; in an output without a warp of its own, as many as the first output has, and no other number is allowed. View
    /// n has the random numbers that are forked with n
    pub fn views(mut self, views: u32) -> Self {
        self.config.output.views = views;
        self
    }

    /// `order.last_batch`: a \[`LastBatch`\]
    pub fn last_batch(mut self, last_batch: LastBatch) -> Self {
        self.config.order.last_batch = last_batch as u32;
        self
    }

    /// `order.seed`: of order, warps and colors
    pub fn seed(mut self, seed: u64) -> Self {
        self.config.order.seed = seed;
        self
    }

    /// `order.epochs`: to deliver, one after the other; default 1
    pub fn epochs(mut self, epochs: u64) -> Self {
        self.config.order.epochs = epochs;
        self
    }

    /// `order.first_epoch`: the number of the first one: at most 2^64 - 2
    pub fn first_epoch(mut self, first_epoch: u64) -> Self {
        self.config.order.first_epoch = first_epoch;
        self
    }

    /// `warp.crops`: a \[`Crops`\]
    pub fn crops(mut self, crops: Crops) -> Self {
        self.config.warp.crops = crops as u32;
        self
    }

    /// `filter.kind`: a \[`Filter`\]
    pub fn filter(mut self, kind: Filter) -> Self {
        self.config.filter.kind = kind as u32;
        self
    }

    /// `color.fill`: the out-of-bounds color; default black
    pub fn fill(mut self, fill: [f32; 3]) -> Self {
        self.config.color.fill = fill;
        self
    }

    /// `color.matrix`: Advanced, used if files say it wrong: BZNA_MATRIX_...
    pub fn matrix(mut self, matrix: Matrix) -> Self {
        self.config.color.matrix = matrix as u32;
        self
    }

    /// `fields.geometry`: 1: batches have the tensor "geometry", \[N, 16\] float32, or \[N, views, 16\] with several
    /// views of the first output: the homography (9), width and height of the picture, the crop (4), and flip_h + 2 *
    /// flip_v, as in bzna_geometry. NaN if a sample failed before they were drawn
    pub fn geometry(mut self) -> Self {
        self.config.fields.geometry = 1;
        self
    }

    /// `read.threads`: threads that read, at most 256; default 1, or with NVDEC one for two sessions, 2 to 8. If
    /// nothing is decoded, or all samples are in memory and no GPU is used, the default is none: decoder threads read.
    /// Raise it if each read waits long, as on network storage
    pub fn reader_threads(mut self, threads: u32) -> Self {
        self.config.read.threads = threads;
        self
    }

    /// `read.ahead_samples`: samples read before they are decoded, at most 65536. Default: 2 for each decoder thread, 4
    /// for each session, and 2; if software decodes, more while they are small: up to 1 MiB for each decoder thread, a
    /// quarter of memory_bytes, the slots of batches in flight, and 4096
    pub fn read_ahead(mut self, ahead_samples: u32) -> Self {
        self.config.read.ahead_samples = ahead_samples;
        self
    }

    /// `read.memory_bytes`: memory of all samples read ahead, in bytes; default 1 GiB. A sample that is larger fails
    /// with E_LIMIT. Samples in the caller's memory need none
    pub fn read_memory_bytes(mut self, memory_bytes: u64) -> Self {
        self.config.read.memory_bytes = memory_bytes;
        self
    }

    /// `decode.decoder`: a \[`DecodeWith`\]
    pub fn decode_with(mut self, decoder: DecodeWith) -> Self {
        self.config.decode.decoder = decoder as u32;
        self
    }

    /// `decode.threads`: threads that decode in software, or with NVDEC the pictures that it cannot decode; at most
    /// 1024; default one for each processor. Set it if several processes share a machine
    pub fn threads(mut self, threads: u32) -> Self {
        self.config.decode.threads = threads;
        self
    }

    /// `decode.jpeg`: Advanced, used when a GPU waits for slow CPUs: with BZNA_DECODER_NVDEC, NVDEC decodes all JPEG
    /// that are baseline, 4:2:0, and of a size that it supports, or opening fails. It is fastest with pictures of one
    /// size. Pixels differ by up to 4 of 255. Default: software decodes JPEG
    pub fn jpeg_decoder(mut self, jpeg: DecodeWith) -> Self {
        self.config.decode.jpeg = jpeg as u32;
        self
    }

    /// `decode.jpeg_shrink`: Advanced, used with large photographs and small outputs: 1: a JPEG that all views shrink
    /// 2-fold (4-, 8-fold), with antialias, is decoded at 1/2 (1/4, 1/8) of its size by libjpeg-turbo. Pixels differ
    pub fn jpeg_shrink(mut self, jpeg_shrink: bool) -> Self {
        self.config.decode.jpeg_shrink = u32::from(jpeg_shrink);
        self
    }

    /// `decode.jpeg_shrink_margin`: Advanced, used with jpeg_shrink for pixels that differ less: by how much all views
    /// must still shrink the decoded picture, 1 to 64. With 1.5, a JPEG is decoded at 1/2 of its size only if all views
    /// shrink it 3-fold. Default 1
    pub fn jpeg_shrink_margin(mut self, jpeg_shrink_margin: f32) -> Self {
        self.config.decode.jpeg_shrink_margin = jpeg_shrink_margin;
        self
    }

    /// `decode.hybrid`: Advanced, used when NVDEC limits a loader and processors idle: 1: decoder threads take pictures
    /// of H.264, H.265 and AV1 from NVDEC while bzna_loader_next waits and more pictures wait for NVDEC than it can
    /// begin. Batches are the same: chapter 11. Needs errors.on_error BZNA_ON_ERROR_FILL
    pub fn hybrid(mut self, hybrid: bool) -> Self {
        self.config.decode.hybrid = u32::from(hybrid);
        self
    }

    /// `errors.on_error`: a \[`OnError`\]
    pub fn on_error(mut self, on_error: OnError) -> Self {
        self.config.errors.on_error = on_error as u32;
        self
    }

    /// `errors.on_callback_error`: a \[`OnCallbackError`\]
    pub fn on_callback_error(mut self, on_callback_error: OnCallbackError) -> Self {
        self.config.errors.on_callback_error = on_callback_error as u32;
        self
    }

    /// `pipeline.batches_in_flight`: batches being filled, ready, on loan, or released and still read on the device; at
    /// most 64; default 3
    pub fn batches_in_flight(mut self, batches_in_flight: u32) -> Self {
        self.config.pipeline.batches_in_flight = batches_in_flight;
        self
    }

    /// `pipeline.restore_any_pixels`: Advanced, used to change augmentation during a run: 1: bzna_loader_restore
    /// accepts states of runs that made other pixels, too
    pub fn restore_any_pixels(mut self) -> Self {
        self.config.pipeline.restore_any_pixels = 1;
        self
    }

    /// `pipeline.no_threads`: Advanced, used when threads may not be made, and to debug callbacks: 1: the loader starts
    /// no thread. bzna_loader_next reads, decodes and warps on the thread that calls it, and callbacks run there.
    /// Batches are the same. decode.threads, read.threads and cpus have no effect. NVDEC is not used: chapter 4
    pub fn no_threads(mut self) -> Self {
        self.config.pipeline.no_threads = 1;
        self
    }

    /// `augment.beyond_crop`: 1: operations that join the warp bring in the input beyond the crop, as warp.rotate does;
    /// 0: they bring in the out-of-bounds color, as torchvision does. The color is not mixed with the border's pixels
    pub fn beyond_crop(mut self) -> Self {
        self.config.augment.beyond_crop = 1;
        self
    }
}

impl ContextConfig {
    /// `log_any_thread`: 0: log is called when a thread of the caller's opens a data set or a loader, closes a loader
    /// ```text
    /// r the context, takes a batch, restores a state, finishes an archive or asks for the
    /// evice. Up to 32 messages wait for that, and a message says how many more were dropped
    /// ```
    /// 1: log is called at once, from any thread
    pub fn log_from_any_thread(mut self) -> Self {
        self.config.log_any_thread = 1;
        self
    }

    /// `max_edge_px`: the longest edge of a coded frame, in pixels, 1..65535; default 16384
    pub fn max_edge_px(mut self, max_edge_px: u32) -> Self {
        self.config.max_edge_px = max_edge_px;
        self
    }

    /// `max_sample_bytes`: the largest sample, in bytes; default 256 MiB
    pub fn max_sample_bytes(mut self, max_sample_bytes: u64) -> Self {
        self.config.max_sample_bytes = max_sample_bytes;
        self
    }

    /// `sessions`: Advanced, used to tune decoding on one kind of GPU: NVDEC decode sessions of the context, at most
    /// 256\. Default: sessions_per_engine for each engine
    pub fn sessions(mut self, sessions: u32) -> Self {
        self.config.sessions = sessions;
        self
    }

    /// `sessions_per_engine`: Advanced, used by configurations for several kinds of GPUs: NVDEC decode sessions for
    /// each engine of the device, at most 256 (and 256 in all). Default 4, or 3 if there is a single engine. sessions
    /// has precedence
    pub fn sessions_per_engine(mut self, sessions_per_engine: u32) -> Self {
        self.config.sessions_per_engine = sessions_per_engine;
        self
    }

    /// `session_depth`: Advanced, used to tune decoding: how many pictures one session decodes at once, at most 16;
    /// default 4
    pub fn session_depth(mut self, session_depth: u32) -> Self {
        self.config.session_depth = session_depth;
        self
    }

    /// `session_mapped`: Advanced, used to tune decoding: how many decoded pictures of a session one launch of the
    /// kernel warps, at most 8; default 8
    pub fn session_mapped(mut self, session_mapped: u32) -> Self {
        self.config.session_mapped = session_mapped;
        self
    }

    /// `decode_memory_bytes`: Advanced, used when a large model shares the GPU: device memory for the surfaces of the
    /// decoders of all sessions, in bytes. The driver uses more memory for each decoder, and does not report how much.
    /// Default: an eighth of the device's memory. With little memory, there are fewer decoders, and they change frame
    /// sizes. With none, a session ends
    pub fn decode_memory_bytes(mut self, decode_memory_bytes: u64) -> Self {
        self.config.decode_memory_bytes = decode_memory_bytes;
        self
    }

    /// `no_threads`: Advanced, used in sandboxes, and by hosts whose callbacks must stay on their own thread: 1: no
    /// call with this context starts a thread. Data sets are opened by the caller's thread alone, and loaders have
    /// pipeline.no_threads
    pub fn no_threads(mut self) -> Self {
        self.config.no_threads = 1;
        self
    }

    /// `codecs`: Advanced, used with files from strangers: BZNA_ALLOW_... of the codecs that may be decoded. A picture
    /// of another codec fails before a decoder sees it (E_CODEC): chapter 8. Default: all
    pub fn codecs(mut self, codecs: u32) -> Self {
        self.config.codecs = codecs;
        self
    }
}

# settings.jl - Made from the table of settings in benzina.c by `make bindings` (tests/make/settings.py): change that.

# Names of the constants of enumerations.
const ON_ERROR = (fill = BZNA_ON_ERROR_FILL, replace = BZNA_ON_ERROR_REPLACE, stop = BZNA_ON_ERROR_STOP)
const ON_CALLBACK_ERROR = (stop = BZNA_ON_CALLBACK_ERROR_STOP, sample = BZNA_ON_CALLBACK_ERROR_SAMPLE)
const LAYOUTS = (planes = BZNA_LAYOUT_NCHW, pixels = BZNA_LAYOUT_NHWC)
const CHANNELS = (RGB = BZNA_CHANNELS_RGB, BGR = BZNA_CHANNELS_BGR, gray = BZNA_CHANNELS_GRAY,
                  grey = BZNA_CHANNELS_GRAY)
const FILTERS = (linear = BZNA_FILTER_LINEAR, nearest = BZNA_FILTER_NEAREST, cubic = BZNA_FILTER_CUBIC,
                 area = BZNA_FILTER_AREA, lanczos4 = BZNA_FILTER_LANCZOS4, lanczos = BZNA_FILTER_LANCZOS3,
                 cubic_075 = BZNA_FILTER_CUBIC_075)
const DECODERS = (auto = BZNA_DECODER_AUTO, software = BZNA_DECODER_SOFTWARE, nvdec = BZNA_DECODER_NVDEC)
const CROPS = (auto = BZNA_CROPS_AUTO, benzina = BZNA_CROPS_BENZINA, torchvision = BZNA_CROPS_TORCHVISION)
const WARPS = (center_resized_crop = BZNA_WARP_CENTER_RESIZED_CROP,
               random_resized_crop = BZNA_WARP_RANDOM_RESIZED_CROP, none = BZNA_WARP_NONE,
               similarity = BZNA_WARP_SIMILARITY, mxnet = BZNA_WARP_MXNET)
const CLASS_ORDERS = (text = BZNA_CLASS_ORDER_TEXT, numeric = BZNA_CLASS_ORDER_NUMERIC)
const ORIENTATIONS = (apply = BZNA_ORIENTATION_APPLY, ignore = BZNA_ORIENTATION_IGNORE)
const PALETTES = (colors = BZNA_PALETTE_COLORS, index = BZNA_PALETTE_INDEX)
const RECORD_TYPES = (none = BZNA_RECORD_NONE, uint8 = BZNA_RECORD_UINT8, int32 = BZNA_RECORD_INT32,
                      int64 = BZNA_RECORD_INT64, float32 = BZNA_RECORD_FLOAT32)
const OPERATIONS = (identity = BZNA_OP_IDENTITY, shear_x = BZNA_OP_SHEAR_X, shear_y = BZNA_OP_SHEAR_Y,
                    translate_x = BZNA_OP_TRANSLATE_X, translate_y = BZNA_OP_TRANSLATE_Y,
                    translate_x_px = BZNA_OP_TRANSLATE_X_PX, translate_y_px = BZNA_OP_TRANSLATE_Y_PX,
                    rotate = BZNA_OP_ROTATE, brightness = BZNA_OP_BRIGHTNESS, contrast = BZNA_OP_CONTRAST,
                    saturation = BZNA_OP_SATURATION, hue = BZNA_OP_HUE, gamma = BZNA_OP_GAMMA,
                    posterize = BZNA_OP_POSTERIZE, solarize = BZNA_OP_SOLARIZE, solarize_add = BZNA_OP_SOLARIZE_ADD,
                    invert = BZNA_OP_INVERT, grayscale = BZNA_OP_GRAYSCALE, lighting = BZNA_OP_LIGHTING,
                    shuffle = BZNA_OP_SHUFFLE, autocontrast = BZNA_OP_AUTOCONTRAST, equalize = BZNA_OP_EQUALIZE,
                    sharpness = BZNA_OP_SHARPNESS, blur = BZNA_OP_BLUR, erase = BZNA_OP_ERASE,
                    cutout = BZNA_OP_CUTOUT, grid_mask = BZNA_OP_GRID_MASK)
const POLICY_APPLY = (all = BZNA_POLICY_ALL, shuffle = BZNA_POLICY_SHUFFLE, choose = BZNA_POLICY_CHOOSE)
const SPACES = (RGB = BZNA_FILL_RGB, output = BZNA_FILL_OUTPUT)
const KINDS = (picture = BZNA_FIELD_IMAGE, integer = BZNA_FIELD_INTEGER, vector = BZNA_FIELD_VECTOR,
               text = BZNA_FIELD_TEXT, bytes = BZNA_FIELD_BYTES)
const SPLITS = (none = BZNA_SPLIT_NONE, train = BZNA_SPLIT_TRAIN, validation = BZNA_SPLIT_VALIDATION,
                test = BZNA_SPLIT_TEST)

# Keywords of Loader that are one setting of a loader's config: where it lies, and names that it may have.
const LOADER_KEYWORDS = (
    batchsize = ((:output, :batch_size), nothing),
    channels = ((:output, :channels), CHANNELS),
    views = ((:output, :views), nothing),
    seed = ((:order, :seed), nothing),
    epoch = ((:order, :first_epoch), nothing),
    rank = ((:shard, :rank), nothing),
    world_size = ((:shard, :world_size), nothing),
    warp = ((:warp, :kind), WARPS),
    crops = ((:warp, :crops), CROPS),
    crop_area = ((:warp, :scale), nothing),
    crop_ratio = ((:warp, :ratio), nothing),
    degrees = ((:warp, :degrees), nothing),
    translate = ((:warp, :translate), nothing),
    flip = ((:warp, :flip_h), nothing),
    flip_v = ((:warp, :flip_v), nothing),
    rotate = ((:warp, :rotate), nothing),
    shear = ((:warp, :shear), nothing),
    perspective = ((:warp, :perspective), nothing),
    perspective_p = ((:warp, :perspective_p), nothing),
    resize = ((:warp, :resize), nothing),
    keep_ratio = ((:warp, :keep_ratio), nothing),
    random_crop = ((:warp, :random_crop), nothing),
    shear_ratio = ((:warp, :mxnet, :shear_ratio), nothing),
    canvas_px = ((:warp, :mxnet, :canvas_px), nothing),
    crop_px = ((:warp, :mxnet, :crop_px), nothing),
    pad_px = ((:warp, :mxnet, :pad_px), nothing),
    short_edge_px = ((:warp, :mxnet, :short_edge_px), nothing),
    mxnet_hls = ((:warp, :mxnet, :hls), nothing),
    mxnet_contrast = ((:warp, :mxnet, :contrast), nothing),
    mxnet_illumination = ((:warp, :mxnet, :illumination), nothing),
    mxnet_clamp_hue = ((:warp, :mxnet, :clamp_hue), nothing),
    filter = ((:filter, :kind), FILTERS),
    mean = ((:color, :mean), nothing),
    std = ((:color, :std), nothing),
    bias = ((:color, :bias), nothing),
    scale = ((:color, :scale), nothing),
    fill = ((:color, :fill), nothing),
    brightness = ((:color, :jitter, :brightness), nothing),
    contrast = ((:color, :jitter, :contrast), nothing),
    saturation = ((:color, :jitter, :saturation), nothing),
    hue = ((:color, :jitter, :hue), nothing),
    grayscale = ((:color, :jitter, :grayscale), nothing),
    geometry = ((:fields, :geometry), nothing),
    reader_threads = ((:read, :threads), nothing),
    read_ahead = ((:read, :ahead_samples), nothing),
    read_memory_bytes = ((:read, :memory_bytes), nothing),
    read_retries = ((:read, :retries), nothing),
    read_backoff_ns = ((:read, :backoff_ns), nothing),
    decoder = ((:decode, :decoder), DECODERS),
    threads = ((:decode, :threads), nothing),
    jpeg_decoder = ((:decode, :jpeg), DECODERS),
    jpeg_shrink = ((:decode, :jpeg_shrink), nothing),
    jpeg_shrink_margin = ((:decode, :jpeg_shrink_margin), nothing),
    hybrid = ((:decode, :hybrid), nothing),
    on_error = ((:errors, :on_error), ON_ERROR),
    on_callback_error = ((:errors, :on_callback_error), ON_CALLBACK_ERROR),
    batches_in_flight = ((:pipeline, :batches_in_flight), nothing),
    restore_any_pixels = ((:pipeline, :restore_any_pixels), nothing),
    no_threads = ((:pipeline, :no_threads), nothing),
)

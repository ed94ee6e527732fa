"""DataLoader and Output."""
import ctypes
import random
import time
import warnings
import weakref

from . import _arguments as arg
from . import _c, _handles, ops
from ._batch import Batch, Field
from ._c import Status, lib, structs
from ._callbacks import _Failures, _Hooks, _INTER_METHODS, _picture_thunk, _transform_thunk
from ._context import _device_of, _shared_context
from ._dataset import _FIELD_VALUES, Dataset
from ._errors import Error, check, error_of, raise_of_callback, told


# What torch.utils.data.DataLoader has and this one has not, and what does that here.
_TORCHS = {
    "num_workers": "num_threads, the decoder's threads, and reader_threads: no processes are needed",
    "pin_memory": "memory and output, which say where batches lie: on the GPU, or in host memory, which is pinned then",
    "sampler": "shuffle; indices; weights and weighting; rank and world_size",
    "batch_sampler": "batch_size; shuffle; indices; weights and weighting",
    "collate_fn": "output, and warp_transform and its like, or transform, for each sample",
    "generator": "seed",
    "worker_init_fn": "seed",
    "prefetch_factor": "multibuffering, in batches, and read_ahead, in samples",
    "persistent_workers": "nothing: threads live as long as the loader",
    "multiprocessing_context": "nothing: threads do the work",
}


_WARPS = {"scale", "ratio", "degrees", "translate", "flip_h", "flip_v", "random_crop", "keep_ratio", "resize"}


def _refuse_unknown(settings):
    unknown = sorted(set(settings) - set(arg.FIELDS))
    if unknown:
        raise TypeError("DataLoader has no argument " + "; ".join(
            "%s (torch's; here: %s)" % (name, _TORCHS[name]) if name in _TORCHS else
            "%s (warp_transform has it: ops.SimilarityTransform, RandomResizedCrop, CenterResizedCrop)" % name if name in _WARPS else name
            for name in unknown))


def _fields_of(fields, settings):
    """The names of tensors and of bytes; settings gets what the library is told."""
    for name, value in (fields or {}).items():
        name = {"image": "track"}.get(name, name)
        if name not in ("track", "tensors", "bytes"):
            raise ValueError("fields: %r is none of 'image', 'tensors', 'bytes'" % (name,))
        if settings.get(name) is not None:
            raise ValueError("fields, %s: give one of the two" % name)
        settings[name] = value
    named = []
    for name in ("tensors", "bytes"):
        value = settings.pop(name, None) or ()
        value = value.split(",") if isinstance(value, str) else list(value)
        if value:
            settings[name] = ",".join(value)
        named.append(value)
    return [name.partition(":")[0] for name in named[0]], named[1]


def _warn_of_mean(mean, std):
    """Of torchvision's numbers, which are for pictures in 0..1."""
    def times_255(numbers):
        return "(%s)" % ", ".join("%.6g * 255" % n for n in numbers)
    if mean is None or not 0 < max(arg.floats("mean", mean, 3)) < 1:
        return
    advice = "mean=" + times_255(arg.floats("mean", mean, 3))
    if std is not None and max(arg.floats("std", std, 3)) < 1:
        advice += ", std=" + times_255(arg.floats("std", std, 3))
    warnings.warn("mean: below 1, but pictures are in 0..255 here, not in 0..1: write " + advice, stacklevel=3)


_READERS = {
    "torch": Field.torch, "numpy": Field.numpy, "field": lambda field: field,
    "memoryview": Field.memoryview,
}


def _constant(name, kind, value):
    """One of ops for a constant, whose errors name the argument."""
    try:
        return kind(value)
    except (TypeError, ValueError) as error:
        raise type(error)("%s: %s; a callable or one of ops will do, too" % (name, error)) from None


_LIBRARY_WARPS = ops.SimilarityTransform, ops.RandomResizedCrop, ops.CenterResizedCrop, ops.MXNetAffine


def _set_distortion(warp, rotate, shear, perspective):
    """What torchvision's RandomAffine and RandomPerspective call degrees, shear, distortion_scale and p."""
    def around(d):
        return (-abs(d), abs(d))
    warp.rotate[:] = arg.pair("rotate", rotate, around)
    shear = tuple(shear) if arg.is_list(shear) else around(arg.number("shear", shear, ctypes.c_double))
    warp.shear[:] = arg.floats("shear", shear if len(shear) == 4 else shear + (0.0, 0.0), 4, ctypes.c_double)
    distortion, p = arg.pair("perspective", perspective, lambda d: (d, 0.5), 0, 1)
    if distortion and p:
        warp.perspective, warp.perspective_p = distortion, p


def _set_mean_image(color, image):
    """Returns what must live until the loader is open."""
    if image is None:
        return None
    view = memoryview(image.detach().cpu().numpy() if hasattr(image, "detach") else image)
    if view.format != "f":
        raise TypeError("mean_image: float32 is needed, not numbers of format %r" % view.format)
    kept = ctypes.create_string_buffer(view.tobytes(), view.nbytes)
    color.mean_image, color.mean_image_bytes = ctypes.addressof(kept), view.nbytes
    return kept


class Output:
    """A further output of a DataLoader's samples, from the same decode: other sizes, other views, another picture of each
    sample. It is fields[name] in the loop, and Batch.tensor(name).

    name             none that another tensor has
    shape            (height, width), or one number for both; None: the DataLoader's
    field            the picture that it is made of, by name; None: the one that the DataLoader's images are made of
    warp_transform   one of ops.SimilarityTransform, RandomResizedCrop, CenterResizedCrop: warps of its own, of as many views
                     as views says. None: each view is warped as that of the DataLoader's images, scaled to its own sizes
    dtype, layout, channels
                     as the DataLoader's
    own_color        True: pixels are 0..255 (masks, indices of palettes), or what mean, std, bias, norm, oob, mean_image,
                     matrix and fill_space say here, any of which says True. False: as the DataLoader's images
    filter, antialias
                     as the DataLoader's; None: as its images
    """

    def __init__(self, name, shape=None, field=None, warp_transform=None, views=0, dtype="float32", layout="NCHW",
                 channels="RGB", own_color=False, mean=None, std=None, bias=None, norm=None, oob=None, mean_image=None,
                 matrix=None, fill_space=None, filter=None, antialias=None):
        if warp_transform is not None and type(warp_transform) not in _LIBRARY_WARPS:
            raise TypeError("warp_transform: one of ops.SimilarityTransform, RandomResizedCrop and CenterResizedCrop, or None")
        self.name, self.field, self.warp_transform = name, field, warp_transform
        self._struct = e = _c.new("extra_output")
        e.height, e.width = (0, 0) if shape is None else arg.height_width(shape)
        e.dtype, e.layout, e.channels = arg.choice("dtype", dtype), arg.choice("layout", layout), arg.choice("channels", channels)
        arg.put(e, "views", views)
        e.name, e.field = arg.text("name", name), None if field is None else arg.text("field", field)
        for what, values in (("mean", mean), ("std", std), ("bias", bias), ("scale", norm), ("fill", oob)):
            if values is not None:
                getattr(e.color, what)[:] = arg.floats(what, values, 3)
        self._kept = _set_mean_image(e.color, mean_image)       # as long as this lives
        for group, what, value in ((e.color, "matrix", matrix), (e.color, "fill_space", fill_space),
                                   (e.filter, "filter", filter), (e.filter, "antialias", antialias)):
            if value is not None:
                arg.put(group, "kind" if what == "filter" else what, arg.choice(what, value) if what in arg.CHOICES else value, what)
        colors = (mean, std, bias, norm, oob, mean_image, matrix, fill_space)
        e.own_color = arg.flag("own_color", own_color) or any(given is not None for given in colors)
        e.own_filter = filter is not None or antialias is not None
        if warp_transform is not None:
            e.own_warp, e.warp = 1, warp_transform._warp()

    def __repr__(self):
        return "<benzina.Output %s>" % self.name


class DataLoader(_handles.Handled):
    """Batches of a dataset. Every `for` goes through one epoch, the first through first_epoch, the next one through the one after it.

    dataset          a Dataset, or what makes one; or None with path=
    shape            (height, width) of the pictures that come out, or one number for both. None, where tensors or bytes are
                     named: no pictures, images is None
    shuffle, seed    the order and the random warps of epoch e follow from (seed, e). None: another seed in every run
    drop_last        no partial last batch; last_batch="pad" fills it from the epoch's start instead (Batch.count says what is real)
    epochs           how many there are; None: no end, and the first batches of the next epoch are decoded while this one is used up
    multibuffering   batches being filled, ready or in use
    timeout          seconds to wait for a batch at most, Error(AGAIN) after that; 0: no limit
    mean, std        y = (x - mean) / std, x in 0..255
    bias_transform, norm_transform
                     y = (x - bias) * norm: three numbers, one, an ops.Constant..., or a callable
    warp_transform   one of ops, nine numbers, or a callable (index, in_size, out_size, rng) -> 3x3 from output to input pixels, sizes being
                     (width, height) and rng a Random
    oob_transform, color_transform
                     the color outside the picture, and the conversion to RGB (see ops.ColorTransform; None: what the file says)
    transform        a callable (sample_info, rng, structs.transform) that may change all of it
    picture          a callable (sample_info, rng, Picture) that draws into decoded pictures before they are warped, once a sample
                     whatever the views; in software alone. Random erasing, of up to half of each edge:

                         def erase(sample, rng, picture):
                             width, height = (int(edge * rng.uniform(0.1, 0.5)) for edge in (picture.width, picture.height))
                             left, top = rng.randrange(picture.width - width + 1), rng.randrange(picture.height - height + 1)
                             for plane in picture.region(left, top, left + width, top + height):
                                 plane[...] = picture.gray
    rank, world_size this process's share (see distributed_from_env). Every rank gets as many batches; the last may be empty on some, unless
                     drop_last or last_batch="pad"
    indices          the samples of an epoch, instead of all; weights: how likely each is, with weighting="replace" or "once"
    on_error         "fill": the slot of a sample that fails holds the color outside, and a warning tells; "replace"; "stop"
    on_callback_error
                     "stop": an exception of a callback is raised where the next batch is asked for, whatever on_error is; "sample": its
                     sample counts as one that fails (Batch.errors() has the exceptions)
    output           "torch", "numpy", "field", "memoryview"; None: the first of torch, numpy, field that is there
    copy             True: tensors or arrays of their own, which may be kept in any number
    device           that decodes and warps: "cpu", "cuda:0", ... (see Context); None: the dataset's
    decoder          "auto": NVDEC where the device has it, and software for what that cannot; "software", "nvdec"
    jpeg_decoder     "nvdec": NVDEC decodes baseline JPEG of 4:2:0, too (best of one size), or opening fails; its pixels are near
                     libjpeg-turbo's, not equal. "auto", "software": never
    dtype            "float32", "float16", "bfloat16" (which numpy does not have: torch, or its bits by memoryview), "uint8" (rounded
                     to nearest, ties to even, saturated)
    channels         "RGB", "BGR", "gray" or "grey" (one channel, the luma); mean and std, bias and norm are in that order
    layout           "NCHW", "NHWC" (channels last; torch: images.permute(0, 3, 1, 2) is then NCHW in torch.channels_last)
    filter           "nearest", "linear", "cubic" (a = -0.5), "lanczos" (a = 3): PIL's; "cubic-0.75", "lanczos4", "area": OpenCV's
    antialias        True: where a picture shrinks, the filter is widened by as much, as in PIL and torchvision ("nearest" is not;
                     "area" always is); False: it is not, as in OpenCV
    jpeg_shrink      True: a JPEG that all its views shrink, with antialias, two-, four- or eightfold is decoded at 1/2, 1/4 or 1/8 of its size
    inter_method     MXNet's number instead of the two: 0 nearest, 1 linear, 2 cubic, 3 area, 4 lanczos4; 9: for each sample 2 where both
                     sides grow, 3 where both shrink, else 1; 10: for each sample any of 0 to 4. 9 and 10 run in Python
    memory           "host", "device"; None: the device for output="torch" where torch has CUDA and the context a GPU, else the host
    stream           the CUDA stream to which batches on the device are delivered: a number, or torch's or cupy's object; None: one of the
                     loader's own. What takes a batch by DLPack names its own stream all the same

    track            the picture of each sample: "image", "thumb", or one of Sample.images; None: the thumbnail where
                     shape is at most 512 and there is one
    tensors          names of numeric fields: N int64, -1 where a sample has none, or N x k float32; k is how many numbers the
                     first sample has, or stands behind a colon: ["id", "label:5"]. What is missing is NaN
    bytes            names of any fields. With either, the loop is `for images, targets, fields in loader`: fields is a
                     dict of tensors, and of lists with a text, bytes, a number, an array or None for each sample
    fields           all three in a dict: {"image": "jpg", "tensors": ["id"], "bytes": ["txt"]}
    views            so many views of each sample, each with its own random warp: images is V x N x C x H x W then
    outputs          further Outputs of the same decode, which are in the loop's fields, too
    mean_image       a mean for each pixel: an array of float32, C x H x W, in place of mean
    rotate, shear    degrees, drawn for each view, on top of the warp, as torchvision's RandomAffine draws them: a number d means
                     (-d, d); shear may have four, of x and y
    perspective      distortion_scale of torchvision's RandomPerspective, on top of that, or (distortion_scale, p); p is 0.5
    brightness, contrast, saturation
                     factors as of torchvision's ColorJitter: a number b means (max(0, 1 - b), 1 + b)
    hue              its turns of the hue: a number h, at most 0.5, means (-h, h). The four come in this order
    grayscale        the probability of torchvision's RandomGrayscale
    jitter           an ops.ColorJitter instead of the five, which has MXNet's random_h, max_random_contrast, ... as well

    Further settings of bzna_loader_config: reader_threads, read_ahead, read_retries, matrix, fill_space, ... (arg.FIELDS
    has them all).
    """

    __reduce__ = _handles.uncopied("its threads and batches are this process's. Make one in each process, from a Dataset, "
                           "which can be pickled, and give it this one's state_dict()")
    _gone = "the loader is closed"

    def __init__(self, dataset, shape=None, path=None, batch_size=1, shuffle=False, drop_last=False, timeout=0, device=None, multibuffering=3, seed=None,
                 bias_transform=None, norm_transform=None, warp_transform=None, oob_transform=None, color_transform=None, transform=None, picture=None,
                 mean=None, std=None, num_threads=0, epochs=None, rank=0, world_size=1, indices=None, weights=None, weighting=None,
                 last_batch=None, on_error="fill", output=None, copy=False, decoder="auto", dtype="float32", memory=None, stream=None,
                 fields=None, outputs=(), mean_image=None, inter_method=None, brightness=0, contrast=0, saturation=0, hue=0, grayscale=0,
                 perspective=0, rotate=0, shear=0, jitter=None, **settings):
        _handles.dispose_put_off()
        _refuse_unknown(settings)               # before anything else: who writes torch's arguments is told so
        self._tensors, self._bytes = _fields_of(fields, settings)
        if shape is None and not (self._tensors or self._bytes):
            raise TypeError("shape: (height, width) of the pictures that come out must be given")
        self._has_pictures = shape is not None
        if (dataset is None) == (path is None):
            raise ValueError("dataset, path: give one of the two")
        context = None if device is None else _shared_context(_device_of(device))
        if not isinstance(dataset, Dataset):
            dataset = Dataset(path if dataset is None else dataset, context=context)
        if context is None or context._device == dataset._context._device:
            context = dataset._context
        height, width = (0, 0) if shape is None else arg.height_width(shape)
        timeout = 0 if timeout is None else arg.number("timeout", timeout, ctypes.c_double, 0)
        shuffle, drop_last, copy = arg.flag("shuffle", shuffle), arg.flag("drop_last", drop_last), arg.flag("copy", copy)
        self._bytes = {name: dataset._kind(name) for name in self._bytes}
        if seed is None:
            if world_size != 1:
                raise ValueError("seed: all ranks need the same one")
            seed = random.SystemRandom().getrandbits(63)
        if drop_last and last_batch not in (None, "drop"):
            raise ValueError("drop_last, last_batch: they contradict each other")
        if (mean is not None or std is not None) and (bias_transform is not None or norm_transform is not None):
            raise ValueError("mean, std, bias_transform, norm_transform: give (mean, std), which divides, or (bias, norm), which multiplies")
        if output not in (None, *_READERS):
            raise ValueError("output: %r is none of %s" % (output, ", ".join(map(repr, _READERS))))
        epochs = _c.EPOCHS_ENDLESS if epochs is None else arg.number("epochs", epochs, ctypes.c_uint64, 1)
        if arg.choice("dtype", dtype) == _c.DTYPE_BFLOAT16 and output == "numpy":
            raise ValueError("dtype, output: bfloat16 is no type of numpy's")
        if memory == "device" and output in ("numpy", "memoryview"):
            raise ValueError("memory: %s reads host memory" % output)
        if inter_method is not None and not settings.keys().isdisjoint(("filter", "antialias")):
            raise ValueError("inter_method, filter, antialias: give MXNet's number, or the other two")
        laws = {settings.get("warp_law"), getattr(warp_transform, "law", None)} - {None}
        if len(laws) > 1:
            raise ValueError("warp_law, warp_transform.law: they contradict each other")

        config = _c.new("loader_config")
        config.output.width, config.output.height = width, height
        where = self._memory(context, output, memory if self._has_pictures else "host")
        config.output.device, config.output.stream = where, arg.stream_number(stream)
        config.order.kind = _c.ORDER_SHUFFLE if shuffle else _c.ORDER_SEQUENTIAL
        config.order.epochs = epochs
        last_batch = "drop" if drop_last else last_batch or "partial"
        for name, value in dict(batch_size=batch_size, dtype=dtype, last_batch=last_batch, seed=seed,
                                weighting=weighting, rank=rank, world_size=world_size, num_threads=num_threads,
                                decoder=decoder, on_error=on_error, multibuffering=multibuffering).items():
            arg.configure(config, name, value)
        kept = self._set_samples(config, indices, weights)
        if mean is not None:
            config.color.mean[:] = arg.floats("mean", mean, 3)
        if std is not None:
            config.color.std[:] = arg.floats("std", std, 3)
            if 0 in config.color.std[:]:
                raise ValueError("std: nothing can be divided by 0")
        _warn_of_mean(mean, std)
        kept.append(_set_mean_image(config.color, mean_image))
        hooks = self._set_transforms(config, warp_transform, bias_transform, norm_transform, oob_transform, color_transform, transform)
        if picture is not None:
            _handles.check_callback("picture", picture, "sample, rng, picture")
        if picture is not None and arg.installed("numpy") is None:
            raise ImportError("picture: it is given numpy arrays, and numpy is not installed")
        hooks.picture, self._failures = picture, _Failures()
        hooks._failures = weakref.ref(self._failures)
        if (rotate, shear, perspective) != (0, 0, 0) and hooks.warp:
            raise ValueError("rotate, shear, perspective: they go on top of a warp of ops that the library draws, not of %r" % (warp_transform,))
        _set_distortion(config.warp, rotate, shear, perspective)
        drawn = brightness, contrast, saturation, hue, grayscale
        if jitter is not None and drawn != (0, 0, 0, 0, 0):
            raise ValueError("jitter, brightness, contrast, saturation, hue, grayscale: give an ops.ColorJitter, or its numbers")
        if jitter is not None and not isinstance(jitter, ops.ColorJitter):
            raise TypeError("jitter: %r is no ops.ColorJitter" % (jitter,))
        config.color.jitter = (ops.ColorJitter(*drawn) if jitter is None else jitter)._struct
        if inter_method is not None:
            method = arg.choice("inter_method", inter_method, {"inter_method": _INTER_METHODS})
            if callable(method):
                hooks.filter = method
            else:
                config.filter.kind, config.filter.antialias = method
        for name, value in settings.items():    # warp_law behind the warp
            arg.configure(config, name, value)
        outputs = list(outputs) if arg.is_list(outputs) else [outputs]
        for output_given in outputs:
            if not isinstance(output_given, Output):
                raise TypeError("outputs: %r is no Output" % (output_given,))
        self._outputs = [output.name for output in outputs]
        extras = (structs.extra_output * len(outputs))(*(output._struct for output in outputs))
        if outputs:
            config.outputs.ptr, config.outputs.count = ctypes.addressof(extras), len(extras)
            hooks.own_colors = [i for i, extra in enumerate(extras, 1) if extra.own_color]

        handle, err, key = ctypes.c_void_p(), _c.new("error"), None
        if hooks.needed() or picture:
            key = _handles.register(weakref.ref(hooks))
        if hooks.needed():
            config.pipeline.transform, config.pipeline.transform_user = _transform_thunk, key
        if picture:
            config.pipeline.picture, config.pipeline.picture_user = _picture_thunk, key
        status = lib.bzna_loader_open(context.handle, dataset.handle, config, handle, err)
        del kept                                # the library has copied it
        if status < 0:
            _handles.registry.pop(key, None)
        check(status, err)
        self.dataset, self.batch_size, self.shape, self.seed = dataset, batch_size, (height, width), seed
        self._context = context
        self.rank, self.world_size, self.drop_last, self.copy, self.output = rank, world_size, drop_last, copy, output
        self.timeout, self._stream = timeout, stream            # which must live as long as the loader
        self._hooks, self._handle, self._on_error = hooks, handle.value, on_error
        self._close = _handles.owned(self, lib.bzna_loader_close, handle.value, key)
        self._epoch = config.order.first_epoch  # of the next batch
        self._inside = False                    # some of that epoch is delivered,
        self._resumed = False                   # or was, before the state was saved that this loader goes on from
        self._held = None                       # a batch of a later epoch, and the state before it
        self._moves = 0                         # so that an iterator sees that the loader went elsewhere
        self._iterator = None

    @staticmethod
    def _memory(context, output, memory):
        """Where batches are to lie."""
        if memory not in (None, "host", "device"):
            raise ValueError("memory: %r is none of None, 'host', 'device'" % (memory,))
        if memory == "device":
            return context.device.device
        if memory is None and output in (None, "torch"):
            info = _c.new("device_info")
            status = lib.bzna_context_get_device_info(context.handle, info, ctypes.sizeof(info), None)
            if status == Status.OK and arg.torch_with_cuda():
                return info.device
        return structs.device(_c.DEVICE_CPU)

    @staticmethod
    def _set_samples(config, indices, weights):
        kept = []
        for name, values, kind in (("indices", indices, ctypes.c_uint64), ("weights", weights, ctypes.c_double)):
            if values is None:
                continue
            values = arg.many(name, values, kind)
            kept.append(values)
            setattr(config.order, name, values.buffer_info()[0])
            setattr(config.order, "index_count" if name == "indices" else "weight_count", len(values))
            if not values:
                raise ValueError("%s: there are none" % name)
        return kept

    @staticmethod
    def _set_transforms(config, warp, bias, norm, oob, color, whole):
        """Constants and the known warps go to the library; what is left is called."""
        hooks = _Hooks()
        hooks.whole = whole
        if whole is not None:
            _handles.check_callback("transform", whole, "sample, rng, transform")
        for name, given, base in (("warp_transform", warp, ops.WarpTransform), ("bias_transform", bias, ops.BiasTransform),
                                  ("norm_transform", norm, ops.NormTransform), ("oob_transform", oob, ops.OOBTransform),
                                  ("color_transform", color, ops.ColorTransform)):
            if callable(given):
                _handles.check_callback(name, given, "index, in_size, out_size, rng")
                if type(given).__module__ == base.__module__ and not isinstance(given, base):
                    raise TypeError("%s: %s is no %s" % (name, type(given).__name__, base.__name__))
        if type(warp) in _LIBRARY_WARPS:
            config.warp = warp._warp()
        elif warp is not None:
            hooks.warp = warp if callable(warp) else _constant("warp_transform", ops.ConstantWarpTransform, warp)
        for name, given, kind, field, attribute in (("bias", bias, ops.ConstantBiasTransform, "bias", "bias"),
                                                    ("norm", norm, ops.ConstantNormTransform, "scale", "norm"),
                                                    ("oob", oob, ops.ConstantOOBTransform, "fill", "oob")):
            if given is None:
                continue
            if not callable(given):
                given = _constant(name + "_transform", kind, given)
            if type(given) is kind:
                getattr(config.color, field)[:] = getattr(given, attribute)
            else:
                setattr(hooks, name, given)
        if color is not None and not callable(color):
            color = _constant("color_transform", ops.ConstantColorTransform, color)
        if type(color) is ops.ConstantColorTransform:
            config.color.matrix = color.index + 1
        else:
            hooks.color = color
        return hooks

    # -- one epoch after the other

    def __len__(self):
        """Batches of a whole epoch."""
        return self.info.batches_per_epoch

    def __iter__(self):
        """(images, targets) of one epoch, and a dict of fields where tensors, bytes or outputs name some."""
        if self.output is None:                 # found out now: what an import leaves behind must not hold a batch
            host = self.info.image.device.kind == _c.DEVICE_CPU
            self.output = ("torch" if (arg.installed("torch") if host else arg.torch_with_cuda()) else
                           "numpy" if host and arg.installed("numpy") and self.info.image.dtype != _c.DTYPE_BFLOAT16 else "field")
        if self.copy and self.output not in ("torch", "numpy"):
            raise ValueError("copy: there is neither torch nor numpy to copy with, or output says otherwise")
        return _Epoch(self, self._pair)

    def batches(self):
        """The Batches of one epoch, with indices, states and errors."""
        return _Epoch(self, lambda batch: batch)

    def _pair(self, batch):
        if batch.failed:
            slot, error = next(iter(batch.errors().items()))
            reason = "" if error.__cause__ is None else ": %r" % error.__cause__
            warnings.warn("%d of %d samples failed; slot %d: %s%s" % (batch.failed, batch.count, slot, error, reason), RuntimeWarning, stacklevel=3)
        def read(field):
            tensor = _READERS[self.output](field)
            return tensor if not self.copy else tensor.clone() if self.output == "torch" else tensor.copy()

        pair = read(batch.images) if self._has_pictures else None, read(batch.targets)
        if not self._tensors and not self._bytes and not self._outputs:
            return pair
        fields = {name: read(batch.tensor(name)) for name in (*self._tensors, *self._outputs)}
        for name, kind in self._bytes.items():
            value_of = _FIELD_VALUES[kind]
            fields[name] = [None if data is None else value_of(data) for data in batch.bytes(name)]
        return (*pair, fields)

    @property
    def epoch(self):
        """Of the next batch."""
        return self._epoch

    def set_epoch(self, epoch):
        """Goes to the start of an epoch, unless the loader stands there, or inside it after load_state_dict."""
        epoch = arg.number("epoch", epoch, ctypes.c_uint64)
        if epoch == self._epoch and (self._resumed or not self._inside):
            return
        self._forget()
        self._reset(epoch)

    def _reset(self, epoch):
        err = _c.new("error")
        check(lib.bzna_loader_reset(self.handle, epoch, err), err)
        self._epoch, self._inside, self._resumed = epoch, False, False

    def _forget(self):
        """What iterators there are are over."""
        self._moves += 1
        self._iterator = self._held = None

    def state_dict(self):
        """Where the run stands, after the last batch that was delivered: 128 bytes, to be kept beside the model's checkpoint."""
        return {"state": self._held[1] if self._held else self._save()}

    def _save(self):
        return bytes(told("loader_state", lib.bzna_loader_save, self.handle))

    def load_state_dict(self, state_dict):
        """Goes on from a state, whatever the batch size, threads and world size were. The `for` that follows ends with its epoch."""
        data = state_dict["state"] if isinstance(state_dict, dict) else state_dict
        state, err = structs.loader_state(), _c.new("error")
        if len(data) != ctypes.sizeof(state):
            raise ValueError("state: %d bytes, not %d" % (len(data), ctypes.sizeof(state)))
        ctypes.memmove(ctypes.addressof(state), bytes(data), len(data))
        check(lib.bzna_loader_restore(self.handle, state, err), err)
        self._forget()
        self.seed, self._epoch = state.seed, state.epoch
        self._inside = self._resumed = state.position > 0

    def _next(self):
        """The next Batch, or None after the last epoch. Waits in steps, so that an interrupt from the keyboard comes through."""
        _handles.dispose_put_off()
        handle, err, end = ctypes.c_void_p(), _c.new("error"), time.monotonic() + self.timeout if self.timeout else None
        while True:
            step = 0.1 if end is None else max(0.0, min(0.1, end - time.monotonic()))
            status = lib.bzna_loader_next(self.handle, int(step * 1e9), handle, err)
            if status == Status.AGAIN:
                if end is not None and time.monotonic() >= end:
                    raise Error(Status.AGAIN, "no batch within %g s" % self.timeout)
                continue
            if status < 0:
                self._fail(error_of(status, err))
            return Batch(handle.value, self._failures) if status == Status.OK else None

    def _fail(self, error):
        """Raises what a callback raised, or else the error."""
        current = self._iterator() if self._iterator else None
        if error.status != Status.E_STATE:      # it stays, until the loader goes elsewhere
            self._inside = True
            if current is not None:
                current.close()
        of_source = self.dataset.last_exception
        exception = self._failures.exception_of(error)
        if error.status == Status.E_CALLBACK and not error.native_code:
            exception = of_source
        if exception is not None:
            raise_of_callback(exception, error)
        raise error from (of_source if error.status == Status.E_IO else None)

    # -- about it

    @property
    def info(self):
        """A structs.loader_info."""
        return told("loader_info", lib.bzna_loader_get_info, self.handle)

    @property
    def statistics(self):
        """A structs.loader_stats."""
        return told("loader_stats", lib.bzna_loader_get_stats, self.handle)

    @property
    def last_exception(self):
        """The last exception that a transform or the dataset's source raised, on whatever thread."""
        return self.dataset.last_exception if self._failures.last is None else self._failures.last

    def close(self):
        """Ends the threads. Batches that are out stay valid."""
        self._forget()
        super().close()


class _Epoch:
    """One way through an epoch."""

    def __init__(self, loader, read):
        current = loader._iterator() if loader._iterator else None
        if current is not None and not current._over:
            raise Error(Status.E_STATE, "this loader is being iterated: end that first, by its close(), or by set_epoch of the loader")
        if loader._inside and not loader._resumed:      # the last one was broken off
            loader._reset(loader._epoch + 1)
            loader._held = None
        loader._resumed = False
        self._loader, self._read, self._moves, self._over = loader, read, loader._moves, False
        loader._iterator = weakref.ref(self)

    def __iter__(self):
        return self

    def close(self):
        """Ends it; what is left of the epoch is left out."""
        self._over = True

    def __next__(self):
        loader = self._loader
        if self._over:
            raise StopIteration
        if self._moves != loader._moves:
            self._over = True
            raise Error(Status.E_STATE, "the loader went elsewhere while it was iterated")
        if loader._held:
            batch, loader._held = loader._held[0], None
        else:
            before = loader._save()
            batch = loader._next()
            if batch is not None and batch.epoch != loader._epoch:
                loader._held, loader._epoch, loader._inside = (batch, before), batch.epoch, False
                batch = None
        if batch is None:
            self._over, loader._inside = True, False
            raise StopIteration
        loader._inside = not batch.last_of_epoch
        if batch.last_of_epoch:
            self._over = True
            loader._epoch += 1
        return self._read(batch)

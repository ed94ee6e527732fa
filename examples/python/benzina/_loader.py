"""DataLoader."""
from __future__ import annotations

import ctypes
import functools
import gc
import inspect
import os
import random
import sys
import time
import weakref
from functools import partial
from typing import Any, Callable, Dict, Iterator, List, Literal, Mapping, NoReturn, Optional, Sequence, Set, Union

from . import _arguments as arg
from . import _c, _handles, _lightning, ops
from ._augment import set_augment
from ._batch import Batch
from ._c import Status, lib, structs
from ._callbacks import INTER_METHODS, Failures, picture_thunk, transform_thunk
from ._context import _device_of, _shared_context, told_of_loader
from ._dataset import Dataset
from ._distributed import Distributed, say_once, share_of_group, warn_of_variables
from ._errors import Error, check, error_of, first_failed, in_python, raise_of_callback, told
from ._frameworks import FRAMEWORKS
from ._iteration import Epoch, Lender, lender_of
from ._mixing import Mixing, take_mixing
from ._modules import installed, torch_with_cuda
from ._output import Output
from ._remote import READ_AHEAD, READERS
from ._rules import Rule, bind_rules, with_rules
from ._samplers import Drawn, Lists, check_samplers
from ._saved import check_state_dict, state_bytes, state_text
from ._settings import (
    as_warp,
    field_names,
    of_channels,
    refuse_unknown,
    set_colors,
    set_distortion,
    set_mean_image,
    samples_of,
    set_transforms,
    warn_of_colors,
)
from ._types import (
    Antialias,
    Batches,
    Channels,
    Decoder,
    Device,
    Dtype,
    Filter,
    Indices,
    Layout,
    Names,
    Numbers,
    Range,
    Shape,
    Transform,
)

_bytes = bytes                                  # which is an argument's name here
_DEFAULT_WARP = ops.CenterResizedCrop()
_PILS = (None, "linear", "cubic", "lanczos")    # filters of PIL's that have several samples an axis
# where torch.distributed shards a loader without a seed: torch's samplers have it, too
_AUTO_SEED = 0


def _release(arrived: Any, process: Optional[int] = None) -> None:
    """Gives back the batch that was delivered, but never taken, if there is one."""
    handle, arrived.value = arrived.value, None
    if handle and process in (None, os.getpid()):
        lib.bzna_batch_release(handle)


@functools.lru_cache(maxsize=None)
def _arguments_of(kind: Any) -> Set[str]:
    signatures = inspect.signature(kind.__init__).parameters, inspect.signature(DataLoader.__init__).parameters
    return {name for parameters in signatures for name in parameters} - {"self", "of_torch", "options"}


class DataLoader(_handles.Handled):
    """Batches of a data set: (images, targets), or (images, targets, fields) where tensors, bytes or outputs name some.

        >>> loader = benzina.DataLoader("train/", shape=224, batch_size=4, shuffle=True, seed=1, output="numpy",
        ...                             mean=(123.675, 116.28, 103.53), std=(58.395, 57.12, 57.375),
        ...                             warp=benzina.ops.RandomResizedCrop(flip_h=0.5))
        >>> for images, targets in loader:
        ...     print(images.shape, images.dtype, targets.shape, targets.dtype)
        (4, 3, 224, 224) float32 (4,) int64
        (4, 3, 224, 224) float32 (4,) int64

    images: N x C x H x W; targets: N int64, -1 if a sample has none. Every `for` iterates over one epoch: the first
    loop over first_epoch, the next loop over the next epoch, also after a `break`. A new iter() ends earlier iterators.

    Arrays may be kept in any number. They stay in the loader's own buffers as long as another buffer is free, and are
    copied otherwise (statistics.batches_copied counts them).

    Samples
    dataset          a Dataset, or an argument for one (a path, several in a list, a file); torch's Subset and
                     ConcatDataset, and torchvision's ImageFolder and ImageNet, too. A class of the user is asked for
                     each sample
    shape            (height, width) of the output pictures in pixels, or one number for both. None, which needs tensors
                     or bytes: no pictures; images is None
    batch_size       samples of a batch, for each rank
    shuffle, seed    the order and the random warps of epoch e follow from (seed, e). None: another seed in every run
    drop_last        no partial last batch
    last_batch       "partial": it has the remaining samples. "drop". "pad": it is filled from the epoch's start.
                     "fill": with pictures whose numbers are all pad_value, and targets of pad_target; a Batch's count
                     says how many samples are real. None: "partial"; with several ranks the remainder is spread evenly
                     over them, and filled up with the epoch's first samples, so that all ranks have the same number: at
                     least one, and less than world_size samples come twice
    indices          the samples of an epoch, by number, instead of all; "given": set_indices or set_batches gives each
                     epoch's samples
    sampler          torch's, or anything that iterates over numbers of samples: it is asked for an epoch's samples when
                     the epoch begins, after its set_epoch(epoch), if it has one. A sampler shards itself
                     (DistributedSampler): this process loads all that it yields, unless rank and world_size are given,
                     which share it
    batch_sampler    the same, but it iterates over lists of numbers, each of which is a batch. batch_size is the size
                     of the largest batch; by default the sampler's own batch_size
    weights          the weight of each sample, with weighting "replace" or "once"; weights_by_part: the weight of each
                     part of a sum of Datasets
    epoch_samples    draws of an epoch, with weighting
    epochs           how many epochs; None: no end, and the first batches of the next epoch are decoded during the
                     current one
    first_epoch      the number of the first one
    rank, world_size this process's share. None: torch.distributed's, if it is initialized when the loader is first used
                     and indices are not given; else all samples. Variables of torchrun, Slurm or MPI alone are not
                     applied (see distributed_from_env). If no seed is given, it is 0 then, since all ranks need the
                     same seed
    shard            False: this process loads all samples, whatever torch.distributed says

    Pictures
    warp             one of ops, or a list of them, one after the other; nine numbers; or a callable (index, in_size,
                     out_size, rng) -> 3x3 from output to input pixels, sizes being (width, height) and rng
                     a Random. By default ops.CenterResizedCrop(): the picture is scaled until it just covers shape, and
                     cropped to its middle; a picture of the size of shape is not changed. None: no scaling; the pixels
                     of torchvision's CenterCrop are copied
    rotate, shear    degrees, drawn for each view and applied after the warp, as by torchvision's RandomAffine: a number
                     d means (-d, d); shear may have four, of x and y
    perspective      distortion_scale of torchvision's RandomPerspective, which is applied after that, or
                     (distortion_scale, p); p is 0.5
    views            the number of views of each sample, each with its own random warp: images is V x N x C x H x W then
    outputs          further Outputs of the same decoded picture, in the loop's fields
    filter           "linear" (the default), "nearest", "cubic" (a = -0.5), "lanczos" (a = 3): PIL's; "cubic-0.75",
                     "lanczos4", "area": OpenCV's
    antialias        True: if a picture shrinks, the filter is widened as much, as in torchvision ("nearest" is not;
                     "area" always is); False: it is not, as in OpenCV; "round": it is, and RGB and gray pictures (PNG,
                     not JPEG) are rounded to whole numbers after the horizontal and after the vertical pass, as in PIL.
                     None: "round" with a warp of torchvision's Resize and CenterCrop, which then has the bytes that
                     torchvision makes of PIL's pictures; else True
    inter_method     MXNet's number instead of the two: 0 nearest, 1 linear, 2 cubic, 3 area, 4 lanczos4; 9: for each
                     sample 2 if both sides grow, 3 if both shrink, else 1; 10: for each sample any of 0 to 4. 9 and 10
                     run in Python
    jpeg_shrink      True: a JPEG that all its views shrink, with antialias, two-, four- or eightfold is decoded at 1/2,
                     1/4 or 1/8
    jpeg_shrink_margin
                     with jpeg_shrink: how much all views must still shrink the decoded picture, from 1 (the default) to
                     64. With 1.5, a JPEG is decoded at 1/2 only if all views shrink it threefold
    hybrid           True: while NVDEC has more pictures than it can begin, and the program waits for a batch,
                     processors decode some of them. Batches are the same. Needs on_error="fill"
    transform        a callable (sample_info, rng, structs.transform) that may change the transform
    picture          a callable (sample_info, rng, Picture) that draws into decoded pictures before they are warped,
                     once a sample whatever the views; in software alone. Random erasing, of up to half of each edge:

                         def erase(sample, rng, picture):
                             width = int(picture.width * rng.uniform(0.1, 0.5))
                             height = int(picture.height * rng.uniform(0.1, 0.5))
                             left = rng.randrange(picture.width - width + 1)
                             top = rng.randrange(picture.height - height + 1)
                             for plane in picture.region(left, top, left + width, top + height):
                                 plane[...] = picture.gray

    Random operations, after the crop and its colors, before normalization
    augment          policies of ops, one or a list, which are applied one after the other: RandAugment,
                     TrivialAugmentWide, AutoAugment, GaussianBlur, RandomErasing, ..., at most 8 operations a sample.
                     They compute as torchvision does on tensors of uint8. A text is timm's notation:
                     "rand-m9-mstd0.5-inc1". Or a single AugMix
    beyond_crop      True: operations that move pixels bring in the picture beyond the crop; False: the color oob, as in
                     torchvision
    operations       True: fields["operations"] is N x V x 8 x 9 float32, the operations drawn for each view (of the
                     images, then of outputs): the kind (OP_...; 0: nothing), its magnitude, left, top, right and bottom
                     of the covered area, and its color

    Colors, for x in 0..255
    mean, std        y = (x - mean) / std: three numbers, or one
    bias, norm       y = (x - bias) * norm: three numbers, one, an ops.Constant..., or a callable. norm multiplies
    mean_image       a mean for each pixel: an array of float32, C x H x W, in place of mean
    oob              the color outside the picture, 0..255: three numbers, one, or a callable
    color, matrix, fill_space
                     the conversion to RGB (see ops.ColorTransform; None: what the file says)
    brightness, contrast, saturation
                     factors as of torchvision's ColorJitter: a number b means (max(0, 1 - b), 1 + b)
    hue              its shift of the hue: a number h, at most 0.5, means (-h, h). The four are applied in this order
    grayscale        the probability of torchvision's RandomGrayscale
    jitter           an ops.ColorJitter instead of these five, which also has MXNet's random_h, max_random_contrast, ...

    Arrays
    dtype            "float32", "float16", "bfloat16" (which numpy does not have: torch, or its bits by memoryview),
                     "uint8" (rounded to nearest, ties to even, saturated)
    channels         "RGB", "BGR", "gray" or "grey" (one channel, the luma); mean and std, bias and norm are in that
                     order
    layout           "NCHW", "NHWC" (channels last; torch: images.permute(0, 3, 1, 2) is then NCHW in
                     torch.channels_last)
    output           "torch", "numpy", "jax", "field", "memoryview"; None: the first of torch, numpy, field that is
                     available
    copy             True: always copies, never views of the loader's buffers
    memory           "host", "device"; None: the device for output="torch" if torch has CUDA and the context a GPU, else
                     the host
    stream           the CUDA stream to which batches on the device are delivered: a number, or torch's or cupy's
                     object; None: a stream of the loader. A consumer that imports a batch by DLPack names its own
                     stream in any case
    track            the picture of each sample: "image", "thumb", or one of Sample.images; None: the thumbnail if shape
                     is at most 512 and there is one
    tensors          names of numeric fields: N int64, -1 if a sample has none, or N x k float32; k is how many numbers
                     the first sample has, or the number after a colon: ["id", "label:5"]. Missing numbers are NaN
    bytes            names of any fields: lists with a text, bytes, a number, an array or None for each sample
    fields           all three in a dict: {"image": "jpg", "tensors": ["id"], "bytes": ["txt"]}
    rules            Rules, in order, by which functions make arrays of fields: boxes of JSON, mapped to the pixels of
                     the images
    geometry         True: fields["geometry"] is N x 16 float32: the homography (9) from the image to the picture, the
                     picture's width and height, the crop (4), and 1 * flipped left to right + 2 * upside down; with
                     views N x V x 16

    Work
    device           that decodes and warps: "cpu", "cuda:0", ... (see Context); None: the dataset's
    decoder          "auto": NVDEC if the device has it, and software for pictures that NVDEC cannot decode; "software",
                     "nvdec"
    jpeg_decoder     "nvdec": NVDEC decodes baseline JPEG of 4:2:0, too (fastest with pictures of one size), or opening
                     fails; its pixels are close to libjpeg-turbo's, but not equal. "auto", "software": never
    num_threads      threads that decode; 0: one for each processor
    no_threads       True: no thread is started. The thread that asks for a batch reads and decodes its samples, and
                     callbacks run there, so that a breakpoint in one stops the program's own thread. Batches are the
                     same, and slower
    multibuffering   batches being filled, ready or in use
    reader_threads, read_ahead, read_memory_bytes, read_retries, read_backoff_ns
                     threads that read, samples and bytes read ahead, how often a read that failed is tried again, and
                     after how many nanoseconds; 0: the library's defaults, but 16 threads and 64 samples for a Dataset
                     of URLs
    timeout          the longest wait for a batch in seconds, then a TimeoutError; 0: no limit
    on_error         "fill": the slot of a sample that fails has the out-of-bounds color, and a warning is logged;
                     "replace"; "stop"
    on_callback_error
                     "stop": an exception of a callback is raised by the call for the next batch, whatever on_error is;
                     "sample": its sample counts as one that fails (Batch.errors() has the exceptions)
    batch_map        a callable (images, targets), or (images, targets, fields) if there are fields, whose result the
                     loop gets: lambda images, targets: {"pixel_values": images, "labels": targets}
    restore_any_pixels
                     True: load_state_dict accepts states of other pixels (another shape, warp or color), too
    """

    __reduce__ = _handles.uncopied(
        "its threads and batches are this process's. Make one in each process, from a Dataset, "
        "which can be pickled, and give it this one's state_dict()"
    )
    _gone = "the loader is closed"
    _is_made = False

    def __setattr__(self, name: str, value: Any) -> None:
        """Arguments cannot be changed, because nothing would read them again."""
        if self._is_made and name != "timeout" and name in _arguments_of(type(self)):
            raise AttributeError(
                "%s: a %s keeps what it was made with: make another one, and give it this one's state_dict()"
                % (name, type(self).__name__)
            )
        super().__setattr__(name, value)

    def _adopt(self, **found: Any) -> None:
        """What is found out later than when it was made."""
        vars(self).update(found)

    def __init__(
        self,
        dataset: Any,
        shape: Optional[Shape] = None,
        batch_size: int = 1,
        shuffle: bool = False,
        *,
        seed: Optional[int] = None,
        drop_last: bool = False,
        last_batch: Optional[Literal["partial", "drop", "pad", "fill"]] = None,
        pad_value: float = 0,
        pad_target: int = 0,
        indices: Union[None, Indices, Literal["given"]] = None,
        sampler: Optional[Indices] = None,
        batch_sampler: Optional[Batches] = None,
        weights: Optional[Sequence[float]] = None,
        weighting: Optional[Literal["replace", "once"]] = None,
        weights_by_part: bool = False,
        epoch_samples: int = 0,
        epochs: Optional[int] = None,
        first_epoch: int = 0,
        rank: Optional[int] = None,
        world_size: Optional[int] = None,
        shard: bool = True,
        warp: Any = _DEFAULT_WARP,
        rotate: Range = 0,
        shear: Range = 0,
        perspective: Range = 0,
        views: int = 0,
        outputs: Union[Output, Sequence[Output]] = (),
        filter: Optional[Filter] = None,
        antialias: Optional[Antialias] = None,
        inter_method: Optional[int] = None,
        jpeg_shrink: bool = False,
        jpeg_shrink_margin: float = 0,
        hybrid: bool = False,
        transform: Optional[Callable[[Any, Any, Any], Any]] = None,
        picture: Optional[Callable[[Any, Any, Any], Any]] = None,
        augment: Any = (),
        beyond_crop: bool = False,
        operations: bool = False,
        mean: Optional[Numbers] = None,
        std: Optional[Numbers] = None,
        bias: Union[None, Numbers, Transform] = None,
        norm: Union[None, Numbers, Transform] = None,
        mean_image: Any = None,
        oob: Union[None, Numbers, Transform] = None,
        color: Union[None, int, Transform] = None,
        matrix: Optional[int] = None,
        fill_space: Optional[int] = None,
        brightness: Range = 0,
        contrast: Range = 0,
        saturation: Range = 0,
        hue: Range = 0,
        grayscale: float = 0,
        jitter: Optional[ops.ColorJitter] = None,
        dtype: Dtype = "float32",
        channels: Channels = "RGB",
        layout: Layout = "NCHW",
        output: Optional[Literal["torch", "numpy", "jax", "field", "memoryview"]] = None,
        copy: bool = False,
        memory: Optional[Literal["host", "device"]] = None,
        stream: Any = None,
        track: Optional[str] = None,
        tensors: Optional[Names] = None,
        bytes: Optional[Names] = None,
        fields: Optional[Mapping[str, Any]] = None,
        rules: Union[Rule, Sequence[Rule]] = (),
        geometry: bool = False,
        device: Device = None,
        decoder: Union[Decoder, int] = "auto",
        jpeg_decoder: Decoder = "auto",
        num_threads: int = 0,
        no_threads: bool = False,
        multibuffering: int = 3,
        reader_threads: int = 0,
        read_ahead: int = 0,
        read_memory_bytes: int = 0,
        read_retries: int = 0,
        read_backoff_ns: int = 0,
        timeout: Optional[float] = 0,
        on_error: Literal["fill", "replace", "stop"] = "fill",
        on_callback_error: Literal["stop", "sample"] = "stop",
        restore_any_pixels: bool = False,
        batch_map: Optional[Callable[..., Any]] = None,
        **of_torch: NoReturn,
    ) -> None:
        _handles.dispose_put_off()
        # before anything else: who writes torch's arguments is told so
        refuse_unknown(of_torch, type(self).__name__, _arguments_of(type(self)))
        track, numeric, others = field_names(fields, track=track, tensors=tensors, bytes=bytes)
        if shape is None and not (numeric or others or rules):
            raise TypeError("shape: (height, width) of the output is required")
        self._has_pictures = shape is not None
        context = None if device is None else _shared_context(_device_of(device))
        dataset = Dataset._of(dataset, context)
        if context is None or context._device == dataset._context._device:
            context = dataset._context
        height, width = (0, 0) if shape is None else arg.height_width(shape)
        timeout = 0 if timeout is None else arg.number("timeout", timeout, ctypes.c_double, 0)
        drop_last, copy = arg.flag("drop_last", drop_last), arg.flag("copy", copy)
        if dataset.remote is not None and not no_threads:
            reader_threads, read_ahead = reader_threads or READERS, read_ahead or max(READ_AHEAD, reader_threads)
        self._bytes = {name: dataset._kind(name) for name in others}
        self._tensors = [name.partition(":")[0] for name in numeric]
        if drop_last and last_batch not in (None, "drop"):
            raise ValueError("drop_last, last_batch: they contradict each other")
        if (mean is not None or std is not None) and (bias is not None or norm is not None):
            raise ValueError(
                "mean, std, bias, norm: give (mean, std), which divides, or (bias, norm), which multiplies"
            )
        if output not in (None, *FRAMEWORKS):
            raise ValueError("output: %r is none of %s" % (output, ", ".join(map(repr, FRAMEWORKS))))
        if arg.choice("dtype", dtype) == _c.DTYPE_BFLOAT16 and output in ("numpy", "jax"):
            raise ValueError("dtype, output: bfloat16 is no type of numpy's")
        if memory == "device" and output in ("numpy", "memoryview"):
            raise ValueError("memory: %s reads host memory" % output)
        if inter_method is not None and (filter, antialias) != (None, None):
            raise ValueError("inter_method, filter, antialias: give MXNet's number, or the other two")
        if antialias is None and inter_method is None and filter in _PILS and ops._is_resize(warp):
            antialias = "round"

        is_given = isinstance(indices, str) and indices == "given"
        batch_size = check_samplers(
            sampler,
            batch_sampler,
            batch_size,
            drop_last,
            dict(
                shuffle=shuffle,
                indices=indices is not None,
                weights=weights is not None,
                weighting=weighting,
                epoch_samples=epoch_samples,
            ),
        )
        self._sampler, self._batch_sampler = sampler, batch_sampler
        self._is_sequential = not (shuffle or weights is not None or sampler is not None or batch_sampler is not None)
        self._lists = (
            Lists(self, sampler, batch_sampler)
            if is_given or sampler is not None or batch_sampler is not None
            else None
        )

        config = _c.new("loader_config")
        config.output.width, config.output.height = width, height
        where = self._memory(context, output, memory if self._has_pictures else "host")
        config.output.device, config.output.stream = where, arg.stream_number(stream)
        config.order.kind = _c.ORDER_SHUFFLE if arg.flag("shuffle", shuffle) else _c.ORDER_SEQUENTIAL
        self._drawn: Optional[Drawn] = None     # weighted lists
        kept: List[Any] = []
        if self._lists is None:
            chosen = samples_of(dataset._chosen, indices)
            epoch_samples = arg.number("epoch_samples", epoch_samples, ctypes.c_uint64)
            weights_by_part = arg.number("weights_by_part", weights_by_part, ctypes.c_uint32)
            if weights is not None or weighting is not None or epoch_samples or weights_by_part:
                self._drawn = Drawn(self, chosen, weights, weighting, weights_by_part, epoch_samples)
            elif chosen is not None:
                kept.append(chosen)
                config.order.indices, config.order.index_count = chosen.buffer_info()[0], len(chosen)
        if self._lists is not None or self._drawn is not None:
            config.order.kind = _c.ORDER_GIVEN
        config.order.epochs = _c.EPOCHS_ENDLESS if epochs is None else arg.number("epochs", epochs, ctypes.c_uint64, 1)
        self._take_share(rank, world_size, shard, seed, indices if self._lists is None else "given")
        self._spreads = not drop_last and last_batch is None
        last_batch = "drop" if drop_last else last_batch or ("pad" if self.world_size > 1 else "partial")
        self._drops = last_batch == "drop"
        mean, std, bias, norm, oob = of_channels(channels, mean=mean, std=std, bias=bias, norm=norm, oob=oob)
        set_colors(config.color, mean, std, None, None, None)
        warn_of_colors(mean, std, bias, norm)
        kept.append(set_mean_image(config.color, mean_image))
        if warp is _DEFAULT_WARP and not self._has_pictures:
            warp = None
        warp, (augment, mix) = as_warp(warp), take_mixing(augment)
        hooks = set_transforms(config, dict(warp=warp, bias=bias, norm=norm, oob=oob, color=color), transform)
        if picture is not None:
            _handles.check_callback("picture", picture, "sample, rng, picture")
            if installed("numpy") is None:
                raise ImportError("picture: it is given numpy arrays, and numpy is not installed")
        if batch_map is not None and not callable(batch_map):
            raise TypeError("batch_map: %r cannot be called" % (batch_map,))
        self._batch_map = batch_map
        hooks.picture, self._failures = picture, Failures()
        hooks._failures = weakref.ref(self._failures)
        if (rotate, shear, perspective) != (0, 0, 0):
            if hooks.warp:
                raise ValueError(
                    "rotate, shear, perspective: they go on top of a warp of ops that the library draws, not of %r"
                    % (warp,)
                )
            set_distortion(config.warp, rotate, shear, perspective)
        drawn = brightness, contrast, saturation, hue, grayscale
        if jitter is not None and drawn != (0, 0, 0, 0, 0):
            raise ValueError(
                "jitter, brightness, contrast, saturation, hue, grayscale: give an ops.ColorJitter, or its numbers"
            )
        if jitter is not None and not isinstance(jitter, ops.ColorJitter):
            raise TypeError("jitter: %r is no ops.ColorJitter" % (jitter,))
        if mix is not None:
            beside = dict(views=views, outputs=outputs, geometry=geometry, jitter=jitter is not None or any(drawn),
                          rotate=rotate or shear or perspective, output=output in ("field", "memoryview"))
            views, hooks.mixing = mix.mixture_width + 1, Mixing(self, mix, warp, width, height, **beside)
        kept.append(set_augment(config.augment, augment, beyond_crop))
        self._has_operations = arg.flag("operations", operations)
        jitter = ops.ColorJitter(*drawn) if jitter is None else jitter
        config.color.jitter = jitter._struct
        jitter._add_mxnet(config.warp)
        if inter_method is not None:
            method = arg.choice("inter_method", inter_method, {"inter_method": INTER_METHODS})
            if callable(method):
                hooks.filter = method
            else:
                config.filter.kind, config.filter.antialias = method
        plain = {
            **locals(),
            "seed": self.seed,
            "rank": self.rank,
            "world_size": self.world_size,
            "tensors": ",".join(numeric) or None,
            "bytes": ",".join(others) or None,
        }
        for name in arg.FIELDS:                 # arguments that are one setting each
            value = plain[name]
            if value is not None:
                arg.configure(config, name, value)

        ruled, self._rules, bound = bind_rules(rules, self._failures, self)
        self._bound = ruled, bound              # which callbacks find as long as the loader lives
        self._bytes.update((rule.name, _c.FIELD_BYTES) for rule in ruled if rule.function is None)
        for rule in ruled:
            if rule.function is not None and rule.name not in self._tensors:
                self._tensors += [rule.name] if rule.rows is None else [rule.name, rule.name + "_count"]
        config.fields.geometry = arg.flag("geometry", geometry)
        if config.fields.geometry:
            self._tensors.append("geometry")

        outputs = list(outputs) if arg.is_list(outputs) else [outputs]
        for output_given in outputs:
            if not isinstance(output_given, Output):
                raise TypeError("outputs: %r is no Output" % (output_given,))
        self._outputs = [extra.name for extra in outputs]
        self._refuse_targets(dataset, {*self._tensors, *others, *(extra.field for extra in outputs)})
        extras = (structs.loader_output * len(outputs))(*(extra._struct for extra in outputs))
        if outputs:
            for extra in extras:                # which have the loader's colors, unless they have their own
                if extra.warp and not extra.color:
                    kept.append(structs.warp.from_buffer_copy(structs.warp.from_address(extra.warp)))
                    jitter._add_mxnet(kept[-1])
                    extra.warp = ctypes.addressof(kept[-1])
            _c.set_extra_outputs(config, extras)
            hooks.own_colors = [i for i, extra in enumerate(extras, 1) if extra.color]
        kept += [extras, outputs]

        self.dataset, self.batch_size, self.shape = dataset, config.output.batch_size, (height, width)
        self.drop_last, self.copy, self.output, self.timeout = drop_last, copy, output, timeout
        self._context, self._stream = context, stream           # which must live as long as the loader
        self._hooks, self._key = hooks, None
        self._told: Set[str] = set()            # by the log
        if hooks.needed() or picture:
            self._key = _handles.register(weakref.ref(hooks))
        if hooks.needed():
            config.pipeline.transform, config.pipeline.transform_user = transform_thunk, self._key
        if picture:
            config.pipeline.picture, config.pipeline.picture_user = picture_thunk, self._key
        self._config = config, kept             # until it is settled which share of the samples this process has
        try:
            self._open()
        except BaseException:
            _handles.registry.pop(self._key, None)
            raise
        self._epoch = config.order.first_epoch  # of the next batch
        self._inside = False                    # some of that epoch is delivered,
        self._under_way = False                 # to this iterator,
        self._resumed = False                   # or was, before the state was saved that this loader goes on from
        self._left: Optional[int] = None        # batches of an epoch inside which the loader stands
        self._delivered = 0                     # batches of that epoch; between two epochs, of the one before
        self._length: Optional[int] = None      # of the epoch that load_state_dict went into
        self._is_iterated = False               # since the last load_state_dict
        self._counts: Any = None                # Lightning's, where it resumed this loader
        self._held: Any = None                  # a batch of a later epoch, and the state before it
        self._moves = 0                         # so that an iterator sees that the loader went elsewhere
        self._lender: Optional[Lender] = None
        self._iterator: Any = None
        self._arrived = ctypes.c_void_p()       # a batch, between its delivery and its Batch
        weakref.finalize(self, _release, self._arrived, os.getpid()).atexit = False
        self._lent: Dict[int, Optional[weakref.ref[Batch]]] = {}        # batches that were taken, by their handles
        self._is_made = True

    @staticmethod
    def _memory(context: Any, output: Optional[str], memory: Optional[str]) -> Any:
        """Where batches are to lie."""
        if memory not in (None, "host", "device"):
            raise ValueError("memory: %r is none of None, 'host', 'device'" % (memory,))
        if memory == "device":
            return context.device.device
        if memory is None and output in (None, "torch"):
            info = _c.new("device_info")
            status = lib.bzna_context_device_info(context.handle, info, ctypes.sizeof(info), None)
            if status == Status.OK and torch_with_cuda():
                return info.device
        return structs.device(_c.DEVICE_CPU)

    # -- which share of the samples

    def _take_share(self, rank: Any, world_size: Any, shard: Any, seed: Any, indices: Any) -> None:
        """Of the arguments, or of a process group that is there already."""
        shard = arg.flag("shard", shard)
        self.world_size = 1 if world_size is None else arg.number("world_size", world_size, ctypes.c_uint32, 1)
        self.rank = 0 if rank is None else arg.number("rank", rank, ctypes.c_uint32)
        if (rank is None) != (world_size is None):
            raise ValueError("rank, world_size: give both, or neither")
        if rank is not None and not shard:
            raise ValueError("rank, world_size, shard: shard=False leaves no place for them")
        if self.rank >= self.world_size:
            raise ValueError("rank: %d is not below world_size, %d" % (self.rank, self.world_size))
        if seed is None and self.world_size > 1:
            raise ValueError("seed: all ranks need the same one")
        self._seed_is_given = seed is not None
        self.seed = random.SystemRandom().getrandbits(63) if seed is None else arg.number("seed", seed, ctypes.c_uint64)
        self._is_settled = rank is not None or indices is not None or not shard
        found = None if self._is_settled else share_of_group()
        if found:
            self._settle_on(found)

    def _settle_on(self, found: Distributed) -> None:
        self._adopt(rank=found.rank, world_size=found.world_size, _is_settled=True)
        if not self._seed_is_given:
            self._adopt(seed=_AUTO_SEED)
        say_once(
            "share",
            20,
            "torch.distributed has %d processes: this one, rank %d, loads its share of the samples (shard=False: all)",
            found.world_size,
            found.rank,
        )

    def _settle(self, is_last_chance: bool = False) -> None:
        """Looks for a process group, until the first batch is asked for."""
        if self._is_settled:
            return
        found = share_of_group()
        if found:
            state = self._state() if self._resumed or self._length else None
            self._settle_on(found)
            config, _ = self._config
            config.shard.rank, config.shard.world_size, config.order.seed = self.rank, self.world_size, self.seed
            if self._spreads:
                config.order.last_batch = _c.LAST_PAD
            self._close.detach()
            self._shut(self._handle)
            self._handle = None
            self._open()
            if state is not None:
                self._restore(**state)
            elif self._epoch != config.order.first_epoch:
                self._reset(self._epoch)
        elif is_last_chance:
            self._is_settled = True
            warn_of_variables()
        if self._is_settled:
            self._config = None

    def _open(self) -> None:
        config, _ = self._config
        handle, err = ctypes.c_void_p(), _c.new("error")
        config, self._shut = with_rules(self._rules, self.dataset.handle, config, lib.bzna_loader_close)
        told_of_loader.texts = self._told       # calls before the first batch may log samples of it
        try:
            check(lib.bzna_loader_open(self._context.handle, self.dataset.handle, config, handle, err), err)
        except BaseException:
            self._shut(None)
            raise
        self._handle = handle.value
        self._close = _handles.owned(self, self._shut, handle.value, self._key)
        if self._drawn is not None:
            self._drawn.forget()
            self._drawn.give()
        info = told("loader_info", lib.bzna_loader_get_info, self._handle)
        state = told("loader_state", lib.bzna_loader_save, self._handle)
        self._samples, self._batches = state.sample_count, info.batches_per_epoch       # of all ranks; of this one
        if self._drawn is not None:
            self._samples = self._drawn.count()
        if self._is_settled:
            self._config = None                 # the library has copied it

    def _refuse_targets(self, dataset: Dataset, asked: Set[Optional[str]]) -> None:
        """Where targets would be -1 though samples have something in their place, that nobody has asked for."""
        name = dataset._unlike_targets()
        if name is None or name in asked:
            return
        kind = dataset._kind(name)
        if kind == _c.FIELD_IMAGE:
            way = "outputs=benzina.Output.mask(%r, 'mask') gives it as fields['mask']" % name
        elif kind == _c.FIELD_INTEGER:
            way = "Dataset(..., target=%r) says that it is the target" % name
        elif kind != _c.FIELD_VECTOR:
            way = "bytes=[%r] gives it as fields[%r]" % (name, name)
            if dataset.info.container == b"provider" and kind == _c.FIELD_TEXT:
                way += ", and Dataset(..., classes=[names of classes]) makes numbers of such names"
        elif name == "target":
            way = "give it the name 'label', and tensors=['label'] gives it as fields['label']"
        else:
            way = "tensors=[%r] gives it as fields[%r], or '%s:2' two numbers of each" % (name, name, name)
        what = "one of several" if kind == _c.FIELD_INTEGER else "not one whole number for each sample"
        raise ValueError(
            "dataset: its field %r is %s, so all targets would be -1: %s. To load pictures alone, leave it out: "
            "Dataset(..., fields=[\"image\"])" % (name, what, way)
        )

    def _slots_of(self, batch: Batch) -> int:
        """How many slots of a batch are handed out: where a remainder is spread, as many for each rank."""
        if not self._spreads or self.world_size == 1:
            return len(batch)
        if self._lists is not None:
            return self._lists.slots_of(batch)
        left = self._samples - (batch.position - self.rank)
        return min(len(batch), -(-left // self.world_size))

    # -- one epoch after the other

    def __len__(self) -> int:
        """Batches of an epoch. In the epoch of a state that load_state_dict loaded, it counts the batches that were
        delivered before, of whatever size and to however many ranks, and the remaining ones, also if the state was
        saved after the last batch and none is left (Lightning counts batches over both runs, and an epoch ends for it
        at this length). With a sampler, whose epochs may differ, it is the length of the current epoch until the body
        of the loop for its last batch. Afterwards it is the next epoch's, which the sampler is asked for."""
        self._settle()
        resumed = self._resumed_length()
        return self._whole_epoch() if resumed is None else resumed

    def _resumed_length(self) -> Optional[int]:
        current = self._iterator and self._iterator()
        if self._length is not None and self._delivered >= self._length and self._is_iterated:
            if current is None or current._over and not current._is_in_last:
                self._length = None             # the epoch is over, and its end was noticed
        return self._length

    def _whole_epoch(self) -> int:
        return self._batches if self._lists is None else self._lists.length()

    @property
    def batches_left(self) -> int:
        """Batches that the epoch still brings: all of them at its start, fewer inside it and after load_state_dict."""
        self._settle()
        return self._whole_epoch() if self._left is None else self._left

    def _batches_ahead(self) -> int:
        """Of an iterator that has not begun: an epoch that was broken off is left behind."""
        return self.batches_left if self._resumed else self._whole_epoch()

    def set_indices(self, epoch: int, indices: Indices) -> None:
        """Gives the samples of an epoch, by number, with indices="given" or a sampler: of the next epoch, or a later
        one, also from another thread, and during the epoch before. A sampler is not asked for that epoch then. An
        epoch's samples are given once; set_epoch to an epoch that has begun, and load_state_dict, forget the samples of
        epochs that have begun."""
        self._given_lists().indices(epoch, indices)

    def set_batches(self, epoch: int, batches: Batches) -> None:
        """As set_indices, with lists of numbers, each of which is a batch of at most batch_size samples."""
        self._given_lists().batches(epoch, batches)

    def _given_lists(self) -> Lists:
        if self._lists is None:
            raise Error(
                Status.E_STATE,
                "the loader draws its own order: indices=\"given\", sampler or batch_sampler makes "
                "one that is given",
            )
        return self._lists

    def __iter__(self) -> Iterator[Any]:
        self._iterate()
        if self._lender is None:
            self._lender = lender_of(self)
        lender, mixing, batch_map = self._lender, self._hooks.mixing, self._batch_map
        read = lender.read if mixing is None else partial(mixing.read, lender)
        if batch_map is None:
            return Epoch(self, lambda batch: read(self, batch))
        return Epoch(self, lambda batch: batch_map(*read(self, batch)))

    def batches(self) -> Iterator[Batch]:
        """The Batches of one epoch, with indices, states and errors, each on loan until it is released. Where a
        remainder is spread over ranks, its Batch is full, and holds padding behind count; so do arrays of
        output="field" and "memoryview"."""
        self._iterate()
        return Epoch(self, lambda batch: batch)

    def _iterate(self) -> None:
        self._settle(True)
        if self._is_iterated and not self._resumed:
            self._length = None                 # the epoch that load_state_dict went into is left behind
        self._is_iterated = True

    @property
    def sampler(self) -> Any:
        """The sampler that was given. Without one, a SequentialSampler of torch, if torch is imported and the samples
        come in their order: it tells Lightning that nothing is shuffled (overfit_batches). Else None."""
        data = sys.modules.get("torch.utils.data") if self._is_sequential else None
        return self._sampler if data is None else data.SequentialSampler(self.dataset)

    @property
    def batch_sampler(self) -> Any:
        """The one that was given, or None."""
        if sys._getframe(1).f_code.co_name == "skip_first_batches":
            raise TypeError(
                "accelerate.skip_first_batches, which Trainer calls, too, makes a loader of torch's out of this one. "
                "In its place: loader.skip_first_batches(n), or load_state_dict; "
                "TrainingArguments(ignore_data_skip=True)"
            )
        return self._batch_sampler

    @property
    def epoch(self) -> int:
        """The epoch of the next batch."""
        return self._epoch

    def set_epoch(self, epoch: int) -> None:
        """Moves to the start of an epoch, unless the loader is there already, or inside it after load_state_dict."""
        epoch = arg.number("epoch", epoch, ctypes.c_uint64)
        if epoch == self._epoch and (self._resumed or not self._inside):
            return
        self._forget()
        self._reset(epoch)

    def _reset(self, epoch: int) -> None:
        err, former, was_inside = _c.new("error"), self._epoch, self._inside
        check(lib.bzna_loader_reset(self.handle, epoch, err), err)
        self._epoch, self._inside, self._resumed, self._left = epoch, False, False, None
        self._delivered, self._length = 0, None
        if self._drawn is not None:
            self._drawn.forget()
            self._drawn.give()
        if self._lists is not None:
            self._lists.moved(former, was_inside)

    def _forget(self) -> None:
        """An iterator that has begun is over."""
        self._moves += 1
        self._held, self._under_way = None, False
        _release(self._arrived)

    def _is_current(self, iterator: Epoch) -> bool:
        """Whether no other iterator came after it."""
        return self._iterator is not None and self._iterator() is iterator

    def _begin_epoch(self) -> int:
        if self._inside and not self._resumed:  # the last one was broken off
            self._held = None
            _release(self._arrived)
            self._reset(self._epoch + 1)
        if self._drawn is not None:
            self._drawn.give()
        if self._lists is not None:
            self._lists.begin()
        if not self._resumed:
            self._delivered, self._length = 0, None
        elif self._length is not None:
            self._length = self._delivered + self.batches_left
        if self._counts is not None:
            self._counts.correct(self.batches_left)
        self._resumed = self._under_way = False
        return self._moves

    def _next_of_epoch(self) -> Optional[Batch]:
        """The next Batch of the epoch that is under way; None behind its last one."""
        if self._lists is not None and self._lists.is_empty:
            self._reset(self._epoch + 1)
            return None
        if self._held:
            self._inside = True                 # as _take says it
            batch, self._held = self._held[0], None
        else:
            before = None if self._under_way else self._save()
            batch = self._next()
            if batch is not None and batch.epoch != self._epoch:
                self._held, self._epoch = (batch, before), batch.epoch
                batch = None
        self._delivered += batch is not None
        if batch is not None and batch.last_of_epoch:
            self._epoch += 1
        self._inside = self._under_way = batch is not None and not batch.last_of_epoch
        self._left = self.batches_left - 1 if self._inside else None
        return batch

    def state_dict(self) -> Dict[str, Any]:
        """The position of the run after the last batch that was delivered, to be saved with the model's checkpoint:
        {"state": hexadecimal digits, "batches": how many of the epoch each rank received}. JSON can hold it."""
        self._settle()
        return self._state()

    def _state(self) -> Dict[str, Any]:
        return {"state": state_text(self._save_here()), "batches": self._delivered}

    def _save_here(self) -> Any:
        return self._held[1] if self._held else self._save()

    def _save(self) -> Any:
        return _bytes(told("loader_state", lib.bzna_loader_save, self.handle))

    def load_state_dict(self, state_dict: Any) -> None:
        """Continues from a state, whatever the batch size, threads and world size were. The next `for` ends with the
        state's epoch. The argument may also be only the bytes of "state", or its digits."""
        self._settle()
        if isinstance(state_dict, Mapping):
            check_state_dict(state_dict, "state")
            self._restore(state_bytes(state_dict["state"]), state_dict.get("batches"))
        else:
            self._restore(state_bytes(state_dict))
        self._counts = None if self._length is None else _lightning.counts_of(self)

    def skip_first_batches(self, num_batches: int) -> Any:
        """Returns the loader. Its next `for` skips the first num_batches batches of the epoch, which are not read. For
        runs whose checkpoints have the number of a step; load_state_dict also continues exactly after the batch size or
        the number of ranks has changed."""
        self._settle()
        if self._lists is not None:
            raise ValueError("skip_first_batches: the order is given: leave out its first samples")
        number = arg.number("num_batches", num_batches, ctypes.c_uint64)
        if number > self._whole_epoch():
            raise ValueError("num_batches: %d, and an epoch has %d" % (number, self._whole_epoch()))
        self._forget()
        self._reset(self._epoch + (self._inside and not self._resumed))
        if number:
            state = told("loader_state", lib.bzna_loader_save, self.handle)
            state.sample_count = self._samples
            state.position = min(number * self.batch_size * self.world_size, self._samples)
            state.check = 0
            self._restore(_bytes(state), number)
        return self

    def _restore(self, state: Any, batches: Optional[int] = None) -> None:
        """batches: how many were delivered of the epoch, or of the one that had just ended. None, of a state that does
        not say it: as many as there are between here and the epoch's start."""
        self._go_to(state)
        self._length = None
        if self._resumed and batches is None:
            batches = max(0, self._whole_epoch() - self.batches_left)
        self._delivered = batches or 0
        if self._resumed:
            self._length = self._delivered + self.batches_left
        elif batches:                           # saved behind the last batch of the epoch before
            self._length = batches

    def _go_to(self, data: Any) -> None:
        state, err = structs.loader_state(), _c.new("error")
        if len(data) != ctypes.sizeof(state):
            raise ValueError("state: %d bytes, not %d" % (len(data), ctypes.sizeof(state)))
        ctypes.memmove(ctypes.addressof(state), _bytes(data), len(data))
        former, was_inside = self._epoch, self._inside
        check(lib.bzna_loader_restore(self.handle, state, err), err)
        self._forget()
        self._adopt(seed=state.seed, _epoch=state.epoch)
        if self._drawn is not None:
            self._drawn.forget()
            self._drawn.give()
        self._inside = self._resumed = state.position > 0
        self._is_iterated = False
        left, step = state.sample_count - state.position, self.batch_size * self.world_size
        self._left = (left // step if self._drops else -(-left // step)) if self._resumed else None
        if self._lists is not None:
            self._lists.moved(former, was_inside)

    def _next(self) -> Optional[Batch]:
        """The next Batch, or None after the last epoch. Waits in steps, so that an interrupt from the keyboard comes
        through."""
        _handles.dispose_put_off()
        err, end = _c.new("error"), time.monotonic() + self.timeout if self.timeout else None
        has_collected = False
        while True:
            step = 0.1 if end is None else max(0.0, min(0.1, end - time.monotonic()))
            status = self._ask(lib.bzna_loader_next, int(step * 1e9), err)
            if status == Status.OK:
                return self._take()
            if status == Status.END:
                return None
            if status == Status.AGAIN:
                if end is not None and time.monotonic() >= end:
                    raise Error(Status.AGAIN, "no batch within %g s" % self.timeout)
            elif status == Status.E_STATE and not has_collected:
                self._reclaim()
                has_collected = True
            else:
                self._fail(error_of(status, err))

    def _ask(self, call: Callable[..., int], timeout_ns: int, err: Any) -> int:
        """Asks the library for a batch. An interrupt from the keyboard is raised right behind the call, which may have
        brought one: that is the next one then."""
        if self._arrived.value:
            return Status.OK
        told_of_loader.texts = self._told
        return call(self.handle, timeout_ns, self._arrived, err)

    def _take(self) -> Batch:
        handle = self._arrived.value
        self._inside = True                     # an interrupt from here on loses it: the epoch is no longer whole
        self._lent[handle] = None
        self._arrived.value = None
        batch = Batch(handle, self._failures, self._tensors)
        self._lent[handle] = weakref.ref(batch)
        return batch

    def _reclaim(self) -> None:
        """Gives back batches that are gone, but still on loan, because an interrupt from the keyboard came between. The
        library refuses those that were given back."""
        gc.collect()                            # batches may be out in cycles
        for handle, known in list(self._lent.items()):
            batch = known and known()
            if (batch is None or batch._handle is None) and handle != self._arrived.value:
                lib.bzna_batch_release(handle)

    def _fail(self, error: Error) -> NoReturn:
        """Raises what a callback raised, or else the error."""
        current = self._iterator() if self._iterator else None
        if error.status != Status.E_STATE:      # it stays, until the loader goes elsewhere
            self._inside = True
            if current is not None:
                current.close()
        of_source = self.dataset.last_exception
        exception = self._failures.exception_of(error)
        if exception is None and error.status == Status.E_CALLBACK and error.native_code in (0, Status.E_CALLBACK):
            exception = of_source
        if exception is not None:
            raise_of_callback(exception, error)
        raise error from (of_source if error.status == Status.E_IO else None)

    # -- about it

    def __repr__(self) -> str:
        if self._handle is None:
            return "<benzina.DataLoader: closed>"
        share = ", rank %d of %d" % (self.rank, self.world_size) if self.world_size > 1 else ""
        size = "%d x %d" % self.shape if self._has_pictures else "no pictures"
        samples = (
            "%d samples, %d batches" % (self._samples, self._batches)
            if self._lists is None
            else "samples that are given, batches"
        )
        return "<benzina.DataLoader: %s of %d, %s, epoch %d%s>" % (samples, self.batch_size, size, self._epoch, share)

    @property
    def info(self) -> Any:
        """A structs.loader_info: the decoder, threads, and sizes."""
        self._settle()
        return told("loader_info", lib.bzna_loader_get_info, self.handle)

    @property
    def statistics(self) -> Any:
        """A structs.statistics: counts and waits since the loader was opened. limit: a sentence that names the limiting
        stage, and the argument that would change it. batches_copied: batches that were copied because all buffers were
        in use. first_failed: the index and the Error of the first sample that failed, or None."""
        found = told("statistics", lib.bzna_loader_statistics, self.handle)
        found.batches_copied = 0 if self._lender is None else self._lender.copied
        found.limit = in_python(found.advice.decode())
        found.first_failed = first_failed(found)
        return found

    def statistics_since(self, earlier: Any) -> Any:
        """The statistics since an earlier one of this loader, such as of an epoch; limit is then that of this time."""
        later = self.statistics
        found = told("statistics", lib.bzna_statistics_since, later, earlier)
        found.batches_copied = later.batches_copied - earlier.batches_copied
        found.limit = in_python(found.advice.decode())
        found.first_failed = first_failed(found)
        return found

    @property
    def last_exception(self) -> Optional[BaseException]:
        """The last exception that a transform or the dataset's source raised, on whatever thread."""
        last = self._failures.last
        return self.dataset.last_exception if last is None else last

    def close(self) -> None:
        """Ends the threads. Arrays and batches that are out stay valid."""
        self._forget()
        self._iterator = None
        super().close()

"""MXNet's data iterators, by its parameters and their defaults, for programs that were written for MXNet 1.9.

    >>> from benzina import mx
    >>> batches = mx.ImageRecordIter(path_imgrec="train.rec", data_shape=(3, 48, 48), batch_size=3, rand_mirror=True,
    ...                              mean_r=123.68)
    >>> batches.provide_data, batches.provide_label
    ([DataDesc[data,(3, 3, 48, 48),<class 'numpy.float32'>,NCHW]], [DataDesc[softmax_label,(3,),<class
    'numpy.float32'>,NCHW]])
    >>> for batch in batches:
    ...     print(batch.data[0].shape, batch.label[0].asnumpy(), batch.pad)
    (3, 3, 48, 48) [0. 1. 2.] 0
    (3, 3, 48, 48) [3. 0. 1.] 2
    >>> batches.reset()

Arrays are numpy's, which also have asnumpy() and asscalar(). ImageRecordIter and MNISTIter read and decode as a
DataLoader does. CSVIter and NDArrayIter have only numbers. Parameters that are not supported are refused, with the
reason.
"""

from __future__ import annotations

import array
import glob
import os
from typing import (
    TYPE_CHECKING,
    Any,
    Callable,
    Dict,
    Iterator,
    List,
    Literal,
    NamedTuple,
    NoReturn,
    Optional,
    Sequence,
    Tuple,
    Union,
)

import numpy

from . import ops
from ._dataset import Dataset
from ._loader import DataLoader
from ._records import idx, rows_of_csv
from ._types import DtypeObject, Path

__all__ = [
    "CSVIter",
    "DataBatch",
    "DataDesc",
    "DataIter",
    "ImageDetRecordIter",
    "ImageIter",
    "ImageRecordIter",
    "ImageRecordUInt8Iter",
    "LibSVMIter",
    "MNISTIter",
    "NDArray",
    "NDArrayIter",
]


if TYPE_CHECKING:
    _Array = numpy.ndarray[Any, Any]
else:
    _Array = numpy.ndarray


_Dtype = Union[None, Literal["float32", "float16", "uint8", "float64", "int32", "int64"], DtypeObject]


class NDArray(_Array):
    """numpy's, with names of MXNet's."""

    def asnumpy(self) -> Any:
        return self.view(numpy.ndarray)

    def asscalar(self) -> Any:
        return self.item()


class _Named(NamedTuple):
    name: str
    shape: Tuple[int, ...]


class DataDesc(_Named):
    """Name, shape, dtype and layout of an iterator's arrays."""

    dtype: Any
    layout: str

    def __new__(cls, name: str, shape: Sequence[int], dtype: Any = "float32", layout: str = "NCHW") -> DataDesc:
        self = super().__new__(cls, name, tuple(shape))
        self.dtype, self.layout = numpy.dtype(dtype).type, layout
        return self

    def __repr__(self) -> str:
        return "DataDesc[%s,%s,%s,%s]" % (self.name, self.shape, self.dtype, self.layout)


class DataBatch:
    """data and label are lists of arrays. pad: how many samples at the end are repeated to fill the batch."""

    def __init__(
        self,
        data: Any,
        label: Any = None,
        pad: Optional[int] = None,
        index: Any = None,
        bucket_key: Any = None,
        provide_data: Any = None,
        provide_label: Any = None,
    ) -> None:
        self.data, self.label, self.pad, self.index = data, label, pad, index
        self.bucket_key, self.provide_data, self.provide_label = bucket_key, provide_data, provide_label

    def __repr__(self) -> str:
        return "DataBatch: data shapes: %s label shapes: %s" % (
            [a.shape for a in self.data],
            [a.shape for a in self.label or ()],
        )


class DataIter:
    """Base of the iterators: an epoch ends by StopIteration, and reset() begins the next one."""

    provide_data: List[DataDesc]
    provide_label: List[DataDesc]

    def __init__(self, batch_size: int = 0) -> None:
        self.batch_size = batch_size
        self._batch: Optional[DataBatch] = None

    def __iter__(self) -> Iterator[DataBatch]:
        return self

    def __next__(self) -> DataBatch:
        return self.next()

    def next(self) -> DataBatch:
        if not self.iter_next() or self._batch is None:
            raise StopIteration
        return self._batch

    def iter_next(self) -> bool:
        """Goes to the next batch; False: there is none."""
        raise NotImplementedError

    def reset(self) -> None:
        """Goes to the start of the next epoch."""

    def _current(self) -> DataBatch:
        if self._batch is None:
            raise ValueError("there is no current batch: iter_next() comes first")
        return self._batch

    def getdata(self) -> Any:
        return self._current().data[0]

    def getlabel(self) -> Any:
        return self._current().label[0]

    def getindex(self) -> Any:
        return self._current().index

    def getpad(self) -> Optional[int]:
        return self._current().pad


class _Order:
    """Which samples an epoch has, as MXNet takes them: with round_batch, what fills the last batch is left out of the
    next epoch."""

    def __init__(
        self, first: int, last: int, batch_size: int, round_batch: bool, draw: Callable[[int, int], Any]
    ) -> None:
        self._first, self._last, self._batch_size, self._rounds, self._draw = first, last, batch_size, round_batch, draw
        self._passes, self._rest = 0, self._empty()

    @staticmethod
    def _empty() -> Any:
        return numpy.arange(0)

    def _pass(self) -> Any:
        self._passes += 1
        return self._first + self._draw(self._passes - 1, self._last - self._first)

    def epoch(self, goes_on: bool) -> Tuple[Any, int]:
        """(numbers of samples, how many of these fill up). goes_on: the epoch before was not broken off."""
        taken = self._rest if goes_on and len(self._rest) else self._pass()
        pad, self._rest = -len(taken) % self._batch_size, self._empty()
        whole = taken
        while len(whole) < len(taken) + pad:
            more, missing = (self._pass() if self._rounds else taken), len(taken) + pad - len(whole)
            whole = numpy.concatenate([whole, more[:missing]])
            if self._rounds:
                self._rest = more[missing:]
        return whole, pad


def _sequence(number: int, count: int) -> Any:
    return numpy.arange(count)


def _permutations(seed: int) -> Callable[[int, int], Any]:
    return lambda number, count: numpy.random.RandomState([seed % 2**32, number]).permutation(count)


class _LoaderIter(DataIter):
    """Over a DataLoader, which is given each epoch's samples. make: data and label of what its loop gives."""

    def __init__(
        self,
        loader: DataLoader,
        order: _Order,
        batch_size: int,
        make: Callable[[Any], Tuple[Any, Any]],
        data: DataDesc,
        label: DataDesc,
    ) -> None:
        super().__init__(batch_size)
        self.provide_data, self.provide_label = [data], [label]
        self._loader, self._order, self._make, self._given = loader, order, make, 0
        self._next = self._give(True)
        self._begin()

    def _give(self, goes_on: bool) -> Tuple[Any, int]:
        """Gives the loader its next epoch."""
        indices, pad = self._order.epoch(goes_on)
        self._loader.set_indices(self._given, array.array("Q", indices.astype("uint64").tobytes()))
        self._given += 1
        return indices, pad

    def _begin(self) -> None:
        """The loader has the epoch after this one, too, so that it begins while this one ends."""
        (self._indices, self._pad), self._next = self._next, self._give(True)
        self._batches, self._at, self._batch = iter(self._loader), 0, None

    def reset(self) -> None:
        if 0 < self._at < len(self._indices):
            epoch, self._next = self._given, self._give(False)
            self._loader.set_epoch(epoch)
        if self._at:
            self._begin()

    def iter_next(self) -> bool:
        found = next(self._batches, None) if self._at < len(self._indices) else None
        if found is None:
            self._batch = None
            return False
        data, label = self._make(found)
        index = self._indices[self._at:self._at + self.batch_size].astype("uint64")
        self._at += self.batch_size
        pad = self._pad if self._at >= len(self._indices) else 0
        self._batch = DataBatch([data.view(NDArray)], [label.view(NDArray)], pad, index)
        return True

    def __repr__(self) -> str:
        return "<benzina.mx.%s: %r>" % (type(self).__name__, self._loader)


def _part(count: int, num_parts: int, part_index: int) -> Tuple[int, int]:
    if not 0 <= part_index < num_parts:
        raise ValueError("part_index: %r is not below num_parts, %r" % (part_index, num_parts))
    each = -(-count // num_parts)
    first, last = min(count, each * part_index), min(count, each * (part_index + 1))
    if first == last:
        raise ValueError("part_index: part %d of %d has none of the %d samples" % (part_index, num_parts, count))
    return first, last


_REASONS = {
    "aug_seq": "there is one sequence of augmentations, 'aug_default'",
    "shuffle_chunk_size": "all samples are shuffled, not chunks of them: leave it 0",
    "shuffle_chunk_seed": "all samples are shuffled by seed: leave it 0",
    "pca_noise": "noise along principal components is not made here: leave it 0, or add it to the batch",
    "mean_a": "there is no alpha channel",
    "std_a": "there is no alpha channel",
}


def _refuse(**given: Any) -> None:
    """given: (value, the one that is taken)."""
    for name, (value, taken) in given.items():
        if value != taken:
            raise ValueError("%s: %r: %s" % (name, value, _REASONS[name]))


_ND_TYPES = ("float32", "float64", "float16", "uint8", "int32", "int8", "int64")


def _mean_image(path: Path, shape: Sequence[int]) -> Any:
    """The mean of each pixel, from the file of one NDArray that MXNet makes of it."""
    name = os.fsdecode(path)
    if not os.path.exists(name):
        raise FileNotFoundError(
            "mean_img: %s is not there. MXNet makes it of all pictures, and benzina.DataLoader takes a mean for each "
            "pixel as mean_image=, an array" % name
        )
    with open(name, "rb") as file:
        data = file.read()
    try:
        magic, _, count = numpy.frombuffer(data, "<u8", 3)
        version, stype, dims = numpy.frombuffer(data, "<i4", 3, 24)
        at = 28 + 4 * (version != -0x66C0538)   # the first version has dense arrays alone, and does not say so
        dims = numpy.frombuffer(data, "<i4", 1, at)[0]
        found = tuple(map(int, numpy.frombuffer(data, "<i8", dims if 0 < dims < 32 else 0, at + 4)))
        if magic != 0x112 or count != 1 or not -0x66C0538 <= version <= -0x66C0536 or (at == 32 and stype != 0):
            raise ValueError("it is no list of one dense NDArray")
        if found != tuple(shape):
            raise ValueError("it is of %r, not %r" % (found, tuple(shape)))
        at += 4 + 8 * len(found)
        dtype = _ND_TYPES[numpy.frombuffer(data, "<i4", 3, at)[2]]      # behind the device and its number
        return numpy.frombuffer(data, dtype, int(numpy.prod(found)), at + 12).reshape(found).astype("float32")
    except (IndexError, ValueError) as error:
        raise ValueError("mean_img: %s: %s" % (name, error)) from None


class _Nearest(ops.WarpTransform):
    """A warp without rotation for pixels as OpenCV's INTER_NEAREST takes them: of x, the pixel floor(x scale), where
    others take that at the center, floor((x + 0.5) scale)."""

    _PART = 0.5 - 1 / 2048                      # products that are whole numbers stay above them

    def __init__(self, warp: Any) -> None:
        self._plain = warp

    def __call__(self, index: int, in_size: Any, out_size: Any, rng: Any) -> Any:
        matrix = list(self._plain(index, in_size, out_size, rng))
        matrix[2] -= abs(matrix[0]) * self._PART
        matrix[5] -= abs(matrix[4]) * self._PART
        return matrix


def _method_of(inter_method: int, warp: Any) -> int:
    """OpenCV's warpAffine has no area filter, and takes the linear one."""
    if not isinstance(warp, ops.MXNetAffine) or inter_method not in (3, 9):
        return inter_method
    drawn = warp._struct
    is_affine = (
        any(drawn.degrees) or drawn.mxnet.shear_ratio or tuple(drawn.scale) != (1, 1) or tuple(drawn.ratio) != (1, 1)
        or any(drawn.mxnet.canvas_px)
    )
    if not is_affine:
        return inter_method
    return 2 if inter_method == 9 and min(drawn.scale) > 1 else 1


def _dtype_of(dtype: _Dtype) -> Tuple[Any, str]:
    """(what the loader makes, what is made of that)."""
    name = "float32" if dtype is None else str(dtype)
    if name in ("float32", "float16", "uint8"):
        return name, name
    if name in ("float64", "int32", "int64"):
        return "float32", name
    raise ValueError("dtype: %r is none of float32, float16, uint8, float64, int32, int64" % (dtype,))


def _records_of(path_imgrec: Path, path_imglist: Path, path_imgidx: Path) -> Dataset:
    path = os.fspath(path_imgrec)
    if not path:
        raise ValueError("path_imgrec: it is needed; benzina.Dataset reads folders by a list")
    if path_imgidx:
        beside = os.path.splitext(os.fsdecode(path))[0] + ".idx"
        if os.path.abspath(os.fsdecode(os.fspath(path_imgidx))) != os.path.abspath(beside):
            raise ValueError(
                "path_imgidx: %r: the index of a .rec is next to it, %r; without one, the .rec is read through once"
                % (path_imgidx, beside)
            )
    source: Any = path
    if os.path.isdir(path):
        source = sorted(glob.glob(os.path.join(glob.escape(os.fsdecode(path)), "*.rec")))
    return Dataset(source, format="RecordIO", list=path_imglist or None)


def _warp_of(
    random_resized_crop: bool, areas: Tuple[float, float], min_aspect_ratio: Optional[float], affine: Dict[str, Any]
) -> Any:
    highest = affine["max_aspect_ratio"]
    low, high = (1 - highest, 1 + highest) if min_aspect_ratio is None else (min_aspect_ratio, highest)
    if not random_resized_crop or (areas == (1, 1) and (low, high) == (1, 1)):
        if not 0 < low <= high:
            raise ValueError("min_aspect_ratio, max_aspect_ratio: %g to %g is no range of ratios" % (low, high))
        square: Dict[str, Any] = {**affine, "max_aspect_ratio": 0}
        warp = ops.MXNetAffine(**square)
        warp._struct.ratio[:] = low, high
        return warp
    plain = dict(
        max_rotate_angle=0,
        rotate=-1,
        max_shear_ratio=0,
        min_random_scale=1,
        max_random_scale=1,
        max_img_size=1e10,
        min_img_size=0,
        max_crop_size=-1,
        min_crop_size=-1,
        pad=0,
        rand_crop=False,
        crop_x_start=-1,
        crop_y_start=-1,
    )
    for name, value in plain.items():
        if affine[name] != value:
            raise ValueError(
                "random_resized_crop, %s: one of the two: the crop is resized from the picture as it is" % name
            )
    if not 0 < low <= high:
        raise ValueError("min_aspect_ratio, max_aspect_ratio: %g to %g is no range of ratios" % (low, high))
    return ops.RandomResizedCrop(scale=areas, ratio=(min(low, 1 / high), max(high, 1 / low)),
                                 flip_h=1.0 if affine["mirror"] else 0.5 if affine["rand_mirror"] else 0.0)


class ImageRecordIter(_LoaderIter):
    """Batches of pictures of a .rec, as MXNet's ImageRecordIter makes them. Parameters are those of MXNet, and keyword
    arguments.

    path_imgrec      a .rec, or a folder of them. path_imgidx: its index, which is next to it in any case. path_imglist:
                     labels of a .lst
    data_shape       (channels, height, width); channels are 3, or 1: gray
    num_parts, part_index
                     consecutive parts of the samples, of equal size
    round_batch      True: samples that fill the last batch are left out of the next epoch. False: it is filled from the
                     epoch's start. batch.pad says how many samples fill it, also if MXNet says 0
    shuffle          by seed; another order than MXNet's for the same number
    preprocess_threads, prefetch_buffer
                     threads that decode, and batches ahead
    random_resized_crop
                     areas are drawn as in MXNet; ratios log-uniformly, from a range that has both a ratio and its
                     reciprocal
    crop_x_start, crop_y_start
                     where the crop begins, as in MXNet's releases before 1.0
    mean_img         the file that MXNet has made; this library does not make it. Mirrored pictures have the mirrored
                     mean
    inter_method     as in MXNet. For pictures that are rotated or scaled at random, 3 (area) means 1, as in MXNet, and
                     9 means 2 or 1
    brightness, contrast, saturation
                     factors as in MXNet, in this order
    verbose, ctx, device_id
                     nothing: arrays are in host memory
    data_name, label_name
                     names in provide_data and provide_label

    The rest is as in MXNet's documentation. Refused are aug_seq, shuffle_chunk_size, shuffle_chunk_seed, pca_noise,
    mean_a, std_a."""

    def __init__(
        self,
        *,
        path_imgrec: Path = "",
        data_shape: Sequence[int],
        batch_size: int,
        path_imglist: Path = "",
        path_imgidx: Path = "",
        aug_seq: str = "aug_default",
        label_width: int = 1,
        preprocess_threads: int = 4,
        verbose: bool = True,
        num_parts: int = 1,
        part_index: int = 0,
        device_id: int = 0,
        shuffle_chunk_size: int = 0,
        shuffle_chunk_seed: int = 0,
        seed_aug: Optional[int] = None,
        shuffle: bool = False,
        seed: int = 0,
        round_batch: bool = True,
        prefetch_buffer: int = 4,
        ctx: str = "gpu",
        dtype: _Dtype = None,
        resize: int = -1,
        rand_crop: bool = False,
        random_resized_crop: bool = False,
        max_rotate_angle: int = 0,
        max_aspect_ratio: float = 0,
        min_aspect_ratio: Optional[float] = None,
        max_shear_ratio: float = 0,
        max_crop_size: int = -1,
        min_crop_size: int = -1,
        max_random_scale: float = 1,
        min_random_scale: float = 1,
        max_random_area: float = 1,
        min_random_area: float = 1,
        max_img_size: float = 1e10,
        min_img_size: float = 0,
        brightness: float = 0,
        contrast: float = 0,
        saturation: float = 0,
        pca_noise: float = 0,
        random_h: int = 0,
        random_s: int = 0,
        random_l: int = 0,
        rotate: int = -1,
        fill_value: int = 255,
        inter_method: int = 1,
        pad: int = 0,
        mirror: bool = False,
        rand_mirror: bool = False,
        mean_img: str = "",
        mean_r: float = 0,
        mean_g: float = 0,
        mean_b: float = 0,
        mean_a: float = 0,
        std_r: float = 1,
        std_g: float = 1,
        std_b: float = 1,
        std_a: float = 1,
        scale: float = 1,
        max_random_contrast: float = 0,
        max_random_illumination: float = 0,
        crop_x_start: int = -1,
        crop_y_start: int = -1,
        data_name: str = "data",
        label_name: str = "softmax_label",
    ) -> None:
        _refuse(
            aug_seq=(aug_seq, "aug_default"),
            shuffle_chunk_size=(shuffle_chunk_size, 0),
            shuffle_chunk_seed=(shuffle_chunk_seed, 0),
            pca_noise=(pca_noise, 0),
            mean_a=(mean_a, 0),
            std_a=(std_a, 1),
        )
        channels, height, width = data_shape
        if channels not in (1, 3):
            raise ValueError("data_shape: %r: of channels, there are 3, or 1, which is gray" % (data_shape,))
        dataset = _records_of(path_imgrec, path_imglist, path_imgidx)
        first, last = _part(len(dataset), num_parts, part_index)
        known = dataset.field(first, "label")
        if known is None or len(known) != label_width:
            raise ValueError("label_width: %d, but sample %d has %d labels" % (label_width, first, len(known or ())))
        warp = _warp_of(
            random_resized_crop,
            (min_random_area, max_random_area),
            min_aspect_ratio,
            dict(
                max_rotate_angle=max_rotate_angle,
                rotate=rotate,
                max_shear_ratio=max_shear_ratio,
                min_random_scale=min_random_scale,
                max_random_scale=max_random_scale,
                max_aspect_ratio=max_aspect_ratio,
                min_img_size=min_img_size,
                max_img_size=max_img_size,
                min_crop_size=min_crop_size,
                max_crop_size=max_crop_size,
                pad=pad,
                resize=resize,
                rand_crop=rand_crop,
                crop_x_start=crop_x_start,
                crop_y_start=crop_y_start,
                mirror=mirror,
                rand_mirror=rand_mirror,
            ),
        )
        inter_method = _method_of(inter_method, warp)
        if inter_method == 0:
            warp = _Nearest(warp)
        jitter = ops.ColorJitter(
            brightness,
            contrast,
            saturation,
            random_h=random_h,
            random_l=random_l,
            random_s=random_s,
            clamp_hue=bool(random_h),
            max_random_contrast=max_random_contrast,
            max_random_illumination=max_random_illumination,
        )
        means, factors = (mean_r, mean_g, mean_b), (scale / std_r, scale / std_g, scale / std_b)
        if channels == 1:                       # MXNet takes the first of three
            means, factors = (mean_r,) * 3, (scale / std_r,) * 3
        made, kind = _dtype_of(dtype)
        mean_image: Any = None                  # what the loader subtracts
        mirrored: Any = None                    # what is subtracted of each picture as it is mirrored
        if mean_img and made == "uint8":
            raise ValueError("mean_img: pixels of uint8 are as they are")
        if mean_img:
            mean_image = _mean_image(mean_img, data_shape)
            if mirror:                          # MXNet subtracts before it mirrors
                mean_image = mean_image[:, :, ::-1].copy()
            elif rand_mirror and max_random_contrast:
                raise ValueError("mean_img, rand_mirror, max_random_contrast: two of the three: the mean is subtracted "
                                 "before contrast, and which picture is mirrored is known after that")
            elif rand_mirror:
                mirrored, mean_image = mean_image * numpy.array(factors[:channels], "f4")[:, None, None], None
                made = "float32"
        loader = DataLoader(
            dataset,
            (height, width),
            batch_size,
            indices="given",
            warp=warp,
            inter_method=inter_method,
            oob=fill_value,
            bias=None if mean_img else means,
            mean_image=mean_image,
            geometry=mirrored is not None,
            norm=factors,
            jitter=jitter,
            seed=(seed if seed_aug is None else seed_aug) % 2**64,
            output="numpy",
            dtype=made,
            shard=False,
            channels="RGB" if channels == 3 else "gray",
            tensors=["label:%d" % label_width],
            fields={"image": "image"},
            num_threads=preprocess_threads,
            multibuffering=max(2, prefetch_buffer),
            decoder="auto",
        )

        def make(found: Any) -> Tuple[Any, Any]:
            images, _, fields = found
            if mirrored is not None:
                drawn = fields["geometry"]      # a warp that is drawn in Python does not say how it mirrors
                flips = drawn[:, 0] < 0 if inter_method == 0 else drawn[:, 15] % 2 > 0
                images = images - numpy.where(flips[:, None, None, None], mirrored[:, :, ::-1], mirrored)
            return images.astype(kind, copy=False), fields["label"][:, 0] if label_width == 1 else fields["label"]
        draw = _permutations(seed) if shuffle else _sequence
        labels = (batch_size,) if label_width == 1 else (batch_size, label_width)
        super().__init__(
            loader,
            _Order(first, last, batch_size, round_batch, draw),
            batch_size,
            make,
            DataDesc(data_name, (batch_size, channels, height, width), kind),
            DataDesc(label_name, labels),
        )


def ImageRecordUInt8Iter(**parameters: Any) -> ImageRecordIter:
    """ImageRecordIter(dtype="uint8")."""
    parameters.setdefault("dtype", "uint8")
    return ImageRecordIter(**parameters)


class MNISTIter(_LoaderIter):
    """Batches of MNIST's files: pixels of 0..1, divided by 256. Samples that do not fill a batch are left out. With
    shuffle, all epochs have one order, by seed, which differs from MXNet's for the same number. data_shape, which
    programs for MXNet give, has no effect: flat decides the shape. A number of pixels that differs from the file's is
    refused."""

    def __init__(
        self,
        *,
        image: Path = "./train-images-idx3-ubyte",
        label: Path = "./train-labels-idx1-ubyte",
        data_shape: Optional[Sequence[int]] = None,
        batch_size: int = 128,
        shuffle: bool = True,
        flat: bool = False,
        seed: int = 0,
        silent: bool = False,
        num_parts: int = 1,
        part_index: int = 0,
        prefetch_buffer: int = 4,
        ctx: str = "gpu",
        dtype: _Dtype = None,
        data_name: str = "data",
        label_name: str = "softmax_label",
    ) -> None:
        dataset = idx(image, label)
        if not 0 <= part_index < num_parts:
            raise ValueError("part_index: %r is not below num_parts, %r" % (part_index, num_parts))
        first, last = (int(len(dataset) / num_parts * number) for number in (part_index, part_index + 1))
        if last - first < batch_size:
            raise ValueError("batch_size: %d, but there are %d samples" % (batch_size, last - first))
        info = dataset[0].image_info()
        if data_shape is not None and numpy.prod(data_shape, dtype=int) != info.height * info.width:
            raise ValueError("data_shape: %r, but pictures have %d x %d pixels" % (data_shape, info.height, info.width))
        made, kind = _dtype_of(dtype)
        loader = DataLoader(
            dataset,
            (info.height, info.width),
            batch_size,
            indices="given",
            warp=None,
            channels="gray",
            norm=1 / 256,
            output="numpy",
            dtype=made,
            shard=False,
            seed=0,
            multibuffering=max(2, prefetch_buffer),
        )

        def make(found: Any) -> Tuple[Any, Any]:
            images, targets = found
            return (images.reshape(len(images), -1) if flat else images).astype(kind, copy=False), targets.astype(
                "float32"
            )
        chosen = _permutations(seed)(0, last - first) if shuffle else numpy.arange(last - first)
        whole = chosen[:len(chosen) // batch_size * batch_size]
        pixels = (info.height * info.width,) if flat else (1, info.height, info.width)
        super().__init__(
            loader,
            _Order(first, first + len(whole), batch_size, True, lambda number, count: whole),
            batch_size,
            make,
            DataDesc(data_name, (batch_size, *pixels), kind),
            DataDesc(label_name, (batch_size,)),
        )


class CSVIter(DataIter):
    """Batches of rows of a file of numbers. data_shape: of each row; label_csv: another file, whose rows have
    label_shape. Files are read whole when it is made. round_batch, data_name and label_name are as of an
    ImageRecordIter; numbers are read as dtype, whole numbers exactly."""

    def __init__(
        self,
        *,
        data_csv: Path,
        data_shape: Sequence[int],
        label_csv: Path = "NULL",
        label_shape: Sequence[int] = (1,),
        batch_size: int,
        round_batch: bool = True,
        prefetch_buffer: int = 4,
        ctx: str = "gpu",
        dtype: _Dtype = None,
        data_name: str = "data",
        label_name: str = "softmax_label",
    ) -> None:
        super().__init__(batch_size)
        _, kind = _dtype_of(dtype)
        self._data = _rows_of("data_csv", data_csv, "data_shape", data_shape, kind)
        if label_csv == "NULL":
            self._label = numpy.zeros((len(self._data), *label_shape), kind)
        else:
            self._label = _rows_of("label_csv", label_csv, "label_shape", label_shape, kind)
        if len(self._label) != len(self._data):
            raise ValueError("label_csv: %d rows for %d of data_csv" % (len(self._label), len(self._data)))
        if tuple(label_shape) == (1,):
            self._label = self._label[:, 0]
        self.provide_data = [DataDesc(data_name, (batch_size, *self._data.shape[1:]), kind)]
        self.provide_label = [DataDesc(label_name, (batch_size, *self._label.shape[1:]), kind)]
        self._order, self._at = _Order(0, len(self._data), batch_size, round_batch, _sequence), 0
        self._indices, self._pad = self._order.epoch(True)

    def reset(self) -> None:
        if self._at:
            self._indices, self._pad = self._order.epoch(self._at >= len(self._indices))
            self._at, self._batch = 0, None

    def iter_next(self) -> bool:
        index = self._indices[self._at:self._at + self.batch_size]
        if not len(index):
            self._batch = None
            return False
        self._at += self.batch_size
        self._batch = DataBatch([self._data[index].view(NDArray)], [self._label[index].view(NDArray)],
                                self._pad if self._at >= len(self._indices) else 0, index.astype("uint64"))
        return True


def _rows_of(what: str, path: Path, shape_name: str, shape: Sequence[int], dtype: str) -> Any:
    """The numbers of a file, or of those of a folder one after the other."""
    paths = (
        sorted(os.path.join(os.fsdecode(path), name) for name in os.listdir(os.fsdecode(path)))
        if os.path.isdir(path)
        else [os.fsdecode(path)]
    )
    whole = numpy.issubdtype(dtype, numpy.integer)
    rows = [row for one in paths for _, row in rows_of_csv(one, _whole_number if whole else float)]
    numbers = numpy.array(rows, "int64" if whole else "float64")
    if whole and numbers.size and not (numbers == numbers.astype(dtype)).all():
        raise ValueError("%s: it has numbers that %s cannot hold" % (what, dtype))
    numbers = numbers.astype(dtype)
    if numbers.shape[1] != numpy.prod(shape, dtype=int):
        raise ValueError(
            "%s: rows of %s have %d numbers, not those of %r" % (shape_name, what, numbers.shape[1], tuple(shape))
        )
    return numbers.reshape(len(numbers), *shape)


def _whole_number(word: str) -> int:
    try:
        return int(word)
    except ValueError:
        number = float(word)
    if not number.is_integer():
        raise ValueError("%s is no whole number" % word)
    return int(number)


class NDArrayIter(DataIter):
    """Batches of arrays in memory. data, label: an array, a list of them, or a dict by name; numbers are made float32.
    shuffle: by numpy.random, in the order that MXNet has for its seed. last_batch_handle: "pad", "discard",
    "roll_over". idx: the numbers of the samples, in the order of this epoch."""

    def __init__(
        self,
        data: Any,
        label: Any = None,
        batch_size: int = 1,
        shuffle: bool = False,
        last_batch_handle: Literal["pad", "discard", "roll_over"] = "pad",
        data_name: str = "data",
        label_name: str = "softmax_label",
        layout: str = "NCHW",
    ) -> None:
        super().__init__(batch_size)
        if last_batch_handle not in ("pad", "discard", "roll_over"):
            raise ValueError("last_batch_handle: %r is none of 'pad', 'discard', 'roll_over'" % (last_batch_handle,))
        self.data, self.label = _arrays_of("data", data, data_name), _arrays_of("label", label, label_name)
        if not self.data:
            raise ValueError("data: there is none")
        self._axis = layout.find("N")
        self.num_data = self.data[0][1].shape[self._axis]
        for name, one in self.data + self.label:
            if one.shape[self._axis] != self.num_data:
                raise ValueError("%s: %d samples, not %d" % (name, one.shape[self._axis], self.num_data))
        self._shuffles, self._handle, self._layout = shuffle, last_batch_handle, layout
        self._shuffled, self._order = numpy.arange(self.num_data), numpy.arange(self.num_data)
        self._rest = self._order[:0]            # of the epoch before, with roll_over
        self._at, self._whole = 0, self._order
        self._begin()

    @property
    def idx(self) -> Any:
        return self._order.copy()

    @property
    def provide_data(self) -> List[DataDesc]:   # type: ignore[override]
        return self._described(self.data)

    @property
    def provide_label(self) -> List[DataDesc]:  # type: ignore[override]
        return self._described(self.label)

    def _described(self, arrays: Any) -> List[DataDesc]:
        return [
            DataDesc(
                name, (*one.shape[: self._axis], self.batch_size, *one.shape[self._axis + 1 :]), one.dtype, self._layout
            )
            for name, one in arrays
        ]

    def _begin(self) -> None:
        if self._shuffles:
            numpy.random.shuffle(self._shuffled)
            self._order = self._order[self._shuffled]
        self._rolled = len(self._rest)
        self._whole, self._at, self._batch = numpy.concatenate([self._rest, self._order]), 0, None

    def reset(self) -> None:
        """With roll_over, the samples left at the end of an epoch are the start of the next one."""
        left = len(self._whole) % self.batch_size
        came_to_its_end = self._handle == "roll_over" and self._at > len(self._whole)
        self._rest = self._whole[len(self._whole) - left:] if came_to_its_end else self._order[:0]
        self._begin()

    def hard_reset(self) -> None:
        """Leaves out what is rolled over."""
        self._rest = self._order[:0]
        self._begin()

    def iter_next(self) -> bool:
        index, begins = self._whole[self._at:self._at + self.batch_size], self._at == 0
        self._at += self.batch_size
        pad = self.batch_size - len(index)
        if not len(index) or (pad and self._handle != "pad"):
            self._batch = None
            return False
        if pad:
            index = numpy.concatenate([index, numpy.resize(self._whole, pad)])
        data, label = (
            [one.take(index, self._axis).view(NDArray) for _, one in arrays] for arrays in (self.data, self.label)
        )
        self._batch = DataBatch(data, label, pad or (self._rolled if begins else 0), None)
        return True

    def getdata(self) -> Any:
        return self._current().data

    def getlabel(self) -> Any:
        return self._current().label


def _arrays_of(what: str, given: Any, name: str) -> List[Tuple[str, Any]]:
    if given is None:
        return []
    if isinstance(given, (list, tuple)):
        given = {name: given[0]} if len(given) == 1 else {"_%d_%s" % (i, name): one for i, one in enumerate(given)}
    elif not isinstance(given, dict):
        given = {name: given}
    found = []
    for key, one in sorted(given.items()):
        one = one.asnumpy() if hasattr(one, "asnumpy") else numpy.asarray(one, "float32")
        if not one.ndim:
            raise TypeError("%s: %s is no array, nor a list or a dict of arrays" % (what, key))
        found.append((key, one))
    return found


def ImageDetRecordIter(**parameters: Any) -> NoReturn:
    """Refused."""
    raise NotImplementedError(
        "ImageDetRecordIter: pictures with boxes go to benzina.DataLoader, with tensors=[\"label:K\"] for the labels "
        "of a .rec, "
        "and Rules that map their boxes"
    )


def ImageIter(*arguments: Any, **parameters: Any) -> NoReturn:
    """Refused."""
    raise NotImplementedError(
        "ImageIter: its augmenters are Python that runs for each picture: ImageRecordIter has their settings, "
        "benzina.DataLoader those of torchvision, for a .rec and for folders"
    )


def LibSVMIter(**parameters: Any) -> NoReturn:
    """Refused."""
    raise NotImplementedError("LibSVMIter: sparse matrices are not read here")

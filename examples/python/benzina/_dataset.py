"""Dataset and Sample."""
from __future__ import annotations

import array
import collections.abc
import ctypes
import os
import weakref
from typing import (
    Any,
    Dict,
    Iterable,
    Iterator,
    List,
    Literal,
    Mapping,
    NamedTuple,
    Optional,
    Sequence,
    Tuple,
    Union,
    overload,
)

from . import _arguments as arg
from . import _c, _foreign, _handles, _provider, _remote, _tables
from ._blocks import RemoteStatistics
from ._c import Status, formats, lib
from ._context import Context, _shared_context
from ._errors import Error, check, error_of, no_field, told
from ._idx import idx_records
from ._modules import installed
from ._sources import _close_thunk, _Failure, _read_at_thunk, _size_thunk, _source_over
from ._types import Antialias, Filter, Indices, Names, Path, Split

_list = list                                    # which is an argument's name here


def _resizing(box, shape):
    """(height, width, homography) of the part of a picture between left, top, right and bottom, resized to shape; None:
    as large as it is."""
    left, top, right, bottom = box
    if not (right > left and bottom > top):
        raise ValueError("box: %r is not (left, top, right, bottom)" % (box,))
    height, width = arg.height_width((round(bottom - top), round(right - left)) if shape is None else shape)
    if not (1 <= width <= 16384 and 1 <= height <= 16384):
        raise ValueError("shape: %r is not in 1..16384" % ((height, width),))
    x, y = (right - left) / width, (bottom - top) / height
    return height, width, (x, 0, left + x / 2 - 0.5, 0, y, top + y / 2 - 0.5, 0, 0, 1)


class Sample:
    """One sample of a dataset.

        >>> sample = benzina.Dataset("train/")[0]
        >>> sample.target, sample.filename, sample.images
        (0, 'color/a.png', ('image',))
        >>> sample.image().shape
        (48, 64, 3)

    index            its number in the dataset; in a selection, its number in the whole data set
    target           -1 if it has none
    filename         also called name: in an archive, the file that it was made of; in a folder, its path there; its key
                     in a tar; its number in a .rec; None if it has none
    offset, size     of its bytes in the file
    images           the names of the pictures that it holds

    It is also a pair, as in torchvision's data sets, `picture, target = dataset[0]`: the decoded picture, upright, in
    RGB, as a PIL.Image if Pillow is installed, else as a numpy array of H x W x 3 uint8. It is decoded when it is asked
    for."""

    __slots__ = ("index", "target", "filename", "offset", "size", "images", "_dataset", "__weakref__")

    def __init__(
        self,
        index: int,
        target: int,
        filename: Optional[str],
        offset: int,
        size: int,
        images: Tuple[str, ...],
        dataset: Optional[Dataset] = None,
    ) -> None:
        self.index, self.target, self.filename, self.offset, self.size, self.images = (
            index,
            target,
            filename,
            offset,
            size,
            images,
        )
        self._dataset = dataset                 # that it was taken from

    def _all(self) -> Tuple[Any, ...]:
        return self.index, self.target, self.filename, self.offset, self.size, self.images

    def __eq__(self, other: object) -> bool:
        return self._all() == other._all() if isinstance(other, Sample) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._all())

    def __repr__(self) -> str:
        return "Sample(index=%r, target=%r, filename=%r, offset=%r, size=%r, images=%r)" % self._all()

    def __len__(self) -> int:
        return 2

    def __getitem__(self, number: int) -> Any:
        if number not in (0, 1, -1, -2):
            raise IndexError("a Sample is a pair: its picture, and its target")
        return self.target if number in (1, -1) else self._picture()

    def __iter__(self) -> Iterator[Any]:
        return iter((self._picture(), self.target))

    def _picture(self) -> Any:
        pixels, pillow = self.image(), installed("PIL.Image")
        return pixels if pillow is None else pillow.Image.fromarray(pixels)

    @property
    def name(self) -> Optional[str]:
        return self.filename

    def __reduce__(self) -> Any:
        """Goes with its dataset if that can be opened again, else without."""
        dataset = self._dataset
        return Sample, (*self._all(), dataset if dataset is not None and dataset._handle and dataset._origin else None)

    def __copy__(self) -> Sample:
        return self                             # it cannot be changed

    def __deepcopy__(self, memo: Any) -> Sample:
        return self

    @property
    def fields(self) -> Mapping[str, Any]:
        """The sample's fields by name, each read when it is asked for: see Dataset.field. None if it lacks the
        field."""
        return _Fields(self._of(), self.index)

    def image(
        self,
        field: Optional[str] = None,
        shape: Any = None,
        box: Optional[Sequence[float]] = None,
        filter: Filter = "linear",
        antialias: Antialias = True,
    ) -> Any:
        """The decoded picture as a numpy array, H x W x 3 uint8 in RGB: all of it, upright, neither scaled nor
        normalized. field: "image" (or None), "thumb", or one of images. It is decoded in software, on this thread.
        Where it is damaged, an Error names the sample.

        shape: (height, width) to resize it to, or one number for both; box: (left, top, right, bottom), the part of it
        that is resized, in pixels and parts of them; filter, antialias: as DataLoader's. So PIL's resize(size,
        resample, box)."""
        numpy = installed("numpy")
        if numpy is None:
            raise ImportError("Sample.image() gives a numpy array: numpy is not installed")
        transform, output = _c.new("transform"), _c.new("output")                   # the identity
        transform.filter, transform.antialias = arg.choice("filter", filter), arg.choice("antialias", antialias)
        coded, kept = self._coded(field)
        decoder, picture, err = ctypes.c_void_p(), _c.new("picture"), _c.new("error")
        check(lib.bzna_decoder_open(self._dataset._open_context().handle, decoder, err), err)
        try:
            status = lib.bzna_decoder_decode(decoder, coded, picture, err)
            if status == Status.OK:
                width, height = picture.width, picture.height
                if picture.orientation > 4:     # it lies on its side
                    width, height = height, width
                box = (0, 0, width, height) if box is None else arg.floats("box", box, 4, ctypes.c_double)
                output.height, output.width, transform.homography[:] = _resizing(box, shape)
                output.layout, output.dtype = _c.LAYOUT_NHWC, _c.DTYPE_UINT8          # as bzna extract
                pixels = numpy.empty((output.height, output.width, 3), numpy.uint8)
                status = lib.bzna_picture_render(picture, transform, output, pixels.ctypes.data, pixels.nbytes, err)
        finally:
            lib.bzna_decoder_close(decoder)
        if status < 0:
            error, name = error_of(status, err), " (%s)" % self.filename if self.filename else ""
            message = "sample %d%s: %s" % (self.index, name, error.message)
            raise Error(error.status, message, error.byte_offset, error.native_code)
        return pixels

    def image_info(self, field: Optional[str] = None) -> Any:
        """A structs.image_info: how the file describes a picture, and where it is there."""
        dataset = self._of()
        return told("image_info", lib.bzna_dataset_image_info, dataset.handle, self.index, _track(field),
                     source=dataset._source)

    def _of(self) -> Any:
        if self._dataset is None:
            raise ValueError("this Sample was not taken from a Dataset: it has no fields and no picture")
        return self._dataset

    def _coded(self, track="image"):
        """(structs.image, the buffer that it points into)."""
        handle = self._of().handle
        err = _c.new("error")
        for size in (self.size, 2 * self.size + 65536):     # the second time, for what a codec copies to unwrap it
            image, buffer = _c.new("image"), (ctypes.c_char * size)()
            status = lib.bzna_dataset_read_image(handle, self.index, _track(track), buffer, size, image, err)
            if status != _c.Status.E_BUFFER:
                break
        check(status, err, self._dataset.last_exception)
        # it may be the dataset's, which may be closed before the picture is used
        if image.config_size:
            image.kept = ctypes.create_string_buffer(
                ctypes.string_at(image.config, image.config_size), image.config_size
            )
            image.config = ctypes.addressof(image.kept)
        return image, buffer


def _track(name):
    return ("image" if name is None else name).encode()


class _Fields(collections.abc.Mapping):
    """A sample's fields."""

    def __init__(self, dataset, index):
        self._dataset, self._index = dataset, index

    def __getitem__(self, name):
        if name not in self._dataset.fields:
            raise no_field(name, self._dataset.fields)
        return self._dataset._field_value(self._index, name)

    def __iter__(self):
        return iter(self._dataset.fields)

    def __len__(self):
        return len(self._dataset.fields)

    def __repr__(self):
        return "<fields %s of sample %d>" % (", ".join(self), self._index)


def _text_of(data):
    return None if data is None else data.split(b"\0")[0].decode("utf-8", "surrogateescape")


def _integer_of(data):
    number, = array.array("q", data)
    return number


FIELD_VALUES = {                               # of a field's bytes
    _c.FIELD_IMAGE: bytes, _c.FIELD_BYTES: bytes, _c.FIELD_TEXT: _text_of, _c.FIELD_INTEGER: _integer_of,
    _c.FIELD_VECTOR: lambda data: array.array("f", data),
}

class Track(NamedTuple):
    """A track of an archive or another mp4."""

    name: str
    handler: str
    format: str
    flags: int
    sample_count: int
    mime: str


def _fourcc(number):
    return number.to_bytes(4, "big").decode("latin-1")


_DATASET_CHOICES = {
    name: {**arg.OTHER_CHOICES, **arg.CHOICES}[name]
    for name in ("class_order", "orientation", "palette", "data_type", "label_type", "layout")
}


def _records_of(members):
    records = _c.new("records")
    names = [name for name, _ in records._fields_ if name not in ("struct_size", "reserved0")]
    for name, value in members.items():
        if name not in names:
            raise ValueError("records: there is no %r among %s" % (name, ", ".join(names)))
        if isinstance(value, str) or value is None:
            value = arg.choice(name, value, _DATASET_CHOICES)
        arg.put(records, name, value, "records: " + name)
    return records


def _pairs_of(pairs):
    """What the library takes: "images,masks", or "image=a,mask=b"."""
    if isinstance(pairs, Mapping):
        pairs = ["%s=%s" % (name, os.fspath(folder)) for name, folder in pairs.items()]
    if pairs is None or isinstance(pairs, str):
        return pairs
    pairs = [os.fspath(pair) for pair in pairs]
    for pair in pairs:
        if "," in pair:
            raise ValueError("pairs: no folder has a comma in its name here, as %r has" % pair)
    return ",".join(pairs)


def _dataset_config(settings):
    """(structs.dataset_config, what it points to)."""
    config, kept = _c.new("dataset_config"), []
    for name, value in settings.items():
        if value is None:
            continue
        if name == "classes":
            names = [arg.text("classes", c) for c in value]
            kept.append((ctypes.c_char_p * len(names))(*names))
            config.class_count, value = len(names), ctypes.addressof(kept[-1])
        elif name == "index":
            kept.append(ctypes.create_string_buffer(value, len(value)))
            config.index_bytes, value = len(value), ctypes.addressof(kept[-1])
        elif name == "records":
            kept.append(_records_of(value))
            value = ctypes.addressof(kept[-1])
        elif name == "allow_empty":
            arg.put(config, name, value, name)
            continue
        elif name == "hold_bytes":
            arg.put(_c.new("formats_config"), name, value, name)        # which checks it
            value = int(value)
        elif name in _DATASET_CHOICES:
            value = arg.choice(name, value, _DATASET_CHOICES)
        else:
            value = arg.text(name, value)
        setattr(config, name, value)
    return config, kept


def _absolute(path):
    """What the same path is from any folder."""
    if _remote.is_url(path):
        return path
    path = os.fsencode(path)
    parts = [path] if os.path.exists(path) else path.split(b"::")
    return b"::".join(map(os.path.abspath, parts))


_PICTURE_FOLDERS = {"image", "images", "img", "imgs", "input", "inputs", "jpegimages", "photos"}
_MASK_FOLDERS = {
    "mask",
    "masks",
    "label",
    "labels",
    "annotation",
    "annotations",
    "segmentation",
    "segmentations",
    "segmentationclass",
    "ground_truth",
    "gt",
}


_PROVIDERS = _provider.Arrays, _provider.Items, _tables.Table


class Dataset(_handles.Handled):
    """The samples of a data set.

        >>> dataset = benzina.Dataset("train/")
        >>> len(dataset), dataset.classes, dataset.class_to_idx
        (8, ['color', 'gray'], {'color': 0, 'gray': 1})
        >>> picture, target = dataset[0]
        >>> dataset[::2], dataset[[0, 3, 5]], dataset + dataset
        (<benzina.Dataset: folder, 4 of 8 samples>, <benzina.Dataset: folder, 3 of 8 samples>, <benzina.Dataset: folder,
        16 samples>)

    dataset[i] is a Sample, dataset[i:j] and dataset[a list of numbers] are Datasets, and so is a + b. The names of
    torchvision's ImageFolder are here, too: classes, class_to_idx, samples, imgs, targets.

    source: a path (of an archive, another mp4, a folder of pictures, a tar shard, a .rec), or a pattern of several
    ("shard-{000..146}.tar", "*.tar", "a.tar::b.tar"); or several in a list, which are joined one after the other; or an
    object with read_at(offset, size) -> bytes, called by several threads at once, and size, a number or a method; or an
    open binary file. The position of a file that the system opened does not matter and does not change, and the file
    may be closed. The same holds for an io.BytesIO: the library's threads read its bytes in place, without the
    interpreter's lock, and as they were when it was opened, even if the object is changed or closed. Any other
    file-like object is read under a lock, and must stay open.

    Or an object with __len__ and __getitem__, such as torch's data sets. __getitem__(index) returns a sample: a
    picture, or a pair of picture and target, or a dict of fields. Pictures are bytes of files, PIL.Images, or arrays of
    uint8; other fields are numbers, rows of numbers, text and bytes. The first sample decides their kinds, and other
    samples may have None. The second element of a pair is the target, and so is the "target", "label", "labels", "cls",
    ... of a dict: a whole number, or with classes= a name, which is replaced by its number. Other numbers, or several,
    become the field "label" (in a dict, the field of that name). __getitem__ is called by several threads, one at a
    time, since each holds the interpreter's lock, and must give the same sample for the same index. An exception fails
    only its sample; OSError and EOFError are tried again (read_retries). last_exception is the last one.

    Or a datasets.Dataset of Hugging Face's, a pyarrow.Table, or files "*.parquet" of one: its rows are samples, and
    pictures are read in pyarrow's memory, without copies. See from_table.

    Or a URL: https://, s3://, gs://, hf:// and whatever else fsspec knows; also braces, lists, and "a::b". README.md
    has a chapter on it. Archives, mp4, tars, .rec and record files are read by range requests, in blocks that a cache
    keeps for all threads and files.

    split            of an archive: "train", "validation" or "test"
    format           "archive", "folder", "tar", "RecordIO", ... (see info.container): other kinds are refused
    fields           names of fields: dataset.fields and dataset[i].fields show only these; None: all. A DataLoader
                     delivers picture and target, and the fields that its tensors and bytes name
    target           the field of integers that is the target: "cls2" of a tar, "bzna_target_b" of an mp4's tracks, the
                     key of a dict; None: the usual one
    list             path of a list of samples (.lst, .csv, lines of path label): the files of a folder, or the labels
                     of a .rec. Whole numbers, one for each sample, are targets, and -1 is none; other labels are the
                     field "label"
    classes          of a folder: its class folders, in the order of their numbers; None: all, in class_order. A folder
                     of pictures and a folder of masks are no data set of two classes, and are refused unless they are
                     named here. For an object: the names of targets 0, 1, ..., by which samples may name their labels
    class_order      "text": "10" comes before "2"; "numeric": after it
    allow_empty      True: class folders without pictures are classes, too, with numbers of their own, as in
                     torchvision; False: they are refused
    orientation      "apply": pictures are rotated as their EXIF data says; "ignore": they are not, as in torchvision's
                     ImageFolder
    palette          "colors": pictures with a palette become their colors; "index": their indices, as gray
    pairs            folders in the folder whose files of the same names make one sample: ("images", "masks"), or
                     {"image": "leftImg8bit/train", "mask": "gtFine/train"}. Each is a picture of that name, for
                     Output.mask and Output
    records          of a record file: a dict of bzna_records' members; types and layout by name, "uint8", "nhwc". A
                     file of MNIST's format (IDX) needs none; its labels are in another file: see idx
    hold_bytes       how many bytes of record files may be held in memory; None: 256 MiB; 1: none. They are read whole,
                     one after the other, as long as they fit

    index            the bytes of the index (.idx) of one tar or .rec that is no path, so that the library need not walk
                     over it. For paths and URLs, the index is the file next to them

    Of URLs
    block_size       bytes that requests are rounded to. Reads in order ask for up to 4 MiB at once; scattered reads of
                     files that together are larger than the cache ask for only their own bytes
    cache_bytes      bytes of blocks that the cache keeps, for all files and threads; 0: none
    retries          how often a request is sent again where that may help, after 0.2 s, 0.4 s, 0.8 s, ...
    timeout          seconds that a request may take, and as many more for each MiB that it asks for
    storage_options  a dict: headers (a dict) and ssl_context for http and https; else what fsspec's file system takes
    """

    _gone = "the dataset is closed"
    _classes = _shown = _chosen = _targets = _filenames = _given = None

    def __init__(
        self,
        source: Any,
        split: Optional[Split] = None,
        name: Optional[str] = None,
        context: Optional[Context] = None,
        *,
        format: Optional[str] = None,
        fields: Optional[Names] = None,
        list: Optional[Path] = None,
        classes: Optional[Iterable[str]] = None,
        class_order: Literal["text", "numeric"] = "text",
        allow_empty: bool = False,
        orientation: Literal["apply", "ignore"] = "apply",
        palette: Literal["colors", "index"] = "colors",
        records: Optional[Mapping[str, Any]] = None,
        target: Optional[str] = None,
        index: Optional[bytes] = None,
        pairs: Union[None, Names, Mapping[str, str]] = None,
        hold_bytes: Optional[int] = None,
        block_size: int = 1 << 16,
        cache_bytes: int = 256 << 20,
        retries: int = 4,
        timeout: float = 30,
        storage_options: Optional[Mapping[str, Any]] = None,
    ) -> None:
        _handles.dispose_put_off()
        context = context or _shared_context()
        if _tables.is_table(source) or _tables.is_parquet(source):
            source = _tables.open_table(source, label=target, classes=classes)
            target = classes = None             # it has made use of them
        if records is None and format is None and arg.is_path(source):
            records = idx_records(source)
        if index is not None and (not isinstance(index, (bytes, bytearray)) or not index):
            raise TypeError("index: the bytes of an .idx are needed, not %r" % (index,))
        if isinstance(classes, str):
            raise TypeError("classes: a list of names is needed, not one name")
        settings: Dict[str, Any] = dict(
            split=split,
            name=name,
            format=format,
            list=list,
            classes=classes and tuple(classes),
            class_order=class_order,
            allow_empty=arg.flag("allow_empty", allow_empty),
            orientation=orientation,
            palette=palette,
            records=records and dict(records),
            target=target,
            pairs=_pairs_of(pairs),
            index=index and bytes(index),
            hold_bytes=hold_bytes,
        )
        elsewhere = dict(
            block_size=block_size,
            cache_bytes=cache_bytes,
            retries=retries,
            timeout=timeout,
            storage_options=storage_options,
        )
        (config, kept), handle, err = _dataset_config(settings), ctypes.c_void_p(), _c.new("error")
        paths = source if isinstance(source, (tuple, _list)) else None
        self._source: Optional[_Failure] = None
        self._origin: Any = None
        is_remote = _remote.has_url(source)
        if not is_remote and storage_options is not None:
            raise ValueError("storage_options: they are for URLs")
        if is_remote:
            handle, self._source = _remote.open_urls(source, context, config, **elsewhere)
            settings.update(elsewhere)
        elif paths is not None:
            array = (ctypes.c_char_p * len(paths))(*map(arg.path_bytes, paths))
            check(
                formats.bzna_formats_open_list(context.handle, array, len(paths), _c.with_formats(config), handle, err),
                err,
            )
        elif arg.is_path(source):
            check(
                formats.bzna_formats_open(context.handle, arg.path_bytes(source), _c.with_formats(config), handle, err),
                err,
            )
        elif isinstance(source, _PROVIDERS) or _provider.is_items(source):
            samples = source
            if not isinstance(source, _PROVIDERS):
                samples = _provider.Items(source, target, classes and [*classes])
                config.target = config.classes = None           # it has made use of them
                config.class_count = 0
            self._source = _Failure()
            samples.kept = weakref.ref(self._source)
            callbacks, key, pointed = _provider.callbacks_of(samples)
            status = lib.bzna_dataset_open_provider(context.handle, callbacks, config, handle, err)
            del pointed                         # the library has copied it
            if status < 0:
                _close_thunk(key)
            check(status, err)
        else:
            over, self._source = _source_over(source), _Failure()
            over.kept = weakref.ref(self._source)
            key = _handles.register(over)
            callbacks = _c.new("source")
            callbacks.user, callbacks.close = key, _close_thunk
            callbacks.read_at, callbacks.size = _read_at_thunk, _size_thunk
            callbacks.memory = getattr(over, "address", None)
            status = formats.bzna_formats_open_source(context.handle, callbacks, _c.with_formats(config), handle, err)
            if status < 0:
                _close_thunk(key)
            check(status, err, self._source.failure)
        del kept                                # the library has copied it
        self._adopt(context, handle.value)
        if classes is None:
            self._refuse_masks()
        if fields is not None:
            self._shown = self._known(fields)
        if self._source is None or is_remote:
            where = _absolute(source) if paths is None else [_absolute(path) for path in paths]
            settings.update(list=list and os.path.abspath(list), fields=self._shown)
            self._origin = ("file", where, settings, context, self._length, self.info.size_bytes)
            self._given = os.fsdecode(source) if arg.is_path(source) else None

    @classmethod
    def _of(cls, thing: Any, context: Optional[Context]) -> Dataset:
        """What a DataLoader is given: a Dataset, torch's Subset or ConcatDataset, torchvision's ImageFolder, or what
        makes a Dataset. What a class of the user's gives at an index counts: then it is asked for each sample."""
        if isinstance(thing, Dataset):
            if type(thing).__getitem__ is not Dataset.__getitem__:
                raise TypeError(
                    "dataset: what the __getitem__ of %s gives would not be asked for: a Dataset's samples are read by "
                    "the library. Wrap it in a class that is no Dataset" % type(thing).__name__
                )
            return thing
        if _foreign.is_plain(thing, "torch.utils.data", "Subset"):
            return cls._of(thing.dataset, context)[thing.indices]
        if _foreign.is_plain(thing, "torch.utils.data", "ConcatDataset"):
            parts = [cls._of(part, context) for part in thing.datasets]
            return sum(parts[1:], parts[0])
        found = cls._of_image_folder(thing, context) if _foreign.is_folder(thing) else None
        return cls(thing, context=context) if found is None else found

    @classmethod
    def _of_image_folder(cls, folder: Any, context: Optional[Context]) -> Optional[Dataset]:
        """None where its samples are others than those of a folder here."""
        for name in ("transform", "target_transform", "transforms"):
            if getattr(folder, name, None) is not None:
                raise ValueError(
                    "dataset: the %s of %s would not be applied: leave it out, and give warp=, mean= and std= instead "
                    "(by default, pictures are resized and center-cropped as Resize(shape) and CenterCrop(shape) do)"
                    % (name, type(folder).__name__)
                )
        for root, classes in _foreign.class_folders(folder):
            try:
                found = cls(root, context=context, format="folder", classes=classes, allow_empty=True,
                            orientation="ignore")
                places = {name: i for i, name in enumerate(found.filenames)}
                paths = [os.path.relpath(path, root).replace(os.sep, "/") for path, _ in folder.samples]
                order = [places[path] for path in paths]
            except (Error, KeyError):           # a class without pictures here; a file that is no picture by its name
                continue
            return found if order == [*range(len(found))] else found[order]
        return None

    def _refuse_masks(self) -> None:
        if self.info.container != b"folder":
            return
        names = {name.lower(): name for name in self.classes}
        pictures, masks = (sorted(names.keys() & known) for known in (_PICTURE_FOLDERS, _MASK_FOLDERS))
        if len(names) > 1 and pictures and masks and len(names) == len(pictures) + len(masks):
            first, second = names[pictures[0]], names[masks[0]]
            self.close()
            raise Error(
                Status.E_FORMAT,
                "its folders %r and %r look like pictures and their masks, not like classes: open one of them, or name "
                "both in classes= where they are classes. pairs=(%r, %r) makes samples of files that have one name in "
                "both, which Output.mask(%r) then warps as their pictures" % (first, second, first, second, second),
            )

    @classmethod
    def _from_handle(cls, context: Context, handle: Any, source: Any = None, origin: Any = None) -> Dataset:
        self = cls.__new__(cls)
        self._source, self._origin = source, origin
        self._adopt(context, handle)
        return self

    def _adopt(self, context: Context, handle: Any) -> None:
        self._context, self._handle = context, handle
        self._close = _handles.owned(self, lib.bzna_dataset_close, handle)
        self._length = lib.bzna_dataset_count(handle)

    @classmethod
    def concat(cls, datasets: Iterable[Dataset], context: Optional[Context] = None) -> Dataset:
        """Several data sets laid end to end."""
        datasets = [*datasets]
        handle, err = ctypes.c_void_p(), _c.new("error")
        context = context or (datasets[0]._context if datasets else _shared_context())
        parts = (ctypes.c_void_p * len(datasets))(*[d.handle for d in datasets])
        check(lib.bzna_dataset_concat(context.handle, parts, len(datasets), handle, err), err)
        origins: List[Any] = []
        for d in datasets:                      # of a sum, its parts, so that many of them do not nest
            origins.extend(d._origin[1] if d._origin and d._origin[0] == "concat" else [d._origin])
        source = next((d._source for d in datasets if d.remote is not None), None)
        found = cls._from_handle(
            context, handle.value, source, origin=None if None in origins else ("concat", origins, context)
        )
        if any(d._chosen is not None for d in datasets):
            chosen, before = array.array("Q"), 0
            for d in datasets:
                chosen.extend(before + place for place in (range(d._length) if d._chosen is None else d._chosen))
                before += d._length
            found._choose(chosen)
        return found

    def range(self, first: int, count: int) -> Dataset:
        """The samples first .. first + count - 1 as a data set."""
        first, count = arg.number("first", first, ctypes.c_uint64), arg.number("count", count, ctypes.c_uint64)
        if self._chosen is not None:
            if first + count > len(self):
                raise Error(Status.E_RANGE, "first, count: %d and %d of %d samples" % (first, count, len(self)))
            return self._selected(self._chosen[first:first + count])
        return self._span(first, count)

    def _span(self, first: int, count: int) -> Dataset:
        """Of all samples, chosen or not."""
        handle, err = ctypes.c_void_p(), _c.new("error")
        check(lib.bzna_dataset_range(self.handle, first, count, handle, err), err)
        origin = self._origin
        if origin and origin[0] == "range":     # of a range, so that many of them do not nest
            origin, first = origin[1], origin[2] + first
        origin = origin and ("range", origin, first, count)
        found = Dataset._from_handle(self._context, handle.value, self._source, origin)
        found._shown, found._given = self._shown, self._given
        return found

    def select(self, indices: Indices) -> Dataset:
        """The samples of these numbers, in this order, as a data set; dataset[indices] is the same."""
        count = len(self)
        numbers = arg.many("indices", indices, ctypes.c_int64)
        for i, number in enumerate(numbers):
            if not -count <= number < count:
                raise IndexError("indices[%d]: sample %d of %d" % (i, number, count))
        places = (number + count if number < 0 else number for number in numbers)
        return self._selected(
            array.array("Q", places if self._chosen is None else (self._chosen[place] for place in places))
        )

    def _selected(self, chosen: Any) -> Dataset:
        found = self._span(0, self._length)
        found._choose(chosen)
        return found

    def _choose(self, chosen: Any) -> None:
        """chosen: the numbers of samples, in all that the library's handle has."""
        self._chosen = chosen
        if self._origin:
            self._origin = ("chosen", self._origin, chosen)

    @classmethod
    def _reopened(cls, origin: Any) -> Dataset:
        kind, what, *more = origin
        if kind == "range":
            return cls._reopened(what)._span(*more)
        if kind == "chosen":
            return cls._reopened(what)._selected(*more)
        if kind == "concat":
            return Dataset.concat([cls._reopened(part) for part in what], *more)
        settings, context, count, size = more
        found = Dataset(what, context=context, **settings)
        if (len(found), found.info.size_bytes) != (count, size):
            where = ", ".join(map(os.fsdecode, what if isinstance(what, list) else [what]))
            raise Error(Status.E_MISMATCH, "%s: %d samples in %d bytes, but %d in %d when it was opened first" %
                        (where, len(found), found.info.size_bytes, count, size))
        return found

    def __getstate__(self) -> Dict[str, Any]:
        _ = self.handle                         # what is closed says so
        if self._origin is None:
            raise TypeError("a Dataset over a source can be neither pickled nor copied: only a path can be opened again"
                            " (dataset[:] is a second one over the same source)")
        left = ("_handle", "_close", "_source", "_context", "_targets", "_filenames", "_classes")
        return {name: value for name, value in vars(self).items() if name not in left}

    def __setstate__(self, state: Dict[str, Any]) -> None:
        """Opens the files again."""
        twin = Dataset._reopened(state["_origin"])
        twin._close.detach()                    # the handle is this one's now
        self._source = twin._source
        self._adopt(twin._context, twin._handle)
        vars(self).update(state)

    def _open_context(self) -> Context:
        return self._context if self._context._handle else _shared_context()

    def __repr__(self) -> str:
        if self._handle is None:
            return "<benzina.Dataset: closed>"
        of = "" if self._chosen is None else " of %d" % self._length
        return "<benzina.Dataset: %s, %d%s samples>" % (self.info.container.decode(), len(self), of)

    def __add__(self, other: Dataset) -> Dataset:
        return Dataset.concat([self, other]) if isinstance(other, Dataset) else NotImplemented

    def __len__(self) -> int:
        return self._length if self._chosen is None else len(self._chosen)

    def __iter__(self) -> Iterator[Sample]:
        return (self[i] for i in range(len(self)))

    @overload
    def __getitem__(self, index: int) -> Sample: ...

    @overload
    def __getitem__(self, index: Union[slice, Indices]) -> Dataset: ...

    def __getitem__(self, index: Any) -> Any:
        if isinstance(index, slice):
            places = range(len(self))[index]
            return self.range(places.start, len(places)) if places.step == 1 else self.select(places)
        if not hasattr(index, "__index__") or getattr(index, "shape", ()):
            return self.select(index)
        place = self._place(index)
        sample = told("sample_ref", lib.bzna_dataset_sample, self.handle, place, source=self._source)
        images = tuple(sample.image_names[i].value.decode("utf-8", "replace") for i in range(sample.image_count))
        return Sample(
            place, sample.target, _text_of(self._field(place, b"name")), sample.offset, sample.size, images, self
        )

    def _place(self, index: Any) -> int:
        """The number of a sample in all that the library's handle has."""
        if not hasattr(index, "__index__"):
            raise TypeError("a Dataset takes a number, a slice or a list of numbers, not %r" % (index,))
        number, count = index.__index__(), len(self)
        if not -count <= number < count:
            raise IndexError("sample %d of %d" % (number, count))
        place = number + count if number < 0 else number
        return place if self._chosen is None else self._chosen[place]

    def target(self, index: int) -> int:
        """-1 if it has none."""
        target, err = ctypes.c_int64(), _c.new("error")
        check(lib.bzna_dataset_target(self.handle, self._place(index), target, err), err, self.last_exception)
        return target.value

    def filename(self, index: int) -> Optional[str]:
        """None for a sample without one."""
        return _text_of(self._field(self._place(index), b"name"))

    @property
    def fields(self) -> List[str]:
        """The names of its samples' fields: "image", "target", ...; only the selected ones, if some were selected."""
        return list(self._field_kinds() if self._shown is None else self._shown)

    @property
    def classes(self) -> List[str]:
        """The names of its classes, in the order of their numbers; [] if they have none."""
        if self._classes is None:
            self._classes = []
            while True:
                try:
                    name = self._value(lib.bzna_dataset_class, len(self._classes))
                except Error as error:
                    if error.status != Status.E_RANGE:
                        raise
                    name = None
                if name is None:
                    break
                self._classes.append(_text_of(name))
        return list(self._classes)

    @property
    def class_to_idx(self) -> Dict[str, int]:
        """The numbers of its classes, by name."""
        return {name: number for number, name in enumerate(self.classes)}

    @property
    def samples(self) -> List[Tuple[Optional[str], int]]:
        """(filename, target) of each sample, in a list; of a folder, the filename begins with the folder as it was
        given."""
        root = self._root()
        names = self.filenames if root is None else [name and os.path.join(root, name) for name in self.filenames]
        return list(zip(names, self.targets.tolist()))

    @property
    def imgs(self) -> List[Tuple[Optional[str], int]]:
        """samples, by the other name that ImageFolder has for it."""
        return self.samples

    def _root(self) -> Optional[str]:
        origin = self._origin
        while origin and origin[0] in ("range", "chosen"):
            origin = origin[1]
        is_folder = self.info.container == b"folder" and origin and origin[0] == "file" and isinstance(origin[1], bytes)
        return self._given if is_folder else None

    def field(self, index: int, name: str) -> Any:
        """The value of a sample's field: a number, an array.array of float32, text, bytes, or a picture's bytes as a
        stream of its own, as for Writer.add. None if this sample lacks it; a KeyError if no sample can have it."""
        return self._field_value(self._place(index), name)

    def _field_value(self, place: int, name: str) -> Any:
        kind = self._kind(name)
        data = self._field(place, name.encode())
        return None if data is None else FIELD_VALUES[kind](data)

    def _unlike_targets(self):
        """The name of a field that has what targets cannot be, where no sample or not the first one has a target:
        numbers with fractions, several numbers, text; or one of several labels. None if there is none."""
        kinds = {name: kind for name, kind in self._field_kinds().items() if name in self.fields}
        if kinds.get("target", _c.FIELD_INTEGER) != _c.FIELD_INTEGER:
            return "target"
        if self.info.container == b"provider" and "target" not in kinds:
            return next((name for name in _provider.LABELS if kinds.get(name, _c.FIELD_IMAGE) != _c.FIELD_IMAGE), None)
        if kinds.get("label") != _c.FIELD_VECTOR or not len(self):
            return None
        if "target" not in kinds:
            return None if self.info.target_count else "label"
        if self.info.container != b"RecordIO":
            return None
        try:                                    # each record has its own: the first one tells
            label = self.field(0, "label")
            return "label" if label is not None and self.target(0) == -1 and label.tolist() != [-1] else None
        except Error:
            return None

    def _known(self, names):
        names = [names] if isinstance(names, str) else list(names)
        for name in names:
            self._kind(name)
        return names

    def _kind(self, name: str) -> int:
        """FIELD_..., of the names, too, that targets and pictures have everywhere."""
        kinds = self._field_kinds()
        always = {"target": _c.FIELD_INTEGER, "image": _c.FIELD_IMAGE}
        if name not in kinds and name not in always:
            raise no_field(name, kinds)
        return int(kinds.get(name) or always[name])

    def _field_kinds(self):
        """{name: FIELD_...}"""
        infos = [told("field_info", lib.bzna_dataset_field_info, self.handle, i)
                 for i in range(self.info.field_count)]
        return {info.name.decode("utf-8", "replace"): info.kind for info in infos}

    def _field(self, index: int, name: bytes) -> Any:
        """Its bytes, or None."""
        return self._value(lib.bzna_dataset_field, index, name)

    def _value(self, function, *arguments):
        """The bytes that a function of the library's gives, or None if there are none."""
        handle, err, needed, size = self.handle, _c.new("error"), ctypes.c_size_t(), 256
        while True:
            buffer = ctypes.create_string_buffer(size)
            status = function(handle, *arguments, buffer, size, needed, err)
            if status == Status.E_NOT_FOUND:
                return None
            if status != Status.E_BUFFER or needed.value <= size:
                check(status, err, self.last_exception)
                return buffer.raw[:needed.value]
            size = needed.value

    @property
    def targets(self) -> Any:
        """All targets, -1 for samples without one: a numpy array of int64, which dataset.targets == 3 compares number
        by number; an array.array if numpy is not installed."""
        if self._targets is None:
            numbers, numpy = array.array("q", (self.target(i) for i in range(len(self)))), installed("numpy")
            self._targets = numbers if numpy is None else numpy.asarray(numbers)
        return self._targets

    @property
    def filenames(self) -> List[Optional[str]]:
        if self._filenames is None:
            self._filenames = [*self._each_filename()]
        return self._filenames

    def _each_filename(self) -> Iterator[Optional[str]]:
        """In their order, several times as fast as one by one."""
        handle, read = self.handle, lib.bzna_dataset_field
        buffer, needed = ctypes.create_string_buffer(256), ctypes.c_size_t()
        for i, place in enumerate(range(self._length) if self._chosen is None else self._chosen):
            if read(handle, place, b"name", buffer, 256, needed, None) == 0:
                yield _text_of(buffer.value)
            else:
                yield self.filename(i)

    @property
    def info(self) -> Any:
        """A structs.dataset_info."""
        return told("dataset_info", lib.bzna_dataset_get_info, self.handle)

    @property
    def tracks(self) -> List[Track]:
        result = []
        for i in range(self.info.track_count):
            t = told("track_info", lib.bzna_dataset_track_info, self.handle, i)
            result.append(
                Track(
                    t.name.decode("utf-8", "replace"),
                    _fourcc(t.handler),
                    _fourcc(t.format),
                    t.flags,
                    t.sample_count,
                    t.mime.decode("utf-8", "replace"),
                )
            )
        return result

    @property
    def remote(self) -> Optional[RemoteStatistics]:
        """Requests, bytes and the cache of files that are elsewhere, since they were opened; None of others."""
        return self._source.statistics() if isinstance(self._source, _remote.Remote) else None

    @property
    def last_exception(self) -> Optional[BaseException]:
        """The last exception that its source raised, on whatever thread."""
        return None if self._source is None else self._source.failure

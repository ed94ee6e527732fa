"""The original's data sets."""
from __future__ import annotations

import array
import os
from typing import Any, Callable, Dict, NamedTuple, NoReturn, Optional, Sequence, Tuple, Union

from .._c import Status
from .._dataset import Dataset as _Dataset
from .._errors import Error
from .._modules import installed
from ..utils.file import Sample, Track

_Place = Union[None, str, "os.PathLike[str]"]
_Label = Union[str, Track]
_SPLITS = {"train": "train", "val": "validation", "test": "test"}


class _Item(NamedTuple):
    input: Sample


class _ClassItem(NamedTuple):
    input: Sample
    input_label: str
    target: Tuple[Any, ...]


def _path_of(place: Any, what: str) -> str:
    if hasattr(place, "inode") or hasattr(place, "scandir"):
        raise TypeError(
            "%s: a Bcachefs image is no container of this library: mount it, and give the folder, or an archive that "
            "`bzna pack` made of that" % what
        )
    return str(os.path.expandvars(os.path.expanduser(os.fspath(place))))


def _labels(place: Any, tracks: Sequence[_Label], what: str) -> Tuple[str, Tuple[str, ...]]:
    """The path, and the labels of tracks; these may be Tracks, in place of a path or beside none."""
    if isinstance(place, Track):
        place, tracks = None, [place]
    elif isinstance(place, (tuple, list)):
        place, tracks = None, place
    if place is not None:
        if not all(isinstance(track, str) for track in tracks):
            raise ValueError("tracks: with %s, they are labels" % what)
        return _path_of(place, what), tuple(str(track) for track in tracks)
    found = [track for track in tracks if isinstance(track, Track)]
    if len(found) != len(tracks):
        raise ValueError("tracks: without %s, they are Tracks" % what)
    if len({os.path.abspath(track.file.path) for track in found}) > 1:
        raise ValueError("tracks: they are of several files: input and target of a sample are in one here")
    return found[0].file.path, tuple(track.label for track in found)


class Dataset:
    """The pictures of an archive, or of whatever benzina.Dataset opens.

    archive   its path, or a Track
    track     the label of the track of pictures, or a Track where archive is None

    Items have an input, a benzina.utils.file.Sample. A subclass may have items of its own, with a target or aux beside
    it: a tuple of what a DataLoader delivers besides the pictures."""

    input_label = "bzna_thumb"

    def __init__(self, archive: Union[_Place, Track] = None, track: _Label = "bzna_input") -> None:
        path, (label,) = _labels(archive, [track], "archive")
        self._open(path, label)

    def _open(self, path: str, label: str = "bzna_input", **settings: Any) -> None:
        if not os.path.exists(path):
            raise ValueError("The archive %s is not present." % path)
        self._filename, self._track = path, Track(path, label)
        self.data = _Dataset(path, **settings)  # benzina's own
        self._first = 0                         # the number that its first sample has in the file

    @property
    def filename(self) -> str:
        return self._filename

    def picture(self) -> Optional[str]:
        """Which picture of its samples a DataLoader takes. None: the usual one."""
        if self._track.label != "bzna_input":
            return self._track.label
        names = self.data[0].images if len(self.data) else ()
        if self.input_label in names:
            return self.input_label
        if self.input_label != "bzna_thumb" and names:
            raise ValueError(
                "input_label: samples of %s have no %r among %s" % (self._filename, self.input_label, ", ".join(names))
            )
        return None

    def has_plain_targets(self) -> bool:
        """Whether targets are the file's, so that no item is asked for them."""
        return False

    def __len__(self) -> int:
        return len(self.data)

    def _sample(self, index: int) -> Sample:
        if not -len(self) <= index < len(self):
            raise IndexError("sample %d of %d" % (index, len(self)))
        return Sample(self._track, self._first + index % len(self))

    def __getitem__(self, index: int) -> Any:
        return _Item(self._sample(index))

    def __add__(self, other: Any) -> NoReturn:
        raise NotImplementedError(
            "two of the original's data sets have no sum: benzina.Dataset(a) + benzina.Dataset(b) does"
        )


class ClassificationDataset(Dataset):
    """Pictures and their targets.

    archive       its path, or a pair of Tracks
    tracks        the labels of the tracks of pictures and of targets, or a pair of Tracks where archive is None
    input_label   which picture of a sample is loaded. Where samples have no "bzna_thumb", it is the one that they
                  have"""

    def __init__(
        self,
        archive: Union[_Place, Sequence[Track]] = None,
        tracks: Sequence[_Label] = ("bzna_input", "bzna_target"),
        input_label: str = "bzna_thumb",
    ) -> None:
        path, labels = _labels(archive, tracks, "archive")
        self._open_pair(path, labels, input_label)

    def _open_pair(self, path: str, labels: Tuple[str, ...], input_label: str, **settings: Any) -> None:
        if len(labels) != 2:
            raise ValueError("tracks: %r is no pair" % (labels,))
        self.input_label, self._targets = input_label, None     # type: str, Any
        if labels[1] != "bzna_target":
            settings["target"] = labels[1]
        self._open(path, labels[0], **settings)

    def __getitem__(self, index: int) -> Any:
        return _ClassItem(self._sample(index), self.input_label, (self.data.target(index),))

    def has_plain_targets(self) -> bool:
        return type(self).__getitem__ is ClassificationDataset.__getitem__

    @property
    def targets(self) -> Any:
        """int64 of each sample, -1 where it has none: a numpy array where numpy is installed."""
        if self._targets is None:
            numbers: array.array[int] = self.data.targets
            numpy = installed("numpy")
            self._targets = numbers if numpy is None else numpy.array(numbers, "int64")
        return self._targets


class ImageNet(ClassificationDataset):
    """ImageNet.

    root          an archive, or a folder with ilsvrc2012.bzna or ilsvrc2012.mp4 in it, or one with a folder for each
                  split, as torchvision has it, or a pair of Tracks
    split         "train", "val", "test", or None: all. Where the archive has tracks for each split, these say what is
                  in it; else the last LEN_TEST samples are for tests, the LEN_VALID before these for validation
    tracks, input_label
                  as of a ClassificationDataset"""

    LEN_VALID = 50000
    LEN_TEST = 100000

    def __init__(self, root: Union[_Place, Sequence[Track]] = None, split: Optional[str] = None,
                 tracks: Sequence[_Label] = ("bzna_input", "bzna_target"), input_label: str = "bzna_thumb") -> None:
        if split not in (None, *_SPLITS):
            raise ValueError("split option must be one of test, train, val")
        path, labels = _labels(root, tracks, "root")
        path, settings = self._found(path, split)
        try:
            self._open_pair(path, labels, input_label, **settings)
        except Error as error:
            if error.status not in (Status.E_NOT_FOUND, Status.E_ARGUMENT) or not settings:
                raise                           # E_ARGUMENT: it is no mp4 file
            self._open_pair(path, labels, input_label)
            self._cut(split)

    @staticmethod
    def _found(root: str, split: Optional[str]) -> Tuple[str, Dict[str, Any]]:
        """The path to open, and how."""
        settings: Dict[str, Any] = {} if split is None else {"split": _SPLITS[split]}
        if not os.path.isdir(root):
            return root, settings
        for name in ("ilsvrc2012.bzna", "ilsvrc2012.mp4"):
            if os.path.isfile(os.path.join(root, name)):
                return os.path.join(root, name), settings
        if split is not None and os.path.isdir(os.path.join(root, split)):
            return os.path.join(root, split), {}
        raise ValueError("The archive ilsvrc2012.[mp4|bzna] is not present in root %s." % root)

    def _cut(self, split: Optional[str]) -> None:
        """By position."""
        trained = len(self.data) - self.LEN_VALID - self.LEN_TEST
        if trained <= 0:
            raise ValueError(
                "split: %s has no tracks of splits, and its %d samples are not more than the %d of validation and tests"
                % (self._filename, len(self.data), self.LEN_VALID + self.LEN_TEST)
            )
        first, last = {
            "train": (0, trained),
            "val": (trained, trained + self.LEN_VALID),
            "test": (trained + self.LEN_VALID, len(self.data)),
        }[split or ""]
        self.data, self._first = self.data[first:last], first


class ImageDataset(ClassificationDataset):
    """That of the original's later releases, over a folder with a folder for each class, or an archive, in place of a
    Bcachefs cursor. target_transform is called with a target's number."""

    def __init__(
        self,
        bch_cursor: _Place,
        target_transform: Optional[Callable[[int], Any]] = None,
        input_label: str = "bzna_thumb",
    ) -> None:
        super().__init__(_path_of(bch_cursor, "bch_cursor"), input_label=input_label)
        self.target_transform = target_transform

    def __getitem__(self, index: int) -> Any:
        item = super().__getitem__(index)
        return item if self.target_transform is None else item._replace(target=(self.target_transform(item.target[0]),))

    def has_plain_targets(self) -> bool:
        return type(self).__getitem__ is ImageDataset.__getitem__ and self.target_transform is None


def CocoDetection(*arguments: Any, **settings: Any) -> NoReturn:
    """Refused."""
    raise NotImplementedError(
        "CocoDetection: annotations of COCO are not read from a Bcachefs image. Give each picture its boxes as a field "
        "of "
        "bytes (7.jpg and 7.json in a tar), and take them by benzina.DataLoader(..., bytes=[\"json\"])"
    )

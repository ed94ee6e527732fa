"""The original's data sets."""
from __future__ import annotations

import array
import os
import re
import warnings
from typing import Any, Callable, Literal, NamedTuple, NoReturn, Optional, Sequence, Tuple, Union

from .._dataset import Dataset as _Dataset
from .._modules import users_line
from ..utils.file import Sample, Track, split_of

_Place = Union[None, str, "os.PathLike[str]"]
_Label = Union[str, Track]
_SPLITS = {"train": ("train",), "val": ("validation", "val", "valid"), "test": ("test",)}  # names of tracks
_NAMES = re.compile(r"(?:.*/)?(?:ILSVRC20\d\d_(?P<split>train|val|test)_|n\d{8}_)\d+", re.DOTALL)


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
    track     the label of the track of pictures, or a Track where archive is None. "bzna_input_train" and the like are
              tracks of a split, whose samples alone are taken

    Items have an input, a benzina.utils.file.Sample. A subclass may have items of its own, with a target or aux beside
    it: a tuple of what a DataLoader delivers besides the pictures."""

    input_label = "bzna_thumb"

    def __init__(self, archive: Union[_Place, Track] = None, track: _Label = "bzna_input") -> None:
        path, (label,) = _labels(archive, [track], "archive")
        self._open(path, label)

    def _open(self, path: str, label: str = "bzna_input", **settings: Any) -> None:
        if not os.path.exists(path):
            raise ValueError("The archive %s is not present." % path)
        split = split_of(label)[1]
        if split is not None:
            settings["split"] = split
        self._filename, self._track, self._settings = path, Track(path, label), settings
        self.data = _Dataset(path, **settings)  # benzina's own
        self._places: Optional[Sequence[int]] = None       # the numbers of its samples in the track; None: all
        tracks = {track.name: track.sample_count for track in self.data.tracks if track.name.startswith("bzna_")}
        if tracks and tracks.get(label) != len(self.data):
            raise ValueError("%s: no track of its pictures is %r: %s" % (path, label, ", ".join(tracks)))

    @property
    def filename(self) -> str:
        return self._filename

    def data_at(self, path: _Place) -> _Dataset:
        """The same samples of a copy of the archive."""
        whole = _Dataset(_path_of(path, "path"), **self._settings)
        mine = _Dataset(self._filename, **self._settings)

        def looks(data: _Dataset) -> Any:
            ends = [(data[i].offset, data[i].size) for i in (0, -1)] if len(data) else []
            return len(data), data.info.size_bytes, ends
        if looks(whole) != looks(mine):
            raise ValueError("path: %s is no copy of %s, of which the data set is" % (path, self._filename))
        return self._chosen(whole)

    def _chosen(self, data: _Dataset) -> _Dataset:
        """Those of self._places."""
        places = self._places
        if places is None:
            return data
        return data[places[0]:places[-1] + 1] if isinstance(places, range) else data[places]

    def picture(self) -> Optional[str]:
        """Which picture of its samples a DataLoader takes. None: the usual one."""
        if split_of(self._track.label)[0] != "bzna_input":
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
        index %= len(self)
        return Sample(self._track, index if self._places is None else self._places[index])

    def __getitem__(self, index: int) -> Any:
        return _Item(self._sample(index))

    def __add__(self, other: Any) -> NoReturn:
        raise NotImplementedError(
            "two of the original's data sets have no sum: benzina.Dataset(a) + benzina.Dataset(b) does"
        )


class ClassificationDataset(Dataset):
    """Pictures and their targets.

    archive       its path, or a pair of Tracks
    tracks        the labels of the tracks of pictures and of targets, of the same split, or a pair of Tracks where
                  archive is None
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
        self.input_label = input_label
        split, target = split_of(labels[0])[1], labels[1]
        if split is not None and target.endswith("_" + split):
            target = target[:-len(split) - 1]
        elif split != split_of(target)[1]:
            raise ValueError("tracks: %r and %r are not of the same samples" % labels)
        if target != "bzna_target":
            settings["target"] = target
        self._open(path, labels[0], **settings)

    def __getitem__(self, index: int) -> Any:
        return _ClassItem(self._sample(index), self.input_label, (self.data.target(index),))

    def has_plain_targets(self) -> bool:
        return type(self).__getitem__ is ClassificationDataset.__getitem__

    @property
    def targets(self) -> Any:
        """int64 of each sample, -1 if it has none: a numpy array if numpy is installed."""
        return self.data.targets


class ImageNet(ClassificationDataset):
    """ImageNet.

    root          an archive, or a folder with ilsvrc2012.bzna or ilsvrc2012.mp4 in it, or one with a folder for each
                  split, as torchvision has it, or a pair of Tracks
    split         "train", "val", "test", or None: all. The archive's own tracks of splits say what is in it. Without
                  them, the names of its samples do (n01440764_10026, ILSVRC2012_val_00000001), and without such names
                  their places: the last LEN_TEST samples are for tests, the LEN_VALID before these for validation. A
                  warning says that only places were known
    tracks, input_label
                  as of a ClassificationDataset"""

    LEN_VALID = 50000
    LEN_TEST = 100000

    def __init__(
        self,
        root: Union[_Place, Sequence[Track]] = None,
        split: Optional[Literal["train", "val", "test"]] = None,
        tracks: Sequence[_Label] = ("bzna_input", "bzna_target"),
        input_label: str = "bzna_thumb",
    ) -> None:
        if split not in (None, *_SPLITS):
            raise ValueError("split option must be one of test, train, val")
        path, labels = _labels(root, tracks, "root")
        path, split = self._found(path, split)
        if split is not None and split_of(labels[0])[1] is not None:
            raise ValueError("split: %r is of a split already" % labels[0])
        self._open_pair(path, labels, input_label)
        if split is None:
            return
        names = {track.name for track in self.data.tracks}
        for suffix in _SPLITS[split]:
            if "bzna_input_" + suffix in names:
                self._open_pair(path, ("bzna_input_" + suffix, labels[1] + "_" + suffix), input_label)
                return
        places = self._named(split)
        self._places = self._at(split) if places is None else places
        self.data = self._chosen(self.data)

    @staticmethod
    def _found(root: str, split: Optional[str]) -> Tuple[str, Any]:
        """The path to open, and the split to look for in it."""
        if not os.path.isdir(root):
            return root, split
        for name in ("ilsvrc2012.bzna", "ilsvrc2012.mp4"):
            if os.path.isfile(os.path.join(root, name)):
                return os.path.join(root, name), split
        if split is not None and os.path.isdir(os.path.join(root, split)):
            return os.path.join(root, split), None
        raise ValueError("The archive ilsvrc2012.[mp4|bzna] is not present in root %s." % root)

    def _named(self, split: str) -> Optional[Sequence[int]]:
        """The numbers of the samples whose names are those of a split, or None where not all names say one."""
        places = array.array("q")
        for i, name in enumerate(self.data._each_filename()):
            found = _NAMES.match(name or "")
            if found is None:
                return None
            if (found["split"] or "train") == split:
                places.append(i)
        if not places:
            raise ValueError("split: no sample of %s has a name of %r" % (self._filename, split))
        whole = range(places[0], places[-1] + 1)
        return whole if len(whole) == len(places) else places

    def _at(self, split: str) -> Sequence[int]:
        """By position."""
        count, trained = len(self.data), len(self.data) - self.LEN_VALID - self.LEN_TEST
        if trained <= 0:
            raise ValueError(
                "split: %s has no tracks of splits, and its %d samples are not more than the %d of validation and tests"
                % (self._filename, count, self.LEN_VALID + self.LEN_TEST)
            )
        places = {
            "train": range(trained),
            "val": range(trained, trained + self.LEN_VALID),
            "test": range(trained + self.LEN_VALID, count),
        }[split]
        warnings.warn(
            "split: %s has neither tracks of splits nor ImageNet's names: %r is taken to be samples %d to %d of %d. If "
            "the archive lacks some of ImageNet's, other samples are among them"
            % (self._filename, split, places[0], places[-1], count), stacklevel=users_line()
        )
        return places


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

"""Tracks of archives and other mp4 files, by the original's names.

    >>> from benzina.utils.file import Track
    >>> with Track("train.bzna", "bzna_target") as track:
    ...     len(track), track[1].value
    (6, b'%\\x00\\x00\\x00\\x00\\x00\\x00\\x00')
"""
from __future__ import annotations

import os
from typing import Any, Dict, Iterator, List, Optional, Tuple, Union, overload

from .._dataset import Dataset
from .._dataset import Sample as _Sample

_FIELDS = {"bzna_target": "target", "bzna_fname": "name"}


def split_of(label: str) -> Tuple[str, Optional[str]]:
    """The label of the whole archive's track, and the split: "bzna_input_train" is ("bzna_input", "train"). The split
    is None for any other label."""
    for base in ("bzna_input", *_FIELDS):
        if label.startswith(base + "_"):
            return base, label[len(base) + 1:]
    return label, None


class File:
    """An archive, or another mp4, by its path; or a sample of an archive, which is an mp4 of its own, by the offset at
    which it begins: Sample.as_file() has that. Tracks of such a File have one sample."""

    def __init__(self, disk_file: Union[str, "os.PathLike[str]"], offset: int = 0) -> None:
        if not isinstance(disk_file, (str, os.PathLike)):
            raise TypeError("disk_file: a path is needed, not %r: benzina.Dataset reads open files" % (disk_file,))
        self._path, self._offset = os.fspath(disk_file), offset
        self._file: Any = None
        self._data: Dict[Optional[str], Dataset] = {}
        self._inner: Optional[_Sample] = None

    def __enter__(self) -> File:
        self.open()
        return self

    def __exit__(self, *of_exception: Any) -> None:
        self.close()

    @property
    def path(self) -> str:
        return self._path

    @property
    def name(self) -> str:
        return self._path

    @property
    def offset(self) -> int:
        return self._offset

    @property
    def closed(self) -> bool:
        return self._file is None

    def open(self) -> None:
        if self._file is None:
            self._file = open(self._path, "rb")

    def close(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    def seek(self, offset: int) -> None:
        self.open()
        self._file.seek(offset)

    def read(self, size: int) -> bytes:
        self.open()
        return bytes(self._file.read(size))

    def dataset(self, split: Optional[str] = None) -> Dataset:
        """The file, or a split of it, as a Dataset, which is opened once."""
        if split not in self._data:
            self._data[split] = Dataset(self._path, split=split)  # type: ignore[arg-type]  # whoever named its tracks
        return self._data[split]

    def sample(self) -> _Sample:
        """The sample that this is, of a File inside of an archive."""
        if self._inner is None:
            self._inner = next((one for one in self.dataset() if one.offset == self._offset), None)
        if self._inner is None:
            raise ValueError("%s: no sample begins at byte %d" % (self._path, self._offset))
        return self._inner

    def labels(self) -> Dict[str, int]:
        """Its tracks, and how many samples they have."""
        if not self._offset:
            return {track.name: track.sample_count for track in self.dataset().tracks}
        one = self.sample()
        more = [label for label, there in (("bzna_fname", one.filename), ("bzna_target", one.target != -1)) if there]
        return dict.fromkeys([*one.images, *more], 1)

    def trak(self, label: Union[str, bytes]) -> Optional[Track]:
        """Its track of a label, or None if it has none."""
        track = Track(self, label)
        return track if track.label in self.labels() else None

    def subfile(self, offset: int, sample: Optional[_Sample] = None) -> File:
        """The sample that begins there, as a file."""
        if self._offset:
            raise ValueError("File.subfile: %s at byte %d is a sample already" % (self._path, self._offset))
        inner = File(self._path, offset)
        inner._data, inner._inner = self._data, sample
        return inner


class Track:
    """A track of a file, by its label: a sequence of Samples. file: a path, or a File."""

    def __init__(self, file: Union[str, "os.PathLike[str]", File], label: Union[str, bytes]) -> None:
        self._file = file if isinstance(file, File) else File(file)
        self._label = (label.decode() if isinstance(label, bytes) else label).rstrip("\0")
        self._base, self._split = split_of(self._label)
        self._len: Optional[int] = None

    def open(self) -> None:
        if self._len is None:
            tracks = self._file.labels()
            if self._label not in tracks:
                raise ValueError(
                    "%s: there is no track %r among %s" % (self._file.path, self._label, ", ".join(tracks))
                )
            self._len = tracks[self._label]

    def close(self) -> None:
        self._file.close()

    def __enter__(self) -> Track:
        self.open()
        return self

    def __exit__(self, *of_exception: Any) -> None:
        self.close()

    def __repr__(self) -> str:
        return "Track(%r, %r)" % (self._file.path, self._label)

    def __len__(self) -> int:
        self.open()
        assert self._len is not None
        return self._len

    @overload
    def __getitem__(self, index: int) -> Sample: ...

    @overload
    def __getitem__(self, index: slice) -> List[Sample]: ...

    def __getitem__(self, index: Union[int, slice]) -> Union[Sample, List[Sample]]:
        if isinstance(index, slice):
            return [Sample(self, i) for i in range(*index.indices(len(self)))]
        if not -len(self) <= index < len(self):
            raise IndexError("sample %d of %d" % (index, len(self)))
        return Sample(self, index % len(self))

    def __iter__(self) -> Iterator[Sample]:
        return (self[i] for i in range(len(self)))

    @property
    def file(self) -> File:
        return self._file

    @property
    def label(self) -> str:
        return self._label

    @property
    def shape(self) -> Tuple[int, int]:
        """(width, height) of its first picture."""
        sample = self._sample(0)
        info = sample.image_info(self._picture(sample, "shape"))
        return info.width, info.height

    def _sample(self, index: int) -> _Sample:
        self.open()
        if self._file.offset:
            return self._file.sample()
        return self._file.dataset(self._split)[index]

    def _picture(self, sample: _Sample, what: str) -> str:
        """The label that samples have it under, if it is that of pictures."""
        if self._base not in sample.images:
            raise NotImplementedError("Track.%s: %s has no pictures; value has what it holds" % (what, self._label))
        return self._base

    def sample_location(self, index: int) -> Tuple[int, int]:
        """(offset, size) of a sample's bytes in the file, of tracks of pictures."""
        sample = self._sample(index)
        if self._picture(sample, "sample_location") == "bzna_input" and not self._file.offset:
            return sample.offset, sample.size
        info = sample.image_info(self._base)
        return info.data_offset, info.data_size

    def sample_bytes(self, index: int) -> bytes:
        """What the file has: of "bzna_target", the eight bytes of a number."""
        sample = self._sample(index)
        if self._base in sample.images:
            offset, size = self.sample_location(index)
            self._file.seek(offset)
            return self._file.read(size)
        value = sample.fields[_FIELDS.get(self._base, self._base)]
        if isinstance(value, int):
            return value.to_bytes(8, "little", signed=True)
        return value.encode("utf-8", "surrogateescape") if isinstance(value, str) else bytes(value or b"")

    def sample_as_file(self, index: int) -> File:
        """A sample of bzna_input as the file that it is."""
        sample = self._sample(index)
        if self._base != "bzna_input":
            raise ValueError("Track.sample_as_file: samples of %s are no files" % self._label)
        return self._file.subfile(sample.offset, sample)

    def video_configuration_location(self) -> Tuple[int, int]:
        """(offset, size) of the decoder's configuration in the file, of the first picture."""
        sample = self._sample(0)
        info = sample.image_info(self._picture(sample, "video_configuration_location"))
        return info.config_offset, info.config_size


class Sample:
    """A sample of a Track."""

    def __init__(self, track: Track, index: int) -> None:
        self._track, self._index = track, index

    def __repr__(self) -> str:
        return "Sample(%r, %d)" % (self._track, self._index)

    def __bytes__(self) -> bytes:
        return self._track.sample_bytes(self._index)

    @property
    def value(self) -> bytes:
        return bytes(self)

    @property
    def location(self) -> Tuple[int, int]:
        return self._track.sample_location(self._index)

    def as_file(self) -> File:
        return self._track.sample_as_file(self._index)

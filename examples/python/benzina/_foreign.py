"""Data sets of torch's and torchvision's own classes, of which the library can read the files by itself."""
from __future__ import annotations

import os
import sys
from typing import Any, Dict, Iterator, List, Optional, Tuple

_METHODS = ("__getitem__", "__getitems__", "__len__")


def is_plain(thing: Any, module: str, name: str) -> bool:
    """Whether thing is of a class of a module, and what it has at an index is what that class says: a subclass may have
    other attributes, but no other samples."""
    kind = getattr(sys.modules.get(module), name, None)         # of what was never imported, there is no object
    return (
        isinstance(kind, type)
        and isinstance(thing, kind)
        and all(getattr(type(thing), method, None) is getattr(kind, method, None) for method in _METHODS)
        and "__getitems__" not in vars(thing)
    )


def is_folder(thing: Any) -> bool:
    """Whether thing is a DatasetFolder that gives the pictures of its files."""
    if not is_plain(thing, "torchvision.datasets", "DatasetFolder"):
        return False
    module = sys.modules.get("torchvision.datasets.folder")
    return any(thing.loader is getattr(module, name, thing) for name in ("default_loader", "pil_loader"))


def _classes_below(root: str, samples: List[Tuple[str, int]], classes: Any) -> Optional[List[str]]:
    """The names of the folders in root that are classes 0, 1, ... of the samples; None if they are not. classes: what
    the data set calls them, by which classes without samples are found."""
    names: Dict[int, str] = {}
    for path, target in samples:
        name, slash, _ = os.path.relpath(path, root).replace(os.sep, "/").partition("/")
        if not slash or name == ".." or names.setdefault(target, name) != name:
            return None
    for number, name in enumerate(classes):
        if number not in names and isinstance(name, str) and os.path.isdir(os.path.join(root, name)):
            names[number] = name
    found = [names.get(number) for number in range(len(names))]
    return None if None in found or len(set(found)) != len(found) else found        # type: ignore[return-value]


def class_folders(folder: Any) -> Iterator[Tuple[str, List[str]]]:
    """(root, names of the classes' folders in it), as the samples of a DatasetFolder have them. Its own root is another
    in subclasses as ImageNet, whose classes are no names of folders, either."""
    samples = [(os.fspath(path), target) for path, target in folder.samples]
    if samples and all(type(target) is int and isinstance(path, str) for path, target in samples):
        top = os.path.commonpath([os.path.dirname(os.path.abspath(path)) for path, _ in samples])
        for root in dict.fromkeys((os.path.abspath(folder.root), top, os.path.dirname(top))):
            classes = _classes_below(root, samples, getattr(folder, "classes", ()))
            if classes is not None:
                yield root, classes

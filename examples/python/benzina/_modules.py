"""Other packages, where they are installed; and the log."""
from __future__ import annotations

import logging
import os
import sys
from typing import Any

log = logging.getLogger("benzina")


def installed(name: str) -> Any:
    """The module, or None."""
    try:
        return __import__(name)
    except (ImportError, OSError):              # OSError: it is there, and what it needs is not
        return None


def users_line() -> int:
    """The stacklevel by which warnings.warn, from the function that asks, points at the program's own line."""
    level, frame, package = 1, sys._getframe(1), os.path.dirname(__file__) + os.sep
    while frame.f_code.co_filename.startswith(package) and frame.f_back is not None:
        level, frame = level + 1, frame.f_back
    return level


def torch_with_cuda() -> bool:
    torch = installed("torch")
    return torch is not None and bool(torch.cuda.is_available())


def process_group() -> Any:
    """torch.distributed, if that is initialized; else None."""
    torch = sys.modules.get("torch")
    distributed = getattr(torch, "distributed", None)
    if distributed is None or not distributed.is_available() or not distributed.is_initialized():
        return None
    return distributed

"""The original's module of files and tracks."""
from . import file
from .file import File, Track

__all__ = ["File", "Track", "file"]

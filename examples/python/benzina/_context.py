"""Context: devices, limits and the log."""
from __future__ import annotations

import ctypes
import logging
import os
import re
import threading
from typing import Any, Callable, Iterable, Optional

from . import _arguments as arg
from . import _c, _handles
from ._c import lib
from ._errors import check, in_python, told
from ._keywords import CONTEXT
from ._modules import log
from ._types import Device


# in the order of BZNA_ALLOW_...
_CODECS = ("h264", "h265", "av1", "jpeg", "png", "webp")


def _allow(config, names):
    """Sets the codecs of a context to those of some names; None stands for all."""
    formats = _c.formats_codecs()
    chosen = [codec for name, codec in formats if names is None or name in names]
    known = [*_CODECS, *(name for name, _ in formats)]
    for name in names or ():
        if name not in known:
            raise ValueError("codecs: %r is none of %s" % (name, ", ".join(known)))
    if names is not None:
        if not names:
            raise ValueError("codecs: at least one is needed; None stands for all")
        config.codecs = sum(1 << _CODECS.index(name) for name in set(names) & set(_CODECS))
        config.codecs |= _c.ALLOW_OWN if chosen else 0
    array = (_c.structs.codec * len(chosen))(*chosen)       # copied when the context is opened
    config.own_codecs.ptr, config.own_codecs.count = ctypes.addressof(array) if chosen else None, len(chosen)
    return array


class Context(_handles.Handled):
    """Log, limits and device, shared by all objects that are made with it.

    device           None (a GPU if there is one), "cpu", "cuda", "cuda:0", a CUDA device's number, or (kind, ordinal)
                     by DLPack's numbers, as __dlpack_device__() gives
    log              a callable (level, status, message), called on the thread that calls the library, until this is
                     closed; None: the logger "benzina" of Python's logging
    log_level        LOG_ERROR, LOG_WARNING, LOG_INFO or LOG_DEBUG: the most verbose level that is logged
    max_sample_bytes, max_edge_px
                     larger samples and frames are refused; 0: the library's limits
    codecs           the codecs that may be decoded, by name; None: all. For files from strangers: "h264", "h265",
                     "av1", "jpeg", "png", "webp", and of libbenzina_formats "heif", "gif", "bmp", "pnm", "tiff",
                     "jpeg2000", "jpegxl"
    sessions, decode_memory_bytes
                     of the GPU's decoders
    no_threads       True: no call with this context starts a thread, as DataLoader(no_threads=True) in all of its
                     loaders
    cuda_context     the address of a CUcontext to work in, instead of the device's primary context

    >>> context = benzina.Context("cpu", max_edge_px=20000)
    >>> benzina.Dataset("train.bzna", context=context)
    <benzina.Dataset: archive, 8 samples>
    """

    _gone = "the context is closed"
    _shared = False

    def __init__(
        self,
        device: Device = None,
        log: Optional[Callable[[int, int, str], Any]] = None,
        log_level: int = _c.LOG_WARNING,
        max_sample_bytes: int = 0,
        max_edge_px: int = 0,
        sessions: int = 0,
        decode_memory_bytes: int = 0,
        cuda_context: Optional[int] = None,
        no_threads: bool = False,
        codecs: Optional[Iterable[str]] = None,
    ) -> None:
        _handles.dispose_put_off()
        config = _c.new("context_config")
        self._device = config.device.kind, config.device.ordinal = _device_of(device)
        given = locals()
        for name in CONTEXT:                    # arguments that are one setting each
            arg.put(config, name, given[name])
        codecs = None if codecs is None else tuple(codecs)
        own_codecs = _allow(config, codecs)     # lives until the context is open
        config.cuda_context = (
            None if cuda_context is None else arg.number("cuda_context", cuda_context, ctypes.c_size_t)
        )
        key = None
        config.log = _logging_thunk
        if log is not None:
            _handles.check_callback("log", log, "level, status, message")
            key = _handles.register(log)
            config.log, config.log_user = _log_thunk, key
        handle, err = ctypes.c_void_p(), _c.new("error")
        status = lib.bzna_context_open(config, handle, err)
        del own_codecs
        if status < 0:
            _handles.registry.pop(key, None)
        check(status, err)
        self._handle = handle.value
        self._close = _handles.owned(self, lib.bzna_context_close, self._handle, key)
        self._settings = (self._device, log, log_level, max_sample_bytes, max_edge_px,
                          sessions, decode_memory_bytes, None, no_threads, codecs)
        self._cuda_context = cuda_context

    def __repr__(self) -> str:
        kind, ordinal = self._device
        device = {_c.DEVICE_AUTO: "any device", _c.DEVICE_CPU: "cpu"}.get(kind, "cuda:%d" % ordinal)
        return "<benzina.Context: %s>" % ("closed" if self._handle is None else device)

    def __reduce__(self) -> Any:
        """Another one with the same settings."""
        if self._shared:
            return _shared_context, (self._device,)
        if self._cuda_context:
            raise TypeError("a Context with a cuda_context can be neither pickled nor copied: it is this process's")
        return type(self), self._settings

    @property
    def device(self) -> Any:
        """A structs.device_info; an Error that says why the processor works instead, if there is none."""
        return told("device_info", lib.bzna_context_device_info, self.handle)

    def codec(self, codec: int, chroma_format: int = 1, depth: int = 8) -> Any:
        """A structs.codec_info: NVDEC's abilities with _c.CODEC_H264 and so on. chroma_format: 0 gray, 1 4:2:0, 2
        4:2:2, 3 4:4:4."""
        numbers = [
            arg.number(name, value, ctypes.c_uint32)
            for name, value in (("codec", codec), ("chroma_format", chroma_format), ("depth", depth))
        ]
        return told("codec_info", lib.bzna_context_codec_info, self.handle, *numbers)


def device_count() -> int:
    """CUDA devices of this machine; an Error if there is no driver, or the library was built without a GPU path."""
    count: int = told("device_info", lib.bzna_context_device_info, None).device_count
    return count


def _device_of(device: Any) -> Any:
    """(kind, ordinal)"""
    found = re.fullmatch(r"(cpu)|cuda|(?:cuda:)?(\d+)", str(device))
    if device is None:
        pair = _c.DEVICE_AUTO, 0
    elif isinstance(device, (tuple, list)) and len(device) == 2:
        pair = tuple(arg.number("device", number, ctypes.c_int32) for number in device)
    elif found:
        pair = (_c.DEVICE_CPU, 0) if found[1] else (_c.DEVICE_CUDA, int(found[2] or 0))
    else:
        pair = None
    if pair is None or pair[0] not in (_c.DEVICE_AUTO, _c.DEVICE_CPU, _c.DEVICE_CUDA) or not 0 <= pair[1] < 2**31:
        raise ValueError("device: %r is neither None, 'cpu', 'cuda', 'cuda:N', a number nor (kind, ordinal)" %
                         (device,))
    return pair


_LEVELS = {
    _c.LOG_ERROR: logging.ERROR,
    _c.LOG_WARNING: logging.WARNING,
    _c.LOG_INFO: logging.INFO,
    _c.LOG_DEBUG: logging.DEBUG,
}


class Told(threading.local):
    """What the log was told of the loader whose next batch this thread asked for last."""

    texts: Any = None                           # a set; None: nobody has asked


told_of_loader = Told()
_MOST_TEXTS = 10000
_RAISED = re.compile(r"(the (transform|picture) callback|the rule \".*\") returned -\d+")


@_c.callback("log_fn")
def _logging_thunk(user, level, code, message):
    """A sample that fails is told once, though it may come again in the epochs that are read ahead. What a loader's
    callback raised is raised there, or is in Batch.errors()."""
    text, texts = in_python(message.decode("utf-8", "replace")), told_of_loader.texts
    if code < 0 and _RAISED.search(text):
        return
    if code < 0 and texts is not None:
        if text in texts:
            return
        if len(texts) < _MOST_TEXTS:
            texts.add(text)
    log.log(_LEVELS.get(level, logging.WARNING), "%s", text)


@_c.callback("log_fn")
def _log_thunk(user, level, code, message):
    told_to = _handles.registry.get(user)
    if told_to is not None:
        told_to(level, code, in_python(message.decode("utf-8", "replace")))


_shared_contexts: Any = {}                           # of each device: the context, and the process that it is of
_shared_contexts_lock = threading.Lock()


def _shared_context(device: Any = (_c.DEVICE_AUTO, 0)) -> Context:
    with _shared_contexts_lock:
        context, process = _shared_contexts.get(device, (None, None))
        if process != os.getpid():
            context = Context(device)
            context._shared = True
            _shared_contexts[device] = context, os.getpid()
        return context

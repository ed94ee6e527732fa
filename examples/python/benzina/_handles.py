"""Objects of the library: how they are closed, and what callbacks find by a number."""
from __future__ import annotations

import collections
import inspect
import itertools
import os
import threading
import weakref
from typing import Any, Deque, Dict, List, TypeVar

from ._c import Status
from ._errors import Error


# What callbacks find by their user pointer, a number. A callback that comes too late finds nothing, instead of freed
# memory. Loaders own their hooks, and are found weakly: what a callback refers to, or its exception's traceback, may
# be the loader.
registry: Dict[Any, Any] = {}
_registry_keys = itertools.count(1)


def register(thing: Any) -> int:
    key = next(_registry_keys)
    registry[key] = thing
    return key


# The garbage collector may run inside a callback, on a thread of the library's, where nothing can be closed: closing is
# put off.
put_off: Deque[Any] = collections.deque()


# An interrupt from the keyboard is raised behind a call of the library's. In a finalizer nobody would hear of it: it is
# put off, too.
_interrupts: List[BaseException] = []


def undisturbed(call: Any, argument: Any) -> Any:
    """What a finalizer calls."""
    try:
        return call(argument)
    except KeyboardInterrupt as interrupt:      # whose traceback would keep the frames that the finalizer ran in
        _interrupts.append(KeyboardInterrupt(*interrupt.args))
        return None


def _dispose(close, handle, process, key=None):
    if os.getpid() != process:                 # after fork, a child must not touch its parent's objects
        return
    if undisturbed(close, handle) == Status.E_STATE:
        put_off.append((close, handle, process, key))
    elif key is not None:
        registry.pop(key, None)


def raise_put_off() -> None:
    if _interrupts and threading.current_thread() is threading.main_thread():
        raise _interrupts.pop()


def dispose_put_off() -> None:
    raise_put_off()
    for _ in range(len(put_off)):
        try:
            _dispose(*put_off.popleft())
        except IndexError:                      # another thread was faster
            return


def owned(owner: Any, close: Any, handle: Any, key: Any = None) -> Any:
    """Closes handle once: when the owner says so, when it is collected, or before the interpreter ends; the latest made
    goes first."""
    return weakref.finalize(owner, _dispose, close, handle, os.getpid(), key)


_Self = TypeVar("_Self", bound="Handled")


class Handled:
    """What holds a handle of the library's until its close(), or the end of a with block."""

    _gone = "it is closed"
    _handle: Any = None
    _close: Any

    @property
    def handle(self) -> Any:
        """The library's pointer, for functions of lib."""
        if self._handle is None:
            raise Error(Status.E_STATE, self._gone)
        return self._handle

    def close(self) -> None:
        """Lets go; what was made with it stays usable."""
        self._handle = None
        self._close()
        raise_put_off()

    def __enter__(self: _Self) -> _Self:
        return self

    def __exit__(self, *_: Any) -> None:
        self.close()


def uncopied(advice: str) -> Any:
    """A __reduce__ for what holds a handle that only this process, and only one object, may hold."""
    def __reduce__(self: Any) -> Any:
        raise TypeError("a %s can be neither pickled nor copied: %s" % (type(self).__name__, advice))
    return __reduce__


def check_callback(what: str, given: Any, arguments: str) -> None:
    """Refuses what cannot be called with these arguments, by their names: a slip that would else be one of every
    sample."""
    if not callable(given):
        raise TypeError("%s: %r cannot be called; it must take (%s)" % (what, given, arguments))
    if isinstance(given, type):
        raise TypeError("%s: %s is a class; give an instance of it" % (what, given.__name__))
    package = type(given).__module__.split(".")[0]
    if package in ("torchvision", "albumentations", "kornia"):
        raise TypeError("%s: %s is a transform of %s's, which takes pictures; a callback takes (%s)" %
                        (what, type(given).__name__, package, arguments))
    # a module of torch's takes anything itself
    called = given.forward if hasattr(given, "register_forward_hook") else given
    try:
        signature = inspect.signature(called)
    except (TypeError, ValueError):             # of some that are written in C, nobody knows it
        return
    try:
        signature.bind(*arguments.split(", "))
    except TypeError as error:
        name = getattr(given, "__qualname__", type(given).__name__)
        raise TypeError("%s: %s%s is called with (%s): %s" % (what, name, signature, arguments, error)) from None

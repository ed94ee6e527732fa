"""Reprs and copies of settings."""
from __future__ import annotations

import inspect
from typing import Any, Dict


class Shown:
    """A repr that names the arguments that are not the defaults."""

    def __repr__(self) -> str:
        parameters = inspect.signature(type(self).__init__).parameters
        names = [name for name in parameters if hasattr(self, name)]
        try:
            plain = type(self)()
        except TypeError:                       # there are required arguments
            plain = None
        defaults = {name: getattr(plain, name) if plain is not None else parameters[name].default for name in names}
        shown = ["%s=%r" % (name, getattr(self, name)) for name in names if defaults[name] != getattr(self, name)]
        return "%s(%s)" % (type(self).__name__, ", ".join(shown))


def _made_again(kind: Any, base: Any, arguments: Dict[str, Any]) -> Any:
    made = kind.__new__(kind)
    base.__init__(made, **arguments)
    return made


class Remade:
    """Base of what is shown, copied and pickled by the arguments that it was made of, since what it holds are structs
    of the library's, with pointers."""

    _base: Any = None                           # whose arguments they are
    _arguments: Dict[str, Any]

    def _keep(self, base: Any, arguments: Dict[str, Any]) -> None:
        """arguments: the locals of base's __init__ when it begins."""
        self._base = base
        self._arguments = {
            name: arguments[name] for name in inspect.signature(base.__init__).parameters if name != "self"
        }

    def __repr__(self) -> str:
        parameters = inspect.signature(self._base.__init__).parameters
        shown = []
        for name, value in self._arguments.items():
            text = value.__qualname__ if inspect.isroutine(value) else repr(value)
            if text != repr(parameters[name].default):
                shown.append("%s=%s" % (name, text))
        return "%s(%s)" % (type(self).__name__, ", ".join(shown))

    def __reduce__(self) -> Any:
        return _made_again, (type(self), self._base, self._arguments)

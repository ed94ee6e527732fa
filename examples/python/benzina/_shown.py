"""Reprs of transforms."""
from __future__ import annotations

import inspect


class Shown:
    """A repr that names the arguments that are not the defaults."""

    def __repr__(self) -> str:
        parameters = inspect.signature(type(self).__init__).parameters
        names = [name for name in parameters if hasattr(self, name)]
        try:
            plain = type(self)()
        except TypeError:                       # there are arguments that must be given
            plain = None
        defaults = {name: getattr(plain, name) if plain is not None else parameters[name].default for name in names}
        shown = ["%s=%r" % (name, getattr(self, name)) for name in names if defaults[name] != getattr(self, name)]
        return "%s(%s)" % (type(self).__name__, ", ".join(shown))

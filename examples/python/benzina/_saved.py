"""States of loaders, as state_dict gives them and load_state_dict takes them."""
from __future__ import annotations

from typing import Any, Mapping, Optional


def state_text(state: Optional[bytes]) -> Optional[str]:
    """The bytes of a state as text, which JSON can hold. None is that of a stream without samples."""
    return None if state is None else state.hex()


def state_bytes(state: Any) -> bytes:
    """The bytes of a state, which may be text, or bytes as earlier releases gave them."""
    if isinstance(state, str):
        try:
            return bytes.fromhex(state)
        except ValueError:
            raise ValueError("state: %.40r is neither bytes nor their hexadecimal digits" % state) from None
    if not isinstance(state, (bytes, bytearray, memoryview)):
        raise TypeError("state: %.40r is neither bytes nor their hexadecimal digits" % (state,))
    return bytes(state)


def check_state_dict(state_dict: Mapping[str, Any], *names: str) -> None:
    """Refuses what is not a loader's."""
    absent = [name for name in names if name not in state_dict]
    if absent:
        held = "it is empty" if not state_dict else "it has %s" % ", ".join(map(repr, list(state_dict)[:5]))
        raise ValueError(
            "state_dict: %s, and no %s: give what the state_dict() of a loader gave"
            % (held, ", ".join(map(repr, absent)))
        )

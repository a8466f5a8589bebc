"""What a message carries on the wire."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from permitflow.errors import InvalidParametersError
from permitflow.protocol.frames import Abort, Agreement, Data, End, Failure, Put
from permitflow.transports.carrier import Buffer

__all__ = ["EncodedChunks", "Marker", "WireFrame", "checked_marker", "marker_bytes"]

Marker: TypeAlias = int | float | str | bytes | None
"""What a barrier or watermark carries."""


class EncodedChunks(NamedTuple):
    """Chunks that travel together, as one record batch in bytes."""

    rows: tuple[int, ...]
    """Of each of them."""
    permits: int
    """Those of all of them."""
    arrow: Sequence[Buffer]
    """In pieces; what was read is one."""


WireFrame: TypeAlias = Put | Agreement | Data[Marker] | EncodedChunks | End | Abort | Failure
"""What an upstream writes."""

_LEAST, _MOST = -(2**63), 2**63 - 1
_MOST_BYTES = 1 << 20  # it has to fit among the frames of a message


def checked_marker(value: object, *, name: str) -> Marker:
    """Refuse what a barrier or watermark cannot carry over the wire.

    Raises:
        InvalidParametersError: it is none of these types, or too large for 64 bits or 1 MiB, or no proper text.
    """
    if isinstance(value, str | bytes) and len(value) > _MOST_BYTES // 4 and marker_bytes(value) > _MOST_BYTES:
        rule = f"must take at most {_MOST_BYTES} bytes to travel"
        raise InvalidParametersError(name=name, value=f"{len(value)} of {type(value).__name__}", rule=rule)
    match value:
        case bool():
            pass
        case int() if _LEAST <= value <= _MOST:
            return value
        case str() if not any("\ud800" <= character <= "\udfff" for character in value):
            return value
        case float() | bytes() | None:
            return value
    rule = "must be a whole number of 64 bits, a float, a str, bytes or None to travel"
    raise InvalidParametersError(name=name, value=value, rule=rule)


def marker_bytes(value: object) -> int:
    """How many bytes a text, or bytes, take on the wire; 0 for everything else, which takes few."""
    if isinstance(value, str):
        return len(value.encode(errors="replace"))
    return len(value) if isinstance(value, bytes) else 0

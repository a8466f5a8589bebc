"""What a message carries on the wire."""

from collections.abc import Sequence
from typing import NamedTuple, TypeAlias

from permitflow.errors import InvalidParametersError
from permitflow.protocol.frames import Abort, Agreement, Data, End, Failure, Put
from permitflow.transports.carrier import Buffer

__all__ = ["EncodedChunks", "Marker", "WireFrame", "checked_marker"]

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


def checked_marker(value: object, *, name: str) -> Marker:
    """Refuse what a barrier or watermark cannot carry over the wire.

    Raises:
        InvalidParametersError: it is none of these types, or too large for 64 bits, or no proper text.
    """
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

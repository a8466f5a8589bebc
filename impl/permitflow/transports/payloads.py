"""What a message carries on the wire."""

from typing import TypeAlias

from permitflow.errors import InvalidParametersError

__all__ = ["Marker", "Payload", "checked_marker"]

Marker: TypeAlias = int | float | str | bytes | None
"""What a barrier or watermark carries."""

Payload: TypeAlias = bytes | Marker
"""A chunk's bytes, or what a barrier or watermark carries."""

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

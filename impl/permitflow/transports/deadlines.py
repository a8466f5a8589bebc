"""The longest time in which a peer may say nothing: before it has said what it wants, and afterwards."""

from permitflow.errors import InvalidParametersError

__all__ = ["HANDSHAKE_SECONDS", "SILENCE_SECONDS", "require_seconds"]

HANDSHAKE_SECONDS = 30.0
"""The time, by default, in which a dialler must say what it wants."""
SILENCE_SECONDS = 20.0
"""By default, a peer that gives no sign of life for longer is gone; one with a single thread may compute so long."""
_LEAST_SILENCE_SECONDS = 3.0  # signs come every second or two
_MOST_SECONDS = 86_400.0


def require_seconds(*, handshake_seconds: float = HANDSHAKE_SECONDS, silence_seconds: float = SILENCE_SECONDS) -> None:
    """Refuse what cannot work.

    Raises:
        InvalidParametersError: so short a time is none, or so long a one.
    """
    if not 0 < handshake_seconds <= _MOST_SECONDS:
        rule = f"must be above 0 and at most {_MOST_SECONDS:g}"
        raise InvalidParametersError(name="handshake_seconds", value=handshake_seconds, rule=rule)
    if not _LEAST_SILENCE_SECONDS <= silence_seconds <= _MOST_SECONDS:
        rule = f"must be at least {_LEAST_SILENCE_SECONDS:g} and at most {_MOST_SECONDS:g}"
        raise InvalidParametersError(name="silence_seconds", value=silence_seconds, rule=rule)

"""Deadlines for a silent peer: before its first request, and afterwards."""

from permitflow.errors import InvalidParametersError

HANDSHAKE_SECONDS = 30.0
"""The default deadline for a dialler's first request."""
SILENCE_SECONDS = 20.0
"""By default, a peer is gone after this silence; a peer with a single thread may compute that long."""
_LEAST_SILENCE_SECONDS = 3.0  # signs come every second or two
_MOST_SECONDS = 86_400.0


def require_seconds(*, handshake_seconds: float = HANDSHAKE_SECONDS, silence_seconds: float = SILENCE_SECONDS) -> None:
    """Refuse deadlines that cannot work.

    Raises:
        InvalidParametersError: a deadline is too short or too long.
    """
    if not 0 < handshake_seconds <= _MOST_SECONDS:
        rule = f"must be above 0 and at most {_MOST_SECONDS:g}"
        raise InvalidParametersError(name="handshake_seconds", value=handshake_seconds, rule=rule)
    if not _LEAST_SILENCE_SECONDS <= silence_seconds <= _MOST_SECONDS:
        rule = f"must be at least {_LEAST_SILENCE_SECONDS:g} and at most {_MOST_SECONDS:g}"
        raise InvalidParametersError(name="silence_seconds", value=silence_seconds, rule=rule)

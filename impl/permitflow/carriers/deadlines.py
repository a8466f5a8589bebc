"""Deadlines for a silent peer: before its first request, and afterwards."""

from permitflow.errors import InvalidParametersError

HANDSHAKE_SECONDS = 30.0
"""The default deadline for a dialler's first request."""
SILENCE_SECONDS = 20.0
"""By default, a peer is gone after this silence; a peer with a single thread may compute that long."""
RESUME_SECONDS = 30.0
"""By default, a stream between two hosts waits this long for another connection after it has lost one."""
_LEAST_RESUME_SECONDS = 0.1
_LEAST_SILENCE_SECONDS = 3.0  # signs come every second or two
_MOST_SECONDS = 86_400.0


def require_seconds(
    *,
    handshake_seconds: float = HANDSHAKE_SECONDS,
    silence_seconds: float = SILENCE_SECONDS,
    resume_seconds: float | None = None,
) -> None:
    """Refuse deadlines that cannot work.

    Raises:
        InvalidParametersError: a deadline is not a number, too short or too long.
    """
    for name, value in (
        ("handshake_seconds", handshake_seconds),
        ("silence_seconds", silence_seconds),
        ("resume_seconds", 0 if resume_seconds is None else resume_seconds),
    ):
        if isinstance(value, bool) or not isinstance(value, int | float):
            raise InvalidParametersError(name=name, value=value, rule="must be a number of seconds")
    if not 0 < handshake_seconds <= _MOST_SECONDS:
        rule = f"must be above 0 and at most {_MOST_SECONDS:g}"
        raise InvalidParametersError(name="handshake_seconds", value=handshake_seconds, rule=rule)
    if not _LEAST_SILENCE_SECONDS <= silence_seconds <= _MOST_SECONDS:
        rule = f"must be at least {_LEAST_SILENCE_SECONDS:g} and at most {_MOST_SECONDS:g}"
        raise InvalidParametersError(name="silence_seconds", value=silence_seconds, rule=rule)
    if resume_seconds and not _LEAST_RESUME_SECONDS <= resume_seconds <= _MOST_SECONDS:
        rule = f"must be 0 (never), or at least {_LEAST_RESUME_SECONDS:g} and at most {_MOST_SECONDS:g}"
        raise InvalidParametersError(name="resume_seconds", value=resume_seconds, rule=rule)

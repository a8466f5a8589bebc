"""A recording cannot be written or used; the channel that was recorded is not concerned."""

from permitflow.errors.base import PermitflowError

__all__ = ["TraceError", "TraceMismatchError", "TraceTruncatedError", "TraceUnreadableError", "TraceWriteError"]


class TraceError(PermitflowError):
    """A recorded run cannot be written or used."""


class TraceWriteError(TraceError):
    """The recording stopped; ``__cause__`` is the operating system's own exception.  The channel went on."""

    path: str
    reason: str

    def __init__(self, *, path: str, reason: str) -> None:
        """``reason`` says why, as in "No space left on device"."""
        super().__init__(
            f"the recording in {path} is incomplete: {reason}; the recorded channels were not disturbed",
            path=path,
            reason=reason,
        )


class TraceUnreadableError(TraceError):
    """A trace file is not what it should be."""

    path: str
    line: int

    def __init__(self, *, path: str, line: int, reason: str) -> None:
        """``line`` counts from 1; 0: it is the file as a whole."""
        where = f"{path}, line {line}" if line else path
        super().__init__(f"{where}: {reason}", path=path, line=line, reason=reason)


class TraceTruncatedError(TraceUnreadableError):
    """The last line of a trace file is half written: whoever wrote it was killed, or the disk was full."""


class TraceMismatchError(TraceError):
    """Recordings of one channel do not belong together, or do not begin at its beginning."""

    channel: str

    def __init__(self, *, channel: str, reason: str) -> None:
        """``reason`` names both of the things that do not fit."""
        super().__init__(f"the trace of channel {channel!r}: {reason}", channel=channel, reason=reason)

"""Somebody has broken the rules, and the stream is dead."""

from permitflow.errors.base import PermitflowError

__all__ = [
    "LedgerError",
    "LocalProtocolError",
    "MispricedError",
    "OverspendError",
    "PermitOverrunError",
    "ProtocolError",
    "RemoteProtocolError",
    "UndecodableDataError",
    "UnexpectedFrameError",
    "UnsplittableChunkError",
]


class ProtocolError(PermitflowError):
    """The rules of the protocol were broken; the stream is dead."""


class LocalProtocolError(ProtocolError):
    """This end was used against the rules."""


class UnsplittableChunkError(LocalProtocolError, TypeError):
    """A chunk is too large to be sent whole and offers no way to split it."""

    rows: int
    max_rows: int

    def __init__(self, *, chunk_type: str, rows: int, max_rows: int, reason: str) -> None:
        """``rows`` it has, ``max_rows`` a message may have; ``reason`` is what went wrong when it was sliced."""
        super().__init__(
            f"a {chunk_type} of {rows} rows cannot be split into slices of at most {max_rows}: {reason}; "
            "send smaller chunks, or choose oversize = 'whole'",
            chunk_type=chunk_type,
            rows=rows,
            max_rows=max_rows,
            reason=reason,
        )


class RemoteProtocolError(ProtocolError):
    """The peer broke the rules."""


class PermitOverrunError(RemoteProtocolError):
    """The peer returned more permits than it holds."""

    permit_class: str
    returned: int
    outstanding: int

    def __init__(self, *, permit_class: str, returned: int, outstanding: int) -> None:
        """Both numbers are permits of one class: rows, barriers or watermarks."""
        super().__init__(
            f"the peer returned {returned} {permit_class} permits but holds only {outstanding}",
            permit_class=permit_class,
            returned=returned,
            outstanding=outstanding,
        )


class OverspendError(RemoteProtocolError):
    """The peer sent a message that it had no permits for."""

    permit_class: str
    cost: int
    available: int

    def __init__(self, *, permit_class: str, cost: int, available: int) -> None:
        """Both numbers are permits of one class: rows, barriers or watermarks."""
        super().__init__(
            f"the peer sent a message of {cost} {permit_class} permits but had only {available}",
            permit_class=permit_class,
            cost=cost,
            available=available,
        )


class MispricedError(RemoteProtocolError):
    """The peer sent a message for other permits than it costs, or one that it should have split."""

    kind: str
    rows: int
    permits: int
    cost: int

    def __init__(self, *, kind: str, rows: int, permits: int, cost: int, split: bool = False) -> None:
        """``permits`` is what the message holds, ``cost`` what the agreement says; ``split``: it had to be split."""
        rule = f"on this channel it must be split into chunks of at most {cost} rows" if split else f"it costs {cost}"
        super().__init__(
            f"the peer sent a {kind} of {rows} rows for {permits} permits; {rule}",
            kind=kind,
            rows=rows,
            permits=permits,
            cost=cost,
            split=split,
        )


class UnexpectedFrameError(RemoteProtocolError):
    """The peer sent a frame that this state of the stream does not allow."""

    frame: str
    expected: str

    def __init__(self, *, frame: str, expected: str) -> None:
        """Both are frame names as in the protocol definition."""
        super().__init__(f"the peer sent {frame}, expected {expected}", frame=frame, expected=expected)


class UndecodableDataError(RemoteProtocolError):
    """The peer's data cannot be decoded."""

    def __init__(self, *, what: str, reason: str) -> None:
        """``what`` names the frame or chunk, ``reason`` is the decoder's."""
        super().__init__(f"{what} cannot be decoded: {reason}", what=what, reason=reason)


class LedgerError(RemoteProtocolError):
    """At the end of the stream the two ends' books differ."""

    def __init__(self, *, what: str, here: int, peer: int) -> None:
        """``what`` was counted: the number here, and the number that the peer reported or should hold."""
        super().__init__(f"at the end of the stream {what}: {here} here, {peer} at the peer", what=what)
        self._facts.update(here=here, peer=peer)
        self.here = here
        self.peer = peer

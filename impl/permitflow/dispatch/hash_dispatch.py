"""One upstream, whose rows go to the channel of their key, and whose barriers go to every channel; sans-IO.

    dispatch = HashDispatch(channels=4)
    dispatch.take_chunk(parts)              # by channel: the rows of a chunk whose key belongs there, or None
    dispatch.forwarded(2)                   # channel 2 has its part

One element is taken at a time, and nothing is queued here: the next one is taken when every channel has its part of
this one.  So a slow channel makes the upstream wait, in front of at most one chunk, and each channel's permits are all
that bounds it.  The parts of one element may be forwarded in any order, so that a slow channel does not delay the
others' parts of it.

A channel whose consumer is gone ends the whole stream: behind a gap, no channel's rows would be a result.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Generic, TypeAlias, TypeVar

from permitflow.dispatch.mapping import VNODES, grown, require_channels, spread
from permitflow.errors import LocalProtocolError

T = TypeVar("T")


@dataclass(frozen=True)
class Barrier:
    """A barrier on its way into a channel."""

    payload: object


@dataclass(frozen=True)
class Watermark:
    """A watermark on its way into a channel."""

    value: object


@dataclass(frozen=True)
class End:
    """The end of the stream on its way into a channel."""


ElementPart: TypeAlias = T | Barrier | Watermark | End
"""What a channel gets of an element."""


class HashDispatch(Generic[T]):
    """Takes an element, and remembers which channels still lack their part of it.

    A step that is not possible raises LocalProtocolError and changes nothing.
    """

    def __init__(self, channels: int, vnodes: int = VNODES) -> None:
        """Nothing is taken yet.

        Raises:
            InvalidParametersError: there is no channel, or there are more channels than virtual nodes.
        """
        self.owners = spread(channels, vnodes)
        """The channel of each virtual node."""
        self.pending: list[ElementPart[T] | None] = [None] * channels
        """Each channel's part of the taken element; None: it has its part, or there is none for it."""
        self.is_over = False
        """Was the end taken?"""
        self.lost: int | None = None
        """The channel whose consumer is gone."""

    @property
    def channels(self) -> int:
        """How many there are; they are numbered from 0."""
        return len(self.pending)

    @property
    def can_take(self) -> bool:
        """May an element be taken?  The one before must be in all its channels."""
        return self.lost is None and not self.is_over and all(part is None for part in self.pending)

    def can_forward(self, channel: int) -> bool:
        """Does this channel lack a part?"""
        return self.lost is None and 0 <= channel < self.channels and self.pending[channel] is not None

    def take_chunk(self, parts: Sequence[T | None]) -> None:
        """Take a chunk.

        Args:
            parts: its rows by channel, each row with the owner of its key's virtual node, in the chunk's order; None
                for a channel that gets none.

        Spec: TakeChunk of HashDispatch.
        """
        self._require_takeable()
        if len(parts) != self.channels:
            raise LocalProtocolError(f"a chunk in {len(parts)} parts is for other channels: there are {self.channels}")
        self.pending[:] = parts

    def take_barrier(self, payload: object, channels: int | None = None) -> None:
        """Take a barrier, for every channel.

        Args:
            payload: of the barrier.
            channels: from here on there are this many; a new one begins with this barrier, and the rows behind it are
                spread over all of them.  None: as many as before.

        Raises:
            InvalidParametersError: there would be fewer channels than before, or more than virtual nodes.

        Spec: TakeBarrier of HashDispatch.
        """
        self._require_takeable()
        count = self.channels if channels is None else channels
        require_channels(count, len(self.owners), least=self.channels)
        self.owners = grown(self.owners, count)
        self.pending = [Barrier(payload) for _ in range(count)]

    def take_watermark(self, value: object) -> None:
        """Take a watermark, for every channel.

        Spec: TakeWatermark of HashDispatch.
        """
        self._require_takeable()
        self.pending[:] = [Watermark(value) for _ in self.pending]

    def take_end(self) -> None:
        """Take the end of the stream, for every channel.

        Spec: TakeEnd of HashDispatch.
        """
        self._require_takeable()
        self.pending[:] = [End() for _ in self.pending]
        self.is_over = True

    def forwarded(self, channel: int) -> None:
        """A channel has taken its part.

        Spec: Forward of HashDispatch.
        """
        if not self.can_forward(channel):
            raise LocalProtocolError(f"channel {channel} lacks nothing")
        self.pending[channel] = None

    def lose(self, channel: int) -> None:
        """A channel's consumer is gone: nothing is taken or forwarded any more.

        Spec: Lose of HashDispatch.
        """
        if self.lost is not None or not 0 <= channel < self.channels:
            raise LocalProtocolError(f"channel {channel} cannot be lost: there is no such one, or one was lost before")
        self.lost = channel
        self.pending[:] = [None] * self.channels

    def _require_takeable(self) -> None:
        if self.can_take:
            return
        if self.lost is not None:
            reason = f"channel {self.lost} is lost"
        elif waiting := [channel for channel, part in enumerate(self.pending) if part is not None]:
            reason = f"channels {waiting} lack their part of the element before"
        else:
            reason = "the stream was ended"
        raise LocalProtocolError(f"nothing can be taken: {reason}")

"""The streams of a channel: what statistics remember of them, and what each kind of channel does with them."""

from collections import deque
from typing import Protocol

import pyarrow as pa

from permitflow.exchange.statistics import Direction, StreamStatistics
from permitflow.protocol.frames import Abort, Get, Put
from permitflow.transports.remote_receiver import RemoteReceiver
from permitflow.transports.remote_sender import RemoteSender

__all__ = ["ConsumerStream", "ProducerStream", "Stream", "Streams"]

# Enough to look at; a channel may see thousands of short-lived producers.
_KEPT_STREAMS = 64


class ProducerStream(Protocol):
    """A producer that has dialled, and the channel that it has named."""

    async def serve(self, put: Put, schema: pa.Schema) -> None:
        """Agree, and take in what comes, to the end.

        Raises:
            PermitflowError: what the producer must be told.
        """
        ...

    async def give_up(self, abort: Abort) -> None:
        """The producer has given up; called as soon as it has, also while a message of it waits."""
        ...

    def fail(self, reason: str) -> None:
        """The stream has failed; called before ``leave``."""
        ...

    def leave(self) -> None:
        """The stream is over."""
        ...


class ConsumerStream(Protocol):
    """A consumer that has dialled, and the channel that it has named."""

    async def serve(self, get: Get) -> None:
        """Agree, and send what is wanted, to the end.

        Raises:
            PermitflowError: what the consumer must be told.
        """
        ...

    def fail(self, reason: str) -> None:
        """The stream has failed; called before ``leave``."""
        ...

    def leave(self) -> None:
        """The stream is over."""
        ...


class Stream:
    """One producer's or consumer's stream, as statistics remember it."""

    def __init__(self, name: str, peer: str, direction: Direction, end: RemoteReceiver | RemoteSender) -> None:
        """``peer`` is an address, ``end`` this end of the stream."""
        self.name = name
        self.peer = peer
        self.direction = direction
        self._end = end

    def statistics(self) -> StreamStatistics:
        """What has happened so far."""
        return StreamStatistics(
            stream=self.name,
            peer=self.peer,
            direction=self.direction,
            state=self._end.state.value,
            numbers=self._end.statistics(),
        )


class Streams:
    """The streams of one channel: those that are open, and the last of those that are over."""

    def __init__(self, channel: str) -> None:
        """There are none."""
        self._channel = channel
        self._open: dict[str, Stream] = {}
        self._past: deque[StreamStatistics] = deque(maxlen=_KEPT_STREAMS)
        self._counts = {Direction.PUT: 0, Direction.GET: 0}

    def new_name(self, direction: Direction) -> str:
        """A name for the next stream: unique in the exchange."""
        self._counts[direction] += 1
        return f"{self._channel}#{direction.value}{self._counts[direction]}"

    def open(self, stream: Stream) -> None:
        """Let a stream appear in the statistics."""
        self._open[stream.name] = stream

    def close(self, stream: Stream) -> None:
        """Note that a stream is over."""
        if self._open.pop(stream.name, None) is not None:
            self._past.append(stream.statistics())

    def count(self, direction: Direction) -> int:
        """How many are open."""
        return sum(stream.direction is direction for stream in self._open.values())

    def statistics(self) -> tuple[StreamStatistics, ...]:
        """What has happened on each of them."""
        return (*self._past, *(stream.statistics() for stream in self._open.values()))

"""A producer of a channel that keeps its rows: what it sends is consumed once it is kept.

A producer that vanishes leaves an open channel: it, or another one, may come again.
"""

import asyncio
from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from permitflow.errors import ProducerReplacedError
from permitflow.exchange.keeping import KeepingProducer
from permitflow.protocol.frames import Abort, End, Put
from permitflow.protocol.names import require_name
from permitflow.transports.remote_receiver import RemoteReceiver
from permitflow.transports.same_host import SameHost

if TYPE_CHECKING:
    from permitflow.exchange.replay_channel import ReplayChannel

__all__ = ["ReplayProducer"]


class ReplayProducer(KeepingProducer):
    """See ``ProducerStream``."""

    def __init__(self, channel: "ReplayChannel", end: RemoteReceiver, peer: str, same_host: SameHost) -> None:
        """``peer`` is the producer's address."""
        super().__init__(channel, end, peer, same_host)
        self._name = ""
        self._replacement: ProducerReplacedError | None = None
        self._left = asyncio.Event()

    async def serve(self, put: Put, schema: pa.Schema) -> None:
        """Agree, and keep what comes; whoever comes next under this name goes on as soon as nothing more is kept."""
        try:
            await super().serve(put, schema)
        finally:
            self._disclaim()

    def _judge(self, put: Put) -> None:
        require_name("producer", put.producer)

    async def _begin(self, put: Put) -> int | None:
        if not put.producer:
            return None
        self._name = put.producer
        return await self._channel.claim(put.producer, self)

    async def _append(self, pieces: Sequence[pa.RecordBatch]) -> int:
        return await self._channel.log.append(pieces, self._name, self._require_here)

    def _require_here(self) -> None:
        if self._replacement is not None:
            raise self._replacement

    async def _finish(self, end: End) -> None:
        self._disclaim()
        if end.closes_channel:
            await self._channel.end()

    async def replaced(self, error: ProducerReplacedError) -> None:
        """A newer producer of the same name has come: keep nothing any more, and let it go on."""
        self._replacement = error
        self._end.break_off(error)
        self._channel.log.note_change()
        await self._left.wait()

    async def give_up(self, abort: Abort) -> None:
        """Break the channel: what was sent is not all."""
        if self._stream is not None and self._replacement is None:
            await self._channel.break_(f"the producer at {self.peer} gave up: {abort.reason}")

    def fail(self, reason: str) -> None:
        """What it has sent and is kept counts; the rest may come again."""

    def _disclaim(self) -> None:
        if self._name:
            self._channel.disclaim(self._name, self)
        self._left.set()

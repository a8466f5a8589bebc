"""A producer that stages its rows: nobody sees them before they are published."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from permitflow.errors import InvalidParametersError
from permitflow.exchange.keeping import KeepingProducer
from permitflow.exchange.staging import StagingAreas
from permitflow.protocol.frames import Abort, End, Put
from permitflow.protocol.staged_parts import require_key
from permitflow.protocol.staging import Part
from permitflow.transports.remote_receiver import RemoteReceiver
from permitflow.transports.same_host import SameHost

if TYPE_CHECKING:
    from permitflow.exchange.replay_channel import ReplayChannel

__all__ = ["StagedProducer"]


class StagedProducer(KeepingProducer):
    """See ``ProducerStream``.  One that leaves without its end, or gives up, is forgotten; its channel stays whole."""

    def __init__(
        self, channel: "ReplayChannel", areas: StagingAreas, end: RemoteReceiver, peer: str, same_host: SameHost
    ) -> None:
        """``peer`` is the producer's address."""
        super().__init__(channel, end, peer, same_host)
        self._areas = areas
        self._part: Part | None = None

    def _needs_channel(self, put: Put) -> bool:
        # What comes late is thrown away: a job that is repeated need not know that its channels have ended since.
        return put.staging is None or not self._areas.books.was_published(put.staging.query, put.staging.batch)

    def _judge(self, put: Put) -> None:
        assert put.staging is not None, "the exchange has looked at it"
        require_key(put.staging)
        if put.producer:
            rule = "must be empty for staged rows: an attempt has a name of its own"
            raise InvalidParametersError(name="producer", value=put.producer, rule=rule)

    async def _begin(self, put: Put) -> int | None:
        assert put.staging is not None, "the exchange has looked at it"
        self._part = self._areas.open(self._channel.name, put.staging)
        return None

    async def _append(self, pieces: Sequence[pa.RecordBatch]) -> int:
        assert self._part is not None, "there was an agreement"
        return await self._areas.stage(self._part, pieces)

    async def _finish(self, end: End) -> None:
        assert self._part is not None, "there was an agreement"
        # That nobody else will put, if it says so, is true of this attempt only: the channel is closed by an order.
        self._areas.end(self._part)

    async def give_up(self, abort: Abort) -> None:
        """Forget what came."""
        self._break_off()

    def fail(self, reason: str) -> None:
        """Forget what came."""
        self._break_off()

    def leave(self) -> None:
        """The stream is over."""
        self._break_off()
        super().leave()

    def _break_off(self) -> None:
        if self._part is not None:
            self._areas.break_off(self._part)

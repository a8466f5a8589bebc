"""A producer of a channel that is read once: its stream is bridged into the channel.

A producer that leaves without End breaks its channel.
"""

from typing import TYPE_CHECKING

import pyarrow as pa

from permitflow.errors import ChannelError, RetentionError
from permitflow.exchange.bridge import Forwarding
from permitflow.exchange.statistics import Direction
from permitflow.exchange.streams import Stream
from permitflow.protocol.frames import Abort, End, Put
from permitflow.protocol.replay import Retention
from permitflow.transports.remote_receiver import RemoteReceiver
from permitflow.transports.same_host import SameHost

if TYPE_CHECKING:
    from permitflow.exchange.bridge_channel import BridgeChannel

__all__ = ["BridgeProducer"]


class BridgeProducer:
    """See ``ProducerStream``."""

    def __init__(self, channel: "BridgeChannel", end: RemoteReceiver, peer: str, same_host: SameHost) -> None:
        """``peer`` is the producer's address."""
        self._channel = channel
        self._end = end
        self._peer = peer
        self._same_host = same_host
        self._stream: Stream | None = None
        self._has_finished = False

    async def serve(self, put: Put, schema: pa.Schema) -> None:
        """Agree, and pass on what comes."""
        channel = self._channel
        await self._accept(put, schema)
        try:
            aborted = await Forwarding(self._end, channel.sender).run()
            if aborted is not None and self._end.ended_with is None:
                raise aborted
        except ChannelError as error:
            if channel.is_producible:
                raise
            if not isinstance(self._end.ended_with, Abort):
                raise channel.refusal() from error
        match self._end.ended_with:
            case Abort() as abort:
                await self.give_up(abort)
            case End() as end:
                if end.closes_channel:
                    channel.end()
                self._has_finished = True
                outcome = await channel.outcome(end.until)
                channel.producers.discard(self)
                self._end.answer_end(outcome)

    def break_off(self) -> None:
        """The channel is broken: tell the producer, also if it is idle."""
        if not isinstance(self._end.ended_with, Abort):
            self._end.break_off(self._channel.refusal())

    async def give_up(self, abort: Abort) -> None:
        """Break the channel."""
        if self._stream is not None:
            self._channel.abort(f"the producer at {self._peer} gave up: {abort.reason}")

    async def _accept(self, put: Put, schema: pa.Schema) -> None:
        channel = self._channel
        if put.producer or put.staging is not None:
            rule = "knows no producers by name, and publishes nothing"
            raise RetentionError(channel=channel.name, retention=Retention.ONCE.value, rule=rule)
        channel.require_producible(schema)
        await self._end.meet(self._same_host)
        # Others may have come, or ended the channel, meanwhile.
        channel.require_producible(schema)
        name = channel.streams.new_name(Direction.PUT)
        self._end.accept(channel.parameters, schema=schema, stream=name)
        channel.announce(schema)
        self._stream = Stream(name, self._peer, Direction.PUT, self._end)
        channel.streams.open(self._stream)
        channel.producers.add(self)

    def fail(self, reason: str) -> None:
        """What came of this stream is incomplete, and so is its channel."""
        if self._stream is not None and not self._has_finished:
            self._channel.abort(f"the producer at {self._peer} is gone: {reason}")

    def leave(self) -> None:
        """The stream is over."""
        self._channel.producers.discard(self)
        if self._stream is not None:
            self._channel.streams.close(self._stream)

"""One channel of an exchange: who feeds it, who reads it, and what becomes of it when one of them leaves.

Inside is a local channel.  Each producer and each consumer has a stream of its own with permits of its own; the
bridge chains them to the channel's permits.
"""

import asyncio

import pyarrow as pa

from permitflow.channels.local import LocalReceiver, LocalSender, open_channel
from permitflow.errors import (
    ChannelAbortedError,
    ChannelBusyError,
    ChannelClosedError,
    ChannelError,
    ChannelSpentError,
    PeerGoneError,
)
from permitflow.exchange.bridge_consuming import BridgeConsumer
from permitflow.exchange.bridge_producing import BridgeProducer
from permitflow.exchange.statistics import BridgeState, BridgeStatistics, Direction
from permitflow.exchange.streams import Streams
from permitflow.protocol.frames import EndOutcome
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import RecorderFactory
from permitflow.transports.arrow import require_equal_schemas
from permitflow.transports.remote_receiver import RemoteReceiver
from permitflow.transports.remote_sender import RemoteSender
from permitflow.transports.same_host import SameHost

__all__ = ["BridgeChannel"]


class BridgeChannel:
    """A named channel between any number of producers and one consumer at a time."""

    def __init__(
        self, name: str, parameters: ChannelParameters, schema: pa.Schema | None, record: RecorderFactory | None
    ) -> None:
        """Use ``Exchange.add_channel``."""
        self.name = name
        self.parameters = parameters
        self._sender: LocalSender[pa.RecordBatch]
        self._receiver: LocalReceiver[pa.RecordBatch]
        self._sender, self._receiver = open_channel(parameters, name=name, record=record)
        self._schema = schema
        self._schema_known = asyncio.Event()
        if schema is not None:
            self._schema_known.set()
        self._state = BridgeState.OPEN
        self._reason = ""
        self._consumer: BridgeConsumer | None = None
        self._lost_consumer = ""
        self.producers: set[BridgeProducer] = set()
        """Those that are connected and have not been told how they have ended."""
        self.streams = Streams(name)

    @property
    def sender(self) -> LocalSender[pa.RecordBatch]:
        """The end for producers inside this process; the schema must have been declared."""
        return self._sender

    @property
    def receiver(self) -> LocalReceiver[pa.RecordBatch]:
        """The end for a consumer inside this process, in place of one that dials."""
        return self._receiver

    @property
    def state(self) -> BridgeState:
        """What has become of it."""
        if self._state is BridgeState.OPEN and self._schema is None:
            return BridgeState.WAITING
        return self._state

    @property
    def is_producible(self) -> bool:
        """May producers put?"""
        return self._state is BridgeState.OPEN

    async def schema(self) -> pa.Schema:
        """The schema of the chunks, as soon as it is known.

        Raises:
            ChannelAbortedError: it will never be: the channel was removed.
        """
        await self._schema_known.wait()
        if self._schema is None:
            raise self.refusal()
        return self._schema

    # Producers.

    def require_producible(self, schema: pa.Schema) -> None:
        """Refuse a producer that comes too late, or with another schema.

        Raises:
            ChannelError: the channel is over; the type says why.
            SchemaMismatchError: it carries other chunks.
        """
        if self._state is not BridgeState.OPEN:
            raise self.refusal()
        if self._schema is not None:
            require_equal_schemas(ours=self._schema, theirs=schema)

    def refusal(self) -> ChannelError:
        """Why nobody may put any more."""
        if self._lost_consumer:
            who = f"the consumer of channel {self.name!r} at {self._lost_consumer}"
            return PeerGoneError(who=who, reason=self._reason)
        if self._state is BridgeState.BROKEN:
            return ChannelAbortedError(channel=self.name, reason=self._reason)
        return ChannelClosedError(end=f"sender of channel {self.name!r}")

    def announce(self, schema: pa.Schema) -> None:
        """Note the schema of the first producer that was accepted."""
        if self._schema is None:
            self._schema = schema
            self._schema_known.set()

    def end(self) -> None:
        """Nobody will put any more: the consumer comes to the end after what is here."""
        if self._state is BridgeState.OPEN:
            self._state = BridgeState.ENDED
            self._sender.end_nowait()

    async def outcome(self, until: EndOutcome | None) -> EndOutcome:
        """What has become of everything that is in the channel now; wait for its consumer, if there is one.

        A consumer that comes later is not waited for, nor one that leaves without having taken anything.

        Args:
            until: ``ACCEPTED`` waits for nobody.

        Raises:
            ChannelError: the channel is broken.
        """
        consumer = None if until is EndOutcome.ACCEPTED else self._consumer
        has_consumed_all = consumer is not None and await consumer.has_consumed_all()
        if self._state is BridgeState.BROKEN:
            raise self.refusal()
        is_consumed = has_consumed_all or self._state is BridgeState.SPENT
        return EndOutcome.CONSUMED if is_consumed else EndOutcome.ACCEPTED

    def abort(self, reason: str) -> None:
        """The data are incomplete: the consumer must not take them for the whole."""
        self._sender.abort(reason)
        self._break(reason)

    # The consumer.

    def claim(self, consumer: BridgeConsumer) -> None:
        """Become the channel's consumer.

        Raises:
            ChannelBusyError: it has one.
            ChannelSpentError: it had one, and its data are gone.
        """
        if self._state is BridgeState.SPENT or self._lost_consumer:
            raise ChannelSpentError(channel=self.name, reason=self._reason)
        if self._consumer is not None:
            raise ChannelBusyError(channel=self.name, consumer=self._consumer.peer)
        self._consumer = consumer

    def release(self) -> None:
        """The consumer leaves and has taken nothing: another one may come."""
        self._consumer = None

    def spend(self) -> None:
        """The consumer has read everything."""
        self._reason = f"it was read to its end by {self._consumer.peer if self._consumer else 'nobody'}"
        self._state = BridgeState.SPENT
        self._consumer = None

    def lose_consumer(self, reason: str) -> None:
        """The consumer left halfway: what it took is lost, and nobody can read the rest as if it were the whole."""
        self._lost_consumer, self._consumer = self._consumer.peer if self._consumer else "", None
        self._break(f"it left halfway: {reason}")
        self._receiver.close()

    def _break(self, reason: str) -> None:
        if self._state not in (BridgeState.SPENT, BridgeState.BROKEN):
            self._state = BridgeState.BROKEN
            self._reason = reason
            self._schema_known.set()
            for producer in tuple(self.producers):
                producer.break_off()

    # Streams.

    def producing(self, end: RemoteReceiver, peer: str, same_host: SameHost) -> BridgeProducer:
        """A producer at this address has dialled."""
        return BridgeProducer(self, end, peer, same_host)

    def consuming(self, end: RemoteSender, peer: str, same_host: SameHost) -> BridgeConsumer:
        """A consumer at this address has dialled."""
        return BridgeConsumer(self, end, peer, same_host)

    def remove(self) -> None:
        """The exchange forgets the channel."""
        self.abort("it was removed from the exchange")

    def statistics(self) -> BridgeStatistics:
        """What has happened so far."""
        return BridgeStatistics(
            name=self.name,
            state=self.state,
            reason=self._reason,
            numbers=self._sender.statistics(),
            producers=self.streams.count(Direction.PUT),
            streams=self.streams.statistics(),
        )

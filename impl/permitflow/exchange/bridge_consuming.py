"""A consumer of a channel that is read once: the channel is bridged into its stream.

A consumer that leaves after its first message breaks its channel.
"""

from typing import TYPE_CHECKING

from permitflow.errors import RetentionError
from permitflow.exchange.bridge import Forwarding
from permitflow.exchange.feeding import Feeding
from permitflow.exchange.statistics import Direction
from permitflow.exchange.streams import Stream
from permitflow.protocol.frames import Get
from permitflow.protocol.replay import DEFAULT_CONSUMER, Retention
from permitflow.transports.arrow import read_schema, require_equal_schemas
from permitflow.transports.remote_sender import RemoteSender
from permitflow.transports.same_host import SameHost

if TYPE_CHECKING:
    from permitflow.exchange.bridge_channel import BridgeChannel

__all__ = ["BridgeConsumer"]


class BridgeConsumer:
    """See ``ConsumerStream``."""

    def __init__(self, channel: "BridgeChannel", end: RemoteSender, peer: str, same_host: SameHost) -> None:
        """``peer`` is the consumer's address."""
        self._channel = channel
        self._end = end
        self._peer = peer
        self._same_host = same_host
        self._holds_channel = False
        self._stream: Stream | None = None
        self._forwarding: Forwarding | None = None

    async def serve(self, get: Get) -> None:
        """Agree, and pass on what comes."""
        channel = self._channel
        if get.probe:
            await self._accept(get)
            await self._end.end(closes_channel=False)
            return
        self._require_no_replay(get)
        channel.claim(self._peer)
        self._holds_channel = True
        self._stream = await self._accept(get)
        channel.streams.open(self._stream)
        self._forwarding = Feeding(channel.receiver, self._end)
        aborted = await self._forwarding.run()
        if aborted is not None:
            self._end.abort(aborted.reason)
            channel.release()
        else:
            await self._end.end(closes_channel=False)
            channel.spend()
        self._holds_channel = False

    def _require_no_replay(self, get: Get) -> None:
        rule = ""
        if (get.from_row, get.to_row) != (None, None) or get.log_id:
            rule = "is read from where it stands: it has no ranges of rows"
        elif get.consumer not in ("", DEFAULT_CONSUMER):
            rule = f"has one consumer at a time, who has no name like {get.consumer!r}"
        if rule:
            raise RetentionError(channel=self._channel.name, retention=Retention.ONCE.value, rule=rule)

    async def _accept(self, get: Get) -> Stream:
        channel = self._channel
        await self._end.meet(self._same_host)
        schema = await channel.schema()
        if get.schema is not None:
            require_equal_schemas(ours=schema, theirs=read_schema(get.schema))
        name = channel.streams.new_name(Direction.GET)
        self._end.accept(channel.parameters, schema=schema, stream=name)
        return Stream(name, self._peer, Direction.GET, self._end)

    def fail(self, reason: str) -> None:
        """The consumer has left; what it had taken is lost."""
        if not self._holds_channel:
            return
        if self._forwarding is not None and self._forwarding.taken:
            self._channel.lose_consumer(reason)
        else:
            self._channel.release()

    def leave(self) -> None:
        """The stream is over."""
        if self._stream is not None:
            self._channel.streams.close(self._stream)

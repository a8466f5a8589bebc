"""A consumer of a channel that is read once: the channel is bridged into its stream.

A consumer that leaves after its first message breaks its channel.
"""

import asyncio
from operator import ge
from typing import TYPE_CHECKING

from permitflow.errors import RetentionError
from permitflow.exchange.bridge import Forwarding
from permitflow.exchange.feeding import Feeding
from permitflow.exchange.statistics import Direction
from permitflow.exchange.streams import Stream
from permitflow.protocol.frames import Get
from permitflow.protocol.replay import DEFAULT_CONSUMER, Retention
from permitflow.protocol.session import State
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
        self.peer = peer
        self._channel = channel
        self._end = end
        self._same_host = same_host
        self._holds_channel = False
        self._stream: Stream | None = None
        self._forwarding: Forwarding | None = None
        self._left = asyncio.Event()

    async def serve(self, get: Get) -> None:
        """Agree, and pass on what comes."""
        channel = self._channel
        if get.probe:
            await self._accept(get)
            await self._end.end(closes_channel=False)
            return
        self._require_no_replay(get)
        channel.claim(self)
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
        return Stream(name, self.peer, Direction.GET, self._end)

    async def has_consumed_all(self) -> bool:
        """Wait until everything that is in the channel now was consumed; False: the consumer has left before.

        What has left for the consumer meanwhile is waited for as well: its permits cannot be told apart.
        """
        end, last = self._end, self._channel.receiver.unconsumed
        if self._forwarding is not None:
            last += self._forwarding.passed_on
        spent: tuple[int, int] | None = None
        while True:
            if spent is None and self._forwarding is not None and self._forwarding.passed_on >= last:
                spent = end.spent
            if spent is not None and all(map(ge, end.returned, spent)):
                return True
            if end.state in (State.CLOSED, State.FAILED):
                # What becomes of the channel is decided when the stream is left.
                await self._left.wait()
                return False
            await end.changed()

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
        self._left.set()
        if self._stream is not None:
            self._channel.streams.close(self._stream)

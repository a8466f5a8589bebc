"""A consumer of a channel that keeps its rows: it reads a range, or follows the channel to its end.

Reading acknowledges nothing, so any number of streams may read the same rows; one that leaves has harmed nobody.
"""

from collections import deque
from typing import TYPE_CHECKING

from permitflow.errors import ChannelAbortedError
from permitflow.exchange.replay_reading import read_rows
from permitflow.exchange.statistics import Direction
from permitflow.exchange.streams import Stream
from permitflow.protocol.frames import Get
from permitflow.protocol.replay import DEFAULT_CONSUMER
from permitflow.transports.arrow import read_schema, require_equal_schemas
from permitflow.transports.remote_sender import RemoteSender
from permitflow.transports.same_host import SameHost

if TYPE_CHECKING:
    from permitflow.exchange.replay_channel import ReplayChannel

__all__ = ["ReplayConsumer"]


class ReplayConsumer:
    """See ``ConsumerStream``."""

    def __init__(self, channel: "ReplayChannel", end: RemoteSender, peer: str, same_host: SameHost) -> None:
        """``peer`` is the consumer's address."""
        self._channel = channel
        self._end = end
        self._peer = peer
        self._same_host = same_host
        self._stream: Stream | None = None

    async def serve(self, get: Get) -> None:
        """Agree, and send what is wanted."""
        if get.probe:
            await self._meet(get)
            self._accept(None)
        else:
            self._start_of(get)
            await self._meet(get)
            # The rows may have been acknowledged meanwhile.
            start = self._start_of(get)
            self._accept(start)
            try:
                await self._send(get, start)
            except ChannelAbortedError as error:
                self._end.abort(error.reason)
                return
        await self._end.end(closes_channel=False)

    def _start_of(self, get: Get) -> int:
        log = self._channel.log
        log.require_log(get.log_id)
        return log.books.require_readable(get.consumer or DEFAULT_CONSUMER, get.from_row, get.to_row)

    async def _meet(self, get: Get) -> None:
        await self._end.meet(self._same_host)
        schema = await self._channel.log.known_schema()
        if get.schema is not None:
            require_equal_schemas(ours=schema, theirs=read_schema(get.schema))

    def _accept(self, first_row: int | None) -> None:
        channel = self._channel
        name = channel.streams.new_name(Direction.GET)
        schema = channel.log.schema
        assert schema is not None, "it was waited for"
        self._end.accept(channel.parameters, schema=schema, stream=name, first_row=first_row)
        if first_row is not None:
            self._stream = Stream(name, self._peer, Direction.GET, self._end)
            channel.streams.open(self._stream)

    async def _send(self, get: Get, start: int) -> None:
        consumer = get.consumer or DEFAULT_CONSUMER
        # No more than may be under way: what is read is held until it has left.
        most_rows = self._end.parameters.row_permits
        async for batches in read_rows(self._channel.log, consumer, start, get.to_row, most_rows=most_rows):
            await self._end.send_many(deque(batches))

    def fail(self, reason: str) -> None:
        """Nothing is lost: what it has read can be read again."""

    def leave(self) -> None:
        """The stream is over."""
        if self._stream is not None:
            self._channel.streams.close(self._stream)

"""Feed several channels of an exchange as one stream by a key, for callers without an event loop."""

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from types import TracebackType
from typing import TYPE_CHECKING, Self, Unpack

import pyarrow as pa

from permitflow.channels.statistics import ChannelStatistics
from permitflow.client.aio_control import names_of
from permitflow.client.blocking import DEFAULT_TIMEOUT_SECONDS, BlockingSink, open_sink, require_single_places
from permitflow.client.options import PutOptions, counts_its_end
from permitflow.dispatch.hash_dispatch import Barrier, HashDispatch
from permitflow.dispatch.mapping import VNODES, require_channels
from permitflow.errors import DispatchError, PeerTimeoutError, PermitflowError
from permitflow.names import spread_over
from permitflow.stream.frames import EndOutcome

if TYPE_CHECKING:
    from permitflow.dispatch.keys import Splitter

__all__ = ["BlockingDispatch", "open_dispatch"]


class BlockingDispatch:
    """The upstream of several channels of an exchange; a context manager, for one thread at a time.

    A call waits while the queue of one channel is full, as ``BlockingSink.send`` does.  If a channel takes no more, all
    are aborted.  Leaving the context with an exception, or without ``end``, each sink leaves as its ``BlockingSink``
    says: a named producer's channels are only closed, since it can reconnect and continue.
    """

    def __init__(self, sinks: Sequence[BlockingSink], splitter: "Splitter") -> None:
        """Use ``open_dispatch``."""
        self.sinks = tuple(sinks)
        """The channels' ends, in their order."""
        self._splitter = splitter
        self._core: HashDispatch[pa.RecordBatch] = HashDispatch(len(sinks))
        self._taken: object = None
        """The batch or the barrier's payload whose parts some channels lack."""
        self._queued = [0] * len(sinks)
        """Rows, by channel."""
        self._unsure: int | None = None
        """The channel into which a batch was being sent; after an interrupt, nobody knows whether it was queued."""
        self._outcomes: dict[int, EndOutcome] = {}

    def send(self, batch: pa.RecordBatch) -> None:
        """Send each row to the channel of its key; wait while the queue of one of them is full.

        After a time-out or an interrupt, call it again with the same batch: it goes on where it has stopped.

        Raises:
            PeerTimeoutError: nothing could leave for the longest wait of a channel; call it again.
            DispatchError: a channel takes no more; all were aborted.
            SchemaMismatchError: the batch has another schema than the stream; nothing was sent.
        """
        if batch is not self._taken or batch is None:
            self._forward()
            self._core.take_chunk(self._splitter.split(batch, self._core.owners))
            self._taken = batch
        self._forward()

    def send_barrier(self, payload: object = None) -> None:
        """Send a barrier to every channel, behind all rows before it; after a time-out, the next call goes on.

        Raises:
            PeerTimeoutError, DispatchError: as for ``send``.
        """
        self._forward()
        self._core.take_barrier(payload)
        self._forward()

    def _forward(self) -> None:
        for channel, (sink, part) in enumerate(zip(self.sinks, self._core.pending, strict=True)):
            if part is None:
                continue
            try:
                if isinstance(part, Barrier):
                    sink.send_barrier(part.payload)
                elif self._unsure != channel or sink.accepted_rows == self._queued[channel]:
                    assert isinstance(part, pa.RecordBatch)
                    self._unsure = channel
                    sink.send(part)
            except PeerTimeoutError:
                self._unsure = None
                raise
            except PermitflowError as error:
                self._lose(channel, error)
            if isinstance(part, pa.RecordBatch):
                self._queued[channel] += part.num_rows
            self._core.forwarded(channel)
            self._unsure = None
        self._taken = None

    def _lose(self, channel: int, error: PermitflowError) -> None:
        self._core.lose(channel)
        name = self.sinks[channel].name
        self.abort(f"channel {name!r} of the same stream takes no more rows: {error}")
        raise DispatchError(channel=name, reason=str(error)) from error

    def end(self, *, closes_channels: bool = True, until: EndOutcome = EndOutcome.CONSUMED) -> tuple[EndOutcome, ...]:
        """End every channel, and wait for the outcome of each; see ``BlockingSink.end``.

        After a time-out it can be called again, and continues to wait.

        Raises:
            PeerTimeoutError, DispatchError: as for ``send``.
            PermitflowError: as for ``BlockingSink.end``.
        """
        self._forward()

        def end(channel: int) -> None:
            outcome = self.sinks[channel].end(closes_channel=closes_channels, until=until)
            self._outcomes[channel] = outcome

        # All ends are sent before any is waited for: a reader may need one channel's end to go on with another.
        waiting = [channel for channel in range(len(self.sinks)) if channel not in self._outcomes]
        with ThreadPoolExecutor(max(1, len(waiting))) as pool:
            for future in [pool.submit(end, channel) for channel in waiting]:
                future.result()
        return tuple(self._outcomes[channel] for channel in range(len(self.sinks)))

    def abort(self, reason: str) -> None:
        """Abort every channel: their readers raise ``ChannelAbortedError`` with this reason."""
        for sink in self.sinks:  # all hear of it before one is waited for
            sink.begin_abort(reason)
        self.close()

    def close(self) -> None:
        """Release all ends in any state."""
        for sink in self.sinks:
            sink.close()

    def statistics(self) -> tuple[ChannelStatistics, ...]:
        """Each channel's counts so far."""
        return tuple(sink.statistics() for sink in self.sinks)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Leave each channel; all hear of it before one is waited for."""
        for sink in self.sinks:
            sink.leave(error)
        self.close()


def open_dispatch(
    address: str,
    channels: Sequence[str],
    schema: pa.Schema,
    *,
    key: Sequence[str],
    changes: str | None = None,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    **options: Unpack[PutOptions],
) -> BlockingDispatch:
    """Feed channels of the exchange at ``address``: each row goes to the channel of its key.

    Args:
        address: as for ``aio.put``.
        channels: their names; all who dispatch into them name them in the same order.
        schema: of the batches that will be sent.
        key: the names of one or more columns; see ``permitflow.client.dispatch``.
        changes: the name of a column that says what each row does; see there.
        timeout_seconds: the longest wait for the exchange, and for each permit.
        options: as for ``open_sink``, for each channel.

    Raises:
        InvalidParametersError: a column is not there, or cannot be in a key; or there are too many channels; or the
            stream has more than these.
        PermitflowError: as for ``open_sink``.
    """
    from permitflow.dispatch.keys import Splitter  # it loads what computes on columns

    names, splitter = names_of(channels), Splitter(schema, key, changes=changes)
    require_channels(len(names), VNODES)
    options = {**options, "spread_over": spread_over(names)}
    security = options.get("security")
    require_single_places(address, names, spread_over=options["spread_over"], security=security)
    with ExitStack() as stack:
        sinks: list[BlockingSink] = []
        try:
            for name in names:
                sink = open_sink(address, name, schema, timeout_seconds=timeout_seconds, **options)
                sinks.append(stack.enter_context(sink))
        except PermitflowError:
            if not counts_its_end(options):  # nothing was sent, so the other channels stay as they are
                for sink in sinks:
                    with suppress(PermitflowError):
                        sink.end(closes_channel=False, until=EndOutcome.ACCEPTED)
            raise
        stack.pop_all()
    return BlockingDispatch(sinks, splitter)

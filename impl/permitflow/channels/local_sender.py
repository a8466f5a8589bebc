"""The sending end of a local channel."""

from collections import deque
from types import TracebackType
from typing import Generic, Self, TypeVar, cast

from permitflow.channels.local_channel import LocalChannel, Sending
from permitflow.channels.statistics import ChannelStatistics
from permitflow.channels.waiting import ParkedSend, turn
from permitflow.chunks import rows_of, sized_slices, tail, whole_rows
from permitflow.errors import PermitflowError, WouldBlock
from permitflow.protocol.direct import send_directly, send_many_directly
from permitflow.protocol.parameters import ChannelParameters, Oversize
from permitflow.protocol.trains import deliver_many, offer_and_send_many

__all__ = ["LocalSender"]

T = TypeVar("T")


class LocalSender(Generic[T]):
    """The end into which messages go; see ``SendEnd`` for what each method promises."""

    __slots__ = ("_are_batches", "_channel", "_core", "_costs", "_line", "_payloads", "_peer", "_takers")

    def __init__(self, channel: LocalChannel[T]) -> None:
        """Use ``open_channel``."""
        self._channel = channel
        self._core = channel.sender
        self._peer = channel.receiver
        self._takers, self._line = channel.takers, channel.chunks
        self._payloads, self._costs = channel.receiver.queues
        self._are_batches = True  # chunks that know their ``num_rows``, as far as was seen

    @property
    def name(self) -> str:
        """The channel's name."""
        return self._channel.name

    @property
    def parameters(self) -> ChannelParameters:
        """The channel's parameters."""
        return self._channel.parameters

    def send_nowait(self, chunk: T, rows: int | None = None) -> None:
        """Send a chunk now, all of it or nothing."""
        rows = rows_of(chunk) if rows is None else whole_rows(rows)
        if not self._try_send(chunk, rows):
            self._send_slices_nowait(chunk, rows)

    def _try_send(self, chunk: T, rows: int) -> bool:
        if self._line.turning is not None:
            self._line.seat()
        has_left = self._channel.accepts and send_directly(self._core, self._peer, chunk, rows)
        if has_left and self._takers.futures:
            self._takers.arrive()
        return has_left

    async def send(self, chunk: T, rows: int | None = None) -> None:
        """Send a chunk; wait until its permits are here."""
        if rows is None:
            try:
                rows = chunk.num_rows if self._are_batches else None  # type: ignore[attr-defined]  # then it has them
            except AttributeError:
                self._are_batches = False
        if type(rows) is not int:
            rows = rows_of(chunk) if rows is None else whole_rows(rows)
        core, line = self._core, self._line
        while True:
            left = core._row_permits - rows
            if left >= 0 and 0 < rows <= line.at_once:
                # As ``send_directly``, without its call: this is the way of nearly every chunk.
                core._row_permits = left
                core.sent_chunks += 1
                self._payloads.append(chunk)
                self._costs.append(rows)
                self._peer._is_quiet = False
                return
            if not line.at_once or not line.begin_turn(chunk, rows):
                break
            try:
                await turn()
            except BaseException:
                if line.abandon_turn():
                    self._channel.advance()
                raise
            if (parked := line.end_turn()) is not None:
                line.go(parked)
                return await self._leave(parked, chunk)
        if not self._try_send(chunk, rows):
            await self._leave(self._stand_in_line(chunk, rows), chunk)

    async def _leave(self, parked: ParkedSend[T], chunk: T) -> None:
        """Wait until a send that stands in line has left."""
        if not parked.is_over:
            await self._channel.leave(self._line, parked)
        if parked.is_refused:
            raise self._channel.refusal(tail(chunk, parked.sent_rows))

    async def send_many(self, chunks: deque[T]) -> None:
        """Send all chunks of a queue, from the left, until it is empty."""
        line = self._line
        while chunks:
            if not self._channel.accepts:
                raise self._channel.refusal(chunks)
            if len(chunks) > 1 or not self._send_only(chunks):
                self._send_those_that_fit(chunks)
            if not chunks:
                return
            chunk, rows = chunks[0], rows_of(chunks[0])
            if line.begin_turn(chunk, rows):
                try:
                    await turn()
                except BaseException:
                    if line.abandon_turn():
                        self._channel.advance()
                    raise
                if (parked := line.end_turn()) is None:
                    continue
                line.go(parked)
            elif self._try_send(chunk, rows):
                chunks.popleft()
                continue
            else:
                parked = self._stand_in_line(chunk, rows)
            await self._leave_queue(chunks, parked)

    def _send_only(self, chunks: deque[T]) -> bool:
        """Send the only chunk, if nothing keeps it; one that cannot say its rows stays in the queue."""
        if type(rows := getattr(chunks[0], "num_rows", None)) is not int or not self._core.largest_at_once:
            return False
        if not (has_left := self._try_send(chunk := chunks.popleft(), rows)):
            chunks.appendleft(chunk)
        return has_left

    def _send_those_that_fit(self, chunks: deque[T]) -> None:
        """Send the leftmost chunks as far as nothing keeps them."""
        core, line = self._core, self._line
        here, limit = core._row_permits, line.at_once
        sizes = self._sizes_that_fit(chunks, here, limit or core._clamp)
        # Chunks that were asked for their rows may have sent something themselves.
        if limit and limit == line.at_once and here == core._row_permits:
            if sizes:
                send_many_directly(core, self._peer, [chunks.popleft() for _ in sizes], sizes)
            return
        line.seat()
        if not sizes or not self._channel.accepts:
            return
        if core.largest_at_once and here == core._row_permits and not core._chunks:
            send_many_directly(core, self._peer, [chunks.popleft() for _ in sizes], sizes)
        else:
            count = offer_and_send_many(core, chunks, sizes)
            deliver_many(self._peer, [chunks.popleft() for _ in range(count)], sizes[:count])
        if self._takers.futures:
            self._takers.arrive()

    def _sizes_that_fit(self, chunks: deque[T], left: int, limit: int) -> list[int]:
        """Rows of the leftmost chunks for which so many permits are enough, none of them empty or above the limit."""
        sizes: list[int] = []
        are_batches = self._are_batches
        try:
            for chunk in chunks:
                rows = chunk.num_rows if are_batches else None  # type: ignore[attr-defined]  # then it has them
                if type(rows) is not int:
                    rows = rows_of(chunk)
                if (left := left - rows) < 0 or not 0 < rows <= limit:
                    break
                sizes.append(rows)
        except AttributeError:
            self._are_batches = False
        except PermitflowError:
            pass  # its turn comes
        return sizes

    async def _leave_queue(self, chunks: deque[T], parked: ParkedSend[T]) -> None:
        """Wait until the leftmost chunk of a queue, which stands in line, has left."""
        chunk = chunks[0]
        try:
            if not parked.is_over:
                await self._channel.leave(self._line, parked)
        finally:
            if parked.sent:
                chunks.popleft()
        if parked.is_refused:
            if parked.sent:
                chunks.appendleft(tail(chunk, parked.sent_rows))
            raise self._channel.refusal(chunks)

    def _stand_in_line(self, chunk: T, rows: int) -> ParkedSend[T]:
        """Offer a chunk that cannot leave at once; let the first of its slices go if they may."""
        pieces = self._pieces(chunk, rows)
        self._require_open(chunk)
        parked = self._line.stand([self._core.offer_chunk(piece, size) for piece, size in pieces])
        if len(pieces) > 1:
            self._line.go(parked)
            self._line.reckon()
        return parked

    def _send_slices_nowait(self, chunk: T, rows: int) -> None:
        pieces = self._pieces(chunk, rows)
        self._require_open(chunk)
        cost = sum(self.parameters.cost_of(size) for _, size in pieces)
        here, waiting = self._core.permits.rows, len(self._channel.chunks.parked)
        if waiting:
            raise WouldBlock(f"{waiting} sends wait before this one")
        if cost > here:
            raise WouldBlock(f"the chunk needs {cost} row permits, {here} of {self.parameters.row_permits} are here")
        for piece, size in pieces:
            if not self._try_send(piece, size):
                raise AssertionError(f"{size} of {cost} rows could not be sent with {here} permits")

    def _pieces(self, chunk: T, rows: int) -> list[tuple[T, int]]:
        if rows <= self._core._clamp or self.parameters.oversize is Oversize.WHOLE:
            return [(chunk, whole_rows(rows))]
        return sized_slices(chunk, rows, self._core._clamp)

    def send_barrier_nowait(self, payload: object = None) -> None:
        """Send a barrier now."""
        self._require_open(payload)
        if waiting := len(self._channel.barriers.parked):
            raise WouldBlock(f"{waiting} barriers wait before this one")
        if self._core.permits.barriers < 1:
            raise WouldBlock(f"all {self.parameters.barrier_permits} barrier permits are out")
        self._core.offer_barrier(cast("T", payload))  # Message.kind tells that it is not a chunk
        self._takers.deliver(self._core.send_barrier())

    async def send_barrier(self, payload: object = None) -> None:
        """Send a barrier; wait until a barrier permit is here."""
        self._require_open(payload)
        line = self._channel.barriers
        parked = ParkedSend([self._core.offer_barrier(cast("T", payload))])
        line.parked.append(parked)
        line.go(parked)
        if not parked.is_over:
            await self._channel.leave(line, parked)
        if parked.is_refused:
            raise self._channel.refusal(payload)

    def send_watermark(self, value: object) -> None:
        """Announce a watermark; never waits."""
        self._require_open(value)
        self._line.seat()
        self._core.offer_watermark(cast("T", value))
        self._channel.advance()

    def _require_open(self, undelivered: object) -> None:
        if not self._channel.accepts:
            raise self._channel.refusal(undelivered)

    def end_nowait(self) -> None:
        """Say, in band, that nothing follows; ``end`` for callers that cannot await.

        Raises:
            ChannelClosedError: this end was closed or aborted before.
            PeerGoneError: the receiver is gone.
        """
        channel = self._channel
        if channel.sending is Sending.ENDED:
            return
        if not channel.accepts:
            raise channel.refusal(None)
        channel.end()

    async def end(self) -> None:
        """Say, in band, that nothing follows.  Does not wait."""
        self.end_nowait()

    def abort(self, reason: str) -> None:
        """Give the stream up."""
        channel = self._channel
        if channel.sending in (Sending.OPEN, Sending.ENDED) and not channel.is_over:
            channel.abort(reason)

    def close(self) -> None:
        """Release this end."""
        if self._channel.sending is Sending.OPEN:
            self._channel.close_sender()

    def statistics(self) -> ChannelStatistics:
        """What has happened so far."""
        return self._channel.statistics()

    def __enter__(self) -> Self:
        """Close this end at the end of the block."""
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: TracebackType | None) -> None:
        """Close, or abort where the block failed."""
        if error is not None:
            self.abort(f"{type(error).__name__}: {error}")
        self.close()

    def __repr__(self) -> str:
        channel, here = self._channel, self._core.permits
        channel.chunks.seat()
        waiting = len(channel.chunks.parked) + len(channel.barriers.parked)
        return (
            f"<LocalSender {channel.name!r} {channel.sending.value}, "
            f"{here.rows}/{self.parameters.row_permits} row permits here, {waiting} waiting>"
        )

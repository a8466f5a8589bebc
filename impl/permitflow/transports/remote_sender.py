"""The sending end of a remote stream, for asyncio."""

import asyncio
from bisect import bisect_left
from collections import deque
from collections.abc import Iterable, Sequence
from itertools import accumulate, islice

import pyarrow as pa

from permitflow.channels.waiting import ParkedSend
from permitflow.chunks import slices, tail
from permitflow.errors import ChannelClosedError, InvalidParametersError, PeerGoneError, WouldBlock
from permitflow.protocol.frames import EndOutcome
from permitflow.protocol.parameters import Oversize
from permitflow.protocol.session import State
from permitflow.transports.frame_codec import checked_marker
from permitflow.transports.remote_upstream import RemoteUpstream

__all__ = ["RemoteSender"]


class RemoteSender(RemoteUpstream):
    """The end into which record batches go; see ``SendEnd`` for what each method promises."""

    # Sending.

    def send_nowait(self, chunk: pa.RecordBatch, rows: int | None = None) -> None:
        """Send a chunk now, all of it or nothing."""
        pieces = self._pieces(chunk, rows)
        cost = sum(self.parameters.cost_of(piece.num_rows) for piece in pieces)
        here = self._session.sender.permits.rows
        if self._chunks.parked:
            raise WouldBlock(f"{len(self._chunks.parked)} sends wait before this one")
        if cost > here:
            raise WouldBlock(f"the chunk needs {cost} row permits, {here} of {self.parameters.row_permits} are here")
        for piece in pieces:
            self._session.offer_chunk(piece, piece.num_rows)
            self._post(self._session.sender.send_chunk())

    async def send(self, chunk: pa.RecordBatch, rows: int | None = None) -> None:
        """Send a chunk; wait until its permits are here."""
        # A sender that never waits would fill the window before any of it leaves.
        if self._posted_rows >= self._collected_rows:
            await self._write_or_turn()
        if rows is None and self._send_now((chunk,)):
            self._writing.soon()
            return
        try:
            self.send_nowait(chunk, rows)
        except WouldBlock:
            pieces = self._pieces(chunk, rows)
            parked = ParkedSend([self._session.offer_chunk(piece, piece.num_rows) for piece in pieces])
            await self._leave(self._chunks, parked)
            if parked.is_refused:
                raise self._refusal(tail(chunk, parked.sent_rows)) from None

    async def send_many(self, chunks: deque[pa.RecordBatch]) -> None:
        """Send all chunks of a queue, from the left, until it is empty."""
        while chunks:
            if self._posted_rows >= self._collected_rows:
                await self._write_or_turn()
            if sent := self._send_now(chunks):
                self._writing.soon()
                for _ in range(sent):
                    chunks.popleft()
                continue
            if self._must_wait(chunks[0]):
                await self._send_leftmost(chunks)
                continue
            try:
                self.send_nowait(chunks[0])
                chunks.popleft()
            except WouldBlock:
                await self._send_leftmost(chunks)
            except (ChannelClosedError, PeerGoneError) as error:
                raise self._refusal(chunks) from error.__cause__

    def send_at_once(self, chunks: Sequence[pa.RecordBatch]) -> int:
        """Send and write the first chunks, as many as may leave now and are worth a message; say how many.

        Those that are unusual are left to ``send``.  Those that only lack permits make ``lacks_permits`` true, which is
        waiting as ``statistics`` counts it, until this is called again.  All are looked at: ``sendable_rows`` says how
        many rows are worth that.
        """
        sent, rows = self._send_first(chunks)
        if sent:
            self._writing.now()
        if sent == len(chunks):
            must_wait = False
        elif sent < len(rows):
            # It has been looked at.  To look again, with cold caches, takes longer than to decode the permits.
            must_wait = self._lacks(rows[sent])
        else:
            must_wait = self._must_wait(chunks[sent])
        if must_wait is not self.lacks_permits:
            self.lacks_permits = must_wait
            self._waiting.start() if must_wait else self._waiting.stop()
        return sent

    def send_alone(self, chunk: pa.RecordBatch) -> bool:
        """Send and write a chunk before this returns, in as few steps as can be; or do nothing, and say so.

        That is so if anything is unusual, stands before it or keeps it: ``send_at_once`` sees to that.
        """
        writing = self._writing
        if self._failure is not None or self.lacks_permits or writing.is_busy or not writing.is_prompt:
            return False
        rows = self._rows_of(chunk)
        if not self._session.send_alone(rows):
            return False
        writing.alone(self._encode_alone, chunk, rows)
        return True

    async def _write_or_turn(self) -> None:
        """Write what was posted; if that cannot be done at once, give the task that writes a turn."""
        self._writing.now()
        if self._posted_rows:
            await asyncio.sleep(0)

    def _send_now(self, chunks: Sequence[pa.RecordBatch]) -> int:
        """Send the first chunks, about as many as permits come back for at once; say how many.

        They are written once the caller says so.  Those that are unusual, or have to wait, are left to the general way;
        so is a stream that is not open.
        """
        here = chunks if len(chunks) < 2 else islice(chunks, self._most_at_once(chunks[0]))
        return self._send_first(here)[0]

    def _send_first(self, chunks: Iterable[pa.RecordBatch]) -> tuple[int, list[int]]:
        """Send chunks, as many of the first ones as may leave now and fill a message.

        Returns:
            How many; and the rows of the chunks, up to one that is unusual: none while others wait, or on no open
            stream.
        """
        if self._chunks.parked or not self._is_open:
            return 0, []
        run, rows = self._codec.accepted(chunks)
        most = len(rows)
        if most > 1:
            at_once = min(self._collected_rows, self._message_rows(rows[0]))
            if sum(rows) > at_once:
                most = bisect_left(list(accumulate(rows)), at_once) + 1
                run = run[:most]
        sent = self._session.send_many(run, rows[:most]) if run else 0
        self._posted_rows += sum(rows[:sent])
        return sent, rows

    def _most_at_once(self, first: pa.RecordBatch) -> int:
        """How many chunks are worth a look: as many as may leave if all are as long as the first one, and another."""
        rows = first.num_rows if isinstance(first, pa.RecordBatch) else 0
        return 1 + self.sendable_rows // max(1, rows)

    @property
    def sendable_rows(self) -> int:
        """How many rows may leave now and are written at once, about."""
        return min(self._collected_rows, self._session.row_permits)

    def _must_wait(self, chunk: pa.RecordBatch) -> bool:
        """Is all well with an ordinary chunk, except that permits are missing?  That is what happens all the time."""
        if not self._is_open or not isinstance(chunk, pa.RecordBatch) or not self._lacks(chunk.num_rows):
            return False
        return bool(self._codec.accepted((chunk,))[0])

    def _lacks(self, rows: int) -> bool:
        """Must an ordinary chunk of so many rows wait for permits, on an open stream?"""
        return self.parameters.max_chunk_cost >= rows > self._session.row_permits

    async def _send_leftmost(self, chunks: deque[pa.RecordBatch]) -> None:
        chunk = chunks[0]
        parked = ParkedSend([self._session.offer_chunk(piece, piece.num_rows) for piece in self._pieces(chunk, None)])
        try:
            await self._leave(self._chunks, parked)
        finally:
            if parked.sent:
                chunks.popleft()
        if parked.is_refused:
            if parked.sent_rows:
                chunks.appendleft(tail(chunk, parked.sent_rows))
            raise self._refusal(chunks)

    def _pieces(self, chunk: pa.RecordBatch, rows: int | None) -> list[pa.RecordBatch]:
        self._codec.require(chunk)
        self._require_open(chunk)
        if rows not in (None, chunk.num_rows):
            raise InvalidParametersError(name="rows", value=rows, rule=f"must be the batch's own {chunk.num_rows}")
        if self.parameters.oversize is Oversize.WHOLE:
            return [chunk]
        return list(slices(chunk, self.parameters.max_chunk_cost))

    def send_barrier_nowait(self, payload: object = None) -> None:
        """Send a barrier now."""
        checked_marker(payload, name="barrier")
        self._require_open(payload)
        if self._barriers.parked:
            raise WouldBlock(f"{len(self._barriers.parked)} barriers wait before this one")
        if self._session.sender.permits.barriers < 1:
            raise WouldBlock(f"all {self.parameters.barrier_permits} barrier permits are out")
        self._session.offer_barrier(payload)
        self._post(self._session.sender.send_barrier())

    async def send_barrier(self, payload: object = None) -> None:
        """Send a barrier; wait until a barrier permit is here."""
        try:
            self.send_barrier_nowait(payload)
        except WouldBlock:
            parked = ParkedSend([self._session.offer_barrier(payload)])
            await self._leave(self._barriers, parked)
            if parked.is_refused:
                raise self._refusal(payload) from None

    def send_watermark(self, value: object) -> None:
        """Announce a watermark; never waits."""
        checked_marker(value, name="watermark")
        self._require_open(value)
        self._session.offer_watermark(value)
        self._advance()

    # The end.

    async def end(self, *, closes_channel: bool = True, until: EndOutcome = EndOutcome.CONSUMED) -> EndOutcome:
        """Say that nothing follows, and wait for the answer: what has become of everything that was sent.

        Of ``put``, the answer is ``CONSUMED`` once the channel's consumer has consumed all that was in the channel
        when the end came.  It is ``ACCEPTED``, at once, if no consumer is connected, or if the channel keeps its rows.
        There is no time-out: it waits for as long as the consumer takes.

        Args:
            closes_channel: the consumers come to the end as well; False leaves the channel to other producers.
            until: ``ACCEPTED`` does not wait for a consumer, even if one is connected.

        Raises:
            PeerGoneError: the exchange is gone, or the channel has lost its consumer, with rows that it held.
            ChannelAbortedError: another producer has broken the channel.
            ChannelClosedError: this end was closed, or aborted.
            LedgerError: the peer has closed the stream without returning all permits.
        """
        if self._session.state is State.OPEN and not self._session.is_ending and not self._is_closed:
            self._session.end(closes_channel=closes_channel, until=until)
            self._writing.soon()
        elif not self._session.is_ending:
            raise self._refusal(None)
        await self._until_past(State.OPEN, State.ENDED)
        if not self._session.is_ending:
            raise self._refusal(None)
        return self._session.outcome or EndOutcome.ACCEPTED  # an older exchange does not say

    def abort(self, reason: str) -> None:
        """Give the stream up."""
        if self._session.state is State.OPEN and self._failure is None:
            self._session.abort(reason)
            self._stop()

    def close(self) -> None:
        """Release this end; what was sent and not carried yet is lost, and the peer learns that the sender is gone."""
        super().close()
        self._stop()

"""Chunks that are moved into a stream at once: only usual ones, on an open stream, while their permits last."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import partial

import pyarrow as pa
import pytest

from permitflow import ChannelParameters, Permits
from permitflow.client import JoinedChunks, RemoteSender
from permitflow.errors import WouldBlock
from permitflow.flows.permits.agreement import PERMITS
from permitflow.stream.frames import Feedback, Get
from permitflow.stream.handshake import PROTOCOL_VERSION
from permitflow.stream.session import UpstreamSession
from permitflow.wire.arrow import BatchCodec
from permitflow.wire.buffers import Buffer
from permitflow.wire.codec import FULL_MESSAGE_BYTES, EncodedChunks, decode_upstream, encode_downstream
from tests.support.carriers import PlayedCarrier
from tests.support.turns import turns, until

WINDOW = ChannelParameters(row_permits=400, permit_batch=100)


def chunk(rows: int, name: str = "n") -> pa.RecordBatch:
    return pa.record_batch({name: pa.array(range(rows), pa.int64())})


SCHEMA = chunk(1).schema


class Wire(PlayedCarrier):
    """What is written can be read here; behind it, a consumer has dialled."""

    def __init__(self) -> None:
        super().__init__(encode_downstream([Get(PROTOCOL_VERSION, "chunks")], PERMITS))
        self.written: list[bytes] = []
        self.is_full = self.is_busy = False

    def write(self, message: Sequence[Buffer]) -> bool:
        self.written.append(b"".join(message))
        if self.is_busy:
            asyncio.get_running_loop().call_soon(self.take_more)
        return not self.is_full and not self.is_busy

    def make_room(self) -> None:
        self.is_full = False
        self.take_more()

    def messages(self) -> list[tuple[int, ...]]:
        """The rows of the chunks in each message that was written."""
        frames = [frame for message in self.written for frame in decode_upstream(message)]
        return [frame.rows for frame in frames if isinstance(frame, EncodedChunks)]

    def sent(self) -> list[int | None]:
        """The rows of each chunk that was written; None for a barrier."""
        frames = [frame for message in self.written for frame in decode_upstream(message)]
        return [rows for frame in frames for rows in (frame.rows if isinstance(frame, EncodedChunks) else [None])]


@asynccontextmanager
async def agreed(schema: pa.Schema = SCHEMA) -> AsyncIterator[tuple[RemoteSender, Wire]]:
    """An end that has written the agreement, and nothing since."""
    wire = Wire()
    end = RemoteSender(UpstreamSession(), wire)
    running = asyncio.create_task(end.run())
    await end.dialled()
    end.accept(WINDOW, schema=schema, stream="s")
    await until(lambda: bool(wire.written))
    wire.checksums.check(wire.written.pop())
    yield end, wire
    running.cancel()
    await asyncio.wait({running})


async def test_chunks_leave_at_once_while_their_permits_last() -> None:
    async with agreed() as (end, wire):
        assert end.send_at_once([chunk(300), chunk(300)], [300, 300]) == 1
        assert end.send_at_once([chunk(300)], [300]) == 0
        assert len(wire.written) == 1
        numbers = end.statistics()
        assert (numbers.sent_chunks, numbers.sent_rows, numbers.gauges["row_permits_here"]) == (1, 300, 100)
        wire.bring(*encode_downstream([Feedback(Permits(rows=300))], PERMITS))
        assert end.send_at_once([chunk(100), chunk(100), chunk(100)], [100, 100, 100]) == 2


@pytest.mark.parametrize(("rows", "count"), [(19, 10), (20, 10), (150, 2)])
async def test_a_short_chunk_that_exceeds_a_message_waits(rows: int, count: int) -> None:
    """A message is full with half a window, 200 rows."""
    async with agreed() as (end, _):
        assert end.send_at_once([chunk(rows)] * 12, [rows] * 12) == count


async def test_chunks_that_came_as_one_batch_leave_as_one() -> None:
    """However many bytes they take, which would bound what is joined here."""
    texts = pa.record_batch({"text": ["x" * 10_000] * 120})
    joined = JoinedChunks(texts, (30, 50, 40))
    async with agreed(texts.schema) as (end, wire):
        assert end.send_at_once(joined, joined.rows) == 3
        ((frame,),) = (decode_upstream(wire.checksums.check(message)) for message in wire.written)
        assert isinstance(frame, EncodedChunks)
        assert frame.rows == joined.rows
        (arrow,) = frame.arrow
        assert BatchCodec(texts.schema).decode(arrow, frame.rows) == texts


async def test_chunks_of_a_sender_that_never_waits_go_to_a_busy_carrier() -> None:
    wide = pa.record_batch({"w": pa.array([bytes(FULL_MESSAGE_BYTES // 4)], pa.binary(FULL_MESSAGE_BYTES // 4))})
    async with agreed(wide.schema) as (end, wire):
        wire.is_busy = True
        for _ in range(20):
            await end.send(wide)
        assert len(wire.written) > 1


@asynccontextmanager
async def much_to_write() -> AsyncIterator[tuple[RemoteSender, Wire]]:
    """An end with half a window to be written, and permits for more; nothing is written before ``make_room``."""
    async with agreed() as (end, wire):
        wire.is_full = True
        for rows in (50, 150, 50):
            await end.send(chunk(rows))
            await turns()
        assert wire.sent() == [50]
        yield end, wire


async def test_senders_wait_in_the_order_of_their_calls() -> None:
    async with much_to_write() as (end, wire):
        sends = (end.send(chunk(1)), end.send(chunk(2)), end.send_barrier("epoch"), end.send(chunk(3)))
        waiting = [asyncio.create_task(send) for send in sends]
        await turns()
        assert not any(task.done() for task in waiting)
        assert end.statistics().waiting_sends == 4
        wire.make_room()
        await asyncio.gather(*waiting)
        await turns()
        assert wire.sent() == [50, 150, 50, 1, 2, None, 3]


async def test_a_send_without_waiting_does_not_overtake_one_that_waits() -> None:
    """Not even at the moment at which there is room again, before the sender that has waited for it runs."""
    refusals: list[str] = []

    def overtake(end: RemoteSender) -> None:
        for send in (partial(end.send_nowait, chunk(9)), end.send_barrier_nowait):
            with pytest.raises(WouldBlock) as refusal:
                send()
            refusals.append(str(refusal.value))

    async with much_to_write() as (end, wire):
        waiting = asyncio.create_task(end.send(chunk(1)))
        await turns()
        overtake(end)
        wire.make_room()
        assert not waiting.done()
        overtake(end)
        await waiting
        assert refusals == ["1 sends wait before this one"] * 4
        end.send_nowait(chunk(9))
        await turns()
        assert wire.sent() == [50, 150, 50, 1, 9]


async def test_a_sender_that_gives_up_on_a_full_carrier_has_sent_nothing() -> None:
    async with much_to_write() as (end, wire):
        first, second = (asyncio.create_task(end.send(chunk(rows))) for rows in (1, 2))
        await turns()
        first.cancel()
        await turns()
        assert not second.done()
        wire.make_room()
        await second
        await turns()
        assert wire.sent() == [50, 150, 50, 2]

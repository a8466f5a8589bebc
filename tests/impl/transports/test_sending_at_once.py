"""Who sends at once is told whether the next chunk lacks nothing but permits, however it was looked at."""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pyarrow as pa
import pytest

from permitflow.errors import PeerGoneError
from permitflow.protocol.frames import Abort, AddPermits, Get
from permitflow.protocol.handshake import PROTOCOL_VERSION
from permitflow.protocol.messages import Permits
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.session import UpstreamSession
from permitflow.transports.carrier import Buffer, Received, Rest
from permitflow.transports.codec import TRAIN_BYTES, decode_upstream, encode_downstream
from permitflow.transports.remote_sender import RemoteSender
from tests.support.carriers import PlayedCarrier
from tests.support.number_streams import turns, until

Complete = Callable[[Coroutine[Any, Any, Any]], Any]
WINDOW = ChannelParameters(row_permits=400, permit_batch=100)


def chunk(rows: int, name: str = "n") -> pa.RecordBatch:
    return pa.record_batch({name: pa.array(range(rows), pa.int64())})


SCHEMA = chunk(1).schema


class SilentConsumer:
    """A carrier behind which a consumer dials, and returns nothing."""

    def __init__(self) -> None:
        get = Get(PROTOCOL_VERSION, "chunks")
        self._first: deque[Received] = deque(b"".join(message) for message in encode_downstream([get]))

    async def read(self) -> Received | None:
        if self._first:
            return self._first.popleft()
        nothing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        await nothing
        return None

    async def write(self, message: Sequence[Buffer]) -> None:
        """It arrives."""

    async def half_close(self) -> None:
        """Nothing to do."""


@pytest.mark.parametrize(
    ("following", "lacks"),
    [
        ([chunk(100)], True),
        ([chunk(300)], True),
        ([chunk(301)], False),
        ([chunk(0)], False),
        ([chunk(100, "other")], False),
        (["no chunk"], False),
        ([], False),
    ],
    ids=["as those before", "the largest", "too large", "empty", "of another schema", "none at all", "nothing"],
)
@pytest.mark.parametrize("at_once", [True, False], ids=["with those before", "alone"])
def test_what_lacks_nothing_but_permits_is_told(
    complete: Complete, following: list[Any], lacks: bool, at_once: bool
) -> None:
    async def test() -> None:
        end = RemoteSender(UpstreamSession(), SilentConsumer())
        running = asyncio.create_task(end.run())
        await end.dialled()
        end.accept(WINDOW, schema=chunk(1).schema, stream="s")
        chunks = [chunk(100)] * 4
        if at_once:
            chunks += following
        sent = 0
        while sent < 4:
            sent += end.send_at_once(chunks[sent:])
        if not at_once:
            assert not end.lacks_permits
            assert end.send_at_once(following) == 0
        assert end.lacks_permits == lacks
        assert end.statistics().waiting_sends == lacks
        running.cancel()
        await asyncio.wait({running})

    complete(test())


class Wire(PlayedCarrier):
    """What is written can be read here; behind it, a consumer has dialled."""

    def __init__(self) -> None:
        super().__init__(encode_downstream([Get(PROTOCOL_VERSION, "chunks")]))
        self.written: list[bytes] = []
        self.is_full = False

    def write_now(self, message: Sequence[Buffer]) -> Rest | None:  # type: ignore[override]
        self.written.append(b"".join(message))
        return (lambda: asyncio.sleep(0)) if self.is_full else None


@asynccontextmanager
async def agreed(schema: pa.Schema = SCHEMA) -> AsyncIterator[tuple[RemoteSender, Wire]]:
    """An end that has written the agreement, and nothing since."""
    wire = Wire()
    end = RemoteSender(UpstreamSession(), wire)
    running = asyncio.create_task(end.run())
    await end.dialled()
    end.accept(WINDOW, schema=schema, stream="s")
    await until(lambda: bool(wire.written))
    wire.written.clear()
    yield end, wire
    running.cancel()
    await asyncio.wait({running})


def test_a_chunk_alone_is_written_as_it_is_in_a_train_and_costs_the_same(complete: Complete) -> None:
    async def test() -> None:
        async with agreed() as (end, wire):
            assert end.send_alone(chunk(7))
            assert end.send_at_once([chunk(7)]) == 1
            first, second = wire.written
            assert first == second
            numbers = end.statistics()
            assert (numbers.sent_chunks, numbers.sent_rows, numbers.row_permits_here) == (2, 14, 386)

    complete(test())


@pytest.mark.parametrize(
    "unusual", [chunk(0), chunk(301), chunk(7, "other"), "no chunk"], ids=["empty", "large", "other", "text"]
)
def test_what_is_unusual_is_not_sent_alone(complete: Complete, unusual: Any) -> None:
    async def test() -> None:
        async with agreed() as (end, wire):
            assert not end.send_alone(unusual)
            assert (wire.written, end.statistics().sent_chunks) == ([], 0)

    complete(test())


def lacking_permits(end: RemoteSender, wire: Wire) -> None:
    end.send_at_once([chunk(300), chunk(300)])


def behind_what_is_not_written_yet(end: RemoteSender, wire: Wire) -> None:
    end.send_nowait(chunk(1))


def on_a_carrier_that_is_full(end: RemoteSender, wire: Wire) -> None:
    wire.is_full = True
    end.send_at_once([chunk(1)])


def after_it_was_closed(end: RemoteSender, wire: Wire) -> None:
    end.close()


def after_it_has_failed(end: RemoteSender, wire: Wire) -> None:
    end.break_off(PeerGoneError(who="the producer", reason="a test"))


def after_its_carrier_has_failed(end: RemoteSender, wire: Wire) -> None:
    end._fail(PeerGoneError(who="the consumer", reason="a test"))


def after_its_end(end: RemoteSender, wire: Wire) -> None:
    end._session.end()


@pytest.mark.parametrize(
    "before",
    [
        lacking_permits,
        behind_what_is_not_written_yet,
        on_a_carrier_that_is_full,
        after_it_was_closed,
        after_it_has_failed,
        after_its_carrier_has_failed,
        after_its_end,
    ],
    ids=lambda before: str(before.__name__),
)
def test_no_chunk_is_sent_alone(complete: Complete, before: Callable[[RemoteSender, Wire], None]) -> None:
    async def test() -> None:
        async with agreed() as (end, wire):
            before(end, wire)
            so_far = len(wire.written), end.statistics().sent_chunks
            assert not end.send_alone(chunk(1))
            assert (len(wire.written), end.statistics().sent_chunks) == so_far

    complete(test())


def test_a_chunk_is_sent_alone_again_once_permits_are_back(complete: Complete) -> None:
    async def test() -> None:
        async with agreed() as (end, wire):
            lacking_permits(end, wire)
            wire.bring(*encode_downstream([AddPermits(Permits(rows=300))]))
            assert end.send_at_once([chunk(300)]) == 1
            assert end.send_alone(chunk(1))

    complete(test())


def test_a_stream_that_is_given_up_while_its_carrier_is_full_says_so_once_there_is_room(complete: Complete) -> None:
    async def test() -> None:
        async with agreed() as (end, wire):
            on_a_carrier_that_is_full(end, wire)
            wire.is_full = False
            end.abort("a test")
            await turns()
            assert decode_upstream(wire.written[-1]) == [Abort("a test")]

    complete(test())


def test_a_sender_that_never_waits_lets_its_chunks_go_where_the_carrier_is_busy(complete: Complete) -> None:
    async def test() -> None:
        wide = pa.record_batch({"w": pa.array([bytes(TRAIN_BYTES // 4)], pa.binary(TRAIN_BYTES // 4))})
        async with agreed(wide.schema) as (end, wire):
            wire.is_full = True
            for _ in range(20):
                await end.send(wide)
            assert len(wire.written) > 1

    complete(test())


def test_what_was_written_keeps_no_later_send_waiting_for_a_turn(complete: Complete) -> None:
    async def test() -> None:
        async with agreed() as (end, wire):
            for _ in range(2):
                await end.send(chunk(100))
            await turns()
            assert wire.written
            with pytest.raises(StopIteration):
                end.send(chunk(50)).send(None)

    complete(test())

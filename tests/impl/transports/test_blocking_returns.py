"""When a blocking consumer's permits are written: together while messages are here, at once where none is left."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import replace

import pyarrow as pa
import pytest

from permitflow.protocol.frames import Feedback
from permitflow.protocol.permits import PERMITS, ChannelParameters
from permitflow.transports import blocking_ends
from permitflow.transports.codec import decode_downstream
from permitflow.transports.grpc_blocking import BlockingSource, open_sink, open_source
from permitflow.transports.joined import JoinedChunks
from permitflow.transports.shared_memory.blocking_link import Outgoing
from tests.support.served_exchange import ServedExchange, served_exchange

PATIENCE_SECONDS = 60.0
ROWS = 10
CHUNKS = 8
BATCH = pa.record_batch({"n": pa.array(range(ROWS), pa.int64())})
WINDOW = ChannelParameters(row_permits=CHUNKS * ROWS, permit_batch=1)
# Two chunks may wait for more in it, and the third one makes a sixteenth of it.
WIDE_WINDOW = ChannelParameters(row_permits=16 * 3 * ROWS, permit_batch=8 * 3 * ROWS)


@pytest.fixture(scope="module")
def exchange() -> Iterator[ServedExchange]:
    with served_exchange(WINDOW) as served:
        yield served


def written_rows(source: BlockingSource, monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """The row permits that it writes from now on, a number for each message."""
    written, write = list[int](), source._call.write

    def noting(message: Outgoing) -> None:
        frames = decode_downstream(b"".join(message.pieces), PERMITS)
        written.extend(frame.said.rows for frame in frames if isinstance(frame, Feedback))
        write(message)

    monkeypatch.setattr(source._call, "write", noting)
    return written


@contextmanager
def full_source(
    exchange: ServedExchange, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[BlockingSource, list[int]]]:
    """A source with a whole window here, and the row permits that it writes, a number for each message."""
    channel = exchange.channel()
    with open_sink(exchange.address, channel, BATCH.schema, timeout_seconds=PATIENCE_SECONDS) as sink:
        for _ in range(CHUNKS):
            sink.send(BATCH)
        sink.end(closes_channel=True)
    with open_source(exchange.address, channel, timeout_seconds=PATIENCE_SECONDS) as source:
        while source._session.inbound.untaken < CHUNKS:
            source._await_reply("a window is there")
        source._is_halfway = False
        yield source, written_rows(source, monkeypatch)


def test_permits_wait_for_company_up_to_a_quarter_of_the_window(
    exchange: ServedExchange, monkeypatch: pytest.MonkeyPatch
) -> None:
    with full_source(exchange, monkeypatch) as (source, written):
        seen = []
        for _ in range(CHUNKS):
            source.receive()
            seen.append(list(written))
        # The last message is handed over with nothing behind it, so nothing waits any more.
        pair = 2 * ROWS
        assert seen == [[], [], [pair], [pair], [pair] * 2, [pair] * 2, [pair] * 3, [pair] * 3 + [ROWS]]


@pytest.mark.parametrize(("patience_seconds", "returned"), [(PATIENCE_SECONDS, [3 * ROWS]), (0.0, [ROWS] * 3)])
def test_the_residue_of_chunks_that_come_alone_waits_for_more_of_it(
    monkeypatch: pytest.MonkeyPatch, patience_seconds: float, returned: list[int]
) -> None:
    monkeypatch.setattr(blocking_ends, "RESIDUE_SECONDS", patience_seconds)
    with (
        served_exchange(WIDE_WINDOW) as exchange,
        nullcontext(exchange.channel()) as channel,
        open_sink(exchange.address, channel, BATCH.schema, timeout_seconds=PATIENCE_SECONDS) as sink,
        open_source(exchange.address, channel, timeout_seconds=PATIENCE_SECONDS) as source,
    ):
        written, wait = written_rows(source, monkeypatch), source._call.wait
        to_come: list[Callable[[], object]] = [lambda: sink.end(closes_channel=True), *[lambda: sink.send(BATCH)] * 3]

        def next_comes_while_it_waits(seconds: float) -> bool:
            if seconds <= 0:
                return wait(seconds)
            if to_come and source.statistics().consumed_chunks == sink.statistics().sent_chunks:
                to_come.pop()()
            return wait(PATIENCE_SECONDS)

        monkeypatch.setattr(source._call, "wait", next_comes_while_it_waits)
        for _ in range(3):
            source.receive()
        assert sum(written) == 2 * ROWS * (patience_seconds == 0.0)
        assert next(source, None) is None
    assert written == returned


def test_permits_that_are_due_do_not_wait_with_the_residue_behind_them(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of four chunks that were read jointly, three make permits due; what is left of the fourth may wait."""
    with (
        served_exchange(replace(WIDE_WINDOW, permit_batch=3 * ROWS)) as exchange,
        nullcontext(exchange.channel()) as channel,
        open_sink(exchange.address, channel, BATCH.schema, timeout_seconds=PATIENCE_SECONDS) as sink,
        open_source(exchange.address, channel, timeout_seconds=PATIENCE_SECONDS) as source,
    ):
        for _ in range(4):
            sink.send(BATCH)
        while source._session.inbound.untaken < 4:
            source._await_reply("they are there")
        source._is_halfway = False
        written, wait = written_rows(source, monkeypatch), source._call.wait
        before_a_wait = list[list[int]]()

        def next_comes_while_it_waits(seconds: float) -> bool:
            if not before_a_wait:
                before_a_wait.append(list(written))
                sink.send(BATCH)
            return wait(PATIENCE_SECONDS)

        joined = source.receive_joined()
        assert isinstance(joined, JoinedChunks)
        assert len(joined) == 4
        monkeypatch.setattr(source._call, "wait", next_comes_while_it_waits)
        source.receive()
    assert before_a_wait == [[3 * ROWS]]

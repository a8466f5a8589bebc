"""When a blocking consumer's permits are written: together while messages are here, at once where none is left."""

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa
import pytest

from permitflow.protocol.frames import AddPermits
from permitflow.protocol.parameters import ChannelParameters
from permitflow.testing.served_exchange import ServedExchange, served_exchange
from permitflow.transports.codec import decode_downstream
from permitflow.transports.grpc_blocking import BlockingSource, open_sink, open_source
from permitflow.transports.shared_memory.outgoing import Outgoing

PATIENCE_SECONDS = 60.0
ROWS = 10
CHUNKS = 8
WINDOW = ChannelParameters(row_permits=CHUNKS * ROWS, permit_batch=1)


@pytest.fixture(scope="module")
def exchange() -> Iterator[ServedExchange]:
    with served_exchange(WINDOW) as served:
        yield served


@contextmanager
def full_source(
    exchange: ServedExchange, monkeypatch: pytest.MonkeyPatch
) -> Iterator[tuple[BlockingSource, list[int]]]:
    """A source with a whole window here, and the row permits that it writes, a number for each message."""
    channel, written = exchange.channel(), list[int]()
    batch = pa.record_batch({"n": pa.array(range(ROWS), pa.int64())})
    with open_sink(exchange.address, channel, batch.schema, timeout_seconds=PATIENCE_SECONDS) as sink:
        for _ in range(CHUNKS):
            sink.send(batch)
        sink.end(closes_channel=True)
    with open_source(exchange.address, channel, timeout_seconds=PATIENCE_SECONDS) as source:
        while source._session.receiver.untaken < CHUNKS:
            source._await_reply("a window is there")
        source._is_halfway = False
        write = source._call.write

        def noting(message: Outgoing) -> None:
            frames = decode_downstream(b"".join(message.pieces))
            written.extend(frame.permits.rows for frame in frames if isinstance(frame, AddPermits))
            write(message)

        monkeypatch.setattr(source._call, "write", noting)
        yield source, written


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


def test_at_the_end_all_permits_are_back(exchange: ServedExchange, monkeypatch: pytest.MonkeyPatch) -> None:
    with full_source(exchange, monkeypatch) as (source, written):
        assert sum(batch.num_rows for batch in source) == CHUNKS * ROWS
    assert sum(written) == CHUNKS * ROWS

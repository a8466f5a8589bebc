"""A stream into an exchange, and one out of it: over every carrier the consumer sets the pace of the producer."""

import asyncio
from collections.abc import AsyncIterator, Sequence

import pyarrow as pa
import pytest

from permitflow import ChannelParameters
from permitflow.client import EndOutcome, SameHost, get, put
from permitflow.errors import StoreWriteError
from permitflow.exchange import Exchange, ExchangeServer, Retention, Store
from permitflow.exchange.channels.replay_channel import ReplayChannel
from permitflow.exchange.stores.store import ChannelStore
from permitflow.stages import Source

CARRIERS = {
    "gRPC": ("127.0.0.1:0", SameHost.NEVER),
    "TCP": ("tcp://127.0.0.1:0", SameHost.NEVER),
    "same host": ("127.0.0.1:0", SameHost.REQUIRE),
}
SCHEMA = pa.schema([("n", pa.int64())])
WINDOW, BUFFER = 8, 2
# The windows of the producer's stream, of the channel and of the consumer's stream; the buffer; one waits to be sent,
# one is with the consumer.
MOST_AHEAD = 3 * WINDOW + BUFFER + 2
TAKEN_FIRST = 3
COUNT = 60
# A guard against hangs.
SECONDS = 60


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_a_consumer_behind_an_exchange_paces_the_producer(carrier: str) -> None:
    address, same_host = CARRIERS[carrier]
    given = consumed = ahead = 0
    full = asyncio.Event()

    async def batches() -> AsyncIterator[pa.RecordBatch]:
        nonlocal given, ahead
        for number in range(COUNT):
            given += 1
            ahead = max(ahead, given - consumed)
            if given == TAKEN_FIRST + 3 * WINDOW:
                full.set()
            yield pa.record_batch({"n": [number]}, schema=SCHEMA)

    exchange = Exchange()
    exchange.add_channel("numbers", ChannelParameters(row_permits=WINDOW, permit_batch=1), schema=SCHEMA)
    async with (
        asyncio.timeout(SECONDS),
        ExchangeServer(exchange, address) as server,
        put(server.address, "numbers", SCHEMA, same_host=same_host) as sender,
        get(server.address, "numbers", same_host=same_host) as receiver,
    ):
        sending = asyncio.create_task(Source(batches()).map(lambda batch: batch).run_to(sender))
        received = Source.receive(receiver).map(lambda message: message.payload["n"][0].as_py()).buffer(BUFFER)
        async with received.open() as numbers:
            while consumed < TAKEN_FIRST:
                assert await anext(numbers) == consumed
                consumed += 1
            # The consumer stands still, until as much has come as must.
            await full.wait()
            async for number in numbers:
                assert number == consumed
                consumed += 1
        assert await sending is EndOutcome.CONSUMED
    assert (given, consumed) == (COUNT, COUNT)
    assert ahead <= MOST_AHEAD


async def test_a_failed_stream_leaves_a_kept_channel_open() -> None:
    async def batches(first: int, last: int, error: Exception | None = None) -> AsyncIterator[pa.RecordBatch]:
        for number in range(first, last):
            yield pa.record_batch({"n": [number]}, schema=SCHEMA)
        if error is not None:
            raise error

    exchange = Exchange()
    exchange.add_channel("numbers", schema=SCHEMA, retention=Retention.REPLAY)
    async with asyncio.timeout(SECONDS), ExchangeServer(exchange, CARRIERS["TCP"][0]) as server:
        with pytest.raises(ConnectionError):
            async with put(server.address, "numbers", SCHEMA, producer="p") as sender:
                await Source(batches(0, 2, ConnectionError())).run_to(sender)
        async with put(server.address, "numbers", SCHEMA, producer="p") as sender:
            assert await Source(batches(sender.first_row or 0, 4)).run_to(sender) is EndOutcome.ACCEPTED
        async with get(server.address, "numbers", from_row=0) as receiver:
            read = Source.receive(receiver).map_concat(lambda message: message.payload["n"].to_pylist())
            assert [number async for number in read] == [0, 1, 2, 3]


class FullPlace(ChannelStore):
    """Refuses once, as a disk that is full for a moment: the last row of the second window."""

    has_refused = False

    async def append(
        self, first_row: int, batches: Sequence[pa.RecordBatch], producer: str = "", producer_rows: int = 0
    ) -> None:
        if not self.has_refused and first_row + sum(batch.num_rows for batch in batches) == 2 * WINDOW:
            self.has_refused = True
            raise StoreWriteError(path="store", reason="the disk is full")
        await super().append(first_row, batches, producer, producer_rows)


class FullStore(Store):
    def open_channels(self, names: Sequence[str], **_: object) -> Sequence[ChannelStore]:
        return [FullPlace() if name == "second" else ChannelStore() for name in names]


@pytest.mark.parametrize("carrier", CARRIERS)
async def test_a_worker_hears_of_refused_rows_while_none_come(carrier: str) -> None:
    """None come, since the first channel is full until the second one has the rows."""
    address, same_host = CARRIERS[carrier]
    exchange = Exchange(store=FullStore())
    parameters = ChannelParameters(row_permits=WINDOW, permit_batch=1)
    first, second = exchange.add_channels(["first", "second"], parameters, SCHEMA, retention=Retention.REPLAY)
    assert isinstance(first, ReplayChannel)
    assert isinstance(second, ReplayChannel)
    read: list[int] = []

    async def produce() -> None:
        for number in range(COUNT):
            await first.append(pa.record_batch({"n": [number]}, schema=SCHEMA))
        await first.end()

    async def let_go() -> None:
        async for batch in second.read(from_row=0):
            read.extend(batch.column(0).to_pylist())
            if len(read) % WINDOW == 0:
                await first.acknowledge(len(read))
                await second.acknowledge(len(read))

    async def pass_on() -> None:
        async with (
            put(server.address, "second", SCHEMA, producer="worker", same_host=same_host) as sender,
            get(server.address, "first", from_row=sender.first_row, same_host=same_host) as receiver,
        ):
            await Source.receive(receiver).run_to(sender)

    async with (
        asyncio.timeout(SECONDS),
        ExchangeServer(exchange, address) as server,
        asyncio.TaskGroup() as ends,
    ):
        ends.create_task(produce())
        ends.create_task(let_go())
        with pytest.raises(StoreWriteError, match="the disk is full"):
            await pass_on()
        await pass_on()
    assert read == [*range(COUNT)]

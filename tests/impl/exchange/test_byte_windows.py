"""Byte windows of streams and of an exchange: the bound holds at every end, nothing is lost, nothing is stuck."""

import asyncio
from collections import deque
from collections.abc import Iterator, Sequence
from itertools import accumulate
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from permitflow import ChannelParameters, Demand, Parameters, SquelchParameters
from permitflow.client import RemoteReceiver, SameHost, blocking, get, put
from permitflow.errors import EndOfStream
from permitflow.exchange import Exchange, Retention
from permitflow.flows.byte_window import DEFAULT_BYTE_WINDOW, ByteWindow
from permitflow.stream.compression import Compression
from permitflow.stream.frames import Chunks, EndOutcome
from permitflow.wire.arrow import BatchCodec
from permitflow.wire.coalescing import MessageWriter
from permitflow.wire.codec import EncodedChunks
from permitflow.wire.joined import JoinedChunks
from tests.support.cut_lines import ADDRESS, Network
from tests.support.served import served
from tests.support.simulated_time import simulated
from tests.support.turns import turns, until

SCHEMA = pa.schema([("n", pa.int64()), ("body", pa.string())])
FLOWS: dict[str, Parameters] = {
    "permits": ChannelParameters(row_permits=64, permit_batch=8),
    "permits, pulled": ChannelParameters(row_permits=64, permit_batch=8, initial_permits=0),
    "demand": Demand(size=8),
    "squelch": SquelchParameters(high=2, rate=1_000),
}


def chunks_of(lengths: Sequence[Sequence[int]]) -> list[pa.RecordBatch]:
    """A chunk for each of these: the length of the text in each of its rows."""
    firsts = accumulate(map(len, lengths), initial=0)
    return [
        pa.record_batch([pa.array(range(first, first + len(each)), pa.int64()), ["x" * n for n in each]], schema=SCHEMA)
        for first, each in zip(firsts, lengths, strict=False)
    ]


def number(chunk: object) -> int:
    """That of its first row."""
    assert isinstance(chunk, pa.RecordBatch)
    first: int = chunk["n"][0].as_py()
    return first


def held_bytes(exchange: Exchange) -> Iterator[int]:
    """The chunks' bytes at every end inside an exchange."""
    for channel in exchange.statistics():
        yield channel.bytes_held
        for _, end in exchange.served(channel.channel).streams.statistics():
            yield max(end.bytes_held, end.inbox_bytes)


async def _through(
    exchange: Exchange,
    chunks: list[pa.RecordBatch],
    *,
    most_bytes: int,
    many: bool,
    joined: bool,
    compression: Compression = Compression.AUTO,
) -> None:
    found = list[int]()

    async def produce() -> None:
        async with put(ADDRESS, "c", SCHEMA, same_host=SameHost.NEVER, compression=compression) as sender:
            if many:
                await sender.send_many(deque(chunks))
            else:
                for chunk in chunks:
                    await sender.send(chunk)
            await sender.end()
            assert sender.statistics().peak_bytes_held <= most_bytes

    async with asyncio.timeout(3_600), Network(exchange).opened():
        producing = asyncio.create_task(produce())
        async with get(ADDRESS, "c", same_host=SameHost.NEVER) as receiver:
            async for message in _messages(receiver, joined=joined):
                found += message["n"].to_pylist()
                assert max(*held_bytes(exchange), receiver.statistics().inbox_bytes) <= most_bytes
            await producing
    assert found == [n for chunk in chunks for n in chunk["n"].to_pylist()]


async def _messages(receiver: RemoteReceiver, *, joined: bool) -> Any:
    while True:
        try:
            message = await (receiver.take_joined() if joined else receiver.take())
        except EndOfStream:
            return
        await asyncio.sleep(0)
        payload: Any = message if isinstance(message, JoinedChunks) else message.payload
        yield payload.batch if isinstance(payload, JoinedChunks) else payload
        receiver.consume(len(payload.rows) if isinstance(payload, JoinedChunks) else 1)


LENGTHS = st.lists(st.lists(st.sampled_from([0, 3, 300, 5_000]), max_size=4), min_size=1, max_size=20)


@pytest.mark.parametrize("flow", FLOWS)
@settings(max_examples=25)
@given(lengths=LENGTHS, window_bytes=st.sampled_from([1, 900, 4_000, 40_000]), many=st.booleans(), joined=st.booleans())
@simulated
async def test_wide_and_narrow_rows_come_and_the_bound_holds(
    flow: str, lengths: list[list[int]], window_bytes: int, *, many: bool, joined: bool
) -> None:
    exchange = Exchange(parameters=FLOWS[flow], byte_window=window_bytes)
    exchange.add_channel("c")
    chunks = chunks_of(lengths)
    # Of the sender, what is not encoded yet counts by an upper bound.
    largest = max(map(BatchCodec(SCHEMA).most_bytes_of, [*chunks, pa.concat_batches(chunks)]))
    most_bytes = ByteWindow(window_bytes).most_bytes(largest)
    await _through(exchange, chunks, most_bytes=most_bytes, many=many, joined=joined)


@pytest.mark.parametrize("compression", [Compression.LZ4, Compression.ZSTD])
@simulated
async def test_compressed_chunks_count_by_what_they_take_decompressed(compression: Compression) -> None:
    exchange = Exchange()
    exchange.add_channel("c", byte_window=150_000)
    chunks = chunks_of([[50_000, 50_000]] * 12)
    most_bytes = ByteWindow(150_000).most_bytes(101_000)
    await _through(exchange, chunks, most_bytes=most_bytes, many=False, joined=False, compression=compression)


async def test_a_reader_that_stands_still_lets_in_three_windows() -> None:
    """With the defaults: of the producer's stream, of the channel, of the consumer's stream."""
    exchange = Exchange()
    exchange.add_channel("c")
    chunk = pa.record_batch([pa.array(range(8), pa.int64()), ["x" * 20_000] * 8], schema=SCHEMA)
    sent = 0
    async with (
        Network(exchange).opened(),
        put(ADDRESS, "c", SCHEMA, same_host=SameHost.NEVER) as sender,
        get(ADDRESS, "c", same_host=SameHost.NEVER) as receiver,
    ):
        while sender.lack == "" and sent < 32_768:
            sending = asyncio.create_task(sender.send(chunk))
            await turns()
            if not sending.done():
                break
            sent += 8
        assert "of the byte window of 16,777,216 are out" in sender.lack
        assert 2 * DEFAULT_BYTE_WINDOW < sent * 20_000 <= 3 * DEFAULT_BYTE_WINDOW
        (traffic,) = exchange.statistics()
        assert all(held <= DEFAULT_BYTE_WINDOW for held in held_bytes(exchange))
        assert traffic.bytes_held > DEFAULT_BYTE_WINDOW // 2
        sending.cancel()
        receiver.close()
        sender.abort("measured")


def made(kind: pa.DataType, *, nulls: bool) -> pa.RecordBatch:
    """Rows of a type, some of them null."""
    values: list[Any] = [None if nulls and n % 3 == 0 else n for n in range(40)]
    texts = pa.array([None if n is None else "t" * n for n in values])
    if pa.types.is_dictionary(kind):
        column: Any = texts.dictionary_encode()
    elif pa.types.is_list(kind):
        column = pa.array([None if n is None else ["e"] * (n % 4) for n in values], kind)
    elif pa.types.is_struct(kind):
        column = pa.array([None if n is None else {"a": n, "b": "t" * n} for n in values], kind)
    elif pa.types.is_integer(kind):
        column = pa.array(values, kind)
    elif pa.types.is_boolean(kind):
        column = pa.array([None if n is None else bool(n % 2) for n in values], kind)
    else:
        column = texts.cast(kind)
    return pa.record_batch([column, column], names=["first", "again"])


KINDS = (
    pa.int64(),
    pa.bool_(),
    pa.string(),
    pa.large_string(),
    pa.string_view(),
    pa.binary(),
    pa.list_(pa.string()),
    pa.struct([("a", pa.int64()), ("b", pa.string())]),
    pa.dictionary(pa.int32(), pa.string()),
)


@given(
    st.sampled_from(KINDS),
    st.lists(st.tuples(st.booleans(), st.integers(0, 39), st.integers(0, 40)), min_size=1, max_size=12),
    st.sampled_from([64, 400, 32_768]),
)
def test_chunks_never_take_more_than_their_upper_bound(
    kind: pa.DataType, slices: list[tuple[bool, int, int]], window_rows: int
) -> None:
    """Alone or joined, with and without nulls, as slices."""
    batches = [made(kind, nulls=nulls).slice(start, rows) for nulls, start, rows in slices]
    codec = BatchCodec(batches[0].schema)
    writer = MessageWriter(codec, ChannelParameters(row_permits=window_rows))
    rows = [batch.num_rows for batch in batches]
    for most, run in ((1, batches[:1]), (len(batches), batches)):
        frames = writer.encoded([Chunks([*run], rows[:most])])
        written = sum(frame.size_bytes for frame in frames if isinstance(frame, EncodedChunks))
        assert 0 < written <= writer.most_sums(run, rows[:most])[most]
        assert written <= sum(map(codec.most_bytes_of, run))
    assert writer.most_sums(batches, rows)[0] <= 2 * codec.empty_bytes


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "tcp://127.0.0.1:0", "udp://127.0.0.1:0", "shared memory"])
async def test_every_carrier_has_the_window(listen: str) -> None:
    same_host = SameHost.REQUIRE if listen == "shared memory" else SameHost.NEVER
    chunks = chunks_of([[4_000]] * 40)
    async with (
        served("c", listen="127.0.0.1:0" if listen == "shared memory" else listen, byte_window=30_000) as (_, address),
        put(address, "c", SCHEMA, same_host=same_host, byte_window=20_000) as sender,
        get(address, "c", same_host=same_host) as receiver,
    ):
        sending = asyncio.create_task(sender.send_many(deque(chunks)))
        found = [number((await receiver.receive()).payload) for _ in chunks]
        await sending
        assert found == [*range(40)]
        assert (sender.statistics().byte_window, receiver.statistics().byte_window) == (20_000, 30_000)
        assert sender.statistics().peak_bytes_held <= 20_000
        await sender.end(closes_channel=True)


async def test_channels_that_keep_rows_have_windows_towards_both_sides() -> None:
    chunks = chunks_of([[4_000]] * 40)
    exchange = Exchange(byte_window=20_000)
    exchange.add_channel("c", retention=Retention.REPLAY)
    async with Network(exchange).opened():
        async with put(ADDRESS, "c", SCHEMA, same_host=SameHost.NEVER) as sender:
            await sender.send_many(deque(chunks))
            await sender.end()
            assert sender.statistics().peak_bytes_held <= 20_000
        async with get(ADDRESS, "c", same_host=SameHost.NEVER) as receiver:
            await until(lambda: receiver.statistics().inbox_bytes > 15_000)
            assert max(held_bytes(exchange)) <= 20_000
            found = [number(message.payload) async for message in receiver]
    assert found == [*range(40)]


async def test_blocking_ends_move_more_than_their_window() -> None:
    chunks = chunks_of([[4_000]] * 40)

    def move(address: str) -> list[int]:
        with blocking.open_sink(address, "c", SCHEMA, same_host=SameHost.NEVER, byte_window=9_000) as sink:
            for chunk in chunks[:20]:
                sink.send(chunk)
            with blocking.open_source(address, "c", same_host=SameHost.NEVER, byte_window=9_000) as source:
                found = [number(source.receive().payload) for _ in range(20)]
                for chunk in chunks[20:]:
                    sink.send(chunk)
                    found.append(number(source.receive().payload))
                sink.end(closes_channel=True, until=EndOutcome.ACCEPTED)
        return found

    async with served("c") as (_, address):
        assert await asyncio.to_thread(move, address) == [*range(40)]

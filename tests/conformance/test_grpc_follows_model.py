"""A channel of an exchange follows the model: from the producer's end through two gRPC streams, with the exchange's own
channel in between, to the consumer's end.  Each of the three streams is a behaviour of the specification.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager
from itertools import count

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from permitflow.channels.interface import ReceiveEnd, SendEnd
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.protocol.compression import Compression
from permitflow.protocol.messages import Message
from permitflow.protocol.permits import ChannelParameters
from permitflow.protocol.recording import RecorderFactory
from permitflow.transports.grpc_aio import SameHost, get, put
from permitflow.transports.remote_receiver import RemoteReceiver
from permitflow.transports.remote_sender import RemoteSender
from tests.support.led_channels import Ends, machine_for

SCHEMA = pa.schema([("serial", pa.int64())])
# Of these, each row is long enough for its chunk to be compressed.
WIDE = SCHEMA.append(pa.field("filler", pa.binary(4_096)))

# Of the profile's runs, for each path: each opens two connections, and waits for idle consumers.
RUNS_OF_A_HUNDRED = 25
FILLER = bytes(4_096)


class Exchanged:
    """Channels of one exchange, which listens on a real socket."""

    timeout_seconds = 10.0

    def __init__(self, exchange: Exchange, address: str, path: str, codec: Compression = Compression.AUTO) -> None:
        self._path = path
        self._codec = codec
        self._schema = SCHEMA if codec is Compression.AUTO else WIDE
        self._exchange = exchange
        self._address = address
        self._names = (f"c{number}" for number in count())

    @asynccontextmanager
    async def open(self, parameters: ChannelParameters, record: RecorderFactory | None) -> AsyncIterator[Ends]:
        name = next(self._names)
        self._exchange.record = record
        self._exchange.add_channel(name, parameters, self._schema)
        async with (
            put(self._address, name, self._schema, record=record, compression=self._codec) as sender,
            get(self._address, name, record=record, compression=self._codec) as receiver,
        ):
            assert {end.statistics().path.partition(":")[0] for end in (sender, receiver)} == {self._path}
            agreed = "none" if self._codec is Compression.AUTO else self._codec.value
            assert {end.statistics().compression for end in (sender, receiver)} == {agreed}
            yield sender, receiver
        # Hypothesis keeps its machines, and they this; what a broken channel holds need not live as long.
        self._exchange.remove_channel(name)
        self._exchange.record = None

    def streams(self, sender: SendEnd[object], receiver: ReceiveEnd[object]) -> Sequence[str]:
        assert isinstance(sender, RemoteSender)
        assert isinstance(receiver, RemoteReceiver)
        return sender.stream, sender.name, receiver.stream

    def chunk(self, serial: int, rows: int) -> object:
        columns = {"serial": [serial] * rows, "filler": [FILLER] * rows}
        return pa.record_batch({name: columns[name] for name in self._schema.names}, schema=self._schema)

    def serial(self, message: Message[object]) -> int | None:
        assert isinstance(message.payload, pa.RecordBatch)
        assert message.payload.num_rows == message.rows
        serials = set(message.payload.column("serial").to_pylist())
        assert len(serials) <= 1
        return serials.pop() if serials else None


@pytest.fixture
def exchanged(run: asyncio.Runner, path: str) -> Iterator[Exchanged]:
    exchange = Exchange()
    server = ExchangeServer(exchange)
    run.run(server.__aenter__())
    yield Exchanged(exchange, server.address, path)
    run.run(server.stop())


def test_a_channel_of_an_exchange_follows_the_model(run: asyncio.Runner, exchanged: Exchanged) -> None:
    _follow(run, exchanged, RUNS_OF_A_HUNDRED)


@pytest.mark.parametrize("address", ["127.0.0.1:0", "tcp://127.0.0.1:0"])
@pytest.mark.parametrize("codec", [Compression.LZ4, Compression.ZSTD])
def test_a_compressed_stream_follows_the_model(run: asyncio.Runner, address: str, codec: Compression) -> None:
    exchange = Exchange(same_host=SameHost.NEVER)
    server = ExchangeServer(exchange, address)
    run.run(server.__aenter__())
    try:
        _follow(run, Exchanged(exchange, server.address, "network", codec), RUNS_OF_A_HUNDRED // 2)
    finally:
        run.run(server.stop())


def _follow(run: asyncio.Runner, exchanged: Exchanged, runs_of_a_hundred: int) -> None:
    machine = machine_for(exchanged, run)

    run_state_machine_as_test(
        machine,
        settings=settings(max_examples=runs_of_a_hundred * settings().max_examples // 100, stateful_step_count=40),
    )

"""Running channels follow the model through runs that Hypothesis draws.

A channel of an exchange goes from the producer's end through two streams, with the exchange's own channel in between,
to the consumer's end: each of the three is a behaviour of the specification.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from itertools import count

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from permitflow import Parameters, RecorderFactory
from permitflow.client import Compression, SameHost, get, put
from permitflow.exchange import Exchange, ExchangeServer
from permitflow_testing.examples.our_channels import SCHEMA, ExchangeChannel, LocalChannel, OurChannel
from tests.support.led_channels import machine_for

# Of these, each row is long enough for its chunk to be compressed.
WIDE = SCHEMA.append(pa.field("filler", pa.binary(4_096)))
FILLER = bytes(4_096)
NAMES = (f"c{number}" for number in count())

# Of the profile's runs, for each path: each opens two connections, and waits for idle consumers.
RUNS_OF_A_HUNDRED = 25


class Exchanged(ExchangeChannel):
    """A channel of an exchange that has others, too."""

    def __init__(self, exchange: Exchange, address: str, path: str, codec: Compression = Compression.AUTO) -> None:
        self._exchange, self._address, self._path, self._codec = exchange, address, path, codec
        self._schema = SCHEMA if codec is Compression.AUTO else WIDE

    @asynccontextmanager
    async def dialled(self, parameters: Parameters, record: RecorderFactory) -> AsyncIterator[None]:
        name = next(NAMES)
        self._exchange.record = record
        self._exchange.add_channel(name, parameters, self._schema)
        async with (
            put(self._address, name, self._schema, record=record, compression=self._codec) as self.sender,
            get(self._address, name, record=record, compression=self._codec) as self.receiver,
        ):
            statistics = [end.statistics() for end in (self.sender, self.receiver)]
            agreed = "none" if self._codec is Compression.AUTO else self._codec.value
            assert {(one.path.partition(":")[0], one.compression) for one in statistics} == {(self._path, agreed)}
            yield
        # Hypothesis keeps its machines, and they this; what a broken channel holds need not live as long.
        self._exchange.remove_channel(name)
        self._exchange.record = None

    def chunk(self, serial: int, rows: int) -> object:
        columns = {"serial": [serial] * rows, "filler": [FILLER] * rows}
        return pa.record_batch({name: columns[name] for name in self._schema.names}, schema=self._schema)

    def serial(self, payload: object) -> int | None:
        assert isinstance(payload, pa.RecordBatch)
        serials = set(payload.column("serial").to_pylist())
        assert len(serials) <= 1
        return serials.pop() if serials else None


def follow(run: asyncio.Runner, make: Callable[[], OurChannel], runs_of_a_hundred: int, steps: int = 40) -> None:
    runs = runs_of_a_hundred * settings().max_examples // 100
    profile = settings(max_examples=runs, stateful_step_count=steps)
    run_state_machine_as_test(machine_for(make, run), settings=profile)


def follow_exchanged(
    run: asyncio.Runner, exchange: Exchange, listen: str, path: str, codec: Compression, runs_of_a_hundred: int
) -> None:
    server = ExchangeServer(exchange, listen)
    run.run(server.__aenter__())
    try:
        follow(run, partial(Exchanged, exchange, server.address, path, codec), runs_of_a_hundred)
    finally:
        run.run(server.stop())


def test_the_local_channel_follows_the_model(run: asyncio.Runner) -> None:
    follow(run, LocalChannel, 100, steps=50)


def test_a_channel_of_an_exchange_follows_the_model(run: asyncio.Runner, path: str) -> None:
    follow_exchanged(run, Exchange(), "127.0.0.1:0", path, Compression.AUTO, RUNS_OF_A_HUNDRED)


@pytest.mark.parametrize("codec", [Compression.LZ4, Compression.ZSTD])
def test_a_compressed_stream_follows_the_model(run: asyncio.Runner, listen: str, codec: Compression) -> None:
    exchange = Exchange(same_host=SameHost.NEVER)
    follow_exchanged(run, exchange, listen, "network", codec, RUNS_OF_A_HUNDRED // 2)

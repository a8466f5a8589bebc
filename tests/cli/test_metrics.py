"""``permitflow serve --metrics-address``: what flows, as Prometheus reads it."""

import asyncio
import socket
from collections.abc import Callable
from urllib.request import urlopen

import pyarrow as pa
import pytest
from prometheus_client.parser import text_string_to_metric_families

from permitflow.cli.serving import metrics_at
from permitflow.errors import InvalidOptionError
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.protocol.compression import Compression
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.replay import Retention
from permitflow.transports.grpc_aio import SameHost, get

Command = Callable[..., tuple[int, str, str]]
Samples = dict[tuple[str, ...], float]

SMALL = ChannelParameters(row_permits=8, permit_batch=4, max_chunk_cost=4)
CHUNK = pa.record_batch({"n": pa.array([1, 2, 3, 4], pa.int64())})


def scraped(address: str) -> Samples:
    """Every sample by its name and the values of its labels."""
    with urlopen(address, timeout=30) as answer:
        families = text_string_to_metric_families(answer.read().decode())
        return {(found.name, *found.labels.values()): found.value for family in families for found in family.samples}


def test_each_channel_has_its_counts_and_each_consumer_its_lag(run: asyncio.Runner) -> None:
    async def test() -> Samples:
        exchange = Exchange(parameters=SMALL)
        exchange.add_channel("once")
        kept = exchange.add_channel("kept", retention=Retention.REPLAY, consumers=("etl", "audit"))
        await kept.append(CHUNK)
        await kept.acknowledge(3, "etl")
        with metrics_at("127.0.0.1:0", exchange) as address:
            return await asyncio.to_thread(scraped, address)

    samples = run.run(test())
    assert samples["permitflow_rows_in_total", "kept"] == 4
    assert samples["permitflow_rows_held", "kept"] == 4
    assert samples["permitflow_row_permits", "once"] == 8
    assert samples["permitflow_lag_rows", "kept", "etl"] == 1
    assert samples["permitflow_lag_rows", "kept", "audit"] == 4
    assert samples["permitflow_channel_state", "once", "waiting"] == 1
    assert ("permitflow_staged_rows", "once") not in samples


def test_streams_that_are_compressed_are_counted_by_codec(run: asyncio.Runner) -> None:
    async def test() -> Samples:
        exchange = Exchange(parameters=SMALL, same_host=SameHost.NEVER, compression=Compression.LZ4)
        exchange.add_channel("far", schema=CHUNK.schema)
        async with ExchangeServer(exchange) as server, get(server.address, "far"):
            with metrics_at("127.0.0.1:0", exchange) as address:
                return await asyncio.to_thread(scraped, address)

    assert run.run(test())["permitflow_compressed_streams", "far", "lz4"] == 1


def test_a_port_that_is_taken_is_said_with_its_option(run: asyncio.Runner) -> None:
    async def test() -> None:
        with metrics_at(f"127.0.0.1:{taken.getsockname()[1]}", Exchange()):
            raise AssertionError("it was had")

    with socket.create_server(("127.0.0.1", 0)) as taken, pytest.raises(InvalidOptionError) as refusal:
        run.run(test())
    assert "--metrics-address" in str(refusal.value)
    assert "cannot be had: Address already in use" in str(refusal.value)


def test_the_command_refuses_it_as_unusable(command: Command) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, _, stderr = command("serve", "--stream", "s", "--address", "127.0.0.1:0", "--metrics-address", address)
    assert code == 2
    assert "--metrics-address" in stderr

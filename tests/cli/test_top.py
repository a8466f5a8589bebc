"""``permitflow top``: an exchange seen from outside, as a table and for programs."""

import asyncio
import json
import socket
from collections.abc import Callable

import pyarrow as pa
import pytest

from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.protocol.compression import Compression
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.replay import Retention
from permitflow.transports.grpc_aio import SameHost, get

Command = Callable[..., tuple[int, str, str]]

SMALL = ChannelParameters(row_permits=8, permit_batch=4, max_chunk_cost=4)
CHUNK = pa.record_batch({"n": pa.array([1, 2, 3, 4], pa.int64())})


def look(run: asyncio.Runner, command: Command, *arguments: str) -> tuple[int, str, str]:
    """Run the command beside an exchange with a channel that is full, and one that nobody has touched."""

    async def test() -> tuple[int, str, str]:
        exchange = Exchange(parameters=SMALL)
        kept = exchange.add_channel("kept", retention=Retention.REPLAY, consumers=("etl", "audit"))
        exchange.add_channel("once")
        async with ExchangeServer(exchange) as server:
            await kept.append(CHUNK)
            await kept.acknowledge(3, "etl")
            await kept.append(CHUNK)
            waiting = asyncio.create_task(kept.append(CHUNK))
            answer = await asyncio.to_thread(command, "top", server.address, "--interval", "50ms", *arguments)
            waiting.cancel()
            await asyncio.wait({waiting})
            return answer

    return run.run(test())


def test_one_look_shows_every_channel_and_who_waits(run: asyncio.Runner, command: Command) -> None:
    code, stdout, _ = look(run, command, "--once")
    assert code == 0
    heading, kept, second_consumer, once = stdout.splitlines()
    assert " ".join(heading.split()) == "channel state put/get rows in in/s out/s held room blocked in/out lag"
    assert kept.split()[:2] == ["kept", "open"]
    assert kept.endswith("audit 8")
    assert second_consumer.split() == ["etl", "5"]
    assert once.split()[:2] == ["once", "waiting"]


def test_json_has_all_numbers(run: asyncio.Runner, command: Command) -> None:
    code, stdout, _ = look(run, command, "--once", "--json", "--channel", "kept")
    (kept,) = json.loads(stdout)["channels"]
    assert code == 0
    assert (kept["channel"], kept["rows_in"], kept["rows_held"], kept["room_rows"]) == ("kept", 8, 8, 0)
    assert kept["kept"]["lag_rows"] == {"etl": 5, "audit": 8}
    assert kept["blocked_share"] > 0


def test_streams_that_are_compressed_are_counted(run: asyncio.Runner, command: Command) -> None:
    async def test() -> str:
        exchange = Exchange(parameters=SMALL, same_host=SameHost.NEVER)
        exchange.add_channel("far", schema=CHUNK.schema)
        async with ExchangeServer(exchange) as server, get(server.address, "far", compression=Compression.ZSTD):
            _, table, _ = await asyncio.to_thread(command, "top", server.address, "--interval", "50ms", "--once")
        return str(table)

    heading, far = run.run(test()).splitlines()
    assert heading.rstrip().endswith(" compressed")
    assert far.rstrip().endswith(" zstd 1")


def test_a_channel_that_is_not_there_is_unusable(run: asyncio.Runner, command: Command) -> None:
    code, _, stderr = look(run, command, "--once", "--channel", "keept")
    assert code == 2
    assert "unknown channel 'keept'" in stderr


def test_nobody_there_is_a_failure(command: Command) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        code, _, stderr = command("top", f"127.0.0.1:{nobody.getsockname()[1]}", "--once")
    assert code == 1
    assert "is gone" in stderr


@pytest.mark.parametrize(("arguments", "rule"), [(["here"], "must be HOST:PORT"), (["--interval", "0s"], "above 0")])
def test_what_cannot_be_used_is_said(command: Command, arguments: list[str], rule: str) -> None:
    code, _, stderr = command("top", *arguments)
    assert code == 2
    assert rule in stderr

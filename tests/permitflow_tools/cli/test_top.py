"""``permitflow top``: an exchange seen from outside, as a table and for programs."""

import asyncio
import json
import re
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import partial

import pyarrow as pa
import pytest

from permitflow import ChannelParameters, Demand
from permitflow.client import Compression, SameHost, get
from permitflow.client.traffic_watch import TrafficReading, TrafficWatch
from permitflow.errors import PeerGoneError
from permitflow.exchange import Retention
from tests.permitflow_tools.cli.conftest import Answer, Command
from tests.support.served import served, stopped_behind_a_barrier
from tests.support.served_exchange import served_exchange

SMALL = ChannelParameters(row_permits=8, permit_batch=4, max_chunk_cost=4)
CHUNK = pa.record_batch({"n": pa.array([1, 2, 3, 4], pa.int64())})


Top = Callable[..., Awaitable[Answer]]


@pytest.fixture
def top(command: Command) -> Top:
    """Look once at an exchange."""
    return partial(asyncio.to_thread, command, "top", "--interval", "50ms", "--once")


async def look(top: Top, *arguments: str) -> Answer:
    """Run the command beside an exchange with a channel that is full, and an unused one."""
    async with served(parameters=SMALL) as (exchange, address):
        kept = exchange.add_channel("kept", retention=Retention.REPLAY, consumers=("etl", "audit"))
        exchange.add_channel("once")
        exchange.add_channel("one by one", Demand(size=1, batch=1))
        await kept.append(CHUNK)
        await kept.acknowledge(3, "etl")
        await kept.append(CHUNK)
        waiting = asyncio.create_task(kept.append(CHUNK))
        answer = await top(address, *arguments)
        waiting.cancel()
        await asyncio.wait({waiting})
        return answer


async def test_one_of_several_exchanges_that_is_away_is_named(top: Top) -> None:
    async with served("orders/0", listen="tcp://127.0.0.1:0") as (_, address):
        code, out, error = await top(f"{address},tcp://127.0.0.1:1")
        assert (code, "no answer from tcp://127.0.0.1:1" in out) == (1, True), error
        assert out.splitlines()[1].split()[:2] == ["orders/0", address]
        code, out, _ = await top(f"{address},tcp://127.0.0.1:1", "--json")
        assert (code, len(json.loads(out)["channels"]), [*json.loads(out)["unanswered"]]) == (
            1,
            1,
            ["tcp://127.0.0.1:1"],
        )
        for names in ((), ("--channel", "orders/0")):
            _, out, _ = await top(f"{address},tcp://127.0.0.1:1", "--json", *names)
            assert json.loads(out)["channels"][0]["exchange"] == address


async def test_one_look_shows_every_channel_and_who_waits(top: Top) -> None:
    code, stdout, _ = await look(top)
    assert code == 0
    heading, kept, second_consumer, once, one_by_one = stdout.splitlines()
    assert " ".join(heading.split()) == "channel state put/get rows in in/s out/s held bytes room blocked in/out lag"
    assert kept.split()[:2] == ["kept", "open"]
    assert kept.endswith("audit 8")
    assert second_consumer.split() == ["etl", "5"]
    assert once.split()[:2] == ["once", "waiting"]
    assert once.split()[6:10] == ["0", "0", "B", "8"]
    assert one_by_one.split()[8:] == ["0", "0", "B", "0%/0%"], "it has no window in rows"


async def test_a_client_that_may_see_no_channel_is_told_so(top: Top) -> None:
    async with served() as (_, address):
        assert await top(address) == (0, "no channels here that this client may see\n", "")


async def test_json_has_all_numbers(top: Top) -> None:
    code, stdout, _ = await look(top, "--json", "--channel", "kept")
    (kept,) = json.loads(stdout)["channels"]
    assert code == 0
    assert (kept["channel"], kept["rows_in"], kept["rows_held"], kept["room_rows"]) == ("kept", 8, 8, 0)
    assert kept["kept"]["lag_rows"] == {"etl": 5, "audit": 8}
    assert kept["blocked_share"] > 0


async def test_gauges_of_a_flow_are_shown_on_request(top: Top) -> None:
    _, stdout, _ = await look(top, "--gauges", "--channel", "once")
    heading, once, *more = (" ".join(line.split()) for line in stdout.splitlines())
    assert heading.endswith(" gauges")
    assert once.split()[-2:] == ["row_permits_here", "8"]
    assert more == ["target_permits 8", "unreturned_permits 0", "withheld_permits 0"]
    _, stdout, _ = await look(top, "--json")
    gauges = [channel["gauges"] for channel in json.loads(stdout)["channels"]]
    of_permits = {"row_permits_here": 8, "unreturned_permits": 0, "withheld_permits": 0, "target_permits": 8}
    of_demand = {"messages_requested": 1, "messages_unrequested": 0, "messages_withheld": 0}
    assert gauges == [{}, of_permits, of_demand]


async def test_channels_stopped_by_a_gate_differ_from_the_awaited_one(top: Top) -> None:
    async with stopped_behind_a_barrier(CHUNK) as (_, address):
        _, table, _ = await top(address, "--interval", "100ms")
        _, told, _ = await top(address, "--interval", "100ms", "--json")
    heading, *lines = table.splitlines()
    assert heading.rstrip().endswith(" stopped")
    stopped = [int(line.rstrip(" %").split()[-1]) for line in lines]
    assert stopped[0] > 90
    assert stopped[1] == 0
    ahead, late = json.loads(told)["channels"]
    assert (ahead["consumer_gauges"]["backlog"], late["consumer_gauges"]["stopped_behind_barrier"]) == (4, 0)
    assert (ahead["consumer_stopped_share"] > 0.9, late["consumer_stopped_share"]) == (True, 0)


async def test_streams_that_are_compressed_are_counted(top: Top) -> None:
    far_away = served("far", parameters=SMALL, schema=CHUNK.schema, same_host=SameHost.NEVER)
    async with far_away as (_, address), get(address, "far", compression=Compression.ZSTD):
        _, table, _ = await top(address)
    heading, far = table.splitlines()
    assert heading.rstrip().endswith(" compressed")
    assert far.rstrip().endswith(" zstd 1")


async def test_texts_of_an_exchange_command_no_terminal_and_forge_no_line(top: Top) -> None:
    async with served(parameters=SMALL) as (exchange, address):
        exchange.add_channel("\x1b[2Ja\nb\u202e", retention=Retention.REPLAY, consumers=("\x9b1Ac\nd", "e"))
        _, table, _ = await top(address)
        _, told, _ = await top(address, "--json")
        _, _, complaint = await top(address, "--channel", "x")
    _, first, second = table.splitlines()
    assert first.startswith(r"\x1b[2Ja\nb\u202e")
    assert {first.split()[-2], second.split()[-2]} == {r"\x9b1Ac\nd", "e"}
    (channel,) = json.loads(told)["channels"]
    assert (channel["channel"], set(channel["kept"]["lag_rows"])) == ("\x1b[2Ja\nb\u202e", {"\x9b1Ac\nd", "e"})
    assert complaint.endswith(r"known channels: \x1b[2Ja\nb\u202e" + "\n")


async def test_a_channel_that_is_not_there_is_unusable(top: Top) -> None:
    code, _, stderr = await look(top, "--channel", "keept")
    assert code == 2
    assert "unknown channel 'keept'" in stderr


def test_an_address_without_an_exchange_is_a_failure(command: Command) -> None:
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        code, _, stderr = command("top", f"127.0.0.1:{nobody.getsockname()[1]}", "--once")
    assert code == 1
    assert "is gone" in stderr


# What looks come to, one after the other; then somebody presses Ctrl-C.
GONE = PeerGoneError(who="the exchange", reason="it broke off")
AWAY = PeerGoneError(who="the exchange", reason="away")
SEEN = TrafficReading(at_seconds=1.0, flows=[])
ADDRESS = "127.0.0.1:50051"


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first look, and these."""
    script: Iterator[TrafficReading | BaseException] = iter([SEEN, GONE, AWAY, AWAY, SEEN, AWAY, KeyboardInterrupt()])

    def look(_: TrafficWatch) -> TrafficReading:
        if isinstance(seen := next(script), BaseException):
            raise seen
        return seen

    monkeypatch.setattr(TrafficWatch, "look", look)


@pytest.mark.usefixtures("looks")
def test_an_exchanges_loss_and_return_are_told_once(command: Command) -> None:
    code, stdout, _ = command("top", ADDRESS, "--interval", "1ms")
    said = [re.sub(r"at \d{4}-\S+ \S+, \d+ s ago", "at ...", line) for line in stdout.splitlines() if ADDRESS in line]
    gone, away = (f"{ADDRESS} was last seen at ...; asking again: {error}" for error in (GONE, AWAY))
    assert (code, said) == (130, [gone, away, f"{ADDRESS} is seen again", away])


@pytest.mark.usefixtures("looks")
def test_json_has_a_line_for_each_look_that_saw_nothing(command: Command) -> None:
    began = datetime.now(UTC)
    _, stdout, _ = command("top", ADDRESS, "--interval", "1ms", "--json")
    lost = [line for line in map(json.loads, stdout.splitlines()) if "error" in line]
    assert [(line["error"], line["address"]) for line in lost] == [
        (str(error), ADDRESS) for error in (GONE, AWAY, AWAY, AWAY)
    ]
    since = [datetime.fromisoformat(line["last_seen"]) for line in lost]
    # To the millisecond, which is cut off.
    assert began - timedelta(seconds=1) < since[0] == since[1] == since[2] <= since[3] <= datetime.now(UTC)
    assert all(line["seconds_ago"] > 0 for line in lost)


@pytest.mark.usefixtures("looks")
def test_a_terminal_says_it_in_place_of_the_table(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes the output for a terminal
    _, stdout, _ = command("top", ADDRESS, "--interval", "1ms")
    assert f"{ADDRESS} was last seen at " in stdout
    assert "is seen again" not in stdout


def test_an_exchange_that_is_killed_is_last_seen_and_asked_again() -> None:
    with served_exchange() as exchange:
        what = ["top", exchange.address, "--interval", "50ms", "--channel", exchange.channel()]
        with subprocess.Popen(
            [sys.executable, "-m", "permitflow_tools.cli", *what], stdout=subprocess.PIPE, text=True
        ) as top:
            try:
                assert top.stdout is not None
                assert top.stdout.readline().startswith("channel")
                exchange.signal(signal.SIGKILL)
                said = next(line for line in top.stdout if "last seen" in line)
                assert said.startswith(f"{exchange.address} was last seen at ")
                assert "s ago; asking again: " in said
                top.send_signal(signal.SIGINT)
                assert top.wait(60) == 130
            finally:
                top.kill()

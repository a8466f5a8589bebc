"""``permitflow serve --processes``: one exchange, whose channels live in several processes."""

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from permitflow.client import Security, control, describe, put
from permitflow.client.diagnosis import explained
from permitflow.client.health import is_serving
from permitflow.errors import (
    InvalidParametersError,
    PeerTimeoutError,
    RetentionError,
    UnknownChannelError,
)
from permitflow.exchange import Retention
from tests.permitflow_tools.cli.conftest import Command, serving
from tests.permitflow_tools.cli.test_serve import events_of, move, stop
from tests.support.certificates import LOCAL, PAST, Certificates
from tests.support.serving import address_of

CHANNELS = ["orders/0", "orders/1", "orders/2"]
SCHEMA = pa.schema([("x", pa.int64())])


Running = tuple["subprocess.Popen[str]", Iterator[dict[str, Any]], str]


@contextmanager
def two_processes() -> Iterator[Running]:
    with serving("--stream", "orders:3", "--stream", "other:2", "--processes", "2", "--json") as process:
        events = events_of(process)
        listening = next(events)
        assert listening["channels"] == [*CHANNELS, "other/0", "other/1"]
        yield process, events, listening["address"]


@pytest.fixture(scope="module")
def door() -> Iterator[str]:
    """Its address; the command ends well, and says what flowed in all processes."""
    with two_processes() as (process, _, address):
        yield address
        code, rest, errors = stop(process, signal.SIGTERM)
    assert (code, errors) == (0, "")
    stopped = json.loads(rest.splitlines()[-1])
    assert stopped["event"] == "stopped"
    assert {"orders/0", "other/1"} <= {channel["channel"] for channel in stopped["channels"]}


def children_of(process: "subprocess.Popen[str]") -> list[int]:
    return [int(pid) for pid in Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()]


def test_a_process_begins_without_standard_error() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        program = f"from permitflow_tools.cli.one_process import main; main({theirs.fileno()})"
        command = ["sh", "-c", 'exec "$0" -c "$1" 2>&-', sys.executable, program]
        process = subprocess.Popen(command, pass_fds=(theirs.fileno(),))
    assert process.wait(timeout=60) == 0  # the first one has hung up


async def ready(door: str, *, is_ready: bool) -> None:
    """Wait for this answer to a question about its health."""
    async with asyncio.timeout(60.0):
        while await asyncio.to_thread(is_serving, door) is not is_ready:
            pass


async def test_whoever_dials_the_door_reaches_every_channel(door: str) -> None:
    assert [await move(door, name, 3) for name in CHANNELS] == [300, 300, 300]
    with pytest.raises(UnknownChannelError, match="orders/0, orders/1, orders/2"):
        await describe(door, "none")
    async with control(door) as orders:
        told = {each.channel: each.rows_in for each in (await orders.statistics()).channels}
        assert [told[name] for name in CHANNELS] == [300, 300, 300]
        listed = await orders.channels(["orders/1", "orders/0"])
        assert [each.traffic.channel for each in listed] == ["orders/1", "orders/0"]
        await orders.reset(["orders/0", "orders/2"])  # both in one process
        await orders.add_stream("late", 2)
        await orders.remove(["orders/2"])
    assert await move(door, "late/1", 2) == 200
    with pytest.raises(UnknownChannelError, match="late/1"):
        await describe(door, "orders/2")


async def test_channels_of_several_processes_keep_no_rows(door: str) -> None:
    async with control(door) as orders:
        with pytest.raises(RetentionError, match="other/0"):
            await orders.positions(["other/0", "other/1"])
    async with control(door) as orders:
        with pytest.raises(InvalidParametersError, match="--processes 1"):
            await orders.add_stream("kept", retention=Retention.REPLAY)


@pytest.mark.long
async def test_a_lost_process_is_named_and_started_again() -> None:
    with two_processes() as (process, events, door):
        os.kill(children_of(process)[1], signal.SIGKILL)
        lost = next(event for event in events if event["event"] == "process lost")
        assert (lost["process"], lost["end"]) == (2, "killed by SIGKILL")
        assert lost["channels"] == ["orders/1", "other/0"]
        assert await move(door, "orders/0", 2) == 200
        assert next(event for event in events if event["event"] == "process started")["process"] == 2
        await ready(door, is_ready=True)
        code, _, errors = stop(process, signal.SIGTERM)
    assert code == 0
    assert "reset them" in errors


@pytest.mark.long
async def test_a_process_that_hangs_is_named_and_killed_at_the_end(command: Command) -> None:
    with two_processes() as (process, _, door):
        os.kill(children_of(process)[0], signal.SIGSTOP)
        async with control(door) as orders:
            told = {each.channel: each.state for each in (await orders.statistics()).channels}
            assert (told["orders/0"], told["orders/1"]) == ("silent", "waiting")
            with pytest.raises(PeerTimeoutError, match="process 1 of the exchange"):
                await orders.statistics(["orders/0"])
        code, told_of, error = await asyncio.to_thread(
            command, "channel", "reset", "orders", "--broken", "--address", door
        )
        assert (code, told_of) == (1, "none of these channels is broken\n")
        assert "process 1 of the exchange does not answer" in error
        assert await move(door, "orders/1", 2) == 200
        await ready(door, is_ready=False)
        assert await explained(door, "orders/0", None, "") == (
            False,
            "process 1 of the exchange does not answer: no answer within 1 s",
        )
        code, rest, errors = stop(process, signal.SIGTERM)
    assert code == 1
    assert '"it did not answer, and was killed"' in rest
    assert "orders/0" in errors


@pytest.mark.long
async def test_an_exchange_is_ready_again_once_all_processes_answer() -> None:
    with two_processes() as (process, _, door):
        hanging, _ = children_of(process)
        os.kill(hanging, signal.SIGSTOP)
        await ready(door, is_ready=False)
        os.kill(hanging, signal.SIGCONT)
        await ready(door, is_ready=True)
        code, _, errors = stop(process, signal.SIGTERM)
    told = [line.partition(": ")[0] for line in errors.splitlines()]
    who = "process 1 of the exchange"
    assert (code, told) == (0, [f"{who} has not answered for 8 s", f"{who} answers again"])


@pytest.mark.long
async def test_changed_files_that_cannot_be_used_are_told_once(tmp_path: Path) -> None:
    tokens, own = tmp_path / "tokens", tmp_path / "own"
    for file in tokens, own:
        file.write_text("a-token-of-somebody")
    with serving("--stream", "orders:2", "--processes", "2", "--quiet", "--token-file", str(tokens)) as process:
        door = address_of(process)
        tokens.write_text("")
        for channel in ("orders/0", "orders/1"):
            async with put(door, channel, SCHEMA, security=Security(token_file=own)) as sender:
                await sender.end()
        _, _, errors = stop(process, signal.SIGTERM)
    assert errors.count("changed files cannot be used") == 1


@pytest.mark.long
def test_an_expired_certificate_is_told_once_for_all_processes(certificates: Certificates, tmp_path: Path) -> None:
    file = certificates.write(tmp_path / "old.pem", *LOCAL, life=PAST)
    with serving("--stream", "orders:2", "--processes", "2", "--quiet", "--tls-cert", str(file)) as process:
        address_of(process)
        _, _, errors = stop(process, signal.SIGTERM)
    assert errors.count("it has expired") == 1

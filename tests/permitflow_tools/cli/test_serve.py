"""``permitflow serve`` as a process: what it says, how it stops, and what it refuses."""

import asyncio
import fcntl
import json
import os
import pty
import re
import select
import signal
import socket
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterable, Iterator
from contextlib import AsyncExitStack, closing, contextmanager, suppress
from http.server import BaseHTTPRequestHandler
from io import FileIO
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

import pyarrow as pa
import pytest
from prometheus_client.core import Metric

from permitflow.client import get, put
from permitflow.errors import UnauthenticatedError
from permitflow.exchange import Exchange, Retention
from permitflow.exchange.serving import traffic_through
from permitflow.metrics import ExchangeCollector, ExchangeFigures
from permitflow.stream.traffic import rates_between
from permitflow.tracing import read_trace
from permitflow_testing.traces import judge_all
from permitflow_tools.cli import serving as cli_serving
from permitflow_tools.cli.serve_reports import ServeReport
from permitflow_tools.cli.serving import metrics_at
from permitflow_tools.explain import page_server
from permitflow_tools.explain.page_server import MOST_READERS
from tests.permitflow_tools.cli.conftest import Command, serving
from tests.permitflow_tools.cli.test_unblocked import waiting_bytes
from tests.support.serving import address_of, line_of
from tests.support.turns import until

ROWS_OF_CHUNK = 100
SCHEMA = pa.schema([("x", pa.int64())])


# As a script's shell starts what it has in the background.
IGNORING_CTRL_C = ("sh", "-c", 'trap "" INT; exec "$@"', "sh")


def events_of(process: "subprocess.Popen[str]") -> Iterator[dict[str, Any]]:
    while line := line_of(process):
        event = json.loads(line)
        assert isinstance(event, dict)
        yield event


def stop(process: "subprocess.Popen[str]", number: signal.Signals) -> tuple[int, str, str]:
    """Send a signal and wait for the end: exit code, and what was printed since."""
    process.send_signal(number)
    stdout, stderr = process.communicate(timeout=30)
    return process.returncode, stdout, stderr


@pytest.fixture
def logging_refusals(tmp_path: Path) -> tuple[str, ...]:
    (tmp_path / "tokens").write_text("a-token-of-somebody")
    return ("--token-file", str(tmp_path / "tokens"), "--log-level", "info")


async def move(address: str, channel: str, chunks: int) -> int:
    """Put chunks into a channel and get them from it; how many rows came out."""
    batch = pa.record_batch({"x": pa.array(range(ROWS_OF_CHUNK))})

    async def produce() -> None:
        async with put(address, channel, batch.schema) as sender:
            for _ in range(chunks):
                await sender.send(batch)
            await sender.end(closes_channel=True)

    rows = 0
    async with asyncio.TaskGroup() as group:
        group.create_task(produce())
        async with get(address, channel) as receiver:
            async for message in receiver:
                rows += message.rows
    return rows


async def test_it_bridges_producers_and_consumers_and_says_what_flowed() -> None:
    with serving("--stream", "orders:2", "--stream", "other", "--row-permits", "400", "--json") as process:
        events = events_of(process)
        listening = next(events)
        assert listening["event"] == "listening"
        assert listening["channels"] == ["orders/0", "orders/1", "other/0"]
        assert await move(listening["address"], "orders/1", 50) == 50 * ROWS_OF_CHUNK
        process.send_signal(signal.SIGTERM)
        remaining = list(events)
        assert [event["event"] for event in remaining if event["event"] != "traffic"] == ["stopping", "stopped"]
        assert process.wait(timeout=30) == 0
    traffic = {channel["channel"]: channel for channel in remaining[-1]["channels"]}
    assert traffic["orders/0"]["rows_in"] == 0
    moved = traffic["orders/1"]
    assert (moved["rows_in"], moved["rows_out"], moved["state"]) == (5000, 5000, "spent")
    assert moved["rows_held"] == 0
    assert 0 < moved["peak_rows_held"] <= moved["window_rows"] == 400


COMMANDS = "\x1b[2J\x9b1A\rlate\nlistening at 10.6.6.6:1\u202e"


@pytest.mark.parametrize("as_json", [False, pytest.param(True, marks=pytest.mark.long)], ids=["log", "json"])
async def test_texts_of_a_producer_command_no_terminal_and_forge_no_line(as_json: bool) -> None:
    with serving("--stream", "orders", *(["--json"] if as_json else [])) as process:
        address = next(events_of(process))["address"] if as_json else address_of(process)
        async with put(address, "orders/0", SCHEMA) as sender:
            sender.abort(COMMANDS)
        code, stdout, stderr = stop(process, signal.SIGTERM)
    assert (code, stderr) == (0, "")
    # Split at line ends only: other characters end lines in Python's opinion, too.
    said = stdout.removesuffix("\n").split("\n")
    assert all(character.isprintable() for line in said for character in line)
    assert not any("listening" in line and "gave up" not in line for line in said)
    if as_json:
        (orders,) = json.loads(said[-1])["channels"]
        assert orders["reason"].endswith(f"gave up: {COMMANDS}")
    else:
        assert any(r"gave up: \x1b[2J\x9b1A\rlate\nlistening at 10.6.6.6:1\u202e" in line for line in said)


def test_a_large_permit_batch_alone_leaves_the_rest_to_chunks() -> None:
    with serving("--stream", "orders", "--permit-batch", "100000", "--quiet") as process:
        address_of(process)
        assert stop(process, signal.SIGTERM) == (0, "", "")


async def test_a_log_has_a_line_for_what_happened() -> None:
    with serving("--stream", "orders:2") as process:
        address = address_of(process)
        assert line_of(process) == "channels: orders/0, orders/1"
        await move(address, "orders/0", 3)
        code, stdout, stderr = stop(process, signal.SIGTERM)
    assert (code, stderr) == (0, "")
    assert "orders/0 spent (it was read to its end by" in stdout
    assert "300 rows in, 300 out" in stdout
    assert "orders/1" not in stdout
    assert stdout.endswith("stopped: 300 rows in, 300 rows out\n")


@pytest.mark.parametrize("as_json", [False, True], ids=["log", "json"])
async def test_what_has_not_changed_is_not_said_again(capsys: pytest.CaptureFixture[str], as_json: bool) -> None:
    exchange = Exchange()
    await exchange.add_channel("kept", retention=Retention.REPLAY).append(pa.record_batch({"x": pa.array([1, 2])}))
    flows = rates_between(None, await traffic_through(exchange))
    said = []
    with ServeReport(as_json=as_json, quiet=False) as report:
        for _ in range(2):
            deque(report.show(flows), maxlen=0)
            said.append("kept" in capsys.readouterr().out)
    assert said == [True, False]


async def test_a_log_of_level_info_has_refused_clients_and_their_time(logging_refusals: tuple[str, ...]) -> None:
    with serving("--stream", "orders", "--quiet", *logging_refusals) as process:
        with pytest.raises(UnauthenticatedError):
            async with get(address_of(process), "orders/0"):
                pass
        _, _, stderr = stop(process, signal.SIGTERM)
    assert re.search(r"^20\d\d-\d\d-\d\d \d\d:\d\d:\d\d,\d{3} INFO the client at \S+ was refused: ", stderr, re.M)


async def test_in_the_background_it_ignores_ctrl_c_and_heeds_sigterm() -> None:
    with serving("--stream", "orders", "--quiet", by=IGNORING_CTRL_C) as process:
        address = address_of(process)
        process.send_signal(signal.SIGINT)
        await move(address, "orders/0", 3)
        assert stop(process, signal.SIGTERM) == (0, "", "")


async def test_a_recording_is_a_behaviour_of_the_specification(tmp_path: Path) -> None:
    path = tmp_path / "run.jsonl"
    with serving("--stream", "orders", "--row-permits", "300", "--trace", str(path), "--quiet") as process:
        await move(address_of(process), "orders/0", 20)
        assert stop(process, signal.SIGTERM)[0] == 0
    verdicts = {verdict.channel: verdict for verdict in judge_all(read_trace(path))}
    inside = verdicts["orders/0"]
    assert inside.is_valid
    assert inside.is_at_rest
    assert inside.rows == 20 * ROWS_OF_CHUNK


@pytest.mark.parametrize("content", ["evidence\n", ""])
def test_an_earlier_recording_is_not_written_over(command: Command, tmp_path: Path, content: str) -> None:
    path = tmp_path / "run.jsonl"
    path.write_text(content)
    code, stdout, stderr = command("serve", "--stream", "orders", "--trace", str(path))
    assert (code, stdout) == (2, "")
    assert stderr == (f"Error: --trace: {path} exists already, and a recording is never overwritten: name a new file\n")
    assert path.read_text() == content


@pytest.mark.parametrize("name", ["run.jsonl", pytest.param("run.parquet", marks=pytest.mark.long)])
def test_an_exchange_that_cannot_listen_leaves_no_recording(process: Command, tmp_path: Path, name: str) -> None:
    link = tmp_path / f"link-{name}"
    link.symlink_to(tmp_path / name)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        code, _, stderr = process("serve", "--stream", "orders", "--address", address, "--trace", str(link))
    assert (code, stderr) == (2, f"Error: --address: cannot listen at {address}: Address already in use\n")
    assert list(tmp_path.iterdir()) == [link]


async def test_an_exchange_whose_recording_fails_ends_with_1() -> None:
    with serving("--stream", "orders", "--trace", "/dev/full", "--quiet") as process:
        await move(address_of(process), "orders/0", 20)
        code, _, stderr = stop(process, signal.SIGTERM)
    assert (code, "recording in /dev/full is incomplete: No space left on device" in stderr) == (1, True)


def test_few_descriptors_are_told_with_what_they_suffice_for() -> None:
    with serving("--stream", "orders", "--quiet", by=("sh", "-c", 'ulimit -n 164; exec "$@"', "sh")) as process:
        address_of(process)
        told = stop(process, signal.SIGTERM)[2]
    assert told.startswith(
        "warning: this process may have 164 descriptors, which suffice for 100 connections, 50 of them"
    )


def test_a_recording_may_go_into_a_pipe(tmp_path: Path) -> None:
    path = tmp_path / "pipe"
    os.mkfifo(path)
    with subprocess.Popen(["cat", str(path)], stdout=subprocess.PIPE) as reader:
        try:
            with serving("--stream", "orders", "--trace", str(path), "--quiet") as process:
                address_of(process)
                assert stop(process, signal.SIGTERM)[0] == 0
            assert reader.communicate(timeout=60)[0].endswith(b'{"permitflow_trace_events": 0}\n')
        finally:
            reader.kill()
    assert path.is_fifo()


@contextmanager
def on_a_terminal(*options: str, errors: int | None = None) -> "Iterator[tuple[subprocess.Popen[bytes], FileIO]]":
    """An exchange with the channel orders/0 that talks to a terminal, and this terminal's other end.

    ``errors``: where its standard error goes; None: to the terminal.
    """
    parent, child = pty.openpty()
    with FileIO(parent) as terminal:
        command = [sys.executable, "-m", "permitflow_tools.cli", "serve", "--address", "127.0.0.1:0"]
        with subprocess.Popen(
            [*command, "--stream", "orders", *options],
            stdin=child,
            stdout=child,
            stderr=child if errors is None else errors,
            env={**os.environ, "TERM": "xterm", "COLUMNS": "100"},
        ) as process:
            os.close(child)
            try:
                yield process, terminal
            finally:
                process.kill()


def read_until(terminal: FileIO, words: bytes, seen: bytes = b"") -> bytes:
    """What stands there up to these words, and a little more."""
    while words not in seen:
        seen += terminal.read(65536) or b""
    return seen


def test_a_terminal_gets_a_table() -> None:
    with on_a_terminal() as (process, terminal):
        seen = read_until(terminal, b"orders/0")
        process.send_signal(signal.SIGINT)
        seen = read_until(terminal, b"stopped: 0 rows in, 0 rows out", seen)
        assert process.wait(timeout=30) == 130
    text = seen.decode()
    assert "listening at 127.0.0.1:" in text
    for heading in ("channel", "rows in", "in/s", "held", "blocked in/out"):
        assert heading in text


async def be_refused(seen: bytes) -> None:
    """Dial without a token where the exchange said that it listens."""
    address = re.search(r"listening at (\S+)", seen.decode())
    assert address is not None
    with pytest.raises(UnauthenticatedError):
        async with get(address[1], "orders/0"):
            pass


async def test_a_log_line_on_a_terminal_stays_above_the_table(logging_refusals: tuple[str, ...]) -> None:
    with on_a_terminal(*logging_refusals) as (_, terminal):
        await be_refused(read_until(terminal, b"orders/0"))
        line = await asyncio.to_thread(read_until, terminal, b"INFO the client at ")
        behind = line.partition(b"INFO the client at ")[2]
        behind = await asyncio.to_thread(read_until, terminal, b"\x1b[1A", behind)  # where it begins to draw anew
    assert b"orders/0" in behind.partition(b"\x1b[1A")[0]


async def test_a_log_that_goes_elsewhere_does_so_beside_a_table(logging_refusals: tuple[str, ...]) -> None:
    with on_a_terminal(*logging_refusals, errors=subprocess.PIPE) as (process, terminal):
        await be_refused(read_until(terminal, b"orders/0"))
        process.terminate()
        assert b"INFO the client at " in (await asyncio.to_thread(process.communicate))[1]


def test_a_terminal_that_has_gone_is_told_in_the_log() -> None:
    with on_a_terminal(errors=subprocess.PIPE) as (process, terminal):
        read_until(terminal, b"orders/0")
        terminal.close()
        assert process.stderr is not None
        assert select.select([process.stderr], [], [], 30.0)[0], "nothing is told"
        assert process.stderr.readline().startswith(b"warning: standard output cannot be written any more")


@pytest.mark.parametrize("as_json", [False, True], ids=["log", "json"])
def test_an_exchange_outlives_an_output_that_takes_nothing(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch, as_json: bool
) -> None:
    with open("/dev/full", "w") as full:
        monkeypatch.setattr(sys, "stdout", full)
        with ServeReport(as_json=as_json, quiet=False) as report:
            report.listening(["127.0.0.1:1"], ["orders/0"], 1, before_streams_bytes=1, limit_bytes=None)
            report.metrics("http://127.0.0.1:2/metrics")
            report.page("http://127.0.0.1:3/")
    assert capsys.readouterr().err.count("warning: standard output cannot be written any more") == 1


async def test_a_log_whose_reader_has_gone_ends_and_the_exchange_goes_on() -> None:
    with serving("--stream", "orders:2") as process:
        address = address_of(process)
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        await move(address, "orders/0", 3)
        assert process.stderr.readline().startswith("warning: standard output cannot be written any more, so nothing")
        await move(address, "orders/1", 3)
        process.send_signal(signal.SIGTERM)
        assert (process.wait(timeout=30), process.stderr.read()) == (0, "")


async def test_streams_go_on_while_nobody_reads_the_log() -> None:
    with serving("--stream", "orders:300", "--json") as process:
        address = next(events_of(process))["address"]
        assert process.stdout is not None
        descriptor = process.stdout.fileno()
        size_bytes = fcntl.fcntl(descriptor, fcntl.F_SETPIPE_SZ, 4_096)
        await move(address, "orders/0", 3)
        await until(lambda: waiting_bytes(descriptor) == size_bytes)
        assert await move(address, "orders/1", 3) == 3 * ROWS_OF_CHUNK
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=30) == 0


def test_an_exchange_whose_terminal_has_gone_drains() -> None:
    parent, child = pty.openpty()
    command = [sys.executable, "-m", "permitflow_tools.cli", "serve", "--address", "127.0.0.1:0", "--stream", "orders"]
    ignored = signal.signal(signal.SIGHUP, signal.SIG_DFL)  # as under nohup, which the command would follow
    process = subprocess.Popen(command, stdin=child, stdout=child, stderr=child)
    signal.signal(signal.SIGHUP, ignored)
    os.close(child)
    try:
        seen = b""
        while b"orders/0" not in seen:
            seen += os.read(parent, 65536)
        os.close(parent)
        process.send_signal(signal.SIGHUP)  # what the kernel sends if it is the process's own terminal
        assert process.wait(timeout=30) == 0
    finally:
        process.kill()
        process.wait()


@pytest.mark.parametrize("option", ["--metrics-address", "--ui"])
def test_an_address_in_use_is_told_before_any_is_announced(command: Command, tmp_path: Path, option: str) -> None:
    trace = tmp_path / "run.jsonl"
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        common = ("serve", "--stream", "s", "--address", "127.0.0.1:0", "--trace", str(trace))
        code, stdout, stderr = command(*common, option, address)
    assert (code, stdout, trace.exists()) == (2, "", False)
    assert option in stderr


async def test_a_reader_of_metrics_is_told_that_the_exchange_is_busy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("permitflow.metrics._LONGEST_ANSWER_SECONDS", 0.01)

    async def look() -> ExchangeFigures:
        await asyncio.Event().wait()
        raise AssertionError("it waits for ever")

    async with metrics_at("127.0.0.1:0", ExchangeCollector(Exchange(), look)) as address:
        with pytest.raises(HTTPError, match="503: the exchange does not answer"):
            await asyncio.to_thread(urlopen, address, timeout=30)


async def test_a_reader_that_takes_nothing_hears_no_second_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    class Large(ExchangeCollector):
        def collect(self) -> Iterable[Metric]:
            yield Metric("large", "x" * 16_000_000, "gauge")

    def readers() -> bool:
        return any("process_request_thread" in thread.name for thread in threading.enumerate())

    answers = list[object]()
    monkeypatch.setattr(cli_serving, "READER_SECONDS", 0.1)
    monkeypatch.setattr(BaseHTTPRequestHandler, "send_error", lambda *error: answers.append(error))
    async with metrics_at("127.0.0.1:0", Large(Exchange())) as address, asyncio.timeout(30.0):
        with socket.create_connection(("127.0.0.1", int(address.rpartition(":")[2].partition("/")[0]))) as reader:
            reader.sendall(b"GET /metrics HTTP/1.0\r\n\r\n")
            assert await asyncio.to_thread(reader.recv, 12) == b"HTTP/1.0 200"
            await until(lambda: not readers())
    assert answers == []


async def test_metrics_at_a_name_of_both_families_are_at_that_of_ipv4(monkeypatch: pytest.MonkeyPatch) -> None:
    found = [(socket.AF_INET6, 1, 6, "", ("::1", 0, 0, 0)), (socket.AF_INET, 1, 6, "", ("127.0.0.1", 0))]
    with monkeypatch.context() as patched:
        patched.setattr(socket, "getaddrinfo", lambda *_, **__: found)
        metrics = metrics_at("both.example:0", ExchangeCollector(Exchange()))
        address = await metrics.__aenter__()
    try:
        port = int(address.rpartition(":")[2].partition("/")[0])
        _, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.close()
    finally:
        await metrics.__aexit__(None, None, None)


async def test_readers_of_metrics_that_say_nothing_take_few_places() -> None:
    """The library's own server takes a thread and a descriptor for each, for ever."""
    async with AsyncExitStack() as stack, asyncio.timeout(8.0):
        address = await stack.enter_async_context(metrics_at("127.0.0.1:0", ExchangeCollector(Exchange())))
        port = int(address.rpartition(":")[2].partition("/")[0])
        for _ in range(MOST_READERS):
            _, silent = await asyncio.open_connection("127.0.0.1", port)
            stack.enter_context(closing(silent))
        reader, further = await asyncio.open_connection("127.0.0.1", port)
        with closing(further):
            assert await reader.read() == b""


async def test_a_reader_that_sends_a_byte_now_and_then_is_hung_up_on(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(page_server, "REQUEST_SECONDS", 0.2)
    async with metrics_at("127.0.0.1:0", ExchangeCollector(Exchange())) as address, asyncio.timeout(8.0):
        port = int(address.rpartition(":")[2].partition("/")[0])
        reader, slow = await asyncio.open_connection("127.0.0.1", port)
        with closing(slow), suppress(ConnectionError):
            while not reader.at_eof():
                slow.write(b"G")
                with suppress(TimeoutError):
                    await asyncio.wait_for(reader.read(), 0.05)

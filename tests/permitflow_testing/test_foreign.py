"""Ends in other languages: the drivers of interop/ keep the rules, their seeded faults are named, and a driver that
breaks the rules of its own protocol is told so, within bounds.
"""

import asyncio
import gc
import os
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import psutil
import pytest

from permitflow.errors import InvalidParametersError
from permitflow.flows.recording import RecorderFactory
from permitflow.tracing import FileTrace, read_trace
from permitflow_testing.adapter import ChannelAdapter
from permitflow_testing.bounded import BoundedAdapter, Habits, turns
from permitflow_testing.foreign.byte_runs import BYTE_WINDOW
from permitflow_testing.foreign.command import hello
from permitflow_testing.foreign.driver import Driver, DriverError, kill_all
from permitflow_testing.foreign.judging import judge_command, rules_of_end
from permitflow_testing.rulebooks.table import flows, rulebook_of
from permitflow_testing.rules import Outcome, RuleVerdict
from permitflow_testing.traces import judge_all
from tests.support.turns import until

FAULTS = {
    "overtaking": ("sender", "oldest-leaves-first", "lets a small chunk overtake a large one that waits"),
    "last-permit": ("sender", "whole-window", "does not spend the last permit"),
    "early-return": ("receiver", "returned-when-consumed", "returns permits when a message arrives"),
    "no-flush": ("receiver", "residue-returned", "keeps a residue below a batch"),
    "ignores-cancel": (
        "sender",
        "stop-ends-sends",
        "your driver's end breaks a rule of the wire: it sends a chunk with permits that came behind Cancel",
    ),
}
ENDS = ("sender", "receiver")
SLOW = ("every-edge", "random-runs")


@pytest.fixture(scope="module")
def on_node(repository: Path) -> str:
    if shutil.which("node") is None:
        pytest.skip("node is needed")
    return f"node {repository / 'interop/node/driver.js'}"


@pytest.fixture(scope="module")
def on_java(repository: Path, tmp_path_factory: pytest.TempPathFactory) -> str:
    if shutil.which("javac") is None:
        pytest.skip("a JDK is needed")
    classes = tmp_path_factory.mktemp("driver")
    sources = sorted((repository / "interop/java/driver").glob("*.java"))
    subprocess.run(["javac", "-Xlint:all", "-Werror", "-d", classes, *sources], check=True)
    return f"java -cp {classes} Driver"


@contextmanager
def driven(command: str, *, limit_seconds: float = 10.0, end_seconds: float = 2.0) -> Iterator[Driver]:
    driver = Driver(command, limit_seconds=limit_seconds, end_seconds=end_seconds)
    try:
        yield driver
    finally:
        driver.end()


@pytest.fixture(params=["on_node", pytest.param("on_java", marks=pytest.mark.long)])
def command(request: pytest.FixtureRequest) -> str:
    found: str = request.getfixturevalue(request.param)
    return found


@pytest.mark.parametrize("end", ENDS)
def test_a_foreign_end_keeps_the_rules(command: str, end: str) -> None:
    rules = [*(rule.id for rule in rulebook_of("permits").rules if rule.id not in SLOW), BYTE_WINDOW.id]
    with driven(command) as driver:
        report = judge_command(driver, end=end, only=rules)
    assert report.conforms, str(report)
    assert report.not_checked == ()


@pytest.mark.long
@pytest.mark.parametrize("end", ENDS)
@pytest.mark.parametrize("flow", flows())
def test_a_foreign_end_keeps_all_rules(command: str, flow: str, end: str) -> None:
    with driven(command) as driver:
        if flow not in hello(driver).flows:
            pytest.skip(f"it has no {flow}")
        report = judge_command(driver, end=end, flow=flow)
    assert report.conforms, str(report)


@pytest.mark.parametrize("fault", FAULTS)
def test_a_seeded_fault_is_named(command: str, fault: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERMITFLOW_FAULT", fault)
    end, rule, name = FAULTS[fault]
    with driven(command) as driver:
        report = judge_command(driver, end=end, only=[rule])
    assert report[rule].outcome is Outcome.BREAKS
    assert report[rule].finding == name


@pytest.mark.parametrize(
    ("end", "found"),
    [
        ("sender", "a frame of chunks of 152 bytes, while 152 bytes are out, of a byte window of 1"),
        ("receiver", "keeps 152 bytes of consumed chunks: from 1 on, a quarter of the byte window"),
    ],
)
def test_an_end_without_a_byte_window_is_named(
    command: str, end: str, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERMITFLOW_FAULT", "ignores-bytes")
    with driven(command) as driver:
        report = judge_command(driver, end=end, only=["byte-window"])
    assert report.broken == ("byte-window",)
    assert found in report["byte-window"].finding


@pytest.mark.parametrize(
    ("fault", "end", "dial", "found"),
    [
        ("no-ended", "receiver", "", "its end has not written Ended within 2 s"),
        ("stops-silently", "receiver", "", "answered 'stop', and its end has not written Cancel within 2 s"),
        ("half-open", "sender", "tcp://127.0.0.1:0", "does not close its half of the stream after the end"),
        pytest.param("half-open", "receiver", "", "does not close its half of the stream", marks=pytest.mark.long),
    ],
)
def test_an_end_that_does_not_finish_is_named(
    on_node: str, fault: str, end: str, dial: str, found: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERMITFLOW_FAULT", fault)
    with driven(on_node, limit_seconds=2.0) as driver:
        report = judge_command(driver, end=end, dial=dial, only=["end-comes-last", "stop-ends-sends"])
    assert found in str(report)
    assert not report.conforms


def test_a_receiver_may_return_what_it_drops_before_it_cancels(on_node: str, repository: Path, tmp_path: Path) -> None:
    for path in (repository / "interop/node").glob("*.js"):
        shutil.copy(path, tmp_path)
    text = (wire := tmp_path / "wire.js").read_text()
    cancel = next(line for line in text.splitlines() if "'stops-silently'" in line)
    drop = "    while (this.inbox.length) this.consume();"
    assert f"{cancel}\n{drop}" in text
    wire.write_text(text.replace(f"{cancel}\n{drop}", f"{drop}\n    this.returnDue();\n{cancel}"))
    with driven(f"node {tmp_path / 'driver.js'}") as driver:
        report = judge_command(driver, end="receiver", only=["stop-ends-sends"])
    assert report.conforms, str(report)


def test_a_receiver_without_the_word_stop_hears_of_lacks_alone(on_node: str, repository: Path, tmp_path: Path) -> None:
    for path in (repository / "interop/node").glob("*.js"):
        shutil.copy(path, tmp_path)
    text = (program := tmp_path / "driver.js").read_text()
    program.write_text(re.sub(r"(?m)^  stop\(.*\n", "", text))
    with driven(f"node {program}") as driver:
        report = judge_command(driver, end="receiver", only=["stop-ends-sends"])
    assert "a driver that cannot stop lists it in 'lacks' of its hello" in report["stop-ends-sends"].finding
    assert "unreturned" not in str(report)


def test_a_chunk_that_comes_without_an_answer_is_told(on_node: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERMITFLOW_FAULT", "forgets-answers")
    with driven(on_node) as driver:
        report = judge_command(driver, end="sender", only=["whole-window"])
    assert re.search(r"your driver has not answered 'send' \(request \d+\), though its chunk has come", str(report))


@pytest.mark.long
def test_a_driver_that_no_longer_answers_is_told_once(on_node: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PERMITFLOW_FAULT", "falls-silent")
    with driven(on_node, limit_seconds=2.0, end_seconds=0.1) as driver:
        report = judge_command(driver, end="sender")
    assert [verdict.finding.partition(" (")[0] for verdict in report.verdicts] == [
        "your driver has not answered 'settle'",
        *2 * ["cannot be told: your driver has not answered 'settle'"],
    ]
    assert report.faults == ("asked 3 of 28 rules, because your driver keeps the kit waiting",)


def test_the_rules_of_an_end_have_a_time_that_is_said(on_node: str, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = [0.0]
    monkeypatch.setattr("permitflow_testing.foreign.driver.monotonic", lambda: clock[0])

    def judged(_: RuleVerdict) -> None:
        clock[0] = 3_601.0

    rules = ["window", "whole-window", "oldest-leaves-first", "byte-window"]
    with driven(on_node) as driver:
        report = judge_command(driver, end="sender", only=rules, when_judged=judged)
    _, last = report.verdicts
    assert last.outcome is Outcome.NOT_APPLICABLE
    assert last.finding == "not asked to its end: the rules of this end have taken more than 60 min"
    assert report.faults == ("asked 2 of 3 rules, because your driver takes too long (--limit-minutes)",)
    assert not report.broken


@pytest.mark.parametrize("flow", flows())
def test_recordings_of_a_foreign_end_are_judged_by_the_model(on_node: str, flow: str, tmp_path: Path) -> None:
    rules = ["exactly-once", "cancelled-send", "recorded-run", "stop-ends-sends"]
    with driven(on_node) as driver, FileTrace(tmp_path / "run.jsonl") as trace:
        for end in ENDS:
            judge_command(driver, end=end, flow=flow, only=rules, trace=trace)
    verdicts = judge_all(read_trace(tmp_path / "run.jsonl"))
    assert len(verdicts) > len(ENDS)
    assert [verdict.describe() for verdict in verdicts if not verdict.is_valid] == []


@pytest.mark.parametrize("fault", ["overtaking", "early-return"])
def test_the_recording_of_a_fault_is_refused(
    on_node: str, fault: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PERMITFLOW_FAULT", fault)
    end, rule, _ = FAULTS[fault]
    with driven(on_node) as driver, FileTrace(tmp_path / "run.jsonl") as trace:
        judge_command(driver, end=end, only=[rule], trace=trace)
    assert [verdict for verdict in judge_all(read_trace(tmp_path / "run.jsonl")) if not verdict.is_valid]


@pytest.mark.parametrize("end", ENDS)
def test_an_end_that_listens_is_dialled(on_node: str, end: str) -> None:
    rules = ["oldest-arrives-first", "none-lost", "end-comes-last", "abort-is-no-end", "stop-ends-sends"]
    with driven(on_node) as driver:
        report = judge_command(driver, end=end, dial="tcp://127.0.0.1:0", only=rules)
    assert report.conforms, str(report)


@pytest.mark.parametrize(
    ("carrier", "end"),
    [("tcp", "sender"), ("grpc", "receiver"), pytest.param("grpc", "sender", marks=pytest.mark.long)],
)
def test_our_own_ends_keep_the_rules_beside_the_model(carrier: str, end: str) -> None:
    """Each alone: the other end is made of the model.  It makes checksums, and cannot say when it has settled."""
    rules = ["whole-window", "none-lost", "residue-returned", "exactly-once", "end-comes-last"]
    rules += ["stop-ends-sends", "byte-window"]
    with driven(f"{sys.executable} -m tests.support.own_driver {carrier}") as driver:
        report = judge_command(driver, end=end, only=rules)
    assert report.conforms, str(report)
    assert report.watched.startswith("watched for 50 ms after each move")


@pytest.mark.parametrize("flow", flows())
def test_each_rule_is_one_of_some_end(flow: str) -> None:
    book = rulebook_of(flow)
    assert {rule.id for end in ENDS for rule in rules_of_end(book, end)} == {rule.id for rule in book.rules}


# Drivers that break the rules of their own protocol.


def scripted(tmp_path: Path, program: str) -> str:
    """A driver that waits for its first request, and then does this; it answers by ``say``."""
    lines = (
        "import json, os, subprocess, sys",
        "def say(text): print(text, flush=True)",
        "input()",
        program,
        "input()",
    )
    (tmp_path / "driver.py").write_text("\n".join(lines))
    return f"{sys.executable} -S {tmp_path / 'driver.py'}"


OF_A_MEBIBYTE = f"{200 * 'x'}… (1,048,376 more characters)"
WRONG = {
    "ends": ("sys.exit('no such file')", "has ended with exit code 1, asked for 'hello' (request 1)"),
    "ends-with-words": ("sys.exit('no such file')", "; its standard error ends with: no such file"),
    "is-killed": ("os.kill(os.getpid(), 9)", "has ended with signal SIGKILL"),
    "ends-within-a-line": (
        "os.write(1, b'{1'); sys.exit()",
        "asked for 'hello' (request 1); its last line has no end: '{1'",
    ),
    "says-garbage": (
        "say('listening')",
        "what is not an answer, 'listening': it is not JSON; remarks belong on its standard",
    ),
    "says-what-is-no-text": ("os.write(1, b'\\xe9\\n')", "what is not an answer, '\ufffd': it is not UTF-8"),
    "says-a-long-word": ("say('x' * 300)", f"'{'x' * 100}… (200 more characters)': it is not JSON"),
    "has-no-end-of-line": ("sys.exit('x' * (3 << 20))", f"ends with: {' / '.join(3 * [OF_A_MEBIBYTE])}"),
    "says-what-is-nested-deeply": (
        "say('[' * 100_000)",
        f"an answer, '{'[' * 100}… (99,900 more characters)': it is nested too deeply",
    ),
    "says-too-long-a-line": ("say('1' * (1 << 20))", "… (1,048,476 more characters)': a line has at most a MiB"),
    "says-no-id": ("say('[1]')", "it is not a JSON object with a whole number as 'id'"),
    "has-no-outcome": ("say('{\"id\": 1}')", "an answer has one of ok, refused, cancelled, error"),
    "answers-nobody": ('say(\'{"id": 7, "ok": 1}\')', "nobody has asked a request 7"),
    "answers-a-book": ("""say('{"id": 1, "error": "' + 100_000 * "n" + '"}')""", "nnn… (99,043 more characters)"),
    "answers-an-error": ('say(\'{"id": 1, "error": "no"}\')', "answers 'hello' with an error: no"),
    "refuses": ('say(\'{"id": 1, "refused": "no"}\')', "your driver refuses 'hello': no"),
    "is-cancelled": ('say(\'{"id": 1, "cancelled": true}\')', "'hello' (request 1) as cancelled, although nobody has"),
    "says-nothing": ("", "'hello' (request 1) within 0.2 s; each answer must be written at once, without a buffer"),
}


@pytest.mark.parametrize("wrong", WRONG)
def test_a_wrong_driver_is_a_sentence(wrong: str, tmp_path: Path) -> None:
    program, said = WRONG[wrong]
    seconds = 0.2 if wrong == "says-nothing" else 10.0
    with driven(scripted(tmp_path, program)) as driver, pytest.raises(DriverError) as problem:
        asyncio.run(driver.told("hello", seconds=seconds))
    assert said in str(problem.value)


async def test_an_output_that_a_child_keeps_open_is_told(tmp_path: Path) -> None:
    told = "; it has ended with exit code 3, and what it has started keeps its standard output open"
    with driven(scripted(tmp_path, "subprocess.Popen(['sleep', '60'])\nos._exit(3)")) as driver:
        driver.ask("hello")
        await until(lambda: driver.last_words() == told)


@pytest.mark.parametrize(
    ("asked", "option"),
    [({"end": "receiver"}, "--end"), ({"flow": "demand"}, "--flow"), ({"carrier": "grpc"}, "--accept")],
)
def test_what_a_driver_has_not_is_told_by_the_option_that_asks(
    asked: dict[str, Any], option: str, tmp_path: Path
) -> None:
    has = '{"id": 1, "ok": {"protocol": 2, "ends": ["sender"], "flows": ["permits"]}}'
    refused = pytest.raises(InvalidParametersError, match=f"^{option} must be one that the driver has")
    with driven(scripted(tmp_path, f"say('{has}')")) as driver, refused:
        judge_command(driver, **{"end": "sender"} | asked)


DIALS_WITH_A_WRONG_HEADER = """
say('{"id": 1, "ok": {"protocol": 2, "ends": ["sender"], "flows": ["permits"]}}')
for line in sys.stdin:
    asked = json.loads(line)
    if asked["do"] == "open":
        import socket
        dialled = socket.create_connection(("127.0.0.1", int(asked["address"].rpartition(":")[2])))
        dialled.sendall(bytes((5, 112, 102, 0, 0, 0, 0, 0)))
    say(json.dumps({"id": asked["id"], "ok": {}}))
"""


def test_a_wrong_header_is_the_drivers_not_the_networks(tmp_path: Path) -> None:
    with driven(scripted(tmp_path, DIALS_WITH_A_WRONG_HEADER)) as driver:
        report = str(judge_command(driver, end="sender", only=["window"]))
    assert "a rule of the wire: a message of 8 bytes has the checksum 00 (of a header), not 05 (of a header)" in report


def test_a_driver_that_ends_before_all_is_read_is_told_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    start = threading.Thread.start

    def start_late(thread: threading.Thread) -> None:
        """Other threads are slow: this one comes to its end first, if it ends at all without them."""
        start(thread)
        if thread.name == "_read":
            thread.join(10.0)

    monkeypatch.setattr(threading.Thread, "start", start_late)
    with driven("true") as driver, pytest.raises(DriverError, match="has ended with exit code 0"):
        asyncio.run(driver.told("hello", seconds=0.2))


def test_an_answer_that_comes_twice_or_late_is_told_at_the_end(tmp_path: Path) -> None:
    program = "\n".join(f'say(\'{{"id": {number}, "ok": 1}}\')' for number in (1, 1, 2, 3))
    with driven(scripted(tmp_path, f"input()\ninput()\n{program}")) as driver:
        requests = [driver.ask(word) for word in ("hello", "settle", "close")]
        requests[1].limit_seconds = 0.0  # nobody waits for it any more
        asyncio.run(driver.answered(requests[2], 10.0))
        assert driver.faults["twice"] == "your driver answers 'hello' (request 1) twice"
        assert driver.faults["late"].startswith("your driver answers 'settle' late, after ")


async def test_an_answer_that_fails_when_nobody_waits_is_no_news(tmp_path: Path) -> None:
    told = list[dict[str, Any]]()
    asyncio.get_running_loop().set_exception_handler(lambda _, context: told.append(context))
    with driven(scripted(tmp_path, "")) as driver, pytest.raises(DriverError, match="has not answered"):
        await driver.told("hello", seconds=0.0)
    await turns()  # the answer has failed: the driver has ended
    gc.collect()
    asyncio.get_running_loop().set_exception_handler(None)
    assert told == []


async def test_what_is_wrong_with_a_driver_at_its_close_is_a_sentence() -> None:
    class Closing(ChannelAdapter):
        async def open(self, parameters: object, record: object) -> None: ...

        async def close(self) -> None:
            raise DriverError("your driver refuses 'close': no")

    habits, no_record = Habits(), cast("RecorderFactory", None)
    async with BoundedAdapter(Closing(), habits).opened(None, no_record):
        pass
    assert habits.faults == {"close": "your driver refuses 'close': no"}


def test_what_a_driver_has_started_ends_with_it(tmp_path: Path) -> None:
    """Also if the driver ignores that its input has ended, and SIGTERM."""
    program = (
        "import signal, time\n"
        "signal.signal(signal.SIGTERM, signal.SIG_IGN)\n"
        "child = subprocess.Popen([sys.executable, '-S', '-c', 'import time; time.sleep(1000)'])\n"
        "say(json.dumps({'id': 1, 'ok': child.pid}))\n"
        "time.sleep(1000)"
    )
    with driven(scripted(tmp_path, program), end_seconds=0.1) as driver:
        child = psutil.Process(asyncio.run(driver.told("hello")))
    assert child.wait(10) is None or not child.is_running()


def test_a_pipe_that_is_held_by_another_session_keeps_nobody_waiting(tmp_path: Path) -> None:
    """What a driver has started as a daemon is not ended with it."""
    program = (
        "child = subprocess.Popen(['sleep', '1000'], stderr=subprocess.DEVNULL, start_new_session=True)\n"
        "say(json.dumps({'id': 1, 'ok': child.pid}))"
    )
    with driven(scripted(tmp_path, program), end_seconds=0.1) as driver:
        child = psutil.Process(asyncio.run(driver.told("hello")))
    child.kill()


@pytest.mark.parametrize(
    ("said", "why"),
    [
        ({"protocol": 1}, "answers 'hello' with 1, not with protocol 2"),
        ({"protocol": 2, "ends": ["both"], "flows": ["permits"]}, "ends as a list of some of sender, receiver"),
        ({"protocol": 2, "ends": ["sender"], "flows": ["permits"], "lacks": ["time"]}, "lacks as a list of some of"),
        (1, "answers 'hello' with 1, not with an object"),
    ],
)
def test_a_wrong_hello_is_a_sentence(said: object, why: str, tmp_path: Path) -> None:
    program = f"say(json.dumps({{'id': 1, 'ok': {said!r}}}))"
    with driven(scripted(tmp_path, program)) as driver, pytest.raises(DriverError) as problem:
        hello(driver)
    assert why in str(problem.value)


@pytest.mark.parametrize(("command", "why"), [("", "must begin with a program"), ("'", "No closing quotation")])
def test_a_command_that_is_none_is_refused(command: str, why: str) -> None:
    with pytest.raises(InvalidParametersError, match=why):
        Driver(command)


def test_a_driver_whose_start_is_interrupted_is_killed(monkeypatch: pytest.MonkeyPatch) -> None:
    started, start = list["subprocess.Popen[bytes]"](), subprocess.Popen

    def interrupted(*arguments: Any, **options: Any) -> "subprocess.Popen[bytes]":
        started.append(start(*arguments, **options))
        os.kill(os.getpid(), signal.SIGINT)
        return started[0]

    monkeypatch.setattr(subprocess, "Popen", interrupted)
    with pytest.raises(KeyboardInterrupt):
        Driver("sleep 1000").ask("hello")
    kill_all()
    assert started[0].wait(timeout=60) == -signal.SIGKILL

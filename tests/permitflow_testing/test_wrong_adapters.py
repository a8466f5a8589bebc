"""No adapter makes the kit hang, and what is wrong with it is said once, in a sentence."""

import asyncio
import gc
import signal
import subprocess
import sys
import threading
import time

import pytest

from permitflow import ChannelParameters, Kind, RecorderFactory
from permitflow.errors import InvalidParametersError
from permitflow_testing import ChannelAdapter, ConformanceReport, ReceivedMessage, bounded, judge_adapter
from permitflow_testing.examples.our_channels import LocalChannel
from permitflow_testing.examples.queues import CountedQueue
from tests.support import wrong_adapters as wrong

# Far below what a call without a bound takes, and far above what these take.
HANG_SECONDS = 60.0
SEND, RECEIVE = "cancelled-send", "cancelled-receive"


def judged(adapter: type[ChannelAdapter], *only: str) -> ConformanceReport:
    began = time.monotonic()
    report = judge_adapter(adapter, only=only or ["window", "none-lost", SEND, RECEIVE, "observed-run"], random_runs=5)
    assert time.monotonic() - began < HANG_SECONDS
    assert not report.conforms
    return report


def said(report: ConformanceReport) -> str:
    return "\n".join([*(verdict.finding for verdict in report.verdicts), *report.faults, report.unusable])


@pytest.mark.parametrize(
    ("adapter", "sentence"),
    [
        (wrong.IgnoresCancellation, "your send does not end when it is cancelled"),
        (wrong.IgnoresAll, "your receive does not end when it is cancelled"),
        (wrong.Swallows, "swallows a cancellation: its cancelled send returns as if it had been sent"),
        (wrong.NeverTakes, "your send does not end when it is cancelled"),
        (wrong.NeverSettles, "your settled has not ended after 0.2 s"),
        (wrong.Busy, "your receive does not end when it is cancelled"),
        (wrong.ReturnsNothing, "your take returns None; it must return ReceivedMessage(kind, value, rows)"),
        (
            wrong.ReturnsText,
            "value='1', rows=1); the kind must be a Kind, the value the whole number that",
        ),
        (wrong.CancelsItself, "your send raises CancelledError, although nobody has cancelled it"),
        (wrong.Exits, "raises SystemExit: 0\nasked 1 of 5 rules, because the adapter ends the program"),
        (wrong.RaisesAGroup, "raises ValueError: from a task"),
        (wrong.CancelsAll, "cancels tasks that are not its own: the kit's was among them"),
    ],
)
def test_a_wrong_adapter_is_told_in_a_sentence(adapter: type[ChannelAdapter], sentence: str) -> None:
    assert sentence in said(judged(adapter))


@pytest.mark.parametrize(
    ("adapter", "sentence"),
    [
        (wrong.NeverOpens, "cannot be opened: your open has not ended after 0.1 s"),
        (wrong.NeverCloses, "your close does not end when it is cancelled"),
    ],
)
def test_open_and_close_have_a_bound(
    monkeypatch: pytest.MonkeyPatch, adapter: type[ChannelAdapter], sentence: str
) -> None:
    monkeypatch.setattr(bounded, "START_SECONDS", 0.1)
    assert sentence in said(judged(adapter, "window"))


def test_a_fault_beside_the_rules_is_told_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bounded, "START_SECONDS", 0.1)
    report = judged(wrong.NeverCloses, "window", "none-lost")
    assert report.broken == ()
    assert str(report).count("our close") == 1


def test_what_ignores_everything_stops_no_runner(run: asyncio.Runner) -> None:
    judge_adapter(wrong.IgnoresAll, only=[RECEIVE], runner=run)
    gc.collect()
    assert run.run(_tasks()) == set()


async def _tasks() -> "set[asyncio.Task[object]]":
    return asyncio.all_tasks() - {asyncio.current_task()}


def test_a_blocked_loop_is_named_with_its_stack() -> None:
    report = judge_adapter(wrong.Blocks, only=["window", "none-lost"], blocked_seconds=0.2)
    (verdict,) = report.verdicts
    assert verdict.finding == "blocks the event loop in offer_chunk: nothing else could run for 0.2 s"
    assert any(line.strip() == "self.queue.put((serial, rows))" for line in verdict.counterexample)
    assert report.faults == ("asked 1 of 2 rules, because the adapter blocks the event loop",)


def test_no_handler_of_the_tests_own_is_replaced() -> None:
    def handle(number: int, frame: object) -> None:
        pass

    before = {number: signal.signal(number, handle) for number in (signal.SIGALRM, signal.SIGUSR2)}
    try:
        report = judge_adapter(wrong.Blocks, only=["window"], blocked_seconds=0.2)
        assert report.broken == ("window",)
        assert {signal.getsignal(number) for number in before} == {handle}
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


async def _last_of_many(count: int) -> int:
    """The answer of a thread, while so many others are blocked."""
    gate = threading.Event()
    blocked = [asyncio.create_task(asyncio.to_thread(gate.wait)) for _ in range(count)]
    try:
        return await asyncio.wait_for(asyncio.to_thread(int), 5.0)
    finally:
        gate.set()
        await asyncio.gather(*blocked)


def test_threads_that_calls_have_blocked_take_no_others_place() -> None:
    with bounded.own_runner() as runner:
        assert runner.run(_last_of_many(40)) == 0


LEAVES_A_THREAD = """
import asyncio, contextlib, threading
from permitflow_testing.bounded import own_runner
with own_runner() as runner, contextlib.suppress(TimeoutError):
    runner.run(asyncio.wait_for(asyncio.to_thread(threading.Event().wait), 0.01))
"""


def test_a_thread_that_is_left_behind_holds_no_program() -> None:
    subprocess.run([sys.executable, "-c", LEAVES_A_THREAD], timeout=60, check=True)


class ComputesLong(CountedQueue):
    """Not wrong: it is only slow."""

    async def offer_chunk(self, serial: int, rows: int) -> None:
        time.sleep(0.05)  # noqa: ASYNC251  # the mistake is too small to matter
        await super().offer_chunk(serial, rows)


def test_a_slow_adapter_blocks_nothing() -> None:
    assert judge_adapter(ComputesLong, only=["window"], blocked_seconds=1.0).conforms


def test_a_method_of_the_wrong_colour_is_refused() -> None:
    class AsyncConsume(CountedQueue):
        async def consume(self) -> None:  # type: ignore[override]  # the mistake
            pass

    class PlainSend(CountedQueue):
        def offer_chunk(self, serial: int, rows: int) -> None:  # type: ignore[override]  # the mistake
            pass

    with pytest.raises(InvalidParametersError, match="def consume, not async def"):
        judge_adapter(AsyncConsume)
    with pytest.raises(InvalidParametersError, match="async def offer_chunk"):
        judge_adapter(PlainSend)


@pytest.mark.parametrize(
    ("attribute", "value", "said"),
    [
        ("hops", 0, "hops of at least 1 instead of 0"),
        ("timeout_seconds", 0, "timeout_seconds above 0 instead of 0"),
        ("quiet_seconds", -1, "quiet_seconds of at least 0 instead of -1"),
        ("quiet_seconds", "1", "quiet_seconds of at least 0 instead of '1'"),
        ("lacks", "batching", "a set of features as lacks, of Feature.WEIGHTS, .*, instead of 'batching'"),
        ("lacks", {"batching"}, "a set of features as lacks, .*, instead of {'batching'}"),
        ("lacks", {"bacthing"}, "a set of features as lacks, .*, instead of {'bacthing'}"),
    ],
)
def test_an_attribute_that_cannot_be_is_named(attribute: str, value: object, said: str) -> None:
    with pytest.raises(InvalidParametersError, match=said):
        judge_adapter(type("Odd", (CountedQueue,), {attribute: value}), only=["window"])


def test_an_adapter_that_cannot_be_made_is_refused() -> None:
    class NeedsMore(CountedQueue):
        def __init__(self, address: str) -> None:
            self.address = address

    with pytest.raises(InvalidParametersError, match="must be made without arguments, but raises TypeError"):
        judge_adapter(NeedsMore)  # type: ignore[arg-type]  # the mistake


# Does nothing happen, or did nobody wait long enough?

SLOWNESS_SECONDS = 0.02


class Late(ChannelAdapter):
    """Takes no permits, which shows late: each send returns some time after it has sent."""

    lacks = CountedQueue.lacks
    timeout_seconds = 2.0
    quiet_seconds = SLOWNESS_SECONDS / 10

    async def open(self, parameters: ChannelParameters, record: RecorderFactory) -> None:
        self.queue: asyncio.Queue[ReceivedMessage] = asyncio.Queue()
        self.under_way: set[asyncio.Task[None]] = set()

    async def offer_chunk(self, serial: int, rows: int) -> None:
        sending = asyncio.create_task(self._send(ReceivedMessage(Kind.CHUNK, serial, rows)))
        self.under_way.add(sending)
        sending.add_done_callback(self.under_way.discard)
        await sending

    async def _send(self, received: ReceivedMessage) -> None:
        await asyncio.sleep(SLOWNESS_SECONDS)
        self.queue.put_nowait(received)

    async def take(self) -> ReceivedMessage:
        return await self.queue.get()


class Settling(Late):
    """The same, but it knows what is under way."""

    async def settled(self) -> None:
        while self.under_way:
            await asyncio.wait(self.under_way)


def test_without_settled_the_report_says_how_long_it_watched() -> None:
    report = judge_adapter(Late, only=["window"])
    assert report.broken == ()  # it has not watched long enough
    assert report.watched.startswith("watched for 2 ms after each move, ")
    assert "an adapter with settled(), or a driver with settle, needs none" in str(report)


def test_with_settled_no_clock_decides() -> None:
    report = judge_adapter(Settling, only=["window"])
    assert report.broken == ("window",)
    assert report.watched == ""


class Stamped(LocalChannel):
    """Its barriers carry a number of the application's."""

    async def take(self) -> ReceivedMessage:
        received = await super().take()
        return received._replace(value=-1) if received.kind is Kind.BARRIER else received


def test_what_a_barrier_carries_breaks_no_rule() -> None:
    assert judge_adapter(Stamped, only=["barrier-keeps-its-place", "cancelled-barrier"]).conforms

"""Processes of an exchange that end by themselves: each is started again, and nobody takes lost rows for delivered.

They are tasks of the test's loop here, in simulated time.  With processes of their own: test_killed_processes.py.
"""

import asyncio
import gc
import signal
import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from permitflow.carriers.same_host import SameHost
from permitflow.client import describe, put
from permitflow.errors import (
    ChannelInUseError,
    InvalidParametersError,
    PeerGoneError,
    PeerTimeoutError,
    UnknownChannelError,
)
from permitflow.exchange.access import ANYBODY, AccessControl
from permitflow.exchange.limits import Limits
from permitflow.stream.control import (
    AddStream,
    AskChannels,
    AskStatistics,
    Changed,
    Channels,
    RemoveChannels,
    ResetChannels,
)
from permitflow.stream.traffic import Statistics
from permitflow_tools.cli import one_process
from permitflow_tools.cli.one_process import Begun, Line, Order, OrderOutcome, serve
from permitflow_tools.cli.processes import Processes
from tests.support.simulated_time import simulated

Program = Callable[[Line], Awaitable[None]]


class Child:
    """A process that is a task."""

    def __init__(self, end: socket.socket, program: Program) -> None:
        self.returncode: int | None = None
        self._task = asyncio.create_task(self._run(end, program))

    async def _run(self, end: socket.socket, program: Program) -> None:
        line = await Line.over(end)
        try:
            await program(line)
        except Exception:
            self.returncode = 1
        finally:
            line.close()
            if self.returncode is None:
                self.returncode = 0

    def kill(self) -> None:
        if not self._task.done():
            self.returncode = -signal.SIGKILL
            self._task.cancel()

    async def wait(self) -> int:
        await asyncio.wait({self._task})
        assert self.returncode is not None
        return self.returncode


class Told:
    """What is told of processes."""

    def __init__(self) -> None:
        self.told = asyncio.Queue[str]()

    def process_lost(self, number: int, end: str, channels: Sequence[str]) -> None:
        self.told.put_nowait(f"{number} {end}: {', '.join(channels)}")

    def process_started(self, number: int) -> None:
        self.told.put_nowait(f"{number} again")

    def processes_given_up(self, reason: str) -> None:
        self.told.put_nowait(reason)


class Running(Told):
    """An exchange of several processes with a channel each."""

    def __init__(self, processes: int, program: Program) -> None:
        super().__init__()
        self.over = asyncio.Event()
        self.children: list[Child] = []
        self.program = program
        """Of those that are started from now on."""
        self.whole = Processes(
            processes,
            [f"{number}/0" for number in range(1, processes + 1)],
            "tcp://127.0.0.1:0",
            settings={"same_host": SameHost.NEVER},
            limits=Limits(),
            serving={"silence_seconds": 30.0, "resume_seconds": 60.0},
            rights=None,
            token_file=None,
            log_level=None,
            losses=self,
            start=self.start,
        )

    async def start(self, end: socket.socket) -> Child:
        self.children.append(child := Child(end.dup(), self.program))
        return child

    async def hears(self, *told: str) -> None:
        for each in told:
            assert await self.told.get() == each

    async def lose(self, child: int) -> None:
        """Kill the first process, which is this one of those that were started, and wait until it serves again."""
        self.children[child].kill()
        await self.hears("1 killed by SIGKILL: 1/0", "1 again")

    async def states(self) -> dict[str, str]:
        told = await self.whole.carry_out(AskStatistics(), ANYBODY)
        assert isinstance(told, Statistics)
        return {each.channel: each.state for each in told.channels}


async def hanging(line: Line) -> None:
    """A process that begins, and says nothing any more."""
    await line.read()
    await line.write(Begun(1, 0, 0))
    await asyncio.Event().wait()


@asynccontextmanager
async def running(processes: int = 2, program: Program = serve) -> AsyncIterator[Running]:
    exchange = Running(processes, program)
    try:
        async with asyncio.timeout(3_600.0):
            await exchange.whole.begin(exchange.over.set)
            await exchange.whole.opened("tcp://127.0.0.1:1")
            yield exchange
    finally:
        await exchange.whole.aclose()
        gc.unfreeze()  # each process has kept what there was out of the search for garbage


def port_of(exchange: Running, channel: str) -> object:
    return exchange.whole.missing(channel).facts["port"]


@simulated
async def test_channels_of_a_lost_process_are_broken_until_reset() -> None:
    async with running() as exchange:
        carry_out = exchange.whole.carry_out
        await carry_out(AddStream("c", 2), ANYBODY)  # in the first process
        await carry_out(RemoveChannels(("c/0",)), ANYBODY)
        port = port_of(exchange, "1/0")
        exchange.children[0].kill()
        await exchange.hears("1 killed by SIGKILL: 1/0, c/1", "1 again")
        assert port_of(exchange, "1/0") == port_of(exchange, "c/1") == port
        assert not exchange.whole.has_failed
        assert await exchange.states() == {"1/0": "broken", "2/0": "waiting", "c/1": "broken"}
        await carry_out(ResetChannels(("1/0", "c/1")), ANYBODY)
        assert await exchange.states() == {"1/0": "waiting", "2/0": "waiting", "c/1": "waiting"}
        await carry_out(RemoveChannels(("c/1",)), ANYBODY)
        await carry_out(AddStream("c", 2), ANYBODY)  # nothing is left of the former one


@simulated
async def test_channels_of_a_process_that_is_away_are_told_as_broken() -> None:
    may_begin = asyncio.Event()

    async def late(line: Line) -> None:
        await may_begin.wait()
        await serve(line)

    async with running() as exchange:
        exchange.program = late
        exchange.children[0].kill()
        await exchange.hears("1 killed by SIGKILL: 1/0")
        assert not exchange.whole.exchange.readiness.is_ready
        listed = await exchange.whole.carry_out(AskChannels(), ANYBODY)
        assert isinstance(listed, Channels)
        whole = await exchange.whole.figures()
        for told in [each.traffic for each in listed.channels], whole.channels:
            assert [(each.channel, each.state) for each in told] == [("1/0", "broken"), ("2/0", "waiting")]
            assert told[0].reason == "process 1 of the exchange has ended, and is not started again yet"
        assert whole.whole["lost_processes"] == 1
        with pytest.raises(PeerGoneError, match="until it was started again"):
            await exchange.whole.carry_out(ResetChannels(("1/0", "2/0")), ANYBODY)
        may_begin.set()
        await exchange.hears("1 again")
        assert exchange.whole.exchange.readiness.is_ready


@simulated
async def test_an_order_under_way_fails_with_its_process() -> None:
    async def silent(line: Line) -> None:
        await line.read()
        await line.write(Begun(1, 0, 0))
        while not isinstance(order := await line.read(), Order) or order.name != "carry_out":
            pass  # it answers nothing

    async with running(1, silent) as exchange:
        with pytest.raises(PeerGoneError, match="what was asked with it"):
            await exchange.whole.carry_out(ResetChannels(("1/0",)), ANYBODY)


@simulated
async def test_an_order_that_is_carried_out_late_counts() -> None:
    async def slow(line: Line) -> None:
        await line.read()
        await line.write(Begun(1, 0, 0))
        while isinstance(order := await line.read(), Order):
            await asyncio.sleep(35.0 if order.name == "carry_out" else 0.0)
            await line.write(OrderOutcome(order.number, Changed(())))

    async with running(1, slow) as exchange:
        with pytest.raises(PeerTimeoutError, match="process 1 of the exchange does not answer: no answer within 30 s"):
            await exchange.whole.carry_out(RemoveChannels(("1/0",)), ANYBODY)
        assert exchange.whole.names == ["1/0"]
        await asyncio.sleep(10.0)
        assert exchange.whole.names == []


@simulated
async def test_a_stream_is_not_added_where_a_process_hangs() -> None:
    async with running() as exchange:
        exchange.program = hanging
        await exchange.lose(0)
        await asyncio.sleep(10.0)
        added = await exchange.whole.carry_out(AddStream("c", 1), ANYBODY)
        assert isinstance(added, Channels)
        assert [each.traffic.channel for each in added.channels] == ["c/0"]


@simulated
async def test_channels_of_a_process_that_hangs_are_silent() -> None:
    async with running() as exchange:
        exchange.program = hanging
        await exchange.lose(0)
        for waits_seconds in (8.0, 0.0):  # then the exchange knows that it hangs
            began = asyncio.get_running_loop().time()
            assert await exchange.states() == {"1/0": "silent", "2/0": "waiting"}
            listed = await exchange.whole.carry_out(AskChannels(), ANYBODY)
            assert isinstance(listed, Channels)
            assert listed.channels[0].traffic.reason == "process 1 of the exchange does not answer"
            assert asyncio.get_running_loop().time() - began == pytest.approx(waits_seconds)
            assert await exchange.whole.carry_out(AskChannels(("1/0", "2/0")), ANYBODY) == listed
        whole = await exchange.whole.figures()
        assert [each.channel for each in whole.channels] == ["2/0"]
        assert asyncio.get_running_loop().time() - began == pytest.approx(0.0)


@simulated
async def test_a_question_tells_no_channel_to_who_may_see_none(tmp_path: Path) -> None:
    (rights := tmp_path / "rights.toml").write_text("[identities.nobody]\ncertificates = ['nobody']")
    nobody = AccessControl(rights=rights).admit(None, ("nobody",))
    async with running() as exchange:
        for question in (AskStatistics(), AskChannels()):
            told = await exchange.whole.carry_out(question, nobody)
            assert isinstance(told, Statistics | Channels)
            assert told.channels == ()


@simulated
async def test_a_channel_that_another_order_has_removed_is_unknown() -> None:
    async with running() as exchange:
        remove = RemoveChannels(("2/0", "1/0"))
        orders = [asyncio.create_task(exchange.whole.carry_out(remove, ANYBODY)) for _ in range(2)]
        assert isinstance(await orders[0], Changed)
        with pytest.raises(UnknownChannelError, match="unknown channel '2/0'; known channels: none"):
            await orders[1]


@simulated
async def test_a_list_during_a_removal_has_the_others() -> None:
    async with running(1) as exchange:
        for turns in range(16):  # of the loop, between the two
            await exchange.whole.carry_out(AddStream("c", 1), ANYBODY)
            removal = asyncio.create_task(exchange.whole.carry_out(RemoveChannels(("c/0",)), ANYBODY))
            for _ in range(turns):
                await asyncio.sleep(0)
            assert "1/0" in await exchange.states()
            await removal


@simulated
async def test_a_list_has_no_channel_that_a_lost_process_has_removed() -> None:
    async def removing(line: Line) -> None:
        """Its last act, though it was asked for a list before."""
        await line.read()
        await line.write(Begun(1, 0, 0))
        while isinstance(order := await line.read(), Order):
            if isinstance(order.argument, RemoveChannels):
                await line.write(OrderOutcome(order.number, Changed(())))
                return

    async with running(2, serve) as exchange:
        exchange.program = removing
        await exchange.lose(0)
        listing = asyncio.create_task(exchange.whole.carry_out(AskChannels(), ANYBODY))
        await asyncio.sleep(1.0)
        await exchange.whole.carry_out(RemoveChannels(("1/0",)), ANYBODY)
        listed = await listing
        assert isinstance(listed, Channels)
        assert [each.traffic.channel for each in listed.channels] == ["2/0"]


@simulated
async def test_an_order_that_fails_late_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    async with running(1, hanging) as exchange:
        exchange.program = serve
        with pytest.raises(PeerTimeoutError, match="no answer within 30 s"):
            await exchange.whole.carry_out(ResetChannels(("1/0",)), ANYBODY)
        await exchange.hears("1 it did not answer, and was killed: 1/0", "1 again")
        gc.collect()
    assert "never retrieved" not in caplog.text


@simulated
async def test_no_name_is_added_while_a_hanging_process_may_add_it() -> None:
    async with running() as exchange:
        exchange.program = hanging
        await exchange.lose(0)
        exchange.program = serve
        first = asyncio.create_task(exchange.whole.carry_out(AddStream("c", 1), ANYBODY))  # in that one
        await asyncio.sleep(10.0)
        with pytest.raises(InvalidParametersError, match="process 1 of the exchange has not answered it yet"):
            await exchange.whole.carry_out(AddStream("c", 1), ANYBODY)
        with pytest.raises(PeerTimeoutError, match="process 1 of the exchange"):
            await first
        await exchange.hears("1 it did not answer, and was killed: 1/0", "1 again")
        await exchange.whole.carry_out(AddStream("c", 1), ANYBODY)
        assert [*await exchange.states()] == ["1/0", "2/0", "c/0"]


@simulated
async def test_an_add_waits_for_none_in_a_hanging_process() -> None:
    async with running() as exchange:
        exchange.program = hanging
        await exchange.lose(0)
        late = asyncio.create_task(exchange.whole.carry_out(AddStream("c", 1), ANYBODY))  # in that one
        await asyncio.sleep(0.0)
        began = asyncio.get_running_loop().time()
        await exchange.whole.carry_out(AddStream("d", 1), ANYBODY)
        assert asyncio.get_running_loop().time() == pytest.approx(began)
        with pytest.raises(PeerTimeoutError):
            await late


@simulated
async def test_a_process_that_is_lost_while_draining_stays_away() -> None:
    async with running() as exchange:
        draining = asyncio.create_task(exchange.whole.drain(60.0))
        exchange.children[0].kill()
        await exchange.hears("1 killed by SIGKILL: 1/0")
        await draining
        await asyncio.sleep(60.0)
        assert len(exchange.children) == 2
        assert exchange.whole.has_failed


@simulated
async def test_a_process_that_was_started_again_knows_the_door() -> None:
    async with running() as exchange:
        await exchange.lose(0)
        with pytest.raises(PeerGoneError, match=r"127\.0\.0\.1:1\b"):
            await describe(f"tcp://127.0.0.1:{port_of(exchange, '1/0')}", "2/0")


@simulated
async def test_an_exchange_whose_process_is_lost_too_often_ends() -> None:
    async with running() as exchange:
        for child in (0, 2, 3, 4, 5):
            await exchange.lose(child)
            await asyncio.sleep(110)
        assert not exchange.over.is_set()
        exchange.children[6].kill()
        await exchange.hears("1 killed by SIGKILL: 1/0")
        await exchange.hears("process 1 of the exchange was started again 5 times within 10 minutes")
        await exchange.over.wait()
        assert exchange.whole.has_failed


@simulated
async def test_starts_count_no_more_after_a_while() -> None:
    async with running() as exchange:
        for child in (0, 2, 3, 4, 5, 6, 7):
            await exchange.lose(child)
            await asyncio.sleep(121)
        assert not exchange.over.is_set()


@simulated
async def test_each_process_has_starts_of_its_own() -> None:
    async with running(8) as exchange:
        for child in exchange.children[:]:
            child.kill()
        told = [await exchange.told.get() for _ in range(16)]
        assert sorted(each for each in told if "again" in each) == [f"{number} again" for number in range(1, 9)]
        assert not exchange.over.is_set()


async def dead(line: Line) -> None:
    await line.read()


async def failing(line: Line) -> None:
    await line.read()
    await line.write(KeyError("x"))


@pytest.mark.parametrize(
    ("program", "logged"),
    [
        (dead, "it ended before it was ready (exit code 0)"),
        (failing, "process 1 of the exchange cannot be started again: KeyError('x')"),
    ],
)
@simulated
async def test_an_exchange_whose_process_never_starts_again_ends(
    program: Program, logged: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with running() as exchange:
        exchange.program = program
        exchange.children[0].kill()
        await exchange.hears("1 killed by SIGKILL: 1/0")
        await exchange.hears("process 1 of the exchange was started again 5 times within 10 minutes")
    assert caplog.text.count(logged) == 5


@simulated
async def test_a_start_that_is_refused_is_tried_until_it_is_not(caplog: pytest.LogCaptureFixture) -> None:
    async with running() as exchange:
        port = port_of(exchange, "1/0")
        exchange.children[0].kill()
        await exchange.children[0].wait()
        with socket.create_server(("127.0.0.1", int(str(port)))):  # somebody else has its port
            await exchange.hears("1 killed by SIGKILL: 1/0")
            await asyncio.sleep(60)
            assert caplog.text.count("process 1 of the exchange cannot be started again: ") == 12
            assert await exchange.states() == {"1/0": "broken", "2/0": "waiting"}
        await exchange.hears("1 again")
        assert not exchange.over.is_set()


@simulated
async def test_a_process_that_hangs_for_long_is_started_again() -> None:
    async with running(1, hanging) as exchange:
        exchange.program = serve
        with pytest.raises(PeerTimeoutError, match="process 1 of the exchange does not answer"):
            await exchange.whole.carry_out(AskStatistics(("1/0",)), ANYBODY)
        assert not exchange.whole.exchange.readiness.is_ready
        await exchange.hears("1 it did not answer, and was killed: 1/0", "1 again")
        assert asyncio.get_running_loop().time() > 90.0  # no client waits for its stream any more
        assert await exchange.states() == {"1/0": "broken"}


@simulated
async def test_an_order_over_several_processes_is_carried_out_by_each() -> None:
    async with running(3) as exchange:
        for child in exchange.children[:2]:
            child.kill()
        for _ in range(4):
            await exchange.told.get()
        names = "2/0", "3/0", "1/0"
        reset = await exchange.whole.carry_out(ResetChannels(names), ANYBODY)
        assert isinstance(reset, Changed)
        assert tuple(each.channel for each in reset.channels) == names
        assert set((await exchange.states()).values()) == {"waiting"}
        await exchange.whole.carry_out(RemoveChannels(names[1:]), ANYBODY)
        assert await exchange.states() == {"2/0": "waiting"}


@simulated
async def test_an_order_that_one_process_refuses_changes_nothing() -> None:
    async with (
        running() as exchange,
        put(f"tcp://127.0.0.1:{port_of(exchange, '2/0')}", "2/0", pa.schema([("x", pa.int64())])),
    ):
        with pytest.raises(ChannelInUseError, match="2/0"):
            await exchange.whole.carry_out(RemoveChannels(("1/0", "2/0")), ANYBODY)
        assert [*await exchange.states()] == ["1/0", "2/0"]


@simulated
async def test_an_error_of_a_process_is_told() -> None:
    async def no_reply(*_: object) -> object:
        return lambda: None  # which cannot be sent

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(one_process, "carry_out", no_reply)
        async with running(1) as exchange:
            assert await exchange.states() == {"1/0": "broken"}
            assert "pickle" in await exchange.told.get()


class _Unreadable:
    def __reduce__(self) -> tuple[object, tuple[str, ...]]:
        return int, ("no number",)


@simulated
async def test_an_answer_that_cannot_be_read_ends_its_process() -> None:
    async def stammering(line: Line) -> None:
        await line.read()
        await line.write(Begun(1, 0, 0))
        await line.write(OrderOutcome(0, _Unreadable()))
        await asyncio.Event().wait()

    async with running(1, stammering) as exchange:
        reason = "ValueError(\"invalid literal for int() with base 10: 'no number'\")"
        await exchange.hears(f"1 an answer of it cannot be read: {reason}: 1/0")

"""Processes of an exchange that end by themselves: each is started again, and nobody takes lost rows for delivered."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from permitflow.carriers.same_host import SameHost
from permitflow.client import control, describe, get, put
from permitflow.client.health import LIVENESS, is_serving
from permitflow.errors import ChannelAbortedError, PeerGoneError, ResumeRefusedError, UnknownChannelError
from permitflow.exchange.access import ANYBODY
from permitflow.exchange.limits import Limits
from permitflow.exchange.server import ExchangeServer
from permitflow.stream.control import ResetChannels
from permitflow.stream.frames import EndOutcome
from permitflow_tools.cli import processes
from permitflow_tools.cli.processes import Processes
from tests.permitflow_tools.cli.test_serve import ROWS_OF_CHUNK, move
from tests.support.turns import until

pytestmark = pytest.mark.long

BATCH = pa.record_batch({"x": [1, 2, 3]})


class Running:
    """Two processes, and what is told of them."""

    def __init__(self, resume_seconds: float, listen: str) -> None:
        self.told = asyncio.Queue[str]()
        self.over = asyncio.Event()
        self.whole = Processes(
            2,
            ["a/0", "b/0"],
            listen,
            settings={"same_host": SameHost.NEVER},
            limits=Limits(),
            serving={"silence_seconds": 3.0, "resume_seconds": resume_seconds},
            rights=None,
            token_file=None,
            log_level=None,
            losses=self,
        )
        self.address = ""
        self.pids: list[int] = []

    def process_lost(self, number: int, end: str, channels: Sequence[str]) -> None:
        self.told.put_nowait(f"{number} {end}: {', '.join(channels)}")

    def process_started(self, number: int) -> None:
        self.told.put_nowait(f"{number} again")

    def processes_given_up(self, reason: str) -> None:
        self.told.put_nowait(reason)

    def signal(self, number: int, kind: signal.Signals) -> None:
        os.kill(self.pids[number - 1], kind)

    async def lose(self, number: int) -> None:
        """Kill a process, and wait until it serves again."""
        self.signal(number, signal.SIGKILL)
        assert (await self.told.get()).startswith(f"{number} killed by SIGKILL: ")
        assert await self.told.get() == f"{number} again"
        (self.pids[number - 1],) = children() - {*self.pids}


def children() -> set[int]:
    """The processes that this one has started."""
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


@asynccontextmanager
async def running(resume_seconds: float = 60.0, listen: str = "127.0.0.1:0") -> AsyncIterator[Running]:
    async with asyncio.timeout(120.0):
        exchange, before = Running(resume_seconds, listen), children()
        try:
            await exchange.whole.begin(exchange.over.set)
            exchange.pids = sorted(children() - before)
            async with ExchangeServer(exchange.whole.exchange, listen) as door:
                exchange.address = door.address
                await exchange.whole.opened(door.address)
                yield exchange
        finally:
            await exchange.whole.aclose()


async def test_channels_of_a_lost_process_are_broken_until_reset() -> None:
    async with running() as exchange:
        async with control(exchange.address) as orders:
            await orders.add_stream("c", 2, schema=BATCH.schema)  # in the first process
            await orders.remove(["c/0"])
            await exchange.lose(1)
            told = {each.channel: each.state for each in (await orders.statistics()).channels}
        assert told == {"a/0": "broken", "b/0": "waiting", "c/1": "broken"}
        assert await asyncio.to_thread(is_serving, exchange.address)
        for channel in ("a/0", "c/1"):
            with pytest.raises(ChannelAbortedError, match=r"killed by SIGKILL.*is lost"):
                async with put(exchange.address, channel, BATCH.schema):
                    pass
            with pytest.raises(ChannelAbortedError, match=r"killed by SIGKILL.*is lost"):
                async with get(exchange.address, channel) as receiver:
                    await receiver.receive()
        async with control(exchange.address) as orders:
            await orders.reset(["a/0", "c/1"])
        assert await move(exchange.address, "c/1", 1) == ROWS_OF_CHUNK
        with pytest.raises(UnknownChannelError):
            await describe(exchange.address, "c/0")
        async with control(exchange.address) as orders:
            await orders.remove(["c/1"])
            await orders.add_stream("c", 2)


@pytest.mark.parametrize("listen", ["127.0.0.1:0", "tcp://127.0.0.1:0", "udp://127.0.0.1:0"])
async def test_no_stream_goes_on_in_a_process_that_has_forgotten_it(listen: str) -> None:
    async def produce(address: str) -> None:
        async with put(address, "a/0", BATCH.schema, resume_seconds=60.0) as sender:
            while True:
                await sender.send(BATCH)

    async def consume(address: str, has_begun: asyncio.Event) -> None:
        async with get(address, "a/0", resume_seconds=60.0) as receiver:
            async for _ in receiver:
                has_begun.set()

    async with running(listen=listen) as exchange:
        has_begun = asyncio.Event()
        tasks = [produce(exchange.address), consume(exchange.address, has_begun)]
        ends = asyncio.gather(*tasks, return_exceptions=True)
        await has_begun.wait()
        await exchange.lose(1)
        for end in await ends:
            assert isinstance(end, ResumeRefusedError)
            assert "started again" in str(end)


async def test_streams_of_other_processes_go_on() -> None:
    async with (
        running() as exchange,
        put(exchange.address, "a/0", BATCH.schema) as sender,
        get(exchange.address, "a/0") as receiver,
    ):
        await exchange.lose(2)
        await sender.send(BATCH)
        assert (await receiver.receive()).rows == 3
        await sender.end(until=EndOutcome.ACCEPTED, closes_channel=True)
        assert [message async for message in receiver] == []


async def test_without_a_process_an_exchange_is_alive_and_not_ready() -> None:
    async with running() as exchange, control(exchange.address) as orders:
        exchange.signal(1, signal.SIGKILL)
        await exchange.told.get()
        assert not await asyncio.to_thread(is_serving, exchange.address)
        assert await asyncio.to_thread(is_serving, exchange.address, service=LIVENESS)
        assert [each.channel for each in (await orders.statistics()).channels] == ["b/0"]
        with pytest.raises(PeerGoneError, match="until it was started again"):
            await describe(exchange.address, "a/0")
        assert await exchange.told.get() == "1 again"
        assert (await exchange.whole.figures()).whole["lost_processes"] == 1


async def test_an_order_under_way_fails_with_its_process() -> None:
    async with running() as exchange:
        exchange.signal(1, signal.SIGSTOP)
        asked = asyncio.create_task(exchange.whole.carry_out(ResetChannels(("a/0",)), ANYBODY))
        assert await asyncio.wait({asked}, timeout=0.1) == (set(), {asked})
        exchange.signal(1, signal.SIGKILL)
        with pytest.raises(PeerGoneError, match="what was asked with it"):
            await asked


async def test_an_exchange_whose_processes_are_lost_too_often_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_MOST_STARTS", 2)
    async with running() as exchange:
        await exchange.lose(1)
        await exchange.lose(2)
        assert not exchange.whole.has_failed
        exchange.signal(1, signal.SIGKILL)
        assert await exchange.told.get() == "1 killed by SIGKILL: a/0"
        assert await exchange.told.get() == "its processes were started again 2 times within 60 s"
        await exchange.over.wait()
        assert exchange.whole.has_failed


async def test_a_process_that_hangs_for_long_is_started_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(processes, "_HANGS_SECONDS", 5.0)
    monkeypatch.setattr(processes, "_LEAST_HANGING_SECONDS", 0.0)
    async with running(resume_seconds=0.0) as exchange:
        exchange.signal(1, signal.SIGSTOP)
        assert await exchange.told.get() == "1 it did not answer, and was killed: a/0"
        assert await exchange.told.get() == "1 again"


async def test_an_exchange_whose_processes_die_at_their_start_ends(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(processes, "_BETWEEN_STARTS_SECONDS", 0.0)
    async with running() as exchange:
        monkeypatch.setattr(sys, "executable", "/bin/false")
        exchange.signal(1, signal.SIGKILL)
        await exchange.told.get()
        assert "times within" in await exchange.told.get()
    assert caplog.text.count("cannot be started again") == 5


async def test_a_process_whose_start_is_refused_is_tried_until_it_serves(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(processes, "_BETWEEN_REFUSALS_SECONDS", 0.0)
    async with running() as exchange:
        with monkeypatch.context() as refusing:
            refusing.setattr(sys, "executable", "/nowhere/python")
            exchange.signal(1, signal.SIGKILL)
            await exchange.told.get()
            await until(lambda: caplog.text.count("cannot be started again") > 5)
        assert await exchange.told.get() == "1 again"

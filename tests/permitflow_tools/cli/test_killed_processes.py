"""Streams whose exchange loses one of several processes, which are processes of the system here."""

import asyncio
import os
import signal
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pyarrow as pa
import pytest

from permitflow.carriers.same_host import SameHost
from permitflow.client import control, describe, get, put
from permitflow.client.health import LIVENESS, is_serving
from permitflow.errors import ChannelAbortedError, PeerGoneError, ResumeRefusedError
from permitflow.exchange.limits import Limits
from permitflow.exchange.server import ExchangeServer
from permitflow.stream.frames import EndOutcome
from permitflow_tools.cli.processes import Processes
from tests.permitflow_tools.cli.test_lost_processes import Told
from tests.permitflow_tools.cli.test_serve import ROWS_OF_CHUNK, move

pytestmark = pytest.mark.long

BATCH = pa.record_batch({"x": [1, 2, 3]})


class Running(Told):
    """Two processes."""

    def __init__(self, listen: str) -> None:
        super().__init__()
        self.whole = Processes(
            2,
            ["a/0", "b/0"],
            listen,
            settings={"same_host": SameHost.NEVER},
            limits=Limits(),
            serving={"silence_seconds": 3.0, "resume_seconds": 60.0},
            rights=None,
            token_file=None,
            log_level=None,
            losses=self,
        )
        self.address = ""
        self.pids: list[int] = []

    async def lose(self, number: int) -> None:
        """Kill a process, and wait until the exchange knows."""
        os.kill(self.pids[number - 1], signal.SIGKILL)
        assert (await self.told.get()).startswith(f"{number} killed by SIGKILL: ")


def children() -> set[int]:
    """The processes that this one has started."""
    return {int(pid) for pid in Path(f"/proc/self/task/{os.getpid()}/children").read_text().split()}


@asynccontextmanager
async def running(listen: str = "127.0.0.1:0") -> AsyncIterator[Running]:
    async with asyncio.timeout(120.0):
        exchange, before = Running(listen), children()
        try:
            await exchange.whole.begin(lambda: None)
            exchange.pids = sorted(children() - before)
            async with ExchangeServer(exchange.whole.exchange, listen) as door:
                exchange.address = door.address
                await exchange.whole.opened(door.address)
                yield exchange
        finally:
            await exchange.whole.aclose()


async def test_clients_hear_of_a_lost_process_until_the_reset() -> None:
    async with running() as exchange:
        await exchange.lose(1)
        assert not await asyncio.to_thread(is_serving, exchange.address)
        assert await asyncio.to_thread(is_serving, exchange.address, service=LIVENESS)
        with pytest.raises(PeerGoneError, match="until it was started again"):
            await describe(exchange.address, "a/0")
        assert await exchange.told.get() == "1 again"
        assert await asyncio.to_thread(is_serving, exchange.address)
        with pytest.raises(ChannelAbortedError, match=r"killed by SIGKILL.*is lost"):
            async with put(exchange.address, "a/0", BATCH.schema):
                pass
        with pytest.raises(ChannelAbortedError, match=r"killed by SIGKILL.*is lost"):
            async with get(exchange.address, "a/0") as receiver:
                await receiver.receive()
        async with control(exchange.address) as orders:
            await orders.reset(["a/0"])
        assert await move(exchange.address, "a/0", 1) == ROWS_OF_CHUNK


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

    async with running(listen) as exchange:
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
        assert await exchange.told.get() == "2 again"
        await sender.send(BATCH)
        assert (await receiver.receive()).rows == 3
        await sender.end(until=EndOutcome.ACCEPTED, closes_channel=True)
        assert [message async for message in receiver] == []

"""The master of the example system over real connections: what it keeps to, whatever clients and workers do."""

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from typing import Any

import pytest

from examples.child_process import address_of
from examples.jobs.client import Client
from examples.jobs.lines import MOST_LINE_BYTES, line_of
from examples.jobs.master import MOST_NAME_LETTERS, Master
from examples.jobs.metrics import Metrics, MetricsSettings, sending_metrics
from examples.jobs.settings import ClientSettings, MasterSettings, WorkerSettings
from examples.jobs.work import result_of
from examples.jobs.worker import work
from permitflow.errors import PermitflowError, TransportError
from tests.support.turns import until

OPEN = 10


@dataclass
class System:
    """A master that runs in this process."""

    master: Master
    metrics: Metrics
    clients: str
    workers: str
    peers: "list[Peer]" = field(default_factory=list)

    @asynccontextmanager
    async def worker(self, name: str, start: int = 1, job_seconds: float = 0.0) -> AsyncIterator[asyncio.Task[None]]:
        """A worker until the end of the block, at which it breaks off whatever it does."""
        settings = WorkerSettings(name=name, start=start, master=self.workers, job_seconds=job_seconds)
        working = asyncio.create_task(work(settings, self.metrics, asyncio.Event()))
        try:
            yield working
        finally:
            working.cancel()
            await asyncio.wait({working})

    async def connect(self, *lines: bytes) -> "Peer":
        """Somebody who sends these lines."""
        reader, writer = await asyncio.open_connection(*address_of(self.clients))
        writer.writelines(lines)
        self.peers.append(Peer(reader, writer))
        return self.peers[-1]


@dataclass
class Peer:
    """A connection to the master, by hand."""

    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def line(self) -> dict[str, Any]:
        """The next message; empty at the end of the stream."""
        line = b""
        with suppress(ConnectionError):
            line = await self.reader.readline()
        found: dict[str, Any] = json.loads(line) if line else {}
        return found


@asynccontextmanager
async def serving(queue_capacity: int = 100, workers: int = 2) -> AsyncIterator[System]:
    settings = MasterSettings(
        queue_capacity=queue_capacity,
        workers=[f"w{number}" for number in range(1, workers + 1)],
        most_open=OPEN,
    )
    addresses: asyncio.Future[tuple[str, str]] = asyncio.get_running_loop().create_future()
    async with sending_metrics(MetricsSettings()) as metrics:
        master = Master(settings, metrics)
        running = asyncio.create_task(master.run(lambda *ready: addresses.set_result(ready)))
        try:
            system = System(master, metrics, *await addresses)
            yield system
            for peer in system.peers:
                peer.writer.close()
        finally:
            running.cancel()
            await asyncio.wait({running})


def job(number: int, work: int = 1, **more: object) -> bytes:
    return line_of(job=number, work=work, **more)


async def test_jobs_are_reported_once_though_the_queue_drops() -> None:
    jobs, capacity = 20, 5
    async with serving(queue_capacity=capacity) as system:
        master, ending = system.master, asyncio.Event()
        phases = [(100_000, jobs / 100_000), (1, 0)]
        client = Client(ClientSettings(name="c1", master=system.clients, phases=phases, resend_seconds=0.05))
        submitting = asyncio.create_task(client.run(ending))
        await until(lambda: master.book.counts["queued"] >= jobs)
        assert master.book.counts["dropped"] >= jobs - capacity
        async with system.worker("w2"):
            async with system.worker("w1", job_seconds=60.0):
                await until(lambda: master.book.has_job("w1"))
            await until(lambda: master.book.counts["given_again"] == 1)
            ending.set()
            await submitting
        state, book = client.state, master.state()
        assert (state.finished, state.wrong) == (state.submitted, 0)
        assert (book.counts["finished"], book.finished_work) == (state.finished, state.finished_work)
        assert book.peak_queued == capacity
        assert book.peak_entries <= OPEN
        assert book.results_by == {"w2#1": state.finished}


async def test_the_idle_worker_that_waited_longest_gets_the_job() -> None:
    async with serving() as system, system.worker("w1"), system.worker("w2"):
        await until(lambda: system.master.book.workers == 2)
        peer = await system.connect(line_of(client="c1"))
        for number in range(6):
            peer.writer.write(job(number) + line_of(confirm=number))
            await until(lambda heard=number + 1: system.master.book.counts["finished"] == heard)  # type: ignore[misc]
        assert system.master.results_by == {"w1#1": 3, "w2#1": 3}


async def test_a_client_that_loses_its_connection_goes_on() -> None:
    async with serving() as system, system.worker("w1"):
        ending, phases = asyncio.Event(), [(1_000, 0.03), (1, 0)]
        client = Client(ClientSettings(name="c1", master=system.clients, phases=phases, resend_seconds=0.05))
        submitting = asyncio.create_task(client.run(ending))
        await until(lambda: client.state.finished >= OPEN)
        stranger = await system.connect(line_of(client="c1"))
        while await stranger.line():  # until the client has come again
            pass
        ending.set()
        await submitting
        assert client.state.finished == client.state.submitted > OPEN


async def test_a_client_that_never_reads_stops_nobody() -> None:
    async with serving() as system, system.worker("w1"):
        deaf = await system.connect(line_of(client="deaf"))
        other = await system.connect(line_of(client="other"))
        book = system.master.book
        for number in range(3 * OPEN):
            deaf.writer.write(job(number))
            # No more come than are finished, so that the queue drops none.
            await until(lambda heard=number + 1: book.counts["finished"] + book.counts["refused"] == heard)  # type: ignore[misc]
        assert len(book.unconfirmed("deaf")) == OPEN
        assert book.counts["refused"] == 2 * OPEN
        other.writer.write(job(0, work=20))
        assert await other.line() == {"finished": 0, "result": result_of(20)}


async def test_what_was_not_confirmed_is_told_on_the_next_connection() -> None:
    async with serving() as system, system.worker("w1"):
        old = await system.connect(line_of(client="c1"), job(0), job(1))
        assert {(await old.line())["finished"] for _ in range(2)} == {0, 1}
        old.writer.write(line_of(confirm=0))
        await until(lambda: system.master.book.counts["confirmed"] == 1)
        new = await system.connect(line_of(client="c1"))
        assert await new.line() == {"finished": 1, "result": result_of(1)}
        assert await old.line() == {}


async def test_a_finished_job_that_comes_again_is_only_reported_again() -> None:
    async with serving() as system, system.worker("w1"):
        peer = await system.connect(line_of(client="c1"), job(0))
        first = await peer.line()
        peer.writer.write(job(0, again=True))
        assert await peer.line() == first
        assert system.master.book.counts["pulled"] == 1


@pytest.mark.parametrize(
    ("lines", "told"),
    [
        ([b"hello\n"], "'hello' is no message: it is not JSON"),
        ([b"[1]\n"], "'[1]' is no message: it is no object"),
        ([job(0)], "the first one must say who is there"),
        ([line_of(client="x" * (MOST_NAME_LETTERS + 1))], "the first one must say who is there"),
        ([line_of(client="c1"), job(-1)], "'job' must be a whole number"),
        ([line_of(client="c1"), line_of(job=1)], "'work' must be a whole number"),
        ([line_of(client="c1"), line_of(confirm=True)], "'confirm' must be a whole number"),
        ([line_of(client="c1"), b"x" * MOST_LINE_BYTES * 2], f"it has more than {MOST_LINE_BYTES:,} bytes"),
    ],
)
async def test_a_line_that_is_no_message_is_answered_with_an_error(lines: list[bytes], told: str) -> None:
    async with serving() as system, system.worker("w1"):
        peer = await system.connect(*lines)
        assert told in (await peer.line())["error"]
        assert await peer.line() == {}
        other = await system.connect(line_of(client="c2"), job(0))
        assert (await other.line())["finished"] == 0


async def test_a_worker_of_the_same_name_waits_for_the_first_to_go() -> None:
    async with serving(workers=1) as system:
        async with system.worker("w1", job_seconds=60.0):
            await system.connect(line_of(client="c1"), job(0))
            await until(lambda: system.master.book.has_job("w1"))
            async with system.worker("w1", start=2) as second:
                with pytest.raises(PermitflowError, match="consumer"):
                    await second
        await until(lambda: system.master.book.counts["given_again"] == 1)
        async with system.worker("w1", start=3):
            await until(lambda: system.master.results_by == {"w1#3": 1})


async def test_a_port_that_is_taken_is_named() -> None:
    async with serving() as system:
        settings = MasterSettings(queue_capacity=1, workers=[], listen=system.clients)
        with pytest.raises(TransportError, match=f"cannot listen at {system.clients}"):
            await Master(settings, system.metrics).run(lambda *_: None)

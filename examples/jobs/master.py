"""The master: ``python -m examples.jobs.master SETTINGS``.

Clients send jobs over TCP.  They wait in a queue that drops the oldest.  Workers pull them over gRPC, from the exchange
inside this process: each has a channel for its jobs and one for its results.
"""

import asyncio
import re
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, aclosing, suppress
from dataclasses import asdict, dataclass
from pathlib import Path

import pyarrow as pa

from permitflow.errors import PermitflowError, TransportError
from permitflow.exchange.registry import Exchange
from permitflow.exchange.server import ExchangeServer
from permitflow.flows.demand.core import Demand
from permitflow.names import stream_channels

from ..child_process import address_of, report, run_process, until_asked_to_end
from .book import Job, JobBook, JobId, Submitted
from .lines import Line, NoMessageError, line_of, messages, whole_number
from .metrics import Metrics, sending_metrics
from .settings import MasterSettings
from .work import JOBS, RESULTS, jobs_stream, results_of, results_stream

STOP_AND_WAIT = Demand(size=1)
"""A worker pulls the next job when it is done with this one."""
SILENCE_SECONDS = 5.0
"""A worker that gives no sign of life for longer is dead."""
HELLO_SECONDS = 10.0
ABSENCE_SECONDS = 30.0
"""A client that is away for longer, or does not read for longer, is forgotten."""
MOST_CONNECTIONS = 100
MOST_CLIENTS = 1_000
"""Clients that are connected, or were so a short time ago."""
MOST_NAME_LETTERS = 100
MEASURE_SECONDS = 0.1
TOLD = ("dropped", "pulled", "given_again", "finished", "repeated")
"""Counts of the book that are metrics."""

Send = Callable[[pa.RecordBatch], Awaitable[None]]


@dataclass(frozen=True, kw_only=True)
class MasterState:
    """What has happened so far."""

    counts: Mapping[str, int]
    """The counts of the book."""
    finished_work: int
    """The sum of the results of all finished jobs."""
    peak_queued: int
    """Jobs in the queue."""
    peak_entries: int
    """Jobs and results that were remembered."""
    longest_wait_seconds: float
    """In the queue, of a job that a worker has pulled."""
    results_by: Mapping[str, int]
    """Results that came, by the start of the worker."""
    peak_resident_bytes: int


class Connection:
    """A client that is connected."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        """Nothing was written."""
        self.writer = writer
        self.news = asyncio.Event()
        """Are there results that were not written?"""
        self.unwritten: set[int] = set()

    def tell(self, number: int) -> None:
        """Let a result be written."""
        self.unwritten.add(number)
        self.news.set()


class Master:
    """All of it, in one event loop."""

    def __init__(self, settings: MasterSettings, metrics: Metrics) -> None:
        """Nothing listens before ``run``."""
        self.book = JobBook(settings.queue_capacity, settings.most_open)
        self.results_by: Counter[str] = Counter()
        """Results that came, by the start of the worker."""
        self._settings, self._metrics = settings, metrics
        self._loop = asyncio.get_running_loop()
        self._connections: dict[str, Connection] = {}
        self._connected = 0
        self._forgetting: dict[str, asyncio.TimerHandle] = {}
        self._wakes = {name: asyncio.Event() for name in settings.workers}
        """By worker; who was given a job longest ago is woken first, so that none starves while others are idle."""
        self._counted: Counter[str] = Counter()

    async def run(self, ready: Callable[[str, str], None]) -> None:
        """Serve until cancelled.

        Args:
            ready: is called with the addresses for clients and for workers.

        Raises:
            TransportError: an address cannot be had.
        """
        settings, exchange = self._settings, Exchange()
        async with AsyncExitStack() as stack:
            server = ExchangeServer(exchange, settings.workers_listen, silence_seconds=SILENCE_SECONDS)
            await stack.enter_async_context(server)
            group = asyncio.TaskGroup()
            try:
                listening = await asyncio.start_server(
                    lambda reader, writer: group.create_task(self._serve(reader, writer)),
                    *address_of(settings.listen),
                    start_serving=False,
                )
            except OSError as error:
                raise TransportError.of(what=f"cannot listen at {settings.listen}", cause=error) from error
            await stack.enter_async_context(group)
            stack.callback(listening.close)
            for name in settings.workers:
                group.create_task(self._lead_worker(exchange, name), name=f"leads {name}")
            group.create_task(self._measure())
            await listening.start_serving()
            host, port = listening.sockets[0].getsockname()[:2]
            ready(f"{host}:{port}", server.address)
            await self._loop.create_future()

    def state(self) -> MasterState:
        """What has happened so far."""
        self._count_changes()
        book = self.book
        return MasterState(
            counts=dict(book.counts),
            finished_work=book.finished_work,
            peak_queued=book.peak_queued,
            peak_entries=book.peak_entries,
            longest_wait_seconds=book.longest_wait,
            results_by=dict(self.results_by),
            peak_resident_bytes=peak_resident_bytes(),
        )

    # Workers.

    async def _lead_worker(self, exchange: Exchange, name: str) -> None:
        """Give jobs to one start of a worker after the other, over a new pair of channels for each."""
        (jobs_name,), (results_name,) = stream_channels(jobs_stream(name), 1), stream_channels(results_stream(name), 1)
        leading = asyncio.current_task()
        assert leading is not None  # this is one
        while True:
            jobs = exchange.add_channel(jobs_name, STOP_AND_WAIT, JOBS)
            results = exchange.add_channel(results_name, STOP_AND_WAIT, RESULTS)
            try:
                async with asyncio.TaskGroup() as group:
                    group.create_task(self._give(name, jobs.sender.send))
                    while True:
                        self._take_results(name, (await results.receiver.receive()).payload)
            except* PermitflowError:
                pass  # it has ended, or is lost
            finally:
                self._lose(name)
                await exchange.remove_channel(jobs_name)
                await exchange.remove_channel(results_name)
            # A group whose task fails forgets a cancellation that comes at the same time.
            if leading.cancelling():
                raise asyncio.CancelledError

    async def _give(self, name: str, send: Send) -> None:
        """Send a worker jobs whenever it may have one more; each waits until it is pulled."""
        wake = self._wakes[name]
        while True:
            while (job := self.book.take(name, self._loop.time())) is not None:
                self._wakes[name] = self._wakes.pop(name)
                await send(_chunk_of(job))
            wake.clear()
            await wake.wait()

    def _take_results(self, name: str, chunk: pa.RecordBatch) -> None:
        self.book.join(name)
        for result in results_of(chunk):
            start = result.worker.removeprefix(f"{name}#")
            if not result.client or not (start.isascii() and start.isdecimal()):
                continue
            self.results_by[result.worker] += 1
            self._metrics.took_result(name, int(start))
            is_new = self.book.finish(JobId(result.client, result.number), result.result)
            if is_new and (connection := self._connections.get(result.client)):
                connection.tell(result.number)
        self._wake()

    def _lose(self, name: str) -> None:
        self.book.lose(name)
        self._wake()

    def _wake(self) -> None:
        for wake in self._wakes.values():
            wake.set()

    # Clients.

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve a connection; nothing is known of its peer yet."""
        self._connected += 1
        try:
            with suppress(ConnectionError, TimeoutError):
                try:
                    await self._serve_client(reader, writer)
                except NoMessageError as error:
                    writer.write(line_of(error=str(error)))
                    async with asyncio.timeout(HELLO_SECONDS):
                        await writer.drain()
        finally:
            self._connected -= 1
            writer.close()

    async def _serve_client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self._connected > MOST_CONNECTIONS:
            raise NoMessageError(line="a connection", reason=f"there are {MOST_CONNECTIONS} others")
        async with aclosing(messages(reader)) as lines:
            async with asyncio.timeout(HELLO_SECONDS):
                client = _client_of(await anext(lines, {}))
            if client not in self.book.clients and len(self.book.clients) >= MOST_CLIENTS:
                raise NoMessageError(line=repr(client), reason=f"there are {MOST_CLIENTS} other clients")
            connection = Connection(writer)
            if replaced := self._connections.get(client):
                # What it has sent and was not read must not be taken any more: see examples.jobs.life.
                replaced.writer.transport.abort()
            self._connections[client] = connection
            if forgetting := self._forgetting.pop(client, None):
                forgetting.cancel()
            for number in self.book.unconfirmed(client):
                connection.tell(number)
            writing = asyncio.create_task(self._write_results(client, connection))
            try:
                async for message in lines:
                    if self._connections.get(client) is not connection:
                        break
                    self._hear(client, connection, message)
            finally:
                writing.cancel()
                await asyncio.wait({writing})
                if self._connections.get(client) is connection:
                    del self._connections[client]
                    self._forgetting[client] = self._loop.call_later(ABSENCE_SECONDS, self._forget, client)

    def _forget(self, client: str) -> None:
        self.book.forget(client)
        del self._forgetting[client]

    def _hear(self, client: str, connection: Connection, message: Line) -> None:
        if "confirm" in message:
            self.book.confirm(JobId(client, whole_number(message, "confirm")))
            return
        job, work = JobId(client, whole_number(message, "job")), whole_number(message, "work")
        self._metrics.count("resent" if message.get("again") else "submitted")
        match self.book.submit(job, work, self._loop.time()):
            case Submitted.QUEUED:
                self._wake()
            case Submitted.FINISHED:
                connection.tell(job.number)

    async def _write_results(self, client: str, connection: Connection) -> None:
        """Write results as fast as the client reads; those that it does not read stay in the book, which is bounded."""
        writer = connection.writer
        try:
            while True:
                await connection.news.wait()
                connection.news.clear()
                numbers, connection.unwritten = connection.unwritten, set()
                results = self.book.unconfirmed(client)
                lines = [line_of(finished=number, result=results[number]) for number in numbers if number in results]
                self._metrics.count("reported", len(lines))
                writer.writelines(lines)
                async with asyncio.timeout(ABSENCE_SECONDS):
                    await writer.drain()
        except (ConnectionError, TimeoutError):
            writer.transport.abort()

    # Metrics.

    async def _measure(self) -> None:
        while True:
            report("state", results_by=dict(self.results_by))
            self._count_changes()
            oldest = self.book.oldest_since()
            self._metrics.gauge("queue", self.book.queued)
            self._metrics.gauge("oldest_seconds", 0.0 if oldest is None else self._loop.time() - oldest)
            self._metrics.gauge("workers", self.book.workers)
            self._metrics.gauge("clients", len(self._connections))
            await asyncio.sleep(MEASURE_SECONDS)

    def _count_changes(self) -> None:
        for name in TOLD:
            if more := self.book.counts[name] - self._counted[name]:
                self._metrics.count(name, more)
        self._counted = self.book.counts.copy()


def _client_of(message: Line) -> str:
    name = message.get("client")
    if not isinstance(name, str) or not 0 < len(name) <= MOST_NAME_LETTERS:
        reason = f"the first one must say who is there, as {{'client': 'c1'}}, in 1 to {MOST_NAME_LETTERS} letters"
        raise NoMessageError(line=str(dict(message))[:MOST_NAME_LETTERS], reason=reason)
    return name


def _chunk_of(job: Job) -> pa.RecordBatch:
    return pa.record_batch([[job.id.client], [job.id.number], [job.work]], schema=JOBS)


def peak_resident_bytes() -> int:
    """The most memory that this process has had, as Linux tells it."""
    # What getrusage tells begins with the memory of the process that has started this one.
    status = Path("/proc/self/status").read_text()
    (kibibytes,) = re.findall(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    return int(kibibytes) * 1024


async def main() -> None:
    """Run a master until it is asked to end."""
    settings = MasterSettings.from_command_line()
    async with sending_metrics(settings.metrics) as metrics:
        master = Master(settings, metrics)

        def ready(clients: str, workers: str) -> None:
            report("ready", clients=clients, workers=workers, resident_bytes=peak_resident_bytes())

        await until_asked_to_end(master.run(ready))
        state, totals = master.state(), dict(metrics.totals)
    report("final", totals=totals, state=asdict(state))


if __name__ == "__main__":
    run_process(main())

"""A client: ``python -m examples.jobs.client SETTINGS``.

It submits jobs at a rate that does not depend on how fast they are finished, sends each again that was not reported in
time, and counts each once, however often it is reported.
"""

import asyncio
from collections.abc import Iterator
from contextlib import aclosing, suppress
from dataclasses import asdict, dataclass
from itertools import count, islice
from random import Random
from time import monotonic_ns

from permitflow.errors import PeerGoneError, PermitflowError
from permitflow.stages import Source, TokenBucket

from ..child_process import address_of, asked_to_end, report, run_process
from .lines import line_of, messages, whole_number
from .settings import ClientSettings
from .work import result_of

RESEND_LOOK_SECONDS = 0.05
AWAY_SECONDS = 10.0
"""A master that is away for longer is gone."""
AWAY_PAUSE_SECONDS = 0.2
REPORT_SECONDS = 0.2
LARGEST_WORK = 1_000
SECOND_NS = 1_000_000_000
BURST_SECONDS = 0.05


@dataclass
class ClientState:
    """What a client has done so far."""

    submitted: int = 0
    finished: int = 0
    """Jobs, each counted once."""
    finished_work: int = 0
    """The sum of their results."""
    resent: int = 0
    repeated: int = 0
    """Reports of jobs that were reported before."""
    wrong: int = 0
    """Results that are."""
    longest_seconds: float = 0.0
    """From the first time that a job was sent to its report."""


class UnfinishedJob:
    """A job that was submitted."""

    __slots__ = ("again_at", "first_sent_at", "work")

    def __init__(self, work: int, now: float) -> None:
        """It is sent now."""
        self.work, self.first_sent_at, self.again_at = work, now, now


class Client:
    """The jobs of one client."""

    def __init__(self, settings: ClientSettings) -> None:
        """Nothing was submitted."""
        self.state = ClientState()
        self._settings = settings
        self._loop = asyncio.get_running_loop()
        # The one that is to be sent again soonest is the first.
        self._unfinished: dict[int, UnfinishedJob] = {}
        self._works = Random(settings.seed)
        self._writer: asyncio.StreamWriter | None = None
        self._all_finished = asyncio.Event()
        self._connected_once = asyncio.Event()
        self._ending = asyncio.Event()

    async def run(self, ending: asyncio.Event) -> None:
        """Submit until asked to end, and return when all that was submitted is finished.

        Raises:
            PermitflowError: the master is not there, or gone, or refuses what comes.
        """
        self._ending = ending
        async with asyncio.TaskGroup() as group:
            beside = [group.create_task(work) for work in (self._stay_connected(), self._resend())]
            submitting = group.create_task(self._submit())
            await ending.wait()
            submitting.cancel()
            await asyncio.wait({submitting})
            while self._unfinished:
                self._all_finished.clear()
                await self._all_finished.wait()
            for task in beside:
                task.cancel()

    # Sending.

    async def _submit(self) -> None:
        await self._connected_once.wait()
        numbers = count()
        last = len(self._settings.phases) - 1
        for phase, (rate, seconds) in enumerate(self._settings.phases):
            some: Iterator[int] = numbers if phase == last else islice(numbers, round(rate * seconds))
            burst = max(1, round(rate * BURST_SECONDS))
            async with Source(some).throttle(rate, 1.0, burst=burst).open() as due:
                async for number in due:
                    job = UnfinishedJob(self._works.randint(0, LARGEST_WORK), self._loop.time())
                    self.state.submitted += 1
                    await self._send(number, job)

    async def _resend(self) -> None:
        period_ns = SECOND_NS // self._settings.resends_per_second
        bucket = TokenBucket(round(self._settings.resends_per_second * BURST_SECONDS), period_ns, monotonic_ns())
        while True:
            await asyncio.sleep(RESEND_LOOK_SECONDS)
            while self._due() is not None:
                await asyncio.sleep(bucket.offer(1, monotonic_ns()) / SECOND_NS)
                if (number := self._due()) is not None:
                    self.state.resent += 1
                    await self._send(number, self._unfinished[number], again=True)

    def _due(self) -> int | None:
        """The job that is to be sent again first, if it is time."""
        number = next(iter(self._unfinished), None)
        is_due = number is not None and self._unfinished[number].again_at <= self._loop.time()
        return number if is_due else None

    async def _send(self, number: int, job: UnfinishedJob, *, again: bool = False) -> None:
        # It becomes the last one to be sent again.
        self._unfinished.pop(number, None)
        job.again_at = self._loop.time() + self._settings.resend_seconds
        self._unfinished[number] = job
        if self._writer is not None:
            # A connection that is lost meanwhile is made again, and the job sent again.
            with suppress(ConnectionError):
                self._writer.write(line_of(job=number, work=job.work, again=again))
                await self._writer.drain()

    # Receiving.

    async def _stay_connected(self) -> None:
        address = address_of(self._settings.master)
        while True:
            reader, writer = await self._connected(*address)
            try:
                with suppress(ConnectionError):
                    writer.write(line_of(client=self._settings.name))
                    self._writer = writer
                    self._connected_once.set()
                    await self._read(reader, writer)
            finally:
                self._writer = None
                writer.close()

    async def _connected(self, host: str, port: int) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        # A client that ends does not wait for a master that comes again.
        give_up_at = self._loop.time() + (AWAY_PAUSE_SECONDS if self._ending.is_set() else AWAY_SECONDS)
        while True:
            try:
                async with asyncio.timeout_at(give_up_at):
                    return await asyncio.open_connection(host, port)
            except OSError as error:  # a time-out is one
                if self._ending.is_set() or self._loop.time() >= give_up_at - AWAY_PAUSE_SECONDS:
                    who, reason = f"the master at {host}:{port}", str(error) or "it does not answer"
                    raise PeerGoneError(who=who, reason=reason) from error
            await asyncio.sleep(AWAY_PAUSE_SECONDS)

    async def _read(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        async with aclosing(messages(reader)) as lines:
            async for message in lines:
                if "error" in message:
                    raise PeerGoneError(who=f"the master at {self._settings.master}", reason=str(message["error"]))
                number = whole_number(message, "finished")
                self._take_result(number, whole_number(message, "result"))
                # It may have been reported before: what was lost is perhaps the confirmation.
                writer.write(line_of(confirm=number))
                await writer.drain()

    def _take_result(self, number: int, result: int) -> None:
        job = self._unfinished.pop(number, None)
        if job is None:
            self.state.repeated += 1
            return
        self.state.finished += 1
        self.state.finished_work += result
        self.state.wrong += result != result_of(job.work)
        took_seconds = self._loop.time() - job.first_sent_at
        self.state.longest_seconds = max(self.state.longest_seconds, took_seconds)
        if not self._unfinished:
            self._all_finished.set()


async def main() -> None:
    """Run a client until it is asked to end, and all its jobs are finished.

    Raises:
        PermitflowError: the master is not there, or gone.
    """
    settings = ClientSettings.from_command_line()
    client = Client(settings)

    async def tell() -> None:
        report("ready")
        while True:
            report("state", state=asdict(client.state))
            await asyncio.sleep(REPORT_SECONDS)

    with asked_to_end() as ending:
        telling = asyncio.create_task(tell())
        try:
            await client.run(ending)
        except* PermitflowError as several:
            raise several.exceptions[0] from None
        finally:
            telling.cancel()
    report("final", state=asdict(client.state))


if __name__ == "__main__":
    run_process(main())

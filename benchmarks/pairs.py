"""The parent of a producer and a consumer: starts them, sends them jobs, and reads their results."""

import asyncio
import json
import math
import sys
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Self

from benchmarks.harness import CHECKOUT
from benchmarks.jobs import Job
from benchmarks.peers.way import Way

__all__ = ["Pair", "PairFailedError", "Sample"]

# Guards against hangs; measures nothing.
ANSWER_SECONDS = 120.0
ENDING_SECONDS = 10.0
# An answer is one line.
LINE_BYTES = 1 << 20


class PairFailedError(Exception):
    """A process of a way has ended, or has not answered in time."""


@dataclass(frozen=True)
class Sample:
    """One job's figures."""

    chunks_per_second: float
    """After warming up, by the consumer's clock; infinite if all came at once.  It means nothing if the producer
    paused."""
    cpu_seconds_per_gigabyte: float
    """Of both processes, for all chunks."""
    peak_memory_bytes: int
    """Resident memory, of both processes together."""
    latencies_ns: tuple[int, int]
    """Median and 99th percentile; zeros if chunks carried no time."""


class Pair:
    """Two processes that serve one way, until closed; started when they are first needed."""

    def __init__(self, module: str, way: Way, delay_seconds: float = 0.0) -> None:
        """Starts nothing yet.

        Args:
            module: where the way is.
            way: what the processes do.
            delay_seconds: of a proxy between them, each way; 0: none.
        """
        self._delay_seconds = delay_seconds
        self.way = way
        self._module = module
        self._processes: list[asyncio.subprocess.Process] = []
        self._jobs = 0

    async def __aenter__(self) -> Self:
        """Nothing to do."""
        return self

    async def __aexit__(self, *_: object) -> None:
        """End both processes."""
        await self.close()

    async def run(self, job: Job) -> Sample:
        """Let both do a job.

        Raises:
            PairFailedError: they cannot; both have been ended, and the next job starts new ones.
        """
        try:
            async with asyncio.timeout(ANSWER_SECONDS):
                return await self._run(job)
        except TimeoutError:
            await self.close()
            raise PairFailedError(f"{self.way.name}: no answer within {ANSWER_SECONDS:g} s ({job})") from None
        except (OSError, EOFError, json.JSONDecodeError) as error:
            await self.close()
            raise PairFailedError(f"{self.way.name}: {error} ({job})") from error
        except BaseException:
            await self.close()
            raise

    async def _run(self, job: Job) -> Sample:
        if not self._processes:
            await self._start()
        producer, *_, consumer = self._processes
        self._jobs += 1
        facts = job.facts() | {"number": self._jobs}
        for process in (producer, consumer):
            await _tell(process, facts)
        for process in (producer, consumer):
            await _hear(process)
        # The consumer dials while the producer begins to send.
        for process in (producer, consumer):
            await _tell(process, {})
        outcome = await _hear_first(consumer, producer)
        await _tell(producer, {})
        production = await _hear(producer)
        gigabytes = job.chunks * job.shape.chunk_bytes / 1e9
        return Sample(
            # Few small chunks may come as one batch: then no time has passed between two reads.
            chunks_per_second=outcome["chunks"] / outcome["seconds"] if outcome["seconds"] else math.inf,
            cpu_seconds_per_gigabyte=(outcome["cpu_seconds"] + production["cpu_seconds"]) / gigabytes,
            peak_memory_bytes=outcome["peak_memory_bytes"] + production["peak_memory_bytes"],
            latencies_ns=tuple(outcome["latencies_ns"]),
        )

    async def _start(self) -> None:
        producer = await self._spawn_worker("producer")
        address = (await _hear(producer))["address"]
        if self._delay_seconds:
            proxy = await self._spawn("benchmarks.delay_proxy", address, str(self._delay_seconds))
            address = (await _hear(proxy))["address"]
        await _hear(await self._spawn_worker("consumer", address))

    async def _spawn_worker(self, role: str, *address: str) -> asyncio.subprocess.Process:
        return await self._spawn("benchmarks.worker", role, self._module, self.way.name, *address)

    async def _spawn(self, module: str, *arguments: str) -> asyncio.subprocess.Process:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", module, *arguments),
            stdin=asyncio.subprocess.PIPE,
            stdout=asyncio.subprocess.PIPE,
            cwd=CHECKOUT,
            limit=LINE_BYTES,
            # Ctrl-C is for the parent, which ends the others by closing their input.
            start_new_session=True,
        )
        self._processes.append(process)
        return process

    async def close(self) -> None:
        """End both processes."""
        processes, self._processes = self._processes, []
        for process in processes:
            assert process.stdin is not None
            process.stdin.close()
        for process in processes:
            try:
                async with asyncio.timeout(ENDING_SECONDS):
                    await process.wait()
            except TimeoutError:
                with suppress(ProcessLookupError):
                    process.kill()
                await process.wait()


async def _tell(process: asyncio.subprocess.Process, facts: dict[str, Any]) -> None:
    assert process.stdin is not None
    process.stdin.write(json.dumps(facts).encode() + b"\n")
    await process.stdin.drain()


async def _hear(process: asyncio.subprocess.Process) -> dict[str, Any]:
    assert process.stdout is not None
    if not (line := await process.stdout.readline()):
        raise EOFError("a process has ended; its reason stands above")
    told: dict[str, Any] = json.loads(line)
    return told


async def _hear_first(speaker: asyncio.subprocess.Process, silent: asyncio.subprocess.Process) -> dict[str, Any]:
    """The next message of one process, or an error if the other one ends meanwhile."""
    heard, ended = asyncio.ensure_future(_hear(speaker)), asyncio.ensure_future(silent.wait())
    try:
        await asyncio.wait({heard, ended}, return_when=asyncio.FIRST_COMPLETED)
        if heard.done():
            return heard.result()
        raise EOFError("a process has ended; its reason stands above")
    finally:
        heard.cancel()
        ended.cancel()

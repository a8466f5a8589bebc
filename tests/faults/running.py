"""Runs a schedule: starts its processes, stops and kills them when the proxy says so, and gathers what they say."""

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

from tests.faults.parties import serve_command
from tests.faults.schedules import Kind, Party, Retention, Schedule

ROOT = Path(__file__).resolve().parents[2]
ENVIRONMENT = {**os.environ, "GRPC_VERBOSITY": "NONE", "PYTHONFAULTHANDLER": ""}

SECONDS_TO_HEAR = 60.0
"""After the last fault, and after the last party has come back, both ends must be over within so long."""
SECONDS_TO_LISTEN = 60.0
SECONDS_TO_STOP = 30.0
POLL_SECONDS = 0.02


@dataclass
class Life:
    party: Party
    pid: int
    status: int | None = None
    """Exit status; None while it runs."""
    was_killed: bool = False
    """By the schedule."""
    hung: bool = False
    """It had to be killed: its time was over."""
    ended: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    async def end(self, within_seconds: float) -> bool:
        """Wait for its end; has it come?"""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_seconds):
                await self.ended.wait()
        return self.status is not None


@dataclass
class Evidence:
    """All that is known about a run, for the judge."""

    schedule: Schedule
    journals: dict[Party, list[dict[str, Any]]]
    lives: list[Life]
    exchange_says: list[dict[str, Any]]
    errors: dict[str, str]
    """What stands on error outputs, by party; the proxy is one as well."""
    fired: set[int]
    """Which faults have come."""
    seconds: float


class Nursery:
    def __init__(self) -> None:
        self._lives: dict[int, Life] = {}
        self._starting: list[tuple[Party, asyncio.Future[Life]]] = []

    async def __aenter__(self) -> Self:
        # In a session of its own Ctrl-C does not reach it: it ends all that it has started when its input ends.
        self._process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "tests.faults.nursery"),
            cwd=ROOT,
            env=ENVIRONMENT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            start_new_session=True,
        )
        self._listening = asyncio.create_task(self._listen())
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        await self._process.wait()
        await asyncio.wait({self._listening})

    async def _listen(self) -> None:
        assert self._process.stdout is not None
        while line := await self._process.stdout.readline():
            said = json.loads(line)
            if "started" in said:
                party, started = self._starting.pop(0)
                life = Life(party, said["started"])
                self._lives[life.pid] = life
                if not started.cancelled():
                    started.set_result(life)
            else:
                life = self._lives.pop(said["ended"])
                life.status = said["status"]
                life.ended.set()

    async def start(self, party: Party, arguments: Sequence[str], output: Path, errors: Path) -> Life:
        assert self._process.stdin is not None
        started: asyncio.Future[Life] = asyncio.get_running_loop().create_future()
        self._starting.append((party, started))
        order = {"party": party, "arguments": list(arguments), "output": str(output), "errors": str(errors)}
        self._process.stdin.write(json.dumps(order).encode() + b"\n")
        return await started


async def run_schedule(schedule: Schedule, nursery: Nursery, folder: Path) -> Evidence:
    run = _Run(schedule, nursery, folder)
    try:
        await run.begin()
        await run.until_over()
        await run.stop_exchange()
    finally:
        await run.end()
    return run.evidence()


class _Run:
    def __init__(self, schedule: Schedule, nursery: Nursery, folder: Path) -> None:
        self.schedule, self.nursery, self.folder = schedule, nursery, folder
        self.lives: list[Life] = []
        self.address = ""
        self.ports: dict[str, int] = {}
        self.fired: set[int] = set()
        self.loop = asyncio.get_running_loop()
        self.began_at = self.last_event = self.loop.time()
        self.proxy: asyncio.subprocess.Process | None = None
        self.following: asyncio.Task[None] | None = None
        self.coming: set[asyncio.Task[None]] = set()
        """Parties that are to be started or continued."""

    def life_of(self, party: Party) -> Life:
        return next(life for life in reversed(self.lives) if life.party is party)

    @property
    def is_coming(self) -> bool:
        """Is somebody to be started or continued?"""
        return not all(task.done() for task in self.coming)

    @property
    def are_ends_running(self) -> bool:
        return any(life.status is None for life in self.lives if life.party is not Party.EXCHANGE)

    @property
    def seconds_left(self) -> float:
        return self.last_event + SECONDS_TO_HEAR - self.loop.time()

    async def begin(self) -> None:
        scheme = "tcp://" if self.schedule.carrier == "tcp" else ""
        await self.start_exchange(f"{scheme}127.0.0.1:0")
        if not self.address:
            raise RuntimeError(f"the exchange does not start: {(self.folder / 'exchange.errors').read_text()}")
        with (self.folder / "proxy.errors").open("ab") as errors:
            self.proxy = await asyncio.create_subprocess_exec(
                *(sys.executable, "-m", "tests.faults.proxy", self.schedule.as_json()),
                self.address.removeprefix("tcp://"),
                cwd=ROOT,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                start_new_session=True,
            )
        assert self.proxy.stdout is not None
        self.ports = json.loads(await self.proxy.stdout.readline())
        for party in (Party.CONSUMER, Party.PRODUCER):
            await self.start_end(party)
        # Faults wait until there is somebody whom they can hit.
        self.following = asyncio.create_task(self.follow_proxy(self.proxy.stdout))

    async def start_exchange(self, address: str) -> None:
        said = self.folder / "exchange.output"
        begin = said.stat().st_size if said.exists() else 0
        await self.start(Party.EXCHANGE, serve_command(self.schedule, address, self.folder))
        async with asyncio.timeout(SECONDS_TO_LISTEN):
            while b"\n" not in (heard := said.read_bytes()[begin:] if said.exists() else b""):
                if self.life_of(Party.EXCHANGE).status is not None:
                    return  # the judge says what that means
                await asyncio.sleep(POLL_SECONDS)
        self.address = json.loads(heard.split(b"\n")[0])["address"]

    async def start_end(self, party: Party) -> None:
        lives = sum(life.party is party for life in self.lives)
        journal = self.folder / f"{party}.journal"
        await self.start(party, [self.schedule.as_json(), str(self.ports[party]), str(journal), str(lives)])

    async def start(self, party: Party, arguments: Sequence[str]) -> None:
        output, errors = self.folder / f"{party}.output", self.folder / f"{party}.errors"
        self.lives.append(await self.nursery.start(party, arguments, output, errors))

    async def follow_proxy(self, output: asyncio.StreamReader) -> None:
        while line := await output.readline():
            number = json.loads(line)["fault"]
            self.fired.add(number)
            fault = self.schedule.faults[number]
            self.last_event = self.loop.time()
            if fault.kind is Kind.BLACK_HOLE:
                self.last_event += fault.seconds
            if fault.victim is None:
                continue
            life = self.life_of(fault.victim)
            if life.status is None:
                os.kill(life.pid, signal.SIGSTOP if fault.kind is Kind.STOP else signal.SIGKILL)
                life.was_killed |= fault.kind is not Kind.STOP
                task = self.go_on(life) if fault.kind is Kind.STOP else self.come_back(life)
                self.coming.add(asyncio.create_task(self.later(fault.seconds, task)))
            assert self.proxy is not None
            assert self.proxy.stdin is not None
            self.proxy.stdin.write(b"%d\n" % number)

    async def later(self, seconds: float, happening: Any) -> None:
        await asyncio.sleep(seconds)
        await happening
        self.last_event = self.loop.time()

    async def go_on(self, life: Life) -> None:
        if life.status is None:
            os.kill(life.pid, signal.SIGCONT)

    async def come_back(self, life: Life) -> None:
        """Of a bridged channel only a consumer may come again: another one, for what the first has not taken."""
        await life.end(SECONDS_TO_STOP)
        keeps = self.schedule.retention is Retention.REPLAY
        if life.party is Party.EXCHANGE and keeps:
            await self.start_exchange(self.address)
        elif life.party is Party.CONSUMER or (life.party is Party.PRODUCER and keeps):
            await self.start_end(life.party)

    async def until_over(self) -> None:
        """Wait for both ends, and for those that are to come back; then nobody has more time."""
        # Each fault moves the deadline.
        while self.is_coming or (self.are_ends_running and self.seconds_left > 0):  # noqa: ASYNC110 - no one event
            await asyncio.sleep(POLL_SECONDS)
        for task in self.coming:
            task.result()
        for life in self.lives:
            if life.status is None and life.party is not Party.EXCHANGE:
                await self.discard(life)

    async def stop_exchange(self) -> None:
        """It is asked to end, and says its last numbers."""
        life = self.life_of(Party.EXCHANGE)
        if life.status is None:
            os.kill(life.pid, signal.SIGTERM)
            if not await life.end(SECONDS_TO_STOP):
                await self.discard(life)

    async def discard(self, life: Life) -> None:
        """It should be over long ago: let it say where it is, and end it."""
        life.hung = True
        os.kill(life.pid, signal.SIGUSR1)
        await life.end(1.0)
        self.kill(life)
        await life.end(SECONDS_TO_STOP)

    def kill(self, life: Life) -> None:
        if life.status is None:
            with suppress(ProcessLookupError):
                os.kill(life.pid, signal.SIGKILL)

    async def end(self) -> None:
        for task in self.coming:
            task.cancel()
        for life in self.lives:
            self.kill(life)
        if self.proxy is not None:
            assert self.proxy.stdin is not None
            self.proxy.stdin.close()
            with suppress(TimeoutError):
                async with asyncio.timeout(SECONDS_TO_STOP):
                    await self.proxy.wait()
                    if self.following is not None:
                        await self.following
            if self.proxy.returncode is None:
                self.proxy.kill()

    def evidence(self) -> Evidence:
        def lines(name: str) -> list[dict[str, Any]]:
            path = self.folder / name
            # The last one may be cut by a kill.
            return (
                [json.loads(line) for line in path.read_text().splitlines() if line.endswith("}")]
                if path.exists()
                else []
            )

        def text(name: str) -> str:
            path = self.folder / name
            return path.read_text(errors="replace") if path.exists() else ""

        return Evidence(
            schedule=self.schedule,
            journals={party: lines(f"{party}.journal") for party in (Party.PRODUCER, Party.CONSUMER)},
            lives=self.lives,
            exchange_says=lines("exchange.output"),
            errors={name: text(f"{name}.errors") for name in (*Party, "proxy")},
            fired=self.fired,
            seconds=self.loop.time() - self.began_at,
        )

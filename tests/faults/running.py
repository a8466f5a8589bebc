"""Runs a schedule: starts its processes, stops and kills them when the proxy says so, and gathers what they say."""

import asyncio
import faulthandler
import json
import multiprocessing
import os
import signal
import sys
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any
from unittest.mock import patch

from tests.faults.calls import CallingClient, serve_calls
from tests.faults.machine import (
    SmallDisk,
    clock_environment,
    enter,
    has_clocks,
    has_small_disks,
    obey_clock,
    set_clock,
)
from tests.faults.parties import DISK, Consumer, Producer, Worker, play, serve
from tests.faults.proxy import Proxy
from tests.faults.schedules import ADDRESSES, FaultKind, Party, Retention, Schedule
from tests.faults.words import Reader, Sender, serve_worker

# Processes are forked off one that has loaded what takes long, but not gRPC, which does not survive a fork.
FORKING = multiprocessing.get_context("forkserver")
FORKING.set_forkserver_preload(
    [
        *("tests.faults.running", "rich.console", "typer", "pyarrow"),
        *("permitflow.stream.session", "permitflow.wire.arrow", "permitflow_tools.cli.application"),
    ]
)
LONGEST_LIFE_SECONDS = 400
"""Every process ends with this, also one that its starter has forgotten."""
SECONDS_TO_HEAR = 60.0
"""After the last fault, the last party that has come back and the last line in a journal, all ends must be over within
so long: a slow machine may take its time, as long as something moves."""
SECONDS_TO_LISTEN = 60.0
SECONDS_TO_STOP = 30.0
POLL_SECONDS = 0.02


PLAYS: Mapping[Party, Callable[..., None]] = {
    Party.PRODUCER: partial(play, Producer),
    Party.WORKER: partial(play, Worker),
    Party.CONSUMER: partial(play, Consumer),
    Party.CLIENT: partial(play, CallingClient),
    Party.EXCHANGE: serve,
    Party.SERVER: serve_calls,
    Party.SENDER: partial(play, Sender),
    Party.READER: partial(play, Reader),
    Party.FRONT: partial(serve_worker, Party.FRONT),
    Party.BACK: partial(serve_worker, Party.BACK),
}


def clock_of(party: Party, folder: Path) -> Path:
    """The file that its wall clock follows."""
    return folder / f"{party}.clock"


def live(party: Party, folder: Path, disks_of: int | None, arguments: tuple[Any, ...]) -> None:
    """The process of a party: its output and its errors go into files; it sees the disks of this process."""
    obey_clock(clock_of(party, folder))
    if disks_of is not None:
        enter(disks_of)
    for descriptor, path in ((0, os.devnull), (1, folder / f"{party}.output"), (2, folder / f"{party}.errors")):
        os.dup2(os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o600), descriptor)
    sys.stdout, sys.stderr = os.fdopen(1, "w", closefd=False), os.fdopen(2, "w", closefd=False)
    os.environ["GRPC_VERBOSITY"] = "NONE"
    # Ctrl-C is for the starter, which ends all others.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    signal.alarm(LONGEST_LIFE_SECONDS)
    faulthandler.register(signal.SIGUSR1, file=2, all_threads=True)
    PLAYS[party](*arguments)


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
    had_full_disk: bool = False
    """At its end."""
    ended: asyncio.Event = field(default_factory=asyncio.Event, repr=False)

    async def end(self, within_seconds: float) -> bool:
        """Wait for its end; has it come?"""
        with suppress(TimeoutError):
            async with asyncio.timeout(within_seconds):
                await self.ended.wait()
        return self.status is not None

    def signal(self, number: int) -> None:
        if self.status is None:
            with suppress(ProcessLookupError):
                os.kill(self.pid, number)


@dataclass
class Evidence:
    """All that is known about a run, for the judge."""

    schedule: Schedule
    journals: dict[Party, list[dict[str, Any]]]
    lives: list[Life]
    server_says: list[dict[str, Any]]
    """The one that is asked to end last."""
    errors: dict[str, str]
    """What stands on error outputs, by party."""
    fired: set[int]
    """Which faults have come."""
    seconds: float


async def run_schedule(schedule: Schedule, folder: Path) -> Evidence:
    run = _Run(schedule, folder)
    try:
        await run.begin()
        await run.until_over()
        await run.stop_servers()
    finally:
        await run.end()
    return run.evidence()


def is_possible(kind: FaultKind) -> bool:
    """Does this machine allow such a fault?"""
    match kind:
        case FaultKind.CLOCK_JUMP:
            return has_clocks()
        case FaultKind.FULL_DISK:
            return has_small_disks()
    return True


def _listening(output: Path, begin: int) -> dict[str, str] | None:
    """What a server has said, behind this byte, of where it listens."""
    for line in output.read_bytes()[begin:].splitlines(keepends=True) if output.exists() else ():
        if line.endswith(b"\n") and (said := json.loads(line))["event"] in ("listening", "ready"):
            return {name: address for name, address in said.items() if isinstance(address, str)}
    return None


class _Run:
    def __init__(self, schedule: Schedule, folder: Path) -> None:
        self.schedule, self.folder = schedule, folder
        self.lives: list[Life] = []
        self.addresses: dict[Party, dict[str, str]] = {}
        """What each server has said of itself."""
        self.fired: set[int] = set()
        self.loop = asyncio.get_running_loop()
        self.began_at = self.last_event = self.loop.time()
        self.proxy = Proxy(schedule, self.suffer)
        self.written = 0
        self.coming: set[asyncio.Task[None]] = set()
        """Parties that are to be started or continued."""
        (disk := folder / DISK).mkdir()
        self.disk = SmallDisk(disk) if FaultKind.FULL_DISK in schedule.kinds else None
        self.has_room = asyncio.Event()
        self.has_room.set()

    def life_of(self, party: Party) -> Life:
        return next(life for life in reversed(self.lives) if life.party is party)

    async def begin(self) -> None:
        for server in self.schedule.cast.servers:
            await self.start_server(server)
            if server not in self.addresses:
                raise RuntimeError(f"the {server} does not start: {(self.folder / f'{server}.errors').read_text()}")
            for party, target in self.schedule.cast.links.items():
                if target is server:
                    address = self.addresses[server][ADDRESSES.get(party, "address")]
                    await self.proxy.pass_on(party, address.removeprefix("tcp://"))
        # All are there before a connection comes: faults have somebody whom they can hit.
        for party in reversed(self.schedule.cast.ends):
            self.start_end(party)

    async def start_server(self, party: Party) -> None:
        """At its addresses, if it has been there before; again, if its disk was full."""
        while (life := await self.try_server(party)).status is not None and life.had_full_disk:
            await self.has_room.wait()

    async def try_server(self, party: Party) -> Life:
        """Start it, and wait until it listens or has ended."""
        said = self.folder / f"{party}.output"
        begin = said.stat().st_size if said.exists() else 0
        life = self.start(party, self.schedule, self.addresses.get(party, {}), self.folder, self.proxy.ports)
        async with asyncio.timeout(SECONDS_TO_LISTEN):
            while (heard := _listening(said, begin)) is None:
                if life.status is not None:
                    return life  # the judge says what that means
                await asyncio.sleep(POLL_SECONDS)
        self.addresses[party] = heard
        return life

    def start_end(self, party: Party) -> None:
        self.start(party, self.schedule, self.proxy.ports[party], self.folder)

    def start(self, party: Party, *arguments: object) -> Life:
        disks_of = self.disk.pid if self.disk and party is self.schedule.cast.keeper else None
        process = FORKING.Process(target=live, args=(party, self.folder, disks_of, arguments), daemon=True)
        # The process that forks is started with the first one.
        with patch.dict(os.environ, clock_environment()):
            process.start()
        assert process.pid is not None, "it was started"
        life = Life(party, process.pid)
        self.lives.append(life)
        self.loop.add_reader(process.sentinel, self.note_end, life, process)
        return life

    def note_end(self, life: Life, process: BaseProcess) -> None:
        self.loop.remove_reader(process.sentinel)
        process.join()
        life.status, life.had_full_disk = process.exitcode, not self.has_room.is_set()
        life.ended.set()

    def suffer(self, number: int) -> None:
        """The proxy says that a fault has come."""
        fault = self.schedule.faults[number]
        if fault.victim is not None and not any(life.party is fault.victim for life in self.lives):
            return  # workers that greet each other are ahead of the ends
        self.fired.add(number)
        self.last_event = self.loop.time() + (fault.seconds if fault.kind is FaultKind.BLACK_HOLE else 0.0)
        match fault.kind:
            case FaultKind.SLEEP:
                stopped = [life for life in self.lives if life.status is None]
                for life in stopped:
                    life.signal(signal.SIGSTOP)
                self.later(self.go_on(stopped, fault.seconds))
            case FaultKind.CLOCK_JUMP if fault.victim is not None:
                set_clock(clock_of(fault.victim, self.folder), round(fault.seconds))
            case FaultKind.FULL_DISK if self.disk is not None:
                self.has_room.clear()
                self.disk.fill()
                self.later(self.make_room(self.disk, fault.seconds))
            case _ if fault.victim is not None and (life := self.life_of(fault.victim)).status is None:
                if fault.kind is FaultKind.STOP:
                    life.signal(signal.SIGSTOP)
                    self.later(self.go_on([life], fault.seconds))
                else:
                    life.signal(signal.SIGKILL)
                    life.was_killed = True
                    self.later(self.come_back(life, fault.seconds))

    def later(self, coming: Coroutine[Any, Any, None]) -> None:
        self.coming.add(asyncio.create_task(coming))

    async def go_on(self, stopped: Sequence[Life], seconds: float) -> None:
        await asyncio.sleep(seconds)
        for life in stopped:
            life.signal(signal.SIGCONT)
        self.last_event = self.loop.time()

    async def make_room(self, disk: SmallDisk, seconds: float) -> None:
        await asyncio.sleep(seconds)
        disk.free()
        self.has_room.set()
        self.last_event = self.loop.time()

    async def come_back(self, life: Life, seconds: float) -> None:
        """Of a bridged channel no producer may come again; a consumer may, for what the first has not taken."""
        await asyncio.sleep(seconds)
        keeps = self.schedule.retention is Retention.REPLAY
        if not await life.end(SECONDS_TO_STOP):
            pass  # the judge says so
        elif life.party in self.schedule.cast.servers:
            if self.schedule.servers_return:
                await self.start_server(life.party)
        elif keeps or life.party is not Party.PRODUCER:
            self.start_end(life.party)
        self.last_event = self.loop.time()

    async def until_over(self) -> None:
        """Wait for all ends, and for those that are to come back; then nobody has more time."""

        def running() -> list[Life]:
            return [life for life in self.lives if life.status is None and life.party in self.schedule.cast.ends]

        def has_time() -> bool:
            # Each fault moves the deadline, and so does each thing that happens.
            if (written := self.written_bytes()) > self.written:
                self.written, self.last_event = written, max(self.last_event, self.loop.time())
            return self.loop.time() < self.last_event + SECONDS_TO_HEAR

        while not all(task.done() for task in self.coming) or (running() and has_time()):  # noqa: ASYNC110 - no one event
            await asyncio.sleep(POLL_SECONDS)
        for task in self.coming:
            task.result()
        for life in running():
            await self.discard(life)

    def written_bytes(self) -> int:
        """In the journals."""
        paths = [self.folder / f"{party}.journal" for party in self.schedule.cast.journals]
        return sum(path.stat().st_size for path in paths if path.exists())

    async def stop_servers(self) -> None:
        """They are asked to end; an exchange says its last numbers."""
        for party in reversed(self.schedule.cast.servers):
            life = self.life_of(party)
            life.signal(signal.SIGTERM)
            if not await life.end(SECONDS_TO_STOP):
                await self.discard(life)

    async def discard(self, life: Life) -> None:
        """It should be over long ago: let it say where it is, and end it."""
        life.hung = True
        life.signal(signal.SIGUSR1)
        await life.end(1.0)
        life.signal(signal.SIGKILL)
        await life.end(SECONDS_TO_STOP)

    async def end(self) -> None:
        for task in self.coming:
            task.cancel()
        for life in self.lives:
            life.signal(signal.SIGKILL)
            await life.end(SECONDS_TO_STOP)
        await self.proxy.close()
        if self.disk is not None:
            self.disk.close()

    def evidence(self) -> Evidence:
        def text(name: str) -> str:
            path = self.folder / name
            return path.read_text(errors="replace") if path.exists() else ""

        def lines(name: str) -> list[dict[str, Any]]:
            # The last one may be cut by a kill.
            return [json.loads(line) for line in text(name).splitlines() if line.endswith("}")]

        cast = self.schedule.cast
        return Evidence(
            schedule=self.schedule,
            journals={party: lines(f"{party}.journal") for party in cast.journals},
            lives=self.lives,
            server_says=lines(f"{cast.servers[-1]}.output"),
            errors={party: text(f"{party}.errors") for party in cast.parties},
            fired=self.fired,
            seconds=self.loop.time() - self.began_at,
        )

"""The processes of the streaming demo: kept running, killed as planned, watched until all rows have come through."""

import asyncio
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from random import Random
from time import monotonic
from typing import NoReturn

import psutil
import pyarrow as pa

from permitflow.child_processes import Command, Event, Hear, Part, first_failure
from permitflow.demo.settings import PartSettings, PipelineSettings
from permitflow.demo.spark_session import EXECUTOR_CLASS
from permitflow.errors import DemoError, PeerGoneError, PeerTimeoutError
from permitflow.protocol.control import ChannelPosition
from permitflow.transports.grpc_aio import control

Note = Callable[[str], None]
Position = ChannelPosition[pa.Schema]

LOOK_FOR_VICTIM_SECONDS = 0.2
# What Python runs, before the settings.
PRODUCER = ("-m", "permitflow.demo.producer")
SPARK_JOB = ("-m", "permitflow.demo.spark_jobs", "stream")
CONSUMER = ("-m", "permitflow.demo.consumer")

LOOK_SECONDS = 0.1
AWAY_PAUSE_SECONDS = 0.2
REPLY_TIMEOUT_SECONDS = 10.0
REPORTS_OF_TRAFFIC = ("traffic", "stopped")

# Before the first rows nothing can be lost, and after the last ones neither.
EARLIEST_SHARE = 0.01
LATEST_SHARE = 0.95
# From "in the middle of the same chunk" to "while Spark plans another batch".
LONGEST_DELAY_SECONDS = 1.5


class Victim(StrEnum):
    """A part of the pipeline that can be killed."""

    PRODUCER = "producer"
    EXCHANGE = "exchange"
    DRIVER = "driver"
    EXECUTOR = "executor"
    CONSUMER = "consumer"


@dataclass(frozen=True)
class Kill:
    """One SIGKILL."""

    victim: Victim
    progress: float
    """The share of all rows that Spark must have acknowledged: so no kill comes before the pipeline has recovered so
    far that it moves on, and several can come at once."""
    delay_seconds: float
    """Then it takes so much longer."""


def plan_kills(count: int, seed: int) -> Sequence[Kill]:
    """``count`` kills in the order of their progress; each part gets its share, give or take one.

    Those that are killed once more than others are the first ones of ``Victim``.
    """
    dice = Random(seed)
    victims = [list(Victim)[number % len(Victim)] for number in range(count)]
    dice.shuffle(victims)
    shares = sorted(dice.uniform(EARLIEST_SHARE, LATEST_SHARE) for _ in victims)
    return [
        Kill(victim, share, dice.uniform(0, LONGEST_DELAY_SECONDS))
        for victim, share in zip(victims, shares, strict=True)
    ]


class Pipeline:
    """All of it."""

    def __init__(
        self,
        settings: PipelineSettings,
        part: PartSettings,
        *,
        rows: int,
        note: Note,
        kills: Sequence[Kill],
        driver: Sequence[str] = SPARK_JOB,
    ) -> None:
        """Nothing runs before ``run``.

        Args:
            settings: of the whole demo.
            part: the settings of the processes.
            rows: that the producer has.
            note: is called with each event.
            kills: the parts to kill and the times, in the order of progress.
            driver: the Python module of the query between the two streams.
        """
        self.recordings: list[Path] = []
        """Of the exchange, one for each of its lives."""
        self.watch = Watch(
            part.address,
            [*part.line_items, *part.late_items],
            row_permits=settings.window_rows,
            incoming=settings.channels,
            stuck_seconds=settings.stuck_seconds,
        )
        self._settings = settings
        self._part = part
        self._rows = rows
        self._note = note
        self._kills = kills
        self._has_killed = False
        self.exchange = self._new_part(Victim.EXCHANGE, self._exchange_command, hear=self.watch.hear)
        self.parts = {
            Victim.PRODUCER: self._new_program(Victim.PRODUCER, PRODUCER),
            Victim.DRIVER: self._new_program(Victim.DRIVER, driver),
            Victim.CONSUMER: self._new_program(Victim.CONSUMER, CONSUMER),
        }

    def _new_program(self, victim: Victim, program: Sequence[str]) -> Part:
        command = [sys.executable, *program, self._part.to_json()]
        return self._new_part(
            victim, lambda _life: command, hear=lambda event: self._note(f"{victim}: {event['text']}")
        )

    def _new_part(self, victim: Victim, command: Command, *, hear: Hear) -> Part:
        # Before the first kill, no part has a reason to fail.
        log = Path(self._part.work_dir) / f"{victim}.log"
        return Part(victim, command, log, hear=hear, may_fail=lambda: self._has_killed)

    def _exchange_command(self, life: int) -> Sequence[str]:
        work_dir = Path(self._part.work_dir)
        recording = work_dir / f"exchange-{life}.jsonl"
        self.recordings.append(recording)
        arguments = self._settings.exchange_arguments(work_dir, address=self._part.address, trace=recording)
        return [sys.executable, "-m", "permitflow.cli", *arguments]

    async def run(self) -> tuple[Counter[Victim], int]:
        """Run it until all rows have come through; return each part's kills, and how many kills came too late.

        Cancellation ends all processes.

        Raises:
            DemoError: a part fails again and again, or no row gets further any more.
        """
        try:
            async with asyncio.TaskGroup() as group:
                exchange = group.create_task(self.exchange.run())
                await self.exchange.begun()
                watching = group.create_task(self.watch.run())
                killing = group.create_task(self._kill())
                for part in [group.create_task(part.run()) for part in self.parts.values()]:
                    await part
                kills = await killing
                watching.cancel()
                # It writes its recording when it is asked to end.
                await self.exchange.stop()
                await exchange
        except* DemoError as failures:
            raise first_failure(failures) from None
        return kills, len(self._kills) - kills.total()

    async def _kill(self) -> Counter[Victim]:
        kills: Counter[Victim] = Counter()
        for kill in self._kills:
            await self.watch.reached(int(kill.progress * self._rows))
            await asyncio.sleep(kill.delay_seconds)
            self._has_killed = True
            if await self._kill_one(kill.victim):
                kills[kill.victim] += 1
                share = self.watch.rows / self._rows
                self._note(f"killed: {kill.victim}, {kills.total()} of {len(self._kills)}, at {share:.0%} of the rows")
        return kills

    async def _kill_one(self, victim: Victim) -> bool:
        """Kill the victim as soon as there is one; False if it has done its work."""
        part = (
            self.exchange
            if victim is Victim.EXCHANGE
            else self.parts[Victim.DRIVER if victim is Victim.EXECUTOR else victim]
        )
        # The exchange never ends by itself, and nothing can be lost any more when no other part needs it.
        while not (part.is_done or all(part.is_done for part in self.parts.values())):
            if kill_executor_of(part.pid) if victim is Victim.EXECUTOR else part.kill():
                return True
            await asyncio.sleep(LOOK_FOR_VICTIM_SECONDS)
        return False


def kill_executor_of(driver: int | None) -> bool:
    """Kill one executor of the driver with this process id; False if there is none."""
    with suppress(psutil.NoSuchProcess):
        for executor in executors_of(driver) if driver is not None else ():
            executor.kill()
            return True
    return False


def executors_of(driver: int) -> Sequence[psutil.Process]:
    """The JVMs of the executors that the driver with this process id has."""
    try:
        descendants = psutil.Process(driver).children(recursive=True)
    except psutil.NoSuchProcess:
        return []
    return sorted(filter(_is_executor, descendants), key=lambda process: process.pid)


def _is_executor(process: psutil.Process) -> bool:
    try:
        return EXECUTOR_CLASS in process.cmdline()
    except psutil.Error:
        # It has ended; perhaps its parent has not yet asked how.
        return False


@dataclass
class ChannelWatch:
    """The observations of one channel, over all lives of the exchange."""

    channel: str
    row_permits: int
    next_row: int = 0
    acknowledged_row: int = 0
    peak_kept_rows: int = 0
    """The most rows that were kept at once: handed over, and not acknowledged."""
    problems: list[str] = field(default_factory=list)
    """Observations that break a rule."""
    _log_id: str = ""

    def see(self, position: Position) -> bool:
        """Compare a position with the one before; has anything changed?"""
        kept = position.next_row - position.acknowledged_row
        self._require(0 <= kept <= self.row_permits, f"{kept} rows were kept, {self.row_permits} may be")
        self._require(position.next_row >= self.next_row, f"row {position.next_row} came next, after {self.next_row}")
        self._require(
            position.acknowledged_row >= self.acknowledged_row,
            f"row {self.acknowledged_row} was acknowledged, then only {position.acknowledged_row}",
        )
        self._require(position.log_id == (self._log_id or position.log_id), "its rows were lost, and others took over")
        before = (self.next_row, self.acknowledged_row)
        self.next_row, self.acknowledged_row = position.next_row, position.acknowledged_row
        self.peak_kept_rows, self._log_id = max(self.peak_kept_rows, kept), position.log_id
        return before != (self.next_row, self.acknowledged_row)

    def told(self, peak_kept_rows: int) -> None:
        """Check the peak that the exchange reports: it may have come and gone between two observations."""
        self._require(peak_kept_rows <= self.row_permits, f"{peak_kept_rows} rows were kept, {self.row_permits} may be")
        self.peak_kept_rows = max(self.peak_kept_rows, peak_kept_rows)

    def _require(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.problems.append(f"{self.channel}: {otherwise}")


class Watch:
    """Watches channels of an exchange, also across its restarts, and checks their invariants at each observation."""

    def __init__(
        self, address: str, channels: Sequence[str], *, row_permits: int, incoming: int, stuck_seconds: float
    ) -> None:
        """Nothing is dialled before ``run``.

        Args:
            address: where the exchange listens, in all its lives.
            channels: those to watch; the first ones are those that Spark reads.
            row_permits: the window of each.
            incoming: how many of them Spark reads.
            stuck_seconds: how long nothing may get further.
        """
        self.channels = [ChannelWatch(channel, row_permits) for channel in channels]
        self.looks = 0
        """How often it has looked."""
        self._address = address
        self._incoming = self.channels[:incoming]
        self._stuck_seconds = stuck_seconds
        self._moved_at = monotonic()
        self._looked = asyncio.Condition()

    @property
    def rows(self) -> int:
        """Rows that Spark has acknowledged."""
        return sum(channel.acknowledged_row for channel in self._incoming)

    def hear(self, event: Event) -> None:
        """Take in the exchange's reports, of every second and of its end."""
        if event["event"] not in REPORTS_OF_TRAFFIC:
            return
        traffic = event["channels"]
        assert isinstance(traffic, list)  # so serve reports it
        peaks = {str(each["channel"]): int(each["peak_rows_held"]) for each in traffic}
        for channel in self.channels:
            channel.told(peaks[channel.channel])

    async def reached(self, rows: int) -> None:
        """Wait until Spark has acknowledged so many rows."""
        async with self._looked:
            await self._looked.wait_for(lambda: self.rows >= rows)

    async def run(self) -> NoReturn:
        """Look until cancelled.

        Raises:
            DemoError: nothing gets further any more.
        """
        while True:
            try:
                await self._look_while_there()
            except (PeerGoneError, PeerTimeoutError):
                self._require_moving(moved=False)
                await asyncio.sleep(AWAY_PAUSE_SECONDS)

    async def _look_while_there(self) -> NoReturn:
        names = [channel.channel for channel in self.channels]
        async with control(self._address, reply_timeout_seconds=REPLY_TIMEOUT_SECONDS) as orders:
            while True:
                await self._note(await orders.positions(names))
                await asyncio.sleep(LOOK_SECONDS)

    async def _note(self, positions: Sequence[Position]) -> None:
        # Each of them, not only until the first one has moved.
        moved = [channel.see(position) for channel, position in zip(self.channels, positions, strict=True)]
        self._require_moving(moved=any(moved))
        self.looks += 1
        async with self._looked:
            self._looked.notify_all()

    def _require_moving(self, *, moved: bool) -> None:
        if moved:
            self._moved_at = monotonic()
        elif monotonic() - self._moved_at > self._stuck_seconds:
            where = ", ".join(
                f"{each.channel} {each.acknowledged_row:,} of {each.next_row:,}" for each in self.channels
            )
            raise DemoError(f"no row got further for {self._stuck_seconds:.0f} s; acknowledged are: {where}")

"""The streaming demo: a pipeline whose parts are kept running, killed as planned, and watched to the end.

Then the consumer's counts are compared with the files, and the recordings with the models.
"""

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from pathlib import Path
from random import Random
from time import monotonic
from typing import NamedTuple

import psutil
import pyarrow as pa
import pyarrow.parquet as pq

from permitflow.client import control
from permitflow.errors import DemoError, PeerGoneError, PeerTimeoutError
from permitflow.spark.local_session import EXECUTOR_CLASS
from permitflow.stream.control import ChannelPosition
from permitflow.tracing import read_trace
from permitflow_testing.query_runs import judge_query
from permitflow_testing.traces import ChannelVerdict, judge_all

from ..processes import Command, Event, Hear, Note, Part, run_beside, work_folder
from .consumer import Ledger
from .report import Check, Progress, Report, StreamNumbers
from .settings import LATE_ITEMS, LINE_ITEMS, PartSettings, PipelineSettings
from .tables import ANSWER_MODES, ANSWER_YEAR, cached_tables
from .two_jobs import answer_of

Position = ChannelPosition[pa.Schema]

LOOK_FOR_VICTIM_SECONDS = 0.2
# What Python runs, before the settings.
PRODUCER = ("-m", f"{__package__}.producer")
SPARK_JOB = ("-m", f"{__package__}.spark_jobs", "stream")
CONSUMER = ("-m", f"{__package__}.consumer")

LOOK_SECONDS = 0.1
AWAY_PAUSE_SECONDS = 0.2
REPLY_TIMEOUT_SECONDS = 10.0

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
        """The recordings of the exchange, one for each of its lives."""
        self.killed: Counter[Victim] = Counter()
        """How often each part was killed."""
        self.watch = Watch(settings, part)
        self._settings, self._part, self._rows, self._note, self._kills = settings, part, rows, note, kills
        self._has_killed = False
        self.exchange = self._new_part(Victim.EXCHANGE, self._exchange_command, hear=self.watch.hear)
        programs = {Victim.PRODUCER: PRODUCER, Victim.DRIVER: driver, Victim.CONSUMER: CONSUMER}
        self.parts = {victim: self._new_program(victim, program) for victim, program in programs.items()}

    def _new_program(self, victim: Victim, program: Sequence[str]) -> Part:
        command = self._part.command(*program)
        return self._new_part(
            victim, lambda _life: command, hear=lambda event: self._note(f"{victim}: {event['text']}")
        )

    def _new_part(self, victim: Victim, command: Command, *, hear: Hear) -> Part:
        # Before the first kill, no part has a reason to fail.
        return Part(victim, command, self._part.file(f"{victim}.log"), hear=hear, may_fail=lambda: self._has_killed)

    def _exchange_command(self, life: int) -> Sequence[str]:
        self.recordings.append(self._part.file(f"exchange-{life}.jsonl"))
        window = ("--row-permits", str(self._settings.window_rows))
        kept = ("--retention", "replay", "--store", str(self._part.file("store")))
        return self._part.exchange_command((LINE_ITEMS, LATE_ITEMS), self.recordings[-1], *window, *kept)

    async def run(self) -> None:
        """Run it until all rows have come through; cancellation ends all processes.

        Raises:
            DemoError: a part fails again and again, or no row gets further any more.
        """
        programs = (part.run for part in self.parts.values())
        await run_beside(self.exchange, *programs, lambda: self.watch.run(self._is_over), self._kill)

    def _is_over(self) -> bool:
        return all(part.is_done for part in self.parts.values())

    async def _kill(self) -> None:
        for kill in self._kills:
            await self.watch.reached(int(kill.progress * self._rows))
            await asyncio.sleep(kill.delay_seconds)
            self._has_killed = True
            if await self._kill_one(kill.victim):
                self.killed[kill.victim] += 1
                count, share = self.killed.total(), self.watch.rows / self._rows
                self._note(f"killed: {kill.victim}, {count} of {len(self._kills)}, at {share:.0%} of the rows")

    async def _kill_one(self, victim: Victim) -> bool:
        """Kill the victim as soon as there is one; False if it has done its work."""
        parts = {**self.parts, Victim.EXCHANGE: self.exchange}
        part = parts[Victim.DRIVER if victim is Victim.EXECUTOR else victim]
        # The exchange never ends by itself, and nothing can be lost any more when no other part needs it.
        while not (part.is_done or self._is_over()):
            if kill_executor_of(part.pid) if victim is Victim.EXECUTOR else part.kill():
                return True
            await asyncio.sleep(LOOK_FOR_VICTIM_SECONDS)
        return False


def kill_executor_of(driver: int | None) -> bool:
    """Kill one executor of the driver with this process id, a JVM among its descendants; False if there is none."""
    with suppress(psutil.NoSuchProcess):
        for process in psutil.Process(driver).children(recursive=True) if driver is not None else ():
            # One that has ended, and whose parent has not yet asked how, has no command line.
            with suppress(psutil.Error):
                if EXECUTOR_CLASS in process.cmdline():
                    process.kill()
                    return True
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

    def numbers(self) -> StreamNumbers:
        """For the report."""
        return StreamNumbers(
            hop="kept by the exchange",
            stream=self.channel,
            rows=self.next_row,
            peak_rows_held=self.peak_kept_rows,
            window_rows=self.row_permits,
        )


class Watch:
    """Watches channels of an exchange, also across its restarts, and checks their invariants at each observation."""

    def __init__(self, settings: PipelineSettings, part: PartSettings) -> None:
        """Nothing is dialled before ``run``."""
        names = (*part.line_items, *part.late_items)
        self.channels = [ChannelWatch(channel, settings.window_rows) for channel in names]
        """Those that Spark reads come first."""
        self.looks = 0
        """How often it has looked."""
        self._address = part.address
        self._incoming = self.channels[: settings.channels]
        self._stuck_seconds = settings.stuck_seconds
        self._moved_at = monotonic()
        self._looked = asyncio.Condition()

    @property
    def rows(self) -> int:
        """Rows that Spark has acknowledged."""
        return sum(channel.acknowledged_row for channel in self._incoming)

    def hear(self, event: Event) -> None:
        """Take in the exchange's reports, of every second and of its end."""
        if event["event"] not in ("traffic", "stopped"):
            return
        traffic = event["channels"]
        assert isinstance(traffic, list)  # so serve reports it
        peaks = {str(each["channel"]): int(each["peak_rows_held"]) for each in traffic}
        for channel in self.channels:
            channel.told(peaks[channel.channel])

    async def reached(self, rows: int) -> None:
        """Wait until Spark has acknowledged this many rows."""
        async with self._looked:
            await self._looked.wait_for(lambda: self.rows >= rows)

    async def run(self, is_over: Callable[[], bool]) -> None:
        """Look until it is over.

        Raises:
            DemoError: nothing gets further any more.
        """
        while True:
            with suppress(PeerGoneError, PeerTimeoutError):
                return await self._look_while_there(is_over)
            self._require_moving(moved=False)
            await asyncio.sleep(AWAY_PAUSE_SECONDS)

    async def _look_while_there(self, is_over: Callable[[], bool]) -> None:
        names, is_last = [channel.channel for channel in self.channels], False
        async with control(self._address, reply_timeout_seconds=REPLY_TIMEOUT_SECONDS) as orders:
            while not is_last:
                is_last = is_over()
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

    def check(self) -> Check:
        """What was seen."""
        problems = [problem for channel in self.channels for problem in channel.problems]
        looked = f"{self.looks:,} times all channels were looked at: {len(problems)} times something was wrong"
        return Check(not problems, "\n".join([looked, *problems]))


class Recorded(NamedTuple):
    """The models' verdicts about the recordings: of each life of the exchange, and of the query."""

    lives: int
    """Lives that have recorded something; in others it was killed before."""
    events: int
    """Steps on all streams."""
    query_events: int
    """Steps of the streaming query, over all its lives and channels: of its source, its tasks and its checkpoint."""
    refused: Sequence[str]
    """Descriptions of runs that are no behaviours of the specification, or break its invariants."""


class Counted(NamedTuple):
    """The consumer's rows, compared with those of the batch query."""

    expected: int
    """Late line items in the files."""
    lost: int
    """The expected rows that never came."""
    duplicated: int
    """Times that a line item came after the first time."""
    foreign: int
    """Line items that came and are not late."""


async def run_pipeline(settings: PipelineSettings, progress: Progress) -> Report:
    """Run everything; cancellation ends all child processes and leaves no files but the cache.

    Raises:
        DemoError: a part cannot be run here, or fails whatever is done.
    """
    began = monotonic()
    with work_folder(settings.keep) as work_dir:
        with progress.part("TPC-H tables"):
            tables = await cached_tables(settings.scale, settings.cache_dir, progress.note)
        part = settings.part(tables=tables, work_dir=work_dir)
        rows = (await asyncio.to_thread(pq.read_metadata, part.table("lineitem"))).num_rows
        with progress.part("the same queries by Spark alone, from the files"):
            direct: dict[str, Event] = {}
            command = part.command("-m", f"{__package__}.spark_jobs", "directly")
            job = Part(
                "batch job", lambda _: command, part.file("batch_job.log"), hear=lambda event: direct.update(job=event)
            )
            await job.run()
        with progress.part("producer, exchange, Spark and consumer, with their start"):
            kills = plan_kills(settings.kills, settings.seed)
            pipeline = Pipeline(settings, part, rows=rows, note=progress.note, kills=kills)
            await pipeline.run()
        with progress.part("replay of the recorded run"):
            recorded = await asyncio.to_thread(judged, pipeline.recordings, part)
            counted = await asyncio.to_thread(compared, part)
        with Ledger(part.ledger) as ledger:
            answer = ledger.answer(ANSWER_MODES, ANSWER_YEAR)
    seconds = monotonic() - began
    return Report(
        scale=settings.scale,
        answer=answer,
        direct_answer=answer_of(direct["job"]),
        streams=[channel.numbers() for channel in pipeline.watch.channels],
        checks=[
            *checks_of(counted, recorded, missed_kills=len(kills) - pipeline.killed.total()),
            pipeline.watch.check(),
        ],
        figures=figures_of(settings, rows, pipeline, counted, recorded, minutes=seconds / 60),
        seconds=progress.seconds,
        total_seconds=seconds,
    )


def compared(settings: PartSettings) -> Counted:
    """Each late line item of the files must have been counted once."""
    columns = pq.read_table(settings.direct_answer).to_pydict()
    expected = set(zip(columns["l_orderkey"], columns["l_linenumber"], strict=True))
    with Ledger(settings.ledger) as ledger:
        seen = ledger.seen()
    return Counted(
        expected=len(expected),
        lost=len(expected - seen.keys()),
        duplicated=sum(seen.values()) - len(seen),
        foreign=len(seen.keys() - expected),
    )


def judged(recordings: Iterable[Path], settings: PartSettings) -> Recorded:
    """Replay every stream of every life of the exchange, of which some end in the middle; and the streaming query."""
    lives = lives_of(recordings)
    streams = [verdict for life in lives for verdict in life]
    query = judge_query(settings.traces, settings.checkpoint)
    return Recorded(
        lives=len(lives),
        events=sum(verdict.replay.performed for verdict in streams),
        query_events=sum(verdict.replay.performed for verdict in query),
        refused=[
            *(verdict.describe() for verdict in streams if not verdict.is_valid),
            *(verdict.describe() for verdict in query if not verdict.is_valid),
        ],
    )


def lives_of(recordings: Iterable[Path]) -> list[list[ChannelVerdict]]:
    """The model's verdicts about the streams of each life; a life that was killed at once has no recording."""
    begun = [recording for recording in recordings if recording.is_file() and recording.stat().st_size]
    # Streams of two lives may have the same name.
    return [judge_all(read_trace(recording, allow_truncated=True)) for recording in begun]


def checks_of(counted: Counted, recorded: Recorded, *, missed_kills: int) -> Iterator[Check]:
    """What must be so, whatever was killed."""
    faults = f"{counted.lost} rows were lost, {counted.duplicated} duplicated, {counted.foreign} are from elsewhere"
    is_whole = counted.expected > 0 and not (counted.lost or counted.duplicated or counted.foreign)
    yield Check(is_whole, f"of {counted.expected:,} late line items {faults}")
    steps = f"{recorded.events:,} steps of the exchange and {recorded.query_events:,} of the query, replayed by models"
    is_valid = not recorded.refused and recorded.events > 0 and recorded.query_events > 0
    yield Check(is_valid, "\n".join([f"{steps}: {len(recorded.refused)} runs refused", *recorded.refused]))
    yield Check(not missed_kills, f"{missed_kills} kills came too late" + "; take a larger scale" * bool(missed_kills))


def figures_of(
    settings: PipelineSettings, rows: int, pipeline: Pipeline, counted: Counted, recorded: Recorded, *, minutes: float
) -> Mapping[str, str]:
    """What the report and the tutorial show."""
    kept = max(pipeline.watch.channels, key=lambda channel: channel.peak_kept_rows)
    return {
        f"line items at scale {settings.scale:g}": f"{rows:,}",
        "of these late: what the consumer must count": f"{counted.expected:,}",
        "killed": ", ".join(f"{victim} {count}" for victim, count in sorted(pipeline.killed.items())),
        "rows lost": f"{counted.lost:,}",
        "rows that came twice": f"{counted.duplicated:,}",
        "most rows that a channel kept, of its permits": f"{kept.peak_kept_rows:,} of {kept.row_permits:,}",
        "lives of the exchange, replayed by the model": f"{recorded.lives:,} of {pipeline.exchange.starts:,}",
        "their steps": f"{recorded.events:,}",
        "steps of the query, replayed by its model": f"{recorded.query_events:,}",
        "minutes": f"{minutes:.0f}",
    }

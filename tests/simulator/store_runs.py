"""Schedules of a store and its disk, and the judge of what is there after each crash.

A schedule writes what an exchange may write, has the disk's faults, dies in the middle of any operation of the disk,
and opens the store again.  The judge's rules:

1. What was confirmed is there.  What was refused is not, unless the refusal says that only opening the store will tell.
2. What was neither is there as a whole or not at all, and nothing is there without what was submitted before it.
3. A store whose disk kept what it had flushed opens again.  One whose disk has lied about its tables or its journal is
   refused if anything is missing, and names the journal or the damage.
4. A store that was not refused can be written again once its disk can.
5. On a small disk, rows that come one by one and are acknowledged pass for ever, however long the store's log may be.
"""

import asyncio
from collections.abc import Callable, Coroutine, Hashable, Iterable, Iterator, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, replace
from functools import partial
from itertools import chain, combinations
from random import Random
from typing import Any, Final

import pyarrow as pa

from permitflow import ChannelParameters
from permitflow.errors import StoreError, StoreUnusableError
from permitflow.exchange import ChannelStore, SqliteStore
from permitflow.exchange.stores.sqlite_database import RESERVE_BYTES
from permitflow.exchange.stores.store import PublishedPart
from permitflow.exchange.stores.system import System
from permitflow.stream.control import ChannelState, KeptBarrier
from permitflow.stream.frames import Staging
from tests.simulator import store_contents
from tests.simulator.disk import NEVER, Crashed, Faults, SimulatedDisk
from tests.simulator.store_contents import CHANNELS, CONSUMERS, Contents, Kept
from tests.simulator.stores import SimulatedSystem, new_store

PARAMETERS: Final = ChannelParameters(row_permits=100_000)
SCHEMA: Final = pa.schema([("n", pa.int64()), ("filling", pa.binary())])
QUERIES: Final = ("q", "r")
_PAGE_BYTES: Final = 16 << 10
_SMALL_DISK_EACH: Final = 16
_SMALL_DISK_AT: Final = 7


class Wrong(AssertionError):
    """The store has broken a rule."""


@dataclass(slots=True, eq=False)
class Job:
    """Something that was submitted to the store."""

    what: str
    change: Callable[[Contents], object]
    is_there: bool | None = None
    """None: nobody knows yet."""
    was_refused: bool = False


@dataclass(frozen=True, slots=True)
class Plan:
    """What may happen in a schedule; drawn, so that whole kinds of faults are absent from most schedules."""

    begins_empty: bool
    """Does it make the store, too?"""
    log_bytes: int
    filling_bytes: int
    had_power: float
    """The share of crashes that leave the kernel alive."""
    faults: Faults
    spare_bytes: int
    """Free on the disk after each start."""
    lives: int
    rounds: int
    clean_ends: float
    """The share of lives that end without a crash."""
    at_once: float
    """The share of jobs that the writing thread takes before the next one is submitted."""
    dies_opening: float
    passing: int = 0
    """How many rows come before a life ends, each acknowledged before the next one."""

    @classmethod
    def drawn(cls, random: Random) -> "Plan":
        """Draw."""
        faults, spare_bytes = Faults(), NEVER
        kinds = ("none", "full", "writes", "flushes", "lies", "read-only")
        match random.choices(kinds, (6, 2, 1, 1, 2, 0.5))[0]:
            case "full":
                spare_bytes = random.choice((0, RESERVE_BYTES * 5 // 4)) + random.randint(0, 40) * _PAGE_BYTES
            case "writes":
                faults.failing_writes = random.choice((0.02, 0.2))
            case "flushes":
                faults.failing_flushes = random.choice((0.05, 0.5))
            case "lies":
                faults.lying_flushes = random.choice((0.3, 1.0))
                faults.lying_about = random.choice(("sqlite", "journal", ""))
            case "read-only":
                faults.becoming_read_only = 0.02
        begins_empty = random.random() < 0.1
        return cls(
            begins_empty=begins_empty,
            log_bytes=random.choice((4 * _PAGE_BYTES, 12 * _PAGE_BYTES, 32 << 20)),
            filling_bytes=random.choice((0, 10, 3000)),
            # What a kernel that lives on still has makes up for a lie, and a later failure brings it to light.
            had_power=0.0 if faults.lying_flushes else random.choice((0.0, 0.5, 0.5, 1.0)),
            faults=faults,
            spare_bytes=spare_bytes,
            lives=random.choice((1, 1, 2, 3)),
            rounds=random.choice((1, 3, 6, 12)),
            clean_ends=random.choice((0.0, 0.3)),
            at_once=random.choice((0.0, 0.3)),
            # A new store is most at risk while it is made.
            dies_opening=random.choice((0.3, 1.0) if begins_empty else (0.0, 0.3)),
        )


def on_a_small_disk(seed: int, plan: Plan) -> Plan:
    """For a sixteenth of the seeds: a disk that has less room than the log may take, and long rows."""
    if seed % _SMALL_DISK_EACH != _SMALL_DISK_AT:
        return plan
    random = Random(f"small disk {seed}")
    return replace(
        plan,
        log_bytes=System.log_bytes,
        filling_bytes=random.choice((1_000, 10_000, 30_000)),
        faults=Faults(),
        spare_bytes=random.randint(24, 128) << 16,
        rounds=0,
        clean_ends=0.5,
        passing=random.choice((20, 60)),
    )


class StoreRun:
    """One schedule."""

    def __init__(self, seed: int) -> None:
        """Draw what may happen; everything follows from the seed."""
        self.random = Random(seed)
        self.plan = on_a_small_disk(seed, Plan.drawn(self.random))
        self.story = [f"{self.plan}"]
        """What has happened, in words."""
        self.disk = SimulatedDisk(self.random)
        self.system = SimulatedSystem(self.disk, f"disk{seed}", self._later, log_bytes=self.plan.log_bytes)
        self.crashes = self.openings = self.refusals = self.failures = 0
        self._base = Contents()
        """What the store had when it was opened."""
        self._jobs: list[Job] = []
        """Since then."""
        self._value = 0
        self._places: dict[str, ChannelStore] = {}
        self._store: SqliteStore
        self._may_differ = False
        """Had the disk any faults in this life?"""
        self._death = asyncio.Event()
        self.disk.on_crash = self._death.set
        self._loop = asyncio.get_running_loop()

    def _later(self, do: Callable[[], object]) -> None:
        if self.random.random() < self.plan.at_once:
            do()
        else:
            self._loop.call_soon(do)

    # Lives.

    async def run(self) -> None:
        """Let it happen.

        Raises:
            Wrong: the store has broken a rule.
        """
        try:
            if not self.plan.begins_empty:
                self.disk.take_over(new_store(), self.system.root)
            for _ in range(self.plan.lives):
                if not self._open_again():
                    return
                await self._live()
                self._die()
            self._open_again()
        finally:
            self.disk.crash()
            self.system.unmount()

    async def _live(self) -> None:
        random, plan, disk = self.random, self.plan, self.disk
        is_clean = random.random() < plan.clean_ends
        disk.faults = copy(plan.faults)
        if plan.spare_bytes != NEVER:
            disk.faults.capacity_bytes = disk.used_bytes() + plan.spare_bytes
        self._may_differ = disk.faults != Faults() and not plan.passing
        if not is_clean:
            disk.crashes_at = disk.operations + int(2 ** random.uniform(0, 8))
        for act in (*[self._round] * plan.rounds, *[self._pass] * plan.passing):
            await act()
            if disk.is_dead:
                return
        if is_clean:
            await self._end_cleanly()

    async def _end_cleanly(self) -> None:
        self.disk.faults = Faults()
        await self._can_be_written()
        await self._memory_is_right()
        self._store.close()

    def _die(self) -> None:
        self.disk.crash()
        had_power = self.random.random() < self.plan.had_power
        self.story.append("the process dies" if had_power else "the machine loses power")
        self.crashes += 1
        self.system.go_on(had_power=had_power)
        self.disk.faults = Faults()
        self._death.clear()

    def _open_again(self) -> bool:
        """Open the store; False: it is refused, because the disk has lied."""
        disk = self.disk
        if self.random.random() < self.plan.dies_opening:
            disk.crashes_at = disk.operations + self.random.randint(1, 80)
        while True:
            try:
                self._store = SqliteStore(self.system.folder, self.system)
                disk.crashes_at = NEVER
                break
            except (Crashed, StoreError) as error:
                if disk.is_dead:
                    self.story.append("while it opens the store:")
                    self._die()
                    continue
                self.story.append(str(error))
                self.refusals += 1
                if isinstance(error, StoreUnusableError) and disk.lies:
                    return False
                raise Wrong(f"the store is refused: {error}") from error
        self.openings += 1
        self._open_channels()
        self._judge()
        return True

    def _open_channels(self) -> None:
        opened = self._store.open_channels(CHANNELS, parameters=PARAMETERS, consumers=CONSUMERS)
        self._places = dict(zip(CHANNELS, opened, strict=True))
        store_contents.open_channels(self._base)

    # Jobs.

    async def _round(self) -> None:
        """Submit some jobs together, and wait until all are answered, or the process is dead."""
        if self._may_remove and self.random.random() < 0.03:
            await self._remove(self.random.choice(CHANNELS))
        asking: list[asyncio.Task[None]] = []
        busy: set[Hashable] = set()
        for _ in range(self.random.choice((1, 1, 2, 4))):
            if (drawn := self._drawn(busy)) is not None:
                self._jobs.append(drawn[0])
                asking.append(asyncio.create_task(self._ask(*drawn)))
        if asking:
            await self._until_answered(asking)

    async def _pass(self) -> None:
        """Append some rows, and acknowledge all that are there."""
        name = CHANNELS[0]
        place = self._places[name]
        if not self._expected().channels[name].is_declared:
            await self._do(Job(f"declare {name}", partial(store_contents.declare, name=name)), place.declare(SCHEMA))
        for consumer in ("", *CONSUMERS):
            if not self.disk.is_dead:
                kept = self._expected().channels[name]
                await self._do(
                    *self._acknowledgement(name, kept, place, consumer, len(kept.values))
                    if consumer
                    else self._append(name, kept, place)
                )

    async def _do(self, job: Job, work: Coroutine[Any, Any, object]) -> None:
        self._jobs.append(job)
        await self._until_answered([asyncio.create_task(self._ask(job, work))])

    async def _until_answered(self, asking: Sequence[asyncio.Task[None]]) -> None:
        """Wait for what was submitted, or for the process's death."""
        died: asyncio.Future[Any] = asyncio.create_task(self._death.wait())
        everything: asyncio.Future[Any] = asyncio.gather(*asking)
        await asyncio.wait([died, everything], return_when=asyncio.FIRST_COMPLETED)
        died.cancel()
        if self.disk.is_dead:
            everything.cancel()
        else:
            await everything

    async def _ask(self, job: Job, work: Coroutine[Any, Any, object]) -> None:
        """Note the answer, if the process still lives when it comes."""
        try:
            await work
        except StoreError as error:
            if self.disk.is_dead:
                return
            if not self._may_differ:
                raise Wrong(f"{job.what}: {error}") from error
            self.failures += 1
            job.was_refused = True
            # Of a failed flush, or a journal that failed, only opening the store tells.
            if self.plan.faults == Faults():
                job.is_there = False
            self.story.append(f"refused: {job.what}: {error}")
        else:
            if not self.disk.is_dead:
                job.is_there = True
                self.story.append(f"done: {job.what}")

    def _drawn(self, busy: set[Hashable]) -> tuple[Job, Coroutine[Any, Any, object]] | None:
        """A job that may be under way together with those of ``busy``, and its work."""
        expected, random = self._expected(), self.random
        name = random.choice(CHANNELS)
        kept, place = expected.channels[name], self._places[name]

        def begins(*what: Hashable) -> bool:
            is_free = busy.isdisjoint(what)
            if is_free:
                busy.update(what)
            return is_free

        is_open = kept.state[0] is ChannelState.OPEN
        if not kept.is_declared:
            if begins((name, "writing")):
                return Job(f"declare {name}", partial(store_contents.declare, name=name)), place.declare(SCHEMA)
            return None
        kinds = ("append", "acknowledge", "expire", "barrier", "stage", "forget", "publish", "finish")
        match random.choices(kinds, (6, 4, 0.5, 1, 3, 1, 2, 0.2))[0]:
            case "append" if is_open and begins((name, "writing")):
                return self._append(name, kept, place)
            case "acknowledge" if begins((name, "reading")):
                return self._acknowledge(name, kept, place)
            case "expire" if kept.first_row < len(kept.values) and begins((name, "reading")):
                return self._expire(name, kept, place)
            case "barrier" if is_open and begins((name, "writing")):
                barrier = KeptBarrier(kept.barriers[-1].number + 1 if kept.barriers else 1, len(kept.values))
                change = partial(store_contents.keep_barrier, name=name, barrier=barrier)
                return Job(f"{barrier} of {name}", change), place.keep_barrier(barrier)
            case "stage":
                query = random.choice(QUERIES)
                batch = expected.published.get(query, -1) + random.randint(1, 2)
                staging = Staging(query, batch, random.randint(0, 1), random.choice("xy"))
                if (query, "publishing") not in busy and begins((name, staging)):
                    return self._stage(name, staging, place)
            case "forget" if kept.staged:
                staging = random.choice([*kept.staged])
                if begins((name, staging)):
                    change = partial(store_contents.forget, name=name, staging=staging)
                    return Job(f"forget {staging} of {name}", change), place.forget([staging])
            case "publish":
                query = random.choice(QUERIES)
                batch = expected.published.get(query, -1) + 1
                names = [*expected.channels]
                late = [
                    (name, staging)
                    for name, kept in expected.channels.items()
                    for staging in kept.staged
                    if staging.query == query
                ]
                if all(kept.state[0] is ChannelState.OPEN for kept in expected.channels.values()) and begins(
                    (query, "publishing"), *late, *((name, "writing") for name in names)
                ):
                    return self._publish(query, batch, expected)
            case "finish" if is_open and begins((name, "writing")):
                change = partial(store_contents.finish, name=name)
                return Job(f"finish {name}", change), place.finish(ChannelState.BROKEN, "why")
        return None

    def _values(self, most: int) -> list[int]:
        first, self._value = self._value, self._value + self.random.randint(1, most)
        return [*range(first, self._value)]

    def _chunks(self) -> tuple[list[int], list[pa.RecordBatch]]:
        chunks = [self._values(4) for _ in range(self.random.randint(1, 3))]
        filling = bytes(self.plan.filling_bytes)
        batches = [pa.record_batch([chunk, [filling] * len(chunk)], schema=SCHEMA) for chunk in chunks]
        return [*chain.from_iterable(chunks)], batches

    def _append(self, name: str, kept: Kept, place: ChannelStore) -> tuple[Job, Coroutine[Any, Any, object]]:
        values, batches = self._chunks()
        producer = self.random.choice(("", "p", "o"))
        rows = kept.producers.get(producer, 0) + len(values) if producer else 0
        row = len(kept.values)
        change = partial(store_contents.append, name=name, row=row, values=values, producer=(producer, rows))
        return Job(f"append {values} to {name}", change), place.append(row, batches, producer, rows)

    def _acknowledge(self, name: str, kept: Kept, place: ChannelStore) -> tuple[Job, Coroutine[Any, Any, object]]:
        consumer = self.random.choice(CONSUMERS)
        row = self.random.randint(kept.acknowledged[consumer], len(kept.values))
        next_barrier = self.random.choice((0, kept.barriers[0].number + 1)) if kept.barriers else 0
        return self._acknowledgement(name, kept, place, consumer, row, next_barrier)

    def _acknowledgement(
        self, name: str, kept: Kept, place: ChannelStore, consumer: str, row: int, next_barrier: int = 0
    ) -> tuple[Job, Coroutine[Any, Any, object]]:
        first = max(kept.expired_row, min(row, *(at for other, at in kept.acknowledged.items() if other != consumer)))
        change = partial(store_contents.acknowledge, name=name, consumer=consumer, row=row, next_barrier=next_barrier)
        what = f"{consumer} acknowledges row {row} of {name} and barriers below {next_barrier}"
        return Job(what, change), place.acknowledge(consumer, row, first, next_barrier)

    def _expire(self, name: str, kept: Kept, place: ChannelStore) -> tuple[Job, Coroutine[Any, Any, object]]:
        row = self.random.randint(kept.first_row + 1, len(kept.values))
        next_barrier = self.random.choice((0, kept.barriers[0].number + 1)) if kept.barriers else 0
        change = partial(store_contents.expire, name=name, row=row, next_barrier=next_barrier)
        what = f"rows before row {row} of {name} expire, and barriers below {next_barrier}"
        return Job(what, change), place.expire(row, next_barrier)

    def _stage(self, name: str, staging: Staging, place: ChannelStore) -> tuple[Job, Coroutine[Any, Any, object]]:
        values, batches = self._chunks()
        change = partial(store_contents.stage, name=name, staging=staging, values=values)
        return Job(f"stage {values} for {name} as {staging}", change), place.stage(staging, batches)

    def _publish(self, query: str, batch: int, expected: Contents) -> tuple[Job, Coroutine[Any, Any, object]]:
        """Of each channel and partition, one attempt."""
        chosen = {
            (name, staging.partition): staging
            for name, kept in expected.channels.items()
            for staging in kept.staged
            if (staging.query, staging.batch) == (query, batch)
        }
        next_rows = {name: len(kept.values) for name, kept in expected.channels.items()}
        parts: list[PublishedPart] = []
        for (name, _), staging in chosen.items():
            parts.append(PublishedPart(name, staging, next_rows[name]))
            next_rows[name] += len(expected.channels[name].staged[staging])
        change = partial(store_contents.publish, query=query, batch=batch, parts=parts)
        return Job(f"publish batch {batch} of {query}: {parts}", change), self._store.publish(query, batch, parts)

    @property
    def _may_remove(self) -> bool:
        """On a disk with faults, no new channel of the same name might be opened."""
        return not self._may_differ and not self.disk.is_dead

    async def _remove(self, name: str) -> None:
        """Remove a channel, and open a new one of the same name."""
        job = Job(f"remove {name}", partial(store_contents.remove, name=name))
        self._jobs.append(job)
        await self._until_answered([asyncio.create_task(self._ask(job, self._store.remove([name])))])
        if not self.disk.is_dead:
            with suppress(Crashed, StoreError):
                (self._places[name],) = self._store.open_channels([name], parameters=PARAMETERS, consumers=CONSUMERS)
                return
        assert self.disk.is_dead, "no fault was to be expected"

    # The judge.

    def _expected(self) -> Contents:
        """What the exchange has been told."""
        return self._with(job for job in self._jobs if job.is_there)

    def _with(self, jobs: Iterable[Job]) -> Contents:
        contents = self._base.copy()
        for job in jobs:
            job.change(contents)
        return contents

    def _outcomes(self) -> Iterator[list[Job]]:
        """Of all jobs, those that may be on the disk; the likely ones first."""
        jobs = self._jobs
        if self.disk.lies and not self.plan.faults.lying_about:
            # Tables and journal may have lost the same; nothing can tell that.
            for end in range(len(jobs), -1, -1):
                yield [job for job in jobs[:end] if job.is_there is not False]
            return
        last = max((place for place, job in enumerate(jobs) if job.is_there), default=-1)
        unknown = [
            place for place, job in enumerate(jobs) if job.is_there is None and not (job.was_refused and place < last)
        ]
        sure = {place for place, job in enumerate(jobs) if job.is_there}
        sizes = range(len(unknown), -1, -1)
        chosen: Iterator[Sequence[int]] = (unknown[:size] for size in sizes)
        if self._may_differ:
            chosen = chain(chosen, chain.from_iterable(combinations(unknown, size) for size in sizes))
        for there in chosen:
            both = sure | {*there}
            yield [job for place, job in enumerate(jobs) if place in both]

    def _judge(self) -> None:
        found = self._found()
        nearest = None
        for jobs in self._outcomes():
            try:
                expected = self._with(jobs)
            except store_contents.Impossible:
                continue
            if (values := expected.as_values()) == found:
                self._base, self._jobs, self.disk.lies = expected, [], 0
                return
            nearest = nearest or values
        raise Wrong(f"the store has {found}, and should have, for instance, {nearest}")

    def _found(self) -> dict[str, Any]:
        """What the store has, in plain values."""
        found: dict[str, Any] = {"published": dict(self._store.published_batches())}
        for name, place in self._places.items():
            kept = place.load()
            acknowledged = dict(kept.acknowledged or dict.fromkeys(CONSUMERS, 0))
            found[name] = {
                "next row": kept.next_row,
                "values": _read(place, max(kept.expired_row, min(acknowledged.values())), kept.next_row),
                "acknowledged": acknowledged,
                "expired row": kept.expired_row,
                "producers": dict(kept.producers),
                "is declared": kept.schema is not None,
                "state": (kept.state, kept.reason),
                "staged": {staging: sum(rows) for staging, rows in kept.staged.items()},
                "barriers": [*kept.barriers],
            }
        return found

    async def _memory_is_right(self) -> None:
        if self.plan.faults != Faults():
            return  # some jobs have no answer that tells
        for name, kept in self._expected().channels.items():
            values = _read(self._places[name], kept.first_row, len(kept.values))
            if values != kept.values[kept.first_row :]:
                raise Wrong(f"of {name}, {values} are in memory, and {kept.values[kept.first_row :]} should be")

    async def _can_be_written(self) -> None:
        """The disk has recovered."""
        name = CHANNELS[0]
        kept = self._expected().channels[name]
        if not kept.is_declared or kept.state[0] is not ChannelState.OPEN:
            return
        job, work = self._append(name, kept, self._places[name])
        self._jobs.append(job)
        try:
            await work
        except StoreError as error:
            if "journal" not in str(error):
                raise Wrong(f"the disk has recovered, and the store still says: {error}") from error
            job.was_refused = True
        else:
            job.is_there = True


def _read(place: ChannelStore, first_row: int, next_row: int) -> list[int]:
    if first_row >= next_row:
        return []
    reading = place.read(first_row, next_row)
    try:
        reading.send(None)
    except StopIteration as done:
        return [value for batch in done.value for value in batch.column(0).to_pylist()]
    raise Wrong("reading waits for something")


async def judge(seeds: Sequence[int]) -> dict[str, int]:
    """Run schedules; return how often what has happened.

    Raises:
        Wrong: the store has broken a rule; the message names the seed, and a note tells what happened.
    """
    counts = dict.fromkeys(("schedules", "operations", "crashes", "openings", "refusals", "failures"), 0)
    for seed in seeds:
        run = StoreRun(seed)
        try:
            await run.run()
        except BaseException as error:
            wrong = Wrong(f"seed {seed}: {error}")
            wrong.add_note("\n".join(run.story))
            raise wrong from error
        counts["schedules"] += 1
        counts["operations"] += run.disk.operations
        for what in ("crashes", "openings", "refusals", "failures"):
            counts[what] += getattr(run, what)
    return counts


def laws_of(seed: int) -> list[str]:
    """Run one schedule; return the rules that were broken."""
    try:
        asyncio.run(judge([seed]))
    except Wrong as error:
        return [str(error)]
    return []

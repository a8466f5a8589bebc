"""``permitflow demo jobs``: clients, a master, workers and a monitor, overloaded on purpose, with workers killed.

clients --TCP--> master [queue, drops the oldest] --gRPC, stop-and-wait--> workers --UDP, conflated--> monitor

All are processes of their own, and none outlives the demo.
"""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from math import inf
from pathlib import Path
from sys import executable
from time import monotonic

from permitflow.errors import DemoError, InvalidOptionError
from permitflow_model.drop_queue import Parameters, fresh_capacity

from ..processes import Event, Part
from .metrics import MetricsSettings
from .settings import ClientSettings, MasterSettings, ProcessSettings, SparkWorkerSettings, WorkerSettings

JOB_SECONDS = 0.02
RESEND_SECONDS = 3
QUIET_SECONDS, QUIET_SHARE = 2.0, 0.3
"""Before the overload, and how much of the capacity the clients ask for."""
TRICKLE_PER_SECOND = 5
"""After it, of each client."""
SPARK, SPARK_SLOTS = "spark", 16
UNREAD_RESULTS = 200
START_SECONDS = 60.0
SPARK_SECONDS = 90.0
FINISH_SECONDS_PER_JOB = 0.2
"""Far more than a job takes, even on a machine that is busy."""
MOST_GROWTH_BYTES = 32 << 20
"""Of the master's memory; the unfinished jobs of a minute of overload would need more."""
LARGEST_NUMBER = 16
LOOK_SECONDS = 0.1
PORT = "127.0.0.1:0"


@dataclass(frozen=True, kw_only=True)
class JobsSettings:
    """What is started, and how hard it is pressed."""

    overload_seconds: float = 5.0
    overload_factor: int = 3
    """Jobs that come, for each that the workers can do."""
    kills: int = 1
    """Workers that are killed during the overload."""
    workers: int = 2
    clients: int = 2
    spark: bool = False
    """Is a streaming query one more worker?"""
    seed: int = 1

    def __post_init__(self) -> None:
        """Refuse what shows nothing.

        Raises:
            InvalidOptionError: a number is out of its range.
        """
        if not 0 < self.overload_seconds < inf:  # NaN neither
            raise InvalidOptionError(
                option="--overload", value=self.overload_seconds, reason="must be above 0, and finite"
            )
        for name, least, most in (
            ("workers", 1, LARGEST_NUMBER),
            ("clients", 1, LARGEST_NUMBER),
            ("kills", 0, 1_000),
            ("overload_factor", 2, 20),
        ):
            if not least <= getattr(self, name) <= most:
                option = "--factor" if name == "overload_factor" else f"--{name}"
                raise InvalidOptionError(option=option, value=getattr(self, name), reason=f"must be {least} to {most}")

    @property
    def capacity_per_second(self) -> int:
        """Jobs that the workers can do, without the streaming query."""
        return round(self.workers / JOB_SECONDS)

    @property
    def sure_per_second(self) -> int:
        """Jobs that are done even while a worker is dead, and if the others need twice as long as a job takes."""
        return round(max(1, self.workers - 1) / JOB_SECONDS / 2)

    @property
    def queue_capacity(self) -> int:
        """By the proved rule: no job is served that was sent again meanwhile, however many come."""
        # A tick is a second.
        rule = Parameters(capacity=1, arrivals=1, services=self.sure_per_second, resend=RESEND_SECONDS, drops="oldest")
        return fresh_capacity(rule)

    @property
    def phases(self) -> Sequence[tuple[int, float]]:
        """Of each client."""
        quiet = max(1, round(QUIET_SHARE * self.capacity_per_second / self.clients))
        overload = round(self.overload_factor * self.capacity_per_second / self.clients)
        return [(quiet, QUIET_SECONDS), (overload, self.overload_seconds), (TRICKLE_PER_SECOND, 0)]

    @property
    def slots(self) -> Mapping[str, int]:
        """By worker: the jobs that it may have at a time."""
        named = {f"w{number}": 1 for number in range(1, self.workers + 1)}
        return {**named, SPARK: SPARK_SLOTS} if self.spark else named

    @property
    def most_entries(self) -> int:
        """What the master may remember at a time: jobs that wait, by both ways to find them; jobs that workers have, or
        dead workers had; and results that clients have not confirmed."""
        waiting = self.queue_capacity + 2 * sum(self.slots.values())
        return 2 * waiting + self.clients * UNREAD_RESULTS


@dataclass(frozen=True, kw_only=True)
class JobsReport:
    """What a run came to."""

    seconds: float
    was_ended_early: bool
    submitted: int
    finished: int
    resent: int
    repeated: int
    """Reports of jobs that had been reported: the confirmation was lost."""
    dropped: int
    given_again: int
    """Jobs of dead workers."""
    worked_again: int
    """Results of jobs that were finished."""
    killed: Sequence[str]
    queue_capacity: int
    peak_waiting: int
    longest_wait_seconds: float
    resend_seconds: float
    longest_seconds: float
    """From the first time that a job was sent to its report."""
    finished_by: Mapping[str, int]
    """Results by the start of the worker."""
    peak_entries: int
    most_entries: int
    growth_bytes: int
    """Of the master's memory."""
    found: Sequence[str]
    """The failed checks."""

    def problems(self) -> list[str]:
        """The failed checks."""
        return list(self.found)

    @property
    def holds(self) -> bool:
        """Did all checks pass?"""
        return not self.found

    def as_json(self) -> dict[str, object]:
        """For programs."""
        rest = asdict(self)
        return {**rest, "problems": rest.pop("found"), "holds": self.holds}


class JobsRun:
    """A run so far."""

    def __init__(
        self, settings: JobsSettings, folder: Path, note: Callable[[str], None], ending: asyncio.Event
    ) -> None:
        """Nothing was started.

        Args:
            settings: what to do.
            folder: for logs, and Spark's files.
            note: is called with a line for each event.
            ending: is set to end the run early: clients submit no more, and everything submitted is finished.
        """
        self._settings, self._folder, self._note, self._ending = settings, folder, note, ending
        self._began = monotonic()
        self._parts: dict[str, Part] = {}
        self._ready: dict[str, asyncio.Event] = {}
        self._said: dict[str, Event] = {}
        """By part: how it has begun, and what it said last about its state."""
        self._finals: dict[str, Event] = {}
        """By start of a part: its last words."""
        self._killed: list[str] = []
        self._was_ended_early = False
        self._problems: list[str] = []

    def _say(self, text: str) -> None:
        self._note(f"{monotonic() - self._began:6.2f} s  {text}")

    # Processes.

    async def _start(
        self,
        group: asyncio.TaskGroup,
        name: str,
        module: str,
        settings: Callable[[MetricsSettings, int], ProcessSettings],
        *,
        may_fail: bool = False,
        waits: bool = True,
    ) -> None:
        """Start a part, and wait until it is ready."""

        def command(start: int) -> list[str]:
            metrics = MetricsSettings(source=name, incarnation=start)
            return [executable, "-m", f"{__package__}.{module}", settings(metrics, start).to_json()]

        def hear(event: Event) -> None:
            if event["event"] == "final":
                self._finals[f"{name}#{event['incarnation']}"] = event
                return
            self._said[name] = {**self._said.get(name, {}), **event}
            if event["event"] == "ready":
                self._ready[name].set()

        self._ready[name] = asyncio.Event()
        part = Part(name, command, self._folder / f"{name}.log", hear=hear, may_fail=lambda: may_fail)
        self._parts[name] = part
        group.create_task(part.run())
        if waits:
            try:
                async with asyncio.timeout(START_SECONDS):
                    await self._ready[name].wait()
            except TimeoutError:
                what = f"{name} does not start within {START_SECONDS:.0f} s: see its log, --keep DIR"
                raise DemoError(what) from None

    async def _is_ended_within(self, seconds: float) -> bool:
        """Let so much time pass; at once, if the run is asked to end."""
        with suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._ending.wait()
        return self._ending.is_set()

    # The run.

    async def run(self) -> JobsReport:
        """Run it to its end; cancellation ends all processes.

        Raises:
            DemoError: a process that none may do without has ended, or the jobs are not finished in time.
        """
        settings = self._settings
        try:
            async with asyncio.TaskGroup() as group:
                await self._start_all(group)
                self._was_ended_early = await self._press()
                if not self._was_ended_early and settings.spark:
                    self._was_ended_early = await self._spark_has_worked()
                if self._was_ended_early:
                    self._say("asked to end: the clients submit no more, and what they have submitted is finished")
                await self._end_all()
        except BaseExceptionGroup as failures:
            found: BaseException | None = failures.split(DemoError)[0]
            if found is None:
                raise
            while isinstance(found, BaseExceptionGroup):
                found = found.exceptions[0]
            raise found from None
        return self._report()

    async def _start_all(self, group: asyncio.TaskGroup) -> None:
        settings = self._settings
        await self._start(
            group,
            "master",
            "master",
            lambda metrics, _: MasterSettings(
                metrics=metrics,
                queue_capacity=settings.queue_capacity,
                workers=settings.slots,
                unread_results=UNREAD_RESULTS,
            ),
        )
        clients_address, workers_address = (str(self._said["master"][which]) for which in ("clients", "workers"))
        for name, slots in settings.slots.items():

            def of_worker(metrics: MetricsSettings, start: int, name: str = name) -> WorkerSettings:
                return WorkerSettings(
                    metrics=metrics, name=name, start=start, master=workers_address, job_seconds=JOB_SECONDS
                )

            def of_query(metrics: MetricsSettings, start: int) -> SparkWorkerSettings:
                return SparkWorkerSettings(**vars(of_worker(metrics, start, SPARK)), work_dir=str(self._folder / SPARK))

            is_query = slots > 1
            # Spark takes its time; it joins when it is there.
            await self._start(
                group,
                name,
                "spark_worker" if is_query else "worker",
                of_query if is_query else of_worker,
                may_fail=True,
                waits=not is_query,
            )
        for number in range(1, settings.clients + 1):
            name = f"c{number}"

            def of_client(
                metrics: MetricsSettings, start: int, name: str = name, number: int = number
            ) -> ClientSettings:
                return ClientSettings(
                    metrics=metrics,
                    name=f"{name}#{start}",
                    master=clients_address,
                    phases=settings.phases,
                    resend_seconds=RESEND_SECONDS,
                    seed=settings.seed * LARGEST_NUMBER + number,
                )

            await self._start(group, name, "client", of_client)

    async def _press(self) -> bool:
        """Let the clients submit, and kill workers meanwhile; returns whether the run was asked to end."""
        settings = self._settings
        self._say(f"{settings.clients} clients submit {_total_rate(settings, 0)} jobs a second")
        if await self._is_ended_within(QUIET_SECONDS):
            return True
        self._say(
            f"overload: {_total_rate(settings, 1)} a second, and {settings.workers} workers can do "
            f"{settings.capacity_per_second}"
        )
        pause = settings.overload_seconds / (settings.kills + 1)
        for number in range(settings.kills):
            if await self._is_ended_within(pause):
                return True
            self._kill(f"w{number % settings.workers + 1}")
        if await self._is_ended_within(pause):
            return True
        self._say("the overload is over")
        return False

    def _kill(self, name: str) -> None:
        part = self._parts[name]
        start = f"{name}#{part.starts}"
        if part.kill():
            self._killed.append(start)
            self._say(f"killed: {start}; its job is given to another")

    async def _spark_has_worked(self) -> bool:
        """Wait until the streaming query has finished a job; returns whether the run was asked to end."""
        give_up_at = monotonic() + SPARK_SECONDS
        while not self._results_of(SPARK):
            if await self._is_ended_within(LOOK_SECONDS):
                return True
            if monotonic() > give_up_at:
                self._problems.append(f"the streaming query finished no job within {SPARK_SECONDS:.0f} s")
                break
        return False

    def _results_of(self, name: str) -> int:
        by_start = self._said["master"].get("results_by", {})
        assert isinstance(by_start, dict)  # so the master reports it
        return sum(count for start, count in by_start.items() if start.rpartition("#")[0] == name)

    async def _end_all(self) -> None:
        clients = [self._parts[f"c{number}"] for number in range(1, self._settings.clients + 1)]
        unfinished = sum(
            self._number(client.name, "submitted") - self._number(client.name, "finished") for client in clients
        )
        self._say(f"the clients end: {unfinished:,} jobs are unfinished")
        seconds = START_SECONDS + FINISH_SECONDS_PER_JOB * unfinished
        try:
            async with asyncio.timeout(seconds):
                await asyncio.gather(*(client.stop() for client in clients))
        except TimeoutError:
            raise DemoError(f"not all jobs were finished within {seconds:.0f} s: see the logs, --keep DIR") from None
        self._say("each job was reported to its client")
        # Nobody may miss whom it reports to.
        await asyncio.gather(*(self._parts[name].stop() for name in self._settings.slots))
        await self._parts["master"].stop()

    # What has come of it.

    def _number(self, part: str, name: str) -> int:
        return int(str(self._said[part].get(name, 0)))

    def _report(self) -> JobsReport:
        settings = self._settings
        master = self._finals.get("master#1")
        clients = [self._finals.get(f"c{number}#1") for number in range(1, settings.clients + 1)]
        if master is None or None in clients:
            raise DemoError("the master or a client has ended without its last words: see the logs, --keep DIR")
        told = [client for client in clients if client is not None]

        def over_clients(name: str) -> int:
            return sum(int(str(client[name])) for client in told)

        counts = master["counts"]
        results_by = master["results_by"]
        assert isinstance(counts, dict)  # so the master reports it
        assert isinstance(results_by, dict)
        growth = int(str(master["peak_resident_bytes"])) - int(str(self._said["master"]["resident_bytes"]))
        report = JobsReport(
            seconds=monotonic() - self._began,
            was_ended_early=self._was_ended_early,
            submitted=over_clients("submitted"),
            finished=over_clients("finished"),
            resent=over_clients("resent"),
            repeated=over_clients("repeated"),
            dropped=counts.get("dropped", 0),
            given_again=counts.get("given_again", 0),
            worked_again=counts.get("repeated", 0),
            killed=self._killed,
            queue_capacity=settings.queue_capacity,
            peak_waiting=int(str(master["peak_waiting"])),
            longest_wait_seconds=float(str(master["longest_wait_seconds"])),
            resend_seconds=RESEND_SECONDS,
            longest_seconds=max(float(str(client["longest_seconds"])) for client in told),
            finished_by=results_by,
            peak_entries=int(str(master["peak_entries"])),
            most_entries=settings.most_entries,
            growth_bytes=growth,
            found=[],
        )
        peak_held = master["peak_held"]
        assert isinstance(peak_held, dict)
        too_many = {name: most for name, most in peak_held.items() if most > settings.slots[name]}
        problems = list(self._problems)

        def require(holds: bool, otherwise: str) -> None:
            if not holds:
                problems.append(otherwise)

        require(
            report.finished == report.submitted,
            f"{report.submitted:,} jobs were submitted, and {report.finished:,} reported finished",
        )
        require(
            counts.get("finished", 0) == report.finished,
            f"the master has finished {counts.get('finished', 0):,} jobs, and the clients count {report.finished:,}",
        )
        require(not over_clients("wrong"), f"{over_clients('wrong'):,} results were wrong")
        require(
            master["finished_work"] == over_clients("finished_work"),
            f"results add up to {master['finished_work']} at the master, {over_clients('finished_work')} at clients",
        )
        require(
            sum(results_by.values()) == report.finished + report.worked_again,
            f"{sum(results_by.values()):,} results came, of {report.finished:,} jobs, {report.worked_again:,} again",
        )
        require(
            report.peak_waiting <= settings.queue_capacity,
            f"{report.peak_waiting} jobs waited, and {settings.queue_capacity} may",
        )
        require(not too_many, f"workers had too many jobs at a time: {too_many}")
        require(
            not counts.get("known_waiting", 0),
            f"{counts.get('known_waiting', 0)} jobs were sent again while they still waited: the queue is too long",
        )
        require(
            report.peak_entries <= report.most_entries,
            f"the master remembered {report.peak_entries:,} jobs and results; the bound is {report.most_entries:,}",
        )
        require(growth <= MOST_GROWTH_BYTES, f"the master's memory has grown by {growth:,} bytes")
        if not self._was_ended_early:
            require(report.dropped > 0, "the overload made the queue drop nothing: choose a longer one, --overload")
            require(
                len(self._killed) == settings.kills, f"{len(self._killed)} workers were killed, of {settings.kills}"
            )
        return replace(report, found=problems)


def _total_rate(settings: JobsSettings, phase: int) -> int:
    return settings.clients * settings.phases[phase][0]


async def run_jobs(
    settings: JobsSettings, folder: Path, note: Callable[[str], None], ending: asyncio.Event
) -> JobsReport:
    """Run the demo to its end; cancellation ends all processes.

    Args:
        settings: what to do.
        folder: for logs, and Spark's files.
        note: is called with a line for each event.
        ending: ends the run early when it is set: clients submit no more, and everything submitted is finished.

    Raises:
        DemoError: a process that none may do without has ended, or the jobs are not finished in time.
    """
    return await JobsRun(settings, folder, note, ending).run()


def figures(report: JobsReport) -> list[tuple[str, str]]:
    """The report as names and values, for people."""
    by_start = ", ".join(f"{start} {count:,}" for start, count in sorted(report.finished_by.items()))
    return [
        ("jobs submitted", f"{report.submitted:,}, and sent again {report.resent:,} times"),
        (
            "jobs reported finished",
            f"{report.finished:,}, each once; {report.repeated:,} repeated reports were dropped",
        ),
        ("the queue dropped", f"{report.dropped:,}"),
        ("waiting jobs, at most", f"{report.peak_waiting} of {report.queue_capacity}"),
        (
            "longest wait in the queue",
            f"{report.longest_wait_seconds:.2f} s of {report.resend_seconds:.0f}, after which clients send again",
        ),
        ("longest from submission to report", f"{report.longest_seconds:.1f} s"),
        ("workers killed", f"{len(report.killed)}; {report.given_again} of their jobs were given to others"),
        ("jobs that were worked on twice", f"{report.worked_again}"),
        ("results by worker", by_start),
        ("jobs and results that the master remembered, at most", f"{report.peak_entries} of {report.most_entries}"),
        ("the master's memory has grown by", f"{report.growth_bytes:,} bytes"),
    ]

"""``permitflow demo jobs``: clients, a master, workers and a monitor, overloaded on purpose, with workers killed.

clients --TCP--> master [queue, drops the oldest] --gRPC, stop-and-wait--> workers --UDP, conflated--> monitor

All are processes of their own, and none outlives the demo.
"""

import asyncio
from collections.abc import Callable, Coroutine
from dataclasses import asdict
from pathlib import Path
from sys import executable
from time import monotonic
from typing import Any, cast

from permitflow.errors import DemoError, PermitflowError

from ..processes import Event, Part, first_error, is_set_within
from .client import ClientState
from .collecting import MonitorState
from .master import MasterState
from .metrics import MetricsSettings
from .metrics_checks import MetricsTruth
from .monitor import MonitorSettings
from .outcome import JobsReport, figures
from .page import page_of
from .plan import JOB_SECONDS, LARGEST_NUMBER, MOST_OPEN, RESEND_SECONDS, JobsSettings
from .settings import ClientSettings, MasterSettings, ProcessSettings, WorkerSettings

__all__ = ["JobsReport", "JobsSettings", "figures", "run_jobs"]

START_SECONDS = 60.0
FINISH_SECONDS_PER_JOB = 0.2
"""Far more than a job takes, even on a machine that is busy."""

SettingsOf = Callable[[MetricsSettings], ProcessSettings]
"""The settings of a start of a process."""


class JobsRun:
    """A run so far."""

    def __init__(
        self, settings: JobsSettings, folder: Path, note: Callable[[str], None], ending: asyncio.Event
    ) -> None:
        """Nothing was started; the arguments are those of ``run_jobs``."""
        self._settings, self._folder, self._note, self._ending = settings, folder, note, ending
        self._began = monotonic()
        self._parts: dict[str, Part] = {}
        self._ready: dict[str, asyncio.Event] = {}
        self._said: dict[str, Event] = {}
        """By part: all that it has said, the newest of each kind."""
        self._finals: dict[str, Event] = {}
        """By start of a part: its last words."""
        self._kills = 0

    def _say(self, text: str) -> None:
        self._note(f"{monotonic() - self._began:6.2f} s  {text}")

    # Processes.

    def _begin(self, group: asyncio.TaskGroup, name: str, module: str, settings_of: SettingsOf) -> None:
        """Start a part; a worker that dies is started again."""

        def command(start: int) -> list[str]:
            metrics = MetricsSettings(
                # The monitor itself has nobody to tell.
                monitor=str(self._said.get("monitor", {}).get("udp", "")),
                source=name,
                incarnation=start,
                packets_per_second=self._settings.packets_per_second,
                senders=self._settings.senders,
            )
            return [executable, "-m", f"{__package__}.{module}", settings_of(metrics).to_json()]

        def hear(event: Event) -> None:
            if event["event"] == "final":
                self._finals[f"{name}#{event.get('incarnation', 1)}"] = event
                return
            self._said[name] = {**self._said.get(name, {}), **event}
            if event["event"] == "ready":
                self._ready[name].set()

        self._ready[name] = asyncio.Event()
        is_worker = name in self._settings.workers_names
        self._parts[name] = Part(name, command, self._folder / f"{name}.log", hear=hear, may_fail=lambda: is_worker)
        group.create_task(self._parts[name].run())

    async def _until_ready(self, *names: str) -> None:
        for name in names:
            try:
                async with asyncio.timeout(START_SECONDS):
                    await self._ready[name].wait()
            except TimeoutError:
                raise DemoError(
                    f"{name} does not start within {START_SECONDS:.0f} s: see its log, --keep DIR"
                ) from None

    async def _start_all(self, group: asyncio.TaskGroup) -> None:
        self._begin(group, "monitor", "monitor", self._of_monitor)
        await self._until_ready("monitor")
        self._note(f"the monitor's page: {self._said['monitor']['page']}")
        self._begin(group, "master", "master", self._of_master)
        await self._until_ready("master")
        for name in self._settings.workers_names:
            self._begin(group, name, "worker", self._of_worker)
        await self._until_ready(*self._settings.workers_names)
        for number, name in enumerate(self._settings.clients_names, 1):
            self._begin(group, name, "client", self._of_client(number))
        await self._until_ready(*self._settings.clients_names)

    def _of_monitor(self, metrics: MetricsSettings) -> MonitorSettings:
        settings = self._settings
        return MonitorSettings(
            metrics=metrics,
            page=settings.page,
            packets_per_second=settings.packets_per_second,
            senders=settings.senders,
            sources=["master", *settings.workers_names],
            queue_capacity=settings.queue_capacity,
            resend_seconds=RESEND_SECONDS,
            lose=settings.lose,
            seed=settings.seed,
        )

    def _of_master(self, metrics: MetricsSettings) -> MasterSettings:
        settings = self._settings
        return MasterSettings(
            metrics=metrics,
            queue_capacity=settings.queue_capacity,
            workers=settings.workers_names,
            most_open=MOST_OPEN,
        )

    def _of_worker(self, metrics: MetricsSettings) -> WorkerSettings:
        return WorkerSettings(
            metrics=metrics,
            name=metrics.source,
            start=metrics.incarnation,
            master=str(self._said["master"]["workers"]),
            job_seconds=JOB_SECONDS,
        )

    def _of_client(self, number: int) -> SettingsOf:
        return lambda metrics: ClientSettings(
            name=f"{metrics.source}#{metrics.incarnation}",
            master=str(self._said["master"]["clients"]),
            phases=self._settings.phases,
            resend_seconds=RESEND_SECONDS,
            resends_per_second=self._settings.resends_per_second,
            seed=self._settings.seed * LARGEST_NUMBER + number,
        )

    # The run.

    async def run(self) -> tuple[JobsReport, str]:
        """See ``run_jobs``."""
        with first_error(PermitflowError):
            async with asyncio.TaskGroup() as group:
                await self._start_all(group)
                was_ended_early = await self._press()
                if was_ended_early:
                    self._say("asked to end: the clients submit no more, and what they have submitted is finished")
                await self._end_all()
        report = self._report(was_ended_early=was_ended_early)
        return report, page_of(cast("MonitorState", report.monitor))

    async def _press(self) -> bool:
        """Let the clients submit, and kill workers meanwhile; returns whether the run was asked to end."""
        settings = self._settings
        quiet, overload, _ = (settings.clients * rate for rate, _ in settings.phases)
        self._say(f"{settings.clients} clients submit {quiet} jobs a second")
        if await is_set_within(self._ending, settings.quiet_seconds):
            return True
        can = settings.capacity_per_second
        self._say(f"overload: {overload} jobs a second, and {settings.workers} workers can do {can}")
        pause_seconds = settings.overload_seconds / (settings.kills + 1)
        for number in range(settings.kills):
            if await is_set_within(self._ending, pause_seconds):
                return True
            self._kill(settings.workers_names[number % settings.workers])
        if await is_set_within(self._ending, pause_seconds):
            return True
        self._say("the overload is over")
        return False

    def _kill(self, name: str) -> None:
        part = self._parts[name]
        if part.kill():
            self._kills += 1
            self._say(f"killed: {name}#{part.starts}; its job is given to another")

    async def _end_all(self) -> None:
        """End the clients when their jobs are finished, and then all others, each before the one that it tells."""
        states = [self._client_state(self._said[name]) for name in self._settings.clients_names if self._said.get(name)]
        unfinished = sum(state.submitted - state.finished for state in states)
        self._say(f"the clients end: {unfinished:,} jobs are unfinished")
        seconds = START_SECONDS + FINISH_SECONDS_PER_JOB * unfinished
        try:
            async with asyncio.timeout(seconds):
                await self._stop(*self._settings.clients_names)
        except TimeoutError:
            raise DemoError(f"not all jobs were finished within {seconds:.0f} s: see the logs, --keep DIR") from None
        self._say("each job was reported to its client")
        await self._stop(*self._settings.workers_names)
        await self._stop("master")
        await self._stop("monitor")

    async def _stop(self, *names: str) -> None:
        stopping: list[Coroutine[Any, Any, None]] = [self._parts[name].stop() for name in names]
        await asyncio.gather(*stopping)

    def _client_state(self, event: Event) -> ClientState:
        return ClientState(**cast("dict[str, Any]", event.get("state", asdict(ClientState()))))

    def _report(self, *, was_ended_early: bool) -> JobsReport:
        settings = self._settings
        needed = ["monitor#1", "master#1", *(f"{name}#1" for name in settings.clients_names)]
        if silent := [start for start in needed if start not in self._finals]:
            raise DemoError(f"{', '.join(silent)} ended without a last word: see the logs, --keep DIR")
        master = MasterState(**cast("dict[str, Any]", self._finals["master#1"]["state"]))
        starts = {
            f"{name}#{start}" for name in settings.workers_names for start in range(1, self._parts[name].starts + 1)
        }
        totals = {start: self._finals[start]["totals"] for start in (*starts, "master#1") if start in self._finals}
        return JobsReport(
            settings=settings,
            seconds=monotonic() - self._began,
            was_ended_early=was_ended_early,
            clients=[self._client_state(self._finals[f"{name}#1"]) for name in settings.clients_names],
            master=master,
            monitor=self._finals["monitor#1"],
            truth=MetricsTruth(
                totals=cast("dict[str, dict[str, int]]", totals),
                results=master.results_by,
                killed=starts - totals.keys(),
            ),
            growth_bytes=master.peak_resident_bytes - int(str(self._said["master"]["resident_bytes"])),
            kills=self._kills,
        )


async def run_jobs(
    settings: JobsSettings, folder: Path, note: Callable[[str], None], ending: asyncio.Event
) -> tuple[JobsReport, str]:
    """Run the demo to its end; cancellation ends all processes.

    Args:
        settings: what to do.
        folder: for logs.
        note: is called with a line for each event.
        ending: ends the run early when it is set: clients submit no more, and everything submitted is finished.

    Returns:
        The report, and the monitor's page as it was at the end.

    Raises:
        DemoError: a process that none may do without has ended, or the jobs are not finished in time.
    """
    return await JobsRun(settings, folder, note, ending).run()

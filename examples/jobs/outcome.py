"""What a run of the demo came to: checked, and for people."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass

from .client import ClientState
from .master import MasterState
from .metrics_checks import MetricsTruth, metrics_figures, metrics_problems
from .plan import RESEND_SECONDS, JobsSettings

MOST_GROWTH_BYTES = 32 << 20
"""The most by which the master's memory may grow; the unfinished jobs of a minute of overload would need more."""


@dataclass(frozen=True, kw_only=True)
class JobsReport:
    """What a run came to."""

    seconds: float
    was_ended_early: bool
    submitted: int
    finished: int
    """Jobs that were reported to their clients, each counted once."""
    resent: int
    repeated: int
    """Reports of jobs that had been reported."""
    dropped: int
    given_again: int
    """Jobs of dead workers."""
    worked_again: int
    """Results of jobs that were finished."""
    killed: Sequence[str]
    """Starts of workers that had no good end."""
    queue_capacity: int
    peak_queued: int
    longest_wait_seconds: float
    """In the queue, of a job that was pulled."""
    resend_seconds: float
    resent_too_early: int
    """Jobs that were sent again while they waited: workers were slower than the rule for the queue assumes."""
    longest_seconds: float
    """From the first time that a job was sent to its report."""
    results_by: Mapping[str, int]
    """By the start of the worker."""
    peak_entries: int
    """Jobs and results that the master remembered at a time."""
    most_entries: int
    growth_bytes: int
    """The growth of the master's memory."""
    metrics: Sequence[tuple[str, str]]
    """What the monitor knew at the end, for people."""
    problems: Sequence[str]
    """The failed checks."""

    @property
    def holds(self) -> bool:
        """Did all checks pass?"""
        return not self.problems

    def as_json(self) -> dict[str, object]:
        """For programs."""
        return {**asdict(self), "holds": self.holds}


@dataclass(frozen=True, kw_only=True)
class Ended:
    """What the processes said at their end, and what was done to them."""

    settings: JobsSettings
    seconds: float
    was_ended_early: bool
    clients: Sequence[ClientState]
    master: MasterState
    monitor: Mapping[str, object]
    truth: MetricsTruth
    growth_bytes: int
    kills: int
    problems: Sequence[str]
    """The problems that were seen meanwhile."""


def report_of(run: Ended) -> JobsReport:
    """Check everything."""
    counts, clients = run.master.counts, run.clients
    return JobsReport(
        seconds=run.seconds,
        was_ended_early=run.was_ended_early,
        submitted=sum(client.submitted for client in clients),
        finished=sum(client.finished for client in clients),
        resent=sum(client.resent for client in clients),
        repeated=sum(client.repeated for client in clients),
        dropped=counts.get("dropped", 0),
        given_again=counts.get("given_again", 0),
        worked_again=counts.get("repeated", 0),
        killed=sorted(run.truth.killed),
        queue_capacity=run.settings.queue_capacity,
        peak_queued=run.master.peak_queued,
        longest_wait_seconds=run.master.longest_wait_seconds,
        resend_seconds=RESEND_SECONDS,
        resent_too_early=counts.get("resent_too_early", 0),
        longest_seconds=max(client.longest_seconds for client in clients),
        results_by=run.master.results_by,
        peak_entries=run.master.peak_entries,
        most_entries=run.settings.most_entries,
        growth_bytes=run.growth_bytes,
        metrics=metrics_figures(run.monitor, run.truth),
        problems=[*run.problems, *_problems(run), *metrics_problems(run.monitor, run.truth)],
    )


def _problems(run: Ended) -> list[str]:
    settings, master, clients, counts = run.settings, run.master, run.clients, run.master.counts
    submitted, finished = (sum(each) for each in zip(*((one.submitted, one.finished) for one in clients), strict=True))
    wrong, work = (sum(each) for each in zip(*((one.wrong, one.finished_work) for one in clients), strict=True))
    results, again, passed_over = (
        sum(master.results_by.values()),
        counts.get("repeated", 0),
        counts.get("passed_over", 0),
    )
    too_many = {name: most for name, most in master.peak_held.items() if most > settings.slots[name]}
    checks = [
        (finished == submitted, f"{submitted:,} jobs were submitted, and {finished:,} reported finished"),
        (
            counts.get("finished", 0) == finished,
            f"the master has finished {counts.get('finished', 0):,} jobs, and the clients count {finished:,}",
        ),
        (not wrong, f"{wrong:,} results were wrong"),
        (master.finished_work == work, f"results add up to {master.finished_work} at the master, {work} at clients"),
        (results == finished + again, f"{results:,} results came, of {finished:,} jobs, and of {again:,} again"),
        (
            master.peak_queued <= settings.queue_capacity,
            f"{master.peak_queued} jobs waited in the queue, which has {settings.queue_capacity} places",
        ),
        (not too_many, f"workers had too many jobs at a time: {too_many}"),
        (not passed_over, f"{passed_over} jobs still waited when as many others as the queue has places had left it"),
        (
            master.peak_entries <= settings.most_entries,
            f"the master remembered {master.peak_entries:,} jobs and results; the bound is {settings.most_entries:,}",
        ),
        (run.growth_bytes <= MOST_GROWTH_BYTES, f"the master's memory has grown by {run.growth_bytes:,} bytes"),
    ]
    if not run.was_ended_early:
        dropped = counts.get("dropped", 0)
        checks += [
            (dropped > 0, "the overload made the queue drop nothing: choose a longer one, --overload-seconds"),
            (run.kills == settings.kills, f"{run.kills} workers were killed, of {settings.kills}"),
        ]
    return [otherwise for holds, otherwise in checks if not holds]


def figures(report: JobsReport) -> list[tuple[str, str]]:
    """The report as names and values, for people."""
    by_start = ", ".join(f"{start} {count:,}" for start, count in sorted(report.results_by.items()))
    return [
        ("jobs submitted", f"{report.submitted:,}, and sent again {report.resent:,} times"),
        ("jobs reported finished", f"{report.finished:,}, each once"),
        ("reports that came again", f"{report.repeated:,}"),
        ("dropped by the queue", f"{report.dropped:,}"),
        ("waiting in the queue", f"{report.peak_queued} at most, limit {report.queue_capacity}"),
        (
            "longest wait in it",
            f"{report.longest_wait_seconds:.2f} s; clients send again after {report.resend_seconds:.0f} s",
        ),
        ("sent again while they waited", f"{report.resent_too_early}"),
        ("longest from submission to report", f"{report.longest_seconds:.1f} s"),
        ("workers killed", f"{len(report.killed)}, and {report.given_again} jobs given to others"),
        ("jobs that were worked on twice", f"{report.worked_again}"),
        ("results by worker", by_start),
        ("remembered by the master", f"{report.peak_entries} jobs and results at most, limit {report.most_entries}"),
        ("growth of its memory", f"{report.growth_bytes:,} bytes"),
        *report.metrics,
    ]

"""What a run of the demo came to: checked, and for people."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from .client import ClientState
from .master import MasterState
from .metrics_checks import MetricsTruth, metrics_figures, metrics_problems
from .plan import RESEND_SECONDS, JobsSettings

MOST_GROWTH_BYTES = 32 << 20
"""The most by which the master's memory may grow; the unfinished jobs of a minute of overload would need more."""


@dataclass(frozen=True, kw_only=True)
class JobsReport:
    """What the processes said at their end, what was done to them, and what that comes to."""

    settings: JobsSettings
    seconds: float
    was_ended_early: bool
    clients: Sequence[ClientState]
    master: MasterState
    monitor: Mapping[str, object]
    truth: MetricsTruth
    growth_bytes: int
    """The growth of the master's memory."""
    kills: int

    @cached_property
    def facts(self) -> Mapping[str, Any]:
        """The numbers, by their names."""
        master, counts, clients = self.master, self.master.counts, self.clients
        return {
            "seconds": self.seconds,
            "was_ended_early": self.was_ended_early,
            "submitted": sum(client.submitted for client in clients),
            "finished": sum(client.finished for client in clients),  # reported, each counted once
            "resent": sum(client.resent for client in clients),
            "repeated": sum(client.repeated for client in clients),  # reports of what had been reported
            "dropped": counts.get("dropped", 0),
            "given_again": counts.get("given_again", 0),  # jobs of dead workers
            "worked_again": counts.get("repeated", 0),  # results of what was finished
            "killed": sorted(self.truth.killed),
            "queue_capacity": self.settings.queue_capacity,
            "peak_queued": master.peak_queued,
            "longest_wait_seconds": master.longest_wait_seconds,
            "resend_seconds": RESEND_SECONDS,
            "resent_too_early": counts.get("resent_too_early", 0),  # workers were slower than the queue's rule assumes
            "longest_seconds": max(client.longest_seconds for client in clients),
            "results_by": master.results_by,
            "peak_entries": master.peak_entries,
            "most_entries": self.settings.most_entries,
            "growth_bytes": self.growth_bytes,
            "metrics": metrics_figures(self.monitor, self.truth),
        }

    @cached_property
    def problems(self) -> Sequence[str]:
        """The failed checks."""
        return [*_problems(self), *metrics_problems(self.monitor, self.truth)]

    @property
    def holds(self) -> bool:
        """Did all checks pass?"""
        return not self.problems

    def as_json(self) -> dict[str, object]:
        """For programs."""
        return {**self.facts, "problems": self.problems, "holds": self.holds}


def _problems(run: JobsReport) -> list[str]:
    settings, master, clients, counts = run.settings, run.master, run.clients, run.master.counts
    submitted, finished = run.facts["submitted"], run.facts["finished"]
    wrong, work = sum(one.wrong for one in clients), sum(one.finished_work for one in clients)
    results, again = sum(master.results_by.values()), counts.get("repeated", 0)
    passed_over = counts.get("passed_over", 0)
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
    of = report.facts
    by_start = ", ".join(f"{start} {count:,}" for start, count in sorted(of["results_by"].items()))
    resend_seconds = f"{of['resend_seconds']:.0f} s"
    return [
        ("jobs submitted", f"{of['submitted']:,}, and sent again {of['resent']:,} times"),
        ("jobs reported finished", f"{of['finished']:,}, each once"),
        ("reports that came again", f"{of['repeated']:,}"),
        ("dropped by the queue", f"{of['dropped']:,}"),
        ("waiting in the queue", f"{of['peak_queued']} at most, limit {of['queue_capacity']}"),
        ("longest wait in it", f"{of['longest_wait_seconds']:.2f} s; clients send again after {resend_seconds}"),
        ("sent again while they waited", f"{of['resent_too_early']}"),
        ("longest from submission to report", f"{of['longest_seconds']:.1f} s"),
        ("workers killed", f"{len(of['killed'])}, and {of['given_again']} jobs given to others"),
        ("jobs that were worked on twice", f"{of['worked_again']}"),
        ("results by worker", by_start),
        ("remembered by the master", f"{of['peak_entries']} jobs and results at most, limit {of['most_entries']}"),
        ("growth of its memory", f"{of['growth_bytes']:,} bytes"),
        *of["metrics"],
    ]

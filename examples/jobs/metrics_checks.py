"""What must be true of the metrics of a run: what the monitor knew at the end, and what the processes say of it."""

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import cast

from .collecting import MonitorState


@dataclass(frozen=True, kw_only=True)
class MetricsTruth:
    """What processes and master know; incarnations are named as in ``w1#2``."""

    totals: Mapping[str, Mapping[str, int]]
    """The totals of the incarnations that ended well, as they said at their end."""
    results: Mapping[str, int] = field(default_factory=dict)
    """How many results of each incarnation the master took."""
    killed: Set[str] = frozenset()


def metrics_problems(final: Mapping[str, object], truth: MetricsTruth) -> list[str]:
    """The failed checks, a line for each; ``final`` is the last event of the monitor."""
    return [*_problems(cast("MonitorState", final), truth)]


def _problems(state: MonitorState, truth: MetricsTruth) -> Iterator[str]:
    limit = state["packets_per_second"]
    if state["peak_packets_per_second"] > limit:
        yield f"more than {limit:,} packets came to the monitor in a second"
    for start, totals in truth.totals.items():
        known = state["sources"].get(start, {})
        if known != totals:
            yield f"the monitor knows of {start} {dict(known)}, and not {dict(totals)}"
    for start in sorted(set(state["sources"]) - set(truth.totals) - truth.killed):
        yield f"the monitor knows of {start}, which did not run"
    for start in sorted(truth.killed):
        told, taken = _told(state, start), truth.results.get(start, 0)
        # The last result may have been on its way.
        if told > taken + 1:
            yield f"the monitor knows of {told:,} results of {start}, of which the master took {taken:,}"
    for name in sorted({_name(start) for start in truth.results}):
        taken = sum(count for start, count in truth.results.items() if _name(start) == name)
        if (known_results := state["results"].get(name, {}).get("results", 0)) != taken:
            yield f"the master told the monitor of {known_results:,} results of {name}, and took {taken:,}"


def metrics_figures(final: Mapping[str, object], truth: MetricsTruth) -> list[tuple[str, str]]:
    """The same as names and values, for people."""
    state = cast("MonitorState", final)
    packets = state["packets"]
    lost = {
        start: (max(0, truth.results.get(start, 0) - _told(state, start)), truth.results.get(start, 0))
        for start in sorted(truth.killed)
    }
    wrong = sum(state["sources"].get(start, {}) != totals for start, totals in truth.totals.items())
    rows = [
        ("metrics that the monitor has", f"{'NOT ' if wrong else ''}exact, of {len(truth.totals):,} processes"),
        (
            "packets to it in any second",
            f"{state['peak_packets_per_second']:,} at most, limit {state['packets_per_second']:,}",
        ),
        ("packets", f"{packets.get('arrived', 0):,}, {state['lost_on_purpose']:,} of them lost on purpose"),
    ]
    return rows + [
        (f"finished by {start}, which was killed", f"{taken:,}, {missing:,} of them not told to the monitor")
        for start, (missing, taken) in lost.items()
    ]


def _name(start: str) -> str:
    return start.partition("#")[0]


def _told(state: MonitorState, start: str) -> int:
    return state["sources"].get(start, {}).get("finished", 0)

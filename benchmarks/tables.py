"""Results as Markdown tables; documents take them from here, by name.  Most are the rows of a part as they are."""

from collections.abc import Callable, Iterator
from functools import partial

from benchmarks.curves import full_pipes
from benchmarks.jobs import PAYLOADS
from benchmarks.peers.way import find_ways
from benchmarks.results import Results, Row, table
from benchmarks.targets import judge
from permitflow import ChannelParameters


def rows_of(part: str, results: Results) -> str:
    return table(results.get(part))


def by_way(column: str, unit: str, results: Results) -> str:
    """One column of the throughput of all ways, by size."""
    cells = results.get("throughput")
    sizes = [name for name in PAYLOADS if any(cell["_payload"] == name for cell in cells)]
    tuned = {cell["_way"] for cell in cells if cell["_is_tuned"]}
    rows: dict[str, Row] = {}
    for cell in cells:
        # Those that were measured at their best have a row for the defaults as well.
        name = f"{cell['_way']}, defaults" if cell["_way"] in tuned and not cell["_is_tuned"] else cell["_way"]
        rows.setdefault(name, {unit: name, **dict.fromkeys(sizes)})[cell["_payload"]] = cell[column]
    return table([*rows.values()])


def defaults(results: Results) -> str:
    """The default window and batch beside the fastest of the curve: its throughput, and its costs."""
    return table([*_defaults(results, "windows", "row_permits"), *_defaults(results, "batches", "permit_batch")])


def _defaults(results: Results, part: str, number: str) -> Iterator[Row]:
    points, default = results.get(part), getattr(ChannelParameters(), number)
    for label in dict.fromkeys(point[""] for point in points):
        curve = [point for point in points if point[""] == label]
        fastest = max(curve, key=lambda point: point["chunks/s"].median)
        for point in (point for point in curve if point[number] == default):
            yield {
                "": f"{number}, {label}",
                "default": default,
                "of the fastest": f"{point['chunks/s'].median / fastest['chunks/s'].median:.0%}",
                "time on the way": f"{point['p50 ms, full']} ms",
                "the fastest has": fastest[number],
                "time on the way with it": f"{fastest['p50 ms, full']} ms",
            }


def machine(results: Results) -> str:
    """The machine, and how thoroughly it was measured."""
    facts = ", ".join(f"{name} {value}" for name, value in results.machine.items())
    by_rounds: dict[int, list[str]] = {}
    for part, count in results.rounds.items():
        by_rounds.setdefault(count, []).append(part)
    told = "; ".join(f"{count} round{'s' * (count > 1)} of {', '.join(parts)}" for count, parts in by_rounds.items())
    return f"{facts}. Measured: {told}."


def ways(_: Results) -> str:
    found = (way for _, way in find_ways()[0].values())
    return table([{"Way": way.name, "Group": str(way.group), "How": way.about} for way in found], others="---")


def verdicts(results: Results) -> str:
    return table(
        [
            {
                "Promise": verdict.promise,
                "found": verdict.found,
                "target": f"{'≤' if verdict.is_upper_limit else '≥'} {verdict.target:g}",
                "verdict": verdict.told,
            }
            for verdict in judge(results)
        ]
    )


# Parts of which the rows are a table.
PLAIN = (
    *("latency", "local", "stages", "spark"),
    *("windows", "batches", "delays", "stalled", "stores", "resuming", "lossy", "channels"),
)
TABLES: dict[str, Callable[[Results], str]] = {
    "machine": machine,
    "ways": ways,
    "throughput": partial(by_way, "chunks/s", "chunks/s, median (range)"),
    "processor": partial(by_way, "CPU s/GB", "CPU s/GB"),
    "memory": partial(by_way, "MiB", "MiB"),
    "settings": partial(by_way, "settings", "rows"),
    "defaults": defaults,
    "full_pipe": lambda results: table(full_pipes(results.get("delays"))),
    **{part: partial(rows_of, part) for part in PLAIN},
    "verdicts": verdicts,
}

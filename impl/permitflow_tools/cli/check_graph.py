"""``permitflow check graph FILE``: can the stages of a graph come to wait for each other?"""

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, NoReturn

from rich.table import Table

from permitflow.errors import counted
from permitflow_tools.cli.console import open_console, open_table, print_lines, print_table
from permitflow_tools.cli.outcomes import print_json, requires_extra, stop

if TYPE_CHECKING:
    from permitflow_tools.checking import GraphVerdict
    from permitflow_tools.parameters.graph import DescribedGraph

# More stages that hold something are not columns of the run's table.
_MOST_COLUMNS = 8
# Of a long run.
_FIRST_STEPS = 16
_LAST_STEPS = 16


def answer_for_graph(file: Path, described: "DescribedGraph", *, as_json: bool) -> NoReturn:
    """Decide, print the verdict and end the command."""
    blueprint = described.blueprint
    began = perf_counter()
    found = judged(described)
    seconds = perf_counter() - began
    holds = found.verdict == "live"
    if as_json:
        print_json({"file": str(file), "holds": holds, **graph_as_json(described, found), "seconds": round(seconds, 3)})
        stop(holds=holds)
    console = open_console()
    size = f"{counted(len(blueprint.stages), 'stage')}, {counted(len(blueprint.arcs), 'arc')}"
    print_lines(console, f"{found.verdict}: {file}: {size}", found.reason)
    if len(found.run) > 1:
        print_lines(
            console, "A shortest run into it:" if found.is_shortest else "A run into it; a shorter one may exist:"
        )
        print_table(console, _run_table(described, found))
    if found.advice:
        alone = ", each alone" if len(found.advice) > 1 else ""
        print_lines(console, f"What would help{alone}:", *(f"- {each}" for each in found.advice))
    print_lines(console, *(f"note: {note}" for note in found.notes))
    stop(holds=holds)


def judged(described: "DescribedGraph") -> "GraphVerdict":
    """The verdict; ends the command if it lacks a package."""
    from permitflow_tools.checking import check_graph

    with requires_extra("graphs"):  # which it loads late
        return check_graph(described.blueprint)


def graph_as_json(described: "DescribedGraph", found: "GraphVerdict") -> dict[str, object]:
    """The verdict for programs."""
    blueprint = described.blueprint
    return {
        "stages": list(blueprint.stages),
        "arcs": [str(arc) for arc in blueprint.arcs],
        "verdict": found.verdict,
        "reason": found.reason,
        "explored": found.explored or None,
        "ring": [{"stage": each.stage, "on": each.on, "why": each.why} for each in found.ring],
        "is_shortest": found.is_shortest if found.run else None,
        "run": [
            {
                "stage": step.stage or None,
                "text": step.text,
                "held": dict(zip(blueprint.stages, step.held, strict=True)),
                "arcs": [what or None for what in step.arcs],
            }
            for step in found.run
        ]
        or None,
        "advice": list(found.advice),
        "notes": list(found.notes),
    }


def _run_table(described: "DescribedGraph", found: "GraphVerdict") -> Table:
    """A line for each step, and a column for each stage that ever holds something."""
    names = list(described.blueprint.stages)
    holding = [number for number in range(len(names)) if any(step.held[number] for step in found.run)]
    shown = holding if len(holding) <= _MOST_COLUMNS else []
    columns = [names[number] for number in shown]
    table = open_table("step", "what happens", *columns, right=("step", *columns), wrap=("what happens",))
    count = len(found.run)
    # Of a very long run the verdict itself holds the beginning and the end.
    skipped = found.steps - (count - 1)
    rows = list(enumerate(found.run))
    first, last = rows[:_FIRST_STEPS], rows[max(_FIRST_STEPS, count - _LAST_STEPS) :]
    for number, step in first:
        table.add_row(str(number), step.text, *(f"{step.held[stage]:,}" for stage in shown))
    if left_out := found.steps + 1 - len(first) - len(last):
        table.add_row("\u2026", f"{left_out:,} more steps")
    for number, step in last:
        table.add_row(f"{number + skipped:,}", step.text, *(f"{step.held[stage]:,}" for stage in shown))
    return table

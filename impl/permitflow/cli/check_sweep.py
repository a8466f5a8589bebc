"""``permitflow check FILE --sweep``: a verdict for each combination of numbers."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from permitflow.cli.check_file import answer_for, described
from permitflow.cli.console import open_console, open_table
from permitflow.cli.outcomes import print_json, stop, unusable
from permitflow.cli.progress import late_progress
from permitflow.cli.sweep_rows import shown_value
from permitflow.errors import InvalidParametersError
from permitflow.simulation.sweep import Axis, Point, points

if TYPE_CHECKING:
    from permitflow.checking.deciding import Answer
    from permitflow.simulation.setting import Setting

__all__ = ["check_sweep"]

# Rates and delays change no verdict.
_NAMES = ("row_count", "batch", "max_chunk", "chunk_rows")
_MOST_POINTS = 2_000


def check_sweep(path: Path, axes: Sequence[Axis], *, as_json: bool) -> None:
    """Decide all combinations, print a table and end the command."""
    setting = described(path).setting
    for axis in axes:
        if axis.name not in _NAMES:
            unusable(f"--sweep: {axis.name} changes no verdict; vary {', '.join(_NAMES)}")
    combinations = list(points(axes))
    if len(combinations) > _MOST_POINTS:
        unusable(f"--sweep: {len(combinations):,} combinations are too many; the most is {_MOST_POINTS:,}")
    found: list[tuple[Point, Answer | None]] = []
    with late_progress(f"deciding {len(combinations):,} channels") as report:
        for point in combinations:
            found.append((point, _answer(setting, point)))
            report(len(found) / len(combinations))
    if as_json:
        print_json({"file": str(path), "points": [_as_json(point, answer) for point, answer in found]})
    else:
        _print([axis.name for axis in axes], found)
    stop(holds=all(answer is not None and answer.verdict == "live" for _, answer in found))


def _answer(setting: "Setting", point: Point) -> "Answer | None":
    """None where the combination cannot be."""
    try:
        return answer_for(point.applied_to(setting))
    except InvalidParametersError:
        return None


def _print(names: Sequence[str], found: "Sequence[tuple[Point, Answer | None]]") -> None:
    numbers = [*names, "largest cost", "live up to", "largest live batch"]
    table = open_table(*names, "verdict", *numbers[len(names) :], right=tuple(numbers))
    for point, answer in found:
        values = [shown_value(name, point.values[name]) for name in names]
        if answer is None:
            table.add_row(*values, "impossible: no room for any chunk")
            continue
        decision = answer.decision
        shown = (decision.max_cost, decision.safe_max_cost, decision.safe_batch)
        table.add_row(*values, answer.verdict, *(f"{number:,}" for number in shown))
    open_console().print(table)


def _as_json(point: Point, answer: "Answer | None") -> dict[str, object]:
    if answer is None:
        return {"varied": dict(point.values), "verdict": "impossible", "holds": False}
    return {
        "varied": dict(point.values),
        "verdict": answer.verdict,
        "holds": answer.verdict == "live",
        "max_cost": answer.decision.max_cost,
        "safe_max_cost": answer.decision.safe_max_cost,
        "safe_batch": answer.decision.safe_batch,
    }

"""``permitflow check`` without numbers: does every model of the manifest come out as it records?"""

import os
from collections import Counter
from collections.abc import Sequence
from contextlib import closing
from difflib import get_close_matches
from enum import StrEnum
from typing import TYPE_CHECKING

from permitflow.cli.console import open_console, open_progress, open_table, print_table
from permitflow.cli.outcomes import print_json, stop, unusable

if TYPE_CHECKING:
    from permitflow_model.tlc.check import ModelResult

__all__ = ["Engine", "check_models"]


class Engine(StrEnum):
    """Who checks."""

    EXPLORER = "explorer"
    """Breadth-first search over the model in Python."""

    TLC = "tlc"
    """TLA+'s own model checker, over the specification."""

    BOTH = "both"
    """Each for itself; and where the manifest asks for it, their state graphs must be equal."""


def check_models(engine: Engine | None, names: Sequence[str], *, as_json: bool) -> None:
    """Check the models, print the report and end the command."""
    from permitflow_model.manifest import find_spec_directory
    from permitflow_model.tlc.check import run_manifest

    models = _selected(names)
    engine, remark = _available(engine)
    parallel = min(4, os.cpu_count() or 1)
    outcomes: list[ModelResult] = []
    results = run_manifest(engine=engine.value, names=models, parallel=parallel, spec_directory=find_spec_directory())
    with open_progress() as progress, closing(results):
        task = progress.add_task("", total=len(models))
        for outcome in results:
            progress.update(task, description=outcome.model.name)
            outcomes.append(outcome)
            progress.advance(task)
    holds = all(outcome.ok for outcome in outcomes)
    if as_json:
        print_json({"engine": engine.value, "holds": holds, "models": [_as_json(outcome) for outcome in outcomes]})
    else:
        _print(outcomes, remark)
        if names:
            _print_counterexamples(outcomes)
    stop(holds=holds)


def _selected(names: Sequence[str]) -> list[str]:
    from permitflow_model.manifest import ManifestError, read_manifest

    try:
        models = read_manifest()
    except ManifestError as error:
        unusable(str(error))
    if unknown := [name for name in names if name not in models]:
        near = get_close_matches(unknown[0], models, n=3)
        advice = f"did you mean {' or '.join(near)}?" if near else "`permitflow check` lists them"
        unusable(f"--model: the manifest has no model {unknown[0]!r}; {advice}")
    return [name for name in models if not names or name in names]


def _available(wanted: Engine | None) -> tuple[Engine, str]:
    """The engine to use, and why; without TLC the explorer does what it can, unless TLC was asked for."""
    from permitflow_model.tlc import TlcNotFoundError, find_jar, find_java

    if wanted is Engine.EXPLORER:
        return wanted, "the explorer alone, as asked"
    try:
        find_java()
        find_jar()
    except TlcNotFoundError as error:
        if wanted is not None:
            unusable(f"--engine {wanted}: {error}")
        return Engine.EXPLORER, f"the explorer alone: {error}"
    return wanted or Engine.BOTH, "TLC" if wanted is Engine.TLC else "TLC and the explorer"


def _print(outcomes: "Sequence[ModelResult]", remark: str) -> None:
    console = open_console()
    console.print(f"models of the manifest, checked by {remark}", soft_wrap=True)
    table = open_table("model", "expected", "states", "depth", "checked by", "s", "", right=("states", "depth", "s"))
    for outcome in outcomes:
        table.add_row(
            outcome.model.name,
            str(outcome.model.expect),
            f"{outcome.model.states:,}",
            str(outcome.model.depth),
            _checkers(outcome),
            f"{sum(finding.seconds for finding in outcome.findings):.1f}" if outcome.is_checked else "",
            _verdict(outcome),
        )
    print_table(console, table)
    for outcome in outcomes:
        for problem in outcome.problems:
            console.print(f"{outcome.model.name}: {problem}", soft_wrap=True)
    console.print(_summary(outcomes))


def _print_counterexamples(outcomes: "Sequence[ModelResult]") -> None:
    from permitflow.cli.query_table import query_table
    from permitflow.cli.run_table import run_table
    from permitflow_model.permit_channel import State

    console = open_console()
    for outcome in outcomes:
        for run in (finding.counterexample for finding in outcome.findings if finding.counterexample):
            console.print(f"\n{outcome.model.name}: {outcome.model.reason}", soft_wrap=True)
            console.print(f"a shortest run into the violation of {run.invariant}:")
            table = run_table if isinstance(run.start, State) else query_table
            print_table(console, table(run.start, run.steps))


def _checkers(outcome: "ModelResult") -> str:
    between = ", " if outcome.graphs_equal is None else " = " if outcome.graphs_equal else " ≠ "
    return between.join(finding.engine for finding in outcome.findings)


def _summary(outcomes: "Sequence[ModelResult]") -> str:
    counts = Counter(map(_verdict, outcomes))
    text = f"{counts['ok']} as expected, {counts['differs']} differ"
    return f"{text}, {counts['needs TLC']} not checked: they need TLC" if counts["needs TLC"] else text


def _verdict(outcome: "ModelResult") -> str:
    if outcome.problems:
        return "differs"
    return "ok" if outcome.is_checked else "needs TLC"


def _as_json(outcome: "ModelResult") -> dict[str, object]:
    return {
        "name": outcome.model.name,
        "module": outcome.model.module,
        "reason": outcome.model.reason,
        "expect": str(outcome.model.expect),
        "states": outcome.model.states,
        "depth": outcome.model.depth,
        "findings": [
            {
                "engine": finding.engine,
                "verdict": None if finding.verdict is None else str(finding.verdict),
                "states": finding.states,
                "depth": finding.depth,
                "seconds": round(finding.seconds, 3),
            }
            for finding in outcome.findings
        ],
        "problems": list(outcome.problems),
    }

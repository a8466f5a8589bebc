"""``permitflow check`` without numbers or a file: all models of the specification."""

import os
from collections import Counter
from collections.abc import Sequence
from enum import StrEnum
from typing import TYPE_CHECKING, NoReturn

from permitflow.errors import counted
from permitflow_tools.cli.console import open_console, open_table, print_lines, print_table, run_table, tracked
from permitflow_tools.cli.options import chosen
from permitflow_tools.cli.outcomes import print_json, stop, unusable

if TYPE_CHECKING:
    from permitflow_model.tlc.check import ModelResult


class Engine(StrEnum):
    """Which program checks the models."""

    EXPLORER = "explorer"
    """Breadth-first search over the model in Python."""
    TLC = "tlc"
    """TLA+'s own model checker, over the specification."""
    BOTH = "both"
    """Both, separately; where the manifest asks for it, their state graphs must be equal."""


def check_models(engine: Engine | None, names: Sequence[str], *, as_json: bool) -> NoReturn:
    """Check the models of the manifest, print the report and end the command."""
    from permitflow_model.manifest import ManifestError, find_spec_directory, read_manifest
    from permitflow_model.tlc.check import run_manifest

    try:
        models = chosen("--model", names, read_manifest(), "model")
    except ManifestError as error:
        unusable(str(error))
    engine, remark = _available(engine)
    parallel = min(4, os.cpu_count() or 1)
    results = run_manifest(engine=engine.value, names=models, parallel=parallel, spec_directory=find_spec_directory())
    if not as_json:
        # First: all of them take many minutes, and who gave no numbers may have wanted to ask about a channel.
        instead = "" if names else "; for a channel of your own give its --row-permits, or a file"
        print_lines(
            open_console(), f"{counted(len(models), 'model')} of the specification, checked by {remark}{instead}"
        )
    outcomes = list(tracked(results, len(models), lambda outcome: outcome.model.name))
    holds = all(outcome.ok for outcome in outcomes)
    if as_json:
        print_json({"engine": engine.value, "holds": holds, "models": [_model_as_json(one) for one in outcomes]})
    else:
        _print_models(outcomes)
        if names:
            _print_counterexamples(outcomes)
    stop(holds=holds)


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


def _print_models(outcomes: "Sequence[ModelResult]") -> None:
    console = open_console()
    table = open_table("model", "expected", "states", "depth", "checked by", "s", "", right=("states", "depth", "s"))
    for outcome in outcomes:
        between = ", " if outcome.graphs_equal is None else " = " if outcome.graphs_equal else " ≠ "
        table.add_row(
            outcome.model.name,
            str(outcome.model.expect),
            f"{outcome.model.states:,}",
            str(outcome.model.depth),
            between.join(finding.engine for finding in outcome.findings),
            f"{sum(finding.seconds for finding in outcome.findings):.1f}" if outcome.is_checked else "",
            _verdict(outcome),
        )
    print_table(console, table)
    print_lines(console, *(f"{one.model.name}: {problem}" for one in outcomes for problem in one.problems))
    counts = Counter(map(_verdict, outcomes))
    unchecked = f", {counts['needs TLC']} not checked: they need TLC" if counts["needs TLC"] else ""
    console.print(f"{counts['ok']} as expected, {counts['differs']} differ{unchecked}")


def _verdict(outcome: "ModelResult") -> str:
    if outcome.problems:
        return "differs"
    return "ok" if outcome.is_checked else "needs TLC"


def _print_counterexamples(outcomes: "Sequence[ModelResult]") -> None:
    from permitflow_model.registry import system_of

    console = open_console()
    for outcome in outcomes:
        for run in (finding.counterexample for finding in outcome.findings if finding.counterexample):
            said = f"a shortest run into the violation of {run.invariant}:"
            print_lines(console, f"\n{outcome.model.name}: {outcome.model.reason}", said)
            found = system_of(outcome.model.module)
            assert found is not None, "only a model has found a run"
            print_table(console, run_table(found.system.module, run.start, run.steps))


def _model_as_json(outcome: "ModelResult") -> dict[str, object]:
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

"""``permitflow check`` without numbers: does every model of the manifest come out as it records?"""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from time import monotonic
from typing import TYPE_CHECKING

from permitflow.cli.console import open_console, open_progress, open_table
from permitflow.cli.outcomes import print_json, stop, unusable

if TYPE_CHECKING:
    from permitflow_model.compare import LabelledGraph
    from permitflow_model.kernel.explore import Violation
    from permitflow_model.manifest import Model
    from permitflow_model.permit_channel import State

__all__ = ["Engine", "check_models"]


class Engine(StrEnum):
    """Who checks."""

    EXPLORER = "explorer"
    """Breadth-first search over the model in Python."""

    TLC = "tlc"
    """TLA+'s own model checker, over the specification."""

    BOTH = "both"
    """Each for itself; and where the manifest asks for it, their state graphs must be equal."""


@dataclass(frozen=True, kw_only=True)
class Finding:
    """What one engine found about one model."""

    engine: Engine
    verdict: str
    states: int
    depth: int
    seconds: float
    graph: "LabelledGraph | None" = None
    counterexample: "Violation[State] | None" = None


@dataclass(frozen=True)
class Outcome:
    """One model, what was found, and what is wrong with that."""

    model: "Model"
    findings: tuple[Finding, ...]
    problems: tuple[str, ...]

    @property
    def is_checked(self) -> bool:
        """Did any engine check it?"""
        return bool(self.findings)


def check_models(engine: Engine | None, names: Sequence[str], *, as_json: bool) -> None:
    """Check the models, print the report and end the command."""
    models = _selected(names)
    engine, remark = _available(engine)
    outcomes: list[Outcome] = []
    with open_progress() as progress:
        task = progress.add_task("", total=len(models))
        for model in models:
            progress.update(task, description=model.name)
            outcomes.append(_check(model, engine))
            progress.advance(task)
    holds = not any(outcome.problems for outcome in outcomes)
    if as_json:
        print_json({"engine": engine.value, "holds": holds, "models": [_as_json(outcome) for outcome in outcomes]})
    else:
        _print(outcomes, remark)
        if names:
            _print_counterexamples(outcomes)
    stop(holds=holds)


def _selected(names: Sequence[str]) -> "list[Model]":
    from permitflow_model.manifest import ManifestError, read_manifest

    try:
        models = read_manifest()
    except ManifestError as error:
        unusable(str(error))
    if unknown := [name for name in names if name not in models]:
        near = get_close_matches(unknown[0], models, n=3)
        advice = f"did you mean {' or '.join(near)}?" if near else "`permitflow check` lists them"
        unusable(f"--model: the manifest has no model {unknown[0]!r}; {advice}")
    return [model for name, model in models.items() if not names or name in names]


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


def _check(model: "Model", engine: Engine) -> Outcome:
    from permitflow_model.compare import first_difference
    from permitflow_model.kernel.explore import StateLimitReached
    from permitflow_model.manifest import ManifestError
    from permitflow_model.tlc import TlcError

    try:
        findings = tuple(_findings(model, engine))
    except (ManifestError, StateLimitReached, TlcError) as error:
        return Outcome(model, (), (str(error),))
    problems = [
        f"{finding.engine}: {what} is {found}, the manifest says {expected}"
        for finding in findings
        for what, found, expected in (
            ("the verdict", finding.verdict, str(model.expect)),
            ("the number of states", finding.states, model.states),
            ("the depth", finding.depth, model.depth),
        )
        if found != expected
    ]
    graphs = [finding.graph for finding in findings if finding.graph is not None]
    if len(graphs) == 2 and (difference := first_difference(*graphs)) is not None:
        problems.append(difference)
    return Outcome(model, findings, tuple(problems))


def _findings(model: "Model", engine: Engine) -> Iterator[Finding]:
    from permitflow_model.exploration import is_explorable

    compare_graphs = engine is Engine.BOTH and model.graph
    if engine is not Engine.TLC and is_explorable(model):
        yield _explored(model, with_graph=compare_graphs)
    if engine is not Engine.EXPLORER:
        yield _checked_by_tlc(model, with_graph=compare_graphs)


def _explored(model: "Model", *, with_graph: bool) -> Finding:
    from permitflow_model.compare import graph_of_model
    from permitflow_model.exploration import explore_model

    start = monotonic()
    found = explore_model(model)
    return Finding(
        engine=Engine.EXPLORER,
        verdict=str(found.verdict),
        states=found.states,
        depth=found.depth,
        seconds=monotonic() - start,
        graph=graph_of_model(found.graph) if with_graph else None,
        counterexample=found.counterexample,
    )


def _checked_by_tlc(model: "Model", *, with_graph: bool) -> Finding:
    from permitflow_model.manifest import find_spec_directory
    from permitflow_model.tlc import run_tlc

    found = run_tlc(
        model.module,
        model.config(),
        spec_directory=find_spec_directory(),
        properties=model.properties,
        dump_graph=with_graph,
    )
    return Finding(
        engine=Engine.TLC,
        verdict=str(found.verdict),
        states=found.states,
        depth=found.depth,
        seconds=found.seconds,
        graph=found.graph,
    )


def _print(outcomes: Sequence[Outcome], remark: str) -> None:
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
    console.print(table)
    for outcome in outcomes:
        for problem in outcome.problems:
            console.print(f"{outcome.model.name}: {problem}", soft_wrap=True)
    console.print(_summary(outcomes))


def _print_counterexamples(outcomes: Sequence[Outcome]) -> None:
    from permitflow.cli.run_table import run_table

    console = open_console()
    for outcome in outcomes:
        for run in (finding.counterexample for finding in outcome.findings if finding.counterexample):
            console.print(f"\n{outcome.model.name}: {outcome.model.reason}", soft_wrap=True)
            console.print(f"a shortest run into the violation of {run.invariant}:")
            console.print(run_table(run.start, run.steps))


def _checkers(outcome: Outcome) -> str:
    has_graphs = sum(finding.graph is not None for finding in outcome.findings) == 2
    return (
        " = ".join(finding.engine for finding in outcome.findings)
        if has_graphs
        else ", ".join(finding.engine for finding in outcome.findings)
    )


def _summary(outcomes: Sequence[Outcome]) -> str:
    counts = Counter(map(_verdict, outcomes))
    text = f"{counts['ok']} as expected, {counts['differs']} differ"
    return f"{text}, {counts['needs TLC']} not checked: they need TLC" if counts["needs TLC"] else text


def _verdict(outcome: Outcome) -> str:
    if outcome.problems:
        return "differs"
    return "ok" if outcome.is_checked else "needs TLC"


def _as_json(outcome: Outcome) -> dict[str, object]:
    return {
        "name": outcome.model.name,
        "module": outcome.model.module,
        "reason": outcome.model.reason,
        "expect": str(outcome.model.expect),
        "states": outcome.model.states,
        "depth": outcome.model.depth,
        "findings": [
            {
                "engine": finding.engine.value,
                "verdict": finding.verdict,
                "states": finding.states,
                "depth": finding.depth,
                "seconds": round(finding.seconds, 3),
            }
            for finding in outcome.findings
        ],
        "problems": list(outcome.problems),
    }

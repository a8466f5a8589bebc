"""``permitflow prove``: the theorems, for all numbers."""

from difflib import get_close_matches
from textwrap import fill, indent
from typing import TYPE_CHECKING, Annotated

import typer

from permitflow.cli.console import open_console, open_progress
from permitflow.cli.outcomes import Json, print_json, requires_extra, stop, unusable

if TYPE_CHECKING:
    from permitflow_proofs import Theorem, Verdict

__all__ = ["prove"]


def prove(
    theorem: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Prove only this theorem; may be repeated.")
    ] = None,
    as_json: Json = False,
) -> None:
    """Prove the theorems about the protocol, for all row counts, batches and chunk sizes.

    The prover runs the model itself, the one that the tests and the explorer run, on symbolic numbers: nothing is
    restated in the logic of a solver. Each obligation has a twin, the same with one mistake, which must be refuted;
    and its premises must be possible. A proof that could not have failed counts as a failure.

    \b
      permitflow prove
      permitflow prove --theorem threshold
      permitflow prove --json

    Exit code 0: every theorem came out as the catalogue says (a false statement that others made is listed to be
    refuted). 1: one did not, or a twin survived. 2: unusable input.
    """
    with requires_extra("proofs"):
        from permitflow_proofs import prove as prove_theorem
    wanted = _selected(theorem or [])
    verdicts: list[Verdict] = []
    with open_progress() as progress:
        task = progress.add_task("", total=len(wanted))
        for one in wanted:
            progress.update(task, description=one.id)
            verdicts.append(prove_theorem(one))
            progress.advance(task)
    holds = all(verdict.is_as_expected for verdict in verdicts)
    if as_json:
        print_json({"holds": holds, "theorems": [_as_json(verdict) for verdict in verdicts]})
    else:
        _print(verdicts)
        if theorem:
            _print_runs(verdicts)
    stop(holds=holds)


def _selected(names: list[str]) -> "list[Theorem]":
    from permitflow_proofs import catalogue

    theorems = {theorem.id: theorem for theorem in catalogue()}
    if unknown := [name for name in names if name not in theorems]:
        near = get_close_matches(unknown[0], theorems, n=3)
        advice = f"did you mean {' or '.join(near)}?" if near else f"there are {', '.join(theorems)}"
        unusable(f"--theorem: there is no theorem {unknown[0]!r}; {advice}")
    return [theorem for name, theorem in theorems.items() if not names or name in names]


def _print(verdicts: "list[Verdict]") -> None:
    from permitflow_proofs.kernel.theorem import ALL_PARAMETERS

    console = open_console()
    widest = max(len(verdict.theorem.id) for verdict in verdicts)
    for verdict in verdicts:
        theorem = verdict.theorem
        outcome = (
            verdict.outcome if verdict.is_as_expected else f"{verdict.outcome.upper()}, EXPECTED {theorem.expected}"
        )
        console.print(
            f"{theorem.id:{widest}}  {outcome:8}  obligations {verdict.obligations:2}, twins failed "
            f"{verdict.twins_refuted:2}  {verdict.seconds:5.1f} s  {theorem.reference}",
            soft_wrap=True,
        )
        scope = "" if theorem.scope == ALL_PARAMETERS else f" ({theorem.scope}; {theorem.tool})"
        console.print(indent(fill(theorem.statement + scope, console.width - 8), "    "))
        for problem in verdict.problems():
            console.print(f"    PROBLEM: {problem}", soft_wrap=True)
    console.print(_summary(verdicts), soft_wrap=True)


def _summary(verdicts: "list[Verdict]") -> str:
    good = sum(verdict.is_as_expected for verdict in verdicts)
    obligations = sum(verdict.obligations for verdict in verdicts)
    twins = sum(verdict.twins_refuted for verdict in verdicts)
    return f"{good} of {len(verdicts)} theorems as stated; {obligations} obligations, {twins} twins failed as they must"


def _print_runs(verdicts: "list[Verdict]") -> None:
    from permitflow.cli.run_table import run_table

    console = open_console()
    for verdict in verdicts:
        run = verdict.counterexample.run if verdict.counterexample is not None else None
        if run is not None:
            console.print(f"\n{verdict.theorem.id}: a shortest run to a state in which it is false")
            console.print(run_table(run.start, run.steps))


def _as_json(verdict: "Verdict") -> dict[str, object]:
    return {
        "id": verdict.theorem.id,
        "statement": verdict.theorem.statement,
        "specification": verdict.theorem.reference,
        "scope": verdict.theorem.scope,
        "tool": verdict.theorem.tool,
        "expected": verdict.theorem.expected,
        "outcome": verdict.outcome,
        "as_expected": verdict.is_as_expected,
        "obligations": verdict.obligations,
        "twins_refuted": verdict.twins_refuted,
        "seconds": round(verdict.seconds, 3),
        "problems": verdict.problems(),
    }

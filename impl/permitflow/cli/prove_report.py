"""What ``permitflow prove`` reports: a table of theorems, by whom they are proved, and how long it took."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from permitflow.cli.console import open_console, open_table, print_table

if TYPE_CHECKING:
    from permitflow_proofs import Verdict
    from permitflow_proofs.kernel.theorem import Opinion

__all__ = ["as_json", "print_runs", "print_verdicts"]


def print_verdicts(verdicts: "list[Verdict]", seconds: float) -> None:
    """Print the table, then what went wrong, then how it went.

    ``seconds``: how long it took by the clock.
    """
    console = open_console()
    table = open_table(
        "theorem", "in words", "specification, scope", "solver", "verdict", "time", right=("time",), wrap=("in words",)
    )
    table.leading = 1  # a blank line between rows: most of them take several
    table.columns[2].no_wrap = False
    table.columns[2].max_width = 30
    for verdict in verdicts:
        theorem = verdict.theorem
        table.add_row(
            theorem.id,
            theorem.statement,
            f"{theorem.reference}\n{theorem.scope}",
            "\n".join(opinion.solver for opinion in verdict.opinions),
            "\n".join(_outcome(opinion, theorem.expected) for opinion in verdict.opinions),
            "\n".join(f"{opinion.seconds:.1f} s" for opinion in verdict.opinions),
        )
    print_table(console, table)
    for line in _problems(verdicts):
        console.print(line, soft_wrap=True)
    console.print(_summary(verdicts, seconds), soft_wrap=True)


def _outcome(opinion: "Opinion", expected: str) -> str:
    if opinion.outcome != expected:
        return f"{opinion.outcome.upper()}, EXPECTED {expected}"
    return f"{opinion.outcome}, BUT" if opinion.problems else opinion.outcome


def _problems(verdicts: "list[Verdict]") -> Iterator[str]:
    for verdict in verdicts:
        name = verdict.theorem.id
        for opinion in verdict.opinions:
            for problem in opinion.problems:
                yield f"PROBLEM: {name}, {opinion.solver}: {problem}"
        if not verdict.is_as_expected:
            yield f"  the questions, for any solver: permitflow prove --theorem {name} --export DIRECTORY"


def _summary(verdicts: "list[Verdict]", seconds: float) -> str:
    good = sum(verdict.is_as_expected for verdict in verdicts)
    obligations = sum(verdict.obligations for verdict in verdicts)
    twins = sum(verdict.twins_refuted for verdict in verdicts)
    solvers = dict.fromkeys(opinion.solver for verdict in verdicts for opinion in verdict.opinions)
    processor = sum(verdict.seconds for verdict in verdicts)
    return (
        f"{good} of {len(verdicts)} theorems as stated, by {', '.join(solvers)}; {obligations} obligations, {twins} "
        f"twins failed as they must; {seconds:.1f} s, {processor:.1f} s of processor time"
    )


def print_runs(verdicts: "list[Verdict]") -> None:
    """Print a shortest run into each refuted statement."""
    from permitflow.cli.run_table import run_table

    console = open_console()
    for verdict in verdicts:
        run = verdict.counterexample.run if verdict.counterexample is not None else None
        if run is not None:
            console.print(f"\n{verdict.theorem.id}: a shortest run to a state in which it is false")
            print_table(console, run_table(run.start, run.steps))


def as_json(verdict: "Verdict") -> dict[str, object]:
    """A theorem and what became of it, for programs; times are of the processor, in seconds."""
    return {
        "id": verdict.theorem.id,
        "statement": verdict.theorem.statement,
        "specification": verdict.theorem.reference,
        "scope": verdict.theorem.scope,
        "expected": verdict.theorem.expected,
        "outcome": verdict.outcome,
        "as_expected": verdict.is_as_expected,
        "solvers": [
            {
                "solver": opinion.solver,
                "outcome": opinion.outcome,
                "seconds": round(opinion.seconds, 3),
                "problems": list(opinion.problems),
            }
            for opinion in verdict.opinions
        ],
        "obligations": verdict.obligations,
        "twins_refuted": verdict.twins_refuted,
        "seconds": round(verdict.seconds, 3),
        "problems": verdict.problems(),
    }

"""``permitflow prove``: the theorems, for all numbers, by two solvers."""

import time
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from permitflow_tools.cli.console import open_console, open_table, print_lines, print_table, run_table, tracked
from permitflow_tools.cli.options import chosen, one_of, option, whole_number, writable
from permitflow_tools.cli.outcomes import Json, print_json, requires_extra, stop, unusable
from permitflow_tools.cli.output import is_special, write_files

if TYPE_CHECKING:
    from permitflow_proofs import Theorem, TheoremVerdict
    from permitflow_proofs.kernel.theorem import Opinion


class Solver(StrEnum):
    """Which solver proves."""

    Z3 = "z3"
    CVC5 = "cvc5"
    BOTH = "both"


def prove(
    theorem: Annotated[
        list[str] | None, typer.Option(metavar="ID", help="Prove only this theorem; may be repeated.")
    ] = None,
    solver: Annotated[
        Solver | None,
        option(
            one_of(Solver),
            "NAME",
            "Which one proves: z3, cvc5 or both. Default: both if cvc5 is installed, or else z3.",
        ),
    ] = None,
    jobs: Annotated[
        int | None,
        option(whole_number(least=1, most=1_000), "N", "Processes at once. Default: one for each processor."),
    ] = None,
    export: Annotated[
        Path | None,
        typer.Option(metavar="DIR", help="Prove nothing: write the questions for any solver there, as SMT-LIB."),
    ] = None,
    code: Annotated[bool, typer.Option("--code", help="Prove only the theorems about the running code.")] = False,
    picture: Annotated[
        Path | None,
        option(
            writable,
            "FILE",
            "Draw the first claim that is refuted, as SVG: the state, the call, what the code did, what the model "
            "does. Nothing is written if none is.",
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Prove the theorems about the protocol, for all numbers of row permits, all batches and all chunk sizes.

    The prover runs the model itself, the one that the tests and the explorer run, on symbolic numbers: nothing is
    restated in the logic of a solver. Each obligation has a twin, the same with one mistake, which must be refuted;
    and its premises must be possible. A proof that could not have failed counts as a failure.

    It runs the code, too: the guards and updates of the library, unchanged, in any state that stands for a state of the
    model. Each call must be what the model does there, and must be refused exactly where the model can do nothing.

    Z3 walks through the model and decides. cvc5 then gets all that Z3 claimed as text: that claims hold, that nothing
    was left out on the way, that premises are possible, that twins fail. Where it says something else, or cannot
    say, the theorem counts as not proved.

    \b
      permitflow prove
      permitflow prove --theorem threshold
      permitflow prove --code                                            the running code alone
      permitflow prove --code --picture refuted.svg                      a mistake in the code as a drawing
      permitflow prove --theorem threshold --export questions/           for a third solver
      permitflow prove --solver z3 --json

    Exit code 0: every theorem came out as the catalogue says (a false statement that others made is listed to be
    refuted). 1: one did not, a twin survived, or the solvers disagree. 2: unusable input. 130: interrupted.
    """
    with requires_extra("proofs"):
        import permitflow_proofs  # noqa: F401  # is it all there?
    if picture is not None and export is not None:
        unusable("--picture draws what is proved, and --export proves nothing; leave one of them away")
    if picture is not None and not is_special(picture) and picture.suffix.lower() != ".svg":
        unusable(f"--picture writes an SVG drawing, not {picture}: name a file .svg")
    wanted = _selected(theorem or [], code_only=code)
    if export is not None:
        _export(wanted, export)
        return
    started = time.monotonic()
    verdicts = _verdicts(wanted, _available(solver), jobs)
    seconds = time.monotonic() - started
    holds = all(verdict.is_as_expected for verdict in verdicts)
    if as_json:
        print_json({"holds": holds, "seconds": round(seconds, 3), "theorems": [_as_json(one) for one in verdicts]})
    else:
        _print_verdicts(verdicts, seconds)
        if theorem:
            _print_runs(verdicts)
    if picture is not None:
        _draw(verdicts, picture)
    stop(holds=holds)


def _selected(names: list[str], *, code_only: bool) -> "list[Theorem]":
    from permitflow_proofs.proving import CODE, MODELS, theorems_of

    theorems = {theorem.id: theorem for theorem in theorems_of(*(() if code_only else (MODELS,)), CODE)}
    return [theorems[name] for name in chosen("--theorem", names, theorems, "theorem")]


def _available(wanted: Solver | None) -> Solver:
    from permitflow_proofs.kernel import second_solver

    if second_solver.is_installed():
        return wanted or Solver.BOTH
    if wanted in (Solver.CVC5, Solver.BOTH):
        unusable(f"--solver {wanted}: cvc5 is not installed; install permitflow[proofs], or choose --solver z3")
    if wanted is None:
        typer.echo("cvc5 is not installed, so Z3 proves alone: install permitflow[proofs] for both.", err=True)
    return Solver.Z3


def _verdicts(wanted: "list[Theorem]", solver: Solver, jobs: int | None) -> "list[TheoremVerdict]":
    from concurrent.futures.process import BrokenProcessPool

    from permitflow_proofs.proving import CODE, MODELS, prove_catalogue

    names = [one.id for one in wanted]
    proved = prove_catalogue(names, solvers=solver.value, processes=jobs, catalogues=(MODELS, CODE))
    try:
        return list(tracked(proved, len(names), lambda verdict: verdict.theorem.id))
    except BrokenProcessPool:
        unusable("a process of the prover was killed, perhaps for want of memory; try --jobs 1")


def _export(wanted: "list[Theorem]", folder: Path) -> None:
    from permitflow_proofs.kernel.export import write_scripts

    try:
        count = sum(write_scripts(one, folder) for one in wanted)
    except OSError as error:
        unusable(f"--export {folder}: {error.strerror or error}; choose a directory that can be written to")
    typer.echo(f"{count} questions in {folder}; the first lines of each say what it asks and what must be answered")


def _print_verdicts(verdicts: "list[TheoremVerdict]", seconds: float) -> None:
    """Print the table, then what went wrong, then how it went; ``seconds`` are of the clock."""
    console = open_console()
    table = open_table(
        "theorem", "in words", "specification, given", "solver", "verdict", "time", right=("time",), wrap=("in words",)
    )
    table.leading = 1  # a blank line between rows: most of them take several
    table.columns[2].no_wrap = False
    table.columns[2].max_width = 30
    for verdict in verdicts:
        theorem = verdict.theorem
        table.add_row(
            theorem.id,
            theorem.statement,
            f"{theorem.reference}\n{verdict.given}",
            "\n".join(opinion.solver for opinion in verdict.opinions),
            "\n".join(_outcome(opinion, theorem.expected) for opinion in verdict.opinions),
            "\n".join(f"{opinion.seconds:.1f} s" for opinion in verdict.opinions),
        )
    print_table(console, table)
    for verdict in verdicts:
        name = verdict.theorem.id
        for opinion in verdict.opinions:
            print_lines(console, *(f"PROBLEM: {name}, {opinion.solver}: {problem}" for problem in opinion.problems))
        if not verdict.is_as_expected:
            questions = f"permitflow prove --theorem {name} --export DIR"
            print_lines(console, f"  the questions, for any solver: {questions}")
    print_lines(console, _summary(verdicts, seconds))


def _outcome(opinion: "Opinion", expected: str) -> str:
    if opinion.outcome != expected:
        return f"{opinion.outcome.upper()}, EXPECTED {expected}"
    return f"{opinion.outcome}, BUT" if opinion.problems else opinion.outcome


def _summary(verdicts: "list[TheoremVerdict]", seconds: float) -> str:
    good = sum(verdict.is_as_expected for verdict in verdicts)
    obligations = sum(verdict.obligations for verdict in verdicts)
    twins = sum(verdict.twins_refuted for verdict in verdicts)
    solvers = dict.fromkeys(opinion.solver for verdict in verdicts for opinion in verdict.opinions)
    processor = sum(verdict.seconds for verdict in verdicts)
    return (
        f"{good} of {len(verdicts)} theorems as stated, by {', '.join(solvers)}; {obligations} obligations, {twins} "
        f"twins failed as they must; {seconds:.1f} s, {processor:.1f} s of processor time"
    )


def _print_runs(verdicts: "list[TheoremVerdict]") -> None:
    """Print a shortest run into each refuted statement."""
    console = open_console()
    for verdict in verdicts:
        run = verdict.counterexample.run if verdict.counterexample is not None else None
        if run is not None:
            console.print(f"\n{verdict.theorem.id}: a shortest run to a state in which it is false")
            print_table(console, run_table(verdict.theorem.module, run.start, run.steps))


def _draw(verdicts: "list[TheoremVerdict]", file: Path) -> None:
    """Draw the first refuted claim of a theorem that should be proved."""
    from permitflow_tools.explain.looks.table import look_of
    from permitflow_tools.explain.refutation import refutation

    for verdict in verdicts:
        for found in verdict.examinations:
            shown, theorem = found.counterexample, verdict.theorem
            if shown is not None and theorem.expected == "proved":
                title = f"{theorem.id}: {found.name}"
                write_files({file: refutation(look_of(theorem.module), title, shown.values, shown.told)})
                return


def _as_json(verdict: "TheoremVerdict") -> dict[str, object]:
    """A theorem and what became of it, for programs; times are of the processor, in seconds."""
    return {
        "id": verdict.theorem.id,
        "statement": verdict.theorem.statement,
        "specification": verdict.theorem.reference,
        "given": verdict.given,
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

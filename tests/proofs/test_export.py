"""Another solver can check everything that Z3 claimed."""

from pathlib import Path

import pytest
import z3

from permitflow_proofs import catalogue
from permitflow_proofs.kernel.export import Script, export, write_scripts
from permitflow_proofs.kernel.obligation import decide
from permitflow_proofs.kernel.symbols import assume, integer, natural

NAMES = ["queue-sums", "row-bound", "threshold", "bounded-queue"]


def scripts_of(name: str) -> list[Script]:
    (theorem,) = [theorem for theorem in catalogue() if theorem.id == name]
    return list(export(theorem))


def test_a_condition_holds_the_pruned_sides_and_the_violations() -> None:
    def claim() -> bool:
        x, y = natural("x", 30), integer("y")
        assume(y > x)
        return y > 20 if x > 20 else y == 0

    text = decide(claim).must_hold().to_smtlib()
    assert text.startswith("(set-logic ALL)")
    assert text.rstrip().endswith("(check-sat)")
    solver = z3.Solver()
    solver.from_string(text)
    assert solver.check() == z3.unsat
    # Without the assumption on x, pruning its other side would be wrong: the condition shows it.
    solver = z3.Solver()
    solver.from_string(text.replace("30", "10"))
    assert solver.check() == z3.sat


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name == "bounded-queue" else ()) for name in NAMES]
)
def test_a_fresh_solver_agrees_on_each_script(name: str) -> None:
    scripts = scripts_of(name)
    assert {script.expected for script in scripts} == {"sat", "unsat"}
    for script in scripts:
        solver = z3.Solver()
        solver.from_string(script.text)
        assert str(solver.check()) == script.expected, script.obligation


def test_twins_and_premises_are_asked_for_by_themselves() -> None:
    (theorem,) = [theorem for theorem in catalogue() if theorem.id == "2014-right"]
    asked = [(script.about, script.expected) for script in export(theorem)]
    forks = [("forks", "unsat"), ("forks-twin", "sat")]
    assert asked == [("claim", "unsat"), *forks, ("premises", "sat"), ("twin", "sat")]
    (refuted,) = [theorem for theorem in catalogue() if theorem.id == "2014-sign"]
    asked = [(script.about, script.expected) for script in export(refuted)]
    assert asked == [("claim", "sat"), ("premises", "sat"), ("twin", "unsat")]


def test_each_question_is_a_file_that_says_what_must_be_answered(tmp_path: Path) -> None:
    (theorem,) = [theorem for theorem in catalogue() if theorem.id == "2014-where-true"]
    assert write_scripts(theorem, tmp_path / "new") == 10
    names = sorted(path.name for path in (tmp_path / "new").iterdir())
    abouts = ("claim", "forks-twin", "forks", "premises", "twin")
    assert names[:5] == [f"2014-where-true-01-{about}.smt2" for about in abouts]
    first, second = (tmp_path / "new" / names[0]).read_text(encoding="utf-8").splitlines()[:2]
    assert (first, second) == ("; 2014-where-true: the first (claim)", "; expected: unsat")


def test_an_explored_obligation_has_no_script() -> None:
    assert scripts_of("exact-response") == []

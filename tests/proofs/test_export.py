"""Another solver can check everything that Z3 claimed."""

import pytest
import z3

from permitflow_proofs import catalogue
from permitflow_proofs.kernel.export import Script, export
from permitflow_proofs.kernel.obligation import decide
from permitflow_proofs.kernel.symbols import assume, integer, natural

NAMES = ["queue-sums", "row-bound", "threshold", "bounded-queue", "exactly-once-in-order"]


def scripts_of(name: str) -> list[Script]:
    (theorem,) = [theorem for theorem in catalogue() if theorem.id == name]
    return list(export(theorem))


def test_a_condition_holds_the_pruned_sides_and_the_violations() -> None:
    def claim() -> bool:
        x, y = natural("x", 30), integer("y")
        assume(y > x)
        return y > 20 if x > 20 else y == 0

    text = decide(claim).to_smtlib()
    assert text.startswith("(set-logic ALL)")
    assert text.rstrip().endswith("(check-sat)")
    solver = z3.Solver()
    solver.from_string(text)
    assert solver.check() == z3.unsat
    # Without the assumption on x, pruning its other side would be wrong: the condition shows it.
    solver = z3.Solver()
    solver.from_string(text.replace("30", "10"))
    assert solver.check() == z3.sat


@pytest.mark.parametrize("name", NAMES)
def test_a_fresh_solver_agrees_on_each_script(name: str) -> None:
    scripts = scripts_of(name)
    assert {script.expected for script in scripts} == {"sat", "unsat"}
    for script in scripts:
        solver = z3.Solver()
        solver.from_string(script.text)
        assert str(solver.check()) == script.expected, script.obligation


@pytest.mark.parametrize("name", NAMES)
def test_a_second_solver_agrees_where_it_is_installed(name: str) -> None:
    cvc5 = pytest.importorskip("cvc5")
    for script in scripts_of(name):
        solver = cvc5.Solver(cvc5.TermManager())
        parser = cvc5.InputParser(solver)
        parser.setStringInput(cvc5.InputLanguage.SMT_LIB_2_6, script.text, script.obligation)
        answer = ""
        while not (command := parser.nextCommand()).isNull():
            answer += command.invoke(solver, parser.getSymbolManager())
        assert answer.strip() == script.expected, script.obligation


def test_what_the_explorer_checked_has_no_script() -> None:
    assert scripts_of("exact-response") == []

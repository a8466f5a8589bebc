"""A second solver checks everything that Z3 claims, and whatever it does not confirm counts as not proved."""

from collections.abc import Callable

import pytest
import z3

from permitflow_proofs import TheoremVerdict, prove
from permitflow_proofs.kernel import second_solver
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.symbols import assume, integer, natural
from permitflow_proofs.kernel.theorem import Theorem
from permitflow_proofs.kernel.trail import Trail

pytest.importorskip("cvc5")


def true() -> bool:
    x = natural("x", 1)
    return x + x > x if x > 5 else x < 6


def false() -> bool:
    x = natural("x", 1)
    return x != 5


def hard() -> bool:
    x, y, z = natural("x", 1), natural("y", 1), natural("z", 1)
    return x * x * x + y * y * y != z * z * z


def theorem(claim: Callable[[], bool], twin: Callable[[], bool] = false) -> Theorem:
    return Theorem(
        id="t",
        statement="Something.",
        module="PermitChannel",
        operator="Next",
        obligations=(SymbolicObligation("it", claim, twin, "a change"),),
    )


def outcomes(verdict: TheoremVerdict) -> dict[str, str]:
    return {opinion.solver: opinion.outcome for opinion in verdict.opinions}


def test_both_say_the_same_of_a_good_theorem() -> None:
    verdict = prove(theorem(true), "both")
    assert (verdict.outcome, verdict.is_as_expected, verdict.problems()) == ("proved", True, [])
    assert outcomes(verdict) == {"Z3": "proved", "cvc5": "proved"}
    (examined,) = verdict.examined
    assert [(answer.about, answer.given) for answer in examined.answers] == [
        ("claim", "unsat"),
        ("forks", "unsat"),
        ("forks-twin", "sat"),
        ("premises", "sat"),
        ("twin", "sat"),
    ]


def test_a_false_theorem_is_refuted_by_both() -> None:
    verdict = prove(theorem(false), "both")
    assert outcomes(verdict) == {"Z3": "refuted", "cvc5": "refuted"}
    assert "it: cvc5 says sat to the claim, not unsat" in verdict.problems()


def test_a_twin_that_does_not_fail_is_noticed_by_both() -> None:
    verdict = prove(theorem(true, true), "both")
    assert verdict.outcome == "proved"
    assert verdict.problems() == [
        "it: its twin did not fail, so the check could not have either",
        "it: cvc5 says unsat to the twin, not sat",
    ]


def test_premises_that_cannot_be_met_are_noticed_by_the_second_alone() -> None:
    def empty() -> bool:
        x = natural("x")
        assume(x < 0)
        return x == 42

    verdict = prove(theorem(empty), "cvc5")
    assert outcomes(verdict) == {"cvc5": "proved"}
    assert verdict.problems() == ["it: cvc5 says unsat to the premises, not sat"]


def test_the_second_solver_objects_to_what_z3_leaves_out(monkeypatch: pytest.MonkeyPatch) -> None:
    ask = Trail._ask

    def hasty(self: Trail, *terms: z3.BoolRef) -> tuple[bool, z3.ModelRef | None]:
        holds_for_five = [z3.substitute(term, (z3.Int("x"), z3.IntVal(5))) for term in terms]
        possible, witness = ask(self, *terms)
        return possible and not z3.is_true(z3.simplify(z3.And(holds_for_five))), witness

    def claim() -> bool:
        return integer("x") > 7

    monkeypatch.setattr(Trail, "_ask", hasty)
    verdict = prove(theorem(claim, twin=lambda: integer("y") > 7), "both")
    assert outcomes(verdict) == {"Z3": "proved", "cvc5": "refuted"}
    assert (verdict.outcome, verdict.is_as_expected) == ("unknown", False)
    assert verdict.problems() == ["it: cvc5 says sat to the claim, not unsat"]
    # What is left out wrongly is no way in which a twin fails.
    (opinion,) = prove(theorem(claim, twin=claim), "cvc5").opinions
    assert opinion.problems[1:] == ("it: cvc5 says unsat to the twin, not sat",)


def test_a_claim_that_the_second_solver_leaves_undecided_is_unknown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(second_solver, "_SOLVER_STEPS", 20_000)
    monkeypatch.setattr("permitflow_proofs.kernel.trail._SOLVER_STEPS", 20_000)
    verdict = prove(theorem(hard), "cvc5")
    assert (verdict.outcome, verdict.is_as_expected) == ("unknown", False)
    assert any("it: cvc5 says unknown" in problem for problem in verdict.problems())


@pytest.mark.parametrize("text", ["(set-logic ALL)(assert (p x))(check-sat)", "(set-logic ALL)(check-sat"])
def test_an_unreadable_question_gets_an_error(text: str) -> None:
    assert second_solver.answer(text).startswith("error: ")

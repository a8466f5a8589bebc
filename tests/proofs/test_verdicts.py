"""A verdict says when something is wrong: a false statement, an empty premise, a twin that does not fail."""

import gc
from collections.abc import Callable, Sequence
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from permitflow_model.permit_channel import SYSTEM, Parameters, State, conservation, held_by
from permitflow_proofs import Theorem, prove
from permitflow_proofs import __main__ as command
from permitflow_proofs.kernel.induction import ExhaustiveObligation, Refutation
from permitflow_proofs.kernel.obligation import Obligation, SymbolicObligation, decide
from permitflow_proofs.kernel.symbols import assume, integer, natural
from permitflow_proofs.permit_channel.arbitrary import CHANNEL

CATALOGUE = import_module("permitflow_proofs.catalogue")


def true() -> bool:
    return natural("x") + 1 > 0


def false() -> bool:
    return natural("x") != 5


def empty() -> bool:
    x = natural("x")
    assume(x < 0)
    return x == 7


def hard() -> bool:
    """Fermat's last theorem for cubes: beyond the solver."""
    x, y, z = (natural(name, 1) for name in "xyz")
    return x * x * x + y * y * y != z * z * z


def theorem(*obligations: Obligation, name: str = "t") -> Theorem:
    return Theorem(
        id=name, statement="Something.", module="PermitChannel", operator="Next", obligations=tuple(obligations)
    )


def obligation(claim: Callable[[], bool], twin: Callable[[], bool]) -> SymbolicObligation:
    return SymbolicObligation("it", claim, twin, "the opposite")


def test_a_good_theorem_has_no_problems() -> None:
    verdict = prove(theorem(obligation(true, false), obligation(true, false)))
    assert (verdict.outcome, verdict.is_as_expected, verdict.problems()) == ("proved", True, [])
    assert (verdict.obligations, verdict.twins_refuted) == (2, 2)
    assert verdict.counterexample is None
    assert verdict.examinations[0].twin_counterexample is not None
    assert dict(verdict.examinations[0].twin_counterexample.values) == {"x": 5}


def test_a_false_theorem_is_refuted_with_values() -> None:
    verdict = prove(theorem(obligation(true, false), obligation(false, false)))
    assert (verdict.outcome, verdict.is_as_expected) == ("refuted", False)
    assert str(verdict.counterexample) == "x=5"
    assert verdict.problems() == ["it: refuted (x=5)"]


def test_a_theorem_whose_premises_cannot_be_met_is_not_as_expected() -> None:
    verdict = prove(theorem(obligation(empty, false)))
    assert (verdict.outcome, verdict.is_as_expected) == ("proved", False)
    assert verdict.problems() == ["it: says nothing, its premises cannot be met"]


@pytest.mark.parametrize("twin", [true, empty])
def test_a_twin_that_does_not_fail_makes_the_check_worthless(twin: Callable[[], bool]) -> None:
    verdict = prove(theorem(obligation(true, twin)))
    assert (verdict.outcome, verdict.is_as_expected, verdict.twins_refuted) == ("proved", False, 0)
    assert verdict.problems() == ["it: its twin did not fail, so the check could not have either"]


@pytest.mark.parametrize("said", [(False, "why"), None, "yes"], ids=repr)
def test_a_claim_that_says_no_truth_value_is_refused(said: Any) -> None:
    with pytest.raises(TypeError, match="a claim must return whether it holds, not"):
        decide(lambda: said)


def test_an_undecided_claim_is_unknown_and_not_proved(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("permitflow_proofs.kernel.trail._SOLVER_STEPS", 20_000)
    verdict = prove(theorem(obligation(hard, false)))
    assert (verdict.outcome, verdict.is_as_expected) == ("unknown", False)


def test_premises_that_the_solver_cannot_meet_do_not_count_as_met(monkeypatch: pytest.MonkeyPatch) -> None:
    def beyond() -> bool:
        assume(not hard())
        return True

    monkeypatch.setattr("permitflow_proofs.kernel.trail._SOLVER_STEPS", 20_000)
    assert prove(theorem(obligation(beyond, false))).problems() == ["it: says nothing, its premises cannot be met"]


def test_an_examination_that_fails_leaves_the_garbage_collector_on() -> None:
    def interrupted() -> bool:
        assert not gc.isenabled()
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        prove(theorem(obligation(interrupted, false)))
    assert gc.isenabled()


def over(numbers: Sequence[int], limit: int) -> ExhaustiveObligation[int]:
    return ExhaustiveObligation(
        "all small", lambda: numbers, lambda n: n < limit, lambda n: n < limit - 1, "smaller", lambda n: {"n": n}
    )


def test_an_exhaustive_check_fails_in_the_case_that_fails() -> None:
    assert prove(theorem(over(range(5), 5))).is_as_expected
    verdict = prove(theorem(over(range(5), 3)))
    assert (verdict.outcome, str(verdict.counterexample)) == ("refuted", "n=3")
    assert prove(theorem(over((), 3))).problems() == [
        "all small: says nothing, its premises cannot be met",
        "all small: its twin did not fail, so the check could not have either",
    ]
    assert prove(theorem(over(range(3), 5))).twins_refuted == 0


def refutation(statement: Callable[[State, Parameters], bool]) -> Refutation[State, Parameters]:
    parameters = Parameters(row_permits=2, permit_batch=1, max_chunk_cost=2, sizes=(1, 2))
    return Refutation("false", statement, conservation, "conservation", CHANNEL.always, SYSTEM, parameters)


def test_a_false_statement_is_refuted_only_with_a_run_that_reaches_it() -> None:
    found = refutation(lambda state, _parameters: held_by(state.inbox).rows < 2).examine()
    assert (found.outcome, found.could_fail) == ("refuted", True)
    assert found.counterexample is not None
    assert found.counterexample.run is not None
    assert held_by(found.counterexample.run.end.inbox).rows == 2
    # Three rows at once fit the invariant of larger channels, but no run of this one.
    found = refutation(lambda state, _parameters: held_by(state.inbox).rows < 3).examine()
    assert found.outcome == "unknown"


def test_a_true_statement_is_not_refuted() -> None:
    assert refutation(conservation).examine().outcome == "unknown"


def catalogue_of(*theorems: Theorem) -> Callable[[], tuple[Theorem, ...]]:
    return lambda: theorems


def test_the_command_prints_a_line_for_each_theorem(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(CATALOGUE, "catalogue", catalogue_of(theorem(obligation(true, false), name="fine")))
    assert command.main([]) == 0
    assert capsys.readouterr().out.split()[:3] == ["ok", "fine", "proved"]
    assert command.main(["theorems", str(tmp_path / "T.md")]) == 0
    written = (tmp_path / "T.md").read_text(encoding="utf-8")
    assert "| `fine` | Something. | no model | `PermitChannel.tla:" in written
    assert command.main(["--z3", "theorems", str(tmp_path / "T.md"), "fi*"]) == 0
    assert (tmp_path / "T.md").read_text(encoding="utf-8") == written.replace("| 1 |", "| 1, Z3 alone |")
    assert command.main(["theorems", str(tmp_path / "T.md"), "unknown"]) == 2


def test_the_command_fails_and_writes_nothing_when_a_theorem_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    monkeypatch.setattr(CATALOGUE, "catalogue", catalogue_of(theorem(obligation(false, false), name="bad")))
    assert command.main(["theorems", str(tmp_path / "T.md")]) == 1
    assert "BAD bad" in capsys.readouterr().out
    assert not (tmp_path / "T.md").exists()


def test_symbols_of_one_name_are_told_apart() -> None:
    verdict = prove(theorem(obligation(lambda: integer("x") == integer("x"), false)))
    assert verdict.counterexample is not None
    assert set(verdict.counterexample.values) == {"x", "x!2"}

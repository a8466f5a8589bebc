"""The paths of a claim cover all cases, and a path that is lost is noticed, by both solvers."""

from collections.abc import Callable

import pytest
import z3

from permitflow_proofs import Theorem, prove
from permitflow_proofs.kernel.coverage import Leaf, Step, coverage
from permitflow_proofs.kernel.merging import LeftOut, Merge
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.symbols import assume, integer, merged, natural
from permitflow_proofs.kernel.trail import Trail

X, Y, Z = range(3)


def decided(condition: int, *, answer: bool = True) -> Step:
    return Step(condition, answer, True, z3.BoolVal(True))


def assumed(condition: int) -> Step:
    return Step(condition, True, False, z3.BoolVal(True))


WHOLE: tuple[Leaf, ...] = (
    (assumed(Z), decided(X), decided(Y)),
    (assumed(Z), decided(X), decided(Y, answer=False)),
    (assumed(Z), decided(X, answer=False)),
)


def test_forks_that_go_both_ways_cover_all_cases() -> None:
    assert coverage(WHOLE).is_complete


@pytest.mark.parametrize("lost", range(3))
def test_each_path_that_is_left_out_is_noticed(lost: int) -> None:
    assert not coverage((*WHOLE[:lost], *WHOLE[lost + 1 :])).is_complete


def test_an_assumption_excludes_what_it_says_and_nothing_else() -> None:
    """What is not X is excluded; what is X and not Y is left out."""
    assert coverage(((assumed(X), decided(Y)), (assumed(X), decided(Y, answer=False)))).is_complete
    assert not coverage(((assumed(X), decided(Y)), (decided(X, answer=False),))).is_complete


def theorem(claim: Callable[[], bool]) -> Theorem:
    obligation = SymbolicObligation("it", claim, lambda: False, "never")
    return Theorem(
        id="it", statement="It holds.", module="PermitChannel", operator="Conservation", obligations=(obligation,)
    )


def three_ways() -> bool:
    x = natural("x")
    if x < 3:
        return x < 4
    assume(x < 9)
    return x > 7 or x >= 3


def test_a_path_that_the_explorer_loses_is_noticed_by_both(monkeypatch: pytest.MonkeyPatch) -> None:
    assert prove(theorem(three_ways), "both").problems() == []
    backtrack = Trail.backtrack

    def hasty(self: Trail) -> bool:
        return backtrack(self) and len(self) < 4 and backtrack(self)

    monkeypatch.setattr(Trail, "backtrack", hasty)
    assert prove(theorem(three_ways), "both").problems() == [
        "it: its paths leave a case out, or it would not be noticed if they did",
        "it: cvc5 says sat to the forks, not unsat",
    ]


def test_an_answer_that_was_taken_for_known_is_asked_of_the_second(monkeypatch: pytest.MonkeyPatch) -> None:
    truth_of = Trail._truth_of

    def hasty(self: Trail, term: z3.BoolRef) -> bool | None:
        return True if term.sexpr() == "(<= x 3)" else truth_of(self, term)

    monkeypatch.setattr(Trail, "_truth_of", hasty)
    verdict = prove(theorem(lambda: bool(natural("x") <= 3)), "both")
    assert verdict.problems() == ["it: cvc5 says sat to the claim, not unsat"]


def test_a_case_that_a_merge_loses_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    def claim() -> bool:
        x = integer("x")
        return merged(lambda: x > 3 or x < 5)

    assert prove(theorem(claim)).problems() == []
    monkeypatch.setattr(Merge, "_turn", lambda _: False)
    with pytest.raises(LeftOut):
        prove(theorem(claim))

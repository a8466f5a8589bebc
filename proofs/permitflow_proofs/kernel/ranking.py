"""Ranks: why a protocol comes to rest.

A rank is a natural number of the state, or several of them in a row.  Each step that counts lowers it: the first number
that changes falls.  No other action raises it, but those that are excepted by name.  Until one of these comes there are
only finitely many steps that count; ``ranking_obligations`` shows that by induction over the number, and over how many
numbers there are.  With a single number there are no more such steps than it says.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.symbols import (
    all_of,
    any_of,
    assume,
    equal,
    function,
    implies,
    integer,
    natural,
    negated,
    operation,
    relation,
)

S = TypeVar("S")
P = TypeVar("P")

Number = Callable[[S, P], int]
"""One of a rank's numbers."""

_NOWHERE: Mapping[str, Any] = MappingProxyType({})
_FAR = 100


def comes_to_rest(
    subject: Subject[S, P],
    *rank: Number[S, P],
    steps: Collection[str] | None = None,
    unless: Collection[str] = (),
    within: Mapping[str, Subject[S, P]] = _NOWHERE,
    exactly: bool = False,
    twin_by: int = 2,
) -> tuple[SymbolicObligation, ...]:
    """There are only finitely many of these steps until one that is excepted, whatever comes between.

    Args:
        subject: the model, in any state that satisfies its invariant.
        rank: its numbers, the one that counts most first.
        steps: the actions that lower it; None: those of the protocol.
        unless: the actions that may raise it; all others do not.
        within: for an action, the subject with more members in focus.
        exactly: does each step take exactly one from the rank, which is a single number?
        twin_by: the twins say that each step takes this many at once.

    Raises:
        ValueError: an action is named that there is not, or that is one of the steps.
    """
    steps = subject.protocol_actions() if steps is None else steps
    actions = [action.name for action in subject.system.actions]
    if wrong := {*steps, *unless} - {*actions} | {*steps} & {*unless}:
        raise ValueError(f"{min(wrong)} is no action of {subject.system.module}, or lowers the rank and may raise it")
    others = [action for action in actions if action not in {*steps, *unless}]

    def lowers(action: str, by: int, exactly: bool) -> bool:
        return is_lower(rank, *within.get(action, subject).any_step(action), by=by, exactly=exactly)

    return (
        *(
            SymbolicObligation(
                action,
                partial(lowers, action, 1, exactly),
                partial(lowers, action, twin_by, exactly),
                f"by {twin_by} at once",
            )
            for action in actions
            if action in steps
        ),
        *(
            SymbolicObligation(
                f"{action} does not raise the rank",
                partial(lowers, action, 0, False),
                partial(lowers, action, _FAR, False),
                f"it lowers it by {_FAR}",
            )
            for action in others
        ),
        subject.holds_whenever_invariant(
            "the rank is never negative", partial(_is_at_least, rank, 0), partial(_is_at_least, rank, 1), "never 0"
        ),
    )


def is_lower(
    rank: Sequence[Number[S, P]], before: S, after: S, parameters: P, *, by: int = 1, exactly: bool = False
) -> bool:
    """Does the first number that changes fall by this at least, or by this exactly?  For 0: is the rank no higher?"""
    *first, last = rank
    for number in first:
        old, new = number(before, parameters), number(after, parameters)
        if new <= old - max(by, 1):
            return True
        # A sum over a family is compared with all earlier ones; so the next number is asked for only here.
        if new != old:
            return False
    expected, found = last(before, parameters) - by, last(after, parameters)
    return found == expected if exactly else found <= expected


def _is_at_least(rank: Sequence[Number[S, P]], least: int, state: S, parameters: P) -> bool:
    return all_of(number(state, parameters) >= least for number in rank)


# Steps that lower a rank end.


def _falls_by_its_steps(*, start: bool, wrong: int = 0) -> bool:
    """After n steps the number is lower by n at least; the mistake: by one more."""
    number, n = function("rank"), 0 if start else natural("n", 1)
    if not start:
        assume(number(n - 1) <= number(0) - (n - 1))
        assume(number(n) <= number(n - 1) - 1)
    return number(n) <= number(0) - n - wrong


def _has_few_steps(*, wrong: int = 0) -> bool:
    """So a number that is never negative was at least as large at first as there are steps."""
    number, n = function("rank"), natural("n")
    assume(all_of((number(n) <= number(0) - n, number(n) >= 0)))
    return n <= number(0) - wrong


class _Endless:
    """Ranks from which there is a run without end, if there are any: so there is one from the next rank of that run.

    A rank is one number, and the rest, which stands for all numbers behind.  The rest is from any order in which every
    set has a lowest: so have the natural numbers, and so has, by induction, any row of them.
    """

    def __init__(self) -> None:
        self.starts = relation("endless")
        self._next_number, self._next_rest = operation("next.number"), operation("next.rest")
        self._is_below, self._lowest = relation("below"), function("lowest")

    def is_none_below(self, bound: int, number: int, rest: int) -> bool:
        """The claim of the induction: no run without end starts where the number is below the bound."""
        return implies(all_of((number >= 0, number < bound)), negated(self.starts(number, rest)))

    def assume_lowest(self, number: int, rest: int) -> int:
        """One of the rests from which a run without end starts beside this number is the lowest, if there are any."""
        lowest = self._lowest(number)
        assume(implies(self.starts(number, rest), self.starts(number, lowest)))
        return lowest

    def assume_next(self, number: int, lowest: int, *, wrong: bool) -> tuple[int, int]:
        """Where the run goes from there; the mistake: the number may rise if the rest falls."""
        following, behind = self._next_number(number, lowest), self._next_rest(number, lowest)
        falls = all_of((following >= 0, following < number))
        rest_falls = all_of((wrong or equal(following, number), self._is_below(behind, lowest)))
        goes_on = all_of((any_of((falls, rest_falls)), self.starts(following, behind)))
        assume(implies(self.starts(number, lowest), goes_on))
        # Nothing below the lowest one starts such a run.
        assume(negated(all_of((self._is_below(behind, lowest), self.starts(number, behind)))))
        return following, behind


def _is_no_rank_endless(*, start: bool, wrong: bool = False) -> bool:
    """No run without end starts where the first number is 0, or below n and so below n + 1."""
    endless, number, rest = _Endless(), integer("number"), integer("rest")
    n = 0 if start else natural("n", 1)
    lowest = endless.assume_lowest(number, rest)
    following, behind = endless.assume_next(number, lowest, wrong=wrong)
    assume(endless.is_none_below(n, number, rest))
    assume(endless.is_none_below(n, following, behind))
    return endless.is_none_below(n + 1, number, rest)


def ranking_obligations() -> tuple[SymbolicObligation, ...]:
    """Steps that lower a rank end."""
    starts = (("no step", True), ("one step more", False))
    bounds = (("first number 0", True), ("first number one higher", False))
    return (
        *(
            SymbolicObligation(
                f"a number falls by one in each step: {part}",
                partial(_falls_by_its_steps, start=start),
                partial(_falls_by_its_steps, start=start, wrong=1),
                "by one more",
            )
            for part, start in starts
        ),
        SymbolicObligation(
            "no more steps than the number at first", _has_few_steps, partial(_has_few_steps, wrong=1), "one step fewer"
        ),
        *(
            SymbolicObligation(
                f"one number more before those whose runs end: {part}",
                partial(_is_no_rank_endless, start=start),
                partial(_is_no_rank_endless, start=start, wrong=True),
                "it may rise where a later one falls",
            )
            for part, start in bounds
        ),
    )

"""What a proof may assume of its own queues: laws of sums, and dead ends of folds.

``queue_facts`` shows why: what holds for no items, and for one item more, holds for every queue.
"""

from collections.abc import Callable
from typing import Any, TypeVar

from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.queue import Law, Single, Sums
from permitflow_proofs.kernel.symbols import any_like, assume, assuming, equal, integer

__all__ = ["dead_end_obligation", "law_obligations"]

T = TypeVar("T")
V = TypeVar("V")
P = TypeVar("P")


class _Nothing:
    """The sums over no items."""

    def size(self) -> int:
        return 0

    def sum_of(self, measure: Callable[[Any], V], plus: Callable[[V, V], V], nothing: V) -> V:
        return nothing


class _Some:
    """The sums over some items, whatever they are."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._size = integer(f"{name}.size")
        self._sums: dict[Callable[[Any], Any], Any] = {}

    def size(self) -> int:
        return self._size

    def sum_of(self, measure: Callable[[Any], V], plus: Callable[[V, V], V], nothing: V) -> V:
        if measure not in self._sums:
            self._sums[measure] = any_like(nothing, f"{self._name}.{measure.__name__}")
        value: V = self._sums[measure]
        return value


class _Both:
    """The sums over two lots of items together."""

    def __init__(self, left: Sums, right: Sums) -> None:
        self._left = left
        self._right = right

    def size(self) -> int:
        return self._left.size() + self._right.size()

    def sum_of(self, measure: Callable[[Any], V], plus: Callable[[V, V], V], nothing: V) -> V:
        return plus(self._left.sum_of(measure, plus, nothing), self._right.sum_of(measure, plus, nothing))


def _never_negative(law: Law, sums: Sums) -> bool:
    return law(sums) >= 0


def _exactly_one(law: Law, sums: Sums) -> bool:
    return law(sums) == 1


def _kept_by_adding(law: Law, holds: Callable[[Law, Sums], bool]) -> bool:
    left, right = _Some("left"), _Some("right")
    with assuming():
        assume(holds(law, left))
        assume(holds(law, right))
    return holds(law, _Both(left, right))


def law_obligations(
    name: str, law: Callable[[], Law], lawful_item: Callable[[], Any], any_item: Callable[[], Any] | None = None
) -> tuple[SymbolicObligation, ...]:
    """A queue of lawful items may assume this law for its sums.

    ``law`` makes it, with its symbols; ``any_item`` makes items that are not known to be lawful, and need not obey;
    None: every item obeys.
    """
    too_much = "exactly one instead of never negative"
    return (
        SymbolicObligation(
            f"{name}: for no items",
            lambda: _never_negative(law(), _Nothing()),
            lambda: _exactly_one(law(), _Nothing()),
            too_much,
        ),
        SymbolicObligation(
            f"{name}: kept by adding",
            lambda: _kept_by_adding(law(), _never_negative),
            lambda: _kept_by_adding(law(), _exactly_one),
            too_much,
        ),
        SymbolicObligation(
            f"{name}: for each item",
            lambda: _never_negative(law(), Single(lawful_item())),
            lambda: (
                _never_negative(law(), Single(any_item())) if any_item else _exactly_one(law(), Single(lawful_item()))
            ),
            "the item is not known to be in its range" if any_item else too_much,
        ),
    )


def dead_end_obligation(
    follow: Callable[[V, T, P], V],
    dead_end: V,
    lawful_item: Callable[[P], T],
    any_item: Callable[[], T],
    any_parameters: Callable[[], P],
) -> SymbolicObligation:
    """A queue of lawful items may assume that this value is a dead end of the fold."""

    def leads_nowhere(make: Callable[[P], T]) -> bool:
        parameters = any_parameters()
        return equal(follow(dead_end, make(parameters), parameters), dead_end)

    return SymbolicObligation(
        f"{dead_end} is a dead end of {follow.__name__}",
        lambda: leads_nowhere(lawful_item),
        lambda: leads_nowhere(lambda _parameters: any_item()),
        "the item is not known to be in its range",
    )

"""A proved claim once more, with numbers in place of symbols: a function may ask what a value is, not what it is worth.

``isinstance``, ``is`` and ``str`` answer otherwise for symbols than for numbers, and nobody hears the question.  So
each path is walked again with some values that lead there.  A claim about queues, families or functions is left out: of
these there are no values; so is one about no model.
"""

import random
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple, TypeVar, cast

import z3

from permitflow_model.kernel.system import Disabled
from permitflow_proofs.kernel.paths import Beginning, Explorer, Path
from permitflow_proofs.kernel.terms import Condition
from permitflow_proofs.kernel.trail import Contradiction

_DRAWN = 8
"""So many values are drawn for each path."""
_SMALL = 4
"""Below this, where there are such."""

R = TypeVar("R")

Values = Mapping[str, int | bool | str]


class NoNumbers(BaseException):
    """It is about something of which there are no values.

    No ``Exception``, so that nothing in a model can swallow it.
    """


class _Known(NamedTuple):
    """A condition whose truth is known."""

    term: z3.BoolRef


class _NoNotes(dict[object, Mapping[Any, Any]]):
    """What queues and families know: nothing is known of them here."""

    def get(self, *_: object) -> Any:
        raise NoNumbers


class Replay(Explorer):
    """One walk, on which each symbol has a value."""

    def __init__(self, values: Values) -> None:
        """``values`` of the symbols, by name."""
        super().__init__()
        self._values = values
        self._merges_within = 0
        self.notes = _NoNotes()

    @property
    def is_checking(self) -> bool:
        """Nothing forks."""
        return False

    def stand_for(self, name: str, symbol: object) -> Any:
        """Its value.

        Raises:
            NoNumbers: it has none, or is made where symbols are made on both sides of a fork, and counted on both.
        """
        if self._merges_within or name not in self._values:
            raise NoNumbers
        return self._values[name]

    def decide(self, condition: Condition) -> bool:
        """Its truth.

        Raises:
            NoNumbers: it depends on something else.
        """
        term = z3.simplify(condition.term)
        if not z3.is_true(term) and not z3.is_false(term):
            raise NoNumbers
        return bool(z3.is_true(term))

    knows = decide

    def assume(self, condition: Condition) -> None:
        """Go on only where it holds.

        Raises:
            Contradiction: it does not.
            TypeError: a function of the model assumes it, of which nobody would be told.
        """
        if self.is_of_model:
            raise TypeError("an action, a beginning or an invariant assumes nothing; a guard is `require`")
        self.limit(condition)

    def limit(self, condition: Condition) -> None:
        """Likewise."""
        if not self.decide(condition):
            raise Contradiction

    def merge(self, function: Callable[[], Condition | bool], given: Condition | None = None) -> Condition:
        """What it returns."""
        if given is not None and not self.decide(given):
            return _Known(z3.BoolVal(False))
        self._merges_within += 1
        try:
            return _Known(z3.BoolVal(bool(function())))
        finally:
            self._merges_within -= 1

    def begin(self, beginning: Beginning[R]) -> R:
        """Made anew."""
        return beginning.make()


def require_same_of_numbers(claim: Callable[[], bool], path: Path[Any]) -> bool:
    """A claim about a model that holds on a path must hold of numbers that lead there; are there any?

    Raises:
        TypeError: it does not.
    """
    if not path.premises.parameters:
        return False
    try:
        for values in _values_on(path):
            _require_it_holds(claim, values)
    except NoNumbers:
        return False
    return True


def _require_it_holds(claim: Callable[[], bool], values: Values) -> None:
    of = ", ".join(f"{name}={value}" for name, value in sorted(values.items()))
    with Replay(values).as_current():
        try:
            if claim():
                return
        except (Disabled, Contradiction):
            pass
        except Exception as error:
            raise TypeError(f"true of symbols, but with numbers ({of}): {type(error).__name__}: {error}") from error
    raise TypeError(
        f"true of symbols, and false of numbers ({of}): some function asks what a value is, as isinstance, `is` and "
        "str do, or remembers something; let it compare and calculate alone"
    )


def _values_on(path: Path[Any]) -> Iterator[Values]:
    """Values that lead there: those that the solver has found, and small ones, which are near the limits."""
    yield path.values()
    drawn = random.Random(0)
    solver = z3.SimpleSolver()
    solver.add(*path.conditions)
    for _ in range(_DRAWN):
        solver.push()
        for name, value in path.values().items():
            wish = drawn.randrange(2) == 0 if isinstance(value, bool) else drawn.randrange(_SMALL)
            wished = _is_worth(name, wish)
            if solver.check(wished) == z3.sat:
                solver.add(wished)
        if solver.check() == z3.sat:
            witness = solver.model()
            yield {name: read(witness, name) for name, read in path.readers.items()}
        solver.pop()


def _is_worth(name: str, value: int | bool) -> z3.BoolRef:
    symbol = z3.Bool(name) if isinstance(value, bool) else z3.Int(name)
    return cast(z3.BoolRef, symbol == value)

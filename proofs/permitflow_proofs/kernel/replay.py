"""A proved claim once more, with numbers in place of symbols: a function may ask what a value is, not what it is worth.

``isinstance``, ``is`` and ``str`` answer otherwise for symbols than for numbers, and nobody hears the question.  So
each path is walked again with values that lead there, and with some beside them.  A claim about queues, families or
functions is left out: of these there are no values; so is one about no model, or about code.
"""

import random
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from typing import Any, NamedTuple, TypeVar

import z3

from permitflow_model.kernel.system import Disabled
from permitflow_proofs.kernel.paths import Beginning, Explorer, Path
from permitflow_proofs.kernel.terms import Condition
from permitflow_proofs.kernel.trail import Contradiction

_BESIDE = 24
"""So many values are drawn beside those of a path."""
_MOST_PATHS = 20
"""So many paths are walked again."""
_AWAY = (0, 0, 1, 1, 2, -1)

R = TypeVar("R")

Values = Mapping[str, int | bool | str]


class NoNumbers(BaseException):
    """It is about something of which there are no values.

    No ``Exception``, so that nothing in a model can swallow it.
    """


class _Known(NamedTuple):
    """A condition whose truth is known."""

    term: z3.BoolRef


_TRUTH = {truth: _Known(z3.BoolVal(truth)) for truth in (False, True)}


class _NoNotes(dict[object, Mapping[Any, Any]]):
    """What queues and families know: nothing is known of them here."""

    def get(self, *_: object) -> Any:
        raise NoNumbers


class Replay(Explorer):
    """Walks on which each symbol has a value."""

    def __init__(self, claim: Callable[[], bool]) -> None:
        """Walk along this claim."""
        super().__init__()
        self._claim = claim
        self._values: Values = {}
        self._merges_within = 0

    def require_same(self, paths: Iterable[Path[Any]]) -> None:
        """The claim, which holds on all its paths, must hold of numbers that lead there.

        Raises:
            TypeError: it does not.
        """
        try:
            for path in islice((path for path in paths if path.premises.parameters), _MOST_PATHS):
                values = path.values()
                if not self._holds_of(values):
                    raise _differs(values)
                for beside in _beside(values):
                    if self._holds_of(beside) is False:
                        raise _differs(beside)
        except NoNumbers:
            return

    def _holds_of(self, values: Values) -> bool | None:
        """Does the claim hold of these numbers?  None if it is not about them."""
        self._names = {}
        self.notes = _NoNotes()
        self._values, self._merges_within = values, 0
        with self.as_current():
            try:
                return bool(self._claim())
            except (Disabled, Contradiction):
                return None
            except Exception as error:
                raise TypeError(f"true of symbols, but {_of(values)}: {type(error).__name__}: {error}") from error

    # As symbolic values see it.

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

    def need_symbols(self) -> None:
        """There are none.

        Raises:
            NoNumbers: always.
        """
        raise NoNumbers

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
            return _TRUTH[False]
        self._merges_within += 1
        try:
            return _TRUTH[bool(function())]
        finally:
            self._merges_within -= 1

    def begin(self, beginning: Beginning[R]) -> R:
        """Made anew."""
        return beginning.make()


def _beside(values: Values) -> Iterator[Values]:
    """Values near these, of which some lead elsewhere, or nowhere."""
    drawn = random.Random(0)
    for _ in range(_BESIDE):
        yield {name: _near(value, drawn.choice(_AWAY)) for name, value in values.items()}


def _near(value: int | bool | str, away: int) -> int | bool | str:
    if isinstance(value, str) or not away:
        return value
    return not value if isinstance(value, bool) else value + away


def _of(values: Values) -> str:
    told = ", ".join(f"{name}={value}" for name, value in sorted(values.items()))
    return f"with numbers ({told})"


def _differs(values: Values) -> TypeError:
    return TypeError(
        f"true of symbols, but not {_of(values)}: some function asks what a value is, as isinstance, `is` and str do, "
        "or remembers something; let it compare and calculate alone"
    )

"""A run of chunks of any number, in place of the list that the code gets; and a rule for the loops over it.

A ``Batch`` knows the rows of each chunk, and sums over the first n, as functions of a number.  What ``sum``,
``min`` and ``max`` say of it is tied to these where it is looked at: each fact is one that holds of every list, by
induction on its last chunk (the claims are beside those about the code that has such loops).

A loop of the code is not unrolled.  It is cut, by Hoare's rule: the loop's invariant holds where the loop begins; from
any values of its variables that satisfy the invariant, one turn leads to such values again; and behind the loop they
satisfy it for the last chunk.  For that the stand-in sets variables of the running function, which a debugger can, too:
those only that the code has set itself, to values that it must come to itself in each turn.  A turn changes nothing of
which the invariant does not tell.
"""

import ctypes
import dis
import sys
from bisect import bisect_left
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from itertools import accumulate
from types import FrameType
from typing import Any, NoReturn

from permitflow_proofs.kernel.indexed import own
from permitflow_proofs.kernel.symbols import (
    Integer,
    all_of,
    any_of,
    equal,
    function,
    implies,
    integer,
    larger_of,
    limit,
    natural,
    predicate,
    smaller_of,
)
from permitflow_proofs.kernel.trail import Contradiction


class InvariantBroken(Exception):
    """The loop's variables do not satisfy its invariant, or it does not tell of one that a turn changes."""


class Invariant:
    """What the variables of a loop are after this many turns, and what else holds then."""

    def __init__(
        self, variables: Callable[[int], Mapping[str, Any]], holds: Callable[[int], bool] = lambda _: True
    ) -> None:
        """Both of the number of turns."""
        self.variables = variables
        self.holds = holds

        self._rest: Rest | None = None

    def establish(self, frame: FrameType, turns: int) -> None:
        """Require that it holds before the loop; then let it be as after this many turns.

        Raises:
            InvariantBroken: it does not hold.
        """
        self._require(frame, 0)
        limit(self.holds(turns))
        values = self.variables(turns)
        self._rest = Rest(frame, values)
        set_variables(frame, values)

    def end_turn(self, frame: FrameType, turns: int) -> NoReturn:
        """Require that it holds after this many turns, of which this was the last; the next one is like this one.

        Raises:
            InvariantBroken: it does not hold, or something has changed of which it does not tell.
            Contradiction: it holds.
        """
        self._require(frame, turns)
        if self._rest is None or self._rest.is_changed(frame):
            raise InvariantBroken
        raise Contradiction

    def _require(self, frame: FrameType, turns: int) -> None:
        found = dict(frame.f_locals)
        expected = self.variables(turns)
        if not all_of([*(equal(found[name], value) for name, value in expected.items()), self.holds(turns)]):
            raise InvariantBroken


class Rest:
    """What is there before a loop, and of which its invariant does not tell: no turn may change it.

    It is of the local variables of the function that is running, and of the fields of its object.
    """

    def __init__(self, frame: FrameType, told: Container[str]) -> None:
        """``told``: the names of those of which the invariant tells; of fields, as ``self.field``."""
        self._values = {name: value for name, value in _at_hand(frame).items() if name not in told}

    def is_changed(self, frame: FrameType) -> bool:
        """Has one another value now?"""
        found = _at_hand(frame)
        return any(found.get(name, self) is not value for name, value in self._values.items())


def require_statement(frame: FrameType) -> None:
    """Only a ``for`` goes over what stands for any number of items: ``enumerate`` would count the few that are shown.

    Raises:
        TypeError: something else does.
    """
    if dis.opname[frame.f_code.co_code[frame.f_lasti]] != "GET_ITER":
        raise TypeError(f"{frame.f_code.co_name} goes over any number of items by something else than a for statement")


def _at_hand(frame: FrameType) -> Mapping[str, object]:
    own = frame.f_locals.get("self")
    slots = [name for kind in type(own).__mro__ for name in vars(kind).get("__slots__", ()) if hasattr(own, name)]
    fields = {name: getattr(own, name) for name in (*slots, *getattr(own, "__dict__", ()))}
    return {**frame.f_locals, **{f"self.{name}": value for name, value in fields.items()}}


def set_variables(frame: FrameType, values: Mapping[str, Any]) -> None:
    """Give a running function's local variables these values."""
    frame.f_locals.update(values)
    if sys.version_info < (3, 13):
        ctypes.pythonapi.PyFrame_LocalsToFast(ctypes.py_object(frame), ctypes.c_int(0))


class Batch:
    """Any number of chunks, at least one: the rows of each."""

    def __init__(
        self,
        name: str,
        cost_of: Callable[[int], int],
        most_cost: int,
        *,
        invariant: Invariant | None = None,
        whole: int = 0,
    ) -> None:
        """``cost_of``: the model's; ``most_cost``: above this many rows it is no longer the number of rows.

        ``invariant``: of a loop over the chunks; ``whole``: what is returned at once.
        """
        self.count = natural(f"{name}.count", 1)
        self.least, self.most = integer(f"{name}.least"), integer(f"{name}.most")
        prefix = own(f"{name}.")
        self.rows, self._sums, self.costs = (function(f"{prefix}{what}") for what in ("rows", "sums", "costs"))
        self.fit = predicate(f"{prefix}fit")
        """Are the first n all within the range?"""
        self._cost_of = cost_of
        self._most_cost = most_cost
        self.invariant = invariant
        self.whole = whole
        limit(self.least <= self.most)
        limit(equal(self.costs(0), 0))
        limit(equal(self._sums(0), 0))
        limit(self.fit(0))
        # No chunk has more rows than all together, if none has fewer than 0.
        limit(implies(self.least >= 0, self.most <= self._sums(self.count)))
        self.look(self.count)

    def sums(self, number: int) -> int:
        """The rows of the first n."""
        self.look(number)
        return self._sums(number)

    def look(self, number: int) -> int:
        """What is known of the first n: none costs less than 1; rows in the range cost themselves."""
        is_plain = all_of([self.least >= 1, self.most <= self._most_cost])
        limit(implies(is_plain, equal(self.costs(number), self._sums(number))))
        limit(implies(self.most <= self._most_cost, self.fit(number)))
        limit(implies(number >= 0, self.costs(number) >= number))
        limit(implies(number <= self.count, self.costs(number) <= self.costs(self.count)))
        return number

    def at(self, number: int) -> int:
        """The rows of one chunk, which is one of them."""
        rows = self.rows(number)
        limit(all_of([self.least <= rows, rows <= self.most]))
        limit(equal(self._sums(number + 1), self._sums(number) + rows))
        limit(equal(self.costs(number + 1), self.costs(number) + self._cost_of(rows)))
        limit(self.fit(number + 1) == all_of([self.fit(number), rows <= self._most_cost]))
        self.look(number)
        self.look(number + 1)
        return rows

    # As the code uses it.

    def size(self) -> int:
        """How many there are."""
        return self.count

    def __bool__(self) -> bool:
        return bool(self.count > 0)

    def __contains__(self, rows: int) -> bool:
        # Only the least number is ever looked for.
        return bool(equal(self.least, rows))

    def __getitem__(self, part: Any) -> Any:
        if isinstance(part, slice):
            if part.start is not None or part.step is not None:
                raise TypeError("only the first n of a batch can be cut off")
            return First(self, part.stop)
        return self.at(part)

    def __iter__(self) -> Iterator[int]:
        if self.invariant is None:
            raise TypeError("this batch has no invariant for a loop over it")
        require_statement(sys._getframe(1))
        return _Turns(self, self.invariant)


class First:
    """The first n of a batch."""

    def __init__(self, batch: Batch, count: int) -> None:
        """At most as many as it has."""
        self.batch, self.count = batch, batch.look(count)

    def __bool__(self) -> bool:
        return bool(self.count > 0)

    def size(self) -> int:
        """How many there are."""
        return self.count


class Costs:
    """What each chunk of a batch costs."""

    def __init__(self, batch: Batch | First) -> None:
        """The costs of the whole batch, or of its first chunks."""
        self.batch = batch.batch if isinstance(batch, First) else batch
        self.count = batch.count

    def size(self) -> int:
        """How many there are."""
        return self.count

    def __getitem__(self, number: int) -> int:
        self.batch.at(number)
        return self.batch.costs(number + 1) - self.batch.costs(number)


class _Turns:
    """The turns of a loop: one of them, which stands for all, or what is behind the last one."""

    def __init__(self, batch: Batch, invariant: Invariant) -> None:
        self._batch, self._invariant = batch, invariant
        self._turn: int | None = None

    def __iter__(self) -> "_Turns":
        return self

    def __next__(self) -> int:
        frame, count = sys._getframe(1), self._batch.count
        if self._turn is not None:
            self._invariant.end_turn(frame, self._turn + 1)
        turn = self._turn = natural("turn")
        if turn < count:
            rows = self._batch.at(turn)
            self._invariant.establish(frame, turn)
            return rows
        limit(equal(turn, count))
        self._invariant.establish(frame, count)
        raise StopIteration


def total_of(items: Any) -> Any:
    """``sum``, also of a batch."""
    if isinstance(items, Batch):
        return items.sums(items.count)
    if isinstance(items, First):
        return items.batch.sums(items.count)
    return items.batch.costs(items.batch.look(items.count)) if isinstance(items, Costs) else sum(items)


def largest_of(*items: Any) -> Any:
    """``max``, also of a batch."""
    if isinstance(items[0], Batch):
        return items[0].most
    return larger_of(*items) if _are_two_numbers(items) else max(*items)


def least_of(*items: Any) -> Any:
    """``min``, also of a batch."""
    if isinstance(items[0], Batch):
        return items[0].least
    return smaller_of(*items) if _are_two_numbers(items) else min(*items)


def _are_two_numbers(items: Sequence[Any]) -> bool:
    """Then which of them it is need not be decided."""
    return len(items) == 2 and any(isinstance(item, Integer) for item in items)


def mapped(made: Any, *items: Any) -> Any:
    """``map``, also of a batch: the only thing that is asked of each chunk is its cost."""
    return Costs(items[0]) if isinstance(items[0], Batch | First) else map(made, *items)


def listed(items: Any) -> Any:
    """``list``, also of costs, or of sums of them."""
    return items if isinstance(items, Costs | RunningSums) else list(items)


class RunningSums:
    """What was collected, and then with the costs of one chunk more, and so on; and the loop over whole batches.

    ``flushed(n)``: what has become due once the first n are consumed, one after the other.  The loop's variable ``due``
    is that, of a number of chunks behind which nothing is left over.
    """

    def __init__(self, batch: Batch, collected: int, *, are_rows: bool = False) -> None:
        """``are_rows``: are the rows summed up, instead of the costs?"""
        self._batch, self._collected, self._size = batch, collected, batch.whole
        self._are_rows = are_rows
        self.flushed = function("flushed")
        self._invariant = Invariant(lambda number: {"due": self.flushed(number)}, self.is_left)
        self._found: int | None = None
        self._has_begun = False
        self._behind = natural("behind")

    def after(self, number: int) -> int:
        """What was collected, and the costs of the first n."""
        sums = self._batch.sums(number) if self._are_rows else self._batch.costs(self._batch.look(number))
        return self._collected + sums

    def __getitem__(self, number: int) -> int:
        if not isinstance(number, int) or number != -1:
            return self.after(number)
        frame = sys._getframe(1)
        if self._found is not None:
            self._invariant.end_turn(frame, self._found)
        if self._has_begun:
            raise InvariantBroken
        self._has_begun = True
        limit(self._behind <= self._batch.count)
        limit(equal(self.flushed(0), 0))
        self._invariant.establish(frame, self._behind)
        limit(self.stays(self._behind, self._batch.count))
        return self.after(self._batch.count)

    def know(self) -> None:
        """What holds of all chunks together, and of a single one."""
        count = self._batch.count
        limit(equal(self.flushed(0), 0))
        limit(self.stays(0, count))
        if equal(count, 1):
            self._batch.at(0)
            limit(self.follows(0))

    def is_left(self, number: int) -> bool:
        """Behind this many chunks: is nothing left over, or has nothing been flushed?"""
        at_once = equal(self.flushed(number), self.after(number))
        return any_of([at_once, all_of([equal(number, 0), equal(self.flushed(number), 0)])])

    def stays(self, behind: int, number: int) -> bool:
        """As long as it is less than a batch, nothing more is flushed: a lemma of its own."""
        flushed = self.flushed(behind)
        is_less = all_of([behind <= number, self.after(number) - flushed < self._size])
        return implies(is_less, equal(self.flushed(number), flushed))

    def follows(self, number: int) -> bool:
        """What the model does with one chunk more."""
        left = self.after(number + 1) - self.flushed(number)
        now = self.flushed(number + 1)
        is_batch = left >= self._size
        still = implies(is_batch, equal(now, self.after(number + 1)))
        return all_of([still, any_of([is_batch, equal(now, self.flushed(number))])])

    def first_at_least(self, least: int) -> int:
        """``bisect_left``: the first sum that is so large; there is one."""
        found = self._found = natural("found")
        limit(found <= self._batch.count)
        limit(self.after(found) >= least)
        limit(any_of([equal(found, 0), self.after(found - 1) < least]))
        limit(implies(found <= self._behind, self.after(found) <= self.after(self._behind)))
        limit(self.stays(self._behind, found - 1))
        limit(implies(found > 0, self.follows(found - 1)))
        return found


def accumulated(items: Any, *, initial: int) -> Any:
    """``accumulate``, also of a batch, or of its costs."""
    if isinstance(items, Batch | Costs):
        batch = items if isinstance(items, Batch) else items.batch
        return RunningSums(batch, initial, are_rows=isinstance(items, Batch))
    return accumulate(items, initial=initial)


def first_of(sums: Any, least: int, **key: Any) -> Any:
    """``bisect_left``, also in running sums."""
    return sums.first_at_least(least) if isinstance(sums, RunningSums) else bisect_left(sums, least, **key)

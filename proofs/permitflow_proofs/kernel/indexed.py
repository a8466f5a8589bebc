"""A family of any size whose members are looked at by symbolic names: neighbours in a row, or any two of many.

``kernel/family.py`` has a few members in focus, whose names are numbers.  Here a name is a symbol, and a member is what
functions of its name say.  A step changes the member of one name; which of the others it leaves alone is decided where
one is looked at: if its name may be the same, the path forks.

- *every*: what holds for all members holds for each whose name is known; and if it does not hold for all, it fails for
  one, the witness.
- *the last one*: if it fails for some member, there is a last one for which it does; it holds for all behind.  This is
  induction along the row, from its end to its start; or along any other order.
- *the largest* measure is at least each member's, and one member has it.
- *sums* may be any number; a sum over a family with another member of one name differs by that member's measure.  Sums
  of measures by name are not negative if none of these is.

``kernel/family_facts.py`` proves this for all finite families; here a family has at least one member.
"""

from collections.abc import Callable, Mapping
from functools import partial, reduce
from types import MappingProxyType
from typing import Any, Generic, Literal, NamedTuple, NoReturn, TypeVar, cast, get_args, get_origin, get_type_hints

from permitflow_model.kernel.family import NoMemberError
from permitflow_model.kernel.queue import Queue, larger
from permitflow_proofs.kernel.family import compared
from permitflow_proofs.kernel.paths import Notes, current_explorer
from permitflow_proofs.kernel.symbols import (
    Opaque,
    all_of,
    assume,
    equal,
    function,
    implies,
    integer,
    limit,
    merged,
    negated,
    predicate,
    truth,
    word_by_name,
)

M = TypeVar("M")
N = TypeVar("N")
T = TypeVar("T")
P = TypeVar("P")
V = TypeVar("V")

_Fact = Callable[[int], bool]
_Tell = Callable[[bool], None]


_MADE: Notes[str, int] = Notes()
"""How many functions, or groups of them, have each name."""


def own(name: str) -> str:
    """A name that differs from all others of this claim: to the solver, what has the same name is the same.

    For functions that are a part of a state, as a claim may make two.
    """
    _MADE[name] = number = _MADE.get(name, 0) + 1
    return name if number == 1 else f"{name}{number}."


def member_by_name(kind: Callable[..., M], prefix: str = "") -> Callable[[int], M]:
    """A function that makes the member of a name: a named tuple of values that depend on it alone.

    Called once more in a claim, it makes those of another family.

    Raises:
        TypeError: a field is of another type than numbers, truth values and words.
    """
    prefix = own(prefix)
    makers: dict[str, Callable[[int], object]] = {}
    for field, hint in get_type_hints(kind).items():
        if get_origin(hint) is Literal:
            makers[field] = word_by_name(f"{prefix}{field}", get_args(hint))
        elif hint in (int, bool):
            makers[field] = (predicate if hint is bool else function)(f"{prefix}{field}")
        else:
            raise TypeError(f"{field} is neither a number, nor a truth value or a word, but {hint}")
    return lambda name: kind(**{field: make(name) for field, make in makers.items()})


def implied_back(every: bool, holds: bool) -> bool:
    """What holds for the witness holds for all."""
    return implies(holds, every)


def at_most_last(exists: bool, last: int, place: int, holds: bool) -> bool:
    """Where it fails, there is a last one, which is not before this one: their places tell."""
    return implies(negated(holds), all_of((exists, place <= last)))


def replaced(total: int, old: int, new: int) -> int:
    """A sum after one measure was replaced by another."""
    return total - old + new


def _is_natural(name: int, member: object, measure: Callable[..., int], *context: object) -> bool:
    return measure(name, member, *context) >= 0


class LastOne(NamedTuple):
    """The last member for which something fails."""

    exists: bool
    name: int


class _Book:
    """The names that are known, and what is known of every member."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.focus: Mapping[str, int] = {}
        self._names: Notes[int, int] = Notes()
        self._facts: Notes[int, tuple[_Fact, _Tell]] = Notes()
        self.alone: dict[Callable[..., Any], Callable[..., int | None]] = {}
        """Measures of listed items that are nothing but for one member; and, of their context, that member's name."""

    def add_name(self, name: int) -> int:
        """From now on all facts are known of the member of this name."""
        self._names[len(self._names)] = name
        for fact, tell in tuple(self._facts.values()):
            self._tell(fact, tell, name)
        return name

    def add_fact(self, fact: _Fact, tell: _Tell = limit) -> None:
        """It is known of every member; ``tell``: as a premise, or because it is so in every family."""
        self._facts[len(self._facts)] = (fact, tell)
        for name in tuple(self._names.values()):
            self._tell(fact, tell, name)

    def witness(self, name: str, fact: _Fact) -> int:
        """Any member for which this holds."""
        found = integer(name)
        limit(all_of((found >= 0, found < self.size)))
        limit(merged(partial(fact, found)))
        return self.add_name(found)

    def has(self, name: int) -> bool:
        """Is there a member of this name?"""
        return all_of((name >= 0, name < self.size))

    def _tell(self, fact: _Fact, tell: _Tell, name: int) -> None:
        # Only of a member: the fact may be of a step, which replaces it.
        is_there = self.has(name)
        tell(implies(is_there, merged(partial(fact, name), where=is_there)))


class _Listed(Opaque, Generic[T]):
    """The items of a family's members."""

    def __init__(
        self, members: "Indexed[Any]", item: Callable[[int, Any], T | None], pushed: tuple[T, ...] = ()
    ) -> None:
        self._members = members
        self._item = item
        self._pushed = pushed

    def push(self, item: T) -> "_Listed[T]":
        """The items, and one more behind them."""
        return _Listed(self._members, self._item, (*self._pushed, item))

    def sum_of(self, measure: Callable[..., V], plus: Callable[[V, V], V], nothing: V, *context: object) -> V:
        """The largest measure, or the sum of measures of which only one can be more than nothing.

        Raises:
            TypeError: another sum is asked for.
        """
        alone = self._members.alone

        def of(name: int, member: object) -> V:
            item = self._item(name, member)
            return nothing if item is None else measure(item, *context)

        if measure in alone:
            name = alone[measure](*context)
            is_there = name is not None and name >= 0 and name < self._members.size()
            total = of(cast(int, name), self._members.get(cast(int, name))) if is_there else nothing
        elif cast(object, plus) is larger:
            total = plus(nothing, cast("V", self._members.largest_by_name(cast(Any, of))))
        else:
            raise TypeError(f"of items whose number is not known, only the largest can be asked, not {plus}")
        return reduce(plus, [measure(item, *context) for item in self._pushed], total)

    def every(self, holds: Callable[[T, P], bool], parameters: P) -> bool:
        """Does it hold for every item?"""

        def of(name: int, member: object) -> bool:
            item = self._item(name, member)
            return item is None or holds(item, parameters)

        pushed = (merged(partial(holds, item, parameters)) for item in self._pushed)
        return all_of((self._members.every_by_name(of), *pushed))


class Indexed(Opaque, Generic[M]):
    """Any family of at least one member, by symbolic names."""

    __slots__ = ("_answers", "_at", "_before", "_book", "_sums")

    def __init__(self, at: Callable[[int], M], book: _Book, before: "tuple[Indexed[M], int, M] | None" = None) -> None:
        """Use ``any_family``; this is for the operations below.

        ``before``: the same family with another member of this name, which is now this one.
        """
        self._at = at
        self._book = book
        self._before = before
        self._sums: Notes[tuple[object, ...], tuple[tuple[object, ...], int]] = Notes()
        self._answers: Notes[tuple[object, ...], tuple[tuple[object, ...], bool]] = Notes()

    @classmethod
    def any_family(
        cls,
        member: Callable[[int], M],
        size: int,
        *names: int,
        focus: Mapping[str, int] = MappingProxyType({}),
    ) -> "Indexed[M]":
        """Any family of this many members, of which these names will be looked at, besides witnesses.

        ``focus``: names that differ, by the words for them in frames; "others" is any other name.
        """
        limit(size >= 1)
        family = cls(member, _Book(size))
        for name in (*names, *focus.values()):
            family.know(name)
        if focus:
            others = integer("others")
            limit(all_of(negated(equal(others, name)) for name in focus.values()))
            family._book.focus = {**focus, "others": others}
        return family

    @property
    def alone(self) -> Mapping[Callable[..., Any], Callable[..., int | None]]:
        """The measures that ``measure_alone`` tells of."""
        return self._book.alone

    def measure_alone(self, measure: Callable[..., Any], name: Callable[..., int | None]) -> None:
        """Of listed items only that of one member measures more than nothing: of this name, or none at all.

        ``name(*context)``: of the measure's context.  The caller proves it of an item of any other name; that the sum
        is this measure follows, as ``kernel/family_facts.py`` proves.
        """
        self._book.alone[measure] = name

    def know(self, name: int) -> None:
        """What holds for every member will be known of this one, if there is one of this name."""
        self._book.add_name(name)

    def size(self) -> int:
        """How many there are."""
        return self._book.size

    def names(self) -> NoReturn:
        """They are symbols, and nobody lists them.

        Raises:
            TypeError: always.
        """
        raise TypeError("members are looked at by symbolic names, which cannot be listed; ask for every member")

    def some_name(self, _holds: Callable[[int], bool]) -> NoReturn:
        """Likewise: to find one that can act, all would be tried."""
        self.names()

    @property
    def focus(self) -> Mapping[str, int]:
        """The names that frames tell apart, by their words."""
        return self._book.focus

    def parts(self) -> list[tuple[str, M]]:
        """The members in focus, and any other one.

        Raises:
            TypeError: none is in focus.
        """
        if not self.focus:
            raise TypeError("no member is in focus; give any_family the names that a frame tells apart")
        return [(word, self._at(name)) for word, name in self.focus.items()]

    def get(self, name: int) -> M:
        """The member of this name; where none has it, anything: a clause may ask, but a step may not.

        Raises:
            NoMemberError: in a step, perhaps none has it, on this path, as the model's family would.
        """
        explorer = current_explorer()
        if explorer.is_acting and not explorer.is_merging and not self._book.has(name):
            raise NoMemberError(name, self.size())
        return self._at(name)

    def put(self, name: int, member: M) -> "Indexed[M]":
        """The family with another member of this name.

        Raises:
            NoMemberError: perhaps none has it, on this path, as the model's family would.
        """
        if not self._book.has(name):
            raise NoMemberError(name, self.size())

        def at(other: int) -> M:
            return member if other == name else self._at(other)

        return Indexed(at, self._book, (self, name, member))

    def map(self, change: Callable[..., M], *context: object) -> "Indexed[M]":
        """All members changed."""
        return Indexed(lambda name: change(self._at(name), *context), self._book)

    def map_by_name(self, change: Callable[..., M], *context: object) -> "Indexed[M]":
        """All members changed, each by its name."""
        return Indexed(lambda name: change(name, self._at(name), *context), self._book)

    def sum_of(self, measure: Callable[..., int], *context: object) -> int:
        """Any number, the same when it is asked for again."""
        if self._before is not None:
            before, name, member = self._before
            old, new = (measure(one, *context) for one in (before.get(name), member))
            return replaced(before.sum_of(measure, *context), old, new)
        key = (measure, *map(id, context))
        if key not in self._sums:
            self._sums[key] = (context, integer("sum"))
        return self._sums[key][1]

    def sum_by_name(self, measure: Callable[..., int], *context: object) -> int:
        """The measures of all members together, each by its name; never negative if none of them is."""
        key = (measure, *map(id, context))
        if key in self._sums:
            return self._sums[key][1]
        if self._before is None:
            total = integer("sum")
        else:
            before, name, member = self._before
            old, new = (measure(name, one, *context) for one in (before.get(name), member))
            total = replaced(before.sum_by_name(measure, *context), old, new)
        limit(compared(self.every_by_name(_is_natural, measure, *context), 0, total))
        self._sums[key] = (context, total)
        return total

    def largest_by_name(self, measure: Callable[..., int], *context: object) -> int:
        """The largest measure."""
        largest = integer("largest")

        def of(name: int) -> int:
            return measure(name, self._at(name), *context)

        self._book.add_fact(lambda name: of(name) <= largest)
        self._book.witness("with.largest", lambda name: equal(of(name), largest))
        return largest

    def listed_by_name(self, item: Callable[..., T | None], *context: object) -> Queue[T]:
        """An item for each member that has one; the largest measure can be asked, and what holds for every item."""
        return cast("Queue[T]", _Listed(self, lambda name, member: item(name, member, *context)))

    def every(self, holds: Callable[..., bool], *context: object) -> bool:
        """Does it hold for every member?  Does not fork."""
        return self._every(lambda name: self._holds(holds, context, name))

    def every_by_name(self, holds: Callable[..., bool], *context: object) -> bool:
        """Does it hold for every member, by its name?  Does not fork."""
        key = (holds, *map(id, context))
        if key not in self._answers:
            answer = self._every(lambda name: merged(lambda: holds(name, self._at(name), *context)))
            self._answers[key] = (context, answer)
        return self._answers[key][1]

    def _every(self, holds: _Fact) -> bool:
        answer = truth("every")
        self._book.add_fact(lambda name: implies(answer, holds(name)))
        self._book.witness("some", lambda name: implied_back(answer, holds(name)))
        return answer

    def assume_every(self, fact: Callable[[int], bool]) -> None:
        """Go on only where this holds for the name of every member."""
        self._book.add_fact(fact, assume)

    def beside(self, at: Callable[[int], N]) -> "Indexed[N]":
        """Another family of as many members, with the same names."""
        return Indexed(at, self._book)

    def last_without(self, holds: Callable[[M], bool], place: Callable[[int], int] = lambda name: name) -> LastOne:
        """The last member for which it does not hold, if there is one.

        ``place``: of the member of a name, in an order of all; several may have the same.
        """
        exists, name = truth("is.last"), integer("last")
        assume(implies(exists, all_of((name >= 0, name < self.size()))))
        assume(implies(exists, negated(self._holds(holds, (), name))))
        self._book.add_name(name)
        self._book.add_name(cast(Any, name) + 1)
        self._book.add_fact(
            lambda other: at_most_last(exists, place(name), place(other), self._holds(holds, (), other))
        )
        return LastOne(exists, name)

    def _holds(self, holds: Callable[..., bool], context: tuple[object, ...], name: int) -> bool:
        return merged(lambda: holds(self._at(name), *context))

"""Several channels of one kind in one state, by their names 0, 1, 2, …: a family.

A model reads one member, or all of them, in no other form; so the same text is explored with a few members and proved
for any number of them.  Proofs have their own implementation, with one or two members and some sums.

Values that a function needs besides the member are passed as its context, because proofs know a question again by the
function and the context.
"""

from collections.abc import Callable, Iterable
from typing import Generic, Protocol, TypeVar, cast

from permitflow_model.kernel.queue import Fifo, Queue

M = TypeVar("M")
T = TypeVar("T")


class Family(Protocol[M]):
    """A fixed number of members as a value: no operation changes it."""

    def size(self) -> int:
        """The number of members; it may be symbolic."""
        ...

    def names(self) -> Iterable[int]:
        """The names, where they can be listed; of equal members, one may be enough."""
        ...

    def some_name(self, holds: Callable[[int], bool]) -> bool:
        """Does it hold for the name of some member, such as that it can act?"""
        ...

    def get(self, name: int) -> M:
        """The member of this name."""
        ...

    def put(self, name: int, member: M) -> "Family[M]":
        """The family with another member of this name, which one must have."""
        ...

    def map(self, change: Callable[..., M], *context: object) -> "Family[M]":
        """All members changed: ``change(member, *context)``."""
        ...

    def sum_of(self, measure: Callable[..., int], *context: object) -> int:
        """The measures of all members together: ``measure(member, *context)``."""
        ...

    def every(self, holds: Callable[..., bool], *context: object) -> bool:
        """Does it hold for every member: ``holds(member, *context)``?"""
        ...


def some(family: Family[M], holds: Callable[..., bool], *context: object) -> bool:
    """Does it hold for some member: ``holds(member, *context)``?"""
    return not family.every(_fails, holds, *context)


def _fails(member: object, holds: Callable[..., bool], *context: object) -> bool:
    return not holds(member, *context)


class NamedFamily(Family[M], Protocol[M]):
    """A family whose members know each other by name: nodes of a graph, or actors that send to each other."""

    def put(self, name: int, member: M) -> "NamedFamily[M]":
        """The family with another member of this name."""
        ...

    def map_by_name(self, change: Callable[..., M], *context: object) -> "NamedFamily[M]":
        """All members changed: ``change(name, member, *context)``."""
        ...

    def every_by_name(self, holds: Callable[..., bool], *context: object) -> bool:
        """Does it hold for every member: ``holds(name, member, *context)``?"""
        ...

    def largest_by_name(self, measure: Callable[..., int], *context: object) -> int:
        """The largest measure, of at least one member: ``measure(name, member, *context)``."""
        ...

    def listed_by_name(self, item: Callable[..., T | None], *context: object) -> Queue[T]:
        """An item for each member that has one, by their names: ``item(name, member, *context)``."""
        ...


class NoMemberError(IndexError):
    """An action looks at, or replaces, a member of a name that perhaps none has: its guard forgets that."""

    def __init__(self, name: object, size: object) -> None:
        """``name`` is that of the member, ``size`` that of the family; they may be symbolic."""
        super().__init__(f"a family of {size} has no member {name}; an action that names one requires that it is there")


def _known(name: int, size: int) -> int:
    """The name of a member."""
    if 0 <= name < size:
        return name
    raise NoMemberError(name, size)


class Members(tuple[M, ...]):
    """A family as a tuple: for exploration, tests and replay.  In TLA+ it is a sequence, which counts from 1."""

    __slots__ = ()

    def size(self) -> int:
        """How many there are."""
        return len(self)

    def names(self) -> range:
        """All of them."""
        return range(len(self))

    def some_name(self, holds: Callable[[int], bool]) -> bool:
        """Does it hold for the name of some member?"""
        return any(map(holds, self.names()))

    def get(self, name: int) -> M:
        """The member of this name."""
        if 0 <= name < len(self):
            return self[name]
        raise NoMemberError(name, len(self))

    def put(self, name: int, member: M) -> "Members[M]":
        """The family with another member of this name."""
        members = list(self)
        members[_known(name, len(members))] = member
        return Members(members)

    def map(self, change: Callable[..., M], *context: object) -> "Members[M]":
        """All members changed."""
        return Members([change(member, *context) for member in self])

    def map_by_name(self, change: Callable[..., M], *context: object) -> "Members[M]":
        """All members changed, each by its name."""
        return Members([change(name, member, *context) for name, member in enumerate(self)])

    def every_by_name(self, holds: Callable[..., bool], *context: object) -> bool:
        """Does it hold for every member?"""
        return all(holds(name, member, *context) for name, member in enumerate(self))

    def largest_by_name(self, measure: Callable[..., int], *context: object) -> int:
        """The largest measure."""
        return max([measure(name, member, *context) for name, member in enumerate(self)])

    def listed_by_name(self, item: Callable[..., T | None], *context: object) -> Fifo[T]:
        """An item for each member that has one."""
        items = [item(name, member, *context) for name, member in enumerate(self)]
        return Fifo(one for one in items if one is not None)

    def sum_of(self, measure: Callable[..., int], *context: object) -> int:
        """The measures of all members together."""
        return sum([measure(member, *context) for member in self])

    def every(self, holds: Callable[..., bool], *context: object) -> bool:
        """Does it hold for every member?"""
        return all(holds(member, *context) for member in self)


class Alike(Generic[M]):
    """A number of members, all equal but for a few: a family of any size at the start of a run and after some steps.

    A run that names the members 0 and 1 is a run for any size of at least 2; the caller ensures that size.
    """

    __slots__ = ("_member", "_others", "_size")

    def __init__(self, member: M, size: int, others: tuple[tuple[int, M], ...] = ()) -> None:
        """``others``: the members that differ, with their names, which may be symbolic."""
        self._member = member
        self._size = size
        self._others = others

    def _alike(self) -> int:
        """How many are equal."""
        return self._size - len(self._others)

    def size(self) -> int:
        """The number of members; it may be symbolic."""
        return self._size

    def names(self) -> Iterable[int]:
        """The names of members that differ, and of one of the others if there is one."""
        others = [name for name, _ in self._others]
        yield from others
        if self._alike() > 0:
            yield next(name for name in range(len(others) + 1) if name not in others)

    def some_name(self, holds: Callable[[int], bool]) -> bool:
        """Does it hold for the name of some member?"""
        return any(map(holds, self.names()))

    def get(self, name: int) -> M:
        """The member of this name."""
        return next((member for other, member in self._others if other == name), self._member)

    def put(self, name: int, member: M) -> "Alike[M]":
        """The family with another member of this name."""
        _known(name, self._size)
        others = [(other, its) for other, its in self._others if other != name]
        return Alike(self._member, self._size, (*others, (name, member)))

    def map(self, change: Callable[..., M], *context: object) -> "Alike[M]":
        """All members changed."""
        others = tuple((name, change(member, *context)) for name, member in self._others)
        return Alike(change(self._member, *context), self._size, others)

    def sum_of(self, measure: Callable[..., int], *context: object) -> int:
        """The measures of all members together."""
        return sum(
            [measure(member, *context) for _, member in self._others],
            self._alike() * measure(self._member, *context),
        )

    def every(self, holds: Callable[..., bool], *context: object) -> bool:
        """Does it hold for every member?"""
        if not all(holds(member, *context) for _, member in self._others):
            return False
        return self._alike() == 0 or holds(self._member, *context)


class MadeByName(Generic[M]):
    """Any number of members, each made from its name: a family of any size at the start of a run.

    It is looked at member by member.
    """

    __slots__ = ("_make", "_size")

    def __init__(self, make: Callable[[int], M], size: int) -> None:
        """``make(name)``: the member of that name."""
        self._make = make
        self._size = size

    def size(self) -> int:
        """The number of members; it may be symbolic."""
        return self._size

    def get(self, name: int) -> M:
        """The member of this name."""
        return self._make(name)

    def put(self, name: int, member: M) -> "MadeByName[M]":
        """The family with another member of this name."""
        _known(name, self._size)
        return MadeByName(lambda other: member if other == name else self._make(other), self._size)


def family(member: M, size: int) -> Family[M]:
    """A family of ``size`` equal members, for the initial state of a model."""
    return Members([member] * size) if isinstance(size, int) else Alike(member, size)


def family_by_name(make: Callable[[int], M], size: int) -> NamedFamily[M]:
    """A family of ``size`` members, each made from its name, for the initial state of a model."""
    return Members(map(make, range(size))) if isinstance(size, int) else cast("NamedFamily[M]", MadeByName(make, size))

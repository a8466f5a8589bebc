"""A family of any size: one member or two in focus, and the answers to earlier questions about all the others.

It has the interface of the model's family, and behaves like every real family at once.  About the others it knows

- *every*: a truth value.  What holds for all of them holds for each that is looked at; and if it does not hold for all,
  it fails for one of them, the witness, of which everything is known that is known of all;
- *sums*: a number.  Sums are compared: if each member's measure is at most another one of it, so is the sum;
- *a change of all*: nothing more.  Questions about the changed members become questions about the members before.

``kernel/family_facts.py`` proves these assumptions for all finite families.

A proof with it holds for any member as the one in focus, and for any number of others, if

- the model reaches members by this interface only, and neither compares nor stores their names: the name of the member
  that acts, ``ACTING``, refuses that;
- a step is made by this one member, or changes all of them alike;
- claims about all members, or some, use ``every`` and ``sum_of``; and the name of one in focus stands for any, but
  after a step of one, where it is the one that acted: there a clause of an invariant looks up none.

So a claim may choose who is in focus, for one use of each member there: one acts, or is looked up by its name;
``choose`` has one that waits in focus, if any does; and what ``holds_in_focus`` fails for the one there if it fails for
any.  Nobody lists names.  Whether ``some_name`` is one that can act is known of those in focus; of the others it is
not, and both answers are walked.
"""

from collections.abc import Callable, Iterable, Sequence, Set
from dataclasses import dataclass
from functools import partial
from itertools import combinations
from typing import Any, Generic, NoReturn, TypeVar, cast

from permitflow_model.kernel.family import Family, some
from permitflow_proofs.kernel.paths import Notes, current_explorer
from permitflow_proofs.kernel.queue import sized
from permitflow_proofs.kernel.symbols import (
    Opaque,
    Truth,
    all_of,
    any_of,
    assume,
    equal,
    implies,
    integer,
    limit,
    merged,
    natural,
    negated,
    truth,
    truth_term,
)

M = TypeVar("M")

_Holds = Callable[[Any], bool]
_Measure = Callable[[Any], int]
_Context = tuple[object, ...]
_Change = tuple[Callable[..., Any], _Context]
_Key = tuple[object, ...]
_Use = tuple[bool, _Key]
"""Is it of the first member in focus, or of any there?"""


# Assumptions.


def has_all(size: int, answer: bool) -> bool:
    """If there are no members, everything holds for all."""
    return implies(equal(size, 0), answer)


def told(size: int, answer: bool, holds: bool) -> bool:
    """What holds for all holds for this one, if there are members."""
    return implies(_some(size), implies(answer, holds))


def witnessed(size: int, answer: bool, holds: bool) -> bool:
    """What holds for the witness holds for all."""
    return implies(_some(size), implies(holds, answer))


def compared(every: bool, total: int, other: int) -> bool:
    """A sum is at most another one if every measure is."""
    return implies(every, total <= other)


def left_out(whole: bool, others: bool, own: bool) -> bool:
    """What holds for all holds for all others, and for the excluded member."""
    return _same(whole, all_of((others, own)))


def _some(size: int) -> bool:
    return size > 0


def _same(left: bool, right: bool) -> bool:
    return all_of((implies(left, right), implies(right, left)))


class _Others(Generic[M]):
    """The members that are not in focus."""

    def __init__(
        self, name: str, any_member: Callable[[str], M], size: int, whole: "tuple[_Others[M], M] | None" = None
    ) -> None:
        """``whole``: the family of these and one more member, with that member."""
        self.name = name
        self.size = size
        self._any_member = any_member
        self._whole = whole
        self._every: Notes[_Key, tuple[_Holds, bool]] = Notes()
        self._sums: Notes[_Key, tuple[_Measure, int]] = Notes()
        self._witnesses: Notes[_Key, M] = Notes()
        self._denied: Notes[_Key, bool] = Notes()
        """Those with a witness, if it may fail.  What is only assumed gets one later: most of it then holds for all."""
        self._parts: Notes[_Key, tuple[M, _Others[M]]] = Notes()
        self._kept: Notes[tuple[int, ...], _Context] = Notes()
        self._uses: Notes[_Use, bool] = Notes()
        """For what the members in focus are chosen."""

    def uses_of_focus(self, use: _Use) -> Set[_Use]:
        """For what the members in focus are chosen, this use included."""
        if self._whole is not None:
            return self._whole[0].uses_of_focus(use)
        if use not in self._uses:
            current_explorer().note_effect()
            self._uses[use] = True
        return self._uses.keys()

    def keep(self, context: _Context) -> None:
        """Questions are identified by the identity of their contexts, which must not be reused while they are known."""
        identity = tuple(map(id, context))
        if identity not in self._kept:
            self._kept[identity] = context

    def every(self, key: _Key, holds: _Holds) -> bool:
        if key not in self._every:
            answer = truth(f"{self.name}.every")
            self._every[key] = (holds, answer)
            limit(has_all(self.size, answer))
            if self._whole is not None:
                whole, one_more = self._whole
                limit(left_out(whole.every(key, holds), answer, merged(partial(holds, one_more))))
            for member in tuple(self._witnesses.values()):
                self._tell(member, holds, answer)
        if key not in self._denied and not current_explorer().is_supposing:
            self.settle(key)
        return self._every[key][1]

    def settle(self, key: _Key | None = None) -> None:
        """Look for the witnesses that were put off: of all that is not known to hold, and of this one in any case."""
        postponed = [each for each in self._every if each not in self._denied]
        for each in postponed:
            self._denied[each] = True
        for each in postponed:
            self._look_for_witness(each, is_new=each == key)

    def _look_for_witness(self, key: _Key, *, is_new: bool) -> None:
        holds, answer = self._every[key]
        if not is_new and current_explorer().knows(Truth(lambda: truth_term(answer))):
            return
        witness = self._witnesses[key] = self._any_member(f"{self.name}.some")
        for known, is_so in self._known():
            self._tell(witness, known, is_so)
        limit(witnessed(self.size, answer, merged(partial(holds, witness))))

    def _known(self) -> list[tuple[_Holds, bool]]:
        """The questions asked of all of these, also as a part of a larger family."""
        more = self._whole[0]._known() if self._whole is not None else []
        return [*more, *self._every.values()]

    def _tell(self, member: M, holds: _Holds, answer: bool) -> None:
        limit(told(self.size, answer, merged(partial(holds, member))))

    def sum_of(self, key: _Key, measure: _Measure) -> int:
        if key not in self._sums:
            if self._whole is None:
                total = integer(f"{self.name}.sum")
            else:
                whole, one_more = self._whole
                total = whole.sum_of(key, measure) - measure(one_more)
            limit(sized(self.size, total, 0))
            for known, (other, others_total) in (((), (_nothing, 0)), *self._sums.items()):
                at_most = self.every((key, "at most", known), partial(_at_most, measure, other))
                limit(compared(at_most, total, others_total))
                at_least = self.every((known, "at most", key), partial(_at_most, other, measure))
                limit(compared(at_least, others_total, total))
            self._sums[key] = (measure, total)
        return self._sums[key][1]

    def part(self, key: _Key, holds: _Holds) -> "tuple[M, _Others[M]]":
        """A member for which it holds, if there is one, and the others; there must be at least one member."""
        if key not in self._parts:
            nobody: _Key = ("nobody", key)
            self.every(nobody, partial(_fails, holds))
            one = self._witnesses[nobody]
            self._parts[key] = (one, _Others(f"{self.name}.others", self._any_member, self.size - 1, (self, one)))
        return self._parts[key]


def _nothing(_member: object) -> int:
    return 0


def _at_most(measure: _Measure, other: _Measure, member: object) -> bool:
    return measure(member) <= other(member)


def _fails(holds: _Holds, member: object) -> bool:
    return negated(merged(partial(holds, member)))


@dataclass(frozen=True)
class Unseen:
    """Members that are not in focus, and what was done to all of them: equal if both are the same."""

    members: object
    changes: tuple[_Change, ...]


class _Acting(Opaque):
    """The name of the member that acts."""

    __slots__ = ()

    def _refuse(self, *_others: object) -> NoReturn:
        """Refused, also to a set or a dictionary, which compare by hash first.

        Raises:
            TypeError: always.
        """
        raise TypeError(f"a step compares {self!r}, or counts with it, but it is any; it may only look that member up")

    __hash__ = _refuse  # type: ignore[assignment]  # see Opaque
    __eq__ = __bool__ = __lt__ = __le__ = __gt__ = __ge__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __mod__ = __floordiv__ = _refuse

    def __repr__(self) -> str:
        return "the name of the member that acts"


ACTING: int = cast(int, _Acting())
"""The name of the first member in focus, where it acts: it stands for any name, so that nothing can be asked of it."""


class _Asked(int):
    """The name of a member in focus of which a question is asked, of each of them alike."""


class SymbolicFamily(Opaque, Generic[M]):
    """Any family: members in focus, whose names are 0 and 1, and others."""

    __slots__ = ("_changes", "_focus", "_free", "_others")

    def __init__(self, focus: Sequence[M], others: _Others[M], free: int, changes: tuple[_Change, ...] = ()) -> None:
        """Use ``any_family``; this is for the operations below.

        ``free``: so many of those in focus are any.
        """
        self._focus = tuple(focus)
        self._others = others
        self._free = free
        self._changes = changes

    @classmethod
    def any_family(cls, name: str, any_member: Callable[[str], M], focus: int = 1) -> "SymbolicFamily[M]":
        """Any family of such members.

        Args:
            name: of its symbols.
            any_member: makes any member; its assumptions must be compatible with all others.
            focus: how many members are in focus; the family has at least this many.
        """
        members = [any_member(f"{name}.{number}") for number in range(focus)]
        return cls(members, _Others(f"{name}.others", any_member, natural(f"{name}.others")), focus)

    @classmethod
    def any_of_size(cls, name: str, any_member: Callable[[str], M], size: int) -> "SymbolicFamily[M]":
        """Any family of so many members: in focus are one that acts and, if there are several, any other one."""
        family = cls.any_family(name, any_member, focus=2 if size > 1 else 1)
        limit(equal(family.size(), size))
        return family

    def size(self) -> int:
        """How many there are."""
        return self._others.size + len(self._focus)

    def parts(self) -> list[tuple[str, Any]]:
        """The members in focus, by their names in words, and what the others are."""
        return [*((str(name), one) for name, one in enumerate(self._focus)), ("others", self.others)]

    @property
    def others(self) -> "Unseen":
        """The members that are not in focus."""
        return Unseen(self._others, self._changes)

    def names(self) -> NoReturn:
        """Refused.

        Raises:
            TypeError: always.
        """
        instead = "ask every, some, sum_of or size, or change all by map"
        raise TypeError(f"nobody lists the members, because their number is any; {instead}")

    def some_name(self, holds: Callable[[int], bool]) -> bool:
        """Does it hold for the name of some member?  If for none in focus, it may for another one, if there is one."""
        found: list[bool] = []
        for name in self._asked_names():
            found.append(holds(name))
            if found[-1] is True:
                return True
        is_another = truth(f"{self._others.name}.some")
        limit(implies(is_another, _some(self._others.size)))
        return any_of([*found, is_another])

    def get(self, name: int) -> M:
        """A member in focus.

        Raises:
            TypeError: it is not.
        """
        return self._focus[self._in_focus(name)]

    def put(self, name: int, member: M) -> "SymbolicFamily[M]":
        """The family with another member of this name.

        Raises:
            TypeError: it is not in focus.
        """
        place = self._in_focus(name)
        focus = (*self._focus[:place], member, *self._focus[place + 1 :])
        return SymbolicFamily(focus, self._others, self._free, self._changes)

    def map(self, change: Callable[..., M], *context: object) -> "SymbolicFamily[M]":
        """All members changed."""
        self._others.keep(context)
        focus = [change(member, *context) for member in self._focus]
        return SymbolicFamily(focus, self._others, self._free, (*self._changes, (change, context)))

    def sum_of(self, measure: Callable[..., int], *context: object) -> int:
        """The measures of all members together."""
        total = self._others.sum_of(*self._question(measure, context))
        return sum([measure(member, *context) for member in self._focus], total)

    def every(self, holds: Callable[..., bool], *context: object) -> bool:
        """Does it hold for every member?  Does not fork."""
        return all_of(self._each(holds, context))

    def assume_every(self, holds: Callable[..., bool], *context: object) -> None:
        """Go on only where it holds for every member."""
        for condition in self._each(holds, context):
            assume(condition)

    def settle(self) -> None:
        """Learn now of what was only assumed: at the end of a beginning, for all that go on from it."""
        self._others.settle()

    def with_some(self, holds: Callable[..., bool], *context: object) -> "SymbolicFamily[M]":
        """The same family with one more member in focus: one for which it holds, if there is one among the others.

        Without others, the family is unchanged.
        """
        if not self._others.size > 0:
            return self
        one, others = self._others.part(*self._question(holds, context))
        return SymbolicFamily((*self._focus, _changed(self._changes, one)), others, self._free, self._changes)

    def choose(self, holds: Callable[..., bool], *context: object) -> None:
        """Go on only where it holds for the first in focus, if it does for any: a claim about any is about this one."""
        self._take_focus(self._question(holds, context)[0], of_first=True)
        holds_for_some = merged(partial(some, self, holds, *context))
        limit(implies(holds_for_some, merged(partial(holds, self._focus[0], *context))))

    def ask_in_focus(self, holds: Callable[..., bool], *context: object) -> Iterable[int]:
        """The names of the members in focus, to ask whether this holds for each."""
        # What is assumed of all is known of each, whoever is chosen.
        if not current_explorer().is_supposing:
            self._take_focus(self._question(holds, context)[0])
        return self._asked_names()

    def may_hold_for_others(self) -> bool:
        """What is assumed of all is asked of those in focus: whether it holds for the others, too, is not known."""
        if not current_explorer().is_supposing:
            return True
        holds = truth(f"{self._others.name}.hold")
        limit(has_all(self._others.size, holds))
        return holds

    def _asked_names(self) -> Iterable[int]:
        return map(_Asked, range(len(self._focus)))

    def _take_focus(self, use: _Key, *, of_first: bool = False) -> None:
        """For this use the claim chooses who is in focus, or who is the first there.

        Raises:
            TypeError: there are others, and those in focus are not enough.
        """
        uses = self._others.uses_of_focus((of_first, use))
        uses_of_first = sum(each for each, _ in uses)
        if (len(uses) > self._free or uses_of_first > 1) and self._others.size > 0:
            raise TypeError(
                f"{len(uses)} uses of {self._free} members in focus, {uses_of_first} of the first, steps included: "
                "ask one question of each member, or take one more into focus"
            )

    def _each(self, holds: Callable[..., bool], context: _Context) -> list[bool]:
        # The others first: the answers about them must not depend on forks.
        others = self._others.every(*self._question(holds, context))
        return [*(merged(partial(holds, member, *context)) for member in self._focus), others]

    def _question(self, ask: Callable[..., Any], context: _Context) -> tuple[_Key, Callable[[M], Any]]:
        self._others.keep(context)
        asked = ((function, *map(_identity, its)) for function, its in (*self._changes, (ask, context)))
        return tuple(asked), partial(_asked, self._changes, ask, context)

    def _in_focus(self, name: int) -> int:
        place = 0 if name is ACTING else name
        if name is not ACTING and current_explorer().is_one_acting:
            raise TypeError(f"a step names the member {name}, but another one acts, which may be the same")
        if place not in range(len(self._focus)):
            raise TypeError(f"only {len(self._focus)} members are in focus, not {place}; with_some brings one more")
        if not isinstance(name, _Asked):
            if current_explorer().is_judging:
                raise TypeError(
                    f"a clause looks up the member {place} after a step, by which it may be the one that acted; "
                    "ask every, or holds_in_focus"
                )
            self._take_focus(("named", place), of_first=place == 0)
        return place


def holds_in_focus(holds: Callable[..., bool], family: Family[Any], *context: object) -> bool:
    """Does it hold for each member in focus: ``holds(member, *context)``?  Does not fork."""
    names = family.ask_in_focus(holds, *context) if isinstance(family, SymbolicFamily) else family.names()
    found = [merged(partial(holds, family.get(name), *context)) for name in names]
    return all_of([*found, family.may_hold_for_others()] if isinstance(family, SymbolicFamily) else found)


def each_in_focus(
    holds: Callable[[int], bool], family: Family[M], differ: Callable[[M, M], bool] | None = None
) -> bool:
    """Does it hold for the name of each member in focus, and do each two of them differ so?

    ``differ(one, other)`` looks at nothing but these two: then a step of one leaves it as it is of two others.
    """
    if isinstance(family, SymbolicFamily):
        names = [*family.ask_in_focus(holds)]
    else:
        # The first one apart, also where all are equal: it is compared with each other one.
        names = [*family.put(0, family.get(0)).names()]
    if not all(map(holds, names)):
        return False
    if differ is not None:
        pairs = combinations(map(family.get, names), 2)
        if not all_of([merged(partial(differ, one, other)) for one, other in pairs]):
            return False
    return family.may_hold_for_others() if isinstance(family, SymbolicFamily) else True


def _identity(context: object) -> object:
    return (type(context), context) if isinstance(context, int | str) else id(context)


def _changed(changes: tuple[_Change, ...], member: Any) -> Any:
    for change, context in changes:
        member = change(member, *context)
    return member


def _asked(changes: tuple[_Change, ...], ask: Callable[..., Any], context: _Context, member: object) -> Any:
    return ask(_changed(changes, member), *context)

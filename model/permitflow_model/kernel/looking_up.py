"""Caches the outcome of a model's function for all states that agree in the values it reads.

*Looks.*  The text of a model runs on numbers and on Z3's terms; here it runs on a state that records each read, a
*look*.  The values read determine the outcome: every other state with these values has the same outcome. A function
looks at a whole variable (``state.permits``) or, of a queue, at less: whether it is empty, its oldest item, the sum
over it.  Queues are built when they are read: evaluating a guard discards the next state, so its queues are neither
built nor read.  The members of a family are looked at one by one, variable by variable: a state is flat (``Layout``).

*States as integers.*  Each variable has a few bits of its own, which hold the number of its value: values are numbered
in the order of their first use.  Other bits hold the results of looks at a variable (``Look``).  So two states give a
function the same results if they agree in the bits of its looks: ``packed & mask``.

*Looking up.*  The next look may depend on earlier results: a function that finds the wire empty does not read its
oldest message.  So the cache of a function is a tree: a node has some looks, and for each of their results either the
outcome or a node with further looks.  If lookups of a function rarely hit, its cache is not used for a while.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from itertools import takewhile
from operator import eq
from types import MappingProxyType
from typing import Any, Generic, NamedTuple, NoReturn, TypeAlias, TypeVar, cast

from permitflow_model.kernel.family import Members
from permitflow_model.kernel.queue import Fifo
from permitflow_model.kernel.system import Action, Disabled, ModelError, System, call, is_state, no_state

S = TypeVar("S")


class _Place(NamedTuple):
    """The position of a variable in a flat state."""

    offset: int
    """Its first position, counted from that of the state or member that has it."""

    member: "Layout | None"
    """Of a family; None: a value, which has one position."""

    members: int
    """The number of members of the family."""


class Layout:
    """The positions in a flat state: of each variable, and of each variable of each member of a family.

    Other named tuples in a state are values: they are looked at as a whole.
    """

    def __init__(self, pattern: object) -> None:
        """As this state, or member of a family, has it: a named tuple has its variables, anything else is one."""
        self.fields: tuple[str, ...] | None = getattr(pattern, "_fields", None)
        self.numbers = {name: number for number, name in enumerate(self.fields or ())}
        self.places: list[_Place] = []
        self.width = 0
        """How many positions there are."""
        self._type: Callable[..., Any] = type(pattern)
        for part in self._parts(pattern):
            member = Layout(part[0]) if isinstance(part, Members) and part else None
            place = _Place(self.width, member, len(part) if isinstance(part, Members) else 1)
            self.places.append(place)
            self.width += 1 if member is None else member.width * place.members
        self._is_flat = all(place.member is None for place in self.places)

    def flat(self, whole: Any) -> Sequence[object]:
        """The values of a state, position by position.

        Raises:
            ValueError: a family has another number of members than before.
        """
        parts = self._parts(whole)
        if self._is_flat:
            return parts
        values: list[object] = []
        for (_, member, count), part in zip(self.places, parts, strict=True):
            if member is None:
                values.append(part)
                continue
            _require_as_many(part, count)
            for each in part:
                values += member.flat(each)
        return values

    def whole(self, values: Sequence[object], start: int = 0) -> Any:
        """The state, or the member whose first position this is."""
        parts = [
            values[start + offset]
            if member is None
            else Members([member.whole(values, start + offset + number * member.width) for number in range(count)])
            for offset, member, count in self.places
        ]
        return self.made(parts)

    def names(self) -> Iterator[str]:
        """What stands in each position of a flat state, as in ``inbox`` or ``ends[1].inbox``."""
        for name, (_, member, count) in zip(self.fields or ("",), self.places, strict=True):
            if member is None:
                yield name
                continue
            yield from (f"{name}[{number}].{part}" for number in range(count) for part in member.names())

    def strange(self, name: str) -> str:
        """What to say where no variable has this name."""
        return f"a state has no variable {name!r}; it has {', '.join(self.numbers)}"

    def made(self, parts: Iterable[object]) -> Any:
        """The state or member that has these variables."""
        return self._type(*parts) if self.fields is not None else next(iter(parts))

    def changed(self, before: Any, after: Any, start: int = 0) -> Iterator[tuple[int, object]]:
        """The positions in which two states do not have the same object, and what the second one has there.

        Raises:
            ValueError: a family has another number of members than before.
        """
        for (offset, member, count), old, new in zip(self.places, self._parts(before), self._parts(after), strict=True):
            if new is old:
                continue
            if member is None:
                yield start + offset, new
                continue
            _require_as_many(new, count)
            for number, (own, other) in enumerate(zip(old, new, strict=True)):
                if own is not other:
                    yield from member.changed(own, other, start + offset + number * member.width)

    def _parts(self, whole: Any) -> Sequence[Any]:
        return whole if self.fields is not None else (whole,)


def _require_as_many(members: Any, count: int) -> None:
    if not hasattr(members, "names") or len(members) != count:
        raise ValueError(f"a family has {count} members in every state, but here it is {members!r}; use put and map")


class Look(NamedTuple):
    """A way to look at a variable."""

    variable: int
    """Its position in the state."""

    question: str = ""
    """A method of ``Queue``; empty: the whole value."""

    arguments: tuple[object, ...] = ()


class _Absent:
    """What an empty queue has as its head."""


ABSENT = _Absent()


def look_at(value: object, look: Look) -> object:
    """The result of the look at a variable's value; ``ABSENT`` if there is none."""
    if not look.question:
        return value
    try:
        return getattr(value, look.question)(*look.arguments)
    except IndexError:
        return ABSENT


class Notes:
    """The looks of one evaluation, in the order in which they were first taken."""

    def __init__(self) -> None:
        """Nothing was examined yet."""
        self.looks: dict[Look, None] = {}

    def take(self, value: object, look: Look) -> object:
        """Look, and note it.

        Raises:
            IndexError: there is nothing to see.
        """
        self.looks[look] = None
        seen = look_at(value, look)
        if seen is ABSENT:
            raise IndexError("the queue is empty")
        return seen


def watched(layout: Layout, values: Sequence[object], notes: Notes) -> Any:
    """A state that records each look; a look at a state that is no named tuple reads it as a whole.

    Args:
        layout: of the state.
        values: the flat state.
        notes: where it is noted.
    """
    return _watched(layout, 0, values, notes)


def _watched(layout: Layout, start: int, values: Sequence[object], notes: Notes) -> Any:
    if layout.fields is None:
        return _watched_variable(layout.places[0], start, values, notes)
    return _WatchedTuple(layout, start, values, notes)


def _watched_variable(place: _Place, start: int, values: Sequence[object], notes: Notes) -> Any:
    """``start``: of the state, or of the member, that has this variable."""
    position = start + place.offset
    if place.member is not None:
        return _WatchedFamily(place.member, place.members, position, values, notes)
    value = values[position]
    if isinstance(value, Fifo):
        return _WatchedQueue(lambda: value, notes, position)
    return notes.take(value, Look(position))


def changes_of(layout: Layout, after: object) -> dict[int, object]:
    """The values that a function has assigned, by positions; ``after`` is the state that it returned.

    Raises:
        ValueError: a family has another number of members than before.
    """
    changes: dict[int, object] = {}
    _note_changes(layout, 0, after, changes)
    return changes


def _note_changes(layout: Layout, start: int, after: Any, changes: dict[int, object]) -> None:
    # A part that was built anew, or stood elsewhere, counts as written in full.
    parts: Iterable[tuple[int, Any]]
    if isinstance(after, _WatchedTuple) and after._stood_at(layout, start):
        parts = after._written.items()
    else:
        parts = [(0, after)] if layout.fields is None else enumerate(after)
    part: Any
    for number, part in parts:
        offset, member, count = layout.places[number]
        if member is None:
            changes[start + offset] = _built(part)
            continue
        _require_as_many(part, count)
        members: Iterable[tuple[int, Any]]
        if isinstance(part, _WatchedFamily) and part._stood_at(member, start + offset):
            members = part._written.items()
        else:
            members = enumerate(part)
        for name, each in members:
            _note_changes(member, start + offset + name * member.width, each, changes)


class _Watched:
    """Records looks; builds its value when it is read as a whole."""

    __slots__ = ()

    def _whole(self) -> Any:
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return bool(self._whole() == _built(other))

    def __hash__(self) -> int:
        return hash(self._whole())

    def __repr__(self) -> str:
        return repr(self._whole())


def _built(value: object) -> object:
    return value._whole() if isinstance(value, _Watched) else value


class _WatchedTuple(_Watched):
    """Behaves as the named tuple that it stands for: a state, or a member of a family."""

    __slots__ = ("_layout", "_notes", "_start", "_values", "_written")

    def __init__(
        self,
        layout: Layout,
        start: int,
        values: Sequence[object],
        notes: Notes,
        written: Mapping[int, object] = MappingProxyType({}),
    ) -> None:
        self._layout = layout
        self._start = start
        self._values = values
        self._notes = notes
        self._written = written

    @property
    def _fields(self) -> tuple[str, ...] | None:
        return self._layout.fields

    def _stood_at(self, layout: Layout, start: int) -> bool:
        return self._layout is layout and self._start == start

    def _whole(self) -> Any:
        return self._layout.made(map(_built, self))

    def __getattr__(self, name: str) -> object:
        number = self._layout.numbers.get(name)
        if number is None:
            raise AttributeError(self._layout.strange(name))
        return self[number]

    def __getitem__(self, number: int) -> object:
        if number in self._written:
            return self._written[number]
        return _watched_variable(self._layout.places[number], self._start, self._values, self._notes)

    def _replace(self, **changes: object) -> "_WatchedTuple":
        numbers = self._layout.numbers
        if strange := [name for name in changes if name not in numbers]:
            raise ModelError(self._layout.strange(strange[0]))
        written = {**self._written, **{numbers[name]: value for name, value in changes.items()}}
        return _WatchedTuple(self._layout, self._start, self._values, self._notes, written)

    def __iter__(self) -> Iterator[object]:
        return iter([self[number] for number in range(len(self))])

    def __len__(self) -> int:
        return len(self._layout.places)


class _WatchedFamily(_Watched):
    """Behaves as the family that it stands for."""

    __slots__ = ("_count", "_member", "_notes", "_start", "_values", "_written")

    def __init__(
        self,
        member: Layout,
        count: int,
        start: int,
        values: Sequence[object],
        notes: Notes,
        written: Mapping[int, object] = MappingProxyType({}),
    ) -> None:
        """``start``: the position of the first member."""
        self._member = member
        self._count = count
        self._start = start
        self._values = values
        self._notes = notes
        self._written = written

    def _stood_at(self, member: Layout, start: int) -> bool:
        return self._member is member and self._start == start

    def _whole(self) -> Any:
        return Members(map(_built, self))

    def size(self) -> int:
        return self._count

    def names(self) -> range:
        return range(self._count)

    def get(self, name: int) -> Any:
        name = self.names()[name]
        if name in self._written:
            return self._written[name]
        return _watched(self._member, self._start + name * self._member.width, self._values, self._notes)

    def put(self, name: int, member: object) -> "_WatchedFamily":
        return self._with({**self._written, self.names()[name]: member})

    def map(self, change: Callable[..., object], *context: object) -> "_WatchedFamily":
        return self._with({name: change(self.get(name), *context) for name in self.names()})

    def _with(self, written: Mapping[int, object]) -> "_WatchedFamily":
        return _WatchedFamily(self._member, self._count, self._start, self._values, self._notes, written)

    def sum_of(self, measure: Callable[..., int], *context: object) -> int:
        return sum([measure(member, *context) for member in self])

    def every(self, holds: Callable[..., bool], *context: object) -> bool:
        return all(holds(member, *context) for member in self)

    def __iter__(self) -> Iterator[Any]:
        return map(self.get, self.names())

    def __len__(self) -> int:
        return self._count

    def __getitem__(self, name: int) -> Any:
        return self.get(name)


class _WatchedQueue(_Watched):
    """Behaves as the queue that it stands for."""

    __slots__ = ("_build", "_notes", "_variable")

    def __init__(self, build: Callable[[], Fifo[object]], notes: Notes, variable: int | None = None) -> None:
        """``variable`` is where the queue stands in the state; None: it was made of another queue."""
        self._build = build
        self._notes = notes
        self._variable = variable

    def _whole(self) -> Fifo[object]:
        queue = self._build()
        if self._variable is not None:
            self._notes.take(queue, Look(self._variable))
        return queue

    def _ask(self, question: str, *arguments: object) -> object:
        if self._variable is None or (arguments and not all(map(_is_lasting, arguments))):
            return getattr(self._whole(), question)(*arguments)
        return self._notes.take(self._build(), Look(self._variable, question, arguments))

    def _made(self, make: Callable[[Fifo[object]], Fifo[object]]) -> "_WatchedQueue":
        return _WatchedQueue(lambda: make(self._whole()), self._notes)

    def is_empty(self) -> object:
        return self._ask("is_empty")

    def size(self) -> object:
        return self._ask("size")

    def head(self) -> object:
        return self._ask("head")

    def last(self) -> object:
        return self._ask("last")

    def sum_of(self, *arguments: object) -> object:
        return self._ask("sum_of", *arguments)

    def fold(self, *arguments: object) -> object:
        return self._ask("fold", *arguments)

    def every(self, *arguments: object) -> object:
        return self._ask("every", *arguments)

    def push(self, item: object) -> "_WatchedQueue":
        return self._made(lambda queue: queue.push(_built(item)))

    def without_head(self) -> "_WatchedQueue":
        return self._made(lambda queue: queue.without_head())

    def without_last(self) -> "_WatchedQueue":
        return self._made(lambda queue: queue.without_last())

    def join(self, behind: "Fifo[object] | _WatchedQueue") -> "_WatchedQueue":
        return self._made(lambda queue: queue.join(Fifo(behind)))

    def __iter__(self) -> Iterator[object]:
        return iter(self._whole())

    def __len__(self) -> int:
        return len(self._whole())

    def __getitem__(self, position: int) -> object:
        return self._whole()[position]


def _is_lasting(argument: object) -> bool:
    """Is it the same object the next time?  A function that was made in a function is not."""
    return not isinstance(argument, _Watched) and "<" not in getattr(argument, "__qualname__", "")


class _Slot:
    """The bits of one look."""

    def __init__(self, shift: int, width: int) -> None:
        self.mask = ((1 << width) - 1) << shift
        self._shift = shift
        self._numbers: dict[object, int] = {}

    def bits_of(self, seen: object) -> int:
        """The bits of a look's result; equal results have equal bits."""
        return self._numbers.setdefault(seen, len(self._numbers)) << self._shift


class _Variable:
    """The values of a variable that were met, and the bits of all that is seen of each."""

    def __init__(self, name: str) -> None:
        self._name = name
        self.mask = 0
        """All bits that depend on the variable."""
        self.values: list[object] = []
        self._slots: list[tuple[Look, _Slot]] = []
        self.numbers: dict[object, int] = {}
        self.bits: list[int] = []

    def add(self, look: Look, slot: _Slot) -> None:
        """See more of each value."""
        self.mask |= slot.mask
        self._slots.append((look, slot))
        for number, value in enumerate(self.values):
            self.bits[number] |= slot.bits_of(look_at(value, look))

    def bits_of(self, value: object) -> int:
        """The bits of a value, which may be new.

        Raises:
            ModelError: the value cannot be hashed, so it is no value of a state.
        """
        try:
            number = self.numbers.get(value)
        except TypeError as error:
            raise ModelError(
                f"{self._name or 'the state'} would be {value!r}: {error}; use values that cannot change, as tuples, "
                "frozensets and kernel.queue.Fifo"
            ) from None
        if number is not None:
            return self.bits[number]
        self.numbers[value] = len(self.values)
        self.values.append(value)
        self.bits.append(sum(slot.bits_of(look_at(value, look)) for look, slot in self._slots))
        return self.bits[-1]


class Packing(Generic[S]):
    """Packs states that have the first one's layout."""

    def __init__(self, start: S, *, most_values: int) -> None:
        """No variable may have more than ``most_values`` values."""
        self.layout = Layout(start)
        self._width = max(1, (most_values - 1).bit_length())
        self._numbers: dict[Look, int] = {}
        self._slots: list[_Slot] = []
        self._variables = [*map(_Variable, self.layout.names())]
        for position in range(len(self._variables)):
            self.number_of(Look(position))
        # These are the lowest bits, and look for look they hold the numbers of the values.
        self._low = (1 << self._width) - 1
        self._shifts = range(0, len(self._variables) * self._width, self._width)
        self.identity = self.mask_of(range(self.looks))
        """States are equal if they agree in these bits."""

    @property
    def looks(self) -> int:
        """The number of looks with bits; when it has grown, states must be packed ``again``."""
        return len(self._slots)

    def number_of(self, look: Look) -> int:
        """A short name for a look, which from now on has bits of its own."""
        number = self._numbers.get(look)
        if number is None:
            number = self._numbers[look] = self.looks
            self._slots.append(_Slot(number * self._width, self._width))
            self._variables[look.variable].add(look, self._slots[number])
        return number

    def mask_of(self, looks: Iterable[int]) -> int:
        """The bits of some looks."""
        mask = 0
        for number in looks:
            mask |= self._slots[number].mask
        return mask

    def pack(self, state: S) -> int:
        """The state as a number."""
        packed = 0
        for variable, value in zip(self._variables, self.layout.flat(state), strict=True):
            packed |= variable.bits_of(value)
        return packed

    def unpack(self, packed: int) -> S:
        """The state that was packed."""
        return cast("S", self.layout.whole(self.values(packed)))

    def values(self, packed: int) -> list[object]:
        """The flat state."""
        low = self._low
        return [
            variable.values[packed >> shift & low]
            for variable, shift in zip(self._variables, self._shifts, strict=True)
        ]

    def again(self, packed: int) -> int:
        """The state, packed with the bits of all looks that have been added meanwhile."""
        low = self._low
        bits = 0
        for variable, shift in zip(self._variables, self._shifts, strict=True):
            bits |= variable.bits[packed >> shift & low]
        return bits

    def change(self, values: Mapping[int, object]) -> tuple[int, int]:
        """Bits to keep and bits to set where variables get these values: ``packed & keep | bits``."""
        changed = bits = 0
        for position, value in values.items():
            variable = self._variables[position]
            changed |= variable.mask
            bits |= variable.bits_of(value)
        return ((1 << self.looks * self._width) - 1) & ~changed, bits

    def stepped(self, packed: int, before: S, after: S) -> int:
        """Another state, packed; only objects that differ from those of the packed state are compared."""
        for position, value in self.layout.changed(before, after):
            variable = self._variables[position]
            packed = packed & ~variable.mask | variable.bits_of(value)
        return packed


P = TypeVar("P")
T = TypeVar("T")


class _Unknown:
    """Nothing is known here."""


_UNKNOWN = _Unknown()


class _Node(Generic[T]):
    """Looks that always follow each other, with the outcome of each of their results."""

    __slots__ = ("known", "looks", "mask")

    def __init__(self, looks: Sequence[int], mask: int) -> None:
        self.looks = looks
        """By their numbers."""
        self.mask = mask
        """The bits of the looks."""
        self.known: dict[int, _Tree[T]] = {}
        """By those bits."""


_Tree: TypeAlias = T | _Node[T] | _Unknown


class _Change:
    """Variables that get a value, as bits to keep and bits to set: ``packed & keep | bits`` is the next state."""

    __slots__ = ("bits", "keep", "values")

    def __init__(self, values: dict[int, object]) -> None:
        self.values = values
        self.keep, self.bits = 0, 0


class _Function(Generic[S, T]):
    """A function of states, and its cached outcomes."""

    __slots__ = ("_aside", "_misses", "_since", "_until", "evaluate", "name", "tree")

    def __init__(self, name: str, evaluate: Callable[[S], Any]) -> None:
        self.name = name
        """For complaints: what it is, and how it is spelt."""
        self.evaluate = evaluate
        self.tree: _Tree[T] = _UNKNOWN
        self._aside: _Tree[T] = _UNKNOWN
        """The tree, while it is set aside."""
        self._misses = 0
        self._since = 0
        self._until = 0

    def missed(self, visited: int) -> None:
        """Note that a state was looked up in vain, after so many states; set the tree aside if that is the rule."""
        self._misses += 1
        if self._misses % _ROUND == 0:
            if visited - self._since < _WORTHWHILE * _ROUND:
                self._aside, self.tree, self._until = self.tree, _ASIDE, 2 * visited
            self._since = visited

    def is_aside(self, visited: int) -> bool:
        """Is it quicker to call the function itself?"""
        if self.tree is not _ASIDE:
            return False
        if visited < self._until:
            return True
        self.tree, self._since = self._aside, visited
        return False


_ASIDE = _Unknown()
"""Stands for a tree that is set aside."""

_ROUND = 128
"""After this number of misses the explorer decides whether looking up pays."""

_WORTHWHILE = 3
"""Looking up and learning cost about as much as so many evaluations."""


class LookUp(Generic[S, P]):
    """The steps out of packed states, and the conditions that do not hold in them."""

    def __init__(
        self,
        system: System[S, P],
        parameters: P,
        conditions: Mapping[str, Callable[[S, P], bool]],
        *,
        most_states: int,
    ) -> None:
        """``most_states``: how many states may be packed."""
        moves = [(action, arguments) for action in system.actions for arguments in _arguments(action, parameters)]
        self.moves = [(action.name, arguments) for action, arguments in moves]
        """Names of actions with their arguments; elsewhere a move is a position in this list."""
        start = _initial(system, parameters)
        # Values are met one step ahead of the states that have them.
        self.packing = Packing(start, most_values=most_states + len(moves) + 1)
        with told("the initial state"):
            self.start = self.packing.pack(start)
        self.repackings = 0
        """How often the looks got new bits; each time, states that were packed before must be packed again."""
        self._moves: list[_Function[S, _Change | None]] = [
            _Function(
                f"action {call(action.name, arguments)!r}",
                partial(_after, action.perform, parameters, arguments, start),
            )
            for action, arguments in moves
        ]
        self._conditions: dict[str, _Function[S, bool]] = {
            name: _Function(f"invariant {name!r}", partial(truth_of, condition, parameters))
            for name, condition in conditions.items()
        }
        self._changes: list[_Change] = []
        self._visited = 0
        self._unpacked: tuple[int, S] = (self.start, start)
        """The last state that was unpacked."""

    def steps(self, packed: int) -> list[tuple[int, int]]:
        """All moves out of a state, each with the state it leads to, packed as at the end of the call."""
        self._visited += 1
        found = []
        for move, function in enumerate(self._moves):
            change = function.tree
            while isinstance(change, _Node):
                change = change.known.get(packed & change.mask, _UNKNOWN)
            if change is None:
                continue
            if isinstance(change, _Unknown):
                if function.is_aside(self._visited):
                    target = self._taken(function, packed)
                    if target is not None:
                        found.append((move, target))
                    continue
                repackings = self.repackings
                change = self._learn_change(function, packed)
                if self.repackings > repackings:
                    return self.steps(self.packing.again(packed))
                if change is None:
                    continue
            found.append((move, packed & change.keep | change.bits))
        return found

    def broken(self, packed: int) -> list[str]:
        """The names of the conditions that do not hold."""
        broken = []
        for name, function in self._conditions.items():
            holds = function.tree
            while isinstance(holds, _Node):
                holds = holds.known.get(packed & holds.mask, _UNKNOWN)
            if holds is True:
                continue
            if isinstance(holds, _Unknown):
                if function.is_aside(self._visited):
                    state = self._state(packed)
                    with told(function.name, state):
                        holds = function.evaluate(state)
                else:
                    repackings = self.repackings
                    holds = self._learn(function, packed, lambda holds: holds)
                    if self.repackings > repackings:
                        return self.broken(self.packing.again(packed))
            if not holds:
                broken.append(name)
        return broken

    def drop(self, condition: str) -> None:
        """Stop checking this condition."""
        del self._conditions[condition]

    def _state(self, packed: int) -> S:
        if self._unpacked[0] is not packed:
            self._unpacked = (packed, self.packing.unpack(packed))
        return self._unpacked[1]

    def _taken(self, function: _Function[S, _Change | None], packed: int) -> int | None:
        """Where a move leads, without looking it up; None if it is disabled."""
        before = self._state(packed)
        with told(function.name, before):
            after = function.evaluate(before)
            return None if after is None else self.packing.stepped(packed, before, after)

    def _learn_change(self, function: _Function[S, _Change | None], packed: int) -> _Change | None:
        change = self._learn(function, packed, self._change)
        if change is not None:
            self._changes.append(change)
            try:
                change.keep, change.bits = self.packing.change(change.values)
            except ModelError as error:
                _complain(function.name, self.packing.unpack(packed), error)
        return change

    def _change(self, after: S | None) -> _Change | None:
        return None if after is None else _Change(changes_of(self.packing.layout, after))

    def _learn(self, function: _Function[S, T], packed: int, conclude: Callable[[Any], T]) -> T:
        """Compute the outcome of a function, and cache it."""
        notes = Notes()
        try:
            outcome = conclude(function.evaluate(watched(self.packing.layout, self.packing.values(packed), notes)))
        except Exception as error:
            _complain(function.name, self.packing.unpack(packed), error)
        looks_before = self.packing.looks
        looks = [self.packing.number_of(look) for look in notes.looks]
        if self.packing.looks > looks_before:
            self.repackings += 1
            packed = self.packing.again(packed)
            for change in self._changes:
                change.keep, change.bits = self.packing.change(change.values)
        function.tree = self._grown(function.tree, packed, looks, outcome)
        function.missed(self._visited)
        return outcome

    def _grown(self, tree: _Tree[T], packed: int, looks: Sequence[int], outcome: T) -> _Tree[T]:
        """The tree with one more outcome."""
        if not looks:
            return outcome
        if not isinstance(tree, _Node):
            tree = _Node(looks, self.packing.mask_of(looks))
        shared = len(tree.looks)
        if tree.looks != looks[:shared]:
            # Not all of them are always taken.
            shared = sum(1 for _ in takewhile(bool, map(eq, tree.looks, looks)))
            tree = _Node(looks[:shared], self.packing.mask_of(looks[:shared]))
        bits = packed & tree.mask
        tree.known[bits] = self._grown(tree.known.get(bits, _UNKNOWN), packed, looks[shared:], outcome)
        return tree


def _initial(system: System[S, P], parameters: P) -> S:
    with told("the initial state"):
        start = system.initial(parameters)
        if start is None:
            raise ModelError("it is None; return a state")
    return start


def _arguments(action: Action[S, P], parameters: P) -> list[tuple[int, ...]]:
    """The arguments of an action, each a tuple."""
    with told(f"the arguments of action {action.name!r}"):
        found = list(action.arguments(parameters))
        if strange := [each for each in found if not isinstance(each, tuple)]:
            raise ModelError(f"each must be a tuple, as in [(1,), (2,)], not {strange[0]!r}")
    return found


def _after(perform: Callable[..., S], parameters: P, arguments: tuple[int, ...], like: object, state: S) -> S | None:
    """Where an action leads; None if it is disabled."""
    try:
        after = perform(state, parameters, *arguments)
    except Disabled:
        return None
    if not isinstance(after, _Watched) and not is_state(after, like=like):
        raise ModelError(no_state(after))
    return after


def truth_of(condition: Callable[[S, P], object], parameters: P, state: S) -> bool:
    """Does a condition hold?

    Raises:
        ModelError: it forgets to say so.
    """
    try:
        holds = condition(state, parameters)
    except Disabled:
        raise ModelError("`require` refuses, which is for actions; return whether it holds") from None
    if holds is None:
        raise ModelError("it returned None; return whether it holds")
    return bool(holds)


@contextmanager
def told(where: str, state: object = None) -> Iterator[None]:
    """Name the place of what goes wrong in the text of a model."""
    try:
        yield
    except Exception as error:
        _complain(where, state, error)


def _complain(where: str, state: object, error: Exception) -> NoReturn:
    place = where if state is None else f"{where} in state {state!r}"
    what = f"{error}" if isinstance(error, ModelError) else f"{type(error).__name__}: {error}"
    raise ModelError(f"{place}: {what}") from (None if isinstance(error, ModelError) else error)

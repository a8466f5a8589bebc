"""What a function of the model looks at in a state.

The text of a model runs on numbers and on Z3's terms; here it runs on a state that takes notes.  What comes of the
function is decided by what it has looked at: in every other state in which that is the same, the same comes of it.

A function looks at a whole variable (``state.permits``) or, of a queue, at less: whether it is empty, its oldest item,
the sum over it.  Queues are built when somebody looks at them: a guard that is only asked whether it holds throws away
the next state, and what would have been in it was not looked at.

States as integers, for searches that visit many of them.

Each variable has a few bits of its own, which hold the number of its value: values are numbered as they are met.
Other bits hold what functions of the model see when they look at a variable (``Look``).  So the states in
which a function sees the same are those that agree in the bits of its looks: ``packed & mask``.

Actions and conditions of a model, worked out once for all states in which they see the same.

What an action does depends on a few variables: delivering a message on the wire and the inbox, whatever the permits
are.  So it is worked out on a watched state, and remembered under what it has looked at there.

Where to look next may depend on what was seen: whoever finds the wire empty does not ask for its oldest message.  So
what is known is a tree: a node has some looks, and for what they see either the outcome or a node with further looks.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from itertools import takewhile
from operator import eq
from typing import Generic, NamedTuple, TypeAlias, TypeVar, cast

from permitflow_model.kernel.queue import Fifo
from permitflow_model.kernel.system import Disabled, System

__all__ = ["ABSENT", "Look", "LookUp", "Notes", "Packing", "changes_of", "look_at", "watched"]

S = TypeVar("S")


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
    """What is seen of a variable's value; ``ABSENT`` if there is nothing to see."""
    if not look.question:
        return value
    try:
        return getattr(value, look.question)(*look.arguments)
    except IndexError:
        return ABSENT


class Notes:
    """The looks of one evaluation, in the order in which they were first taken."""

    def __init__(self) -> None:
        """Nothing has been looked at."""
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


def watched(state: S, notes: Notes) -> S:
    """A state that takes notes of what is looked at.

    A state that is no named tuple is one variable, which is looked at as a whole.
    """
    if not hasattr(state, "_fields"):
        notes.take(state, Look(0))
        return state
    values = cast("tuple[object, ...]", state)
    return cast("S", _WatchedState(state._fields, values, notes))


def changes_of(after: object) -> dict[int, object]:
    """The variables that a function has given a value, by their positions; ``after`` is what it made of a state."""
    if isinstance(after, _WatchedState):
        return {position: _built(value) for position, value in after._written.items()}
    if hasattr(after, "_fields"):
        return {position: _built(value) for position, value in enumerate(cast("tuple[object, ...]", after))}
    return {0: after}


def _built(value: object) -> object:
    return value._whole() if isinstance(value, _WatchedQueue) else value


class _WatchedState:
    """Behaves as the named tuple that it stands for."""

    __slots__ = ("_fields", "_notes", "_values", "_written")

    def __init__(
        self,
        fields: tuple[str, ...],
        values: tuple[object, ...],
        notes: Notes,
        written: dict[int, object] | None = None,
    ) -> None:
        self._fields = fields
        self._values = values
        self._notes = notes
        self._written = written or {}

    def __getattr__(self, name: str) -> object:
        try:
            position = self._fields.index(name)
        except ValueError:
            raise AttributeError(f"a state has no variable {name!r}") from None
        return self[position]

    def __getitem__(self, position: int) -> object:
        if position in self._written:
            return self._written[position]
        value = self._values[position]
        if isinstance(value, Fifo):
            return _WatchedQueue(lambda: value, self._notes, position)
        return self._notes.take(value, Look(position))

    def _replace(self, **changes: object) -> "_WatchedState":
        written = self._written | {self._fields.index(name): value for name, value in changes.items()}
        return _WatchedState(self._fields, self._values, self._notes, written)

    def _as_tuple(self) -> tuple[object, ...]:
        return tuple(_built(self[position]) for position in range(len(self._values)))

    def __iter__(self) -> Iterator[object]:
        return iter([self[position] for position in range(len(self._values))])

    def __len__(self) -> int:
        return len(self._values)

    def __eq__(self, other: object) -> bool:
        return self._as_tuple() == (other._as_tuple() if isinstance(other, _WatchedState) else other)

    def __hash__(self) -> int:
        return hash(self._as_tuple())


class _WatchedQueue:
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
        return self._made(lambda queue: queue.push(item))

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

    def __eq__(self, other: object) -> bool:
        return self._whole() == (other._whole() if isinstance(other, _WatchedQueue) else other)

    def __hash__(self) -> int:
        return hash(self._whole())


def _is_lasting(argument: object) -> bool:
    """Is it the same object the next time?  A function that was made in a function is not."""
    return "<" not in getattr(argument, "__qualname__", "")


class _Slot:
    """The bits of one look."""

    def __init__(self, shift: int, width: int) -> None:
        self.mask = ((1 << width) - 1) << shift
        self._shift = shift
        self._numbers: dict[object, int] = {}

    def bits_of(self, seen: object) -> int:
        """The bits for what is seen; the same for equal things."""
        return self._numbers.setdefault(seen, len(self._numbers)) << self._shift


class _Variable:
    """The values of a variable that were met, and the bits of all that is seen of each."""

    def __init__(self) -> None:
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
        """The bits of a value, which may be new."""
        number = self.numbers.get(value)
        if number is not None:
            return self.bits[number]
        self.numbers[value] = len(self.values)
        self.values.append(value)
        self.bits.append(sum(slot.bits_of(look_at(value, look)) for look, slot in self._slots))
        return self.bits[-1]


class Packing(Generic[S]):
    """Packs states that are named tuples of as many variables as the first; any other state is one variable."""

    def __init__(self, start: S, *, most_values: int) -> None:
        """No variable may have more than ``most_values`` values."""
        self._type = type(start)
        self._is_tuple = hasattr(start, "_fields")
        self._width = max(1, (most_values - 1).bit_length())
        self._numbers: dict[Look, int] = {}
        self._slots: list[_Slot] = []
        self._variables = [_Variable() for _ in self._values_in(start)]
        for position in range(len(self._variables)):
            self.number_of(Look(position))
        # These are the lowest bits, and look for look they hold the numbers of the values.
        self._low = (1 << self._width) - 1
        self._shifts = range(0, len(self._variables) * self._width, self._width)
        self.identity = self.mask_of(range(self.looks))
        """States are equal if they agree in these bits."""

    @property
    def looks(self) -> int:
        """How many looks have bits; if there are more than before, states must be packed ``again``."""
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
        for variable, value in zip(self._variables, self._values_in(state), strict=True):
            packed |= variable.bits_of(value)
        return packed

    def unpack(self, packed: int) -> S:
        """The state that was packed."""
        low = self._low
        values = [
            variable.values[packed >> shift & low]
            for variable, shift in zip(self._variables, self._shifts, strict=True)
        ]
        return self._type(*values) if self._is_tuple else cast("S", values[0])

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

    def _values_in(self, state: S) -> Sequence[object]:
        return cast("Sequence[object]", state) if self._is_tuple else (state,)


P = TypeVar("P")
T = TypeVar("T")


class _Unknown:
    """Nothing is known here."""


_UNKNOWN = _Unknown()


class _Node(Generic[T]):
    """Looks that are always taken one after the other, and what comes of what they see."""

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
    """A function of states, and what is known of it."""

    __slots__ = ("tree", "work_out")

    def __init__(self, work_out: Callable[[S], T]) -> None:
        self.work_out = work_out
        self.tree: _Tree[T] = _UNKNOWN


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
        moves = [(action, arguments) for action in system.actions for arguments in action.arguments(parameters)]
        self.moves = [(action.name, arguments) for action, arguments in moves]
        """Names of actions with their arguments; elsewhere a move is a position in this list."""
        start = system.initial(parameters)
        # Values are met one step ahead of the states that have them.
        self.packing = Packing(start, most_values=most_states + len(moves) + 1)
        self.start = self.packing.pack(start)
        self.repackings = 0
        """How often looks were given bits; states that were packed before must be packed again each time."""
        self._moves: list[_Function[S, _Change | None]] = [
            _Function(partial(_change, action.perform, parameters, arguments)) for action, arguments in moves
        ]
        self._conditions: dict[str, _Function[S, bool]] = {
            name: _Function(partial(_truth, condition, parameters)) for name, condition in conditions.items()
        }
        self._changes: list[_Change] = []

    def steps(self, packed: int) -> list[tuple[int, int]]:
        """All moves out of a state, each with the state it leads to, packed as at the end of the call."""
        found = []
        for move, function in enumerate(self._moves):
            change = function.tree
            while isinstance(change, _Node):
                change = change.known.get(packed & change.mask, _UNKNOWN)
            if change is None:
                continue
            if isinstance(change, _Unknown):
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
                repackings = self.repackings
                holds = self._learn(function, packed)
                if self.repackings > repackings:
                    return self.broken(self.packing.again(packed))
            if not holds:
                broken.append(name)
        return broken

    def drop(self, condition: str) -> None:
        """Ask no more whether this condition holds."""
        del self._conditions[condition]

    def _learn_change(self, function: _Function[S, _Change | None], packed: int) -> _Change | None:
        change = self._learn(function, packed)
        if change is not None:
            self._changes.append(change)
            change.keep, change.bits = self.packing.change(change.values)
        return change

    def _learn(self, function: _Function[S, T], packed: int) -> T:
        """Work out what comes of a function, and remember it."""
        notes = Notes()
        outcome = function.work_out(watched(self.packing.unpack(packed), notes))
        looks_before = self.packing.looks
        looks = [self.packing.number_of(look) for look in notes.looks]
        if self.packing.looks > looks_before:
            self.repackings += 1
            packed = self.packing.again(packed)
            for change in self._changes:
                change.keep, change.bits = self.packing.change(change.values)
        function.tree = self._grown(function.tree, packed, looks, outcome)
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


def _change(perform: Callable[..., S], parameters: P, arguments: tuple[int, ...], state: S) -> _Change | None:
    """What an action does; None if it is disabled."""
    try:
        return _Change(changes_of(perform(state, parameters, *arguments)))
    except Disabled:
        return None


def _truth(condition: Callable[[S, P], bool], parameters: P, state: S) -> bool:
    return bool(condition(state, parameters))

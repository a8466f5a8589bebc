"""What a function of the model looks at in a state.

The text of a model runs on numbers and on Z3's terms; here it runs on a state that takes notes.  What comes of the
function is decided by what it has looked at: in every other state in which that is the same, the same comes of it.

A function looks at a whole variable (``state.permits``) or, of a queue, at less: whether it is empty, its oldest item,
the sum over it.  Queues are built when somebody looks at them: a guard that is only asked whether it holds throws away
the next state, and what would have been in it was not looked at.
"""

from collections.abc import Callable, Iterator
from typing import NamedTuple, TypeVar, cast

from permitflow_model.kernel.queue import Fifo

__all__ = ["ABSENT", "Look", "Notes", "changes_of", "look_at", "watched"]

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

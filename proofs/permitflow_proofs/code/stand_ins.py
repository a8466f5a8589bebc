"""What stands in for containers and built-in functions while the running code is walked with symbols.

A core is not changed.  Its deque of waiting messages becomes a ``Line``, any queue of the model's messages, and the
names ``len``, ``isinstance`` and a few more mean functions that know symbols, in the modules of the cores only, and
only while a claim about them is examined.
"""

import bisect
import itertools
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import ModuleType
from typing import Any, Generic, TypeVar, cast

from permitflow.flows.messages import Kind, Message
from permitflow_model.kernel.queue import Fifo, Queue
from permitflow_proofs.code import batches
from permitflow_proofs.kernel.paths import current_explorer
from permitflow_proofs.kernel.queue import SymbolicQueue
from permitflow_proofs.kernel.symbols import Integer, equal, integer, truth

T = TypeVar("T")
M = TypeVar("M")


class Line(Generic[M, T]):
    """A deque whose oldest items are any number of unknown ones: as much of its interface as the cores use."""

    def __init__(self, queue: Any, shown: Callable[[M], T], told: Callable[[T], M], appended: Sequence[T] = ()) -> None:
        """The code sees the queue's items as ``shown``; what it appends is ``told`` to the queue.

        ``appended``: the newest items, which are in the queue already, as the code knows them.
        """
        self.queue = queue
        self._shown = shown
        self._told = told
        self._appended = list(appended)
        """The newest items, as the code knows them."""

    def __bool__(self) -> bool:
        return not self.queue.is_empty()

    def size(self) -> int:
        """How many items it holds; ``len`` cannot say it, because Python wants a plain number."""
        size: int = self.queue.size()
        return size

    def __getitem__(self, position: int) -> T:
        if position != 0:
            raise TypeError(f"only the oldest item of a symbolic line can be read, not the one at {position}")
        if not self:
            raise IndexError("deque index out of range")
        return self._shown(self.queue.head())

    def __iter__(self) -> Iterator[T]:
        """Item after item, as long as there may be another one."""
        queue = self.queue
        while not queue.is_empty():
            yield self._shown(queue.head())
            queue = queue.without_head()

    def append(self, item: T) -> None:
        """As a deque's."""
        self._appended.append(item)
        self.queue = self.queue.push(self._told(item))

    def popleft(self) -> T:
        """As a deque's."""
        item = self[0]
        self.queue = self.queue.without_head()
        return item

    def pop(self) -> T:
        """As a deque's."""
        if not self:
            raise IndexError("pop from an empty deque")
        item = self._appended.pop() if self._appended else self._shown(self.queue.last())
        self.queue = self.queue.without_last()
        return item

    def index(self, item: T) -> int:
        """The position of an item that was appended."""
        behind = self._behind(item)
        if behind is None:
            raise ValueError("is not in deque")
        return self.size() - 1 - behind

    def _behind(self, item: T) -> int | None:
        """How many are behind an appended item; None: it is not here any more."""
        return next((n for n, one in enumerate(reversed(self._appended)) if one is item), None)

    def __delitem__(self, position: int) -> None:
        """Remove an appended item by the position that ``index`` gave."""
        behind = self.size() - 1 - position
        for number in range(len(self._appended)):
            if behind == number:
                break
        else:
            raise TypeError(f"no appended item of a symbolic line is at {position}")
        rest = self._appended[len(self._appended) - number :]
        del self._appended[len(self._appended) - number - 1 :]
        for _ in range(number + 1):
            self.queue = self.queue.without_last()
        for one in rest:
            self.append(one)


Run = tuple[Sequence[Any], Sequence[int], int, int | None]


class Inbox(Generic[M]):
    """A deque of entries: chunks in runs, and other messages by themselves; how long the runs are is not known.

    A run is shown with one chunk or two that are left of it, as the first or behind one that is gone: one that is the
    last of its run, and one that is not.
    """

    def __init__(
        self,
        queue: Any,
        message: Callable[[M], Any],
        told: Callable[[Any], M],
        shapes: list[tuple[bool, bool]],
    ) -> None:
        """The code sees an item as ``message``; a payload or a message is ``told`` to the queue.

        ``shapes``: of the runs, in the order in which they are taken: does it go on, has it begun before?  Objects that
        share it have runs of the same shape.
        """
        self.queue = queue
        self._message = message
        self._told = told
        self._shapes = shapes
        self._taken = 0
        self._rests: tuple[Any, list[Queue[M]]] = (None, [])
        """The run that was taken last, and what was left behind none of its chunks, behind its first, and so on."""

    def __bool__(self) -> bool:
        return not self.queue.is_empty()

    def __iter__(self) -> Iterator[Any]:
        while self:
            yield self.popleft()

    def append(self, entry: Any) -> None:
        """As a deque's."""
        if not isinstance(entry, tuple):
            self.queue = self.queue.push(self._told(entry))
            return
        payloads, rows, start, _ = entry
        for payload, size in zip(payloads[start:], rows[start:], strict=True):
            self.queue = self.queue.push(self._told(Message(Kind.CHUNK, payload, size)))

    def clear(self) -> None:
        """As a deque's."""
        self.queue = Fifo()

    def extend(self, entries: Sequence[Any]) -> None:
        """As a deque's."""
        for entry in entries:
            self.append(entry)

    def appendleft(self, run: Run) -> None:
        """Put back the rest of the run that was taken last."""
        payloads, rests = self._rests
        if run[0] is not payloads:
            raise TypeError("only the rest of the run that was taken last can be put back")
        self.queue = rests[run[2]]

    def popleft(self) -> Any:
        """As a deque's: a message, or a run."""
        if not self:
            raise IndexError("pop from an empty deque")
        message = self._message(self.queue.head())
        before, self.queue = self.queue, self.queue.without_head()
        if message.kind is not Kind.CHUNK:
            return message
        payloads, rows, rests = [message.payload], [message.rows], [before, self.queue]
        if self._taken == len(self._shapes):
            goes_on = bool(truth("the_run_goes_on"))
            self._shapes.append((goes_on, not goes_on and bool(truth("the_run_has_begun"))))
        goes_on, has_begun = self._shapes[self._taken]
        self._taken += 1
        if goes_on and self:
            following = self._message(self.queue.head())
            if following.kind is Kind.CHUNK:
                self.queue = self.queue.without_head()
                payloads.append(following.payload)
                rows.append(following.rows)
                rests.append(self.queue)
        start = 0
        if has_begun:
            start, payloads, rows, rests = 1, [None, *payloads], [integer("rows_gone"), *rows], [before, *rests]
        self._rests = payloads, rests
        return payloads, tuple(rows), start, None


class _Listed(SymbolicQueue[M]):
    """A queue that can be listed, because who lists it stops soon."""

    __slots__ = ()

    def __iter__(self) -> Iterator[M]:
        queue: SymbolicQueue[M] = self
        while not queue.is_empty():
            yield queue.head()
            queue = queue.without_head()


def pushed(queue: Any) -> tuple[Any, ...]:
    """The items of a symbolic queue that were pushed since it was any queue at all."""
    items: tuple[Any, ...] = queue.pushed
    return items


def listed_queue(queue: Any) -> Any:
    """The same queue; it is listed item after item, as long as there may be another one."""
    return queue.over(_Listed)


def _size(items: Any) -> int:
    size = getattr(items, "size", None)
    return cast(int, size()) if size is not None else len(items)


def _is_instance(value: object, kinds: Any) -> bool:
    """A symbolic integer is an integer, here; ``list`` is another name there."""
    kinds = list if kinds is batches.listed else kinds
    return isinstance(value, kinds) or (isinstance(value, Integer) and kinds is int)


def _first(items: Any, stop: int) -> Iterator[Any]:
    """``islice`` with a symbolic end."""
    for number, item in enumerate(items):
        if number >= stop:
            return
        yield item


_FEW = 8


def _least(*values: Any) -> Any:
    """``min``; of a number of a few things at hand and a symbol, which one it is: a list is sliced by it."""
    if len(values) == 2 and isinstance(values[0], int) and 0 <= values[0] <= _FEW and isinstance(values[1], Integer):
        few, other = values
        return few if other >= few else next((number for number in range(few) if other == number), other)
    return batches.least_of(*values)


_BUILT_IN: dict[str, object] = {
    "len": _size,
    "isinstance": _is_instance,
    "min": _least,
    "max": batches.largest_of,
    "sum": batches.total_of,
    "map": batches.mapped,
    "list": batches.listed,
    "frozenset": tuple,
}
_IMPORTED: dict[str, tuple[object, object]] = {
    "islice": (itertools.islice, _first),
    "accumulate": (itertools.accumulate, batches.accumulated),
    "bisect_left": (bisect.bisect_left, batches.first_of),
}


def _in_place_of(module: ModuleType) -> dict[str, object]:
    imported = {name: other for name, (own, other) in _IMPORTED.items() if vars(module).get(name) is own}
    return {**_BUILT_IN, **imported}


@contextmanager
def standing_in(modules: Sequence[ModuleType]) -> Iterator[None]:
    """In these modules a few names mean functions that know symbols."""
    current_explorer().need_symbols()
    before = [(module, dict(vars(module))) for module in modules]
    for module in modules:
        vars(module).update(_in_place_of(module))
    try:
        yield
    finally:
        for module, names in before:
            for name in _in_place_of(module) | _IMPORTED:
                if name in names:
                    vars(module)[name] = names[name]
                else:
                    vars(module).pop(name, None)


class Counted:
    """A queue of which only the number of items is known: an item is told by its place, from one end or the other."""

    __hash__ = None  # type: ignore[assignment]  # compared by symbols

    def __init__(self, size: int, gone: int = 0) -> None:
        """``size``: of the queue; ``gone``: how many have been taken from its head."""
        self._size = size
        self._gone = gone

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Counted) and equal(self._size, other._size)

    def size(self) -> int:
        """How many items it holds."""
        return self._size

    def is_empty(self) -> bool:
        """Is there nothing in it?"""
        return self._size <= 0

    def head(self) -> tuple[str, int]:
        """The oldest item."""
        return "oldest", self._gone

    def last(self) -> tuple[str, int]:
        """The newest item."""
        return "newest", 0

    def push(self, _item: object) -> "Counted":
        """One item more."""
        return Counted(self._size + 1, self._gone)

    def without_head(self) -> "Counted":
        """One less, of the oldest."""
        return Counted(self._size - 1, self._gone + 1)

    def without_last(self) -> "Counted":
        """One less, of the newest."""
        return Counted(self._size - 1, self._gone)

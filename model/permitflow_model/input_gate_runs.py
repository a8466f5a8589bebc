"""Many equal steps of ``InputGate`` at once, on queues that keep data by runs: for recordings, whose events are chunks.

The model moves one row at a time.  ``RUNS`` says where so many steps of an action lead; that its numbers are those of
one after the other is proved (``permitflow_proofs.code.input_gate``, "one more"), what its queues hold is compared by
tests.  Nothing is refused here: where not all of the steps are possible, ``Disabled`` only says that they have to be
made one by one.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache, reduce
from itertools import chain
from typing import Any, NamedTuple, TypeVar

from permitflow_model.input_gate_credit import (
    Content,
    Item,
    Parameters,
    State,
    content_in,
    content_of,
    followed_by,
    with_changes,
)
from permitflow_model.input_gate_queues import Promise, Span, promise_of, span_of
from permitflow_model.kernel.queue import Fifo, SummedFifo
from permitflow_model.kernel.system import require

V = TypeVar("V")
P = TypeVar("P")

# This many steps at once.


def _offered(state: State, parameters: Parameters, name: int, count: int) -> State:
    channel = state.channels.get(name)
    contents = [content_in(queue) for queue in (channel.waiting, channel.wire, channel.inbox)]
    require(parameters.backlog - sum([each.data + each.barriers for each in contents]) >= count)
    require(not channel.closed)
    return with_changes(state, name, waiting=runs_in(channel.waiting).grown(Item("data", channel.epoch, 0), count))


def _sent(state: State, _parameters: Parameters, name: int, count: int) -> State:
    return _left(state, name, count, content_in(state.channels.get(name).waiting).data - count)


def _sent_and_told(state: State, _parameters: Parameters, name: int, count: int) -> State:
    channel = state.channels.get(name)
    return _left(state, name, count, max(content_in(channel.waiting).data, channel.announced) - count)


def _left(state: State, name: int, count: int, told: int) -> State:
    channel = state.channels.get(name)
    waiting = runs_in(channel.waiting)
    require(waiting.leads(count))
    require(not channel.stopped)
    require(channel.credit >= count)
    wire, waiting = runs_in(channel.wire).filled(waiting, count, told), waiting.without(count)
    return with_changes(state, name, waiting=waiting, credit=channel.credit - count, announced=told, wire=wire)


def _delivered(state: State, _parameters: Parameters, name: int, count: int) -> State:
    channel = state.channels.get(name)
    wire = runs_in(channel.wire)
    require(wire.leads(count))
    left, inbox = wire.without(count), runs_in(channel.inbox).joined(wire, count)
    return with_changes(state, name, wire=left, inbox=inbox, required=left.told)


def _consumed(state: State, _parameters: Parameters, name: int, count: int) -> State:
    channel = state.channels.get(name)
    inbox = runs_in(channel.inbox)
    require(not state.failed)
    require(not channel.blocked)
    require(inbox.leads(count))
    home = min(channel.borrowed, count)
    kept = {"borrowed": channel.borrowed - home, "free": channel.free + count - home}
    return with_changes(state, name, inbox=inbox.without(count), **kept)._replace(pool=state.pool + home)


def _borrowed(state: State, _parameters: Parameters, name: int, count: int) -> State:
    channel = state.channels.get(name)
    require(state.pool >= count)
    require(not channel.released)
    require(not channel.over)
    require(channel.borrowed + count - content_in(channel.inbox).data <= channel.required)
    more = {"borrowed": channel.borrowed + count, "free": channel.free + count}
    return with_changes(state, name, **more)._replace(pool=state.pool - count)


def _withdrawn(state: State, _parameters: Parameters, name: int, count: int) -> State:
    waiting = runs_in(state.channels.get(name).waiting)
    require(waiting.ends(count))
    return with_changes(state, name, waiting=waiting.without_newest(count))


Many = Mapping[str, Callable[[State, Parameters, int, int], State]]

RUNS: Many = {
    "OfferData": _offered,
    "SendData": _sent,
    "Deliver": _delivered,
    "ConsumeData": _consumed,
    "Borrow": _borrowed,
}
"""The first n steps of each of these actions, in which data moves."""

RUNS_AFTER_WITHDRAWALS: Many = {
    **RUNS,
    "WithdrawData": _withdrawn,
    "SendAndTell": _sent_and_told,
    "DeliverOrReturn": _delivered,
}
"""Those of ``WithdrawingGate``, too; of what arrives, data."""


def runs_in(queue: Any) -> "ItemRuns":
    """A queue of a replay, or of an input that was lost; a proof has queues of its own, which answer to the same."""
    runs: ItemRuns = reduce(ItemRuns.push, queue, ItemRuns()) if isinstance(queue, Fifo) else queue
    return runs


_EMPTY = Content(0, 0, 0, 0)


class Run(NamedTuple):
    """Data that follow each other, or a single message of any kind."""

    last: Item
    length: int = 1
    falls: int = 0
    """By how much the backlog falls that each of them tells."""

    @property
    def first(self) -> Item:
        """The oldest of them."""
        return self.last if self.length == 1 else self.split(1)[0].last

    def items(self) -> Iterator[Item]:
        """One by one."""
        return (self.last._replace(backlog=self.last.backlog + self.falls * left) for left in range(self.length)[::-1])

    def split(self, count: int) -> "tuple[Run, Run]":
        """The first of them, and the others."""
        left = self.length - count
        told = self.last._replace(backlog=self.last.backlog + self.falls * left)
        return Run(told, count, self.falls), Run(self.last, left, self.falls)


@dataclass(slots=True, eq=False)
class ItemRuns:
    """A queue of a gate's items: its cost does not grow with the rows of a chunk."""

    _runs: SummedFifo[Run] = field(default_factory=SummedFifo)
    _content: Content = _EMPTY
    told: int = 0
    """By the data that were taken from it last."""

    def is_empty(self) -> bool:
        """Is there nothing in it?"""
        return self._content.items == 0

    def size(self) -> int:
        """How many items it holds."""
        return self._content.items

    def head(self) -> Item:
        """The oldest item."""
        return self._runs.head().first

    def last(self) -> Item:
        """The newest item."""
        return self._runs.last().last

    def push(self, item: Item) -> "ItemRuns":
        """The queue with one more item at its end."""
        return self._with(Run(item))

    def without_head(self) -> "ItemRuns":
        """The queue without its oldest item."""
        return self.without(1)

    def without_last(self) -> "ItemRuns":
        """The queue without its newest item."""
        return self.without_newest(1)

    def leads(self, count: int) -> bool:
        """Are its first items this many data?"""
        if self._content.items == self._content.data:
            return count <= self._content.data
        for run in self._runs:
            if count <= 0 or run.last.kind != "data":
                break
            count -= run.length
        return count <= 0

    def ends(self, count: int) -> bool:
        """Are its newest items this many data?"""
        lines = self.lines()
        return count <= 0 or (bool(lines) and lines[-1][0].kind == "data" and count <= lines[-1][1])

    def lines(self) -> list[tuple[Item, int]]:
        """Each message that is no data, and all data between two of them by the newest of it; with how many it is."""
        lines: list[tuple[Item, int]] = []
        for run in self._runs:
            ahead = lines.pop() if lines and lines[-1][0].kind == run.last.kind == "data" else (run.last, 0)
            lines.append((run.last, ahead[1] + run.length))
        return lines

    def grown(self, item: Item, count: int) -> "ItemRuns":
        """With this many more of one kind at its end."""
        return self._with(Run(item, count))

    def filled(self, waiting: "ItemRuns", count: int, told: int) -> "ItemRuns":
        """With this many data that waited; each tells how much is behind it, the last one this much."""
        return self._with(Run(Item("data", waiting.head().epoch, told), count, falls=1))

    def _with(self, run: Run) -> "ItemRuns":
        return ItemRuns(self._runs.push(run), followed_by(self._content, _content_of(run)))

    def joined(self, other: "ItemRuns", count: int) -> "ItemRuns":
        """With the first items of another one at its end."""
        queue = self
        for run in other._runs:
            queue = queue._with(run if run.length <= count else run.split(count)[0])
            count -= run.length
            if count <= 0:
                break
        return queue

    def without(self, count: int) -> "ItemRuns":
        """Without its first items, which are data, or the oldest item of any kind."""
        oldest, runs, content = self._runs.head(), self._runs.without_head(), self._content
        is_data, left = oldest.last.kind == "data", count - oldest.length
        while left > 0:
            oldest, runs = runs.head(), runs.without_head()
            left -= oldest.length
        if left < 0:
            oldest, later = oldest.split(oldest.length + left)
            runs = runs.preceded_by(later)
        if is_data:
            content = Content(content.items - count, content.data - count, content.barriers, content.behind)
        else:
            content = runs.sum_of(_content_of, followed_by, _EMPTY)
        return ItemRuns(runs, content, oldest.last.backlog)

    def without_newest(self, count: int) -> "ItemRuns":
        """Without this many of its newest items."""
        runs = list(self._runs)
        while count > 0:
            newest = runs.pop()
            if count < newest.length:
                runs.append(newest.split(newest.length - count)[0])
            count -= newest.length
        return reduce(ItemRuns._with, runs, ItemRuns())

    def sum_of(self, measure: Callable[..., V], plus: Callable[[V, V], V], nothing: V, *context: object) -> V:
        """The measures of all items together, oldest first."""
        if measure is content_of:
            return self._content  # type: ignore[return-value]  # of this measure
        of_run = _OF_RUN.get(measure)
        if of_run is None or context:
            return reduce(plus, [measure(item, *context) for item in self], nothing)
        return self._runs.sum_of(of_run, plus, nothing)

    def fold(self, follow: Callable[[V, Item, P], V], start: V, parameters: P) -> V:
        """Fold over the items, oldest first."""
        for run in self._runs:
            for item in run.items():
                before, start = start, follow(start, item, parameters)
                if not run.falls and start == before:
                    break  # the others are the same, and change nothing either
        return start

    def every(self, holds: Callable[[Item, P], bool], parameters: P) -> bool:
        """Does it hold for every item?  What holds of the largest and the smallest backlog, holds of all between."""
        return self._runs.every(_of_ends(holds), parameters)

    def __iter__(self) -> Iterator[Item]:
        """Oldest first."""
        return chain.from_iterable(run.items() for run in self._runs)

    def __eq__(self, other: object) -> bool:
        """Queues are equal if they hold equal items in the same order, whatever their kind."""
        return tuple(self) == tuple(other) if isinstance(other, ItemRuns | tuple) else NotImplemented

    def __hash__(self) -> int:
        """As the tuple of its items."""
        return hash(tuple(self))

    def __repr__(self) -> str:
        """Run by run: a refusal tells the state."""
        return f"ItemRuns{tuple(self._runs)!r}"


def _content_of(run: Run) -> Content:
    return content_of(run.last) if run.length == 1 else Content(run.length, run.length, 0, 0)


def _promise_of(run: Run) -> Promise:
    # Each tells as much more than the last one as there is data behind it, or the same.
    one = promise_of(run.last)
    return one._replace(data=one.data * run.length)


def _span_of(run: Run) -> Span:
    return span_of(run.last)


_OF_RUN: Mapping[Callable[..., Any], Callable[[Run], Any]] = {
    promise_of: _promise_of,
    span_of: _span_of,
}
"""What a run measures, by the measure of its items: their sum."""


@cache
def _of_ends(holds: Callable[[Item, P], bool]) -> Callable[[Run, P], bool]:
    def holds_of_run(run: Run, parameters: P) -> bool:
        return holds(run.last, parameters) and (not run.falls or holds(run.first, parameters))

    return holds_of_run

"""A graph of stages as ``permitflow.stages`` runs it: only how many elements there are, and who has asked whom.

Each kind of stage says what the class of its name in ``permitflow/stages/core/`` does, handler for handler.  The data
choose what a stage with an open ratio emits; the outside chooses when a source gives an element and when a sink asks.
The island runs its events in their order, and the outside has its turn when none is left.
"""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered

Token = str
"""Where the only ask or element of an arc is, and which of its ends is closed."""

IDLE: Final = "idle"
"""The inlet may ask."""
ASKING: Final = "asking"
"""An ask is on its way to the outlet."""
ASKED: Final = "asked"
"""The outlet may emit."""
ELEMENT: Final = "element"
"""An element is on its way to the inlet."""
HERE: Final = "here"
"""An element has arrived, and waits at the inlet."""
ENDING: Final = "ending"
"""The outlet has completed; the inlet has not heard of it."""
ELEMENT_ENDING: Final = "element, ending"
"""... with an element on its way before it."""
HERE_ENDING: Final = "here, ending"
"""... while an element waits at the inlet."""
HERE_ENDED: Final = "here, ended"
"""The inlet has heard of the end; an element waits there."""
CANCELLED: Final = "cancelled"
"""The inlet wants no more; the outlet has not heard of it."""
ASKED_CANCELLED: Final = "asked, cancelled"
"""... and may still emit: into nothing."""
CLOSED: Final = "closed"
"""Both ends know."""

TOKENS: Final = frozenset(
    {
        IDLE,
        ASKING,
        ASKED,
        ELEMENT,
        HERE,
        ENDING,
        ELEMENT_ENDING,
        HERE_ENDING,
        HERE_ENDED,
        CANCELLED,
        ASKED_CANCELLED,
        CLOSED,
    }
)
_AVAILABLE = frozenset({HERE, HERE_ENDING, HERE_ENDED})
_OUT_CLOSED = frozenset({ENDING, ELEMENT_ENDING, HERE_ENDING, HERE_ENDED, CLOSED})
_IN_CLOSED = frozenset({CANCELLED, ASKED_CANCELLED, HERE_ENDED, CLOSED})
_IS_ASKED = frozenset({ASKED, ASKED_CANCELLED})
_HAS_ENDED = frozenset({HERE_ENDED, CLOSED})

_COMPLETED = {
    IDLE: ENDING,
    ASKING: ENDING,
    ASKED: ENDING,
    ELEMENT: ELEMENT_ENDING,
    HERE: HERE_ENDING,
    CANCELLED: CLOSED,
    ASKED_CANCELLED: CLOSED,
}
_CANCELLED = {
    IDLE: CANCELLED,
    ASKING: CANCELLED,
    ASKED: ASKED_CANCELLED,
    ELEMENT: CANCELLED,
    HERE: CANCELLED,
    ENDING: CLOSED,
    ELEMENT_ENDING: CLOSED,
    HERE_ENDING: CLOSED,
}
_GRABBED = {HERE: IDLE, HERE_ENDING: ENDING, HERE_ENDED: CLOSED}

ANY: Final = -1
"""No bound."""


class Stage(NamedTuple):
    """A stage of the graph: its kind, with the numbers that the kind has."""

    kind: str
    elements: int = ANY
    """How many elements a source has."""
    takes: int = 1
    least: int = 1
    most: int = 1
    """What a stage takes, and the fewest and most that it gives for it."""
    capacity: int = 0
    """The places of a buffer; also a prefetch, a window, and the receive buffer of a client."""
    overflow: str = "block"
    batch: int = 1
    """The batch of a channel."""
    writes: int = 0
    """What a client writes before it reads."""


@dataclass(frozen=True)
class Parameters:
    """The graph."""

    stages: tuple[Stage, ...]
    arcs: tuple[tuple[int, int], ...]
    """From which stage to which."""
    inlets: tuple[tuple[int, ...], ...] = ()
    """For each stage, the arcs into it in the order of its inlets; by default in the order of the arcs."""
    outlets: tuple[tuple[int, ...], ...] = ()
    """... and the arcs out of it."""

    def __post_init__(self) -> None:
        """Refuse an arc to a stage that is not there.

        Raises:
            ValueError: a number or a kind is out of its range.
        """
        if unknown := [stage.kind for stage in self.stages if stage.kind not in KINDS]:
            raise ValueError(f"no stage is a {unknown[0]!r}; the kinds are {', '.join(KINDS)}")
        if wrong := [arc for arc in self.arcs if not all(0 <= end < len(self.stages) for end in arc)]:
            raise ValueError(f"the arc {wrong[0]} joins no two of the {len(self.stages)} stages")

    @cached_property
    def logics(self) -> "tuple[StageLogic, ...]":
        """What each stage does."""
        return tuple(KINDS[stage.kind](self, position) for position, stage in enumerate(self.stages))

    def inlets_of(self, position: int) -> tuple[int, ...]:
        """The arcs into a stage."""
        if self.inlets:
            return self.inlets[position]
        return tuple(arc for arc, ends in enumerate(self.arcs) if ends[1] == position)

    def outlets_of(self, position: int) -> tuple[int, ...]:
        """The arcs out of a stage."""
        if self.outlets:
            return self.outlets[position]
        return tuple(arc for arc, ends in enumerate(self.arcs) if ends[0] == position)

    @cached_property
    def has_loop(self) -> bool:
        """Does an arc lead back?"""
        left = set(range(len(self.stages)))
        while first := {each for each in left if not any(self.arcs[arc][0] in left for arc in self.inlets_of(each))}:
            left -= first
        return bool(left)


class State(NamedTuple):
    """The variables of the specification."""

    arcs: tuple[Token, ...]
    stages: tuple[tuple[int, ...], ...]
    """What each stage keeps; each kind says what that is."""
    queue: tuple[int, ...]
    """The arcs that have an event, in the order in which the island runs them."""


class Board:
    """A state while handlers change it."""

    __slots__ = ("arcs", "has_chosen", "more", "parameters", "queue", "stages")

    def __init__(self, state: State, parameters: Parameters) -> None:
        """Begin with a state."""
        self.arcs = [*state.arcs]
        self.stages = [*state.stages]
        self.queue = [*state.queue]
        self.parameters = parameters
        self.more = True
        """What the data choose, where they may: to emit one more."""
        self.has_chosen = False

    def state(self) -> State:
        """The state now."""
        return State(tuple(self.arcs), tuple(self.stages), tuple(self.queue))

    # What a stage does at its ports; as Connection.

    def ask(self, arc: int) -> None:
        """Ask for an element, unless the inlet has asked, has one, or is closed."""
        if self.arcs[arc] == IDLE:
            self.arcs[arc] = ASKING
            self.queue.append(arc)

    def grab(self, arc: int) -> None:
        """Take the element that has arrived."""
        self.arcs[arc] = _GRABBED[self.arcs[arc]]

    def cancel(self, arc: int) -> None:
        """Want no more."""
        token = self.arcs[arc]
        if token in _CANCELLED:
            self.arcs[arc] = _CANCELLED[token]
            if token in (IDLE, HERE, ASKED):
                self.queue.append(arc)

    def push(self, arc: int) -> None:
        """Emit an element."""
        token = self.arcs[arc]
        if token == ASKED:
            self.arcs[arc] = ELEMENT
            self.queue.append(arc)
        elif token == ASKED_CANCELLED:
            self.arcs[arc] = CANCELLED
        else:
            raise AssertionError(f"arc {arc} is {token}, and was not asked")

    def complete(self, arc: int) -> None:
        """End the stream."""
        token = self.arcs[arc]
        if token in _COMPLETED:
            self.arcs[arc] = _COMPLETED[token]
            if token in (IDLE, HERE, ASKED):
                self.queue.append(arc)

    def is_asked(self, arc: int) -> bool:
        """May the outlet emit?"""
        return self.arcs[arc] in _IS_ASKED

    def is_here(self, arc: int) -> bool:
        """Does an element wait at the inlet?"""
        return self.arcs[arc] in _AVAILABLE

    def has_ended(self, arc: int) -> bool:
        """Has the inlet heard of the end?"""
        return self.arcs[arc] in _HAS_ENDED

    def is_in_closed(self, arc: int) -> bool:
        """Has the inlet cancelled, or heard of the end?"""
        return self.arcs[arc] in _IN_CLOSED

    def is_out_closed(self, arc: int) -> bool:
        """Has the outlet completed, or heard of the cancellation?"""
        return self.arcs[arc] in _OUT_CLOSED

    def choose(self) -> bool:
        """Ask the data: one more?"""
        self.has_chosen = True
        return self.more

    # What the outside does.

    def give(self, source: int) -> None:
        """A source that is asked gives an element.

        Raises:
            Disabled: it is not asked, or has none.
        """
        logic, left = self._asked_source(source)
        require(left != 0)
        logic.keep(self, left - 1 if left > 0 else ANY)
        self.push(logic.outlet)

    def end(self, source: int) -> None:
        """A source that is asked has no element left, and ends.

        Raises:
            Disabled: it is not asked, or has one.
        """
        logic, left = self._asked_source(source)
        require(left == 0)
        self.complete(logic.outlet)

    def _asked_source(self, source: int) -> "tuple[StageLogic, int]":
        logic = self.parameters.logics[source]
        require(logic.stage.kind == "source")
        require(self.arcs[logic.outlet] == ASKED)
        return logic, logic.kept(self)[0]

    def want(self, sink: int) -> None:
        """A sink asks for its next element.

        Raises:
            Disabled: it has asked, or has heard of the end.
        """
        logic = self.parameters.logics[sink]
        require(logic.stage.kind == "sink")
        require(self.arcs[logic.inlet] == IDLE)
        self.ask(logic.inlet)

    # What the island does.

    def start(self) -> None:
        """Begin the run."""
        for logic in self.parameters.logics:
            logic.start(self)

    def run_event(self) -> None:
        """Run the first event of the queue."""
        arc = self.queue.pop(0)
        token, logics = self.arcs[arc], self.parameters.logics
        producer, consumer = self.parameters.arcs[arc]
        if token == ELEMENT:
            self.arcs[arc] = HERE
            logics[consumer].on_push(self, arc)
        elif token == ASKING:
            self.arcs[arc] = ASKED
            logics[producer].on_pull(self, arc)
        elif token == ELEMENT_ENDING:
            self.arcs[arc] = HERE_ENDING
            self.queue.append(arc)
            logics[consumer].on_push(self, arc)
        elif token in (ENDING, HERE_ENDING):
            self.arcs[arc] = CLOSED if token == ENDING else HERE_ENDED
            logics[consumer].on_upstream_finish(self, arc)
        elif token in (CANCELLED, ASKED_CANCELLED):
            self.arcs[arc] = CLOSED
            logics[producer].on_downstream_finish(self, arc)
            if self.parameters.has_loop:
                self._cancel_unwanted()

    def _cancel_unwanted(self) -> None:
        """What leads to no end any more but round in a loop runs for nobody."""
        ends = [logic.position for logic in self.parameters.logics if logic.is_end]
        wanted, seen = [*ends], {*ends}
        while wanted:
            for arc in self.parameters.logics[wanted.pop()].inlets:
                producer = self.parameters.arcs[arc][0]
                if not self.is_in_closed(arc) and producer not in seen:
                    seen.add(producer)
                    wanted.append(producer)
        for position in dict.fromkeys(end for arc in self.parameters.arcs for end in arc):
            if position not in seen:
                for arc in self.parameters.logics[position].inlets:
                    self.cancel(arc)


class StageLogic:
    """What one stage does; each handler as that of its class."""

    is_end = False
    """Does it take elements out of the graph?"""
    may_choose = False
    """Do the data decide what it emits?"""

    def __init__(self, parameters: Parameters, position: int) -> None:
        """The stage at this position."""
        self.position = position
        self.stage = parameters.stages[position]
        self.inlets = parameters.inlets_of(position)
        self.outlets = parameters.outlets_of(position)
        self.inlet = self.inlets[0] if self.inlets else -1
        self.outlet = self.outlets[0] if self.outlets else -1
        self.may_choose = self.stage.kind == "stage" and self.stage.least != self.stage.most

    def begin(self) -> tuple[int, ...]:
        """What it keeps in the beginning."""
        return ()

    def held(self, kept: tuple[int, ...]) -> int:
        """How many elements it keeps, beside those that wait at its inlets."""
        return 0

    def start(self, board: Board) -> None:
        """The run begins."""

    def on_push(self, board: Board, arc: int) -> None:
        """An element has arrived."""
        raise NotImplementedError

    def on_pull(self, board: Board, arc: int) -> None:
        """An element is asked for."""
        board.ask(self.inlet)

    def on_upstream_finish(self, board: Board, arc: int) -> None:
        """The stream before an inlet has ended."""
        self.complete_stage(board)

    def on_downstream_finish(self, board: Board, arc: int) -> None:
        """Nothing more is wanted at an outlet."""
        self.complete_stage(board)

    def complete_stage(self, board: Board) -> None:
        """Complete all outlets and cancel all inlets."""
        board.stages[self.position] = self.begin()
        for arc in self.outlets:
            board.complete(arc)
        for arc in self.inlets:
            board.cancel(arc)

    def kept(self, board: Board) -> tuple[int, ...]:
        """What it keeps now."""
        return board.stages[self.position]

    def keep(self, board: Board, *numbers: int) -> None:
        """Keep this from now on."""
        board.stages[self.position] = numbers


class _Source(StageLogic):
    """As Entry; keeps how many elements are left.

    With a capacity it stands for another part of the graph, which may have an element at once.
    """

    def __init__(self, parameters: Parameters, position: int) -> None:
        super().__init__(parameters, position)
        self.may_choose = self.stage.capacity > 0

    def begin(self) -> tuple[int, ...]:
        return (self.stage.elements,)

    def on_pull(self, board: Board, arc: int) -> None:
        if self.may_choose and self.kept(board)[0] != 0 and board.choose():
            board.give(self.position)

    def on_downstream_finish(self, board: Board, arc: int) -> None:
        """The outside is told."""


class _Sink(StageLogic):
    """As Exit, whose consumer takes each element at once; the outside asks.

    With a capacity of 1 it stands for another part of the graph, which may ask at once; with 2, for one that does.
    """

    is_end = True

    def __init__(self, parameters: Parameters, position: int) -> None:
        super().__init__(parameters, position)
        self.may_choose = self.stage.capacity == 1

    def start(self, board: Board) -> None:
        if self.stage.capacity > 1:
            board.ask(self.inlet)

    def on_push(self, board: Board, arc: int) -> None:
        board.grab(arc)
        if self.stage.capacity > 1 or (self.may_choose and board.choose()):
            board.ask(arc)

    def on_upstream_finish(self, board: Board, arc: int) -> None:
        """The outside is told."""


class _OneForOne(StageLogic):
    """As Map and Filter."""

    def on_push(self, board: Board, arc: int) -> None:
        board.grab(arc)
        if self.stage.least == 1 or board.choose():
            board.push(self.outlet)
        else:
            board.ask(arc)


class _Ratio(StageLogic):
    """As MapConcat, after it has taken a group; keeps its part of the next group, and what it gave of the last one.

    What it gave is counted up to the number at which nothing changes any more; -1: it has no group.
    """

    def begin(self) -> tuple[int, ...]:
        return (0, -1)

    def held(self, kept: tuple[int, ...]) -> int:
        return kept[0] + (1 if kept[1] >= 0 else 0)

    def on_push(self, board: Board, arc: int) -> None:
        board.grab(arc)
        taken = self.kept(board)[0] + 1
        if taken < self.stage.takes:
            self.keep(board, taken, -1)
            board.ask(arc)
        else:
            self.keep(board, 0, 0)
            self.on_pull(board, self.outlet)

    def on_pull(self, board: Board, arc: int) -> None:
        taken, given = self.kept(board)
        least, most = self.stage.least, self.stage.most
        if given >= 0:
            if (most == ANY or given < most) and (given < least or board.choose()):
                self.keep(board, taken, min(given + 1, least) if most == ANY else given + 1)
                board.push(self.outlet)
                return
            self.keep(board, taken, -1)
        if board.has_ended(self.inlet):
            self.complete_stage(board)
        else:
            board.ask(self.inlet)

    def on_upstream_finish(self, board: Board, arc: int) -> None:
        taken, given = self.kept(board)
        if taken:
            self.keep(board, 0, 0)
            if board.is_asked(self.outlet):
                self.on_pull(board, self.outlet)
        elif given < 0:
            self.complete_stage(board)


def _stage_logic(parameters: Parameters, position: int) -> StageLogic:
    stage = parameters.stages[position]
    return (_OneForOne if stage.takes == stage.most == 1 else _Ratio)(parameters, position)


class _Buffer(StageLogic):
    """As Buffer; keeps its number of elements."""

    def begin(self) -> tuple[int, ...]:
        return (0,)

    def held(self, kept: tuple[int, ...]) -> int:
        return kept[0]

    def start(self, board: Board) -> None:
        board.ask(self.inlet)

    def on_push(self, board: Board, arc: int) -> None:
        board.grab(arc)
        if board.is_asked(self.outlet):
            board.push(self.outlet)
        else:
            self._offer(board)
        self._ask(board)

    def _offer(self, board: Board) -> None:
        (count,) = self.kept(board)
        if count < self.stage.capacity:
            self.keep(board, count + 1)
        elif self.stage.overflow == "clear":
            self.keep(board, 1)
        elif self.stage.overflow == "fail":
            self.complete_stage(board)  # a failure and an end are not told apart

    def on_pull(self, board: Board, arc: int) -> None:
        (count,) = self.kept(board)
        if count:
            self.keep(board, count - 1)
            board.push(self.outlet)
        if board.has_ended(self.inlet) and count <= 1:
            self.complete_stage(board)
        self._ask(board)

    def _ask(self, board: Board) -> None:
        if self.kept(board)[0] < self.stage.capacity or self.stage.overflow != "block":
            board.ask(self.inlet)

    def on_upstream_finish(self, board: Board, arc: int) -> None:
        if not self.kept(board)[0]:
            self.complete_stage(board)


class _Unbounded(_Buffer):
    """As Unbounded; keeps its number of elements.

    With a capacity it counts no further: then as many, or more, are here, and one that leaves may leave as many.
    """

    def __init__(self, parameters: Parameters, position: int) -> None:
        super().__init__(parameters, position)
        self.may_choose = self.stage.capacity > 0

    def _offer(self, board: Board) -> None:
        (count,) = self.kept(board)
        if not self.stage.capacity or count < self.stage.capacity:
            self.keep(board, count + 1)

    def on_pull(self, board: Board, arc: int) -> None:
        is_more = self.may_choose and self.kept(board) == (self.stage.capacity,) and board.choose()
        super().on_pull(board, arc)
        if is_more and not board.is_out_closed(self.outlet):
            self.keep(board, self.stage.capacity)

    def _ask(self, board: Board) -> None:
        board.ask(self.inlet)


class _Boundary(StageLogic):
    """As AsyncBoundary; keeps its elements, how many are asked for, and how many leave before it asks for more."""

    def begin(self) -> tuple[int, ...]:
        return (0, 0, max(1, self.stage.capacity // 2))

    def held(self, kept: tuple[int, ...]) -> int:
        return kept[0]

    def start(self, board: Board) -> None:
        self._request(board, self.stage.capacity)

    def _request(self, board: Board, more: int) -> None:
        count, requested, left = self.kept(board)
        self.keep(board, count, requested + more, left)
        if requested + more > 0:
            board.ask(self.inlet)

    def on_push(self, board: Board, arc: int) -> None:
        board.grab(arc)
        count, requested, left = self.kept(board)
        self.keep(board, count + 1, requested, left)
        self._request(board, -1)
        if board.is_asked(self.outlet):
            self.on_pull(board, self.outlet)

    def on_pull(self, board: Board, arc: int) -> None:
        count, requested, left = self.kept(board)
        if count:
            batch = max(1, self.stage.capacity // 2)
            self.keep(board, count - 1, requested, left - 1 if left > 1 else batch)
            board.push(self.outlet)
            self._request(board, 0 if left > 1 else batch)
        if board.has_ended(self.inlet) and count <= 1:
            self.complete_stage(board)

    def on_upstream_finish(self, board: Board, arc: int) -> None:
        if not self.kept(board)[0]:
            self.complete_stage(board)


class _Channel(StageLogic):
    """A channel between two tasks that do at once what they can.

    Keeps: whether its producer waits with an element for a permit; the elements that were sent and not taken; whether
    one was taken and not consumed; the rows that were consumed and of which no permit has returned.
    """

    def begin(self) -> tuple[int, ...]:
        return (0, 0, 0, 0)

    def held(self, kept: tuple[int, ...]) -> int:
        return kept[0] + kept[1]

    def start(self, board: Board) -> None:
        board.ask(self.inlet)

    def on_push(self, board: Board, arc: int) -> None:
        board.grab(arc)
        self.keep(board, 1, *self.kept(board)[1:])
        self._send(board)
        self._take(board)

    def _send(self, board: Board) -> None:
        waits, sent, taken, consumed = self.kept(board)
        if sent + taken + consumed < self.stage.capacity:
            self.keep(board, 0, sent + waits, taken, consumed)
            board.ask(self.inlet)

    def _take(self, board: Board) -> None:
        waits, sent, _, consumed = self.kept(board)
        if sent and board.is_asked(self.outlet):
            self.keep(board, waits, sent - 1, 1, consumed)
            board.push(self.outlet)
        elif not (waits or sent) and board.has_ended(self.inlet):
            self.complete_stage(board)

    def on_pull(self, board: Board, arc: int) -> None:
        waits, sent, taken, consumed = self.kept(board)
        consumed += taken
        # Permits return in batches, and when nothing is left to be taken.
        self.keep(board, waits, sent, 0, 0 if consumed >= self.stage.batch or not sent else consumed)
        self._send(board)
        self._take(board)

    def on_upstream_finish(self, board: Board, arc: int) -> None:
        self._take(board)


class _Broadcast(StageLogic):
    """As Broadcast."""

    def on_pull(self, board: Board, arc: int) -> None:
        if all(board.is_asked(each) or board.is_out_closed(each) for each in self.outlets):
            board.ask(self.inlet)

    def on_push(self, board: Board, arc: int) -> None:
        board.grab(arc)
        for each in self.outlets:
            if not board.is_out_closed(each):
                board.push(each)

    def on_downstream_finish(self, board: Board, arc: int) -> None:
        if all(board.is_out_closed(each) for each in self.outlets):
            self.complete_stage(board)
        else:
            self.on_pull(board, arc)


class _Balance(StageLogic):
    """As Balance; keeps the outlets that have asked, in their order, behind -1 if its inlet ended with an element."""

    def on_pull(self, board: Board, arc: int) -> None:
        self.keep(board, *self.kept(board), arc)
        self._go_on(board)

    def on_push(self, board: Board, arc: int) -> None:
        self._go_on(board)

    def on_upstream_finish(self, board: Board, arc: int) -> None:
        if board.is_here(arc):
            self.keep(board, -1, *self.kept(board))
        else:
            self.complete_stage(board)

    def on_downstream_finish(self, board: Board, arc: int) -> None:
        if all(board.is_out_closed(each) for each in self.outlets):
            self.complete_stage(board)
        else:
            self._go_on(board)

    def _go_on(self, board: Board) -> None:
        has_ended = -1 in self.kept(board)
        waiting = [arc for arc in self.kept(board) if arc >= 0]
        while waiting and (board.is_in_closed(waiting[0]) or board.is_out_closed(waiting[0])):
            waiting.pop(0)
        if waiting and board.is_here(self.inlet):
            board.grab(self.inlet)
            board.push(waiting.pop(0))
        self.keep(board, *[-1] * has_ended, *waiting)
        if has_ended:
            if not board.is_here(self.inlet):
                self.complete_stage(board)
        elif waiting:
            board.ask(self.inlet)


class _Zip(StageLogic):
    """As Zip: what has arrived waits at its inlet."""

    def on_pull(self, board: Board, arc: int) -> None:
        for each in self.inlets:
            board.ask(each)

    def on_push(self, board: Board, arc: int) -> None:
        if all(board.is_here(each) for each in self.inlets):
            for each in self.inlets:
                board.grab(each)
            board.push(self.outlet)
            if any(board.has_ended(each) for each in self.inlets):
                self.complete_stage(board)

    def on_upstream_finish(self, board: Board, arc: int) -> None:
        if any(board.is_in_closed(each) and not board.is_here(each) for each in self.inlets):
            self.complete_stage(board)


class _Merge(StageLogic):
    """As Merge; keeps the inlets whose elements are here, in the order in which they leave."""

    prefers_first = False

    def held(self, kept: tuple[int, ...]) -> int:
        return len(kept)

    def on_push(self, board: Board, arc: int) -> None:
        board.grab(arc)
        held = self.kept(board)
        if self.prefers_first and arc == self.inlet:
            self.keep(board, arc, *held)
        else:
            self.keep(board, *held, arc)
        if board.is_asked(self.outlet):
            self._emit(board)

    def on_pull(self, board: Board, arc: int) -> None:
        if self.kept(board):
            self._emit(board)
        held = self.kept(board)
        if self._is_ended(board):
            if not held:
                self.complete_stage(board)
            return
        for each in self.inlets:
            if each not in held:
                board.ask(each)

    def _emit(self, board: Board) -> None:
        self.keep(board, *self.kept(board)[1:])
        board.push(self.outlet)

    def _is_ended(self, board: Board) -> bool:
        return all(board.has_ended(each) for each in self.inlets)

    def on_upstream_finish(self, board: Board, arc: int) -> None:
        if self._is_ended(board) and not self.kept(board):
            self.complete_stage(board)


class _MergePreferred(_Merge):
    """As Merge with ``prefers_first``."""

    prefers_first = True


class _Concat(StageLogic):
    """As Concat; keeps whose turn it is."""

    def begin(self) -> tuple[int, ...]:
        return (0,)

    def on_push(self, board: Board, arc: int) -> None:
        board.grab(arc)
        board.push(self.outlet)

    def on_pull(self, board: Board, arc: int) -> None:
        board.ask(self.inlets[self.kept(board)[0]])

    def on_upstream_finish(self, board: Board, arc: int) -> None:
        (turn,) = self.kept(board)
        while turn < len(self.inlets) and board.is_in_closed(self.inlets[turn]):
            turn += 1
        if turn == len(self.inlets):
            self.complete_stage(board)
            return
        self.keep(board, turn)
        if board.is_asked(self.outlet):
            board.ask(self.inlets[turn])


class _Conflate(_Buffer):
    """As Batch without a bound; keeps whether anything is gathered."""

    def _offer(self, board: Board) -> None:
        self.keep(board, 1)

    def _ask(self, board: Board) -> None:
        board.ask(self.inlet)


class _Expand(StageLogic):
    """As Expand, of a function that repeats its element; keeps whether one is new, and whether there is one."""

    def begin(self) -> tuple[int, ...]:
        return (0, 0)

    def held(self, kept: tuple[int, ...]) -> int:
        return kept[0]

    def start(self, board: Board) -> None:
        board.ask(self.inlet)

    def on_push(self, board: Board, arc: int) -> None:
        board.grab(arc)
        self.keep(board, 1, 1)
        if board.is_asked(self.outlet):
            self.on_pull(board, self.outlet)

    def on_pull(self, board: Board, arc: int) -> None:
        is_new, is_there = self.kept(board)
        if is_there:
            self.keep(board, 0, 1)
            board.push(self.outlet)
        if is_new:
            if board.has_ended(self.inlet):
                self.complete_stage(board)
            else:
                board.ask(self.inlet)

    def on_upstream_finish(self, board: Board, arc: int) -> None:
        if not self.kept(board)[0]:
            self.complete_stage(board)


class _BlockingClient(StageLogic):
    """Writes all, then reads; keeps how many elements it has to write, and how many of the answer are received."""

    is_end = True

    def begin(self) -> tuple[int, ...]:
        return (self.stage.writes, 0)

    def held(self, kept: tuple[int, ...]) -> int:
        return kept[1]

    def start(self, board: Board) -> None:
        self._go_on(board, *self.kept(board))

    def _go_on(self, board: Board, to_write: int, received: int) -> None:
        if not to_write:
            received = 0
            board.complete(self.outlet)
        self.keep(board, to_write, received)
        if not to_write or received < self.stage.capacity:
            board.ask(self.inlet)

    def on_pull(self, board: Board, arc: int) -> None:
        to_write, received = self.kept(board)
        board.push(self.outlet)
        self._go_on(board, to_write - 1, received)

    def on_push(self, board: Board, arc: int) -> None:
        board.grab(arc)
        to_write, received = self.kept(board)
        self._go_on(board, to_write, received + 1)

    def on_upstream_finish(self, board: Board, arc: int) -> None:
        """It has read the answer; what it still has to write, it writes."""

    def on_downstream_finish(self, board: Board, arc: int) -> None:
        self._go_on(board, 0, 0)


KINDS: Final[dict[str, Callable[[Parameters, int], StageLogic]]] = {
    "source": _Source,
    "sink": _Sink,
    "stage": _stage_logic,
    "buffer": _Buffer,
    "unbounded": _Unbounded,
    "boundary": _Boundary,
    "channel": _Channel,
    "broadcast": _Broadcast,
    "balance": _Balance,
    "zip": _Zip,
    "merge": _Merge,
    "merge_preferred": _MergePreferred,
    "concat": _Concat,
    "conflate": _Conflate,
    "expand": _Expand,
    "blocking_client": _BlockingClient,
}


def initial(parameters: Parameters) -> State:
    """Each stage has begun; no event has run."""
    stages = tuple(logic.begin() for logic in parameters.logics)
    board = Board(State((IDLE,) * len(parameters.arcs), stages, ()), parameters)
    board.start()
    return board.state()


def process_event(state: State, parameters: Parameters, more: int = 1) -> State:
    """The island runs the next event; ``more`` is 0 where the data choose to emit no more."""
    require(len(state.queue) > 0)
    board = Board(state, parameters)
    board.more = more != 0
    board.run_event()
    require(more != 0 or board.has_chosen)
    return board.state()


def give(state: State, parameters: Parameters, source: int) -> State:
    """A source that is asked gives an element."""
    require(len(state.queue) == 0)
    board = Board(state, parameters)
    board.give(source)
    return board.state()


def end(state: State, parameters: Parameters, source: int) -> State:
    """A source that is asked has no element left, and ends."""
    require(len(state.queue) == 0)
    board = Board(state, parameters)
    board.end(source)
    return board.state()


def want(state: State, parameters: Parameters, sink: int) -> State:
    """A sink asks for its next element."""
    require(len(state.queue) == 0)
    board = Board(state, parameters)
    board.want(sink)
    return board.state()


def type_ok(state: State, parameters: Parameters) -> bool:
    """An arc has at most one event, and has one if something is on its way."""
    moving = {ASKING, ELEMENT, ENDING, ELEMENT_ENDING, HERE_ENDING, CANCELLED, ASKED_CANCELLED}
    if len(set(state.queue)) != len(state.queue):
        return False
    return all(token in TOKENS and (token not in moving or arc in state.queue) for arc, token in enumerate(state.arcs))


def bounded(state: State, parameters: Parameters) -> bool:
    """No stage keeps more than it may."""
    for logic, kept in zip(parameters.logics, state.stages, strict=True):
        most = logic.stage.capacity + (1 if logic.stage.kind == "channel" else 0)
        if logic.stage.kind in ("buffer", "boundary", "channel", "blocking_client") and logic.held(kept) > most:
            return False
        if logic.stage.kind in ("merge", "merge_preferred") and len(set(kept)) < len(kept):
            return False
    return True


def has_ended(state: State, parameters: Parameters) -> bool:
    """Have all sinks, and all clients, heard of the end?"""
    ends = [arc for logic in parameters.logics if logic.is_end for arc in logic.inlets]
    return all(state.arcs[arc] == CLOSED for arc in ends)


def _positions(kind: str) -> Callable[[Parameters], Iterable[tuple[int, ...]]]:
    def positions(parameters: Parameters) -> Sequence[tuple[int, ...]]:
        return [(position,) for position, stage in enumerate(parameters.stages) if stage.kind == kind]

    return positions


SYSTEM: System[State, Parameters] = System(
    module="StageGraph",
    initial=initial,
    actions=(
        Action("ProcessEvent", process_event, arguments=lambda _: ((1,), (0,))),
        Action("Give", give, arguments=_positions("source"), is_environment=True, is_fair=True),
        Action("End", end, arguments=_positions("source"), is_environment=True, is_fair=True),
        Action("Want", want, arguments=_positions("sink"), is_environment=True, is_fair=True),
    ),
    invariants={"TypeOK": type_ok, "Bounded": bounded},
)


def _loop(merge: str, *arc: Stage, source_first: bool = True) -> Parameters:
    """A source goes into a loop: what leaves the join goes to a sink, and through the arc back into the join."""
    stages = (Stage("source"), Stage(merge), Stage("broadcast"), Stage("sink"), *arc)
    back = [(2, 4), *((4 + n, 5 + n) for n in range(len(arc) - 1)), (3 + len(arc), 1)] if arc else [(2, 1)]
    arcs = ((0, 1), (1, 2), (2, 3), *back)
    last = len(arcs) - 1
    inlets = tuple(tuple(n for n, ends in enumerate(arcs) if ends[1] == each) for each in range(len(stages)))
    if not source_first:
        inlets = (inlets[0], (last, 0), *inlets[2:])
    return Parameters(stages, arcs, inlets)


def _kicked_zip(size: int) -> Parameters:
    """A loop of pairs, in which the first element comes from a second source."""
    first = (Stage("source"), Stage("zip"), Stage("broadcast"), Stage("sink"), Stage("concat"))
    stages = (*first, Stage("source", elements=1), Stage("buffer", capacity=size))
    return Parameters(stages, ((0, 1), (1, 2), (2, 3), (2, 6), (5, 4), (6, 4), (4, 1)))


def _diamond(size: int, *branch: Stage) -> Parameters:
    """Two branches of a broadcast meet in a zip; one has a buffer, the other these stages."""
    stages = (Stage("source"), Stage("broadcast"), Stage("buffer", capacity=size), Stage("zip"), Stage("sink"), *branch)
    ends = [1, *range(5, 5 + len(branch)), 3]
    return Parameters(stages, ((0, 1), (1, 2), (2, 3), *pairwise(ends), (3, 4)))


def _echo(size: int) -> Parameters:
    """A client that writes ``size`` elements, then reads; its server has a buffer of 1, the client one of 1, too."""
    return Parameters(
        (Stage("blocking_client", writes=size, capacity=1), Stage("buffer", capacity=1)), ((0, 1), (1, 0))
    )


def _block(size: int) -> Stage:
    return Stage("buffer", capacity=size)


def _line(size: int) -> Parameters:
    """A source of ``size`` elements, a buffer of 1 and a sink."""
    stages = (Stage("source", elements=size), Stage("buffer", capacity=1), Stage("sink"))
    return Parameters(stages, ((0, 1), (1, 2)))


GRAPHS: Final[dict[str, Callable[[int], Parameters]]] = {
    "line": _line,
    "loop": lambda size: _loop("merge", _block(size)),
    "preferred loop": lambda size: _loop("merge_preferred", _block(size), source_first=False),
    "dropping loop": lambda size: _loop("merge", Stage("buffer", capacity=size, overflow="drop_oldest")),
    "halving loop": lambda size: _loop("merge", Stage("stage", takes=2), _block(size)),
    "doubling loop": lambda size: _loop("merge", Stage("stage", least=2, most=2), _block(size)),
    "zip loop": lambda size: _loop("zip", _block(size)),
    "kicked zip loop": _kicked_zip,
    "diamond": lambda size: _diamond(size, Stage("stage")),
    "filtered diamond": lambda size: _diamond(size, Stage("stage", least=0)),
    "grouped diamond": lambda size: _diamond(size, Stage("stage", takes=3, least=3, most=3)),
    "echo": _echo,
}
"""Graphs of the manifest, by their names, each with a size."""


def graph(*, graph: str, size: int) -> Parameters:
    """A graph of the manifest.

    Raises:
        ValueError: it has none of this name, or the size is below 1.
    """
    if graph not in GRAPHS or size < 1:
        raise ValueError(f"no graph {graph!r} of the size {size}; the graphs are {', '.join(GRAPHS)}")
    return GRAPHS[graph](size)


def done(state: State, parameters: Parameters) -> State:
    """Nothing moves any more: the run has ended, or is stuck."""
    require(next(SYSTEM.successors(state, parameters), None) is None)
    return state


def never_stuck(state: State, parameters: Parameters) -> bool:
    """Something moves, until all sinks and clients have heard of the end."""
    return next(SYSTEM.successors(state, parameters), None) is not None or has_ended(state, parameters)


REGISTERED = Registered(
    # With a step of its own where nothing moves, so that TLC visits all states of a graph that comes to a standstill.
    system=replace(
        SYSTEM,
        actions=(*SYSTEM.actions, Action("Done", done, is_environment=True)),
        invariants={**SYSTEM.invariants, "NeverStuck": never_stuck},
    ),
    parameters=graph,
)

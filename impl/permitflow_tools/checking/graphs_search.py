"""Explores a graph of stages from one state at rest to the next: the island runs to its end between them."""

from collections import deque
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import count
from random import Random
from typing import Final, NamedTuple

from permitflow_model.kernel.system import Disabled
from permitflow_model.stage_graph import (
    ANY,
    ASKED,
    ASKED_CANCELLED,
    ASKING,
    CANCELLED,
    CLOSED,
    IDLE,
    Board,
    Parameters,
    State,
    initial,
)
from permitflow_model.stage_graph_waits import dead_arcs, is_full_ring

_EVENTS_AT_ONCE: Final = 400
"""The outside has its turn after this many events, though the island goes on, as in a real run."""
_EVENTS_BEFORE_A_CIRCLE: Final = 40
"""States are compared after this many: an island that goes round without the outside comes back to one of them."""
_FOR_PRODUCER = frozenset({ASKING, CANCELLED, ASKED_CANCELLED})

GIVE: Final = "give"
END: Final = "end"
WANT: Final = "want"
GO_ON: Final = "go on"


class BudgetSpent(Exception):
    """There is more to explore than the caller allows."""


class Move(NamedTuple):
    """What the outside does, and what the data choose while the island runs to its end."""

    action: str
    stage: int
    choices: tuple[bool, ...] = ()
    events: int = _EVENTS_AT_ONCE
    """The island runs this many events at most: fewer, if it never comes to its end and the outside has its turn."""


class Taken(NamedTuple):
    """An element of one inlet has left a merge that prefers another one."""

    stage: int
    arc: int


@dataclass(frozen=True)
class RestEdge:
    """From one state at rest to another."""

    source: int
    target: int
    move: Move
    taken: frozenset[Taken]


class Reached(NamedTuple):
    """What the island may come to."""

    state: State
    choices: tuple[bool, ...]
    taken: frozenset[Taken]
    events: int


class Budget:
    """How many events all searches together may run."""

    def __init__(self, events: int) -> None:
        """``events`` are left."""
        self.left = events

    def spend(self) -> None:
        """Run one more.

        Raises:
            BudgetSpent: none is left.
        """
        self.left -= 1
        if self.left < 0:
            raise BudgetSpent

    @contextmanager
    def part(self, parts: int) -> "Iterator[Budget]":
        """One of this many parts of what is left; what it does not spend comes back."""
        part = Budget(max(0, self.left) // parts)
        self.left -= part.left
        try:
            yield part
        finally:
            self.left += max(0, part.left)


class _Ahead(NamedTuple):
    """A run of the island that has to go on."""

    board: Board
    choices: tuple[bool, ...]
    taken: frozenset[Taken]
    events: int
    more: bool
    """What the data choose next, if they may."""


def settle(board: Board, budget: Budget) -> Iterator[Reached]:
    """Run the island until it has no event left, for all choices of the data.

    If it goes round for ever, the outside has its turn in each state of the circle.
    """
    logics, arcs = board.parameters.logics, board.parameters.arcs
    preferring = [logic for logic in logics if logic.stage.kind == "merge_preferred"]
    ahead = [_Ahead(board, (), frozenset(), 0, more=True)]
    chosen = set[tuple[State, frozenset[Taken]]]()
    """Where the data have chosen: other choices before may lead there, too."""
    while ahead:
        board, choices, taken, events, more = ahead.pop()
        seen: dict[State, int] = {}
        circle: list[Reached] = []
        while board.queue and events < _EVENTS_AT_ONCE:
            budget.spend()
            arc = board.queue[0]
            acting = logics[arcs[arc][0 if board.arcs[arc] in _FOR_PRODUCER else 1]]
            before = _copy(board) if acting.may_choose and more else None
            held = [board.stages[logic.position] for logic in preferring]
            board.more, board.has_chosen = more, False
            board.run_event()
            events += 1
            for logic, was in zip(preferring, held, strict=True):
                left = {*was} - {*board.stages[logic.position]}
                if acting is logic and board.arcs[arc] == IDLE and arc in logic.inlets and arc not in was:
                    left |= {arc} - {*board.stages[logic.position]}
                if left:
                    taken |= {Taken(logic.position, each) for each in left}
            if board.has_chosen:
                if before is not None:
                    place = (before.state(), taken)
                    if place in chosen:
                        break
                    chosen.add(place)
                    ahead.append(_Ahead(before, choices, taken, events - 1, more=False))
                choices = (*choices, more)
            more = True
            if events > _EVENTS_BEFORE_A_CIRCLE and board.queue:
                state = board.state()
                if state in seen:
                    yield from circle[seen[state] :]
                    break
                seen[state] = len(circle)
                circle.append(Reached(state, choices, taken, events))
        else:
            yield Reached(board.state(), choices, taken, events if board.queue else _EVENTS_AT_ONCE)


def _copy(board: Board) -> Board:
    return Board(board.state(), board.parameters)


def moves_of(parameters: Parameters, state: State | Board) -> Iterator[Move]:
    """What the outside can do."""
    if state.queue:
        yield Move(GO_ON, -1)
    for position, logic in enumerate(parameters.logics):
        if logic.stage.kind == "source" and state.arcs[logic.outlet] == ASKED:
            yield Move(GIVE if state.stages[position][0] else END, position)
        elif logic.stage.kind == "sink" and state.arcs[logic.inlet] == IDLE:
            yield Move(WANT, position)


def perform(board: Board, move: Move) -> None:
    """Make the move, which comes from outside the island, before the island runs."""
    if move.action == GIVE:
        board.give(move.stage)
    elif move.action == END:
        board.end(move.stage)
    elif move.action == WANT:
        board.want(move.stage)


class Search:
    """The states at rest, and the moves between them, breadth first."""

    def __init__(self, parameters: Parameters, *, one_schedule: bool = False) -> None:
        """``one_schedule``: the outside moves in turn, which is enough if no stage sees in which order it moves."""
        self.parameters = parameters
        self._one_schedule = one_schedule
        self.states: list[State] = []
        self.edges: list[list[RestEdge]] = []
        self._parents: list[RestEdge | None] = []
        self._positions: dict[tuple[State, int], int] = {}
        self._turns: list[int] = []
        self._firsts: list[Move] = []
        self.dead: int | None = None
        """The first state in which an arc is dead."""
        self.is_whole = False

    def run(self, budget: Budget, *, stop_at_dead: bool = True) -> int | None:
        """Explore, up to the first state in which something waits for ever; return it.

        Raises:
            BudgetSpent: there is more.
        """
        for reached in settle(Board(initial(self.parameters), self.parameters), budget):
            if self._add(reached.state, 0, None, Move(GO_ON, -1, reached.choices, reached.events)) and stop_at_dead:
                return self.dead
        for position in count():
            if position >= len(self.states):
                break
            state = self.states[position]
            for move in self._moves(position):
                board = Board(state, self.parameters)
                perform(board, move)
                for reached in settle(board, budget):
                    moved = move._replace(choices=reached.choices, events=reached.events)
                    if self._add(reached.state, move.stage, (position, reached.taken), moved) and stop_at_dead:
                        return self.dead
        self.is_whole = True
        return self.dead

    def _moves(self, position: int) -> Sequence[Move]:
        moves = [*moves_of(self.parameters, self.states[position])]
        if not self._one_schedule or len(moves) < 2:
            return moves
        turn = self._turns[position]
        return [min(moves, key=lambda move: (move.stage <= turn, move.stage))]

    def _add(self, state: State, turn: int, edge: tuple[int, frozenset[Taken]] | None, move: Move) -> bool:
        """``edge``: from where, and what was taken; None: a beginning."""
        key = (state, turn if self._one_schedule else 0)
        target = self._positions.get(key)
        is_new = target is None
        if target is None:
            target = self._positions[key] = len(self.states)
            self.states.append(state)
            self.edges.append([])
            self._turns.append(turn)
            self._firsts.append(move)
            self._parents.append(None if edge is None else RestEdge(edge[0], target, move, edge[1]))
        if edge is not None:
            self.edges[edge[0]].append(RestEdge(edge[0], target, move, edge[1]))
        if is_new and self.dead is None and is_stuck(self.parameters, state):
            self.dead = target
            return True
        return False

    def path_to(self, position: int) -> list[Move]:
        """The moves of a shortest run; the first is the beginning."""
        moves: list[Move] = []
        while (edge := self._parents[position]) is not None:
            moves.append(edge.move)
            position = edge.source
        return [self._firsts[position], *reversed(moves)]


def is_stuck(parameters: Parameters, state: State) -> bool:
    """Does something wait for ever, and not only because sources have ended?"""
    dead = dead_arcs(parameters, state)
    if not dead:
        return False
    sources = [logic.outlet for logic in parameters.logics if logic.stage.kind == "source"]
    return all(state.arcs[arc] != CLOSED for arc in sources) or is_full_ring(parameters, state, dead)


def run_until_sources_end(parameters: Parameters, budget: Budget, most_moves: int) -> list[Move] | None:
    """The moves of a run in which all sources give what they have, and end; None: they are not that soon at their end.

    Raises:
        BudgetSpent: it is longer.
    """
    board = Board(initial(parameters), parameters)
    sources = [logic.outlet for logic in parameters.logics if logic.stage.kind == "source"]
    move, turn = Move(GO_ON, -1), 0
    moves: list[Move] = []
    while len(moves) < most_moves:
        perform(board, move)
        moves.append(move._replace(choices=_run(board, budget, Random(0), more=1.0)))
        possible = [*moves_of(parameters, board)]
        if not possible or all(board.is_out_closed(arc) for arc in sources):
            return moves
        move = min(possible, key=lambda each: (each.stage <= turn, each.stage))
        turn = move.stage
    return None


def run_until_dry(
    parameters: Parameters, losing: Collection[int], budget: Budget, seed: int, most_moves: int
) -> tuple[list[Move], State] | None:
    """A run after which stages wait for elements for ever, because sources have ended and nothing is left in a loop.

    Args:
        parameters: the graph.
        losing: the stages that emit as little as they may, once the sources with a number have ended.
        budget: of events.
        seed: of a leaning.
        most_moves: of the outside.

    Returns:
        Its moves and its last state; None: it does not end so within ``most_moves``.

    Raises:
        BudgetSpent: it is longer.
    """
    random = Random(seed)
    loses_all, more, first = _LEANINGS_TO_LOSE[seed % len(_LEANINGS_TO_LOSE)]
    board = Board(initial(parameters), parameters)
    sources = [logic for logic in parameters.logics if logic.stage.kind == "source" and logic.stage.elements != ANY]
    move, turn = Move(GO_ON, -1), 0
    moves: list[Move] = []
    while len(moves) < most_moves:
        perform(board, move)
        are_over = all(board.is_out_closed(logic.outlet) for logic in sources)
        moves.append(move._replace(choices=_run(board, budget, random, more, losing if are_over or loses_all else ())))
        possible = [*moves_of(parameters, board)]
        if are_over and (not possible or len(moves) % 4 == 0):
            state = board.state()
            dead = dead_arcs(parameters, state)
            if dead and not is_full_ring(parameters, state, dead):
                return moves, state
        if not possible:
            return None
        preferred = [each for each in possible if each.action == first] or possible
        move = min(preferred, key=lambda each: (each.stage <= turn, each.stage))
        turn = move.stage
    return None


_LEANINGS_TO_LOSE: Final = [
    (True, 1.0, ""),
    (False, 1.0, ""),
    (True, 0.8, WANT),
    (False, 0.8, WANT),
    (False, 0.5, GIVE),
]
"""Whether the first elements are lost already, how likely other data emit one more, and what the outside does first."""
_LEANINGS: Final = [(more, first) for first in (GIVE, "", WANT) for more in (1.0, 0.0, 0.5)]
"""How likely the data emit one more, and what the outside does rather than other things."""
_BETWEEN_LOOKS: Final = 16


def walk(parameters: Parameters, budget: Budget, seed: int, most_moves: int) -> list[Move] | None:
    """One run by chance, with a leaning of its own; the moves into a state in which something waits for ever, or None.

    Raises:
        BudgetSpent: it is longer.
    """
    random = Random(seed)
    more, first = _LEANINGS[seed % len(_LEANINGS)]
    board = Board(initial(parameters), parameters)
    moves = [Move(GO_ON, -1, _run(board, budget, random, more))]
    while len(moves) <= most_moves:
        if len(moves) % _BETWEEN_LOOKS == 1 and _stands(board):
            return _shortened(parameters, moves)
        possible = [*moves_of(parameters, board)]
        if not possible:
            break
        preferred = [move for move in possible if move.action == first] if random.random() < 0.95 else []
        chosen = random.choice(preferred or possible)
        perform(board, chosen)
        moves.append(chosen._replace(choices=_run(board, budget, random, more)))
    return _shortened(parameters, moves) if _stands(board) else None


def _stands(board: Board) -> bool:
    return is_stuck(board.parameters, board.state())


def _shortened(parameters: Parameters, moves: list[Move]) -> list[Move]:
    """The moves up to the first standstill, which was not looked for after each of them."""
    low, high = max(1, len(moves) - _BETWEEN_LOOKS), len(moves)
    while low < high:
        middle = (low + high) // 2
        if end_of(parameters, moves[:middle]) is None:
            low = middle + 1
        else:
            high = middle
    return moves[:high]


def end_of(parameters: Parameters, moves: Sequence[Move]) -> State | None:
    """The state at the end of a run, if that is a standstill."""
    board = Board(initial(parameters), parameters)
    for move in moves:
        try:
            perform(board, move)
        except Disabled:
            return None  # a source has fewer elements than the run takes
        for _ in _events_again(board, move):
            pass
    return board.state() if _stands(board) else None


def _run(board: Board, budget: Budget, random: Random, more: float, losing: Collection[int] = ()) -> tuple[bool, ...]:
    """``losing``: stages that never emit one more."""
    arcs = board.parameters.arcs
    choices: list[bool] = []
    for _ in range(_EVENTS_AT_ONCE):
        if not board.queue:
            break
        budget.spend()
        arc = board.queue[0]
        acting = arcs[arc][0 if board.arcs[arc] in _FOR_PRODUCER else 1]
        board.more, board.has_chosen = random.random() < more and acting not in losing, False
        board.run_event()
        if board.has_chosen:
            choices.append(board.more)
    return tuple(choices)


class Replayed(NamedTuple):
    """A step of a run: a move of the outside, or an event of the island."""

    state: State
    move: Move | None = None
    arc: int = -1
    """The arc with the event; -1: none."""
    token: str = ""
    """What was on it."""
    more: bool = True
    """What the data chose."""


def steps_of(board: Board, move: Move) -> Iterator[Replayed]:
    """Take the steps of one move."""
    if move.action != GO_ON:
        perform(board, move)
        yield Replayed(board.state(), move)
    for arc, token, more in _events_again(board, move):
        yield Replayed(board.state(), None, arc, token, more)


def _events_again(board: Board, move: Move) -> Iterator[tuple[int, str, bool]]:
    """Run the events behind a move as before: of each the arc, what was on it, and what the data chose."""
    choices = deque(move.choices)
    for _ in range(move.events):
        if not board.queue:
            return
        arc = board.queue[0]
        token = board.arcs[arc]
        board.more, board.has_chosen = choices[0] if choices else True, False
        board.run_event()
        if board.has_chosen and choices:
            choices.popleft()
        yield arc, token, not board.has_chosen or board.more

"""Long runs of graphs with large numbers: what repeats itself is taken many times at once.

Stages compare the number of elements that they hold with nothing but 0, 1 and their capacity.  So if a part of a run
leads back to the same state but for numbers that are far from both, it can be taken again, as often as they stay so.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from permitflow_model.stage_graph import ANY, Board, Parameters, State, initial
from permitflow_tools.checking.graphs_search import (
    GIVE,
    GO_ON,
    WANT,
    Budget,
    Move,
    Replayed,
    is_stuck,
    moves_of,
    perform,
    steps_of,
)

_FAR: Final = 6
"""A number this far from both ends of its range decides nothing."""
_MOST_MOVES: Final = 2_000
_GO_ON: Final = Move(GO_ON, -1, events=40)
"""States are compared, too, within a long way of the island to its end."""
_ENDLESS: Final = 1 << 40


class Leap(NamedTuple):
    """What the last steps did, again and again."""

    steps: int
    """How many steps these were."""
    times: int
    changes: tuple[tuple[int, int, int], ...]
    """What all these times change: the stage, which of its numbers, and by how much it grows."""

    def take(self, board: Board) -> None:
        """Change the numbers."""
        for stage, index, more in self.changes:
            kept = [*board.stages[stage]]
            kept[index] += more
            board.stages[stage] = tuple(kept)


Script: TypeAlias = Sequence[Move | Leap]


class Course(NamedTuple):
    """Where one run has come to."""

    script: list[Move | Leap]
    state: State
    is_stuck: bool
    is_over: bool
    """Nothing new can come: it has come back to itself, or nobody can move."""


@dataclass(frozen=True)
class _Number:
    """A number that a stage keeps, with its range."""

    stage: int
    index: int
    most: int
    """ANY: no bound."""

    def is_far(self, value: int) -> bool:
        return value >= _FAR and (self.most == ANY or value <= self.most - _FAR)

    def room(self, value: int, step: int) -> int:
        """How many steps it can be changed by and stay far."""
        if step < 0:
            return (value - _FAR) // -step
        return _ENDLESS if self.most == ANY else (self.most - _FAR - value) // step


def _numbers_of(parameters: Parameters) -> list[_Number]:
    found = []
    for position, stage in enumerate(parameters.stages):
        match stage.kind:
            case "source":
                found.append(_Number(position, 0, ANY))
            case "buffer":
                found.append(_Number(position, 0, stage.capacity))
            case "unbounded":
                found.append(_Number(position, 0, ANY))
            case "blocking_client":
                found += [_Number(position, 0, ANY), _Number(position, 1, stage.capacity)]
    return found


def run_with_leaps(parameters: Parameters, budget: Budget, *, more: bool, first: str) -> Course:
    """One run: the data always emit ``more`` or never do, and the outside does ``first`` what it prefers.

    Raises:
        BudgetSpent: it is longer.
    """
    numbers = _numbers_of(parameters)
    board = Board(initial(parameters), parameters)
    script: list[Move | Leap] = []
    seen: dict[tuple[object, ...], int] = {}
    """The place of each form of a state in the history."""
    history: list[_Span] = []
    move, turn = _GO_ON, 0
    while len(history) < _MOST_MOVES:
        perform(board, move)
        choices, span = _settled(board, budget, numbers, more=more)
        if move.action != GO_ON:
            span = span._replace(steps=span.steps + 1)
        script.append(move._replace(choices=choices, events=_GO_ON.events))
        if not board.queue and is_stuck(parameters, board.state()):
            return Course(script, board.state(), is_stuck=True, is_over=True)
        history.append(span)
        form = (*_form(board, numbers, span.values), turn)
        if form in seen:
            period = history[seen[form] :]
            if period[0].values == span.values:
                return Course(script, board.state(), is_stuck=False, is_over=not board.queue)
            if leap := _leap(numbers, period):
                leap.take(board)
                script.append(leap)
                seen.clear()
                history.clear()
        if history:
            seen[form] = len(history) - 1
        if board.queue:
            move = _GO_ON
            continue
        possible = [*moves_of(parameters, board)]
        if not possible:
            return Course(script, board.state(), is_stuck=False, is_over=True)
        preferred = [each for each in possible if each.action == first] or possible
        move = min(preferred, key=lambda each: (each.stage <= turn, each.stage))
        turn = move.stage
    return Course(script, board.state(), is_stuck=False, is_over=False)


def _form(board: Board, numbers: Sequence[_Number], values: Sequence[int]) -> Iterator[object]:
    """The state, without numbers that are far from the ends of their ranges."""
    yield tuple(board.arcs)
    yield tuple(board.queue)
    free = {(number.stage, number.index) for number, value in zip(numbers, values, strict=True) if number.is_far(value)}
    yield tuple(
        tuple("far" if (stage, index) in free else value for index, value in enumerate(kept))
        for stage, kept in enumerate(board.stages)
    )


def _leap(numbers: Sequence[_Number], period: "Sequence[_Span]") -> Leap | None:
    """How often the part of the run between two states of the same form can be taken again."""
    times = _ENDLESS
    changes = []
    for place, number in enumerate(numbers):
        step = period[-1].values[place] - period[0].values[place]
        if not step:
            continue
        low = min(span.low[place] for span in period)
        high = max(span.high[place] for span in period)
        if not (number.is_far(low) and number.is_far(high)):
            return None
        times = min(times, number.room(low if step < 0 else high, step) - 1)
        changes.append((number.stage, number.index, step))
    if not 1 <= times < _ENDLESS:
        return None
    return Leap(
        sum(span.steps for span in period[1:]),
        times,
        tuple((stage, index, step * times) for stage, index, step in changes),
    )


class _Span(NamedTuple):
    """The numbers after a move, and how small and how large they were meanwhile."""

    values: list[int]
    low: list[int]
    high: list[int]
    steps: int


def _settled(board: Board, budget: Budget, numbers: Sequence[_Number], *, more: bool) -> tuple[tuple[bool, ...], _Span]:
    """Run the island to its end: what the data have chosen, and the numbers."""
    choices = []
    steps = 0
    values = [board.stages[number.stage][number.index] for number in numbers]
    low, high = [*values], [*values]
    for _ in range(_GO_ON.events):
        if not board.queue:
            break
        budget.spend()
        steps += 1
        board.more, board.has_chosen = more, False
        board.run_event()
        if board.has_chosen:
            choices.append(more)
        values = [board.stages[number.stage][number.index] for number in numbers]
        low, high = [*map(min, low, values)], [*map(max, high, values)]
    return tuple(choices), _Span(values, low, high, steps)


def courses(parameters: Parameters, budget: Budget) -> Iterator[Course]:
    """Runs of all leanings; the first one is enough where neither data nor order decide anything.

    Raises:
        BudgetSpent: they are longer.
    """
    for more in (True, False):
        for first in (WANT, GIVE):
            yield run_with_leaps(parameters, budget, more=more, first=first)


def replay_script(parameters: Parameters, script: Script) -> "Iterator[tuple[Leap | None, Replayed]]":
    """Take the steps of a run; a leap stands for what is taken again."""
    board = Board(initial(parameters), parameters)
    yield None, Replayed(board.state())
    for move in script:
        if isinstance(move, Leap):
            move.take(board)
            yield move, Replayed(board.state())
        else:
            for step in steps_of(board, move):
                yield None, step

"""Which stages of a graph wait for each other for ever, in a state of its island.

An arc is dead if nothing can move on it any more, whatever the outside and the data do.  Its stage waits for other
arcs that are dead, too; so there is a ring among them.  The dead arcs are the largest set of which this holds.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from permitflow_model.stage_graph import ANY, ASKED, ASKING, ELEMENT, HERE, IDLE, Parameters, StageLogic, State

_OPEN = frozenset({IDLE, ASKED, HERE})
_MOVING = frozenset({ASKING, ELEMENT})


@dataclass(frozen=True)
class Wait:
    """A stage waits for another one."""

    stage: int
    on: int
    for_element: bool
    """For an element of the other one; else until that asks."""


Rule = Callable[[StageLogic, State, int], tuple[Sequence[int], bool]]
"""For an open arc at one of the stage's ports: the arcs it waits for there, and whether any one of them is enough."""


def _open(arcs: Iterable[int], state: State, *tokens: str) -> list[int]:
    return [arc for arc in arcs if state.arcs[arc] in (tokens or _OPEN)]


def _never(logic: StageLogic, state: State, arc: int) -> tuple[Sequence[int], bool]:
    return (), True


def _through(logic: StageLogic, state: State, arc: int) -> tuple[Sequence[int], bool]:
    """One inlet, one outlet: an asked outlet waits for the inlet, an idle inlet for the outlet."""
    return (logic.inlets if state.arcs[arc] == ASKED else logic.outlets), False


def _broadcast(logic: StageLogic, state: State, arc: int) -> tuple[Sequence[int], bool]:
    return (_open(logic.outlets, state, IDLE, HERE) or logic.inlets), False


def _balance(logic: StageLogic, state: State, arc: int) -> tuple[Sequence[int], bool]:
    return (logic.inlets if state.arcs[arc] == ASKED else _open(logic.outlets, state)), True


def _zip(logic: StageLogic, state: State, arc: int) -> tuple[Sequence[int], bool]:
    if state.arcs[logic.outlet] != ASKED:
        return logic.outlets, False
    return _open(logic.inlets, state, ASKED, IDLE), False


def _merge(logic: StageLogic, state: State, arc: int) -> tuple[Sequence[int], bool]:
    return (_open(logic.inlets, state) if state.arcs[arc] == ASKED else logic.outlets), True


def _concat(logic: StageLogic, state: State, arc: int) -> tuple[Sequence[int], bool]:
    if state.arcs[arc] == ASKED:
        return [logic.inlets[state.stages[logic.position][0]]], False
    turn = logic.inlets[min(state.stages[logic.position][0], len(logic.inlets) - 1)]
    return ([turn] if arc != turn and state.arcs[turn] == ASKED else logic.outlets), False


_RULES: Final[dict[str, Rule]] = {
    "source": _never,
    "sink": _never,
    "broadcast": _broadcast,
    "balance": _balance,
    "zip": _zip,
    "merge": _merge,
    "merge_preferred": _merge,
    "concat": _concat,
}
"""The rules of the kinds that are no ``_through``."""


def _waits(parameters: Parameters, state: State, arc: int) -> tuple[Sequence[int], bool]:
    """The arcs that the stage waits for which has to move on this one."""
    logic = parameters.logics[parameters.arcs[arc][0 if state.arcs[arc] == ASKED else 1]]
    return _RULES.get(logic.stage.kind, _through)(logic, state, arc)


def dead_arcs(parameters: Parameters, state: State) -> frozenset[int]:
    """The arcs on which nothing can move any more: no element, no ask and no end.

    Where an island goes round and never rests, nothing is dead at its stages that have an event; while an end is on its
    way, nothing is dead at all.
    """
    if any(state.arcs[arc] not in _MOVING for arc in state.queue):
        return frozenset()
    busy = {stage for arc in state.queue for stage in parameters.arcs[arc]}
    waits = {
        arc: _waits(parameters, state, arc)
        for arc, token in enumerate(state.arcs)
        if token in _OPEN and busy.isdisjoint(parameters.arcs[arc])
    }
    dead = _largest(waits, {arc for arc, (others, _) in waits.items() if others})
    ending = _ending(parameters, state, dead) if dead else set()
    if ending:
        dead = _largest(waits, {arc for arc in dead if not ending.intersection(parameters.arcs[arc])})
    return frozenset(dead)


def _largest(waits: Mapping[int, tuple[Sequence[int], bool]], dead: set[int]) -> set[int]:
    while alive := [arc for arc in dead if not _is_dead(*waits[arc], dead)]:
        dead.difference_update(alive)
    return dead


def _ending(parameters: Parameters, state: State, dead: Collection[int]) -> set[int]:
    """The stages that may yet end though some arcs stand still: because all before them end, and they hold nothing."""
    ending = {
        logic.position
        for logic in parameters.logics
        if logic.stage.kind == "source" and state.stages[logic.position][0] != ANY and logic.outlet not in dead
    }
    while more := {logic.position for logic in parameters.logics if _ends_next(logic, parameters, state, ending, dead)}:
        ending |= more
    return ending


def _ends_next(
    logic: StageLogic, parameters: Parameters, state: State, ending: Collection[int], dead: Collection[int]
) -> bool:
    if logic.position in ending or logic.stage.kind == "source":
        return False
    if any(arc in dead for arc in logic.outlets) and logic.held(state.stages[logic.position]):
        return False
    ends = [state.arcs[arc] not in _OPEN | _MOVING or parameters.arcs[arc][0] in ending for arc in logic.inlets]
    return any(ends) if logic.stage.kind == "zip" else all(ends)


def _is_dead(others: Sequence[int], is_any_enough: bool, dead: Collection[int]) -> bool:
    return (all if is_any_enough else any)(other in dead for other in others)


def is_full_ring(parameters: Parameters, state: State, dead: Collection[int]) -> bool:
    """Does any ring have a stage that holds an element and waits until it is asked?  Else all wait for elements."""
    waits = {arc: [other for other in _waits(parameters, state, arc)[0] if other in dead] for arc in dead}
    for arc in dead:
        if state.arcs[arc] == ASKED:
            continue
        ahead, seen = [arc], set[int]()
        while ahead:
            for other in waits[ahead.pop()]:
                if other == arc:
                    return True
                if other not in seen:
                    seen.add(other)
                    ahead.append(other)
    return False


def ring_of(parameters: Parameters, state: State, dead: Collection[int]) -> tuple[Wait, ...]:
    """A ring of stages that wait for each other, among dead arcs; of several, one with the fewest stages."""
    best: tuple[int, ...] = ()
    for start in sorted(dead):
        arcs, seen = start, [start]
        while True:
            arcs = next(other for other in sorted(_waits(parameters, state, arcs)[0]) if other in dead)
            if arcs in seen:
                ring = (*seen[seen.index(arcs) :],)
                break
            seen.append(arcs)
        if not best or len(ring) < len(best):
            best = ring
    return tuple(_wait(parameters, state, arc) for arc in best)


def _wait(parameters: Parameters, state: State, arc: int) -> Wait:
    """Across this arc: who waits for whom."""
    producer, consumer = parameters.arcs[arc]
    is_asked = state.arcs[arc] == ASKED
    return Wait(consumer, producer, for_element=True) if is_asked else Wait(producer, consumer, for_element=False)

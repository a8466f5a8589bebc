"""Steps that are looked up are the steps that the model's own text takes, whatever it looks at."""

from collections.abc import Callable, Mapping
from dataclasses import replace
from operator import add
from pathlib import Path
from typing import NamedTuple, TypeVar

import pytest

from permitflow_model import bounded_queue
from permitflow_model.exploration import parameters_for
from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.family import Members
from permitflow_model.kernel.queue import Fifo, Queue
from permitflow_model.kernel.system import Action, Step, System, require
from permitflow_model.manifest import Model, read_manifest
from permitflow_model.permit_channel import SYSTEM
from tests.support import shared_pool

S = TypeVar("S")
P = TypeVar("P")

MODELS = [
    model
    for model in read_manifest(Path(__file__).parents[2] / "spec").values()
    if model.module in (SYSTEM.module, f"{SYSTEM.module}Probes")
]


class Plain(NamedTuple):
    """What a search finds that evaluates everything in every state."""

    states: list[object]
    edges: list[tuple[int, str, int]]
    broken: dict[str, int]
    """The first state that breaks an invariant."""
    ends: list[int]
    """States that no step leaves."""
    depths: list[int]


def search(system: System[S, P], parameters: P, invariants: Mapping[str, Callable[[S, P], bool]]) -> Plain:
    start = system.initial(parameters)
    states, depths, edges = [start], [1], []
    positions = {start: 0}
    for source, state in enumerate(states):
        for step in system.successors(state, parameters):
            if step.state not in positions:
                positions[step.state] = len(states)
                states.append(step.state)
                depths.append(depths[source] + 1)
            edges.append((source, step.action, positions[step.state]))
    broken: dict[str, int] = {}
    for position, state in enumerate(states):
        for name, holds in invariants.items():
            if name not in broken and not holds(state, parameters):
                broken[name] = position
    ends = sorted(set(range(len(states))) - {source for source, _, _ in edges})
    return Plain(list(states), edges, broken, ends, depths)


def compare(system: System[S, P], parameters: P, invariants: Mapping[str, Callable[[S, P], bool]]) -> Plain:
    """Explore in both ways; what was found."""
    plain = search(system, parameters, invariants)
    graph = explore(system, parameters, invariants=invariants)
    assert graph.states == plain.states
    assert graph.edges == plain.edges
    assert graph.depth == plain.depths[-1]
    assert graph.state_count == len(plain.states)
    assert {violation.invariant: len(violation.steps) + 1 for violation in graph.violations} == {
        name: plain.depths[position] for name, position in plain.broken.items()
    }
    assert (graph.deadlock is None) == (not plain.ends)
    if graph.deadlock is not None:
        assert graph.deadlock.steps == graph.path_to(plain.ends[0])
    for violation in graph.violations:
        assert is_run(system, parameters, violation.start, violation.steps)
        last = violation.steps[-1].state if violation.steps else violation.start
        assert last == plain.states[plain.broken[violation.invariant]]
    return plain


def is_run(system: System[S, P], parameters: P, state: S, steps: tuple[Step[S], ...]) -> bool:
    for step in steps:
        state = system.perform(step.action, state, parameters, *step.arguments)
        if state != step.state:
            return False
    return True


@pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
def test_all_models_of_the_permit_channel(model: Model) -> None:
    compare(SYSTEM, parameters_for(model), {name: SYSTEM.statements[name] for name in model.invariants})


def test_some_models_break_invariants_and_some_get_stuck() -> None:
    """Or the comparison above would say little about them."""
    assert {model.expect.kind for model in MODELS} >= {"success", "invariant", "deadlock"}


def test_a_system_whose_states_are_built_from_scratch() -> None:
    parameters = bounded_queue.Parameters(bound=3, costs=(1, 2), ids=(0, 1), line=2)
    compare(bounded_queue.SYSTEM, parameters, bounded_queue.SYSTEM.invariants)


# Texts that look in unusual ways.


class Line(NamedTuple):
    """Numbers in a queue, and how many have left it."""

    queue: Queue[int]
    gone: int


def enter(line: Line, most: int, number: int) -> Line:
    require(line.queue.size() < most)
    return line._replace(queue=line.queue.push(number))


def leave(line: Line, _most: int) -> Line:
    require(not line.queue.is_empty() and line.gone < 3)
    return line._replace(queue=line.queue.without_head(), gone=line.gone + 1)


def itself(number: int) -> int:
    return number


LINE: System[Line, int] = System(
    module="Line",
    initial=lambda _: Line(Fifo(), 0),
    actions=(Action("Enter", enter, lambda _: [(1,), (2,)]), Action("Leave", leave)),
    invariants={},
)

CONDITIONS: dict[str, Callable[[Line, int], bool]] = {
    "the whole state": lambda line, _: line != Line(Fifo((2, 2)), 1),
    "the state as a tuple": lambda line, _: tuple(line) != ((1, 2), 2) and line[1] < 9,
    "its variables": lambda line, _: len([*line]) == 2 and hash(line) == hash(tuple(line)),
    "the items": lambda line, _: [*line.queue] != [1, 1, 2],
    "a queue as a tuple": lambda line, _: line.queue != Fifo((2, 1, 2)),
    "two queues": lambda line, _: line.queue == line._replace(gone=0).queue,
    "an item in the middle": lambda line, _: line.queue.size() < 3 or list(line.queue)[1] == 1,
    "a sum": lambda line, _: line.queue.sum_of(itself, add, 0) < 6,
    "a function that is new each time": lambda line, most: line.queue.sum_of(lambda number: number * most, add, 0) < 17,
    "something else later": lambda line, _: line.gone < 2 or line.queue.is_empty() or line.queue.last() == 1,
    "more and more": lambda line, _: line.queue.fold(lambda a, b, _: a + b, line.gone, None) < 8,
    "a queue that was made": lambda line, _: line.queue.push(7).size() < 4,
    "another state": lambda line, _: line._replace(gone=7).gone == 7,
    "a function made of it": lambda line, most: LINE.is_enabled("Leave", line, most) or line.gone < 3,
}


@pytest.mark.parametrize("condition", CONDITIONS)
def test_a_condition_that_looks_at(condition: str) -> None:
    found = compare(LINE, 3, {condition: CONDITIONS[condition]})
    assert len(found.states) == 15 * 4


def test_conditions_that_look_at_more_and_more_together() -> None:
    found = compare(LINE, 3, CONDITIONS)
    assert 0 < len(found.broken) < len(CONDITIONS)


def test_an_action_that_looks_at_the_whole_state() -> None:
    def swap(line: Line, _most: int) -> Line:
        queue, gone = line
        require(gone > 0)
        return Line(Fifo([*queue][::-1]), gone)

    compare(replace(LINE, actions=(*LINE.actions, Action("Swap", swap))), 3, {})


def test_an_action_that_writes_what_it_has_not_seen() -> None:
    def forget(line: Line, _most: int) -> Line:
        return line._replace(gone=0)

    compare(replace(LINE, actions=(*LINE.actions, Action("Forget", forget))), 3, {})


# Families, whose members are looked at variable by variable.


@pytest.mark.parametrize(("channels", "permits", "largest"), [(1, 1, 2), (2, 3, 2), (3, 2, 2)])
def test_channels_that_share_a_pool(channels: int, permits: int, largest: int) -> None:
    parameters = shared_pool.Parameters(channels=channels, permits=permits, largest=largest)
    compare(shared_pool.SYSTEM, parameters, shared_pool.SYSTEM.invariants)


class Pair(NamedTuple):
    """One of some places, and what is in it."""

    number: int
    items: Queue[int]


class Places(NamedTuple):
    """Some places with two variables, and some with one."""

    pairs: Members[Pair]
    marks: Members[int]


def put_in(places: Places, most: int, name: int) -> Places:
    pair = places.pairs.get(name)
    require(pair.number < most)
    return places._replace(pairs=places.pairs.put(name, Pair(pair.number + 1, pair.items.push(name))))


def take_out(places: Places, _most: int, name: int) -> Places:
    pair = places.pairs.get(name)
    require(not pair.items.is_empty())
    pairs = places.pairs.put(name, pair._replace(number=pair.number - 1, items=pair.items.without_head()))
    return places._replace(pairs=pairs, marks=places.marks.put(name, pair.items.head()))


def exchange(places: Places, _most: int) -> Places:
    """Members that stood elsewhere, and a family that was made of another one."""
    first, second = places.pairs
    return places._replace(pairs=places.pairs.put(0, second).put(1, first), marks=places.marks.map(abs))


def begin_again(places: Places, _most: int) -> Places:
    require(places.marks != (1, 1))
    return Places(Members([Pair(0, Fifo())] * 2), Members((1, places.marks[0])))


PLACES: System[Places, int] = System(
    module="Places",
    initial=lambda _: Places(Members([Pair(0, Fifo())] * 2), Members((0, -1))),
    actions=(
        Action("PutIn", put_in, lambda _: [(0,), (1,)]),
        Action("TakeOut", take_out, lambda _: [(0,), (1,)]),
        Action("Exchange", exchange),
        Action("BeginAgain", begin_again),
    ),
    invariants={},
)


def is_below(pair: Pair, bound: int) -> bool:
    return pair.number < bound


def number_of(pair: Pair) -> int:
    return pair.number


OF_FAMILIES: dict[str, Callable[[Places, int], bool]] = {
    "every member": lambda places, most: places.pairs.every(is_below, most),
    "a sum": lambda places, _: places.pairs.sum_of(number_of) < 3,
    "a member as a whole": lambda places, _: places.pairs.get(1) != Pair(1, Fifo((1,))),
    "two members": lambda places, _: places.pairs.get(0) != places.pairs.get(1) or places.pairs.get(0).number == 0,
    "the family as a tuple": lambda places, _: places.pairs != (Pair(0, Fifo((0,))), Pair(0, Fifo())),
    "the members in turn": lambda places, _: [pair.number for pair in places.pairs] != [1, 2],
    "a family of numbers": lambda places, _: places.marks.every(int.__lt__, 1) and hash(places.marks) != 0,
    "another family": lambda places, _: places.marks.put(0, 5).get(0) == 5 and places.marks.map(abs).get(1) < 2,
    "its size": lambda places, _: places.pairs.size() == len(places.pairs) == len([*places.pairs.names()]),
}


@pytest.mark.parametrize("condition", OF_FAMILIES)
def test_a_condition_that_looks_at_a_family(condition: str) -> None:
    assert len(compare(PLACES, 2, {condition: OF_FAMILIES[condition]}).states) > 100


# What is noted.

"""Echoes, loops and diamonds of small sizes are stuck exactly where their theorems say so."""

from dataclasses import replace
from itertools import product
from typing import Any

import pytest

from permitflow_model import blocking_echo, diamond, feedback_loop, stage_graph
from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.system import System
from permitflow_model.stage_graph import GRAPHS, Stage

DEAD = frozenset({"NeverStuck"})


def broken(system: System[Any, Any], parameters: object) -> frozenset[str]:
    graph = explore(system, parameters, invariants={"NeverStuck": system.invariants["NeverStuck"]})
    return frozenset(violation.invariant for violation in graph.violations)


# The echo.

# W, S, C, h, and what the client has written when nothing moves, or when it has its answer.
ECHOES = [
    (2_048, 1_024, 0, 0, 1_024),
    (2_048, 1_024, 1_024, 0, 2_048),
    (2_048, 1_024, 1_023, 0, 2_047),
    (2_048, 1_024, 1_023, 1, 2_048),
    (1_024, 1_024, 0, 0, 1_024),
]


@pytest.mark.parametrize(("writes", "server", "client", "hand", "written"), ECHOES)
def test_a_client_that_blocks_writes_what_goes_round_and_no_more(
    writes: int, server: int, client: int, hand: int, written: int
) -> None:
    parameters = blocking_echo.Parameters(writes=writes, server_buffer=server, hand=hand, client_buffer=client)
    state = blocking_echo.initial(parameters)
    while state.read < writes and (step := next(blocking_echo.SYSTEM.successors(state, parameters), None)) is not None:
        state = step.state
    assert writes - state.unwritten == written == min(writes, server + client + hand)
    assert state.read == (writes if written == writes else 0)


def test_an_echo_is_stuck_just_where_its_request_does_not_fit() -> None:
    for writes, server, hand, client in product(range(1, 7), range(1, 3), range(3), range(3)):
        parameters = blocking_echo.Parameters(writes=writes, server_buffer=server, hand=hand, client_buffer=client)
        expected = DEAD if writes > server + hand + client else frozenset()
        assert broken(blocking_echo.SYSTEM, parameters) == expected, parameters
        assert not broken(blocking_echo.SYSTEM, replace(parameters, reads_meanwhile=True)), parameters


# The loop.


def loops(**numbers: Any) -> list[feedback_loop.Parameters]:
    """Loops of up to three stations of up to two places."""
    sizes = product(range(1, 4), range(1, 3), range(1, 3))
    return [feedback_loop.Parameters(stations=n, places=p, back_places=b, **numbers) for n, p, b in sizes]


def places_of(loop: feedback_loop.Parameters) -> int:
    return loop.places * (loop.stations - 1) + loop.back_places


@pytest.mark.parametrize("least", [0, 1])
def test_a_loop_that_takes_any_element_can_be_stuck(least: int) -> None:
    assert {broken(feedback_loop.SYSTEM, loop) for loop in loops(least=least)} == {DEAD}


@pytest.mark.parametrize("least", [0, 1])
def test_permits_for_all_places_but_one_keep_a_loop_live(least: int) -> None:
    for loop in loops(least=least, merge="permits"):
        assert not broken(feedback_loop.SYSTEM, replace(loop, permits=places_of(loop) - 1)), loop
        assert broken(feedback_loop.SYSTEM, replace(loop, permits=places_of(loop))) == DEAD, loop


def test_two_for_one_fill_a_closed_loop_from_one_element() -> None:
    for loop in loops(least=2, most=2, start=1, merge="permits"):
        graph = explore(feedback_loop.SYSTEM, loop, invariants={})
        assert graph.deadlock is not None, loop
        # It is finite, and has no way round: every run comes there.
        assert all(graph.levels[source] < graph.levels[target] for source, _, target in graph.edges), loop


def test_a_closed_loop_needs_a_place_besides_its_element() -> None:
    for loop in loops(start=1, merge="permits"):
        assert broken(feedback_loop.SYSTEM, loop) == (DEAD if places_of(loop) == 1 else frozenset()), loop


def test_a_merge_that_prefers_what_comes_back_is_live_and_starves() -> None:
    for loop in loops(merge="preferred"):
        if loop.stations == 1:
            assert broken(feedback_loop.SYSTEM, loop) == (DEAD if loop.back_places == 1 else frozenset()), loop
            continue
        graph = explore(feedback_loop.SYSTEM, loop)
        assert not graph.violations, loop
        most = max(state.stations.sum_of(feedback_loop.held) for state in graph.states)
        assert most == places_of(loop) - loop.back_places, loop


@pytest.mark.parametrize(("least", "most"), [(0, 1), (1, 1), (1, 3), (2, 2)])
def test_a_loop_with_a_station_that_drops_is_never_stuck(least: int, most: int) -> None:
    assert {broken(feedback_loop.SYSTEM, loop) for loop in loops(least=least, most=most, drops=True)} == {frozenset()}


# The diamond.


def test_a_diamond_is_stuck_just_where_a_branch_lacks_places() -> None:
    for branches, hold, places, first_hold, first_places in product((2, 3), range(3), range(1, 4), range(4), (1, 2)):
        parameters = diamond.Parameters(
            branches=branches, hold=hold, places=places, first_hold=first_hold, first_places=first_places
        )
        is_short = places <= first_hold - hold or first_places <= hold - first_hold
        assert broken(diamond.SYSTEM, parameters) == (DEAD if is_short else frozenset()), parameters


# The stages as they run, ask by ask, are stuck where the counts say so.


def stuck(graph: stage_graph.Parameters) -> stage_graph.State | None:
    """The state in which a graph stands still before its end."""
    found = explore(stage_graph.SYSTEM, graph).deadlock
    end = found.steps[-1].state if found is not None else None
    return None if end is None or stage_graph.has_ended(end, graph) else end


def test_an_echo_of_stages_is_stuck_where_the_counted_one_is() -> None:
    for writes, server, client in product(range(1, 6), range(1, 3), range(3)):
        stages = (Stage("blocking_client", writes=writes, capacity=client), Stage("buffer", capacity=server))
        counted = blocking_echo.Parameters(writes=writes, server_buffer=server, hand=0, client_buffer=client)
        is_stuck = stuck(stage_graph.Parameters(stages, ((0, 1), (1, 0)))) is not None
        assert is_stuck == bool(broken(blocking_echo.SYSTEM, counted)), counted


@pytest.mark.parametrize("size", [1, 2, 3])
def test_a_loop_of_stages_stands_still_with_each_place_taken(size: int) -> None:
    graph = GRAPHS["loop"](size)
    end = stuck(graph)
    assert end is not None
    merge, buffer, back = 1, 4, len(graph.arcs) - 1
    assert end.stages[buffer] == (size,)
    assert back in end.stages[merge]


def test_a_diamond_of_stages_is_stuck_where_the_counted_one_is() -> None:
    for group, size in product(range(1, 5), range(1, 4)):
        graph = GRAPHS["diamond"](size)
        stages = (*graph.stages[:-1], Stage("stage", takes=group, least=group, most=group))
        counted = diamond.Parameters(branches=2, hold=0, places=size + 1, first_hold=group - 1, first_places=1)
        is_stuck = stuck(replace(graph, stages=stages)) is not None
        assert is_stuck == bool(broken(diamond.SYSTEM, counted)), counted


@pytest.mark.parametrize(("name", "most"), [("least", "most"), ("start", "back_places")])
def test_parameters_that_the_specification_refuses_are_refused(name: str, most: str) -> None:
    with pytest.raises(ValueError, match=f"{name} must be at most {most}, not 2"):
        replace(feedback_loop.Parameters(stations=1, places=1, back_places=1), **{name: 2})  # type: ignore[arg-type]  # a number

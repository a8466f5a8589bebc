"""The explorer counts and finds as TLC does: on a puzzle that every TLA+ course begins with, and on small graphs."""

from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest

from permitflow_model.kernel.explore import MemoryLimitReached, StateLimitReached, explore
from permitflow_model.kernel.system import Action, ModelError, System, require


class Jugs(NamedTuple):
    """Litres in a jug of three and in a jug of five."""

    small: int
    big: int


def fill_small(jugs: Jugs, _: None) -> Jugs:
    return jugs._replace(small=3)


def fill_big(jugs: Jugs, _: None) -> Jugs:
    return jugs._replace(big=5)


def empty_small(jugs: Jugs, _: None) -> Jugs:
    return jugs._replace(small=0)


def empty_big(jugs: Jugs, _: None) -> Jugs:
    return jugs._replace(big=0)


def small_to_big(jugs: Jugs, _: None) -> Jugs:
    poured = min(jugs.small, 5 - jugs.big)
    return Jugs(jugs.small - poured, jugs.big + poured)


def big_to_small(jugs: Jugs, _: None) -> Jugs:
    poured = min(jugs.big, 3 - jugs.small)
    return Jugs(jugs.small + poured, jugs.big - poured)


DIE_HARD: System[Jugs, None] = System(
    module="DieHard",
    initial=lambda _: Jugs(0, 0),
    actions=(
        Action("FillSmallJug", fill_small),
        Action("FillBigJug", fill_big),
        Action("EmptySmallJug", empty_small),
        Action("EmptyBigJug", empty_big),
        Action("SmallToBig", small_to_big),
        Action("BigToSmall", big_to_small),
    ),
    invariants={"NotSolved": lambda jugs, _: jugs.big != 4},
)


def test_all_states_and_steps_of_the_water_jugs_are_found() -> None:
    """TLC's numbers for DieHard: 16 distinct states, 97 generated (the initial one and 6 steps from each)."""
    graph = explore(DIE_HARD, None, invariants={})
    assert len(graph.states) == len(set(graph.states)) == 16
    assert len(graph.edges) == 96
    assert graph.depth == 8
    assert graph.deadlock is None


def test_the_counterexample_is_the_shortest_solution() -> None:
    graph = explore(DIE_HARD, None)
    (violation,) = graph.violations
    assert violation.invariant == "NotSolved"
    run = [violation.start, *(step.state for step in violation.steps)]
    assert run == [(0, 0), (0, 5), (3, 2), (0, 2), (2, 0), (2, 5), (3, 4)]
    assert [step.action for step in violation.steps] == [
        "FillBigJug",
        "BigToSmall",
        "EmptySmallJug",
        "BigToSmall",
        "FillBigJug",
        "BigToSmall",
    ]


def test_exploration_goes_on_after_a_violation_unless_told_to_stop() -> None:
    assert len(explore(DIE_HARD, None).states) == 16
    stopped = explore(DIE_HARD, None, stop_at_violation=True)
    assert stopped.depth == 7
    assert stopped.states[-1].big == 4
    assert len(stopped.states) < 16


def test_a_step_that_changes_nothing_is_a_step() -> None:
    graph = explore(DIE_HARD, None, invariants={})
    assert (0, "EmptySmallJug", 0) in graph.edges


def test_a_violated_initial_state_is_a_run_without_steps() -> None:
    graph = explore(DIE_HARD, None, invariants={"Wet": lambda jugs, _: jugs != (0, 0)}, stop_at_violation=True)
    assert [violation.steps for violation in graph.violations] == [()]
    assert len(graph.states) == 1


def down(number: int, _: int) -> int:
    require(number > 0)
    return number - 1


COUNTDOWN: System[int, int] = System(
    module="Countdown", initial=lambda start: start, actions=(Action("Down", down),), invariants={}
)


def test_a_deadlock_is_reported_with_the_run_into_it() -> None:
    graph = explore(COUNTDOWN, 3)
    assert graph.deadlock is not None
    assert [step.state for step in graph.deadlock.steps] == [2, 1, 0]
    assert graph.depth == 4


def test_too_many_states_are_an_error_that_names_the_limit() -> None:
    assert len(explore(COUNTDOWN, 9, max_states=10).states) == 10
    with pytest.raises(StateLimitReached, match="more than 10 reachable states") as caught:
        explore(COUNTDOWN, 10, max_states=10)
    assert caught.value.limit == 10


def test_the_variable_that_grows_without_end_is_named() -> None:
    class State(NamedTuple):
        turn: int = 0
        sent: int = 0

    flip = Action[State, None]("Flip", lambda state, _: State(1 - state.turn, state.sent + 1))
    with pytest.raises(StateLimitReached) as caught:
        explore(System[State, None]("Flips", lambda _: State(), (flip,), {}), None, max_states=10)
    assert caught.value.most_varied == "sent has 10 values"


def test_what_was_found_before_the_limit_is_told() -> None:
    endless = System[int, None](
        module="Endless",
        initial=lambda _: 0,
        actions=(Action("Up", lambda number, _: number + 1),),
        invariants={"Small": lambda number, _: number < 3},
    )
    with pytest.raises(StateLimitReached) as caught:
        explore(endless, None, max_states=10)
    (told,) = caught.value.__notes__
    assert told.startswith("found until then: Small does not hold, after 3 steps\n")


def test_states_that_take_too_much_memory_are_an_error() -> None:
    assert len(explore(COUNTDOWN, 255, max_bytes=1).states) == 256
    with pytest.raises(MemoryLimitReached, match=r"256 states and all else in this process take more than 0\.0 GiB"):
        explore(COUNTDOWN, 256, max_bytes=1)


@pytest.mark.parametrize(("said", "is_bound"), [("8\n", True), ("max\n", False), (f"{1 << 62}\n", False)])
def test_a_containers_memory_bounds_the_states(
    said: str, is_bound: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "memory.max").write_text(said)
    files = (tmp_path / "none", tmp_path / "memory.max")
    monkeypatch.setattr("permitflow_model.kernel.explore._CONTAINER_LIMITS", files)
    with pytest.raises(MemoryLimitReached) if is_bound else nullcontext():
        explore(COUNTDOWN, 256)


def test_an_unknown_action_is_a_key_error() -> None:
    with pytest.raises(KeyError, match="Up"):
        COUNTDOWN.perform("Up", 3, 3)


class Desk(NamedTuple):
    """Two streams want two credits each of a pool of two, and take them one by one."""

    held: tuple[int, int] = (0, 0)
    pool: int = 2
    gone: bool = False


def _take(desk: Desk, _: None, stream: int) -> Desk:
    require(not desk.gone)
    require(desk.pool > 0)
    require(desk.held[stream] < 2)
    held = (desk.held[0] + (stream == 0), desk.held[1] + (stream == 1))
    return desk._replace(held=held, pool=desk.pool - 1)


def _give_back(desk: Desk, _: None, stream: int) -> Desk:
    require(desk.held[stream] == 2)
    held = (0 if stream == 0 else desk.held[0], 0 if stream == 1 else desk.held[1])
    return desk._replace(held=held, pool=desk.pool + 2)


def _look_again(desk: Desk, _: None) -> Desk:
    return desk


DESK: System[Desk, None] = System(
    module="Desk",
    initial=lambda _: Desk(),
    actions=(
        Action("Take", _take, lambda _: [(0,), (1,)]),
        Action("GiveBack", _give_back, lambda _: [(0,), (1,)]),
        Action("LookAgain", _look_again),
        Action("Leave", lambda desk, _: desk._replace(gone=True), is_environment=True),
    ),
    invariants={},
)


def test_what_the_application_can_do_is_no_way_out() -> None:
    assert explore(DESK, None).deadlock is None
    stuck = explore(DESK, None, at_rest=lambda desk, _: desk.gone).deadlock
    assert stuck is not None
    assert [step.call for step in stuck.steps] == ["Take(0)", "Take(1)"]


def test_a_state_at_rest_is_no_deadlock() -> None:
    ends = System[int, None](module="M", initial=lambda _: 0, actions=(Action("up", up_to_three),), invariants={})
    assert explore(ends, None).deadlock is not None
    assert explore(ends, None, at_rest=lambda number, _: number == 3).deadlock is None
    assert explore(replace(ends, at_rest=lambda number, _: number == 3), None).deadlock is None


def up_to_three(number: int, _: None) -> int:
    require(number < 3)
    return number + 1


def test_a_rest_that_is_not_told_is_named() -> None:
    with pytest.raises(ModelError, match=r"at_rest in state Desk\(.*\): it returned None"):
        explore(DESK, None, at_rest=lambda _desk, _: None)  # type: ignore[arg-type,return-value]


def test_a_counterexample_prints_as_a_table() -> None:
    (violation,) = explore(DIE_HARD, None).violations
    assert str(violation).splitlines()[:4] == [
        "NotSolved does not hold, after 6 steps",
        "step  action         small  big",
        "0     the beginning  0      0",
        "1     FillBigJug     0      5",
    ]


def test_a_wide_state_prints_what_changes() -> None:
    wide = System(
        module="M",
        initial=lambda _: Desk(held=(0,) * 60),  # type: ignore[arg-type]
        actions=(Action("Leave", lambda desk, _: desk._replace(gone=True)),),
        invariants={"Stays": lambda desk, _: not desk.gone},
    )
    (violation,) = explore(wide, None).violations
    assert str(violation).splitlines()[-1] == "1     Leave          gone False -> True"


class Desks(NamedTuple):
    """Two desks, each a state of its own."""

    left: "Desk"
    right: "Desk"


def test_a_wide_state_of_parts_prints_what_changes_in_a_part() -> None:
    wide = System(
        module="M",
        initial=lambda _: Desks(Desk(held=60 * "x"), Desk()),  # type: ignore[arg-type]
        actions=(Action("Leave", lambda desks, _: desks._replace(right=desks.right._replace(gone=True))),),
        invariants={"Stays": lambda desks, _: not desks.right.gone},
    )
    (violation,) = explore(wide, None).violations
    assert str(violation).splitlines()[-1] == "1     Leave          right.gone False -> True"

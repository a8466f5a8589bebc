"""A batch ends at a barrier that has come in all channels, whatever their rates, ends and restarts."""

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import chain, count

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow import AlignedBarrier, ChannelParameters, GateChunk, GateParameters, InputGate
from permitflow.client import ChannelPosition, ChannelState
from permitflow.errors import CheckpointError, EpochTooLargeError, InputLostError, InputStalledError
from permitflow.spark.epoch_planning import EpochPlanner
from permitflow.spark.stream_planning import Position, StreamOffset, StreamPlanner
from permitflow.stream.control import KeptBarrier
from tests.support.simulated_time import Clock

WINDOW = ChannelParameters(row_permits=100)
STALL_SECONDS = 30.0
ENDED, BROKEN = ChannelState.ENDED, ChannelState.BROKEN


def at(
    channel: str,
    next_row: int,
    *barriers: tuple[int, int],
    acknowledged: int = 0,
    state: ChannelState = ChannelState.OPEN,
    waiting: int = 0,
) -> Position:
    """A channel and its barriers: number and row of each."""
    reason = "the disk is on fire" if state is BROKEN else ""
    return ChannelPosition(
        *(channel, acknowledged, next_row, state, reason, WINDOW, None, "first", WINDOW.row_permits),
        barriers=tuple(KeptBarrier(*barrier) for barrier in barriers),
        waiting_rows=waiting,
    )


def positions(*each: Position) -> dict[str, Position]:
    return {position.channel: position for position in each}


def offset(barrier: int | None, **rows: int) -> StreamOffset:
    return StreamOffset(rows, dict.fromkeys(rows, "first"), barrier)


def planner(*channels: str, clock: Clock | None = None) -> EpochPlanner:
    names = channels or ("a", "b")
    return EpochPlanner(names, consumer="etl", stall_seconds=STALL_SECONDS, clock=clock or Clock())


START = offset(0, a=0, b=0)


def test_nothing_is_planned_before_a_barrier_has_come_in_all_channels() -> None:
    plan = planner()
    assert plan.plan(START, positions(at("a", 90), at("b", 90))) is START
    assert plan.plan(START, positions(at("a", 90, (1, 10)), at("b", 90))) is START
    assert plan.plan(START, positions(at("a", 90, (1, 10)), at("b", 90, (1, 0)))) == offset(1, a=10, b=0)


def test_a_barrier_that_an_input_has_left_out_is_given_up() -> None:
    there = positions(at("a", 30, (1, 10), (2, 20), (3, 30)), at("b", 9, (1, 3), (3, 9)))
    plan = planner()
    end = plan.plan(plan.plan(START, there), there)
    assert end == offset(3, a=30, b=9)


def test_what_is_given_up_does_not_fill_a_channel() -> None:
    plan = planner()
    apart = positions(at("a", 9, (1, 1), (2, 2)), at("b", 9, (2_000, 5)))
    assert plan.plan(START, apart) is START
    assert {row.next_barrier for row in plan.acknowledgement(START)} == {2_000}


def test_an_ended_input_is_not_awaited_and_its_rest_comes_later() -> None:
    there = positions(at("a", 40, (1, 10), (2, 20), (3, 30)), at("b", 9, (1, 3), state=ENDED))
    plan = planner()
    second = plan.plan(offset(1, a=10, b=3), there)
    third = plan.plan(second, there)
    assert (second, third) == (offset(2, a=20, b=9), offset(3, a=30, b=9))
    assert plan.plan(third, there) is third


def test_the_rows_behind_the_last_barrier_are_a_batch() -> None:
    there = positions(at("a", 40, (1, 10), state=ENDED), at("b", 9, (1, 3), state=ENDED))
    plan = planner()
    end = plan.plan(offset(1, a=10, b=3), there)
    assert end == offset(1, a=40, b=9)
    assert plan.plan(end, there) is end


def test_available_now_ends_at_the_last_aligned_barrier() -> None:
    plan = planner()
    plan.end_at(positions(at("a", 30, (1, 10), (2, 20), (3, 30)), at("b", 9, (1, 3), (2, 6))))
    later = positions(at("a", 30, (1, 10), (2, 20), (3, 30)), at("b", 9, (1, 3), (2, 6), (3, 9)))
    second = plan.plan(plan.plan(START, later), later)
    assert second == offset(2, a=20, b=6)
    assert plan.plan(second, later) is second


@pytest.mark.parametrize(("state", "rows"), [(ENDED, {"a": 40, "b": 9}), (ChannelState.OPEN, {"a": 10, "b": 3})])
def test_available_now_reads_the_rest_of_inputs_already_ended(state: ChannelState, rows: dict[str, int]) -> None:
    ended = positions(at("a", 40, (1, 10), state=ENDED), at("b", 9, (1, 3), state=ENDED))
    plan = planner()
    plan.end_at({**ended, "b": replace(ended["b"], state=state)})
    first = plan.plan(START, ended)
    assert plan.plan(first, ended).rows == rows


def test_available_now_does_not_wait() -> None:
    clock = Clock()
    plan = planner(clock=clock)
    there = positions(at("a", 9, (1, 9)), at("b", 0))
    plan.end_at(there)
    for clock.seconds in (0, 10 * STALL_SECONDS):
        assert plan.plan(START, there) is START


def test_stalled_inputs_are_named_after_the_stall_time() -> None:
    clock = Clock()
    plan = planner("a", "b", "c", clock=clock)
    start, waits = offset(0, a=0, b=0, c=0), (at("a", 9, (4, 9)), at("c", 9, (4, 1)))
    for clock.seconds, rows in ((0, 5), (STALL_SECONDS - 1, 5), (STALL_SECONDS, 6), (2 * STALL_SECONDS - 1, 6)):
        assert plan.plan(start, positions(*waits, at("b", rows))) is start
    clock.seconds = 2 * STALL_SECONDS
    with pytest.raises(InputStalledError) as caught:
        plan.plan(start, positions(*waits, at("b", 6)))
    assert (caught.value.awaited, caught.value.blocked, caught.value.barrier) == ("b", "a, c", 4)
    assert "option stallSeconds: 30" in caught.value.__notes__[0]


def test_without_any_barrier_no_input_waits_for_another() -> None:
    clock = Clock()
    plan = planner(clock=clock)
    for clock.seconds in (0, 10 * STALL_SECONDS):
        assert plan.plan(START, positions(at("a", 9), at("b", 0))) is START


def test_a_broken_inputs_epochs_are_read_before_the_query_fails() -> None:
    there = positions(at("a", 30, (1, 10), (2, 20)), at("b", 9, (1, 3), state=BROKEN))
    plan = planner()
    end = plan.plan(START, there)
    assert end == offset(1, a=10, b=3)
    with pytest.raises(
        InputLostError, match=r"input 'b' .* the disk is on fire; all epochs before were read"
    ) as caught:
        plan.plan(end, there)
    assert "the rows from 3 on belong to none that is whole" in str(caught.value)


def test_a_broken_input_is_waited_for_no_longer_than_its_last_barrier() -> None:
    """It has come farther than the other one, which goes on."""
    plan, broken = planner(), at("a", 30, (1, 10), (2, 20), state=BROKEN)
    assert plan.plan(START, positions(broken, at("b", 9))) is START
    assert plan.plan(START, positions(broken, at("b", 9, (2, 9)))) == offset(2, a=20, b=9)


def test_an_epoch_that_does_not_fit_is_told_with_its_numbers() -> None:
    plan, blocked = planner(), at("a", 9, (1, 9))
    assert plan.plan(START, positions(blocked, at("b", 98, waiting=2))) is START
    with pytest.raises(EpochTooLargeError) as caught:
        plan.plan(offset(0, a=0, b=5), positions(blocked, at("b", 104, acknowledged=5, waiting=2)))
    error = caught.value
    assert (error.channel, error.kept_rows, error.limit_rows, error.waiting_rows, error.barrier) == ("b", 99, 100, 2, 0)
    assert "permitflow serve --kept-rows" in str(error)


@pytest.mark.parametrize(
    ("plan", "barrier", "words"),
    [
        (planner(), None, "leave out option 'epochs'"),
        (StreamPlanner(("a", "b"), consumer="etl"), 0, "set option 'epochs' to 'aligned'"),
    ],
)
def test_a_checkpoint_of_the_other_kind_is_refused(plan: StreamPlanner, barrier: int | None, words: str) -> None:
    start = offset(barrier, a=0, b=0)
    for ask in (plan.acknowledgement, lambda start: plan.ranges(start, start)):
        with pytest.raises(CheckpointError, match=words):
            ask(start)


def test_rows_that_another_consumer_holds_are_no_fault_of_the_epoch() -> None:
    """Room comes when that consumer acknowledges."""
    start = offset(1, a=0, b=60)
    assert planner().plan(start, positions(at("a", 9), at("b", 100, acknowledged=60, waiting=20))) is start


def test_a_full_channel_that_has_its_barrier_waits_for_the_others() -> None:
    assert planner().plan(START, positions(at("a", 100, (1, 90), waiting=5), at("b", 3))) is START


def test_a_query_begins_at_its_consumers_rows() -> None:
    there = positions(at("a", 30, (3, 20), acknowledged=15), at("b", 9, (2, 3), (3, 9)))
    plan = planner()
    start = plan.initial(there)
    assert start == offset(0, a=15, b=0)
    assert plan.plan(start, there) == offset(3, a=20, b=9)


def test_a_new_channel_is_aligned_from_the_next_batch_on() -> None:
    there = positions(at("a", 30, (2, 20)), at("b", 9, (1, 3), (2, 9)))
    plan, start = planner(), offset(1, a=10)
    entered = plan.plan(start, there)
    assert (entered, plan.ranges(start, entered)) == (offset(1, a=10, b=0), [])
    assert plan.plan(entered, there) == offset(2, a=20, b=9)


# The gate and the planner align the same barriers.

Sent = list[int | None]
"""What an input sends: numbers of barriers, and None for a row."""


@st.composite
def inputs(draw: st.DrawFn) -> list[Sent]:
    """Two or three inputs; barriers have growing numbers, rows lie anywhere."""
    sent: list[Sent] = []
    for _ in range(draw(st.integers(2, 3))):
        numbers = sorted(draw(st.sets(st.integers(1, 6), max_size=5)))
        own: Sent = []
        for number in [*numbers, None]:
            own += [None] * draw(st.integers(0, 2))
            own += [] if number is None else [number]
        sent.append(own)
    return sent


def position_of(channel: str, sent: Sequence[int | None], state: ChannelState = ENDED) -> Position:
    row, barriers = 0, []
    for item in sent:
        if item is None:
            row += 1
        else:
            barriers.append((item, row))
    return at(channel, row, *barriers, state=state)


async def by_gate(sent: list[Sent]) -> list[tuple[int, dict[str, int]]]:
    """What a gate in this process aligns: the number, and how many rows of each input came before."""

    async def produce(name: str, own: Sent) -> None:
        sender = senders[name]
        for item in own:
            await (sender.send([0]) if item is None else sender.send_barrier(item))
        await sender.end()

    gate: InputGate[list[int]] = InputGate(GateParameters(inputs=len(sent)))
    async with gate, asyncio.TaskGroup() as group:
        senders = {str(number): gate.open_channel(str(number)) for number in range(len(sent))}
        for number, own in enumerate(sent):
            group.create_task(produce(str(number), own))
        rows, found = dict.fromkeys(senders, 0), []
        async for item in gate:
            match item:
                case GateChunk(source):
                    rows[source] += 1
                case AlignedBarrier(number):
                    found.append((number, dict(rows)))
        return found


def by_planner(sent: list[Sent], stops: Iterator[int]) -> list[tuple[int, dict[str, int]]]:
    """What the planner aligns while the inputs arrive piece by piece, and its state is lost now and then."""
    names = [str(number) for number in range(len(sent))]
    plan, at_offset, here = planner(*names), offset(0, **dict.fromkeys(names, 0)), [0] * len(sent)
    found: list[tuple[int, dict[str, int]]] = []
    while True:
        there = positions(
            *(
                position_of(name, own[:came], ENDED if came > len(own) else ChannelState.OPEN)
                for name, own, came in zip(names, sent, here, strict=True)
            )
        )
        end = plan.plan(at_offset, there)
        if end is at_offset:
            if all(came > len(own) for came, own in zip(here, sent, strict=True)):
                return found
            here[next(stops) % len(here)] += 1
            plan = planner(*names)  # the query starts again
        elif end.barrier != at_offset.barrier:
            found.append((end.barrier or 0, dict(end.rows)))
        at_offset = end


@given(inputs(), st.lists(st.integers(0, 2), min_size=1, max_size=9))
def test_the_planner_aligns_what_a_gate_aligns_whatever_comes_when(sent: list[Sent], order: list[int]) -> None:
    assert by_planner(sent, chain(order, count())) == asyncio.run(by_gate(sent))

"""A symbolic step with numbers put in is the model's step: the proofs speak of the model and of nothing else."""

from collections.abc import Callable

from hypothesis import given, settings
from hypothesis import strategies as st

from permitflow_model.bounded_queue import queue_in
from permitflow_model.kernel.queue import Queue
from permitflow_model.kernel.system import Disabled
from permitflow_model.permit_channel import (
    SYSTEM,
    Message,
    Parameters,
    Permits,
    State,
    carried_by,
    due_after,
    held_by,
    rows_in,
)
from permitflow_model.permit_channel_refinement import as_chunks
from permitflow_proofs.kernel.obligation import decide
from permitflow_proofs.kernel.symbols import assume, equal
from permitflow_proofs.permit_channel.arbitrary import CHANNEL, INVARIANT, any_state
from permitflow_proofs.permit_channel.inductive import DEAD_ENDS
from permitflow_proofs.permit_channel.refinement import CHUNKS

PARAMETERS = st.builds(
    Parameters,
    row_permits=st.integers(1, 9),
    permit_batch=st.integers(1, 6),
    max_chunk_cost=st.integers(1, 6),
    sizes=st.just((0, 1, 2, 5, 8)),
    barrier_permits=st.integers(0, 2),
    watermarks=st.booleans(),
    flush_idle=st.booleans(),
    withdrawals=st.booleans(),
    waiters=st.integers(1, 3),
    tags=st.sampled_from([1, 15]),  # above 9 + 2 + 3
)
ACTIONS = [action.name for action in SYSTEM.actions]


@st.composite
def reachable(draw: st.DrawFn) -> tuple[Parameters, State]:
    """A state after some steps, and its parameters."""
    parameters = draw(PARAMETERS)
    state = SYSTEM.initial(parameters)
    for _ in range(draw(st.integers(0, 14))):
        steps = list(SYSTEM.successors(state, parameters))
        if not steps:
            break
        state = draw(st.sampled_from(steps)).state
    return parameters, state


def numbers_of(state: State) -> tuple[int, ...]:
    """All numbers that a symbolic state knows."""
    messages = [(queue.size(), *held_by(queue), rows_in(queue)) for queue in (state.waiting, state.wire, state.inbox)]
    return (
        state.offered,
        state.consumed,
        state.watermark_pending,
        *state.permits,
        state.unreturned,
        *(number for sums in messages for number in sums),
        state.grants.size(),
        *carried_by(state.grants),
    )


def due_in(state: State, parameters: Parameters) -> list[int]:
    """The number that is due after each of the queues."""
    due = [state.consumed]
    for queue in (state.inbox, state.wire, state.waiting):
        due.append(queue.fold(due_after, due[-1], parameters))
    return due


def assume_same_ends(symbolic: Queue[Message], real: Queue[Message]) -> None:
    if not real.is_empty():
        assume(symbolic.head() == real.head())
        assume(symbolic.last() == real.last())


def assume_is(symbolic: State, real: State, parameters: Parameters) -> None:
    """Of all states, only those that look like this one."""
    for ours, theirs in zip(due_in(symbolic, parameters), due_in(real, parameters), strict=True):
        assume(ours == theirs)
    assume(equal(CHUNKS.seen(symbolic), queue_in(real, as_chunks)))
    for ours, theirs in zip(numbers_of(symbolic), numbers_of(real), strict=True):
        assume(ours == theirs)
    assume(symbolic.newest_watermark == real.newest_watermark)
    for ends in ((symbolic.waiting, real.waiting), (symbolic.wire, real.wire), (symbolic.inbox, real.inbox)):
        assume_same_ends(*ends)
    if not real.grants.is_empty():
        assume(symbolic.grants.head() == real.grants.head())


def step_from(
    parameters: Parameters, state: State, action: str, arguments: tuple[int, ...], expected: State | None
) -> Callable[[], bool]:
    def claim() -> bool:
        before = any_state(parameters, message_laws=tuple(CHUNKS.laws.values()), dead_ends=DEAD_ENDS)
        assume_is(before, state, parameters)
        try:
            after = SYSTEM.perform(action, before, parameters, *arguments)
        except Disabled:
            return expected is None
        return (
            expected is not None
            and numbers_of(after) == numbers_of(expected)
            and due_in(after, parameters) == due_in(expected, parameters)
            and CHUNKS.seen(after) == queue_in(expected, as_chunks)
            and after.newest_watermark == expected.newest_watermark
        )

    return claim


@given(reachable(), st.sampled_from(ACTIONS), st.sampled_from([0, 1, 5, 8]))
def test_symbols_that_equal_numbers_step_as_the_numbers_do(
    reached: tuple[Parameters, State], action: str, rows: int
) -> None:
    parameters, state = reached
    arguments = (rows,) if action == "OfferChunk" else ()
    try:
        expected = SYSTEM.perform(action, state, parameters, *arguments)
    except Disabled:
        expected = None
    found = decide(step_from(parameters, state, action, arguments, expected))
    assert (found.outcome, found.reached > 0) == ("proved", True)


@settings(max_examples=10)
@given(reachable(), st.sampled_from(ACTIONS))
def test_a_step_to_another_state_is_refuted(reached: tuple[Parameters, State], action: str) -> None:
    parameters, state = reached
    arguments = (1,) if action == "OfferChunk" else ()
    try:
        after = SYSTEM.perform(action, state, parameters, *arguments)
        wrong: State | None = after._replace(permits=after.permits._replace(rows=after.permits.rows + 1))
    except Disabled:
        wrong = state
    assert decide(step_from(parameters, state, action, arguments, wrong)).outcome == "refuted"


@given(reachable())
def test_every_reachable_state_satisfies_the_inductive_invariant(reached: tuple[Parameters, State]) -> None:
    parameters, state = reached
    assert [name for name, clause in INVARIANT.items() if not clause(state, parameters)] == []


def test_any_state_is_one_that_the_invariant_allows() -> None:
    """Two chunks on the wire, something owed, a grant in flight: all at once."""

    def claim() -> bool:
        parameters = CHANNEL.any_parameters()
        state = CHANNEL.any_state(parameters)
        assume(state.wire.size() == 2)
        assume(held_by(state.wire).rows > 5)
        assume(state.unreturned > 1)
        assume(equal(carried_by(state.grants), Permits(3, 1, 0)))
        return False

    found = decide(claim)
    assert found.outcome == "refuted"
    assert found.counterexample is not None
    values = found.counterexample.values
    assert values["wire.size"] == 2
    assert values["grants.carried.rows"] == 3

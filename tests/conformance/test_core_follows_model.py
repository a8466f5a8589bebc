"""The sans-IO core does what the model does, and refuses what the model refuses.

Hypothesis draws runs; and the core takes every edge of whole state graphs.
"""

from collections.abc import Callable
from dataclasses import dataclass, replace

import pytest
from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from permitflow import ChannelParameters, Kind, Message, RecorderFactory
from permitflow import Permits as CorePermits
from permitflow.errors import OverspendError, PermitOverrunError, UnexpectedFrameError
from permitflow.flows.permits.parameters import held as held_permits
from permitflow.flows.seam import Urgency
from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.system import Disabled
from permitflow_model.permit_channel import (
    NOTHING,
    SYSTEM,
    Parameters,
    Permits,
    State,
    held,
    plus,
    sum_permits,
    total,
    withheld,
)
from permitflow_testing import Divergence
from permitflow_testing.moves import Lockstep, compare, walk
from permitflow_testing.random_runs import machine_for
from permitflow_testing.rulebooks.permits import RULEBOOK
from permitflow_testing.subjects.permits import CorePair, model_of


def make_core(agreed: ChannelParameters, tags: int, record: RecorderFactory | None) -> CorePair:
    return CorePair(agreed, tags=tags, record=record)


def test_the_core_follows_the_model() -> None:
    profile = settings(stateful_step_count=60)
    run_state_machine_as_test(machine_for(RULEBOOK, make_core), settings=profile)


@dataclass(frozen=True)
class Graph:
    """A state graph, and the actions that are left out so that it stays small."""

    agreed: ChannelParameters
    parameters: Parameters
    never: tuple[str, ...]


def graph(
    row_permits: int,
    permit_batch: int,
    sizes: tuple[int, ...],
    *never: str,
    waiters: int = 2,
    tags: int = 1,
    initial_permits: int | None = None,
) -> Graph:
    agreed = ChannelParameters(
        row_permits=row_permits,
        permit_batch=permit_batch,
        # The tight bound, at which an off-by-one in the send guard shows.
        max_chunk_cost=row_permits - permit_batch + 1,
        barrier_permits=1,
        initial_permits=row_permits if initial_permits is None else initial_permits,
    )
    constants = replace(
        model_of(agreed, sizes=sizes, waiters=waiters), tags=tags, watermarks="OfferWatermark" not in never
    )
    return Graph(agreed, constants, never)


GRAPHS = {
    "watermarks, two waiters": graph(3, 2, (1, 2), "OfferBarrier"),
    "barriers, two waiters, empty chunks": graph(3, 2, (0, 2), "OfferWatermark"),
    "numbered chunks": graph(3, 2, (1, 2), "OfferBarrier", "OfferWatermark", waiters=1, tags=6),
    "numbered chunks, a large batch": graph(4, 3, (1, 2), "OfferBarrier", "OfferWatermark", waiters=1, tags=7),
    "all classes": graph(2, 1, (2,), waiters=1),
    "pull": graph(3, 2, (0, 2), "OfferWatermark", waiters=1, initial_permits=0),
    "pull, numbered": graph(4, 3, (1, 2), "OfferBarrier", "OfferWatermark", waiters=1, tags=7, initial_permits=3),
}


# Of these the others have each action; `make test` leaves them out.
LARGE = {
    *("watermarks, two waiters", "barriers, two waiters, empty chunks"),
    *("numbered chunks, a large batch", "pull, numbered"),
}


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=pytest.mark.long if name in LARGE else ()) for name in GRAPHS]
)
def test_the_core_takes_every_edge_and_refuses_everything_else(name: str) -> None:
    agreed, constants, never = GRAPHS[name].agreed, GRAPHS[name].parameters, GRAPHS[name].never
    explored = explore(
        replace(SYSTEM, actions=tuple(action for action in SYSTEM.actions if action.name not in never)), constants
    )
    done = walk(
        SYSTEM,
        CorePair(agreed, tags=constants.tags),
        constants,
        never=never,
        in_each_state=Shortcuts(constants).check,
    )
    assert (done.states, done.edges) == (len(explored.states), len(explored.edges))
    assert done.states > 500
    assert done.refusals > done.edges


def test_the_largest_chunk_fits_beside_the_largest_residue() -> None:
    """With RisingWave's numbers: what the sender has, and what the receiver keeps back, after each step."""
    agreed = ChannelParameters(row_permits=2048, permit_batch=256)
    run = Lockstep(SYSTEM, CorePair(agreed), model_of(agreed, sizes=(255, 1792)))

    def pass_on(rows: int) -> tuple[int, int]:
        run.do("OfferChunk", rows)
        for action in ("SendChunk", "Deliver", "Consume"):
            run.do(action)
        return run.state.permits.rows, run.state.unreturned

    assert pass_on(255) == (1793, 255)
    assert pass_on(1792) == (1, 0)
    assert [*run.state.grants] == [Permits(2047, 0, 0)]


class Shortcuts:
    """What the core offers beyond single actions: it must be what the actions together would do."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters

    def check(self, fresh: Callable[[], CorePair], state: State) -> None:
        self.questions_are_answered_as_the_model_would(fresh(), state)
        self.hostile_peers_are_refused(fresh(), state)
        self.everything_sendable_leaves(fresh(), state)
        self.what_is_withheld_is_granted_once(fresh(), state)
        self.a_message_is_received_at_once_or_not_at_all(fresh(), state)
        for rows in self.parameters.sizes:
            self.a_chunk_is_sent_at_once_or_not_at_all(fresh(), state, rows)

    def enabled(self, action: str, state: State) -> bool:
        return SYSTEM.is_enabled(action, state, self.parameters)

    def perform(self, action: str, state: State, *arguments: int) -> State:
        return SYSTEM.perform(action, state, self.parameters, *arguments)

    def questions_are_answered_as_the_model_would(self, core: CorePair, state: State) -> None:
        assert core.sender.can_send_watermark() == self.enabled("SendWatermark", state)
        assert bool(core.receiver.urgency) == self.enabled("Flush", state)
        assert (core.receiver.unconsumed > 0) == self.enabled("Consume", state)
        waits = state.waiting.size() > 0 or state.watermark_pending >= 0
        assert core.sender.has_waiting == waits
        assert plus(state.permits, of_model(core.sender.outstanding)) == total(self.parameters)
        assert of_model(core.receiver.granted) == may_come(state, core)
        messages = 0
        while sends := [action for action in ("SendChunk", "SendBarrier") if self.enabled(action, state)]:
            state = self.perform(sends[0], state)
            messages += 1
        assert core.sender.sendable() == messages

    def hostile_peers_are_refused(self, core: CorePair, state: State) -> None:
        granted = core.receiver.granted
        for rows in ([1] * (granted.rows + 1), [0] * (granted.rows + 1), [-1], [1, -1]):
            with pytest.raises(OverspendError if rows[-1] >= 0 else UnexpectedFrameError):
                core.receiver.deliver_many([0] * len(rows), rows)
        for kind, here in ((Kind.BARRIER, granted.barriers), (Kind.WATERMARK, granted.watermarks)):
            if not here:
                with pytest.raises(OverspendError):
                    core.receiver.deliver(Message(kind, 0))
        for position, outstanding in enumerate(core.sender.outstanding):
            for count in (outstanding + 1, -1):
                returned = [0, 0, 0]
                returned[position] = count
                with pytest.raises(PermitOverrunError):
                    core.sender.on_feedback(CorePermits(*returned))
        compare(core.observe(), state, "after a hostile peer was refused")

    def everything_sendable_leaves(self, core: CorePair, state: State) -> None:
        for message in core.sender.take_sendable():
            state = self.perform(f"Send{message.kind.value.title()}", state)
            assert (message.rows, cost_of(core, message)) == (state.wire.last().rows, held(state.wire.last()))
        assert of_model(core.sender.permits) == state.permits
        assert not any(self.enabled(action, state) for action in ("SendChunk", "SendBarrier", "SendWatermark"))

    def a_chunk_is_sent_at_once_or_not_at_all(self, core: CorePair, state: State, rows: int) -> None:
        if state.wire.size():
            return  # where the ends meet directly, nothing is ever on the wire
        did = core.sender.send_now((rows,)) == 1
        if did:
            core.receiver.deliver_many((-1,), (rows,))
        try:
            after = self.perform("SendChunk", self.perform("OfferChunk", state, rows))
        except Disabled:
            after = state
        assert did == (state.waiting.is_empty() and after != state)
        if not did:
            compare(core.observe(), state, f"after {rows} rows could not be sent at once")
            return
        after = self.perform("Deliver", after)
        newest = core.receiver.inbox[-1]
        assert (newest.rows, cost_of(core, newest)) == (after.inbox.last().rows, held(after.inbox.last()))
        assert of_model(core.sender.permits) == after.permits
        assert of_model(core.receiver.granted) == may_come(after, core)

    def what_is_withheld_is_granted_once(self, core: CorePair, state: State) -> None:
        rows = core.receiver.withheld
        assert rows in (0, withheld(self.parameters))
        assert core.receiver.ask() == bool(rows)
        if not rows:
            compare(core.observe(), state, "after an application that had asked before")
            return
        assert core.receiver.urgency == Urgency.NOW
        core.sender.on_feedback(core.receiver.take_feedback())
        assert of_model(core.sender.permits) == self.perform("AddPermits", state).permits
        assert not core.receiver.ask()
        assert core.receiver.take_feedback() is None

    def a_message_is_received_at_once_or_not_at_all(self, core: CorePair, state: State) -> None:
        not_asked_for = Permits(core.receiver.withheld, 0, 0)
        message = core.receiver.try_receive()
        if not self.enabled("Consume", state):
            assert message is None
            compare(core.observe(), state, "after try_receive found nothing")
            return
        after = self.perform("Consume", state)
        assert message is not None
        assert (message.rows, cost_of(core, message)) == (state.inbox.head().rows, held(state.inbox.head()))
        assert core.receiver.unreturned == after.unreturned
        due = sum_permits((not_asked_for, *tuple(after.grants)[state.grants.size() :]))
        assert core.receiver.is_due == (due != NOTHING)
        if self.enabled("Flush", after):
            due = plus(due, Permits(after.unreturned, 0, 0))
            after = self.perform("Flush", after)
        # Asking is allowed when nothing goes back, but not asking is not allowed when something does.
        assert core.receiver.urgency or due == NOTHING
        returned = core.receiver.take_feedback()
        if returned is not None:
            core.sender.on_feedback(returned)
        assert of_model(core.sender.permits) == plus(state.permits, due)
        assert of_model(core.receiver.granted) == may_come(after, core)
        assert core.receiver.unreturned == after.unreturned
        assert not core.receiver.is_due


def may_come(state: State, core: CorePair) -> Permits:
    """What the sender may still spend, as the receiver must see it: without what was not asked for."""
    not_asked_for = Permits(-core.receiver.withheld, 0, 0)
    return sum_permits((state.permits, *map(held, state.wire), *state.grants, not_asked_for))


def of_model(permits: CorePermits) -> Permits:
    return Permits(*permits)


def cost_of(core: CorePair, message: Message[int]) -> Permits:
    return of_model(held_permits(message, core.sender.parameters))


class LostGrant(CorePair):
    """Loses a return of permits on the way when another one is on the way already."""

    def consume(self) -> None:
        super().consume()
        if len(self.grants) > 1:
            self.grants.pop()


class GrantsTwice(CorePair):
    """Grants what was withheld when the application asks, and once more."""

    def add_permits(self) -> None:
        withheld_rows = self.receiver.withheld
        super().add_permits()
        if withheld_rows:
            self.feedback.append(CorePermits(withheld_rows))


class NeverGrants(CorePair):
    """Keeps what it withholds."""

    def add_permits(self) -> None:
        self.receiver.ask()
        self.receiver.take_feedback(residue=False)
        super().add_permits()


class SendsUnasked(CorePair):
    """Has all permits from the start, as if the application had asked."""

    def offer_chunk(self, rows: int) -> None:
        super().offer_chunk(rows)
        if self.receiver.ask():
            self.sender.on_feedback(self.receiver.take_feedback())


@pytest.mark.parametrize(
    ("wrong", "graph"),
    [
        (LostGrant, "watermarks, two waiters"),
        (GrantsTwice, "pull"),
        (NeverGrants, "pull"),
        (SendsUnasked, "pull"),
    ],
)
def test_the_walk_notices_an_implementation_that_does_something_else(wrong: type[CorePair], graph: str) -> None:
    channel = GRAPHS[graph]
    with pytest.raises(Divergence):
        walk(SYSTEM, wrong(channel.agreed), channel.parameters, never=channel.never)

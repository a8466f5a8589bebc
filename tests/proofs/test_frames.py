"""Mistakes that break no invariant: an action that forgets, loses or doubles something is not in its frame."""

from dataclasses import replace
from typing import Any

import pytest

from permitflow_model import (
    conflate,
    demand,
    drop_queue,
    grpc_call,
    input_gate_alignment,
    input_gate_credit,
    loop_chain,
    mute,
    mute_delay,
    mute_scheduler,
    port_machine,
    spark_micro_batch,
    squelch,
    token_bucket,
)
from permitflow_model.kernel.queue import Fifo
from permitflow_model.kernel.system import require
from permitflow_model.mistakes import Mistake
from permitflow_proofs import bridge as bridge_proofs
from permitflow_proofs import conflate as conflate_proofs
from permitflow_proofs import demand as demand_proofs
from permitflow_proofs import direct_task as direct_task_proofs
from permitflow_proofs import drop_queue as drop_queue_proofs
from permitflow_proofs import fan_in as fan_in_proofs
from permitflow_proofs import grpc_call as grpc_call_proofs
from permitflow_proofs import input_gate as input_gate_proofs
from permitflow_proofs import kept_channel as kept_channel_proofs
from permitflow_proofs import loop_chain as loop_chain_proofs
from permitflow_proofs import mute as mute_proofs
from permitflow_proofs import mute_delay as mute_delay_proofs
from permitflow_proofs import mute_scheduler as mute_scheduler_proofs
from permitflow_proofs import named_producer as named_producer_proofs
from permitflow_proofs import port_machine as port_machine_proofs
from permitflow_proofs import shared_window as shared_window_proofs
from permitflow_proofs import spark_micro_batch as spark_proofs
from permitflow_proofs import squelch as squelch_proofs
from permitflow_proofs import staging as staging_proofs
from permitflow_proofs import stop_and_wait as stop_and_wait_proofs
from permitflow_proofs import store_journal as store_journal_proofs
from permitflow_proofs import store_owner as store_owner_proofs
from permitflow_proofs import stream_life as stream_life_proofs
from permitflow_proofs import token_bucket as token_bucket_proofs
from permitflow_proofs.kernel.frame import Frame, frame_obligations, has_guard, keeps_frame
from permitflow_proofs.kernel.obligation import decide
from permitflow_proofs.kernel.symbols import all_of, equal
from permitflow_proofs.permit_channel import frames as permit_channel_proofs
from tests.support.mistaken import with_mistake

# The gate.


def aligns_with_one_barrier(
    state: input_gate_credit.State, parameters: input_gate_credit.Parameters
) -> input_gate_credit.State:
    require(input_gate_alignment.is_pending(state) if parameters.skip > 0 else input_gate_alignment.is_joined(state))
    channels = state.channels.map(input_gate_alignment.freed)
    return state._replace(channels=channels, epoch=state.epoch + 1)


def gives_the_next_number_up(
    state: input_gate_credit.State, parameters: input_gate_credit.Parameters
) -> input_gate_credit.State:
    after = input_gate_alignment.align(state, parameters)
    return after._replace(epoch=after.epoch + 1) if parameters.skip > 0 else after


def tells_no_backlog(
    state: input_gate_credit.State, parameters: input_gate_credit.Parameters, name: int
) -> input_gate_credit.State:
    after = input_gate_credit.send_data(state, parameters, name)
    channel = state.channels.get(name)
    wire = channel.wire.push(channel.waiting.head()._replace(backlog=0))
    return after._replace(channels=after.channels.put(name, after.channels.get(name)._replace(announced=0, wire=wire)))


def loses_data_on_arrival(
    state: input_gate_credit.State, parameters: input_gate_credit.Parameters, name: int
) -> input_gate_credit.State:
    channel = state.channels.get(name)
    after = input_gate_credit.deliver(state, parameters, name)
    if channel.wire.head().kind != "data":
        return after
    lost = after.channels.get(name)._replace(inbox=channel.inbox, free=channel.free + 1)
    return after._replace(channels=after.channels.put(name, lost))


# The scheduler that mutes.


def forgets_the_other_muters(
    state: mute_scheduler.State, parameters: mute_scheduler.Parameters, name: int, muter: int
) -> mute_scheduler.State:
    row = state.waits.get(name)
    nobody = row.map(lambda _: False)
    alone = state._replace(waits=state.waits.put(name, nobody.put(muter, row.get(muter))))
    return mute_scheduler.unmute_sender(alone, parameters, name, muter)


def loses_what_mutes(
    state: mute_scheduler.State, parameters: mute_scheduler.Parameters, name: int, to: int
) -> mute_scheduler.State:
    after = mute_scheduler.send(state, parameters, name, to)
    return after._replace(actors=state.actors) if after.waits.get(name).get(to) else after


def empties_the_mailbox(
    state: mute_scheduler.State, parameters: mute_scheduler.Parameters, name: int
) -> mute_scheduler.State:
    after = mute_scheduler.begin_behaviour(state, parameters, name)
    return after._replace(actors=after.actors.put(name, after.actors.get(name)._replace(mailbox=0)))


def is_overloaded_if_messages_are_left(
    state: mute_scheduler.State, parameters: mute_scheduler.Parameters, name: int
) -> mute_scheduler.State:
    after = mute_scheduler.end_behaviour(state, parameters, name)
    actor, before = after.actors.get(name), state.actors.get(name)
    overloaded = actor.overloaded if actor.mailbox > 0 else before.overloaded
    return after._replace(actors=after.actors.put(name, actor._replace(overloaded=overloaded)))


def overloads_nobody(
    state: mute_scheduler.State, parameters: mute_scheduler.Parameters, name: int
) -> mute_scheduler.State:
    after = mute_scheduler.end_behaviour(state, parameters, name)
    actor = after.actors.get(name)._replace(overloaded=state.actors.get(name).overloaded)
    return after._replace(actors=after.actors.put(name, actor))


# Sinks that mute.


def delivers_twice(state: mute.State, parameters: mute.Parameters, name: int) -> mute.State:
    after = mute.deliver(state, parameters, name)
    sink = after.sinks.get(name - 1)
    return after._replace(sinks=after.sinks.put(name - 1, sink._replace(inbox=sink.inbox + 1)))


def sends_nothing(state: mute.State, parameters: mute.Parameters, node: int, name: int) -> mute.State:
    return mute.send(state, parameters, node, name)._replace(sinks=state.sinks)


def learns_from_one_node(state: mute.State, parameters: mute.Parameters, node: int) -> mute.State:
    after = mute.join(state, parameters, node)
    heard = state.heard.get(0)
    name = node - parameters.sinks - parameters.relays - 1
    source = after.sources.get(name)._replace(holds=heard.map_by_name(lambda _, epoch: epoch % 2))
    return after._replace(sources=after.sources.put(name, source), heard=after.heard.put(node - 1, heard))


def tells_of_the_first_muter(state: mute.State, parameters: mute.Parameters, up: int, down: int) -> mute.State:
    def of_the_first(muter: int, epoch: int) -> mute.Signal | None:
        return mute.Signal(1, epoch) if muter == 0 and epoch > 0 else None

    after = mute.reconnect(state, parameters, up, down)
    told = state.heard.get(down - 1).listed_by_name(of_the_first)
    return after._replace(signals=after.signals.put(up - 1, after.signals.get(up - 1).put(down - 1, told)))


def is_held_by_one_sink(state: mute.State, parameters: mute.Parameters, node: int, name: int) -> mute.State:
    """A source that another sink holds goes on sending to this one."""
    require(parameters.is_source(node) and 1 <= name <= parameters.sinks)
    source, number = mute.source_at(state, parameters, node), node - parameters.sinks - parameters.relays - 1
    require(source.holds.get(name - 1) == 0)
    free = source._replace(holds=source.holds.map_by_name(lambda *_: 0))
    after = mute.send(state._replace(sources=state.sources.put(number, free)), parameters, node, name)
    held = after.sources.get(number)._replace(holds=source.holds)
    return after._replace(sources=after.sources.put(number, held))


def becomes_faster(state: mute_delay.State, parameters: mute_delay.Parameters) -> mute_delay.State:
    after = mute_delay.tick(state, parameters)
    return after._replace(sources=after.sources.map(_faster))


def _faster(source: mute_delay.Source) -> mute_delay.Source:
    return source._replace(rate=source.rate + 1, reach=source.reach + 1)


# Between two stages.


def keeps_the_element(state: port_machine.State, parameters: port_machine.Parameters) -> port_machine.State:
    return port_machine.cancel(state, parameters)._replace(element=state.element)


def drops_the_element_at_the_end(state: port_machine.State, parameters: port_machine.Parameters) -> port_machine.State:
    after = port_machine.process_event(state, parameters)
    return after._replace(element=0) if after.heard == "end" else after


def says_nothing_of_a_pull(state: port_machine.State, parameters: port_machine.Parameters) -> port_machine.State:
    after = port_machine.process_event(state, parameters)
    return after._replace(heard="nothing") if after.heard == "asked" else after


def calls_a_failure_the_end(state: port_machine.State, parameters: port_machine.Parameters) -> port_machine.State:
    after = port_machine.process_event(state, parameters)
    return after._replace(heard="end") if after.heard == "failure" else after


def drops_two(state: drop_queue.State, parameters: drop_queue.Parameters) -> drop_queue.State:
    after = drop_queue.arrive(state, parameters)
    is_full = state.size >= parameters.capacity and state.size > 1
    return after._replace(size=state.size - 1) if is_full and not state.watched else after


def forgets_what_is_held(state: conflate.State, parameters: conflate.Parameters) -> conflate.State:
    after = conflate.complete(state, parameters)
    return after._replace(held=conflate.NOTHING, came=state.given)


def counts_a_lost_message(state: demand.State, parameters: demand.Parameters) -> demand.State:
    require(not state.wire.is_empty())
    consumed = (state.consumed + 1) % parameters.tags
    return state._replace(wire=state.wire.without_head(), consumed=consumed, unrequested=state.unrequested + 1)


def asks_the_newest_signal(state: squelch.State, parameters: squelch.Parameters) -> squelch.State:
    """Time stops only for the age of the newest signal in flight."""
    newest = Fifo((state.signals.last(),)) if not state.signals.is_empty() else Fifo()
    after = squelch.tick(state._replace(signals=newest), parameters)
    return after._replace(signals=state.signals)


def loses_what_waits(state: token_bucket.State, parameters: token_bucket.Parameters) -> token_bucket.State:
    return token_bucket.tick(state, parameters)._replace(pending=0)


def passes_nothing_on(state: token_bucket.State, parameters: token_bucket.Parameters, cost: int) -> token_bucket.State:
    return token_bucket.take_tokens(state, parameters, cost)._replace(queue=state.queue, passed=state.passed)


# A streaming query.


def takes_rows_behind_a_hole(
    state: spark_micro_batch.State, parameters: spark_micro_batch.Parameters
) -> spark_micro_batch.State:
    after = spark_micro_batch.produce(state._replace(lost=0), parameters)
    return after._replace(lost=state.lost)


SURVIVORS = [
    (input_gate_proofs, Mistake("Align", aligns_with_one_barrier, "frame")),
    (mute_scheduler_proofs, Mistake("UnmuteSender", forgets_the_other_muters, "frame")),
    (mute_proofs, Mistake("Deliver", delivers_twice, "frame")),
    (mute_proofs, Mistake("Join", learns_from_one_node, "frame")),
    (mute_proofs, Mistake("Reconnect", tells_of_the_first_muter, "frame")),
    (mute_proofs, Mistake("Send", is_held_by_one_sink, "frame")),
    (spark_proofs, Mistake("Produce", takes_rows_behind_a_hole, "frame")),
    (port_machine_proofs, Mistake("ProcessEvent", drops_the_element_at_the_end, "frame")),
    (port_machine_proofs, Mistake("Cancel", keeps_the_element, "frame")),
    (input_gate_proofs, Mistake("SendData", tells_no_backlog, "frame")),
    (input_gate_proofs, Mistake("Deliver", loses_data_on_arrival, "frame")),
    (input_gate_proofs, Mistake("Align", gives_the_next_number_up, "frame")),
    (mute_scheduler_proofs, Mistake("Send", loses_what_mutes, "frame")),
    (mute_scheduler_proofs, Mistake("BeginBehaviour", empties_the_mailbox, "frame")),
    (mute_scheduler_proofs, Mistake("EndBehaviour", is_overloaded_if_messages_are_left, "frame")),
    (mute_scheduler_proofs, Mistake("EndBehaviour", overloads_nobody, "frame")),
    (port_machine_proofs, Mistake("ProcessEvent", says_nothing_of_a_pull, "frame")),
    (port_machine_proofs, Mistake("ProcessEvent", calls_a_failure_the_end, "frame")),
    (drop_queue_proofs, Mistake("Arrive", drops_two, "frame")),
    (conflate_proofs, Mistake("Complete", forgets_what_is_held, "frame")),
    (demand_proofs, Mistake("Deliver", counts_a_lost_message, "frame")),
    (squelch_proofs, Mistake("Tick", asks_the_newest_signal, "frame")),
    (mute_delay_proofs, Mistake("Tick", becomes_faster, "frame")),
    (mute_proofs, Mistake("Send", sends_nothing, "frame")),
    (token_bucket_proofs, Mistake("Tick", loses_what_waits, "frame")),
    (token_bucket_proofs, Mistake("TakeTokens", passes_nothing_on, "frame")),
]


def claims_of(proofs: Any, mistake: Mistake) -> list[str]:
    """The outcomes of the frames of one action, and of the guards that they state, with the mistake."""
    subject = with_mistake(mistake, proofs.ANY)
    frames = [frame for frame in proofs.FRAMES if frame.action == mistake.action]
    return [
        decide(lambda frame=frame, holds=holds: holds(subject, frame)).outcome  # type: ignore[misc]  # the loop's values
        for frame in frames
        for holds in (keeps_frame, has_guard)
    ]


@pytest.mark.parametrize(("proofs", "mistake"), SURVIVORS, ids=[str(mistake) for _, mistake in SURVIVORS])
def test_a_mistake_that_breaks_no_invariant_leaves_its_frame(proofs: Any, mistake: Mistake) -> None:
    assert "refuted" in claims_of(proofs, mistake)


# What an action must be able to do.


def hears_only_with_empty_hands(state: grpc_call.State, parameters: grpc_call.Parameters) -> grpc_call.State:
    require(state.hand.is_empty())
    return grpc_call.on_cancel(state, parameters)


def keeps_the_only_one(state: demand.State, parameters: demand.Parameters) -> demand.State:
    require(state.waiting.size() > 1)
    return demand.SYSTEM.perform("Withdraw", state, parameters)


@pytest.mark.parametrize(
    ("proofs", "mistake"),
    [
        (grpc_call_proofs, Mistake("OnCancel", hears_only_with_empty_hands, "grpc-call-ends-heard")),
        (demand_proofs, Mistake("Withdraw", keeps_the_only_one, "demand-withdraw")),
    ],
    ids=["OnCancel", "Withdraw"],
)
def test_an_action_that_is_refused_too_often_is_noticed(
    proofs: Any, mistake: Mistake, monkeypatch: pytest.MonkeyPatch
) -> None:
    (obligation,) = next(theorem.obligations for theorem in proofs.theorems() if theorem.id == mistake.breaks)
    monkeypatch.setattr(proofs, "SYSTEM", with_mistake(mistake, proofs.SUBJECT).system)
    assert decide(obligation.claim).outcome == "refuted"


# Frames themselves.

TABLES = [
    bridge_proofs,
    conflate_proofs,
    demand_proofs,
    direct_task_proofs,
    drop_queue_proofs,
    fan_in_proofs,
    grpc_call_proofs,
    input_gate_proofs,
    kept_channel_proofs,
    loop_chain_proofs,
    mute_proofs,
    mute_delay_proofs,
    mute_scheduler_proofs,
    named_producer_proofs,
    permit_channel_proofs,
    port_machine_proofs,
    shared_window_proofs,
    spark_proofs,
    squelch_proofs,
    staging_proofs,
    stop_and_wait_proofs,
    store_journal_proofs,
    store_owner_proofs,
    stream_life_proofs,
    token_bucket_proofs,
]


# Those with the largest states are left out of make test.
LARGE = {bridge_proofs, input_gate_proofs, mute_proofs, mute_scheduler_proofs, grpc_call_proofs, stream_life_proofs}


@pytest.mark.parametrize(
    "proofs",
    [pytest.param(proofs, marks=pytest.mark.long if proofs in LARGE else ()) for proofs in TABLES],
    ids=lambda proofs: proofs.__name__.rpartition(".")[2],
)
def test_each_part_of_a_frame_is_changed_by_its_action(proofs: Any) -> None:
    idle = []
    for frame in proofs.FRAMES:
        for path in frame.changes:
            others = {other: change for other, change in frame.changes.items() if other != path}
            without: Frame[Any, Any] = replace(frame, changes=others, so=None, when=None)
            found = decide(lambda without=without: keeps_frame(proofs.ANY, without))  # type: ignore[misc]
            if found.outcome != "refuted":
                idle.append(f"{frame.call}: {path}")
    assert idle == []


def test_an_action_without_a_frame_is_refused() -> None:
    with pytest.raises(ValueError, match="give a frame to Withdraw"):
        frame_obligations(demand_proofs.ANY, [frame for frame in demand_proofs.FRAMES if frame.action != "Withdraw"])


@pytest.mark.parametrize("proofs", [mute_proofs, mute_scheduler_proofs])
def test_calls_that_no_frame_is_about_are_noticed(proofs: Any) -> None:
    """One frame of each pair is about others: of a source twice, or of two actors."""
    *_, cover = frame_obligations(proofs.ANY, proofs.FRAMES)
    assert cover.name.startswith("each call of ")
    assert (cover.examine().outcome, cover.examine().could_fail) == ("proved", True)
    (action,) = {frame.action for frame in proofs.FRAMES if f" {frame.action} " in cover.name}
    _, second = [frame for frame in proofs.FRAMES if frame.action == action]
    twice = [second if frame.action == action else frame for frame in proofs.FRAMES]
    assert frame_obligations(proofs.ANY, twice)[-1].examine().outcome == "refuted"


@pytest.mark.parametrize(
    ("proofs", "only"),
    [
        (mute_scheduler_proofs, Frame[Any, Any]("Send", arguments=(0, 1))),
        (loop_chain_proofs, Frame[Any, Any]("Deliver", acts=lambda _: equal(loop_chain_proofs.ANY.acting, 0))),
        (mute_proofs, next(frame for frame in mute_proofs.FRAMES if frame.acts is not None)),
    ],
    ids=["two actors", "the first loop", "a relay"],
)
def test_a_frame_of_some_calls_alone_is_noticed(proofs: Any, only: Frame[Any, Any]) -> None:
    frames = [frame for frame in proofs.FRAMES if frame.action != only.action]
    cover = frame_obligations(proofs.ANY, [*frames, only])[-1]
    assert cover.name == f"each call of {only.action} has a frame"
    assert decide(cover.claim).outcome == "refuted"


def test_a_frame_of_some_parameters_alone_is_refused() -> None:
    """That the message goes to the last loop is so in a chain of one."""

    def is_alone(parameters: loop_chain.Parameters) -> bool:
        acting = loop_chain_proofs.ANY.acting
        return all_of((equal(acting, 0), equal(acting, parameters.loops - 1)))

    def goes_to_last(before: loop_chain.State, after: loop_chain.State, parameters: loop_chain.Parameters) -> bool:
        one, other = (state.loops.get(parameters.loops - 1) for state in (before, after))
        return other.wire == one.wire + 1

    changes = {"waiting": -1, "loops.0.credit": -1, "loops.0.wire": +1}
    only: Frame[Any, Any] = Frame("Send", changes, goes_to_last, acts=is_alone)
    frames = [frame for frame in loop_chain_proofs.FRAMES if frame.action != "Send"]
    with pytest.raises(ValueError, match="Send: nobody chooses who acts"):
        frame_obligations(loop_chain_proofs.ANY, [*frames, only])


def test_a_frame_of_one_number_that_stands_for_no_other_is_refused() -> None:
    only: Frame[Any, Any] = Frame("Borrow", {"pool": -1}, arguments=(0,))
    frames = [frame for frame in input_gate_proofs.FRAMES if frame.action != "Borrow"]
    with pytest.raises(ValueError, match=r"Borrow\(0\): give the subject the names of any members"):
        frame_obligations(input_gate_proofs.ANY, [*frames, only])


def test_a_frame_of_a_part_that_is_none_is_refused() -> None:
    misspelt: Frame[demand.State, demand.Parameters] = Frame("Send", {"waiting": -1, "wires": +1})
    with pytest.raises(ValueError, match="Send: the state has no part 'wires'"):
        decide(lambda: keeps_frame(demand_proofs.ANY, misspelt))


def test_a_frame_says_what_it_changes_and_by_how_much() -> None:
    frame: Frame[Any, Any] = Frame(
        "Send", {"waiting": -1, "told": None, "over": True}, words="one leaves", possible="in turn", arguments=(0, 1)
    )
    assert frame.row == ("Send(0, 1)", "in turn", "waiting -1, told, over = true", "one leaves")
    assert Frame("Done").row == ("Done", "", "nothing", "")


def test_a_guard_that_is_stated_wider_or_narrower_is_refuted() -> None:
    def is_pressed(state: mute_scheduler.State, parameters: mute_scheduler.Parameters, name: int) -> bool:
        return parameters.pressures and state.actors.get(name).pressed

    def may_be_pressed(_state: mute_scheduler.State, parameters: mute_scheduler.Parameters, _name: int) -> bool:
        return parameters.pressures

    for guard in (is_pressed, may_be_pressed):
        wrong: Frame[Any, Any] = Frame("ApplyPressure", {"actors.0.pressed": True}, when=guard)
        assert decide(lambda wrong=wrong: has_guard(mute_scheduler_proofs.ANY, wrong)).outcome == "refuted"  # type: ignore[misc]

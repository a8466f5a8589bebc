"""Rows that move together lead where they lead one by one, and a queue of runs is a queue of their items."""

from collections import Counter, deque
from dataclasses import replace
from itertools import islice
from random import Random
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from permitflow import GateParameters, Kind
from permitflow.flows.gate.core import GATE_ACTIONS, Backlog, GateReceiver, GateSender
from permitflow.flows.messages import Offered
from permitflow.flows.recording import ENDS
from permitflow.tracing import Event, MemoryTrace
from permitflow_model.input_gate import SYSTEM, due_after, is_content, is_item
from permitflow_model.input_gate_credit import Channel, Item, Parameters, State, content_in
from permitflow_model.input_gate_queues import promise_in, span_in
from permitflow_model.input_gate_runs import RUNS_AFTER_WITHDRAWALS, ItemRuns, Run
from permitflow_model.input_gate_trace import GateExplanation
from permitflow_model.kernel.queue import Fifo
from permitflow_model.kernel.replay import replay
from permitflow_model.kernel.system import Disabled, System
from permitflow_model.withdrawing_gate import SYSTEM as WITHDRAWING

PARAMETERS = Parameters(inputs=2, exclusive=3, floating=5, backlog=30, epochs=0, skip=2, ends=True, losses=True)
Gate = System[State, Parameters]
OTHERS = {
    **dict.fromkeys(
        (
            "AnnounceBacklog",
            "Grant",
            "AddCredit",
            "ResumeConsumption",
            "ConsumeBarrier",
            "Align",
            "WithdrawData",
            "ReturnCredit",
        ),
        8,
    ),
    **dict.fromkeys(("OfferBarrier", "SendBarrier"), 3),
    **dict.fromkeys(("OfferEnd", "LoseInput"), 0.2),
}
"""With how often they are tried."""


def plain(state: State) -> State:
    """The same with queues of single items."""

    def changed(channel: Channel) -> Channel:
        queues: Any = {name: Fifo(getattr(channel, name)) for name in ("waiting", "wire", "inbox")}
        return channel._replace(**queues)

    return state._replace(channels=state.channels.map(changed))


def one_by_one(system: Gate, state: State, parameters: Parameters, action: str, name: int, count: int) -> State | None:
    """The state behind this many steps; None if not all are possible."""
    for _ in range(count):
        try:
            state = system.perform(action, state, parameters, *(() if action == "Align" else (name,)))
        except Disabled:
            return None
    return state


def at_once(state: State, parameters: Parameters, action: str, name: int, count: int) -> State | None:
    try:
        return RUNS_AFTER_WITHDRAWALS[action](state, parameters, name, count)
    except Disabled:
        return None


@pytest.mark.parametrize("exclusive", [0, 3])
@pytest.mark.parametrize("system", [SYSTEM, WITHDRAWING], ids=lambda system: system.module)
def test_many_rows_move_as_one_after_the_other(system: Gate, exclusive: int) -> None:
    actions = {each.name for each in system.actions}
    runs = [action for action in RUNS_AFTER_WITHDRAWALS if action in actions]
    parameters = replace(PARAMETERS, exclusive=exclusive)
    seen = Counter[tuple[str, bool]]()
    for seed in range(60):
        random, state = Random(seed), GateExplanation(parameters, {}).start().state
        for _ in range(120):
            name, count = random.randrange(2), random.randint(1, 4)
            if random.random() < 0.3:
                (action,) = random.choices(*zip(*OTHERS.items(), strict=True))
                if action not in runs:
                    moved = one_by_one(system, state, parameters, action, name, 1) if action in actions else None
                    state = moved or state
                    continue
            else:
                action = random.choice([each for each in runs if each not in OTHERS])
            expected = one_by_one(system, plain(state), parameters, action, name, count)
            found = at_once(state, parameters, action, name, count)
            has_others = any(item.kind != "data" for item in islice(state.channels.get(name).wire, count))
            if found is not None or not (
                action in ("Deliver", "DeliverOrReturn") and has_others
            ):  # which are delivered one by one
                assert (found and plain(found)) == expected
            seen[action, found is not None and count > 1] += 1
            state = found or one_by_one(system, state, parameters, action, name, 1) or state
        assert system.broken_invariants(state, parameters) == []
    assert set(seen) == {(action, are_many) for action in runs for are_many in (True, False)}


MOVES = ("offer", "barrier", "send", "withdraw", "tell", "deliver", "consume", "return", "credit")
TAKEN_BACK = [
    *[("offer", 2), ("offer", 3), ("tell", 0), ("deliver", 0)],
    *[("return", 0), ("credit", 0), ("withdraw", 0), ("send", 0)],
]
"""More is believed to wait than does, and rows leave together."""


def recorded(moves: list[tuple[str, int]], exclusive: int) -> list[Event]:
    """What both ends of a gate's only input record; moves that are not possible are left out."""
    parameters, trace = GateParameters(inputs=1, exclusive=exclusive, floating=8, max_chunk_cost=4), MemoryTrace()
    records = [trace.recorder("orders", end, GATE_ACTIONS, {}) for end in ENDS]
    sender, receiver = GateSender[int](parameters, record=records[0]), GateReceiver[int](parameters, record=records[1])
    offered, wire, grants, number = list[Offered[int]](), deque[Any](), deque[Any](), iter(range(len(moves)))
    for move, rows in moves:
        match move:
            case "offer":
                offered.append(sender.offer(Kind.CHUNK, 0, rows))
            case "barrier":
                offered.append(sender.offer(Kind.BARRIER, next(number)))
            case "send" if sender.sendable():
                wire.append(sender.send_oldest())
                offered.pop(0)
            case "withdraw" if offered:
                sender.withdraw(offered.pop())
            case "tell" if word := sender.take_announcement():
                wire.append(word)
            case "deliver" if wire:
                arrived = wire.popleft()
                (receiver.on_announcement if isinstance(arrived, Backlog) else receiver.deliver)(arrived)
            case "consume" if receiver.inbox:
                receiver.receive_many(rows + 1)
            case "return" if grant := receiver.take_feedback():
                grants.append(grant)
            case "credit" if grants:
                sender.on_feedback(grants.popleft())
    return list(trace.events)


def judged(events: list[Event], exclusive: int, *, one_by_one: bool) -> tuple[object, ...]:
    parameters = replace(PARAMETERS, inputs=1, exclusive=exclusive, floating=8, backlog=1_000, skip=0)
    explanation = GateExplanation(parameters, {}, keep_path=one_by_one)
    start = explanation.start()
    found = replay(explanation, start._replace(state=plain(start.state)) if one_by_one else start, [events])
    return [world.state for world in found.worlds], found.performed, found.blocked, found.broken


@given(
    st.lists(st.tuples(st.sampled_from(MOVES), st.integers(0, 4)), min_size=20, max_size=80),
    st.sampled_from([0, 4]),
    st.integers(0, 999),
    st.integers(1, 5),
)
@example(TAKEN_BACK, 0, 0, 0)
@settings(deadline=None, max_examples=40, derandomize=True)
def test_chunks_are_judged_as_their_rows_are(
    moves: list[tuple[str, int]], exclusive: int, place: int, wrong_by: int
) -> None:
    events = recorded(moves, exclusive)
    assert judged(events, exclusive, one_by_one=False)[1:] == (len(events), (), ())
    with_numbers = [place for place, event in enumerate(events) if event.arguments]
    if with_numbers:
        at = with_numbers[place % len(with_numbers)]
        first, *others = events[at].arguments
        events[at] = events[at]._replace(arguments=(first + wrong_by, *others))
    assert judged(events, exclusive, one_by_one=False) == judged(events, exclusive, one_by_one=True)


def tells_at_most(item: Item, most: int) -> bool:
    return item.backlog <= most


def added(total: int, item: Item, _: None) -> int:
    return total + item.backlog


class Both:
    """A queue of runs, and the same of single items."""

    def __init__(self, runs: ItemRuns, items: Fifo[Item]) -> None:
        self.runs, self.items = runs, items

    def agree(self) -> None:
        """Is all that a model asks of them the same?"""
        runs, items = self.runs, self.items
        assert tuple(runs) == tuple(items)
        assert (runs.is_empty(), runs.size()) == (items.is_empty(), items.size())
        for ask in (content_in, promise_in, span_in):
            assert ask(runs) == ask(items)
        for holds in (is_content, is_item):
            assert runs.every(holds, PARAMETERS) == items.every(holds, PARAMETERS)
        for most in range(6):
            assert runs.every(tells_at_most, most) == items.every(tells_at_most, most)
        assert runs.fold(due_after, 1, PARAMETERS) == items.fold(due_after, 1, PARAMETERS)
        assert runs.fold(added, 0, None) == items.fold(added, 0, None)
        if not items.is_empty():
            assert (runs.head(), runs.last()) == (items.head(), items.last())
            assert tuple(runs.without_last()) == tuple(items.without_last())


def told(epoch: int, count: int, last: int) -> list[Item]:
    return [Item("data", epoch, last + left) for left in reversed(range(count))]


CHANGES = ("alike", "falling", "barrier", "backlog", "gone", "withdrawn")


@given(st.lists(st.tuples(st.sampled_from(CHANGES), st.integers(1, 5))))
def test_a_queue_of_runs_is_a_queue_of_their_items(changes: list[tuple[str, int]]) -> None:
    line = ItemRuns().grown(Item("data", 1, 0), 9)
    both = Both(ItemRuns(), Fifo())
    for change, count in changes:
        runs, items = both.runs, both.items
        match change:
            case "alike":
                both = Both(runs.grown(Item("data", 1, 0), count), Fifo((*items, *[Item("data", 1, 0)] * count)))
            case "falling":
                both = Both(runs.filled(line, count, 2), Fifo((*items, *told(1, count, 2))))
            case "gone":
                leading = next((place for place, item in enumerate(items) if item.kind != "data"), len(items))
                assert runs.leads(count) == (leading >= count)
                if leading >= count:
                    taken = runs.without(count)
                    assert taken.told == items[count - 1].backlog
                    assert tuple(ItemRuns().joined(runs, count)) == items[:count]
                    both = Both(taken, Fifo(items[count:]))
                elif not items.is_empty():
                    both = Both(runs.without_head(), items.without_head())
            case "withdrawn":
                trailing = next((n for n, item in enumerate(reversed(items)) if item.kind != "data"), len(items))
                assert runs.ends(count) == (trailing >= count)
                if trailing >= count:
                    both = Both(runs.without_newest(count), Fifo(items[: len(items) - count]))
            case kind:
                item = Item("barrier" if kind == "barrier" else "backlog", 1, 0 if kind == "barrier" else count)
                both = Both(runs.push(item), items.push(item))
        both.agree()


def test_no_row_of_a_chunk_is_looked_at_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    def looked(_: Run) -> Any:
        raise AssertionError("the rows of a run were looked at one by one")

    rows = 10**9
    line = ItemRuns().grown(Item("data", 1, 0), rows)
    monkeypatch.setattr(Run, "items", looked)
    queue = ItemRuns().filled(line, rows, 7)
    assert queue.every(is_item, PARAMETERS)
    assert repr(queue) == "ItemRuns(Run(last=Item(kind='data', epoch=1, backlog=7), length=1000000000, falls=1),)"
    assert (content_in(queue).data, promise_in(queue).data, queue.head().backlog) == (rows, rows, rows + 6)
    assert queue.leads(rows)
    assert not queue.leads(rows + 1)
    assert (queue.without(rows - 1).size(), line.without_last().size()) == (1, rows - 1)
    assert (queue.ends(rows), queue.ends(rows + 1)) == (True, False)
    assert queue.without_newest(rows - 1).last().backlog == rows + 6
    assert ItemRuns().joined(queue, rows - 1).last().backlog == 8

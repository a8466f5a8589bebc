"""A link over datagrams takes every step of the model; what it keeps behind a gap is in the network there."""

import pickle
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from typing import TypeVar

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, rule

from permitflow.carriers.datagrams.link import LinkFeedback, LinkReceiver, LinkSender
from permitflow.errors import PermitflowError
from permitflow_model import lossy_channel
from permitflow_model.kernel.queue import Fifo
from permitflow_model.lossy_channel import SYSTEM, Parameters, State
from permitflow_testing.moves import REFUSALS, Divergence, Move, compare, moves_of, require, walk

NOW = 0.0
"""Time stands still: the model says what may be sent again, and not when."""


T = TypeVar("T")


def head(queue: deque[T]) -> T:
    require(bool(queue))
    return queue.popleft()


class DrivenLink:
    """Both ends of a link, and a network that does what it is told."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.connections = 0
        self.data: deque[int] = deque()
        self.feedback: deque[LinkFeedback] = deque()
        self.old_data: list[tuple[int, int]] = []
        self.old_feedback: list[LinkFeedback] = []
        """Copies of earlier connections, with their epochs; the network has them for ever."""
        self.begin()

    def begin(self) -> None:
        epoch, window = self.epoch, self.parameters.window
        self.sender: LinkSender[int] = LinkSender(epoch=epoch, window=window)
        self.receiver: LinkReceiver[int] = LinkReceiver(epoch=epoch, window=window, now=NOW, remind_seconds=1)

    @property
    def epoch(self) -> int:
        return self.connections

    # The network.

    def done(self) -> None:
        require(self.receiver.consumed == self.sender.acknowledged == self.parameters.total)
        require(not (self.data or self.feedback or self.receiver.owes))

    def lose_data(self) -> None:
        require(self.parameters.losses)
        head(self.data)

    def lose_feedback(self) -> None:
        require(self.parameters.losses)
        head(self.feedback)

    def duplicate_data(self) -> None:
        require(self.parameters.duplicates and 0 < len(self.data) < self.parameters.copies)
        self.data.append(self.data[0])

    def duplicate_feedback(self) -> None:
        require(self.parameters.duplicates and 0 < len(self.feedback) < self.parameters.copies)
        self.feedback.append(self.feedback[0])

    def reorder_data(self) -> None:
        require(self.parameters.reorders and len(self.data) > 1)
        self.data.rotate(-1)

    def reorder_feedback(self) -> None:
        require(self.parameters.reorders and len(self.feedback) > 1)
        self.feedback.rotate(-1)

    def reconnect(self) -> None:
        require(self.connections < self.parameters.reconnects)
        self.old_data += [(self.epoch, number) for number in self.data]
        self.old_feedback += self.feedback
        self.data.clear()
        self.feedback.clear()
        self.connections += 1
        self.begin()

    def let_old_copies_arrive(self) -> None:
        """For the model nothing happens."""
        for epoch, number in self.old_data:
            assert not self.receiver.arrive(epoch, number, number, NOW)
        for feedback in self.old_feedback:
            assert not self.sender.hear(feedback, NOW)

    # The ends.

    def send(self) -> None:
        require(self.sender.sent < self.parameters.total and len(self.data) < self.parameters.copies)
        self.data.append(self.sender.send(self.sender.sent, 1, NOW))

    def retransmit(self, behind: int) -> None:
        require(self.parameters.retransmits and len(self.data) < self.parameters.copies)
        self.data.append(self.sender.retransmit(self.sender.acknowledged + behind, NOW))

    def deliver(self) -> None:
        require(bool(self.data) and self.data[0] == self.receiver.received)
        assert self.arrive()

    def refuse(self) -> None:
        require(bool(self.data) and self.data[0] != self.receiver.received)
        assert not self.arrive()

    def arrive(self) -> bool:
        number = head(self.data)
        return self.receiver.arrive(self.epoch, number, number, NOW)

    def consume(self) -> None:
        consumed = self.receiver.consumed
        assert self.receiver.take(NOW) == consumed

    def acknowledge(self) -> None:
        require(self.receiver.owes and len(self.feedback) < self.parameters.copies)
        self.feedback.append(self.receiver.feedback(NOW))

    def remind(self) -> None:
        require(self.parameters.reminds and not self.receiver.owes)
        self.receiver.remind(NOW)

    def hear(self) -> None:
        require(self.is_news())
        self.sender.hear(head(self.feedback), NOW)

    def ignore(self) -> None:
        require(not self.is_news())
        self.sender.hear(head(self.feedback), NOW)

    def is_news(self) -> bool:
        """Would the sender say so?"""
        require(bool(self.feedback))
        twin: LinkSender[int] = pickle.loads(pickle.dumps(self.sender))
        return twin.hear(self.feedback[0], NOW)

    # What can be seen.

    def observe(self) -> State:
        self.let_old_copies_arrive()
        return State(
            sent=self.sender.sent,
            acked=self.sender.acknowledged,
            limit=self.sender.limit,
            data=Fifo((*self.data, *sorted(self.receiver.early))),
            feedback=Fifo(lossy_channel.Feedback(told.acknowledged, told.limit) for told in self.feedback),
            received=self.receiver.received,
            inbox=Fifo(self.receiver.inbox),
            consumed=self.receiver.consumed,
            unreturned=0,
            due=self.receiver.owes,
            epoch=self.connections,
        )


# Where nothing comes behind a gap, both have the same states and steps.

ONE = Parameters(window=1, total=2, copies=2)
ONE_COPY = replace(ONE, copies=1)


ANEW = replace(ONE_COPY, reconnects=1)


@pytest.mark.parametrize(
    "parameters",
    [ONE, replace(ONE_COPY, reminds=False), ANEW],
    ids=["two copies", "no reminders", "another connection"],
)
def test_the_link_takes_every_step_of_the_model_and_no_other(parameters: Parameters) -> None:
    done = walk(SYSTEM, DrivenLink(parameters), parameters)
    assert min(done.states, done.edges, done.refusals) > 30


class ForgetfulLink(DrivenLink):
    """Permits that are added: the sender forgets what it has heard before."""

    def hear(self) -> None:
        told = self.feedback[0] if self.feedback else None
        super().hear()
        if told is not None:
            self.sender._limit += 1


def test_a_link_that_adds_permits_is_found() -> None:
    with pytest.raises(Divergence, match="limit"):
        walk(SYSTEM, ForgetfulLink(ONE), ONE)


class LinkWithoutEpochs(DrivenLink):
    @property
    def epoch(self) -> int:
        return 0


def test_a_link_that_takes_old_copies_is_found() -> None:
    with pytest.raises((AssertionError, PermitflowError)):
        walk(SYSTEM, LinkWithoutEpochs(ANEW), ANEW)


# What comes behind a gap is kept by the link.  For the model it is doubled: one copy is refused, and acknowledged
# again; the other one stays in the network until it is due.


def steps_of_the_model(action: str, before: State, after: State, kept: int | None) -> Iterator[tuple[str, int]]:
    """What the model does in the place of a step of the link: actions, and the copy that is to be their head.

    ``kept``: the number that the link keeps from now on.
    """
    copy = before.data.head() if before.data else 0
    match action:
        case "Deliver":
            yield from (("Deliver", number) for number in range(before.received, after.received))
        case "Refuse" if kept is not None:
            yield "DuplicateData", kept
            yield "Refuse", kept
        case "ReorderData":
            pass  # copies have no order
        case _:
            yield action, copy


def led_to_the_head(state: State, parameters: Parameters, copy: int) -> State:
    """Other copies are overtaken by this one, if it is there."""
    while copy in state.data and state.data.head() != copy:
        state = SYSTEM.perform("ReorderData", state, parameters)
    return state


def without_order(state: State) -> State:
    return state._replace(data=Fifo(sorted(state.data)))


def make(move: Move, link: DrivenLink) -> bool:
    """Make a move of a link, and its steps of the model; False: the link refuses it.

    Raises:
        Divergence: the model comes into another state, or the refusal has changed something.
    """
    spacious = replace(link.parameters, copies=99, losses=True, duplicates=True, reorders=True)
    early = set(link.receiver.early)
    expected = before = link.observe()
    try:
        getattr(link, move.method)(*move.arguments)
    except REFUSALS:
        compare(link.observe(), before, f"after the refusal of {move!r}")
        return False
    after = link.observe()
    kept = next((number for number in link.receiver.early if number not in early), None)
    for action, copy in steps_of_the_model(move.action, before, after, kept):
        expected = SYSTEM.perform(action, led_to_the_head(expected, spacious, copy), spacious, *move.arguments)
    compare(without_order(after), without_order(expected), f"after {move!r} in {before}")
    assert SYSTEM.broken_invariants(after, spacious) == []
    return True


def walk_behind_gaps(parameters: Parameters) -> tuple[int, int]:
    """Visit every state of a link; return how many there are, and in how many a number is kept behind a gap."""
    todo = [pickle.dumps(DrivenLink(parameters))]
    seen, gaps = set[object](), 0
    while todo:
        copy = todo.pop()
        for move in moves_of(SYSTEM, parameters):
            link: DrivenLink = pickle.loads(copy)
            if not make(move, link):
                continue
            key = (link.observe(), tuple(link.data))
            if key not in seen:
                seen.add(key)
                gaps += any(True for _ in link.receiver.early)
                todo.append(pickle.dumps(link))
    return len(seen), gaps


TWO = Parameters(window=2, total=2, copies=1, duplicates=False, reorders=False)


@pytest.mark.parametrize("parameters", [TWO, pytest.param(replace(TWO, total=3, copies=2), marks=pytest.mark.long)])
def test_what_is_kept_behind_a_gap_is_still_in_the_network(parameters: Parameters) -> None:
    states, gaps = walk_behind_gaps(parameters)
    assert states > 100 * parameters.copies
    assert gaps > 10


WIDE = Parameters(window=4, total=99, copies=5, reconnects=2)


class LinkMachine(RuleBasedStateMachine):
    """Any moves, with a wider window."""

    def __init__(self) -> None:
        super().__init__()
        self.link = DrivenLink(WIDE)

    @rule(move=st.sampled_from([*moves_of(SYSTEM, WIDE)]))
    def step(self, move: Move) -> None:
        make(move, self.link)


LinkMachine.TestCase.settings = settings(max_examples=30, stateful_step_count=50, deadline=None)
TestAnyMoves = LinkMachine.TestCase

"""The core of a stream that survives its connections takes every step of the model, and no other."""

from collections import deque
from dataclasses import replace
from typing import Literal, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from permitflow.carriers.resumption import MOST_UNTOLD_BYTES, Resumption
from permitflow.errors import FalsePositionError, ResumeRefusedError
from permitflow_model import resume
from permitflow_model.kernel.queue import Fifo
from permitflow_model.resume import NO_REQUEST, NONE, SYSTEM, Parameters, Request, State
from permitflow_testing.moves import Divergence, Lockstep, require, walk

FIRST = 1
"""The model's number of the first connection."""


class Written(NamedTuple):
    """A message of the sender's, in a connection."""

    connection: int
    number: tuple[int]


class FedBack(NamedTuple):
    """An acknowledgement, or a permit, in a connection."""

    connection: int
    ack: int
    returned: int
    is_permit: bool


class DrivenEnds:
    """The cores of both ends, and connections that do what they are told."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.sender, self.receiver = Resumption[tuple[int]](FIRST), Resumption[tuple[int]](FIRST)
        self.has_dialler_failed = self.has_acceptor_failed = False
        self.is_dialling = False
        self.request = self.late = NO_REQUEST
        self.answer = NONE
        self.data: deque[Written] = deque()
        self.feedback: deque[FedBack] = deque()
        self.inbox: list[int] = []

    @property
    def dialler(self) -> Resumption[tuple[int]]:
        return self.sender if self.parameters.sender_dials else self.receiver

    @property
    def acceptor(self) -> Resumption[tuple[int]]:
        return self.receiver if self.parameters.sender_dials else self.sender

    @property
    def dialler_is(self) -> Literal["open", "closed", "dialling", "failed"]:
        if self.has_dialler_failed:
            return "failed"
        if self.is_dialling:
            return "dialling"
        return "closed" if self.dialler.current is None else "open"

    @property
    def acceptor_is(self) -> Literal["open", "closed", "failed"]:
        if self.has_acceptor_failed:
            return "failed"
        return "closed" if self.acceptor.current is None else "open"

    @property
    def is_reached(self) -> bool:
        return self.acceptor.latest == self.dialler.latest and self.dialler_is in ("open", "dialling")

    # Connections.

    def done(self) -> None:
        if self.sender.received < self.parameters.total:
            require(self.has_dialler_failed and self.has_acceptor_failed and not self.inbox)

    def cut_dialled(self) -> None:
        require(self.dialler_is in ("open", "dialling") and self.dialler.latest < self.parameters.connections)
        require(self.acceptor.latest < self.dialler.latest or self.acceptor_is == "open")
        self.leave_dialled()

    def cut_accepted(self) -> None:
        require(self.acceptor_is == "open" and self.is_reached)
        require(self.dialler.latest < self.parameters.connections)
        self.acceptor.cut(self.acceptor.latest)

    def notice_dialled(self) -> None:
        require(self.is_reached and self.acceptor_is != "open")
        self.leave_dialled()

    def notice_accepted(self) -> None:
        require(self.acceptor_is == "open" and not self.is_reached)
        self.acceptor.cut(self.acceptor.latest)

    def leave_dialled(self) -> None:
        self.dialler.cut(self.dialler.latest)
        self.late = self.request if self.request.number > 0 else self.late
        self.is_dialling, self.request, self.answer = False, NO_REQUEST, NONE

    def lose_late(self) -> None:
        require(self.late.number > self.acceptor.latest)
        self.late = NO_REQUEST

    def dial(self) -> None:
        require(self.dialler_is == "closed" and self.dialler.latest < self.parameters.connections)
        self.request = Request(self.dialler.dial(), self.dialler.acknowledge())
        self.is_dialling = True

    def accept(self) -> None:
        require(self.request.number > 0 and not self.has_acceptor_failed)
        self.answer = self.acceptor.accept(*self.request, who="the acceptor")
        self.request = NO_REQUEST

    def accept_late(self) -> None:
        require(self.late.number > self.acceptor.latest and not self.has_acceptor_failed)
        self.acceptor.accept(*self.late, who="the acceptor")
        self.late = NO_REQUEST

    def refuse_late(self) -> None:
        require(0 < self.late.number <= self.acceptor.latest)
        with pytest.raises(ResumeRefusedError):
            self.acceptor.accept(*self.late, who="the acceptor")
        self.late = NO_REQUEST

    def hear_answer(self) -> None:
        require(self.answer != NONE)
        self.dialler.resumed(self.dialler.latest, self.answer)
        self.is_dialling, self.answer = False, NONE

    def decline(self) -> None:
        require(self.request.number > 0 and self.has_acceptor_failed)
        self.has_dialler_failed, self.is_dialling, self.request = True, False, NO_REQUEST

    def give_up_dialled(self) -> None:
        require(self.parameters.gives_up and self.dialler_is in ("closed", "dialling"))
        self.leave_dialled()
        self.has_dialler_failed = True

    def give_up_accepted(self) -> None:
        require(self.parameters.gives_up and self.acceptor_is == "closed")
        self.has_acceptor_failed = True

    # Messages.

    def send(self) -> None:
        failed = self.has_dialler_failed if self.parameters.sender_dials else self.has_acceptor_failed
        number = self.sender.kept.end
        require(number < min(self.sender.received + self.parameters.window, self.parameters.total) and not failed)
        self.sender.send((number,), writes=False)

    def write_kept(self) -> None:
        require(self.sender.has_unwritten)
        assert self.sender.current is not None
        self.data.append(Written(self.sender.current, self.sender.next_unwritten()))

    def deliver(self) -> None:
        """What another connection carries is dropped here, as the carrier does."""
        while self.data and self.data[0].connection != self.receiver.current:
            require(any(each.connection == self.receiver.current for each in self.data))
            stale = self.data.popleft()
            assert not self.receiver.deliver(stale.connection, 0)
        require(bool(self.data))
        written = self.data.popleft()
        self.inbox.append(*written.number)
        self.receiver.deliver(written.connection, 0)

    def consume(self) -> None:
        require(bool(self.inbox))
        self.receiver.send((self.inbox.pop(0),), writes=False)

    @property
    def is_due(self) -> bool:
        return self.receiver.received - self.receiver.told >= self.parameters.every

    def acknowledge(self) -> None:
        require(self.receiver.current is not None and self.is_due)
        assert self.receiver.current is not None
        ack = self.receiver.acknowledge()
        self.feedback.append(FedBack(self.receiver.current, ack, self.receiver.written, is_permit=False))

    def return_permit(self) -> None:
        require(self.receiver.has_unwritten and not self.is_due)
        assert self.receiver.current is not None
        self.receiver.next_unwritten()
        told, returned = self.receiver.told, self.receiver.written
        self.feedback.append(FedBack(self.receiver.current, told, returned, is_permit=True))

    def hear(self) -> None:
        require(any(each.connection == self.sender.current for each in self.feedback))
        heard = self.feedback.popleft()
        while heard.connection != self.sender.current:
            self.sender.hear(heard.connection, heard.ack)
            assert not self.sender.deliver(heard.connection, 0)
            heard = self.feedback.popleft()
        if heard.is_permit:
            self.sender.deliver(heard.connection, 0)
        else:
            self.sender.hear(heard.connection, heard.ack)

    # What can be seen.

    def heard_by(self, end: Resumption[tuple[int]]) -> int | None:
        """The connection on which an end listens, or will when the answer has come."""
        return end.latest if end is self.dialler and self.is_dialling else end.current

    def observe(self) -> State:
        to_receiver, to_sender = self.heard_by(self.receiver), self.heard_by(self.sender)
        return State(
            dialled=self.dialler.latest,
            dialler=self.dialler_is,
            accepted=self.acceptor.latest,
            acceptor=self.acceptor_is,
            request=self.request,
            late=self.late,
            answer=self.answer,
            sent=self.sender.kept.end,
            acked=self.sender.kept.start,
            written=self.sender.written,
            returned=self.sender.received,
            data=Fifo(each.number[0] for each in self.data if each.connection == to_receiver),
            feedback=Fifo(
                resume.Feedback(each.ack, each.returned) for each in self.feedback if each.connection == to_sender
            ),
            received=self.receiver.received,
            told=self.receiver.told,
            inbox=Fifo(self.inbox),
            consumed=self.receiver.kept.end,
            granted=self.receiver.written,
        )


SMALL = Parameters(window=1, every=1, total=2, connections=3, sender_dials=True)


@pytest.mark.parametrize("sender_dials", [True, False], ids=["sender dials", "receiver dials"])
def test_the_core_takes_exactly_the_steps_of_the_model(sender_dials: bool) -> None:
    parameters = replace(SMALL, sender_dials=sender_dials, connections=2, gives_up=True)
    done = walk(SYSTEM, DrivenEnds(parameters), parameters)
    assert min(done.states, done.edges, done.refusals) > 100


@pytest.mark.long
@pytest.mark.parametrize("sender_dials", [True, False], ids=["sender dials", "receiver dials"])
def test_both_ends_follow_it_with_late_requests(sender_dials: bool) -> None:
    parameters = replace(SMALL, sender_dials=sender_dials, window=2, every=2)
    done = walk(SYSTEM, DrivenEnds(parameters), parameters)
    assert min(done.states, done.edges, done.refusals) > 1_000


class Forgetful(DrivenEnds):
    """A sender that goes on behind what it had written: positions are not heard."""

    def hear_answer(self) -> None:
        require(self.answer != NONE)
        before = self.sender.written
        super().hear_answer()
        self.sender.written = before


def test_a_core_that_goes_on_where_it_stopped_is_found() -> None:
    parameters = replace(SMALL, connections=2)
    with pytest.raises(Divergence, match="written"):
        walk(SYSTEM, Forgetful(parameters), parameters)


WIDE = Parameters(window=4, every=2, total=99, connections=99, sender_dials=True)


@given(sender_dials=st.booleans(), choices=st.lists(st.integers(0, 99), max_size=100))
@settings(max_examples=30, deadline=None)
def test_any_moves_with_a_wider_window_and_more_cuts(sender_dials: bool, choices: list[int]) -> None:
    parameters = replace(WIDE, sender_dials=sender_dials)
    both = Lockstep(SYSTEM, DrivenEnds(parameters), parameters)
    for choice in choices:
        enabled = [move for move in both.enabled() if move.action != "Done"]
        both.make(enabled[choice % len(enabled)])


# Positions and connections that cannot be.


@pytest.mark.parametrize("position", [-1, 0, 3, 2**64])
def test_a_position_that_cannot_be_is_refused(position: int) -> None:
    core = Resumption[tuple[int]]()
    core.send((0,), writes=True)
    core.send((1,), writes=True)
    core.hear(0, 1)
    with pytest.raises(FalsePositionError):
        core.accept(1, position, who="the acceptor")
    assert core.current == 0


@pytest.mark.parametrize("connection", [0, 3])
def test_an_older_connection_is_refused(connection: int) -> None:
    core = Resumption[tuple[int]]()
    core.accept(3, 0, who="the acceptor")
    with pytest.raises(ResumeRefusedError, match="newer"):
        core.accept(connection, 0, who="the acceptor")
    assert core.current == 3


def test_an_acknowledgement_is_due_after_so_many_bytes() -> None:
    core = Resumption[tuple[int]]()
    assert not core.deliver(0, MOST_UNTOLD_BYTES - 1)
    assert core.deliver(0, 1)
    core.acknowledge()
    assert not core.deliver(0, 1)

"""``Resume.tla``, action for action: a stream that survives its connections.

One end dials again, both tell how many messages they have, and each sender goes on from there:
docs/protocols/resume.md explains it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, Literal, NamedTuple

from permitflow_model.kernel.parameters import Bounded, Positive
from permitflow_model.kernel.queue import Fifo, Queue, larger
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered


@dataclass(frozen=True, kw_only=True)
class Parameters(Bounded):
    """The constants of the specification."""

    window: Positive
    """Messages that may be sent and not be consumed."""

    every: Positive
    """The receiver acknowledges when it has this many messages that it has not acknowledged."""

    total: Positive
    """Messages that the application sends."""

    connections: Positive
    """The most connections, with the first one: cuts stop."""

    sender_dials: bool
    """Does the sender dial?  If not, the receiver does."""

    goes_on_from: Literal["position", "stopped", "acknowledged"] = "position"
    """From where the sender goes on: the position that it is told; the others are wrong designs."""

    displaces: bool = True
    """Does a newer connection displace the older one?  If not, what is on its way there still arrives."""

    gives_up: bool = False
    """Does an end without a connection give up, some time?"""


Dialler = Literal["open", "closed", "dialling", "failed"]
Acceptor = Literal["open", "closed", "failed"]

NONE: Final = -1
"""No answer is on its way."""


class Request(NamedTuple):
    """What the dialler says first on a new connection."""

    number: int
    """The number of the connection; 0: no request is on its way."""

    position: int
    """How many messages the dialler has."""


NO_REQUEST: Final = Request(0, 0)


class Feedback(NamedTuple):
    """What the receiver writes."""

    ack: int
    """This many messages have arrived."""

    returned: int
    """This many permits have returned, with this one."""


class State(NamedTuple):
    """The variables of the specification; messages are their numbers."""

    dialled: int
    dialler: Dialler
    accepted: int
    acceptor: Acceptor
    request: Request
    late: Request
    answer: int
    sent: int
    acked: int
    written: int
    returned: int
    data: Queue[int]
    feedback: Queue[Feedback]
    received: int
    told: int
    inbox: Queue[int]
    consumed: int
    granted: int


def initial(_parameters: Parameters) -> State:
    """The first connection is open at both ends, and nothing was sent."""
    return State(
        dialled=1,
        dialler="open",
        accepted=1,
        acceptor="open",
        request=NO_REQUEST,
        late=NO_REQUEST,
        answer=NONE,
        sent=0,
        acked=0,
        written=0,
        returned=0,
        data=Fifo(),
        feedback=Fifo(),
        received=0,
        told=0,
        inbox=Fifo(),
        consumed=0,
        granted=0,
    )


def is_reached(state: State) -> bool:
    """Does the dialler listen on the newest connection, and has the acceptor accepted it?"""
    return state.accepted == state.dialled and (state.dialler == "open" or state.dialler == "dialling")


def is_sender_on(state: State, parameters: Parameters) -> bool:
    """Has the sender a connection, as far as it knows?"""
    return state.dialler == "open" if parameters.sender_dials else state.acceptor == "open"


def is_receiver_on(state: State, parameters: Parameters) -> bool:
    """Has the receiver one?"""
    return state.acceptor == "open" if parameters.sender_dials else state.dialler == "open"


def receiver_listens(state: State, parameters: Parameters) -> bool:
    """Does it reach the receiver, what the sender writes?"""
    return state.acceptor == "open" if parameters.sender_dials else is_reached(state)


def sender_listens(state: State, parameters: Parameters) -> bool:
    """Does it reach the sender, what the receiver writes?"""
    return is_reached(state) if parameters.sender_dials else state.acceptor == "open"


def has_sender_failed(state: State, parameters: Parameters) -> bool:
    """Has the sender's end failed?"""
    return state.dialler == "failed" if parameters.sender_dials else state.acceptor == "failed"


def diallers_position(state: State, parameters: Parameters) -> int:
    """How many of the acceptor's messages the dialler has."""
    return state.returned if parameters.sender_dials else state.received


def acceptors_position(state: State, parameters: Parameters) -> int:
    """How many of the dialler's messages the acceptor has."""
    return state.received if parameters.sender_dials else state.returned


def done(state: State, parameters: Parameters) -> State:
    """Everything is consumed and its permits are back, or both ends have failed: the run has ended."""
    if state.returned >= parameters.total:
        return state
    require(state.dialler == "failed")
    require(state.acceptor == "failed")
    require(state.inbox.is_empty())
    return state


def _dialler_leaves(state: State, parameters: Parameters, end: Dialler) -> State:
    """The dialler is without a connection: what was on its way to it does not arrive."""
    late = state.request if state.request.number > 0 else state.late
    state = state._replace(dialler=end, late=late, request=NO_REQUEST, answer=NONE)
    return state._replace(feedback=Fifo()) if parameters.sender_dials else state._replace(data=Fifo())


def _acceptor_leaves(state: State, parameters: Parameters, end: Acceptor) -> State:
    """Likewise the acceptor."""
    state = state._replace(acceptor=end)
    return state._replace(data=Fifo()) if parameters.sender_dials else state._replace(feedback=Fifo())


def cut_dialled(state: State, parameters: Parameters) -> State:
    """The dialler loses the connection; a request that is on its way may still arrive."""
    require(state.dialler == "open" or state.dialler == "dialling")
    require(state.dialled < parameters.connections)
    require(state.accepted < state.dialled or state.acceptor == "open")
    return _dialler_leaves(state, parameters, "closed")


def cut_accepted(state: State, parameters: Parameters) -> State:
    """The acceptor loses the connection."""
    require(state.acceptor == "open")
    require(is_reached(state))
    require(state.dialled < parameters.connections)
    return _acceptor_leaves(state, parameters, "closed")


def lose_late(state: State, _parameters: Parameters) -> State:
    """A request whose connection was given up does not arrive."""
    require(state.late.number > state.accepted)
    return state._replace(late=NO_REQUEST)


def send(state: State, parameters: Parameters) -> State:
    """The application sends the next message: it is kept, with a connection or without."""
    require(state.sent < state.returned + parameters.window)
    require(state.sent < parameters.total)
    require(not has_sender_failed(state, parameters))
    return state._replace(sent=state.sent + 1)


def write_kept(state: State, parameters: Parameters) -> State:
    """The next message is written on this connection."""
    require(is_sender_on(state, parameters))
    require(state.written < state.sent)
    if receiver_listens(state, parameters):
        state = state._replace(data=state.data.push(state.written))
    return state._replace(written=state.written + 1)


def deliver(state: State, parameters: Parameters) -> State:
    """A message arrives, and counts once it is in the inbox."""
    require(is_receiver_on(state, parameters))
    require(not state.data.is_empty())
    return state._replace(
        data=state.data.without_head(), inbox=state.inbox.push(state.data.head()), received=state.received + 1
    )


def consume(state: State, _parameters: Parameters) -> State:
    """The application has consumed the oldest message."""
    require(not state.inbox.is_empty())
    return state._replace(inbox=state.inbox.without_head(), consumed=state.consumed + 1)


def _fed_back(state: State, parameters: Parameters, feedback: Feedback) -> State:
    if sender_listens(state, parameters):
        return state._replace(feedback=state.feedback.push(feedback))
    return state


def acknowledge(state: State, parameters: Parameters) -> State:
    """The receiver acknowledges what has arrived: in time, before its own messages."""
    require(is_receiver_on(state, parameters))
    require(state.received - state.told >= parameters.every)
    feedback = Feedback(state.received, state.granted)
    return _fed_back(state, parameters, feedback)._replace(told=state.received)


def return_permit(state: State, parameters: Parameters) -> State:
    """The permit of a consumed message returns: a message of the other direction."""
    require(is_receiver_on(state, parameters))
    require(state.granted < state.consumed)
    require(state.received - state.told < parameters.every)
    feedback = Feedback(state.told, state.granted + 1)
    return _fed_back(state, parameters, feedback)._replace(granted=state.granted + 1)


def hear(state: State, parameters: Parameters) -> State:
    """An acknowledgement or a permit arrives."""
    require(is_sender_on(state, parameters))
    require(not state.feedback.is_empty())
    feedback = state.feedback.head()
    return state._replace(
        acked=larger(state.acked, feedback.ack),
        returned=larger(state.returned, feedback.returned),
        feedback=state.feedback.without_head(),
    )


def notice_dialled(state: State, parameters: Parameters) -> State:
    """The dialler notices that the acceptor has left the connection."""
    require(is_reached(state))
    require(state.acceptor != "open")
    return _dialler_leaves(state, parameters, "closed")


def notice_accepted(state: State, parameters: Parameters) -> State:
    """The acceptor notices that the dialler has left the connection."""
    require(state.acceptor == "open")
    require(not is_reached(state))
    return _acceptor_leaves(state, parameters, "closed")


def dial(state: State, parameters: Parameters) -> State:
    """The dialler tries again: its request says how many messages it has."""
    require(state.dialler == "closed")
    require(state.dialled < parameters.connections)
    number = state.dialled + 1
    return state._replace(
        dialler="dialling",
        dialled=number,
        request=Request(number, diallers_position(state, parameters)),
        told=state.told if parameters.sender_dials else state.received,
    )


def _going_on(state: State, parameters: Parameters, position: int) -> State:
    """From where the sender goes on that is told this position."""
    if parameters.goes_on_from == "position":
        return state._replace(acked=position, written=position)
    if parameters.goes_on_from == "acknowledged":
        return state._replace(written=state.acked)
    return state


def _takes(state: State, parameters: Parameters, request: Request) -> State:
    """The acceptor takes a connection; nothing more is heard of an older one."""
    require(state.acceptor != "failed")
    state = state._replace(acceptor="open", accepted=request.number)
    if parameters.displaces or not parameters.sender_dials:
        state = state._replace(data=Fifo())
    if parameters.displaces or parameters.sender_dials:
        state = state._replace(feedback=Fifo())
    if parameters.sender_dials:
        return state._replace(told=state.received, granted=request.position)
    return _going_on(state, parameters, request.position)


def accept(state: State, parameters: Parameters) -> State:
    """The newest request arrives; the answer says how many messages the acceptor has."""
    require(state.request.number > 0)
    answer = acceptors_position(state, parameters)
    return _takes(state, parameters, state.request)._replace(request=NO_REQUEST, answer=answer)


def accept_late(state: State, parameters: Parameters) -> State:
    """A request arrives whose connection the dialler has given up: the answer goes nowhere."""
    require(state.late.number > state.accepted)
    return _takes(state, parameters, state.late)._replace(late=NO_REQUEST)


def refuse_late(state: State, _parameters: Parameters) -> State:
    """A request that is older than the newest connection that was accepted is refused."""
    require(state.late.number > 0)
    require(state.late.number <= state.accepted)
    return state._replace(late=NO_REQUEST)


def hear_answer(state: State, parameters: Parameters) -> State:
    """The dialler hears the answer: the stream goes on."""
    require(state.answer != NONE)
    after = state._replace(dialler="open", answer=NONE)
    if parameters.sender_dials:
        return _going_on(after, parameters, state.answer)
    return after._replace(granted=state.answer)


def decline(state: State, _parameters: Parameters) -> State:
    """An acceptor that has failed does not know the stream: the dialler fails, too."""
    require(state.request.number > 0)
    require(state.acceptor == "failed")
    return state._replace(dialler="failed", request=NO_REQUEST)


def give_up_dialled(state: State, parameters: Parameters) -> State:
    """The dialler gives up, after a while: it fails."""
    require(parameters.gives_up)
    require(state.dialler == "closed" or state.dialler == "dialling")
    return _dialler_leaves(state, parameters, "failed")


def give_up_accepted(state: State, parameters: Parameters) -> State:
    """The acceptor gives up waiting for another connection: it fails."""
    require(parameters.gives_up)
    require(state.acceptor == "closed")
    return _acceptor_leaves(state, parameters, "failed")


def after(number: int) -> int:
    """The number that follows; of all in a queue together, the number that none of them reaches."""
    return number + 1


def ack_of(feedback: Feedback) -> int:
    """What it acknowledges."""
    return feedback.ack


def returned_of(feedback: Feedback) -> int:
    """How many permits have returned with it."""
    return feedback.returned


def is_natural(number: int, _parameters: Parameters) -> bool:
    """May it be the number of a message?"""
    return number >= 0


def is_feedback(feedback: Feedback, _parameters: Parameters) -> bool:
    """Are its numbers in their range?"""
    return feedback.ack >= 0 and feedback.returned >= 0


def is_in_line(feedback: Feedback, parameters: Parameters) -> bool:
    """Is it no permit that has overtaken an acknowledgement?"""
    return feedback.returned - feedback.ack < parameters.every


OUT_OF_ORDER = -1
"""No message has this number: after one that is out of order, none is due."""


def due_after(due: int, number: int, _parameters: Parameters) -> int:
    """The number that is due after this one, or ``OUT_OF_ORDER`` if another one was due."""
    return number + 1 if number == due else OUT_OF_ORDER


def type_ok(state: State, parameters: Parameters) -> bool:
    """Every variable is in its range."""
    return (
        0 <= state.sent <= parameters.total
        and 0 <= state.dialled <= parameters.connections
        and state.accepted >= 0
        and state.request.number >= 0
        and state.request.position >= 0
        and state.late.number >= 0
        and state.late.position >= 0
        and state.answer >= NONE
        and state.acked >= 0
        and state.written >= 0
        and state.returned >= 0
        and state.received >= 0
        and state.told >= 0
        and state.consumed >= 0
        and state.granted >= 0
        and state.data.every(is_natural, parameters)
        and state.inbox.every(is_natural, parameters)
        and state.feedback.every(is_feedback, parameters)
    )


def one_connection(state: State, parameters: Parameters) -> bool:
    """No end is on a connection of which the other one does not know, or waits for an answer that does not come."""
    is_dialling = state.dialler == "dialling"
    is_open = state.dialler == "open"
    if state.accepted > state.dialled or state.late.number > state.dialled:
        return False
    if (state.dialler == "failed" or state.acceptor == "failed") and not parameters.gives_up:
        return False
    if state.request.number > 0 and not (
        is_dialling and state.request.number == state.dialled and state.accepted < state.dialled
    ):
        return False
    if (is_dialling or is_open) and state.late.number == state.dialled:
        return False
    if is_open and state.accepted < state.dialled:
        return False
    if is_dialling and state.request.number == 0 and state.answer == NONE:
        return False
    if state.answer != NONE and not (is_dialling and state.accepted == state.dialled):
        return False
    if state.dialled < parameters.connections or state.dialler == "failed":
        return True
    return state.dialler != "closed" and (state.accepted < state.dialled or state.acceptor == "open")


def nothing_invented(state: State, parameters: Parameters) -> bool:
    """Nobody knows of messages that were not sent, or of arrivals that did not happen; what is told is still so."""
    diallers = diallers_position(state, parameters)
    is_told = state.answer != NONE
    if not parameters.sender_dials:
        is_told = is_told or state.request.number > 0 or state.late.number > state.accepted
    if is_told and state.told < state.received:
        return False
    return (
        state.acked <= state.told <= state.received <= state.sent
        and state.written <= state.sent
        and state.returned <= state.granted <= state.consumed
        and state.feedback.sum_of(ack_of, larger, 0) <= state.told
        and state.feedback.sum_of(returned_of, larger, 0) <= state.granted
        and (state.request.number == 0 or state.request.position == diallers)
        and (state.late.number <= state.accepted or state.late.position == diallers)
        and (state.answer == NONE or state.answer == acceptors_position(state, parameters))
    )


def nothing_lost(state: State, parameters: Parameters) -> bool:
    """What is on its way follows what has arrived, and what was written last follows that."""
    end = state.received + state.data.size()
    if state.data.fold(due_after, state.received, parameters) != end or end > state.sent:
        return False
    if is_sender_on(state, parameters) and receiver_listens(state, parameters) and state.written != end:
        return False
    waits = state.dialler == "dialling" and state.accepted == state.dialled
    if parameters.sender_dials:
        return state.data.is_empty() or (state.acceptor == "open" and not waits)
    return (state.data.is_empty() or is_reached(state)) and (not waits or state.feedback.is_empty())


def in_order(state: State, parameters: Parameters) -> bool:
    """The inbox holds the numbers from consumed to received: none is lost, doubled or overtaken."""
    due = state.inbox.fold(due_after, state.consumed, parameters)
    return due == state.received and state.received == state.consumed + state.inbox.size()


def permits_in_line(state: State, parameters: Parameters) -> bool:
    """A permit overtakes fewer than ``every`` acknowledgements; none that was written is forgotten."""
    if state.sent > state.returned + parameters.window or state.returned - state.acked >= parameters.every:
        return False
    if not state.feedback.every(is_in_line, parameters):
        return False
    if not (is_receiver_on(state, parameters) and sender_listens(state, parameters)):
        return True
    return state.granted == larger(state.returned, state.feedback.sum_of(returned_of, larger, 0))


def bounded(state: State, parameters: Parameters) -> bool:
    """The permits bound what is sent and not consumed, as without cuts."""
    return state.sent - state.consumed <= parameters.window


def kept_bounded(state: State, parameters: Parameters) -> bool:
    """... and they bound what the sender keeps."""
    return state.sent - state.acked <= parameters.window + parameters.every - 1


def never_starved(state: State, parameters: Parameters) -> bool:
    """A sender that may not send will be told that it may send more, over a connection that holds."""
    if state.sent < state.returned + parameters.window or state.consumed < state.sent:
        return True
    if not state.feedback.is_empty():
        return True
    if not is_sender_on(state, parameters) or not is_receiver_on(state, parameters):
        return True
    return state.granted < state.consumed


_Step = Callable[..., State]


def _of_network(name: str, perform: _Step) -> Action[State, Parameters]:
    return Action(name, perform, is_environment=True)


SYSTEM: System[State, Parameters] = System(
    module="Resume",
    initial=initial,
    actions=(
        _of_network("Done", done),
        _of_network("CutDialled", cut_dialled),
        _of_network("CutAccepted", cut_accepted),
        _of_network("LoseLate", lose_late),
        Action("Send", send, end="sender"),
        Action("WriteKept", write_kept, end="sender"),
        Action("Deliver", deliver, is_arrival=True, end="receiver"),
        Action("Consume", consume, end="receiver"),
        Action("Acknowledge", acknowledge, end="receiver"),
        Action("ReturnPermit", return_permit, end="receiver"),
        Action("Hear", hear, is_arrival=True, end="sender"),
        Action("NoticeDialled", notice_dialled, end="dialler"),
        Action("NoticeAccepted", notice_accepted, end="acceptor"),
        Action("Dial", dial, end="dialler"),
        Action("Accept", accept, is_arrival=True, end="acceptor"),
        Action("AcceptLate", accept_late, is_arrival=True, end="acceptor"),
        Action("RefuseLate", refuse_late, is_arrival=True, end="acceptor"),
        Action("HearAnswer", hear_answer, is_arrival=True, end="dialler"),
        Action("Decline", decline, end="acceptor"),
        Action("GiveUpDialled", give_up_dialled, end="dialler"),
        Action("GiveUpAccepted", give_up_accepted, end="acceptor"),
    ),
    invariants={
        "TypeOK": type_ok,
        "OneConnection": one_connection,
        "NothingInvented": nothing_invented,
        "NothingLost": nothing_lost,
        "InOrder": in_order,
        "PermitsInLine": permits_in_line,
        "Bounded": bounded,
        "KeptBounded": kept_bounded,
        "NeverStarved": never_starved,
    },
    probes={
        "KeptLessProbe": lambda state, parameters: state.sent - state.acked < parameters.window + parameters.every - 1,
        "NoLateProbe": lambda state, _: state.late.number <= state.accepted,
        "NoDisplacingProbe": lambda state, _: state.request.number == 0 or state.acceptor != "open",
    },
    counters={
        "sender": lambda state: (state.sent, state.acked, state.returned),
        "receiver": lambda state: (state.received, state.consumed),
    },
)

REGISTERED = Registered(
    system=SYSTEM,
    parameters=Parameters,
    theorems="permitflow_proofs.resume:theorems",
)

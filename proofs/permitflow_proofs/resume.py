"""A stream that survives its connections, for any window, any number of messages and any cuts.

The clauses are shown in states that satisfy all of them, so they are inductive together.  Both values of SenderDials
are tried: the two directions of a stream.
"""

from functools import partial

from permitflow_model.kernel.queue import larger
from permitflow_model.resume import (
    NONE,
    OUT_OF_ORDER,
    SYSTEM,
    Parameters,
    State,
    acceptors_position,
    ack_of,
    diallers_position,
    due_after,
    is_reached,
    is_receiver_on,
    is_sender_on,
    receiver_listens,
    returned_of,
    sender_listens,
)
from permitflow_proofs.bounded_queue_refinement import SEEN_LAWS, refinement_theorem
from permitflow_proofs.kernel.arbitrary import any_parameters_of, arbitrary, assume_all
from permitflow_proofs.kernel.chapter import Chapter
from permitflow_proofs.kernel.frame import Frame
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.queue import Law, SymbolicQueue
from permitflow_proofs.kernel.queue_facts import dead_end_obligation
from permitflow_proofs.kernel.ranking import comes_to_rest
from permitflow_proofs.kernel.symbols import integer, natural
from permitflow_proofs.kernel.theorem import Theorem

INVARIANT = {
    name: SYSTEM.invariants[name]
    for name in ("TypeOK", "OneConnection", "NothingInvented", "NothingLost", "InOrder", "PermitsInLine")
}
"""What every reachable state satisfies; proved by induction."""


def _any_state_of(names: tuple[str, ...], parameters: Parameters, laws: tuple[Law, ...] = ()) -> State:
    ends = {due_after: OUT_OF_ORDER}
    data = SymbolicQueue.any_queue("data", integer, dead_ends=ends)
    inbox = SymbolicQueue.any_queue("inbox", integer, laws, dead_ends=ends)
    state = arbitrary(State, special={"data": data, "inbox": inbox})
    # Asked before the clauses, which do not ask on all of their paths.
    for measure in (ack_of, returned_of):
        state.feedback.sum_of(measure, larger, 0)
    assume_all([INVARIANT[name] for name in names], state, parameters)
    # What follows the oldest feedback: the largest number is there, or is the oldest one's.
    for measure in (ack_of, returned_of):
        state.feedback.without_head().sum_of(measure, larger, 0)
    return state


_right = partial(any_parameters_of, Parameters, goes_on_from="position", displaces=True)

SUBJECT = Subject(SYSTEM, _right, partial(_any_state_of, tuple(INVARIANT)))
"""The protocol, whatever happens to its connections."""

SEEN = Subject(SYSTEM, _right, partial(_any_state_of, tuple(INVARIANT), laws=SEEN_LAWS))
"""The protocol, with what a user sees of it."""

ANY = Subject(SYSTEM, partial(any_parameters_of, Parameters), partial(_any_state_of, ("TypeOK",)))
"""The protocol in any state of the right types, also with the wrong designs."""

_CHAPTER = Chapter(
    SUBJECT,
    INVARIANT,
    "resume-",
    promises=frozenset({"in-order", "bounded", "kept-bounded", "goes-on", "ends"}),
)


def _holds_fewer(state: State, parameters: Parameters) -> bool:
    return state.sent - state.consumed < parameters.window


def _keeps(state: State, parameters: Parameters, *, fewer: int) -> bool:
    return state.sent - state.acked <= parameters.window + parameters.every - 1 - fewer


def _names(state: State, _parameters: Parameters, *, due: int) -> bool:
    """Never a gap, a duplicate or an old number: the oldest in the inbox is the one that is due."""
    return state.inbox.is_empty() or state.inbox.head() == state.consumed + due


# Progress: first what connections may still do, because cuts stop; between two of their steps what data may still do.

_STEPS = tuple(action.name for action in SYSTEM.actions if action.name != "Done")
"""The cuts, too, and what the application sends; ``Done`` stands for the end of a run."""


def _connections_left(state: State, parameters: Parameters) -> int:
    """At least this many steps of the connections, cuts included."""
    dialler = (
        3 if state.dialler == "dialling" else 2 if state.dialler == "open" else 1 if state.dialler == "closed" else 0
    )
    acceptor = 2 if state.acceptor == "open" else 1 if state.acceptor == "closed" else 0
    late = 1 if state.late.number > 0 else 0
    unused = 8 * (parameters.connections - state.dialled) + 3 * (parameters.connections - state.accepted)
    return unused + 2 * dialler + acceptor + late


def _data_left(state: State, parameters: Parameters) -> int:
    """At least this many steps of data and feedback until everything is consumed or the connection is lost."""
    counts = state.sent + state.written + state.received + state.consumed
    known = 2 * (state.told + state.granted) - state.feedback.size()
    return 8 * parameters.total - counts - known


def _rests(state: State, parameters: Parameters, *, at_end: bool) -> bool:
    """Where the protocol can do nothing more, everything is consumed, or both ends have failed."""
    if SYSTEM.can_move(state, parameters):
        return True
    have_failed = state.dialler == "failed" and state.acceptor == "failed"
    return have_failed or (at_end and state.consumed == parameters.total)


# Frames.


def _dialler_left(before: State, after: State, parameters: Parameters) -> bool:
    late = before.request if before.request.number > 0 else before.late
    is_late = after.late.number == late.number and after.late.position == late.position
    if not is_late or after.request.number != 0 or after.request.position != 0 or after.answer != NONE:
        return False
    if parameters.sender_dials:
        return after.feedback.is_empty() and after.data.size() == before.data.size()
    return after.data.is_empty() and after.feedback.size() == before.feedback.size()


def _acceptor_left(before: State, after: State, parameters: Parameters) -> bool:
    if parameters.sender_dials:
        return after.data.is_empty() and after.feedback.size() == before.feedback.size()
    return after.feedback.is_empty() and after.data.size() == before.data.size()


_LEAVING = {
    **dict.fromkeys(("request.number", "request.position", "late.number", "late.position")),
    **dict.fromkeys(("answer", "data", "feedback")),
}


def _no_request_is_late(_before: State, after: State, _parameters: Parameters) -> bool:
    return after.late.number == 0 and after.late.position == 0


def _is_written(before: State, after: State, parameters: Parameters) -> bool:
    if not receiver_listens(before, parameters):
        return after.data.size() == before.data.size()
    return after.data.size() == before.data.size() + 1 and after.data.last() == before.written


def _has_arrived(before: State, after: State, _parameters: Parameters) -> bool:
    return after.inbox.last() == before.data.head()


def _tells(before: State, after: State, parameters: Parameters, *, ack: int, returned: int) -> bool:
    if not sender_listens(before, parameters):
        return after.feedback.size() == before.feedback.size()
    news = after.feedback.last()
    is_one_more = after.feedback.size() == before.feedback.size() + 1
    return is_one_more and news.ack == ack and news.returned == returned


def _acknowledges(before: State, after: State, parameters: Parameters) -> bool:
    tells = _tells(before, after, parameters, ack=before.received, returned=before.granted)
    return after.told == before.received and tells


def _returns(before: State, after: State, parameters: Parameters) -> bool:
    return _tells(before, after, parameters, ack=before.told, returned=before.granted + 1)


def _has_heard(before: State, after: State, _parameters: Parameters) -> bool:
    news = before.feedback.head()
    return after.acked == larger(before.acked, news.ack) and after.returned == larger(before.returned, news.returned)


def _asks(before: State, after: State, parameters: Parameters) -> bool:
    told = before.told if parameters.sender_dials else before.received
    is_asked = after.request.number == after.dialled
    return is_asked and after.request.position == diallers_position(before, parameters) and after.told == told


def _goes_on_from(before: State, after: State, parameters: Parameters, position: int) -> bool:
    if parameters.goes_on_from == "position":
        return after.acked == position and after.written == position
    if after.acked != before.acked:
        return False
    return after.written == (before.acked if parameters.goes_on_from == "acknowledged" else before.written)


def _takes(before: State, after: State, parameters: Parameters, *, late: bool) -> bool:
    asked = before.late if late else before.request
    if after.accepted != asked.number:
        return False
    heard = (after.data, before.data) if parameters.sender_dials else (after.feedback, before.feedback)
    unheard = after.feedback if parameters.sender_dials else after.data
    if not unheard.is_empty() or heard[0].size() != (0 if parameters.displaces else heard[1].size()):
        return False
    if parameters.sender_dials:
        is_told = after.told == before.received and after.granted == asked.position
        return is_told and after.acked == before.acked and after.written == before.written
    is_granted = after.told == before.told and after.granted == before.granted
    return is_granted and _goes_on_from(before, after, parameters, asked.position)


def _answers(before: State, after: State, parameters: Parameters) -> bool:
    is_answered = after.answer == acceptors_position(before, parameters)
    return is_answered and after.request.number == 0 and _takes(before, after, parameters, late=False)


def _answers_late(before: State, after: State, parameters: Parameters) -> bool:
    return _no_request_is_late(before, after, parameters) and _takes(before, after, parameters, late=True)


def _is_answered(before: State, after: State, parameters: Parameters) -> bool:
    if after.answer != NONE:
        return False
    if parameters.sender_dials:
        return after.granted == before.granted and _goes_on_from(before, after, parameters, before.answer)
    return after.granted == before.answer and after.acked == before.acked and after.written == before.written


def _is_declined(_before: State, after: State, _parameters: Parameters) -> bool:
    return after.request.number == 0 and after.request.position == 0


def _listens_on(state: State) -> bool:
    return state.dialler == "open" or state.dialler == "dialling"


def _may_send(state: State, parameters: Parameters) -> bool:
    end = state.dialler if parameters.sender_dials else state.acceptor
    return state.sent < state.returned + parameters.window and state.sent < parameters.total and end != "failed"


_TAKING = dict.fromkeys(("accepted", "data", "feedback", "told", "granted", "acked", "written"))

FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame(
        "Done",
        when=lambda state, parameters: (
            state.returned >= parameters.total
            or (state.dialler == "failed" and state.acceptor == "failed" and state.inbox.is_empty())
        ),
        possible="where everything has returned, or both ends have failed and the inbox is empty",
    ),
    Frame(
        "CutDialled",
        {"dialler": "closed", **_LEAVING},
        _dialler_left,
        "what was on its way to the dialler is lost; its request is late",
        when=lambda state, parameters: (
            _listens_on(state)
            and state.dialled < parameters.connections
            and (state.accepted < state.dialled or state.acceptor == "open")
        ),
        possible="where the dialler listens, the acceptor has not left, and there may be another connection",
    ),
    Frame(
        "CutAccepted",
        {"acceptor": "closed", "data": None, "feedback": None},
        _acceptor_left,
        "what was on its way to the acceptor is lost",
        when=lambda state, parameters: (
            state.acceptor == "open" and is_reached(state) and state.dialled < parameters.connections
        ),
        possible="where both ends are on the newest connection, and there may be another one",
    ),
    Frame(
        "LoseLate",
        {"late.number": None, "late.position": None},
        _no_request_is_late,
        "no request is late",
        when=lambda state, _: state.late.number > state.accepted,
        possible="where a late request would be accepted",
    ),
    Frame(
        "Send",
        {"sent": +1},
        when=_may_send,
        possible="where a permit is left, and the sender's end has not failed",
    ),
    Frame(
        "WriteKept",
        {"written": +1, "data": None},
        _is_written,
        "the next message is on its way, if the receiver listens",
        when=lambda state, parameters: is_sender_on(state, parameters) and state.written < state.sent,
        possible="where the sender has a connection, and not all is written",
    ),
    Frame(
        "Deliver",
        {"data": -1, "inbox": +1, "received": +1},
        _has_arrived,
        "the oldest message is in the inbox",
        when=lambda state, parameters: is_receiver_on(state, parameters) and not state.data.is_empty(),
        possible="where the receiver has a connection, and a message is on its way",
    ),
    Frame(
        "Consume",
        {"inbox": -1, "consumed": +1},
        when=lambda state, _: not state.inbox.is_empty(),
        possible="where the inbox is not empty",
    ),
    Frame(
        "Acknowledge",
        {"told": None, "feedback": None},
        _acknowledges,
        "what has arrived is told, if the sender listens",
        when=lambda state, parameters: (
            is_receiver_on(state, parameters) and state.received >= state.told + parameters.every
        ),
        possible="where the receiver has a connection, and enough has arrived",
    ),
    Frame(
        "ReturnPermit",
        {"granted": +1, "feedback": None},
        _returns,
        "one permit more returns, if the sender listens",
        when=lambda state, parameters: (
            is_receiver_on(state, parameters)
            and state.granted < state.consumed
            and state.received < state.told + parameters.every
        ),
        possible="where the receiver has a connection, a permit is to return, and no acknowledgement is due",
    ),
    Frame(
        "Hear",
        {"feedback": -1, "acked": None, "returned": None},
        _has_heard,
        "the larger numbers count",
        when=lambda state, parameters: is_sender_on(state, parameters) and not state.feedback.is_empty(),
        possible="where the sender has a connection, and feedback is on its way",
    ),
    Frame(
        "NoticeDialled",
        {"dialler": "closed", **_LEAVING},
        _dialler_left,
        "as if cut",
        when=lambda state, _: is_reached(state) and state.acceptor != "open",
        possible="where the acceptor has left the newest connection",
    ),
    Frame(
        "NoticeAccepted",
        {"acceptor": "closed", "data": None, "feedback": None},
        _acceptor_left,
        "as if cut",
        when=lambda state, _: state.acceptor == "open" and not is_reached(state),
        possible="where the dialler has left the acceptor's connection",
    ),
    Frame(
        "Dial",
        {"dialler": "dialling", "dialled": +1, "request.number": None, "request.position": None, "told": None},
        _asks,
        "the request tells the dialler's position",
        when=lambda state, parameters: state.dialler == "closed" and state.dialled < parameters.connections,
        possible="where the dialler has no connection, and there may be another one",
    ),
    Frame(
        "Accept",
        {"acceptor": "open", **_TAKING, "request.number": None, "request.position": None, "answer": None},
        _answers,
        "the newest connection counts; the answer tells the acceptor's position",
        when=lambda state, _: state.request.number > 0 and state.acceptor != "failed",
        possible="where the newest request is on its way to an acceptor that has not failed",
    ),
    Frame(
        "AcceptLate",
        {"acceptor": "open", **_TAKING, "late.number": None, "late.position": None},
        _answers_late,
        "likewise, without an answer",
        when=lambda state, _: state.late.number > state.accepted and state.acceptor != "failed",
        possible="where a late request is newer than what was accepted",
    ),
    Frame(
        "RefuseLate",
        {"late.number": None, "late.position": None},
        _no_request_is_late,
        "no request is late",
        when=lambda state, _: state.late.number > 0 and state.late.number <= state.accepted,
        possible="where a late request is older",
    ),
    Frame(
        "HearAnswer",
        {"dialler": "open", **dict.fromkeys(("answer", "acked", "written", "granted"))},
        _is_answered,
        "the stream goes on from the acceptor's position",
        when=lambda state, _: state.answer != NONE,
        possible="where an answer is on its way",
    ),
    Frame(
        "Decline",
        {"dialler": "failed", "request.number": None, "request.position": None},
        _is_declined,
        "no request is on its way",
        when=lambda state, _: state.request.number > 0 and state.acceptor == "failed",
        possible="where the newest request comes to an acceptor that has failed",
    ),
    Frame(
        "GiveUpDialled",
        {"dialler": "failed", **_LEAVING},
        _dialler_left,
        "as if cut, for ever",
        when=lambda state, parameters: (
            parameters.gives_up and (state.dialler == "closed" or state.dialler == "dialling")
        ),
        possible="where the dialler has no connection, if ends give up",
    ),
    Frame(
        "GiveUpAccepted",
        {"acceptor": "failed", "data": None, "feedback": None},
        _acceptor_left,
        "as if cut, for ever",
        when=lambda state, parameters: parameters.gives_up and state.acceptor == "closed",
        possible="where the acceptor has no connection, if ends give up",
    ),
)
"""What each action changes."""


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    follows = SUBJECT.holds_whenever_invariant
    return (
        _CHAPTER.kept(
            "type-ok",
            "TypeOK",
            "No count is ever negative, and there are no more connections than may be dialled.",
            lambda state, _: state._replace(answer=NONE - 1),
            "an answer below all positions",
        ),
        _CHAPTER.kept(
            "one-connection",
            "OneConnection",
            "Whichever end loses its connection when: no end is on a connection that the other one has not dialled or "
            "accepted, an open dialler is on the newest one, and a dialler that waits has a request or an answer on "
            "its way.",
            lambda state, _: state._replace(accepted=state.dialled + 1),
            "after the step a connection is accepted that was not dialled",
        ),
        _CHAPTER.kept(
            "nothing-invented",
            "NothingInvented",
            "Whatever is cut: what the sender forgets has arrived; and the position that a request or an answer tells "
            "is still so when it arrives, because nothing arrives meanwhile.",
            lambda state, _: state._replace(acked=state.told + 1),
            "after the step one message is forgotten that has not arrived",
        ),
        _CHAPTER.kept(
            "nothing-lost",
            "NothingLost",
            "What is on its way follows, without a gap, what has arrived; and what the sender writes next follows "
            "that, wherever it would arrive.",
            lambda state, _: state._replace(received=state.received + 1),
            "after the step a message counts as received that is not",
        ),
        _CHAPTER.kept(
            "in-order",
            "InOrder",
            "However often the connection is lost, by either end: what the application consumes is 0, 1, 2, ...: no "
            "message is lost, doubled or overtaken.",
            lambda state, _: state._replace(received=state.received + 1),
            "after the step a message is left out",
        ),
        _CHAPTER.theorem(
            "dead-end",
            "InOrder",
            "After a number that is out of order none is due: what the proof of the order assumes of queues.",
            dead_end_obligation(
                due_after, OUT_OF_ORDER, lambda _: natural("number"), lambda: integer("number"), _right
            ),
            follows(
                "the oldest number in the inbox is the one to consume",
                partial(_names, due=0),
                partial(_names, due=1),
                "the next one",
            ),
        ),
        _CHAPTER.kept(
            "permits-in-line",
            "PermitsInLine",
            "A permit comes back before fewer than every acknowledgements that were due before it, also over a new "
            "connection; and none is forgotten.",
            lambda state, parameters: state._replace(returned=state.acked + parameters.every),
            "after the step every permits are ahead",
        ),
        _CHAPTER.theorem(
            "bounded",
            "Bounded",
            "The permits bound what is sent and not consumed by window, however often the connection is lost.",
            follows("in every state", SYSTEM.invariants["Bounded"], _holds_fewer, "fewer"),
        ),
        _CHAPTER.theorem(
            "kept-bounded",
            "KeptBounded",
            "The sender keeps window + every - 1 messages at most, with a connection or without, if the receiver "
            "acknowledges every messages before it returns another permit.",
            follows("in every state", partial(_keeps, fewer=0), partial(_keeps, fewer=1), "one fewer"),
        ),
        _CHAPTER.theorem(
            "never-starved",
            "NeverStarved",
            "Over a connection that holds, a sender without permits, all of whose messages are consumed, gets another "
            "permit.",
            follows(
                "in every state",
                SYSTEM.invariants["NeverStarved"],
                lambda state, parameters: state.sent < state.returned + parameters.window,
                "it always has one",
            ),
        ),
        _CHAPTER.theorem(
            "goes-on",
            "Next",
            "Each step of the connections, cuts included, lowers what is left of them, because cuts stop; and each "
            "other step keeps that and lowers what is left of the data. So no run is without end, whatever is cut.",
            *comes_to_rest(SUBJECT, _connections_left, _data_left, steps=_STEPS, twin_by=100),
        ),
        _CHAPTER.theorem(
            "ends",
            "EverythingConsumed",
            "Where nothing can be done any more, everything is consumed, or both ends have failed: no end waits for "
            "one that has failed.",
            follows("in every state", partial(_rests, at_end=True), partial(_rests, at_end=False), "both have failed"),
        ),
        refinement_theorem(
            "resume-refines-queue",
            "ResumeRefinement",
            "A stream that survives its connections is a first-in, first-out queue of at most window messages: Send "
            "lets the next one wait, Deliver puts the oldest one in, Consume gets the oldest one out, and no other "
            "step can be seen.",
            SEEN,
        ),
        _CHAPTER.framed(FRAMES, ANY),
    )

"""``StreamLife.tla``, action for action: a stream from its request to the last word of both ends.

docs/protocols/stream-life.md explains it.
"""

from collections.abc import Callable
from dataclasses import dataclass
from operator import add
from typing import Literal, NamedTuple

from permitflow_model.kernel.parameters import Bounded, Natural, Positive
from permitflow_model.kernel.queue import Fifo, Queue
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered

OWN_TOKEN = 1


@dataclass(frozen=True, kw_only=True)
class Parameters(Bounded):
    """The constants of the specification."""

    window: Positive
    """Messages that may be sent and not be consumed."""

    total: Natural
    """Messages that the upstream's application offers at most."""

    upstream_dials: bool
    """Does the upstream dial?  If not, the downstream does."""

    faults: bool = True
    """May ends leave or break off, and may the connection be cut?"""

    resumes: bool = False
    """Does the stream survive its connection?"""


Life = Literal["waiting", "asking", "deciding", "open", "ended", "breaking", "broken", "closed", "failed"]
Word = Literal[
    "request",
    "agreement",
    "messages",
    "end",
    "abort",
    "permits",
    "cancel",
    "consumed",
    "cancelled",
    "failure",
    "close",
    "ok",
    "error",
    "gone",
]
"""Frames; the end of a half; a status; the end of a connection."""


class Frame(NamedTuple):
    """What one end writes for the other."""

    word: Word
    number: int
    """How many messages or permits."""


class Upstream(NamedTuple):
    """The end that sends data."""

    life: Life
    offered: int
    """Messages that its application has offered."""
    waiting: int
    """... that wait for permits."""
    sent: int
    returned: int
    """Permits that came back."""
    has_ended: bool
    """Is End behind the messages, or behind those that wait?"""
    outcome: Literal["none", "consumed", "cancelled"]
    """What it has heard of the messages."""


class Downstream(NamedTuple):
    """The end that consumes them."""

    life: Life
    came: int
    inbox: int
    consumed: int
    is_cancelled: bool
    end: Literal["none", "end", "abort"]
    """What has come behind the messages."""
    has_answered: bool
    has_heard_close: bool
    """Has the upstream, which dials, closed its half?"""


class State(NamedTuple):
    """The variables of the specification."""

    upstream: Upstream
    downstream: Downstream
    to_downstream: Queue[Frame]
    to_upstream: Queue[Frame]
    is_cut: bool


def initial(parameters: Parameters) -> State:
    """The dialler's request is on its way."""
    dials = parameters.upstream_dials
    request: Queue[Frame] = Fifo([Frame("request", 0)])
    nothing: Queue[Frame] = Fifo()
    return State(
        Upstream("asking" if dials else "waiting", 0, 0, 0, 0, False, "none"),
        Downstream("waiting" if dials else "asking", 0, 0, 0, False, "none", False, False),
        to_downstream=request if dials else nothing,
        to_upstream=nothing if dials else request,
        is_cut=False,
    )


def is_over(life: Life) -> bool:
    """Has this end said and heard its last word?"""
    return life == "closed" or life == "failed"


def _down(state: State, parameters: Parameters, word: Word, count: int = 0) -> State:
    """The upstream writes; nobody reads it where the downstream is over, or the connection lost."""
    if is_over(state.downstream.life) or (state.is_cut and not parameters.resumes):
        return state
    return state._replace(to_downstream=state.to_downstream.push(Frame(word, count)))


def _up(state: State, parameters: Parameters, word: Word, count: int = 0) -> State:
    """The downstream writes."""
    if is_over(state.upstream.life) or (state.is_cut and not parameters.resumes):
        return state
    return state._replace(to_upstream=state.to_upstream.push(Frame(word, count)))


def _close_down(state: State, parameters: Parameters) -> State:
    """The upstream has written its last frame: a dialler closes its half."""
    return _down(state, parameters, "close") if parameters.upstream_dials else state


def _close_up(state: State, parameters: Parameters) -> State:
    return state if parameters.upstream_dials else _up(state, parameters, "close")


def _last_word(life: Life, dials: bool) -> Word:
    """A dialler hangs up; an acceptor says how the stream has ended."""
    if dials:
        return "gone"
    return "ok" if life == "closed" else "error"


def _upstream_over(state: State, parameters: Parameters, life: Life) -> State:
    """The upstream is over: it reads nothing more."""
    if parameters.resumes and state.is_cut and life == "failed":  # what is kept for another connection goes with it
        state = state._replace(to_downstream=Fifo())
    state = _down(state, parameters, _last_word(life, parameters.upstream_dials))
    return state._replace(upstream=state.upstream._replace(life=life, waiting=0), to_upstream=Fifo())


def _downstream_over(state: State, parameters: Parameters, life: Life) -> State:
    if parameters.resumes and state.is_cut and life == "failed":
        state = state._replace(to_upstream=Fifo())
    state = _up(state, parameters, _last_word(life, not parameters.upstream_dials))
    return state._replace(downstream=state.downstream._replace(life=life), to_downstream=Fifo())


def _advance(state: State, parameters: Parameters) -> State:
    """What waits leaves as far as permits go; End leaves behind it."""
    upstream = state.upstream
    room = parameters.window - (upstream.sent - upstream.returned)
    count = upstream.waiting if upstream.waiting < room else room
    if count > 0:
        state = _down(state, parameters, "messages", count)
        sent, waiting = upstream.sent + count, upstream.waiting - count
        state = state._replace(upstream=upstream._replace(sent=sent, waiting=waiting))
    return _ended(state, parameters)


def _ended(state: State, parameters: Parameters) -> State:
    upstream = state.upstream
    if not upstream.has_ended or upstream.waiting > 0:
        return state
    state = _close_down(_down(state, parameters, "end"), parameters)
    return state._replace(upstream=upstream._replace(life="ended"))


def _answer(state: State, parameters: Parameters) -> State:
    """The downstream answers End once it has consumed everything; both halves are closed then, or will be."""
    downstream = state.downstream
    if downstream.life != "ended" or downstream.end != "end" or downstream.inbox > 0 or downstream.has_answered:
        return state
    state = _close_up(_up(state, parameters, "cancelled" if downstream.is_cancelled else "consumed"), parameters)
    state = state._replace(downstream=downstream._replace(has_answered=True))
    return _downstream_over(state, parameters, "closed") if downstream.has_heard_close else state


# What the applications do.


def done(state: State, _parameters: Parameters) -> State:
    """Both ends are over."""
    require(is_over(state.upstream.life))
    require(is_over(state.downstream.life))
    require(state.downstream.inbox == 0)
    return state


def agree(state: State, parameters: Parameters) -> State:
    """The acceptor agrees."""
    if parameters.upstream_dials:
        require(state.downstream.life == "deciding")
        state = _up(state, parameters, "agreement")
        return state._replace(downstream=state.downstream._replace(life="open"))
    require(state.upstream.life == "deciding")
    state = _down(state, parameters, "agreement")
    return state._replace(upstream=state.upstream._replace(life="open"))


def offer(state: State, parameters: Parameters) -> State:
    """The application offers a message: it leaves, or waits for a permit."""
    upstream = state.upstream
    require(upstream.life == "open")
    require(not upstream.has_ended)
    require(upstream.offered < parameters.total)
    upstream = upstream._replace(offered=upstream.offered + 1, waiting=upstream.waiting + 1)
    return _advance(state._replace(upstream=upstream), parameters)


def end_stream(state: State, parameters: Parameters) -> State:
    """The application ends the stream: End leaves behind all that waits."""
    upstream = state.upstream
    require(upstream.life == "open")
    require(not upstream.has_ended)
    return _ended(state._replace(upstream=upstream._replace(has_ended=True)), parameters)


def abort(state: State, parameters: Parameters) -> State:
    """The application gives up: what came is incomplete."""
    upstream = state.upstream
    require(upstream.life == "open")
    state = _close_down(_down(state, parameters, "abort"), parameters)
    return state._replace(upstream=upstream._replace(life="ended", waiting=0, has_ended=False))


def consume(state: State, parameters: Parameters) -> State:
    """The application has consumed a message: its permit returns, if the stream still lives."""
    downstream = state.downstream
    require(downstream.inbox > 0)
    state = state._replace(downstream=downstream._replace(inbox=downstream.inbox - 1, consumed=downstream.consumed + 1))
    if downstream.life == "open" or downstream.life == "ended":
        return _answer(_up(state, parameters, "permits", 1), parameters)
    return state


def owes_answer(downstream: Downstream) -> bool:
    """Is it open, or is End not answered yet?"""
    return downstream.life == "open" or (
        downstream.life == "ended" and downstream.end == "end" and not downstream.has_answered
    )


def cancel(state: State, parameters: Parameters) -> State:
    """The application needs no more: what is here, and what still comes, is discarded, and its permits return."""
    downstream = state.downstream
    require(not downstream.is_cancelled)
    require(owes_answer(downstream))
    state = _up(state, parameters, "cancel")
    if downstream.inbox > 0:
        state = _up(state, parameters, "permits", downstream.inbox)
    return _answer(state._replace(downstream=downstream._replace(is_cancelled=True, inbox=0)), parameters)


def break_off_upstream(state: State, parameters: Parameters) -> State:
    """Something is wrong: the upstream says what, while it can, and waits a short time for the last word."""
    life = state.upstream.life
    require(parameters.faults)
    require(life == "open" or (life == "asking" and parameters.upstream_dials))
    state = _close_down(_down(state, parameters, "failure"), parameters)
    return state._replace(upstream=state.upstream._replace(life="breaking", waiting=0))


def break_off_downstream(state: State, parameters: Parameters) -> State:
    """Likewise the downstream, until it has answered End."""
    require(parameters.faults)
    downstream = state.downstream
    require(owes_answer(downstream) or (downstream.life == "asking" and not parameters.upstream_dials))
    state = _close_up(_up(state, parameters, "failure"), parameters)
    if downstream.has_heard_close:
        return _downstream_over(state, parameters, "failed")
    return state._replace(downstream=downstream._replace(life="breaking"))


def leave_upstream(state: State, parameters: Parameters) -> State:
    """The upstream is closed, refuses, or its process ends: nothing more is said but that."""
    require(parameters.faults)
    require(not is_over(state.upstream.life))
    return _upstream_over(state, parameters, "failed")


def leave_downstream(state: State, parameters: Parameters) -> State:
    """Likewise the downstream; what is in its inbox is lost."""
    require(parameters.faults)
    require(not is_over(state.downstream.life))
    return _downstream_over(state._replace(downstream=state.downstream._replace(inbox=0)), parameters, "failed")


# The connection.


def cut(state: State, parameters: Parameters) -> State:
    """The connection is lost, or an end gives no sign of life: what is on its way is lost, unless it is kept."""
    require(parameters.faults)
    require(not state.is_cut)
    is_upstream_over, is_downstream_over = is_over(state.upstream.life), is_over(state.downstream.life)
    require(not is_upstream_over or not is_downstream_over)
    if parameters.resumes:
        return state._replace(is_cut=True)
    gone: Queue[Frame] = Fifo([Frame("gone", 0)])
    return state._replace(
        is_cut=True,
        to_downstream=Fifo() if is_downstream_over else gone,
        to_upstream=Fifo() if is_upstream_over else gone,
    )


def come_again(state: State, parameters: Parameters, token: int) -> State:
    """The dialler comes again, with the token of this stream; another one's is refused."""
    require(parameters.resumes)
    require(state.is_cut)
    require(token == OWN_TOKEN)
    dialler = state.upstream.life if parameters.upstream_dials else state.downstream.life
    require(not is_over(dialler))
    return state._replace(is_cut=False)


def give_up_upstream(state: State, parameters: Parameters) -> State:
    """Time-out: it has waited for another connection for long enough."""
    require(parameters.resumes)
    require(state.is_cut)
    require(not is_over(state.upstream.life))
    return _upstream_over(state, parameters, "failed")


def give_up_downstream(state: State, parameters: Parameters) -> State:
    """Likewise the downstream."""
    require(parameters.resumes)
    require(state.is_cut)
    require(not is_over(state.downstream.life))
    return _downstream_over(state, parameters, "failed")


# What the ends do.


def lose_patience_upstream(state: State, parameters: Parameters) -> State:
    """Time-out: it has broken off, and no last word comes."""
    require(state.upstream.life == "breaking")
    return _upstream_over(state, parameters, "failed")


def lose_patience_downstream(state: State, parameters: Parameters) -> State:
    """Likewise the downstream."""
    require(state.downstream.life == "breaking")
    return _downstream_over(state, parameters, "failed")


def can_hear(state: State, parameters: Parameters) -> bool:
    """Does what was written arrive?"""
    return not (state.is_cut and parameters.resumes)


def hear_upstream(state: State, parameters: Parameters) -> State:
    """What was written first arrives at the upstream."""
    require(can_hear(state, parameters))
    require(not state.to_upstream.is_empty())
    frame, upstream = state.to_upstream.head(), state.upstream
    word, life = frame.word, upstream.life
    state = state._replace(to_upstream=state.to_upstream.without_head())
    if word == "gone" or word == "error":
        return _upstream_over(state, parameters, "failed")
    if word == "close" or word == "ok":
        return _upstream_over(state, parameters, "closed" if life == "ended" else "failed")
    if life == "breaking":  # it has its reason, and hears nothing but the last word
        return state
    if word == "request":
        return state._replace(upstream=upstream._replace(life="deciding"))
    if word == "agreement":
        return state._replace(upstream=upstream._replace(life="open"))
    if word == "permits":
        return _advance_if_open(state, parameters, upstream._replace(returned=upstream.returned + frame.number))
    if word == "cancel":
        return _heed_cancel(state, parameters)
    if word == "failure":
        if life != "ended":
            state = _close_down(state, parameters)
        return state._replace(upstream=upstream._replace(life="broken", waiting=0))
    if word == "consumed":
        return state._replace(upstream=upstream._replace(outcome="consumed"))
    return state._replace(upstream=upstream._replace(outcome="cancelled"))


def _advance_if_open(state: State, parameters: Parameters, upstream: Upstream) -> State:
    state = state._replace(upstream=upstream)
    return _advance(state, parameters) if upstream.life == "open" else state


def _heed_cancel(state: State, parameters: Parameters) -> State:
    """What waits is withdrawn, and End leaves behind what has left; behind End or Abort nothing changes."""
    upstream = state.upstream
    if upstream.life == "open":
        return _ended(
            state._replace(upstream=upstream._replace(waiting=0, has_ended=True, outcome="cancelled")), parameters
        )
    if upstream.has_ended:
        return state._replace(upstream=upstream._replace(outcome="cancelled"))
    return state


def hear_downstream(state: State, parameters: Parameters) -> State:
    """What was written first arrives at the downstream."""
    require(can_hear(state, parameters))
    require(not state.to_downstream.is_empty())
    frame, downstream = state.to_downstream.head(), state.downstream
    word, life = frame.word, downstream.life
    state = state._replace(to_downstream=state.to_downstream.without_head())
    if word == "gone" or word == "error":
        return _downstream_over(state, parameters, "failed")
    if word == "ok":
        return _downstream_over(state, parameters, "closed" if life == "ended" else "failed")
    if word == "close":
        if life != "ended":
            return _downstream_over(state, parameters, "failed")
        if downstream.end == "abort" or downstream.has_answered:
            return _downstream_over(state, parameters, "closed")
        return state._replace(downstream=downstream._replace(has_heard_close=True))
    if life == "breaking":
        return state
    if word == "request":
        return state._replace(downstream=downstream._replace(life="deciding"))
    if word == "agreement":
        return state._replace(downstream=downstream._replace(life="open"))
    if word == "messages":
        came = downstream.came + frame.number
        if downstream.is_cancelled:
            return _up(state, parameters, "permits", frame.number)._replace(downstream=downstream._replace(came=came))
        return state._replace(downstream=downstream._replace(came=came, inbox=downstream.inbox + frame.number))
    if word == "end":
        return _answer(state._replace(downstream=downstream._replace(life="ended", end="end")), parameters)
    if word == "abort":
        state = _close_up(state, parameters)
        return state._replace(downstream=downstream._replace(life="ended", end="abort", inbox=0))
    # Failure; it has closed its half behind its answer.
    if not downstream.has_answered and downstream.end != "abort":
        state = _close_up(state, parameters)
    return state._replace(downstream=downstream._replace(life="broken"))


# Invariants.


def type_ok(state: State, parameters: Parameters) -> bool:
    """Every variable is in its range."""
    upstream, downstream = state.upstream, state.downstream
    return (
        upstream.waiting >= 0
        and 0 <= upstream.returned <= upstream.sent
        and upstream.sent + upstream.waiting <= upstream.offered <= parameters.total
        and downstream.consumed >= 0
        and downstream.inbox >= 0
        and downstream.consumed + downstream.inbox <= downstream.came
        and state.to_downstream.every(is_frame, parameters)
        and state.to_upstream.every(is_frame, parameters)
    )


def is_frame(frame: Frame, _parameters: Parameters) -> bool:
    """Does it count what it may count?"""
    return frame.number >= 1 if frame.word == "messages" or frame.word == "permits" else frame.number == 0


def is_last(word: Word) -> bool:
    """May nothing follow it?"""
    return word == "close" or word == "ok" or word == "error" or word == "gone"


def begins_or_fails(word: Word, life: Life) -> bool:
    """Does either end take it in this state, which is not open and not ended?"""
    if life == "waiting":
        return word == "request" or word == "gone"
    if life == "asking":
        return word == "agreement" or word == "error" or word == "gone"
    if life == "deciding":
        return word == "failure" or word == "gone"
    if life == "breaking":
        return True
    return life == "broken" and is_last(word)


def upstream_takes(word: Word, life: Life) -> bool:
    """Does an upstream take it in this state?"""
    if life == "open":
        return word == "permits" or word == "cancel" or word == "failure" or word == "error" or word == "gone"
    if life == "ended":
        answers = word == "consumed" or word == "cancelled"
        return word == "permits" or word == "cancel" or answers or word == "failure" or is_last(word)
    return begins_or_fails(word, life)


def downstream_takes(word: Word, life: Life) -> bool:
    """Does a downstream take it?"""
    if life == "open":
        is_data = word == "messages" or word == "end" or word == "abort"
        return is_data or word == "failure" or word == "error" or word == "gone"
    return is_last(word) if life == "ended" else begins_or_fails(word, life)


def expected(state: State, _parameters: Parameters) -> bool:
    """No end ever gets what it does not take."""
    to_upstream, to_downstream = state.to_upstream, state.to_downstream
    if not to_upstream.is_empty() and not upstream_takes(to_upstream.head().word, state.upstream.life):
        return False
    return to_downstream.is_empty() or downstream_takes(to_downstream.head().word, state.downstream.life)


def messages_in(frame: Frame) -> int:
    """How many messages it carries."""
    return frame.number if frame.word == "messages" else 0


def permits_in(frame: Frame) -> int:
    """How many permits it returns."""
    return frame.number if frame.word == "permits" else 0


def bounded(state: State, parameters: Parameters) -> bool:
    """Permits bound what is on its way and waits."""
    on_way = state.to_downstream.sum_of(messages_in, add, 0)
    return (
        state.upstream.sent - state.upstream.returned <= parameters.window
        and on_way + state.downstream.inbox <= parameters.window
    )


def nothing_invented(state: State, _parameters: Parameters) -> bool:
    """Nothing comes that was not sent, and no permit returns of what was not consumed or discarded."""
    messages = state.to_downstream.sum_of(messages_in, add, 0)
    permits = state.to_upstream.sum_of(permits_in, add, 0)
    upstream, downstream = state.upstream, state.downstream
    return (
        downstream.came + messages <= upstream.sent
        and upstream.returned + permits <= downstream.came - downstream.inbox
    )


def end_is_true(state: State, _parameters: Parameters) -> bool:
    """An application that is told the end has consumed everything that was offered."""
    upstream, downstream = state.upstream, state.downstream
    if downstream.end != "end" or downstream.is_cancelled:
        return True
    return upstream.has_ended and downstream.came == upstream.offered


def outcome_is_true(state: State, _parameters: Parameters) -> bool:
    """One that is told that everything was consumed, or cancelled, is told the truth."""
    upstream, downstream = state.upstream, state.downstream
    if upstream.outcome == "consumed":
        return not downstream.is_cancelled and downstream.consumed == upstream.offered
    return upstream.outcome != "cancelled" or downstream.is_cancelled


def no_end_of_aborted(state: State, _parameters: Parameters) -> bool:
    """What was aborted is not an end."""
    return state.downstream.end != "abort" or not state.upstream.has_ended


def closed_together(state: State, _parameters: Parameters) -> bool:
    """An end without an error: the other one has ended the stream likewise, and every permit has come back."""
    upstream, downstream = state.upstream, state.downstream
    if upstream.life == "closed":
        if downstream.end != ("end" if upstream.has_ended else "abort"):
            return False
        if upstream.has_ended and (upstream.outcome == "none" or upstream.returned != upstream.sent):
            return False
    if downstream.life != "closed":
        return True
    return downstream.end != "none" and downstream.inbox == 0 and (upstream.life == "ended" or is_over(upstream.life))


def acceptor_last(state: State, parameters: Parameters) -> bool:
    """The last word is the acceptor's: a dialler ends without an error only behind it."""
    upstream, downstream = state.upstream.life, state.downstream.life
    if parameters.upstream_dials:
        return upstream != "closed" or downstream == "closed"
    return downstream != "closed" or upstream == "closed"


def cancels_in(frame: Frame) -> int:
    """Is it Cancel?  1 if so, else 0."""
    return 1 if frame.word == "cancel" else 0


def cancel_heeded(state: State, parameters: Parameters) -> bool:
    """Who has cancelled gets nothing more, and an upstream that has heard Cancel has ended.

    Until then Cancel is on its way, or the other end is lost.
    """
    life = state.upstream.life
    if not state.downstream.is_cancelled or state.downstream.inbox > 0:
        return not state.downstream.is_cancelled
    if life != "open" and life != "asking":
        return True
    is_lost = (state.is_cut and not parameters.resumes) or is_over(state.downstream.life)
    return is_lost or state.to_upstream.sum_of(cancels_in, add, 0) > 0


def ends_with_last_word(frames: Queue[Frame]) -> bool:
    """Is the last word on its way?"""
    return not frames.is_empty() and is_last(frames.last().word)


def noticed(state: State, parameters: Parameters) -> bool:
    """When one end is over, the last word is on its way to the other one, or nothing comes until that gives up."""
    if not can_hear(state, parameters):
        return True
    is_upstream_over, is_downstream_over = is_over(state.upstream.life), is_over(state.downstream.life)
    if is_upstream_over and not is_downstream_over:
        return ends_with_last_word(state.to_downstream)
    return not is_downstream_over or is_upstream_over or ends_with_last_word(state.to_upstream)


def waits_for_application(state: State, _parameters: Parameters) -> bool:
    """Where nothing is on its way, an application is waited for: the acceptor's, or both, or one that consumes."""
    if state.is_cut or not state.to_upstream.is_empty() or not state.to_downstream.is_empty():
        return True
    upstream, downstream = state.upstream.life, state.downstream.life
    if upstream == "asking" or downstream == "asking":
        return upstream == "deciding" or downstream == "deciding"
    if upstream == "open":
        return downstream == "open"
    if upstream == "ended":
        return downstream == "ended" and state.downstream.inbox > 0
    return is_over(upstream) and is_over(downstream)


# Probes.


def upstream_knows(state: State, _parameters: Parameters) -> bool:
    """What the producer is told is what the consumer has done."""
    downstream = state.downstream
    return not (downstream.has_answered and not downstream.is_cancelled and state.upstream.life == "failed")


def end_without_error(state: State, _parameters: Parameters) -> bool:
    """A consumer that has read to the end hears no error."""
    downstream = state.downstream
    is_at_end = downstream.end == "end" and downstream.inbox == 0 and not downstream.is_cancelled
    return not (is_at_end and downstream.life == "failed")


def cancel_in_time(state: State, _parameters: Parameters) -> bool:
    """Cancel comes to an upstream that has not ended."""
    frames = state.to_upstream
    return frames.is_empty() or frames.head().word != "cancel" or state.upstream.life != "ended"


def one_breaks_off(state: State, _parameters: Parameters) -> bool:
    """Only one end breaks off."""
    return state.upstream.life != "breaking" or state.downstream.life != "breaking"


def _of(name: str, perform: Callable[..., State], **more: object) -> Action[State, Parameters]:
    return Action(name, perform, is_environment=True, **more)  # type: ignore[arg-type]


SYSTEM: System[State, Parameters] = System(
    module="StreamLife",
    initial=initial,
    actions=(
        _of("Done", done),
        _of("Agree", agree),
        _of("Offer", offer),
        _of("EndStream", end_stream),
        _of("Abort", abort),
        _of("Consume", consume),
        _of("Cancel", cancel),
        _of("BreakOffUpstream", break_off_upstream),
        _of("BreakOffDownstream", break_off_downstream),
        _of("LeaveUpstream", leave_upstream),
        _of("LeaveDownstream", leave_downstream),
        _of("Cut", cut),
        _of("ComeAgain", come_again, arguments=lambda _parameters: ((1,), (2,))),
        Action("GiveUpUpstream", give_up_upstream),
        Action("GiveUpDownstream", give_up_downstream),
        Action("LosePatienceUpstream", lose_patience_upstream),
        Action("LosePatienceDownstream", lose_patience_downstream),
        Action("HearUpstream", hear_upstream),
        Action("HearDownstream", hear_downstream),
    ),
    invariants={
        "TypeOK": type_ok,
        "Expected": expected,
        "Bounded": bounded,
        "NothingInvented": nothing_invented,
        "EndIsTrue": end_is_true,
        "OutcomeIsTrue": outcome_is_true,
        "NoEndOfAborted": no_end_of_aborted,
        "CancelHeeded": cancel_heeded,
        "ClosedTogether": closed_together,
        "AcceptorLast": acceptor_last,
        "Noticed": noticed,
        "WaitsForApplication": waits_for_application,
    },
    probes={
        "UpstreamKnowsProbe": upstream_knows,
        "EndWithoutErrorProbe": end_without_error,
        "CancelInTimeProbe": cancel_in_time,
        "OneBreaksOffProbe": one_breaks_off,
    },
)

REGISTERED = Registered(system=SYSTEM, parameters=Parameters, theorems="permitflow_proofs.stream_life:theorems")

"""Any state of a stream's life: what its theorems are about.

What is on its way in one direction is known by its sum, a `Line`: are the frames in order, which places do they take,
and how many are there of which word?  The clauses are shown in states that satisfy all of them, so they are inductive
together.
"""

from collections.abc import Mapping
from functools import partial
from operator import add
from typing import NamedTuple

from permitflow_model.kernel.queue import Queue
from permitflow_model.stream_life import (
    SYSTEM,
    Downstream,
    Frame,
    Life,
    Parameters,
    State,
    Word,
    cancels_in,
    is_frame,
    messages_in,
    permits_in,
)
from permitflow_proofs.kernel.arbitrary import any_parameters_of, any_value, arbitrary, assume_all
from permitflow_proofs.kernel.induction import Clause, Subject
from permitflow_proofs.kernel.queue import Sums, SymbolicQueue
from permitflow_proofs.kernel.queue_facts import law_obligations
from permitflow_proofs.kernel.symbols import (
    all_of,
    any_of,
    assume,
    implies,
    integer,
    larger_of,
    merged,
    negated,
    smaller_of,
)


class Line(NamedTuple):
    """Frames on their way in one direction, together."""

    first: int
    """The lowest place of them."""
    following: int
    """The lowest place that may follow them."""
    disorder: int
    """Is one before another one that may not follow it?  1 if so, else 0."""
    data: int
    """Frames of an open stream, and those that say how it ends."""
    ends: int
    aborts: int
    cancels: int
    consumed: int
    cancelled: int
    failures: int
    closes: int
    oks: int


BEGIN, DATA, END, CLOSE, LAST, BEHIND = range(1, 7)
"""Places: frames come in this order, those of DATA as often as they like, the others once."""

NOTHING = Line(BEHIND, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0)


def _is(word: Word, *words: Word) -> int:
    return sum(((word == one) * 1 for one in words), 0)


def line_of(frame: Frame) -> Line:
    """One frame by itself."""
    word = frame.word
    begins, flows = _is(word, "request", "agreement"), _is(word, "messages", "permits", "cancel")
    ends, aborts, failures = _is(word, "end"), _is(word, "abort"), _is(word, "failure")
    consumed, cancelled = _is(word, "consumed"), _is(word, "cancelled")
    closes, lasts = _is(word, "close"), _is(word, "ok", "error", "gone")
    says_how = ends + aborts + consumed + cancelled
    place = BEGIN * begins + DATA * flows + END * (says_how + failures) + CLOSE * closes + LAST * lasts
    return Line(
        first=place,
        following=place + 1 - flows,
        disorder=0,
        data=flows + says_how,
        ends=ends,
        aborts=aborts,
        cancels=_is(word, "cancel"),
        consumed=consumed,
        cancelled=cancelled,
        failures=failures,
        closes=closes,
        oks=_is(word, "ok"),
    )


def then(ahead: Line, behind: Line) -> Line:
    """Two lines, one behind the other."""
    counts = map(add, ahead[3:], behind[3:])
    return Line(
        smaller_of(ahead.first, behind.first),
        larger_of(ahead.following, behind.following),
        (ahead.disorder + behind.disorder + (ahead.following > behind.first) * 1 > 0) * 1,
        *counts,
    )


def _down(state: State) -> Line:
    """What is on its way to the downstream."""
    return state.to_downstream.sum_of(line_of, then, NOTHING)


def _up(state: State) -> Line:
    """What is on its way to the upstream."""
    return state.to_upstream.sum_of(line_of, then, NOTHING)


def messages(state: State) -> int:
    """On their way."""
    return state.to_downstream.sum_of(messages_in, add, 0)


def permits(state: State) -> int:
    """On their way."""
    return state.to_upstream.sum_of(permits_in, add, 0)


# Conditions that do not fork.


def is_one_of(life: Life, *lives: Life) -> bool:
    """Is it in one of these states?"""
    return any_of([life == one for one in lives])


def _is_over(life: Life) -> bool:
    return is_one_of(life, "closed", "failed")


def is_unasked(life: Life) -> bool:
    """Has it not agreed, as an acceptor?"""
    return is_one_of(life, "waiting", "deciding")


def _goes(life: Life) -> bool:
    """Is it open, or may it be?"""
    return is_one_of(life, "waiting", "asking", "deciding", "open")


def _is_lost(state: State, parameters: Parameters) -> bool:
    """Is the connection lost for ever?"""
    return all_of([state.is_cut, negated(parameters.resumes)])


# Clauses: first of the lines and of those who read and write them.


def _is_of_dialler(word: Word) -> bool:
    return word != "agreement" and word != "ok" and word != "error"


def _is_of_acceptor(word: Word) -> bool:
    return word != "request" and word != "close"


def is_of_upstream(frame: Frame, parameters: Parameters) -> bool:
    """Does the upstream write it?"""
    word = frame.word
    if word == "permits" or word == "cancel" or word == "consumed" or word == "cancelled":
        return False
    return _is_of_dialler(word) if parameters.upstream_dials else _is_of_acceptor(word)


def is_of_downstream(frame: Frame, parameters: Parameters) -> bool:
    """Does the downstream?"""
    word = frame.word
    if word == "messages" or word == "end" or word == "abort":
        return False
    return _is_of_acceptor(word) if parameters.upstream_dials else _is_of_dialler(word)


def _words(state: State, parameters: Parameters) -> bool:
    """Each end writes its own words, and is in its own states."""
    upstream, downstream, dials = state.upstream.life, state.downstream.life, parameters.upstream_dials
    return all_of(
        [
            state.to_downstream.every(is_of_upstream, parameters),
            state.to_upstream.every(is_of_downstream, parameters),
            implies(dials, all_of([negated(is_unasked(upstream)), downstream != "asking"])),
            any_of([dials, all_of([negated(is_unasked(downstream)), upstream != "asking"])]),
        ]
    )


def _in_order(state: State, parameters: Parameters) -> bool:
    """Frames come in order: none that its reader has heard, or its writer has not written."""
    upstream, downstream = state.upstream, state.downstream
    lost, behind_end = _is_lost(state, parameters), CLOSE + downstream.has_heard_close * 1
    return all_of(
        [
            implies(is_answer_due(downstream), any_of([lost, _up(state).following <= DATA])),
            *_are_between(downstream.life, upstream.life, _down(state), lost, behind_end),
            *_are_between(upstream.life, downstream.life, _up(state), lost, DATA),
        ]
    )


def is_answer_due(one: Downstream) -> bool:
    """Has it heard End, and not answered?"""
    return all_of([one.life == "ended", one.end == "end", negated(one.has_answered)])


def _are_between(reader: Life, writer: Life, line: Line, lost: bool, behind_end: int) -> list[bool]:
    written = all_of(
        [
            implies(is_unasked(writer), line.following == 0),
            implies(is_one_of(writer, "asking", "open"), line.following <= DATA),
            any_of([_is_over(writer), line.following <= LAST]),
        ]
    )
    return [
        line.disorder == 0,
        implies(is_one_of(reader, "deciding", "open"), line.first >= DATA),
        implies(reader == "ended", line.first >= behind_end),
        implies(reader == "broken", line.first >= CLOSE),
        any_of([lost, written]),
    ]


def _over(state: State, parameters: Parameters) -> bool:
    """Nothing is on its way to an end that is over; if it is the other one, or the connection, that news comes last."""
    upstream, downstream, lost = state.upstream.life, state.downstream.life, _is_lost(state, parameters)
    return all_of(
        [
            _hears_so(downstream, upstream, state.to_downstream, _down(state), lost),
            _hears_so(upstream, downstream, state.to_upstream, _up(state), lost),
        ]
    )


def _hears_so(reader: Life, writer: Life, frames: Queue[Frame], line: Line, lost: bool) -> bool:
    news = all_of([frames.size() == 1, line.first == LAST, line.oks == 0])
    hears = all_of([implies(lost, news), implies(_is_over(writer), line.following == BEHIND)])
    return all_of([implies(_is_over(reader), frames.size() == 0), any_of([_is_over(reader), hears])])


def _begun(state: State, _parameters: Parameters) -> bool:
    """What comes first is the request, or the agreement, if the acceptor has agreed; nothing else is before them."""
    upstream, downstream = state.upstream.life, state.downstream.life
    return all_of([*_begins(upstream, downstream, _up(state)), *_begins(downstream, upstream, _down(state))])


def _begins(reader: Life, writer: Life, line: Line) -> list[bool]:
    nothing = all_of([line.data == 0, any_of([writer == "asking", writer == "breaking", _is_over(writer)])])
    first = any_of([is_unasked(writer), line.first == BEGIN, line.first == LAST])
    return [implies(is_unasked(reader), nothing), implies(is_one_of(reader, "waiting", "asking"), first)]


def _failing(state: State, parameters: Parameters) -> bool:
    """Who has heard of a failure, or will, has a peer that has broken off; and each is heard of."""
    upstream, downstream, lost = state.upstream.life, state.downstream.life, _is_lost(state, parameters)
    return all_of([*_fails(upstream, downstream, _up(state), lost), *_fails(downstream, upstream, _down(state), lost)])


def _fails(reader: Life, writer: Life, line: Line, lost: bool) -> list[bool]:
    is_heard = any_of([is_one_of(reader, "breaking", "broken"), _is_over(reader), lost, line.failures > 0])
    return [
        implies(any_of([reader == "broken", line.failures > 0]), is_one_of(writer, "breaking", "failed")),
        implies(writer == "breaking", is_heard),
    ]


def _closing(state: State, parameters: Parameters) -> bool:
    """A dialler closes its half behind its last frame."""
    upstream, downstream, dials = state.upstream, state.downstream, parameters.upstream_dials
    down, up, lost = _down(state), _up(state), _is_lost(state, parameters)
    has_said = any_of([is_one_of(downstream.life, "breaking", "broken"), _has_said(state)])
    is_read = any_of([lost, _is_over(upstream.life), _is_over(downstream.life)])
    return all_of(
        [
            implies(_goes(downstream.life), down.closes <= down.ends + down.aborts + down.failures),
            implies(_goes(upstream.life), up.closes <= up.consumed + up.cancelled + up.failures),
            implies(
                downstream.has_heard_close,
                all_of([dials, any_of([is_answer_due(downstream), _is_over(downstream.life)])]),
            ),
            any_of([is_read, negated(dials), _goes(upstream.life), downstream.has_heard_close, down.closes > 0]),
            any_of([is_read, dials, negated(has_said), up.closes > 0]),
        ]
    )


def _has_said(state: State) -> bool:
    """Has the downstream answered End, or heard Abort?"""
    return any_of([state.downstream.has_answered, state.downstream.end == "abort"])


# Clauses: of the messages, and what each end is told.


def _offered(state: State, parameters: Parameters) -> bool:
    """While it goes, what was offered has left or waits, and only for permits."""
    one = state.upstream
    is_open = one.life == "open"
    waits = all_of([one.waiting > 0, one.sent - one.returned == parameters.window])
    return all_of(
        [
            implies(is_open, one.sent + one.waiting == one.offered),
            implies(is_open, any_of([waits, all_of([one.waiting == 0, negated(one.has_ended)])])),
            any_of([is_open, one.waiting == 0]),
            implies(_goes(one.life), one.outcome == "none"),
            implies(
                is_one_of(one.life, "waiting", "asking", "deciding"), all_of([one.offered == 0, negated(one.has_ended)])
            ),
        ]
    )


def _ending(state: State, parameters: Parameters) -> bool:
    """The upstream has ended where the downstream has heard so, or will."""
    upstream, downstream, down = state.upstream, state.downstream, _down(state)
    is_told = down.ends + down.aborts > 0
    is_past, is_ended = is_one_of(upstream.life, "ended", "closed", "failed"), downstream.end != "none"
    return all_of(
        [
            implies(any_of([is_told, is_ended]), any_of([is_past, upstream.life == "broken"])),
            implies(is_one_of(downstream.life, "ended", "closed"), all_of([is_past, is_ended])),
            implies(any_of([_goes(downstream.life), downstream.life == "broken"]), downstream.end == "none"),
            implies(
                all_of([upstream.life == "ended", _goes(downstream.life)]),
                any_of([is_told, _is_lost(state, parameters)]),
            ),
        ]
    )


def _whole(state: State, parameters: Parameters) -> bool:
    """The end is behind all that was offered; what was aborted has none."""
    upstream, downstream, down = state.upstream, state.downstream, _down(state)
    has_end, arrives = downstream.end == "end", downstream.came + messages(state) == upstream.sent
    is_all = all_of([upstream.has_ended, any_of([downstream.is_cancelled, upstream.sent == upstream.offered])])
    is_unread = any_of([_is_lost(state, parameters), _is_over(downstream.life), downstream.life == "breaking"])
    return all_of(
        [
            implies(any_of([has_end, down.ends > 0]), is_all),
            implies(any_of([downstream.end == "abort", down.aborts > 0]), negated(upstream.has_ended)),
            implies(has_end, downstream.came == upstream.sent),
            implies(any_of([upstream.life == "open", down.ends > 0]), any_of([is_unread, arrives])),
        ]
    )


def _consumed(state: State, _parameters: Parameters) -> bool:
    """What came is consumed or in the inbox, if none is discarded; End is answered once nothing is in it."""
    one = state.downstream
    is_empty, has_end = one.inbox == 0, one.end == "end"
    is_all = one.consumed + one.inbox == one.came
    is_new = is_one_of(one.life, "waiting", "asking", "deciding")
    return all_of(
        [
            implies(is_new, all_of([one.came == 0, negated(one.is_cancelled)])),
            implies(any_of([one.is_cancelled, one.end == "abort"]), is_empty),
            any_of([one.is_cancelled, one.end == "abort", one.life == "failed", is_all]),
            implies(one.has_answered, all_of([has_end, is_empty, any_of([one.is_cancelled, is_all])])),
            implies(is_answer_due(one), one.inbox > 0),
        ]
    )


def _returned(state: State, parameters: Parameters) -> bool:
    """Each permit of what is consumed or discarded is back or on its way, while it is returned, and heard of."""
    upstream, downstream = state.upstream, state.downstream
    is_unheard = any_of([_is_lost(state, parameters), _is_over(upstream.life), upstream.life == "breaking"])
    returns = upstream.returned + permits(state) == downstream.came - downstream.inbox
    return any_of([is_unheard, downstream.end == "abort", negated(_is_heard(state)), returns])


def _is_heard(state: State) -> bool:
    """Has all that the downstream has written arrived, or is it on its way?"""
    one = state.downstream
    is_kept = all_of([one.has_answered, _up(state).closes > 0])
    return any_of([negated(is_one_of(one.life, "breaking", "broken", "failed")), is_kept])


def _answers(state: State, parameters: Parameters) -> bool:
    """The upstream hears what the downstream has answered."""
    upstream, downstream, up = state.upstream, state.downstream, _up(state)
    is_consumed = all_of([downstream.has_answered, negated(downstream.is_cancelled)])
    is_cancelled = all_of([downstream.has_answered, downstream.is_cancelled])
    is_unheard = any_of([_is_lost(state, parameters), upstream.life != "ended", negated(_is_heard(state))])
    is_told = any_of([up.consumed + up.cancelled > 0, upstream.outcome != "none"])
    return all_of(
        [
            implies(any_of([up.consumed > 0, upstream.outcome == "consumed"]), is_consumed),
            implies(up.cancelled > 0, is_cancelled),
            implies(is_one_of(upstream.life, "waiting", "deciding"), negated(downstream.is_cancelled)),
            implies(any_of([up.cancels > 0, upstream.outcome == "cancelled"]), downstream.is_cancelled),
            implies(downstream.has_answered, any_of([is_unheard, is_told])),
        ]
    )


def _both_closed(state: State, parameters: Parameters) -> bool:
    """The acceptor is closed first, and only what has been answered."""
    upstream, downstream, dials = state.upstream, state.downstream, parameters.upstream_dials
    down, up, has_said = _down(state), _up(state), _has_said(state)
    up_closed, down_closed = upstream.life == "closed", downstream.life == "closed"
    is_last = all_of([negated(dials), upstream.life == "ended", up.closes > 0, up.failures == 0])
    heard = any_of(
        [negated(upstream.has_ended), all_of([upstream.outcome != "none", upstream.returned == upstream.sent])]
    )
    return all_of(
        [
            implies(any_of([up_closed, down_closed, is_last]), has_said),
            implies(all_of([dials, any_of([up_closed, up.oks > 0])]), down_closed),
            any_of([dials, up_closed, all_of([negated(down_closed), down.oks == 0])]),
            implies(up_closed, heard),
        ]
    )


def _together(*clauses: Clause[State, Parameters]) -> Clause[State, Parameters]:
    """All of them, without a fork."""

    def hold(state: State, parameters: Parameters) -> bool:
        return all_of([merged(partial(clause, state, parameters)) for clause in clauses])

    return hold


INVARIANT: Mapping[str, Clause[State, Parameters]] = {
    "Lines": _together(_words, _in_order, _over, _begun, _failing, _closing, _ending),
    "Numbers": _together(
        *(SYSTEM.invariants[name] for name in ("TypeOK", "NothingInvented", "Bounded", "CancelHeeded")),
        *(_offered, _whole, _consumed, _returned, _answers, _both_closed),
    ),
}
"""What every reachable state satisfies; proved by induction."""


# Any state.


def _of_line(sums: Sums) -> tuple[int, ...]:
    """What is known of a line, whatever it consists of."""
    line, size = sums.sum_of(line_of, then, NOTHING), sums.size()
    numbers = sums.sum_of(messages_in, add, 0), sums.sum_of(permits_in, add, 0)
    cancels = sums.sum_of(cancels_in, add, 0)
    says_how = line.ends + line.aborts + line.consumed + line.cancelled + line.failures
    flows = sum(numbers, line.cancels)
    up_to = ((size, LAST), (line.closes, CLOSE), (says_how, END), (flows, DATA))
    return (
        *(size, *numbers, *line[3:], cancels - line.cancels, line.cancels - cancels),
        *(line.first - BEGIN, line.following, BEHIND - line.following, line.disorder, 1 - line.disorder),
        line.following - line.first - (line.first != DATA) * 1 + (size == 0) * (BEHIND + 1),
        *(BEHIND - line.first - (count > 0) * (BEHIND - place) for count, place in up_to),
    )


def _any_state(parameters: Parameters) -> State:
    lines = {
        name: SymbolicQueue.any_queue(name, any_value(Frame), (_of_line,)) for name in ("to_downstream", "to_upstream")
    }
    state = arbitrary(State, special=lines)
    assume_all(list(INVARIANT.values()), state, parameters)
    return state


SUBJECT = Subject(
    SYSTEM, partial(any_parameters_of, Parameters), _any_state, {"ComeAgain": lambda _: (integer("token"),)}
)
"""A stream with any parameters."""


def _any_frame(*, lawful: bool) -> Frame:
    frame = arbitrary(Frame, "frame.")
    if lawful:
        assume(merged(lambda: is_frame(frame, None)))  # type: ignore[arg-type]  # it asks for no parameters
    return frame


LINE_LAWS = law_obligations("a line", _of_line, partial(_any_frame, lawful=True), partial(_any_frame, lawful=False))
"""What any state assumes of its lines."""

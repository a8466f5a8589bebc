"""The life of a stream, for any window and any number of messages: what is true of it, and that it ends."""

from collections.abc import Callable
from functools import partial

from permitflow_model.stream_life import (
    SYSTEM,
    Frame,
    Life,
    Parameters,
    State,
    downstream_takes,
    is_last,
    is_over,
    upstream_takes,
)
from permitflow_proofs.kernel.arbitrary import any_parameters_of
from permitflow_proofs.kernel.chapter import Chapter
from permitflow_proofs.kernel.induction import Clause
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.ranking import comes_to_rest
from permitflow_proofs.kernel.symbols import all_of, merged, negated
from permitflow_proofs.kernel.theorem import Theorem
from permitflow_proofs.stream_life_frames import FRAMES, is_suspended
from permitflow_proofs.stream_life_states import (
    INVARIANT,
    LINE_LAWS,
    SUBJECT,
    is_answer_due,
    is_one_of,
    is_unasked,
    messages,
    permits,
)

ANY = SUBJECT
"""Any state of a stream: an action does its job where frames come in order."""

_CHAPTER = Chapter(
    SUBJECT,
    INVARIANT,
    "stream-life-",
    promises=frozenset(
        {
            *("bounded", "expected", "end", "outcome", "aborted", "cancel", "closed", "acceptor", "noticed", "waits"),
            *("over", "ends"),
        }
    ),
)


# Ranks.


def _life_left(life: Life) -> int:
    """What an end may yet write, and more."""
    late = 2 * is_one_of(life, "ended", "breaking", "broken")
    return late + 9 * is_unasked(life) + 7 * is_one_of(life, "asking") + 6 * is_one_of(life, "open")


def rank(state: State, parameters: Parameters) -> int:
    """At least this many steps, cuts and returns not counted."""
    upstream, downstream = state.upstream, state.downstream
    frames = state.to_downstream.size() + state.to_upstream.size() + 4 * messages(state) + permits(state)
    data = 7 * (parameters.total - upstream.offered) + 6 * upstream.waiting + 3 * downstream.inbox
    lives = _life_left(upstream.life) + _life_left(downstream.life)
    may_end = all_of([upstream.life == "open", negated(upstream.has_ended)])
    may_be_lost = all_of([negated(parameters.resumes), negated(state.is_cut)])
    choices = 2 * negated(downstream.is_cancelled) + 3 * is_answer_due(downstream) + 1 * may_end + 2 * may_be_lost
    return frames + data + lives + choices


COUNTED = tuple(action.name for action in SYSTEM.actions if action.name not in ("Done", "Cut", "ComeAgain"))
"""All that happens but cuts, and what follows them; ``Done`` stands for the end of a run."""


def _begins_with(*, fewer: int) -> bool:
    parameters = any_parameters_of(Parameters)
    return rank(SYSTEM.initial(parameters), parameters) <= 7 * parameters.total + 21 - fewer


def _comes_to_its_end(state: State, parameters: Parameters, *, wrong: bool) -> bool:
    """Where neither the protocol goes on nor an application does its part, both ends are over."""
    if SYSTEM.can_move(state, parameters):
        return True
    if any(SYSTEM.is_enabled(action, state, parameters) for action in ("Agree", "EndStream", "Consume")):
        return True
    return (is_over(state.upstream.life) and is_over(state.downstream.life)) != wrong


def _over_together(state: State, parameters: Parameters, *, wrong: bool) -> bool:
    """Where the protocol can do nothing more, both ends are over, or none is, and none is breaking."""
    if SYSTEM.can_move(state, parameters):
        return True
    upstream, downstream = state.upstream.life, state.downstream.life
    if upstream == "breaking" or downstream == "breaking":
        return False
    return (is_over(upstream) == is_over(downstream)) != wrong


def _takes_all(state: State, _parameters: Parameters, *, end: str, wrong: bool) -> bool:
    """This end takes what comes to it first; the mistake: a failure never does."""
    is_up = end == "upstream"
    frames, takes = (state.to_upstream, upstream_takes) if is_up else (state.to_downstream, downstream_takes)
    life = state.upstream.life if is_up else state.downstream.life
    if frames.is_empty():
        return True
    word = frames.head().word
    return all_of([merged(partial(takes, word, life)), not wrong or word != "failure"])


# Twins of what follows.


def _has_room(state: State, parameters: Parameters) -> bool:
    return state.upstream.sent - state.upstream.returned < parameters.window


def _ends_whole(state: State, _parameters: Parameters) -> bool:
    """Also where the downstream has cancelled."""
    return state.downstream.end != "end" or state.downstream.came == state.upstream.offered


def _is_told_first(state: State, _parameters: Parameters) -> bool:
    """The upstream, before the downstream has answered."""
    return state.upstream.outcome == "none" or not state.downstream.has_answered


def _has_end_of_aborted(state: State, _parameters: Parameters) -> bool:
    return state.downstream.end != "abort" or state.upstream.has_ended


def _cancel_heeded_first(state: State, _parameters: Parameters) -> bool:
    """An upstream has ended as soon as the downstream has cancelled."""
    return not state.downstream.is_cancelled or state.upstream.life != "open"


def _closed_without(state: State, _parameters: Parameters) -> bool:
    """One permit is not back."""
    one = state.upstream
    return one.life != "closed" or one.returned == one.sent - 1


def _upstream_last(state: State, _parameters: Parameters) -> bool:
    """The downstream is closed first, whether it dialled or not."""
    return state.upstream.life != "closed" or state.downstream.life == "closed"


def _noticed_first(state: State, parameters: Parameters) -> bool:
    """The last word comes at once."""
    if not is_over(state.upstream.life) or is_over(state.downstream.life) or is_suspended(state, parameters):
        return True
    return is_last(state.to_downstream.head().word)


def _waits_for_producer(state: State, _parameters: Parameters) -> bool:
    """Never for a consumer alone."""
    if state.is_cut or not state.to_upstream.is_empty() or not state.to_downstream.is_empty():
        return True
    return state.upstream.life != "ended"


def theorems() -> tuple[Theorem, ...]:
    """All of them."""

    def always(name: str, operator: str, statement: str, twin: Clause[State, Parameters], change: str) -> Theorem:
        """An invariant of the specification."""
        claim = SUBJECT.holds_whenever_invariant("in every state", SYSTEM.invariants[operator], twin, change)
        return _CHAPTER.theorem(name, operator, statement, claim)

    def comes(name: str, operator: str, statement: str, claim: Callable[..., bool]) -> Theorem:
        """Where nothing more can be done."""
        right, wrong = partial(claim, wrong=False), partial(claim, wrong=True)
        return _CHAPTER.theorem(
            name, operator, statement, SUBJECT.holds_whenever_invariant("in every state", right, wrong, "never")
        )

    return (
        _CHAPTER.theorem(
            "laws",
            "Words",
            "What the proofs assume of frames on their way: which places they take, and how many have a word.",
            *LINE_LAWS,
        ),
        _CHAPTER.kept(
            "lines",
            "Lines",
            "Frames come in this order: request or agreement, data, how they end, the close, the last word. "
            "Until either end is over, a line has each frame that was written and not yet heard. "
            "A failure comes from the end that is breaking. A close stands behind the last frame. "
            "The upstream has ended where the downstream learns of it.",
            lambda state, _: state._replace(to_downstream=state.to_downstream.push(Frame("permits", 1))),
            "after the step the upstream has written permits",
            about="Words",
        ),
        _CHAPTER.kept(
            "numbers",
            "Numbers",
            "What was offered has left, or waits for permits; what has left comes before the end, is consumed, in the "
            "inbox or discarded; its permit is back or on its way, before the answer, and the answer before the last "
            "word.",
            lambda state, _: state._replace(downstream=state.downstream._replace(inbox=-1)),
            "after the step -1 messages are in the inbox",
            about="NothingInvented",
        ),
        always(
            "bounded",
            "Bounded",
            "No more than Window messages are on their way and in the inbox, also if an end is lost or breaks off.",
            _has_room,
            "there is always a permit left",
        ),
        _CHAPTER.theorem(
            "expected",
            "Expected",
            "No end ever gets a frame that it does not take in its state.",
            *(
                SUBJECT.holds_whenever_invariant(
                    end,
                    partial(_takes_all, end=end, wrong=False),
                    partial(_takes_all, end=end, wrong=True),
                    "no failure",
                )
                for end in ("upstream", "downstream")
            ),
        ),
        always(
            "end",
            "EndIsTrue",
            "An application that is told the end, and has not cancelled, gets all that was offered.",
            _ends_whole,
            "also if it has cancelled",
        ),
        always(
            "outcome",
            "OutcomeIsTrue",
            "A producer that is told that all was consumed, or cancelled, is told the truth.",
            _is_told_first,
            "it is told so before there is an answer",
        ),
        always("aborted", "NoEndOfAborted", "What was aborted has no end.", _has_end_of_aborted, "it has one"),
        always(
            "cancel",
            "CancelHeeded",
            "An application that has cancelled gets nothing more, and an upstream that has heard Cancel sends nothing "
            "more but its end.",
            _cancel_heeded_first,
            "before Cancel has come",
        ),
        always(
            "closed",
            "ClosedTogether",
            "An end that is over without an error has said and heard all: the other one has ended likewise, the answer "
            "has come, and every permit is back.",
            _closed_without,
            "one permit is not back",
        ),
        always(
            "acceptor",
            "AcceptorLast",
            "A dialler is over without an error only where the acceptor is.",
            _upstream_last,
            "an upstream, also if it accepts",
        ),
        always(
            "noticed",
            "Noticed",
            "When one end is over, the last word is on its way to the other one, or that gives up.",
            _noticed_first,
            "it is what comes next",
        ),
        always(
            "waits",
            "WaitsForApplication",
            "Where nothing is on its way, an application is waited for: the acceptor's, both, or one that consumes.",
            _waits_for_producer,
            "never for one that consumes",
        ),
        _CHAPTER.theorem(
            "rank",
            "Next",
            "However often the connection is lost, and the dialler comes again, there are at most 7 Total + 21 other "
            "steps. Each lowers a number of frames on their way, of messages offered, waiting, on their way and in the "
            "inbox, of permits, and of what each end may yet say; a cut does not raise it.",
            SymbolicObligation(
                "at first",
                partial(_begins_with, fewer=0),
                partial(_begins_with, fewer=1),
                "one step fewer",
            ),
            *comes_to_rest(SUBJECT, rank, steps=COUNTED, twin_by=20),
        ),
        comes(
            "over",
            "OverTogether",
            "Where the protocol can do nothing more, both ends are over or none is, and nobody is breaking. So no end "
            "waits for ever once the other one is over.",
            _over_together,
        ),
        comes(
            "ends",
            "Protocol",
            "Where the protocol can do nothing more, and no application agrees, ends its stream or consumes, both are "
            "over. So a stream ends, once its applications do their part.",
            _comes_to_its_end,
        ),
        _CHAPTER.framed(FRAMES, ANY),
    )

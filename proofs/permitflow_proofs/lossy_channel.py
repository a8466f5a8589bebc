"""A channel over a lossy network, for any window, any number of data and whatever is in the network.

The clauses are shown in states that satisfy all of them, so they are inductive together.  Of the copies in the network
only the largest number matters: that of the data was sent, that of the feedback was granted.
"""

from dataclasses import replace
from functools import partial

from permitflow_model.kernel.queue import larger
from permitflow_model.lossy_channel import (
    OUT_OF_ORDER,
    SYSTEM,
    Parameters,
    State,
    ack_of,
    after,
    due_after,
    is_news,
    limit_of,
    told,
)
from permitflow_proofs.bounded_queue_refinement import SEEN_LAWS, refinement_theorem
from permitflow_proofs.kernel.arbitrary import any_parameters_of, arbitrary, assume_all
from permitflow_proofs.kernel.chapter import Chapter, claim
from permitflow_proofs.kernel.frame import Frame
from permitflow_proofs.kernel.induction import Clause, Subject
from permitflow_proofs.kernel.queue import Law, SymbolicQueue
from permitflow_proofs.kernel.queue_facts import dead_end_obligation
from permitflow_proofs.kernel.symbols import assume, integer, natural
from permitflow_proofs.kernel.theorem import Theorem

INVARIANT = {name: SYSTEM.invariants[name] for name in ("TypeOK", "NothingInvented", "LimitGranted", "InOrder")}
"""What every reachable state satisfies; proved by induction."""


def _any_state_of(names: tuple[str, ...], parameters: Parameters, laws: tuple[Law, ...] = ()) -> State:
    inbox = SymbolicQueue.any_queue("inbox", integer, laws, dead_ends={due_after: OUT_OF_ORDER})
    state = arbitrary(State, special={"inbox": inbox})
    assume_all([INVARIANT[name] for name in names], state, parameters)
    # What the network holds apart from its oldest copies: the largest number is among them, or is the oldest one's.
    state.data.without_head().sum_of(after, larger, 0)
    for measure in (ack_of, limit_of):
        state.feedback.without_head().sum_of(measure, larger, 0)
    return state


def _any_behind(_parameters: Parameters) -> tuple[int]:
    return (natural("behind"),)


_cumulative = partial(any_parameters_of, Parameters, cumulative=True, epochs=True)

SUBJECT = Subject(SYSTEM, _cumulative, partial(_any_state_of, tuple(INVARIANT)), {"Retransmit": _any_behind})
"""The protocol with cumulative limits and epochs, whatever the network does."""

SEEN = Subject(
    replace(SYSTEM, actions=tuple(action for action in SYSTEM.actions if action.name != "Reconnect")),
    _cumulative,
    partial(_any_state_of, tuple(INVARIANT), laws=SEEN_LAWS),
    {"Retransmit": _any_behind},
)
"""One connection of it, with what a user sees."""

ANY = Subject(
    SYSTEM, partial(any_parameters_of, Parameters), partial(_any_state_of, ("TypeOK",)), {"Retransmit": _any_behind}
)
"""The protocol in any state of the right types, also with permits that are added, and without epochs."""

_CHAPTER = Chapter(
    SUBJECT,
    INVARIANT,
    "lossy-",
    promises=frozenset({"in-order", "limit-granted", "bounded", "kept-by-faults", "goes-on", "another-connection"}),
)


def _holds_fewer(state: State, parameters: Parameters) -> bool:
    return state.sent - state.consumed < parameters.window


def _has_place(state: State, parameters: Parameters, *, fewer: int) -> bool:
    return state.inbox.size() <= parameters.window - fewer


# Progress.


def progress(state: State) -> int:
    """What both ends know together; a finished run has four times the number of data, and the window."""
    return state.sent + state.received + state.consumed + state.acked + state.limit


def _goes_back(before: State, after: State, _parameters: Parameters, *, by: int) -> bool:
    return progress(after) >= progress(before) + by


def _begins(_before: State, after: State, parameters: Parameters, *, left: int) -> bool:
    """Is it the first state, but for the epoch?"""
    return (
        after.data.size() == left
        and after.feedback.size() == 0
        and after.inbox.size() == 0
        and _is_at_rest(after, parameters)
    )


def _is_at_rest(state: State, parameters: Parameters) -> bool:
    return (
        state.sent == 0
        and state.acked == 0
        and state.limit == parameters.window
        and state.received == 0
        and state.consumed == 0
        and state.unreturned == 0
        and not state.due
    )


_USEFUL = ("Send", "Deliver", "Consume", "Hear")


def _is_finished(state: State, parameters: Parameters) -> bool:
    return state.acked == parameters.total and state.consumed == parameters.total


def _goes_on(state: State, parameters: Parameters, *, is_told: bool) -> bool:
    """Can something useful happen, once copies of the oldest number and of the last feedback have arrived?"""
    if _is_finished(state, parameters) or not state.inbox.is_empty():
        return True
    if state.sent < state.limit and state.sent < parameters.total:
        return True
    if is_told and is_news(state, parameters, told(state, parameters)):
        return True
    return state.acked < state.sent and state.acked == state.received


# How many numbers must be told apart, if those on the wire are taken modulo `space`.  A network that never forgets
# needs all; `age` is by how much a copy may be behind what its receiver has, at most.


def _any_ages() -> tuple[int, int]:
    return natural("window", 1), natural("age")


def _data_are_told_apart(fewer: int) -> bool:
    """Two numbers with the same remainder differ by ``space`` at least: a copy and the number that is due do not."""
    window, age = _any_ages()
    received, number = natural("received"), natural("number")
    assume(received - age <= number)
    assume(number < received + window)
    space = larger(age, window - 1) + 1 - fewer
    return number - received < space and received - number < space


def _limits_are_told_apart(fewer: int) -> bool:
    """Any two limits that may arrive differ by less than ``space``; likewise acknowledgements."""
    window, age = _any_ages()
    limit, one, other = natural("limit"), natural("one"), natural("other")
    for heard in (one, other):
        assume(limit - age <= heard)
        assume(heard <= limit + window)
    space = window + age + 1 - fewer
    return one - other < space and other - one < space


def _may_jump(state: State, parameters: Parameters, *, by: int) -> bool:
    """What the receiver tells is above the sender's limit by a window at most."""
    return told(state, parameters).limit <= state.limit + by * parameters.window


# Frames.


def _has_heard(before: State, after: State, parameters: Parameters) -> bool:
    feedback = before.feedback.head()
    heard = larger(before.limit, feedback.limit) if parameters.cumulative else before.limit + feedback.limit
    return after.acked == larger(before.acked, feedback.ack) and after.limit == heard


def _returns(before: State, after: State, parameters: Parameters) -> bool:
    return after.unreturned == (0 if parameters.cumulative else before.unreturned + 1)


def _tells_all(before: State, after: State, parameters: Parameters) -> bool:
    news = after.feedback.last()
    limit = before.consumed + parameters.window if parameters.cumulative else before.unreturned
    return after.unreturned == 0 and news.ack == before.received and news.limit == limit


def _was_due(before: State, after: State, _parameters: Parameters) -> bool:
    return after.inbox.last() == before.received


def _was_next(before: State, after: State, _parameters: Parameters) -> bool:
    return after.data.last() == before.sent


def _is_unacknowledged(before: State, after: State, _parameters: Parameters) -> bool:
    return before.acked <= after.data.last() and after.data.last() < before.sent


def _is_a_copy(before: State, after: State, _parameters: Parameters) -> bool:
    return after.data.last() == before.data.head()


def _is_a_copy_of_feedback(before: State, after: State, _parameters: Parameters) -> bool:
    return after.feedback.last().ack == before.feedback.head().ack and (
        after.feedback.last().limit == before.feedback.head().limit
    )


def _leaves_the_network(before: State, after: State, parameters: Parameters) -> bool:
    stays = after.data.size() == before.data.size() and after.feedback.size() == before.feedback.size()
    is_empty = after.data.is_empty() and after.feedback.is_empty()
    return (is_empty if parameters.epochs else stays) and after.inbox.is_empty() and _is_at_rest(after, parameters)


def _tells(state: State, parameters: Parameters) -> bool:
    feedback = state.feedback.head()
    limit = feedback.limit if parameters.cumulative else state.limit + feedback.limit
    return feedback.ack > state.acked or limit > state.limit


def _has_room(state: State, parameters: Parameters) -> bool:
    return state.data.size() < parameters.copies


FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame(
        "Done",
        when=lambda state, parameters: (
            state.consumed == parameters.total
            and state.acked == parameters.total
            and state.data.is_empty()
            and state.feedback.is_empty()
            and not state.due
        ),
        possible="where everything is consumed and acknowledged, and nothing is under way",
    ),
    Frame(
        "LoseData",
        {"data": -1},
        when=lambda state, parameters: parameters.losses and not state.data.is_empty(),
        possible="where the network loses copies, and has one",
    ),
    Frame(
        "LoseFeedback",
        {"feedback": -1},
        when=lambda state, parameters: parameters.losses and not state.feedback.is_empty(),
        possible="likewise",
    ),
    Frame(
        "DuplicateData",
        {"data": +1},
        _is_a_copy,
        "a copy of the oldest one, behind all others",
        when=lambda state, parameters: (
            parameters.duplicates and not state.data.is_empty() and state.data.size() < parameters.copies
        ),
        possible="where the network doubles copies, has one, and has room",
    ),
    Frame(
        "DuplicateFeedback",
        {"feedback": +1},
        _is_a_copy_of_feedback,
        "likewise",
        when=lambda state, parameters: (
            parameters.duplicates and not state.feedback.is_empty() and state.feedback.size() < parameters.copies
        ),
        possible="likewise",
    ),
    Frame(
        "ReorderData",
        {"data": 0},
        _is_a_copy,
        "the oldest one is behind all others",
        when=lambda state, parameters: parameters.reorders and state.data.size() > 1,
        possible="where the network reorders copies, and has two",
    ),
    Frame(
        "ReorderFeedback",
        {"feedback": 0},
        _is_a_copy_of_feedback,
        "likewise",
        when=lambda state, parameters: parameters.reorders and state.feedback.size() > 1,
        possible="likewise",
    ),
    Frame(
        "Reconnect",
        {
            **dict.fromkeys(("sent", "acked", "limit", "received", "consumed", "unreturned"), None),
            **dict.fromkeys(("data", "feedback", "inbox"), None),
            "due": False,
            "epoch": +1,
        },
        _leaves_the_network,
        "all is as in the beginning; without epochs, what is in the network stays there",
        when=lambda state, parameters: state.epoch < parameters.reconnects,
        possible="as often as the ends make a new connection",
    ),
    Frame(
        "Send",
        {"sent": +1, "data": +1},
        _was_next,
        "the next number is sent",
        when=lambda state, parameters: (
            state.sent < state.limit and state.sent < parameters.total and _has_room(state, parameters)
        ),
        possible="below the limit, if the network has room",
    ),
    Frame(
        "Retransmit",
        {"data": +1},
        _is_unacknowledged,
        "one that was sent and is not acknowledged",
        when=lambda state, parameters, behind: (
            parameters.retransmits and state.acked + behind < state.sent and _has_room(state, parameters)
        ),
        possible="where one is not acknowledged, if data are sent again and the network has room",
    ),
    Frame(
        "Deliver",
        {"data": -1, "inbox": +1, "received": +1, "due": True},
        _was_due,
        "the number that was due",
        when=lambda state, _: not state.data.is_empty() and state.data.head() == state.received,
        possible="where the oldest copy is the one that is due",
    ),
    Frame(
        "Refuse",
        {"data": -1, "due": True},
        when=lambda state, _: not state.data.is_empty() and state.data.head() != state.received,
        possible="where the oldest copy is another one",
    ),
    Frame(
        "Consume",
        {"inbox": -1, "consumed": +1, "due": True, "unreturned": None},
        _returns,
        "permits that are added are counted",
        when=lambda state, _: not state.inbox.is_empty(),
        possible="where the inbox is not empty",
    ),
    Frame(
        "Acknowledge",
        {"feedback": +1, "due": False, "unreturned": None},
        _tells_all,
        "what has arrived, and what may be sent",
        when=lambda state, parameters: state.due and state.feedback.size() < parameters.copies,
        possible="where something is to be told, if the network has room",
    ),
    Frame(
        "Remind",
        {"due": True},
        when=lambda state, parameters: parameters.reminds and not state.due,
        possible="where nothing is to be told, if the receiver reminds",
    ),
    Frame(
        "Hear",
        {"feedback": -1, "acked": None, "limit": None},
        _has_heard,
        "the larger number counts, or permits are added",
        when=lambda state, parameters: not state.feedback.is_empty() and _tells(state, parameters),
        possible="where the oldest feedback raises a number",
    ),
    Frame(
        "Ignore",
        {"feedback": -1},
        when=lambda state, parameters: not state.feedback.is_empty() and not _tells(state, parameters),
        possible="where the oldest feedback raises none",
    ),
)
"""What each action changes."""


def _names(due: int) -> Clause[State, Parameters]:
    """Never a gap, a duplicate or an old number: the oldest in the inbox is the one that is due."""
    return lambda state, _parameters: state.inbox.is_empty() or state.inbox.head() == state.consumed + due


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    follows = SUBJECT.holds_whenever_invariant
    return (
        _CHAPTER.kept(
            "type-ok",
            "TypeOK",
            "No count is ever negative, and no more is sent than the application has.",
            lambda state, _: state._replace(unreturned=-1),
            "-1 unreturned",
        ),
        _CHAPTER.kept(
            "nothing-invented",
            "NothingInvented",
            "Whatever the network loses, doubles or reorders: what is in it was sent, and what is acknowledged has "
            "arrived.",
            lambda state, _: state._replace(acked=state.received + 1),
            "after the step one number is acknowledged that has not arrived",
        ),
        _CHAPTER.kept(
            "limit-granted",
            "LimitGranted",
            "Whatever the network loses, doubles or reorders: no limit, in the network or at the sender, is above "
            "consumed + window, and the sender never goes beyond its limit.",
            lambda state, _: state._replace(limit=state.limit + 1, consumed=state.sent - 1),
            "after the step the limit is one larger, and the places fewer",
        ),
        _CHAPTER.kept(
            "in-order",
            "InOrder",
            "Whatever the network loses, doubles or reorders: what the application consumes is 0, 1, 2, ...: no number "
            "is lost, doubled or overtaken.",
            lambda state, _: state._replace(received=state.received + 1),
            "after the step a number is left out",
        ),
        _CHAPTER.theorem(
            "dead-end",
            "InOrder",
            "After a number that is out of order none is due: what the proof of the order assumes of queues.",
            dead_end_obligation(
                due_after, OUT_OF_ORDER, lambda _: natural("number"), lambda: integer("number"), _cumulative
            ),
            follows("the oldest number in the inbox is the one to consume", _names(0), _names(1), "the next one"),
        ),
        _CHAPTER.theorem(
            "bounded",
            "Bounded",
            "All that was sent and not consumed has a place at the receiver, whatever arrives when: the inbox never "
            "holds more than window data.",
            follows("in every state", SYSTEM.invariants["Bounded"], _holds_fewer, "fewer"),
            follows("the inbox", partial(_has_place, fewer=0), partial(_has_place, fewer=1), "one place fewer"),
        ),
        _CHAPTER.theorem(
            "kept-by-faults",
            "Environment",
            "No loss, duplicate or reordering, and no step of the protocol, takes back what both ends know as long as "
            "they keep their connection: the sum of sent, received, consumed, acknowledged and limit never falls; "
            "sending, delivering, consuming and hearing news raise it.",
            *SUBJECT.step_obligations(
                [action.name for action in SYSTEM.actions if action.name not in (*_USEFUL, "Reconnect")],
                partial(_goes_back, by=0),
                partial(_goes_back, by=1),
                "it grows",
            ),
            *SUBJECT.step_obligations(
                _USEFUL, partial(_goes_back, by=1), partial(_goes_back, by=2), "it grows by two at least"
            ),
        ),
        _CHAPTER.theorem(
            "goes-on",
            "EverythingConsumed",
            "Until everything is consumed and acknowledged, one of these raises that sum: to send, to consume, to hear "
            "what the receiver tells now, or to deliver the oldest number that is not acknowledged. So it suffices "
            "that what is sent again and again arrives.",
            follows(
                "in every state",
                partial(_goes_on, is_told=True),
                partial(_goes_on, is_told=False),
                "without what the receiver tells",
            ),
        ),
        _CHAPTER.theorem(
            "another-connection",
            "Reconnect",
            "A connection begins as the first one did, whatever earlier ones have left in the network: no permit and "
            "no number of theirs counts, if each copy tells of which connection it is.",
            *SUBJECT.step_obligations(
                ["Reconnect"], partial(_begins, left=0), partial(_begins, left=1), "an old copy is still there"
            ),
        ),
        _CHAPTER.theorem(
            "space",
            "Retransmit",
            "If numbers are sent modulo space, and copies are behind by age at most: data need a space of the larger "
            "of age and window - 1, and one more; limits need window + age + 1. Without reordering age is the window. "
            "(A network that keeps copies for ever needs numbers that never repeat.)",
            claim("data", _data_are_told_apart, "one less"),
            claim("limits", _limits_are_told_apart, "one less"),
            follows(
                "a limit is news by a window at most", partial(_may_jump, by=1), partial(_may_jump, by=0), "by nothing"
            ),
        ),
        refinement_theorem(
            "lossy-refines-queue",
            "LossyChannelRefinement",
            "A channel over a network that loses, doubles and reorders is a first-in, first-out queue of at most "
            "window data, as one that loses nothing, for each connection: Send lets the next number wait, Deliver puts "
            "the oldest one in, Consume gets the oldest one out, and no other step can be seen.",
            SEEN,
        ),
        _CHAPTER.framed(FRAMES, ANY),
    )

"""A channel between two streams, for any windows, any number of messages and of consumers: its invariants, and more.

The clauses are shown in states that satisfy all of them, so they are inductive together; the rest follows from them.
"""

from collections.abc import Callable
from functools import partial

from permitflow_model.bridge import (
    SYSTEM,
    Channel,
    Consumer,
    Parameters,
    Producer,
    Seen,
    State,
    Told,
)
from permitflow_proofs.kernel.arbitrary import subject_of
from permitflow_proofs.kernel.chapter import Chapter
from permitflow_proofs.kernel.frame import Frame
from permitflow_proofs.kernel.induction import Clause
from permitflow_proofs.kernel.ranking import comes_to_rest
from permitflow_proofs.kernel.symbols import assume
from permitflow_proofs.kernel.theorem import Theorem

INVARIANT = {
    name: SYSTEM.invariants[name]
    for name in (
        *("TypeOK", "ProducerPermits", "ReaderPermits", "MessagesConserved", "TakenConserved", "HandedOutOnce"),
        *("EndIsLast", "SpentIsRead", "AnswerIsTrue", "EndIsWhole", "BreakIsTold"),
    )
}
"""What every reachable state satisfies; proved by induction."""

SUBJECT = subject_of(SYSTEM, INVARIANT, Parameters, State)
"""The channel with any parameters."""

ANY = SUBJECT
"""Any state of the channel: an action does its job where the messages are counted."""

_CHAPTER = Chapter(
    SUBJECT,
    INVARIANT,
    "bridge-",
    promises=frozenset({"answer", "end-whole", "once", "first", "bounded", "full", "live", "told", "broken-told"}),
)


# What the model says, once more: a mistake in its own words is noticed by these.


def goes(channel: Channel) -> bool:
    """May messages still reach a consumer?"""
    return channel.phase != "spent" and channel.phase != "broken"


def is_live(producer: Producer) -> bool:
    """Has it heard no last word?"""
    return producer.told == "none" and producer.life != "aborted" and producer.life != "gone"


def is_there(state: State) -> bool:
    """Has the channel a consumer?"""
    return state.consumer.life != "none"


def is_heard(consumer: Consumer) -> bool:
    """Does what it has written arrive?"""
    return consumer.life != "none" and consumer.life != "suspended"


def of_consumer(consumer: Consumer) -> int:
    """Messages in its stream."""
    return consumer.inbox + consumer.wire


def has_heard_all(state: State, parameters: Parameters) -> bool:
    """Has the consumer that is there consumed everything, as the exchange knows?"""
    return is_there(state) and state.channel.held == 0 and state.consumer.credit == parameters.consumer_window


def under_way(state: State) -> int:
    """Messages between the applications."""
    return state.incoming + state.channel.held + of_consumer(state.consumer)


def _holds_fewer(state: State, parameters: Parameters) -> bool:
    windows = parameters.producer_window + parameters.channel_window + parameters.consumer_window
    return under_way(state) < windows


FILLING = ("Offer", "TakeIn", "HearPermit", "PassOn", "Deliver", "HearConsumed")
"""What happens while the producer sends and the consumer does not consume."""


def _can_fill(state: State, parameters: Parameters) -> bool:
    return any(SYSTEM.is_enabled(action, state, parameters) for action in FILLING)


def _fills(state: State, parameters: Parameters, *, fewer: int) -> bool:
    """Where a channel goes and none of these is possible, its windows are full, if there is more to send."""
    assume(state.producer.offered < parameters.total)
    is_open = state.channel.phase == "open" and state.producer.life == "open" and state.producer.told == "none"
    if not is_open or state.consumer.life != "reading" or state.consumer.seen != "none":
        return True
    windows = parameters.producer_window + parameters.channel_window + parameters.consumer_window
    return _can_fill(state, parameters) or under_way(state) == windows - fewer


def room(state: State, parameters: Parameters) -> int:
    """Steps until the windows are full."""
    producer, consumer = state.producer, state.consumer
    free = 3 * (parameters.channel_window - state.channel.held)
    return producer.credit + 2 * producer.returned + free + 5 * consumer.credit + 6 * consumer.returned + consumer.wire


def _room_falls(before: State, after: State, parameters: Parameters, *, by: int) -> bool:
    return room(after, parameters) == room(before, parameters) - by


def rank(state: State, _parameters: Parameters) -> int:
    """At least this many steps until somebody offers or comes."""
    producer, channel, consumer = state.producer, state.channel, state.consumer
    messages = 6 * state.incoming + 4 * channel.held + 3 * consumer.wire + 2 * consumer.inbox
    moving = messages + producer.returned + consumer.returned
    ends = (1 if channel.phase == "open" else 0) + (1 if is_live(producer) else 0)
    if not is_there(state):
        return moving + ends
    end = 1 if goes(channel) and not consumer.has_end else 0
    return moving + ends + end + 1 + (1 if consumer.seen == "none" else 0)


def _nothing_under_way(told: Told) -> Clause[State, Parameters]:
    def holds(state: State, _parameters: Parameters) -> bool:
        return state.producer.told != told or (under_way(state) == 0 and state.lost == 0)

    return holds


def _begins_with_the_first(state: State, parameters: Parameters, *, handed: int) -> bool:
    """Who comes to a channel that goes: no message was handed out; or this many."""
    if not goes(state.channel) or not SYSTEM.is_enabled("Claim", state, parameters):
        return True
    return state.consumed == handed


def _both_are_told(state: State, parameters: Parameters, *, is_told: bool) -> bool:
    """Where the protocol can do nothing more and the channel is over, both ends have heard so."""
    if SYSTEM.can_move(state, parameters) or goes(state.channel):
        return True
    return (not is_there(state) and not is_live(state.producer)) == is_told


def _is_stuck_with(state: State, parameters: Parameters) -> bool:
    """The twin: the producer, too, is waited for."""
    return SYSTEM.can_move(state, parameters) or not is_live(state.producer) or state.consumer.life != "reading"


# Frames.


def _leaves_with(word: Seen) -> Callable[[State, State, Parameters], bool]:
    """The consumer is gone, what was on its way to it is lost, and its last word is this, unless it had one."""

    def leaves(before: State, after: State, _parameters: Parameters) -> bool:
        seen = before.consumer.seen
        return _is_nobody(after.consumer, word if seen == "none" else seen) and _loses(before, after)

    return leaves


def _is_nobody(consumer: Consumer, seen: Seen) -> bool:
    numbers = consumer.handed + consumer.credit + consumer.wire + consumer.inbox + consumer.returned
    return consumer.life == "none" and numbers == 0 and not consumer.has_end and consumer.seen == seen


def _loses(before: State, after: State) -> bool:
    """What is under way no more is lost."""
    return after.lost - before.lost == under_way(before) - under_way(after)


def _breaks(before: State, after: State, _parameters: Parameters) -> bool:
    """A channel that goes is broken and empty; one that is over stays as it is."""
    if not goes(before.channel):
        return after.channel.phase == before.channel.phase and _is_as_full(before, after)
    return after.channel.phase == "broken" and _is_empty(after) and _loses(before, after)


def _is_empty(state: State) -> bool:
    return state.incoming == 0 and state.channel.held == 0


def _is_as_full(before: State, after: State) -> bool:
    return after.incoming == before.incoming and after.channel.held == before.channel.held


def _is_told(word: Told, before: State, after: State) -> bool:
    """A producer that has heard no last word hears this one."""
    return after.producer.told == (word if is_live(before.producer) else before.producer.told)


def _breaks_if_open(before: State, after: State, parameters: Parameters) -> bool:
    if before.channel.phase == "open":
        return _breaks(before, after, parameters)
    return after.channel.phase == before.channel.phase and _is_as_full(before, after) and after.lost == before.lost


def _resets(before: State, after: State, parameters: Parameters) -> bool:
    told = _is_told("error", before, after) if goes(before.channel) else after.producer.told == before.producer.told
    leaves = _leaves_with("error")(before, after, parameters) if is_there(before) else _is_same_consumer(before, after)
    return told and leaves and _breaks(before, after, parameters)


def _is_same_consumer(before: State, after: State) -> bool:
    return _is_nobody(after.consumer, before.consumer.seen)


def _gives_up(before: State, after: State, parameters: Parameters) -> bool:
    if not _leaves_with("error")(before, after, parameters):
        return False
    if before.consumer.handed > 0 and goes(before.channel):
        is_kept = after.channel.is_awaited == before.channel.is_awaited
        return (
            after.channel.is_lost
            and is_kept
            and _breaks(before, after, parameters)
            and _is_told("error", before, after)
        )
    is_same = after.channel.phase == before.channel.phase and after.channel.is_lost == before.channel.is_lost
    has_told = after.producer.told == before.producer.told
    return is_same and has_told and not after.channel.is_awaited and _is_as_full(before, after)


def _cancels(before: State, after: State, parameters: Parameters) -> bool:
    is_told = _is_told("cancelled", before, after)
    return is_told and _is_empty(after) and _leaves_with("cancelled")(before, after, parameters)


def _purges(before: State, after: State, _parameters: Parameters) -> bool:
    return (
        after.channel.held == 0
        and after.channel.purged - before.channel.purged == before.channel.held
        and _loses(before, after)
    )


def _comes(_before: State, after: State, parameters: Parameters) -> bool:
    consumer = after.consumer
    numbers = consumer.handed + consumer.wire + consumer.inbox + consumer.returned
    is_new = numbers == 0 and consumer.credit == parameters.consumer_window and not consumer.has_end
    return is_new and consumer.life == "reading" and consumer.seen == "none"


def _waits_for_who_is_there(before: State, after: State, parameters: Parameters) -> bool:
    return after.channel.is_awaited == (parameters.waits and is_there(before))


def _answers(before: State, after: State, parameters: Parameters) -> bool:
    channel = before.channel
    is_heard_of = channel.is_awaited and has_heard_all(before, parameters)
    is_read = is_heard_of or channel.phase == "spent"
    return after.producer.told == ("consumed" if is_read and channel.purged == 0 else "accepted")


def _may_answer(state: State, parameters: Parameters) -> bool:
    producer, channel = state.producer, state.channel
    if producer.life != "ended" or producer.told != "none" or channel.phase == "open" or channel.phase == "broken":
        return False
    return channel.phase == "spent" or not channel.is_awaited or has_heard_all(state, parameters)


def _sends(state: State) -> bool:
    return state.producer.life == "open" and state.producer.told == "none"


def _may_claim(state: State, _parameters: Parameters) -> bool:
    channel = state.channel
    is_free = not is_there(state) and not channel.is_lost and not channel.is_retired
    return state.comers > 0 and is_free and channel.phase != "spent"


FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame(
        "Done",
        when=lambda state, _: not is_there(state) and (not is_live(state.producer) or state.comers == 0),
        possible="without a consumer, where the producer is not live or none comes",
    ),
    Frame(
        "Offer",
        {"producer.offered": +1, "producer.credit": -1, "incoming": +1},
        when=lambda state, parameters: (
            _sends(state) and state.producer.credit > 0 and state.producer.offered < parameters.total
        ),
        possible="with a permit, up to Total",
    ),
    Frame(
        "EndStream", {"producer.life": "ended"}, when=lambda state, _: _sends(state), possible="for an open producer"
    ),
    Frame(
        "Abort",
        {"producer.life": "aborted", "incoming": None, "channel.phase": None, "channel.held": None, "lost": None},
        _breaks,
        "a channel that goes is broken and empty",
        when=lambda state, _: _sends(state),
        possible="for an open producer",
    ),
    Frame(
        "LoseProducer",
        {"producer.life": "gone", "incoming": None, "channel.phase": None, "channel.held": None, "lost": None},
        _breaks_if_open,
        "an open channel is broken and empty",
        when=lambda state, parameters: parameters.faults and is_live(state.producer),
        possible="for a live producer",
    ),
    Frame("Claim", {"comers": -1, "consumer": None}, _comes, "a new consumer", when=_may_claim, possible="see Claim"),
    Frame(
        "Consume",
        {"consumer.inbox": -1, "consumer.returned": +1, "consumed": +1},
        when=lambda state, _: (
            (state.consumer.life == "reading" or state.consumer.life == "suspended")
            and state.consumer.inbox > 0
            and state.consumer.seen == "none"
        ),
        possible="where a message has arrived, also without a connection",
    ),
    Frame(
        "Cancel",
        {"consumer.seen": "cancelled"},
        when=lambda state, _: state.consumer.life == "reading" and state.consumer.seen == "none",
        possible="for a reading consumer",
    ),
    Frame(
        "SuspendConsumer",
        {"consumer.life": "suspended"},
        when=lambda state, parameters: parameters.faults and state.consumer.life == "reading",
        possible="for a reading consumer",
    ),
    Frame("ResumeConsumer", {"consumer.life": "reading"}, when=lambda state, _: state.consumer.life == "suspended"),
    Frame(
        "LoseReader",
        {"consumer.life": "gone"},
        when=lambda state, parameters: parameters.faults and state.consumer.life == "reading",
        possible="for a reading consumer",
    ),
    Frame(
        "Purge",
        {"channel.held": None, "channel.purged": None, "lost": None},
        _purges,
        "what was held is purged and lost",
        when=lambda state, parameters: parameters.faults and goes(state.channel) and state.channel.held > 0,
        possible="where something is held",
    ),
    Frame(
        "Reset",
        {
            "channel.is_retired": True,
            **dict.fromkeys(("producer.told", "incoming", "channel.phase", "channel.held", "consumer", "lost")),
        },
        _resets,
        "broken and empty, unless it is over; both are told",
        when=lambda state, parameters: parameters.faults and not state.channel.is_retired,
        possible="once",
    ),
    Frame(
        "TakeIn",
        {"incoming": -1, "channel.held": +1, "channel.taken": +1, "producer.returned": +1},
        when=lambda state, parameters: (
            state.channel.phase == "open" and state.incoming > 0 and state.channel.held < parameters.channel_window
        ),
        possible="where there is room",
    ),
    Frame(
        "HearPermit",
        {"producer.returned": -1, "producer.credit": +1},
        when=lambda state, _: state.producer.returned > 0,
        possible="where one is on its way",
    ),
    Frame(
        "PassOn",
        {"channel.held": -1, "consumer.handed": +1, "consumer.credit": -1, "consumer.wire": +1},
        when=lambda state, _: (
            goes(state.channel) and is_there(state) and state.channel.held > 0 and state.consumer.credit > 0
        ),
        possible="with a permit of the consumer",
    ),
    Frame(
        "Deliver",
        {"consumer.wire": -1, "consumer.inbox": +1},
        when=lambda state, _: (
            state.consumer.life == "reading" and state.consumer.wire > 0 and state.consumer.seen == "none"
        ),
        possible="for a consumer that wants more",
    ),
    Frame(
        "HearConsumed",
        {"consumer.returned": -1, "consumer.credit": +1},
        when=lambda state, _: is_heard(state.consumer) and state.consumer.returned > 0,
        possible="with a connection",
    ),
    Frame(
        "EndChannel",
        {"channel.phase": "ended", "channel.is_awaited": None},
        _waits_for_who_is_there,
        "awaited if Waits and a consumer is there",
        when=lambda state, _: state.producer.life == "ended" and state.channel.phase == "open" and state.incoming == 0,
        possible="behind all messages",
    ),
    Frame(
        "AnswerEnd",
        {"producer.told": None},
        _answers,
        "consumed where all is, as the exchange knows, and nothing was purged; else accepted",
        when=_may_answer,
        possible="where nothing is waited for",
    ),
    Frame(
        "PassEnd",
        {"consumer.has_end": True},
        when=lambda state, _: (
            state.channel.phase == "ended"
            and state.channel.held == 0
            and is_there(state)
            and not state.consumer.has_end
        ),
        possible="behind all messages",
    ),
    Frame(
        "ReadEnd",
        {"consumer.seen": "end"},
        when=lambda state, _: (
            state.consumer.life == "reading"
            and state.consumer.has_end
            and of_consumer(state.consumer) == 0
            and state.consumer.seen == "none"
        ),
        possible="behind all messages",
    ),
    Frame(
        "Spend",
        {"channel.phase": "spent", "consumer": None},
        lambda _before, after, _: _is_nobody(after.consumer, "end"),
        "it has left with the end",
        when=lambda state, _: (
            is_heard(state.consumer) and state.consumer.seen == "end" and state.consumer.returned == 0
        ),
        possible="behind all permits",
    ),
    Frame(
        "PassAbort",
        {"consumer": None, "lost": None},
        _leaves_with("abort"),
        "it has left with an abort, unless it had a last word",
        when=lambda state, _: state.channel.phase == "broken" and is_there(state),
        possible="for the consumer of a broken channel",
    ),
    Frame(
        "HearCancel",
        {
            "channel.phase": "spent",
            "channel.is_cancelled": True,
            **dict.fromkeys(("producer.told", "incoming", "channel.held", "consumer", "lost")),
        },
        _cancels,
        "all that was under way is lost, and the producer is told",
        when=lambda state, _: goes(state.channel) and is_heard(state.consumer) and state.consumer.seen == "cancelled",
        possible="with a connection",
    ),
    Frame(
        "GiveUpConsumer",
        dict.fromkeys(
            (
                *("channel.is_lost", "channel.is_awaited", "channel.phase", "channel.held"),
                *("producer.told", "incoming", "consumer", "lost"),
            )
        ),
        _gives_up,
        "it has left; if it was handed messages, the channel is broken and empty, and the producer told",
        when=lambda state, _: state.consumer.life == "suspended" or state.consumer.life == "gone",
        possible="without a connection",
    ),
)
"""What each action changes."""


def _more(part: str) -> Callable[[State, Parameters], State]:
    """The mistake of a twin: after the step one more is there."""

    def mistake(state: State, _parameters: Parameters) -> State:
        record, name = part.split(".")
        old = getattr(state, record)
        return state._replace(**{record: old._replace(**{name: getattr(old, name) + 1})})

    return mistake


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    follows = SUBJECT.holds_whenever_invariant
    return (
        _CHAPTER.kept(
            "type-ok",
            "TypeOK",
            "No count is ever negative, and the channel holds no more than its window.",
            lambda state, _: state._replace(incoming=-1),
            "-1 incoming messages",
        ),
        _CHAPTER.kept(
            "producer-permits",
            "ProducerPermits",
            "While the channel goes, each of the producer's permits is with it, with an incoming message, or on its "
            "way back.",
            lambda state, _: state._replace(
                producer=state.producer._replace(credit=state.producer.credit + 1),
                channel=state.channel._replace(phase="open"),
            ),
            "after the step there is one more, and the channel is open",
        ),
        _CHAPTER.kept(
            "reader-permits",
            "ReaderPermits",
            "While a consumer is there, each of its permits is at the exchange, with a message on its way or in its "
            "inbox, or on its way back.",
            lambda state, _: state._replace(
                consumer=state.consumer._replace(credit=state.consumer.credit + 1, life="reading")
            ),
            "after the step there is one more, and a consumer",
        ),
        _CHAPTER.kept(
            "conserved",
            "MessagesConserved",
            "Each message that was offered is incoming, held, on its way to the consumer or in its inbox, consumed, or "
            "lost.",
            _more("channel.held"),
            "after the step one more is held",
        ),
        _CHAPTER.kept(
            "taken",
            "TakenConserved",
            "While the channel goes, it has taken over all but the incoming messages, and lost none but what was "
            "purged; one that is over is empty.",
            lambda state, _: state._replace(
                channel=state.channel._replace(phase="open", taken=state.channel.taken + 1, purged=state.lost),
                incoming=state.producer.offered - state.channel.taken,
            ),
            "after the step it has taken over one that is incoming",
        ),
        _CHAPTER.kept(
            "once",
            "HandedOutOnce",
            "While the channel goes, all messages that any consumer has got belong to the one that is there: nothing "
            "is handed out twice.",
            lambda state, _: state._replace(
                channel=state.channel._replace(phase="open"), consumed=state.consumer.handed + 1
            ),
            "after the step one more is consumed than was handed out",
        ),
        _CHAPTER.kept(
            "end-last",
            "EndIsLast",
            "The end is behind all messages, in the channel and in the consumer's stream.",
            lambda state, _: state._replace(channel=state.channel._replace(phase="ended"), incoming=1),
            "after the step a message comes behind it",
        ),
        _CHAPTER.kept(
            "spent-is-read",
            "SpentIsRead",
            "A channel that was not cancelled is spent by who has read it to its end.",
            lambda state, _: state._replace(
                channel=state.channel._replace(phase="spent", is_cancelled=False, taken=state.producer.offered + 1)
            ),
            "after the step it is spent, and has taken over one more",
        ),
        _CHAPTER.kept(
            "answer",
            "AnswerIsTrue",
            "What a producer is told is true: consumed, all of it is; accepted, the channel has taken over all; "
            "cancelled, a consumer has said so; an error, the channel broke.",
            lambda state, _: state._replace(
                producer=state.producer._replace(told="consumed", offered=state.consumed + 1)
            ),
            "after the step it is told so, and one is missing",
        ),
        _CHAPTER.kept(
            "end-whole",
            "EndIsWhole",
            "A consumer that reads the end has consumed all that was offered, and not purged, by a producer that has "
            "ended.",
            lambda state, _: state._replace(
                consumer=state.consumer._replace(seen="end"), consumed=state.producer.offered + 1
            ),
            "after the step it reads the end, and has one more",
        ),
        _CHAPTER.kept(
            "broken-told",
            "BreakIsTold",
            "When the channel breaks or is cancelled, its producer is told; while it is open, the producer is live.",
            lambda state, _: state._replace(
                channel=state.channel._replace(phase="broken"),
                producer=state.producer._replace(life="ended", told="none"),
            ),
            "after the step it is broken, and the producer not told",
        ),
        _CHAPTER.theorem(
            "bounded",
            "BridgeBounded",
            "No more than the three windows together are between the applications: the bridges hold nothing.",
            follows("in every state", SYSTEM.invariants["BridgeBounded"], _holds_fewer, "fewer"),
        ),
        _CHAPTER.theorem(
            "full",
            "WindowsFullProbe",
            "The bound is reached, whatever the windows: while the producer of an open channel has more to send, and "
            "its consumer does not consume, each step of offering and passing on takes one from a number, and where "
            "none is possible all three windows are full.",
            follows(
                "where none is possible",
                partial(_fills, fewer=0),
                partial(_fills, fewer=1),
                "all but one place are",
            ),
            *SUBJECT.step_obligations(
                FILLING, partial(_room_falls, by=1), partial(_room_falls, by=2), "it falls by two"
            ),
        ),
        _CHAPTER.theorem(
            "live",
            "BridgeMoves",
            "While both live, some step of the protocol is possible, or an application is waited for: a producer that "
            "has a permit, or a consumer that has a message.",
            follows("in every state", SYSTEM.invariants["BridgeMoves"], _is_stuck_with, "some step is possible"),
        ),
        _CHAPTER.theorem(
            "rank",
            "Protocol",
            "6 incoming + 4 held + 3 on their way to the consumer + 2 in its inbox + 1 for each permit on its way, and "
            "1 for an open channel, a live producer, a consumer, its end and its last word: only an offer or a "
            "consumer that comes raises it, and each step of the protocol lowers it. So it comes to rest.",
            *comes_to_rest(SUBJECT, rank, unless=("Offer", "Claim")),
        ),
        _CHAPTER.theorem(
            "told",
            "AnswerEnd",
            "A producer that is told consumed has nothing under way, and nothing was lost.",
            follows("in every state", _nothing_under_way("consumed"), _nothing_under_way("accepted"), "told accepted"),
        ),
        _CHAPTER.theorem(
            "first",
            "Claim",
            "No message of a channel that goes was consumed before a consumer comes: it begins with the first one that "
            "was not purged.",
            follows(
                "in every state",
                partial(_begins_with_the_first, handed=0),
                partial(_begins_with_the_first, handed=1),
                "one was",
            ),
        ),
        _CHAPTER.theorem(
            "over",
            "Protocol",
            "Where the protocol can do nothing more and the channel is over, each end that was there has heard so: the "
            "producer has its last word, and no consumer waits.",
            follows(
                "in every state",
                partial(_both_are_told, is_told=True),
                partial(_both_are_told, is_told=False),
                "nobody has",
            ),
        ),
        _CHAPTER.framed(FRAMES, ANY),
    )

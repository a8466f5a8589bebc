"""The producers of a channel that is read once: any number of them, any windows, messages, consumers and faults.

One producer acts, and stands for any; another one, if there are several, is any other; of the rest is known that no two
stand in one place of the line.  The clauses are shown in states that satisfy all that they need, so they are inductive
together.
"""

from collections.abc import Mapping
from dataclasses import replace
from functools import partial

from permitflow_model.fan_in import (
    SYSTEM,
    Channel,
    Line,
    Parameters,
    Phase,
    Producer,
    State,
    has_left_nothing,
    has_not_closed,
    has_nothing_under_way,
    is_behind_all,
    is_elsewhere,
    is_in_line,
    is_in_turn,
    is_told_true,
    producer_ok,
    stream_bounded,
    taken_of,
)
from permitflow_proofs.kernel.arbitrary import any_parameters_of, any_value, arbitrary, assume_all
from permitflow_proofs.kernel.chapter import Chapter
from permitflow_proofs.kernel.family import SymbolicFamily, each_in_focus, holds_in_focus
from permitflow_proofs.kernel.frame import Change, Frame
from permitflow_proofs.kernel.induction import Clause, Subject
from permitflow_proofs.kernel.ranking import comes_to_rest
from permitflow_proofs.kernel.symbols import any_of, assume, function, implies, integer, limit, merged
from permitflow_proofs.kernel.theorem import Theorem

_PLACE = function("place")(0)
"""Any place of the line."""


# What the model says, once more: a mistake in its own words is noticed by these.


def goes(channel: Channel) -> bool:
    """May messages still reach a consumer?"""
    return channel.phase != "spent" and channel.phase != "broken"


def is_read(channel: Channel) -> bool:
    """Was it read to its end?"""
    return channel.phase == "spent" and not channel.is_cancelled


def is_over(channel: Channel) -> bool:
    """Does everybody hear that it is over?"""
    return channel.is_retired or channel.is_cancelled or channel.phase == "broken"


def is_live(one: Producer) -> bool:
    """Has it heard no last word?"""
    return one.told == "none" and one.life == "open"


def sends(state: State) -> bool:
    """May the producer in focus send?"""
    one = state.producers.get(0)
    return one.end == "none" and not one.is_cut and is_live(one) and not is_over(state.channel)


def has_ended(one: Producer) -> bool:
    """Has its End come?"""
    return one.end != "none" and one.end != "sent"


def left(state: State) -> int:
    """The number of the last message that was passed on or dropped."""
    return state.channel.purged + state.consumer.handed


def is_waiting(one: Producer, state: State) -> bool:
    """Does its answer wait for the consumer that is there?"""
    return state.consumer.is_there and one.awaits > 0 and one.awaits == state.consumer.came


# The clauses: of the producer that acts, and of any other one.


def _type_ok(state: State, parameters: Parameters) -> bool:
    """Condition by condition: all of them at once have 130,000 paths."""
    channel, line, consumer = state.channel, state.line, state.consumer
    if not (channel.held >= 0 and channel.taken >= 0 and channel.purged >= 0 and channel.gap >= 0):
        return False
    if not (line.served >= 0 and line.given >= line.served):
        return False
    if not (0 <= consumer.came <= parameters.consumers and consumer.handed >= 0 and consumer.consumed >= 0):
        return False
    if not (state.producers.size() == parameters.producers and state.faults >= 0):
        return False
    return holds_in_focus(producer_ok, state.producers)


def _bounded(state: State, parameters: Parameters) -> bool:
    outstanding = state.consumer.handed - state.consumer.consumed
    if state.channel.held > parameters.channel_window or outstanding > parameters.consumer_window:
        return False
    return holds_in_focus(stream_bounded, state.producers, parameters.producer_window)


def differ(one: Producer, other: Producer) -> bool:
    """Do they stand in different places of the line, if they stand there?"""
    return one.ticket == 0 or one.ticket != other.ticket


def _in_line(state: State, _parameters: Parameters) -> bool:
    def is_right(name: int) -> bool:
        return is_in_line(state.producers.get(name), state.line.given, state.line.served)

    return each_in_focus(lambda name: merged(partial(is_right, name)), state.producers, differ)


def _is_taken(state: State, place: int) -> bool:
    is_free = state.producers.every(is_elsewhere, place)
    return not (state.line.served < place <= state.line.given) or not is_free


def _no_place_free(state: State, _parameters: Parameters) -> bool:
    return _is_taken(state, _PLACE)


def lined_up(one: Producer) -> int:
    """1 if a message of it waits in the line."""
    return 1 * (one.ticket > 0)


def not_lined_up(one: Producer) -> int:
    """1 if none does."""
    return 1 * (one.ticket == 0)


def _line_counted(state: State, parameters: Parameters) -> bool:
    """As many stand in the line as places of it are taken; the others are as many as there are besides."""
    waiting = state.line.given - state.line.served
    if state.producers.sum_of(lined_up) != waiting:
        return False
    return state.producers.sum_of(not_lined_up) == parameters.producers - waiting


def _in_turn(state: State, parameters: Parameters) -> bool:
    return holds_in_focus(is_in_turn, state.producers, state.channel.taken, state.line.served, parameters.producers)


def _behind_all(state: State, _parameters: Parameters) -> bool:
    channel = state.channel
    return holds_in_focus(is_behind_all, state.producers, channel.taken, state.consumer.handed, channel.purged)


def _told_true(state: State, _parameters: Parameters) -> bool:
    return holds_in_focus(is_told_true, state.producers, state.channel, state.consumer.consumed)


def _loss_breaks(state: State, _parameters: Parameters) -> bool:
    return not goes(state.channel) or holds_in_focus(has_left_nothing, state.producers)


def _closed(state: State, _parameters: Parameters) -> bool:
    has_nobody_closed = state.producers.every(has_not_closed)
    return not (state.channel.phase == "ended" or is_read(state.channel)) or not has_nobody_closed


def _taken_once(state: State, _parameters: Parameters) -> bool:
    return state.channel.taken == state.producers.sum_of(taken_of)


INVARIANT: Mapping[str, Clause[State, Parameters]] = {
    "TypeOK": _type_ok,
    "PassedOnOnce": SYSTEM.invariants["PassedOnOnce"],
    "FanInBounded": _bounded,
    "OneInEachPlace": _in_line,
    "EndIsBehindAll": _behind_all,
    "EachIsToldTrue": _told_true,
    "EndIsOfAll": SYSTEM.invariants["EndIsOfAll"],
    "LossBreaks": _loss_breaks,
    "NoPlaceFree": _no_place_free,
    "LineCounted": _line_counted,
    "TakenInTurn": _in_turn,
    "OpenUntilClosed": _closed,
    "EachTakenOnce": _taken_once,
}
"""What every reachable state satisfies; proved by induction."""

_OF_ALL = ("NoPlaceFree", "LineCounted", "TakenInTurn", "OpenUntilClosed", "EachTakenOnce")
"""Clauses about all producers together: each costs, and few need another one."""


def _any_state(of_all: tuple[str, ...], parameters: Parameters) -> State:
    """Any state; of the clauses about all producers together, it satisfies these."""
    line = Line(integer("line.given"), integer("line.served"))
    acting = arbitrary(Producer, "acting.")

    def is_such(other: Producer) -> bool:
        return producer_ok(other) and is_in_line(other, line.given, line.served) and differ(acting, other)

    def any_other(name: str) -> Producer:
        other = arbitrary(Producer, f"{name}.")
        limit(merged(partial(is_such, other)))
        return other

    producers = SymbolicFamily.any_of_size("producers", any_other, parameters.producers).put(0, acting)
    state = arbitrary(State, special={"producers": producers, "line": line})
    names = [name for name in INVARIANT if name not in _OF_ALL or name in of_all]
    assume_all([INVARIANT[name] for name in names], state, parameters)
    producers.settle()
    return state


def _in_any_state(parameters: Parameters) -> State:
    producers = SymbolicFamily.any_of_size("producers", any_value(Producer), parameters.producers)
    return arbitrary(State, special={"producers": producers})


_any_parameters = partial(any_parameters_of, Parameters)


def _with_clauses(*of_all: str) -> Subject[State, Parameters]:
    return Subject(SYSTEM, _any_parameters, partial(_any_state, of_all))


SUBJECT = _with_clauses()
"""Any producers, without the clauses about all of them together."""

ANY = Subject(SYSTEM, _any_parameters, _in_any_state)
"""Producers in any state at all."""

SUBJECTS: Mapping[str, Subject[State, Parameters]] = {
    **{name: SUBJECT for name in INVARIANT if name not in _OF_ALL},
    **{name: _with_clauses(name) for name in _OF_ALL},
    **dict.fromkeys(("LineCounted", "TakenInTurn"), _with_clauses("LineCounted", "TakenInTurn")),
}
"""What each clause is proved about."""

_CHAPTER = Chapter(
    SUBJECT,
    INVARIANT,
    "fan-in-",
    promises=frozenset({"told", "turn", "next", "taken-once", "passed-on", "end-of-all", "closed", "loss", "bounded"}),
)


def _chapter(clause: str) -> Chapter[State, Parameters]:
    return replace(_CHAPTER, subject=SUBJECTS[clause])


def _with(state: State, **changed: object) -> State:
    """The producer that acts is another one."""
    one = state.producers.get(0)._replace(**changed)  # type: ignore[arg-type]
    return state._replace(producers=state.producers.put(0, one))


def _in_channel(state: State, **changed: object) -> State:
    return state._replace(channel=state.channel._replace(**changed))  # type: ignore[arg-type]


# Progress.


def _with_first(state: State) -> State:
    """The same state; the first producer in the line is in focus, too."""
    return state._replace(producers=state.producers.with_some(is_at, state.line.served + 1))  # type: ignore[attr-defined]


def is_at(one: Producer, place: int) -> bool:
    """Does it stand in this place?"""
    return one.ticket == place


_OF_ITS_OWN = ("TellOver", "AnswerEnd", "NoteLeft", "NoteEnd", "RefuseClosed", "LineUp", "TakeIn")


def _is_possible(state: State, parameters: Parameters, action: str, *name: int) -> bool:
    return merged(lambda: SYSTEM.is_enabled(action, state, parameters, *name))


def _moves(state: State, parameters: Parameters, *, wrong: bool) -> bool:
    """Where a consumer reads, and the producer in focus has something under way; the mistake: it need not."""
    assume(merged(lambda: _is_taken(state, state.line.served + 1)))
    one, consumer = _one(state), state.consumer
    first = _with_first(state)
    own = [_is_possible(state, parameters, action, 0) for action in _OF_ITS_OWN]
    of_some = merged(partial(first.producers.some_name, partial(SYSTEM.is_enabled, "TakeIn", first, parameters)))
    steps = any_of([*own, of_some, _is_possible(state, parameters, "PassOn")])
    has_nothing = merged(lambda: has_nothing_under_way(one) and not wrong)
    is_idle = merged(lambda: not consumer.is_there or consumer.consumed < consumer.handed)
    return any_of((is_idle, has_nothing, steps))


def _has_heard(state: State, parameters: Parameters, *, wrong: bool) -> bool:
    """Where nothing moves, and the channel is over; the mistake: or not."""
    if not is_over(state.channel) and not wrong:
        return True
    return not is_live(_one(state)) or SYSTEM.can_move(state, parameters)


def todo(one: Producer) -> int:
    """At least this many steps with one producer until it sends more."""
    ends = 2 * (one.end == "sent") + 1 * (one.end == "here")
    return 4 * one.incoming - lined_up(one) + ends + (1 * (one.life == "open")) * (one.told == "none")


def rank(state: State, _parameters: Parameters) -> int:
    """At least this many steps until somebody sends or comes."""
    return state.producers.sum_of(todo) + 2 * state.channel.held + 1 * state.consumer.is_there


def _comes_nearer(before: State, after: State, parameters: Parameters, *, by: int) -> bool:
    """While another one waits in the line, its turn comes nearer with each message that is taken in."""
    if parameters.producers == 1:
        return True
    one, old = after.producers.get(1), before.producers.get(1)
    places = (old.ticket - before.line.served) - (one.ticket - after.line.served)
    return implies(old.ticket > 0, places == by)


# Frames.


def _one(state: State) -> Producer:
    return state.producers.get(0)


def _fails(state: State, parameters: Parameters) -> bool:
    return state.faults < parameters.faults


def _may_send(state: State, _parameters: Parameters, _name: int) -> bool:
    return sends(state)


def _may_be_lost(state: State, parameters: Parameters) -> bool:
    return state.faults < parameters.faults and is_live(_one(state)) and not is_over(state.channel)


def _of_acting(*fields: str) -> dict[str, Change]:
    return dict.fromkeys(f"producers.0.{field}" for field in fields)


def _breaks(before: State, after: State, _parameters: Parameters) -> bool:
    """No consumer is there, and a channel that goes is broken; one that is over stays as it is."""
    phase: Phase = "broken" if goes(before.channel) else before.channel.phase
    return after.channel.phase == phase and not after.consumer.is_there


def _stays(before: State, after: State) -> bool:
    return after.channel.phase == before.channel.phase and after.consumer.is_there == before.consumer.is_there


def _loses(before: State, after: State, parameters: Parameters) -> bool:
    return _stays(before, after) if has_ended(_one(before)) else _breaks(before, after, parameters)


def _gives_up(before: State, after: State, parameters: Parameters) -> bool:
    if before.consumer.handed > 0:
        return _breaks(before, after, parameters)
    return after.channel.phase == before.channel.phase and not after.consumer.is_there


def _purges(before: State, after: State, _parameters: Parameters) -> bool:
    old, channel = before.channel, after.channel
    gap = left(before) + 1 if old.gap == 0 else old.gap
    return channel.held == 0 and channel.purged - old.purged == old.held and channel.gap == gap


def _tells(before: State, after: State, _parameters: Parameters) -> bool:
    return _one(after).told == ("cancelled" if before.channel.is_cancelled else "error")


def _has_heard_all(state: State) -> bool:
    one = _one(state)
    return is_waiting(one, state) and one.end == "left" and one.due <= state.consumer.consumed


def _may_answer(state: State, _parameters: Parameters, _name: int) -> bool:
    one, channel = _one(state), state.channel
    if not is_live(one) or not has_ended(one) or is_over(channel):
        return False
    return not is_waiting(one, state) or is_read(channel) or _has_heard_all(state)


def _answers(before: State, after: State, _parameters: Parameters) -> bool:
    is_whole = (_has_heard_all(before) or is_read(before.channel)) and before.channel.purged == 0
    return _one(after).told == ("consumed" if is_whole else "accepted")


def _may_note(state: State, _parameters: Parameters, _name: int) -> bool:
    one = _one(state)
    return one.end == "here" and is_live(one) and is_waiting(one, state) and one.mark <= left(state)


def _notes(before: State, after: State, _parameters: Parameters) -> bool:
    return _one(after).due == before.consumer.handed


def _may_note_end(state: State, _parameters: Parameters, _name: int) -> bool:
    one = _one(state)
    return one.end == "sent" and one.incoming == 0 and is_live(one) and not is_over(state.channel)


def _notes_end(before: State, after: State, parameters: Parameters) -> bool:
    one, channel = _one(after), before.channel
    awaits = before.consumer.came if before.consumer.is_there and parameters.waits else 0
    phase: Phase = "ended" if one.closes and channel.phase == "open" else channel.phase
    return one.mark == channel.taken and one.awaits == awaits and after.channel.phase == phase


def _may_refuse(state: State, _parameters: Parameters, _name: int) -> bool:
    one, channel = _one(state), state.channel
    is_next = one.incoming > 0 and one.ticket == 0
    return is_next and is_live(one) and not is_over(channel) and channel.phase != "open"


def _may_line_up(state: State, parameters: Parameters, _name: int) -> bool:
    one, channel = _one(state), state.channel
    is_next = one.incoming > 0 and one.ticket == 0 and is_live(one) and channel.phase == "open"
    return is_next and (channel.held == parameters.channel_window or state.line.served < state.line.given)


def _lines_up(before: State, after: State, _parameters: Parameters) -> bool:
    return _one(after).ticket == before.line.given + 1 and _one(after).since == before.channel.taken


def _may_take_in(state: State, parameters: Parameters, _name: int) -> bool:
    one, channel, line = _one(state), state.channel, state.line
    if not goes(channel) or one.incoming <= 0 or channel.held >= parameters.channel_window:
        return False
    return one.ticket == line.served + 1 if one.ticket > 0 else channel.phase == "open" and line.given == line.served


def _takes_in(before: State, after: State, _parameters: Parameters) -> bool:
    one = _one(after)
    served = before.line.served + lined_up(_one(before))
    return one.ticket == 0 and one.since == 0 and after.line.served == served


def _may_pass_on(state: State, parameters: Parameters) -> bool:
    consumer = state.consumer
    return (
        consumer.is_there
        and state.channel.held > 0
        and consumer.handed < consumer.consumed + parameters.consumer_window
    )


def _may_read_end(state: State, _parameters: Parameters) -> bool:
    channel, consumer = state.channel, state.consumer
    is_empty = channel.held == 0 and state.line.served == state.line.given
    return channel.phase == "ended" and is_empty and consumer.is_there and consumer.handed == consumer.consumed


_BREAKING: dict[str, Change] = {"channel.phase": None, "consumer.is_there": None}
_BROKEN = "no consumer is there, and a channel that goes is broken"

FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame(
        "Done",
        when=lambda state, parameters: (
            not state.consumer.is_there and (state.consumer.came == parameters.consumers or not goes(state.channel))
        ),
        possible="where nobody reads, and nobody comes to do so",
    ),
    Frame(
        "DialIn",
        {"producers.0.life": "open"},
        when=lambda state, _parameters, _name: _one(state).life == "away" and state.channel.phase == "open",
        possible="while the channel is open",
    ),
    Frame(
        "Offer",
        {"producers.0.offered": +1, "producers.0.incoming": +1},
        when=lambda state, parameters, _name: (
            sends(state)
            and _one(state).offered < parameters.total
            and _one(state).incoming < parameters.producer_window
        ),
        possible="with a permit, up to Total",
    ),
    Frame("EndStream", {"producers.0.end": "sent"}, when=_may_send, possible="for one that may send"),
    Frame(
        "CloseStream",
        {"producers.0.end": "sent", "producers.0.closes": True},
        when=_may_send,
        possible="for one that may send",
    ),
    Frame(
        "Abort",
        {"producers.0.life": "gone", **_BREAKING},
        _breaks,
        _BROKEN,
        when=_may_send,
        possible="for one that may send",
    ),
    Frame(
        "LoseProducer",
        {"faults": +1, "producers.0.life": "gone", **_BREAKING},
        _loses,
        f"unless its End has come: {_BROKEN}",
        when=lambda state, parameters, _name: _may_be_lost(state, parameters),
        possible="for a live one, up to Faults",
    ),
    Frame(
        "CutProducer",
        {"faults": +1, "producers.0.is_cut": True},
        when=lambda state, parameters, _name: _may_be_lost(state, parameters) and not _one(state).is_cut,
        possible="for a live one that is connected, up to Faults",
    ),
    Frame(
        "ResumeProducer",
        {"producers.0.is_cut": False},
        when=lambda state, _parameters, _name: _one(state).is_cut and _one(state).life == "open",
        possible="for one that is cut, and not gone",
    ),
    Frame(
        "Claim",
        {"consumer.is_there": True, "consumer.came": +1},
        when=lambda state, parameters: (
            goes(state.channel) and not state.consumer.is_there and state.consumer.came < parameters.consumers
        ),
        possible="while none is there, and the channel goes, up to Consumers",
    ),
    Frame(
        "Consume",
        {"consumer.consumed": +1},
        when=lambda state, _: state.consumer.is_there and state.consumer.handed > state.consumer.consumed,
        possible="where a message was passed on",
    ),
    Frame(
        "Cancel",
        {"channel.phase": "spent", "channel.is_cancelled": True, "consumer.is_there": False},
        when=lambda state, _: state.consumer.is_there,
        possible="for a consumer that is there",
    ),
    Frame(
        "GiveUpConsumer",
        {"faults": +1, **_BREAKING},
        _gives_up,
        "no consumer is there; if messages were passed on, the channel is broken",
        when=lambda state, parameters: _fails(state, parameters) and state.consumer.is_there,
        possible="for a consumer that is there, up to Faults",
    ),
    Frame(
        "Purge",
        {"faults": +1, "channel.held": None, "channel.purged": None, "channel.gap": None},
        _purges,
        "what was held is purged; the gap begins with the first of it, if there was none",
        when=lambda state, parameters: _fails(state, parameters) and goes(state.channel) and state.channel.held > 0,
        possible="where something is held, up to Faults",
    ),
    Frame(
        "Reset",
        {"faults": +1, "channel.is_retired": True, **_BREAKING},
        _breaks,
        _BROKEN,
        when=lambda state, parameters: _fails(state, parameters) and not state.channel.is_retired,
        possible="once, up to Faults",
    ),
    Frame(
        "TellOver",
        _of_acting("told"),
        _tells,
        "cancelled if a consumer has said so; else an error",
        when=lambda state, _parameters, _name: is_live(_one(state)) and is_over(state.channel),
        possible="for a live one, where the channel is over",
    ),
    Frame(
        "AnswerEnd",
        _of_acting("told"),
        _answers,
        "consumed where all up to its End is, as the exchange knows, and nothing was purged; else accepted",
        when=_may_answer,
        possible="behind its End, where nothing is waited for",
    ),
    Frame(
        "NoteLeft",
        {"producers.0.end": "left", **_of_acting("due")},
        _notes,
        "due is all that was passed on",
        when=_may_note,
        possible="where all up to its mark was passed on or dropped",
    ),
    Frame(
        "NoteEnd",
        {"producers.0.end": "here", **_of_acting("mark", "awaits"), "channel.phase": None},
        _notes_end,
        "the mark is the last message of all; an open channel that it closes is ended; the answer waits for the "
        "consumer that is there, if Waits",
        when=_may_note_end,
        possible="behind its messages",
    ),
    Frame(
        "RefuseClosed",
        {"producers.0.told": "error", **_BREAKING},
        _breaks,
        _BROKEN,
        when=_may_refuse,
        possible="for a message that does not wait in the line, where another one has closed the channel",
    ),
    Frame(
        "LineUp",
        {**_of_acting("ticket", "since"), "line.given": +1},
        _lines_up,
        "it is the last in the line",
        when=_may_line_up,
        possible="where the channel is full, or somebody waits",
    ),
    Frame(
        "TakeIn",
        {
            "producers.0.incoming": -1,
            **_of_acting("ticket", "since"),
            **{"channel.held": +1, "channel.taken": +1, "line.served": None},
        },
        _takes_in,
        "its producer is out of the line",
        when=_may_take_in,
        possible="where there is room: for the first in the line; for any one, if nobody waits and the channel is open",
    ),
    Frame(
        "PassOn",
        {"channel.held": -1, "consumer.handed": +1},
        when=_may_pass_on,
        possible="with room in the consumer's stream",
    ),
    Frame(
        "ReadEnd",
        {"channel.phase": "spent", "consumer.is_there": False},
        when=_may_read_end,
        possible="behind all messages, and the line",
    ),
)
"""What each action changes: in focus are a producer that acts, and any other one."""


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    follows = SUBJECT.holds_whenever_invariant
    lining, placed = _chapter("LineCounted"), _chapter("NoPlaceFree")
    return (
        _CHAPTER.kept(
            "type-ok",
            "TypeOK",
            "No count is ever negative, and no more tickets are served than were given.",
            lambda state, _: _in_channel(state, held=-1),
            "-1 messages are held",
        ),
        _chapter("EachTakenOnce").kept(
            "taken-once",
            "EachTakenOnce",
            "Each message that a producer has offered waits in its stream, or was taken in, once.",
            lambda state, _: _in_channel(state, taken=state.channel.taken + 1),
            "after the step one more was taken in",
        ),
        _CHAPTER.kept(
            "passed-on",
            "PassedOnOnce",
            "What was taken in is held, was dropped, or was passed on to one consumer, which is there while the "
            "channel goes.",
            lambda state, _: _in_channel(state, held=state.channel.held + 1),
            "after the step one more is held",
        ),
        _CHAPTER.kept(
            "bounded",
            "FanInBounded",
            "No more messages are in each producer's stream, in the channel and in the consumer's stream than their "
            "windows are for, however many producers there are.",
            lambda state, parameters: _with(state, incoming=parameters.producer_window + 1),
            "after the step one more is incoming",
        ),
        _CHAPTER.kept(
            "places",
            "OneInEachPlace",
            "No two producers stand in one place of the line, and each that stands there has a message.",
            lambda state, _: _with(state, ticket=state.line.given + 1),
            "after the step one has a ticket that was not given",
        ),
        placed.kept(
            "no-place-free",
            "NoPlaceFree",
            "Each place of the line is taken: the first one, too.",
            lambda state, _: state._replace(
                line=state.line._replace(given=_PLACE, served=_PLACE - 1),
                producers=state.producers.put(0, _one(state)._replace(ticket=0)).map(_without_ticket),
            ),
            "after the step nobody stands there, and a ticket is out",
            about="OneInEachPlace",
        ),
        lining.kept(
            "counted",
            "LineCounted",
            "As many stand in the line as tickets are out, and no more than there are producers.",
            lambda state, _: state._replace(line=state.line._replace(given=state.line.given + 1)),
            "after the step one ticket more is out",
            about="OneInEachPlace",
        ),
        lining.kept(
            "turn",
            "TakenInTurn",
            "While a message waits in the line, at most one of each other producer is taken in: none starves while the "
            "channel takes messages in.",
            lambda state, parameters: _with(state, ticket=state.line.served + 1)._replace(
                channel=state.channel._replace(taken=_one(state).since + parameters.producers)
            ),
            "after the step as many were taken in as there are producers",
        ),
        _CHAPTER.theorem(
            "next",
            "TakeIn",
            "Nobody overtakes: with each message that is taken in, those that wait come one place nearer.",
            *SUBJECT.step_obligations(
                ("TakeIn",), partial(_comes_nearer, by=1), partial(_comes_nearer, by=2), "two places"
            ),
        ),
        _CHAPTER.kept(
            "behind",
            "EndIsBehindAll",
            "An End comes behind all messages of its producer, and its answer waits for all that were in the channel "
            "then.",
            lambda state, _: _with(state, end="here", incoming=1),
            "after the step a message comes behind it",
        ),
        _CHAPTER.kept(
            "told",
            "EachIsToldTrue",
            "What a producer is told is true: consumed, so are all messages up to its End, whosever, and none of them "
            "was dropped; accepted, all its messages were taken in; cancelled, a consumer has said so; an error, the "
            "channel broke or was reset, or a message of its own was refused.",
            lambda state, _: _with(state, told="consumed", mark=state.consumer.consumed + 1),
            "after the step it is told consumed, and one is missing",
        ),
        _CHAPTER.kept(
            "end-of-all",
            "EndIsOfAll",
            "A consumer that has read the end has consumed all that was taken in, and not dropped, and nothing waits "
            "behind it.",
            lambda state, _: _in_channel(
                state, phase="spent", is_cancelled=False, taken=state.consumer.consumed + state.channel.purged + 1
            ),
            "after the step it lacks one",
        ),
        _chapter("OpenUntilClosed").kept(
            "closed",
            "OpenUntilClosed",
            "The channel ends when a producer says that it closes it, and not before, however many have ended.",
            lambda state, _: _in_channel(
                state._replace(producers=state.producers.map(_without_closing)), phase="ended"
            ),
            "after the step it is ended, and nobody has said so",
        ),
        _CHAPTER.kept(
            "loss",
            "LossBreaks",
            "A producer that is gone before its End has come breaks the channel: no consumer reads an end of half of "
            "the messages.",
            lambda state, _: _in_channel(_with(state, life="gone", end="none"), phase="open"),
            "after the step one is gone, and the channel open",
        ),
        placed.theorem(
            "moves",
            "FanInMoves",
            "Where a consumer reads and a producer has something under way, some step of the exchange is possible, or "
            "the consumer has a message.",
            placed.subject.holds_whenever_invariant(
                "in every state", partial(_moves, wrong=False), partial(_moves, wrong=True), "nothing is under way"
            ),
        ),
        _CHAPTER.theorem(
            "rank",
            "Protocol",
            "4 for each incoming message, less 1 if it waits in the line, 2 for each that is held, 2 for an End that "
            "was sent and 1 for one that has come, 1 for each live producer and for a consumer: only a producer that "
            "comes, sends or ends, and a consumer that comes, raise it, and each step of the exchange lowers it. So it "
            "comes to rest.",
            *comes_to_rest(SUBJECT, rank, unless=("DialIn", "Offer", "EndStream", "CloseStream", "Claim"), twin_by=3),
        ),
        _CHAPTER.theorem(
            "over",
            "OverIsTold",
            "When nothing moves any more and the channel is over, each producer has heard so, also one that had "
            "nothing to send.",
            follows("in every state", partial(_has_heard, wrong=False), partial(_has_heard, wrong=True), "it goes on"),
        ),
        _CHAPTER.framed(FRAMES, ANY),
    )


def _without_ticket(one: Producer) -> Producer:
    return one._replace(ticket=0)


def _without_closing(one: Producer) -> Producer:
    return one._replace(closes=False)

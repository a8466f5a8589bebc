"""Squelch, for any watermarks, rate, delays and number of lost signals: the headroom that is enough.

A signal to stop that is in flight, or was heard, bounds what can still come: what is in flight, and what is sent at the
rate until the signal is heard.  If it was lost, ``repeat`` more messages come before the next one is told.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from itertools import product
from operator import add

from permitflow_model.squelch import (
    NO_WORDS,
    OFF,
    ON,
    SYSTEM,
    Parameters,
    Signal,
    State,
    count,
    followed_by,
    gap_of,
    initial,
    is_off_due,
    needed_headroom,
    oldest_age,
    sent_lately,
    words_of,
)
from permitflow_proofs.kernel.arbitrary import any_parameters_of, arbitrary, assume_all
from permitflow_proofs.kernel.chapter import Chapter
from permitflow_proofs.kernel.frame import Frame
from permitflow_proofs.kernel.induction import Clause, ExhaustiveObligation, Refutation, Subject
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.queue import Law, Sums, SymbolicQueue
from permitflow_proofs.kernel.queue_facts import law_obligations, made_law_obligations
from permitflow_proofs.kernel.symbols import any_of, assume, function, integer, natural
from permitflow_proofs.kernel.theorem import Theorem

# What can still come.


def round_trip(parameters: Parameters) -> int:
    """Messages that leave in the time in which a signal goes one way and a message the other."""
    return parameters.rate * (parameters.signal_delay + parameters.data_delay)


def still_sent(parameters: Parameters, age: int, sent: int) -> int:
    """Messages that the sender may still send before it hears a signal of this age."""
    return parameters.rate * (parameters.signal_delay - age) - sent if age < parameters.signal_delay else 0


def is_deaf(state: State) -> bool:
    """Was the newest signal to stop lost?"""
    return state.told == OFF and state.heard == ON and state.signals.is_empty()


def in_flight(state: State, parameters: Parameters) -> bool:
    """Messages are in flight no longer than their delay."""
    if state.wire > parameters.rate * parameters.data_delay:
        return False
    return state.sent == 0 or state.wire <= sent_lately(state)


def aged(state: State, parameters: Parameters) -> bool:
    """So are signals."""
    return state.age <= parameters.signal_delay and (state.age == 0 or not state.signals.is_empty())


def crossed(state: State, parameters: Parameters) -> bool:
    """Above the watermark, before the receiver has told it."""
    if state.told == OFF or state.inbox <= parameters.high:
        return True
    most = parameters.high + round_trip(parameters) - state.inbox - state.wire
    return still_sent(parameters, 0, state.sent) <= most and most >= 0


def told_off(state: State, parameters: Parameters) -> bool:
    """Each lost signal explains ``repeat`` of the messages that have come since the sender was told to stop."""
    if state.told == ON:
        return True
    explained = (state.lost - 1 if is_deaf(state) else state.lost) * parameters.repeat
    return state.inbox <= parameters.high + 1 + state.since + explained


def still_to_come(state: State, parameters: Parameters) -> bool:
    """A signal that is not lost ends what comes; after one that is lost, the next one is due in time."""
    if state.told == ON:
        return True
    if not is_deaf(state):
        most = round_trip(parameters) - 1 - state.since - state.wire
        ahead = 0 if state.signals.is_empty() else still_sent(parameters, state.age, state.sent)
    elif state.since >= parameters.repeat:
        most = parameters.repeat - 1 + round_trip(parameters) - state.since - state.wire
        ahead = still_sent(parameters, 0, state.sent)
    else:
        return True
    return ahead <= most and most >= 0


INVARIANT = {
    "TypeOK": SYSTEM.invariants["TypeOK"],
    "LastWord": SYSTEM.invariants["LastWord"],
    "InFlight": in_flight,
    "Aged": aged,
    "Crossed": crossed,
    "ToldOff": told_off,
    "StillToCome": still_to_come,
}
"""What every reachable state satisfies; proved by induction."""

_IN_ANY_CASE = {name: clause for name, clause in INVARIANT.items() if name not in ("ToldOff", "StillToCome")}
"""The part of it that holds however early signals are repeated."""


# Symbols.

_SIGNAL_LAWS: Mapping[str, Law] = {
    "gaps": lambda signals: signals.sum_of(gap_of, add, 0),
    "a word for each": lambda signals: _apart(signals.sum_of(words_of, followed_by, NO_WORDS).number, signals.size()),
}


def _apart(one: int, other: int) -> tuple[int, int]:
    """Never negative if both are equal."""
    return one - other, other - one


def _tick_laws(rate: int) -> Mapping[str, Law]:
    """At most this many messages are sent in each tick."""

    def sent_in(ticks: Sums) -> int:
        return ticks.sum_of(count, add, 0)

    return {
        "messages of ticks": sent_in,
        "no more than the rate": lambda ticks: rate * ticks.size() - sent_in(ticks),
    }


def any_parameters() -> Parameters:
    """Any parameters with which no signal is repeated before the first one can have had its effect."""
    parameters = any_parameters_of(Parameters)
    assume(parameters.repeat >= round_trip(parameters))
    return parameters


def any_state(parameters: Parameters, invariant: Mapping[str, Clause[State, Parameters]] = INVARIANT) -> State:
    """Any state that satisfies the invariant, or a part of it."""
    queues = {
        "recent": SymbolicQueue.any_queue("recent", integer, tuple(_tick_laws(parameters.rate).values())),
        "signals": SymbolicQueue.any_queue("signals", _any_signal, tuple(_SIGNAL_LAWS.values())),
    }
    return assume_all(invariant.values(), arbitrary(State, special=queues), parameters)


def _any_signal(name: str) -> Signal:
    return arbitrary(Signal, f"{name}.")


SUBJECT = Subject(SYSTEM, any_parameters, any_state)
"""Squelch whose signals are not repeated too early."""

_CHAPTER = Chapter(SUBJECT, INVARIANT, "squelch-", promises=frozenset({"bounded", "live", "no-storm"}))

_ANY_REPETITION = Subject(SYSTEM, partial(any_parameters_of, Parameters), partial(any_state, invariant=_IN_ANY_CASE))
"""Squelch with any parameters."""


def worst_run(parameters: Parameters) -> Iterator[State]:
    """A run in which the sender never rests, nobody consumes, and everything takes as long as it may."""
    state = initial(parameters)
    while state.heard == ON or state.wire > 0:
        yield state
        state = SYSTEM.perform(worst_step(state, parameters), state, parameters)
    yield state


def worst_step(state: State, parameters: Parameters) -> str:
    """The next action of such a run."""
    if state.waiting == 0:
        return "Offer"
    if is_off_due(state, parameters):
        return "SendXoff"
    if state.wire > sent_lately(state):
        return "Deliver"
    may = partial(SYSTEM.is_enabled, state=state, parameters=parameters)
    return next(action for action in ("Send", "Tick", "LoseSignal", "ReceiveSignal") if may(action))


# Theorems.


def _bounded(state: State, parameters: Parameters, short: int) -> bool:
    assume(parameters.capacity >= parameters.high + needed_headroom(parameters) - short)
    return SYSTEM.invariants["Bounded"](state, parameters)


def _live(state: State, parameters: Parameters, most_losses: int) -> bool:
    assume(any_of([parameters.reminders, parameters.losses <= most_losses]))
    return SYSTEM.invariants["NeverStuck"](state, parameters)


def _not_repeated(state: State, parameters: Parameters, patience: int) -> bool:
    """A signal to stop that was not lost is not due again; ``patience``: of the receiver, in messages."""
    return state.told == ON or is_deaf(state) or state.since < round_trip(parameters) - 1 + patience


def _gap(parameters: Parameters) -> int:
    return parameters.high + 1 - parameters.low


def _ahead(state: State, parameters: Parameters) -> int:
    """Messages that must come, or be consumed, before the other signal is due."""
    return parameters.high + 1 - state.inbox if state.told == ON else state.inbox - parameters.low


def _is_no_storm(before: State, after: State, parameters: Parameters, short: int) -> bool:
    """A signal that says something else is due only where nothing is ahead, and then the whole gap is."""
    if after.told == before.told:
        return _ahead(after, parameters) >= _ahead(before, parameters) - 1 + short
    return _ahead(before, parameters) <= 0 and _ahead(after, parameters) >= _gap(parameters) + short


_SMALL = Parameters(waiters=1, high=1, low=0, capacity=9, rate=1, signal_delay=2, data_delay=2, repeat=4)
"""The numbers of the run that goes beyond the headroom of 2014."""


def _within_one_way(state: State, parameters: Parameters) -> bool:
    return state.inbox <= parameters.high + parameters.rate * parameters.data_delay


def _within_both_ways(state: State, parameters: Parameters) -> bool:
    assume(parameters.losses == 0)
    return state.inbox <= parameters.high + round_trip(parameters)


def _cases() -> Iterable[Parameters]:
    """All small rates, delays and losses; with a watermark at which a whole tick's messages cross it."""
    for rate, signal_delay, data_delay, losses in product(range(1, 5), range(4), range(1, 4), range(3)):
        trip = rate * (signal_delay + data_delay)
        repeat = trip + (-trip) % rate
        yield Parameters(
            waiters=1,
            high=2 * rate,
            low=0,
            capacity=2 * rate,
            rate=rate,
            signal_delay=signal_delay,
            data_delay=data_delay,
            repeat=repeat,
            losses=losses,
        )


def _peak(parameters: Parameters) -> int:
    return max(state.inbox for state in worst_run(parameters))


def _described(parameters: Parameters) -> Mapping[str, int]:
    names = ("high", "rate", "signal_delay", "data_delay", "losses")
    return {name: getattr(parameters, name) for name in names}


def _laws() -> Iterator[SymbolicObligation]:
    def rate() -> int:
        one = function("rate")(0)
        assume(one >= 1)
        return one

    def messages_of_a_tick() -> int:
        messages = natural("messages")
        assume(messages <= rate())
        return messages

    def gap_is_known() -> Signal:
        signal = _any_signal("signal")
        assume(signal.gap >= 0)
        return signal

    for name in ("messages of ticks", "no more than the rate"):
        yield from made_law_obligations(
            name,
            lambda name=name: _tick_laws(rate())[name],  # type: ignore[misc]  # binds the loop's value
            messages_of_a_tick,
            lambda: integer("messages"),
        )
    for name, law in _SIGNAL_LAWS.items():
        is_about_gaps = name == "gaps"
        yield from law_obligations(name, law, gap_is_known, partial(_any_signal, "signal") if is_about_gaps else None)


# Frames.


def _begins_a_tick(before: State, after: State, parameters: Parameters) -> bool:
    """What was sent is of the ticks before, as many as a message may be in flight."""
    ticks = before.recent.size() + 1
    kept = ticks if ticks < parameters.data_delay else ticks - 1
    age = 0 if before.signals.is_empty() else before.age + 1
    return after.sent == 0 and after.recent.size() == kept and after.age == age


def _loses_the_oldest(before: State, after: State, _parameters: Parameters) -> bool:
    return after.age == (before.age if before.signals.size() > 1 else 0)


def _tells_to_stop(before: State, after: State, parameters: Parameters) -> bool:
    """Messages since then are counted: those above High, or those that came after it was told last."""
    since = before.since - parameters.repeat if before.told == OFF else before.inbox - parameters.high - 1
    return after.since == since and _tells(OFF, before, after, parameters)


def _tells_to_go_on(before: State, after: State, parameters: Parameters) -> bool:
    return after.since == 0 and _tells(ON, before, after, parameters)


# Guards.


def _must_stop(state: State, parameters: Parameters) -> bool:
    """Above High it is told, and again after each Repeat messages until Low."""
    if state.told == OFF:
        return state.since >= parameters.repeat and state.inbox > parameters.low
    return state.inbox > parameters.high


def _may_go_on(state: State, parameters: Parameters) -> bool:
    return state.told == OFF and state.inbox <= parameters.low


def _is_in_time(state: State, parameters: Parameters) -> bool:
    """No message and no signal is late; without a delay, none is even due."""
    if state.wire > sent_lately(state):
        return False
    if not state.signals.is_empty() and oldest_age(state) >= parameters.signal_delay:
        return False
    return parameters.signal_delay > 0 or not (_must_stop(state, parameters) or _may_go_on(state, parameters))


def _may_tick(state: State, parameters: Parameters) -> bool:
    is_due = _must_stop(state, parameters) or _may_go_on(state, parameters)
    return not is_due and _is_in_time(state, parameters)


def _may_lose(state: State, parameters: Parameters) -> bool:
    return state.lost < parameters.losses and not state.signals.is_empty()


def _may_send(state: State, parameters: Parameters) -> bool:
    has_turn = state.waiting > 0 and state.heard == ON and state.sent < parameters.rate
    return has_turn and _is_in_time(state, parameters)


def _may_hear(state: State, _parameters: Parameters) -> bool:
    return not state.signals.is_empty()


def _may_remind(state: State, parameters: Parameters) -> bool:
    is_quiet = state.wire == 0 and state.signals.is_empty()
    knows_not = state.told == ON and state.heard == OFF
    return parameters.reminders and is_quiet and knows_not and state.inbox <= parameters.high


def _counts_while_off(before: State, after: State, _parameters: Parameters) -> bool:
    return after.since == (before.since + 1 if before.told == OFF else 0)


def _tells(word: int, _before: State, after: State, _parameters: Parameters) -> bool:
    return after.told == word and after.signals.last().word == word and after.age == 0


def _hears_the_oldest(before: State, after: State, parameters: Parameters) -> bool:
    return after.heard == before.signals.head().word and _loses_the_oldest(before, after, parameters)


FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame(
        "Offer",
        {"waiting": +1},
        when=lambda state, parameters: state.waiting < parameters.waiters,
        possible="up to Waiters",
    ),
    Frame("Withdraw", {"waiting": -1}, when=lambda state, _: state.waiting > 0, possible="where one waits"),
    Frame(
        "Tick",
        {"recent": None, "sent": None, "age": None},
        _begins_a_tick,
        "sent becomes 0, and is of the recent ticks; the newest signal in flight is a tick older",
        when=_may_tick,
        possible="where nothing is late, and no signal is due",
    ),
    Frame(
        "LoseSignal",
        {"signals": -1, "age": None, "lost": +1},
        _loses_the_oldest,
        "the oldest",
        when=_may_lose,
        possible="where one is in flight, up to Losses",
    ),
    Frame(
        "Send",
        {"waiting": -1, "sent": +1, "wire": +1},
        when=_may_send,
        possible="where one waits, the sender has heard that it may, fewer than Rate left in this tick, none is late",
    ),
    Frame(
        "Deliver",
        {"wire": -1, "inbox": +1, "since": None},
        _counts_while_off,
        "since +1 while the sender is told to stop, else 0",
        when=lambda state, _: state.wire > 0,
        possible="where one is on its way",
    ),
    Frame("Consume", {"inbox": -1}, when=lambda state, _: state.inbox > 0, possible="where one is here"),
    Frame(
        "SendXoff",
        {"told": None, "since": None, "signals": +1, "age": None},
        _tells_to_stop,
        "to stop; since: messages above High, or after the last time",
        when=_must_stop,
        possible="above High; above Low again, when Repeat messages came since",
    ),
    Frame(
        "SendXon",
        {"told": None, "since": None, "signals": +1, "age": None},
        _tells_to_go_on,
        "to go on",
        when=_may_go_on,
        possible="up to Low, after it was told to stop",
    ),
    Frame(
        "ReceiveSignal",
        {"signals": -1, "heard": None, "age": None},
        _hears_the_oldest,
        "the oldest word is heard",
        when=_may_hear,
        possible="where one is in flight",
    ),
    Frame(
        "ResendXon",
        {"signals": +1, "age": None},
        partial(_tells, ON),
        "to go on",
        when=_may_remind,
        possible="with Reminders, where nothing is in flight, up to High, and the sender has heard another word",
    ),
)
"""What each action changes."""


def _any_state_at_all(_parameters: Parameters) -> State:
    queues = {
        "recent": SymbolicQueue.any_queue("recent", integer),
        "signals": SymbolicQueue.any_queue("signals", _any_signal),
    }
    return arbitrary(State, special=queues)


ANY = Subject(SYSTEM, partial(any_parameters_of, Parameters), _any_state_at_all)
"""Any sender and receiver, in any state at all."""


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    in_any_case = replace(_CHAPTER, subject=_ANY_REPETITION).kept
    follows, steps = SUBJECT.holds_whenever_invariant, [action.name for action in SYSTEM.actions]
    return (
        _CHAPTER.theorem(
            "laws",
            "SentLately",
            "No more than Rate messages leave in a tick, and signals have gaps: what the proofs assume of queues.",
            *_laws(),
        ),
        in_any_case(
            "type-ok",
            "TypeOK",
            "No count is ever negative.",
            lambda state, _: state._replace(wire=-1),
            "-1 messages are in flight",
        ),
        in_any_case(
            "last-word",
            "LastWord",
            "Unless a signal was lost, the sender hears at last what the receiver has told.",
            lambda state, _: state._replace(told=1 - state.told),
            "after the step the receiver has told the other thing",
        ),
        in_any_case(
            "in-flight",
            "InFlight",
            "No more messages are in flight than leave in the time in which one is.",
            lambda state, parameters: state._replace(wire=state.wire + parameters.rate * parameters.data_delay + 1),
            "after the step this many more are in flight",
            about="SentLately",
        ),
        in_any_case(
            "signals-arrive",
            "Aged",
            "The newest signal is in flight no longer than its delay.",
            lambda state, parameters: state._replace(age=state.age + parameters.signal_delay + 1),
            "after the step the newest one is older than that",
            about="OldestAge",
        ),
        in_any_case(
            "crossing",
            "Crossed",
            "When the watermark is crossed, there is room for what comes before the sender hears that it must stop.",
            lambda state, parameters: state._replace(
                told=ON, inbox=parameters.high + round_trip(parameters) + 1 + state.wire
            ),
            "after the step more than that is in the inbox, and nothing was told",
            about="IsOffDue",
        ),
        _CHAPTER.kept(
            "told-off",
            "ToldOff",
            "What is above the watermark has come since the sender was told to stop: Repeat messages for each lost "
            "signal, and those since the last.",
            lambda state, parameters: state._replace(
                told=OFF, inbox=parameters.high + 2 + state.since + state.lost * parameters.repeat
            ),
            "after the step the sender was told, and one more is there",
            about="SendXoff",
        ),
        _CHAPTER.kept(
            "still-to-come",
            "StillToCome",
            "Once the sender was told to stop, no more than Rate * (SignalDelay + DataDelay) messages come, or the "
            "signal is lost.",
            lambda state, parameters: state._replace(told=OFF, since=parameters.repeat + round_trip(parameters)),
            "after the step the sender was told, and more have come",
            about="SendXoff",
        ),
        _CHAPTER.theorem(
            "bounded",
            "Bounded",
            "The inbox never overflows with Rate * (SignalDelay + DataDelay) + Losses * Repeat places above High: the "
            "way of the signal and the way of the messages, and what each lost signal costs.",
            follows("in every state", partial(_bounded, short=0), partial(_bounded, short=1), "one place less"),
        ),
        Theorem(
            id="squelch-tight",
            is_promise=True,
            statement="With one place less there is a run in which it overflows.",
            module="Squelch",
            operator="Bounded",
            tool="explorer",
            obligations=(
                ExhaustiveObligation(
                    "the worst run fills exactly these places",
                    _cases,
                    lambda parameters: _peak(parameters) == parameters.high + needed_headroom(parameters),
                    lambda parameters: _peak(parameters) < parameters.high + needed_headroom(parameters),
                    "fewer",
                    _described,
                ),
            ),
        ),
        Theorem(
            id="squelch-one-way",
            is_promise=True,
            statement='False, in a mailing-list discussion of 2014: "headroom = delay * rate", the delay of one way.',
            module="Squelch",
            operator="Bounded",
            expected="refuted",
            obligations=(
                Refutation(
                    "a state where it is false",
                    _within_one_way,
                    _within_both_ways,
                    "both ways",
                    SUBJECT.always,
                    SYSTEM,
                    _SMALL,
                ),
            ),
        ),
        _CHAPTER.theorem(
            "repeated",
            "IsOffDue",
            "A signal to stop is repeated only if it was lost, given Repeat >= Rate * (SignalDelay + DataDelay).",
            follows("in every state", partial(_not_repeated, patience=1), partial(_not_repeated, patience=0), "less"),
        ),
        _CHAPTER.theorem(
            "no-storm",
            "SendXon",
            "Between two signals that say different things, High + 1 - Low messages come or are consumed.",
            *SUBJECT.step_obligations(
                steps, partial(_is_no_storm, short=0), partial(_is_no_storm, short=2), "two more"
            ),
        ),
        _CHAPTER.theorem(
            "live",
            "NeverStuck",
            "While a message waits, some step of the protocol is possible, or this tick's messages have left; if no "
            "signal is lost or the receiver reminds the sender.",
            follows("in every state", partial(_live, most_losses=0), partial(_live, most_losses=1), "one is lost"),
        ),
        _CHAPTER.framed(FRAMES, ANY),
    )

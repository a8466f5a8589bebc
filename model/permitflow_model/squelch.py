"""``Squelch.tla``, action for action: a sender that is told to stop, and may send until it hears that.

An optimistic technique: it is safe while the sender's rate and both delays are as assumed.
docs/protocols/optimistic.md explains it.
"""

from dataclasses import dataclass
from operator import add
from typing import NamedTuple

from permitflow_model.kernel.parameters import Bounded, Natural, Positive
from permitflow_model.kernel.queue import Fifo, Queue
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered

ON = 0
"""The sender may send."""

OFF = 1
"""The sender must stop."""


@dataclass(frozen=True, kw_only=True)
class Parameters(Bounded):
    """The constants of the specification."""

    waiters: Positive
    """Messages that may wait at once."""

    high: int
    """With more messages than this in the inbox the sender is told to stop."""

    low: Natural
    """With no more messages than this in the inbox the sender is told to go on."""

    capacity: int
    """Messages for which the receiver has places."""

    rate: Positive
    """The most messages that leave in a tick."""

    signal_delay: Natural
    """The most ticks from the moment a signal is due until the sender hears it."""

    data_delay: Positive
    """The most ticks in which a message is in flight."""

    repeat: Positive
    """After this many more messages the sender is told again to stop."""

    losses: Natural = 0
    """Signals that may be lost."""

    reminders: bool = False
    """Does the receiver tell again, after a time-out, that the sender may go on?"""

    def __post_init__(self) -> None:
        """Refuse what the specification's ASSUME refuses.

        Raises:
            ValueError: a parameter is out of its range.
        """
        super().__post_init__()
        if self.high < self.low:
            raise ValueError(f"high must be at least low = {self.low}, not {self.high}")
        if self.capacity < self.high:
            raise ValueError(f"capacity must be at least high = {self.high}, not {self.capacity}")


class Signal(NamedTuple):
    """``ON`` or ``OFF``, on its way to the sender."""

    word: int
    gap: int
    """Ticks from the signal before it, if that was in flight, until this one."""


class State(NamedTuple):
    """The variables of the specification; messages are anonymous."""

    waiting: int
    heard: int
    sent: int
    recent: Queue[int]
    wire: int
    inbox: int
    told: int
    since: int
    signals: Queue[Signal]
    age: int
    lost: int


def needed_headroom(parameters: Parameters) -> int:
    """Places above ``high`` that suffice, and that are needed."""
    round_trip = parameters.rate * (parameters.signal_delay + parameters.data_delay)
    return round_trip + parameters.losses * parameters.repeat


def initial(_parameters: Parameters) -> State:
    """Nothing was offered yet, and the sender may send."""
    return State(
        waiting=0,
        heard=ON,
        sent=0,
        recent=Fifo(),
        wire=0,
        inbox=0,
        told=ON,
        since=0,
        signals=Fifo(),
        age=0,
        lost=0,
    )


def count(messages: int) -> int:
    """The messages of a tick."""
    return messages


def sent_lately(state: State) -> int:
    """Messages that were sent so lately that they may still be in flight when something is sent."""
    return state.recent.sum_of(count, add, 0) + state.sent


def is_off_due(state: State, parameters: Parameters) -> bool:
    """Must the receiver tell the sender to stop?"""
    if state.told == OFF:
        return state.since >= parameters.repeat and state.inbox > parameters.low
    return state.inbox > parameters.high


def is_on_due(state: State, parameters: Parameters) -> bool:
    """Must the receiver tell the sender to go on?"""
    return state.told == OFF and state.inbox <= parameters.low


def gap_of(signal: Signal) -> int:
    """The ticks before it."""
    return signal.gap


def oldest_age(state: State) -> int:
    """Ticks since the oldest signal in flight was told; there must be one."""
    return state.age + state.signals.sum_of(gap_of, add, 0) - state.signals.head().gap


def is_late(state: State, parameters: Parameters) -> bool:
    """Must a message arrive, or a signal be told or heard, before anything is sent?"""
    if state.wire > sent_lately(state):
        return True
    if not state.signals.is_empty() and oldest_age(state) >= parameters.signal_delay:
        return True
    return parameters.signal_delay == 0 and (is_off_due(state, parameters) or is_on_due(state, parameters))


def told_now(state: State, word: int) -> State:
    """The receiver tells the sender something."""
    return state._replace(told=word, signals=state.signals.push(Signal(word, state.age)), age=0)


def without_oldest(state: State) -> State:
    """The oldest signal is no longer in flight."""
    rest = state.signals.without_head()
    return state._replace(signals=rest, age=0 if rest.is_empty() else state.age)


def offer(state: State, parameters: Parameters) -> State:
    """The application wants to send a message."""
    require(state.waiting < parameters.waiters)
    return state._replace(waiting=state.waiting + 1)


def withdraw(state: State, _parameters: Parameters) -> State:
    """The application gives up waiting with its newest message."""
    require(state.waiting > 0)
    return state._replace(waiting=state.waiting - 1)


def tick(state: State, parameters: Parameters) -> State:
    """Time passes; nothing is late, and the receiver has told what is due."""
    require(not is_late(state, parameters))
    require(not is_off_due(state, parameters))
    require(not is_on_due(state, parameters))
    recent = state.recent.push(state.sent)
    if recent.size() >= parameters.data_delay:
        recent = recent.without_head()
    return state._replace(recent=recent, sent=0, age=0 if state.signals.is_empty() else state.age + 1)


def lose_signal(state: State, parameters: Parameters) -> State:
    """A signal is lost."""
    require(state.lost < parameters.losses)
    require(not state.signals.is_empty())
    return without_oldest(state)._replace(lost=state.lost + 1)


def send(state: State, parameters: Parameters) -> State:
    """The sender was not told to stop, as far as it has heard: a message leaves."""
    require(state.waiting > 0)
    require(state.heard == ON)
    require(state.sent < parameters.rate)
    require(not is_late(state, parameters))
    return state._replace(waiting=state.waiting - 1, sent=state.sent + 1, wire=state.wire + 1)


def deliver(state: State, _parameters: Parameters) -> State:
    """A message arrives at the receiver; nothing keeps it out."""
    require(state.wire > 0)
    since = state.since + 1 if state.told == OFF else 0
    return state._replace(wire=state.wire - 1, inbox=state.inbox + 1, since=since)


def consume(state: State, _parameters: Parameters) -> State:
    """The application has consumed a message."""
    require(state.inbox > 0)
    return state._replace(inbox=state.inbox - 1)


def send_xoff(state: State, parameters: Parameters) -> State:
    """The receiver tells the sender to stop: for the first time, or again because messages keep coming."""
    require(is_off_due(state, parameters))
    since = state.since - parameters.repeat if state.told == OFF else state.inbox - parameters.high - 1
    return told_now(state, OFF)._replace(since=since)


def send_xon(state: State, parameters: Parameters) -> State:
    """The receiver tells the sender to go on."""
    require(is_on_due(state, parameters))
    return told_now(state, ON)._replace(since=0)


def receive_signal(state: State, _parameters: Parameters) -> State:
    """A signal arrives at the sender."""
    require(not state.signals.is_empty())
    return without_oldest(state)._replace(heard=state.signals.head().word)


def resend_xon(state: State, parameters: Parameters) -> State:
    """After a time-out, with nothing in flight, the receiver tells again that the sender may go on."""
    require(parameters.reminders)
    require(state.told == ON)
    require(state.heard == OFF)
    require(state.wire == 0)
    require(state.signals.is_empty())
    require(not is_off_due(state, parameters))
    return told_now(state, ON)


class Words(NamedTuple):
    """Signals, by their number and the newest word."""

    number: int
    newest: int


def words_of(signal: Signal) -> Words:
    """A signal by itself."""
    return Words(1, signal.word)


def followed_by(older: Words, newer: Words) -> Words:
    """All of them."""
    return Words(older.number + newer.number, newer.newest if newer.number > 0 else older.newest)


NO_WORDS = Words(0, ON)


def is_word(word: int) -> bool:
    """Is it one of the two?"""
    return 0 <= word <= 1


def is_signal(signal: Signal, _parameters: Parameters) -> bool:
    """Are its parts in their ranges?"""
    return is_word(signal.word) and signal.gap >= 0


def type_ok(state: State, parameters: Parameters) -> bool:
    """Every variable is in its range."""
    return (
        0 <= state.waiting <= parameters.waiters
        and is_word(state.heard)
        and is_word(state.told)
        and 0 <= state.sent <= parameters.rate
        and state.recent.size() < parameters.data_delay
        and state.wire >= 0
        and state.inbox >= 0
        and state.since >= 0
        and state.age >= 0
        and 0 <= state.lost <= parameters.losses
        and state.signals.every(is_signal, parameters)
    )


def bounded(state: State, parameters: Parameters) -> bool:
    """The receiver never holds more messages than it has places for."""
    return state.inbox <= parameters.capacity


def last_word(state: State, _parameters: Parameters) -> bool:
    """The newest signal in flight is the receiver's last; if none is in flight or was lost, the sender heard it."""
    if state.signals.is_empty():
        return state.lost > 0 or state.heard == state.told
    return state.signals.sum_of(words_of, followed_by, NO_WORDS).newest == state.told


def never_stuck(state: State, parameters: Parameters) -> bool:
    """A message that waits can still be served, in the next tick if not in this one."""
    return state.waiting == 0 or state.sent >= parameters.rate or SYSTEM.can_move(state, parameters)


SYSTEM: System[State, Parameters] = System(
    module="Squelch",
    initial=initial,
    actions=(
        Action("Offer", offer, is_environment=True, end="sender"),
        Action("Withdraw", withdraw, is_environment=True, end="sender"),
        Action("Tick", tick, is_environment=True),
        Action("LoseSignal", lose_signal, is_environment=True),
        Action("Send", send, end="sender"),
        Action("Deliver", deliver, is_arrival=True, end="receiver"),
        Action("Consume", consume, end="receiver"),
        Action("SendXoff", send_xoff, end="receiver"),
        Action("SendXon", send_xon, end="receiver"),
        Action("ReceiveSignal", receive_signal, is_arrival=True, end="sender"),
        Action("ResendXon", resend_xon, end="receiver"),
    ),
    invariants={"TypeOK": type_ok, "Bounded": bounded, "LastWord": last_word, "NeverStuck": never_stuck},
    probes={
        "WithinHighProbe": lambda state, parameters: state.inbox <= parameters.high,
        "SilentWhileOffProbe": lambda state, _: state.told == ON or state.heard == OFF,
    },
    counters={
        "sender": lambda state: (state.heard,),
        "receiver": lambda state: (state.inbox, state.told, state.since),
    },
)

REGISTERED = Registered(
    system=SYSTEM,
    parameters=Parameters,
    theorems="permitflow_proofs.squelch:theorems",
    flow="squelch",
)

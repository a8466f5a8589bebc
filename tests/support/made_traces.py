"""Recordings made up from random runs of the model, and mistakes put into them on purpose.

``random_behaviour`` gives what an implementation would have recorded; each of ``FAULTS`` changes a recording, and says
which event no behaviour allows."""

import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from permitflow import Permits
from permitflow.flows.permits.recorded import PERMIT_ACTIONS
from permitflow.flows.recording import End
from permitflow.tracing import Event
from permitflow_model.permit_channel import SYSTEM, Message, Parameters, State, held
from permitflow_model.permit_channel_trace import permits_of, rows_of


def random_behaviour(
    parameters: Parameters, *, seed: int, events: int, channel: str = "channel", settle: bool = False
) -> Iterator[Event]:
    """So many steps, each chosen among all that are possible, as events with the ends' counters.

    With ``settle`` more follow, without new offers, until everything is consumed and all permits are back.
    """
    choose = random.Random(seed)
    state = SYSTEM.initial(parameters)
    sequences: Counter[End] = Counter()
    for count in itertools.count():
        steps = list(SYSTEM.successors(state, parameters))
        if count >= events:
            steps = [step for step in steps if not step.action.startswith(("Offer", "Withdraw"))] if settle else []
        if not steps:
            return
        step = choose.choice(steps)
        end: End = "sender" if step.action in PERMIT_ACTIONS.actions["sender"] else "receiver"
        sequences[end] += 1
        rows, permits = _concerned(step.action, state, step.state)
        counters = tuple(SYSTEM.counters[end](step.state))
        yield Event(channel, end, sequences[end], step.action, (rows, *permits), None, counters)
        state = step.state


def _concerned(action: str, before: State, after: State) -> tuple[int, Permits]:
    """Rows of the message, and permits of the message or of what is returned."""
    match action:
        case "OfferChunk":
            return _of(after.waiting.last())
        case "WithdrawChunk":
            return _of(before.waiting.last())
        case "SendChunk":
            return _of(before.waiting.head())
        case "Deliver":
            return _of(before.wire.head())
        case "Consume":
            return _of(before.inbox.head())
        case "Flush":
            return 0, Permits(rows=before.unreturned)
        case "AddPermits":
            return 0, Permits(*before.grants.head())
        case _:
            return 0, Permits(barriers=1) if action.endswith("Barrier") else Permits(watermarks=1)


def _of(message: Message) -> tuple[int, Permits]:
    return message.rows, Permits(*held(message))


Place = tuple[End, int]
"""The number of an event at its end."""


class Fault(NamedTuple):
    """A recording with a mistake."""

    events: list[Event]
    place: Place
    """Of the event that no behaviour allows."""
    is_gap: bool = False
    """Is it wrong by its number?  Then the recording is not whole."""


class NoPlaceError(LookupError):
    """The recording has no event at which this mistake could be made."""


def _choose(events: Sequence[Event], choose: random.Random, suits: Callable[[Event], bool]) -> int:
    places = [index for index, event in enumerate(events) if suits(event)]
    if not places:
        raise NoPlaceError
    return choose.choice(places)


def _counting(event: Event, place: int, count: int) -> Event:
    counters = list(event.counters)
    counters[place] = count
    return event._replace(counters=tuple(counters))


def with_permits(event: Event, *permits: int) -> Event:
    """The event with other permits, as far as they are given: of rows, barriers, watermarks."""
    rows, *others = event.arguments
    return event._replace(arguments=(rows, *permits, *others[len(permits) :]))


def _renumbered(events: Sequence[Event]) -> list[Event]:
    counts: dict[End, int] = {"sender": 0, "receiver": 0}
    result = []
    for event in events:
        counts[event.end] += 1
        result.append(event._replace(sequence=counts[event.end]))
    return result


def _more_permits(event: Event, more: int) -> Event:
    return with_permits(event, permits_of(event).rows + more)


MakeFault = Callable[[Sequence[Event], random.Random], Fault]


def _one(suits: Callable[[Event], bool], change: Callable[[Event], Event]) -> MakeFault:
    """One event is changed."""

    def fault(events: Sequence[Event], choose: random.Random) -> Fault:
        index = _choose(events, choose, suits)
        event = change(events[index])
        return Fault([*events[:index], event, *events[index + 1 :]], (event.end, event.sequence))

    return fault


def _is(action: str) -> Callable[[Event], bool]:
    return lambda event: event.action == action


def _completes_a_batch(event: Event) -> bool:
    return event.action == "Consume" and permits_of(event).rows > 0 and _counters(event)[2] == 0


def _event_missing(events: Sequence[Event], choose: random.Random) -> Fault:
    last = {event.end: event.sequence for event in events}
    index = _choose(events, choose, lambda event: event.sequence < last[event.end])
    gone = events[index]
    return Fault([*events[:index], *events[index + 1 :]], (gone.end, gone.sequence + 1), is_gap=True)


def _event_twice(events: Sequence[Event], choose: random.Random) -> Fault:
    index = _choose(events, choose, lambda event: True)
    twice = events[index]
    return Fault([*events[: index + 1], twice, *events[index + 1 :]], (twice.end, twice.sequence), is_gap=True)


def _never_offered(events: Sequence[Event], choose: random.Random) -> Fault:
    index = _choose(events, choose, lambda event: event.action == "OfferChunk")
    changed = _renumbered([*events[:index], *events[index + 1 :]])
    waiting = 0
    for event in changed:
        waiting += (event.action == "OfferChunk") - (event.action in ("SendChunk", "WithdrawChunk"))
        if waiting < 0:
            return Fault(changed, (event.end, event.sequence))
    raise NoPlaceError


def _another_delivered(events: Sequence[Event], choose: random.Random) -> Fault:
    """A chunk of one row arrives as an empty one: both cost one permit, so that all books are right."""
    delivered = [index for index, event in enumerate(events) if event.action == "Deliver"]
    consumed = [index for index, event in enumerate(events) if event.action == "Consume"]
    places = [number for number in range(len(consumed)) if rows_of(events[delivered[number]]) == 1]
    if not places:
        raise NoPlaceError
    number = choose.choice(places)
    changed = list(events)
    for index in range(delivered[number], consumed[number]):
        if changed[index].end == "receiver":
            changed[index] = _counting(changed[index], 1, _counters(changed[index])[1] - 1)
    for index in (delivered[number], consumed[number]):
        changed[index] = changed[index]._replace(arguments=(0, *changed[index].arguments[1:]))
    first = changed[delivered[number]]
    return Fault(changed, ("receiver", first.sequence))


def _never_returned(events: Sequence[Event], choose: random.Random) -> Fault:
    """The receiver's last residue came back without having been returned."""
    last = max(index for index, event in enumerate(events) if event.end == "receiver")
    if events[last].action != "Flush":
        raise NoPlaceError
    came = max(index for index, event in enumerate(events) if event.action == "AddPermits" and permits_of(event).rows)
    return Fault([*events[:last], *events[last + 1 :]], ("sender", events[came].sequence))


def _counters(event: Event) -> tuple[int, ...]:
    if not event.counters:
        raise NoPlaceError
    return event.counters


FAULTS: dict[str, MakeFault] = {
    "an event is missing": _event_missing,
    "an event is there twice": _event_twice,
    "a chunk has another price": _one(_is("SendChunk"), lambda event: _more_permits(event, 1)),
    "permits are created": _one(_is("AddPermits"), lambda event: _more_permits(event, 1)),
    "permits are lost": _one(
        lambda event: event.action == "AddPermits" and permits_of(event).rows > 1,
        lambda event: _more_permits(event, -1),
    ),
    "an end miscounts": _one(
        lambda event: event.end == "sender" and _counters(event)[0] > 0,
        lambda event: _counting(event, 0, _counters(event)[0] - 1),
    ),
    "permits are spent that are not there": _one(_is("SendChunk"), lambda event: _counting(event, 0, -1)),
    "a batch is kept back": _one(_completes_a_batch, lambda event: _counting(event, 2, permits_of(event).rows)),
    "another residue is returned": _one(_is("Flush"), lambda event: _more_permits(event, 1)),
    "a chunk was never offered": _never_offered,
    "another chunk is delivered": _another_delivered,
    "permits come that nobody returned": _never_returned,
}
"""By what goes wrong; each takes a settled run and raises ``NoPlaceError`` where the mistake cannot be made in it."""

"""``MuteDelay.tla``, action for action: how far a queue grows while the mute goes up, hop by hop, to the sources."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import NamedTuple

from permitflow_model.kernel.family import Family, family
from permitflow_model.kernel.parameters import Bounded, Natural, Positive
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered


@dataclass(frozen=True, kw_only=True)
class Parameters(Bounded):
    """The constants of the specification."""

    sources: Positive
    """Sources that lead to the sink."""

    rate: Positive
    """The most messages that a source sends in a tick."""

    depth: Positive
    """Hops from a source to the sink."""

    flight: Positive
    """The most messages in flight from a source."""

    first_rate: Positive
    """The same of the first source."""

    first_depth: Positive
    """Likewise."""

    first_flight: Positive
    """Likewise."""

    high: int
    """With more messages than this in its queue the sink mutes."""

    low: Natural
    """With no more messages than this in its queue the sink unmutes."""

    capacity: int
    """Messages for which the sink has places."""

    losses: Natural = 0
    """Signals to each source that may be lost."""

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


class Source(NamedTuple):
    """A source, what is in flight from it, and how far the newest signal to it has come; all in messages."""

    rate: int
    reach: int
    """The most that leave while a signal goes all its way."""
    slack: int
    """... and while the lost ones go their hops again."""
    flight: int
    muted: bool
    ahead: int
    """The part of ``reach`` that may still leave: the rate for each hop that the newest signal has to go."""
    late: bool
    """Has the signal been on its present hop for a tick?"""
    spare: int
    """What is left of ``slack``."""
    sent: int
    """In this tick."""
    wire: int


class State(NamedTuple):
    """The variables of the specification."""

    sources: Family[Source]
    inbox: int
    mutes: bool


def opened(rate: int, depth: int, flight: int, losses: int) -> Source:
    """A source that has sent nothing and heard nothing."""
    return Source(
        rate=rate,
        reach=rate * depth,
        slack=rate * losses,
        flight=flight,
        muted=False,
        ahead=0,
        late=False,
        spare=rate * losses,
        sent=0,
        wire=0,
    )


def initial(parameters: Parameters) -> State:
    """Nothing was sent yet."""
    losses = parameters.losses
    others = opened(parameters.rate, parameters.depth, parameters.flight, losses)
    first = opened(parameters.first_rate, parameters.first_depth, parameters.first_flight, losses)
    return State(sources=family(others, parameters.sources).put(0, first), inbox=0, mutes=False)


def places_for(source: Source) -> int:
    """Places above ``high`` for what comes from this source after the sink has muted."""
    return source.flight + source.reach + source.slack


def is_coming(source: Source) -> bool:
    """Has the newest signal still a hop to go?"""
    return source.ahead >= source.rate


def is_in_time(source: Source) -> bool:
    """May time pass?"""
    return not source.late


def signalled(source: Source) -> Source:
    """The newest signal begins its way."""
    return source._replace(ahead=source.reach, late=False)


def later(source: Source) -> Source:
    """The source a tick later."""
    return source._replace(sent=0, late=is_coming(source))


def _evaluate(state: State, parameters: Parameters) -> State:
    """The sink mutes or unmutes, if its marks say so."""
    if state.mutes:
        return (
            state._replace(mutes=False, sources=state.sources.map(signalled))
            if state.inbox <= parameters.low
            else state
        )
    return state._replace(mutes=True, sources=state.sources.map(signalled)) if state.inbox > parameters.high else state


def tick(state: State, parameters: Parameters) -> State:
    """Time passes; a signal that is late must arrive before that, and before anything is sent."""
    require(state.sources.every(is_in_time))
    return state._replace(sources=state.sources.map(later))


def lose_signal(state: State, _parameters: Parameters, name: int) -> State:
    """A signal is lost with its connection, and is told again."""
    source = state.sources.get(name)
    require(is_coming(source))
    require(source.spare >= source.rate)
    after = source._replace(spare=source.spare - source.rate, late=False)
    return state._replace(sources=state.sources.put(name, after))


def receive_old_signal(state: State, _parameters: Parameters, name: int) -> State:
    """An older signal arrives."""
    source = state.sources.get(name)
    require(is_coming(source))
    return state._replace(sources=state.sources.put(name, source._replace(muted=not source.muted)))


def send(state: State, _parameters: Parameters, name: int) -> State:
    """A source that is not muted, as far as it has heard, sends a message; earlier ones have arrived."""
    source = state.sources.get(name)
    require(not source.muted)
    require(not source.late)
    require(source.sent < source.rate)
    require(source.wire < source.flight)
    return state._replace(sources=state.sources.put(name, source._replace(sent=source.sent + 1, wire=source.wire + 1)))


def deliver(state: State, parameters: Parameters, name: int) -> State:
    """A message arrives at the sink; nothing keeps it out."""
    source = state.sources.get(name)
    require(source.wire > 0)
    sources = state.sources.put(name, source._replace(wire=source.wire - 1))
    return _evaluate(state._replace(sources=sources, inbox=state.inbox + 1), parameters)


def consume(state: State, parameters: Parameters) -> State:
    """The sink consumes a message."""
    require(state.inbox > 0)
    return _evaluate(state._replace(inbox=state.inbox - 1), parameters)


def hop(state: State, _parameters: Parameters, name: int) -> State:
    """The newest signal arrives at the next node; the last one is the source."""
    source = state.sources.get(name)
    require(is_coming(source))
    source = source._replace(ahead=source.ahead - source.rate, late=False)
    muted = source.muted if is_coming(source) else state.mutes
    return state._replace(sources=state.sources.put(name, source._replace(muted=muted)))


def source_ok(source: Source) -> bool:
    """Is each part of a source in its range?"""
    return (
        0 <= source.ahead <= source.reach
        and 0 <= source.spare <= source.slack
        and 0 <= source.sent <= source.rate
        and 0 <= source.wire <= source.flight
    )


def type_ok(state: State, parameters: Parameters) -> bool:
    """Every variable is in its range."""
    all_ok = state.sources.every(source_ok)
    return all_ok and state.sources.size() == parameters.sources and state.inbox >= 0


def bounded(state: State, parameters: Parameters) -> bool:
    """The queue never grows beyond its places."""
    return state.inbox <= parameters.capacity


def marks(state: State, parameters: Parameters) -> bool:
    """A sink that does not mute is not above its high mark; one that mutes is above its low mark."""
    if state.mutes:
        return state.inbox > parameters.low
    return state.inbox <= parameters.high


def _obeys(source: Source, mutes: bool) -> bool:
    return is_coming(source) or source.muted == mutes


def newest_obeyed(state: State, _parameters: Parameters) -> bool:
    """A source that has heard the newest signal does what it says."""
    return state.sources.every(_obeys, state.mutes)


def _waits_for_late(source: Source) -> bool:
    return not source.late or (is_coming(source) and source.sent == 0)


def in_time(state: State, _parameters: Parameters) -> bool:
    """A signal that is late is on its way, and nothing was sent while it was."""
    return state.sources.every(_waits_for_late)


def _one_way(state: State, parameters: Parameters) -> bool:
    return state.inbox <= parameters.high + parameters.first_flight + (parameters.sources - 1) * parameters.flight


def _sources(state: State) -> Family[Source]:
    return state.sources


def _names(parameters: Parameters) -> Iterator[tuple[int]]:
    return ((name,) for name in range(parameters.sources))


SYSTEM: System[State, Parameters] = System(
    module="MuteDelay",
    initial=initial,
    actions=(
        Action("Tick", tick, is_environment=True),
        Action("LoseSignal", lose_signal, _names, is_environment=True, members=_sources),
        Action("ReceiveOldSignal", receive_old_signal, _names, is_environment=True, members=_sources),
        Action("Send", send, _names, members=_sources),
        Action("Deliver", deliver, _names, members=_sources),
        Action("Consume", consume),
        Action("Hop", hop, _names, members=_sources),
    ),
    invariants={
        "TypeOK": type_ok,
        "Bounded": bounded,
        "Marks": marks,
        "NewestObeyed": newest_obeyed,
        "InTime": in_time,
    },
    probes={"OneWayProbe": _one_way},
)

REGISTERED = Registered(system=SYSTEM, parameters=Parameters, theorems="permitflow_proofs.mute_delay:theorems")

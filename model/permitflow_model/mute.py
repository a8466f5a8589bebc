"""``Mute.tla``, action for action: full sinks mute the sources that lead to them, through relays, by epochs.

Nodes are numbered from 1: sinks, then relays, then sources; of a hop, the node with the larger number is upstream.
docs/protocols/mute.md explains it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import NamedTuple

from permitflow_model.kernel.family import NamedFamily, family_by_name
from permitflow_model.kernel.parameters import Bounded, Natural, Positive
from permitflow_model.kernel.queue import Fifo, Queue, larger
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.registry import Registered


@dataclass(frozen=True, kw_only=True)
class Parameters(Bounded):
    """The constants of the specification."""

    sinks: Positive
    """Sinks: the nodes 1, 2, …"""

    relays: Natural
    """Relays: the next nodes."""

    sources: Positive
    """Sources: the last nodes."""

    hops: frozenset[frozenset[int]]
    """Pairs of nodes; of each, the node with the larger number is upstream."""

    high: int
    """With more messages than this in its queue a sink mutes."""

    low: Natural
    """With no more messages than this in its queue a sink unmutes."""

    supply: Positive
    """Messages that each source has to send."""

    newcomers: Natural = 0
    """This many of the last sources join later."""

    disposals: bool = False
    """May sinks leave?"""

    clears: bool = False
    """May sinks drop what is in their queues, to begin again?"""

    remakes: Natural = 0
    """So often a connection may be made anew."""

    def __post_init__(self) -> None:
        """Refuse what the specification's ASSUME refuses.

        Raises:
            ValueError: a parameter is out of its range.
        """
        super().__post_init__()
        if self.newcomers > self.sources:
            raise ValueError(f"newcomers must be at most sources = {self.sources}, not {self.newcomers}")
        if self.high < self.low:
            raise ValueError(f"high must be at least low = {self.low}, not {self.high}")
        self.check_graph()

    def check_graph(self) -> None:
        """Refuse hops that are none, and nodes that lead nowhere.

        Raises:
            ValueError: there is one.
        """
        for hop in self.hops:
            if len(hop) != 2 or not (1 <= min(hop) <= self.sinks + self.relays and self.sinks < max(hop) <= self.nodes):
                raise ValueError(f"a hop must lead from a relay or source down to a relay or sink, not {sorted(hop)}")
        if unled := [node for node in self.names if not self.reached[node]]:
            raise ValueError(f"each node must lead to a sink; node {unled[0]} does not")

    @property
    def nodes(self) -> int:
        """How many there are."""
        return self.sinks + self.relays + self.sources

    @property
    def names(self) -> range:
        """All nodes."""
        return range(1, self.nodes + 1)

    @property
    def muters(self) -> range:
        """All sinks."""
        return range(1, self.sinks + 1)

    @property
    def source_names(self) -> range:
        """All sources."""
        return range(self.sinks + self.relays + 1, self.nodes + 1)

    def is_relay(self, node: int) -> bool:
        """Is it neither a sink nor a source?"""
        return self.sinks < node <= self.sinks + self.relays

    def is_source(self, node: int) -> bool:
        """Is it a source?"""
        return node > self.sinks + self.relays

    def is_hop(self, up: int, down: int) -> bool:
        """Is there a hop from the second node up to the first one?"""
        return (up, down) in self.pairs

    def leads(self, node: int, sink: int) -> bool:
        """Does the node lead to the sink, over any number of hops?"""
        return sink in self.reached[node]

    @cached_property
    def pairs(self) -> tuple[tuple[int, int], ...]:
        """The node upstream and the node downstream of each hop."""
        return tuple(sorted((max(hop), min(hop)) for hop in self.hops))

    @cached_property
    def reached(self) -> dict[int, frozenset[int]]:
        """The sinks to which each node leads."""
        reached: dict[int, frozenset[int]] = {}
        for node in self.names:
            own = [node] if node <= self.sinks else []
            reached[node] = frozenset(own).union(*(reached[down] for up, down in self.pairs if up == node))
        return reached


class Source(NamedTuple):
    """A source: is it here, the messages that it has, the mutes that hold it, by muter."""

    here: bool
    left: int
    holds: NamedFamily[int]


class Sink(NamedTuple):
    """A sink: has it left, the messages in flight to it, those in its queue."""

    gone: bool
    wire: int
    inbox: int


class Signal(NamedTuple):
    """A muter and its epoch; odd epochs mute."""

    muter: int
    epoch: int


class State(NamedTuple):
    """The variables of the specification; node 1 of the specification is member 0 of a family."""

    sources: NamedFamily[Source]
    sinks: NamedFamily[Sink]
    heard: NamedFamily[NamedFamily[int]]
    """What each node knows: the newest epoch of each sink that it has heard; a sink itself: what it has told."""
    signals: NamedFamily[NamedFamily[Queue[Signal]]]
    """The signals in flight up to the first of two nodes from the second."""
    remade: int


def initial(parameters: Parameters) -> State:
    """Nobody mutes."""
    none = family_by_name(lambda _: 0, parameters.sinks)
    silence: NamedFamily[Queue[Signal]] = family_by_name(lambda _: Fifo(), parameters.nodes)

    def source(name: int) -> Source:
        return Source(here=name < parameters.sources - parameters.newcomers, left=parameters.supply, holds=none)

    return State(
        sources=family_by_name(source, parameters.sources),
        sinks=family_by_name(lambda _: Sink(gone=False, wire=0, inbox=0), parameters.sinks),
        heard=family_by_name(lambda _: none, parameters.nodes),
        signals=family_by_name(lambda _: silence, parameters.nodes),
        remade=0,
    )


def is_mute(epoch: int) -> bool:
    """Does this epoch mute?"""
    return epoch % 2 == 1


# Parts of a state, by the names of the specification.


def source_at(state: State, parameters: Parameters, node: int) -> Source:
    """The source at a node."""
    return state.sources.get(node - parameters.sinks - parameters.relays - 1)


def with_source(state: State, parameters: Parameters, node: int, source: Source) -> State:
    """The state with another source at a node."""
    return state._replace(sources=state.sources.put(node - parameters.sinks - parameters.relays - 1, source))


def is_here(state: State, parameters: Parameters, node: int) -> bool:
    """Can the node be told anything?"""
    return source_at(state, parameters, node).here if parameters.is_source(node) else True


def heard_by(state: State, node: int, muter: int) -> int:
    """The newest epoch of a muter that a node has heard."""
    return state.heard.get(node - 1).get(muter - 1)


def with_heard(state: State, node: int, muter: int, epoch: int) -> State:
    """The state in which a node has heard this epoch."""
    return state._replace(heard=state.heard.put(node - 1, state.heard.get(node - 1).put(muter - 1, epoch)))


def in_flight(state: State, up: int, down: int) -> Queue[Signal]:
    """The signals on a hop."""
    return state.signals.get(up - 1).get(down - 1)


def with_signals(state: State, up: int, down: int, signals: Queue[Signal]) -> State:
    """The state with other signals on a hop."""
    return state._replace(signals=state.signals.put(up - 1, state.signals.get(up - 1).put(down - 1, signals)))


def is_muted(source: Source) -> bool:
    """Is a source held by some muter?"""
    return not source.holds.every(holds_nothing)


def holds_nothing(mutes: int) -> bool:
    """Is it no mute that holds a source?"""
    return mutes == 0


def forwarded(state: State, parameters: Parameters, down: int, signal: Signal) -> State:
    """A node tells all nodes upstream."""
    return state._replace(signals=state.signals.map_by_name(_told_to, state, parameters, down, signal))


def _told_to(
    name: int, signals: NamedFamily[Queue[Signal]], state: State, parameters: Parameters, down: int, signal: Signal
) -> NamedFamily[Queue[Signal]]:
    """The signals in flight up to a node, when a node downstream tells all."""
    if parameters.is_hop(name + 1, down) and is_here(state, parameters, name + 1):
        return signals.map_by_name(_with_one_from, down, signal)
    return signals


def _with_one_from(name: int, signals: Queue[Signal], down: int, signal: Signal) -> Queue[Signal]:
    return signals.push(signal) if name + 1 == down else signals


def newest_signals(state: State, node: int) -> Queue[Signal]:
    """The newest signals that a node knows."""
    return state.heard.get(node - 1).listed_by_name(signal_of)


def signal_of(muter: int, epoch: int) -> Signal | None:
    """What a node tells of the muter that is this member of a family, if it knows it."""
    return Signal(muter + 1, epoch) if epoch > 0 else None


def _begin_epoch(state: State, parameters: Parameters, sink: int) -> State:
    """A sink begins an epoch."""
    epoch = heard_by(state, sink, sink) + 1
    return forwarded(with_heard(state, sink, sink, epoch), parameters, sink, Signal(sink, epoch))


def _evaluate(state: State, parameters: Parameters, name: int) -> State:
    """A sink mutes or unmutes, if its marks say so."""
    sink = state.sinks.get(name - 1)
    if is_mute(heard_by(state, name, name)):
        return _begin_epoch(state, parameters, name) if sink.inbox <= parameters.low else state
    return _begin_epoch(state, parameters, name) if sink.inbox > parameters.high else state


def has_work(state: State, parameters: Parameters, node: int) -> bool:
    """Has a source something to send, and a sink for it?"""
    source = source_at(state, parameters, node)
    return source.here and source.left > 0 and not state.sinks.every_by_name(_is_no_way, parameters, node)


def _is_no_way(name: int, sink: Sink, parameters: Parameters, node: int) -> bool:
    return sink.gone or not parameters.leads(node, name + 1)


def is_at_rest(state: State, parameters: Parameters) -> bool:
    """Has no source anything to send?"""
    return state.sources.every_by_name(_has_no_work, state, parameters)


def _has_no_work(name: int, _source: Source, state: State, parameters: Parameters) -> bool:
    return not has_work(state, parameters, name + parameters.sinks + parameters.relays + 1)


# Actions.


def done(state: State, parameters: Parameters) -> State:
    """No source has anything to send."""
    require(is_at_rest(state, parameters))
    return state


def join(state: State, parameters: Parameters, node: int) -> State:
    """A source joins, and learns from the nodes downstream who mutes."""
    require(parameters.is_source(node))
    source = source_at(state, parameters, node)
    require(not source.here)
    known = state.heard.get(node - 1).map_by_name(_learned, state, parameters, node)
    holds = known.map_by_name(_muting)
    state = state._replace(heard=state.heard.put(node - 1, known))
    return with_source(state, parameters, node, source._replace(here=True, holds=holds))


def _learned(muter: int, _epoch: int, state: State, parameters: Parameters, node: int) -> int:
    """The newest epoch of a muter that a node, or one downstream of it, has heard."""
    return state.heard.largest_by_name(_heard_downstream, muter, parameters, node)


def _heard_downstream(name: int, heard: NamedFamily[int], muter: int, parameters: Parameters, node: int) -> int:
    return heard.get(muter) if name + 1 == node or parameters.is_hop(node, name + 1) else 0


def _muting(_muter: int, epoch: int) -> int:
    return epoch % 2


def dispose(state: State, parameters: Parameters, name: int) -> State:
    """A sink leaves; what was for it is dropped."""
    require(parameters.disposals and name <= parameters.sinks)
    require(not state.sinks.get(name - 1).gone)
    state = state._replace(sinks=state.sinks.put(name - 1, Sink(gone=True, wire=0, inbox=0)))
    return _begin_epoch(state, parameters, name) if is_mute(heard_by(state, name, name)) else state


def clear(state: State, parameters: Parameters, name: int) -> State:
    """A sink drops its queue."""
    require(parameters.clears and name <= parameters.sinks)
    sink = state.sinks.get(name - 1)
    require(sink.inbox > 0)
    return _evaluate(state._replace(sinks=state.sinks.put(name - 1, sink._replace(inbox=0))), parameters, name)


def reconnect(state: State, parameters: Parameters, up: int, down: int) -> State:
    """A connection is made anew: what was in flight is lost."""
    require(state.remade < parameters.remakes)
    require(not in_flight(state, up, down).is_empty())
    return with_signals(state, up, down, newest_signals(state, down))._replace(remade=state.remade + 1)


def duplicate_signal(state: State, parameters: Parameters, up: int, down: int) -> State:
    """A connection is made anew: a signal of the old one will come once more, behind newer ones."""
    require(state.remade < parameters.remakes)
    signals = in_flight(state, up, down)
    require(not signals.is_empty())
    return with_signals(state, up, down, signals.push(signals.head()))._replace(remade=state.remade + 1)


def send(state: State, parameters: Parameters, node: int, name: int) -> State:
    """A source that is not muted reads a message, and sends it to a sink."""
    require(parameters.is_source(node) and name <= parameters.sinks and parameters.leads(node, name))
    source, sink = source_at(state, parameters, node), state.sinks.get(name - 1)
    require(source.here)
    require(not is_muted(source))
    require(source.left > 0)
    require(not sink.gone)
    state = with_source(state, parameters, node, source._replace(left=source.left - 1))
    return state._replace(sinks=state.sinks.put(name - 1, sink._replace(wire=sink.wire + 1)))


def deliver(state: State, parameters: Parameters, name: int) -> State:
    """A message arrives in the queue of a sink."""
    require(name <= parameters.sinks)
    sink = state.sinks.get(name - 1)
    require(sink.wire > 0)
    sinks = state.sinks.put(name - 1, sink._replace(wire=sink.wire - 1, inbox=sink.inbox + 1))
    return _evaluate(state._replace(sinks=sinks), parameters, name)


def consume(state: State, parameters: Parameters, name: int) -> State:
    """A sink consumes a message."""
    require(name <= parameters.sinks)
    sink = state.sinks.get(name - 1)
    require(sink.inbox > 0)
    sinks = state.sinks.put(name - 1, sink._replace(inbox=sink.inbox - 1))
    return _evaluate(state._replace(sinks=sinks), parameters, name)


def receive_signal(state: State, parameters: Parameters, up: int, down: int) -> State:
    """A signal arrives at a node; a relay hands on what is news to it."""
    signals = in_flight(state, up, down)
    require(not signals.is_empty())
    signal = signals.head()
    is_news = signal.epoch > heard_by(state, up, signal.muter)
    state = with_signals(state, up, down, signals.without_head())
    if not is_news:
        return state
    state = with_heard(state, up, signal.muter, signal.epoch)
    if not parameters.is_source(up):
        return forwarded(state, parameters, up, signal)
    source = source_at(state, parameters, up)
    holds = source.holds.put(signal.muter - 1, signal.epoch % 2)
    return with_source(state, parameters, up, source._replace(holds=holds))


# Invariants.


def epoch_if_of(signal: Signal, muter: int) -> int:
    """The epoch of a signal if it is of this muter, else 0."""
    return signal.epoch if signal.muter == muter else 0


def newest_of(signals: Queue[Signal], muter: int) -> int:
    """The newest epoch of a muter among signals in flight; 0 if there is none."""
    return signals.sum_of(epoch_if_of, larger, 0, muter)


def source_ok(source: Source, parameters: Parameters, muter: int) -> bool:
    """Is every part of a source in its range?"""
    return 0 <= source.left <= parameters.supply and source.holds.get(muter - 1) >= 0


def sink_ok(sink: Sink) -> bool:
    """Likewise."""
    return sink.wire >= 0 and sink.inbox >= 0


def type_ok(state: State, parameters: Parameters) -> bool:
    """Every variable is in its range."""
    return (
        all(
            source_ok(source_at(state, parameters, node), parameters, muter)
            for node, muter in product(parameters.source_names, parameters.muters)
        )
        and state.sinks.every(sink_ok)
        and all(heard_by(state, node, muter) >= 0 for node, muter in product(parameters.names, parameters.muters))
        and 0 <= state.remade <= parameters.remakes
    )


def is_marked(sink: Sink, epoch: int, parameters: Parameters) -> bool:
    """Does a sink with this epoch mute as its marks say?"""
    if sink.gone and sink.wire + sink.inbox > 0:
        return False
    if is_mute(epoch):
        return not sink.gone and sink.inbox > parameters.low
    return sink.inbox <= parameters.high


def marks(state: State, parameters: Parameters) -> bool:
    """A sink mutes above its high mark, and unmutes at its low mark: its epoch is odd in between."""
    return all(
        is_marked(state.sinks.get(name - 1), heard_by(state, name, name), parameters) for name in parameters.muters
    )


def in_order(state: State, parameters: Parameters) -> bool:
    """No node has heard more than the muter has told, and none tells more than it has heard."""
    return all(was_told(state, node, muter) for node, muter in product(parameters.names, parameters.muters)) and all(
        is_known(state, up, down, muter) for (up, down), muter in product(parameters.pairs, parameters.muters)
    )


def was_told(state: State, node: int, muter: int) -> bool:
    """Has the muter told what a node has heard of it?"""
    return heard_by(state, node, muter) <= heard_by(state, muter, muter)


def is_known(state: State, up: int, down: int, muter: int) -> bool:
    """Has the node that tells it heard what is in flight on a hop?"""
    return newest_of(in_flight(state, up, down), muter) <= heard_by(state, down, muter)


def on_its_way(state: State, parameters: Parameters) -> bool:
    """What a node has heard, the node upstream has heard, too, or it is on its way."""
    return all(
        is_told(state, parameters, up, down, muter)
        for (up, down), muter in product(parameters.pairs, parameters.muters)
    )


def is_told(state: State, parameters: Parameters, up: int, down: int, muter: int) -> bool:
    """Does the node upstream of a hop know, or get to know, what the node downstream has heard?"""
    if not is_here(state, parameters, up):
        return True
    newest = larger(heard_by(state, up, muter), newest_of(in_flight(state, up, down), muter))
    return newest >= heard_by(state, down, muter)


def no_early_unmute(state: State, parameters: Parameters) -> bool:
    """A source does not read if the newest epoch that it has heard of some sink is a mute."""
    return all(
        not is_mute(heard_by(state, node, muter)) or source_at(state, parameters, node).holds.get(muter - 1) > 0
        for node, muter in product(parameters.source_names, parameters.muters)
    )


def is_quiet(state: State, parameters: Parameters) -> bool:
    """Is no signal in flight?"""
    return all(in_flight(state, up, down).is_empty() for up, down in parameters.pairs)


def settled(state: State, parameters: Parameters) -> bool:
    """When nothing is in flight, each source is held by the sinks that mute, and by no other."""
    return not is_quiet(state, parameters) or all(
        is_settled(state, parameters, node, muter)
        for node, muter in product(parameters.source_names, parameters.muters)
        if parameters.leads(node, muter)
    )


def is_settled(state: State, parameters: Parameters, node: int, muter: int) -> bool:
    """Does a muter hold a source that leads to it if it mutes, and only then?"""
    source = source_at(state, parameters, node)
    return not source.here or (source.holds.get(muter - 1) > 0) == is_mute(heard_by(state, muter, muter))


def never_stuck(state: State, parameters: Parameters) -> bool:
    """As long as a source has something to send, and a sink for it, something moves."""
    return is_at_rest(state, parameters) or SYSTEM.can_step(state, parameters)


# Probes.


def _muted_at_once(state: State, parameters: Parameters) -> bool:
    return all(
        is_muted(source_at(state, parameters, node)) or not is_mute(heard_by(state, muter, muter))
        for node in parameters.source_names
        for muter in parameters.reached[node]
    )


def _within_high(sink: Sink, parameters: Parameters) -> bool:
    return sink.inbox <= parameters.high + 1


def _never_old(state: State, parameters: Parameters) -> bool:
    return all(
        signal.epoch > heard_by(state, up, signal.muter)
        for up, down in parameters.pairs
        for signal in in_flight(state, up, down)
    )


def _names(parameters: Parameters) -> Iterable[tuple[int]]:
    return ((node,) for node in parameters.source_names)


def _muters(parameters: Parameters) -> Iterable[tuple[int]]:
    return ((name,) for name in parameters.muters)


def _ways(parameters: Parameters) -> Iterable[tuple[int, int]]:
    return ((node, name) for node in parameters.source_names for name in sorted(parameters.reached[node]))


def _pairs(parameters: Parameters) -> Iterable[tuple[int, int]]:
    return parameters.pairs


SYSTEM: System[State, Parameters] = System(
    module="Mute",
    initial=initial,
    actions=(
        Action("Done", done, is_environment=True),
        Action("Join", join, _names, is_environment=True),
        Action("Dispose", dispose, _muters, is_environment=True),
        Action("Clear", clear, _muters, is_environment=True),
        Action("Reconnect", reconnect, _pairs, is_environment=True),
        Action("DuplicateSignal", duplicate_signal, _pairs, is_environment=True),
        Action("Send", send, _ways),
        Action("Deliver", deliver, _muters),
        Action("Consume", consume, _muters),
        Action("ReceiveSignal", receive_signal, _pairs),
    ),
    invariants={
        "TypeOK": type_ok,
        "Marks": marks,
        "InOrder": in_order,
        "OnItsWay": on_its_way,
        "NoEarlyUnmute": no_early_unmute,
        "Settled": settled,
        "NeverStuck": never_stuck,
    },
    probes={
        "MutedAtOnceProbe": _muted_at_once,
        "WithinHighProbe": lambda state, parameters: state.sinks.every(_within_high, parameters),
        "NeverOldProbe": _never_old,
    },
)

REGISTERED = Registered(system=SYSTEM, parameters=Parameters, theorems="permitflow_proofs.mute:theorems")

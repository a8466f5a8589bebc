"""``MuteLinks.tla``, action for action: mute among processes, whose connections are lost and made anew, and which die.

Nodes are numbered as in ``mute.py``, from which it has what it does not change.  docs/protocols/mute.md explains it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from typing import NamedTuple

from permitflow_model import mute
from permitflow_model.kernel.family import NamedFamily, family_by_name
from permitflow_model.kernel.parameters import Natural
from permitflow_model.kernel.queue import Fifo, Queue, larger
from permitflow_model.kernel.system import Action, System, require
from permitflow_model.mute import (
    Signal,
    Sink,
    Source,
    forwarded,
    heard_by,
    in_flight,
    is_here,
    is_marked,
    is_mute,
    is_muted,
    newest_signals,
    source_at,
    with_heard,
    with_signals,
    with_source,
)
from permitflow_model.registry import Registered


@dataclass(frozen=True, kw_only=True)
class Parameters(mute.Parameters):
    """The constants of the specification: those of mute, and three more."""

    boundaries: Natural = 0
    """This many of the first sinks are numbers of boundaries as muters."""

    deaths: bool = False
    """May sinks die that are behind links?"""

    leaves: bool = False
    """May sources leave, and join again?"""

    def __post_init__(self) -> None:
        """Refuse what the specification's ASSUME refuses.

        Raises:
            ValueError: a parameter is out of its range.
        """
        super().__post_init__()
        if not self.boundaries < self.sinks:
            raise ValueError(f"boundaries must be below sinks = {self.sinks}, not {self.boundaries}")

    def check_graph(self) -> None:
        """Refuse boundaries that are none, too.

        Raises:
            ValueError: there is one.
        """
        super().check_graph()
        for number in range(1, self.boundaries + 1):
            boundaries = [up for up, down in self.pairs if down == number]
            if len(boundaries) != 1 or not self.is_relay(boundaries[0]):
                raise ValueError(f"muter {number} must be one boundary, and that a relay, not {boundaries}")
            links = [down for up, down in self.pairs if up == boundaries[0] and down != number]
            if len(links) != 1 or links[0] <= self.boundaries:
                raise ValueError(f"boundary {boundaries[0]} must have one link, not {links}")

    def is_boundary(self, node: int) -> bool:
        """Does it have a link?"""
        return node in self.boundary_names

    def muter_of(self, boundary: int) -> int:
        """The number of a boundary as a muter."""
        return self.boundary_names[boundary]

    def is_link(self, up: int, down: int) -> bool:
        """Is the first node a boundary, with its link to the second one?"""
        return (up, down) in self.links

    def is_behind_links(self, node: int) -> bool:
        """Is each hop to this node a link?"""
        return all(self.is_link(*pair) for pair in self.pairs if pair[1] == node)

    @cached_property
    def boundary_names(self) -> dict[int, int]:
        """The number of each boundary as a muter."""
        return {up: down for up, down in self.pairs if down <= self.boundaries}

    @cached_property
    def links(self) -> tuple[tuple[int, int], ...]:
        """Each boundary, and the node downstream of its link."""
        return tuple(pair for pair in self.pairs if pair[0] in self.boundary_names and pair[1] > self.boundaries)

    @cached_property
    def real_sinks(self) -> range:
        """The sinks that are no boundaries."""
        return range(self.boundaries + 1, self.sinks + 1)


class State(NamedTuple):
    """The variables of the specification; node 1 of the specification is member 0 of a family."""

    sources: NamedFamily[Source]
    sinks: NamedFamily[Sink]
    heard: NamedFamily[NamedFamily[int]]
    signals: NamedFamily[NamedFamily[Queue[Signal]]]
    remade: int
    """Links that were lost."""
    spoken: NamedFamily[NamedFamily[NamedFamily[bool]]]
    """Of two nodes and a muter: does the first one know from the second one that there is this muter?"""
    noted: NamedFamily[NamedFamily[int]]
    """Of each source: the newest epoch of each muter that it has ever heard; nothing depends on it."""


GONE = -1
"""In place of an epoch: the muter is gone."""

WELCOME = Signal(0, 0)
"""At the end of all that is told on a new link."""

BROKEN = Signal(0, GONE)
"""At the end of all that still comes over a link that is lost."""


class Word(NamedTuple):
    """What signals say of one muter, together."""

    is_gone: int = 0
    """Does one say that it is gone?  A number, so that words add up: 0 or 1."""
    newest: int = 0
    """The newest epoch of those behind the last one that it is gone; 0 if there is none."""

    def then(self, behind: "Word") -> "Word":
        """What they say together with those behind them."""
        return behind if behind.is_gone else Word(self.is_gone, larger(self.newest, behind.newest))


class Line(NamedTuple):
    """How often signals say that a link is lost, and that all is told on a new one."""

    losses: int = 0
    welcomes: int = 0
    late: int = 0
    """Those welcomes that come behind a loss."""

    def then(self, behind: "Line") -> "Line":
        """... together with those behind them."""
        late = behind.welcomes if self.losses else behind.late
        return Line(self.losses + behind.losses, self.welcomes + behind.welcomes, self.late + late)


NO_WORD, NO_LINE = Word(), Line()


def word_of(signal: Signal, muter: int) -> Word:
    """What a signal says of a muter."""
    if signal.muter != muter:
        return NO_WORD
    return Word(is_gone=1) if signal.epoch == GONE else Word(newest=signal.epoch)


def line_of(signal: Signal) -> Line:
    """Whether a signal is one of the two."""
    if signal.muter != 0:
        return NO_LINE
    return Line(losses=1) if signal.epoch == GONE else Line(welcomes=1)


def word_on(state: State, up: int, down: int, muter: int) -> Word:
    """What the signals in flight on a hop say of a muter."""
    return in_flight(graph_in(state), up, down).sum_of(word_of, Word.then, NO_WORD, muter)


def line_on(state: State, up: int, down: int) -> Line:
    """Likewise, of the link."""
    return in_flight(graph_in(state), up, down).sum_of(line_of, Line.then, NO_LINE)


def graph_in(state: State) -> mute.State:
    """The part that is a state of mute."""
    return mute.State(state.sources, state.sinks, state.heard, state.signals, state.remade)


def _with_graph(state: State, graph: mute.State) -> State:
    return State(*graph, spoken=state.spoken, noted=state.noted)


def _nothing(parameters: Parameters) -> NamedFamily[int]:
    return family_by_name(lambda _: 0, parameters.sinks)


def _nobody(parameters: Parameters) -> NamedFamily[NamedFamily[bool]]:
    return family_by_name(lambda _: family_by_name(lambda _: False, parameters.sinks), parameters.nodes)


def initial(parameters: Parameters) -> State:
    """Nobody mutes, and all links are there."""
    return State(
        *mute.initial(parameters),
        spoken=family_by_name(lambda _: _nobody(parameters), parameters.nodes),
        noted=family_by_name(lambda _: _nothing(parameters), parameters.sources),
    )


# Parts of a state, by the names of the specification.


def has_spoken(state: State, up: int, down: int, muter: int) -> bool:
    """Does a node know from another one that there is this muter?"""
    return state.spoken.get(up - 1).get(down - 1).get(muter - 1)


def noted_by(state: State, parameters: Parameters, node: int, muter: int) -> int:
    """The newest epoch of a muter that a source has ever heard."""
    return state.noted.get(node - parameters.sinks - parameters.relays - 1).get(muter - 1)


def is_gone(state: State, muter: int) -> bool:
    """Has a sink left, or died?"""
    return state.sinks.get(muter - 1).gone


def is_lost(state: State, parameters: Parameters, up: int, down: int) -> bool:
    """Has a boundary noticed that its link is lost, and nobody answered yet?"""
    return parameters.is_link(up, down) and is_closed(state, parameters, up) and line_on(state, up, down).welcomes == 0


def is_closed(state: State, parameters: Parameters, boundary: int) -> bool:
    """Does a boundary mute?"""
    muter = parameters.muter_of(boundary)
    return is_mute(heard_by(graph_in(state), muter, muter))


def is_broken(state: State, parameters: Parameters, up: int, down: int) -> bool:
    """Does nothing come over a hop: is it a link that is lost, whether that was noticed or not?"""
    return line_on(state, up, down).losses > 0 or is_lost(state, parameters, up, down)


def _turned(graph: mute.State, parameters: Parameters, node: int) -> mute.State:
    """A boundary mutes or unmutes."""
    muter = parameters.muter_of(node)
    epoch = heard_by(graph, muter, muter) + 1
    graph = with_heard(with_heard(graph, muter, muter, epoch), node, muter, epoch)
    return forwarded(graph, parameters, node, Signal(muter, epoch))


def forgotten(state: State, parameters: mute.Parameters, up: int, down: int, muters: Iterable[int]) -> State:
    """A node does not know from another one any more that there are these muters."""
    speakers = state.spoken.get(up - 1)
    graph = graph_in(state)
    for muter in muters:
        if has_spoken(state, up, down, muter) and speakers.every_by_name(_is_silent, down, muter):
            graph = with_heard(graph, up, muter, 0)
            graph = forwarded(graph, parameters, up, Signal(muter, GONE))
            if parameters.is_source(up):
                source = source_at(graph, parameters, up)
                graph = with_source(graph, parameters, up, source._replace(holds=source.holds.put(muter - 1, 0)))
    speaker = speakers.get(down - 1)
    for muter in muters:
        speaker = speaker.put(muter - 1, False)
    return _with_graph(state, graph)._replace(spoken=state.spoken.put(up - 1, speakers.put(down - 1, speaker)))


def _is_silent(name: int, speaker: NamedFamily[bool], down: int, muter: int) -> bool:
    """Does no node but this one speak of a muter?"""
    return name + 1 == down or not speaker.get(muter - 1)


def has_work(state: State, parameters: Parameters, node: int) -> bool:
    """Has a source something to send, and a sink for it?"""
    source = source_at(graph_in(state), parameters, node)
    return source.here and source.left > 0 and not state.sinks.every_by_name(_is_no_way, parameters, node)


def _is_no_way(name: int, sink: Sink, parameters: Parameters, node: int) -> bool:
    return sink.gone or name < parameters.boundaries or not parameters.leads(node, name + 1)


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
    graph = mute.join(graph_in(state), parameters, node)
    spoken = state.spoken.get(node - 1).map_by_name(_speaks, state, parameters, node)
    number = node - parameters.sinks - parameters.relays - 1
    return _with_graph(state, graph)._replace(
        spoken=state.spoken.put(node - 1, spoken), noted=state.noted.put(number, graph.heard.get(node - 1))
    )


def _speaks(
    name: int, speaker: NamedFamily[bool], state: State, parameters: Parameters, node: int
) -> NamedFamily[bool]:
    return speaker.map_by_name(_speaks_of, state, parameters, node, name + 1)


def _speaks_of(muter: int, _spoken: bool, state: State, parameters: Parameters, node: int, down: int) -> bool:
    return parameters.is_hop(node, down) and heard_by(graph_in(state), down, muter + 1) > 0


def leave(state: State, parameters: Parameters, node: int) -> State:
    """A source leaves: it hears no more."""
    require(parameters.leaves and parameters.is_source(node))
    source = source_at(graph_in(state), parameters, node)
    require(source.here)
    nothing = _nothing(parameters)
    graph = with_source(graph_in(state), parameters, node, source._replace(here=False, holds=nothing))
    silence: NamedFamily[Queue[Signal]] = family_by_name(lambda _: Fifo(), parameters.nodes)
    graph = graph._replace(heard=graph.heard.put(node - 1, nothing), signals=graph.signals.put(node - 1, silence))
    number = node - parameters.sinks - parameters.relays - 1
    return _with_graph(state, graph)._replace(
        spoken=state.spoken.put(node - 1, _nobody(parameters)), noted=state.noted.put(number, nothing)
    )


def dispose(state: State, parameters: Parameters, name: int) -> State:
    """A sink leaves; what was for it is dropped."""
    require(name > parameters.boundaries)
    return _with_graph(state, mute.dispose(graph_in(state), parameters, name))


def clear(state: State, parameters: Parameters, name: int) -> State:
    """A sink drops its queue."""
    return _with_graph(state, mute.clear(graph_in(state), parameters, name))


def lose_link(state: State, parameters: Parameters, up: int, down: int) -> State:
    """A link is lost, with what was in flight on it."""
    require(state.remade < parameters.remakes)
    require(parameters.is_link(up, down))
    require(not is_lost(state, parameters, up, down))
    graph = with_signals(graph_in(state), up, down, Fifo((BROKEN,)))
    return _with_graph(state, graph._replace(remade=state.remade + 1))


def lose_sink(state: State, parameters: Parameters, name: int) -> State:
    """A sink dies with its process; what was for it is dropped, and what it has told may still come."""
    require(parameters.deaths and parameters.boundaries < name <= parameters.sinks)
    require(not is_gone(state, name))
    require(parameters.is_behind_links(name))
    graph = graph_in(state)
    graph = graph._replace(sinks=graph.sinks.put(name - 1, Sink(gone=True, wire=0, inbox=0)))
    return _with_graph(state, forwarded(with_heard(graph, name, name, 0), parameters, name, BROKEN))


def send(state: State, parameters: Parameters, node: int, name: int) -> State:
    """A source that is not muted reads a message, and sends it to a sink."""
    require(name > parameters.boundaries)
    return _with_graph(state, mute.send(graph_in(state), parameters, node, name))


def deliver(state: State, parameters: Parameters, name: int) -> State:
    """A message arrives in the queue of a sink."""
    return _with_graph(state, mute.deliver(graph_in(state), parameters, name))


def consume(state: State, parameters: Parameters, name: int) -> State:
    """A sink consumes a message."""
    return _with_graph(state, mute.consume(graph_in(state), parameters, name))


def receive_signal(state: State, parameters: Parameters, up: int, down: int) -> State:
    """A signal arrives at a node; a relay hands on what is news to it."""
    signals = in_flight(graph_in(state), up, down)
    require(not signals.is_empty())
    require(not is_lost(state, parameters, up, down))
    signal = signals.head()
    require(signal.muter != 0)
    if signal.epoch == GONE:
        graph = with_signals(graph_in(state), up, down, signals.without_head())
        return forgotten(_with_graph(state, graph), parameters, up, down, (signal.muter,))
    state = _with_graph(state, mute.receive_signal(graph_in(state), parameters, up, down))
    speakers = state.spoken.get(up - 1)
    speaker = speakers.get(down - 1).put(signal.muter - 1, True)
    state = state._replace(spoken=state.spoken.put(up - 1, speakers.put(down - 1, speaker)))
    if not parameters.is_source(up):
        return state
    number = up - parameters.sinks - parameters.relays - 1
    noted = state.noted.get(number)
    newest = larger(noted.get(signal.muter - 1), signal.epoch)
    return state._replace(noted=state.noted.put(number, noted.put(signal.muter - 1, newest)))


def notice_loss(state: State, parameters: Parameters, up: int, down: int) -> State:
    """A boundary notices that its link is lost, and mutes."""
    signals = in_flight(graph_in(state), up, down)
    require(not signals.is_empty())
    require(signals.head() == BROKEN)
    require(not is_lost(state, parameters, up, down))
    return _with_graph(state, _turned(with_signals(graph_in(state), up, down, Fifo()), parameters, up))


def reconnect(state: State, parameters: Parameters, up: int, down: int) -> State:
    """A link is made anew: what was heard over the lost one does not hold any more, and what holds now is told."""
    require(is_lost(state, parameters, up, down))
    graph = graph_in(state)
    graph = with_signals(graph, up, down, newest_signals(graph, down).push(WELCOME))
    return forgotten(_with_graph(state, graph), parameters, up, down, parameters.muters)


def open_link(state: State, parameters: Parameters, up: int, down: int) -> State:
    """All is told: the boundary unmutes."""
    signals = in_flight(graph_in(state), up, down)
    require(not signals.is_empty())
    require(signals.head() == WELCOME)
    return _with_graph(state, _turned(with_signals(graph_in(state), up, down, signals.without_head()), parameters, up))


# Invariants.


def type_ok(state: State, parameters: Parameters) -> bool:
    """Every variable is in its range."""
    every_source = product(parameters.source_names, parameters.muters)
    return mute.type_ok(graph_in(state), parameters) and all(
        source_at(graph_in(state), parameters, node).holds.get(muter - 1) <= 1 for node, muter in every_source
    )


def marks(state: State, parameters: Parameters) -> bool:
    """A sink mutes above its high mark, and unmutes at its low mark."""
    return all(
        is_gone(state, name) or is_marked(state.sinks.get(name - 1), heard_by(graph_in(state), name, name), parameters)
        for name in parameters.real_sinks
    )


def in_order(state: State, parameters: Parameters) -> bool:
    """No node has heard more of a muter than that has told."""
    return all(
        is_gone(state, muter) or mute.was_told(graph_in(state), node, muter)
        for node, muter in product(parameters.names, parameters.muters)
    )


def _working_hops(state: State, parameters: Parameters) -> Iterable[tuple[int, int]]:
    return (hop for hop in parameters.pairs if not is_broken(state, parameters, *hop))


def on_its_way(state: State, parameters: Parameters) -> bool:
    """What a node has heard, the node upstream has heard, too, or it is on its way."""
    return all(
        is_told(state, up, down, muter)
        for (up, down), muter in product(_working_hops(state, parameters), parameters.muters)
        if is_here(graph_in(state), parameters, up)
    )


def is_told(state: State, up: int, down: int, muter: int) -> bool:
    """Does the node upstream of a hop know, or get to know, what the node downstream has heard?"""
    word = word_on(state, up, down, muter)
    known = 0 if word.is_gone else heard_by(graph_in(state), up, muter)
    return larger(known, word.newest) >= heard_by(graph_in(state), down, muter)


def speakers_know(state: State, parameters: Parameters) -> bool:
    """Who speaks of a muter knows it, or it is on its way that it is gone."""
    return all(
        knows_or_says(state, up, down, muter)
        for (up, down), muter in product(_working_hops(state, parameters), parameters.muters)
    )


def knows_or_says(state: State, up: int, down: int, muter: int) -> bool:
    """Does a node know a muter of which it speaks to another one, or will it have said that it is gone?"""
    word = word_on(state, up, down, muter)
    speaks = word.newest > 0 or (not word.is_gone and has_spoken(state, up, down, muter))
    return not speaks or heard_by(graph_in(state), down, muter) > 0


def known_from_speakers(state: State, parameters: Parameters) -> bool:
    """A node knows a muter only as long as a node downstream speaks of it."""
    return all(
        heard_by(graph_in(state), node, muter) == 0
        or (muter <= parameters.boundaries and parameters.is_hop(node, muter))
        or any(has_spoken(state, node, down, muter) for down in parameters.names)
        for node, muter in product(parameters.names, parameters.muters)
        if node > parameters.sinks
    )


def _holding(state: State, parameters: Parameters) -> Iterable[tuple[Source, int]]:
    """Each source with each muter that mutes and of whose mute it has heard."""
    for node, muter in product(parameters.source_names, parameters.muters):
        source, epoch = source_at(graph_in(state), parameters, node), heard_by(graph_in(state), muter, muter)
        is_muting = is_mute(epoch) and not is_gone(state, muter)
        if source.here and is_muting and noted_by(state, parameters, node, muter) == epoch:
            yield source, muter


def held_throughout(state: State, parameters: Parameters) -> bool:
    """A source that has heard that a muter mutes does not read before that unmutes or dies, whatever is lost."""
    return all(is_muted(source) for source, _ in _holding(state, parameters))


def settled(state: State, parameters: Parameters) -> bool:
    """When nothing is in flight and no link is lost, each source is held by the muters that mute, none of them dead."""
    for hop in parameters.pairs:
        if not in_flight(graph_in(state), *hop).is_empty() or is_lost(state, parameters, *hop):
            return True
    return all(
        is_settled(state, parameters, node, muter)
        for node in parameters.source_names
        if source_at(graph_in(state), parameters, node).here
        for muter in parameters.reached[node]
    )


def is_settled(state: State, parameters: Parameters, node: int, muter: int) -> bool:
    """Does a muter hold a source if it mutes and is not gone, and only then?"""
    is_held = source_at(graph_in(state), parameters, node).holds.get(muter - 1) > 0
    return is_held == (not is_gone(state, muter) and is_mute(heard_by(graph_in(state), muter, muter)))


# Probes.


def _held_by_itself(state: State, parameters: Parameters) -> bool:
    return all(source.holds.get(muter - 1) > 0 for source, muter in _holding(state, parameters))


def _not_held_by_the_dead(state: State, parameters: Parameters) -> bool:
    return not any(
        is_gone(state, muter) and source_at(graph_in(state), parameters, node).holds.get(muter - 1) > 0
        for node, muter in product(parameters.source_names, parameters.muters)
    )


def _names(parameters: Parameters) -> Iterable[tuple[int]]:
    return ((node,) for node in parameters.source_names)


def _sinks(parameters: Parameters) -> Iterable[tuple[int]]:
    return ((name,) for name in parameters.real_sinks)


def _ways(parameters: Parameters) -> Iterable[tuple[int, int]]:
    return product(parameters.source_names, parameters.real_sinks)


def _pairs(parameters: Parameters) -> Iterable[tuple[int, int]]:
    return parameters.pairs


def _links(parameters: Parameters) -> Iterable[tuple[int, int]]:
    return parameters.links


SYSTEM: System[State, Parameters] = System(
    module="MuteLinks",
    initial=initial,
    actions=(
        Action("Done", done, is_environment=True),
        Action("Join", join, _names, is_environment=True),
        Action("Leave", leave, _names, is_environment=True),
        Action("Dispose", dispose, _sinks, is_environment=True),
        Action("Clear", clear, _sinks, is_environment=True),
        Action("LoseLink", lose_link, _links, is_environment=True),
        Action("LoseSink", lose_sink, _sinks, is_environment=True),
        Action("Send", send, _ways),
        Action("Deliver", deliver, _sinks),
        Action("Consume", consume, _sinks),
        Action("ReceiveSignal", receive_signal, _pairs),
        Action("NoticeLoss", notice_loss, _links),
        Action("Reconnect", reconnect, _links),
        Action("OpenLink", open_link, _links),
    ),
    invariants={
        "TypeOK": type_ok,
        "Marks": marks,
        "InOrder": in_order,
        "OnItsWay": on_its_way,
        "SpeakersKnow": speakers_know,
        "KnownFromSpeakers": known_from_speakers,
        "HeldThroughout": held_throughout,
        "Settled": settled,
        "NeverStuck": lambda state, parameters: is_at_rest(state, parameters) or SYSTEM.can_step(state, parameters),
    },
    probes={"HeldByItselfProbe": _held_by_itself, "NotHeldByTheDeadProbe": _not_held_by_the_dead},
)

REGISTERED = Registered(system=SYSTEM, parameters=Parameters, theorems="permitflow_proofs.mute_links:theorems")

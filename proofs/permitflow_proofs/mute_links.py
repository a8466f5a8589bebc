"""Mute among processes, in any graph: no signal is lost with a link, and nobody stays held by a muter that is gone.

Nodes, hops and muters are looked at as in ``mute.py``, by symbolic names.  A boundary, its number as a muter, and the
node downstream of its link are what functions of each other say.

A node that forgets muters goes from one to the next.  Here it does so for the one that is looked at; that a turn for
another one changes nothing of that is a theorem of its own.

All clauses are kept together: what they look at is read once.  Not proved of any graph: that who is held is held
throughout (``HeldThroughout``), and that who is muted reads again (``Resumed``).
"""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple, cast

from permitflow_model.kernel.family import NamedFamily
from permitflow_model.kernel.queue import larger
from permitflow_model.mute import (
    Signal,
    Sink,
    Source,
    heard_by,
    holds_nothing,
    in_flight,
    is_here,
    is_marked,
    signal_of,
    source_at,
)
from permitflow_model.mute_links import (
    BROKEN,
    GONE,
    NO_LINE,
    NO_WORD,
    SYSTEM,
    WELCOME,
    Line,
    Parameters,
    State,
    Word,
    forgotten,
    graph_in,
    has_spoken,
    is_broken,
    is_gone,
    is_settled,
    is_told,
    knows_or_says,
    line_of,
    noted_by,
    word_of,
)
from permitflow_proofs import mute
from permitflow_proofs.kernel.arbitrary import any_parameters_of
from permitflow_proofs.kernel.chapter import Chapter, claim
from permitflow_proofs.kernel.indexed import Indexed, member_by_name, own
from permitflow_proofs.kernel.induction import Subject
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.queue import Law
from permitflow_proofs.kernel.queue_facts import law_obligations
from permitflow_proofs.kernel.symbols import (
    all_of,
    any_of,
    assume,
    equal,
    function,
    implies,
    integer,
    is_same,
    merged,
    natural,
    negated,
    operation,
    predicate,
    relation_of_three,
)
from permitflow_proofs.kernel.theorem import Theorem
from permitflow_proofs.mute import DOWN, MUTER, ONE, TWO, UP, AnyGraph, AnyHops

_muter_of, _boundary_of, _link_of = function("muter.of"), function("boundary.of"), function("link.of")
_is_behind_links = predicate("is.behind.links")


class _AnyLinks(AnyGraph, Parameters):
    """Parameters with any graph in which some relays are boundaries."""

    @property
    def muters(self) -> Any:
        """The one that is looked at."""
        return (MUTER,)

    def is_boundary(self, node: int) -> bool:
        """Any relays; ``_assume_links`` says how they, their numbers and their links agree."""
        return _muter_of(node) > 0

    def muter_of(self, boundary: int) -> int:
        """Its number as a muter; 0 if it is no boundary."""
        return _muter_of(boundary)

    def is_link(self, up: int, down: int) -> bool:
        """Any hop of a boundary but that to its number."""
        return all_of((self.is_boundary(up), self.is_hop(up, down), down > self.boundaries))

    def is_behind_links(self, node: int) -> bool:
        """Any set; ``_assume_links`` says of which."""
        return _is_behind_links(node)


def _is_of_boundary(parameters: Parameters) -> bool:
    """Is the muter that is looked at a boundary?"""
    return parameters.boundaries >= MUTER


def epoch_of(signal: Signal, muter: int) -> int:
    """The epoch of a signal if it is of this muter, and not that it is gone; else 0."""
    return signal.epoch if signal.muter == muter and signal.epoch > 0 else 0


class View(NamedTuple):
    """What is looked at of a state: two nodes, of which one may be upstream of the other, and the muter."""

    up: int
    down: int
    heard: int
    heard_below: int
    told: int
    """By the muter, of itself."""
    sink: Sink
    is_source: bool
    source: Source
    holds: int
    noted: int
    is_here: bool
    is_hop: bool
    is_link: bool
    is_spoken: bool
    is_silent: bool
    """Does no node at all speak of the muter to the node upstream?"""
    word: Word
    newest: int
    line: Line
    is_lawful: bool
    is_closed: bool
    """Does the boundary upstream mute?"""
    remade: int


def view_of(state: State, parameters: Parameters, up: int = ONE, down: int = TWO) -> View:
    """Each part is read once: what forks there does so once for all clauses."""
    graph = graph_in(state)
    signals, source = in_flight(graph, up, down), source_at(graph, parameters, up)
    is_source, number = parameters.is_source(up), parameters.muter_of(up)
    return View(
        up=up,
        down=down,
        heard=heard_by(graph, up, MUTER),
        heard_below=heard_by(graph, down, MUTER),
        told=heard_by(graph, MUTER, MUTER),
        sink=state.sinks.get(MUTER - 1),
        is_source=is_source,
        source=source,
        holds=source.holds.get(MUTER - 1),
        noted=noted_by(state, parameters, up, MUTER),
        is_here=any_of((negated(is_source), source.here)),
        is_hop=parameters.is_hop(up, down),
        is_link=parameters.is_link(up, down),
        is_spoken=has_spoken(state, up, down, MUTER),
        is_silent=_is_silent(state, up),
        word=signals.sum_of(word_of, Word.then, NO_WORD, MUTER),
        newest=signals.sum_of(epoch_of, larger, 0, MUTER),
        line=signals.sum_of(line_of, Line.then, NO_LINE),
        is_lawful=all_of((signals.every(_is_signal, MUTER), signals.every(_is_of_sink_or_line, parameters))),
        is_closed=equal(heard_by(graph, number, number) % 2, 1),
        remade=state.remade,
    )


def _is_silent(state: State, node: int) -> bool:
    speakers = state.spoken.get(node - 1)
    # At the start nobody speaks.
    return speakers.every_by_name(_says_nothing) if isinstance(speakers, Indexed) else True


def _says_nothing(_name: int, speaker: NamedFamily[bool]) -> bool:
    return negated(speaker.get(MUTER - 1))


def _is_signal(signal: Signal, muter: int) -> bool:
    """Epochs are numbers from 1 on, but for muters that are gone."""
    if signal.muter == 0:
        return any_of((equal(signal.epoch, GONE), equal(signal.epoch, 0)))
    return signal.muter != muter or any_of((equal(signal.epoch, GONE), signal.epoch > 0))


def _is_of_sink_or_line(signal: Signal, parameters: Parameters) -> bool:
    return all_of((signal.muter >= 0, signal.muter <= parameters.sinks))


# The clauses, which do not fork.


def _type_ok(view: View, parameters: Parameters) -> bool:
    """Only links tell of losses."""
    counts = (view.heard, view.sink.wire, view.sink.inbox, view.remade)
    has_left = all_of((view.source.left >= 0, view.source.left <= parameters.supply))
    is_line = any_of((view.is_link, equal(view.line, NO_LINE)))
    in_range = (*(count >= 0 for count in counts), view.remade <= parameters.remakes)
    return all_of((*in_range, implies(view.is_source, has_left), is_line, view.is_lawful))


def _marks(view: View, parameters: Parameters) -> bool:
    """A boundary never leaves, and has no messages."""
    sink, is_kept = view.sink, merged(partial(is_marked, view.sink, view.told, parameters))
    is_idle = all_of((negated(sink.gone), equal(sink.wire, 0), equal(sink.inbox, 0)))
    return any_of((all_of((_is_of_boundary(parameters), is_idle)), all_of((parameters.boundaries < MUTER, is_kept))))


def _in_order(view: View, _parameters: Parameters) -> bool:
    """Neither what a node has heard nor what is in flight is newer than what the muter has told, unless it is dead."""
    is_dead = all_of((view.sink.gone, equal(view.told, 0)))
    return any_of((is_dead, all_of((view.heard <= view.told, view.newest <= view.told))))


def _is_working(view: View) -> bool:
    """Is it a hop that is not broken?"""
    is_lost = all_of((view.is_link, view.is_closed, equal(view.line.welcomes, 0)))
    return all_of((view.is_hop, equal(view.line.losses, 0), negated(is_lost)))


def _on_its_way(view: View, parameters: Parameters) -> bool:
    """Of a muter of which the node downstream has not spoken, which may be forgotten, all is on its way."""
    is_own = all_of((_is_of_boundary(parameters), equal(view.down, MUTER)))  # on that hop nothing is told
    is_kept = all_of((equal(view.word.is_gone, 0), any_of((view.is_spoken, is_own))))
    is_heard = all_of((is_kept, view.heard >= view.heard_below))
    return implies(all_of((_is_working(view), view.is_here)), any_of((view.word.newest >= view.heard_below, is_heard)))


def _speakers_know(view: View, _parameters: Parameters) -> bool:
    is_last = all_of((equal(view.word.is_gone, 0), view.is_spoken))
    speaks = all_of((_is_working(view), any_of((view.word.newest > 0, is_last))))
    return implies(speaks, view.heard_below > 0)


def _known_from_speakers(view: View, parameters: Parameters) -> bool:
    is_own = all_of((_is_of_boundary(parameters), parameters.is_hop(view.up, MUTER)))
    return any_of((view.up <= parameters.sinks, equal(view.heard, 0), is_own, negated(view.is_silent)))


def _newest_holds(view: View, _parameters: Parameters) -> bool:
    return implies(view.is_source, equal(view.holds, view.heard % 2))


def _noted(view: View, _parameters: Parameters) -> bool:
    """A source has noted what it has heard, and nothing that was not told."""
    is_dead = all_of((view.sink.gone, equal(view.told, 0)))
    is_real = all_of((view.noted >= view.heard, any_of((is_dead, view.noted <= view.told))))
    return implies(view.is_source, is_real)


def _absent(view: View, _parameters: Parameters) -> bool:
    """A source that is not here has heard and noted nothing, and nothing is on its way to it."""
    is_deaf = all_of((equal(view.heard, 0), equal(view.noted, 0), negated(view.is_spoken), equal(view.word, NO_WORD)))
    return any_of((view.is_here, is_deaf))


def _may_speak(parameters: Parameters, node: int) -> bool:
    """May it tell of the muter?  Of sinks only the muter itself; of a boundary it, and nodes upstream of it."""
    is_boundary = _is_of_boundary(parameters)
    is_upstream = implies(is_boundary, node >= _boundary_of(MUTER))
    return any_of((all_of((node > parameters.sinks, is_upstream)), all_of((equal(node, MUTER), negated(is_boundary)))))


def _may_know(node: int, heard: int, parameters: Parameters) -> bool:
    """The muter itself knows, too, but it tells only if it is no boundary."""
    return implies(heard > 0, any_of((_may_speak(parameters, node), equal(node, MUTER))))


def _led(view: View, parameters: Parameters) -> bool:
    """Nodes hear only of muters downstream: so a boundary is never told of itself."""
    is_told = any_of((view.word.is_gone > 0, view.newest > 0, view.is_spoken))
    speaks = implies(is_told, _may_speak(parameters, view.down))
    return all_of((_may_know(view.up, view.heard, parameters), implies(view.is_spoken, view.is_hop), speaks))


def _welcomed(view: View, _parameters: Parameters) -> bool:
    """A link says welcome once, before it is lost again, and while its boundary mutes."""
    welcomes = view.line.welcomes
    is_once = any_of((equal(welcomes, 0), all_of((equal(welcomes, 1), view.is_closed))))
    return implies(view.is_link, all_of((is_once, equal(view.line.late, 0))))


CLAUSES: dict[str, Callable[[View, Parameters], bool]] = {
    "TypeOK": _type_ok,
    "Marks": _marks,
    "InOrder": _in_order,
    "OnItsWay": _on_its_way,
    "SpeakersKnow": _speakers_know,
    "KnownFromSpeakers": _known_from_speakers,
    "NewestHolds": _newest_holds,
    "Noted": _noted,
    "Absent": _absent,
    "Led": _led,
    "Welcomed": _welcomed,
}


def _holds(state: State, parameters: Parameters, up: int = ONE, down: int = TWO) -> bool:
    view = view_of(state, parameters, up, down)
    return all_of(clause(view, parameters) for clause in CLAUSES.values())


INVARIANT = {"Invariant": _holds}
"""What every reachable state satisfies, of any two nodes and any muter; proved by induction."""


def _newest_law(signals: Any) -> int:
    return cast(int, signals.sum_of(epoch_of, larger, 0, MUTER))


def _word_law(signals: Any) -> tuple[int, ...]:
    word = signals.sum_of(word_of, Word.then, NO_WORD, MUTER)
    return word.is_gone, 1 - word.is_gone, word.newest


def _line_law(signals: Any) -> tuple[int, ...]:
    return tuple(signals.sum_of(line_of, Line.then, NO_LINE))


_LAWS: tuple[Law, ...] = (_newest_law, _word_law, _line_law)


def any_parameters() -> Parameters:
    """Any parameters, in any graph."""
    return any_parameters_of(_AnyLinks, hops=AnyHops())


def any_state(parameters: Parameters) -> State:
    """Any state of any graph that satisfies the invariant."""
    for node in (UP, DOWN, ONE, TWO):
        assume(all_of((node >= 1, node <= parameters.nodes)))
    assume(all_of((MUTER >= 1, parameters.sinks >= MUTER)))
    sinks = Indexed.any_family(member_by_name(Sink, "sink."), parameters.sinks, MUTER - 1)
    sinks.measure_alone(epoch_of, lambda muter: muter - 1)
    sinks.measure_alone(word_of, lambda muter: muter - 1)
    sinks.measure_alone(line_of, lambda: None)
    up, down, one, two, _ = names = [node - 1 for node in (UP, DOWN, ONE, TWO, MUTER)]
    nodes = Indexed.any_family(partial(mute.row_of, sinks, operation(own("heard"))), parameters.nodes, *names)
    sources = Indexed.any_family(mute.source_by_name(sinks), parameters.sources)
    spoken = relation_of_three(own("spoken"))

    def speakers_of(up: int) -> Indexed[Any]:
        return nodes.beside(lambda down: sinks.beside(lambda of: spoken(up, down, of)))

    known = [(name, speakers_of(name)) for name in (up, one)]

    def met_of(up: int) -> Indexed[Any]:
        """The same ones when they are asked for again: what is known of them then is."""
        met = next((speakers for name, speakers in known if is_same(up, name)), None)
        return speakers_of(up) if met is None else met

    state = State(
        *mute.state_of(sources, sinks, nodes, ((up, down), (one, two)), _LAWS),
        spoken=cast(Any, nodes.beside(met_of)),
        noted=cast(Any, sources.beside(partial(mute.row_of, sinks, operation(own("noted"))))),
    )
    _assume_links(nodes, parameters)
    _assume_invariant(state, parameters)
    return state


def _assume_links(nodes: Indexed[Any], parameters: Parameters) -> None:
    """A boundary is a relay with two hops, to its number as a muter, and over its link; its number has one hop."""
    for up, down in ((UP, DOWN), (ONE, TWO)):
        muter = parameters.muter_of(up)
        assume(all_of((muter >= 0, muter <= parameters.boundaries)))
        is_one = all_of((equal(_boundary_of(muter), up), parameters.is_hop(up, muter), up <= parameters.nodes))
        assume(implies(parameters.is_boundary(up), all_of((is_one, negated(parameters.is_source(up))))))
        hop = parameters.is_hop(up, down)
        assume(implies(all_of((hop, down <= parameters.boundaries)), equal(muter, down)))
        has_two = any_of((equal(down, muter), equal(down, _link_of(up))))
        assume(implies(all_of((hop, parameters.is_boundary(up))), has_two))
        assume(implies(all_of((hop, parameters.is_behind_links(down))), parameters.is_link(up, down)))

    def has_its_boundary(name: int) -> bool:
        is_number = all_of((parameters.is_hop(UP, name + 1), name < parameters.boundaries))
        return implies(is_number, equal(_boundary_of(name + 1), UP))

    nodes.assume_every(has_its_boundary)
    boundary = _boundary_of(MUTER)
    is_there = all_of((parameters.is_hop(boundary, MUTER), equal(parameters.muter_of(boundary), MUTER)))
    assume(implies(_is_of_boundary(parameters), is_there))


def _assume_invariant(state: State, parameters: Parameters) -> None:
    nodes, told = cast("Indexed[NamedFamily[int]]", state.heard), heard_by(graph_in(state), MUTER, MUTER)
    is_dead = all_of((is_gone(state, MUTER), equal(told, 0)))

    def is_in_order(name: int) -> bool:
        heard = heard_by(graph_in(state), name + 1, MUTER)
        return all_of((heard >= 0, any_of((is_dead, heard <= told)), _may_know(name + 1, heard, parameters)))

    nodes.assume_every(is_in_order)
    assume(_holds(state, parameters, UP, DOWN))
    assume(_holds(state, parameters))


def _any_hop(parameters: Parameters) -> tuple[int, int]:
    assume(parameters.is_hop(UP, DOWN))
    bool(equal(parameters.muter_of(ONE), UP))  # asked once, before all clauses do: it is not
    return UP, DOWN


def _any_link(parameters: Parameters) -> tuple[int, int]:
    assume(parameters.is_link(UP, DOWN))
    return _any_hop(parameters)


def _any_sink(parameters: Parameters) -> tuple[int]:
    assume(parameters.boundaries < DOWN)
    return (DOWN,)


_ARGUMENTS: Mapping[str, Callable[[Parameters], tuple[int, ...]]] = {
    **dict.fromkeys(("LoseLink", "NoticeLoss", "Reconnect", "OpenLink"), _any_link),
    **dict.fromkeys(("Dispose", "Clear", "LoseSink", "Deliver", "Consume"), _any_sink),
    **dict.fromkeys(("Join", "Leave"), lambda _: (UP,)),
    "Send": lambda _: (UP, DOWN),
    "ReceiveSignal": _any_hop,
}


def _looked_at(state: State, parameters: Parameters) -> tuple[object, ...]:
    """Any node, any hop and any muter."""
    graph = graph_in(state)
    known = (heard_by(graph, ONE, MUTER), has_spoken(state, ONE, TWO, MUTER), in_flight(graph, ONE, TWO))
    source = source_at(graph, parameters, ONE)
    others = (state.sinks.get(MUTER - 1), state.remade, noted_by(state, parameters, ONE, MUTER))
    return (*known, *others, source.here, source.left, source.holds.get(MUTER - 1))


SUBJECT = Subject(SYSTEM, any_parameters, any_state, _ARGUMENTS, _looked_at)
"""Any graph."""

_CHAPTER = Chapter(
    SUBJECT,
    INVARIANT,
    "mute-links-",
    promises=frozenset({"no-lost-signal", "gone-is-told", "known-from-speakers", "settled", "live"}),
)


def _untold(state: State, _parameters: Parameters) -> State:
    graph = graph_in(state)
    return state._replace(heard=mute.with_heard(graph, TWO, heard_by(graph, TWO, MUTER) + 1).heard)


# What the invariant means, in the model's own words.


def _hop_has_told(more: int) -> bool:
    state, parameters = SUBJECT.any_case()
    assume(_is_working(view_of(state, parameters)))
    assume(merged(partial(is_here, graph_in(state), parameters, ONE)))
    return is_told(_untold(state, parameters) if more else state, ONE, TWO, MUTER)


def _speaker_knows(less: int) -> bool:
    state, parameters = SUBJECT.any_case()
    assume(_is_working(view_of(state, parameters)))
    graph = graph_in(state)
    less_known = state._replace(heard=mute.with_heard(graph, TWO, heard_by(graph, TWO, MUTER) - less).heard)
    return knows_or_says(less_known, ONE, TWO, MUTER)


def _one_speaks(of_sinks: int) -> bool:
    """The twin: a muter knows itself, though no other node has told it so."""
    state, parameters = SUBJECT.any_case()
    assume(all_of(((0 if of_sinks else parameters.sinks) < ONE, heard_by(graph_in(state), ONE, MUTER) > 0)))
    is_own = all_of((_is_of_boundary(parameters), parameters.is_hop(ONE, MUTER)))
    return any_of((is_own, negated(_is_silent(state, ONE))))


def _is_broken_as_told(wrong: int) -> bool:
    """What the clauses ask, without forks, and the model's word for it."""
    state, parameters = SUBJECT.any_case()
    assume(parameters.is_hop(ONE, TWO))
    is_working = _is_working(view_of(state, parameters)) if not wrong else parameters.is_hop(ONE, TWO)
    return negated(is_working) if is_broken(state, parameters, ONE, TWO) else is_working


# At rest.


def _lowest(state: State, holds: Callable[[int], bool]) -> Any:
    """The node furthest down for which this does not hold: it is ONE, if there is any."""
    nodes = cast("Indexed[Any]", state.heard)
    lowest = nodes.beside(lambda name: name).last_without(holds, lambda name: -name)
    assume(implies(lowest.exists, equal(lowest.name, ONE - 1)))
    return lowest


def _assume_quiet(state: State, parameters: Parameters) -> None:
    """Nothing is in flight on the hop that is looked at, and if it is a link, it is not lost."""
    view = view_of(state, parameters)
    assume(in_flight(graph_in(state), ONE, TWO).is_empty())
    assume(implies(view.is_link, negated(view.is_closed)))


def _quiet_case(loud: int) -> tuple[State, Parameters]:
    state, parameters = SUBJECT.any_case()
    nodes = cast("Indexed[Any]", state.heard)
    mute.assume_ways(nodes, parameters)
    for below in (TWO, MUTER):
        is_below = all_of((parameters.is_hop(ONE, below), parameters.leads(below, MUTER)))
        assume(implies(is_below, parameters.leads(ONE, MUTER)))
    assume(parameters.is_source(UP))
    assume(source_at(graph_in(state), parameters, UP).here)
    if not loud:
        _assume_quiet(state, parameters)
    return state, parameters


def _is_settled_if_told(loud: int) -> bool:
    """Nodes that lead to the muter have heard what it has told: the lowest that has not has a hop to one that has."""
    state, parameters = _quiet_case(loud)
    told = heard_by(graph_in(state), MUTER, MUTER)

    def has_heard(name: int) -> bool:
        is_led = all_of((parameters.leads(name + 1, MUTER), _is_node_here(state, parameters, name + 1)))
        return implies(is_led, equal(heard_by(graph_in(state), name + 1, MUTER), told))

    assume(implies(_lowest(state, has_heard).exists, equal(TWO, mute.via(ONE))))
    assume(all_of((told > 0, parameters.leads(UP, MUTER))))
    return is_settled(state, parameters, UP, MUTER)


def _is_node_here(state: State, parameters: Parameters, node: int) -> bool:
    return any_of((negated(parameters.is_source(node)), source_at(graph_in(state), parameters, node).here))


def _is_forgotten(loud: int) -> bool:
    """Of a muter that is dead nobody has heard: the lowest that has would have a hop to one that has, which speaks."""
    state, parameters = _quiet_case(loud)

    def has_not_heard(name: int) -> bool:
        return equal(heard_by(graph_in(state), name + 1, MUTER), 0)

    assume(implies(_lowest(state, has_not_heard).exists, any_of((_is_silent(state, ONE), _speaks(state)))))
    assume(equal(heard_by(graph_in(state), MUTER, MUTER), 0))
    return is_settled(state, parameters, UP, MUTER)


def _speaks(state: State) -> bool:
    return has_spoken(state, ONE, TWO, MUTER)


def _is_of_no_way(loud: int) -> bool:
    """Likewise, of a muter to which it does not lead."""
    state, parameters = _quiet_case(loud)

    def is_led(name: int) -> bool:
        is_unheard = equal(heard_by(graph_in(state), name + 1, MUTER), 0)
        return any_of((is_unheard, parameters.leads(name + 1, MUTER)))

    assume(implies(_lowest(state, is_led).exists, any_of((_is_silent(state, ONE), _speaks(state)))))
    assume(negated(parameters.leads(UP, MUTER)))
    return equal(source_at(graph_in(state), parameters, UP).holds.get(MUTER - 1), 0)


def _hop_can_move(other: int) -> bool:
    """Where something is in flight on a hop, or it is a link that is lost, something can happen on it."""
    state, parameters = SUBJECT.any_case()
    assume(parameters.is_hop(UP, DOWN))
    view = view_of(state, parameters, UP, DOWN)
    is_quiet = in_flight(graph_in(state), UP, DOWN).is_empty()
    assume(negated(all_of((is_quiet, implies(view.is_link, negated(view.is_closed))))))
    actions = ("ReceiveSignal", "NoticeLoss", "OpenLink") if other else _ON_HOPS
    return any(
        SYSTEM.is_enabled(action, state, parameters, UP, DOWN)
        for action in actions
        if action == "ReceiveSignal" or parameters.is_link(UP, DOWN)
    )


_ON_HOPS = ("ReceiveSignal", "NoticeLoss", "OpenLink", "Reconnect")


def _source_can_move(rests: int) -> bool:
    """Where nothing can happen on any hop, and so all is settled, a source with work sends, or its muter consumes."""
    state, parameters = SUBJECT.any_case()
    graph = graph_in(state)
    assume(all_of((parameters.is_source(UP), parameters.boundaries < DOWN, parameters.sinks >= DOWN)))
    source, sink = source_at(graph, parameters, UP), state.sinks.get(DOWN - 1)
    assume(all_of((source.here, source.left > 0, parameters.leads(UP, DOWN), negated(sink.gone))))
    muter = cast("Indexed[int]", source.holds).last_without(holds_nothing)
    assume(implies(muter.exists, equal(muter.name, MUTER - 1)))
    is_held = source.holds.get(MUTER - 1) > 0
    assume(implies(is_held, merged(partial(is_settled, state, parameters, UP, MUTER))))
    boundary = _boundary_of(MUTER)
    is_its_link = all_of((equal(ONE, boundary), equal(TWO, _link_of(boundary)), parameters.is_link(ONE, TWO)))
    assume(implies(_is_of_boundary(parameters), is_its_link))
    _assume_quiet(state, parameters)
    if not rests and SYSTEM.is_enabled("Send", state, parameters, UP, DOWN):
        return True
    return parameters.boundaries < MUTER and SYSTEM.is_enabled("Consume", state, parameters, MUTER)


def _other_muter(parameters: Parameters, *, may_be_this: bool = False) -> int:
    other = integer("other")
    assume(all_of((other >= 1, other <= parameters.sinks, may_be_this or negated(equal(other, MUTER)))))
    return other


def _are_same(one: View, two: View) -> bool:
    """All but what no node that forgets touches: the sink, and what a source has left."""
    numbers = ("heard", "heard_below", "told", "holds", "noted", "word", "newest", "line", "remade")
    truths = ("is_here", "is_spoken", "is_silent", "is_lawful", "is_closed")
    are_equal = (equal(getattr(one, part), getattr(two, part)) for part in numbers)
    return all_of((*are_equal, *(getattr(one, part) == getattr(two, part) for part in truths)))


def _forgets_others_apart(wrong: int) -> bool:
    """A node that forgets muters goes from one to the next: a turn for another one changes nothing of this one."""
    state, parameters = SUBJECT.any_case()
    assume(parameters.is_hop(UP, DOWN))
    after = forgotten(state, parameters, UP, DOWN, (_other_muter(parameters, may_be_this=bool(wrong)),))
    return _are_same(view_of(state, parameters), view_of(after, parameters))


def _forgets_one_after_another(wrong: int) -> bool:
    """... and this one has its turn, too."""
    state, parameters = SUBJECT.any_case()
    assume(parameters.is_hop(UP, DOWN))
    forget = partial(forgotten, state, parameters, UP, DOWN)
    alone, after = forget((MUTER,)), forget((_other_muter(parameters), *(() if wrong else (MUTER,))))
    return _are_same(view_of(alone, parameters), view_of(after, parameters))


def _may_leave(before: State, _after: State, parameters: Parameters) -> bool:
    return all_of((parameters.leaves, source_at(graph_in(before), parameters, UP).here))


def _may_die(before: State, _after: State, parameters: Parameters) -> bool:
    return all_of((parameters.deaths, parameters.sinks >= DOWN, negated(is_gone(before, DOWN))))


def _is_not_lost(before: State, _after: State, parameters: Parameters) -> bool:
    view = view_of(before, parameters, UP, DOWN)
    return any_of((negated(view.is_link), negated(view.is_closed), view.line.welcomes > 0))


def _guards() -> tuple[SymbolicObligation, ...]:
    def opposite(relation: Callable[[State, State, Parameters], bool]) -> Callable[[State, State, Parameters], bool]:
        return lambda *step: negated(relation(*step))

    rules: tuple[tuple[tuple[str, ...], Callable[[State, State, Parameters], bool]], ...] = (
        (("Leave",), _may_leave),
        (("LoseSink",), _may_die),
        (("LoseLink", "ReceiveSignal", "NoticeLoss"), _is_not_lost),
        (("LoseLink",), lambda before, after, _parameters: equal(after.remade, before.remade + 1)),
        (("Reconnect",), lambda _before, after, parameters: _is_not_lost(after, after, parameters)),
        (("OpenLink",), lambda _before, after, parameters: negated(view_of(after, parameters, UP, DOWN).is_closed)),
    )
    return tuple(
        made
        for actions, relation in rules
        for made in SUBJECT.step_obligations(actions, relation, opposite(relation), "only where it may not")
    )


def _laws() -> tuple[SymbolicObligation, ...]:
    def lawful() -> Signal:
        signal = mute.any_signal("signal")
        assume(merged(partial(_is_signal, signal, MUTER)))
        return signal

    def is_alone(wrong: int) -> bool:
        """Of what a node tells anew only the signal of one member says anything of this muter, and none of a link."""
        name = natural("name")
        signal = signal_of(name, integer("epoch"))
        if signal is None:
            return True
        is_its = not wrong and equal(name, MUTER - 1)
        says_nothing = all_of((equal(word_of(signal, MUTER), NO_WORD), equal(epoch_of(signal, MUTER), 0)))
        return all_of((any_of((is_its, says_nothing)), equal(line_of(signal), NO_LINE)))

    def tells_apart(wrong: int) -> bool:
        loss, welcome = (BROKEN, WELCOME) if not wrong else (WELCOME, BROKEN)
        return all_of((equal(line_of(loss), Line(losses=1)), equal(line_of(welcome), Line(welcomes=1))))

    names = ("newest epoch", "word", "link")
    return (
        *(made for name, law in zip(names, _LAWS, strict=True) for made in law_obligations(name, law, lawful)),
        claim("a loss and a welcome", tells_apart, "the other way round"),
        claim("others say nothing", is_alone, "it may be of the muter"),
    )


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    anyone = "any source and muter"
    return (
        _CHAPTER.theorem("laws", "OfMuter", "What signals say of a muter, or of a link, adds up.", *_laws()),
        _CHAPTER.theorem(
            "forget-frame",
            "Forget",
            "A node that forgets muters changes nothing of what is heard, spoken or in flight of another one.",
            claim("another muter", _forgets_others_apart, "or the same"),
            claim("another muter, then this one", _forgets_one_after_another, "not this one"),
        ),
        _CHAPTER.theorem(
            "guards",
            "IsLost",
            "Sources leave, and sinks die, once, and only where they may; a link that is lost is not lost again, and "
            "nothing comes over it until it is made anew; when all is told on it, its boundary mutes no more.",
            *_guards(),
        ),
        _CHAPTER.kept(
            "kept",
            "Invariant",
            "Every step keeps what the theorems below rest on, of any two nodes and any muter.",
            _untold,
            "after the step a node has heard more than it has told",
            about="Next",
        ),
        _CHAPTER.theorem(
            "no-lost-signal",
            "OnItsWay",
            "What a node has heard of a muter, the node upstream has heard, too, or it is on its way, unless the link "
            "between them is lost: no mute and no unmute is lost.",
            claim("any hop", _hop_has_told, "and one epoch more"),
            claim("any hop is broken or not", _is_broken_as_told, "none is"),
        ),
        _CHAPTER.theorem(
            "gone-is-told",
            "SpeakersKnow",
            "A node that has spoken of a muter knows it, or it is on its way that it is gone.",
            claim("any hop", _speaker_knows, "it knows an epoch less"),
        ),
        _CHAPTER.theorem(
            "known-from-speakers",
            "KnownFromSpeakers",
            "A relay or source knows a muter only as long as a node downstream speaks of it, unless it is that "
            "boundary itself.",
            claim("any node", _one_speaks, "sinks, too"),
        ),
        _CHAPTER.theorem(
            "settled",
            "Settled",
            "When nothing is in flight and no link is lost, each source is held by the muters that mute and to which "
            "it leads, over however many hops, ways and links, and by none that is gone.",
            claim(f"{anyone} that has told something", _is_settled_if_told, "something may be in flight"),
            claim(f"{anyone} that has told nothing, or is dead", _is_forgotten, "something may be in flight"),
            claim("a muter to which it does not lead", _is_of_no_way, "something may be in flight"),
        ),
        _CHAPTER.theorem(
            "live",
            "NeverStuck",
            "While a source has something to send, and leads to a sink that is there, some step of the protocol is "
            "possible.",
            claim("any hop", _hop_can_move, "nobody dials again"),
            claim("any source and sink", _source_can_move, "a source could send"),
        ),
    )

"""``MuteGraph`` refines ``Mute``, on one graph, for all epochs, backlogs and marks.

Two sinks, 1 and 2, and a relay, 3, that both lead to; a source, 4, behind the relay and behind sink 1: it hears of sink
1 over two paths.  On the hop that is looked at two signals are in flight.
"""

from functools import partial

from permitflow.errors import InvalidParametersError
from permitflow.mute import graph as core
from permitflow_model.kernel.family import family_by_name
from permitflow_model.kernel.queue import Fifo, Queue
from permitflow_model.mute import SYSTEM, Parameters, Signal, Sink, Source, State, heard_by, in_flight, is_mute
from permitflow_model.mute import is_muted as is_held
from permitflow_proofs.kernel.chapter import claim
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.paths import current_explorer
from permitflow_proofs.kernel.symbols import all_of, assume, equal, integer, natural, truth
from permitflow_proofs.kernel.theorem import Theorem

_SINKS, _SOURCE, _NODES = (1, 2), 4, (1, 2, 3, 4)
_HOPS = ((3, 1), (3, 2), (4, 1), (4, 3))
_PLAIN = Parameters(
    sinks=2,
    relays=1,
    sources=1,
    hops=frozenset(map(frozenset, _HOPS)),
    high=1,
    low=0,
    supply=1,
    newcomers=1,
    disposals=True,
    remakes=1,
)


def _any_marks() -> Parameters:
    def make() -> Parameters:
        made = object.__new__(Parameters)
        vars(made).update({**vars(_PLAIN), "high": natural("high"), "low": natural("low")})
        assume(made.low <= made.high)
        return made

    return current_explorer().about(make)


def _any_signal(name: str) -> Signal:
    muter = 1 if truth(f"{name}.is_of_1") else 2
    return Signal(muter, natural(f"{name}.epoch", 1))


def _any_state(*looked_at: int, busy: tuple[int, int] | None = None, here: bool = True) -> State:
    """Any epochs; only nodes that are looked at may have heard nothing; two signals are on the busy hop."""
    heard = {
        (node, sink): natural(f"heard.{node}.{sink}", 0 if node in looked_at else 1)
        for node in _NODES
        for sink in _SINKS
    }
    if not here:
        heard.update({(_SOURCE, sink): 0 for sink in _SINKS})
    both: Queue[Signal] = Fifo()
    for name in ("first", "second") if busy else ():
        both = both.push(_any_signal(name))

    def between(up: int, down: int) -> Queue[Signal]:
        return both if (up + 1, down + 1) == busy else Fifo()

    return State(
        sources=family_by_name(lambda _: _any_source(heard, here=here), 1),
        sinks=family_by_name(lambda name: Sink(False, 0, natural(f"inbox.{name + 1}")), 2),
        heard=family_by_name(lambda node: family_by_name(lambda sink: heard[node + 1, sink + 1], 2), 4),
        signals=family_by_name(lambda up: family_by_name(partial(between, up), 4), 4),
        remade=0,
    )


def _any_source(heard: dict[tuple[int, int], int], *, here: bool) -> Source:
    """It is held by those of whom it has heard an odd epoch."""
    return Source(here, natural("left"), family_by_name(lambda sink: heard[_SOURCE, sink + 1] % 2, 2))


def _graph(state: State, made: Parameters, *, without: int | None = None) -> core.MuteGraph:
    """The code's graph in this state; ``without``: a node that has no edges yet."""
    graph = core.MuteGraph()
    marks = object.__new__(core.Marks)
    for name, value in (("high_mark", made.high), ("low_mark", made.low)):
        object.__setattr__(marks, name, value)
    for sink in _SINKS:
        graph.add_muter(str(sink), marks)
    graph.add_relay("3")
    graph.add_source("4")
    graph.start("4")
    for up, down in _HOPS:
        if up != without:
            graph.connect(str(up), str(down))
    nodes, queues = vars(graph)["_nodes"], vars(graph)["_in_flight"]
    for node in _NODES:
        for sink in _SINKS:
            if heard_by(state, node, sink) > 0:
                nodes[str(node)].epochs[str(sink)] = heard_by(state, node, sink)
    for sink in _SINKS:
        nodes[str(sink)].backlog = state.sinks.get(sink - 1).inbox
    for edge, queue in queues.items():
        signals = in_flight(state, int(edge.upstream), int(edge.downstream))
        queue.extend(core.Signal(str(signal.muter), signal.epoch) for signal in signals)
    return graph


def _stands_for(graph: core.MuteGraph, state: State, wrong: int) -> bool:
    """Do all nodes know what they must, and is in flight what must be?"""
    for node in _NODES:
        known = graph.heard(str(node))
        if not all_of([equal(known.get(str(sink), 0), heard_by(state, node, sink) + wrong) for sink in _SINKS]):
            return False
    if graph.is_muted("4") != is_held(state.sources.get(0)):
        return False
    for up, down in _HOPS:
        found = graph.in_flight.get(core.Edge(str(up), str(down)), ())
        expected = list(in_flight(state, up, down))
        if [signal.muter for signal in found] != [str(signal.muter) for signal in expected]:
            return False
        if not all_of([equal(one.epoch, other.epoch) for one, other in zip(found, expected, strict=True)]):
            return False
    return True


def _reports(sink: int, wrong: int) -> bool:
    """A sink has so much to write: Consume looks at the same marks, with one message less."""
    made, before = _any_marks(), _any_state(sink)
    graph = _graph(before, made)
    backlog = natural("backlog")
    one_more = before.sinks.put(sink - 1, Sink(False, 0, backlog + 1))
    after = SYSTEM.perform("Consume", before._replace(sinks=one_more), made, sink)
    has_turned = graph.report(str(sink), backlog)
    is_turned = not equal(heard_by(after, sink, sink), heard_by(before, sink, sink))
    is_muting = graph.is_muting(str(sink)) == bool(is_mute(heard_by(after, sink, sink)))
    return has_turned == is_turned and is_muting and _stands_for(graph, after, wrong)


def _hears(hop: tuple[int, int], wrong: int) -> bool:
    """ReceiveSignal: what is news is kept, and handed on."""
    made, before = _any_marks(), _any_state(hop[0], busy=hop)
    graph = _graph(before, made)
    after = SYSTEM.perform("ReceiveSignal", before, made, *hop)
    graph.receive_signal(*map(str, hop))
    return _stands_for(graph, after, wrong)


def _leaves(sink: int, wrong: int) -> bool:
    """Dispose: it unmutes."""
    made, before = _any_marks(), _any_state(sink)
    graph = _graph(before, made)
    after = SYSTEM.perform("Dispose", before, made, sink)
    graph.dispose(str(sink))
    return _stands_for(graph, after, wrong)


def _joins(wrong: int) -> bool:
    """Join: a new source learns who mutes, from all that are downstream of it."""
    made, before = _any_marks(), _any_state(1, 3, here=False)
    graph = _graph(before, made, without=_SOURCE)
    after = SYSTEM.perform("Join", before, made, _SOURCE)
    for up, down in _HOPS:
        if up == _SOURCE:
            graph.connect(str(up), str(down))
    return _stands_for(graph, after, wrong)


def _is_made_anew(hop: tuple[int, int], wrong: int) -> bool:
    """Reconnect: what was in flight is lost, and what the other end knows is told again."""
    made, before = _any_marks(), _any_state(hop[1], busy=hop)
    graph = _graph(before, made)
    after = SYSTEM.perform("Reconnect", before, made, *hop)
    graph.reconnect(*map(str, hop))
    return _stands_for(graph, after, wrong)


def _accepts_marks(wrong: int) -> bool:
    """The marks that the model accepts, and no others."""
    high, low = integer("high"), integer("low")
    try:
        core.Marks(high_mark=high, low_mark=low)
    except InvalidParametersError:
        return bool(low < wrong) or bool(high < low)
    return bool(low >= 0) and bool(high >= low + wrong)


_MORE = "all have heard one epoch more"

OBLIGATIONS: tuple[SymbolicObligation, ...] = (
    *(claim(f"sink {sink} reports its backlog", partial(_reports, sink), _MORE) for sink in _SINKS),
    *(claim(f"node {hop[0]} hears node {hop[1]}", partial(_hears, hop), _MORE) for hop in _HOPS),
    *(claim(f"sink {sink} leaves", partial(_leaves, sink), _MORE) for sink in _SINKS),
    claim("the source joins", _joins, _MORE),
    *(
        claim(f"the connection of {hop[0]} and {hop[1]} is made anew", partial(_is_made_anew, hop), _MORE)
        for hop in _HOPS
    ),
    claim("marks are accepted", _accepts_marks, "equal ones are not"),
)


def theorems() -> tuple[Theorem, ...]:
    """The claims about one graph."""
    return (
        Theorem(
            id="code-mute-graph",
            statement=(
                "On a graph of two sinks, a relay and a source that hears one of them over two paths, the running "
                "MuteGraph does what its model does, for all epochs, backlogs and marks."
            ),
            module="Mute",
            operator="Next",
            obligations=OBLIGATIONS,
        ),
    )

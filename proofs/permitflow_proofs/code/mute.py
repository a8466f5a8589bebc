"""``MuteGraph`` refines ``Mute``, in any graph, and forgets muters as ``MuteLinks`` does.

Nodes and muters are symbols: the two ends of a hop at which something happens; any hop, of which it is asked what has
become of it; and any muter.  What a node knows, and who is its neighbour, are functions and relations of these names.

A loop over neighbours, or over muters, is walked for the one that is looked at, and for another one, before it or
behind it, which stands for all others: on their edges signals can be appended, and nothing can be read.  So a turn for
another one that changed what is looked at would be seen; and one that does not may be taken any number of times.
"""

import sys
from collections import deque
from collections.abc import Callable, Iterator
from copy import copy
from functools import partial
from typing import Any, Generic, TypeVar, cast

from permitflow.errors import InvalidParametersError
from permitflow.mute import graph as core
from permitflow_model import mute_links
from permitflow_model.kernel.queue import Fifo, larger
from permitflow_model.mute import (
    SYSTEM,
    Parameters,
    Signal,
    State,
    heard_by,
    in_flight,
    is_here,
    is_mute,
    is_muted,
    newest_of,
    source_at,
    with_signals,
)
from permitflow_proofs.code.batches import InvariantBroken, Rest, require_statement
from permitflow_proofs.code.refinement import attempt, put
from permitflow_proofs.code.stand_ins import Line, standing_in
from permitflow_proofs.kernel.chapter import claim
from permitflow_proofs.kernel.obligation import SymbolicObligation
from permitflow_proofs.kernel.symbols import (
    all_of,
    any_of,
    assume,
    equal,
    implies,
    integer,
    limit,
    merged,
    natural,
    negated,
    predicate,
    relation,
    truth,
)
from permitflow_proofs.kernel.theorem import Theorem
from permitflow_proofs.mute import DOWN, MUTER, ONE, SUBJECT, TWO, UP

T = TypeVar("T")

_MODULES = (core,)


def _is_another(one: int, other: int) -> bool:
    return negated(equal(one, other))


class _InTurn(Generic[T]):
    """The one that is looked at, if it is there, and another one before it or behind it, if there is one.

    A loop over them carries nothing from one turn to the next, but for the number of signals that were sent.
    """

    def __init__(self, one: list[T], another: list[T]) -> None:
        self._one, self._another = one, another

    def __iter__(self) -> Iterator[T]:
        require_statement(sys._getframe(1))
        return self.turns()

    def turns(self) -> Iterator[T]:
        """One after the other."""
        one, another = self._one, self._another
        rest = Rest(sys._getframe(1), ("self.signals",))
        for each in another + one if not (one and another) or truth("another.is_before") else one + another:
            yield each
            if rest.is_changed(sys._getframe(1)):
                raise InvariantBroken


# What stands in for the dicts of the code.


class _Known:
    """What a node knows: the newest epoch of each muter of which it has heard."""

    def __init__(self, state: State, made: Parameters, node: int) -> None:
        self._state, self._made, self._node = state, made, node
        self._written: list[tuple[int, int]] = []

    def __contains__(self, muter: int) -> bool:
        return self._of(muter) > 0

    def __getitem__(self, muter: int) -> int:
        if muter not in self:
            raise KeyError(muter)
        return self._of(muter)

    def __setitem__(self, muter: int, epoch: int) -> None:
        self._written.append((muter, epoch))

    def __delitem__(self, muter: int) -> None:
        self._written.append((muter, 0))

    def get(self, muter: int, nothing: int) -> int:
        """As a dict's."""
        epoch = self._of(muter)
        return (epoch > 0) * epoch + (epoch <= 0) * nothing

    def items(self) -> _InTurn[tuple[int, int]]:
        """The muter that is looked at, if it is known, and another one."""
        return _InTurn([(muter, self._of(muter)) for muter in (MUTER,) if muter in self], self._another())

    def _of(self, muter: int) -> int:
        heard = heard_by(self._state, self._node, muter)
        limit(heard >= 0)
        for written, epoch in self._written:
            heard = equal(written, muter) * epoch + _is_another(written, muter) * heard
        return heard

    def _another(self) -> list[tuple[int, int]]:
        muter = integer("another.muter")
        limit(all_of([muter >= 1, muter <= self._made.sinks, _is_another(muter, MUTER)]))
        if self._made.is_source(self._node):
            holds = source_at(self._state, self._made, self._node).holds
            holds.know(muter - 1)  # type: ignore[attr-defined]  # a family by symbolic names
            limit(equal(holds.get(muter - 1), self._of(muter) % 2))
        return [(muter, self._of(muter))] if muter in self else []


class _Speakers:
    """Which nodes downstream of a node have spoken of which muter: of one that they know themselves."""

    def __init__(self, state: State, number: int) -> None:
        self._state = state
        self._spoken = relation(f"spoken.{number}")
        self._added: list[tuple[int, int]] = []

    def setdefault(self, muter: int, _nobody: object) -> "_SpeakersOf":
        """As a dict's."""
        return _SpeakersOf(self, muter)

    def get(self, muter: int, _nobody: object) -> "_SpeakersOf":
        """As a dict's."""
        return _SpeakersOf(self, muter)

    def remove(self, _muter: int, _speaker: int) -> None:
        """None of those that know a muter are to be forgotten.

        Raises:
            InvariantBroken: always.
        """
        raise InvariantBroken

    def items(self) -> "Iterator[tuple[int, _SpeakersOf]]":
        """The muter that is looked at, and another one."""
        for muter in (MUTER, integer("another.muter")):
            yield muter, _SpeakersOf(self, muter)

    def add(self, muter: int, speaker: int) -> None:
        """One has spoken of it."""
        self._added.append((muter, speaker))

    def have(self, muter: int, speaker: int) -> bool:
        """Has one spoken of it?"""
        limit(implies(self._spoken(muter, speaker), heard_by(self._state, speaker, muter) > 0))
        added = (equal((muter, speaker), one) for one in self._added)
        return any_of([self._spoken(muter, speaker), *added])


class _SpeakersOf:
    def __init__(self, speakers: Any, muter: int) -> None:
        self._speakers, self._muter = speakers, muter

    def add(self, speaker: int) -> None:
        """As a set's."""
        self._speakers.add(self._muter, speaker)

    def __contains__(self, speaker: int) -> bool:
        return bool(self._speakers.have(self._muter, speaker))

    def discard(self, speaker: int) -> None:
        """As a set's."""
        self._speakers.remove(self._muter, speaker)

    def __bool__(self) -> bool:
        return bool(self._speakers.are_there(self._muter))


class _AllSpeakers(_Speakers):
    """Who has spoken to the node that hears, whatever they know now: for the code, and for the model."""

    def __init__(self, state: State, muter: int) -> None:
        """``muter``: one that the node knows if somebody has spoken of it, and only then."""
        super().__init__(state, 0)
        self._nodes = cast(Any, state.heard)
        self._removed: list[tuple[int, int]] = []
        known, speaker = heard_by(state, UP, muter) > 0, integer("speaker")
        self._nodes.know(speaker - 1)
        limit(implies(known, all_of([self._spoken(muter, speaker), speaker >= 1, speaker <= self._nodes.size()])))
        self._nodes.assume_every(lambda name: implies(self._spoken(muter, name + 1), known))

    def of_nodes(self) -> Any:
        """As a variable of the model."""
        muters: Any = self._state.sinks
        return self._nodes.beside(
            lambda _: self._nodes.beside(lambda down: muters.beside(lambda muter: self._spoken(muter + 1, down + 1)))
        )

    def items(self) -> "Iterator[tuple[int, _SpeakersOf]]":
        """The muter that is looked at, and another one."""
        another = integer("another.muter")
        limit(all_of([another >= 1, another <= cast(Any, self._state.sinks).size(), _is_another(another, MUTER)]))
        for muter in (MUTER, another):
            yield muter, _SpeakersOf(self, muter)

    def pop(self, muter: int, _nothing: None) -> None:
        """As a dict's: nobody is left."""

    def remove(self, muter: int, speaker: int) -> None:
        """One speaks of it no more."""
        self._removed.append((muter, speaker))

    def have(self, muter: int, speaker: int) -> bool:
        """Does one speak of it?"""
        is_removed = any_of([equal((muter, speaker), one) for one in self._removed])
        return all_of([self._spoken(muter, speaker), negated(is_removed)])

    def are_there(self, muter: int) -> bool:
        """Does anybody speak of it?"""
        is_nobody = self._nodes.every_by_name(lambda name, _: negated(self.have(muter, name + 1)))
        return not is_nobody


class _Neighbours:
    """The nodes on one side of a node: the one that is looked at, if it is there, and another one."""

    def __init__(self, is_one: Callable[[int], bool], looked_at: int) -> None:
        self._is_one, self._looked_at = is_one, looked_at
        self.added: list[int] = []
        self._removed: list[int] = []

    def __iter__(self) -> Iterator[int]:
        require_statement(sys._getframe(1))
        another = integer("another.node")
        limit(_is_another(another, self._looked_at))
        one, others = ([node] if node in self else [] for node in (self._looked_at, another))
        return _InTurn(one, others).turns()

    def __contains__(self, node: int) -> bool:
        if any(node == removed for removed in self._removed):
            return False
        return any(node == added for added in self.added) or self._is_one(node)

    def __setitem__(self, node: int, _nothing: None) -> None:
        self.added.append(node)

    def __delitem__(self, node: int) -> None:
        self._removed.append(node)


class _Elsewhere:
    """The signals on an edge that is not looked at."""

    def append(self, _signal: core.Signal) -> None:
        """Nobody asks for it."""

    def __bool__(self) -> bool:
        raise TypeError("signals on an edge that is not looked at cannot be read")


class _Signals(Line[Signal, core.Signal]):
    """The signals on an edge, any number of them."""

    def __init__(self, queue: Any) -> None:
        super().__init__(queue, _as_code, _as_model)

    def clear(self) -> None:
        """As a deque's."""
        self.queue = Fifo()


def _as_code(signal: Signal) -> core.Signal:
    limit(signal.epoch > 0)  # what is pushed says so, wherever it is looked at
    return core.Signal(*signal)  # type: ignore[arg-type]  # names are numbers here


def _as_model(signal: core.Signal) -> Signal:
    muter: Any = signal.muter
    return Signal(muter, signal.epoch)


class _Edges:
    """The signals on each edge; on those that are looked at they can be read."""

    def __init__(self, case: "_Case", pairs: tuple[tuple[int, int], ...]) -> None:
        self._case = case
        self._lines: list[tuple[tuple[int, int], Any]] = [
            (pair, _Signals(in_flight(case.before, *pair))) for pair in pairs if case.is_edge(*pair)
        ]

    def get(self, edge: tuple[int, int]) -> Any:
        """As a dict's."""
        for own, line in self._lines:
            if equal(own, edge):
                return line
        return _Elsewhere() if self._case.is_edge(*edge) else None

    def __contains__(self, edge: tuple[int, int]) -> bool:
        return self.get(edge) is not None

    def __getitem__(self, edge: tuple[int, int]) -> Any:
        return self.get(edge)

    def __setitem__(self, edge: tuple[int, int], line: "deque[core.Signal]") -> None:
        self._lines.insert(0, (edge, line))

    def __delitem__(self, edge: tuple[int, int]) -> None:
        self._lines.insert(0, (edge, None))


class _Nodes:
    """All nodes, each made when it is asked for."""

    def __init__(self, case: "_Case") -> None:
        self._case = case
        self._made: list[Any] = []
        self._removed: list[int] = []

    def __contains__(self, name: int) -> bool:
        is_there = not any(name == removed for removed in self._removed)
        return is_there and bool(all_of([name >= 1, name <= self._case.made.nodes]))

    def __delitem__(self, name: int) -> None:
        self._removed.append(name)

    def __getitem__(self, name: int) -> Any:
        for node in self._made:
            if node.name == name:
                return node
        node = self._case.node(name, len(self._made))
        self._made.append(node)
        return node


class _Case:
    """Any state, and the graph of the code that stands for it."""

    def __init__(self, before: State, made: Parameters, *pairs: tuple[int, int]) -> None:
        """``pairs``: of nodes, to look at the signals between them."""
        self.before, self.made = before, made
        self.nodes = _Nodes(self)
        self.edges = _Edges(self, pairs)
        self.graph = put(core.MuteGraph(), {"_nodes": self.nodes, "_in_flight": self.edges})

    def is_edge(self, up: int, down: int) -> bool:
        """Is there a hop, and is the node upstream here?"""
        is_there = merged(partial(is_here, self.before, self.made, up))
        return bool(all_of([self.made.is_hop(up, down), is_there]))

    def node(self, name: int, number: int) -> Any:
        """A node, as it is at first."""
        made = self.made
        node: Any = vars(core)["_Node"](name, is_source=made.is_source(name))
        node.upstreams = _Neighbours(lambda up: self.is_edge(up, name), ONE)
        node.downstreams = _Neighbours(lambda down: self.is_edge(name, down), TWO)
        node.epochs = _Known(self.before, made, name)
        node.heard_from = _Speakers(self.before, number)
        if name <= made.sinks:
            sink = self.before.sinks.get(name - 1)
            node.marks = core.Marks(high_mark=made.high, low_mark=made.low)
            node.backlog = sink.inbox
        return node

    def is_as_in(self, after: State, wrong: int) -> bool:
        """Is what is looked at as it must be?"""
        node = self.nodes[ONE]
        knows = merged(lambda: equal(node.epochs.get(MUTER, 0), heard_by(after, ONE, MUTER) + wrong))
        is_known = merged(lambda: heard_by(after, TWO, MUTER) > 0)
        line = self.edges.get((ONE, TWO))
        is_right = line is None or _agree(line, in_flight(after, ONE, TWO))
        return is_right and bool(all_of([knows, implies(node.heard_from.have(MUTER, TWO), is_known)]))


def _agree(line: Any, signals: Any) -> bool:
    """Are these signals on an edge?  If a node has told all that it knows, the order of the muters is its own."""
    if not isinstance(line, Line):
        return not line
    if not isinstance(line.queue, Fifo):
        told = all_of([signal.epoch > 0 for signal in line.queue.pushed])
        return bool(all_of([told, line.queue.is_surely(signals, equal)]))
    of_muter = [signal.epoch for signal in line.queue if signal.muter == MUTER]
    return (
        len(of_muter) <= 1
        and all(epoch > 0 for epoch in of_muter)
        and bool(equal(sum(of_muter), newest_of(signals, MUTER)))
    )


def _is_right(
    case: _Case,
    call: Callable[[Any], Any],
    after: State | None,
    wrong: int,
    returns: Callable[[Any], bool] = lambda _: True,
) -> bool:
    """Does the call what leads to this state, and return what it must?  Where none is given: is it refused?"""
    with standing_in(_MODULES):
        outcome = attempt(case.graph, call)
        if (outcome.refusal is None) != (after is not None):
            return False
        if after is None:
            return case.is_as_in(case.before, wrong)
        return returns(outcome.result) and case.is_as_in(after, wrong)


def _begins(wrong: int) -> bool:
    """Init: nodes that were just connected have heard nothing, and nothing is on its way to any."""
    made = SUBJECT.any_parameters()
    first = SYSTEM.initial(made)
    graph: Any = core.MuteGraph()
    graph.add_source("source")
    graph.start("source")
    graph.add_relay("relay")
    graph.add_muter("sink", core.Marks(high_mark=made.high, low_mark=made.low))
    for up, down in (("source", "relay"), ("relay", "sink")):
        graph.connect(up, down)
    nodes, edges = (vars(graph)[name].values() for name in ("_nodes", "_in_flight"))
    heard = [equal(sum(node.epochs.values()) + wrong, heard_by(first, UP, MUTER)) for node in nodes]
    waits = [equal(node.backlog, first.sinks.get(DOWN - 1).inbox) for node in nodes]
    return all_of([*heard, *waits]) and not any(edges) and not graph.is_muted("source")


def _is_sink(before: State, made: Parameters) -> bool:
    """Is it a sink?  One that has left reports nothing any more."""
    if made.sinks < DOWN:
        return False
    assume(negated(before.sinks.get(DOWN - 1).gone))
    return True


def _with_backlog(before: State, made: Parameters, backlog: int) -> State:
    """A sink has so much to write: Consume looks at the same marks, with one message less."""
    sink = before.sinks.get(DOWN - 1)._replace(inbox=backlog + 1)
    return SYSTEM.perform("Consume", before._replace(sinks=before.sinks.put(DOWN - 1, sink)), made, DOWN)


def _decides(case: _Case, call: Callable[[Any], Any], after: State | None, wrong: int, backlog: int) -> bool:
    """Does a sink turn as it must, say so, and remember its backlog?"""

    def returns(has_turned: bool) -> bool:
        assert after is not None
        is_turned = heard_by(after, DOWN, DOWN) > heard_by(case.before, DOWN, DOWN)
        return has_turned == bool(is_turned) and bool(equal(case.nodes[DOWN].backlog, backlog))

    return _is_right(case, call, after, wrong, returns)


def _reports(wrong: int) -> bool:
    before, made = SUBJECT.any_case()
    case, backlog = _Case(before, made, (ONE, TWO)), integer("backlog")
    after = _with_backlog(before, made, backlog) if _is_sink(before, made) and backlog >= 0 else None
    return _decides(case, lambda graph: graph.report(DOWN, backlog), after, wrong, backlog)


def _opens(wrong: int) -> bool:
    """One that is not connected mutes as one above its high mark; one that is, as it has reported."""
    before, made = SUBJECT.any_case()
    case, is_open, backlog = _Case(before, made, (ONE, TWO)), truth("is_open"), natural("backlog")
    case.nodes[DOWN].backlog = backlog
    after = None
    if _is_sink(before, made):
        after = _with_backlog(before, made, backlog if is_open else made.high + 1)
    return _decides(case, lambda graph: graph.set_open(DOWN, is_open), after, wrong, backlog)


def _leaves(wrong: int) -> bool:
    """Dispose: it reports for the last time, that nothing waits."""
    before, made = SUBJECT.any_case()
    assume(made.disposals)
    case = _Case(before, made, (ONE, TWO))
    after = SYSTEM.perform("Dispose", before, made, DOWN) if _is_sink(before, made) else None
    return _is_right(case, lambda graph: graph.report(DOWN, 0), after, wrong)


def _hears(wrong: int) -> bool:
    """ReceiveSignal: what is news is kept, and handed on."""
    before, made = SUBJECT.any_case()
    case = _Case(before, made, (UP, DOWN), (ONE, TWO))
    may = case.is_edge(UP, DOWN) and not in_flight(before, UP, DOWN).is_empty()
    after = SYSTEM.perform("ReceiveSignal", before, made, UP, DOWN) if may else None
    return _is_right(case, lambda graph: graph.receive_signal(UP, DOWN), after, wrong)


def _comes_from_elsewhere(wrong: int) -> bool:
    """A signal of another process is in flight, behind all others."""
    before, made = SUBJECT.any_case()
    case, signal = _Case(before, made, (UP, DOWN), (ONE, TWO)), Signal(MUTER, natural("epoch", 1))
    after = None
    if case.is_edge(UP, DOWN):
        after = with_signals(before, UP, DOWN, in_flight(before, UP, DOWN).push(signal))
    return _is_right(case, lambda graph: graph.receive(UP, DOWN, _as_code(signal)), after, wrong)


def _hears_of_the_gone(wrong: int) -> bool:
    """Forget of MuteLinks: of whom no other node downstream speaks, it forgets, and says so upstream."""
    before, made = SUBJECT.any_case()
    muter = integer("gone.muter")
    assume(all_of([muter >= 1, muter <= made.sinks, made.is_hop(UP, DOWN), merged(partial(is_here, before, made, UP))]))
    spoken = _AllSpeakers(before, muter)
    links = mute_links.State(*before, spoken=spoken.of_nodes(), noted=cast(Any, None))
    after = mute_links.forgotten(links, made, UP, DOWN, (muter,))
    case = _Case(before, made, (ONE, TWO))
    node = case.nodes[UP]
    node.heard_from = spoken
    gone = core.Signal(cast(Any, muter), core.GONE)
    with standing_in(_MODULES):
        vars(core.MuteGraph)["_take_note"](case.graph, node, DOWN, gone)
    left, one = mute_links.graph_in(after), case.nodes[ONE]
    knows = merged(lambda: equal(one.epochs.get(MUTER, 0), heard_by(left, ONE, MUTER) + wrong))
    speaks = spoken.have(MUTER, TWO) == merged(lambda: mute_links.has_spoken(after, UP, TWO, MUTER))
    line = case.edges.get((ONE, TWO))
    is_told = line is None or bool(line.queue.is_surely(in_flight(left, ONE, TWO), equal))
    return is_told and bool(all_of([knows, speaks]))


def _forgets_the_unspoken(wrong: int) -> bool:
    """Forget of MuteLinks, on a new connection: muters of which the other end does not know any more."""
    before, made = SUBJECT.any_case()
    assume(all_of([made.is_hop(UP, DOWN), merged(partial(is_here, before, made, UP))]))
    spoken = _AllSpeakers(before, MUTER)
    links = mute_links.State(*before, spoken=spoken.of_nodes(), noted=cast(Any, None))
    if not heard_by(before, DOWN, MUTER):
        links = mute_links.forgotten(links, made, UP, DOWN, (MUTER,))
    case = _Case(before, made, (UP, DOWN))
    case.nodes[UP].heard_from = spoken
    put(case.graph, {"_tell": lambda _edge: None})  # another claim is about what is told
    with standing_in(_MODULES):
        case.graph.reconnect(UP, DOWN)
    left, one = mute_links.graph_in(links), case.nodes[ONE]
    knows = merged(lambda: equal(one.epochs.get(MUTER, 0), heard_by(left, ONE, MUTER) + wrong))
    speaks = spoken.have(MUTER, TWO) == merged(lambda: mute_links.has_spoken(links, UP, TWO, MUTER))
    return bool(all_of([knows, speaks]))


class _Shown:
    """What ``settle`` has said of each source."""

    def pop(self, name: int, nothing: None) -> None:
        """As a dict's: nobody asks for it."""


def _is_removed(wrong: int) -> bool:
    """Leave of MuteLinks: a source is no node any more, nobody tells it anything, and all else is as it was."""
    before, made = SUBJECT.any_case()
    assume(all_of([made.is_source(UP), merged(partial(is_here, before, made, UP))]))
    case = _Case(before, made, (ONE, TWO))
    case.nodes[UP].upstreams = []  # no hop leads down to a source
    put(case.graph, {"_shown": _Shown()})
    with standing_in(_MODULES):
        case.graph.remove(UP)
        if UP in case.nodes:
            return False
        if equal(ONE, UP):
            return (ONE, TWO) not in case.edges and UP not in case.nodes[TWO].upstreams
        return case.is_as_in(before, wrong)


def _is_made_anew(wrong: int) -> bool:
    """Reconnect: what was in flight is lost, and what the other end knows is told again."""
    before, made = SUBJECT.any_case()
    assume(before.remade < made.remakes)
    assume(in_flight(before, UP, DOWN).size() > 0)
    case = _Case(before, made, (UP, DOWN), (ONE, TWO))
    after = SYSTEM.perform("Reconnect", before, made, UP, DOWN) if case.is_edge(UP, DOWN) else None
    return _is_right(case, lambda graph: graph.reconnect(UP, DOWN), after, wrong)


def _is_muted(wrong: int) -> bool:
    """A source is muted by those whose mutes hold it, and by nobody else."""
    state, made = SUBJECT.any_case()
    case = _Case(state, made)
    with standing_in(_MODULES):
        if not made.is_source(ONE):
            return attempt(case.graph, lambda graph: graph.is_muted(ONE)).refusal is not None
        source, is_held = source_at(state, made, ONE), case.graph.is_muted(ONE)
        by_one = MUTER in case.graph.muted_by(ONE)
        if by_one != bool(source.holds.get(MUTER - 1) + wrong > 0):
            return False
        return bool(is_held) if by_one else not is_held or is_muted(source)


def _is_muting(wrong: int) -> bool:
    """A muter mutes in odd epochs."""
    state, made = SUBJECT.any_case()
    case = _Case(state, made)
    with standing_in(_MODULES):
        outcome = attempt(case.graph, lambda graph: graph.is_muting(MUTER))
        return bool(outcome.result) == bool(is_mute(heard_by(state, MUTER, MUTER) + wrong))


def _with_hops(made: Parameters, is_hop: Callable[[int, int], bool]) -> Parameters:
    """The same parameters with other hops."""
    others = copy(made)
    vars(others)["is_hop"] = is_hop
    return others


def _any_hop_more() -> tuple[State, Parameters, Parameters]:
    """Any state, with a source that is connected over some of its hops; and with one hop more, down from it."""
    before, made = SUBJECT.any_case()
    is_connected = predicate("is_connected")
    assume(all_of([made.is_hop(UP, DOWN), made.sinks + made.relays < UP]))
    limit(negated(is_connected(DOWN)))

    def some(up: int, down: int) -> bool:
        return all_of([made.is_hop(up, down), implies(equal(up, UP), is_connected(down))])

    def one_more(up: int, down: int) -> bool:
        return any_of([some(up, down), equal((up, down), (UP, DOWN))])

    return before, _with_hops(made, some), _with_hops(made, one_more)


def _lower_ones(node: int) -> Iterator[int]:
    """In place of the walk down from a node: any node that has a smaller number."""
    lower = integer("below")
    limit(lower < node)
    yield lower


def _leads_down(wrong: int) -> bool:
    """The walk down from a node, if those from the nodes next to it come to smaller numbers only."""
    case = _Case(*SUBJECT.any_case())
    put(case.graph, {"_all_below": _lower_ones})
    with standing_in(_MODULES):
        return all(node + wrong < ONE for node in vars(core.MuteGraph)["_all_below"](case.graph, ONE))


_below = relation("below")
"""Is there a way down from the first of two nodes to the second one?"""


def _one_below(node: int) -> Iterator[int]:
    """In place of the walk down from a node: the node that is looked at, if it is below."""
    return iter([UP] if _below(node, UP) else [])


def _finds_all(wrong: int) -> bool:
    """The walk down from a node comes to each node next to it, and to each that the walk from there comes to."""
    case = _Case(*SUBJECT.any_case())
    put(case.graph, {"_all_below": _one_below})
    limit(merged(lambda: case.is_edge(ONE, TWO)))
    limit(any_of([equal(TWO, UP + wrong), _below(TWO, UP)]))
    with standing_in(_MODULES):
        return any(node == UP for node in vars(core.MuteGraph)["_all_below"](case.graph, ONE))


def _closes_a_cycle(wrong: int) -> bool:
    """An edge to a source, to the node itself or to one that leads to it, or one that is there, is refused."""
    before, made = SUBJECT.any_case()
    case = _Case(before, made, (ONE, TWO))
    put(case.graph, {"_all_below": _one_below})
    is_there = merged(lambda: case.is_edge(UP, DOWN))
    limit(any_of([is_there, made.is_source(DOWN), equal(UP, DOWN), _below(DOWN, UP)]))
    is_refused = _is_right(case, lambda graph: graph.connect(UP, DOWN), None, wrong)
    return is_refused and not (case.nodes[UP].downstreams.added or case.nodes[DOWN].upstreams.added)


def _connects(wrong: int) -> bool:
    """Over a new edge a source learns what the node downstream knows; nothing is left in flight."""
    before, made, _ = _any_hop_more()
    limit(merged(partial(is_here, before, made, UP)))
    case = _Case(before, made, (ONE, TWO))
    put(case.graph, {"_all_below": _lower_ones})
    newest = larger(heard_by(before, UP, MUTER), heard_by(before, DOWN, MUTER))
    after = before._replace(heard=before.heard.put(UP - 1, before.heard.get(UP - 1).put(MUTER - 1, newest)))

    def is_connected(_nothing: None) -> bool:
        return DOWN in case.nodes[UP].downstreams and UP in case.nodes[DOWN].upstreams and not case.edges[UP, DOWN]

    return _is_right(case, lambda graph: graph.connect(UP, DOWN), after, wrong, is_connected)


def _joins(wrong: int) -> bool:
    """Join over one hop more: what a source knows then is what it learns over one hop after the other."""
    before, some, one_more = _any_hop_more()
    over_some, over_more = (SYSTEM.perform("Join", before, hops, UP) for hops in (some, one_more))
    newest = larger(heard_by(over_some, UP, MUTER), heard_by(before, DOWN, MUTER))
    return bool(equal(heard_by(over_more, UP, MUTER), newest + wrong))


def _accepts_marks(wrong: int) -> bool:
    """The marks that the model accepts, and no others."""
    high, low = integer("high"), integer("low")
    try:
        core.Marks(high_mark=high, low_mark=low)
    except InvalidParametersError:
        return bool(low < wrong) or bool(high < low)
    return bool(low >= 0) and bool(high >= low + wrong)


def _claim(name: str, holds: Callable[[int], bool], twin_change: str) -> SymbolicObligation:
    """A claim that is false, too, where a loop, or who has spoken, is not as it must be."""

    def holds_throughout(wrong: int) -> bool:
        try:
            return holds(wrong)
        except InvariantBroken:
            return False

    return claim(name, holds_throughout, twin_change)


_MORE = "it has heard one epoch more"

OBLIGATIONS: tuple[SymbolicObligation, ...] = (
    _claim("a graph begins", _begins, _MORE),
    _claim("a sink reports its backlog", _reports, _MORE),
    _claim("a sink is connected, or not", _opens, _MORE),
    _claim("a node hears another one", _hears, _MORE),
    _claim("a node hears that a muter is gone", _hears_of_the_gone, _MORE),
    _claim("a signal comes from another process", _comes_from_elsewhere, _MORE),
    _claim("a source is removed", _is_removed, _MORE),
    _claim("a sink leaves", _leaves, _MORE),
    _claim("a source is connected to one node more", _connects, _MORE),
    _claim("a walk down comes to smaller numbers", _leads_down, "smaller by two"),
    _claim("a walk down finds each node below", _finds_all, "each next to one below"),
    _claim("an edge that closes a cycle is refused", _closes_a_cycle, _MORE),
    _claim("a source joins over one hop more", _joins, _MORE),
    _claim("a connection is made anew", _is_made_anew, _MORE),
    _claim("a new connection does not speak of the gone", _forgets_the_unspoken, _MORE),
    _claim("a source is muted, or not", _is_muted, "one mute more holds it"),
    _claim("a muter mutes, or not", _is_muting, "in even epochs"),
    _claim("marks are accepted", _accepts_marks, "equal ones are not"),
)


def theorems() -> tuple[Theorem, ...]:
    """The claims about any graph."""
    return (
        Theorem(
            id="code-mute-graph",
            statement=(
                "On any graph, the running MuteGraph does what its model does, for all epochs, backlogs and marks; a "
                "node that hears that a muter is gone does what MuteLinks says. A node that tells all that it knows, "
                "on a connection that is made anew, has its own order of the muters."
            ),
            module="Mute",
            operator="Next",
            obligations=OBLIGATIONS,
        ),
    )

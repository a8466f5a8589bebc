"""The model of muting leads ``MuteGraph`` through all its states, and through the runs of Wallaroo's tests."""

from dataclasses import replace

import pytest

from permitflow.mute import Edge, Marks, MuteGraph
from permitflow_model.kernel.family import Members
from permitflow_model.kernel.queue import Fifo
from permitflow_model.mute import (
    SYSTEM,
    Parameters,
    Signal,
    Sink,
    Source,
    State,
    heard_by,
    in_flight,
    is_muted,
    source_at,
)
from permitflow_testing import Divergence
from permitflow_testing.moves import Lockstep, require, walk


class DrivenGraph:
    """A graph of muters and sources; what it has no word on, the messages, is counted here."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.graph = MuteGraph()
        self.left = dict.fromkeys(parameters.source_names, parameters.supply)
        self.wire = dict.fromkeys(parameters.muters, 0)
        self.inbox = dict.fromkeys(parameters.muters, 0)
        self.gone: set[int] = set()
        self.here: set[int] = set()
        self.remade = 0
        for node in parameters.names:
            if node in parameters.muters:
                self.graph.add_muter(str(node), Marks(high_mark=parameters.high, low_mark=parameters.low))
            elif parameters.is_relay(node):
                self.graph.add_relay(str(node))
                self.connect(node)
            elif node <= parameters.nodes - parameters.newcomers:
                self.join(node)

    def graph_at(self, node: int) -> MuteGraph:
        """The graph of the node's process."""
        return self.graph

    def connect(self, node: int) -> None:
        for up, down in self.parameters.pairs:
            if up == node:
                self.graph_at(up).connect(str(up), str(down))

    # The environment.

    def done(self) -> None:
        sinks = {node: self.parameters.reached[node] - self.gone for node in self.here}
        require(not any(self.left[node] and sinks[node] for node in self.here))

    def join(self, node: int) -> None:
        self.graph_at(node).add_source(str(node))
        self.here.add(node)
        self.connect(node)
        self.graph_at(node).start(str(node))

    def dispose(self, sink: int) -> None:
        """It leaves: nothing waits for it any more, and that is its last report."""
        require(self.parameters.disposals and sink not in self.gone)
        self.gone.add(sink)
        self.wire[sink] = 0
        self.report(sink, 0)

    def clear(self, sink: int) -> None:
        require(self.parameters.clears and self.inbox[sink] > 0)
        self.report(sink, 0)

    def remake(self, up: int, down: int) -> Edge:
        edge = Edge(str(up), str(down))
        require(self.remade < self.parameters.remakes and edge in self.graph.in_flight)
        self.remade += 1
        return edge

    def reconnect(self, up: int, down: int) -> None:
        self.graph.reconnect(*self.remake(up, down))

    def duplicate_signal(self, up: int, down: int) -> None:
        edge = self.remake(up, down)
        self.graph.receive(*edge, self.graph.in_flight[edge][0])

    # The protocol.

    def send(self, node: int, sink: int) -> None:
        require(node in self.here and not self.graph_at(node).is_muted(str(node)))
        require(self.left[node] > 0 and sink not in self.gone)
        self.left[node] -= 1
        self.wire[sink] += 1

    def deliver(self, sink: int) -> None:
        require(self.wire[sink] > 0)
        self.wire[sink] -= 1
        self.report(sink, self.inbox[sink] + 1)

    def consume(self, sink: int) -> None:
        require(self.inbox[sink] > 0)
        self.report(sink, self.inbox[sink] - 1)

    def report(self, sink: int, messages: int) -> None:
        self.inbox[sink] = messages
        self.graph_at(sink).report(str(sink), messages)

    def receive_signal(self, up: int, down: int) -> None:
        self.graph.receive_signal(str(up), str(down))

    # What can be seen.

    def observe(self) -> State:
        parameters = self.parameters
        return State(
            sources=Members(self.source(node) for node in parameters.source_names),
            sinks=Members(
                Sink(gone=sink in self.gone, wire=self.wire[sink], inbox=self.inbox[sink]) for sink in parameters.muters
            ),
            heard=Members(self.heard(node) for node in parameters.names),
            signals=Members(Members(self.signals(up, down) for down in parameters.names) for up in parameters.names),
            remade=self.remade,
        )

    def source(self, node: int) -> Source:
        muters = self.graph_at(node).muted_by(str(node)) if node in self.here else ()
        holds = Members(int(str(sink) in muters) for sink in self.parameters.muters)
        return Source(here=node in self.here, left=self.left[node], holds=holds)

    def heard(self, node: int) -> Members[int]:
        is_known = node in self.here or not self.parameters.is_source(node)
        known = self.graph_at(node).heard(str(node)) if is_known else {}
        return Members(known.get(str(sink), 0) for sink in self.parameters.muters)

    def signals(self, up: int, down: int) -> Fifo[Signal]:
        in_flight = self.graph.in_flight.get(Edge(str(up), str(down)), ())
        return Fifo(Signal(int(signal.muter), signal.epoch) for signal in in_flight)


def hops(*pairs: tuple[int, int]) -> frozenset[frozenset[int]]:
    return frozenset(map(frozenset, pairs))


ONE_SINK = Parameters(
    sinks=1, relays=0, sources=1, hops=hops((1, 2)), high=2, low=1, supply=4, clears=True, disposals=True, remakes=1
)
TWO_PATHS = Parameters(
    sinks=1, relays=2, sources=1, hops=hops((1, 2), (1, 3), (2, 4), (3, 4)), high=0, low=0, supply=1, remakes=1
)
TWO_MUTERS = Parameters(sinks=2, relays=1, sources=1, hops=hops((1, 3), (2, 3), (3, 4)), high=0, low=0, supply=2)
LEAVING = Parameters(
    sinks=2,
    relays=0,
    sources=2,
    hops=hops((1, 3), (2, 3), (2, 4)),
    high=0,
    low=0,
    supply=1,
    newcomers=1,
    disposals=True,
)


@pytest.mark.parametrize("parameters", [ONE_SINK, TWO_PATHS, TWO_MUTERS, LEAVING])
def test_the_graph_takes_every_step_of_the_model_and_no_other(parameters: Parameters) -> None:
    done = walk(SYSTEM, DrivenGraph(parameters), parameters)
    assert min(done.states, done.edges, done.refusals) > 100


class LastWordGraph(DrivenGraph):
    """As published: of two signals the one that comes last counts."""

    def receive_signal(self, up: int, down: int) -> None:
        super().receive_signal(up, down)
        for node in self.graph._nodes.values():
            if node.is_source:
                node.epochs["1"] = 2


def test_a_graph_that_unmutes_early_is_found() -> None:
    with pytest.raises(Divergence, match="heard"):
        walk(SYSTEM, LastWordGraph(TWO_PATHS), TWO_PATHS)


# Runs, as in Wallaroo's tests: the model and the graph make them together.

TWO_SOURCES = Parameters(sinks=1, relays=0, sources=2, hops=hops((1, 2), (1, 3)), high=1, low=0, supply=9)
TWO_SINKS = Parameters(sinks=2, relays=0, sources=1, hops=hops((1, 3), (2, 3)), high=0, low=0, supply=9)


class Run(Lockstep[State, Parameters, DrivenGraph]):
    """A run of both."""

    def __init__(self, parameters: Parameters) -> None:
        super().__init__(SYSTEM, DrivenGraph(parameters), parameters)

    def flood(self, source: int, sink: int, messages: int) -> None:
        """Messages go from a source to a sink."""
        for _ in range(messages):
            self.do("Send", source, sink)
            self.do("Deliver", sink)

    def consume(self, sink: int, messages: int = 1) -> None:
        for _ in range(messages):
            self.do("Consume", sink)

    def settle(self) -> None:
        """All signals arrive."""
        while waiting := [pair for pair in self.parameters.pairs if self.signals(*pair)]:
            self.do("ReceiveSignal", *waiting[0])

    def signals(self, up: int, down: int) -> list[Signal]:
        return [*in_flight(self.state, up, down)]

    def is_muted(self, node: int) -> bool:
        """May this source not read, once all signals have arrived?"""
        self.settle()
        return is_muted(source_at(self.state, self.parameters, node))


def test_a_sink_mutes_each_upstream_once_and_unmutes_it_once() -> None:
    run = Run(TWO_SOURCES)
    run.flood(2, 1, 4)
    assert [run.signals(up, 1) for up in (2, 3)] == [[(1, 1)], [(1, 1)]]
    run.settle()
    run.consume(1, 4)
    assert [run.signals(up, 1) for up in (2, 3)] == [[(1, 2)], [(1, 2)]]


def test_a_sink_that_has_not_muted_does_not_unmute() -> None:
    run = Run(TWO_SOURCES)
    run.flood(2, 1, 1)
    run.consume(1)
    assert run.signals(2, 1) == []


def test_a_source_reads_when_all_its_muters_have_unmuted() -> None:
    run = Run(TWO_SINKS)
    for sink in (1, 2):
        run.do("Send", 3, sink)
    for sink in (1, 2):
        run.do("Deliver", sink)
    muted = [run.is_muted(3)]
    for sink in (1, 2):
        run.consume(sink)
        muted.append(run.is_muted(3))
    assert muted == [True, True, False]


def test_a_mute_that_comes_twice_is_ended_by_one_unmute() -> None:
    run = Run(replace(TWO_SINKS, remakes=1))
    run.flood(3, 1, 1)
    run.do("DuplicateSignal", 3, 1)
    run.settle()
    run.consume(1)
    assert not run.is_muted(3)


def test_a_relay_hands_on_a_muters_signal_once_over_many_paths() -> None:
    run = Run(TWO_PATHS)
    run.flood(4, 1, 1)
    run.settle()
    assert [heard_by(run.state, node, 1) for node in (2, 3, 4)] == [1, 1, 1]


def test_a_boundary_mutes_at_its_limit_and_unmutes_one_below() -> None:
    run = Run(replace(TWO_SINKS, high=5, low=5))
    run.flood(3, 1, 5)
    assert run.signals(3, 1) == []
    run.flood(3, 1, 1)
    assert run.signals(3, 1) == [(1, 1)]
    run.consume(1)
    assert run.signals(3, 1) == [(1, 1), (1, 2)]


def test_a_newcomer_is_muted_at_once() -> None:
    """A newcomer of Wallaroo is not."""
    run = Run(replace(TWO_SOURCES, newcomers=1))
    run.flood(2, 1, 2)
    run.settle()
    run.do("Join", 3)
    assert run.is_muted(3)
    run.consume(1, 2)
    assert not run.is_muted(3)


def test_a_gap_between_the_marks_saves_signals() -> None:
    """A sink that consumes when its source is muted: how many signals are there for sixty messages?"""
    signals = []
    for low in (0, 3):
        run = Run(replace(TWO_SINKS, high=3, low=low, supply=60))
        while source_at(run.state, run.parameters, 3).left:
            if run.is_muted(3):
                run.consume(1)
            else:
                run.flood(3, 1, 1)
        signals.append(heard_by(run.state, 1, 1))
        assert signals[-1] <= 1 + 2 * 60 // (run.parameters.high + 1 - low)
    assert signals[0] < signals[1]

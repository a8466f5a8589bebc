"""The model of muting among processes leads a ``MuteGraph`` in each process, and the links between them."""

from collections import defaultdict
from dataclasses import replace

import pytest

from permitflow.mute import Edge, Marks, MuteGraph
from permitflow.mute.graph import GONE
from permitflow.mute.graph import Signal as GraphSignal
from permitflow_model.kernel.family import Members
from permitflow_model.kernel.queue import Fifo
from permitflow_model.mute import Signal, Source
from permitflow_model.mute_links import BROKEN, SYSTEM, WELCOME, Parameters, State
from permitflow_testing import Divergence
from permitflow_testing.moves import require, walk
from tests.conformance.test_mute_graph import DrivenGraph, hops

Link = tuple[int, int]


class DrivenProcesses(DrivenGraph):
    """Processes with a graph each; what a boundary and an inlet do with their connection is done here."""

    parameters: Parameters

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.left = dict.fromkeys(parameters.source_names, parameters.supply)
        self.wire = dict.fromkeys(parameters.muters, 0)
        self.inbox = dict.fromkeys(parameters.muters, 0)
        self.gone: set[int] = set()
        self.here: set[int] = set()
        self.remade = 0
        self.graphs: dict[int, MuteGraph] = {}
        self.links: dict[Link, list[Signal]] = {link: [] for link in parameters.links}
        self.remotes: dict[Link, str] = {}
        self.spoken: defaultdict[Link, set[int]] = defaultdict(set)
        self.noted = {node: [0] * parameters.sinks for node in parameters.source_names}
        for node in parameters.names:
            self.add(node)

    # Processes and their nodes.

    def add(self, node: int) -> None:
        parameters = self.parameters
        if node <= parameters.boundaries:
            return
        if parameters.is_source(node):
            if node <= parameters.nodes - parameters.newcomers:
                self.join(node)
            return
        self.graphs[node] = graph = self.process_of(node)
        marks = Marks(high_mark=parameters.high, low_mark=parameters.low)
        if node <= parameters.sinks:
            graph.add_muter(str(node), marks)
        elif node in parameters.boundary_names:
            graph.add_muter(str(node), marks)
            graph.add_remote(f"{node} far end")
            graph.connect(str(node), f"{node} far end")
            self.dial((node, self.lower_end(node)))
        else:
            graph.add_relay(str(node))
            self.connect(node)

    def process_of(self, node: int) -> MuteGraph:
        """A boundary begins a process, as does a sink; another node is where what is downstream of it is."""
        below = [] if node in self.parameters.boundary_names else self.below(node)
        return self.graphs[below[0]] if below else MuteGraph()

    def below(self, node: int) -> list[int]:
        return [down for up, down in self.parameters.pairs if up == node]

    def lower_end(self, boundary: int) -> int:
        return next(down for up, down in self.links if up == boundary)

    def graph_at(self, node: int) -> MuteGraph:
        return self.graphs[self.below(node)[0]] if self.parameters.is_source(node) else self.graphs[node]

    def dial(self, link: Link) -> None:
        """The lower end gets a new connection, and tells all that it knows."""
        up, down = link
        graph, former = self.graphs[down], self.remotes.get(link)
        if former is not None and former in graph:
            graph.remove(former)
        self.remotes[link] = remote = f"from {up}, after {self.remade} losses"
        graph.add_remote(remote)
        graph.connect(remote, str(down))

    def number_of(self, muter: str) -> int:
        return self.parameters.boundary_names.get(int(muter), int(muter))

    def hear(self, up: int, down: int, signal: GraphSignal) -> None:
        """Note of whom has been spoken, and the newest epochs."""
        muter = self.number_of(signal.muter)
        (self.spoken[up, down].discard if signal.epoch == GONE else self.spoken[up, down].add)(muter)
        if up in self.noted:
            self.noted[up][muter - 1] = max(self.noted[up][muter - 1], signal.epoch)

    def collect(self) -> None:
        """What was told to the far ends of links is on its way."""
        for (up, down), remote in self.remotes.items():
            if remote in self.graphs[down]:
                told = self.graphs[down].take(remote, str(down))
                self.links[up, down] += [Signal(self.number_of(muter), epoch) for muter, epoch in told]

    def is_lost(self, link: Link) -> bool:
        boundary = link[0]
        return self.graphs[boundary].is_muting(str(boundary)) and WELCOME not in self.links[link]

    # The environment.

    def done(self) -> None:
        sinks = {node: {*self.parameters.real_sinks} & self.parameters.reached[node] - self.gone for node in self.here}
        require(not any(self.left[node] and sinks[node] for node in self.here))

    def join(self, node: int) -> None:
        super().join(node)
        for down in self.below(node):
            self.spoken[node, down] = {self.number_of(muter) for muter in self.graphs[down].heard(str(down))}
        self.noted[node] = [*self.heard(node)]

    def leave(self, node: int) -> None:
        require(self.parameters.leaves)
        self.graph_at(node).remove(str(node))
        self.here.remove(node)
        for down in self.below(node):
            self.spoken[node, down].clear()
        self.noted[node] = [0] * self.parameters.sinks

    def lose_link(self, up: int, down: int) -> None:
        require(self.remade < self.parameters.remakes and not self.is_lost((up, down)))
        self.remade += 1
        self.links[up, down] = [BROKEN]

    def lose_sink(self, sink: int) -> None:
        ends = [link for link in self.parameters.pairs if link[1] == sink]
        require(self.parameters.deaths and sink not in self.gone and {*ends} <= {*self.links})
        self.gone.add(sink)
        self.wire[sink] = self.inbox[sink] = 0
        self.graphs[sink] = MuteGraph()
        self.graphs[sink].add_relay(str(sink))
        for link in ends:
            self.links[link].append(BROKEN)

    # The protocol.

    def send(self, node: int, sink: int) -> None:
        require(sink in self.parameters.reached[node])
        super().send(node, sink)

    def receive_signal(self, up: int, down: int) -> None:
        link = up, down
        if link in self.links:
            waiting = self.links[link]
            require(waiting and waiting[0].muter and not self.is_lost(link))
            muter, epoch = waiting.pop(0)
            name = next(name for name in (*self.parameters.boundary_names, muter) if self.number_of(str(name)) == muter)
            self.graphs[up].receive(str(up), f"{up} far end", GraphSignal(str(name), epoch))
            signal = self.graphs[up].receive_signal(str(up), f"{up} far end")
        else:
            signal = self.graph_at(up).receive_signal(str(up), str(down))
        self.hear(up, down, signal)

    def notice_loss(self, up: int, down: int) -> None:
        link = up, down
        require(self.links[link][:1] == [BROKEN] and not self.is_lost(link))
        self.links[link].clear()
        self.graphs[up].set_open(str(up), False)

    def reconnect(self, up: int, down: int) -> None:
        link = up, down
        require(self.is_lost(link))
        self.graphs[up].reconnect(str(up), f"{up} far end")
        self.spoken[link].clear()
        self.dial(link)
        self.links[link].clear()
        self.collect()
        self.links[link].append(WELCOME)

    def open_link(self, up: int, down: int) -> None:
        require(self.links[up, down][:1] == [WELCOME])
        self.links[up, down].pop(0)
        self.graphs[up].set_open(str(up), True)

    # What can be seen.

    def observe(self) -> State:  # type: ignore[override]  # of another model
        self.collect()
        parameters = self.parameters
        return State(
            *super().observe(),
            spoken=Members(
                Members(
                    Members(muter in self.spoken[up, down] for muter in parameters.muters) for down in parameters.names
                )
                for up in parameters.names
            ),
            noted=Members(Members(self.noted[node]) for node in parameters.source_names),
        )

    def source(self, node: int) -> Source:
        muters = self.graph_at(node).muted_by(str(node)) if node in self.here else ()
        numbers = {self.number_of(muter) for muter in muters}
        holds = Members(int(muter in numbers) for muter in self.parameters.muters)
        return Source(here=node in self.here, left=self.left[node], holds=holds)

    def heard(self, node: int) -> Members[int]:
        parameters = self.parameters
        if node <= parameters.boundaries:
            own = self.heard(next(up for up, number in parameters.boundary_names.items() if number == node))
            return Members(epoch if muter == node else 0 for muter, epoch in enumerate(own, 1))
        is_known = node in self.here or not parameters.is_source(node)
        known = self.graph_at(node).heard(str(node)) if is_known else {}
        by_number = {self.number_of(muter): epoch for muter, epoch in known.items()}
        return Members(by_number.get(muter, 0) for muter in parameters.muters)

    def signals(self, up: int, down: int) -> Fifo[Signal]:
        if (up, down) in self.links:
            return Fifo(self.links[up, down])
        if not self.parameters.is_hop(up, down) or down <= self.parameters.boundaries:
            return Fifo()
        in_flight = self.graph_at(up).in_flight.get(Edge(str(up), str(down)), ())
        return Fifo(Signal(self.number_of(signal.muter), signal.epoch) for signal in in_flight)


ONE_WAY = Parameters(
    sinks=2,
    relays=1,
    sources=1,
    hops=hops((1, 3), (2, 3), (3, 4)),
    high=1,
    low=0,
    supply=2,
    clears=True,
    disposals=True,
    remakes=1,
    boundaries=1,
    deaths=True,
    leaves=True,
)
TWO_WAYS = Parameters(
    sinks=2,
    relays=3,
    sources=1,
    hops=hops((1, 3), (2, 3), (3, 4), (3, 5), (4, 6), (5, 6)),
    high=0,
    low=0,
    supply=1,
    remakes=0,
    boundaries=1,
    deaths=True,
)


SMALL = replace(ONE_WAY, supply=1, high=0, clears=False, disposals=False)


@pytest.mark.parametrize(
    "parameters", [SMALL, *(pytest.param(one, marks=pytest.mark.long) for one in (ONE_WAY, TWO_WAYS))]
)
def test_the_graphs_of_processes_take_every_step_of_the_model(parameters: Parameters) -> None:
    done = walk(SYSTEM, DrivenProcesses(parameters), parameters)
    assert min(done.states, done.edges, done.refusals) > 100


class KeepingProcesses(DrivenProcesses):
    """As published: a boundary keeps what it had heard over the lost connection."""

    def reconnect(self, up: int, down: int) -> None:
        heard = {muter: epoch for muter, epoch in self.graphs[up].heard(str(up)).items() if muter != str(up)}
        super().reconnect(up, down)
        for muter, epoch in heard.items():
            self.graphs[up].receive(str(up), f"{up} far end", GraphSignal(muter, epoch))


def test_a_boundary_that_keeps_the_mutes_of_the_dead_is_found() -> None:
    with pytest.raises(Divergence, match="heard"):
        walk(SYSTEM, KeepingProcesses(SMALL), SMALL)

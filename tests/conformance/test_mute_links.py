"""The model of muting among processes leads boundaries and inlets, and the ``MuteGraph`` of each process.

A connection carries its real bytes, and they arrive when the model says so.  The data that a boundary keeps have no
part in the model.
"""

import asyncio
from collections import defaultdict
from collections.abc import Callable, Coroutine
from dataclasses import replace
from functools import partial
from itertools import product
from random import Random
from types import coroutine
from typing import Any, Self, TypeVar

import pytest

from permitflow.carriers.framing import HEADER_BYTES
from permitflow.mute import Boundary, Edge, Inlet, Marks, MuteGraph, Pipeline, Saving, channel
from permitflow.mute.graph import GONE
from permitflow.mute.graph import Signal as GraphSignal
from permitflow.mute.messages import LinkMessageKind, Peer, read_signal
from permitflow.mute.pipeline import Event
from permitflow_model.kernel.family import Members
from permitflow_model.kernel.queue import Fifo
from permitflow_model.mute import Signal, Source
from permitflow_model.mute_links import BROKEN, SYSTEM, WELCOME, Parameters, State
from permitflow_testing.moves import Lockstep, Walk, require, walk
from tests.conformance.test_mute_graph import DrivenGraph, hops
from tests.support.replayed import Replayed
from tests.support.simulated_time import in_simulated_time

T = TypeVar("T")
Link = tuple[int, int]
CHECKSUM_BYTES = 4
"""At the end of each message."""
LOSS = b""
"""Behind what still comes over a connection that is lost; what is written behind it comes nowhere."""


class Line(asyncio.Transport):
    """An end of a connection, and what it has written that has not arrived."""

    def __init__(self, peer: Peer) -> None:
        super().__init__()
        self.peer = peer
        self.written: list[bytes] = []
        self.is_cut = False
        peer.connection_made(self)

    def is_closing(self) -> bool:
        return self.is_cut

    def write(self, data: Any) -> None:
        self.written.append(data)

    def abort(self) -> None:
        self.is_cut = True

    def hear(self, data: bytes) -> None:
        """This comes from the other end."""
        self.peer.get_buffer(len(data))[: len(data)] = data
        self.peer.buffer_updated(len(data))
        assert not self.is_cut, "it refuses what the other end has said"

    def lose(self) -> None:
        self.is_cut = True
        self.peer.connection_lost(None)


class Hand:
    """In place of a task that dials: it goes on by hand."""

    def __init__(self, work: Coroutine[object, list[Line] | None, None], *, name: str) -> None:
        self.name, self.work = name, work
        MADE.append(self)
        self.go_on()

    def go_on(self, lines: list[Line] | None = None) -> None:
        """To the point at which it dials; or, with a connection, to that at which it waits for its loss."""
        self.work.send(lines)

    def cancel(self) -> None:
        self.work.close()


@coroutine
def a_connection() -> Any:
    """What the hand is given."""
    return (yield)


class Dialled:
    """In place of ``sockets.dialled``."""

    def __init__(self, *_: object) -> None:
        pass

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> object:
        return await a_connection()


class Listening:
    """In place of ``sockets.Listener``."""

    def __init__(self, address: object, sizes: object, make: Callable[[], Peer], hear: object, **_: object) -> None:
        self.address, self.sizes, self.make = address, sizes, make
        MADE.append(self)

    def close(self) -> None:
        pass


async def transported(peer: Peer, lines: list[Line]) -> None:
    """In place of ``sockets.transported``."""
    lines.append(Line(peer))


MADE: list[Any] = []
"""The newest hand or listener is the last one."""


class StillGraph(MuteGraph):
    """What a boundary or an inlet hands on is delivered at once; all else when the model says so."""

    def settle(self) -> dict[str, bool]:
        while ways := [edge for edge in self.in_flight if self.is_handed_on(edge)]:
            for edge in ways:
                self.receive_signal(*edge)
        return {}

    @staticmethod
    def is_handed_on(edge: Edge) -> bool:
        return edge.downstream == f"{edge.upstream} far end" or edge.upstream == f"inlet of {edge.downstream}"

    def hear(self, event: Event) -> None:
        assert event["event"] != "lost" or str(event.get("inlet")) not in self, "nobody is there to be told"


class DrivenProcesses(DrivenGraph):
    """Processes with a pipeline each."""

    parameters: Parameters

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.left = dict.fromkeys(parameters.source_names, parameters.supply)
        self.wire = dict.fromkeys(parameters.muters, 0)
        self.inbox = dict.fromkeys(parameters.muters, 0)
        self.gone: set[int] = set()
        self.here: set[int] = set()
        self.remade = len(parameters.links)
        self.homes = {node: node for node in parameters.names}
        """Of each node one that is in its process."""
        for up, down in parameters.pairs:
            if (up, down) not in parameters.links and down > parameters.boundaries:
                self.homes |= {node: self.homes[down] for node, home in self.homes.items() if home == self.homes[up]}
        self.pipelines: dict[int, Pipeline] = {}
        self.listening: dict[int, Listening] = {}
        self.dialling: dict[int, Hand] = {}
        self.lines: dict[Link, tuple[Line, Line]] = {}
        """The boundary's end, and that of the inlet, of the newest connection."""
        self.spoken: defaultdict[Link, set[int]] = defaultdict(set)
        self.noted = {node: [0] * parameters.sinks for node in parameters.source_names}

    def begin(self) -> None:
        for node in self.parameters.names:
            self.add(node)

    def end(self) -> None:
        for pipeline in self.pipelines.values():
            pipeline.close()
        for line in (line for lines in self.lines.values() for line in lines):
            line.lose()

    # Processes and their nodes.

    def add(self, node: int) -> None:
        parameters = self.parameters
        if node <= parameters.boundaries:
            return
        if parameters.is_source(node):
            if node <= parameters.nodes - parameters.newcomers:
                self.join(node)
        elif node <= parameters.sinks:
            marks = Marks(high_mark=parameters.high, low_mark=parameters.low)
            self.graph_at(node).add_muter(str(node), marks)
        elif node in parameters.boundary_names:
            Boundary(pipeline=self.pipeline_of(node), name=str(node), address=("", 0))
            self.dialling[node] = MADE.pop()
            link = next(link for link in parameters.links if link[0] == node)
            self.dial(link)
            for told in self.told_on(link):
                (self.open_link if told == WELCOME else self.receive_signal)(*link)
        else:
            self.graph_at(node).add_relay(str(node))
            self.connect(node)
        if any(down == node for _, down in parameters.links):
            self.listen(node)

    def start_process(self, node: int) -> None:
        graph = StillGraph()
        self.pipelines[node] = pipeline = Pipeline(hear=graph.hear)
        pipeline.graph = graph

    def pipeline_of(self, node: int) -> Pipeline:
        if self.homes[node] not in self.pipelines:
            self.start_process(self.homes[node])
        return self.pipelines[self.homes[node]]

    def graph_at(self, node: int) -> MuteGraph:
        return self.pipeline_of(node).graph

    def listen(self, node: int) -> None:
        Inlet(
            pipeline=self.pipeline_of(node),
            name=f"inlet of {node}",
            feed=lambda lines: None,
            downstream=str(node),
            saving=Saving(None),
        )
        self.listening[node] = MADE.pop()

    def dial(self, link: Link) -> None:
        """There is a connection, on which the boundary has said who it is."""
        up, down = link
        ends, lower = list[Line](), Line(self.listening[down].make())
        self.dialling[up].go_on(ends)
        self.lines[link] = ends[0], lower
        while ends[0].written:
            lower.hear(ends[0].written.pop(0))

    def lose(self, link: Link) -> None:
        """The boundary notices the loss."""
        if not self.lines[link][0].is_cut:
            self.lines[link][0].lose()
            self.dialling[link[0]].go_on()

    def told_on(self, link: Link) -> list[Signal]:
        """What is on its way to the boundary."""
        return [self.signal_in(data) for data in self.lines[link][1].written]

    def signal_in(self, data: bytes) -> Signal:
        if not data or data[0] == LinkMessageKind.WELCOME:
            return WELCOME if data else BROKEN
        return self.signal_of(read_signal(data[HEADER_BYTES:-CHECKSUM_BYTES]))

    def signal_of(self, signal: GraphSignal) -> Signal:
        return Signal(self.number_of(signal.muter), signal.epoch)

    def number_of(self, muter: str) -> int:
        return self.parameters.boundary_names.get(int(muter), int(muter))

    def note(self, up: int, down: int, signal: Signal) -> None:
        """Note of whom has been spoken, and the newest epochs."""
        muter, epoch = signal
        (self.spoken[up, down].discard if epoch == GONE else self.spoken[up, down].add)(muter)
        if up in self.noted:
            self.noted[up][muter - 1] = max(self.noted[up][muter - 1], epoch)

    def is_lost(self, link: Link) -> bool:
        boundary = link[0]
        return self.graph_at(boundary).is_muting(str(boundary)) and WELCOME not in self.told_on(link)

    # The environment.

    def done(self) -> None:
        sinks = {node: {*self.parameters.real_sinks} & self.parameters.reached[node] - self.gone for node in self.here}
        require(not any(self.left[node] and sinks[node] for node in self.here))

    def join(self, node: int) -> None:
        super().join(node)
        self.noted[node] = [*self.heard(node)]

    def connect(self, node: int) -> None:
        super().connect(node)
        for up, down in self.parameters.pairs:
            if up == node:
                self.spoken[up, down] = {muter for muter, epoch in enumerate(self.heard(down), 1) if epoch}

    def leave(self, node: int) -> None:
        require(self.parameters.leaves)
        self.graph_at(node).remove(str(node))
        self.here.remove(node)
        self.noted[node] = [0] * self.parameters.sinks
        for link in self.spoken:
            if link[0] == node:
                self.spoken[link].clear()

    def lose_link(self, up: int, down: int) -> None:
        link = up, down
        require(self.remade < self.parameters.remakes and not self.is_lost(link))
        self.remade += 1
        self.lines[link][1].written[:] = [LOSS]

    def lose_sink(self, sink: int) -> None:
        ends = [link for link in self.parameters.pairs if link[1] == sink]
        require(self.parameters.deaths and sink not in self.gone and {*ends} <= {*self.parameters.links})
        self.gone.add(sink)
        self.wire[sink] = self.inbox[sink] = 0
        self.pipelines[sink].close()
        for link in ends:
            self.lines[link][1].written.append(LOSS)
        self.start_process(sink)
        self.listen(sink)

    # The protocol.

    def send(self, node: int, sink: int) -> None:
        require(sink in self.parameters.reached[node])
        super().send(node, sink)

    def report(self, sink: int, messages: int) -> None:
        self.inbox[sink] = messages
        self.pipeline_of(sink).report(str(sink), messages)

    def receive_signal(self, up: int, down: int) -> None:
        link = up, down
        if link in self.parameters.links:
            told = self.told_on(link)
            require(told and told[0].muter and not self.is_lost(link))
            self.arrive(link)
            self.note(up, down, told[0])
        else:
            self.note(up, down, self.signal_of(self.graph_at(up).receive_signal(str(up), str(down))))

    def arrive(self, link: Link) -> None:
        """The boundary hears what comes next."""
        upper, lower = self.lines[link]
        upper.hear(lower.written.pop(0))

    def notice_loss(self, up: int, down: int) -> None:
        link = up, down
        require(self.told_on(link)[:1] == [BROKEN] and not self.is_lost(link))
        self.lines[link][1].written.clear()
        self.lose(link)

    def reconnect(self, up: int, down: int) -> None:
        link = up, down
        require(self.is_lost(link))
        self.lose(link)
        former = self.lines[link][1]
        self.spoken[link].clear()
        self.dial(link)
        former.lose()  # the inlet notices later than the boundary

    def open_link(self, up: int, down: int) -> None:
        link = up, down
        require(self.told_on(link)[:1] == [WELCOME])
        self.arrive(link)

    # What can be seen.

    def observe(self) -> State:  # type: ignore[override]  # of another model
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
        if (up, down) in self.parameters.links:
            return Fifo(self.told_on((up, down)))
        if not self.parameters.is_hop(up, down) or down <= self.parameters.boundaries:
            return Fifo()
        in_flight = self.graph_at(up).in_flight.get(Edge(str(up), str(down)), ())
        return Fifo(map(self.signal_of, in_flight))


def connected(parameters: Parameters) -> State:
    """Processes begin without links: it is as if each had been lost, and made anew."""
    state = SYSTEM.initial(parameters)
    for action in ("LoseLink", "NoticeLoss", "Reconnect"):
        for link in parameters.links:
            state = SYSTEM.perform(action, state, parameters, *link)
    hops = [*product(("ReceiveSignal", "OpenLink"), parameters.pairs)]
    while moves := [(action, *hop) for action, hop in hops if SYSTEM.is_enabled(action, state, parameters, *hop)]:
        state = SYSTEM.perform(moves[0][0], state, parameters, *moves[0][1:])
    return state


BEGUN = replace(SYSTEM, initial=connected)


def walked(parameters: Parameters) -> Walk:
    return led(parameters, lambda start: walk(BEGUN, start, parameters))


def led(parameters: Parameters, lead: Callable[[Replayed], T]) -> T:
    """Lead the ends, beginning with them at rest."""

    async def leading() -> T:
        with pytest.MonkeyPatch.context() as patch:
            stand_ins = {"lasting_task": Hand, "dialled": Dialled, "Listener": Listening, "transported": transported}
            for name, stand_in in stand_ins.items():
                patch.setattr(channel, name, stand_in)
            return lead(Replayed(partial(DrivenProcesses, parameters)))

    return in_simulated_time(leading())


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
    remakes=2,
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
    remakes=1,
    boundaries=1,
    deaths=True,
)


SMALL = replace(ONE_WAY, supply=1, high=0, clears=False, disposals=False)

TWO_BOUNDARIES = replace(
    SMALL, sinks=3, relays=2, hops=hops((1, 4), (3, 4), (2, 5), (3, 5), (4, 6), (5, 6)), boundaries=2, remakes=3
)
CHAIN = replace(TWO_BOUNDARIES, hops=hops((1, 4), (3, 4), (2, 5), (4, 5), (5, 6)))
NEWCOMER = replace(ONE_WAY, sources=2, hops=hops((1, 3), (2, 3), (3, 4), (3, 5)), newcomers=1)


@pytest.mark.parametrize(
    "parameters", [SMALL, *(pytest.param(one, marks=pytest.mark.long) for one in (ONE_WAY, TWO_WAYS))]
)
def test_boundaries_and_inlets_take_every_step_of_the_model(parameters: Parameters) -> None:
    done = walked(parameters)
    assert min(done.states, done.edges, done.refusals) > 100


@pytest.mark.parametrize("runs", [10, pytest.param(400, marks=pytest.mark.long)])
@pytest.mark.parametrize(
    "parameters",
    [TWO_WAYS, TWO_BOUNDARIES, CHAIN, NEWCOMER],
    ids=["two ways", "two boundaries", "three processes", "a newcomer"],
)
def test_larger_graphs_of_processes_take_drawn_steps(parameters: Parameters, runs: int) -> None:
    larger = replace(parameters, supply=9, remakes=9)
    for seed in range(runs):
        led(larger, partial(drawn, larger, Random(seed)))


def drawn(parameters: Parameters, random: Random, start: Replayed) -> None:
    run = Lockstep(BEGUN, start, parameters)
    environment = {action.name for action in SYSTEM.actions if action.is_environment}
    for _ in range(100):
        enabled = run.enabled()
        protocol = [move for move in enabled if move.action not in environment]
        run.make(random.choice(random.choices((run.moves, protocol or enabled, enabled), (1, 8, 1))[0]))

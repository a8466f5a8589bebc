"""The model of muting as the judge of each process of a muted pipeline, whenever it has settled.

What the graph of a process shows is made a state of ``permitflow_model.mute``, with what it has told other processes as
sources, and with muters of other processes as sinks behind the far end from which it knows them.  The model's
invariants must hold in it: nothing heard that was not told, nothing known that was not passed on, no source that reads
early, and, because nothing is in flight any more, each source is held by exactly the muters that mute.
"""

from collections import Counter
from collections.abc import Callable, Mapping
from itertools import count
from types import SimpleNamespace
from typing import Final, cast

from permitflow.mute.graph import GONE, Edge, Marks, MuteGraph, Signal
from permitflow.mute.pipeline import Event, Pipeline, Reads
from permitflow.mute.sockets import BufferedConnection
from permitflow_model.kernel.family import Members, NamedFamily
from permitflow_model.kernel.queue import Fifo, Queue
from permitflow_model.mute import SYSTEM, Parameters, Sink, Source, State, is_marked, is_mute
from permitflow_model.mute import Signal as ModelSignal
from tests.simulator.coverage import mute_key

_INVARIANTS: Final = ("InOrder", "OnItsWay", "NoEarlyUnmute", "Settled")
_MORE_THAN_HIGH: Final = 2
"""What may wait at a boundary beyond its high mark: what made it mute, and what a log was asked for before."""


class WatchedGraph(MuteGraph):
    """Remembers what was done to it, and what other processes were told."""

    def __init__(self) -> None:
        """Nothing is there yet."""
        super().__init__()
        self.marks: dict[str, Marks] = {}
        self.backlogs: dict[str, int] = {}
        self.closed: set[str] = set()
        """Muters that are not connected."""
        self.edges: dict[Edge, None] = {}
        self.changes = 0
        """Of nodes and edges."""
        self.told: dict[str, list[Signal]] = {}
        """By node of another process: what it was told."""
        self.gone: dict[str, list[Signal]] = {}
        """Likewise, of those that have left."""
        self.heard_sessions: dict[Edge, list[list[Signal]]] = {}
        """What has come from other processes: for each time that such an edge was made."""

    def add_muter(self, name: str, marks: Marks | None = None) -> None:
        """See ``MuteGraph``."""
        super().add_muter(name, marks)
        self.marks[name], self.backlogs[name] = marks or Marks(), 0

    def add_remote(self, name: str) -> None:
        """See ``MuteGraph``."""
        super().add_remote(name)
        self.told[name] = []

    def connect(self, upstream: str, downstream: str) -> None:
        """See ``MuteGraph``."""
        super().connect(upstream, downstream)
        edge = Edge(upstream, downstream)
        self.edges[edge] = None
        self.heard_sessions.setdefault(edge, []).append([])
        self.changes += 1

    def reconnect(self, upstream: str, downstream: str) -> None:
        """See ``MuteGraph``."""
        super().reconnect(upstream, downstream)
        self.heard_sessions[Edge(upstream, downstream)].append([])
        self.changes += 1

    def remove(self, name: str) -> None:
        """See ``MuteGraph``."""
        super().remove(name)
        self.edges = {edge: None for edge in self.edges if name not in edge}
        if (told := self.told.pop(name, None)) is not None:
            self.gone[name] = told
        self.changes += 1

    def report(self, muter: str, backlog: int) -> bool:
        """See ``MuteGraph``."""
        self.backlogs[muter] = backlog
        return super().report(muter, backlog)

    def set_open(self, muter: str, is_open: bool) -> bool:
        """See ``MuteGraph``."""
        (self.closed.discard if is_open else self.closed.add)(muter)
        return super().set_open(muter, is_open)

    def take(self, upstream: str, downstream: str) -> list[Signal]:
        """See ``MuteGraph``."""
        taken = super().take(upstream, downstream)
        self.told[upstream] += taken
        return taken

    def receive(self, upstream: str, downstream: str, signal: Signal) -> None:
        """See ``MuteGraph``."""
        super().receive(upstream, downstream, signal)
        self.heard_sessions[Edge(upstream, downstream)][-1].append(signal)


class _Watched:
    """A source that can be muted, and whether it is."""

    def __init__(self, reads: Reads) -> None:
        self.reads, self.is_paused = reads, True
        self.is_told = False
        """That it is muted; at first it is, without a word."""

    def pause(self) -> None:
        self.is_paused = self.is_told = True
        self.reads.pause()

    def resume(self) -> None:
        self.is_paused = False
        self.reads.resume()

    @property
    def may_read(self) -> bool:
        connection = self.reads
        if isinstance(connection, BufferedConnection):
            return connection.open_transport is not None and connection.open_transport.is_reading()
        return not self.is_paused


class JudgedPipeline(Pipeline):
    """A pipeline whose graph the model judges whenever it has settled."""

    def __init__(
        self,
        name: str,
        *,
        hear: Callable[[Event], None],
        broken: list[str],
        steps: Counter[str],
        states: set[object],
        stall_seconds: float,
    ) -> None:
        """Nothing flows yet.

        Args:
            name: of the process.
            hear: see ``Pipeline``.
            broken: gets what the model does not allow.
            steps: counts what was judged.
            states: gets those of the model.
            stall_seconds: see ``Pipeline``.
        """
        super().__init__(stall_seconds=stall_seconds, hear=hear)
        self.graph: WatchedGraph = WatchedGraph()
        self._process, self._broken, self._steps, self._states = name, broken, steps, states
        self._watched: dict[str, _Watched] = {}
        self._shape: tuple[int, frozenset[str]] | None = None
        self._judged = -1, -1

    def add_source(self, name: str, downstream: str, reads: Reads) -> None:
        """See ``Pipeline``."""
        watched = self._watched[name] = _Watched(reads)
        super().add_source(name, downstream, watched)
        if name in self._watched and self.graph.is_muted(name) != watched.is_told:
            self._break(f"source {name} was not told whether it is muted")

    def remove_source(self, name: str) -> None:
        """See ``Pipeline``."""
        self._watched.pop(name, None)
        super().remove_source(name)

    def report(self, muter: str, backlog: int) -> None:
        """See ``Pipeline``."""
        super().report(muter, backlog)
        self._steps["Evaluate"] += 1
        self._require_marks(muter)

    def settle(self) -> None:
        """See ``Pipeline``."""
        super().settle()
        graph = self.graph
        if self._judged != (graph.signals, graph.changes):
            self._judged = graph.signals, graph.changes
            self._steps["Settle"] += 1
            self._require_invariants()
        for name, watched in self._watched.items():
            if watched.may_read and graph.is_muted(name):
                self._break(f"source {name} may read, and is muted by {sorted(graph.muted_by(name))}")

    def _break(self, law: str) -> None:
        self._broken.append(f"{self._process}: {law}")

    def _require_marks(self, muter: str) -> None:
        graph = self.graph
        epoch, backlog, marks = graph.heard(muter).get(muter, 0), graph.backlogs[muter], graph.marks[muter]
        bounds = cast("Parameters", SimpleNamespace(high=marks.high_mark, low=marks.low_mark))
        is_right = is_mute(epoch) if muter in graph.closed else is_marked(Sink(False, 0, backlog), epoch, bounds)
        if not is_right:
            self._break(f"{muter} is in epoch {epoch} with {backlog}; its marks are {marks}")
        if muter.endswith("/boundary") and backlog > marks.high_mark + _MORE_THAN_HIGH:
            self._break(f"{backlog} messages wait at {muter}, which mutes above {marks.high_mark}")

    def _require_invariants(self) -> None:
        if self.graph.in_flight:
            self._break(f"it has settled, and these signals are in flight: {self.graph.in_flight}")
            return
        parameters, state = self._seen()
        if parameters.sources:
            self._states.add(mute_key(parameters, state))
        for name in _INVARIANTS:
            if not SYSTEM.invariants[name](state, parameters):
                known = {node: dict(self.graph.heard(node)) for node in self._nodes()}
                self._break(f"{name} does not hold; what nodes know is {known}, and what others were told {self._far}")

    # The graph as a state of the model.

    def _nodes(self) -> list[str]:
        return [*dict.fromkeys(node for edge in self.graph.edges for node in edge if node not in self.graph.told)]

    def _seen(self) -> tuple[Parameters, State]:
        graph, edges = self.graph, [*self.graph.edges]
        self._far = {name: _known(told) for name, told in graph.told.items()}
        nodes = self._nodes()
        heard: dict[str, Mapping[str, int]] = {node: graph.heard(node) for node in nodes} | self._far
        far_ends = {edge.downstream: edge for edge in edges if edge.downstream.endswith("far end")}
        # What has come from another process is put on the edge from its far end, which does not note it.
        heard |= {far: _known(graph.heard_sessions[edge][-1]) for far, edge in far_ends.items()}
        sources = [*(name for name in graph.sources if name in heard), *graph.told]
        local, known = [*graph.marks], dict.fromkeys(muter for epochs in heard.values() for muter in epochs)
        foreign = [muter for muter in known if muter not in graph.marks and muter not in graph.sources]
        downward = {node: [edge.downstream for edge in edges if edge.upstream == node] for node in heard}
        # A muter with something behind it is a sink and a relay.
        relays = sorted((node for node in nodes if node not in sources), key=lambda node: _depth(node, downward))
        number = count(1)
        sinks = {muter: next(number) for muter in (*local, *foreign)}
        places = {node: next(number) for node in (*relays, *sources)}
        hops = {frozenset((places[upper], places[lower])) for upper, lower in edges}
        hops |= {frozenset((places[muter], sinks[muter])) for muter in local if muter in places}
        hops |= {frozenset((places[far], sinks[muter])) for far in far_ends for muter in foreign}
        parameters = _Shape(
            sinks=len(sinks), relays=len(relays), sources=len(sources), hops=frozenset(hops), high=0, low=0, supply=1
        )
        own = [graph.heard(muter).get(muter, 0) for muter in local]
        own += [max((heard[far].get(muter, 0) for far in far_ends), default=0) for muter in foreign]
        rows = [
            Members(own[place] if sink == place else 0 for sink in range(len(sinks))) for place in range(len(sinks))
        ]
        rows += [Members(max(0, heard[node].get(muter, 0)) for muter in sinks) for node in (*relays, *sources)]
        silence: NamedFamily[Queue[ModelSignal]] = Members([Fifo()] * len(rows))
        return parameters, State(
            sources=Members(
                Source(here=True, left=1, holds=Members(int(muter in self._holding(name)) for muter in sinks))
                for name in sources
            ),
            sinks=Members(Sink(False, 0, graph.backlogs.get(muter, 0)) for muter in sinks),
            heard=Members(rows),
            signals=Members([silence] * len(rows)),
            remade=0,
        )

    def _holding(self, name: str) -> frozenset[str]:
        """The muters that hold a source, or what another process was told."""
        if name in self._far:
            return frozenset(muter for muter, epoch in self._far[name].items() if is_mute(epoch))
        return self.graph.muted_by(name)


class _Shape(Parameters):
    """A graph that is not whole yet."""

    def __post_init__(self) -> None:
        """Refuse nothing: a pipeline that is being built has loose ends, and no source."""


def _known(told: list[Signal]) -> dict[str, int]:
    """What is known by who has heard all of this."""
    known: dict[str, int] = {}
    for muter, epoch in told:
        if epoch == GONE:
            known.pop(muter, None)
        else:
            known[muter] = max(epoch, known.get(muter, 0))
    return known


def _depth(node: str, downward: Mapping[str, list[str]]) -> int:
    return 1 + max((_depth(below, downward) for below in downward.get(node, ())), default=0)

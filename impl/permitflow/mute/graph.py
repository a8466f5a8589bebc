"""Wallaroo's mute protocol: a sink that cannot write mutes every source behind it, over any number of relays; no I/O.

    source  ->  relay  ->  relay  ->  sink          data
    source  <-  relay  <-  relay  <-  sink          mute, unmute: the muter's name and its epoch

A *muter* is a sink or a boundary to another process: it mutes when it has too much to write, and unmutes later.  A
*relay* forwards what it hears, with the name of the original muter, and never stops itself.  A *source* does not read
while any muter mutes it.

Three rules differ from Wallaroo's:

- Each muter numbers its signals.  The newer of two that come over different paths counts, whichever came last; a lost
  or repeated one cannot unmute early.
- A new upstream is told at once who mutes, and one that leaves is not muted any more.
- A muter has a high and a low mark, and stays as it is between them: no storm of signals.
"""

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from permitflow.errors import InvalidParametersError, LocalProtocolError

GONE = -1
"""The epoch of a signal that says: this muter is not behind this edge any more."""


class Signal(NamedTuple):
    """What goes from a muter to the sources, against the data."""

    muter: str
    """The original muter; relays do not change it.

    No two muters of all processes may have one name, and none may have that of one that is gone, as before a restart:
    it would begin again with epoch 1, which is not news where an older number is known over another path.
    """
    epoch: int
    """How often the muter has muted or unmuted: an odd epoch mutes, an even one unmutes."""


class Edge(NamedTuple):
    """Data go from ``upstream`` to ``downstream``; signals go back."""

    upstream: str
    downstream: str


@dataclass(frozen=True, kw_only=True)
class Marks:
    """When a muter mutes: with a backlog above ``high_mark``; and when it unmutes: at ``low_mark``, or below.

    With marks of 0 a sink mutes after each write that the kernel did not take whole, as Wallaroo's does.

    Spec: High, Low of Mute.
    """

    high_mark: int = 0
    low_mark: int = 0

    def __post_init__(self) -> None:
        """Refuse marks between which a muter could not decide.

        Raises:
            InvalidParametersError: a mark is out of its range.
        """
        if self.low_mark < 0:
            raise InvalidParametersError(name="low_mark", value=self.low_mark, rule="must be at least 0")
        if self.high_mark < self.low_mark:
            rule = f"must be at least low_mark = {self.low_mark}"
            raise InvalidParametersError(name="high_mark", value=self.high_mark, rule=rule)


@dataclass
class _Node:
    name: str
    marks: Marks | None = None
    """The marks of a muter; None: the node is none."""
    is_source: bool = False
    backlog: int = 0
    is_open: bool = True
    is_remote: bool = False
    upstreams: dict[str, None] = field(default_factory=dict)
    downstreams: dict[str, None] = field(default_factory=dict)
    epochs: dict[str, int] = field(default_factory=dict)
    """The newest epoch of each muter that this node has heard of; of a muter, its own too."""
    heard_from: dict[str, set[str]] = field(default_factory=dict)
    """The downstream nodes that have spoken of each muter."""

    def muters(self) -> frozenset[str]:
        return frozenset(muter for muter, epoch in self.epochs.items() if epoch % 2)


class MuteGraph:
    """Sources, relays and muters, the edges between them, and the signals that are on their way.

    Signals of an edge keep their order.  ``settle`` delivers all; ``receive_signal`` delivers one, so that you choose
    the order.
    Nodes of other processes are remote here: ``take`` what goes there, and ``receive`` what comes.
    """

    def __init__(self) -> None:
        """Nothing is there yet."""
        self._nodes: dict[str, _Node] = {}
        self._in_flight: dict[Edge, deque[Signal]] = {}
        self._shown: dict[str, bool] = {}
        self.signals = 0
        """Signals sent over any edge so far."""

    # What is there.

    def add_source(self, name: str) -> None:
        """Add a source; it is muted by itself until ``start``."""
        node = self._add(name)
        node.is_source = True
        node.epochs[name] = 1
        self._shown[name] = True

    def add_relay(self, name: str) -> None:
        """Add a node that only forwards."""
        self._add(name)

    def add_remote(self, name: str) -> None:
        """Add a node of another process."""
        self._add(name).is_remote = True

    def add_muter(self, name: str, marks: Marks | None = None) -> None:
        """Add a sink, or a boundary: a muter forwards as well what it hears from downstream."""
        self._add(name).marks = marks or Marks()

    def _add(self, name: str) -> _Node:
        if name in self._nodes:
            raise LocalProtocolError(f"there is a node {name!r} already; each needs a name of its own")
        return self._nodes.setdefault(name, _Node(name))

    def start(self, source: str) -> None:
        """A source may read now, unless it is muted by others.

        Raises:
            LocalProtocolError: it is not a source.
        """
        self._source(source).epochs.pop(source, None)

    def connect(self, upstream: str, downstream: str) -> None:
        """Add an edge; the upstream is told at once who mutes.

        Raises:
            LocalProtocolError: an end is unknown, the edge is there already, or would close a cycle.

        Spec: Join of Mute.
        """
        node, below = self._node(upstream), self._node(downstream)
        edge = Edge(upstream, downstream)
        if edge in self._in_flight:
            raise LocalProtocolError(f"{upstream!r} and {downstream!r} are connected already")
        if below.is_source or upstream in (downstream, *self._all_below(downstream)):
            raise LocalProtocolError(f"an edge from {upstream!r} to {downstream!r} would close a cycle")
        self._in_flight[edge] = deque()
        node.downstreams[downstream] = None
        below.upstreams[upstream] = None
        self._tell(edge)
        while self._in_flight[edge] and not node.is_remote:
            self.receive_signal(*edge)

    def _tell(self, edge: Edge) -> None:
        """Say all that the downstream node knows."""
        for muter, epoch in self._nodes[edge.downstream].epochs.items():
            self._send(edge, Signal(muter, epoch))

    def _all_below(self, name: str) -> Iterator[str]:
        for below in self._nodes[name].downstreams:
            yield below
            yield from self._all_below(below)

    def remove(self, name: str) -> None:
        """Remove a node that has nothing upstream: a source, or a node of another process; it hears no more.

        Raises:
            LocalProtocolError: there is no such node, or one upstream of it would go on to lead there.

        Spec: Leave of MuteLinks.
        """
        node = self._node(name)
        if node.upstreams:
            raise LocalProtocolError(f"{name!r} is downstream of {next(iter(node.upstreams))!r}, which cannot lose it")
        for downstream in node.downstreams:
            del self._in_flight[Edge(name, downstream)]
            del self._nodes[downstream].upstreams[name]
        del self._nodes[name]
        self._shown.pop(name, None)

    def reconnect(self, upstream: str, downstream: str) -> None:
        """A connection is made anew: what was in flight is lost, and the upstream is told again who mutes.

        Muters of which nobody speaks to it any more mute nobody behind it.  A node of another process tells with
        ``receive``: at first it says nothing.

        Raises:
            LocalProtocolError: there is no such edge.

        Spec: Reconnect of MuteLinks.
        """
        self._queue(upstream, downstream).clear()
        self._tell(Edge(upstream, downstream))
        node, known = self._nodes[upstream], self._nodes[downstream].epochs
        for muter in [muter for muter, speakers in node.heard_from.items() if downstream in speakers]:
            if muter not in known:
                self._lose(node, muter, downstream)

    def _lose(self, node: _Node, muter: str, speaker: str) -> None:
        """A muter is not behind ``speaker`` any more.

        Spec: Forget of MuteLinks.
        """
        speakers = node.heard_from.get(muter, set())
        speakers.discard(speaker)
        if not speakers and muter in node.epochs and muter != node.name:
            node.heard_from.pop(muter, None)
            del node.epochs[muter]
            self._forward(node, Signal(muter, GONE))

    # What muters say.

    def report(self, muter: str, backlog: int) -> bool:
        """A muter has so much to write now: messages or bytes, as its marks; has it muted or unmuted?

        Raises:
            LocalProtocolError: the node is not a muter.
            InvalidParametersError: the backlog is negative.

        Spec: Evaluate of Mute.
        """
        if backlog < 0:
            raise InvalidParametersError(name="backlog", value=backlog, rule="must be at least 0")
        node = self._muter(muter)
        node.backlog = backlog
        return self._decide(node)

    def set_open(self, muter: str, is_open: bool) -> bool:
        """A muter that is not connected mutes whatever its backlog; has it muted or unmuted?

        Raises:
            LocalProtocolError: the node is not a muter.

        Spec: NoticeLoss and OpenLink of MuteLinks.
        """
        node = self._muter(muter)
        node.is_open = is_open
        return self._decide(node)

    def _decide(self, node: _Node) -> bool:
        assert node.marks is not None  # _muter has looked
        is_muting = node.epochs.get(node.name, 0) % 2 == 1
        mark = node.marks.low_mark if is_muting else node.marks.high_mark
        if is_muting == (not node.is_open or node.backlog > mark):
            return False
        self._turn(node)
        return True

    def _turn(self, node: _Node) -> None:
        """Mute, or unmute, in a new epoch."""
        node.epochs[node.name] = epoch = node.epochs.get(node.name, 0) + 1
        self._forward(node, Signal(node.name, epoch))

    # Signals on their way.

    def _forward(self, node: _Node, signal: Signal) -> None:
        for upstream in node.upstreams:
            self._send(Edge(upstream, node.name), signal)

    def _send(self, edge: Edge, signal: Signal) -> None:
        self.signals += 1
        self._in_flight[edge].append(signal)

    def receive_signal(self, upstream: str, downstream: str) -> Signal:
        """Let the upstream hear the oldest signal that is in flight to it; returns the signal.

        Raises:
            LocalProtocolError: there is no such edge, or nothing is in flight on it.

        Spec: ReceiveSignal of Mute.
        """
        queue = self._queue(upstream, downstream)
        if not queue:
            raise LocalProtocolError(f"no signal is in flight from {downstream!r} to {upstream!r}")
        signal = queue.popleft()
        self._take_note(self._nodes[upstream], downstream, signal)
        return signal

    def _take_note(self, node: _Node, speaker: str, signal: Signal) -> None:
        muter, epoch = signal
        if epoch == GONE:
            self._lose(node, muter, speaker)
            return
        node.heard_from.setdefault(muter, set()).add(speaker)
        if epoch > node.epochs.get(muter, 0):
            node.epochs[muter] = epoch
            self._forward(node, signal)

    def receive(self, upstream: str, downstream: str, signal: Signal) -> None:
        """A signal of ``downstream``, in another process, has come; deliver it with ``settle``.

        Raises:
            LocalProtocolError: there is no such edge.
        """
        self._queue(upstream, downstream).append(signal)

    def take(self, upstream: str, downstream: str) -> list[Signal]:
        """Take all that is in flight to ``upstream``, which is in another process.

        Raises:
            LocalProtocolError: there is no such edge.
        """
        queue = self._queue(upstream, downstream)
        taken = [*queue]
        queue.clear()
        return taken

    def settle(self) -> Mapping[str, bool]:
        """Deliver all signals but those to remote nodes; returns the sources that this has muted or unmuted."""
        moving = True
        while moving:
            moving = False
            for edge, queue in self._in_flight.items():
                while queue and not self._nodes[edge.upstream].is_remote:
                    self.receive_signal(*edge)
                    moving = True
        changed = {name: is_muted for name in self._shown if (is_muted := self.is_muted(name)) != self._shown[name]}
        self._shown.update(changed)
        return changed

    # What can be seen.

    @property
    def in_flight(self) -> Mapping[Edge, tuple[Signal, ...]]:
        """The signals that are on their way, oldest first, by edge."""
        return {edge: tuple(queue) for edge, queue in self._in_flight.items() if queue}

    @property
    def sources(self) -> tuple[str, ...]:
        """The names of the sources."""
        return tuple(self._shown)

    def is_muted(self, source: str) -> bool:
        """Must the source not read?

        Raises:
            LocalProtocolError: it is not a source.

        Spec: IsMuted of Mute.
        """
        return bool(self.muted_by(source))

    def muted_by(self, source: str) -> frozenset[str]:
        """Who mutes a source: muters, and the source itself before ``start``.

        Raises:
            LocalProtocolError: it is not a source.
        """
        return self._source(source).muters()

    def is_muting(self, muter: str) -> bool:
        """Has the muter muted, and not unmuted since?

        Raises:
            LocalProtocolError: the node is not a muter.
        """
        return muter in self._muter(muter).muters()

    def heard(self, node: str) -> Mapping[str, int]:
        """The newest epoch that a node knows of each muter.

        Raises:
            LocalProtocolError: there is no such node.
        """
        return dict(self._node(node).epochs)

    def __contains__(self, name: str) -> bool:
        return name in self._nodes

    def _node(self, name: str) -> _Node:
        if name not in self._nodes:
            raise LocalProtocolError(f"there is no node {name!r}")
        return self._nodes[name]

    def _source(self, name: str) -> _Node:
        node = self._node(name)
        if not node.is_source:
            raise LocalProtocolError(f"{name!r} is not a source")
        return node

    def _muter(self, name: str) -> _Node:
        node = self._node(name)
        if node.marks is None:
            raise LocalProtocolError(f"{name!r} is not a muter")
        return node

    def _queue(self, upstream: str, downstream: str) -> deque[Signal]:
        if (queue := self._in_flight.get(Edge(upstream, downstream))) is None:
            raise LocalProtocolError(f"{upstream!r} and {downstream!r} are not connected")
        return queue

"""What a graph of stages looks like, without running it: stages by name, and the arcs between their ports.

A node says what kind of stage it is, with the numbers that decide whether its graph can come to a standstill.  The
names of the kinds are those of ``permitflow check graph``; ``KINDS`` has the class of each.
"""

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from itertools import count, groupby
from typing import ClassVar, Final, Self, TypeAlias

from permitflow.errors import BlueprintError, InvalidParametersError
from permitflow.stages.core.boundary import InputBoundary
from permitflow.stages.core.drop_queue import DropQueue, Overflow
from permitflow.stages.core.parameters import require_at_least

__all__ = [
    "KINDS",
    "MOST_STAGES",
    "Arc",
    "BalanceNode",
    "BlockingClientNode",
    "Blueprint",
    "BoundaryNode",
    "BroadcastNode",
    "BufferNode",
    "ChannelNode",
    "ConcatNode",
    "ConflateNode",
    "ExpandNode",
    "MergeNode",
    "MergePreferredNode",
    "Node",
    "SinkNode",
    "SourceNode",
    "StageNode",
    "UnboundedNode",
    "ZipNode",
]

MOST_STAGES: Final = 1_000
"""A graph with more stages is refused."""

Ports: TypeAlias = tuple[int, int | None]
"""The fewest and the most ports of one side; None: any number."""

_NAME = re.compile(r"[\w-]+")
_PORT = r"([\w-]+)(?:\.(\d{1,6}))?"
_ARC = re.compile(rf"{_PORT}\s*->\s*{_PORT}")


@dataclass(frozen=True)
class Node:
    """A stage of a blueprint."""

    kind: ClassVar[str] = ""
    inlets: ClassVar[Ports] = (1, 1)
    outlets: ClassVar[Ports] = (1, 1)

    def check(self) -> None:
        """Require that the numbers are in their ranges.

        Raises:
            InvalidParametersError: one is not.
        """


@dataclass(frozen=True)
class SourceNode(Node):
    """Elements from outside."""

    kind = "source"
    inlets = (0, 0)
    elements: int | None = None
    """None: endless."""

    def check(self) -> None:
        """``elements`` may be 0."""
        if self.elements is not None:
            require_at_least(0, elements=self.elements)


@dataclass(frozen=True)
class SinkNode(Node):
    """Takes all elements, as fast as they come."""

    kind = "sink"
    outlets = (0, 0)


@dataclass(frozen=True)
class StageNode(Node):
    """Takes elements and makes others of them; it asks when it is asked, and keeps no more than it works on.

    A map takes 1 and gives 1, a filter gives (0, 1), an expansion (0, None), a grouping takes several and gives 1; a
    smaller last group counts as a whole one.
    """

    kind = "stage"
    takes: int = 1
    gives: tuple[int, int | None] = (1, 1)
    """How many elements it makes of ``takes``, at least and at most; None: any number."""

    def check(self) -> None:
        """It takes at least one element; the least must not exceed the most."""
        require_at_least(1, takes=self.takes)
        if not isinstance(self.gives, tuple) or len(self.gives) != 2:
            raise InvalidParametersError(
                name="gives", value=self.gives, rule="must be a pair: the least, and the most or None"
            )
        least, most = self.gives
        require_at_least(0, gives=least)
        if most is not None:
            require_at_least(least, gives=most)


@dataclass(frozen=True)
class BufferNode(Node):
    """Keeps elements ahead of its consumer; it asks by itself while it has room, or always if its elements give way."""

    kind = "buffer"
    capacity: int
    overflow: Overflow = Overflow.BLOCK

    def check(self) -> None:
        """It has room for at least one element."""
        require_at_least(1, capacity=self.capacity)
        DropQueue(self.capacity, self.overflow)


@dataclass(frozen=True)
class UnboundedNode(Node):
    """Keeps any number of elements, on purpose."""

    kind = "unbounded"
    alarm: int | None = None
    """This many elements at once are too many."""

    def check(self) -> None:
        """An alarm is at least 1."""
        if self.alarm is not None:
            require_at_least(1, alarm=self.alarm)


@dataclass(frozen=True)
class BoundaryNode(Node):
    """``async_boundary``: asks for ``prefetch`` elements, then for half as many at a time."""

    kind = "boundary"
    prefetch: int = 16

    def check(self) -> None:
        """A power of two."""
        InputBoundary[object](self.prefetch)


@dataclass(frozen=True)
class ChannelNode(Node):
    """A channel: its producer sends while it has permits, which return in batches."""

    kind = "channel"
    window: int
    batch: int = 1

    def check(self) -> None:
        """A batch is smaller than the window."""
        require_at_least(1, batch=self.batch)
        require_at_least(self.batch + 1, window=self.window)


@dataclass(frozen=True)
class BroadcastNode(Node):
    """Gives each element to all outlets, once all have asked."""

    kind = "broadcast"
    outlets = (1, None)


@dataclass(frozen=True)
class BalanceNode(Node):
    """Gives each element to one outlet that has asked."""

    kind = "balance"
    outlets = (1, None)


@dataclass(frozen=True)
class ZipNode(Node):
    """Makes one element of one of each inlet; it asks all inlets when it is asked."""

    kind = "zip"
    inlets = (1, None)


@dataclass(frozen=True)
class MergeNode(Node):
    """Gives the elements of all inlets as they come; when it is asked, it asks all whose last element has left."""

    kind = "merge"
    inlets = (1, None)


@dataclass(frozen=True)
class MergePreferredNode(Node):
    """A merge in which an element of inlet 0 overtakes those of the others."""

    kind = "merge_preferred"
    inlets = (1, None)


@dataclass(frozen=True)
class ConcatNode(Node):
    """Gives the elements of its inlets, each when the one before it has ended."""

    kind = "concat"
    inlets = (1, None)


@dataclass(frozen=True)
class ConflateNode(Node):
    """Gathers all elements that come while nobody asks into one."""

    kind = "conflate"


@dataclass(frozen=True)
class ExpandNode(Node):
    """Gives the newest element as often as it is asked: at least once."""

    kind = "expand"


@dataclass(frozen=True)
class BlockingClientNode(Node):
    """Writes all elements of a request, ends its writing, and only then reads the answer."""

    kind = "blocking_client"
    writes: int
    receive_buffer: int = 0
    """Elements of the answer that are taken from the network while it writes."""

    def check(self) -> None:
        """It may write nothing."""
        require_at_least(0, writes=self.writes, receive_buffer=self.receive_buffer)


KINDS: Final[Mapping[str, type[Node]]] = {
    node.kind: node
    for node in (
        SourceNode,
        SinkNode,
        StageNode,
        BufferNode,
        UnboundedNode,
        BoundaryNode,
        ChannelNode,
        BroadcastNode,
        BalanceNode,
        ZipNode,
        MergeNode,
        MergePreferredNode,
        ConcatNode,
        ConflateNode,
        ExpandNode,
        BlockingClientNode,
    )
}
"""The class of each kind."""


@dataclass(frozen=True)
class Arc:
    """Joins an outlet of one stage to an inlet of another, or of the same."""

    producer: str
    consumer: str
    _: KW_ONLY
    outlet: int = 0
    inlet: int = 0

    def __str__(self) -> str:
        return f"{self.producer}.{self.outlet} -> {self.consumer}.{self.inlet}"


@dataclass(frozen=True)
class Blueprint:
    """A graph of stages.

    ``Blueprint.of(stages, ["orders -> merge", "merge -> copy", "copy.1 -> merge.1"])`` reads the arcs from texts.
    """

    stages: Mapping[str, Node]
    arcs: tuple[Arc, ...]

    def __post_init__(self) -> None:
        """Check names, numbers and ports.

        Raises:
            BlueprintError: something is wrong with a stage, or with one of its ports.
        """
        if len(self.stages) > MOST_STAGES:
            reason = f"it has {len(self.stages)} stages; at most {MOST_STAGES} are checked"
            raise BlueprintError(stage="", port="", arc=0, reason=reason)
        for name, node in self.stages.items():
            _check_stage(name, node)
        _check_ends(self.stages, self.arcs)
        for name, node in self.stages.items():
            _check_connected(name, "inlet", node.inlets[0], [arc.inlet for arc in self.into(name)])
            _check_connected(name, "outlet", node.outlets[0], [arc.outlet for arc in self.out_of(name)])

    @classmethod
    def of(cls, stages: Mapping[str, Node], arcs: Iterable[str]) -> Self:
        """Read arcs from texts, ``"copy -> merge"``: the ports are numbered in their order.

        ``"copy.1 -> merge.0"`` names them; the others of the same stage get the numbers that are left.

        Raises:
            BlueprintError: an arc is not such a text, or as for ``Blueprint``.
        """
        return cls(stages, tuple(_numbered(arcs)))

    def into(self, stage: str) -> tuple[Arc, ...]:
        """The arcs into a stage, in the order of its inlets."""
        return self._into.get(stage, ())

    def out_of(self, stage: str) -> tuple[Arc, ...]:
        """The arcs out of a stage, in the order of its outlets."""
        return self._out_of.get(stage, ())

    @cached_property
    def _into(self) -> dict[str, tuple[Arc, ...]]:
        arcs = sorted(self.arcs, key=lambda arc: (arc.consumer, arc.inlet))
        return {name: tuple(group) for name, group in groupby(arcs, key=lambda arc: arc.consumer)}

    @cached_property
    def _out_of(self) -> dict[str, tuple[Arc, ...]]:
        arcs = sorted(self.arcs, key=lambda arc: (arc.producer, arc.outlet))
        return {name: tuple(group) for name, group in groupby(arcs, key=lambda arc: arc.producer)}


def _check_stage(name: str, node: Node) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BlueprintError(
            stage=str(name), port="", arc=0, reason="its name must be letters, digits, - and _ without a blank"
        )
    if type(node) not in KINDS.values():
        raise BlueprintError(stage=name, port="", arc=0, reason=f"must be one of {', '.join(KINDS)}, not {node!r}")
    try:
        node.check()
    except InvalidParametersError as error:
        raise BlueprintError(stage=name, port="", arc=0, reason=str(error)) from error


def _check_ends(stages: Mapping[str, Node], arcs: tuple[Arc, ...]) -> None:
    """Each arc joins two ports that exist, and no port has two arcs."""
    joined: Counter[tuple[str, str]] = Counter()
    for number, arc in enumerate(arcs, 1):
        for name, side, port in (
            (arc.producer, "outlet", arc.outlet),
            (arc.consumer, "inlet", arc.inlet),
        ):
            if name not in stages:
                raise BlueprintError(stage=name, port="", arc=number, reason=f"there is no such stage: {arc}")
            most = stages[name].outlets[1] if side == "outlet" else stages[name].inlets[1]
            told = f"{side} {port}"
            if port < 0 or (most is not None and port >= most):
                has = f"a {stages[name].kind} has {most if most else 'no'} {side}{'' if most == 1 else 's'}"
                raise BlueprintError(stage=name, port=told, arc=number, reason=f"{has}: {arc}")
            joined[name, told] += 1
            if joined[name, told] > 1:
                raise BlueprintError(
                    stage=name, port=told, arc=number, reason=f"it is connected twice, the second time by {arc}"
                )


def _check_connected(name: str, side: str, least: int, connected: list[int]) -> None:
    for port in range(max(least, len(connected))):
        if port not in connected:
            raise BlueprintError(stage=name, port=f"{side} {port}", arc=0, reason="it is not connected")


def _numbered(texts: Iterable[str]) -> list[Arc]:
    ends: list[tuple[str, int | None]] = []
    for number, text in enumerate(texts, 1):
        match = _ARC.fullmatch(text.strip()) if isinstance(text, str) else None
        if match is None:
            reason = f"{text!r} is not an arc; write it as 'copy -> merge', or 'copy.1 -> merge.0'"
            raise BlueprintError(stage="", port="", arc=number, reason=reason)
        ends += [(name, None if port is None else int(port)) for name, port in (match.group(1, 2), match.group(3, 4))]
    producers, consumers = _filled(ends[::2]), _filled(ends[1::2])
    return [
        Arc(producer, consumer, outlet=outlet, inlet=inlet)
        for (producer, outlet), (consumer, inlet) in zip(producers, consumers, strict=True)
    ]


def _filled(ends: list[tuple[str, int | None]]) -> list[tuple[str, int]]:
    """Number the ports that have no number, with the lowest ones that are left."""
    used = {(name, port) for name, port in ends if port is not None}
    free: dict[str, Iterator[int]] = {}
    filled = []
    for name, port in ends:
        if port is None:
            numbers = free.setdefault(name, count())
            port = next(number for number in numbers if (name, number) not in used)
        filled.append((name, port))
    return filled

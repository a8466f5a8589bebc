"""A blueprint as an island of the library's own stages, moved event by event; data and outside are the test's."""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import repeat
from math import inf
from typing import Any

from permitflow import ChannelParameters, LocalReceiver, LocalSender, open_channel
from permitflow.errors import LocalProtocolError
from permitflow.stages import Connection, Stage
from permitflow.stages.blueprint import Blueprint, Node, StageNode
from permitflow.stages.core.boundary import AsyncBoundary
from permitflow.stages.core.edges import Entry, Exit
from permitflow.stages.core.elements import Filter, Map, MapConcat
from permitflow.stages.core.graph import Balance, Broadcast, Concat, Merge, Zip
from permitflow.stages.core.ports import EMPTY, IN_READY, OUT_READY, PUSHING, Island
from permitflow.stages.core.rates import Batch, Buffer, Expand, Unbounded

Choose = Callable[[], bool]
"""What the data decide, where they may: one more element?"""


class Taker(Exit[int]):
    """A sink: it takes each element at once."""

    def on_push(self, inlet: Connection[int]) -> None:
        inlet.grab()


class Groups(MapConcat[int, int]):
    """As ``map_concat``, of so many elements at a time; a smaller last group counts as a whole one."""

    def __init__(self, takes: int, function: Callable[[int], Iterator[int]]) -> None:
        super().__init__(function)
        self._takes = takes
        self._taken = 0
        self._make = function

    def holds(self) -> bool:
        return self._taken > 0 or super().holds()

    def on_push(self, inlet: Connection[int]) -> None:
        self._taken += 1
        if self._taken < self._takes:
            inlet.grab()
            inlet.pull()
        else:
            self._taken = 0
            super().on_push(inlet)

    def on_upstream_finish(self, inlet: Connection[int]) -> None:
        if self._taken:
            self._taken, self._rest = 0, self._make(0)
            self.is_ended = True
            if self.outlet.is_asked:
                self.on_pull(self.outlet)
        else:
            super().on_upstream_finish(inlet)


class Channel(Stage[int, int]):
    """A channel of the library between two tasks that do at once what they can."""

    acts_alone = True

    def __init__(self, window: int, batch: int) -> None:
        super().__init__()
        ends: tuple[LocalSender[list[int]], LocalReceiver[list[int]]] = open_channel(
            ChannelParameters(row_permits=window, permit_batch=batch)
        )
        self._sender, self._receiver = ends
        self._waits = EMPTY
        self._sent = 0
        self._is_taken = self._is_ended = False

    def start(self) -> None:
        self.inlet.pull()

    def on_push(self, inlet: Connection[int]) -> None:
        self._waits = inlet.grab()
        self._go_on()

    def on_pull(self, outlet: Connection[int]) -> None:
        if self._is_taken:
            self._is_taken = False
            self._receiver.consume()
        self._go_on()

    def on_upstream_finish(self, inlet: Connection[int]) -> None:
        self._is_ended = True
        self._go_on()

    def _go_on(self) -> None:
        if self._waits is not EMPTY and self._sender.sendable_rows:
            self._sender.send_nowait([self._waits])
            self._waits, self._sent = EMPTY, self._sent + 1
            self.ask(self.inlet)
        if self._sent and self.outlet.is_asked:
            (element,) = self._receiver.take_nowait().payload
            self._sent, self._is_taken = self._sent - 1, True
            self.outlet.push(element)
        elif self._is_ended and self._waits is EMPTY and not self._sent:
            self.complete_stage()


class Writing(Entry[int]):
    """The socket of a blocking client, into which it writes so many elements before it reads."""

    def __init__(self, writes: int, reading: "Reading") -> None:
        super().__init__()
        self._left = writes
        self._reading = reading

    def start(self) -> None:
        self._go_on()

    def on_pull(self, outlet: Connection[int]) -> None:
        self._left -= 1
        outlet.push(0)
        self._go_on()

    def on_downstream_finish(self, outlet: Connection[int]) -> None:
        self._left = 0
        self._go_on()

    def _go_on(self) -> None:
        if not self._left:
            self.outlet.complete()
            self._reading.read_all()


class Reading(Exit[int]):
    """The other direction: as much as the receive buffer holds, until all is written; then everything."""

    def __init__(self, receive_buffer: int) -> None:
        super().__init__()
        self._room: float = receive_buffer

    def start(self) -> None:
        self._go_on()

    def on_push(self, inlet: Connection[int]) -> None:
        inlet.grab()
        self._room -= 1
        self._go_on()

    def read_all(self) -> None:
        """All is written."""
        self._room = inf
        self._go_on()

    def _go_on(self) -> None:
        if self._room:
            self.ask(self.inlet)


def _ratio(node: StageNode, choose: Choose) -> Stage[int, int]:
    least, most = node.gives
    if node.takes == most == 1:
        return Map(lambda element: element) if least else Filter(lambda _: choose())

    def made(_: int) -> Iterator[int]:
        given = 0
        while (most is None or given < most) and (given < least or choose()):
            yield 0
            given += 1

    return Groups(node.takes, made)


MAKE: dict[str, Callable[[Any, Choose], Stage[Any, Any]]] = {
    "source": lambda _node, _: Entry[int](),
    "sink": lambda _node, _: Taker(),
    "stage": _ratio,
    "buffer": lambda node, _: Buffer(node.capacity, node.overflow),
    "unbounded": lambda node, _: Unbounded(node.alarm or 1, lambda _: None),
    "boundary": lambda node, _: AsyncBoundary(node.prefetch),
    "channel": lambda node, _: Channel(node.window, node.batch),
    "broadcast": lambda _node, _: Broadcast(),
    "balance": lambda _node, _: Balance(),
    "zip": lambda _node, _: Zip(lambda *_: 0),
    "merge": lambda _node, _: Merge(),
    "merge_preferred": lambda _node, _: Merge(prefers_first=True),
    "concat": lambda _node, _: Concat(),
    "conflate": lambda _node, _: Batch(inf, lambda _: 0, lambda element: element, lambda gathered, _: gathered),
    "expand": lambda _node, _: Expand(repeat),
}


class RealGraph:
    """The stages of a blueprint, connected and begun."""

    def __init__(self, blueprint: Blueprint, choose: Callable[[str], bool], *, in_asyncio: bool = False) -> None:
        """``choose`` is asked with the name of a stage whose data decide: one more?

        ``in_asyncio``: it does not begin, and its sinks are exits that tasks read.
        """
        self.blueprint = blueprint
        self.given: Counter[str] = Counter()
        self.island = Island()
        self.readers: dict[str, Stage[Any, Any]] = {}
        """What takes the elements into each stage."""
        self.writers: dict[str, Stage[Any, Any]] = {}
        for name, node in blueprint.stages.items():
            if in_asyncio and node.kind == "sink":
                self.readers[name] = self.writers[name] = Exit()
                continue
            self._add(name, node, lambda name=name: choose(name))  # type: ignore[misc]  # mypy knows no default of a lambda
        has_loop = _has_loop(blueprint)
        self.connections = [
            self.island.connect(self.writers[arc.producer], self.readers[arc.consumer], is_back=has_loop)
            for arc in blueprint.arcs
        ]
        places = dict(zip(self.connections, blueprint.arcs, strict=True))
        for name in blueprint.stages:
            reader, writer = self.readers[name], self.writers[name]
            reader.inlets.sort(key=lambda each: places[each].inlet)
            writer.outlets.sort(key=lambda each: places[each].outlet)
            for inlet in reader.inlets[:1]:
                reader.inlet = inlet
            for outlet in writer.outlets[:1]:
                writer.outlet = outlet
        if not in_asyncio:
            in_order = [each for name in blueprint.stages for each in (self.writers[name], self.readers[name])]
            self.island.begin(dict.fromkeys(in_order))

    def _add(self, name: str, node: Node, choose: Choose) -> None:
        if node.kind == "blocking_client":
            reading = Reading(node.receive_buffer)  # type: ignore[attr-defined]  # its kind says so
            self.readers[name] = reading
            self.writers[name] = Writing(node.writes, reading)  # type: ignore[attr-defined]  # its kind says so
        else:
            self.readers[name] = self.writers[name] = MAKE[node.kind](node, choose)

    def tokens(self) -> tuple[str, ...]:
        """Where the token of each arc is, in the words of the model."""
        return tuple(token_of(connection) for connection in self.connections)

    # The moves of the model.

    def run_event(self) -> None:
        """The island runs its next event."""
        self.island.run(1)

    def give(self, name: str) -> None:
        """A source gives an element.

        Raises:
            LocalProtocolError: it has none, or is not asked.
        """
        if self.is_spent(name):
            raise LocalProtocolError(f"{name} has no element left")
        self.given[name] += 1
        self.writers[name].outlet.push(0)

    def end(self, name: str) -> None:
        """A source ends."""
        self.writers[name].outlet.complete()

    def is_spent(self, name: str) -> bool:
        """Has a source given all that it has?"""
        return bool(self.given[name] == vars(self.blueprint.stages[name])["elements"])

    def want(self, name: str) -> None:
        """A sink asks."""
        self.readers[name].inlet.pull()

    def leave(self, name: str) -> None:
        """A sink wants nothing more."""
        self.readers[name].inlet.cancel()

    # What the outside may do.

    def asked_sources(self) -> list[str]:
        """Those that may give, or end."""
        return [
            name
            for name, node in self.blueprint.stages.items()
            if node.kind == "source"
            and self.writers[name].outlet.state & OUT_READY
            and not self.writers[name].outlet.is_out_closed
        ]

    def idle_sinks(self) -> list[str]:
        """Those that may ask."""
        return [
            name
            for name, node in self.blueprint.stages.items()
            if node.kind == "sink" and token_of(self.readers[name].inlet) == "idle"
        ]

    def open_sinks(self) -> list[str]:
        """Those that may leave."""
        sinks = [name for name, node in self.blueprint.stages.items() if node.kind == "sink"]
        return [name for name in sinks if not self.readers[name].inlet.is_in_closed]

    def has_ended(self) -> bool:
        """Have all ends heard of the end?"""
        return all(each.inlet.is_in_closed for each in self.readers.values() if not each.outlets)


def token_of(connection: Connection[Any]) -> str:
    """The model's word."""
    state, is_here = connection.state, connection.is_available
    match connection.is_in_closed, connection.is_out_closed:
        case True, True:
            return "here, ended" if is_here else "closed"
        case True, False:
            return "asked, cancelled" if state & OUT_READY else "cancelled"
        case False, True:
            if state & PUSHING:
                return "element, ending"
            return "here, ending" if is_here else "ending"
        case _:
            if state & IN_READY:
                return "here" if is_here else "idle"
            if state & PUSHING:
                return "element"
            return "asked" if state & OUT_READY else "asking"


def _has_loop(blueprint: Blueprint) -> bool:
    left = {name for name, node in blueprint.stages.items() if node.kind != "blocking_client"}
    while first := {name for name in left if not any(arc.producer in left for arc in blueprint.into(name))}:
        left -= first
    return bool(left)

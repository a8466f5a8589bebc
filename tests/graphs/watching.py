"""What a real graph does under some data and some schedule, without any model: where it moves, and whether it ends."""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Any, Final

from permitflow.stages import Connection
from permitflow.stages.blueprint import Arc, Blueprint, SourceNode
from tests.graphs.real import RealGraph

EVENTS_IN_A_TURN: Final = 60
"""An island that does not come to rest lets the outside move after so many."""
PATIENCE: Final = 6
"""A source that may give, and a sink that may ask, does so after it was passed over so often: a schedule is fair."""


class Schedule(Enum):
    """Who moves when both sources and sinks may."""

    BY_CHANCE = "by chance"
    SINKS_FIRST = "sinks first"
    SOURCES_FIRST = "sources first"
    BY_RANK = "by rank"
    """Each has a rank, drawn once: so one may always come late."""


@dataclass(frozen=True)
class Watch:
    """Data and a schedule."""

    seed: int
    schedule: Schedule
    greed: float | None
    """How often the data choose one more; None: each stage has its own mind, and keeps to it."""


@dataclass(frozen=True)
class Seen:
    """What was seen."""

    is_still: bool
    """Nothing can move, and an end has not heard of the end."""
    is_spent: bool
    """All sources with a number have ended, and there is one."""
    open_sinks: frozenset[str]
    """They have not heard of the end."""
    silent: frozenset[Arc]
    """Arcs that are open, and had no event in the second half."""


class _Outside:
    """Sources and sinks, which move in a fair order."""

    def __init__(self, real: RealGraph, choose: Random, schedule: Schedule) -> None:
        self._real, self._choose, self._schedule = real, choose, schedule
        self._passed_over: Counter[str] = Counter()
        names = [*real.blueprint.stages]
        self._ranks = dict(zip(names, choose.sample(range(len(names)), len(names)), strict=True))

    def move(self) -> bool:
        """Move one; False: none can."""
        real, choose = self._real, self._choose
        sinks, sources = real.idle_sinks(), real.asked_sources()
        if not sinks and not sources:
            return False
        patient = [name for name in (*sinks, *sources) if self._passed_over[name] >= PATIENCE]
        preferred = {
            Schedule.BY_CHANCE: [*sinks, *sources],
            Schedule.SINKS_FIRST: sinks or sources,
            Schedule.SOURCES_FIRST: sources or sinks,
            Schedule.BY_RANK: sorted((*sinks, *sources), key=self._ranks.__getitem__)[:1],
        }
        name = choose.choice(patient or preferred[self._schedule])
        self._passed_over.update((*sinks, *sources))
        self._passed_over[name] = 0
        if name in sinks:
            real.want(name)
        elif real.is_spent(name):
            real.end(name)
        else:
            real.give(name)
        return True


def watched(real: RealGraph, choose: Random, schedule: Schedule, turns: int) -> Seen:
    """Let the outside move so many times, and the island after each."""
    arcs = dict(zip(real.connections, real.blueprint.arcs, strict=True))
    outside = _Outside(real, choose, schedule)
    moved: set[Arc] = set()
    is_still = False
    for turn in range(turns):
        if turn == turns // 2:
            moved.clear()
        for connection in _events(real):
            moved.add(arcs[connection])
        if not outside.move() and not real.island.has_events:
            is_still = True
            break
    open_arcs = {arc for connection, arc in arcs.items() if not (connection.is_in_closed or connection.is_out_closed)}
    counted = [
        arc
        for arc in real.blueprint.arcs
        if isinstance(node := real.blueprint.stages[arc.producer], SourceNode) and node.elements is not None
    ]
    kinds = {name: node.kind for name, node in real.blueprint.stages.items()}
    return Seen(
        is_still=is_still and not real.has_ended(),
        is_spent=bool(counted) and open_arcs.isdisjoint(counted),
        open_sinks=frozenset(
            name for name, kind in kinds.items() if kind == "sink" and not real.readers[name].inlet.is_in_closed
        ),
        silent=frozenset(open_arcs if is_still else open_arcs - moved),
    )


def _events(real: RealGraph) -> Iterator[Connection[Any]]:
    for _ in range(EVENTS_IN_A_TURN):
        connection = real.island.next_connection
        if connection is None:
            return
        real.run_event()
        yield connection


def begun(blueprint: Blueprint, watch: Watch) -> tuple[RealGraph, Random]:
    """A graph at its beginning, with its data."""
    choose = Random(watch.seed)
    return RealGraph(blueprint, data(blueprint, watch, choose)), choose


def data(blueprint: Blueprint, watch: Watch, choose: Random) -> Callable[[str], bool]:
    """What the data choose.  Nothing chooses one more for ever, because no element makes an endless number."""
    minds = {name: watch.greed or choose.choice((0.1, 0.9)) for name in blueprint.stages}
    return lambda name: choose.random() < minds[name]

"""What a real graph does under some data and some schedule, without any model: where it moves, and whether it ends."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum
from random import Random

from permitflow.stages.blueprint import Arc, Blueprint
from tests.graphs.real import RealGraph

EVENTS_IN_A_TURN = 40
"""An island that does not come to rest lets the outside move after so many."""


class Schedule(Enum):
    """Who moves when both sources and sinks may; each is fair."""

    BY_CHANCE = "by chance"
    SINKS_FIRST = "sinks first"
    SOURCES_FIRST = "sources first"


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
    has_ended: bool
    silent: frozenset[Arc]
    """Arcs that are open, and had no event in the second half."""


def watched(real: RealGraph, choose: Random, schedule: Schedule, moves: int, *, ends: bool = False) -> Seen:
    """Move a graph on; ``ends``: its sources end as soon as they are asked."""
    arcs = dict(zip(real.connections, real.blueprint.arcs, strict=True))
    moved: set[Arc] = set()
    is_still = False
    events = 0
    for number in range(moves):
        if number == moves // 2:
            moved.clear()
        connection = real.island.next_connection
        if connection is not None and events < EVENTS_IN_A_TURN:
            events += 1
            moved.add(arcs[connection])
            real.run_event()
            continue
        events = 0
        sinks, sources = real.idle_sinks(), real.asked_sources()
        if not sinks and not sources:
            if connection is None:
                is_still = True
                break
            continue
        if sinks and (not sources or _sinks_move(choose, schedule)):
            real.want(choose.choice(sinks))
        else:
            source = choose.choice(sources)
            (real.end if ends or real.is_spent(source) else real.give)(source)
    open_arcs = {arc for connection, arc in arcs.items() if not (connection.is_in_closed or connection.is_out_closed)}
    has_ended = real.has_ended()
    return Seen(is_still and not has_ended, has_ended, frozenset(open_arcs if is_still else open_arcs - moved))


def _sinks_move(choose: Random, schedule: Schedule) -> bool:
    # The other side has its turn now and then.
    often = {Schedule.BY_CHANCE: 0.5, Schedule.SINKS_FIRST: 0.95, Schedule.SOURCES_FIRST: 0.05}
    return choose.random() < often[schedule]


def begun(blueprint: Blueprint, watch: Watch) -> tuple[RealGraph, Random]:
    """A graph at its beginning, with its data."""
    choose = Random(watch.seed)
    return RealGraph(blueprint, data(blueprint, watch, choose)), choose


def data(blueprint: Blueprint, watch: Watch, choose: Random) -> Callable[[str], bool]:
    """What the data choose.  Nothing chooses one more for ever, because no element makes an endless number."""
    minds = {name: watch.greed or choose.choice((0.1, 0.9)) for name in blueprint.stages}
    return lambda name: choose.random() < minds[name]

"""A blueprint as a run in asyncio: a task for each source and for each sink, in simulated time."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from random import Random
from typing import Any

from permitflow.errors import StalledGraphError
from permitflow.stages import Elements
from permitflow.stages.blueprint import Blueprint, SourceNode
from permitflow.stages.core.edges import Entry, Exit
from permitflow.stages.running import Plan, elements_of
from tests.graphs.real import RealGraph
from tests.graphs.watching import Watch, data
from tests.support.simulated_time import in_simulated_time

ELEMENTS = 40
"""After so many at each sink, a run is left."""
TURNS = 5_000
"""Of the event loop; after so many, a sink that still waits is silent."""


@dataclass(frozen=True)
class Run:
    """How it went, at each sink that had not left."""

    stalls: tuple[StalledGraphError, ...]
    """At sinks to which nothing can come any more."""
    silent: tuple[str, ...]
    """Sinks to which nothing came, and nothing was told."""


async def _elements(node: SourceNode, choose: Random) -> AsyncIterator[int]:
    given = 0
    while given != node.elements:
        if choose.random() < 0.3:
            await asyncio.sleep(0)  # no time: a loop may keep the clock from moving
        yield given
        given += 1


def run(blueprint: Blueprint, watch: Watch) -> Run:
    """Run a blueprint, for so many elements at each sink; all of its tasks end."""
    return in_simulated_time(_run(blueprint, watch))


async def _run(blueprint: Blueprint, watch: Watch) -> Run:
    choose = Random(watch.seed)
    real = RealGraph(blueprint, data(blueprint, watch, choose), in_asyncio=True)
    entries: list[tuple[Entry[Any], AsyncIterator[int]]] = []
    exits: dict[str, Exit[Any]] = {}
    for name, node in blueprint.stages.items():
        match node, real.writers[name]:
            case SourceNode(), Entry() as entry:
                entries.append((entry, _elements(node, choose)))
            case _, Exit() as exit_:
                exits[name] = exit_
    stalls: list[StalledGraphError] = []
    silent: list[str] = []

    async def take(name: str, elements: Elements[Any]) -> None:
        try:
            for _ in range(ELEMENTS):
                await anext(elements)
                if choose.random() < 0.3:
                    await asyncio.sleep(0)
        except StopAsyncIteration:
            pass
        except StalledGraphError as error:
            stalls.append(error)
        except asyncio.CancelledError:
            silent.append(name)
        await elements.aclose()

    runs = elements_of(Plan(real.island, entries, [*exits.values()]))
    async with asyncio.TaskGroup() as tasks:
        takers = [tasks.create_task(take(name, elements)) for name, elements in zip(exits, runs, strict=True)]
        for _ in range(TURNS):
            if all(taker.done() for taker in takers):
                break
            await asyncio.sleep(0)
        for taker in takers:
            taker.cancel()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    return Run(tuple(stalls), tuple(silent))

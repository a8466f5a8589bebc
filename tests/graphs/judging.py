"""Does a verdict agree with what a real graph does?  Each disagreement is told in a sentence."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import chain, product
from random import Random
from typing import Final

from permitflow.errors import LocalProtocolError
from permitflow.stages.blueprint import BlockingClientNode, Blueprint, SourceNode, UnboundedNode
from permitflow_model.kernel.system import Disabled
from permitflow_testing.moves import Divergence
from permitflow_tools.checking import GraphVerdict
from tests.graphs.running import run
from tests.graphs.stepping import Stepping
from tests.graphs.watching import Schedule, Seen, Watch, begun, watched

TURNS: Final = 150
"""Of the outside, in a run that is watched: twelve stages come to a standstill meanwhile, or move everywhere."""
LONG_TURNS: Final = 6 * TURNS
WATCHES: Final = [
    Watch(seed, schedule, greed) for seed, (schedule, greed) in enumerate(product([*Schedule][:3], (0.5, None, None)))
]
"""Several data and schedules."""
RANKED: Final = [Watch(seed, Schedule.BY_RANK, None) for seed in range(48)]
"""More, to starve an input."""


def disagreements(blueprint: Blueprint, verdict: GraphVerdict, watches: Sequence[Watch] = WATCHES) -> Iterator[str]:
    """What reality says against a verdict."""
    seen = {watch: _seen(blueprint, watch, TURNS) for watch in watches}
    match verdict.verdict:
        case "live":
            yield from _against_life(blueprint, seen)
        case "deadlock":
            yield from _against_deadlock(blueprint, verdict, seen.values())
        case "starves":
            if any(each.is_still for each in seen.values()):
                yield "it stands still"
            ranked = (_seen(blueprint, watch, TURNS) for watch in RANKED)
            if verdict.moves:
                yield from _against_circle(blueprint, verdict)
            elif not any(each.silent for each in chain(seen.values(), ranked)):
                yield "every inlet is served in all runs"
        case "never completes":
            if any(each.is_still and not each.is_spent for each in seen.values()):
                yield "it stands still before its sources have ended"
            if not any(each.open_sinks for each in seen.values()):
                yield "it completes in all runs"


def told_by_runs(blueprint: Blueprint, verdict: GraphVerdict, watches: Sequence[Watch]) -> Iterator[str]:
    """What runs in asyncio say against a verdict: a graph that goes on never stalls, and no sink waits in silence."""
    is_with_client = any(isinstance(node, BlockingClientNode) for node in blueprint.stages.values())
    if is_with_client or verdict.verdict not in ("live", "starves"):
        return
    for watch in watches:
        went = run(blueprint, watch)
        if went.stalls:
            yield f"a run has failed: {went.stalls[0]}"
        if went.silent and verdict.verdict == "live":
            yield f"in a run nothing came to {', '.join(went.silent)}"


def _seen(blueprint: Blueprint, watch: Watch, turns: int) -> Seen:
    real, choose = begun(blueprint, watch)
    return watched(real, choose, watch.schedule, turns)


def _against_life(blueprint: Blueprint, seen: Mapping[Watch, Seen]) -> Iterator[str]:
    if any(each.is_still for each in seen.values()):
        yield "it stands still"
        return
    # Where the data let little pass, a longer run tells more.
    silent = {arc for watch, each in seen.items() if each.silent for arc in _seen(blueprint, watch, LONG_TURNS).silent}
    if silent:
        yield f"nothing moves at {', '.join(sorted(map(str, silent)))}"
    ending = {name for name in blueprint.stages if _has_an_end(blueprint, name)}
    if late := {name for each in seen.values() for name in each.open_sinks & ending}:
        yield f"{', '.join(sorted(late))} do not hear of the end"


def _has_an_end(blueprint: Blueprint, name: str) -> bool:
    """Do all elements of a stage come from sources that end?"""
    before, ahead = {name}, [name]
    while ahead:
        more = {arc.producer for arc in blueprint.into(ahead.pop())} - before
        before |= more
        ahead += more
    return all(node.elements is not None for each in before if isinstance(node := blueprint.stages[each], SourceNode))


def _against_circle(blueprint: Blueprint, verdict: GraphVerdict) -> Iterator[str]:
    """A run that ends with a circle in which an inlet is not served."""
    stepping = Stepping(blueprint)
    states, tokens = [stepping.state], [stepping.real.tokens()]
    try:
        for action, arguments in verdict.moves:
            stepping.move(action, *arguments)
            states.append(stepping.state)
            tokens.append(stepping.real.tokens())
    except (Divergence, Disabled, LocalProtocolError) as error:
        yield f"its run cannot be replayed: {error}"
        return
    # What has no bound may grow meanwhile.
    counted = [n for n, node in enumerate(blueprint.stages.values()) if not isinstance(node, UnboundedNode)]
    same = [(state.arcs, state.queue, *(state.stages[n] for n in counted)) for state in states]
    begin = same.index(same[-1])
    if begin == len(states) - 1:
        yield "its run does not come back to where it was"
    starving = verdict.ring[0]
    arcs = [n for n, arc in enumerate(blueprint.arcs) if (arc.producer, arc.consumer) == (starving.stage, starving.on)]
    if not any(len({each[arc] for each in tokens[begin:]}) == 1 for arc in arcs):
        yield f"its run serves {starving.stage}"


def _against_deadlock(blueprint: Blueprint, verdict: GraphVerdict, seen: Iterable[Seen]) -> Iterator[str]:
    if not verdict.moves:
        if not any(each.is_still or each.silent for each in seen):
            yield "no part of it stands still, and there is no run to replay"
        return
    stepping = Stepping(blueprint)
    try:
        for action, arguments in verdict.moves:
            stepping.move(action, *arguments)
    except (Divergence, Disabled, LocalProtocolError) as error:
        yield f"its run cannot be replayed: {error}"
        return
    real = stepping.real
    ring = {each.stage for each in verdict.ring} | {each.on for each in verdict.ring}
    connections = dict(zip(blueprint.arcs, real.connections, strict=True))
    waits = [
        arc
        for wait in verdict.ring
        for arc in blueprint.arcs
        if {arc.producer, arc.consumer} == {wait.stage, wait.on} and not connections[arc].is_out_closed
    ]
    if len({arc.producer for arc in waits} | {arc.consumer for arc in waits} | ring) > len(ring) or not waits:
        yield f"its ring {sorted(ring)} has no arcs"
    # Several arcs may join two stages of a ring; a dead one must be among them.
    after = watched(real, Random(0), Schedule.BY_CHANCE, TURNS)
    for wait in verdict.ring:
        joining = [arc for arc in waits if {arc.producer, arc.consumer} == {wait.stage, wait.on}]
        if not any(arc in after.silent for arc in joining):
            yield f"{wait.stage} does not wait for {wait.on}: something moves there"

"""Whether a graph of stages can stand still, and what would help, with numbers.

The same analysis checks each proposal.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Final

from permitflow.errors import InvalidParametersError, counted
from permitflow.stages import Arc, Blueprint, Overflow
from permitflow.stages.blueprint import (
    BlockingClientNode,
    BroadcastNode,
    BufferNode,
    ConcatNode,
    MergeNode,
    MergePreferredNode,
    Node,
    SourceNode,
    StageNode,
    ZipNode,
)
from permitflow_tools.checking.graphs import GraphVerdict, GraphWait, decide, notes_on
from permitflow_tools.checking.graphs_search import Budget, BudgetSpent
from permitflow_tools.checking.graphs_structure import blocks_of, supply_of

_EVENTS: Final = 12_000
"""The most events that may be run for each proposal."""
_EVENTS_FOR_ALL: Final = 30_000
"""... and for all together."""
_EVENTS_FOR_A_STAGE: Final = 20
"""What it costs to look at the form of a graph, for each of its stages."""
_MOST_PLACES: Final = 1_000


def check_graph(blueprint: Blueprint) -> GraphVerdict:
    """Decide whether stages can wait for each other for ever, whether an input starves, and whether all sinks end.

    For all data that the ratios permit, and all orders in which sources give and sinks ask.

    Raises:
        InvalidParametersError: it is not a blueprint.
        ModuleNotFoundError: networkx is not installed; ``permitflow[graphs]`` has it.
    """
    if not isinstance(blueprint, Blueprint):
        raise InvalidParametersError(
            name="blueprint", value=blueprint, rule="must be a Blueprint, as blueprint_of(source) makes one"
        )
    verdict = decide(blueprint)
    advice: list[str] = []
    notes = [*notes_on(blueprint)]
    try:
        for each in advice_for(_around(blueprint, verdict.ring), verdict, verdict.written):
            advice.append(each)
    except BudgetSpent:
        notes.append("more may help than is told: the search for it was ended, because it takes long")
    return replace(verdict, advice=tuple(dict.fromkeys(advice)), notes=tuple(notes))


def _around(blueprint: Blueprint, ring: Sequence[GraphWait]) -> Blueprint:
    """The block of a ring: what helps there does not depend on the rest, and is found sooner."""
    stages = {wait.stage for wait in ring}
    blocks = (block.blueprint for block in blocks_of(blueprint) if stages and stages <= {*block.inner})
    return next(blocks, blueprint)


def advice_for(blueprint: Blueprint, verdict: GraphVerdict, written: int) -> Iterator[str]:
    """Each alone helps; ``written``: the elements that a blocking client in the ring had written.

    Raises:
        BudgetSpent: perhaps more would help, but that was not looked for.
    """
    trials = _Trials(_EVENTS_FOR_ALL)
    match verdict.verdict:
        case "deadlock":
            for wait in verdict.ring:
                node = blueprint.stages.get(wait.stage)
                if isinstance(node, BlockingClientNode) and node.writes > written:
                    is_echo = all(
                        each.takes == each.gives[0] == each.gives[1]
                        for each in blueprint.stages.values()
                        if isinstance(each, StageNode)
                    )
                    yield from _for_client(wait.stage, node, written, is_echo=is_echo)
                    return
            if all(not _is_for_element(wait) for wait in verdict.ring):
                yield from _for_loop(blueprint, verdict.ring, trials)
            elif all(_is_for_element(wait) for wait in verdict.ring):
                yield from _for_missing_element(blueprint, verdict.ring, trials)
            else:
                yield from _for_branches(blueprint, verdict.ring, trials)
        case "starves":
            yield from _for_starving(blueprint, verdict.ring[0], trials)
        case "never completes":
            yield "let what is behind the loop end it: a take, or a consumer that leaves, cancels the loop"


def _is_for_element(wait: GraphWait) -> bool:
    return wait.why.startswith("needs")


class _Trials:
    """Decides what proposals lead to, all within one budget."""

    def __init__(self, events: int) -> None:
        """``events`` may be run for all."""
        self._left = events

    def outcome(self, blueprint: Blueprint, events: int = _EVENTS) -> str:
        """The verdict on a graph.

        Raises:
            BudgetSpent: too little is left to decide it as well as others.
        """
        self._left -= _EVENTS_FOR_A_STAGE * len(blueprint.stages)
        budget = Budget(max(0, min(events, self._left)))
        self._left -= budget.left
        is_short = budget.left < events
        outcome = decide(blueprint, budget).verdict
        self._left += max(0, budget.left)
        if is_short and outcome == "unknown":
            raise BudgetSpent
        return outcome

    def is_good(self, blueprint: Blueprint, events: int = _EVENTS) -> bool:
        """Does nothing stand still, and nothing starve?"""
        return self.outcome(blueprint, events) in ("live", "never completes")


def _with(blueprint: Blueprint, name: str, node: Node) -> Blueprint:
    return Blueprint({**blueprint.stages, name: node}, blueprint.arcs)


def _arc(blueprint: Blueprint, producer: str, consumer: str) -> Arc:
    return next(arc for arc in blueprint.out_of(producer) if arc.consumer == consumer)


def _inserted(blueprint: Blueprint, arc: Arc, *chain: Node) -> Blueprint:
    """The blueprint with these stages, of one inlet and one outlet each, in an arc."""
    names = [f"inserted-{number}" for number in range(len(chain))]
    arcs = [each for each in blueprint.arcs if each != arc]
    producer, outlet = arc.producer, arc.outlet
    for name in names:
        arcs.append(Arc(producer, name, outlet=outlet))
        producer, outlet = name, 0
    arcs.append(Arc(producer, arc.consumer, outlet=outlet, inlet=arc.inlet))
    return Blueprint({**blueprint.stages, **dict(zip(names, chain, strict=True))}, tuple(arcs))


def _for_client(name: str, node: BlockingClientNode, written: int, *, is_echo: bool) -> Iterator[str]:
    """``is_echo``: as many elements come back as it writes; else nothing is said about places."""
    if not is_echo:
        yield f"let {name} read while it writes"
        return
    lacking = node.writes - written
    yield (
        f"let {name} write at most {written:,} elements before it reads: W <= S + C + h, what the buffers on their "
        "way, its receive buffer and the server's hand hold"
    )
    yield f"give the buffers on the way, or the receive buffer of {name}, {counted(lacking, 'more place')}"
    yield f"let {name} read while it writes"


def _for_loop(blueprint: Blueprint, ring: Sequence[GraphWait], trials: _Trials) -> Iterator[str]:
    """A loop that fills: something has to give way in it, or it lacks places for what goes round."""
    is_merged = False
    for wait in ring:
        if not isinstance(blueprint.stages[wait.on], MergeNode | MergePreferredNode):
            continue
        is_merged = True
        node, merge = blueprint.stages[wait.stage], blueprint.stages[wait.on]
        fair = _with(blueprint, wait.on, MergeNode())
        also = "" if isinstance(merge, MergeNode) else f", and {wait.on} be a merge without a preference"
        if isinstance(node, BufferNode):
            changed = _with(fair, wait.stage, replace(node, overflow=Overflow.DROP_OLDEST))
            told = f'let {wait.stage} drop, with overflow = "drop_oldest"{also}'
        else:
            changed = _inserted(fair, _arc(fair, wait.stage, wait.on), BufferNode(16, Overflow.DROP_OLDEST))
            told = f"put a buffer that drops its oldest element into the arc {wait.stage} -> {wait.on}{also}"
        if trials.is_good(changed):
            yield f"{told}: then the loop never makes {wait.on} wait"
        if isinstance(merge, MergeNode) and trials.outcome(_preferring(blueprint, wait)) == "starves":
            yield (
                f"let {wait.on} prefer the arc of {wait.stage} (merge_preferred): it never stands still, but then its "
                "other inputs starve as long as elements come round"
            )

    if not is_merged:
        yield from _for_missing_places(blueprint, ring, trials)


def _for_missing_places(blueprint: Blueprint, ring: Sequence[GraphWait], trials: _Trials) -> Iterator[str]:
    for wait in sorted(ring, key=lambda wait: not isinstance(blueprint.stages[wait.on], BufferNode)):
        if (places := _smallest(blueprint, wait, trials, 64)) is None:
            continue
        told = f"put a buffer of {counted(places, 'place')} into the arc {wait.stage} -> {wait.on}"
        if isinstance(blueprint.stages[wait.on], BufferNode):
            told = f"let {wait.on} have {counted(places, 'place')}"
        yield f"{told}: one more than elements go round"
        return


def _preferring(blueprint: Blueprint, wait: GraphWait) -> Blueprint:
    back = _arc(blueprint, wait.stage, wait.on)
    swapped = {0: back.inlet, back.inlet: 0}
    arcs = tuple(
        replace(arc, inlet=swapped.get(arc.inlet, arc.inlet)) if arc.consumer == wait.on else arc
        for arc in blueprint.arcs
    )
    return Blueprint({**blueprint.stages, wait.on: MergePreferredNode()}, arcs)


def _for_missing_element(blueprint: Blueprint, ring: Sequence[GraphWait], trials: _Trials) -> Iterator[str]:
    """A loop of pairs needs a first element, and a place where it rests while the next one is made."""
    for wait in ring:
        if not isinstance(blueprint.stages[wait.stage], ZipNode):
            continue
        arc = _arc(blueprint, wait.on, wait.stage)
        for places in (0, 2):
            changed = _kicked(blueprint, arc, places)
            if trials.is_good(changed):
                buffer = f" and a buffer of {places} places" if places else ""
                yield (
                    f"put a first element{buffer} into the arc {arc.producer} -> {arc.consumer}: a concat of one "
                    "element and of what comes round"
                )
                return


def _kicked(blueprint: Blueprint, arc: Arc, places: int) -> Blueprint:
    changed = _inserted(blueprint, arc, *([BufferNode(places)] if places else []))
    last = next(each for each in changed.into(arc.consumer) if each.inlet == arc.inlet)
    arcs = [each for each in changed.arcs if each != last]
    arcs += [
        Arc("first-element", "first-then"),
        Arc(last.producer, "first-then", outlet=last.outlet, inlet=1),
        Arc("first-then", arc.consumer, inlet=arc.inlet),
    ]
    return Blueprint({**changed.stages, "first-element": SourceNode(1), "first-then": ConcatNode()}, tuple(arcs))


def _for_branches(blueprint: Blueprint, ring: Sequence[GraphWait], trials: _Trials) -> Iterator[str]:
    """Branches of which one gets ahead of the other: it needs room for their difference."""
    for wait in ring:
        if _is_for_element(wait) or not isinstance(blueprint.stages[wait.stage], BroadcastNode):
            continue
        node = blueprint.stages[wait.on]
        place = f"into the arc {wait.stage} -> {wait.on}"
        told = f"let {wait.on} have {{}}" if isinstance(node, BufferNode) else f"put a buffer of {{}} {place}"
        supply = supply_of(blueprint, _arc(blueprint, wait.stage, wait.on))
        if supply is not None and trials.is_good(_buffered(blueprint, wait, supply + 1), 5 * _EVENTS):
            yield told.format(counted(supply + 1, "place")) + ", which is one more than elements come"
            continue
        at_most = trials.outcome(_buffered(blueprint, wait, _MOST_PLACES))
        places = None if at_most == "deadlock" else _smallest(blueprint, wait, trials)
        if places is not None:
            yield told.format(counted(places, "place")) + ", which is the least that is enough"
        elif at_most == "deadlock" and trials.is_good(_buffered(blueprint, wait, 16, Overflow.DROP_OLDEST)):
            yield (
                f"no buffer of up to {_MOST_PLACES:,} places is enough, because the branches may give different "
                f"numbers of elements; put one that drops, or has no bound, {place}"
            )


def _buffered(blueprint: Blueprint, wait: GraphWait, places: int, overflow: Overflow = Overflow.BLOCK) -> Blueprint:
    """The blueprint with this many more places in the arc from the waiting stage; a buffer that is there gets them."""
    node = BufferNode(places, overflow)
    if isinstance(blueprint.stages[wait.on], BufferNode):
        return _with(blueprint, wait.on, node)
    return _inserted(blueprint, _arc(blueprint, wait.stage, wait.on), node)


def _smallest(blueprint: Blueprint, wait: GraphWait, trials: _Trials, most: int = _MOST_PLACES) -> int | None:
    """The fewest places with which it is live, of up to ``most``; more never hurt."""
    node = blueprint.stages[wait.on]
    low = node.capacity if isinstance(node, BufferNode) else 0
    high = low + 1
    while not trials.is_good(_buffered(blueprint, wait, high)):
        if high == most:
            return None
        low, high = high, min(most, high * 2)
    while high - low > 1:
        middle = (low + high) // 2
        if trials.is_good(_buffered(blueprint, wait, middle)):
            high = middle
        else:
            low = middle
    return high


def _for_starving(blueprint: Blueprint, wait: GraphWait, trials: _Trials) -> Iterator[str]:
    if not isinstance(blueprint.stages[wait.on], MergePreferredNode):
        return
    changed = _with(blueprint, wait.on, MergeNode())
    if trials.is_good(changed):
        yield f"let {wait.on} be a merge: it takes its inputs in turn"
        return
    back = blueprint.into(wait.on)[0]
    node = blueprint.stages[back.producer]
    if isinstance(node, BufferNode):
        changed = _with(changed, back.producer, replace(node, overflow=Overflow.DROP_OLDEST))
    else:
        changed = _inserted(changed, back, BufferNode(16, Overflow.DROP_OLDEST))
    if trials.is_good(changed):
        yield f"let {wait.on} be a merge, and drop elements in the arc {back.producer} -> {wait.on}: then it is fair"

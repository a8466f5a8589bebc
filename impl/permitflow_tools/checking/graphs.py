"""Decides before a run whether a graph of stages can come to a standstill.

First by its form: where no ring of waits is possible, none can arise.  Then block by block, with the executable model:
a block whose stages do not see in which order elements come has one run for given data, so that one schedule is
explored; of the others, all schedules.  What is larger than that is *unknown*.

The model runs events in the order in which the library's island runs them.  For a block that is explored alone, what
lies behind its open ends answers at once or when the island rests, not in between; a deadlock that is found so is told
with a run only if one of the whole graph was found, too.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Final, Literal, NamedTuple

from permitflow.errors import counted
from permitflow.stages import Blueprint, Overflow
from permitflow.stages.blueprint import (
    BlockingClientNode,
    BufferNode,
    ConcatNode,
    MergePreferredNode,
    SinkNode,
    SourceNode,
    UnboundedNode,
)
from permitflow_model.kernel.system import Disabled
from permitflow_model.stage_graph import ASKED, ASKING, CANCELLED, ELEMENT, HERE, IDLE, Parameters, State, initial
from permitflow_model.stage_graph_waits import dead_arcs, ring_of
from permitflow_tools.checking.graphs_leaps import Leap, Script, courses, replay_script
from permitflow_tools.checking.graphs_search import (
    END,
    GIVE,
    WANT,
    Budget,
    BudgetSpent,
    Move,
    Search,
    end_of,
    run_until_dry,
    run_until_sources_end,
    walk,
)
from permitflow_tools.checking.graphs_starving import starved
from permitflow_tools.checking.graphs_structure import (
    Block,
    ancestors_of,
    block_around,
    blocks_of,
    endings,
    graph_of,
    parameters_of,
    possible_waits,
    roomy_of,
    runs_dry,
)

GraphOutcome = Literal["live", "deadlock", "starves", "never completes", "unknown"]

SHORTEST_UP_TO: Final = 8
"""The most stages of a graph whose shortest run is told."""
_WHOLE_UP_TO: Final = 16
"""Graphs with this many stages are explored whole before their blocks."""
_EVENTS: Final = 90_000
"""The most events that a check may run, about half a second."""
_WALKS: Final = 40
_LARGE_STORAGE: Final = 200
"""Runs that leap are tried first where buffers, and what is written into them, are this large."""
_SMALLER: Final = 32
"""Places of a buffer that is made smaller."""
_MOST_MOVES: Final = 400
"""The most moves of the outside, in a run until all sources have ended."""
_FEW_ELEMENTS: Final = 20
"""Elements of a source whose end is waited for: with more, the same follows later."""
_DRY_WALKS: Final = 5
_MOST_STEPS: Final = 4_000
"""The most steps of a run that is told whole; of a longer one, the beginning and the end are told."""


class GraphWait(NamedTuple):
    """A stage of a ring waits for the next one."""

    stage: str
    on: str
    why: str


class GraphStep(NamedTuple):
    """A step of a run, and what follows from it."""

    stage: str
    """Empty at the beginning."""
    text: str
    held: tuple[int, ...]
    """The elements in each stage, in the order of the blueprint."""
    arcs: tuple[str, ...]
    """What is on each arc, in the order of the blueprint: "ask", "element", "end", or empty."""


@dataclass(frozen=True, kw_only=True)
class GraphVerdict:
    """Can a graph come to a standstill?"""

    verdict: GraphOutcome
    reason: str
    """The argument in words."""
    ring: tuple[GraphWait, ...] = ()
    """Who waits for whom; of an input that starves, and of a loop that never ends, whom that concerns."""
    run: tuple[GraphStep, ...] = ()
    """A run that leads there."""
    moves: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """The whole run as actions of the model ``stage_graph``, with their arguments, from its initial state.

    None, if parts of it are told once for many times.
    """
    steps: int = 0
    """The steps of the whole run; 0 without one."""
    is_shortest: bool = False
    """Is no other run into a standstill shorter, counted in elements given and asks of sinks?"""
    advice: tuple[str, ...] = ()
    """What would help; each alone."""
    explored: int = 0
    """States that were visited; 0 if the form of the graph decides."""
    written: int = 0
    """How many elements the blocking clients of a ring had written."""
    notes: tuple[str, ...] = ()
    """What to know beside the verdict: arcs without a bound, streams that may fail."""


class _Found(NamedTuple):
    """A standstill of a graph, or of a block of it."""

    blueprint: Blueprint
    parameters: Parameters
    moves: Script
    state: State
    is_shortest: bool


def decide(blueprint: Blueprint, budget: Budget | None = None) -> GraphVerdict:
    """The verdict without advice; ``budget``: the events of stages that may be run."""
    budget = budget or Budget(_EVENTS)
    verdict = _explored(blueprint, budget)
    if verdict.verdict != "live":
        return verdict
    return (
        _running_dry(blueprint, budget) or starving(blueprint, budget) or never_completing(blueprint, budget) or verdict
    )


def _argument(blueprint: Blueprint) -> str:
    """Why no stages can wait in a ring."""
    from networkx import is_directed_acyclic_graph

    if is_directed_acyclic_graph(graph_of(blueprint)):
        if not blocks_of(blueprint):
            return "no two ways lead from one stage to another, so no stages can wait for each other in a ring"
        return "there is no loop, and where ways meet again no stage makes one wait for the other"
    return "each loop has a stage that never makes the one before it wait, and an element can always come into it"


def _explored(blueprint: Blueprint, budget: Budget) -> GraphVerdict:
    """Decide by its form; else explore the whole graph, or else each of its blocks."""
    if not possible_waits(blueprint):
        return GraphVerdict(verdict="live", reason=_argument(blueprint))
    roomy = roomy_of(blueprint)
    if not possible_waits(Blueprint({**blueprint.stages, **dict.fromkeys(roomy, UnboundedNode())}, blueprint.arcs)):
        told = "; ".join(
            f"{name} has more places than the {supply:,} elements that come" for name, supply in roomy.items()
        )
        return GraphVerdict(verdict="live", reason=f"{told}: so it never makes the stage before it wait")
    whole = Block(blueprint, tuple(blueprint.stages))
    blocks = [block for block in blocks_of(blueprint) if possible_waits(block.blueprint)]
    if not blocks:
        return GraphVerdict(verdict="live", reason=_argument(blueprint))
    is_small = len(blueprint.stages) <= SHORTEST_UP_TO
    is_explored = len(blueprint.stages) <= _WHOLE_UP_TO
    explored, tried = 0, []
    if is_explored or (len(blocks) == 1 and len(blocks[0].inner) * 2 > len(blueprint.stages)):
        with budget.part(2) as part:
            found, states, is_whole = _search(whole, part)
        if found is not None:
            if is_small and not found.is_shortest and not _has_leaps(found):
                found = _shortest(found, budget)
            return _deadlock(blueprint, found, states)
        if is_whole:
            return GraphVerdict(verdict="live", reason=_all_states(whole, states), explored=states)
        explored += states
    for block in blocks:
        with budget.part(2) as part:
            found, states, is_whole = _search(block, part)
        explored += states
        if found is not None:
            return _deadlock_of_block(blueprint, block, found, explored, budget)
        if not is_whole:
            tried.append(block)
    if tried:
        return GraphVerdict(
            verdict="unknown",
            reason=f"the stages {_some(tried[0])} may wait for each other in a ring; {explored:,} of their states were "
            "explored and runs by chance tried, and none was found, but there are more",
            explored=explored,
        )
    return GraphVerdict(verdict="live", reason=_all_states(whole, explored), explored=explored)


def _some(block: Block) -> str:
    return ", ".join(block.inner[:6]) + (", …" if len(block.inner) > 6 else "")


def _all_states(block: Block, states: int) -> str:
    told = counted(states, "state")
    if block.is_determinate:
        return (
            "the order in which stages run changes nothing, and its run ends, or comes back to itself, within " + told
        )
    return f"all that may be between two moves of the outside, {told}, was explored, and in none does a ring wait"


def _search(block: Block, budget: Budget) -> tuple[_Found | None, int, bool]:
    """A standstill, the states that were visited, and whether these are all."""
    blueprint = block.blueprint
    counted_unbounded = 3 if any(isinstance(node, UnboundedNode) for node in blueprint.stages.values()) else 0
    exact = block.parameters()
    if _storage(exact) > _LARGE_STORAGE:
        with budget.part(3) as part, suppress(BudgetSpent):
            for course in courses(exact, part):
                is_only = block.is_determinate and not any(logic.may_choose for logic in exact.logics)
                if course.is_stuck:
                    moves_alone = is_only and not {"source", "sink"} & {stage.kind for stage in exact.stages}
                    return _Found(blueprint, exact, course.script, course.state, moves_alone), 0, False
                if course.is_over and is_only:
                    return None, len(course.script), True
    if block.is_determinate and _is_live_with_less(block, budget):
        return None, 0, True
    counting = block.parameters(is_exact=block.is_determinate, counted_unbounded=counted_unbounded)
    search = Search(counting, one_schedule=block.is_determinate)
    with budget.part(2) as part, suppress(BudgetSpent):
        search.run(part)
    if search.dead is not None:
        moves = search.path_to(search.dead)
        if (state := end_of(exact, moves)) is not None:
            return _Found(blueprint, exact, moves, state, not block.is_determinate), len(search.states), False
    elif search.is_whole:
        return None, len(search.states), True
    return _walked(blueprint, exact, budget), len(search.states), False


def _is_live_with_less(block: Block, budget: Budget) -> bool:
    """Is it live even if large buffers were smaller?  Where order decides nothing, more places never hurt."""
    smaller = _clamped(block)
    if smaller is block:
        return False
    search = Search(smaller.parameters(counted_unbounded=3), one_schedule=True)
    with budget.part(3) as part, suppress(BudgetSpent):
        search.run(part)
    return search.is_whole and search.dead is None


def _clamped(block: Block) -> Block:
    large = {
        name: BufferNode(_SMALLER, node.overflow)
        for name, node in block.blueprint.stages.items()
        if isinstance(node, BufferNode) and node.capacity > _SMALLER
    }
    if not large:
        return block
    return replace(block, blueprint=Blueprint({**block.blueprint.stages, **large}, block.blueprint.arcs))


def _storage(parameters: Parameters) -> int:
    return sum(stage.capacity + stage.writes for stage in parameters.stages)


def _shortest(found: _Found, budget: Budget) -> _Found:
    """The shortest run, where all schedules can be explored."""
    search = Search(found.parameters)
    with suppress(BudgetSpent):
        search.run(budget)
    if search.dead is None:
        return found
    return found._replace(moves=search.path_to(search.dead), state=search.states[search.dead], is_shortest=True)


def _walked(blueprint: Blueprint, parameters: Parameters, budget: Budget) -> _Found | None:
    most_moves = 200 + 4 * _storage(parameters)
    with suppress(BudgetSpent):
        for seed in range(_WALKS):
            moves = walk(parameters, budget, seed, most_moves)
            if moves is not None and (state := end_of(parameters, moves)) is not None:
                return _Found(blueprint, parameters, moves, state, is_shortest=False)
    return None


def _deadlock(blueprint: Blueprint, found: _Found, explored: int) -> GraphVerdict:
    ring = tuple(_told_ring(found))
    is_whole = found.blueprint is blueprint
    return GraphVerdict(
        verdict="deadlock",
        reason=_told_deadlock(ring),
        ring=ring,
        run=_told_run(blueprint, found) if is_whole else (),
        written=_written(found),
        moves=tuple(_model_moves(found)) if is_whole and not _has_leaps(found) else (),
        steps=_steps_of(found) if is_whole else 0,
        is_shortest=found.is_shortest and is_whole,
        explored=explored,
    )


def _deadlock_of_block(
    blueprint: Blueprint, block: Block, found: _Found, explored: int, budget: Budget
) -> GraphVerdict:
    """A block can stand still: look for a run of the whole graph that leads there."""
    parameters = parameters_of(blueprint)
    with budget.part(4) as part:
        whole = _walked(blueprint, parameters, part)
    if whole is not None:
        return _deadlock(blueprint, whole, explored)
    if not block.is_supply_known:
        return GraphVerdict(
            verdict="unknown",
            reason=f"with endless sources the stages {_some(block)} can wait in a ring; whether as many elements come "
            "to them was not decided",
            explored=explored,
        )
    return _deadlock(blueprint, found, explored)


def _written(found: _Found) -> int:
    clients = [logic for logic in found.parameters.logics if logic.stage.kind == "blocking_client"]
    return sum(logic.stage.writes - found.state.stages[logic.position][0] for logic in clients)


def _told_ring(found: _Found) -> Iterator[GraphWait]:
    names = [*found.blueprint.stages]
    for wait in ring_of(found.parameters, found.state, dead_arcs(found.parameters, found.state)):
        stage, on = names[wait.stage], names[wait.on]
        yield GraphWait(stage, on, f"needs an element of {on}" if wait.for_element else f"{on} has not asked")


def _told_deadlock(ring: Sequence[GraphWait]) -> str:
    told = "; ".join(
        f"{wait.stage} waits for an element of {wait.on}"
        if wait.why.startswith("needs")
        else f"{wait.stage} waits until {wait.on} asks"
        for wait in ring
    )
    return f"{told}: a ring, and nobody in it can go on"


def _told_run(blueprint: Blueprint, found: _Found) -> tuple[GraphStep, ...]:
    names = [*blueprint.stages]
    steps = []
    for leap, step in replay_script(found.parameters, found.moves):
        state = step.state
        if leap is not None:
            stage, text = "", f"… the last {leap.steps:,} steps again, {leap.times:,} times …"
        elif step.move is not None:
            stage, text = _told_move(names[step.move.stage], step.move)
        elif step.arc >= 0:
            producer, consumer = (names[end] for end in found.parameters.arcs[step.arc])
            stage, text = _told_event(producer, consumer, step.token)
        else:
            stage, text = "", "the beginning"
        arcs = tuple(_ON_ARC.get(token, "end") for token in state.arcs)
        steps.append(GraphStep(stage, text, _held(found.parameters, state), arcs))
    if len(steps) > _MOST_STEPS:
        left_out = len(steps) - _MOST_STEPS
        half = _MOST_STEPS // 2
        middle = steps[half + left_out]._replace(stage="", text=f"… {left_out:,} more steps …")
        steps = [*steps[:half], middle, *steps[half + left_out + 1 :]]
    return tuple(steps)


def _model_moves(found: _Found) -> Iterator[tuple[str, tuple[int, ...]]]:
    for leap, step in replay_script(found.parameters, found.moves):
        if leap is None and step.move is not None:
            yield step.move.action.capitalize(), (step.move.stage,)
        elif leap is None and step.arc >= 0:
            yield "ProcessEvent", (int(step.more),)


def _steps_of(found: _Found) -> int:
    steps = -1  # the beginning is none
    for leap, _ in replay_script(found.parameters, found.moves):
        steps += 1 if leap is None else leap.steps * leap.times
    return steps


def _has_leaps(found: _Found) -> bool:
    return any(isinstance(move, Leap) for move in found.moves)


def _held(parameters: Parameters, state: State) -> tuple[int, ...]:
    return tuple(
        logic.held(kept) + sum(state.arcs[arc] in (HERE, "here, ending", "here, ended") for arc in logic.inlets)
        for logic, kept in zip(parameters.logics, state.stages, strict=True)
    )


_ON_ARC: Final = {IDLE: "", ASKING: "ask", ASKED: "ask", ELEMENT: "element", HERE: ""}
"""All else is about the end."""


def _told_move(name: str, move: Move) -> tuple[str, str]:
    told = {GIVE: "gives an element", END: "ends", WANT: "asks for an element"}
    return name, f"{name} {told[move.action]}"


def _told_event(producer: str, consumer: str, token: str) -> tuple[str, str]:
    if token.startswith(ELEMENT):
        return consumer, f"{consumer} takes an element of {producer}"
    if token == ASKING:
        return producer, f"{producer} hears that {consumer} asks"
    if CANCELLED in token:
        return producer, f"{producer} hears that {consumer} wants no more"
    return consumer, f"{consumer} hears of the end of {producer}"


# Inputs that starve.


def starving(blueprint: Blueprint, budget: Budget) -> GraphVerdict | None:
    """The verdict if an input may wait for ever while the rest of the graph goes on."""
    ends = endings(blueprint)
    for name, node in blueprint.stages.items():
        if isinstance(node, ConcatNode) and (verdict := _starving_concat(blueprint, name, ends)):
            return verdict
        is_preferring = isinstance(node, MergePreferredNode) and not ends[blueprint.into(name)[0].producer]
        if is_preferring and (verdict := _starving_merge(blueprint, name, budget)):
            return verdict
    return None


def _starving_merge(blueprint: Blueprint, name: str, budget: Budget) -> GraphVerdict | None:
    whole = Block(blueprint, tuple(blueprint.stages))
    for block in ([whole] if len(blueprint.stages) <= _WHOLE_UP_TO else []) + [block_around(blueprint, name)]:
        search = Search(block.parameters(is_exact=False, counted_unbounded=3))
        with budget.part(3) as part, suppress(BudgetSpent):
            search.run(part, stop_at_dead=False)
        if search.is_whole:
            break
    else:
        return GraphVerdict(
            verdict="unknown",
            reason=f"no stages can wait in a ring; whether an input of {name} starves was not decided within "
            f"{len(search.states):,} states",
            explored=len(search.states),
        )
    found = starved(search, [*block.blueprint.stages].index(name))
    if found is None:
        return None
    preferred, starving = blueprint.into(name)[0].producer, blueprint.into(name)[found.inlet].producer
    return _with_run(
        blueprint,
        GraphVerdict(
            verdict="starves",
            reason=f"{name} prefers the elements of {preferred}: while one of these is there whenever it is asked, it "
            f"never gives the element that it has of {starving}",
            ring=(GraphWait(starving, name, f"{name} always has an element of {preferred}"),),
            explored=len(search.states),
        ),
        found.moves if block is whole else None,
    )


def _with_run(blueprint: Blueprint, verdict: GraphVerdict, moves: Script | None) -> GraphVerdict:
    """The verdict with a run of the whole graph, if there is one whose elements its sources have."""
    if moves is None:
        return verdict
    parameters = parameters_of(blueprint)
    found = _Found(blueprint, parameters, moves, initial(parameters), is_shortest=False)
    try:
        run = _told_run(blueprint, found)
    except Disabled:
        return verdict
    return replace(verdict, run=run, moves=tuple(_model_moves(found)), steps=_steps_of(found))


def _starving_concat(blueprint: Blueprint, name: str, ends: Mapping[str, bool]) -> GraphVerdict | None:
    inlets = blueprint.into(name)
    for before, arc in pairwise(inlets):
        if not ends[before.producer] and not isinstance(blueprint.stages[before.producer], BlockingClientNode):
            return GraphVerdict(
                verdict="starves",
                reason=f"{name} takes elements of {arc.producer} when {before.producer} has ended, which never ends",
                ring=(GraphWait(arc.producer, name, f"{name} waits for the end of {before.producer}"),),
            )
    return None


# Sinks that never end.


def never_completing(blueprint: Blueprint, budget: Budget) -> GraphVerdict | None:
    """The verdict if a sink never hears that all its sources have ended, because of a loop."""
    from networkx import find_cycle

    ends = endings(blueprint)
    for name, node in blueprint.stages.items():
        if not isinstance(node, SinkNode | BlockingClientNode) or ends[name]:
            continue
        before = ancestors_of(blueprint, name)
        sources = [each for each in before if isinstance(blueprint.stages[each], SourceNode | BlockingClientNode)]
        if not all(ends[each] or isinstance(blueprint.stages[each], BlockingClientNode) for each in sources):
            continue
        left = graph_of(blueprint).subgraph([each for each in before if not ends[each]])
        loop = [edge[0] for edge in find_cycle(left)]
        waits = tuple(
            GraphWait(stage, loop[position - 1], f"ends when {loop[position - 1]} has ended")
            for position, stage in enumerate(loop)
        )
        verdict = GraphVerdict(
            verdict="never completes",
            reason=f"elements flow, but when all sources have ended {name} never hears of it: in the loop "
            f"{' -> '.join([*loop, loop[0]])} each stage waits for the end of the one before it",
            ring=waits,
        )
        with budget.part(2) as part, suppress(BudgetSpent):
            return _with_run(blueprint, verdict, run_until_sources_end(parameters_of(blueprint), part, _MOST_MOVES))
        return verdict
    return None


def _running_dry(blueprint: Blueprint, budget: Budget) -> GraphVerdict | None:
    """Sources with a number have ended, a loop has lost its last element, and an endless source holds its end back."""
    endless = {
        name for name, node in blueprint.stages.items() if isinstance(node, SourceNode) and node.elements is None
    }
    if not endless or not (dry := runs_dry(blueprint)):
        return None
    ends = endings(blueprint)
    sinks = [name for name, node in blueprint.stages.items() if isinstance(node, SinkNode) and not ends[name]]
    before = [ancestors_of(blueprint, name) for name in sinks]
    if not any(dry & each and endless & each for each in before):
        return None
    fewer = {
        name: SourceNode(_FEW_ELEMENTS)
        for name, node in blueprint.stages.items()
        if isinstance(node, SourceNode) and node.elements is not None and node.elements > _FEW_ELEMENTS
    }
    shown = Blueprint({**blueprint.stages, **fewer}, blueprint.arcs) if fewer else blueprint
    parameters = parameters_of(shown)
    losing = [position for position, name in enumerate(blueprint.stages) if name in dry]
    for seed in range(_DRY_WALKS):
        with budget.part(8) as part, suppress(BudgetSpent):
            if (found := run_until_dry(parameters, losing, part, seed, _MOST_MOVES)) is not None:
                return _told_dry(blueprint, _Found(shown, parameters, *found, is_shortest=False), sinks)
    return None


def _told_dry(blueprint: Blueprint, found: _Found, sinks: Sequence[str]) -> GraphVerdict:
    ring = tuple(_told_ring(found))
    behind = [name for name in sinks if ring[0].stage in ancestors_of(blueprint, name)]
    ending = [
        name for name, node in blueprint.stages.items() if isinstance(node, SourceNode) and node.elements is not None
    ]
    verdict = GraphVerdict(
        verdict="never completes",
        reason=f"elements flow, but when {' and '.join(ending)} {'has' if len(ending) == 1 else 'have'} ended "
        f"and the loop has lost what was in it, {(behind or sinks)[0]} never hears of an end: "
        + "; ".join(f"{wait.stage} waits for an element of {wait.on}" for wait in ring),
        ring=ring,
    )
    return _with_run(blueprint, verdict, found.moves) if found.blueprint is blueprint else verdict


def notes_on(blueprint: Blueprint) -> Iterable[str]:
    """What else is to be said of a graph, whatever the verdict."""
    for name, node in blueprint.stages.items():
        if isinstance(node, UnboundedNode) and node.alarm is None:
            yield f"{name} has no bound and no alarm: a consumer that is slower for long lets it grow without end"
        if isinstance(node, BufferNode) and node.overflow is Overflow.FAIL:
            yield f"{name} fails the stream when an element comes and {node.capacity} are there"

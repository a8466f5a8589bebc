"""From what the methods of a source have recorded to the stages of a run, and to a blueprint that can be checked."""

from collections import Counter, defaultdict
from collections.abc import AsyncIterable, Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, NamedTuple

from permitflow.errors import InvalidParametersError
from permitflow.stages.blueprint import Arc, Blueprint, Node, SinkNode, StageNode
from permitflow.stages.core.edges import Entry
from permitflow.stages.core.ports import Island, Stage

UNKNOWN = StageNode(gives=(0, None))
"""A stage that may emit any number of elements for one that it takes."""


@dataclass(frozen=True, eq=False)
class Step:
    """What one method of a source adds to a stream."""

    name: str
    make: Callable[[], Stage[Any, Any]]
    nodes: tuple[Node, ...] = (UNKNOWN,)
    """The stage in a blueprint: a chain, as a rule of one node."""
    upstream: tuple["Outlet", ...] = ()
    reads: AsyncIterable[Any] | Iterable[Any] = ()
    """What a step reads that has nothing upstream."""
    outlets: int = 1


class Back:
    """Where a loop comes back: what is upstream of it is told later."""

    def __init__(self, name: str) -> None:
        """``name`` is for errors."""
        self.name = name
        self._upstream: Outlet | None = None

    @property
    def upstream(self) -> "Outlet":
        """What comes back.

        Raises:
            InvalidParametersError: nobody has told.
        """
        if self._upstream is None:
            raise self.error("must be closed before its stream runs: back.close(stream)")
        return self._upstream

    def close(self, upstream: "Outlet") -> None:
        """Tell it.

        Raises:
            InvalidParametersError: it was told before, or it is not a loop.
        """
        if self._upstream is not None:
            raise self.error("must be closed once")
        if self._is_upstream_of(upstream) is False:
            raise self.error("must be closed with a stream that comes from its source; else there is no loop")
        self._upstream = upstream

    def check(self) -> None:
        """Require a loop, when all that belongs to it has been closed.

        Raises:
            InvalidParametersError: there is no loop.
        """
        if not self._is_upstream_of(self.upstream):
            raise self.error("must be closed with a stream that comes from its source; else there is no loop")

    def _is_upstream_of(self, outlet: "Outlet") -> bool | None:
        """None: that depends on another one, which is not yet closed."""
        seen, ahead, is_known = {outlet.step}, [outlet.step], True
        while ahead:
            step = ahead.pop()
            if step is self:
                return True
            if isinstance(step, Step):
                found = [each.step for each in step.upstream]
            else:
                found = [] if step._upstream is None else [step._upstream.step]
                is_known = is_known and step._upstream is not None
            ahead += [each for each in found if each not in seen]
            seen.update(found)
        return False if is_known else None

    def error(self, rule: str) -> InvalidParametersError:
        """What is wrong with it."""
        return InvalidParametersError(name="feedback", value=self.name, rule=rule)


class Outlet(NamedTuple):
    """One outlet of a step, or where a loop comes back."""

    step: Step | Back
    number: int


class StagePlace:
    """One stage of a run: a step whose stream is used twice has two."""

    def __init__(self, step: Step) -> None:
        self.step = step


class Join(NamedTuple):
    """An outlet, and the inlet that it feeds."""

    producer: StagePlace
    outlet: int
    consumer: StagePlace | int
    """A number: that of an exit."""
    inlet: int
    is_back: bool
    """Does it close a loop?"""


def joins_of(exits: Sequence[Outlet]) -> list[Join]:
    """All that flows into some exits; the inlets of each stage come in their order.

    Raises:
        InvalidParametersError: another branch of a fan-out is missing, a branch is used twice, or a loop is none.
    """
    joins: list[Join] = []
    shared: dict[Step, tuple[StagePlace, set[int]]] = {}
    backs: set[Back] = set()
    # Depth first.
    ahead: list[tuple[Outlet, StagePlace | int, int]] = [(outlet, number, 0) for number, outlet in enumerate(exits)]
    ahead.reverse()
    while ahead:
        (step, number), consumer, inlet = ahead.pop()
        is_back = False
        while isinstance(step, Back):
            if step in backs:
                rule = "must be used once in a run, and be closed with a branch of a broadcast or of a balance"
                raise step.error(rule)
            backs.add(step)
            (step, number), is_back = step.upstream, True
        if step in shared:
            place, used = shared[step]
        else:
            place, used = StagePlace(step), set()
            if step.outlets > 1:
                shared[step] = (place, used)
            ahead += reversed([(outlet, place, position) for position, outlet in enumerate(step.upstream)])
        if number in used:
            raise InvalidParametersError(
                name="branch", value=number, rule=f"must be used once in a run of a {step.name}"
            )
        used.add(number)
        joins.append(Join(place, number, consumer, inlet, is_back))
    for step, (_, used) in shared.items():
        if len(used) != step.outlets:
            rule = f"must all be in one run: join them again, or open all {step.outlets} with open_run"
            raise InvalidParametersError(name=f"branches of a {step.name}", value=sorted(used), rule=rule)
    for back in backs:
        back.check()
    return joins


Entries = list[tuple[Entry[Any], AsyncIterable[Any] | Iterable[Any]]]


def connected(
    island: Island, exits: Sequence[Outlet], consumers: Sequence[Stage[Any, Any]]
) -> tuple[Entries, list[Stage[Any, Any]]]:
    """Make all stages before some consumers, and connect them; the entries with what they read, and all stages.

    Raises:
        InvalidParametersError: as ``joins_of``.
    """
    entries: Entries = []
    stages: dict[StagePlace, Stage[Any, Any]] = {}

    def made(place: StagePlace) -> Stage[Any, Any]:
        if place not in stages:
            stages[place] = stage = place.step.make()
            if isinstance(stage, Entry):
                entries.append((stage, place.step.reads))
        return stages[place]

    for producer, _, consumer, _, is_back in joins_of(exits):
        before = made(producer)
        island.connect(before, consumers[consumer] if isinstance(consumer, int) else made(consumer), is_back=is_back)
    return entries, [*stages.values()]


def blueprint_before(exits: Sequence[Outlet]) -> Blueprint:
    """What the run of some exits looks like; a sink stands for each exit.

    Raises:
        InvalidParametersError: as ``joins_of``.
        BlueprintError: it has too many stages.
    """
    joins = joins_of(exits)
    counts: Counter[str] = Counter()
    stages: dict[str, Node] = {}
    arcs: list[Arc] = []
    ends: dict[StagePlace | int, tuple[str, str]] = {}
    """The first and the last node of each place."""

    def add(name: str, node: Node) -> str:
        counts[name] += 1
        unique = f"{name}-{counts[name]}" if counts[name] > 1 else name
        stages[unique] = node
        return unique

    for place in _from_sources_on(joins, len(exits)):
        if isinstance(place, int):
            chain = [add("sink", SinkNode())]
        else:
            chain = [add(node.kind if later else place.step.name, node) for later, node in enumerate(place.step.nodes)]
        arcs += [Arc(before, after) for before, after in pairwise(chain)]
        ends[place] = chain[0], chain[-1]
    arcs += [
        Arc(ends[each.producer][1], ends[each.consumer][0], outlet=each.outlet, inlet=each.inlet) for each in joins
    ]
    return Blueprint(stages, tuple(arcs))


def _from_sources_on(joins: Sequence[Join], exits: int) -> list[StagePlace | int]:
    """All places and exits, each behind what it reads, but for what comes back."""
    before: defaultdict[StagePlace | int, list[StagePlace]] = defaultdict(list)
    for join in joins:
        before[join.consumer].append(join.producer)
    order: dict[StagePlace | int, None] = {}
    seen: set[StagePlace | int] = set()
    for exit_ in range(exits):
        ahead: list[StagePlace | int] = [exit_]
        while ahead:
            place = ahead[-1]
            if place in seen:
                order.setdefault(ahead.pop())
            else:
                seen.add(place)
                ahead += [each for each in reversed(before[place]) if each not in seen]
    return [*order]

"""Is a recorded run a behaviour of the model?  Two ways to put its logs together.

A run is recorded as one or more *logs*.  Each holds what one process did, in its order; nothing is known about the
order of events in different logs, because clocks are not trusted.  ``replay`` puts them together itself: it takes
the next event of any log as soon as the model allows it, until all logs are used up or no log can go on.

Why this greedy merge loses nothing.  Suppose that each log's events read and write only (a) variables that no other
log's events touch, and (b) queues between two logs, to which one only appends and from which the other only removes.
(The permit channel is such a system: the sender's actions and the receiver's share nothing but the two wires.)

1.  An event that is possible stays possible, with the same effect on its own end, whatever the other logs do: they
    can only append to the queues that it reads.
2.  Hence two possible events of different logs may change places: either order leads to the same state.
3.  Let some interleaving of the logs be a behaviour, and let greedy have performed a set of events in whatever order
    and be unable to go on.  If events are left over, take the one that comes first in that interleaving.  Everything
    before it was performed, perhaps along with more from other logs; by 1 it is still possible.  Contradiction.

So greedy gets through if any merge does, and if none does, it always stops at the same events, at which each log is
*blocked*.  Two kinds are told apart: an event that no continuation of the others could ever make possible is
*refused*; an event that waits for something from the other end is *starved*.  If only starved events remain, they
wait for each other, or for a log that is over: then at least one of them cannot have happened as recorded.

Where one event may be explained by several steps (which of two equal chunks was withdrawn?) all explanations are
followed.  They may differ only in variables of kind (a); then they starve together, and 1 to 3 hold for the set.

The greedy merge is wrong where several recorders look at one and the same state (a driver, its logs on disk, its
tasks, its sink): the order of their events matters, and a step that is possible now may be the wrong one to take.
There ``interleave`` tries all orders that keep each log's own order, first those that take the earlier logs' events
first.  It uses no clock and tries no world twice; as the model lets few logs go on at a time, the search is short.
"""

from collections import deque
from collections.abc import Callable, Container, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, NamedTuple, Protocol, TypeVar

from permitflow_model.kernel.guards import false_guard
from permitflow_model.kernel.system import Disabled, Step, System

__all__ = [
    "Blocked",
    "Interpretation",
    "Path",
    "Progress",
    "RecordedStep",
    "Refused",
    "Replay",
    "Replayer",
    "Starved",
    "StepByStep",
    "World",
    "interleave",
    "replay",
]

# Enough to show the events before the stop.
_TAIL = 12

S = TypeVar("S")
P = TypeVar("P")
W = TypeVar("W")
E = TypeVar("E")
W_inv = TypeVar("W_inv")
E_contra = TypeVar("E_contra", contravariant=True)


class Refused(Exception):
    """The event is not possible here, and nothing that the other logs hold could change that."""


class Starved(Exception):
    """The event is not possible yet: it needs something that the other end has to do first."""


class Interpretation(Protocol[W_inv, E_contra]):
    """Maps the events of a trace to steps of a model."""

    def perform(self, world: W_inv, event: E_contra) -> Sequence[W_inv]:
        """All worlds to which the event may lead: steps of the model, at least one world.

        Raises:
            Refused: no step of the model explains the event, now or later.
            Starved: no step explains it now.
        """
        ...

    def broken(self, world: W_inv) -> list[str]:
        """The names of the invariants that do not hold in this world."""
        ...


class RecordedStep(Protocol):
    """An event that is a step of the model."""

    @property
    def action(self) -> str:
        """Spelt as in the specification."""
        ...

    @property
    def arguments(self) -> tuple[int, ...]:
        """The arguments of the action."""
        ...

    @property
    def counters(self) -> tuple[int, ...]:
        """What the end counted after the event, as the system's ``counters`` say it; empty: it was not recorded."""
        ...


@dataclass(frozen=True, eq=False)
class Path(Generic[S]):
    """A step of the model, and those before it.

    All paths are equal: worlds are the same if they are in the same state, whatever has led there.
    """

    step: Step[S]
    before: "Path[S] | None"
    event: "RecordedStep | None" = None
    """The event that this step explains, or completes the explanation of."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Path)

    def __hash__(self) -> int:
        return 0

    def links(self) -> "list[Path[S]]":
        """All links from the beginning, this one last."""
        links: list[Path[S]] = []
        path: Path[S] | None = self
        while path is not None:
            links.append(path)
            path = path.before
        return links[::-1]

    def steps(self) -> list[Step[S]]:
        """All steps from the beginning, this one last."""
        return [link.step for link in self.links()]


class World(NamedTuple, Generic[S]):
    """What a trace has led to."""

    state: S
    path: Path[S] | None = None
    """The model's steps until now, if they are kept."""
    noted: Hashable = None
    """What an interpretation must know of the events until now besides: it keeps nothing itself."""


class StepByStep(Generic[S, P]):
    """Explains each event by the step of the same name; a protocol may explain some by other steps."""

    def __init__(
        self, system: System[S, P], parameters: P, *, keep_path: bool = False, unchecked: Container[str] = ()
    ) -> None:
        """With ``keep_path`` each world remembers the model's steps that led to it.

        For a run of an implementation, switch on everything that it may do in ``parameters``.  ``unchecked`` are
        invariants that say nothing about a single run.
        """
        self.system = system
        self.parameters = parameters
        self._keep_path = keep_path
        self._checks = {name: holds for name, holds in system.invariants.items() if name not in unchecked}
        self._actions = {action.name: action for action in system.actions}
        # An action that no end records, as of a clock, has no counters.
        self._counts = {action.name: system.counters.get(action.end, _no_counters) for action in system.actions}

    def start(self) -> World[S]:
        """Where every run begins."""
        return World(self.system.initial(self.parameters))

    def perform(self, world: World[S], event: RecordedStep) -> Sequence[World[S]]:
        """All worlds to which the event may lead.

        Raises:
            Refused: the system has no such action, it is not possible, or its end counts otherwise.
            Starved: it needs something that the other end has not sent yet.
        """
        count = self._counts.get(event.action)
        if count is None:
            raise Refused(f"the specification has no action {event.action!r}")
        following = self.explain(world, event)
        # Explanations of one event differ only in what no counter includes.
        if event.counters and event.counters != (due := tuple(count(following[0].state))):
            raise Refused(f"its end counts {event.counters} afterwards, but it must have {due}")
        if self._keep_path:
            return [_marked(after, world, event) for after in following]
        return following

    def explain(self, world: World[S], event: RecordedStep) -> Sequence[World[S]]:
        """All worlds to which the event may lead, but for the end's counters; raises as ``perform``."""
        try:
            return (self.step(world, event.action, *event.arguments),)
        except Disabled as error:
            allowed = f"only {', '.join(self.allowed(world)) or 'the application'} can go on"
            reason = "; ".join(filter(None, (false_guard(error), allowed)))
            is_arrival = self.system.action(event.action).is_arrival
            raise (Starved if is_arrival else Refused)(reason) from None

    def step(self, world: World[S], name: str, *arguments: int) -> World[S]:
        """The world after a step of the model.

        Raises:
            Disabled: it is not possible.
            ModelError: the action does not take such arguments, or returns no state.
        """
        before, action = world.state, self._actions[name]
        try:
            after = action.perform(before, self.parameters, *arguments)
        except (AttributeError, LookupError, TypeError) as error:
            action.fail(f"{type(error).__name__}: {error}", before, arguments, error)
        state = action.require_state(after, before, arguments)
        return World(state, Path(Step(name, arguments, state), world.path)) if self._keep_path else World(state)

    def broken(self, world: World[S]) -> list[str]:
        """The names of the invariants that do not hold."""
        return [name for name, holds in self._checks.items() if not holds(world.state, self.parameters)]

    def is_at_rest(self, world: World[S]) -> bool:
        """Does nothing wait, and is nothing in flight?"""
        return not self.system.can_move(world.state, self.parameters)

    def allowed(self, world: World[S]) -> list[str]:
        """The names of the actions by which the protocol can go on."""
        steps = self.system.successors(world.state, self.parameters)
        return [step.action for step in steps if not self.system.action(step.action).is_environment]


def _no_counters(_state: object) -> tuple[int, ...]:
    return ()


def _marked(after: World[S], before: World[S], event: RecordedStep) -> World[S]:
    """The last step of an explanation completes it."""
    if after.path is None or after.path is before.path:
        return after
    return after._replace(path=replace(after.path, event=event))


@dataclass(frozen=True)
class Blocked(Generic[E]):
    """An event at which a log could not go on."""

    event: E
    reason: str
    is_refused: bool
    """False: it waits for the other end."""


@dataclass(frozen=True)
class Replay(Generic[W, E]):
    """What came of it."""

    performed: int
    """Events that were explained by steps of the model."""

    worlds: tuple[W, ...]
    """Where the run may be: after the last event, or before those that no behaviour allows."""

    blocked: tuple[Blocked[E], ...] = ()
    """The next event of each log that could not go on; refused ones first.  Empty: the run is a behaviour."""

    broken: tuple[str, ...] = ()
    """Invariants that the last event broke."""

    tail: tuple[tuple[W, E], ...] = ()
    """The events that were performed last, oldest first, each with (one of) the worlds before it."""

    @property
    def last(self) -> E | None:
        """The event that was performed last."""
        return self.tail[-1][1] if self.tail else None

    @property
    def is_valid(self) -> bool:
        """Is the run a behaviour in which all invariants hold?"""
        return not self.blocked and not self.broken


def replay(
    interpretation: Interpretation[W, E], start: W, logs: Sequence[Sequence[E]], *, check_every: int = 1
) -> Replay[W, E]:
    """Merge the logs into one behaviour; ``check_every``: see ``Replayer``."""
    replayer = Replayer(interpretation, start, len(logs), check_every=check_every)
    for number, log in enumerate(logs):
        replayer.take(number, log)
    replayer.go_on()
    return replayer.outcome()


@dataclass
class Progress(Generic[W, E]):
    """How far a replay has come: all that it needs to go on, at another time or in another process."""

    worlds: tuple[W, ...]
    pending: tuple[deque[E], ...]
    """For each log, the events that have come and were not performed."""
    checked: tuple[W, ...]
    """The worlds in which the invariants were looked at last."""
    since: list[E] = field(default_factory=list)
    """The events that were performed since then."""
    performed: int = 0
    blocked: dict[int, Blocked[E]] = field(default_factory=dict)
    """By the number of its log."""
    broken: tuple[str, ...] = ()
    tail: deque[tuple[W, E]] = field(default_factory=lambda: deque(maxlen=_TAIL))


class Replayer(Generic[W, E]):
    """A replay whose events come piece by piece.  It keeps only those that wait for another log.

    Most of an event's cost would be that of the invariants.  These are theorems about all states to which the model's
    actions lead, so a long replay looks at them from time to time: it checks the model rather than the run.  If one is
    broken, the events since the last look are performed again, with a look after each, to find the one that broke it.
    """

    def __init__(
        self,
        interpretation: Interpretation[W, E],
        start: W,
        logs: int,
        *,
        check_every: int = 1,
        watch: Callable[[W], list[str]] | None = None,
        progress: Progress[W, E] | None = None,
    ) -> None:
        """With ``progress`` it goes on from there, else from ``start``.

        The invariants are looked at after ``check_every`` events, and at the end.  ``watch`` is called with the world
        after every event, and returns the names of those invariants that this run has broken.
        """
        self._interpretation = interpretation
        self._check_every = check_every
        self._watch = watch
        self.progress: Progress[W, E] = progress or Progress((start,), tuple(deque() for _ in range(logs)), (start,))

    def take(self, log: int, events: Iterable[E]) -> None:
        """The next events of a log, for ``go_on``; what comes behind an impossible event is left out."""
        blocked = self.progress.blocked.get(log)
        if not self.progress.broken and not (blocked and blocked.is_refused):
            self.progress.pending[log].extend(events)

    def go_on(self) -> None:
        """Perform what is possible of the events that have come."""
        progress, performed_before = self.progress, -1
        while progress.performed > performed_before and not progress.broken:
            performed_before = progress.performed
            for number in range(len(progress.pending)):
                self._go_on_with(number)

    def _go_on_with(self, number: int) -> None:
        progress, perform, watch = self.progress, self._interpretation.perform, self._watch
        pending, tail, since = progress.pending[number], progress.tail, progress.since
        progress.blocked.pop(number, None)
        while pending and not progress.broken:
            event, worlds = pending[0], progress.worlds
            try:
                # The usual case first: this loop is where a long replay spends its time.
                following = tuple(perform(worlds[0], event)) if len(worlds) == 1 else _perform(perform, worlds, event)
            except (Refused, Starved) as reason:
                progress.blocked[number] = Blocked(event, str(reason), isinstance(reason, Refused))
                return
            del pending[0]
            tail.append((worlds[0], event))
            since.append(event)
            progress.performed += 1
            progress.worlds = following
            if watch is not None and (broken := watch(following[0])):
                progress.broken = tuple(sorted(broken))
            elif len(since) >= self._check_every:
                self._look()

    def _look(self) -> None:
        """Look at the invariants; if one is broken, go back to the event that broke it first."""
        progress, interpretation = self.progress, self._interpretation
        events = list(progress.since)
        if broken := _broken(interpretation, progress.worlds):
            progress.worlds, progress.performed = progress.checked, progress.performed - len(events)
            for _ in range(min(len(events), len(progress.tail))):
                progress.tail.pop()
            for event in events:
                progress.tail.append((progress.worlds[0], event))
                progress.worlds = _perform(interpretation.perform, progress.worlds, event)
                progress.performed += 1
                if broken := _broken(interpretation, progress.worlds):
                    break
            progress.broken = tuple(sorted(broken))
        progress.checked = progress.worlds
        progress.since.clear()

    def outcome(self) -> Replay[W, E]:
        """What came of the events until now, if no more come."""
        progress = self.progress
        if not progress.broken:
            self._look()
        order = () if progress.broken else sorted(progress.blocked.values(), key=lambda block: not block.is_refused)
        return Replay(
            progress.performed,
            progress.worlds,
            blocked=tuple(order),
            broken=progress.broken,
            tail=tuple(progress.tail),
        )


def _broken(interpretation: Interpretation[W, E], worlds: tuple[W, ...]) -> set[str] | list[str]:
    if len(worlds) == 1:
        return interpretation.broken(worlds[0])
    return {name for world in worlds for name in interpretation.broken(world)}


def _perform(perform: Callable[[W, E], Sequence[W]], worlds: tuple[W, ...], event: E) -> tuple[W, ...]:
    if len(worlds) == 1:
        return tuple(perform(worlds[0], event))
    following: list[W] = []
    problems: list[Refused | Starved] = []
    for world in worlds:
        try:
            following.extend(perform(world, event))
        except (Refused, Starved) as problem:
            problems.append(problem)
    starved = [problem for problem in problems if isinstance(problem, Starved)]
    if following and starved:
        raise AssertionError(f"explanations of a trace must starve together, see the module's docstring: {starved[0]}")
    if not following:
        raise (starved or problems)[0]
    return tuple(dict.fromkeys(following))


class _Node(NamedTuple, Generic[W, E]):
    """A world, and the path to it."""

    world: W
    positions: tuple[int, ...]
    parent: "_Node[W, E] | None"
    event: E | None


def interleave(interpretation: Interpretation[W, E], start: W, logs: Sequence[Sequence[E]]) -> Replay[W, E]:
    """Look for an order of all events; worlds must be hashable.

    Returns:
        A valid replay in that order, or the longest one, and why each log stopped there.
    """
    furthest: _Node[W, E] = _Node(start, (0,) * len(logs), None, None)
    pending = [furthest]
    seen = {(furthest.world, furthest.positions)}
    total = sum(map(len, logs))
    while pending:
        node = pending.pop()
        if sum(node.positions) > sum(furthest.positions):
            furthest = node
        if sum(furthest.positions) == total:
            return _outcome(furthest, ())
        for following in reversed([*_following(interpretation, node, logs)]):
            if (following.world, following.positions) not in seen:
                seen.add((following.world, following.positions))
                pending.append(following)
    return _outcome(furthest, _blocked(interpretation, furthest, logs))


def _following(
    interpretation: Interpretation[W, E], node: _Node[W, E], logs: Sequence[Sequence[E]]
) -> Iterator[_Node[W, E]]:
    for number, log in enumerate(logs):
        position = node.positions[number]
        if position == len(log):
            continue
        try:
            worlds = interpretation.perform(node.world, log[position])
        except (Refused, Starved):
            continue
        positions = (*node.positions[:number], position + 1, *node.positions[number + 1 :])
        for world in worlds:
            if not interpretation.broken(world):
                yield _Node(world, positions, node, log[position])


def _blocked(
    interpretation: Interpretation[W, E], node: _Node[W, E], logs: Sequence[Sequence[E]]
) -> tuple[Blocked[E], ...]:
    """Why no order from here leads to the end; refused events first."""
    blocked = []
    for log, position in zip(logs, node.positions, strict=True):
        if position == len(log):
            continue
        event = log[position]
        try:
            worlds = interpretation.perform(node.world, event)
        except (Refused, Starved) as reason:
            blocked.append(Blocked(event, str(reason), isinstance(reason, Refused)))
            continue
        broken = sorted({name for world in worlds for name in interpretation.broken(world)})
        if broken:
            blocked.append(Blocked(event, f"it breaks {', '.join(broken)}", is_refused=True))
    return tuple(sorted(blocked, key=lambda block: not block.is_refused))


def _outcome(node: _Node[W, E], blocked: tuple[Blocked[E], ...]) -> Replay[W, E]:
    tail: deque[tuple[W, E]] = deque(maxlen=_TAIL)
    step: _Node[W, E] = node
    while step.parent is not None and step.event is not None and len(tail) < _TAIL:
        tail.appendleft((step.parent.world, step.event))
        step = step.parent
    return Replay(sum(node.positions), (node.world,), blocked=blocked, tail=tuple(tail))

"""Is there an order of recorded events that is a behaviour of the model?

``kernel.replay`` merges logs greedily, which is right where they share nothing but queues.  Where several recorders
look at one and the same state (a driver, its logs on disk, its tasks, its sink), the order of their events matters, and
a step that is possible now may be the wrong one to take.  So all orders are tried that keep to each log's own, first
those that take the earlier logs' events first.  No clock is asked.  What was reached once is not tried again; as the
model lets few of the logs go on at a time, there is little to try.
"""

from collections import deque
from collections.abc import Iterator, Sequence
from typing import Generic, NamedTuple, TypeVar

from permitflow_model.kernel.replay import Blocked, Interpretation, Refused, Replay, Starved

__all__ = ["interleave"]



class _Node(NamedTuple, Generic[W, E]):
    """A world, and how it was come to."""

    world: W
    positions: tuple[int, ...]
    parent: "_Node[W, E] | None"
    event: E | None


def interleave(interpretation: Interpretation[W, E], start: W, logs: Sequence[Sequence[E]]) -> Replay[W, E]:
    """Look for an order of all events; worlds must be hashable.

    Returns:
        A valid replay in that order, or the one that came furthest, and why each log could not go on there.
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
    """Why nothing that was tried from here led to the end; refused events first."""
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

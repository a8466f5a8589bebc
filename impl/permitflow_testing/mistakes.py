"""Mistakes of real systems that are possible in any protocol; each rulebook has those of its own protocol.

A mistaken action calls the right one and changes its input or output: no formula is written twice.
"""

from collections.abc import Callable, Sequence
from typing import Any

from permitflow.flows.messages import Kind
from permitflow_model.kernel.queue import Fifo
from permitflow_model.kernel.system import Disabled, require
from permitflow_testing.outside import CONSUME, WITHDRAWN, Outside, Perform, Result, World


def right(outside: type[Outside], action: str) -> Perform:
    """The right action."""
    return outside.system.action(action).perform


def changed_before(perform: Perform, change: Callable[[Any, Any], Any]) -> Perform:
    """The action in a changed state: ``change`` takes the state and the parameters."""
    return lambda state, parameters, *arguments: perform(change(state, parameters), parameters, *arguments)


def changed_after(perform: Perform, change: Callable[[Any, Any], Any]) -> Perform:
    """The action with a changed result: ``change`` takes the states before and after."""
    return lambda state, parameters, *arguments: change(state, perform(state, parameters, *arguments))


def never(_state: Any, _parameters: Any) -> Any:
    """An action that never happens."""
    raise Disabled


# Messages travel.


def send_from(perform: Perform, position: Callable[[Sequence[Any], Any], int]) -> Perform:
    """A send of another message than the oldest: ``position`` takes the line and the state."""

    def chosen_first(state: Any, _parameters: Any) -> Any:
        require(not state.waiting.is_empty())
        line = list(state.waiting)
        chosen = line.pop(position(line, state))
        return state._replace(waiting=Fifo([chosen, *line]))

    return changed_before(perform, chosen_first)


def deliver_in_front(outside: type[Outside]) -> Perform:
    """A delivery that puts the arriving message first."""
    return changed_after(
        right(outside, "Deliver"),
        lambda _, after: after._replace(inbox=Fifo([after.inbox.last(), *after.inbox.without_last()])),
    )


def deliver_twice(outside: type[Outside]) -> Perform:
    """A delivery that duplicates the message."""
    return changed_after(
        right(outside, "Deliver"), lambda _, after: after._replace(inbox=after.inbox.push(after.inbox.last()))
    )


def deliver_and_return(outside: type[Outside]) -> dict[str, Perform]:
    """Actions that return a message's permits when it arrives, and none when it is consumed."""
    return {
        "Deliver": changed_after(
            right(outside, "Deliver"), lambda _, after: outside.given_back(after, after.inbox.last())
        ),
        CONSUME: changed_after(right(outside, CONSUME), outside.consumed_silently),
    }


# Sends are given up.


def withdraw_and_forget(outside: type[Outside], action: str) -> Perform:
    """A withdrawal that loses the permits that the message would have needed."""
    return changed_after(right(outside, action), lambda _, after: outside.robbed(after))


def keep_withdrawn(state: Any, _parameters: Any) -> Any:
    """A withdrawal that leaves the message in the line, to be sent later."""
    line = list(state.waiting)
    own = [at for at, message in enumerate(line) if getattr(message, "id", message) != WITHDRAWN]
    require(bool(own))
    newest = line[own[-1]]
    is_number = isinstance(newest, int)
    line[own[-1]] = WITHDRAWN if is_number else newest._replace(id=WITHDRAWN)
    return state._replace(waiting=Fifo(line), offered=newest if is_number else newest.id)


class ReturnsOnHandOver(Outside):
    """Returns a message's permits when it is taken, not when it is consumed."""

    def take(self, world: World) -> tuple[Result, World]:
        """Take, and return."""
        outcome, after = super().take(world)
        if after.taken == world.taken:
            return outcome, after
        last = world.hops[-1]
        early = self.given_back(last, list(last.inbox)[world.taken])
        return outcome, self.with_hop(after, -1, early)

    def consume(self, world: World) -> World:
        """Consume, and return nothing."""
        after = super().consume(world)
        return self.with_hop(after, -1, self.consumed_silently(world.hops[-1], after.hops[-1]))


class KeepsRefused(Outside):
    """Leaves a refused chunk in the line."""

    def send_now(self, world: World, rows: int) -> tuple[Result, World]:
        """Send at once, or refuse and stay."""
        outcome, after = super().send_now(world, rows)
        if after != world:
            return outcome, after
        kept = self.offer(world, 0, Kind.CHUNK, rows)
        return outcome, self.with_hop(kept, 0, keep_withdrawn(kept.hops[0], self.parameters))


class PaysForRefused(Outside):
    """Loses the permits of a refused chunk."""

    def send_now(self, world: World, rows: int) -> tuple[Result, World]:
        """Send at once, or refuse and pay."""
        outcome, after = super().send_now(world, rows)
        if after != world:
            return outcome, after
        return outcome, self.with_hop(world, 0, self.robbed(world.hops[0]))

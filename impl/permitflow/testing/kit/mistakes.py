"""Mistakes that real systems have made, in any protocol; those of one protocol stand in its rulebook.

A mistaken action calls the right one and changes what goes in or what comes out: no formula is written twice.
"""

from collections.abc import Callable, Sequence
from typing import Any

from permitflow.protocol.messages import Kind
from permitflow.testing.kit.outside import CONSUME, WITHDRAWN, Outside, Perform, Result, World
from permitflow_model.kernel.queue import Fifo
from permitflow_model.kernel.system import Disabled, require

__all__ = [
    "KeepsRefused",
    "PaysForRefused",
    "ReturnsOnHandOver",
    "changed_after",
    "changed_before",
    "deliver_and_return",
    "deliver_in_front",
    "deliver_twice",
    "keep_withdrawn",
    "never",
    "right",
    "send_from",
    "withdraw_and_forget",
]


def right(outside: type[Outside], action: str) -> Perform:
    """The action as it should be."""
    return outside.system.action(action).perform


def changed_before(perform: Perform, change: Callable[[Any, Any], Any]) -> Perform:
    """Does it in another state: ``change`` takes the state and the parameters."""
    return lambda state, parameters, *arguments: perform(change(state, parameters), parameters, *arguments)


def changed_after(perform: Perform, change: Callable[[Any, Any], Any]) -> Perform:
    """Comes to another state: ``change`` takes the states before and after."""
    return lambda state, parameters, *arguments: change(state, perform(state, parameters, *arguments))


def never(_state: Any, _parameters: Any) -> Any:
    """Does not do it at all."""
    raise Disabled


# Messages travel.


def send_from(perform: Perform, position: Callable[[Sequence[Any], Any], int]) -> Perform:
    """Lets another message than the oldest leave: ``position`` takes the line and the state."""

    def chosen_first(state: Any, _parameters: Any) -> Any:
        require(not state.waiting.is_empty())
        line = list(state.waiting)
        chosen = line.pop(position(line, state))
        return state._replace(waiting=Fifo([chosen, *line]))

    return changed_before(perform, chosen_first)


def deliver_in_front(outside: type[Outside]) -> Perform:
    """Puts what arrives before what is here."""
    return changed_after(
        right(outside, "Deliver"),
        lambda _, after: after._replace(inbox=Fifo([after.inbox.last(), *after.inbox.without_last()])),
    )


def deliver_twice(outside: type[Outside]) -> Perform:
    """Lets a message arrive twice."""
    return changed_after(
        right(outside, "Deliver"), lambda _, after: after._replace(inbox=after.inbox.push(after.inbox.last()))
    )


def deliver_and_return(outside: type[Outside]) -> dict[str, Perform]:
    """Returns what a message owes when it arrives, and nothing when it is consumed."""
    return {
        "Deliver": changed_after(
            right(outside, "Deliver"), lambda _, after: outside.given_back(after, after.inbox.last())
        ),
        CONSUME: changed_after(right(outside, CONSUME), outside.consumed_silently),
    }


# Sends are given up.


def withdraw_and_forget(outside: type[Outside], action: str) -> Perform:
    """Takes what a message would have needed that was withdrawn."""
    return changed_after(right(outside, action), lambda _, after: outside.robbed(after))


def keep_withdrawn(state: Any, _parameters: Any) -> Any:
    """Sends a message that was withdrawn, when its turn comes."""
    line = list(state.waiting)
    own = [at for at, message in enumerate(line) if getattr(message, "id", message) != WITHDRAWN]
    require(own)
    newest = line[own[-1]]
    is_number = isinstance(newest, int)
    line[own[-1]] = WITHDRAWN if is_number else newest._replace(id=WITHDRAWN)
    return state._replace(waiting=Fifo(line), offered=newest if is_number else newest.id)


class ReturnsOnHandOver(Outside):
    """Returns what a message owes when it is taken, not when the application is done with it."""

    def take(self, world: World) -> tuple[Result, World]:
        """Take, and return."""
        outcome, after = super().take(world)
        if after.taken == world.taken:
            return outcome, after
        last = world.hops[-1]
        early = self.given_back(last, list(last.inbox)[world.taken])
        return outcome, self.with_hop(after, -1, early)

    def consume(self, world: World) -> World:
        """Be done, and return nothing."""
        after = super().consume(world)
        return self.with_hop(after, -1, self.consumed_silently(world.hops[-1], after.hops[-1]))


class KeepsRefused(Outside):
    """Leaves a chunk that was refused in the line."""

    def send_now(self, world: World, rows: int) -> tuple[Result, World]:
        """Send at once, or refuse and stay."""
        outcome, after = super().send_now(world, rows)
        if after != world:
            return outcome, after
        kept = self.offer(world, 0, Kind.CHUNK, rows)
        return outcome, self.with_hop(kept, 0, keep_withdrawn(kept.hops[0], self.parameters))


class PaysForRefused(Outside):
    """Has one message less to send after a chunk was refused."""

    def send_now(self, world: World, rows: int) -> tuple[Result, World]:
        """Send at once, or refuse and pay."""
        outcome, after = super().send_now(world, rows)
        if after != world:
            return outcome, after
        return outcome, self.with_hop(world, 0, self.robbed(world.hops[0]))

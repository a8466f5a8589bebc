"""Mistakes that real systems have made, each as the action of the specification that it spoils.

A mistaken action calls the right one and changes what goes in or what comes out: no formula is written twice.  Every
function takes a state and the parameters, and returns the state after the mistaken action."""

from collections.abc import Callable
from dataclasses import replace
from typing import TypeAlias

from permitflow.testing.kit.outside import WITHDRAWN, Outcome, Outside, World
from permitflow_model.kernel.queue import Fifo
from permitflow_model.kernel.system import Disabled, System, require
from permitflow_model.permit_channel import NO_WATERMARK, SYSTEM, Message, Parameters, Permits, State, held, plus

__all__ = ["Perform", "spoilt"]

Perform: TypeAlias = Callable[..., State]

_RIGHT: dict[str, Perform] = {action.name: action.perform for action in SYSTEM.actions}


def spoilt(actions: dict[str, Perform]) -> System[State, Parameters]:
    """The model with some of its actions replaced."""
    changed = tuple(replace(one, perform=actions.get(one.name, one.perform)) for one in SYSTEM.actions)
    return replace(SYSTEM, actions=changed)


def _with_permits(state: State, more: Permits) -> State:
    return state._replace(permits=plus(state.permits, more))


# Permits are spent.


def send_unpaid(action: str, permits: Permits) -> Perform:
    """Sends whether or not permits are here, and takes none."""
    return lambda state, parameters: _RIGHT[action](_with_permits(state, permits), parameters)


def send_chunk_unpaid(state: State, parameters: Parameters) -> State:
    """Sends whether or not the chunk's permits are here, and takes none."""
    require(not state.waiting.is_empty())
    return send_unpaid("SendChunk", held(state.waiting.head()))(state, parameters)


def send_chunk_but_keep_one(state: State, parameters: Parameters) -> State:
    """Does not spend the last permit."""
    require(not state.waiting.is_empty() and state.waiting.head().cost < state.permits.rows)
    return _RIGHT["SendChunk"](state, parameters)


def send_barrier_with_rows(state: State, parameters: Parameters) -> State:
    """Lets a barrier wait for row permits."""
    require(state.permits.rows > 0)
    return _RIGHT["SendBarrier"](state, parameters)


def send_early(kind: str) -> Perform:
    """Lets the oldest waiting message of a kind overtake those of the other kind."""

    def send(state: State, parameters: Parameters) -> State:
        return _send_from(state, parameters, next(iter(_waiting(state, kind)), 0), kind)

    return send


def send_watermark_early(state: State, parameters: Parameters) -> State:
    """Lets a watermark overtake the chunks and barriers that were offered before it."""
    require(state.watermark_pending != NO_WATERMARK)
    return _RIGHT["SendWatermark"](state._replace(watermark_pending=0), parameters)


def offer_at_cost(cost: Callable[[int, Parameters], int]) -> Perform:
    """Charges something else for a chunk."""

    def offer(state: State, parameters: Parameters, rows: int) -> State:
        after = _RIGHT["OfferChunk"](state, parameters, rows)
        chunk = after.waiting.last()._replace(cost=cost(rows, parameters))
        return after._replace(waiting=after.waiting.without_last().push(chunk))

    return offer


def send_newest_first(state: State, parameters: Parameters) -> State:
    """Lets the newest of the waiting chunks leave first."""
    return _send_from(state, parameters, [0, *_waiting(state, "chunk")][-1])


def send_whatever_fits(state: State, parameters: Parameters) -> State:
    """Lets a chunk whose permits are here overtake a larger one that waits."""
    fitting = [at for at in _waiting(state, "chunk") if tuple(state.waiting)[at].cost <= state.permits.rows]
    return _send_from(state, parameters, fitting[0] if fitting else 0)


def _waiting(state: State, kind: str) -> list[int]:
    """Where messages of this kind wait, the oldest first."""
    return [position for position, message in enumerate(state.waiting) if message.kind == kind]


def _send_from(state: State, parameters: Parameters, position: int, kind: str = "chunk") -> State:
    require(not state.waiting.is_empty())
    line = list(state.waiting)
    chosen = line.pop(position)
    return _RIGHT[f"Send{kind.title()}"](state._replace(waiting=Fifo([chosen, *line])), parameters)


# Messages travel.


def deliver_in_front(state: State, parameters: Parameters) -> State:
    """Puts what arrives before what is here."""
    after = _RIGHT["Deliver"](state, parameters)
    return after._replace(inbox=Fifo([after.inbox.last(), *after.inbox.without_last()]))


def deliver_twice(state: State, parameters: Parameters) -> State:
    """Lets a message arrive twice."""
    after = _RIGHT["Deliver"](state, parameters)
    return after._replace(inbox=after.inbox.push(after.inbox.last()))


def deliver_nothing(state: State, parameters: Parameters) -> State:
    """Loses a message, but not its permits."""
    message = _RIGHT["Deliver"](state, parameters).inbox.last()
    return state._replace(wire=state.wire.without_head(), grants=state.grants.push(held(message)))


# Permits come back.


def deliver_and_return(state: State, parameters: Parameters) -> State:
    """Returns the permits of a message when it arrives."""
    after = _RIGHT["Deliver"](state, parameters)
    return after._replace(grants=after.grants.push(held(after.inbox.last())))


def consume_silently(state: State, parameters: Parameters) -> State:
    """Returns nothing when a message is consumed."""
    after = _RIGHT["Consume"](state, parameters)
    return after._replace(grants=state.grants, unreturned=state.unreturned)


def consume_as(change: Callable[[Message], Message]) -> Perform:
    """Returns something else than the message held."""

    def consume(state: State, parameters: Parameters) -> State:
        require(not state.inbox.is_empty())
        changed = Fifo([change(state.inbox.head()), *state.inbox.without_head()])
        return _RIGHT["Consume"](state._replace(inbox=changed), parameters)

    return consume


def consume_in_batches_of(batch: Callable[[Parameters], int]) -> Perform:
    """Returns permits once it holds another number of them."""
    return lambda state, parameters: _RIGHT["Consume"](state, replace(parameters, batch=batch(parameters)))


def consume_and_remember(state: State, parameters: Parameters) -> State:
    """Does not forget what it has returned, and returns it again with the next batch."""
    after = _RIGHT["Consume"](state, parameters)
    is_returned = after.grants.size() > state.grants.size() and after.unreturned == 0
    return after._replace(unreturned=after.grants.last().rows % parameters.batch or 1) if is_returned else after


def consume_other_class(returned: Permits) -> Perform:
    """Returns something else for a barrier."""

    def consume(state: State, parameters: Parameters) -> State:
        after = _RIGHT["Consume"](state, parameters)
        if state.inbox.head().kind != "barrier":
            return after
        return after._replace(grants=state.grants if not any(returned) else state.grants.push(returned))

    return consume


def never(_state: State, _parameters: Parameters) -> State:
    """Does not do it at all."""
    raise Disabled


# Sends are given up.


def withdraw_and_forget(state: State, parameters: Parameters) -> State:
    """Takes the permits of a chunk that was withdrawn."""
    after = _RIGHT["WithdrawChunk"](state, parameters)
    return _with_permits(after, Permits(-state.waiting.last().cost, 0, 0))


def keep_withdrawn(state: State, parameters: Parameters) -> State:
    """Sends a chunk that was withdrawn, when its permits are here."""
    line = list(state.waiting)
    own = [position for position, chunk in enumerate(line) if chunk.id != WITHDRAWN]
    require(own)
    newest = line[own[-1]]
    line[own[-1]] = newest._replace(id=WITHDRAWN)
    return state._replace(waiting=Fifo(line), offered=newest.id)


class ReturnsOnHandOver(Outside):
    """Returns permits when a message is taken, not when the application is done with it."""

    def take(self, world: World) -> tuple[Outcome, World]:
        """Take, and return the permits."""
        outcome, after = super().take(world)
        last = world.hops[-1]
        if after.taken == world.taken:
            return outcome, after
        early = last._replace(grants=last.grants.push(held(list(last.inbox)[world.taken])))
        return outcome, after._replace(hops=(*after.hops[:-1], early))

    def consume(self, world: World) -> World:
        """Be done, and return nothing."""
        last = consume_silently(world.hops[-1], self.parameters)
        return world._replace(hops=(*world.hops[:-1], last), taken=world.taken - 1)


class KeepsOldWatermark(Outside):
    """Does not replace a watermark that waits by a newer one."""

    def announce(self, world: World, hop: int, value: int) -> World:
        """Announce; the older one stays."""
        waits = world.hops[hop].watermark_pending != NO_WATERMARK
        return super().announce(world, hop, world.pending[hop] if waits else value)._replace(announced=value)


class KeepsRefused(Outside):
    """Leaves a chunk that was refused in the line."""

    def send_now(self, world: World, rows: int) -> tuple[Outcome, World]:
        """Send at once, or refuse and stay."""
        outcome, after = super().send_now(world, rows)
        if after != world:
            return outcome, after
        offered = self.act(world, 0, "OfferChunk", rows)
        return outcome, offered._replace(hops=(keep_withdrawn(offered.hops[0], self.parameters), *world.hops[1:]))


class PaysForRefused(Outside):
    """Takes the permits of a chunk that was refused."""

    def send_now(self, world: World, rows: int) -> tuple[Outcome, World]:
        """Send at once, or refuse and keep a permit."""
        outcome, after = super().send_now(world, rows)
        if after != world:
            return outcome, after
        return outcome, world._replace(hops=(_with_permits(world.hops[0], Permits(-1, 0, 0)), *world.hops[1:]))


class LetsNewcomersPass(Outside):
    """Sends at once although others wait."""

    def send_now(self, world: World, rows: int) -> tuple[Outcome, World]:
        """Send at once if the permits are here, whoever waits."""
        first = world.hops[0]
        alone, after = super().send_now(world._replace(hops=(first._replace(waiting=Fifo()), *world.hops[1:])), rows)
        return alone, after._replace(hops=(after.hops[0]._replace(waiting=first.waiting), *after.hops[1:]))

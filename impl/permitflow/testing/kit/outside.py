"""The model as the applications at its two ends see it.

They see which sends have returned, and what is received; wires, permits and what the protocol does by itself they do
not see.  After each move of theirs the protocol does all that it can; where the specification leaves it a choice, all
outcomes are kept.  A channel that chains several control loops is as many models, with a bridge between two of them
that takes some messages, sends them on, and has consumed them once they have left: chunks of at most a batch together,
or any other message alone.
"""

from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from permitflow.protocol.messages import Kind
from permitflow.testing.kit.adapter import Received
from permitflow.testing.moves import Move
from permitflow_model.kernel.queue import Fifo
from permitflow_model.kernel.system import Disabled, System, require
from permitflow_model.permit_channel import NO_WATERMARK, SYSTEM, Message, Parameters, State
from permitflow_model.permit_channel_trace import withdraw_at

__all__ = ["DONE", "NOTHING", "REFUSED", "WITHDRAWN", "Outcome", "Outside", "Seen", "World", "canonical"]

DONE, NOTHING, REFUSED = "done", "nothing is here", "refused"
Outcome: TypeAlias = Received | str

WITHDRAWN = -1
"""The number of a chunk that was withdrawn, if a channel that is mistaken sends it all the same."""


MOST_ON_A_BRIDGE = 100


class Seen(NamedTuple):
    """What the applications see once nothing more happens by itself."""

    outcome: Outcome
    """What the move itself came to."""

    waiting: tuple[str, ...] = ()
    """Chunks and barriers that wait to be sent, with their numbers, in the order in which they were offered."""

    def __str__(self) -> str:
        """In words."""
        return f"{_in_words(self.outcome)}, {' and '.join(self.waiting) or 'nobody'} waits"


def _in_words(outcome: Outcome) -> str:
    if isinstance(outcome, str):
        return outcome
    if outcome.kind is Kind.CHUNK:
        which = "a withdrawn chunk" if outcome.value == WITHDRAWN else f"chunk {outcome.value}"
        return f"{which} of {outcome.rows} rows is taken"
    return "a barrier is taken" if outcome.kind is Kind.BARRIER else f"watermark {outcome.value} is taken"


class World(NamedTuple):
    """Where a channel is, and what only its applications know."""

    hops: tuple[State, ...]
    forwarding: tuple[int, ...]
    """For each bridge: how many messages of the hop before it has offered to the hop behind."""

    pending: tuple[int, ...]
    """For each hop, the watermark that has not left."""

    announced: int = 0
    """The newest watermark."""

    taken: int = 0
    """Messages that the receiving application holds."""


def canonical(world: World) -> World:
    """The same as far as the future is concerned: counted from what is consumed next and from the newest watermark."""
    base, newest = world.hops[-1].consumed, world.announced
    hops = tuple(_rebased(hop, base, newest) for hop in world.hops)
    pending = tuple(
        0 if hop.watermark_pending == NO_WATERMARK else _age(value, newest)
        for hop, value in zip(world.hops, world.pending, strict=True)
    )
    return world._replace(hops=hops, pending=pending, announced=0)


def _rebased(hop: State, base: int, newest: int) -> State:
    def renumbered(message: Message) -> Message:
        if message.kind == "watermark":
            return message._replace(id=_age(message.id, newest))
        return message if message.id == WITHDRAWN else message._replace(id=message.id - base)

    return hop._replace(
        offered=hop.offered - base,
        consumed=hop.consumed - base,
        waiting=Fifo(map(renumbered, hop.waiting)),
        wire=Fifo(map(renumbered, hop.wire)),
        inbox=Fifo(map(renumbered, hop.inbox)),
    )


def _is_there(move: Move, first: State) -> bool:
    """Does a message of this kind wait at the position, or else at the end?"""
    position = sum(move.arguments) if move.arguments else first.waiting.size() - 1
    waiting = tuple(first.waiting)[position : position + 1]
    return [message.kind for message in waiting] == [move.action.removeprefix("Withdraw").lower()]


def _age(watermark: int, newest: int) -> int:
    # Older is older: otherwise there would be no end of states.
    return max(watermark - newest, -1)


class Outside:
    """What the applications may do, and what they may see then."""

    def __init__(self, parameters: Parameters, *, hops: int = 1, system: System[State, Parameters] = SYSTEM) -> None:
        """A chain of ``hops`` channels; ``system`` may be one with a mistake."""
        self.parameters = parameters
        self._hops = hops
        self._inside = replace(parameters, waiters=MOST_ON_A_BRIDGE)
        self._actions: dict[str, Callable[..., State]] = {action.name: action.perform for action in system.actions}
        self._start = system.initial(parameters)
        self.settled = lru_cache(maxsize=100_000)(self._settled)
        """All that the protocol may come to by itself."""

    def start(self) -> World:
        """At rest."""
        return World((self._start,) * self._hops, (0,) * (self._hops - 1), (0,) * self._hops)

    # The applications.

    def moves(self, world: World, alphabet: Iterable[Move]) -> Iterator[Move]:
        """Moves that the applications can make at all; what comes of them is another matter."""
        first = world.hops[0]
        for move in alphabet:
            match move:
                case Move("OfferChunk" | "OfferBarrier"):
                    is_possible = first.waiting.size() < self.parameters.waiters
                case Move("WithdrawChunk" | "WithdrawBarrier"):
                    is_possible = _is_there(move, first)
                case Move("Consume"):
                    is_possible = world.taken > 0
                case Move("Receive"):
                    is_possible = world.taken == 0
                case _:
                    is_possible = True
            if is_possible:
                yield move

    def make(self, world: World, move: Move) -> Iterator[tuple[Seen, World]]:
        """What may be seen after a move, and where the channel is then."""
        outcome, moved = self._moved(world, move)
        for after in self.settled(moved):
            first = after.hops[0]
            waiting = tuple(f"{one.kind} {one.id}" for one in first.waiting if one.id != WITHDRAWN)
            yield Seen(outcome, waiting), after

    def make_in(self, worlds: Iterable[World], move: Move) -> dict[Seen, tuple[World, ...]]:
        """What may be seen after a move in one of these worlds, and the worlds in which the channel is then."""
        found: dict[Seen, dict[World, None]] = {}
        for world in worlds:
            with suppress(Disabled):  # a model that makes mistakes may have no room for the move
                for seen, after in self.make(world, move):
                    found.setdefault(seen, {})[after] = None
        return {seen: tuple(after) for seen, after in found.items()}

    def _moved(self, world: World, move: Move) -> tuple[Outcome, World]:
        match move:
            case Move("WithdrawChunk" | "WithdrawBarrier", (position,)):
                require(_is_there(move, world.hops[0]))
                return DONE, self.withdraw(world, position)
            case Move("OfferWatermark"):
                return DONE, self.announce(world, 0, world.announced + 1)
            case Move("SendChunkNow", (rows,)):
                return self.send_now(world, rows)
            case Move("Take"):
                return self.take(world)
            case Move("Consume"):
                return DONE, self.consume(world)
            case Move("Receive"):
                outcome, taken = self.take(world)
                return outcome, self.consume(taken) if taken.taken else taken
        return DONE, self.act(world, 0, move.action, *move.arguments)

    def withdraw(self, world: World, position: int) -> World:
        """Cancel a send."""
        for action, arguments in withdraw_at(world.hops[0], position):
            world = self.act(world, 0, action, *arguments)
        return world

    def announce(self, world: World, hop: int, value: int) -> World:
        """Announce a watermark at one of the hops."""
        world = self.act(world, hop, "OfferWatermark")
        return world._replace(
            pending=(*world.pending[:hop], value, *world.pending[hop + 1 :]), announced=max(value, world.announced)
        )

    def send_now(self, world: World, rows: int) -> tuple[Outcome, World]:
        """Send a chunk at once, or not at all."""
        if world.hops[0].waiting.is_empty():
            try:
                return DONE, self.act(self.act(world, 0, "OfferChunk", rows), 0, "SendChunk")
            except Disabled:
                pass
        return REFUSED, world

    def take(self, world: World) -> tuple[Outcome, World]:
        """Take the oldest message that was not taken; for the specification nothing happens."""
        here = list(world.hops[-1].inbox)[world.taken :]
        if not here:
            return NOTHING, world
        message = here[0]
        value = 0 if message.kind == "barrier" else message.id
        return Received(Kind(message.kind), value, message.rows), world._replace(taken=world.taken + 1)

    def consume(self, world: World) -> World:
        """Be done with the oldest message that was taken."""
        return self.act(world, len(world.hops) - 1, "Consume")._replace(taken=world.taken - 1)

    def act(self, world: World, hop: int, action: str, *arguments: int) -> World:
        """One action at one hop.

        Raises:
            Disabled: it is not possible.
        """
        after = self._actions[action](world.hops[hop], self._inside if hop else self.parameters, *arguments)
        if action == "SendWatermark":
            wire = list(after.wire)
            wire[-1] = wire[-1]._replace(id=world.pending[hop])
            after = after._replace(wire=Fifo(wire))
        return world._replace(hops=(*world.hops[:hop], after, *world.hops[hop + 1 :]))

    # The protocol.

    def _settled(self, world: World) -> tuple[World, ...]:
        ends: dict[World, None] = {}
        met, todo = {world}, [world]
        while todo:
            here = todo.pop()
            following = self._by_itself(here)
            if not following:
                ends[here] = None
            todo += [after for after in following if after not in met]
            met.update(following)
        return tuple(ends)

    def _by_itself(self, world: World) -> list[World]:
        """What happens next; several worlds where the order makes a difference.

        It does for those that send at one end, and for a flush: a receiver may find itself idle a moment before the
        next message arrives.  Everything else comes to the same in any order.
        """
        hops = range(len(world.hops) - 1, -1, -1)
        flushed = [after for hop in hops for after in self._first(world, hop, ("Flush",))]
        for hop in hops:
            if moved := self._first(world, hop, ("AddPermits", "Deliver")):
                return moved + flushed
        for hop in hops:
            sent = [
                w for name in ("SendChunk", "SendBarrier", "SendWatermark") for w in self._first(world, hop, (name,))
            ]
            if sent:
                return sent + flushed
        for bridge in range(len(world.forwarding)):
            if moved := list(self._forwarded(world, bridge)):
                return moved + flushed
        return flushed

    def _first(self, world: World, hop: int, actions: tuple[str, ...]) -> list[World]:
        for action in actions:
            try:
                return [self.act(world, hop, action)]
            except Disabled:
                continue
        return []

    def _forwarded(self, world: World, bridge: int) -> Iterator[World]:
        source, target, count = world.hops[bridge], world.hops[bridge + 1], world.forwarding[bridge]
        if count:
            if not target.waiting.is_empty():
                return
            for _ in range(count):
                world = self.act(world, bridge, "Consume")
            yield self._with_forwarding(world, bridge, 0)
            return
        rows = 0
        for position, message in enumerate(source.inbox):
            rows += message.rows
            if position and (message.kind != "chunk" or rows > self.parameters.batch):
                return
            world = self._pass_on(world, bridge + 1, message)
            # Further messages may have come too late to travel together.
            yield self._with_forwarding(world, bridge, position + 1)
            if message.kind != "chunk":
                return

    def _with_forwarding(self, world: World, bridge: int, count: int) -> World:
        counts = world.forwarding
        return world._replace(forwarding=(*counts[:bridge], count, *counts[bridge + 1 :]))

    def _pass_on(self, world: World, hop: int, message: Message) -> World:
        match message.kind:
            case "chunk":
                return self.act(world, hop, "OfferChunk", message.rows)
            case "barrier":
                return self.act(world, hop, "OfferBarrier")
            case "watermark":
                return self.announce(world, hop, message.id)

"""The model as the applications at its two ends see it.

They see which sends have returned, and what is received; wires, permits and what the protocol does by itself they do
not see.  After each move of theirs the protocol does all that it can; where the specification leaves it a choice, all
outcomes are kept.  A channel that chains several control loops is as many models, with a bridge between two of them
that takes some messages, sends them on, and has consumed them once they have left.

``Outside`` knows a protocol by its system, whose state has ``offered``, ``consumed``, and the queues ``waiting``,
``wire`` and ``inbox``; a protocol's own subclass says what its messages are.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, TypeAlias

from permitflow.protocol.messages import Kind
from permitflow.testing.kit.adapter import Received
from permitflow.testing.moves import Move
from permitflow_model.kernel.queue import Fifo
from permitflow_model.kernel.system import Disabled, System, require

__all__ = ["CONSUME", "DONE", "NOTHING", "REFUSED", "WITHDRAWN", "Outside", "Perform", "Result", "Seen", "World"]

DONE, NOTHING, REFUSED = "done", "nothing is here", "refused"
Result: TypeAlias = Received | str

Perform: TypeAlias = Callable[..., Any]
"""Takes a state, the parameters and an action's arguments; the next state, or ``Disabled`` is raised."""

CONSUME = "Consume"
"""The action of the receiving application, in all protocols."""

WITHDRAWN = -1
"""The number of a chunk that was withdrawn, if a channel that is mistaken sends it all the same."""

MOST_ON_A_BRIDGE = 100


class Seen(NamedTuple):
    """What the applications see once nothing more happens by itself."""

    outcome: Result
    """What the move itself came to."""

    waiting: tuple[str, ...] = ()
    """Chunks and barriers that wait to be sent, with their numbers, in the order in which they were offered."""

    def __str__(self) -> str:
        """In words."""
        return f"{_in_words(self.outcome)}, {' and '.join(self.waiting) or 'nobody'} waits"


def _in_words(outcome: Result) -> str:
    if isinstance(outcome, str):
        return outcome
    if outcome.kind is Kind.CHUNK:
        which = "a withdrawn chunk" if outcome.value == WITHDRAWN else f"chunk {outcome.value}"
        return f"{which} of {outcome.rows} rows is taken"
    return "a barrier is taken" if outcome.kind is Kind.BARRIER else f"watermark {outcome.value} is taken"


class World(NamedTuple):
    """Where a channel is, and what only its applications know."""

    hops: tuple[Any, ...]
    """The state of each control loop."""

    forwarding: tuple[int, ...]
    """For each bridge: how many messages of the hop before it has offered to the hop behind."""

    notes: Any = ()
    """What the protocol's own ``Outside`` has to remember beside the states."""

    taken: int = 0
    """Messages that the receiving application holds."""


class Outside:
    """What the applications may do, and what they may see then."""

    system: ClassVar[System[Any, Any]]
    rows_on_a_bridge = 0
    """Chunks of so many rows may pass a bridge together; any other message passes it alone."""

    def __init__(self, parameters: Any, *, hops: int = 1, mistaken: Mapping[str, Perform] | None = None) -> None:
        """A chain of ``hops`` channels; those who make mistakes have some ``mistaken`` actions."""
        self.parameters = parameters
        self._hops = hops
        self._inside = replace(parameters, waiters=MOST_ON_A_BRIDGE)
        actions = self.system.actions
        self._actions = {action.name: action.perform for action in actions} | dict(mistaken or {})
        own = [action for action in actions if not action.is_environment and action.name != CONSUME]
        self._arrivals = tuple(action.name for action in own if action.is_arrival)
        self._sends = tuple(one.name for one in own if not one.is_arrival and one.end == "sender")
        self._returns = tuple(one.name for one in own if not one.is_arrival and one.end == "receiver")
        self.by_itself = tuple(action.name for action in own)
        """Names of the actions that need no application."""
        self._start = self.system.initial(parameters)
        self.settled = lru_cache(maxsize=100_000)(self._settled)
        """All that the protocol may come to by itself."""

    # A protocol's own.

    def received(self, world: World, message: Any) -> Received:
        """A message as the receiving application gets it; its value is its number."""
        raise NotImplementedError

    def offer(self, world: World, hop: int, kind: Kind, rows: int = 0) -> World:
        """Offer a chunk or a barrier at one of the hops."""
        raise NotImplementedError

    @staticmethod
    def withdrawal(state: Any, position: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Actions that take back the message at this place in the line, 0 the oldest, and leave the others."""
        raise NotImplementedError

    @staticmethod
    def withdraw_action(message: Any) -> str:
        """The action by which such a message is taken back."""
        raise NotImplementedError

    @staticmethod
    def given_back(state: Any, message: Any) -> Any:
        """The state after a message's permits, or whatever lets the next one leave, were sent back at once."""
        raise NotImplementedError

    @staticmethod
    def consumed_silently(before: Any, after: Any) -> Any:
        """The state ``after`` a message was consumed, had nothing been returned for it."""
        raise NotImplementedError

    @staticmethod
    def robbed(state: Any) -> Any:
        """The state without one of the permits, or whatever lets a message leave."""
        raise NotImplementedError

    def announce(self, world: World, hop: int, value: int) -> World:
        """Announce a watermark at one of the hops."""
        raise NotImplementedError(f"{self.system.module} has no watermarks")

    def number(self, message: Any) -> int:
        """Of a message that waits."""
        return message if isinstance(message, int) else message.id

    def numbered(self, message: Any, number: int) -> Any:
        """The same message with another number."""
        return number if isinstance(message, int) else message._replace(id=number)

    def rebased(self, message: Any, world: World) -> Any:
        """A message counted from what is consumed next: see ``canonical``."""
        number = self.number(message)
        return message if number == WITHDRAWN else self.numbered(message, number - world.hops[-1].consumed)

    def rebased_notes(self, world: World) -> Any:
        """The notes, likewise."""
        return world.notes

    # The applications.

    def start(self) -> World:
        """At rest."""
        return World((self._start,) * self._hops, (0,) * (self._hops - 1))

    def canonical(self, world: World) -> World:
        """The same as far as the future is concerned."""
        base = world.hops[-1].consumed
        hops = tuple(
            hop._replace(offered=hop.offered - base, consumed=hop.consumed - base, **self._queues(hop, world))
            for hop in world.hops
        )
        return world._replace(hops=hops, notes=self.rebased_notes(world))

    def _queues(self, hop: Any, world: World) -> dict[str, Fifo[Any]]:
        names = ("waiting", "wire", "inbox")
        return {name: Fifo(self.rebased(message, world) for message in getattr(hop, name)) for name in names}

    def moves(self, world: World, alphabet: Iterable[Move]) -> Iterator[Move]:
        """Moves that the applications can make at all; what comes of them is another matter."""
        for move in alphabet:
            match move:
                case Move("OfferChunk" | "OfferBarrier"):
                    is_possible = world.hops[0].waiting.size() < self.parameters.waiters
                case Move("WithdrawChunk" | "WithdrawBarrier"):
                    is_possible = self._position(world, move) is not None
                case Move("Consume"):
                    is_possible = world.taken > 0
                case Move("Receive"):
                    is_possible = world.taken == 0
                case _:
                    is_possible = True
            if is_possible:
                yield move

    def _position(self, world: World, move: Move) -> int | None:
        """The place of the message that a move withdraws, by default the newest; None: another or none is there."""
        waiting = tuple(world.hops[0].waiting)
        position = sum(move.arguments) if move.arguments else len(waiting) - 1
        here = [self.received(world, message).kind.value for message in waiting[position : position + 1]]
        return position if here == [move.action.removeprefix("Withdraw").lower()] else None

    def make(self, world: World, move: Move) -> Iterator[tuple[Seen, World]]:
        """What may be seen after a move, and where the channel is then."""
        outcome, moved = self._moved(world, move)
        for after in self.settled(moved):
            yield Seen(outcome, tuple(self._waiting(after))), after

    def _waiting(self, world: World) -> Iterator[str]:
        for message in world.hops[0].waiting:
            if (number := self.number(message)) != WITHDRAWN:
                yield f"{self.received(world, message).kind.value} {number}"

    def make_in(self, worlds: Iterable[World], move: Move) -> dict[Seen, tuple[World, ...]]:
        """What may be seen after a move in one of these worlds, and the worlds in which the channel is then."""
        found: dict[Seen, dict[World, None]] = {}
        for world in worlds:
            with suppress(Disabled):  # a model that makes mistakes may have no room for the move
                for seen, after in self.make(world, move):
                    found.setdefault(seen, {})[after] = None
        return {seen: tuple(after) for seen, after in found.items()}

    def _moved(self, world: World, move: Move) -> tuple[Result, World]:
        match move:
            case Move("OfferChunk", (rows,)):
                return DONE, self.offer(world, 0, Kind.CHUNK, rows)
            case Move("OfferBarrier"):
                return DONE, self.offer(world, 0, Kind.BARRIER)
            case Move("OfferWatermark"):
                return DONE, self.announce(world, 0, self.newest_watermark(world) + 1)
            case Move("WithdrawChunk" | "WithdrawBarrier"):
                position = self._position(world, move)
                require(position is not None)
                return DONE, self.withdraw(world, position or 0)
            case Move("SendChunkNow", (rows,)):
                return self.send_now(world, rows)
            case Move("Take"):
                return self.take(world)
            case Move("Consume"):
                return DONE, self.consume(world)
            case Move("Receive"):
                outcome, taken = self.take(world)
                return outcome, self.consume(taken) if taken.taken else taken
        raise ValueError(f"the applications have no move {move}")

    def newest_watermark(self, world: World) -> int:
        """The one that was announced last, or 0."""
        return 0

    def withdraw(self, world: World, position: int) -> World:
        """Cancel a send."""
        for action, arguments in self.withdrawal(world.hops[0], position):
            world = self.act(world, 0, action, *arguments)
        return world

    def send_now(self, world: World, rows: int) -> tuple[Result, World]:
        """Send a chunk at once, or not at all."""
        if world.hops[0].waiting.is_empty():
            offered = self.offer(world, 0, Kind.CHUNK, rows)
            for sent in self._first(offered, 0, self._sends):
                return DONE, sent
        return REFUSED, world

    def take(self, world: World) -> tuple[Result, World]:
        """Take the oldest message that was not taken; for the specification nothing happens."""
        here = list(world.hops[-1].inbox)[world.taken :]
        if not here:
            return NOTHING, world
        return self.received(world, here[0]), world._replace(taken=world.taken + 1)

    def consume(self, world: World) -> World:
        """Be done with the oldest message that was taken."""
        return self.act(world, len(world.hops) - 1, CONSUME)._replace(taken=world.taken - 1)

    def act(self, world: World, hop: int, action: str, *arguments: int) -> World:
        """One action at one hop.

        Raises:
            Disabled: it is not possible.
        """
        after = self._actions[action](world.hops[hop], self._inside if hop else self.parameters, *arguments)
        return self.with_hop(world, hop, after)

    @staticmethod
    def with_hop(world: World, hop: int, state: Any) -> World:
        """The world with another state of one hop."""
        hops = list(world.hops)
        hops[hop] = state
        return world._replace(hops=tuple(hops))

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

        It does for those that send at one end, and for what a receiver returns by itself: it may find itself idle a
        moment before the next message arrives.  Everything else comes to the same in any order.
        """
        hops = range(len(world.hops) - 1, -1, -1)
        returned = [after for hop in hops for after in self._first(world, hop, self._returns)]
        for hop in hops:
            if moved := self._first(world, hop, self._arrivals):
                return moved + returned
        for hop in hops:
            if sent := [after for name in self._sends for after in self._first(world, hop, (name,))]:
                return sent + returned
        for bridge in range(len(world.forwarding)):
            if moved := list(self._forwarded(world, bridge)):
                return moved + returned
        return returned

    def _first(self, world: World, hop: int, actions: Sequence[str]) -> list[World]:
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
                world = self.act(world, bridge, CONSUME)
            yield self._with_forwarding(world, bridge, 0)
            return
        rows = 0
        for position, message in enumerate(source.inbox):
            passing = self.received(world, message)
            rows += passing.rows
            if position and (passing.kind is not Kind.CHUNK or rows > self.rows_on_a_bridge):
                return
            if passing.kind is Kind.WATERMARK:
                world = self.announce(world, bridge + 1, passing.value or 0)
            else:
                world = self.offer(world, bridge + 1, passing.kind, passing.rows)
            # Further messages may have come too late to travel together.
            yield self._with_forwarding(world, bridge, position + 1)
            if passing.kind is not Kind.CHUNK:
                return

    def _with_forwarding(self, world: World, bridge: int, count: int) -> World:
        counts = world.forwarding
        return world._replace(forwarding=(*counts[:bridge], count, *counts[bridge + 1 :]))

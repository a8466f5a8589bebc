"""The model as seen by the applications at the channel's two ends.

They see which sends have returned, and which messages arrive; they do not see wires, permits or the protocol's own
steps.  After each of their moves the protocol makes all steps that it can; if the specification allows several
outcomes, all are kept.  A chain of control loops is modelled as one model per loop, with a bridge between neighbours
that takes some messages, forwards them, and has consumed them once they have left.

``Outside`` knows a protocol by its system, whose state has ``offered``, ``consumed``, and the queues ``waiting``,
``wire`` and ``inbox``; a subclass for each protocol defines its messages.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, TypeAlias

from permitflow.errors import counted
from permitflow.flows.messages import Kind
from permitflow_model.kernel.queue import Fifo
from permitflow_model.kernel.system import Disabled, System, require
from permitflow_testing.adapter import ReceivedMessage
from permitflow_testing.moves import Move

DONE, NOTHING, REFUSED = "done", "nothing is here", "refused"
Result: TypeAlias = ReceivedMessage | str

Perform: TypeAlias = Callable[..., Any]
"""Takes a state, the parameters and an action's arguments; returns the next state, or raises ``Disabled``."""

CONSUME = "Consume"
"""The action of the receiving application, in all protocols."""

WITHDRAWN = -1
"""The number of a withdrawn chunk that a mistaken channel sends nevertheless."""

MOST_ON_A_BRIDGE = 100


class Seen(NamedTuple):
    """The applications' view once the protocol has no more steps of its own."""

    outcome: Result
    """The result of the move itself."""
    waiting: tuple[str, ...] = ()
    """Chunks and barriers that wait to be sent, with their numbers, in the order in which they were offered."""

    def __str__(self) -> str:
        who = " and ".join(self.waiting) or "nobody"
        return f"{in_words(self.outcome)}, {who} {'wait' if len(self.waiting) > 1 else 'waits'}"


def in_words(outcome: Result) -> str:
    """A move's outcome."""
    if isinstance(outcome, str):
        return outcome
    if outcome.kind is Kind.CHUNK:
        which = "a withdrawn chunk" if outcome.value == WITHDRAWN else f"chunk {outcome.value}"
        return f"{which} of {counted(outcome.rows, 'row')} is taken"
    return "a barrier is taken" if outcome.kind is Kind.BARRIER else f"watermark {outcome.value} is taken"


class World(NamedTuple):
    """A channel's state, with the facts that only its applications know."""

    hops: tuple[Any, ...]
    """The state of each control loop."""
    forwarding: tuple[int, ...]
    """How many messages of the earlier hop each bridge has offered to the later one."""
    notes: Any = ()
    """Facts that the protocol's own ``Outside`` remembers beside the states."""
    taken: int = 0
    """Messages that the receiving application holds."""


class Outside:
    """The possible moves of the applications, and the views that may follow."""

    system: ClassVar[System[Any, Any]]
    rows_on_a_bridge = 0
    """Chunks of up to this many rows in total may pass a bridge together; any other message passes it alone."""

    def __init__(self, parameters: Any, *, hops: int = 1, mistaken: Mapping[str, Perform] | None = None) -> None:
        """A chain of ``hops`` channels; ``mistaken`` actions replace the right ones."""
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
        """The worlds that the protocol may reach by its own steps."""

    # Defined by each protocol.

    def received(self, world: World, message: Any) -> ReceivedMessage:
        """A message as the receiving application gets it; its value is its number."""
        raise NotImplementedError

    def offer(self, world: World, hop: int, kind: Kind, rows: int = 0) -> World:
        """Offer a chunk or a barrier at one of the hops."""
        raise NotImplementedError

    @staticmethod
    def withdrawal(state: Any, position: int) -> Iterator[tuple[str, tuple[int, ...]]]:
        """Actions that take back the message at this place in the line (0: the oldest), and leave the others."""
        raise NotImplementedError

    @staticmethod
    def withdraw_action(message: Any) -> str:
        """The action that takes back such a message."""
        raise NotImplementedError

    @staticmethod
    def given_back(state: Any, message: Any) -> Any:
        """The state after a message's permits (or the protocol's counterpart of permits) were sent back at once."""
        raise NotImplementedError

    @staticmethod
    def consumed_silently(before: Any, after: Any) -> Any:
        """The state ``after`` a message was consumed, but without the return for it."""
        raise NotImplementedError

    @staticmethod
    def robbed(state: Any) -> Any:
        """The state with one permit (or its counterpart) less."""
        raise NotImplementedError

    def announce(self, world: World, hop: int, value: int) -> World:
        """Announce a watermark at one of the hops."""
        raise NotImplementedError(f"{self.system.module} has no watermarks")

    def number(self, message: Any) -> int:
        """The number of a waiting message."""
        return message if isinstance(message, int) else message.id

    def numbered(self, message: Any, number: int) -> Any:
        """The same message with another number."""
        return number if isinstance(message, int) else message._replace(id=number)

    def rebased(self, message: Any, world: World) -> Any:
        """A message numbered from the next one to be consumed: see ``canonical``."""
        number = self.number(message)
        return message if number == WITHDRAWN else self.numbered(message, number - world.hops[-1].consumed)

    def rebased_notes(self, world: World) -> Any:
        """The notes, numbered likewise."""
        return world.notes

    # The applications.

    def start(self) -> World:
        """At rest."""
        return World((self._start,) * self._hops, (0,) * (self._hops - 1))

    def canonical(self, world: World) -> World:
        """An equivalent world: the same future, with small numbers."""
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
        """Moves that the applications can make, also those that the channel will refuse."""
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
        """The place of the message that a move withdraws, by default the newest; None: no such message is there."""
        waiting = tuple(world.hops[0].waiting)
        position = sum(move.arguments) if move.arguments else len(waiting) - 1
        here = [self.received(world, message).kind.value for message in waiting[position : position + 1]]
        return position if here == [move.action.removeprefix("Withdraw").lower()] else None

    def make(self, world: World, move: Move) -> Iterator[tuple[Seen, World]]:
        """The possible views after a move, each with the world that follows."""
        outcome, moved = self._moved(world, move)
        for after in self.settled(moved):
            yield Seen(outcome, tuple(self._waiting(after))), after

    def _waiting(self, world: World) -> Iterator[str]:
        for message in world.hops[0].waiting:
            if (number := self.number(message)) != WITHDRAWN:
                yield f"{self.received(world, message).kind.value} {number}"

    def make_in(self, worlds: Iterable[World], move: Move) -> dict[Seen, tuple[World, ...]]:
        """The possible views after a move in one of these worlds, each with the worlds that follow."""
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
        """The watermark that was announced last, or 0."""
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
        """Take the oldest message that was not taken; this is not a step of the specification."""
        here = list(world.hops[-1].inbox)[world.taken :]
        if not here:
            return NOTHING, world
        return self.received(world, here[0]), world._replace(taken=world.taken + 1)

    def consume(self, world: World) -> World:
        """Consume the oldest message that was taken."""
        return self.act(world, len(world.hops) - 1, CONSUME)._replace(taken=world.taken - 1)

    def act(self, world: World, hop: int, action: str, *arguments: int) -> World:
        """Perform one action at one hop.

        Raises:
            Disabled: the action is not possible.
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
        """The worlds after the protocol's own steps; several if the order of these steps matters.

        The order matters for the senders at one end, and for the receiver's flush: the receiver may be idle for a
        moment before the next message arrives.  All other steps lead to the same world in any order.
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
            # Further messages may have come too late to pass the bridge together.
            yield self._with_forwarding(world, bridge, position + 1)
            if passing.kind is not Kind.CHUNK:
                return

    def _with_forwarding(self, world: World, bridge: int, count: int) -> World:
        counts = world.forwarding
        return world._replace(forwarding=(*counts[:bridge], count, *counts[bridge + 1 :]))

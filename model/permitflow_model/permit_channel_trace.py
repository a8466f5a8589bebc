"""Recorded runs of a permit channel as behaviours of ``PermitChannel``: of both ends, or of one end alone.

A trace event is one action at one end, with the chunk's rows and the permits concerned.  Most events are one step of
the model.  Where an implementation does more at once than the specification, the event is explained by several
steps, each of them an action of the specification, none a formula of its own:

- *A message withdrawn from the middle.*  The specification withdraws the newest.  The messages after the withdrawn one,
  and a watermark among them, are withdrawn too and offered again: the application may do so at any time, and the
  receiver cannot see it.  A trace does not identify one of several equal messages: all are tried.
- *Withheld permits.*  No event says that the application has asked for them; they are on their way from the start.
- *Returned permits that arrive together.*  A carrier may add up grants: such an event is as many ``AddPermits`` steps
  as there are grants in the sum.  No grant is empty, so there is at most one such number.

Chunks and barriers are anonymous here: a trace holds no payloads.  Order and identity of the data are checked as far
as their kinds and rows tell them apart.

The two ends' events touch different variables, except for the wires: ``wire``, to which the sender appends and from
which the receiver removes, and ``grants``, the other way round.  ``kernel.replay`` requires that.

Some runs were recorded at one end only (``SenderAlone``, ``ReceiverAlone``): could this end have acted as recorded with
a correct peer?

The model plays the missing end.  It acts as late as possible, and no choice can be wrong: messages are consumed in the
order in which they were sent, a residue may be returned between any two chunks, and a sender that has taken in all
permits can send whatever any sender could have sent.

An unrecorded receiver may be any implementation, and may return permits in other portions than the specification's: one
chunk's permits in several parts, or those of barriers first.  The sender accepts any portions of permits that are out.
So the replay splits the due permits as they came (``PART``, which is no action of the specification), and then adds
them by ``AddPermits``.
"""

import math
from collections.abc import Callable, Iterator, Sequence
from typing import TypeAlias

from permitflow_model.kernel import replay
from permitflow_model.kernel.queue import Queue, SummedFifo
from permitflow_model.kernel.replay import Path, Refused, Starved
from permitflow_model.kernel.system import Disabled, Step
from permitflow_model.permit_channel import (
    NO_WATERMARK,
    NOTHING,
    SYSTEM,
    Message,
    Parameters,
    Permits,
    State,
    carried_by,
    held,
    plus,
    total,
)

TraceEvent: TypeAlias = replay.RecordedStep
"""Its arguments: rows of the chunk, or 0; permits of the message, or returned permits: rows, barriers, watermarks."""


def in_words(permits: Permits) -> str:
    """Permits for people, as in ``12 row permits and 1 barrier permit``."""
    classes = zip(permits, ("row permit", "barrier permit", "watermark permit"), strict=True)
    told = [f"{count:,} {name}{'' if count == 1 else 's'}" for count, name in classes if count]
    return " and ".join(filter(None, (", ".join(told[:-1]), *told[-1:]))) or "no permits"


def rows_of(event: TraceEvent) -> int:
    """Rows of the chunk, or 0."""
    return event.arguments[0]


def permits_of(event: TraceEvent) -> Permits:
    """Permits of the message, or returned permits."""
    return Permits(*event.arguments[1:])


World: TypeAlias = replay.World[State]


def withdraw_at(state: State, position: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Actions that take back the waiting message at ``position`` (0 is the oldest) and leave the others as they were.

    Yields action names with their arguments.
    """
    return withdrawal(list(state.waiting)[position:], position, state.watermark_pending)


def withdrawal(messages: Sequence[Message], position: int, pending: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """The same for the oldest of the last ``messages`` in the line, the one at ``position``.

    ``pending``: how many messages the watermark stands behind.
    """
    for message in reversed(messages):
        yield ("WithdrawChunk" if message.kind == "chunk" else "WithdrawBarrier"), ()
    # If one of the messages before the watermark is withdrawn, one message fewer is before it.
    place = pending - 1 if pending > position else NO_WATERMARK
    for number, message in enumerate(messages[1:], start=1):
        yield ("OfferChunk", (message.rows,)) if message.kind == "chunk" else ("OfferBarrier", ())
        if position + number == place:
            yield "OfferWatermark", ()


# The first two say nothing about anonymous messages; the others are theorems about all reachable states, and would take
# most of the time.
_UNCHECKED = ("ExactlyOnceInOrder", "NewestWatermarkKept", "MessagesBounded", "NeverStuck", "WholeWhenIdle")


class PermitChannelReplay(replay.StepByStep[State, Parameters]):
    """Explains trace events by steps of ``PermitChannel``."""

    def __init__(self, parameters: Parameters, *, keep_path: bool = False) -> None:
        """With ``keep_path`` each world remembers the model's steps that led to it.

        For a run of an implementation, switch on everything that it may do in ``parameters``; ``tags`` is 1,
        ``waiters`` is beyond reach, and the largest of the ``sizes`` is the largest chunk of the run.
        """
        super().__init__(SYSTEM, parameters, keep_path=keep_path, unchecked=_UNCHECKED)
        self._largest = max(parameters.sizes, default=math.inf)
        self._explain: dict[str, Callable[[World, TraceEvent], Sequence[World]]] = {
            "OfferChunk": self._offer_chunk,
            "OfferBarrier": self._offer_barrier,
            "OfferWatermark": self._offer_watermark,
            "WithdrawChunk": self._withdraw,
            "WithdrawBarrier": self._withdraw,
            "SendChunk": self._send_chunk,
            "SendBarrier": self._send_barrier,
            "SendWatermark": self._send_watermark,
            "Deliver": self._deliver,
            "Consume": self._consume,
            "Flush": self._flush,
            "AddPermits": self._add_permits,
        }

    def start(self) -> World:
        """Where every run begins."""
        empty: SummedFifo[Message] = SummedFifo()
        grants: SummedFifo[Permits] = SummedFifo()
        state = SYSTEM.initial(self.parameters)
        for withheld in state.grants:
            grants = grants.push(withheld)
        return World(state._replace(waiting=empty, wire=empty, inbox=empty, grants=grants))

    def explain(self, world: World, event: TraceEvent) -> Sequence[World]:
        """All worlds to which the event may lead."""
        return self._explain[event.action](world, event)

    def is_at_rest(self, world: World) -> bool:
        """Does nothing wait, is nothing in flight, are all permits at the sender?  But some may be withheld."""
        start = self.start()
        if world.state != start.state and not start.state.grants.is_empty():
            start = self.step(start, "AddPermits")
        return world.state == start.state

    def allowed(self, world: World) -> list[str]:
        """The possible next actions of the protocol, in words; the application may also offer and withdraw."""
        state = world.state
        objects: dict[str, Callable[[], str]] = {
            "SendChunk": lambda: _named(state.waiting.head()),
            "Deliver": lambda: _named(state.wire.head()),
            "Consume": lambda: _named(state.inbox.head()),
            "Flush": lambda: f"of {state.unreturned} row permits",
            "AddPermits": lambda: f"of {in_words(state.grants.head())}",
        }
        enabled = (
            action.name for action in SYSTEM.actions if not action.is_environment and self._can(action.name, state)
        )
        return [f"{name} {objects[name]()}" if name in objects else name for name in enabled]

    def _can(self, name: str, state: State) -> bool:
        return SYSTEM.is_enabled(name, state, self.parameters)

    # The application.

    def _offer_chunk(self, world: World, event: TraceEvent) -> Sequence[World]:
        after = self._offered(world, rows_of(event))
        _compare(event, after.state.waiting.last())
        return (after,)

    def _offered(self, world: World, rows: int) -> World:
        # The model's own step leaves it to the explorer which sizes are offered.
        if rows > self._largest:
            raise Refused(f"no chunk of more than {self._largest} rows is offered: a larger one is split")
        return self.step(world, "OfferChunk", rows)

    def _offer_barrier(self, world: World, event: TraceEvent) -> Sequence[World]:
        _compare(event, Message("barrier", 0, 0, 1))
        return (self._or_refuse(world, "OfferBarrier", "the channel has no barrier permits"),)

    def _offer_watermark(self, world: World, event: TraceEvent) -> Sequence[World]:
        _compare(event, Message("watermark", 0, 0, 1))
        return (self.step(world, "OfferWatermark"),)

    def _withdraw(self, world: World, event: TraceEvent) -> Sequence[World]:
        kind = "chunk" if event.action == "WithdrawChunk" else "barrier"
        rows, permits = rows_of(event), permits_of(event)
        matching = [
            position
            for position, message in enumerate(world.state.waiting)
            if (message.kind, message.rows, held(message)) == (kind, rows, permits)
        ]
        if not matching:
            raise Refused(f"no {kind} of {rows} rows that holds {in_words(permits)} waits")
        following = [self._withdraw_at(world, position) for position in matching]
        return tuple({world.state: world for world in following}.values())

    def _withdraw_at(self, world: World, position: int) -> World:
        for name, arguments in withdraw_at(world.state, position):
            world = self.step(world, name, *arguments)
        return world

    # The protocol at the sender.

    def _send_chunk(self, world: World, event: TraceEvent) -> Sequence[World]:
        chunk = self._next_to_leave(world, "chunk")
        _compare(event, chunk)
        reason = f"it needs {chunk.cost} row permits, the sender has {world.state.permits.rows}"
        return (self._or_refuse(world, "SendChunk", reason),)

    def _send_barrier(self, world: World, event: TraceEvent) -> Sequence[World]:
        _compare(event, self._next_to_leave(world, "barrier"))
        return (self._or_refuse(world, "SendBarrier", "no barrier permit is here"),)

    def _next_to_leave(self, world: World, kind: str) -> Message:
        waiting = world.state.waiting
        if not waiting.is_empty() and (head := waiting.head()).kind == kind:
            return head
        if any(message.kind == kind for message in waiting):
            raise Refused(f"a {_named(head)} was offered before it and has not left")
        raise Refused(f"no {kind} waits")

    def _send_watermark(self, world: World, event: TraceEvent) -> Sequence[World]:
        _compare(event, Message("watermark", 0, 0, 1))
        pending = world.state.watermark_pending
        if pending == NO_WATERMARK:
            what = "no watermark is pending"
        elif pending > 0:
            what = f"{pending} messages were offered before it and have not left"
        else:
            what = "the last one was not consumed yet, or its permit is not back"
        return (self._or_refuse(world, "SendWatermark", what),)

    def _add_permits(self, world: World, event: TraceEvent) -> Sequence[World]:
        returned, told = NOTHING, permits_of(event)
        steps = 0
        for grant in world.state.grants:
            if returned == told:
                break
            returned = plus(returned, grant)
            steps += 1
        if not steps and returned == told:
            raise Refused("no permits are returned")
        if returned != told:
            way = ", then ".join(map(in_words, tuple(world.state.grants)[:5]))
            if any(here > due for here, due in zip(returned, told, strict=True)):
                raise Refused(f"{in_words(told)} are not a sum of what comes back first: {way}")
            # Of one class, the number alone says it.
            is_of_rows = not any((*told[1:], *returned[1:]))
            there = f"{returned.rows:,}" if is_of_rows else in_words(returned)
            raise Starved(f"of {in_words(told)} only {there} are on their way back")
        for _ in range(steps):
            world = self.step(world, "AddPermits")
        return (world,)

    # The protocol at the receiver.

    def _deliver(self, world: World, event: TraceEvent) -> Sequence[World]:
        _compare(event, _head_or_starve(world.state.wire))
        return (self.step(world, "Deliver"),)

    def _consume(self, world: World, event: TraceEvent) -> Sequence[World]:
        if world.state.inbox.is_empty():
            raise Refused("the inbox is empty")
        _compare(event, world.state.inbox.head())
        return (self.step(world, "Consume"),)

    def _flush(self, world: World, event: TraceEvent) -> Sequence[World]:
        state = world.state
        if (told := permits_of(event)) != (state.unreturned, 0, 0):
            raise Refused(f"{in_words(told)} are returned, the residue is {state.unreturned} row permits")
        what = (
            "nothing is left to return"
            if state.inbox.is_empty()
            else "the inbox is not empty: the consumer is not idle"
        )
        return (self._or_refuse(world, "Flush", what),)

    def _or_refuse(self, world: World, name: str, reason: str) -> World:
        try:
            return self.step(world, name)
        except Disabled:
            raise Refused(reason) from None


def _compare(event: TraceEvent, message: Message) -> None:
    if event.arguments != (message.rows, *held(message)):
        told = f"{rows_of(event)} rows and {in_words(permits_of(event))}"
        raise Refused(f"it is recorded with {told}, but it must be a {_named(message)}")


def _named(message: Message) -> str:
    rows = f" of {message.rows} rows" if message.kind == "chunk" else ""
    return f"{message.kind}{rows} with {in_words(held(message))}"


def _head_or_starve(queue: Queue[Message]) -> Message:
    if queue.is_empty():
        raise Starved("nothing is on the wire")
    return queue.head()


PART = "PartGrants"
"""The step by which permits on their way back become two portions; its arguments are the permits of the first."""


class SenderAlone(PermitChannelReplay):
    """Explains the sender's events; the model's receiver consumes as late as possible."""

    def _add_permits(self, world: World, event: TraceEvent) -> Sequence[World]:
        told = permits_of(event)
        while (returned := carried_by(world.state.grants)) != told and _is_within(returned, told):
            residue = Permits(world.state.unreturned, 0, 0)
            if residue != NOTHING and plus(returned, residue) == told:
                world = self.step(world, "Flush")
            elif not world.state.wire.is_empty():
                world = self._consumed(world)
            else:
                break
        try:
            return super()._add_permits(world, event)
        except (Refused, Starved):
            return (self.step(self._parted(world, event), "AddPermits"),)

    def _consumed(self, world: World) -> World:
        return self.step(self.step(world, "Deliver"), "Consume")

    def _parted(self, world: World, event: TraceEvent) -> World:
        while not world.state.wire.is_empty():
            world = self._consumed(world)
        if world.state.unreturned:
            world = self.step(world, "Flush")
        state, first = world.state, permits_of(event)
        held = carried_by(state.grants)
        if first == NOTHING or not (_is_within(NOTHING, first) and _is_within(first, held)):
            raise Refused(f"{in_words(first)} come back, and all that was sent holds {in_words(held)}")
        rest = Permits(*(all_of - part for all_of, part in zip(held, first, strict=True)))
        portions = SummedFifo[Permits]().push(first)
        state = state._replace(grants=portions if rest == NOTHING else portions.push(rest))
        return world._replace(state=state, path=Path(Step(PART, first, state), world.path) if self._keep_path else None)


class ReceiverAlone(PermitChannelReplay):
    """Explains the receiver's events; the model's sender sends what arrives, if any sender could."""

    def is_at_rest(self, world: World) -> bool:
        """Has everything been consumed and returned?"""
        return super().is_at_rest(self._with_all_permits_home(world))

    def _deliver(self, world: World, event: TraceEvent) -> Sequence[World]:
        world = self._with_all_permits_home(world)
        name, arguments = _message_of(event)
        world = self._offered(world, *arguments) if name == "Chunk" else self.step(world, f"Offer{name}")
        try:
            world = self.step(world, f"Send{name}")
        except Disabled:
            has, of = in_words(world.state.permits), in_words(total(self.parameters))
            raise Refused(
                f"no sender that obeys could have sent it: it holds {in_words(permits_of(event))}, "
                f"and of {of} at most {has} can be at the sender"
            ) from None
        return super()._deliver(world, event)

    def _with_all_permits_home(self, world: World) -> World:
        while not world.state.grants.is_empty():
            world = self.step(world, "AddPermits")
        return world


def _is_within(permits: Permits, bound: tuple[int, int, int]) -> bool:
    return all(here <= most for here, most in zip(permits, bound, strict=True))


def _message_of(event: TraceEvent) -> tuple[str, tuple[int, ...]]:
    _, barriers, watermarks = permits_of(event)
    if watermarks:
        return "Watermark", ()
    if barriers:
        return "Barrier", ()
    return "Chunk", (rows_of(event),)

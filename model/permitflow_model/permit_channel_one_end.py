"""Recorded runs of which only one end is known: is there an end that obeys, with which this one did what it did?

The missing end's moves are the model's own.  It does nothing before it must, and there is never a choice that could be
wrong: messages are consumed in the order in which they were sent, a residue may be returned between any two chunks,
and a sender that has taken in all permits can send whatever any sender could have sent.

A receiver that nobody recorded may be anybody's, and may return permits in other portions than the specification's: of
one chunk bit by bit, or its barriers first.  To the sender that is all one, as long as they are out.  Then what comes
back is parted as it came (``PART``), which is no action of the specification, and then comes by ``AddPermits``.
"""

from collections.abc import Sequence

from permitflow_model.kernel.replay import Refused, Starved
from permitflow_model.kernel.summed_queue import SummedFifo
from permitflow_model.kernel.system import Disabled, Step
from permitflow_model.permit_channel import NOTHING, Permits, carried_by, plus, total
from permitflow_model.permit_channel_trace import PermitChannelReplay
from permitflow_model.permit_channel_world import Path, TraceEvent, World

__all__ = ["PART", "ReceiverAlone", "SenderAlone"]

PART = "PartGrants"
"""The step by which permits on their way back become two portions; its arguments are the permits of the first."""


class SenderAlone(PermitChannelReplay):
    """Explains the sender's events; the model's receiver consumes what must have been consumed."""

    def _add_permits(self, world: World, event: TraceEvent) -> Sequence[World]:
        while (returned := carried_by(world.state.grants)) != event.permits and _is_within(returned, event.permits):
            residue = Permits(world.state.unreturned, 0, 0)
            if residue != NOTHING and plus(returned, residue) == event.permits:
                world = self._step(world, "Flush")
            elif not world.state.wire.is_empty():
                world = self._consumed(world)
            else:
                break
        try:
            return super()._add_permits(world, event)
        except (Refused, Starved):
            return (self._step(self._parted(world, event), "AddPermits"),)

    def _consumed(self, world: World) -> World:
        return self._step(self._step(world, "Deliver"), "Consume")

    def _parted(self, world: World, event: TraceEvent) -> World:
        while not world.state.wire.is_empty():
            world = self._consumed(world)
        if world.state.unreturned:
            world = self._step(world, "Flush")
        state, first = world.state, Permits(*event.permits)
        held = carried_by(state.grants)
        if first == NOTHING or not (_is_within(NOTHING, first) and _is_within(first, held)):
            raise Refused(f"{tuple(first)} permits come back, and all that was sent holds {tuple(held)}")
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
        world = self._step(world, f"Offer{name}", *arguments)
        try:
            world = self._step(world, f"Send{name}")
        except Disabled:
            has, of = tuple(world.state.permits), tuple(total(self.parameters))
            raise Refused(
                f"no sender that obeys could have sent it: it holds {tuple(event.permits)} permits, "
                f"and of {of} at most {has} can be at the sender"
            ) from None
        return super()._deliver(world, event)

    def _with_all_permits_home(self, world: World) -> World:
        while not world.state.grants.is_empty():
            world = self._step(world, "AddPermits")
        return world


def _is_within(permits: Permits, bound: tuple[int, int, int]) -> bool:
    return all(here <= most for here, most in zip(permits, bound, strict=True))


def _message_of(event: TraceEvent) -> tuple[str, tuple[int, ...]]:
    _, barriers, watermarks = event.permits
    if watermarks:
        return "Watermark", ()
    if barriers:
        return "Barrier", ()
    return "Chunk", (event.rows,)

"""Recorded runs of which only one end is known: is there an end that obeys, with which this one did what it did?

The missing end's moves are the model's own.  It does nothing before it must, and there is never a choice that could be
wrong: messages are consumed in the order in which they were sent, a residue may be returned between any two chunks,
and a sender that has taken in all permits can send whatever any sender could have sent.
"""

from collections.abc import Sequence

from permitflow_model.kernel.replay import Refused
from permitflow_model.kernel.system import Disabled
from permitflow_model.permit_channel import NOTHING, Permits, carried_by, plus, total
from permitflow_model.permit_channel_trace import PermitChannelReplay
from permitflow_model.permit_channel_world import TraceEvent, World

__all__ = ["ReceiverAlone", "SenderAlone"]


class SenderAlone(PermitChannelReplay):
    """Explains the sender's events; the model's receiver consumes what must have been consumed."""

    def _add_permits(self, world: World, event: TraceEvent) -> Sequence[World]:
        while True:
            state = world.state
            returned = carried_by(state.grants)
            residue = Permits(state.unreturned, 0, 0)
            if returned == event.permits or not _is_within(returned, event.permits):
                return super()._add_permits(world, event)
            if residue != NOTHING and plus(returned, residue) == event.permits:
                world = self._step(world, "Flush")
            elif state.wire.is_empty():
                held_back = plus(returned, residue)
                raise Refused(
                    f"{tuple(event.permits)} permits come back, but all that was sent holds {tuple(held_back)}"
                    if _is_within(held_back, event.permits)
                    else f"{tuple(event.permits)} is no sum of what the messages hold that come back first"
                )
            else:
                world = self._step(self._step(world, "Deliver"), "Consume")


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

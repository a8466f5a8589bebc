"""Permits, as the kit's own ends return them."""

from permitflow.errors import UndecodableDataError
from permitflow.flows.messages import Kind, Message
from permitflow.flows.permits.parameters import ChannelParameters, Permits, held
from permitflow_model import permit_channel as model
from permitflow_model.kernel.queue import Fifo
from permitflow_testing.foreign.way import Way


class PermitWay(Way):
    """Row permits come back in batches, those of barriers and watermarks at once."""

    NAMES = ("row_permits", "barrier_permits", "watermark_permits")

    @staticmethod
    def start(state: model.State) -> tuple[int, ...]:
        """The permits of each class at the start."""
        return tuple(state.permits)

    @staticmethod
    def held(message: model.Message) -> tuple[int, ...]:
        """The permits of each class that the message holds."""
        return tuple(model.held(message))

    @staticmethod
    def taken(state: model.State) -> tuple[list[Permits], model.State]:
        """The grants."""
        return [Permits(*grant) for grant in state.grants], state._replace(grants=Fifo())

    @staticmethod
    def given(state: model.State, feedback: Permits) -> model.State:
        """One more grant.

        Raises:
            UndecodableDataError: it returns nothing.
        """
        if min(feedback) < 0 or not any(feedback):
            raise UndecodableDataError(what=f"feedback of {tuple(feedback)}", reason="it must return a permit")
        return state._replace(grants=state.grants.push(model.Permits(*feedback)))

    @staticmethod
    def sent_watermark(state: model.State) -> model.State:
        """The state in which the watermark has left, with the permit that it needs."""
        return state._replace(permits=state.permits._replace(watermarks=state.permits.watermarks + 1))

    @staticmethod
    def batch(agreed: ChannelParameters) -> int:
        """The batch of row permits."""
        return agreed.permit_batch

    @staticmethod
    def held_by(kind: Kind, rows: int, agreed: ChannelParameters) -> tuple[int, ...]:
        """Row permits of a chunk, or the one of a marker."""
        return tuple(held(Message(kind, None, rows), agreed))

    @staticmethod
    def action(verb: str, kind: Kind) -> str:
        """The action of this verb, with the kind in its name."""
        return f"{verb}{kind.value.title()}"

    @staticmethod
    def arguments(rows: int, held: tuple[int, ...]) -> tuple[int, ...]:
        """Rows, and permits of each class."""
        return rows, *held

    @staticmethod
    def added(feedback: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        """Permits of each class."""
        return "AddPermits", (0, *feedback)

    @staticmethod
    def flushed(residue: int) -> tuple[str, tuple[int, ...]]:
        """Row permits."""
        return "Flush", (0, residue, 0, 0)

    @staticmethod
    def receiver_counters(messages: int, rows: int, unreturned: int) -> tuple[int, ...]:
        """The receiver's counters, in this order."""
        return messages, rows, unreturned

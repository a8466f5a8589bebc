"""Requests, as the kit's own ends send them."""

from permitflow.errors import UndecodableDataError
from permitflow.flows.demand.core import Demand, Request
from permitflow.flows.messages import Kind
from permitflow_model import demand as model
from permitflow_testing.foreign.way import Way


class DemandWay(Way):
    """Messages are requested again in batches."""

    NAMES = ("requested",)

    @staticmethod
    def start(state: model.State) -> tuple[int, ...]:
        """Messages that may leave."""
        return (state.credit,)

    @staticmethod
    def held(message: int) -> tuple[int, ...]:
        """One request, whatever the message is."""
        return (1,)

    @staticmethod
    def taken(state: model.State) -> tuple[list[Request], model.State]:
        """What was requested."""
        return [Request(state.requests)] if state.requests else [], state._replace(requests=0)

    @staticmethod
    def given(state: model.State, feedback: Request) -> model.State:
        """More requests.

        Raises:
            UndecodableDataError: it requests nothing.
        """
        if feedback.messages < 1:
            raise UndecodableDataError(what=f"feedback of {feedback.messages}", reason="it must request a message")
        return state._replace(requests=state.requests + feedback.messages)

    @staticmethod
    def batch(agreed: Demand) -> int:
        """The batch, in messages."""
        return agreed.batch

    @staticmethod
    def held_by(kind: Kind, rows: int, agreed: Demand) -> tuple[int, ...]:
        """One request."""
        return (1,)

    @staticmethod
    def added(feedback: tuple[int, ...]) -> tuple[str, tuple[int, ...]]:
        """The action and its argument: this many messages."""
        return "Request", feedback

    @staticmethod
    def receiver_counters(messages: int, rows: int, unreturned: int) -> tuple[int, ...]:
        """Nothing is withheld here."""
        return messages, unreturned, 0

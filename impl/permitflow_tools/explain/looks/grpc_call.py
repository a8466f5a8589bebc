"""A gRPC call between two stages in pictures: messages as numbers, and words for false guards."""

from collections.abc import Callable, Mapping
from typing import Any

from permitflow_model.grpc_call import SYSTEM, Message
from permitflow_tools.explain.look import Look

WORDS: Mapping[str, Callable[..., str]] = {
    "state.producer == 'open'": lambda producer, _open: f"the producer has ended: {producer}",
    "state.asked > 0": lambda _asked, _none: "the producer is not asked: the stage holds a message",
    "parameters.breaks": lambda: "this call is not broken off",
    "state.consumer == 'open'": lambda consumer, _open: f"the consumer has ended: {consumer}",
    "not state.wanted": lambda: "the consumer asks already",
    "not state.edge": lambda: "the stage will be told already",
    "state.edge": lambda: "the call has not become ready",
    "state.looking != 'nobody'": lambda _looking, _nobody: "nobody has looked without acting",
    "not state.local.is_empty()": lambda: "the local queue is empty",
    "fits(state.local.head(), state, parameters)": lambda: "the window has no room for the next message",
    "state.consumer == 'cancelled'": lambda _consumer, _cancelled: "the consumer has not cancelled",
    "state.producer == 'open' or state.producer == 'completed'": lambda: "the producer knows of the end",
    "not state.wire.is_empty()": lambda: "the window is empty",
    "state.requested > 0": lambda _requested, _none: "the receiver has requested no more",
    "state.wanted": lambda: "the consumer does not ask",
    "not state.inbox.is_empty()": lambda: "nothing was handed over",
    "state.closed": lambda: "the call is not half-closed",
    "state.producer == 'completed'": lambda _producer, _completed: "the producer has not completed",
    "state.producer == 'failed'": lambda _producer, _failed: "the producer has not failed",
    "state.local.is_empty()": lambda: "messages wait in the local queue",
    "state.wire.is_empty()": lambda: "messages are in the window",
    "state.inbox.is_empty()": lambda: "messages were handed over and not taken",
}


class GrpcCallLook(Look):
    """Its variables; a message of one byte is its number."""

    def value(self, value: Any) -> str:
        """A message as ``#number``, with its bytes if it has more than one."""
        if isinstance(value, Message):
            return f"#{value.number}" if value.size == 1 else f"#{value.number} ({value.size:,} B)"
        return super().value(value).strip('"')

    def row(self, state: Any) -> dict[str, str]:
        """The same variables in a table, but for the numbers that come next."""
        return {name: text for name, text in self.variables(state).items() if name not in ("offered", "consumed")}


LOOK = GrpcCallLook(
    SYSTEM,
    words=WORDS,
    beginning="The beginning: the producer is asked for its first message.",
    at_rest="everything has been consumed, and the producer is asked for more",
)

"""Words for the false guards of demand."""

from collections.abc import Callable, Mapping

from permitflow.pictures.look import Look
from permitflow_model.demand import SYSTEM

WORDS: Mapping[str, Callable[..., str]] = {
    "state.waiting.size() < parameters.waiters": lambda size, most: f"{size:,} wait, and no more than {most:,} may",
    "parameters.withdrawals": lambda: "a message that waits here is never withdrawn",
    "not state.waiting.is_empty()": lambda: "nothing waits",
    "state.credit > 0": lambda _credit, _none: "no message is requested",
    "not state.wire.is_empty()": lambda: "nothing is on the wire",
    "not state.inbox.is_empty()": lambda: "the inbox is empty",
    "state.withheld > 0": lambda _withheld, _none: "nothing is withheld",
    "count <= state.requests": lambda _count, requests: f"requests for {requests:,} messages are on their way",
}


class DemandLook(Look):
    """Its variables."""

    words = WORDS
    beginning = "The beginning: nothing has been offered."
    at_rest = "everything has been consumed"


LOOK = DemandLook(SYSTEM)

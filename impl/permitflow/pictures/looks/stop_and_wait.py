"""Words for the false guards of stop and wait."""

from collections.abc import Callable, Mapping

from permitflow.pictures.look import Look
from permitflow_model.stop_and_wait import SYSTEM

WORDS: Mapping[str, Callable[..., str]] = {
    "state.waiting.size() < parameters.waiters": lambda size, most: f"{size:,} wait, and no more than {most:,} may",
    "parameters.withdrawals": lambda: "a message that waits here is never withdrawn",
    "not state.waiting.is_empty()": lambda: "nothing waits",
    "state.free > 0": lambda _free, _none: "a message is out, and its answer is not back yet",
    "not state.wire.is_empty()": lambda: "nothing is on the wire",
    "not state.inbox.is_empty()": lambda: "the inbox is empty",
    "state.answers > 0": lambda _answers, _none: "no answer is on its way back",
}


class StopAndWaitLook(Look):
    """Its variables."""

    words = WORDS
    beginning = "The beginning: nothing has been offered, and no message is out."
    at_rest = "everything has been consumed and answered"


LOOK = StopAndWaitLook(SYSTEM)

"""Words for the false guards of stop and wait."""

from collections.abc import Callable, Mapping

from permitflow_model.stop_and_wait import SYSTEM
from permitflow_tools.explain.look import Look

WORDS: Mapping[str, Callable[..., str]] = {
    "state.free > 0": lambda _free, _none: "a message is out, and its answer is not back yet",
    "state.answers > 0": lambda _answers, _none: "no answer is on its way back",
}


LOOK = Look(
    SYSTEM,
    words=WORDS,
    beginning="The beginning: nothing has been offered, and no message is out.",
    at_rest="everything has been consumed and answered",
)

"""Words for the false guards of demand."""

from collections.abc import Callable, Mapping

from permitflow_model.demand import SYSTEM
from permitflow_tools.explain.look import Look

WORDS: Mapping[str, Callable[..., str]] = {
    "state.credit > 0": lambda _credit, _none: "no message is requested",
    "state.withheld > 0": lambda _withheld, _none: "nothing is withheld",
    "count <= state.requests": lambda _count, requests: f"requests for {requests:,} messages are on their way",
}


LOOK = Look(
    SYSTEM,
    words=WORDS,
    beginning="The beginning: nothing has been offered.",
    at_rest="everything has been consumed",
)

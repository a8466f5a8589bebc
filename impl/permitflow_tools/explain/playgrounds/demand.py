"""The demand loop to play with."""

from permitflow_model.demand import SYSTEM, Parameters
from permitflow_tools.explain.looks.table import look_of
from permitflow_tools.explain.playground import Knob, Playground, Setting, visited


def _setting(size: int, batch: int, pulls: bool) -> Setting:
    parameters = Parameters(size=size, batch=batch, initial=0 if pulls else size)
    return visited(SYSTEM, parameters, (f"A batch of at most {size}",))


PLAYGROUND = Playground(
    name="demand",
    title="The demand loop",
    introduction="The receiver requests messages, a batch at a time; the sender sends what was requested. "
    "Which batch can never be complete?",
    look=look_of("Demand"),
    knobs=(
        Knob("size", "Messages that may be out at once", range(1, 5), 3),
        Knob("batch", "Messages of a request", range(1, 6), 2),
        Knob("pulls", "Nothing is sent before the receiver asks", (False, True), 0),
    ),
    setting=_setting,
)

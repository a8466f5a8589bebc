"""The gate to play with: theorems decide, or a run that shows the fault."""

from permitflow_tools.checking.gate import check_gate
from permitflow_tools.explain.looks.table import look_of
from permitflow_tools.explain.playground import Knob, Playground, Setting

MOST_STATES = 600
"""A gate has many more; the page holds those nearest to the run into the fault, or to the beginning."""


def _setting(exclusive: int, floating: int, stop: bool, release: bool, announce: bool) -> Setting:
    found = check_gate(inputs=2, exclusive=exclusive, floating=floating, stop=stop, release=release, announce=announce)
    proof = f" Proved for any number of inputs ({found.theorem})." if found.theorem else ""
    sentence = f"{found.reason[0].upper()}{found.reason[1:]}.{proof}"
    return Setting(found.parameters, found.verdict == "live", sentence, found.steps)


PLAYGROUND = Playground(
    name="gate",
    title="The gate",
    introduction="Two inputs align their barriers: an input whose barrier was consumed is blocked until the "
    "barrier of the other one is. Buffers at the gate are credit for the senders. Which rule can be left out?",
    look=look_of("InputGate"),
    knobs=(
        Knob("exclusive", "Buffers of each input", range(2), 0),
        Knob("floating", "Buffers that both share", range(2), 1),
        Knob("stop", "A sender stops behind its barrier", (False, True), 1),
        Knob("release", "A barrier takes shared buffers back", (False, True), 1),
        Knob("announce", "A sender without credit says that it has data", (False, True), 1),
    ),
    setting=_setting,
    most_states=MOST_STATES,
)

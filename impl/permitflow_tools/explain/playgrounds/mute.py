"""The mute chain to play with."""

from itertools import pairwise

from permitflow_model.mute import SYSTEM, Parameters
from permitflow_tools.explain.looks.table import look_of
from permitflow_tools.explain.playground import Knob, Playground, Setting, visited


def _setting(relays: int, high: int, low: int, is_lost: bool, tells_again: bool) -> Setting:
    nodes = range(1, relays + 3)
    parameters = Parameters(
        sinks=1,
        relays=relays,
        sources=1,
        hops=frozenset(frozenset(pair) for pair in pairwise(nodes)),
        high=high,
        low=low,
        supply=3,
        remakes=int(is_lost),
        tells_again=tells_again,
    )
    return visited(SYSTEM, parameters, ("A new connection that is told who mutes",))


PLAYGROUND = Playground(
    name="mute",
    title="The mute chain",
    introduction="A sink whose queue is above its high mark mutes the source, through relays; at the low mark "
    "it unmutes it. What may be lost on the way, so that the source is silent for ever?",
    look=look_of("Mute"),
    knobs=(
        Knob("relays", "Relays between source and sink", range(3), 1),
        Knob("high", "The high mark", range(1, 3), 1),
        Knob("low", "The low mark", range(2), 0),
        Knob("is_lost", "A connection may be made anew, once", (False, True), 1),
        Knob("tells_again", "A new connection is told who mutes", (False, True), 1),
    ),
    setting=_setting,
)

"""The machines to play with, by name."""

from collections.abc import Mapping

from permitflow_tools.explain.playground import Playground
from permitflow_tools.explain.playgrounds import demand, input_gate, mute, permit_channel

PLAYGROUNDS: Mapping[str, Playground] = {
    each.PLAYGROUND.name: each.PLAYGROUND for each in (permit_channel, demand, input_gate, mute)
}

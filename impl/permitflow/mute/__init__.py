"""Back-pressure by muting, as in Wallaroo and Pony: a sink that cannot write stops the sources, over TCP and processes.

This module loads the standard library only.
"""

from permitflow.mute.graph import Edge, Marks, MuteGraph, Signal
from permitflow.mute.scheduler import MuteScheduler

__all__ = ["Edge", "Marks", "MuteGraph", "MuteScheduler", "Signal"]

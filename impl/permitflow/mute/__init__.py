"""Back-pressure by muting, as in Wallaroo and Pony: a sink that cannot write stops the sources, over TCP and processes.

This module loads the standard library only.
"""

from permitflow.mute.channel import Boundary, Inlet
from permitflow.mute.graph import Edge, Marks, MuteGraph, Signal
from permitflow.mute.pipeline import Bound, Lines, Pipeline, SourceState, TcpSink, TcpSource, pipeline_bound
from permitflow.mute.saving import Saving
from permitflow.mute.scheduler import MuteScheduler
from permitflow.mute.sockets import Buffers, kernel_bytes, sizes_of

__all__ = [
    "Bound",
    "Boundary",
    "Buffers",
    "Edge",
    "Inlet",
    "Lines",
    "Marks",
    "MuteGraph",
    "MuteScheduler",
    "Pipeline",
    "Saving",
    "Signal",
    "SourceState",
    "TcpSink",
    "TcpSource",
    "kernel_bytes",
    "pipeline_bound",
    "sizes_of",
]

"""Simulates one channel: its throughput, the places of its permits, and the window that it needs.

The two ends are the real ones, ``PermitSender`` and ``PermitReceiver``; only time, delays and the application are
simulated.  No clock, no I/O: the same setting and the same seed give the same figures.
"""

from permitflow.flows.permits.parameters import StatedParameters
from permitflow_tools.simulation.chunk_sizes import UniformSizes, WeightedSizes
from permitflow_tools.simulation.run import Figures, SimulatedRun, Stuck, Whereabouts, simulate
from permitflow_tools.simulation.setting import SimulationSetting
from permitflow_tools.simulation.window import Window, smallest_window

__all__ = [
    "Figures",
    "SimulatedRun",
    "SimulationSetting",
    "StatedParameters",
    "Stuck",
    "UniformSizes",
    "WeightedSizes",
    "Whereabouts",
    "Window",
    "simulate",
    "smallest_window",
]

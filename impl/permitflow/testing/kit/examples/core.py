"""The sans-IO core as a pair of ends whose every step is made by hand."""

from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import RecorderFactory
from permitflow.testing.core_pair import CorePair

__all__ = ["make_core_pair"]


def make_core_pair(parameters: ChannelParameters, tags: int, record: RecorderFactory | None) -> CorePair:
    """A sender and a receiver at rest."""
    return CorePair(parameters, tags=tags, record=record)

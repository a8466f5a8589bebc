"""What the parameters of channels allow, as numbers beside their events."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import Counters, End

__all__ = ["Limits", "PerEvent", "initial_counters", "limits_of"]

PerEvent: TypeAlias = npt.NDArray[np.int64]
"""A number for each event, or the same one for all: then it has no dimension."""

_NO_BOUND = int(np.iinfo(np.int64).max)


@dataclass(frozen=True, slots=True)
class Limits:
    """Those of the channel of each event."""

    parameters: list[ChannelParameters]
    """Of each channel, not of each event."""

    row_permits: PerEvent
    barrier_permits: PerEvent
    permit_batch: PerEvent
    max_chunk_cost: PerEvent
    most_inbox_rows: PerEvent
    """No bound where chunks above the clamp are admitted whole."""

    @property
    def total(self) -> tuple[PerEvent, PerEvent, PerEvent]:
        """All permits: rows, barriers, watermarks."""
        return self.row_permits, self.barrier_permits, np.array(1, dtype=np.int64)

    def initial_counters(self, end: End) -> tuple[PerEvent, PerEvent, PerEvent]:
        """What an end counts before its first event, channel by channel."""
        counts = np.array([initial_counters(end, of) for of in self.parameters], dtype=np.int64)
        first, second, third = counts.T
        return first, second, third


def initial_counters(end: End, parameters: ChannelParameters) -> Counters:
    """What an end counts before its first event: the sender has all permits, the receiver nothing.

    Spec: Init.
    """
    return (parameters.row_permits, parameters.barrier_permits, 1) if end == "sender" else (0, 0, 0)


def limits_of(parameters: Sequence[ChannelParameters], sizes: npt.NDArray[np.intp] | int = 1) -> Limits:
    """Of channels that have so many events each."""
    kinds = {of: number for number, of in enumerate(dict.fromkeys(parameters))}
    which = None if len(kinds) == 1 else np.repeat([kinds[of] for of in parameters], sizes)

    def beside_events(numbers: Sequence[int]) -> PerEvent:
        each = np.array(numbers, dtype=np.int64)
        return each.reshape(()) if which is None else each[which]

    return Limits(
        parameters=list(parameters),
        row_permits=beside_events([of.row_permits for of in kinds]),
        barrier_permits=beside_events([of.barrier_permits for of in kinds]),
        permit_batch=beside_events([of.permit_batch for of in kinds]),
        max_chunk_cost=beside_events([of.max_chunk_cost for of in kinds]),
        most_inbox_rows=beside_events([of.row_permits if of.oversize == "split" else _NO_BOUND for of in kinds]),
    )

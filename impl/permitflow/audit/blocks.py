"""Where in a table each end of each channel lies."""

from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

__all__ = ["Blocks", "Places", "blocks_of", "chosen"]

_Codes = npt.NDArray[np.int32]
_Places = npt.NDArray[np.intp]

Places: TypeAlias = slice | _Places
"""In a table; where they are neighbours, a slice."""

_Of = TypeVar("_Of", bound=np.generic)


@dataclass(frozen=True, slots=True)
class Blocks:
    """The events of a table end by end, of each end channel by channel, each in the order of the table."""

    borders: _Places
    """Where each block begins; the last one is the end."""

    order: _Places | None
    """The places of the events in the table; None: they lie there as they should, as in files of our own."""

    def places(self, borders: _Places) -> Places:
        """Where in the table the events from the first to the last of these borders lie."""
        places = slice(int(borders[0]), int(borders[-1]))
        return places if self.order is None else self.order[places]

    def firsts(self) -> _Places:
        """Where in the table the first event of each block lies."""
        starts = self.borders[:-1]
        return starts if self.order is None else self.order.take(starts)


def blocks_of(end: _Codes, channel: _Codes) -> Blocks:
    """The blocks of a table with these ends and channels, which are numbered from 0."""
    starts = _starts(end, channel)
    if not _come_back(end.take(starts), channel.take(starts)):
        return Blocks(np.append(starts, len(end)), None)
    keys = end * (channel.max() + 1) + channel
    # Short numbers are sorted without comparing them.
    order = np.argsort(keys.astype(np.min_scalar_type(keys.max())), kind="stable")
    return Blocks(np.append(_starts(keys.take(order)), len(end)), order)


def chosen(column: npt.NDArray[_Of], places: Places) -> npt.NDArray[_Of]:
    """What stands in a column at these places; neighbours are not copied."""
    # The same in brackets takes three times as long.
    return column[places] if isinstance(places, slice) else column.take(places)


def _starts(*columns: _Codes) -> _Places:
    """The places at which there is something else than at the place before."""
    changes = np.zeros(len(columns[0]), dtype=np.bool_)
    changes[0] = True
    for column in columns:
        changes[1:] |= column[1:] != column[:-1]
    return np.flatnonzero(changes)


def _come_back(ends: _Codes, channels: _Codes) -> bool:
    """Is there more than one block of a channel's end, or are blocks of one end not side by side?"""
    most = (int(ends.max()) + 1) * (int(channels.max()) + 1)
    if len(ends) > most or len(set(zip(ends.tolist(), channels.tolist(), strict=True))) < len(ends):
        return True
    return len(_starts(ends)) > len(set(ends.tolist()))

"""What a store should have, as plain values, and how what is submitted to it changes that."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from permitflow.exchange.stores.store import PublishedPart
from permitflow.stream.control import ChannelState, KeptBarrier
from permitflow.stream.frames import Staging

CHANNELS: Final = ("a", "b")
CONSUMERS: Final = ("default", "audit")


@dataclass(slots=True)
class Kept:
    """What a store should have of a channel."""

    values: list[int] = field(default_factory=list)
    """By their row's numbers, of all that were ever appended."""
    acknowledged: dict[str, int] = field(default_factory=lambda: dict.fromkeys(CONSUMERS, 0))
    expired_row: int = 0
    producers: dict[str, int] = field(default_factory=dict)
    is_declared: bool = False
    state: tuple[ChannelState, str] = (ChannelState.OPEN, "")
    staged: dict[Staging, list[int]] = field(default_factory=dict)
    barriers: list[KeptBarrier] = field(default_factory=list)

    def copy(self) -> "Kept":
        """An independent one."""
        return Kept(
            [*self.values],
            dict(self.acknowledged),
            self.expired_row,
            dict(self.producers),
            self.is_declared,
            self.state,
            {staging: [*values] for staging, values in self.staged.items()},
            [*self.barriers],
        )

    @property
    def first_row(self) -> int:
        """That somebody still needs, and that has not expired."""
        return max(self.expired_row, min(self.acknowledged.values()))


@dataclass(slots=True)
class Contents:
    """What a store should have."""

    channels: dict[str, Kept] = field(default_factory=dict)
    published: dict[str, int] = field(default_factory=dict)

    def copy(self) -> "Contents":
        """An independent one."""
        return Contents({name: kept.copy() for name, kept in self.channels.items()}, dict(self.published))

    def as_values(self) -> dict[str, Any]:
        """To be compared with what a store was found to have."""
        values: dict[str, Any] = {"published": self.published}
        for name, kept in self.channels.items():
            values[name] = {
                "next row": len(kept.values),
                "values": kept.values[kept.first_row :],
                "acknowledged": kept.acknowledged,
                "expired row": kept.expired_row,
                "producers": kept.producers,
                "is declared": kept.is_declared,
                "state": kept.state,
                "staged": {staging: len(rows) for staging, rows in kept.staged.items()},
                "barriers": kept.barriers,
            }
        return values


class Impossible(Exception):  # it is an answer
    """Rows came without those before them."""


def _require_next(kept: Kept, row: int) -> None:
    if row != len(kept.values):
        raise Impossible


def open_channels(contents: Contents) -> None:
    """Two channels, if they are not there."""
    for name in CHANNELS:
        contents.channels.setdefault(name, Kept())


def declare(contents: Contents, name: str) -> None:
    """The channel has a schema."""
    contents.channels[name].is_declared = True


def append(contents: Contents, name: str, row: int, values: Sequence[int], producer: tuple[str, int]) -> None:
    """Rows from this number on, and their producer's count."""
    _require_next(contents.channels[name], row)
    contents.channels[name].values.extend(values)
    if producer[0]:
        contents.channels[name].producers[producer[0]] = producer[1]


def acknowledge(contents: Contents, name: str, consumer: str, row: int, next_barrier: int) -> None:
    """By a consumer."""
    kept = contents.channels[name]
    kept.acknowledged[consumer] = row
    kept.barriers = [barrier for barrier in kept.barriers if barrier.number >= next_barrier]


def expire(contents: Contents, name: str, row: int, next_barrier: int) -> None:
    """Rows, and barriers with them."""
    kept = contents.channels[name]
    kept.expired_row = row
    kept.barriers = [barrier for barrier in kept.barriers if barrier.number >= next_barrier]


def keep_barrier(contents: Contents, name: str, barrier: KeptBarrier) -> None:
    """Behind the rows that are there."""
    contents.channels[name].barriers.append(barrier)


def stage(contents: Contents, name: str, staging: Staging, values: Sequence[int]) -> None:
    """Rows of an attempt."""
    contents.channels[name].staged.setdefault(staging, []).extend(values)


def forget(contents: Contents, name: str, staging: Staging) -> None:
    """An attempt."""
    contents.channels[name].staged.pop(staging, None)


def publish(contents: Contents, query: str, batch: int, parts: Sequence[PublishedPart]) -> None:
    """A batch: its rows are the channels', and all other attempts at it are gone."""
    for name, staging, first_row in parts:
        kept = contents.channels[name]
        _require_next(kept, first_row)
        kept.values.extend(kept.staged.pop(staging, ()))
    for kept in contents.channels.values():
        for staging in [*kept.staged]:
            if staging.query == query and staging.batch <= batch:
                del kept.staged[staging]
    contents.published.pop(query, None)
    contents.published[query] = batch


def finish(contents: Contents, name: str) -> None:
    """The channel is broken."""
    contents.channels[name].state = (ChannelState.BROKEN, "why")


def remove(contents: Contents, name: str) -> None:
    """The channel is a new one."""
    contents.channels[name] = Kept()

"""Looks at the channels again and again while everything else comes and goes: what must hold, held each time."""

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, field
from time import monotonic
from typing import NoReturn

import pyarrow as pa

from permitflow.demo.children import Event
from permitflow.errors import DemoError, PeerGoneError, PeerTimeoutError
from permitflow.protocol.control import ChannelPosition
from permitflow.transports.grpc_aio import control

__all__ = ["ChannelWatch", "Watch"]

LOOK_SECONDS = 0.1
AWAY_PAUSE_SECONDS = 0.2
REPLY_TIMEOUT_SECONDS = 10.0
REPORTS_OF_TRAFFIC = ("traffic", "stopped")

Position = ChannelPosition[pa.Schema]


@dataclass
class ChannelWatch:
    """What was seen of one channel, over all lives of the exchange."""

    channel: str
    row_permits: int
    next_row: int = 0
    acknowledged_row: int = 0
    peak_kept_rows: int = 0
    """The most rows that were kept at once: handed over, and not acknowledged."""
    problems: list[str] = field(default_factory=list)
    """What was seen and must not be."""
    _log_id: str = ""

    def see(self, position: Position) -> bool:
        """Compare a position with the one before; has anything changed?"""
        kept = position.next_row - position.acknowledged_row
        self._require(0 <= kept <= self.row_permits, f"{kept} rows were kept, {self.row_permits} may be")
        self._require(position.next_row >= self.next_row, f"row {position.next_row} came next, after {self.next_row}")
        self._require(
            position.acknowledged_row >= self.acknowledged_row,
            f"row {self.acknowledged_row} was acknowledged, then only {position.acknowledged_row}",
        )
        self._require(position.log_id == (self._log_id or position.log_id), "its rows were lost, and others took over")
        before = (self.next_row, self.acknowledged_row)
        self.next_row, self.acknowledged_row = position.next_row, position.acknowledged_row
        self.peak_kept_rows, self._log_id = max(self.peak_kept_rows, kept), position.log_id
        return before != (self.next_row, self.acknowledged_row)

    def told(self, peak_kept_rows: int) -> None:
        """What the exchange says of its life so far, which nobody may have looked at in that moment."""
        self._require(peak_kept_rows <= self.row_permits, f"{peak_kept_rows} rows were kept, {self.row_permits} may be")
        self.peak_kept_rows = max(self.peak_kept_rows, peak_kept_rows)

    def _require(self, holds: bool, otherwise: str) -> None:
        if not holds:
            self.problems.append(f"{self.channel}: {otherwise}")


class Watch:
    """Watches channels of an exchange, which may be away for a while."""

    def __init__(
        self, address: str, channels: Sequence[str], *, row_permits: int, incoming: int, stuck_seconds: float
    ) -> None:
        """Nothing is dialled before ``run``.

        Args:
            address: where the exchange listens, in all its lives.
            channels: those to watch; the first ones are those that Spark reads.
            row_permits: the window of each.
            incoming: how many of them Spark reads.
            stuck_seconds: how long nothing may get further.
        """
        self.channels = [ChannelWatch(channel, row_permits) for channel in channels]
        self.looks = 0
        """How often it has looked."""
        self._address = address
        self._incoming = self.channels[:incoming]
        self._stuck_seconds = stuck_seconds
        self._moved_at = monotonic()
        self._looked = asyncio.Condition()

    @property
    def rows(self) -> int:
        """Rows that Spark has acknowledged."""
        return sum(channel.acknowledged_row for channel in self._incoming)

    def hear(self, event: Event) -> None:
        """What the exchange reports every second, and at its end."""
        if event["event"] not in REPORTS_OF_TRAFFIC:
            return
        traffic = event["channels"]
        assert isinstance(traffic, list)  # so serve reports it
        peaks = {str(each["channel"]): int(each["peak_in_flight"]) for each in traffic}
        for channel in self.channels:
            channel.told(peaks[channel.channel])

    async def reached(self, rows: int) -> None:
        """Wait until Spark has acknowledged so many rows."""
        async with self._looked:
            await self._looked.wait_for(lambda: self.rows >= rows)

    async def run(self) -> NoReturn:
        """Look until cancelled.

        Raises:
            DemoError: nothing gets further any more.
        """
        while True:
            try:
                await self._look_while_there()
            except (PeerGoneError, PeerTimeoutError):
                self._require_moving(moved=False)
                await asyncio.sleep(AWAY_PAUSE_SECONDS)

    async def _look_while_there(self) -> NoReturn:
        names = [channel.channel for channel in self.channels]
        async with control(self._address, reply_timeout_seconds=REPLY_TIMEOUT_SECONDS) as orders:
            while True:
                await self._note(await orders.positions(names))
                await asyncio.sleep(LOOK_SECONDS)

    async def _note(self, positions: Sequence[Position]) -> None:
        # Each of them, not only until the first one has moved.
        moved = [channel.see(position) for channel, position in zip(self.channels, positions, strict=True)]
        self._require_moving(moved=any(moved))
        self.looks += 1
        async with self._looked:
            self._looked.notify_all()

    def _require_moving(self, *, moved: bool) -> None:
        if moved:
            self._moved_at = monotonic()
        elif monotonic() - self._moved_at > self._stuck_seconds:
            where = ", ".join(
                f"{each.channel} {each.acknowledged_row:,} of {each.next_row:,}" for each in self.channels
            )
            raise DemoError(f"no row got further for {self._stuck_seconds:.0f} s; acknowledged are: {where}")

"""What compressing chunks saves and costs: one codec through one network."""

from collections.abc import Sequence
from dataclasses import dataclass

from benchmarks.markdown_table import NOT_MEASURED
from benchmarks.records import Record
from benchmarks.series import Series

__all__ = ["HEAD", "PART", "CompressionSpeed", "rows"]

PART = "compression"
"""Under this name it stands among all results."""
HEAD = ("codec", "bytes a row", "sender, s/GB", "receiver, s/GB", "pays below, Gbit/s")
"""What stands before the rates."""
BITS_OF_A_BYTE = 8


@dataclass(frozen=True)
class CompressionSpeed(Record):
    """All rows, once in each round."""

    codec: str
    megabits: float | None
    """That the network lets pass each second; None: it is as fast as the machine."""
    row_bytes: float
    """On the wire."""
    rows_per_second: Series
    sender_seconds: Series
    """Processor time for a gigabyte of chunks, before compression."""
    receiver_seconds: Series
    """Likewise."""

    @property
    def pays_below_gigabits(self) -> Series:
        """Below this, a network takes longer for what is not compressed than the busier end works on what is."""
        ends = zip(self.sender_seconds.values, self.receiver_seconds.values, strict=True)
        return Series.of(BITS_OF_A_BYTE / max(seconds) for seconds in ends)


def rows(found: Sequence[CompressionSpeed]) -> tuple[tuple[str, ...], list[list[str]]]:
    """The head of a table, and a row for each codec; what ends cost is told of the network without a limit."""
    rates = {(each.codec, each.megabits): each.rows_per_second for each in found}
    networks = sorted({each.megabits for each in found if each.megabits is not None})
    head = (*HEAD, *(f"rows/s at {limit:,.0f} Mbit/s" for limit in networks))
    told = [
        [*_costs(each), *(rates[each.codec, limit].told() for limit in networks)]
        for each in found
        if each.megabits is None
    ]
    return head, told


def _costs(speed: CompressionSpeed) -> list[str]:
    # What is not compressed is what the others are compared with.
    pays = NOT_MEASURED if speed.codec == "none" else speed.pays_below_gigabits.told()
    return [speed.codec, f"{speed.row_bytes:.0f}", speed.sender_seconds.told(), speed.receiver_seconds.told(), pays]

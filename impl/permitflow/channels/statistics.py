"""What happened on a channel, in numbers."""

from dataclasses import asdict, dataclass

from permitflow.protocol.parameters import ChannelParameters

__all__ = ["ChannelStatistics"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelStatistics:
    """A snapshot of one channel.  Counts and peaks are since the channel was opened, the others of this moment.

    An end of a remote channel knows only its own side: what it cannot know is 0.
    """

    name: str
    """The channel's name."""

    parameters: ChannelParameters
    """What both ends agreed on."""

    path: str = ""
    """Of an end of a remote channel: how its messages travel, through shared memory, or over the network and why."""

    compression: str = ""
    """Of an end of a remote channel: ``lz4`` or ``zstd`` if chunks may be compressed; else ``none``, with the reason if
    somebody has asked for it."""

    sent_chunks: int = 0
    """Chunks that left the sender; each slice of a split chunk counts."""

    sent_rows: int = 0
    """Rows that left the sender."""

    consumed_chunks: int = 0
    """Chunks that the receiving application has consumed."""

    consumed_rows: int = 0
    """Rows that the receiving application has consumed."""

    peak_permits_outstanding: int = 0
    """The most row permits that were ever away from the sender at once; never above ``row_permits``."""

    peak_inbox_rows: int = 0
    """The most rows that were ever received and not consumed; oversize chunks admitted whole count in full."""

    row_permits_here: int = 0
    """Row permits at the sender, unspent; all of them while the channel is idle."""

    inbox_rows: int = 0
    """Rows that were received and not consumed."""

    unreturned_permits: int = 0
    """Row permits of consumed chunks that the receiver has not returned yet."""

    waiting_sends: int = 0
    """Sends that wait for permits."""

    waiting_seconds: float = 0.0
    """Time during which at least one send waited for permits."""

    open_seconds: float = 0.0
    """Time since the channel was opened, until the stream was over."""

    @property
    def back_pressure_rate(self) -> float:
        """The share of the time in which sends waited: 0 for never, 1 for always."""
        return self.waiting_seconds / self.open_seconds if self.open_seconds > 0 else 0.0

    def as_json(self) -> dict[str, object]:
        """All numbers, the rate too, ready for JSON."""
        return {**asdict(self), "back_pressure_rate": self.back_pressure_rate}

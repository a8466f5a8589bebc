"""The statistics of a channel."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True, kw_only=True, slots=True)
class ChannelStatistics:
    """A snapshot of one channel.  Counts and peaks begin when the channel opens; the other numbers are current.

    A remote end knows only its own side: numbers that it cannot know are 0, and missing in ``gauges``.
    """

    name: str
    """The channel's name."""
    path: str = ""
    """How messages of a remote end travel: through shared memory, or over the network and why."""
    compression: str = ""
    """For a remote end: ``lz4`` or ``zstd`` if chunks may be compressed; else ``none``, with the reason if an end has
    asked for compression."""
    sent_chunks: int = 0
    """Chunks that left the sender; each slice of a split chunk counts."""
    sent_rows: int = 0
    """Rows that left the sender."""
    consumed_chunks: int = 0
    """Chunks that the receiving application has consumed."""
    consumed_rows: int = 0
    """Rows that the receiving application has consumed."""
    window_rows: int | None = None
    """The most rows that may be in the channel at once; None: its flow has no such bound."""
    rows_held: int = 0
    """Rows that have left the sender and, as far as it knows, still take room.  An empty chunk counts as one row; with
    permits, an oversize chunk sent whole counts as ``max_chunk_cost`` rows."""
    peak_rows_held: int = 0
    """The most rows that ever took room at once; never above ``window_rows``."""
    peak_inbox_rows: int = 0
    """The most rows that were ever received and not consumed; oversize chunks sent whole count in full."""
    inbox_rows: int = 0
    """Rows that were received and not consumed."""
    byte_window: int = 0
    """The most bytes that may be in the channel at once, unless a chunk is larger."""
    bytes_held: int = 0
    """Bytes of chunks that have left the sender and, as far as it knows, still take room."""
    peak_bytes_held: int = 0
    """The most bytes that ever took room at once."""
    inbox_bytes: int = 0
    """Bytes of chunks that were received and not consumed.  Chunks that came as one batch count until the last of them
    is consumed: it keeps the memory of all."""
    waiting_sends: int = 0
    """Sends that wait until the channel's flow lets them leave."""
    waiting_seconds: float = 0.0
    """Time during which at least one send waited for the flow."""
    stopped_seconds: float = 0.0
    """Time during which a barrier that has left held back everything behind it."""
    open_seconds: float = 0.0
    """Time since the channel was opened, until the stream was over."""
    resumes: int = 0
    """How often the stream of a remote end has gone on over another connection."""
    suspended_seconds: float = 0.0
    """Seconds for which a remote end had no connection."""
    gauges: Mapping[str, int] = field(default_factory=dict)
    """Counters that only the channel's flow has, by its names."""

    @property
    def blocked_share(self) -> float:
        """The share of the time in which sends waited: 0 for never, 1 for always."""
        return self.waiting_seconds / self.open_seconds if self.open_seconds > 0 else 0.0

    def as_json(self) -> dict[str, object]:
        """All numbers, the share too, ready for JSON."""
        return asdict(self) | {"blocked_share": self.blocked_share}

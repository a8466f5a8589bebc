"""What the pipeline runs with, and what its processes are told."""

from dataclasses import dataclass, field
from pathlib import Path

from permitflow.channels.names import stream_channels
from permitflow.demo.settings import ProcessSettings, require_usable
from permitflow.demo.tpch import default_cache_dir
from permitflow.errors import InvalidOptionError

__all__ = ["LATE_ITEMS", "LINE_ITEMS", "PartSettings", "PipelineSettings"]

LINE_ITEMS, LATE_ITEMS = "lineitems", "lateitems"
MOST_KILLS = 1_000
SMALLEST_WINDOW_ROWS = 4_096
WINDOW_ROWS_AT_SCALE_1 = 16_384


@dataclass(frozen=True, kw_only=True)
class PipelineSettings:
    """The options of ``permitflow demo --streaming``.

    Raises:
        InvalidOptionError: an option is out of its range.
    """

    scale: float = 0.1
    """TPC-H scale factor: at 1, six million line items come, and some 700,000 of them were late."""

    kills: int = 0
    """How many times a part of the pipeline is killed (SIGKILL), and by what seed."""
    seed: int = 1

    channels: int = 2
    """Channels of each stream."""
    row_permits: int | None = None
    """The window of each channel.  By default so small that the pipeline is under way for some hundred batches at
    every scale, and under back-pressure all the time."""
    chunk_rows: int = 512
    """Rows of a chunk that the producer sends."""

    cache_dir: Path = field(default_factory=default_cache_dir)
    keep: Path | None = None
    """Keep logs, traces and databases here; None removes them at the end."""

    timeout_seconds: float = 300.0
    """How long a part waits for another one without any progress."""
    stuck_seconds: float = 900.0
    """Without any row getting further for so long, the pipeline is stuck."""

    def __post_init__(self) -> None:
        """Refuse what cannot work, before anything is started."""
        require_usable(scale=self.scale, keep=self.keep)
        if not 0 <= self.kills <= MOST_KILLS:
            raise InvalidOptionError(option="--kills", value=self.kills, reason=f"must be from 0 to {MOST_KILLS}")

    @property
    def window_rows(self) -> int:
        """What the exchange may keep of each channel.

        A batch is half of it, and has a cost of its own: so the more rows there are, the larger it is.
        """
        return self.row_permits or max(SMALLEST_WINDOW_ROWS, int(WINDOW_ROWS_AT_SCALE_1 * self.scale))

    def exchange_arguments(self, work_dir: Path, *, address: str, trace: Path) -> tuple[str, ...]:
        """The command line of the exchange, after ``permitflow``."""
        streams = (*("--stream", f"{LINE_ITEMS}:{self.channels}"), *("--stream", f"{LATE_ITEMS}:{self.channels}"))
        window = ("--row-permits", str(self.window_rows))
        kept = ("--retention", "replay", "--store", str(work_dir / "store"))
        return ("serve", *streams, *window, *kept, "--address", address, "--trace", str(trace), "--json")

    def part(self, *, address: str, tables: Path, work_dir: Path) -> "PartSettings":
        """What every other part needs to know."""
        return PartSettings(
            address=address,
            channels=self.channels,
            chunk_rows=self.chunk_rows,
            timeout_seconds=self.timeout_seconds,
            tables=str(tables),
            work_dir=str(work_dir),
        )


@dataclass(frozen=True, kw_only=True)
class PartSettings(ProcessSettings):
    """What a process of the pipeline needs to know; all of it stays the same when it starts again."""

    @property
    def line_items(self) -> tuple[str, ...]:
        """The channels from the producer to Spark."""
        return stream_channels(LINE_ITEMS, self.channels)

    @property
    def late_items(self) -> tuple[str, ...]:
        """The channels from Spark to the consumer."""
        return stream_channels(LATE_ITEMS, self.channels)

    @property
    def ledger(self) -> Path:
        """The consumer's database."""
        return Path(self.work_dir) / "ledger.sqlite"

    @property
    def checkpoint(self) -> Path:
        """Where the streaming query notes how far it is."""
        return Path(self.work_dir) / "checkpoint"

    @property
    def query_trace(self) -> Path:
        """Where the streaming query's source records what it does."""
        return Path(self.work_dir) / "query"

    @property
    def direct_answer(self) -> Path:
        """Where the batch query puts all late items."""
        return Path(self.work_dir) / "direct.parquet"

    def table(self, name: str) -> str:
        """The file of a TPC-H table."""
        return f"{self.tables}/{name}.parquet"

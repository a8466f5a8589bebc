"""Settings of the demos and of their processes' command lines."""

import socket
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from permitflow.errors import InvalidOptionError
from permitflow.names import stream_channels

from ..child_process import ChildSettings
from .tables import default_cache_dir

STREAM = "q12"
LINE_ITEMS, LATE_ITEMS = "lineitems", "lateitems"

LARGEST_SCALE = 100.0
MOST_KILLS = 1_000
SMALLEST_WINDOW_ROWS = 4_096
WINDOW_ROWS_AT_SCALE_1 = 16_384


@dataclass(frozen=True, kw_only=True)
class PartSettings(ChildSettings):
    """The settings of a demo's process; they stay the same when the process starts again."""

    address: str
    """The address of the exchange."""
    channels: int
    """The channels of each stream."""
    chunk_rows: int
    timeout_seconds: float
    tables: str
    """The folder of the TPC-H tables."""
    work_dir: str
    """The folder for its files."""

    def exchange_options(self, stream: str) -> dict[str, str]:
        """Options of ``format("permitflow")``."""
        return {
            "address": self.address,
            "stream": stream,
            "channels": str(self.channels),
            "timeout_seconds": str(self.timeout_seconds),
        }

    def table(self, name: str) -> str:
        """The file of a TPC-H table."""
        return f"{self.tables}/{name}.parquet"

    def file(self, name: str) -> Path:
        """A file or folder of the processes."""
        return Path(self.work_dir) / name

    @property
    def traces(self) -> Path:
        """The folder for recordings of Spark's tasks and, of the two jobs, of their exchange."""
        return self.file("traces")

    @property
    def line_items(self) -> tuple[str, ...]:
        """The channels from the producer to the streaming query."""
        return stream_channels(LINE_ITEMS, self.channels)

    @property
    def late_items(self) -> tuple[str, ...]:
        """The channels from the streaming query to the consumer."""
        return stream_channels(LATE_ITEMS, self.channels)

    @property
    def ledger(self) -> Path:
        """The consumer's database."""
        return self.file("ledger.sqlite")

    @property
    def checkpoint(self) -> Path:
        """The streaming query's checkpoint."""
        return self.file("checkpoint")

    @property
    def direct_answer(self) -> Path:
        """The batch query's file of all late items."""
        return self.file("direct.parquet")

    def command(self, *program: str) -> Sequence[str]:
        """The command line of a process with these settings: Python runs ``program``."""
        return [sys.executable, *program, self.to_json()]

    def exchange_command(self, streams: Sequence[str], trace: Path, *options: str) -> Sequence[str]:
        """The command line of the exchange."""
        served = (word for stream in streams for word in ("--stream", f"{stream}:{self.channels}"))
        command = (sys.executable, "-m", "permitflow_tools.cli", "serve", *served, "--address", self.address)
        return [*command, "--trace", str(trace), "--json", *options]


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The options of both demos.

    Raises:
        InvalidOptionError: the scale is out of its range, or there is something where files were to be kept.
    """

    scale: float = 0.1
    """TPC-H scale factor: 1 is about 1 GB as text."""
    channels: int = 2
    """Channels of each stream."""
    chunk_rows: int
    timeout_seconds: float
    """How long the processes wait for each other without any progress."""
    cache_dir: Path = field(default_factory=default_cache_dir)
    """Where generated tables are kept."""
    keep: Path | None = None
    """Keep logs, traces and databases here; None removes them at the end."""

    def __post_init__(self) -> None:
        """Refuse impossible settings before any process starts."""
        if not 0 < self.scale <= LARGEST_SCALE:
            reason = f"must be above 0 and at most {LARGEST_SCALE:g}"
            raise InvalidOptionError(option="--scale", value=self.scale, reason=reason)
        keep = self.keep
        if keep is not None and keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
            raise InvalidOptionError(option="--keep", value=str(keep), reason="must be a new or an empty folder")

    def part(self, *, tables: Path, work_dir: Path, address: str | None = None) -> PartSettings:
        """The settings of the processes; without an address, the exchange gets a port that is free now."""
        if address is None:
            with socket.create_server(("127.0.0.1", 0)) as server:
                address = f"127.0.0.1:{server.getsockname()[1]}"
        return PartSettings(
            address=address,
            channels=self.channels,
            chunk_rows=self.chunk_rows,
            timeout_seconds=self.timeout_seconds,
            tables=str(tables),
            work_dir=str(work_dir),
        )


@dataclass(frozen=True, kw_only=True)
class DemoSettings(Settings):
    """The options of ``permitflow demo``.  At scale 0.1 query 12 selects about 3,100 line items."""

    # Far too small for speed: at scale 0.1 about 1,500 rows pass each channel, and the sender must run out of permits.
    row_permits: int = 256
    permit_batch: int = 64
    chunk_rows: int = 64
    timeout_seconds: float = 60.0


@dataclass(frozen=True, kw_only=True)
class PipelineSettings(Settings):
    """The options of ``permitflow demo --streaming``.

    At scale 1, six million line items come, and some 700,000 of them were late.

    Raises:
        InvalidOptionError: an option is out of its range.
    """

    kills: int = 0
    """How many times a part of the pipeline is killed (SIGKILL), and the seed of the choice."""
    seed: int = 1
    row_permits: int | None = None
    """The window of each channel.  By default so small that the pipeline is under way for some hundred batches at
    every scale, and under back-pressure all the time."""
    chunk_rows: int = 512
    """Rows of a chunk that the producer sends."""
    timeout_seconds: float = 300.0
    stuck_seconds: float = 900.0
    """Seconds without progress of any row after which the pipeline counts as stuck."""

    def __post_init__(self) -> None:
        """Refuse impossible settings before any process starts."""
        super().__post_init__()
        if not 0 <= self.kills <= MOST_KILLS:
            raise InvalidOptionError(option="--kills", value=self.kills, reason=f"must be from 0 to {MOST_KILLS}")

    @property
    def window_rows(self) -> int:
        """What the exchange may keep of each channel.

        A batch is half of it, and has a cost of its own: so the more rows there are, the larger it is.
        """
        return self.row_permits or max(SMALLEST_WINDOW_ROWS, int(WINDOW_ROWS_AT_SCALE_1 * self.scale))

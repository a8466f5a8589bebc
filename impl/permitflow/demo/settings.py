"""What the demo runs with, and what its jobs are told."""

import json
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Self

from permitflow.demo.tpch import default_cache_dir
from permitflow.errors import InvalidOptionError

__all__ = ["STREAM", "DemoSettings", "JobSettings", "ProcessSettings", "require_usable"]

STREAM = "q12"
LARGEST_SCALE = 100.0


def require_usable(*, scale: float, keep: Path | None) -> None:
    """Refuse what cannot work, before anything is started.

    Raises:
        InvalidOptionError: the scale is out of its range, or there is something where files were to be kept.
    """
    if not 0 < scale <= LARGEST_SCALE:
        reason = f"must be above 0 and at most {LARGEST_SCALE:g}"
        raise InvalidOptionError(option="--scale", value=scale, reason=reason)
    if keep is not None and keep.exists() and (not keep.is_dir() or any(keep.iterdir())):
        raise InvalidOptionError(option="--keep", value=str(keep), reason="must be a new or an empty folder")


@dataclass(frozen=True, kw_only=True)
class ProcessSettings:
    """What every process that moves rows is told, on its command line."""

    address: str
    channels: int
    chunk_rows: int
    timeout_seconds: float
    tables: str
    """The folder of the TPC-H tables."""
    work_dir: str
    """Where it may write."""

    def exchange_options(self, stream: str) -> dict[str, str]:
        """Options of ``format("permitflow")``."""
        return {
            "address": self.address,
            "stream": stream,
            "channels": str(self.channels),
            "timeout_seconds": str(self.timeout_seconds),
        }

    def to_json(self) -> str:
        """As one command line argument."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> Self:
        """Back from the command line."""
        return cls(**json.loads(text))


@dataclass(frozen=True, kw_only=True)
class DemoSettings:
    """The demo's own options.

    Raises:
        InvalidOptionError: an option is out of its range.
    """

    scale: float = 0.1
    """TPC-H scale factor: 1 is about 1 GB as text; at 0.1 query 12 selects about 3,100 line items."""

    channels: int = 2
    """Channels of the stream; both Spark jobs get as many task slots."""

    # Far below what anyone would choose for speed: about 1,500 rows come through each channel at scale 0.1, and the
    # sender is meant to run out of permits.
    row_permits: int = 256
    permit_batch: int = 64
    chunk_rows: int = 64

    cache_dir: Path = field(default_factory=default_cache_dir)
    """Where generated tables are kept."""

    keep: Path | None = None
    """Keep logs, traces and statistics here; None removes them at the end."""

    timeout_seconds: float = 60.0
    """How long the jobs wait for each other without any progress."""

    def __post_init__(self) -> None:
        """Refuse what cannot work, before anything is started."""
        require_usable(scale=self.scale, keep=self.keep)

    def exchange_arguments(self, traces: Path) -> tuple[str, ...]:
        """The command line of the exchange, after ``permitflow``."""
        window = ("--row-permits", str(self.row_permits), "--permit-batch", str(self.permit_batch))
        return (
            *("serve", "--stream", f"{STREAM}:{self.channels}", "--address", "127.0.0.1:0", *window),
            *("--trace", str(traces / "exchange.jsonl"), "--json"),
        )

    def job(self, *, address: str, tables: Path, work_dir: Path, traces: Path) -> "JobSettings":
        """What both Spark jobs need to know, once the exchange listens."""
        return JobSettings(
            address=address,
            channels=self.channels,
            chunk_rows=self.chunk_rows,
            timeout_seconds=self.timeout_seconds,
            tables=str(tables),
            work_dir=str(work_dir),
            trace_dir=str(traces),
        )


@dataclass(frozen=True, kw_only=True)
class JobSettings(ProcessSettings):
    """What a Spark job of the demo needs to know."""

    trace_dir: str
    """Where the job's streams record what they do."""

    def exchange_options(self, stream: str = STREAM) -> dict[str, str]:
        """Options of ``format("permitflow")``."""
        return {**super().exchange_options(stream), "trace_dir": self.trace_dir}

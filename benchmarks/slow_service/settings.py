"""The settings of a run."""

import json
from dataclasses import asdict, dataclass

import pyarrow as pa

__all__ = ["ORDERS", "SCORES", "Settings"]

ORDERS = pa.schema([("id", pa.int64()), ("amount", pa.float64()), ("document", pa.string())])
SCORES = pa.schema([("id", pa.int64()), ("score", pa.float64())])


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Equal for both ways."""

    rows: int = 30_000
    document_bytes: int = 10_000
    """Of each row; 30,000 rows are 300 MB."""
    rows_per_second: int = 400
    """The service's rate."""
    channels: int = 2
    row_permits: int = 256
    """Of each channel of the exchange; 256 rows are 2.6 MB."""
    service: str = ""
    """Where the slow service listens, once it does."""
    gateway: str = ""
    """Where the gateway with the queue listens, once it does."""
    exchange: str = ""
    """Where the exchange listens, once it does."""
    work_dir: str = ""

    def to_json(self) -> str:
        """As one command line argument."""
        return json.dumps(asdict(self))

    @classmethod
    def from_json(cls, text: str) -> "Settings":
        """Back from the command line."""
        return cls(**json.loads(text))

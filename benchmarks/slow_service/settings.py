"""What a run has to do."""

import json
from dataclasses import asdict, dataclass

import pyarrow as pa

__all__ = ["ORDERS", "SCORES", "Settings"]

ORDERS = pa.schema([("id", pa.int64()), ("amount", pa.float64()), ("document", pa.string())])
SCORES = pa.schema([("id", pa.int64()), ("score", pa.float64())])


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Equal for both ways."""

    rows: int = 200_000
    document_bytes: int = 4_000
    """Of each row; 200,000 rows are 800 MB."""
    rows_per_second: int = 4_000
    """What the service can do."""
    channels: int = 2
    row_permits: int = 1_024
    """Of each channel of the exchange; 1,024 rows are 4 MB."""
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

"""The consumer: counts late items in a database of its own, and acknowledges what it has committed.

Run as ``python -m permitflow.demo.streaming.consumer '<JSON of PartSettings>'``.
"""

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa

from permitflow.demo.events import report
from permitflow.demo.streaming.ledger import LateItem, Ledger
from permitflow.demo.streaming.settings import PartSettings
from permitflow.transports.grpc_blocking import control, open_source

__all__ = ["main"]


def main(settings: PartSettings) -> None:
    """Consume all channels at once, to their ends."""
    # Before several threads open it: SQLite does not wait for the lock where the kind of journal is changed.
    with Ledger(settings.ledger), ThreadPoolExecutor(settings.channels) as threads:
        rows = sum(threads.map(lambda channel: consume(settings, channel), settings.late_items))
    report("finished", text=f"{rows:,} rows were counted", rows=rows)


def consume(settings: PartSettings, channel: str) -> int:
    """Consume one channel from the first row that the database has not; its rows."""
    address, timeout_seconds = settings.address, settings.timeout_seconds
    with Ledger(settings.ledger) as ledger:
        row = ledger.next_row(channel)
        report("resumed", text=f"{channel}: {row:,} rows were counted already", channel=channel, row=row)
        with (
            control(address, timeout_seconds=timeout_seconds) as orders,
            open_source(address, channel, from_row=row, timeout_seconds=timeout_seconds) as source,
        ):
            # A commit before this one may not have been acknowledged.
            orders.acknowledge({channel: row})
            for batch in source:
                row = ledger.take(channel, row, late_items(batch))
                orders.acknowledge({channel: row})
        return row


def late_items(batch: pa.RecordBatch) -> Iterator[LateItem]:
    """The rows of a batch."""
    return map(LateItem._make, zip(*(column.to_pylist() for column in batch.columns), strict=True))


if __name__ == "__main__":
    main(PartSettings.from_json(sys.argv[1]))

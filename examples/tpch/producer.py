"""The producer: sends the line items of a file, as a named producer that goes on where it was killed.

Run as ``python -m examples.tpch.producer '<JSON of PartSettings>'``."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pyarrow as pa
import pyarrow.parquet as pq

from permitflow.client.blocking import control, open_sink
from permitflow.stream.control import ChannelState

from ..child_process import report
from .settings import PartSettings
from .tables import LINE_ITEM_SCHEMA

NAME = "tpch"


def main(settings: PartSettings) -> None:
    """Send all channels at once."""
    with ThreadPoolExecutor(settings.channels) as threads:
        sent = sum(threads.map(lambda share: send(settings, share), range(settings.channels)))
    report("finished", text=f"{sent:,} rows were sent, and their channels are closed", rows=sent)


def send(settings: PartSettings, share: int) -> int:
    """Send one channel's share of the table, from the first row that the exchange has not kept; its rows."""
    channel = settings.line_items[share]
    with control(settings.address, timeout_seconds=settings.timeout_seconds) as orders:
        (position,) = orders.positions([channel])
        if position.state is ChannelState.ENDED:
            return position.next_row
    with open_sink(
        settings.address, channel, LINE_ITEM_SCHEMA, producer=NAME, timeout_seconds=settings.timeout_seconds
    ) as sink:
        first_row = sink.first_row or 0
        report("resumed", text=f"{channel}: {first_row:,} rows were kept already", channel=channel, row=first_row)
        for batch in rows_of_share(settings, share, first_row):
            first_row += batch.num_rows
            sink.send(batch)
        sink.end(closes_channel=True)
    return first_row


def rows_of_share(settings: PartSettings, share: int, first_row: int) -> Iterator[pa.RecordBatch]:
    """The rows of one channel from its ``first_row`` on: always the same rows in the same order."""
    with pq.ParquetFile(settings.table("lineitem")) as table:
        total = table.metadata.num_rows
        begin, end = (total * number // settings.channels for number in (share, share + 1))
        begin += first_row
        row = 0
        for batch in table.iter_batches(settings.chunk_rows, columns=LINE_ITEM_SCHEMA.names):
            first, last = max(begin - row, 0), min(end - row, batch.num_rows)
            row += batch.num_rows
            if first < last:
                yield batch.slice(first, last - first).cast(LINE_ITEM_SCHEMA)
            if row >= end:
                return


if __name__ == "__main__":
    main(PartSettings.from_command_line())

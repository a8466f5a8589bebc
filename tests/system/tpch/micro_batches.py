"""What Spark does between the two streams, without Spark: micro-batches with an offset log and a commit log.

Its order of steps is that of ``SparkMicroBatch.tla``, and its logs are files.  So a whole pipeline can be killed in
seconds.  Run as ``python micro_batches.py '<JSON of PartSettings>'``; with ``--twice`` before it, one batch is
published twice, as by a sink that does not remember."""

import json
import os
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from examples.tpch.settings import PartSettings
from permitflow.client import ChannelState, StagedPart, Staging
from permitflow.client.blocking import BlockingControl, control, open_sink, open_source

QUERY = "micro-batches"
FORGETFUL = "another one"
FORGOTTEN_BATCH = 3
CAP_ROWS = 100
"""Of a channel in a batch."""
IDLE_SECONDS = 0.02

Rows = Mapping[str, int]


def main(settings: PartSettings, *, twice: bool) -> None:
    logs = Path(settings.work_dir) / "logs"
    logs.mkdir(exist_ok=True)
    with control(settings.address, timeout_seconds=settings.timeout_seconds) as orders:
        while not is_over(orders, settings, logs):
            run_batch(orders, settings, logs, twice=twice)


def is_over(orders: BlockingControl, settings: PartSettings, logs: Path) -> bool:
    """Wait for rows, and acknowledge what is committed; are there none any more?"""
    while not planned(orders, settings, logs):
        positions = orders.positions(settings.line_items)
        if all(at.state is ChannelState.ENDED and at.acknowledged_row == at.next_row for at in positions):
            orders.close_channels(settings.late_items)
            return True
        time.sleep(IDLE_SECONDS)
    return False


def planned(orders: BlockingControl, settings: PartSettings, logs: Path) -> bool:
    """Plan a batch, unless one is planned and not committed; is there one now?"""
    number, start = committed(settings, logs)
    if (logs / f"offset-{number}").exists():
        return True
    positions = orders.acknowledge(start)
    end = {at.channel: min(at.next_row, start[at.channel] + CAP_ROWS) for at in positions}
    if end == start:
        return False
    write(logs / f"offset-{number}", end)
    return True


def committed(settings: PartSettings, logs: Path) -> tuple[int, Rows]:
    number = len(list(logs.glob("commit-*")))
    if number == 0:
        return 0, dict.fromkeys(settings.line_items, 0)
    return number, json.loads((logs / f"offset-{number - 1}").read_text())


def run_batch(orders: BlockingControl, settings: PartSettings, logs: Path, *, twice: bool) -> None:
    number, start = committed(settings, logs)
    end = json.loads((logs / f"offset-{number}").read_text())
    for query in (QUERY, FORGETFUL) if twice and number == FORGOTTEN_BATCH else (QUERY,):
        attempt = uuid4().hex
        parts = [
            run_task(settings, Staging(query, number, partition, attempt), start[channel], end[channel])
            for partition, channel in enumerate(settings.line_items)
        ]
        orders.publish(query, number, parts)
    write(logs / f"commit-{number}", {})


def run_task(settings: PartSettings, staging: Staging, from_row: int, to_row: int) -> StagedPart:
    """Read the rows of a channel, and stage those that were late."""
    channel, target = settings.line_items[staging.partition], settings.late_items[staging.partition]
    high = pq.read_table(settings.table("orders"), filters=[("o_orderpriority", "in", ["1-URGENT", "2-HIGH"])])
    rows = 0
    address, timeout_seconds = settings.address, settings.timeout_seconds
    with (
        open_source(address, channel, from_row=from_row, to_row=to_row, timeout_seconds=timeout_seconds) as source,
        open_sink(address, target, LATE_ITEMS, staging=staging, timeout_seconds=timeout_seconds) as sink,
    ):
        for batch in source:
            late = late_items(batch, high["o_orderkey"])
            rows += late.num_rows
            sink.send(late)
        sink.end(closes_channel=False)
    return StagedPart(target, staging.partition, staging.attempt, rows)


LATE_ITEMS = pa.schema(
    [("order", pa.int64()), ("line", pa.int32()), ("mode", pa.string()), ("year", pa.int64()), ("high", pa.bool_())]
)


def late_items(batch: pa.RecordBatch, high: pa.ChunkedArray) -> pa.RecordBatch:
    is_late = pc.and_(
        pc.less(batch["l_commitdate"], batch["l_receiptdate"]), pc.less(batch["l_shipdate"], batch["l_commitdate"])
    )
    late = batch.filter(is_late)
    is_high = pc.is_in(late["l_orderkey"], value_set=high.combine_chunks())
    columns = [late["l_orderkey"], late["l_linenumber"], late["l_shipmode"], pc.year(late["l_receiptdate"]), is_high]
    return pa.record_batch(columns, schema=LATE_ITEMS)


def write(path: Path, value: Rows) -> None:
    partial = path.with_name(f".{path.name}")
    partial.write_text(json.dumps(value))
    os.replace(partial, path)


if __name__ == "__main__":
    main(PartSettings.from_json(sys.argv[-1]), twice="--twice" in sys.argv)

"""An audit of millions of recorded events on Spark: is everything found that was injected, and how fast is it?

Writes a recording of many channels, each a settled run of the model repeated many times, with one fault in some of
them.  Then audits it with ``permitflow.spark.audit``, and asks the same of Spark's SQL with window functions, in the
same session, in turns.
"""

import argparse
import json
import random
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import SparkSession

from permitflow.demo.spark_session import local_session
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import End
from permitflow.spark import audit
from permitflow.testing.behaviours import random_behaviour
from permitflow.testing.trace_faults import FAULTS, Expected, NoPlaceError
from permitflow.testing.traces import model_of
from permitflow.tracing.events import FORMAT_VERSION, Event
from permitflow.tracing.parquet import ROW_GROUP_EVENTS, SCHEMA, table_of

PARAMETERS = ChannelParameters(row_permits=4_096, permit_batch=512, barrier_permits=2)
SIZES = (0, 1, 64, 1_024)
TILE_EVENTS = 4_000
ENDS: tuple[End, End] = ("sender", "receiver")
# The same questions, as one would ask them of a table.  Order and the comparison of both ends are left out.
WINDOW_SQL = """
WITH around AS (
  SELECT *, LAG(sequence) OVER w AS sequence_before,
    LAG(row_permits) OVER w AS permits_before, LAG(inbox_messages) OVER w AS messages_before,
    LAG(inbox_rows) OVER w AS rows_before, LAG(unreturned_permits) OVER w AS unreturned_before,
    SUM(CASE action WHEN 'OfferChunk' THEN 1 WHEN 'SendChunk' THEN -1 WHEN 'WithdrawChunk' THEN -1 ELSE 0 END)
      OVER (PARTITION BY channel, `end` ORDER BY sequence ROWS UNBOUNDED PRECEDING) AS waiting
  FROM events WINDOW w AS (PARTITION BY channel, `end` ORDER BY sequence))
SELECT COUNT(*) FROM around WHERE sequence <> COALESCE(sequence_before, 0) + 1
  OR waiting < 0 OR row_permits < 0 OR row_permits > {row_permits} OR inbox_rows > {row_permits}
  OR (action = 'SendChunk' AND permits_rows <> GREATEST(1, LEAST(rows, {clamp})))
  OR row_permits <> permits_before +
     CASE WHEN action = 'AddPermits' THEN permits_rows WHEN action LIKE 'Send%' THEN -permits_rows ELSE 0 END
  OR inbox_messages <> messages_before + CASE action WHEN 'Deliver' THEN 1 WHEN 'Consume' THEN -1 ELSE 0 END
  OR inbox_rows <> rows_before + CASE action WHEN 'Deliver' THEN rows WHEN 'Consume' THEN -rows ELSE 0 END
  OR unreturned_permits <> CASE action WHEN 'Flush' THEN 0 WHEN 'Consume' THEN
     CASE WHEN unreturned_before + permits_rows >= {batch} THEN 0 ELSE unreturned_before + permits_rows END
     ELSE unreturned_before END
"""


class Recording:
    """Writes one file for each channel."""

    def __init__(self, folder: Path, *, seed: int) -> None:
        """``seed`` chooses runs, faults and their places."""
        self._folder = folder
        self._choose = random.Random(seed)
        self.expected: set[tuple[str, End, int, str]] = set()
        self.kinds: set[str] = set()
        self.events = 0

    def write(self, channel: str, tiles: int, kind: str | None) -> None:
        """So many runs, one after the other; in one of them the fault, if any."""
        good = self._tile()
        spoilt = self._choose.randrange(tiles) if kind != "permits come that nobody returned" else tiles - 1
        metadata = {b"permitflow_trace": json.dumps(_headers(channel)).encode()}
        last: dict[End, int] = {"sender": 0, "receiver": 0}
        with pq.ParquetWriter(
            self._folder / f"{channel}.parquet", SCHEMA.with_metadata(metadata), compression="zstd"
        ) as writer:
            pending: list[pa.Table] = []
            table, ends = _as_table(good, channel)
            for number in range(tiles):
                if number == spoilt and kind is not None:
                    bad, expected = self._spoil(kind, good)
                    self.kinds.add(kind)
                    self.expected |= {(channel, end, last[end] + at, str(clause)) for end, at, clause in expected}
                    spoilt_table, spoilt_ends = _as_table(bad, channel)
                    pending.append(_shifted(spoilt_table, spoilt_ends, last))
                    last = {end: last[end] + _last(bad, end) for end in ENDS}
                else:
                    pending.append(_shifted(table, ends, last))
                    last = {end: last[end] + _last(good, end) for end in ENDS}
                if sum(map(len, pending)) >= ROW_GROUP_EVENTS * 4:
                    self._flush(writer, pending)
            self._flush(writer, pending)

    def _flush(self, writer: pq.ParquetWriter, pending: list[pa.Table]) -> None:
        if pending:
            together = pa.concat_tables(pending).unify_dictionaries()
            self.events += len(together)
            writer.write_table(together, row_group_size=ROW_GROUP_EVENTS)
            pending.clear()

    def _tile(self) -> list[Event]:
        model, seed = model_of(PARAMETERS, sizes=SIZES), self._choose.randrange(2**32)
        return list(random_behaviour(model, seed=seed, events=TILE_EVENTS, settle=True))

    def _spoil(self, kind: str, events: Sequence[Event]) -> tuple[list[Event], frozenset[Expected]]:
        while True:
            try:
                return FAULTS[kind](events, self._choose)
            except NoPlaceError:
                events = self._tile()


def _headers(channel: str) -> dict[str, object]:
    headers = [{"channel": channel, "end": end, "parameters": asdict(PARAMETERS)} for end in ENDS]
    return {"version": FORMAT_VERSION, "headers": headers}


def _as_table(events: Sequence[Event], channel: str) -> tuple[pa.Table, np.ndarray]:
    named = [event._replace(channel=channel) for event in events]
    return table_of(named), np.array([event.end == "receiver" for event in events])


def _shifted(table: pa.Table, of_receiver: np.ndarray, last: dict[End, int]) -> pa.Table:
    sequence = table.column("sequence").to_numpy() + np.where(of_receiver, last["receiver"], last["sender"])
    return table.set_column(table.schema.get_field_index("sequence"), SCHEMA.field("sequence"), pa.array(sequence))


def _last(events: Sequence[Event], end: End) -> int:
    return max(event.sequence for event in events if event.end == end)


def _channels(faults: int) -> Iterator[tuple[str, str | None]]:
    kinds = list(FAULTS)
    for number in range(2 * faults):
        yield f"channel-{number}", kinds[number // 2 % len(kinds)] if number % 2 else None


def write_recording(folder: Path, *, events: int, faults: int, seed: int) -> Recording:
    """Channels with and without a fault, in turn; together about so many events."""
    recording = Recording(folder, seed=seed)
    channels = list(_channels(faults))
    for channel, kind in channels:
        recording.write(channel, max(2, events // len(channels) // TILE_EVENTS), kind)
    return recording


def audit_once(spark: SparkSession, folder: Path, expected: set[tuple[str, End, int, str]]) -> float:
    """Seconds; the audit must find what is expected, and nothing else."""
    begin = time.perf_counter()
    report = audit(spark, str(folder)).report
    seconds = time.perf_counter() - begin
    found = {(each.channel, each.end, each.sequence, str(each.clause)) for each in report.violations}
    if found != expected or report.untold:
        raise AssertionError(f"missed: {sorted(expected - found)}; invented: {sorted(found - expected)}")
    return seconds


def query_once(spark: SparkSession, folder: Path) -> float:
    """Seconds that the same questions take with window functions."""
    begin = time.perf_counter()
    spark.read.parquet(str(folder)).createOrReplaceTempView("events")
    of = PARAMETERS
    sql = WINDOW_SQL.format(row_permits=of.row_permits, clamp=of.max_chunk_cost, batch=of.permit_batch)
    (row,) = spark.sql(sql).collect()
    if not row[0]:
        raise AssertionError("the window functions found nothing, though faults are there")
    return time.perf_counter() - begin


def main() -> None:
    """Print a table, and write JSON if that is wanted."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=50_000_000, help="about so many")
    parser.add_argument("--faults", type=int, default=24, help="so many channels have one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", type=Path, help="write the figures to this file")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (trace := folder / "trace").mkdir()
        recording = write_recording(trace, events=arguments.events, faults=arguments.faults, seed=arguments.seed)
        print(f"{recording.events:,} events, {arguments.faults} faults of {len(recording.kinds)} kinds", flush=True)
        # Not the quick start of short jobs: the competitor shall have Java's best compiler, and memory.
        settings = {"spark.driver.extraJavaOptions": "-XX:+UseParallelGC", "spark.driver.memory": "6g"}
        with local_session("audit", master="local[2]", work_dir=folder / "spark", settings=settings) as spark:
            ours, windows = [], []
            for _ in range(arguments.rounds):
                ours.append(audit_once(spark, trace, recording.expected))
                windows.append(query_once(spark, trace))
    ratio = statistics.median(there / here for here, there in zip(ours, windows, strict=True))
    for name, seconds in (("permitflow.spark.audit", ours), ("window functions", windows)):
        median = statistics.median(seconds)
        print(f"{name:<24} {median:7.1f} s  {recording.events / median / 1e6:6.2f} million events/s")
    print(f"all {len(recording.expected)} violations found, none invented; {ratio:.1f} times as fast as SQL")
    if arguments.json:
        figures = {"events": recording.events, "audit_seconds": ours, "sql_seconds": windows, "ratio": ratio}
        arguments.json.write_text(json.dumps(figures, indent=2))


if __name__ == "__main__":
    main()

"""The cost of the exchange for a Spark job: source, sink and a whole query, each in turns with the same without it."""

import asyncio
import tempfile
import time
from collections import deque
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from itertools import islice
from multiprocessing.connection import Connection
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession

from benchmarks.field import Settings
from benchmarks.harness import Partner, in_turns
from benchmarks.results import Row, Series
from benchmarks.spark_peers import CHUNK_ROWS, PAYLOAD, SLOTS, MemorySource, NullSink, session
from benchmarks.targets import QUERY, SINK, SOURCE
from examples.tpch.tables import (
    LATE_LINE_ITEMS,
    PRIORITIES_OF_LATE_ITEMS,
    TABLES,
    WHOLE_QUERY,
    cached_tables,
    default_cache_dir,
)
from permitflow.exchange import Exchange, ExchangeServer, stream_channels

SOURCE_ROWS = 16 << 20
# A sink takes three times as long for a row, and scatters less.
SINK_ROWS = 8 << 20
SMOKE_ROWS = 4 * CHUNK_ROWS
SCALE = 1.0
SMOKE_SCALE = 0.01
# The query takes less than a second, Java compiles it for dozens of rounds, and single rounds scatter: the median of a
# few would be chance.
QUERY_WARM_UP_ROUNDS = 25
QUERY_ROUNDS = 15
BURST_CHUNKS = 16


# Two processes beside the measured session: an exchange that also feeds or drains, and the job that feeds query 12.


class Order(NamedTuple):
    """The stream that the exchange shall have, in place of earlier ones."""

    role: str
    """It is fed (``feed``), drained (``drain``), or only passed on."""
    stream: str
    chunks: int
    """The chunks of each channel that is fed."""


async def _feed(exchange: Exchange, channel: str, chunks: int) -> int:
    sender, supply = exchange.channel(channel).sender, PAYLOAD.chunks(chunks)
    while burst := deque(islice(supply, BURST_CHUNKS)):
        await sender.send_many(burst)
    await sender.end()
    return 0


async def _drain(exchange: Exchange, channel: str, _chunks: int) -> int:
    return sum([message.rows async for message in exchange.channel(channel).receiver])


async def serve(pipe: Connection) -> None:
    """Serve an exchange until there are no more orders."""
    exchange = Exchange()
    async with ExchangeServer(exchange) as server:
        pipe.send(server.address)
        while True:
            order: Order = await asyncio.to_thread(pipe.recv)
            for past in exchange.statistics():
                await exchange.remove_channel(past.channel)
            names = stream_channels(order.stream, SLOTS)
            for name in names:
                exchange.add_channel(name, schema=PAYLOAD.schema if order.role == "feed" else None)
            pipe.send("ready")
            work = {"feed": _feed, "drain": _drain}.get(order.role)
            pipe.send(sum(await asyncio.gather(*(work(exchange, name, order.chunks) for name in names))) if work else 0)


def send(pipe: Connection, tables: Path, work_folder: Path) -> None:
    """Write the late line items into the stream of each order, in a session that stays warm."""
    with session(work_folder) as spark:
        spark.read.parquet(f"{tables}/lineitem.parquet").createOrReplaceTempView("lineitem")
        pipe.send("ready")
        while True:
            options = pipe.recv()
            late = spark.sql(LATE_LINE_ITEMS).coalesce(int(options["channels"]))
            late.write.format("permitflow").mode("append").options(**options).save()
            pipe.send("done")


class Stage:
    """The session, the exchange beside it, and streams with new names."""

    def __init__(self, spark: SparkSession, exchange: Partner) -> None:
        self.spark = spark
        self._exchange = exchange
        self._address: str = exchange.hears()
        self._number = 0

    def open_stream(self, role: str, chunks: int = 0) -> dict[str, str]:
        """Let the exchange feed, drain or pass on a new stream; the options for Spark."""
        self._number += 1
        stream = f"stream-{self._number}"
        self._exchange.tell(Order(role, stream, chunks))
        self._exchange.hears()
        return {"address": self._address, "stream": stream, "channels": str(SLOTS)}

    def close_stream(self) -> int:
        """Wait until everything is over; return the drained rows."""
        rows: int = self._exchange.hears()
        return rows


def measure_spark(settings: Settings) -> list[Row]:
    """All three, in rounds; the order within a round is random."""
    is_smoke = settings.is_smoke
    tables = asyncio.run(cached_tables(SMOKE_SCALE if is_smoke else SCALE, default_cache_dir()))
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory()))
        exchange = stack.enter_context(Partner(serve))
        spark = stack.enter_context(session(folder / "receiver"))
        stage = Stage(spark, exchange)
        source_rows, sink_rows = (SMOKE_ROWS, SMOKE_ROWS) if is_smoke else (SOURCE_ROWS, SINK_ROWS)
        jobs = [_source(stage, source_rows), _sink(stage, sink_rows)]
        sender = stack.enter_context(Partner(send, tables, folder / "sender"))
        sender.hears()
        jobs.append(_query(stage, sender, tables))
        return [_measured(job, settings) for job in jobs]


@dataclass(frozen=True)
class _Contest:
    job: str
    peer: str
    run: Callable[[], None]
    run_peer: Callable[[], None]
    # Rounds of seconds, nearly all of it in loops that Java compiles within the first: workers have to be forked.
    warm_up_rounds: int = 2
    least_rounds: int = 1


def _measured(contest: _Contest, settings: Settings) -> Row:
    def seconds_of(run: Callable[[], None]) -> float:
        began = time.perf_counter()
        run()
        return time.perf_counter() - began

    runs = {"ours": partial(seconds_of, contest.run), "peer": partial(seconds_of, contest.run_peer)}
    warm_up_rounds = 0 if settings.is_smoke else contest.warm_up_rounds
    in_turns(runs, warm_up_rounds)
    rounds = settings.rounds if settings.is_smoke else max(settings.rounds, contest.least_rounds)
    seconds = in_turns(runs, rounds)
    return {
        "Spark": f"{contest.job}, beside {contest.peer}",
        "seconds with the exchange": Series.of(seconds["ours"]),
        "without": Series.of(seconds["peer"]),
        "rounds": f"{rounds}, after {warm_up_rounds}",
        "_job": contest.job,
        "_peer": contest.peer,
    }


def _source(stage: Stage, rows: int) -> _Contest:
    stage.spark.dataSource.register(MemorySource)
    chunks = rows // CHUNK_ROWS // SLOTS
    expected = [
        SLOTS * sum(chunk.column(name).to_numpy().sum() for chunk in PAYLOAD.chunks(chunks))
        for name in ("serial", "double", "square")
    ]

    def consume(data: DataFrame) -> None:
        (found,) = data.selectExpr("sum(serial)", "sum(double)", "sum(square)").collect()
        assert list(found) == expected, f"{found} are not the sums of the sent rows"

    def run() -> None:
        options = stage.open_stream("feed", chunks)
        consume(stage.spark.read.format("permitflow").options(**options).load())
        stage.close_stream()

    def run_peer() -> None:
        consume(stage.spark.read.format("memory_chunks").option("chunks", chunks).load())

    return _Contest(SOURCE, "a Python source with its rows in memory", run, run_peer)


def _sink(stage: Stage, rows: int) -> _Contest:
    stage.spark.dataSource.register(NullSink)
    data = stage.spark.range(0, rows, 1, SLOTS).selectExpr("id AS serial", "2 * id AS double", "id % 1009 AS square")

    def run() -> None:
        options = stage.open_stream("drain")
        data.write.format("permitflow").mode("append").options(**options).save()
        assert (drained := stage.close_stream()) == rows, f"{drained:,} of {rows:,} rows came"

    def run_peer() -> None:
        data.write.format("null_sink").mode("append").save()

    return _Contest(SINK, "a Python sink that throws rows away", run, run_peer)


def _query(stage: Stage, sender: Partner, tables: Path) -> _Contest:
    spark = stage.spark
    for table in TABLES:
        spark.read.parquet(f"{tables}/{table}.parquet").createOrReplaceTempView(table)
    answer = spark.sql(WHOLE_QUERY).collect()
    # Stated, as in any job that runs again: else the plan waits for the producer's first row.
    schema = spark.sql(LATE_LINE_ITEMS).schema

    def run() -> None:
        options = stage.open_stream("pass on")
        stage.close_stream()
        sender.tell(options)
        late = spark.read.format("permitflow").schema(schema).options(**options).load()
        late.createOrReplaceTempView("late_line_items")
        assert spark.sql(PRIORITIES_OF_LATE_ITEMS).collect() == answer
        sender.hears()

    def run_peer() -> None:
        assert spark.sql(WHOLE_QUERY).collect() == answer

    what = "the same query in one session, from files"
    return _Contest(QUERY, what, run, run_peer, warm_up_rounds=QUERY_WARM_UP_ROUNDS, least_rounds=QUERY_ROUNDS)

"""The worker that is a streaming query of Spark: ``python -m examples.jobs.spark_worker SETTINGS``.

The query pulls jobs from a channel that keeps them until they are committed, and publishes each batch of results as a
whole.  So it may be killed at any time: started again, it goes on at its checkpoint.
"""

import asyncio
from contextlib import suppress
from pathlib import Path

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from permitflow.client import put
from permitflow.names import stream_channels
from permitflow.spark import register
from permitflow.spark.local_session import local_session

from ..child_process import asked_to_end, report, run_process
from .metrics import Metrics, sending_metrics
from .settings import SparkWorkerSettings
from .work import RESULT_IN_SQL, RESULTS, Result, chunk_of, jobs_stream, results_stream

LOOK_SECONDS = 0.1


def started(spark: SparkSession, settings: SparkWorkerSettings) -> StreamingQuery:
    """Start the query; if it was there before, it goes on."""
    register(spark)
    exchange = {"address": settings.master, "channels": "1", "timeoutSeconds": str(settings.give_up_seconds)}
    jobs = spark.readStream.format("permitflow").options(**exchange, stream=jobs_stream(settings.name)).load()
    # A literal could not be null, and the column of the channel can.
    worker = f"if(client IS NULL, NULL, '{settings.incarnation}') AS worker"
    results = jobs.selectExpr("client", "number", f"{RESULT_IN_SQL} AS result", worker)
    sink = results.writeStream.format("permitflow").options(**exchange, stream=results_stream(settings.name))
    return sink.option("checkpointLocation", str(Path(settings.work_dir) / "checkpoint")).start()


async def work(settings: SparkWorkerSettings, metrics: Metrics, ending: asyncio.Event) -> None:
    """Run the query until it is to end.

    Raises:
        PermitflowError: the master is not there.
        StreamingQueryException: the query has failed.
    """
    work_dir = Path(settings.work_dir)
    # Spark knows its session by the thread: all calls are made in this one, though they block it.
    with local_session("permitflow demo: jobs", master="local[1]", work_dir=work_dir) as spark:
        query = started(spark, settings)
        (results,) = stream_channels(results_stream(settings.name), 1)
        # One with a name breaks the channel in no case.
        async with put(settings.master, results, RESULTS, producer=settings.incarnation) as hello:
            await hello.send(chunk_of(Result("", 0, 0, settings.incarnation)))
            await hello.end(closes_channel=False)
        counted = -1
        while query.isActive:
            for progress in query.recentProgress:
                if progress.batchId > counted and progress.numInputRows:
                    counted = progress.batchId
                    metrics.count("pulled", progress.numInputRows)
                    metrics.count("finished", progress.numInputRows)
            with suppress(TimeoutError):
                async with asyncio.timeout(LOOK_SECONDS):
                    await ending.wait()
        query.awaitTermination()


async def main() -> None:
    """Work until SIGTERM."""
    settings = SparkWorkerSettings.from_command_line()
    async with sending_metrics(settings.metrics) as metrics:
        with asked_to_end() as ending:
            report("ready")
            try:
                await work(settings, metrics, ending)
            except (Py4JError, OSError):
                # SIGTERM comes to the whole group, and so to the JVM, which may be gone first.
                if not ending.is_set():
                    raise
    report("final", source=settings.name, incarnation=settings.start, totals=dict(metrics.totals))


if __name__ == "__main__":
    run_process(main())

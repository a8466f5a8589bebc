"""The streaming query, in a process that is killed: reads one stream, and writes into another one, staged, by a key.

    python -m tests.cluster.query MASTER FOLDER ADDRESSES CHANNELS BATCH_ROWS

It says ``failed: …`` when the query has ended with an error, and starts it again from its checkpoint.
"""

import sys
from pathlib import Path
from time import sleep

from pyspark.errors import StreamingQueryException
from pyspark.sql import SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import permitflow.spark
from permitflow.spark.local_session import local_session

SETTINGS = {"spark.executor.cores": "1", "spark.executor.memory": "512m", "spark.cores.max": "4"}
PAUSE_SECONDS = 1.0


def started(spark: SparkSession, address: str, channels: str, folder: Path, batch_rows: str) -> StreamingQuery:
    """The query: its rows get a second column."""
    place = {"address": address, "channels": channels}
    numbers = spark.readStream.format("permitflow").options(**place, stream="in", maxRowsPerTrigger=batch_rows).load()
    output = numbers.selectExpr("n", "3 * n AS tripled").writeStream.format("permitflow")
    return (
        output.options(**place, stream="out", key="n")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(processingTime="0 seconds")
        .start()
    )


def main(master: str, folder: Path, address: str, channels: str, batch_rows: str) -> None:
    """Run until killed."""
    with local_session("permitflow cluster", master=master, work_dir=folder, settings=SETTINGS) as spark:
        permitflow.spark.register(spark)
        while True:
            try:
                query = started(spark, address, channels, folder, batch_rows)
                print("started", flush=True)
                query.awaitTermination()
            except StreamingQueryException as error:
                print(f"failed: {error}", flush=True)
            sleep(PAUSE_SECONDS)


if __name__ == "__main__":
    _, master, folder, address, channels, batch_rows = sys.argv
    main(master, Path(folder), address, channels, batch_rows)

"""Spark job 1: puts the late line items of query 12 into the exchange.

Run as ``python -m permitflow.demo.send_job '<JSON of JobSettings>'``.
"""

import sys
from pathlib import Path

from permitflow.demo.events import report
from permitflow.demo.query12 import LATE_LINE_ITEMS
from permitflow.demo.settings import JobSettings
from permitflow.demo.spark_session import local_session

__all__ = ["main"]


def main(settings: JobSettings) -> None:
    """Filter, spread over as many tasks as there are channels, and write."""
    # All channels of the stream at the same time, or whoever waits for the others starves.
    slots = f"local[{settings.channels}]"
    with local_session("permitflow demo: sending", master=slots, work_dir=Path(settings.work_dir)) as spark:
        report("started", text="Spark has started")
        spark.read.parquet(f"{settings.tables}/lineitem.parquet").createOrReplaceTempView("lineitem")
        late = spark.sql(LATE_LINE_ITEMS).repartition(settings.channels)
        writer = late.write.format("permitflow").mode("append").options(**settings.exchange_options())
        writer.option("chunk_rows", str(settings.chunk_rows)).save()
        report("sent", text="everything was sent, and the exchange has accepted it")


if __name__ == "__main__":
    main(JobSettings.from_json(sys.argv[1]))

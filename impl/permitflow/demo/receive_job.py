"""Spark job 2: reads the late line items from the exchange, joins the orders, and aggregates.

Afterwards, in the same session, it runs the whole query on the files, for comparison.
Run as ``python -m permitflow.demo.receive_job '<JSON of JobSettings>'``.
"""

import sys
from pathlib import Path
from time import monotonic

from pyspark.sql import DataFrame

from permitflow.demo.events import report
from permitflow.demo.query12 import PRIORITIES_OF_LATE_ITEMS, WHOLE_QUERY, ShippingMode
from permitflow.demo.settings import JobSettings
from permitflow.demo.spark_session import local_session
from permitflow.demo.tpch import TABLES

__all__ = ["main"]


def main(settings: JobSettings) -> None:
    """Run both queries and report both answers."""
    # All channels of the stream at the same time, or whoever waits for the others starves.
    slots = f"local[{settings.channels}]"
    with local_session("permitflow demo: receiving", master=slots, work_dir=Path(settings.work_dir)) as spark:
        report("started", text="Spark has started")
        for table in TABLES:
            spark.read.parquet(f"{settings.tables}/{table}.parquet").createOrReplaceTempView(table)
        exchange = spark.read.format("permitflow").options(**settings.exchange_options()).load()
        exchange.createOrReplaceTempView("late_line_items")
        run("query_through_exchange", "query 12 through the exchange", spark.sql(PRIORITIES_OF_LATE_ITEMS))
        run("query_directly", "query 12 directly", spark.sql(WHOLE_QUERY))


def run(event: str, what: str, query: DataFrame) -> None:
    """Run a query and report its answer."""
    began = monotonic()
    rows = [ShippingMode(row[0], row[1], row[2]) for row in query.collect()]
    seconds = monotonic() - began
    report(event, f"{what} took {seconds:.1f} s", rows=rows, seconds=seconds)


if __name__ == "__main__":
    main(JobSettings.from_json(sys.argv[1]))

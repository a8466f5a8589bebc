"""The batch queries to compare with: the late items and query 12, by Spark alone, from the files.

Run as ``python -m permitflow.demo.streaming.batch_job '<JSON of PartSettings>'``.
"""

import sys
from pathlib import Path

from permitflow.demo.events import report
from permitflow.demo.query12 import WHOLE_QUERY, ShippingMode
from permitflow.demo.spark_session import local_session
from permitflow.demo.streaming.late_items import ALL_LATE_ITEMS
from permitflow.demo.streaming.settings import PartSettings
from permitflow.demo.tpch import TABLES

__all__ = ["main"]


def main(settings: PartSettings) -> None:
    """Run both queries; one writes a file, the other is reported."""
    slots = f"local[{settings.channels}]"
    with local_session("permitflow demo: directly", master=slots, work_dir=Path(settings.work_dir)) as spark:
        for table in TABLES:
            spark.read.parquet(settings.table(table)).createOrReplaceTempView(table)
        spark.sql(ALL_LATE_ITEMS).select("l_orderkey", "l_linenumber").write.parquet(str(settings.direct_answer))
        rows = [ShippingMode(row[0], row[1], row[2]) for row in spark.sql(WHOLE_QUERY).collect()]
        report("answer", text="query 12 was answered directly", rows=rows)


if __name__ == "__main__":
    main(PartSettings.from_json(sys.argv[1]))

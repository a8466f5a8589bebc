"""The job that feeds query 12, in a process and a session of its own, which stays warm: it runs once for each order.

python -m benchmarks.spark_exchange.sender TABLES WORK_FOLDER
"""

import json
import sys
from pathlib import Path

from benchmarks.spark_exchange.sessions import session
from permitflow.demo.tpch import LATE_LINE_ITEMS


def main(tables: str, work_folder: str) -> None:
    """Write into the stream of each order."""
    say, sys.stdout = sys.stdout, sys.stderr
    with session(Path(work_folder)) as spark:
        spark.read.parquet(f"{tables}/lineitem.parquet").createOrReplaceTempView("lineitem")
        print(json.dumps({"ready": True}), file=say, flush=True)
        for line in sys.stdin:
            options = json.loads(line)
            late = spark.sql(LATE_LINE_ITEMS).coalesce(int(options["channels"]))
            late.write.format("permitflow").mode("append").options(**options).save()
            print(json.dumps({"done": True}), file=say, flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

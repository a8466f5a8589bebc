"""A Spark job through an exchange with TLS and a token: ``job.py write`` and ``job.py read``, side by side."""

import os
import sys
from pathlib import Path

from pyspark.sql import SparkSession

import permitflow.spark

CHANNELS = 2


def main() -> None:
    """Write a million orders, or read them and print their sum."""
    files = Path(os.environ["PERMITFLOW_FILES"])
    exchange = {
        "address": os.environ["PERMITFLOW_ADDRESS"],
        "stream": "orders",
        "channels": str(CHANNELS),
        "tls_ca": str(files / "ca.pem"),
        "token_file": str(files / "job.token"),
    }
    rows = int(os.environ.get("PERMITFLOW_ROWS", "1000000"))
    builder = SparkSession.builder.master(f"local[{CHANNELS}]")
    spark = permitflow.spark.configure(builder, channels=CHANNELS).getOrCreate()
    permitflow.spark.register(spark)
    if sys.argv[1:] == ["write"]:
        orders = spark.range(rows).selectExpr("id AS number", "CAST(id % 10 AS DOUBLE) AS amount")
        orders.write.format("permitflow").options(**exchange).mode("append").save()
        print(f"wrote {rows} orders")
    elif sys.argv[1:] == ["read"]:
        orders = spark.read.format("permitflow").options(**exchange).load()
        print("read", *orders.selectExpr("count(*)", "sum(amount)").first() or ())
    else:
        raise SystemExit("job.py write, or job.py read")


if __name__ == "__main__":
    main()

"""The second Spark job wants a score for each order; it reads them like a table, until the first job has ended."""

from pyspark.sql import SparkSession

import permitflow.spark

EXCHANGE = {"address": "127.0.0.1:50051", "stream": "scores", "channels": "2", "timeoutSeconds": "300"}

spark = permitflow.spark.configure(SparkSession.builder.master("local[2]"), channels=2).getOrCreate()
permitflow.spark.register(spark)

scores = spark.read.format("permitflow").options(**EXCHANGE).load()  # waits until the scoring has begun
(row,) = scores.selectExpr("count(DISTINCT number) AS orders", "sum(score) AS total").collect()
print(f"{row.orders:,} orders have scores, in all {row.total:,.0f}")
spark.stop()

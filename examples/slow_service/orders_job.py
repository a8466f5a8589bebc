"""The first Spark job has orders, and would hand them over faster than the service can score them."""

from pyspark.sql import SparkSession

import permitflow.spark

EXCHANGE = {"address": "127.0.0.1:50051", "stream": "orders", "channels": "2", "timeoutSeconds": "300"}

spark = permitflow.spark.configure(SparkSession.builder.master("local[2]"), channels=2).getOrCreate()
permitflow.spark.register(spark)

orders = spark.range(2_000).selectExpr("id AS number", "CAST(id % 10 AS DOUBLE) AS amount")
orders.write.format("permitflow").options(**EXCHANGE).mode("append").save()  # waits while the channels are full
print("all orders were taken")
spark.stop()

"""A streaming query that reads each order once, however often it is started: its checkpoint says how far it is."""

from pyspark.sql import SparkSession

import permitflow.spark

EXCHANGE = {"address": "127.0.0.1:50051", "stream": "orders", "channels": "1"}

spark = permitflow.spark.configure(SparkSession.builder.master("local[2]"), channels=1).getOrCreate()
permitflow.spark.register(spark)

orders = spark.readStream.format("permitflow").options(**EXCHANGE).load()
writer = orders.writeStream.format("parquet").option("checkpointLocation", "orders.checkpoint")
# It ends with what is there now; without the trigger it goes on until somebody stops it.
writer.trigger(availableNow=True).start("orders.parquet").awaitTermination()

table = spark.read.parquet("orders.parquet").selectExpr("count(*) AS rows", "count(DISTINCT number) AS orders")
(found,) = table.collect()
print(f"the table has {found.rows} rows, of {found.orders} orders")
spark.stop()

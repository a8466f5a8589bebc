"""Rows that come once and all at once: from a job with a key, from a streaming query, from foreachBatch."""

from pyspark.sql import DataFrame, SparkSession

import permitflow.spark
from permitflow.client.blocking import control

EXCHANGE = {"address": "127.0.0.1:50051", "stream": "orders", "channels": "2"}

spark = permitflow.spark.configure(SparkSession.builder.master("local[2]"), channels=2).getOrCreate()
permitflow.spark.register(spark)
orders = spark.createDataFrame([(number,) for number in range(1_000)], "number long")

# The orders of a night, as often as this program is started: they are published once.
(
    orders.write.format("permitflow")
    .mode("append")
    .options(**EXCHANGE, delivery="staged", query="nightly", batch="20240229", end="false")
    .save()
)

# Orders come as files.
orders.write.mode("append").parquet("incoming")
incoming = spark.readStream.schema(orders.schema).parquet("incoming")

query = (
    incoming.writeStream.format("permitflow")
    .options(**EXCHANGE)
    .option("checkpointLocation", "staged.checkpoint")
    .trigger(availableNow=True)  # without it, the query goes on until somebody stops it
    .start()
)
query.awaitTermination()


def write(frame: DataFrame, batch: int) -> None:
    """Write a batch of another query: once, because batch and query are its key."""
    frame.write.format("permitflow").mode("append").options(
        **EXCHANGE, delivery="staged", query="copy of orders", batch=str(batch), end="false"
    ).save()


copy = incoming.writeStream.foreachBatch(write).option("checkpointLocation", "copy.checkpoint")
copy.trigger(availableNow=True).start().awaitTermination()

spark.stop()
with control(EXCHANGE["address"]) as line:
    print(sum(position.next_row for position in line.positions(["orders/0", "orders/1"])), "rows are published")

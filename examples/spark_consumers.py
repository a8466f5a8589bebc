"""Two streaming queries read the same orders, each as a consumer of its own; one is watched, and later acknowledged."""

import pyarrow as pa
from pyspark.sql import SparkSession

import permitflow.spark
from permitflow.client.blocking import control, open_sink

ADDRESS = "127.0.0.1:50051"
CHANNELS = ("orders/0", "orders/1")

builder = SparkSession.builder.appName("orders").master("local[2]")
spark = permitflow.spark.configure(builder, channels=2, report=print).getOrCreate()
permitflow.spark.register(spark)

schema = pa.schema([("number", pa.int64())])
for channel in CHANNELS:
    with open_sink(ADDRESS, channel, schema) as sink:
        sink.send(pa.record_batch({"number": range(500)}, schema=schema))
        sink.end(closes_channel=False)

stream = spark.readStream.format("permitflow").options(address=ADDRESS, stream="orders", channels="2")
etl = stream.option("consumer", "etl").load()
audit = stream.option("consumer", "audit").load()

watching = permitflow.spark.listener(spark, ADDRESS, acknowledge_for={"orders": "etl"})
writer = etl.writeStream.queryName("orders").format("noop").option("checkpointLocation", "etl.checkpoint")
query = writer.start()
query.processAllAvailable()
query.stop()

writer = audit.writeStream.format("noop").option("checkpointLocation", "audit.checkpoint")
writer.trigger(availableNow=True).start().awaitTermination()

for record in watching.records:
    if record.progress is not None:
        print(f"{record.progress.query}: {record.progress.input_rows} rows in {record.progress.batch_seconds:.1f} s")
spark.stop()

# The audit will not be started again: what is acknowledged for it need not be kept for it, nor does a producer wait.
with control(ADDRESS) as line:
    ends = {position.channel: position.next_row for position in line.positions(CHANNELS, consumer="audit")}
    line.acknowledge(ends, consumer="audit")
    left = [position.next_row - position.acknowledged_row for position in line.positions(CHANNELS, consumer="audit")]
print("rows that the exchange keeps for the audit:", sum(left))

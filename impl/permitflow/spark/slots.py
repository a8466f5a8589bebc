"""How many tasks a session runs at once."""

from pyspark.sql import SparkSession

__all__ = ["task_slots"]


def task_slots(spark: SparkSession) -> int:
    """Of a classic session, its task slots; of a remote one, which does not tell, its default number of partitions."""
    context = getattr(spark, "_sc", None)
    slots = spark.conf.get("spark.sql.shuffle.partitions") if context is None else context.defaultParallelism
    return int(slots or 1)

"""How Spark finds ``format("permitflow-grpc")`` by itself: it takes one class from each module named ``pyspark_*``."""

from permitflow.spark.calls.source import GrpcDataSource as DefaultSource

__all__ = ["DefaultSource"]

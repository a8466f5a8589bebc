"""How Spark finds ``format("permitflow")`` by itself: it looks for modules named ``pyspark_*`` with this class."""

from permitflow.spark.source import PermitflowDataSource as DefaultSource

__all__ = ["DefaultSource"]

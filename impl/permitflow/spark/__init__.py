"""Spark reads and writes the channels of an exchange: ``format("permitflow")``; and audits recorded traces.

Importing this package does not load gRPC: Spark's daemon forks, and gRPC must be loaded in the worker after that.
"""

from permitflow.spark.auditing import SparkAudit, audit
from permitflow.spark.register import register
from permitflow.spark.source import PermitflowDataSource

__all__ = ["PermitflowDataSource", "SparkAudit", "audit", "register"]

"""Spark reads and writes the channels of an exchange: ``format("permitflow")``; audits recorded traces; and checks
many channels at once.

Importing this package does not load gRPC: Spark's daemon forks, and gRPC must be loaded in the worker after that.
"""

from permitflow.spark.auditing import SparkAudit, audit
from permitflow.spark.configure import Configuration, configuration, configure
from permitflow.spark.listener import ExchangeListener, listener
from permitflow.spark.plotting import plot_back_pressure
from permitflow.spark.register import register
from permitflow.spark.source import PermitflowDataSource
from permitflow.spark.sweeping import SparkSweep, sweep

__all__ = [
    "Configuration",
    "ExchangeListener",
    "PermitflowDataSource",
    "SparkAudit",
    "SparkSweep",
    "audit",
    "configuration",
    "configure",
    "listener",
    "plot_back_pressure",
    "register",
    "sweep",
]

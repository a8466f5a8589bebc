"""Spark reads and writes channels of an exchange, ``format("permitflow")``, and streaming methods of any gRPC service,
``format("permitflow-grpc")``; and sends rows through a bidirectional one, ``through``.

``source`` and ``stream_source`` read, ``sink`` writes, with the ``options`` of the user; ``calls`` has the services of
gRPC.

Importing this package does not load gRPC: Spark's daemon forks, and gRPC must be loaded in the worker after that.
A short job waits for its workers to start, and each worker imports this package; so modules that a worker of a channel
does not use are loaded on first use.
"""

from typing import TYPE_CHECKING

from permitflow.opening import opening, require_extra

require_extra("spark", "pyspark", "pyarrow")  # before an import says it in other words

# ruff: noqa: E402
from permitflow.spark.causes import cause_of
from permitflow.spark.configure import Configuration, configuration, configure
from permitflow.spark.listener import ExchangeListener, listener
from permitflow.spark.register import register
from permitflow.spark.source import PermitflowDataSource

if TYPE_CHECKING:
    from permitflow.spark.calls.bidirectional import through
    from permitflow.spark.calls.source import GrpcDataSource

__all__ = [
    "Configuration",
    "ExchangeListener",
    "GrpcDataSource",
    "PermitflowDataSource",
    "cause_of",
    "configuration",
    "configure",
    "listener",
    "register",
    "through",
]

_ON_FIRST_USE = {
    "calls.bidirectional": ("through",),
    "calls.source": ("GrpcDataSource",),
}

if not TYPE_CHECKING:
    __getattr__ = opening(__name__, _ON_FIRST_USE)

    def __dir__():
        return sorted({*globals(), *__all__})

"""Streams of stages whose consumer sets the pace: ``Source(elements).map(f).buffer(16)`` is an async iterable.

``source`` has the methods of a stream, ``core`` the stages themselves without any I/O, ``running`` what runs them, and
``calls`` the streaming methods of gRPC.  This module loads the standard library only.
"""

from permitflow.stages.blueprint import Arc, Blueprint
from permitflow.stages.core.drop_queue import DropQueue, Overflow
from permitflow.stages.core.ports import Connection, HoldingStage, Stage
from permitflow.stages.core.rates import Depth, Supervision, ThrottleMode
from permitflow.stages.core.token_bucket import TokenBucket
from permitflow.stages.offers import Offered, Offers, async_callback
from permitflow.stages.running import Elements
from permitflow.stages.source import FeedbackLoop, Source, blueprint_of, open_run

__all__ = [
    "Arc",
    "Blueprint",
    "Connection",
    "Depth",
    "DropQueue",
    "Elements",
    "FeedbackLoop",
    "HoldingStage",
    "Offered",
    "Offers",
    "Overflow",
    "Source",
    "Stage",
    "Supervision",
    "ThrottleMode",
    "TokenBucket",
    "async_callback",
    "blueprint_of",
    "open_run",
]

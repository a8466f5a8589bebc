"""Streams over the streaming methods of any gRPC service: the consumer paces the other process by gRPC's flow control.

Import it as ``from permitflow.stages import calls``; it is for ``grpc.aio``.
"""

import permitflow.wire  # noqa: F401  # sets what gRPC reads when it is loaded
from permitflow.stages.calls.bounds import CallCounts, Window
from permitflow.stages.calls.client import CallOptions, flow, sink, source
from permitflow.stages.calls.server import answering, requests, respond

__all__ = [
    "CallCounts",
    "CallOptions",
    "Window",
    "answering",
    "flow",
    "requests",
    "respond",
    "sink",
    "source",
]

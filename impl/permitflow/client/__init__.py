"""The client of an exchange, for asyncio; ``permitflow.client.blocking`` is for callers without an event loop.

Both dial gRPC (``host:port``), plain TCP (``tcp://host:port``) and UDP (``udp://host:port``).  Needs permitflow[grpc].

``aio`` has ``get`` and ``put``, ``aio_control`` has ``control``.  ``remote_sender`` and ``remote_receiver`` are the two
ends of a stream over any carrier; ``remote_end`` is what they share, and ``writing`` says when messages leave.
"""

from permitflow.opening import require_extra

# Before an import says it in other words; gRPC itself is loaded for addresses that ask for it.
require_extra("grpc", "pyarrow")

# ruff: noqa: E402
import permitflow.wire  # noqa: F401  # sets what gRPC reads when it is loaded
from permitflow.carriers.security import Security
from permitflow.carriers.shared_memory import SameHost
from permitflow.client.aio import ChannelDescription, describe, get, put
from permitflow.client.aio_control import AioControl, control, require_single_places
from permitflow.client.dispatching import RemoteDispatcher, dispatch
from permitflow.client.remote_receiver import RemoteReceiver
from permitflow.client.remote_sender import RemoteSender
from permitflow.stream.compression import Compression
from permitflow.stream.control import (
    ChangedChannel,
    ChannelPosition,
    ChannelState,
    ListedChannel,
    Published,
    Retention,
    StagedPart,
    StreamConnection,
)
from permitflow.stream.frames import EndOutcome, JobTotal, Staging, TaskAttempt
from permitflow.wire.joined import JoinedChunks

__all__ = [
    "AioControl",
    "ChangedChannel",
    "ChannelDescription",
    "ChannelPosition",
    "ChannelState",
    "Compression",
    "EndOutcome",
    "JobTotal",
    "JoinedChunks",
    "ListedChannel",
    "Published",
    "RemoteDispatcher",
    "RemoteReceiver",
    "RemoteSender",
    "Retention",
    "SameHost",
    "Security",
    "StagedPart",
    "Staging",
    "StreamConnection",
    "TaskAttempt",
    "control",
    "describe",
    "dispatch",
    "get",
    "put",
    "require_single_places",
]

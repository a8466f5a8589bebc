"""The asyncio channel inside a process: ``sender, receiver = open_channel()``, data flow from left to right.

Both ends belong to one event loop; neither is thread-safe.  A send or receive that does not have to wait does not
yield to the loop either, as with ``asyncio.Queue``: a sender runs until the permits are spent, a receiver until the
channel is empty.
"""

import asyncio
import time
from collections.abc import Callable
from typing import TypeVar

from permitflow.channels.local_channel import LocalChannel
from permitflow.channels.local_receiver import LocalReceiver
from permitflow.channels.local_sender import LocalSender
from permitflow.errors import InvalidParametersError
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import RecorderFactory

__all__ = ["LocalReceiver", "LocalSender", "open_channel"]

T = TypeVar("T")


def open_channel(
    parameters: ChannelParameters | None = None,
    *,
    name: str = "channel",
    record: RecorderFactory | None = None,
) -> tuple[LocalSender[T], LocalReceiver[T]]:
    """Open a channel inside this process and return its two ends, (sender, receiver): data flow from left to right.

    Args:
        parameters: by default those of ``ChannelParameters()``.
        name: for error messages and statistics.
        record: opens the recorder of each end, for whoever wants to see the specification's actions.

    Raises:
        InvalidParametersError: ``parameters`` is something else.
    """
    if parameters is None:
        parameters = ChannelParameters()
    if not isinstance(parameters, ChannelParameters):
        raise InvalidParametersError(name="parameters", value=parameters, rule="must be ChannelParameters")
    channel: LocalChannel[T] = LocalChannel(parameters, name=name, record=record, clock=_clock())
    return LocalSender(channel), LocalReceiver(channel)


def _clock() -> Callable[[], float]:
    """The loop's clock where one runs, so that a simulated time is a simulated time here too."""
    try:
        loop = asyncio.get_running_loop()
    except RuntimeError:
        return time.monotonic
    # Most loops only pass the question on.
    return time.monotonic if type(loop).time is asyncio.BaseEventLoop.time else loop.time

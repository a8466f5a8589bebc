"""Permit-based back-pressure: ``sender, receiver = open_channel()``.

A permit is the right to send one row.  The sender spends permits; the receiver returns them once rows are consumed.
So a channel never holds more rows than it has permits, however slow its reader is.  This module loads the standard
library only.  ``permitflow.client``, ``permitflow.exchange`` and ``permitflow.spark`` need the packages of their
extras.
"""

from permitflow.channels.interface import ReceiveEnd, SendEnd
from permitflow.channels.local import LocalReceiver, LocalSender, open_channel
from permitflow.channels.statistics import ChannelStatistics
from permitflow.errors import (
    ChannelAbortedError,
    ChannelCancelledError,
    ChannelClosedError,
    ChannelError,
    EndOfStream,
    HandshakeError,
    InvalidParametersError,
    LocalProtocolError,
    PeerGoneError,
    PeerTimeoutError,
    PermitflowError,
    ProtocolError,
    RemoteProtocolError,
    TransportError,
    UnknownChannelError,
    UnsplittableChunkError,
    WouldBlock,
)
from permitflow.flows.messages import Kind, Message
from permitflow.flows.permits.core import ChannelParameters, Oversize, Permits

__all__ = [
    "ChannelAbortedError",
    "ChannelCancelledError",
    "ChannelClosedError",
    "ChannelError",
    "ChannelParameters",
    "ChannelStatistics",
    "EndOfStream",
    "HandshakeError",
    "InvalidParametersError",
    "Kind",
    "LocalProtocolError",
    "LocalReceiver",
    "LocalSender",
    "Message",
    "Oversize",
    "PeerGoneError",
    "PeerTimeoutError",
    "PermitflowError",
    "Permits",
    "ProtocolError",
    "ReceiveEnd",
    "RemoteProtocolError",
    "SendEnd",
    "TransportError",
    "UnknownChannelError",
    "UnsplittableChunkError",
    "WouldBlock",
    "open_channel",
]

"""Permit-based back-pressure: ``sender, receiver = open_channel()``.

A permit is the right to send one row.  The sender spends permits; the receiver returns them once rows are consumed.
So a channel never holds more rows than it has permits, however slow its reader is, unless it may send larger chunks
whole (``Oversize.WHOLE``).  This module loads the standard
library only.  ``permitflow.client``, ``permitflow.exchange`` and ``permitflow.spark`` need the packages of their
extras.
"""

from typing import TYPE_CHECKING

from permitflow.channels.interface import ReceiveEnd, SendEnd
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
from permitflow.flows.permits.parameters import ChannelParameters, Oversize, Permits
from permitflow.flows.recording import RecorderFactory
from permitflow.flows.seam import Parameters
from permitflow.opening import opening

if TYPE_CHECKING:
    from permitflow.channels.gate import AlignedBarrier, GateChunk, GateStatistics, InputGate, MergedWatermark
    from permitflow.channels.local import LocalReceiver, LocalSender, open_channel
    from permitflow.flows.demand.core import Demand
    from permitflow.flows.gate.core import GateParameters
    from permitflow.flows.squelch.core import SquelchParameters

__all__ = [
    "AlignedBarrier",
    "ChannelAbortedError",
    "ChannelCancelledError",
    "ChannelClosedError",
    "ChannelError",
    "ChannelParameters",
    "ChannelStatistics",
    "Demand",
    "EndOfStream",
    "GateChunk",
    "GateParameters",
    "GateStatistics",
    "HandshakeError",
    "InputGate",
    "InvalidParametersError",
    "Kind",
    "LocalProtocolError",
    "LocalReceiver",
    "LocalSender",
    "MergedWatermark",
    "Message",
    "Oversize",
    "Parameters",
    "PeerGoneError",
    "PeerTimeoutError",
    "PermitflowError",
    "Permits",
    "ProtocolError",
    "ReceiveEnd",
    "RecorderFactory",
    "RemoteProtocolError",
    "SendEnd",
    "SquelchParameters",
    "TransportError",
    "UnknownChannelError",
    "UnsplittableChunkError",
    "WouldBlock",
    "open_channel",
]

_ON_FIRST_USE = {
    "channels.gate": ("AlignedBarrier", "GateChunk", "GateStatistics", "InputGate", "MergedWatermark"),
    "channels.local": ("LocalReceiver", "LocalSender", "open_channel"),
    "flows.demand.core": ("Demand",),
    "flows.gate.core": ("GateParameters",),
    "flows.squelch.core": ("SquelchParameters",),
}

if not TYPE_CHECKING:
    __getattr__ = opening(__name__, _ON_FIRST_USE)

"""What both ends of a remote stream know of it once they have agreed."""

from functools import cached_property
from typing import Generic, TypeVar

import pyarrow as pa

from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.session import DownstreamSession, UpstreamSession
from permitflow.transports.arrow import BatchCodec
from permitflow.transports.same_host import SHARED_MEMORY, HostCarrier

__all__ = ["RemoteFacts"]

S = TypeVar("S", bound=UpstreamSession[object] | DownstreamSession[object])


class RemoteFacts(Generic[S]):
    """One end of a stream, as its users may ask about it."""

    def __init__(self, session: S, carrier: HostCarrier) -> None:
        """Nothing is known before the agreement."""
        self._session = session
        self._carrier = carrier
        self._batches: BatchCodec | None = None

    @property
    def name(self) -> str:
        """The channel's name."""
        return self._session.channel

    @property
    def stream(self) -> str:
        """The name of this stream, which both of its ends know."""
        return self._session.agreement.stream

    # These two are asked for with every chunk; once they are known they answer without a call.

    @cached_property
    def parameters(self) -> ChannelParameters:
        """What both ends agreed on."""
        return self._session.parameters

    @property
    def first_row(self) -> int | None:
        """Of a channel that keeps its rows: as ``Agreement.first_row``."""
        return self._session.agreement.first_row

    @property
    def schema(self) -> pa.Schema:
        """The schema of the chunks."""
        return self._codec.schema

    @property
    def shares_memory(self) -> bool:
        """Does what is received lie in memory that the peer has, too?"""
        return self._carrier.meeting.path == SHARED_MEMORY

    @cached_property
    def _codec(self) -> BatchCodec:
        assert self._batches is not None, "the session has refused everything that comes before the agreement"
        return self._batches

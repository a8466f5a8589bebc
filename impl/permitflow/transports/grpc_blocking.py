"""The exchange for callers without an event loop: Spark's workers, scripts, threads.

Both ends drive the sessions that the asyncio transport drives.  Every wait ends after ``timeout_seconds`` without any
sign of progress, with an error that names the channel, the address and the likely cause; a peer that vanishes is
noticed within seconds, whatever the time-out.  One thread at a time may use an end.

gRPC must not be loaded before a fork whose child will use it: import this module in the child.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pyarrow as pa

from permitflow.protocol.frames import Address, Get, Put, StatedParameters
from permitflow.protocol.handshake import PROTOCOL_VERSION
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import RecorderFactory
from permitflow.transports.blocking_sink import BlockingSink
from permitflow.transports.blocking_source import BlockingSource
from permitflow.transports.shared_memory.meeting import Offer
from permitflow.transports.shared_memory.policy import SameHost

__all__ = ["BlockingSink", "BlockingSource", "ChannelFacts", "SameHost", "open_sink", "open_source", "probe"]

DEFAULT_TIMEOUT_SECONDS = 60.0


class ChannelFacts(NamedTuple):
    """What the exchange tells about a channel."""

    schema: pa.Schema
    parameters: ChannelParameters


def open_source(
    address: str,
    channel: str,
    *,
    wanted: ChannelParameters | None = None,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    record: RecorderFactory | None = None,
    same_host: SameHost = SameHost.AUTO,
) -> BlockingSource:
    """Read a channel of the exchange at ``address``; waits until the channel's schema is known.

    Args:
        wanted: parameters to ask for; the exchange grants the smaller window.
        timeout_seconds: the longest wait for the exchange, and for each chunk.
        same_host: whether to share memory with an exchange on this host.

    Raises:
        InvalidParametersError: ``timeout_seconds`` is not above 0.
        UnknownChannelError: the exchange has no such channel.
        ChannelBusyError: somebody else reads it.
        SameHostError: memory was to be shared, and cannot be.
        HandshakeError: the two ends cannot agree.
        PeerTimeoutError: no agreement in time.
        PeerGoneError: nobody answers at ``address``, or the channel has been read before.
    """
    with _offering(same_host, writes=False, address=address) as offer:
        get = Get(PROTOCOL_VERSION, Address(channel), StatedParameters.of(wanted), same_host=offer.frame)
        source = BlockingSource(address, get, timeout_seconds, record, offer)
    source.open("the channel has no schema until its first producer dials: is there one?")
    return source


def probe(address: str, channel: str, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> ChannelFacts:
    """Ask for a channel's schema and parameters; its data stay where they are.

    Raises:
        As ``open_source``.
    """
    get = Get(PROTOCOL_VERSION, Address(channel), StatedParameters(), probe=True)
    with BlockingSource(address, get, timeout_seconds, None) as source:
        source.open("the channel has no schema until its first producer dials: is there one?")
        return ChannelFacts(source.schema, source.parameters)


def open_sink(
    address: str,
    channel: str,
    schema: pa.Schema,
    *,
    wanted: ChannelParameters | None = None,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    record: RecorderFactory | None = None,
    same_host: SameHost = SameHost.AUTO,
) -> BlockingSink:
    """Feed a channel of the exchange at ``address`` with batches of ``schema``.

    Args:
        wanted: parameters to ask for; the exchange grants the smaller window.
        timeout_seconds: the longest wait for the exchange, and for each permit.
        same_host: whether to share memory with an exchange on this host.

    Raises:
        InvalidParametersError: ``timeout_seconds`` is not above 0.
        UnknownChannelError: the exchange has no such channel.
        SchemaMismatchError: the channel has another schema.
        SameHostError: memory was to be shared, and cannot be.
        HandshakeError: the two ends cannot agree.
        PeerTimeoutError: no agreement in time.
        PeerGoneError: nobody answers at ``address``, or the channel has ended.
    """
    stated, encoded = StatedParameters.of(wanted), schema.serialize().to_pybytes()
    with _offering(same_host, writes=True, address=address) as offer:
        put = Put(PROTOCOL_VERSION, Address(channel), stated, encoded, offer.frame)
        sink = BlockingSink(address, put, timeout_seconds, record, offer)
    sink.open("the exchange does not answer: is it overloaded?")
    return sink


@contextmanager
def _offering(policy: SameHost, *, writes: bool, address: str) -> Iterator[Offer]:
    """An offer for whoever dials in the block, and then owns it."""
    offer = Offer(policy, writes=writes, who=f"the exchange at {address}")
    try:
        yield offer
    except BaseException:
        offer.close()
        raise

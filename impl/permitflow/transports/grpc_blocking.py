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

from permitflow.protocol.compression import Compression, offered
from permitflow.protocol.flow import Parameters
from permitflow.protocol.frames import EndOutcome, Get, Put, Staging
from permitflow.protocol.handshake import PROTOCOL_VERSION, stated
from permitflow.protocol.recording import RecorderFactory
from permitflow.transports.arrow_compression import available_codecs
from permitflow.transports.blocking_control import BlockingControl
from permitflow.transports.blocking_ends import BlockingSink, BlockingSource
from permitflow.transports.diagnosis import why_no_schema
from permitflow.transports.joined import JoinedChunks
from permitflow.transports.shared_memory import SameHost
from permitflow.transports.shared_memory.handover import Offer

__all__ = [
    "BlockingControl",
    "BlockingSink",
    "BlockingSource",
    "ChannelFacts",
    "Compression",
    "EndOutcome",
    "JoinedChunks",
    "SameHost",
    "control",
    "open_sink",
    "open_source",
    "probe",
]

DEFAULT_TIMEOUT_SECONDS = 60.0


class ChannelFacts(NamedTuple):
    """What the exchange tells about a channel."""

    schema: pa.Schema
    parameters: Parameters


def open_source(
    address: str,
    channel: str,
    *,
    wanted: Parameters | None = None,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    record: RecorderFactory | None = None,
    same_host: SameHost = SameHost.AUTO,
    compression: Compression = Compression.AUTO,
    consumer: str = "",
    from_row: int | None = None,
    to_row: int | None = None,
    log_id: str = "",
) -> BlockingSource:
    """Read a channel of the exchange at ``address``; waits until the channel's schema is known.

    A channel that keeps its rows can be read by ranges, as often as is wanted: reading acknowledges nothing.

    Args:
        wanted: parameters to ask for; the exchange grants the smaller window.
        timeout_seconds: the longest wait for the exchange, and for each chunk.
        same_host: whether to share memory with an exchange on this host.
        compression: of chunks on their way, for slow networks, if the exchange agrees; ``auto``: if it asks for it.
            Nothing is compressed where memory is shared.
        consumer: of a channel that keeps its rows: whose reading this is; empty: that of the consumer ``default``.
        from_row: the first row that is wanted; None: the first one that the consumer has not acknowledged.
        to_row: the first row that is not wanted any more; None: all that will ever come.
        log_id: the log in which these rows were counted, as in ``ChannelPosition``; empty: whichever there is.

    Raises:
        InvalidParametersError: ``timeout_seconds`` is not above 0, the range is none, or this end cannot compress like
            that.
        UnknownChannelError: the exchange has no such channel.
        ChannelBusyError: another consumer reads it.
        RetentionError: the channel does not keep its rows, and has neither ranges nor consumers with names.
        UnknownConsumerError: it keeps no rows for this consumer.
        RowsForgottenError: the consumer has acknowledged some of these rows.
        RowsNotThereError: some of these rows have not come.
        LogReplacedError: the rows that are meant are lost.
        SameHostError: memory was to be shared, and cannot be.
        HandshakeError: the two ends cannot agree.
        PeerTimeoutError: no agreement in time.
        PeerGoneError: nobody answers at ``address``, or the channel has been read before.
    """
    with _offering(same_host, writes=False, address=address) as offer:
        get = Get(
            PROTOCOL_VERSION,
            channel,
            same_host=offer.frame,
            from_row=from_row,
            to_row=to_row,
            consumer=consumer,
            log_id=log_id,
            compression=offered(compression, available_codecs()),
            **stated(wanted),
        )
        source = BlockingSource(address, get, timeout_seconds, record, offer)
    source.open("the channel has no schema until its first producer dials: is there one?", why_no_schema)
    return source


def probe(address: str, channel: str, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> ChannelFacts:
    """Ask for a channel's schema and parameters; its data stay where they are.

    Raises:
        As ``open_source``.
    """
    get = Get(PROTOCOL_VERSION, channel, probe=True)
    with BlockingSource(address, get, timeout_seconds, None) as source:
        source.open("the channel has no schema until its first producer dials: is there one?", why_no_schema)
        return ChannelFacts(source.schema, source.parameters)


def open_sink(
    address: str,
    channel: str,
    schema: pa.Schema,
    *,
    wanted: Parameters | None = None,
    timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS,
    record: RecorderFactory | None = None,
    same_host: SameHost = SameHost.AUTO,
    compression: Compression = Compression.AUTO,
    producer: str = "",
    staging: Staging | None = None,
) -> BlockingSink:
    """Feed a channel of the exchange at ``address`` with batches of ``schema``.

    Args:
        wanted: parameters to ask for; the exchange grants the smaller window.
        timeout_seconds: the longest wait for the exchange, and for each permit.
        same_host: whether to share memory with an exchange on this host.
        compression: of chunks on their way, for slow networks, if the exchange agrees; ``auto``: if it asks for it.
            Nothing is compressed where memory is shared.
        producer: of a channel that keeps its rows: a name of this producer's own.  One that comes again learns from
            ``first_row`` how many of its rows are kept, and sends those that follow; who still sends under this name
            is broken off.
        staging: of a channel that keeps its rows: what is sent is not to be seen before it is published.

    Raises:
        InvalidParametersError: ``timeout_seconds`` is not above 0, or this end cannot compress like that.
        UnknownChannelError: the exchange has no such channel.
        RetentionError: the channel does not keep its rows, and knows neither producers' names nor staging.
        SchemaMismatchError: the channel has another schema.
        SameHostError: memory was to be shared, and cannot be.
        HandshakeError: the two ends cannot agree.
        PeerTimeoutError: no agreement in time.
        PeerGoneError: nobody answers at ``address``, or the channel has ended.
    """
    encoded = schema.serialize().to_pybytes()
    with _offering(same_host, writes=True, address=address) as offer:
        able = offered(compression, available_codecs())
        put = Put(
            PROTOCOL_VERSION,
            channel,
            schema=encoded,
            same_host=offer.frame,
            producer=producer,
            staging=staging,
            compression=able,
            **stated(wanted),
        )
        sink = BlockingSink(address, put, timeout_seconds, record, offer)
    sink.open("it takes streams slowly: is it overloaded?")
    return sink


def control(address: str, *, timeout_seconds: float = DEFAULT_TIMEOUT_SECONDS) -> BlockingControl:
    """Ask and order about channels of the exchange at ``address`` that keep their rows; see ``BlockingControl``.

    That nobody answers there shows in the first question.

    Args:
        timeout_seconds: the longest wait for each reply.

    Raises:
        InvalidParametersError: ``timeout_seconds`` is not above 0, or this is no address.
    """
    return BlockingControl(address, timeout_seconds)


@contextmanager
def _offering(policy: SameHost, *, writes: bool, address: str) -> Iterator[Offer]:
    """An offer for the end that dials in the block, and then owns it."""
    offer = Offer(policy, writes=writes, who=f"the exchange at {address}")
    try:
        yield offer
    except BaseException:
        offer.close()
        raise

"""The exchange's clients for asyncio: ``get`` reads a channel, ``put`` feeds one, ``describe`` tells what it carries.

    async with get("localhost:5600", "orders/0") as receiver:
        async for message in receiver: ...

Consumers that read many small chunks at once ask for ``JoinedChunks``: ``await receiver.receive_joined()``.

gRPC's own flow control stays active underneath; it bounds bytes in flight, permits bound rows until they are consumed.
Reading never waits for the application, so that a slow consumer holds its permits and not the connection.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager, closing
from typing import NamedTuple, TypeVar

import pyarrow as pa

from permitflow.cancelling import cancel_all
from permitflow.carriers.connection import GET_STREAM, PUT_STREAM
from permitflow.carriers.deadlines import HANDSHAKE_SECONDS, SILENCE_SECONDS
from permitflow.carriers.same_host import Offer, SameHost
from permitflow.carriers.security import Security
from permitflow.client.aio_control import require_single_places
from permitflow.client.finding import Timing, resume_seconds_of, wherever
from permitflow.client.remote_receiver import RemoteReceiver
from permitflow.client.remote_sender import RemoteSender, left_by
from permitflow.errors import InvalidParametersError, PeerGoneError, PeerTimeoutError, PermitflowError, ProtocolError
from permitflow.flows.adaptive_window import require_latency
from permitflow.flows.byte_window import require_byte_window
from permitflow.flows.recording import RecorderFactory
from permitflow.flows.seam import Group, Parameters
from permitflow.stream.compression import Compression, offered
from permitflow.stream.frames import Get, JobTotal, Put, Staging, TaskAttempt
from permitflow.stream.handshake import PROTOCOL_VERSION, stated
from permitflow.stream.session import DownstreamSession, UpstreamSession
from permitflow.wire.arrow_compression import available_codecs

# For the last messages of a stream: long enough for a slow network or a busy machine, since without them its peers
# take this end for lost; and, if the block fails, short enough for a user at a prompt.
_LINGER_SECONDS, _LINGER_AFTER_ERROR_SECONDS = 30.0, 2.0
E = TypeVar("E", RemoteReceiver, RemoteSender)


class ChannelDescription(NamedTuple):
    """A channel's schema and parameters, as the exchange states them."""

    schema: pa.Schema
    parameters: Parameters


@asynccontextmanager
async def get(
    address: str,
    channel: str,
    *,
    wanted: Parameters | None = None,
    schema: pa.Schema | None = None,
    connect_timeout_seconds: float | None = 10.0,
    agreement_timeout_seconds: float = 60.0,
    silence_seconds: float = SILENCE_SECONDS,
    record: RecorderFactory | None = None,
    same_host: SameHost = SameHost.AUTO,
    compression: Compression = Compression.AUTO,
    consumer: str = "",
    from_row: int | None = None,
    to_row: int | None = None,
    log_id: str = "",
    columns: Sequence[str] = (),
    with_time: bool = False,
    group: Group | None = None,
    resume_seconds: float | None = None,
    security: Security | None = None,
    byte_window: int | None = None,
    target_latency_seconds: float | None = None,
) -> AsyncIterator[RemoteReceiver]:
    """Read a channel of an exchange.  Leaving the block before the end of the stream breaks the channel.

    A channel that keeps its rows does not break; any range of what it still has can be read any number of
    times, and reading acknowledges nothing.

    Args:
        address: host and port of the exchange, as in ``localhost:5600``, or ``tcp://localhost:5600`` or
            ``udp://localhost:5600`` if it serves that; or those of several exchanges, with commas between them, of
            which one has the channel: each is asked in turn, for at most ``connect_timeout_seconds``.
        channel: its name.
        wanted: the most that this end wants; by default what the exchange has.
        schema: the required schema of the chunks; by default any.
        connect_timeout_seconds: how long to wait for the connection; None: fail if no server listens there yet.
        agreement_timeout_seconds: how long to wait in all, for the connection too; a producer may bring the schema.
        silence_seconds: an exchange that gives no sign of life for longer is gone.
        record: opens the recorder of this end.
        same_host: whether to share memory with an exchange on this host.
        compression: of chunks on a slow network, if the exchange agrees; ``auto``: if the exchange asks for it.
            Nothing is compressed in shared memory.
        consumer: of a channel that keeps its rows: the consumer that reads; empty: the consumer ``default``.
        from_row: the first row to read; None: the first one that the consumer has not acknowledged.
        to_row: the row before which reading stops; None: read to the channel's end.
        log_id: the log in which these rows were counted, as in ``ChannelPosition``; empty: any.
        columns: of a channel that keeps its rows: names of those columns that are enough; none: all.  The receiver's
            schema tells which come: all, if the channel lacks one of these, or an older exchange does not choose.
        with_time: of a channel that keeps its rows: whether a last column ``_time`` says when the exchange took each
            row over, a timestamp in microseconds of UTC.  An older exchange leaves it out.
        group: of receivers that share something, such as those of a gate.
        resume_seconds: how long to wait for another connection after one was lost: the stream goes on with it where it
            stopped, without shared memory; 0: not at all.  By default 30 s, and 0 with an exchange on this host: a
            connection there ends only when one of the two processes has.
        security: TLS and a token; see ``Security``.
        byte_window: the most bytes in the stream at once, beside ``wanted``; by default what the exchange has.  A
            larger chunk passes while less than a quarter of it is out.
        target_latency_seconds: let the window adapt, so that rows wait in this stream about this long, by what this
            receiver was measured to consume; at most the agreed window.  None: the window stays.  A flow other than
            permits cannot, and a recorded stream cannot.

    Raises:
        TlsError: one of the two ends does not trust the other, or only one speaks TLS.
        UnauthenticatedError, ForbiddenError: the exchange does not know this client, or does not allow it this, or not
            any more.
        InvalidParametersError: this end does not have that codec, or the channel's flow is not that of the group.
        PeerTimeoutError: no server answers at this address, or the channel's schema did not become known.
        PeerGoneError: the exchange has gone.
        ResumeTimeoutError, ResumeRefusedError: the connection was lost, and the stream could not go on.
        SameHostError: shared memory is required, and impossible.
        HandshakeError: the exchange refused: unknown channel, busy or spent, schemas or parameters that differ.
        ReplayError: the channel keeps no rows, or not these, or none for this consumer.
    """
    _require_name(channel)
    encoded = None if schema is None else schema.serialize().to_pybytes()
    seconds = await resume_seconds_of(address, resume_seconds, same_host)
    same_host = SameHost.NEVER if resume_seconds else same_host
    timing = Timing(address, connect_timeout_seconds, agreement_timeout_seconds)

    @asynccontextmanager
    async def at(address: str) -> AsyncIterator[RemoteReceiver]:
        who = f"the exchange at {address} (channel {channel!r})"
        connecting = timing.calling(address, GET_STREAM, who, silence_seconds, seconds, security)
        async with connecting as (call, resume):
            with closing(Offer(same_host, writes=False, who=who)) as offer:
                first = Get(
                    PROTOCOL_VERSION,
                    channel,
                    schema=encoded,
                    same_host=offer.frame,
                    from_row=from_row,
                    to_row=to_row,
                    consumer=consumer,
                    log_id=log_id,
                    columns=(*columns,),
                    with_time=with_time,
                    compression=offered(compression, available_codecs()),
                    resume=resume,
                    byte_window=0 if byte_window is None else require_byte_window(byte_window),
                    **stated(wanted),
                )
                session: DownstreamSession[object] = DownstreamSession(first, peer=who, record=record, group=group)
                end = RemoteReceiver(session, call, schema=schema, offer=offer)
                if target_latency_seconds is not None:
                    end.aim_at(require_latency(target_latency_seconds))
                async with _running(end, who, timing) as receiver:
                    yield receiver

    async with timing, wherever(address, channel, timing, at) as found:
        yield found


@asynccontextmanager
async def put(
    address: str,
    channel: str,
    schema: pa.Schema,
    *,
    wanted: Parameters | None = None,
    connect_timeout_seconds: float | None = 10.0,
    agreement_timeout_seconds: float = HANDSHAKE_SECONDS,
    silence_seconds: float = SILENCE_SECONDS,
    record: RecorderFactory | None = None,
    same_host: SameHost = SameHost.AUTO,
    compression: Compression = Compression.AUTO,
    producer: str = "",
    staging: Staging | None = None,
    attempt: TaskAttempt | None = None,
    total: JobTotal | None = None,
    failed_job: str = "",
    spread_over: int = 0,
    job_channels: Sequence[str] = (),
    job_since_row: int | None = None,
    job_log_id: str = "",
    resume_seconds: float | None = None,
    security: Security | None = None,
    byte_window: int | None = None,
) -> AsyncIterator[RemoteSender]:
    """Feed a channel of an exchange.  Leaving the block without ``end`` aborts the channel.

    A named producer only disconnects then: it can reconnect and continue.  Arguments that are not listed are those of
    ``get``.

    Args:
        schema: of the chunks that will be sent.
        agreement_timeout_seconds: how long to wait in all for the exchange's answer, for the connection too.
        producer: of a channel that keeps its rows: this producer's unique name.  After a reconnect, ``first_row`` says
            how many of its rows are kept, and it sends those that follow: nothing compares rows, so each start has to
            make the same ones.  An older stream under this name is broken off.
        staging: of a channel that keeps its rows: sent rows stay invisible until they are published.
        attempt: at a task of a job: it takes the place of an earlier one that has sent no rows; if that one has, the
            exchange refuses it.  It ends with ``closes_channel=False``: any other end breaks the channel, which its job
            ends with ``total``.
        total: of a job whose tasks are done: the rows that count; the exchange compares those that it has taken.
        failed_job: to abort the channel for a job that has failed; refused if no row of that job has come into the
            channel, or the channel was reset since.
        spread_over: of a stream whose rows are spread by a key: over this many channels, of which this is one; the
            exchange refuses if the stream has more.  0: rows are not spread.
        job_channels: of a job that writes into several channels of this exchange: these, at most 1,000; the exchange
            refuses if it lacks one, before any row of the job has come.
        job_since_row: of a job that writes into a channel that keeps its rows: the channel's next row when the job was
            planned, so that an exchange that was started again takes no rows of others for the job's.  None: not known.
        job_log_id: the log in which that row is counted, as in ``ChannelPosition``; the exchange refuses if the channel
            has another one, because it was removed and added since.  Empty: not known.

    Raises:
        TlsError: one of the two ends does not trust the other, or only one speaks TLS.
        UnauthenticatedError, ForbiddenError: the exchange does not know this client, or does not allow it this, or not
            any more.
        InvalidParametersError: this end does not have that codec.
        PeerTimeoutError: no server answers at this address.
        PeerGoneError: the exchange has gone, or the channel's consumer has.
        ResumeTimeoutError, ResumeRefusedError: the connection was lost, and the stream could not go on.
        RetentionError: the channel does not keep its rows, and knows neither producers' names nor staging.
        SameHostError: shared memory is required, and impossible.
        ChannelResetError: the channel was reset, or removed and added, since the job of the attempt, of the total, or
            that failed, began; or no row of the job that failed has come there.
        TaskRetryError: another attempt at the same task may have sent rows, or is a later one.
        HandshakeError: the exchange refused: unknown channel, schemas or parameters that differ.
    """
    _require_name(channel)
    encoded = schema.serialize().to_pybytes()
    seconds = await resume_seconds_of(address, resume_seconds, same_host)
    same_host = SameHost.NEVER if resume_seconds else same_host
    timing = Timing(address, connect_timeout_seconds, agreement_timeout_seconds)

    @asynccontextmanager
    async def at(address: str) -> AsyncIterator[RemoteSender]:
        who = f"the exchange at {address} (channel {channel!r})"
        connecting = timing.calling(address, PUT_STREAM, who, silence_seconds, seconds, security)
        async with connecting as (call, resume):
            with closing(Offer(same_host, writes=True, who=who)) as offer:
                able = offered(compression, available_codecs())
                first = Put(
                    PROTOCOL_VERSION,
                    channel,
                    schema=encoded,
                    same_host=offer.frame,
                    producer=producer,
                    staging=staging,
                    attempt=attempt,
                    total=total,
                    failed_job=failed_job,
                    spread_over=spread_over,
                    job_channels=tuple(job_channels),
                    job_since_row=job_since_row,
                    job_log_id=job_log_id,
                    compression=able,
                    resume=resume,
                    byte_window=0 if byte_window is None else require_byte_window(byte_window),
                    **stated(wanted),
                )
                session: UpstreamSession[object] = UpstreamSession(first, peer=who, record=record)
                end = RemoteSender(session, call, schema=schema, offer=offer)
                async with _running(end, who, timing) as sender:
                    if producer:
                        yield sender
                        return
                    async with _aborting(sender):
                        yield sender

    async with timing, wherever(address, channel, timing, at) as found:
        yield found


@asynccontextmanager
async def _aborting(sender: RemoteSender) -> AsyncIterator[None]:
    """Abort the stream if the producer leaves without having ended it."""
    try:
        yield
    except BaseException as error:
        sender.abort(left_by(error))
        raise
    sender.leave()


async def describe(
    address: str,
    channel: str,
    *,
    connect_timeout_seconds: float | None = 10.0,
    agreement_timeout_seconds: float = 60.0,
    silence_seconds: float = SILENCE_SECONDS,
    resume_seconds: float | None = None,
    security: Security | None = None,
) -> ChannelDescription:
    """Ask for a channel's schema and parameters.  The channel keeps its data.  All arguments are those of ``get``.

    Raises:
        SecurityError: as for ``get``.
        PeerTimeoutError: no server answers at this address, or the channel's schema did not become known.
        PeerGoneError: the exchange has gone.
        UnknownChannelError: there is no such channel.
        InvalidParametersError: two of several exchanges have it.
    """
    _require_name(channel)
    seconds = await resume_seconds_of(address, resume_seconds)
    timing = Timing(address, connect_timeout_seconds, agreement_timeout_seconds)

    @asynccontextmanager
    async def at(address: str) -> AsyncIterator[ChannelDescription]:
        who = f"the exchange at {address} (channel {channel!r})"
        connecting = timing.calling(address, GET_STREAM, who, silence_seconds, seconds, security)
        async with connecting as (call, resume):
            first = Get(PROTOCOL_VERSION, channel, probe=True, resume=resume)
            session: DownstreamSession[object] = DownstreamSession(first, peer=who)
            async with _running(RemoteReceiver(session, call), who, timing) as receiver:
                async for _ in receiver:
                    raise ProtocolError(f"{who} sent data though none were asked for")
                yield ChannelDescription(receiver.schema, receiver.parameters)

    async with timing:
        await require_single_places(address, [channel], security=security)
        async with wherever(address, channel, timing, at) as found:
            return found


def _require_name(channel: str) -> None:
    if not channel:
        raise InvalidParametersError(name="channel", value=channel, rule="must not be empty")


@asynccontextmanager
async def _running(end: E, who: str, timing: Timing) -> AsyncIterator[E]:
    """Let an end run beside the block; its errors reach the block through the end's methods."""
    task = asyncio.create_task(_run_quietly(end), name=f"{end.END} of {who}")
    try:
        try:
            async with timing.limit.over_wait():
                await end.agreed()
        except PermitflowError:  # some are TimeoutErrors
            raise
        except TimeoutError:
            reason = f"no agreement within {timing.answer_seconds:g} s; has a producer announced the channel's schema?"
            raise PeerTimeoutError(who=who, reason=reason) from None
        yield end
    except BaseException:
        await _lingered(end, task, _LINGER_AFTER_ERROR_SECONDS)
        raise
    else:
        await _lingered(end, task, _LINGER_SECONDS)
        _raise_untold(end, task)
    finally:
        end.close()
        await cancel_all(task)


async def _run_quietly(end: RemoteReceiver | RemoteSender) -> PermitflowError | None:
    try:
        await end.run()
    except PermitflowError as error:
        return error
    return None


async def _lingered(
    end: RemoteReceiver | RemoteSender, task: asyncio.Task[PermitflowError | None], seconds: float
) -> None:
    """Wait until the last messages of an ended or broken stream have arrived."""
    if end.is_finished or end.is_breaking_off:
        await asyncio.wait({task}, timeout=seconds)


def _raise_untold(end: RemoteReceiver | RemoteSender, task: asyncio.Task[PermitflowError | None]) -> None:
    error = task.result() if task.done() and not task.cancelled() else None
    # A peer lost after all was consumed and compared loses nothing.
    if error is not None and not end.has_told_failure and not isinstance(error, PeerGoneError):
        raise error

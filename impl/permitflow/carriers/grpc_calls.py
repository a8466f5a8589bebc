"""One gRPC call as a carrier of messages: of an asyncio client, and of the exchange that serves it.

gRPC reads and writes only for waiting tasks: here each call has one task that reads and one that writes.  Neither is
cancelled while it waits for gRPC, which would free neither the operation nor the message that comes: they end with the
call.  Source: https://github.com/grpc/grpc/issues/43360.
"""

import asyncio
import contextlib
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from functools import partial
from typing import TypeAlias, TypeVar

import grpc

from permitflow.cancelling import is_cancelled
from permitflow.carriers.addresses import parsed
from permitflow.carriers.carrier import Carrier, Listener
from permitflow.carriers.connection import (
    HARD_METADATA_BYTES,
    HEALTH_CHECK,
    METADATA_PAIR_BYTES,
    Options,
    client_options,
    expect_large_blocks,
    refuse_after_fork,
)
from permitflow.carriers.deadlines import SILENCE_SECONDS
from permitflow.carriers.final_status import FinalStatus
from permitflow.carriers.reaching import Destination
from permitflow.carriers.security import Security
from permitflow.carriers.tls import diagnosed
from permitflow.carriers.tls_files import client_pems
from permitflow.errors import (
    HandshakeTimeoutError,
    PeerGoneError,
    PeerTimeoutError,
    PermitflowError,
    TlsError,
    TransportError,
    UndecodableDataError,
)
from permitflow.patience import Countdown, patience
from permitflow.wire.buffers import Buffer
from permitflow.wire.wire_errors import ERROR_KEY, SILENT, error_from_status, status_of, stranger_behind_grpc

_STATUS_SECONDS = 1.0
_SIGNS_PER_SILENCE = 4
_REASON_SECONDS = 1.0
# gRPC's own words for a connection that was lost, or could not be made.
_LOST = (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED)
_TOO_MANY_WAIT = "Too many pending requests"
"""Its words for a call that a server did not take, because others wait: a later one may be taken."""
_UNREACHED = "failed to connect"
_UNRESOLVED = "errors resolving"
"""Its words for a name without an address."""
_HUNG_UP = re.compile("Socket closed|Connection reset|Broken pipe")
"""These words mean that somebody has accepted the connection, and that it was lost before HTTP/2 had begun."""
_NOBODY = re.compile("Connection refused|timed out|unreachable|DNS")
"""Likewise: nobody has accepted it."""
_ALTERED = "Unwrap failed"
"""Its words for bytes that TLS cannot decrypt; the status is UNKNOWN then."""
_AUTHORIZATION, _BEARER = "authorization", "Bearer"

T = TypeVar("T")
Context: TypeAlias = grpc.aio.ServicerContext[bytes, bytes]


class _Call(Carrier, ABC):
    """A call that is under way."""

    def __init__(
        self,
        who: str,
        read: Callable[[], Awaitable[object]],
        write: Callable[[bytes], Awaitable[None]],
        close_half: Callable[[], Awaitable[None]] | None,
        silence_seconds: float,
    ) -> None:
        self._who, self._read, self._write, self._close_half = who, read, write, close_half
        self._sign_seconds = silence_seconds / _SIGNS_PER_SILENCE
        self._listener: Listener | None = None
        self._reading: asyncio.Task[None] | None = None
        self._writing: asyncio.Task[None] | None = None
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._message: bytes | None = None
        self._is_closing_half = self._is_over = False
        self._has_work = asyncio.Event()
        self._is_cut = self._is_unreached = False
        self.received_bytes = self.received_messages = 0
        """Of all messages that have come."""
        self.has_written = False

    @property
    def is_unreached(self) -> bool:
        """See ``Carrier``."""
        return self._is_unreached

    @property
    def is_cut(self) -> bool:
        """See ``Carrier``."""
        return self._is_cut

    def listen(self, listener: Listener) -> None:
        """See ``Carrier``."""
        self._listener = listener
        if self._reading is None:
            self._reading = asyncio.create_task(self._read_all(), name=f"reading from {self._who}")

    def pause(self) -> None:
        """See ``Carrier``."""
        self._may_read.clear()

    def resume(self) -> None:
        """See ``Carrier``."""
        self._may_read.set()

    async def _read_all(self) -> None:
        try:
            while isinstance(message := await self._read(), bytes):  # anything else is the end, in good order
                self.received_bytes += len(message)
                self.received_messages += 1
                if self._listener is not None:
                    self._listener.on_message(message, False)
                del message  # the next one may come late
                if not self._may_read.is_set():
                    await self._may_read.wait()
        except (Exception, asyncio.CancelledError) as error:
            await self._note(error)
        else:
            if self._listener is not None:
                self._listener.on_end()

    @property
    def sign_seconds(self) -> float:
        """See ``Carrier``: HTTP/2 ignores frames of unknown kinds, which one flipped bit can make."""
        return self._sign_seconds

    def write(self, message: Sequence[Buffer]) -> bool:
        """See ``Carrier``; gRPC never takes one at once.  A sign behind the end of this half is dropped."""
        if not self._is_closing_half:
            self.has_written = True
            self._message = b"".join(message)
            self._work()
        return False

    def half_close(self) -> None:
        """See ``Carrier``."""
        if self._close_half is not None:
            self._is_closing_half = True
            self._work()

    def _work(self) -> None:
        self._has_work.set()
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all(), name=f"writing to {self._who}")

    async def _write_all(self) -> None:
        try:
            while not self._is_over:
                if self._message is not None:
                    await self._write(self._message)
                    self._message = None
                    if self._listener is not None:
                        self._listener.on_writable()
                elif self._is_closing_half and self._close_half is not None:
                    await self._close_half()
                    return
                else:
                    self._has_work.clear()
                    await self._has_work.wait()
        except (Exception, asyncio.CancelledError) as error:
            await self._note(error)

    async def _note(self, error: BaseException) -> None:
        if self._listener is not None:  # else it is over
            self._tell(await self._reason(error))

    def _tell(self, error: Exception) -> None:
        if not isinstance(error, PermitflowError):
            error = TransportError.of(what=f"the stream with {self._who}", cause=error)
        listener = self._listener
        self._leave()
        if listener is not None:
            listener.on_error(error)

    def _leave(self) -> None:
        """Deliver and write nothing more; what still comes is read, and dropped."""
        self._listener, self._is_over = None, True
        self._may_read.set()
        self._has_work.set()

    async def stop(self) -> None:
        """See ``Carrier``."""
        self._leave()

    @abstractmethod
    async def _reason(self, error: BaseException) -> Exception:
        """Why a read or a write has failed; raises the error if this task was cancelled."""


class ServerCall(_Call):
    """A call that is being served."""

    def __init__(
        self,
        context: Context,
        who: str,
        first_within_seconds: float | None = None,
        silence_seconds: float = SILENCE_SECONDS,
    ) -> None:
        """``who`` is the peer, in words for an error; ``first_within_seconds``: its first message's deadline."""
        # The server's half closes with the status, when all is over.
        super().__init__(who, self._read_first, context.write, None, silence_seconds)
        self._context = context
        self._first_within_seconds = first_within_seconds

    async def _read_first(self) -> object:
        self._read = self._context.read
        if self._first_within_seconds is None:
            return await self._context.read()
        countdown = Countdown(self._first_within_seconds, self._on_late)
        try:
            return await self._context.read()
        finally:
            countdown.cancel()

    def _on_late(self) -> None:
        reason = f"it has not said within {self._first_within_seconds:g} s what it wants"
        self._tell(HandshakeTimeoutError(who=self._who, reason=reason))

    @property
    def is_protected(self) -> bool:
        """See ``Carrier``."""
        return b"ssl" in self._context.auth_context().get("transport_security_type", ())

    def names(self) -> tuple[str, ...]:
        """The names in the peer's certificate, which was checked: the alternative ones, and then the common one."""
        found = self._context.auth_context()
        fields = ("x509_subject_alternative_name", "x509_common_name")
        return tuple(name.decode(errors="replace") for field in fields for name in found.get(field, ()))

    def judge_metadata(self) -> None:
        """Refuse a call with more metadata than gRPC takes of a client that has acknowledged its settings.

        Raises:
            UndecodableDataError: it has.
        """
        pairs = self._context.invocation_metadata() or ()
        size_bytes = sum(len(key) + len(value) + METADATA_PAIR_BYTES for key, value in pairs)
        if size_bytes > HARD_METADATA_BYTES:
            reason = f"it has {size_bytes} bytes, and may have {HARD_METADATA_BYTES}"
            raise UndecodableDataError(what="the metadata of a call", reason=reason)

    @property
    def token(self) -> str | None:
        """What the client has shown."""
        for key, value in self._context.invocation_metadata() or ():
            if key == _AUTHORIZATION and isinstance(value, str):
                scheme, _, token = value.partition(" ")
                if scheme.lower() == _BEARER.lower():
                    return token or None
        return None

    async def _reason(self, error: BaseException) -> Exception:
        if isinstance(error, grpc.aio.BaseError):
            self._is_cut = True
            return PeerGoneError(who=self._who, reason=str(error))
        if not isinstance(error, Exception):
            raise error
        return error

    async def finish(self, error: Exception | None) -> None:
        """End the call, with success or with an error that the peer learns.

        Raises:
            AbortError: gRPC's way to end a call.
            BaseError: the status cannot reach the peer.
        """
        await self.stop()
        if error is not None:
            code, details, metadata = status_of(error)
            await self._context.abort(grpc.StatusCode[code], details, metadata)

    async def hang_up(self) -> None:
        """End the call without a word about the stream: its dialler takes the connection for lost."""
        await self.stop()
        with contextlib.suppress(grpc.aio.BaseError):
            await self._context.abort(grpc.StatusCode.UNAVAILABLE, "the connection was given up")


class ClientCall(_Call):
    """A call that was dialled."""

    def __init__(
        self,
        call: "grpc.aio.StreamStreamCall[bytes, bytes]",
        who: str,
        silence_seconds: float = SILENCE_SECONDS,
        *,
        is_protected: bool = False,
        why_not: Callable[[], Awaitable[TlsError | None]] | None = None,
    ) -> None:
        """A call that was begun.

        Args:
            call: of gRPC.
            who: the peer, in words for an error.
            silence_seconds: as for ``calling``.
            is_protected: by TLS.
            why_not: finds out whether there is no connection because of TLS.
        """
        # Unlike call.read(), an iterator continues after a crossing write: it yields the messages that have arrived,
        # and then the peer's status, for which call.read() would wait.
        super().__init__(who, partial(anext, aiter(call), None), call.write, call.done_writing, silence_seconds)
        self._call = call
        self._final = FinalStatus(call)
        self._is_protected, self._why_not = is_protected, why_not

    @property
    def is_protected(self) -> bool:
        """See ``Carrier``."""
        return self._is_protected

    @property
    def code(self) -> grpc.StatusCode | None:
        """How the call has ended, once the peer has said so."""
        return None if self._final.status is None else self._final.status.code

    async def stop(self) -> None:
        """See ``Carrier``."""
        await super().stop()
        self._call.cancel()
        # After a crossing write grpc.aio takes the call for done, and a cancellation does nothing; but gRPC keeps it
        # until its messages have been read.
        if tasks := {task for task in (self._reading, self._writing) if task is not None}:
            _, late = await asyncio.wait(tasks, timeout=_STATUS_SECONDS)
            for task in late:
                task.cancel()
            await asyncio.wait(tasks)

    async def _reason(self, error: BaseException) -> Exception:
        if isinstance(error, asyncio.CancelledError):
            # grpc.aio raises it when the call was cancelled, though nobody has cancelled the task.
            if is_cancelled():
                raise error
            self._is_cut = True
            return PeerGoneError(who=self._who, reason="the call was cancelled")
        if not isinstance(error, grpc.RpcError | asyncio.InvalidStateError):
            return TransportError.of(what=f"the stream with {self._who}", cause=error)
        if not self._call.done():
            return TransportError.of(what=f"the stream with {self._who}", cause=error)
        status = await self._final.wait()
        if status is None:
            self._is_cut = True
            return PeerGoneError(who=self._who, reason="the stream broke off while something was being written")
        if status.code is grpc.StatusCode.OK:
            return PeerGoneError(who=self._who, reason="it closed the stream before the end")
        # A server that knows why has said so by a typed error.
        is_told = any(key == ERROR_KEY for key, _ in status.metadata)
        if not is_told and _ALTERED in status.details:
            self._is_cut = True
            return PeerGoneError(who=self._who, reason=f"what came over TLS was altered on its way ({status.details})")
        if not is_told and status.details.startswith(_TOO_MANY_WAIT):
            self._is_cut = True
            return PeerGoneError(who=self._who, reason=f"it had no time for another call ({status.details})")
        is_lost = status.code in _LOST and not is_told
        if (
            is_lost
            and self._why_not is not None
            and status.details.startswith(_UNREACHED)
            and not _NOBODY.search(status.details)
            and (refusal := await self._why_not()) is not None
        ):
            return refusal
        self._is_cut = is_lost
        was_not_made = status.details.startswith((_UNREACHED, _UNRESOLVED))
        self._is_unreached = was_not_made and not _HUNG_UP.search(status.details)
        return error_from_status(status.code.name, status.details, status.metadata, who=self._who)


@contextlib.asynccontextmanager
async def calling(to: Destination) -> AsyncIterator[ClientCall]:
    """As ``carriers.calling``, for an address as gRPC takes it."""
    address, method, who, timeout_seconds, silence_seconds, security, retries = to
    refuse_after_fork(address)
    expect_large_blocks()
    why_not = partial(diagnosed, address, security, who=who, seconds=_REASON_SECONDS)
    metadata = authorization(address, security)
    async with new_channel(address, client_options(silence_seconds), security) as channel:
        try:
            if timeout_seconds is not None:
                async with patience(timeout_seconds):
                    is_ready = await _connected(channel, why_not, retries=retries)
                if not is_ready:
                    raise PeerGoneError(who=who, reason=await _why_not(channel))
        except TimeoutError:
            reason = f"no connection within {timeout_seconds:g} s; {await _why_not(channel)}"
            raise PeerTimeoutError(who=who, reason=reason) from None
        is_protected = security is not None and security.ca is not None
        made: grpc.aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(method)(metadata=metadata)
        call = ClientCall(made, who, silence_seconds, is_protected=is_protected, why_not=why_not)
        try:
            yield call
        finally:
            await call.stop()


def new_channel(address: str, options: Options, security: Security | None) -> grpc.aio.Channel:
    """A channel of gRPC, with TLS if there is a CA.

    Raises:
        InvalidParametersError: a file of ``security`` cannot be used.
    """
    if security is None or security.ca is None:
        return grpc.aio.insecure_channel(address, options=options)
    return grpc.aio.secure_channel(address, credentials(security), options=(*options, *named(security)))


def credentials(security: Security) -> grpc.ChannelCredentials:
    """What gRPC's TLS needs.

    Raises:
        InvalidParametersError: a file of ``security`` cannot be used.
    """
    return grpc.ssl_channel_credentials(*client_pems(security).current())


def named(security: Security) -> tuple[tuple[str, str], ...]:
    """gRPC's options for a certificate that has another name than the address."""
    name = security.server_name
    return (("grpc.ssl_target_name_override", name), ("grpc.default_authority", name)) if name else ()


def authorization(address: str, security: Security | None) -> tuple[tuple[str, str], ...]:
    """The metadata of a call that say who calls.

    Raises:
        InvalidParametersError: the token cannot be read.
    """
    token = None if security is None else security.token_for(parsed(address))
    return () if token is None else ((_AUTHORIZATION, f"{_BEARER} {token}"),)


async def _connected(
    channel: grpc.aio.Channel, why_not: Callable[[], Awaitable[TlsError | None]], *, retries: bool
) -> bool:
    """Wait for a connection; False: an attempt has failed, and there is not to be another one.

    Raises:
        TlsError: waiting is useless.
    """
    has_asked = False
    while (state := channel.get_state(try_to_connect=True)) is not grpc.ChannelConnectivity.READY:
        if state is grpc.ChannelConnectivity.TRANSIENT_FAILURE and not has_asked:
            has_asked = True
            if (refusal := await why_not()) is not None:
                raise refusal
            if not retries:
                return False
        await channel.wait_for_state_change(state)
    return True


async def _why_not(channel: grpc.aio.Channel) -> str:
    """Why there is no connection: gRPC reports it to a call that does not wait for one."""
    ask: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(HEALTH_CHECK)
    try:
        await ask(b"", timeout=_REASON_SECONDS)
    except grpc.aio.AioRpcError as error:
        details = error.details() or ""
        if words := stranger_behind_grpc(details):
            return f"{details}{words}"
    return SILENT

"""The server of an exchange: over gRPC, or over TCP or UDP with the same handshake, frames and errors."""

import asyncio
import logging
import socket
import ssl
from abc import ABC, abstractmethod
from collections.abc import Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, NamedTuple, Self
from urllib.parse import unquote

import grpc

from permitflow.carriers.accepting import accepted, place
from permitflow.carriers.addresses import Address, Scheme, parsed, written
from permitflow.carriers.byte_stream import ByteStream, last_word
from permitflow.carriers.carrier import Conversation
from permitflow.carriers.connection import CONTROL, SERVICE, expect_large_blocks, server_options
from permitflow.carriers.datagrams.link_pipe import LinkPipe
from permitflow.carriers.datagrams.udp import SocketName, UdpAcceptor, UdpStream
from permitflow.carriers.deadlines import HANDSHAKE_SECONDS, RESUME_SECONDS, SILENCE_SECONDS, require_seconds
from permitflow.carriers.grpc_calls import Context, ServerCall
from permitflow.carriers.grpc_connections import GrpcConnections, sockets
from permitflow.carriers.resuming import ConnectionGivenUp
from permitflow.carriers.security import NEEDS_TLS, Security, is_safe
from permitflow.carriers.tcp import TcpStream
from permitflow.carriers.tls import TlsPipe, speaks_no_tls
from permitflow.carriers.tls_files import FromFiles, Pems, server_context, server_pems
from permitflow.errors import (
    InvalidParametersError,
    LimitReachedError,
    PeerGoneError,
    PermitflowError,
    SecurityError,
    TlsError,
    TransportError,
    UndecodableDataError,
)
from permitflow.exchange.access import ANYBODY, Access, AccessControl
from permitflow.exchange.admission import MOST_REFUSED, Attempt, Slot
from permitflow.exchange.grpc_peers import GrpcPeers
from permitflow.exchange.health import HEALTH, Answer, HealthService
from permitflow.exchange.reception import Reception
from permitflow.exchange.registry import Exchange
from permitflow.exchange.serving import METHODS
from permitflow.lasting import lasting_task
from permitflow.opening import require_extra
from permitflow.wire.wire_errors import forget_frames

_log = logging.getLogger(__name__)

# Time for peers to receive the error that the exchange stops.
_FAREWELL_SECONDS = 2.0
_BETWEEN_CANCELS_SECONDS = 0.2
_BACKLOG = 128
_OWN_FAULT = "a stream with %s failed for a reason that is not the peer's"


class _Terms(NamedTuple):
    """Whom a listener serves, and how; see ``ExchangeServer``."""

    reception: Reception
    address: str
    handshake_seconds: float
    silence_seconds: float
    security: Security
    access: AccessControl | None
    reflection: bool


class _GrpcListener:
    """A gRPC server."""

    def __init__(self, terms: _Terms) -> None:
        self._terms, self._reception = terms, terms.reception
        self._pems = None if terms.security.certificate is None else server_pems(terms.security)
        self._address = ""
        self._server: grpc.aio.Server | None = None
        self._health = HealthService(terms.reception.exchange.readiness)
        self._following: asyncio.Task[None] | None = None
        self._watching: asyncio.Task[None] | None = None

    @property
    def address(self) -> str:
        return self._address

    async def start(self) -> None:
        expect_large_blocks()
        most = self._reception.exchange.admission.limits.max_connections
        server = grpc.aio.server(
            options=server_options(self._terms.handshake_seconds, self._terms.silence_seconds, most)
        )
        if self._terms.reflection:
            require_extra("reflection", "grpc_reflection")
            from grpc_reflection.v1alpha import reflection

            import permitflow.wire.v1.exchange_pb2  # noqa: F401 - registers the service's definition

            reflection.enable_server_reflection((SERVICE, HEALTH, reflection.SERVICE_NAME), server)
        others = {*sockets()}
        try:  # last: gRPC keeps the port of a server that never starts
            port = (
                server.add_insecure_port(self._terms.address)
                if self._pems is None
                else server.add_secure_port(self._terms.address, _server_credentials(self._pems))
            )
        except RuntimeError as error:
            cause = _why_not(parsed(self._terms.address, least_port=0)) or error
            raise TransportError.of(what=f"cannot listen at {self._terms.address}", cause=cause) from cause
        admission = self._reception.exchange.admission
        peers = GrpcPeers(admission, GrpcConnections(port, {*sockets()} - others), self._terms.handshake_seconds)
        handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            method.rpartition("/")[2]: grpc.stream_stream_rpc_method_handler(partial(self._serve, peers, method))
            for method in METHODS
        }
        # As streams, too: gRPC itself would wait for a request without end, and keep it however long it gets.
        answers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
            name: grpc.stream_stream_rpc_method_handler(partial(self._answer, peers, answer))
            for name, answer in self._health.methods.items()
        }
        server.add_generic_rpc_handlers(
            (
                grpc.method_handlers_generic_handler(SERVICE, handlers),
                grpc.method_handlers_generic_handler(HEALTH, answers),
            )
        )
        await server.start()
        self._watching = lasting_task(peers.follow(), name="connections of gRPC")
        self._following = lasting_task(self._reception.exchange.readiness.follow(), name="health of the exchange")
        self._server = server
        self._address = f"{self._terms.address.rpartition(':')[0]}:{port}"

    async def stop(self, grace_seconds: float) -> None:
        server = self._server
        if server is None:
            return
        self._reception.refuse()
        async with asyncio.TaskGroup() as group:
            stopped = group.create_task(server.stop(grace_seconds + _FAREWELL_SECONDS))
            await asyncio.wait({stopped}, timeout=grace_seconds)
            self._reception.stop()
        await self._reception.close()
        if tasks := {task for task in (self._following, self._watching) if task is not None}:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)
        self._server = None  # only now: a stop that was cancelled is repeated

    async def _serve(self, peers: GrpcPeers, method: str, _requests: object, context: Context) -> None:
        peer = _peer_of(context)
        # A control client may be idle.
        within_seconds = None if method == CONTROL else self._terms.handshake_seconds
        call = ServerCall(context, f"the client at {peer}", within_seconds, self._terms.silence_seconds)
        with peers.call(peer, call, is_stream=method != CONTROL) as begin:
            if await self._has_too_long_headers(peers, peer, call):
                return
            # Otherwise they leave with the first message, and block the status while it is under way.
            await context.send_initial_metadata(())
            try:
                access = _admitted(self._terms.access, call.token, call.names)
                await self._reception.serve(method, call, peer=peer, access=access, on_begun=lambda _: begin())
                await call.finish(None)
            except ConnectionGivenUp:
                await call.hang_up()
            except PermitflowError as error:
                _note(error, peer)
                forget_frames(error)
                await self._tell(call, error)
            except Exception as error:
                _log.exception(_OWN_FAULT, peer)
                await self._tell(call, error)
            finally:
                await call.stop()

    async def _answer(self, peers: GrpcPeers, answer: Answer, _requests: object, context: Context) -> None:
        """Serve a call of the health service."""
        peer = _peer_of(context)
        call = ServerCall(context, f"the client at {peer}", self._terms.handshake_seconds, self._terms.silence_seconds)
        try:
            with peers.call(peer, call):
                if await self._has_too_long_headers(peers, peer, call):
                    return
                request = bytes(await Conversation(call).read() or b"")
            await answer(request, context)  # which may take long, and the client says nothing else
        except PermitflowError as error:
            await self._tell(call, error)
        finally:
            await call.stop()

    async def _has_too_long_headers(self, peers: GrpcPeers, peer: str, call: ServerCall) -> bool:
        """If so, the client is told, or its connection is ended."""
        try:
            call.judge_metadata()
        except UndecodableDataError as error:
            peers.note_excess(peer)
            await self._tell(call, error)
            return True
        return False

    async def _tell(self, call: ServerCall, error: Exception) -> None:
        try:
            await call.finish(error)
        except grpc.aio.AbortError:
            raise
        except grpc.aio.BaseError as lost:
            _log.info("a client could not be told: %s (%s)", error, lost)


def _peer_of(context: Context) -> str:
    """The address of a call's peer, in which gRPC writes brackets as in a URL."""
    return unquote(context.peer())


def _listening(address: Address) -> socket.socket:
    family, name = place(address.host, address.port, socket.SOCK_STREAM)
    return socket.create_server(name, family=family, backlog=_BACKLOG)


def _why_not(address: Address) -> OSError | None:
    """Why nobody can listen there, which gRPC does not say; None: one can."""
    try:
        _listening(address).close()
    except OSError as error:
        return error
    return None


def _note(error: PermitflowError, peer: str) -> None:
    if isinstance(error, SecurityError):
        _log.info("the client at %s was refused: %s", peer, error)
    elif not error.status:  # it crosses the wire without its type
        _log.error(_OWN_FAULT, peer, exc_info=error)


def _no_names() -> tuple[str, ...]:
    return ()


def _admitted(control: AccessControl | None, token: str | None, names: Callable[[], tuple[str, ...]]) -> Access:
    """What a client may do.

    Raises:
        UnauthenticatedError: it is unknown.
    """
    return ANYBODY if control is None else control.admit(token, names())


def _server_credentials(pems: FromFiles[Pems]) -> grpc.ServerCredentials:
    """What gRPC's TLS needs; it asks for it at each handshake."""
    used: Pems | None = None

    def fetched() -> Any:  # None: as before
        nonlocal used
        current = pems.current()
        if current is used:
            return None
        used = current
        pair = current.key or b"", current.certificate or b""
        return grpc.ssl_server_certificate_configuration([pair], root_certificates=current.ca)

    needs_client = pems.current().ca is not None
    return grpc.dynamic_ssl_server_credentials(fetched(), fetched, require_client_authentication=needs_client)


class _StreamListener(ABC):
    """Accepts connections that carry one stream each, and runs a task for each."""

    def __init__(self, terms: _Terms) -> None:
        self._terms, self._reception = terms, terms.reception
        self._address = parsed(terms.address, least_port=0)
        self._is_listening = False
        self._refusing = asyncio.Event()
        self._streams: set[asyncio.Task[None]] = set()

    @property
    def address(self) -> str:
        return written(self._address)

    async def start(self) -> None:
        try:
            port = self._listen(self._address)
        except OSError as error:
            raise TransportError.of(what=f"cannot listen at {self.address}", cause=error) from error
        self._address = self._address._replace(port=port)
        self._is_listening = True

    @abstractmethod
    def _listen(self, address: Address) -> int:
        """Listen, and serve each client that comes; return the port."""

    @abstractmethod
    async def _refuse_all(self) -> None:
        """Accept no more connections."""

    @abstractmethod
    async def _release(self) -> None:
        """All streams are over: keep no socket."""

    async def stop(self, grace_seconds: float) -> None:
        if not self._is_listening:
            return
        await self._refuse_all()
        self._refusing.set()
        self._reception.refuse()
        await self._until_over(grace_seconds)
        self._reception.stop()
        await self._until_over(_FAREWELL_SECONDS)
        while self._streams:
            # Repeat, because an error at the same moment may hide the cancellation: the stream then writes that error
            # to the peer first, and a peer that does not read could delay the stop for ever.
            for stream in self._streams:
                stream.cancel()
            await self._until_over(_BETWEEN_CANCELS_SECONDS)
        await self._reception.close()
        await self._release()
        self._is_listening = False  # only now: a stop that was cancelled is repeated

    async def _until_over(self, timeout_seconds: float) -> None:
        if self._streams:
            await asyncio.wait(self._streams, timeout=timeout_seconds)

    def _begin(self, new_stream: Callable[..., ByteStream], name: Sequence[object]) -> bool:
        """Serve a new connection; ``name`` is the peer's address.  False: it gets not even a refusal."""
        peer = self._peer(name)

        async def serve(attempt: Attempt, refusal: LimitReachedError | None) -> None:
            await self._serve(self._stream(new_stream, peer), peer, attempt, refusal)

        return self._hold(peer, serve, lambda: self._stream(new_stream, peer).close())

    def _peer(self, name: Sequence[object]) -> str:
        host = f"[{name[0]}]" if ":" in str(name[0]) else name[0]
        return f"{self._address.scheme.removesuffix('//')}{host}:{name[1]}"

    def _stream(self, new_stream: Callable[..., ByteStream], peer: str) -> ByteStream:
        return new_stream(
            who=f"the client at {peer}",
            is_acceptor=True,
            handshake_seconds=self._terms.handshake_seconds,
            silence_seconds=self._terms.silence_seconds,
        )

    def _hold(
        self,
        peer: str,
        serve: Callable[[Attempt, LimitReachedError | None], Coroutine[object, object, None]],
        close: Callable[[], None],
    ) -> bool:
        attempt = self._reception.exchange.admission.attempt(peer)
        if attempt.seconds > self._terms.handshake_seconds:
            attempt.is_not_heard()
            return False
        place, refusal = self._place(peer)
        if place is None:
            return False

        async def served() -> None:
            if attempt.seconds > 0:
                try:
                    with suppress(TimeoutError):
                        async with asyncio.timeout(attempt.seconds):
                            await self._refusing.wait()
                except asyncio.CancelledError:
                    close()
                    raise
            await serve(attempt, refusal)

        serving = asyncio.create_task(served())
        self._streams.add(serving)
        serving.add_done_callback(self._streams.discard)
        serving.add_done_callback(lambda _: place.leave())
        return True

    def _place(self, peer: str) -> tuple[Slot | None, LimitReachedError | None]:
        """The place of a connection, or the reason why it is refused."""
        admission = self._reception.exchange.admission
        try:
            return admission.connection(peer), None
        except LimitReachedError as error:
            return admission.refusal(), error

    async def _serve(
        self,
        stream: ByteStream,
        peer: str,
        attempt: Attempt,
        refusal: LimitReachedError | None,
        names: Callable[[], tuple[str, ...]] = _no_names,
    ) -> None:
        try:
            if refusal is None:
                method = await self._called(stream, peer)
                access = _admitted(self._terms.access, stream.token, names)
                begun = attempt.has_become_stream
                await self._reception.serve(method, stream, peer=peer, access=access, on_begun=begun)
            await stream.finish(refusal)
        except ConnectionGivenUp:
            attempt.has_failed()
        except PermitflowError as error:
            attempt.has_failed()
            _note(error, peer)
            forget_frames(error)
            await stream.finish(error)
        except Exception as error:
            _log.exception(_OWN_FAULT, peer)
            await stream.finish(error)
        finally:
            stream.close()

    async def _called(self, stream: ByteStream, peer: str) -> str:
        try:
            with self._reception.exchange.admission.handshake(peer, stream.fail):
                return await stream.method()
        except PeerGoneError:
            if stream.is_cut:
                raise ConnectionGivenUp from None  # as ``Reception`` does before the first message
            raise


class _TcpListener(_StreamListener):
    """A listening socket."""

    _socket: socket.socket
    _accepting: asyncio.Task[None]
    _tls: FromFiles[ssl.SSLContext] | None

    def _listen(self, address: Address) -> int:
        self._tls = None if self._terms.security.certificate is None else server_context(self._terms.security)
        self._socket = _listening(address)
        self._socket.setblocking(False)
        self._accepting = lasting_task(self._accept(), name=f"accepting at {self.address}")
        return int(self._socket.getsockname()[1])

    async def _accept(self) -> None:
        def complain(reason: str) -> None:
            _log.error("nobody can connect to %s now: %s", self.address, reason)

        async for connection, name in accepted(self._socket, complain, lambda: self._streams):
            end: socket.socket | TlsPipe = connection
            try:
                if self._tls is None:
                    is_begun = self._begin(partial(TcpStream, connection), name)
                else:
                    end, peer = TlsPipe(connection, self._tls.current(), server_name=None), self._peer(name)
                    is_begun = self._hold(peer, partial(self._serve_protected, end, peer), end.close)
            except OSError:  # the client has gone already
                is_begun = False
            if not is_begun:
                end.close()

    async def _serve_protected(
        self, pipe: TlsPipe, peer: str, attempt: Attempt, refusal: LimitReachedError | None
    ) -> None:
        now = asyncio.get_running_loop().time
        try:
            async with asyncio.timeout(self._terms.handshake_seconds) as deadline:
                with self._reception.exchange.admission.handshake(peer, lambda _: deadline.reschedule(now())):
                    await pipe.handshake()
        except (OSError, TimeoutError) as error:
            _log.info("no TLS with the client at %s: %s", peer, str(error) or "it was silent")
            words = TlsError(who="the exchange", reason=NEEDS_TLS)
            await pipe.farewell(last_word(words) if speaks_no_tls(error) else b"")
            return
        except BaseException:
            pipe.close()
            raise
        await self._serve(self._stream(partial(TcpStream, pipe), peer), peer, attempt, refusal, pipe.names)

    async def _refuse_all(self) -> None:
        self._accepting.cancel()
        await asyncio.wait({self._accepting})
        self._socket.close()  # from now on, the kernel refuses them

    async def _release(self) -> None:
        """Each stream has released its own."""


class _UdpListener(_StreamListener):
    """A socket for the datagrams of all clients."""

    _acceptor: UdpAcceptor

    def _listen(self, address: Address) -> int:
        admission = self._reception.exchange.admission
        most = admission.limits.max_connections + MOST_REFUSED
        dropped = admission.dropped_packets
        self._acceptor = UdpAcceptor(address, self._on_connection, most_connections=most, dropped=dropped)
        return self._acceptor.port

    def _on_connection(self, pipe: LinkPipe, name: SocketName) -> None:
        if not self._begin(partial(UdpStream, pipe), name):
            pipe.abandon()

    async def _refuse_all(self) -> None:
        self._acceptor.refuse_all()

    async def _release(self) -> None:
        await self._acceptor.close()


_LISTENERS: Mapping[Scheme, Callable[[_Terms], _GrpcListener | _StreamListener]] = {
    Scheme.GRPC: _GrpcListener,
    Scheme.TCP: _TcpListener,
    Scheme.UDP: _UdpListener,
}


_PLAIN = Security()


def _require_safe(address: Address, security: Security) -> None:
    """Refuse to listen where other hosts could read, write and administer everything."""
    if security.insecure or is_safe(address, security):
        return
    answer = (
        "take gRPC or TCP with TLS"
        if address.scheme is Scheme.UDP
        else "give a certificate and its key (--tls-cert, --tls-key)"
    )
    rule = (
        f"must be on the loopback, as 127.0.0.1, because other hosts reach it and there is no TLS: {answer}, or say "
        "that the network is safe (insecure=True, --insecure)"
    )
    raise InvalidParametersError(name="address", value=written(address), rule=rule)


class ExchangeServer:
    """Serves the channels of an exchange at an address, as an asynchronous context manager.

    Several servers may serve one exchange.  While one of them runs, the exchange looks each second for rows that
    expire; once the last one has stopped, nothing is written any more, and the store may be closed.
    """

    def __init__(
        self,
        exchange: Exchange,
        address: str = "127.0.0.1:0",
        *,
        handshake_seconds: float = HANDSHAKE_SECONDS,
        silence_seconds: float = SILENCE_SECONDS,
        resume_seconds: float = RESUME_SECONDS,
        security: Security = _PLAIN,
        access: AccessControl | None = None,
        reflection: bool = False,
    ) -> None:
        """The server listens once the block is entered.

        Args:
            exchange: the exchange to serve; channels may be added at any time.
            address: ``host:port`` for gRPC, ``tcp://host:port``, ``udp://host:port``; port 0 chooses a free one.
            handshake_seconds: the deadline for a client to call a method and to name its channel; a gRPC connection
                without any stream is closed after the same time.
            silence_seconds: a peer that sends no sign of life for longer is gone.
            resume_seconds: how long a stream that has lost its connection may wait for another one, if its client
                offers that, and for no longer than the client says; 0: not at all.
            security: TLS over gRPC and TCP, with a certificate and perhaps clients' certificates.  Without it, and over
                UDP, the server listens on the loopback only, unless ``security`` is ``insecure``.
            access: who may do what; None: a client that can connect may do everything.  Several servers may share one.
            reflection: over gRPC, describe the service to tools such as grpcurl, also to clients without rights: its
                definition is public, and says nothing of channels.  Needs permitflow[reflection].

        Raises:
            InvalidParametersError: the address is not host and port, or others may reach it and there is no TLS; a time
                is invalid; or a file of ``security`` cannot be used.
        """
        require_seconds(
            handshake_seconds=handshake_seconds, silence_seconds=silence_seconds, resume_seconds=resume_seconds
        )
        where = parsed(address, least_port=0)
        _require_safe(where, security)
        reception = Reception(exchange, resume_seconds=resume_seconds, handshake_seconds=handshake_seconds)
        terms = _Terms(reception, address, handshake_seconds, silence_seconds, security, access, reflection)
        self._listener = _LISTENERS[where.scheme](terms)
        self._exchange = exchange
        self._access, self._security = access, security
        self._following: list[asyncio.Task[None]] = []

    @property
    def address(self) -> str:
        """The address for clients to dial, with the chosen port."""
        return self._listener.address

    async def __aenter__(self) -> Self:
        """Listen.

        Raises:
            TransportError: the server cannot listen at the address.
            InvalidParametersError: a file of ``security`` cannot be used any more.
        """
        watch = None if self._security.certificate is None else self._exchange.certificate_watch(self, self._security)
        try:
            await self._listener.start()
        except BaseException:
            await self._exchange.end_serving(self)
            raise
        self._exchange.begin_serving(self)
        if self._access is not None:
            self._following.append(lasting_task(self._access.follow(), name="following the file of rights"))
        if watch is not None:
            self._following.append(lasting_task(watch.follow(), name="watching the certificate"))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Stop at once; connected peers get an error."""
        await self.stop()

    async def stop(self, grace_seconds: float = 0.0) -> None:
        """Refuse new streams, give the others ``grace_seconds`` to end, then send them an error.

        It may be called again, while or after another call: the shorter time counts.
        """
        await self._listener.stop(grace_seconds)
        for task in self._following:
            task.cancel()
        if self._following:
            await asyncio.wait(self._following)
        await self._exchange.end_serving(self)

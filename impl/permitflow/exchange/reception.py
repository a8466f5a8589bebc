"""Receives the connections of a server: each begins a stream, or goes on with one that has lost its connection.

A stream that may go on runs in a task of its own, and outlives its connections: for a while it is suspended, without
one.  Its last word is remembered as long, for a dialler that comes again when all is over.
"""

import asyncio
import logging
from collections import OrderedDict
from collections.abc import Callable
from typing import NamedTuple

from permitflow.carriers.carrier import Carrier, FirstMessage
from permitflow.carriers.connection import CONTROL, GET_STREAM, PUT_STREAM
from permitflow.carriers.deadlines import HANDSHAKE_SECONDS
from permitflow.carriers.resuming import AcceptedCarrier, ConnectionGivenUp, NumberedConnection
from permitflow.errors import (
    AlteredMessageError,
    InvalidParametersError,
    PeerGoneError,
    PeerTimeoutError,
    PermitflowError,
    ResumeRefusedError,
    UndecodableDataError,
)
from permitflow.exchange.access import ANYBODY, Access
from permitflow.exchange.registry import Exchange
from permitflow.exchange.serving import METHODS
from permitflow.patience import patience
from permitflow.stream.frames import Get, Put
from permitflow.stream.resuming import TOKEN_BYTES, Resume, Resumed, ResumeOffer
from permitflow.wire.buffers import Received
from permitflow.wire.codec import decode_downstream, decode_upstream
from permitflow.wire.connection_frames import CONNECTION_KEY, decode_connection_frame, encode_connection_frame
from permitflow.wire.wire_errors import copy_error, forget_frames

_log = logging.getLogger(__name__)

MOST_REMEMBERED = 4_096
"""Streams that are over, whose last word is remembered."""
_BETWEEN_CANCELS_SECONDS = 0.2
_WHO = "the exchange"
_PEERS = {GET_STREAM: ("consumer", "Get"), PUT_STREAM: ("producer", "Put")}


def _nothing(_is_new: bool) -> None:
    pass


class _Stream(NamedTuple):
    method: str
    carrier: AcceptedCarrier
    task: asyncio.Task[None]
    identity: str


class _LastWord(NamedTuple):
    outcome: Exception | None
    until: float
    identity: str


class _Call(NamedTuple):
    """A connection, by what it calls and who calls; see ``Reception.serve``."""

    method: str
    peer: str
    access: Access
    on_begun: Callable[[bool], None]


class Reception:
    """The streams of one server."""

    def __init__(
        self, exchange: Exchange, *, resume_seconds: float, handshake_seconds: float = HANDSHAKE_SECONDS
    ) -> None:
        """Serve an exchange.

        Args:
            exchange: has the channels.
            resume_seconds: how long a stream may wait for another connection at most; 0: not at all.
            handshake_seconds: how long a stream that begins anew may wait for its beginning; carriers bound the wait
                for the first message of a connection.
        """
        self.exchange, self._resume_seconds, self._handshake_seconds = exchange, resume_seconds, handshake_seconds
        self._stopping = asyncio.Event()
        self._is_closing = False
        self._arriving: dict[FirstMessage, None] = {}
        self._streams: dict[bytes, _Stream] = {}
        self._admission, self._suspended = exchange.admission, exchange.admission.suspended
        self._past: OrderedDict[bytes, _LastWord] = OrderedDict()

    async def serve(
        self,
        method: str,
        carrier: Carrier,
        *,
        peer: str,
        access: Access = ANYBODY,
        on_begun: Callable[[bool], None] = _nothing,
    ) -> None:
        """Serve a connection that was made, until its stream needs it no more.

        Args:
            method: the full name of the method that was called.
            carrier: of the connection.
            peer: its address.
            access: what it may do.
            on_begun: called once the connection has a stream; with whether that begins.

        Raises:
            PermitflowError: the stream has ended with an error, which the peer is to be told.
            ConnectionGivenUp: the stream goes on without this connection, which is to be closed without a word.
        """
        if method == CONTROL:
            with self._admission.stream(peer, access.identity):
                on_begun(True)
                await METHODS[method](self.exchange, carrier, peer=peer, stopping=self._stopping, access=access)
            return
        call, first = _Call(method, peer, access, on_begun), FirstMessage(carrier)
        message = await self._arrival(first, call)
        if len(message) == 0 or message[0] != CONNECTION_KEY:
            await self._begin(call, first, message)
            return
        try:
            resume = decode_connection_frame(message)
        except AlteredMessageError:
            raise ConnectionGivenUp from None  # the dialler comes again
        if not isinstance(resume, Resume):
            raise UndecodableDataError(what="the beginning of a stream", reason=f"it is {type(resume).__name__}")
        stream = self._streams.get(resume.token)
        past = self._past.get(resume.token)
        owner = stream or past
        if owner is not None and owner.identity != access.identity:
            raise ResumeRefusedError(who=_WHO, reason="it belongs to another client")
        if stream is not None and stream.method == method:
            on_begun(False)
            await self._go_on(stream, resume, first)
        elif past is not None:
            if (outcome := past.outcome) is not None:
                raise copy_error(outcome, None) if isinstance(outcome, PermitflowError) else outcome
        elif stream is None and resume.received == 0:
            # The beginning of the stream was lost: here is nothing to go on with, and there nothing to lose.
            await self._begin_late(call, resume, first)
        else:
            reason = "it does not know it: was the exchange started again, or has it waited for too long?"
            raise ResumeRefusedError(who=_WHO, reason=reason)

    async def _arrival(self, first: FirstMessage, call: _Call) -> Received:
        self._arriving[first] = None
        if self._stopping.is_set():
            first.on_error(_being_stopped())
        try:
            with self._admission.handshake(call.peer, first.on_error):
                message = await first.wait()
        except PeerGoneError:
            if first.carrier.is_cut:
                raise ConnectionGivenUp from None  # its dialler may come again, and is to be told nothing else
            raise
        finally:
            self._arriving.pop(first, None)
        if message is None:
            role, frame = _PEERS[call.method]
            reason = f"its stream broke off before the end (it was awaiting {frame})"
            raise PeerGoneError(who=f"the {role} at {call.peer}", reason=reason)
        return message

    async def _begin(self, call: _Call, first: FirstMessage, message: Received) -> None:
        method, peer, access, on_begun = call
        offer = _offer_in(method, message)
        seconds = 0.0 if offer is None or self._is_closing else min(offer.seconds, self._resume_seconds)
        if offer is None or not seconds > 0:
            with self._admission.stream(peer, access.identity):
                on_begun(True)
                await METHODS[method](
                    self.exchange, first.carrier, peer=peer, stopping=self._stopping, first=first, access=access
                )
            return
        await self._run(call, offer.token, first, seconds, 0)

    async def _begin_late(self, call: _Call, resume: Resume, first: FirstMessage) -> None:
        following = FirstMessage(first.carrier)
        following.is_full = not first.carrier.write(encode_connection_frame(Resumed(0)))
        first.hand_over_end(following)
        first.carrier.resume()
        try:
            async with patience(self._handshake_seconds):
                message = await self._arrival(following, call)
        except TimeoutError:
            reason = f"it has not said within {self._handshake_seconds:g} s what it wants"
            raise PeerTimeoutError(who=f"the client at {call.peer}", reason=reason) from None
        offer = _offer_in(call.method, message)
        if offer is None or offer.token != resume.token:
            raise UndecodableDataError(what="the beginning of a stream", reason="it has another token than its Resume")
        begun = self._streams.get(offer.token) or self._past.get(offer.token)
        if begun is not None and begun.identity == call.access.identity:
            # It has come over the connection before after all: the dialler comes again, and finds it.
            raise ConnectionGivenUp
        seconds = min(offer.seconds, self._resume_seconds)
        if self._is_closing or not seconds > 0:
            raise ResumeRefusedError(who=_WHO, reason="no stream survives its connection here")
        await self._run(call, offer.token, following, seconds, resume.attempt)

    async def _run(self, call: _Call, token: bytes, first: FirstMessage, seconds: float, number: int) -> None:
        if len(token) != TOKEN_BYTES or token in self._streams or token in self._past:
            rule = f"must be {TOKEN_BYTES} bytes that no other stream has"
            raise InvalidParametersError(name="the token of a stream", value=f"{len(token)} bytes", rule=rule)

        def on_suspended() -> None:
            self._note_suspended(token, call.peer)

        method, peer, access, on_begun = call
        place = self._admission.stream(peer, access.identity)
        on_begun(True)
        carrier = AcceptedCarrier(
            first, who=f"the client at {peer}", seconds=seconds, number=number, on_suspended=on_suspended
        )
        connection = carrier.connection
        assert connection is not None, "it was just made"
        task = asyncio.create_task(self._serve(method, token, carrier, peer, access), name=f"a stream with {peer}")
        task.add_done_callback(lambda _: place.leave())
        self._streams[token] = _Stream(method, carrier, task, access.identity)
        await self._attend(connection, carrier)

    async def _serve(self, method: str, token: bytes, carrier: AcceptedCarrier, peer: str, access: Access) -> None:
        outcome: Exception | None = _being_stopped()
        try:
            await METHODS[method](self.exchange, carrier, peer=peer, stopping=self._stopping, access=access)
            await carrier.settled()
            outcome = None
        except PermitflowError as error:
            if error.status:
                forget_frames(error)
            outcome = error
        except Exception as error:
            _log.exception("a stream with %s failed for a reason that is not the peer's", peer)
            outcome = error
        finally:
            del self._streams[token]
            self._suspended.discard(token)
            self._remember(token, outcome, access.identity)
            carrier.finish(outcome)

    async def _go_on(self, stream: _Stream, resume: Resume, first: FirstMessage) -> None:
        try:
            connection = stream.carrier.accept(resume, first)
        except ResumeRefusedError:
            raise
        except PermitflowError as error:
            stream.carrier.fail(error)
            raise
        self._suspended.discard(resume.token)
        await self._attend(connection, stream.carrier)

    async def _attend(self, connection: NumberedConnection, carrier: AcceptedCarrier) -> None:
        """Wait until the stream does not need the connection any more."""
        try:
            await asyncio.shield(connection.released)
        except asyncio.CancelledError:  # gRPC cancels the task of a call that was lost
            carrier.lose(connection, PeerGoneError(who="the peer", reason="its connection was closed or lost"))
            raise

    # Streams without a connection.

    def _note_suspended(self, token: bytes, peer: str) -> None:
        carrier = self._streams[token].carrier
        if self._is_closing:
            carrier.end_with_connection(_being_stopped())
        else:
            self._suspended.add(token, peer, carrier.kept_bytes, carrier.end_with_connection)

    def _remember(self, token: bytes, outcome: Exception | None, identity: str) -> None:
        now = asyncio.get_running_loop().time()
        self._past[token] = _LastWord(outcome, now + self._resume_seconds, identity)
        while self._past and (len(self._past) > MOST_REMEMBERED or next(iter(self._past.values())).until < now):
            self._past.popitem(last=False)

    # The end.

    def refuse(self) -> None:
        """No connection is made any more: streams that have none are over, and others end with theirs."""
        self._is_closing = True
        for stream in tuple(self._streams.values()):
            stream.carrier.end_with_connection(_being_stopped())

    def stop(self) -> None:
        """Tell all peers that the exchange is being stopped."""
        self._stopping.set()
        for first in tuple(self._arriving):
            first.on_error(_being_stopped())

    async def close(self) -> None:
        """End the streams that are left."""
        while tasks := {stream.task for stream in self._streams.values()}:
            # Repeat, because an error at the same moment may hide the cancellation.
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks, timeout=_BETWEEN_CANCELS_SECONDS)


def _being_stopped() -> PeerGoneError:
    return PeerGoneError(who=_WHO, reason="it is being stopped")


def _offer_in(method: str, message: Received) -> ResumeOffer | None:
    """The offer in the first message of a stream; None also if that is wrong: the method tells the peer."""
    try:
        frames = decode_upstream(message) if method == PUT_STREAM else decode_downstream(message, None)
    except PermitflowError:
        return None
    request = frames[0] if frames else None
    return request.resume if isinstance(request, Get | Put) else None

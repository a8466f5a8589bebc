"""An exchange of this process at real sockets, and peers that send it any bytes; what a neighbour is promised."""

import asyncio
import logging
import secrets
import socket
import struct
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager, closing, suppress
from typing import Any

from permitflow.carriers.addresses import Scheme, parsed
from permitflow.carriers.datagrams.packets import Accept, Challenge, Data, Gone, Hello, Open, decode, encode
from permitflow.client import SameHost, get, put
from permitflow.exchange import Exchange, ExchangeServer, Retention
from tests.hostile.byte_grammar import (
    CONNECTION,
    PLACES,
    Bytes,
    End,
    Hears,
    Packets,
    answered_over_http2,
    answered_over_tcp,
)
from tests.hostile.grammar import BATCH, KEPT, ONCE, PARAMETERS
from tests.hostile.memory import NEIGHBOUR, Broken
from tests.support.turns import until

_PATIENCE_SECONDS = 20.0
"""Of a neighbour on a busy machine; this is no measurement."""
_ANSWER_SECONDS = 0.5
"""So long a peer waits before it goes on without an answer."""
_AGAIN_SECONDS = 0.5
"""After which a peer over UDP says hello again."""
_MOST_BYTES = 1 << 16
_RESET = struct.pack("ii", 1, 0)


class _Heard(logging.Handler):
    """What the exchange, or its event loop, has logged as its own failure."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        """See ``Handler``."""
        self.records.append(record)


class Attacked:
    """The exchange, with a neighbour's stream."""

    def __init__(self, exchange: Exchange, address: str, sender: Any, receiver: Any, heard: _Heard) -> None:
        self.address = address
        self._exchange, self._sender, self._receiver, self._heard = exchange, sender, receiver, heard

    async def judge(self) -> None:
        """The neighbour's chunks pass, nothing has failed, and nothing of a peer that is gone stays.

        Raises:
            Broken: it is otherwise.
        """
        try:
            async with asyncio.timeout(_PATIENCE_SECONDS):
                await self._sender.send(BATCH)
                message = await self._receiver.receive()
                admission = self._exchange.admission
                await until(lambda: (admission.streams, admission.handshakes) == (2, 0))
        except TimeoutError:
            raise Broken(f"the neighbour waits, or a stream is left: {admission.streams} are open") from None
        if not message.payload.equals(BATCH):
            raise Broken(f"the neighbour received {message.payload}")
        if self._heard.records:
            record = self._heard.records.pop()
            raise Broken(f"the exchange failed: {record.getMessage()}") from (record.exc_info or (None, None))[1]

    async def connect(self, peer: Bytes) -> None:
        """Let a peer do this over TCP, and leave."""
        loop, heard = asyncio.get_running_loop(), bytearray()
        scheme, host, port = parsed(self.address)
        answered = answered_over_tcp if scheme is Scheme.TCP else answered_over_http2

        async def hear(until_answered: int | None = None) -> None:
            while until_answered is None or until_answered not in answered(heard):
                if not (some := await loop.sock_recv(connection, _MOST_BYTES)):
                    return
                heard.extend(some)

        with closing(socket.create_connection((host, port))) as connection, suppress(OSError):
            connection.setblocking(False)
            for step in peer.writes:
                if isinstance(step, Hears):
                    with suppress(TimeoutError):  # after a mistake there may be nothing to answer
                        async with asyncio.timeout(_ANSWER_SECONDS):
                            await hear(step.stream)
                else:
                    await loop.sock_sendall(connection, step)
                    await asyncio.sleep(0)
            if peer.end is End.RESETS:
                connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
            elif peer.end is End.HALF_CLOSES:
                connection.shutdown(socket.SHUT_WR)
                await hear()

    async def send(self, peer: Packets) -> None:
        """Let a peer send these packets over UDP."""
        loop = asyncio.get_running_loop()
        _, host, port = parsed(self.address)
        with closing(socket.socket(socket.AF_INET, socket.SOCK_DGRAM)) as made, suppress(OSError):
            made.setblocking(False)
            made.connect((host, port))
            connection = await _met(made) if peer.is_connected else CONNECTION
            heard = -1
            for datagram in (*peer.datagrams(connection), encode(Gone(connection))):
                if isinstance(datagram, Hears):
                    with suppress(TimeoutError):
                        async with asyncio.timeout(_ANSWER_SECONDS):
                            heard = await _answered(made, heard)
                else:
                    await loop.sock_sendall(made, datagram)
                await asyncio.sleep(0)


async def _answered(made: socket.socket, heard: int) -> int:
    """Wait until the exchange says more than this number; the number of what it says."""
    while True:
        match decode(await asyncio.get_running_loop().sock_recv(made, _MOST_BYTES)):
            case Data(number) if number > heard:
                return number


async def _met(made: socket.socket) -> int:
    """Say hello until there is a connection: packets are lost, and the exchange serves no more than so many at a time.

    Raises:
        Broken: it has not answered for long.
    """
    # The kernel gives ports again, and an acceptor that is asked again by the same port and token tells of the same
    # connection, which may be over.
    loop, token = asyncio.get_running_loop(), secrets.randbits(64)
    until_seconds = loop.time() + _PATIENCE_SECONDS
    while loop.time() < until_seconds:
        with suppress(TimeoutError):
            async with asyncio.timeout(_AGAIN_SECONDS):
                await loop.sock_sendall(made, encode(Hello(token)))
                while True:
                    match decode(await loop.sock_recv(made, _MOST_BYTES)):
                        case Challenge(_, cookie):
                            await loop.sock_sendall(made, encode(Open(token, cookie, PLACES)))
                        case Accept(_, connection):
                            return connection
    raise Broken(f"a peer over UDP got no connection within {_PATIENCE_SECONDS:g} s")


@asynccontextmanager
async def attacked(scheme: str) -> AsyncIterator[Attacked]:
    """An exchange that listens there, as in ``tcp://``."""
    exchange = Exchange(parameters=PARAMETERS, same_host=SameHost.NEVER)
    exchange.add_channels([ONCE, NEIGHBOUR], schema=BATCH.schema)
    exchange.add_channel(KEPT, schema=BATCH.schema, retention=Retention.REPLAY, kept_rows=8)
    heard = _Heard()
    loggers = [logging.getLogger(name) for name in ("permitflow", "asyncio")]
    for logger in loggers:
        logger.addHandler(heard)
    try:
        async with AsyncExitStack() as stack:
            server = await stack.enter_async_context(
                ExchangeServer(exchange, f"{scheme}127.0.0.1:0", resume_seconds=0.1, silence_seconds=3.0)
            )
            sender = await stack.enter_async_context(put(server.address, NEIGHBOUR, BATCH.schema))
            receiver = await stack.enter_async_context(get(server.address, NEIGHBOUR))
            yield Attacked(exchange, server.address, sender, receiver, heard)
    finally:
        for logger in loggers:
            logger.removeHandler(heard)


async def attack(scheme: str, peers: Sequence[Bytes | Packets]) -> None:
    """Let several peers do this to a new exchange at the same time; the scheme is as in ``tcp://``.

    Raises:
        Broken: as ``judge``.
    """
    async with attacked(scheme) as target:
        async with asyncio.TaskGroup() as group:
            for peer in peers:
                group.create_task(target.send(peer) if isinstance(peer, Packets) else target.connect(peer))
        await target.judge()

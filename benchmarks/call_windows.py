"""gRPC's own flow control: how far a sender runs ahead of a reader that stops, and what a small window costs.

A server in a process of its own sends messages; a client reads some and stops, again and again, and looks how many the
server has sent when it sends no more.  Then it reads as fast as it can, with ``calls.source`` from ``calls.respond``,
and for comparison with the plain loops of grpc.aio.
"""

import asyncio
import random
from collections.abc import AsyncIterator
from functools import partial
from itertools import product
from multiprocessing.connection import Connection
from typing import Any

import grpc

from benchmarks.field import Settings
from benchmarks.harness import SEED, Partner, in_turns
from benchmarks.results import COMPACT, Row, Series
from permitflow.stages import Source
from permitflow.stages.calls import CallCounts, Window, respond, source

WINDOWS = (None, 1 << 20, 65_535, 1_024, 5)
MESSAGE_BYTES = (100, 10_000, 1_000_000)
STOPS = 40
QUIET_LOOKS = 20
LOOK_SECONDS = 0.002
READING_SECONDS = 0.3
# The largest message, and more.
ANY_SIZE = (("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1))
SERVICE = "permitflow.benchmarks.CallWindows"


def measure_call_windows(settings: Settings) -> list[Row]:
    windows, sizes = ((1_024,), (100,)) if settings.is_smoke else (WINDOWS, MESSAGE_BYTES)
    # grpc.aio keeps the first event loop of a process: each end has a process.
    with Partner(_serve) as server, Partner(_read, server.hears(), windows, sizes, settings) as client:
        found: list[Row] = client.hears()
    return found


async def _serve(pipe: Connection) -> None:
    counts = CallCounts()

    def messages(size: bytes) -> Source[bytes]:
        message = bytes(int(size))

        async def endless() -> AsyncIterator[bytes]:
            while True:
                yield message

        return Source(endless())

    async def ours(size: bytes, context: Any) -> None:
        counts.sent = 0
        await respond(context, messages(size), counts=counts)

    async def plain(size: bytes, context: Any) -> None:
        message = bytes(int(size))
        while True:
            await context.write(message)

    async def sent(request: bytes, context: Any) -> bytes:
        return b"%d" % counts.sent

    server = grpc.aio.server(options=ANY_SIZE)
    handlers: dict[str, Any] = {
        "Ours": grpc.unary_stream_rpc_method_handler(ours),
        "Plain": grpc.unary_stream_rpc_method_handler(plain),
        "Sent": grpc.unary_unary_rpc_method_handler(sent),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    pipe.send(f"127.0.0.1:{port}")
    try:
        await asyncio.to_thread(pipe.recv)
    except EOFError:
        await server.stop(None)


def _read(
    pipe: Connection, address: str, windows: tuple[int | None, ...], sizes: tuple[int, ...], settings: Settings
) -> None:
    with asyncio.Runner() as runner:
        order = random.Random(SEED)
        found: list[Row] = []
        for size_bytes, message_bytes in product(windows, sizes):
            window = None if size_bytes is None else Window(size_bytes)
            cell = _Cell(address, window, message_bytes)
            unread = runner.run(cell.unread(3 if settings.is_smoke else STOPS, order))
            ways = {name: partial(_rated, runner, cell, name) for name in ("Ours", "Plain")}
            ours, plain = map(Series.of, in_turns(ways, settings.rounds).values())
            found.append(
                {
                    # gRPC fits its own window to the connection.
                    "Window": "gRPC's own" if size_bytes is None else f"{size_bytes:,} bytes",
                    "messages of": f"{message_bytes:,} bytes",
                    "unread at most, stated": None if window is None else window.most_unread(message_bytes),
                    "measured": unread,
                    "messages/s": ours,
                    "÷ plain grpc.aio": ours.ratio_to(plain, COMPACT),
                }
            )
        pipe.send(found)


def _rated(runner: asyncio.Runner, cell: "_Cell", name: str) -> float:
    return runner.run(cell.rate(name))


class _Cell:
    """A client with one window, that reads messages of one size."""

    def __init__(self, address: str, window: Window | None, message_bytes: int) -> None:
        self.address, self.window, self.message_bytes = address, window, message_bytes

    def _channel(self) -> grpc.aio.Channel:
        options = () if self.window is None else self.window.options
        # A connection of its own: gRPC's window has grown with the last one.
        own = ("grpc.use_local_subchannel_pool", 1)
        return grpc.aio.insecure_channel(self.address, options=(*options, own, *ANY_SIZE))

    async def unread(self, stops: int, order: random.Random) -> int:
        """Messages that were sent and not read, at most, when the reader stood still."""
        request = str(self.message_bytes).encode()
        ahead = max(1, 4 * (self.window.size_bytes if self.window else 4 << 20) // self.message_bytes)
        # Up to four windows at a time, and not much more than this machine reads in a moment.
        bursts = [order.choice([0, 1, 2, 3, order.randrange(1, min(ahead, 5_000) + 1)]) for _ in range(stops)]
        most = read = 0
        async with self._channel() as channel, grpc.aio.insecure_channel(self.address) as other:
            sent: Any = other.unary_unary(f"/{SERVICE}/Sent")
            method: Any = channel.unary_stream(f"/{SERVICE}/Ours")
            async with source(method, request).open() as elements:
                for burst in (1, *bursts):
                    for _ in range(burst):
                        await anext(elements)
                    read += burst
                    most = max(most, await self._settled(sent) - read)
        return most

    @staticmethod
    async def _settled(sent: Any) -> int:
        """How many the server has sent, once it sends no more."""
        quiet, last = 0, -1
        while quiet < QUIET_LOOKS:
            await asyncio.sleep(LOOK_SECONDS)
            now = int(await sent(b""))
            quiet, last = (quiet + 1 if now == last else 0), now
        return last

    async def rate(self, name: str) -> float:
        """Messages a second."""
        request = str(self.message_bytes).encode()
        async with self._channel() as channel:
            method: Any = channel.unary_stream(f"/{SERVICE}/{name}")
            if name == "Plain":
                # The end of the channel ends the call.
                return await _rate(aiter(method(request)))
            async with source(method, request).open() as elements:
                return await _rate(elements)


async def _rate(elements: AsyncIterator[object]) -> float:
    # The first message opens the connection.
    await anext(elements)
    clock, read = asyncio.get_running_loop().time, 0
    began = clock()
    while (seconds := clock() - began) < READING_SECONDS:
        await anext(elements)
        read += 1
    return read / seconds

"""What may be on its way is for permits to say: HTTP/2's windows, which count bytes, hold nobody back."""

import asyncio
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from typing import Any

import grpc.aio

from permitflow.transports.connection import CLIENT_OPTIONS, SERVER_OPTIONS

MESSAGE = bytes(1 << 20)
# Some of it fits into the kernel's sockets, and gRPC's windows grow to a few MiB by themselves.
MESSAGES = 64
Complete = Callable[[Coroutine[Any, Any, Any]], Any]
METHOD = "/test/Stream"


class Server:
    """A method whose handler writes before it reads, or reads nothing before it is told to."""

    def __init__(self, *, writes: bool) -> None:
        self.writes = writes
        self.may_read = asyncio.Event()
        self.has_written = asyncio.Event()

    def service(self, details: grpc.HandlerCallDetails) -> "grpc.RpcMethodHandler[bytes, bytes]":
        return grpc.stream_stream_rpc_method_handler(self._handle)

    async def _handle(self, requests: AsyncIterator[bytes], context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
        if self.writes:
            for _ in range(MESSAGES):
                await context.write(MESSAGE)
            self.has_written.set()
        await self.may_read.wait()
        async for _ in requests:
            pass


@asynccontextmanager
async def stream_to(served: Server) -> AsyncIterator["grpc.aio.StreamStreamCall[bytes, bytes]"]:
    server = grpc.aio.server(options=SERVER_OPTIONS)
    server.add_generic_rpc_handlers((served,))  # type: ignore[arg-type]  # it has the one method that is asked for
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=CLIENT_OPTIONS) as channel:
            call: grpc.aio.StreamStreamCall[bytes, bytes] = channel.stream_stream(METHOD)()
            yield call
            served.may_read.set()
            await call.done_writing()
            async for _ in call:
                pass
    finally:
        await server.stop(None)


def test_a_client_may_write_what_the_exchange_has_not_read(complete: Complete) -> None:
    async def test() -> None:
        async with stream_to(Server(writes=False)) as call:
            for _ in range(MESSAGES):
                await call.write(MESSAGE)

    complete(test())


def test_the_exchange_may_write_what_its_client_has_not_read(complete: Complete) -> None:
    async def test() -> None:
        served = Server(writes=True)
        async with stream_to(served):
            await served.has_written.wait()

    complete(test())

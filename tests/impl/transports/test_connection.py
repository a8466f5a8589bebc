"""How clients reach an exchange: one address, windows that permits fill, memory that stays."""

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

import grpc.aio
import pyarrow as pa
import pytest

from permitflow.errors import InvalidParametersError
from permitflow.transports import grpc_aio, grpc_blocking
from permitflow.transports.connection import CLIENT_OPTIONS, SERVER_OPTIONS
from permitflow.transports.health import is_serving

SCHEMA = pa.schema([("n", pa.int64())])


async def enter(context: object) -> None:
    async with context:  # type: ignore[attr-defined]  # one of three
        pass


DIALLING: dict[str, Callable[[str], object]] = {
    "get": lambda address: asyncio.run(enter(grpc_aio.get(address, "orders"))),
    "put": lambda address: asyncio.run(enter(grpc_aio.put(address, "orders", SCHEMA))),
    "control": lambda address: asyncio.run(enter(grpc_aio.control(address))),
    "open_source": lambda address: grpc_blocking.open_source(address, "orders"),
    "open_sink": lambda address: grpc_blocking.open_sink(address, "orders", SCHEMA),
    "blocking control": lambda address: grpc_blocking.control(address).positions(["orders"]),
    "health": is_serving,
}


@pytest.mark.parametrize("address", ["a:1,b:2", "tcp://a:1,tcp://b:2", "ipv4:127.0.0.1:1,127.0.0.1:2"])
@pytest.mark.parametrize("dial", DIALLING.values(), ids=DIALLING.keys())
def test_a_list_of_addresses_is_refused_in_words(dial: Callable[[str], object], address: str) -> None:
    with pytest.raises(InvalidParametersError, match="address must be a single host:port, because") as caught:
        dial(address)
    assert caught.value.value == address


MESSAGE = bytes(1 << 20)
# Some of it fits into the kernel's sockets, and gRPC's windows grow to a few MiB by themselves.
MESSAGES = 64
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


async def test_a_client_may_write_what_the_exchange_has_not_read() -> None:
    async with stream_to(Server(writes=False)) as call:
        for _ in range(MESSAGES):
            await call.write(MESSAGE)


async def test_the_exchange_may_write_what_its_client_has_not_read() -> None:
    served = Server(writes=True)
    async with stream_to(served):
        await served.has_written.wait()


FAULTS_OF_MANY_BLOCKS = """
import resource
from permitflow.transports.connection import expect_large_blocks
{}
def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt
def blocks():
    [b"x" * 1_000_000 for _ in range(8)]
blocks()
before = faults()
for _ in range(50):
    blocks()
print(faults() - before)
"""


LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="glibc's own")


def faults(preparation: str, **environment: str) -> int:
    command = [sys.executable, "-c", FAULTS_OF_MANY_BLOCKS.format(preparation)]
    told = subprocess.run(command, env=os.environ | environment, capture_output=True, text=True, check=True)
    return int(told.stdout)


@LINUX
def test_blocks_of_messages_are_kept_once_they_are_expected() -> None:
    assert faults("expect_large_blocks()") < 1_000 < faults("")

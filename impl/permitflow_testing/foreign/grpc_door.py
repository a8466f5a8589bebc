"""Waits for the driver's calls over gRPC."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial

import grpc

from permitflow.carriers.connection import GET_STREAM, PUT_STREAM, SERVER_OPTIONS, SERVICE
from permitflow.carriers.grpc_calls import Context, ServerCall
from permitflow_testing.foreign.doors import WHO, Accepted, Door


class _Call(Accepted):
    """A call of the driver's; gRPC ends it when its handler ends."""

    carrier: ServerCall

    def __init__(self, method: str, carrier: ServerCall) -> None:
        super().__init__(method, carrier)
        self.over: asyncio.Future[Exception | None] = asyncio.get_running_loop().create_future()

    async def finish(self, error: Exception | None) -> None:
        if not self.over.done():
            self.over.set_result(error)

    async def close(self) -> None:
        await self.finish(None)


class _GrpcDoor(Door):
    def __init__(self) -> None:
        self.calls: asyncio.Queue[_Call] = asyncio.Queue()

    async def accepted(self) -> Accepted:
        return await self.calls.get()

    async def serve(self, method: str, _requests: object, context: Context) -> None:
        await context.send_initial_metadata(())
        call = _Call(method, ServerCall(context, WHO))
        self.calls.put_nowait(call)
        try:
            with suppress(grpc.aio.BaseError):
                await call.carrier.finish(await call.over)
        finally:
            await call.carrier.stop()


@asynccontextmanager
async def grpc_door() -> AsyncIterator[Door]:
    """A server on the loopback, for one stream after another."""
    door, server = _GrpcDoor(), grpc.aio.server(options=SERVER_OPTIONS)
    handlers: dict[str, grpc.RpcMethodHandler[bytes, bytes]] = {
        method.rpartition("/")[2]: grpc.stream_stream_rpc_method_handler(partial(door.serve, method))
        for method in (GET_STREAM, PUT_STREAM)
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    door.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    await server.start()
    try:
        yield door
    finally:
        await server.stop(0)

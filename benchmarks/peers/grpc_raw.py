"""``grpc.aio`` with generic handlers on bytes: one message for each chunk, permits by hand on the same stream."""

import asyncio
from collections.abc import AsyncIterator

import grpc
import pyarrow as pa

from benchmarks.jobs import Job, Tally
from benchmarks.peers.way import Consumer, Group, Producer, Way

METHOD = "/benchmark.Chunks/Get"
OPTIONS = (("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1))


class GrpcProducer(Producer):
    """A bidirectional method: permits come, chunks go; an empty message is the end."""

    async def start(self) -> None:
        self._server = grpc.aio.server(options=OPTIONS)
        handler: grpc.RpcMethodHandler[bytes, bytes] = grpc.stream_stream_rpc_method_handler(self._get)
        service, method = METHOD.strip("/").split("/")
        self._server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(service, {method: handler}),))
        port = self._server.add_insecure_port("127.0.0.1:0")
        await self._server.start()
        self.address = f"127.0.0.1:{port}"

    async def prepare(self, job: Job) -> None:
        self._job = job

    async def _get(self, requests: AsyncIterator[bytes], context: "grpc.aio.ServicerContext[bytes, bytes]") -> None:
        permits = _Permits(self._job.row_permits)
        returns = asyncio.create_task(permits.add_all(requests))
        async for burst in self._job.bursts_async():
            for chunk in burst:
                if permits.rows < chunk.num_rows:
                    await permits.wait_for(chunk.num_rows)
                permits.rows -= chunk.num_rows
                await context.write(chunk.serialize().to_pybytes())
        await context.write(b"")
        # Permits that cross a method's return would end the call as INTERNAL: the client closes first.
        await returns


class _Permits:
    """A counter that can be waited for."""

    def __init__(self, rows: int) -> None:
        self.rows = rows
        self._have_come = asyncio.Event()

    async def add_all(self, requests: AsyncIterator[bytes]) -> None:
        async for request in requests:
            self.rows += int.from_bytes(request, "little")
            self._have_come.set()

    async def wait_for(self, rows: int) -> None:
        while self.rows < rows:
            self._have_come.clear()
            await self._have_come.wait()


class GrpcConsumer(Consumer):
    """Returns permits in batches."""

    async def consume(self, job: Job, tally: Tally) -> None:
        schema, unreturned = job.shape.schema, 0
        async with grpc.aio.insecure_channel(self.address, options=OPTIONS) as channel:
            method: grpc.aio.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(METHOD)
            call = method()
            while message := await call.read():
                chunk = pa.ipc.read_record_batch(pa.py_buffer(message), schema)
                tally.take(chunk)
                unreturned += chunk.num_rows
                if unreturned >= job.permit_batch:
                    await call.write(unreturned.to_bytes(8, "little"))
                    unreturned = 0
            await call.done_writing()
            await call.read()


ABOUT = "a bidirectional method on bytes, one message for each chunk"
WAYS = (Way("grpc.aio, permits by hand", Group.PEER, ABOUT, GrpcProducer, GrpcConsumer),)

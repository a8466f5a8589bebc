"""A gRPC service of one's own behind stages: its numbers are made when the client's last stage asks for them."""

import asyncio
from collections.abc import Iterator

import grpc
from google.protobuf.wrappers_pb2 import Int64Value as Number

from permitflow.stages import Source, calls

WINDOW = calls.Window(5)  # bytes: each message is sent when it is asked for
made = 0


def numbers(count: int) -> Iterator[Number]:
    """Make numbers, and count them."""
    global made
    for made in range(1, count + 1):
        yield Number(value=made)


async def count(request: Number, context: "grpc.aio.ServicerContext[Number, Number]") -> None:
    """The handler of a server-streaming method."""
    await calls.respond(context, Source(numbers(request.value)))


async def main() -> None:
    """Ask for a million numbers, and take five of them."""
    # What protoc makes of a service: a servicer's registration, and below a stub.
    counting = grpc.unary_stream_rpc_method_handler(
        count, request_deserializer=Number.FromString, response_serializer=Number.SerializeToString
    )
    server = grpc.aio.server(options=WINDOW.options)
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("Numbers", {"Count": counting})])
    port = server.add_insecure_port("127.0.0.1:0")
    await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=WINDOW.options) as channel:
        method = channel.unary_stream(
            "/Numbers/Count", request_serializer=Number.SerializeToString, response_deserializer=Number.FromString
        )
        squares = calls.source(method, Number(value=1_000_000)).map(lambda number: number.value**2).take(5)
        print([square async for square in squares], "and no more than ten were made:", made <= 10)
    await server.stop(None)


asyncio.run(main())

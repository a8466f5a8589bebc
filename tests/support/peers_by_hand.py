"""Peers that write what they like, frame by frame, for tests: what they say, and how a call of theirs ends."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import cached_property
from typing import Any, NamedTuple

import grpc
import pyarrow as pa

from permitflow import SendEnd
from permitflow.carriers.carrier import Conversation
from permitflow.carriers.connection import CLIENT_OPTIONS, GET_STREAM
from permitflow.carriers.grpc_calls import ClientCall
from permitflow.client import get, put
from permitflow.errors import EndOfStream, PermitflowError
from permitflow.exchange import Exchange
from permitflow.flows.permits.agreement import PERMITS
from permitflow.stream.frames import Agreement, Failure, Get, Put
from permitflow.stream.handshake import PROTOCOL_VERSION
from permitflow.wire.arrow import BatchCodec
from permitflow.wire.buffers import Buffer
from permitflow.wire.checksum import Checksums
from permitflow.wire.codec import EncodedChunks, decode_downstream, decode_upstream, encode_downstream, encode_upstream
from tests.support.number_streams import CHANNEL, SMALL
from tests.support.served import served

BATCH = pa.record_batch({"n": pa.array([1, 2, 3], pa.int64())})
CODEC = BatchCodec(BATCH.schema)
ENCODED = b"".join(CODEC.encode([BATCH]))
PUT = Put(PROTOCOL_VERSION, CHANNEL, schema=CODEC.schema_bytes)
GET = Get(PROTOCOL_VERSION, CHANNEL)


def put_frame(**changes: Any) -> Put:
    return replace(PUT, **changes)


def get_frame(**changes: Any) -> Get:
    return replace(GET, **changes)


def data(rows: int = 3, arrow: Buffer = ENCODED) -> EncodedChunks:
    """A chunk of so many rows, as is said."""
    return EncodedChunks((rows,), (arrow,))


class Outcome(NamedTuple):
    """How a call has ended for the client."""

    code: grpc.StatusCode
    error: PermitflowError


class ByHand(Conversation):
    """Whatever is written gets its checksum: what is wrong with it is something else."""

    @cached_property
    def _checksums(self) -> Checksums:
        return Checksums(wanted=True)

    async def read(self) -> bytes | None:
        """The next message, without its checksum."""
        message = await super().read()
        return None if message is None else bytes(self._checksums.check(message))

    async def write(self, message: Sequence[Buffer]) -> None:
        await super().write(self._checksums.add(message))


class CallByHand(ByHand):
    """A call on which a test may write anything."""

    def __init__(self, call: "grpc.aio.StreamStreamCall[bytes, bytes]", who: str) -> None:
        self._call = ClientCall(call, who)
        super().__init__(self._call)

    @property
    def code(self) -> grpc.StatusCode | None:
        return self._call.code

    async def settle(self) -> None:
        await self._call.stop()


@asynccontextmanager
async def dialling(address: str, method: str) -> AsyncIterator[CallByHand]:
    """A call on which a test may write anything."""
    async with grpc.aio.insecure_channel(address, options=CLIENT_OPTIONS) as channel:
        carrier = CallByHand(channel.stream_stream(method)(), f"the exchange at {address}")
        yield carrier
        await carrier.settle()


def answered(method: str, answer: Buffer) -> Sequence[Any]:
    return decode_upstream(answer) if method == GET_STREAM else decode_downstream(answer, PERMITS)


def is_failure(method: str, answer: Buffer) -> bool:
    """Does the exchange break the stream off?"""
    return any(isinstance(frame, Failure) for frame in answered(method, answer))


async def call(
    address: str,
    method: str,
    messages: Sequence[bytes],
    *,
    polite: bool = False,
    leaves: bool = True,
    heeds: bool = True,
) -> Outcome:
    """Write these messages, right or wrong, and read to the end.

    A polite peer waits for the agreement before it goes on after its first message; one that leaves closes its half
    as soon as it has written the last, one that heeds does so when the exchange breaks the stream off.
    """
    async with dialling(address, method) as carrier:
        try:
            for number, message in enumerate(messages):
                await carrier.write([message])
                if polite and number == 0:
                    await carrier.read()
            if leaves:
                carrier.half_close()
            while (answer := await carrier.read()) is not None:
                if heeds and is_failure(method, answer):
                    carrier.half_close()
        except PermitflowError as error:
            # A peer that writes on and on without reading may never see the status.
            return Outcome(carrier.code or grpc.StatusCode.UNKNOWN, error)
    return Outcome(grpc.StatusCode.OK, EndOfStream())


@asynccontextmanager
async def serving() -> AsyncIterator[tuple[Exchange, str]]:
    """An exchange with two channels; at the end the second one must still work."""
    async with (
        served("orders/0", "orders/1", parameters=SMALL, schema=BATCH.schema) as (exchange, address),
        get(address, "orders/1") as receiver,
        put(address, "orders/1", BATCH.schema) as sender,
    ):
        await sender.send(BATCH)
        assert (await receiver.receive()).payload.equals(BATCH)
        yield exchange, address
        async with asyncio.TaskGroup() as group:
            group.create_task(sender.send(BATCH))
            assert (await receiver.receive()).payload.equals(BATCH)
            group.create_task(sender.end())
            assert [message async for message in receiver] == []


def encoded(method: str, frame: Any) -> bytes:
    """What goes over the wire for it, right or wrong."""
    if isinstance(frame, bytes):
        return frame
    (message,) = encode_downstream([frame], PERMITS) if method == GET_STREAM else encode_upstream([frame])
    return b"".join(message)


async def send_for_ever(sender: SendEnd[pa.RecordBatch], batch: pa.RecordBatch) -> None:
    while True:
        await sender.send(batch)


AGREED = Agreement(PROTOCOL_VERSION, PERMITS.name, PERMITS.state(SMALL), CODEC.schema_bytes, "lies")


def agreed(**changes: Any) -> Agreement:
    """An agreement that differs in these numbers."""
    return replace(AGREED, parameters=AGREED.parameters._replace(**changes))

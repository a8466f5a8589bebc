"""What a greedy process does to an exchange: it asks for more than it may, or for all that it may, again and again.

By our own client, or by messages that it would not write: docs/guides/limits.md.
"""

import itertools
import time
from collections import Counter, deque
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import grpc
import pyarrow as pa

from permitflow.carriers.carrier import Conversation
from permitflow.carriers.connection import CONTROL, GET_STREAM, PUT_STREAM
from permitflow.carriers.grpc_calls import calling
from permitflow.carriers.reaching import Destination
from permitflow.client import Compression, SameHost, StagedPart, Staging, control, get, put
from permitflow.errors import PermitflowError
from permitflow.stream.control import (
    MOST_CHANNELS,
    MOST_PUBLISHED,
    Acknowledge,
    AskPositions,
    AskStatistics,
    ChannelRow,
    Close,
    ControlRequest,
    Discard,
    Publish,
)
from permitflow.wire.arrow import MAX_CHUNK_BYTES
from permitflow.wire.arrow_metadata import MAX_DICTIONARIES, MAX_SCHEMA_FIELDS
from permitflow.wire.codec import MOST_EMPTY_CHUNKS, MOST_FRAMES
from permitflow.wire.control_codec import encode_request
from permitflow.wire.v1 import exchange_pb2 as pb
from tests.hostile.attacks import ATTACKED, Attack, Target, again
from tests.hostile.grammar import downstream, upstream
from tests.support.peers_by_hand import call, encoded, get_frame, put_frame

MOST_MIB: Final = 1_024
"""The exchange may grow by so much: what streams take is not in the bound of what it holds before there are any."""
STREAM: Final = ATTACKED.partition("/")[0]
_MANY: Final = tuple(f"{STREAM}/{number}" for number in range(MOST_CHANNELS))
_THEIRS: Final = _MANY[1]
"""A channel that has no schema but theirs."""
_DIALLING: Final = 40
_LARGEST_BYTES: Final = MAX_CHUNK_BYTES - 4_096


Once = Callable[[Target, Counter[str]], Awaitable[str]]
"""Returns what it has heard at the end; what it hears before, it counts."""


def _again(once: Once, number: int = 1) -> Attack:
    """So many at a time, again and again; an error is what was heard."""

    async def attack(target: Target, answers: Counter[str]) -> None:
        async def one() -> str:
            try:
                return await once(target, answers)
            except PermitflowError as error:
                return type(error).__name__

        await again(target, number, one, answers)

    return attack


def _requests(request: Callable[[], ControlRequest]) -> Attack:
    """One request again and again, each behind the reply to the one before."""

    async def once(target: Target, answers: Counter[str]) -> str:
        message, until = encode_request(request()), time.monotonic() + target.seconds
        async with calling(Destination(target.grpc, CONTROL, "the exchange", 60.0)) as carrier:
            conversation = Conversation(carrier)
            while time.monotonic() < until:
                await conversation.write([message])
                await conversation.read()
                answers["replied"] += 1
        return "left"

    return _again(once)


def _parts(number: int) -> tuple[StagedPart, ...]:
    return tuple(StagedPart(ATTACKED, partition, "x", 0) for partition in range(number))


def _call(method: str, messages: Callable[[], Sequence[bytes]]) -> Attack:
    """A call over gRPC that says all this, and hears what comes of it."""

    async def once(target: Target, _: Counter[str]) -> str:
        code, error = await call(target.grpc, method, messages(), polite=True)
        return "served" if code is grpc.StatusCode.OK else type(error).__name__

    return _again(once)


def _returns(number: int) -> Attack:
    asked = encoded(GET_STREAM, get_frame(channel=ATTACKED))
    return _call(GET_STREAM, lambda: [asked, downstream(pb.DownstreamFrame(feedback=b"")) * number])


def _empty_chunks(number: int) -> Attack:
    asked = encoded(PUT_STREAM, put_frame(channel=ATTACKED))
    return _call(PUT_STREAM, lambda: [asked, upstream(pb.UpstreamFrame(chunks=pb.Chunks(rows=bytes(number))))])


def _schema(names: str = "c", kind: pa.DataType | None = None, fields: int = MAX_SCHEMA_FIELDS) -> pa.Schema:
    """By default as many fields as a schema may have."""
    return pa.schema([(f"{names}{number}", kind or pa.int64()) for number in range(fields)])


def _producers(dial: Callable[[int], tuple[pa.Schema, str]], number: int) -> Attack:
    """So many at a time, each of an attempt of its own: with what schema, and for what query."""
    attempts = itertools.count()

    async def once(target: Target, _: Counter[str]) -> str:
        schema, query = dial(attempt := next(attempts))
        async with put(target.grpc, _THEIRS, schema, staging=Staging(query, 0, attempt, "x")):
            return "served"

    return _again(once, number)


def _passes_on(batch: Callable[[], pa.RecordBatch], **options: Any) -> Attack:
    """A chunk is sent and received, again and again."""

    async def once(target: Target, answers: Counter[str]) -> str:
        made, until = batch(), time.monotonic() + target.seconds
        async with (
            put(target.grpc, _THEIRS, made.schema, **options) as sender,
            get(target.grpc, _THEIRS, **options) as receiver,
            control(target.grpc, reply_timeout_seconds=60.0) as orders,
        ):
            (at,) = await orders.positions([_THEIRS])
            taken = at.next_row
            while time.monotonic() < until:
                await sender.send(made)
                await receiver.receive()
                taken += made.num_rows
                await orders.acknowledge({_THEIRS: taken})
                answers["passed on"] += 1
        return "left"

    return _again(once)


def _of_nulls(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.nulls(1, field.type) for field in schema], schema=schema)


def _largest() -> pa.RecordBatch:
    return pa.record_batch({"text": ["x" * _LARGEST_BYTES]})


async def _sends_nothing(target: Target, answers: Counter[str]) -> str:
    """Empty chunks, as many as a message has."""
    batch, until = pa.record_batch({"n": pa.nulls(1, pa.int64())}), time.monotonic() + target.seconds
    async with put(target.grpc, _THEIRS, batch.schema) as sender, get(target.grpc, _THEIRS):
        while time.monotonic() < until:
            await sender.send_many(deque([batch.slice(0, 0)] * MOST_EMPTY_CHUNKS))
            answers["sent"] += 1
    return "left"


_BEYOND: Final[dict[str, Attack]] = {
    "statistics of 312,500 channels": _requests(lambda: AskStatistics((ATTACKED,) * 312_500)),
    "names of 20 MiB": _producers(lambda _: (_schema(fields=1), "q" * (20 << 20)), 1),
    "8,000,000 empty chunks": _empty_chunks(8_000_000),
    "3,000,000 returns of nothing": _returns(3_000_000),
    "300,000 columns": _producers(lambda _: (_schema(fields=300_000), "q"), 1),
}
_WITHIN: Final[dict[str, Attack]] = {
    "statistics": _requests(lambda: AskStatistics(_MANY)),
    "positions": _requests(lambda: AskPositions(_MANY)),
    "acknowledgements": _requests(lambda: Acknowledge(tuple(ChannelRow(channel, 0) for channel in _MANY))),
    "closed channels": _requests(lambda: Close(_MANY)),
    "discarded attempts": _requests(lambda: Discard("q", 0, _parts(MOST_CHANNELS))),
    "a publication": _requests(lambda: Publish("q", 0, _parts(MOST_PUBLISHED))),
    "columns of a schema": _producers(lambda _: (_schema(), "q"), _DIALLING),
    "columns, of a new schema each": _producers(lambda attempt: (_schema(f"of {attempt} "), "q"), _DIALLING),
    "columns of a chunk": _passes_on(lambda: _of_nulls(_schema())),
    "dictionaries of a chunk": _passes_on(
        lambda: _of_nulls(_schema(kind=pa.dictionary(pa.int32(), pa.string()), fields=MAX_DICTIONARIES))
    ),
    "bytes of a chunk": _passes_on(_largest),
    "bytes of a message": _passes_on(_largest, same_host=SameHost.NEVER),
    "bytes of a decompressed message": _passes_on(_largest, same_host=SameHost.NEVER, compression=Compression.ZSTD),
    "empty chunks": _again(_sends_nothing),
    "frames of a message": _returns(MOST_FRAMES),
}
GREEDY: Final[dict[str, tuple[str, Attack]]] = {
    **{f"too much: {name}": ("grpc", attack) for name, attack in _BEYOND.items()},
    **{f"at the limit: {name}": ("grpc", attack) for name, attack in _WITHIN.items()},
}
"""As ``ATTACKS``."""

"""Measure what an honest neighbour notices of a peer that asks for too much, or for all that it may.

Measured are the neighbour's round trips of a small chunk, and the exchange's memory.  The p99 by the clock decides, so
the machine should be idle.  Beside it stands the p99 without the time in which the exchange or the neighbour was ready
and had no processor: it tells a busy machine from a busy exchange.

    python -m benchmarks.hostile_peers [ATTACK...]

The exchange, the neighbour and each attacker have a process of their own; the neighbour's is this one.
"""

import asyncio
import contextlib
import itertools
import os
import sys
import time
from collections import deque
from collections.abc import Callable, Coroutine, Iterable
from contextlib import AsyncExitStack
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import psutil
import pyarrow as pa

from benchmarks.harness import Partner, serving
from permitflow.carriers.carrier import Conversation
from permitflow.carriers.connection import CONTROL, GET_STREAM, PUT_STREAM
from permitflow.carriers.grpc_calls import calling
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
from permitflow.stream.handshake import PROTOCOL_VERSION
from permitflow.wire.arrow import MAX_CHUNK_BYTES
from permitflow.wire.arrow_metadata import MAX_DICTIONARIES, MAX_SCHEMA_FIELDS
from permitflow.wire.control_codec import encode_request
from permitflow.wire.v1 import exchange_pb2 as wire

LONGEST_P99_SECONDS = 0.2
MOST_GROWTH_BYTES = 1 << 30
SECONDS = 8.0
"""Seconds for which an attack is repeated; it is given up after three times as long.  ``nobody`` is the control."""
CHUNK = pa.record_batch({"n": pa.array([1], pa.int64())})
WIDE = pa.schema([(f"a column with quite a long name {number}", pa.int64()) for number in range(1_000)])
BETWEEN_SECONDS = 0.01
MANY = tuple(f"many/{number}" for number in range(MOST_CHANNELS))
ACKNOWLEDGED_ROUNDS = 100
DIALLING = 40
MOST_CHUNKS = 8_192
MOST_FRAMES = 8_192
LARGEST_BYTES = MAX_CHUNK_BYTES - 4_096


# By the name of the attack.
REQUESTS: dict[str, Callable[[], ControlRequest]] = {
    "statistics": lambda: AskStatistics(("honest/0",) * 312_500),
    "met-statistics": lambda: AskStatistics(MANY),
    "met-positions": lambda: AskPositions(MANY),
    "met-acknowledged": lambda: Acknowledge(tuple(ChannelRow(channel, 0) for channel in MANY)),
    "met-closed": lambda: Close(MANY),
    "met-discards": lambda: Discard("q", 0, _parts(MOST_CHANNELS)),
    "met-publication": lambda: Publish("q", 0, _parts(MOST_PUBLISHED)),
}


def _parts(number: int) -> tuple[StagedPart, ...]:
    return tuple(StagedPart("attacked/0", partition, "x", 0) for partition in range(number))


async def _ask(request: Callable[[], ControlRequest], address: str) -> None:
    message = encode_request(request())
    with contextlib.suppress(PermitflowError):
        async with calling(address, CONTROL, "the exchange", 60.0) as carrier:
            call = Conversation(carrier)
            until = time.monotonic() + SECONDS
            while time.monotonic() < until:
                await call.write([message])
                await call.read()


async def _names(address: str) -> None:
    async with AsyncExitStack() as stack:
        for number in range(20):
            key = Staging("q" * (20 << 20), 0, number, "x")
            with contextlib.suppress(PermitflowError):
                await stack.enter_async_context(put(address, "attacked/0", WIDE, staging=key))


async def _stream(address: str, method: str, first: bytes, second: bytes) -> None:
    with contextlib.suppress(PermitflowError):
        async with calling(address, method, "the exchange", 60.0) as carrier:
            call = Conversation(carrier)
            await call.write([first])
            await call.read()
            await call.write([second])
            call.half_close()
            while await call.read() is not None:
                pass


async def _empty_feedback(address: str) -> None:
    get_frame = wire.DownstreamFrame(get=wire.Get(protocol_version=PROTOCOL_VERSION, channel="attacked/0"))
    frames = [wire.DownstreamFrame(feedback=b"")] * 3_000_000
    first, second = (wire.FromDownstream(frames=each).SerializeToString() for each in ([get_frame], frames))
    await _stream(address, GET_STREAM, first, second)


async def _empty_chunks(address: str) -> None:
    schema = WIDE.serialize().to_pybytes()
    put_frame = wire.UpstreamFrame(put=wire.Put(protocol_version=PROTOCOL_VERSION, channel="attacked/0", schema=schema))
    chunks = wire.UpstreamFrame(chunks=wire.Chunks(rows=bytes(32_000_000)))
    first, second = (wire.FromUpstream(frames=[each]).SerializeToString() for each in (put_frame, chunks))
    await _stream(address, PUT_STREAM, first, second)


async def _wide_schema(address: str) -> None:
    schema = pa.schema([(f"c{number}", pa.int64()) for number in range(300_000)])
    with contextlib.suppress(PermitflowError):
        async with put(address, "attacked/0", schema):
            pass


_kept = itertools.count()


def _widest(names: str, kind: pa.DataType, fields: int = MAX_SCHEMA_FIELDS) -> pa.Schema:
    """As many fields as a schema may have."""
    return pa.schema([(f"{names}{number}", kind) for number in range(fields)])


async def _dial(address: str, schema: pa.Schema) -> None:
    key = Staging("widest", 0, next(_kept), "x")
    with contextlib.suppress(PermitflowError):
        async with put(address, "staged/0", schema, staging=key):
            pass


async def _widest_schema(address: str) -> None:
    async with asyncio.TaskGroup() as group:
        for _ in range(DIALLING):
            group.create_task(_dial(address, _widest("c", pa.int64())))


async def _widest_schemas(address: str) -> None:
    async with asyncio.TaskGroup() as group:
        for number in range(DIALLING):
            group.create_task(_dial(address, _widest(f"of {next(_kept)}, {number} ", pa.int64())))


async def _pass_on(address: str, channel: str, batch: pa.RecordBatch, **options: Any) -> None:
    """Send a chunk and take it, as long as an attack takes."""
    async with (
        put(address, channel, batch.schema, **options) as sender,
        get(address, channel, **options) as receiver,
        control(address, reply_timeout_seconds=60.0) as orders,
    ):
        (at,) = await orders.positions([channel])
        until = time.monotonic() + SECONDS
        taken = at.next_row
        while time.monotonic() < until:
            await sender.send(batch)
            await receiver.take()
            taken += batch.num_rows
            await orders.acknowledge({channel: taken})


async def _widest_chunks(address: str) -> None:
    schema = _widest("c", pa.int64())
    nothing = [pa.nulls(1, field.type) for field in schema]
    await _pass_on(address, "widest/0", pa.RecordBatch.from_arrays(nothing, schema=schema))


async def _most_dictionaries(address: str) -> None:
    schema = _widest("c", pa.dictionary(pa.int32(), pa.string()), MAX_DICTIONARIES)
    nothing = [pa.nulls(1, field.type) for field in schema]
    await _pass_on(address, "dictionaries/0", pa.RecordBatch.from_arrays(nothing, schema=schema))


def _largest() -> pa.RecordBatch:
    return pa.record_batch({"text": ["x" * LARGEST_BYTES]})


async def _largest_chunks(address: str) -> None:
    await _pass_on(address, "largest/0", _largest())


async def _largest_messages(address: str) -> None:
    await _pass_on(address, "largest/0", _largest(), same_host=SameHost.NEVER)


async def _most_expanded(address: str) -> None:
    await _pass_on(address, "largest/0", _largest(), same_host=SameHost.NEVER, compression=Compression.ZSTD)


async def _most_chunks(address: str) -> None:
    rows = pa.record_batch({"n": pa.nulls(MOST_CHUNKS, pa.int64())})
    async with put(address, "chunks/0", rows.schema) as sender, get(address, "chunks/0"):
        until = time.monotonic() + SECONDS
        while time.monotonic() < until:
            await sender.send_many(deque(rows.slice(row, 0) for row in range(MOST_CHUNKS)))


async def _most_frames(address: str) -> None:
    get_frame = wire.DownstreamFrame(get=wire.Get(protocol_version=PROTOCOL_VERSION, channel="attacked/0"))
    frames = [wire.DownstreamFrame(feedback=b"")] * MOST_FRAMES
    first, second = (wire.FromDownstream(frames=each).SerializeToString() for each in ([get_frame], frames))
    await _stream(address, GET_STREAM, first, second)


async def _nobody(_: str) -> None:
    await asyncio.sleep(SECONDS)


ATTACKS: dict[str, Callable[[str], Coroutine[Any, Any, None]]] = {
    "nobody": _nobody,
    **{name: partial(_ask, request) for name, request in REQUESTS.items()},
    "names": _names,
    "empty-chunks": _empty_chunks,
    "empty-feedback": _empty_feedback,
    "wide-schema": _wide_schema,
    "met-schema": _widest_schema,
    "met-schemas": _widest_schemas,
    "met-columns": _widest_chunks,
    "met-dictionaries": _most_dictionaries,
    "met-bytes": _largest_chunks,
    "met-messages": _largest_messages,
    "met-expansion": _most_expanded,
    "met-empty-chunks": _most_chunks,
    "met-frames": _most_frames,
}
"""Those named ``met-`` do what a peer may, to the limit: docs/guides/serving.md, "Limits"."""


async def _attack(_pipe: object, name: str, address: str) -> None:
    until = time.monotonic() + SECONDS
    while time.monotonic() < until:
        await ATTACKS[name](address)


class Trip(NamedTuple):
    """A chunk to the exchange and back."""

    seconds: float
    served_seconds: float
    """Without those in which the exchange or the neighbour waited for a processor, of which there may be few."""


def _waited_seconds(*pids: int) -> float:
    """How long the main threads of these processes were ready, and another thread had the processor."""
    return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) for pid in pids) / 1e9


async def _round_trips(address: str, pid: int, is_over: Callable[[], bool], note: Callable[[], None]) -> list[Trip]:
    """One after the other; the next one is not due before the last one is back.

    Counted from due times, trips of more than ``BETWEEN_SECONDS`` each would add up to any number of seconds, though
    none of them takes long.
    """
    found: list[Trip] = []
    pids = pid, os.getpid()
    async with (
        put(address, "honest/0", CHUNK.schema) as sender,
        get(address, "honest/0") as receiver,
        control(address, reply_timeout_seconds=60.0) as orders,
    ):
        (at,) = await orders.positions(["honest/0"])
        while not is_over():
            await asyncio.sleep(BETWEEN_SECONDS)
            waited, began = _waited_seconds(*pids), time.perf_counter()
            await sender.send(CHUNK)
            await receiver.take()
            seconds = time.perf_counter() - began
            found.append(Trip(seconds, max(0.0, seconds - (_waited_seconds(*pids) - waited))))
            if len(found) % ACKNOWLEDGED_ROUNDS == 0:
                await orders.acknowledge({"honest/0": at.next_row + len(found)})
            note()
    return found


def _p99_ms(seconds: Iterable[float]) -> float:
    ordered = sorted(seconds)
    return ordered[int(0.99 * len(ordered))] * 1e3


async def _measure(name: str) -> bool:
    names = ("honest", "attacked", "staged", "widest", "dictionaries", "largest", "chunks", f"many:{len(MANY)}")
    streams = (*(option for name in names for option in ("--stream", name)), "--retention", "replay")
    with serving(*streams, "--address", "127.0.0.1:0") as (address, pid):
        async with put(address, "attacked/0", WIDE):
            pass  # The channel that is attacked has a schema from now on.
        exchange = psutil.Process(pid)
        first = peak = exchange.memory_info().rss

        def note() -> None:
            nonlocal peak
            peak = max(peak, exchange.memory_info().rss)

        attacker = Partner(_attack, name, address)
        last = time.monotonic() + 3 * SECONDS
        try:
            trips = await _round_trips(address, pid, lambda: attacker.has_ended() or time.monotonic() > last, note)
        finally:
            attacker.kill()
    served = [trip.served_seconds for trip in trips]
    p99_ms = _p99_ms(trip.seconds for trip in trips)
    is_well = p99_ms < LONGEST_P99_SECONDS * 1e3 and peak - first < MOST_GROWTH_BYTES
    print(
        f"{name:16} round trips {len(trips):5,}  p99 {p99_ms:8.1f} ms,"
        f" without waiting for a processor {_p99_ms(served):6.1f} ms, longest {max(served) * 1e3:6.1f} ms"
        f"  memory {first >> 20:5,} -> {peak >> 20:6,} MiB  {'met' if is_well else 'MISSED'}",
        flush=True,
    )
    return is_well


def main(arguments: list[str]) -> int:
    """Measure these, or all; 1: the neighbour noticed too much, 2: an attack is unknown."""
    if unknown := [name for name in arguments if name not in ATTACKS]:
        print(f"unknown: {', '.join(unknown)}; the attacks are {', '.join(ATTACKS)}", file=sys.stderr)
        return 2
    are_well = [asyncio.run(_measure(name)) for name in arguments or ATTACKS]
    return 0 if all(are_well) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

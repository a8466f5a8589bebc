"""Both ends of a call of gRPC, each a process: a client of ``permitflow.stages.calls``, and a server with handlers.

gRPC has no checksums of its own.  Where bits are flipped, both ends speak TLS, with the key of ``localhost.pem``.
"""

import asyncio
import json
import signal
import time
import traceback
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa

from permitflow.errors import PermitflowError, SourceInterruptedError
from permitflow.stages import Source
from tests.faults.parties import SCHEMA, Journal, Role, chunk
from tests.faults.schedules import Method, Party, Schedule

if TYPE_CHECKING:
    import grpc

CERTIFICATE = Path(__file__).with_name("localhost.pem")
CALL_KEY = "call"
"""Metadata: which call this is, so that the journals of both ends can be compared."""
# A silent peer is noticed after both together.
PING_EVERY_MS, SILENCE_MS = 2_000, 5_000
KEEPALIVE = (
    ("grpc.keepalive_time_ms", PING_EVERY_MS),
    ("grpc.keepalive_timeout_ms", SILENCE_MS),
    ("grpc.http2.ping_timeout_ms", SILENCE_MS),
    ("grpc.http2.max_pings_without_data", 0),
    # Else a server hangs up on a client that pings so often.
    ("grpc.http2.min_ping_interval_without_data_ms", PING_EVERY_MS // 2),
    ("grpc.http2.max_ping_strikes", 0),
)


def encoded(batch: pa.RecordBatch) -> bytes:
    """A message: the rows' numbers, column by column."""
    return b"".join(column.to_numpy().tobytes() for column in batch.columns)


def decoded(message: bytes) -> pa.RecordBatch:
    columns = np.frombuffer(message, np.int64).reshape(len(SCHEMA), -1)
    return pa.record_batch([pa.array(column) for column in columns], schema=SCHEMA)


def options_of(schedule: Schedule) -> list[tuple[str, int]]:
    """Of both ends: each reads with the same window."""
    from permitflow.stages.calls import Window

    assert schedule.call is not None, "of calls"
    return [*Window(schedule.call.window_bytes).options, *KEEPALIVE]


class CallEnd:
    """One end of one call: what it gives and takes is in the journal, with the name of the call."""

    def __init__(self, schedule: Schedule, journal: Journal, name: str) -> None:
        assert schedule.call is not None, "of calls"
        self.schedule, self.call, self.journal = schedule, schedule.call, journal
        self.facts = {CALL_KEY: name}
        self.rows = 0
        """Taken."""

    def tell(self, event: str, **facts: Any) -> None:
        self.journal.tell(event, **facts, **self.facts)

    async def given(self, breaks_at_row: int | None = None) -> AsyncIterator[pa.RecordBatch]:
        """All rows, in messages of one size; or those before a row at which the source fails."""
        self.tell("opened")
        rows, own = self.schedule.producer.largest_chunk_rows, self.schedule.producer
        try:
            for first in range(0, self.schedule.rows, rows):
                if breaks_at_row is not None and first >= breaks_at_row:
                    raise SourceInterruptedError(source="of the schedule")
                yield self.gave(chunk(first, rows))
                if own.pause_seconds:
                    await asyncio.sleep(own.pause_seconds)
            await asyncio.sleep(own.idle_seconds)
        finally:
            self.tell("closed")

    def gave(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        self.journal.gave(batch.num_rows, **self.facts)
        return batch

    def took(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        self.journal.took(batch, **self.facts)
        self.rows += batch.num_rows
        return batch

    async def take(self, batches: Source[pa.RecordBatch]) -> None:
        """Take rows until their end, or until there are enough."""
        async with batches.map(self.took).open() as taken:
            await asyncio.sleep(self.schedule.consumer.idle_seconds)
            async for _ in taken:
                if self.call.takes_rows <= self.rows < self.schedule.rows:
                    self.tell("left")
                    return
                if self.schedule.consumer.pause_seconds:
                    await asyncio.sleep(self.schedule.consumer.pause_seconds)


class CallingClient(Role):
    """Calls the method until a call has come to its end, or to as many rows as it wants."""

    party = Party.CLIENT
    calls = 0

    async def play(self) -> None:
        if self.schedule.call is not None and self.schedule.call.keeps_connection:
            async with self.channel() as channel:
                self.play_once = partial(self.call, channel)  # type: ignore[method-assign]  # the tries share it
                await super().play()
        else:
            await super().play()

    async def play_once(self) -> None:
        async with self.channel() as channel:
            await self.call(channel)

    def channel(self) -> "grpc.aio.Channel":
        import grpc

        options = options_of(self.schedule)
        if not self.schedule.has_tls:
            return grpc.aio.insecure_channel(self.address, options=options)
        credentials = grpc.ssl_channel_credentials(CERTIFICATE.read_bytes())
        return grpc.aio.secure_channel(self.address, credentials, options=options)

    async def call(self, channel: "grpc.aio.Channel") -> None:
        from permitflow.stages import calls

        assert self.schedule.call is not None, "of calls"
        self.calls += 1
        call = self.schedule.call
        end = CallEnd(self.schedule, self.journal, f"{self.journal.pid}/{self.calls}")
        types = {"request_serializer": encoded, "response_deserializer": decoded}
        options: Any = {"metadata": list(end.facts.items())}
        end.tell("began", row=0)
        given = Source(end.given(call.breaks_at_row if self.calls == 1 else None))
        match call.method:
            case Method.SOURCE:
                source: Any = channel.unary_stream("/Rows/source", response_deserializer=decoded)
                await end.take(calls.source(source, b"", prefetch=call.prefetch, **options))
            case Method.FLOW:
                flow: Any = channel.stream_stream("/Rows/flow", **types)
                await end.take(given.through(calls.flow(flow, prefetch=call.prefetch, **options)))
            case Method.SINK:
                sink: Any = channel.stream_unary("/Rows/sink", request_serializer=encoded)
                answer = await given.through(calls.sink(sink, **options))
                end.journal.ended(f"answered {int(answer)}", **end.facts)
                return
        if end.rows == self.schedule.rows:
            end.tell("ended", outcome="clean end")

    def is_final(self, error: PermitflowError) -> bool:
        """A call can be made again: every fault is over some time."""
        return False


class Rows:
    """The handlers of a server."""

    def __init__(self, schedule: Schedule, journal: Journal) -> None:
        assert schedule.call is not None, "of calls"
        self.schedule, self.journal, self.prefetch = schedule, journal, schedule.call.prefetch
        self.under_way = 0
        self.changed = asyncio.Event()

    @contextmanager
    def end_of(self, context: Any) -> Iterator[CallEnd]:
        """Of a call that is under way within this block."""
        # gRPC begins a call whose connection has broken within its metadata, too: without them.
        name = dict(context.invocation_metadata()).get(CALL_KEY, f"without a name at {time.monotonic()}")
        end = CallEnd(self.schedule, self.journal, name)
        end.tell("began", row=0)
        self.under_way += 1
        try:
            yield end
        except BaseException as error:
            self.journal.failed(error, **end.facts)
            raise
        finally:
            self.under_way -= 1
            self.changed.set()

    async def source(self, _: object, context: Any) -> None:
        from permitflow.stages import calls

        with self.end_of(context) as end:
            await calls.respond(context, end.given())
            end.tell("ended", outcome="sent")

    async def flow(self, requests: Any, context: Any) -> None:
        from permitflow.stages import calls

        with self.end_of(context) as end:
            taken = calls.requests(requests, context, prefetch=self.prefetch).map(end.took)
            await calls.respond(context, taken.map(end.gave))
            end.tell("ended", outcome="sent")

    async def sink(self, requests: Any, context: Any) -> bytes:
        from permitflow.stages import calls

        with self.end_of(context) as end:
            async with calls.answering(context):
                await end.take(calls.requests(requests, context, prefetch=self.prefetch))
            if end.rows == self.schedule.rows:
                end.tell("ended", outcome="clean end")
            return str(end.rows).encode()


async def _serve(schedule: Schedule, address: str, journal: Journal) -> None:
    import grpc

    rows, asked = Rows(schedule, journal), asyncio.Event()
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, asked.set)
    types: Any = {"request_deserializer": decoded, "response_serializer": encoded}
    handlers = {
        "source": grpc.unary_stream_rpc_method_handler(rows.source, response_serializer=encoded),
        "flow": grpc.stream_stream_rpc_method_handler(rows.flow, **types),
        "sink": grpc.stream_unary_rpc_method_handler(rows.sink, request_deserializer=decoded),
    }
    server = grpc.aio.server(options=[*options_of(schedule), ("grpc.so_reuseport", 0)])
    server.add_generic_rpc_handlers([grpc.method_handlers_generic_handler("Rows", handlers)])
    pem = CERTIFICATE.read_bytes()
    port = (
        server.add_secure_port(address, grpc.ssl_server_credentials([(pem, pem)]))
        if schedule.has_tls
        else server.add_insecure_port(address)
    )
    await server.start()
    print(json.dumps({"event": "listening", "address": f"127.0.0.1:{port}"}), flush=True)
    await asked.wait()
    # All clients are over: their calls end by themselves, or this process is judged to hang.
    while rows.under_way:
        rows.changed.clear()
        await rows.changed.wait()
    await server.stop(None)
    print(json.dumps({"event": "stopped"}), flush=True)


def serve_calls(schedule: Schedule, addresses: Mapping[str, str], folder: Path, _: object) -> None:
    """The server, until SIGTERM."""
    journal = Journal(folder / f"{Party.SERVER}.journal")
    try:
        with suppress(asyncio.CancelledError):
            asyncio.run(_serve(schedule, addresses.get("address", "127.0.0.1:0"), journal))
    except BaseException:
        journal.tell("crashed", traceback=traceback.format_exc())
        raise

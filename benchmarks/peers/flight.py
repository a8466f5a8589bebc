"""Arrow Flight: ``DoGet``, which knows no permits, and ``DoExchange`` with permits by hand.

The third way adds our own ideas to Flight, so that the peer is as strong as it can be: small chunks are concatenated,
and the consumer reads them joined.
"""

import struct
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pyarrow as pa
from pyarrow import flight

from benchmarks.jobs import Job, Tally
from benchmarks.peers.way import Consumer, Group, Producer, Way

# Above this size concatenating costs more than a message of its own.
TRAIN_CHUNK_BYTES = 8 << 10
# What grpcio and Flight carry well in one message.
TRAIN_BYTES = 512 << 10
END = b"end"

Exchange = Callable[[Job, "_Permits", flight.MetadataRecordBatchWriter], None]


class _Server(flight.FlightServerBase):  # type: ignore[misc]  # pyarrow has no annotations
    def __init__(self, exchange: Exchange, address: str, **tls: Any) -> None:
        super().__init__(address, **tls)
        self._exchange = exchange
        self.job: Job

    def do_get(self, context: flight.ServerCallContext, ticket: flight.Ticket) -> flight.FlightDataStream:
        return flight.GeneratorStream(self.job.shape.schema, self.job.feed())

    def do_exchange(
        self,
        context: flight.ServerCallContext,
        descriptor: flight.FlightDescriptor,
        reader: flight.MetadataRecordBatchReader,
        writer: flight.MetadataRecordBatchWriter,
    ) -> None:
        """With permits, which the consumer returns as metadata."""
        writer.begin(self.job.shape.schema)
        permits = _Permits(self.job.row_permits, reader)
        self._exchange(self.job, permits, writer)
        # Permits that cross the return of this method would cost the consumer chunks: it must know the end first.
        writer.write_metadata(END)
        permits.drain()


class _Permits:
    """Reads returned permits when they are needed; until then gRPC keeps them."""

    def __init__(self, rows: int, reader: flight.MetadataRecordBatchReader) -> None:
        self.rows = rows
        self._reader = reader

    def take(self, rows: int) -> None:
        while self.rows < rows:
            (returned,) = struct.unpack("q", self._reader.read_chunk().app_metadata)
            self.rows += returned
        self.rows -= rows

    def drain(self) -> None:
        for _ in self._reader:
            pass


def exchange_chunks(job: Job, permits: _Permits, writer: flight.MetadataRecordBatchWriter) -> None:
    for chunk in job.feed():
        permits.take(chunk.num_rows)
        writer.write_batch(chunk)


def exchange_trains(job: Job, permits: _Permits, writer: flight.MetadataRecordBatchWriter) -> None:
    """Small chunks together, with the rows of each as metadata."""
    for burst in job.bursts():
        for train in _trains(job, burst):
            rows = [chunk.num_rows for chunk in train]
            permits.take(sum(rows))
            joined = train[0] if len(train) == 1 else _joined(train)
            writer.write_with_metadata(joined, struct.pack(f"{len(rows)}q", *rows))


def _trains(job: Job, burst: list[pa.RecordBatch]) -> Iterator[list[pa.RecordBatch]]:
    length = 1
    if job.shape.chunk_bytes < TRAIN_CHUNK_BYTES:
        length = max(1, min(job.max_rows_at_once // job.shape.rows, TRAIN_BYTES // job.shape.chunk_bytes))
    for first in range(0, len(burst), length):
        yield burst[first : first + length]


def _joined(train: list[pa.RecordBatch]) -> pa.RecordBatch:
    (joined,) = pa.Table.from_batches(train).combine_chunks().to_batches()
    return joined


class FlightProducer(Producer):
    """A Flight server, whose threads do the work."""

    def __init__(
        self, exchange: Exchange = exchange_chunks, *, address: str = "grpc://127.0.0.1:0", **tls: Any
    ) -> None:
        """``exchange`` says how chunks become messages; ``tls`` as Flight's server takes it."""
        self._server = _Server(exchange, address, **tls)
        self.port: int = self._server.port
        self.address = f"grpc://127.0.0.1:{self.port}"

    def prepare(self, job: Job) -> None:
        self._server.job = job

    def close(self) -> None:
        self._server.shutdown()


class GetConsumer(Consumer):
    def __init__(self, address: str, **tls: Any) -> None:
        """``tls`` as Flight's client takes it."""
        self._client = flight.connect(address, **tls)

    def consume(self, job: Job, tally: Tally) -> None:
        for item in self._client.do_get(flight.Ticket(b"")):
            tally.take(item.data)


class ExchangeConsumer(GetConsumer):
    """``DoExchange``: returns permits in batches."""

    def consume(self, job: Job, tally: Tally) -> None:
        writer, reader = self._client.do_exchange(flight.FlightDescriptor.for_command(b""))
        unreturned = 0
        with writer:
            for item in reader:
                if item.data is None:
                    writer.done_writing()
                    continue
                self._take(item, tally)
                unreturned += item.data.num_rows
                if unreturned >= job.permit_batch:
                    writer.write_metadata(struct.pack("q", unreturned))
                    unreturned = 0

    def _take(self, item: flight.FlightStreamChunk, tally: Tally) -> None:
        tally.take(item.data)


class TrainConsumer(ExchangeConsumer):
    """Reads the concatenated chunks as one batch."""

    def _take(self, item: flight.FlightStreamChunk, tally: Tally) -> None:
        rows = item.app_metadata
        tally.take_joined(item.data, struct.unpack(f"{rows.size // struct.calcsize('q')}q", rows))


PERMITS = "one message for each chunk; permits return as metadata"
TrainProducer = partial(FlightProducer, exchange_trains)
TRAINS = "the same with small chunks concatenated, and read joined by the consumer"
WAYS = (
    Way("Flight DoGet", Group.PLAIN, "one message for each chunk; only HTTP/2's windows", FlightProducer, GetConsumer),
    Way("Flight DoExchange, permits by hand", Group.PEER, PERMITS, FlightProducer, ExchangeConsumer, target="peer"),
    Way("Flight DoExchange, our trains by hand", Group.PEER, TRAINS, TrainProducer, TrainConsumer),
)

"""Ways without permits: a pipe, and sockets.

``multiprocessing``'s connections are what its ``Pipe`` returns; each chunk is one message.  Sockets carry Arrow IPC
streams: a slow consumer is noticed only by full socket buffers.
"""

import os
import socket
import tempfile
from multiprocessing.connection import Client, Listener

import pyarrow as pa

from benchmarks.jobs import Job, Tally
from benchmarks.peers.way import Consumer, Group, Producer, Way


class PipeProducer(Producer):
    """Listens at a Unix socket, as a duplex ``Pipe`` is one."""

    def __init__(self) -> None:
        self._listener = Listener(family="AF_UNIX")
        self.address = str(self._listener.address)

    def produce(self, job: Job) -> None:
        """An empty message is the end."""
        with self._listener.accept() as connection:
            for chunk in job.feed():
                connection.send_bytes(memoryview(chunk.serialize()))
            connection.send_bytes(b"")

    def close(self) -> None:
        self._listener.close()


class PipeConsumer(Consumer):
    def consume(self, job: Job, tally: Tally) -> None:
        schema = job.shape.schema
        with Client(self.address, family="AF_UNIX") as connection:
            while message := connection.recv_bytes():
                tally.take(pa.ipc.read_record_batch(pa.py_buffer(message), schema))


# Small chunks are written and read together; larger ones bypass the buffer.
BUFFER_BYTES = 256 << 10


class SocketProducer(Producer):
    """Listens; a connection for each job.  Without a folder it listens on TCP."""

    def __init__(self, folder: str = "") -> None:
        self._listener = socket.socket(socket.AF_UNIX if folder else socket.AF_INET)
        self._listener.bind(f"{folder}/chunks" if folder else ("127.0.0.1", 0))
        self._listener.listen()
        name = self._listener.getsockname()
        self.address = name if folder else str(name[1])

    def produce(self, job: Job) -> None:
        connection, _ = self._listener.accept()
        with connection, connection.makefile("wb", buffering=BUFFER_BYTES) as file:
            if connection.family is socket.AF_INET:
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with pa.ipc.new_stream(file, job.shape.schema) as stream:
                for burst in job.bursts():
                    for chunk in burst:
                        stream.write_batch(chunk)
                    if job.is_paced:
                        file.flush()

    def close(self) -> None:
        self._listener.close()


class UnixProducer(SocketProducer):
    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory()
        super().__init__(self._folder.name)

    def close(self) -> None:
        super().close()
        self._folder.cleanup()


class SocketConsumer(Consumer):
    def consume(self, job: Job, tally: Tally) -> None:
        is_path = os.sep in self.address
        with socket.socket(socket.AF_UNIX if is_path else socket.AF_INET) as connection:
            connection.connect(self.address if is_path else ("127.0.0.1", int(self.address)))
            with connection.makefile("rb", buffering=BUFFER_BYTES) as file:
                for chunk in pa.ipc.open_stream(file):
                    tally.take(chunk)


STREAMS = "`pyarrow.ipc` streams, buffered"
WAYS = (
    Way("multiprocessing.Pipe", Group.PLAIN, "serialised batches, one message each", PipeProducer, PipeConsumer),
    Way("Arrow IPC over a Unix socket", Group.PLAIN, STREAMS, UnixProducer, SocketConsumer),
    Way("Arrow IPC over TCP", Group.PLAIN, STREAMS, SocketProducer, SocketConsumer),
)

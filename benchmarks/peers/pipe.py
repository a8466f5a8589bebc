"""``multiprocessing``'s connections, which are what its ``Pipe`` returns; each chunk is one message."""

from multiprocessing.connection import Client, Listener

import pyarrow as pa

from benchmarks.jobs import Job, Tally
from benchmarks.peers.way import Consumer, Group, Producer, Way

__all__ = ["WAYS"]


class PipeProducer(Producer):
    """Listens at a Unix socket, as a duplex ``Pipe`` is one."""

    def __init__(self) -> None:
        """A path of its own."""
        self._listener = Listener(family="AF_UNIX")
        self.address = str(self._listener.address)

    def produce(self, job: Job) -> None:
        """An empty message is the end."""
        with self._listener.accept() as connection:
            for chunk in job.feed():
                connection.send_bytes(memoryview(chunk.serialize()))
            connection.send_bytes(b"")

    def close(self) -> None:
        """Remove the socket's file."""
        self._listener.close()


class PipeConsumer(Consumer):
    """Dials for each job."""

    def __init__(self, address: str) -> None:
        """A path."""
        self._address = address

    def consume(self, job: Job, tally: Tally) -> None:
        """Read messages up to the empty one."""
        schema = job.shape.schema
        with Client(self._address, family="AF_UNIX") as connection:
            while message := connection.recv_bytes():
                tally.take(pa.ipc.read_record_batch(pa.py_buffer(message), schema))


WAYS = (Way("multiprocessing.Pipe", Group.PLAIN, "serialised batches, one message each", PipeProducer, PipeConsumer),)

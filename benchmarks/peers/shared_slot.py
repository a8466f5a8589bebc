"""Arrow IPC in one slot of shared memory, at which both processes look all the time: nobody sleeps, nobody is told.

Arrow writes the chunk, it is copied in and out, Arrow reads it.  Nothing else is in it: no system call, no event loop,
no permits, no end.  A way that sleeps between two chunks cannot come close with one that is alone, and none of ours
does less.  It takes two processors whole.
"""

import mmap
import os
import struct
from pathlib import Path

import pyarrow as pa

from benchmarks.jobs import Job, Tally
from benchmarks.peers.way import Consumer, Group, Producer, Way

__all__ = ["WAYS"]

SLOT_BYTES = 8 << 20
# How many chunks were written, how long the last one is, and how many were taken.
_WRITTEN, _LENGTH, _TAKEN = range(3)
_HEADER_BYTES = 3 * struct.calcsize("q")


class _Slot:
    """Room for one chunk."""

    def __init__(self, descriptor: int) -> None:
        self._memory = memoryview(mmap.mmap(descriptor, SLOT_BYTES))
        self.header = self._memory[:_HEADER_BYTES].cast("q")
        self.content = self._memory[_HEADER_BYTES:]


class SlotProducer(Producer):
    """Writes a chunk when the one before was taken."""

    def __init__(self) -> None:
        """Makes the memory, which nobody need remove."""
        self._descriptor = os.memfd_create("slot")
        os.truncate(self._descriptor, SLOT_BYTES)
        self._slot = _Slot(self._descriptor)
        self.address = f"/proc/{os.getpid()}/fd/{self._descriptor}"

    def prepare(self, job: Job) -> None:
        """Count from zero."""
        self._slot.header[_WRITTEN] = self._slot.header[_TAKEN] = 0

    def produce(self, job: Job) -> None:
        """Write all chunks."""
        header, content = self._slot.header, self._slot.content
        for written, chunk in enumerate(job.feed(), start=1):
            serialized = chunk.serialize()
            assert serialized.size <= len(content), f"a chunk of {serialized.size:,} bytes does not fit the slot"
            while header[_TAKEN] < written - 1:
                pass
            content[: serialized.size] = memoryview(serialized).cast("B")
            header[_LENGTH] = serialized.size
            header[_WRITTEN] = written

    def close(self) -> None:
        """Close the memory's descriptor; what is mapped goes with the process."""
        os.close(self._descriptor)


class SlotConsumer(Consumer):
    """Looks until there is a chunk."""

    def __init__(self, address: str) -> None:
        """Where the producer's memory can be opened."""
        with Path(address).open("r+b") as file:
            self._slot = _Slot(file.fileno())

    def consume(self, job: Job, tally: Tally) -> None:
        """Read all chunks, each a copy: the slot is needed for the next one."""
        header, content, schema = self._slot.header, self._slot.content, job.shape.schema
        for taken in range(1, job.chunks + 1):
            while header[_WRITTEN] < taken:
                pass
            message = bytes(content[: header[_LENGTH]])
            header[_TAKEN] = taken
            tally.take(pa.ipc.read_record_batch(pa.py_buffer(message), schema))


WAYS = (
    Way(
        "Arrow IPC in shared memory, both ends always looking",
        Group.PLAIN,
        "one slot; nobody sleeps, nobody is told: about the least that Python and Arrow take for a chunk alone",
        SlotProducer,
        SlotConsumer,
        is_for_latency=True,
    ),
)

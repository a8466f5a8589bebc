"""A thousand ends of streams with permits still on their way: does any lose a chunk, or fail?

A batch of one permit makes the consumer return permits for each chunk; the last returns cross the end of the stream.
"""

from dataclasses import dataclass

from rich.progress import track

from benchmarks.field import Field
from benchmarks.jobs import Job
from benchmarks.payloads import PAYLOADS
from benchmarks.peers.way import Group
from benchmarks.records import Record

__all__ = ["StreamEnds", "measure_stream_ends"]

PAYLOAD = PAYLOADS["64"]
CHUNKS = 40


@dataclass(frozen=True)
class StreamEnds(Record):
    """Of one way."""

    way: str
    streams: int
    failed: int
    """Streams that ended with an error, or without all of their chunks."""


async def measure_stream_ends(field: Field) -> list[StreamEnds]:
    """Ways of ours that targets are about."""
    found = []
    for way in [way for way in field.ways if way.group is Group.OURS and way.target]:
        job = Job(payload=PAYLOAD.name, chunks=CHUNKS, row_permits=PAYLOAD.row_permits, permit_batch=1)
        streams = range(field.settings.stream_ends)
        samples = [await field.run(way, job) for _ in track(streams, f"ends, {way.name}", console=field.console)]
        found.append(StreamEnds(way.name, len(samples), sum(sample is None for sample in samples)))
    return found

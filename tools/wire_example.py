"""The example in docs/protocols/wire.md: a whole small stream over TCP, byte by byte.

    python -m tools.wire_example      writes the example again

A test compares the document with what this would write, and plays the dialler's bytes to an exchange.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Final, NamedTuple

import pyarrow as pa

from permitflow import ChannelParameters, Permits
from permitflow.carriers.byte_stream import StreamMessageKind
from permitflow.carriers.framing import header
from permitflow.flows.messages import Kind, Message
from permitflow.flows.permits.agreement import PERMITS
from permitflow.stream.frames import (
    Agreement,
    Data,
    DownstreamFrame,
    End,
    Ended,
    EndOutcome,
    Feedback,
    Get,
    ReturnedBytes,
)
from permitflow.stream.handshake import PROTOCOL_VERSION
from permitflow.wire.arrow import BatchCodec
from permitflow.wire.checksum import Checksums
from permitflow.wire.codec import EncodedChunks, WireFrame, encode_downstream, encode_upstream
from tools.marks import pasted

DOCUMENT = Path(__file__).resolve().parent.parent / "docs/protocols/wire.md"
MARK = "example"
BATCH: Final = pa.record_batch({"n": pa.array([1, 2, 3], pa.int64())})
CHANNEL: Final = "orders/0"
PARAMETERS: Final = ChannelParameters(row_permits=64, permit_batch=16, max_chunk_cost=32)
BYTE_WINDOW: Final = 1 << 20
_BYTES_OF_LINE = 24


class Step(NamedTuple):
    """Bytes that one end writes."""

    is_dialler: bool
    words: str
    data: bytes


def steps() -> Iterator[Step]:
    """The stream, in order."""
    codec = BatchCodec(BATCH.schema)
    (arrow,) = (b"".join(codec.encode([BATCH])),)
    ours, theirs = Checksums(wanted=None), Checksums(wanted=True)

    def down(words: str, *frames: DownstreamFrame) -> Step:
        ((message,),) = encode_downstream(frames, PERMITS)
        return Step(True, words, _framed(ours.add([message])))

    def up(words: str, *frames: WireFrame) -> Step:
        (message,) = encode_upstream(frames)
        return Step(False, words, _framed(theirs.add(message)))

    yield Step(True, "kind 4: it calls GetStream", header(StreamMessageKind.GET))
    yield down("frame Get: version, channel, byte window", Get(PROTOCOL_VERSION, CHANNEL, byte_window=BYTE_WINDOW))
    agreement = Agreement(
        PROTOCOL_VERSION,
        PERMITS.name,
        PERMITS.state(PARAMETERS),
        codec.schema_bytes,
        f"{CHANNEL}#get1",
        byte_window=BYTE_WINDOW,
    )
    yield up("frame Agreement", agreement)
    yield up(
        f"frame Chunks: one of {BATCH.num_rows} rows, {len(arrow)} bytes; padding; the record batch",
        EncodedChunks((BATCH.num_rows,), (arrow,)),
    )
    yield down(
        f"frame feedback: {BATCH.num_rows} permits, for nothing else waits; returned_bytes",
        Feedback(Permits(rows=BATCH.num_rows)),
        ReturnedBytes(len(arrow)),
    )
    yield up("frame barrier: it carries the integer -1", Data(Message(Kind.BARRIER, -1)))
    yield down("frame feedback: a barrier permit", Feedback(Permits(barriers=1)))
    yield up("frame End: the totals, until CONSUMED", End(1, BATCH.num_rows, 1, until=EndOutcome.CONSUMED))
    yield down("frame Ended: CONSUMED", Ended(EndOutcome.CONSUMED))
    yield Step(True, "kind 1: it closes its half", header(StreamMessageKind.END))
    yield Step(False, "kind 1: the status is OK; the acceptor closes the connection", header(StreamMessageKind.END))


def _framed(pieces: list[bytes | memoryview]) -> bytes:
    message = b"".join(pieces)
    return header(StreamMessageKind.MESSAGE, len(message)) + message


def example() -> str:
    """The steps as text: what is written, and its bytes in hexadecimal."""
    lines = []
    for step in steps():
        lines.append(f"{'dialler' if step.is_dialler else 'acceptor'}: {step.words}")
        for start in range(0, len(step.data), _BYTES_OF_LINE):
            lines.append("    " + step.data[start : start + _BYTES_OF_LINE].hex(" "))
    return "\n".join(["```text", *lines, "```"])


def page(text: str) -> str:
    """The document with this example."""
    return pasted(text, MARK, example() + "\n")


if __name__ == "__main__":
    DOCUMENT.write_text(page(DOCUMENT.read_text("utf-8")), "utf-8")

"""The receiving end of a stream without a stream: trains are handed to it, and read joined or singly."""

from collections.abc import Callable, Sequence
from typing import NamedTuple

import pyarrow as pa

from permitflow.protocol.frames import Data, Put
from permitflow.protocol.messages import Kind, Message
from permitflow.protocol.parameters import ChannelParameters, Oversize
from permitflow.protocol.receiver import PermitReceiver
from permitflow.protocol.session import DownstreamSession
from permitflow.tracing import MemoryTrace
from permitflow.transports.arrivals import Arrivals
from permitflow.transports.arrow import BatchCodec
from permitflow.transports.codec import encode_upstream
from permitflow.transports.frame_codec import EncodedChunks, WireFrame
from permitflow.transports.joined import JoinedChunks, oldest_joined, whole_batch
from tests.support.sessions import ADDRESS

__all__ = ["COLUMNS", "PARAMETERS", "Reader", "Seen"]

PARAMETERS = ChannelParameters(
    row_permits=40, permit_batch=5, max_chunk_cost=4, barrier_permits=40, oversize=Oversize.WHOLE
)
COLUMNS: dict[str, Callable[[int, int], pa.Array]] = {
    "fixed width": lambda first, rows: pa.array(range(first, first + rows), pa.int64()),
    "strings": lambda first, rows: pa.array([str(first + row) for row in range(rows)], pa.string()),
    "dictionaries": lambda first, rows: pa.array([str(first + row) for row in range(rows)]).dictionary_encode(),
}


class Seen(NamedTuple):
    """A message, as its reader has it."""

    kind: Kind
    rows: int
    content: object


class Reader(Arrivals):
    """The receiving end of a stream; what comes is handed to it as a train."""

    def __init__(self, column: str, *, is_recorded: bool, parameters: ChannelParameters = PARAMETERS) -> None:
        """``column`` is one of ``COLUMNS``."""
        trace = MemoryTrace()
        self.events = trace.events
        self.parameters = parameters
        self._session: DownstreamSession[object] = DownstreamSession(record=trace.recorder if is_recorded else None)
        self._session.receive(Put(1, ADDRESS))
        self._session.accept(parameters, schema=b"schema", stream="stream")
        self._session.take_frames()
        self.column = COLUMNS[column]
        self.codec = self._batches = BatchCodec(pa.schema([("n", self.column(0, 1).type)]))
        self.seen: list[Seen] = []
        self.sent_rows = 0

    @property
    def core(self) -> PermitReceiver[object]:
        """Its books."""
        return self._session.receiver

    def deliver(self, rows: Sequence[int]) -> None:
        """A train of chunks with so many rows each comes in."""
        for train in [rows] if self.codec.can_join else [[count] for count in rows]:
            chunks = [self.batch(count) for count in train]
            permits = sum(map(self.parameters.cost_of, train))
            encoded = EncodedChunks(tuple(train), permits, [b"".join(self.codec.encode(chunks))])
            self.take_in(encoded)

    def take_in(self, frame: WireFrame) -> None:
        """A frame comes in."""
        for message in encode_upstream([frame]):
            self._take_in(b"".join(message))

    def _note(self, frame: WireFrame) -> None:
        assert isinstance(frame, Data)

    def batch(self, rows: int) -> pa.RecordBatch:
        """The next rows of the column."""
        first, self.sent_rows = self.sent_rows, self.sent_rows + rows
        return pa.record_batch([self.column(first, rows)], schema=self.codec.schema)

    def mark(self) -> None:
        """A barrier comes in."""
        self.take_in(Data(Message(Kind.BARRIER, "epoch", 0, 1)))

    def note(self, message: Message[object]) -> None:
        """Note what a reader has got."""
        payload = message.payload
        content = payload.column(0).to_pylist() if isinstance(payload, pa.RecordBatch) else payload
        self.seen.append(Seen(message.kind, message.rows, content))

    def receive(self, messages: int) -> None:
        """Take messages one by one, and consume them."""
        self.take(messages)
        self._session.consume(messages)

    def take(self, messages: int) -> None:
        """Take messages one by one."""
        self._unfold()
        for _ in range(messages):
            self.note(self._session.take())

    def receive_joined(self, max_rows: int | None) -> int:
        """Take chunks joined, if they can be, and consume them; how many messages."""
        joined = self.oldest_joined(max_rows)
        if joined is None:
            self.receive(1)
            return 1
        self.core.pass_by(len(joined))
        return self.note_joined(joined, max_rows)

    def take_joined(self, max_rows: int | None) -> int:
        """Take chunks joined, if they can be; how many messages."""
        joined = self.oldest_joined(max_rows)
        if joined is None:
            self.take(1)
            return 1
        self.core.hold(len(joined))
        return self.note_joined(joined, max_rows)

    def oldest_joined(self, max_rows: int | None = None) -> JoinedChunks | None:
        """The next chunks, joined; both ways of finding them agree."""
        self._session.require_takeable()
        oldest, entries = oldest_joined(self.core, self.codec, max_rows), self.core.payloads
        whole = None if self.core.untaken < len(entries) else whole_batch(entries, self.codec, max_rows)
        if whole is not None:
            assert oldest is not None
            assert (whole.rows, whole.batch) == (oldest.joined.rows, oldest.joined.batch)
            return whole
        if oldest is None:
            return None
        oldest.note_handed_over()
        return oldest.joined

    def hold_joined(self, max_rows: int | None = None) -> JoinedChunks | None:
        """Take them."""
        joined = self.oldest_joined(max_rows)
        self.core.hold(0 if joined is None else len(joined))
        return joined

    def note_joined(self, joined: JoinedChunks, max_rows: int | None) -> int:
        """Note what a reader has got, chunk by chunk."""
        assert len(joined) == 1 or max_rows is None or joined.num_rows <= max_rows
        assert joined.num_rows == sum(joined.rows)
        for chunk, rows in zip(joined, joined.rows, strict=True):
            self.note(Message(Kind.CHUNK, chunk, rows, PARAMETERS.cost_of(rows)))
        return len(joined)

    def books(self) -> tuple[object, ...]:
        """All that a single read would have changed as well."""
        core, frames = self.core, self._session.take_frames()
        return (
            frames,
            core.granted,
            core.unreturned,
            core.untaken,
            core.inbox_rows,
            core.peak_inbox_rows,
            core.consumed_chunks,
            core.consumed_rows,
        )

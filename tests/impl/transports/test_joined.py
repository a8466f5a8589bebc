"""A joined read is so many messages consumed at once: same books, same record, same frames, same rows."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import accumulate
from typing import NamedTuple

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow.errors import OverspendError
from permitflow.protocol.frames import Data, Put
from permitflow.protocol.handshake import PROTOCOL_VERSION
from permitflow.protocol.messages import Kind, Message
from permitflow.protocol.permits import ChannelParameters, Oversize, PermitReceiver
from permitflow.protocol.session import DownstreamSession
from permitflow.tracing import MemoryTrace
from permitflow.transports.arrow import BatchCodec
from permitflow.transports.codec import EncodedChunks, WireFrame, encode_upstream
from permitflow.transports.joined import Arrivals, JoinedChunks, oldest_joined
from tests.support.number_streams import CHANNEL

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
    """The receiving end of a stream; what comes is handed to it as one message."""

    def __init__(self, column: str, *, is_recorded: bool, parameters: ChannelParameters = PARAMETERS) -> None:
        """``column`` is one of ``COLUMNS``."""
        trace = MemoryTrace()
        self.events = trace.events
        self.parameters = parameters
        self._session: DownstreamSession[object] = DownstreamSession(record=trace.recorder if is_recorded else None)
        self._session.receive(Put(PROTOCOL_VERSION, CHANNEL))
        self._session.accept(parameters, schema=b"schema", stream="stream")
        self._session.take_frames()
        self.column = COLUMNS[column]
        self.codec = self._batches = BatchCodec(pa.schema([("n", self.column(0, 1).type)]))
        self.seen: list[Seen] = []
        self.sent_rows = 0

    @property
    def core(self) -> PermitReceiver[object]:
        """Its books."""
        core = self._session.inbound
        assert isinstance(core, PermitReceiver)
        return core

    def deliver(self, rows: Sequence[int]) -> None:
        """Chunks with so many rows each come in together."""
        for together in [rows] if self.codec.can_join else [[count] for count in rows]:
            chunks = [self.batch(count) for count in together]
            self.take_in(EncodedChunks(tuple(together), [b"".join(self.codec.encode(chunks))]))

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
        self.take_in(Data(Message(Kind.BARRIER, "epoch")))

    def note(self, message: Message[object]) -> None:
        """Note what a reader has got."""
        payload = message.payload
        content = payload.column(0).to_pylist() if isinstance(payload, pa.RecordBatch) else payload
        self.seen.append(Seen(message.kind, message.rows, content))

    def receive(self, messages: int) -> None:
        """Take messages one by one, and consume them."""
        self.take(messages)
        self.core.consume_many(messages)

    def take(self, messages: int) -> None:
        """Take messages one by one."""
        for _ in range(messages):
            self.note(self.core.take())

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
        """The next chunks, joined."""
        return oldest_joined(self.core, self.codec, max_rows)

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
            self.note(Message(Kind.CHUNK, chunk, rows))
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


LARGE_ROWS = 5_000

max_rows = st.one_of(st.none(), st.integers(1, 12))
moves = st.lists(
    st.one_of(
        st.tuples(st.just("deliver"), st.lists(st.integers(0, 6), min_size=1, max_size=8)),
        st.tuples(st.just("deliver"), st.lists(st.integers(1, 3), min_size=1, max_size=16)),
        st.just(("mark",)),
        st.tuples(st.just("receive_joined"), max_rows),
        st.tuples(st.just("receive_joined"), max_rows),
        st.tuples(st.just("take_joined"), max_rows),
        st.just(("receive",)),
        st.tuples(st.just("consume"), st.integers(1, 20)),
    ),
    max_size=30,
)


@pytest.mark.parametrize("column", COLUMNS)
@pytest.mark.parametrize("is_recorded", [False, True], ids=["unrecorded", "recorded"])
@given(moves=moves)
def test_a_joined_read_is_so_many_messages_consumed_at_once(
    column: str, is_recorded: bool, moves: list[tuple[str, object]]
) -> None:
    joined, singly = (Reader(column, is_recorded=is_recorded) for _ in range(2))
    held = 0
    for name, *arguments in moves:
        held = moved(joined, singly, name, arguments, held)
        assert joined.seen == singly.seen, name
        assert joined.books() == singly.books(), name
    assert joined.events == singly.events
    assert is_recorded or not joined.events


def moved(joined: Reader, singly: Reader, name: str, arguments: Sequence[object], held: int) -> int:
    """Make a move at both ends, if it is one now; how many messages are held then."""
    match name, *arguments:
        case "deliver", list(rows):
            if sum(map(PARAMETERS.cost_of, rows)) <= joined.core.granted.rows:
                joined.deliver(rows)
                singly.deliver(rows)
        case ("mark",):
            joined.mark()
            singly.mark()
        case "consume", int(count):
            count = min(held, count)
            joined.core.consume_many(count)
            singly.core.consume_many(count)
            return held - count
        case "take_joined", (int() | None) as most if joined.core.untaken:
            count = joined.take_joined(most)
            singly.take(count)
            return held + count
        case "receive_joined", (int() | None) as most if joined.core.untaken and not held:
            singly.receive(joined.receive_joined(most))
        case ("receive",) if joined.core.untaken and not held:
            joined.receive(1)
            singly.receive(1)
    return held


def test_a_train_is_one_batch_and_its_chunks_are_where_they_were() -> None:
    reader = Reader("fixed width", is_recorded=False)
    reader.deliver([2, 0, 3, 1])

    joined = reader.hold_joined()

    assert joined is not None
    assert joined.rows == (2, 0, 3, 1)
    assert joined.batch.column(0).to_pylist() == [0, 1, 2, 3, 4, 5]
    assert [chunk.column(0).to_pylist() for chunk in joined] == [[0, 1], [], [2, 3, 4], [5]]


def test_what_came_as_one_batch_is_handed_over_as_it_came() -> None:
    reader = Reader("fixed width", is_recorded=False)
    reader.deliver([2, 3, 1])
    run = reader.core.runs[0]
    assert isinstance(run, tuple)

    assert reader.hold_joined() is run[0]


def test_joined_chunks_are_a_sequence_of_chunks() -> None:
    joined = JoinedChunks(pa.record_batch({"n": range(6)}), (2, 0, 3, 1))
    chunks = list(joined)

    assert [joined[at] for at in range(-4, 4)] == chunks * 2
    for part in (joined[1:3], joined[-3:-1], joined.part(1, 3)):
        assert (part.rows, list(part)) == ((0, 3), chunks[1:3])
    with pytest.raises(IndexError):
        joined[4]
    with pytest.raises(ValueError, match="there is no slice of every 2th"):
        joined[::2]


def test_small_batches_that_are_here_become_one_and_large_ones_stay_where_they_are() -> None:
    reader = Reader("fixed width", is_recorded=False, parameters=ChannelParameters(row_permits=4 * LARGE_ROWS))
    for rows in (1, 2, 3, LARGE_ROWS, 4, 5):
        reader.deliver([rows])

    found = [reader.hold_joined() for _ in range(3)]

    assert [joined and joined.rows for joined in found] == [(1, 2, 3), (LARGE_ROWS,), (4, 5)]
    assert [n for joined in found if joined for n in joined.batch.column(0).to_pylist()] == [*range(15 + LARGE_ROWS)]


def test_small_batches_are_copied_up_to_half_a_mebibyte() -> None:
    rows, size_bytes = 1_500, 12_000
    reader = Reader("fixed width", is_recorded=False, parameters=ChannelParameters(row_permits=100 * rows))
    for _ in range(60):
        reader.deliver([rows])

    found = [reader.hold_joined() for _ in range(2)]

    assert [joined and len(joined) for joined in found] == [44, 16]
    assert 43 * size_bytes < 512 << 10 < 44 * size_bytes


def test_a_train_without_permits_leaves_the_chunks_before_it_to_every_way_of_reading() -> None:
    for read in ("receive", "receive_joined"):
        reader = Reader("fixed width", is_recorded=False)
        reader.deliver([2, 5])
        with pytest.raises(OverspendError):
            reader.deliver([3] * 12)

        while reader.core.untaken:
            if read == "receive":
                reader.take(1)
            else:
                reader.take_joined(None)
        assert reader.seen == [Seen(Kind.CHUNK, 2, [0, 1]), Seen(Kind.CHUNK, 5, [2, 3, 4, 5, 6])]


def test_however_small_the_parts_of_a_batch_its_rows_are_added_up_once(monkeypatch: pytest.MonkeyPatch) -> None:
    added_up = Counter[str]()

    def counted(rows: Sequence[int], *, initial: int) -> Iterator[int]:
        added_up["all"] += 1
        return accumulate(rows, initial=initial)

    monkeypatch.setattr("permitflow.transports.joined.accumulate", counted)
    reader = Reader("fixed width", is_recorded=False)
    reader.deliver([2, 1] * 10)

    found = [reader.hold_joined(3) for _ in range(10)]

    assert [part and part.rows for part in found] == [(2, 1)] * 10
    assert added_up["all"] == 1

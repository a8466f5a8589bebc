"""A chunk that comes alone is taken and refused as if it were the first one, whatever came before."""

import random
from collections.abc import Iterator

import pyarrow as pa
import pytest

from permitflow.errors import OverspendError, PermitflowError, UndecodableDataError
from permitflow.protocol.compression import Codec
from permitflow.protocol.frames import Put
from permitflow.protocol.handshake import PROTOCOL_VERSION
from permitflow.protocol.permits import ChannelParameters, Oversize, PermitReceiver
from permitflow.protocol.recording import RecorderFactory
from permitflow.protocol.session import DownstreamSession
from permitflow.transports.arrow import BatchCodec
from permitflow.transports.arrow_compression import compressed
from permitflow.transports.codec import EncodedChunks, WireFrame, encode_upstream
from permitflow.transports.joined import Arrivals

WINDOW = ChannelParameters(row_permits=100, permit_batch=50)
ROWS = 3

NUMBERS = [pa.record_batch({"a": [n, n + 1, n + 2], "b": [0.5, n, n]}) for n in range(5)]
WITH_NULLS = [pa.record_batch({"a": [None, n, n], "b": [0.5, n, n]}) for n in range(5)]
TEXTS = [pa.record_batch({"text": [str(n), "to", "three"]}) for n in range(5)]
DATES = [pa.record_batch({"day": pa.array([n, n, n], pa.date32()).cast(pa.date64())}) for n in range(5)]
KINDS = {"numbers": NUMBERS, "nulls": WITH_NULLS, "texts": TEXTS, "dates": DATES}
OF_EACH_KIND = pytest.mark.parametrize("batches", KINDS.values(), ids=KINDS)


class End(Arrivals):
    """The receiving end of a stream, with nobody who receives."""

    def __init__(
        self,
        schema: pa.Schema,
        record: RecorderFactory | None = None,
        parameters: ChannelParameters = WINDOW,
        codec: Codec | None = None,
    ) -> None:
        self._batches = BatchCodec(schema, codec)
        self._session: DownstreamSession[object] = DownstreamSession(record=record)
        self._session.receive(Put(PROTOCOL_VERSION, "numbers"))
        self._session.accept(parameters, schema=self._batches.schema_bytes)

    def _note(self, frame: WireFrame) -> None:
        """Nobody wants to know."""

    def take(self, message: bytes) -> object:
        """What comes of a message: batches, as bytes, or why it was refused."""
        before = len(self._session.inbound.inbox)
        try:
            self._take_in(message)
        except PermitflowError as error:
            return type(error), str(error)
        return [as_bytes(message.payload) for message in self._session.inbound.inbox[before:]]


def as_bytes(batch: object) -> bytes:
    """Where something is no number, equal batches are not equal."""
    assert isinstance(batch, pa.RecordBatch)
    return bytes(batch.serialize())


def message_of(batch: pa.RecordBatch, codec: Codec | None = None, lie: int = 0) -> bytes:
    """One chunk; the size that it states differs from the right one by ``lie``."""
    arrow, size = compressed(BatchCodec(batch.schema).encode([batch]), codec)
    ((*pieces,),) = encode_upstream([EncodedChunks((batch.num_rows,), [b"".join(arrow)], size + lie)])
    return b"".join(pieces)


def experienced(batches: list[pa.RecordBatch], messages: int) -> End:
    """An end that has taken so many."""
    end = End(batches[0].schema)
    for batch in batches[:messages]:
        assert end.take(message_of(batch)) == [as_bytes(batch)]
    return end


@OF_EACH_KIND
def test_each_chunk_is_the_one_that_was_sent(batches: list[pa.RecordBatch]) -> None:
    end = End(batches[0].schema)
    for batch in [*batches, batches[0].slice(1), *batches, batches[0].slice(1), batches[0].slice(2), *batches]:
        assert end.take(message_of(batch)) == [as_bytes(batch)]
    chunks = [message.payload for message in end._session.inbound.inbox]
    assert chunks[:5] == batches, "those that came before are what they were"


@OF_EACH_KIND
def test_whatever_was_changed_in_a_message_is_found_as_if_it_were_the_first(batches: list[pa.RecordBatch]) -> None:
    for changed in changes(message_of(batches[3])):
        assert experienced(batches, 3).take(changed) == End(batches[0].schema).take(changed)


def changes(message: bytes) -> Iterator[bytes]:
    """Messages that differ in a byte or in their length, many of them."""
    chance = random.Random(message)
    for position in chance.sample(range(len(message)), len(message) // 4):
        flipped = message[position] ^ chance.choice((1, 2, 16, 128, 255))
        yield message[:position] + bytes([flipped]) + message[position + 1 :]
    yield from (message[:-1], message[:-64], message + b"\0", message + bytes(64), message[:70], message[:64], b"")


@pytest.mark.parametrize("messages", [0, 3])
@pytest.mark.parametrize(
    ("batches", "at", "lie"),
    [
        (TEXTS, (0, 1), (1 << 20).to_bytes(4, "little")),
        (TEXTS, (0, 2), b"\xff\xff\xff\xff"),
        (WITH_NULLS, (0, 0), b"\x07"),
        (DATES, (0, 1), b"\x01"),
    ],
    ids=["an offset", "a text that is none", "a value that is missing", "half a day"],
)
def test_a_value_that_is_wrong_is_found_however_many_were_right(
    batches: list[pa.RecordBatch], at: tuple[int, int], lie: bytes, messages: int
) -> None:
    end = experienced(batches * 2, messages)
    message = message_of(batches[0])
    column, buffer = at
    values = bytes(pa.ipc.read_record_batch(message[64:], batches[0].schema).column(column).buffers()[buffer])
    place = message.index(values[: len(lie) + 8], 64) + (4 if batches is TEXTS and buffer == 1 else 0)
    with pytest.raises(UndecodableDataError):
        end._take_in(message[:place] + lie + message[place + len(lie) :])


@pytest.mark.parametrize(("rows", "permits"), [(0, 1), (5, 4)], ids=["empty", "oversize"])
def test_a_chunk_that_does_not_cost_its_rows_is_taken_however_many_are_alike(rows: int, permits: int) -> None:
    batch = pa.record_batch({"a": range(rows)}, schema=pa.schema({"a": pa.int64()}))
    clamped = ChannelParameters(row_permits=100, permit_batch=50, max_chunk_cost=4, oversize=Oversize.WHOLE)
    end = End(batch.schema, parameters=clamped)
    for _ in range(4):
        assert end.take(message_of(batch)) == [as_bytes(batch)]
    core = end._session.inbound
    assert isinstance(core, PermitReceiver)
    assert core.granted.rows == clamped.row_permits - 4 * permits


def test_what_is_compressed_is_looked_at_however_many_were_alike() -> None:
    """They say nothing of each other."""
    rows = 4_000
    batch, wide = pa.record_batch({"a": pa.array([7] * rows)}), ChannelParameters(row_permits=10 * rows)
    honest, lie = message_of(batch, Codec.LZ4), message_of(batch, Codec.LZ4, lie=1 << 40)
    end = End(batch.schema, parameters=wide, codec=Codec.LZ4)
    for _ in range(3):
        assert end.take(honest) == [as_bytes(batch)]
    refusal = end.take(lie)
    assert isinstance(refusal, tuple)
    assert "it would take" in refusal[1]
    assert refusal == End(batch.schema, parameters=wide, codec=Codec.LZ4).take(lie)


def test_each_chunk_is_to_be_paid_for() -> None:
    end = End(NUMBERS[0].schema)
    for _ in range(WINDOW.row_permits // ROWS):
        end._take_in(message_of(NUMBERS[0]))
    with pytest.raises(OverspendError):
        end._take_in(message_of(NUMBERS[0]))


def test_each_chunk_is_recorded() -> None:
    actions: list[tuple[str, int]] = []
    end = End(NUMBERS[0].schema, lambda *_: lambda action, arguments, _: actions.append((action, arguments[0])))
    for batch in NUMBERS:
        end._take_in(message_of(batch))
    assert actions == [("Deliver", ROWS)] * len(NUMBERS)


def test_a_message_in_memory_that_is_shared_is_taken_as_well() -> None:
    end = experienced(NUMBERS, 3)
    end._take_in(memoryview(message_of(NUMBERS[3])))
    assert end._session.inbound.inbox[-1].payload == NUMBERS[3]


def test_between_chunks_that_travel_together_each_has_its_place() -> None:
    end, codec = experienced(NUMBERS, 3), BatchCodec(NUMBERS[0].schema)
    together = EncodedChunks((2, 1), codec.encode([NUMBERS[4]]))
    joined, lone = b"".join(*encode_upstream([together])), message_of(NUMBERS[3])
    for message in (joined, lone, joined, joined, lone, lone):
        end._take_in(message)
    chunks = [message.payload for message in end._session.inbound.inbox]
    two, one = [NUMBERS[4].slice(0, 2), NUMBERS[4].slice(2)], [NUMBERS[3]]
    assert chunks == NUMBERS[:3] + two + one + two + two + one + one

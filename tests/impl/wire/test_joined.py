"""What a joined read hands over: a sequence of chunks, small ones copied together, large ones where they lie."""

import pyarrow as pa
import pytest

from permitflow import ChannelParameters
from permitflow.client import JoinedChunks
from permitflow.errors import OverspendError
from tests.support.carriers import played_stream
from tests.support.turns import turns

LARGE_ROWS = 5_000


def test_joined_chunks_are_a_sequence_of_chunks() -> None:
    joined = JoinedChunks(pa.record_batch({"n": range(6)}), (2, 0, 3, 1))
    chunks = list(joined)
    assert [chunk.column(0).to_pylist() for chunk in chunks] == [[0, 1], [], [2, 3, 4], [5]]
    assert [joined[at] for at in range(-4, 4)] == chunks * 2
    for part in (joined[1:3], joined[-3:-1], joined.part(1, 3)):
        assert (part.rows, list(part)) == ((0, 3), chunks[1:3])
    with pytest.raises(IndexError):
        joined[4]
    with pytest.raises(ValueError, match="there is no slice of every 2th"):
        joined[::2]


async def joined_reads(sizes: list[int], reads: int) -> list[JoinedChunks]:
    """What joined reads find of chunks of these sizes that came one by one."""
    found: list[JoinedChunks] = []
    async with played_stream(ChannelParameters(row_permits=200_000)) as (producer, receiver):
        for rows in sizes:
            producer.send(rows)
        await turns()
        for _ in range(reads):
            joined = await receiver.receive_joined()
            assert isinstance(joined, JoinedChunks)
            found.append(joined)
    assert [n for joined in found for n in joined.batch.column(0).to_pylist()] == [*range(sum(sizes))]
    return found


async def test_small_batches_become_one_and_large_ones_stay() -> None:
    found = await joined_reads([1, 2, 3, LARGE_ROWS, 4, 5], 3)
    assert [joined.rows for joined in found] == [(1, 2, 3), (LARGE_ROWS,), (4, 5)]


async def test_a_message_without_permits_leaves_chunks_to_joined_reads() -> None:
    async with played_stream(ChannelParameters(row_permits=40)) as (producer, receiver):
        producer.send(2, 5)
        producer.send(*[3] * 12)
        await turns()
        joined = await receiver.receive_joined()
        assert isinstance(joined, JoinedChunks)
        assert joined.rows == (2, 5)
        with pytest.raises(OverspendError):
            await receiver.receive_joined()

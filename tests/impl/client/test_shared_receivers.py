"""Tasks that share a receiving end: each message is one task's, and no task receives while another one holds some."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TypeAlias

import pyarrow as pa
import pytest

from permitflow import ChannelParameters, Message
from permitflow.client import JoinedChunks, RemoteReceiver
from permitflow.errors import LocalProtocolError
from tests.support.carriers import played_stream
from tests.support.turns import turns

Read: TypeAlias = JoinedChunks | Message[pa.RecordBatch] | list[Message[pa.RecordBatch]]
Way: TypeAlias = Callable[[RemoteReceiver], Awaitable[Read]]

WINDOW = ChannelParameters(row_permits=8_192, permit_batch=1, max_chunk_cost=2_048)
# Of two chunks: what is copied to be joined with its neighbours, and what is handed over as it came.
TRAINS = pytest.mark.parametrize("rows", [1, 1_024], ids=["small", "large"])

WAYS_TO_RECEIVE = ("receive", "receive_many", "receive_joined", "__anext__")


async def two_that_wait(receiver: RemoteReceiver, first: Way, second: Way) -> Sequence[asyncio.Future[Read]]:
    """Two tasks, in the order in which they have come."""
    tasks: Sequence[asyncio.Future[Read]] = [asyncio.ensure_future(way(receiver)) for way in (first, second)]
    await turns()
    return tasks


def numbers(read: Read) -> list[int]:
    if isinstance(read, list):
        return [number for message in read for number in numbers(message)]
    batch = read.batch if isinstance(read, JoinedChunks) else read.payload
    found: list[int] = batch.column(0).to_pylist()
    return found


@TRAINS
@pytest.mark.parametrize("way", [getattr(RemoteReceiver, name) for name in WAYS_TO_RECEIVE])
async def test_no_task_receives_while_another_one_holds_messages(rows: int, way: Way) -> None:
    async with played_stream(WINDOW) as (producer, receiver):
        taking, receiving = await two_that_wait(receiver, RemoteReceiver.take_joined, way)
        producer.send(rows, rows)
        taken = await taking
        with pytest.raises(LocalProtocolError):
            await way(receiver)  # at once, though nothing is here
        producer.send(rows, rows)

        with pytest.raises(LocalProtocolError, match="2 messages were taken and not consumed"):
            await receiving

        assert receiver.statistics().consumed_rows == 0
        receiver.consume(2)
        rest = [await receiver.receive_joined(max_rows=rows) for _ in range(2)]
        assert [number for read in (taken, *rest) for number in numbers(read)] == [*range(4 * rows)]
        statistics = receiver.statistics()
        assert (statistics.consumed_chunks, statistics.consumed_rows) == (4, 4 * rows)
        assert (statistics.inbox_rows, statistics.gauges["unreturned_permits"]) == (0, 0)


@TRAINS
@pytest.mark.parametrize("first", [RemoteReceiver.take_joined, RemoteReceiver.take_many])
@pytest.mark.parametrize("second", [RemoteReceiver.take_joined, RemoteReceiver.take_many])
async def test_concurrent_takers_get_one_batch_that_keeps_its_permits(rows: int, first: Way, second: Way) -> None:
    async with played_stream(WINDOW) as (producer, receiver):
        tasks = await two_that_wait(receiver, first, second)
        producer.send(rows, rows)
        taken = [await tasks[0]]
        producer.send(rows, rows)
        taken.append(await tasks[1])

        assert [numbers(read) for read in taken] == [[*range(2 * rows)], [*range(2 * rows, 4 * rows)]]
        assert receiver.statistics().consumed_rows == 0
        receiver.consume(2)
        assert receiver.statistics().consumed_rows == 2 * rows
        with pytest.raises(LocalProtocolError):
            await receiver.receive_joined()
        receiver.consume(2)
        assert receiver.statistics().inbox_rows == 0

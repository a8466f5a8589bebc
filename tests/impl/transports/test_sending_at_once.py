"""Who sends at once is told whether the next chunk lacks nothing but permits, however it was looked at."""

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine, Sequence
from typing import Any

import pyarrow as pa
import pytest

from permitflow.protocol.frames import Address, Get
from permitflow.protocol.handshake import PROTOCOL_VERSION
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.session import UpstreamSession
from permitflow.transports.carrier import Buffer, Received
from permitflow.transports.codec import encode_downstream
from permitflow.transports.remote_sender import RemoteSender

Complete = Callable[[Coroutine[Any, Any, Any]], Any]
WINDOW = ChannelParameters(row_permits=400, permit_batch=100)


def chunk(rows: int, name: str = "n") -> pa.RecordBatch:
    return pa.record_batch({name: pa.array(range(rows), pa.int64())})


class SilentConsumer:
    """A carrier behind which a consumer dials, and returns nothing."""

    def __init__(self) -> None:
        get = Get(PROTOCOL_VERSION, Address("chunks"))
        self._first: deque[Received] = deque(b"".join(message) for message in encode_downstream([get]))

    async def read(self) -> Received | None:
        if self._first:
            return self._first.popleft()
        nothing: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        await nothing
        return None

    async def write(self, message: Sequence[Buffer]) -> None:
        """It arrives."""

    async def half_close(self) -> None:
        """Nothing to do."""


@pytest.mark.parametrize(
    ("following", "lacks"),
    [
        ([chunk(100)], True),
        ([chunk(300)], True),
        ([chunk(301)], False),
        ([chunk(0)], False),
        ([chunk(100, "other")], False),
        (["no chunk"], False),
        ([], False),
    ],
    ids=["as those before", "the largest", "too large", "empty", "of another schema", "none at all", "nothing"],
)
@pytest.mark.parametrize("at_once", [True, False], ids=["with those before", "alone"])
def test_what_lacks_nothing_but_permits_is_told(
    complete: Complete, following: list[Any], lacks: bool, at_once: bool
) -> None:
    async def test() -> None:
        end = RemoteSender(UpstreamSession(), SilentConsumer())
        running = asyncio.create_task(end.run())
        await end.dialled()
        end.accept(WINDOW, schema=chunk(1).schema, stream="s")
        chunks = [chunk(100)] * 4
        if at_once:
            chunks += following
        sent = 0
        while sent < 4:
            sent += end.send_at_once(chunks[sent:])
        if not at_once:
            assert not end.lacks_permits
            assert end.send_at_once(following) == 0
        assert end.lacks_permits == lacks
        assert end.statistics().waiting_sends == lacks
        running.cancel()
        await asyncio.wait({running})

    complete(test())

"""A receiver that goes on within the callback that brings its message: what is done before it has it, what after."""

import asyncio
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import replace
from typing import Any

import pytest

from permitflow.protocol.parameters import ChannelParameters
from permitflow.transports import remote_downstream
from permitflow.transports.carrier import Buffer
from tests.support.carriers import played_stream
from tests.support.number_streams import turns, until

Complete = Callable[[Coroutine[Any, Any, Any]], Any]

# A residue of up to nine rows may wait.
WINDOW = ChannelParameters(row_permits=160, permit_batch=40, max_chunk_cost=121)
EACH_WAY = pytest.mark.parametrize("way", ["receive", "receive_joined", "receive_many", "__anext__"])


@pytest.fixture(params=[3_600.0, 0.0], ids=["for hours", "for no time"], autouse=True)
def residue_seconds(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> float:
    """So long a residue may wait."""
    seconds: float = request.param
    monkeypatch.setattr(remote_downstream, "RESIDUE_SECONDS", seconds)
    return seconds


def within_a_callback(deed: Callable[[], object]) -> None:
    """There those who wait for a message go on within it."""
    asyncio.get_running_loop().call_soon(deed)


@EACH_WAY
@pytest.mark.parametrize("batch", [10, 40], ids=["less than a quarter", "a quarter"])
def test_permits_that_are_due_return_before_the_consumer_has_what_makes_them_due(
    complete: Complete, way: str, batch: int
) -> None:
    async def test() -> None:
        async with played_stream(replace(WINDOW, permit_batch=batch)) as (producer, receiver):
            within_a_callback(lambda: producer.send(batch))
            await getattr(receiver, way)()
            assert producer.returned_rows == [batch]

    complete(test())


@EACH_WAY
def test_a_residue_returns_once_the_consumer_has_what_leaves_it(complete: Complete, way: str) -> None:
    async def test() -> None:
        async with played_stream(WINDOW) as (producer, receiver):
            within_a_callback(lambda: producer.send(10))
            await getattr(receiver, way)()
            await turns()
            assert producer.returned_rows == [10]

    complete(test())


def test_a_residue_that_may_wait_does_and_no_longer(complete: Complete, residue_seconds: float) -> None:
    async def test() -> None:
        async with played_stream(WINDOW) as (producer, receiver):
            within_a_callback(lambda: producer.send(9))
            await receiver.receive()
            if residue_seconds:
                await turns()
                assert producer.returned_rows == []
            else:
                await until(lambda: producer.returned_rows == [9])

    complete(test())


def test_whoever_closes_with_a_residue_leaves_nothing_behind(complete: Complete) -> None:
    async def test() -> None:
        async with played_stream(WINDOW) as (producer, receiver):
            within_a_callback(lambda: producer.send(9))
            await receiver.receive()
            receiver.close()
            await turns()
            assert producer.returned_rows == []
            assert receiver._writing._timer is None

    complete(test())


def test_whoever_waits_is_told_once_for_all_that_has_come_together(
    complete: Complete, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def test() -> None:
        async with played_stream(WINDOW) as (producer, receiver):
            messages = list[Sequence[Buffer]]()
            with monkeypatch.context() as patch:
                patch.setattr(producer, "bring", lambda *brought: messages.extend(brought))
                producer.send(1)
                producer.send(2)
            within_a_callback(lambda: producer.bring(*messages))
            assert [message.rows for message in await receiver.receive_many()] == [1, 2]

    complete(test())

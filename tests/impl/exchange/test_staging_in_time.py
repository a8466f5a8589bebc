"""What is staged and in the way of others, or of nobody any more, is forgotten in time, without anybody asking."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

import pyarrow as pa
import pytest

from permitflow.errors import StagedPartError
from permitflow.exchange.replay_log import ReplayLog
from permitflow.exchange.staging import StagingAreas
from permitflow.exchange.stores.memory import MemoryStore
from permitflow.protocol.frames import Staging
from permitflow.protocol.parameters import ChannelParameters

Complete = Callable[[Coroutine[Any, Any, Any]], Any]

WINDOW = ChannelParameters(row_permits=8)
TIMEOUT_SECONDS = 60.0


class Clock:
    """Goes on when it is told to."""

    seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    monkeypatch.setattr("permitflow.exchange.staging._TIDY_SECONDS", 0.001)
    return Clock()


def areas_of(clock: Clock) -> StagingAreas:
    """With room for 16 rows of the channel ``a``."""
    store = MemoryStore()
    areas = StagingAreas(store, TIMEOUT_SECONDS, clock=clock)
    place = store.open_channel("a", parameters=WINDOW, consumers=("default",))
    areas.add_channel(ReplayLog("a", WINDOW, None, place, ("default",)), 16)
    return areas


def rows(count: int) -> pa.RecordBatch:
    return pa.record_batch({"n": pa.array(range(count), pa.int64())})


def test_an_attempt_in_the_way_of_a_newer_one_gives_way_and_its_producer_is_told(
    complete: Complete, clock: Clock
) -> None:
    async def story() -> None:
        areas = areas_of(clock)
        old, new = (areas.open("a", Staging("q", 0, 0, name)) for name in ("old", "new"))
        assert await areas.stage(old, [rows(6), rows(6)]) == 2
        waiting = asyncio.create_task(areas.stage(new, [rows(6)]))
        await asyncio.sleep(0.01)
        assert areas.statistics("a").waiting_attempts == 1
        clock.seconds += 20
        assert await waiting == 1
        with pytest.raises(StagedPartError, match="gave its room up"):
            await areas.stage(old, [rows(1)])
        assert areas.statistics("a").staged_rows == 6
        assert areas.statistics("a").waiting_seconds > 0
        areas.break_off(new)
        areas.stop()

    complete(story())


def test_what_a_silent_query_has_staged_is_forgotten(complete: Complete, clock: Clock) -> None:
    async def story() -> None:
        areas = areas_of(clock)
        part = areas.open("a", Staging("q", 0, 0, "x"))
        assert await areas.stage(part, [rows(6)]) == 1
        areas.end(part)
        clock.seconds += TIMEOUT_SECONDS + 1
        while areas.statistics("a").attempts:  # noqa: ASYNC110 - statistics tell nobody when they change
            await asyncio.sleep(0.001)
        assert areas.statistics("a").staged_rows == 0
        assert await areas.discard("q", 0) == 0
        areas.stop()

    complete(story())

"""A loop stays awake between messages that follow each other closely, for a bounded time, and for nobody else."""

import asyncio
import gc
import weakref
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import closing
from typing import Any

import pytest
from permitflow.transports.wakefulness import Wakefulness, of_running_loop, poll_busily, staying_awake

from permitflow.errors import InvalidParametersError
from permitflow.exchange.server import ServerCall
from permitflow.transports import wakefulness
from permitflow.transports.carrier import PromptCarrier
from permitflow.transports.client_call import ClientCall

Complete = Callable[[Coroutine[Any, Any, Any]], Any]

CLOSE, FAR = 100e-6, 2e-3
IDLE_TURN, BUSY_TURN = 5e-6, 100e-6


@pytest.fixture(autouse=True)
def two_processors_for_us_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """There are two, and nobody else wants them, unless a test says so."""
    monkeypatch.setattr(wakefulness, "_processors", lambda: 2)
    monkeypatch.setattr(wakefulness, "_yield_to_others", lambda: None)


class Day:
    """A loop's wakefulness, and a clock that a test sets."""

    def __init__(self) -> None:
        self.now = 1_000.0
        self.wakefulness = Wakefulness(lambda: self.now)

    def messages(self, count: int, apart: float) -> None:
        for _ in range(count):
            self.now += apart
            self.wakefulness.note_message(self.now)

    async def awake_for(self, turn_seconds: float) -> float:
        """Let the loop run until it may sleep, each turn taking so long; how long that was."""
        began = self.now
        for _ in range(10_000):
            if not self.wakefulness.is_awake:
                break
            self.now += turn_seconds
            await asyncio.sleep(0)
        return self.now - began


def test_messages_far_from_each_other_let_the_loop_sleep(complete: Complete) -> None:
    async def test() -> None:
        day = Day()
        day.messages(100, FAR)
        assert not day.wakefulness.is_awake

    complete(test())


def test_only_messages_in_a_row_keep_it_awake(complete: Complete) -> None:
    async def test() -> None:
        day = Day()
        for _ in range(20):
            day.messages(3, CLOSE)
            assert not day.wakefulness.is_awake
            day.messages(1, FAR)
        day.messages(4, CLOSE)
        assert day.wakefulness.is_awake

    complete(test())


def test_close_messages_keep_it_awake_for_a_moment_only(complete: Complete) -> None:
    async def test() -> None:
        day = Day()
        day.messages(10, CLOSE)
        assert day.wakefulness.is_awake
        assert await day.awake_for(IDLE_TURN) == pytest.approx(200e-6, abs=3 * IDLE_TURN)
        day.messages(1, CLOSE)
        assert not day.wakefulness.is_awake, "what has not paid must pay again first"

    complete(test())


def test_turns_with_work_in_them_do_not_count_but_the_wait_ends(complete: Complete) -> None:
    async def test() -> None:
        day = Day()
        day.messages(10, CLOSE)
        assert await day.awake_for(BUSY_TURN) == pytest.approx(1e-3, abs=2 * BUSY_TURN)

    complete(test())


def test_who_polls_busily_stays_awake_for_the_next_message_however_far_it_is(complete: Complete) -> None:
    async def test() -> None:
        day = Day()
        day.wakefulness.busy_poll_seconds = 2 * FAR
        day.messages(1, FAR)
        assert day.wakefulness.is_awake
        assert await day.awake_for(IDLE_TURN) == pytest.approx(2 * FAR, abs=3 * IDLE_TURN)
        day.messages(1, FAR)
        day.wakefulness.busy_poll_seconds = 0.0
        assert await day.awake_for(IDLE_TURN) == pytest.approx(200e-6, abs=3 * IDLE_TURN)

    complete(test())


def test_who_polls_busily_stays_awake_though_others_want_the_processor(complete: Complete) -> None:
    async def test() -> None:
        day = Day()

        def another_process() -> None:
            day.now += BUSY_TURN

        day.wakefulness._yield_to_others = another_process
        day.wakefulness.busy_poll_seconds = 2 * FAR
        day.messages(1, FAR)
        assert await day.awake_for(IDLE_TURN) == pytest.approx(2 * FAR, abs=2 * BUSY_TURN)
        day.messages(1, FAR)
        assert day.wakefulness.is_awake

    complete(test())


def test_busy_polling_is_of_the_running_loop_alone_and_for_a_number_of_seconds(complete: Complete) -> None:
    async def test(seconds: float) -> float:
        poll_busily(seconds)
        return wakefulness._of_loops[asyncio.get_running_loop()].busy_poll_seconds

    with closing(asyncio.new_event_loop()) as another:
        assert another.run_until_complete(test(0.25)) == 0.25
        assert complete(test(0.5)) == 0.5
        assert wakefulness._of_loops[another].busy_poll_seconds == 0.25
    assert complete(test(0.0)) == 0.0
    for wrong in (-1.0, float("inf"), float("nan")):
        with pytest.raises(InvalidParametersError, match="must be a number from 0 on"):
            complete(test(wrong))
    with pytest.raises(RuntimeError, match="no running event loop"):
        poll_busily(0.5)


def test_others_who_want_the_processor_have_it(complete: Complete) -> None:
    async def test() -> None:
        day = Day()

        def another_process() -> None:
            day.now += 3e-3

        # Of this one alone: the loop may be awake for streams of other tests, too.
        day.wakefulness._yield_to_others = another_process
        day.messages(10, CLOSE)
        assert await day.awake_for(IDLE_TURN) == pytest.approx(3e-3, abs=3 * IDLE_TURN)
        day.messages(90, CLOSE)
        assert not day.wakefulness.is_awake
        day.messages(1, FAR)
        day.messages(20, CLOSE)
        assert day.wakefulness.is_awake

    complete(test())


def test_each_message_begins_the_wait_anew(complete: Complete) -> None:
    async def test() -> None:
        day = Day()
        day.messages(10, CLOSE)
        for _ in range(50):
            for _ in range(20):
                day.now += IDLE_TURN
                await asyncio.sleep(0)
            day.messages(1, IDLE_TURN)
            assert day.wakefulness.is_awake

    complete(test())


def test_the_streams_of_a_loop_share_its_wakefulness() -> None:
    day, taken = Day(), list[bytes | memoryview]()

    async def test() -> None:
        wakefulness._of_loops[asyncio.get_running_loop()] = day.wakefulness
        takes = [staying_awake(taken.append), staying_awake(taken.append)]
        for number in range(4):
            assert not day.wakefulness.is_awake
            day.now += CLOSE
            takes[number % 2](b"message")
        assert day.wakefulness.is_awake
        await day.awake_for(IDLE_TURN)

    with closing(asyncio.new_event_loop()) as loop:
        loop.run_until_complete(test())
    assert taken == [b"message"] * 4


def test_the_wakefulness_of_a_loop_does_not_keep_the_loop() -> None:
    loop = asyncio.new_event_loop()
    known = weakref.ref(loop)

    async def test() -> None:
        staying_awake(lambda _: None)(b"message")

    loop.run_until_complete(test())
    assert loop in wakefulness._of_loops
    loop.close()
    del loop
    gc.collect()
    assert known() is None


class PlayedCall:
    """As much of gRPC's calls, of the client's and of the server's, as gives ten messages."""

    def __init__(self) -> None:
        self.left = 10

    def add_done_callback(self, callback: object) -> None:
        pass

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self

    async def __anext__(self) -> bytes:
        if not self.left:
            raise StopAsyncIteration
        self.left -= 1
        return b"message"

    async def read(self) -> bytes | None:
        return await anext(self, None)


@pytest.mark.parametrize("carrier", [ClientCall, ServerCall])
@pytest.mark.parametrize(("asked_seconds", "is_awake"), [(0.0, False), (FAR, True)])
def test_messages_of_grpc_keep_a_loop_awake_for_those_who_ask_alone(
    carrier: Callable[[Any, str], PromptCarrier], asked_seconds: float, is_awake: bool
) -> None:
    day, taken = Day(), list[bytes | memoryview]()

    async def test() -> None:
        wakefulness._of_loops[asyncio.get_running_loop()] = day.wakefulness
        end = carrier(PlayedCall(), "the peer")
        end.hand_to(taken.append)
        # Whoever asks may do so at any time.
        poll_busily(asked_seconds)
        assert await end.read() is None
        assert day.wakefulness.is_awake is is_awake
        await day.awake_for(IDLE_TURN)

    with closing(asyncio.new_event_loop()) as loop:
        loop.run_until_complete(test())
    assert taken == [b"message"] * 10


def test_with_one_processor_nobody_is_kept_from_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wakefulness, "_processors", lambda: 1)
    taken: list[bytes | memoryview] = []
    take = taken.append
    assert staying_awake(take) == take
    assert of_running_loop() is None

"""There is one way to dial again: everyone who does makes the pauses of ``permitflow.pauses``."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from itertools import islice, pairwise
from random import Random
from time import monotonic
from unittest.mock import patch

import pytest

from permitflow import pauses
from permitflow.carriers import dialling
from permitflow.carriers.calling import reached_again
from permitflow.carriers.dialling import Dialling
from permitflow.client import get
from permitflow.client.finding import Timing, wherever
from permitflow.errors import PeerGoneError
from permitflow.mute import sockets
from permitflow.spark.patience import Patience
from tests.support.simulated_time import in_simulated_time, simulated

ATTEMPTS = 8
BOUNDS = [0.05, 0.1, 0.2, 0.4, 0.8, 1.0, 1.0, 1.0]
GONE = PeerGoneError(who="the exchange", reason="nobody listens")

Attempt = Callable[[], None]
"""Is called at each attempt, which is in vain."""


class Highest(Random):
    """Draws the longest pause each time."""

    def uniform(self, a: float, b: float) -> float:
        assert a == 0
        return b


class Over(Exception):
    """There were as many attempts as a test wants."""


def test_pauses_are_drawn_from_0_to_a_bound_that_doubles(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pauses, "dice", Highest())
    assert [*islice(pauses.pauses(), len(BOUNDS))] == BOUNDS


def test_two_who_wait_do_not_come_together() -> None:
    assert [*islice(pauses.pauses(), 9)] != [*islice(pauses.pauses(), 9)]


def test_simulated_time_ends_with_the_pauses_that_it_began_with() -> None:
    async def draw() -> list[float]:
        return [*islice(pauses.pauses(), 9)]

    before = pauses.dice
    assert in_simulated_time(draw()) == in_simulated_time(draw())
    assert pauses.dice is before


# Who dials again.


async def a_client_that_waits_for_its_exchange(attempt: Attempt) -> None:
    async def connect(*_: object) -> None:
        attempt()
        raise ConnectionRefusedError

    await Dialling("127.0.0.1", 1, connect).connected()


async def a_stream_that_has_lost_its_connection(attempt: Attempt) -> None:
    async def dial() -> None:
        attempt()

    await reached_again(dial, who="the exchange", reason="it is gone", seconds=60)


async def a_client_of_several_exchanges(attempt: Attempt) -> None:
    @asynccontextmanager
    async def at(address: str) -> AsyncIterator[None]:
        if address.endswith(":1"):
            attempt()
        raise GONE
        yield

    address = "a:1,a:2"
    timing = Timing(address, 60, 60)
    async with timing, wherever(address, "channel", timing, at):
        pass


async def a_task_of_spark(attempt: Attempt) -> None:
    paused = list[float]()
    patience = Patience(60, ["channel"], pause=paused.append)
    while True:
        attempt()
        patience.wait(GONE)
        await asyncio.sleep(paused.pop())


async def a_link_of_mute_that_is_lost_at_once(attempt: Attempt) -> None:
    async for _ in sockets.dialled(("127.0.0.1", 1), sockets.Buffers(), lambda _: None):
        attempt()


DIALLERS = (
    a_client_that_waits_for_its_exchange,
    a_stream_that_has_lost_its_connection,
    a_client_of_several_exchanges,
    a_task_of_spark,
    a_link_of_mute_that_is_lost_at_once,
)


@pytest.fixture
def _everybody_answers(monkeypatch: pytest.MonkeyPatch) -> None:
    async def connected(*_: object, **__: object) -> None:
        pass

    monkeypatch.setattr(dialling, "connected", connected)


@pytest.mark.usefixtures("_everybody_answers")
@pytest.mark.parametrize("dials", DIALLERS, ids=lambda dials: dials.__name__)
def test_everyone_who_dials_again_makes_these_pauses(dials: Callable[[Attempt], Awaitable[None]]) -> None:
    times = list[float]()

    def attempt() -> None:
        times.append(asyncio.get_running_loop().time())
        if len(times) == ATTEMPTS:
            raise Over

    async def run() -> None:
        with patch.object(pauses, "dice", Highest()), pytest.raises(Over):
            await dials(attempt)

    in_simulated_time(run())
    seconds = [later - earlier for earlier, later in pairwise(times)]
    # A lost stream has paused before its first attempt, too.
    assert seconds == pytest.approx(BOUNDS[1:] if dials is a_stream_that_has_lost_its_connection else BOUNDS[:-1])


@pytest.mark.usefixtures("_everybody_answers")
@simulated
async def test_a_link_that_lasted_is_soon_dialled_again() -> None:
    loop, lost_at = asyncio.get_running_loop(), list[float]()
    async for _ in sockets.dialled(("127.0.0.1", 1), sockets.Buffers(), lambda _: None):
        if len(lost_at) == ATTEMPTS:
            break
        assert not lost_at or loop.time() - lost_at[-1] <= pauses.FIRST_SECONDS
        await asyncio.sleep(2 * pauses.LONGEST_SECONDS)
        lost_at.append(loop.time())


async def test_grpc_which_dials_by_itself_pauses_no_longer() -> None:
    came = list[float]()
    over = asyncio.Event()

    async def hang_up(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        came.append(monotonic())
        writer.close()
        if len(came) == ATTEMPTS:
            over.set()

    async def dial(port: int) -> None:
        async with get(f"127.0.0.1:{port}", "channel", connect_timeout_seconds=60):
            pass

    async with await asyncio.start_server(hang_up, "127.0.0.1", 0) as server:
        dialling_on = asyncio.create_task(dial(server.sockets[0].getsockname()[1]))
        await over.wait()
        dialling_on.cancel()
        await asyncio.wait([dialling_on])
    assert max(later - earlier for earlier, later in pairwise(came)) < 4 * pauses.LONGEST_SECONDS

"""Random chains, any pace, cancelled calls: every element comes once, in order, then the end or the error."""

import asyncio
import random
from collections.abc import AsyncIterator, Callable

import pytest

from permitflow.stages import Source, open_run
from tests.support.simulated_time import in_simulated_time, simulated

Numbers = Source[int]

# Each passes every element on, in order.
PASSING: dict[str, Callable[[Numbers], Numbers]] = {
    "map": lambda s: s.map(lambda n: n),
    "filter": lambda s: s.map_concat(lambda n: [n, -1 - n]).filter(lambda n: n >= 0),
    "map_concat": lambda s: s.map(lambda n: [n]).map_concat(iter),
    "frames": lambda s: s.map(lambda n: f"{n}|").map_concat(iter).frames("|", 9).map(int),
    "rechunk": lambda s: s.map(lambda n: [n]).rechunk(3).map_concat(iter),
    "buffer": lambda s: s.buffer(3),
    "large buffer": lambda s: s.buffer(100),
    "conflate": lambda s: s.conflate(lambda some, n: [*some, n], lambda n: [n]).map_concat(iter),
    "batch": lambda s: s.batch(4, lambda some, n: [*some, n], lambda n: [n]).map_concat(iter),
    "batch_weighted": lambda s: s.batch_weighted(
        9, lambda n: n % 12, lambda some, n: [*some, n], lambda n: [n]
    ).map_concat(iter),
    "expand": lambda s: s.expand(lambda n: [n]),
    "throttle": lambda s: s.throttle(3, 1.0, burst=2),
    "async_boundary": lambda s: s.async_boundary(4),
    "merge": lambda s: s.merge(Source(()), Source(())),
    "merge_preferred": lambda s: s.merge_preferred(Source(())),
    "zip": lambda s: s.zip_with(Source(range(10_000)), lambda n, _: n),
    "concat": lambda s: s.concat(Source(()), Source(())),
    "take": lambda s: s.take(10_000),
    "map_async": lambda s: s.map_async(lambda n: after(n % 3 / 10, n), at_most=3),
    "flat_map": lambda s: s.flat_map(lambda n: Source([n]).buffer(1)),
    "grouped_within": lambda s: s.grouped_within(3, 0.5).map_concat(iter),
    "idle_timeout": lambda s: s.idle_timeout(100.0),
    "diamond": lambda s: diamond(s),
}


async def after(seconds: float, number: int) -> int:
    await asyncio.sleep(seconds)
    return number


def diamond(stream: Numbers) -> Numbers:
    left, right = stream.broadcast(2)
    return left.buffer(2).zip_with(right.async_boundary(2), lambda mine, theirs: mine if mine == theirs else -1)


class Paced(AsyncIterator[int]):
    """Numbers, with pauses; then an error, or the end.  A cancelled call has given nothing."""

    def __init__(self, count: int, choose: random.Random, error: Exception | None) -> None:
        self.count, self.choose, self.error = count, choose, error
        self.given = self.closed = 0

    async def __anext__(self) -> int:
        if self.choose.random() < 0.4:
            await asyncio.sleep(self.choose.choice((0, 0.1, 1.0)))
        if self.given == self.count:
            raise self.error or StopAsyncIteration
        self.given += 1
        return self.given - 1

    async def aclose(self) -> None:
        self.closed += 1


async def consumed(stream: Numbers, choose: random.Random) -> tuple[list[int], Exception | None]:
    """Take all elements, with pauses, and calls that are cancelled."""
    found: list[int] = []
    async with stream.open() as elements:
        while True:
            if choose.random() < 0.3:
                await asyncio.sleep(choose.choice((0, 0.1, 2.0)))
            try:
                async with asyncio.timeout(choose.choice((None, None, 0, 0.05))):
                    found.append(await anext(elements))
            except TimeoutError:
                continue
            except StopAsyncIteration:
                return found, None
            except OSError as error:
                return found, error


@pytest.mark.parametrize("seed", range(150))
def test_every_element_comes_once_and_in_order(seed: int) -> None:
    choose = random.Random(seed)
    names = choose.choices(list(PASSING), k=choose.randint(1, 4))
    error = OSError("lost") if choose.random() < 0.4 else None
    source = Paced(choose.randint(0, 30), choose, error)
    stream: Numbers = Source(source)
    for name in names:
        stream = PASSING[name](stream)
    found, raised = in_simulated_time(consumed(stream, choose))
    assert found == [*range(source.count)], names
    assert raised is error, names
    assert source.closed == 1, names


@pytest.mark.parametrize("seed", range(20))
@simulated
async def test_all_branches_get_every_element_whatever_their_pace(seed: int) -> None:
    choose = random.Random(seed)
    source = Paced(20, choose, None)
    branches = [PASSING[choose.choice([*PASSING])](branch) for branch in Source(source).broadcast(choose.randint(1, 3))]

    async def take(elements: AsyncIterator[int]) -> list[int]:
        found = []
        async for element in elements:
            found.append(element)
            await asyncio.sleep(choose.choice((0, 0.1, 1.0)))
        return found

    async with open_run(*branches) as exits:
        assert [*await asyncio.gather(*map(take, exits))] == [[*range(20)]] * len(branches)
    assert source.closed == 1


@pytest.mark.parametrize("seed", range(40))
@simulated
async def test_a_run_closed_at_any_moment_leaves_nothing_open(seed: int) -> None:
    choose = random.Random(seed)
    source, count = Paced(1_000, choose, None), choose.randint(0, 20)
    stream: Numbers = Source(source)
    for name in choose.choices(list(PASSING), k=3):
        stream = PASSING[name](stream)
    async with stream.open() as elements:
        for _ in range(count):
            await anext(elements)
        if choose.random() < 0.5:
            await asyncio.sleep(choose.choice((0, 0.1)))
    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert source.closed == 1

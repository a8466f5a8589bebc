"""A consumer that stands still behind a gRPC call stops the producer before it, within the bound that is stated.

Both ends are ours, or plain grpc.aio: demand is that of gRPC, and needs nothing of the peer.
"""

from collections.abc import AsyncIterable, AsyncIterator
from typing import Any

import pytest

from permitflow.stages import Source, calls
from permitflow.stages.calls import Window
from tests.support.numbers_service import number, serving

COUNT = 300
TAKEN_FIRST = 3
# A consumer stands still until nothing was given during so many calls that somebody else makes.
ROUND_TRIPS = 20
# Windows and sizes of messages: each waits until it is read; several are in the window; they are larger than it.
SIZES = {"one by one": (Window(5), 100), "several": (Window(1_024), 100), "large": (Window(16_384), 40_000)}


class Ahead:
    """How far a producer is ahead of its consumer."""

    def __init__(self, size_bytes: int) -> None:
        self.size_bytes = size_bytes
        self.given = self.taken = self.most = self.given_while_stalled = 0

    async def numbers(self) -> AsyncIterator[Any]:
        for value in range(1, COUNT + 1):
            self.given += 1
            self.most = max(self.most, self.given - self.taken)
            yield number(value, self.size_bytes)

    async def take(self, found: AsyncIterable[Any], stubs: list[Any], factor: int = 1) -> int:
        """Take a few, stand still until nothing more is given, then take the rest."""
        async for each in found:
            self.taken += 1
            assert each.value == self.taken * factor
            if self.taken == TAKEN_FIRST:
                await self.stand_still(stubs[0])
        return self.taken

    async def stand_still(self, stub: Any) -> None:
        quiet, seen = 0, self.given
        while quiet < ROUND_TRIPS:
            await stub.Negate(number(1))
            quiet, seen = (quiet + 1 if seen == self.given else 0), self.given
        self.given_while_stalled = self.given


async def negate(request: Any, context: Any) -> Any:
    return number(-request.value)


@pytest.mark.parametrize("sizes", SIZES)
@pytest.mark.parametrize("server", ["ours", "plain"])
@pytest.mark.parametrize("client", ["ours", "plain"])
@pytest.mark.parametrize("kind", ["source", "flow", "sink"])
async def test_a_stalled_consumer_stops_the_producer(kind: str, client: str, server: str, sizes: str) -> None:
    window, size_bytes = SIZES[sizes]
    links = 2 if kind == "flow" else 1
    ahead = Ahead(size_bytes)
    stubs: list[Any] = []

    async def count(request: Any, context: Any) -> None:
        if server == "ours":
            await calls.respond(context, Source(ahead.numbers()))
        else:
            async for each in ahead.numbers():
                await context.write(each)

    async def add(iterator: Any, context: Any) -> Any:
        return number(await ahead.take(calls.requests(iterator, context) if server == "ours" else iterator, stubs))

    async def double(iterator: Any, context: Any) -> None:
        if server == "ours":
            doubled = calls.requests(iterator, context).map(lambda n: number(2 * n.value, size_bytes))
            await calls.respond(context, doubled)
        else:
            async for each in iterator:
                await context.write(number(2 * each.value, size_bytes))

    async with serving(window, window, Count=count, Sum=add, Double=double, Negate=negate) as stub:
        stubs.append(stub)
        if kind == "source":
            call = stub.Count(number(COUNT)) if client == "plain" else calls.source(stub.Count, number(COUNT))
            taken = await ahead.take(call, stubs)
        elif kind == "flow":
            given = ahead.numbers()
            flow = stub.Double(given) if client == "plain" else Source(given).through(calls.flow(stub.Double))
            taken = await ahead.take(flow, stubs, factor=2)
        else:
            given = ahead.numbers()
            sink = stub.Sum(given) if client == "plain" else Source(given).through(calls.sink(stub.Sum))
            taken = (await sink).value
    assert (ahead.given, taken) == (COUNT, COUNT)
    # One is being sent at least: nobody asks for more.
    assert TAKEN_FIRST + 1 <= ahead.given_while_stalled < COUNT
    assert ahead.most <= links * window.most_ahead(size_bytes)

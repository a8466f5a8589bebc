"""A consumer that stands still behind a gRPC call stops the producer before it, within the bound that is stated.

Both ends are ours, or one is plain grpc.aio: demand is that of gRPC, and needs nothing of the peer.
"""

import re
from collections.abc import AsyncIterable, AsyncIterator
from typing import Any

import pytest

from permitflow.errors import InvalidParametersError
from permitflow.stages import Source, calls
from permitflow.stages.calls import CallCounts, Window
from permitflow.stages.core.elements import Map
from tests.support.numbers_service import number, serving
from tests.support.stage_probe import Probe

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
@pytest.mark.parametrize(("client", "server"), [("ours", "ours"), ("ours", "plain"), ("plain", "ours")])
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


async def test_v4_4_a_message_beyond_the_window_is_sent_while_it_is_read() -> None:
    counts = CallCounts(window=Window(16_384))

    async def count(request: Any, context: Any) -> None:
        numbers = Source(range(1, 4)).map(lambda n: number(n, 40_000))
        await calls.respond(context, numbers, counts=counts)

    async with (
        serving(counts.window, counts.window, Count=count, Negate=negate) as stub,
        calls.source(stub.Count, number(0)).open() as elements,
    ):
        for taken in (1, 2, 3):
            assert (await anext(elements)).value == taken
            for _ in range(ROUND_TRIPS):
                await stub.Negate(number(1))
            assert (counts.sent, counts.in_progress) == (taken, 1 if taken < 3 else 0)


def test_v4_1_a_producer_gives_as_many_elements_as_requested() -> None:
    probe = Probe(Map(lambda iteration: iteration))
    found = list[int]()
    for iteration, request in enumerate((1, 2, 3)):
        found += probe.downstream.request(request)
        while probe.upstream.outlet.is_asked:
            probe.upstream.send(iteration)
        found += probe.downstream.received()
    assert found == [0, 1, 1, 2, 2, 2]


@pytest.mark.parametrize("message_bytes", [0, 1, 6, 95, 100, 10_000])
@pytest.mark.parametrize("messages", [0, 1, 2, 7, 100])
def test_the_window_for_a_number_of_messages_is_the_largest_one(messages: int, message_bytes: int) -> None:
    if Window(5).most_unread(message_bytes) > messages:
        with pytest.raises(InvalidParametersError, match=rf"messages must be at least [12], .* not {messages}"):
            Window.of_messages(messages, message_bytes)
        return
    window = Window.of_messages(messages, message_bytes)
    assert window.most_unread(message_bytes) == messages
    assert Window(window.size_bytes + 1).most_unread(message_bytes) == messages + 1
    assert window.most_ahead(message_bytes) == messages + 2
    assert window.most_ahead(message_bytes, prefetch=8) == messages + 9


@pytest.mark.parametrize("size_bytes", [4, 0, -1, 1 << 31, 10.0, True])
def test_a_window_that_grpc_would_ignore_is_refused(size_bytes: Any) -> None:
    with pytest.raises(InvalidParametersError, match=f"size_bytes must be .*, not {re.escape(repr(size_bytes))}"):
        Window(size_bytes)


def test_counts_say_what_the_window_is_even_if_nobody_has_set_it() -> None:
    counts = CallCounts(window=Window(1_024), pulled=7, sent=6, received=3, consumed=2)
    assert str(counts) == ("pulled 7, sent 6, received 3, consumed 2; in progress 1, in hand 1; window: 1,024 bytes")
    assert "window: gRPC's own, 4 MiB to tens" in str(CallCounts())

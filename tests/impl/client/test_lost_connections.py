"""Connections are cut between clients and the exchange: what becomes of the rows, and what each end is told."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import pytest

from permitflow import ChannelParameters, pauses
from permitflow.client import EndOutcome, SameHost, control, describe, get, put
from permitflow.errors import (
    ChannelAbortedError,
    InvalidParametersError,
    PeerGoneError,
    ResumeRefusedError,
    ResumeTimeoutError,
)
from permitflow.exchange import Retention
from tests.support.cutting_proxy import Cut, CutLink, Direction, cutting
from tests.support.number_streams import SCHEMA, batch, everything, numbers, send_for_ever
from tests.support.served import served

GRPC = "127.0.0.1:0"
WINDOW = ChannelParameters(row_permits=64)
CHUNKS = 200
NUMBERS = [*range(CHUNKS)]
LONG_SECONDS, SHORT_SECONDS = 20.0, 0.3
# On this host a client resumes only if it is asked to.
RESUMING: dict[str, Any] = {"resume_seconds": LONG_SECONDS}


@pytest.fixture(autouse=True)
def _short_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pauses, "LONGEST_SECONDS", 0.02)


async def send(address: str, wanted: Sequence[int] = NUMBERS, channel: str = "n", **options: Any) -> EndOutcome:
    async with put(address, channel, SCHEMA, **{**RESUMING, **options}) as sender:
        for number in wanted:
            await sender.send(batch(number))
        return await sender.end()


async def receive(address: str, channel: str = "n", **options: Any) -> list[int]:
    async with get(address, channel, **{**RESUMING, **options}) as receiver:
        return numbers(await everything(receiver))


async def moved(listen: str, cuts: Sequence[Cut], end: str) -> tuple[list[int], CutLink]:
    """What a consumer gets of all numbers if the link of one end, ``put`` or ``get``, is cut; and that link."""
    async with (
        served("n", parameters=WINDOW, schema=SCHEMA, listen=listen) as (_, address),
        cutting(address, cuts) as way,
        asyncio.timeout(LONG_SECONDS),
        asyncio.TaskGroup() as group,
    ):
        reading = group.create_task(receive(way.address if end == "get" else address))
        sending = group.create_task(send(way.address if end == "put" else address))
    assert sending.result() is EndOutcome.CONSUMED
    return reading.result(), way


ROWS_WAY = {"put": Direction.UP, "get": Direction.DOWN}
"""Where rows pass; the other direction has a few permits."""


@pytest.mark.parametrize("end", ROWS_WAY)
async def test_ten_cuts_lose_and_double_no_row(listen: str, end: str) -> None:
    _, uncut = await moved(listen, (), end)
    step = uncut.passed_bytes[ROWS_WAY[end]] // 12
    cuts = [Cut(step * (n + 1), ROWS_WAY[end], resets=n % 2 == 0) for n in range(10)]
    received, way = await moved(listen, cuts, end)
    assert received == NUMBERS
    assert way.cuts == 10


@pytest.mark.parametrize("direction", Direction)
@pytest.mark.parametrize("end", ROWS_WAY)
async def test_a_cut_in_the_last_messages_changes_nothing(end: str, direction: Direction) -> None:
    """Over gRPC, which is not simulated.  No two runs pass equally many bytes, so that not each of these comes."""
    _, uncut = await moved(GRPC, (), end)
    cuts = 0
    for before in (5, 30, 90, 200, 1_000):
        received, way = await moved(GRPC, [Cut(uncut.passed_bytes[direction] - before, direction)], end)
        assert (before, received) == (before, NUMBERS)
        cuts += way.cuts
    assert cuts


@pytest.mark.parametrize("end", ROWS_WAY)
async def test_a_cut_during_a_handshake_changes_nothing(end: str) -> None:
    """The first one, and that of a connection which is to replace a lost one; over gRPC, which is not simulated."""
    first = [Cut(place, direction) for direction in Direction for place in (3, 100)]
    later = [Cut(2_000 + behind, ROWS_WAY[end]) for behind in (0, 30, 200)]
    received, way = await moved(GRPC, [*first, *later], end)
    assert received == NUMBERS
    assert way.cuts == 7


async def test_a_network_that_stays_away_is_an_error_with_advice(listen: str) -> None:
    async with (
        served("n", parameters=WINDOW, schema=SCHEMA, listen=listen) as (_, address),
        cutting(address, [Cut(2_000, is_last=True)]) as way,
        asyncio.timeout(LONG_SECONDS),
    ):
        reading = asyncio.create_task(receive(address))
        with pytest.raises(ResumeTimeoutError, match=r"the last attempt: the exchange .*resume_seconds") as of_producer:
            await send(way.address, resume_seconds=SHORT_SECONDS)
        assert of_producer.value.seconds == pytest.approx(SHORT_SECONDS)
        assert of_producer.value.attempts >= 1
        # The exchange has waited as long, and tells the channel's other end.
        with pytest.raises(ChannelAbortedError, match="did not come back within"):
            await reading


async def ask_for_ever(address: str, **options: Any) -> None:
    async with control(address, **options) as orders:
        while True:
            await orders.positions(["n"])


@pytest.mark.parametrize("waits", [receive, partial(describe, channel="n"), ask_for_ever])
async def test_who_waits_for_an_answer_is_told_of_the_lost_network(waits: Callable[..., Any]) -> None:
    """There is no schema yet, so a consumer has no answer.  Over gRPC, which is not simulated."""
    async with (
        served("n", parameters=WINDOW, retention=Retention.REPLAY) as (_, address),
        cutting(address, [Cut(100, is_last=True)]) as way,  # behind the request
        asyncio.timeout(LONG_SECONDS),
    ):
        with pytest.raises(ResumeTimeoutError, match="raise resume_seconds"):
            await waits(way.address, resume_seconds=SHORT_SECONDS)


@pytest.mark.parametrize("end", ROWS_WAY)
async def test_an_exchange_that_does_not_know_a_stream_refuses_it(listen: str, end: str) -> None:
    """As after a restart: at once, whatever the other end does."""
    async with (
        served("n", parameters=WINDOW, schema=SCHEMA, listen=listen) as (_, address),
        served("n", parameters=WINDOW, schema=SCHEMA, listen=listen) as (_, restarted),
        cutting(address, [Cut(2_000, ROWS_WAY[end])]) as way,
        asyncio.timeout(LONG_SECONDS / 2),
    ):
        way.dial(restarted)
        addresses = dict.fromkeys(ROWS_WAY, address) | {end: way.address}
        tasks = {
            "put": asyncio.create_task(send(addresses["put"], range(10 * CHUNKS))),
            "get": asyncio.create_task(receive(addresses["get"])),
        }
        with pytest.raises(ResumeRefusedError, match=r"\(channel 'n'\) does not go on with the stream"):
            await tasks.pop(end)
        (other,) = tasks.values()
        other.cancel()
        await asyncio.wait({other})


async def test_an_exchange_that_resumes_nothing_makes_a_cut_an_error() -> None:
    async with (
        served("n", parameters=WINDOW, schema=SCHEMA, of_server={"resume_seconds": 0}) as (_, address),
        cutting(address, [Cut(2_000)]) as way,
        asyncio.timeout(LONG_SECONDS),
    ):
        reading = asyncio.create_task(receive(address))
        with pytest.raises(PeerGoneError) as told:
            await send(way.address)
        assert not isinstance(told.value, ResumeTimeoutError | ResumeRefusedError)
        with pytest.raises(ChannelAbortedError):
            await reading


@pytest.mark.parametrize("direction", Direction)
async def test_a_producer_that_does_not_resume_is_told_of_a_cut(listen: str, direction: Direction) -> None:
    """On this host that is the default."""
    async with (
        served("n", parameters=WINDOW, schema=SCHEMA, listen=listen) as (_, address),
        cutting(address, [Cut(2_000, direction)]) as way,
        asyncio.timeout(LONG_SECONDS),
        get(address, "n", same_host=SameHost.NEVER) as receiver,
    ):
        reading = asyncio.create_task(everything(receiver))
        with pytest.raises(PeerGoneError):
            async with put(way.address, "n", SCHEMA, same_host=SameHost.NEVER) as sender:
                await send_for_ever(sender)
        with pytest.raises(ChannelAbortedError):
            await reading
        assert way.cuts == 1


async def test_a_range_of_kept_rows_is_read_on_over_ten_cuts(listen: str) -> None:
    async with (
        served("n", schema=SCHEMA, listen=listen, retention=Retention.REPLAY) as (_, address),
        cutting(address, [Cut(100 * n, direction) for n in range(1, 6) for direction in Direction]) as way,
        asyncio.timeout(LONG_SECONDS),
    ):
        await send(address)
        assert await receive(way.address, from_row=7, to_row=190) == [*range(7, 190)]
        assert way.cuts == 10


async def test_shared_memory_is_not_resumed() -> None:
    async with served("n", schema=SCHEMA) as (_, address):
        with pytest.raises(InvalidParametersError, match="resume_seconds"):
            await receive(address, same_host=SameHost.REQUIRE)

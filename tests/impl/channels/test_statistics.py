"""What a channel reports about itself, by a clock that stands still unless it is moved."""

import asyncio

import pytest

from permitflow import (
    AlignedBarrier,
    ChannelParameters,
    ChannelStatistics,
    EndOfStream,
    GateChunk,
    GateParameters,
    InputGate,
    LocalReceiver,
    LocalSender,
    open_channel,
)
from tests.support.simulated_time import simulated, stand_still
from tests.support.turns import turns


def channel() -> tuple[LocalSender[object], LocalReceiver[object]]:
    return open_channel(ChannelParameters(row_permits=8, permit_batch=2), name="orders")


def times(end: LocalSender[object] | LocalReceiver[object]) -> tuple[float, float]:
    now = end.statistics()
    return now.waiting_seconds, now.open_seconds


@simulated
async def test_waiting_is_the_time_in_which_at_least_one_send_waits() -> None:
    sender, receiver = channel()
    stand_still(10)
    sender.send_nowait("full", 6)
    assert times(sender) == (0, 10)
    first = asyncio.ensure_future(sender.send("x", 6))
    await turns()
    stand_still(2)
    second, third = (asyncio.ensure_future(sender.send_barrier(name)) for name in ("b1", "b2"))
    await turns()
    stand_still(3)
    assert times(sender) == (5, 15), "a wait that goes on counts"

    receiver.receive_nowait()
    await turns()
    assert (first.done(), second.done(), third.done()) == (True, True, False)
    stand_still(4)
    third.cancel()
    await turns()
    stand_still(1)
    assert times(sender) == times(receiver) == (9, 20)
    assert sender.statistics().blocked_share == pytest.approx(9 / 20)


@pytest.mark.parametrize("ending", ["end", "abort", "close the sender", "close the receiver"])
@simulated
async def test_the_clock_stops_when_the_stream_is_over(ending: str) -> None:
    sender, receiver = channel()
    sender.send_nowait("x", 6)
    stand_still(5)
    if ending == "end":
        await sender.end()
    stand_still(5)
    match ending:
        case "end":
            receiver.receive_nowait()
            with pytest.raises(EndOfStream):
                receiver.receive_nowait()
        case "abort":
            sender.abort("no")
        case "close the sender":
            sender.close()
        case _:
            receiver.close()
    stand_still(100)

    assert times(sender) == (0, 10)


@simulated
async def test_both_ends_report_the_same_numbers() -> None:
    sender, receiver = channel()
    for rows in (3, 2, 1):
        sender.send_nowait("x", rows)
    waiting = [asyncio.ensure_future(sender.send("y", rows)) for rows in (4, 5)]
    await turns()
    receiver.receive_nowait()
    receiver.take_nowait()
    await turns()

    assert (
        sender.statistics()
        == receiver.statistics()
        == ChannelStatistics(
            name="orders",
            window_rows=8,
            rows_held=7,
            sent_chunks=4,
            sent_rows=10,
            consumed_chunks=1,
            consumed_rows=3,
            peak_rows_held=7,
            byte_window=16 << 20,
            bytes_held=3,
            peak_bytes_held=3,
            inbox_bytes=3,
            peak_inbox_rows=7,
            inbox_rows=7,
            waiting_sends=1,
            gauges={"row_permits_here": 1, "unreturned_permits": 0, "withheld_permits": 0, "target_permits": 8},
        )
    )
    receiver.consume()
    await receiver.receive_many(2)
    await asyncio.gather(*waiting)


@simulated
async def test_a_gate_tells_how_long_each_input_was_stopped_or_awaited() -> None:
    async with InputGate[str](GateParameters(inputs=2)) as gate:
        left, right = gate.open_channel("left"), gate.open_channel("right")
        left.send_barrier_nowait(1)
        right.send_nowait("before", 1)
        assert isinstance(await gate.receive(), GateChunk)
        stand_still(3)
        assert (left.statistics().stopped_seconds, right.statistics().stopped_seconds) == (3, 0)
        right.send_barrier_nowait(1)
        assert isinstance(await gate.receive(), AlignedBarrier)
        stand_still(2)  # the snapshot is taken; nobody is waited for
        gate.resume()
        await turns()
        stand_still(4)
        statistics = gate.statistics()
        assert [(each.blocked_seconds, each.awaited_seconds) for each in statistics.inputs] == [(5, 0), (2, 3)]
        assert (statistics.alignment_seconds, statistics.last_alignment_seconds) == (3, 3)
        assert (left.statistics().stopped_seconds, right.statistics().stopped_seconds) == (5, 2)
        left.send_barrier_nowait(2)
        stand_still(1)
        left.close()
        stand_still(7)
        assert left.statistics().stopped_seconds == 6, "it is over"

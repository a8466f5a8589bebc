"""What a channel reports about itself, by a clock that stands still unless it is moved."""

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

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
from tests.support.turns import turns


class ClockLoop(asyncio.SelectorEventLoop):
    """A loop whose time is what the test says."""

    now = 1_000.0

    def time(self) -> float:
        return self.now


def by_the_clock(test: Callable[[ClockLoop], Coroutine[Any, Any, None]]) -> None:
    with asyncio.Runner(loop_factory=ClockLoop) as runner:
        loop = runner.get_loop()
        assert isinstance(loop, ClockLoop)
        runner.run(test(loop))


def channel() -> tuple[LocalSender[object], LocalReceiver[object]]:
    return open_channel(ChannelParameters(row_permits=8, permit_batch=2), name="orders")


def times(end: LocalSender[object] | LocalReceiver[object]) -> tuple[float, float]:
    now = end.statistics()
    return now.waiting_seconds, now.open_seconds


def test_waiting_is_the_time_in_which_at_least_one_send_waits() -> None:
    async def test(loop: ClockLoop) -> None:
        sender, receiver = channel()
        loop.now += 10
        sender.send_nowait("full", 6)
        assert times(sender) == (0, 10)
        first = asyncio.ensure_future(sender.send("x", 6))
        await turns()
        loop.now += 2
        second, third = (asyncio.ensure_future(sender.send_barrier(name)) for name in ("b1", "b2"))
        await turns()
        loop.now += 3
        assert times(sender) == (5, 15), "a wait that goes on counts"

        receiver.receive_nowait()
        await turns()
        assert (first.done(), second.done(), third.done()) == (True, True, False)
        loop.now += 4
        third.cancel()
        await turns()
        loop.now += 1
        assert times(sender) == times(receiver) == (9, 20)
        assert sender.statistics().blocked_share == pytest.approx(9 / 20)

    by_the_clock(test)


@pytest.mark.parametrize("ending", ["end", "abort", "close the sender", "close the receiver"])
def test_the_clock_stops_when_the_stream_is_over(ending: str) -> None:
    async def test(loop: ClockLoop) -> None:
        sender, receiver = channel()
        sender.send_nowait("x", 6)
        loop.now += 5
        if ending == "end":
            await sender.end()
        loop.now += 5
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
        loop.now += 100

        assert times(sender) == (0, 10)

    by_the_clock(test)


def test_both_ends_report_the_same_numbers() -> None:
    async def test(loop: ClockLoop) -> None:
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

    by_the_clock(test)


def test_a_gate_tells_how_long_each_input_was_stopped_or_awaited() -> None:
    async def test(loop: ClockLoop) -> None:
        async with InputGate[str](GateParameters(inputs=2)) as gate:
            left, right = gate.open_channel("left"), gate.open_channel("right")
            left.send_barrier_nowait(1)
            right.send_nowait("before", 1)
            assert isinstance(await gate.receive(), GateChunk)
            loop.now += 3
            assert (left.statistics().stopped_seconds, right.statistics().stopped_seconds) == (3, 0)
            right.send_barrier_nowait(1)
            assert isinstance(await gate.receive(), AlignedBarrier)
            loop.now += 2  # the snapshot is taken; nobody is waited for
            gate.resume()
            await turns()
            loop.now += 4
            statistics = gate.statistics()
            assert [(each.blocked_seconds, each.awaited_seconds) for each in statistics.inputs] == [(5, 0), (2, 3)]
            assert (statistics.alignment_seconds, statistics.last_alignment_seconds) == (3, 3)
            assert (left.statistics().stopped_seconds, right.statistics().stopped_seconds) == (5, 2)
            left.send_barrier_nowait(2)
            loop.now += 1
            left.close()
            loop.now += 7
            assert left.statistics().stopped_seconds == 6, "it is over"

    by_the_clock(test)

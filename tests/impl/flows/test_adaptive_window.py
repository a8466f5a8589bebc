"""The window that a receiver aims at: from what it measured, within its bounds, and calm."""

from typing import Any

import pytest

from permitflow import ChannelParameters, Demand
from permitflow.errors import InvalidParametersError
from permitflow.flows.adaptive_window import AdaptiveWindow

PARAMETERS = ChannelParameters(row_permits=10_000, permit_batch=1_000)
WINDOW = 10_000


def aimed(window: AdaptiveWindow, *, seconds: float, rate: float, busy: bool = True, least_rows: int = 1) -> int:
    """The target after a consumer has consumed so many rows a second, in ten steps a second."""
    steps = round(seconds * 10)
    for step in range(steps + 1):
        window.observe(step / 10, round(step * rate / 10), is_busy=busy or step % 2 == 0, least_rows=least_rows)
    return window.target


def test_the_target_is_throughput_times_latency() -> None:
    assert aimed(AdaptiveWindow(WINDOW, 0.5), seconds=2, rate=4_000) == 2_000


def test_time_without_messages_is_not_counted() -> None:
    window = AdaptiveWindow(WINDOW, 0.5)
    assert aimed(window, seconds=4, rate=2_000, busy=False) == pytest.approx(2_000, rel=0.02)
    assert window.rows_per_second == pytest.approx(4_000, rel=0.02)


def test_a_target_is_at_most_the_agreed_window() -> None:
    assert aimed(AdaptiveWindow(WINDOW, 3), seconds=4, rate=8_000) == 10_000


@pytest.mark.parametrize(("seconds", "least"), [(0.1, 12.0), (20, None)])
def test_a_target_has_the_room_that_is_needed(seconds: float, least: float | None) -> None:
    window = AdaptiveWindow(WINDOW, seconds)
    assert aimed(window, seconds=40, rate=100, least_rows=1_200) == max(1_200, 100 * seconds)
    assert window.least_latency_seconds == (None if least is None else pytest.approx(least))


@pytest.mark.parametrize(("target", "batch"), [(8_000, 1_000), (800, 100)])
def test_the_batch_is_an_eighth_of_the_target(target: int, batch: int) -> None:
    receiver: Any = PARAMETERS.flow.inbound(PARAMETERS)
    receiver.aim_at(1.0)
    receiver.deliver_many(["chunk"] * 100, [target // 100] * 100)
    for step in range(101):
        receiver.observe(step / 100)
        if step < 100:
            receiver.consume_oldest(1)
    assert receiver.aimed_rows == pytest.approx(target, rel=0.02)
    receiver.take_feedback()
    for rows, collected in ((batch - 1, batch - 1), (1, 0)):
        receiver.deliver_many(["chunk"], [rows])
        receiver.consume_oldest(1)
        assert receiver.unreturned == collected


def test_a_small_difference_is_no_change() -> None:
    window = AdaptiveWindow(WINDOW, 1)
    before = aimed(window, seconds=2, rate=4_000)
    assert window.observe(3.0, 12_100, is_busy=True, least_rows=1) is None
    assert window.target == before


def test_a_faster_consumer_gets_a_larger_window_again() -> None:
    window = AdaptiveWindow(WINDOW, 1)
    before = aimed(window, seconds=2, rate=1_000)
    after = window.observe(3.0, 11_000, is_busy=True, least_rows=1)
    assert after is not None
    assert after > before


@pytest.mark.parametrize("seconds", [0, -1, 3_601, float("nan"), True, "500ms"])
def test_a_latency_out_of_range_is_refused(seconds: Any) -> None:
    with pytest.raises(InvalidParametersError, match="target_latency_seconds"):
        AdaptiveWindow(WINDOW, seconds)


@pytest.mark.parametrize(("target", "batch"), [(10_001, 1_000), (500, 501), (2_000, 1_001), (2_000, 0)])
def test_a_receiver_refuses_an_aim_out_of_range(target: int, batch: int) -> None:
    receiver: Any = PARAMETERS.flow.inbound(PARAMETERS)
    with pytest.raises(InvalidParametersError):
        receiver.resize(target, batch)
    assert receiver.aimed_rows == 10_000


def test_a_recorded_receiver_and_other_flows_refuse_a_latency() -> None:
    recorded: Any = PARAMETERS.flow.inbound(PARAMETERS, record=lambda *_: None)
    with pytest.raises(InvalidParametersError, match="where the stream is recorded"):
        recorded.aim_at(1.0)
    demand = Demand(size=8)
    with pytest.raises(InvalidParametersError, match="only the window of permits adapts, and this is the flow demand"):
        demand.flow.inbound(demand).aim_at(1.0)

"""Simulated runs: laws that no setting escapes, figures worked out by hand, deadlocks where the proofs allow them."""

import math
from dataclasses import replace
from functools import cache
from random import Random

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from permitflow import Oversize
from permitflow.errors import InvalidParametersError
from permitflow.flows.byte_window import ByteWindow
from permitflow.flows.permits.parameters import StatedParameters
from permitflow_proofs import decide
from permitflow_tools.simulation.chunk_sizes import ChunkSizes, UniformSizes, WeightedSizes
from permitflow_tools.simulation.run import Channel, Figures, RunLength, simulate
from permitflow_tools.simulation.setting import SimulationSetting, costs_of, largest_cost, most_outstanding

SHORT = RunLength(warm_up_rows=200, measured_rows=1_500)


def setting(
    row_permits: int, permit_batch: int, chunks: ChunkSizes, *, rtt: float = 0.0, **others: float
) -> SimulationSetting:
    """A channel with half of the delay on either way."""
    return SimulationSetting(
        upstream=StatedParameters(row_permits=row_permits, permit_batch=permit_batch),
        chunks=chunks,
        forward_seconds=rtt / 2,
        return_seconds=rtt / 2,
        **others,  # type: ignore[arg-type]  # rates
    )


def figures(channel: SimulationSetting, length: RunLength | None = None) -> Figures:
    found = simulate(channel, length=length).figures
    assert found is not None
    return found


@st.composite
def flowing(draw: st.DrawFn) -> SimulationSetting:
    """Channels that cannot get stuck, whatever their chunks."""
    row_permits = draw(st.integers(2, 60))
    rates = st.sampled_from([100.0, 700.0, 1000.0, 5000.0])
    least = draw(st.integers(1, 20))
    return SimulationSetting(
        upstream=StatedParameters(
            row_permits=row_permits,
            permit_batch=draw(st.integers(1, row_permits - 1)),
            initial_permits=draw(st.one_of(st.none(), st.integers(0, row_permits))),
        ),
        chunks=UniformSizes(least, least + draw(st.integers(0, 80))),
        flush_idle=draw(st.booleans()),
        forward_seconds=draw(st.sampled_from([0.0, 0.01, 0.3])),
        return_seconds=draw(st.sampled_from([0.0, 0.02, 0.1])),
        producer_rate=draw(rates),
        consumer_rate=draw(rates),
        link_rate=draw(st.sampled_from([800.0, math.inf])),
    )


@settings(max_examples=40)
@given(flowing(), st.integers(0, 3))
def test_no_law_of_rates_and_windows_is_broken(channel: SimulationSetting, seed: int) -> None:
    run = simulate(channel, seed=seed, length=SHORT)
    assert run.figures is not None
    window, largest = channel.sender.row_permits, channel.sender.max_chunk_cost
    # At either end of what is measured, one message may be counted whole.
    slack = 1 + largest / run.figures.rows
    assert run.figures.throughput <= channel.bottleneck_rate * slack * (1 + window / run.figures.rows)
    if channel.rtt_seconds:
        assert run.figures.throughput <= window / channel.rtt_seconds * (1 + window / run.figures.rows)
    assert 0 < run.peak_rows <= window
    assert 0 <= run.figures.blocked_share <= 1 + 1e-9
    assert sum(run.figures.whereabouts) == pytest.approx(window)
    assert run.figures.grants_per_row <= (1 if channel.flush_idle else 1 / channel.receiver.permit_batch) * 1.05
    assert run.figures.latency_p50_seconds <= run.figures.latency_p99_seconds
    assert run.figures.latency_p50_seconds >= channel.forward_seconds


@settings(max_examples=30)
@given(flowing(), st.integers(0, 300))
def test_permits_add_up_at_every_moment(channel: SimulationSetting, steps: int) -> None:
    moment = Channel(channel, Random(1))
    for _ in range(steps):
        assert moment.step()
        assert sum(moment.whereabouts) == channel.sender.row_permits
        assert min(moment.whereabouts) >= 0


def test_a_slow_consumer_holds_the_producer_back() -> None:
    found = figures(setting(1000, 10, WeightedSizes([10]), rtt=0.01, producer_rate=4000, consumer_rate=1000))
    assert found.throughput == pytest.approx(1000)
    assert found.utilisation == pytest.approx(1)
    assert found.blocked_share == pytest.approx(0.75, abs=0.01)


def test_a_slow_producer_is_never_held_back() -> None:
    found = figures(setting(1000, 10, WeightedSizes([10]), rtt=0.01, producer_rate=1000, consumer_rate=4000))
    assert found.throughput == pytest.approx(1000)
    assert found.blocked_share == 0
    assert found.latency_p99_seconds == pytest.approx(0.005 + 10 / 4000)


def test_a_batch_of_permits_returns_in_one_message() -> None:
    assert figures(setting(1000, 100, WeightedSizes([10]), consumer_rate=1000)).grants_per_row == pytest.approx(1 / 100)
    assert figures(setting(1000, 1, WeightedSizes([10]), consumer_rate=1000)).grants_per_row == pytest.approx(1 / 10)


def test_a_chunk_admitted_whole_exceeds_the_permits() -> None:
    stated = StatedParameters(row_permits=100, permit_batch=20, oversize="whole")
    run = simulate(SimulationSetting(upstream=stated, chunks=WeightedSizes([250]), consumer_rate=1000), length=SHORT)
    assert run.peak_rows == 250
    assert run.figures is not None


@pytest.mark.parametrize("rate", [0.0, -1.0, math.nan])
def test_an_impossible_rate_is_refused(rate: float) -> None:
    with pytest.raises(InvalidParametersError, match="consumer_rate must be above 0"):
        setting(8, 3, WeightedSizes([1]), consumer_rate=rate)


@pytest.mark.parametrize(("row_permits", "rows"), [(10**12, 1), (2, 10**9)])
def test_a_run_that_takes_too_long_is_refused(row_permits: int, rows: int) -> None:
    with pytest.raises(InvalidParametersError, match="a meaningful run has"):
        simulate(setting(row_permits, 1, WeightedSizes([rows]), consumer_rate=10))


# So small a channel goes through all its residues in such a run, many times.
LONG = RunLength(warm_up_rows=0, measured_rows=6_000)


@st.composite
def ends(draw: st.DrawFn, oversize: Oversize = Oversize.WHOLE) -> SimulationSetting:
    """Two ends that may have been configured by different people."""
    row_permits = draw(st.integers(2, 10))
    sizes = draw(st.sets(st.integers(1, 12), min_size=1, max_size=3))
    return SimulationSetting(
        upstream=StatedParameters(
            row_permits=row_permits,
            permit_batch=draw(st.integers(1, row_permits)),
            max_chunk_cost=draw(st.integers(1, row_permits + 2)),
            oversize=oversize,
        ),
        downstream=StatedParameters(permit_batch=draw(st.integers(1, row_permits + 2))),
        chunks=WeightedSizes(sorted(sizes)),
        flush_idle=draw(st.booleans()),
        forward_seconds=draw(st.sampled_from([0.0, 0.02, 1.0])),
        return_seconds=draw(st.sampled_from([0.0, 0.03, 0.5])),
        producer_rate=draw(st.sampled_from([50.0, 200.0])),
        consumer_rate=draw(st.sampled_from([50.0, 200.0])),
    )


# A proof takes a tenth of a second, and shrinking asks for the same ones again and again.
proved = cache(decide)


def may_get_stuck(setting: SimulationSetting) -> bool:
    """What the theorems say of the sender's row_permits and max_chunk_cost and of the receiver's permit_batch."""
    return not proved(
        setting.sender.row_permits,
        setting.receiver.permit_batch,
        largest_cost(setting),
        sizes=costs_of(setting),
        flush_idle=setting.flush_idle,
    ).is_live


def gets_stuck(setting: SimulationSetting) -> bool:
    return simulate(setting, length=LONG).verdict == "deadlock"


@given(ends())
@example(
    SimulationSetting(
        upstream=StatedParameters(row_permits=8, permit_batch=4),
        downstream=StatedParameters(permit_batch=6),
        chunks=WeightedSizes([1, 4]),
        consumer_rate=50,
    )
)
def test_it_gets_stuck_if_and_only_if_the_proofs_say_so(setting: SimulationSetting) -> None:
    assert gets_stuck(setting) == may_get_stuck(setting)


@settings(max_examples=10)
@given(ends(oversize=Oversize.SPLIT))
def test_with_slices_it_gets_stuck_only_if_the_proofs_say_so(setting: SimulationSetting) -> None:
    """Not the other way round: slices do not come in any order, as the costs of the theorem do."""
    assert may_get_stuck(setting) or not gets_stuck(setting)


@settings(max_examples=10)
@given(ends(), st.integers(2, 12))
def test_a_receiver_refuses_exactly_what_may_exceed_its_window(setting: SimulationSetting, window: int) -> None:
    down = setting.downstream._replace(row_permits=window, max_chunk_cost=1)
    # Nothing is consumed before all permits have left; by slices in whatever order, they need not all leave.
    slow = SimulationSetting(
        upstream=setting.upstream, downstream=down, chunks=setting.chunks, forward_seconds=100, consumer_rate=1000
    )
    assume(not may_get_stuck(slow))
    run = simulate(slow, length=RunLength(0, 500))
    assert (run.verdict == "overspend") == (most_outstanding(slow) > window)


# Bytes.


@given(
    channel=flowing(),
    row_bytes=st.integers(1, 50),
    byte_window=st.integers(1, 3_000),
)
@settings(max_examples=20, deadline=None)
def test_no_byte_window_stops_a_channel_and_its_bound_holds(
    channel: SimulationSetting, row_bytes: int, byte_window: int
) -> None:
    assume(channel.takes_time)
    counted = replace(channel, row_bytes=row_bytes, byte_window=byte_window)
    run = simulate(counted, length=SHORT)
    assert run.verdict == "flows"
    largest = largest_cost(counted) * row_bytes
    assert 0 < run.peak_bytes <= ByteWindow(byte_window).most_bytes(largest)


def test_a_window_in_bytes_slows_wide_rows_and_one_in_rows_does_not() -> None:
    """Why the exchange that this protocol is from went from rows to bytes, and back."""
    by_rows = setting(1_000, 100, WeightedSizes([10]), rtt=0.1)
    narrow, wide = (replace(by_rows, row_bytes=size, byte_window=10_000) for size in (10, 1_000))
    rates = [figures(each, SHORT).throughput for each in (by_rows, narrow, wide)]
    assert rates[0] == rates[1] > 20 * rates[2]


@pytest.mark.parametrize(
    ("consumer_rate", "seconds"),
    [
        pytest.param(rate, seconds, marks=() if (rate, seconds) == (20_000, 0.1) else pytest.mark.long)
        for rate in (200_000, 20_000, 2_000)
        for seconds in (0.1, 0.5, 1.0)
    ],
)
def test_a_window_that_adapts_keeps_latency_and_throughput(consumer_rate: float, seconds: float) -> None:
    fixed = setting(
        32_768,
        4_096,
        WeightedSizes([64]),
        rtt=0.04,
        producer_rate=200_000,
        consumer_rate=consumer_rate,
        flush_idle=True,
    )
    adapted = figures(replace(fixed, target_latency_seconds=seconds))
    assert adapted.throughput >= 0.95 * figures(fixed).throughput
    assert adapted.latency_p99_seconds <= 2 * seconds + fixed.rtt_seconds

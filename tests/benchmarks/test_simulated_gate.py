"""A gate that adapts keeps latency and throughput, in simulated time, with the real ends."""

from dataclasses import replace

import pytest

from benchmarks.simulated_gate import GATE, GateSetting, run_gate


@pytest.mark.parametrize(
    ("consumer_rate", "seconds"),
    [
        pytest.param(rate, seconds, marks=() if (rate, seconds) == (2_000, 0.1) else pytest.mark.long)
        for rate in (200_000, 20_000, 2_000)
        for seconds in (0.1, 0.5, 1.0)
    ],
)
def test_barriers_wait_as_long_as_is_wanted(consumer_rate: float, seconds: float) -> None:
    fixed = GateSetting(parameters=GATE, consumer_rate=consumer_rate)
    adapted = run_gate(GateSetting(parameters=GATE, consumer_rate=consumer_rate, target_latency_seconds=seconds))
    assert adapted.rows_per_second >= 0.95 * run_gate(fixed).rows_per_second
    assert adapted.barrier_p99_seconds <= 2 * seconds + fixed.rtt_seconds


@pytest.mark.long
@pytest.mark.parametrize("exclusive", [64, 0])
@pytest.mark.parametrize("inputs", [2, 3])
def test_a_small_target_is_lent_in_whole_chunks(inputs: int, exclusive: int) -> None:
    parameters = replace(GATE, inputs=inputs, exclusive=exclusive)
    fixed = GateSetting(parameters=parameters, consumer_rate=2_000)
    adapted = run_gate(GateSetting(parameters=parameters, consumer_rate=2_000, target_latency_seconds=0.1))
    assert adapted.rows_per_second >= 0.95 * run_gate(fixed).rows_per_second
    assert adapted.barrier_p99_seconds <= 0.2 + fixed.rtt_seconds

"""What barriers cost a consumer that aligns them, in simulated time, with the real ends."""

from dataclasses import replace

import pytest

from benchmarks.simulated_gate import GATE, PLACES, STORED, UNREAD, WAYS, GateSetting, run_alignments, run_gate


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
    parameters, rates = replace(GATE, inputs=inputs, exclusive=exclusive), (200_000 / inputs,) * inputs
    fixed = GateSetting(parameters=parameters, source_rates=rates, consumer_rate=2_000)
    adapted = run_gate(replace(fixed, target_latency_seconds=0.1))
    assert adapted.rows_per_second >= 0.95 * run_gate(fixed).rows_per_second
    assert adapted.barrier_p99_seconds <= 0.2 + fixed.rtt_seconds


@pytest.mark.parametrize("way", WAYS)
def test_only_permits_hold_rows_behind_an_aligned_barrier(way: str) -> None:
    found = run_alignments(way, 10, **PLACES["in one process"])
    assert (found["rows held then"] > 0) == (way in (STORED, UNREAD))


def test_a_gate_starts_a_round_trip_after_a_barrier() -> None:
    pauses_ms = [run_alignments(way, 10, **PLACES["in an exchange 10 ms away"])["first row, ms"] for way in WAYS]
    assert pauses_ms == pytest.approx([0, 0, 10, 10, 20], abs=0.01)

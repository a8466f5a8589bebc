"""The instruments of the imbalance experiment: work by deadlines, the share of waiting, and what the filter leaves."""

import pytest

from benchmarks.imbalance import setups
from benchmarks.imbalance.experiment import Imbalance
from benchmarks.imbalance.setups import CHUNK_ROWS, SETUPS, Meter, Work, filtered_chunk
from benchmarks.results import Results, Series
from benchmarks.targets import judge


class Clock:
    """Time that passes only asleep, and then a little longer than asked for."""

    def __init__(self, oversleeps: float = 0.0) -> None:
        self.now = 100.0
        self._oversleeps = oversleeps

    def monotonic(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds + (self._oversleeps if seconds else 0.0)


def install(monkeypatch: pytest.MonkeyPatch, clock: Clock) -> Clock:
    monkeypatch.setattr(setups, "time", clock)
    return clock


def test_what_one_sleep_takes_too_long_the_next_ones_make_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = install(monkeypatch, Clock(oversleeps=0.3))
    pieces = Work(1.0)
    pieces.begin()
    for _ in range(10):
        pieces.do()
    assert clock.now == pytest.approx(110.3)


def test_what_was_not_done_while_waiting_is_not_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = install(monkeypatch, Clock())
    pieces = Work(1.0)
    pieces.begin()
    clock.sleep(50.0)
    pieces.begin()
    pieces.do()
    assert clock.now == pytest.approx(151.0)


def test_the_back_pressure_rate_is_the_share_of_waiting(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = install(monkeypatch, Clock())
    meter = Meter()
    clock.sleep(6.0)
    with meter:
        clock.sleep(2.0)
    assert meter.rate() == pytest.approx(0.25)


def test_a_wait_that_is_going_on_counts_from_the_beginning_of_the_measurement(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = install(monkeypatch, Clock())
    meter = Meter()
    with meter:
        clock.sleep(5.0)
        meter.reset()
        clock.sleep(3.0)
        assert meter.rate() == pytest.approx(1.0)
    clock.sleep(1.0)
    assert meter.rate() == pytest.approx(0.75)


@pytest.mark.parametrize("row_bytes", [20, 500])
def test_the_filter_leaves_five_percent(row_bytes: int) -> None:
    chunk = filtered_chunk(row_bytes)
    assert chunk.num_rows == CHUNK_ROWS == 51
    assert chunk.column(0).type.byte_width == row_bytes


def test_setups_have_names_of_their_own() -> None:
    assert len({setup.name for setup in SETUPS}) == len(SETUPS)


@pytest.mark.parametrize(("local", "told"), [(3.0, "met"), (2.9, "not met"), (1 / 3.1, "met")])
def test_an_imbalance_is_one_whichever_upstream_starves(local: float, told: str) -> None:
    rate = Series.of([0.5])
    measured = Results(machine={}, settings={"rounds": 1})
    measured.put("imbalance", [Imbalance(SETUPS[0].name, Series.of([local]), Series.of([1.0]), rate, rate)])
    (verdict,) = judge(measured)
    assert verdict.told == told

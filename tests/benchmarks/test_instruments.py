"""The instruments of benchmarks: tuning, warming up, deadlines, the meter of waiting, and the proxy that delays."""

import asyncio
import time

import pytest

from benchmarks import delay_proxy, imbalance
from benchmarks.harness import Partner
from benchmarks.imbalance import SETUPS, Imbalance, Meter, Work
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
    monkeypatch.setattr(imbalance, "time", clock)
    return clock


def test_later_sleeps_make_up_for_a_sleep_that_was_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = install(monkeypatch, Clock(oversleeps=0.3))
    pieces = Work(1.0)
    pieces.begin()
    for _ in range(10):
        pieces.do()
    assert clock.now == pytest.approx(110.3)


def test_work_missed_while_waiting_is_not_made_up_for(monkeypatch: pytest.MonkeyPatch) -> None:
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


@pytest.mark.parametrize(("local", "told"), [(3.0, "met"), (2.9, "not met"), (1 / 3.1, "met")])
def test_an_imbalance_is_one_whichever_upstream_starves(local: float, told: str) -> None:
    rate = Series.of([0.5])
    measured = Results(machine={}, settings={"rounds": 1})
    measured.put("imbalance", [Imbalance(SETUPS[0].name, Series.of([local]), Series.of([1.0]), rate, rate)])
    (verdict,) = judge(measured)
    assert verdict.told == told


DELAY_SECONDS = 0.05
SENT = [bytes([number]) * 1_000 for number in range(50)]


def test_bytes_come_back_in_order_and_not_too_soon() -> None:
    async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while content := await reader.read(1 << 16):
            writer.write(content)
        writer.close()
        await writer.wait_closed()

    async def through(address: str) -> tuple[bytes, float]:
        reader, writer = await asyncio.open_connection(*address.split(":"))
        began = time.monotonic()
        writer.writelines(SENT)
        content = await reader.readexactly(1)
        seconds = time.monotonic() - began
        writer.write_eof()
        content += await reader.read()
        writer.close()
        await writer.wait_closed()
        return content, seconds

    async def run() -> tuple[bytes, float]:
        async with await asyncio.start_server(echo, "127.0.0.1", 0) as server:
            host, port = server.sockets[0].getsockname()
            with Partner(delay_proxy.serve, f"{host}:{port}", DELAY_SECONDS) as proxy:
                return await through(proxy.hears())

    content, seconds = asyncio.run(run())
    assert content == b"".join(SENT)
    assert seconds >= 2 * DELAY_SECONDS

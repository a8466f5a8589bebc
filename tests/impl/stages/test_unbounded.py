"""An arc that never blocks: what waits is told, and an alarm when it is too much."""

import logging

import pytest

from permitflow.stages import Depth, Source
from permitflow.stages.core.rates import Unbounded
from tests.support.stage_probe import Probe


def test_it_always_asks_and_emits_in_order() -> None:
    alarms: list[int] = []
    depth = Depth()
    probe = Probe(Unbounded[int](2, alarms.append, depth))
    probe.upstream.send(*range(9))
    assert (probe.upstream.asked, depth.waiting, depth.peak) == (10, 9, 9)
    assert alarms == [2, 4, 8]
    assert probe.downstream.request(5) == [0, 1, 2, 3, 4]
    assert (depth.waiting, depth.peak) == (4, 9)
    Probe(Unbounded[int](2, alarms.append, depth))
    assert depth.waiting == 0


@pytest.mark.parametrize("error", [None, OSError("lost")])
def test_what_waits_leaves_before_the_end(error: OSError | None) -> None:
    probe = Probe(Unbounded[int](9, print))
    probe.upstream.send(1, 2)
    if error is None:
        probe.upstream.complete()
    else:
        probe.upstream.fail(error)
    assert not probe.downstream.has_ended
    assert probe.downstream.request(2) == [1, 2]
    assert probe.downstream.has_ended
    assert probe.downstream.failure is error


async def test_by_default_an_alarm_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    depth = Depth()
    with caplog.at_level(logging.WARNING, "permitflow"):
        async with Source(range(8)).unbounded(alarm=3, depth=depth).map_concat(lambda n: [n] * 9).open() as elements:
            await anext(elements)
            await anext(elements)
            assert repr(depth) == "<7 elements wait, at most 7 did>"
    assert "3 elements wait in an unbounded arc" in caplog.text

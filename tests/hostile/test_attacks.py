"""Attacks by processes over real sockets: some of each kind; `nox -s attacks` measures all of them."""

import pytest

from tests.hostile.measuring import measure

TRIED = {
    "slow loris: a byte every 0.3 s": "LimitReachedError",
    "bytes of another protocol": "UndecodableDataError",
    "more rows than there are permits": "OverspendError",
    "streams that lose their connections": "agreed, then reset by the attacker",
    "gRPC: calls that are reset at once": "written",
    "gRPC: headers of 200 kB": "written",
    "gRPC: first messages of 16 MiB": "BrokenPipeError",
    "UDP: openings without a cookie, foreign data": "50 openings",
    "too much: 3,000,000 returns of nothing": "UndecodableDataError",
    "at the limit: frames of a message": "UnexpectedFrameError",
}
"""And one of the answers that the attacker gets."""
SECONDS = 0.5


@pytest.mark.long
@pytest.mark.parametrize("name", TRIED)
def test_an_exchange_outlives_an_attack_within_its_stated_memory(name: str) -> None:
    (run,) = measure([name], SECONDS)
    (result,) = run.attacks
    assert result.is_alive, result
    assert result.memory_mib <= result.bound_mib, result
    assert TRIED[name] in result.answers, result

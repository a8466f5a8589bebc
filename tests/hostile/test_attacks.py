"""Attacks by processes over real sockets: some of each carrier; `nox -s attacks` measures all of them."""

import pytest

from tests.hostile.attacks import NAMES
from tests.hostile.measuring import measure

TRIED = (
    "slow loris: a byte every 0.3 s",
    "more rows than there are permits",
    "streams that lose their connections",
    "gRPC: calls that are reset at once",
    "UDP: openings without a cookie, foreign data",
)
SECONDS = 0.5


@pytest.mark.long
@pytest.mark.parametrize("name", TRIED)
def test_an_exchange_outlives_an_attack_within_its_stated_memory(name: str) -> None:
    assert name in NAMES
    (run,) = measure([name], SECONDS)
    (result,) = run.attacks
    assert result.is_alive, result
    assert result.memory_mib <= result.bound_mib, result

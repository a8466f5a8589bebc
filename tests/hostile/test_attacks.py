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
def test_an_exchange_under_attack_serves_its_neighbour(name: str) -> None:
    assert name in NAMES
    (result,) = measure([name], SECONDS).attacks
    assert result.is_well, result

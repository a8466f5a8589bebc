"""The plan of kills: drawn from a seed, even among the parts, and in the order of the rows."""

from collections import Counter

import pytest

from permitflow.demo.streaming.kills import EARLIEST_SHARE, LATEST_SHARE, LONGEST_DELAY_SECONDS, Victim, plan_kills


def test_a_seed_gives_the_same_plan_and_another_seed_another_one() -> None:
    assert plan_kills(50, 1) == plan_kills(50, 1)
    assert plan_kills(50, 1) != plan_kills(50, 2)


@pytest.mark.parametrize("count", [0, 1, 4, 5, 50, 53])
def test_each_part_gets_its_share(count: int) -> None:
    kills = Counter(kill.victim for kill in plan_kills(count, seed=7))
    assert kills.total() == count
    assert all(count // len(Victim) <= kills[victim] <= -(-count // len(Victim)) for victim in Victim)


def test_kills_come_while_rows_flow_and_in_the_order_of_the_rows() -> None:
    plan = plan_kills(200, seed=7)
    shares = [kill.progress for kill in plan]
    assert shares == sorted(shares)
    assert shares[0] >= EARLIEST_SHARE
    assert shares[-1] <= LATEST_SHARE
    assert all(0 <= kill.delay_seconds <= LONGEST_DELAY_SECONDS for kill in plan)
    assert len({kill.victim for kill in plan[:20]}) > 1

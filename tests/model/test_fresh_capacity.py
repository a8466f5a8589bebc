"""The longest queue that serves no job that was sent again, in all runs of small queues."""

from dataclasses import replace
from itertools import product
from typing import get_args

import pytest

from permitflow_model.drop_queue import SYSTEM, Parameters, Strategy, fresh_capacity
from permitflow_model.kernel.explore import explore


def is_fresh(parameters: Parameters) -> bool:
    return not explore(SYSTEM, parameters).violations


@pytest.mark.parametrize("drops", get_args(Strategy))
def test_a_queue_is_fresh_up_to_this_capacity_and_not_beyond(drops: Strategy) -> None:
    for arrivals, services, resend in product((1, 2, 3), (1, 2), (1, 2)):
        asked = Parameters(capacity=1, arrivals=arrivals, services=services, resend=resend, drops=drops)
        longest = replace(asked, capacity=fresh_capacity(asked))
        assert is_fresh(longest)
        if arrivals > services:
            assert not is_fresh(replace(longest, capacity=longest.capacity + 1)), longest


def test_who_counts_on_services_is_right_however_many_come() -> None:
    cautious = fresh_capacity(Parameters(capacity=1, arrivals=1, services=2, resend=2, drops="oldest"))
    for arrivals in range(1, 6):
        assert is_fresh(Parameters(capacity=cautious, arrivals=arrivals, services=2, resend=2, drops="oldest"))

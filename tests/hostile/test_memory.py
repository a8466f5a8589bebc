"""Whatever peers say over memory: the exchange goes on, keeps nothing of them, and lets no neighbour wait."""

from collections.abc import Sequence

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from permitflow.carriers.connection import CONTROL, GET_STREAM, PUT_STREAM
from permitflow.wire.v1 import exchange_pb2 as pb
from tests.hostile.grammar import FIRST, LATER, OVERSPENT, Says, Session, Waits, sessions
from tests.hostile.memory import attack

FAR_BEYOND = (
    pb.ControlRequest(statistics=pb.StatisticsRequest(first=2**63 - 1)).SerializeToString(),
    pb.ControlRequest(channels=pb.ChannelsRequest(first=2**63 - 1)).SerializeToString(),
)


@example([Session(CONTROL, tuple(map(Says, FAR_BEYOND)))])
@given(st.lists(sessions(), min_size=1, max_size=3))
def test_whatever_peers_say_a_neighbour_goes_on(several: Sequence[Session]) -> None:
    attack(several)


@pytest.mark.parametrize("method", [PUT_STREAM, GET_STREAM])
def test_an_agreed_peer_may_say_anything_four_times(method: str) -> None:
    for first in FIRST[method][:2]:
        for later in LATER[method]:
            attack([Session(method, (Says(first), Waits(1.0), *[Says(later)] * 4))])


def test_who_sends_more_rows_than_permits_hears_so_in_the_end() -> None:
    session = Session(PUT_STREAM, (Says(FIRST[PUT_STREAM][0]), Waits(1.0), Says(OVERSPENT)))
    assert attack([session]) == ["OverspendError"]

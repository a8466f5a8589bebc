"""Whatever peers say over memory: the exchange goes on, keeps nothing of them, and lets no neighbour wait."""

from collections.abc import Sequence

from hypothesis import example, given
from hypothesis import strategies as st

from permitflow.carriers.connection import CONTROL
from permitflow.wire.v1 import exchange_pb2 as pb
from tests.hostile.grammar import Says, Session, sessions
from tests.hostile.memory import attack

FAR_BEYOND = (
    pb.ControlRequest(statistics=pb.StatisticsRequest(first=2**63 - 1)).SerializeToString(),
    pb.ControlRequest(channels=pb.ChannelsRequest(first=2**63 - 1)).SerializeToString(),
)


@example([Session(CONTROL, tuple(map(Says, FAR_BEYOND)))])
@given(st.lists(sessions(), min_size=1, max_size=3))
def test_whatever_peers_say_a_neighbour_goes_on(several: Sequence[Session]) -> None:
    attack(several)

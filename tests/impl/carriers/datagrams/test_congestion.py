"""What may be under way follows the share of what was lost; a network that loses one of a hundred keeps its rate."""

from permitflow.carriers.datagrams.congestion import FIRST_DATAGRAMS, LEAST_DATAGRAMS, Congestion

MOST = 512
ROUND_TRIP_SECONDS = 0.1


class Network:
    """Each round trip, all that may be under way leaves; of each, this share is lost, and was sent again."""

    def __init__(self) -> None:
        self.congestion = Congestion(MOST)
        self.sent = self.retransmitted = self.rounds = 0

    def run(self, rounds: int, lost: float) -> int:
        """The bound afterwards."""
        for _ in range(rounds):
            self.rounds += 1
            leaving = max(10, self.congestion.bound)
            self.retransmitted += round(leaving * lost)
            self.sent += leaving - round(leaving * lost)
            now = self.rounds * ROUND_TRIP_SECONDS
            self.congestion.note(self.sent, self.retransmitted, now, ROUND_TRIP_SECONDS)
        return self.congestion.bound


def test_the_bound_doubles_up_to_the_window_if_nothing_is_lost() -> None:
    network = Network()
    assert [network.run(1, lost=0.0) for _ in range(6)] == [32, 64, 128, 256, MOST, MOST]


def test_one_loss_in_a_hundred_does_not_lower_the_bound() -> None:
    assert Network().run(100, lost=0.01) == MOST


def test_between_the_two_shares_the_bound_stays() -> None:
    assert Network().run(100, lost=0.06) == FIRST_DATAGRAMS


def test_many_losses_lower_the_bound_by_half_of_their_share() -> None:
    network = Network()
    network.run(10, lost=0.0)
    assert network.run(1, lost=0.5) == MOST * 3 // 4
    assert network.run(100, lost=0.5) == LEAST_DATAGRAMS


def test_after_many_losses_the_bound_rises_slowly() -> None:
    network = Network()
    network.run(10, lost=0.0)
    network.run(1, lost=0.5)
    assert MOST * 3 // 4 < network.run(2, lost=0.0) < MOST * 7 // 8


def test_within_a_round_trip_nothing_changes() -> None:
    congestion = Congestion(MOST)
    congestion.note(100, 0, 1.0, ROUND_TRIP_SECONDS)
    before = congestion.bound
    congestion.note(200, 100, 1.0 + ROUND_TRIP_SECONDS / 2, ROUND_TRIP_SECONDS)
    assert congestion.bound == before


def test_a_sender_that_uses_little_of_the_bound_does_not_raise_it() -> None:
    congestion = Congestion(MOST)
    for number in range(1, 20):
        congestion.note(number * 10, 0, float(number), ROUND_TRIP_SECONDS)
    assert congestion.bound == 2 * FIRST_DATAGRAMS

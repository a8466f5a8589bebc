"""Ends wait for each other as long as it takes, and no longer than they say: nobody is lost because it is late.

Over TCP and UDP, in simulated time; gRPC and shared memory have a core that does not run on a simulated loop, and are
tried in real time (tests/impl/exchange/test_patience.py).
"""

from itertools import permutations, product

import pytest

from permitflow.errors import ChannelAbortedError, PeerGoneError, PeerTimeoutError
from permitflow.patience import Countdown
from tests.simulator.meeting import ALL, CONSUMER, EXCHANGE, PARTIES, PRODUCER, Meeting, Stop, Way
from tests.simulator.world import World

NAMES = {EXCHANGE: "exchange", PRODUCER: "producer", CONSUMER: "consumer"}
SILENCE_SECONDS, RESUME_SECONDS = 20.0, 30.0
CONNECT_SECONDS, AGREEMENT_SECONDS = 10.0, 60.0
MORE_SECONDS = 4.0
"""For looks at the clock, answers and last words."""

TCP = Way(scheme="tcp://")
LOSSY_UDP = Way(scheme="udp://", lost_share=0.02)
LOSSY_UDP_THAT_RESUMES = Way(scheme="udp://", lost_share=0.02, resume_seconds=RESUME_SECONDS)
WAYS = {
    "TCP": TCP,
    "UDP": Way(scheme="udp://"),
    "UDP with losses": LOSSY_UDP,
    "TCP that resumes": Way(scheme="tcp://", resume_seconds=RESUME_SECONDS),
    "UDP that resumes": LOSSY_UDP_THAT_RESUMES,
}
ORDERS = {", ".join(NAMES[party] for party in order): order for order in permutations(PARTIES)}
MIDDLE_SECONDS = 5.5
MOMENTS = {"dialling": 0.0, "connecting": 0.0005, "agreeing": 0.002, "the middle": MIDDLE_SECONDS, "the end": 10.0005}

each_way = pytest.mark.parametrize("way", WAYS)
two_ways = pytest.mark.parametrize("way", ["TCP", "UDP that resumes"])
each_order = pytest.mark.parametrize("order", ORDERS)
each_party = pytest.mark.parametrize("party", PARTIES, ids=NAMES.get)
each_client = pytest.mark.parametrize("party", [PRODUCER, CONSUMER], ids=NAMES.get)
each_moment = pytest.mark.parametrize("moment", MOMENTS)


def require_well(meeting: Meeting) -> None:
    """Everything comes, and nobody is lost."""
    meeting.run()
    assert (meeting.errors, meeting.read) == ({}, ALL)


def require_named(meeting: Meeting, party: str, within_seconds: float) -> None:
    """All others hear in time that this one is lost."""
    meeting.run()
    for other in {PRODUCER, CONSUMER} - {party}:
        assert isinstance(meeting.errors[other], PeerGoneError | ChannelAbortedError)
        assert f"the {NAMES[party]}" in str(meeting.errors[other])
        assert meeting.ended_at[other] < within_seconds + MORE_SECONDS


# Ends that come late.


def come(way: Way, order: str, gap_seconds: float) -> Meeting:
    """They come one after the other."""
    return Meeting(way=way, comes_at={party: gap_seconds * place for place, party in enumerate(ORDERS[order])})


@two_ways
@each_order
def test_ends_that_come_a_minute_apart_meet(way: str, order: str) -> None:
    require_well(come(WAYS[way], order, 65))


@pytest.mark.long
@each_way
@each_order
@pytest.mark.parametrize("gap_seconds", [1, 10, 25, 600])
def test_ends_that_come_one_after_the_other_meet(way: str, order: str, gap_seconds: float) -> None:
    require_well(come(WAYS[way], order, gap_seconds))


def test_ends_that_come_ten_minutes_apart_meet() -> None:
    require_well(come(TCP, "producer, consumer, exchange", 600))


@each_way
def test_an_exchange_that_never_comes_is_named_in_time(way: str) -> None:
    meeting = Meeting(way=WAYS[way], comes_at={PRODUCER: 0.0, CONSUMER: 0.0}, is_patient=False).run()

    for party in (PRODUCER, CONSUMER):
        assert isinstance(meeting.errors[party], PeerTimeoutError)
        assert f"the exchange at {WAYS[way].address} (channel 'c') does not answer" in str(meeting.errors[party])
        assert meeting.ended_at[party] < CONNECT_SECONDS + MORE_SECONDS


@each_way
def test_a_producer_that_never_comes_is_named_in_time(way: str) -> None:
    meeting = Meeting(way=WAYS[way], comes_at={EXCHANGE: 0.0, CONSUMER: 0.0}, is_patient=False).run()

    assert "has a producer announced the channel's schema?" in str(meeting.errors[CONSUMER])
    assert meeting.ended_at[CONSUMER] < AGREEMENT_SECONDS + MORE_SECONDS


# Pauses in the middle.


@two_ways
@each_client
def test_an_application_may_rest_for_minutes(way: str, party: str) -> None:
    require_well(Meeting(way=WAYS[way], rests={party: 300.0}))


@pytest.mark.long
@each_way
@each_client
@pytest.mark.parametrize("seconds", [15, 60, 600])
def test_an_application_may_rest_in_the_middle(way: str, party: str, seconds: float) -> None:
    require_well(Meeting(way=WAYS[way], rests={party: seconds}))


@two_ways
@each_party
def test_a_stop_that_is_shorter_than_the_silence_is_borne(way: str, party: str) -> None:
    require_well(Meeting(way=WAYS[way], stops=(Stop(party, MIDDLE_SECONDS, SILENCE_SECONDS - 3),)))


@pytest.mark.long
@each_way
@each_party
@each_moment
def test_a_short_stop_at_any_moment_is_borne(way: str, party: str, moment: str) -> None:
    require_well(Meeting(way=WAYS[way], stops=(Stop(party, MOMENTS[moment], SILENCE_SECONDS - 3),)))


@pytest.mark.parametrize("scheme", ["tcp://", "udp://"])
@each_party
def test_a_longer_stop_is_borne_by_streams_that_resume(scheme: str, party: str) -> None:
    way = Way(scheme=scheme, resume_seconds=120.0)

    require_well(Meeting(way=way, stops=(Stop(party, MIDDLE_SECONDS, 60.0),)))


@each_client
def test_a_bit_flipped_in_a_header_is_borne_by_resuming(party: str) -> None:
    """What comes next is a sign of life, which has nothing else."""
    require_well(Meeting(way=WAYS["TCP that resumes"], flips={party: MIDDLE_SECONDS}))


@each_way
@each_party
def test_a_stop_that_is_too_long_is_told_in_time(way: str, party: str) -> None:
    seconds = MIDDLE_SECONDS + SILENCE_SECONDS + WAYS[way].resume_seconds
    meeting = Meeting(way=WAYS[way], stops=(Stop(party, MIDDLE_SECONDS, 100.0),))

    require_named(meeting, party, seconds)
    assert {PRODUCER, CONSUMER} <= {*meeting.errors}
    if party != EXCHANGE and not WAYS[way].resume_seconds:
        assert "you were silent for 21 s" in str(meeting.errors[party])


@each_way
@each_party
def test_a_host_that_is_lost_is_named_in_time(way: str, party: str) -> None:
    seconds = MIDDLE_SECONDS + SILENCE_SECONDS + WAYS[way].resume_seconds

    require_named(Meeting(way=WAYS[way], power_off={party: MIDDLE_SECONDS}), party, seconds)


# All are stopped, as by a machine that sleeps, and go on.


def stopped(way: Way, moment: str, seconds: float, order: str, apart_seconds: float, *, is_patient: bool) -> Meeting:
    """They go on one after the other."""
    stops = (Stop(party, MOMENTS[moment], seconds + apart_seconds * place) for place, party in enumerate(ORDERS[order]))
    return Meeting(way=way, stops=tuple(stops), is_patient=is_patient, has_schema=True)


@two_ways
@each_moment
def test_all_may_be_stopped_for_a_minute(way: str, moment: str) -> None:
    require_well(stopped(WAYS[way], moment, 60.0, "consumer, producer, exchange", 2.0, is_patient=False))


@pytest.mark.long
@each_way
@each_moment
@each_order
def test_all_may_be_stopped_at_any_moment(way: str, moment: str, order: str) -> None:
    for seconds, apart_seconds, is_patient in product((60, 600), (0, 4), (False, True)):
        require_well(stopped(WAYS[way], moment, seconds, order, apart_seconds, is_patient=is_patient))


def test_a_countdown_ends_though_rounding_leaves_a_rest() -> None:
    world = World(0, turn_seconds=0.0)
    host = world.new_host("one")
    for tenths in range(10, 40):
        host.schedule(Countdown, tenths / 10, world.stop)
        world.run()
    assert world.now == pytest.approx(sum(range(10, 40)) / 10)

"""Metrics in packets: totals are exact after any that arrives, and all senders stay below the receiver's limit."""

import json
from bisect import bisect_right

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from examples.jobs.metrics_core import (
    MOST_NAMES,
    MOST_PACKET_BYTES,
    REPEAT_NS,
    SECOND_NS,
    MalformedPacketError,
    Packet,
    Reporter,
    packet_period_ns,
)
from permitflow.errors import InvalidOptionError

PERIOD_NS = packet_period_ns(20, 2)
GOOD = Packet(source="w", incarnation=1, sequence=1, totals={}, gauges={})
PAUSES_NS = st.sampled_from((0, 0, 0, 1, PERIOD_NS)) | st.integers(0, SECOND_NS // 2)
# Of a process: what it does before a packet, between reading the clock and the packet's leaving, and after that.
PACKETS = st.lists(st.tuples(PAUSES_NS, PAUSES_NS, PAUSES_NS), max_size=15)
# Just before a token comes, two packets leave, and one with the token.
FIFTH_NS = SECOND_NS // 5
BURST = [(FIFTH_NS - 1, 0, 0), (0, 0, 0), (0, 0, 0)]
STEADY = [(0, 0, 0)] * 9


def sent_by(reporter: Reporter, pauses_ns: list[tuple[int, int, int]], now_ns: int) -> list[int]:
    """When packets leave a process that always has something to say."""
    times = []
    for idle_ns, held_ns, late_ns in pauses_ns:
        reporter.count("jobs")
        now_ns = max(now_ns, reporter.due_ns()) + idle_ns
        reporter.packet(now_ns)
        times.append(now_ns + held_ns)
        now_ns += held_ns + late_ns
        reporter.has_left(now_ns)
    return times


@given(st.integers(1, 3), st.integers(3, 12), st.lists(st.lists(PACKETS, max_size=3), min_size=1, max_size=3))
@example(1, 7, [[BURST + STEADY]])
@example(1, 7, [[BURST, STEADY]])
@example(1, 7, [[[(0, 2 * FIFTH_NS - 1, 0), *STEADY]]])
def test_all_senders_together_stay_below_the_limit(
    senders: int, share: int, runs: list[list[list[tuple[int, int, int]]]]
) -> None:
    """However processes are held up, killed, and started again."""
    limit = senders * share
    period_ns = packet_period_ns(limit, senders)
    times: list[int] = []
    for starts in runs[:senders]:
        now_ns = 0
        for number, pauses_ns in enumerate(starts, start=1):
            left = sent_by(Reporter("w", number, period_ns, now_ns), pauses_ns, now_ns)
            now_ns = max([now_ns, *left])  # it is killed, and at once the next one starts
            times += left
    times.sort()
    in_windows = [bisect_right(times, begin + SECOND_NS) - place for place, begin in enumerate(times)]
    assert max(in_windows, default=0) <= limit


def test_a_limit_of_fewer_than_three_packets_for_each_is_refused() -> None:
    assert packet_period_ns(3, 1) == SECOND_NS
    with pytest.raises(InvalidOptionError, match=r"must be at least 15, three for each of 5 senders: 14"):
        packet_period_ns(14, 5)


def test_what_is_counted_between_two_packets_is_one_total() -> None:
    reporter = Reporter("w1", 2, PERIOD_NS, 0)
    for _ in range(1_000):
        reporter.count("jobs")
    reporter.gauge("queue", 7)
    packet = Packet.from_bytes(reporter.packet(reporter.due_ns()))
    assert packet == Packet(source="w1", incarnation=2, sequence=1, totals={"jobs": 1_000}, gauges={"queue": 7})


def test_totals_that_do_not_change_are_repeated() -> None:
    reporter = Reporter("w1", 1, PERIOD_NS, 0)
    reporter.count("jobs")
    now_ns = reporter.due_ns()
    first = Packet.from_bytes(reporter.packet(now_ns))
    reporter.has_left(now_ns)
    assert reporter.due_ns() == now_ns + REPEAT_NS
    second = Packet.from_bytes(reporter.packet(reporter.due_ns()))
    assert (second.totals, second.sequence) == (first.totals, first.sequence + 1)


def test_accounts_of_others_have_their_turn_though_totals_change() -> None:
    reporter = Reporter("master", 1, PERIOD_NS, 0)
    told = []
    for _ in range(6):
        reporter.count("jobs")
        reporter.took_result("w1", 1)
        reporter.took_result("w2", 1)
        now_ns = reporter.due_ns()
        told.append(Packet.from_bytes(reporter.packet(now_ns)).about)
        reporter.has_left(now_ns)
    assert sorted(told) == ["", "", "w1", "w1", "w2", "w2"]


def test_results_of_incarnations_before_the_newest_are_told_apart() -> None:
    reporter = Reporter("master", 1, PERIOD_NS, 0)
    for incarnation in (1, 1, 2, 1, 3):
        reporter.took_result("w1", incarnation)
    packets = []
    for _ in range(2):
        packets.append(Packet.from_bytes(reporter.packet(reporter.due_ns())))
        reporter.has_left(reporter.due_ns())
    about = next(packet for packet in packets if packet.about)
    assert (about.totals, about.gauges) == ({"results": 5, "results_before": 4}, {"incarnation": 3})


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"\x00\xff" * 30,
        b"[" * MOST_PACKET_BYTES,
        b"{}",
        b"null",
        b" " * MOST_PACKET_BYTES + b"{}",
        *(
            json.dumps({**json.loads(GOOD.to_bytes()), **wrong}).encode()
            for wrong in (
                {"source": "<b>"},
                {"source": ""},
                {"source": 1},
                {"about": "\n"},
                {"incarnation": 0},
                {"incarnation": True},
                {"sequence": 2**54},
                {"sequence": 1.0},
                {"totals": {"jobs": -1}},
                {"totals": {"jobs": 1.5}},
                {"totals": {"jobs": True}},
                {"totals": {"": 1}},
                {"totals": [1]},
                {"totals": {"a" * each: 1 for each in range(1, MOST_NAMES + 2)}},
                {"gauges": {"queue": float("nan")}},
                {"gauges": {"queue": float("inf")}},
                {"gauges": {"queue": "7"}},
                {"gauges": {"queue": 10**300}},
            )
        ),
    ],
)
def test_what_is_no_packet_is_refused(content: bytes) -> None:
    assert Packet.from_bytes(GOOD.to_bytes()) == GOOD
    with pytest.raises(MalformedPacketError):
        Packet.from_bytes(content)


@given(st.binary(max_size=60))
def test_any_bytes_are_refused_by_one_error(content: bytes) -> None:
    with pytest.raises(MalformedPacketError):
        Packet.from_bytes(content)


def test_the_largest_packet_is_taken() -> None:
    names = ["a" * 23 + letter for letter in "abcdefghijkl"]
    packet = Packet(
        source="s" * 32,
        incarnation=2**53,
        sequence=2**53,
        about="s" * 32,
        totals=dict.fromkeys(names, 2**53),
        gauges=dict.fromkeys(names, -1.7976931348623157e-100),
    )
    assert Packet.from_bytes(packet.to_bytes()) == packet


def test_counting_under_a_name_that_no_packet_has_is_refused() -> None:
    reporter = Reporter("w1", 1, PERIOD_NS, 0)
    for name in ("Jobs", "jobs/s", "a" * 25):
        with pytest.raises(InvalidOptionError, match="must be up to 24 small letters"):
            reporter.count(name)
    for letter in "abcdefghijkl":
        reporter.gauge(letter, 1)
    with pytest.raises(InvalidOptionError, match="12 names at most"):
        reporter.gauge("m", 1)

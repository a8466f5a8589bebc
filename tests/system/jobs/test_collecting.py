"""The monitor's totals are exact after any packet that arrives, whatever became of those before."""

from hypothesis import given
from hypothesis import strategies as st

from examples.jobs.collecting import MOST_INCARNATIONS, MOST_SAMPLES, MOST_SOURCES, SAMPLE_NS, Collector
from examples.jobs.metrics_core import SECOND_NS, Packet, Reporter, packet_period_ns

PERIOD_NS = packet_period_ns(100, 1)
STARTS = [("w1", 1), ("w1", 2), ("w2", 1)]


def packet(source: str = "w1", incarnation: int = 1, sequence: int = 1, **totals: int) -> bytes:
    return Packet(source=source, incarnation=incarnation, sequence=sequence, totals=totals, gauges={}).to_bytes()


def sent(reporter: Reporter) -> bytes:
    now_ns = reporter.due_ns()
    content = reporter.packet(now_ns)
    reporter.has_left(now_ns)
    return content


@given(st.lists(st.tuples(st.integers(0, 2), st.integers(0, 3)), max_size=12), st.data())
def test_lost_doubled_and_late_packets_make_no_total_wrong(counted: list[tuple[int, int]], data: st.DataObject) -> None:
    """Never above the truth, and equal to it as soon as the last packet has arrived, in whatever order."""
    reporters = [Reporter(*start, PERIOD_NS, 0) for start in STARTS]
    packets = []
    for place, jobs in counted:
        reporters[place].count("finished", jobs)
        packets.append(sent(reporters[place]))
    last = [sent(reporter) for reporter in reporters]
    truth = {f"{name}#{number}": reporter.totals for (name, number), reporter in zip(STARTS, reporters, strict=True)}
    arriving = data.draw(st.lists(st.sampled_from(packets), max_size=20)) if packets else []
    collector = Collector(100, 0)
    for content in data.draw(st.permutations(arriving + last)):
        collector.take(content, 0)
        for start, totals in collector.state(0)["sources"].items():
            assert totals.get("finished", 0) <= truth[start].get("finished", 0)
    state = collector.state(0)
    assert state["sources"] == truth
    assert state["packets"]["missing"] == len(set(packets)) - len(set(arriving))


def test_packets_that_come_twice_or_late_are_counted_apart() -> None:
    collector = Collector(100, 0)
    for sequence in (1, 2, 5, 2, 4, 4, 100, 3):
        collector.take(packet(sequence=sequence, jobs=sequence), 0)
    packets = collector.state(0)["packets"]
    # It is no longer known whether the third one has come: it counts as missing.
    assert {name: packets[name] for name in ("taken", "twice", "late", "missing")} == {
        "taken": 4,
        "twice": 2,
        "late": 2,
        "missing": 95,
    }


def test_what_a_killed_worker_has_not_told_is_told_as_such() -> None:
    master, first, second = (Reporter(name, start, PERIOD_NS, 0) for name, start in (("master", 1), *STARTS[:2]))
    collector = Collector(100, 0)
    for _ in range(5):
        first.count("finished")
        master.took_result("w1", 1)
    collector.take(sent(first), 0)
    for _ in range(3):
        first.count("finished")  # and then it is killed
        master.took_result("w1", 1)
    second.count("finished")
    master.took_result("w1", 2)
    for content in (sent(second), sent(master), sent(master)):
        collector.take(content, 0)
    state = collector.state(0)
    assert state["undelivered"] == {"w1": 3}
    assert state["results"] == {"w1": {"results": 9, "results_before": 8}}


def test_the_newer_of_two_starts_of_the_master_is_believed() -> None:
    collector = Collector(100, 0)
    for start, results in ((2, 3), (1, 90)):
        master = Reporter("master", start, PERIOD_NS, 0)
        for _ in range(results):
            master.took_result("w1", 1)
        # The older one has sent more packets.
        for _ in range(8 // start):
            collector.take(sent(master), 0)
    assert collector.state(0)["results"] == {"w1": {"results": 3}}


def test_a_worker_that_starts_anew_goes_on_where_it_was() -> None:
    collector = Collector(100, 0)
    for content in (packet(pulled=7), packet(incarnation=2), packet("w2", finished=4)):
        collector.take(content, 0)
    collector.sample(0, 0)
    assert collector.samples[-1]["pulled"] == {"w1": 7, "w2": 4}


def test_a_window_counts_all_that_arrive_within_a_second() -> None:
    collector = Collector(3, 0)
    for at_ns in (0, 1, SECOND_NS, SECOND_NS + 1, 3 * SECOND_NS):
        collector.arrive(at_ns)
    assert collector.arrivals.peak == 3
    collector.sample(0, 3 * SECOND_NS)
    for at_ns in range(3 * SECOND_NS, 3 * SECOND_NS + 100):
        collector.arrive(at_ns)
    collector.sample(0, 4 * SECOND_NS)
    collector.sample(0, 6 * SECOND_NS)
    assert [sample["packets"] for sample in collector.samples] == [3, 4, 4]
    collector.sample(0, 7 * SECOND_NS)
    assert collector.samples[-1]["packets"] == 0


def test_only_expected_sources_are_taken_if_they_are_named() -> None:
    collector = Collector(100, 0, expected=["master", "w1"])
    about = Packet(source="master", incarnation=1, sequence=1, about="w9", totals={"results": 1}, gauges={})
    for content in (packet("w1", jobs=1), packet("w9", jobs=1), about.to_bytes()):
        collector.take(content, 0)
    state = collector.state(0)
    assert (state["sources"], state["results"], state["packets"]["refused"]) == ({"w1#1": {"jobs": 1}}, {}, 2)


def test_nobody_can_make_the_monitor_grow() -> None:
    collector = Collector(100, 0)
    for number in range(2 * MOST_SOURCES):
        collector.take(packet(f"w{number}", jobs=1), 0)
    for number in range(1, 2 * MOST_INCARNATIONS + 1):
        collector.take(packet("w0", incarnation=number, jobs=1), 0)
    for number in range(2 * MOST_SAMPLES):
        collector.sample(number * SAMPLE_NS, number * SAMPLE_NS)
    for _ in range(10):
        collector.take(b"nothing", 0)
    state = collector.state(0)
    assert len({name.partition("#")[0] for name in state["sources"]}) == MOST_SOURCES
    assert len([name for name in state["sources"] if name.startswith("w0#")]) == MOST_INCARNATIONS
    assert collector.total("w0", "jobs") == MOST_INCARNATIONS
    assert len(state["samples"]) == MOST_SAMPLES
    assert (state["packets"]["refused"], state["packets"]["malformed"]) == (MOST_SOURCES + MOST_INCARNATIONS, 10)

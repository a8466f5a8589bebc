"""A cycle of schedules, with every kind of fault, carrier and retention, holds all laws; and each law can be broken."""

import asyncio
from collections.abc import Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.faults.__main__ import run_all
from tests.faults.judge import LAWS, Verdict, judged
from tests.faults.running import Evidence, Life, run_schedule
from tests.faults.schedules import CYCLE, Carrier, Client, Direction, End, Fault, Kind, Party, Retention, Schedule, draw

SEED = 1
JOBS = 8

Results = Mapping[int, tuple[Evidence, Verdict]]


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Of the schedules that the selected tests name, run at once: most of the time they wait."""
    parameters = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    numbers = {each["schedule_number"] for each in parameters if "schedule_number" in each}
    schedules = [draw(SEED, number) for number in sorted(numbers)]
    found = asyncio.run(run_all(schedules, JOBS, tmp_path_factory.mktemp("faults")))
    return {evidence.schedule.number: (evidence, verdict) for evidence, verdict in found}


# Two that follow each other have the same faults, over gRPC and over TCP: make test leaves one of the two out.
SCHEDULES = [
    pytest.param(number, marks=pytest.mark.long if (number + number // 2) % 2 else (), id=draw(SEED, number).name)
    for number in range(CYCLE)
]


@pytest.mark.parametrize("schedule_number", SCHEDULES)
def test_no_law_is_broken(results: Results, schedule_number: int) -> None:
    evidence, verdict = results[schedule_number]
    assert verdict.broken == [], verdict.outcomes
    assert evidence.fired, "no fault has come"


@pytest.mark.parametrize("seed", [SEED, 7])
@pytest.mark.parametrize("cycle", [0, 1, 5])
def test_a_cycle_has_every_kind_of_fault_on_both_carriers_with_both_retentions(seed: int, cycle: int) -> None:
    schedules = [draw(seed, number) for number in range(cycle * CYCLE, (cycle + 1) * CYCLE)]
    found = {(fault.kind, schedule.carrier, schedule.retention) for schedule in schedules for fault in schedule.faults}
    assert found == set(product(Kind, Carrier, Retention))


def test_a_seed_draws_the_same_schedules_again_and_another_one_others() -> None:
    assert [draw(3, number) for number in range(50)] == [draw(3, number) for number in range(50)]
    assert draw(3, 0) != draw(4, 0)


# The law about altered values is able to fail: without checksums it does.


ROWS_OF_FLIPS = 12_000


def judge_flips(carrier: Carrier, folder: Path, *, checksums: bool) -> Verdict:
    """A few large chunks, of which two values are altered on the producer's link and two on the consumer's."""
    faults = tuple(
        Fault(kind=Kind.BIT_FLIP, link=link, direction=direction, after_bytes=int(share * 24 * ROWS_OF_FLIPS), bit=3)
        for link, direction in ((Party.PRODUCER, Direction.UP), (Party.CONSUMER, Direction.DOWN))
        for share in (0.3, 0.7)
    )
    end = End(client=Client.ASYNCIO, largest_chunk_rows=ROWS_OF_FLIPS // 2)
    flipping = Schedule(
        carrier=carrier,
        row_permits=8192,
        rows=ROWS_OF_FLIPS,
        producer=end,
        consumer=end,
        faults=faults,
        checksums=checksums,
    )
    (own := folder / str(checksums)).mkdir()
    return judged(asyncio.run(run_schedule(flipping, own)))


@pytest.mark.parametrize("carrier", Carrier)
def test_flipped_bits_break_the_law_about_values_unless_there_are_checksums(tmp_path: Path, carrier: Carrier) -> None:
    without = judge_flips(carrier, tmp_path, checksums=False)
    assert "nothing altered is delivered" in {law for law, _ in without.broken}, without
    with_sums = judge_flips(carrier, tmp_path, checksums=True)
    assert with_sums.broken == []
    assert any("was altered on the way" in outcome for outcome in with_sums.outcomes.values()), with_sums.outcomes


# The laws, on runs that are made up.

ROWS = 100


def made_up(**changes: Any) -> Evidence:
    """A run in which all went well: 100 rows in two chunks; then with these changes."""
    numbers = {"event": "numbers", "peaks": {"peak_inbox_rows": 64}}
    producer = [{"event": "began", "row": 0}, {"event": "ended", "at": 4.0, "outcome": "consumed"}, {"event": "over"}]
    journals = {
        Party.PRODUCER: changes.pop("producer", [*producer, numbers]),
        Party.CONSUMER: changes.pop("consumer", [*consumer(took(1.0, 0, 50), took(2.0, 50, 50)), numbers]),
    }
    well = Evidence(
        schedule=schedule(Retention.ONCE),
        journals=journals,
        lives=[life(party) for party in Party],
        exchange_says=[{"event": "stopped", "channels": [{"peak_rows_held": 64}]}],
        errors=dict.fromkeys(Party, ""),
        fired=set(),
        seconds=5.0,
    )
    return replace(well, **changes)


def schedule(retention: Retention, kind: Kind = Kind.CUT) -> Schedule:
    end = End(client=Client.ASYNCIO, largest_chunk_rows=50)
    fault = Fault(kind=kind, link=Party.CONSUMER, direction=Direction.UP, after_bytes=10)
    return Schedule(retention=retention, row_permits=64, rows=ROWS, producer=end, consumer=end, faults=(fault,))


def life(party: Party, status: int = 0, *, was_killed: bool = False, hung: bool = False) -> Life:
    return Life(party, 1, status, was_killed, hung)


def took(at: float, first: int, count: int, altered: int = 0) -> dict[str, Any]:
    return {"event": "took", "at": at, "rows": count, "runs": [[first, count]], "altered": altered}


def aligned(barrier: int, rows: int) -> dict[str, Any]:
    return {"event": "aligned", "barrier": barrier, "rows": rows}


def consumer(*taken: dict[str, Any], ends: bool = True) -> list[dict[str, Any]]:
    failed = [{"event": "failed", "type": "PeerGoneError", "message": "it is gone"}]
    return [{"event": "began", "row": 0}, *taken, *([{"event": "ended"}, {"event": "over"}] if ends else failed)]


HALF = consumer(took(1.0, 0, 50), ends=False)
REPLAY = schedule(Retention.REPLAY)

BROKEN: list[tuple[str, dict[str, Any]]] = [
    ("ends in time", {"lives": [life(Party.EXCHANGE), life(Party.CONSUMER, -9, hung=True)]}),
    ("fails by name", {"lives": [life(Party.EXCHANGE), life(Party.CONSUMER, -11)]}),
    ("fails by name", {"errors": {"exchange": "Traceback (most recent call last):\nKeyError: 1"}}),
    ("fails by name", {"producer": [{"event": "crashed", "traceback": "AttributeError: code"}], "fired": {0}}),
    ("rows come in order", {"consumer": consumer(took(1.0, 0, 40), took(2.0, 50, 10), ends=False), "fired": {0}}),
    ("nothing altered is delivered", {"consumer": consumer(took(1.0, 0, 100, altered=1))}),
    ("a clean end is the whole", {"consumer": consumer(took(1.0, 0, 50)), "fired": {0}}),
    ("a clean end is the whole", {"consumer": consumer(took(1.0, 0, 50), took(2.0, 0, 50), took(3.0, 50, 50))}),
    ("consumed is received", {"consumer": HALF, "fired": {0}}),
    ("consumed is received", {"producer": [{"event": "ended", "at": 1.5, "outcome": "accepted"}], "fired": {0}}),
    ("consumed is received", {"producer": [{"event": "ended", "at": 1.5, "outcome": "kept 99"}], "schedule": REPLAY}),
    ("consumed is received", {"consumer": HALF, "schedule": REPLAY}),
    ("what is kept goes on", {"consumer": HALF, "producer": HALF, "schedule": REPLAY, "fired": {0}}),
    ("what is kept goes on", {"producer": HALF, "schedule": schedule(Retention.ONCE, Kind.DELAY), "fired": {0}}),
    ("the bound holds", {"exchange_says": [{"event": "stopped", "channels": [{"peak_rows_held": 65}]}]}),
    ("the bound holds", {"producer": [{"event": "numbers", "peaks": {"peak_rows_held": 65}}], "fired": {0}}),
    ("barriers keep their place", {"consumer": [*consumer(took(1.0, 0, 100)), aligned(1, 5)]}),
    ("barriers keep their place", {"consumer": [*consumer(took(1.0, 0, 100)), aligned(2, 12)]}),
    ("the exchange lives", {"exchange_says": [{"event": "listening", "channels": ["rows/0"]}]}),
]


@pytest.mark.parametrize(("law", "changes"), BROKEN, ids=[f"{law} {n}" for n, (law, _) in enumerate(BROKEN)])
def test_a_broken_law_is_named(law: str, changes: dict[str, Any]) -> None:
    assert law in {name for name, _ in judged(made_up(**changes)).broken}


def test_each_law_is_broken_by_one_of_these() -> None:
    assert {law.__name__.replace("_", " ") for law in LAWS} == {law for law, _ in BROKEN}


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"schedule": REPLAY},
        # Both ends hear that rows have died with the exchange.
        {"producer": HALF, "consumer": HALF, "fired": {0}},
        # All had come; only the news of it was lost.
        {"producer": HALF, "fired": {0}},
        # Nobody had come to read.
        {
            "producer": [{"event": "ended", "at": 1.0, "outcome": "accepted"}],
            "consumer": [{"event": "failed", "at": 2.0, "type": "PeerGoneError", "message": "it is gone"}],
            "fired": {0},
        },
        {"lives": [life(Party.EXCHANGE, -9, was_killed=True)], "exchange_says": [], "fired": {0}},
    ],
)
def test_what_the_laws_allow_is_no_fault(changes: dict[str, Any]) -> None:
    assert judged(made_up(**changes)).broken == []

"""A cycle of schedules of each subject, with every kind of fault, holds all laws; and each law can be broken."""

import asyncio
from collections.abc import Iterable, Mapping
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from tests.faults.__main__ import main, rows_of, run_all
from tests.faults.judge import LAWS, FaultVerdict, judged
from tests.faults.running import Evidence, Life, is_possible, run_schedule
from tests.faults.schedules import (
    CASTS,
    CYCLE,
    Call,
    Carrier,
    Client,
    End,
    Fault,
    FaultKind,
    Method,
    Party,
    Retention,
    Schedule,
    Subject,
    draw,
)
from tests.support.cutting_proxy import Direction

SEED = 1
JOBS = 8

Results = Mapping[str, tuple[Evidence, FaultVerdict]]


@pytest.fixture(scope="module")
def results(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Results:
    """Of the schedules that the selected tests name, run at once: most of the time they wait."""
    parameters = [item.callspec.params for item in request.session.items if hasattr(item, "callspec")]
    drawn = [each["schedule"] for each in parameters if "schedule" in each]
    schedules = {each.name: each for each in drawn if all(map(is_possible, each.kinds))}
    found = asyncio.run(run_all([*schedules.values()], JOBS, tmp_path_factory.mktemp("faults")))
    return {evidence.schedule.name: (evidence, verdict) for evidence, verdict in found}


CYCLES = {Subject.EXCHANGE: CYCLE, Subject.STAGES: 48, Subject.RESUME: 20, Subject.CALLS: 27, Subject.MUTE: 27}
"""So many schedules have each kind of fault with each carrier and retention, or with each method."""
# Of an exchange, two that follow each other have the same faults, over gRPC and over TCP.  make test has the faults of
# those with a store, which are of every kind, and one schedule without a store.
SAMPLES = {
    Subject.EXCHANGE: {3, 20, 23, 24, 27, 28, 31},
    Subject.STAGES: {8},
    Subject.RESUME: {3},
    Subject.CALLS: {20},
    Subject.MUTE: {17},
}
SCHEDULES = [
    pytest.param(drawn, marks=() if number in SAMPLES[subject] else pytest.mark.long, id=drawn.name)
    for subject in Subject
    for number in range(min(CYCLES[subject], CYCLE))
    for drawn in [draw(subject, SEED, number)]
]


@pytest.mark.parametrize("schedule", SCHEDULES)
def test_no_law_is_broken(results: Results, schedule: Schedule) -> None:
    if schedule.name not in results:
        pytest.skip("this machine has no such fault")
    evidence, verdict = results[schedule.name]
    assert verdict.broken == [], verdict.outcomes
    assert evidence.fired, "no fault has come"


@pytest.mark.parametrize("seed", [SEED, 7])
@pytest.mark.parametrize("cycle", [0, 1, 5])
@pytest.mark.parametrize("subject", Subject)
def test_a_cycle_has_every_kind_of_fault_in_every_way(seed: int, cycle: int, subject: Subject) -> None:
    schedules = [
        draw(subject, seed, number) for number in range(cycle * CYCLES[subject], (cycle + 1) * CYCLES[subject])
    ]
    found = {
        (fault.kind, each.call.method if each.call else (each.carrier, each.retention))
        for each in schedules
        for fault in each.faults
        if not fault.kind.is_slowness
    }
    of_few: dict[Subject, Iterable[object]] = {
        Subject.CALLS: Method,
        Subject.MUTE: [(Carrier.TCP, Retention.ONCE)],
        Subject.RESUME: [(carrier, Retention.ONCE) for carrier in Carrier],
    }
    wanted = set(product(CASTS[subject].kinds, of_few.get(subject, product(Carrier, Retention))))
    if subject in (Subject.EXCHANGE, Subject.STAGES):  # nothing of a bridged channel is on a disk
        wanted -= {(FaultKind.FULL_DISK, (carrier, Retention.ONCE)) for carrier in Carrier}
    assert found == wanted
    assert {FaultKind.DELAY, FaultKind.THROTTLE} < {fault.kind for each in schedules for fault in each.faults}


@pytest.mark.parametrize("kind", [FaultKind.STOP, FaultKind.CLOCK_JUMP])
@pytest.mark.parametrize("subject", Subject)
def test_each_process_has_its_turn(subject: Subject, kind: FaultKind) -> None:
    faults = [fault for number in range(6 * CYCLES[subject]) for fault in draw(subject, SEED, number).faults]
    assert {fault.victim for fault in faults if fault.kind is kind} == set(CASTS[subject].parties)


def test_samples_of_an_exchange_have_every_kind_of_fault() -> None:
    sampled = {kind for number in SAMPLES[Subject.EXCHANGE] for kind in draw(Subject.EXCHANGE, SEED, number).kinds}
    assert sampled >= {kind for kind in CASTS[Subject.EXCHANGE].kinds if not kind.is_slowness}


def test_a_run_without_any_schedule_is_an_error(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--schedules", "2"]) == 2
    assert "none is chosen" in capsys.readouterr().err


def test_a_seed_draws_the_same_schedules_again_and_another_one_others() -> None:
    for subject in Subject:
        assert [draw(subject, 3, number) for number in range(50)] == [draw(subject, 3, number) for number in range(50)]
        assert draw(subject, 3, 0) != draw(subject, 4, 0)


# The law about altered values is able to fail: without checksums it does.


ROWS_OF_FLIPS = 12_000


END = End(client=Client.ASYNCIO, largest_chunk_rows=ROWS_OF_FLIPS // 2)


def flips(*ways: tuple[Party, Direction]) -> tuple[Fault, ...]:
    """Two values are altered on each way."""
    return tuple(
        Fault(
            kind=FaultKind.BIT_FLIP, link=link, direction=direction, after_bytes=int(share * 24 * ROWS_OF_FLIPS), bit=3
        )
        for link, direction in ways
        for share in (0.3, 0.7)
    )


FLIPPING = {
    **{
        carrier.value: Schedule(
            carrier=carrier,
            row_permits=8192,
            rows=ROWS_OF_FLIPS,
            producer=END,
            consumer=END,
            faults=flips((Party.PRODUCER, Direction.UP), (Party.CONSUMER, Direction.DOWN)),
        )
        for carrier in Carrier
    },
    "a call": Schedule(
        subject=Subject.CALLS,
        carrier=Carrier.GRPC,
        row_permits=ROWS_OF_FLIPS,
        rows=ROWS_OF_FLIPS,
        producer=END,
        consumer=END,
        call=Call(
            method=Method.SOURCE, window_bytes=65_535, prefetch=0, takes_rows=ROWS_OF_FLIPS, keeps_connection=True
        ),
        faults=flips((Party.CLIENT, Direction.DOWN)),
    ),
}
"""A few large chunks."""


def judge_flips(flipping: Schedule, folder: Path, *, checksums: bool) -> FaultVerdict:
    (own := folder / str(checksums)).mkdir()
    return judged(asyncio.run(run_schedule(replace(flipping, checksums=checksums), own)))


@pytest.mark.parametrize(
    "what", [pytest.param(what, marks=pytest.mark.long if what == Carrier.GRPC.value else ()) for what in FLIPPING]
)
def test_flipped_bits_alter_values_unless_there_are_checksums(tmp_path: Path, what: str) -> None:
    without = judge_flips(FLIPPING[what], tmp_path, checksums=False)
    assert "nothing altered is delivered" in {law for law, _ in without.broken}, without
    with_sums = judge_flips(FLIPPING[what], tmp_path, checksums=True)
    assert with_sums.broken == []
    if what != "a call":  # TLS does not say so, and the call is made again
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
        server_says=[{"event": "stopped", "channels": [{"peak_rows_held": 64}]}],
        errors=dict.fromkeys(Party, ""),
        fired=set(),
        seconds=5.0,
    )
    return replace(well, **changes)


def schedule(retention: Retention, kind: FaultKind = FaultKind.CUT) -> Schedule:
    end = End(client=Client.ASYNCIO, largest_chunk_rows=50)
    fault = Fault(kind=kind, link=Party.CONSUMER, direction=Direction.UP, after_bytes=10)
    return Schedule(retention=retention, row_permits=64, rows=ROWS, producer=end, consumer=end, faults=(fault,))


def called(method: Method, *, client: list[dict[str, Any]], server: list[dict[str, Any]]) -> dict[str, Any]:
    """A run of one call: what both ends say, in messages of one row."""
    end = End(client=Client.ASYNCIO, largest_chunk_rows=1)
    call = Call(method=method, window_bytes=5, prefetch=0, takes_rows=2, keeps_connection=False)
    calling = Schedule(
        subject=Subject.CALLS, row_permits=2, rows=2, producer=end, consumer=end, faults=HALVED.faults, call=call
    )
    began: dict[str, Any] = {"event": "began", "row": 0}
    named = {
        party: [{"call": "1", "pid": 1, "at": 1.0, **event} for event in [began, *said]]
        for party, said in ((Party.CLIENT, client), (Party.SERVER, server))
    }
    lives = [life(party) for party in named]
    return {"schedule": calling, "journals": named, "lives": lives, "server_says": [{"event": "stopped"}]}


def counted(more: int, parts: int, fault: Fault | None = None) -> dict[str, Any]:
    """A run of a word count: what its reader has at the end."""
    counting = replace(HALVED, subject=Subject.MUTE, faults=() if fault is None else (fault,))
    said = [{"event": "counts", "rows": ROWS, "more": more, "parts": parts}, OVER]
    journals = {Party.SENDER: [OVER], Party.READER: said}
    return {"schedule": counting, "journals": journals, "lives": [life(Party.FRONT)], "fired": {0} if fault else set()}


def life(party: Party, status: int = 0, *, was_killed: bool = False, hung: bool = False) -> Life:
    return Life(party, 1, status, was_killed, hung)


def took(at: float, first: int, count: int, altered: int = 0) -> dict[str, Any]:
    return {"event": "took", "at": at, "rows": count, "runs": [[first, count]], "altered": altered}


def aligned(barrier: int, rows: int) -> dict[str, Any]:
    return {"event": "aligned", "barrier": barrier, "rows": rows}


def consumer(*taken: dict[str, Any], ends: bool = True) -> list[dict[str, Any]]:
    failed = [{"event": "failed", "type": "PeerGoneError", "message": "it is gone"}]
    return [{"event": "began", "row": 0}, *taken, *([{"event": "ended"}, {"event": "over"}] if ends else failed)]


GAVE, OPENED, OVER = {"event": "gave", "rows": 1}, {"event": "opened"}, {"event": "over"}
ANSWERED = {"event": "ended", "outcome": "answered 2"}
HALF = consumer(took(1.0, 0, 50), ends=False)
REPLAY = schedule(Retention.REPLAY)
HALVED = schedule(Retention.ONCE, FaultKind.HALF_CLOSE)

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
    ("what can go on does", {"consumer": HALF, "producer": HALF, "schedule": REPLAY, "fired": {0}}),
    ("what can go on does", {"producer": HALF, "schedule": schedule(Retention.ONCE, FaultKind.DELAY), "fired": {0}}),
    ("the bound holds", {"server_says": [{"event": "stopped", "channels": [{"peak_rows_held": 65}]}]}),
    ("the bound holds", {"producer": [{"event": "numbers", "peaks": {"peak_rows_held": 65}}], "fired": {0}}),
    ("an answer tells what was taken", called(Method.SINK, client=[ANSWERED, OVER], server=[took(1.0, 0, 1)])),
    ("no word is counted twice", counted(more=1, parts=0)),
    ("no word is counted twice", counted(more=0, parts=1)),
    ("sources are closed", called(Method.SOURCE, client=[OVER], server=[OPENED])),
    ("nobody runs ahead", called(Method.SOURCE, client=[OVER], server=[GAVE, GAVE, GAVE, GAVE])),
    ("what can go on does", called(Method.SOURCE, client=[], server=[])),
    (
        "fails by name",
        called(Method.SINK, client=[OVER], server=[{"event": "failed", "type": "KeyError", "message": ""}]),
    ),
    ("barriers keep their place", {"consumer": [*consumer(took(1.0, 0, 100)), aligned(1, 5)]}),
    ("barriers keep their place", {"consumer": [*consumer(took(1.0, 0, 100)), aligned(2, 12)]}),
    ("the server lives", {"server_says": [{"event": "listening", "channels": ["rows/0"]}]}),
]


@pytest.mark.parametrize(("law", "changes"), BROKEN, ids=[f"{law} {n}" for n, (law, _) in enumerate(BROKEN)])
def test_a_broken_law_is_named(law: str, changes: dict[str, Any]) -> None:
    assert law in {name for name, _ in judged(made_up(**changes)).broken}


def test_each_law_is_broken_by_one_of_these() -> None:
    assert {law.__name__.replace("_", " ") for law in LAWS} == {law for law, _ in BROKEN}


def test_a_schedule_counts_once_for_its_subject_and_each_fault() -> None:
    cuts = replace(HALVED, faults=schedule(Retention.ONCE).faults * 2)
    results = [(evidence, judged(evidence)) for evidence in (made_up(schedule=cuts, fired={0, 1}), made_up())]
    assert [*rows_of(results)] == [("cut", 2, 1, 2, 0, 0), ("exchange", 2, 1, 2, 0, 0)]


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
        {"lives": [life(Party.EXCHANGE, -9, was_killed=True)], "server_says": [], "fired": {0}},
        # One message is sent, one is with the consumer, and one has died with a connection.
        called(Method.SOURCE, client=[OVER], server=[OPENED, GAVE, GAVE, GAVE, {"event": "closed"}]),
        called(Method.SINK, client=[ANSWERED, OVER], server=[took(1.0, 0, 1), took(1.0, 1, 1)]),
        counted(more=0, parts=0),
        # The sender's connection has ended within a word.
        counted(
            more=0, parts=1, fault=Fault(kind=FaultKind.CUT, link=Party.SENDER, direction=Direction.UP, after_bytes=1)
        ),
    ],
)
def test_what_the_laws_allow_is_no_fault(changes: dict[str, Any]) -> None:
    assert judged(made_up(**changes)).broken == []

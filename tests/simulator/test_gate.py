"""A gate aligns the barriers of its inputs, and loses no row and no credit, under seeded faults in simulated time."""

from tests.simulator.gate import run_seed
from tests.simulator.running import run_some


def test_gates_keep_all_laws_in_seeded_schedules() -> None:
    report = run_some(range(25), "gate")

    assert not report.broken, "\n".join(report.in_words())
    for what in ("aligned", "judged together", "withdrawn", "consumer InputLostError"):
        assert report.seen[what] > 0, f"no schedule had {what}"


def test_an_input_that_begins_anew_is_judged_by_its_new_stream() -> None:
    outcome = run_seed(4567, False)

    assert outcome.seen["judged together"] == 1
    assert not outcome.broken

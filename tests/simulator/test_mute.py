"""Muted pipelines count each word once, and nobody waits for ever, under seeded faults in simulated time."""

from tests.simulator.mute import run_seed
from tests.simulator.running import run_some


def test_muted_pipelines_keep_all_laws_in_seeded_schedules() -> None:
    report = run_some(range(60), "mute")

    assert not report.broken, "\n".join(report.in_words())
    for what in ("muted", "unsaved", "crash", "stalled", "lost", "cut while held", "words are lost"):
        assert report.seen[what] > 0, f"no schedule had {what}"
    for step in ("Settle", "Evaluate", "Bound"):
        assert report.steps[step] > 0, f"nothing was judged after {step}"


def test_a_seed_of_a_muted_pipeline_tells_the_same_story_twice() -> None:
    first, again = (run_seed(4, True) for _ in range(2))

    assert first.story
    assert (first.digest, first.story) == (again.digest, again.story)

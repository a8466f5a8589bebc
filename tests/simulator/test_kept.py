"""An exchange that keeps rows loses, doubles and reorders none, whatever fails and whenever."""

from collections import Counter

from tests.simulator.kept import run_seed
from tests.simulator.world import quiet


def test_kept_channels_lose_nothing() -> None:
    seen: Counter[str] = Counter()
    with quiet():
        for seed in range(15):
            outcome = run_seed(seed, False)
            assert not outcome.broken, f"seed {seed}"
            seen += outcome.seen
    for what in ("crash", "power", "published", "full"):
        assert seen[what] > 0, f"no schedule had {what}"


def test_a_seed_of_a_kept_channel_tells_the_same_story_twice() -> None:
    with quiet():
        first, second = run_seed(4, True), run_seed(4, True)
    assert first.story
    assert (first.digest, first.story) == (second.digest, second.story)

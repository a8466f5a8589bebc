"""An exchange that keeps rows loses, doubles and reorders none, whatever fails and whenever."""

import socket

import pytest

from tests.simulator.kept import run_seed
from tests.simulator.running import collect, run_some
from tests.simulator.stores import new_store
from tests.simulator.world import quiet

WITH_EXPIRY = (33, 86, 121)
WITH_MORE_COLUMNS = (9, 68, 81)


def test_kept_channels_lose_nothing() -> None:
    report = run_some(range(15), "kept")

    assert not report.broken, "\n".join(report.in_words())
    for what in ("crash", "power", "published", "full", "read-only", "gave up in the exchange"):
        assert report.seen[what] > 0, f"no schedule had {what}"


def test_a_consumer_of_rows_that_expire_sees_them_or_is_told() -> None:
    report = run_some(WITH_EXPIRY, "kept")
    assert not report.broken, "\n".join(report.in_words())
    assert report.seen["default RowsExpiredError"] >= len(WITH_EXPIRY)


def test_a_producer_cut_off_at_its_end_hears_of_its_end() -> None:
    assert not run_some([5003320], "kept").broken


def test_values_of_a_later_column_are_those_that_were_sent() -> None:
    report = run_some(WITH_MORE_COLUMNS, "kept")
    assert not report.broken, "\n".join(report.in_words())
    assert report.seen["rows with the later column"] >= len(WITH_MORE_COLUMNS)


@pytest.mark.parametrize("seed", [0, 13])  # 13: clients are told of an error that names the store's folder
def test_a_seed_of_a_kept_channel_tells_the_same_story_twice(seed: int) -> None:
    new_store.cache_clear()
    with quiet():
        first, second = run_seed(seed, True), run_seed(seed, True)
    collect()
    assert first.story
    assert (first.digest, first.story) == (second.digest, second.story)


def test_what_an_exchange_logs_is_told_with_the_story() -> None:
    logged = [what for _, where, what in run_seed(34, True).story if where == "log"]
    assert any("cannot be written" in what for what in logged)
    assert any("can be written again" in what for what in logged)


def test_a_simulated_program_asks_no_real_network(monkeypatch: pytest.MonkeyPatch) -> None:
    def connect(_self: socket.socket, address: object) -> None:
        raise AssertionError(f"a real socket was to be connected to {address}")

    monkeypatch.setattr(socket.socket, "connect", connect, raising=False)
    assert not run_seed(4, False).broken

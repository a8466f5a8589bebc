"""Channels that are added together: written down at once, all or none."""

import asyncio
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from permitflow.errors import InvalidParametersError, PermitflowError, StoreMismatchError, StoreWriteError
from permitflow.exchange.registry import Exchange
from permitflow.exchange.replay_channel import ReplayChannel
from permitflow.exchange.stores.sqlite import SqliteStore
from permitflow.exchange.stores.store import Store
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.replay import Retention
from tests.support.kept_rows import CONSUMERS, PARAMETERS

Open = Callable[[], SqliteStore]

NAMES = [f"orders/{number}" for number in range(500)]
KILLED = """
import os, signal, sys
from pathlib import Path
from permitflow.exchange.stores import sqlite
from tests.support.kept_rows import CONSUMERS, PARAMETERS

add, left = sqlite._add, int(sys.argv[2])

def killed(*facts):
    global left
    left -= 1
    if left < 0:
        os.kill(os.getpid(), signal.SIGKILL)
    return add(*facts)

sqlite._add = killed
store = sqlite.SqliteStore(Path(sys.argv[1]))
store.open_channels([f"orders/{number}" for number in range(500)], parameters=PARAMETERS, consumers=CONSUMERS)
"""


def added(store: Store) -> list[str]:
    """The logs of all channels."""
    return [place.load().log_id for place in store.open_channels(NAMES, parameters=PARAMETERS, consumers=CONSUMERS)]


def test_channels_that_are_added_together_are_one_transaction(open_store: Open) -> None:
    store = open_store()
    logs = added(store)
    assert store.commits == 1
    assert len(set(logs)) == len(NAMES)
    store = open_store()
    assert added(store) == logs
    assert store.commits == 0


@pytest.mark.parametrize("killed_after", [0, 250, 499])
def test_who_is_killed_while_channels_are_added_has_added_none(
    open_store: Open, tmp_path: Path, killed_after: int
) -> None:
    child = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path / "store"), str(killed_after)], check=False)
    assert child.returncode == -signal.SIGKILL
    store = open_store()
    store.require_fitting((), parameters=PARAMETERS, consumers=CONSUMERS)  # or it would say which are left over
    added(store)


def test_of_channels_that_cannot_be_added_together_none_is(open_store: Open) -> None:
    store = open_store()
    with pytest.raises(StoreWriteError):
        store.open_channels(["a", "b", "a"], parameters=PARAMETERS, consumers=CONSUMERS)
    store = open_store()
    store.open_channels(["b"], parameters=ChannelParameters(row_permits=50), consumers=CONSUMERS)
    store = open_store()
    with pytest.raises(StoreMismatchError):
        store.open_channels(["a", "b"], parameters=PARAMETERS, consumers=CONSUMERS)
    store = open_store()
    store.require_fitting(["b"], parameters=ChannelParameters(row_permits=50), consumers=CONSUMERS)


def test_new_channels_join_those_that_are_stored(open_store: Open) -> None:
    open_store().open_channels(NAMES[100:200], parameters=PARAMETERS, consumers=CONSUMERS)
    store = open_store()
    added(store)
    assert store.commits == 1


@pytest.mark.parametrize("names", [["a", "a"], ["a", ""], ["a", "taken"]])
def test_an_exchange_adds_all_channels_or_none(store: Store, names: list[str]) -> None:
    exchange = Exchange(store=store)
    exchange.add_channel("taken")
    with pytest.raises(InvalidParametersError):
        exchange.add_channels(names, retention=Retention.REPLAY)
    exchange.add_channels(["a", "b"], retention=Retention.REPLAY)
    assert [each.name for each in exchange.statistics()] == ["taken", "a", "b"]


REFUSED: dict[str, dict[str, Any]] = {
    "no consumer": {"consumers": ()},
    "a consumer twice": {"consumers": ("a", "a")},
    "no room for staged rows": {"staging_rows": 0},
    "another schema than one of them has": {"schema": pa.schema([("other", pa.int32())])},
}


@pytest.mark.parametrize("wrong", list(REFUSED))
def test_who_was_refused_can_try_again(
    run: asyncio.Runner, open_store: Open, rows: Callable[[int, int], pa.RecordBatch], wrong: str
) -> None:
    async def keep() -> None:
        await Exchange(store=open_store()).add_channel("old", retention=Retention.REPLAY).append(rows(0, 3))

    async def try_twice() -> None:
        exchange = Exchange(store=open_store())
        with pytest.raises(PermitflowError):
            exchange.add_channels(["new", "old"], retention=Retention.REPLAY, **REFUSED[wrong])
        new, old = exchange.add_channels(["new", "old"], retention=Retention.REPLAY)
        assert isinstance(new, ReplayChannel)
        assert isinstance(old, ReplayChannel)
        assert (new.log.books.next_row, old.log.books.next_row) == (0, 3)

    run.run(keep())
    run.run(try_twice())


def test_what_was_refused_has_left_nothing_in_the_store(open_store: Open) -> None:
    for facts in REFUSED.values():
        if "schema" not in facts:
            with pytest.raises(PermitflowError):
                Exchange(store=open_store()).add_channels(["new"], retention=Retention.REPLAY, **facts)
    open_store().require_fitting((), parameters=PARAMETERS, consumers=CONSUMERS)  # or it would say what is left over

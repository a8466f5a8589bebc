"""What an exchange may expect of every store that is durable.

What it has after it was closed and opened again, and for whom it is.  Channels are added all or none.  What is flushed,
and what waits.
"""

import asyncio
import threading
from typing import Any

import pyarrow as pa
import pytest

from permitflow import ChannelParameters, Demand, Parameters
from permitflow.client import ChannelState, Staging
from permitflow.errors import (
    InvalidParametersError,
    PermitflowError,
    StoreError,
    StoreLeftoverError,
    StoreMismatchError,
    StoreWriteError,
)
from permitflow.exchange import Exchange, ReplayChannel, Retention, Store
from permitflow.exchange.stores.store import PublishedPart
from tests.support.stored_rows import CONSUMERS, PARAMETERS, SCHEMA, OpenStore, channel, filled, numbers, rows


async def test_all_that_was_written_is_there_again(open_store: OpenStore) -> None:
    parts = [Staging("q", batch, 0, "a") for batch in (1, 2, 3)]

    store = open_store()
    place = await filled(store)
    await place.acknowledge("default", 30, 0)
    await place.acknowledge("audit", 12, 12)
    for part in parts:
        await place.stage(part, [rows(30, 2), rows(32, 3)])
    await store.publish("q", 1, [PublishedPart("orders/0", parts[0], 30)])
    await store.publish("q", 2, [PublishedPart("orders/0", parts[1], 35)])
    await place.finish(ChannelState.BROKEN, "the producer gave up")
    log_id = place.load().log_id
    store = open_store()
    place = channel(store)
    kept = place.load()
    assert (kept.log_id, kept.next_row, kept.schema) == (log_id, 40, rows(0, 0).schema)
    assert (kept.acknowledged, kept.producers) == ({"default": 30, "audit": 12}, {"p": 30})
    assert (kept.state, kept.reason) == (ChannelState.BROKEN, "the producer gave up")
    assert kept.staged == {parts[2]: [2, 3]}
    assert store.published_batches() == {"q": 2}
    assert numbers(await place.read(12, 40)) == [*range(12, 30), 30, 31, 32, 33, 34, 30, 31, 32, 33, 34]


@pytest.mark.parametrize(
    ("parameters", "consumers", "message"),
    [
        (ChannelParameters(row_permits=50), CONSUMERS, "row permits 100000, and 50 was given now"),
        (ChannelParameters(row_permits=100_000, permit_batch=1), CONSUMERS, "permit batch 12500, and 1 was given now"),
        (ChannelParameters(row_permits=100_000, oversize="whole"), CONSUMERS, "oversize split"),  # type: ignore[arg-type]
        (Demand(size=1, batch=1), CONSUMERS, "flow permits, and demand was given now"),
        (PARAMETERS, ("default", "audit", "etl"), "consumers audit, default, and audit, default, etl was given now"),
    ],
)
def test_a_channel_that_was_stored_otherwise_is_refused(
    open_store: OpenStore, parameters: Parameters, consumers: tuple[str, ...], message: str
) -> None:
    channel(open_store())
    store = open_store()
    with pytest.raises(StoreMismatchError, match=message):
        store.open_channels(["orders/0"], parameters=parameters, consumers=consumers)[0]
    # It was not touched, and the right numbers still open it.
    channel(store)


@pytest.mark.parametrize(
    ("channels", "parameters", "error"),
    [
        (["orders/1", "new/0"], PARAMETERS, StoreLeftoverError),
        (["new/0", "orders/0", "orders/1"], ChannelParameters(row_permits=50), StoreMismatchError),
    ],
)
def test_a_plan_that_does_not_fit_is_refused_as_a_whole(
    open_store: OpenStore, channels: list[str], parameters: ChannelParameters, error: type[StoreError]
) -> None:
    store = open_store()
    names = ["orders/0", "orders/1"]
    for name in names:
        channel(store, name)
    with pytest.raises(error, match="orders/0"):
        open_store().require_fitting(channels, parameters=parameters, consumers=CONSUMERS)
    open_store().require_fitting(names, parameters=PARAMETERS, consumers=CONSUMERS)
    open_store().require_fitting([*names, "new/0"], parameters=PARAMETERS, consumers=CONSUMERS)


NAMES = [f"orders/{number}" for number in range(500)]


def added(store: Store) -> list[str]:
    return [place.load().log_id for place in store.open_channels(NAMES, parameters=PARAMETERS, consumers=CONSUMERS)]


def test_channels_that_are_added_together_are_one_transaction(open_store: OpenStore) -> None:
    store = open_store()
    logs = added(store)
    assert store.commits == 1
    assert len(set(logs)) == len(NAMES)
    store = open_store()
    assert added(store) == logs
    assert store.commits == 0


def test_channels_that_cannot_all_be_added_are_not_added(open_store: OpenStore) -> None:
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


@pytest.mark.parametrize("names", [["a", "a"], ["a", ""], ["a", "taken"]])
def test_an_exchange_adds_all_channels_or_none(store: Store, names: list[str]) -> None:
    exchange = Exchange(store=store)
    exchange.add_channel("taken")
    with pytest.raises(InvalidParametersError):
        exchange.add_channels(names, retention=Retention.REPLAY)
    exchange.add_channels(["a", "b"], retention=Retention.REPLAY)
    assert [each.channel for each in exchange.statistics()] == ["taken", "a", "b"]


REFUSED: dict[str, dict[str, Any]] = {
    "no consumer": {"consumers": ()},
    "a consumer twice": {"consumers": ("a", "a")},
    "no room for staged rows": {"staging_rows": 0},
    "another schema than one of them has": {"schema": pa.schema([("other", pa.int32())])},
}


@pytest.mark.parametrize("wrong", list(REFUSED))
async def test_who_was_refused_can_try_again(open_store: OpenStore, wrong: str) -> None:
    await Exchange(store=open_store()).add_channel("old", retention=Retention.REPLAY).append(rows(0, 3))
    exchange = Exchange(store=open_store())
    with pytest.raises(PermitflowError):
        exchange.add_channels(["new", "old"], retention=Retention.REPLAY, **REFUSED[wrong])
    new, old = exchange.add_channels(["new", "old"], retention=Retention.REPLAY)
    assert isinstance(new, ReplayChannel)
    assert isinstance(old, ReplayChannel)
    assert (new.books.next_row, old.books.next_row) == (0, 3)


async def test_who_waits_for_the_disk_does_not_keep_others_from_running(open_store: OpenStore) -> None:
    may_go_on = threading.Event()
    store = open_store()
    place = await filled(store)
    store.database.submit(lambda _: may_go_on.wait(60))  # as a disk that takes its time
    async with asyncio.TaskGroup() as group:
        appended = group.create_task(place.append(30, [rows(30, 1)]))
        for _ in range(100):
            await asyncio.sleep(0)
        is_early = appended.done()
        may_go_on.set()
    assert not is_early


async def test_orders_that_come_together_share_a_flush(open_store: OpenStore) -> None:
    # That for which the disk was busy, and one for all that has come meanwhile.
    store = open_store()
    places = [channel(store, f"orders/{number}") for number in range(20)]
    await asyncio.gather(*(place.declare(rows(0, 0).schema) for place in places))
    before, may_go_on = store.commits, threading.Event()
    store.database.submit(lambda _: may_go_on.wait(60))  # as a disk that is busy
    async with asyncio.TaskGroup() as group:
        for place in places:
            group.create_task(place.append(0, [rows(0, 10)]))
        await asyncio.sleep(0)
        may_go_on.set()
    assert store.commits - before <= 2


async def test_a_publication_deletes_other_attempts_up_to_its_batch(open_store: OpenStore) -> None:
    place = channel(store := open_store())
    await place.declare(SCHEMA)
    for batch, attempt in ((0, "older"), (1, "a"), (1, "b"), (2, "newer")):
        await place.stage(Staging("q", batch, 0, attempt), [rows(0, 10)])
    await store.publish("q", 1, [PublishedPart("orders/0", Staging("q", 1, 0, "a"), 0)])
    assert [*channel(open_store()).load().staged] == [Staging("q", 2, 0, "newer")]


async def test_a_reason_may_have_what_postgresql_cannot_hold(open_store: OpenStore) -> None:
    await channel(open_store()).finish(ChannelState.BROKEN, "a\0b")
    found = channel(open_store()).load()
    assert (found.state, found.reason) == (ChannelState.BROKEN, "a�b")


async def test_a_query_that_is_forgotten_leaves_nothing(open_store: OpenStore) -> None:
    store = open_store()
    await store.publish("old", 1, [])
    await store.publish("new", 1, [], forgotten=["old"])
    both = "SELECT query FROM published UNION ALL SELECT query FROM publishing"
    found = store.database.done(lambda connection: connection.execute(both).fetchall())
    assert [query for (query,) in found] == ["new", "new"]


async def test_rows_staged_too_late_for_their_channel_leave_nothing(open_store: OpenStore) -> None:
    store = open_store()
    place = channel(store)
    await place.declare(SCHEMA)
    await store.remove(["orders/0"])
    await place.stage(Staging("q", 0, 0, "a"), [rows(0, 10)])
    ((batches,),) = store.database.done(
        lambda connection: connection.execute("SELECT count(*) FROM batches").fetchall()
    )
    assert batches == 0


async def test_dictionary_columns_are_kept_and_come_back_by_chunk(open_store: OpenStore) -> None:
    batch = pa.record_batch({"word": pa.array(["a", "b", None, "a"]).dictionary_encode(), "list": [[1], [], None, [2]]})
    place = channel(open_store())
    await place.declare(batch.schema)
    await place.append(0, [batch.slice(1, 2), batch])
    read = await channel(open_store()).read(0, 6)
    assert pa.Table.from_batches(read).to_pylist() == [*batch.slice(1, 2).to_pylist(), *batch.to_pylist()]


async def test_one_that_cannot_be_written_does_not_keep_others_from_being(open_store: OpenStore) -> None:
    store = open_store()
    places = [channel(store, f"orders/{number}") for number in range(3)]
    await asyncio.gather(*(place.declare(rows(0, 0).schema) for place in places))
    gap = 7
    outcomes = await asyncio.gather(
        *(place.append(first_row, [rows(0, 1)]) for place, first_row in zip(places, (0, gap, 0), strict=True)),
        return_exceptions=True,
    )
    assert [type(outcome).__name__ for outcome in outcomes] == ["NoneType", "LocalProtocolError", "NoneType"]
    assert "row 7 does not follow" in str(outcomes[1])

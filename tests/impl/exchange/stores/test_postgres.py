"""The store in PostgreSQL: databases that will not do, that go away and come back, and stores that are taken over."""

import asyncio
import re
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, nullcontext

import pyarrow as pa
import pytest

from permitflow.errors import StoreError, StoreInUseError, StoreTakenOverError, StoreUnusableError, StoreWriteError
from permitflow.exchange import ChannelStore, PostgresStore
from permitflow.exchange.stores import postgres_database
from permitflow.exchange.stores.database import TABLES_VERSION
from permitflow.exchange.stores.postgres_database import Location, Waits
from permitflow.stream.frames import Staging
from tests.support.postgres import LOCKED_USER, PostgresServer, schema_of, server_of_its_own
from tests.support.stored_rows import SCHEMA, channel, filled, numbers, rows

IMPATIENT = Waits(patience_seconds=0)


@pytest.fixture
def address(postgres: PostgresServer) -> str:
    return postgres.new_address()


@pytest.fixture
def opened(address: str) -> Iterator[Callable[..., PostgresStore]]:
    """Opens the store of the test, as one more exchange."""
    with ExitStack() as stack:
        yield lambda waits=None: stack.enter_context(PostgresStore(address, waits=waits))


def take_over(postgres: PostgresServer, address: str) -> None:
    """Another exchange has the store; the session of its owner lives on."""
    with postgres.connected() as look:
        look.execute(f"UPDATE {schema_of(address)}.store SET epoch = epoch + 1, owner = 'b:1'".encode())


@pytest.mark.parametrize(
    ("address", "reason"),
    [
        ("postgresql://me:secret@host/db", "others can see a password"),
        ("postgresql://me@host/db?password=secret", "others can see a password"),
        ("postgresql://me:sec@ret@host:x/db?nonsense=1", "it is not an address"),
        ("postgresql://me@host/db?shema=orders", r"it is not an address \(shema is not a parameter of it\)"),
        ("postgresql:host", "it is not an address"),
        ("postgresql://me:secret?x@host/db", "it is not an address"),
        ("postgresql://host/db?schema=public;drop", "the schema must be lower-case letters"),
    ],
)
def test_an_address_that_will_not_do_is_refused_and_not_told(address: str, reason: str) -> None:
    with pytest.raises(StoreUnusableError, match=reason) as caught:
        Location.parsed(address)
    assert not re.search("sec(ret)?|ret", str(caught.value))


def test_an_address_is_told_without_its_parameters() -> None:
    location = Location.parsed("postgresql://me@one,two:5433/db?sslmode=require&schema=orders&options=-c%20a%3Db")
    assert location.name == "postgresql://me@one,two:5433/db?schema=orders"
    assert location.schema == "orders"
    assert location.conninfo == "postgresql://me@one,two:5433/db?sslmode=require&options=-c%20a%3Db"


def refusal(address: str) -> str:
    with pytest.raises(StoreUnusableError) as caught:
        PostgresStore(address)
    return caught.value.reason


def test_a_database_that_is_not_there_is_refused(postgres: PostgresServer) -> None:
    reason = refusal(postgres.address("s").replace("postgres?", "nowhere?"))
    assert 'database "nowhere" does not exist' in reason
    assert "Is the server running" in refusal("postgresql:///db?host=/tmp/permitflow-no-server")


def test_a_wrong_password_is_refused_with_where_to_give_it(
    postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    with postgres.connected() as look:
        look.execute(f"CREATE USER {LOCKED_USER} PASSWORD 'right'")
        look.execute(f"GRANT CREATE ON DATABASE postgres TO {LOCKED_USER}")
    address = postgres.address("of_locked", LOCKED_USER)
    where = "a password is read from PGPASSWORD"
    assert re.search(f"no password supplied.*{where}", refusal(address))
    monkeypatch.setenv("PGPASSWORD", "a secret")
    reason = refusal(address)
    assert re.search(f"password authentication failed.*{where}", reason)
    assert "a secret" not in reason
    monkeypatch.setenv("PGPASSWORD", "right")
    PostgresStore(address).close()


UNFIT = {
    "tables of another program": ("CREATE SCHEMA {s}; CREATE TABLE {s}.orders (n int)", "tables of another program"),
    "a newer store": (f"UPDATE {{s}}.store SET version = {TABLES_VERSION + 1}", "a newer release wrote it"),
    "an older store": (f"UPDATE {{s}}.store SET version = {TABLES_VERSION - 1}", "from before the first release"),
    "another store table": ("CREATE SCHEMA {s}; CREATE TABLE {s}.store (n int)", 'column "version" does not exist'),
    "missing rows": ("DELETE FROM {s}.kept WHERE first_row = 10", "damaged .*rows before row 20 are missing"),
    "altered rows": ("UPDATE {s}.batches SET arrow = arrow || 'x'", "damaged .*was altered"),
}


@pytest.mark.parametrize("unfit", UNFIT)
async def test_a_schema_that_is_no_store_is_refused(postgres: PostgresServer, address: str, unfit: str) -> None:
    damage, reason = UNFIT[unfit]
    if "CREATE" not in damage:
        with PostgresStore(address) as store:
            await filled(store)
    with postgres.connected() as look:
        for statement in damage.format(s=schema_of(address)).split(";"):
            look.execute(statement.encode())
    assert re.search(reason, refusal(address))


def test_a_user_without_rights_hears_what_to_do(postgres: PostgresServer) -> None:
    with postgres.connected() as look:
        look.execute("CREATE USER poor")
    reason = refusal(postgres.address("of_poor", "poor"))
    assert re.search("permission denied for database postgres; make the schema for this user", reason)


def test_a_read_only_database_is_refused(postgres: PostgresServer) -> None:
    address = postgres.address("s", options="-c default_transaction_read_only=on")
    assert "it is read-only, a standby perhaps" in refusal(address)


def test_a_database_of_another_encoding_is_refused(postgres: PostgresServer) -> None:
    with postgres.connected() as look:
        look.execute("CREATE DATABASE ascii ENCODING 'SQL_ASCII' TEMPLATE template0")
    assert "its encoding is SQL_ASCII" in refusal(postgres.address("s").replace("postgres?", "ascii?"))


def test_the_server_flushes_what_is_confirmed_whatever_its_default(postgres: PostgresServer) -> None:
    schema = schema_of(postgres.new_address())
    with PostgresStore(postgres.address(schema, options="-c synchronous_commit=off")) as store:
        assert store.database.done(lambda session: session.value("SHOW synchronous_commit")) == "on"


def test_a_store_that_is_open_is_refused_with_who_has_it(opened: Callable[..., PostgresStore]) -> None:
    opened()
    with pytest.raises(StoreInUseError, match=r"in use by the exchange .*:[0-9]+: stop that one"):
        opened()


async def test_a_lost_connection_delays_writes_and_loses_none(
    opened: Callable[..., PostgresStore], postgres: PostgresServer, address: str
) -> None:
    place = await filled(opened())
    for row in range(30, 90, 10):
        postgres.end_holder(address)
        await place.append(row, [rows(row, 10)], "p", row + 10)
    await place.acknowledge("default", 40, 0)
    assert numbers(await place.read(0, 90)) == [*range(90)]


async def test_rows_that_exceed_the_buffers_of_the_connection_are_kept(opened: Callable[..., PostgresStore]) -> None:
    place = await filled(opened(Waits(patience_seconds=0, answer_seconds=2)))
    wide = pa.record_batch([[30], ["x" * 4_000_000]], schema=SCHEMA)
    await asyncio.gather(place.append(30, [wide], "p", 31), place.stage(Staging("q", 1, 0, "a"), [wide]))
    await place.append(31, [wide], "p", 32)
    assert numbers(await place.read(0, 32)) == [*range(31), 30]


@pytest.mark.parametrize("is_made", [True, False], ids=["made", "undone"])
async def test_a_commit_whose_answer_is_lost_is_made_once(
    opened: Callable[..., PostgresStore], monkeypatch: pytest.MonkeyPatch, is_made: bool
) -> None:
    store = opened()
    place = await filled(store)
    commit = postgres_database._Session.commit

    def lost(session: "postgres_database._Session") -> None:
        monkeypatch.undo()
        if is_made:
            commit(session)
        session.close()
        session.execute("COMMIT")

    monkeypatch.setattr(postgres_database._Session, "commit", lost)
    await place.append(30, [rows(30, 10)], "p", 40)
    await place.append(40, [rows(40, 10)], "p", 50)
    store.close()
    again = channel(opened())
    assert (again.load().next_row, again.load().producers) == (50, {"p": 50})
    assert numbers(await again.read(0, 50)) == [*range(50)]


async def test_an_exchange_that_was_taken_over_confirms_nothing(
    opened: Callable[..., PostgresStore], postgres: PostgresServer, address: str
) -> None:
    old = opened()
    place = await filled(old)
    postgres.end_holder(address)
    new = channel(opened())
    for write in (place.append(30, [rows(30, 1)]), place.acknowledge("default", 30, 0), place.forget([])):
        with pytest.raises(StoreTakenOverError, match=r"to the exchange .*: dial that one"):
            await write
    assert isinstance(await old.until_lost(), StoreTakenOverError)
    await new.append(30, [rows(90, 10)], "p", 40)
    assert numbers(await new.read(0, 40)) == [*range(30), *range(90, 100)]


async def test_an_idle_exchange_hears_that_it_was_taken_over(
    opened: Callable[..., PostgresStore], postgres: PostgresServer, address: str
) -> None:
    old = opened(Waits(lease_seconds=0.4))
    take_over(postgres, address)
    async with asyncio.timeout(60):
        assert isinstance(await old.until_lost(), StoreTakenOverError)


@pytest.mark.parametrize("is_taken", [True, False], ids=["taken over", "session ended"])
def test_who_loses_a_session_asks_at_once_in_the_next_one(
    opened: Callable[..., PostgresStore], postgres: PostgresServer, address: str, is_taken: bool
) -> None:
    old = opened()
    postgres.end_holder(address)
    if is_taken:
        opened()
    with pytest.raises(StoreTakenOverError) if is_taken else nullcontext():
        channel(old)


async def test_an_owner_that_stands_still_in_a_transaction_is_taken_over(
    opened: Callable[..., PostgresStore], address: str
) -> None:
    waits, stands_still = Waits(lease_seconds=1), threading.Event()
    old = opened(waits)
    writing = old.database.submit(lambda _: stands_still.wait())
    try:
        async with asyncio.timeout(30):
            new = await asyncio.to_thread(PostgresStore, address, waits=waits, on_wait=lambda _: None)
    finally:
        stands_still.set()
    with new, pytest.raises(StoreTakenOverError):
        await writing


async def test_a_session_that_lives_on_commits_nothing_after_a_takeover(
    opened: Callable[..., PostgresStore], postgres: PostgresServer, address: str
) -> None:
    """As behind a pooler of connections, which may free the lock while the session lives."""
    place = await filled(opened())
    take_over(postgres, address)
    with pytest.raises(StoreTakenOverError, match="the exchange b:1"):
        await place.append(30, [rows(30, 1)])


async def test_a_database_without_confirmed_commits_is_refused(
    opened: Callable[..., PostgresStore], postgres: PostgresServer, address: str
) -> None:
    place = await filled(opened())
    with postgres.connected() as look:
        look.execute(f"UPDATE {schema_of(address)}.store SET commits = commits - 2".encode())
    with pytest.raises(StoreWriteError, match="it lacks 2 of the 5 commits that were confirmed"):
        await place.append(30, [rows(30, 1)])


async def test_a_full_disk_lets_through_what_makes_room(
    opened: Callable[..., PostgresStore], postgres: PostgresServer, address: str
) -> None:
    """The server's own error, raised by a trigger."""
    place = await filled(opened())
    with postgres.connected() as look:
        look.execute(f"SET search_path TO {schema_of(address)}".encode())
        look.execute(
            "CREATE FUNCTION full_disk() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN"
            " RAISE EXCEPTION 'No space left on device' USING ERRCODE = 'disk_full'; END $$"
        )
        look.execute("CREATE TRIGGER full_disk BEFORE INSERT ON batches EXECUTE FUNCTION full_disk()")
        with pytest.raises(StoreWriteError, match="No space left"):
            await place.append(30, [rows(30, 1)])
        await asyncio.gather(*(place.acknowledge(consumer, 20, 20) for consumer in ("default", "audit")))
        look.execute("DROP TRIGGER full_disk ON batches")
    await place.append(30, [rows(30, 1)])
    assert numbers(await place.read(20, 31)) == [*range(20, 31)]


async def test_rows_wait_for_a_server_that_comes_back_and_fail_if_not() -> None:
    with server_of_its_own() as server, PostgresStore(server.address("s")) as store:
        place = await filled(store)
        server.stop()
        waiting = asyncio.ensure_future(place.append(30, [rows(30, 10)]))
        await asyncio.to_thread(server.start)
        await waiting
        with PostgresStore(server.address("hasty"), waits=IMPATIENT) as hasty:
            other = await filled(hasty)
            server.stop()
            with pytest.raises(StoreWriteError, match="confirmed rows are safe"):
                await other.append(30, [rows(30, 10)])
            with pytest.raises(StoreError):  # at once: an event loop stands still
                channel(hasty, "more/0")
            await asyncio.to_thread(server.start)
            await _until_taken(other)
        await place.append(40, [rows(40, 10)])
        assert numbers(await place.read(0, 50)) == [*range(50)]


async def _until_taken(place: ChannelStore) -> None:
    """Append row 30 again until the store takes it, as producers do."""
    async with asyncio.timeout(60):
        while True:
            try:
                await place.append(30, [rows(30, 10)])
            except StoreWriteError:
                await asyncio.sleep(0)
            else:
                return


async def test_a_server_that_does_not_answer_is_not_waited_for_for_ever(
    opened: Callable[..., PostgresStore], caplog: pytest.LogCaptureFixture
) -> None:
    store = opened(Waits(patience_seconds=0, answer_seconds=0.1, lease_seconds=0.2))
    place = await filled(store)
    with pytest.raises(StoreWriteError, match="confirmed rows are safe"):
        await store.database.submit(lambda session: session.execute("SELECT pg_sleep(3600)"))
    assert "its database has not answered for" in caplog.text
    await _until_taken(place)
    assert numbers(await place.read(0, 40)) == [*range(40)]


def test_a_standby_waits_and_goes_on_where_the_other_has_ended(
    opened: Callable[..., PostgresStore], address: str
) -> None:
    first = opened()
    channel(first)
    waited_for: list[str] = []

    def tell(by: str) -> None:
        waited_for.append(by)
        first.close()

    with ThreadPoolExecutor(1) as executor, executor.submit(PostgresStore, address, on_wait=tell).result(60) as second:
        assert channel(second).load().acknowledged == {"default": 0, "audit": 0}
    assert len(waited_for) == 1
    assert waited_for[0].startswith("the exchange ")


def test_an_unknown_error_of_opening_closes_the_session(
    address: str, postgres: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    def failing(*_: object) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(postgres_database, "PostgresDatabase", failing)
    with pytest.raises(RuntimeError, match="can't start new thread"):
        PostgresStore(address)
    monkeypatch.undo()
    PostgresStore(address).close()

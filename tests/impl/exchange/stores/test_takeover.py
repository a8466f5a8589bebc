"""A second exchange takes the kept channels of a dead one over; producers and consumers go on there.

Nothing that was confirmed is lost, and nothing comes twice, whenever the owner is killed or stands still.
"""

import asyncio
import os
import random
import signal
import socket
import sys
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial

import pytest

from permitflow.client import control, get, put
from permitflow.errors import PeerGoneError, PermitflowError, StoreTakenOverError
from permitflow.exchange import Exchange, ExchangeServer, PostgresStore, Retention
from permitflow.exchange.stores.postgres_database import Waits
from tests.support.kept_rows import SCHEMA, rows
from tests.support.number_streams import CHANNEL
from tests.support.postgres import PostgresServer, schema_of

CHUNK_ROWS = 50
PAUSE_SECONDS = 0.02
USERS = ("first", "second")


class Clients:
    """A named producer and a consumer that are given all addresses, and check what they get."""

    def __init__(self, addresses: Sequence[str]) -> None:
        """Not connected."""
        self.addresses = addresses
        self.is_enough = False
        """Is the producer to end the channel?"""
        self.confirmed = 0
        """Rows of the producer that an exchange has taken over."""
        self.read = 0
        """Rows that the consumer has: row ``n`` is the number ``n``."""
        self.acknowledged = 0
        self.log_id = ""
        self.progress = asyncio.Condition()

    async def run(self) -> None:
        """Produce and consume until the end of the channel."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._again_and_again(self._produce))
            group.create_task(self._again_and_again(self._consume))

    async def _again_and_again(self, once: Callable[[str], AsyncIterator[None]]) -> None:
        while True:
            for address in self.addresses:
                try:
                    async for _ in once(address):
                        async with self.progress:
                            self.progress.notify_all()
                except PermitflowError:
                    await asyncio.sleep(PAUSE_SECONDS)
                else:
                    return

    async def _produce(self, address: str) -> AsyncIterator[None]:
        async with put(
            address, CHANNEL, SCHEMA, producer="p", connect_timeout_seconds=None, resume_seconds=0, silence_seconds=3
        ) as sender:
            assert sender.first_row is not None
            assert sender.first_row >= self.confirmed, "confirmed rows are lost"
            row = self.confirmed = sender.first_row
            while not self.is_enough:
                await sender.send(rows(row, row + CHUNK_ROWS))
                row += CHUNK_ROWS
                # What is not in flight any more was taken over.
                self.confirmed = max(self.confirmed, row - sender.statistics().rows_held)
                yield
            await sender.end(closes_channel=True)
            self.confirmed = row

    async def _consume(self, address: str) -> AsyncIterator[None]:
        async with (
            control(address, resume_seconds=0, silence_seconds=3) as orders,
            get(
                address,
                CHANNEL,
                from_row=self.read,
                log_id=self.log_id,
                connect_timeout_seconds=None,
                resume_seconds=0,
                silence_seconds=3,
            ) as receiver,
        ):
            (position,) = await orders.positions([CHANNEL])
            self.log_id = position.log_id
            assert position.acknowledged_row >= self.acknowledged, "an acknowledgement is lost"
            # That of the last rows may have died with the owner; without it, there might be no room for more.
            await orders.acknowledge({CHANNEL: self.read})
            async for message in receiver:
                numbers = message.payload.column(0).to_pylist()
                assert numbers == [*range(self.read, self.read + len(numbers))], "rows are lost, or come twice"
                self.read += len(numbers)
                await orders.acknowledge({CHANNEL: self.read})
                self.acknowledged = self.read
                yield

    async def until(self, row: int) -> None:
        """Wait until the consumer has come so far."""
        async with self.progress:
            await self.progress.wait_for(lambda: self.read >= row)


@asynccontextmanager
async def owning(store: PostgresStore) -> AsyncIterator[ExchangeServer]:
    exchange = Exchange(store=store)
    exchange.add_channel(CHANNEL, retention=Retention.REPLAY)
    async with ExchangeServer(exchange, "tcp://127.0.0.1:0") as server:
        yield server


@pytest.fixture
def users(postgres: PostgresServer) -> Iterator[Callable[[str, str], None]]:
    """Two users, one for each exchange; a call lets one of them log in, or not any more."""
    with postgres.connected() as look:
        for user in USERS:
            look.execute(f"CREATE USER {user} SUPERUSER".encode())

        def change(user: str, may: str) -> None:
            look.execute(f"ALTER USER {user} {may}".encode())

        yield change
        for user in USERS:
            look.execute(f"DROP OWNED BY {user} CASCADE".encode())
            look.execute(f"DROP USER {user}".encode())


async def test_clients_go_on_at_the_exchange_that_took_over(
    postgres: PostgresServer, users: Callable[[str, str], None]
) -> None:
    schema = schema_of(postgres.new_address())
    async with asyncio.timeout(100), AsyncExitStack() as stack, asyncio.TaskGroup() as group:

        async def owner(user: str) -> tuple[PostgresStore, ExchangeServer]:
            waits = Waits(lease_seconds=1)
            store = stack.enter_context(
                await asyncio.to_thread(PostgresStore, postgres.address(user=user, schema=schema), waits=waits)
            )
            return store, await stack.enter_async_context(owning(store))

        store, server = await owner(USERS[0])
        clients = Clients([server.address])
        running = group.create_task(clients.run())
        for old, new in (USERS, USERS[::-1], USERS):
            await clients.until(clients.read + 5 * CHUNK_ROWS)
            # It is cut off from the database, still runs, and serves.
            users(old, "NOLOGIN")
            postgres.end_holder(postgres.address(schema))
            new_store, new_server = await owner(new)
            clients.addresses = [new_server.address]
            users(old, "LOGIN")
            assert isinstance(await store.until_lost(), StoreTakenOverError)
            await server.stop()
            store, server = new_store, new_server
        clients.is_enough = True
        await running
    assert clients.read == clients.confirmed


async def endlessly(use: Callable[[str], Coroutine[object, object, None]], address: str) -> None:
    while True:
        await use(address)


async def asked(address: str) -> None:
    async with control(address) as orders:
        await orders.statistics()


async def gotten(address: str) -> None:
    async with get(address, CHANNEL, schema=SCHEMA):
        pass


async def produced(address: str) -> None:
    async with put(address, CHANNEL, SCHEMA):
        pass


async def test_an_owner_that_is_cut_off_takes_no_streams_and_orders(
    postgres: PostgresServer, users: Callable[[str, str], None]
) -> None:
    """It cannot know that another one has its store, and clients that know both must not find it."""
    schema = schema_of(postgres.new_address())
    async with asyncio.timeout(60), AsyncExitStack() as stack:

        async def owner(user: str) -> ExchangeServer:
            place = postgres.address(user=user, schema=schema)
            standby = partial(PostgresStore, place, waits=Waits(lease_seconds=1), on_wait=lambda _: None)
            return await stack.enter_async_context(owning(stack.enter_context(await asyncio.to_thread(standby))))

        old = await owner(USERS[0])
        users(USERS[0], "NOLOGIN")
        postgres.end_holder(postgres.address(schema))
        new = await owner(USERS[1])
        for use in (asked, gotten, produced):
            with pytest.raises(PeerGoneError, match="another exchange may have its store"):
                await endlessly(use, old.address)  # it notices with its next sign of life
        both = f"{old.address},{new.address}"
        async with put(both, CHANNEL, SCHEMA) as sender, control(both) as orders:
            await sender.send(rows(0, 5))
            await sender.end()
            ((channel, place),) = (await orders.by_exchange([CHANNEL])).items()
        assert (channel, place) == (new.address, (CHANNEL,))
        users(USERS[0], "LOGIN")


class Node:
    """An exchange in a process of its own, which stands by while another one has the store."""

    def __init__(self, place: str, port: int) -> None:
        """Not started."""
        self.address = f"tcp://127.0.0.1:{port}"
        self.is_owner = asyncio.Event()
        self._place = place

    async def start(self) -> None:
        """Start it; return at once."""
        self.is_owner = asyncio.Event()
        options = ["--stream", "orders", "--retention", "replay", "--store", self._place, "--address", self.address]
        options += ["--row-permits", "4096"]
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "permitflow_tools.cli", "serve", *options, "--standby", "--quiet"),
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.DEVNULL,
        )
        self._watch = asyncio.create_task(self._until_owner())

    async def _until_owner(self) -> None:
        assert self.process.stdout is not None
        if await self.process.stdout.readline():
            self.is_owner.set()

    async def kill(self) -> None:
        """Kill it."""
        self.process.kill()
        await self.process.wait()
        await self._watch


async def owner_of(nodes: Sequence[Node]) -> Node:
    """Wait until one of them has the store."""
    waits = {asyncio.create_task(node.is_owner.wait()): node for node in nodes}
    done, others = await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    for other in others:
        other.cancel()
    return waits[done.pop()]


@pytest.mark.long
@pytest.mark.parametrize(
    ("number", "kills", "seed"),
    [*((signal.SIGKILL, 5, seed) for seed in range(10)), (signal.SIGSTOP, 2, 0)],
    ids=lambda value: value.name if isinstance(value, signal.Signals) else str(value),
)
async def test_nothing_is_lost_or_doubled_however_the_owner_dies(
    postgres: PostgresServer, number: int, kills: int, seed: int
) -> None:
    chance = random.Random(seed)
    place = postgres.new_address()
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as other:
        ports = [each.getsockname()[1] for each in (one, other)]
    nodes = [Node(place, port) for port in ports]
    clients = Clients([",".join(node.address for node in nodes)])  # they find the owner by themselves
    for node in nodes:
        await node.start()
    try:
        async with asyncio.timeout(180), asyncio.TaskGroup() as group:
            group.create_task(clients.run())
            for _ in range(kills):
                owner = await owner_of(nodes)
                await clients.until(clients.read + chance.randrange(1, 40 * CHUNK_ROWS))
                if number == signal.SIGSTOP:
                    os.kill(owner.process.pid, number)
                    await owner_of([node for node in nodes if node is not owner])
                    os.kill(owner.process.pid, signal.SIGCONT)
                    assert await owner.process.wait() == 2  # it was taken over, and says so
                else:
                    await owner.kill()
                await owner.start()
            clients.is_enough = True
    finally:
        for node in nodes:
            if node.process.returncode is None:
                await node.kill()
    assert clients.read == clients.confirmed >= kills

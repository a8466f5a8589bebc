"""The rate of a stream over UDP whose packets get lost, beside that of one whose packets all arrive.

Two processes on the loopback: a producer, and an exchange that consumes what comes.  Both send through the lossy socket
of the tests, also where nothing is lost, because it has a price of its own.  Both ways take turns, and a ratio is one
of neighbours.
"""

import asyncio
import time
from functools import partial
from itertools import count
from multiprocessing.connection import Connection

from benchmarks.field import Settings
from benchmarks.harness import ENDING_SECONDS, Partner, in_turns
from benchmarks.jobs import PAYLOADS, Payload, feed
from benchmarks.results import COMPACT, Row, Series
from permitflow import ChannelParameters
from permitflow.client import SameHost, put
from permitflow.exchange import Exchange, ExchangeServer
from tests.support.lossy_socket import Faults, lossy_network

SIZES = ("64", "1,024", "65,536")
SECONDS = 1.0
WHOLE, LOSSY = "nothing lost", "1 % lost"
FAULTS = {WHOLE: Faults(), LOSSY: Faults(lost=0.01)}
CHANNEL = "chunks"


async def consume(pipe: Connection) -> None:
    """For each job, an exchange over a network with these faults; tells its address, then the rows and lost packets."""
    while True:
        payload, faults, seed = await asyncio.to_thread(pipe.recv)
        exchange = Exchange()
        parameters = ChannelParameters(row_permits=payload.row_permits)
        receiver = exchange.add_channel(CHANNEL, parameters, payload.schema).receiver
        with lossy_network(faults, seed) as sockets:
            async with ExchangeServer(exchange, "udp://127.0.0.1:0") as server:
                pipe.send(server.address)
                rows = sum([message.rows async for message in receiver])
                await server.stop(ENDING_SECONDS)  # the producer hears first that everything is consumed
            pipe.send((rows, sum(each.lost for each in sockets)))


def measure_lossy(settings: Settings) -> list[Row]:
    sizes, seconds = (SIZES[:1], 0.05) if settings.is_smoke else (SIZES, SECONDS)
    rows: list[Row] = []
    seeds = count(step=1_000)
    with Partner(consume) as consumer:
        for payload in (PAYLOADS[size] for size in sizes):

            def sample(way: str, payload: Payload = payload) -> tuple[float, int]:
                return asyncio.run(_sample(consumer, payload, FAULTS[way], next(seeds), seconds))

            found = in_turns({way: partial(sample, way) for way in FAULTS}, settings.rounds)
            rates = {way: Series.of(rate for rate, _ in found[way]) for way in found}
            lost = Series.of((lost for _, lost in found[LOSSY]), COMPACT)
            assert settings.is_smoke or lost.low, "no packet was lost: the stream has passed the lossy sockets by"
            ratio = rates[LOSSY].ratio_to(rates[WHOLE])
            rows.append({"chunks per second": f"{payload.name} rows", **rates, "ratio": ratio, "packets lost": lost})
    return rows


async def _sample(consumer: Partner, payload: Payload, faults: Faults, seed: int, seconds: float) -> tuple[float, int]:
    """Chunks a second, and the lost packets of both ends."""
    consumer.tell((payload, faults, seed))
    address = consumer.hears()
    with lossy_network(faults, seed + 1) as sockets:
        async with put(address, CHANNEL, payload.schema, same_host=SameHost.NEVER) as sender:
            began = time.perf_counter()
            sent = await feed(sender, payload, seconds)
            await sender.end()  # everything is consumed
            elapsed = time.perf_counter() - began
        # Meanwhile what was lost of the last words is sent again.
        rows, lost_there = await asyncio.to_thread(consumer.hears)
    assert rows == sent * payload.rows, f"{rows} of {sent * payload.rows} rows came"
    return sent / elapsed, lost_there + sum(each.lost for each in sockets)

"""Schedules of demand against the round trip: simulated, and over TCP through a network that is far away.

Messages are consumed one by one, each for a fixed time.  The producer never lacks messages.
"""

import asyncio
from itertools import product

import pyarrow as pa

from benchmarks import delay_proxy
from benchmarks.field import Settings
from benchmarks.harness import Partner
from benchmarks.results import Row, Series
from benchmarks.simulated_schedules import simulate_schedule
from permitflow import Demand
from permitflow.client import RemoteReceiver, SameHost, get
from permitflow.exchange import Exchange, ExchangeServer
from permitflow.tracing import MemoryTrace

SERVICE_MICROSECONDS = 2_000
DELAYS_MILLISECONDS = (1, 4, 16)
"""One way."""
SCHEDULES = {
    "stop-and-wait": Demand(size=1),
    "full batches": Demand(size=16, batch=16),
    "half batches, overlapping": Demand(size=16),
    "singly": Demand(size=16, batch=1),
}
WARM_UP = 32
CHUNK = pa.record_batch({"n": [0]})
CHANNEL = "schedule"


def measure_schedules(settings: Settings) -> list[Row]:
    delays, messages = (DELAYS_MILLISECONDS[:1], 16) if settings.is_smoke else (DELAYS_MILLISECONDS, 320)
    return [_measured(name, delay, messages, settings.rounds) for delay, name in product(delays, SCHEDULES)]


def _measured(name: str, delay_milliseconds: int, messages: int, rounds: int) -> Row:
    parameters, round_trip = SCHEDULES[name], 2 * delay_milliseconds
    simulated = simulate_schedule(parameters, round_trip=1_000 * round_trip, service=SERVICE_MICROSECONDS)
    samples = [asyncio.run(_over_tcp(parameters, delay_milliseconds / 1e3, messages)) for _ in range(rounds)]
    per_second, idle_share, stalls, requests = (Series.of(each) for each in zip(*samples, strict=True))
    return {
        "Schedule": f"{name}, {parameters.size}/{parameters.batch}",
        "round trip": f"{round_trip:g} ms",
        "messages/s, simulated": f"{float(simulated.rate * 1_000_000):.0f}",
        "over TCP": per_second,
        "idle, simulated": f"{float(simulated.idle_share):.0%}",
        "idle over TCP": f"{idle_share.median:.0%}",
        "stalls for 100 messages": f"{float(100 * simulated.stalls_per_message):.0f}; {100 * stalls.median:.0f}",
        "requests": f"{100 * requests.values[0]:.0f}",
    }


async def _over_tcp(parameters: Demand, delay_seconds: float, messages: int) -> tuple[float, float, float, float]:
    """What ``_consume`` finds, and the requests for each message, counted where they arrived."""
    trace = MemoryTrace()
    exchange = Exchange(record=trace.recorder)
    # Always full: what is measured is the demand of the consumer's stream.
    exchange.add_channel(CHANNEL, Demand(size=32), schema=CHUNK.schema)
    async with ExchangeServer(exchange, "tcp://127.0.0.1:0") as server:
        target = server.address.removeprefix("tcp://")
        with Partner(delay_proxy.serve, target, delay_seconds) as proxy:
            far = f"tcp://{await asyncio.to_thread(proxy.hears)}"
            producing = asyncio.create_task(_produce(exchange))
            try:
                async with get(far, CHANNEL, wanted=parameters, same_host=SameHost.NEVER) as receiver:
                    await _consume(receiver, WARM_UP)
                    before = _requests(trace, receiver.stream)
                    rate, idle_share, stalls = await _consume(receiver, messages)
                    requests = _requests(trace, receiver.stream) - before
                    producing.cancel()
                    await exchange.channel(CHANNEL).sender.end()
                    async for _ in receiver:
                        pass
            finally:
                producing.cancel()
    return rate, idle_share, stalls, requests / messages


async def _produce(exchange: Exchange) -> None:
    sender = exchange.channel(CHANNEL).sender
    while True:
        await sender.send(CHUNK)


def _requests(trace: MemoryTrace, stream: str) -> int:
    """Requests that have arrived at the exchange's end of the stream."""
    return sum(event.action == "Request" and event.channel == stream for event in trace.events)


async def _consume(receiver: RemoteReceiver, messages: int) -> tuple[float, float, float]:
    """The rate, the share of the time without a message, and how often there was none, for each message."""
    clock = asyncio.get_running_loop().time
    began, idle, stalls = clock(), 0.0, 0
    due = began
    for _ in range(messages):
        if not receiver.core.untaken:
            asked = clock()
            stalls += 1
            await receiver.until_takeable()
            due = clock()
            idle += due - asked
        await receiver.take()
        due += SERVICE_MICROSECONDS / 1e6  # what one sleep takes too long, the next ones make up for
        await asyncio.sleep(due - clock())
        receiver.consume()
    seconds = clock() - began
    return messages / seconds, idle / seconds, stalls / messages

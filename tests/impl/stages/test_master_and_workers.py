"""Three techniques together: a master whose queue drops old jobs, workers that get one job at a time, a slow monitor.

Clients submit jobs, and submit them again until they are done.  Workers pull over stop-and-wait channels.  Their
metrics go to the monitor, conflated and at a limited rate.
"""

import asyncio
import math
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from itertools import combinations
from random import Random
from typing import NamedTuple

import pytest

from permitflow import LocalReceiver, LocalSender, open_channel
from permitflow.flows.demand.core import Demand
from permitflow.stages import Offers, Overflow, Source, async_callback
from tests.support.simulated_time import in_simulated_time

JOBS, QUEUE, WORKERS = 60, 4, 3
SERVICE_SECONDS, METRICS_SECONDS = 1.0, 5.0


class Load(NamedTuple):
    """Conflated metrics: how many jobs, and their numbers."""

    jobs: int
    total: int
    shortest: int
    longest: int

    @classmethod
    def of(cls, job: int) -> "Load":
        return cls(1, job, job, job)

    def with_job(self, job: int) -> "Load":
        return Load(self.jobs + 1, self.total + job, min(self.shortest, job), max(self.longest, job))


@dataclass
class System:
    """Everything, and what was seen."""

    resend_seconds: float
    seed: int
    submitted: int = 0
    done: dict[int, int] = field(default_factory=dict)
    """How often each job was done."""
    monitor: list[tuple[float, int, Load]] = field(default_factory=list)
    peak_queue: int = 0

    async def run(self) -> None:
        draw = Random(self.seed)
        jobs: Source[int]
        offers: Offers[int]
        jobs, offers = async_callback(QUEUE, Overflow.DROP_OLDEST)
        free: asyncio.Queue[LocalSender[int]] = asyncio.Queue()
        async with asyncio.TaskGroup() as group:
            for number in range(WORKERS):
                sender: LocalSender[int]
                receiver: LocalReceiver[int]
                sender, receiver = open_channel(Demand(size=1, batch=1))
                free.put_nowait(sender)
                metrics: Source[int]
                told: Offers[int]
                metrics, told = async_callback(1_000)
                group.create_task(self.work(receiver, partial(free.put_nowait, sender), told))
                group.create_task(self.watch(number, metrics))
            handing = group.create_task(self.hand_out(jobs, free))
            clients = [
                group.create_task(self.client(number, offers, draw.uniform(0, JOBS * SERVICE_SECONDS / WORKERS)))
                for number in range(JOBS)
            ]
            await asyncio.wait(clients)
            offers.complete()
            await handing

    async def client(self, job: int, offers: Offers[int], at_seconds: float) -> None:
        await asyncio.sleep(at_seconds)
        while job not in self.done:
            offers.offer(job)
            self.submitted += 1
            self.peak_queue = max(self.peak_queue, len(offers))
            await asyncio.sleep(self.resend_seconds)

    async def hand_out(self, jobs: Source[int], free: "asyncio.Queue[LocalSender[int]]") -> None:
        senders: set[LocalSender[int]] = set()
        async with jobs.open() as elements:
            while True:
                sender = await free.get()  # before a job leaves the queue
                senders.add(sender)
                if (job := await anext(elements, None)) is None:
                    break
                await sender.send(job, 1)
        while len(senders) < WORKERS:
            senders.add(await free.get())
        for sender in senders:
            await sender.end()

    async def work(self, receiver: LocalReceiver[int], is_free: Callable[[], None], told: Offers[int]) -> None:
        async for message in Source.receive(receiver):
            assert receiver.statistics().rows_held <= 1  # the job in hand
            await asyncio.sleep(SERVICE_SECONDS)
            self.done[message.payload] = self.done.get(message.payload, 0) + 1
            told.offer(message.payload)
            is_free()
        told.complete()

    async def watch(self, worker: int, metrics: Source[int]) -> None:
        summaries = metrics.conflate(Load.with_job, Load.of).throttle(1, METRICS_SECONDS)
        async for load in summaries:
            self.monitor.append((asyncio.get_running_loop().time(), worker, load))


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("resend_seconds", [3.0, 100.0])
def test_a_master_that_drops_old_jobs_is_bounded_and_loses_none(resend_seconds: float, seed: int) -> None:
    system = System(resend_seconds, seed)
    in_simulated_time(system.run())

    assert set(system.done) == set(range(JOBS))
    assert system.peak_queue <= QUEUE
    for worker in range(WORKERS):
        # In each window: the token that was there, and those that came meanwhile.
        times = [at for at, of, _ in system.monitor if of == worker]
        for (first, began), (last, ended) in combinations(enumerate(times), 2):
            assert last - first + 1 <= 1 + math.ceil((ended - began) / METRICS_SECONDS)
    # What the monitor hears adds up to what was done.
    assert sum(load.jobs for *_, load in system.monitor) == sum(system.done.values())
    assert sum(load.total for *_, load in system.monitor) == sum(job * times for job, times in system.done.items())
    assert min(load.shortest for *_, load in system.monitor) == 0
    assert max(load.longest for *_, load in system.monitor) == JOBS - 1
    # A job is done twice only if its client has lost patience before the first time.
    assert resend_seconds < QUEUE * SERVICE_SECONDS or max(system.done.values()) == 1

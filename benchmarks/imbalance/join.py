"""The join: a process that reads both upstreams for a while and tells how many rows came from each.

python -m benchmarks.imbalance.join SETUP SECONDS
"""

import asyncio
import json
import os
import sys
import time

from benchmarks.imbalance.setups import SETUPS, Setup
from benchmarks.imbalance.upstreams import Upstream, open_upstreams
from benchmarks.imbalance.work import Work

__all__ = ["Reader"]

WARM_UP_SHARE = 0.3
# While nothing is ready; neither upstream is as slow as that for long.
IDLE_SECONDS = 0.0005


class Reader:
    """Reads whatever is ready, turn by turn."""

    def __init__(self, setup: Setup, upstreams: tuple[Upstream, Upstream]) -> None:
        """``upstreams`` are asked in this order."""
        self._yields_after_each_chunk = setup.yields_after_each_chunk
        self._upstreams = upstreams
        self._work = Work(setup.join_seconds)
        self.rows = [0, 0]

    async def read_until(self, time_seconds: float) -> None:
        """Turn after turn; between two turns, others run."""
        while time.monotonic() < time_seconds:
            consumed = [await self._drain(number) for number in range(len(self._upstreams))]
            await asyncio.sleep(0 if any(consumed) else IDLE_SECONDS)

    async def _drain(self, number: int) -> int:
        upstream = self._upstreams[number]
        ready = min(upstream.ready(), 1) if self._yields_after_each_chunk else upstream.ready()
        self._work.begin()
        for _ in range(ready):
            self._work.do()
            self.rows[number] += upstream.consume()
        if self._yields_after_each_chunk:
            await asyncio.sleep(0)
        return ready


async def measure(setup: Setup, seconds: float) -> dict[str, list[float]]:
    """Rows per second and back-pressure rate of the local and the remote upstream."""
    upstreams = open_upstreams(setup)
    try:
        reader = Reader(setup, upstreams)
        await reader.read_until(time.monotonic() + WARM_UP_SHARE * seconds)
        for upstream in upstreams:
            upstream.begin()
        reader.rows = [0, 0]
        began = time.monotonic()
        await reader.read_until(began + seconds)
        took = time.monotonic() - began
        return {
            "rows_per_second": [rows / took for rows in reader.rows],
            "back_pressure_rates": [upstream.back_pressure_rate() for upstream in upstreams],
        }
    finally:
        for upstream in upstreams:
            upstream.close()


def main(name: str, seconds: str) -> None:
    """Measure one setup."""
    (setup,) = (setup for setup in SETUPS if setup.name == name)
    print(json.dumps(asyncio.run(measure(setup, float(seconds)))), flush=True)
    # The upstream beside the join would go on until the end of time.
    os._exit(0)


if __name__ == "__main__":
    main(*sys.argv[1:])

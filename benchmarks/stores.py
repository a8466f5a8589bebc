"""The cost of an exchange that writes rows to disk before it takes them over, beside one that keeps them in memory.

One process is ``permitflow serve --retention replay``, the other one feeds some of its channels over TCP and
acknowledges the rows that were taken over, so that the window is never full for long.
"""

import asyncio
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import product

from benchmarks.field import Settings
from benchmarks.harness import CHECKOUT, in_turns, serving
from benchmarks.jobs import PAYLOADS, Payload, feed
from benchmarks.results import Row, Series
from permitflow.client import AioControl, control, put

STORES = ("memory", "disk")
SIZES = ("64", "1,024", "65,536")
CHANNELS = (1, 8)
SECONDS = 0.5
ACKNOWLEDGE_EVERY_SECONDS = 0.005
STREAM = "kept"


def measure_stores(settings: Settings) -> list[Row]:
    sizes, seconds = (SIZES[:1], 0.02) if settings.is_smoke else (SIZES, SECONDS)
    rows: list[Row] = []
    for payload in (PAYLOADS[size] for size in sizes):
        with ExitStack() as stack:
            addresses = {store: stack.enter_context(_serving(store, payload)) for store in STORES}

            def rate(
                store: str, channels: int, payload: Payload = payload, addresses: dict[str, str] = addresses
            ) -> float:
                return asyncio.run(_rate(addresses[store], payload, channels, seconds))

            variants = {key: partial(rate, *key) for key in product(STORES, CHANNELS)}
            found = in_turns(variants, settings.rounds)
        for channels in CHANNELS:
            memory, disk = (Series.of(found[store, channels]) for store in STORES)
            where = f"{payload.name} rows, {channels} channel{'s' * (channels > 1)}"
            rates = {"kept in memory": memory, "kept on disk": disk, "ratio": disk.ratio_to(memory)}
            rows.append({"chunks per second": where, **rates})
    return rows


@contextmanager
def _serving(store: str, payload: Payload) -> Iterator[str]:
    """An exchange over TCP: its address.  A store on disk lies on the disk of the checkout."""
    (CHECKOUT / "build").mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="store-", dir=CHECKOUT / "build") as folder:
        options = ["--address", "tcp://127.0.0.1:0", "--stream", f"{STREAM}:{max(CHANNELS)}"]
        options += ["--row-permits", str(payload.row_permits), "--retention", "replay", "--drain-seconds", "0"]
        options += ["--store", folder] if store == "disk" else []
        with serving(*options) as (address, _):
            yield address


async def _rate(address: str, payload: Payload, channels: int, seconds: float) -> float:
    """Chunks a second that were taken over, of all channels."""
    names = [f"{STREAM}/{number}" for number in range(channels)]
    async with control(address) as orders:
        acknowledging = asyncio.create_task(_acknowledge(orders, names))
        began = time.perf_counter()
        chunks = await asyncio.gather(*(_feed(address, name, payload, seconds) for name in names))
        elapsed = time.perf_counter() - began
        acknowledging.cancel()
        await asyncio.wait({acknowledging})
    return sum(chunks) / elapsed


async def _feed(address: str, channel: str, payload: Payload, seconds: float) -> int:
    """Send for a while; the end waits until the exchange has taken over everything."""
    async with put(address, channel, payload.schema) as sender:
        sent = await feed(sender, payload, seconds)
        await sender.end(closes_channel=False)
        return sent


async def _acknowledge(orders: AioControl, channels: list[str]) -> None:
    while True:
        positions = await orders.positions(channels)
        await orders.acknowledge({position.channel: position.next_row for position in positions})
        await asyncio.sleep(ACKNOWLEDGE_EVERY_SECONDS)

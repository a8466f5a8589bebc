"""Uses a small disk, for a test that has made one.  The output is one JSON object of how many orders went through.

    python filling_child.py DISK fill ROWS BATCHES

So many batches of so many rows are appended; without a number of batches, they take all of the disk.  Then a file takes
what is left of it.  Then all is acknowledged.

    python filling_child.py DISK pass ROWS BATCHES

Each batch is acknowledged before the next one comes.
"""

import asyncio
import json
import os
import sys
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from permitflow import ChannelParameters
from permitflow.errors import StoreWriteError
from permitflow.exchange import ChannelStore, SqliteStore
from permitflow.exchange.stores.sqlite_database import RESERVE_NAME

SCHEMA = pa.schema([("text", pa.binary())])
PARAMETERS = ChannelParameters(row_permits=10_000_000)


class Filling:
    def __init__(self, place: ChannelStore, rows: int) -> None:
        self.place, self.rows = place, rows
        self.next_row = self.acknowledged_row = 0

    async def append(self, batches: int) -> int:
        """How many of these were kept."""
        for done in range(batches):
            batch = pa.record_batch([[os.urandom(100) for _ in range(self.rows)]], schema=SCHEMA)
            try:
                await self.place.append(self.next_row, [batch])
            except StoreWriteError:
                return done
            self.next_row += self.rows
        return batches

    async def acknowledge_all(self) -> int:
        """Batch by batch; how many of these orders went through."""
        while self.acknowledged_row < self.next_row:
            row = self.acknowledged_row + self.rows
            try:
                await self.place.acknowledge("default", row, row)
            except StoreWriteError:
                break
            self.acknowledged_row = row
        return self.acknowledged_row // self.rows


def fill_up(disk: Path) -> Path:
    """Another program's file takes all that is left."""
    ballast = disk / "ballast"
    with ballast.open("wb", buffering=0) as file, suppress(OSError):
        while True:
            file.write(bytes(4096))
    return ballast


async def fill(disk: Path, rows: int, batches: int) -> dict[str, int | bool]:
    reserve = disk / "store" / RESERVE_NAME
    facts: dict[str, int | bool] = {}
    with SqliteStore(disk / "store") as store:
        filling = Filling(store.open_channels(["a/0"], parameters=PARAMETERS, consumers=("default",))[0], rows)
        await filling.place.declare(SCHEMA)
        facts["appended"] = await filling.append(batches or 1_000_000)
        ballast = fill_up(disk)
        await filling.append(1_000_000)
        facts["left to producers"] = await filling.append(1)
        facts["reserve before"] = reserve.exists()
        facts["batches"] = filling.next_row // rows
        facts["acknowledged"] = await filling.acknowledge_all()
        ballast.unlink()
        facts["appended afterwards"] = await filling.append(10)
        facts["reserve afterwards"] = reserve.exists()
        expected = (filling.next_row, filling.acknowledged_row)
    with SqliteStore(disk / "store") as store:
        kept = store.open_channels(["a/0"], parameters=PARAMETERS, consumers=("default",))[0].load()
        facts["is as it was"] = (kept.next_row, (kept.acknowledged or {})["default"]) == expected
    return facts


async def pass_(disk: Path, rows: int, batches: int) -> dict[str, int | bool]:
    with SqliteStore(disk / "store") as store:
        filling = Filling(store.open_channels(["a/0"], parameters=PARAMETERS, consumers=("default",))[0], rows)
        await filling.place.declare(SCHEMA)
        passed = [await filling.append(1) and await filling.acknowledge_all() for _ in range(batches)]
    return {"passed": sum(map(bool, passed))}


if __name__ == "__main__":
    use = {"fill": fill, "pass": pass_}[sys.argv[2]]
    print(json.dumps(asyncio.run(use(Path(sys.argv[1]), int(sys.argv[3]), int(sys.argv[4])))))

"""An exchange whose reader stands still holds three byte windows of wide rows, and no more."""

import asyncio
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest

from permitflow.client import SameHost, get, put
from tests.support.serving import address_of, serving

SCHEMA, ROW_BYTES = pa.schema([("body", pa.binary())]), 20_000
MOST_GROWN_BYTES = 256 << 20
NOTHING_LEAVES_SECONDS = 5.0


def resident_bytes(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * 4096


@pytest.fixture
def exchange() -> Iterator[tuple[int, str]]:
    """Its process, and where it listens."""
    with serving("--stream", "w:1", "--address", "tcp://127.0.0.1:0", "--quiet") as process:
        yield process.pid, address_of(process)


@pytest.mark.long
async def test_wide_rows_take_no_more_than_their_windows(exchange: tuple[int, str]) -> None:
    pid, address = exchange
    before, sent = resident_bytes(pid), 0
    rows = pa.record_batch({"body": [bytes(ROW_BYTES)] * 8}, schema=SCHEMA)
    async with (
        put(address, "w/0", SCHEMA, same_host=SameHost.NEVER) as sender,
        get(address, "w/0", same_host=SameHost.NEVER),
    ):
        try:
            while sent < 150_000:
                await asyncio.wait_for(sender.send(rows), NOTHING_LEAVES_SECONDS)
                sent += 8
        except TimeoutError:
            pass
        grown = resident_bytes(pid) - before
        sender.abort("measured")
    assert 1_000 < sent < 3_000
    assert grown < MOST_GROWN_BYTES

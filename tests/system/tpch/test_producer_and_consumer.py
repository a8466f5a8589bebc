"""The consumer's database: rows and place move together, in one transaction, or not at all.

The producer's shares: together the whole table, each row once, the same from whichever row it goes on.
"""

from collections.abc import Iterator
from datetime import date
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from examples.tpch.consumer import LateItem, Ledger
from examples.tpch.producer import rows_of_share
from examples.tpch.settings import PartSettings, PipelineSettings
from examples.tpch.tables import LINE_ITEM_SCHEMA, ShippingMode
from permitflow.errors import DemoError


def items(first: int, count: int, *, mode: str = "MAIL", year: int = 1994, is_high: bool = True) -> list[LateItem]:
    """Late items with the order keys ``first``, ``first + 1`` ..."""
    return [LateItem(key, 1, mode, year, is_high) for key in range(first, first + count)]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "ledger.sqlite"


@pytest.fixture
def ledger(path: Path) -> Iterator[Ledger]:
    with Ledger(path) as opened:
        yield opened


def test_rows_are_counted_by_mode_and_year(ledger: Ledger) -> None:
    ledger.take("a/0", 0, items(0, 3))
    ledger.take("a/0", 3, items(3, 2, is_high=False))
    ledger.take("a/1", 0, items(5, 4, mode="SHIP"))
    ledger.take("a/1", 4, items(9, 1, mode="RAIL"))
    ledger.take("a/1", 5, items(10, 1, year=1995))
    assert ledger.answer(["SHIP", "MAIL"], 1994) == (ShippingMode("MAIL", 3, 2), ShippingMode("SHIP", 4, 0))


def test_the_place_is_kept_for_the_next_life(ledger: Ledger, path: Path) -> None:
    assert ledger.next_row("a/0") == 0
    assert ledger.take("a/0", 0, items(0, 3)) == 3
    with Ledger(path) as next_life:
        assert (next_life.next_row("a/0"), next_life.next_row("a/1")) == (3, 0)


@pytest.mark.parametrize("row", [0, 2, 4])
def test_rows_that_do_not_come_next_are_refused(ledger: Ledger, row: int) -> None:
    ledger.take("a/0", 0, items(0, 3))
    with pytest.raises(DemoError, match=f"row {row} of a/0 came where row 3 comes next"):
        ledger.take("a/0", row, items(0, 3))
    assert sum(ledger.seen().values()) == 3


def test_a_batch_is_taken_as_a_whole_or_not_at_all(ledger: Ledger) -> None:
    with pytest.raises(OverflowError):
        ledger.take("a/0", 0, [*items(0, 3), LateItem(2**64, 1, "MAIL", 1994, True)])
    assert (ledger.next_row("a/0"), ledger.seen(), ledger.answer(["MAIL"], 1994)) == (0, {}, ())
    assert ledger.take("a/0", 0, items(0, 3)) == 3


ROWS = 1_003
CHUNK = 64


@pytest.fixture(scope="module")
def settings(tmp_path_factory: pytest.TempPathFactory) -> PartSettings:
    folder = tmp_path_factory.mktemp("tables")
    day = [date(1994, 1, 1)] * ROWS
    columns = [pa.array(range(ROWS)), pa.array([1] * ROWS), pa.array(["MAIL"] * ROWS), *[pa.array(day)] * 3]
    table = pa.table(columns, names=LINE_ITEM_SCHEMA.names).cast(LINE_ITEM_SCHEMA)
    pq.write_table(table, folder / "lineitem.parquet", row_group_size=100)
    pipeline = PipelineSettings(channels=3, chunk_rows=CHUNK)
    return pipeline.part(address="127.0.0.1:1", tables=folder, work_dir=folder)


def keys(settings: PartSettings, share: int, first_row: int = 0) -> list[int]:
    return [key for batch in rows_of_share(settings, share, first_row) for key in batch["l_orderkey"].to_pylist()]


def test_the_shares_are_the_table(settings: PartSettings) -> None:
    assert [key for share in range(3) for key in keys(settings, share)] == list(range(ROWS))


@pytest.mark.parametrize("first_row", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 333, 334, 10_000])
@pytest.mark.parametrize("share", range(3))
def test_a_producer_that_goes_on_sends_the_rest(settings: PartSettings, share: int, first_row: int) -> None:
    assert keys(settings, share, first_row) == keys(settings, share)[first_row:]

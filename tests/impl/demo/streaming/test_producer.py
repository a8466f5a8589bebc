"""The producer's shares: together the whole table, each row once, the same from whichever row it goes on."""

from datetime import date

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from permitflow.demo.streaming.late_items import LINE_ITEM_SCHEMA
from permitflow.demo.streaming.producer import rows_of_share
from permitflow.demo.streaming.settings import PartSettings, PipelineSettings

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
    """The order keys of what is sent."""
    return [key for batch in rows_of_share(settings, share, first_row) for key in batch["l_orderkey"].to_pylist()]


def test_the_shares_are_the_table(settings: PartSettings) -> None:
    assert [key for share in range(3) for key in keys(settings, share)] == list(range(ROWS))


@pytest.mark.parametrize("first_row", [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 333, 334, 10_000])
@pytest.mark.parametrize("share", range(3))
def test_whoever_goes_on_sends_what_was_left(settings: PartSettings, share: int, first_row: int) -> None:
    assert keys(settings, share, first_row) == keys(settings, share)[first_row:]


def test_chunks_have_the_stated_schema_and_no_more_rows_than_asked_for(settings: PartSettings) -> None:
    batches = list(rows_of_share(settings, 1, 0))
    assert all(batch.schema == LINE_ITEM_SCHEMA and 0 < batch.num_rows <= CHUNK for batch in batches)

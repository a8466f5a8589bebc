"""RisingWave's plan of query 12: upstreams, joiners, aggregators, local and remote channels, barriers through all."""

from collections.abc import Mapping
from datetime import date, timedelta
from pathlib import Path
from random import Random
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from examples.tpch import q12
from examples.tpch.q12_plan import Bounds, PlanSettings, run_part
from examples.tpch.tables import cached_tables, default_cache_dir

ORDERS = 600


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Orders, and about three line items of each, of which every tenth is in the answer."""
    folder, dice = tmp_path_factory.mktemp("tables"), Random(12)
    priorities = [dice.choice(["1-URGENT", "2-HIGH", "5-LOW"]) for _ in range(ORDERS)]
    orders = {"o_orderkey": pa.array(range(ORDERS), pa.int64()), "o_orderpriority": priorities}
    ordered = [date(1993, 12, 1) + timedelta(days=dice.randrange(60)) for _ in range(3 * ORDERS)]
    items = {
        "l_orderkey": pa.array([dice.randrange(ORDERS) for _ in ordered], pa.int64()),
        "l_shipmode": [dice.choice(["MAIL", "SHIP", "AIR"]) for _ in ordered],
        "l_shipdate": ordered,
        "l_commitdate": [day + timedelta(days=dice.randrange(-1, 5)) for day in ordered],
        "l_receiptdate": [day + timedelta(days=dice.randrange(5)) for day in ordered],
    }
    for name, columns in (("orders", orders), ("lineitem", items)):
        pq.write_table(pa.table(columns), folder / f"{name}.parquet")
    return folder


async def run_here(settings: PlanSettings, number: int, _: Path) -> Mapping[str, Any]:
    """What a process would do, in this one."""
    return await run_part(settings, number)


@pytest.mark.parametrize("bounds", Bounds)
async def test_the_plan_finds_the_direct_answer(tables: Path, bounds: Bounds, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(q12, "START_SECONDS", 0.0)
    settings = PlanSettings(
        address="",
        start=0.0,
        tables=str(tables),
        bounds=bounds,
        chunk_rows=32,
        row_permits=96,
        slice_rows=8,
        barrier_seconds=0.1,
    )
    outcome = await q12.run_plan(settings, run_here)
    assert outcome.answer == q12.direct_answer(tables)
    assert [mode.mode for mode in outcome.answer] == ["MAIL", "SHIP"]
    assert min(outcome.barriers) == max(outcome.barriers) > 0
    assert len(outcome.barriers) == settings.joiners + settings.aggregators


@pytest.mark.long
def test_the_plan_in_processes_finds_the_answer(capsys: pytest.CaptureFixture[str]) -> None:
    assert q12.main(["answer", "--scale", "0.01", "--barrier-seconds", "0.1"]) == 0, capsys.readouterr()
    assert "equal to the direct answer" in capsys.readouterr().out


@pytest.mark.long
async def test_the_plan_finds_the_published_answer_at_scale_1() -> None:
    tables = await cached_tables(1, default_cache_dir())
    outcome = await q12.run_plan(PlanSettings(address="", start=0.0, tables=str(tables)))
    # TPC-H standard specification, section 2.4.12.5.
    assert outcome.answer == (("MAIL", 6202, 9324), ("SHIP", 6200, 9262))
    assert min(outcome.barriers) == max(outcome.barriers) > 0


@pytest.mark.long
async def test_rows_make_the_inputs_equal_where_chunks_and_bytes_do_not() -> None:
    tables = await cached_tables(0.01, default_cache_dir())
    settings = q12.experiment(PlanSettings(address="", start=0.0, tables=str(tables)), seconds=20)
    before, after = [await q12.measure(settings, bounds) for bounds in (Bounds.CHUNKS_AND_BYTES, Bounds.ROWS)]
    assert before.ratio >= 2
    assert after.ratio < before.ratio / 2

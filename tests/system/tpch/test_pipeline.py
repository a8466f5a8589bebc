"""The pipeline, its kills and its judges at work in seconds: all processes are real, but Spark, whose part a small
engine of micro-batches plays.

What the watch takes for wrong: too many rows kept, and rows or acknowledgements that are taken back.
"""

import asyncio
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import date, timedelta
from pathlib import Path
from random import Random

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from examples.tpch.consumer import Ledger
from examples.tpch.pipeline import (
    ChannelWatch,
    Counted,
    Kill,
    Pipeline,
    Position,
    Victim,
    compared,
    lives_of,
    plan_kills,
)
from examples.tpch.settings import PartSettings, PipelineSettings
from examples.tpch.tables import LINE_ITEM_SCHEMA, ShippingMode
from permitflow import ChannelParameters
from permitflow.client import ChannelPosition, ChannelState
from tests.support.process import reserved_address

ENGINE = Path(__file__).with_name("micro_batches.py")
ROWS = 6_000
SETTINGS = PipelineSettings(channels=2, row_permits=256, chunk_rows=32, stuck_seconds=60)
NEW_YEAR = date(1994, 1, 1)

Item = dict[str, object]


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Line items whose days are drawn from a seed, and orders of which every third is urgent."""
    folder, dice = tmp_path_factory.mktemp("tables"), Random(12)
    days = ("l_shipdate", "l_commitdate", "l_receiptdate")
    items = [
        {
            **{"l_orderkey": row // 2, "l_linenumber": row % 2, "l_shipmode": dice.choice(("MAIL", "RAIL"))},
            **{day: NEW_YEAR + timedelta(days=dice.randrange(300)) for day in days},
        }
        for row in range(ROWS)
    ]
    pq.write_table(pa.Table.from_pylist(items, LINE_ITEM_SCHEMA), folder / "lineitem.parquet")
    orders = [{"o_orderkey": key, "o_orderpriority": "5-LOW" if key % 3 else "1-URGENT"} for key in range(ROWS // 2)]
    pq.write_table(pa.Table.from_pylist(orders), folder / "orders.parquet")
    return folder


def late(tables: Path) -> list[Item]:
    """What the pipeline must count, computed in another way."""
    items: list[Item] = pq.read_table(tables / "lineitem.parquet").to_pylist()
    return [item for item in items if item["l_shipdate"] < item["l_commitdate"] < item["l_receiptdate"]]  # type: ignore[operator]  # days


def quick(kills: Sequence[Kill]) -> list[Kill]:
    """Where there are no executors, and a batch takes milliseconds."""
    return [
        replace(kill, progress=kill.progress * 0.6, delay_seconds=kill.delay_seconds / 30)
        for kill in kills
        if kill.victim is not Victim.EXECUTOR
    ]


@pytest.fixture
def part(tables: Path, tmp_path: Path) -> Iterator[PartSettings]:
    """With the answer that the pipeline must come to."""
    with reserved_address() as address:
        part = SETTINGS.part(tables=tables, work_dir=tmp_path, address=address)
        pq.write_table(pa.Table.from_pylist(late(tables)).select(["l_orderkey", "l_linenumber"]), part.direct_answer)
        yield part


@pytest.mark.long
def test_no_row_is_lost_or_comes_twice_whatever_is_killed(run: asyncio.Runner, part: PartSettings) -> None:
    kills, notes = quick(plan_kills(15, seed=1)), list[str]()
    pipeline = Pipeline(SETTINGS, part, rows=ROWS, note=notes.append, kills=kills, driver=[str(ENGINE)])
    run.run(pipeline.run())
    expected = late(Path(part.tables))
    # The last rows may come through before a late kill's turn comes.
    assert pipeline.killed.keys() == set(Victim) - {Victim.EXECUTOR}, notes
    assert compared(part) == Counted(expected=len(expected), lost=0, duplicated=0, foreign=0)
    assert answer(part) == answer_of(expected)
    assert [channel.problems for channel in pipeline.watch.channels] == [[]] * 4
    assert all(0 < channel.peak_kept_rows <= SETTINGS.window_rows for channel in pipeline.watch.channels)
    lives = lives_of(pipeline.recordings)
    assert sum(any(verdict.cut_ends for verdict in life) for life in lives) > 0
    assert [verdict.describe() for life in lives for verdict in life if not verdict.is_valid] == []


@pytest.mark.long
def test_a_batch_that_is_published_twice_shows(run: asyncio.Runner, part: PartSettings) -> None:
    pipeline = Pipeline(SETTINGS, part, rows=ROWS, note=lambda _: None, kills=[], driver=[str(ENGINE), "--twice"])
    run.run(pipeline.run())
    counted = compared(part)
    assert counted.duplicated > 0
    assert (counted.lost, counted.foreign) == (0, 0)
    assert answer(part) != answer_of(late(Path(part.tables)))


def answer(part: PartSettings) -> tuple[ShippingMode, ...]:
    with Ledger(part.ledger) as ledger:
        return ledger.answer(["MAIL"], NEW_YEAR.year)


def answer_of(items: list[Item]) -> tuple[ShippingMode, ...]:
    urgent = Counter(int(str(item["l_orderkey"])) % 3 == 0 for item in items if item["l_shipmode"] == "MAIL")
    return (ShippingMode("MAIL", urgent[True], urgent[False]),)


BOUND = 64


def at(acknowledged_row: int, next_row: int, log_id: str = "log") -> Position:
    parameters = ChannelParameters(row_permits=BOUND, permit_batch=8)
    return ChannelPosition("a/0", acknowledged_row, next_row, ChannelState.OPEN, "", parameters, None, log_id)


def seen(*positions: Position) -> ChannelWatch:
    watch = ChannelWatch("a/0", BOUND)
    for position in positions:
        watch.see(position)
    return watch


def test_a_channel_that_moves_forward_within_its_bound_is_fine() -> None:
    watch = seen(at(0, 0), at(0, BOUND), at(10, BOUND), at(10, BOUND + 10), at(BOUND + 10, BOUND + 10))
    assert watch.problems == []
    assert watch.peak_kept_rows == BOUND


@pytest.mark.parametrize(
    ("positions", "problem"),
    [
        ([at(0, BOUND + 1)], "a/0: 65 rows were kept, 64 may be"),
        ([at(5, 4)], "a/0: -1 rows were kept, 64 may be"),
        ([at(0, 8), at(0, 7)], "a/0: row 7 came next, after 8"),
        ([at(3, 8), at(2, 8)], "a/0: row 3 was acknowledged, then only 2"),
        ([at(0, 8, "one"), at(0, 8, "another")], "a/0: its rows were lost, and others took over"),
    ],
    ids=["above the bound", "read before it came", "rows lost", "acknowledgement lost", "another log"],
)
def test_a_broken_rule_is_noted(positions: list[Position], problem: str) -> None:
    assert seen(*positions).problems == [problem]

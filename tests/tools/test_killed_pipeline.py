"""What ``make kills`` writes into the tutorial: the report's numbers, between their marks and nowhere else."""

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

from permitflow.demo.streaming_demo import ChannelNumbers, Counted, PipelineReport, RecordedRun
from permitflow.demo.tpch import ShippingMode

REPORT = PipelineReport(
    scale=1,
    seed=7,
    kills={"driver": 3, "exchange": 2},
    missed_kills=0,
    starts={"driver": 4, "exchange": 3},
    failures={"driver": 0, "exchange": 0},
    line_items=6_001_215,
    counted=Counted(expected=700_000, lost=0, duplicated=0, foreign=0),
    answer=(ShippingMode("MAIL", 4, 6),),
    direct_answer=(ShippingMode("MAIL", 4, 6),),
    channels=(
        ChannelNumbers(channel="lineitems/0", rows=100, peak_kept_rows=1_024, bound=1_024),
        ChannelNumbers(channel="lateitems/0", rows=100, peak_kept_rows=8, bound=1_024),
    ),
    looks=3,
    seen_problems=(),
    recorded=RecordedRun(
        lives=2, silent_lives=1, streams=4, events=50_000, cut_streams=1, query_events=9_000, refused=()
    ),
    seconds={"pipeline": 1.0},
    total_seconds=1_190.0,
)


@pytest.fixture(scope="module")
def tool(repository: Path) -> ModuleType:
    """As a module."""
    spec = importlib.util.spec_from_file_location("killed_pipeline_under_test", repository / "tools/killed_pipeline.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_table_has_the_reports_numbers(tool: ModuleType) -> None:
    lines = tool.table(REPORT).splitlines()
    assert "| line items at scale 1 | 6,001,215 |" in lines
    assert "| killed | driver 3, exchange 2 |" in lines
    assert "| most rows that a channel kept, of its permits | 1,024 of 1,024 |" in lines
    assert "| lives of the exchange, replayed by the model | 2 of 3 |" in lines
    assert "| minutes | 20 |" in lines


def test_it_stands_in_the_tutorial_between_its_marks(tool: ModuleType, repository: Path) -> None:
    text = (repository / "docs/start/tutorial.md").read_text(encoding="utf-8")
    once = tool.updated(text, tool.table(REPORT))
    assert tool.updated(once, tool.table(REPORT)) == once
    assert tool.table(REPORT) in once
    before, _, rest = text.partition(tool.BEGIN)
    assert once.startswith(before + tool.BEGIN)
    assert once.endswith(rest.partition(tool.END)[2])
    assert rest

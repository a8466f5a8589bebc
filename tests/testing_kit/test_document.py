"""The tables of docs/conformance-kit.md are what the kit says today."""

import importlib.util
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from permitflow.testing import ChannelAdapter, judge_pair
from permitflow.testing.kit.examples.our_channels import make_core_pair
from permitflow.testing.kit.judging import ChannelJudge


@pytest.fixture(scope="module")
def tool(repository: Path) -> ModuleType:
    spec = importlib.util.spec_from_file_location("conformance_table", repository / "tools/conformance_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_of_the_document_are_up_to_date(
    tool: ModuleType, judge_of: Callable[[type[ChannelAdapter]], ChannelJudge]
) -> None:
    reports = {tool.CORE: judge_pair(make_core_pair, name=tool.CORE, random_runs=5)}
    reports |= {name: judge_of(adapter).report(name) for name, adapter in tool.ADAPTERS.items()}

    document = tool.DOCUMENT.read_text(encoding="utf-8")

    assert tool.with_tables(document, reports) == document, "run `make docs`"
    assert document.count("**breaks**") >= 20

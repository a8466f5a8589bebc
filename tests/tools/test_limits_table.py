"""The table of limits in the documents is that of the code."""

import inspect
from pathlib import Path

from permitflow.exchange.limits import OPTIONS, Limits
from permitflow_tools.cli.serve import serve
from tools import limits_table


def test_the_document_has_the_limits_of_the_code(repository: Path) -> None:
    text = (repository / "docs/guides/limits.md").read_text("utf-8")
    assert limits_table.page(text) == text, "python -m tools.limits_table"


def test_each_limit_with_an_option_has_the_same_default_there() -> None:
    parameters, default = inspect.signature(serve).parameters, Limits()
    assert [parameters[limit.name].default for limit in OPTIONS] == [getattr(default, limit.name) for limit in OPTIONS]

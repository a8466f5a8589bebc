"""A flow of another package is known to every channel and carrier once it is registered."""

from collections.abc import Callable
from pathlib import Path

import pytest

from examples.own_flow import run
from examples.own_flow.xon_xoff import XonXoff
from permitflow.errors import InvalidParametersError
from permitflow.flows.table import flow_named
from tests.test_generated import generate


@pytest.mark.parametrize("listen", [None, "tcp://127.0.0.1:0", "127.0.0.1:0"], ids=["local", "TCP", "gRPC"])
async def test_all_rows_come_in_order_and_the_lower_mark_is_agreed(listen: str | None) -> None:
    rows, agreed = await run.carried(listen)
    assert rows == [*range(run.CHUNKS * run.CHUNK_ROWS)]
    assert agreed == run.WANTED


def test_it_is_found_by_its_name_and_refuses_impossible_numbers() -> None:
    parse: Callable[..., object] = flow_named("xon-xoff").parse
    assert parse({"high_rows": 8}) == XonXoff(high_rows=8)
    with pytest.raises(InvalidParametersError, match="high_rows must be a whole number of at least 1, not 0"):
        parse({"high_rows": 0})


def test_its_messages_are_what_its_definition_generates(repository: Path, tmp_path: Path) -> None:
    folder = repository / "examples" / "own_flow"
    generate(folder / "xon_xoff.proto", tmp_path, root=folder)
    generated, kept = ({path.name: path.read_text() for path in place.glob("*_pb2*")} for place in (tmp_path, folder))
    assert generated == kept != {}

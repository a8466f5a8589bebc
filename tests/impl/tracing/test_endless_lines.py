"""A file that holds anything else is refused before it fills the memory, or the stack."""

from pathlib import Path

import pytest

from permitflow.errors import TraceUnreadableError
from permitflow.tracing import read_trace


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        ((2 << 20) * "\0", "line 1: has more than 1,048,576 characters"),
        (100_000 * "[" + "\n", "line 1: is not a line of a permitflow trace (maximum recursion depth exceeded"),
    ],
)
def test_what_cannot_be_a_line_is_neither_read_to_its_end_nor_to_its_depth(
    tmp_path: Path, content: str, reason: str
) -> None:
    (tmp_path / "a.jsonl").write_text(content)
    with pytest.raises(TraceUnreadableError) as caught:
        read_trace(tmp_path)
    assert reason in caught.value.message

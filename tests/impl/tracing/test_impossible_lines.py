"""Lines that a recorder cannot have written are refused, before they fill the memory, the stack or a column."""

from pathlib import Path

import pytest

from permitflow.errors import TraceUnreadableError
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.sender import PermitSender
from permitflow.tracing import FileTrace, read_trace


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


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ('"row_permits": 8', f'"row_permits": {10**30}', "is more than a recording can hold"),
        ('"rows": 1', f'"rows": {-(10**30)}', "is more than a recording can hold"),
        ('"permits": [1', f'"permits": [{10**30}', "is more than a recording can hold"),
        ('"time_seconds": ', f'"time_seconds": {10**30}, "once": ', "is more than a recording can hold"),
        ('"channel": "c"', r'"channel": "\ud800"', "surrogates not allowed"),
    ],
    ids=["parameters", "rows", "permits", "time", "name"],
)
def test_what_no_column_can_hold_and_no_terminal_can_show_is_refused(
    tmp_path: Path, old: str, new: str, reason: str
) -> None:
    path = tmp_path / "a.jsonl"
    agreed = ChannelParameters(row_permits=8)
    with FileTrace(path) as trace:
        PermitSender[str](agreed, record=trace.recorder("c", "sender", agreed)).offer_chunk("x", 1)
    content = path.read_text()
    assert old in content
    path.write_text(content.replace(old, new))
    with pytest.raises(TraceUnreadableError, match=reason):
        read_trace(path)

"""The list of mistakes fits the code, and the tool that tries them tells a mistake that was noticed from one that
was not.  ``nox -s mutants`` tries them all.
"""

from collections.abc import Callable
from pathlib import Path

import pytest

from tools import mutants as tool

FILE = "tests/mutants/interval.py"
KILLER = "tests/mutants/test_interval.py"
OLD = "max(length, 0)"

RunList = Callable[..., int]


def entry(name: str, old: str, new: str, *, killer: str = KILLER) -> str:
    return f"""
[[mutant]]
name = '{name}'
file = '{FILE}'
old = '''{old}'''
new = '''{new}'''
why = 'for a test'
killed_by = ['{killer}']
"""


@pytest.fixture
def run_list(tmp_path: Path) -> RunList:
    """Run the tool on a list of the test's own: its exit code."""

    def run(*entries: str) -> int:
        path = tmp_path / "list.toml"
        path.write_text("".join(entries))
        return tool.main(["--list", str(path), "--jobs", "1"])

    return run


def test_every_mistake_can_be_made_and_names_a_reason_and_a_killer(repository: Path) -> None:
    mutants = tool.read_mutants(tool.LIST)

    rooms = {Path(mutant.file).parts[2] for mutant in mutants}
    assert rooms == {"flows", "stream", "channels", "exchange", "stages", "mute"}
    for mutant in mutants:
        assert tool.mutated(mutant) != (repository / mutant.file).read_text(), mutant.name
        assert len(mutant.why) > 30, mutant.name
        assert mutant.killed_by, mutant.name
        for killer in mutant.killed_by:
            file, _, test = killer.partition("::")
            assert f"def {test.partition('[')[0]}" in (repository / file).read_text(), mutant.name


def test_a_mistake_that_is_noticed_and_one_that_is_not_are_told_apart(
    run_list: RunList, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run_list(
        entry("less than nothing", OLD, "length"),
        entry("a comment changes", "How many numbers", "What"),
    )

    lines = capsys.readouterr().out.splitlines()
    assert code == 1
    assert lines[0].startswith("less than nothing")
    assert lines[0].endswith(f"{KILLER}::test_overlap")
    assert lines[1].endswith("SURVIVED")
    assert lines[2].startswith("1 of 2 noticed")
    assert lines[4] == f"a comment changes ({FILE}) survived {KILLER}"


@pytest.mark.long
def test_a_mistake_that_hangs_is_noticed_by_the_clock(
    run_list: RunList, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tool, "TEST_TIMEOUT_SECONDS", 2)

    waits = "    __import__('threading').Event().wait()\n    length = min"
    assert run_list(entry("hangs", "    length = min", waits)) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith("time-out")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (entry("a", "no such text", ""), "'a': its old text occurs 0 times"),
        (entry("a", OLD, "length") * 2, "two mutants are called 'a'"),
        ("[[mutant]]\nname = 'a'\n", "is not a list of mutants"),
        pytest.param(entry("a", OLD, "max("), "pytest ended with", marks=pytest.mark.long),
        pytest.param(entry("a", OLD, "length", killer="tests/none.py"), "without any mistake", marks=pytest.mark.long),
    ],
)
def test_a_list_that_cannot_be_used_is_refused(
    run_list: RunList, capsys: pytest.CaptureFixture[str], text: str, reason: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        run_list(text)

    assert caught.value.code == 2
    assert reason in capsys.readouterr().err

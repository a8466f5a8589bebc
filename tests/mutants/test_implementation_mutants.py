"""The list of mistakes fits the code, and the tool that tries them tells a mistake that was noticed from one that
was not.  ``make mutants`` tries them all.
"""

import importlib.util
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType

import pytest

KILLER = "tests/impl/protocol/test_handshake.py"
FILE = "impl/permitflow/protocol/handshake.py"


@pytest.fixture(scope="module")
def tool(repository: Path) -> Iterator[ModuleType]:
    spec = importlib.util.spec_from_file_location("mutants_under_test", repository / "tools/mutants.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # dataclasses look for their module there
    spec.loader.exec_module(module)
    yield module
    del sys.modules[spec.name]


def entry(name: str, old: str, new: str, *, killer: str = KILLER, file: str = FILE) -> str:
    return f"""
[[mutant]]
name = '{name}'
file = '{file}'
old = '''{old}'''
new = '''{new}'''
why = 'for a test'
killed_by = ['{killer}']
"""


@pytest.fixture
def run_list(tool: ModuleType, tmp_path: Path) -> "RunList":
    return RunList(tool, tmp_path / "list.toml")


class RunList:
    """Runs the tool on a list of its own."""

    def __init__(self, tool: ModuleType, path: Path) -> None:
        self.tool = tool
        self.path = path

    def __call__(self, *entries: str) -> int:
        self.path.write_text("".join(entries))
        code: int = self.tool.main(["--list", str(self.path), "--jobs", "1"])
        return code


def test_every_mistake_can_be_made_and_names_a_reason_and_a_killer(tool: ModuleType, repository: Path) -> None:
    mutants = tool.read_mutants(tool.LIST)

    assert len(mutants) >= 60
    for mutant in mutants:
        assert tool.mutated(mutant) != (repository / mutant.file).read_text(), mutant.name
        assert len(mutant.why) > 30, mutant.name
        assert mutant.killed_by, mutant.name
        for killer in mutant.killed_by:
            file, _, test = killer.partition("::")
            assert f"def {test.partition('[')[0]}" in (repository / file).read_text(), mutant.name


def test_the_mistakes_are_in_all_rooms_that_hold_the_protocol(tool: ModuleType) -> None:
    files = {mutant.file for mutant in tool.read_mutants(tool.LIST)}

    assert {Path(file).parent.name for file in files} >= {"protocol", "channels", "transports", "exchange"}
    core = {"sender.py", "receiver.py", "direct.py", "parameters.py", "handshake.py", "upstream.py", "downstream.py"}
    assert {Path(file).name for file in files} >= core


def test_a_mistake_that_is_noticed_and_one_that_is_not_are_told_apart(
    run_list: RunList, capsys: pytest.CaptureFixture[str]
) -> None:
    code = run_list(
        entry("the larger window wins", "smaller = {name: min(", "smaller = {name: max("),
        entry("a comment changes", "The acceptor decides and the dialer verifies.", "Nobody reads this."),
    )

    lines = capsys.readouterr().out.splitlines()
    assert code == 1
    assert lines[0].startswith("the larger window wins")
    assert f"{KILLER}::test_" in lines[0]
    assert lines[1].startswith("a comment changes")
    assert lines[1].endswith("SURVIVED")
    assert lines[2].startswith("1 of 2 noticed")
    assert lines[4] == f"a comment changes ({FILE}) survived {KILLER}"


def test_if_all_are_noticed_all_is_well(run_list: RunList) -> None:
    assert run_list(entry("any version", "if theirs != PROTOCOL_VERSION:", "if theirs < PROTOCOL_VERSION:")) == 0


def test_a_mistake_that_hangs_is_noticed_by_the_clock(
    run_list: RunList, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run_list.tool, "TEST_TIMEOUT_SECONDS", 5)
    old = "    require_version(request.protocol_version)\n"
    instant = f"{KILLER}::test_another_version_is_refused"

    assert run_list(entry("spins", old, "    while request:\n        pass\n", killer=instant)) == 0
    assert capsys.readouterr().out.splitlines()[0].endswith("time-out")


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (entry("a", "no such text", ""), "'a': its old text occurs 0 times"),
        (entry("a", "theirs", "ours"), "'a': its old text occurs [0-9]+ times"),
        (entry("a", "min(", "max(") * 2, "two mutants are called 'a'"),
        ("[[mutant]]\nname = 'a'\n", "is not a list of mutants"),
        ("", "is not a list of mutants"),
        (entry("a", "smaller = {name: min(", "smaller = {name ="), "pytest ended with"),
        (entry("a", "smaller = {name: min(", "smaller = {name: max(", killer="tests/none.py"), "without any mistake"),
    ],
)
def test_a_list_that_cannot_be_used_is_refused(
    run_list: RunList, capsys: pytest.CaptureFixture[str], text: str, reason: str
) -> None:
    with pytest.raises(SystemExit) as caught:
        run_list(text)

    assert caught.value.code == 2
    assert reason.split("[")[0] in capsys.readouterr().err


def test_an_unknown_name_is_refused(tool: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        tool.main(["--only", "no such mutant"])

    assert caught.value.code == 2
    assert "no mutant is called 'no such mutant'" in capsys.readouterr().err

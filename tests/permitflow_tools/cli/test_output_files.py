"""What a command reads, or has just written, is not replaced by what it writes."""

import shutil
import sys
from pathlib import Path

import pytest

from permitflow.tracing import FileTrace
from tests.permitflow_tools.cli.conftest import Command

ORDERS = Path(__file__).parents[3] / "docs" / "examples" / "orders.toml"
VARIED = ("--sweep", "permit_batch=256,512")
PARCELS = """
from permitflow_model.kernel.system import Action, System

SYSTEM = System("Parcels", lambda _: 0, (Action("turn", lambda parcel, _: 1 - parcel),), {})
"""
STUCK = ("--row-permits", "8", "--permit-batch", "3", "--max-chunk-cost", "7")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where commands run: with a description, and a folder with a recording and a link to it."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # of a module that is read
    for name in ("orders.toml", "observed.toml", "observed.csv"):
        shutil.copy(ORDERS.with_name(name), tmp_path / name)
    (tmp_path / "parcels.py").write_text(PARCELS, encoding="utf-8")
    (tmp_path / "run").mkdir()
    FileTrace(tmp_path / "run" / "run.jsonl").close()
    (tmp_path / "link.html").symlink_to("run/run.jsonl")
    return tmp_path


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["check", "orders.toml", *VARIED, "--csv", "orders.toml"], "--csv: orders.toml is an input"),
        (["simulate", "orders.toml", *VARIED, "--csv", "./orders.toml"], "--csv: orders.toml is an input"),
        (
            ["simulate", "orders.toml", *VARIED, "--csv", "a.svg", "--plot", "a.svg"],
            "--plot: a.svg is what --csv names",
        ),
        (["check", "observed.toml", *VARIED, "--csv", "observed.csv"], "--csv: observed.csv is an input"),
        (["simulate", "observed.toml", *VARIED, "--csv", "observed.csv"], "--csv: observed.csv is an input"),
        (["explain", "observed.toml", "-o", "observed.csv"], "--output: observed.csv is an input"),
        (["explain", "parcels:SYSTEM", "-o", "parcels.py"], "--output: parcels.py is an input"),
        (["explain", "run/run.jsonl", "-o", "run/run.jsonl"], "--output: run/run.jsonl is an input"),
        (["explain", "run", "--svg", "run/run.jsonl"], "--svg: run/run.jsonl is an input"),
        (["explain", "run", "-o", "link.html"], "--output: link.html is an input"),
        (["explain", *STUCK, "-o", "a", "--svg", "a"], "--svg: a is what --output names"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_files_that_are_read_or_just_written_are_not_replaced(
    command: Command, folder: Path, arguments: list[str], complaint: str
) -> None:
    def content() -> dict[Path, str]:
        return {path: path.read_text() for path in sorted(folder.rglob("*")) if path.is_file()}

    before = content()
    code, stdout, stderr = command(*arguments)
    assert (code, stdout) == (2, "")
    assert complaint in stderr
    assert "name another file" in stderr
    assert content() == before


@pytest.mark.usefixtures("folder")
def test_a_device_may_take_both_outputs(command: Command) -> None:
    code, _, stderr = command("explain", *STUCK, "-o", "/dev/null", "--svg", "/dev/null")
    assert (code, stderr) == (0, "")


@pytest.mark.usefixtures("folder")
@pytest.mark.parametrize("name", ["check", "simulate"])
def test_a_table_is_shown_although_its_file_cannot_be_written(command: Command, name: str) -> None:
    code, stdout, stderr = command(name, "orders.toml", *VARIED, "--csv", "/dev/full")
    assert code == 2
    assert "cannot write /dev/full: No space left on device" in stderr
    assert [line.split()[:2] for line in stdout.splitlines() if line.lstrip()[:1].isdigit()] == [
        ["256", "live" if name == "check" else "flows"],
        ["512", "live" if name == "check" else "flows"],
    ]
    assert "written" not in stdout

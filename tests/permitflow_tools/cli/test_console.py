"""Tables for people, in terminals of any width."""

from io import StringIO

import pytest
from rich.console import Console
from rich.table import Table

from permitflow_tools.cli.console import open_console, open_table, print_table


def printed(table: Table, width: int) -> str:
    """What is written to a terminal of so many columns."""
    file = StringIO()
    print_table(Console(file=file, width=width), table)
    return file.getvalue()


def run() -> Table:
    """A table that is 65 columns wide."""
    table = open_table("action", "at the sender", "latency p99", "waiting", right=("at the sender", "latency p99"))
    table.add_row("OfferChunk(2048)", "2,047", "46.9 ms", "a chunk of 2,048")
    return table


def test_no_text_commands_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    table = open_table("a\x1b[1m", "b")
    table.add_row("c\x1b[2J\x9b1A", "d\ne")
    console = open_console()
    print_table(console, table)
    console.print("f\r\x1b]0;g\x07\nh")
    shown = capsys.readouterr().out
    assert all(character.isprintable() or character == "\n" for character in shown)
    assert shown.endswith("f\\x1b]0;g\nh\n")


@pytest.mark.parametrize("width", [1, 20, 40, 50, 60])
def test_a_narrow_terminal_shows_all_of_a_table(width: int) -> None:
    shown = printed(run(), width)
    assert "…" not in shown
    words = ["action", "at", "the", "sender", "latency", "p99", "waiting", "OfferChunk(2048)", "2,047", "of", "2,048"]
    assert [word for word in words if word not in shown.split()] == []
    assert "46.9 ms" in shown  # a number stays with its unit


def test_a_narrow_table_keeps_to_its_terminal_if_its_words_do() -> None:
    assert max(len(line) for line in printed(run(), 50).splitlines()) == 50


def test_columns_0_means_an_unknown_width(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "0")
    assert open_console().width > 0

"""Tables for people, in terminals of any width."""

import pytest

from permitflow.cli.console import open_console, open_table, print_table


def test_no_text_commands_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    table = open_table("a\x1b[1m", "b")
    table.add_row("c\x1b[2J\x9b1A", "d\ne")
    console = open_console()
    print_table(console, table)
    console.print("f\r\x1b]0;g\x07\nh")
    shown = capsys.readouterr().out
    assert all(character.isprintable() or character == "\n" for character in shown)
    assert shown.endswith("f\\x1b]0;g\nh\n")


def test_columns_0_means_that_nobody_knows(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "0")
    assert open_console().width > 0

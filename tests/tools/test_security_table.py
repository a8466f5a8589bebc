"""The table of attacks is what was measured."""

from pathlib import Path

from tests.hostile.measuring import ATTACKS, kept
from tools import security_table


def test_the_document_has_what_was_measured(repository: Path) -> None:
    text = (repository / "docs/security.md").read_text("utf-8")
    assert security_table.page(text) == text, "python -m tools.security_table"


def test_the_exchange_lived_after_each_attack_of_the_run() -> None:
    results = kept().attacks
    assert [result.attack for result in results] == [*ATTACKS][: len(results)]
    assert [result.attack for result in results if not result.is_alive] == []

"""What was measured gets into the documents, and into nothing but the places that are marked for it."""

from pathlib import Path

from benchmarks.documents import tables_asked_for, update_document
from benchmarks.model_checking import CheckingSpeed
from benchmarks.results import Record, Results
from benchmarks.tables import TABLES

EXPLORED = CheckingSpeed(what="explorer", unit="states", count=90_000, cpu_seconds=2.0)


def measured(**parts: list[Record]) -> Results:
    results = Results(machine={}, settings={"rounds": 1, "seed": 1, "is_smoke": False})
    for part, records in parts.items():
        results.put(part, records)
    return results


def test_a_document_gets_tables_between_its_marks_and_keeps_the_rest(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text("before\n<!-- measured: checking -->\nold\n<!-- end -->\nafter\n")
    for _ in range(2):
        update_document(document, measured(checking=[EXPLORED]))
        text = document.read_text()
        assert text.startswith("before\n<!-- measured: checking -->\n| What")
        assert text.endswith("| explorer | 90,000 states | 2.00 | 45k |\n<!-- end -->\nafter\n")


def test_the_documents_ask_for_all_tables_once_each(repository: Path) -> None:
    asked = [name for page in sorted((repository / "docs").rglob("*.md")) for name in tables_asked_for(page)]
    assert sorted(asked) == sorted(TABLES)

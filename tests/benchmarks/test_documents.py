"""What was measured gets into the documents, and into nothing but the places that are marked for it."""

from pathlib import Path

from benchmarks.documents import tables_asked_for, update_documents
from benchmarks.results import Results
from benchmarks.tables import TABLES


def test_a_document_gets_tables_between_its_marks_and_keeps_the_rest(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text("before\n<!-- measured: local -->\nold\n<!-- end -->\nafter\n")
    results = Results(machine={}, settings={"rounds": 1})
    results.put("local", [{"What": "receive", "each second": 45_000.0}])
    for _ in range(2):
        update_documents(tmp_path, results)
        text = document.read_text()
        assert text.startswith("before\n<!-- measured: local -->\n| What")
        assert text.endswith("| receive | 45k |\n<!-- end -->\nafter\n")


def test_the_documents_ask_for_all_tables_once_each(repository: Path) -> None:
    asked = [name for page in sorted((repository / "docs").rglob("*.md")) for name in tables_asked_for(page)]
    assert sorted(asked) == sorted(TABLES)

"""What was measured gets into the documents, and into nothing but the places that are marked for it."""

from dataclasses import replace
from pathlib import Path

from benchmarks.compression_speed import CompressionSpeed
from benchmarks.documents import tables_asked_for, update_document, update_documents
from benchmarks.records import Record
from benchmarks.results import Results
from benchmarks.run_ahead.figures import RunAhead
from benchmarks.series import Series
from benchmarks.tables import TABLES

SLOW = RunAhead(
    settings="configure()",
    consumer="writer",
    chunk_rows=4_096,
    hidden_rows=2_048,
    metered=None,
    free_rows_per_second=Series.of([2.0, 3.0, 1.0]),
)
FREE = CompressionSpeed(
    codec="zstd",
    megabits=None,
    row_bytes=39.4,
    rows_per_second=Series.of([1_000.0, 1_000.0]),
    sender_seconds=Series.of([4.0, 1.0]),
    receiver_seconds=Series.of([1.0, 2.0]),
)


def measured(**parts: list[Record]) -> Results:
    results = Results(machine={}, settings={"rounds": 1, "seed": 1, "is_smoke": False})
    for part, records in parts.items():
        results.put(part, records)
    return results


def test_a_document_gets_tables_between_its_marks_and_keeps_the_rest(tmp_path: Path) -> None:
    document = tmp_path / "page.md"
    document.write_text("before\n<!-- measured: run_ahead -->\nold\n<!-- end -->\nafter\n")
    for _ in range(2):
        update_document(document, measured(run_ahead=[SLOW]))
        text = document.read_text()
        assert text.startswith("before\n<!-- measured: run_ahead -->\n| settings")
        assert text.endswith(
            "| configure(), a writer, 4,096 | 2,048 | 48 | unknown | 2 (1 to 3) |\n<!-- end -->\nafter\n"
        )


def test_every_page_with_marks_is_written_and_no_other(tmp_path: Path) -> None:
    marked, other = tmp_path / "marked.md", tmp_path / "other.md"
    marked.write_text("<!-- measured: run_ahead -->\n<!-- end -->\n")
    other.write_text("nothing here was measured\n")
    assert update_documents(tmp_path, measured(run_ahead=[SLOW])) == [marked]
    assert "2,048" in marked.read_text()
    assert other.read_text() == "nothing here was measured\n"


def test_the_documents_ask_for_all_tables_once_each(repository: Path) -> None:
    asked = [name for page in sorted((repository / "docs").glob("*.md")) for name in tables_asked_for(page)]
    assert sorted(asked) == sorted(TABLES)


def test_a_codec_is_told_with_what_it_costs_and_its_rate_through_each_network() -> None:
    slow = replace(FREE, megabits=100.0, rows_per_second=Series.of([10.0, 20.0]))
    plain = replace(FREE, codec="none")
    plain_slow = replace(slow, codec="none")
    head, _, none, zstd = TABLES["compression"](measured(compression=[plain_slow, plain, slow, FREE])).splitlines()
    assert head.endswith("| pays below, Gbit/s | rows/s at 100 Mbit/s |")
    assert none == "| none | 39 | 2.50 (1 to 4) | 1.50 (1 to 2) | - | 15 (10 to 20) |"
    assert zstd == "| zstd | 39 | 2.50 (1 to 4) | 1.50 (1 to 2) | 3 (2 to 4) | 15 (10 to 20) |"

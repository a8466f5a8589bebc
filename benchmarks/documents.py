"""Puts results into documents: what stands between two marks comes from here, and nothing else does.

<!-- measured: throughput -->
...
<!-- end -->
"""

import re
from pathlib import Path

from benchmarks.plots import draw_all
from benchmarks.results import Results
from benchmarks.tables import TABLES

__all__ = ["tables_asked_for", "update_document", "update_documents"]

MARKED = re.compile(r"(?<=<!-- measured: )(\w+)( -->\n).*?(?=<!-- end -->)", re.DOTALL)
PICTURES = "pictures"


def tables_asked_for(document: Path) -> list[str]:
    """The names in its marks, in order."""
    return [found[1] for found in MARKED.finditer(document.read_text(encoding="utf-8"))]


def update_documents(folder: Path, results: Results) -> list[Path]:
    """Paste all tables into the pages of a folder, and draw all plots; returns the files that were written.

    Raises:
        KeyError: a page asks for a table that does not exist.
    """
    pages = [page for page in sorted(folder.glob("*.md")) if tables_asked_for(page)]
    for page in pages:
        update_document(page, results)
    return [*pages, *draw_all(results, folder / PICTURES, prefix="performance-")]


def update_document(document: Path, results: Results) -> None:
    """Paste the tables that a page asks for.

    Raises:
        KeyError: it asks for one that does not exist.
    """
    text = document.read_text(encoding="utf-8")
    text = MARKED.sub(lambda found: f"{found[1]}{found[2]}{TABLES[found[1]](results)}\n", text)
    document.write_text(text, encoding="utf-8")

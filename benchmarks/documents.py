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

__all__ = ["update_document"]

MARKED = re.compile(r"(?<=<!-- measured: )(\w+)( -->\n).*?(?=<!-- end -->)", re.DOTALL)
PICTURES = "pictures"


def update_document(document: Path, results: Results) -> list[Path]:
    """Paste all tables and draw all plots; returns the files that were written.

    Raises:
        KeyError: the document asks for a table that does not exist.
    """
    text = MARKED.sub(lambda found: f"{found[1]}{found[2]}{TABLES[found[1]](results)}\n", document.read_text())
    document.write_text(text)
    return [document, *draw_all(results, document.parent / PICTURES, prefix="performance-")]

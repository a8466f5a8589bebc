"""A table in Markdown."""

from collections.abc import Iterable, Sequence

__all__ = ["NOT_MEASURED", "UNMEASURED", "table"]

NOT_MEASURED = "-"
UNMEASURED = "Not measured in this run."
HEAD_LINES = 2


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """The first column is text, the others are numbers.  Without rows, a word in place of a table."""
    lines = [head, ["---", *("---:" for _ in head[1:])], *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines) if len(lines) > HEAD_LINES else UNMEASURED

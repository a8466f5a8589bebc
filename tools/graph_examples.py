"""Write the tables of docs/guides/graphs.md: the graphs of docs/examples/graphs and the verdict on each.

A test compares the tables with what this would write, and each verdict with what its file expects.
"""

from collections.abc import Iterable
from functools import cache
from pathlib import Path

from permitflow_tools.checking import GraphVerdict, check_graph
from permitflow_tools.parameters.graph import About, read_graph
from tools.marks import pasted

DOCUMENT = Path(__file__).resolve().parent.parent / "docs/guides/graphs.md"
# In the order of the guide.
EXAMPLES = (
    *("loop", "loop-bare", "loop-drop", "loop-unbounded", "loop-merge-preferred", "loop-completion"),
    *("zip-loop", "zip-loop-first", "diamond", "diamond-buffer", "diamond-filter", "merge"),
    *("dispatch", "dispatch-barriers", "dispatch-order", "dispatch-room", "echo", "echo-room", "framing"),
)
FOLDER = DOCUMENT.parent.parent / "examples/graphs"
REPORTS = FOLDER / "reports"


def examples_table(paths: Iterable[Path]) -> str:
    """A line for each graph."""
    lines = ["| Graph | Verdict | A run into it | Why | What would help |", "|---|---|---|---|---|"]
    for path in paths:
        about, found = judged(path)
        cells = (_link(about.title, path), found.verdict, _run(found), found.reason, "; or ".join(found.advice))
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    return "\n".join(lines) + "\n"


def reports_table(paths: Iterable[Path]) -> str:
    """A line for each public report."""
    lines = ["| Report | What it tells | Verdict | The ring | Graph |", "|---|---|---|---|---|"]
    for path in paths:
        about, found = judged(path)
        report = f"[{about.title.partition(':')[0]}]({about.report})"
        ring = ", ".join(f"`{each.stage}` waits for `{each.on}`" for each in found.ring)
        cells = (report, about.symptom, found.verdict, ring, _link(path.stem, path))
        lines.append(f"| {' | '.join(map(_cell, cells))} |")
    return "\n".join(lines) + "\n"


def with_tables(document: str) -> str:
    """The guide, with the tables that are true now."""
    tables = {"the examples": examples_table(FOLDER / f"{name}.toml" for name in EXAMPLES)}
    tables |= {"the reports": reports_table(sorted(REPORTS.glob("*.toml")))}
    for name, table in tables.items():
        document = pasted(document, f"{name}, written by make docs", f"\n{table}\n")
    return document


@cache
def judged(path: Path) -> tuple[About, GraphVerdict]:
    """What a file says of itself, and the verdict on its graph."""
    described = read_graph(path)
    return described.about, check_graph(described.blueprint)


def _link(text: str, path: Path) -> str:
    return f"[{text}](../{path.relative_to(DOCUMENT.parent.parent).as_posix()})"


def _run(found: GraphVerdict) -> str:
    if not found.run:
        return ""
    if not found.steps:
        return "at once"
    return f"{found.steps:,} step{'' if found.steps == 1 else 's'}{'' if found.is_shortest else ', or fewer'}"


def _cell(text: str) -> str:
    return text.replace("|", "\\|")


if __name__ == "__main__":
    DOCUMENT.write_text(with_tables(DOCUMENT.read_text(encoding="utf-8")), encoding="utf-8")

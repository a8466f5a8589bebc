"""Graphviz: it lays a graph out, as an element of SVG."""

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from html import escape

_SECONDS = 30.0

MISSING = "needs the program `dot` of Graphviz, and there is none, or it does not come to an end with it"
"""Why there is no drawing, after what is to be drawn."""


def drawn(graph: str, kind: str, label: str) -> str | None:
    """What Graphviz makes of a graph in its language: of this class, and named so.

    None where it is not installed, and of a graph for which it takes too long.
    """
    program = shutil.which("dot")
    if program is None:
        return None
    for text in (graph, _beside(graph)):
        try:
            done = subprocess.run(
                [program, "-Tsvg"], input=text, capture_output=True, text=True, timeout=_SECONDS, check=True
            )
        except (subprocess.CalledProcessError, subprocess.TimeoutExpired):
            continue
        return _opened(done.stdout, kind, label)
    return None


def _beside(graph: str) -> str:
    """The graph with the names of steps put beside it, not into its layout.

    Graphviz cannot route some edges between states of one rank around their names ("triangulation failed").
    """
    return "\n".join(line.replace(" label=", " xlabel=") if " -> " in line else line for line in graph.split("\n"))


def _opened(drawing: str, kind: str, label: str) -> str:
    width, height = size_of(drawing)
    opening = f'<svg class="{kind}" role="img" aria-label="{escape(label)}" width="{width:g}" height="{height:g}"'
    return re.sub(r'^.*?<svg width="\S+" height="\S+"', opening, drawing, count=1, flags=re.DOTALL)


def size_of(drawing: str) -> tuple[float, float]:
    """Its width and height, in pixels."""
    box = re.search(r'viewBox="\S+ \S+ (\S+) (\S+)"', drawing)
    assert box is not None, "dot tells how large its drawing is"
    return float(box[1]), float(box[2])


def listed(attributes: Mapping[str, str]) -> str:
    """Attributes of a node or an edge; empty ones are left out."""
    return ", ".join(f"{name}={json.dumps(value, ensure_ascii=False)}" for name, value in attributes.items() if value)

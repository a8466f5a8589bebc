"""A drawing that matplotlib lays out, as a file of any kind, or as a page with the drawing and its figures."""

import io
import re
from collections.abc import Callable, Sequence
from functools import cache
from html import escape
from importlib import import_module
from string import Template
from typing import TYPE_CHECKING, Protocol, TypeAlias

from permitflow.pictures.assets import asset

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["SUFFIXES", "Draw", "Plot", "load_matplotlib", "palette", "plot_bytes"]

SUFFIXES = (".html", ".svg", ".png", ".pdf")
_DOTS_PER_INCH = 150

Draw: TypeAlias = Callable[[bool], "Figure"]
"""Makes the drawing, with its title or without."""


class Plot(Protocol):
    """What a page says about a drawing."""

    @property
    def title(self) -> str:
        """In large letters."""
        ...

    @property
    def sentence(self) -> str:
        """Below the title."""
        ...

    @property
    def label(self) -> str:
        """Of the drawing, for those who cannot see it."""
        ...

    @property
    def origin(self) -> str:
        """Which command has made it, and from what."""
        ...

    @property
    def head(self) -> Sequence[str]:
        """Of the table on the page."""
        ...

    @property
    def rows(self) -> Sequence[tuple[bool, Sequence[str]]]:
        """Its lines; the first says whether it went well."""
        ...


def load_matplotlib() -> None:
    """Load it now, so that its absence is noticed before anything else is done.

    Raises:
        ModuleNotFoundError: it is not installed.
    """
    import_module("matplotlib.figure")


def plot_bytes(picture: Plot, suffix: str, draw: Draw) -> bytes:
    """The file, by its kind: one of ``SUFFIXES``.  Needs the package matplotlib."""
    if suffix == ".html":
        return _page(picture, draw).encode()
    if suffix == ".svg":
        return _svg(picture, draw, with_title=True).encode()
    return _rendered(suffix.removeprefix("."), draw, with_title=True)


def _page(picture: Plot, draw: Draw) -> str:
    return Template(asset("sweep.html")).substitute(
        title=escape(picture.title),
        label=escape(picture.label),
        origin=escape(picture.origin),
        sentence=escape(picture.sentence),
        style="".join(map(asset, ("palette.css", "page.css", "sweep.css"))),
        drawing=re.sub(r"<style>.*?</style>", "", _svg(picture, draw, with_title=False), count=1, flags=re.DOTALL),
        table=_table(picture),
    )


def _table(picture: Plot) -> str:
    head = "".join(f"<th>{escape(cell)}</th>" for cell in picture.head)
    body = "\n".join(_line(is_well, cells) for is_well, cells in picture.rows)
    return f"<table><thead><tr>{head}</tr></thead>\n<tbody>\n{body}\n</tbody></table>"


def _line(is_well: bool, cells: Sequence[str]) -> str:
    kind = "" if is_well else ' class="fails"'
    return f"<tr{kind}>{''.join(f'<td>{escape(cell)}</td>' for cell in cells)}</tr>"


def _svg(picture: Plot, draw: Draw, *, with_title: bool) -> str:
    """The drawing with the palette's names in place of its colours, so that it follows the reader's scheme."""
    drawing = _rendered("svg", draw, with_title=with_title).decode()
    drawing = drawing[drawing.index("<svg") :]
    for name, colour in palette().items():
        drawing = drawing.replace(colour, f"var(--{name})")
    opening = f'<svg class="sweep-drawing" role="img" aria-label="{escape(picture.title)}"'
    drawing = drawing.replace("<svg", opening, 1)
    end_of_opening = drawing.index(">") + 1
    return f"{drawing[:end_of_opening]}<style>{asset('palette.css')}</style>{drawing[end_of_opening:]}"


@cache
def palette() -> dict[str, str]:
    """The light scheme's colours; the first name of a colour that has several."""
    light = asset("palette.css").partition("@media")[0]
    colours: dict[str, str] = {}
    for name, colour in re.findall(r"--([\w-]+): (#[0-9a-f]{6});", light):
        if colour not in colours.values():
            colours[name] = colour
    return colours


def _rendered(kind: str, draw: Draw, *, with_title: bool) -> bytes:
    from matplotlib import rc_context

    colours = palette()
    style = {
        "svg.fonttype": "none",
        "svg.hashsalt": "permitflow",  # equal pictures are equal files
        "font.size": 11,
        "text.color": colours["ink"],
        "axes.labelcolor": colours["ink"],
        "axes.edgecolor": colours["line"],
        "axes.facecolor": colours["card"],
        "figure.facecolor": colours["card"],
        "savefig.facecolor": colours["card"],
        "xtick.color": colours["muted"],
        "ytick.color": colours["muted"],
        "grid.color": colours["track"],
        "legend.frameon": False,
    }
    file = io.BytesIO()
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with rc_context(style):  # type: ignore[arg-type]  # its type lists every setting
        draw(with_title).savefig(file, format=kind, dpi=_DOTS_PER_INCH, metadata=metadata)
    return file.getvalue()

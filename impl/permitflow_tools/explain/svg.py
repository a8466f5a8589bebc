"""SVG as text: elements, and documents that stand alone."""

import textwrap
from collections.abc import Iterable, Iterator
from html import escape


def element(tag: str, *children: str, **attributes: str | float) -> str:
    """One element.  ``class_`` is the class; an underscore inside a name is a hyphen."""
    named = "".join(
        f' {name.rstrip("_").replace("_", "-")}="{_shown(value)}"' for name, value in attributes.items() if value != ""
    )
    return f"<{tag}{named}>{''.join(children)}</{tag}>" if children else f"<{tag}{named}/>"


def text(x: float, y: float, content: str, **attributes: str | float) -> str:
    """A line of text whose base line begins at (x, y)."""
    return element("text", escape(content), x=x, y=y, **attributes)


def lines(content: str, width: int) -> list[str]:
    """A text as lines of at most this many characters."""
    return textwrap.wrap(content, width, break_on_hyphens=False) or [""]


def length(content: str, font_size: float) -> float:
    """About how wide a line of digits or letters is, in pixels; generous."""
    return len(content) * font_size * 0.64


def document(
    parts: Iterable[str], *, width: float, height: float, title: str, styles: Iterable[str] = (), class_: str = ""
) -> str:
    """The outermost element."""
    style = "".join(styles)
    content = [element("title", escape(title))]
    if style:
        content.append(f"<style>\n{style}</style>")
    return element(
        "svg",
        *content,
        *parts,
        xmlns="http://www.w3.org/2000/svg",
        viewBox=f"0 0 {_shown(width)} {_shown(height)}",
        width=width,
        height=height,
        role="img",
        class_=class_,
    )


def paragraph(x: float, y: float, content: str, *, width: int, leading: float, class_: str) -> Iterator[str]:
    """Lines of text, one below the other."""
    for number, line in enumerate(lines(content, width)):
        yield text(x, y + number * leading, line, class_=class_)


def _shown(value: str | float) -> str:
    if isinstance(value, str):
        return escape(value)
    return f"{value:.2f}".rstrip("0").rstrip(".")

"""A run of a mute pipeline as a page: who was muted when, and what went in and came out."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files

from permitflow_tools.explain import svg
from permitflow_tools.explain.assets import page

_WIDTH = 1080
_MARGIN = 28
_LEFT, _RIGHT = 250, 1050
_LANE_HEIGHT, _BAR_HEIGHT = 38, 22
_CURVE_HEIGHT = 150
_TICKS = 8
_FONT_SIZE = 13


@dataclass(frozen=True, kw_only=True)
class Span:
    """A time in which something lasted."""

    begin: float
    end: float
    text: str


@dataclass(frozen=True, kw_only=True)
class Lane:
    """The spans of one part."""

    name: str
    spans: Sequence[Span]
    colour: str
    """A name of the palette."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """Values over time."""

    name: str
    points: Sequence[tuple[float, float]]
    colour: str


@dataclass(frozen=True, kw_only=True)
class MuteTimeline:
    """All that the page shows; it computes nothing."""

    title: str
    sentence: str
    seconds: float
    lanes: Sequence[Lane]
    curves: Sequence[Curve]
    curves_title: str
    rows: Sequence[tuple[str, str]]
    """Figures, with their names."""
    origin: str

    def page(self) -> str:
        """One HTML file with everything in it."""
        body = "\n".join(f"<tr><td>{escape(name)}</td><td>{escape(value)}</td></tr>" for name, value in self.rows)
        label = "Who was muted when, and what went in and came out"
        return page(
            "sweep",
            ("palette.css", "page.css", "sweep.css", "timeline.css"),
            {"title": self.title, "sentence": self.sentence, "label": label, "origin": self.origin},
            {"drawing": self.drawing(), "table": f"<table><tbody>\n{body}\n</tbody></table>"},
            folder=files(__package__),
        )

    def drawing(self) -> str:
        """Lanes above, curves below, over the same time."""
        y = 10.0
        parts: list[str] = []
        for lane in self.lanes:
            parts += self._lane(lane, y)
            y += _LANE_HEIGHT
        y += 28
        parts.append(svg.text(_MARGIN, y, self.curves_title, class_="mute-name"))
        y += 12
        parts += self._curves(y)
        y += _CURVE_HEIGHT
        parts += self._axis(y)
        height = y + 44
        return svg.document(parts, width=_WIDTH, height=height, title=self.title, class_="mute-drawing")

    def _x(self, seconds: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * min(1.0, max(0.0, seconds / self.seconds))

    def _lane(self, lane: Lane, y: float) -> Iterator[str]:
        yield svg.text(_MARGIN, y + 16, lane.name, class_="mute-name")
        yield svg.element("rect", class_="mute-track", x=_LEFT, y=y, width=_RIGHT - _LEFT, height=_BAR_HEIGHT, rx=4)
        for span in lane.spans:
            x, end = self._x(span.begin), self._x(span.end)
            hint = f"{span.text}, {span.begin:.2f} s to {span.end:.2f} s"
            yield svg.element(
                "rect",
                svg.element("title", escape(hint)),
                x=x,
                y=y,
                width=max(1.0, end - x),
                height=_BAR_HEIGHT,
                rx=4,
                style=f"fill:var(--{lane.colour})",
            )
            if svg.length(span.text, _FONT_SIZE) < end - x:
                yield svg.text((x + end) / 2, y + 16, span.text, class_="mute-text")

    def _curves(self, y: float) -> Iterator[str]:
        most = max((value for curve in self.curves for _, value in curve.points), default=0.0) or 1.0
        yield svg.element("rect", class_="mute-track", x=_LEFT, y=y, width=_RIGHT - _LEFT, height=_CURVE_HEIGHT, rx=4)
        for number, curve in enumerate(self.curves):
            places = " ".join(
                f"{self._x(seconds):.1f},{y + _CURVE_HEIGHT * (1 - value / most):.1f}"
                for seconds, value in curve.points
            )
            yield svg.element("polyline", class_="mute-curve", points=places, style=f"stroke:var(--{curve.colour})")
            yield svg.text(_MARGIN, y + 18 + 20 * number, curve.name, style=f"fill:var(--{curve.colour})")
        yield svg.text(_LEFT - 8, y + 12, f"{most:,.0f}", class_="mute-number")

    def _axis(self, y: float) -> Iterator[str]:
        for tick in range(_TICKS + 1):
            seconds = self.seconds * tick / _TICKS
            yield svg.text(self._x(seconds), y + 20, f"{seconds:.1f} s", class_="mute-text")

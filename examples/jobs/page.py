"""The monitor's page: figures with their bounds, the last minutes as charts.  It is served live, or kept as a file."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape
from importlib.resources import files
from math import floor, log10
from typing import Literal

from permitflow_tools.explain import svg
from permitflow_tools.explain.assets import page

from .collecting import MonitorState

LONGEST_SECONDS = 180.0
"""The longest time that a chart shows."""
SHORTEST_SECONDS = 30.0
_RATE_SECONDS = 2.0
"""A rate is taken over so long: totals come in steps."""
_WIDTH, _HEIGHT = 360, 126
_LEFT, _RIGHT, _TOP, _BOTTOM = 40, 352, 6, 102
_TITLE = "Jobs: master, workers, monitor"
_SENTENCE = (
    "Clients submit jobs to a master, whose queue drops the oldest. Workers pull one at a time. All of them send "
    "metrics over UDP: totals, at a limited rate, so that the newest packet makes all lost ones superfluous."
)
_COLOURS = tuple(f"series-{number}" for number in range(1, 7))
_FATES = (
    ("arrived", "arrived"),
    ("taken", "taken: newer than what was known"),
    ("late", "ignored: older than what was known"),
    ("twice", "ignored: came twice"),
    ("missing", "missing, by sequence numbers"),
    ("overflowed", "lost by a full socket, says the kernel"),
    ("lost", "lost on purpose"),
    ("malformed", "ignored: no packet of metrics"),
    ("refused", "ignored: from unknown processes"),
)


@dataclass(frozen=True, kw_only=True)
class _Curve:
    """Values over time."""

    name: str
    colour: str
    points: Sequence[tuple[float, float]]

    @property
    def now(self) -> float:
        return self.points[-1][1] if self.points else 0.0


def page_of(state: MonitorState, *, is_live: bool = False) -> str:
    """One HTML file with everything in it; a live one asks the monitor each second for what has changed."""
    origin = "It asks the monitor each second." if is_live else "This page is of the end of a run, and uses no network."
    return page(
        "monitor",
        ("palette.css", "page.css", "sweep.css", "monitor.css"),
        {"title": _TITLE, "sentence": _SENTENCE, "origin": f"Made by permitflow demo jobs. {origin}"},
        parts_of(state),
        scripts=("monitor.js",) if is_live else (),
        folder=files(__package__),
        asks_its_server=is_live,
    )


def parts_of(state: MonitorState) -> dict[str, str]:
    """Markup for each part of the page that changes, by its id."""
    return {
        "verdict": _verdict(state),
        "facts": _facts(state),
        "queue": _queue(state),
        "oldest": _oldest(state),
        "losses": _losses(state),
        "pulls": _pulls(state),
        "packets": _packets(state),
        "fates": _fates(state),
        "workers": _workers(state),
    }


def _master(state: MonitorState, name: str) -> int:
    return sum(totals.get(name, 0) for start, totals in state["sources"].items() if start.startswith("master#"))


def _is_queue_over(state: MonitorState) -> bool:
    capacity = state["bounds"]["queue_capacity"]
    return 0 < capacity < max((sample["gauges"].get("queue", 0) for sample in state["samples"]), default=0)


def _are_packets_over(state: MonitorState) -> bool:
    return state["peak_packets_per_second"] > state["packets_per_second"]


def _verdict(state: MonitorState) -> str:
    over = [
        name
        for name, is_over in (("the queue", _is_queue_over(state)), ("the packets", _are_packets_over(state)))
        if is_over
    ]
    if over:
        return f'<span class="badge violated">{" and ".join(over)} exceeded the bound</span>'
    return '<span class="badge">within all bounds</span>'


def _facts(state: MonitorState) -> str:
    facts = [
        ("running for", f"{state['seconds']:,.0f} s"),
        *((name, f"{_master(state, name):,}") for name in ("submitted", "finished", "reported")),
        *((name, f"{state['gauges'].get('master', {}).get(name, 0):,.0f}") for name in ("clients", "workers")),
    ]
    return "".join(f"<div><dt>{name}</dt><dd>{value}</dd></div>" for name, value in facts)


def _figure(value: str, bound: str, *, is_over: bool = False) -> str:
    over, words = (" over", ": exceeded") if is_over else ("", "")
    return f'<p class="figure{over}"><b>{value}</b> <span class="bound">{bound}{words}</span></p>'


def _gauge(state: MonitorState, name: str) -> list[tuple[float, float]]:
    return [(sample["seconds"], sample["gauges"][name]) for sample in state["samples"] if name in sample["gauges"]]


def _rate(state: MonitorState, of: Literal["totals", "pulled"], name: str) -> list[tuple[float, float]]:
    """A total's growth in a second, at each sample; what was never counted is 0."""
    known = [(sample["seconds"], sample[of].get(name, 0)) for sample in state["samples"] if sample[of]]
    points, first = [], 0
    for place, (seconds, value) in enumerate(known):
        while first < place and known[first + 1][0] <= seconds - _RATE_SECONDS:
            first += 1
        if place > first:
            points.append((seconds, (value - known[first][1]) / (seconds - known[first][0])))
    return points


def _queue(state: MonitorState) -> str:
    capacity = state["bounds"]["queue_capacity"]
    curve = _Curve(name="waiting jobs", colour=_COLOURS[0], points=_gauge(state, "queue"))
    bound = f"of at most {capacity:,.0f}" if capacity else ""
    return _figure(f"{curve.now:,.0f}", bound, is_over=_is_queue_over(state)) + _chart(
        state, "Jobs that wait", [curve], capacity
    )


def _oldest(state: MonitorState) -> str:
    resend = state["bounds"]["resend_seconds"]
    curve = _Curve(name="seconds", colour=_COLOURS[0], points=_gauge(state, "oldest_seconds"))
    bound = f"sent again after {resend:,.1f} s" if resend else ""
    return _figure(f"{curve.now:,.2f} s", bound) + _chart(
        state, "Seconds that the oldest job has waited", [curve], resend
    )


def _losses(state: MonitorState) -> str:
    curves = [
        _Curve(name=words, colour=colour, points=_rate(state, "totals", name))
        for words, name, colour in (("dropped", "dropped", _COLOURS[1]), ("sent again", "resent", _COLOURS[2]))
    ]
    figure = _figure(f"{_master(state, 'dropped'):,}", f"dropped, and {_master(state, 'resent'):,} sent again")
    return figure + _chart(state, "Jobs dropped and sent again, in a second", curves) + _legend(curves, "a second")


def _pulls(state: MonitorState) -> str:
    names = sorted({name for sample in state["samples"] for name in sample["pulled"]})
    curves = [
        _Curve(name=name, colour=_COLOURS[place % len(_COLOURS)], points=_rate(state, "pulled", name))
        for place, name in enumerate(names)
    ]
    together = sum(curve.now for curve in curves)
    figure = _figure(f"{together:,.0f}", "a second, together")
    return figure + _chart(state, "Jobs that each worker pulls in a second", curves) + _legend(curves, "a second")


def _packets(state: MonitorState) -> str:
    limit = state["packets_per_second"]
    points = [(sample["seconds"], float(sample["packets"])) for sample in state["samples"]]
    curve = _Curve(name="packets", colour=_COLOURS[0], points=points)
    is_over = _are_packets_over(state)
    peak = f"more than {limit:,}" if is_over else f"{state['peak_packets_per_second']:,}"
    bound = f"a second, of at most {limit:,}; peak {peak}"
    return _figure(f"{curve.now:,.0f}", bound, is_over=is_over) + _chart(
        state, "The most packets in any second", [curve], limit
    )


def _fates(state: MonitorState) -> str:
    numbers = {**state["packets"], "lost": state["lost_on_purpose"]}
    rows = [f"<dt>{words}</dt><dd>{numbers.get(name, 0):,}</dd>" for name, words in _FATES]
    if state["last_malformed"]:
        rows.append(f'<dd class="reason">the last one that was none: {escape(state["last_malformed"])}</dd>')
    return "".join(rows)


def _workers(state: MonitorState) -> str:
    starts: dict[str, list[tuple[int, Mapping[str, int]]]] = {}
    for start, totals in state["sources"].items():
        name, _, number = start.partition("#")
        if name != "master":
            starts.setdefault(name, []).append((int(number), totals))
    rows = [_worker(state, name, sorted(found, key=lambda each: each[0])) for name, found in sorted(starts.items())]
    return "".join(rows) or '<tr><td colspan="7">none was heard of</td></tr>'


def _worker(state: MonitorState, name: str, starts: Sequence[tuple[int, Mapping[str, int]]]) -> str:
    newest, totals = starts[-1]
    in_hand = f"{totals['pulled'] - totals.get('finished', 0):,}" if "pulled" in totals else ""
    cells = [
        f"{newest:,}",
        *(f"{sum(each.get(total, 0) for _, each in starts):,}" for total in ("pulled", "finished")),
        in_hand,
        f"{state['undelivered'].get(name, 0):,}",
        f"{state['heard_seconds_ago'].get(name, 0.0):,.1f} s ago",
    ]
    return f'<tr><th scope="row">{escape(name)}</th>{"".join(f"<td>{cell}</td>" for cell in cells)}</tr>'


# Charts.


def _chart(state: MonitorState, name: str, curves: Sequence[_Curve], bound: float = 0.0) -> str:
    end = state["samples"][-1]["seconds"] if state["samples"] else 0.0
    span = min(max(end, SHORTEST_SECONDS), LONGEST_SECONDS)
    shown = {
        curve.name: [(seconds, value) for seconds, value in curve.points if seconds >= end - span] for curve in curves
    }
    top = _round_number(1.05 * max([bound, *(value for points in shown.values() for _, value in points)]))
    title = f"{name}, in the last {span:.0f} seconds" + (f"; bound {bound:g}" if bound else "")

    def x(seconds: float) -> float:
        return _RIGHT - (_RIGHT - _LEFT) * (end - seconds) / span

    def y(value: float) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * value / top

    def parts() -> Iterator[str]:
        yield svg.element(
            "rect", class_="chart-track", x=_LEFT, y=_TOP, width=_RIGHT - _LEFT, height=_BOTTOM - _TOP, rx=4
        )
        yield svg.text(_LEFT - 6, _TOP + 10, f"{top:,g}", class_="chart-number")
        yield svg.text(_LEFT - 6, _BOTTOM, "0", class_="chart-number")
        yield svg.text(_LEFT, _BOTTOM + 18, f"{span:.0f} s ago")
        yield svg.text(_RIGHT, _BOTTOM + 18, "now", class_="chart-number")
        if bound:
            yield svg.element("line", class_="chart-bound", x1=_LEFT, x2=_RIGHT, y1=y(bound), y2=y(bound))
        for curve in curves:
            places = " ".join(f"{x(seconds):.1f},{y(value):.1f}" for seconds, value in shown[curve.name])
            yield svg.element("polyline", class_="chart-curve", points=places, style=f"stroke:var(--{curve.colour})")

    return svg.document(parts(), width=_WIDTH, height=_HEIGHT, title=title, class_="chart")


def _round_number(most: float) -> float:
    """The smallest of 1, 1.5, 2, 3, …, 10, 15, 20, … that is not below."""
    if most <= 1:
        return 1.0
    power = 10.0 ** floor(log10(most))
    return next(power * factor for factor in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if power * factor >= most)


def _legend(curves: Iterable[_Curve], unit: str) -> str:
    entries = "".join(
        f'<li><span class="line" style="border-color:var(--{curve.colour})"></span>{escape(curve.name)}: '
        f"{curve.now:,.1f} {unit}</li>"
        for curve in curves
    )
    return f'<ul class="legend">{entries}</ul>' if entries else ""

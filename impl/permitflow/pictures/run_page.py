"""A run as a drawing, with a line for each step, and as a page to step through.

A page is one HTML file with everything in it.  Nothing is fetched, and the page forbids itself to.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from html import escape
from string import Template

from permitflow.pictures import svg
from permitflow.pictures.assets import asset
from permitflow.pictures.document import (
    CLASSES,
    PLACES,
    document_of,
    embedded,
    facts_list,
    facts_of,
    ledger_of,
    script_of,
)
from permitflow.pictures.run import Run, Verdict, last_steps
from permitflow.pictures.specification import ACTORS, Specification, false_guard
from permitflow_model.kernel.queue import Queue
from permitflow_model.permit_channel import SYSTEM, Message, Permits, State, held

__all__ = ["page_of", "storyboard"]

_STYLES = ("palette.css", "page.css", "storyboard.css")
_SCRIPTS = ("drawing.js", "run.js", "frame.js", "scene.js", "timeline.js", "panels.js", "player.js")

# The drawing's measures, in pixels.
_WIDTH = 1080
_MARGIN = 28
_ACTION_AT = 74
_ACTOR_AT = 226
BAR_AT = 306
BAR_WIDTH = 440
_NOTE_AT = BAR_AT + BAR_WIDTH + 22
_BAR_HEIGHT = 24
_LEAST_WIDTH = 1.5  # so that a single permit of thousands is seen
_ROW_HEIGHT = 44
_LEADING = 20

# A longer run is drawn as its beginning and its end.
MOST_ROWS = 40
ROWS_AT_EACH_END = 15


def page_of(run: Run) -> str:
    """The page of a run; of a very long one, of its end."""
    shown = last_steps(run)
    document = document_of(shown)
    return Template(asset("run.html")).substitute(
        title=escape(shown.title),
        verdict=escape(shown.verdict.value),
        sentence=escape(shown.sentence),
        facts=facts_list(facts_of(shown)),
        remarks="\n".join(f'<p class="remark">{escape(remark)}</p>' for remark in shown.remarks),
        style="".join(map(asset, _STYLES)),
        storyboard=storyboard(shown, standalone=False),
        module=escape(Specification(SYSTEM.module).file),
        run=embedded(document),
        script=script_of(_SCRIPTS),
    )


@dataclass(frozen=True)
class _Row:
    number: int
    title: str
    actor: str
    before: State
    state: State


def storyboard(run: Run, *, standalone: bool = True) -> str:
    """The drawing; one that does not stand alone takes its colours from the page around it."""
    parts: list[str] = []
    y = 40.0
    for draw in (_head, _legend, _rows, _end):
        drawn, y = draw(run, y)
        parts += drawn
    sheet = svg.element("rect", class_="sheet", width=_WIDTH, height=y, rx=12)
    styles = [asset("palette.css"), asset("storyboard.css")] if standalone else []
    return svg.document(
        [sheet, *parts], width=_WIDTH, height=y, title=f"{run.title}. {run.sentence}", styles=styles, class_="story"
    )


def _head(run: Run, y: float) -> tuple[list[str], float]:
    is_bad = run.verdict in (Verdict.STUCK, Verdict.INVALID)
    badge = 26 + svg.length(run.verdict.value, 13)
    parts = [
        svg.element(
            "rect", class_="badge bad" if is_bad else "badge", x=_MARGIN, y=y - 12, width=badge, height=22, rx=11
        ),
        svg.text(_MARGIN + badge / 2, y + 4, run.verdict.value, class_="badge-text"),
    ]
    y += 42
    for content, width, leading, kind in (
        (run.title, 82, 28, "title"),
        (run.sentence, 125, 22, "sentence"),
        *((remark, 140, _LEADING, "muted") for remark in run.remarks),
        (", ".join(f"{name} {value}" for name, value, _ in facts_of(run)), 130, _LEADING, "muted"),
    ):
        parts += svg.paragraph(_MARGIN, y, content, width=width, leading=leading, class_=kind)
        y += leading * len(svg.lines(content, width)) + 4
    return parts, y + 8


def _legend(run: Run, y: float) -> tuple[list[str], float]:
    parts = [svg.element("line", class_="rule", x1=_MARGIN, x2=_WIDTH - _MARGIN, y1=y - 14, y2=y - 14)]
    x: float = BAR_AT
    for place, label in PLACES.items():
        parts.append(svg.element("rect", class_=f"place {place}", x=x, y=y + 1, width=12, height=12, rx=3))
        parts.append(svg.text(x + 18, y + 12, label, class_="muted"))
        x += 34 + svg.length(label, 13) * 0.9
    parts.append(
        svg.text(_MARGIN, y + 12, f"All {run.parameters.row_count:,} row permits, step by step", class_="strong")
    )
    return parts, y + 34


def _rows(run: Run, y: float) -> tuple[list[str], float]:
    parts: list[str] = []
    for row in _shown(run):
        if isinstance(row, str):
            parts.append(svg.text(_ACTION_AT, y + 16, row, class_="muted"))
        else:
            parts += _row(run, row, y)
        y += _ROW_HEIGHT
    return parts, y + 8


def _shown(run: Run) -> Iterator[_Row | str]:
    left_out = len(run.steps) + 1 - 2 * ROWS_AT_EACH_END
    for number in range(len(run.steps) + 1):
        if len(run.steps) < MOST_ROWS or not ROWS_AT_EACH_END <= number < ROWS_AT_EACH_END + left_out:
            yield _row_of(run, number)
        elif number == ROWS_AT_EACH_END:
            yield f"{left_out:,} steps are not drawn"


def _row_of(run: Run, number: int) -> _Row:
    if number == 0:
        return _Row(run.skipped, "", "", run.start, run.start)
    step = run.steps[number - 1]
    before = run.steps[number - 2].state if number > 1 else run.start
    arguments = f"({', '.join(f'{argument:,}' for argument in step.arguments)})" if step.arguments else ""
    return _Row(run.skipped + number, step.action + arguments, ACTORS[step.action], before, step.state)


def _row(run: Run, row: _Row, y: float) -> Iterator[str]:
    yield svg.text(_MARGIN + 28, y + 16, f"{row.number:,}", class_="muted right")
    yield svg.text(_ACTION_AT, y + 16, row.title or "the beginning", class_="action" if row.title else "muted")
    yield svg.text(_ACTOR_AT, y + 16, row.actor, class_="muted")
    yield from _bar(run, row.state, y)
    notes = [(note, class_) for note, class_ in ((_moves(row), "muted"), _need(run, row.state)) if note]
    for number, (note, class_) in enumerate(notes):
        yield svg.text(_NOTE_AT, y + 16 + 16 * number, note, class_=class_)


def _moves(row: _Row) -> str:
    """Where permits came from and went to; where none moved, who is new among those who wait."""
    before, after = ledger_of(row.before), ledger_of(row.state)
    moved = [
        f"{place} {_signed(new.rows - old.rows)}"
        for place, old, new in zip(PLACES, before, after, strict=True)
        if old.rows != new.rows
    ]
    for name in CLASSES[1:]:
        counts = dict(zip(PLACES, zip(before.of_class(name), after.of_class(name), strict=True), strict=True))
        left = [place for place, (old, new) in counts.items() if new < old]
        reached = [place for place, (old, new) in counts.items() if new > old]
        moved += [f"{name.removesuffix('s')} permit: {' '.join(left)} \u2192 {' '.join(reached)}"] if reached else []
    return ", ".join(moved)


def _signed(change: int) -> str:
    return f"+{change:,}" if change > 0 else f"\u2212{-change:,}"


def _bar(run: Run, state: State, y: float) -> Iterator[str]:
    scale = BAR_WIDTH / run.parameters.row_count
    yield svg.element("rect", class_="track", x=BAR_AT, y=y, width=BAR_WIDTH, height=_BAR_HEIGHT, rx=3)
    x: float = BAR_AT
    flags: dict[float, str] = {}
    for place, parts in _pieces(state):
        for count, kind in parts:
            if kind != "chunk":
                flags[x] = kind[0].upper() + flags.get(x, "")
                continue
            yield from _segment(x, y, count, count * scale, place)
            x += count * scale
    for at, names in flags.items():
        yield svg.element("line", class_="flag", x1=at, x2=at, y1=y - 2, y2=y + _BAR_HEIGHT)
        yield svg.text(at, y - 4, names, class_="flag-name")
    yield from _bracket(run, state, y + _BAR_HEIGHT, scale)


def _segment(x: float, y: float, count: int, width: float, place: str) -> Iterator[str]:
    width = max(width, _LEAST_WIDTH)
    x = min(x, BAR_AT + BAR_WIDTH - width)
    yield svg.element("rect", class_=f"place {place}", x=x, y=y, width=width, height=_BAR_HEIGHT)
    label = f"{count:,}"
    if width > svg.length(label, 13) + 4:
        yield svg.text(x + width / 2, y + 17, label, class_="count")


def _pieces(state: State) -> Iterator[tuple[str, list[tuple[int, str]]]]:
    """What stands in each place of the bar, the last to leave first: the bar reads in the direction of the data."""
    yield "permits", [(state.permits.rows, "chunk")] if state.permits.rows else []
    yield "wire", _messages(state.wire)
    yield "inbox", _messages(state.inbox)
    yield "unreturned", [(state.unreturned, "chunk")] if state.unreturned else []
    yield "grants", [(grant.rows, _kind_of(grant)) for grant in reversed(tuple(state.grants))]


def _messages(queue: Queue[Message]) -> list[tuple[int, str]]:
    return [(held(message).rows, message.kind) for message in reversed(tuple(queue))]


def _kind_of(grant: Permits) -> str:
    return "chunk" if grant.rows else "barrier" if grant.barriers else "watermark"


def _need(run: Run, state: State) -> tuple[str, str]:
    """What the next chunk needs, and how to say it."""
    if state.waiting.is_empty() or state.waiting.head().kind != "chunk":
        return "", ""
    is_short = false_guard("SendChunk", state, run.parameters) is not None
    return f"the next chunk needs {state.waiting.head().cost:,}", "bad-text" if is_short else "muted"


def _bracket(run: Run, state: State, y: float, scale: float) -> Iterator[str]:
    """As wide as what the next chunk needs: if it reaches beyond the sender's permits, the chunk waits."""
    note, class_ = _need(run, state)
    if note:
        end = BAR_AT + min(state.waiting.head().cost * scale, BAR_WIDTH)
        kind = "need short" if class_ == "bad-text" else "need"
        yield svg.element("path", class_=kind, d=f"M{BAR_AT + 1} {y + 2}v4H{end:.2f}v-4")


def _end(run: Run, y: float) -> tuple[list[str], float]:
    parts: list[str] = []
    for heading, items in _conclusions(run):
        parts.append(svg.text(_MARGIN, y + 14, heading, class_="heading"))
        y += 36
        for item in items:
            parts += svg.paragraph(_MARGIN + 16, y, item, width=130, leading=_LEADING, class_="")
            y += _LEADING * len(svg.lines(item, 130))
        y += 10
    return parts, y + 14


def _conclusions(run: Run) -> Iterator[tuple[str, list[str]]]:
    if run.verdict is Verdict.STUCK:
        actions = [action.name for action in SYSTEM.actions if not action.is_environment]
        refused = (false_guard(name, run.end, run.parameters) for name in actions)
        yield "Nothing can move any more", [f"{guard.action}: {guard.sentence}" for guard in refused if guard]
    for section in run.conclusions:
        yield section.heading, list(section.items)

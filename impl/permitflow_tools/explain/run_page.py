"""A run as a drawing, with a line for each step, and as a page to step through.

A page is one HTML file with everything in it.  Nothing is fetched, and the page forbids itself to.
"""

from collections.abc import Iterable, Iterator
from html import escape

from permitflow_tools.explain import svg
from permitflow_tools.explain.assets import asset, page
from permitflow_tools.explain.document import document_of, facts_list, facts_of
from permitflow_tools.explain.look import DRAWING_WIDTH, MARGIN, Document, call
from permitflow_tools.explain.run import ExplainedRun, RunOutcome, last_steps
from permitflow_tools.explain.surroundings import MOST_STATES, Surroundings

STYLES = ("palette.css", "page.css", "storyboard.css", "playground.css")
SCRIPTS = (
    *("drawing.js", "run.js", "explored.js", "frame.js", "scene.js", "timeline.js", "panels.js", "player.js"),
    *("playground.js", "start.js"),
)
"""A page of a run, or one to play with."""

# The drawing's measures, in pixels.
_ACTION_AT = 74
_ACTOR_AT = 226
_ROW_HEIGHT = 44
_LEADING = 20

# A longer run is drawn as its beginning and its end.
MOST_ROWS = 40
ROWS_AT_EACH_END = 15


def page_of(run: ExplainedRun, *, most_states: int = MOST_STATES) -> str:
    """The page of a run; of a very long one, of its end.

    ``most_states`` near the run are in the page too, so that its reader can take other steps; not of a recorded run.
    """
    shown = last_steps(run)
    return page(
        "run",
        STYLES,
        {
            "title": shown.title,
            "verdict": shown.verdict.value,
            "sentence": shown.sentence,
            "module": shown.look.specification.file,
            "footnote": shown.look.footnote,
            "given": "Back to the run",
            "address": "The address of a step is this page\u2019s address with #step= and its number.",
        },
        {
            "facts": facts_list(facts_of(shown)),
            "remarks": "\n".join(f'<p class="remark">{escape(remark)}</p>' for remark in shown.remarks),
            "knobs": "",
            "storyboard": storyboard(shown, standalone=False),
        },
        scripts=SCRIPTS,
        document={**document_of(shown), **_surroundings(shown, most_states)},
    )


def _surroundings(run: ExplainedRun, most_states: int) -> Document:
    if run.is_recorded or len(run.steps) >= most_states or not run.look.is_explorable(run.parameters):
        return {}
    surroundings = Surroundings(run.look)
    graph = surroundings.graph(run.parameters, run.start, run.steps, most=most_states)
    return {"tables": surroundings.document(), "graph": graph}


def storyboard(run: ExplainedRun, *, standalone: bool = True) -> str:
    """The drawing; one that does not stand alone takes its colours from the page around it."""
    parts: list[str] = []
    y = 40.0
    for draw in (_head, _legend, _rows, _end):
        drawn, y = draw(run, y)
        parts += drawn
    sheet = svg.element("rect", class_="sheet", width=DRAWING_WIDTH, height=y, rx=12)
    styles = [asset("palette.css"), asset("storyboard.css")] if standalone else []
    title = f"{run.title}. {run.sentence}"
    return svg.document([sheet, *parts], width=DRAWING_WIDTH, height=y, title=title, styles=styles, class_="story")


def _head(run: ExplainedRun, y: float) -> tuple[list[str], float]:
    is_bad = run.verdict in (RunOutcome.STUCK, RunOutcome.VIOLATED, RunOutcome.INVALID)
    facts = ", ".join(f"{name} {value}" for name, value, _ in facts_of(run))
    return head(run.verdict.value, run.title, run.sentence, [*run.remarks, facts], y, is_bad=is_bad)


def head(
    verdict: str, title: str, sentence: str, remarks: Iterable[str], y: float, *, is_bad: bool
) -> tuple[list[str], float]:
    """The head of a drawing, and where it ends."""
    badge = 26 + svg.length(verdict, 13)
    parts = [
        svg.element(
            "rect", class_="badge bad" if is_bad else "badge", x=MARGIN, y=y - 12, width=badge, height=22, rx=11
        ),
        svg.text(MARGIN + badge / 2, y + 4, verdict, class_="badge-text"),
    ]
    y += 42
    for content, width, leading, kind in (
        (title, 82, 28, "title"),
        (sentence, 125, 22, "sentence"),
        *((remark, 130, _LEADING, "muted") for remark in remarks),
    ):
        parts += svg.paragraph(MARGIN, y, content, width=width, leading=leading, class_=kind)
        y += leading * len(svg.lines(content, width)) + 4
    return parts, y + 8


def _legend(run: ExplainedRun, y: float) -> tuple[list[str], float]:
    parts = run.look.legend(run.parameters, y)
    return parts, y + 34 if parts else y


def _rows(run: ExplainedRun, y: float) -> tuple[list[str], float]:
    parts: list[str] = []
    rows = len(run.steps) + 1
    numbers: list[int | None] = [*range(rows)]
    if len(run.steps) >= MOST_ROWS:
        numbers[ROWS_AT_EACH_END : rows - ROWS_AT_EACH_END] = [None]
    for number in numbers:
        if number is None:
            told = f"{rows - 2 * ROWS_AT_EACH_END:,} steps are not drawn"
            parts.append(svg.text(_ACTION_AT, y + 16, told, class_="muted"))
        else:
            parts += _row(run, number, y)
        y += _ROW_HEIGHT
    return parts, y + 8


def _row(run: ExplainedRun, number: int, y: float) -> Iterator[str]:
    before = run.steps[number - 2].state if number > 1 else run.start
    state, action, actor = run.start, "the beginning", ""
    if number:
        step = run.steps[number - 1]
        state, action, actor = step.state, call(step.action, step.arguments), run.look.actor(step.action)
    yield svg.text(MARGIN + 28, y + 16, f"{run.skipped + number:,}", class_="muted right")
    yield svg.text(_ACTION_AT, y + 16, action, class_="action" if number else "muted")
    yield svg.text(_ACTOR_AT, y + 16, actor, class_="muted")
    yield from run.look.drawn(run.parameters, state, y)
    for line, (note, kind) in enumerate(run.look.notes(run.parameters, before, state)):
        yield svg.text(run.look.notes_at, y + 16 + 16 * line, note, class_=kind)


def _end(run: ExplainedRun, y: float) -> tuple[list[str], float]:
    parts: list[str] = []
    for heading, items in _conclusions(run):
        parts.append(svg.text(MARGIN, y + 14, heading, class_="heading"))
        y += 36
        for item in items:
            parts += svg.paragraph(MARGIN + 16, y, item, width=130, leading=_LEADING, class_="")
            y += _LEADING * len(svg.lines(item, 130))
        y += 10
    return parts, y + 14


def _conclusions(run: ExplainedRun) -> Iterator[tuple[str, list[str]]]:
    if run.verdict is RunOutcome.STUCK:
        refused = run.look.refusals(run.end, run.parameters)
        yield "Nothing can move any more", [f"{guard.action}: {guard.sentence}" for guard in refused]
    for section in run.conclusions:
        yield section.heading, list(section.items)

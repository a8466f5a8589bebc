"""Write what the explorer finds into documents: the README's film; the shortest counterexamples in docs/protocols, as
tables; and draw the packages of docs/concepts/architecture.md, and a mistake in the code that a proof refutes.
"""

from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from html import escape
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from permitflow.tracing import read_trace
from permitflow_model.exploration import explore_model, system_for
from permitflow_model.kernel.system import Step
from permitflow_model.manifest import Model, read_manifest
from permitflow_proofs.code.catalogue import catalogue
from permitflow_testing.traces import judge
from permitflow_tools.checking.deciding import answer_for
from permitflow_tools.cli.permits import run_of, setting_of
from permitflow_tools.explain import svg
from permitflow_tools.explain.assets import asset
from permitflow_tools.explain.look import BAR_AT, BAR_WIDTH, Look, call
from permitflow_tools.explain.looks.permit_channel.look import PLACES, ledger_of
from permitflow_tools.explain.looks.table import look_of
from permitflow_tools.explain.refutation import refutation
from permitflow_tools.explain.run import ExplainedRun
from tests.support.mutated_code import mistaken_code
from tools.marks import pasted
from tools.mutants import CHECKOUT, read_mutants

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "pictures"
FILM = "deadlock-film.svg"
_FILMED = (8, 3, 7)
"""Permits, batch and largest chunk of the README's film."""
_STEP_SECONDS, _END_SECONDS = 1.6, 4.0
_FILM_MARGIN, _FILM_WIDTH = 20, BAR_WIDTH + 40  # so narrow that its letters can be read on a telephone
_FILM_STYLE = ".story text, .story .action { font-size: 16px; }\n"

PAGES = FOLDER.parent / "protocols"
TABLES = {
    "demand.md": ("four-two.jsonl",),
    "optimistic.md": ("squelch-one-way", "drop-incoming-too-long", "conflate-adds-up"),
    "ports.md": ("ports-end-behind-an-element",),
    "loops.md": ("echo-one-more",),
    "lossy-channel.md": ("lossy-added-doubled", "lossy-added-lost", "lossy-old-limit"),
    "resume.md": ("resume-doubled", "resume-lost", "resume-stale-heard"),
    "adaptive-window.md": ("adaptive-window-exceeded",),
    "byte-window.md": ("byte-window-not-alone", "byte-window-withheld"),
    "stream-life.md": ("life-consumed-unheard", "life-end-then-error"),
    "bridge.md": ("bridge-error-after-all", "bridge-accepted-lost", "bridge-another-goes-on"),
    "hash-dispatch.md": ("hash-dispatch-others-have", "hash-dispatch-moves"),
    "store.md": ("store-owner-taken-over",),
    "kept-channel.md": ("kept-slowest", "kept-told", "named-late-write"),
    "staging.md": ("staging-older-run", "staging-one-by-one"),
    "mute.md": ("mute-set", "mute-unmute-lost", "mute-scheduler-helper"),
    "grpc-call.md": ("grpc-call-sent-twice", "grpc-call-last-lost", "grpc-call-two-threads"),
}
"""Runs that are tables in pages of docs/protocols: the shortest counterexample of a model, or a recording."""

REFUTED = "refuted.svg"
_CODE = ("code-permits-sender", "the oldest leaves", "barrier sent without a permit")
"""The drawing of a refuted claim: the theorem, the claim, and a mistake in the code (``code_mutants.toml``)."""

PACKAGES = "packages.svg"
_COLUMN, _LINE, _WIDTH, _HEIGHT = 196, 92, 176, 52
# Where each box stands, in columns and lines; a name, and what is in it.
BOXES: dict[str, tuple[float, float, str]] = {
    "permitflow_tools": (0.6, 0, "cli \u00b7 checking \u00b7 explain \u2026"),
    "permitflow_testing": (2.6, 0, "the kit, judges of runs"),
    "exchange": (0, 1.75, "channels, stores, servers"),
    "spark": (1.6, 1.75, "sources and sinks"),
    "client": (0.6, 2.75, "asyncio, blocking"),
    "stages": (2, 2.75, "kafka, reactive, mute"),
    "tracing": (3.05, 2.75, "recorded actions"),
    "carriers": (0, 3.75, "gRPC, TCP, same host"),
    "channels": (1.6, 3.75, "in a process; dispatch"),
    "wire": (0, 4.75, "messages as bytes"),
    "stream": (1.6, 4.75, "session, handshake"),
    "flows": (1.6, 5.75, "permits, gate, demand \u2026"),
}
IMPORTS = (
    *(("permitflow_tools", "permitflow_testing"), ("exchange", "client"), ("spark", "client"), ("spark", "stages")),
    *(
        ("spark", "tracing"),
        ("tracing", "flows"),
        ("stages", "channels"),
        ("stages", "carriers"),
        ("client", "channels"),
        ("client", "carriers"),
    ),
    *(("carriers", "wire"), ("wire", "stream"), ("channels", "stream"), ("stream", "flows")),
)
_STYLE = """
.packages { font: 13px system-ui, -apple-system, "Segoe UI", Roboto, "Noto Sans", "DejaVu Sans", sans-serif; }
.packages .sheet { fill: var(--card); }
.packages .frame { fill: none; stroke: var(--line); stroke-width: 1.5; }
.packages .box { fill: var(--track); stroke: var(--muted); }
.packages text { fill: var(--ink); text-anchor: middle; }
.packages .name { font-weight: 650; }
.packages .muted { fill: var(--muted); font-size: 12px; }
.packages .arrow { stroke: var(--muted); stroke-width: 1.5; fill: none; marker-end: url(#tip); }
.packages marker path { fill: var(--muted); }
"""


def packages() -> str:
    """Who imports whom: an arrow leads to what is imported."""
    width, height = 4 * _COLUMN + 56, int(6.75 * _LINE) + 10
    parts = [
        svg.element("rect", class_="sheet", width=width, height=height, rx=12),
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="8" markerHeight="8" orient="auto">'
        '<path d="M0 0L8 4L0 8z"/></marker></defs>',
        svg.element(
            "rect", class_="frame", x=14, y=1.45 * _LINE, width=width - 28, height=height - 1.45 * _LINE - 14, rx=10
        ),
        svg.text(width - 80, 1.45 * _LINE + 24, "permitflow", class_="name"),
    ]
    for name in ("permitflow_tools", "permitflow_testing"):
        x, y = _middle(name)
        parts.append(_arrow((x, y + _HEIGHT / 2), (x, 1.45 * _LINE)))
    parts += [_arrow(*_between(_middle(importer), _middle(imported))) for importer, imported in IMPORTS]
    for name, (_, _, content) in BOXES.items():
        x, y = _middle(name)
        box = {"x": x - _WIDTH / 2, "y": y - _HEIGHT / 2, "width": _WIDTH, "height": _HEIGHT, "rx": 8}
        parts += [
            svg.element("rect", class_="box", **box),
            svg.text(x, y - 4, escape(name), class_="name"),
            svg.text(x, y + 15, content, class_="muted"),
        ]
    title = "The packages: an arrow leads from each to what it imports"
    return svg.document(
        parts, width=width, height=height, title=title, styles=[asset("palette.css"), _STYLE], class_="packages"
    )


def _middle(name: str) -> tuple[float, float]:
    column, line, _ = BOXES[name]
    return 28 + _WIDTH / 2 + column * _COLUMN, 14 + _HEIGHT / 2 + line * _LINE


def _between(start: tuple[float, float], end: tuple[float, float]) -> tuple[tuple[float, float], tuple[float, float]]:
    """From the rim of one box to the rim of another, both of one size."""
    (x1, y1), (x2, y2) = start, end
    if y1 == y2:
        return (x1 + _WIDTH / 2, y1), (x2 - _WIDTH / 2, y2)
    shift = max(-_WIDTH / 3, min(_WIDTH / 3, (x2 - x1) / 3))
    return (x1 + shift, y1 + _HEIGHT / 2), (x2 - shift, y2 - _HEIGHT / 2)


def _arrow(start: tuple[float, float], end: tuple[float, float]) -> str:
    (x1, y1), (x2, y2) = start, end
    return svg.element("path", class_="arrow", d=f"M{x1:.1f} {y1:.1f}L{x2:.1f} {y2:.1f}")


def counterexample(model: Model) -> str:
    """The shortest run into what the model is expected to violate, as a table."""
    (violation,) = explore_model(model).graph.violations
    return table_of(look_of(system_for(model).module), violation.start, violation.steps)


def recording(file: Path) -> str:
    """The run of the only channel of a recording, as a table."""
    (channel,) = read_trace(file).channels.values()
    verdict = judge(channel, keep_path=True)
    subject, path = verdict.subject, verdict.world.path
    assert path is not None
    start = subject.explanation(subject.parameters(channel), channel.ends, True).start().state
    return table_of(look_of(subject.system.module), start, path.steps())


def table_of(look: Look, before: Any, steps: Iterable[Step[Any]]) -> str:
    """A run in Markdown, a line for each step."""
    lines = ["| | Action | By | What changes |", "|---|---|---|---|"]
    for number, step in enumerate(steps, start=1):
        changes = look.changes(before, step.state).replace("|", "\\|")
        lines.append(f"| {number} | `{step.call}` | {look.actor(step.action)} | {changes} |")
        before = step.state
    return "\n".join(lines) + "\n"


def with_tables(page: str) -> str:
    """The page's text, with the tables as they are now."""
    models, text = read_manifest(), (PAGES / page).read_text(encoding="utf-8")
    for name in TABLES[page]:
        table = counterexample(models[name]) if name in models else recording(FOLDER.parent / "examples" / name)
        text = pasted(text, f"run of {name}", table)
    return text


def film() -> str:
    """The smallest deadlock that shows why batches matter: one state after the other, again and again.

    A reader who asked for less motion, or whose viewer has none, sees the last state.
    """
    permits, batch, largest = _FILMED
    run = run_of(answer_for(setting_of(permits, batch, largest, None, flush_idle=False)), with_barriers=False)
    last = len(run.steps)
    seconds = _STEP_SECONDS * (last + 1) + _END_SECONDS
    styles = [asset("palette.css"), asset("storyboard.css"), _FILM_STYLE]
    title = f"{permits} permits, batches of {batch}, chunks of up to {largest} rows"
    parts = [svg.text(_FILM_MARGIN, 32, title, class_="strong")]
    for number in range(last + 1):
        begin = 100 * number * _STEP_SECONDS / seconds
        end = 100 * (number + 1) * _STEP_SECONDS / seconds if number < last else 100
        styles.append(
            f".story .scene-{number} {{ animation: scene-{number} {seconds:.1f}s step-end infinite; "
            f"visibility: {'visible' if number == last else 'hidden'}; }}\n"
            f"@keyframes scene-{number} {{ 0% {{ visibility: {'hidden' if number else 'visible'}; }} "
            f"{begin:.2f}% {{ visibility: visible; }} {end:.2f}% {{ visibility: hidden; }} }}\n"
        )
        parts.append(svg.element("g", *_scene(run, number), class_=f"scene scene-{number}"))
    styles.append("@media (prefers-reduced-motion: reduce) { .story .scene { animation: none; } }\n")
    ledgers = [ledger_of(state) for state in (run.start, *(step.state for step in run.steps))]
    used = [place for place in PLACES if any(getattr(ledger, place).rows for ledger in ledgers)]
    for number, place in enumerate(used):
        x, y = _FILM_MARGIN + number % 2 * _FILM_WIDTH / 2, 226 + number // 2 * 26
        parts.append(svg.element("rect", class_=f"place {place}", x=x, y=y, width=14, height=14, rx=3))
        parts.append(svg.text(x + 22, y + 13, PLACES[place], class_="muted"))
    size = {"width": _FILM_WIDTH, "height": 286}
    sheet = svg.element("rect", class_="sheet", rx=12, **size)
    return svg.document([sheet, *parts], **size, title=f"{run.title}. {run.sentence}", styles=styles, class_="story")


def _scene(run: ExplainedRun, number: int) -> Iterator[str]:
    """A state: the action that led to it, all permits, and what there is to say."""
    before, state = run.start, run.start
    if number:
        step, state = run.steps[number - 1], run.steps[number - 1].state
        before = run.steps[number - 2].state if number > 1 else run.start
        yield svg.text(_FILM_MARGIN, 70, f"{number}. {call(step.action, step.arguments)}", class_="action")
        yield svg.text(_FILM_WIDTH - _FILM_MARGIN, 70, run.look.actor(step.action), class_="muted right")
    at = f"translate({_FILM_MARGIN - BAR_AT} 0)"
    yield svg.element("g", *run.look.drawn(run.parameters, state, 88), transform=at)
    notes = run.look.notes(run.parameters, before, state)
    if number == len(run.steps):
        notes = [(line, "bad-text") for line in svg.lines(run.sentence, 46)]
    for line, (note, kind) in enumerate(notes):
        yield svg.text(_FILM_MARGIN, 140 + 23 * line, note, class_=kind)


def refuted() -> str:
    """What `permitflow prove --code --picture` draws, with a mistake in the code.

    In a process of its own: which values the solver finds depends on what it was asked before.
    """
    with ProcessPoolExecutor(1, get_context("spawn")) as fresh:
        return fresh.submit(_refuted).result()


def _refuted() -> str:
    name, words, mistake = _CODE
    (theorem,) = (each for each in catalogue() if each.id == name)
    (claim,) = (each for each in theorem.obligations if each.name == words)
    (mutant,) = (each for each in read_mutants(CHECKOUT / "tests/mutants/code_mutants.toml") if each.name == mistake)
    with mistaken_code(mutant):
        found = claim.examine().counterexample
    assert found is not None
    return refutation(look_of(theorem.module), f"{name}: {words}", found.values, found.told)


def main() -> None:
    (FOLDER / FILM).write_text(film(), encoding="utf-8")
    (FOLDER / REFUTED).write_text(refuted(), encoding="utf-8")
    (FOLDER / PACKAGES).write_text(packages(), encoding="utf-8")
    for page in TABLES:
        (PAGES / page).write_text(with_tables(page), encoding="utf-8")


if __name__ == "__main__":
    main()

"""A graph of stages as a page: drawn, with the stages that wait for each other in red, and the run to step through.

Graphviz draws the graph; where it is not installed, the page has the table of the stages alone.
"""

import json
from collections.abc import Iterator
from html import escape
from typing import NamedTuple

from permitflow.stages.blueprint import (
    BlockingClientNode,
    Blueprint,
    BoundaryNode,
    BufferNode,
    ChannelNode,
    Node,
    SourceNode,
    StageNode,
    UnboundedNode,
)
from permitflow.stages.core.drop_queue import Overflow
from permitflow_tools.checking import GraphVerdict
from permitflow_tools.explain import dot, svg
from permitflow_tools.explain.assets import asset, page
from permitflow_tools.explain.look import Document

_STYLES = ("palette.css", "page.css", "blueprint_drawing.css", "blueprint.css")
_SCRIPTS = ("drawing.js", "timeline.js", "player.js", "blueprint.js")
_DOT_STYLE = (
    "nodesep=0.3; ranksep=0.65; bgcolor=transparent;",
    'node [shape=box, style="rounded,filled", fontsize=13, fontname="sans-serif", margin="0.16,0.08"];',
    'edge [arrowsize=0.7, fontsize=11, fontname="sans-serif"];',
)
_RING_HEADINGS = {
    "deadlock": "These stages wait for each other",
    "starves": "Who is never served",
    "never completes": "Why it never ends",
}
_IN_RED = {
    "deadlock": "waits in the ring",
    "starves": "is never served",
    "never completes": "waits for an end that never comes",
}
_AT_THE_END = {
    "deadlock": "From here on the stages in red wait for ever.",
    "starves": "It may go on like this for ever, and what is in red is never served.",
    "never completes": "Elements may still flow, but the end for which the stages in red wait never comes.",
}
_MARGIN, _HEAD, _LEAST_WIDTH, _LEAST_SCALE = 28, 104, 640.0, 0.7


class JudgedGraph(NamedTuple):
    """A graph of stages with the verdict on it."""

    title: str
    blueprint: Blueprint
    found: GraphVerdict


def blueprint_page(graph: JudgedGraph) -> str:
    """The page."""
    title, blueprint, found = graph
    drawings = [_laid_out(blueprint, found, direction) for direction in ("LR", "TB")]
    is_wrong = bool(found.ring)
    return page(
        "blueprint",
        _STYLES,
        {
            "title": title,
            "verdict": found.verdict,
            "badge": "stuck" if is_wrong else "open" if found.verdict == "unknown" else "live",
            "sentence": _sentence(blueprint, found),
            "given": "Back to the run",
        },
        {
            "facts": _facts(blueprint, found),
            "drawings": "\n".join(
                _framed(drawing, name) for drawing, name in zip(drawings, ("wide", "narrow"), strict=True)
            ),
            "legend": _legend(found) if drawings[0] else "",
            "argument": _argument(found),
            "rows": "".join(_rows(blueprint, found)),
        },
        scripts=_SCRIPTS,
        document=_document(blueprint, found, "stuck" if is_wrong else "live"),
    )


def blueprint_drawing(graph: JudgedGraph) -> str:
    """The drawing as a file of its own: the last state of the run.

    Raises:
        ModuleNotFoundError: Graphviz is not installed.
    """
    title, blueprint, found = graph
    drawing = _laid_out(blueprint, found, "LR")
    if drawing is None:
        raise ModuleNotFoundError(f"a drawing of a graph {dot.MISSING}")
    width, height = dot.size_of(drawing)
    left, width = (max(width, _LEAST_WIDTH) - width) / 2, max(width, _LEAST_WIDTH)
    lines = svg.lines(f"{found.verdict}: {found.reason}", round(width / 7))
    head = _HEAD + 20 * (len(lines) - 1)
    return svg.document(
        [
            svg.element("rect", class_="sheet", width=width, height=head + height, rx=12),
            svg.text(_MARGIN, 36, title, class_="title"),
            *(svg.text(_MARGIN, 64 + 20 * number, line) for number, line in enumerate(lines)),
            drawing.replace("<svg", f'<svg x="{left:.0f}" y="{head}"', 1),
        ],
        width=width,
        height=head + height,
        title=f"{title}. {found.verdict}: {found.reason}",
        styles=[asset("palette.css"), asset("blueprint_drawing.css")],
        class_="blueprint at-end",
    )


def kind_in_words(node: Node) -> str:
    """What a stage is, with its numbers."""
    match node:
        case SourceNode(elements):
            return "source, endless" if elements is None else f"source of {elements:,}"
        case StageNode(takes, (least, most)):
            gives = f"{least:,}" if least == most else f"{least:,} to {'any' if most is None else f'{most:,}'}"
            return f"takes {takes:,}, gives {gives}"
        case BufferNode(capacity, overflow):
            drops = "" if overflow is Overflow.BLOCK else f", {overflow.value.replace('_', ' ')}"
            return f"buffer of {capacity:,}{drops}"
        case UnboundedNode(alarm):
            return "unbounded" if alarm is None else f"unbounded, alarm at {alarm:,}"
        case BoundaryNode(prefetch):
            return f"boundary, prefetch {prefetch:,}"
        case ChannelNode(window, batch):
            return f"channel, window {window:,}, batch {batch:,}"
        case BlockingClientNode(writes, receive_buffer):
            return f"writes {writes:,}, then reads; receives {receive_buffer:,}"
    return node.kind.replace("_", " ")


def _laid_out(blueprint: Blueprint, found: GraphVerdict, direction: str) -> str | None:
    content = [*_DOT_STYLE, *_nodes(blueprint, found, direction), *_edges(blueprint, found, direction)]
    arcs = ", ".join(f"{arc.producer} to {arc.consumer}" for arc in blueprint.arcs)
    language = "\n".join(["digraph {", f"rankdir={direction};", *content, "}"])
    return dot.drawn(language, "blueprint at-end", f"Arcs: {arcs}")  # it shows the last state, until a script steps


def _nodes(blueprint: Blueprint, found: GraphVerdict, direction: str) -> Iterator[str]:
    ring = {each.stage for each in found.ring}
    for number, (name, node) in enumerate(blueprint.stages.items()):
        holds = _held(found, -1, number)
        attributes = {
            "id": f"{direction}-stage-{number}",
            "class": f"{node.kind}{' ring' if name in ring else ''}",
            "label": "\n".join([name, kind_in_words(node), *([holds] if found.run else [])]),
        }
        yield f"{json.dumps(name)} [{dot.listed(attributes)}]"


def _held(found: GraphVerdict, state: int, stage: int) -> str:
    count = found.run[state].held[stage] if found.run else 0
    return f"holds {count:,}" if count else "holds none"


def _edges(blueprint: Blueprint, found: GraphVerdict, direction: str) -> Iterator[str]:
    waits = {(each.stage, each.on) for each in found.ring}
    for number, arc in enumerate(blueprint.arcs):
        ends = (arc.producer, arc.consumer)
        attributes = {
            "id": f"{direction}-arc-{number}",
            "class": "ring" if ends in waits or ends[::-1] in waits else "",
            "tooltip": str(arc),
        }
        yield f"{json.dumps(arc.producer)} -> {json.dumps(arc.consumer)} [{dot.listed(attributes)}]"


def _framed(drawing: str | None, name: str) -> str:
    if drawing is None:
        return ""
    # Text stays readable: a wider one is scrolled.
    width, _ = dot.size_of(drawing)
    drawing = drawing.replace("<svg", f'<svg style="min-width: {_LEAST_SCALE * width:.0f}px"', 1)
    label = "The graph of the stages"
    return f'<div class="blueprint-scroll {name}" tabindex="0" role="group" aria-label="{label}">{drawing}</div>'


def _sentence(blueprint: Blueprint, found: GraphVerdict) -> str:
    """The reason; of a ring only its length, because it is told stage by stage below."""
    if found.verdict == "deadlock":
        stages = "a stage that waits" if len(found.ring) == 1 else f"a ring of {len(found.ring):,} stages that wait"
        return f"It can come to {stages} for each other for ever."
    begins_with_a_stage = found.reason.partition(" ")[0] in blueprint.stages
    first = found.reason[:1] if begins_with_a_stage else found.reason[:1].upper()
    return f"{first}{found.reason[1:]}."


def _facts(blueprint: Blueprint, found: GraphVerdict) -> str:
    facts = {"stages": f"{len(blueprint.stages):,}", "arcs": f"{len(blueprint.arcs):,}"}
    if found.explored:
        facts["states at rest, explored"] = f"{found.explored:,}"
    if len(found.run) > 1:
        facts["steps of a shortest run" if found.is_shortest else "steps of the run"] = f"{found.steps:,}"
        if len(found.run) <= found.steps:
            facts["steps shown"] = f"{len(found.run) - 1:,}"
    return "".join(f"<div><dt>{escape(name)}</dt><dd>{value}</dd></div>" for name, value in facts.items())


def _legend(found: GraphVerdict) -> str:
    told = []
    if found.run:
        occurring = {what for step in found.run for what in step.arcs}
        told += [(what, text) for what, text in _TOLD.items() if what in occurring]
    if found.ring:
        told.append(("ring", _IN_RED.get(found.verdict, "waits")))
    items = (
        f'<li><svg class="blueprint" width="20" height="18" aria-hidden="true">{_sample(kind)}</svg>{text}</li>'
        for kind, text in told
    )
    return f'<ul class="legend">{"".join(items)}</ul>' if told else ""


def _sample(kind: str) -> str:
    if kind == "ring":
        return '<g class="node ring"><rect x="2" y="3" width="16" height="12" rx="3"/></g>'
    return f'<g class="token {kind}" transform="translate(10 9)">{_TOKENS[kind]}</g>'


_TOLD = {"element": "an element", "ask": "an ask for one", "end": "the end"}
_TOKENS = {
    "element": '<circle r="6"/>',
    "ask": '<path d="M-6 0L4 -6V6z"/>',
    "end": '<path d="M-2 -7H2V7H-2z"/>',
}


def _argument(found: GraphVerdict) -> str:
    parts = []
    if found.ring:
        items = "".join(
            f"<li><b>{escape(each.stage)}</b> waits for <b>{escape(each.on)}</b>: {escape(each.why)}</li>"
            for each in found.ring
        )
        parts.append(f'<h2>{_RING_HEADINGS.get(found.verdict, "Who waits")}</h2><ul class="waits">{items}</ul>')
    if found.advice:
        items = "".join(f"<li>{escape(each)}</li>" for each in found.advice)
        parts.append(f"<h2>What would help{', each alone' if len(found.advice) > 1 else ''}</h2><ul>{items}</ul>")
    if not parts:
        parts.append(f"<h2>Why</h2><p>{escape(found.reason)}</p>")
    if found.notes:
        parts.append(f"<h2>What to know</h2><ul>{''.join(f'<li>{escape(note)}</li>' for note in found.notes)}</ul>")
    return "".join(parts)


def _rows(blueprint: Blueprint, found: GraphVerdict) -> Iterator[str]:
    ring = {each.stage: each for each in found.ring}
    for number, (name, node) in enumerate(blueprint.stages.items()):
        leads = ", ".join(arc.consumer for arc in blueprint.out_of(name)) or "\u2013"
        count = f"{found.run[-1].held[number]:,}" if found.run else "\u2013"
        kind = ' class="ring"' if name in ring else ""
        yield (
            f'<tr id="row-{number}"{kind}><th scope="row">{escape(name)}</th><td>{escape(kind_in_words(node))}</td>'
            f'<td>{escape(leads)}</td><td class="number">{count}</td></tr>'
        )


def _document(blueprint: Blueprint, found: GraphVerdict, verdict: str) -> Document:
    names = list(blueprint.stages)
    return {
        "verdict": verdict,
        "atTheEnd": _AT_THE_END.get(found.verdict, ""),
        "stages": names,
        "ring": [names.index(each.stage) for each in found.ring],
        "tokens": _TOKENS,
        "steps": [[names.index(step.stage) if step.stage else -1, step.text] for step in found.run],
        "held": [step.held for step in found.run],
        "arcs": [step.arcs for step in found.run],
    }

"""Pages: one HTML file each, with everything in it.  Nothing is fetched, and the page forbids itself to."""

from collections.abc import Iterable
from html import escape
from string import Template

from permitflow.pictures.assets import asset
from permitflow.pictures.document import Document, Fact, document_of, embedded, facts_of
from permitflow.pictures.run import Run, last_steps
from permitflow.pictures.specification import Specification
from permitflow.pictures.storyboard import storyboard
from permitflow_model.permit_channel import SYSTEM

__all__ = ["facts_list", "page_of", "script_of"]

_STYLES = ("palette.css", "page.css", "storyboard.css")
_SCRIPTS = ("drawing.js", "run.js", "frame.js", "scene.js", "timeline.js", "panels.js", "player.js")


def page_of(run: Run) -> str:
    """The page of a run; of a very long one, of its end."""
    shown = last_steps(run)
    document: Document = document_of(shown)
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


def script_of(names: tuple[str, ...]) -> str:
    """Scripts as one, whose names nobody else sees."""
    return '(() => {\n"use strict";\n' + "\n".join(map(asset, names)) + "})();"


def facts_list(facts: Iterable[Fact]) -> str:
    """Parameters as the items of a list; the specification's words on each as a hint."""
    return "".join(
        f'<div title="{escape(fact.remark)}"><dt>{escape(fact.name)}</dt><dd>{escape(fact.value)}</dd></div>'
        for fact in facts
    )

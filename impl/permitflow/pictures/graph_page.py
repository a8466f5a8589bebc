"""The page of a state graph: the drawing, and what holds in the state that was chosen."""

from html import escape
from string import Template

from permitflow.pictures.assets import asset
from permitflow.pictures.document import Document, embedded, parameter_facts
from permitflow.pictures.graph_drawing import actions_of, graph_drawing, graph_legend, graph_title
from permitflow.pictures.guards import false_guard
from permitflow.pictures.layers import columns_of
from permitflow.pictures.ledger import PLACES, ledger_of
from permitflow.pictures.page import facts_list, script_of
from permitflow.pictures.specification import Specification
from permitflow.pictures.state_graph import StateGraph
from permitflow.pictures.values import variables_of
from permitflow_model.permit_channel import SYSTEM

__all__ = ["graph_document", "graph_page", "graph_sentence"]

_STYLES = ("palette.css", "page.css", "graph_drawing.css", "graph_page.css")
_SCRIPTS = ("drawing.js", "graph.js")
# Chunks are anonymous in a bounded graph: their numbers say nothing.
_NUMBERS_OF_CHUNKS = ("offered", "consumed")


def graph_page(graph: StateGraph) -> str:
    """The page of a state graph."""
    return Template(asset("graph.html")).substitute(
        title=escape(graph_title(graph)),
        verdict="stuck" if graph.stuck else "live",
        sentence=escape(graph_sentence(graph)),
        facts=facts_list(parameter_facts(graph.parameters)),
        style="".join(map(asset, _STYLES)),
        legend=graph_legend(graph),
        drawing=graph_drawing(graph, standalone=False),
        module=escape(Specification(SYSTEM.module).file),
        graph=embedded(graph_document(graph)),
        script=script_of(_SCRIPTS),
    )


def graph_sentence(graph: StateGraph) -> str:
    """How many states and steps there are, and what becomes of them."""
    size = f"{len(graph.states):,} states and {len(graph.edges):,} steps"
    if not graph.stuck:
        return f"{size}: from each state on, whoever waits can still be served."
    nearest = min(graph.depths[state] for state in graph.stuck)
    if len(graph.stuck) == 1:
        return f"{size}: 1 state is stuck (red), {nearest:,} steps from the beginning."
    return f"{size}: {len(graph.stuck):,} states are stuck (red), the nearest {nearest:,} steps from the beginning."


def graph_document(graph: StateGraph) -> Document:
    """Everything that the page shows beside the drawing."""
    names = actions_of(graph)
    variables = [name for name in variables_of(graph.states[0]) if name not in _NUMBERS_OF_CHUNKS]
    return {
        "buf": graph.parameters.row_count,
        "places": PLACES,
        "actions": names,
        "variables": variables,
        "states": [[variables_of(state)[name] for name in variables] for state in graph.states],
        "ledger": [ledger_of(state).of_class("rows") for state in graph.states],
        "edges": [
            [edge.source, names.index(edge.action), ", ".join(map(str, edge.arguments)), edge.target]
            for edge in graph.edges
        ],
        "arrivals": graph.arrivals,
        "depths": graph.depths,
        "columns": columns_of(graph),
        "stuck": sorted(graph.stuck),
        "reasons": {state: _reasons(graph, state) for state in sorted(graph.stuck)},
    }


def _reasons(graph: StateGraph, state: int) -> list[tuple[str, str]]:
    names = [action.name for action in SYSTEM.actions if not action.is_environment]
    guards = (false_guard(name, graph.states[state], graph.parameters) for name in names)
    return [(guard.action, guard.sentence) for guard in guards if guard]

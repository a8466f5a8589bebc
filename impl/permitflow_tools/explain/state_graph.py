"""All states and steps of a small channel: as a drawing, and as a page that shows a chosen state.

Each depth is a column.  Graphviz lays the drawing out; where it is not installed, a page lists the states.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from html import escape
from typing import Any

from permitflow.errors import counted
from permitflow_model.kernel.explore import explore
from permitflow_model.kernel.system import shown
from permitflow_tools.explain import dot, svg
from permitflow_tools.explain.assets import asset, page
from permitflow_tools.explain.document import facts_list
from permitflow_tools.explain.look import Document, Look, call

MOST_STATES = 500
"""A larger picture is unreadable."""

MOST_LABELS = 70
"""Labels would cover each other if there were more edges; a page tells the steps of the chosen state."""

# Measures of a drawing of its own, in pixels.
_MARGIN = 28
_HEAD = 96
_LEAST_WIDTH = 760.0

_DOT_STYLE = (
    "rankdir=LR; nodesep=0.14; ranksep=0.7; bgcolor=transparent;",
    'node [shape=circle, style=filled, fixedsize=true, width=0.34, fontsize=11, fontname="sans-serif"];',
    'edge [fontsize=11, fontname="sans-serif", arrowsize=0.6];',
)

_SERIES = 6
"""Colours of actions, in the palette."""


@dataclass(frozen=True)
class StateEdge:
    """A step."""

    source: int
    action: str
    arguments: tuple[int, ...]
    target: int

    @property
    def label(self) -> str:
        """The action with its arguments."""
        return call(self.action, self.arguments)


@dataclass(frozen=True)
class StateGraph:
    """States are numbered in the order in which breadth-first search met them; 0 is the beginning."""

    look: Look
    parameters: Any
    states: Sequence[Any]
    edges: Sequence[StateEdge]
    """In the order of their sources."""
    stuck: frozenset[int]
    """States in which a message waits for ever."""
    arrivals: Sequence[int]
    """For each state, the last edge of a shortest path to it; -1 for the first state."""
    depths: Sequence[int]
    """For each state, the number of steps of a shortest path to it."""
    verdict: str
    remark: str = ""
    """What is to be said beside the number of stuck states."""


def reachable(look: Look, parameters: Any, *, most: int = MOST_STATES) -> StateGraph:
    """Find all states.

    Raises:
        StateLimitReached: there are more than ``most``.
    """
    system = look.system
    states = explore(system, parameters, invariants={}, max_states=most).states
    numbers = {state: number for number, state in enumerate(states)}
    edges = [
        StateEdge(source, step.action, step.arguments, numbers[step.state])
        for source, state in enumerate(states)
        for step in system.successors(state, parameters)
    ]
    arrivals = [-1] * len(states)
    depths = [0] * len(states)
    # Edges come in the order of their sources, so the first to reach a state ends a shortest path.
    for number, edge in enumerate(edges):
        if edge.target and arrivals[edge.target] < 0:
            arrivals[edge.target] = number
            depths[edge.target] = depths[edge.source] + 1
    stuck = frozenset(number for number, state in enumerate(states) if look.is_stuck(state, parameters))
    return StateGraph(look, parameters, states, edges, stuck, arrivals, depths, "stuck" if stuck else "live")


def columns_of(graph: StateGraph) -> list[list[int]]:
    """States by depth."""
    columns: list[list[int]] = [[] for _ in range(max(graph.depths) + 1)]
    for state, depth in enumerate(graph.depths):
        columns[depth].append(state)
    return columns


def graph_drawing(graph: StateGraph) -> str:
    """The drawing as a file of its own, with a title and the meaning of the colours.

    Raises:
        ModuleNotFoundError: Graphviz is not installed, or cannot draw so many steps.
    """
    drawn = dot.drawn(dot_of(graph), "graph", graph_title(graph))
    if drawn is None:
        raise ModuleNotFoundError(f"a drawing of a state graph {dot.MISSING}")
    title = graph_title(graph)
    width, height = dot.size_of(drawn)
    left, width = (max(width, _LEAST_WIDTH) - width) / 2, max(width, _LEAST_WIDTH)
    return svg.document(
        [
            svg.element("rect", class_="sheet", width=width, height=_HEAD + height, rx=12),
            svg.text(_MARGIN, 34, title, class_="title"),
            *_legend(graph),
            drawn.replace("<svg", f'<svg x="{left:.0f}" y="{_HEAD}"', 1),
        ],
        width=width,
        height=_HEAD + height,
        title=title,
        styles=[asset("palette.css"), asset("graph_drawing.css")],
        class_="graph",
    )


def dot_of(graph: StateGraph) -> str:
    """The graph in the language of Graphviz, with a column for each depth; state n is element ``state-n``."""
    return "\n".join(["digraph {", *_DOT_STYLE, *_nodes(graph), *_edges(graph), "}"])


def _nodes(graph: StateGraph) -> Iterator[str]:
    for number, state in enumerate(graph.states):
        kinds = ["stuck" if number in graph.stuck else "", "start" if number == 0 else ""]
        label, share = graph.look.node(number, state, graph.parameters)
        attributes = {
            "id": f"state-{number}",
            "class": " ".join(filter(None, kinds)),
            "label": label,
            "tooltip": graph.look.in_brief(state),
            "fillcolor": f"#000000{round(255 * _opacity(share)):02x}",
        }
        yield f"{number} [{dot.listed(attributes)}]"
    for states in columns_of(graph):
        yield f"{{rank=same {' '.join(map(str, states))}}}"


def _edges(graph: StateGraph) -> Iterator[str]:
    are_told = len(graph.edges) <= MOST_LABELS
    for number, edge in enumerate(graph.edges):
        attributes = {
            "id": f"edge-{number}",
            "class": _edge_class(graph, edge.action),
            "label": edge.label if are_told else "",
            "tooltip": edge.label,
            # Ways back must not move their sources.
            "constraint": "true" if graph.depths[edge.target] > graph.depths[edge.source] else "false",
        }
        yield f"{edge.source} -> {edge.target} [{dot.listed(attributes)}]"


def _graph_list(graph: StateGraph) -> str:
    """The states by depth, where there is no Graphviz."""
    rows = []
    for depth, states in enumerate(columns_of(graph)):
        items = "".join(
            f'<button type="button" id="state-{number}" class="{"stuck" if number in graph.stuck else ""}" '
            f'title="{escape(graph.look.in_brief(graph.states[number]))}">{number:,}</button>'
            for number in states
        )
        rows.append(f'<tr><th scope="row">{depth:,}</th><td>{items}</td></tr>')
    return (
        "<p>The states by the number of steps from the beginning. With the program <code>dot</code> of Graphviz this "
        f'page has a drawing instead.</p>\n<table class="graph states"><tbody>{"".join(rows)}</tbody></table>'
    )


def graph_title(graph: StateGraph) -> str:
    """The drawing's title, in one line."""
    return f"All {len(graph.states):,} states of {graph.look.in_numbers(graph.parameters)}"


def _legend(graph: StateGraph) -> Iterator[str]:
    x, y = float(_MARGIN), 58.0
    for content, kind, share in node_legend(graph):
        yield svg.element("g", _circle(x + 8, y - 4, 8, share), class_=kind)
        yield svg.text(x + 24, y, content, class_="muted")
        x += 40 + svg.length(content, 13) * 0.9
    x, y = float(_MARGIN), 84.0
    for name in actions_of(graph):
        yield svg.element("g", svg.element("path", d=f"M{x} {y - 4}h16"), class_=f"edge {_edge_class(graph, name)}")
        yield svg.text(x + 24, y, name, class_="muted")
        x += 40 + svg.length(name, 13) * 0.9


def graph_legend(graph: StateGraph) -> str:
    """The legend of the colours, for a page."""
    samples = [
        (svg.element("g", _circle(10, 9, 7.5, share), class_=kind), content)
        for content, kind, share in node_legend(graph)
    ]
    samples += [
        (svg.element("g", svg.element("path", d="M0 9h20"), class_=f"edge {_edge_class(graph, n)}"), n)
        for n in actions_of(graph)
    ]
    items = (
        f'<li><svg class="graph" width="20" height="18" aria-hidden="true">{sample}</svg>{escape(content)}</li>'
        for sample, content in samples
    )
    return f'<ul class="legend">{"".join(items)}</ul>'


def node_legend(graph: StateGraph) -> list[tuple[str, str, float]]:
    """Kinds of states: in words, as a class, and how full they are drawn."""
    kinds = graph.look.node_kinds(graph.parameters)
    return [*kinds, ("stuck", "node stuck", 0.0)] if graph.stuck else kinds


def actions_of(graph: StateGraph) -> list[str]:
    """Actions that occur in a graph."""
    return list(dict.fromkeys(edge.action for edge in graph.edges))


def _edge_class(graph: StateGraph, action: str) -> str:
    """A class by the action's name, for looks that have a colour for it, and by its number for the others."""
    return f"{action} series-{actions_of(graph).index(action) % _SERIES + 1}"


def _circle(x: float, y: float, radius: float, share: float) -> str:
    return svg.element("ellipse", cx=x, cy=y, rx=radius, ry=radius, fill_opacity=_opacity(share))


def _opacity(share: float) -> float:
    return 0.1 + 0.9 * share


_STYLES = ("palette.css", "page.css", "graph_drawing.css", "graph_page.css")
_SCRIPTS = ("drawing.js", "graph.js")
# Messages are anonymous in a bounded graph: their numbers say nothing.
_NUMBERS_OF_MESSAGES = ("offered", "consumed")


def graph_page(graph: StateGraph) -> str:
    """The page of a state graph."""
    return page(
        "graph",
        _STYLES,
        {
            "title": graph_title(graph),
            "verdict": graph.verdict,
            "sentence": graph_sentence(graph),
            "module": graph.look.specification.file,
            "footnote": graph.look.of_a_node,
        },
        {
            "facts": facts_list(graph.look.facts(graph.parameters)),
            "legend": graph_legend(graph),
            "drawing": dot.drawn(dot_of(graph), "graph", graph_title(graph)) or _graph_list(graph),
        },
        scripts=_SCRIPTS,
        document=graph_document(graph),
    )


def graph_sentence(graph: StateGraph) -> str:
    """The numbers of states and steps, and whether some are stuck."""
    return f"{_size_and_stuck(graph)} {graph.remark}".rstrip()


def _size_and_stuck(graph: StateGraph) -> str:
    size = f"{counted(len(graph.states), 'state')} and {counted(len(graph.edges), 'step')}"
    if not graph.stuck:
        return f"{size}: {graph.look.never_stuck}."
    nearest = counted(min(graph.depths[state] for state in graph.stuck), "step")
    if len(graph.stuck) == 1:
        return f"{size}: 1 state is stuck (red), {nearest} from the beginning."
    return f"{size}: {len(graph.stuck):,} states are stuck (red), the nearest {nearest} from the beginning."


def graph_document(graph: StateGraph) -> Document:
    """Everything that the page shows beside the drawing."""
    names = actions_of(graph)
    told = [graph.look.variables(state) for state in graph.states]
    hidden = {*_NUMBERS_OF_MESSAGES, *graph.look.absent_variables(graph.parameters)}
    variables = [name for name in told[0] if name not in hidden]
    return {
        **graph.look.graph_document(graph.parameters, graph.states),
        "actions": names,
        "variables": variables,
        "states": [[values[name] for name in variables] for values in told],
        "edges": [
            [edge.source, names.index(edge.action), ", ".join(shown(each, str) for each in edge.arguments), edge.target]
            for edge in graph.edges
        ],
        "arrivals": graph.arrivals,
        "depths": graph.depths,
        "columns": columns_of(graph),
        "stuck": sorted(graph.stuck),
        "reasons": {state: _reasons(graph, state) for state in sorted(graph.stuck)},
    }


def _reasons(graph: StateGraph, state: int) -> list[tuple[str, str]]:
    refused = graph.look.refusals(graph.states[state], graph.parameters)
    return [(guard.action, guard.sentence) for guard in refused]

"""All states and steps of a small channel: as a drawing, and as a page that shows a chosen state.

Each depth is a column, in the order in which breadth-first search met the states.  Sorting the columns further (the
barycentre heuristic of Sugiyama's method) was tried and made some graphs better and others worse: the search's own
order already keeps siblings together.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from html import escape
from typing import Any

from permitflow_model.kernel.explore import explore
from permitflow_tools.explain import svg
from permitflow_tools.explain.assets import asset, page
from permitflow_tools.explain.document import facts_list
from permitflow_tools.explain.look import Document, Look, call

MOST_STATES = 500
"""A larger picture is unreadable."""

# Measures in pixels.
_COLUMN = 118
_LINE = 34
_RADIUS = 12
_MARGIN = 40
_HEAD = 90

MOST_LABELS = 70
"""With more edges, labels would cover each other; a page shows those of the chosen state."""
# How much further apart things stand where all edges have labels.
_SPREAD_FOR_LABELS = 1.6
_LABEL_SIZE = 11
# Shares of an edge.  Nearer to the target than to the source: many edges that leave one state part late.
_LABEL_PLACES = (0.64, 0.52, 0.74, 0.42, 0.32)

_SERIES = 6
"""Colours of actions, in the palette."""

Point = tuple[float, float]
Box = tuple[float, float, float, float]
"""Its middle, half its width, half its height."""


@dataclass(frozen=True)
class Edge:
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
    edges: Sequence[Edge]
    """In the order of their sources."""
    stuck: frozenset[int]
    """States in which a message waits for ever."""
    arrivals: Sequence[int]
    """For each state, the last edge of a shortest path to it; -1 for the first state."""
    depths: Sequence[int]
    """For each state, the number of steps of a shortest path to it."""


def reachable(look: Look, parameters: Any, *, most: int = MOST_STATES) -> StateGraph:
    """Find all states.

    Raises:
        StateLimitReached: there are more than ``most``.
    """
    system = look.system
    states = explore(system, parameters, invariants={}, max_states=most).states
    numbers = {state: number for number, state in enumerate(states)}
    edges = [
        Edge(source, step.action, step.arguments, numbers[step.state])
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
    return StateGraph(look, parameters, states, edges, stuck, arrivals, depths)


def columns_of(graph: StateGraph) -> list[list[int]]:
    """States by depth."""
    columns: list[list[int]] = [[] for _ in range(max(graph.depths) + 1)]
    for state, depth in enumerate(graph.depths):
        columns[depth].append(state)
    return columns


@dataclass(frozen=True)
class _Plan:
    graph: StateGraph
    points: dict[int, Point]
    column: float
    with_labels: bool
    width: float
    height: float


def graph_drawing(graph: StateGraph, *, standalone: bool = True) -> str:
    """The drawing; unless it stands alone, it takes its colours from the page around it."""
    plan = _plan(graph, top=_HEAD if standalone else 0)
    title = graph_title(graph)
    head = [svg.text(_MARGIN - 12, 34, title, class_="title"), *_legend(plan)] if standalone else []
    sheet = [svg.element("rect", class_="sheet", width=plan.width, height=plan.height, rx=12)] if standalone else []
    edges = svg.element("g", *_edges(plan), class_="edges")
    nodes = svg.element("g", *_nodes(plan), class_="nodes")
    labels = svg.element("g", *_labels(plan), class_="labels")
    return svg.document(
        [*sheet, *head, edges, nodes, labels],
        width=plan.width,
        height=plan.height,
        title=title,
        styles=[asset("palette.css"), asset("graph_drawing.css")] if standalone else [],
        class_="graph",
    )


def graph_title(graph: StateGraph) -> str:
    """The drawing's title, in one line."""
    return f"All {len(graph.states):,} states of {graph.look.in_numbers(graph.parameters)}"


def _plan(graph: StateGraph, *, top: float) -> _Plan:
    columns = columns_of(graph)
    with_labels = len(graph.edges) <= MOST_LABELS
    spread = _SPREAD_FOR_LABELS if with_labels else 1
    column, line = _COLUMN * spread, _LINE * spread
    tallest = max(map(len, columns))
    middle = top + _MARGIN + (tallest - 1) * line / 2
    points = {
        state: (_MARGIN + depth * column, middle + (place - (len(states) - 1) / 2) * line)
        for depth, states in enumerate(columns)
        for place, state in enumerate(states)
    }
    width = max(2 * _MARGIN + (len(columns) - 1) * column, 760.0)
    plan = _Plan(graph, points, column, with_labels, width, top + 2 * _MARGIN + (tallest - 1) * line)
    # Ways back swing out above.
    curves = (_curve(plan, edge) for edge in graph.edges)
    highest = min((_along(curve, part / 16, 1) for curve in curves for part in range(17)), default=top)
    room = max(0.0, top + _MARGIN / 2 - highest)
    lower = {state: (x, y + room) for state, (x, y) in points.items()}
    return replace(plan, points=lower, height=plan.height + room)


def _legend(plan: _Plan) -> Iterator[str]:
    x, y = _MARGIN - 12.0, 58.0
    for content, kind, share in node_legend(plan.graph):
        yield svg.element("g", *_circle(x + 8, y - 4, 8, share), class_=kind)
        yield svg.text(x + 24, y, content, class_="muted")
        x += 40 + svg.length(content, 13) * 0.9
    x, y = _MARGIN - 12.0, 84.0
    for name in actions_of(plan.graph):
        yield svg.element("g", svg.element("path", d=f"M{x} {y - 4}h16"), class_=_edge_class(plan.graph, name))
        yield svg.text(x + 24, y, name, class_="muted")
        x += 40 + svg.length(name, 13) * 0.9


def graph_legend(graph: StateGraph) -> str:
    """The legend of the colours, for a page."""
    samples = [
        (svg.element("g", *_circle(10, 9, 7.5, share), class_=kind), content)
        for content, kind, share in node_legend(graph)
    ]
    samples += [
        (svg.element("g", svg.element("path", d="M0 9h20"), class_=_edge_class(graph, n)), n) for n in actions_of(graph)
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
    """By its name, for looks that have a colour for it, and by its number for the others."""
    return f"edge {action} series-{actions_of(graph).index(action) % _SERIES + 1}"


def _nodes(plan: _Plan) -> Iterator[str]:
    graph = plan.graph
    for number, state in enumerate(graph.states):
        x, y = plan.points[number]
        kinds = ["node", "stuck" if number in graph.stuck else "", "start" if number == 0 else ""]
        label, share = graph.look.node(number, state, graph.parameters)
        content = [
            svg.element("title", escape(graph.look.in_brief(state))),
            *_circle(x, y, _RADIUS, share),
            svg.text(x, y + 4, label, class_="permits"),
        ]
        yield svg.element("g", *content, class_=" ".join(filter(None, kinds)), data_state=number)


def _circle(x: float, y: float, radius: float, share: float) -> Iterator[str]:
    yield svg.element("circle", class_="back", cx=x, cy=y, r=radius)
    yield svg.element("circle", class_="fill", cx=x, cy=y, r=radius, fill_opacity=0.1 + 0.9 * share)


def _edges(plan: _Plan) -> Iterator[str]:
    for number, edge in enumerate(plan.graph.edges):
        start, first, second, end = map(_at, _curve(plan, edge))
        content = [
            svg.element("title", escape(edge.label)),
            svg.element("path", d=f"M{start}C{first} {second} {end}"),
            _arrow_head(plan, edge),
        ]
        yield svg.element("g", *content, class_=_edge_class(plan.graph, edge.action), data_edge=number)


def _labels(plan: _Plan) -> Iterator[str]:
    taken: list[Box] = [(x, y, _RADIUS, _RADIUS) for x, y in plan.points.values()]
    for number, edge in enumerate(plan.graph.edges):
        x, y = _label_place(_curve(plan, edge), edge.label, taken)
        kind = "label" if plan.with_labels else "label hidden"
        yield svg.text(x, y, edge.label, class_=kind, data_label=number)


def _curve(plan: _Plan, edge: Edge) -> tuple[Point, Point, Point, Point]:
    """A Bezier curve from rim to rim.  Ways back swing out, so that they do not hide the others."""
    (x1, y1), (x2, y2) = plan.points[edge.source], plan.points[edge.target]
    is_forward = x2 > x1
    away = plan.column * (0.4 if is_forward else -0.28)
    start, end = (x1 + _signed(is_forward), y1), (x2 - _signed(is_forward), y2)
    swing = 0.0 if is_forward else 0.14 * (x1 - x2) + 16
    return start, (start[0] + away, y1 - swing), (end[0] - away, y2 - swing), end


def _label_place(curve: Sequence[Point], label: str, taken: list[Box]) -> Point:
    """A free point on the curve."""
    width, height = svg.length(label, _LABEL_SIZE) / 2, _LABEL_SIZE / 2
    points = [(_along(curve, share, 0), _along(curve, share, 1) - _LABEL_SIZE / 2) for share in _LABEL_PLACES]
    free = (
        (x, y)
        for x, y in points
        if all(abs(x - at_x) > width + w or abs(y - at_y) > height + h for at_x, at_y, w, h in taken)
    )
    x, y = next(free, points[0])
    taken.append((x, y, width, height))
    return x, y + 3


def _along(curve: Sequence[Point], share: float, axis: int) -> float:
    start, first, second, end = (point[axis] for point in curve)
    rest = 1 - share
    return rest**3 * start + 3 * rest**2 * share * first + 3 * rest * share**2 * second + share**3 * end


def _arrow_head(plan: _Plan, edge: Edge) -> str:
    (x1, _), (x2, y2) = plan.points[edge.source], plan.points[edge.target]
    towards = 1 if x2 > x1 else -1
    tip = x2 - _signed(x2 > x1)
    return svg.element("path", class_="tip", d=f"M{tip:.1f} {y2:.1f}l{-7 * towards} -3.5v7z")


def _signed(is_forward: bool) -> int:
    return _RADIUS if is_forward else -_RADIUS


def _at(point: Point) -> str:
    return f"{point[0]:.1f} {point[1]:.1f}"


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
            "verdict": "stuck" if graph.stuck else "live",
            "sentence": graph_sentence(graph),
            "module": graph.look.specification.file,
            "footnote": graph.look.of_a_node,
        },
        {
            "facts": facts_list(graph.look.facts(graph.parameters)),
            "legend": graph_legend(graph),
            "drawing": graph_drawing(graph, standalone=False),
        },
        scripts=_SCRIPTS,
        document=graph_document(graph),
    )


def graph_sentence(graph: StateGraph) -> str:
    """The numbers of states and steps, and whether some are stuck."""
    size = f"{len(graph.states):,} states and {len(graph.edges):,} steps"
    if not graph.stuck:
        return f"{size}: from each state on, every waiting message can still be sent."
    nearest = min(graph.depths[state] for state in graph.stuck)
    if len(graph.stuck) == 1:
        return f"{size}: 1 state is stuck (red), {nearest:,} steps from the beginning."
    return f"{size}: {len(graph.stuck):,} states are stuck (red), the nearest {nearest:,} steps from the beginning."


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
    refused = graph.look.refusals(graph.states[state], graph.parameters)
    return [(guard.action, guard.sentence) for guard in refused]

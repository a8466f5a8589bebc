"""The state graph that TLC dumps with ``-dump dot,actionlabels`` (its ``-help`` does not mention it).

Since February 2024 TLC tells a state twice, once more as the tooltip; since February 2025 the label of a step says the
values of its action's parameters, too.  Source: TLC's ``DotStateWriter``.
"""

import re

from permitflow_model.compare import LabelledGraph
from permitflow_model.tla_values import format_state, parse_state
from permitflow_model.tlc.output import TlcError

__all__ = ["read_dump"]

_TEXT = r'(?:[^"\\]|\\.)*'
_NODE = re.compile(rf'(-?\d+) \[label="({_TEXT})"(?:,tooltip="{_TEXT}")?([^\]"]*)\];?')
_EDGE = re.compile(r"(-?\d+) -> (-?\d+)(.*)")
_LABEL = re.compile(rf'label="(\w+)(?:\({_TEXT}\))?"')
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)


def read_dump(text: str) -> LabelledGraph:
    """Read a graph in which each state is one line and each step is one line.

    Raises:
        TlcError: a step leads to or from a state that is not in the file, or has no label; a line is neither.
    """
    states: dict[str, str] = {}
    initial: set[str] = set()
    steps: list[tuple[str, str | None, str]] = []
    for line in text.splitlines():
        if edge := _EDGE.fullmatch(line):
            label = _LABEL.search(edge[3])
            steps.append((edge[1], label and label[1], edge[2]))
        elif node := _NODE.fullmatch(line):
            state = parse_state(_ESCAPE.sub(lambda escape: "\n" if escape[1] == "n" else escape[1], node[2]))
            states[node[1]] = format_state(state)
            if "filled" in node[3]:
                initial.add(states[node[1]])
        elif re.match(r"-?\d", line):
            raise TlcError(f"the dumped graph has a line that is neither a state nor a step: {line}")
    edges: set[tuple[str, str, str]] = set()
    for source, action, target in steps:
        if source not in states or target not in states or action is None:
            raise TlcError(f"the dumped graph has a step {source} -> {target} without its states or its label")
        edges.add((states[source], action, states[target]))
    return LabelledGraph(frozenset(initial), frozenset(states.values()), frozenset(edges))

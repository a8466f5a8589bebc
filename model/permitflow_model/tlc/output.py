"""Reads TLC's output with ``-tool``: messages with a number each; the numbers have not changed since 2.15.

And the state graph that it dumps with ``-dump dot,actionlabels`` (its ``-help`` does not mention it).  Since February
2024 TLC writes a state twice, once as the tooltip; since February 2025 the label of a step also has the values of its
action's parameters.  Source: TLC's ``DotStateWriter``.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from permitflow_model.manifest import DEADLOCK, SUCCESS, ModelVerdict
from permitflow_model.tla_values import TlaValue, format_state, parse_state
from permitflow_model.tlc.graphs import LabelledGraph

_MESSAGE = re.compile(r"@!@!@STARTMSG (\d+):(\d) @!@!@\n(.*?)\n?@!@!@ENDMSG \1 @!@!@", re.DOTALL)

_INVARIANT, _INITIAL_INVARIANT = 2110, 2107
_ACTION_PROPERTY, _INITIAL_PROPERTY = 2112, 2108
_DEADLOCK = 2114
_TEMPORAL_PROPERTY = 2116
_BACK_TO_STATE = 2122
_SUCCESS = 2193
_DEPTH = 2194
_COUNTS = 2199
_PROGRESS = 2200
_STATE = 2217
_STUTTERING = 2218
_VERSION = 2262

_ERROR_SEVERITIES = (1, 2)


class TlcError(Exception):
    """TLC came to no verdict: the text does not parse, a formula cannot be evaluated, time ran out."""

    def __init__(self, message: str, *, output: str = "") -> None:
        """Keep TLC's whole output."""
        super().__init__(message)
        self.output = output


@dataclass(frozen=True)
class TraceStep:
    """One state of a counterexample."""

    action: str | None
    """The action that led here; None for the initial state."""

    state: dict[str, TlaValue]
    """The values of the variables."""


@dataclass(frozen=True, kw_only=True)
class TlcResult:
    """TLC's findings."""

    verdict: ModelVerdict

    states: int
    """Distinct states found until TLC stopped: all of them, unless a violation stopped it earlier."""

    depth: int
    """States on the longest shortest path up to there; an initial state alone has depth 1."""

    trace: tuple[TraceStep, ...]
    """The counterexample; empty if there is none."""

    loop: int | None
    """For a temporal property: the index in ``trace`` to which the run returns for ever."""

    version: str
    """As TLC names itself."""

    seconds: float = 0.0
    """Wall clock, the start of the Java machine included."""

    graph: LabelledGraph | None = None
    """All states and steps, if they were asked for."""


@dataclass(frozen=True)
class _Message:
    code: int
    severity: int
    text: str


def read_output(output: str, *, properties: Sequence[str] = ()) -> TlcResult:
    """Read TLC's output of a run with ``-tool``.

    Args:
        output: everything from its standard output.
        properties: the temporal properties that were checked: TLC does not always name the violated one.

    Raises:
        TlcError: TLC came to no verdict.
    """
    messages = [_Message(int(code), int(severity), text) for code, severity, text in _MESSAGE.findall(output)]
    verdict = _verdict(messages, properties, output)
    trace, loop = _trace(messages)
    states, depth = _counts(messages)
    return TlcResult(
        verdict=verdict,
        # An initial state that violates a formula is reported without any count.
        states=states or len(trace),
        depth=depth or len(trace),
        trace=trace,
        loop=loop,
        version=next((message.text for message in messages if message.code == _VERSION), "unknown"),
    )


def _verdict(messages: list[_Message], properties: Sequence[str], output: str) -> ModelVerdict:
    problem = next((message for message in messages if message.severity in _ERROR_SEVERITIES), None)
    if problem is None:
        if any(message.code == _SUCCESS for message in messages):
            return SUCCESS
        raise TlcError(f"TLC stopped without a verdict:\n{output[-2000:]}", output=output)
    if problem.code in (_INVARIANT, _INITIAL_INVARIANT):
        return ModelVerdict("invariant", _second_word(problem.text))
    if problem.code == _INITIAL_PROPERTY:
        return ModelVerdict("property", _second_word(problem.text))
    if problem.code == _ACTION_PROPERTY:
        return ModelVerdict("property", _action_property(problem.text, properties))
    if problem.code == _TEMPORAL_PROPERTY:
        return ModelVerdict("property", _named_property(problem.text, properties))
    if problem.code == _DEADLOCK:
        return DEADLOCK
    raise TlcError(_complaint(messages, output), output=output)


def _second_word(text: str) -> str:
    return text.split()[1]


def _action_property(text: str, properties: Sequence[str]) -> str | None:
    name = text.split()[2]
    # For a formula in an instance of another module, TLC gives the place instead of the name.
    return name if name != "line" else _named_property("", properties)


def _named_property(text: str, properties: Sequence[str]) -> str | None:
    words = set(re.findall(r"\w+", text))
    named = [name for name in properties if name in words] or list(properties)
    return named[0] if len(named) == 1 else None


def _complaint(messages: list[_Message], output: str) -> str:
    errors = [message.text.strip() for message in messages if message.severity in _ERROR_SEVERITIES]
    # The parser does not use messages; its output is between them.
    parser = [
        line
        for line in _MESSAGE.sub("", output).splitlines()
        if line.strip() and not line.startswith(("Parsing file", "Semantic processing"))
    ]
    # For an exception in TLC itself, keep its name only: the rest is a thousand lines of TLC's own places.
    lines = [line for line in "\n".join([*errors, *parser]).splitlines() if not line.startswith("\tat ")]
    return "TLC: " + re.sub(r"@!@!@(START|END)MSG.*\n?", "", "\n".join(lines))


def _trace(messages: list[_Message]) -> tuple[tuple[TraceStep, ...], int | None]:
    steps: list[TraceStep] = []
    loop: int | None = None
    for message in messages:
        if message.code in (_INITIAL_INVARIANT, _INITIAL_PROPERTY):
            steps.append(TraceStep(None, parse_state(message.text.partition("\n")[2])))
        elif message.code == _STATE:
            title, _, state = message.text.partition("\n")
            action = re.match(r"\d+: <(\w+)(?:\(.*\))? line", title)
            steps.append(TraceStep(action[1] if action else None, parse_state(state)))
        elif message.code == _STUTTERING:
            loop = len(steps) - 1
        elif message.code == _BACK_TO_STATE:
            loop = int(message.text.partition(":")[0]) - 1
    return tuple(steps), loop


def _counts(messages: list[_Message]) -> tuple[int, int]:
    states = depth = 0
    for message in messages:
        text = message.text.replace(",", "")
        if message.code == _COUNTS and (match := re.search(r"(\d+) distinct states", text)):
            states = int(match[1])
        elif message.code == _DEPTH and (match := re.search(r"search is (\d+)", text)):
            depth = int(match[1])
        # After a violated temporal property there is no message of its own about the depth.
        elif message.code == _PROGRESS and (match := re.match(r"Progress\((\d+)\)", text)):
            depth = max(depth, int(match[1]))
    return states, depth


# A dumped graph.

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

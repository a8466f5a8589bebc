"""Reads a graph of stages that is described in TOML: ``[stages.NAME]`` for each stage, and ``arcs`` between them."""

from collections.abc import Callable, Mapping
from dataclasses import MISSING, dataclass, fields
from functools import partial
from pathlib import Path
from typing import Any, NoReturn

from permitflow.errors import BlueprintError, InvalidParametersError
from permitflow.stages import Overflow
from permitflow.stages.blueprint import KINDS, MOST_STAGES, Blueprint, Node
from permitflow_tools.parameters.quantities import shown, typed
from permitflow_tools.parameters.sections import Section, TomlFile, nearest, read_toml

_EXAMPLE = """\
write arcs = ["orders -> out"], and below it [stages.orders] with kind = "source", and [stages.out] with kind = "sink"\
"""
_ABOUT = ("title", "report", "symptom", "verdict")

# How other libraries, or a stage's method, name what is a kind here.
_OTHER_KINDS = {
    "map": 'kind = "stage"',
    "flow": 'kind = "stage"',
    "filter": 'kind = "stage" with gives = [0, 1]',
    "collect": 'kind = "stage" with gives = [0, 1]',
    "map_concat": 'kind = "stage" with gives = [0, "any"]',
    "flat_map": 'kind = "stage" with gives = [0, "any"]',
    "grouped": 'kind = "stage" with takes = 10 for groups of 10',
    "rechunk": 'kind = "stage" with takes = 10 for groups of 10',
    "async_boundary": 'kind = "boundary"',
    "queue": 'kind = "buffer"',
    "tee": 'kind = "broadcast"',
    "partition": 'kind = "broadcast", and a stage with gives = [0, 1] behind each of its outlets',
    "unzip": 'kind = "broadcast"',
    "join": 'kind = "zip"',
    "mergepreferred": 'kind = "merge_preferred"',
}
_AKKAS_OVERFLOWS = {
    "backpressure": "block",
    "drophead": "drop_oldest",
    "droptail": "drop_youngest_buffered",
    "dropnew": "drop_incoming",
    "dropbuffer": "clear",
}


@dataclass(frozen=True)
class About:
    """What a file says of itself, to be shown; nothing is computed from it."""

    title: str = ""
    report: str = ""
    """The address of a public report."""
    symptom: str = ""
    """What that reports."""
    verdict: str = ""
    """What is expected."""


@dataclass(frozen=True)
class DescribedGraph:
    """What a file says."""

    blueprint: Blueprint
    about: About


def read_graph(path: Path) -> DescribedGraph:
    """Read and check a file.

    Raises:
        ParametersFileError: it cannot be read, or something in it makes no sense; names stage, port, value and line.
    """
    return described_graph(read_toml(path))


def described_graph(file: TomlFile) -> DescribedGraph:
    """Check what a file says.

    Raises:
        ParametersFileError: something in it makes no sense; names stage, port, value and line.
    """
    if not file.is_graph and "upstream" in file.content:
        file.refuse(f"describes a channel: `permitflow check {file.path}` answers for it")
    known = ("arcs", "stages", "about")
    for name in file.content:
        if name not in known:
            file.refuse(f"is unknown; {nearest(name, known)}", key=name, line=file.line_of(name))
    about = Section(file, "about", file.content.get("about", {}), _ABOUT)
    told = About(**{key: about.read(key, partial(typed, str, "a text")) or "" for key in about})
    stages, arcs = _stages(file), _arcs(file)
    try:
        return DescribedGraph(Blueprint.of(stages, arcs), told)
    except BlueprintError as error:
        _refuse_as(file, stages, arcs, error)


def _stages(file: TomlFile) -> dict[str, Node]:
    described = file.content.get("stages", {})
    if not isinstance(described, dict):
        reason = f"must be tables, [stages.NAME] for each stage, not {shown(described)}"
        file.refuse(reason, key="stages", line=file.line_of("stages"))
    if not described:
        file.refuse(f"describes no stages: {_EXAMPLE}")
    if len(described) > MOST_STAGES:
        path = f"stages.{list(described)[MOST_STAGES]}"
        file.refuse(
            f"is one stage too many: of the {len(described):,} in this file, at most {MOST_STAGES:,} are checked "
            "together; stages wait in a ring only if all of it is between a split and a join, or in a loop: describe "
            "such a part alone",
            key=path,
            line=file.line_of(path),
        )
    return {name: _node(file, name, content) for name, content in described.items()}


def _node(file: TomlFile, name: str, content: object) -> Node:
    path = f"stages.{name}"
    if not isinstance(content, dict):
        file.refuse(f"must be a table, [{path}], not {shown(content)}", key=path, line=file.line_of(path))
    kind = content.get("kind")
    node = KINDS.get(kind) if isinstance(kind, str) else None
    if node is None:
        section = Section(file, path, content, list(content))
        if kind is None:
            section.refuse("", f"does not say what it is; write kind = and one of {', '.join(KINDS)}")
        meant = _OTHER_KINDS.get(str(kind).lower().replace("-", "_"))
        section.refuse("kind", f"{shown(kind)} is unknown; {f'write {meant}' if meant else nearest(str(kind), KINDS)}")
    if "arcs" in content:
        file.refuse("belongs above the first [stages.NAME]: move it there", key="arcs", line=file.line_of(path, "arcs"))
    numbers = {field.name: field for field in fields(node)}
    section = Section(file, path, content, ("kind", *numbers))
    if missing := [name for name, field in numbers.items() if field.default is MISSING and name not in section]:
        section.refuse("", f"is a {kind} without {missing[0]}; write {missing[0]} = {_EXAMPLES[missing[0]]}")
    made = node(**{key: section.read(key, _READERS.get(key, _COUNT)) for key in section if key != "kind"})
    try:
        made.check()
    except InvalidParametersError as error:
        key = error.name if error.name in section else next(iter(numbers))
        said = section.get(key)
        if key == "takes" and said == 0 and section.get("gives") == 0:
            section.refuse(
                key, "and gives are both 0, which is not a ratio: a map takes 1 and gives 1, a filter gives [0, 1]"
            )
        section.refuse(key, f"{error.rule}, not {shown(said)}")
    return made


def _arcs(file: TomlFile) -> list[str]:
    arcs = file.content.get("arcs")
    if arcs is None:
        file.refuse(f"has no arcs; {_EXAMPLE}")
    if not isinstance(arcs, list):
        reason = f'must be a list, arcs = ["orders -> out"], not {shown(arcs)}'
        file.refuse(reason, key="arcs", line=file.line_of("arcs"))
    for number, arc in enumerate(arcs, start=1):
        if not isinstance(arc, str):
            file.refuse(
                f'must be a text, "orders -> out", not {shown(arc)}', key=f"arc {number}", line=file.line_of("arcs")
            )
    return arcs


def _refuse_as(file: TomlFile, stages: Mapping[str, Node], arcs: list[str], error: BlueprintError) -> NoReturn:
    """A fault of the graph, with the line of its arc or of its stage."""
    reason = f"{error.reason}{_hint(stages, error)}"
    if error.arc:
        line = _line_of_arc(file, arcs, error.arc - 1)
        place = ", ".join(filter(None, (error.stage, error.port)))
        file.refuse(f"{place}: {reason}" if place else reason, key=f"arc {error.arc}:", line=line)
    path = f"stages.{error.stage}" if error.stage else "the graph"
    key = ", ".join(filter(None, (path, error.port)))
    file.refuse(reason, key=f"{key}:", line=file.line_of(path))


def _hint(stages: Mapping[str, Node], error: BlueprintError) -> str:
    """What may have been meant."""
    node = stages.get(error.stage)
    if node is None:
        return f"; {nearest(error.stage, stages)}" if error.stage else ""
    side, _, number = error.port.partition(" ")
    if not error.arc or not number.isdigit():
        return ""
    if side == "outlet" and node.outlets == (1, 1):
        return "; for two consumers, put a broadcast behind it (each gets all elements), or a balance (each gets some)"
    if side == "inlet" and node.inlets == (1, 1):
        return "; for two producers, put a merge before it, or a zip or a concat"
    return ""


def _line_of_arc(file: TomlFile, arcs: list[str], number: int) -> int:
    """The line of an arc: of its text as often as it stands in the list before it, and once more."""
    wanted = arcs[: number + 1].count(arcs[number])
    for line, text in enumerate(file.text.splitlines(), start=1):
        wanted -= text.count(f'"{arcs[number]}"') + text.count(f"'{arcs[number]}'")
        if wanted <= 0:
            return line
    return file.line_of("arcs")


def _ratio(given: object) -> tuple[int, int | None]:
    """A number, or the least and the most."""
    match given:
        case bool() | [bool(), _] | [_, bool()]:
            pass
        case int():
            return given, given
        case [int(least), "any"]:
            return least, None
        case [int(least), int(most)]:
            return least, most
    raise ValueError(f'must be a number, or the least and the most, as in [0, 1] or [0, "any"], not {shown(given)}')


def _overflow(given: object) -> Overflow:
    names = [member.value for member in Overflow]
    if given not in names:
        meant = _AKKAS_OVERFLOWS.get(str(given).lower())
        raise ValueError(
            f"{shown(given)} is unknown; {f'write {shown(meant)}' if meant else nearest(str(given), names)}"
        )
    return Overflow(given)


# Other fields are numbers; the kind says which.
_READERS: Mapping[str, Callable[[object], Any]] = {"gives": _ratio, "overflow": _overflow}
_COUNT = partial(typed, int, "a whole number")
_EXAMPLES = {"capacity": "16", "window": "32_768", "writes": "2_048"}

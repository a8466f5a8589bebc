"""Reads a channel that is described in TOML: a whole file, or what a sweep varies as it stands on the command line."""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from permitflow.errors import InvalidParametersError
from permitflow.flows.permits.parameters import Oversize, StatedParameters
from permitflow.flows.seam import Wishes
from permitflow_tools.parameters.quantities import duration, rate, shown, size, typed, values, whole
from permitflow_tools.parameters.sections import Section, TomlFile, nearest, read_toml, sections_of
from permitflow_tools.simulation.chunk_sizes import ChunkSizes, UniformSizes, WeightedSizes
from permitflow_tools.simulation.setting import AXES, Axis, SimulationSetting

KEYS = ("row_permits", "permit_batch", "max_chunk_cost", "oversize", "barrier_permits", "initial_permits")
"""The parameters of an end, by which a file and the command line name them."""

# How one value of an axis is understood.
_READERS: Mapping[str, Callable[[object], float]] = {"rtt": duration, "byte_window": size, "target_latency": duration}
_AXIS_READERS: Mapping[str, Callable[[object], float]] = {
    name: rate if name.endswith("_rate") else _READERS.get(name, whole) for name in AXES
}
_SECTIONS = {
    "upstream": KEYS,
    "downstream": (*KEYS, "flush_idle"),
    "bytes": ("row", "window"),
    "chunks": ("rows", "weights", "distribution", "least", "most", "mean", "csv", "column"),
    "network": ("rtt", "one_way", "forward", "back", "rate"),
    "producer": ("rate",),
    "consumer": ("rate",),
    "simulation": ("seed", "chunks"),
    "sweep": _AXIS_READERS,
}
STANDARD_INPUT = Path("/dev/stdin")

# A device may have no end; the reader refuses a longer field.
_MOST_LINE_CHARACTERS = 1 << 20


@dataclass(frozen=True)
class Description:
    """What a file says."""

    setting: SimulationSetting
    seed: int
    least_chunks: int | None
    """How many chunks to measure at least; None: as many as are usual."""
    axes: Sequence[Axis]
    """What to vary."""
    inputs: Sequence[Path] = ()
    """The files that were read."""


def is_toml(path: Path) -> bool:
    """Does the name say that it is a description?  Standard input is one, because recordings are files."""
    return path.suffix.lower() == ".toml" or path == STANDARD_INPUT


def read_description(path: Path) -> Description:
    """Read and check a file.

    Raises:
        ParametersFileError: it cannot be read, or something in it makes no sense; names key, value and line.
    """
    return description_of(read_toml(path))


def description_of(file: TomlFile) -> Description:
    """Check what a file says.

    Raises:
        ParametersFileError: something in it makes no sense; names key, value and line.
    """
    if file.is_graph:
        file.refuse(f"describes a graph of stages: `permitflow check graph {file.path}` answers for it")
    sections = sections_of(file, _SECTIONS)
    upstream, downstream, network = sections["upstream"], sections["downstream"], sections["network"]
    simulation, sweep = sections["simulation"], sections["sweep"]
    upstream.required("row_permits", _whole, example="row_permits = 32_768")
    forward, back = _delays(network)
    rated = {"producer_rate": sections["producer"], "consumer_rate": sections["consumer"], "link_rate": network}
    others: dict[str, Any] = {name: section.read("rate", _rate) for name, section in rated.items()}
    others |= {
        "row_bytes": sections["bytes"].read("row", _whole),
        "byte_window": sections["bytes"].read("window", size),
    }
    try:
        setting = SimulationSetting(
            upstream=_stated(upstream),
            downstream=_stated(downstream),
            flush_idle=downstream.read("flush_idle", partial(typed, bool, "true or false")) or False,
            chunks=_chunks(sections["chunks"]),
            forward_seconds=forward,
            return_seconds=back,
            **{name: found for name, found in others.items() if found is not None},
        )
    except InvalidParametersError as error:
        # The remaining fault: a batch that leaves no room for any chunk, at one of the ends.
        end = downstream if error.name in downstream else upstream
        end.refuse(error.name, f"{error.rule}; it is {error.value}")
    return Description(
        setting=setting,
        seed=simulation.read("seed", partial(typed, int, "a whole number")) or 0,
        least_chunks=simulation.read("chunks", _whole),
        axes=[found for name in sweep if (found := sweep.read(name, partial(_axis, name)))],
        inputs=(file.path, *([_path_of(sections["chunks"])] if "csv" in sections["chunks"] else [])),
    )


def _whole(given: object, least: int = 1) -> int:
    """As TOML has it: a text is not a number."""
    return whole(_unquoted(given), least)


def _rate(given: object) -> float:
    return rate(given if given == "unlimited" else _unquoted(given))


def _unquoted(given: object) -> object:
    if type(given) is str:
        raise ValueError(f"must be a number, without quotation marks, not {shown(given)}")
    return given


def _stated(section: Section) -> Wishes:
    numbers = {
        name: section.read(name, partial(_whole, least=0 if name == "initial_permits" else 1))
        for name in KEYS
        if name != "oversize"
    }
    return StatedParameters(**numbers, oversize=section.read("oversize", _oversize))


def _oversize(given: object) -> str:
    if given not in [member.value for member in Oversize]:
        names = " or ".join(f'"{member.value}"' for member in Oversize)
        raise ValueError(f"must be {names}, not {shown(given)}")
    return str(given)


def _delays(network: Section) -> tuple[float, float]:
    """Seconds there and back."""
    ways = [key for key in network if key != "rate"]
    if ways in (["rtt"], ["one_way"]):
        seconds = network.read(ways[0], duration) or 0.0
        return (seconds / 2, seconds / 2) if ways == ["rtt"] else (seconds, seconds)
    if ways and sorted(ways) != ["back", "forward"]:
        reason = "must be the only delay" if ways[1:] else "needs the other way too"
        network.refuse(ways[-1], f"{reason}; give rtt, or one_way, or forward and back")
    return network.read("forward", duration) or 0.0, network.read("back", duration) or 0.0


def _chunks(section: Section) -> ChunkSizes:
    """The sizes of chunks, which are described in one of several ways."""
    given = [key for key in ("rows", "distribution", "csv") if key in section]
    if len(given) != 1:
        example = 'rows = 1_024, or rows = [1, 64, 1_024], or distribution = "uniform", or csv = "sizes.csv"'
        reason = f"has {' and '.join(given)}; keep one of them" if given else f"does not say how large; write {example}"
        section.refuse("", reason)
    way = str(section.get("distribution")) if given == ["distribution"] else given[0]
    if way not in _WAYS:
        section.refuse("distribution", f"must be uniform, not {way!r}")
    keys, read = _WAYS[way]
    for key in section:
        if key not in keys:
            section.refuse(key, f"does not belong to {way}, which takes {', '.join(keys)}")
    try:
        return read(section)
    except InvalidParametersError as error:
        section.refuse(error.name if error.name in section else given[0], f"{error.rule}, not {error.value!r}")


def _listed(section: Section) -> ChunkSizes:
    rows = section.read("rows", partial(_numbers, (int,), "whole numbers")) or []
    return WeightedSizes(rows, section.read("weights", partial(_numbers, (int, float), "numbers")))


def _uniform(section: Section) -> ChunkSizes:
    read = partial(typed, int, "whole numbers")
    least = section.read("least", read)
    return UniformSizes(1 if least is None else least, section.required("most", read, example="most = 1_024"))


def _observed(section: Section) -> ChunkSizes:
    """Sizes that were observed, one a line, below a heading; beside the description if the path is relative."""
    path, column = _path_of(section), section.read("column", _name)
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = iter(partial(file.readline, _MOST_LINE_CHARACTERS), "")
            sizes = list(_column(csv.DictReader(lines), column))
    except (OSError, UnicodeDecodeError) as error:
        section.refuse("csv", f"cannot be read: {path}: {getattr(error, 'strerror', None) or error}")
    except (ValueError, csv.Error) as error:
        section.refuse("csv", f"{path}: {error}")
    return WeightedSizes(sizes)


def _name(given: object) -> Any:
    return typed(str, "the name of a file, or of a column in it", given)


def _path_of(section: Section) -> Path:
    """Where observed sizes are."""
    return section.path.parent / (section.read("csv", _name) or "")


def _column(reader: "csv.DictReader[str]", column: str | None) -> Iterator[int]:
    names = list(reader.fieldnames or [])
    if column is None and len(names) > 1:
        raise ValueError(f"has the columns {', '.join(names)}; choose one, as in column = {names[0]!r}")
    name = names[0] if column is None and names else column
    if name not in names:
        raise ValueError(f"has no column {name!r}; it has {', '.join(names) or 'none'}")
    for row in reader:
        try:
            yield whole(row[name], least=0)
        except ValueError as error:
            raise ValueError(f"line {reader.line_num}: rows {error}") from None


# For each way to describe chunks: the keys that belong to it, and its reader.
_WAYS: Mapping[str, tuple[tuple[str, ...], Callable[[Section], ChunkSizes]]] = {
    "rows": (("rows", "weights"), _listed),
    "csv": (("csv", "column"), _observed),
    "uniform": (("distribution", "least", "most"), _uniform),
}


def _numbers(kinds: tuple[type, ...], words: str, given: object) -> list[Any]:
    """A list of such values, or one of them."""
    values = given if isinstance(given, list) else [given]
    if not all(type(each) in kinds for each in values):
        raise ValueError(f"must be {words}, not {shown(given)}")
    return values


def refusal_in_words(error: InvalidParametersError) -> str:
    """The fault of a number, in the words of a file."""
    return f"{error.name} {error.rule}"


def read_axis(text: str) -> Axis:
    """Parse ``NAME=VALUES``, as in ``row_permits=256..65536:x2``: what a sweep varies.

    Raises:
        ValueError: says what would be right.
    """
    name, equals, given = text.partition("=")
    if not equals:
        raise ValueError(f"must be NAME=VALUES, as in row_permits=256..65536:x2, not {text!r}")
    if name not in _AXIS_READERS:
        raise ValueError(f"{name!r} cannot be varied; {nearest(name, _AXIS_READERS)}")
    return _axis(name, given)


def _axis(name: str, given: object) -> Axis:
    return Axis(name, values(given, _AXIS_READERS[name]))

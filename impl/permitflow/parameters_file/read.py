"""Reads a channel that is described in TOML: a whole file, or what a sweep varies as it stands on the command line."""

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from permitflow.errors import InvalidParametersError
from permitflow.parameters_file.quantities import duration, rate, values, whole
from permitflow.parameters_file.sections import OLD_NAMES, Document, Section, nearest
from permitflow.protocol.permits import Oversize, StatedParameters
from permitflow.simulation.chunk_sizes import (
    ChunkSizes,
    ConstantSize,
    GeometricSizes,
    PoissonSizes,
    UniformSizes,
    WeightedSizes,
)
from permitflow.simulation.setting import AXES, Axis, Setting

T = TypeVar("T")

KEYS = ("row_permits", "permit_batch", "max_chunk_cost", "oversize", "barrier_permits", "initial_permits")
"""The parameters of an end, by which a file and the command line name them."""

_SECTIONS = ("upstream", "downstream", "chunks", "network", "producer", "consumer", "simulation", "sweep")
_CHUNKS_KEYS = ("rows", "weights", "distribution", "least", "most", "mean", "csv", "column")
_NETWORK_KEYS = ("rtt", "one_way", "forward", "back", "rate")
_DISTRIBUTIONS = ("uniform", "geometric", "poisson")
# How one value of an axis is understood.
_AXIS_READERS: Mapping[str, Callable[[object], float]] = {
    name: duration if name == "rtt" else rate if name.endswith("_rate") else whole for name in AXES
}
# A device may have no end; the reader refuses a longer field.
_MOST_LINE_CHARACTERS = 1 << 20


@dataclass(frozen=True)
class Description:
    """What a file says."""

    setting: Setting
    seed: int
    least_chunks: int | None
    """How many chunks to measure at least; None: as many as are usual."""
    axes: Sequence[Axis]
    """What to vary."""


def read_description(path: Path) -> Description:
    """Read and check a file.

    Raises:
        ParametersFileError: it cannot be read, or something in it cannot be meant; names key, value and line.
    """
    document = Document(path, _SECTIONS)
    upstream = document.section("upstream", KEYS)
    downstream = document.section("downstream", (*KEYS, "flush_idle"))
    upstream.required("row_permits", whole, example="row_permits = 32_768")
    simulation = document.section("simulation", ("seed", "chunks"))
    sweep = document.section("sweep", _AXIS_READERS)
    network = document.section("network", _NETWORK_KEYS)
    forward, back = _delays(network)
    rates = {
        "producer_rate": document.section("producer", ("rate",)).read("rate", rate),
        "consumer_rate": document.section("consumer", ("rate",)).read("rate", rate),
        "link_rate": network.read("rate", rate),
    }
    try:
        setting = Setting(
            upstream=_stated(upstream),
            downstream=_stated(downstream),
            flush_idle=downstream.read("flush_idle", partial(_instance, bool, "true or false")) or False,
            chunks=_chunks(document),
            forward_seconds=forward,
            return_seconds=back,
            **{name: found for name, found in rates.items() if found is not None},
        )
    except InvalidParametersError as error:
        # The remaining fault: a batch that leaves no room for any chunk, at one of the ends.
        end = downstream if error.name in downstream else upstream
        end.refuse(error.name, f"{error.rule}; it is {error.value}")
    return Description(
        setting=setting,
        seed=simulation.read("seed", partial(_instance, int, "a whole number")) or 0,
        least_chunks=simulation.read("chunks", whole),
        axes=[found for name in sweep if (found := sweep.read(name, partial(_axis, name)))],
    )


def _stated(section: Section) -> StatedParameters:
    least = {"initial_permits": 0}
    numbers = {
        name: section.read(name, partial(whole, least=least.get(name, 1))) for name in KEYS if name != "oversize"
    }
    oversize = section.read("oversize", _oversize)
    return StatedParameters(**numbers, oversize=None if oversize is None else oversize.value)


def _oversize(given: object) -> Oversize:
    try:
        return Oversize(given)  # type: ignore[arg-type]  # that is the question
    except ValueError:
        names = " or ".join(f'"{member.value}"' for member in Oversize)
        raise ValueError(f"must be {names}, not {given!r}") from None


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


def _chunks(document: Document) -> ChunkSizes:
    """The sizes of chunks that the file describes in one of three ways."""
    section = document.section("chunks", _CHUNKS_KEYS)
    ways: Mapping[str, Callable[[Section], ChunkSizes]] = {
        "rows": _listed,
        "distribution": _distributed,
        "csv": _observed,
    }
    given = [key for key in ways if key in section]
    if len(given) != 1:
        example = 'rows = 1_024, or rows = [1, 64, 1_024], or distribution = "geometric", or csv = "sizes.csv"'
        reason = f"has {' and '.join(given)}; keep one of them" if given else f"does not say how large; write {example}"
        document.refuse("[chunks]", reason, line=document.line_of("chunks"))
    try:
        return ways[given[0]](section)
    except InvalidParametersError as error:
        section.refuse(error.name if error.name in section else given[0], f"{error.rule}, not {error.value!r}")


def sizes_of(rows: list[int]) -> ChunkSizes:
    """One size for all chunks, or several that occur equally often.

    Raises:
        InvalidParametersError: there is none, or one that cannot be.
    """
    return ConstantSize(rows[0]) if len(rows) == 1 else WeightedSizes(rows)


def _listed(section: Section) -> ChunkSizes:
    _belongs(section, "rows", ("rows", "weights"))
    weights = section.read("weights", _numbers)
    if isinstance(section.get("rows"), list):
        return WeightedSizes(section.read("rows", _whole_numbers) or [], weights)
    if weights is not None:
        section.refuse("weights", "belong to a list of sizes, as in rows = [1, 64, 1_024]")
    return ConstantSize(section.read("rows", _whole_number) or 0)


def _distributed(section: Section) -> ChunkSizes:
    name = section.get("distribution")
    if name not in _DISTRIBUTIONS:
        section.refuse("distribution", f"must be one of {', '.join(_DISTRIBUTIONS)}, not {name!r}")
    if name == "uniform":
        _belongs(section, "uniform", ("distribution", "least", "most"))
        least = section.read("least", _whole_number)
        most = section.required("most", _whole_number, example="most = 1_024")
        return UniformSizes(1 if least is None else least, most)
    _belongs(section, str(name), ("distribution", "mean"))
    mean = section.required("mean", _number, example="mean = 300")
    return GeometricSizes(mean) if name == "geometric" else PoissonSizes(mean)


def _observed(section: Section) -> ChunkSizes:
    """Sizes that were observed, one a line, below a heading; beside the description if the path is relative."""
    _belongs(section, "csv", ("csv", "column"))
    name, column = section.get("csv"), section.get("column")
    if not isinstance(name, str) or not (column is None or isinstance(column, str)):
        section.refuse("csv", f"must be the name of a file, not {name!r}, and column that of a column in it")
    path = section.document.path.parent / name
    try:
        with path.open(encoding="utf-8", newline="") as file:
            lines = iter(partial(file.readline, _MOST_LINE_CHARACTERS), "")
            sizes = list(_column(csv.DictReader(lines), column))
    except (OSError, UnicodeDecodeError) as error:
        section.refuse("csv", f"cannot be read: {path}: {getattr(error, 'strerror', None) or error}")
    except (ValueError, csv.Error) as error:
        section.refuse("csv", f"{path}: {error}")
    return WeightedSizes(sizes)


def _column(reader: "csv.DictReader[str]", column: str | None) -> Iterator[int]:
    names = list(reader.fieldnames or [])
    if column is None and len(names) > 1:
        raise ValueError(f"has the columns {', '.join(names)}; choose one, as in column = {names[0]!r}")
    name = names[0] if column is None and names else column
    if name not in names:
        raise ValueError(f"has no column {name!r}; it has {', '.join(names) or 'none'}")
    for row in reader:
        try:
            size = int(row[name])
        except (TypeError, ValueError):
            size = -1
        if size < 0:
            raise ValueError(f"line {reader.line_num}: rows must be a whole number of at least 0, not {row[name]!r}")
        yield size


def _belongs(section: Section, owner: str, keys: tuple[str, ...]) -> None:
    for key in section:
        if key not in keys:
            section.refuse(key, f"does not belong to {owner}, which takes {', '.join(keys)}")


def _instance(kind: type[T], words: str, given: object) -> T:
    """The value if it is of this type; TOML's ``true`` is no number."""
    if type(given) is not kind:
        raise ValueError(f"must be {words}, not {given!r}")
    return given


def _whole_number(given: object) -> int:
    return _instance(int, "whole numbers", given)


def _number(given: object) -> float:
    return float(given) if type(given) is int else _instance(float, "numbers", given)


def _whole_numbers(given: object) -> list[int]:
    return _list_of(_whole_number, given, "whole numbers")


def _numbers(given: object) -> list[float]:
    return _list_of(_number, given, "numbers")


def _list_of(read: Callable[[object], T], given: object, words: str) -> list[T]:
    try:
        return [read(each) for each in _instance(list, words, given)]
    except ValueError:
        raise ValueError(f"must be {words}, not {given!r}") from None


def refusal_in_words(error: InvalidParametersError) -> str:
    """The fault of a number, in the words of a file."""
    return f"{error.name} {error.rule}"


def read_axis(text: str) -> Axis:
    """Understand ``NAME=VALUES``, as in ``row_permits=256..65536:x2``: what a sweep varies.

    Raises:
        ValueError: says what would be right.
    """
    name, equals, given = text.partition("=")
    if not equals:
        raise ValueError(f"must be NAME=VALUES, as in row_permits=256..65536:x2, not {text!r}")
    name = OLD_NAMES.get(name, name)
    if name not in _AXIS_READERS:
        raise ValueError(f"{name!r} cannot be varied; {nearest(name, _AXIS_READERS)}")
    return _axis(name, given)


def _axis(name: str, given: object) -> Axis:
    return Axis(name, values(given, _AXIS_READERS[name]))

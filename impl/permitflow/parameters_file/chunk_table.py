"""``[chunks]``: which sizes the producer's chunks have."""

import csv
from collections.abc import Callable, Iterator, Mapping
from functools import partial

from permitflow.errors import InvalidParametersError
from permitflow.parameters_file.sections import Document, Section
from permitflow.simulation.chunk_sizes import (
    ChunkSizes,
    ConstantSize,
    GeometricSizes,
    PoissonSizes,
    UniformSizes,
    WeightedSizes,
)

__all__ = ["read_chunks", "sizes_of"]

_KEYS = ("rows", "weights", "distribution", "least", "most", "mean", "csv", "column")
# A device may have no end; whatever is longer than a field may be is refused by the reader.
_MOST_LINE_CHARACTERS = 1 << 20
_DISTRIBUTIONS = ("uniform", "geometric", "poisson")


def read_chunks(document: Document) -> ChunkSizes:
    """The distribution that the file describes.

    Raises:
        ParametersFileError: it is missing, contradicts itself or cannot be.
    """
    section = document.section("chunks", _KEYS)
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
    rows = section.get("rows")
    weights = section.read("weights", _numbers)
    if isinstance(rows, list):
        sizes = section.read("rows", _whole_numbers)
        assert sizes is not None  # it is there
        return WeightedSizes(sizes, weights)
    if weights is not None:
        section.refuse("weights", "belong to a list of sizes, as in rows = [1, 64, 1_024]")
    (size,) = section.read("rows", lambda value: _whole_numbers([value])) or [0]
    return ConstantSize(size)


def _distributed(section: Section) -> ChunkSizes:
    name = section.get("distribution")
    if name not in _DISTRIBUTIONS:
        section.refuse("distribution", f"must be one of {', '.join(_DISTRIBUTIONS)}, not {name!r}")
    if name == "uniform":
        _belongs(section, "uniform", ("distribution", "least", "most"))
        least = section.read("least", lambda value: _whole_numbers([value])[0])
        most = section.required("most", lambda value: _whole_numbers([value])[0], example="most = 1_024")
        return UniformSizes(1 if least is None else least, most)
    _belongs(section, str(name), ("distribution", "mean"))
    mean = section.required("mean", lambda value: _numbers([value])[0], example="mean = 300")
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


def _whole_numbers(given: object) -> list[int]:
    found = [value for value in given if isinstance(value, int)] if isinstance(given, list) else []
    if not isinstance(given, list) or len(found) != len(given) or any(isinstance(value, bool) for value in found):
        shown = given[0] if isinstance(given, list) and len(given) == 1 else given
        raise ValueError(f"must be whole numbers, not {shown!r}")
    return found


def _numbers(given: object) -> list[float]:
    found = [float(value) for value in given if isinstance(value, int | float)] if isinstance(given, list) else []
    if not isinstance(given, list) or len(found) != len(given):
        shown = given[0] if isinstance(given, list) and len(given) == 1 else given
        raise ValueError(f"must be numbers, not {shown!r}")
    return found

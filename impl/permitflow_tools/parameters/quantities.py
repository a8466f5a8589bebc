"""Durations, sizes, rates and ranges as people write them: ``40ms``, ``16MiB``, ``1_000_000``, ``256..65536:x2``."""

import math
import re
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

from permitflow import sizes
from permitflow_tools.simulation.chunk_sizes import MOST_ROWS

Number = TypeVar("Number", int, float)

MOST_COUNT = MOST_ROWS
"""The largest whole number that a file or an option may have."""

MOST_SECONDS = 1_000_000_000
"""Some thirty years; clocks and timers can still wait so long."""

# Beyond these, sums of times lose small addends, or overflow.
_LEAST_RATE, _MOST_RATE = 1e-6, 1e15
_SECONDS = {"ns": 1e-9, "us": 1e-6, "µs": 1e-6, "ms": 1e-3, "s": 1.0, "min": 60.0}
_DURATION = re.compile(r"(\d[\d_]*\.?\d*)\s*([a-zµ]+)")
_RANGE = re.compile(r"(.+)\.\.(.+?)(?::\s*([x+]?)\s*(.+))?")
_MOST_VALUES = 1_000


def shown(value: object) -> str:
    """A value as a file or the command line has it."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, list):
        return f"[{', '.join(map(shown, value))}]"
    return repr(value)


def typed(kind: type, words: str, given: object) -> Any:
    """The value if it is of this type; TOML's ``true`` is not a number.

    Raises:
        ValueError: says what would be right.
    """
    if type(given) is not kind:
        raise ValueError(f"must be {words}, not {shown(given)}")
    return given


def duration(text: object) -> float:
    """Seconds of a duration with its unit, as in ``40ms``; 0 needs none.

    Raises:
        ValueError: says what would be right.
    """
    if text in (0, "0"):
        return 0.0
    found = _DURATION.fullmatch(text.strip()) if isinstance(text, str) else None
    if found is None or found[2] not in _SECONDS:
        raise ValueError(f'must be a duration with its unit, as in "40ms" ({", ".join(_SECONDS)}), not {shown(text)}')
    seconds = float(found[1]) * _SECONDS[found[2]]
    if seconds > MOST_SECONDS:
        raise ValueError(f"must be at most {MOST_SECONDS:,} s, not {shown(text)}")
    return seconds


def duration_text(seconds: float) -> str:
    """A duration for people, to three digits."""
    if not math.isfinite(seconds) or seconds == 0:
        return "0 s" if seconds == 0 else "never"
    rounded = float(f"{abs(seconds):.3g}")
    unit = next((unit for unit in ("s", "ms", "µs") if rounded >= _SECONDS[unit]), "ns")
    amount = seconds / _SECONDS[unit]
    return f"{amount:,.0f} {unit}" if amount >= 100 else f"{amount:.3g} {unit}"


def size(text: object) -> int:
    """Bytes of a size with its unit, as in ``16MiB``.

    Raises:
        ValueError: says what would be right.
    """
    try:
        return sizes.size(text if isinstance(text, str) else "")
    except ValueError as rule:
        raise ValueError(f"{rule}, not {shown(text)}") from None


def size_text(size_bytes: int) -> str:
    """A size for people, to three digits."""
    unit = next((unit for unit in ("TiB", "GiB", "MiB", "KiB") if size_bytes >= sizes.UNITS[unit]), "B")
    amount = size_bytes / sizes.UNITS[unit]
    return f"{amount:,.0f} {unit}" if amount >= 100 or unit == "B" else f"{amount:.3g} {unit}"


def rate(given: object) -> float:
    """Rows a second; ``"unlimited"`` is infinite.

    Raises:
        ValueError: says what would be right.
    """
    if given == "unlimited":
        return math.inf
    try:
        rows = float(given.replace(",", "")) if isinstance(given, str) else given
    except ValueError:
        rows = None
    if isinstance(rows, bool) or not isinstance(rows, int | float) or not 0 < rows < math.inf:
        raise ValueError(f'must be rows a second, as in 1_000_000, or "unlimited", not {shown(given)}')
    if not _LEAST_RATE <= rows <= _MOST_RATE:
        limits = f"{_LEAST_RATE:g} to {_MOST_RATE:g}"
        raise ValueError(f'must be from {limits} rows a second, or "unlimited", not {shown(given)}')
    return float(rows)


def whole(given: object, least: int = 1) -> int:
    """A whole number of at least ``least``, and at most ``MOST_COUNT``; 8_192 and 8,192 are understood in a text.

    Raises:
        ValueError: says what would be right.
    """
    try:
        count = int(given.replace(",", "")) if isinstance(given, str) else given
    except ValueError:
        count = None
    if not isinstance(count, int) or isinstance(count, bool) or count < least:
        raise ValueError(f"must be a whole number of at least {least}, not {shown(given)}")
    if count > MOST_COUNT:
        raise ValueError(f"must be at most {MOST_COUNT:,}, not {shown(given)}")
    return count


def values(given: object, read: Callable[[object], Number]) -> tuple[Number, ...]:
    """A list, ``1,16,256``, or a range, ``256..65536:x2`` or ``1..10:+3``; ``read`` understands one of them.

    Raises:
        ValueError: says what would be right.
    """
    if isinstance(given, list):
        found = tuple(map(read, given))
    elif isinstance(given, str) and (between := _RANGE.fullmatch(given.strip())):
        found = tuple(_range(read(between[1]), read(between[2]), between[3], between[4], read))
    elif isinstance(given, str):
        found = tuple(read(part.strip()) for part in given.split(",") if part.strip())
    else:
        found = (read(given),)
    if not found:
        raise ValueError(f'must name values, as in "1,16,256" or "256..65536:x2", not {shown(given)}')
    return found


def _range(
    first: Number, last: Number, sign: str | None, step: str | None, read: Callable[[object], Number]
) -> Iterator[Number]:
    if last < first:
        raise ValueError(f"must not end at {last}, which is below {first}: write {last}..{first}")
    if not sign or step is None:
        raise ValueError(f'needs a step: "{first}..{last}:x2" doubles, "{first}..{last}:+100" adds')
    try:
        factor = float(step)
    except ValueError:
        factor = 0.0
    if sign == "x" and factor <= 1:
        raise ValueError(f'must be multiplied by more than 1, as in ":x2", not {step!r}')
    if sign == "x" and not first:
        raise ValueError("cannot begin at 0 and be multiplied; name the values, or add")
    summand = read(step) if sign == "+" else first
    if sign == "+" and not summand:
        raise ValueError(f'must grow, as in ":+100", not by {step!r}')
    exact, count = float(first), 0
    while exact <= last * (1 + 1e-9):
        count += 1
        if count > _MOST_VALUES:
            raise ValueError(f"has more than {_MOST_VALUES:,} values")
        yield type(first)(round(exact) if isinstance(first, int) else exact)
        exact = exact + summand if sign == "+" else exact * factor

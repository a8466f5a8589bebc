"""What a sweep varies: ``row_count=256..65536:x2``, or the same as a key below ``[sweep]``."""

from collections.abc import Callable, Mapping

from permitflow.parameters_file.quantities import duration, rate, values, whole
from permitflow.parameters_file.sections import nearest
from permitflow.simulation.sweep import AXES, Axis

__all__ = ["AXIS_READERS", "read_axis"]

AXIS_READERS: Mapping[str, Callable[[object], float]] = {
    name: duration if name == "rtt" else rate if name.endswith("_rate") else whole for name in AXES
}
"""How one value of an axis is understood."""


def read_axis(text: str) -> Axis:
    """Understand ``NAME=VALUES``.

    Raises:
        ValueError: says what would be right.
    """
    name, equals, given = text.partition("=")
    if not equals:
        raise ValueError(f"must be NAME=VALUES, as in row_count=256..65536:x2, not {text!r}")
    if name not in AXIS_READERS:
        raise ValueError(f"{name!r} cannot be varied; {nearest(name, AXIS_READERS)}")
    return axis(name, given)


def axis(name: str, given: object) -> Axis:
    """The values of an axis.

    Raises:
        ValueError: says what would be right.
    """
    return Axis(name, values(given, AXIS_READERS[name]))

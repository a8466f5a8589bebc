"""A configuration for TLC, as text."""

from collections.abc import Mapping, Sequence

from permitflow_model.tla_values import TlaValue, format_value

__all__ = ["config_text"]


def config_text(
    constants: Mapping[str, TlaValue],
    *,
    specification: str = "Spec",
    invariants: Sequence[str] = (),
    properties: Sequence[str] = (),
) -> str:
    """What a .cfg file must say to check these formulas; deadlocks are always looked for."""
    lines = ["CONSTANTS"]
    lines += [f"    {name} = {format_value(value)}" for name, value in constants.items()]
    lines += [f"SPECIFICATION {specification}"]
    for keyword, names in (("INVARIANTS", invariants), ("PROPERTIES", properties)):
        if names:
            lines += [keyword, *(f"    {name}" for name in names)]
    return "\n".join(lines) + "\n"

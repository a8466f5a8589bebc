"""Values of the specification's variables as text."""

from permitflow.pictures.specification import camel_case
from permitflow_model.permit_channel import Message, Permits, State

__all__ = ["in_brief", "variables_of"]


def variables_of(state: State) -> dict[str, str]:
    """Each variable by its name in the specification."""
    return {camel_case(name): _value(value) for name, value in zip(State._fields, state, strict=True)}


def in_brief(state: State) -> str:
    """Only the variables that hold something."""
    shown = {
        name: text for name, text in variables_of(state).items() if text not in ("0", "-1", "FALSE", "\u27e8\u27e9")
    }
    return "\n".join(f"{name} = {text}" for name, text in shown.items())


def _value(value: object) -> str:
    if isinstance(value, bool):
        return "TRUE" if value else "FALSE"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, Permits):
        return ", ".join(f"{name} {count:,}" for name, count in value._asdict().items() if count) or "none"
    if isinstance(value, Message):
        return f"{value.cost:,}" if value.kind == "chunk" else value.kind
    assert isinstance(value, tuple)  # a queue
    return f"\u27e8{', '.join(map(_value, value))}\u27e9"

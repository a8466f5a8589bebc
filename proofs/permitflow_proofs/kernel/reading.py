"""Values in place of symbols: what a solver's witness says of states, fields and arguments."""

from collections.abc import Mapping
from enum import Enum
from typing import Any

import z3

from permitflow_proofs.kernel.symbols import Choice, Integer, Truth


def read(value: Any, witness: z3.ModelRef) -> Any:
    """The same with values in place of symbols; of what holds any number of items, how many.

    Plain data of tuples and mappings come back, which can be sent to another process.
    """
    match value:
        case Integer():
            return witness.eval(value.term, model_completion=True).as_long()
        case Truth():
            return bool(z3.is_true(witness.eval(value.term, model_completion=True)))
        case Choice():
            index = witness.eval(value.term, model_completion=True).as_long()
            return value.options[index] if 0 <= index < len(value.options) else "any"
        case None | bool() | int() | str() | Enum():
            return value
        case Mapping():
            return {name: read(part, witness) for name, part in value.items()}
        case tuple() if hasattr(value, "_make"):
            return type(value)._make(read(part, witness) for part in value)
        case tuple() | list():
            return tuple(read(part, witness) for part in value)
    if hasattr(value, "parts"):
        return {name: read(part, witness) for name, part in value.parts()}
    if hasattr(value, "size"):
        count = read(value.size(), witness)
        return f"{count} item" if count == 1 else f"{count} items"
    return type(value).__name__

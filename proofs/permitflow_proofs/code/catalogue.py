"""All theorems about the running code: those of a model's code are in the file that is named after the model."""

from importlib import import_module
from importlib.util import find_spec

from permitflow_model.registry import systems
from permitflow_model.tla_values import snake_case
from permitflow_proofs.kernel.theorem import Theorem


def catalogue() -> tuple[Theorem, ...]:
    """Every theorem about the code, each with its obligations."""
    names = (f"permitflow_proofs.code.{snake_case(name)}" for name in systems())
    return tuple(theorem for name in names if find_spec(name) for theorem in import_module(name).theorems())

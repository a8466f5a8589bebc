"""All theorems, system by system, each in the order in which they build on each other."""

from permitflow_model.registry import systems
from permitflow_proofs.kernel.theorem import Theorem


def catalogue() -> tuple[Theorem, ...]:
    """Every theorem, each with its obligations."""
    return tuple(theorem for registered in systems().values() for theorem in registered.load_theorems())

"""All theorems, system by system, each in the order in which they build on each other."""

from permitflow_model.registry import counterpart, systems
from permitflow_proofs.kernel.theorem import Theorem

__all__ = ["catalogue"]


def catalogue() -> tuple[Theorem, ...]:
    """Every theorem, each with the obligations that make it one: what the modules named after systems define."""
    modules = (counterpart("permitflow_proofs", name) for name in systems())
    return tuple(theorem for module in modules if module is not None for theorem in module.theorems())

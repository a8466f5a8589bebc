"""The models of the manifest, as far as the explorer can check them: without Java, and without temporal properties."""

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from permitflow_model import spark_micro_batch
from permitflow_model.kernel.explore import Graph, Violation, explore
from permitflow_model.kernel.system import System
from permitflow_model.manifest import DEADLOCK, SUCCESS, ManifestError, Model, Verdict
from permitflow_model.permit_channel import PROBES, SYSTEM, Parameters
from permitflow_model.spark_micro_batch import PROBES as SPARK_PROBES
from permitflow_model.tla_values import TlaValue

__all__ = ["SYSTEMS", "Exploration", "explore_model", "is_explorable", "parameters_for", "parameters_of"]

P = TypeVar("P")

SYSTEMS: Mapping[str, System[Any, Any]] = {
    system.module: system for system in (SYSTEM, PROBES, spark_micro_batch.SYSTEM, SPARK_PROBES)
}
"""The modules that have a counterpart in Python; each has states and parameters of its own."""

_SPARK = (spark_micro_batch.SYSTEM.module, SPARK_PROBES.module)

_ONLY_FOR_TLC = frozenset({"Fair"})


@dataclass(frozen=True)
class Exploration:
    """What the explorer found."""

    verdict: Verdict
    states: int
    depth: int
    graph: Graph[Any]

    @property
    def counterexample(self) -> Violation[Any] | None:
        """The shortest run into what the verdict names; None if nothing is violated."""
        return self.graph.violations[0] if self.graph.violations else self.graph.deadlock


def is_explorable(model: Model) -> bool:
    """Can the explorer give the verdict, too?  It knows no temporal property, and not every module."""
    return model.module in SYSTEMS and not model.properties


def parameters_of(constants: Mapping[str, TlaValue]) -> Parameters:
    """The constants of ``PermitChannel`` as the model takes them; fairness is nothing that it knows.

    Raises:
        ManifestError: a constant is missing, unknown, or out of its range.
    """
    return _made(Parameters, constants)


def parameters_for(model: Model) -> Any:
    """The constants of a model as its system in Python takes them.

    Raises:
        ManifestError: as ``parameters_of``.
    """
    return _made(spark_micro_batch.Parameters if model.module in _SPARK else Parameters, model.constants)


def _made(make: Callable[..., P], constants: Mapping[str, TlaValue]) -> P:
    arguments = {_snake_case(name): value for name, value in constants.items() if name not in _ONLY_FOR_TLC}
    sizes = arguments.get("sizes")
    row_counts = [rows for rows in sizes if isinstance(rows, int)] if isinstance(sizes, frozenset) else []
    if not isinstance(sizes, frozenset) or len(row_counts) < len(sizes):
        raise ManifestError(f"Sizes must be a set of row counts, not {sizes!r}")
    arguments["sizes"] = tuple(sorted(row_counts))
    try:
        return make(**arguments)
    except (TypeError, ValueError) as error:
        raise ManifestError(f"the constants {dict(constants)!r} do not fit: {error}") from None


def explore_model(model: Model) -> Exploration:
    """Explore a model, up to the first violation as TLC does.  Its temporal properties are not checked.

    Raises:
        ManifestError: the module has no counterpart in Python, or the constants or invariants do not fit it.
        StateLimitReached: the model is too large for the explorer.
    """
    if model.module not in SYSTEMS:
        raise ManifestError(f"model {model.name!r}: {model.module} has no counterpart in Python; only TLC can check it")
    system = SYSTEMS[model.module]
    if unknown := [name for name in model.invariants if name not in system.invariants]:
        raise ManifestError(f"model {model.name!r}: {model.module} has no invariant {unknown[0]!r} in Python")
    graph = explore(
        system,
        parameters_for(model),
        invariants={name: system.invariants[name] for name in model.invariants},
        stop_at_violation=True,
    )
    verdict = SUCCESS
    if graph.violations:
        verdict = Verdict("invariant", graph.violations[0].invariant)
    elif graph.deadlock is not None:
        verdict = DEADLOCK
    return Exploration(verdict, graph.state_count, graph.depth, graph)


def _snake_case(name: str) -> str:
    return re.sub(r"(?<!^)(?=[A-Z])", "_", name).lower()

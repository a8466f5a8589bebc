"""The models of the manifest, as far as the explorer can check them: without Java, and without temporal properties."""

from dataclasses import dataclass
from typing import Any

from permitflow_model.kernel.explore import Graph, Violation, explore
from permitflow_model.kernel.system import System
from permitflow_model.manifest import DEADLOCK, SUCCESS, ManifestError, Model, ModelVerdict
from permitflow_model.mistakes import mistakes_in, named_after_mistakes
from permitflow_model.registry import Registered, system_of
from permitflow_model.tla_values import TlaValue, snake_case

_ONLY_FOR_TLC = frozenset({"Fair"})


@dataclass(frozen=True)
class Exploration:
    """What the explorer found."""

    verdict: ModelVerdict
    states: int
    depth: int
    graph: Graph[Any]

    @property
    def counterexample(self) -> Violation[Any] | None:
        """The shortest run into the violation; None if nothing is violated."""
        return self.graph.violations[0] if self.graph.violations else self.graph.deadlock


def is_explorable(model: Model) -> bool:
    """Can the explorer check this model?  It has no temporal properties, and no model of some modules."""
    return system_of(model.module) is not None and not model.properties


def parameters_for(model: Model) -> Any:
    """The constants of a model as parameters of its Python system; fairness constants are left out.

    Raises:
        ManifestError: a constant is missing, unknown, or out of its range, or the module has no counterpart in Python.
    """
    make = _registered(model).parameters
    constants = {name: value for name, value in model.constants.items() if name not in _ONLY_FOR_TLC}
    try:
        return make(**{snake_case(name): _argument(value) for name, value in constants.items()})
    except (TypeError, ValueError) as error:
        raise ManifestError(f"the constants {dict(model.constants)!r} do not fit: {error}") from None


def system_for(model: Model) -> System[Any, Any]:
    """The system of a model, with the wrong actions that the model puts in the place of right ones.

    Raises:
        ManifestError: the module has no counterpart in Python, or there is no such mistake.
    """
    system = _registered(model).system
    if not model.actions:
        return system
    known = mistakes_in(system.module)
    chosen = [known.get(wrong) for wrong in model.actions.values()]
    for (right, wrong), mistake in zip(model.actions.items(), chosen, strict=True):
        if mistake is None or mistake.action != right:
            raise ManifestError(f"model {model.name!r}: in Python no mistake {wrong!r} is made in {right!r}")
    return named_after_mistakes(system, *(mistake for mistake in chosen if mistake is not None))


def _argument(value: TlaValue) -> object:
    """Sets of numbers are tuples in Python, in their order."""
    if isinstance(value, frozenset) and all(isinstance(member, int) for member in value):
        return tuple(sorted(member for member in value if isinstance(member, int)))
    return value


def _registered(model: Model) -> Registered:
    found = system_of(model.module)
    if found is None:
        raise ManifestError(f"model {model.name!r}: {model.module} has no counterpart in Python; only TLC can check it")
    return found


def explore_model(model: Model) -> Exploration:
    """Explore a model, up to the first violation as TLC does.  Its temporal properties are not checked.

    Raises:
        ManifestError: the module has no counterpart in Python, or the constants or invariants do not fit it.
        StateLimitReached: the model is too large for the explorer.
    """
    system = system_for(model)
    if unknown := [name for name in model.invariants if name not in system.statements]:
        raise ManifestError(f"model {model.name!r}: {model.module} has no invariant {unknown[0]!r} in Python")
    graph = explore(
        system,
        parameters_for(model),
        invariants={name: system.statements[name] for name in model.invariants},
        stop_at_violation=True,
    )
    verdict = SUCCESS
    if graph.violations:
        verdict = ModelVerdict("invariant", graph.violations[0].invariant)
    elif graph.deadlock is not None:
        verdict = DEADLOCK
    return Exploration(verdict, graph.state_count, graph.depth, graph)

"""Check the models of the manifest: by TLC, or without Java by the explorer as far as that goes."""

import time
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Literal, TypeAlias

from permitflow_model.compare import LabelledGraph, first_difference, graph_of_model
from permitflow_model.exploration import explore_model, is_explorable
from permitflow_model.kernel.explore import StateLimitReached
from permitflow_model.manifest import ManifestError, Model, find_spec_directory, read_manifest
from permitflow_model.tlc.install import find_jar, find_java
from permitflow_model.tlc.output import TlcError, TlcResult
from permitflow_model.tlc.run import run_tlc
from permitflow_model.verdict import Verdict

__all__ = [
    "Engine",
    "ModelResult",
    "check_by_explorer",
    "check_by_tlc",
    "graph_difference",
    "run_manifest",
    "run_model",
]

Engine: TypeAlias = Literal["tlc", "explorer"]


@dataclass(frozen=True, kw_only=True)
class ModelResult:
    """What became of one model."""

    name: str
    reason: str
    engine: Engine
    expected: Verdict

    got: Verdict | None
    """None: no verdict; ``problem`` says why."""

    states: int
    """Distinct states found."""

    depth: int
    """States on the longest shortest path."""

    seconds: float
    problem: str | None
    """Why the result is not the recorded one; None if it is."""

    graphs_equal: bool | None = None
    """Are the model's graph and TLC's equal?  None: not compared."""

    @property
    def ok(self) -> bool:
        """Did exactly the recorded verdict, states and depth come out?"""
        return self.problem is None


def run_manifest(
    *,
    engine: Engine = "tlc",
    names: Collection[str] | None = None,
    compare_graphs: bool = False,
    parallel: int = 1,
    spec_directory: Path | None = None,
    timeout_seconds: float = 120,
) -> Iterator[ModelResult]:
    """Check models and yield one result each, in the manifest's order, as soon as it is there.

    Args:
        engine: ``tlc`` checks everything; ``explorer`` needs no Java and checks what ``is_explorable`` says.
        names: only these models; by default all that the engine can check.
        compare_graphs: with TLC, also compare the state graphs of models with ``graph = true``.
        parallel: runs of TLC at a time.
        spec_directory: where manifest and modules are; found by itself by default.
        timeout_seconds: the most that one run of TLC may take.

    Raises:
        ManifestError: the manifest cannot be used, or a name is not in it, or the explorer cannot check it.
        TlcNotFoundError: Java or TLC is missing.
    """
    directory = spec_directory or find_spec_directory()
    models = _choose(read_manifest(directory), engine, names)
    if engine == "explorer":
        return map(check_by_explorer, models)
    find_java(), find_jar()
    check = partial(
        check_by_tlc, spec_directory=directory, compare_graphs=compare_graphs, timeout_seconds=timeout_seconds
    )
    return _in_parallel(check, models, parallel)


def _in_parallel(
    check: Callable[[Model], ModelResult], models: Iterable[Model], parallel: int
) -> Iterator[ModelResult]:
    pool = ThreadPoolExecutor(parallel, thread_name_prefix="tlc")
    try:
        yield from pool.map(check, models)
    finally:
        # Whoever stops reading early does not wait for models that have not begun.
        pool.shutdown(cancel_futures=True)


def _choose(models: Mapping[str, Model], engine: Engine, names: Collection[str] | None) -> list[Model]:
    if names is None:
        return [model for model in models.values() if engine == "tlc" or is_explorable(model)]
    for name in names:
        if name not in models:
            raise ManifestError(f"the manifest has no model {name!r}; it has {', '.join(models)}")
        if engine == "explorer" and not is_explorable(models[name]):
            raise ManifestError(f"the explorer cannot check {name!r} (temporal properties or history); TLC can")
    return [model for model in models.values() if model.name in names]


def check_by_explorer(model: Model) -> ModelResult:
    """Check one model that ``is_explorable``."""
    start = time.monotonic()
    try:
        found = explore_model(model)
    except (ManifestError, StateLimitReached) as error:
        return _without_verdict(model, "explorer", str(error), time.monotonic() - start)
    return ModelResult(
        name=model.name,
        reason=model.reason,
        engine="explorer",
        expected=model.expect,
        got=found.verdict,
        states=found.states,
        depth=found.depth,
        seconds=time.monotonic() - start,
        problem=_problem(model, found.verdict, found.states, found.depth),
    )


def check_by_tlc(
    model: Model, *, spec_directory: Path, compare_graphs: bool = False, timeout_seconds: float = 120
) -> ModelResult:
    """Check one model by TLC.

    Raises:
        TlcNotFoundError: Java or TLC is missing.
    """
    start = time.monotonic()
    dump_graph = compare_graphs and model.graph
    try:
        found = run_model(model, spec_directory=spec_directory, dump_graph=dump_graph, timeout_seconds=timeout_seconds)
    except TlcError as error:
        return _without_verdict(model, "tlc", str(error), time.monotonic() - start)
    difference = None if found.graph is None else graph_difference(model, found.graph)
    return ModelResult(
        name=model.name,
        reason=model.reason,
        engine="tlc",
        expected=model.expect,
        got=found.verdict,
        states=found.states,
        depth=found.depth,
        seconds=time.monotonic() - start,
        problem=_problem(model, found.verdict, found.states, found.depth) or difference,
        graphs_equal=None if found.graph is None else difference is None,
    )


def run_model(
    model: Model, *, spec_directory: Path, dump_graph: bool = False, timeout_seconds: float = 120
) -> TlcResult:
    """Run TLC on one model.

    Raises:
        TlcNotFoundError: Java or TLC is missing.
        TlcError: TLC came to no verdict.
    """
    return run_tlc(
        model.module,
        model.config(),
        spec_directory=spec_directory,
        properties=model.properties,
        dump_graph=dump_graph,
        timeout_seconds=timeout_seconds,
    )


def graph_difference(model: Model, dumped: LabelledGraph) -> str | None:
    """How TLC's graph of a model differs from the explorer's; None if they are equal.

    Raises:
        ManifestError: the module has no counterpart in Python.
        StateLimitReached: the model is too large for the explorer.
    """
    return first_difference(graph_of_model(explore_model(model).graph), dumped)


def _without_verdict(model: Model, engine: Engine, problem: str, seconds: float) -> ModelResult:
    return ModelResult(
        name=model.name,
        reason=model.reason,
        engine=engine,
        expected=model.expect,
        got=None,
        states=0,
        depth=0,
        seconds=seconds,
        problem=problem,
    )


def _problem(model: Model, verdict: Verdict, states: int, depth: int) -> str | None:
    recorded = (model.expect, model.states, model.depth)
    if (verdict, states, depth) == recorded:
        return None
    return (
        f"recorded: {model.expect}, {model.states} states, depth {model.depth}; "
        f"found: {verdict}, {states} states, depth {depth}"
    )

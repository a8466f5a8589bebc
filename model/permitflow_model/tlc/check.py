"""Check the models of the manifest: by TLC, by the explorer where it can, or by both, compared with each other."""

import time
from collections import deque
from collections.abc import Callable, Collection, Generator, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Literal, TypeAlias

from permitflow_model.exploration import explore_model, is_explorable
from permitflow_model.kernel.explore import StateLimitReached, Violation
from permitflow_model.manifest import ManifestError, Model, ModelVerdict, find_spec_directory, read_manifest
from permitflow_model.side_by_side import result_of
from permitflow_model.tlc.graphs import LabelledGraph, first_difference, graph_of_model
from permitflow_model.tlc.output import TlcError, TlcResult
from permitflow_model.tlc.run import TlcOutput, TlcProcesses, find_jar, find_java, output_of_tlc

Engine: TypeAlias = Literal["tlc", "explorer", "both"]


@dataclass(frozen=True, kw_only=True)
class Finding:
    """One engine's findings about one model."""

    engine: Literal["tlc", "explorer"]

    verdict: ModelVerdict | None
    """None: it reached none; the result's problems say why."""

    states: int
    """Distinct states found."""

    depth: int
    """States on the longest shortest path."""

    seconds: float

    counterexample: Violation[Any] | None = None
    """What the explorer found: a shortest run into the violation."""


@dataclass(frozen=True, kw_only=True)
class ModelResult:
    """The result of checking one model."""

    model: Model
    findings: tuple[Finding, ...]
    """One per engine; none if only TLC could check the model, and was not asked to."""

    graphs_equal: bool | None
    """Are the model's state graph and TLC's equal?  None: they were not compared."""

    problems: tuple[str, ...]
    """The differences between the findings and the manifest; empty if there are none."""

    @property
    def is_checked(self) -> bool:
        """Did any engine check it?"""
        return bool(self.findings)

    @property
    def ok(self) -> bool:
        """Do all findings agree with the record?"""
        return not self.problems


def run_manifest(
    *,
    engine: Engine = "both",
    names: Collection[str] | None = None,
    parallel: int = 1,
    spec_directory: Path | None = None,
    timeout_seconds: float = 120,
) -> Generator[ModelResult, None, None]:
    """Check models and yield one result each, in the manifest's order, as soon as it is there.

    To stop before the last result, close the iterator: that ends the running checks.

    Args:
        engine: ``explorer`` needs no Java, but leaves temporal properties and some modules unchecked; ``tlc`` checks
            everything; ``both`` also compares the state graphs of the models with ``graph = true``.
        names: only these models.
        parallel: how many runs of TLC at a time; the explorer takes one model after the other.
        spec_directory: where manifest and modules are; found by itself by default.
        timeout_seconds: the most that one run of TLC may take.

    Raises:
        ManifestError: the manifest cannot be used, or a name is not in it.
        TlcNotFoundError: Java or TLC is missing, and the engine needs it.
    """
    directory = spec_directory or find_spec_directory()
    models = _choose(read_manifest(directory), names)
    if engine != "explorer":
        find_java()
        find_jar()
    run = partial(_output_of, engine=engine, spec_directory=directory, timeout_seconds=timeout_seconds)
    if engine == "explorer":
        return (_checked(model, engine, None) for model in models)
    return _beside_tlc(run, models, engine, parallel)


def check_model(model: Model, *, engine: Engine, spec_directory: Path, timeout_seconds: float = 120) -> ModelResult:
    """Check one model and compare the findings with its record.

    Raises:
        TlcNotFoundError: Java or TLC is missing, and the engine needs it.
    """
    run = partial(
        _output_of,
        model,
        TlcProcesses(),
        engine=engine,
        spec_directory=spec_directory,
        timeout_seconds=timeout_seconds,
    )
    return _checked(model, engine, None if engine == "explorer" else run)


def run_model(
    model: Model, *, spec_directory: Path, dump_graph: bool = False, timeout_seconds: float = 120
) -> TlcResult:
    """Run TLC on one model.

    Raises:
        TlcNotFoundError: Java or TLC is missing.
        TlcError: TLC came to no verdict.
    """
    output = output_of_tlc(
        model.module,
        model.config(),
        spec_directory=spec_directory,
        dump_graph=dump_graph,
        timeout_seconds=timeout_seconds,
        processes=TlcProcesses(),
    )
    return output.read(model.properties)


@dataclass(frozen=True)
class _Checked:
    finding: Finding
    graph: LabelledGraph | None = None
    failure: str | None = None

    def problems(self, model: Model) -> Iterator[str]:
        if self.failure is not None:
            yield f"{self.finding.engine}: {self.failure}"
            return
        for what, found, recorded in (
            ("the verdict", self.finding.verdict, model.expect),
            ("the number of states", self.finding.states, model.states),
            ("the depth", self.finding.depth, model.depth),
        ):
            if found != recorded:
                yield f"{self.finding.engine}: {what} is {found}, the manifest says {recorded}"


def _output_of(
    model: Model, processes: TlcProcesses, *, engine: Engine, spec_directory: Path, timeout_seconds: float
) -> TlcOutput:
    return output_of_tlc(
        model.module,
        model.config(),
        spec_directory=spec_directory,
        dump_graph=_needs_graph(model, engine),
        timeout_seconds=timeout_seconds,
        processes=processes,
    )


def _needs_graph(model: Model, engine: Engine) -> bool:
    return engine == "both" and model.graph


def _checked(model: Model, engine: Engine, output_of: Callable[[], TlcOutput] | None) -> ModelResult:
    """Explore if asked to, then get TLC's result, and compare both with the record."""
    checks: list[_Checked] = []
    if engine != "tlc" and is_explorable(model):
        checks.append(_by_explorer(model, with_graph=_needs_graph(model, engine)))
    if output_of is not None:
        checks.append(_by_tlc(model, output_of))
    problems = [problem for check in checks for problem in check.problems(model)]
    graphs = [check.graph for check in checks if check.graph is not None]
    difference = first_difference(*graphs) if len(graphs) == 2 else None
    return ModelResult(
        model=model,
        findings=tuple(check.finding for check in checks),
        graphs_equal=difference is None if len(graphs) == 2 else None,
        problems=(*problems, difference) if difference is not None else tuple(problems),
    )


def _by_explorer(model: Model, *, with_graph: bool) -> _Checked:
    start = time.monotonic()
    try:
        found = explore_model(model)
    except (ManifestError, StateLimitReached) as error:
        return _failed("explorer", error, time.monotonic() - start)
    finding = Finding(
        engine="explorer",
        verdict=found.verdict,
        states=found.states,
        depth=found.depth,
        seconds=time.monotonic() - start,
        counterexample=found.counterexample,
    )
    return _Checked(finding, graph_of_model(found.graph) if with_graph else None)


def _by_tlc(model: Model, output_of: Callable[[], TlcOutput]) -> _Checked:
    start = time.monotonic()
    try:
        found = output_of().read(model.properties)
    except TlcError as error:
        return _failed("tlc", error, time.monotonic() - start)
    finding = Finding(
        engine="tlc", verdict=found.verdict, states=found.states, depth=found.depth, seconds=found.seconds
    )
    return _Checked(finding, found.graph)


def _failed(engine: Literal["tlc", "explorer"], error: Exception, seconds: float) -> _Checked:
    return _Checked(Finding(engine=engine, verdict=None, states=0, depth=0, seconds=seconds), failure=str(error))


def _choose(models: Mapping[str, Model], names: Collection[str] | None) -> list[Model]:
    for name in names or ():
        if name not in models:
            raise ManifestError(f"the manifest has no model {name!r}; it has {', '.join(models)}")
    return [model for model in models.values() if names is None or model.name in names]


def _beside_tlc(
    run: Callable[[Model, TlcProcesses], TlcOutput], models: Sequence[Model], engine: Engine, parallel: int
) -> Generator[ModelResult, None, None]:
    """Let threads wait for TLC; this thread, which Ctrl-C can interrupt, does everything else."""
    processes = TlcProcesses()
    pool = ThreadPoolExecutor(parallel, thread_name_prefix="tlc")
    coming: deque[Future[TlcOutput]] = deque()
    try:
        for position, model in enumerate(models):
            # Not all at once, because TLC's output is kept until it is read.
            for later in models[position + len(coming) : position + 2 * parallel]:
                coming.append(pool.submit(run, later, processes))
            yield _checked(model, engine, partial(result_of, coming.popleft()))
    finally:
        processes.end()
        pool.shutdown(cancel_futures=True)

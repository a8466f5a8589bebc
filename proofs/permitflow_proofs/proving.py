"""Many theorems at once, obligation by obligation, in several processes."""

import os
from collections.abc import Collection, Generator, Iterator, Sequence
from contextlib import closing
from functools import cache
from itertools import islice
from pkgutil import resolve_name

from permitflow_model.side_by_side import in_processes
from permitflow_proofs.kernel.theorem import Examined, Solvers, Theorem, TheoremVerdict, examine, prove

MODELS = "permitflow_proofs.catalogue:catalogue"
CODE = "permitflow_proofs.code.catalogue:catalogue"
"""By name: who proves nothing about the running code need not load it."""


def usable_processors() -> int:
    """How many processors this process may use."""
    if hasattr(os, "sched_getaffinity"):  # not on macOS, not on Windows
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def prove_catalogue(
    names: Collection[str] | None = None,
    *,
    solvers: Solvers = "z3",
    processes: int | None = None,
    catalogues: Sequence[str] = (MODELS,),
) -> Generator[TheoremVerdict, None, None]:
    """Prove theorems of the catalogues, in their order; yields each verdict as soon as it is there.

    ``names``: of the theorems; None: all.  ``processes``: as many as there are processors by default.  ``catalogues``:
    about the models, the running code, or both.

    Raises:
        ModuleNotFoundError: cvc5 is wanted, and not installed.
        concurrent.futures.process.BrokenProcessPool: a process was killed, perhaps for want of memory.
    """
    theorems = [theorem for theorem in theorems_of(*catalogues) if names is None or theorem.id in names]
    processes = usable_processors() if processes is None else processes
    if processes < 2 or len(theorems) < 2:
        for theorem in theorems:
            yield prove(theorem, solvers)
        return
    yield from _in_parallel(theorems, solvers, processes, catalogues)


def theorems_of(*catalogues: str) -> tuple[Theorem, ...]:
    """The theorems of these catalogues."""
    return tuple(theorem for name in catalogues for theorem in resolve_name(name)())


def _in_parallel(
    theorems: list[Theorem], solvers: Solvers, processes: int, catalogues: Sequence[str]
) -> Iterator[TheoremVerdict]:
    tasks = [
        (theorem.id, index, solvers, tuple(catalogues))
        for theorem in theorems
        for index in range(len(theorem.obligations))
    ]
    with closing(in_processes(_examine, *zip(*tasks, strict=True), processes=processes)) as results:
        for theorem in theorems:
            examined = tuple(islice(results, len(theorem.obligations)))
            yield TheoremVerdict(theorem=theorem, examined=examined, solvers=solvers)


@cache
def _theorems(catalogues: tuple[str, ...]) -> dict[str, Theorem]:
    return {theorem.id: theorem for theorem in theorems_of(*catalogues)}


def _examine(name: str, index: int, solvers: Solvers, catalogues: tuple[str, ...]) -> Examined:
    return examine(_theorems(catalogues)[name].obligations[index], solvers)

"""Deliberate mistakes in a copy of the specification, and the check that notices each.

An invariant, a temporal property, TLC's deadlock check, or the comparison with the model's state graph.  A change of
fairness changes no graph, so that only a temporal property can notice it.
"""

import shutil
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

from permitflow_model.exploration import explore_model
from permitflow_model.manifest import (
    ManifestError,
    Model,
    Table,
    find_spec_directory,
    module_paths,
    parts_of,
    read_manifest,
)
from permitflow_model.tla_values import TlaValue
from permitflow_model.tlc.check import run_model
from permitflow_model.tlc.graphs import first_difference, graph_of_model

BY_GRAPH = "graph"
"""All that is checked still holds, but the state graph is not the model's."""

UNNOTICED = "success"

_KEYS = {"name", "lesson", "edits", "constants", "model", "invariants", "properties", "expect"}


@dataclass(frozen=True)
class Edit:
    """A text that occurs once in a module, or in those that it extends, and its replacement."""

    old: str
    new: str
    file: str

    def apply(self, directory: Path) -> None:
        """Change the module in this folder.

        Raises:
            ManifestError: the text does not occur exactly once.
        """
        paths = parts_of(self.file.removesuffix(".tla"), module_paths(directory)).values()
        texts = {path: path.read_text(encoding="utf-8") for path in paths}
        if (times := sum(text.count(self.old) for text in texts.values())) != 1:
            raise ManifestError(f"{self.file}: must stand there once, but stands {times} times: {self.old}")
        for path, text in texts.items():
            path.write_text(text.replace(self.old, self.new), encoding="utf-8")


@dataclass(frozen=True, kw_only=True)
class Mutant:
    """One mistake, and the check that must notice it."""

    name: str
    lesson: str
    """A real system with this mistake; empty if we know of none."""

    edits: tuple[Edit, ...]
    constants: Mapping[str, TlaValue]
    """Constants that are configured wrongly: the mistake is in the numbers."""

    model: str
    """The model of the manifest in which it is to be noticed."""

    invariants: tuple[str, ...] | None
    """Only these are checked; None: those of the model."""

    properties: tuple[str, ...] | None
    expect: str
    """``invariant NAME``, ``property NAME``, ``deadlock`` or ``graph``; ``success``: this model cannot notice it."""

    @property
    def is_control(self) -> bool:
        """Does it only show that this model is not enough?  Then another model must notice the same mistake."""
        return self.expect == UNNOTICED

    def applied_to(self, model: Model) -> Model:
        """The model with this mutant's changes."""
        return replace(
            model,
            constants={**model.constants, **self.constants},
            invariants=model.invariants if self.invariants is None else self.invariants,
            properties=model.properties if self.properties is None else self.properties,
        )


@dataclass(frozen=True)
class Outcome:
    """The result of trying a mutant."""

    mutant: Mutant
    noticed_by: str
    """As in ``Mutant.expect``; ``success`` if nothing noticed it."""

    seconds: float

    @property
    def is_survivor(self) -> bool:
        """Did nothing notice a mistake that must be noticed?"""
        return self.noticed_by == UNNOTICED and not self.mutant.is_control

    @property
    def is_as_expected(self) -> bool:
        """Did the check in the list notice it?"""
        return self.noticed_by == self.mutant.expect


def read_mutants(path: Path, models: Mapping[str, Model]) -> list[Mutant]:
    """Read a list of mutants, or all lists in a folder; each is named after the module that it changes.

    Raises:
        ManifestError: one cannot be used.
    """
    mutants = [mutant for file in (sorted(path.glob("*.toml")) if path.is_dir() else [path]) for mutant in _read(file)]
    for number, mutant in enumerate(mutants):
        if mutant.model not in models:
            raise ManifestError(f"mutant {mutant.name!r}: the manifest has no model {mutant.model!r}")
        if mutant.name in {other.name for other in mutants[:number]}:
            raise ManifestError(f"two mutants are called {mutant.name!r}; give each a name of its own")
        if mutant.is_control and not any(_is_noticed_twin(mutant, other) for other in mutants):
            raise ManifestError(f"mutant {mutant.name!r} expects success, but no other entry notices the same edits")
    return mutants


def run_mutants(
    mutants: Sequence[Mutant], *, spec_directory: Path | None = None, parallel: int = 1
) -> Iterator[Outcome]:
    """Try mutants and yield the result of each, in their order, as soon as it is known.

    Raises:
        ManifestError: an edit does not fit the text.
        TlcNotFoundError: Java or TLC is missing.
        TlcError: TLC came to no verdict: the mutant is not a specification any more.
    """
    directory = spec_directory or find_spec_directory()
    models = read_manifest(directory)
    pool = ThreadPoolExecutor(parallel, thread_name_prefix="mutant")
    try:
        yield from pool.map(partial(try_mutant, models=models, spec_directory=directory), mutants)
    finally:
        pool.shutdown(cancel_futures=True)


def try_mutant(mutant: Mutant, *, models: Mapping[str, Model], spec_directory: Path) -> Outcome:
    """Check a copy of the specification that has the mistake.

    Raises:
        ManifestError, TlcNotFoundError, TlcError: as ``run_mutants``.
    """
    model = mutant.applied_to(models[mutant.model])
    by_graph = mutant.expect == BY_GRAPH
    with tempfile.TemporaryDirectory(prefix="permitflow-mutant-") as name:
        folder = Path(name)
        for path in module_paths(spec_directory).values():
            shutil.copy(path, folder)
        for edit in mutant.edits:
            edit.apply(folder)
        found = run_model(model, spec_directory=folder, dump_graph=by_graph)
    noticed_by = str(found.verdict)
    if noticed_by == UNNOTICED and found.graph is not None:
        original = graph_of_model(explore_model(models[mutant.model]).graph)
        noticed_by = UNNOTICED if first_difference(original, found.graph) is None else BY_GRAPH
    return Outcome(mutant, noticed_by, found.seconds)


def _read(path: Path) -> list[Mutant]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except (OSError, tomllib.TOMLDecodeError) as error:
        raise ManifestError(f"{path} is no list of mutants: {error}") from None
    entries = Table(content, where=str(path), known={"mutant"}).tables("mutant")
    return [
        _mutant(Table(entry, where=f"mutant {entry.get('name')!r}", known=_KEYS), f"{path.stem}.tla")
        for entry in entries
    ]


def _mutant(table: Table, file: str) -> Mutant:
    mutant = Mutant(
        name=table.text("name"),
        lesson=table.text("lesson") if table.has("lesson") else "",
        edits=tuple(
            _edit(Table(edit, where=table.where, known={"file", "old", "new"}), file) for edit in _edits(table)
        ),
        constants=table.values("constants"),
        model=table.text("model"),
        invariants=table.names("invariants") if table.has("invariants") else None,
        properties=table.names("properties") if table.has("properties") else None,
        expect=table.text("expect"),
    )
    if not mutant.edits and not mutant.constants:
        raise ManifestError(f"{table.where} changes nothing; give it edits or constants")
    return mutant


def _edits(table: Table) -> list[dict[str, object]]:
    return table.tables("edits") if table.has("edits") else []


def _edit(table: Table, file: str) -> Edit:
    return Edit(table.text("old"), table.text("new"), table.text("file") if table.has("file") else file)


def _is_noticed_twin(control: Mutant, other: Mutant) -> bool:
    return (other.edits, other.constants) == (control.edits, control.constants) and not other.is_control

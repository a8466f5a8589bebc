"""``spec/manifest.toml``: the one record of all models that are checked, and of what comes out."""

import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from permitflow_model.tla_config import config_text
from permitflow_model.tla_values import TlaValue
from permitflow_model.toml_table import ManifestError, Table
from permitflow_model.verdict import Verdict

__all__ = ["ManifestError", "Model", "find_spec_directory", "read_manifest"]

_FILE = "manifest.toml"
_MODULE_KEYS = {"like", "specification", "constants", "invariants"}
_MODEL_KEYS = _MODULE_KEYS - {"like"} | {"name", "reason", "module", "properties", "expect", "states", "depth", "graph"}


@dataclass(frozen=True, kw_only=True)
class Model:
    """One model: a module with constants, what is checked, and what must come out."""

    name: str
    reason: str
    """Why this model exists, in one line."""

    module: str
    specification: str
    constants: Mapping[str, TlaValue]
    """All constants by their names in TLA+, the module's defaults included."""

    invariants: tuple[str, ...]
    properties: tuple[str, ...]
    """Temporal properties; only TLC can check them."""

    expect: Verdict
    states: int
    """Distinct states that are found until the verdict is known: all, unless an invariant or a deadlock stops it."""

    depth: int
    """States on the longest shortest path up to there; for a broken invariant, on the shortest counterexample."""

    graph: bool
    """Must the model's state graph and TLC's be equal?"""

    def config(self) -> str:
        """The .cfg file for TLC."""
        return config_text(
            self.constants,
            specification=self.specification,
            invariants=self.invariants,
            properties=self.properties,
        )


def find_spec_directory() -> Path:
    """The specification: ``spec/`` of a checkout, or its copy in an installed wheel.

    Raises:
        ManifestError: it is in neither place.
    """
    package = Path(__file__).resolve().parent
    places = (package.parents[1] / "spec", package.parent / "permitflow_spec")
    for place in places:
        if (place / _FILE).is_file():
            return place
    raise ManifestError(f"no {_FILE} in {' or '.join(map(str, places))}; reinstall permitflow")


def read_manifest(spec_directory: Path | None = None) -> dict[str, Model]:
    """All models by name, in the order of the file.

    Raises:
        ManifestError: the file is missing, not TOML, or does not say what a manifest must say.
    """
    path = (spec_directory or find_spec_directory()) / _FILE
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise ManifestError(f"there is no {path}") from None
    except tomllib.TOMLDecodeError as error:
        raise ManifestError(f"{path} is not TOML: {error}") from None
    manifest = Table(content, where=str(path), known={"module", "model"})
    modules = {
        name: Table(table, where=f"module {name!r}", known=_MODULE_KEYS)
        for name, table in manifest.named_tables("module").items()
    }
    models: dict[str, Model] = {}
    for entry in manifest.tables("model"):
        model = _model(Table(entry, where=f"model {entry.get('name', entry)!r}", known=_MODEL_KEYS), modules)
        if model.name in models:
            raise ManifestError(f"two models are called {model.name!r}; give each a name of its own")
        models[model.name] = model
    return models


def _model(table: Table, modules: Mapping[str, Table]) -> Model:
    module = table.text("module")
    chain = [table, *_defaults(table.where, module, modules)]
    model = Model(
        name=table.text("name"),
        reason=table.text("reason"),
        module=module,
        specification=_first_with("specification", chain).text("specification"),
        constants={name: value for part in reversed(chain) for name, value in part.values("constants").items()},
        invariants=_first_with("invariants", chain).names("invariants"),
        properties=table.names("properties"),
        expect=_verdict(table),
        states=table.positive("states"),
        depth=table.positive("depth"),
        graph=table.flag("graph"),
    )
    checked = {"invariant": model.invariants, "property": model.properties}.get(model.expect.kind, ())
    if model.expect.name is not None and model.expect.name not in checked:
        raise ManifestError(f"{table.where} expects {model.expect}, but does not check {model.expect.name}")
    if model.expect.kind == "property" and len(model.properties) > 1:
        raise ManifestError(f"{table.where} expects {model.expect}; TLC names it for sure only if it is the only one")
    return model


def _defaults(where: str, module: str, modules: Mapping[str, Table]) -> list[Table]:
    chain: list[Table] = []
    name: str | None = module
    while name is not None:
        if name not in modules or modules[name] in chain:
            raise ManifestError(f"{where} needs the defaults of a [module.{name}], which is missing or like itself")
        chain.append(modules[name])
        name = chain[-1].text("like") if chain[-1].has("like") else None
    return chain


def _first_with(key: str, chain: list[Table]) -> Table:
    return next((table for table in chain if table.has(key)), chain[0])


def _verdict(table: Table) -> Verdict:
    try:
        return Verdict.parse(table.text("expect"))
    except ValueError as error:
        raise ManifestError(f"{table.where}, expect: {error}") from None

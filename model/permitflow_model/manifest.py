"""The manifest, ``spec/*/models.toml``: the record of all checked models and their expected results.

Each protocol has a folder of its own, with its modules and its models.  Each key of a table is checked, with an error
that names it.  A verdict is the same for the explorer and for TLC.  A place in the specification is found by its
operator's name.

A live model with ``needs`` stands for others, too: without each fair action that a property needs, it is violated.
"""

import re
import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path
from typing import Literal, TypeAlias

from permitflow_model.tla_values import TlaValue, config_text, snake_case


class ManifestError(ValueError):
    """The manifest, or a name looked up in it, cannot be used; the message says where and why."""


class Table:
    """One table; every key must be known, every value of its type."""

    def __init__(self, content: object, *, where: str, known: set[str]) -> None:
        """Check the keys.

        Raises:
            ManifestError: it is not a table, or has an unknown key.
        """
        if not isinstance(content, dict):
            raise ManifestError(f"{where} must be a table, not {content!r}")
        self.where = where
        self._content: Mapping[str, object] = content
        if unknown := sorted(set(content) - known):
            raise ManifestError(f"{where} has the unknown key {unknown[0]!r}; known are {', '.join(sorted(known))}")

    def has(self, key: str) -> bool:
        """Is there a value?"""
        return key in self._content

    def text(self, key: str) -> str:
        """A text that is not empty.

        Raises:
            ManifestError: it is missing or not such a text.
        """
        value = self._content.get(key)
        if not isinstance(value, str) or not value.strip():
            raise ManifestError(f"{self.where} needs a text {key!r}, but it is {value!r}")
        return value

    def positive(self, key: str) -> int:
        """A whole number above 0.

        Raises:
            ManifestError: it is missing or not such a number.
        """
        value = self._content.get(key)
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ManifestError(f"{self.where} needs a whole number {key!r} of at least 1, but it is {value!r}")
        return value

    def flag(self, key: str) -> bool:
        """true or false; false if it is not there.

        Raises:
            ManifestError: the key has another value.
        """
        value = self._content.get(key, False)
        if not isinstance(value, bool):
            raise ManifestError(f"{self.where} needs true or false for {key!r}, not {value!r}")
        return value

    def names(self, key: str) -> tuple[str, ...]:
        """A list of names; empty if it is not there.

        Raises:
            ManifestError: the key has another value, or a name twice.
        """
        value = self._content.get(key, [])
        if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
            raise ManifestError(f"{self.where} needs a list of names for {key!r}, not {value!r}")
        if len(set(value)) < len(value):
            raise ManifestError(f"{self.where} names something twice in {key!r}: {value!r}")
        return tuple(value)

    def values(self, key: str) -> dict[str, TlaValue]:
        """A table of TLA+ values: numbers, texts, true or false, and lists, which are sets.

        Raises:
            ManifestError: the key has another value.
        """
        value = self._content.get(key, {})
        if not isinstance(value, dict):
            raise ManifestError(f"{self.where} needs a table for {key!r}, not {value!r}")
        return {name: self._value(name, item) for name, item in value.items()}

    def texts(self, key: str) -> dict[str, str]:
        """A table of texts; empty if it is not there.

        Raises:
            ManifestError: the key has another value.
        """
        value = self._content.get(key, {})
        if not isinstance(value, dict) or not all(isinstance(item, str) for item in value.values()):
            raise ManifestError(f"{self.where} needs a table of texts for {key!r}, not {value!r}")
        return value

    def tables(self, key: str) -> list[dict[str, object]]:
        """A list of tables.

        Raises:
            ManifestError: the key has another value, or none.
        """
        value = self._content.get(key, [])
        if not isinstance(value, list) or not value or not all(isinstance(item, dict) for item in value):
            raise ManifestError(f"{self.where} needs at least one [[{key}]]")
        return value

    def named_tables(self, key: str) -> dict[str, object]:
        """Tables by name.

        Raises:
            ManifestError: the key has another value.
        """
        value = self._content.get(key, {})
        if not isinstance(value, dict):
            raise ManifestError(f"{self.where} needs tables [{key}.NAME]")
        return value

    def _value(self, name: str, item: object) -> TlaValue:
        match item:
            case bool() | int() | str():
                return item
            case list():
                return frozenset(self._value(name, element) for element in item)
        raise ManifestError(f"{self.where} gives {name} the value {item!r}, which TLA+ does not have")


Kind: TypeAlias = Literal["success", "invariant", "property", "deadlock"]

_TEXT = re.compile(r"success|deadlock|(invariant|property) (\w+)")


@dataclass(frozen=True)
class ModelVerdict:
    """Everything holds, or the name of the violated property."""

    kind: Kind
    """``invariant``: a state formula; ``property``: a temporal one; ``deadlock``: a state without a next one."""

    name: str | None = None
    """The violated invariant or property; None also where TLC did not say which property."""

    def __str__(self) -> str:
        """As the manifest writes it."""
        return self.kind if self.name is None else f"{self.kind} {self.name}"

    @classmethod
    def parse(cls, text: str) -> "ModelVerdict":
        """Read what the manifest writes: ``success``, ``deadlock``, ``invariant Name`` or ``property Name``.

        Raises:
            ValueError: the text is something else.
        """
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"expected 'success', 'deadlock', 'invariant NAME' or 'property NAME', not {text!r}")
        if text == "success":
            return SUCCESS
        if text == "deadlock":
            return DEADLOCK
        return cls("invariant" if match[1] == "invariant" else "property", match[2])


SUCCESS = ModelVerdict("success")
DEADLOCK = ModelVerdict("deadlock")


_FILES = "*/models.toml"
_MODULE_KEYS = {"like", "specification", "constants", "invariants"}
_MODEL_KEYS = _MODULE_KEYS - {"like"} | {"name", "reason", "module", "properties", "needs"}
_MODEL_KEYS |= {"expect", "states", "depth", "graph", "actions"}


@dataclass(frozen=True, kw_only=True)
class Model:
    """One model: a module with constants, the checked statements, and the expected verdict."""

    name: str
    reason: str
    """Why this model exists, in one line."""

    module: str
    specification: str
    constants: Mapping[str, TlaValue]
    """All constants by their names in TLA+, the module's defaults included."""

    actions: Mapping[str, str]
    """Actions that are made wrong, each with the one that takes its place; see ``permitflow_model.mistakes``."""

    invariants: tuple[str, ...]
    properties: tuple[str, ...]
    """Temporal properties; only TLC can check them."""

    expect: ModelVerdict
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
            actions=self.actions,
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
        if any(place.glob(_FILES)):
            return place
    raise ManifestError(f"no {_FILES} in {' or '.join(map(str, places))}; reinstall permitflow")


def module_paths(spec_directory: Path | None = None) -> dict[str, Path]:
    """The TLA+ modules by name, whichever protocol's folder they are in: for TLC, all folders are one library.

    Raises:
        ManifestError: two modules have the same name.
    """
    paths: dict[str, Path] = {}
    for path in sorted((spec_directory or find_spec_directory()).rglob("*.tla")):
        if path.stem in paths:
            raise ManifestError(f"{paths[path.stem]} and {path} have the same name; TLC needs a name for each module")
        paths[path.stem] = path
    return paths


def read_manifest(spec_directory: Path | None = None) -> dict[str, Model]:
    """All models by name, protocol by protocol, in the order of each file.

    Raises:
        ManifestError: a file is missing, not TOML, or does not say what a manifest must say.
    """
    directory = spec_directory or find_spec_directory()
    files = [_read(path) for path in sorted(directory.glob(_FILES))]
    if not files:
        raise ManifestError(f"there is no {directory / _FILES}")
    modules = {
        name: Table(table, where=f"module {name!r}", known=_MODULE_KEYS)
        for manifest in files
        for name, table in manifest.named_tables("module").items()
    }
    models: dict[str, Model] = {}
    for entry in (entry for manifest in files for entry in manifest.tables("model")):
        table = Table(entry, where=f"model {entry.get('name', entry)!r}", known=_MODEL_KEYS)
        model = _model(table, modules)
        for one in (model, *_unfair(model, table)):
            if one.name in models:
                raise ManifestError(f"two models are called {one.name!r}; give each a name of its own")
            models[one.name] = one
    return models


def _unfair(model: Model, table: Table) -> Iterator[Model]:
    """The model without each of the fair actions that its properties need: all of its states, and a lasso."""
    needs = Table(table.named_tables("needs"), where=f"{table.where}, needs,", known=set(model.properties))
    fair = model.constants.get("Fair", frozenset())
    for name in model.properties:
        for action in needs.names(name):
            if not isinstance(fair, frozenset) or action not in fair:
                raise ManifestError(f"{needs.where} names {action!r}, which is not fair in it")
            yield replace(
                model,
                name=f"{model.name}-unfair-{snake_case(action).replace('_', '-')}",
                reason=f"without fairness of {action}: {name} is violated",
                constants={**model.constants, "Fair": fair - {action}},
                properties=(name,),
                expect=ModelVerdict("property", name),
                graph=False,
            )


def _read(path: Path) -> Table:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except tomllib.TOMLDecodeError as error:
        raise ManifestError(f"{path} is not TOML: {error}") from None
    return Table(content, where=str(path), known={"module", "model"})


def _model(table: Table, modules: Mapping[str, Table]) -> Model:
    module = table.text("module")
    chain = [table, *_defaults(table.where, module, modules)]
    model = Model(
        name=table.text("name"),
        reason=table.text("reason"),
        module=module,
        specification=_first_with("specification", chain).text("specification"),
        constants=_constants(chain),
        actions=table.texts("actions"),
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


def _constants(chain: list[Table]) -> Mapping[str, TlaValue]:
    """A constant that is given the name of another one has the value of that one."""
    given = {name: value for part in reversed(chain) for name, value in part.values("constants").items()}
    return {name: given.get(value, value) if isinstance(value, str) else value for name, value in given.items()}


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


def _verdict(table: Table) -> ModelVerdict:
    try:
        return ModelVerdict.parse(table.text("expect"))
    except ValueError as error:
        raise ManifestError(f"{table.where}, expect: {error}") from None


def parts_of(module: str, paths: Mapping[str, Path] | None = None) -> dict[str, Path]:
    """The modules that a module consists of: itself first, then those that it extends, without TLA+'s own.

    Raises:
        KeyError: there is no such module.
    """
    paths = module_paths() if paths is None else paths
    found = {module: paths[module]}
    for names in re.findall(r"^EXTENDS (.*)$", paths[module].read_text(encoding="utf-8"), re.MULTILINE):
        for name in [name.strip() for name in names.split(",")]:
            found |= parts_of(name, paths) if name in paths else {}
    return found


def whole_text(module: str, paths: Mapping[str, Path] | None = None) -> str:
    """The text of a module and of those that it extends."""
    return "".join(path.read_text(encoding="utf-8") for path in parts_of(module, paths).values())


class UnknownOperator(LookupError):
    """The specification does not define an operator of this name."""

    def __init__(self, module: str, operator: str) -> None:
        """Name both."""
        super().__init__(f"{module}.tla does not define {operator}; was it renamed?")
        self.module = module
        self.operator = operator


@cache
def _lines(module: str) -> tuple[tuple[str, int, str], ...]:
    """The lines of all its parts, each with its file and its number."""
    return tuple(
        (path.name, number, line)
        for path in parts_of(module).values()
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
    )


def reference(module: str, operator: str) -> str:
    """File and line where a module, or one that it extends, defines an operator: as editors take them.

    Raises:
        UnknownOperator: it does not.
    """
    definition = re.compile(rf"{re.escape(operator)}(\([^)]*\))?\s*==")
    for file, number, line in _lines(module):
        if definition.match(line):
            return f"{file}:{number}"
    raise UnknownOperator(module, operator)

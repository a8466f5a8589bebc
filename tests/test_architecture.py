"""Imports go only where docs/concepts/architecture.md says they may."""

import ast
import re
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from permitflow_model.registry import systems
from permitflow_model.tla_values import snake_case

ROOTS = ("impl", "model", "proofs")
ROW = re.compile(r"^\| `([\w/.]+)` \| .* \| (.*) \| (.*) \|$", re.MULTILINE)
PURE = re.compile(r"^(`.*`) import none of ([\w, ]+)\.$", re.MULTILINE)


@dataclass(frozen=True)
class Room:
    """One row of the table."""

    place: str
    """The prefix of its modules' names."""
    arrows: tuple[str, ...]
    """Names of the rooms it may import, as written."""
    third_party: frozenset[str]

    @property
    def name(self) -> str:
        """In the arrows of others."""
        return self.place.rpartition(".")[2]


class Architecture:
    """The table, and the questions it answers."""

    def __init__(self, document: str) -> None:
        rooms = [
            Room(module_name(place), listed(arrows), frozenset(listed(third_party)))
            for place, arrows, third_party in ROW.findall(document)
        ]
        self.rooms = {room.place: room for room in rooms}
        pure = PURE.search(document)
        assert pure is not None, "the document names no room that must stay pure"
        self.pure_rooms = [module_name(place) for place in re.findall(r"`([\w/.]+)`", pure[1])]
        self.impure = frozenset(listed(pure[2]))
        self._allowed = dict[str, set[str]]()

    def room_of(self, module: str) -> Room | None:
        """The room with the longest matching place."""
        candidates = [place for place in self.rooms if module == place or module.startswith(f"{place}.")]
        # The facade is one file: everything else below it has a room of its own.
        if module != "permitflow" and "permitflow" in candidates:
            candidates.remove("permitflow")
        return self.rooms[max(candidates, key=len)] if candidates else None

    def arrows(self, room: Room) -> set[str]:
        """Places of the rooms that a room names."""
        if room.arrows == ("everything",):
            return {
                place for place, other in self.rooms.items() if place != room.place and room.name not in other.arrows
            }
        return {self.place(name) for name in room.arrows}

    def place(self, name: str) -> str:
        """The place of a room by the name that the table uses in its arrows."""
        found = [place for place in self.rooms if name in (place, place.rpartition(".")[2])]
        assert len(found) == 1, f"{name!r} in the table names {len(found)} rooms"
        return found[0]

    def allowed(self, room: Room) -> set[str]:
        """Places that a room may import: its own, those it names, and what those may import."""
        if room.place in self._allowed:
            return self._allowed[room.place]
        reached, ahead = {room.place}, [room.place]
        while ahead:
            for place in self.arrows(self.rooms[ahead.pop()]) - reached:
                reached.add(place)
                ahead.append(place)
        self._allowed[room.place] = reached
        return reached

    def violations(self, module: str, source: str) -> Iterator[str]:
        """What a module imports against the table."""
        room = self.room_of(module)
        if room is None:
            yield f"{module} is in no room"
            return
        for target in imported_names(module, source):
            top = target.partition(".")[0]
            if top in sys.stdlib_module_names:
                if top in self.impure and room.place in self.pure_rooms:
                    yield f"{module} imports {target}, but {room.place} is pure"
            elif (target_room := self.room_of(target)) is not None:
                if target_room.place not in self.allowed(room):
                    yield f"{module} imports {target}, against the arrows"
            elif top not in room.third_party:
                yield f"{module} imports {target}, which {room.place} may not"


def module_name(place: str) -> str:
    """``permitflow/chunks.py`` is permitflow.chunks, ``permitflow/__init__.py`` is permitflow."""
    return place.removesuffix("/__init__.py").removesuffix(".py").strip("/").replace("/", ".")


def listed(cell: str) -> tuple[str, ...]:
    """The names in a cell; a dash stands for none."""
    return tuple(re.findall(r"\w+", cell))


def imported_names(module: str, source: str) -> Iterator[str]:
    """Every import in a module, wherever it stands, also those by a literal name at run time."""
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Import(names=names):
                yield from (alias.name for alias in names)
            case ast.ImportFrom(module=base, level=level, names=names):
                parent = ".".join(module.split(".")[: -level or None])
                prefix = ".".join(part for part in (parent if level else "", base or "") if part)
                yield from (f"{prefix}.{alias.name}" for alias in names)
            case ast.Call(
                func=ast.Attribute(attr="import_module") | ast.Name(id="import_module" | "__import__"),
                args=[ast.Constant(value=str(name)), *_],
            ):
                yield name


def modules(repository: Path) -> Mapping[str, Path]:
    """All modules of the project by their names; generated ones are left out."""
    return {
        module_name(path.relative_to(repository / root).as_posix()): path
        for root in ROOTS
        for path in sorted((repository / root).rglob("*.py"))
        if not path.name.endswith("_pb2.py")
    }


@pytest.fixture(scope="module")
def architecture(repository: Path) -> Architecture:
    return Architecture((repository / "docs/concepts/architecture.md").read_text())


def test_every_import_follows_the_table(architecture: Architecture, repository: Path) -> None:
    found = [
        violation
        for module, path in modules(repository).items()
        for violation in architecture.violations(module, path.read_text())
    ]
    assert found == []


def test_every_room_of_the_table_exists(architecture: Architecture, repository: Path) -> None:
    inhabited = {room.place for module in modules(repository) if (room := architecture.room_of(module))}
    generated = {"permitflow.wire.v1"}
    assert set(architecture.rooms) - inhabited - generated == set()


def test_arrows_point_one_way(architecture: Architecture) -> None:
    order = TopologicalSorter({room.place: architecture.arrows(room) for room in architecture.rooms.values()})
    order.prepare()  # raises CycleError


def imports_among(sources: Mapping[str, str]) -> dict[str, set[str]]:
    """Which modules each of them imports, wherever the import stands: also within functions, and for types alone."""
    found: dict[str, set[str]] = {module: set() for module in sources}
    for module, source in sources.items():
        for target in imported_names(module, source):
            while target and target not in sources:
                target = target.rpartition(".")[0]
            if target not in ("", module):
                found[module].add(target)
    return found


def test_no_modules_import_each_other_in_a_circle(repository: Path) -> None:
    TopologicalSorter(imports_among({name: path.read_text() for name, path in modules(repository).items()})).prepare()


@pytest.mark.parametrize("module", ["permitflow.carriers", "permitflow.exchange", "permitflow_tools.checking"])
def test_packages_of_many_modules_say_which_are_where(module: str, repository: Path) -> None:
    assert len(named_by(modules(repository)[module])) >= 3


def test_packages_name_only_what_they_have(repository: Path) -> None:
    packages = [path for path in modules(repository).values() if path.name == "__init__.py"]
    assert len(packages) > 30
    wrong = {
        str(path.relative_to(repository)): strange
        for path in packages
        if (strange := named_by(path) - {each.stem for each in path.parent.iterdir()} - words_of(path))
    }
    assert wrong == {"impl/permitflow/kafka/__init__.py": {"pause", "resume"}}, "that are Kafka's own"


def test_only_doors_and_who_hands_names_on_list_names(repository: Path) -> None:
    doors = re.findall(r"^\| \[`([\w.]+)`\]", (repository / "docs/reference/api.md").read_text(), re.MULTILINE)
    sources = {module: path.read_text() for module, path in modules(repository).items()}
    listing = {module for module, source in sources.items() if re.search(r"^__all__\b", source, re.MULTILINE)}
    assert len(listing.intersection(doors)) > 20
    assert [module for module in listing.difference(doors) if not handed_on(sources[module])] == []


def handed_on(source: str) -> set[str]:
    """The names of a module's ``__all__`` that it has from others."""
    tree = ast.parse(source)
    listed = next(
        ast.literal_eval(node.value)
        for node in tree.body
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__"
    )
    imports = [node for node in tree.body if isinstance(node, ast.ImportFrom)]
    return {each.asname or each.name for node in imports for each in node.names}.intersection(listed)


def named_by(package: Path) -> set[str]:
    """What its docstring puts in quotes as names of modules and functions."""
    return set(re.findall(r"``([a-z]\w*)``", ast.get_docstring(ast.parse(package.read_text())) or ""))


def words_of(package: Path) -> set[str]:
    """The words of its code."""
    _, _, code = package.read_text().split('"""', 2)
    return set(re.findall(r"\w+", code))


def test_a_circle_through_a_function_is_found() -> None:
    with pytest.raises(CycleError):
        TopologicalSorter(imports_among({"p.a": "from p.b import x", "p.b": "def f():\n    import p.a"})).prepare()


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("permitflow.flows.permits.core", "import asyncio"),
        ("permitflow.flows.permits.core", "from time import monotonic"),
        ("permitflow.flows.permits.core", "from ...channels import local"),
        ("permitflow.flows.permits.core", "import permitflow"),
        ("permitflow.channels.local", "def send():\n    import grpc"),
        ("permitflow.channels.local", "import importlib\nimportlib.import_module('grpc')"),
        ("permitflow.wire.codec", "import permitflow_model"),
        ("permitflow_model.permit_channel", "import z3"),
        ("permitflow.helpers", ""),
    ],
)
def test_a_seeded_violation_is_caught(architecture: Architecture, module: str, source: str) -> None:
    assert list(architecture.violations(module, source)) != []


@pytest.mark.parametrize(
    ("module", "source"),
    [
        ("permitflow.flows.permits.core", "from permitflow.errors import WouldBlock\nfrom collections import deque"),
        ("permitflow.wire.codec", "import pyarrow.ipc\nfrom permitflow.flows.messages import Message"),
        ("permitflow_tools.cli.prove", "def prove():\n    import permitflow_proofs.kernel"),
        ("permitflow_proofs.safety", "import z3\nimport permitflow_model.permit_channel"),
    ],
)
def test_allowed_imports_are_left_alone(architecture: Architecture, module: str, source: str) -> None:
    assert list(architecture.violations(module, source)) == []


def test_nothing_generic_in_model_and_proofs_names_a_protocol(repository: Path) -> None:
    """A protocol's own files are named after it; all others find them by that name."""
    names = {spelling for name in systems() for spelling in (name, snake_case(name))}
    naming = {
        module
        for module, path in modules(repository).items()
        if module.partition(".")[0] not in ("permitflow", "permitflow_testing", "permitflow_tools")
        and not any(re.search(rf"\.{name}(_|\.|$)", module) for name in names)
        if any(name in path.read_text(encoding="utf-8") for name in names)
    }
    # What is decided for anybody's own numbers is about permits, and users import it from the package.
    assert naming == {"permitflow_model.thresholds", "permitflow_proofs"}


def test_no_generic_module_names_the_specification_of_a_flow(repository: Path) -> None:
    """A flow has one file per room, named after the flow or its specification; a table leads to it."""
    naming = {
        module
        for name, registered in systems().items()
        if registered.flow
        for module, path in modules(repository).items()
        if module.startswith(("permitflow.", "permitflow_testing.", "permitflow_tools."))
        and not module.endswith((".table", ".playgrounds"))
        and not {snake_case(name), registered.flow.replace("-", "_")} & {*module.replace("check_", "").split(".")}
        and re.search(rf"\b({name}|{snake_case(name)})(\b|_)", path.read_text(encoding="utf-8"))
    }
    assert naming == set()


ONLY_STANDARD = "import permitflow, permitflow.stages, permitflow.reactive"
ONLY_MODEL = "import permitflow_model.permit_channel, permitflow_model.kernel.explore"


def modules_loaded_by(statement: str) -> set[str]:
    """Whole names of the modules that a statement loads in a fresh interpreter."""
    program = f"import sys; before = set(sys.modules); {statement}; print(*(m for m in sys.modules if m not in before))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True, timeout=250)
    return set(done.stdout.split())


@pytest.mark.parametrize(
    ("statement", "found"),
    [(ONLY_STANDARD, {"permitflow"}), (ONLY_MODEL, {"permitflow_model"}), ("import pyarrow", {"pyarrow", "numpy"})],
)
def test_facade_and_model_load_no_third_party_package(statement: str, found: set[str]) -> None:
    loaded = {name.partition(".")[0] for name in modules_loaded_by(statement)}
    # Cython's own modules belong to no package.
    assert {name for name in loaded if "cython" not in name} - set(sys.stdlib_module_names) == found


def test_a_worker_of_spark_does_not_load_what_only_drivers_use() -> None:
    """Each imports the data sources, and short jobs wait for it; gRPC must be imported after the fork."""
    loaded = modules_loaded_by("import pyspark_permitflow, pyspark_permitflow_grpc")
    assert {"pyspark", "permitflow.spark.source"} <= loaded
    assert "grpc" not in loaded
    assert not [name for name in loaded if name.startswith(("permitflow_t", "permitflow_model", "permitflow.tracing"))]


def test_a_worker_of_a_channel_loads_no_calls() -> None:
    loaded = modules_loaded_by("import pyspark_permitflow")
    assert "permitflow.spark.source" in loaded
    assert not [name for name in loaded if name.startswith("permitflow.spark.calls")]


def test_packages_of_drivers_load_on_demand() -> None:
    statement = "import permitflow.spark as spark; assert all(callable(getattr(spark, name)) for name in spark.__all__)"
    assert "permitflow.spark.calls.bidirectional" in modules_loaded_by(statement)


def test_the_library_imports_neither_tools_nor_kit(architecture: Architecture) -> None:
    beside = {"permitflow_tools", "permitflow_testing", "permitflow_model", "permitflow_proofs"}
    inside = [room for room in architecture.rooms.values() if room.place.partition(".")[0] == "permitflow"]
    reached = {place.partition(".")[0] for room in inside for place in architecture.allowed(room)}
    assert reached & beside == set()

"""docs/reference/versions.md: the releases with which the tests were run, beside the ranges that pyproject.toml allows.

`nox --session versions` calls it after each run, and keeps the results in build/versions.
"""

import json
import re
import tomllib
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import TypedDict

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

CHECKOUT = Path(__file__).resolve().parent.parent
PYPROJECT = CHECKOUT / "pyproject.toml"
DOCUMENT = CHECKOUT / "docs/reference/versions.md"
RESULTS = CHECKOUT / "build/versions"

EXTRAS = ("graphs", "grpc", "metrics", "plots", "proofs", "spark", "testing")
"""The extras for users; the others are for development."""
TESTS = (
    "tests/model",
    "tests/impl/spark",
    "tests/impl/carriers",
    "tests/impl/wire",
    "tests/impl/client",
    "tests/impl/tracing",
    "tests/impl/exchange/stores",
    "tests/impl/test_chunks.py",
    "tests/impl/test_errors.py",
    "tests/permitflow_tools/checking/test_graphs.py",
    "tests/permitflow_tools/validating",
    "tests/permitflow_tools/cli/test_application.py",
    "tests/permitflow_tools/cli/test_serve.py",
    "tests/permitflow_tools/cli/test_trace.py",
    "tests/proofs/test_terms.py",
)
"""The tests of the models, which use Python's own types in many ways, and of the rooms that use other libraries."""
ENVIRONMENTS = ("oldest", "newest", "old Spark")
"""A cluster often prescribes an older Spark than would be installed beside the other libraries."""

FOUND = (
    "import json, platform; from importlib.metadata import distributions; "
    "packages = [{'name': each.name, 'version': each.version} for each in distributions()]; "
    "print(json.dumps({'python': platform.python_version(), 'packages': packages}))"
)
"""Prints the releases in an environment, when its Python runs it."""

Ranges = Mapping[str, SpecifierSet]


class Column(TypedDict):
    """The results of one environment."""

    versions: Mapping[str, str]
    """The versions of Python and of each library."""
    tests: str
    """How many passed."""
    ranges: Mapping[str, str]
    """The ranges that were declared then."""


def declared_ranges(pyproject: Path = PYPROJECT) -> dict[str, SpecifierSet]:
    """The range of every library that a user's installation may choose a release of, by its name.

    Raises:
        ValueError: two extras declare different ranges.
    """
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    extras = (project["optional-dependencies"][extra] for extra in EXTRAS)
    found: dict[str, SpecifierSet] = {}
    for requirement in map(Requirement, (text for texts in (project["dependencies"], *extras) for text in texts)):
        name = canonicalize_name(requirement.name)
        if name == project["name"]:
            continue
        if found.setdefault(name, requirement.specifier) != requirement.specifier:
            raise ValueError(f"pyproject.toml declares two ranges of {name}: {found[name]} and {requirement.specifier}")
    return found


def lower_bound(declared: SpecifierSet) -> str:
    """The oldest release in a range.

    Raises:
        ValueError: it has none.
    """
    bounds = [specifier.version for specifier in declared if specifier.operator == ">="]
    if len(bounds) != 1:
        raise ValueError(f"a range must have one lower bound, as in >=2,<3: {declared}")
    return bounds[0]


def range_text(declared: SpecifierSet) -> str:
    """A range of pyproject.toml as text, its lower end first."""
    return ",".join(sorted(map(str, declared), reverse=True))


def oldest_python(pyproject: Path = PYPROJECT) -> str:
    """The oldest Python that is allowed, as in 3.11."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    return lower_bound(SpecifierSet(project["requires-python"]))


def keep(environment: str, python: str, packages: Iterable[Mapping[str, str]], output: str) -> None:
    """Keep the results of a run in which all tests passed, and write the document if it is the last.

    Args:
        environment: one of ENVIRONMENTS.
        python: the release of Python.
        packages: each with its name and version.
        output: of pytest.
    """
    ranges = declared_ranges()
    releases: dict[str, str] = {canonicalize_name(each["name"]): each["version"] for each in packages}
    column = Column(
        versions={"Python": python, **{name: releases[name] for name in ranges}},
        tests=", ".join(re.findall(r"\d+ (?:passed|skipped)", output.strip().rpartition("\n")[2])),
        ranges=_texts(ranges),
    )
    RESULTS.mkdir(parents=True, exist_ok=True)
    _file(environment).write_text(json.dumps(column), encoding="utf-8")
    kept = {each: json.loads(_file(each).read_text("utf-8")) for each in ENVIRONMENTS if _file(each).is_file()}
    # The document has only the ranges of today.
    if len(kept) == len(ENVIRONMENTS) and all(each["ranges"] == column["ranges"] for each in kept.values()):
        DOCUMENT.write_text(document(ranges, kept), encoding="utf-8")


def _file(environment: str) -> Path:
    return RESULTS / f"{environment.replace(' ', '-')}.json"


def _texts(ranges: Ranges) -> dict[str, str]:
    return {name: range_text(declared) for name, declared in sorted(ranges.items())}


def document(ranges: Ranges, columns: Mapping[str, Column]) -> str:
    """The whole of docs/reference/versions.md: a line for each library, a column for each environment."""
    declared = {"Python": f">={oldest_python()}", **_texts(ranges)}
    lines = [
        ["", "declared", *columns],
        ["---"] * (len(columns) + 2),
        *([name, text, *(each["versions"][name] for each in columns.values())] for name, text in declared.items()),
        ["tests", "", *(column["tests"] for column in columns.values())],
    ]
    table = "".join(f"| {' | '.join(line)} |\n" for line in lines)
    return (
        "# Versions that were run\n\n"
        "Written by `nox --session versions`: the tests below, with the oldest and the newest releases\n"
        "that `pyproject.toml` allows, and with mixtures. A range is declared only as far as it was run; a test\n"
        "compares the two.\n\n"
        "Python 3.14 has a fault of its own, still in 3.14.8: an exception from a signal's handler, as of Ctrl-C,\n"
        "can leave a lock of any library taken ([CPython, 148874](https://github.com/python/cpython/issues/148874)).\n"
        "A blocking client takes no lock of that kind once it runs; a program with others should end after Ctrl-C\n"
        "rather than go on.\n\n"
        f"{table}\nThe tests, but for those that take long:\n\n```text\n"
        + "".join(f"{test}\n" for test in TESTS)
        + "```\n"
    )

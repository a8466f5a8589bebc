"""What pyproject.toml promises was run: docs/reference/versions.md has both ends of every range."""

from pathlib import Path

import pytest
from packaging.specifiers import SpecifierSet
from packaging.version import Version

from tools import versions_reference as versions

Table = dict[str, dict[str, str]]


@pytest.fixture(scope="module")
def declared(repository: Path) -> dict[str, SpecifierSet]:
    return versions.declared_ranges(repository / "pyproject.toml")


@pytest.fixture(scope="module")
def documented(repository: Path) -> Table:
    """The table of docs/reference/versions.md: by row, then by column."""
    lines = [
        line for line in (repository / "docs/reference/versions.md").read_text().splitlines() if line.startswith("|")
    ]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]
    return {name: dict(zip(rows[0][1:], cells, strict=True)) for name, *cells in rows[2:]}


def test_the_document_has_the_ranges_that_are_declared(declared: dict[str, SpecifierSet], documented: Table) -> None:
    ranges = {name: versions.range_text(each) for name, each in declared.items()}
    assert ranges == {name: row["declared"] for name, row in documented.items() if name not in ("Python", "tests")}
    assert {"pyspark", "pyarrow", "grpcio", "protobuf"} <= ranges.keys()


def test_both_ends_of_every_range_were_run(declared: dict[str, SpecifierSet], documented: Table) -> None:
    for name, each in declared.items():
        oldest, newest = documented[name]["oldest"], documented[name]["newest"]
        assert Version(oldest) == Version(versions.lower_bound(each)), name
        (upper,) = [specifier.version for specifier in each if specifier.operator == "<"]
        *higher, last = Version(upper).release
        assert list(Version(newest).release[: len(higher) + 1]) == [*higher, last - 1], name


def test_every_environment_was_run_and_all_its_tests_passed(documented: Table) -> None:
    assert set(documented["tests"]) == {"declared", *versions.ENVIRONMENTS}
    for name, environment in documented["tests"].items():
        assert name == "declared" or ("passed" in environment and "failed" not in environment), name


def test_the_oldest_python_was_run(repository: Path, documented: Table) -> None:
    assert documented["Python"]["declared"] == f">={versions.oldest_python(repository / 'pyproject.toml')}"
    assert documented["Python"]["oldest"].startswith(versions.oldest_python(repository / "pyproject.toml"))

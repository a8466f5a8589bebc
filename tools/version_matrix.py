"""Run the tests that depend on other libraries with the oldest and the newest releases that we allow.

    python tools/version_matrix.py                    all environments
    python tools/version_matrix.py --only oldest      one of them; may be repeated

Each environment is a virtual environment below build/matrix, with its results beside it; an existing one is brought up
to date.  Only pyproject.toml states the allowed ranges.  docs/reference/versions.md is written once all environments
have passed, with the current ranges.  Exit code 0: all tests passed; 1: some did
not; 2: an environment cannot be made.
"""

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
import time
import tomllib
from collections.abc import Iterable, Mapping, Sequence
from importlib.metadata import distributions
from pathlib import Path
from typing import NamedTuple, TypedDict

from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

CHECKOUT = Path(__file__).resolve().parent.parent
PYPROJECT = CHECKOUT / "pyproject.toml"
DOCUMENT = CHECKOUT / "docs/reference/versions.md"
FOLDER = CHECKOUT / "build/matrix"

# The extras for users; the others are for development.
EXTRAS = ("grpc", "metrics", "plots", "proofs", "spark", "testing")
# The tests of the rooms that use other libraries, and the packages that only tests need.
TESTS = (
    *(
        "tests/impl/spark",
        "tests/impl/carriers",
        "tests/impl/wire",
        "tests/impl/client",
        "tests/impl/tracing",
        "tests/permitflow_tools/validating",
    ),
    *("tests/impl/exchange/stores", "tests/impl/test_chunks.py", "tests/impl/test_errors.py"),
    *(
        "tests/permitflow_tools/cli/test_application.py",
        "tests/permitflow_tools/cli/test_serve.py",
        "tests/permitflow_tools/cli/test_trace.py",
    ),
    "tests/proofs/test_terms.py",
)
TEST_PACKAGES = ("psutil", "pytest-timeout", "pytest-xdist")
PYTEST_OPTIONS = ("--quiet", "--no-header", "-p", "no:cacheprovider")
# An old release of one library may use deprecated parts of a newer one; we cannot change that.
OPTIONS_OF_OLD_RELEASES = ("-W", "default::DeprecationWarning")
NEWEST_MINOR_TRIED = 20


class Environment(NamedTuple):
    """One combination of releases."""

    oldest: frozenset[str] | None = frozenset()
    """Libraries at the lower end of their range; None: all.  The others are at the upper end."""
    newest_python: bool = False
    """Use the newest Python that is found here, not the one that runs this program."""


ENVIRONMENTS = {
    "oldest": Environment(oldest=None),
    "newest": Environment(newest_python=True),
    # A cluster often prescribes an older Spark than pip would install beside the other libraries.
    "old Spark": Environment(oldest=frozenset({"pyspark", "protobuf"})),
}


class Column(TypedDict):
    """The results of one environment, as they are kept beside it."""

    versions: Mapping[str, str]
    """Of Python, and of each library."""
    tests: str
    passed: bool
    ranges: Mapping[str, str]
    """That were declared then."""


Ranges = Mapping[str, SpecifierSet]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the environments one after the other, and report the results."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=ENVIRONMENTS, help="this one")
    parser.add_argument("--newest-python", default=newest_python(), help="for the newest environment")
    options = parser.parse_args(arguments)
    ranges = declared_ranges(PYPROJECT)
    try:
        columns = {name: _run(name, ranges, options.newest_python) for name in options.only or ENVIRONMENTS}
    except subprocess.CalledProcessError as error:
        print(f"failed: {' '.join(error.cmd)}", file=sys.stderr)
        return 2
    print(table(ranges, columns))
    texts = {name: range_text(declared) for name, declared in ranges.items()}
    kept: dict[str, Column] = {
        name: json.loads(path.read_text())
        for name in ENVIRONMENTS
        if (path := _folder(name).with_suffix(".json")).is_file()
    }
    complete = {name: each for name, each in kept.items() if each["passed"] and each["ranges"] == texts}
    # The document lists only combinations that have passed, with the ranges of today.
    if complete.keys() == ENVIRONMENTS.keys():
        DOCUMENT.write_text(document(ranges, complete), encoding="utf-8")
    return 0 if all(column["passed"] for column in columns.values()) else 1


def newest_python() -> str:
    """The newest Python on the path that can be started, by its usual name."""
    for minor in range(NEWEST_MINOR_TRIED, sys.version_info.minor, -1):
        found = shutil.which(f"python3.{minor}")
        # A version manager's shim may stand for a Python that is not there.
        if found is not None and subprocess.run([found, "-c", ""], capture_output=True, check=False).returncode == 0:
            return found
    return sys.executable


# Declared ranges.


def declared_ranges(pyproject: Path) -> dict[str, SpecifierSet]:
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


# Environments.


def _run(name: str, ranges: Ranges, newest: str) -> Column:
    """Make an environment, or bring it up to date, and run the tests in it.

    Raises:
        CalledProcessError: it cannot be made.
    """
    print(f"\n{name}", flush=True)
    environment, folder = ENVIRONMENTS[name], _folder(name)
    python = folder / "bin/python"
    constraints = folder.with_suffix(".txt")
    folder.mkdir(parents=True, exist_ok=True)
    is_oldest = {each: environment.oldest is None or each in environment.oldest for each in ranges}
    pins = (f"{each}=={lower_bound(ranges[each])}\n" for each, is_pinned in is_oldest.items() if is_pinned)
    constraints.write_text("".join(pins), encoding="utf-8")
    interpreter = newest if environment.newest_python else sys.executable
    subprocess.run([interpreter, "-m", "venv", str(folder)], check=True)
    pip = [str(python), "-m", "pip", "install", "--quiet", "--upgrade", "--upgrade-strategy", "eager"]
    packages = [f"{CHECKOUT}[{','.join(EXTRAS)},tlc]", *TEST_PACKAGES]
    subprocess.run([*pip, "--constraint", str(constraints), "--editable", *packages], check=True)
    options = PYTEST_OPTIONS + (OPTIONS_OF_OLD_RELEASES if any(is_oldest.values()) else ())
    # Programs that tests start by their name must be this environment's.
    path = f"{python.parent}{os.pathsep}{os.environ['PATH']}"
    began = time.monotonic()
    done = subprocess.run(
        [str(python), "-m", "pytest", *options, *TESTS],
        cwd=CHECKOUT,
        env={**os.environ, "PATH": path},
        stdout=subprocess.PIPE,
        text=True,
        check=False,
    )
    print(done.stdout, flush=True)
    column = Column(
        versions=installed_versions(python, ranges),
        tests=f"{summary(done.stdout)} in {time.monotonic() - began:.0f} s",
        passed=done.returncode == 0,
        ranges={name: range_text(declared) for name, declared in ranges.items()},
    )
    folder.with_suffix(".json").write_text(json.dumps(column), encoding="utf-8")
    return column


def _folder(name: str) -> Path:
    return FOLDER / name.replace(" ", "-")


def installed_versions(python: Path, names: Iterable[str]) -> dict[str, str]:
    """The releases that an environment has of these libraries, and of Python."""
    question = "import platform, sysconfig; print(platform.python_version(), sysconfig.get_path('purelib'))"
    answer = subprocess.run([str(python), "-c", question], capture_output=True, text=True, check=True)
    version, _, site_packages = answer.stdout.strip().partition(" ")
    found = {canonicalize_name(each.name): each.version for each in distributions(path=[site_packages])}
    return {"Python": version, **{name: found[canonicalize_name(name)] for name in names}}


def summary(output: str) -> str:
    """The counts of pytest, from its last line."""
    counts = re.findall(r"\d+ (?:passed|failed|errors?|skipped)", output.strip().rpartition("\n")[2])
    return ", ".join(counts) or "nothing was run"


# The document.


def table(ranges: Ranges, columns: Mapping[str, Column]) -> str:
    """A line for each library, a column for each environment."""
    declared = {
        "Python": f">={oldest_python(PYPROJECT)}",
        **{name: range_text(ranges[name]) for name in sorted(ranges)},
    }
    lines = [
        ["", "declared", *columns],
        ["---"] * (len(columns) + 2),
        *([name, text, *(each["versions"][name] for each in columns.values())] for name, text in declared.items()),
        ["tests", "", *(column["tests"] for column in columns.values())],
    ]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines) + "\n"


def range_text(declared: SpecifierSet) -> str:
    """A range of pyproject.toml as text, its lower end first."""
    return ",".join(sorted(map(str, declared), reverse=True))


def oldest_python(pyproject: Path) -> str:
    """The oldest Python that is allowed, as in 3.11."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    return lower_bound(SpecifierSet(project["requires-python"]))


def document(ranges: Ranges, columns: Mapping[str, Column]) -> str:
    """The whole of docs/reference/versions.md."""
    tests = "".join(f"    {test}\n" for test in TESTS)
    return (
        "# Versions that were run\n\n"
        "Written by `make matrix`: the tests below, with the oldest and the newest releases that `pyproject.toml`\n"
        "allows, and with mixtures. A range is declared only as far as it was run; a test compares the two.\n\n"
        f"{table(ranges, columns)}\nThe tests:\n\n{tests}"
    )


if __name__ == "__main__":
    sys.exit(main())

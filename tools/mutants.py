"""Deliberate mistakes in a copy of the implementation: the tests named for a mistake must notice it.

    python tools/mutants.py                     all of tests/mutants/implementation_mutants.toml
    python tools/mutants.py --only "grant on arrival" --jobs 1
    python tools/mutants.py --of impl/permitflow/chunks.py [tests/impl/test_chunks.py ...]

Each mutant of the list replaces one piece of text, which must occur exactly once.  Those of a file (``--of``) are made
by cosmic-ray, and tried with the tests that mirror the file unless others are named: some two seconds for each.  A
mistake that changes nothing survives as well: a person judges those that are printed.

Exit code 0: all of the list were noticed, or the survivors of a file are printed; 1: one of the list survived; 2: the
list cannot be used, or the tests fail without any mistake.
"""

import argparse
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import NoReturn

CHECKOUT = Path(__file__).resolve().parent.parent
LIST = CHECKOUT / "tests/mutants/implementation_mutants.toml"
COPIED = ("impl", "model", "proofs", "spec", "tests", "pyproject.toml")
TESTS_OF = {
    "impl/permitflow": "tests/impl",
    "impl/permitflow_testing": "tests/permitflow_testing",
    "impl/permitflow_tools": "tests/permitflow_tools",
    "model/permitflow_model": "tests/model",
    "proofs/permitflow_proofs": "tests/proofs",
}
IGNORED = shutil.ignore_patterns("__pycache__", "*.pyc", ".hypothesis")
PYTEST_OPTIONS = ("-x", "-q", "--tb=no", "-p", "no:cacheprovider", "--hypothesis-profile=unshrunk")

# Far beyond the time of one mutant's tests; the first of these notices a mutant that hangs.
TEST_TIMEOUT_SECONDS = 40
TIMEOUT_SECONDS = 120
# All tests that are named, without any mistake.
UNMUTATED_TIMEOUT_SECONDS = 3_600
TESTS_FAILED = 1
# One of several operators that change a number alike is enough; | may join types, not numbers.
LEFT_OUT = (
    r"core/ReplaceBinaryOperator_BitOr_\w+",
    r"core/ReplaceBinaryOperator_\w+_(RShift|LShift|Bit\w+|Pow|Mod|Div|FloorDiv)",
    r"core/ReplaceComparisonOperator_(Lt|LtE|Gt|GtE|Eq|NotEq)_(Is|IsNot)",
    r"core/ReplaceComparisonOperator_(Is|IsNot)_(Lt|LtE|Gt|GtE|Eq|NotEq)",
    r"core/ReplaceUnaryOperator_\w+",
)
JOBS = min(2, os.cpu_count() or 1)


@dataclass(frozen=True)
class Mutant:
    """A mistake, and the tests that should notice it."""

    name: str
    file: str
    """Relative to the checkout."""
    old: str
    new: str
    why: str
    """Its consequence, which makes it a real bug."""
    killed_by: tuple[str, ...]
    """Arguments for pytest."""


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--list", type=Path, default=LIST, help="the list of mutants (TOML)")
    parser.add_argument("--only", action="append", default=[], metavar="NAME", help="try this one; may be repeated")
    parser.add_argument("--of", type=Path, metavar="FILE", help="try mutants of this file, made by cosmic-ray")
    parser.add_argument("tests", nargs="*", help="with --of: instead of the tests that mirror the file")
    parser.add_argument("--jobs", type=int, default=JOBS, help="how many to try at once")
    options = parser.parse_args(arguments)
    if options.of is not None:
        return try_file(options.of.resolve().relative_to(CHECKOUT), options.tests)
    mutants = read_mutants(options.list)
    if unknown := set(options.only) - {mutant.name for mutant in mutants}:
        _refuse(f"no mutant is called {sorted(unknown)[0]!r}")
    chosen = [mutant for mutant in mutants if not options.only or mutant.name in options.only]
    for mutant in chosen:
        mutated(mutant)
    started = time.monotonic()
    _check_unmutated({killer for mutant in chosen for killer in mutant.killed_by})
    width = max(len(mutant.name) for mutant in chosen)
    survivors: list[Mutant] = []
    with ThreadPoolExecutor(options.jobs) as pool:
        for mutant, (killer, seconds) in zip(chosen, pool.map(try_mutant, chosen), strict=True):
            print(f"{mutant.name:<{width}}  {seconds:5.1f} s  {killer or 'SURVIVED'}", flush=True)
            if not killer:
                survivors.append(mutant)
    print(f"{len(chosen) - len(survivors)} of {len(chosen)} noticed, {time.monotonic() - started:.0f} s")
    for mutant in survivors:
        print(f"\n{mutant.name} ({mutant.file}) survived {' '.join(mutant.killed_by)}\n  {mutant.why}")
    return 1 if survivors else 0


def read_mutants(path: Path) -> list[Mutant]:
    """Read the list; refuse one that cannot be used."""
    try:
        entries = tomllib.loads(path.read_text())["mutant"]
        mutants = [Mutant(**{**entry, "killed_by": tuple(entry["killed_by"])}) for entry in entries]
    except (OSError, KeyError, TypeError, tomllib.TOMLDecodeError) as error:
        _refuse(f"{path} is not a list of mutants: {error}")
    names = [mutant.name for mutant in mutants]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        _refuse(f"two mutants are called {twice[0]!r}")
    return mutants


def mutated(mutant: Mutant) -> str:
    """The text of the mutant's file with the mistake in it."""
    text = (CHECKOUT / mutant.file).read_text()
    found = text.count(mutant.old)
    if found != 1:
        _refuse(f"mutant {mutant.name!r}: its old text occurs {found} times in {mutant.file}, must be once")
    return text.replace(mutant.old, mutant.new)


def try_mutant(mutant: Mutant) -> tuple[str, float]:
    """Run the tests that should notice the mistake, in a copy that has it.

    The first test that failed, "time-out", or nothing; and the seconds that it took.
    """
    started = time.monotonic()
    with copied() as copy:
        (copy / mutant.file).write_text(mutated(mutant))
        code, output = _run_tests(copy, mutant.killed_by, TIMEOUT_SECONDS)
    if code not in (0, TESTS_FAILED, None):
        _refuse(f"mutant {mutant.name!r}: pytest ended with {code}:\n{output[-2000:]}")
    failed = re.search(r"^(?:FAILED|ERROR) (\S+)", output, re.MULTILINE)
    return failed.group(1) if failed else "" if code == 0 else "time-out", time.monotonic() - started


def try_file(file: Path, tests: Sequence[str]) -> int:
    """Let cosmic-ray make mutants of a file, in a copy of the checkout, and print those that no test noticed."""
    tests = tests or mirroring(file)
    print(f"mutants of {file}, tried with {' '.join(tests)}", flush=True)
    with copied() as copy:
        (copy / "cosmic-ray.toml").write_text(
            "[cosmic-ray]\n"
            f"module-path = {json.dumps(str(file))}\n"
            f"test-command = {json.dumps(shlex.join(_pytest(tests)))}\n"
            f"timeout = {TIMEOUT_SECONDS}.0\n"
            "excluded-modules = []\n"
            "distributor.name = 'local'\n"
            f"filters.operators-filter.exclude-operators = {json.dumps(LEFT_OUT)}\n"
        )
        for step in (
            "cosmic-ray init cosmic-ray.toml session.sqlite",
            "cr-filter-operators session.sqlite cosmic-ray.toml",
            "cosmic-ray baseline cosmic-ray.toml",
            "cosmic-ray exec cosmic-ray.toml session.sqlite",
            "cr-report --surviving-only --show-diff session.sqlite",
        ):
            command = f"{Path(sys.executable).parent}/{step}".split()
            code = subprocess.run(command, cwd=copy, env=_environment(copy), check=False).returncode
            if code != 0:
                _refuse(f"{step} ended with {code}")
    return 0


def mirroring(file: Path) -> list[str]:
    """The tests of a file: those named alike, or all of its room."""
    for source, tests in TESTS_OF.items():
        if file.is_relative_to(source):
            room = Path(tests) / file.relative_to(source).parent
            named_alike = room / f"test_{file.name}"
            return [str(named_alike if (CHECKOUT / named_alike).is_file() else room)]
    _refuse(f"{file}: must be in {' or '.join(TESTS_OF)}")


def _check_unmutated(killers: Iterable[str]) -> None:
    # A test that fails without a mistake would kill every mutant.
    with copied() as copy:
        where = [sys.executable, "-c", "import permitflow; print(permitflow.__file__)"]
        found = subprocess.run(where, env=_environment(copy), capture_output=True, text=True, check=True).stdout
        if not found.startswith(str(copy)):
            _refuse(f"the copy would not be tested, but {found.strip()}")
        code, output = _run_tests(copy, sorted(killers), UNMUTATED_TIMEOUT_SECONDS)
    if code != 0:
        _refuse(f"without any mistake the tests end with {code or 'a time-out'}:\n{output[-2000:]}")


@contextmanager
def copied() -> Iterator[Path]:
    """A copy of the checkout for the block."""
    with tempfile.TemporaryDirectory(prefix="mutant-") as folder:
        for name in COPIED:
            if (source := CHECKOUT / name).is_dir():
                shutil.copytree(source, Path(folder) / name, ignore=IGNORED)
            else:
                shutil.copy(source, folder)
        yield Path(folder).resolve()


def _environment(copy: Path) -> dict[str, str]:
    # Before the editable install, which points to the checkout.
    return {**os.environ, "PYTHONPATH": os.pathsep.join(str(copy / root) for root in ("impl", "model", "proofs"))}


def _pytest(tests: Sequence[str]) -> list[str]:
    return [sys.executable, "-m", "pytest", *PYTEST_OPTIONS, f"--timeout={TEST_TIMEOUT_SECONDS}", *tests]


def _run_tests(copy: Path, tests: Sequence[str], timeout_seconds: float) -> tuple[int | None, str]:
    """Pytest's exit code and output; None after a time-out."""
    with subprocess.Popen(
        _pytest(tests),
        cwd=copy,
        env=_environment(copy),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        start_new_session=True,
    ) as pytest:
        try:
            output, _ = pytest.communicate(timeout=timeout_seconds)
        except subprocess.TimeoutExpired:
            # With all processes that it has started.
            os.killpg(pytest.pid, signal.SIGKILL)
            return None, ""
    return pytest.returncode, output


def _refuse(reason: str) -> NoReturn:
    print(reason, file=sys.stderr)
    raise SystemExit(2)


if __name__ == "__main__":
    sys.exit(main())

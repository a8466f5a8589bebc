"""Each example runs as its table says, in order and twice: the table's commands are the test."""

import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.test_docs import ENVIRONMENT, LONGEST_SECONDS, REPOSITORY

TABLE = (REPOSITORY / "examples/README.md").read_text(encoding="utf-8")
# What programs dial; the tests have the servers elsewhere.
EXCHANGE, SERVICE = "127.0.0.1:50051", "127.0.0.1:8080"


class Example(NamedTuple):
    """A row of the table."""

    name: str
    servers: list[str]
    programs: list[list[str]]
    """Groups that run one after the other; the programs of a group run at the same time."""
    said: str
    said_again: str


def commands(cell: str) -> list[str]:
    return re.findall(r"`([^`]+)`", cell)


def examples() -> Iterator[Example]:
    for row in re.findall(r"^\| (.*) \|$", TABLE, re.MULTILINE):
        cells = [cell.strip() for cell in row.split("|")]
        if len(cells) == 5 and commands(cells[2]):
            groups = [commands(group) for group in cells[2].split(", then ")]
            (name,) = re.findall(r"\]\((\w+)", cells[0])
            yield Example(name, commands(cells[1]), groups, cells[3], cells[4] or cells[3])


EXAMPLES = list(examples())


class Place:
    """A copy of the examples, whose programs dial the servers of this test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        shutil.copytree(REPOSITORY / "examples", folder / "examples")

    def replace(self, address: str, by: str) -> None:
        for path in (self.folder / "examples").rglob("*.py"):
            path.write_text(path.read_text(encoding="utf-8").replace(address, by), encoding="utf-8")

    def start(self, command: str) -> "subprocess.Popen[str]":
        with (self.folder / "errors").open("a") as errors:
            words = [sys.executable if word == "python" else word for word in shlex.split(command)]
            return subprocess.Popen(
                words, cwd=self.folder, env=ENVIRONMENT, stdout=subprocess.PIPE, stderr=errors, text=True
            )

    @contextmanager
    def serving(self, command: str) -> Iterator[None]:
        """A server of the example, at a free port."""
        if command.startswith("permitflow serve"):
            usual, command = EXCHANGE, f"{command} --address 127.0.0.1:0 --quiet"
        else:
            usual = SERVICE
            self.replace('("127.0.0.1", 8080)', '("127.0.0.1", 0)')
        process = self.start(command)
        try:
            assert process.stdout is not None
            self.replace(usual, process.stdout.readline().removeprefix("listening at ").rstrip("\n"))
            yield
        finally:
            process.terminate()
            process.communicate(timeout=LONGEST_SECONDS)

    def run(self, groups: list[list[str]]) -> tuple[str, str]:
        """Run an example's programs; what the last one says, and all errors."""
        (self.folder / "errors").write_text("")
        for group in groups:
            with ExitStack() as stack:
                processes = [stack.enter_context(self.start(program)) for program in group]
                for process in processes:
                    stack.callback(process.kill)
                said = [process.communicate(timeout=LONGEST_SECONDS)[0] for process in processes]
        return said[-1], (self.folder / "errors").read_text()


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def is_slow(example: Example) -> bool:
    return example.name in WAIT or needs_spark(example)


def needs_spark(example: Example) -> bool:
    return any("SparkSession" in source(program) for group in example.programs for program in group)


def source(command: str) -> str:
    return (REPOSITORY / command.split()[-1]).read_text(encoding="utf-8")


# Twice some programs that start Spark, on a machine that has other things to do.
# The mock cluster lets each group wait three seconds for members; tests/impl/kafka do the same without that.
WAIT = ("kafka_topics",)
SLOW = [pytest.mark.long, pytest.mark.timeout(4 * LONGEST_SECONDS)]
CASES = [
    *(pytest.param(each, 1, id=each.name) for each in EXAMPLES if not is_slow(each)),
    *(pytest.param(each, 2, marks=SLOW, id=f"{each.name}, twice") for each in EXAMPLES),
]


@pytest.mark.parametrize(("example", "times"), CASES)
def test_an_example_runs_as_its_table_says(example: Example, times: int, place: Place) -> None:
    with ExitStack() as stack:
        for server in example.servers:
            stack.enter_context(place.serving(server))
        for expected in (example.said, example.said_again)[:times]:
            said, errors = place.run(example.programs)
            assert expected in said + errors, errors


def test_the_table_runs_every_program() -> None:
    """But for the packages, which tests of their own run."""
    named = {
        word for example in EXAMPLES for each in [example.servers, *example.programs] for word in " ".join(each).split()
    }
    folder = REPOSITORY / "examples"
    packages = {path.parent for path in folder.glob("*/__init__.py")}
    programs = {path.relative_to(REPOSITORY).as_posix() for path in folder.rglob("*.py") if path.parent not in packages}
    assert programs - named == {"examples/__init__.py", "examples/child_process.py", "examples/processes.py"}

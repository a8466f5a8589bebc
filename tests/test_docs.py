"""What the documents say is what the programs do: examples run, results are printed again, links lead somewhere.

A ``console`` block holds commands after ``$`` and what they print; a ``text`` block right after a ``python`` block is
what that program prints.  ``...`` stands for anything: times, ports.  A ``python`` block with a title is a part of the
file that the title names.
"""

import doctest
import fnmatch
import json
import os
import re
import shlex
import subprocess
import sys
import tomllib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from typer.core import TyperGroup
from typer.main import get_command
from typer.testing import CliRunner

from permitflow.spark.calls.options import CALL_OPTIONS
from permitflow.spark.local_session import FAST_START
from permitflow.spark.options import CHANNEL_OPTIONS, Use, names_for
from permitflow_model.manifest import read_manifest
from permitflow_tools.cli.application import app
from tools.cli_reference import commands

REPOSITORY = Path(__file__).resolve().parent.parent
DOCUMENTS = sorted([*REPOSITORY.glob("*.md"), *(REPOSITORY / "docs").rglob("*.md")])
BLOCK = re.compile(r"^```(console|python|sh)\n(.*?)^```$(?:\s*^```text\n(.*?)^```$)?", re.MULTILINE | re.DOTALL)
EXCERPT = re.compile(r'^```python title="([^"]+)"\n(.*?)^```$', re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\[[^\]]*\]\(([^)#\s]+)[^)]*\)")
ANCHOR = re.compile(r"\]\(([^)#\s]*)#([^)\s]+)\)")
# What programs dial on pages that start an exchange; the tests have it elsewhere.
EXCHANGE = "127.0.0.1:50051"
# A guard against hangs only: a program that starts Spark takes half a minute, and several on a machine that has other
# things to do.
LONGEST_SECONDS = 300


class Example(NamedTuple):
    """A program or a command, and what it prints."""

    where: str
    program: str
    printed: str


def blocks(kind: str) -> Iterator[tuple[str, str, str]]:
    """The blocks of this kind: where, what stands in it, and the block of text after it."""
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        for block in BLOCK.finditer(text):
            if block[1] == kind:
                line = text.count("\n", 0, block.start()) + 1
                yield f"{document.relative_to(REPOSITORY)}:{line}", block[2], block[3] or ""


COMMANDS = [
    Example(where, command, printed)
    for where, text, _ in blocks("console")
    for command, printed in re.findall(r"^\$ (.*)\n((?:(?!\$ ).*\n)*)", text, re.MULTILINE)
]
PROGRAMS = [Example(*block) for block in blocks("python")]
WITH_AN_EXCHANGE = ("README.md", "docs/start/first-steps.md")
ON_PAGES_WITH_AN_EXCHANGE = [example for example in PROGRAMS if example.where.startswith(WITH_AN_EXCHANGE)]


def assert_prints(example: Example, stdout: str) -> None:
    """Compare as doctest does, with ``...`` for anything and any amount of blanks."""
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    checker = doctest.OutputChecker()
    if not checker.check_output(example.printed, stdout, flags):
        difference = checker.output_difference(doctest.Example(example.program, example.printed), stdout, flags)
        pytest.fail(f"{example.where} says otherwise:\n{difference}")


# That of a user who has activated .venv, in the folder of the checkout.
ENVIRONMENT = {
    **os.environ,
    "PYTHONPATH": os.pathsep.join(filter(None, (str(REPOSITORY), os.environ.get("PYTHONPATH")))),
    "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}",
    "COLUMNS": "120",
    "PYSPARK_PYTHON": sys.executable,
    "JAVA_TOOL_OPTIONS": FAST_START,
}


def run(command: str | Sequence[str], folder: Path, **options: Any) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        command,
        cwd=folder,
        env=ENVIRONMENT,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        text=True,
        timeout=LONGEST_SECONDS,
        check=False,
        **options,
    )


@contextmanager
def exchange_of(page: str) -> Iterator[str]:
    """The exchange that a page starts, at a free port; its address."""
    (command,) = re.findall(r"^```sh\n(permitflow serve .*)\n```$", (REPOSITORY / page).read_text(), re.MULTILINE)
    more = ["--address", "127.0.0.1:0", "--quiet"]
    process = subprocess.Popen([*command.split(), *more], stdout=subprocess.PIPE, text=True, env=ENVIRONMENT)
    try:
        assert process.stdout is not None
        yield process.stdout.readline().removeprefix("listening at ").rstrip("\n")
    finally:
        process.terminate()
        process.communicate()


IN_THIS_PROCESS = ("permitflow check ", "permitflow simulate ", "permitflow trace ")
"""Commands that start neither a process nor an event loop: a process of its own for each would take longer."""


@pytest.mark.parametrize("example", COMMANDS, ids=lambda example: f"{example.where} {example.program}")
def test_a_command_prints_what_the_document_says(example: Example, monkeypatch: pytest.MonkeyPatch) -> None:
    if example.program.startswith(IN_THIS_PROCESS):
        monkeypatch.chdir(REPOSITORY)
        monkeypatch.setenv("COLUMNS", ENVIRONMENT["COLUMNS"])
        printed = CliRunner().invoke(app, shlex.split(example.program)[1:], catch_exceptions=False).output
    else:
        printed = run(example.program, REPOSITORY, shell=True, stderr=subprocess.STDOUT).stdout
    assert_prints(example, printed)


def assert_runs(example: Example, program: str, folder: Path) -> None:
    path = folder / "example.py"
    path.write_text(program, encoding="utf-8")
    done = run([sys.executable, "-W", "error", str(path)], folder, stderr=subprocess.PIPE)
    assert done.returncode == 0, f"{example.where}:\n{done.stderr}"
    assert_prints(example, done.stdout)


def is_long(example: Example) -> bool:
    """Does it start Spark?"""
    return "SparkSession" in example.program


def of_page(page: str) -> list[Example]:
    return [example for example in ON_PAGES_WITH_AN_EXCHANGE if example.where.startswith(page)]


@pytest.mark.parametrize(
    "page",
    [
        pytest.param(page, marks=pytest.mark.long if any(map(is_long, of_page(page))) else ())
        for page in WITH_AN_EXCHANGE
    ],
)
def test_a_pages_programs_run_in_order_with_its_exchange(page: str, tmp_path: Path) -> None:
    with exchange_of(page) as address:
        for example in of_page(page):
            assert_runs(example, example.program.replace(EXCHANGE, address), tmp_path)


@pytest.mark.parametrize(
    "example",
    [
        pytest.param(example, marks=[pytest.mark.long] if is_long(example) else [], id=example.where)
        for example in PROGRAMS
        if example not in ON_PAGES_WITH_AN_EXCHANGE or not (is_long(example) or EXCHANGE in example.program)
    ],
)
def test_a_program_runs_and_prints_what_the_document_says(example: Example, tmp_path: Path) -> None:
    assert EXCHANGE not in example.program, "nobody serves there"
    assert_runs(example, example.program, tmp_path)


def excerpts() -> Iterator[tuple[str, str, str]]:
    """Blocks that are a part of a file: where, the file, and the part."""
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        for block in EXCERPT.finditer(text):
            where = f"{document.relative_to(REPOSITORY)}:{text.count(chr(10), 0, block.start()) + 1}"
            yield where, block[1], block[2]


def test_an_excerpt_is_what_the_file_in_its_title_says() -> None:
    """Files of examples/ are run by tests/system/test_examples.py, programs of pages by the tests above."""
    found = [*excerpts()]
    assert len(found) >= 10
    assert [where for where, file, part in found if part not in (REPOSITORY / file).read_text(encoding="utf-8")] == []


def json_values(text: str) -> Iterator[object]:
    """Read JSON values, one after the other."""
    while text := text.lstrip():
        value, end = json.JSONDecoder().raw_decode(text)
        yield value
        text = text[end:]


READERS = {"json": lambda text: [*json_values(text)], "toml": tomllib.loads, "yaml": yaml.safe_load}
TESTED_OTHERWISE = r"python|python title=\S+|text|console|sh"
"""A program that runs, an excerpt of one, what programs print and drawings, commands that run, and others."""


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda document: str(document.relative_to(REPOSITORY)))
def test_no_block_goes_untested(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for kind, block in re.findall(r"^```(\S[^\n]*)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL):
        if not re.fullmatch(TESTED_OTHERWISE, kind):
            READERS[kind](block)
    outside = re.sub(r"^```.*?^```$", "", text, flags=re.MULTILINE | re.DOTALL)
    assert re.findall(r"\n\n {4}\S.*", outside) == [], "a block without a fence"


def test_commands_that_documents_do_not_run_have_valid_options() -> None:
    """In ``sh`` blocks: servers, and commands that look at what the reader has."""
    lines = [line for _, text, _ in blocks("sh") for line in text.splitlines() if line.startswith("permitflow ")]
    assert len(lines) >= 5
    for line in lines:
        arguments_of(line)


def arguments_of(line: str) -> dict[str, Any]:
    """What a command of ours is given; raises for a wrong option."""
    command: Any = get_command(app)
    words = shlex.split(line.partition(" > ")[0], comments=True)[1:]
    while isinstance(command, TyperGroup) and words and not words[0].startswith("-"):
        context = command.make_context("", words, resilient_parsing=True)
        command, words = command.get_command(context, words[0]), words[1:]
    found: dict[str, Any] = command.make_context(line, words).params
    return found


@pytest.mark.parametrize("page", ["docs/claims.md", "docs/compare.md"])
def test_a_command_that_checks_a_claim_finds_what_it_names(page: str) -> None:
    """The models that ``permitflow check`` is asked for, and the tests of ``pytest``."""
    text = (REPOSITORY / page).read_text(encoding="utf-8")
    checks, tests = re.findall(r"`(permitflow check [^`]+)`", text), re.findall(r"`pytest ([^`]+)`", text)
    assert min(len(checks), len(tests)) > 0
    for command in checks:
        given = arguments_of(command)
        assert given["file"] is None, command
        for pattern in given["model"] or ():
            assert fnmatch.filter(read_manifest(), pattern), command
    for command in tests:
        assert [path for path in command.split() if not (REPOSITORY / path).exists()] == []


def test_a_document_that_says_otherwise_is_noticed() -> None:
    with pytest.raises(pytest.fail.Exception, match=r"here:1 says otherwise"):
        assert_prints(Example("here:1", "permitflow check", "live up to chunks of 1,793\n"), "live up to 1,792\n")


def test_the_index_of_the_documents_names_every_command() -> None:
    readme = " ".join((REPOSITORY / "docs/README.md").read_text().split())
    names = [name for name, _ in commands() if name.count(" ") == 1]
    assert len(names) >= 4
    assert [name for name in names if name not in readme] == []


@pytest.mark.parametrize(
    ("page", "options"),
    [
        ("spark-batch.md", names_for(CHANNEL_OPTIONS, Use.READ | Use.WRITE)),
        ("spark-streaming.md", names_for(CHANNEL_OPTIONS, Use.READ_STREAM)),
        ("spark-grpc.md", names_for(CALL_OPTIONS, Use.READING | Use.WRITE)),
    ],
)
def test_every_option_of_spark_jobs_is_described(page: str, options: Sequence[str]) -> None:
    table = re.search(r"^\| Option \|.*?^$", (REPOSITORY / "docs/guides" / page).read_text(), re.M | re.S)
    assert table is not None
    first_columns = "\n".join(row.split("|")[1] for row in table[0].splitlines())
    assert set(re.findall(r"`(\w+)`", first_columns)) == set(options)


def test_links_lead_to_files_and_anchors_to_headings() -> None:
    lost = []
    for document in DOCUMENTS:
        text = document.read_text(encoding="utf-8")
        lost += [
            (document.name, target)
            for target in LINK.findall(text)
            if "://" not in target and not (document.parent / target).exists()
        ]
        lost += [
            (document.name, f"{target}#{anchor}")
            for target, anchor in ANCHOR.findall(text)
            if "://" not in target and anchor not in headings(document, target)
        ]
    assert lost == []


def headings(document: Path, target: str) -> set[str]:
    """The headings of the document that a link leads to, as GitHub spells them in addresses."""
    text = (document.parent / target if target else document).read_text(encoding="utf-8")
    found = re.findall(r"^#+ (.*)$", text, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in found}


def test_every_decision_stands_in_the_index() -> None:
    pages = [page for page in sorted((REPOSITORY / "docs/decisions").glob("*.md")) if page.name != "README.md"]
    decisions = {heading for page in pages for heading in headings(page, "") if re.match(r"\d+-", heading)}
    index = (REPOSITORY / "docs/decisions/README.md").read_text(encoding="utf-8")
    assert decisions == {anchor for _, anchor in ANCHOR.findall(index)}


def test_every_target_of_make_that_a_document_names_exists() -> None:
    targets = set(re.findall(r"^([a-z-]+):", (REPOSITORY / "Makefile").read_text(), re.MULTILINE))
    named = {
        (document.name, target)
        for document in DOCUMENTS
        for target in re.findall(r"^ *make ([a-z-]+)|`make ([a-z-]+)`", document.read_text(), re.MULTILINE)
        for target in target
        if target
    }
    assert ("README.md", "demo") in named
    assert {(name, target) for name, target in named if target not in targets} == set()


def test_every_session_of_nox_that_a_document_names_exists() -> None:
    listed = [sys.executable, "-m", "nox", "--list", "--noxfile", str(REPOSITORY / "noxfile.py")]
    done = subprocess.run(listed, capture_output=True, text=True, timeout=60, check=True)
    sessions = set(re.findall(r"^[*-] ([\w-]+)", done.stdout, re.MULTILINE))
    named = {
        (document.name, session)
        for document in DOCUMENTS
        for session in re.findall(r"nox -s ([\w-]+)", document.read_text())
    }
    assert ("README.md", "faults") in named
    assert {(name, session) for name, session in named if session not in sessions} == set()

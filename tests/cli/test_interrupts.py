"""Ctrl-C ends a command wherever it meets it: exit code 130, and no traceback."""

from collections.abc import Callable

import pytest

Command = Callable[..., tuple[int, str, str]]

# What a command does is replaced; what is around it is not.
PROGRAM = """
import ctypes, signal, sys
from permitflow.cli import application, main

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
IN_A_FINALIZER = "Interrupting()"
IN_A_FINALIZER_OF_MANY = "[Interrupting() for _ in range(3)].clear()"
BETWEEN_C_AND_PYTHON = "ctypes.pythonapi.PyErr_Clear.argtypes = [Interrupting]; ctypes.pythonapi.PyErr_Clear(1)"
IN_A_LIBRARY_THAT_HIDES_IT = """
        try:
            signal.raise_signal(signal.SIGINT)
        except KeyboardInterrupt:
            raise RuntimeError("an error of its own") from None
"""


@pytest.mark.parametrize(
    "doing", [IN_A_FINALIZER, IN_A_FINALIZER_OF_MANY, BETWEEN_C_AND_PYTHON, IN_A_LIBRARY_THAT_HIDES_IT]
)
def test_ctrl_c_is_not_lost_on_its_way(process: Command, doing: str) -> None:
    assert process(program=PROGRAM.format(doing)) == (130, "it cleaned up\n", "")


@pytest.mark.parametrize(("number", "code"), [("SIGTERM", 143), ("SIGHUP", 129)])
def test_who_is_told_to_end_cleans_up(process: Command, number: str, code: int) -> None:
    heeding = f"import signal; signal.signal(signal.{number}, signal.SIG_DFL)"  # whoever runs the tests may not
    program = heeding + PROGRAM.format(f"signal.raise_signal(signal.{number})")
    assert process(program=program) == (code, "it cleaned up\n", "")


def test_a_command_that_is_to_outlive_its_terminal_does(process: Command) -> None:
    ignoring = "import signal; signal.signal(signal.SIGHUP, signal.SIG_IGN)"
    program = ignoring + PROGRAM.format("signal.raise_signal(signal.SIGHUP)")
    assert process(program=program) == (0, "it went on\nit cleaned up\n", "")


# What the loading of a command begins with, goes through, and ends with.
LOADED = ["permitflow", "asyncio", "permitflow.cli", "permitflow.cli.application", "permitflow.cli.serve", "typer"]
LOADING = """
import importlib.abc, signal, sys
import permitflow_command

class Interrupting(importlib.abc.MetaPathFinder):
    def find_spec(self, name, path, target=None):
        if name == {!r}:
            signal.raise_signal(signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
sys.argv = ["permitflow", "--help"]
permitflow_command.main()
"""


@pytest.mark.parametrize("module", LOADED)
def test_ctrl_c_ends_a_command_that_is_still_loading(process: Command, module: str) -> None:
    assert process(program=LOADING.format(module)) == (130, "", "")


def test_a_command_that_loads_in_the_background_goes_on_to_ignore_it(process: Command) -> None:
    ignoring = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
    code, stdout, stderr = process(program=ignoring + LOADING.format("typer"))
    assert (code, stderr) == (0, "")
    assert "Usage: permitflow" in stdout


def test_ctrl_c_after_the_command_shows_nothing_either(process: Command) -> None:
    program = PROGRAM.format("pass") + "signal.raise_signal(signal.SIGINT)"
    assert process(program=program) == (130, "it went on\nit cleaned up\n", "")


def test_what_else_a_finalizer_raises_is_told_as_ever(process: Command) -> None:
    program = PROGRAM.replace("signal.raise_signal(signal.SIGINT)", "1 / 0")
    code, _, stderr = process(program=program.format(IN_A_FINALIZER))
    assert code == 0
    assert "Exception ignored in: <function Interrupting.__del__" in stderr


def test_a_command_in_the_background_goes_on_to_ignore_it(process: Command) -> None:
    ignoring = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)"
    program = ignoring + PROGRAM.format("signal.raise_signal(signal.SIGINT)")
    assert process(program=program) == (0, "it went on\nit cleaned up\n", "")


def test_what_is_done_at_exit_is_done_though_one_of_it_is_interrupted(process: Command) -> None:
    doing = """
        import atexit
        atexit.register(lambda: print('closed'))
        atexit.register(signal.raise_signal, signal.SIGINT)
"""
    assert process(program=PROGRAM.format(doing)) == (0, "it went on\nit cleaned up\nclosed\n", "")


def test_memory_is_not_taken_apart_once_a_command_was_interrupted(process: Command) -> None:
    doing = """
        import os
        class Kept:
            def __del__(self, write=os.write):
                write(1, b"taken apart")
        kept = Kept()
        signal.raise_signal(signal.SIGINT)
"""
    assert process(program=PROGRAM.format(doing)) == (130, "it cleaned up\n", "")

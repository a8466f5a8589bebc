"""How a command ends: with an exit code that means the same for all of them, and a report."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from enum import IntEnum
from typing import Annotated, NoReturn

import typer

from permitflow.errors import printable, shortened

_MOST_CHARACTERS = 4_000  # a file or a peer may have written part of an error

Json = Annotated[bool, typer.Option("--json", help="Print one JSON object instead of text.")]


class ExitCode(IntEnum):
    """What a script may rely on."""

    HOLDS = 0
    FAILS = 1
    UNUSABLE = 2
    INTERRUPTED = 130


def stop(*, holds: bool) -> NoReturn:
    """End the command with its verdict."""
    raise typer.Exit(ExitCode.HOLDS if holds else ExitCode.FAILS)


def failed(message: str) -> NoReturn:
    """End the command because what it was to do has failed."""
    complain(message)
    raise typer.Exit(ExitCode.FAILS)


def unusable(message: str) -> NoReturn:
    """End the command because its input, or this machine, cannot be used; the message says what to do."""
    complain(message)
    raise typer.Exit(ExitCode.UNUSABLE)


def complain(message: str) -> None:
    """Say on standard error what went wrong."""
    typer.echo(printable(f"Error: {shortened(message, _MOST_CHARACTERS)}", keeps_lines=True), err=True)


def print_json(document: Mapping[str, object]) -> None:
    """Print a report for programs."""
    typer.echo(json.dumps(document, indent=2))


@contextmanager
def requires_extra(extra: str) -> Iterator[None]:
    """Turn a missing optional package into advice.  Only imports belong inside."""
    try:
        yield
    except ModuleNotFoundError as error:
        package = (error.name or "").partition(".")[0]
        if package.startswith(("permitflow", "pyspark_permitflow")):
            raise
        unusable(f"{package} is not installed, but this command needs it: install permitflow[{extra}]")

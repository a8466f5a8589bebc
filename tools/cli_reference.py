"""The help of every command, as a page of the site: `site_hooks` asks for it."""

from collections.abc import Iterator
from typing import TypeAlias

from typer.core import TyperArgument, TyperCommand, TyperGroup, TyperOption
from typer.main import get_command

from permitflow_tools.cli.application import app

Command: TypeAlias = TyperCommand | TyperGroup


def reference() -> str:
    """The whole page."""
    parts = [
        "# The command line",
        "`permitflow COMMAND --help` says the same.",
    ]
    for name, command in commands():
        parts += _section(name, command)
    return "\n\n".join(parts) + "\n"


def commands() -> Iterator[tuple[str, Command]]:
    """Every command with its full name, groups before their members."""
    command = get_command(app)
    assert isinstance(command, TyperCommand | TyperGroup)  # Typer makes nothing else
    yield from _with_subcommands("permitflow", command)


def _with_subcommands(name: str, command: Command) -> Iterator[tuple[str, Command]]:
    yield name, command
    if isinstance(command, TyperGroup):
        context = command.make_context(name, [], resilient_parsing=True)
        for child_name in command.list_commands(context):
            child = command.get_command(context, child_name)
            assert isinstance(child, TyperCommand | TyperGroup)
            if child.hidden:
                continue
            yield from _with_subcommands(f"{name} {child_name}", child)


def _section(name: str, command: Command) -> Iterator[str]:
    yield f"## {name}"
    # \b keeps the help from being wrapped again; a document needs no such hint.
    yield f"```text\n{(command.help or '').replace(chr(8) + chr(10), '').strip()}\n```"
    rows = [
        f"| `{_signature(parameter)}` | {parameter.help} |"
        for parameter in command.params
        if isinstance(parameter, TyperArgument | TyperOption) and parameter.help
    ]
    if rows:
        yield "\n".join(["| Option | |", "|---|---|", *rows])


def _signature(parameter: TyperArgument | TyperOption) -> str:
    names = "" if isinstance(parameter, TyperArgument) else ", ".join(parameter.opts)
    return f"{names} {parameter.metavar or ''}".strip()

"""Write docs/cli.md: what every command says about itself.  A test compares the file with what this would write."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from typer.core import TyperGroup, TyperOption
from typer.main import get_command

from permitflow.cli.application import app

DOCUMENT = Path(__file__).resolve().parent.parent / "docs" / "cli.md"


def reference() -> str:
    """The whole document."""
    group = get_command(app)
    assert isinstance(group, TyperGroup)  # more than one command
    parts = [
        "# The command line",
        "Written by `make docs` from the commands' own help; `permitflow COMMAND --help` says the same.",
        *_section("permitflow", group.help, group.params),
    ]
    for name, command in group.commands.items():
        parts += _section(f"permitflow {name}", command.help, command.params)
    return "\n\n".join(parts) + "\n"


def _section(title: str, help_text: str | None, parameters: Sequence[object]) -> Iterator[str]:
    yield f"## {title}"
    # \b keeps click from re-wrapping a paragraph; a document needs no such hint.
    yield f"```text\n{(help_text or '').replace(chr(8) + chr(10), '').strip()}\n```"
    options = [parameter for parameter in parameters if isinstance(parameter, TyperOption)]
    rows = [f"| `{_signature(option)}` | {option.help} |" for option in options if option.help]
    yield "\n".join(["| Option | |", "|---|---|", *rows])


def _signature(option: TyperOption) -> str:
    names = ", ".join(option.opts)
    return f"{names} {option.metavar}" if option.metavar else names


if __name__ == "__main__":
    DOCUMENT.write_text(reference(), encoding="utf-8")

"""The commands together; each is loaded when it is asked for."""

from importlib import import_module
from typing import Annotated, Any

import typer
from typer.core import TyperGroup
from typer.main import get_group

from permitflow.errors import (
    DemoError,
    InvalidOptionError,
    InvalidParametersError,
    ParametersFileError,
    TraceError,
    TraceWriteError,
    UnknownChannelError,
    UnknownConsumerError,
)
from permitflow_tools.cli.outcomes import complain, failed, unusable

# In the order of the help; each has a module of its name.
_COMMANDS = (
    *("check", "simulate", "prove", "explain", "serve", "put", "get", "health", "top", "conform"),
    *("channel", "demo", "trace"),
)


class _Commands(TyperGroup):
    """All commands: an error that says what is wrong with what the user gave, or what failed, is one line.

    So is an interrupt; the arguments of ``KeyboardInterrupt`` say what was done by then.
    """

    def invoke(self, ctx: Any) -> Any:
        """Run a command."""
        try:
            return super().invoke(ctx)
        except KeyboardInterrupt as interrupt:
            complain("; ".join(["interrupted", *interrupt.args]))
            raise
        except (DemoError, TraceWriteError) as error:
            failed(str(error))
        except (
            *(InvalidOptionError, InvalidParametersError, ParametersFileError, TraceError),
            *(UnknownChannelError, UnknownConsumerError),
        ) as error:
            unusable(str(error))

    def list_commands(self, ctx: Any) -> list[str]:
        """The names of all commands, loaded or not."""
        return [*_COMMANDS, *(name for name in super().list_commands(ctx) if name not in _COMMANDS)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """Load a command; if there is none of this name, all, so that the one that was meant can be named."""
        if cmd_name not in self.commands:
            for name in (cmd_name,) if cmd_name in _COMMANDS else _COMMANDS:
                self.commands[name] = _loaded(name)
        return super().get_command(ctx, cmd_name)


def _loaded(name: str) -> Any:
    found = getattr(import_module(f"permitflow_tools.cli.{name}"), name)
    around = typer.Typer(rich_markup_mode=None)
    if isinstance(found, typer.Typer):
        around.add_typer(found, name=name)
    else:
        around.command()(found)
    return get_group(around).commands[name]


# Plain text: a line of an error message stays one line, also in a log.
app = typer.Typer(
    name="permitflow",
    cls=_Commands,
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _show_version(is_wanted: bool) -> None:
    if is_wanted:
        from importlib.metadata import version  # loads much, for this alone

        typer.echo(f"permitflow {version('permitflow')}")
        raise typer.Exit


@app.callback()
def permitflow(
    show_version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Permit-based back-pressure: checked, proved, and running.

    A sender needs a permit for each row it sends; the receiver returns permits as rows are consumed. So there are
    never more rows between them than row permits, however slow the consumer is. Whether such a channel can get stuck
    depends on a few numbers:

    \b
      permitflow check --row-permits 2048 --permit-batch 256   can these numbers deadlock?
      permitflow check                                         all models of the specification
      permitflow simulate orders.toml                          how fast is it, and how large must it be?
      permitflow prove                                         the theorems, for all numbers
      permitflow explain --row-permits 8 --permit-batch 3      a run as a page to step through
      permitflow serve --stream orders:2                       an exchange for producers and consumers
      permitflow put orders/0 orders.csv                       rows of a file or a pipe, into a channel
      permitflow get orders/0 out.parquet                      and out of it
      permitflow health                                        does it take streams?
      permitflow top                                           which side waits for the other?
      permitflow channel list                                  its channels: add, remove, reset, peek, purge
      permitflow trace validate RUN/                           was a recorded run a behaviour of the model?
      permitflow conform my_channel:MyAdapter                  does your own channel keep the rules?
      permitflow demo                                          two Spark jobs, with an exchange between them
      permitflow demo wordcount                                several processes whose sources are muted
      permitflow demo jobs                                     clients, a master, workers: overloaded, and killed

    Files: what was computed replaces an older file of that name, as a whole; what was recorded (serve --trace, demo
    --keep) is never overwritten: name a new file. No command replaces what it reads.

    Exit codes: 0 it holds or went well, 1 it does not, 2 the input cannot be used, 130 interrupted (143 by
    SIGTERM, 129 by a terminal that hangs up).
    """


@app.command("help", hidden=True)
def show_help(
    context: typer.Context, names: Annotated[list[str] | None, typer.Argument(metavar="[COMMAND]...")] = None
) -> None:
    """Show the help of a command, or of all."""
    asked: Any = context.parent
    for name in names or []:
        found = asked.command.get_command(asked, name) if hasattr(asked.command, "get_command") else None
        if found is None:
            unusable(f"there is no command {name!r}; {asked.command_path} --help lists them")
        asked = type(asked)(found, info_name=name, parent=asked)
    typer.echo(asked.get_help())


@app.command("version", hidden=True)
def show_version() -> None:
    """Show the version."""
    _show_version(is_wanted=True)

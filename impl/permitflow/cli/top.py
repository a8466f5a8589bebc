"""``permitflow top``: what flows through an exchange, seen from outside."""

import sys
from datetime import datetime
from time import monotonic, sleep
from typing import TYPE_CHECKING, Annotated

import typer

from permitflow.cli.console import open_console
from permitflow.cli.options import duration, host_and_port
from permitflow.cli.outcomes import ExitCode, Json, complain, requires_extra, unusable
from permitflow.errors import InvalidParametersError, PermitflowError, UnknownChannelError

if TYPE_CHECKING:
    from permitflow.cli.top_reports import TopReport
    from permitflow.transports.blocking_control import TrafficWatch

__all__ = ["top"]


def top(
    address: Annotated[
        str,
        typer.Argument(
            parser=host_and_port, metavar="ADDRESS", help="The exchange, as HOST:PORT, or tcp://HOST:PORT without gRPC."
        ),
    ] = "127.0.0.1:50051",
    channel: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this channel; may be repeated. Default: all.")
    ] = None,
    interval: Annotated[
        float,
        typer.Option(
            parser=duration, metavar="DURATION", show_default=False, help="Time between two looks. Default: 1s."
        ),
    ] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Look for one interval, print it, and end.")] = False,
    as_json: Json = False,
) -> None:
    """Watch the channels of a running exchange.

    \b
      permitflow top 127.0.0.1:50051                     a live table
      permitflow top --once --json                       one object, for a script
      permitflow top --json --interval 250ms > run.jsonl     lines to plot: permitflow.spark.plot_back_pressure

    Columns: streams that put and get now; rows in since the exchange started, rows in and out a second; held: rows
    that take room in the channel, and the room that is left; blocked: the share of the time in which rows from
    producers waited for room, and in which rows on their way out waited for a consumer's permits; lag, of channels
    that keep their rows: how many rows each consumer has still to acknowledge. --json tells more.

    An exchange that is gone may come back: it is asked again and again, until Ctrl-C, and meanwhile it is said when it
    was last seen, and what is wrong. With --once, that is an error.

    Exit code 0: seen. 1: nobody answers there. 2: this is no address, or the exchange has no such channel. 130:
    stopped by Ctrl-C.
    """
    if interval <= 0:
        unusable("--interval: must be above 0")
    with requires_extra("grpc"):
        from permitflow.transports.blocking_control import TrafficWatch
    try:
        with TrafficWatch(address, channel or ()) as watch, _report(as_json=as_json, once=once) as report:
            _first_look(watch)
            _follow(watch, report, address, interval, once=once)
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except BrokenPipeError:
        # Whoever reads our lines has seen enough.
        sys.stderr.close()


def _report(*, as_json: bool, once: bool) -> "TopReport":
    from permitflow.cli.top_reports import JsonLines, LiveTable, PlainTable

    console = open_console()
    if as_json:
        return JsonLines()
    return LiveTable(console) if console.is_terminal and not once else PlainTable(console)


def _first_look(watch: "TrafficWatch") -> None:
    try:
        watch.look()
    except (InvalidParametersError, UnknownChannelError) as error:
        unusable(str(error))
    except PermitflowError as error:
        complain(str(error))
        raise typer.Exit(ExitCode.FAILS) from None


def _follow(watch: "TrafficWatch", report: "TopReport", address: str, interval_seconds: float, *, once: bool) -> None:
    """Look again and again; an exchange that has gone may come back."""
    from permitflow.cli.top_reports import Loss

    seen_at, seen_seconds = datetime.now().astimezone(), monotonic()
    while True:
        sleep(interval_seconds)
        try:
            look = watch.look()
        except PermitflowError as error:
            if once:
                complain(str(error))
                raise typer.Exit(ExitCode.FAILS) from None
            report.lost(Loss(address, seen_at, monotonic() - seen_seconds, str(error)))
            continue
        seen_at, seen_seconds = datetime.now().astimezone(), monotonic()
        report.show(look)
        if once:
            return

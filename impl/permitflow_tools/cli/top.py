"""``permitflow top``: what flows through an exchange, seen from outside."""

import json
import sys
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import datetime
from time import monotonic, sleep
from typing import TYPE_CHECKING, Annotated

import typer
from rich.console import Group
from rich.live import Live

from permitflow.errors import InvalidParametersError, PermitflowError, UnknownChannelError
from permitflow_tools.cli.console import open_console, print_lines
from permitflow_tools.cli.dialling import DialTarget, dials_named
from permitflow_tools.cli.options import above_zero, duration, option
from permitflow_tools.cli.outcomes import ExitCode, Json, failed, requires_extra
from permitflow_tools.cli.traffic_table import traffic_table

if TYPE_CHECKING:
    from permitflow.client.traffic_watch import TrafficReading, TrafficWatch

_NO_CHANNELS = "no channels here that this client may see"


@dials_named
def top(
    exchange: DialTarget,
    channel: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="Only this channel; may be repeated. Default: all.")
    ] = None,
    interval: Annotated[
        float,
        option(above_zero(duration), "DURATION", "Time between two looks. Default: 1s."),
    ] = 1.0,
    gauges: Annotated[
        bool,
        typer.Option("--gauges", help="Show also what only the flow of a channel counts; out: towards its consumer."),
    ] = False,
    once: Annotated[bool, typer.Option("--once", help="Look for one interval, print it, and end.")] = False,
    as_json: Json = False,
) -> None:
    """Watch the channels of a running exchange.

    \b
      permitflow top --address 127.0.0.1:50051               a live table
      permitflow top --once --json                           one object, for a script
      permitflow top --json --interval 250ms > run.jsonl     lines to plot: permitflow_tools.explain.back_pressure

    Columns: streams that put and get now; rows in since the exchange started, rows in and out a second; held: rows
    that take room in the channel, and the room that is left; blocked: the share of the time in which rows from
    producers waited for room, and in which rows on their way out waited for a consumer; lag, of channels that keep
    their rows: how many rows each consumer has still to acknowledge; stopped, of channels that lead to a gate: the
    share of the time in which the channel was behind its barrier, and waited for those that are not. --json has more.

    An exchange that is gone may come back: the command asks again until Ctrl-C, and meanwhile shows when the exchange
    was last seen and the error. That is an error with --once. If there are several exchanges, those that answer are
    shown; the others are named below, and so is a channel that two of them have (in JSON: unanswered, twice). A column
    (exchange) says which one has a channel.

    Exit code 0: seen. 1: no answer, also of one of several with --once; or two have the same channel. 2: this is no
    address, or the exchange has no such channel. 130: stopped by Ctrl-C.
    """
    with requires_extra("grpc"):
        from permitflow.client.survey import Survey
        from permitflow.client.traffic_watch import TrafficWatch
    console = open_console()
    is_live = console.is_terminal and not once and not as_json
    live = Live(console=console, auto_refresh=False) if is_live else None
    loss: _Loss | None = None
    try:
        with TrafficWatch(exchange.address, channel or (), security=exchange.security) as watch, live or nullcontext():
            for seen in _looks(watch, exchange.address, interval, once=once):
                survey = Survey() if isinstance(seen, _Loss) else seen.survey
                if as_json:
                    typer.echo(json.dumps(seen.as_json()))
                    continue
                gone = seen if isinstance(seen, _Loss) else None
                shown = (
                    str(seen)
                    if isinstance(seen, _Loss)
                    else Group(
                        traffic_table(seen.flows, width=console.width, shows_gauges=gauges, places=survey.places)
                        if seen.flows
                        else _NO_CHANNELS,
                        *survey.words,
                    )
                )
                if live is not None:
                    live.update(shown, refresh=True)
                    continue
                if loss and not gone:
                    print_lines(console, f"{exchange.address} is seen again")
                # As text a loss is told once, as long as the reason is the same.
                if not (loss and gone and loss.reason == gone.reason):
                    console.print(shown, soft_wrap=gone is not None)
                loss = gone
        if not survey.is_whole:  # with --once
            raise typer.Exit(ExitCode.FAILS)
    except KeyboardInterrupt:
        raise typer.Exit(ExitCode.INTERRUPTED) from None
    except (InvalidParametersError, UnknownChannelError):
        raise
    except PermitflowError as error:
        failed(str(error))
    except BrokenPipeError:
        # The reader of our lines has seen enough.
        sys.stderr.close()


def _looks(
    watch: "TrafficWatch", address: str, interval_seconds: float, *, once: bool
) -> "Iterator[TrafficReading | _Loss]":
    """Look again and again; an exchange that has gone may come back."""
    watch.look()
    seen_at, seen_seconds = datetime.now().astimezone(), monotonic()
    while True:
        sleep(interval_seconds)
        try:
            look = watch.look()
        except PermitflowError as error:
            if once:
                raise
            yield _Loss(address, seen_at, monotonic() - seen_seconds, str(error))
            continue
        seen_at, seen_seconds = datetime.now().astimezone(), monotonic()
        yield look
        if once:
            return


@dataclass(frozen=True, slots=True)
class _Loss:
    """A look that saw nothing."""

    address: str
    """Where the exchange was."""
    seen_at: datetime
    """When it was seen last, by the clock of this machine, with its time zone."""
    seconds: float
    """The time since then."""
    reason: str

    def __str__(self) -> str:
        at = self.seen_at.isoformat(" ", "seconds")
        return f"{self.address} was last seen at {at}, {self.seconds:,.0f} s ago; asking again: {self.reason}"

    def as_json(self) -> dict[str, object]:
        """One object for a line of a file."""
        at = self.seen_at.isoformat(timespec="milliseconds")
        return {"error": self.reason, "address": self.address, "last_seen": at, "seconds_ago": round(self.seconds, 3)}

"""``permitflow serve``: an exchange between producers and consumers, and what flows through it."""

import os
from collections import Counter
from pathlib import Path
from typing import Annotated

import typer

from permitflow.cli.options import StreamName, host_and_port, stream_name, whole_number
from permitflow.cli.outcomes import ExitCode, Json, complain, requires_extra, unusable
from permitflow.errors import InvalidParametersError, TraceWriteError, TransportError
from permitflow.protocol.parameters import ChannelParameters, Oversize
from permitflow.tracing import FileTrace
from permitflow.transports.shared_memory.policy import SameHost

__all__ = ["serve"]


def serve(
    stream: Annotated[
        list[StreamName],
        typer.Option(
            parser=stream_name, metavar="NAME[:N]", help="A stream of N channels, NAME/0 to NAME/N-1; may be repeated."
        ),
    ],
    address: Annotated[
        str, typer.Option(parser=host_and_port, metavar="HOST:PORT", help="Where to listen; port 0 takes a free one.")
    ] = "127.0.0.1:50051",
    row_permits: Annotated[
        int | None,
        typer.Option(parser=whole_number(least=2), metavar="ROWS", help="Rows in a channel at once. Default: 32768."),
    ] = None,
    permit_batch: Annotated[
        int | None,
        typer.Option(
            parser=whole_number(least=1),
            metavar="ROWS",
            help="Permits are returned once so many are held. Default: an eighth of the row permits.",
        ),
    ] = None,
    max_chunk_cost: Annotated[
        int | None,
        typer.Option(
            parser=whole_number(least=1),
            metavar="ROWS",
            help="The most permits a chunk takes. Default: row permits less batch.",
        ),
    ] = None,
    barrier_permits: Annotated[
        int | None,
        typer.Option(
            parser=whole_number(least=1), metavar="N", help="Barriers that may be in a channel at once. Default: 1."
        ),
    ] = None,
    oversize: Annotated[
        Oversize,
        typer.Option(metavar="RULE", help="A chunk above the maximum is sent in slices (split) or admitted whole."),
    ] = Oversize.SPLIT,
    same_host: Annotated[
        SameHost,
        typer.Option(
            metavar="RULE", help="Share memory with processes on this host if they can (auto), never, or require it."
        ),
    ] = SameHost.AUTO,
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE", help="Record every action of the protocol; .parquet, else JSON lines.", dir_okay=False
        ),
    ] = None,
    quiet: Annotated[bool, typer.Option("--quiet", help="Print the address, and nothing else.")] = False,
    as_json: Json = False,
) -> None:
    """Run an exchange: producers put rows into named channels, consumers get them.

    Producers and consumers both dial the exchange, so neither must be reachable. It holds at most --row-permits rows
    of each channel, and as many for each producer and consumer that is connected; whoever is too fast waits.

    \b
      permitflow serve --stream orders:2                       channels orders/0 and orders/1
      permitflow serve --stream q12:4 --row-permits 8192       smaller windows
      permitflow serve --stream q12 --address 127.0.0.1:0      a free port; the first line says which
      permitflow serve --stream q12 --trace run.jsonl          for the model to replay

    The first line is "listening at HOST:PORT". After it, a terminal shows a live table, anything else gets a line
    when something has changed, and --json prints one object a line. SIGTERM or Ctrl-C stops: streams get a few
    seconds to end, then their peers are told that the exchange is gone.

    Exit code 0: stopped by SIGTERM. 1: the recording failed. 2: unusable input, or it cannot listen there. 130:
    stopped by Ctrl-C.
    """
    if twice := [name for name, count in Counter(one.name for one in stream).items() if count > 1]:
        unusable(f"--stream: {twice[0]!r} is given twice")
    given = {
        "row_permits": row_permits,
        "permit_batch": permit_batch,
        "max_chunk_cost": max_chunk_cost,
        "barrier_permits": barrier_permits,
    }
    try:
        parameters = ChannelParameters(
            **{name: value for name, value in given.items() if value is not None}, oversize=oversize
        )
    except InvalidParametersError as error:
        unusable(f"--{error.name.replace('_', '-')}: {error}")
    # When an address cannot be had, gRPC would add its own words to ours; it looks here when it is imported.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    with requires_extra("grpc"):
        from permitflow.cli.serving import Style, run_exchange
    style = Style.JSON if as_json else Style.QUIET if quiet else Style.TEXT
    try:
        interrupted = run_exchange(stream, address, parameters, _recording(trace), style, same_host)
    except TransportError:
        unusable(f"--address: cannot listen at {address}: the port is in use, or this machine has no such address")
    except TraceWriteError as error:
        complain(str(error))
        raise typer.Exit(ExitCode.FAILS) from None
    raise typer.Exit(ExitCode.INTERRUPTED if interrupted else ExitCode.HOLDS)


def _recording(path: Path | None) -> FileTrace | None:
    try:
        return None if path is None else FileTrace(path)
    except TraceWriteError as error:
        unusable(f"--trace: cannot write {path}: {error.reason}")

"""The options of ``permitflow serve``."""

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from permitflow.cli.options import StreamName, folder, host_and_port, seconds, stream_name, whole_number
from permitflow.protocol.compression import Compression
from permitflow.protocol.parameters import (
    DEFAULT_KEPT_CHUNK_COST,
    DEFAULT_KEPT_ROW_PERMITS,
    DEFAULT_ROW_PERMITS,
    Oversize,
)
from permitflow.protocol.replay import Retention
from permitflow.protocol.staging import DEFAULT_TIMEOUT_SECONDS
from permitflow.transports.shared_memory import SameHost

__all__ = [
    "Addresses",
    "BarrierPermits",
    "Compressed",
    "Consumers",
    "DrainSeconds",
    "Keep",
    "MaxChunkCost",
    "OversizeRule",
    "PermitBatch",
    "Quiet",
    "RowPermits",
    "SharedMemory",
    "StagingRows",
    "StagingTimeout",
    "StoreFolder",
    "Streams",
    "Trace",
]

# Far beyond any memory, and sums of some of them still fit into the integers of the wire and of the store.
_MOST = 10**15
_ROWS = whole_number(least=1, most=_MOST)

Streams: TypeAlias = Annotated[
    list[StreamName],
    typer.Option(
        parser=stream_name, metavar="NAME[:N]", help="A stream of N channels, NAME/0 to NAME/N-1; may be repeated."
    ),
]

Addresses: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        parser=host_and_port,
        metavar="HOST:PORT",
        help="Where to listen; port 0 takes a free one, tcp:// before it does without gRPC; may be repeated. "
        "Default: 127.0.0.1:50051.",
    ),
]

RowPermits: TypeAlias = Annotated[
    int | None,
    typer.Option(
        parser=whole_number(least=2, most=_MOST),
        metavar="ROWS",
        help=f"Rows in a channel at once. Default: {DEFAULT_ROW_PERMITS}; with replay {DEFAULT_KEPT_ROW_PERMITS}.",
    ),
]

PermitBatch: TypeAlias = Annotated[
    int | None,
    typer.Option(
        parser=_ROWS,
        metavar="ROWS",
        help="Permits are returned once so many are held. Default: an eighth of the row permits.",
    ),
]

MaxChunkCost: TypeAlias = Annotated[
    int | None,
    typer.Option(
        parser=_ROWS,
        metavar="ROWS",
        help="The most permits a chunk takes. Default: row permits less batch; "
        f"{DEFAULT_KEPT_CHUNK_COST} with replay and its default of row permits.",
    ),
]

BarrierPermits: TypeAlias = Annotated[
    int | None,
    typer.Option(parser=_ROWS, metavar="N", help="Barriers that may be in a channel at once. Default: 1."),
]

OversizeRule: TypeAlias = Annotated[
    Oversize,
    typer.Option(metavar="RULE", help="A chunk above the maximum is sent in slices (split) or admitted whole."),
]

Keep: TypeAlias = Annotated[
    Retention,
    typer.Option(
        metavar="RULE",
        help="Rows are gone once they were read (once), or kept until all consumers have acknowledged them (replay).",
    ),
]

Consumers: TypeAlias = Annotated[
    list[str] | None,
    typer.Option(
        "--consumer",
        metavar="NAME",
        help="With replay: a consumer for which rows are kept; may be repeated. Default: one, named default.",
    ),
]

StoreFolder: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        parser=folder,
        metavar="DIR",
        help="With replay: keep rows on disk, in this folder; a restart goes on from there. Default: in memory.",
    ),
]

StagingRows: TypeAlias = Annotated[
    int | None,
    typer.Option(
        parser=_ROWS,
        metavar="ROWS",
        help="With replay: rows of a channel that may be staged at once. Default: four times the row permits.",
    ),
]

StagingTimeout: TypeAlias = Annotated[
    int | None,
    typer.Option(
        parser=_ROWS,
        metavar="SECONDS",
        help="With replay: what is staged by a query of which nothing was heard for so long is forgotten. "
        f"Default: {DEFAULT_TIMEOUT_SECONDS:.0f}.",
    ),
]

DrainSeconds: TypeAlias = Annotated[
    float,
    typer.Option(
        parser=seconds,
        metavar="SECONDS",
        help="After SIGTERM or Ctrl-C: the most time for streams to end, and for consumers to take what is in memory.",
    ),
]

SharedMemory: TypeAlias = Annotated[
    SameHost,
    typer.Option(
        metavar="RULE", help="Share memory with processes on this host if they can (auto), never, or require it."
    ),
]

Compressed: TypeAlias = Annotated[
    Compression,
    typer.Option(
        metavar="CODEC",
        help="Compress chunks to and from other hosts: lz4 or zstd, if the others can; auto, if they ask; or none.",
    ),
]

Trace: TypeAlias = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="Record every action of the protocol, in a new file; .parquet, else JSON lines.",
        dir_okay=False,
    ),
]

Quiet: TypeAlias = Annotated[bool, typer.Option("--quiet", help="Print the addresses, and nothing else.")]

"""Options that describe a channel: the commands that take them mean the same, and say it in the same words."""

from typing import Annotated, TypeAlias

import typer

from permitflow.cli.options import row_counts, whole_number

__all__ = ["Batch", "FlushIdle", "MaxChunk", "RowCount", "Sizes"]

_ROWS = whole_number(least=1)

RowCount: TypeAlias = Annotated[
    int | None, typer.Option(parser=_ROWS, metavar="ROWS", help="Row permits of the channel (ROW_COUNT, Buf).")
]

Batch: TypeAlias = Annotated[
    int | None,
    typer.Option(parser=_ROWS, metavar="ROWS", help="The receiver returns permits once it holds this many."),
]

MaxChunk: TypeAlias = Annotated[
    int | None,
    typer.Option(
        parser=_ROWS,
        metavar="ROWS",
        help="The most permits a chunk takes. Default: row count less batch, as the published protocol clamps.",
    ),
]

Sizes: TypeAlias = Annotated[
    frozenset[int] | None,
    typer.Option(
        parser=row_counts, metavar="ROWS,...", help="Only chunks of these sizes are sent. Default: every size."
    ),
]

FlushIdle: TypeAlias = Annotated[
    bool, typer.Option("--flush-idle", help="An idle receiver returns what is below the batch (permitflow's own).")
]

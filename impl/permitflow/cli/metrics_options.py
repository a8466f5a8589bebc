"""The option of ``permitflow serve`` that says where Prometheus may ask."""

from typing import Annotated

import typer

from permitflow.cli.options import host_and_port

__all__ = ["MetricsAddress"]

MetricsAddress = Annotated[
    str | None,
    typer.Option(
        parser=host_and_port,
        metavar="HOST:PORT",
        help="Also serve metrics for Prometheus, at http://HOST:PORT/metrics. Needs permitflow[metrics].",
    ),
]

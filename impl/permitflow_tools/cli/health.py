"""``permitflow health``: does an exchange take streams?  For people, and for what watches over processes."""

from typing import Annotated

import typer

from permitflow.errors import InvalidParametersError, PermitflowError
from permitflow_tools.cli.dialling import DialTarget, dials_named
from permitflow_tools.cli.options import above_zero, duration, option
from permitflow_tools.cli.outcomes import Json, print_json, requires_extra, stop


@dials_named
def health(
    exchange: DialTarget,
    timeout: Annotated[
        float,
        option(above_zero(duration), "DURATION", "The longest wait for an answer, as in 500ms. Default: 5s."),
    ] = 5.0,
    live: Annotated[
        bool, typer.Option("--live", help="Ask only whether it answers at all, not whether it takes streams.")
    ] = False,
    as_json: Json = False,
) -> None:
    """Ask an exchange whether it is ready to take streams.

    It is not while it loads its store, while another exchange may have that, while one of its processes hangs or is
    started again, nor once it was asked to stop. This is the standard health protocol of gRPC (grpc.health.v1), so
    that other tools can ask as well: service "" or the exchange's own for readiness, "liveness" for --live.

    \b
      permitflow health --address 127.0.0.1:50051
      permitflow health --address 127.0.0.1:50051 --timeout 500ms --live

    Exit code 0: it is ready. 1: it is not, or does not answer. 2: this is not an address.
    """
    with requires_extra("grpc"):
        from permitflow.client.health import LIVENESS, is_serving
    try:
        is_ready = is_serving(
            exchange.address,
            service=LIVENESS if live else "",
            timeout_seconds=timeout,
            security=exchange.security,
        )
        reason = ""
    except InvalidParametersError:
        raise
    except PermitflowError as error:
        is_ready, reason = False, str(error)
    if as_json:
        print_json({"address": exchange.address, "ready": is_ready, "reason": reason})
    else:
        why = reason or "it takes no streams now, or not those of all channels"
        typer.echo("ready" if is_ready else f"not ready: {why}", err=not is_ready)
    stop(holds=is_ready)

"""``permitflow health``: does an exchange take streams?  For people, and for what watches over processes."""

from typing import Annotated

import typer

from permitflow.errors import InvalidParametersError, PermitflowError
from permitflow_tools.cli.options import duration, host_and_port
from permitflow_tools.cli.outcomes import Json, print_json, requires_extra, stop
from permitflow_tools.cli.security import TlsCa, TlsCert, TlsKey, TlsServerName, client_security


def health(
    address: Annotated[
        str, typer.Argument(parser=host_and_port, metavar="ADDRESS", help="The exchange, as HOST:PORT of gRPC.")
    ] = "127.0.0.1:50051",
    timeout: Annotated[
        float,
        typer.Option(
            parser=duration,
            metavar="DURATION",
            show_default=False,
            help="The longest wait for an answer, as in 500ms. Default: 5s.",
        ),
    ] = 5.0,
    live: Annotated[
        bool, typer.Option("--live", help="Ask only whether it answers at all, not whether it takes streams.")
    ] = False,
    as_json: Json = False,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_server_name: TlsServerName = "",
) -> None:
    """Ask an exchange whether it is ready to take streams.

    It is not while it loads its store, nor once it was asked to stop. This is the standard health protocol of gRPC
    (grpc.health.v1), so that other tools can ask as well: service "" or the exchange's own for readiness, "liveness"
    for --live.

    \b
      permitflow health 127.0.0.1:50051
      permitflow health 127.0.0.1:50051 --timeout 500ms --live

    Exit code 0: it is ready. 1: it is not, or does not answer. 2: this is not an address.
    """
    with requires_extra("grpc"):
        from permitflow.client.health import LIVENESS, is_serving
    try:
        is_ready = is_serving(
            address,
            service=LIVENESS if live else "",
            timeout_seconds=timeout,
            security=client_security(tls_ca, tls_cert, tls_key, tls_server_name),
        )
        reason = ""
    except InvalidParametersError:
        raise
    except PermitflowError as error:
        is_ready, reason = False, str(error)
    if as_json:
        print_json({"address": address, "ready": is_ready, "reason": reason})
    else:
        typer.echo("ready" if is_ready else f"not ready: {reason or 'it takes no streams now'}", err=not is_ready)
    stop(holds=is_ready)

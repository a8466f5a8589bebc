"""Options for TLS and tokens: of a command that dials an exchange, and of one that serves it.

A token is never an option's value: everybody on a machine can read the arguments of its processes.
"""

import os
from pathlib import Path
from typing import Annotated

import typer

from permitflow.carriers.security import Security

TOKEN_VARIABLE = "PERMITFLOW_TOKEN"
"""The environment variable of commands that dial."""

SECURITY_OPTIONS = {
    "ca": "--tls-ca",
    "certificate": "--tls-cert",
    "key": "--tls-key",
    "server_name": "--tls-server-name",
    "token_variable": "the environment",
}
"""Those of a command that dials, by the library's names."""

TlsCa = Annotated[
    str | None,
    typer.Option(
        "--tls-ca",
        metavar="FILE",
        help="Use TLS, and trust an exchange whose certificate a CA in this file has signed; system: one that the "
        "operating system trusts.",
    ),
]
TlsCert = Annotated[
    Path | None, typer.Option("--tls-cert", metavar="FILE", help="This client's certificate, for mutual TLS.")
]
TlsKey = Annotated[
    Path | None, typer.Option("--tls-key", metavar="FILE", help="Its private key. Default: it is in the same file.")
]
TlsServerName = Annotated[
    str,
    typer.Option(
        "--tls-server-name",
        metavar="NAME",
        help="The name in the exchange's certificate, if it is not the host dialled.",
    ),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file",
        metavar="FILE",
        help=f"A file with the token to show. Default: the environment variable {TOKEN_VARIABLE}, if it is set.",
    ),
]


def client_security(
    ca: str | None, certificate: Path | None, key: Path | None, server_name: str, token_file: Path | None
) -> Security | None:
    """What a command shows that dials; None: nothing, without TLS.

    Raises:
        InvalidParametersError: the options do not fit together.
    """
    variable = "" if token_file is not None or TOKEN_VARIABLE not in os.environ else TOKEN_VARIABLE
    security = Security(
        ca=ca,
        certificate=certificate,
        key=key,
        server_name=server_name,
        token_file=token_file,
        token_variable=variable,
    )
    return None if security == Security() else security

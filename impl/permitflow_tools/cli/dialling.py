"""The options of a command that dials an exchange, and what becomes of the exchange's errors."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Annotated, NamedTuple, TypeAlias

import typer

from permitflow.carriers.security import Security
from permitflow.errors import InvalidParametersError, PermitflowError, UnknownChannelError, UnknownConsumerError
from permitflow_tools.cli.option_groups import with_options
from permitflow_tools.cli.options import exchange_addresses, given_options, option
from permitflow_tools.cli.outcomes import failed, requires_extra, unusable
from permitflow_tools.cli.security import (
    SECURITY_OPTIONS,
    TlsCa,
    TlsCert,
    TlsKey,
    TlsServerName,
    TokenFile,
    client_security,
)

if TYPE_CHECKING:
    from permitflow.client.blocking import BlockingControl

_DEFAULT_ADDRESS = "127.0.0.1:50051"
_Address: TypeAlias = Annotated[
    str,
    option(
        exchange_addresses,
        "HOST:PORT",
        f"The exchange; without gRPC, tcp:// or udp://HOST:PORT; or several, with commas. Default: {_DEFAULT_ADDRESS}.",
    ),
]
_AlsoAddress: TypeAlias = Annotated[
    str | None, typer.Argument(parser=exchange_addresses, metavar="ADDRESS", help="The same as --address.")
]


class DialTarget(NamedTuple):
    """Where an exchange is, and what is shown there."""

    address: str
    security: Security | None

    @contextmanager
    def orders(self) -> Iterator["BlockingControl"]:
        """Orders to the exchange; its errors end the command."""
        with requires_extra("grpc"):
            from permitflow.client.blocking import control
        with told_errors(), control(self.address, security=self.security) as orders:
            yield orders


def _options(
    address: _Address = _DEFAULT_ADDRESS,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_server_name: TlsServerName = "",
    token_file: TokenFile = None,
) -> DialTarget:
    return DialTarget(address, client_security(tls_ca, tls_cert, tls_key, tls_server_name, token_file))


def _options_or_argument(
    context: typer.Context,
    named: _AlsoAddress = None,
    address: _Address = _DEFAULT_ADDRESS,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_server_name: TlsServerName = "",
    token_file: TokenFile = None,
) -> DialTarget:
    if named is not None and "--address" in given_options(context):
        unusable(f"--address: {named} is an address as well; leave one of them away")
    return _options(named or address, tls_ca, tls_cert, tls_key, tls_server_name, token_file)


def dials(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command the options of all that dial, behind its own; it gets them as one argument, ``exchange``."""
    return with_options(last=True, names=SECURITY_OPTIONS, exchange=_options)(command)


def dials_named(command: Callable[..., None]) -> Callable[..., None]:
    """As ``dials``, for a command without arguments of its own: the exchange may be named without --address."""
    return with_options(last=True, names=SECURITY_OPTIONS, exchange=_options_or_argument)(command)


@contextmanager
def told_errors(*interrupted: str) -> Iterator[None]:
    """End the command if the exchange refuses, with the exit code for what was at fault.

    ``interrupted``: what the user is told after an interrupt.
    """
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt(*interrupted) from None
    except UnknownChannelError as error:
        unusable(f"{error}; an exchange is named with --address" if ":" in error.channel else str(error))
    except (UnknownConsumerError, InvalidParametersError):
        raise
    except PermitflowError as error:
        failed(str(error))

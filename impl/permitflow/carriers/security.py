"""How an end of a connection shows who it is, and whom it trusts: files and names, never a secret itself."""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TypeAlias

from permitflow.carriers.addresses import Address, Scheme, is_loopback, written
from permitflow.errors import InvalidParametersError

File: TypeAlias = str | Path

SYSTEM = "system"
"""The certificates that the operating system trusts, instead of a file of them."""
LEAST_TOKEN, MOST_TOKEN = 16, 4_096
"""Characters of a token."""
NEEDS_TLS = "it speaks TLS only: give the CA of its certificate (Security(ca=...), --tls-ca, Spark's option tlsCa)"
"""The advice for a client that has dialled without TLS."""
SPEAKS_NO_TLS = (
    "the exchange speaks no TLS at this address, and the client does: dial without a CA, or give it --tls-cert"
)
"""The advice for a client that has dialled with TLS."""


@dataclass(frozen=True, kw_only=True)
class Security:
    """TLS and a token, for one end: a client, or an exchange.  Files are PEM.

    They are read for each new connection, if they have changed; certificates that cannot be used then are reported in
    the log, and the former ones hold.  An object of this class has no secret in it: it may be logged and pickled.
    """

    ca: File | None = None
    """Certificates to trust, or ``"system"``.

    For a client, these may have signed the exchange's certificate; without them, it uses no TLS.  For an exchange,
    these may have signed clients' certificates; with them, each client must have one (mutual TLS).
    """
    certificate: File | None = None
    """This end's certificate, with those between it and the CA.  An exchange that has one speaks TLS only."""
    key: File | None = None
    """The certificate's private key, not encrypted; None: it is in the same file."""
    server_name: str = ""
    """The name in the exchange's certificate, for a client, if it is not the host of the address."""
    token_file: File | None = None
    """A file whose only line is the token that a client shows."""
    token_variable: str = ""
    """The name of an environment variable that holds a client's token, instead of the file."""
    insecure: bool = False
    """An exchange without TLS may listen beyond the loopback, and a client without TLS may show its token there."""

    def __post_init__(self) -> None:
        if self.key is not None and self.certificate is None:
            raise InvalidParametersError(name="key", value=str(self.key), rule="needs the certificate beside it")
        if self.server_name.startswith("."):
            rule = "must be a name, without a dot in front"
            raise InvalidParametersError(name="server_name", value=self.server_name, rule=rule)
        if self.token_file is not None and self.token_variable:
            rule = "must not be given beside token_file"
            raise InvalidParametersError(name="token_variable", value=self.token_variable, rule=rule)

    def require_trust(self) -> None:
        """Refuse what a client states for TLS if it trusts no certificates: it would use no TLS.

        Raises:
            InvalidParametersError: it states a certificate or a name without ``ca``.
        """
        stated = {"certificate": self.certificate, "server_name": self.server_name}
        for name, value in stated.items():
            if value and self.ca is None:
                rule = (
                    f"needs the CA to trust beside it (ca, --tls-ca, Spark's option tlsCa; {SYSTEM!r} for the system's)"
                )
                raise InvalidParametersError(name=name, value=str(value), rule=f"{rule}: without it, there is no TLS")

    def token_for(self, address: Address) -> str | None:
        """Read the token, to show it at an address; None: there is none.

        Raises:
            InvalidParametersError: it cannot be read, is not a token, or would cross a network in the clear; the error
                does not contain it.  Or ``require_trust`` raises it.
        """
        self.require_trust()
        has_one = self.token_file is not None or bool(self.token_variable)
        if has_one and self.ca is None and not self.insecure and not is_loopback(address.host):
            rule = "must be on the loopback: a token crosses a network only over TLS (ca, --tls-ca; or insecure=True)"
            raise InvalidParametersError(name="address", value=written(address), rule=rule)
        if self.token_file is not None:
            return read_token(self.token_file)
        if not self.token_variable:
            return None
        found = os.environ.get(self.token_variable)
        if found is None:
            rule = "must be set in the environment"
            raise InvalidParametersError(name="token_variable", value=self.token_variable, rule=rule)
        return _required(found.strip(), "token_variable", self.token_variable)


def is_safe(address: Address, security: Security) -> bool:
    """Can nobody but users of this host, or of TLS, reach an exchange there?"""
    has_tls = security.certificate is not None and address.scheme is not Scheme.UDP
    return has_tls or is_loopback(address.host)


def read_token(file: File) -> str:
    """The token in a file, without the blanks around it.

    Raises:
        InvalidParametersError: it cannot be read, or is not a token; the error does not contain it.
    """
    try:
        with Path(file).open("rb") as source:
            text = source.read(MOST_TOKEN + 2).decode(errors="replace")
    except OSError as error:
        rule = f"must be a file that can be read ({error.strerror or error})"
        raise InvalidParametersError(name="token_file", value=str(file), rule=rule) from None
    return _required(text.strip(), "token_file", str(file))


def _required(token: str, name: str, where: str) -> str:
    if not (is_token(token) and len(token) >= LEAST_TOKEN):
        rule = f"must hold a token of {LEAST_TOKEN} to {MOST_TOKEN:,} printable ASCII characters without blanks"
        raise InvalidParametersError(name=name, value=where, rule=rule)
    return token


def is_token(text: str) -> bool:
    """Whether a text has the form of a token."""
    return 0 < len(text) <= MOST_TOKEN and text.isascii() and text.isprintable() and " " not in text

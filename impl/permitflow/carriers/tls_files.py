"""Certificates and keys as the standard library's ssl and gRPC take them, read again when their files have changed."""

import logging
import os
import ssl
import stat
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from time import monotonic
from typing import Generic, NamedTuple, NoReturn, TypeVar

from permitflow.carriers.security import SYSTEM, File, Security
from permitflow.errors import InvalidParametersError

_log = logging.getLogger(__name__)

T = TypeVar("T")
Signature = tuple[tuple[int, int, int] | None, ...]
_said: dict[tuple[File, ...], tuple[Signature, set[str]]] = {}
"""Of files that have changed, in which way: several in this process may read the same ones."""
_AGAIN_SECONDS = 5.0
"""Files that cannot be used are read again after this time: large ones would be read for each connection."""


class FromFiles(Generic[T]):
    """A value that is made of files, and made again once they have changed.  For one thread."""

    def __init__(self, files: Sequence[File], make: Callable[[], T]) -> None:
        """Make it for the first time.

        Args:
            files: all that ``make`` reads.
            make: raises ``InvalidParametersError`` if a file is missing or wrong.

        Raises:
            InvalidParametersError: as ``make``.
        """
        self._files, self._make = tuple(files), make
        self._signature = self._signed()
        self._value = make()
        self._refused: Signature | None = None
        """Of the changed files that cannot be used."""
        self._again = 0.0
        """When to read those again, though they have not changed since."""

    def current(self) -> T:
        """The value; the former one as long as the changed files cannot be used.

        The log has a warning then, and another one once there are files again that can be used.
        """
        signature = self._signed()
        if signature == self._signature and self._refused is None:
            return self._value
        if signature == self._refused and monotonic() < self._again:
            return self._value
        try:
            self._require_files()
            self._value = self._make()
        except (InvalidParametersError, OSError) as error:  # a file may go while it is read, and descriptors may lack
            if signature != self._refused:
                words = f"changed files cannot be used, and the former ones hold: {error}"
                self._say(logging.WARNING, signature, words)
            self._refused, self._again = signature, monotonic() + _AGAIN_SECONDS
            return self._value
        # Who was warned wants to know.
        level, words = logging.INFO, "read again, because changed"
        if self._refused is not None:
            level, words = logging.WARNING, "changed files can be used again, and hold"
        self._say(level, signature, f"{words}: {', '.join(map(str, self._files))}")
        self._signature, self._refused = signature, None
        return self._value

    def _say(self, level: int, signature: Signature, words: str) -> None:
        """Log the words once for each change of these files, however many readers they have."""
        of, said = _said.get(self._files, ((), set()))
        if of != signature:
            of, said = _said[self._files] = signature, set()
        if words not in said:
            said.add(words)
            _log.log(level, "%s", words)

    def _require_files(self) -> None:
        """A pipe may have taken a file's place: nobody knows when it can be read to its end."""
        for file in self._files:
            if os.path.exists(file) and not os.path.isfile(file):
                raise InvalidParametersError(name="file", value=str(file), rule="must be a file, to be read again")

    def _signed(self) -> Signature:
        return tuple(_stat(file) for file in self._files)


def _stat(file: File) -> tuple[int, int, int] | None:
    try:
        found = os.stat(file)
    except OSError:
        return None
    # A pipe has other times with each read.
    return (found.st_mtime_ns, found.st_size, found.st_ino) if stat.S_ISREG(found.st_mode) else None


class Pems(NamedTuple):
    """The contents of a ``Security``'s files, as gRPC takes them."""

    ca: bytes | None
    key: bytes | None
    certificate: bytes | None


def files_of(security: Security) -> list[File]:
    """Those in PEM."""
    ca = None if security.ca == SYSTEM else security.ca
    return [file for file in (ca, security.certificate, security.key) if file is not None]


@lru_cache(maxsize=64)
def client_context(security: Security) -> FromFiles[ssl.SSLContext]:
    """What a client's TLS over TCP needs.

    Raises:
        InvalidParametersError: a file is missing or wrong.
    """
    return FromFiles(files_of(security), lambda: _context(security, ssl.PROTOCOL_TLS_CLIENT))


@lru_cache(maxsize=64)
def client_pems(security: Security) -> FromFiles[Pems]:
    """What a client's TLS over gRPC needs.

    Raises:
        InvalidParametersError: a file is missing or wrong.
    """
    return FromFiles(files_of(security), lambda: _pems(security, ssl.PROTOCOL_TLS_CLIENT))


def new_client_context(security: Security) -> ssl.SSLContext:
    """As ``client_context``, for one connection."""
    return _context(security, ssl.PROTOCOL_TLS_CLIENT)


def server_context(security: Security) -> FromFiles[ssl.SSLContext]:
    """What an exchange's TLS over TCP needs.

    Raises:
        InvalidParametersError: a file is missing or wrong.
    """
    return FromFiles(files_of(security), lambda: _context(security, ssl.PROTOCOL_TLS_SERVER))


def server_pems(security: Security) -> FromFiles[Pems]:
    """What an exchange's TLS over gRPC needs.

    Raises:
        InvalidParametersError: a file is missing or wrong.
    """
    return FromFiles(files_of(security), lambda: _pems(security, ssl.PROTOCOL_TLS_SERVER))


def _pems(security: Security, protocol: int) -> Pems:
    _context(security, protocol)  # it complains about what gRPC would not name
    ca = ssl.get_default_verify_paths().cafile if security.ca == SYSTEM else security.ca
    if security.ca == SYSTEM and ca is None:
        _refuse("ca", SYSTEM, "must be a file here, because this system has none of its own")
    certificate = security.certificate
    key = security.key or certificate
    return Pems(*(None if file is None else Path(file).read_bytes() for file in (ca, key, certificate)))


def _context(security: Security, protocol: int) -> ssl.SSLContext:
    context = ssl.SSLContext(protocol)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    if security.ca is not None:
        try:
            if security.ca == SYSTEM:
                context.load_default_certs()
            else:
                context.load_verify_locations(security.ca)
        except OSError as error:  # those of ssl, too
            _refuse("ca", security.ca, f"must be a file with certificates in PEM ({_words(error)})")
        context.verify_mode = ssl.CERT_REQUIRED
    if (certificate := security.certificate) is not None:
        key = security.key or certificate
        for name, file in (("certificate", certificate), ("key", key)):
            try:
                Path(file).read_bytes()
            except OSError as error:
                _refuse(name, file, f"must be a file that can be read ({_words(error)})")
        try:
            # Without a function, OpenSSL would ask at the terminal.
            context.load_cert_chain(certificate, key, password=lambda: "")
        except (OSError, ValueError) as error:
            _refuse(
                "certificate",
                certificate,
                f"and its key {key} must be a pair in PEM, the key not encrypted ({_words(error)})",
            )
    return context


def _words(error: Exception) -> str:
    if isinstance(error, ssl.SSLError):
        return (error.reason or str(error)).lower().replace("_", " ")
    return getattr(error, "strerror", None) or str(error)


def _refuse(name: str, file: File, rule: str) -> NoReturn:
    raise InvalidParametersError(name=name, value=str(file), rule=rule) from None

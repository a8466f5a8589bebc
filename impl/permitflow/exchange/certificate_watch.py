"""Whether clients take an exchange's certificate, now and in some days.

Every new client refuses one that has expired, and only the clients are told: they hang up.
"""

import asyncio
import logging
import ssl
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from time import time
from typing import Any, NamedTuple, TypeAlias

from permitflow.carriers.security import Security
from permitflow.carriers.tls_files import FromFiles, files_of, server_context

_log = logging.getLogger(__name__)

_LOOK_SECONDS = 1.0
_DAY_SECONDS = 86_400.0
_WARNING_SECONDS = 7 * _DAY_SECONDS
_WARNING_SHARE = 0.2
"""Of a certificate's life, if that is less: one that lives for a day is renewed on that day."""
_ADVICE = "renew it: the new file is read without a restart"
_NO_CHECK_TIME = 0x20_0000
"""OpenSSL's X509_V_FLAG_NO_CHECK_TIME, for which ssl has no name."""


_Certificate: TypeAlias = Mapping[str, Any]
"""As ssl tells of it."""


class Validity(NamedTuple):
    """When clients take a certificate, in seconds since 1970."""

    begins_at: float
    ends_at: float
    between: str = ""
    """The name of one between the exchange's own and its CA; empty: it is the exchange's own."""


class CertificateWatch:
    """Says in the log when clients refuse a certificate, or will soon; that once a day.  For one event loop."""

    def __init__(self, security: Security) -> None:
        """Nothing is said yet.

        Args:
            security: has a certificate.

        Raises:
            InvalidParametersError: a file is missing or wrong.
        """
        self._file = security.certificate
        self._judged = FromFiles(files_of(security), lambda: _judged(security))
        self._said = ""

    @property
    def validity(self) -> Validity | None:
        """Of the certificate that holds now, or one that is sent with it and ends first; None: clients refuse it."""
        found = self._judged.current()
        return None if isinstance(found, str) else found[0]

    def look(self) -> None:
        """Say what has changed."""
        found = self._judged.current()
        words = f"clients refuse it: {found}" if isinstance(found, str) else _complaint(found, time())
        if words == self._said:
            return
        if words:
            _log.warning("this exchange's certificate %s: %s", self._file, words)
        elif not isinstance(found, str):
            _log.warning("this exchange's certificate %s is valid until %s", self._file, _date(found[0].ends_at))
        self._said = words

    async def follow(self) -> None:
        """Look again and again, until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(_LOOK_SECONDS)


def _complaint(found: Sequence[Validity], now: float) -> str:
    """What is wrong at this time with a certificate, or with one that is sent with it; empty: nothing."""
    return next(filter(None, (_complaint_of(each, now) for each in found)), "")


def _complaint_of(validity: Validity, now: float) -> str:
    begins_at, ends_at, between = validity
    it = f"{between!r}, which is between it and its CA," if between else "it"
    if now < begins_at:
        return f"clients refuse it: {it} is not valid before {_date(begins_at)}, or this machine's clock is wrong"
    if now >= ends_at:
        return f"clients refuse it: {it} has expired, at {_date(ends_at)}; {_ADVICE}"
    left = ends_at - now
    if left >= min(_WARNING_SECONDS, _WARNING_SHARE * (ends_at - begins_at)):
        return ""
    days = int(left / _DAY_SECONDS) + 1
    within = "a day" if days == 1 else f"{days} days"
    return f"{it} expires within {within}, at {_date(ends_at)}, and clients refuse it then; {_ADVICE}"


def _date(seconds: float) -> str:
    return f"{datetime.fromtimestamp(seconds, UTC):%Y-%m-%d %H:%M} UTC"


def _judged(security: Security) -> Sequence[Validity] | str:
    """What a client finds: when it takes the certificate and each that is sent with it, the first to end ahead.

    Or, in words, why it never takes it.

    ssl judges that of a peer only, so one is played.
    """
    assert security.certificate is not None, "there is one"
    context = server_context(security).current()
    judging = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    judging.check_hostname = False
    # It is trusted itself, so its purpose is judged.
    judging.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN | _NO_CHECK_TIME
    judging.load_verify_locations(security.certificate)
    to_client, to_server = ssl.MemoryBIO(), ssl.MemoryBIO()
    client = judging.wrap_bio(to_client, to_server)
    server = context.wrap_bio(to_server, to_client, server_side=True)
    try:
        for end in (client, server, client):
            with suppress(ssl.SSLWantReadError):
                end.do_handshake()
    except ssl.SSLError as error:
        return getattr(error, "verify_message", None) or error.reason or str(error)
    found = client.getpeercert() or {}
    own = _validity(found)
    if isinstance(own, str):
        return own
    return sorted([own, *_between(found, judging.get_ca_certs())], key=lambda each: each.ends_at)


def _validity(certificate: _Certificate, between: str = "") -> Validity | str:
    """That of this certificate alone, or the complaint that it cannot be read."""
    begin, end = str(certificate.get("notBefore")), str(certificate.get("notAfter"))
    try:
        return Validity(ssl.cert_time_to_seconds(begin), ssl.cert_time_to_seconds(end), between)
    except ValueError:  # OpenSSL, which does not check them here, tells whatever is there
        return f"its dates cannot be read: {begin!r} and {end!r}"


def _between(certificate: _Certificate, sent: Sequence[_Certificate]) -> Iterator[Validity]:
    """Those that are sent with a certificate and lead to its CA, which clients have themselves.

    Of several with one name clients choose one that holds.
    """
    issuer = certificate.get("issuer")
    for _ in sent:
        alike = [each for each in sent if each.get("subject") == issuer != each.get("issuer")]
        found = [each for each in (_validity(each, _named(each)) for each in alike) if isinstance(each, Validity)]
        if not found:
            return
        yield max(found, key=lambda each: each.ends_at)
        issuer = alike[0].get("issuer")


def _named(certificate: _Certificate) -> str:
    return ", ".join(value for part in certificate.get("subject", ()) for _, value in part)

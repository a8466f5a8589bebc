"""An exchange says when clients refuse its certificate: they only hang up."""

import re
from base64 import b64decode, encodebytes
from contextlib import AsyncExitStack
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from permitflow.client import Security
from permitflow.errors import TransportError
from permitflow.exchange import Exchange, ExchangeServer, certificate_watch
from permitflow.exchange.certificate_watch import CertificateWatch
from tests.support.certificates import LOCAL, PAST, Certificates
from tests.support.turns import turns, until


class Watched:
    """A certificate, looked at in the past."""

    def __init__(self, certificates: Certificates, file: Path, caplog: pytest.LogCaptureFixture) -> None:
        self._caplog = caplog
        self.now = PAST[0]
        self._watch = CertificateWatch(Security(certificate=certificates.write(file, *LOCAL, life=PAST)))

    def says(self, *date: int) -> list[str]:
        """What it says when it looks at this time."""
        self._caplog.clear()
        self.now = datetime(*date, tzinfo=UTC)  # type: ignore[misc,arg-type]  # no time zone is among them
        self._watch.look()
        return [record.getMessage().partition(".pem")[2] for record in self._caplog.records]


@pytest.fixture
def watched(
    certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> Watched:
    made = Watched(certificates, tmp_path / "server.pem", caplog)
    monkeypatch.setattr(certificate_watch, "time", lambda: made.now.timestamp())
    return made


def test_a_certificate_that_expires_is_told_ahead_and_then(watched: Watched) -> None:
    assert watched.says(2020, 12, 20) == []
    (soon,) = watched.says(2020, 12, 29, 12)
    assert soon.startswith(": it expires within 3 days, at 2021-01-01 00:00 UTC, and clients refuse it then")
    (past,) = watched.says(2021, 1, 1)
    assert past.startswith(": clients refuse it: it has expired, at 2021-01-01 00:00 UTC")


def test_the_same_is_said_once_a_day(watched: Watched) -> None:
    said = [len(watched.says(2020, 12, day, hour)) for day in (29, 30) for hour in (1, 2, 23)]
    assert said == [1, 0, 0] * 2


def test_a_certificate_that_is_not_valid_yet_is_told(watched: Watched) -> None:
    (early,) = watched.says(2019, 12, 31)
    assert "it is not valid before 2020-01-01 00:00 UTC, or this machine's clock is wrong" in early
    assert watched.says(2020, 1, 1) == [" is valid until 2021-01-01 00:00 UTC"]


def test_a_renewed_certificate_is_told_to_who_was_warned(
    watched: Watched, certificates: Certificates, tmp_path: Path
) -> None:
    watched.says(2021, 1, 1)
    certificates.write(tmp_path / "server.pem", *LOCAL, life=(PAST[0], PAST[1] + timedelta(days=365)))
    assert watched.says(2021, 1, 2) == [" is valid until 2022-01-01 00:00 UTC"]


def test_a_certificate_of_short_life_is_told_in_its_last_fifth(
    watched: Watched, certificates: Certificates, tmp_path: Path
) -> None:
    certificates.write(tmp_path / "server.pem", *LOCAL, life=(PAST[0], PAST[0] + timedelta(days=1)))
    assert watched.says(2020, 1, 1, 19) == []
    assert len(watched.says(2020, 1, 1, 20)) == 1


def test_a_date_that_nobody_can_read_is_told(
    certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    file = certificates.write(tmp_path / "server.pem", *LOCAL, life=PAST)
    before, begin, after = re.split("(-----BEGIN CERTIFICATE-----\n)", file.read_text())
    lines, end = after.split("-----END")
    damaged = b64decode(lines).replace(b"210101000000Z", b"21010100000aZ")
    file.write_text(f"{before}{begin}{encodebytes(damaged).decode()}-----END{end}")
    CertificateWatch(Security(certificate=file)).look()
    assert "its dates cannot be read" in caplog.text


async def test_a_certificate_at_two_addresses_is_told_once(
    certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    security = Security(certificate=certificates.write(tmp_path / "old.pem", *LOCAL, life=PAST))
    exchange = Exchange()
    async with AsyncExitStack() as stack:
        for address in ("127.0.0.1:0", "tcp://127.0.0.1:0"):
            await stack.enter_async_context(ExchangeServer(exchange, address, security=security))
        await until(lambda: bool(caplog.records))
        await turns()
        assert [record.getMessage().count("it has expired") for record in caplog.records] == [1]


def test_one_between_it_and_its_ca_that_ends_first_is_told(
    certificates: Certificates, tmp_path: Path, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = datetime(3000, 1, 1, tzinfo=UTC)
    life = PAST[0], end + timedelta(days=300)
    file = certificates.between.write(tmp_path / "server.pem", *LOCAL, life=life)
    monkeypatch.setattr(certificate_watch, "time", lambda: end.timestamp() - 3600.0)
    watch = CertificateWatch(Security(certificate=file))
    watch.look()
    assert "which is between it and its CA, expires within a day, at 3000-01-01 00:00 UTC" in caplog.text
    assert watch.validity is not None
    assert watch.validity.ends_at == end.timestamp()


async def test_a_server_that_cannot_listen_leaves_no_certificate(certificates: Certificates) -> None:
    exchange = Exchange()
    async with ExchangeServer(exchange) as server:
        with pytest.raises(TransportError):
            async with ExchangeServer(exchange, server.address, security=certificates.server):
                pass
        assert exchange.certificate is None

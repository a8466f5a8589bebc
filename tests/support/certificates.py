"""Real certificates, with an authority that signs them, as files."""

from datetime import UTC, datetime
from functools import cached_property
from pathlib import Path

import trustme

from permitflow.client import Security

LOCAL = ("localhost", "127.0.0.1")
Life = tuple[datetime, datetime]
"""Of a certificate: from when it is valid, and until when."""
PAST, FUTURE = ((datetime(year, 1, 1, tzinfo=UTC), datetime(year + 1, 1, 1, tzinfo=UTC)) for year in (2020, 2120))


class Certificates:
    """Of one authority; each has the name of its files."""

    def __init__(self, folder: Path, authority: trustme.CA | None = None) -> None:
        self._folder = folder
        self._authority = authority or trustme.CA()
        self.ca = folder / "ca.pem"
        self._authority.cert_pem.write_to_path(self.ca)

    @cached_property
    def others(self) -> "Certificates":
        """Of an authority that nobody trusts."""
        folder = self._folder / "others"
        folder.mkdir(exist_ok=True)
        return Certificates(folder)

    @cached_property
    def between(self) -> "Certificates":
        """Of one for which this one answers; it is valid until the year 3000."""
        folder = self._folder / "between"
        folder.mkdir(exist_ok=True)
        return Certificates(folder, self._authority.create_child_ca())

    def write(self, file: Path, *names: str, life: Life | None = None) -> Path:
        """A certificate for these names and its key, in one file."""
        begin, end = life or (None, None)
        made = self._authority.issue_cert(*names, not_before=begin, not_after=end)
        file.write_bytes(made.private_key_and_cert_chain_pem.bytes())
        return file

    def made(self, name: str, *names: str, life: Life | None = None) -> Path:
        """As ``write``, once for each name of a file."""
        file = self._folder / f"{name}.pem"
        return file if file.exists() else self.write(file, *names, life=life)

    @property
    def server(self) -> Security:
        """An exchange on this host."""
        return Security(certificate=self.made("server", *LOCAL))

    @property
    def mutual(self) -> Security:
        """One that wants clients' certificates."""
        return Security(certificate=self.made("server", *LOCAL), ca=self.ca)

    @property
    def trusting(self) -> Security:
        """A client without a certificate."""
        return Security(ca=self.ca)

    def client(self, name: str = "etl.example", *, life: Life | None = None) -> Security:
        """A client with a certificate for this name."""
        file = name if life is None else f"{life[0].year} {name}"
        return Security(ca=self.ca, certificate=self.made(file, name, life=life))

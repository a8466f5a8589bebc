"""permitflow and Flight over TLS, beside themselves without: what encryption costs."""

from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory

import trustme

from benchmarks.jobs import Job, Tally
from benchmarks.peers.flight import FlightProducer, GetConsumer
from benchmarks.peers.permitflow import ExchangeConsumer, ExchangeProducer
from benchmarks.peers.way import Consumer, Group, Producer, Way
from permitflow.client import Security

# What a consumer dials: the address, and behind it the file of the authority.
_BETWEEN = "#"


class _Certificate:
    """The certificate of this process, with its own authority, as files."""

    def __init__(self) -> None:
        self._folder = TemporaryDirectory(prefix="permitflow-certificates-")
        self.file, self.ca = Path(self._folder.name, "server.pem"), Path(self._folder.name, "ca.pem")
        authority = trustme.CA()
        made = authority.issue_cert("127.0.0.1")
        self.pair = made.cert_chain_pems[0].bytes(), made.private_key_pem.bytes()
        self.file.write_bytes(made.private_key_and_cert_chain_pem.bytes())
        authority.cert_pem.write_to_path(self.ca)

    def close(self) -> None:
        self._folder.cleanup()


class TlsProducer(ExchangeProducer):
    """As ``ExchangeProducer``."""

    def __init__(self, address: str = "127.0.0.1:0") -> None:
        self._certificate = _Certificate()
        super().__init__(address, security=Security(certificate=self._certificate.file))

    async def start(self) -> None:
        await super().start()
        self.address += f"{_BETWEEN}{self._certificate.ca}"

    def close(self) -> None:
        self._certificate.close()


class TlsConsumer(ExchangeConsumer):
    """As ``ExchangeConsumer``."""

    def __init__(self, address: str) -> None:
        where, _, ca = address.partition(_BETWEEN)
        super().__init__(where, security=Security(ca=ca))


class FlightTlsProducer(FlightProducer):
    """As ``FlightProducer``."""

    def __init__(self) -> None:
        self._certificate = _Certificate()
        super().__init__(address="grpc+tls://127.0.0.1:0", tls_certificates=[self._certificate.pair])
        self.address = f"grpc+tls://127.0.0.1:{self.port}{_BETWEEN}{self._certificate.ca}"

    def close(self) -> None:
        super().close()
        self._certificate.close()


class FlightTlsConsumer(Consumer):
    """As ``GetConsumer``."""

    def __init__(self, address: str) -> None:
        where, _, ca = address.partition(_BETWEEN)
        self._inner = GetConsumer(where, tls_root_certs=Path(ca).read_bytes())

    def consume(self, job: Job, tally: Tally) -> None:
        self._inner.consume(job, tally)


_OURS = "as `permitflow, {}`, with TLS and without checksums"
_Flight: tuple[type[Producer], type[Consumer]] = FlightTlsProducer, FlightTlsConsumer
WAYS = (
    Way("permitflow, gRPC, TLS", Group.OURS, _OURS.format("gRPC"), TlsProducer, TlsConsumer),
    Way(
        "permitflow, TCP, TLS", Group.OURS, _OURS.format("TCP"), partial(TlsProducer, "tcp://127.0.0.1:0"), TlsConsumer
    ),
    Way("Flight DoGet, TLS", Group.PLAIN, "as `Flight DoGet`, with TLS", *_Flight),
)

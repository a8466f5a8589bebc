"""Jobs and queries over mutual TLS with a token: their rows are whole, and their plans have no secret."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from hashlib import sha256
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession
from pyspark.sql.types import StructType

from permitflow.errors import ForbiddenError, UnauthenticatedError
from permitflow.spark import PermitflowDataSource
from permitflow.spark.options import ReadOptions
from permitflow.spark.reading import opened
from permitflow.spark.recording import StreamRecording
from tests.impl.spark.conftest import KEEPING, Driver, options_of
from tests.support.certificates import LOCAL, Certificates
from tests.support.served_exchange import ServedExchange, channels_of, served_exchange

TOKEN = "a-token-of-some-length"
IDS = StructType().add("id", "long")

Guarded = AbstractContextManager[tuple[ServedExchange, dict[str, str]]]


@pytest.fixture
def guarded(certificates: Certificates, tmp_path: Path) -> Callable[..., Guarded]:
    """Starts an exchange that wants certificate and token; comes with the options of who has both."""
    file = tmp_path / "token"
    file.write_text(TOKEN)
    server, client = certificates.made("server", *LOCAL), certificates.made("etl.example", "etl.example")
    wanted = ("--tls-cert", str(server), "--tls-client-ca", str(certificates.ca), "--token-file", str(file))
    shown = {"tls_ca": str(certificates.ca), "tls_cert": str(client), "token_file": str(file), "same_host": "never"}

    @contextmanager
    def start(address: str = "127.0.0.1:0", *more: str) -> Iterator[tuple[ServedExchange, dict[str, str]]]:
        with served_exchange(address=address, more=[*wanted, *more]) as exchange:
            yield exchange, shown

    return start


@pytest.mark.parametrize("address", ["127.0.0.1:0", "tcp://127.0.0.1:0"])
def test_a_job_writes_and_reads_over_tls(driver: Driver, guarded: Callable[..., Guarded], address: str) -> None:
    with guarded(address) as (exchange, shown):
        options = options_of(exchange, **shown)

        def job(spark: SparkSession) -> tuple[list[Row], str]:
            with ThreadPoolExecutor(1) as pool:
                frame = spark.read.format("permitflow").schema("id LONG NOT NULL").options(**options).load()
                reading = pool.submit(frame.collect)
                spark.range(0, 2_000, 1, 2).write.format("permitflow").mode("append").options(**options).save()
                return reading.result(), frame._jdf.queryExecution().toString()

        rows, plan = driver.run(job)
    assert sorted(row.id for row in rows) == [*range(2_000)]
    assert TOKEN not in plan


def test_a_query_reads_and_publishes_over_tls(driver: Driver, guarded: Callable[..., Guarded], tmp_path: Path) -> None:
    with guarded("127.0.0.1:0", *KEEPING) as (exchange, shown):
        source, sink = options_of(exchange, **shown), options_of(exchange, **shown)

        def job(spark: SparkSession) -> list[int]:
            staged = spark.range(0, 1_000, 1, 2).write.format("permitflow").mode("append").option("delivery", "staged")
            staged.options(**source).save()
            writer = spark.readStream.format("permitflow").options(**source).load().writeStream.format("permitflow")
            query = writer.options(**sink).option("checkpointLocation", str(tmp_path / "checkpoint")).start()
            try:
                query.processAllAvailable()
            finally:
                query.stop()
            return [row.id for row in spark.read.format("permitflow").options(**sink).load().collect()]

        assert sorted(driver.run(job)) == [*range(1_000)]
        written = [path for path in (tmp_path / "checkpoint").rglob("*") if path.is_file()]
        assert written
        assert not any(TOKEN.encode() in path.read_bytes() for path in written)


def test_a_staged_job_needs_no_right_but_to_produce(tmp_path: Path) -> None:
    token, rights = tmp_path / "token", tmp_path / "rights.toml"
    token.write_text(TOKEN)
    digest = sha256(TOKEN.encode()).hexdigest()
    rights.write_text(f'[identities.etl]\ntokens = ["sha256:{digest}"]\nproduce = ["*"]\n')
    with served_exchange(more=["--rights", str(rights), *KEEPING]) as exchange:
        options = options_of(exchange, token_file=str(token))
        PermitflowDataSource({**options, "delivery": "staged"}).writer(IDS, overwrite=False).commit([])
        with pytest.raises(ForbiddenError, match="'etl' may not consume"):
            opened(ReadOptions.parse(options), channels_of(options)[0], StreamRecording(None))


def test_a_query_with_a_foreign_token_is_told_at_once(guarded: Callable[..., Guarded], tmp_path: Path) -> None:
    foreign = tmp_path / "foreign"
    foreign.write_text("another-token-of-length")
    with guarded("127.0.0.1:0", *KEEPING) as (exchange, shown):
        source = PermitflowDataSource(options_of(exchange, **{**shown, "token_file": str(foreign)}))
        with pytest.raises(UnauthenticatedError, match="its token is unknown"):
            source.streamReader(IDS).initialOffset()

"""A job over mutual TLS with a token: its rows are whole, and its query plan has no secret."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pyspark.sql import Row, SparkSession

from tests.impl.spark.conftest import Driver, options_of
from tests.support.certificates import LOCAL, Certificates
from tests.support.served_exchange import served_exchange

TOKEN = "a-token-of-some-length"


@pytest.mark.parametrize("address", ["127.0.0.1:0", "tcp://127.0.0.1:0"])
def test_a_job_writes_and_reads_over_tls(
    driver: Driver, certificates: Certificates, tmp_path: Path, address: str
) -> None:
    file = tmp_path / "token"
    file.write_text(TOKEN)
    server, client = certificates.made("server", *LOCAL), certificates.made("etl.example", "etl.example")
    more = ("--tls-cert", str(server), "--tls-client-ca", str(certificates.ca), "--token-file", str(file))
    with served_exchange(address=address, more=more) as exchange:
        options = options_of(
            exchange, tls_ca=str(certificates.ca), tls_cert=str(client), token_file=str(file), same_host="never"
        )

        def job(spark: SparkSession) -> tuple[list[Row], str]:
            with ThreadPoolExecutor(1) as pool:
                frame = spark.read.format("permitflow").schema("id LONG NOT NULL").options(**options).load()
                reading = pool.submit(frame.collect)
                spark.range(0, 2_000, 1, 2).write.format("permitflow").mode("append").options(**options).save()
                return reading.result(), frame._jdf.queryExecution().toString()

        rows, plan = driver.run(job)
    assert sorted(row.id for row in rows) == [*range(2_000)]
    assert TOKEN not in plan

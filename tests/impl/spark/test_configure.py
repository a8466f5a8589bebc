"""What ``configure`` sets, keeps and says."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from permitflow.errors import InvalidParametersError
from permitflow.spark import Configuration, configuration, configure
from tests.impl.spark.conftest import SPARK, Driver

SOCKET = "spark.python.unix.domain.socket.enabled"
BATCH_ROWS = "spark.sql.execution.arrow.maxRecordsPerBatch"
BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"


@pytest.fixture(autouse=True)
def nothing_said(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a fresh shell."""
    for name in ("PYSPARK_PYTHON", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_HOME", "SPARK_REMOTE", "MASTER"):
        monkeypatch.setenv(name, "")  # so that what the test sets is taken back
        monkeypatch.delenv(name)


def new_builder(**settings: str) -> SparkSession.Builder:
    return SparkSession.Builder().config(map={key.replace("_", "."): value for key, value in settings.items()})


def applied(builder: SparkSession.Builder, channels: int | None = None) -> dict[str, str]:
    return {setting.key: setting.value for setting in configuration(builder, channels=channels).applied}


def test_a_fresh_builder_gets_everything_with_reasons() -> None:
    reports: list[str] = []
    builder = configure(new_builder(), channels=1000, report=reports.append)
    again = configuration(builder, channels=1000)
    assert again.applied == ()
    assert again.kept == ()
    assert os.environ["PYSPARK_PYTHON"] == sys.executable
    for words in (
        f"{SOCKET}=true: the kernel",
        f"{BATCH_ROWS}=8192: rows wait",
        f"{BATCH_BYTES}=4194304: so many rows",
        "spark.master=local[1000]: 1000 channels",
    ):
        assert words in reports[0]


@pytest.mark.parametrize("where", ["builder", "arguments", "arguments with =", "file"])
def test_user_settings_stay_in_every_place_where_spark_reads_them(
    where: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    builder = new_builder()
    if where == "builder":
        builder.config(SOCKET, "false").master("local[3]")
    elif where == "arguments":
        monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--master local[3] --conf '{SOCKET} = false' pyspark-shell")
    elif where == "arguments with =":
        monkeypatch.setenv("PYSPARK_SUBMIT_ARGS", f"--master=local[3] --conf={SOCKET}=false pyspark-shell")
    else:
        (tmp_path / "spark-defaults.conf").write_text(f"# ours\n{SOCKET}  false\nspark.master=local[3]\n\n")
        monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    chosen = configuration(builder, channels=2)
    assert [(setting.key, setting.value) for setting in chosen.kept] == [(SOCKET, "false")]
    assert {setting.key for setting in chosen.applied} == {BATCH_ROWS, BATCH_BYTES, "PYSPARK_PYTHON"}
    assert f"kept  {SOCKET}=false, although: the kernel" in str(chosen)


SUBMITTED = """
import json
from pyspark.sql import SparkSession
from permitflow.spark import configuration
chosen = configuration(SparkSession.builder, channels=2)
print(json.dumps([[each.key for each in chosen.applied], [each.key for each in chosen.kept]]))
"""


def test_what_spark_submit_was_told_stays(tmp_path: Path) -> None:
    job = tmp_path / "job.py"
    job.write_text(SUBMITTED)
    # Kubernetes names the application before it runs.
    told = ["--master", "spark://nowhere:7077", "--conf", "spark.app.id=spark-1", "--conf", f"{BATCH_ROWS}=100"]
    command = [str(SPARK / "bin/spark-submit"), *told, str(job)]
    environment = {"SPARK_HOME": str(SPARK), "SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_DRIVER_PYTHON": sys.executable}
    done = subprocess.run(
        command, capture_output=True, text=True, timeout=200, check=True, env={**os.environ, **environment}
    )
    assert json.loads(done.stdout) == [[SOCKET, BATCH_BYTES], [BATCH_ROWS]]


@pytest.mark.parametrize(("row_permits", "rows"), [(262_144, "65536"), (4, "1")])
def test_batches_are_a_quarter_of_the_window_that_is_named(row_permits: int, rows: str) -> None:
    chosen = configuration(new_builder(), row_permits=row_permits)
    assert {setting.key: setting.value for setting in chosen.applied}[BATCH_ROWS] == rows


def test_a_window_without_rows_is_refused() -> None:
    with pytest.raises(InvalidParametersError, match=r"row_permits.* must be at least 1, and a whole number"):
        configure(new_builder(), row_permits=0)


def test_another_python_of_the_users_stays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python")
    configure(new_builder())
    assert os.environ["PYSPARK_PYTHON"] == "/opt/python"


@pytest.mark.parametrize(
    ("master", "python"), [("local-cluster[2,1,1024]", sys.executable), ("spark://host:7077", None)]
)
def test_only_workers_on_this_machine_have_this_python(master: str, python: str | None) -> None:
    assert applied(new_builder(spark_master=master)).get("PYSPARK_PYTHON") == python


@pytest.mark.parametrize("remote", ["setting", "environment"])
def test_a_connect_server_gets_what_a_session_can_set(remote: str, monkeypatch: pytest.MonkeyPatch) -> None:
    builder = new_builder()
    if remote == "setting":
        builder.remote("sc://host:15002")
    else:
        monkeypatch.setenv("SPARK_REMOTE", "sc://host:15002")
    assert set(applied(builder, channels=4)) == {BATCH_ROWS, BATCH_BYTES}
    (advice,) = configuration(builder).advice
    assert advice.startswith(f"start the Connect server with {SOCKET}=true: ")


def test_a_local_connect_session_is_configured_like_a_classic_one() -> None:
    assert set(applied(new_builder(spark_remote="local[4]"))) == {SOCKET, BATCH_ROWS, BATCH_BYTES, "PYSPARK_PYTHON"}


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"spark_master": "local[2]"}, "local[2] has 2 task slots for 4 channels"),
        ({"spark_master": "local[2, 3]"}, "local[2, 3] has 2 task slots"),
        ({"spark_master": "local"}, "local has 1 task slots"),
        ({"spark_speculation": "true"}, "direct writers refuse"),
        ({"spark_master": "spark://host:7077"}, "is a cluster: a lost executor fails a job that writes with delivery"),
        (
            {"spark_python_worker_idleTimeoutSeconds": "60s", "spark_python_worker_killOnIdleTimeout": "true"},
            "kills a worker that waits for rows or permits after 60 s",
        ),
    ],
)
def test_harmful_settings_are_reported_in_advance(settings: dict[str, str], words: str) -> None:
    advice = configuration(new_builder(**settings), channels=4).advice
    assert [words in line for line in advice if "gRPC is loaded" not in line] == [True]


def test_a_running_session_that_was_configured_needs_nothing_more(driver: Driver) -> None:
    def job(spark: SparkSession) -> tuple[Configuration, str | None]:
        return configuration(SparkSession.builder), spark.conf.get(SOCKET)

    chosen, socket = driver.run(job)
    assert (chosen.applied, chosen.kept, chosen.advice) == ((), (), ())
    assert socket == "true"

"""``register`` asks an executor of a cluster whether it can use this package, before the first task finds out."""

import subprocess
import sys
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from threading import Thread
from unittest.mock import patch

import pytest
from pyspark.sql import SparkSession

from permitflow.spark import register
from tests.impl.spark.conftest import Driver


def registering_with(python: Path | str) -> Callable[[SparkSession], None]:
    """A job that registers while the workers run this Python."""

    def job(spark: SparkSession) -> None:
        context = spark.sparkContext
        ours, context.pythonExec = context.pythonExec, str(python)
        try:
            register(spark)
        finally:
            context.pythonExec = ours

    return job


@pytest.fixture
def bare_python(tmp_path: Path) -> Path:
    """One that has the standard library only, also where the tests find permitflow by PYTHONPATH."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(tmp_path / "bare")], check=True)
    (packages,) = tmp_path.glob("bare/lib/python*/site-packages")
    (packages / "sitecustomize.py").write_text(
        "import os, sys\nsys.path[:] = [each for each in sys.path if not os.path.isdir(f'{each}/permitflow')]\n"
    )
    return tmp_path / "bare/bin/python"


@pytest.fixture
def newer_python(tmp_path: Path) -> Path:
    """Ours, where permitflow says that it is release 9.9."""
    facts = tmp_path / "newer/permitflow-9.9.dist-info/METADATA"
    facts.parent.mkdir(parents=True)
    facts.write_text("Metadata-Version: 2.1\nName: permitflow\nVersion: 9.9\n")
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nPYTHONPATH={tmp_path}/newer:$PYTHONPATH exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    return python


def test_executors_without_the_package_are_refused(cluster: Driver, bare_python: Path) -> None:
    text = cluster.failure(registering_with(bare_python))
    assert (
        f"SparkSetupError: Spark's workers run {bare_python}, which cannot import permitflow (No module named" in text
    )


def test_executors_with_another_release_are_refused(cluster: Driver, newer_python: Path) -> None:
    text = cluster.failure(registering_with(newer_python))
    assert f"which has permitflow 9.9, not {version('permitflow')} as this driver: install the driver's release" in text


def test_a_thread_that_registers_can_write(driver: Driver) -> None:
    """Without it, Spark knows no such data source in a thread other than the one that made the session."""

    def job(spark: SparkSession) -> str:
        found: list[str] = []

        def write() -> None:
            register(spark)
            try:
                spark.range(1).write.format("permitflow").mode("append").save()
            except Exception as error:
                found.append(str(error))

        writing = Thread(target=write)
        writing.start()
        writing.join()
        return found[0]

    assert "option 'address' is missing" in driver.run(job)


def test_formats_that_spark_has_found_are_not_registered_again(driver: Driver) -> None:
    """Spark would warn of it, twice in every session."""

    def job(spark: SparkSession) -> int:
        with patch.object(type(spark.dataSource), "register") as told:
            register(spark)
            return told.call_count

    assert driver.run(job) == 0

"""Spark finds in a recording what the audit on one machine finds, and returns it as DataFrames."""

from dataclasses import asdict
from pathlib import Path

from pyspark.sql import SparkSession

from permitflow import ChannelParameters
from permitflow.flows.permits.recorded import PERMIT_ACTIONS
from permitflow.flows.recording import ENDS
from permitflow.tracing import Header
from permitflow_model.permit_channel_trace import permits_of
from permitflow_testing.subjects.permits import model_of
from permitflow_tools.audit import audit_files
from tests.impl.spark.conftest import Driver
from tests.support.made_traces import random_behaviour, with_permits
from tests.support.recordings import written

AGREED = ChannelParameters(row_permits=8, permit_batch=3, barrier_permits=2)


def record(folder: Path, *, spoil: bool) -> str:
    """Two channels in a file each; in the second one, an event of the middle counts a permit too few."""
    for channel in ("orders/0", "orders/1"):
        events = list(random_behaviour(model_of(AGREED, sizes=(0, 1, 4)), seed=5, events=400, channel=channel))
        if spoil and channel == "orders/1":
            index = next(i for i in range(200, 400) if permits_of(events[i]).rows and events[i].action == "AddPermits")
            events[index] = with_permits(events[index], 99)
        headers = (Header(channel, end, PERMIT_ACTIONS, asdict(AGREED)) for end in ENDS)
        written(folder / f"{channel[-1]}.parquet", headers, events, row_group_events=64)
    return str(folder)


def test_a_right_recording_holds(driver: Driver, tmp_path: Path) -> None:
    path = record(tmp_path, spoil=False)

    def job(spark: SparkSession) -> tuple[bool, list[int], int]:
        from permitflow_tools.audit.on_spark import audit

        found = audit(spark, path)
        events = [row.events for row in found.channels.orderBy("channel").collect()]
        return found.holds, events, found.violations.count()

    assert driver.run(job) == (True, [400, 400], 0)


def test_violations_are_those_of_one_machine(driver: Driver, tmp_path: Path) -> None:
    path = record(tmp_path, spoil=True)
    expected = [
        (each.channel, each.end, each.sequence, str(each.clause), each.reason) for each in audit_files(path).violations
    ]

    def job(spark: SparkSession) -> list[tuple[object, ...]]:
        from permitflow_tools.audit.on_spark import audit

        frame = audit(spark, path).violations
        return [tuple(row) for row in frame.select("channel", "end", "sequence", "clause", "reason").collect()]

    assert len(expected) == 1
    assert driver.run(job) == expected

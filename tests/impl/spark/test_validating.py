"""Spark comes to the verdicts of one machine."""

from dataclasses import asdict
from pathlib import Path

from pyspark.sql import SparkSession

from permitflow import ChannelParameters
from permitflow.flows.permits.recorded import PERMIT_ACTIONS
from permitflow.flows.recording import ENDS
from permitflow.tracing import Header
from permitflow_testing.subjects.permits import model_of
from permitflow_testing.traces import ChannelVerdict
from permitflow_tools.validating.on_spark import validate
from tests.impl.spark.conftest import Driver
from tests.support.made_traces import random_behaviour, with_permits
from tests.support.recordings import written

AGREED = ChannelParameters(row_permits=8, permit_batch=3, barrier_permits=2)


def record(folder: Path) -> str:
    """Two channels in a file each; in the second one, an event of the middle returns other permits."""
    for channel in ("orders/0", "orders/1"):
        events = list(random_behaviour(model_of(AGREED, sizes=(0, 1, 4)), seed=5, events=400, channel=channel))
        if channel == "orders/1":
            index = next(index for index in range(200, 400) if events[index].action == "AddPermits")
            events[index] = with_permits(events[index], 99)
        headers = (Header(channel, end, PERMIT_ACTIONS, asdict(AGREED)) for end in ENDS)
        written(folder / f"{channel[-1]}.parquet", headers, events, row_group_events=64)
    return str(folder)


def test_the_channels_of_a_folder_are_judged_in_tasks(driver: Driver, tmp_path: Path) -> None:
    path = record(tmp_path)

    def job(spark: SparkSession) -> list[ChannelVerdict]:
        return validate(spark, path)

    good, bad = driver.run(job)
    assert (good.channel, good.is_valid, good.replay.performed) == ("orders/0", True, 400)
    assert (bad.channel, bad.is_valid) == ("orders/1", False)
    (block,) = bad.replay.blocked
    assert (block.event.action, block.event.arguments[1]) == ("AddPermits", 99)

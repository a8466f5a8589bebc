"""Judges recordings on Spark: each task reads its files itself and replays its channels, so no event passes through."""

from collections.abc import Generator, Sequence
from functools import partial

from pyspark.sql import SparkSession

from permitflow.tracing.reader import scan_trace
from permitflow_testing.traces import ChannelVerdict
from permitflow_tools.checking.sessions import in_tasks, task_slots
from permitflow_tools.validating.shares import Share, Turns
from permitflow_tools.validating.shares import validate as validate_by

# Of a task: a minute of work, since a turn ends when the last of them does.
_TURN_EVENTS = 3_000_000


def validate(spark: SparkSession, *paths: str, allow_truncated: bool = False) -> list[ChannelVerdict]:
    """Judge recorded traces, channel by channel; see ``permitflow trace validate``.

    Args:
        spark: classic or Connect; its workers must see the paths, and be able to import permitflow.
        paths: files (``*.parquet``, ``*.jsonl``) and folders of them, of one recording.
        allow_truncated: ignore a half-written last line.

    Returns:
        A verdict for each channel, in the order of the recording.

    Raises:
        TraceUnreadableError: a file is missing or holds something else.
        TraceMismatchError: recordings of a channel do not belong together, or one cannot be judged.
    """
    trace = scan_trace(*paths, allow_truncated=allow_truncated)
    return validate_by(trace, list(trace.channels), *there(spark), allow_truncated=allow_truncated)


def there(spark: SparkSession, *, is_kept: bool = False) -> tuple[int, Turns]:
    """The number of Spark's task slots, and turns on them: one to the end, or several if progress is kept."""
    return task_slots(spark), partial(_turns, spark, _TURN_EVENTS if is_kept else None)


def _turns(
    spark: SparkSession, most_events: int | None, shares: Sequence[Share]
) -> Generator[tuple[int, Share], None, None]:
    going = {number: share for number, share in enumerate(shares) if not share.is_over}
    while going:
        done = in_tasks(spark, partial(_turn, list(going.values()), most_events), len(going))
        for number, share in zip(list(going), done, strict=True):
            going[number] = share
            yield number, share
        going = {number: share for number, share in going.items() if not share.is_over}


def _turn(shares: Sequence[Share], most_events: int | None, number: int) -> Share:
    return shares[number].go_on(most_events)

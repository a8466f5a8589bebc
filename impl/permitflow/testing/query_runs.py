"""Judges recorded runs of streaming queries of Spark, source and sink: is each a behaviour of ``SparkMicroBatch``?

It reads the files that the source writes with option ``trace_dir`` (one folder for each query), and the query's
checkpoint; a file sink also lists its published batches.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from permitflow.errors import CheckpointError, TraceMismatchError, TraceUnreadableError
from permitflow.spark.recording import EVENTS_SUFFIX, file_name_of
from permitflow.spark.stream_planning import StreamOffset
from permitflow_model.kernel.replay import Replay, interleave
from permitflow_model.spark_micro_batch import State
from permitflow_model.spark_micro_batch_trace import QueryEvent, QueryWorld, SparkMicroBatchReplay, query_parameters

Facts = Mapping[str, object]

# First lines of a file of the offset log: its version, and Spark's notes about the batch.
_HEADER_LINES = 2


@dataclass(frozen=True)
class QueryVerdict:
    """The model's verdict about a query's run on one channel."""

    channel: str
    first_row: int
    """The row at which the query began; the model counts rows from there."""
    replay: Replay[QueryWorld, QueryEvent]
    left_over: int
    """Events without an explanation."""

    @property
    def is_valid(self) -> bool:
        """Is the run a behaviour of the specification?"""
        return self.replay.is_valid

    @property
    def state(self) -> State:
        """The last state, or the one before the first event that no behaviour allows."""
        return self.replay.worlds[0].state

    @property
    def table_rows(self) -> int:
        """Number of rows of this channel that the sink must have."""
        return self.state.output

    def describe(self) -> str:
        """The verdict in words; rows are counted from the query's first one."""
        name, state = f"channel {self.channel!r}", self.state
        where = (
            f"driver {state.phase}, batch [{state.start:,}, {state.end:,}), {state.acknowledged:,} rows acknowledged, "
            f"{state.output:,} published"
        )
        if self.is_valid:
            return f"{name}: valid, {self.replay.performed:,} events, at the end {where}"
        lines = [f"{name}: not a behaviour of the specification, after {self.replay.performed:,} valid events"]
        lines += [f"  {block.event.action} ({block.event.where}): {block.reason}" for block in self.replay.blocked]
        lines.append(f"  in the state  {where}")
        if later := self.left_over - len(self.replay.blocked):
            lines.append(f"  {later:,} later events were not looked at")
        return "\n".join(lines)


def judge_query(
    trace_dir: Path | str,
    checkpoint: Path | str,
    *,
    consumer: str = "default",
    source: int = 0,
    published: Iterable[int] | None = None,
    durable: bool = True,
    staging_rows: int = 0,
) -> list[QueryVerdict]:
    """Replay the recording of a query, channel by channel.

    Args:
        trace_dir: the source's option; recorded from the query's first batch on.
        checkpoint: of the query; Spark keeps the last hundred batches there.
        consumer: the name under which the source reads.
        source: its number among the query's sources, in Spark's order.
        published: the batches that the sink lists as published, in its order; None: it has no list.
        durable: must the exchange never lose rows?
        staging_rows: rows that jobs may stage for a channel, if they publish into channels that the query reads.

    Raises:
        TraceUnreadableError: a file is missing, or holds something else.
        TraceMismatchError: the recording or the checkpoint begins in the middle.
    """
    folder, logs = Path(trace_dir), Path(checkpoint)
    source_facts = _facts(folder, file_name_of("source", consumer))
    task_facts = _facts(folder, file_name_of("task", consumer))
    offsets = _offsets(logs / "offsets", source)
    commits = [batch for batch in _batches(logs / "commits") if batch in offsets]
    channels = [str(facts["channel"]) for facts in source_facts if facts["action"] == "Restart"]
    told = None if published is None else list(published)
    return [
        _ChannelRun(channel, source_facts, task_facts, offsets).judge(
            commits, told, durable=durable, staging_rows=staging_rows
        )
        for channel in dict.fromkeys(channels)
    ]


def published_by_file_sink(table: Path | str) -> list[int]:
    """The batches that a file sink has published into this folder."""
    return _batches(Path(table) / "_spark_metadata")


class _ChannelRun:
    """The recording of one channel."""

    def __init__(
        self, channel: str, source: Sequence[Facts], tasks: Sequence[Facts], offsets: Mapping[int, StreamOffset]
    ) -> None:
        self._channel = channel
        self._source = [facts for facts in source if facts["channel"] == channel]
        self._tasks = [facts for facts in tasks if facts["channel"] == channel]
        self._begin = self._source[0]
        self._first_row = _number(self._begin, "row")
        self._ranges = self._ranges_of(offsets)

    def judge(
        self, commits: Sequence[int], published: Sequence[int] | None, *, durable: bool, staging_rows: int
    ) -> QueryVerdict:
        permits, cap = _number(self._begin, "row_permits"), _number(self._begin, "batch_cap")
        interpretation = SparkMicroBatchReplay(
            query_parameters(row_permits=permits, batch_cap=cap, durable=durable, staging_rows=staging_rows)
        )
        # Events of Spark's logs, the tasks and the sink are taken before the source's next event: they came earlier.
        logs = [
            [self._of_batch("WriteOffsetLog", batch, "offsets") for batch in self._ranges],
            [*self._task_events()],
            [self._of_batch("Publish", batch, "the sink") for batch in published or () if batch in self._ranges],
            [self._of_batch("WriteCommitLog", batch, "commits") for batch in commits if batch in self._ranges],
            [self._source_event(facts) for facts in self._source],
        ]
        outcome = interleave(interpretation, interpretation.start(), logs)
        left_over = sum(map(len, logs)) - outcome.performed
        return QueryVerdict(self._channel, self._first_row, outcome, left_over)

    def _ranges_of(self, offsets: Mapping[int, StreamOffset]) -> dict[int, tuple[int, int]]:
        """The row range of each batch that is not empty, counted from the first row."""
        ranges, start = {}, 0
        for batch, offset in offsets.items():
            end = offset.rows.get(self._channel, self._first_row) - self._first_row
            if end != start:
                ranges[batch] = (start, end)
            start = end
        return ranges

    def _of_batch(self, action: str, batch: int, where: str) -> QueryEvent:
        return QueryEvent(action, *self._ranges[batch], where=f"batch {batch}, {where}")

    def _task_events(self) -> Iterator[QueryEvent]:
        for facts in sorted(self._tasks, key=lambda facts: _number(facts, "batch")):
            yield self._event(facts, facts["start"], facts["end"])

    def _source_event(self, facts: Facts) -> QueryEvent:
        if facts["action"] == "Acknowledge":
            return self._event(facts, facts["before"], facts["row"])
        if facts["action"] == "PlanBatch":
            return self._event(facts, facts["start"], facts["end"])
        return self._event(facts, self._first_row, facts["row"])

    def _event(self, facts: Facts, start: object, end: object) -> QueryEvent:
        first, produced = self._first_row, facts.get("produced", self._first_row)
        return QueryEvent(
            action=str(facts["action"]),
            start=int(str(start)) - first,
            end=int(str(end)) - first,
            produced=int(str(produced)) - first,
            where=str(facts["where"]),
        )


def _facts(folder: Path, name: str) -> list[Facts]:
    """The events of all files of a kind, in the order in which the files appeared."""
    found: list[Facts] = []
    for path in sorted(folder.glob(f"{name}-*{EVENTS_SUFFIX}")):
        # A half-written line comes from a process killed while it wrote: that event did not happen.
        whole = [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
        found += [_event_of(line, path, number) for number, line in enumerate(whole, 1)]
    if not found:
        reason = f"no files {name}-*{EVENTS_SUFFIX}: was option trace_dir set, and is this the consumer?"
        raise TraceUnreadableError(path=str(folder), line=0, reason=reason)
    return found


def _event_of(line: str, path: Path, number: int) -> Facts:
    try:
        facts = json.loads(line)
        return {**facts, "where": f"{path.name}, line {number}", "action": str(facts["action"])}
    except (ValueError, TypeError, KeyError) as error:
        raise TraceUnreadableError(path=str(path), line=number, reason=f"no event: {error!r}") from error


def _offsets(folder: Path, source: int) -> dict[int, StreamOffset]:
    batches = _batches(folder)
    if not batches or batches[0] != 0:
        first = f"begins with batch {batches[0]}" if batches else "is empty"
        raise TraceMismatchError(channel=str(folder), reason=f"the offset log {first}, but the recording does not")
    return {batch: _offset(folder / str(batch), source) for batch in batches}


def _offset(path: Path, source: int) -> StreamOffset:
    """The end of a batch."""
    line = _HEADER_LINES + source
    try:
        return StreamOffset.of_json(json.loads(path.read_text().splitlines()[line]))
    except (OSError, ValueError, IndexError, CheckpointError) as error:
        reason = f"no offset of this source, the query's number {source}: {error}"
        raise TraceUnreadableError(path=str(path), line=line + 1, reason=reason) from error


def _batches(folder: Path) -> list[int]:
    """The numbers of the files of one of Spark's logs."""
    try:
        names = [path.name.partition(".")[0] for path in folder.iterdir()]
    except OSError as error:
        raise TraceUnreadableError(path=str(folder), line=0, reason=error.strerror or str(error)) from error
    return sorted({int(name) for name in names if name.isdecimal()})


def _number(facts: Facts, name: str) -> int:
    return int(str(facts[name]))

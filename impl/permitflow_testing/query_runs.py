"""Judges recorded runs of streaming queries of Spark, source and sink: is each a behaviour of ``SparkMicroBatch``?

It reads the files that the source writes with option ``trace_dir`` (one folder for each query), and the query's
checkpoint; a file sink also lists its published batches.
"""

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from permitflow.errors import CheckpointError, TraceMismatchError, TraceUnreadableError
from permitflow.spark.recording import EVENTS_SUFFIX, file_name_of
from permitflow.spark.stream_planning import StreamOffset
from permitflow_model.kernel.replay import Replay, interleave
from permitflow_model.spark_micro_batch import State
from permitflow_model.spark_micro_batch_trace import QueryEvent, SparkMicroBatchReplay, World, query_parameters

Facts = Mapping[str, object]

# First lines of a file of the offset log: its version, and Spark's notes about the batch.
_HEADER_LINES = 2


@dataclass(frozen=True)
class QueryVerdict:
    """The model's verdict about a query's run on one channel."""

    channel: str
    first_row: int
    """The row at which the query began; the model counts rows from there."""
    replay: Replay[World, QueryEvent]
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
        durable: must the exchange never lose rows, but for those that it says have expired?  If not, a crash may have
            lost some.
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
    told = [] if published is None else list(published)

    def verdict(channel: str) -> QueryVerdict:
        of_source, of_tasks = (
            [facts for facts in every if facts["channel"] == channel] for every in (source_facts, task_facts)
        )
        begin = of_source[0]
        first_row = _number(begin, "row")
        numbers = {name: _number(begin, name) for name in ("row_permits", "batch_cap")}
        ranges = dict(_ranges(offsets, channel, first_row))

        def in_log(action: str, batches: Iterable[int], where: str) -> list[QueryEvent]:
            """What one of Spark's logs tells of the batches that have rows of this channel."""
            return [
                QueryEvent(action, *ranges[batch], where=f"batch {batch}, {where}")
                for batch in batches
                if batch in ranges
            ]

        # Events of Spark's logs, the tasks and the sink are taken before the source's next event: they came earlier.
        logs = [
            in_log("WriteOffsetLog", ranges, "offsets"),
            [_event(facts, first_row) for facts in sorted(of_tasks, key=lambda facts: _number(facts, "batch"))],
            in_log("Publish", told, "the sink"),
            in_log("WriteCommitLog", commits, "commits"),
            [_event(facts, first_row) for facts in of_source],
        ]

        constants = query_parameters(**numbers, durable=durable, staging_rows=staging_rows)
        interpretation = SparkMicroBatchReplay(constants)
        outcome = interleave(interpretation, interpretation.start(), logs)
        return QueryVerdict(channel, first_row, outcome, sum(map(len, logs)) - outcome.performed)

    channels = dict.fromkeys(str(facts["channel"]) for facts in source_facts if facts["action"] == "Restart")
    return [verdict(channel) for channel in channels]


def published_by_file_sink(table: Path | str) -> list[int]:
    """The batches that a file sink has published into this folder."""
    return _batches(Path(table) / "_spark_metadata")


def _ranges(offsets: Mapping[int, StreamOffset], channel: str, first_row: int) -> Iterator[tuple[int, tuple[int, int]]]:
    """Each batch that has rows of the channel, and which: counted from the first row."""
    start = 0
    for batch, offset in offsets.items():
        end = offset.rows.get(channel, first_row) - first_row
        if end != start:
            yield batch, (start, end)
        start = end


def _event(facts: Facts, first_row: int) -> QueryEvent:
    """What the source, or a task, has recorded; rows are counted from the first row."""
    start = facts.get("before", facts.get("start", first_row))
    end, produced = facts.get("row", facts.get("end")), facts.get("produced", first_row)
    told = (start, end, produced, facts.get("expired", first_row))
    # Rows may have expired before the query's first one.
    start, end, produced, expired = (max(0, int(str(row)) - first_row) for row in told)
    return QueryEvent(str(facts["action"]), start, end, produced, expired, str(facts["where"]))


def _facts(folder: Path, name: str) -> list[Facts]:
    """The events of all files of a kind, in the order in which the files appeared."""
    found: list[Facts] = []
    for path in sorted(folder.glob(f"{name}-*{EVENTS_SUFFIX}")):
        # A half-written line comes from a process killed while it wrote: that event did not happen.
        whole = [line for line in path.read_text().splitlines(keepends=True) if line.endswith("\n")]
        found += [_event_of(line, path, number) for number, line in enumerate(whole, 1)]
    if not found:
        reason = f"no files {name}-*{EVENTS_SUFFIX}: was option traceDir set, and is this the consumer?"
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

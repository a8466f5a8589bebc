"""The runs that are recorded: what the two Spark jobs move, and what must come out."""

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

__all__ = [
    "BATCH_ROWS",
    "PERMIT_BATCH",
    "REAL_CHANNELS",
    "STREAM",
    "Run",
    "from_json",
    "real_run",
    "sabotaged_run",
    "to_json",
]

STREAM = "numbers"
PERMIT_BATCH, SMALL_WINDOW, LARGE_WINDOW = 150, 2_000, 20_000
REAL_CHANNELS, TASKS_OF_CHANNEL = 4, 2

# A batch of Spark's is cut into 16 chunks of 61 rows and one of 21: not all permits that come back are alike.
BATCH_ROWS, CHUNK_ROWS, CHUNKS_OF_BATCH = 997, 61, 17

# Chunks of a sabotaged run: one for each task, above PERMIT_BATCH, all different and within a factor of two.  So each
# is returned by itself, and no wrong return looks like a right one, in whatever order the tasks run.  All rows fit into
# LARGE_WINDOW, so that a return too many does not exceed it, which an exchange notices by itself.
SABOTAGED_CHANNELS, SABOTAGED_TASKS, LEAST_ROWS = 2, 60, 200


@dataclass(frozen=True)
class Run:
    """One stream, from one Spark job to the other."""

    folder: str
    """For the recordings; its name is the run's."""

    channels: int
    tasks: int
    """Of the job that writes."""

    rows: int
    """Of the first task."""

    row_permits: int = SMALL_WINDOW
    """Of each channel in the exchange."""

    more_rows: int = 0
    """Of each task than of the one before."""

    chunk_rows: int = CHUNK_ROWS
    """The most rows of a chunk."""

    sabotage: str = ""
    """What the reader of the last channel does; see ``SABOTAGES``."""

    address: str = ""
    """Of the exchange, once it listens."""

    @property
    def name(self) -> str:
        """For reports."""
        return Path(self.folder).name

    @property
    def sabotaged_channel(self) -> str:
        """Whose reader is sabotaged, if any is."""
        return f"{STREAM}/{self.channels - 1}"

    def expected(self) -> list[list[int]]:
        """Of each task: its number, its rows, the sum of their serials from 1, how many different ones there are."""
        counts = [self.rows + self.more_rows * task for task in range(self.tasks)]
        return [[task, rows, rows * (rows + 1) // 2, rows] for task, rows in enumerate(counts)]


def real_run(folder: Path, chunks: int) -> Run:
    """About so many chunks through all channels together."""
    tasks = REAL_CHANNELS * TASKS_OF_CHANNEL
    batches = max(1, round(chunks / tasks / CHUNKS_OF_BATCH))
    return Run(str(folder), REAL_CHANNELS, tasks, rows=batches * BATCH_ROWS)


def sabotaged_run(folder: Path, sabotage: str) -> Run:
    """One chunk for each task; the reader of the last channel returns permits wrongly."""
    return Run(
        str(folder),
        SABOTAGED_CHANNELS,
        SABOTAGED_TASKS,
        rows=LEAST_ROWS,
        row_permits=LARGE_WINDOW,
        more_rows=1,
        chunk_rows=BATCH_ROWS,
        sabotage=sabotage,
    )


def to_json(runs: Sequence[Run]) -> str:
    """As one argument of a command line."""
    return json.dumps([asdict(run) for run in runs])


def from_json(text: str) -> list[Run]:
    """Back from the command line."""
    return [Run(**run) for run in json.loads(text)]

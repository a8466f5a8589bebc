"""The constants and variables of ``SparkMicroBatch.tla``: a streaming query that reads one channel of an exchange."""

from dataclasses import dataclass
from typing import Literal, NamedTuple

__all__ = ["NO_ROWS", "PHASES", "AcknowledgeIn", "Parameters", "Phase", "Rows", "Sink", "State", "initial"]

AcknowledgeIn = Literal["latestOffset", "commit", "read"]
"""The call in which rows are acknowledged."""

Sink = Literal["once", "again", "shared"]
"""``once``: staged by batch and attempt, published once per batch.  ``again``: does not remember which batches it has
published.  ``shared``: all attempts of all batches stage in the same place."""

Phase = Literal["idle", "planned", "logged", "ready", "staged", "published", "down", "failed"]

PHASES: tuple[Phase, ...] = ("idle", "planned", "logged", "ready", "staged", "published", "down", "failed")
"""What the driver can be at."""


@dataclass(frozen=True, kw_only=True)
class Parameters:
    """The constants of the specification."""

    row_count: int
    """Row permits: the exchange takes over a producer's chunk if it keeps no more rows than this."""

    batch_cap: int
    """A batch has no more rows of the channel than this."""

    sizes: tuple[int, ...]
    """Chunk sizes that may be offered, in rows (for bounded exploration)."""

    horizon: int
    """Rows that are produced before the stream ends."""

    staging_rows: int = 0
    """Rows that jobs may have staged for the channel, or published beyond the row permits."""

    acknowledge_in: AcknowledgeIn = "latestOffset"
    sink: Sink = "once"

    driver_crashes: bool = False
    """May the driver crash?"""

    durable: bool = True
    """Does the exchange keep its rows when it crashes?"""

    faults: int = 0
    """How many faults of any kind may happen."""

    def __post_init__(self) -> None:
        """Refuse what the specification's ASSUME refuses.

        Raises:
            ValueError: a parameter is out of its range.
        """
        for name, least in (("row_count", 1), ("batch_cap", 1), ("horizon", 0), ("staging_rows", 0), ("faults", 0)):
            if getattr(self, name) < least:
                raise ValueError(f"{name} must be at least {least}, not {getattr(self, name)}")
        if any(rows < 1 for rows in self.sizes):
            raise ValueError(f"a chunk has at least one row, but sizes are {self.sizes}")
        if not any(self.acknowledge_in == call for call in ("latestOffset", "commit", "read")):
            raise ValueError(f"acknowledge_in must be latestOffset, commit or read, not {self.acknowledge_in!r}")
        if not any(self.sink == sink for sink in ("once", "again", "shared")):
            raise ValueError(f"sink must be once, again or shared, not {self.sink!r}")


class Rows(NamedTuple):
    """The rows ``[start, end)`` of the channel."""

    start: int
    end: int


class State(NamedTuple):
    """The variables of the specification; rows are numbered from 0 since the channel was opened."""

    waiting: int
    """Rows of the chunk that waits for permits; 0: none waits."""
    produced: int
    """Rows that the exchange has taken over from the producer."""
    acknowledged: int
    """Rows whose permits have returned; the exchange has forgotten them."""
    lost: int
    """Rows below this and not acknowledged were lost in a crash of the exchange."""
    phase: Phase
    """What the driver is at."""
    plan: int
    """Where a batch ends that is not in the offset log yet; 0: there is none."""
    start: int
    """The last batch in the offset log: its first row ..."""
    end: int
    """... and the first row after it."""
    committed: bool
    """Is this batch in the commit log?"""
    published: bool
    """Has the sink published this batch?"""
    running: bool
    """Does an attempt run that the driver waits for?"""
    late: Rows
    """Rows of an attempt that runs on though nobody waits for it."""
    staged: Rows
    """Rows that are staged where the driver will publish from."""
    output: int
    """Rows in the published table, repetitions included."""
    misplaced: int
    """How many of them are not where they belong: row n at position n."""
    faults: int
    """How many faults may still happen."""


NO_ROWS = Rows(0, 0)


def initial(parameters: Parameters) -> State:
    """Nothing was produced, both logs are empty, the driver waits for rows."""
    return State(
        waiting=0,
        produced=0,
        acknowledged=0,
        lost=0,
        phase="idle",
        plan=0,
        start=0,
        end=0,
        committed=True,
        published=True,
        running=False,
        late=NO_ROWS,
        staged=NO_ROWS,
        output=0,
        misplaced=0,
        faults=parameters.faults,
    )

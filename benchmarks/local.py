"""The channel inside a process, as ``benchmarks/local_channel.py`` measures it."""

from dataclasses import dataclass

from benchmarks import local_channel
from benchmarks.records import Record
from benchmarks.series import Series

__all__ = ["QUEUE", "LocalRate", "measure_local"]

QUEUE = local_channel.QUEUE
MESSAGES = 20_000
SMOKE_MESSAGES = 1_000
# A round takes a tenth of a second; a few more of them make up for that.
ROUNDS_IN_A_ROUND = 3


@dataclass(frozen=True)
class LocalRate(Record):
    """Of one candidate with chunks of one size."""

    candidate: str
    chunk_rows: int
    million_messages_per_second: Series


def measure_local(rounds: int, seed: int, *, is_smoke: bool) -> list[LocalRate]:
    """All candidates at all sizes, in shuffled rounds."""
    messages = SMOKE_MESSAGES if is_smoke else MESSAGES
    found = local_channel.measure(rounds=ROUNDS_IN_A_ROUND * rounds, messages=messages, seed=seed)
    return [LocalRate(each.candidate, each.chunk_rows, Series.of(each.rates)) for each in found]

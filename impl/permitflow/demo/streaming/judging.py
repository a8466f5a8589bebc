"""Compares what the consumer counted with the files, and the recordings of the exchange with the model."""

from collections.abc import Iterable
from pathlib import Path

import pyarrow.parquet as pq

from permitflow.demo.streaming.ledger import Ledger
from permitflow.demo.streaming.report import Counted, RecordedRun
from permitflow.demo.streaming.settings import PartSettings
from permitflow.testing.traces import judge_all
from permitflow.tracing import read_trace

__all__ = ["compared", "judged"]


def compared(settings: PartSettings) -> Counted:
    """Each late line item of the files must have been counted once."""
    columns = pq.read_table(settings.direct_answer).to_pydict()
    expected = set(zip(columns["l_orderkey"], columns["l_linenumber"], strict=True))
    with Ledger(settings.ledger) as ledger:
        seen = ledger.seen()
    return Counted(
        expected=len(expected),
        lost=len(expected - seen.keys()),
        duplicated=sum(seen.values()) - len(seen),
        foreign=len(seen.keys() - expected),
    )


def judged(recordings: Iterable[Path]) -> RecordedRun:
    """Replay every stream of every life of the exchange; a life that was killed ends in the middle."""
    lives = streams = events = cut = 0
    refused: list[str] = []
    for recording in recordings:
        # Streams of two lives may have the same name.
        verdicts = judge_all(read_trace(recording, allow_truncated=True))
        lives += 1
        streams += len(verdicts)
        events += sum(verdict.replay.performed for verdict in verdicts)
        cut += sum(bool(verdict.cut_ends) for verdict in verdicts)
        refused += [f"{recording.name}: {verdict.describe()}" for verdict in verdicts if not verdict.is_valid]
    return RecordedRun(lives=lives, streams=streams, events=events, cut_streams=cut, refused=tuple(refused))

"""Compares what the consumer counted with the files, and what was recorded with the models."""

from collections.abc import Iterable, Sequence
from pathlib import Path

import pyarrow.parquet as pq

from permitflow.demo.consumer import Ledger
from permitflow.demo.settings import PartSettings
from permitflow.demo.streaming_demo import Counted, RecordedRun
from permitflow.testing.query_runs import judge_query
from permitflow.testing.traces import Verdict, judge_all
from permitflow.tracing import read_trace

__all__ = ["compared", "judged", "lives_of"]


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


def judged(recordings: Sequence[Path], settings: PartSettings) -> RecordedRun:
    """Replay every stream of every life of the exchange, of which some end in the middle; and the streaming query."""
    lives = lives_of(recordings)
    streams = [verdict for life in lives for verdict in life]
    query = judge_query(settings.query_trace, settings.checkpoint)
    return RecordedRun(
        lives=len(lives),
        silent_lives=len(recordings) - len(lives),
        streams=len(streams),
        events=sum(verdict.replay.performed for verdict in streams),
        cut_streams=sum(bool(verdict.cut_ends) for verdict in streams),
        query_events=sum(verdict.replay.performed for verdict in query),
        refused=(
            *(verdict.describe() for verdict in streams if not verdict.is_valid),
            *(verdict.describe() for verdict in query if not verdict.is_valid),
        ),
    )


def lives_of(recordings: Iterable[Path]) -> list[list[Verdict]]:
    """What the model says about the streams of each life; whoever was killed at once has recorded nothing."""
    begun = [recording for recording in recordings if recording.is_file() and recording.stat().st_size]
    # Streams of two lives may have the same name.
    return [judge_all(read_trace(recording, allow_truncated=True)) for recording in begun]

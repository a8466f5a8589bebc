"""A recording of many channels for audits: settled runs of the model, repeated, with a fault in every second one."""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from permitflow.audit.findings import Clause
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import End
from permitflow.testing.made_traces import FAULTS, Expected, NoPlaceError, random_behaviour
from permitflow.testing.traces import model_of
from permitflow.tracing.events import Event, Header
from permitflow.tracing.parquet import ROW_GROUP_EVENTS, ParquetTables
from permitflow.tracing.tables import POSITION, SCHEMA, table_of

__all__ = ["PARAMETERS", "Due", "Recording", "write_recording"]

PARAMETERS = ChannelParameters(row_permits=4_096, permit_batch=512, barrier_permits=2)
SIZES = (0, 1, 64, 1_024)
RUN_EVENTS = 4_000
ENDS: tuple[End, End] = ("sender", "receiver")

Due = tuple[str, End, int, Clause]
"""A violation that must be found: channel, end, sequence, clause."""


class Recording:
    """Writes one file for each channel."""

    def __init__(self, folder: Path, *, seed: int) -> None:
        """``seed`` chooses runs, faults and their places."""
        self._folder = folder
        self._choose = random.Random(seed)
        self.expected: set[Due] = set()
        self.kinds: set[str] = set()
        self.events = 0
        self.channels = 0

    def write(self, channel: str, runs: int, kind: str | None) -> None:
        """So many runs, one after the other; in one of them the fault, if any."""
        good = self._run()
        # What was never returned shows in the totals only, at the end.
        earlier = self._choose.randrange(runs) if kind != "permits come that nobody returned" else runs - 1
        tables = [_repeated(good, channel, earlier)]
        last = {end: earlier * _last(good, end) for end in ENDS}
        spoilt = good
        if kind is not None:
            spoilt, expected = self._spoil(kind, good)
            self.kinds.add(kind)
            self.expected |= {(channel, end, last[end] + at, clause) for end, at, clause in expected}
        tables.append(_shifted(_repeated(spoilt, channel, 1), last))
        last = {end: last[end] + _last(spoilt, end) for end in ENDS}
        tables.append(_shifted(_repeated(good, channel, runs - earlier - 1), last))
        self._write(channel, _counted_through(pa.concat_tables(tables).unify_dictionaries()))

    def _write(self, channel: str, table: pa.Table) -> None:
        file = ParquetTables(self._folder / f"{channel}.parquet")
        for start in range(0, len(table), ROW_GROUP_EVENTS):
            file.write(table.slice(start, ROW_GROUP_EVENTS))
        file.close([Header(channel, end, PARAMETERS) for end in ENDS])
        self.events += len(table)
        self.channels += 1

    def _run(self) -> list[Event]:
        model, seed = model_of(PARAMETERS, sizes=SIZES), self._choose.randrange(2**32)
        return list(random_behaviour(model, seed=seed, events=RUN_EVENTS, settle=True))

    def _spoil(self, kind: str, events: Sequence[Event]) -> tuple[list[Event], frozenset[Expected]]:
        while True:
            try:
                return FAULTS[kind](events, self._choose)
            except NoPlaceError:
                events = self._run()


def _repeated(events: Sequence[Event], channel: str, times: int) -> pa.Table:
    """So many runs of one channel, the events of each end counted through."""
    table = table_of([event._replace(channel=channel) for event in events])
    if not times:
        return table.slice(0, 0)
    repeated = pa.concat_tables([table] * times).combine_chunks()
    run = np.repeat(np.arange(times), len(table))
    return _shifted(repeated, {end: run * _last(events, end) for end in ENDS})


def _shifted(table: pa.Table, before: dict[End, int] | dict[End, np.ndarray]) -> pa.Table:
    """The same, as if so many events of each end had been before."""
    of_receiver = pc.equal(table.column("end"), "receiver").to_numpy()
    sequence = table.column("sequence").to_numpy() + np.where(of_receiver, before["receiver"], before["sender"])
    return table.set_column(table.schema.get_field_index("sequence"), SCHEMA.field("sequence"), pa.array(sequence))


def _counted_through(table: pa.Table) -> pa.Table:
    """The same, as if all runs had been recorded as one."""
    positions = pa.array(np.arange(1, len(table) + 1))
    return table.set_column(table.schema.get_field_index(POSITION), SCHEMA.field(POSITION), positions)


def _last(events: Sequence[Event], end: End) -> int:
    return max(event.sequence for event in events if event.end == end)


def _channels(faults: int) -> Iterator[tuple[str, str | None]]:
    kinds = list(FAULTS)
    for number in range(2 * faults):
        yield f"channel-{number}", kinds[number // 2 % len(kinds)] if number % 2 else None


def write_recording(folder: Path, *, events: int, faults: int, seed: int) -> Recording:
    """Channels with and without a fault, in turn; together about so many events."""
    recording = Recording(folder, seed=seed)
    channels = list(_channels(faults))
    for channel, kind in channels:
        recording.write(channel, max(2, events // len(channels) // RUN_EVENTS), kind)
    return recording

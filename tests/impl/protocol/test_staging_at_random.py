"""Whatever queries do to the staging books: nothing is lost or repeated, bounds hold, and nobody waits for ever."""

from collections.abc import Iterator

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule, run_state_machine_as_test

from permitflow.errors import StagedPartError, StagingFullError
from permitflow.protocol.control import StagedPart
from permitflow.protocol.frames import Staging
from permitflow.protocol.replay import DEFAULT_CONSUMER, ReplayBooks
from permitflow.protocol.staged_parts import YIELD_SECONDS
from permitflow.protocol.staging import Part, PartState, StagingArea, StagingBooks

LIMITS = {"a": 8, "b": 5}
PERMITS = {"a": 3, "b": 4}
QUERIES = st.sampled_from(["q", "r"])
PARTITIONS = st.integers(0, 2)


class Staged(RuleBasedStateMachine):
    """Two queries write into two channels, with more attempts than they need."""

    @initialize()
    def begin(self) -> None:
        self.now = 0.0
        self.books = StagingBooks(timeout_seconds=1_000.0)
        self.logs = {name: ReplayBooks(permits) for name, permits in PERMITS.items()}
        self.areas: dict[str, StagingArea] = {
            name: self.books.add_channel(name, rows, self.logs[name]) for name, rows in LIMITS.items()
        }
        self.parts: list[Part] = []
        self.produced = dict.fromkeys(LIMITS, 0)
        self.published: dict[tuple[str, int], tuple[Part, ...]] = {}
        self.rows: dict[Part, int] = {}

    @rule(channel=st.sampled_from([*LIMITS]), query=QUERIES, batch=st.integers(0, 2), partition=PARTITIONS)
    def open(self, channel: str, query: str, batch: int, partition: int) -> None:
        staging = Staging(query, batch, partition, str(len(self.parts)))
        part = self.books.open(channel, staging, self.now)
        assert part.is_kept == (batch > self.books.published_batches.get(query, -1))
        self.parts.append(part)
        self.rows[part] = 0

    @rule(data=st.data(), rows=st.integers(1, 4))
    def stage(self, data: st.DataObject, rows: int) -> None:
        part = self.draw(data, self.parts)
        if part is None:
            return
        kept, free = part.is_kept, self.areas[part.channel].free_rows
        try:
            taken = self.books.stage(part, part.wanted_rows or rows, self.now)
        except StagedPartError:
            assert part.state is not PartState.OPEN
            return
        except StagingFullError:
            fewest = self.areas[part.channel].least_rows(part)
            assert fewest + rows > LIMITS[part.channel]
            return
        if taken and kept:
            assert free >= rows or part.wanted_rows
            self.rows[part] = part.rows

    @rule(data=st.data(), breaks=st.booleans())
    def end(self, data: st.DataObject, breaks: bool) -> None:
        part = self.draw(data, [part for part in self.parts if part.is_kept and not part.wanted_rows])
        if part is not None and breaks:
            self.books.break_off(part, self.now)
        elif part is not None:
            self.books.end(part, self.now)

    @rule(query=QUERIES, batch=st.integers(0, 2), data=st.data())
    def publish(self, query: str, batch: int, data: st.DataObject) -> None:
        ended = [part for part in self.parts if part.state is PartState.ENDED and part.staging[:2] == (query, batch)]
        one_each = {(part.channel, part.staging.partition): part for part in data.draw(st.permutations(ended))}
        stated = [
            StagedPart(part.channel, part.staging.partition, part.staging.attempt, self.rows[part])
            for part in one_each.values()
        ]
        before = self.books.published_batches.get(query, -1)
        publication = self.books.publish(query, batch, stated, self.now)
        assert publication.was_published == (batch <= before)
        if not publication.was_published:
            assert set(publication.published) == set(one_each.values())
            self.published[query, batch] = publication.published

    @rule(data=st.data())
    def discard(self, data: st.DataObject) -> None:
        part = self.draw(data, self.parts)
        if part is not None:
            query, batch, partition, attempt = part.staging
            named = [StagedPart(part.channel, partition, attempt, part.rows)]
            assert self.books.discard(query, batch, named, self.now) in ((), (part,))

    @rule(channel=st.sampled_from([*LIMITS]), rows=st.integers(1, 4))
    def produce(self, channel: str, rows: int) -> None:
        if self.logs[channel].has_room(rows):
            self.logs[channel].produce(rows)
            self.produced[channel] += rows

    @rule(channel=st.sampled_from([*LIMITS]), rows=st.integers(1, 4))
    def acknowledge(self, channel: str, rows: int) -> None:
        log = self.logs[channel]
        log.acknowledge(DEFAULT_CONSUMER, log.first_kept_row + min(rows, log.kept_rows))

    @rule(seconds=st.sampled_from([1.0, YIELD_SECONDS, 2_000.0]))
    def wait(self, seconds: float) -> None:
        self.now += seconds
        for part in self.books.tidy(self.now):
            assert part.state is PartState.FORGOTTEN

    @invariant()
    def what_is_published_belongs_to_its_channel_at_once(self) -> None:
        for channel, log in self.logs.items():
            parts = [part for parts in self.published.values() for part in parts if part.channel == channel]
            assert log.next_row == self.produced[channel] + sum(self.rows[part] for part in parts)

    @invariant()
    def bounds_hold_and_sums_are_right(self) -> None:
        for channel, area in self.areas.items():
            assert area.free_rows >= 0
            assert self.logs[channel].kept_rows + area.staged_rows <= PERMITS[channel] + LIMITS[channel]
            assert area.staged_rows == sum(part.rows for part in area.parts)
            assert area.line == {part for part in area.parts if part.wanted_rows}

    @invariant()
    def nothing_is_left_of_what_was_published(self) -> None:
        for part in self.staged():
            assert part.staging.batch > self.books.published_batches.get(part.staging.query, -1)

    @invariant()
    def somebody_can_always_go_on(self) -> None:
        """Where a chunk waits, and permits are left: the first in line goes on, if only after a while."""
        for area in self.areas.values():
            if area.line and not area.log.excess_rows:
                first = min(area.line, key=lambda part: part.turn)
                given = list(area.giving_way(self.now + YIELD_SECONDS, lambda _: False))
                others = [part for part in area.parts if part not in given]
                needed = {part.staging.partition for part in others if part.staging[:2] == first.staging[:2]}
                freed = sum(part.rows for part in given)
                older = sum(part.rows for part in others if part.batch_number < first.batch_number)
                assert first.wanted_rows <= area.free_rows + freed or older or len(needed) > 1

    def staged(self) -> Iterator[Part]:
        for area in self.areas.values():
            yield from area.parts

    def draw(self, data: st.DataObject, parts: list[Part]) -> Part | None:
        return data.draw(st.sampled_from(parts)) if parts else None


def test_staging_at_random() -> None:
    run_state_machine_as_test(Staged, settings=settings(max_examples=150, stateful_step_count=40))

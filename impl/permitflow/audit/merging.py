"""Audits whole recordings: puts together what is known of their parts, and what only both ends together show.

Parts are looked at one by one, anywhere; an event that only totals show to be wrong is looked for in few of them again.
"""

import os
import pickle
from bisect import bisect_left, bisect_right
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import accumulate

import numpy as np

from permitflow.audit.columns import Codes, Events, Integers, events_of, limits_of, triple
from permitflow.audit.findings import Audit, ChannelAudit, Clause, Violation
from permitflow.audit.laws import (
    Before,
    broken,
    due_counters,
    is_returning,
    waiting_steps,
)
from permitflow.audit.summary import (
    Moment,
    Part,
    Passage,
    Summary,
    look_at,
    passage_of,
    places_of,
    tokens_of,
    violation_at,
)
from permitflow.audit.units import Plan, Unit, plan, read_unit, read_units
from permitflow.errors import TraceUnreadableError
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import End
from permitflow_model.side_by_side import in_processes

__all__ = ["audit_files", "examine_share", "merge"]

# Enough that a slow share does not hold up the others.
_SHARES_PER_PROCESS = 16
_KEPT_BYTES = 2**24

NOTHING_DUE = "nothing"
"""How a reason ends where no message was due."""

_CLASSES = ("row", "barrier", "watermark")
_KINDS = ("chunk", "barrier", "watermark")


def audit_files(
    *paths: str | os.PathLike[str], processes: int = 1, on_progress: Callable[[int, int], None] | None = None
) -> Audit:
    """Audit trace files, and all trace files of folders, as one recording.

    Args:
        paths: files (``*.parquet``, ``*.jsonl``) and folders of them.
        processes: that look at row groups side by side.
        on_progress: is told after each part how many of how many are done.

    Raises:
        TraceUnreadableError: a file is missing or holds something else.
        TraceMismatchError: recordings of a channel do not belong together.
    """
    whole = plan(paths)
    with closing(_parts(whole, processes)) as parts:
        return merge(whole, _with_progress(parts, len(whole.units), on_progress))


def examine(units: Iterable[Unit], parameters: Mapping[str, ChannelParameters]) -> list[Part]:
    """Read units and look at each."""
    # Let the C library keep what arrays have used, for the next ones; asking the kernel each time takes longer.
    # glibc's thresholds follow the largest array that was ever freed (mallopt(3)); this one is never touched.
    np.empty(_KEPT_BYTES, dtype=np.uint8)
    return [look_at(table, parameters, source=unit.name) for unit, table in read_units(units)]


def examine_share(number: int, shares: Sequence[list[Unit]], parameters: Mapping[str, ChannelParameters]) -> bytes:
    """The pickled parts of one of several shares."""
    return pickle.dumps(examine(shares[number], parameters))


def _parts(whole: Plan, processes: int) -> Generator[tuple[Unit, Part], None, None]:
    look = partial(examine, parameters=whole.parameters)
    shares = whole.shares(processes * _SHARES_PER_PROCESS)
    if processes == 1 or len(shares) < 2:
        for share in shares:
            yield from zip(share, look(share), strict=True)
        return
    with closing(in_processes(look, shares, processes=processes)) as looked_at:
        for share, parts in zip(shares, looked_at, strict=True):
            yield from zip(share, parts, strict=True)


def _with_progress(
    parts: Iterable[tuple[Unit, Part]], total: int, on_progress: Callable[[int, int], None] | None
) -> Iterator[tuple[Unit, Part]]:
    for done, part in enumerate(parts, start=1):
        yield part
        if on_progress is not None:
            on_progress(done, total)


@dataclass(frozen=True, slots=True)
class Boundary:
    """A part of an end's events, and what came before it."""

    earlier: Summary | None
    """All parts before as one; None: it is the end's first part."""

    later: Summary
    parameters: ChannelParameters


def boundary_violations(boundaries: Sequence[Boundary]) -> list[Violation]:
    """What the first events of parts break because of what came before them; the parts are of one end each."""
    found: list[Violation] = []
    met: dict[End, list[Boundary]] = {"sender": [], "receiver": []}
    for boundary in boundaries:
        earlier, later = boundary.earlier, boundary.later
        due = 1 if earlier is None else earlier.last_sequence + 1
        if later.first_sequence != due:
            reason = f"event {due} is missing, event {later.first_sequence} comes instead"
            found.append(violation_at(_first_events([boundary]), 0, Clause.SEQUENCE, reason=reason))
        elif earlier is not None and earlier.last_counters is not None:
            # The books can be carried over.
            met[later.end].append(boundary)
    return found + [violation for of_end in met.values() for violation in _books(of_end)]


def _books(boundaries: Sequence[Boundary]) -> list[Violation]:
    if not boundaries:
        return []
    events = _first_events(boundaries)
    earlier = [boundary.earlier for boundary in boundaries if boundary.earlier is not None]
    before = _before([each.last_counters for each in earlier if each.last_counters is not None])
    as_if_right = _before([each.last_due for each in earlier])
    found = broken(events, before, due_counters(events, before.counters))
    still_found = broken(events, as_if_right, due_counters(events, as_if_right.counters))
    # The other clauses do not ask what was before.
    return [
        violation_at(events, index, clause, before)
        for clause in (Clause.CONSERVATION, Clause.GRANTS_BATCHED)
        if clause in found
        for index in np.flatnonzero(found[clause] & still_found[clause]).tolist()
    ]


def joined(earlier: Summary, later: Summary, parameters: ChannelParameters) -> Summary:
    """Both as one.  What a lone event should have counted is only known here."""
    whole = earlier.then(later)
    if later.events > 1 or earlier.last_counters is None or later.first_sequence != earlier.last_sequence + 1:
        return whole
    event = _first_events([Boundary(earlier, later, parameters)])
    return replace(whole, last_due=triple(due_counters(event, _columns([earlier.last_counters])), 0))


def _before(counters: Sequence[tuple[int, int, int]]) -> Before:
    count = len(counters)
    return Before(_columns(counters), known=np.ones(count, np.bool_), continues=np.zeros(count, np.bool_))


def _columns(triples: Sequence[tuple[int, int, int]]) -> Integers:
    return np.array(triples, dtype=np.int64).T


def _first_events(boundaries: Sequence[Boundary]) -> Events:
    """The first event of each later part, as if each were of a channel of its own."""
    summaries = [boundary.later for boundary in boundaries]
    action, rows, permits, counters = zip(*(summary.first for summary in summaries), strict=True)
    return Events(
        end=summaries[0].end,
        channels=[summary.channel for summary in summaries],
        borders=np.arange(len(summaries) + 1),
        limits=limits_of([boundary.parameters for boundary in boundaries]),
        sequence=np.array([summary.first_sequence for summary in summaries], dtype=np.int64),
        action=np.array(action, dtype=np.int8),
        rows=np.array(rows, dtype=np.int64),
        permits=_columns(permits),
        counters=_columns([counted or (0, 0, 0) for counted in counters]),
        has_counters=np.array([counted is not None for counted in counters]),
    )


@dataclass(slots=True)
class Side:
    """The parts of an end in order, and what they come to."""

    parameters: Mapping[str, ChannelParameters]
    """Of all channels: a part may hold several."""

    parts: list[tuple[Unit, Summary]] = field(default_factory=list)
    whole: Summary | None = None

    def add(self, unit: Unit, summary: Summary) -> Boundary:
        """The part that follows; and where it meets those before."""
        parameters = self.parameters[summary.channel]
        boundary = Boundary(self.whole, summary, parameters)
        self.parts.append((unit, summary))
        self.whole = summary if self.whole is None else joined(self.whole, summary, parameters)
        return boundary

    def read(self, number: int) -> Events:
        """The events of one part, read again.

        Raises:
            TraceUnreadableError: the file is gone, or is another one now.
        """
        unit, summary = self.parts[number]
        for events in events_of(read_unit(unit), self.parameters, source=unit.name):
            if events.end == summary.end and summary.channel in events.channels:
                return events.of(summary.channel)
        raise self.changed(number)

    def changed(self, number: int) -> TraceUnreadableError:
        """The events of a part are not those that were summed up."""
        unit, _ = self.parts[number]
        return TraceUnreadableError(path=unit.path, line=0, reason="it was changed while it was audited")


class Passing:
    """All messages that have passed an end at this moment, in order."""

    def __init__(self, side: Side | None, moment: Moment) -> None:
        """None: nothing was recorded there."""
        self._side, self._moment = side, moment
        passages = [getattr(summary, moment) for _, summary in side.parts] if side else []
        self.until = list(accumulate(passages, Passage.then, initial=Passage()))
        """What has passed before each part; and at the end."""
        self._messages = [passage.messages for passage in self.until]
        self._last: tuple[int, Events] | None = None

    @property
    def parts(self) -> int:
        """How many there are."""
        return len(self.until) - 1

    def first(self, count: int) -> Passage | None:
        """The first ``count`` messages; None: there are fewer."""
        if count > self._messages[-1]:
            return None
        part = bisect_right(self._messages, count) - 1
        passage = self.until[part]
        if passage.messages == count:
            return passage
        _, tokens = self.part(part)
        return passage.then(passage_of(tokens[: count - passage.messages]))

    def tokens(self, start: int, count: int) -> Integers:
        """``count`` messages from the one at ``start``; fewer, if there are fewer."""
        part = max(bisect_right(self._messages, start) - 1, 0)
        offset = start - self._messages[part]
        gathered = [np.zeros(0, dtype=np.int64)]
        while part < self.parts and self._messages[part] < start + count:
            gathered.append(self.part(part)[1])
            part += 1
        return np.concatenate(gathered)[offset : offset + count]

    def part(self, number: int) -> tuple[Codes, Integers]:
        """The messages of one part, read again: at which of its events, and which."""
        events = self.events(number)
        places = places_of(events, self._moment)
        return places, tokens_of(events).take(places)

    def events(self, number: int) -> Events:
        """The events of one part; the last one that was read is kept."""
        assert self._side is not None, "what was not recorded has no parts"
        if self._last is None or self._last[0] != number:
            self._last = number, self._side.read(number)
        return self._last[1]

    def changed(self, number: int) -> TraceUnreadableError:
        """The events of a part are not those that were summed up."""
        assert self._side is not None, "what was not recorded has no parts"
        return self._side.changed(number)


def first_disagreement(due: Passing, found: Passing) -> int | None:
    """The first part of ``found`` whose messages are not those that were due; None: there is none.

    Halves the parts again and again, so that few of them are read.
    """

    def differs(parts: int) -> bool:
        return due.first(found.until[parts].messages) != found.until[parts]

    number = bisect_left(range(found.parts + 1), True, key=differs)
    return None if number > found.parts else number - 1


def first_below_zero(side: Side, line: int) -> Violation:
    """Where a chunk (0) or barrier (1) leaves the line of those that wait though none waits.

    Raises:
        TraceUnreadableError: the file has changed.
    """
    rises = [(summary.chunks_waiting, summary.barriers_waiting)[line] for _, summary in side.parts]
    heights = accumulate((rise.total for rise in rises), initial=0)
    steps = enumerate(zip(heights, rises, strict=False))
    number, height = next((number, height) for number, (height, rise) in steps if height + rise.lowest < 0)
    events = side.read(number)
    below = np.flatnonzero(height + np.cumsum(waiting_steps(events)[line]) < 0)
    if not below.size:
        raise side.changed(number)
    return violation_at(events, int(below[0]), Clause.OFFERED, reason=f"no {_KINDS[line]} waits")


def first_return_above(side: Side, limit: tuple[int, int, int]) -> Violation:
    """The first AddPermits after which the sender has got more permits of a class than were returned.

    Raises:
        TraceUnreadableError: the file has changed.
    """
    most, returned = np.array(limit), np.array([summary.returned for _, summary in side.parts], dtype=np.int64)
    # No return is below zero, or the end would be wrong by itself: what has come never becomes less.
    until = np.cumsum(returned, axis=0)
    number = int(np.flatnonzero((until > most).any(axis=1))[0])
    events = side.read(number)
    totals = until[number] - returned[number] + np.cumsum(events.permits.T * is_returning(events)[:, None], axis=0)
    above = totals > most
    places = np.flatnonzero(above.any(axis=1))
    if not places.size:
        raise side.changed(number)
    index = int(places[0])
    which = int(np.flatnonzero(above[index])[0])
    reason = f"{totals[index, which]:,} {_CLASSES[which]} permits came back, {limit[which]:,} were returned"
    return violation_at(events, index, Clause.RETURNED, reason=reason)


def first_difference(due: Passing, found: Passing) -> list[Violation]:
    """The first message found that is not the one that was due; none, if there are only fewer.

    Raises:
        TraceUnreadableError: a file has changed.
    """
    number = first_disagreement(due, found)
    if number is None:
        return []
    position = found.until[number].messages
    places, here = found.part(number)
    expected = due.tokens(position, len(here))
    differs = np.flatnonzero(here[: len(expected)] != expected)
    index = int(differs[0]) if differs.size else len(expected)
    if index >= len(here):
        raise found.changed(number)
    told = NOTHING_DUE if index >= len(expected) else f"a {_named(int(expected[index]))}"
    reason = f"message {position + index + 1:,} is a {_named(int(here[index]))}, due was {told}"
    return [violation_at(found.events(number), int(places[index]), Clause.IN_ORDER, reason=reason)]


def _named(token: int) -> str:
    rows, kind = divmod(token, 4)
    return f"{_KINDS[kind]} of {rows:,} rows" if kind == 0 else _KINDS[kind]


def merge(plan: Plan, parts: Iterable[tuple[Unit, Part]]) -> Audit:
    """The verdict on everything, from the parts in the order of the plan.

    Events that only the whole shows to be wrong are looked up in their units again; there are few, or none.
    """
    return _Merging(plan).run(parts)


class _Merging:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._sides: dict[tuple[str, End], Side] = {}
        self._violations: list[Violation] = []
        self._untold = 0
        self._faulty: dict[tuple[str, End], set[Clause]] = {}

    def run(self, parts: Iterable[tuple[Unit, Part]]) -> Audit:
        boundaries: list[Boundary] = []
        for unit, part in parts:
            self._untold += part.untold
            self._note(part.violations)
            boundaries += (self._side(summary).add(unit, summary) for summary in part.summaries)
        self._note(boundary_violations(boundaries))
        channels = [self._channel(name) for name in self._plan.parameters]
        self._violations.sort(key=lambda violation: (violation.channel, violation.end, violation.sequence))
        counts: dict[str, int] = {}
        for violation in self._violations:
            counts[violation.channel] = counts.get(violation.channel, 0) + 1
        for channel in channels:
            channel.violations = counts.get(channel.channel, 0)
        return Audit(channels=channels, violations=self._violations, untold=self._untold)

    def _side(self, summary: Summary) -> Side:
        where = summary.channel, summary.end
        if where not in self._sides:
            self._sides[where] = Side(self._plan.parameters)
        return self._sides[where]

    def _note(self, violations: Sequence[Violation]) -> None:
        self._violations += violations
        for violation in violations:
            self._faulty.setdefault((violation.channel, violation.end), set()).add(violation.clause)

    def _channel(self, name: str) -> ChannelAudit:
        sender, receiver = (self._sides.get((name, end)) for end in ("sender", "receiver"))
        result = ChannelAudit(channel=name, ends=frozenset(self._plan.ends[name]))
        for side in (sender, receiver):
            if side is not None and side.whole is not None:
                result.events += side.whole.events
                if side.whole.uncounted:
                    result.remarks.append(
                        f"{side.whole.uncounted:,} events of the {side.whole.end} have no counters: books not checked"
                    )
        if sender is not None and sender.whole is not None:
            result.sent_messages, result.sent_rows = sender.whole.arrived.messages, sender.whole.arrived.rows
            self._check_offered(sender)
        if receiver is not None and receiver.whole is not None:
            consumed = receiver.whole.consumed
            result.consumed_messages, result.consumed_rows = consumed.messages, consumed.rows
            self._check_consumed(receiver)
        result.remarks += self._compare(name, sender, receiver)
        return result

    def _check_offered(self, side: Side) -> None:
        if side.whole is None or Clause.SEQUENCE in self._faults(side.whole):
            return
        for line, rise in enumerate((side.whole.chunks_waiting, side.whole.barriers_waiting)):
            if rise.lowest < 0:
                self._note([first_below_zero(side, line)])

    def _check_consumed(self, side: Side) -> None:
        if side.whole is None or self._faults(side.whole):
            return
        delivered, consumed = side.whole.arrived, side.whole.consumed
        if consumed != delivered:
            self._note(first_difference(Passing(side, "arrived"), Passing(side, "consumed")))

    def _compare(self, name: str, sender: Side | None, receiver: Side | None) -> Iterator[str]:
        if len(self._plan.ends[name]) == 1:
            yield f"only the {next(iter(self._plan.ends[name]))} was recorded: the ends cannot be compared"
            return
        if receiver is None or receiver.whole is None:
            return
        if sender is None or sender.whole is None:
            sender = Side(self._plan.parameters)
        faults = self._faults(receiver.whole) | (self._faults(sender.whole) if sender.whole else set())
        if faults:
            yield "the ends are not compared with each other, because one is wrong by itself"
            return
        yield from self._compare_messages(name, sender, receiver, receiver.whole)
        yield from self._compare_permits(name, sender, receiver.whole)

    def _compare_messages(self, name: str, sender: Side, receiver: Side, received: Summary) -> Iterator[str]:
        if sender.whole is not None and sender.whole.arrived == received.arrived:
            return
        found = first_difference(Passing(sender, "arrived"), Passing(receiver, "arrived"))
        if (name, "sender") in self._plan.cut and found and found[0].reason.endswith(NOTHING_DUE):
            yield "the recording of the sender was not closed: what was delivered later is not compared"
            return
        self._note(found)

    def _compare_permits(self, name: str, sender: Side, received: Summary) -> Iterator[str]:
        rows, barriers, watermarks = received.returned
        residue = received.last_counters[2] if received.last_counters else 0
        limit = (rows - residue, barriers, watermarks)
        came = sender.whole.returned if sender.whole else (0, 0, 0)
        missing = tuple(most - count for count, most in zip(came, limit, strict=True))
        if min(missing) >= 0:
            if any(missing):
                yield f"at the end {missing} permits (rows, barriers, watermarks) were on their way back"
        elif (name, "receiver") in self._plan.cut:
            yield "the recording of the receiver was not closed: what came back later is not compared"
        else:
            self._note([first_return_above(sender, limit)])

    def _faults(self, whole: Summary) -> set[Clause]:
        return self._faulty.get((whole.channel, whole.end), set())

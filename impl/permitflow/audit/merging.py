"""Audits whole recordings: merges the summaries of their parts, and compares the two ends.

Each part is examined by itself, on any machine.  If the totals show that some event is wrong, a few parts are read
again to find it.
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

from permitflow.audit.columns import Codes, Events, Integers, Limits, argument_names, events_of, numbers_at
from permitflow.audit.findings import Audit, ChannelAudit, Clause, Violation
from permitflow.audit.laws import Before, Laws, broken, by_books, due_counters, laws_of, steps_of
from permitflow.audit.summary import (
    Moment,
    Part,
    Passage,
    Summary,
    Told,
    look_at,
    passage_of,
    places_of,
    returns_at,
    tokens_of,
    violation_at,
)
from permitflow.audit.units import Plan, Unit, plan, read_unit, read_units
from permitflow.errors import TraceUnreadableError
from permitflow.protocol.recording import End
from permitflow_model.side_by_side import in_processes

# Enough that a slow share does not hold up the others.
_SHARES_PER_PROCESS = 16
_KEPT_BYTES = 2**24

NOTHING_DUE = "nothing"
"""The end of a reason if no message was due."""


def audit_files(
    *paths: str | os.PathLike[str], processes: int = 1, on_progress: Callable[[int, int], None] | None = None
) -> Audit:
    """Audit trace files, and all trace files of folders, as one recording.

    Args:
        paths: files (``*.parquet``, ``*.jsonl``) and folders of them.
        processes: number of processes that examine row groups in parallel.
        on_progress: is called after each part with the numbers of finished parts and of all parts.

    Raises:
        TraceUnreadableError: a file is missing or holds something else.
        TraceMismatchError: recordings of a channel do not belong together.
    """
    whole = plan(paths)
    with closing(_parts(whole, processes)) as parts:
        return merge(whole, _with_progress(parts, len(whole.units), on_progress))


def examine(units: Iterable[Unit], limits: Mapping[str, Limits]) -> list[Part]:
    """Read and examine units."""
    # Let the C library keep the arrays' memory for the next ones; asking the kernel each time takes longer.
    # glibc's thresholds follow the largest array ever freed (mallopt(3)); no code touches this one.
    np.empty(_KEPT_BYTES, dtype=np.uint8)
    read = ((unit, laws_of(unit.table, unit.name), table) for unit, table in read_units(units))
    return [look_at(table, laws, limits, source=unit.name) for unit, laws, table in read]


def examine_share(number: int, shares: Sequence[list[Unit]], limits: Mapping[str, Limits]) -> bytes:
    """The pickled parts of one of several shares."""
    return pickle.dumps(examine(shares[number], limits))


def _parts(whole: Plan, processes: int) -> Generator[tuple[Unit, Part], None, None]:
    look = partial(examine, limits=whole.limits)
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
    """A part of an end's events, and the parts before it."""

    earlier: Summary | None
    """The summary of all earlier parts; None: this is the end's first part."""
    later: Summary
    laws: Laws
    limits: Limits


def boundary_violations(boundaries: Sequence[Boundary]) -> tuple[list[Violation], set[tuple[str, End, int]]]:
    """The clauses that the first events of parts break, given the parts before them.

    Also the second events that are wrong only because the first one is: one miscount is one violation.
    """
    found: list[Violation] = []
    excused: set[tuple[str, End, int]] = set()
    met: dict[tuple[str, End], list[Boundary]] = {}
    for boundary in boundaries:
        earlier, later = boundary.earlier, boundary.later
        due = 1 if earlier is None else earlier.last_sequence + 1
        if later.first_sequence != due:
            reason = f"event {due} is missing, event {later.first_sequence} comes instead"
            first = _events([boundary], [later.first])
            found.append(violation_at(boundary.laws, first, 0, Clause.SEQUENCE, reason=reason))
        elif earlier is not None and earlier.last_counters is not None:
            # No event is missing, so the ledger carries over.
            met.setdefault((boundary.laws.table.flow, later.end), []).append(boundary)
    for of_end in met.values():
        violations = _books(of_end)
        found += violations
        blamed = {(violation.channel, violation.sequence) for violation in violations}
        excused |= _excused([each for each in of_end if (each.later.channel, each.later.first_sequence) in blamed])
    return found, excused


def _books(boundaries: Sequence[Boundary]) -> list[Violation]:
    laws = boundaries[0].laws
    events = _events(boundaries, [boundary.later.first for boundary in boundaries])
    earlier = [boundary.earlier for boundary in boundaries if boundary.earlier is not None]
    before = _before([each.last_counters for each in earlier if each.last_counters is not None])
    as_if_right = _before([each.last_due for each in earlier])
    found = broken(laws, events, before, due_counters(laws, events, before.counters))
    still_found = broken(laws, events, as_if_right, due_counters(laws, events, as_if_right.counters))
    # The other clauses do not depend on earlier events.
    return [
        violation_at(laws, events, index, clause, before)
        for clause in sorted(by_books(laws, events.end))
        for index in np.flatnonzero(found[clause] & still_found[clause]).tolist()
    ]


def _excused(boundaries: Sequence[Boundary]) -> set[tuple[str, End, int]]:
    """Second events that are right relative to their wrong first events."""
    boundaries = [boundary for boundary in boundaries if boundary.later.second is not None]
    if not boundaries:
        return set()
    laws = boundaries[0].laws
    first = _events(boundaries, [boundary.later.first for boundary in boundaries])
    second = _events(boundaries, [each for boundary in boundaries if (each := boundary.later.second) is not None])
    counted = [boundary.earlier.last_counters for boundary in boundaries if boundary.earlier is not None]
    due = due_counters(laws, second, due_counters(laws, first, _columns([each or () for each in counted])))
    right = (second.sequence == first.sequence + 1) & (second.counters == due).all(axis=0)
    return {
        (boundary.later.channel, second.end, int(second.sequence[index]))
        for index, boundary in enumerate(boundaries)
        if right[index]
    }


def joined(earlier: Summary, later: Summary, laws: Laws, limits: Limits) -> Summary:
    """Combine two summaries.  Only here it is known what the single event of a part should have counted."""
    whole = earlier.then(later)
    if later.events > 1 or earlier.last_counters is None or later.first_sequence != earlier.last_sequence + 1:
        return whole
    event = _events([Boundary(earlier, later, laws, limits)], [later.first])
    return replace(whole, last_due=numbers_at(due_counters(laws, event, _columns([earlier.last_counters])), 0))


def _before(counters: Sequence[tuple[int, ...]]) -> Before:
    count = len(counters)
    return Before(_columns(counters), known=np.ones(count, np.bool_), continues=np.zeros(count, np.bool_))


def _columns(numbers: Sequence[tuple[int, ...]]) -> Integers:
    return np.array(numbers, dtype=np.int64).T


def _events(boundaries: Sequence[Boundary], told: Sequence[Told]) -> Events:
    """One event of each later part, as if each belonged to a channel of its own."""
    table, end = boundaries[0].laws.table, boundaries[0].later.end
    sequence, action, arguments, counters = zip(*told, strict=True)
    nothing = (0,) * len(table.counters[end])
    return Events(
        table=table,
        end=end,
        channels=[boundary.later.channel for boundary in boundaries],
        borders=np.arange(len(boundaries) + 1),
        limits=[boundary.limits for boundary in boundaries],
        sequence=np.array(sequence, dtype=np.int64),
        action=np.array(action, dtype=np.int8),
        arguments=dict(zip(argument_names(table), _columns(arguments), strict=True)),
        counters=_columns([counted or nothing for counted in counters]),
        has_counters=np.array([counted is not None for counted in counters]),
    )


@dataclass(slots=True)
class Side:
    """The parts of an end in order, and their combined summary."""

    laws: Laws
    limits: Mapping[str, Limits]
    """Limits of all channels: a part may hold several."""
    parts: list[tuple[Unit, Summary]] = field(default_factory=list)
    whole: Summary | None = None

    def add(self, unit: Unit, summary: Summary) -> Boundary:
        """Add the next part, and return its boundary with the earlier ones."""
        limits = self.limits[summary.channel]
        boundary = Boundary(self.whole, summary, self.laws, limits)
        self.parts.append((unit, summary))
        self.whole = summary if self.whole is None else joined(self.whole, summary, self.laws, limits)
        return boundary

    def read(self, number: int) -> Events:
        """The events of one part, read again.

        Raises:
            TraceUnreadableError: the file is gone, or has changed.
        """
        unit, summary = self.parts[number]
        for events in events_of(read_unit(unit), unit.table, self.limits, source=unit.name):
            if events.end == summary.end and summary.channel in events.channels:
                return events.of(summary.channel)
        raise self.changed(number)

    def changed(self, number: int) -> TraceUnreadableError:
        """The error for a part whose events differ from those examined before."""
        unit, _ = self.parts[number]
        return TraceUnreadableError(path=unit.path, line=0, reason="it was changed while it was audited")


class Passing:
    """All messages in the order in which they arrived at an end, or were consumed there."""

    def __init__(self, side: Side, moment: Moment) -> None:
        """The messages of one end at one moment."""
        self.side, self._moment = side, moment
        passages = [getattr(summary, moment) for _, summary in side.parts]
        self.until = list(accumulate(passages, Passage.then, initial=Passage()))
        """The messages that passed before each part, and in total."""
        self._messages = [passage.messages for passage in self.until]
        self._last: tuple[int, Events] | None = None

    @property
    def parts(self) -> int:
        """The number of parts."""
        return len(self.until) - 1

    def first(self, count: int) -> Passage | None:
        """The fingerprint of the first ``count`` messages; None: there are fewer."""
        if count > self._messages[-1]:
            return None
        part = bisect_right(self._messages, count) - 1
        passage = self.until[part]
        if passage.messages == count:
            return passage
        _, tokens = self.part(part)
        return passage.then(passage_of(tokens[: count - passage.messages]))

    def tokens(self, start: int, count: int) -> Integers:
        """Up to ``count`` messages from the one at ``start``."""
        part = max(bisect_right(self._messages, start) - 1, 0)
        offset = start - self._messages[part]
        gathered = [np.zeros(0, dtype=np.int64)]
        while part < self.parts and self._messages[part] < start + count:
            gathered.append(self.part(part)[1])
            part += 1
        return np.concatenate(gathered)[offset : offset + count]

    def part(self, number: int) -> tuple[Codes, Integers]:
        """The messages of one part, read again: the indices of their events, and their tokens."""
        events, laws = self.events(number), self.side.laws
        places = places_of(laws, events, self._moment)
        return places, tokens_of(laws, events).take(places)

    def events(self, number: int) -> Events:
        """The events of one part; the part read last is cached."""
        if self._last is None or self._last[0] != number:
            self._last = number, self.side.read(number)
        return self._last[1]

    def changed(self, number: int) -> TraceUnreadableError:
        """The error for a part whose events differ from those examined before."""
        return self.side.changed(number)


def first_disagreement(due: Passing, found: Passing) -> int | None:
    """The first part of ``found`` whose messages are not the due ones; None: there is none.

    A bisection over the parts, so that few of them are read.
    """

    def differs(parts: int) -> bool:
        return due.first(found.until[parts].messages) != found.until[parts]

    number = bisect_left(range(found.parts + 1), True, key=differs)
    return None if number > found.parts else number - 1


def first_below_zero(side: Side, number: int) -> Violation:
    """The event at which a message leaves a line in which no message waits.

    Raises:
        TraceUnreadableError: the file has changed.
    """
    rises = [summary.waiting[number] for _, summary in side.parts]
    heights = accumulate((rise.total for rise in rises), initial=0)
    steps = enumerate(zip(heights, rises, strict=False))
    part, height = next((part, height) for part, (height, rise) in steps if height + rise.lowest < 0)
    events = side.read(part)
    line = [line for line in side.laws.lines if line.end == events.end][number]
    below = np.flatnonzero(height + np.cumsum(steps_of(events, line.steps)) < 0)
    if not below.size:
        raise side.changed(part)
    return violation_at(side.laws, events, int(below[0]), Clause.OFFERED, reason=f"no {line.name} waits")


def first_return_above(side: Side, limit: Sequence[int], names: Sequence[str]) -> Violation:
    """The first event after which the sender has received more of something than was returned.

    Raises:
        TraceUnreadableError: the file has changed.
    """
    most, returned = np.array(limit), np.array([summary.returned for _, summary in side.parts], dtype=np.int64)
    # No return is negative, or the end would be wrong by itself: so these totals never decrease.
    until = np.cumsum(returned, axis=0)
    number = int(np.flatnonzero((until > most).any(axis=1))[0])
    events = side.read(number)
    totals = until[number] - returned[number] + np.cumsum(returns_at(side.laws, events).T, axis=0)
    above = totals > most
    places = np.flatnonzero(above.any(axis=1))
    if not places.size:
        raise side.changed(number)
    index = int(places[0])
    which = int(np.flatnonzero(above[index])[0])
    reason = f"{totals[index, which]:,} {names[which]} came back, {limit[which]:,} were returned"
    return violation_at(side.laws, events, index, Clause.RETURNED, reason=reason)


def first_difference(due: Passing, found: Passing) -> list[Violation]:
    """The first message found that is not the due one; none if messages are only missing at the end.

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
    laws = found.side.laws
    told = NOTHING_DUE if index >= len(expected) else f"a {_named(laws, int(expected[index]))}"
    reason = f"message {position + index + 1:,} is a {_named(laws, int(here[index]))}, due was {told}"
    return [violation_at(laws, found.events(number), int(places[index]), Clause.IN_ORDER, reason=reason)]


def _named(laws: Laws, token: int) -> str:
    rows, kind = divmod(token, 4)
    order = laws.order
    name = order.kinds[kind] if order else ""
    return f"{name} of {rows:,} rows" if kind == 0 and order and order.rows else name


def merge(plan: Plan, parts: Iterable[tuple[Unit, Part]]) -> Audit:
    """The verdict about the recording, from its parts in the order of the plan.

    Events that only the totals show to be wrong are looked up in their units again; there are few, or none.
    """
    return _Merging(plan).run(parts)


class _Merging:
    def __init__(self, plan: Plan) -> None:
        self._plan = plan
        self._sides: dict[tuple[str, End], Side] = {}
        self._violations: list[Violation] = []
        self._untold = 0
        self._faulty: dict[tuple[str, End], set[str]] = {}

    def run(self, parts: Iterable[tuple[Unit, Part]]) -> Audit:
        boundaries: list[Boundary] = []
        for unit, part in parts:
            self._untold += part.untold
            self._note(part.violations)
            boundaries += (self._side(summary).add(unit, summary) for summary in part.summaries)
        found, excused = boundary_violations(boundaries)
        self._excuse(excused)
        self._note(found)
        channels = [self._channel(name) for name in self._plan.tables]
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
            self._sides[where] = Side(self._plan.laws(summary.channel), self._plan.limits)
        return self._sides[where]

    def _excuse(self, excused: set[tuple[str, End, int]]) -> None:
        def is_excused(violation: Violation) -> bool:
            where = violation.channel, violation.end, violation.sequence
            return where in excused and violation.clause in by_books(self._plan.laws(violation.channel), violation.end)

        kept = [violation for violation in self._violations if not is_excused(violation)]
        self._violations, self._faulty = [], {}
        self._note(kept)

    def _note(self, violations: Sequence[Violation]) -> None:
        self._violations += violations
        for violation in violations:
            self._faulty.setdefault((violation.channel, violation.end), set()).add(violation.clause)

    def _channel(self, name: str) -> ChannelAudit:
        sender, receiver = (self._sides.get((name, end)) for end in ("sender", "receiver"))
        laws = self._plan.laws(name)
        result = ChannelAudit(channel=name, ends=frozenset(self._plan.ends[name]), flow=laws.table.flow)
        for side in (sender, receiver):
            if side is not None and side.whole is not None:
                result.events += side.whole.events
                if side.whole.uncounted:
                    result.remarks.append(
                        f"{side.whole.uncounted:,} events of the {side.whole.end} have no counters: ledger not checked"
                    )
        if sender is not None and sender.whole is not None:
            result.sent_messages, result.sent_rows = sender.whole.arrived.messages, sender.whole.arrived.rows
            self._check_offered(sender)
        if receiver is not None and receiver.whole is not None:
            consumed = receiver.whole.consumed
            result.consumed_messages, result.consumed_rows = consumed.messages, consumed.rows
            self._check_consumed(receiver)
        if laws.is_empty:
            result.remarks.append(f"no laws of {laws.table.flow!r} are known: checked that no event is missing")
        else:
            result.remarks += self._compare(name, sender, receiver)
        return result

    def _check_offered(self, side: Side) -> None:
        if side.whole is None or Clause.SEQUENCE in self._faults(side.whole):
            return
        for line, rise in enumerate(side.whole.waiting):
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
            sender = Side(receiver.laws, self._plan.limits)
        faults = self._faults(receiver.whole) | (self._faults(sender.whole) if sender.whole else set())
        if faults:
            yield "the ends are not compared with each other, because one is wrong by itself"
            return
        yield from self._compare_messages(name, sender, receiver, receiver.whole)
        yield from self._compare_returns(name, sender, receiver.whole)

    def _compare_messages(self, name: str, sender: Side, receiver: Side, received: Summary) -> Iterator[str]:
        if sender.whole is not None and sender.whole.arrived == received.arrived:
            return
        found = first_difference(Passing(sender, "arrived"), Passing(receiver, "arrived"))
        if (name, "sender") in self._plan.cut and found and found[0].reason.endswith(NOTHING_DUE):
            yield "the recording of the sender was not closed: later deliveries are not compared"
            return
        self._note(found)

    def _compare_returns(self, name: str, sender: Side, received: Summary) -> Iterator[str]:
        laws = sender.laws.returns
        if laws is None:
            return
        limit, kept = list(received.returned), received.last_counters or ()
        for counter, count in zip(sender.laws.table.counters["receiver"], kept, strict=False):
            if counter in laws.kept:
                limit[laws.kept[counter]] -= count
        came = sender.whole.returned if sender.whole else (0,) * len(limit)
        for name_of_limit, number in laws.unasked.items():
            if came[number] or limit[number]:  # else nobody has asked
                limit[number] += self._plan.limits[name][name_of_limit]
        missing = tuple(most - count for count, most in zip(came, limit, strict=True))
        if min(missing) >= 0:
            if any(missing):
                told = ", ".join(f"{count:,} {what}" for count, what in zip(missing, laws.names, strict=True) if count)
                yield f"at the end {told} were on their way back"
        elif (name, "receiver") in self._plan.cut:
            yield "the recording of the receiver was not closed: what came back later is not compared"
        else:
            self._note([first_return_above(sender, limit, laws.names)])

    def _faults(self, whole: Summary) -> set[str]:
        return self._faulty.get((whole.channel, whole.end), set())

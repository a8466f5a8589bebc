"""Audits whole recordings: merges the summaries of their parts, and compares the two ends.

Each part is examined by itself, on any machine.  If the totals show that some event is wrong, a few parts are read
again to find it.
"""

import os
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from functools import reduce
from itertools import accumulate, repeat

import numpy as np

from permitflow.errors import TraceUnreadableError
from permitflow.flows.recording import ENDS, End
from permitflow_model.side_by_side import in_processes
from permitflow_tools.audit.columns import Events, Integers, Marks, Places, events_of, joined, number_of
from permitflow_tools.audit.findings import Audit, ChannelAudit, Clause, Violation
from permitflow_tools.audit.laws import Laws, check, laws_of, steps_of, violation_at
from permitflow_tools.audit.summary import (
    Moment,
    Part,
    Passage,
    Rise,
    Summary,
    look_at,
    passage_of,
    places_of,
    tokens_of,
)
from permitflow_tools.audit.units import Plan, Unit, plan, read_units

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
    with closing(_looked_at(whole, processes)) as parts:
        return merge(whole, _counted(parts, len(whole.units), on_progress))


def _looked_at(whole: Plan, processes: int) -> Generator[Part, None, None]:
    units, count = whole.units, min(processes * _SHARES_PER_PROCESS, len(whole.units))
    if processes == 1 or count < 2:
        yield from examine(units, whole.parameters)
        return
    shares = [units[number * len(units) // count : (number + 1) * len(units) // count] for number in range(count)]
    with closing(in_processes(examine_share, shares, repeat(whole.parameters), processes=processes)) as looked_at:
        for parts in looked_at:
            yield from parts


def _counted(parts: Iterable[Part], total: int, on_progress: Callable[[int, int], None] | None) -> Iterator[Part]:
    for done, part in enumerate(parts, start=1):
        yield part
        if on_progress is not None:
            on_progress(done, total)


def examine(units: Iterable[Unit], parameters: Mapping[str, object]) -> Iterator[Part]:
    """Read and examine units."""
    # Let the C library keep the arrays' memory for the next ones; asking the kernel each time takes longer.
    # glibc's thresholds follow the largest array ever freed (mallopt(3)); no code touches this one.
    np.empty(_KEPT_BYTES, dtype=np.uint8)
    for unit, table in read_units(units):
        yield look_at(table, laws_of(unit.table, unit.name), parameters, source=unit.name)


def examine_share(units: list[Unit], parameters: Mapping[str, object]) -> list[Part]:
    """The parts of one of several shares."""
    return list(examine(units, parameters))


@dataclass(frozen=True, slots=True)
class Side:
    """An end: its parts in order, and their combined summary."""

    laws: Laws
    parameters: Mapping[str, object]
    """Of all channels: a part may hold several."""
    whole: Summary
    parts: list[tuple[Unit, Summary]] = field(default_factory=list)

    def read(self, number: int) -> Events:
        """The events of one part, read again.

        Raises:
            TraceUnreadableError: the file is gone, or has changed.
        """
        unit, (channel, end, *_) = self.parts[number]
        ((_, table),) = read_units([unit])
        for events in events_of(table, unit.table, self.parameters, source=unit.name):
            if events.end == end and channel in events.channels:
                return events.of(channel)
        raise self.changed(number)

    def first(self, number: int, marks: Marks) -> int:
        """The first marked place of one part, where there must be one.

        Raises:
            TraceUnreadableError: the file has changed.
        """
        if not marks.any():
            raise self.changed(number)
        return int(np.argmax(marks))

    def changed(self, number: int) -> TraceUnreadableError:
        """The error for a part whose events differ from those examined before."""
        return TraceUnreadableError(
            path=self.parts[number][0].path, line=0, reason="it was changed while it was audited"
        )

    def first_below(self, sum_number: int, start: int) -> tuple[Events, int, int]:
        """Where a sum from ``start`` falls below zero: the events of that part, the place, and the sum there."""
        rises = [summary.rises[sum_number] for _, summary in self.parts]
        until = list(accumulate(rises, Rise.then, initial=Rise(start)))
        number = next(number for number, rise in enumerate(rises) if until[number].total + rise.lowest < 0)
        events = self.read(number)
        heights = until[number].total + np.cumsum(steps_of(events, self.laws.sums(events.end)[sum_number]))
        place = self.first(number, heights < 0)
        return events, place, int(heights[place])


class Passing:
    """All messages in the order in which they arrived at an end, or were consumed there."""

    def __init__(self, side: Side, moment: Moment) -> None:
        """The messages of one end at one moment."""
        self.side, self._moment = side, moment
        passages: list[Passage] = [getattr(summary, moment) for _, summary in side.parts]
        self.until = list(accumulate(passages, Passage.then, initial=Passage()))
        """The messages that passed before each part, and in total."""
        self._messages = [passage.messages for passage in self.until]

    def first(self, count: int) -> Passage | None:
        """The fingerprint of the first ``count`` messages; None: there are fewer."""
        if count > self._messages[-1]:
            return None
        part = bisect_right(self._messages, count) - 1
        passage = self.until[part]
        if passage.messages == count:
            return passage
        *_, tokens = self.part(part)
        return passage.then(passage_of(tokens[: count - passage.messages]))

    def tokens(self, start: int, count: int) -> Integers:
        """Up to ``count`` messages from the one at ``start``."""
        first = max(bisect_right(self._messages, start) - 1, 0)
        last = bisect_left(self._messages, start + count)
        gathered = [self.part(number)[2] for number in range(first, min(last, len(self._messages) - 1))]
        offset = start - self._messages[first]
        return np.concatenate([*gathered, np.zeros(0, dtype=np.int64)])[offset : offset + count]

    def part(self, number: int) -> tuple[Events, Places, Integers]:
        """The events of one part, read again; the places of its messages there, and their tokens."""
        events, laws = self.side.read(number), self.side.laws
        places = places_of(laws, events, self._moment)
        return events, places, tokens_of(laws, events).take(places)

    def first_difference(self, due: "Passing") -> Violation | None:
        """The first message that is not the due one; none if messages are only missing at the end.

        A bisection over the parts, so that few of them are read.

        Raises:
            TraceUnreadableError: a file has changed.
        """

        def differs(parts: int) -> bool:
            return due.first(self.until[parts].messages) != self.until[parts]

        number = bisect_left(range(len(self.until)), True, key=differs) - 1
        if number == len(self.side.parts):
            return None
        position, laws = self._messages[number], self.side.laws
        events, places, here = self.part(number)
        expected = due.tokens(position, len(here))
        differences = np.ones(len(here), dtype=np.bool_)
        differences[: len(expected)] = here[: len(expected)] != expected
        index = self.side.first(number, differences)
        told = NOTHING_DUE if index >= len(expected) else f"a {_named(laws, int(expected[index]))}"
        reason = f"message {position + index + 1:,} is a {_named(laws, int(here[index]))}, due was {told}"
        return violation_at(laws, events, int(places[index]), Clause.IN_ORDER, reason)


def _named(laws: Laws, token: int) -> str:
    rows, kind = divmod(token, 4)
    order = laws.order
    name = order.kinds[kind] if order else ""
    return f"{name} of {rows:,} rows" if kind == 0 and order and order.rows else name


def merge(plan: Plan, parts: Iterable[Part]) -> Audit:
    """The verdict about the recording, from its parts in the order of the plan.

    Events that only the totals show to be wrong are looked up in their units again; there are few, or none.
    """
    summaries: dict[tuple[str, End], list[tuple[Unit, Summary]]] = {}
    edges: dict[tuple[str, End], list[Events]] = {}
    violations: list[Violation] = []
    untold = 0
    for unit, part in zip(plan.units, parts, strict=True):
        untold += part.untold
        violations += part.violations
        for summary in part.summaries:
            summaries.setdefault((summary.channel, summary.end), []).append((unit, summary))
        for events in part.edges:
            edges.setdefault((unit.table.flow, events.end), []).append(events)
    for of_end in edges.values():
        together, openings = joined(of_end)
        violations += check(laws_of(together.table, together.channels[0]), together).violations(openings)[0]
    faults: dict[str, set[tuple[End, str]]] = {}
    for violation in violations:
        faults.setdefault(violation.channel, set()).add((violation.end, violation.clause))
    channels = []
    for name in plan.headers:
        comparison = _Comparison(plan, name, summaries, faults.get(name, set()))
        channels.append(comparison.audit())
        violations += comparison.found
    violations.sort(key=lambda violation: (violation.channel, violation.end, violation.sequence))
    counts = Counter(violation.channel for violation in violations)
    for channel in channels:
        channel.violations = counts[channel.channel]
    return Audit(channels=channels, violations=violations, untold=untold)


class _Comparison:
    """Compares the totals of one channel, within each end and between them."""

    def __init__(
        self,
        plan: Plan,
        name: str,
        summaries: Mapping[tuple[str, End], list[tuple[Unit, Summary]]],
        faults: set[tuple[End, str]],
    ) -> None:
        self._plan, self._name = plan, name
        self._laws = laws_of(next(iter(plan.headers[name].values())).table, name)
        self._sender, self._receiver = (self._side(end, summaries.get((name, end), [])) for end in ENDS)
        self._faults = faults
        self.found: list[Violation] = []

    def _side(self, end: End, parts: list[tuple[Unit, Summary]]) -> Side:
        nothing = Summary(self._name, end, (Rise(),) * len(self._laws.sums(end)))
        whole = reduce(Summary.then, (summary for _, summary in parts), nothing)
        return Side(self._laws, self._plan.parameters, whole, parts)

    def audit(self) -> ChannelAudit:
        sent, received = self._sender.whole, self._receiver.whole
        result = ChannelAudit(
            channel=self._name,
            ends=frozenset(self._plan.headers[self._name]),
            flow=self._laws.table.flow,
            events=sent.events + received.events,
            sent_messages=sent.arrived.messages,
            sent_rows=sent.arrived.rows,
            consumed_messages=received.consumed.messages,
            consumed_rows=received.consumed.rows,
            remarks=[
                f"{whole.uncounted:,} events of the {whole.end} have no counters: ledger not checked"
                for whole in (sent, received)
                if whole.uncounted
            ],
        )
        if self._laws.is_empty:
            result.remarks.append(f"no laws of {result.flow!r} are known: checked that no event is missing")
            return result
        self._check_offered()
        if not self._is_faulty("receiver") and received.consumed != received.arrived:
            self._note(Passing(self._receiver, "consumed").first_difference(Passing(self._receiver, "arrived")))
        if len(result.ends) == 1:
            result.remarks.append(f"only the {min(result.ends)} was recorded: the ends cannot be compared")
        elif self._is_faulty("sender") or self._is_faulty("receiver"):
            result.remarks.append("the ends are not compared with each other, because one is wrong by itself")
        else:
            result.remarks += self._compare_messages()
            result.remarks += self._compare_returns()
        return result

    def _is_faulty(self, end: End) -> bool:
        return any(of == end for of, _ in self._faults)

    def _note(self, violation: Violation | None) -> None:
        if violation is not None:
            self.found.append(violation)
            self._faults.add((violation.end, violation.clause))

    def _check_offered(self) -> None:
        if ("sender", Clause.SEQUENCE) in self._faults:
            return
        for number, line in enumerate(self._laws.lines):
            if self._sender.whole.rises[number].lowest < 0:
                events, place, _ = self._sender.first_below(number, 0)
                self._note(violation_at(self._laws, events, place, Clause.OFFERED, f"no {line.name} waits"))

    def _compare_messages(self) -> Iterator[str]:
        if self._sender.whole.arrived == self._receiver.whole.arrived:
            return
        found = Passing(self._receiver, "arrived").first_difference(Passing(self._sender, "arrived"))
        if found and found.reason.endswith(NOTHING_DUE) and (self._name, "sender") in self._plan.cut:
            yield "the recording of the sender was not closed: later deliveries are not compared"
        else:
            self._note(found)

    def _compare_returns(self) -> Iterator[str]:
        first = len(self._laws.lines)
        kept = dict(zip(self._laws.table.counters["receiver"], self._receiver.whole.counters or (), strict=False))
        on_the_way = []
        for number, each in enumerate(self._laws.returns):
            limit = self._receiver.whole.rises[number].total - kept.get(each.kept or "", 0)
            came = -self._sender.whole.rises[first + number].total
            if came or limit:  # else nobody has asked
                limit += number_of(each.unasked, self._plan.parameters[self._name])
            if came < limit:
                on_the_way.append(f"{limit - came:,} {each.name}")
            elif came > limit and (self._name, "receiver") in self._plan.cut:
                yield "the recording of the receiver was not closed: what came back later is not compared"
                return
            elif came > limit:
                # No return is negative, or the end would be wrong by itself: so the sum only falls.
                events, place, rest = self._sender.first_below(first + number, limit)
                reason = f"{limit - rest:,} {each.name} came back, {limit:,} were returned"
                self._note(violation_at(self._laws, events, place, Clause.RETURNED, reason))
                return
        if on_the_way:
            yield f"at the end {', '.join(on_the_way)} were on their way back"

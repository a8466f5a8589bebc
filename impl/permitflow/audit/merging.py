"""Puts what is known of the parts together: what one part cannot see, and what only both ends together show."""

from collections.abc import Iterable, Iterator, Sequence

from permitflow.audit.boundaries import Boundary, boundary_violations
from permitflow.audit.clauses import Clause
from permitflow.audit.locating import NOTHING_DUE, first_below_zero, first_difference, first_return_above
from permitflow.audit.part import Part
from permitflow.audit.passing import Passing
from permitflow.audit.report import Audit, ChannelAudit
from permitflow.audit.sides import Side
from permitflow.audit.summary import Summary
from permitflow.audit.units import Plan, Unit
from permitflow.audit.violations import Violation
from permitflow.protocol.recording import End

__all__ = ["merge"]


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

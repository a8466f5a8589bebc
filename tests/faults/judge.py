"""What must hold in every schedule: laws with names, each of which says in words how it was broken."""

from collections.abc import Callable, Iterator
from itertools import chain, pairwise
from signal import SIGKILL
from typing import Any, NamedTuple

from tests.faults.running import SECONDS_TO_HEAR, Evidence
from tests.faults.schedules import Party, Retention

Events = list[dict[str, Any]]
Law = Callable[[Evidence], Iterator[str]]


class Verdict(NamedTuple):
    broken: list[tuple[str, str]]
    """Laws, and how they were broken."""
    outcomes: dict[str, str]
    """What each end was told last."""


def events(evidence: Evidence, party: Party, *kinds: str) -> Events:
    return [event for event in evidence.journals[party] if event["event"] in kinds]


class Attempt(NamedTuple):
    """Of the consumer."""

    first: int
    """The row with which it began."""
    rows: list[int]
    """That it took."""
    has_ended: bool
    """Did it come to a clean end?"""


def attempts(evidence: Evidence) -> list[Attempt]:
    found: list[Attempt] = []
    for event in events(evidence, Party.CONSUMER, "began", "took", "ended"):
        if event["event"] == "began":
            found.append(Attempt(event["row"], [], False))
        elif event["event"] == "took":
            found[-1].rows.extend(row for first, count in event["runs"] for row in range(first, first + count))
        else:
            found[-1] = found[-1]._replace(has_ended=True)
    return found


def difference(got: list[int], first: int, last: int) -> str:
    """How rows differ from ``first`` to before ``last``; empty if they do not."""
    if got == list(range(first, last)):
        return ""
    wanted, came = set(range(first, last)), set(got)
    facts = {
        "lacking": len(wanted - came),
        "twice": len(got) - len(came),
        "foreign": len(came - wanted),
        "out of order": sum(b < a for a, b in pairwise(got)),
    }
    return f"of rows {first} to {last - 1}: " + ", ".join(f"{count} {what}" for what, count in facts.items() if count)


def has_all(evidence: Evidence) -> bool:
    """Has the consumer got every row, whatever it was told?"""
    everything, taken = list(range(evidence.schedule.rows)), [attempt.rows for attempt in attempts(evidence)]
    if evidence.schedule.retention is Retention.REPLAY:
        return list(chain.from_iterable(taken)) == everything
    return everything in taken


def ends_in_time(evidence: Evidence) -> Iterator[str]:
    for life in evidence.lives:
        if life.hung:
            yield f"the {life.party} (process {life.pid}) was still there after {SECONDS_TO_HEAR:.0f} s"


def fails_by_name(evidence: Evidence) -> Iterator[str]:
    """What goes wrong is told by a typed error, never by a crash."""
    for party, journal in evidence.journals.items():
        for event in journal:
            if event["event"] == "crashed":
                yield f"the {party} crashed: {event['traceback'].strip().splitlines()[-1]}"
    for name, text in evidence.errors.items():
        if "Traceback" in text:
            yield f"the {name} has a traceback on its error output, ending with {text.strip().splitlines()[-1]!r}"
    for life in evidence.lives:
        allowed = {0, -SIGKILL} if life.was_killed or life.hung else {0}
        if life.status not in allowed:
            yield f"the {life.party} (process {life.pid}) ended with status {life.status}"


def rows_come_in_order(evidence: Evidence) -> Iterator[str]:
    """What a consumer takes begins where it should, and goes on without a gap or a repetition."""
    for number, (first, rows, _) in enumerate(attempts(evidence)):
        if found := difference(rows, first, first + len(rows)):
            yield f"attempt {number} of the consumer took {found}"


def nothing_altered_is_delivered(evidence: Evidence) -> Iterator[str]:
    """What a consumer takes has the values that were sent, also where bits were flipped on the way."""
    if altered := sum(event["altered"] for event in events(evidence, Party.CONSUMER, "took")):
        yield f"{altered} rows came with other values than were sent"


def a_clean_end_is_the_whole(evidence: Evidence) -> Iterator[str]:
    """Who comes to the end of a stream has all of its rows."""
    for number, (first, rows, has_ended) in enumerate(attempts(evidence)):
        if has_ended and (found := difference(rows, first, evidence.schedule.rows)):
            yield f"attempt {number} of the consumer came to a clean end, {found}"


def consumed_is_received(evidence: Evidence) -> Iterator[str]:
    """What a producer was told is consumed, a consumer has; of what was only accepted, no reader had come."""
    schedule = evidence.schedule
    takes = events(evidence, Party.CONSUMER, "took")
    for event in events(evidence, Party.PRODUCER, "ended"):
        outcome = event["outcome"]
        if outcome == "accepted":
            if schedule.retention is Retention.ONCE and (before := sum(took["at"] < event["at"] for took in takes)):
                yield f"the producer was told that all was accepted, as without a reader; one had taken {before} times"
        elif outcome.startswith("kept"):
            if outcome != f"kept {schedule.rows}":
                yield f"the channel has ended, with {outcome} of {schedule.rows} rows"
        elif not has_all(evidence):
            taken = sum(took["rows"] for took in takes)
            yield f"the producer was told that all was {outcome}; of {schedule.rows} rows the consumer has {taken}"


def what_is_kept_goes_on(evidence: Evidence) -> Iterator[str]:
    """A channel that keeps its rows outlives all faults but flipped bits; a bridged one, if nothing breaks."""
    schedule = evidence.schedule
    breaking = {number for number in evidence.fired if not schedule.faults[number].kind.is_slowness}
    if schedule.has_flips or (schedule.retention is Retention.ONCE and breaking):
        return
    for party in evidence.journals:
        if not events(evidence, party, "over"):
            yield f"the {party} did not come to a good end: {told_last(evidence, party)}"


def the_bound_holds(evidence: Evidence) -> Iterator[str]:
    """Nowhere are more rows at once than there are permits."""
    most = evidence.schedule.row_permits
    for event in evidence.exchange_says:
        for channel in event.get("channels", ()):
            if isinstance(channel, dict) and channel["peak_rows_held"] > most:
                yield f"the exchange held {channel['peak_rows_held']} rows of {most}"
    for party in evidence.journals:
        for event in events(evidence, party, "numbers"):
            for name, count in event["peaks"].items():
                if count > most:
                    yield f"{name} of the {party} was {count} of {most}"


def barriers_keep_their_place(evidence: Evidence) -> Iterator[str]:
    """A gate hands a barrier out behind all rows that were sent before it, and in front of all others, and each one."""
    largest, due = evidence.schedule.producer.largest_chunk_rows, 1
    for event in events(evidence, Party.CONSUMER, "began", "aligned"):
        if event["event"] == "began":
            due = 1
            continue
        number, border = event["barrier"], event["barrier"] * evidence.schedule.epoch_rows
        if number != due or not event["rows"] - largest < border <= event["rows"]:
            yield f"barrier {number} came behind {event['rows']} rows, {due} was due, and its place is {border}"
        due = number + 1


def the_exchange_lives(evidence: Evidence) -> Iterator[str]:
    """It ends when it is asked to, and says its last numbers."""
    last = [life for life in evidence.lives if life.party is Party.EXCHANGE][-1]
    says = evidence.exchange_says[-1]["event"] if evidence.exchange_says else "nothing"
    if not last.was_killed and says != "stopped":
        yield f"the exchange said last: {says}"


LAWS: tuple[Law, ...] = (
    ends_in_time,
    fails_by_name,
    rows_come_in_order,
    nothing_altered_is_delivered,
    a_clean_end_is_the_whole,
    consumed_is_received,
    what_is_kept_goes_on,
    the_bound_holds,
    barriers_keep_their_place,
    the_exchange_lives,
)


def told_last(evidence: Evidence, party: Party) -> str:
    told = events(evidence, party, "ended", "failed")
    if not told:
        return "nothing"
    if told[-1]["event"] == "ended":
        return str(told[-1].get("outcome", "clean end"))
    return f"{told[-1]['type']}: {told[-1]['message']}"


def judged(evidence: Evidence) -> Verdict:
    return Verdict(
        broken=[(law.__name__.replace("_", " "), words) for law in LAWS for words in law(evidence)],
        outcomes={party: told_last(evidence, party) for party in evidence.journals},
    )

"""What must hold in every schedule: laws with names, each of which says in words how it was broken."""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import chain, pairwise
from signal import SIGKILL
from typing import Any, NamedTuple

from permitflow import errors
from tests.faults.running import SECONDS_TO_HEAR, Evidence
from tests.faults.schedules import ROW_BYTES, Client, FaultKind, Method, Party, Retention, Schedule

Events = list[dict[str, Any]]
Law = Callable[[Evidence], Iterator[str]]


class FaultVerdict(NamedTuple):
    broken: list[tuple[str, str]]
    """Laws, and how they were broken."""
    outcomes: dict[str, str]
    """What each end was told last."""


def events(evidence: Evidence, party: Party, *kinds: str) -> Events:
    return [event for event in evidence.journals.get(party, ()) if event["event"] in kinds]


class Attempt(NamedTuple):
    """Of one who takes rows."""

    first: int
    """The row with which it began."""
    rows: list[int]
    """That it took."""
    has_ended: bool
    """Did it come to a clean end?"""


def attempts(evidence: Evidence, party: Party) -> dict[object, Attempt]:
    """By the name of the call, else by number."""
    found: dict[object, Attempt] = {}
    number = -1
    for event in events(evidence, party, "began", "took", "ended"):
        number += event["event"] == "began"
        key = event.get("call", number)
        if event["event"] == "began":
            found[key] = Attempt(event["row"], [], False)
        elif event["event"] == "took":
            found[key].rows.extend(row for first, count in event["runs"] for row in range(first, first + count))
        elif key in found:
            found[key] = found[key]._replace(has_ended=True)
    return found


def takers(evidence: Evidence) -> Iterator[tuple[Party, dict[object, Attempt]]]:
    for _, party in evidence.schedule.hops:
        yield party, attempts(evidence, party)


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


def has_all(evidence: Evidence, party: Party) -> bool:
    """Has it got every row, whatever it was told?"""
    everything = list(range(evidence.schedule.rows))
    taken = [attempt.rows for attempt in attempts(evidence, party).values()]
    if evidence.schedule.retention is Retention.REPLAY and party is Party.CONSUMER:
        return list(chain.from_iterable(taken)) == everything
    if evidence.schedule.retention is Retention.REPLAY:
        # A worker takes again what had not come into the second channel.
        return set(chain.from_iterable(taken)) == set(everything)
    return everything in taken


TYPES = {"CancelledError", *(name for name in dir(errors) if not name.startswith("_"))}
"""Of errors; a handler is cancelled when its client has gone."""


def ends_in_time(evidence: Evidence) -> Iterator[str]:
    """Nobody waits for ever: a minute after the last fault and the last row, all are over."""
    for life in evidence.lives:
        if life.hung:
            when = f"{SECONDS_TO_HEAR:.0f} s after anything had happened"
            yield f"the {life.party} (process {life.pid}) was still there {when}"


def fails_by_name(evidence: Evidence) -> Iterator[str]:
    """What goes wrong is told by a typed error, never by a crash."""
    for party, journal in evidence.journals.items():
        for event in journal:
            if event["event"] == "crashed":
                yield f"the {party} crashed: {event['traceback'].strip().splitlines()[-1]}"
            elif event["event"] == "failed" and not (
                event["type"] == "CancelledError" or hasattr(errors, event["type"])
            ):
                yield f"the {party} was told {event['type']}: {event['message']}"
    for name, text in evidence.errors.items():
        if "Traceback" in text:
            yield f"the {name} has a traceback on its error output, ending with {text.strip().splitlines()[-1]!r}"
    for life in evidence.lives:
        allowed = {0, -SIGKILL} if life.was_killed or life.hung else {0, 1} if life.had_full_disk else {0}
        if life.status not in allowed:
            yield f"the {life.party} (process {life.pid}) ended with status {life.status}"


def rows_come_in_order(evidence: Evidence) -> Iterator[str]:
    """What is taken begins where it should, and goes on without a gap or a repetition."""
    for party, found in takers(evidence):
        for number, (first, rows, _) in found.items():
            if lack := difference(rows, first, first + len(rows)):
                yield f"attempt {number} of the {party} took {lack}"


def nothing_altered_is_delivered(evidence: Evidence) -> Iterator[str]:
    """What is taken has the values that were sent, also where bits were flipped on the way."""
    for party in evidence.journals:
        if altered := sum(event["altered"] for event in events(evidence, party, "took")):
            yield f"{altered} rows came to the {party} with other values than were sent"


def a_clean_end_is_the_whole(evidence: Evidence) -> Iterator[str]:
    """Who comes to the end of a stream has all of its rows."""
    for party, found in takers(evidence):
        for number, (first, rows, has_ended) in found.items():
            if has_ended and (lack := difference(rows, first, evidence.schedule.rows)):
                yield f"attempt {number} of the {party} came to a clean end, {lack}"


def consumed_is_received(evidence: Evidence) -> Iterator[str]:
    """What a sender was told is consumed, its receiver has; of what was only accepted, no reader had come."""
    schedule = evidence.schedule
    for sender, receiver in () if schedule.call else schedule.hops:
        takes = events(evidence, receiver, "took")
        for event in events(evidence, sender, "ended"):
            outcome = event["outcome"]
            if outcome == "accepted":
                if schedule.retention is Retention.ONCE and (before := sum(e["at"] < event["at"] for e in takes)):
                    yield f"the {sender} was told that all was accepted, as if nobody read; {before} times one had"
            elif outcome.startswith("kept"):
                if outcome != f"kept {schedule.rows}":
                    yield f"the channel has ended, with {outcome} of {schedule.rows} rows"
            elif not has_all(evidence, receiver):
                taken = sum(took["rows"] for took in takes)
                yield f"the {sender} was told: {outcome}; of {schedule.rows} rows the {receiver} has {taken}"


def an_answer_tells_what_was_taken(evidence: Evidence) -> Iterator[str]:
    """A call that ends well has brought its server all requests; the answer of a sink is about those that came."""
    schedule = evidence.schedule
    if schedule.call is None or (Party.CLIENT, Party.SERVER) not in schedule.hops:
        return
    served = attempts(evidence, Party.SERVER)
    for event in events(evidence, Party.CLIENT, "ended"):
        rows = served[event["call"]].rows if event["call"] in served else []
        wanted = schedule.call.takes_rows if schedule.call.method is Method.SINK else schedule.rows
        told = event["outcome"].removeprefix("answered ")
        if len(rows) != wanted or told not in ("clean end", str(wanted)):
            yield f"call {event['call']} was told {event['outcome']}; its server took {len(rows)} rows of {wanted}"


def no_word_is_counted_twice(evidence: Evidence) -> Iterator[str]:
    """A reader's counts are those of words that were given; it waits for all of them, unless some can be lost.

    Where a sender's connection ends, a line ends, too: what came of it is a word.
    """
    faults = [evidence.schedule.faults[number] for number in evidence.fired]
    ends = sum((fault.link, fault.kind, fault.resets) == (Party.SENDER, FaultKind.CUT, False) for fault in faults)
    for event in events(evidence, Party.READER, "counts"):
        if event["more"] or event["parts"] > ends:
            yield f"of {event['rows']} counts {event['more']} are too many, and {event['parts']} of parts of words"


def what_can_go_on_does(evidence: Evidence) -> Iterator[str]:
    """Calls are made again, and channels that keep rows outlive all but flipped bits; others, if nothing breaks."""
    schedule = evidence.schedule
    breaking = {number for number in evidence.fired if not schedule.faults[number].kind.is_harmless}
    if breaking and not schedule.can_go_on:
        return
    for party in schedule.cast.ends:
        if not events(evidence, party, "over"):
            yield f"the {party} did not come to a good end: {told_last(evidence, party)}"


def sources_are_closed(evidence: Evidence) -> Iterator[str]:
    """A producer stops with its consumer: a stream closes what it reads, unless its process is killed."""
    gone = {life.pid for life in evidence.lives if life.was_killed or life.hung}
    for party in evidence.journals:
        told = [event for event in events(evidence, party, "opened", "closed") if event["pid"] not in gone]
        begun = Counter(event["event"] for event in told)
        if begun["opened"] != begun["closed"]:
            yield f"of {begun['opened']} sources of the {party}, {begun['closed']} were closed"


def nobody_runs_ahead(evidence: Evidence) -> Iterator[str]:
    """Rows that were given and not taken never exceed the windows, and what stages hold between them."""
    for (giver, given), (taker, taken), most in bounds(evidence.schedule):
        ahead: Counter[object] = Counter()
        happened = [(event, event["rows"]) for event in events(evidence, giver, given)]
        happened += [(event, -event["rows"]) for event in events(evidence, taker, taken)]
        for event, rows in sorted(happened, key=lambda found: found[0]["at"]):
            call = event.get("call")
            ahead[call] += rows
            if ahead[call] > most:
                yield f"the {giver} had {given} {ahead[call]} rows that the {taker} had not {taken}; {most} may be"
                break


def bounds(schedule: Schedule) -> Iterator[tuple[tuple[Party, str], tuple[Party, str], int]]:
    """Who does what ahead of whom, by at most how many rows; of streams that begin once."""
    # A blocking producer queues a window, and a blocking consumer returns permits before it can write down the rows.
    has_blocking = Client.BLOCKING in (schedule.producer.client, schedule.consumer.client)
    if schedule.call:
        from permitflow.stages.calls import Window

        rows = schedule.producer.largest_chunk_rows
        most = Window(schedule.call.window_bytes).most_ahead(ROW_BYTES * rows, schedule.call.prefetch)
        for giver, taker in schedule.hops:
            # gRPC takes one more message of a call whose connection has broken.
            yield (giver, "gave"), (taker, "took"), (most + 1) * rows
    elif schedule.retention is Retention.ONCE and not schedule.is_gate and not has_blocking:
        largest = schedule.producer.largest_chunk_rows
        if schedule.pipeline is not None:
            held = schedule.pipeline.rechunk_rows * (schedule.pipeline.prefetch + 1)
            yield (Party.WORKER, "took"), (Party.WORKER, "gave"), held + largest
            largest = max(largest, schedule.pipeline.rechunk_rows)
        for giver, taker in schedule.hops:
            # The sender's window, the channel, the receiver's window; and a chunk that waits to be sent.
            yield (giver, "gave"), (taker, "took"), 3 * schedule.row_permits + largest


def the_bound_holds(evidence: Evidence) -> Iterator[str]:
    """Nowhere are more rows at once than there are permits."""
    most = evidence.schedule.row_permits
    for event in evidence.server_says:
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


def the_server_lives(evidence: Evidence) -> Iterator[str]:
    """It ends when it is asked to; an exchange says its last numbers."""
    server = evidence.schedule.cast.servers[-1]
    last = [life for life in evidence.lives if life.party is server][-1]
    says = evidence.server_says[-1]["event"] if evidence.server_says else "nothing"
    if server is not Party.FRONT and not last.was_killed and says != "stopped":
        yield f"the {server} said last: {says}"


LAWS: tuple[Law, ...] = (
    ends_in_time,
    fails_by_name,
    rows_come_in_order,
    nothing_altered_is_delivered,
    a_clean_end_is_the_whole,
    consumed_is_received,
    an_answer_tells_what_was_taken,
    no_word_is_counted_twice,
    what_can_go_on_does,
    sources_are_closed,
    the_bound_holds,
    nobody_runs_ahead,
    barriers_keep_their_place,
    the_server_lives,
)


def told_last(evidence: Evidence, party: Party) -> str:
    told = events(evidence, party, "ended", "failed")
    if not told:
        return "nothing"
    if told[-1]["event"] == "ended":
        return str(told[-1].get("outcome", "clean end"))
    return f"{told[-1]['type']}: {told[-1]['message']}"


def judged(evidence: Evidence) -> FaultVerdict:
    return FaultVerdict(
        broken=[(law.__name__.replace("_", " "), words) for law in LAWS for words in law(evidence)],
        outcomes={party: told_last(evidence, party) for party in evidence.journals},
    )

"""The report of ``permitflow trace validate``."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict

from rich.table import Table

from permitflow.cli.console import open_console, open_table, print_table
from permitflow.cli.run_table import Ledger, ledger_of
from permitflow.testing.referee import Referee
from permitflow.testing.traces import Verdict
from permitflow.tracing.events import Event
from permitflow_model.permit_channel import SYSTEM, State

__all__ = ["print_report", "report_as_json"]

_PLACES = ("permits", "in flight", "inbox", "unreturned", "grants", "sum")
_ALL_ACTIONS = len(SYSTEM.actions)


def print_report(verdicts: Sequence[Verdict], referees: Mapping[str, Referee]) -> None:
    """Print what was found."""
    console = open_console()
    print_table(console, _overview(verdicts))
    for verdict in verdicts:
        for remark in verdict.remarks():
            console.print(f"{verdict.channel}: {remark}", soft_wrap=True)
        if verdict.is_valid and not verdict.is_at_rest and verdict.undecided is None:
            console.print(f"{verdict.channel}: at the end not at rest: {_where(verdict.world.state)}", soft_wrap=True)
    for verdict in verdicts:
        if not verdict.is_valid:
            console.print()
            for line in _objection(verdict):
                if isinstance(line, Table):
                    print_table(console, line)
                else:
                    console.print(line, soft_wrap=True)
    for channel, referee in referees.items():
        console.print(f"{channel}: {referee.describe()}", soft_wrap=True)
    console.print(_summary(verdicts))


def report_as_json(verdicts: Sequence[Verdict], referees: Mapping[str, Referee], *, holds: bool) -> dict[str, object]:
    """The same for programs."""
    return {
        "holds": holds,
        "channels": [_as_json(verdict) for verdict in verdicts],
        "tlc": {channel: referee.as_json() for channel, referee in referees.items()},
    }


def _overview(verdicts: Sequence[Verdict]) -> Table:
    numbers = ("events", "rows", "most in use", "of permits", "most in inbox", "of rows", "actions")
    table = open_table("channel", "ends", *numbers, "", right=numbers)
    for verdict in verdicts:
        peaks = verdict.peaks
        table.add_row(
            verdict.channel,
            " + ".join(sorted(verdict.ends, reverse=True)),
            f"{verdict.actions.total():,}",
            f"{verdict.rows:,}",
            f"{peaks.row_permits_in_use:,}" if "sender" in verdict.ends else "",
            f"{peaks.row_permits:,}",
            f"{peaks.inbox_rows:,}" if "receiver" in verdict.ends else "",
            f"{peaks.row_bound:,}",
            f"{len(verdict.actions)} of {_ALL_ACTIONS}",
            _word(verdict),
        )
    return table


def _word(verdict: Verdict) -> str:
    if not verdict.is_valid:
        return "NOT VALID"
    return "valid" if verdict.undecided is None else "valid so far"


def _objection(verdict: Verdict) -> Iterator[str | Table]:
    yield f"{verdict.channel}: not a behaviour of the specification, after {verdict.replay.performed:,} valid events"
    yield _last_steps(verdict)
    yield from verdict.problems()
    yield f"the state before it: {_where(verdict.world.state)}"
    yield f"allowed instead: {'; '.join(verdict.allowed) or 'nothing that the protocol does by itself'}"
    if verdict.left_over:
        yield f"{verdict.left_over:,} later events were not looked at"


def _last_steps(verdict: Verdict) -> Table:
    """How the run came there: row permits after each of its last events, then the events that stopped it."""
    table = open_table("end", "event", "action", "rows", *_PLACES, right=("event", "rows", *_PLACES))
    tail = verdict.replay.tail
    worlds = [*(world for world, _ in tail), verdict.world]
    for (_, event), after in zip(tail, worlds[1:], strict=True):
        table.add_row(*_told(event), *_numbers(ledger_of(after.state)))
    for block in verdict.replay.blocked:
        table.add_row(*_told(block.event), *("?" for _ in _PLACES))
    return table


def _told(event: Event) -> tuple[str, str, str, str]:
    rows = event.rows or (event.permits.rows if event.action in ("AddPermits", "Flush") else 0)
    return event.end, f"{event.sequence:,}", event.action, f"{rows:,}" if rows else ""


def _numbers(ledger: Ledger) -> tuple[str, ...]:
    return (*(f"{count:,}" for count in asdict(ledger).values()), f"{ledger.sum:,}")


def _where(state: State) -> str:
    ledger = ledger_of(state)
    sizes = [chunk.rows for chunk in state.waiting]
    waiting = f", waiting chunks of {', '.join(map(str, sizes[:5]))}{' …' if len(sizes) > 5 else ''}" if sizes else ""
    return (
        f"row permits {ledger.permits:,} at the sender + {ledger.in_flight:,} in flight + {ledger.inbox:,} in the inbox"
        f" + {ledger.unreturned:,} unreturned + {ledger.grants:,} on their way back = {ledger.sum:,}{waiting}"
    )


def _summary(verdicts: Sequence[Verdict]) -> str:
    bad = [verdict for verdict in verdicts if not verdict.is_valid]
    events = sum(verdict.replay.performed for verdict in verdicts)
    channels = f"{len(verdicts):,} channel{'s' if len(verdicts) != 1 else ''}"
    if bad:
        return f"{len(bad):,} of {channels} not valid"
    return f"{channels} valid: {events:,} events are steps of the specification, all invariants hold after each"


def _as_json(verdict: Verdict) -> dict[str, object]:
    return {
        "channel": verdict.channel,
        "valid": verdict.is_valid,
        "decided": verdict.undecided is None,
        "ends": sorted(verdict.ends),
        "events": verdict.actions.total(),
        "explained": verdict.replay.performed,
        "rows": verdict.rows,
        "at_rest": verdict.is_at_rest,
        "peaks": asdict(verdict.peaks),
        "actions": dict(sorted(verdict.actions.items())),
        "missing_actions": verdict.missing_actions,
        "remarks": list(verdict.remarks()),
        "problem": None if verdict.is_valid else _problem_as_json(verdict),
    }


def _problem_as_json(verdict: Verdict) -> dict[str, object]:
    blocked = [(block.event, block.reason, block.is_refused) for block in verdict.replay.blocked]
    broken = (
        [(verdict.replay.last, f"breaks {', '.join(verdict.replay.broken)}", True)] if verdict.replay.broken else []
    )
    return {
        "events": [
            {
                "end": event.end,
                "sequence": event.sequence,
                "action": event.action,
                "rows": event.rows,
                "permits": list(event.permits),
                "reason": reason,
                "is_refused": is_refused,
            }
            for event, reason, is_refused in (*broken, *blocked)
            if event is not None
        ],
        "state": {**asdict(ledger_of(verdict.world.state)), "waiting": [m.rows for m in verdict.world.state.waiting]},
        "allowed": list(verdict.allowed),
        "not_looked_at": verdict.left_over,
    }

"""Finds the cause of a time-out: asks the exchange before reporting one, instead of guessing."""

from collections.abc import Callable
from typing import NamedTuple, TypeAlias

from permitflow.carriers.security import Security
from permitflow.client.aio_control import control
from permitflow.errors import PeerGoneError, PeerTimeoutError, PermitflowError
from permitflow.stream.traffic import ChannelTraffic, KeptRows, lag_in_words

SLOTS = "all channels of a stream must be read at the same time: does the reading job have a task slot for each?"
"""The likely cause of a starved stream of a Spark job."""
_WRITER_SLOTS = "has the writing job started, and has it a task slot for each channel?"

# After a time-out the caller waits this much longer for the cause.
_LONGEST_ANSWER_SECONDS = 2.0

Explain: TypeAlias = Callable[[ChannelTraffic], str]
"""Turns a channel's numbers into the cause of a wait."""


class Cause(NamedTuple):
    """The likely cause of a wait that timed out."""

    guess: str
    explain: Explain | None = None
    """Explains more from the exchange's numbers, if it answers."""


async def timed_out(
    address: str, channel: str, seconds: float, cause: Cause, security: Security | None = None
) -> PeerTimeoutError:
    """The error of a time-out, with the cause from the exchange, or a guess."""
    is_alive, why = await explained(address, channel, cause.explain, cause.guess, security)
    waited, who = f"for {seconds:g} s", f"the exchange at {address} (channel {channel!r})"
    if is_alive:
        return PeerTimeoutError.of_silence(who=who, reason=f"{waited}: {why}")
    return PeerTimeoutError(who=who, reason=f"nothing came {waited}; {why}")


async def explained(
    address: str, channel: str, explain: Explain | None, otherwise: str, security: Security | None = None
) -> tuple[bool, str]:
    """Does the exchange answer, and what is the likely cause of the wait?

    Args:
        address: of the exchange.
        channel: by its name.
        explain: turns the channel's numbers into words; None: they say nothing about this wait.
        otherwise: the guessed cause, for an exchange that answers without one.
        security: as for ``control``.
    """
    try:
        traffic = await _asked(address, channel, security)
    except PeerGoneError as error:
        if not str(error.who).startswith("the exchange at "):  # it answers, and tells which of its processes does not
            return False, str(error)
        return (
            False,
            "it answers no questions either: is it overloaded or stopped, or does another program listen there?",
        )
    except PermitflowError:
        # It is an exchange of an older version, or another program.
        return True, otherwise
    return True, otherwise if explain is None else explain(traffic)


async def consumed(address: str, channel: str, security: Security | None = None) -> int:
    """The rows that a channel's consumer has consumed, as the exchange reports them; -1: unknown."""
    try:
        traffic = await _asked(address, channel, security)
    except PermitflowError:
        return -1
    return traffic.rows_out - traffic.rows_with_consumers


async def _asked(address: str, channel: str, security: Security | None) -> ChannelTraffic:
    seconds = _LONGEST_ANSWER_SECONDS
    asking = control(
        address, connect_timeout_seconds=seconds, reply_timeout_seconds=seconds, resume_seconds=0, security=security
    )
    async with asking as orders:
        (traffic,) = (await orders.statistics((channel,))).channels
    return traffic


def why_no_schema(traffic: ChannelTraffic) -> str:
    """Explain why a consumer waits for the agreement."""
    if traffic.producers:
        return "the channel has producers, and its first agreement is slow"
    return f"the channel has no schema, because no producer has dialled: {_WRITER_SLOTS}"


def why_no_rows(traffic: ChannelTraffic) -> str:
    """Explain why a consumer waits for rows."""
    if not traffic.producers:
        return f"no producer is connected, and the channel has not ended: {_WRITER_SLOTS}"
    return f"{_counted(traffic.producers, 'producer')} connected and silent"


def why_no_permits(traffic: ChannelTraffic) -> str:
    """Explain why a producer waits for permits."""
    if traffic.kept is not None:
        return _why_kept(traffic.kept)
    if not traffic.consumers:
        return f"no consumer is connected; {SLOTS}"
    held = f"{traffic.rows_with_consumers} rows are with it, {traffic.rows_held} wait in the channel"
    return f"{_counted(traffic.consumers, 'consumer')} connected and slow or stuck: {held}"


def why_no_room(traffic: ChannelTraffic) -> str:
    """Explain why a producer that stages rows waits for permits."""
    kept = traffic.kept
    if kept is None or not (kept.published_rows or kept.staged_rows):
        return why_no_permits(traffic)
    if kept.published_rows:
        beyond = f"{kept.published_rows} rows of earlier batches are beyond the channel's permits"
        return f"the staging area has no room: {beyond}; {_why_kept(kept)}"
    staged = f"{kept.staged_rows} rows are staged by batches that were not published yet"
    if kept.in_doubt_rows:
        staged += f", {kept.in_doubt_rows} of them in doubt (permitflow channel rollback)"
    return f"the staging area has no room: {staged}; do other queries write into this channel, or did one die?"


def _why_kept(kept: KeptRows) -> str:
    behind = {name: rows for name, rows in kept.lag_rows.items() if rows}
    if not behind:
        return "the channel keeps no rows, and the exchange is slow: is it overloaded, or its disk?"
    lags = lag_in_words(behind)
    return f"rows are kept until all consumers have acknowledged them; these have not, by this many rows: {lags}"


def _counted(count: int, noun: str) -> str:
    return f"1 {noun} is" if count == 1 else f"{count} {noun}s are"


NO_SCHEMA = Cause("the channel has no schema until its first producer dials: is there one?", why_no_schema)
NO_ROWS = Cause(f"its producer is silent or has not started; {SLOTS}", why_no_rows)
_FULL = (
    "the channel's staging area is full: its consumers are slow and earlier batches wait there, or another query's "
    "batch does that was not published yet"
)


def unsent(finding: str, *, is_staged: bool) -> Cause:
    """The cause of a producer's wait; ``finding`` is the producer's own finding."""
    why, guess = (why_no_room, _FULL) if is_staged else (why_no_permits, SLOTS)
    return Cause(f"{finding}; {guess}", lambda traffic: f"{finding}: {why(traffic)}")

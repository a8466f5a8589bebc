"""Streaming queries: their invariants, when they get stuck, and the states in which they come to rest.

The clauses are shown in states that satisfy all of them, so they are inductive together.  Runs with symbolic parameters
show how the replay buffer fills: one obligation stands for the step from any number of rows to the next, so that by
induction every number is reached.
"""

from collections.abc import Callable, Mapping
from functools import partial

from permitflow_model.kernel.runs import Move
from permitflow_model.spark_micro_batch import (
    NO_ROWS,
    NOTHING_STAGED,
    SYSTEM,
    Parameters,
    Rows,
    Staged,
    State,
    committed_end,
    gone,
    is_stuck,
    never_stuck,
)
from permitflow_proofs.kernel.arbitrary import any_parameters_of, arbitrary, assume_all
from permitflow_proofs.kernel.chapter import Chapter, claim
from permitflow_proofs.kernel.frame import Change, Frame
from permitflow_proofs.kernel.induction import Clause, Subject
from permitflow_proofs.kernel.obligation import SymbolicObligation, take
from permitflow_proofs.kernel.ranking import comes_to_rest
from permitflow_proofs.kernel.symbols import (
    Sizes,
    assume,
    implies,
    integer,
    larger_of,
    natural,
)
from permitflow_proofs.kernel.theorem import Theorem


def any_parameters(**fixed: object) -> Parameters:
    """Any parameters that the model accepts, some of them fixed."""
    return any_parameters_of(Parameters, **fixed, sizes=Sizes(integer("largest_rows")))


def largest_chunk(parameters: Parameters) -> int:
    """Rows of the largest chunk that may be offered."""
    return max(parameters.sizes)


def any_rows(parameters: Parameters) -> tuple[int]:
    """The size of any chunk that may be offered, or batch that may be published: the argument of both."""
    rows = natural("rows", 1)
    assume(rows <= largest_chunk(parameters))
    return (rows,)


def any_row(_parameters: Parameters) -> tuple[int]:
    """Any row up to which rows may expire."""
    return (natural("row", 1),)


# More clauses for the induction, besides the specification's own.


def phases_agree(state: State, parameters: Parameters) -> bool:
    """The driver's step agrees with the logs and the sink."""
    return all(
        (
            *(implies(state.phase == phase, state.committed) for phase in ("idle", "planned")),
            *(implies(state.committed, state.phase != phase) for phase in ("logged", "ready", "staged", "published")),
            implies(state.phase == "logged", parameters.acknowledge_in == "commit"),
            implies(state.published, state.phase != "logged"),
            implies(state.phase == "published", state.published),
            implies(state.running, state.phase == "ready"),
            implies(state.start == state.end, state.committed),
        )
    )


def names_are_unique(state: State, _parameters: Parameters) -> bool:
    """An abort that is on its way names an older attempt than the one that runs, or that is to be published."""
    is_new = state.running or state.phase == "staged" or state.phase == "published"
    return implies(is_new, state.aborting < state.attempts)


def acknowledged_in_time(state: State, parameters: Parameters) -> bool:
    """How far acknowledgements may be behind, by the call in which they are made."""
    if parameters.acknowledge_in == "latestOffset":
        return state.acknowledged == (state.end if state.phase == "planned" else state.start) or (
            state.committed and state.acknowledged == state.end
        )
    if parameters.driver_crashes or state.phase in ("logged", "failed"):
        return True
    return state.phase != "down" and state.acknowledged == state.start


def waiting_is_offered(state: State, parameters: Parameters) -> bool:
    """No chunk that waits is larger than the largest that may be offered."""
    return state.waiting <= largest_chunk(parameters) or state.waiting == 0


def nothing_lost_if_durable(state: State, parameters: Parameters) -> bool:
    """An exchange that keeps its rows has lost none, unless they expire."""
    return not parameters.durable or parameters.expires or state.lost == 0


INVARIANT: Mapping[str, Clause[State, Parameters]] = {
    **{
        name: SYSTEM.invariants[name]
        for name in (
            "TypeOK",
            "Bounded",
            "AcknowledgedIsCommitted",
            "PublishedOnceInOrder",
            "ToPublishIsStaged",
            "CommittedIsPublished",
            "BatchCapped",
            "NeverFails",
        )
    },
    "NamesAreUnique": names_are_unique,
    "PhasesAgree": phases_agree,
    "AcknowledgedInTime": acknowledged_in_time,
    "WaitingIsOffered": waiting_is_offered,
    "NothingLostIfDurable": nothing_lost_if_durable,
}
"""What every reachable state satisfies; proved by induction."""


def any_state(parameters: Parameters, invariant: Mapping[str, Clause[State, Parameters]] = INVARIANT) -> State:
    """Any state that satisfies the invariant."""
    return assume_all(invariant.values(), arbitrary(State), parameters)


def query(**fixed: object) -> Subject[State, Parameters]:
    """The query with any parameters, some of them fixed."""
    return Subject(
        system=SYSTEM,
        any_parameters=lambda: any_parameters(**fixed),
        any_state=any_state,
        any_arguments={"Offer": any_rows, "ProduceBatch": any_rows, "Expire": any_row},
    )


QUERY = query()

_IN_LATEST_OFFSET = query(acknowledge_in="latestOffset")
_WITHOUT_STAGING = query(acknowledge_in="latestOffset", staging_rows=0, durable=True, expires=False)
"""No job publishes batches into the channel: their rows would come in addition to the permits; and no row is lost."""
_IN_COMMIT = query(acknowledge_in="commit", driver_crashes=False, durable=True, expires=False)
"""Acknowledged in ``commit``; the driver does not crash, and the exchange keeps its rows, which do not expire."""
_IN_COMMIT_WITH_CRASHES = query(acknowledge_in="commit", driver_crashes=True)

_CHAPTER = Chapter(
    QUERY,
    INVARIANT,
    "spark-",
    promises=frozenset(
        {
            "acknowledged",
            "bounded",
            "commit-crash",
            "commit-threshold",
            "drained",
            "exactly-once",
            "live",
        }
    ),
)


def _invariant_theorems() -> tuple[Theorem, ...]:
    """The inductive invariant of a query."""
    return (
        _CHAPTER.kept(
            "bounded",
            "Bounded",
            "The replay buffer of an exchange never has more than row_permits rows of a channel, and those that may be "
            "staged for it, whatever crashes.",
            lambda s, p: s._replace(produced=gone(s) + p.row_permits + p.staging_rows + 1),
            "after the step the exchange keeps one row too many",
        ),
        _CHAPTER.kept(
            "acknowledged",
            "AcknowledgedIsCommitted",
            "No row is acknowledged before the commit log has its batch, in latestOffset as in commit.",
            lambda s, _: s._replace(acknowledged=committed_end(s) + 1),
            "after the step one row more is acknowledged",
        ),
        _CHAPTER.kept(
            "exactly-once",
            "PublishedOnceInOrder",
            "With a sink that publishes once per batch: the table holds each row of the channel once and in order, "
            "whatever crashes, is retried or is late.",
            lambda s, _: s._replace(output=s.output + 1, misplaced=s.misplaced + 1),
            "after the step one row is there twice",
        ),
        _CHAPTER.kept(
            "to-publish",
            "ToPublishIsStaged",
            "What a driver is about to publish is there: an abort that arrives late, from a driver that has died, "
            "removes the attempt that it names, and no other.",
            lambda s, _: s._replace(phase="staged", staged=s.staged._replace(attempt=s.attempts + 1)),
            "another attempt is there",
        ),
        _CHAPTER.kept(
            "names",
            "NamesAreUnique",
            "No abort that is on its way names the attempt that runs, or that is to be published.",
            lambda s, _: s._replace(running=True, aborting=s.attempts),
            "it names the newest one",
            about="AbortLate",
        ),
        _CHAPTER.kept(
            "committed",
            "CommittedIsPublished",
            "The commit log has no batch that is not published.",
            lambda s, _: s._replace(committed=True, published=False),
            "the commit log is written too early",
        ),
        _CHAPTER.kept(
            "batch-capped",
            "BatchCapped",
            "No batch has more rows of the channel than its cap.",
            lambda s, p: s._replace(end=s.start + p.batch_cap + 1),
            "the batch is one row larger",
        ),
        _CHAPTER.kept(
            "never-fails",
            "NeverFails",
            "A query never misses a row of an exchange that keeps its rows, unless they expire.",
            lambda s, _: s._replace(phase="failed"),
            "the query fails",
            breaks=lambda s, _: s.phase != "failed",
        ),
        _CHAPTER.kept(
            "type-ok",
            "TypeOK",
            "No count of a query is ever negative.",
            lambda s, _: s._replace(waiting=-1),
            "-1 waits",
        ),
        _CHAPTER.kept(
            "phases",
            "PhasesAgree",
            "The driver's phase agrees with its logs and with the sink, after any crash.",
            lambda s, _: s._replace(phase="down", running=True),
            "a task of a dead driver is waited for",
            about="Phases",
        ),
        _CHAPTER.kept(
            "in-time",
            "AcknowledgedInTime",
            "Acknowledgements are behind by the last batch at most: in latestOffset always, in commit unless the "
            "driver crashes.",
            lambda s, _: s._replace(acknowledged=s.start - 1),
            "behind by one row more",
            about="Acknowledge",
        ),
        _CHAPTER.kept(
            "offered",
            "WaitingIsOffered",
            "No chunk that waits is larger than the largest that may be offered.",
            lambda s, p: s._replace(waiting=largest_chunk(p) + 1),
            "a larger chunk waits",
            about="Offer",
        ),
        _CHAPTER.kept(
            "nothing-lost",
            "NothingLostIfDurable",
            "An exchange that keeps its rows loses none, unless they expire.",
            lambda s, _: s._replace(lost=1),
            "a row is lost",
            about="CrashExchange",
            # The clause does not apply to an exchange in memory, or to one whose rows expire.
            breaks=lambda s, _: s.lost == 0,
        ),
    )


_HANDED_OVER: tuple[Move, ...] = (("Offer", (1,)), ("Produce", ()))
_RUN: tuple[Move, ...] = (("RunTask", ()), ("Stage", ()), ("Publish", ()), ("WriteCommitLog", ()))
_LOGGED: tuple[Move, ...] = (("PlanBatch", ()), ("WriteOffsetLog", ()))

BATCH_DONE: tuple[Move, ...] = (*_LOGGED, ("Acknowledge", ()), *_RUN)
"""A whole batch of a query that acknowledges in ``commit``."""

_CRASHED_BEFORE_COMMIT: tuple[Move, ...] = (*_LOGGED, ("CrashDriver", ()), ("Restart", ()), *_RUN)


def filled(parameters: Parameters, rows: int) -> State:
    """The exchange has this many rows, and the query has not begun."""
    return SYSTEM.initial(parameters)._replace(produced=rows)


def unacknowledged(parameters: Parameters, rows: int, faults: int) -> State:
    """This many rows were read, each in a batch of its own, and none was acknowledged; this many faults are left."""
    return SYSTEM.initial(parameters)._replace(
        produced=rows, start=rows - 1 if rows > 0 else 0, end=rows, attempts=rows, output=rows, faults=faults
    )


def _starts(any_parameters: Callable[[], Parameters], rows: int) -> bool:
    parameters = any_parameters()
    start = SYSTEM.initial(parameters)
    return start == filled(parameters, rows) and start == unacknowledged(parameters, rows, parameters.faults)


def _fills(any_parameters: Callable[[], Parameters], too_many: int) -> bool:
    parameters, rows = any_parameters(), natural("rows_before")
    assume(rows < parameters.row_permits + too_many)
    assume(rows < parameters.horizon)
    return take(SYSTEM, parameters, filled(parameters, rows), _HANDED_OVER) == filled(parameters, rows + 1)


def _stays(any_parameters: Callable[[], Parameters], too_many: int) -> bool:
    parameters, rows, faults = any_parameters(), natural("rows_before"), natural("faults_before", 1)
    assume(rows < parameters.row_permits + too_many)
    assume(rows < parameters.horizon)
    before, after = (unacknowledged(parameters, rows + more, faults - more) for more in (0, 1))
    return take(SYSTEM, parameters, before, [*_HANDED_OVER, *_CRASHED_BEFORE_COMMIT]) == after


def _starting(any_parameters: Callable[[], Parameters]) -> SymbolicObligation:
    return claim("it starts with no row", partial(_starts, any_parameters), "with one")


def filling(any_parameters: Callable[[], Parameters]) -> tuple[SymbolicObligation, ...]:
    """The exchange may be given any number of rows, up to its permits, before the query begins."""
    return (
        _starting(any_parameters),
        claim(
            "a chunk of one row is taken over, if there is a permit",
            partial(_fills, any_parameters),
            "without a permit",
        ),
    )


def unacknowledging(any_parameters: Callable[[], Parameters]) -> tuple[SymbolicObligation, ...]:
    """Any number of rows, up to the permits, may be read and committed, and not one acknowledged."""
    return (
        _starting(any_parameters),
        claim(
            "a batch of one row is committed, and not acknowledged, if the driver crashes before commit is called",
            partial(_stays, any_parameters),
            "without a permit",
        ),
    )


def _gets_stuck(parameters: Parameters, state: State, moves: tuple[Move, ...]) -> bool:
    """These steps are possible, and then the largest chunk is stuck."""
    after = take(SYSTEM, parameters, state, [*moves, ("Offer", (largest_chunk(parameters),))])
    return after is not None and is_stuck(after, parameters)


def _is_live(excess: int) -> bool:
    state, parameters = _IN_LATEST_OFFSET.any_case()
    assume(largest_chunk(parameters) <= parameters.row_permits + excess)
    return never_stuck(state, parameters)


def _never_fits(nearer: int) -> bool:
    parameters = _IN_LATEST_OFFSET.any_parameters()
    assume(largest_chunk(parameters) > parameters.row_permits - nearer)
    assume(largest_chunk(parameters) <= parameters.horizon)
    return _gets_stuck(parameters, SYSTEM.initial(parameters), ())


def _is_live_in_commit(excess: int) -> bool:
    state, parameters = _IN_COMMIT.any_case()
    assume(parameters.batch_cap <= parameters.row_permits - largest_chunk(parameters) + excess)
    return never_stuck(state, parameters)


def _is_stuck_in_commit(nearer: int) -> bool:
    """One batch takes so many rows that the largest chunk does not fit beside it."""
    parameters = _IN_COMMIT.any_parameters()
    largest = largest_chunk(parameters)
    assume(parameters.batch_cap > parameters.row_permits - largest - nearer)
    too_many = larger_of(0, parameters.row_permits - largest + 1)
    assume(parameters.horizon >= too_many + largest)
    return _gets_stuck(parameters, filled(parameters, too_many), BATCH_DONE if too_many > 0 else ())


def _is_stuck_after_crashes(fewer: int) -> bool:
    """Too many rows were never acknowledged: the largest chunk does not fit."""
    parameters = _IN_COMMIT_WITH_CRASHES.any_parameters()
    largest = largest_chunk(parameters)
    assume(parameters.faults >= parameters.row_permits - largest + 1)
    too_many = larger_of(0, parameters.row_permits - largest + 1)
    assume(parameters.horizon >= too_many + largest)
    return _gets_stuck(parameters, unacknowledged(parameters, too_many - fewer, parameters.faults - too_many), ())


def _is_full_batch_running(state: State, parameters: Parameters) -> bool:
    return state.running and state.end - state.start == parameters.batch_cap


def _has_two_batches(state: State, parameters: Parameters) -> bool:
    """A full batch runs, and a full one waits."""
    return _is_full_batch_running(state, parameters) and state.produced - state.end >= parameters.batch_cap


def _two_batches_fit(fewer: int) -> bool:
    state, parameters = _WITHOUT_STAGING.any_case()
    return not _has_two_batches(state, parameters) or 2 * parameters.batch_cap <= parameters.row_permits - fewer


def _two_batches_come(excess: int) -> bool:
    parameters = _WITHOUT_STAGING.any_parameters()
    rows = 2 * parameters.batch_cap
    assume(rows <= parameters.row_permits + excess)
    moves: list[Move] = [("PlanBatch", ()), ("WriteOffsetLog", ()), ("RunTask", ())]
    after = take(SYSTEM, parameters, filled(parameters, rows), moves)
    return after is not None and _has_two_batches(after, parameters) and SYSTEM.invariants["Bounded"](after, parameters)


def _threshold_theorems() -> tuple[Theorem, ...]:
    """Thresholds."""
    return (
        _CHAPTER.theorem(
            "live",
            "NeverStuck",
            "Acknowledging in latestOffset: until the query fails, no producer is ever stuck if and only if no chunk "
            "is larger than row_permits, whatever the cap and however often tasks and driver fail. (A query fails if "
            "rows that it needs expire, or are lost with an exchange that keeps them in memory.)",
            claim("if", _is_live, "chunks of row_permits + 1"),
            claim("only if: a larger chunk is stuck as soon as it is offered", _never_fits, "of row_permits"),
        ),
        _CHAPTER.theorem(
            "commit-threshold",
            "Acknowledge",
            "Acknowledging in commit, if the driver does not crash, the exchange keeps its rows, none of which "
            "expires, and chunks of one row may be offered as well: live if and only if the batch cap is at most "
            "row_permits - the largest chunk.",
            claim("if", _is_live_in_commit, "by one more"),
            *filling(_IN_COMMIT.any_parameters),
            claim(
                "only if: beyond, one batch leaves no room for the largest chunk, and is never acknowledged",
                _is_stuck_in_commit,
                "also at the threshold",
            ),
        ),
        _CHAPTER.theorem(
            "commit-crash",
            "CrashDriver",
            "Acknowledging in commit, if the driver may crash often enough: no cap is small enough. Each crash between "
            "offset log and commit leaves rows that are never acknowledged, until no chunk fits.",
            *unacknowledging(_IN_COMMIT_WITH_CRASHES.any_parameters),
            claim(
                "the largest chunk is stuck behind rows that are committed, and not acknowledged",
                _is_stuck_after_crashes,
                "behind one row less",
            ),
        ),
        _CHAPTER.theorem(
            "double-buffer",
            "PlanBatch",
            "Acknowledging in latestOffset, if no job publishes batches into the channel, and the exchange keeps its "
            "rows, none of which expires: a full batch can wait "
            "while a full batch runs if and only if the batch cap is at most half of row_permits.",
            claim("only if", _two_batches_fit, "half of row_permits - 1"),
            *filling(_WITHOUT_STAGING.any_parameters),
            claim("if", _two_batches_come, "half of row_permits + 1"),
        ),
    )


_STILL_TO_DO = {
    "down": 22,
    "idle": 20,
    "planned": 18,
    "logged": 14,
    "ready": 12,
    "staged": 8,
    "published": 6,
    "failed": 0,
}
"""For each phase, how far its batch still has to go; two for each step, as an acknowledgement may come between."""

_MORE_WORK = ("Offer", "ProduceBatch", "FailTask", "AbandonTask", "CrashDriver")

_BATCH = 16
"""A batch that is committed brings the driver from published back to idle, which weighs 14 more."""


def rank(state: State, _parameters: Parameters) -> int:
    """The remaining work; falls with every step of exchange, driver and sink."""
    phase = next(weight for phase, weight in _STILL_TO_DO.items() if state.phase == phase)
    task = -2 if state.running else 0
    acknowledgement = 1 if state.acknowledged < state.end else 0
    rows = _BATCH * (state.produced - committed_end(state)) + (_BATCH + 1) * state.waiting
    return rows + phase + task + acknowledgement


def _is_drained(state: State) -> bool:
    return state.waiting == 0 and state.produced == state.acknowledged == state.end == state.output


def _drains(excess: int) -> bool:
    state, parameters = _IN_LATEST_OFFSET.any_case()
    assume(largest_chunk(parameters) <= parameters.row_permits + excess)
    return SYSTEM.can_move(state, parameters) or state.phase == "failed" or _is_drained(state)


def _whole_in_any_call(state: State, parameters: Parameters) -> bool:
    return SYSTEM.can_move(state, parameters) or state.phase == "failed" or state.acknowledged == state.start


def _progress_theorems() -> tuple[Theorem, ...]:
    """Progress."""
    return (
        _CHAPTER.theorem(
            "rank-falls",
            "Protocol",
            "The remaining work, rows and steps of their batch, falls with every step of exchange, driver and sink, "
            "and only rows that are offered, a task that fails or is abandoned and a driver that crashes raise it. So "
            "between these a query comes to rest, after no more steps than that.",
            *comes_to_rest(QUERY, rank, unless=_MORE_WORK, twin_by=_BATCH),
        ),
        _CHAPTER.theorem(
            "whole-when-idle",
            "WholeWhenIdle",
            "Acknowledging in latestOffset: where a query can do nothing more, and has not failed, the permits of "
            "all rows that it has read have returned, the tail of the stream included.",
            _IN_LATEST_OFFSET.holds_whenever_invariant(
                "in every state", SYSTEM.invariants["WholeWhenIdle"], _whole_in_any_call, "but for the last batch"
            ),
        ),
        _CHAPTER.theorem(
            "drained",
            "Drained",
            "Acknowledging in latestOffset: where a query can do nothing more, and has not failed, all rows that were "
            "offered are published and acknowledged, if no chunk is larger than row_permits.",
            claim("in every state", _drains, "by one row"),
        ),
    )


# Frames.


def _takes_more_over(before: State, after: State, _parameters: Parameters) -> bool:
    return after.produced > before.produced


def _takes_it_over(before: State, after: State, _parameters: Parameters) -> bool:
    return after.waiting == 0 and after.produced == before.produced + before.waiting


def _runs_on(before: State, after: State, _parameters: Parameters) -> bool:
    return before.running and after.late == Rows(before.start, before.end)


def _removes_what_it_names(before: State, after: State, _parameters: Parameters) -> bool:
    is_named = before.staged.attempt == before.aborting
    return after.aborting == 0 and after.staged == (NOTHING_STAGED if is_named else before.staged)


def _acknowledges(before: State, after: State, _parameters: Parameters) -> bool:
    """Only rows of batches in the commit log."""
    return after.acknowledged == committed_end(before) and after.acknowledged > before.acknowledged


def _acknowledges_a_call(before: State, after: State, parameters: Parameters) -> bool:
    in_commit = parameters.acknowledge_in == "commit"
    phase = after.phase == "ready" if in_commit else after.phase == before.phase
    return phase and after.acknowledged == (before.start if in_commit else before.end)


def _forgets_what_is_in_no_log(before: State, after: State, _parameters: Parameters) -> bool:
    knows = before.phase == "staged" or before.phase == "published"
    return after.plan == 0 and after.aborting == (before.attempts if knows else before.aborting)


def _loses_what_is_kept(before: State, after: State, _parameters: Parameters) -> bool:
    return after.lost == before.produced


def _expires(before: State, after: State, _parameters: Parameters) -> bool:
    """Rows that were there and are not acknowledged."""
    return after.lost > before.lost and after.lost > before.acknowledged and after.lost <= before.produced


def _begins_a_batch(before: State, after: State, _parameters: Parameters) -> bool:
    return after.start == before.end and after.end == before.plan and after.plan == 0


def _is_planned(before: State, after: State, parameters: Parameters) -> bool:
    return after.plan <= before.produced and after.plan <= before.end + parameters.batch_cap


def _stages_the_batch(before: State, after: State, _parameters: Parameters) -> bool:
    return after.staged == Staged(before.attempts, before.start, before.end)


def _adds_what_is_staged(before: State, after: State, _parameters: Parameters) -> bool:
    """Once for each batch."""
    rows = 0 if before.published else before.staged.end - before.staged.start
    return after.output == before.output + rows


def _removes_the_rest(_before: State, after: State, _parameters: Parameters) -> bool:
    return after.staged == NOTHING_STAGED


def _goes_on(before: State, after: State, _parameters: Parameters) -> bool:
    return after.phase == ("idle" if before.committed else "ready")


_FAULT: dict[str, Change] = {"faults": -1}


def _is_nothing(_before: State, after: State, _parameters: Parameters) -> bool:
    return after.late == NO_ROWS


def _is_offered(_before: State, after: State, _parameters: Parameters) -> bool:
    return after.waiting > 0


def _kept_from(state: State, row: int) -> bool:
    """The exchange has this row and all behind it: none is acknowledged or lost."""
    return state.acknowledged <= row and state.lost <= row


def _in_commit_log(state: State) -> int:
    return state.end if state.committed else state.start


def _has_room_for_a_batch(state: State, parameters: Parameters, rows: int) -> bool:
    kept = state.produced - (state.lost if state.lost > state.acknowledged else state.acknowledged)
    room = rows if kept <= parameters.row_permits else rows + kept - parameters.row_permits
    may_come = state.produced + state.waiting + rows <= parameters.horizon
    return may_come and room <= parameters.staging_rows


def _has_room_for_the_chunk(state: State, parameters: Parameters) -> bool:
    all_rows = state.produced + state.waiting
    has_permits = all_rows <= parameters.row_permits + state.acknowledged
    are_lost = all_rows <= parameters.row_permits + state.lost
    return state.waiting > 0 and (has_permits or are_lost)


def _may_plan(state: State, parameters: Parameters) -> bool:
    is_acknowledged = parameters.acknowledge_in == "commit" or state.acknowledged == state.end
    return state.phase == "idle" and state.produced > state.end and _kept_from(state, state.end) and is_acknowledged


def _may_acknowledge(state: State, parameters: Parameters) -> bool:
    if parameters.acknowledge_in == "commit":
        return state.phase == "logged"
    return state.phase == "idle" and state.acknowledged < state.end


def _may_acknowledge_for_driver(state: State, parameters: Parameters) -> bool:
    is_due = state.acknowledged < _in_commit_log(state)
    return state.phase == "down" and parameters.acknowledge_in == "latestOffset" and is_due


def _must_report(state: State, _parameters: Parameters) -> bool:
    reads = state.phase == "idle" or state.phase == "ready"
    return reads and not _kept_from(state, _in_commit_log(state))


def _is_over(state: State, parameters: Parameters) -> bool:
    return state.phase == "failed" or (state.phase == "idle" and state.end == parameters.horizon)


FRAMES: tuple[Frame[State, Parameters], ...] = (
    Frame(
        "Offer",
        {"waiting": None},
        _is_offered,
        "a chunk waits",
        when=lambda state, parameters, rows: state.waiting == 0 and state.produced + rows <= parameters.horizon,
        possible="where none waits, up to Horizon",
    ),
    Frame(
        "ProduceBatch",
        {"produced": None},
        _takes_more_over,
        "it grows",
        when=_has_room_for_a_batch,
        possible="within StagingRows, less the rows kept beyond RowPermits; up to Horizon",
    ),
    Frame(
        "FailTask",
        {"running": False, **_FAULT},
        when=lambda state, _: state.running and state.faults > 0,
        possible="where a task runs, up to Faults",
    ),
    Frame(
        "AbandonTask",
        {"running": False, "late": None, **_FAULT},
        _runs_on,
        "with the rows of the batch",
        when=lambda state, _: state.running and state.late == NO_ROWS and state.faults > 0,
        possible="where a task runs, and no abandoned one, up to Faults",
    ),
    Frame(
        "StageLate",
        {"late": None},
        _is_nothing,
        "none runs on",
        when=lambda state, _: state.late != NO_ROWS,
        possible="where an abandoned one runs",
    ),
    Frame(
        "AbortLate",
        {"staged": None, "aborting": None},
        _removes_what_it_names,
        "the attempt that it names is gone",
        when=lambda state, _: state.aborting != 0,
        possible="where an abort is on its way",
    ),
    Frame(
        "AcknowledgeForDriver",
        {"acknowledged": None},
        _acknowledges,
        "all rows in the commit log",
        when=_may_acknowledge_for_driver,
        possible="while the driver is down, in latestOffset, if some are not",
    ),
    Frame(
        "CrashDriver",
        {"phase": "down", "plan": None, "running": False, "aborting": None, **_FAULT},
        _forgets_what_is_in_no_log,
        "an attempt that it knew to be staged is named",
        when=lambda state, parameters: (
            parameters.driver_crashes and state.phase != "down" and state.phase != "failed" and state.faults > 0
        ),
        possible="while the driver runs, up to Faults",
    ),
    Frame(
        "CrashExchange",
        {"lost": None, **_FAULT},
        _loses_what_is_kept,
        "all that was produced",
        when=lambda state, parameters: (
            not parameters.durable and _kept_from(state, state.produced - 1) and state.faults > 0
        ),
        possible="where rows are kept, in memory only, up to Faults",
    ),
    Frame(
        "Expire",
        {"lost": None},
        _expires,
        "up to the row",
        when=lambda state, parameters, row: parameters.expires and _kept_from(state, row - 1) and row <= state.produced,
        possible="where rows may expire, up to a row that is there, if some before it is kept",
    ),
    Frame("Done", when=_is_over, possible="after all rows up to Horizon, and after a failure"),
    Frame(
        "Produce",
        {"waiting": None, "produced": None},
        _takes_it_over,
        "the whole chunk",
        when=_has_room_for_the_chunk,
        possible="where one waits, within RowPermits",
    ),
    Frame(
        "PlanBatch",
        {"plan": None, "phase": "planned"},
        _is_planned,
        "no more than is there, and than the cap",
        when=_may_plan,
        possible="when idle, where rows are there and none of them is lost; in latestOffset once all before returned",
    ),
    Frame(
        "WriteOffsetLog",
        {"start": None, "end": None, "committed": False, "published": False, "plan": None, "phase": None},
        _begins_a_batch,
        "the batch that was planned, behind the last one",
        when=lambda state, _: state.phase == "planned",
        possible="when planned",
    ),
    Frame(
        "Acknowledge",
        {"acknowledged": None, "phase": None},
        _acknowledges_a_call,
        "up to the call's batch",
        when=_may_acknowledge,
        possible="in commit: when logged; in latestOffset: when idle, if some rows of the last batch are not",
    ),
    Frame(
        "RunTask",
        {"attempts": +1, "running": True},
        when=lambda state, _: state.phase == "ready" and not state.running and _kept_from(state, state.start),
        possible="when ready, and none runs; its rows are kept",
    ),
    Frame(
        "Stage",
        {"staged": None, "running": False, "phase": "staged"},
        _stages_the_batch,
        "the newest attempt's",
        when=lambda state, _: state.phase == "ready" and state.running and _kept_from(state, state.start),
        possible="when ready, and one runs; its rows are kept",
    ),
    Frame(
        "Publish",
        {"published": True, "phase": "published", "output": None, "misplaced": None},
        _adds_what_is_staged,
        "what is staged, once for each batch",
        when=lambda state, _: state.phase == "staged" and state.staged.attempt == state.attempts,
        possible="when staged, by the newest attempt",
    ),
    Frame(
        "WriteCommitLog",
        {"committed": True, "staged": None, "phase": "idle"},
        _removes_the_rest,
        "nothing is staged",
        when=lambda state, _: state.phase == "published",
        possible="when published",
    ),
    Frame(
        "Restart",
        {"phase": None},
        _goes_on,
        "idle, or ready if the batch is not committed",
        when=lambda state, _: state.phase == "down",
        possible="when down",
    ),
    Frame(
        "ReportLoss",
        {"phase": "failed", "running": False},
        when=_must_report,
        possible="when idle or ready, where a row is lost or acknowledged that is not in the commit log",
    ),
)
"""What each action changes."""

ANY = Subject(
    SYSTEM,
    any_parameters,
    lambda _: arbitrary(State),
    {"Offer": any_rows, "ProduceBatch": any_rows, "Expire": any_row},
)
"""A query with any parameters, in any state at all."""


def theorems() -> tuple[Theorem, ...]:
    """All of them."""
    return (*_invariant_theorems(), *_threshold_theorems(), *_progress_theorems(), _CHAPTER.framed(FRAMES, ANY))

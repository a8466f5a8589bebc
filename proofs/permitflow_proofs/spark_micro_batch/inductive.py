"""What holds in every state of a streaming query, after any number of steps and faults.

Each clause is shown in states that satisfy all clauses, so they are inductive together.
"""

from collections.abc import Mapping

from permitflow_model.spark_micro_batch import Parameters, State, committed_end
from permitflow_proofs.kernel.induction import Clause, Fault
from permitflow_proofs.kernel.theorem import Theorem
from permitflow_proofs.spark_micro_batch.arbitrary import INVARIANT, QUERY, largest_chunk

__all__ = ["theorems"]


def _with_a_negative_count(state: State, _parameters: Parameters) -> State:
    return state._replace(waiting=-1)


def _with_a_row_too_many(state: State, parameters: Parameters) -> State:
    return state._replace(produced=state.acknowledged + parameters.row_count + parameters.staging_rows + 1)


def _with_a_row_acknowledged(state: State, _parameters: Parameters) -> State:
    return state._replace(acknowledged=committed_end(state) + 1)


def _with_a_row_repeated(state: State, _parameters: Parameters) -> State:
    return state._replace(output=state.output + 1, misplaced=state.misplaced + 1)


def _with_a_commit_too_early(state: State, _parameters: Parameters) -> State:
    return state._replace(committed=True, published=False)


def _with_a_larger_batch(state: State, parameters: Parameters) -> State:
    return state._replace(end=state.start + parameters.batch_cap + 1)


def _failed(state: State, _parameters: Parameters) -> State:
    return state._replace(phase="failed")


def _running_while_down(state: State, _parameters: Parameters) -> State:
    return state._replace(phase="down", running=True)


def _with_an_old_acknowledgement(state: State, _parameters: Parameters) -> State:
    return state._replace(acknowledged=state.start - 1)


def _with_a_larger_chunk(state: State, parameters: Parameters) -> State:
    return state._replace(waiting=largest_chunk(parameters) + 1)


def _with_a_row_lost(state: State, _parameters: Parameters) -> State:
    return state._replace(lost=1)


def _runs(state: State, _parameters: Parameters) -> bool:
    return state.phase != "failed"


def _lost_nothing(state: State, _parameters: Parameters) -> bool:
    return state.lost == 0


_BROKEN: Mapping[str, Clause[State, Parameters]] = {"NeverFails": _runs, "NothingLostIfDurable": _lost_nothing}
"""What the mistake breaks where the clause itself says nothing: an exchange in memory may lose rows."""

_THEOREMS: tuple[tuple[str, str, str, str, Fault[State, Parameters], str], ...] = (
    (
        "spark-bounded",
        "Bounded",
        "Bounded",
        "The replay buffer of an exchange never has more than ROW_COUNT rows of a channel, and those that may be "
        "staged for it, whatever crashes.",
        _with_a_row_too_many,
        "after the step the exchange keeps one row too many",
    ),
    (
        "spark-acknowledged",
        "AcknowledgedIsCommitted",
        "AcknowledgedIsCommitted",
        "No row is acknowledged before the commit log has its batch, in latestOffset as in commit.",
        _with_a_row_acknowledged,
        "after the step one row more is acknowledged",
    ),
    (
        "spark-exactly-once",
        "PublishedOnceInOrder",
        "PublishedOnceInOrder",
        "With a sink that publishes once per batch: the table holds each row of the channel once and in order, "
        "whatever crashes, is retried or is late.",
        _with_a_row_repeated,
        "after the step one row is there twice",
    ),
    (
        "spark-committed",
        "CommittedIsPublished",
        "CommittedIsPublished",
        "The commit log has no batch that is not published.",
        _with_a_commit_too_early,
        "the commit log is written too early",
    ),
    (
        "spark-batch-capped",
        "BatchCapped",
        "BatchCapped",
        "No batch has more rows of the channel than its cap.",
        _with_a_larger_batch,
        "the batch is one row larger",
    ),
    (
        "spark-never-fails",
        "NeverFails",
        "NeverFails",
        "A query never misses a row of an exchange that keeps its rows.",
        _failed,
        "the query fails",
    ),
    ("spark-type-ok", "TypeOK", "TypeOK", "No count of a query is ever negative.", _with_a_negative_count, "-1 waits"),
    (
        "spark-phases",
        "PhasesAgree",
        "Phases",
        "What the driver is at agrees with its logs and with the sink, after any crash.",
        _running_while_down,
        "a task of a dead driver is waited for",
    ),
    (
        "spark-in-time",
        "AcknowledgedInTime",
        "Acknowledge",
        "Acknowledgements are behind by the last batch at most: in latestOffset always, in commit unless the driver "
        "crashes.",
        _with_an_old_acknowledgement,
        "behind by one row more",
    ),
    (
        "spark-offered",
        "WaitingIsOffered",
        "Offer",
        "No chunk that waits is larger than the largest that may be offered.",
        _with_a_larger_chunk,
        "a larger chunk waits",
    ),
    (
        "spark-nothing-lost",
        "NothingLostIfDurable",
        "CrashExchange",
        "An exchange that keeps its rows loses none.",
        _with_a_row_lost,
        "a row is lost",
    ),
)


def theorems() -> tuple[Theorem, ...]:
    """The inductive invariant of a query."""
    return tuple(
        Theorem(
            id=name,
            statement=statement,
            module="SparkMicroBatch",
            operator=operator,
            obligations=QUERY.induction(INVARIANT[clause], fault, in_words, _BROKEN.get(clause)),
        )
        for name, clause, operator, statement, fault, in_words in _THEOREMS
    )

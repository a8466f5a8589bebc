"""Recorded runs of a streaming query: what the model did is a behaviour, in whatever order its logs are read."""

import random
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from permitflow_model.kernel.replay import Replay, interleave
from permitflow_model.spark_micro_batch import SYSTEM, Parameters, State, committed_end
from permitflow_model.spark_micro_batch_trace import (
    QueryEvent,
    SparkMicroBatchReplay,
    World,
    query_parameters,
)

Logs = list[list[QueryEvent]]

WALKS = Parameters(row_permits=4, batch_cap=2, sizes=(1, 2, 3), horizon=12, driver_crashes=True, faults=4)
SOURCE, OFFSETS, TASKS, SINK, COMMITS = range(5)
# Not recorded: an attempt that runs on is nobody's step, and an abort of what is published neither.
UNSEEN = ("AbandonTask", "StageLate", "AbortLate", "Done")
EXPIRING = replace(WALKS, expires=True)


def recorded(seed: int, walks: Parameters = WALKS) -> Logs:
    """A run of the model as its recorders would see it."""
    rng = random.Random(seed)
    state = SYSTEM.initial(walks)
    logs: Logs = [[QueryEvent("Restart")], [], [], [], []]
    for _ in range(200):
        steps = [step for step in SYSTEM.successors(state, walks) if step.action not in UNSEEN]
        if not steps:
            break
        step = rng.choice(steps)
        note(logs, step.action, state, step.state)
        state = step.state
    return logs


def note(logs: Logs, action: str, before: State, after: State) -> None:
    batch = (after.start, after.end)
    if action == "Acknowledge":
        logs[SOURCE].append(QueryEvent(action, before.acknowledged, after.acknowledged, after.produced, after.lost))
    elif action == "PlanBatch":
        logs[SOURCE].append(QueryEvent(action, after.end, after.plan, after.produced, after.lost))
    elif action == "ReportLoss":
        logs[SOURCE].append(QueryEvent(action, 0, committed_end(before), after.produced, after.lost))
    elif action == "Restart":
        logs[SOURCE].append(QueryEvent(action))
    elif action == "WriteOffsetLog":
        logs[OFFSETS].append(QueryEvent(action, *batch))
    elif action in ("RunTask", "Stage", "FailTask"):
        logs[TASKS].append(QueryEvent(action, *batch))
    elif action == "Publish" and not before.published:
        logs[SINK].append(QueryEvent(action, *batch))
    elif action == "WriteCommitLog":
        logs[COMMITS].append(QueryEvent(action, *batch))


def replayed(logs: Sequence[Sequence[QueryEvent]], staging_rows: int = 0) -> Replay[World, QueryEvent]:
    parameters = query_parameters(row_permits=4, batch_cap=2, durable=True, staging_rows=staging_rows)
    interpretation = SparkMicroBatchReplay(parameters)
    return interleave(interpretation, interpretation.start(), logs)


@pytest.mark.parametrize("seed", range(40))
def test_a_run_is_valid_in_whatever_order_its_logs_are_read(seed: int) -> None:
    logs = recorded(seed)
    random.Random(seed).shuffle(logs)
    assert replayed(logs).is_valid
    assert replayed(logs).performed == sum(map(len, logs))


def test_a_run_whose_rows_expire_is_valid_if_the_recording_says_so() -> None:
    runs = [recorded(seed, EXPIRING) for seed in range(40)]
    assert all(replayed(logs).is_valid for logs in runs)
    lossy = [logs for logs in runs if any(event.action == "ReportLoss" for event in logs[SOURCE])]
    assert lossy
    for logs in lossy:
        logs[SOURCE] = [event._replace(expired=0) for event in logs[SOURCE]]
        assert not replayed(logs).is_valid


def test_a_run_with_published_batches_is_valid_with_room_to_stage() -> None:
    walks = replace(WALKS, staging_rows=3)
    runs = [recorded(seed, walks) for seed in range(40)]
    assert all(replayed(logs, staging_rows=3).is_valid for logs in runs)
    reasons = [block.reason for logs in runs for block in replayed(logs, staging_rows=1).blocked]
    assert any("has 4 permits, and room for 1 staged rows" in reason for reason in reasons)


def batch(start: int, end: int) -> Logs:
    """An ordinary batch, without what the source says."""
    rows = (start, end)
    tasks = [QueryEvent("RunTask", *rows), QueryEvent("Stage", *rows)]
    return [[], [QueryEvent("WriteOffsetLog", *rows)], tasks, [], [QueryEvent("WriteCommitLog", *rows)]]


def run(*source: QueryEvent, batches: Sequence[tuple[int, int]]) -> Logs:
    logs: Logs = [[QueryEvent("Restart"), *source], [], [], [], []]
    for rows in batches:
        for log, more in zip(logs, batch(*rows), strict=True):
            log.extend(more)
    return logs


def plan(start: int, end: int, produced: int) -> QueryEvent:
    return QueryEvent("PlanBatch", start, end, produced)


def acknowledge(row: int, produced: int, *, before: int = 0) -> QueryEvent:
    return QueryEvent("Acknowledge", before, row, produced)


def refusal(logs: Logs) -> tuple[QueryEvent, str]:
    outcome = replayed(logs)
    assert not outcome.is_valid
    return outcome.blocked[0].event, outcome.blocked[0].reason


def test_an_ordinary_run_is_valid_and_all_is_published() -> None:
    logs = run(plan(0, 2, 3), acknowledge(2, 4), plan(2, 4, 4), acknowledge(4, 4, before=2), batches=[(0, 2), (2, 4)])
    outcome = replayed(logs)
    assert outcome.is_valid
    assert outcome.worlds[0].state.output == 4
    assert outcome.worlds[0].state.acknowledged == 4


def test_rows_of_a_stopped_query_may_have_been_acknowledged() -> None:
    again = [QueryEvent("Restart"), acknowledge(2, 4, before=2)]
    assert replayed(run(plan(0, 2, 4), *again, batches=[(0, 2)])).is_valid


def test_but_not_those_of_a_batch_that_the_commit_log_has_not() -> None:
    logs = run(plan(0, 2, 4), QueryEvent("Restart"), acknowledge(2, 4, before=2), batches=[(0, 2)])
    logs[COMMITS].clear()
    event, reason = refusal(logs)
    assert event.action == "Acknowledge"
    assert "has forgotten the rows up to 2 already" in reason


def test_acknowledging_in_commit_is_refused_at_the_next_batch() -> None:
    event, reason = refusal(run(plan(0, 2, 4), plan(2, 4, 4), batches=[(0, 2), (2, 4)]))
    assert event == plan(2, 4, 4)
    assert reason.startswith("a batch from row 2 is planned, but only the rows up to 0 have been acknowledged")


def test_acknowledging_in_read_is_refused_where_the_exchange_shows_it() -> None:
    event, reason = refusal(run(plan(0, 2, 4), acknowledge(2, 4, before=2), batches=[(0, 2)]))
    assert event.action == "Acknowledge"
    assert "has forgotten the rows up to 2 already" in reason


def test_acknowledging_before_the_commit_log_has_the_batch_is_refused() -> None:
    logs = run(plan(0, 2, 4), acknowledge(2, 4), batches=[(0, 2)])
    logs[COMMITS].clear()
    logs[TASKS].clear()
    event, reason = refusal(logs)
    assert event.action == "Acknowledge"
    assert reason.endswith("batch [0, 2) is in the offset log, but not in the commit log")


def test_an_exchange_that_keeps_more_than_its_window_is_refused() -> None:
    event, reason = refusal(run(plan(0, 2, 5), batches=[]))
    assert event.action == "PlanBatch"
    assert reason == "the exchange keeps 5 rows, and has 4 permits"


def test_a_batch_that_was_never_planned_is_refused() -> None:
    logs = run(plan(0, 2, 2), batches=[(0, 1)])
    assert refusal(logs)[1] == "no batch of rows [0, 1) is planned"


def test_an_attempt_that_failed_or_was_overtaken_is_explained() -> None:
    logs = run(plan(0, 2, 2), batches=[(0, 2)])
    attempts = ("RunTask", "RunTask", "FailTask", "RunTask", "Stage", "RunTask", "Stage")
    logs[TASKS] = [QueryEvent(action, 0, 2) for action in attempts]
    assert replayed(logs).is_valid


def test_an_attempt_that_failed_has_staged_nothing() -> None:
    logs = run(plan(0, 2, 2), batches=[(0, 2)])
    logs[TASKS] = [QueryEvent(action, 0, 2) for action in ("RunTask", "FailTask")]
    assert refusal(logs)[0].action in ("Publish", "WriteCommitLog")


def test_an_exchange_in_memory_may_lose_rows_and_the_query_says_so() -> None:
    logs = run(plan(0, 2, 2), QueryEvent("ReportLoss", 0, 0), batches=[])
    logs[OFFSETS].append(QueryEvent("WriteOffsetLog", 0, 2))
    assert not replayed(logs).is_valid
    interpretation = SparkMicroBatchReplay(query_parameters(row_permits=4, batch_cap=2, durable=False))
    outcome = interleave(interpretation, interpretation.start(), logs)
    assert outcome.is_valid
    assert outcome.worlds[0].state.phase == "failed"


def test_rows_in_memory_may_expire_and_others_be_lost_in_a_crash() -> None:
    logs = run(plan(0, 2, 2), QueryEvent("ReportLoss", 0, 0, 4, 1), batches=[(0, 2)])
    assert not replayed(logs).is_valid
    interpretation = SparkMicroBatchReplay(query_parameters(row_permits=4, batch_cap=2, durable=False))
    assert interleave(interpretation, interpretation.start(), logs).is_valid


def test_rows_expire_before_more_than_the_window_can_come() -> None:
    """Of 23 rows with 4 permits, 19 have expired or been acknowledged, however often the query looked."""
    assert replayed(run(QueryEvent("ReportLoss", 0, 0, 23, 19), batches=[])).is_valid
    assert refusal(run(QueryEvent("ReportLoss", 0, 0, 23, 18), batches=[]))[1] == (
        "the exchange keeps 5 rows, and has 4 permits"
    )


@pytest.mark.parametrize(
    ("expired", "words"),
    [(0, "no rows are lost that"), (2, "no rows are lost that"), (5, "and the exchange has had only 4")],
    ids=["not recorded", "before the query's", "more than there were"],
)
def test_a_loss_is_refused_unless_rows_that_are_needed_expired(expired: int, words: str) -> None:
    def end(expired: int) -> Logs:
        loss = QueryEvent("ReportLoss", 0, 2, 4, expired)
        return run(plan(0, 2, 4), acknowledge(2, 4), loss, batches=[(0, 2)])

    assert replayed(end(3)).is_valid
    event, reason = refusal(end(expired))
    assert (event.action, words in reason) == ("ReportLoss", True)


def test_the_vocabulary_has_all_actions_and_tells_the_recorded_ones() -> None:
    text = (Path(__file__).parents[2] / "docs/reference/vocabulary.md").read_text().split("| Streaming action |")[1]
    text = text.split("\n\n")[0]
    rows = [[cell.strip() for cell in line.split("|")[1:-1]] for line in text.splitlines() if line.startswith("| `")]
    named = {action.strip("`"): model.strip("`") for action, model, _, _ in rows}
    assert named == {action.name: action.perform.__name__ for action in SYSTEM.actions if action.name != "Done"}
    recorded = {action.strip("`") for action, _, _, by_whom in rows if by_whom != "nobody"}
    assert recorded == SparkMicroBatchReplay(query_parameters(row_permits=4, batch_cap=2, durable=True)).actions

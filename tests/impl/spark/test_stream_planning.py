"""What a query reads next, and what it acknowledges, follows from offsets and positions alone, as in the model."""

import json
from collections.abc import Mapping
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from permitflow import ChannelParameters
from permitflow.client import ChannelPosition, ChannelState
from permitflow.errors import CheckpointError, RowsExpiredError, RowsForgottenError, RowsLostError, RowsNotThereError
from permitflow.spark.places import Places
from permitflow.spark.stream_planning import BatchLimits, Position, RowRange, StreamOffset, StreamPlanner, fair_shares
from permitflow_model.spark_micro_batch import SYSTEM, Parameters, State, initial

WINDOW = ChannelParameters(row_permits=100)


def at(
    channel: str, acknowledged: int, next_row: int, *, log_id: str = "first", window: ChannelParameters = WINDOW
) -> Position:
    counts = (channel, acknowledged, next_row, ChannelState.OPEN, "")
    return ChannelPosition(*counts, window, None, log_id, window.row_permits)


def positions(*each: Position) -> dict[str, Position]:
    return {position.channel: position for position in each}


def offset(rows: Mapping[str, int], log_id: str = "first") -> StreamOffset:
    return StreamOffset(dict(rows), dict.fromkeys(rows, log_id))


def planner(*channels: str, max_rows: int | None = None, starting: str = "earliest") -> StreamPlanner:
    limits = BatchLimits(max_rows=max_rows)
    return StreamPlanner(channels or ("a",), consumer="etl", limits=limits, starting=Places.parse(starting))


def test_the_users_limit_is_divided_fairly_among_channels() -> None:
    there = positions(at("a", 0, 100), at("b", 0, 3))
    end = planner("a", "b", max_rows=30).plan(offset({"a": 0, "b": 0}), there, limit_rows=30)
    assert end == offset({"a": 27, "b": 3})


def test_a_new_channel_enters_first_and_is_read_then() -> None:
    plan = planner("a", "b")
    there = positions(at("a", 5, 9), at("b", 40, 90))
    entered = plan.plan(offset({"a": 5}), there, limit_rows=50)
    assert entered == offset({"a": 9, "b": 40})
    assert plan.ranges(offset({"a": 5}), entered) == [RowRange("a", "first", 5, 9)]
    following = plan.plan(entered, positions(at("a", 9, 9), at("b", 40, 90)), limit_rows=50)
    assert plan.ranges(entered, following) == [RowRange("b", "first", 40, 90)]


def test_a_channel_that_the_options_do_not_name_any_more_is_missed() -> None:
    with pytest.raises(CheckpointError, match="channel 'b', which the options do not name any more"):
        planner("a").acknowledgement(offset({"a": 5, "b": 1}))
    with pytest.raises(CheckpointError, match="channel 'b'"):
        planner("a").ranges(offset({"a": 5, "b": 1}), offset({"a": 6, "b": 2}))


@pytest.mark.parametrize(
    ("position", "words"),
    [
        (at("a", 8, 9), "row 7 of channel 'a' was acknowledged and is forgotten"),
        (at("a", 8, 9), "perhaps another query, or another branch of this one, reads as consumer 'etl', too, or"),
        (at("a", 0, 6), "its next row is 6"),
        (at("a", 0, 90, log_id="second"), "has a new log, 'second'"),
        (replace(at("a", 5, 90), expired_row=8), "row 7 of channel 'a' has expired"),
    ],
    ids=["forgotten", "by whom", "never there", "counted anew", "expired"],
)
def test_lost_rows_are_never_skipped(position: Position, words: str) -> None:
    with pytest.raises(RowsLostError) as caught:
        planner().plan(offset({"a": 7}), positions(position), limit_rows=50)
    assert (caught.value.channel, caught.value.consumer, caught.value.wanted_row) == ("a", "etl", 7)
    assert words in str(caught.value)
    assert "skips nothing" in str(caught.value)
    assert "sinks do not write batches whose numbers it has" in str(caught.value)


@pytest.mark.parametrize(("barrier", "version", "next_barrier"), [(None, 1, 0), (7, 2, 8)])
def test_an_offset_survives_sparks_checkpoint(barrier: int | None, version: int, next_barrier: int) -> None:
    one = replace(offset({"orders/1": 2**40, "orders/0": 0}), barrier=barrier)
    text = json.dumps(one.as_json())
    again = StreamOffset.of_json(json.loads(text))
    assert again == one
    assert json.dumps(again.as_json()) == text
    assert json.loads(text)["version"] == version
    assert {row.next_barrier for row in one.acknowledged()} == {next_barrier}


@pytest.mark.parametrize(
    ("content", "words"),
    [
        ({"version": 3, "rows": {}, "logs": {}}, "offsets of version 3, and this package reads versions 1 and 2"),
        ({"version": 2, "rows": {}, "logs": {}}, "did not write"),
        ({"version": 2, "rows": {}, "logs": {}, "barrier": -1}, "did not write"),
        ({"kafka": {"0": 3}}, "an offset that this source did not write"),
        (7, "an offset that this source did not write"),
        ({"version": 1, "rows": {"a": -1}, "logs": {"a": ""}}, "did not write"),
        ({"version": 1, "rows": {"a": 1}, "logs": {}}, "did not write"),
        ({"version": 1, "rows": ["a"], "logs": {}}, "did not write"),
    ],
)
def test_a_foreign_offset_is_refused(content: object, words: str) -> None:
    with pytest.raises(CheckpointError, match=words):
        StreamOffset.of_json(content)


@given(st.lists(st.integers(0, 50), min_size=1, max_size=6), st.integers(0, 200), st.integers(0, 9))
def test_shares_are_fair(rows: list[int], most: int, first: int) -> None:
    shares = fair_shares(rows, most, first=first)
    assert sum(shares) == min(most, sum(rows))
    assert all(share <= there for share, there in zip(shares, rows, strict=True))
    # Nobody has two rows more than somebody who would have taken another one.
    hungry = [share for share, there in zip(shares, rows, strict=True) if share < there]
    assert not hungry or max(shares) <= min(hungry) + 1


MODEL = Parameters(row_permits=8, batch_cap=4, sizes=(), horizon=100)


@st.composite
def idle_queries(draw: st.DrawFn) -> State:
    """A driver that looks for new rows, and an exchange that may have lost some."""
    end = draw(st.integers(0, 20))
    acknowledged = draw(st.sampled_from([end, end + draw(st.integers(1, 3))]))
    produced = acknowledged + draw(st.integers(0, 8))
    lost = draw(st.sampled_from([0, produced]))
    return initial(MODEL)._replace(produced=produced, acknowledged=acknowledged, end=end, lost=lost)


@given(idle_queries(), st.none() | st.integers(0, 40))
def test_the_planner_plans_and_reports_as_the_model_does(state: State, expired_row: int | None) -> None:
    """Half the window of 8 is the model's cap of 4; what a crash has lost is another log."""
    window = ChannelParameters(row_permits=MODEL.row_permits)
    if expired_row is not None:
        state = state._replace(lost=min(expired_row, state.produced))
    log_id = "second" if expired_row is None and state.lost > state.end else "first"
    there = positions(at("a", state.acknowledged, state.produced, log_id=log_id, window=window))
    there["a"] = replace(there["a"], expired_row=0 if expired_row is None else state.lost)
    plan, start = planner(), offset({"a": state.end})
    if SYSTEM.is_enabled("ReportLoss", state, MODEL):
        with pytest.raises(RowsLostError):
            plan.plan(start, there, limit_rows=plan.default_limit(there))
        return
    end = plan.plan(start, there, limit_rows=plan.default_limit(there))
    if SYSTEM.is_enabled("PlanBatch", state, MODEL):
        assert end.rows == {"a": SYSTEM.perform("PlanBatch", state, MODEL).plan}
    else:
        assert end is start


@pytest.mark.parametrize(
    ("starting", "rows"),
    [
        ("latest", {"a": 9, "b": 90}),
        ('{"a": 7, "b": -1}', {"a": 7, "b": 90}),
        ('{"b": -2}', {"a": 5, "b": 40}),
        ('{"a": 9}', {"a": 9, "b": 40}),
    ],
)
def test_a_new_query_enters_where_the_user_says(starting: str, rows: dict[str, int]) -> None:
    plan = planner("a", "b", starting=starting)
    there = positions(at("a", 5, 9), at("b", 40, 90))
    first = plan.initial(there)
    entered = plan.plan(first, there, limit_rows=50)
    assert entered == offset(rows)
    # After a crash in this batch Spark asks anew, and more rows are here: the batch is the same.
    assert plan.initial(positions(at("a", 5, 99), at("b", 40, 99))) == first
    assert plan.ranges(StreamOffset.of_json(first.as_json()), entered) == []
    later = plan.plan(entered, positions(at("a", 5, 19), at("b", 40, 91)), limit_rows=500)
    assert plan.ranges(entered, later) == [
        RowRange("a", "first", rows["a"], 19),
        RowRange("b", "first", rows["b"], min(91, rows["b"] + 50)),
    ]


def test_a_channel_that_is_added_later_is_entered_at_its_first_row() -> None:
    plan = planner("a", "b", starting="latest")
    assert plan.plan(offset({"a": 9}), positions(at("a", 9, 9), at("b", 40, 90)), limit_rows=9).rows["b"] == 40


def test_a_start_that_is_not_there_is_refused() -> None:
    there = positions(at("a", 5, 9))
    with pytest.raises(RowsForgottenError):
        planner(starting='{"a": 4}').plan(offset({}), there, limit_rows=9)
    with pytest.raises(RowsNotThereError):
        planner(starting='{"a": 10}').plan(offset({}), there, limit_rows=9)


def test_a_query_that_may_lose_rows_goes_on_behind_what_has_expired() -> None:
    plan = StreamPlanner(("a",), consumer="etl", fails_on_loss=False)
    start, there = offset({"a": 7}), positions(replace(at("a", 7, 90), expired_row=30))
    behind = plan.plan(start, there, limit_rows=10)
    assert behind == offset({"a": 30})
    assert plan.plan(behind, there, limit_rows=10) == offset({"a": 40})
    with pytest.raises(RowsExpiredError):
        planner(starting='{"a": 29}').plan(offset({}), there, limit_rows=9)


def test_a_batch_waits_for_its_least_rows_and_not_for_ever() -> None:
    seconds = [0.0]
    limits = BatchLimits(min_rows=50, max_delay_seconds=60)
    plan = StreamPlanner(("a", "b"), consumer="etl", limits=limits, clock=lambda: seconds[0])
    start, few = offset({"a": 0, "b": 0}), positions(at("a", 0, 20), at("b", 0, 20))
    assert plan.plan(start, few, limit_rows=100, min_rows=50) is start
    assert plan.plan(start, positions(at("a", 0, 40), at("b", 0, 20)), limit_rows=100, min_rows=50).rows["a"] == 40
    seconds[0] = 59.0
    assert plan.plan(start, few, limit_rows=100, min_rows=50) is start
    seconds[0] = 60.0
    assert plan.plan(start, few, limit_rows=100, min_rows=50) == offset({"a": 20, "b": 20})


@pytest.mark.parametrize(
    "there",
    [
        positions(replace(at("a", 0, 20), waiting_rows=90)),
        positions(replace(at("a", 0, 20), state=ChannelState.ENDED)),
    ],
    ids=["a producer waits", "no row will come"],
)
def test_a_batch_does_not_wait_in_vain(there: dict[str, Position]) -> None:
    limits = BatchLimits(min_rows=50, max_delay_seconds=60)
    plan = StreamPlanner(("a",), consumer="etl", limits=limits, clock=lambda: 0.0)
    assert plan.plan(offset({"a": 0}), there, limit_rows=100, min_rows=50) == offset({"a": 20})
    plan.end_at(positions(at("a", 0, 20)))  # Trigger.AvailableNow
    assert plan.plan(offset({"a": 0}), positions(at("a", 0, 30)), limit_rows=100, min_rows=50) == offset({"a": 20})


@pytest.mark.parametrize(
    ("position", "entered", "rows"),
    [
        (at("a", 8, 90), offset({"a": 8, "b": 4}), [RowRange("a", "first", 7, 8)]),
        (at("a", 0, 90, log_id="second"), StreamOffset({"a": 0, "b": 4}, {"a": "second", "b": "first"}), []),
        (at("a", 0, 6), offset({"a": 6, "b": 4}), []),
        (at("a", 5, 90, log_id="second"), StreamOffset({"a": 5, "b": 4}, {"a": "second", "b": "first"}), []),
    ],
    ids=["forgotten", "a new log", "never there", "a new log that was read"],
)
def test_lost_rows_are_passed_if_the_user_wants(
    position: Position, entered: StreamOffset, rows: list[RowRange]
) -> None:
    plan = StreamPlanner(("a", "b"), consumer="etl", fails_on_loss=False)
    start, there = offset({"a": 7, "b": 4}), positions(position, at("b", 4, 9))
    assert [loss.channel for loss in plan.losses(start, there)] == ["a"]
    end = plan.plan(start, there, limit_rows=50)
    assert end == entered
    assert plan.ranges(start, end) == rows, "of which each task leaves out what is forgotten"
    more = positions(replace(position, next_row=90), at("b", 4, 9))
    following = plan.ranges(end, plan.plan(end, more, limit_rows=50))
    assert [(each.channel, each.from_row) for each in following] == [("a", entered.rows["a"]), ("b", 4)]

"""``permitflow check`` with numbers: a proof that holds for good, or a run into the deadlock that adds up."""

from collections.abc import Callable
from typing import Any

import pytest

from permitflow_model.permit_channel import SYSTEM, Parameters, is_stuck

Command = Callable[..., tuple[int, str, str]]
Report = Callable[..., tuple[int, dict[str, Any]]]


def numbers(row_count: int, batch: int, **others: int) -> list[str]:
    """The options for these numbers."""
    options = {"row-count": row_count, "batch": batch, **{name.replace("_", "-"): n for name, n in others.items()}}
    return [part for name, value in options.items() for part in (f"--{name}", str(value))]


def test_the_default_of_risingwave_is_live(command: Command) -> None:
    code, stdout, _ = command("check", *numbers(2048, 256, max_chunk=1792))
    assert code == 0
    assert stdout.startswith("live: row count 2,048, batch 256, chunks of at most 1,792 (published protocol)")
    assert "proved, for runs of any length" in stdout
    assert "theorem threshold (PermitChannel.tla:" in stdout
    assert stdout.splitlines()[-1].startswith("live up to chunks of 1,793")


def test_a_chunk_of_the_whole_window_deadlocks_and_the_last_line_says_what_to_change(command: Command) -> None:
    code, stdout, _ = command("check", *numbers(2048, 256, max_chunk=2048))
    assert code == 1
    assert stdout.startswith("deadlock:")
    assert "OfferChunk(2048)" in stdout
    assert stdout.splitlines()[-1].startswith("to be live, choose chunks of at most 1,793 (--max-chunk 1793)")


@pytest.mark.parametrize("row_count", [6, 8, 2048])
@pytest.mark.parametrize("batch", [2, 3, 5])
def test_the_threshold_is_exact(report: Report, row_count: int, batch: int) -> None:
    largest_live = row_count - batch + 1
    assert report("check", *numbers(row_count, batch, max_chunk=largest_live))[0] == 0
    code, document = report("check", *numbers(row_count, batch, max_chunk=largest_live + 1))
    assert code == 1
    assert document["safe_max_cost"] == largest_live


@pytest.mark.parametrize(
    "arguments",
    [
        numbers(8, 3, max_chunk=7),
        numbers(8, 6, batch_up=4),
        numbers(9, 9, max_chunk=2),
        numbers(8, 20, max_chunk=3),
        [*numbers(8, 3, max_chunk=9), "--flush-idle"],
        [*numbers(12, 7), "--sizes", "3,10"],
    ],
    ids=" ".join,
)
def test_a_run_into_a_deadlock_is_one_of_the_model_and_always_adds_up(report: Report, arguments: list[str]) -> None:
    code, document = report("check", *arguments)
    assert code == 1
    sizes = {step["arguments"][0] for step in document["run"] if step["action"] == "OfferChunk"}
    parameters = Parameters(
        row_count=document["row_count"],
        batch=document["batch"],
        clamp=document["max_cost"],
        sizes=tuple(sizes),
        flush_idle=document["flush_idle"],
    )
    state = SYSTEM.initial(parameters)
    for step in document["run"]:
        if step["action"] is not None:
            state = SYSTEM.perform(step["action"], state, parameters, *step["arguments"])
        places = ("permits", "in_flight", "inbox", "unreturned", "grants")
        assert sum(step[place] for place in places) == document["row_count"]
        assert step["permits"] == state.permits.rows
        assert step["unreturned"] == state.unreturned
    assert is_stuck(state, parameters)


def test_the_advice_works(report: Report) -> None:
    _, document = report("check", *numbers(8, 6, max_chunk=5))
    assert report("check", *numbers(8, 6, max_chunk=document["safe_max_cost"]))[0] == 0
    assert report("check", *numbers(8, document["safe_batch"], max_chunk=5))[0] == 0
    assert report("check", *numbers(8, 6, max_chunk=5), "--flush-idle")[0] == 0


def test_two_nodes_with_different_batches_are_live_up_to_a_difference_of_one(report: Report) -> None:
    assert report("check", *numbers(8, 5, batch_up=4))[0] == 0
    assert report("check", *numbers(8, 6, batch_up=4))[0] == 1


def test_the_idle_flush_takes_the_deadlock_away(report: Report) -> None:
    arguments = numbers(8, 7, max_chunk=8)
    assert report("check", *arguments)[0] == 1
    assert report("check", *arguments, "--flush-idle")[0] == 0


def test_a_lucky_set_of_sizes_is_live_above_the_threshold(command: Command) -> None:
    code, stdout, _ = command("check", *numbers(2048, 256), "--sizes", "1024,2048")
    assert code == 0
    assert "chunks of 1,024 or 2,048 rows" in stdout
    assert stdout.splitlines()[-1] == "if chunks of other sizes come too: live up to 1,793 with this batch"


def test_without_a_maximum_the_published_clamp_is_meant(report: Report) -> None:
    code, document = report("check", *numbers(2048, 256))
    assert (code, document["max_cost"]) == (0, 1792)


def test_a_long_run_is_shortened_in_the_middle_only_on_paper(command: Command, report: Report) -> None:
    arguments = ["check", *numbers(64, 128, max_chunk=1)]
    _, stdout, _ = command(*arguments)
    _, document = report(*arguments)
    steps = len(document["run"]) - 1
    assert f"{steps - 32:,} more steps" in stdout
    assert f"{steps:>4}   OfferChunk(1)" in stdout


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        (["--row-count", "0", "--batch", "1"], "'--row-count': must be at least 1, not 0"),
        (["--row-count", "-8", "--batch", "1"], "'--row-count': must be at least 1, not -8"),
        (["--row-count", "many", "--batch", "1"], "'--row-count': must be a whole number of at least 1, not 'many'"),
        (["--row-count", "8.5", "--batch", "1"], "'--row-count': must be a whole number of at least 1, not '8.5'"),
        (["--row-count", "8", "--batch", "0"], "'--batch': must be at least 1, not 0"),
        (["--row-count", "8", "--batch", "3", "--max-chunk", "0"], "'--max-chunk': must be at least 1, not 0"),
        (
            ["--row-count", "8", "--batch", "3", "--sizes", "1;3"],
            "'--sizes': must be whole numbers separated by commas",
        ),
        (["--row-count", "8", "--batch", "3", "--sizes", "1,-3"], "'--sizes': a chunk cannot have -3 rows"),
        (["--row-count", "8"], "--batch is missing"),
        (["--batch", "8"], "--row-count is missing"),
        (["--flush-idle"], "--row-count is missing"),
        (["--row-count", "8", "--batch", "8"], "--batch: the published protocol clamps chunks to row count less batch"),
        (["--row-count", "8", "--batch", "3", "--batch-up", "8"], "--batch-up: the published protocol clamps"),
        (["--row-count", "8", "--batch", "3", "--engine", "tlc"], "--engine and --model belong to the models"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_unusable_numbers_are_named_with_the_rule(command: Command, arguments: list[str], complaint: str) -> None:
    code, stdout, stderr = command("check", *arguments)
    assert (code, stdout) == (2, "")
    assert complaint in stderr
    assert "Traceback" not in stderr

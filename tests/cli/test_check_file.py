"""``permitflow check FILE``: two ends that may disagree, as they are and as a handshake would make them."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Command = Callable[..., tuple[int, str, str]]
Report = Callable[..., tuple[int, dict[str, Any]]]
EXAMPLES = Path(__file__).resolve().parents[2] / "docs/examples"


def described(folder: Path, up: str, down: str = "", chunks: str = 'distribution = "geometric"\nmean = 9') -> str:
    file = folder / "channel.toml"
    file.write_text(f"[upstream]\n{up}\n[downstream]\n{down}\n[chunks]\n{chunks}\n", encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(
    ("name", "verdict"),
    [("orders", "live"), ("mismatch", "deadlock"), ("observed", "live"), ("sweep", "live")],
)
def test_the_examples_come_to_what_they_say(report: Report, name: str, verdict: str) -> None:
    code, document = report("check", str(EXAMPLES / f"{name}.toml"))
    assert (code, document["verdict"]) == (0 if verdict == "live" else 1, verdict)


def test_a_file_is_decided_as_the_same_numbers_are(report: Report, tmp_path: Path) -> None:
    _, of_file = report("check", described(tmp_path, "row_count = 8\nbatch = 4", "batch = 6"))
    _, of_numbers = report("check", "--row-count", "8", "--batch", "6", "--batch-up", "4")
    same = ("max_cost", "verdict", "explanation", "theorems", "safe_max_cost", "safe_batch", "run")
    assert {key: of_file[key] for key in same} == {key: of_numbers[key] for key in same}


@pytest.mark.parametrize(("batch", "code"), [(5, 0), (6, 1)])
def test_two_ends_are_live_up_to_a_difference_of_one(report: Report, tmp_path: Path, batch: int, code: int) -> None:
    assert report("check", described(tmp_path, "row_count = 8\nbatch = 4", f"batch = {batch}"))[0] == code


def test_where_the_ends_disagree_and_what_a_handshake_makes_of_it(command: Command, tmp_path: Path) -> None:
    file = described(tmp_path, "row_count = 64\nbatch = 4", "row_count = 48\nbatch = 40")
    code, stdout, _ = command("check", file)
    assert code == 1
    assert "the ends disagree: row_count is 64 upstream, 48 downstream; batch is 4 upstream, 40 downstream" in stdout
    assert "would take the smaller of each, for both: row_count 48, batch 4, max_chunk 8" in stdout


def test_a_handshake_that_would_refuse_says_why(report: Report, tmp_path: Path) -> None:
    _, document = report("check", described(tmp_path, "row_count = 64\nbatch = 4", 'oversize = "whole"'))
    assert document["handshake"]["agreed"] is None
    assert "oversize must be the same at both ends" in document["handshake"]["refused"]


def test_a_sender_with_a_larger_window_than_the_receiver_allows_does_not_hold(report: Report, tmp_path: Path) -> None:
    file = described(tmp_path, "row_count = 64\nbatch = 4", "row_count = 48")
    code, document = report("check", file)
    assert (code, document["verdict"]) == (1, "overspend")
    assert "64 row permits out at once, the downstream allows 48" in document["overspend"]
    lucky = described(tmp_path, "row_count = 64\nbatch = 4", "row_count = 48", "rows = 40")
    assert report("check", lucky)[0] == 0


def test_more_barriers_than_the_receiver_allows_do_not_hold(report: Report, tmp_path: Path) -> None:
    file = described(tmp_path, "row_count = 64\nbatch = 4\nbarrier_permits = 2", "barrier_permits = 1")
    code, document = report("check", file)
    assert (code, document["verdict"]) == (1, "overspend")


def test_the_advice_works(report: Report, tmp_path: Path) -> None:
    up = "row_count = 64\nbatch = 4"
    _, document = report("check", described(tmp_path, up, "batch = 40"))
    assert report("check", described(tmp_path, up, f"batch = {document['safe_batch']}"))[0] == 0
    assert report("check", described(tmp_path, f"{up}\nmax_chunk = {document['safe_max_cost']}", "batch = 40"))[0] == 0
    assert report("check", described(tmp_path, up, "batch = 40\nflush_idle = true"))[0] == 0


def test_chunks_that_are_all_alike_are_decided_for_what_they_are(report: Report, tmp_path: Path) -> None:
    up = "row_count = 2_048\nbatch = 256\nmax_chunk = 2_048"
    assert report("check", described(tmp_path, up, chunks="rows = [1_024, 2_048]"))[0] == 0
    assert report("check", described(tmp_path, up, chunks="rows = [1, 2_048]"))[0] == 1


def test_that_slices_are_taken_in_any_order_is_said(command: Command, tmp_path: Path) -> None:
    _, stdout, _ = command("check", described(tmp_path, "row_count = 6\nmax_chunk = 4", "batch = 6", "rows = 6"))
    assert "their slices are taken to come in any order" in stdout


def test_what_is_wrong_in_a_file_is_named(command: Command, tmp_path: Path) -> None:
    code, stdout, stderr = command("check", described(tmp_path, "row_count = 64\nbtach = 4"))
    assert (code, stdout) == (2, "")
    assert "channel.toml, line 3: upstream.btach is unknown; did you mean batch?" in stderr


@pytest.mark.parametrize("option", ["--row-count 8", "--flush-idle", "--engine tlc", "--model x"])
def test_a_file_and_options_do_not_go_together(command: Command, option: str) -> None:
    code, _, stderr = command("check", str(EXAMPLES / "orders.toml"), *option.split())
    assert code == 2
    assert f"{option.split()[0]} and a file do not go together" in stderr


def test_a_sweep_has_a_verdict_for_each_combination(report: Report, command: Command, tmp_path: Path) -> None:
    file = described(tmp_path, "row_count = 64\nbatch = 4", "batch = 63")
    arguments = ("check", file, "--sweep", "row_count=16,32", "--sweep", "batch=8,20", "--sweep", "max_chunk=9,13")
    code, document = report(*arguments)
    assert code == 1
    verdicts = {tuple(point["varied"].values()): point["verdict"] for point in document["points"]}
    assert len(verdicts) == 8
    for (row_count, batch, chunk), verdict in verdicts.items():
        single = report("check", *f"--row-count {row_count} --batch {batch} --max-chunk {chunk}".split())[1]
        assert verdict == single["verdict"]
    assert command(*arguments)[1].count("deadlock") == list(verdicts.values()).count("deadlock")


def test_what_changes_no_verdict_is_not_varied(command: Command) -> None:
    code, _, stderr = command("check", str(EXAMPLES / "orders.toml"), "--sweep", "rtt=1ms")
    assert code == 2
    assert "rtt changes no verdict; vary row_count, batch, max_chunk, chunk_rows" in stderr
    assert "name a file" in command("check", "--sweep", "batch=1")[2]

"""``permitflow simulate``: figures, the window that is needed, sweeps, and what cannot be simulated."""

import csv
from pathlib import Path

import pytest

from tests.permitflow_tools.cli.conftest import Command, Report

EXAMPLES = Path(__file__).resolve().parents[3] / "docs/examples"
ORDERS = str(EXAMPLES / "orders.toml")
ENDS = ("--row-permits", "126", "--permit-batch", "16")
NUMBERS = (*ENDS, "--chunk-rows", "7", "--rtt", "100ms", "--consumer-rate", "1000")


def test_the_window_is_found_and_explained(command: Command) -> None:
    code, stdout, _ = command("simulate", *NUMBERS)
    assert code == 0
    assert stdout.startswith("flows: row permits 126, permit batch 16, chunks of 7 rows")
    assert "the fewest row permits that keep the pipe full: 126" in stdout
    rows = {line.rsplit("  ", 1)[0].split("  ")[0]: line for line in stdout.splitlines()}
    assert "100" in rows["bandwidth-delay product"]
    assert "+5" in rows["whole chunks"]
    assert "+21" in rows["the batch"]


def test_equal_seeds_give_equal_reports(report: Report) -> None:
    arguments = ("simulate", *NUMBERS, "--chunk-rows", "1,7,20", "--chunks", "30")
    first, again, other = (report(*arguments, "--seed", seed) for seed in "112")
    assert first == again != other


def test_options_change_what_the_file_says(report: Report) -> None:
    _, document = report("simulate", ORDERS, "--rtt", "10ms", "--row-permits", "65536", "--permit-batch", "512")
    assert document["rtt_seconds"] == pytest.approx(0.01)
    assert (document["row_permits"], document["permit_batch"]) == (65536, 512)


def test_a_deadlock_ends_with_1_and_shows_where_the_permits_are(command: Command, report: Report) -> None:
    mismatch = str(EXAMPLES / "mismatch.toml")
    code, stdout, _ = command("simulate", mismatch)
    assert code == 1
    assert stdout.startswith("deadlock:")
    assert "nothing will ever happen again" in stdout
    _, document = report("simulate", mismatch)
    assert document["figures"] is document["window"] is None
    assert document["stuck"]["waiting_cost"] > document["stuck"]["whereabouts"]["permits"]
    assert report("check", mismatch)[0] == 1


def test_a_refused_chunk_ends_with_1(command: Command, tmp_path: Path) -> None:
    file = tmp_path / "two.toml"
    file.write_text(
        '[upstream]\nrow_permits = 64\n[downstream]\nrow_permits = 32\n[chunks]\nrows = 1\n[network]\nrtt = "1s"\n'
    )
    code, stdout, _ = command("simulate", str(file))
    assert code == 1
    assert "the receiver refuses a chunk, and the stream is over" in stdout


def test_a_run_that_was_lucky_says_so(command: Command, report: Report, tmp_path: Path) -> None:
    file = tmp_path / "rare.toml"
    file.write_text(
        "[upstream]\nrow_permits = 90\npermit_batch = 2\nmax_chunk_cost = 90\n[consumer]\nrate = 10\n"
        "[chunks]\nrows = [1, 90]\nweights = [1e12, 1]\n"
    )
    code, document = report("simulate", str(file))
    assert (code, document["verdict"], document["may_deadlock"]) == (0, "flows", True)
    assert "permitflow check finds a run into a deadlock" in command("simulate", str(file))[1]
    assert report("check", str(file))[0] == 1


def test_a_sweep_is_a_table_a_file_and_a_report(command: Command, report: Report, tmp_path: Path) -> None:
    varied = "--sweep row_permits=32..128:x2 --sweep permit_batch=1,16 --chunks 100"
    arguments = ("simulate", *NUMBERS, *varied.split())
    drawing = tmp_path / "sweep.svg"
    code, stdout, _ = command(*arguments, "--csv", str(tmp_path / "sweep.csv"), "--plot", str(drawing))
    assert code == 0
    assert all(f">{label}<" in drawing.read_text() for label in ("permit_batch 1", "permit_batch 16", "row permits"))
    assert f"written: {tmp_path / 'sweep.csv'}" in stdout
    with (tmp_path / "sweep.csv").open(encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    assert [(row["row_permits"], row["permit_batch"]) for row in rows[:3]] == [("32", "1"), ("32", "16"), ("64", "1")]
    _, document = report(*arguments)
    throughputs = [point["figures"]["throughput"] for point in document["points"]]
    assert throughputs == [float(row["throughput"]) for row in rows]
    assert throughputs[0] < throughputs[2] < throughputs[4]


def test_a_combination_that_cannot_be_is_said_and_the_others_are_run(command: Command, report: Report) -> None:
    code, stdout, _ = command("simulate", *NUMBERS, "--sweep", "permit_batch=16,200", "--chunks", "100")
    assert code == 1
    assert "impossible, for example with permit_batch 200: permit_batch must be below row_permits = 126" in stdout
    code, document = report("simulate", *NUMBERS, "--max-chunk-cost", "7", "--sweep", "permit_batch=16,200")
    assert (code, [point["verdict"] for point in document["points"]]) == (1, ["flows", "deadlock"])


def test_target_latencies_that_cannot_be_met_are_said(command: Command, report: Report) -> None:
    axes = "--sweep consumer_rate=2000,20000 --sweep target_latency=50ms,500ms --rtt 40ms --flush-idle --chunks 50"
    arguments = ("simulate", "--row-permits", "4096", "--chunk-rows", "256", *axes.split())
    assert "2 of 4 target latencies cannot be met; for example, 50 ms would have to be 256 ms" in command(*arguments)[1]
    _, document = report(*arguments)
    least = [point["least_target_latency_seconds"] for point in document["points"]]
    assert least == pytest.approx([0.256, 0.256, 0.0603, 0.0603], rel=0.01)

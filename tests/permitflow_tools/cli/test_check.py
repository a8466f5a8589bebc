"""``permitflow check``: numbers, files of two ends, the models of the manifest, and sweeps of many numbers."""

import csv
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

import permitflow_model.manifest
from permitflow_model.manifest import read_manifest
from permitflow_model.permit_channel import SYSTEM, Parameters, is_stuck
from tests.permitflow_tools.cli.conftest import Command, Report


def numbers(row_permits: int, permit_batch: int, **others: int) -> list[str]:
    """The options for these numbers."""
    options = {
        "row-permits": row_permits,
        "permit-batch": permit_batch,
        **{name.replace("_", "-"): n for name, n in others.items()},
    }
    return [part for name, value in options.items() for part in (f"--{name}", str(value))]


@pytest.mark.parametrize(
    "arguments",
    [
        numbers(8, 6, permit_batch_up=4),
        numbers(8, 20, max_chunk_cost=3),
        [*numbers(8, 3, max_chunk_cost=9), "--flush-idle"],
        [*numbers(12, 7), "--chunk-rows", "3,10"],
    ],
    ids=" ".join,
)
def test_a_run_into_a_deadlock_is_one_of_the_model_and_always_adds_up(report: Report, arguments: list[str]) -> None:
    code, document = report("check", *arguments)
    assert code == 1
    sizes = {step["arguments"][0] for step in document["run"] if step["action"] == "OfferChunk"}
    parameters = Parameters(
        row_permits=document["row_permits"],
        permit_batch=document["permit_batch"],
        max_chunk_cost=document["largest_cost"],
        sizes=tuple(sizes),
        flush_idle=document["flush_idle"],
    )
    state = SYSTEM.initial(parameters)
    for step in document["run"]:
        if step["action"] is not None:
            state = SYSTEM.perform(step["action"], state, parameters, *step["arguments"])
        places = ("permits", "in_flight", "inbox", "unreturned", "grants")
        assert sum(step[place] for place in places) == document["row_permits"]
        assert step["permits"] == state.permits.rows
        assert step["unreturned"] == state.unreturned
    assert is_stuck(state, parameters)


def test_the_advice_works(report: Report) -> None:
    _, document = report("check", *numbers(8, 6, max_chunk_cost=5))
    assert report("check", *numbers(8, 6, max_chunk_cost=document["safe_max_chunk_cost"]))[0] == 0
    assert report("check", *numbers(8, document["safe_permit_batch"], max_chunk_cost=5))[0] == 0
    assert report("check", *numbers(8, 6, max_chunk_cost=5), "--flush-idle")[0] == 0


def test_the_senders_own_batch_limits_what_a_chunk_costs(report: Report) -> None:
    assert report("check", *numbers(8, 3, permit_batch_up=4, max_chunk_cost=7))[1]["largest_cost"] == 4


def test_slices_of_a_larger_chunk_are_sizes_of_their_own(report: Report) -> None:
    code, document = report("check", *numbers(10, 4, max_chunk_cost=8), "--chunk-rows", "11")
    assert (code, document["verdict"]) == (1, "deadlock")  # 8 rows and 3: these stay at the receiver


def test_a_lucky_set_of_sizes_is_live_above_the_threshold(command: Command) -> None:
    code, stdout, _ = command("check", *numbers(2048, 256), "--chunk-rows", "1024,2048")
    assert code == 0
    assert "chunks of 1,024 or 2,048" in stdout
    assert stdout.splitlines()[-1] == "if chunks of other sizes come too: live up to 1,793 with this permit batch"


def test_few_sizes_are_decided_in_a_window_of_many_bytes(report: Report) -> None:
    assert report("check", *numbers(10**15, 9 * 10**14), "--chunk-rows", f"{10**15}")[0] == 0
    assert report("check", *numbers(10**15, 9 * 10**14), "--chunk-rows", f"{10**15},{4 * 10**14}")[0] == 1


def test_sizes_with_too_many_sums_are_said_to_be_taken_for_all(report: Report) -> None:
    code, document = report("check", *numbers(10**15, 9 * 10**14), "--chunk-rows", f"{10**15},123456789,987654323")
    assert code == 1
    assert "it is taken that every size up to the largest may come" in document["explanation"]


def test_a_long_run_is_shortened_in_the_middle_only_on_paper(command: Command, report: Report) -> None:
    arguments = ["check", *numbers(64, 128, max_chunk_cost=1)]
    _, stdout, _ = command(*arguments)
    _, document = report(*arguments)
    steps = len(document["run"]) - 1
    assert f"{steps - 32:,} more steps" in stdout
    assert f"{steps:>4}   OfferChunk(1)" in stdout


EXAMPLES = Path(__file__).resolve().parents[3] / "docs/examples"


def described(folder: Path, up: str, down: str = "", chunks: str = 'distribution = "uniform"\nmost = 99') -> str:
    file = folder / "channel.toml"
    file.write_text(f"[upstream]\n{up}\n[downstream]\n{down}\n[chunks]\n{chunks}\n", encoding="utf-8")
    return str(file)


@pytest.mark.parametrize(
    ("name", "verdict"), [("orders", "live"), ("mismatch", "deadlock"), ("observed", "live"), ("sweep", "live")]
)
def test_the_examples_come_to_what_they_say(report: Report, name: str, verdict: str) -> None:
    code, document = report("check", str(EXAMPLES / f"{name}.toml"))
    assert (code, document["verdict"]) == (0 if verdict == "live" else 1, verdict)


def test_a_handshake_that_would_refuse_says_why(report: Report, tmp_path: Path) -> None:
    _, document = report("check", described(tmp_path, "row_permits = 64\npermit_batch = 4", 'oversize = "whole"'))
    assert document["handshake"]["agreed"] is None
    assert "oversize must be the same at both ends" in document["handshake"]["refused"]


def test_ends_that_refuse_each_other_are_not_called_live(command: Command, tmp_path: Path) -> None:
    code, stdout, _ = command("check", described(tmp_path, "row_permits = 64\npermit_batch = 4", 'oversize = "whole"'))
    first, second = stdout.splitlines()[:2]
    assert (code, first.split(":")[0]) == (1, "refused")
    assert second.startswith("permitflow's handshake refuses these ends: oversize must be the same at both ends")
    assert "live up to" not in stdout


def test_the_first_line_of_an_overspend_has_both_windows(command: Command, tmp_path: Path) -> None:
    _, stdout, _ = command("check", described(tmp_path, "row_permits = 64\npermit_batch = 4", "row_permits = 48"))
    first, second, third = stdout.splitlines()[:3]
    assert first.startswith("overspend: ")
    assert "row permits 64 at the sender and 48 at the receiver" in first
    assert "the downstream allows 48" in second
    assert third.startswith("if nothing were refused, proved for runs of any length")
    assert "live up to" not in stdout


def test_the_permit_batch_is_an_eighth_by_default(report: Report) -> None:
    _, document = report("check", "--row-permits", "2048")
    assert document["permit_batch"] == 256


def test_standard_input_is_a_file_by_the_name_of_a_dash() -> None:
    told = (EXAMPLES / "orders.toml").read_bytes()
    command = [sys.executable, "-m", "permitflow_tools.cli", "check", "-"]
    done = subprocess.run(command, input=told, capture_output=True, timeout=250, check=True)
    assert done.stdout.startswith(b"live: /dev/stdin: row permits 32,768")


def test_a_sender_with_a_window_above_the_receivers_breaks_a_rule(report: Report, tmp_path: Path) -> None:
    file = described(tmp_path, "row_permits = 64\npermit_batch = 4", "row_permits = 48")
    code, document = report("check", file)
    assert (code, document["verdict"]) == (1, "overspend")
    assert "64 row permits out at once, the downstream allows 48" in document["overspend"]
    lucky = described(tmp_path, "row_permits = 64\npermit_batch = 4", "row_permits = 48", "rows = 40")
    assert report("check", lucky)[0] == 0


def test_that_slices_are_taken_in_any_order_is_said(command: Command, tmp_path: Path) -> None:
    _, stdout, _ = command(
        "check", described(tmp_path, "row_permits = 6\nmax_chunk_cost = 4", "permit_batch = 6", "rows = 6")
    )
    assert "their slices are taken to come in any order" in stdout


def test_a_sweep_has_a_verdict_for_each_combination(report: Report, command: Command, tmp_path: Path) -> None:
    file = described(tmp_path, "row_permits = 64\npermit_batch = 4", "permit_batch = 63")
    varied = "--sweep row_permits=16,32 --sweep permit_batch=8 --sweep max_chunk_cost=9,13"
    arguments = ("check", file, *varied.split())
    code, document = report(*arguments)
    assert code == 1
    verdicts = {tuple(point["varied"].values()): point["verdict"] for point in document["points"]}
    assert len(verdicts) == 4
    for (row_permits, permit_batch, chunk), verdict in verdicts.items():
        single = report(
            "check", *f"--row-permits {row_permits} --permit-batch {permit_batch} --max-chunk-cost {chunk}".split()
        )[1]
        assert verdict == single["verdict"]
    assert command(*arguments)[1].count("deadlock") == list(verdicts.values()).count("deadlock")


def test_tlc_and_the_explorer_find_the_same_graph(command: Command) -> None:
    code, stdout, _ = command("check", "--model", "tight-live", "--engine", "both")
    assert code == 0
    assert "explorer = tlc" in stdout
    assert "1 as expected, 0 differ" in stdout


def test_a_selected_model_shows_its_counterexample(command: Command) -> None:
    code, stdout, _ = command("check", "--model", "one-above-stuck", "--engine", "explorer")
    assert code == 0  # the model is meant to get stuck
    assert stdout.startswith("1 model of the specification, checked by the explorer alone, as asked\n")
    assert "a shortest run into the violation of NeverStuck" in stdout
    assert "OfferChunk(4)" in stdout


def test_a_pattern_selects_models(command: Command) -> None:
    code, stdout, _ = command("check", "--model", "stop-and-wait-w*", "--model", "tight-live", "--engine", "explorer")
    assert code == 0
    assert "2 as expected, 0 differ" in stdout


def test_a_system_without_a_look_shows_its_variables(command: Command) -> None:
    code, stdout, _ = command("check", "--model", "stop-and-wait-waits", "--engine", "explorer")
    assert code == 0
    head, *_, last = (line.split() for line in stdout.split("Probe:\n")[1].splitlines() if line.strip())
    assert head == ["step", "action", "offered", "consumed", "waiting", "free", "wire", "inbox", "answers"]
    assert last == ["3", "Offer", "0", "0", "<<0>>", "0", "<<0>>", "<<>>", "0"]


@pytest.fixture
def seeded(repository: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str, str], None]:
    """Replace a text in a copy of the specification, and let the command line read that copy."""

    def seed(old: str, new: str) -> None:
        shutil.copytree(repository / "spec", tmp_path, dirs_exist_ok=True)
        manifest = (tmp_path / "permit_channel/models.toml").read_text()
        assert old in manifest
        (tmp_path / "permit_channel/models.toml").write_text(manifest.replace(old, new, 1))
        monkeypatch.setattr(permitflow_model.manifest, "find_spec_directory", lambda: tmp_path)

    return seed


def test_a_model_that_comes_out_otherwise_fails_and_is_named(
    command: Command, seeded: Callable[[str, str], None]
) -> None:
    model = read_manifest()["published"]
    seeded(f"states = {model.states}", "states = 4711")
    code, stdout, _ = command("check", "--engine", "explorer", "--model", "published")
    assert code == 1
    assert f"published: explorer: the number of states is {model.states}, the manifest says 4711" in stdout
    assert "0 as expected, 1 differ" in stdout
    seeded("[[model]]", "[[model")
    code, stdout, stderr = command("check")
    assert (code, stdout, "is not TOML" in stderr) == (2, "", True)


def test_without_java_the_explorer_checks_and_says_what_is_left_out(
    command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("JAVA_HOME", "/nowhere")
    code, stdout, _ = command("check", "--model", "published", "--model", "live")
    assert code == 0
    assert "the explorer alone: JAVA_HOME is '/nowhere'" in stdout
    assert "1 as expected, 0 differ, 1 not checked: they need TLC" in stdout
    code, stdout, stderr = command("check", "--engine", "tlc")
    assert (code, stdout, "--engine tlc: JAVA_HOME is '/nowhere'" in stderr) == (2, "", True)


def test_a_check_of_all_models_says_how_to_ask_for_a_channel(command: Command, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("permitflow_model.tlc.check.run_manifest", lambda **_: (outcome for outcome in list[object]()))
    _, stdout, _ = command("check", "--engine", "explorer")
    assert "as asked; for a channel of your own give its --row-permits, or a file\n" in stdout


GRID = str(Path(__file__).resolve().parents[3] / "docs/examples/grid.toml")
# For Spark to be started on a machine that has other things to do, too.
HANG_SECONDS = 600
SMALL = ("--sweep", "row_permits=4", "--sweep", "permit_batch=1,3,9", "--sweep", "max_chunk_cost=1..5:+1")


def test_the_file_of_verdicts_has_a_line_for_each(command: Command, tmp_path: Path) -> None:
    written = tmp_path / "found.csv"
    command("check", GRID, *SMALL, "--explore", "--csv", str(written))
    with written.open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 15
    (stuck,) = [row for row in rows if (row["permit_batch"], row["max_chunk_cost"]) == ("3", "3")]
    assert (stuck["verdict"], stuck["states"], len(stuck["run"].split())) == ("deadlock", "316", 5)


def test_the_map_is_drawn(command: Command, tmp_path: Path) -> None:
    drawing = tmp_path / "map.svg"
    _, stdout, _ = command("check", GRID, *SMALL, "--explore", "--plot", str(drawing))
    assert f"written: {drawing}" in stdout
    content = drawing.read_text()
    for label in ("4 row permits", "live", "deadlock", "the proved line: row permits \N{MINUS SIGN} permit batch + 1"):
        assert f">{label}<" in content


@pytest.mark.long
@pytest.mark.timeout(2 * HANG_SECONDS)
def test_spark_finds_the_same() -> None:
    """In a process of its own: Spark's gateway forks."""
    program = [sys.executable, "-m", "permitflow_tools.cli", "check", GRID, *SMALL, "--explore"]
    environment = {**os.environ, "COLUMNS": "120"}
    here, there = (
        subprocess.run(
            [*program, *more], capture_output=True, text=True, timeout=HANG_SECONDS, env=environment, check=False
        )
        for more in ((), ("--spark", "local[2]"))
    )
    assert (here.returncode, there.returncode) == (1, 1), there.stderr

    def without_seconds(table: str) -> list[list[str]]:
        return [line.split()[:-1] for line in table.splitlines()]  # of which the last column may be wider

    assert without_seconds(there.stdout) == without_seconds(here.stdout)
    assert len(here.stdout.splitlines()) == 17


@pytest.mark.parametrize(("of", "first", "code"), [((), "[upstream]", 1), (("graph",), "arcs", 0)])
def test_a_file_that_the_help_shows_can_be_checked(
    command: Command, tmp_path: Path, of: tuple[str, ...], first: str, code: int
) -> None:
    _, shown, _ = command("check", "--help")
    (text,) = [block for block in re.findall(r"(?:^ {4}.*\n)+", shown, re.MULTILINE) if block.strip().startswith(first)]
    described = tmp_path / "described.toml"
    described.write_text(text)
    assert command("check", *of, str(described))[0] == code


OWN = ("check", "tests.support.own_model:CALLS", "--parameters")


@pytest.mark.parametrize(("parameters", "code", "verdict"), [("FIVE", 0, "live"), ("SIX", 1, "stuck")])
def test_a_model_of_ones_own_ends_the_command_with_its_verdict(
    command: Command, report: Report, parameters: str, code: int, verdict: str
) -> None:
    found, stdout, _ = command(*OWN, parameters)
    assert (found, f"\n{verdict}: " in f"\n{stdout}") == (code, True)
    found, document = report(*OWN, parameters)
    assert (found, document["verdict"], len(document["steps"])) == (code, verdict, 10 * code)


def test_a_deadlock_of_ones_own_model_comes_with_its_false_guards(command: Command, report: Report) -> None:
    _, stdout, _ = command(*OWN, "SIX")
    assert stdout.splitlines()[-2:] == [
        "- reply: state.replies < service.replies is false (2 < 2)",
        "- read: state.sent == service.calls is false (5 == 6)",
    ]
    assert list(report(*OWN, "SIX")[1]["impossible"]) == ["send", "take", "reply", "read"]


def test_what_a_model_of_ones_own_prints_is_no_part_of_the_answer(
    report: Report, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    told = (
        "print('imported')\nSYSTEM = replace(CALLS, initial=lambda service: print('begun') or CALLS.initial(service))"
    )
    imports = "from dataclasses import replace\nfrom tests.support.own_model import CALLS, FIVE\n"
    Path("talkative_model.py").write_text(f"{imports}{told}\n", encoding="utf-8")
    assert report("check", "talkative_model:SYSTEM", "--parameters", "FIVE")[0] == 0


def test_a_model_that_has_the_name_of_another_module_is_named(
    command: Command, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("json.py").touch()
    code, _, told = command("check", "json:SYSTEM")
    assert code == 2
    assert re.search(r"json:SYSTEM: json is \S*/json/__init__\.py, not json\.py of this folder: rename yours", told)

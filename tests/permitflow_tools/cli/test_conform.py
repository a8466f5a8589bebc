"""``permitflow conform``: an adapter that is named, and what is said if there is none."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

from tests.permitflow_tools.cli.conftest import Command

ONE_PLACE = """
import asyncio
from permitflow_testing.examples.queues import QueueChannel

class OnePlace(QueueChannel):
    async def open(self, parameters, record):
        self.queue = asyncio.Queue(1)
"""
QUEUE = "permitflow_testing.examples.queues:QueueChannel"


@pytest.fixture(autouse=True)
def own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command looks for modules in the folder that it runs in; later tests do not."""
    monkeypatch.setattr(sys, "path", [*sys.path])


def test_a_report_counts_rules_that_hold_and_are_broken(command: Command) -> None:
    code, stdout, _ = command("conform", QUEUE, "--rule", "window", "--rule", "cost-is-rows")
    assert code == 1
    assert "breaks rule 'cost-is-rows'" in stdout
    assert f"{QUEUE}: 2 rules, 1 hold, 1 broken, 0 not applicable" in stdout
    assert command("conform", QUEUE, "--rule", "window")[0] == 0


def test_what_an_adapter_prints_is_no_part_of_the_answer(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    imports = "print('imported')\nfrom permitflow_testing.examples.queues import QueueChannel\n"
    Path("talkative_queue.py").write_text(
        f"{imports}class Talks(QueueChannel):\n    def __init__(self): print('made')\n"
    )
    code, stdout, _ = command("conform", "talkative_queue:Talks", "--rule", "window", "--json")
    assert (code, json.loads(stdout)["conforms"]) == (0, True)


def test_another_protocols_rules(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue has room again when a message is taken: the next one leaves too early."""
    (tmp_path / "one_place.py").write_text(ONE_PLACE)
    monkeypatch.chdir(tmp_path)
    ours = "permitflow_testing.examples.our_channels:"
    asked = ("--flow", "demand", "--rule", "requested-when-consumed")

    assert command("conform", f"{ours}LocalChannel", *asked)[0] == 0
    code, stdout, _ = command("conform", f"{ours}make_core_pair", "--pair", "--json", *asked)
    assert (code, json.loads(stdout)["flow"]) == (0, "demand")
    code, stdout, _ = command("conform", "one_place:OnePlace", *asked)

    assert code == 1
    assert "It sends a request when a message is handed over." in stdout
    assert "(Demand.tla:" in stdout


WRONG = "tests.support.wrong_adapters:"
# The watch of the loop is less patient here.
IMPATIENT = """
from permitflow_testing import judge_adapter
judge_adapter.__kwdefaults__["blocked_seconds"] = 0.3
from permitflow_tools.cli import main
main()
"""


@pytest.mark.parametrize(
    ("adapter", "rules", "first", "number"),
    [
        ("Blocks", ["oversize-costs-max-chunk-cost", "none-lost"], "oversize", signal.SIGTERM),
        ("BlocksForGood", ["window"], "sending", signal.SIGINT),
    ],
)
def test_a_signal_ends_what_blocks_after_verdicts_were_printed(
    adapter: str, rules: list[str], first: str, number: signal.Signals
) -> None:
    """The second rule never comes to its end; or the adapter catches even what Ctrl-C raises."""
    command = [sys.executable, "-c", IMPATIENT.replace("0.3", "1000.0"), "conform", f"{WRONG}{adapter}"]
    only = [word for rule in rules for word in ("--rule", rule)]
    blocking = subprocess.Popen([*command, *only], stdout=subprocess.PIPE, text=True)
    assert blocking.stdout is not None
    try:
        while not (line := blocking.stdout.readline()).startswith(first):
            assert line
        blocking.send_signal(number)
        assert blocking.wait(timeout=60) == 128 + number
    finally:
        blocking.kill()
        blocking.communicate()


def test_what_cannot_be_interrupted_ends_with_its_stack(process: Command) -> None:
    code, _, stderr = process("conform", f"{WRONG}BlocksForGood", "--rule", "window", program=IMPATIENT)
    assert code == 1
    assert "blocks the event loop in offer_chunk: nothing else could run for 0.3 s" in stderr
    assert "time.sleep(0.1)" in stderr


def test_the_command_waits_for_no_thread_of_the_adapter(process: Command) -> None:
    code, stdout, _ = process("conform", f"{WRONG}LeavesThreads", "--rule", "cancelled-receive")
    assert code == 1
    assert "cancelled-receive   BREAKS" in stdout


def test_an_adapter_that_cannot_be_opened_is_one_line(
    command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "nowhere.py").write_text(ONE_PLACE.replace("self.queue =", "raise OSError('no such host')  #"))
    monkeypatch.chdir(tmp_path)
    code, stdout, _ = command("conform", "nowhere:OnePlace")
    assert code == 1
    assert stdout.strip() == (
        "nowhere:OnePlace cannot be opened: it raises OSError: no such host (nowhere.py:7, in open); "
        "no rule was checked"
    )


# Drivers in other languages; docs/guides/foreign-implementations.md.

DRIVER = "import json, os, signal, sys, time\n"
STUBBORN = f"""{DRIVER}
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print(os.getpid(), file=open(sys.argv[1], "w"), flush=True)
time.sleep(1000)
"""
NOTHING = f"""{DRIVER}
hello = {{"protocol": 2, "ends": ["sender"], "flows": ["permits"], "lacks": ["barriers"]}}
for line in sys.stdin:
    request = json.loads(line)
    content = {{"ok": hello}} if request["do"] == "hello" else {{"error": "it is not written yet"}}
    print(json.dumps({{"id": request["id"], **content}}), flush=True)
"""


def driver_of(program: str, folder: Path) -> str:
    (folder / "driver.py").write_text(program)
    return f"{sys.executable} -S {folder / 'driver.py'} {folder / 'pid'}"


def test_ctrl_c_ends_a_driver_that_ignores_all_else(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pid")  # reading waits until the driver runs
    run = "from permitflow_tools.command import main; main()"
    words = ("conform", "--command", driver_of(STUBBORN, tmp_path))
    command = subprocess.Popen([sys.executable, "-c", run, *words], stderr=subprocess.PIPE, start_new_session=True)
    try:
        driver = psutil.Process(int((tmp_path / "pid").read_text()))
        command.send_signal(signal.SIGINT)
        assert command.communicate(timeout=60)[1] == b"Error: interrupted\n"
        assert command.returncode == 128 + signal.SIGINT
        driver.wait(timeout=60)
    finally:
        command.kill()
        command.communicate()


def test_a_driver_that_cannot_open_is_one_line(process: Command, tmp_path: Path) -> None:
    code, stdout, _ = process("conform", "--command", driver_of(NOTHING, tmp_path), "--rule", "window")
    assert code == 1
    assert "cannot be opened: your driver answers 'open' with an error: it is not written yet" in stdout
    code, stdout, _ = process("conform", "--command", driver_of(NOTHING, tmp_path), "--rule", "window", "--json")
    assert json.loads(stdout)["ends"][0]["lacks"] == ["barriers"]

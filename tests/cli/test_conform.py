"""``permitflow conform``: an adapter that is named, and what is said if there is none."""

import json
import sys
from pathlib import Path

import pytest

from tests.cli.conftest import Command

ONE_PLACE = """
import asyncio
from permitflow.testing.kit.examples.queues import QueueChannel

class OnePlace(QueueChannel):
    async def open(self, parameters, record):
        self.queue = asyncio.Queue(1)
"""
QUEUE = "permitflow.testing.kit.examples.queues:QueueChannel"


@pytest.fixture(autouse=True)
def own_path(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command looks for modules in the folder that it runs in; later tests do not."""
    monkeypatch.setattr(sys, "path", [*sys.path])


def test_a_rule_that_holds_and_one_that_is_broken(command: Command) -> None:
    code, stdout, _ = command("conform", QUEUE, "--rule", "window", "--rule", "cost-is-rows")
    assert code == 1
    assert "breaks rule 'cost-is-rows'" in stdout
    assert f"{QUEUE}: 2 rules, 1 hold, 1 broken, 0 not applicable" in stdout
    assert command("conform", QUEUE, "--rule", "window")[0] == 0


def test_another_protocols_rules(command: Command, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A queue answers when a message is taken: the next one leaves too early."""
    (tmp_path / "one_place.py").write_text(ONE_PLACE)
    monkeypatch.chdir(tmp_path)
    ours = "permitflow.testing.kit.examples.our_channels:"
    asked = ("--flow", "stop-and-wait", "--rule", "answered-when-consumed")

    assert command("conform", f"{ours}LocalChannel", *asked)[0] == 0
    code, stdout, _ = command("conform", f"{ours}make_core_pair", "--pair", "--json", *asked)
    assert (code, json.loads(stdout)["flow"]) == (0, "stop-and-wait")
    code, stdout, _ = command("conform", "one_place:OnePlace", *asked)

    assert code == 1
    assert "It sends an answer when a message is handed over." in stdout
    assert "(StopAndWait.tla:" in stdout

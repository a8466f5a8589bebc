"""The table of attacks is what was measured."""

import json
from pathlib import Path

from tests.hostile.attacks import NAMES
from tests.hostile.measuring import Result
from tools import security_table


def test_the_document_has_what_was_measured(repository: Path) -> None:
    text = (repository / "docs/security.md").read_text("utf-8")
    assert security_table.page(text) == text, "python -m tools.security_table"


GRPC_PARSES_THEM = {"gRPC: headers of 200 kB", "gRPC: pings and settings"}
"""What may miss a promise: gRPC reads these in threads of its own, before it refuses them or for ever."""


def test_each_attack_was_measured_and_kept_the_promises() -> None:
    found = json.loads(security_table.RESULTS.read_text("utf-8"))["attacks"]
    assert [each["attack"] for each in found] == list(NAMES)
    assert {each["attack"] for each in found if not Result(**each).is_well} <= GRPC_PARSES_THEM

"""The copy of the code to which recording is compared is the same code, and asks nothing."""

import dis
import sys
from types import ModuleType

from benchmarks.recording_off import IN_A_PROCESS, USES, loaded, measure_recording_off, without_questions

ACTIONS = ("offer_chunk", "send_chunk", "add_permits", "deliver", "flush", "_consume", "_note_arrivals")


def names_in(package: ModuleType) -> set[str]:
    """What the actions of both ends look up."""
    ends = package.protocol.sender.PermitSender, package.protocol.receiver.PermitReceiver
    actions = [getattr(end, action) for end in ends for action in ACTIONS if hasattr(end, action)]
    return {str(instruction.argval) for action in actions for instruction in dis.get_instructions(action)}


def test_the_copy_asks_for_no_recorder_and_does_the_same() -> None:
    before = dict(sys.modules)
    with loaded(None) as asking, loaded(without_questions) as silent:
        assert "_record" in names_in(asking)
        assert "_record" not in names_in(silent)
        for run in USES.values():
            run(silent, 10)
    assert {name for name in sys.modules if name.startswith("permitflow")} == {
        name for name in before if name.startswith("permitflow")
    }
    assert all(sys.modules[name] is module for name, module in before.items())


def test_both_copies_are_measured() -> None:
    costs = measure_recording_off(2, is_smoke=True)
    assert next(cost.use for cost in costs) == IN_A_PROCESS
    both = [series for cost in costs for series in (cost.nanoseconds, cost.nanoseconds_without_questions)]
    assert all(series.low > 0 for series in both)

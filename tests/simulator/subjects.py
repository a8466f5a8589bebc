"""What can be simulated, by name."""

from collections.abc import Callable, Mapping
from importlib import import_module

from tests.simulator.outcome import Outcome

_PLACES = {"streams": "tests.simulator.streams:run_seed"}
"""A function of a seed, and of whether it is to keep a story; imported on first use."""

SUBJECTS = tuple(_PLACES)

Run = Callable[[int, bool], Outcome]

SOMETIMES: Mapping[str, tuple[str, ...]] = {
    "streams": (
        "cut",
        "half-close",
        "silence",
        "flip",
        "part",
        "pause",
        "crash",
        "power",
        "producer ends",
        "consumer ends",
        "producer PeerGoneError",
        "consumer PeerGoneError",
        "consumer ChannelAbortedError",
        "producer AlteredMessageError",
        "WithdrawChunk",
        "Flush",
    ),
}
"""Of each subject: what 10,000 schedules must have shown, or they do not try what they are for."""


def run_of(subject: str) -> Run:
    """How to run a seed of this subject."""
    module, _, name = _PLACES[subject].partition(":")
    run: Run = getattr(import_module(module), name)
    return run

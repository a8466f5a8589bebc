"""The models that `make test` gives to TLC: the others are for `make test-all`, and for `permitflow check`."""

from collections.abc import Iterable

import pytest

# As few and as small as can be, with each action of each module in their graphs; TLC's start is nearly all that each
# takes.
COMPARED = {
    *("conflate", "demand-full-batches", "drop-youngest", "grpc-call-in-order", "gate-aborts", "chain", "mute"),
    *("mute-newcomer", "mute-delay-lossy", "mute-scheduler-helped", "barriers-in-line", "watermarks", "flush-idle"),
    *(
        "queue",
        "ports",
        "window-two",
        "spark-memory-expiry",
        "spark-published-beyond-the-window",
        "squelch-lossy",
    ),
    *("stop-and-wait", "token-bucket-slowdowns", "echo", "feedback-drops", "diamond", "lossy-quiet"),
    *("lossy-reconnects", "byte-window", "adaptive-window", "adaptive-gate", "adaptive-gate-aborts"),
    *("withdrawing-gate-lost", "withdrawing-gate-own"),
    *(
        "hash-dispatch",
        "store-owner",
        "store-journal-lost",
        "bridge-one",
        "fan-in-one",
        "fan-in-unread",
        "staging-small",
        "direct-small",
        "kept-small",
        "named-small",
        "mute-links",
        "stages-line",
        "resume-gives-up",
        "life-resumes",
    ),
}
# A verdict of each kind, and one module of each kind that extends others.
JUDGED = {
    *("one-above-deadlock", "live-unfair-send-chunk", "probe-row-bound-attained", "grant-messages-final"),
    *("watermark-place", "refines-queue", "grpc-call-wake-up-lost"),
}
SAMPLE = COMPARED | JUDGED


def by_model(names: Iterable[str]) -> pytest.MarkDecorator:
    """A case for each model; those that are not in the sample take long."""
    marked = [pytest.param(name, marks=() if name in SAMPLE else pytest.mark.long) for name in names]
    return pytest.mark.parametrize("model_name", marked)

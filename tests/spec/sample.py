"""The models that `make test` gives to TLC: the others are for `make test-all`, and for `permitflow check`."""

from collections.abc import Iterable

import pytest

# As few and as small as can be, with each action of each module in their graphs; TLC's start is nearly all that each
# takes.
COMPARED = {
    *("conflate", "demand-full-batches", "drop-youngest", "grpc-call-in-order", "gate-aborts", "chain", "mute"),
    *("mute-newcomer", "mute-delay-lossy", "mute-scheduler-helped", "barriers-in-line", "watermarks", "flush-idle"),
    *("queue", "ports", "window-two", "spark-memory-exchange", "spark-published-beyond-the-window", "squelch-lossy"),
    *("stop-and-wait", "token-bucket-slowdowns", "echo", "feedback-drops", "diamond", "lossy-quiet"),
    *("lossy-reconnects", "byte-window", "adaptive-window", "adaptive-gate", "adaptive-gate-aborts"),
    *("hash-dispatch", "store-owner", "stages-line", "resume-gives-up", "life-resumes"),
}
# A verdict of each kind, and what only modules that extend others say.
JUDGED = {
    *("one-above-deadlock", "watermark-place", "live-unfair-send-chunk", "grant-messages-final"),
    *("mute-counter-doubled", "probe-row-bound-attained", "refines-queue", "spark-memory-fails", "lossy-refines-queue"),
    *("resume-refines-queue", "byte-window-refines-queue", "adaptive-window-refines-queue", "stop-and-wait-is-demand"),
    *("chain-is-demands", "grpc-call-wake-up-lost", "mute-scheduler-wake-up-lost"),
}
SAMPLE = COMPARED | JUDGED


def by_model(names: Iterable[str]) -> pytest.MarkDecorator:
    """A case for each model; those that are not in the sample take long."""
    marked = [pytest.param(name, marks=() if name in SAMPLE else pytest.mark.long) for name in names]
    return pytest.mark.parametrize("model_name", marked)

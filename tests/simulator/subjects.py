"""What can be simulated, by name."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import import_module
from typing import Final

from tests.simulator.outcome import Outcome

Run = Callable[[int, bool], Outcome]


@dataclass(frozen=True)
class Subject:
    """Something that is simulated."""

    place: str
    """A function of a seed, and of whether it is to keep a story; imported on first use."""
    title: str
    told: str
    """What ran, and who judged it."""
    sometimes: tuple[str, ...]
    """What 10,000 schedules must have shown, or they do not try what they are for."""
    promises: tuple[str, ...]
    """That were judged."""


_IN_ORDER: Final = "rows come in order, each once"
_STEPS: Final = "each step is one of the specification's"
_WHOLE: Final = "an end that is seen is the end of everything that was sent"
_CONSUMED: Final = "if a producer hears that all was consumed, it was"
_RESUMES: Final = "a stream that resumes survives cuts, silence, partitions and stopped processes"
_ALL_END: Final = "everybody comes to an end after the last fault, and leaves no task and no socket behind"
_ERRORS: Final = "what fails says why, by an error of this library"

SUBJECTS: Final[Mapping[str, Subject]] = {
    "streams": Subject(
        "tests.simulator.streams:run_seed",
        "Simulated streams",
        "Producers, an exchange and a consumer: the whole production code over TCP, a fifth of the schedules over UDP, "
        "on simulated event loops, sockets and clocks. Each seed draws parameters, how applications send and receive, "
        "latencies, short reads and writes, and which faults come between which two callbacks. The model judges each "
        "step as it happens.",
        (
            "cut",
            "half-close",
            "silence",
            "flip",
            "part",
            "pause",
            "crash",
            "power",
            "over UDP",
            "producer ends",
            "consumer ends",
            "producer PeerGoneError",
            "consumer PeerGoneError",
            "consumer ChannelAbortedError",
            "producer AlteredMessageError",
            "WithdrawChunk",
            "Flush",
        ),
        (_IN_ORDER, _WHOLE, _CONSUMED, _STEPS, _RESUMES, _ALL_END, _ERRORS),
    ),
    "kept": Subject(
        "tests.simulator.kept:run_seed",
        "Simulated channels that keep rows",
        "Named producers, a writer of staged batches, consumers and an exchange with a store on a simulated disk, "
        "which loses what was not flushed, tears writes, fills up, becomes read-only, is slow, and fails to flush. "
        "Processes die at any await, clocks jump, and all go on as their users do. The model judges each step as it "
        "happens.",
        (
            "client",
            "clock",
            "crash",
            "cut",
            "flush",
            "forgotten",
            "full",
            "part",
            "pause",
            "power",
            "published",
            "published before",
            "read-only",
            "silence",
            "slow disk",
            "gave up in the exchange",
            "gave up publishing",
            "producer ProducerReplacedError",
        ),
        (
            "each row once, in the order of its producer",
            _STEPS,
            "what the exchange has told stays: counts of rows, positions, published batches",
            "a published batch is there as a whole, once",
            "a store opens after any crash",
            "everybody comes to an end after the last fault",
        ),
    ),
    "gate": Subject(
        "tests.simulator.gate:run_seed",
        "Simulated gates",
        "Two or three producers, an exchange, and a consumer whose gate aligns their barriers, under the faults of "
        "simulated streams. The model judges each input as it goes, and all of them together in the end.",
        (
            "aligned",
            "aligned without an input that has ended",
            "judged together",
            "stalled",
            "withdrawn",
            "consumer ends",
            "consumer InputLostError",
            "cut",
            "crash",
            "pause",
        ),
        (
            _IN_ORDER,
            "an aligned barrier stands behind all rows that were sent before it, and before all others",
            "the credit of a gate's pool is neither lost nor made",
            _WHOLE,
            _CONSUMED,
            _STEPS,
            _RESUMES,
            _ALL_END,
            _ERRORS,
        ),
    ),
    "mute": Subject(
        "tests.simulator.mute:run_seed",
        "Simulated muted pipelines",
        "A word count: a log, senders over plain TCP, one or two workers of the package's own program, readers, and a "
        "log that acknowledges in batches. Workers die at any callback and in the middle of saving, disks fill up, "
        "lines are cut, fall silent or are altered, readers stand still. The model judges what each process knows "
        "and tells, whenever it has settled.",
        (
            "muted",
            "unmuted",
            "stalled",
            "dials",
            "lost",
            "unsaved",
            "crash",
            "cut",
            "flip",
            "full",
            "half-close",
            "part",
            "pause",
            "silence",
            "stand still",
            "cut while held",
            "exact",
            "words are lost",
            "a sender is told of a loss",
            "Settle",
            "Evaluate",
            "Bound",
        ),
        (
            "each word of a log is counted once, whatever dies; one of a sender, if its worker lives",
            "what a log was told is safe, is saved",
            "readers, and logs that counts go to, have the last counts in the end",
            "a source that is muted does not read, and is muted by exactly those that mute",
            "who has heard that a sink of another process mutes does not read meanwhile, whichever lines are lost",
            "what waits at a boundary, and between senders and readers, has its bound",
            _ALL_END,
        ),
    ),
}


def run_of(subject: str) -> Run:
    """How to run a seed of this subject."""
    module, _, name = SUBJECTS[subject].place.partition(":")
    run: Run = getattr(import_module(module), name)
    return run

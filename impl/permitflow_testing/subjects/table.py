"""The subjects of protocols by the protocols' names in recordings."""

from collections.abc import Callable, Mapping

from permitflow.errors import TraceMismatchError
from permitflow.tracing.reader import RecordedChannel
from permitflow_testing.subjects import Subject


def _demand() -> Subject:
    from permitflow_testing.subjects.demand import SUBJECT

    return SUBJECT


def _input_gate() -> Subject:
    from permitflow_testing.subjects.input_gate import SUBJECT

    return SUBJECT


def _permits() -> Subject:
    from permitflow_testing.subjects.permits import SUBJECT

    return SUBJECT


def _squelch() -> Subject:
    from permitflow_testing.subjects.squelch import SUBJECT

    return SUBJECT


SUBJECTS: Mapping[str, Callable[[], Subject]] = {
    "demand": _demand,
    "gate": _input_gate,
    "permits": _permits,
    "squelch": _squelch,
}
"""Protocols whose recorded runs can be judged; a subject is imported on first use."""


def subject_of(channel: RecordedChannel) -> Subject:
    """The protocol that was recorded.

    Raises:
        TraceMismatchError: nothing is known of it, or it tells other things than are known.
    """
    flow = channel.table.flow
    if flow not in SUBJECTS:
        raise TraceMismatchError(channel=channel.channel, reason=f"no model of the protocol {flow!r} is known")
    subject = SUBJECTS[flow]()
    if subject.table != channel.table:
        raise TraceMismatchError(channel=channel.channel, reason=f"it tells other things than the model of {flow!r}")
    return subject

"""The subjects of protocols by the protocols' names in recordings."""

from collections.abc import Mapping

from permitflow.errors import TraceMismatchError
from permitflow.tracing.reader import RecordedChannel
from permitflow_testing.subjects import Subject, demand, input_gate, permits, squelch

SUBJECTS: Mapping[str, Subject] = {
    "demand": demand.SUBJECT,
    "gate": input_gate.SUBJECT,
    "permits": permits.SUBJECT,
    "squelch": squelch.SUBJECT,
}
"""Protocols whose recorded runs can be judged."""


def subject_of(channel: RecordedChannel) -> Subject:
    """The protocol that was recorded.

    Raises:
        TraceMismatchError: nothing is known of it, or it tells other things than are known.
    """
    flow = channel.table.flow
    if flow not in SUBJECTS:
        raise TraceMismatchError(channel=channel.channel, reason=f"no model of the protocol {flow!r} is known")
    subject = SUBJECTS[flow]
    if subject.table != channel.table:
        raise TraceMismatchError(channel=channel.channel, reason=f"it tells other things than the model of {flow!r}")
    return subject

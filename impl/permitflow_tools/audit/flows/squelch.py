"""The laws of a squelched channel: its inbox, what its receiver has told, and that a stopped sender sends nothing.

Spec: the updates of inbox, told and since; Bounded, Send, IsOnDue.
"""

import numpy as np

from permitflow.flows.squelch.core import SQUELCH_ACTIONS, SquelchParameters
from permitflow_tools.audit.columns import Events, Integers, Marks
from permitflow_tools.audit.findings import Clause
from permitflow_tools.audit.laws import Before, Counter, Laws, Line, Order, Rule

SILENT_WHILE_STOPPED = "SilentWhileStopped"
"""A sender that has heard that it must stop sends nothing."""

TOLD_WHEN_DUE = "ToldWhenDue"
"""The receiver tells the sender to stop above the high watermark, and to go on at the low one."""


def _sent_while_stopped(events: Events, before: Before) -> Marks:
    (heard_off,) = before.counters
    sent: Marks = events.is_any(["Send"]) & before.known & (heard_off != 0)
    return sent


def _told_too_early(events: Events, before: Before) -> Marks:
    inbox, told_off, since = before.counters
    is_off_due = np.where(
        told_off != 0,
        (since >= events.limit("repeat")) & (inbox > events.limit("low")),
        inbox > events.limit("high"),
    )
    is_on_due = (told_off != 0) & (inbox <= events.limit("low"))
    early: Marks = (events.is_any(["TellOff"]) & ~is_off_due) | (events.is_any(["TellOn"]) & ~is_on_due)
    return early & before.known


def _heard(events: Events, heard_off: Integers) -> Integers:
    """A recording does not say which signal was heard, but what the sender knows then."""
    return np.where(events.is_any(["Hear"]), events.counters[0], heard_off)


def _told(events: Events, told_off: Integers) -> Integers:
    told_on = np.where(events.is_any(["TellOn", "Remind"]), 0, told_off)
    return np.where(events.is_any(["TellOff"]), 1, told_on)


def _since(events: Events, since: Integers) -> Integers:
    """A signal to stop begins to count, or takes ``repeat`` messages off; the recording says which."""
    _, told_off, counted = events.counters
    told = np.where(events.is_any(["TellOff"]), counted, np.where(events.is_any(["TellOn"]), 0, since))
    counted_on: Integers = told + (events.is_any(["Deliver"]) & (told_off != 0))
    return counted_on


LAWS = Laws(
    table=SQUELCH_ACTIONS,
    parameters=SquelchParameters,
    counters={
        "sender": [Counter(most=1, steps={}, settled=_heard)],
        "receiver": [
            Counter(most="capacity", steps={"Deliver": 1, "Consume": -1}),
            Counter(most=1, steps={}, settled=_told),
            Counter(steps={}, settled=_since),
        ],
    },
    rules=[
        Rule(SILENT_WHILE_STOPPED, _sent_while_stopped, "sender"),
        Rule(TOLD_WHEN_DUE, _told_too_early, "receiver"),
    ],
    lines=[Line("message", {"Offer": 1, "Withdraw": -1, "Send": -1})],
    order=Order(sent=["Send"], delivered=["Deliver"], consumed=["Consume"]),
    words={
        SILENT_WHILE_STOPPED: "a sender that was told to stop sends nothing",
        TOLD_WHEN_DUE: "the sender is told to stop above the high watermark, and to go on at the low one",
        Clause.BOUNDED: "no more messages are here than the receiver has places for",
    },
)

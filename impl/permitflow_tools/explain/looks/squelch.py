"""Words for the false guards of squelch."""

from collections.abc import Callable, Mapping

from permitflow_model.squelch import SYSTEM
from permitflow_tools.explain.look import Look

WORDS: Mapping[str, Callable[..., str]] = {
    "state.waiting < parameters.waiters": lambda size, most: f"{size:,} wait, and no more than {most:,} may",
    "state.waiting > 0": lambda _waiting, _none: "nothing waits",
    "state.heard == ON": lambda _heard, _on: "the sender has heard that it must stop",
    "state.sent < parameters.rate": lambda _sent, rate: f"{rate:,} have left in this tick, and more may not",
    "not is_late(state, parameters)": lambda: "something is late, and arrives before anything else happens",
    "not is_off_due(state, parameters)": lambda: "the receiver tells first that the sender must stop",
    "not is_on_due(state, parameters)": lambda: "the receiver tells first that the sender may go on",
    "state.lost < parameters.losses": lambda _lost, most: f"{most:,} signals were lost, and more may not be",
    "not state.signals.is_empty()": lambda: "no signal is in flight",
    "state.wire > 0": lambda _wire, _none: "nothing is on the wire",
    "state.inbox > 0": lambda _inbox, _none: "the inbox is empty",
    "is_off_due(state, parameters)": lambda: "the inbox is not above its watermark, or the sender was told",
    "is_on_due(state, parameters)": lambda: "the sender was not told to stop, or the inbox is above the low watermark",
    "parameters.reminders": lambda: "this receiver reminds nobody",
    "state.told == ON": lambda _told, _on: "the receiver has told the sender to stop",
    "state.heard == OFF": lambda _heard, _off: "the sender knows that it may go on",
    "state.wire == 0": lambda wire, _none: f"{wire:,} on the wire: the time-out is not over",
    "state.signals.is_empty()": lambda: "a signal is in flight: the time-out is not over",
}


LOOK = Look(
    SYSTEM,
    words=WORDS,
    beginning="The beginning: nothing has been offered, and the sender may send.",
    at_rest="everything has been consumed, and the sender may send",
)

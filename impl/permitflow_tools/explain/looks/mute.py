"""Mute, node by node, and words for the false guards."""

from collections.abc import Callable, Mapping
from typing import Any

from permitflow_model.mute import SYSTEM
from permitflow_tools.explain.look import Look

_NO_SIGNAL = "no signal is on its way"
_NO_MORE = "connections are made anew no more often"

WORDS: Mapping[str, Callable[..., str]] = {
    "is_at_rest(state, parameters)": lambda: "a source has something to send",
    "parameters.is_source(node)": lambda: "it is not a source",
    "not source.here": lambda: "the source is here already",
    "parameters.disposals and name <= parameters.sinks": lambda: "sinks do not leave here",
    "not state.sinks.get(name - 1).gone": lambda: "the sink has left",
    "parameters.clears and name <= parameters.sinks": lambda: "sinks do not drop their queues here",
    "sink.inbox > 0": lambda _inbox, _none: "the queue of the sink is empty",
    "state.remade < parameters.remakes": lambda _remade, _most: _NO_MORE,
    "not in_flight(state, up, down).is_empty()": lambda: _NO_SIGNAL,
    "not signals.is_empty()": lambda: _NO_SIGNAL,
    "parameters.is_source(node) and name <= parameters.sinks and parameters.leads(node, name)": lambda: (
        "it is not a source of this sink"
    ),
    "source.here": lambda: "the source has not come yet",
    "not is_muted(source)": lambda: "the source is muted",
    "source.left > 0": lambda _left, _none: "the source has sent all that it has",
    "not sink.gone": lambda: "the sink has left",
    "name <= parameters.sinks": lambda _name, _sinks: "it is not a sink",
    "sink.wire > 0": lambda _wire, _none: "no message is in flight",
}


class MuteLook(Look):
    """Sinks come first, then relays, then sources; behind a mute or an unmute stands its epoch."""

    def variables(self, state: Any) -> dict[str, str]:
        """As in the specification, but each node in words."""
        names = self._names(state)
        first = len(names) - len(tuple(state.sources))
        sources = (
            f"{names[first + number]}: {each.left} to send{', muted' if any(each.holds) else ''}"
            f"{'' if each.here else ', not here yet'}"
            for number, each in enumerate(state.sources)
        )
        sinks = (
            f"{names[number]}: {each.wire} in flight, {each.inbox} in its queue{', has left' if each.gone else ''}"
            for number, each in enumerate(state.sinks)
        )
        sink_count = len(tuple(state.sinks))
        heard = (
            f"{name} has {'told' if number < sink_count else 'heard'}: {', '.join(map(_word, epochs))}"
            for number, (name, epochs) in enumerate(zip(names, state.heard, strict=True))
        )
        signals = [
            f"{sender} to {receiver}: {', '.join(_word(each.epoch) for each in queue)}"
            for receiver, queues in zip(names, state.signals, strict=True)
            for sender, queue in zip(names, queues, strict=True)
            if not queue.is_empty()
        ]
        told = {"sources": sources, "sinks": sinks, "heard": heard, "signals": signals or ["none"]}
        return {**{name: " | ".join(parts) for name, parts in told.items()}, "remade": f"{state.remade}"}

    def changes(self, before: Any, state: Any) -> str:
        """Only the parts that have changed: each names its nodes."""
        old, new = (
            {part for text in self.variables(each).values() for part in text.split(" | ")} for each in (before, state)
        )
        parts = (part for text in self.variables(state).values() for part in text.split(" | "))
        told = [part for part in parts if part in new - old and ": " in part]
        if "none" in new - old:
            told.append("no signal is on its way")
        return "; ".join(told)

    @staticmethod
    def _names(state: Any) -> list[str]:
        count, sinks = len(tuple(state.heard)), len(tuple(state.sinks))
        first = count - len(tuple(state.sources))
        return [
            f"{'sink' if number < sinks else 'relay' if number < first else 'source'} {number + 1}"
            for number in range(count)
        ]


def _word(epoch: int) -> str:
    return f"{'mute' if epoch % 2 else 'unmute'} ({epoch})" if epoch else "nothing"


LOOK = MuteLook(SYSTEM, words=WORDS, beginning="The beginning: nobody mutes.", at_rest="everything has been sent")

"""The gate, input by input: waiting, travelling and stored messages, and grants; empty parts are left out."""

from itertools import groupby
from typing import Any

from permitflow_model.input_gate import RESUME, REVOKE, SYSTEM, Channel, Item
from permitflow_tools.explain.look import Look

_WORDS = {RESUME: "resume", REVOKE: "resume without credit"}


def _items(items: Any) -> str:
    """Runs of one kind together: 3 data, barrier, data."""
    told = ((item, len([*same])) for item, same in groupby(map(_item, items)))
    return ", ".join(item if count == 1 else f"{count:,} {item}" for item, count in told)


def _item(item: Item) -> str:
    return f"backlog {item.backlog:,}" if item.kind == "backlog" else item.kind


def _credit(channel: Channel) -> str:
    """Where it is, and the words behind which it travels."""
    coming = sum(grant for grant in channel.grants if grant > 0)
    here = f"{channel.credit:,} at the sender" if channel.credit else ""
    on_its_way = f"{coming:,} on its way" if coming else ""
    void = "void" if channel.released and (here or on_its_way) else ""
    return ", ".join(part for part in (here, on_its_way, void) if part)


def _channel(channel: Channel, awaited: str) -> str:
    """In the order of the way that data takes, and back; ``awaited`` are the inputs for which the blocked ones wait."""
    parts = {
        "waiting": _items(channel.waiting),
        "ends": channel.closed and not channel.over,
        "credit": _credit(channel),
        "stopped": channel.stopped,
        "wire": _items(channel.wire),
        "inbox": _items(channel.inbox),
        "blocked": channel.blocked and (f"by {awaited}" if awaited else True),
        "floating": channel.borrowed,
        "free": channel.free,
        "told to": ", ".join(_WORDS[grant] for grant in channel.grants if grant in _WORDS),
        "over": channel.over,
    }
    return "; ".join(name if value is True else f"{name} {value}" for name, value in parts.items() if value)


class InputGateLook(Look):
    """A column for each input."""

    def row(self, state: Any) -> dict[str, str]:
        """The pool, what is there of each input, and who blocks it."""
        awaited = [f"input {name}" for name, each in enumerate(state.channels) if not (each.blocked or each.over)]
        by = ", ".join(awaited)
        inputs = {f"input {name}": _channel(channel, by) for name, channel in enumerate(state.channels)}
        return {"pool": f"{state.pool:,}" + ("; the gate has failed" if state.failed else ""), **inputs}

    def variables(self, state: Any) -> dict[str, str]:
        """As in the specification, but for the channels: they are told as in a row."""
        _, *inputs = self.row(state).items()
        told = " | ".join(f"{name}: {parts or 'nothing'}" for name, parts in inputs)
        return {**super().variables(state), "channels": told}


LOOK = InputGateLook(
    SYSTEM,
    beginning="The beginning: nothing has been offered.",
    at_rest="everything that may be consumed has been consumed",
)

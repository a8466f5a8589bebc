"""The gate, input by input: waiting, travelling and stored messages, and grants; empty parts are left out."""

from typing import Any

from permitflow.pictures.look import Look
from permitflow_model.input_gate import RESUME, REVOKE, SYSTEM, Channel, Item

_WORDS = {RESUME: "resume", REVOKE: "resume without credit"}


def _items(items: Any) -> str:
    """Runs of one kind together: 3 data, barrier, data."""
    told: list[tuple[str, int]] = []
    for item in map(_item, items):
        if told and told[-1][0] == item:
            told[-1] = (item, told[-1][1] + 1)
        else:
            told.append((item, 1))
    return ", ".join(item if count == 1 else f"{count:,} {item}" for item, count in told)


def _item(item: Item) -> str:
    return f"backlog {item.backlog:,}" if item.kind == "backlog" else item.kind


def _channel(channel: Channel) -> str:
    """In the order of the way that data takes, and back."""
    grants = ", ".join(_WORDS.get(grant, f"{grant:,}") for grant in channel.grants)
    parts = {
        "waiting": _items(channel.waiting),
        "credit": channel.credit,
        "stopped": channel.stopped,
        "wire": _items(channel.wire),
        "inbox": _items(channel.inbox),
        "blocked": channel.blocked,
        "floating": channel.borrowed,
        "free": channel.free,
        "granted": grants,
    }
    return "; ".join(name if value is True else f"{name} {value}" for name, value in parts.items() if value)


class InputGateLook(Look):
    """A column for each input."""

    beginning = "The beginning: nothing has been offered."
    at_rest = "everything that may be consumed has been consumed"

    def row(self, state: Any) -> dict[str, str]:
        """The pool, and the non-empty parts of each input."""
        inputs = {f"input {name}": _channel(channel) for name, channel in enumerate(state.channels)}
        return {"pool": f"{state.pool:,}", **inputs}


LOOK = InputGateLook(SYSTEM)

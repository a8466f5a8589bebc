"""The looks of systems by their TLA+ modules: words for false guards, and how the values of some are shown."""

from collections.abc import Callable, Mapping
from functools import cache
from itertools import groupby
from typing import Any

from permitflow_model import (
    demand,
    grpc_call,
    input_gate,
    input_gate_credit,
    lossy_channel,
    resume,
    spark_micro_batch,
    squelch,
)
from permitflow_model.registry import systems
from permitflow_tools.explain.look import Look
from permitflow_tools.explain.looks.mute import LOOK as MUTE
from permitflow_tools.explain.looks.permit_channel.look import LOOK as PERMIT_CHANNEL

Words = Mapping[str, Callable[..., str]]

_DEMAND: Words = {
    "state.credit > 0": lambda _credit, _none: "no message is requested",
    "state.withheld > 0": lambda _withheld, _none: "nothing is withheld",
    "count <= state.requests": lambda _count, requests: (
        f"requests for {requests:,} messages are on their way" if requests else "no request is on its way"
    ),
}

_GRPC_CALL: Words = {
    "state.producer == 'open'": lambda producer, _open: f"the producer has ended: {producer}",
    "state.asked > 0": lambda _asked, _none: "the producer is not asked: the stage holds a message",
    "parameters.breaks": lambda: "this call is not broken off",
    "state.consumer == 'open'": lambda consumer, _open: f"the consumer has ended: {consumer}",
    "not state.wanted": lambda: "the consumer asks already",
    "not state.edge": lambda: "the stage will be told already",
    "state.edge": lambda: "the call has not become ready",
    "not state.local.is_empty()": lambda: "the local queue is empty",
    "fits(state.local.head(), state, parameters)": lambda: "the window has no room for the next message",
    "state.consumer == 'cancelled'": lambda _consumer, _cancelled: "the consumer has not cancelled",
    "state.producer == 'open' or state.producer == 'completed'": lambda: "the producer knows of the end",
    "not state.wire.is_empty()": lambda: "the window is empty",
    "state.requested > 0": lambda _requested, _none: "the receiver has requested no more",
    "state.wanted": lambda: "the consumer does not ask",
    "not state.inbox.is_empty()": lambda: "nothing was handed over",
    "state.closed": lambda: "the call is not half-closed",
    "state.producer == 'completed'": lambda _producer, _completed: "the producer has not completed",
    "state.producer == 'failed'": lambda _producer, _failed: "the producer has not failed",
    "state.local.is_empty()": lambda: "messages wait in the local queue",
    "state.wire.is_empty()": lambda: "messages are in the window",
    "state.inbox.is_empty()": lambda: "messages were handed over and not taken",
}

_STOPPED = "the sender has stopped behind its barrier"
_FAILED = "the gate has failed"
_RELEASED = "its barrier has taken its buffers back"
_SKIPS_NONE = "no barrier is left out here"

_GATE: Words = {
    "has_room(channel, parameters)": lambda: "as much waits as may wait",
    "1 <= skipped <= parameters.skip": lambda *_: _SKIPS_NONE,
    "parameters.ends": lambda: "inputs do not end here",
    "not state.channels.get(name).closed": lambda: "the input has ended",
    "parameters.losses": lambda: "no input is lost here",
    "not channel.over": lambda: "the input is over",
    "state.failed or state.channels.every(is_over)": lambda: "not all inputs are over",
    "starts(channel.waiting, 'data')": lambda: "no data is first in line",
    "starts(channel.waiting, 'barrier')": lambda: "no barrier is first in line",
    "not channel.stopped": lambda: _STOPPED,
    "channel.credit > 0": lambda *_: "the sender has no credit",
    "parameters.exclusive == 0": lambda _exclusive, _none: "no backlog is announced here",
    "channel.credit == 0": lambda credit, _: f"the sender has {credit:,} credit, and its data tells the backlog",
    "channel.announced < backlog": lambda *_: "the gate knows the backlog",
    "not channel.grants.is_empty()": lambda: "nothing is on its way to the sender",
    "grant > 0": lambda *_: "a word to resume arrives first",
    "word <= RESUME": lambda *_: "credit arrives first",
    "not channel.wire.is_empty()": lambda: "nothing is in flight",
    "not state.failed": lambda: _FAILED,
    "not channel.blocked": lambda: "the input is blocked: its barrier was consumed",
    "starts(channel.inbox, 'data')": lambda: "no data is next in the inbox",
    "starts(channel.inbox, 'barrier')": lambda: "no barrier is next in the inbox",
    "parameters.epochs == 0 or parameters.skip == 0 or number + 1 < parameters.epochs": lambda: (
        "there are no more numbers for barriers"
    ),
    "number == state.epoch or (number > state.epoch and (not pending))": lambda: "the barrier is not the pending one",
    "parameters.skip > 0": lambda *_: _SKIPS_NONE,
    "is_pending(state)": lambda: "no barrier is pending",
    "number > state.epoch": lambda *_: "the barrier is not newer than the pending one",
    "_barrier_here(state, name) < state.epoch": lambda *_: "the barrier is not older than the pending one",
    "channel.closed and (not channel.over)": lambda: "the input has not ended",
    "not channel.stopped and (not channel.blocked)": lambda: "the input waits for an alignment",
    "channel.waiting.is_empty() and channel.wire.is_empty() and channel.inbox.is_empty()": lambda: (
        "something is in front of the end"
    ),
    "state.pool > 0": lambda *_: "the pool is empty",
    "not channel.released": lambda: _RELEASED,
    "channel.borrowed - content_in(channel.inbox).data < channel.required": lambda *_: "no more buffers are needed",
    "channel.free > 0": lambda *_: "no buffer of the input is free",
    "is_joined(state)": lambda: "not all barriers have been consumed",
}

_SQUELCH: Words = {
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


class _GrpcCallLook(Look):
    """Its variables; a message of one byte is its number."""

    def value(self, value: Any) -> str:
        """A message as ``#number``, with its bytes if it has more than one."""
        if isinstance(value, grpc_call.Message):
            return f"#{value.number}" if value.size == 1 else f"#{value.number} ({value.size:,} B)"
        return super().value(value).strip('"')

    def row(self, state: Any) -> dict[str, str]:
        """The same variables in a table, but for the numbers that come next."""
        return {name: text for name, text in self.variables(state).items() if name not in ("offered", "consumed")}


_GRANTS = {input_gate_credit.RESUME: "resume", input_gate_credit.REVOKE: "resume without credit"}


def _items(items: Any) -> str:
    """Runs of one kind together: 3 data, barrier, data."""
    told = ((item, len([*same])) for item, same in groupby(map(_item, items)))
    return ", ".join(item if count == 1 else f"{count:,} {item}" for item, count in told)


def _item(item: input_gate_credit.Item) -> str:
    return f"backlog {item.backlog:,}" if item.kind == "backlog" else item.kind


def _credit(channel: input_gate_credit.Channel) -> str:
    """Where it is, and the words behind which it travels."""
    coming = sum(grant for grant in channel.grants if grant > 0)
    here = f"{channel.credit:,} at the sender" if channel.credit else ""
    on_its_way = f"{coming:,} on its way" if coming else ""
    void = "void" if channel.released and (here or on_its_way) else ""
    return ", ".join(part for part in (here, on_its_way, void) if part)


def _channel(channel: input_gate_credit.Channel, awaited: str) -> str:
    """What lies on the way of the data, in its order, and on the way back; ``awaited``: the inputs for which blocked
    ones wait."""
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
        "told to": ", ".join(_GRANTS[grant] for grant in channel.grants if grant in _GRANTS),
        "over": channel.over,
    }
    return "; ".join(name if value is True else f"{name} {value}" for name, value in parts.items() if value)


class _InputGateLook(Look):
    """The gate, input by input: waiting, travelling and stored messages, and grants; empty parts are left out."""

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


class _QueryLook(Look):
    """Shows waiting, kept and published rows, and the last batch."""

    def row(self, state: spark_micro_batch.State) -> dict[str, str]:
        """kept: rows that the exchange keeps; batch: the last one's in the offset log; table: those in the sink's."""
        return {
            "driver": state.phase,
            "waiting": f"{state.waiting:,}" if state.waiting else "",
            "kept": f"{state.produced - state.acknowledged:,}",
            "acknowledged": f"{state.acknowledged:,}",
            "batch": f"[{state.start:,}, {state.end:,})" if state.end else "",
            "commit log": ("has it" if state.committed else "not yet") if state.end else "",
            "table": f"{state.output:,}",
        }


class _NetworkLook(Look):
    """What is not the protocol's is the network's."""

    def actor(self, action: str) -> str:
        """Whose move an action is."""
        return "network" if self.system.action(self._right(action)).is_environment else super().actor(action)


class _ResumeLook(_NetworkLook):
    """An answer that is not on its way is none."""

    def variables(self, state: resume.State) -> dict[str, str]:
        """As in the specification."""
        answer = {} if state.answer != resume.NONE else {"answer": "none"}
        return {**super().variables(state), **answer}


_NOTHING_OFFERED = "The beginning: nothing has been offered"
_LOOKS: Mapping[str, Callable[[], Look]] = {
    "Demand": lambda: Look(
        demand.SYSTEM, words=_DEMAND, beginning=f"{_NOTHING_OFFERED}.", at_rest="everything has been consumed"
    ),
    "GrpcCall": lambda: _GrpcCallLook(
        grpc_call.SYSTEM,
        words=_GRPC_CALL,
        beginning="The beginning: the producer is asked for its first message.",
        at_rest="everything has been consumed, and the producer is asked for more",
    ),
    "InputGate": lambda: _InputGateLook(
        input_gate.SYSTEM,
        words=_GATE,
        beginning=f"{_NOTHING_OFFERED}.",
        at_rest="everything that may be consumed has been consumed",
    ),
    "Mute": lambda: MUTE,
    "LossyChannel": lambda: _NetworkLook(lossy_channel.SYSTEM, beginning="Nothing was sent yet, and a window may be."),
    "PermitChannel": lambda: PERMIT_CHANNEL,
    "Resume": lambda: _ResumeLook(resume.SYSTEM, beginning="The first connection is open, and nothing was sent."),
    "SparkMicroBatch": lambda: _QueryLook(spark_micro_batch.SYSTEM),
    "Squelch": lambda: Look(
        squelch.SYSTEM,
        words=_SQUELCH,
        beginning=f"{_NOTHING_OFFERED}, and the sender may send.",
        at_rest="everything has been consumed, and the sender may send",
    ),
}
"""Systems with a look of their own."""


@cache
def look_of(module: str) -> Look:
    """The look of the system of a TLA+ module: its own, or what all systems have.

    Raises:
        KeyError: there is no such system.
    """
    return _LOOKS[module]() if module in _LOOKS else Look(systems()[module].system)

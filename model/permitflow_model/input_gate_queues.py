"""What a gate's queues hold, as sums: invariants and proofs are about these."""

from typing import Any, NamedTuple

from permitflow_model.input_gate_credit import RESUME, Item


class Effect(NamedTuple):
    """What some messages do to a number: keep it (1) or forget it (0), and add to it."""

    keeps: int
    adds: int
    words: int
    """How many of them are words and no grants."""


def effect_of(grant: int) -> Effect:
    """What a grant does to the credit at the sender."""
    if grant > 0:
        return Effect(1, grant, 0)
    return Effect(1, 0, 1) if grant == RESUME else Effect(0, 0, 1)


def _and_then(first: Effect, second: Effect) -> Effect:
    words = first.words + second.words
    if second.keeps == 0:
        return Effect(0, second.adds, words)
    return Effect(first.keeps, first.adds + second.adds, words)


def effect_in(grants: Any) -> Effect:
    """The effect of a queue of grants, or of what a proof knows of one."""
    effect: Effect = grants.sum_of(effect_of, _and_then, Effect(1, 0, 0))
    return effect


class Promise(NamedTuple):
    """How many messages are data, the most that one tells less the data behind it, and what the last one tells."""

    data: int
    most: int
    last: int
    """-1: there is no message."""


def promise_of(message: Item) -> Promise:
    """The promise of one message."""
    return Promise(1 if message.kind == "data" else 0, message.backlog, message.backlog)


def _outdone_by(earlier: Promise, later: Promise) -> Promise:
    return Promise(
        earlier.data + later.data,
        max(earlier.most - later.data, later.most),
        later.last if later.last >= 0 else earlier.last,
    )


def promise_in(messages: Any) -> Promise:
    """The promise of a queue, or of what a proof knows of one."""
    promise: Promise = messages.sum_of(promise_of, _outdone_by, Promise(0, 0, -1))
    return promise


class Span(NamedTuple):
    """The newest epoch of those messages that are no barriers, and what barriers begin, added up."""

    newest: int
    """-1: there is none."""
    begun: int


def span_of(message: Item) -> Span:
    """The span of one message."""
    return Span(-1, message.epoch + 1) if message.kind == "barrier" else Span(message.epoch, 0)


def _spanned_with(earlier: Span, later: Span) -> Span:
    return Span(max(earlier.newest, later.newest), earlier.begun + later.begun)


def span_in(messages: Any) -> Span:
    """The span of a queue, or of what a proof knows of one."""
    span: Span = messages.sum_of(span_of, _spanned_with, Span(-1, 0))
    return span

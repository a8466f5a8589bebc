"""What a client of the Control method sends, and how it reads the reply: the same for every kind of client."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from itertools import starmap
from typing import Generic, TypeAlias, TypeVar

import pyarrow as pa

from permitflow.errors import InvalidParametersError, UndecodableDataError
from permitflow.protocol.control import (
    Acknowledge,
    AskPositions,
    AskStatistics,
    ChannelPosition,
    ChannelRow,
    Close,
    ControlReply,
    ControlRequest,
    Discard,
    Discarded,
    Positions,
    Publish,
    Published,
    StagedPart,
)
from permitflow.protocol.traffic import Statistics
from permitflow.transports.carrier import Received
from permitflow.transports.control_codec import decode_reply, encode_request

__all__ = ["Order", "Where", "acknowledge", "close", "discard", "positions", "publish", "statistics"]

T = TypeVar("T")

Where: TypeAlias = tuple[ChannelPosition[pa.Schema], ...]
"""Where channels stand, in the order in which they were named."""


class Order(Generic[T]):
    """A question or an order: its message, and what its reply means."""

    def __init__(self, request: ControlRequest, answer: Callable[[ControlReply[pa.Schema]], T | None]) -> None:
        """``answer`` takes from a reply what was asked for; None: it replies to something else.

        Raises:
            InvalidParametersError: a number or a name does not fit the wire.
        """
        self.message = encode_request(request)
        self._answer = answer

    def read(self, message: Received) -> T:
        """What the exchange replies.

        Raises:
            UndecodableDataError: it replies to something else.
        """
        reply = decode_reply(message)
        answer = self._answer(reply)
        if answer is None:
            raise UndecodableDataError(what="a reply", reason=f"{type(reply).__name__} is no answer to this question")
        return answer


def positions(channels: Sequence[str], consumer: str) -> Order[Where]:
    """Where do these channels stand?"""
    names = _names(channels)
    return Order(AskPositions(names, consumer), partial(_where, names))


def acknowledge(rows: Mapping[str, int] | Sequence[ChannelRow], consumer: str) -> Order[Where]:
    """A consumer needs no row before these any more."""
    named = tuple(starmap(ChannelRow, rows.items()) if isinstance(rows, Mapping) else rows)

    def answer(reply: ControlReply[pa.Schema]) -> Where | None:
        where = _where([asked.channel for asked in named], reply)
        # A row that the wire has altered to an earlier one changes nothing, and the consumer would wait for ever.
        for asked, stands in zip(named, where or (), strict=where is not None):
            if stands.acknowledged_row < asked.row:
                reason = (
                    f"row {asked.row} of channel {asked.channel!r} was named, row {stands.acknowledged_row} was heard"
                )
                raise UndecodableDataError(what="the reply to an acknowledgement", reason=reason)
        return where

    return Order(Acknowledge(named, consumer), answer)


def close(channels: Sequence[str], consumer: str) -> Order[Where]:
    """Nobody will put into these channels any more."""
    names = _names(channels)
    return Order(Close(names, consumer), partial(_where, names))


def publish(query: str, batch: int, parts: Sequence[StagedPart]) -> Order[Published]:
    """Make these attempts part of their channels, all or none."""
    return Order(Publish(query, batch, tuple(parts)), lambda reply: reply if isinstance(reply, Published) else None)


def discard(query: str, batch: int, parts: Sequence[StagedPart]) -> Order[Discarded]:
    """Forget these attempts, unless they are published."""
    return Order(Discard(query, batch, tuple(parts)), lambda reply: reply if isinstance(reply, Discarded) else None)


def statistics(channels: Sequence[str]) -> Order[Statistics]:
    """What has flowed through these channels, or through all?"""
    return Order(AskStatistics(_names(channels)), lambda reply: reply if isinstance(reply, Statistics) else None)


def _where(names: Sequence[str], reply: ControlReply[pa.Schema]) -> Where | None:
    """Where these channels stand; None if the reply is about something else."""
    if not isinstance(reply, Positions) or [stands.channel for stands in reply.channels] != [*names]:
        return None
    return reply.channels


def _names(channels: Sequence[str]) -> tuple[str, ...]:
    if isinstance(channels, str):
        raise InvalidParametersError(name="channels", value=channels, rule="must be names, not one name")
    return tuple(channels)

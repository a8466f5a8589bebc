"""Offsets of a streaming query: how far it has come in each channel, as Spark keeps it in its checkpoint."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeGuard

from permitflow.errors import CheckpointError

__all__ = ["OFFSET_VERSION", "StreamOffset"]

OFFSET_VERSION = 1
"""Of the JSON form.  A checkpoint may be read by a later version of this package than wrote it."""

OffsetJson = dict[str, object]


@dataclass(frozen=True)
class StreamOffset:
    """The first row of each channel that a query has not planned yet, counted since the channel was opened."""

    rows: Mapping[str, int]
    """By channel."""

    log_ids: Mapping[str, str]
    """In which of the exchange's logs a channel's rows were counted: after a loss it counts anew, in another one."""

    def as_json(self) -> OffsetJson:
        """What Spark keeps, as in ``{"version": 1, "rows": {"orders/0": 1234}, "logs": {"orders/0": "5f0c"}}``.

        Spark compares offsets as text: equal offsets have their channels in the same order.
        """
        return {"version": OFFSET_VERSION, "rows": dict(self.rows), "logs": dict(self.log_ids)}

    @classmethod
    def of_json(cls, content: object) -> "StreamOffset":
        """Read what ``as_json`` has made.

        Raises:
            CheckpointError: somebody else has made it.
        """
        if not isinstance(content, dict) or "version" not in content:
            raise _foreign(content)
        version = content["version"]
        if version != OFFSET_VERSION:
            raise CheckpointError(
                reason=f"has offsets of version {version!r}, and this package reads version {OFFSET_VERSION}",
                hint="run the query with the version of permitflow that wrote it, or a later one",
            )
        rows, log_ids = content.get("rows"), content.get("logs")
        if not (_is_rows(rows) and _is_log_ids(log_ids) and rows.keys() == log_ids.keys()):
            raise _foreign(content)
        return cls(rows, log_ids)

    def require_channels(self, channels: Sequence[str]) -> None:
        """Insist that the query reads every channel that it has read before.

        Raises:
            CheckpointError: a channel is missing from the options; rows of it would be skipped without a word.
        """
        missing = [channel for channel in self.rows if channel not in channels]
        if missing:
            raise CheckpointError(
                reason=f"has offsets of channel {missing[0]!r}, which the options do not name any more",
                hint="name it again in options 'stream' and 'channels', or start the query with a new checkpoint",
            )


def _is_rows(value: object) -> TypeGuard[dict[str, int]]:
    return isinstance(value, dict) and all(type(row) is int and row >= 0 for row in value.values())


def _is_log_ids(value: object) -> TypeGuard[dict[str, str]]:
    return isinstance(value, dict) and all(isinstance(log_id, str) for log_id in value.values())


def _foreign(content: object) -> CheckpointError:
    return CheckpointError(
        reason=f"has an offset that this source did not write, {str(content)[:200]}",
        hint="each query needs a checkpointLocation of its own",
    )

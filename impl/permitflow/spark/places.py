"""Where a query begins and ends in its channels: the options ``startingOffsets`` and ``endingOffsets``.

An offset is the number of a row, counted since the channel was opened.  The texts are those of Spark's Kafka source.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from permitflow.errors import RowsExpiredError, RowsForgottenError, RowsNotThereError
from permitflow.stream.control import ChannelPosition

EARLIEST, LATEST = -2, -1
"""As Spark's Kafka source writes them for a partition."""

_WORDS = {"earliest": EARLIEST, "latest": LATEST}
_RULE = (
    'must be earliest, latest, or row numbers as JSON: {"orders/0": 1200, "orders/1": -1}, or by stream '
    '{"orders": {"0": 1200, "1": -1}}; -2 is the earliest row, -1 the latest'
)


@dataclass(frozen=True)
class Places:
    """A row of each channel; picklable."""

    elsewhere: int = EARLIEST
    """The place in channels that are not named."""
    named: tuple[tuple[str, int], ...] = ()
    """By channel."""

    @classmethod
    def parse(cls, text: str, *, elsewhere: int = EARLIEST) -> "Places":
        """Read an option's text.

        Raises:
            ValueError: the rule that it breaks.
        """
        if text.lower() in _WORDS:
            return cls(_WORDS[text.lower()])
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            raise ValueError(_RULE) from None
        if not isinstance(found, dict):
            raise ValueError(_RULE)  # noqa: TRY004 - as the parsers of all options
        return cls(elsewhere, tuple(_by_channel(found)))

    def row(self, position: "ChannelPosition[object]") -> int:
        """The row in a channel.

        Raises:
            RowsForgottenError: the consumer has acknowledged it.
            RowsExpiredError: it has expired.
            RowsNotThereError: it has not come yet.
        """
        row = dict(self.named).get(position.channel, self.elsewhere)
        if row in (EARLIEST, LATEST):
            return position.acknowledged_row if row == EARLIEST else position.next_row
        require_there(position, row)
        return row


def require_there(position: "ChannelPosition[object]", row: int) -> None:
    """Require that the consumer may still read a channel from this row on.

    Raises:
        RowsForgottenError, RowsExpiredError, RowsNotThereError: as ``Places.row``.
    """
    channel = position.channel
    if row < position.acknowledged_row:
        raise RowsForgottenError(channel=channel, wanted_row=row, first_kept_row=position.first_row)
    if row < position.expired_row:
        raise RowsExpiredError(channel=channel, wanted_row=row, first_kept_row=position.expired_row)
    if row > position.next_row:
        raise RowsNotThereError(channel=channel, wanted_row=row, next_row=position.next_row)


def _by_channel(found: Mapping[str, object]) -> Iterator[tuple[str, int]]:
    for name, row in found.items():
        if isinstance(row, dict):
            yield from _by_channel({f"{name}/{number}": each for number, each in row.items()})
        elif type(row) is int and row >= EARLIEST:
            yield name, row
        else:
            raise ValueError(_RULE)

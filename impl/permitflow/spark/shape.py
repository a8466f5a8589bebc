"""Which columns a query gets: those of the channels, some of them, and where each row is from."""

from dataclasses import dataclass
from enum import Enum


class Origin(Enum):
    """What a column says about where a row is from."""

    CHANNEL = "the channel's name"
    ROW = "the row's number in its channel, from 0"
    LOG = "the log in which rows are numbered; null if the channel keeps no rows"
    TIME = "when the exchange took the row over"


METADATA = {"_channel": Origin.CHANNEL, "_row": Origin.ROW, "_log": Origin.LOG}
"""The columns of option ``includeMetadata``, which come last.  Together they name a row for ever, as a key must."""


TIME_COLUMN = "_time"
"""The column of option ``includeTime``."""


@dataclass(frozen=True, kw_only=True)
class RowShape:
    """The checked options for columns; picklable."""

    channel_column: str = ""
    """The name of a first column for the channel's name; empty: there is none."""
    include_metadata: bool = False
    """Do the columns of ``METADATA`` follow?"""
    include_time: bool = False
    """Does ``_time`` come last?"""
    merge_schema: bool = False
    """May channels have different columns?  They are united by name, as they are with ``channel_column``."""
    columns: tuple[str, ...] = ()
    """The columns that are wanted; none: all."""

    @property
    def origins(self) -> dict[str, Origin]:
        """The columns that no channel has, by name."""
        first = {self.channel_column: Origin.CHANNEL} if self.channel_column else {}
        last = {TIME_COLUMN: Origin.TIME} if self.include_time else {}
        return {**first, **(METADATA if self.include_metadata else {}), **last}

    @property
    def unites(self) -> bool:
        """Are channels with different columns united?"""
        return self.merge_schema or bool(self.channel_column)

    @property
    def is_plain(self) -> bool:
        """Are rows as the channel has them?"""
        return not (self.origins or self.merge_schema or self.columns)

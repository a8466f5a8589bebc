"""Options of ``spark.readStream``."""

from collections.abc import Mapping
from dataclasses import dataclass

from permitflow.errors import InvalidOptionError
from permitflow.spark.options import (
    READ_ONLY_OPTIONS,
    SHARED_OPTIONS,
    STREAM_READ_OPTIONS,
    WRITE_ONLY_OPTIONS,
    ReadOptions,
    refuse_unknown,
    shared_options,
    value_of,
    whole_number,
)

__all__ = ["StreamOptions"]

_MAX_ROWS = "maxRowsPerBatch"


@dataclass(frozen=True, kw_only=True)
class StreamOptions:
    """What a streaming source needs to know; picklable."""

    exchange: ReadOptions
    """Which channels, where, as which consumer, and how long to wait."""

    max_rows: int | None
    """Rows of a batch, over all channels; None: half the window of each channel."""

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> "StreamOptions":
        """Check the options of ``spark.readStream``.

        Raises:
            InvalidOptionError: an option is unknown, missing or out of its range.
        """
        known = SHARED_OPTIONS + READ_ONLY_OPTIONS + STREAM_READ_OPTIONS
        refuse_unknown(options, known=known, elsewhere=WRITE_ONLY_OPTIONS, where="writing")
        return cls(exchange=shared_options(options), max_rows=_max_rows(options))


def _max_rows(options: Mapping[str, str]) -> int | None:
    # Spark's own sources write such options in camel case, this package's in snake case; Spark does not mind the case.
    given = [option for option in options if option.lower() in STREAM_READ_OPTIONS]
    if not given:
        return None
    if len(given) > 1:
        raise InvalidOptionError(option=given[1], value=options[given[1]], reason=f"is the same as {given[0]!r}")
    # Spark hands options over in lower case.
    return value_of({_MAX_ROWS: options[given[0]]}, _MAX_ROWS, whole_number(1, 2**63 - 1))

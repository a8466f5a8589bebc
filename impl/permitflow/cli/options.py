"""Option values that are checked where they are read, so that a complaint names the option, the value and the rule."""

from collections.abc import Callable
from dataclasses import dataclass

import typer

__all__ = ["StreamName", "host_and_port", "number", "row_counts", "stream_name", "whole_number"]


@dataclass(frozen=True)
class StreamName:
    """A stream and into how many channels it is cut."""

    name: str
    channels: int


def whole_number(*, least: int) -> Callable[[str], int]:
    """A parser of whole numbers from ``least`` on; 8,192 and 8_192 are understood."""

    def parse(text: str) -> int:
        try:
            count = int(str(text).replace(",", ""))
        except ValueError:
            raise typer.BadParameter(f"must be a whole number of at least {least}, not {text!r}") from None
        if count < least:
            raise typer.BadParameter(f"must be at least {least}, not {count}")
        return count

    return parse


def number(text: str | float) -> float:
    """Parse a number, as in 0.1."""
    try:
        return float(text)
    except ValueError:
        raise typer.BadParameter(f"must be a number, not {text!r}") from None


def row_counts(text: str) -> frozenset[int]:
    """Parse chunk sizes in rows, separated by commas, as in ``1,3,5``."""
    try:
        counts = [int(part) for part in str(text).split(",")]
    except ValueError:
        raise typer.BadParameter(f"must be whole numbers separated by commas, as in 1,3,5, not {text!r}") from None
    if negative := [count for count in counts if count < 0]:
        raise typer.BadParameter(f"a chunk cannot have {negative[0]} rows")
    return frozenset(counts)


def host_and_port(text: str) -> str:
    """Parse an address to listen at, as in ``127.0.0.1:50051``; port 0 means any free one."""
    host, colon, port = str(text).rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > 65535:
        raise typer.BadParameter(f"must be HOST:PORT with a port of 0 to 65535, as in 127.0.0.1:50051, not {text!r}")
    return text


def stream_name(text: str | StreamName) -> StreamName:
    """Parse a stream, as in ``orders`` or, with its number of channels, ``orders:4``."""
    if isinstance(text, StreamName):
        return text
    name, colon, count = text.rpartition(":")
    if not colon:
        name, count = text, "1"
    if not name or not count.isdecimal() or int(count) < 1:
        raise typer.BadParameter(f"must be NAME or NAME:N with at least one channel, as in orders:4, not {text!r}")
    return StreamName(name, int(count))

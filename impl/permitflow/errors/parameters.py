"""A number, an option or a chunk that cannot be accepted."""

from permitflow.errors.base import PermitflowError

__all__ = ["ChunkTooLargeError", "InvalidOptionError", "InvalidParametersError", "ParametersFileError"]


class InvalidParametersError(PermitflowError, ValueError):
    """A parameter is out of its range."""

    name: str
    value: object
    rule: str

    def __init__(self, *, name: str, value: object, rule: str) -> None:
        """``rule`` says what would be right, as in "must be at least 1"."""
        super().__init__(f"{name} {rule}, not {value!r}", name=name, value=value, rule=rule)


class InvalidOptionError(PermitflowError, ValueError):
    """An option of a job is unknown, missing or out of its range."""

    option: str
    value: object

    def __init__(self, *, option: str, value: object, reason: str) -> None:
        """``value`` as the user wrote it; None if there is none to show."""
        given = "" if value is None else f": {value!r}"
        super().__init__(f"option {option!r} {reason}{given}", option=option, value=value, reason=reason)


class ChunkTooLargeError(PermitflowError, ValueError):
    """A chunk is larger than the carrier takes in one piece; it was not sent."""

    rows: int
    size_bytes: int
    limit_bytes: int

    def __init__(self, *, rows: int, size_bytes: int, limit_bytes: int) -> None:
        """Sizes as encoded for the wire."""
        super().__init__(
            f"a chunk of {rows} rows takes {size_bytes} bytes on the wire, which carries at most {limit_bytes} "
            "in one piece; send chunks of fewer rows",
            rows=rows,
            size_bytes=size_bytes,
            limit_bytes=limit_bytes,
        )


class ParametersFileError(PermitflowError, ValueError):
    """A file that describes a channel cannot be read, or something in it cannot be meant."""

    file: str
    line: int
    key: str

    def __init__(self, *, file: str, line: int, key: str, reason: str) -> None:
        """``line`` counts from 1, 0 if it is not known; ``key`` is empty if the file as a whole is wrong."""
        where = f"{file}, line {line}" if line else file
        super().__init__(f"{where}: {f'{key} ' if key else ''}{reason}", file=file, line=line, key=key, reason=reason)

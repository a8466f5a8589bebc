"""Metadata that every call of a job carries: the options ``metadata`` and ``metadataFile``.

Options are in query plans, in event logs and on Spark's pages, so secrets come from a file, which is read where the
call is made: a token that was renewed counts for the next call.
"""

import json
import re
from pathlib import Path
from typing import TypeAlias

from permitflow.errors import InvalidOptionError

Metadata: TypeAlias = tuple[tuple[str, str], ...]

_KEY = re.compile(r"[0-9a-z_.-]+")
_RULE = 'must be a JSON object of texts, as in {"x-tenant": "north"}'
_SECRETS = ("authorization", "cookie", "x-api-key", "proxy-authorization")


def pairs(text: str) -> Metadata:
    """Read a JSON object.

    Raises:
        ValueError: the rule that it breaks.
    """
    try:
        given = json.loads(text)
    except (ValueError, RecursionError):
        raise ValueError(_RULE) from None
    if not isinstance(given, dict) or not all(isinstance(value, str) for value in given.values()):
        raise ValueError(_RULE)
    found = tuple((key.lower(), value) for key, value in given.items())
    for key, value in found:
        if not _KEY.fullmatch(key) or key.startswith("grpc-") or key.endswith("-bin"):
            raise ValueError(f"has the key {key!r}, and keys are of a-z, 0-9, _, . and -, without grpc- and -bin")
        if key.startswith("permitflow-"):
            raise ValueError(f"has the key {key!r}, and permitflow- says which attempt at which task calls")
        if not (value.isascii() and value.isprintable()):
            raise ValueError(f"has a value for {key!r} that is not printable ASCII")
    return found


def public_pairs(text: str) -> Metadata:
    """Read a JSON object without secrets.

    Raises:
        InvalidOptionError: it has one, which the error does not show.
        ValueError: the rule that it breaks.
    """
    found = pairs(text)
    secret = next((key for key, _ in found if key in _SECRETS), None)
    if secret is not None:
        reason = "which would be in query plans and event logs: write it into a file, and name that with metadataFile"
        raise InvalidOptionError(option="metadata", value=None, reason=f"has {secret!r}, {reason}")
    return found


def sent_with(path: str, public: Metadata, attempt: Metadata) -> Metadata:
    """The metadata of a call: those of a file, if there is one, and these.

    Raises:
        InvalidOptionError: the file cannot be read, or is wrong; the error does not show what is in it.
    """
    if not path:
        return (*attempt, *public)
    try:
        text = Path(path).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        reason = f"names a file that cannot be read here ({getattr(error, 'strerror', None) or 'no UTF-8 text'})"
        raise InvalidOptionError(option="metadataFile", value=path, reason=reason) from None
    try:
        return (*attempt, *public, *pairs(text))
    except ValueError as rule:
        raise InvalidOptionError(option="metadataFile", value=path, reason=f"names a file that {rule}") from None

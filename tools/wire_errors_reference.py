"""Write docs/reference/wire_errors.md, or the named file: the errors that cross the wire, with their facts.

A test compares docs/reference/wire_errors.md with what this would write.
"""

import sys
from inspect import get_annotations, getdoc
from pathlib import Path

from permitflow import errors
from permitflow.errors import PermitflowError
from permitflow.wire.wire_errors import CROSSING, FACTS

DOCUMENT = Path(__file__).resolve().parent.parent / "docs/reference/wire_errors.md"

_HEAD = """# Errors on the wire

Written by `make docs`; for those who write a client or an exchange in another language.

An error travels as a JSON object in UTF-8: in the frame `Failure`, and in the trailing metadata
`permitflow-error-bin` of a gRPC status ([exchange.proto](../../proto/permitflow/wire/v1/exchange.proto)). Over TCP the
status is a JSON object, too: `{"code": "ABORTED", "details": "…", "error": "…"}`, whose `error` is the text of the
first one, or `null`.

| Key | Value |
|---|---|
| `message` | text: what went wrong, for a person. The other end tells it to its user, whatever else is there |
| `type` | optional: one of the types below. Then the other end raises this error |
| `facts` | an object with at least the facts of the type; a list for a tuple. Further facts are ignored |

With an unknown type, without one, or where a fact is missing, the other end says that the stream was broken off, and
the message. The whole object has at most 3,600 bytes; our own ends cut longer texts. When an error may come, and what
follows it, is in [wire.md](../protocols/wire.md). For example:

```json
{"type": "ChannelAbortedError", "message": "no such table", "facts": {"channel": "orders/0", "reason": "no such table"}}
```

*May be tried again* means: open a new stream, after a pause that grows. *Yes*: nothing need change first, for the
connection or the peer was at fault. *Later*: once others have left, or there is room. *No*: the same request gets the
same answer, until somebody changes the request, the program, the channel or the rights. Rows that were read from a
channel that does not keep them do not come again. An order that changes channels may have been carried out.

| Type | gRPC status | May be tried again | Facts | Meaning |
|---|---|---|---|---|
"""

_YES: frozenset[type[PermitflowError]] = frozenset(
    (
        errors.AlteredMessageError,
        errors.ChannelResetError,
        errors.HandshakeTimeoutError,
        errors.PeerGoneError,
        errors.PeerTimeoutError,
        errors.ResumeRefusedError,
        errors.ResumeTimeoutError,
        errors.StoreTakenOverError,
    )
)
_LATER: frozenset[type[PermitflowError]] = frozenset(
    (
        errors.ChannelBusyError,
        errors.ChannelInUseError,
        errors.LimitReachedError,
        errors.StagingFullError,
        errors.StoreWriteError,
        errors.TooManyAttemptsError,
    )
)


def _row(kind: type[PermitflowError]) -> str:
    types = {name: of for each in reversed(kind.__mro__) for name, of in get_annotations(each).items()}
    facts = ", ".join(f"`{name}` ({_name(types.get(name, object))})" for name in sorted(FACTS[kind]))
    meaning = " ".join((getdoc(kind) or "").split("\n\n")[0].split()).replace("``", "`")
    again = "yes" if kind in _YES else "later" if kind in _LATER else "no"
    return f"| `{kind.__name__}` | `{kind.status}` | {again} | {facts} | {meaning} |"


def _name(kind: object) -> str:
    words = {str: "text", int: "whole number", object: "any", float: "number"}
    return words.get(kind, str(kind).replace("tuple[str, ...]", "list of text").replace("|", "or"))  # type: ignore[call-overload, no-any-return]


def document() -> str:
    """The whole page."""
    return _HEAD + "\n".join(_row(kind) for _, kind in sorted(CROSSING.items())) + "\n"


if __name__ == "__main__":
    (Path(sys.argv[1]) if len(sys.argv) > 1 else DOCUMENT).write_text(document(), encoding="utf-8")

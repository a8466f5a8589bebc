"""The table of the errors that cross the wire, with their facts: `site_hooks` puts it into its page.

python -m tools.wire_errors_reference
"""

from inspect import get_annotations, getdoc

from permitflow import errors
from permitflow.errors import PermitflowError
from permitflow.wire.wire_errors import CROSSING, FACTS

_HEADER = """\
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
        errors.PreparedRowsError,
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


def table() -> str:
    """As Markdown."""
    return _HEADER + "\n".join(_row(kind) for _, kind in sorted(CROSSING.items())) + "\n"


if __name__ == "__main__":
    print(table(), end="")

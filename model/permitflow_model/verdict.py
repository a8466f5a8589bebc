"""What a check of a model comes to, the same whoever checks: the explorer or TLC."""

import re
from dataclasses import dataclass
from typing import Literal, TypeAlias

__all__ = ["DEADLOCK", "SUCCESS", "Verdict"]

Kind: TypeAlias = Literal["success", "invariant", "property", "deadlock"]

_TEXT = re.compile(r"success|deadlock|(invariant|property) (\w+)")


@dataclass(frozen=True)
class Verdict:
    """Everything holds, or what is violated."""

    kind: Kind
    """``invariant``: a state formula; ``property``: a temporal one; ``deadlock``: a state without a next one."""

    name: str | None = None
    """The violated invariant or property; None also where TLC did not say which property."""

    def __str__(self) -> str:
        """As the manifest writes it."""
        return self.kind if self.name is None else f"{self.kind} {self.name}"

    @classmethod
    def parse(cls, text: str) -> "Verdict":
        """Read what the manifest writes: ``success``, ``deadlock``, ``invariant Name`` or ``property Name``.

        Raises:
            ValueError: it is none of these.
        """
        match = _TEXT.fullmatch(text)
        if match is None:
            raise ValueError(f"expected 'success', 'deadlock', 'invariant NAME' or 'property NAME', not {text!r}")
        if text == "success":
            return SUCCESS
        if text == "deadlock":
            return DEADLOCK
        return cls("invariant" if match[1] == "invariant" else "property", match[2])


SUCCESS = Verdict("success")
DEADLOCK = Verdict("deadlock")

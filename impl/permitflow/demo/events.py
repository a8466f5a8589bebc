"""How a job of the demo tells what it does: one line of JSON for each event, on standard output."""

import json

__all__ = ["report"]


def report(event: str, text: str, **facts: object) -> None:
    """Tell the demo something: in words for people, in facts for itself."""
    print(json.dumps({"event": event, "text": text, **facts}), flush=True)

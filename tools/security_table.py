"""docs/security.md: the table of attacks, and what a neighbour noticed of each.

    python -m tools.security_table      writes the table again

``python -m tests.hostile attack --keep`` measures, and keeps what it finds in docs/data/hostile; the table is made of
that file alone, and a test compares it with the document.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.hostile.measuring import Result
from tools.marks import pasted

CHECKOUT = Path(__file__).resolve().parent.parent
DOCUMENT = CHECKOUT / "docs/security.md"
RESULTS = CHECKOUT / "docs/data/hostile/attacks.json"
_MOST_ANSWERS = 3


def _answers(found: Mapping[str, int]) -> str:
    return ", ".join(
        f"`{name}`" if name.endswith("Error") else name for name in [*found][:_MOST_ANSWERS] if found[name] > 0
    )


def _row(attack: Mapping[str, Any]) -> str:
    effect = (
        f"{attack['ratio']:.2f} of its rate, {attack['served_ratio']:.2f} without waits for a processor; "
        f"p99 {attack['p99_ms']:.0f} ms, {attack['quiet_p99_ms']:.0f} without the attack"
    )
    if attack["refused"]:
        effect += f"; {attack['refused']} of its new streams refused at first"
    if not Result(**attack).is_well:
        effect = f"**missed:** {effect}"
    alive = "" if attack["is_alive"] else "; **the exchange was dead afterwards**"
    return (
        f"| {attack['attack']} | {attack['attempts']:,} | {_answers(attack['answers'])} | +{attack['memory_mib']} MiB "
        f"| {effect}{alive} |"
    )


def table(results: Path = RESULTS) -> str:
    """A line for each attack."""
    found = json.loads(results.read_text("utf-8"))
    told = (
        f"Measured on {found['date']} by `python -m tests.hostile attack --keep`, with the defaults of `serve` but for "
        "shorter times. A neighbour sends a chunk of "
        f"{found['rows']} rows and takes it, again and again, with pauses of 5 ms, {found['phases']} times for "
        f"{found['seconds']:g} s with the attack and as often while the attacker is stopped. Exchange, neighbour and "
        "attacker share two processor cores with other programs, so the attacker takes a share of them. Attempts and "
        "answers are the attacker's; words that are no error are its own. Memory is by how much the exchange grew.\n\n"
    )
    head = "| Attack | Attempts | Answers | Memory | The neighbour |\n|---|--:|---|--:|---|\n"
    return told + head + "".join(f"{_row(attack)}\n" for attack in found["attacks"])


def page(text: str) -> str:
    """The document, with the table."""
    return pasted(text, "attacks", table())


if __name__ == "__main__":
    DOCUMENT.write_text(page(DOCUMENT.read_text("utf-8")), "utf-8")

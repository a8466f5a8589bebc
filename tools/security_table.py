"""docs/security.md: the table of attacks, and what a neighbour noticed of each.

    python -m tools.security_table      writes the table again

``python -m tests.hostile attack --keep`` measures, and keeps what it finds in docs/data/hostile; the table is made of
that file alone, and a test compares it with the document.
"""

from collections.abc import Mapping
from pathlib import Path

from tests.hostile.greedy import GREEDY, MOST_MIB
from tests.hostile.measuring import ATTACKS, BETWEEN_SECONDS, LEAST_RATIO, MOST_P99_SECONDS, Result, Run, kept
from tools.marks import pasted

CHECKOUT = Path(__file__).resolve().parent.parent
DOCUMENT = CHECKOUT / "docs/security.md"
_MOST_ANSWERS = 3


def _answers(found: Mapping[str, int]) -> str:
    return ", ".join(
        f"`{name}`" if name.endswith("Error") else name for name in [*found][:_MOST_ANSWERS] if found[name] > 0
    )


def _ms(measured: float | None) -> str:
    return "-" if measured is None else f"{measured:.0f} ms"


def _row(result: Result) -> str:
    p99 = f"{_ms(result.p99_ms)}, {_ms(result.quiet_p99_ms)} without"
    cells = (
        result.attack,
        f"{result.attempts:,}",
        _answers(result.answers),
        f"+{result.memory_mib} MiB",
        f"{result.busy_ratio:.2f}",
        f"{result.ratio:.2f}",
        p99,
        f"{result.refused}",
        "met" if result.is_well else "**not met**",
    )
    return f"| {' | '.join(cells)} |"


def _told(run: Run) -> str:
    bounds = {result.bound_mib for result in run.attacks if result.attack not in GREEDY}
    apart = (
        f"The attacker has one of the {run.processors} processors, exchange and neighbour the rest, so that the "
        "neighbour notices what the exchange does about the attack, not the want of a processor"
        if run.is_attacker_apart
        else "Exchange, neighbour and attacker share a processor"
    )
    met = sum(result.is_well for result in run.attacks)
    return (
        f"{len(run.attacks)} of the {len(ATTACKS)} attacks of the suite, measured in one run on {run.date} by "
        "`python -m tests.hostile attack --keep`; "
        f"{met} met. The options are the defaults of `serve` but for "
        f"`{run.options}`. "
        f"A neighbour sends a chunk of {run.rows} rows and takes it, again and again, with pauses of "
        f"{BETWEEN_SECONDS * 1e3:.0f} ms, {run.phases} times for {run.seconds:g} s with the attack and, in turns, as "
        "often while the attacker is stopped, and then beside a process that takes as much of the attacker's processor "
        f"and attacks nobody. {apart}; other programs ran as well (load {run.load[0]:g} before and "
        f"{run.load[1]:g} at the end).\n\n"
        "- Attempts and answers are the attacker's; words that are not an error are its own.\n"
        "- Memory: by how much the exchange grew.\n"
        "- Rate: the neighbour's by the clock, of that beside a process that is as busy as the attacker; the median of "
        "the turns.\n"
        "- Rate, idle: of that while the attacker's processor is idle.\n"
        "- p99: of the neighbour's round trips.\n"
        "- Refused: so often a new stream of the neighbour's was not made at once.\n"
        f"- Met: a rate of at least {LEAST_RATIO:g}, a p99 below {MOST_P99_SECONDS * 1e3:.0f} ms, and no more "
        f"memory than the exchange states when it starts ({', '.join(f'{bound} MiB' for bound in sorted(bounds))}). "
        "Peers that want too much, or all that they may have at a limit, share the exchange's processor with others: "
        f"of them only the p99 is demanded, and {MOST_MIB:,} MiB.\n\n"
    )


def table(run: Run) -> str:
    """A line for each attack."""
    head = "| Attack | Attempts | Answers | Memory | Rate | Rate, idle | p99 | Refused | Promises |\n"
    head += "|---|--:|---|--:|--:|--:|---|--:|---|\n"
    return _told(run) + head + "".join(f"{_row(result)}\n" for result in run.attacks)


def page(text: str) -> str:
    """The document, with the table."""
    return pasted(text, "attacks", table(kept()))


if __name__ == "__main__":
    DOCUMENT.write_text(page(DOCUMENT.read_text("utf-8")), "utf-8")

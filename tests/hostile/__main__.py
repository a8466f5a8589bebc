"""Attack an exchange: by drawn messages, bytes, packets and batches, for as long as one likes; or by processes.

    python -m tests.hostile fuzz [--seconds 600] [--target NAME ...]
    python -m tests.hostile attack [--seconds 1] [--keep] [--only WORDS]

``fuzz`` draws anew in each run, shrinks what it finds, and says how to make it a test that stays: as an ``@example``.
What it has found is kept in .hypothesis, and tried first the next time.  ``attack`` measures what a neighbour notices.
"""

import argparse
import sys

from tests.hostile.fuzzing import TARGETS, fuzz
from tests.hostile.measuring import ATTACKS, keep, measure


def main(arguments: list[str]) -> int:
    """Run a command; 1: something was found."""
    parser = argparse.ArgumentParser(prog="python -m tests.hostile", description=__doc__.partition("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    fuzzing = commands.add_parser("fuzz", help="draw what peers say, in this process")
    fuzzing.add_argument("--seconds", type=float, default=600.0, help="for all targets together (default: 600)")
    fuzzing.add_argument("--target", action="append", choices=TARGETS, help="only this one; may be repeated")
    attacking = commands.add_parser("attack", help="let processes attack one, and measure a neighbour")
    attacking.add_argument("--seconds", type=float, default=1.0, help="of each of six measurements (default: 1)")
    attacking.add_argument("--keep", action="store_true", help="write docs/data/hostile/attacks.json")
    attacking.add_argument("--only", metavar="WORDS", default="", help="those whose names contain these")
    chosen = parser.parse_args(arguments)
    if chosen.command == "attack":
        names = [name for name in ATTACKS if chosen.only in name]
        is_well = True
        for run in measure(names, chosen.seconds):
            is_well &= run.attacks[-1].is_well
            if chosen.keep:
                keep(run)
        return 0 if is_well else 1
    return 0 if fuzz(chosen.target or [*TARGETS], chosen.seconds) else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

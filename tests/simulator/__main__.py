"""``nox -s simulate``: seeded schedules of streams in simulated time; nothing is lost, doubled or reordered in silence.

    python -m tests.simulator                                 10,000 schedules
    python -m tests.simulator --schedules 1000000             a million
    python -m tests.simulator --seed 17                       this one again, as a story

Exit code 0: all laws hold.  1: some were broken.  130: stopped by Ctrl-C.
"""

import argparse
import sys
from time import monotonic

from tests.simulator.running import Report, run_seeds
from tests.simulator.schedule import draw
from tests.simulator.streams import StreamsRun


def main() -> int:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__.partition("\n")[0])
    parser.add_argument("--schedules", type=int, default=10_000, metavar="N", help="how many (10,000)")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first one's seed (0)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (2)")
    parser.add_argument("--seed", type=int, metavar="SEED", help="only this one, with its story")
    asked = parser.parse_args()
    if asked.seed is not None:
        return tell(asked.seed)
    began = monotonic()
    report = run_seeds(range(asked.first, asked.first + asked.schedules), asked.jobs)
    seconds = monotonic() - began
    print("\n".join(report.in_words()))
    print(f"{report.schedules:,} schedules in {seconds:.0f} s, {report.schedules / seconds * 60:,.0f} a minute")
    return 1 if report.broken else 0


def tell(seed: int) -> int:
    """Run one schedule, and tell what happens in it."""
    schedule = draw(seed)
    print(schedule)
    outcome = StreamsRun(schedule, tells=True).run()
    for seconds, where, what in outcome.story:
        print(f"{seconds:12.6f} s  {where:12} {what}")
    report = Report()
    report.add(outcome)
    print("\n".join(report.in_words()))
    print(f"digest {outcome.digest}")
    return 1 if outcome.broken else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

"""``nox -s simulate``: seeded schedules in simulated time; nothing is lost, doubled or reordered in silence.

    python -m tests.simulator                                 10,000 schedules of streams
    python -m tests.simulator --schedules 1000000             a million
    python -m tests.simulator --seed 17                       this one again, as a story

Exit code 0: all laws hold.  1: some were broken, or something was never tried.  130: stopped by
Ctrl-C; what was done until then is told, and kept, all the same.
"""

import argparse
import sys
from datetime import UTC, datetime
from time import monotonic

from tests.simulator.coverage import GRAPHS
from tests.simulator.running import Report, run_seeds
from tests.simulator.subjects import SUBJECTS, run_of
from tools.reliability import Trial


def main() -> int:
    """Run what the command line says."""
    parser = argparse.ArgumentParser(prog="python -m tests.simulator", description=__doc__.partition("\n")[0])
    parser.add_argument("--subject", choices=[*SUBJECTS], default="streams", help="what is simulated (streams)")
    parser.add_argument("--schedules", type=int, default=10_000, metavar="N", help="how many (10,000)")
    parser.add_argument("--first", type=int, default=0, metavar="SEED", help="the first one's seed (0)")
    parser.add_argument("--jobs", type=int, default=2, metavar="N", help="processes (2)")
    parser.add_argument("--keep", action="store_true", help="keep what came of it for docs/reliability.md")
    parser.add_argument("--seed", type=int, metavar="SEED", help="only this one, with its story")
    asked = parser.parse_args()
    if asked.seed is not None:
        return tell(asked.subject, asked.seed)
    began = monotonic()
    report, interrupted = Report(asked.subject), False
    try:
        for part in run_seeds(range(asked.first, asked.first + asked.schedules), asked.jobs, asked.subject):
            report.merge(part)
    except KeyboardInterrupt:
        interrupted = True
        print("interrupted: what follows is about the schedules that were done until then", file=sys.stderr)
    seconds = monotonic() - began
    print("\n".join(report.in_words()))
    covered = GRAPHS[asked.subject].in_words(report.states) if report.states else ""
    if covered:
        print(f"{GRAPHS[asked.subject].title} that were reached: {covered}")
    print(f"{report.schedules:,} schedules in {seconds:.0f} s, {report.schedules / seconds * 60:,.0f} a minute")
    if asked.keep:
        keep(report, seconds, covered)
    if interrupted:
        return 130
    return 1 if report.broken or report.never_seen() else 0


def keep(report: Report, seconds: float, covered: str) -> None:
    """Write the file of which docs/reliability.md is made."""
    subject = SUBJECTS[report.subject]
    shown = [(f"seen: {what}", report.seen[what]) for what in subject.sometimes if what in report.seen]
    Trial(
        name=f"simulator-{report.subject}",
        title=subject.title,
        told=subject.told,
        command=f".venv/bin/python -m tests.simulator --subject {report.subject} --schedules {report.schedules}",
        date=datetime.now(UTC).date().isoformat(),
        seconds=round(seconds, 1),
        tried=report.schedules,
        broken=len(report.broken),
        columns=("what", "count"),
        rows=(
            *shown,
            *((("steps judged by the model", report.steps.total()),) if report.steps else ()),
            ("simulated hours", round(report.seconds / 3600, 1)),
            *(((f"{GRAPHS[report.subject].title} that were reached", covered),) if covered else ()),
        ),
        promises=subject.promises,
    ).keep()


def tell(subject: str, seed: int) -> int:
    """Run one schedule, and tell what happens in it."""
    outcome = run_of(subject)(seed, True)
    for seconds, where, what in outcome.story:
        print(f"{seconds:12.6f} s  {where:12} {what}")
    report = Report(subject)
    report.add(outcome)
    print("\n".join(report.in_words()))
    print(f"digest {outcome.digest}")
    return 1 if outcome.broken else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)

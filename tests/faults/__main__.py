"""``nox -s faults``: seeded schedules of faults between processes that stream; no loss goes unheard.

    python -m tests.faults                                           320 schedules
    python -m tests.faults --subject calls --seed 3                  those of one subject
    python -m tests.faults --subject calls --seed 3 --only 17        one of them again, with all that its processes said

Exit code 0: all laws hold.  1: some were broken.  2: it could not be found out.  130: stopped by Ctrl-C.
"""

import argparse
import asyncio
import shutil
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from datetime import date
from pathlib import Path

from tests.faults.judge import LAWS, FaultVerdict, events, judged
from tests.faults.running import Evidence, is_possible, run_schedule
from tests.faults.schedules import CASTS, SHARES, FaultKind, Schedule, Subject, draw
from tools.reliability import Trial

Result = tuple[Evidence, FaultVerdict]


async def run_all(schedules: Sequence[Schedule], jobs: int, folder: Path) -> list[Result]:
    """So many at once, the slow ones first; each yields its evidence and its verdict.  Logs of broken ones stay."""
    ahead = sorted(schedules, key=_takes_long, reverse=True)
    results: list[Result] = []

    async def work() -> None:
        while ahead:
            schedule = ahead.pop(0)
            own = folder / f"{schedule.subject}-{schedule.seed}-{schedule.number}"
            own.mkdir()
            evidence = await run_schedule(schedule, own)
            verdict = judged(evidence)
            results.append((evidence, verdict))
            if verdict.broken or len(schedules) == 1:
                print("\n".join(_report(evidence, verdict)), flush=True)
            if verdict.broken:
                which = f"--subject {schedule.subject} --seed {schedule.seed} --only {schedule.number}"
                again = f"python -m tests.faults {which}"
                print(f"    again: {again}; logs: {own}", flush=True)
            else:
                shutil.rmtree(own)

    async with asyncio.TaskGroup() as group:
        for _ in range(jobs):
            group.create_task(work())
    return results


def _takes_long(schedule: Schedule) -> bool:
    return any(fault.kind in (FaultKind.BLACK_HOLE, FaultKind.STOP, FaultKind.SLEEP) for fault in schedule.faults)


def _report(evidence: Evidence, verdict: FaultVerdict) -> Iterator[str]:
    schedule = evidence.schedule
    yield f"{'BROKEN' if verdict.broken else 'holds '} {schedule.name} ({evidence.seconds:.1f} s)"
    for number, fault in enumerate(schedule.faults):
        yield f"    {fault}{'' if number in evidence.fired else ' (has not come)'}"
    yield from (f"    {law}: {words}" for law, words in verdict.broken)
    yield from (f"    {party} was told: {outcome}" for party, outcome in verdict.outcomes.items())


COLUMNS = ("fault", "schedules", "came", "all well", "told", "broken")


def rows_of(results: Sequence[Result]) -> Iterator[tuple[str, int, int, int, int, int]]:
    """For each kind of fault, and for each subject: so many schedules, the fault came in, all went well, and so on."""
    runs: dict[tuple[int, str], list[Result]] = defaultdict(list)
    order = [*FaultKind, *Subject]
    for evidence, verdict in results:
        schedule = evidence.schedule
        subject = (order.index(schedule.subject), schedule.subject.value)
        for key in {subject, *((order.index(fault.kind), fault.what) for fault in schedule.faults)}:
            runs[key].append((evidence, verdict))
    for (_, name), own in sorted(runs.items()):
        came = sum(any(name in (e.schedule.subject, e.schedule.faults[n].what) for n in e.fired) for e, _ in own)
        well = sum(_went_well(e) for e, _ in own)
        broken = sum(bool(verdict.broken) for _, verdict in own)
        yield name, len(own), came, well, len(own) - well, broken


def table(results: Sequence[Result]) -> Iterator[str]:
    for name, *numbers in (COLUMNS, *rows_of(results)):
        yield f"{name:<20}" + "".join(f"{number:>10}" for number in numbers)


def trial(results: Sequence[Result], seconds: float, subjects: Sequence[Subject], asked: str) -> Trial:
    """For docs/reliability.md; of some subjects only, if they were chosen."""
    return Trial(
        name="-".join(["faults", *subjects]),
        title="Real processes, real faults" + (f": {', '.join(subjects)}" if subjects else ""),
        told="Processes that stream over gRPC and TCP through a proxy that cuts, swallows and flips; they are stopped, "
        "killed, put to sleep, their clocks jump, their disks are full. Each schedule is drawn from a seed, and judged "
        "by named laws. *Told*: an end heard of the fault by a typed error; *all well*: nobody needed to.",
        command=f".venv/bin/nox -s faults -- {asked}",
        date=f"{date.today()}",
        seconds=round(seconds),
        tried=len(results),
        broken=sum(bool(verdict.broken) for _, verdict in results),
        columns=COLUMNS,
        rows=[*rows_of(results)],
        promises=[(law.__doc__ or "").strip().splitlines()[0].removesuffix(".") for law in LAWS],
    )


def _went_well(evidence: Evidence) -> bool:
    return all(events(evidence, party, "over") for party in evidence.schedule.cast.ends)


def summary(results: Sequence[Result], seconds: float) -> Iterator[str]:
    yield from table(results)
    broken = Counter(law for _, verdict in results for law in {law for law, _ in verdict.broken})
    for law, count in broken.items():
        yield f"broken in {count} schedules: {law}"
    bad = sum(bool(verdict.broken) for _, verdict in results)
    yield f"{len(results)} schedules in {seconds:.0f} s: {f'{bad} broken' if bad else 'all laws hold'}"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    schedules = [
        draw(subject, options.seed, number)
        for subject in options.subject or Subject
        for number in options.only or range(options.schedules * CASTS[subject].shares // SHARES)
    ]
    for kind in sorted({kind for schedule in schedules for kind in schedule.kinds if not is_possible(kind)}):
        print(f"this machine does not allow: {kind}; its schedules are left out", file=sys.stderr)
        schedules = [schedule for schedule in schedules if kind not in schedule.kinds]
    if options.kills:
        schedules = [schedule for schedule in schedules if schedule.kills]
    if not schedules:
        print(f"error: of {options.schedules} schedules none is chosen: ask for more with --schedules", file=sys.stderr)
        return 2
    folder = Path(tempfile.mkdtemp(prefix="permitflow-faults-"))
    began = time.monotonic()
    try:
        results = asyncio.run(run_all(schedules, options.jobs, folder))
    except KeyboardInterrupt:
        return 130
    except Exception as error:
        causes = error.exceptions if isinstance(error, ExceptionGroup) else [error]
        print(f"it could not be found out: {causes[0]!r}; logs: {folder}", file=sys.stderr)
        return 2
    finally:
        # Of what was broken the logs stay.
        if not any(folder.iterdir()):
            folder.rmdir()
    seconds = time.monotonic() - began
    print("\n".join(summary(results, seconds)))
    if options.keep:
        chosen = options.subject or []
        asked = f"--seed {options.seed} --schedules {options.schedules}" + "".join(
            f" --subject {each}" for each in chosen
        )
        trial(results, seconds, chosen, asked).keep()
    return int(any(verdict.broken for _, verdict in results))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="of all that is drawn (default: 1)")
    parser.add_argument(
        "--subject", type=Subject, choices=Subject, action="append", help="may be repeated; default: all"
    )
    parser.add_argument("--schedules", type=int, default=320, help="how many of all subjects (default: 320)")
    parser.add_argument("--kills", action="store_true", help="of these schedules only those that kill a process")
    parser.add_argument("--only", type=int, action="append", metavar="N", help="schedule N; may be repeated")
    parser.add_argument("--keep", action="store_true", help="the results, for docs/reliability.md")
    parser.add_argument("--jobs", type=int, default=6, help="schedules at once: most of them wait (default: 6)")
    return parser


if __name__ == "__main__":
    sys.exit(main())

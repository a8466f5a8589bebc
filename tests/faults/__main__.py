"""``make faults``: seeded schedules of faults between a producer, an exchange and a consumer; no loss goes unheard.

    python -m tests.faults                            240 schedules
    python -m tests.faults --seed 3 --only 17         one of them again, with all that its processes said

Exit code 0: all laws hold.  1: some were broken.  2: it could not be found out.  130: stopped by Ctrl-C.
"""

import argparse
import asyncio
import json
import shutil
import sys
import tempfile
import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.faults.judge import Verdict, judged
from tests.faults.running import Evidence, Nursery, run_schedule
from tests.faults.schedules import Kind, Schedule, draw

Result = tuple[Evidence, Verdict]


async def run_all(schedules: Sequence[Schedule], options: argparse.Namespace, folder: Path) -> list[Result]:
    ahead = sorted(schedules, key=_takes_long, reverse=True)
    results: list[Result] = []

    async def work(nursery: Nursery) -> None:
        while ahead:
            schedule = ahead.pop(0)
            own = folder / f"{schedule.seed}-{schedule.number}"
            own.mkdir()
            evidence = await run_schedule(schedule, nursery, own)
            results.append((evidence, judged(evidence)))
            _report(*results[-1], options, own)
            if not results[-1][1].broken and not options.keep:
                shutil.rmtree(own)

    async with Nursery() as nursery, asyncio.TaskGroup() as group:
        for _ in range(options.jobs):
            group.create_task(work(nursery))
    return results


def _takes_long(schedule: Schedule) -> bool:
    return any(fault.kind in (Kind.BLACK_HOLE, Kind.STOP) for fault in schedule.faults)


def _report(evidence: Evidence, verdict: Verdict, options: argparse.Namespace, folder: Path) -> None:
    schedule = evidence.schedule
    if options.json:
        facts = {
            "number": schedule.number,
            "name": schedule.name,
            "broken": verdict.broken,
            "fired": len(evidence.fired),
            "outcomes": verdict.outcomes,
            "seconds": evidence.seconds,
        }
        print(json.dumps(facts), flush=True)
        return
    if verdict.broken or options.only is not None:
        print(f"{'BROKEN' if verdict.broken else 'holds '} {schedule.name} ({evidence.seconds:.1f} s)")
        for fault in schedule.faults:
            print(f"    {fault}{'' if schedule.faults.index(fault) in evidence.fired else ' (has not come)'}")
        for law, words in verdict.broken:
            print(f"    {law}: {words}")
        for party, outcome in verdict.outcomes.items():
            print(f"    {party} was told: {outcome}")
        if verdict.broken:
            print(f"    again: python -m tests.faults --seed {schedule.seed} --only {schedule.number}; logs: {folder}")
        sys.stdout.flush()


def table(results: Sequence[Result]) -> Iterator[str]:
    runs: dict[Kind, list[Result]] = defaultdict(list)
    for evidence, verdict in results:
        for kind in {fault.kind for fault in evidence.schedule.faults}:
            runs[kind].append((evidence, verdict))
    yield f"{'fault':<14} {'schedules':>9} {'came':>6} {'all well':>9} {'told':>6} {'broken':>7}"
    for kind in Kind:
        own = runs[kind]
        came = sum(any(e.schedule.faults[number].kind is kind for number in e.fired) for e, _ in own)
        well = sum(_went_well(e) for e, _ in own)
        broken = sum(bool(verdict.broken) for _, verdict in own)
        yield f"{kind:<14} {len(own):>9} {came:>6} {well:>9} {len(own) - well:>6} {broken:>7}"


def _went_well(evidence: Evidence) -> bool:
    return all(any(event["event"] == "over" for event in journal) for journal in evidence.journals.values())


def summary(results: Sequence[Result], seconds: float) -> Iterator[str]:
    yield from table(results)
    broken = Counter(law for _, verdict in results for law in {law for law, _ in verdict.broken})
    for law, count in broken.items():
        yield f"broken in {count} schedules: {law}"
    bad = sum(bool(verdict.broken) for _, verdict in results)
    yield f"{len(results)} schedules in {seconds:.0f} s: {f'{bad} broken' if bad else 'all laws hold'}"


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    numbers = options.only or range(options.schedules)
    schedules = [draw(options.seed, number) for number in numbers]
    if options.kind is not None:
        schedules = [schedule for schedule in schedules if options.kind in {fault.kind for fault in schedule.faults}]
    folder = Path(tempfile.mkdtemp(prefix="permitflow-faults-"))
    began = time.monotonic()
    try:
        results = asyncio.run(run_all(schedules, options, folder))
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
    if not options.json:
        print("\n".join(summary(results, time.monotonic() - began)))
    return int(any(verdict.broken for _, verdict in results))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=1, help="of all that is drawn (default: 1)")
    parser.add_argument("--schedules", type=int, default=240, help="how many (default: 240)")
    parser.add_argument("--only", type=int, action="append", metavar="N", help="schedule N; may be repeated")
    parser.add_argument("--kind", type=Kind, choices=list(Kind), help="only those with this kind of fault")
    parser.add_argument("--jobs", type=int, default=6, help="schedules at once: most of them wait (default: 6)")
    parser.add_argument("--keep", action="store_true", help="keep the logs of all schedules")
    parser.add_argument("--json", action="store_true", help="print one JSON object for each schedule")
    return parser


if __name__ == "__main__":
    sys.exit(main())

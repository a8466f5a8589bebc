"""An audit of millions of recorded events on Spark: is everything found that was injected, and how fast is it?

Writes a recording of many channels, each a settled run of the model repeated many times, with one fault in some of
them.  Then audits it with ``permitflow.spark.audit``, and asks the same of Spark's SQL with window functions, in the
same session, in turns.  Both answers are checked.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from pyspark.sql import SparkSession

from benchmarks.audit_speed import LEAST_AUDIT, PART, AuditSpeed
from benchmarks.audit_sql import WINDOW_SQL, first_due
from benchmarks.machine import describe_machine
from benchmarks.recorded_channels import Due, Recording, write_recording
from benchmarks.results import Results
from benchmarks.series import Series
from permitflow.demo.spark_session import local_session
from permitflow.spark import audit

# Not the quick start of short jobs: the competitor shall have Java's best compiler, memory, and sorts that fit it.
SETTINGS = {
    "spark.driver.extraJavaOptions": "-XX:+UseParallelGC",
    "spark.driver.memory": "6g",
    "spark.sql.shuffle.partitions": "16",
}


def audit_once(spark: SparkSession, trace: Path, expected: set[Due]) -> float:
    """Seconds; the audit must find what is expected, and nothing else."""
    begin = time.perf_counter()
    report = audit(spark, str(trace)).report
    seconds = time.perf_counter() - begin
    found = {(each.channel, each.end, each.sequence, each.clause) for each in report.violations}
    if found != expected or report.untold:
        raise AssertionError(f"missed: {sorted(expected - found)}; invented: {sorted(found - expected)}")
    return seconds


def query_once(spark: SparkSession, trace: Path, expected: dict[tuple[str, str], int]) -> float:
    """Seconds that the same clauses take with window functions; they must find what they ask for, and nothing else."""
    begin = time.perf_counter()
    spark.read.parquet(str(trace)).createOrReplaceTempView("events")
    found = {(channel, end): sequence for channel, end, sequence in spark.sql(WINDOW_SQL).collect()}
    seconds = time.perf_counter() - begin
    if found != expected:
        raise AssertionError(f"SQL found {found}, due was {expected}")
    return seconds


def measure(recording: Recording, trace: Path, rounds: int, work_dir: Path) -> AuditSpeed:
    """In turns, in one session."""
    ours, windows, due = [], [], first_due(recording.expected)
    with local_session("audit", master="local[2]", work_dir=work_dir, settings=SETTINGS) as spark:
        for number in range(1, rounds + 1):
            ours.append(audit_once(spark, trace, recording.expected))
            windows.append(query_once(spark, trace, due))
            print(f"round {number}: audit {ours[-1]:.1f} s, SQL {windows[-1]:.1f} s", flush=True)
    return AuditSpeed(
        events=recording.events,
        channels=recording.channels,
        violations=len(recording.expected),
        seen_by_sql=len(due),
        seconds=Series.of(ours),
        sql_seconds=Series.of(windows),
    )


@contextmanager
def _recorded(arguments: argparse.Namespace) -> Iterator[tuple[Recording, Path, Path]]:
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (trace := folder / "trace").mkdir()
        begin = time.perf_counter()
        recording = write_recording(trace, events=arguments.events, faults=arguments.faults, seed=arguments.seed)
        seconds = time.perf_counter() - begin
        kinds = len(recording.kinds)
        print(f"{recording.events:,} events, {arguments.faults} faults of {kinds} kinds, written in {seconds:.0f} s")
        yield recording, trace, folder / "spark"


def main() -> None:
    """Print a table and the verdict, and keep the figures."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--events", type=int, default=50_000_000, help="about so many")
    parser.add_argument("--faults", type=int, default=24, help="so many channels have one")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--folder", type=Path, help="keep the figures among the results in this folder")
    arguments = parser.parse_args()
    with _recorded(arguments) as (recording, trace, work_dir):
        speed = measure(recording, trace, arguments.rounds, work_dir)
    for who, seconds, rate in speed.rows():
        print(f"{who:<46} {seconds:>22} s  {rate:>22} million events/s")
    print(f"all {speed.violations} violations found, none invented; {speed.ratio.told()} times as fast as SQL")
    verdict = "met" if speed.ratio.median >= LEAST_AUDIT else "not met"
    print(f"{speed.promise}: target ≥ {LEAST_AUDIT:g}, {verdict}")
    if arguments.folder:
        Results.keep_in(arguments.folder, describe_machine(), PART, [speed], rounds=len(speed.seconds.values))


if __name__ == "__main__":
    main()

"""A process with one Spark session, which runs the functions that tests send to it.

Spark's gateway forks, and must not do so in a process in which gRPC runs, as it does in pytest's.
"""

import sys
import traceback
from contextlib import AbstractContextManager
from multiprocessing.connection import Connection
from pathlib import Path

from pyspark import cloudpickle
from pyspark.sql import SparkSession

from permitflow.spark.local_session import local_session
from permitflow_tools.checking.sessions import session_at

# Two attempts for each task, because clusters make several: a second one must not deliver rows twice.
MASTER = "local[4, 2]"


def session(work_dir: Path, master: str) -> AbstractContextManager[SparkSession]:
    """A session of this machine, of a cluster on it, or of a Connect server."""
    name = "permitflow tests"
    if master.startswith("sc:"):
        return session_at(master, name)
    return local_session(name, master=master, work_dir=work_dir)


def main(descriptor: int, work_dir: Path, master: str = MASTER) -> None:
    """Serve until the other end closes."""
    connection = Connection(descriptor)
    with session(work_dir, master) as spark:
        while True:
            try:
                job = cloudpickle.loads(connection.recv_bytes())
            except EOFError:
                return
            try:
                answer = (True, job(spark))
            except Exception:
                answer = (False, traceback.format_exc())
            connection.send_bytes(cloudpickle.dumps(answer))  # type: ignore[no-untyped-call]  # as it is


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), *sys.argv[3:])

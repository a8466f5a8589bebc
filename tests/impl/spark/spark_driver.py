"""A process with one Spark session, which runs the functions that tests send to it.

Spark's gateway forks, and must not do so in a process in which gRPC runs, as it does in pytest's.
"""

import sys
import traceback
from multiprocessing.connection import Connection
from pathlib import Path

from pyspark import cloudpickle

from permitflow.demo.spark_session import local_session

# Two attempts for each task, because clusters make several: a second one must not deliver rows twice.
MASTER = "local[4, 2]"


def main(descriptor: int, work_dir: Path) -> None:
    """Serve until the other end closes."""
    connection = Connection(descriptor)
    with local_session("permitflow tests", master=MASTER, work_dir=work_dir) as spark:
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
    main(int(sys.argv[1]), Path(sys.argv[2]))

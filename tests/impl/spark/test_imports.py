"""What Spark's processes load of a stream: each is new in every session, so that what is loaded without need costs."""

import json
import subprocess
import sys

from tests.support.served_exchange import numbers, producers

# What Spark's own process for it has loaded, the module that it looks for, and what it then does.
PLANNING = """
import json, pickle, sys
import pyspark.sql.worker.write_into_data_source
from pyspark.sql.types import ArrayType, StringType, StructType
before = set(sys.modules)
from pyspark_permitflow import DefaultSource
from pyspark_permitflow_grpc import DefaultSource as _
options = {"address": "127.0.0.1:1", "stream": "orders", "channels": "2"}
rows = StructType().add("id", "long").add("tags", ArrayType(StringType()))
pickle.dumps(DefaultSource(options).streamWriter(rows, overwrite=False))
print(json.dumps(sorted({name.partition(".")[0] for name in sys.modules.keys() - before})))
"""
DEAR = {"asyncio", "google", "grpc", "numpy", "pandas", "pyarrow", "ssl", "xxhash"}


def test_planning_a_stream_loads_neither_arrow_nor_grpc_nor_asyncio() -> None:
    done = subprocess.run([sys.executable, "-c", PLANNING], capture_output=True, text=True, timeout=200, check=True)
    loaded = set(json.loads(done.stdout))
    assert "permitflow" in loaded
    assert loaded & DEAR == set()


READING = """
import sys
from pyspark_permitflow import DefaultSource
source = DefaultSource(dict(zip(sys.argv[1::2], sys.argv[2::2])))
reader = source.reader(source.schema())
rows = [batch.num_rows for part in reader.partitions() for batch in reader.read(part)]
print(sum(rows), "pyarrow" in sys.modules, "pyarrow.compute" in sys.modules)
"""


def test_reading_loads_no_functions_of_arrow(options: dict[str, str]) -> None:
    given = [each for pair in options.items() for each in pair]
    with producers(options, [numbers(0, 5)], [numbers(5, 8)]):
        command = [sys.executable, "-c", READING, *given]
        done = subprocess.run(command, capture_output=True, text=True, timeout=200, check=True)
    assert done.stdout.split() == ["8", "True", "False"]

"""The child of a fork holds no descriptor of its parent's links, and returns none of its space."""

import subprocess
import sys

# In a process of its own: where gRPC runs, nobody must fork.
# Newer Pythons warn of what is tried here.
QUIET_FORK = ("-W", "ignore:This process:DeprecationWarning")
FORKING = """
import contextlib, os
import pyarrow as pa
from tests.support.carriers import memory_ends
from permitflow.transports.shared_memory.blocking_link import BlockingLink
from permitflow.transports.shared_memory.blocking_link import Outgoing

def open_files():
    files = set()
    for name in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):
            files.add(os.readlink(f"/proc/self/fd/{name}"))
    return files

with memory_ends() as ends:
    writer = BlockingLink(ends.writer_socket, ends.writer, most_bytes=1 << 20)
    reader = BlockingLink(ends.reader_socket, ends.reader, most_bytes=1 << 20)
    def read():
        assert reader.wait(10.0)
        return reader.read_nowait()

    writer.write(Outgoing([b"x" * 50_000]))
    held = [pa.py_buffer(read())]
    inherited = {os.readlink(f"/proc/self/fd/{end.fileno()}") for end in (ends.writer_socket, ends.reader_socket)}
    assert inherited < open_files()
    child = os.fork()
    if child == 0:
        assert held.pop().to_pybytes() == b"x" * 50_000
        assert not inherited & open_files()
        os._exit(7)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
    assert not ends.writer.collect(), "the child has returned what the parent holds"
    writer.write(Outgoing([b"after the fork"]))
    assert read() == b"after the fork"
    held.clear()
    assert ends.writer.collect()
    writer.close()
    reader.close()
print("as it should be")
"""


def test_a_child_lets_go_without_a_word() -> None:
    done = subprocess.run([sys.executable, *QUIET_FORK, "-c", FORKING], capture_output=True, text=True, timeout=250)
    assert (done.stdout, done.stderr) == ("as it should be\n", "")

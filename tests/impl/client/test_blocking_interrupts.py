"""A signal's exception in a blocking end, wherever it hits: nothing is lost, nothing comes twice; forks; exits."""

import gc
import os
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from itertools import count
from types import FrameType

import pyarrow as pa
import pytest

from permitflow import Kind, Message
from permitflow.client import JoinedChunks
from permitflow.client.blocking import BlockingSink, BlockingSource, control, open_source
from permitflow.errors import ChannelClosedError, EndOfStream
from tests.impl.conftest import PATHS
from tests.support.served_exchange import (
    PATIENCE_SECONDS,
    ServedExchange,
    held_ends,
    numbers,
    send_all,
    served_exchange,
    sink_of,
    source_of,
    values,
    wait_for_ends_but,
)

CHUNKS = [2, 3, 1, 4, 5, 2]
ROWS = sum(CHUNKS)
SENT_ROWS = 44
REPLAY = ("--retention", "replay", "--drain-seconds", "0")


# Interrupts hit the caller's thread, which does the same on each path: make test has one.
@pytest.fixture(
    scope="module", params=[pytest.param(path, marks=() if path == "TCP" else pytest.mark.long) for path in PATHS]
)
def kept(request: pytest.FixtureRequest) -> Iterator[ServedExchange]:
    """An exchange that keeps rows: they can be read again, with an interrupt in another place."""
    same_host, address = PATHS[request.param]
    with served_exchange(same_host=same_host, address=address, more=REPLAY) as served:
        yield served


def found(received: object) -> list[int]:
    match received:
        case JoinedChunks():
            return values([received.batch])
        case Message(kind=Kind.CHUNK):
            return values([received.payload])
        case pa.RecordBatch():
            return values([received])
    return []


WAYS: dict[str, Callable[[BlockingSource], Callable[[], object]]] = {
    "receive": lambda source: source.receive,
    "receive_joined, four rows": lambda source: lambda: source.receive_joined(4),
    "iteration": lambda source: source.__next__,
    "joined": lambda source: source.joined().__next__,
}


def read_on(source: BlockingSource, way: str, interrupting: "Interrupting") -> list[int]:
    """All that comes, as a caller reads who goes on after an exception."""
    seen: list[int] = []
    receive = WAYS[way](source)
    while True:
        try:
            seen += found(interrupting.call(receive))
        except SignalError:
            receive = WAYS[way](source)
        except (EndOfStream, StopIteration, ChannelClosedError):
            return seen


class SignalError(Exception):
    """What a signal's handler raises."""


class Interrupting:
    """Raises once while ``call`` runs what a signal's handler would raise; counts on from call to call.

    Python heeds signals where a function begins and where a C function has returned: there it calls a profile function.
    """

    def __init__(self, place: int) -> None:
        """In the place with this number, from 0."""
        self.where = ""
        """In which function it was; empty before that."""
        self._left = place

    def call(self, function: Callable[[], object]) -> object:
        def heed(frame: FrameType, event: str, arg: object) -> None:
            if event not in ("call", "c_return") or frame is own or self.where:
                return
            self._left -= 1
            if self._left < 0:
                self.where = f"{frame.f_code.co_name}: {event}"
                raise SignalError

        if self.where:
            return function()
        own: FrameType | None = sys._getframe()
        before = sys.getprofile()
        # An exception raised during garbage collection has no caller, and is lost.
        gc.disable()
        sys.setprofile(heed)
        try:
            return function()
        finally:
            sys.setprofile(before)
            gc.enable()
            own = None  # else this frame would refer to itself, and to the function


def in_each_place(least: int) -> Iterator[Interrupting]:
    """One place after the other, until the last one was passed; they must be more than so many."""
    for place in count():
        interrupting = Interrupting(place)
        yield interrupting
        if not interrupting.where:
            break
    assert place > least, "it was interrupted in too few places"


@pytest.mark.parametrize("way", WAYS)
def test_a_receive_that_is_interrupted_anywhere_loses_no_row(kept: ServedExchange, way: str) -> None:
    channel, starts = kept.channel(), [sum(CHUNKS[:n]) for n in range(len(CHUNKS))]
    send_all(kept, channel, [numbers(start, start + rows) for start, rows in zip(starts, CHUNKS, strict=True)])
    for interrupting in in_each_place(least=30):
        with open_source(kept.address, channel, from_row=0, timeout_seconds=PATIENCE_SECONDS) as source:
            assert read_on(source, way, interrupting) == list(range(ROWS)), interrupting.where


def test_a_send_that_is_interrupted_anywhere_sends_each_row_once(kept: ServedExchange) -> None:
    channel, start = kept.channel(), 0
    with control(kept.address, timeout_seconds=PATIENCE_SECONDS) as orders:
        for interrupting in in_each_place(least=100):
            with sink_of(kept, channel) as sink:
                send_on(sink, start, interrupting)
            stop = start + SENT_ROWS
            with open_source(kept.address, channel, to_row=stop, timeout_seconds=PATIENCE_SECONDS) as source:
                assert values(list(source)) == list(range(start, stop)), interrupting.where
            start = stop
            orders.acknowledge({channel: start})


def send_on(sink: BlockingSink, start: int, interrupting: Interrupting) -> None:
    """Send all rows, as a caller does who goes on after an exception; then the end."""
    while (sent := sink.accepted_rows) < SENT_ROWS:
        try:
            interrupting.call(lambda: sink.send(numbers(start + sent, start + min(sent + 12, SENT_ROWS))))  # at once
        except SignalError:
            continue
    while True:
        try:
            interrupting.call(lambda: sink.end(closes_channel=False))
        except SignalError:
            continue
        except ChannelClosedError:
            pass  # all was well, and it was about to say so
        return


def opened(kept: ServedExchange, channel: str, interrupting: Interrupting) -> None:
    source = interrupting.call(lambda: source_of(kept, channel))
    assert isinstance(source, BlockingSource)
    source.close()


def ordered(kept: ServedExchange, channel: str, interrupting: Interrupting) -> None:
    with control(kept.address, timeout_seconds=PATIENCE_SECONDS) as orders:
        interrupting.call(partial(orders.acknowledge, {channel: 3}))


@pytest.mark.parametrize("use", [opened, ordered])
def test_an_interrupted_opening_or_order_leaves_nothing_behind(
    kept: ServedExchange, use: Callable[[ServedExchange, str, Interrupting], None]
) -> None:
    channel, ends = kept.channel(), held_ends()
    send_all(kept, channel, [numbers(0, 3)])
    for interrupting in in_each_place(least=10):
        with suppress(SignalError):
            use(kept, channel, interrupting)
        assert held_ends() == ends, interrupting.where


@pytest.mark.filterwarnings("ignore:.*was dropped and hangs up:ResourceWarning")
def test_an_interrupted_abort_leaves_nothing_behind(
    exchange: ServedExchange,
) -> None:
    ends = held_ends()
    for interrupting in in_each_place(least=10):
        sink = sink_of(exchange, exchange.channel())
        sink.send(numbers(0, 3))
        with suppress(SignalError):
            interrupting.call(partial(sink.abort, "it was enough"))
        del sink
        wait_for_ends_but(ends)


def run_python(program: str, *arguments: str) -> tuple[str, str]:
    """Standard output and error of a program in a process of its own: no process with gRPC in it may fork."""
    # Newer Pythons warn of what is tried here.
    command = [sys.executable, "-W", "ignore:This process:DeprecationWarning", "-c", program, *arguments]
    environment = {**os.environ, "GRPC_VERBOSITY": "NONE"}  # what it notes by the way is no error
    done = subprocess.run(command, capture_output=True, text=True, timeout=2 * PATIENCE_SECONDS, env=environment)
    return done.stdout.strip(), done.stderr


FORKING = """
import os, sys
import pyarrow as pa
from permitflow.errors import ForkedError
from permitflow.client.blocking import open_sink, open_source
address, channel, other = sys.argv[1:]
batch = pa.record_batch({"n": list(range(100))})

def refused(deed):
    try:
        deed()
    except ForkedError:
        return True
    return False

sink = open_sink(address, channel, batch.schema, timeout_seconds=20)
sink.send(batch)
child = os.fork()
if child == 0:
    assert refused(lambda: sink.send(batch)) and refused(lambda: sink.end(closes_channel=True))
    sink.abort("it is the parent's")
    sink.close()
    if address.startswith("tcp://"):
        with open_sink(address, other, batch.schema, timeout_seconds=20) as own:
            own.send(batch)
            own.end(closes_channel=True)
    else:
        assert refused(lambda: open_sink(address, other, batch.schema, timeout_seconds=20))
    os._exit(7)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 7
sink.send(batch)
sink.end(closes_channel=True)
with open_source(address, channel, timeout_seconds=20) as source:
    assert sum(batch.num_rows for batch in source) == 200
if address.startswith("tcp://"):
    with open_source(address, other, timeout_seconds=20) as source:
        assert sum(batch.num_rows for batch in source) == 100
print("as it should be")
"""


def test_a_forked_child_cannot_use_its_parents_ends(exchange: ServedExchange) -> None:
    said = run_python(FORKING, exchange.address, exchange.channel(), exchange.channel())
    assert said == ("as it should be", ""), said[1]


LEAVING = """
import sys, threading
from contextlib import suppress
import pyarrow as pa
from permitflow.errors import ChannelClosedError
from permitflow.client.blocking import control, open_sink, open_source
address, channel, other = sys.argv[1:]
batch = pa.record_batch({"n": list(range(100))})
sink = open_sink(address, channel, batch.schema, timeout_seconds=20)
sink.send(batch)
source = open_source(address, channel, timeout_seconds=20)
next(source)
orders = control(address, timeout_seconds=20)
orders.statistics()
starved = open_sink(address, other, batch.schema, timeout_seconds=20)

def end():
    with suppress(ChannelClosedError):  # if it does not wait yet
        while True:
            starved.send(batch)

threading.Thread(target=end, daemon=True).start()
while not starved.statistics().waiting_sends:
    pass
print("as it should be")
"""


def test_a_process_that_exits_with_open_ends_prints_nothing(exchange: ServedExchange) -> None:
    said = run_python(LEAVING, exchange.address, exchange.channel(), exchange.channel())
    assert said == ("as it should be", ""), said[1]


def test_an_end_closed_by_another_thread_ends_the_wait(exchange: ServedExchange, pool: ThreadPoolExecutor) -> None:
    channel = exchange.channel()
    with sink_of(exchange, channel), source_of(exchange, channel) as source:
        begins = threading.Event()

        def read() -> object:
            begins.set()
            return next(source, None)

        reading = pool.submit(read)
        assert begins.wait(PATIENCE_SECONDS)
        source.close()
        with pytest.raises(ChannelClosedError):
            reading.result(PATIENCE_SECONDS / 2)

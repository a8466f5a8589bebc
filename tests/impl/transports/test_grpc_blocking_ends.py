"""The end of a blocking client's stream: in good order, given up, killed, interrupted, in the child of a fork."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from time import sleep

import psutil
import pytest

from permitflow.errors import (
    ChannelAbortedError,
    ChannelClosedError,
    PeerGoneError,
    PeerTimeoutError,
)
from permitflow.transports.grpc_blocking import EndOutcome
from tests.support.process import within
from tests.support.served_exchange import (
    CLOSED_SECONDS,
    HANGING_SECONDS,
    INTERRUPTED_SECONDS,
    KILLED_SECONDS,
    PATIENCE_SECONDS,
    SHORT_SECONDS,
    STARVED_SECONDS,
    ServedExchange,
    in_a_hurry,
    numbers,
    read_all,
    send_all,
    send_for_ever,
    sink_of,
    source_of,
    source_of_first,
    values,
)

pytestmark = pytest.mark.usefixtures("patient_diagnosis")


def test_an_exception_in_the_senders_block_reaches_the_consumer(exchange: ServedExchange) -> None:
    channel = exchange.channel()
    sink = sink_of(exchange, channel)
    with source_of(exchange, channel) as source:
        with pytest.raises(ZeroDivisionError), sink:
            sink.send(numbers(0, 10 // len(source.schema.names[1:])))
        with pytest.raises(ChannelAbortedError, match="ZeroDivisionError: "):
            list(source)


def test_an_exception_that_utf_8_cannot_hold_stays_as_it_is_and_reaches_the_consumer_in_other_words(
    exchange: ServedExchange,
) -> None:
    channel = exchange.channel()
    sink = sink_of(exchange, channel)
    with source_of(exchange, channel) as source:
        with pytest.raises(ValueError, match="of a file: \udcff"), sink:
            raise ValueError("of a file: \udcff")  # as Python reads a name that is no UTF-8
        with pytest.raises(ChannelAbortedError, match=r"gave up: ValueError: of a file: \?$"):
            list(source)


def test_the_reason_of_a_starved_sender_reaches_a_consumer_that_comes_later(exchange: ServedExchange) -> None:
    channel = exchange.channel()
    with (
        within(STARVED_SECONDS),
        pytest.raises(PeerTimeoutError),
        sink_of(exchange, channel) as sink,
        in_a_hurry(sink),
    ):
        send_for_ever(sink)
    with pytest.raises(ChannelAbortedError, match=r"gave up: PeerTimeoutError: .*row permits are away"):
        read_all(exchange, channel)


def test_a_sender_that_leaves_without_end_fails_its_consumer(exchange: ServedExchange) -> None:
    channel = exchange.channel()
    with source_of_first(exchange, channel, sink := sink_of(exchange, channel)) as source:
        sink.close()
        with pytest.raises(ChannelAbortedError, match="is gone"):
            list(source)


def test_a_consumer_that_leaves_halfway_fails_its_sender(exchange: ServedExchange) -> None:
    channel = exchange.channel()
    sink = sink_of(exchange, channel)
    with source_of_first(exchange, channel, sink) as source:
        next(source)
    with pytest.raises(PeerGoneError, match=f"the consumer of channel '{channel}'"), sink:
        send_for_ever(sink)


def test_an_abort_is_harmless_after_the_end_and_twice(exchange: ServedExchange) -> None:
    channel = exchange.channel()
    with sink_of(exchange, channel) as sink:
        sink.send(numbers(0, 3))
        sink.end(closes_channel=True)
        sink.abort("too late")
    assert read_all(exchange, channel) == [0, 1, 2]
    other = sink_of(exchange, exchange.channel())
    other.abort("once")
    other.abort("twice")
    other.close()
    other.close()


def test_an_end_that_is_over_is_not_used_again(exchange: ServedExchange) -> None:
    channel = exchange.channel()
    sink = sink_of(exchange, channel)
    sink.end(closes_channel=True)
    with pytest.raises(ChannelClosedError):
        sink.send(numbers(0, 1))
    with pytest.raises(ChannelClosedError):
        sink.end(closes_channel=True)
    source = source_of(exchange, channel)
    assert list(source) == []
    with pytest.raises(ChannelClosedError):
        source.receive()


def test_no_thread_and_no_connection_is_left_behind(exchange: ServedExchange) -> None:
    channel = exchange.channel()
    others = set(threading.enumerate())
    send_all(exchange, channel, [numbers(0, 10)])
    with source_of(exchange, channel) as source:
        assert any("permitflow" in thread.name for thread in set(threading.enumerate()) - others)
        assert connections_to(exchange) != []
        next(source)
    with pytest.raises(PeerTimeoutError):
        source_of(exchange, exchange.channel(), SHORT_SECONDS)
    assert [thread.name for thread in set(threading.enumerate()) - others if "permitflow" in thread.name] == []
    # gRPC's own threads close the sockets a moment later.
    with within(CLOSED_SECONDS) as watch:
        while connections_to(exchange) and watch.seconds < CLOSED_SECONDS:
            sleep(0.01)
    assert connections_to(exchange) == []


def connections_to(exchange: ServedExchange) -> list[int]:
    """The local ports of this process's open connections."""
    port = int(exchange.address.rpartition(":")[2])
    connections = psutil.Process().net_connections("tcp")
    return [
        c.laddr.port for c in connections if c.raddr and c.raddr.port == port and c.status == psutil.CONN_ESTABLISHED
    ]


def test_a_killed_exchange_is_noticed_by_both_ends(mortal_exchange: ServedExchange, pool: ThreadPoolExecutor) -> None:
    exchange = mortal_exchange
    channel = exchange.channel()
    with sink_of(exchange, channel) as sink, source_of_first(exchange, channel, sink) as source:
        next(source)
        reading = pool.submit(next, source)
        exchange.signal(signal.SIGKILL)
        with within(KILLED_SECONDS):
            with pytest.raises(PeerGoneError, match=exchange.address):
                send_for_ever(sink)
            with pytest.raises(PeerGoneError, match=exchange.address):
                reading.result(PATIENCE_SECONDS)


def test_an_exchange_that_hangs_is_noticed_within_seconds(mortal_exchange: ServedExchange) -> None:
    """Its kernel still acknowledges what is sent to it; only the missing sign of life tells."""
    exchange = mortal_exchange
    channel = exchange.channel()
    with sink_of(exchange, channel) as sink, source_of_first(exchange, channel, sink) as source:
        next(source)
        exchange.signal(signal.SIGSTOP)
        try:
            with within(HANGING_SECONDS), pytest.raises(PeerGoneError) as caught:
                next(source)
            assert not isinstance(caught.value, PeerTimeoutError)
        finally:
            exchange.signal(signal.SIGCONT)


def test_ctrl_c_interrupts_a_read_and_nothing_is_lost(exchange: ServedExchange) -> None:
    channel = exchange.channel()
    with sink_of(exchange, channel) as sink, source_of_first(exchange, channel, sink) as source:
        assert next(source).num_rows == 64
        with interrupted_once(lambda: True):
            next(source)
        sink.send(numbers(64, 128))
        sink.end(closes_channel=True, until=EndOutcome.ACCEPTED)
        assert values(list(source)) == list(range(64, 128))


def test_ctrl_c_interrupts_a_send_and_nothing_is_lost(exchange: ServedExchange, pool: ThreadPoolExecutor) -> None:
    channel = exchange.channel()
    with sink_of(exchange, channel) as sink, source_of_first(exchange, channel, sink) as source:
        with interrupted_once(lambda: sink.statistics().sent_rows > exchange.parameters.row_permits):
            send_for_ever(sink)
        reading = pool.submit(list, source)
        sink.end(closes_channel=True)
        received = sum(batch.num_rows for batch in reading.result(PATIENCE_SECONDS))
    assert received == sink.statistics().sent_rows > exchange.parameters.row_permits


@contextmanager
def interrupted_once(is_time: Callable[[], bool]) -> Iterator[None]:
    """Ctrl-C, a moment after it is time for it; it must be heeded soon."""
    main = threading.main_thread().ident
    assert main is not None

    def interrupt() -> None:
        while not is_time():
            sleep(0.01)
        sleep(SHORT_SECONDS)
        signal.pthread_kill(main, signal.SIGINT)

    thread = threading.Thread(target=interrupt)
    with within(INTERRUPTED_SECONDS):
        with pytest.raises(KeyboardInterrupt):  # noqa: PT012  # from its start on it may come
            thread.start()
            yield
        thread.join()


# Newer Pythons warn of what is tried here.
QUIET_FORK = ("-W", "ignore:This process:DeprecationWarning")
FORKING = """
import os, sys
import permitflow.spark  # what Spark's daemon may have loaded
assert "grpc" not in sys.modules
address, channel = sys.argv[1:]

def child(work):
    pid = os.fork()
    if pid == 0:
        from permitflow.transports import grpc_blocking
        import pyarrow as pa
        work(grpc_blocking, pa)
        os._exit(0)
    return pid

def send(grpc_blocking, pa):
    batch = pa.record_batch({"n": list(range(500))})
    with grpc_blocking.open_sink(address, channel, batch.schema, timeout_seconds=20) as sink:
        sink.send(batch)
        sink.end(closes_channel=True)

def receive(grpc_blocking, pa):
    with grpc_blocking.open_source(address, channel, timeout_seconds=20) as source:
        assert sum(batch.num_rows for batch in source) == 500

print([os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in (child(send), child(receive))])
"""


def test_children_of_a_fork_can_use_it_if_they_load_it_themselves(exchange: ServedExchange) -> None:
    done = subprocess.run(
        [sys.executable, *QUIET_FORK, "-c", FORKING, exchange.address, exchange.channel()],
        capture_output=True,
        text=True,
        timeout=PATIENCE_SECONDS * 2,
        env={**os.environ, "GRPC_VERBOSITY": "ERROR"},  # what it notes by the way is no error
    )
    assert (done.stdout.strip(), done.stderr) == ("[0, 0]", "")

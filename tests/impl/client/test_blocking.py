"""The blocking client against a real exchange in another process: rows, permits, refusals, and every kind of end."""

import asyncio
import gc
import signal
import threading
import warnings
from collections import deque
from collections.abc import Callable, Generator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from dataclasses import replace
from time import monotonic, sleep

import psutil
import pyarrow as pa
import pytest

from permitflow import ChannelStatistics, Kind
from permitflow.client.background import background
from permitflow.client.blocking import BlockingSink, EndOutcome, control, open_sink, open_source, probe
from permitflow.client.held import HeldSender
from permitflow.client.remote_sender import RemoteSender
from permitflow.errors import (
    ChannelAbortedError,
    ChannelClosedError,
    ChannelSpentError,
    EndOfStream,
    InvalidParametersError,
    PeerGoneError,
    PeerTimeoutError,
    SchemaMismatchError,
)
from permitflow.flows.permits.parameters import ONCE_PARAMETERS
from permitflow.tracing import MemoryTrace
from tests.support.served_exchange import (
    PATIENCE_SECONDS,
    SCHEMA,
    ServedExchange,
    held_ends,
    in_a_hurry,
    numbers,
    read_all,
    send_all,
    send_for_ever,
    sink_of,
    source_of,
    source_of_first,
    values,
    wait_for_ends_but,
)
from tests.support.simulated_time import Clock

pytestmark = pytest.mark.usefixtures("patient_diagnosis")


def test_rows_arrive_in_order_and_large_chunks_in_slices(exchange: ServedExchange, pool: ThreadPoolExecutor) -> None:
    channel = exchange.channel()
    batches = [numbers(0, 1000), numbers(1000, 1001), numbers(1001, 1001), numbers(1001, 3000)]

    def produce() -> ChannelStatistics:
        with sink_of(exchange, channel) as sink:
            for batch in batches:
                sink.send(batch)
            sink.end()
        return sink.statistics()

    sending = pool.submit(produce)
    with source_of(exchange, channel) as source:
        received = list(source)
    assert values(received) == list(range(3000))
    assert max(batch.num_rows for batch in received) <= exchange.parameters.max_chunk_cost
    assert any(batch.num_rows == 0 for batch in received)
    consumed, sent = source.statistics(), sending.result(PATIENCE_SECONDS)
    assert (sent.sent_rows, consumed.consumed_rows) == (3000, 3000)
    assert sent.sent_chunks == consumed.consumed_chunks == len(received)
    assert 0 < sent.peak_rows_held <= exchange.parameters.row_permits
    assert 0 < consumed.peak_inbox_rows <= exchange.parameters.row_permits
    assert 0.0 <= sent.blocked_share <= 1.0


def test_a_batch_longer_than_a_message_leaves_in_slices(exchange: ServedExchange, pool: ThreadPoolExecutor) -> None:
    batch = pa.record_batch({"t": [f"{number:1000000}" for number in range(40)]})
    channel = exchange.channel()

    def produce() -> None:
        with open_sink(exchange.address, channel, batch.schema, timeout_seconds=PATIENCE_SECONDS) as sink:
            sink.send(batch)
            sink.end(closes_channel=True)

    sending = pool.submit(produce)
    with source_of(exchange, channel) as source:
        received = list(source)
    sending.result(PATIENCE_SECONDS)
    assert len(received) > 2
    assert pa.Table.from_batches(received) == pa.Table.from_batches([batch])


@pytest.mark.parametrize(("rows", "sent_rows"), [(100, 100), (1, 0)])
def test_a_large_batch_leaves_in_the_turn_that_hears_of_it(exchange: ServedExchange, rows: int, sent_rows: int) -> None:
    """A short one waits for others that come meanwhile."""

    async def sent_in_one_turn() -> int:
        sink.send(numbers(0, rows))
        await asyncio.sleep(0)
        return sink.statistics().sent_rows

    with sink_of(exchange, exchange.channel()) as sink:
        assert background().run(sent_in_one_turn) == sent_rows
        sink.abort("it was a test")


def test_barriers_keep_their_places_among_batches_that_wait(exchange: ServedExchange, pool: ThreadPoolExecutor) -> None:
    """The batches need many windows, so that barriers wait in the queue, too."""
    channel = exchange.channel()

    def produce() -> int:
        with sink_of(exchange, channel) as sink:
            for number in range(1, 9):
                sink.send(numbers(0, 300))
                sink.send_barrier(number)
                sink.send_barrier()
            accepted_rows = sink.accepted_rows
            sink.end(closes_channel=True)
        with pytest.raises(ChannelClosedError):
            sink.send_barrier()
        return accepted_rows

    sending = pool.submit(produce)
    rows, found = 0, []
    with source_of(exchange, channel) as source, suppress(EndOfStream):
        while True:
            message = source.receive()
            rows += message.rows
            if message.kind is Kind.BARRIER:
                found.append((message.payload, rows))
    assert found == [place for number in range(1, 9) for place in ((number, 300 * number), (None, 300 * number))]
    assert sending.result(PATIENCE_SECONDS) == 8 * 300


def test_a_barrier_that_cannot_travel_is_refused_and_sending_goes_on(exchange: ServedExchange) -> None:
    with sink_of(exchange, exchange.channel()) as sink:
        with pytest.raises(InvalidParametersError, match="barrier must be a whole number of 64 bits"):
            sink.send_barrier(2**63)
        sink.send_barrier(1)


def test_batches_behind_a_barrier_that_did_not_leave_are_handed_back(exchange: ServedExchange) -> None:
    """Barriers have one permit on each hop, and nobody consumes them: so the last one waits in the queue."""
    channel, batches = exchange.channel(), [numbers(first, first + 5) for first in range(0, 20, 5)]
    with sink_of(exchange, channel) as sink:
        with source_of_first(exchange, channel, sink) as source:
            next(source)
            for number, batch in enumerate(batches):
                sink.send_barrier(number)
                sink.send(batch)
        with pytest.raises(PeerGoneError) as caught:
            send_for_ever(sink)
        rest = caught.value.undelivered
        assert isinstance(rest, list)
        assert batches[-1] in rest
        refused = rest.pop()
        assert refused == numbers(0, 64)
        assert sink.statistics().sent_rows + sum(batch.num_rows for batch in rest) == sink.accepted_rows


class Interleaved(deque[pa.RecordBatch]):
    """A queue between two threads: the caller goes on just after the loop has found it empty for the second time."""

    def __init__(self, caller_goes_on: Callable[[], None]) -> None:
        super().__init__()
        self.looks = 0
        self.caller_goes_on = caller_goes_on

    def __len__(self) -> int:
        count = super().__len__()
        if not count and threading.current_thread() is not threading.main_thread():
            self.looks += 1
            if self.looks == 2:
                self.caller_goes_on()
        return count


def test_a_batch_sent_with_the_end_is_not_lost(exchange: ServedExchange, pool: ThreadPoolExecutor) -> None:
    channel = exchange.channel()
    reading = pool.submit(read_all, exchange, channel)
    with sink_of(exchange, channel) as sink:
        held, gone_on = sink._held, threading.Event()

        def send_and_end() -> None:
            held.line.append(numbers(10, 20))
            held.wanted_end = True, EndOutcome.CONSUMED
            gone_on.set()

        held.line = Interleaved(send_and_end)
        sink.send(numbers(0, 10))
        assert gone_on.wait(PATIENCE_SECONDS)
        sink.end(closes_channel=True)
    assert reading.result(PATIENCE_SECONDS) == list(range(20))


def test_a_batchs_permits_return_when_the_next_one_is_asked_for(exchange: ServedExchange) -> None:
    channel, trace = exchange.channel(), MemoryTrace()
    send_all(exchange, channel, [numbers(0, 64), numbers(64, 128)])
    with open_source(exchange.address, channel, timeout_seconds=PATIENCE_SECONDS, record=trace.recorder) as source:
        batches = iter(source)
        assert [event.action for event in trace.events].count("Consume") == 0
        next(batches)
        assert [event.action for event in trace.events].count("Consume") == 0
        next(batches)
        assert [event.action for event in trace.events].count("Consume") <= 1
        assert next(batches, None) is None
        assert [event.action for event in trace.events].count("Consume") == 2
        assert trace.events[-1].channel == source.stream
        assert trace.events[-1].end == "receiver"


def test_a_slow_reader_of_a_large_window_tells_of_4096_rows_at_once(exchange: ServedExchange) -> None:
    with control(exchange.address) as orders:
        orders.add_stream("large", 1, parameters=ONCE_PARAMETERS)
    send_all(exchange, "large/0", [numbers(row, row + 1_024) for row in range(0, 32_768, 1_024)])
    with source_of(exchange, "large/0") as source:
        for _ in range(6):
            source.receive()
        probe(exchange.address, "large/0")  # in the same loop, after what it was told before
        assert source.statistics().consumed_rows >= 4_096


def test_a_time_out_counts_from_the_last_progress(exchange: ServedExchange, monkeypatch: pytest.MonkeyPatch) -> None:
    clock, counted = Clock(), RemoteSender.statistics

    def statistics(sender: RemoteSender) -> ChannelStatistics:
        return replace(counted(sender), sent_rows=int(clock.seconds > 0), rows_held=0)

    def wait(_: HeldSender, until: float) -> bool:
        clock.seconds = until
        return False

    with sink_of(exchange, exchange.channel()) as sink:
        sink.send(numbers(0, 9_800))
        sink.send(numbers(9_800, 10_000))
        monkeypatch.setattr("permitflow.client.blocking.monotonic", clock)
        monkeypatch.setattr(RemoteSender, "statistics", statistics)
        monkeypatch.setattr(HeldSender, "wait", wait)
        with pytest.raises(PeerTimeoutError):
            sink.send(numbers(10_000, 10_010))
        sink.abort("nobody reads")
    assert clock.seconds == pytest.approx(PATIENCE_SECONDS, rel=0.25)


def test_a_waiting_consumer_returns_the_residue_after_a_timeout(exchange: ServedExchange) -> None:
    channel, trace = exchange.channel(), MemoryTrace()
    with sink_of(exchange, channel) as sink:
        sink.send(numbers(0, 10))
        with open_source(exchange.address, channel, timeout_seconds=PATIENCE_SECONDS, record=trace.recorder) as source:
            assert next(source).num_rows == 10
            with in_a_hurry(source), pytest.raises(PeerTimeoutError, match="1 producer is connected and silent"):
                next(source)
            assert [event.action for event in trace.events] == ["Deliver", "Consume", "Flush"]
            sink.send(numbers(10, 20))
            assert values([next(source)]) == list(range(10, 20))
            sink.end(closes_channel=True, until=EndOutcome.ACCEPTED)
            assert next(source, None) is None


def test_a_starved_send_names_the_cause_and_hands_the_rest_back(
    exchange: ServedExchange, pool: ThreadPoolExecutor
) -> None:
    channel = exchange.channel()
    with sink_of(exchange, channel) as sink:
        sink.send(numbers(0, 9_800))  # some of it leaves
        sink.send(numbers(9_800, 10_000))  # it stays in line, which is full
        with in_a_hurry(sink), pytest.raises(PeerTimeoutError) as caught:
            sink.send(numbers(10_000, 10_010))
        message = str(caught.value)
        assert channel in message
        assert exchange.address in message
        assert f"of {exchange.parameters.row_permits} are unspent" in message
        assert "task slot" in message
        assert (sink.accepted_rows, caught.value.undelivered) == (10_000, [numbers(10_000, 10_010)])
        # What was in line still is, and the sender can go on where it stopped.
        with source_of(exchange, channel) as source:
            reading = pool.submit(list, source)
            sink.send(numbers(10_000, 10_010))
            sink.end(closes_channel=True)
            received = reading.result(PATIENCE_SECONDS)
        assert values(received) == list(range(10_010))


def test_a_batch_that_has_left_in_part_makes_room_for_one_more(exchange: ServedExchange) -> None:
    async def fill() -> None:
        sink.send(numbers(0, 1_000))
        await asyncio.sleep(0)
        sink.send(numbers(1_000, 1_200))

    with sink_of(exchange, exchange.channel()) as sink:
        background().run(fill)
        with in_a_hurry(sink), pytest.raises(PeerTimeoutError):
            sink.send(numbers(1_200, 1_210))
        sink.abort("it was a test")


def test_a_probe_leaves_the_data_where_they_are(exchange: ServedExchange) -> None:
    channel = exchange.channel()
    send_all(exchange, channel, [numbers(0, 100)])
    for _ in range(2):
        facts = probe(exchange.address, channel, timeout_seconds=PATIENCE_SECONDS)
        assert facts.schema.equals(SCHEMA)
        assert facts.parameters == exchange.parameters
    assert read_all(exchange, channel) == list(range(100))


def test_another_schema_is_refused_at_handshake_and_for_each_batch(exchange: ServedExchange) -> None:
    channel = exchange.channel()
    words = pa.record_batch({"n": ["one"]})
    with sink_of(exchange, channel) as sink:
        with pytest.raises(
            SchemaMismatchError, match=r"channel has n: int64; this producer has n: string: .* another channel"
        ):
            open_sink(exchange.address, channel, words.schema, timeout_seconds=PATIENCE_SECONDS)
        with pytest.raises(SchemaMismatchError):
            sink.send(words)
        sink.send(numbers(0, 1))
        sink.end(closes_channel=True)
    assert read_all(exchange, channel) == [0]


@pytest.mark.parametrize("timeout_seconds", [0.0, -1.0, float("nan")])
def test_a_timeout_must_be_positive(exchange: ServedExchange, timeout_seconds: float) -> None:
    with pytest.raises(InvalidParametersError, match="timeout_seconds must be above 0"):
        source_of(exchange, "s0/0", timeout_seconds)


def test_a_block_that_forgets_the_end_breaks_the_channel_and_says_so(
    exchange: ServedExchange, caplog: pytest.LogCaptureFixture
) -> None:
    for rows in (10, 0):
        channel = exchange.channel()
        with sink_of(exchange, channel) as sink:
            if rows:
                sink.send(numbers(0, rows))
        assert caplog.text.count(f"{channel!r}: its producer left without end()") == 1
        with pytest.raises(ChannelAbortedError, match="left without ending it"), source_of(exchange, channel) as source:
            list(source)


def test_a_sink_that_is_closed_without_an_end_warns(exchange: ServedExchange, caplog: pytest.LogCaptureFixture) -> None:
    channel = exchange.channel()
    sink = sink_of(exchange, channel)
    sink.send(numbers(0, 10))
    sink.close()
    assert caplog.text.count(f"{channel!r}: its producer left without end()") == 1


def test_a_sink_that_is_given_up_on_purpose_warns_of_nothing(
    exchange: ServedExchange, caplog: pytest.LogCaptureFixture
) -> None:
    ended, aborted, failed, unused = (sink_of(exchange, exchange.channel()) for _ in range(4))
    for sink in (ended, aborted, failed):
        sink.send(numbers(0, 10))
    ended.end()
    ended.close()
    unused.close()
    with aborted:
        aborted.abort("the test says so")
    with suppress(ValueError), closing(failed):
        raise ValueError
    assert "without end()" not in caplog.text


def test_who_heard_that_its_stream_failed_is_not_warned_of_it(
    exchange: ServedExchange, caplog: pytest.LogCaptureFixture
) -> None:
    channel = exchange.channel()
    sink = sink_of(exchange, channel)
    sink.send(numbers(0, 10))
    sink_of(exchange, channel).abort("the test says so")
    with pytest.raises(ChannelAbortedError):
        send_for_ever(sink)
    sink.close()
    assert not caplog.text


def test_who_leaves_a_stream_that_has_failed_is_warned(
    exchange: ServedExchange, caplog: pytest.LogCaptureFixture
) -> None:
    channel = exchange.channel()
    with sink_of(exchange, channel) as sink:
        sink.send(numbers(0, 10))
        end = sink._held.end
        sink_of(exchange, channel).abort("the test says so")

        async def failed() -> None:
            while end is not None and end.failure is None:
                await end.changed()

        background().run(failed, PATIENCE_SECONDS)
    assert caplog.text.count(f"{channel!r}: its producer left without end(), and its stream had failed") == 1
    assert "the test says so" in caplog.text


def test_a_block_that_is_left_while_its_end_waits_breaks_nothing(
    exchange: ServedExchange, caplog: pytest.LogCaptureFixture
) -> None:
    channel = exchange.channel()
    sink = sink_of(exchange, channel)
    with source_of(exchange, channel) as source:
        with sink:
            sink.send(numbers(0, 10))
            with in_a_hurry(sink), pytest.raises(PeerTimeoutError):
                sink.end()
        assert values(list(source)) == list(range(10))
    assert not caplog.text


def test_a_generator_that_is_given_up_is_told_by_its_name(exchange: ServedExchange) -> None:
    def produce(channel: str) -> Generator[None]:
        with sink_of(exchange, channel) as sink:
            sink.send(numbers(0, 10))
            yield

    channel = exchange.channel()
    with closing(produce(channel)) as producing:
        next(producing)
    with pytest.raises(ChannelAbortedError, match=r"gave up: GeneratorExit$"), source_of(exchange, channel) as source:
        list(source)


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


THE_LOOP = "permitflow's event loop"


def require_nothing_left(exchange: ServedExchange, others: set[threading.Thread]) -> None:
    """Of connections and threads but these and the loop, soon: the thread that gives signs of life looks each second.

    Calls of grpc.aio refer to themselves, and keep their connections until the garbage is collected.
    """

    def left() -> list[object]:
        new = {thread.name for thread in set(threading.enumerate()) - others if "permitflow" in thread.name}
        return [*(new - {THE_LOOP}), *connections_to(exchange)]

    deadline = monotonic() + PATIENCE_SECONDS
    while left() and monotonic() < deadline:
        gc.collect()
        sleep(0.01)
    assert left() == []


DROPPED: dict[str, Callable[[ServedExchange, str], object]] = {
    "source": lambda exchange, channel: next(source_of(exchange, channel)),
    "sink": lambda exchange, channel: sink_of(exchange, channel).send(numbers(0, 3)),
    "sink that is idle": lambda exchange, channel: sink_of(exchange, channel).accepted_rows,
    "control": lambda exchange, _: control(exchange.address, timeout_seconds=PATIENCE_SECONDS).statistics(),
}


@pytest.mark.parametrize("dropped", DROPPED)
def test_an_end_dropped_without_close_hangs_up_and_warns(exchange: ServedExchange, dropped: str) -> None:
    channel = exchange.channel()
    others, ends = set(threading.enumerate()), held_ends()
    if dropped == "source":
        send_all(exchange, channel, [numbers(0, 10)])

    def drop() -> None:
        DROPPED[dropped](exchange, channel)
        wait_for_ends_but(ends)  # the loop may hold the end for a moment

    with pytest.warns(ResourceWarning, match="was dropped and hangs up: close it, or use it in a with block"):
        drop()
    require_nothing_left(exchange, others)
    if dropped != "control":
        with pytest.raises((ChannelAbortedError, ChannelSpentError)):
            read_all(exchange, channel)


def test_a_droppable_end_hangs_up_without_a_warning(exchange: ServedExchange) -> None:
    others, ends = set(threading.enumerate()), held_ends()
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        _ = control(exchange.address, timeout_seconds=PATIENCE_SECONDS).droppable().statistics()
        gc.collect()
    assert told == []
    wait_for_ends_but(ends)
    require_nothing_left(exchange, others)


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
        with pytest.raises(PeerGoneError, match=exchange.address):
            send_for_ever(sink)
        with pytest.raises(PeerGoneError, match=exchange.address):
            reading.result(PATIENCE_SECONDS)


def test_an_end_that_is_starved_says_so_and_can_be_waited_for_again(
    exchange: ServedExchange, pool: ThreadPoolExecutor
) -> None:
    channel = exchange.channel()
    with sink_of(exchange, channel) as sink:
        sink.send(numbers(0, 10_000))
        with in_a_hurry(sink), pytest.raises(PeerTimeoutError, match="row permits; "):
            sink.end(closes_channel=True)
        with pytest.raises(ChannelClosedError) as caught:
            sink.send(numbers(0, 1))
        assert caught.value.undelivered == [numbers(0, 1)]
        reading = pool.submit(read_all, exchange, channel)
        sink.end(closes_channel=True)
        assert reading.result(PATIENCE_SECONDS) == list(range(10_000))


def end(sink: BlockingSink) -> None:
    sink.end(closes_channel=True)


@pytest.mark.parametrize("goes_on", [send_for_ever, end])
def test_a_consumer_that_leaves_halfway_fails_its_sender(
    exchange: ServedExchange, goes_on: Callable[[BlockingSink], None]
) -> None:
    channel = exchange.channel()
    sink = sink_of(exchange, channel)
    with source_of_first(exchange, channel, sink) as source:
        next(source)
    with pytest.raises(PeerGoneError, match=f"the consumer of channel '{channel}'"), sink:
        goes_on(sink)


def test_an_exchange_that_hangs_is_gone_before_the_time_out(mortal_exchange: ServedExchange) -> None:
    """Its kernel still acknowledges what is sent to it; only the missing sign of life tells."""
    exchange = mortal_exchange
    channel = exchange.channel()
    with sink_of(exchange, channel) as sink, open_source(exchange.address, channel, silence_seconds=3.0) as source:
        sink.send(numbers(0, 64))
        next(source)
        exchange.signal(signal.SIGSTOP)
        try:
            with pytest.raises(PeerGoneError) as caught:
                next(source)
            assert not isinstance(caught.value, PeerTimeoutError)
        finally:
            exchange.signal(signal.SIGCONT)

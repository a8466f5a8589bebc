"""Sources, flows and sinks over the calls of a stub that protoc has made: elements, ends, errors, wrong use."""

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

import grpc
import pytest

from permitflow.errors import (
    BufferOverflowError,
    CallError,
    CallMethodError,
    CallTimeoutError,
    InvalidParametersError,
    LocalProtocolError,
    UndecodableDataError,
)
from permitflow.stages import Source, calls
from permitflow.stages.calls import CallCounts, Window
from tests.support.numbers_service import generated, number, serving

# One that nobody waits to end.
ENDLESS = 1_000_000_000
WINDOW = Window(5)


class Given(AsyncIterator[Any]):
    """Gives numbers, counts how often it is asked, and notes that it was closed."""

    def __init__(self, count: int = ENDLESS, *, error: BaseException | None = None) -> None:
        self.count, self.error = count, error
        self.asked = 0
        self.closed = asyncio.Event()

    async def __anext__(self) -> Any:
        self.asked += 1
        # As a source that reads from elsewhere, it lets others run.
        await asyncio.sleep(0)
        if self.asked > self.count:
            raise self.error or StopAsyncIteration
        return number(self.asked)

    async def aclose(self) -> None:
        self.closed.set()


async def count(request: Any, context: Any) -> None:
    await calls.respond(context, Source(range(1, request.value + 1)).map(number))


async def add(iterator: Any, context: Any) -> Any:
    async with calls.answering(context):
        return number(sum([n.value async for n in calls.requests(iterator, context)]))


async def double(iterator: Any, context: Any) -> None:
    await calls.respond(context, calls.requests(iterator, context).map(lambda n: number(2 * n.value)))


async def values(found: Source[Any]) -> list[int]:
    return [n.value async for n in found]


@pytest.mark.parametrize("prefetch", [0, 1, 8])
@pytest.mark.parametrize("length", [0, 1, 50])
async def test_a_source_gives_the_responses_of_a_call_in_each_run(length: int, prefetch: int) -> None:
    async with serving(Count=count) as stub:
        numbers = calls.source(stub.Count, number(length), prefetch=prefetch)
        for _ in range(2):
            assert await values(numbers) == list(range(1, length + 1))


@pytest.mark.parametrize("prefetch", [0, 8])
@pytest.mark.parametrize("length", [0, 1, 50])
async def test_a_flow_sends_its_source_and_gives_the_responses(length: int, prefetch: int) -> None:
    async with serving(Double=double) as stub:
        doubled = Source(range(length)).map(number).through(calls.flow(stub.Double, prefetch=prefetch))
        for _ in range(2):
            assert await values(doubled) == [2 * n for n in range(length)]


@pytest.mark.parametrize("length", [0, 1, 50])
async def test_a_sink_sends_its_source_and_returns_the_response(length: int) -> None:
    async with serving(Sum=add) as stub:
        assert (await Source(range(length)).map(number).through(calls.sink(stub.Sum))).value == sum(range(length))


async def test_flows_chain_and_compose_with_stages() -> None:
    async with serving(Double=double, Sum=add) as stub:
        twice = calls.flow(stub.Double)
        stream = Source(range(20)).map(number).buffer(2).through(twice).async_boundary(4).through(twice)
        assert (await stream.through(calls.sink(stub.Sum))).value == 4 * sum(range(20))


async def test_an_iterable_is_as_good_as_a_source() -> None:
    async def count(request: Any, context: Any) -> None:
        await calls.respond(context, [number(1), number(2)])

    async with serving(Count=count, Sum=add) as stub:
        assert await values(calls.source(stub.Count, number(0))) == [1, 2]
        numbers: Any = (number(n) for n in range(4))
        assert (await calls.sink(stub.Sum)(numbers)).value == 6


async def test_a_call_begins_when_the_first_element_is_asked_for() -> None:
    begun: list[Any] = []
    async with serving(Count=count) as stub:
        numbers = calls.source(stub.Count, number(3), when_called=begun.append)
        elements = numbers.open()
        assert begun == []
        await anext(elements)
        assert len(begun) == 1
        await elements.aclose()
        assert begun[0].cancelled()


async def test_v4_2_nothing_is_read_before_it_is_asked_for() -> None:
    counts = CallCounts()
    async with serving(Count=count) as stub, calls.source(stub.Count, number(9), counts=counts).open() as elements:
        assert counts.received == 0
        for taken in range(1, 6):
            await anext(elements)
            assert (counts.received, counts.consumed) == (taken, taken)


async def test_a_server_reads_no_request_before_it_is_asked_for() -> None:
    counts, read = CallCounts(), list[int]()

    async def add(iterator: Any, context: Any) -> Any:
        async for each in calls.requests(iterator, context, counts=counts):
            # The next one comes meanwhile.
            for _ in range(3):
                await stub.Negate(number(1))
            read.append(counts.received - each.value)
        return number(0)

    async def negate(request: Any, context: Any) -> Any:
        return number(-request.value)

    async with serving(Sum=add, Negate=negate) as stub:
        await Source(Given(20)).through(calls.sink(stub.Sum))
    assert read == [0] * 20


async def test_v4_6_and_v4_9_responses_are_read_ahead_by_the_prefetch() -> None:
    counts = CallCounts()
    ahead = list[int]()
    async with serving(Count=count, Double=double) as stub:
        async for _ in calls.source(stub.Count, number(100), prefetch=8, counts=counts):
            await values(Source([number(1)]).through(calls.flow(stub.Double)))
            ahead.append(counts.in_hand)
    # After an element is taken there are 7, 6, 5; then the fourth asks for as many as are missing.
    assert max(ahead) <= 8
    assert counts.received == counts.consumed == 100


async def test_v4_8_the_server_asks_its_source_once_for_each_element() -> None:
    given = Given(20)

    async def count(request: Any, context: Any) -> None:
        await calls.respond(context, Source(given))

    async with serving(Count=count) as stub:
        assert len(await values(calls.source(stub.Count, number(0)))) == 20
    assert given.asked == 21


async def test_v4_10_and_v4_11_each_element_comes_once_before_the_end() -> None:
    """Each waits until it is read; asked for with time-outs that end while it waits, or by a reader that is late."""
    async with serving(WINDOW, WINDOW, Count=count, Double=double, Sum=add) as stub:
        for length in range(6):
            elements = calls.source(stub.Count, number(length)).open()
            found = list[Any]()
            for _ in range(length + 1):
                asking = asyncio.ensure_future(anext(elements, None))
                await asyncio.sleep(0)
                if asking.cancel():
                    await asyncio.wait([asking])
                found.append(await anext(elements, None) if asking.cancelled() else asking.result())
            assert found.pop() is None
            assert [n.value for n in found] == list(range(1, length + 1))
            numbers = Source(range(length)).map(number)
            assert await values(numbers.through(calls.flow(stub.Double))) == [2 * n for n in range(length)]
            assert (await numbers.through(calls.sink(stub.Sum))).value == sum(range(length))


async def test_v4_12_no_wake_up_is_lost_while_ends_take_turns_to_wait() -> None:
    async with serving(WINDOW, WINDOW, Double=double) as stub:
        slow = Source(Given(300)).through(calls.flow(stub.Double)).async_boundary(2)
        found = list[int]()
        async for each in slow:
            found.append(each.value)
            for _ in range(each.value % 5):
                await asyncio.sleep(0)
        assert found == [2 * n for n in range(1, 301)]


async def test_v4_13_stages_run_in_the_thread_of_the_loop_at_both_ends() -> None:
    threads = set[int]()

    def noted(element: Any) -> Any:
        threads.add(threading.get_ident())
        return element

    async def double(iterator: Any, context: Any) -> None:
        await calls.respond(context, calls.requests(iterator, context, prefetch=2).map(noted))

    async with serving(Double=double) as stub:
        flow = calls.flow(stub.Double, prefetch=2)
        assert len(await values(Source(Given(20)).map(noted).through(flow).map(noted))) == 20
    assert threads == {threading.get_ident()}


# Ends and cancellations.


async def test_a_consumer_that_has_enough_closes_the_source_of_the_server() -> None:
    given = Given()

    async def count(request: Any, context: Any) -> None:
        await calls.respond(context, Source(given))

    async with serving(Count=count) as stub:
        async with calls.source(stub.Count, number(0)).open() as elements:
            assert (await anext(elements)).value == 1
        await given.closed.wait()


async def test_a_loop_that_is_left_by_break_closes_the_source_of_a_flow() -> None:
    given = Given()
    async with serving(Double=double) as stub:
        async for _ in Source(given).through(calls.flow(stub.Double)):
            break
        await given.closed.wait()


async def test_a_consumer_with_enough_closes_the_flow_up_to_the_server() -> None:
    given, cancelled = Given(), asyncio.Event()

    async def double(iterator: Any, context: Any) -> None:
        try:
            await calls.respond(context, calls.requests(iterator, context))
        except asyncio.CancelledError:
            cancelled.set()
            raise

    async with serving(Double=double) as stub:
        async with Source(given).through(calls.flow(stub.Double)).open() as elements:
            assert (await anext(elements)).value == 1
        assert given.closed.is_set()
        await cancelled.wait()


@pytest.mark.parametrize("kind", ["flow", "sink"])
async def test_a_server_that_has_enough_closes_the_source(kind: str) -> None:
    given = Given()

    async def add(iterator: Any, context: Any) -> Any:
        async with calls.requests(iterator, context).open() as elements:
            return await anext(elements)

    async def double(iterator: Any, context: Any) -> None:
        async with calls.requests(iterator, context).open() as elements:
            await calls.respond(context, Source([await anext(elements)]))

    async with serving(Double=double, Sum=add) as stub:
        if kind == "flow":
            assert await values(Source(given).through(calls.flow(stub.Double))) == [1]
        else:
            assert (await Source(given).through(calls.sink(stub.Sum))).value == 1
    assert given.closed.is_set()


@pytest.mark.parametrize("how", ["cancel", "fail", "close"])
async def test_a_stream_that_breaks_off_is_not_whole_at_the_server(how: str) -> None:
    ends, first = asyncio.Queue[str](), asyncio.Event()

    async def add(iterator: Any, context: Any) -> Any:
        try:
            async for _ in calls.requests(iterator, context):
                first.set()
        except asyncio.CancelledError:
            ends.put_nowait("cancelled")
            raise
        ends.put_nowait("whole")
        return number(0)

    async def one() -> AsyncIterator[Any]:
        yield number(1)
        await first.wait()
        if how == "fail":
            raise OSError("lost")
        await asyncio.Event().wait()

    async with serving(Sum=add) as stub:
        for _ in range(20):
            first.clear()
            begun: list[Any] = []
            sending = asyncio.ensure_future(Source(one()).through(calls.sink(stub.Sum, when_called=begun.append)))
            await first.wait()
            if how == "cancel":
                sending.cancel()
            elif how == "close":
                begun[0].cancel()
            error = (await asyncio.gather(sending, return_exceptions=True))[0]
            kind = {"cancel": asyncio.CancelledError, "fail": OSError, "close": CallError}[how]
            assert isinstance(error, kind)
            assert await ends.get() == "cancelled"


async def test_the_end_of_a_cancelled_call_is_not_the_end_of_its_requests() -> None:
    """As grpc.aio does it: the iterator ends at once, and the handler is cancelled after one more completion."""

    class Broken:
        """Iterator and context of a call that its client has cancelled."""

        def __aiter__(self) -> "Broken":
            return self

        async def __anext__(self) -> Any:
            raise StopAsyncIteration

        async def read(self) -> Any:
            handler.cancel()
            return grpc.aio.EOF

        async def write(self, message: Any) -> None:
            raise AssertionError("nobody reads")

    call: Any = Broken()
    handler = asyncio.ensure_future(values(calls.requests(call, call)))
    await asyncio.wait([handler])
    assert handler.cancelled()


async def test_a_write_that_fails_as_the_client_goes_is_a_cancellation() -> None:
    """As grpc.aio does it: the write fails, which it would log, and the handler is cancelled afterwards."""

    class Left:
        """The context of a call whose client has cancelled it."""

        async def write(self, message: Any) -> None:
            asyncio.get_running_loop().call_soon(handler.cancel)
            raise grpc.aio.InternalError

    context: Any = Left()
    given = Given()
    handler = asyncio.ensure_future(calls.respond(context, Source(given)))
    await asyncio.wait([handler])
    assert handler.cancelled()
    assert given.closed.is_set()


async def test_a_message_that_is_too_large_is_an_error_at_both_ends() -> None:
    async with serving(Count=count, Sum=add) as stub:
        large = number(1, 5 << 20)
        with pytest.raises(CallError, match=r"RESOURCE_EXHAUSTED: .* larger than max"):
            await Source([number(1), large]).through(calls.sink(stub.Sum))
        with pytest.raises(CallError, match=r"RESOURCE_EXHAUSTED: .* larger than max"):
            await values(calls.source(stub.Count, large))


async def test_a_cancelled_ask_leaves_the_call_and_takes_no_element() -> None:
    may_go_on = asyncio.Event()

    async def count(request: Any, context: Any) -> None:
        await context.write(number(1))
        await may_go_on.wait()
        await context.write(number(2))

    async with serving(Count=count) as stub, calls.source(stub.Count, number(0)).open() as elements:
        assert (await anext(elements)).value == 1
        asking = asyncio.ensure_future(anext(elements))
        await asyncio.sleep(0)
        asking.cancel()
        await asyncio.wait([asking])
        may_go_on.set()
        assert (await anext(elements)).value == 2


# Errors.


@pytest.mark.parametrize("kind", ["source", "flow", "sink"])
async def test_a_servers_status_is_a_typed_error_with_its_details(kind: str) -> None:
    refusal = CallError(code="RESOURCE_EXHAUSTED", details="no room for more")

    async def refuse(_: Any, context: Any) -> None:
        async with calls.answering(context):
            raise refusal

    async with serving(Count=refuse, Double=refuse, Sum=refuse) as stub:
        with pytest.raises(CallError, match=r"RESOURCE_EXHAUSTED: no room for more") as caught:
            await of_kind(kind, stub)
    assert (caught.value.code, caught.value.details) == (refusal.code, refusal.details)
    assert caught.value.method.startswith("/permitflow.tests.Numbers/")


async def of_kind(kind: str, stub: Any, **options: Any) -> Any:
    """A call of this kind, to its end."""
    if kind == "source":
        return await values(calls.source(stub.Count, number(ENDLESS), **options))
    if kind == "flow":
        return await values(Source(Given()).through(calls.flow(stub.Double, **options)))
    return await Source(Given()).through(calls.sink(stub.Sum, **options))


async def test_an_error_chains_that_of_grpc() -> None:
    async def abort(request: Any, context: Any) -> None:
        await context.abort(grpc.StatusCode.NOT_FOUND, "no such numbers", (("reason", "gone"),))

    async with serving(Count=abort) as stub:
        with pytest.raises(CallError, match="NOT_FOUND: no such numbers") as caught:
            await values(calls.source(stub.Count, number(1)))
    assert isinstance(caught.value.__cause__, grpc.aio.AioRpcError)
    assert caught.value.__cause__.trailing_metadata() == grpc.aio.Metadata(("reason", "gone"))


async def test_an_error_of_this_package_crosses_with_its_type_and_facts() -> None:
    async def fail(request: Any, context: Any) -> None:
        def refuse(element: Any) -> Any:
            raise InvalidParametersError(name="value", value=7, rule="must be even")

        await calls.respond(context, Source([1]).map(refuse))

    async with serving(Count=fail) as stub:
        with pytest.raises(InvalidParametersError, match="value must be even, not 7") as caught:
            await values(calls.source(stub.Count, number(1)))
    assert isinstance(caught.value.__cause__, grpc.aio.AioRpcError)


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (ZeroDivisionError("by zero"), "INTERNAL"),
        (TimeoutError("too slow"), "DEADLINE_EXCEEDED"),
        (BufferOverflowError(capacity=1), "INTERNAL"),
        (CallError(code="OK", details="is no error"), "INTERNAL"),
        (CallError(code="NO SUCH CODE", details=""), "INTERNAL"),
        (asyncio.CancelledError("what the source awaits"), "INTERNAL"),
        (GeneratorExit(), "INTERNAL"),
    ],
)
async def test_elements_before_an_error_of_the_server_arrive_before_it(error: BaseException, code: str) -> None:
    async def fail(request: Any, context: Any) -> None:
        await calls.respond(context, Source(Given(3, error=error)))

    async with serving(WINDOW, WINDOW, Count=fail) as stub:
        elements = calls.source(stub.Count, number(1)).open()
        assert [(await anext(elements)).value for _ in range(3)] == [1, 2, 3]
        with pytest.raises(CallError) as caught:
            await anext(elements)
    assert caught.value.code == code


async def test_a_handler_in_which_a_future_was_cancelled_is_answered() -> None:
    async def fail(request: Any, context: Any) -> None:
        async with calls.answering(context):
            cancelled = asyncio.get_running_loop().create_future()
            cancelled.cancel()
            await cancelled

    async with serving(Count=fail) as stub:
        with pytest.raises(CallError, match="INTERNAL: CancelledError"):
            await values(calls.source(stub.Count, number(1), timeout=10))


@pytest.mark.parametrize("error", [asyncio.CancelledError(), GeneratorExit()])
async def test_requests_that_end_with_any_error_are_answered(error: BaseException) -> None:
    async def double(_: Any, context: Any) -> None:
        intercepted: Any = Given(2, error=error)
        await calls.respond(context, calls.requests(intercepted, context))

    async with serving(Double=double) as stub:
        with pytest.raises(CallError, match=type(error).__name__):
            await values(Source([number(1)]).through(calls.flow(stub.Double, timeout=10)))


async def test_a_failing_servers_window_arrives_before_the_error() -> None:
    has_failed = asyncio.Event()

    async def double(iterator: Any, context: Any) -> None:
        try:
            await calls.respond(context, Source(Given(50, error=CallError(code="ABORTED", details="after 50"))))
        finally:
            has_failed.set()

    async with serving(Double=double) as stub:
        elements = Source(Given()).through(calls.flow(stub.Double)).open()
        assert (await anext(elements)).value == 1
        await has_failed.wait()
        assert [(await anext(elements)).value for _ in range(49)] == list(range(2, 51))
        with pytest.raises(CallError, match="ABORTED: after 50"):
            await anext(elements)


@pytest.mark.parametrize("kind", ["flow", "sink"])
async def test_an_error_of_the_clients_source_is_raised_as_it_is(kind: str) -> None:
    error = OSError("lost")
    async with serving(Double=double, Sum=add) as stub:
        numbers = Source(Given(3, error=error))
        with pytest.raises(OSError, match="lost") as caught:
            await (
                values(numbers.through(calls.flow(stub.Double)))
                if kind == "flow"
                else numbers.through(calls.sink(stub.Sum))
            )
    assert caught.value is error


async def stall(_: Any, context: Any) -> None:
    await asyncio.Event().wait()


@pytest.mark.parametrize("kind", ["source", "flow", "sink"])
async def test_a_deadline_is_a_timeout_at_the_client_and_cancels_the_server(kind: str) -> None:
    remaining, cancelled = list[float](), asyncio.Event()

    async def stall(_: Any, context: Any) -> None:
        remaining.append(context.time_remaining())
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.set()

    async with serving(Count=stall, Double=stall, Sum=stall) as stub:
        with pytest.raises(CallTimeoutError, match="DEADLINE_EXCEEDED") as caught:
            await of_kind(kind, stub, timeout=0.5)
        await cancelled.wait()
    assert isinstance(caught.value, TimeoutError)
    assert 0 < remaining[0] < 60


async def test_metadata_passes_both_ways() -> None:
    async def count(request: Any, context: Any) -> None:
        found = dict(context.invocation_metadata())
        await context.send_initial_metadata((("first", found["asked"]),))
        context.set_trailing_metadata((("last", "word"),))
        await calls.respond(context, Source([number(1)]))

    begun: list[Any] = []
    async with serving(Count=count) as stub:
        metadata = (("asked", "this"),)
        await values(calls.source(stub.Count, number(1), metadata=metadata, when_called=begun.append))
        assert await begun[0].initial_metadata() == grpc.aio.Metadata(("first", "this"))
        assert await begun[0].trailing_metadata() == grpc.aio.Metadata(("last", "word"))


async def test_a_server_that_fails_keeps_its_trailing_metadata() -> None:
    async def fail(request: Any, context: Any) -> None:
        context.set_trailing_metadata((("last", "word"),))
        await calls.respond(context, Source(Given(0, error=InvalidParametersError(name="n", value=0, rule="is bad"))))

    begun: list[Any] = []
    async with serving(Count=fail) as stub:
        with pytest.raises(InvalidParametersError):
            await values(calls.source(stub.Count, number(1), when_called=begun.append))
        assert (await begun[0].trailing_metadata())["last"] == "word"


async def test_a_server_that_cannot_be_reached_is_a_typed_error() -> None:
    async with grpc.aio.insecure_channel("127.0.0.1:1") as channel:
        stub = generated()[1].NumbersStub(channel)
        for kind in ("source", "flow", "sink"):
            with pytest.raises(CallError, match="UNAVAILABLE"):
                await of_kind(kind, stub)


# Wrong use.


async def test_a_method_of_another_kind_is_refused_with_what_to_do() -> None:
    async with serving() as stub:
        with pytest.raises(CallMethodError, match=r"server-streaming .* unary method .*/Negate .* await it as it is"):
            calls.source(stub.Negate, number(1))
        with pytest.raises(CallMethodError, match=r"client-streaming .* bidirectional method .*/Double .* calls.flow"):
            calls.sink(stub.Double)
        with pytest.raises(CallMethodError, match=r"bidirectional .* client-streaming method .*/Sum .* calls.sink"):
            calls.flow(stub.Sum)
        wrong: Any = print
        with pytest.raises(CallMethodError, match=r"give a method of a stub, as in calls.flow\(stub.Method\)"):
            calls.flow(wrong)


async def test_a_blocking_stub_is_refused() -> None:
    with grpc.insecure_channel("127.0.0.1:1") as channel:
        stub = generated()[1].NumbersStub(channel)
        with pytest.raises(CallMethodError, match=r"blocking stub was given: .* grpc.aio.insecure_channel"):
            calls.source(stub.Count, number(1))


async def test_a_request_that_cannot_be_sent_is_refused() -> None:
    """grpc.aio would send an empty message instead."""
    wrong: Any = "one"
    async with serving(Count=count, Sum=add, Double=double) as stub:
        with pytest.raises(InvalidParametersError, match=r"that /permitflow.tests.Numbers/Count can send .* not 'one'"):
            calls.source(stub.Count, wrong)
        numbers: Source[Any] = Source([number(1), wrong, number(3)])
        with pytest.raises(InvalidParametersError, match="not 'one'"):
            await numbers.through(calls.sink(stub.Sum))
        with pytest.raises(InvalidParametersError, match="not 'one'"):
            await values(numbers.through(calls.flow(stub.Double)))


async def test_a_request_whose_value_cannot_be_sent_is_refused() -> None:
    def serializer(message: Any) -> bytes:
        if message == number(2):
            raise ValueError("2 is odd here")
        return bytes(message.SerializeToString())

    async with serving(Sum=add) as stub:
        method = stub.Sum
        method._request_serializer = serializer
        with pytest.raises(InvalidParametersError, match="2 is odd here"):
            await Source([number(1), number(2), number(3)]).through(calls.sink(method))


async def test_a_response_that_cannot_be_decoded_is_an_error() -> None:
    """grpc.aio gives None instead."""
    async with serving(Count=count) as stub:
        method = stub.Count
        method._response_deserializer = lambda message: 1 // 0
        with pytest.raises(
            UndecodableDataError, match=r"a response of /permitflow.tests.Numbers/Count cannot be decoded"
        ):
            await values(calls.source(method, number(1)))


async def test_a_channel_that_was_closed_is_named() -> None:
    async with serving(Count=count) as stub:
        numbers = calls.source(stub.Count, number(1))
    with pytest.raises(LocalProtocolError, match=r"Numbers/Count cannot be called: Channel is closed"):
        await values(numbers)


async def test_a_handler_that_is_wrong_is_told_so() -> None:
    told = list[str]()

    async def count(request: Any, context: Any) -> None:
        try:
            calls.requests(request, context)
        except CallMethodError as error:
            told.append(str(error))

    def blocking(request: Any, context: Any) -> Any:
        try:
            calls.requests(iter([]), context)  # type: ignore[arg-type]  # that is the point
        except CallMethodError as error:
            told.append(str(error))
        return number(0)

    async with serving(Count=count, Negate=blocking) as stub:
        await values(calls.source(stub.Count, number(1)))
        await stub.Negate(number(1))
    assert "the method is not client-streaming: use its request as it is" in told[0]
    assert "write the handler with async def" in told[1]


@pytest.mark.parametrize("prefetch", [3, -1])
async def test_a_prefetch_is_a_power_of_two(prefetch: int) -> None:
    async with serving() as stub:
        with pytest.raises(InvalidParametersError, match=f"prefetch must be a power of two, not {prefetch}"):
            calls.source(stub.Count, number(1), prefetch=prefetch)

"""A gate over channels of this process: fair, aligned, never stuck, and it names whom it waits for."""

import asyncio
import doctest
import random
from collections import Counter, deque
from collections.abc import Sequence
from contextlib import suppress
from typing import Any

import pytest

from permitflow import (
    AlignedBarrier,
    ChannelParameters,
    GateChunk,
    GateParameters,
    InputGate,
    LocalReceiver,
    LocalSender,
    MergedWatermark,
    open_channel,
)
from permitflow.channels import gate as module
from permitflow.errors import (
    ChannelClosedError,
    ChannelError,
    EndOfStream,
    InputLostError,
    InputStalledError,
    InvalidParametersError,
    LocalProtocolError,
    PeerGoneError,
)
from permitflow.tracing import MemoryTrace
from permitflow_testing.subjects.input_gate import judge_gate
from tests.support.simulated_time import simulated, stand_still

SMALL = GateParameters(inputs=2, exclusive=4, floating=4)


def opened(gate: InputGate[Any], names: str) -> list[LocalSender[Any]]:
    return [gate.open_channel(name) for name in names]


async def all_of(gate: InputGate[Any]) -> list[Any]:
    return [item async for item in gate]


def brief(items: Sequence[Any]) -> list[Any]:
    """Chunks as input and payload, barriers as numbers, watermarks as texts."""
    found: list[Any] = []
    for item in items:
        match item:
            case GateChunk(source, payload):
                found.append((source, payload))
            case AlignedBarrier(number):
                found.append(number)
            case MergedWatermark(value):
                found.append(f"watermark {value}")
    return found


def test_the_example_runs() -> None:
    assert doctest.testmod(module) == doctest.TestResults(failed=0, attempted=2)


async def test_inputs_are_served_in_turn() -> None:
    async with InputGate[str](SMALL) as gate:
        left, right = opened(gate, "lr")
        for number in range(3):
            left.send_nowait(f"l{number}", 1)
        right.send_nowait("r0", 1)
        await left.end()
        await right.end()
        assert [payload for _, payload in brief(await all_of(gate))] == ["l0", "r0", "l1", "l2"]


async def test_an_input_waits_behind_its_barrier_and_then_goes_on() -> None:
    async with InputGate[str](SMALL) as gate:
        left, right = opened(gate, "lr")
        left.send_barrier_nowait("epoch")
        behind = asyncio.create_task(left.send("behind", 1))
        right.send_nowait("before", 1)
        assert brief([await gate.receive()]) == [("r", "before")]
        assert left.statistics().waiting_sends == 1
        statistics = gate.statistics()
        assert (statistics.pending, statistics.awaited) == (1, ("r",))
        assert [each.is_blocked for each in statistics.inputs] == [True, False]
        right.send_barrier_nowait("other")
        barrier = await gate.receive()
        assert barrier == AlignedBarrier(1, {"l": "epoch", "r": "other"})
        await asyncio.sleep(0)
        assert not behind.done()  # until the consumer has finished the barrier
        assert brief([await gate.receive()]) == [("l", "behind")]
        assert gate.statistics().alignments == 1


@pytest.mark.parametrize(("exclusive", "floating"), [(0, 1), (0, 7), (1, 0), (5, 3)])
async def test_random_gates_are_never_stuck_and_follow_the_model(exclusive: int, floating: int) -> None:
    for seed in range(3):
        choose = random.Random(seed)
        parameters = GateParameters(inputs=choose.randint(2, 4), exclusive=exclusive, floating=floating)
        names, trace = "abcd"[: parameters.inputs], MemoryTrace()
        async with InputGate[Any](parameters) as gate, asyncio.timeout(20), asyncio.TaskGroup() as group:
            for name in names:
                sender: LocalSender[Any] = gate.open_channel(name, record=trace.recorder)
                group.create_task(produce(sender, choose.randint(1, 9), random.Random(f"{seed}{name}")))
            items = await served_in_turn(gate)
        assert [item.number for item in items if isinstance(item, AlignedBarrier)] == [0, 1, 2, 3]
        require_epochs(items, names)
        judged = judge_gate(trace.events, parameters, names)
        assert judged.is_valid, (judged.blocked, judged.broken)
        assert judged.performed == len(trace.events)


async def served_in_turn(gate: InputGate[Any]) -> list[Any]:
    """All items; while rows of an input are here, each of the others is served once at most."""
    items, passed_over = list[Any](), Counter[str]()
    with suppress(EndOfStream):
        while True:
            gate.resume()
            for _ in range(3):  # until it is known what has come
                await asyncio.sleep(0)
            before = rows_here(gate)
            items.append(item := await gate.receive())
            after = rows_here(gate)
            for name in before:
                is_served = isinstance(item, GateChunk) and item.source == name
                is_here = before[name] > 0 and before[name] <= after[name]
                passed_over[name] = passed_over[name] + 1 if is_here and not is_served else 0
            assert max(passed_over.values()) < gate.parameters.inputs, f"{passed_over} before {item}"
    return items


def rows_here(gate: InputGate[Any]) -> dict[str, int]:
    """By input, the rows that it may hand out now."""
    return {each.name: 0 if each.is_blocked else each.channel.inbox_rows for each in gate.statistics().inputs}


async def produce(sender: LocalSender[Any], most: int, choose: random.Random) -> None:
    """Four epochs; a chunk is its epoch, repeated."""
    for epoch in range(4):
        for _ in range(choose.randint(0, most)):
            await sender.send([epoch] * choose.randint(0, 9))
        await sender.send_barrier(epoch)
    await sender.end()


@pytest.mark.parametrize(("exclusive", "floating"), [(0, 3), (2, 1)])
@pytest.mark.parametrize("loss", ["", "abort", "close"])
async def test_newer_barriers_early_ends_and_losses_follow_the_model(exclusive: int, floating: int, loss: str) -> None:
    recorded: Counter[str] = Counter()
    for seed in range(9):
        choose = {name: random.Random(f"{seed}{name}") for name in "abc"}
        # Any numbers that grow, so that some barriers are newer than the pending one.
        barriers = {name: sorted(each.sample(range(1, 9), each.randint(2, 6))) for name, each in choose.items()}
        items = list[Any]()
        trace = MemoryTrace()
        parameters = GateParameters(inputs=3, exclusive=exclusive, floating=floating, max_chunk_cost=1)
        gate = InputGate[int](parameters)
        async with asyncio.timeout(20), asyncio.TaskGroup() as group, gate:
            for name in "abc":
                sender = gate.open_channel(name, record=trace.recorder)
                group.create_task(send(sender, barriers[name], choose[name], loss if name == "c" else ""))
            with suppress(InputLostError):
                async for item in gate:
                    items.append(item)
        judged = judge_gate(trace.events, parameters, "abc")
        assert judged.is_valid, (judged.blocked, judged.broken)
        assert judged.performed == len(trace.events)
        recorded.update(event.action for event in trace.events)
        if loss != "abort":  # which takes back what is on its way
            common = {*range(1, 9)}.intersection(*barriers.values())
            assert common <= {item.number for item in items if isinstance(item, AlignedBarrier)}
    due = {"ConsumeNewerBarrier", "ConsumeOlderBarrier", "ConsumeEnd", "AbortAlignment"} | (
        {"LoseInput"} if loss else set()
    )
    assert due <= set(recorded)


async def send(sender: LocalSender[int], barriers: Sequence[int], choose: random.Random, loss: str) -> None:
    """These barriers, and chunks between them; then an end, or a loss."""
    with suppress(PeerGoneError):
        for number in barriers:
            for _ in range(choose.randint(0, 3)):
                await sender.send(number, 1)
            await sender.send_barrier(number)
        match loss:
            case "abort":
                sender.abort("broken")
            case "close":
                sender.close()
            case _:
                await sender.end()


def require_epochs(items: Sequence[Any], names: str) -> None:
    """No row is received before the barrier in front of it, or behind the one that ends its epoch."""
    epoch = 0
    for item in items:
        if isinstance(item, AlignedBarrier):
            assert set(item.payloads.values()) == {item.number} == {epoch}
            assert set(item.payloads) <= set(names)
            epoch += 1
        else:
            assert set(item.payload) <= {epoch}


async def test_an_input_that_has_ended_is_not_waited_for() -> None:
    async with InputGate[str](GateParameters(inputs=3)) as gate:
        first, second, third = opened(gate, "abc")
        first.send_barrier_nowait(1)
        second.send_barrier_nowait(1)
        third.send_nowait("last", 1)
        await third.end()
        assert brief([await gate.receive() for _ in range(2)]) == [("c", "last"), 1]
        gate.resume()
        await asyncio.sleep(0)
        second.send_barrier_nowait(2)
        await first.end()
        assert await gate.receive() == AlignedBarrier(2, {"b": 2})


async def test_a_newer_barrier_subsumes_the_pending_one() -> None:
    async with InputGate[str](SMALL) as gate:
        left, right = opened(gate, "lr")
        left.send_barrier_nowait(1)
        right.send_barrier_nowait(2)
        waiting = asyncio.create_task(left.send_barrier(2))
        assert brief([await gate.receive()]) == [2]
        await waiting
        assert (gate.statistics().given_up, gate.statistics().alignments) == (1, 0)
        gate.resume()
        assert gate.statistics().alignments == 1


@pytest.mark.parametrize("how", ["close", "abort"])
async def test_an_input_that_fails_is_named_and_fails_the_gate(how: str) -> None:
    async with InputGate[str](SMALL) as gate:
        left, right = opened(gate, "lr")
        left.send_barrier_nowait(7)
        right.send_nowait("before", 1)
        await gate.receive()
        right.close() if how == "close" else right.abort("broken")
        for _ in range(2):
            with pytest.raises(InputLostError, match="input 'r' of the gate is lost") as caught:
                await gate.receive()
            assert (caught.value.input, gate.statistics().given_up) == ("r", 1)
            assert isinstance(caught.value.__cause__, ChannelError)
    with pytest.raises(PeerGoneError):
        await left.send("behind", 1)


class Unwatched:
    """A receiver for which nobody can wait."""

    def __init__(self, receiver: LocalReceiver[str], error: BaseException) -> None:
        self._receiver, self._error = receiver, error

    def __getattr__(self, name: str) -> Any:
        return getattr(self._receiver, name)

    async def until_takeable(self) -> None:
        raise self._error


@pytest.mark.parametrize("error", [OSError("its file is gone"), asyncio.CancelledError()])
async def test_an_input_that_cannot_be_watched_fails_the_gate(error: BaseException) -> None:
    async with InputGate[str](GateParameters(inputs=1)) as gate:
        _, receiver = open_channel(gate.parameters, name="odd", group=gate.group)
        odd: Any = Unwatched(receiver, error)
        gate.add(odd)
        with pytest.raises(InputLostError, match=str(error) or "CancelledError") as caught:
            await asyncio.wait_for(gate.receive(), 10)
        assert caught.value.__cause__ is error


async def test_no_barrier_is_aligned_without_an_input_that_was_lost() -> None:
    async with InputGate[str](SMALL) as gate:
        left, right = opened(gate, "lr")
        for _ in range(2):
            right.send_nowait("lost", 1)
        await gate.receive()
        right.abort("broken")
        left.send_barrier_nowait(1)
        with pytest.raises(InputLostError):
            await gate.receive()


async def test_a_blocked_input_that_fails_still_counts_for_its_barrier() -> None:
    async with InputGate[str](SMALL) as gate:
        left, right = opened(gate, "lr")
        left.send_barrier_nowait(1)
        left.close()
        right.send_nowait("before", 1)
        await gate.receive()
        right.send_barrier_nowait(1)
        assert brief([await gate.receive()]) == [1]
        with pytest.raises(InputLostError, match="input 'l'"):
            await gate.receive()


async def test_a_wait_that_takes_too_long_names_who_causes_it() -> None:
    async with InputGate[str](GateParameters(inputs=4), stall_seconds=0.01) as gate:
        first, second, _ = opened(gate, "abc")
        for sender in (first, second):
            sender.send_barrier_nowait(5)
        with pytest.raises(InputStalledError) as caught:
            await gate.receive()
        assert str(caught.value) == "no message of c, 1 input not added yet for 0.01 s: a, b wait behind barrier 5"
        gate.open_channel("d").send_barrier_nowait(5)
        _.send_barrier_nowait(5)
        assert brief([await gate.receive()]) == [5]  # nothing was lost


@simulated
async def test_a_wait_does_not_count_time_in_which_its_process_is_stopped() -> None:
    async with InputGate[str](SMALL, stall_seconds=10) as gate:
        left, right = opened(gate, "lr")
        left.send_barrier_nowait(5)
        receiving = asyncio.create_task(gate.receive())
        await asyncio.sleep(1)
        stand_still(3_600)
        await asyncio.sleep(7)
        right.send_barrier_nowait(5)
        assert brief([await receiving]) == [5]


async def test_a_wait_of_nobody_else_takes_as_long_as_it_takes() -> None:
    async with InputGate[str](SMALL, stall_seconds=0.001) as gate:
        opened(gate, "lr")
        with pytest.raises(TimeoutError) as caught:
            await asyncio.wait_for(gate.receive(), 0.01)
        assert not isinstance(caught.value, InputStalledError)


def test_an_input_that_is_alone_may_be_cancelled() -> None:
    ends: tuple[LocalSender[str], LocalReceiver[str]] = open_channel(GateParameters())
    sender, receiver = ends
    receiver.cancel_nowait("enough")
    with pytest.raises(ChannelError, match="enough"):
        sender.send_nowait("chunk", 1)


def test_an_input_that_is_opened_outside_of_a_loop_takes_no_place() -> None:
    gate = InputGate[str](GateParameters())
    with pytest.raises(RuntimeError, match="no running event loop"):
        gate.open_channel("early")

    async def join() -> list[object]:
        async with gate:
            await gate.open_channel("in time").end()
            return [item async for item in gate]

    assert asyncio.run(join()) == []


async def test_a_cancelled_call_has_received_nothing() -> None:
    async with InputGate[str](SMALL) as gate:
        left, right = opened(gate, "lr")
        left.send_barrier_nowait(1)
        for _ in range(3):
            receiving = asyncio.create_task(gate.receive())
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            receiving.cancel()
            with pytest.raises(asyncio.CancelledError):
                await receiving
        right.send_nowait("chunk", 1)
        receiving = asyncio.create_task(gate.receive())
        await asyncio.sleep(0)
        assert brief([await receiving]) == [("r", "chunk")]


async def test_a_sender_that_gives_up_frees_credit_for_the_others() -> None:
    async with InputGate[list[int]](GateParameters(inputs=2, exclusive=0, floating=3)) as gate:
        left, right = opened(gate, "lr")
        for _ in range(3):
            await left.send([1, 1])
            given_up = asyncio.create_task(left.send([2, 2]))
            await asyncio.sleep(0)
            assert gate.statistics().pool == 0
            given_up.cancel()
            await asyncio.sleep(0)
            await right.send([5])
            assert sorted(brief([await gate.receive() for _ in range(2)])) == [("l", [1, 1]), ("r", [5])]
            gate.resume()
            assert gate.statistics().pool == 3


async def test_the_least_watermark_passes_and_idle_inputs_do_not_delay_it() -> None:
    async with InputGate[str](SMALL) as gate:
        left, right = opened(gate, "lr")
        found = []

        async def after(sender: LocalSender[Any], value: object) -> None:
            """What is handed out before the chunk behind this watermark."""
            sender.send_watermark(value)
            sender.send_nowait("x", 1)
            while isinstance(item := await gate.receive(), MergedWatermark):
                found.append(item.value)

        for sender, value in ((left, 5), (right, 3), (right, 4), (right, 4), (left, 9), (right, None), (right, 7)):
            await after(sender, value)
        assert found == [3, 4, 9]
        await left.end()
        right.send_watermark(12)
        assert await gate.receive() == MergedWatermark(12)


async def test_watermarks_that_cannot_be_compared_are_refused() -> None:
    async with InputGate[str](SMALL) as gate:
        left, right = opened(gate, "lr")
        left.send_watermark(1)
        right.send_watermark("two")
        with pytest.raises(LocalProtocolError, match="cannot be compared"):
            await gate.receive()


async def test_misuse_is_refused() -> None:
    async with InputGate[str](SMALL) as gate:
        gate.open_channel("l")
        with pytest.raises(InvalidParametersError, match="must be new"):
            gate.open_channel("l")
        _, foreign = open_channel(GateParameters(), name="foreign")
        with pytest.raises(InvalidParametersError, match="must be opened with group"):
            gate.add(foreign)
        _, right = open_channel(SMALL, name="r", group=gate.group)
        gate.add(right)
        with pytest.raises(InvalidParametersError, match="receiver must be new to the gate"):
            gate.add(right, name="twice")
        with pytest.raises(LocalProtocolError, match="all its 2 inputs"):
            gate.open_channel("third")
        first = asyncio.create_task(gate.receive())
        await asyncio.sleep(0)
        with pytest.raises(LocalProtocolError, match="another task"):
            await gate.receive()
        first.cancel()
    with pytest.raises(ChannelClosedError):
        await gate.receive()
    for seconds in (0, "60"):
        with pytest.raises(InvalidParametersError, match="stall_seconds"):
            InputGate(stall_seconds=seconds)  # type: ignore[arg-type]  # refused as well
    with pytest.raises(InvalidParametersError, match="must be GateParameters"):
        InputGate(ChannelParameters())  # type: ignore[arg-type]  # the user has read the wrong page


@pytest.mark.parametrize("inputs", [1, 2])
async def test_an_input_with_chunks_too_large_for_the_pool_is_refused(inputs: int) -> None:
    gate = InputGate[str](GateParameters(inputs=2, exclusive=0, floating=8))
    with pytest.raises(InvalidParametersError, match=r"must be at most 4 .* wanted=gate\.parameters"):
        open_channel(GateParameters(inputs=inputs, exclusive=0, floating=16), group=gate.group)
    open_channel(GateParameters(inputs=inputs, exclusive=0, floating=16, max_chunk_cost=4), group=gate.group)


async def test_an_input_that_leaves_early_makes_room_for_another() -> None:
    parameters = GateParameters(inputs=2, exclusive=0, floating=4)
    async with InputGate[str](parameters, stall_seconds=5) as gate:
        left = gate.open_channel("l")
        gone: LocalSender[str]
        gone, receiver = open_channel(parameters, name="r", group=gate.group)
        left.send_barrier_nowait(1)
        await gone.send("unread", 2)
        assert gate.statistics().pool == 2
        receiver.close()
        assert gate.statistics().pool == 4
        right = gate.open_channel("r")
        await right.send("before", 1)
        right.send_barrier_nowait(1)
        assert brief([await gate.receive(), await gate.receive()]) == [("r", "before"), 1]


async def test_closing_tells_a_waiting_consumer_and_the_senders() -> None:
    gate = InputGate[str](SMALL)
    left, _ = opened(gate, "lr")
    receiving = asyncio.create_task(gate.receive())
    await asyncio.sleep(0)
    gate.close()
    with pytest.raises(ChannelClosedError):
        await receiving
    with pytest.raises(Exception, match="gone"):
        await left.send(["late"])


async def test_the_pool_is_shared_fairly_by_busy_inputs() -> None:
    """Without turns, the same input could borrow the only credit for ever."""
    async with InputGate[int](GateParameters(inputs=3, exclusive=0, floating=1)) as gate, asyncio.TaskGroup() as group:
        tasks = [group.create_task(without_end(sender)) for sender in opened(gate, "abc")]
        served = Counter([str((await gate.receive())[0]) for _ in range(300)])
        assert max(served.values()) - min(served.values()) <= 3
        for task in tasks:
            task.cancel()


async def without_end(sender: LocalSender[int]) -> None:
    while True:
        await sender.send(1)


@simulated
async def test_a_gate_that_adapts_lends_little_and_loses_nothing() -> None:
    rows, numbers, targets = Counter[str](), list[int](), list[int]()
    parameters = GateParameters(inputs=2, exclusive=8, floating=1_024)

    async def produce(sender: LocalSender[object]) -> None:
        for number in range(1, 6):
            await sender.send_many(deque([b"1234"] * 120))
            await sender.send_barrier(number)
        await sender.end()

    async with InputGate[object](parameters, target_latency_seconds=0.5) as gate, asyncio.TaskGroup() as group:
        for sender in opened(gate, "lr"):
            group.create_task(produce(sender))
        async for item in gate:
            if isinstance(item, AlignedBarrier):
                numbers.append(item.number)
            elif isinstance(item, GateChunk):
                rows[item.source] += item.rows
                await asyncio.sleep(0.04)  # simulated: 100 rows a second
            targets.append(gate.statistics().target)
    assert rows == {"l": 2_400, "r": 2_400}
    assert numbers == [1, 2, 3, 4, 5]
    assert (targets[0], targets[-1]) == (1_024, 34)  # 50 rows, but for 16 of exclusive credit


def test_a_gate_refuses_a_latency_out_of_range() -> None:
    with pytest.raises(InvalidParametersError, match="target_latency_seconds must be a number of seconds"):
        InputGate(SMALL, target_latency_seconds=0)

"""A gate of several inputs over simulated connections: producers, an exchange, and a consumer that aligns barriers.

Each input is a channel of its own with one producer.  Beside the laws of streams:

1. Of each input, the gate hands out a beginning of what was sent, each row once, in order; all of it, if it has ended.
2. An aligned barrier stands, in each input that has not ended, behind all rows that were sent before it and before all
   others.  Its numbers grow; one that all producers have sent is aligned.
3. What inputs have borrowed and what is in the pool is always the whole pool; in the end, all of it is there.
4. All inputs together are a behaviour of the model.
"""

import asyncio
from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from dataclasses import replace
from functools import partial
from itertools import count
from random import Random
from typing import Final

import pyarrow as pa

from permitflow import AlignedBarrier, GateChunk, GateParameters, InputGate, MergedWatermark
from permitflow.carriers.same_host import SameHost
from permitflow.channels.gate import GateItem
from permitflow.client import RemoteSender, get, put
from permitflow.errors import EndOfStream, InputStalledError
from permitflow.exchange import Exchange
from permitflow.flows.recording import ActionTable, End, ParameterValue, Recorder
from permitflow.stream.frames import EndOutcome
from permitflow.tracing.events import Event
from permitflow_testing.subjects.input_gate import judge_gate
from tests.simulator.applications import BARRIER, SCHEMA, WATERMARK, Log, Receiving, Sender, receive_all
from tests.simulator.coverage import covers_gate, gate_key
from tests.simulator.outcome import Outcome
from tests.simulator.schedule import CONSUMER, OPERATOR_SECONDS, TCP, Schedule, draw, troubles
from tests.simulator.streams import Client, StreamsRun

_SWEEPER: Final = "sweeper"


def draw_gate(seed: int) -> tuple[Schedule, GateParameters]:
    """The schedule of this seed, and the gate's parameters."""
    drawn, random = draw(seed, TCP), Random(f"gate {seed}")
    inputs = random.choice((2, 2, 3))
    exclusive = random.choice((0, 0, 1, 2, 4))
    floating = random.choice((1, 2, 4, 9) if not exclusive else (0, 1, 2, 6))
    parameters = GateParameters(inputs=inputs, exclusive=exclusive, floating=floating)
    producers = tuple(f"producer{number}" for number in range(inputs))
    clients = (*producers, CONSUMER)
    pauses, late = [*drawn.pause_seconds.values()], [*drawn.late_seconds.values()]
    most = parameters.max_chunk_cost
    sizes = (1, 1, most, 2 * most + 1, *random.choices((BARRIER, BARRIER, WATERMARK), k=random.choice((0, 1, 3))))
    schedule = replace(
        drawn,
        parameters=parameters,
        chunks=tuple(tuple(random.choices(sizes, k=random.choice((0, 1, 4, 8)))) for _ in producers),
        troubles=troubles(random, clients),
        pause_seconds={client: random.choice(pauses) for client in clients},
        late_seconds={client: random.choice(late) for client in clients},
        sending=tuple(random.choice(drawn.sending) for _ in producers),
        receiving=random.choice((Receiving.ONE_BY_ONE, Receiving.IMPATIENT)),
    )
    return schedule, parameters


class GateRun(StreamsRun):
    """One run."""

    def __init__(self, seed: int, *, tells: bool = False) -> None:
        """``tells``: keep the story."""
        schedule, self.parameters = draw_gate(seed)
        super().__init__(schedule, tells=tells)
        self._recorder = self._record_all
        self.world.tell("schedule", str(schedule))
        self.got: list[list[int]] = [[] for _ in schedule.chunks]
        """By input: the rows that the gate has handed out."""
        self.swept: list[Log] = [Log() for _ in schedule.chunks]
        """By input: what was read after the gate had failed."""
        self.aligned: list[int] = []
        self.laws: list[str] = []
        self.states: set[object] = set()
        """Of the model of all inputs together."""
        self._merged = 0
        self._events: list[Event] = []
        self._numbers = count()
        self._inputs: list[str] = []

    # The parties.

    def _new_exchange(self) -> Exchange:
        # A stream of which the consumer has seen nothing begins anew at an exchange that is started again.
        begun = {event.channel for event in self._events if event.end == "receiver"}
        self._events = [event for event in self._events if event.channel in begun]
        exchange = Exchange(
            parameters=self.parameters,
            record=self._recorder,
            same_host=SameHost.NEVER,
            byte_window=self.schedule.byte_window,
        )
        for number in range(self.parameters.inputs):
            exchange.add_channel(_channel(number), schema=SCHEMA)
        return exchange

    def _record_all(
        self, channel: str, end: End, table: ActionTable, parameters: Mapping[str, ParameterValue]
    ) -> Recorder:
        """The oracle sees each stream by itself, and all inputs are judged together in the end."""
        tell = self.oracle.recorder(channel, end, table, parameters)

        def record(action: str, arguments: tuple[int, ...], counters: tuple[int, ...]) -> None:
            if action.startswith("Withdraw"):
                self.seen["withdrawn"] += 1
            # An exchange that is started again gives the names of its streams once more.
            if CONSUMER not in self.clients or not self.clients[CONSUMER].is_ended:
                self._events.append(Event(channel, end, next(self._numbers), action, arguments, None, counters))
            tell(action, arguments, counters)

        return record

    def _put_to(self, number: int) -> AbstractAsyncContextManager[RemoteSender]:
        return put(self.address, _channel(number), SCHEMA, **self._options)

    async def _produce(self, number: int, client: Client) -> None:
        schedule = self.schedule
        pause = schedule.pause_seconds[client.host.name]
        async with self._put_to(number) as sender:
            client.exchange = len(self.exchanges)
            await Sender(sender, client.log, 0, pause).send_all(schedule.chunks[number], schedule.sending[number])
            client.outcome = await sender.end()
            client.is_ended = True
            self._require_bytes(client, sender.statistics())
            if client.outcome is EndOutcome.CONSUMED:
                there = {*self.got[number], *self.swept[number].messages}
                if missing := [row for row in _rows(client.log) if row not in there]:
                    self.laws.append(f"{client.host.name} was told that all was consumed, and not: {missing}")

    async def _consume(self, client: Client) -> None:
        gate: InputGate[pa.RecordBatch] = InputGate(self.parameters)
        async with gate, AsyncExitStack() as stack:
            for number in range(self.parameters.inputs):
                receiver = await stack.enter_async_context(
                    get(self.address, _channel(number), wanted=self.parameters, group=gate.group, **self._options)
                )
                gate.add(receiver)
                self._inputs.append(receiver.stream)
            while (item := await self._item_of(gate)) is not None:
                self._note(item)
                self._require_credit(gate)
                await asyncio.sleep(self.schedule.pause_seconds[CONSUMER])
            client.is_ended = True
            if gate.statistics().pool != self.parameters.floating:
                self.laws.append(f"in the end, {gate.statistics().pool} of {self.parameters.floating} is in the pool")

    async def _item_of(self, gate: InputGate[pa.RecordBatch]) -> GateItem[pa.RecordBatch] | None:
        """The next item; None: all inputs have ended."""
        seconds = 1e-3 if self.schedule.receiving is Receiving.IMPATIENT else 1e6
        while True:
            try:
                async with asyncio.timeout(seconds):
                    return await gate.receive()
            except InputStalledError:
                self.seen["stalled"] += 1
            except TimeoutError:
                seconds *= 8
            except EndOfStream:
                return None

    async def _sweep(self, number: int, client: Client) -> None:
        """Read what is left of a channel whose gate has failed."""
        async with get(self.address, _channel(number), **self._options) as receiver:
            await receive_all(receiver, self.swept[number], Receiving.ONE_BY_ONE, 0.0)
            client.is_ended = True

    async def _end_channel(self, number: int, client: Client) -> None:
        async with self._put_to(number) as sender:
            await sender.end()
            client.is_ended = True

    def _start_exchange(self) -> None:
        super()._start_exchange()
        self.world.after(OPERATOR_SECONDS * len(self.clients), self._operate)

    def _operate(self) -> None:
        """Channels without a reader are read, and those whose producer has failed are ended, as by an operator."""
        here = {name for name, client in self.clients.items() if not client.is_over}
        is_read = any(name.startswith((CONSUMER, _SWEEPER)) for name in here)
        count = len(self.clients)
        for number, name in enumerate(self.schedule.producers):
            if name in here and not is_read:
                self._start(f"{_SWEEPER}{count + number}", partial(self._sweep, number))
            elif is_read and self._has_failed(number) and not any(name.startswith(_closer(number)) for name in here):
                self._start(f"{_closer(number)} {count}", partial(self._end_channel, number))

    def _has_failed(self, number: int) -> bool:
        """Is it over without its end, or with that at an exchange that has crashed?"""
        producer = self.clients[f"producer{number}"]
        return producer.is_over and not (producer.is_ended and producer.exchange == len(self.exchanges))

    # Laws.

    def _note(self, item: GateItem[pa.RecordBatch]) -> None:
        match item:
            case GateChunk(source, payload):
                self.got[int(source.removeprefix("c"))] += payload.column(0).to_pylist()
            case MergedWatermark(value):
                if value <= self._merged:
                    self.laws.append(f"the watermark goes from {self._merged} back to {value}")
                self._merged = value
            case AlignedBarrier(number, payloads):
                self.world.tell(CONSUMER, f"has barrier {number} of {', '.join(payloads)}")
                self.seen["aligned"] += 1
                if self.aligned and number <= self.aligned[-1]:
                    self.laws.append(f"barrier {number} comes behind barrier {self.aligned[-1]}")
                self.aligned.append(number)
                for place, got in enumerate(self.got):
                    self._require_aligned(place, number, got, is_blocked=_channel(place) in payloads)

    def _require_aligned(self, place: int, number: int, got: list[int], *, is_blocked: bool) -> None:
        sent = self.clients[f"producer{place}"].log.messages
        if not is_blocked:
            if self._has_failed(place):
                return
            self.seen["aligned without an input that has ended"] += 1
            before = sent
        elif -number - 1 in sent:
            before = sent[: sent.index(-number - 1)]
        else:
            self.laws.append(f"barrier {number} of input {place} was never sent")
            return
        if got != (rows := [message for message in before if message >= 0]):
            self.laws.append(f"at barrier {number}, input {place} has {got}, and not {rows}")

    def _require_credit(self, gate: InputGate[pa.RecordBatch]) -> None:
        statistics = gate.statistics()
        borrowed = [each.borrowed for each in statistics.inputs]
        if statistics.pool + sum(borrowed) != self.parameters.floating or min(statistics.pool, *borrowed) < 0:
            self.laws.append(f"of {self.parameters.floating}, {statistics.pool} is in the pool and {borrowed} borrowed")

    def _judged_rows(self) -> list[str]:
        broken = [*self.laws]
        is_whole = self.clients[CONSUMER].is_ended
        logs = [self.clients[name].log for name in self.schedule.producers]
        for place, (log, got) in enumerate(zip(logs, self.got, strict=True)):
            sent = _rows(log)
            if got != (sent if is_whole and not self._has_failed(place) else sent[: len(got)]):
                broken.append(f"of input {place}'s {sent} the gate handed out {got}")
        common = set.intersection(*({message for message in log.messages if message < 0} for log in logs))
        is_told = is_whole and not any(map(self._has_failed, range(self.parameters.inputs)))
        if is_told and (missing := {-message - 1 for message in common} - {*self.aligned}):
            broken.append(f"all producers have sent barriers {sorted(missing)}, and they were not aligned")
        if is_whole:
            self.seen["judged together"] += 1
            is_covered = covers_gate(self.parameters)
            judged = judge_gate(self._events, self.parameters, self._inputs, keep_path=is_covered)
            if not judged.is_valid:
                broken.append(f"the inputs together are no behaviour of the model: {judged.blocked} {judged.broken}")
            if is_covered and (path := judged.worlds[0].path) is not None:
                self.states |= {gate_key(step.state) for step in path.steps()}
        return broken


def _channel(number: int) -> str:
    return f"c{number}"


def _closer(number: int) -> str:
    return f"closer of {_channel(number)}"


def _rows(log: Log) -> list[int]:
    return [message for message in log.messages if message >= 0]


def run_seed(seed: int, tells: bool) -> Outcome:
    """Run one seed."""
    run = GateRun(seed, tells=tells)
    outcome = run.run()
    outcome.states = run.states
    return outcome

"""Producers, an exchange and a consumer in a simulated world, and what must hold of them however it goes."""

import asyncio
from collections import Counter
from collections.abc import Callable, Coroutine
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from permitflow.carriers.same_host import SameHost
from permitflow.channels.statistics import ChannelStatistics
from permitflow.client import RemoteSender, get, put
from permitflow.errors import (
    AlteredMessageError,
    ChannelCancelledError,
    PeerGoneError,
    PermitflowError,
    ProtocolError,
)
from permitflow.exchange import Exchange, ExchangeServer
from permitflow.flows.byte_window import ByteWindow
from permitflow.flows.recording import RecorderFactory
from permitflow.stream.frames import EndOutcome
from tests.simulator.applications import SCHEMA, Log, Receiving, Sender, receive_all
from tests.simulator.coverage import key_of
from tests.simulator.datagrams import DatagramSocket
from tests.simulator.oracle import Oracle
from tests.simulator.outcome import Outcome
from tests.simulator.schedule import CONSUMER, EXCHANGE, OPERATOR_SECONDS, TCP, UDP, Fault, Schedule, Trouble, draw
from tests.simulator.sockets import Network
from tests.simulator.surroundings import INSECURE, simulated_run
from tests.simulator.world import Host, WaitsForEver, World

CHANNEL = "c"
PATIENCE_SECONDS = 400.0
"""After the last trouble, everybody must have come to an end in so long: silence, handshakes, and connecting."""
_LARGEST_CHUNK_BYTES = 600
"""Of a dozen numbers: 8 each, and what Arrow adds."""
_RESTART_SECONDS = 3.0
PRODUCER_SHIFT = 1 << 20
"""A row says whose it is: its number plus this for each producer before."""


@dataclass
class Client:
    """What a client has seen."""

    host: Host
    task: "asyncio.Task[None] | None" = None
    error: BaseException | None = None
    is_over: bool = False
    is_ended: bool = False
    """Of a producer: was it told that its rows were taken?  Of the consumer: has it seen the end?"""
    exchange: int = 0
    """Which exchange it has agreed with: another one after each crash, and none keeps rows in memory."""
    outcome: EndOutcome | None = None
    log: Log = field(default_factory=Log)


class StreamsRun:
    """One run."""

    def __init__(self, schedule: Schedule, *, tells: bool = False) -> None:
        """``tells``: keep the story."""
        self.schedule = schedule
        self.world = World(
            schedule.seed, turn_seconds=schedule.turn_seconds, most_in_turn=schedule.most_in_turn, tells=tells
        )
        self.network = Network(self.world, schedule.conditions)
        self.oracle = Oracle(on_step=self._on_step if tells else None, key_of=key_of)
        self._recorder: RecorderFactory = self.oracle.recorder
        self.clients: dict[str, Client] = {}
        self.exchanges: list[Host] = []
        self.seen: Counter[str] = Counter()
        self._is_stopping = False
        self._is_spoiled = False
        """Has a bit flipped before a stream was agreed on?"""
        self._stopping = asyncio.Event()
        self._exchange_is_over = False
        self._open_producers = len(schedule.chunks)

    @property
    def address(self) -> str:
        """The exchange's."""
        return f"{self.schedule.scheme}{EXCHANGE}:5600"

    def run(self) -> Outcome:
        """Run it to its end, and judge it."""
        outcome = Outcome(self.schedule.seed, seen=self.seen)
        self.seen["over UDP"] += self.schedule.scheme == UDP
        with simulated_run(self.world, outcome):
            outcome.broken += self._run()
            outcome.broken += self.oracle.broken
        outcome.steps = self.oracle.steps
        outcome.states = {state for judge in self.oracle.judges for state in judge.states}
        return outcome

    def _run(self) -> list[str]:
        schedule, world = self.schedule, self.world
        self._start_exchange()
        for number, name in enumerate(schedule.producers):
            self._start(name, partial(self._produce, number))
        self._start(CONSUMER, self._consume)
        for trouble in schedule.troubles:
            if trouble.at_seconds is None:
                world.at_turn(trouble.turn, self._bring, trouble)
            else:
                world.at(trouble.at_seconds, self._bring, trouble)
        try:
            world.run(until=self._deadline())
            self._is_stopping = True
            if not self._exchange_is_over:
                self.exchanges[-1].schedule(self._stopping.set)
                world.run(until=world.now + PATIENCE_SECONDS)
        except WaitsForEver as error:
            return [f"{error}: {self._who_waits()}"]
        return self._judged()

    def _deadline(self) -> float:
        return (
            PATIENCE_SECONDS
            + 2 * self.schedule.resume_seconds
            + sum(trouble.seconds for trouble in self.schedule.troubles)
        )

    def _who_waits(self) -> str:
        waiting = [name for name, client in self.clients.items() if not client.is_over]
        return f"{', '.join(waiting) or EXCHANGE} waits; tasks: {'; '.join(self.world.unfinished())}"

    # The parties.

    def _start_exchange(self) -> None:
        if self._is_stopping:
            return
        host = self.world.new_host(EXCHANGE)
        self.exchanges.append(host)
        self._exchange_is_over = False
        self._stopping = asyncio.Event()  # before it serves: all others may be over by then
        host.begin(self._serve(self._stopping))

    async def _serve(self, stopping: asyncio.Event) -> None:
        schedule = self.schedule
        async with ExchangeServer(
            self._new_exchange(),
            self.address,
            silence_seconds=schedule.silence_seconds,
            resume_seconds=schedule.exchange_resume_seconds,
            security=INSECURE,
        ):
            await stopping.wait()
        self._exchange_is_over = True
        self.world.stop()

    def _new_exchange(self) -> Exchange:
        exchange = Exchange(
            parameters=self.schedule.parameters,
            record=self._recorder,
            same_host=SameHost.NEVER,
            byte_window=self.schedule.byte_window,
        )
        exchange.add_channel(CHANNEL, schema=SCHEMA)
        return exchange

    def _start(self, name: str, act: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
        client = self.clients[name] = Client(self.world.new_host(name))
        client.host.begin(self._play(client, act))

    def _note_over(self, client: Client) -> None:
        """Somebody is over; those who wait for it get another one, as from an operator."""
        client.is_over = True
        if all(each.is_over for each in self.clients.values()):
            self.world.stop()
        else:
            self.world.after(OPERATOR_SECONDS * len(self.clients), self._operate)

    def _operate(self) -> None:
        consumers = self._consumers()
        producers = [client for name, client in self.clients.items() if not name.startswith(CONSUMER)]
        number = len(self.clients)
        if not all(each.is_over for each in producers) and all(each.is_over for each in consumers):
            self._start(f"{CONSUMER}{number}", self._consume)
        elif all(each.is_over for each in producers) and not all(each.is_over for each in consumers):
            self._start(f"closer{number}", self._close)

    async def _close(self, client: Client) -> None:
        """Close the channel: no producer is left to do so."""
        async with self._put() as sender:
            await sender.end()
            client.is_ended = True

    async def _play(self, client: Client, act: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
        try:
            await asyncio.sleep(self.schedule.late_seconds.get(client.host.name, 0.0))
            await act(client)
        except Exception as error:
            client.error = error
            self.world.tell(client.host.name, f"fails: {type(error).__name__}: {error}")
        self._note_over(client)

    @property
    def _options(self) -> dict[str, Any]:
        schedule = self.schedule
        # Who resumes also waits for the first connection.
        waits = (
            {"connect_timeout_seconds": 500.0, "agreement_timeout_seconds": 500.0} if schedule.resume_seconds else {}
        )
        return {
            "silence_seconds": schedule.silence_seconds,
            "resume_seconds": schedule.resume_seconds,
            "record": self._recorder,
            "same_host": SameHost.NEVER,
            **waits,
        }

    def _put(self) -> AbstractAsyncContextManager[RemoteSender]:
        return put(
            self.address,
            CHANNEL,
            SCHEMA,
            **self._options,
        )

    async def _produce(self, number: int, client: Client) -> None:
        schedule = self.schedule
        pause = schedule.pause_seconds.get(client.host.name, 0.0)
        async with self._put() as sender:
            client.exchange = len(self.exchanges)
            if schedule.first_message_seconds > self.world.now:
                await asyncio.sleep(schedule.first_message_seconds - self.world.now)
            first = PRODUCER_SHIFT * number
            await Sender(sender, client.log, first, pause).send_all(schedule.chunks[number], schedule.sending[number])
            self._open_producers -= 1
            is_last = not self._open_producers
            others = [self.clients[name] for name in schedule.producers if name != client.host.name]
            seconds = 0.01
            while is_last and not all(other.is_over for other in others):  # they are other hosts
                await asyncio.sleep(seconds)
                seconds *= 1.5
            client.outcome = await sender.end(closes_channel=is_last)
            client.is_ended = True
            self._require_bytes(client, sender.statistics())
            self.world.tell(client.host.name, f"hears that its messages were {client.outcome.value}")
            if client.outcome is EndOutcome.CONSUMED:
                self._require_consumed(client)

    def _require_bytes(self, producer: Client, seen: ChannelStatistics) -> None:
        if seen.peak_bytes_held > (most := ByteWindow(self.schedule.byte_window).most_bytes(_LARGEST_CHUNK_BYTES)):
            self.oracle.broken.append(
                f"{producer.host.name} had {seen.peak_bytes_held} bytes outstanding, and {most} are the most"
            )

    def _consumers(self) -> list[Client]:
        return [client for name, client in self.clients.items() if name.startswith(CONSUMER)]

    def _require_consumed(self, producer: Client) -> None:
        there = {message for client in self._consumers() for message in client.log.messages}
        if missing := [message for message in producer.log.messages if message not in there]:
            self.oracle.broken.append(
                f"{producer.host.name} was told that all was consumed, and {len(missing)} messages were not"
            )

    async def _consume(self, client: Client) -> None:
        schedule = self.schedule
        pause = schedule.pause_seconds[CONSUMER]
        async with get(
            self.address,
            CHANNEL,
            **self._options,
        ) as receiver:
            client.exchange = len(self.exchanges)
            await receive_all(receiver, client.log, schedule.receiving, pause)
            client.is_ended = True
            self.world.tell(client.host.name, f"sees the end after {len(client.log.messages)} rows and barriers")

    # Trouble.

    def _bring(self, trouble: Trouble) -> None:
        world, network, random = self.world, self.network, self.world.random
        host = self.exchanges[-1] if trouble.host == EXCHANGE else self.clients[trouble.host].host
        if not host.is_running_now:
            return
        boxes = network.open_mailboxes(host)
        open_ = [ends for ends in network.open_connections() if ends[0].host is host]
        match trouble.fault:
            case Fault.PART:
                network.part(host.name, EXCHANGE, trouble.seconds)
            case Fault.PAUSE:
                world.tell(host.name, f"is stopped for {trouble.seconds:g} s")
                host.pause()
                world.after(trouble.seconds, host.go_on)
            case Fault.CRASH | Fault.POWER:
                world.tell(host.name, "crashes" if trouble.fault is Fault.CRASH else "loses its power")
                network.crash(host, is_power=trouble.fault is Fault.POWER)
                self._note_crash(host)
            case _ if boxes:
                self._bring_to_datagrams(trouble.fault, boxes[-1])
            case _ if not open_:
                return
            case Fault.CUT:
                late = trouble.seconds
                network.cut(
                    open_[-1], random.choice(((0.0, late), (late, 0.0), (None, late), (late, None), (0.0, 0.0)))
                )
            case Fault.HALF_CLOSE | Fault.SILENCE | Fault.FLIP:
                pipe = random.choice(open_[-1]).outgoing
                assert pipe is not None, "it is connected"
                world.tell(pipe.writer.name, f"{trouble.fault.value} towards {pipe.reader.name}")
                if trouble.fault is Fault.FLIP:
                    pipe.flips_next = True
                    self._is_spoiled |= not self.clients[trouble.host].exchange
                elif trouble.fault is Fault.SILENCE:
                    pipe.is_silent = True
                else:
                    pipe.end_early()
        self.seen[trouble.fault.value] += 1

    def _bring_to_datagrams(self, fault: Fault, dialler: DatagramSocket) -> None:
        self.world.tell(dialler.name, f"{fault.value} of its datagrams")
        direction = self.world.random.choice((dialler.sending, dialler.receiving))
        match fault:
            case Fault.CUT:
                dialler.move()
            case Fault.HALF_CLOSE:
                dialler.is_refused = True
            case Fault.SILENCE:
                direction.is_silent = True
            case _:
                direction.flips_next = True

    def _note_crash(self, host: Host) -> None:
        if host.name == EXCHANGE:
            self._exchange_is_over = True
            if self._is_stopping:
                self.world.stop()
            else:
                self.world.after(_RESTART_SECONDS, self._start_exchange)
        elif not (client := self.clients[host.name]).is_over:
            self._note_over(client)

    # Laws.

    def _judged(self) -> list[str]:
        return [*self._judged_endings(), *self._judged_rows(), *self.world.left_behind()]

    def _judged_endings(self) -> list[str]:
        broken: list[str] = []
        for name, client in self.clients.items():
            if client.error is not None and not isinstance(client.error, PermitflowError):
                broken.append(f"{name} fails with {type(client.error).__name__}, which is none of ours: {client.error}")
            may_be_altered = self.schedule.scheme == TCP and Fault.FLIP in self.seen
            if isinstance(client.error, ProtocolError | AlteredMessageError) and not may_be_altered:
                broken.append(f"{name} hears that the protocol is broken, or bytes are altered: {client.error!r}")
            if client.error is not None and not self._may_fail(name, client.error):
                broken.append(f"{name} fails, and nothing was wrong: {client.error!r}")
            way = type(client.error).__name__ if client.error else "ends" if client.is_ended else "crashes"
            self.seen[f"{name.rstrip('0123456789')} {way}"] += 1
        return broken

    def _judged_rows(self) -> list[str]:
        broken: list[str] = []
        schedule = self.schedule
        leaves = schedule.receiving is Receiving.LEAVES
        for number, name in enumerate(schedule.producers):
            client = self.clients[name]
            sent = client.log.messages
            for consumer in self._consumers():
                got = [each for each in consumer.log.messages if _producer_of(each) == number]
                if got != sent[: len(got)]:
                    broken.append(f"of {name}'s {sent} the consumer got {got}: lost, doubled or in another order")
                is_whole = consumer.is_ended and not leaves and client.is_ended and consumer.exchange == client.exchange
                if is_whole and got != sent:
                    broken.append(f"the consumer saw the end, and of {name}'s {sent} it got only {got}")
                marks = [each for each in consumer.log.watermarks if each // PRODUCER_SHIFT == number]
                if marks != sorted(marks):
                    broken.append(f"{name}'s watermarks went back: {marks}")
        return broken

    def _may_fail(self, name: str, error: BaseException) -> bool:
        """Was there more than what everybody must bear?"""
        if isinstance(error, ChannelCancelledError) and self.schedule.receiving is Receiving.LEAVES:
            return True
        is_left = self.clients[CONSUMER].is_ended and self.schedule.may_outlast_farewells
        if isinstance(error, PeerGoneError) and is_left:
            return True  # the consumer has all, and has left before its last word was heard
        return name not in self.schedule.clients or not self.schedule.is_bridgeable or self._is_spoiled

    def _on_step(self, judge: Any, event: Any) -> None:
        self.world.tell(event.end, f"{judge.name}: {judge.event_in_words(event)}")


def run_seed(seed: int, tells: bool, scheme: str = "") -> Outcome:
    """The run of this seed; over what it draws, unless ``scheme`` says over what."""
    run = StreamsRun(draw(seed, scheme), tells=tells)
    run.world.tell("schedule", str(run.schedule))
    return run.run()


def _producer_of(message: int) -> int:
    return (message if message >= 0 else -message - 1) // PRODUCER_SHIFT

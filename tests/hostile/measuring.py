"""Measures what a neighbour notices of an attack: its rate and delays, the memory of the exchange, and life after it.

The exchange, the attacker and the neighbour have a process each; the neighbour's is this one.  The attacker has a
processor of its own where there are two.  Processors share caches, memory and perhaps a core, so the neighbour is also
measured beside a process that is as busy there, and attacks nobody: what it loses to that is not the exchange's matter.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from tempfile import TemporaryFile
from typing import IO, Any

import psutil
import pyarrow as pa

from benchmarks.harness import Partner
from permitflow.client import EndOutcome, SameHost, control, describe, get, put
from permitflow.errors import PeerGoneError, PermitflowError
from permitflow.stream.control import MOST_CHANNELS
from tests.hostile.attacks import ATTACKED, NEIGHBOUR, OF_STRANGERS, SCHEMA, Attack, Target
from tests.hostile.busy import be_busy
from tests.hostile.greedy import GREEDY, MOST_MIB, STREAM

CHECKOUT = Path(__file__).resolve().parents[2]
RESULTS = CHECKOUT / "docs/data/hostile"
ATTACKS: dict[str, tuple[str, Attack]] = {**OF_STRANGERS, **GREEDY}
"""By its name: the scheme over which the neighbour sends, and what the attacker does."""
ROWS = 100
PHASES = 3
"""With the attack, without it while the attacker is stopped, and then beside a process that is as busy."""
_TURNS = 3
BETWEEN_SECONDS = 0.005
LEAST_RATIO = 0.8
MOST_P99_SECONDS = 0.2
OPTIONS = ("--handshake-seconds", "2", "--silence-seconds", "5", "--resume-seconds", "5", "--retention", "replay")
_SETTLE_SECONDS = 0.3
"""After an attacker is stopped or goes on: what it has sent comes to an end."""
_ALIVE_SECONDS = 20.0
_STUCK_SECONDS = 30.0
_ATTEMPTS = 20


@dataclass(frozen=True)
class Result:
    """What was found about an attack."""

    attack: str
    attempts: int
    answers: dict[str, int]
    """Of the attempts, by the error that the exchange has told, or in words."""
    ratio: float
    """The neighbour's rate by the clock, of that while the attacker is stopped: the median of the phases' ratios."""
    p99_ms: float | None
    """None: the neighbour got no stream."""
    quiet_p99_ms: float | None
    """Without an attack."""
    memory_mib: int
    """By which the exchange has grown, at most."""
    bound_mib: int
    """What the exchange says, when it starts, that it holds at most before there are streams; or of a greedy peer."""
    refused: int
    """So often a new stream of the neighbour's was not made at once."""
    is_alive: bool
    """Does it serve a new stream afterwards?"""
    busy_ratio: float
    """As ``ratio``, of that beside a process that is as busy as the attacker and attacks nobody."""
    busy_share: float
    """How much of a processor the attacker took; the median."""

    @property
    def is_well(self) -> bool:
        """Are the promises kept?"""
        return (
            (self.busy_ratio >= LEAST_RATIO or self.attack in GREEDY)
            and self.p99_ms is not None
            and self.p99_ms < MOST_P99_SECONDS * 1e3
            and self.memory_mib <= self.bound_mib
            and self.is_alive
        )


@dataclass(frozen=True)
class Processors:
    """Which of them are whose."""

    attacker: frozenset[int]
    others: frozenset[int]

    @property
    def are_apart(self) -> bool:
        """Has the attacker one of its own?"""
        return self.attacker.isdisjoint(self.others)


def _processors() -> Processors:
    """The last one is the attacker's, if there are two."""
    *others, last = sorted(os.sched_getaffinity(0))
    return Processors(frozenset({last}), frozenset(others or {last}))


def _attacker(pipe: Any, processors: frozenset[int]) -> None:
    """Make the attacks that it is told, one after the other, each in an event loop of its own."""
    os.sched_setaffinity(0, processors)
    while True:
        name, target = pipe.recv()
        answers = Counter[str]()
        asyncio.run(_made(name, target, answers))
        pipe.send(dict(answers))


def _busy(pipe: Any, processors: frozenset[int]) -> None:
    """Be busy where the attacker would be, when told."""
    os.sched_setaffinity(0, processors)
    while True:
        share, seconds = pipe.recv()
        be_busy(share, seconds)
        pipe.send(None)


async def _made(name: str, target: Target, answers: Counter[str]) -> None:
    await ATTACKS[name][1](target, answers)


@dataclass(frozen=True)
class _Exchange:
    target: Target
    process: psutil.Process
    most_bytes: int
    """That it says it holds before there are streams."""


@contextmanager
def _exchange() -> Iterator[_Exchange]:
    """Its processors are those of this process."""
    streams = ("--stream", f"{STREAM}:{MOST_CHANNELS}", "--stream", f"{NEIGHBOUR}:{_TURNS * PHASES + 1}")
    addresses = [part for scheme in ("", "tcp://", "udp://") for part in ("--address", f"{scheme}127.0.0.1:0")]
    command = [sys.executable, "-m", "permitflow_tools.cli", "serve", "--json", *streams, *addresses, *OPTIONS]
    with (
        TemporaryFile() as said,
        subprocess.Popen(
            command, cwd=CHECKOUT, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.DEVNULL
        ) as process,
    ):
        try:
            listening = json.loads(_first_line(said, process))
            grpc, tcp, udp = listening["addresses"]
            yield _Exchange(Target(grpc, tcp, udp, 0.0), psutil.Process(process.pid), listening["before_streams_bytes"])
        finally:
            process.kill()


def _first_line(said: IO[bytes], process: "subprocess.Popen[bytes]") -> bytes:
    """Of a process that goes on to write."""
    until = time.monotonic() + _STUCK_SECONDS
    while process.poll() is None and time.monotonic() < until:
        said.seek(0)
        if (line := said.readline()).endswith(b"\n"):
            return line
        time.sleep(0.05)
    raise PeerGoneError(who="the exchange", reason="it has not begun to listen")


class _RefusedError(Exception):
    """A stream of the neighbour's was not made."""


@dataclass(frozen=True)
class _Trips:
    """Round trips of a neighbour, each with the pause before it."""

    seconds: list[float]
    per_second: float


def _ratio(attacked: Sequence[_Trips], quiet: Sequence[_Trips]) -> float:
    """A turn in which the neighbour got no stream counts as nothing."""
    turns = zip(attacked, quiet, strict=True)
    return median(one.per_second / other.per_second if other.per_second else 0.0 for one, other in turns)


def _p99_ms(phases: Sequence[_Trips]) -> float | None:
    seconds = sorted(each for trips in phases for each in trips.seconds)
    return round(1e3 * seconds[int(0.99 * len(seconds))], 1) if seconds else None


async def _trips(address: str, channel: str, seconds: float, note: Callable[[], None]) -> _Trips:
    """Send a chunk, take it, pause, and so on."""
    batch = pa.record_batch({"n": pa.array(range(ROWS), pa.int64())})
    found, never = list[float](), SameHost.NEVER
    async with AsyncExitStack() as stack:
        try:
            sender = await stack.enter_async_context(put(address, channel, batch.schema, same_host=never))
            receiver = await stack.enter_async_context(get(address, channel, same_host=never))
            orders = await stack.enter_async_context(control(address, reply_timeout_seconds=60.0))
            await orders.positions([channel])
        except PermitflowError as error:
            raise _RefusedError from error
        began = time.monotonic()
        until = began + seconds
        while time.monotonic() < until:
            await asyncio.sleep(BETWEEN_SECONDS)
            sent = time.perf_counter()
            async with asyncio.timeout(_STUCK_SECONDS):
                await sender.send(batch)
                message = await receiver.receive()
            assert message.payload.num_rows == ROWS
            found.append(time.perf_counter() - sent)
            if len(found) % 20 == 0:
                note()
                await orders.acknowledge({channel: ROWS * len(found)})
        await sender.end(closes_channel=False, until=EndOutcome.ACCEPTED)
    return _Trips(found, len(found) / (time.monotonic() - began))


async def _measured(name: str, seconds: float, partner: Partner, busy: Partner) -> Result:
    scheme, _ = ATTACKS[name]
    with _exchange() as exchange:
        target, process = exchange.target, exchange.process
        address = {"grpc": target.grpc, "tcp": target.tcp, "udp": target.udp}[scheme]
        peak = 0

        def note() -> None:
            nonlocal peak
            peak = max(peak, process.memory_info().rss)

        refused = 0

        async def neighbour(number: int) -> _Trips:
            nonlocal refused
            for _ in range(_ATTEMPTS):
                try:
                    return await _trips(address, f"{NEIGHBOUR}/{number}", seconds, note)
                except _RefusedError:
                    refused += 1
            return _Trips([], 0.0)

        async with put(target.tcp, ATTACKED, SCHEMA) as sender:  # its consumers are agreed with from now on
            await sender.end(closes_channel=False, until=EndOutcome.ACCEPTED)
        await neighbour(_TURNS * PHASES)  # everything is warm
        first, peak = process.memory_info().rss, 0
        aim = Target(target.grpc, target.tcp, target.udp, _TURNS * PHASES * (seconds + _SETTLE_SECONDS) + 2.0)
        quiet, beside, attacked, shares = list[_Trips](), list[_Trips](), list[_Trips](), list[float]()
        partner.tell((name, aim))
        attacker = psutil.Process(partner.pid)
        await asyncio.sleep(1.0)  # it begins
        # In turns: whatever else the machine does comes to both.
        for phase in range(PHASES):
            began, spent = time.monotonic(), _spent_seconds(attacker)
            attacked.append(await neighbour(_TURNS * phase))
            shares.append(min(1.0, (_spent_seconds(attacker) - spent) / (time.monotonic() - began)))
            attacker.suspend()
            await asyncio.sleep(_SETTLE_SECONDS)
            quiet.append(await neighbour(_TURNS * phase + 1))
            busy.tell((shares[-1], seconds))
            beside.append(await neighbour(_TURNS * phase + 2))
            await asyncio.to_thread(busy.hears, None, _STUCK_SECONDS)
            attacker.resume()
            await asyncio.sleep(_SETTLE_SECONDS)
        answers: dict[str, int] = await asyncio.to_thread(partner.hears, None, 60.0)
        note()
        is_alive = process.is_running() and await _is_alive(address)
    return Result(
        attack=name,
        attempts=sum(answers.values()),
        answers=dict(sorted(answers.items(), key=lambda item: -item[1])),
        ratio=round(_ratio(attacked, quiet), 2),
        busy_ratio=round(_ratio(attacked, beside), 2),
        busy_share=round(median(shares), 2),
        p99_ms=_p99_ms(attacked),
        quiet_p99_ms=_p99_ms(quiet),
        memory_mib=max(0, peak - first) >> 20,
        bound_mib=MOST_MIB if name in GREEDY else exchange.most_bytes >> 20,
        refused=refused,
        is_alive=is_alive,
    )


def _spent_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return float(times.user + times.system)


async def _is_alive(address: str) -> bool:
    """Suspended streams of the attacker's may still take the places of others."""
    with suppress(TimeoutError):
        async with asyncio.timeout(_ALIVE_SECONDS):
            while True:
                with suppress(PermitflowError):
                    await describe(address, f"{NEIGHBOUR}/0")
                    return True
                await asyncio.sleep(0.5)
    return False


@dataclass(frozen=True)
class Run:
    """What was found about several attacks, one after the other."""

    date: str
    seconds: float
    """Of each phase."""
    rows: int
    phases: int
    processors: int
    is_attacker_apart: bool
    """Has it a processor of its own?"""
    load: tuple[float, float]
    """How many processes wanted a processor, in the minute before the run and in its last one."""
    options: str
    """Of ``permitflow serve``."""
    attacks: list[Result]


def measure(names: Sequence[str], seconds: float) -> Iterator[Run]:
    """Measure these attacks, one after the other; after each, the run so far."""
    processors, load = _processors(), os.getloadavg()[0]
    mine = os.sched_getaffinity(0)
    found: list[Result] = []
    with Partner(_attacker, processors.attacker) as partner, Partner(_busy, processors.attacker) as busy:
        os.sched_setaffinity(0, processors.others)
        try:
            for name in names:
                found.append(result := asyncio.run(_measured(name, seconds, partner, busy)))
                print(_line(result), flush=True)
                yield Run(
                    date=datetime.now(UTC).strftime("%Y-%m-%d"),
                    seconds=seconds,
                    rows=ROWS,
                    phases=PHASES,
                    processors=len(mine),
                    is_attacker_apart=processors.are_apart,
                    load=(round(load, 1), round(os.getloadavg()[0], 1)),
                    options=" ".join(OPTIONS),
                    attacks=[*found],
                )
        finally:
            os.sched_setaffinity(0, mine)


def _line(result: Result) -> str:
    p99 = f"p99 {result.p99_ms} ms (quiet {result.quiet_p99_ms})"
    verdict = f"{'alive' if result.is_alive else 'DEAD'}  {'met' if result.is_well else 'NOT MET'}"
    return (
        f"{result.attack:46} {result.attempts:8,} attempts  rate {result.ratio:5.2f} "
        f"(busy {result.busy_ratio:.2f}, {result.busy_share:.2f})  {p99}  "
        f"+{result.memory_mib:4} MiB  {verdict}  {result.answers}"
    )


def keep(run: Run, folder: Path = RESULTS) -> None:
    """Write what was found, a line for each attack; nothing of an earlier run stays."""
    folder.mkdir(parents=True, exist_ok=True)
    facts = asdict(run)
    lines = (json.dumps(each, ensure_ascii=False) for each in facts.pop("attacks"))
    head = json.dumps(facts, indent=2).removesuffix("\n}")
    (folder / "attacks.json").write_text(
        head + ',\n  "attacks": [\n    ' + ",\n    ".join(lines) + "\n  ]\n}\n", "utf-8"
    )


def kept(file: Path = RESULTS / "attacks.json") -> Run:
    """What was found in the last run that was kept."""
    facts = json.loads(file.read_text("utf-8"))
    return Run(**{**facts, "attacks": [Result(**each) for each in facts["attacks"]]})

"""Measures what a neighbour notices of an attack: its rate and delays, the memory of the exchange, and life after it.

The exchange, the attacker and the neighbour have a process each; the neighbour's is this one.
"""

import asyncio
import json
import os
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import pyarrow as pa

from benchmarks.harness import Partner
from permitflow.client import EndOutcome, SameHost, control, describe, get, put
from permitflow.errors import PeerGoneError, PermitflowError
from tests.hostile.attacks import ATTACKED, ATTACKS, NEIGHBOUR, SCHEMA, Target

CHECKOUT = Path(__file__).resolve().parents[2]
RESULTS = CHECKOUT / "docs/data/hostile"
ROWS = 100
PHASES = 4
"""With the attack, and without it while the attacker is stopped."""
BETWEEN_SECONDS = 0.005
LEAST_RATIO = 0.8
MOST_P99_SECONDS = 0.2
MOST_GROWTH_BYTES = 1 << 30
OPTIONS = ("--handshake-seconds", "2", "--silence-seconds", "5", "--resume-seconds", "5", "--retention", "replay")
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
    """The neighbour's rate by the clock, of that while the attacker is stopped."""
    served_ratio: float
    """Likewise, without the time in which the exchange or the neighbour was ready and had no processor: the attacker
    takes some, and so do other programs of the machine."""
    p99_ms: float
    quiet_p99_ms: float
    """Without an attack."""
    memory_mib: int
    """By which the exchange has grown, at most."""
    refused: int
    """So often a new stream of the neighbour's was not made at once."""
    is_alive: bool
    """Does it serve a new stream afterwards?"""

    @property
    def is_well(self) -> bool:
        """Are the promises kept?"""
        return (
            max(self.ratio, self.served_ratio) >= LEAST_RATIO
            and self.p99_ms < MOST_P99_SECONDS * 1e3
            and self.memory_mib < MOST_GROWTH_BYTES >> 20
            and self.is_alive
        )


async def _in_process(pipe: Any, name: str, target: Target) -> None:
    answers = Counter[str]()
    await ATTACKS[name][1](target, answers)
    pipe.send(dict(answers))


@contextmanager
def _exchange() -> Iterator[tuple[Target, psutil.Process]]:
    streams = ("--stream", ATTACKED.partition("/")[0], "--stream", f"{NEIGHBOUR}:{2 * PHASES + 1}")
    addresses = [part for scheme in ("", "tcp://", "udp://") for part in ("--address", f"{scheme}127.0.0.1:0")]
    command = [sys.executable, "-m", "permitflow_tools.cli", "serve", "--quiet", *streams, *addresses, *OPTIONS]
    with subprocess.Popen(
        command, cwd=CHECKOUT, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as process:
        try:
            assert process.stdout is not None
            grpc, tcp, udp = (process.stdout.readline().rsplit(maxsplit=1)[-1] for _ in range(3))
            yield Target(grpc, tcp, udp, 0.0), psutil.Process(process.pid)
        finally:
            process.kill()


class _RefusedError(Exception):
    """A stream of the neighbour's was not made."""


@dataclass(frozen=True)
class _Trips:
    """Round trips of a neighbour, each with the pause before it."""

    seconds: list[float]
    per_second: float
    served_per_second: float
    """Without the time in which the exchange or the neighbour was ready and had no processor."""


def _by_the_clock(trips: _Trips) -> float:
    return trips.per_second


def _served(trips: _Trips) -> float:
    return trips.served_per_second


def _ratio(attacked: Sequence[_Trips], quiet: Sequence[_Trips], rate: Callable[[_Trips], float]) -> float:
    return median(rate(one) / rate(other) for one, other in zip(attacked, quiet, strict=True))


def _p99_ms(phases: Sequence[_Trips]) -> float:
    seconds = sorted(each for trips in phases for each in trips.seconds)
    return 1e3 * seconds[int(0.99 * len(seconds))]


async def _trips(address: str, channel: str, pid: int, seconds: float, note: Callable[[], None]) -> _Trips:
    """Send a chunk, take it, pause, and so on."""
    batch = pa.record_batch({"n": pa.array(range(ROWS), pa.int64())})
    found, served = list[float](), 0.0
    pids, never = (pid, os.getpid()), SameHost.NEVER
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
            waited, sent = _waited_seconds(*pids), time.perf_counter()
            async with asyncio.timeout(_STUCK_SECONDS):
                await sender.send(batch)
                message = await receiver.receive()
            assert message.payload.num_rows == ROWS
            found.append(trip := time.perf_counter() - sent)
            served += BETWEEN_SECONDS + max(0.0, trip - (_waited_seconds(*pids) - waited))
            if len(found) % 20 == 0:
                note()
                await orders.acknowledge({channel: ROWS * len(found)})
        await sender.end(closes_channel=False, until=EndOutcome.ACCEPTED)
    return _Trips(found, len(found) / (time.monotonic() - began), len(found) / served)


def _waited_seconds(*pids: int) -> float:
    """How long the main threads of these processes were ready, and another thread had the processor."""
    return sum(int(Path(f"/proc/{pid}/schedstat").read_text().split()[1]) for pid in pids) / 1e9


async def _measured(name: str, seconds: float) -> Result:
    scheme, _ = ATTACKS[name]
    with _exchange() as (target, process):
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
                    return await _trips(address, f"{NEIGHBOUR}/{number}", process.pid, seconds, note)
                except _RefusedError:
                    refused += 1
            raise PeerGoneError(who="the exchange", reason=f"{_ATTEMPTS} streams in a row were refused")

        async with put(target.tcp, ATTACKED, SCHEMA) as sender:  # its consumers are agreed with from now on
            await sender.end(closes_channel=False, until=EndOutcome.ACCEPTED)
        await neighbour(2 * PHASES)  # everything is warm
        first, peak = process.memory_info().rss, 0
        aim = Target(target.grpc, target.tcp, target.udp, 2 * PHASES * seconds + 3.0)
        quiet, attacked = list[_Trips](), list[_Trips]()
        with Partner(_in_process, name, aim) as partner:
            attacker = psutil.Process(partner.pid)
            await asyncio.sleep(1.5)  # it starts
            # In turns: whatever else the machine does comes to both.
            for phase in range(PHASES):
                attacked.append(await neighbour(2 * phase))
                attacker.suspend()
                quiet.append(await neighbour(2 * phase + 1))
                attacker.resume()
            answers: dict[str, int] = await asyncio.to_thread(partner.hears, None, 60.0)
        note()
        is_alive = process.is_running() and await _is_alive(address)
    return Result(
        attack=name,
        attempts=sum(answers.values()),
        answers=dict(sorted(answers.items(), key=lambda item: -item[1])),
        ratio=round(_ratio(attacked, quiet, _by_the_clock), 2),
        served_ratio=round(min(1.0, _ratio(attacked, quiet, _served)), 2),
        p99_ms=round(_p99_ms(attacked), 1),
        quiet_p99_ms=round(_p99_ms(quiet), 1),
        memory_mib=max(0, peak - first) >> 20,
        refused=refused,
        is_alive=is_alive,
    )


async def _is_alive(address: str) -> bool:
    try:
        async with asyncio.timeout(_ALIVE_SECONDS):
            await describe(address, f"{NEIGHBOUR}/0")
    except (PermitflowError, TimeoutError):
        return False
    return True


def measure(names: Sequence[str], seconds: float, *, keeps: bool) -> list[Result]:
    """Measure these attacks, one after the other; print each, and keep them in docs/data if asked to."""
    found: list[Result] = []
    for name in names:
        result = asyncio.run(_measured(name, seconds))
        found.append(result)
        print(_line(result), flush=True)
        if keeps:
            keep([result], seconds)
    return found


def _line(result: Result) -> str:
    rate = f"rate {result.ratio:5.2f} (served {result.served_ratio:4.2f})"
    p99 = f"p99 {result.p99_ms:6.1f} ms (quiet {result.quiet_p99_ms:5.1f})"
    verdict = f"{'alive' if result.is_alive else 'DEAD'}  {'met' if result.is_well else 'MISSED'}"
    return (
        f"{result.attack:46} {result.attempts:8,} attempts  {rate}  {p99}  +{result.memory_mib:4} MiB  {verdict}  "
        f"{result.answers}"
    )


def keep(found: Sequence[Result], seconds: float, folder: Path = RESULTS) -> None:
    """Write what was found, a line for each attack; those that were not measured this time stay as they were."""
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / "attacks.json"
    known = json.loads(file.read_text("utf-8"))["attacks"] if file.exists() else []
    by_name = {each["attack"]: each for each in (*known, *map(asdict, found))}
    facts = {"date": datetime.now(UTC).strftime("%Y-%m-%d"), "seconds": seconds, "rows": ROWS, "phases": PHASES}
    lines = (json.dumps(by_name[name], ensure_ascii=False) for name in ATTACKS if name in by_name)
    head = json.dumps(facts, indent=2).removesuffix("\n}")
    file.write_text(head + ',\n  "attacks": [\n    ' + ",\n    ".join(lines) + "\n  ]\n}\n", "utf-8")

"""``nox -s soak``: an hour of everything at once through one exchange; what grows is a fault.

    python -m benchmarks.soak --seconds 3600
    python -m benchmarks.soak --seconds 20 --grow     growth on purpose: it must be found, by exit code 1

Three processes: the exchange, one with all producers, one with all consumers.  Lanes run side by side, each round after
round: small and wide chunks, over gRPC, TCP and shared memory, fan-in with barriers, fan-out from a store on disk whose
ends come again and again, branches of stages, consumers that are slow or leave, lines that are cut.  Rows are numbered,
and each round is compared.  Exit code 1: something has grown, or a promise was broken.
"""

import argparse
import asyncio
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass, field
from datetime import date
from itertools import count
from pathlib import Path
from typing import Any

import psutil

from benchmarks.harness import CHECKOUT, Partner, PartnerFailedError
from benchmarks.soak.figures import FIGURES, MEBIBYTE, Course, found, growths, measured
from benchmarks.soak.plot import drawn
from benchmarks.soak.work import BARRIER_ROWS, WIDE, work
from permitflow import ChannelParameters, GateParameters
from permitflow.client import SameHost
from permitflow.exchange import Exchange, ExchangeServer, Retention, SqliteStore
from tests.support.cutting_proxy import Cut, Direction, cutting
from tools.reliability import Trial

ROW_PERMITS = 8_192
GATE = GateParameters(inputs=3, exclusive=500, floating=2_000)
LEAST_SAMPLES, MOST_SAMPLES = 20, 600
LEAST_SECONDS_BETWEEN = 0.25
RESUME_SECONDS = 60.0
ROUND_SECONDS = 120.0
"""A guard: by far the longest that a round takes."""
NETWORK: Mapping[str, Any] = {"same_host": SameHost.NEVER}
PICTURE = "soak.svg"


class Crew:
    """Another process, which carries out many orders at once."""

    def __init__(self, partner: Partner) -> None:
        self._partner, self._numbers = partner, count()
        self._answers: dict[int, asyncio.Future[tuple[int, Any]]] = {}
        self.rows = 0
        asyncio.get_running_loop().add_reader(partner.fileno(), self._hear)

    async def do(self, what: str, *arguments: object, **options: object) -> tuple[int, Any]:
        """Rows, and what was told; empty if all went well."""
        number = next(self._numbers)
        self._answers[number] = asyncio.get_running_loop().create_future()
        self._partner.tell((number, what, arguments, options))
        return await self._answers[number]

    def _hear(self) -> None:
        try:
            number, rows, told = self._partner.hears()
        except PartnerFailedError as error:  # else this would be called on and on
            self.close()
            for answer in self._answers.values():
                answer.set_exception(error)
            self._answers.clear()
            return
        self.rows += rows
        self._answers.pop(number).set_result((rows, told))

    def close(self) -> None:
        asyncio.get_running_loop().remove_reader(self._partner.fileno())


@dataclass
class Soak:
    """A run."""

    exchange: Exchange
    grpc: str
    tcp: str
    feeder: Crew
    taker: Crew
    rounds: Counter[str] = field(default_factory=Counter)
    told: Counter[str] = field(default_factory=Counter)
    """Typed errors, of lanes in which something breaks on purpose."""
    cuts: int = 0
    """The cuts of lines whose streams go on."""
    broken: list[str] = field(default_factory=list)
    is_over: bool = False
    """Lanes begin no round any more."""

    @asynccontextmanager
    async def channel(self, name: str, parameters: Any, **options: Any) -> AsyncIterator[None]:
        """A channel of one round; its bound is judged."""
        self.exchange.add_channel(name, parameters, **options)
        try:
            yield
        finally:
            (traffic,) = self.exchange.statistics([name])
            if (peak := traffic.peak_rows_held) > (parameters.window_rows or peak):
                self.broken.append(f"{name} held {peak} rows")
            await self.exchange.remove_channel(name)

    async def both(self, feeding: Awaitable[tuple[int, Any]], *taking: Awaitable[tuple[int, Any]]) -> None:
        """All rows must come, to each who takes them."""
        (given, told), *taken = await asyncio.gather(feeding, *taking)
        wrong = [text for text in (told, *(text for _, text in taken)) if text]
        wrong += [f"{rows:,} rows of {given:,} came" for rows, text in taken if not text and rows != given]
        self.broken += wrong

    async def torn(self, feeding: Awaitable[tuple[int, Any]], taking: Awaitable[tuple[int, Any]]) -> None:
        """Something breaks on purpose: both hear of it by typed errors."""
        for _, told in await asyncio.gather(feeding, taking):
            if told.startswith("failed by"):
                self.broken.append(told)
            elif told:
                self.told[told.partition(":")[0]] += 1

    def feed(self, address: str, name: str, rows: int, chunk_rows: int, **options: Any) -> Awaitable[tuple[int, Any]]:
        is_wide = options.pop("is_wide", False)
        options = options or dict(NETWORK)
        return self.feeder.do("feed", address, name, rows, chunk_rows, is_wide=is_wide, options=options)

    def take(
        self, address: str, name: str, pause_seconds: float = 0.0, leaves_after: int = 0, **options: Any
    ) -> Awaitable[tuple[int, Any]]:
        return self.taker.do("take", address, name, pause_seconds, leaves_after, options=options or dict(NETWORK))


PERMITS = ChannelParameters(row_permits=ROW_PERMITS)


async def small_chunks(soak: Soak, name: str) -> None:
    """Over gRPC."""
    async with soak.channel(name, PERMITS):
        await soak.both(soak.feed(soak.grpc, name, 4_000, 4), soak.take(soak.grpc, name))


async def wide_chunks(soak: Soak, name: str) -> None:
    """Over TCP, half a MiB each."""
    async with soak.channel(name, PERMITS, schema=WIDE):
        await soak.both(soak.feed(soak.tcp, name, 40_000, 1_000, is_wide=True), soak.take(soak.tcp, name))


async def shared_memory(soak: Soak, name: str) -> None:
    """What clients of the same host agree on."""
    options: Mapping[str, Any] = {"same_host": SameHost.REQUIRE}
    async with soak.channel(name, PERMITS):
        await soak.both(soak.feed(soak.grpc, name, 40_000, 1_000, **options), soak.take(soak.grpc, name, **options))


async def slow_consumers(soak: Soak, name: str) -> None:
    """The producer waits most of the time."""
    async with soak.channel(name, ChannelParameters(row_permits=64, permit_batch=8)):
        await soak.both(soak.feed(soak.tcp, name, 1_000, 8), soak.take(soak.tcp, name, 0.01))


async def fan_in(soak: Soak, name: str) -> None:
    """Three producers with barriers, one gate."""
    names = [f"{name}/{number}" for number in range(GATE.inputs)]
    rows = 10 * BARRIER_ROWS
    for each in names:
        soak.exchange.add_channel(each, GATE)
    feeding = [soak.feeder.do("feed_with_barriers", soak.tcp, each, rows, options=NETWORK) for each in names]
    (taken, told), *fed = await asyncio.gather(
        soak.taker.do("take_gate", soak.tcp, names, GATE, options=NETWORK), *feeding
    )
    for each in names:
        await soak.exchange.remove_channel(each)
    soak.broken += [text for text in (told, *(text for _, text in fed)) if text]
    if not told and taken != len(names) * rows:
        soak.broken.append(f"{taken:,} rows of {len(names) * rows:,} came to the gate")


KEPT = "kept"
READERS = ("first", "second")


async def fan_out(soak: Soak, _: str) -> None:
    """One channel that keeps its rows on disk, two consumers; all ends come again in each round."""
    rows = 4_000
    taking = [soak.taker.do("take_kept", soak.grpc, KEPT, reader, rows, options=NETWORK) for reader in READERS]
    await soak.both(soak.feed(soak.grpc, KEPT, rows, 100, producer="maker", **NETWORK), *taking)


async def branches(soak: Soak, name: str) -> None:
    """Three branches of stages that are joined again."""
    async with soak.channel(name, PERMITS):
        taking = soak.taker.do("take_by_stages", soak.grpc, name, options=NETWORK)
        await soak.both(soak.feed(soak.grpc, name, 10_000, 50), taking)


async def consumers_that_leave(soak: Soak, name: str) -> None:
    """In the middle: the producer hears of it."""
    async with soak.channel(name, PERMITS):
        await soak.torn(soak.feed(soak.grpc, name, 20_000, 50), soak.take(soak.grpc, name, 0.0, 5_000))


async def cut_lines(soak: Soak, name: str) -> None:
    """The producer's, over TCP: both hear of it."""
    async with soak.channel(name, PERMITS), cutting(soak.tcp, [Cut(100_000)]) as line:
        await soak.torn(soak.feed(line.address, name, 20_000, 50), soak.take(soak.tcp, name))


async def resumed_lines(soak: Soak, name: str) -> None:
    """Both are cut, over gRPC and TCP in turn, and both ends go on."""
    address = soak.tcp if int(name.rpartition("/")[2]) % 2 else soak.grpc
    going_on = {**NETWORK, "resume_seconds": RESUME_SECONDS}
    cuts = [Cut(50_000), Cut(100_000), Cut(50_000, Direction.DOWN)]
    async with soak.channel(name, PERMITS), cutting(address, cuts) as up, cutting(address, cuts) as down:
        await soak.both(soak.feed(up.address, name, 20_000, 50, **going_on), soak.take(down.address, name, **going_on))
        soak.cuts += up.cuts + down.cuts


LANES: Mapping[str, Callable[[Soak, str], Awaitable[None]]] = {
    each.__name__.replace("_", " "): each
    for each in (
        *(small_chunks, wide_chunks, shared_memory, slow_consumers, fan_in, fan_out, branches),
        *(consumers_that_leave, cut_lines, resumed_lines),
    )
}


async def lane(soak: Soak, name: str) -> None:
    """Round after round."""
    for number in count():
        if soak.is_over:
            return
        async with asyncio.timeout(ROUND_SECONDS):
            await LANES[name](soak, f"{name}/{number}")
        soak.rounds[name] += 1


@dataclass
class Results:
    """The results of a run."""

    seconds: float
    courses: dict[str, Course]
    pace: Course
    """Rows a second, since the look before."""
    rounds: Counter[str]
    told: Counter[str]
    cuts: int
    rows: int
    broken: Sequence[str]

    def faults(self) -> Iterator[str]:
        yield from self.broken
        yield from found(self.courses, self.pace)


async def run(seconds: float, *, grows: bool, folder: Path) -> Results:
    """Let all lanes run for so long, and look at the processes meanwhile."""
    store = SqliteStore(folder)
    try:
        exchange = Exchange(store=store)
        keeping = ChannelParameters(row_permits=32_768)
        exchange.add_channel(KEPT, keeping, retention=Retention.REPLAY, consumers=READERS)
        async with (
            ExchangeServer(exchange, "127.0.0.1:0") as grpc,
            ExchangeServer(exchange, "tcp://127.0.0.1:0") as tcp,
        ):
            with ExitStack() as stack:
                feeder, taker = (Crew(stack.enter_context(Partner(work, is_grown))) for is_grown in (False, grows))
                soak = Soak(exchange, grpc.address, tcp.address, feeder, taker)
                results = await _watched(soak, seconds, folder)
                feeder.close()
                taker.close()
        return results
    finally:
        store.close()


def stored_bytes(folder: Path) -> int:
    """The size of the store."""
    return sum(path.stat().st_size for path in folder.iterdir())


async def _watched(soak: Soak, seconds: float, folder: Path) -> Results:
    me = psutil.Process()
    await asyncio.gather(soak.feeder.do("measure"), soak.taker.do("measure"))  # they are there
    began = time.monotonic()
    between = max(LEAST_SECONDS_BETWEEN, seconds / MOST_SAMPLES)
    courses = {name: Course() for name in ("the exchange", "the producers", "the consumers")}
    pace, rows_before, before = Course(), 0, 0.0
    async with asyncio.TaskGroup() as group:
        for name in LANES:
            group.create_task(lane(soak, name))
        while not soak.is_over:
            await asyncio.sleep(between)
            (_, feeding), (_, taking) = await asyncio.gather(soak.feeder.do("measure"), soak.taker.do("measure"))
            at = time.monotonic() - began
            own = measured(me) | {"store": stored_bytes(folder) / MEBIBYTE}
            for course, figures in zip(courses.values(), (own, feeding, taking), strict=True):
                course.add(at, figures)
            pace.add(at, {"rows": (soak.taker.rows - rows_before) / (at - before)})
            rows_before, before = soak.taker.rows, at
            # What comes afterwards, while the lanes run out, is not judged.
            soak.is_over = bool(soak.broken) or (at >= seconds and len(pace.at) >= LEAST_SAMPLES)
    return Results(
        seconds=time.monotonic() - began,
        courses=courses,
        pace=pace,
        rounds=soak.rounds,
        told=soak.told,
        cuts=soak.cuts,
        rows=soak.taker.rows,
        broken=soak.broken,
    )


def told(results: Results) -> Iterator[str]:
    """For people."""
    yield f"{results.rounds.total():,} rounds with {results.rows:,} rows in {results.seconds:,.0f} s"
    for name, rounds in results.rounds.items():
        yield f"  {name:<24}{rounds:>8,}"
    yield f"  cuts that were outlived {results.cuts:>8,}"
    for name, often in results.told.items():
        yield f"  told {name:<19}{often:>8,}"
    for process, name, begin, end, growth, limit in growths(results.courses):
        unit = FIGURES[name].unit or name
        yield f"  {process:<16}{name:<12}{begin:>10,.1f} to {end:>10,.1f} {unit}: {growth:+,.1f}, at most {limit:g}"
    yield from [*results.faults()] or ["nothing grows"]


def trial(results: Results, asked_seconds: float) -> Trial:
    """For docs/reliability.md."""
    minutes = f"{results.seconds / 60:.0f} minutes"
    rounds = "; ".join(f"{name}: {often:,}" for name, often in results.rounds.items())
    return Trial(
        name="soak",
        title="Soak",
        told=f"One exchange under everything at once for {minutes}: {results.rows:,} rows in rounds of many kinds "
        f"({rounds}); {results.cuts:,} cuts were outlived. The growth is a slope that three quarters of those between "
        "any two looks exceed, times the time; the first third does not count. What may grow is what the last pools "
        "and buffers take.",
        command=f".venv/bin/nox -s soak -- --seconds {asked_seconds:.0f}",
        date=f"{date.today()}",
        seconds=round(results.seconds),
        tried=results.rounds.total(),
        broken=len([*results.faults()]),
        columns=("process", "figure", "unit", "at first", "at last", "growth", "may grow"),
        rows=[
            (process, name, FIGURES[name].unit, *(round(number, 1) for number in numbers))
            for process, name, *numbers in growths(results.courses)
        ],
        promises=(
            "Memory, descriptors, tasks, threads and objects do not grow with time",
            "Who comes to the end of a stream has all of its rows",
            "Nowhere are more rows at once than there are permits",
        ),
        picture=PICTURE,
    )


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=3_600.0, help="how long (default: an hour)")
    parser.add_argument("--grow", action="store_true", help="let a process grow on purpose")
    parser.add_argument("--picture", type=Path, default=CHECKOUT / "build/soak" / PICTURE, help="where the plot goes")
    parser.add_argument("--keep", action="store_true", help="results and plot, for docs/reliability.md")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="permitflow-soak-") as folder:
        results = asyncio.run(run(options.seconds, grows=options.grow, folder=Path(folder)))
    print("\n".join(told(results)))
    picture = CHECKOUT / "docs/pictures" / PICTURE if options.keep else options.picture
    drawn(results.courses, results.pace, picture)
    print(f"plot: {picture}")
    if options.keep:
        trial(results, options.seconds).keep()
    return int(any(results.faults()))


if __name__ == "__main__":
    sys.exit(main())

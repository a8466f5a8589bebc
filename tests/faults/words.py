"""A word count whose processes are muted, over plain TCP: a sender, two workers of ``permitflow.mute``, and a reader.

The workers are the package's own program.  The reader connects to the second one, and again whenever it is hung up on.
"""

import asyncio
import json
import os
import sys
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from examples.child_process import run_process
from examples.wordcount.outside import CountReader, WordSender
from examples.wordcount.worker import main
from permitflow.mute import Buffers
from tests.faults.parties import DISK, Journal
from tests.faults.schedules import Party, Schedule

BUFFERS = Buffers(receive_bytes=32_768, send_bytes=32_768)
DIFFERENT_WORDS = 17
WORDS_TOLD = 64
"""At once, in the journal of the sender."""
LOOKING_SECONDS = 0.05
VISITING_SECONDS = 0.2
QUIET_SECONDS = 8.0
"""After the end of a sender whose words may be lost, for so long no count comes; then none will."""
ANYWHERE = "127.0.0.1:0"


def word(number: int) -> bytes:
    """With the end of its line, as long as a row."""
    return b"%023d" % (number % DIFFERENT_WORDS)


def all_counts(words: int) -> Counter[bytes]:
    return Counter(word(number) for number in range(words))


class Sender:
    party = Party.SENDER

    def __init__(self, schedule: Schedule, port: int, journal: Journal) -> None:
        self.schedule, self.port, self.journal = schedule, port, journal

    def words(self) -> Iterator[bytes]:
        for number in range(self.schedule.rows):
            if number % WORDS_TOLD == 0:
                self.journal.gave(min(WORDS_TOLD, self.schedule.rows - number))
            yield word(number)

    async def play(self) -> None:
        sender = WordSender(self.words(), BUFFERS)
        await sender.connect(("127.0.0.1", self.port))
        await sender.ended.wait()
        if sender.failure is None:
            self.journal.ended("sent")
        else:
            self.journal.tell("lost", message=str(sender.failure))
        self.journal.tell("over")


class Reader:
    party = Party.READER

    def __init__(self, schedule: Schedule, port: int, journal: Journal) -> None:
        self.schedule, self.port, self.journal = schedule, port, journal

    async def visit(self, reader: CountReader) -> None:
        while True:
            with suppress(OSError):
                await reader.visit(("127.0.0.1", self.port))
                await reader.ended.wait()
            await asyncio.sleep(VISITING_SECONDS)

    async def play(self) -> None:
        """Read until all counts are here; or, if some may be lost, until no more come."""
        reader, expected, counted = CountReader(BUFFERS), all_counts(self.schedule.rows), 0
        visiting = asyncio.create_task(self.visit(reader))
        reader.stand_still()
        await asyncio.sleep(self.schedule.consumer.idle_seconds)
        reader.go_on()
        while reader.counts != expected and self.journal.has_patience:
            await asyncio.sleep(LOOKING_SECONDS)
            if (now := reader.counts.total()) > counted:
                counted, self.journal.last_progress = now, time.monotonic()
                self.journal.tell("counted", rows=now)
            elif not self.schedule.can_go_on and self.is_quiet():
                break
        more = reader.counts - expected
        parts = sum(count for found, count in more.items() if found not in expected)
        self.journal.tell("counts", rows=reader.counts.total(), more=more.total() - parts, parts=parts)
        if reader.counts == expected:
            self.journal.tell("over")
        visiting.cancel()
        reader.close()

    def is_quiet(self) -> bool:
        path = self.journal.path.with_name(f"{Party.SENDER}.journal")
        is_over = path.exists() and '"over"' in path.read_text()
        return is_over and time.monotonic() - self.journal.last_progress > QUIET_SECONDS


def serve_worker(
    party: Party, schedule: Schedule, addresses: Mapping[str, str], folder: Path, ports: Mapping[Party, int]
) -> None:
    """A worker, at its addresses if it has been there before."""
    parts: dict[Party, dict[str, object]] = {
        Party.FRONT: {
            "listen": addresses.get("listen", ANYWHERE),
            "next_worker": f"127.0.0.1:{ports.get(Party.FRONT, 0)}",
        },
        Party.BACK: {
            "inlet": addresses.get("inlet", ANYWHERE),
            "listening_sinks": [addresses.get("out0", ANYWHERE)],
            "saved": str(folder / DISK / "counts.json"),
        },
    }
    common = {"receive_bytes": BUFFERS.receive_bytes, "send_bytes": BUFFERS.send_bytes, "read_bytes": 4_096}
    name = f"{party}#{os.getpid()}"
    sys.argv = ["worker", json.dumps({"name": name, **common, **parts[party]})]
    run_process(main())

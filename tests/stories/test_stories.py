"""Stories: scripts of commands and of what is then to be seen, for readers who do not program.

A story is a text file.  Lines that begin with # explain.  Then, again and again: commands, one per line, then a line
of four dashes, then what happens, then an empty line.  Actions are spelt as in the specification.
"""

import asyncio
import difflib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from permitflow import (
    ChannelParameters,
    LocalReceiver,
    LocalSender,
    Message,
    Oversize,
    PermitflowError,
    Permits,
    open_channel,
)
from permitflow.protocol.recording import ActionTable, End, ParameterValue, Recorder

STORIES = sorted(Path(__file__).parent.glob("*.txt"))
# Every task of a story waits or is done after fewer turns of the loop.
TURNS = 20
NUMBERS = ("row_permits", "permit_batch", "max_chunk_cost", "barrier_permits")


@dataclass(frozen=True)
class Step:
    """Commands that are given at once, and what is to be seen then."""

    line: int
    commands: list[str]
    expected: list[str]


def steps_of(story: str) -> Iterator[Step]:
    for line, block in blocks_of(story):
        commands, dashes, expected = (part.strip("\n") for part in block.partition("----"))
        assert dashes, f"line {line}: no line of dashes after the commands"
        yield Step(line, commands.splitlines(), expected.splitlines())


def blocks_of(story: str) -> Iterator[tuple[int, str]]:
    block: list[str] = []
    for number, line in enumerate([*story.splitlines(), ""], start=1):
        if line.strip() and not line.startswith("#"):
            block.append(line)
        elif block:
            yield number - len(block), "\n".join(block)
            block = []


class Stage:
    """A channel and the tasks that send on it."""

    def __init__(self) -> None:
        self._seen: list[str] = []
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._sender: LocalSender[object]
        self._receiver: LocalReceiver[object]

    async def play(self, commands: list[str]) -> list[str]:
        """Give the commands, let everybody act, and say what was seen."""
        for command in commands:
            verb, *arguments = command.split()
            try:
                getattr(self, f"do_{verb}")(*arguments)
            except PermitflowError as error:
                self._seen.append(f"{type(error).__name__}: {error}")
            await self._settle()
        for name, task in self._tasks.items():
            if not task.done():
                self._seen.append(f"{name} waits")
        seen, self._seen = self._seen, []
        return seen

    async def close(self) -> None:
        for task in self._tasks.values():
            task.cancel()
        await self._settle()

    async def _settle(self) -> None:
        for _ in range(TURNS):
            await asyncio.sleep(0)
        for name in [name for name, task in self._tasks.items() if task.done()]:
            self._seen.append(f"{name} {outcome(self._tasks.pop(name))}")

    def _recorder(
        self, channel: str, end: End, table: ActionTable, parameters: Mapping[str, ParameterValue]
    ) -> Recorder:
        def record(action: str, arguments: tuple[int, ...], counters: tuple[int, ...]) -> None:
            classes = [f"{count} {name}" for name, count in zip(Permits._fields, arguments[1:], strict=True) if count]
            self._seen.append(f"  {action} {' '.join(classes)}")

        return record

    # The commands.

    def do_open(self, *settings: str) -> None:
        given = dict(setting.split("=") for setting in settings)
        oversize = Oversize(given.pop("oversize", "split"))
        assert set(given) <= set(NUMBERS), f"unknown settings {set(given) - set(NUMBERS)}"
        numbers = {name: int(value) for name, value in given.items()}
        parameters = ChannelParameters(**numbers, oversize=oversize)
        self._sender, self._receiver = open_channel(parameters, name="story", record=self._recorder)

    def do_send(self, name: str, rows: str) -> None:
        chunk = [name] * int(rows)
        self._tasks[name] = asyncio.ensure_future(self._sender.send(chunk))

    def do_barrier(self, name: str) -> None:
        self._tasks[name] = asyncio.ensure_future(self._sender.send_barrier(name))

    def do_watermark(self, value: str) -> None:
        self._sender.send_watermark(value)

    def do_cancel(self, name: str) -> None:
        self._tasks[name].cancel()

    def do_receive(self, count: str = "1") -> None:
        for _ in range(int(count)):
            self._seen.append(f"received {described(self._receiver.receive_nowait())}")

    def do_take(self) -> None:
        self._seen.append(f"took {described(self._receiver.take_nowait())}")

    def do_consume(self) -> None:
        self._receiver.consume()

    def do_end(self) -> None:
        self._sender.end_nowait()

    def do_abort(self, *reason: str) -> None:
        self._sender.abort(" ".join(reason))

    def do_close(self, end: str) -> None:
        assert end in {"sender", "receiver"}
        self._sender.close() if end == "sender" else self._receiver.close()

    def do_ledger(self) -> None:
        now = self._sender.statistics()
        permits, inbox, unreturned = now.gauges["row_permits_here"], now.inbox_rows, now.gauges["unreturned_permits"]
        total = permits + inbox + unreturned
        self._seen.append(f"permits {permits} + inbox {inbox} + unreturned {unreturned} = {total}")


def described(message: Message[object]) -> str:
    payload = message.payload
    name = (payload[0] if payload else "nothing") if isinstance(payload, list) else payload
    return f"{message.kind.value} {name}" + (f" of {message.rows} rows" if isinstance(payload, list) else "")


def outcome(task: asyncio.Task[None]) -> str:
    if task.cancelled():
        return "was cancelled"
    error = task.exception()
    if error is None:
        return "was sent"
    assert isinstance(error, PermitflowError), error
    back = error.facts["undelivered"]
    returned = f"{len(back)} rows" if isinstance(back, list) else back
    return f"got {returned} back, {type(error).__name__}: {error}"


async def differences(story: str) -> list[str]:
    """Where the channel does something else than the story says."""
    stage, found = Stage(), []
    for step in steps_of(story):
        seen = await stage.play(step.commands)
        if seen != step.expected:
            found.append(f"line {step.line}: {'; '.join(step.commands)}")
            found += difflib.unified_diff(step.expected, seen, "the story", "the channel", lineterm="", n=99)
    await stage.close()
    return found


@pytest.mark.parametrize("path", STORIES, ids=[path.stem for path in STORIES])
def test_the_channel_does_what_the_story_says(path: Path, run: asyncio.Runner) -> None:
    found = run.run(differences(path.read_text()))

    assert not found, "\n".join([path.name, *found])


def test_there_are_stories_and_each_of_them_explains_and_shows() -> None:
    assert len(STORIES) >= 3
    for path in STORIES:
        story = path.read_text()
        assert story.startswith("#"), path.name
        assert len(list(steps_of(story))) >= 5, path.name


def test_a_story_that_is_not_true_is_found_out(run: asyncio.Runner) -> None:
    story = (Path(__file__).parent / "full_window.txt").read_text()
    wrong = story.replace("permits 2 + inbox 6 + unreturned 0 = 8", "permits 3 + inbox 6 + unreturned 0 = 9")
    assert wrong != story

    found = run.run(differences(wrong))

    assert found[0].endswith("ledger")
    assert "-permits 3 + inbox 6 + unreturned 0 = 9" in found
    assert "+permits 2 + inbox 6 + unreturned 0 = 8" in found

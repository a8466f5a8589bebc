"""The local channel follows the model through runs that Hypothesis draws, with a recorder and without one."""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace

from hypothesis import settings
from hypothesis.stateful import run_state_machine_as_test

from permitflow.channels.interface import ReceiveEnd, SendEnd
from permitflow.channels.local import open_channel
from permitflow.errors import PermitflowError
from permitflow.protocol.messages import Message
from permitflow.protocol.permits import ChannelParameters
from permitflow.protocol.recording import RecorderFactory
from permitflow.testing.moves import Divergence, Move
from tests.support.led_channels import Application, ChannelMachine, ChannelUnderTest, Task, machine_for

# A channel inside a process does what it has to do within a few turns of the loop.
TURNS = 30


async def rehearse(
    kind: ChannelUnderTest, parameters: ChannelParameters, runs: Sequence[tuple[Sequence[Move], bool]]
) -> list[object]:
    """Make moves on a recorded and on an unrecorded channel, and compare all that the application sees.

    ``runs`` are moves that are made at once, and whether the channel then gets time to do what follows.

    Returns what it sees: refusals, tasks that wait, messages, statistics.  Only for channels that need nothing but
    the event loop.

    Raises:
        Divergence: the two differ.
    """
    recorded = await _seen(kind, parameters, runs, is_recorded=True)
    unrecorded = await _seen(kind, parameters, runs, is_recorded=False)
    for at, (one, other) in enumerate(zip(recorded, unrecorded, strict=True)):
        if one != other:
            raise Divergence(f"after {runs[: at + 1]}: recorded {one}, unrecorded {other}")
    return unrecorded


async def _seen(
    kind: ChannelUnderTest,
    parameters: ChannelParameters,
    runs: Sequence[tuple[Sequence[Move], bool]],
    *,
    is_recorded: bool,
) -> list[object]:
    record = (lambda *facts: lambda action, arguments, counters: None) if is_recorded else None
    async with kind.open(parameters, record) as ends:
        app = Application(kind, ends)
        seen = [await _outcome(app, moves, pause=pause) for moves, pause in runs]
        app.cancel_all()
        await _turn()
        return seen


async def _outcome(app: Application, moves: Sequence[Move], *, pause: bool) -> object:
    refusals: list[str] = []
    for move in moves:
        try:
            app.perform(move)
        except PermitflowError as error:
            refusals.append(f"{move!r}: {error}")
    if not pause:
        await asyncio.sleep(0)
        return refusals
    await _turn()
    numbers = [replace(end.statistics(), waiting_seconds=0.0, open_seconds=0.0) for end in (app.sender, app.receiver)]
    tasks = [_states(several) for several in (app.chunks, app.barriers, app.receives)]
    return refusals, tasks, [_values(message) for message in app.received], numbers


def _states(tasks: list[Task]) -> list[str]:
    # In another rhythm than the run that was led, a task may also end with a refusal.
    outcomes = [
        "cancelled" if task.cancelled() else repr(task.exception()) if task.done() else "waits" for task in tasks
    ]
    tasks[:] = [task for task in tasks if not task.done()]
    return outcomes


async def _turn() -> None:
    for _ in range(TURNS):
        await asyncio.sleep(0)


def _values(message: Message[object]) -> tuple[object, ...]:
    return message.kind, message.payload, message.rows


class Local:
    """Channels inside this process."""

    timeout_seconds = 0.2

    @asynccontextmanager
    async def open(
        self, parameters: ChannelParameters, record: RecorderFactory | None
    ) -> AsyncIterator[tuple[SendEnd[object], ReceiveEnd[object]]]:
        yield open_channel(parameters, name="local", record=record)

    def streams(self, sender: SendEnd[object], receiver: ReceiveEnd[object]) -> Sequence[str]:
        return ("local",)

    def chunk(self, serial: int, rows: int) -> object:
        return serial

    def serial(self, message: Message[object]) -> int | None:
        assert isinstance(message.payload, int)
        return message.payload


class WatchedAndUnwatched(ChannelMachine):
    """Makes each run once more without a recorder: the channel takes shorter ways then."""

    def teardown(self) -> None:
        super().teardown()
        if self.run is not None and self.run.is_healthy:
            self.runner.run(rehearse(self.kind, self.run.agreed, self.run.made))


def test_the_local_channel_follows_the_model_watched_or_not(run: asyncio.Runner) -> None:
    machine = machine_for(Local(), run, base=WatchedAndUnwatched)

    run_state_machine_as_test(machine, settings=settings(stateful_step_count=50))

"""Follows running channels: every action is checked against the model at the moment at which it is recorded.

Two things are asked of a channel that nobody moves by hand.  Whatever it does must be a step of the model; and
whatever it has promised to do without being asked, it must do: as long as a step of the protocol is possible, the
channel is not *quiet*.  A lost wake-up is a channel that stays unquiet."""

import asyncio
from collections.abc import Callable, Sequence

from permitflow.protocol.messages import Permits
from permitflow.protocol.parameters import ChannelParameters
from permitflow.protocol.recording import Counters, End, Recorder
from permitflow.testing.moves import Divergence
from permitflow.testing.traces import UNLIMITED, model_of
from permitflow.tracing.events import Event
from permitflow.tracing.file import MemoryTrace
from permitflow_model.kernel.replay import Refused, Starved
from permitflow_model.permit_channel import SYSTEM, State
from permitflow_model.permit_channel_trace import PermitChannelReplay
from permitflow_model.permit_channel_world import World

__all__ = ["Following", "Hop"]

# The application decides when to consume; everything else a channel does by itself.
BY_ITSELF = tuple(action.name for action in SYSTEM.actions if not action.is_environment and action.name != "Consume")


class Hop:
    """The model of one stream, always where the stream is."""

    def __init__(self, parameters: ChannelParameters) -> None:
        """Start at rest."""
        largest = 10 * parameters.row_permits
        self._replay = PermitChannelReplay(model_of(parameters, sizes=(largest,), waiters=UNLIMITED))
        self.worlds: Sequence[World] = (self._replay.start(),)
        self.sent_rows: list[int] = []
        """Rows of the chunks that have left, in order."""
        self.consumed_rows: list[int] = []
        self.least_row_permits = parameters.row_permits
        self.peak_inbox_rows = 0

    @property
    def state(self) -> State:
        """Where the stream is; where several states explain what was recorded, one of them."""
        return self.worlds[0].state

    def follow(self, event: Event) -> None:
        """Make the steps that the event stands for.

        Raises:
            Refused, Starved: there are none.
        """
        self.worlds = [after for world in self.worlds for after in self._performed(world, event)]
        if not self.worlds:
            raise Refused("none of the states in which the channel may be allows it")
        for world in self.worlds:
            if broken := self._replay.broken(world):
                raise Refused(f"it breaks {', '.join(broken)}")
        if event.action == "SendChunk":
            self.sent_rows.append(event.rows)
        if event.action == "Consume" and event.permits.rows:
            self.consumed_rows.append(event.rows)
        self.least_row_permits = min(self.least_row_permits, self.state.permits.rows)
        self.peak_inbox_rows = max(self.peak_inbox_rows, sum(message.rows for message in self.state.inbox))

    def _performed(self, world: World, event: Event) -> Sequence[World]:
        try:
            return self._replay.perform(world, event)
        except Refused:
            if len(self.worlds) == 1:
                raise
            return ()

    def is_quiet(self) -> bool:
        """Can the protocol do nothing more by itself?"""
        return any(
            not any(SYSTEM.is_enabled(name, world.state, self._replay.parameters) for name in BY_ITSELF)
            for world in self.worlds
        )

    def is_at_rest(self) -> bool:
        """Is nothing in the channel, are all permits at the sender?"""
        return any(self._replay.is_at_rest(world) for world in self.worlds)

    def barriers_waiting(self) -> int:
        """Barriers that wait for a permit."""
        return int(self.state.barrier_waiting) + self.worlds[0].barriers_in_hand

    def allowed(self) -> str:
        """What the protocol may do next, in words."""
        return "; ".join(self._replay.allowed(self.worlds[0])) or "nothing"


class Following:
    """All streams of a run in this process; ``recorder`` is the factory to give to whatever is tested."""

    def __init__(self) -> None:
        """Nothing has been recorded."""
        self.hops: dict[str, Hop] = {}
        self.trace = MemoryTrace()
        self.failure: Divergence | None = None
        self.changed = asyncio.Event()
        """Set whenever something was recorded."""
        self.listeners: list[Callable[[Event], None]] = []

    def recorder(self, channel: str, end: End, parameters: ChannelParameters) -> Recorder:
        """Record, and follow."""
        keep = self.trace.recorder(channel, end, parameters)
        hop = self.hops.setdefault(channel, Hop(parameters))

        def record(action: str, rows: int, permits: Permits, counters: Counters | None = None) -> None:
            keep(action, rows, permits, counters)
            event = self.trace.events[-1]
            if self.failure is None:
                self._follow(hop, event)
            for listener in self.listeners:
                listener(event)
            self.changed.set()

        return record

    def _follow(self, hop: Hop, event: Event) -> None:
        before = hop.state
        try:
            hop.follow(event)
        except (Refused, Starved) as reason:
            self.fail(f"{event} is not a step of the model in {before}: {reason}")

    def fail(self, reason: str) -> None:
        """Note the first thing that went wrong: a recorder must not raise, whoever leads the run asks."""
        self.failure = self.failure or Divergence(reason)

    def check(self) -> None:
        """Insist that everything so far was a step of the model.

        Raises:
            Divergence: something was not.
        """
        if self.failure is not None:
            raise self.failure

    async def until(self, is_reached: Callable[[], bool], *, timeout_seconds: float, what: str) -> None:
        """Wait until the channels have come somewhere by themselves.

        Raises:
            Divergence: they do something that the model does not, or stop before.
        """
        try:
            async with asyncio.timeout(timeout_seconds):
                while not is_reached():
                    self.check()
                    self.changed.clear()
                    await self.changed.wait()
        except TimeoutError:
            if await _after_all(is_reached):
                return
            could = "; ".join(f"{name!r} could do {hop.allowed()}" for name, hop in self.hops.items())
            raise Divergence(f"nothing happens any more, but {what}; {could}") from None
        self.check()


async def _after_all(is_reached: Callable[[], bool]) -> bool:
    # If the machine stood still, the time-out came before what was ready all the time.
    for _ in range(100):
        await asyncio.sleep(0)
    return is_reached()

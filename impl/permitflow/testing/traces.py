"""Judges recorded runs: is this a behaviour of the specification?"""

from collections import Counter
from collections.abc import Sequence

from permitflow.protocol.parameters import ChannelParameters, Oversize
from permitflow.protocol.recording import End
from permitflow.testing.verdicts import Peaks, Verdict
from permitflow.tracing.events import Event
from permitflow.tracing.reader import ChannelTrace, Trace
from permitflow_model.kernel.replay import replay
from permitflow_model.permit_channel import Parameters, row_bound_of, rows_in
from permitflow_model.permit_channel_one_end import ReceiverAlone, SenderAlone
from permitflow_model.permit_channel_trace import PermitChannelReplay
from permitflow_model.permit_channel_world import World

__all__ = ["UNLIMITED", "Verdict", "judge", "judge_all", "largest_rows", "model_of"]

UNLIMITED = 2**62
"""Chunks that may wait at once in a real run."""

_ONE_END: dict[frozenset[End], type[PermitChannelReplay]] = {
    frozenset({"sender"}): SenderAlone,
    frozenset({"receiver"}): ReceiverAlone,
}


def model_of(
    agreed: ChannelParameters, *, sizes: tuple[int, ...] = (), waiters: int = 1, numbered: bool = False
) -> Parameters:
    """The specification's constants for these parameters, with bounds for exploring and leading.

    Only an anonymous run (not ``numbered``) may have ``UNLIMITED`` waiters.
    """
    return Parameters(
        row_count=agreed.row_permits,
        batch=agreed.permit_batch,
        clamp=agreed.max_chunk_cost,
        sizes=sizes,
        barrier_permits=agreed.barrier_permits,
        watermarks=True,
        flush_idle=True,
        withdrawals=True,
        waiters=waiters,
        tags=agreed.row_permits + waiters + 1 if numbered else 1,
    )


def judge(channel: ChannelTrace, *, by_end: bool = False, keep_path: bool = False) -> Verdict:
    """Replay what was recorded of one channel.

    Where one process recorded both ends, the order in which it did so counts: a permit that comes back before its
    chunk was consumed is found out at once.  With ``by_end`` each end's own order is all that counts, as it is
    anyway where two processes recorded.  Of an end that was not recorded, the model plays the part.
    """
    logs = channel.logs_by_end if by_end else channel.logs
    parameters = model_of(channel.parameters, sizes=(largest_rows(channel),), waiters=UNLIMITED)
    interpretation = _ONE_END.get(channel.ends, PermitChannelReplay)(parameters, keep_path=keep_path)
    watched = _Watched(interpretation)
    outcome = replay(watched, interpretation.start(), logs)
    actions = Counter(event.action for log in logs for event in log)
    return Verdict(
        channel=channel.channel,
        replay=outcome,
        left_over=sum(map(len, logs)) - outcome.performed - len(outcome.blocked),
        is_at_rest=any(interpretation.is_at_rest(world) for world in outcome.worlds),
        allowed=tuple(interpretation.allowed(outcome.worlds[0])),
        peaks=watched.peaks(),
        ends=channel.ends,
        cut_ends=channel.cut_ends,
        logs=len(logs),
        actions=actions,
        rows=_rows_of("Consume" if "receiver" in channel.ends else "SendChunk", logs),
    )


def judge_all(trace: Trace, *, by_end: bool = False) -> list[Verdict]:
    """Replay every channel of a recording."""
    return [judge(channel, by_end=by_end) for channel in trace.channels.values()]


class _Watched:
    """An interpretation that remembers how much was where."""

    def __init__(self, interpretation: PermitChannelReplay) -> None:
        self.perform = interpretation.perform
        self._broken = interpretation.broken
        self._parameters = interpretation.parameters
        self._least_permits = self._parameters.row_count
        self._inbox_rows = 0

    def broken(self, world: World) -> list[str]:
        """The names of the invariants that do not hold; asked once after every event."""
        self._least_permits = min(self._least_permits, world.state.permits.rows)
        self._inbox_rows = max(self._inbox_rows, rows_in(world.state.inbox))
        return self._broken(world)

    def peaks(self) -> Peaks:
        """The most that was ever there."""
        of = self._parameters
        return Peaks(
            row_permits=of.row_count,
            row_bound=row_bound_of(of.row_count, of.clamp, max(of.sizes)),
            row_permits_in_use=of.row_count - self._least_permits,
            inbox_rows=self._inbox_rows,
        )


def _rows_of(action: str, logs: Sequence[Sequence[Event]]) -> int:
    return sum(event.rows for log in logs for event in log if event.action == action)


def largest_rows(channel: ChannelTrace) -> int:
    """Rows of the largest chunk that the channel may have carried."""
    if channel.parameters.oversize is Oversize.SPLIT:
        return channel.parameters.max_chunk_cost
    return max((event.rows for log in channel.logs for event in log), default=0)

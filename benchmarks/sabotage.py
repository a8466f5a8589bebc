"""Receivers that return permits wrongly, each in a way that its own ledger does not show.

Each replaces the real receiver in the whole process, until it ends.
"""

from collections.abc import Callable, Iterable, Sequence
from itertools import count, pairwise

from permitflow import Permits
from permitflow.flows.permits.core import PermitReceiver
from permitflow.flows.recording import End
from permitflow.flows.seam import Entries
from permitflow.stream.frames import DownstreamFrame, Feedback
from permitflow.stream.session import DownstreamSession
from permitflow.tracing import ChannelTrace

RETURN = 2
"""Number of the return that is sabotaged; earlier ones are right.  A short run has few, because returns are joined."""


def return_twice() -> None:
    """Return a tenth of one return's permits a second time.

    Not all of them: a sender that has half the window back would refuse as many again before it records anything.
    """
    _change_return(lambda frame: [frame, Feedback(_tenth(frame.content))])


def _tenth(permits: Iterable[int]) -> Permits:
    return Permits(*(-(-count // 10) for count in permits))


def lose() -> None:
    """Never write one return of permits."""
    _change_return(lambda _frame: [])


def return_on_receipt() -> None:
    """Return permits when a chunk arrives, not when the application has consumed it."""
    deliver_many, note_consumed = PermitReceiver.deliver_many, PermitReceiver._note_consumed

    def deliver_each(
        self: PermitReceiver[object], payloads: Sequence[object], rows: Sequence[int], size_bytes: int | None = None
    ) -> None:
        for place, of_chunk in enumerate(rows):
            is_last = place == len(rows) - 1  # until it is consumed, all of them take their bytes
            deliver_many(self, payloads[place : place + 1], (of_chunk,), size_bytes if is_last else None)
            self._rows.due += self.parameters.cost_of(of_chunk)
            self.is_due = True
            self.inbox_rows -= of_chunk

    def only_consume(self: PermitReceiver[object], taken: Entries[object]) -> None:
        before = self._rows.collected, self._rows.due, self.inbox_rows, self.is_due
        note_consumed(self, taken)
        self._rows.collected, self._rows.due, self.inbox_rows, self.is_due = before

    setattr(PermitReceiver, "deliver_many", deliver_each)  # noqa: B010 - a method of a class is not assigned to lightly
    setattr(PermitReceiver, "_note_consumed", only_consume)  # noqa: B010


def _change_return(change: Callable[[Feedback], list[DownstreamFrame]]) -> None:
    write_all = DownstreamSession[object].take_frames
    returns = count(1)

    def take_frames(self: DownstreamSession[object]) -> list[DownstreamFrame]:
        frames: list[DownstreamFrame] = []
        for frame in write_all(self):
            if isinstance(frame, Feedback) and next(returns) == RETURN:
                frames += change(frame)
            else:
                frames.append(frame)
        return frames

    setattr(DownstreamSession, "take_frames", take_frames)  # noqa: B010


SABOTAGES = {"twice": return_twice, "lost": lose, "on-receipt": return_on_receipt}
"""The sabotages by their names on the command line."""


def first_wrong_event(channel: ChannelTrace, sabotage: str) -> tuple[End, int]:
    """The end and the number of the event at which a sabotaged receiver's recorded run leaves the specification.

    The sizes of chunks must make every wrong return of permits different from the right one.
    """
    if sabotage == "on-receipt":
        # The first chunk's permits left before it was consumed: the next count of the receiver shows it.
        return "receiver", 2
    returns = [event for log in channel.logs for event in log if event.action == "AddPermits"]
    if sabotage == "lost":
        # The next return shows that it is missing.
        return "sender", returns[RETURN - 1].sequence
    return "sender", next(
        second.sequence
        for first, second in pairwise(returns[RETURN - 1 :])
        if second.arguments[1:] == _tenth(first.arguments[1:])
    )

"""Permits: recorded runs as behaviours of ``PermitChannel``, and its two ends beside the model."""

from collections import deque
from dataclasses import dataclass
from functools import partialmethod

from permitflow.errors import TraceMismatchError
from permitflow.flows.messages import Kind, Message
from permitflow.flows.permits.parameters import ChannelParameters, Oversize, Permits
from permitflow.flows.permits.parameters import held as held_by_core
from permitflow.flows.permits.recorded import PERMIT_ACTIONS
from permitflow.flows.recording import ActionTable, End
from permitflow.tracing.events import Event
from permitflow.tracing.reader import RecordedChannel
from permitflow_model.kernel.queue import Fifo
from permitflow_model.permit_channel import (
    NO_WATERMARK,
    SYSTEM,
    Parameters,
    State,
    carried_by,
    held_by,
    row_bound_of,
    rows_in,
    withheld,
)
from permitflow_model.permit_channel import Message as ModelMessage
from permitflow_model.permit_channel import Permits as ModelPermits
from permitflow_model.permit_channel_trace import PermitChannelReplay, ReceiverAlone, SenderAlone, permits_of, rows_of
from permitflow_testing.core_pair import FlowPair
from permitflow_testing.moves import ActionRefused
from permitflow_testing.subjects import UNLIMITED, Explanation, Peaks, Subject, first_of, stated

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
        row_permits=agreed.row_permits,
        initial_permits=agreed.initial_permits,
        permit_batch=agreed.permit_batch,
        max_chunk_cost=agreed.max_chunk_cost,
        sizes=sizes,
        barrier_permits=agreed.barrier_permits,
        watermarks=True,
        flush_idle=True,
        withdrawals=True,
        waiters=waiters,
        tags=agreed.row_permits + agreed.barrier_permits + waiters + 1 if numbered else 1,
    )


def agreed_of(channel: RecordedChannel) -> ChannelParameters:
    """The parameters of a recorded permit channel.

    Raises:
        TraceMismatchError: they are none, or another protocol was recorded.
    """
    if channel.table != PERMIT_ACTIONS:
        raise TraceMismatchError(channel=channel.channel, reason=f"{channel.table.flow!r} is recorded, not permits")
    return stated(channel, ChannelParameters)


def row_permits(state: State) -> dict[str, int]:
    """Where the row permits are: their sum is ``row_permits`` in every state, or the protocol has lost or made some."""
    return {
        "permits": state.permits.rows,
        "in_flight": held_by(state.wire).rows,
        "inbox": held_by(state.inbox).rows,
        "unreturned": state.unreturned,
        "grants": carried_by(state.grants).rows,
    }


def _parameters(channel: RecordedChannel) -> Parameters:
    agreed = agreed_of(channel)
    largest = agreed.max_chunk_cost if agreed.oversize is Oversize.SPLIT else UNLIMITED
    return model_of(agreed, sizes=(largest,), waiters=UNLIMITED)


def _explanation(parameters: Parameters, ends: frozenset[End], keep_path: bool) -> Explanation:
    return _ONE_END.get(ends, PermitChannelReplay)(parameters, keep_path=keep_path)


def _event_in_words(event: Event, _table: ActionTable) -> str:
    permits = ", ".join(f"{count} {name}" for name, count in permits_of(event)._asdict().items() if count)
    rows = f"{rows_of(event)} rows, " if event.action.endswith("Chunk") or rows_of(event) else ""
    return f"{event.action} ({rows}permits: {permits or 'none'})"


def _state_in_words(state: State) -> str:
    """All places except empty ones."""
    parts = {
        "waiting": first_of(
            [str(message.rows) if message.kind == "chunk" else "a barrier" for message in state.waiting]
        ),
        "watermark pending after": None if state.watermark_pending < 0 else state.watermark_pending,
        "permits": tuple(state.permits),
        "on the wire": first_of([str((message.kind, message.rows)) for message in state.wire]),
        "inbox": first_of([str((message.kind, message.rows)) for message in state.inbox]),
        "unreturned": state.unreturned,
        "permits on their way back": first_of([str(tuple(grant)) for grant in state.grants]),
    }
    return ", ".join(f"{name} {value}" for name, value in parts.items() if value not in (0, None, ""))


@dataclass
class _Watch:
    """Remembers how much was where."""

    _parameters: Parameters
    _in_use: int = 0
    _inbox_rows: int = 0
    _inbox: object = None

    def __post_init__(self) -> None:
        self._permits, self._withheld = self._parameters.initial_permits, withheld(self._parameters)

    def see(self, state: State) -> None:
        """Hear of a state of the run."""
        # An event changes one or the other.
        if state.permits.rows != self._permits:
            if state.permits.rows > self._permits:
                self._withheld = 0  # it comes before all that is returned
            self._permits = state.permits.rows
            self._in_use = max(self._in_use, self._parameters.row_permits - self._permits - self._withheld)
        if state.inbox is not self._inbox:
            self._inbox = state.inbox
            self._inbox_rows = max(self._inbox_rows, rows_in(state.inbox))

    def peaks(self, largest_rows: int) -> Peaks:
        """The most that was ever there."""
        of = self._parameters
        return Peaks(
            row_permits=of.row_permits,
            row_bound=row_bound_of(of.row_permits, of.max_chunk_cost, largest_rows),
            row_permits_in_use=self._in_use,
            inbox_rows=self._inbox_rows,
        )


class CorePair(FlowPair):
    """The ends of permits, beside ``PermitChannel``."""

    offer_chunk = partialmethod(FlowPair.put_in_line, Kind.CHUNK)
    offer_barrier = partialmethod(FlowPair.put_in_line, Kind.BARRIER)
    withdraw_chunk = partialmethod(FlowPair.take_back, kind=Kind.CHUNK)
    withdraw_barrier = partialmethod(FlowPair.take_back, kind=Kind.BARRIER)
    send_chunk = partialmethod(FlowPair.leave, Kind.CHUNK)
    send_barrier = partialmethod(FlowPair.leave, Kind.BARRIER)

    @property
    def grants(self) -> deque[Permits]:
        """Permits on their way back."""
        return self.feedback

    def consume_taken(self) -> None:
        """Consume the oldest taken message; the receiver grants first what it withholds."""
        self._ask()
        super().consume_taken()

    def _ask(self) -> None:
        if self.receiver.ask():
            self.feedback.append(self.receiver.take_feedback(residue=False))

    def flush(self) -> None:
        """The idle receiver returns its residue."""
        returned = self.receiver.take_feedback()
        if returned is None:
            raise ActionRefused("the consumer is not idle, or nothing is left to return")
        self.feedback.append(returned)

    def add_permits(self) -> None:
        """The oldest returned permits arrive; at first those that are granted because the application asks."""
        self._ask()
        self.answer()

    def observe(self) -> State:
        """The state of both ends and of the wires, in the specification's terms."""
        inbox, wire, waiting = (Fifo([self._as_in_the_model(*each) for each in place]) for place in self.numbered())
        before_watermark = self.sender.messages_before_watermark
        return State(
            offered=self.offered_number,
            consumed=self.consumed_number,
            waiting=waiting,
            watermark_pending=NO_WATERMARK if before_watermark is None else before_watermark,
            newest_watermark=(
                "heard" if self.heard == self.watermark else "sent" if before_watermark is None else "pending"
            ),
            permits=ModelPermits(*self.sender.permits),
            wire=wire,
            inbox=inbox,
            unreturned=self.receiver.unreturned,
            grants=Fifo(ModelPermits(*grant) for grant in (*self._not_granted(), *self.grants)),
        )

    def _not_granted(self) -> list[Permits]:
        """The withheld permits; the specification has them on their way from the start."""
        rows = self.receiver.withheld
        return [Permits(rows)] if rows else []

    def _as_in_the_model(self, message: Message[int], number: int) -> ModelMessage:
        return ModelMessage(
            message.kind.value, number, message.rows, max(held_by_core(message, self.sender.parameters))
        )


SUBJECT = Subject(
    table=PERMIT_ACTIONS,
    system=SYSTEM,
    parameters=_parameters,
    explanation=_explanation,
    rows_of=rows_of,
    consumes={"sender": "SendChunk", "receiver": "Consume"},
    event_in_words=_event_in_words,
    state_in_words=_state_in_words,
    amount_of=lambda event: (
        rows_of(event) or (permits_of(event).rows if event.action in ("AddPermits", "Flush") else 0)
    ),
    places=row_permits,
    unit="row permits",
    place_in_words={"permits": "at the sender", "inbox": "in the inbox", "grants": "on their way back"},
    waiting=lambda state: [message.rows for message in state.waiting if message.kind == "chunk"],
    watch=_Watch,
)

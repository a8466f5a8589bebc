"""The gate: a consumer of several inputs that aligns barriers, proved in spec/input_gate/InputGate.tla.

A credit is the right to send one row; an empty chunk takes 1.  Each input has exclusive credit of its own, and borrows
from the pool of the gate as its backlog needs it.  A sender stops behind its barrier until consumption is resumed,
which is when the barriers of all inputs have been consumed.  Barriers cost no credit.

    sender      offer ─ leave ─────── data, barrier, backlog ────────> deliver ─ take ─ consume    one of the inputs
                        on_feedback <── credit, the word to resume ── take_feedback                └── the gate

Only this file decides when a message may leave, how much each input borrows, and when inputs are aligned.
"""

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, NamedTuple, TypeVar

from permitflow.errors import (
    InvalidParametersError,
    LocalProtocolError,
    OversizeChunkError,
    OverspendError,
    PermitOverrunError,
    UnexpectedFrameError,
)
from permitflow.flows import seam
from permitflow.flows.adaptive_window import AdaptiveWindow
from permitflow.flows.messages import Kind, Message, Offered
from permitflow.flows.recording import ActionTable, Recorder, Step, record_run
from permitflow.flows.seam import Entries, Flow, Group, Inbound, Outbound, Urgency, Wishes, require_whole, stated_values

T = TypeVar("T")
_CHUNK = Kind.CHUNK  # reading an enumeration's attribute costs more than the whole decision

DEFAULT_EXCLUSIVE = 8_192
DEFAULT_FLOATING = 32_768
# Exclusive credit is granted again once an eighth of it is free, or once everything here is consumed: as with permits.
BATCH_SHARE = 8


@dataclass(frozen=True, kw_only=True, slots=True)
class GateParameters(seam.Parameters):
    """Parameters of a gate and of each of its inputs, in rows.

    Live for every sequence of chunks: an input's own credit is enough for its largest chunk; without exclusive credit,
    the rest of the pool is enough, however the other inputs share it (``max_chunk_cost``).

    Spec: Inputs, Exclusive, Floating.

    Raises:
        InvalidParametersError: a number is out of its range.
    """

    inputs: int = 1
    """Inputs of the gate."""
    exclusive: int = DEFAULT_EXCLUSIVE
    """Credit that each input has of its own; 0: all of it is borrowed."""
    floating: int = DEFAULT_FLOATING
    """Credit of the pool, which inputs borrow as their backlog needs it."""
    max_chunk_cost: int = 0
    """The most rows of a chunk; larger ones are split.  0: half of ``exclusive``; the
    largest allowed number if there is no exclusive credit."""

    def __post_init__(self) -> None:
        """Fill in the default, then refuse numbers that cannot work."""
        require_whole(self, {"inputs": 1, "exclusive": 0, "floating": 0, "max_chunk_cost": 0})
        if self.exclusive == self.floating == 0:
            raise InvalidParametersError(name="floating", value=0, rule="must be at least 1 if exclusive is 0")
        most = _most_cost(self.exclusive, self.floating, self.inputs)
        if self.max_chunk_cost == 0:
            object.__setattr__(self, "max_chunk_cost", max(1, self.exclusive // 2) if self.exclusive else most)
        if self.max_chunk_cost > most:
            needed = "exclusive" if self.exclusive else "1 + (floating - 1) // inputs"
            rule = f"must be at most {needed} = {most}, else a chunk may wait for ever"
            raise InvalidParametersError(name="max_chunk_cost", value=self.max_chunk_cost, rule=rule)

    @property
    def window_rows(self) -> int:
        """The most rows that may be in one input at once."""
        return self.exclusive + self.floating

    @property
    def most_rows(self) -> int:
        """The most rows of a chunk."""
        return self.max_chunk_cost


def _most_cost(exclusive: int, floating: int, inputs: int) -> int:
    """The largest chunk that is never stuck.

    Without exclusive credit, an input is stuck with at most ``cost - 1`` of it.  If all are, the pool has one left.
    """
    return exclusive or 1 + (floating - 1) // inputs


class Grant(NamedTuple):
    """Feedback: the word to resume, if it is due, credit granted behind it, and counts of consumption."""

    credit: int = 0
    resume: bool = False
    """Consumption is resumed: the sender may go on behind its barrier."""
    revoke: bool = False
    """All credit granted before is void; only with ``resume``."""
    watermarks: int = 0
    """Watermarks that were consumed: the next one may leave."""
    consumed: int = 0
    """Credit that consumed chunks have held.  Not all of it is granted again, so it is told apart."""
    barriers: int = 0
    """Barriers that were consumed."""


class Backlog(NamedTuple):
    """A sender's announcement beside its data."""

    backlog: int
    """Credit that all waiting chunks need."""
    returned: int = 0
    """Credit that is not needed any more, because chunks were withdrawn."""


def _cost_of(rows: int) -> int:
    return rows or 1


def _costs(rows: Sequence[int], total: int, least: int) -> int:
    """The credit that chunks with these numbers of rows need."""
    return total if least else sum(map(_cost_of, rows))


class GateSender(Outbound[T]):
    """Sends as far as its credit goes, and nothing behind its barrier until consumption is resumed.

    Spec: channels.
    """

    __slots__ = (
        "_consumed",
        "_consumed_barriers",
        "_exclusive",
        "_expected",
        "_has_sent",
        "_is_stopped",
        "_known",
        "_last_number",
        "_peak_held",
        "_sent",
        "_watermark_permits",
        "announced",
        "credit",
    )

    gets_room_by_backlog = True
    parameters: GateParameters

    def __init__(self, parameters: GateParameters, *, record: Recorder | None = None) -> None:
        """Start with the exclusive credit."""
        super().__init__(parameters, record=record)
        self.credit = self._exclusive = parameters.exclusive
        """Rows that may leave now, unless a barrier stops them."""
        self._is_stopped = False
        self.announced = 0
        """The backlog that the gate believes in once everything sent has arrived."""
        self._has_sent = False
        # Credit of chunks that will be offered next, and how much of it the chunk has that is being offered.
        self._expected = self._known = 0
        self._last_number = 0
        self._watermark_permits = 1
        # Credit of chunks that have left, and of those that were consumed.
        self._sent = self._consumed = self._consumed_barriers = self._peak_held = 0

    # State.

    @property
    def is_stopped(self) -> bool:
        """Has a barrier left, and consumption is not resumed yet?"""
        return self._is_stopped

    @property
    def backlog(self) -> int:
        """Credit that all waiting chunks need, and those that are expected."""
        return self._expected + sum(
            _cost_of(offered.message.rows) for offered in self._waiting if offered.message.kind is _CHUNK
        )

    @property
    def _next_cost(self) -> int:
        """The cost of the oldest chunk that waits, or the highest that it may have if it is only expected."""
        costs = (_cost_of(each.message.rows) for each in self._waiting if each.message.kind is _CHUNK)
        return next(costs, min(self._expected, self.parameters.max_chunk_cost))

    @property
    def room_rows(self) -> int:
        """Credit that may be used now."""
        return 0 if self._is_stopped else self.credit

    @property
    def rows_held(self) -> int:
        """Rows that have left and are not known to be consumed; an empty chunk counts as one."""
        return self._sent - self._consumed

    @property
    def peak_rows_held(self) -> int:
        """The most of them."""
        return self._peak_held

    @property
    def sent_mark(self) -> tuple[int, int]:
        """Credit of chunks, and barriers, that have left."""
        return self._sent, self._sent_barriers

    @property
    def acknowledged_mark(self) -> tuple[int, int]:
        """The part of it that is known to be consumed."""
        return self._consumed, self._consumed_barriers

    def unsettled(self) -> tuple[str, int] | None:
        """Rows and barriers that are not known to be consumed."""
        count = self._sent - self._consumed + self._sent_barriers - self._consumed_barriers
        return ("unconsumed rows and barriers", count) if count else None

    def gauges(self) -> dict[str, int]:
        """Its figures, by the names in ``Flow.gauge_help``."""
        return {"credit_here": self.credit, "stopped_behind_barrier": int(self._is_stopped), "backlog": self.backlog}

    # What may leave.

    @property
    def may_end(self) -> bool:
        """The end keeps its place behind a barrier, as every message does."""
        return not self._is_stopped and not self.has_waiting

    def admits(self, rows: Sequence[int]) -> int:
        """How many of the first of these chunks have their credit here: the guard of SendData."""
        left, count = self.room_rows, 0
        for size in rows:
            left -= _cost_of(size)
            if left < 0 or size > self.parameters.max_chunk_cost:
                break
            count += 1
        return count

    def lack(self, kind: Kind, rows: Sequence[int] = ()) -> str:
        """What a message waits for."""
        if self._is_stopped:
            return f"the {kind.value} is behind a barrier, which other inputs of the gate have not reached"
        if kind is _CHUNK:
            return f"the chunk needs {sum(map(_cost_of, rows))} credit; {self.credit} is here"
        return "the last watermark is not consumed yet" if kind is Kind.WATERMARK else "messages wait before it"

    def _may_leave(self, message: Message[T]) -> bool:
        if self._is_stopped:
            return False
        if message.kind is _CHUNK:
            return _cost_of(message.rows) <= self.credit
        return message.kind is Kind.BARRIER or self._watermark_permits > 0

    def sendable(self) -> int:
        """How many waiting messages may leave now, one after the other: none behind a barrier."""
        left = self.room_rows
        for count, offered in enumerate(self._waiting):
            if offered.message.kind is not _CHUNK:
                return count + (not self._is_stopped)
            left -= _cost_of(offered.message.rows)
            if left < 0:
                return count
        return len(self._waiting)

    # Offering: expected chunks count as offered.

    def expect(self, rows: Sequence[int]) -> None:
        """Note that chunks of these rows will be offered next: they are part of the backlog.

        Spec: OfferData.
        """
        expected = sum(map(_cost_of, rows))
        if expected > self._expected:
            self._note("OfferData", expected - self._expected)
            self._expected = expected
        elif not rows and self._expected:
            self._note("WithdrawData", self._expected)
            self._expected = 0

    def offer(self, kind: Kind, payload: T, rows: int = 0, size_bytes: int | None = None) -> Offered[T]:
        """As ``Outbound.offer``."""
        self._known = min(_cost_of(rows), self._expected) if kind is _CHUNK else 0
        offered = super().offer(kind, payload, rows, size_bytes)
        self._expected -= self._known
        return offered

    # Leaving.

    def _leave(self, message: Message[T]) -> None:
        """The update of the message's own action.

        Spec: SendBarrier.
        """
        if message.kind is _CHUNK:
            self._send_data(cost := _cost_of(message.rows))
            self._note("SendData", cost)
        elif message.kind is Kind.WATERMARK:
            self._watermark_permits -= 1
        else:
            self._is_stopped = True
            self.announced = 0
            self._has_sent = False
            self._note("SendBarrier")

    def _leave_at_once(self, rows: Sequence[int], total: int, least: int) -> int:
        cost = _costs(rows, total, least)
        if cost > self.room_rows or total > self.parameters.max_chunk_cost:
            rows = rows[: self.admits(rows)]
            cost = sum(map(_cost_of, rows))
        if not rows:
            return 0
        if self._record is not None:
            record_run(self._record, _steps_of_sending(rows, self._expected, self.credit))
        self._expected -= min(cost, self._expected)
        self._send_data(cost)
        return len(rows)

    def _send_data(self, cost: int) -> None:
        """The update; the gate subtracts these rows from the backlog by itself.

        Spec: SendData.
        """
        self.credit -= cost
        self._sent += cost
        self._peak_held = max(self._peak_held, self._sent - self._consumed)
        self.announced = max(0, self.announced - cost)
        self._has_sent = True

    # Announcements to the gate, beside data.

    def take_announcement(self) -> Backlog | None:
        """The backlog behind data that has just left; also once a chunk lacks credit and the gate does not know it.

        Spec: SendData, AnnounceBacklog.
        """
        has_sent, self._has_sent = self._has_sent, False
        if self._is_stopped or not (self._waiting or self._expected or self.announced or self.credit > self._exclusive):
            return None
        backlog = self.backlog
        returned = max(0, self.credit - self._exclusive - backlog)
        is_asking = self.announced < backlog and (not self.credit or max(self.credit, self.announced) < self._next_cost)
        if not returned and not is_asking and (not has_sent or self.announced == backlog):
            return None
        self.announced = backlog
        self.credit -= returned
        if returned:
            self._note("ReturnCredit", returned)
        self._note("AnnounceBacklog", backlog)
        return Backlog(backlog, returned)

    # Feedback of the gate.

    def on_feedback(self, feedback: Grant) -> None:
        """Take in credit, and the word to resume.

        Raises:
            UnexpectedFrameError: it says nothing, or nobody waits for what it says.
            PermitOverrunError: there is not so much credit.

        Spec: AddCredit, ResumeConsumption.
        """
        credit, resume, revoke, watermarks, consumed, barriers = feedback
        if not (credit or resume or watermarks or consumed or barriers):
            raise UnexpectedFrameError(frame="a grant of nothing", expected="credit, or the word to resume")
        if (resume and not self._is_stopped) or (revoke and not resume):
            raise UnexpectedFrameError(frame="the word to resume", expected="none: the sender is not stopped")
        voided = self.credit if revoke else 0
        before = self.credit - voided
        for name, count, most in (
            ("rows", credit, self.parameters.window_rows - before),
            ("watermarks", watermarks, 1 - self._watermark_permits),
            ("consumed rows", consumed, self._sent - self._consumed),
            ("barriers", barriers, self._sent_barriers - self._consumed_barriers),
        ):
            if not 0 <= count <= most:
                raise PermitOverrunError(permit_class=name, returned=count, outstanding=most)
        self._watermark_permits += watermarks
        self._consumed += consumed
        self._consumed_barriers += barriers
        self.credit = before
        if resume:
            self._is_stopped = False
            self._note("ResumeConsumption", voided)
        if credit:
            self.credit += credit
            self._note("AddCredit", credit)

    def _tell(self, verb: str, message: Message[T]) -> None:
        """Offering and withdrawing change no count.

        Spec: OfferData, OfferBarrier.
        """
        if message.kind is _CHUNK:
            known = self._known if verb == "Offer" else 0
            if (cost := _cost_of(message.rows)) > known:
                self._note(f"{verb}Data", cost - known)
        elif message.kind is Kind.BARRIER and verb == "Offer":
            self._last_number = _number_of(message.payload, self._last_number)
            self._note("OfferBarrier", self._last_number)
        elif message.kind is Kind.BARRIER:
            self._note("WithdrawBarrier")

    def _note(self, action: str, *arguments: int) -> None:
        if self._record is not None:
            self._record(action, arguments, (self.credit, int(self._is_stopped)))


class GateReceiver(Inbound[T]):
    """One input: keeps what has arrived, and grants credit; the gate lends it more.

    Spec: channels.
    """

    __slots__ = (
        "_barriers_untold",
        "_batch",
        "_consumed_untold",
        "_exclusive",
        "_is_behind_barrier",
        "_is_over",
        "_last_number",
        "_max_chunk_cost",
        "_required",
        "_resumption",
        "_watermarks_due",
        "_watermarks_out",
        "borrowed",
        "free",
        "gate",
        "is_admitted",
        "is_blocked",
        "is_released",
        "stored",
    )

    parameters: GateParameters

    def __init__(
        self, parameters: GateParameters, *, record: Recorder | None = None, gate: "Gate | None" = None
    ) -> None:
        """Join the gate; without one, this is the only input of its own."""
        super().__init__(parameters, record=record)
        self.gate = Gate(replace(parameters, inputs=1), aligns_itself=True) if gate is None else gate
        """What it shares with the other inputs."""
        self.gate.join(self)
        self._exclusive, self._max_chunk_cost = parameters.exclusive, parameters.max_chunk_cost
        self._batch = max(1, parameters.exclusive // BATCH_SHARE)
        self.stored = self.free = self.borrowed = 0
        """Credit that unconsumed chunks here hold, that is to be granted, and of the pool that this input has."""
        self.is_blocked = self.is_released = False
        """Was its barrier consumed, and is consumption not resumed yet?  Did its barrier take back all credit, so that
        the sender's is void?"""
        self._is_behind_barrier = self._is_over = False
        self._required = 0
        self.is_admitted = not self.gate.admits_later
        """Does the gate depend on it?"""
        self._resumption = _NO_RESUMPTION
        self._watermarks_out = self._watermarks_due = 0
        self._consumed_untold = self._barriers_untold = 0
        self._last_number = 0

    def admit(self) -> None:
        """Let the gate depend on it from now on, where inputs are admitted after they have joined."""
        self.is_admitted = True

    @property
    def belongs_to_group(self) -> bool:
        """Is it one of several inputs?"""
        return not self.gate.aligns_itself

    # State.

    @property
    def resume_due(self) -> bool | None:
        """Does the word to resume, which is due, revoke credit?  None: it is not due."""
        return self._resumption.revoke if self._resumption.resume else None

    @property
    def is_over(self) -> bool:
        """Has it left the gate?"""
        return self._is_over

    @property
    def required(self) -> int:
        """The backlog at the sender, as far as the gate knows."""
        return self._required

    @property
    def lacks(self) -> int:
        """The credit that the backlog needs beyond what this input has.

        Spec: Borrow.
        """
        if self._is_over or not self._required:  # behind its barrier an input requires nothing
            return 0
        lacking = self._required - self.borrowed + self.stored
        return max(0, min(lacking, self.parameters.floating - self.borrowed))

    def gauges(self) -> dict[str, int]:
        """Its figures, by the names in ``Flow.gauge_help``."""
        return {
            "backlog": self._required,
            "floating_borrowed": self.borrowed,
            "floating_in_pool": self.gate.pool,
            **({"blocked_by_barrier": int(self.is_blocked)} if self.belongs_to_group else {}),
        }

    # Arriving.

    def _accept_chunks(self, rows: Sequence[int], total: int, least: int) -> None:
        """The guard and the update for chunks: the peer has credit for them, and no barrier stops it.

        Spec: Deliver.
        """
        self._require_going_on("a chunk")
        if total > self._max_chunk_cost and (most := max(rows)) > self._max_chunk_cost:
            raise OversizeChunkError(rows=most, most=self._max_chunk_cost)
        cost, out = _costs(rows, total, least), self._credit_out
        if cost > out:
            raise OverspendError(permit_class="rows", cost=cost, available=out)
        self.stored += cost
        self._required = max(0, self._required - cost)

    def _accept_marker(self, message: Message[T]) -> None:
        """The guard and the update for barriers and watermarks; a barrier may take back credit that holds no data.

        Spec: Deliver.
        """
        self._require_going_on(f"a {message.kind.value}")
        if message.kind is Kind.WATERMARK:
            if self._watermarks_out:
                raise OverspendError(permit_class="watermarks", cost=1, available=0)
            self._watermarks_out = 1
            return
        self._is_behind_barrier = True
        self._required = home = taken = 0
        if self._exclusive == 0:
            kept = min(self.borrowed, self.stored)
            home, self.borrowed = self.borrowed - kept, kept
            taken, self.free, self.is_released = self.free, 0, True
        self._note("Deliver", 0, 1, home, taken)
        self.gate.take_home(home)

    def on_announcement(self, announcement: Backlog) -> None:
        """Note the sender's backlog, and borrow for it.

        Raises:
            UnexpectedFrameError: a number is impossible, or the sender is stopped.

        Spec: Deliver.
        """
        if self._is_over:
            return
        self._require_going_on("an announcement")
        backlog, returned = announcement
        most = min(self.borrowed, self._credit_out)
        if backlog < 0 or not 0 <= returned <= most:
            raise UnexpectedFrameError(
                frame=f"an announcement of backlog {backlog}, with {returned} credit returned",
                expected=f"a backlog of at least 0, and at most {most} credit",
            )
        self._required = backlog
        self.borrowed -= returned
        self._note("DeliverBacklog", backlog, returned)
        self.gate.take_home(returned, self)

    def _require_going_on(self, frame: str) -> None:
        if self._is_behind_barrier:
            raise UnexpectedFrameError(frame=f"{frame} behind a barrier", expected="none before consumption is resumed")

    @property
    def _credit_out(self) -> int:
        """Credit at the sender, on its way there, or with data on the wire."""
        return self._exclusive + self.borrowed - self.stored - self.free

    # Consuming.

    def _consume(self, rows: Sequence[int], total: int, markers: Sequence[Message[T]], taken: Entries[T]) -> None:
        """The update: credit of the pool goes home first, the rest is granted again; a barrier blocks.

        Spec: ConsumeData.
        """
        if self._record is not None:
            record_run(self._record, _steps_of_consumption(rows, self._counters()))
        cost = _costs(rows, total, min(rows)) if rows else 0
        home = min(self.borrowed, cost)
        self._consumed_untold += cost
        self.stored -= cost
        self.borrowed -= home
        self.free += cost - home
        for message in markers:
            if message.kind is Kind.WATERMARK:
                self._watermarks_due += 1
            else:
                self._barriers_untold += 1
                self._last_number = _number_of(message.payload, self._last_number)
                self.gate.arrive(self, self._last_number)
        self.gate.take_home(home, self)

    def drop(self) -> None:
        """The stream is broken off: all of its credit goes home, and it leaves the gate."""
        super().drop()
        self._consumed_untold = self._barriers_untold = 0
        self.gate.lose_input(self)
        self.stored = 0

    # The gate acts on it.

    def lend(self, credit: int) -> None:
        """More credit from the pool.

        Spec: Borrow.
        """
        self.borrowed += credit
        self.free += credit
        self._note("Borrow", credit)

    def block(self, action: str) -> None:
        """Wait behind its barrier for the other inputs; the recorder gets ``action``.

        Spec: ConsumeBarrier.
        """
        self.is_blocked = True
        self._note(action)

    def resume(self, action: str) -> None:
        """Tell the sender to go on; the recorder gets ``action``, the reason.

        Spec: Align.
        """
        self.is_blocked = False
        self._resumption = Grant(resume=True, revoke=self.is_released)
        self.is_released = False
        self._note(action)

    def end(self) -> int:
        """Leave the gate at the end; return the borrowed credit, which goes home.

        Spec: ConsumeEnd.
        """
        home, taken, self.borrowed, self.free, self._required = self.borrowed, self.free, 0, 0, 0
        self._is_over = True
        self._note("ConsumeEnd", home, taken)
        return home

    def fail(self) -> int:
        """Leave the gate with all that is here; return the borrowed credit, which goes home.

        Spec: LoseInput.
        """
        *here, is_behind = self._counters()
        stored, taken, home = here
        self.stored = self.borrowed = self.free = self._required = 0
        self._is_over, self.is_blocked, self.is_released, self._is_behind_barrier = True, False, False, False
        self._resumption = _NO_RESUMPTION
        self._note("LoseInput", stored, is_behind, home, taken)
        return home

    # Credit to grant.

    @property
    def urgency(self) -> int:
        """How soon credit leaves: the word to resume, borrowed credit and large batches at once."""
        if self._resumption.resume or self._watermarks_due:
            return Urgency.NOW
        free = 0 if self._is_over else self.free
        if free >= self._batch:
            return Urgency.SOON if self.untaken and self._credit_out > 0 else Urgency.NOW
        if self._here:
            return Urgency.NONE
        if free:
            return Urgency.SOON
        return Urgency.LATER if self._consumed_untold or self._barriers_untold else Urgency.NONE

    def take_feedback(self, *, residue: bool = True) -> Grant | None:
        """The feedback that is due now.

        Spec: Grant.
        """
        resume, revoke = self._resumption.resume, self._resumption.revoke
        credit = 0
        if not self._is_over and (self.free >= self._batch or resume or (residue and not self._here)):
            credit, self.free = self.free, 0
        watermarks, self._watermarks_due = self._watermarks_due, 0
        is_idle = residue and not self._here and (self._consumed_untold or self._barriers_untold)
        if not (credit or resume or watermarks or is_idle):
            return None
        self._watermarks_out -= watermarks
        if resume:
            self._resumption = _NO_RESUMPTION
            self._is_behind_barrier = False
        if credit:
            self._note("Grant", credit)
        consumed, self._consumed_untold = self._consumed_untold, 0
        barriers, self._barriers_untold = self._barriers_untold, 0
        return Grant(credit, resume, revoke, watermarks, consumed, barriers)

    def unsettled(self) -> bool:
        """Must the sender still learn of consumption?  Unused credit is not a debt."""
        return bool(self._consumed_untold or self._barriers_untold)

    def _note_delivered(self, rows: Sequence[int]) -> None:
        if self._record is not None:
            stored, *others = self._counters()
            before = (stored - sum(map(_cost_of, rows)), *others)
            record_run(self._record, _steps_of_delivery(rows, before))

    def _note(self, action: str, *arguments: int) -> None:
        if self._record is not None:
            self._record(action, arguments, self._counters())

    def _counters(self) -> tuple[int, ...]:
        behind = self._is_behind_barrier and not self._resumption.resume
        return self.stored, self.free, self.borrowed, int(behind)


_NO_RESUMPTION = Grant()


def _number_of(payload: object, last: int) -> int:
    """A barrier's number: its payload if that is a whole number, else one more than the last one's."""
    return payload if isinstance(payload, int) and not isinstance(payload, bool) else last + 1


class Gate(Group):
    """The shared part of all inputs: the pool, and the alignment of their barriers.

    Spec: pool, Align, Borrow.
    """

    def __init__(self, parameters: GateParameters, *, aligns_itself: bool = False, admits_later: bool = False) -> None:
        """No input has joined yet.

        Args:
            parameters: of the gate.
            aligns_itself: inputs are resumed as soon as all are blocked.
            admits_later: an input that joins may leave again, until its ``is_admitted`` is set.
        """
        super().__init__()
        self.parameters = parameters
        self.pool = parameters.floating
        """Credit that no input has."""
        self.members: list[GateReceiver[Any]] = []
        """All inputs that have joined, those that have ended included."""
        self.pending: int | None = None
        """The number of the barrier that some inputs wait for."""
        self.last: int | None = None
        """The number of the newest barrier that was aligned or given up."""
        self.alignments = self.given_up = 0
        """How many alignments were completed, and how many were given up."""
        self.has_failed = False
        """Was an input lost?  Then nothing is aligned any more."""
        self.aligns_itself = aligns_itself
        """Are inputs resumed by the gate itself, so that nobody takes a snapshot before?"""
        self.admits_later = admits_later
        self._line: deque[GateReceiver[Any]] = deque()  # inputs that lack credit, in turn
        self._surplus = 0  # of the pool, which is not lent
        self._adaptive: AdaptiveWindow | None = None
        self._consumed_rows = self._over = 0  # of what was observed; inputs that have left
        self._largest_cost = 1  # of the chunks that were observed

    def join(self, member: "GateReceiver[Any]") -> None:
        """One more input.

        Raises:
            LocalProtocolError: the gate has all its inputs.
            InvalidParametersError: its chunks may be too large for the gate's pool, and wait for ever.
        """
        if len(self.members) == self.parameters.inputs:
            raise LocalProtocolError(f"the gate has all its {self.parameters.inputs} inputs: state more of them")
        theirs = member.parameters
        most = _most_cost(theirs.exclusive, self.parameters.floating, self.parameters.inputs)
        if theirs.max_chunk_cost > most:
            rule = f"must be at most {most} for an input of this gate: open it with wanted=gate.parameters"
            raise InvalidParametersError(name="max_chunk_cost", value=theirs.max_chunk_cost, rule=rule)
        self.members.append(member)

    @property
    def open_members(self) -> Iterator["GateReceiver[Any]"]:
        """The inputs that have joined and not ended."""
        return (member for member in self.members if not member.is_over)

    @property
    def awaited(self) -> int:
        """Inputs that are not blocked and have not ended, those that have not joined yet included."""
        return self.parameters.inputs - sum(member.is_blocked or member.is_over for member in self.members)

    @property
    def is_aligned(self) -> bool:
        """Have the barriers of all inputs been consumed?  The guard of Align."""
        return self.pending is not None and self.awaited == 0 and not self.has_failed

    # The pool.

    def take_home(self, credit: int, member: "GateReceiver[Any] | None" = None) -> None:
        """Return credit to the pool, and lend it to inputs that lack it; this input may lack some now."""
        self.pool += credit
        if member is not None and member.lacks and member not in self._line:
            self._line.append(member)
        self._serve()

    def _serve(self) -> None:
        """Lend in turn, an equal share to each input in line; one that lacks more goes to the end of the line.

        A share is at least a whole chunk, as far as is known: parts of chunks, one at each input, are of no use.

        Spec: Borrow.
        """
        share = left = 0  # of this round
        while (lendable := self.pool - self._surplus) > 0 and self._line:
            if not left:
                left = len(self._line)
                share = max(self._largest_cost, lendable // left)
            left -= 1
            member = self._line.popleft()
            if lent := min(share, member.lacks, lendable):
                self.pool -= lent
                member.lend(lent)
                self.touch(member)
            if member.lacks:
                self._line.append(member)

    # The target.

    @property
    def target(self) -> int:
        """Credit of the pool that may be lent: all of it, unless ``resize`` chose less."""
        return self.parameters.floating - self._surplus

    @property
    def least_target(self) -> int:
        """The least of it: with less, every input might lack credit for a chunk."""
        parameters = self.parameters
        return 0 if parameters.exclusive else 1 + (parameters.max_chunk_cost - 1) * parameters.inputs

    def resize(self, target: int) -> None:
        """Lend at most so much of the pool; more may be lent now: once it is home, it is not lent again.

        Raises:
            InvalidParametersError: the target is not within ``least_target`` and ``floating``; nothing was changed.

        It is the action ``Resize`` of spec/adaptive_gate/AdaptiveGate.tla.
        """
        least, most = self.least_target, self.parameters.floating
        if not least <= target <= most:
            raise InvalidParametersError(name="target", value=target, rule=f"must be within {least} and {most}")
        self._surplus = most - target
        self._serve()

    def aim_at(self, latency_seconds: float) -> None:
        """Adapt the target, so that what is here waits about this long; ``observe`` must be called from now on.

        Raises:
            InvalidParametersError: the latency is out of its range.
        """
        parameters = self.parameters
        most_rows = parameters.inputs * parameters.exclusive + parameters.floating
        self._adaptive = AdaptiveWindow(most_rows, latency_seconds)

    def observe(self, at_seconds: float, consumed_rows: int, *, is_busy: bool) -> None:
        """Note the time after a chunk was consumed, or messages have come.

        Args:
            at_seconds: the time, of a clock that never goes back.
            consumed_rows: of the chunk that was consumed since the last call; 0: none was.
            is_busy: has the consumer something to consume?
        """
        if self._adaptive is None:
            return
        self._consumed_rows += consumed_rows
        self._largest_cost = max(self._largest_cost, consumed_rows)
        open_inputs = self.parameters.inputs - self._over
        exclusive = open_inputs * self.parameters.exclusive
        # Of each input less than a chunk may be idle; one is consumed meanwhile, and one comes.
        least_rows = max(exclusive + self.least_target, (open_inputs + 1) * self._largest_cost)
        target = self._adaptive.observe(at_seconds, self._consumed_rows, is_busy=is_busy, least_rows=least_rows)
        if target is not None:
            self.resize(min(target - exclusive, self.parameters.floating))

    @property
    def least_latency_seconds(self) -> float | None:
        """As ``Inbound.least_latency_seconds``, of what is in all inputs together."""
        return None if self._adaptive is None else self._adaptive.least_latency_seconds

    # Alignment.

    def arrive(self, member: "GateReceiver[Any]", number: int) -> None:
        """Note that the barrier of this number is consumed.  A newer one replaces the pending one; older ones are void.

        Spec: ConsumeBarrier.
        """
        newest = self.last if self.pending is None else self.pending - 1
        if newest is not None and number <= newest:
            self._resume((member,), "ConsumeOlderBarrier")
            return
        if self.pending is None or number == self.pending:
            member.block("ConsumeBarrier")
        else:
            others = [other for other in self.members if other.is_blocked]
            member.block("ConsumeNewerBarrier")
            self._give_up(others)
        self.pending = number
        if self.aligns_itself and self.is_aligned:
            self.align()

    def align(self) -> None:
        """Tell each sender to go on: all barriers have been consumed.

        Raises:
            LocalProtocolError: they have not.

        Spec: Align.
        """
        if not self.is_aligned or self.pending is None:
            raise LocalProtocolError("cannot align: not all inputs are blocked")
        self.last, self.pending = self.pending, None
        self.alignments += 1
        self._resume(self.open_members, "Align")

    def end_input(self, member: "GateReceiver[Any]") -> None:
        """Take out an input that has ended: no other input waits for it, and its credit goes home."""
        if not member.is_over:
            self._remove(member, member.end())

    def lose_input(self, member: "GateReceiver[Any]") -> None:
        """Fail the gate, because an input has failed: the pending barrier is given up.

        An input that was not admitted yet leaves no trace: another one may join in its place.
        """
        if member.is_over:
            return
        self._remove(member, member.fail())
        if not member.is_admitted:
            self._over -= 1
            self.members.remove(member)
            return
        self.has_failed = True
        if self.pending is not None:
            self._give_up([other for other in self.members if other.is_blocked])

    def _remove(self, member: "GateReceiver[Any]", home: int) -> None:
        if member in self._line:
            self._line.remove(member)
        self._over += 1
        self.take_home(home)

    def _give_up(self, members: Iterable["GateReceiver[Any]"]) -> None:
        assert self.pending is not None
        self.last, self.pending = self.pending, None
        self.given_up += 1
        self._resume(members, "AbortAlignment")

    def _resume(self, members: Iterable["GateReceiver[Any]"], action: str) -> None:
        for member in members:
            member.resume(action)
            self.touch(member)


# What a recorder gets for chunks that moved together.


def _steps_of_sending(rows: Iterable[int], expected: int, credit: int) -> Iterator[Step]:
    """``expected`` is the credit of chunks that are reported as offered already."""
    for cost in map(_cost_of, rows):
        known = min(cost, expected)
        expected -= known
        if cost > known:
            yield "OfferData", (cost - known,), (credit, 0)
        credit -= cost
        yield "SendData", (cost,), (credit, 0)


def _steps_of_delivery(rows: Iterable[int], before: tuple[int, ...]) -> Iterator[Step]:
    stored, *others = before
    for cost in map(_cost_of, rows):
        stored += cost
        yield "Deliver", (cost, 0, 0, 0), (stored, *others)


def _steps_of_consumption(rows: Iterable[int], before: tuple[int, ...]) -> Iterator[Step]:
    stored, free, borrowed, behind = before
    for cost in map(_cost_of, rows):
        home = min(borrowed, cost)
        stored, free, borrowed = stored - cost, free + cost - home, borrowed - home
        yield "ConsumeData", (cost, home, cost - home), (stored, free, borrowed, behind)


GATE_ACTIONS = ActionTable(
    flow="gate",
    actions={
        "sender": {
            **dict.fromkeys(("OfferData", "WithdrawData", "SendData", "ReturnCredit"), ("data",)),
            "OfferBarrier": ("number",),
            **dict.fromkeys(("WithdrawBarrier", "SendBarrier"), ()),
            "AnnounceBacklog": ("backlog",),
            "AddCredit": ("data",),
            "ResumeConsumption": ("voided",),
        },
        "receiver": {
            "Deliver": ("data", "barriers", "home", "taken"),
            "DeliverBacklog": ("backlog", "home"),
            "ConsumeData": ("data", "home", "freed"),
            **dict.fromkeys(("Borrow", "Grant"), ("data",)),
            **dict.fromkeys(
                ("ConsumeBarrier", "ConsumeNewerBarrier", "ConsumeOlderBarrier", "Align", "AbortAlignment"), ()
            ),
            "ConsumeEnd": ("home", "taken"),
            "LoseInput": ("data", "barriers", "home", "taken"),
        },
    },
    counters={"sender": ("credit", "stopped"), "receiver": ("stored", "free", "borrowed", "behind_barrier")},
)
"""Most numbers are credit: rows, and 1 for an empty chunk.  ``home``: back to the pool.  ``taken``: no longer free.
``freed``: to be granted again.  ``voided``: lost at the sender, which is told to go on.

Align is reported by each input that it resumes, AbortAlignment by those that a newer barrier, or a lost input,
resumes.  The receiver is ``behind_barrier`` from the arrival of its barrier until then.  Watermarks are not
reported."""

GAUGE_HELP: Mapping[str, str] = {
    "credit_here": "Credit at the sender: rows that may leave at once, unless it is stopped behind a barrier.",
    "stopped_behind_barrier": "1: the sender waits behind its barrier until consumption is resumed.",
    "backlog": "Rows that wait at the sender; at the gate, as far as it knows.",
    "floating_borrowed": "Credit of the gate's pool that this input has.",
    "floating_in_pool": "Credit of the gate's pool that no input has.",
    "blocked_by_barrier": "1: this input's barrier was consumed, and other inputs have not reached theirs.",
}


class GateFlow(Flow):
    """The flow of ``GateParameters``: both ends count with the smaller numbers; the client says how many inputs."""

    feedback: ClassVar[type[tuple[Any, ...]]] = Grant
    announcement: ClassVar[type[tuple[Any, ...]] | None] = Backlog
    table: ClassVar[ActionTable] = GATE_ACTIONS
    gauge_help: ClassVar[Mapping[str, str]] = GAUGE_HELP
    as_wished: ClassVar[Collection[str]] = ("inputs",)
    leading: ClassVar[Collection[str]] = ("inputs", "exclusive", "floating", "max_chunk_cost")
    following: ClassVar[Collection[str]] = ("max_chunk_cost",)
    outbound: ClassVar[type[Outbound[Any]]] = GateSender
    inbound: ClassVar[type[Inbound[Any]]] = GateReceiver

    @property
    def wire(self) -> Any:
        """Its messages in protobuf."""
        from permitflow.wire.v1 import gate_pb2

        return gate_pb2

    def agree(self, own: GateParameters, wanted: Wishes) -> GateParameters:
        """The smaller number wins, but for the inputs of a client's gate.

        A gate whose pool is larger lends an input no more than was agreed for it.

        Raises:
            InvalidParametersError: the wishes cannot work at all.
        """
        if not (stated := stated_values(wanted)):
            return own
        theirs: GateParameters = self._wanted(own, stated)
        exclusive, floating = min(own.exclusive, theirs.exclusive), min(own.floating, theirs.floating)
        most = _most_cost(exclusive, floating, theirs.inputs)
        return GateParameters(
            inputs=theirs.inputs,
            exclusive=exclusive,
            floating=floating,
            max_chunk_cost=max(1, min(own.max_chunk_cost, theirs.max_chunk_cost, most)),
        )

    def receiving(
        self, parameters: GateParameters, *, record: Recorder | None, group: Group | None = None
    ) -> GateReceiver[Any]:
        """One input of the gate; without a group, of a gate of its own.

        Raises:
            InvalidParametersError: the group is not a gate.
        """
        if group is not None and not isinstance(group, Gate):
            raise InvalidParametersError(
                name="group", value=group, rule="must be the group of a gate: group=gate.group"
            )
        return GateReceiver(parameters, record=record, gate=group)


GATE = GateFlow()
seam.register(GATE, GateParameters)

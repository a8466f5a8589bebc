"""Permits: the rules of ``PermitChannel``, the mistakes that break them, and the small channels in which they show."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, ClassVar

from permitflow.flows.messages import Kind
from permitflow.flows.permits.parameters import ChannelParameters, Oversize
from permitflow_model.kernel.queue import Fifo
from permitflow_model.kernel.system import require
from permitflow_model.mistakes.permit_channel import returns_early, returns_late
from permitflow_model.permit_channel import NO_WATERMARK, SYSTEM, Message, Parameters, Permits, State, held, plus
from permitflow_model.permit_channel_trace import withdraw_at
from permitflow_testing import mistakes
from permitflow_testing.adapter import Feature, ReceivedMessage
from permitflow_testing.mistakes import changed_after, changed_before, never, send_from
from permitflow_testing.outside import CONSUME, Outside, Perform, Result, World
from permitflow_testing.rules import FEW, Breach, Duty, Graph, Integer, Lacks, Rulebook, rules_in, whole_run_rules
from permitflow_testing.subjects.permits import CorePair, model_of


def constants(row_permits: int, permit_batch: int = 1, max_chunk_cost: int = 0) -> ChannelParameters:
    """Parameters of a small channel; without ``max_chunk_cost``, the largest that is live."""
    return ChannelParameters(
        row_permits=row_permits,
        permit_batch=permit_batch,
        max_chunk_cost=max_chunk_cost or row_permits - permit_batch + 1,
        oversize=Oversize.WHOLE,
    )


class PermitOutside(Outside):
    """Notes: the newest watermark, and for each hop the one that has not left."""

    system: ClassVar[Any] = SYSTEM
    withdrawal: ClassVar[Any] = staticmethod(withdraw_at)

    @property
    def rows_on_a_bridge(self) -> int:  # type: ignore[override]  # this one depends on the parameters
        """A batch."""
        return self.parameters.permit_batch  # type: ignore[no-any-return]

    def start(self) -> World:
        """At rest."""
        return super().start()._replace(notes=(0,) * (self._hops + 1))

    def received(self, world: World, message: Message) -> ReceivedMessage:
        """A message as the receiving application gets it."""
        return ReceivedMessage(Kind(message.kind), 0 if message.kind == "barrier" else message.id, message.rows)

    def offer(self, world: World, hop: int, kind: Kind, rows: int = 0) -> World:
        """Offer a chunk or a barrier."""
        if kind is Kind.CHUNK:
            return self.act(world, hop, "OfferChunk", rows)
        return self.act(world, hop, "OfferBarrier")

    def announce(self, world: World, hop: int, value: int) -> World:
        """Announce a watermark."""
        return _noted(self.act(world, hop, "OfferWatermark"), hop, value)

    def newest_watermark(self, world: World) -> int:
        """The one that was announced last, or 0."""
        return world.notes[0]  # type: ignore[no-any-return]

    def act(self, world: World, hop: int, action: str, *arguments: int) -> World:
        """One action; the watermark that leaves is the one that waits."""
        after = super().act(world, hop, action, *arguments)
        if action != "SendWatermark":
            return after
        state = after.hops[hop]
        sent = state.wire.last()._replace(id=world.notes[hop + 1])
        return self.with_hop(after, hop, state._replace(wire=state.wire.without_last().push(sent)))

    def rebased(self, message: Message, world: World) -> Message:
        """Watermarks are counted from the newest one."""
        if message.kind == "watermark":
            return message._replace(id=_age(message.id, world.notes[0]))
        return super().rebased(message, world)  # type: ignore[no-any-return]

    def rebased_notes(self, world: World) -> tuple[int, ...]:
        """Likewise; what does not wait has no age."""
        newest, *pending = world.notes
        waiting = [hop.watermark_pending != NO_WATERMARK for hop in world.hops]
        return 0, *(_age(value, newest) if waits else 0 for value, waits in zip(pending, waiting, strict=True))

    @staticmethod
    def withdraw_action(message: Message) -> str:
        """The action that withdraws a chunk, or a barrier."""
        return f"Withdraw{message.kind.title()}"

    @staticmethod
    def given_back(state: State, message: Message) -> State:
        """The permits of a message are on their way back."""
        return state._replace(grants=state.grants.push(held(message)))

    @staticmethod
    def consumed_silently(before: State, after: State) -> State:
        """No permits are."""
        return after._replace(grants=before.grants, unreturned=before.unreturned)

    @staticmethod
    def robbed(state: State) -> State:
        """A row permit less at the sender."""
        return _with_permits(state, Permits(-1, 0, 0))


def _age(watermark: int, newest: int) -> int:
    # Older is older: otherwise there would be no end of states.
    return max(watermark - newest, -1)


def _noted(world: World, hop: int, pending: int) -> World:
    notes = [*world.notes]
    notes[0], notes[hop + 1] = max(notes[0], pending), pending
    return world._replace(notes=tuple(notes))


# Mistakes that only a channel with permits can make.

_RIGHT: dict[str, Perform] = {action.name: action.perform for action in SYSTEM.actions}


def _with_permits(state: State, more: Permits) -> State:
    return state._replace(permits=plus(state.permits, more))


def _unpaid(action: str, permits: Permits) -> dict[str, Perform]:
    """Sends whether or not permits are here, and takes none."""
    return {action: changed_before(_RIGHT[action], lambda state, _: _with_permits(state, permits))}


def _only_if(action: str, guard: Callable[[State], bool]) -> dict[str, Perform]:
    """Sends only where the guard holds as well."""

    def checked(state: State, _: Parameters) -> State:
        require(guard(state))
        return state

    return {action: changed_before(_RIGHT[action], checked)}


def _chunk_unpaid(state: State, _: Parameters) -> State:
    require(not state.waiting.is_empty())
    return _with_permits(state, held(state.waiting.head()))


def _can_spare_one(state: State) -> bool:
    return not state.waiting.is_empty() and state.waiting.head().cost < state.permits.rows


def _waiting(line: Sequence[Message], kind: str) -> list[int]:
    """Where messages of this kind wait, the oldest first."""
    return [position for position, message in enumerate(line) if message.kind == kind]


def _sends(position: Callable[[Sequence[Message], State], int], action: str = "SendChunk") -> dict[str, Perform]:
    """Sends another message than the oldest."""
    return {action: send_from(_RIGHT[action], position)}


def _send_early(action: str, kind: str) -> dict[str, Perform]:
    """Lets the oldest waiting message of a kind overtake those of the other kind."""
    return _sends(lambda line, _: next(iter(_waiting(line, kind)), 0), action)


def _newest(line: Sequence[Message], _: State) -> int:
    return [0, *_waiting(line, "chunk")][-1]


def _first_that_fits(line: Sequence[Message], state: State) -> int:
    fitting = (at for at in _waiting(line, "chunk") if line[at].cost <= state.permits.rows)
    return next(fitting, 0)


def _watermark_early(state: State, _: Parameters) -> State:
    require(state.watermark_pending != NO_WATERMARK)
    return state._replace(watermark_pending=0)


def _costs(cost: Callable[[int], int]) -> dict[str, Perform]:
    """Charges something else for a chunk."""

    def charged(_: State, after: State) -> State:
        chunk = after.waiting.last()
        return after._replace(waiting=after.waiting.without_last().push(chunk._replace(cost=cost(chunk.rows))))

    return {"OfferChunk": changed_after(_RIGHT["OfferChunk"], charged)}


def _returns(cost: Callable[[Message], int]) -> dict[str, Perform]:
    """Returns something else than the message held."""

    def changed(state: State, _: Parameters) -> State:
        require(not state.inbox.is_empty())
        oldest = state.inbox.head()
        return state._replace(inbox=Fifo([oldest._replace(cost=cost(oldest)), *state.inbox.without_head()]))

    return {CONSUME: changed_before(_RIGHT[CONSUME], changed)}


def _returned_again(state: State, parameters: Parameters) -> State:
    """Does not forget what it has returned, and returns it again with the next batch."""
    after: State = _RIGHT[CONSUME](state, parameters)
    is_returned = after.grants.size() > state.grants.size() and after.unreturned == 0
    return after._replace(unreturned=after.grants.last().rows % parameters.permit_batch or 1) if is_returned else after


def _lost(before: State, after: State) -> State:
    """A message is nowhere, and its permits are on their way back."""
    return PermitOutside.given_back(before._replace(wire=after.wire), after.inbox.last())


def _for_a_barrier(returned: Permits) -> dict[str, Perform]:
    """Returns something else for a barrier."""

    def changed(before: State, after: State) -> State:
        if before.inbox.head().kind != "barrier":
            return after
        return after._replace(grants=before.grants.push(returned) if any(returned) else before.grants)

    return {CONSUME: changed_after(_RIGHT[CONSUME], changed)}


class KeepsOldWatermark(PermitOutside):
    """Does not replace a watermark that waits by a newer one."""

    def announce(self, world: World, hop: int, value: int) -> World:
        """Announce; the older one stays."""
        waits = world.hops[hop].watermark_pending != NO_WATERMARK
        after = super().announce(world, hop, value)
        return _noted(after, hop, world.notes[hop + 1]) if waits else after


class LetsNewcomersPass(PermitOutside):
    """Sends at once although others wait."""

    def send_now(self, world: World, rows: int) -> tuple[Result, World]:
        """Send at once if the permits are here, although others wait."""
        first = world.hops[0]
        alone, after = super().send_now(self.with_hop(world, 0, first._replace(waiting=Fifo())), rows)
        return alone, self.with_hop(after, 0, after.hops[0]._replace(waiting=first.waiting))


_UNPAID = {"SendChunk": changed_before(_RIGHT["SendChunk"], _chunk_unpaid)}
_IN_FRONT = {"Deliver": mistakes.deliver_in_front(PermitOutside)}
_LOST = {"Deliver": changed_after(_RIGHT["Deliver"], _lost)}
_TWICE = {"Deliver": mistakes.deliver_twice(PermitOutside)}
_KEPT = {"WithdrawChunk": mistakes.keep_withdrawn}
_FORGOTTEN = {"WithdrawChunk": mistakes.withdraw_and_forget(PermitOutside, "WithdrawChunk")}
_EARLY_WATERMARK = {"SendWatermark": changed_before(_RIGHT["SendWatermark"], _watermark_early)}

# The rules.

PLAIN, BATCHES = constants(2), constants(3, 2, max_chunk_cost=2)
_OVERSIZE, _TIGHT = constants(3, max_chunk_cost=2), constants(4, 2, max_chunk_cost=2)

TABLE = (
    # Permits are spent.
    Duty("window", "Bounded", "A sender without permits waits: never more is in the channel than there are permits."),
    Breach("sends without permits", "1", _UNPAID),
    Duty("whole-window", "SendChunk", "A chunk whose permits are here leaves at once, down to the last permit."),
    Breach("does not spend the last permit", "1", _only_if("SendChunk", _can_spare_one)),
    Duty("cost-is-rows", "Cost", "A chunk costs as many permits as it has rows.", "weights"),
    Breach("counts chunks instead of rows", "2", _costs(lambda _: 1)),
    Duty("empty-costs-one", "Cost", "An empty chunk costs one permit.", "weights"),
    Breach("lets empty chunks pass for nothing", "0", _costs(lambda rows: rows)),
    Duty(
        "oversize-costs-max-chunk-cost",
        "Cost",
        "A chunk above max_chunk_cost costs max_chunk_cost, so that it can leave.",
        "weights oversize",
    ),
    Breach("charges an oversize chunk for all its rows", "3", _costs(lambda rows: max(rows, 1))),
    # They come back.
    Duty(
        "returned-when-consumed",
        "Consume",
        "Permits come back when the application has consumed a message, not before.",
    ),
    Breach("returns permits when a message arrives", "1", mistakes.deliver_and_return(PermitOutside)),
    Breach(
        "returns permits when a message is handed over", "1 Take Consume", mistakes.ReturnsOnHandOver, "acknowledgement"
    ),
    Duty("none-lost", "Conservation", "No permit is lost: what was consumed comes back whole."),
    Breach("returns a permit too few", "1 Receive", _returns(lambda message: message.cost - 1)),
    Duty("none-created", "Conservation", "No permit is created: what was consumed comes back once."),
    Breach("returns permits twice", "1 Receive", _returns(lambda message: message.cost * 2)),
    Breach(
        "returns the last batch again with the next one", "1 Receive", {CONSUME: _returned_again}, "batching", BATCHES
    ),
    Duty("verbatim", "Held", "A message gives back the permits that it held, whatever its rows would cost.", "weights"),
    Breach("returns the rows of an empty chunk", "0 Receive", _returns(lambda it: min(it.rows, it.cost))),
    Breach(
        "returns the rows of an oversize chunk",
        "1 3 Receive",
        _returns(lambda it: max(it.rows, it.cost)),
        "oversize",
        _OVERSIZE,
    ),
    Duty(
        "batched",
        "GrantsBatched",
        "While the consumer is busy, permits come back in batches, not one by one.",
        "batching",
    ),
    Breach("returns the permits of each chunk at once", "1 Receive", {CONSUME: returns_early}, agreed=BATCHES),
    Duty("batch-in-time", "Consume", "A batch comes back as soon as it is complete.", "batching"),
    Breach("returns a batch one permit too late", "1 Receive", {CONSUME: returns_late}, agreed=_TIGHT),
    Duty(
        "residue-returned",
        "Flush",
        "A receiver that has consumed everything returns what it holds below a batch.",
        "batching idle-flush",
    ),
    Breach("keeps a residue below a batch", "1 Receive", {"Flush": never}, agreed=BATCHES),
    # Messages keep their order.
    Duty("oldest-leaves-first", "SendChunk", "Chunks leave in the order in which they were offered."),
    Breach("lets the newest waiting chunk leave first", "1 Receive", _sends(_newest)),
    Breach("lets a small chunk overtake a large one that waits", "1 2 Receive", _sends(_first_that_fits), "weights"),
    Duty("oldest-arrives-first", "Deliver", "Messages are received in the order in which they left."),
    Breach("hands over the newest message", "1 Receive", _IN_FRONT),
    Duty("exactly-once", "ExactlyOnceInOrder", "Every chunk that has left is received, once."),
    Breach("loses a chunk", "1 Receive", _LOST),
    Breach("hands a chunk over twice", "1 Receive", _TWICE),
    # Sends are given up.
    Duty(
        "withdrawn-never-sent",
        "WithdrawChunk",
        "A send that was cancelled while it waited has sent nothing.",
        "cancellation",
    ),
    Breach("sends a cancelled chunk later", "1 WithdrawChunk Receive", _KEPT),
    Duty(
        "withdrawn-pays-nothing",
        "WithdrawChunk",
        "A send that was cancelled while it waited has taken no permits.",
        "cancellation",
    ),
    Breach("loses a permit when a send is cancelled", "1 WithdrawChunk Receive", _FORGOTTEN),
    Duty("refused-changes-nothing", "SendChunk", "What the channel refuses leaves it as it was.", "refusals"),
    Breach("sends a refused chunk later", "SendChunkNow(1) Receive", mistakes.KeepsRefused),
    Breach("takes the permits of a refused chunk", "SendChunkNow(1) Receive", mistakes.PaysForRefused),
    Duty(
        "newcomers-wait",
        "SendChunk",
        "A chunk is refused while others wait for permits, even if its own are here.",
        "refusals weights",
    ),
    Breach("lets a newcomer go before those who wait", "1 2 SendChunkNow(1)", LetsNewcomersPass),
    # Barriers and watermarks.
    Duty(
        "barrier-keeps-its-place",
        "SendBarrier",
        "A barrier leaves after the chunks that were offered before it, and before those that were offered later.",
        "barriers",
    ),
    Breach(
        "lets a barrier overtake a chunk that waits", "1 OfferBarrier Receive", _send_early("SendBarrier", "barrier")
    ),
    Breach("lets a chunk overtake a barrier that waits", "1 OfferBarrier Receive", _send_early("SendChunk", "chunk")),
    Duty(
        "barrier-needs-no-rows", "SendBarrier", "A barrier whose turn it is does not wait for row permits.", "barriers"
    ),
    Breach(
        "lets a barrier wait for row permits", "1 OfferBarrier", _only_if("SendBarrier", lambda at: at.permits.rows > 0)
    ),
    Duty("barriers-bounded", "SendBarrier", "A barrier waits for a barrier permit.", "barriers"),
    Breach("sends barriers without permits", "OfferBarrier", _unpaid("SendBarrier", Permits(0, 1, 0))),
    Duty("barrier-returned", "Consume", "The permit of a consumed barrier comes back, in its own class.", "barriers"),
    Breach("drops the permit of a barrier", "OfferBarrier Receive", _for_a_barrier(Permits(0, 0, 0))),
    Breach("returns a row permit for a barrier", "1 OfferBarrier Receive", _for_a_barrier(Permits(1, 1, 0))),
    Duty(
        "watermark-keeps-its-place",
        "SendWatermark",
        "A watermark does not overtake what was offered before it.",
        "watermarks",
    ),
    Breach("lets a watermark overtake chunks", "1 OfferWatermark Receive", _EARLY_WATERMARK),
    Duty(
        "watermarks-bounded",
        "SendWatermark",
        "One watermark is in the channel; newer ones wait until it was consumed.",
        "watermarks",
    ),
    Breach("lets watermarks pile up", "OfferWatermark Receive", _unpaid("SendWatermark", Permits(0, 0, 1))),
    Duty("watermarks-conflated", "OfferWatermark", "A newer watermark replaces one that has not left.", "watermarks"),
    Breach("keeps an old watermark", "OfferWatermark Receive", KeepsOldWatermark),
)
"""Each rule, with the mistakes that break it below it."""


class PermitRules(Rulebook):
    """All of the above, and channels of a few permits."""

    outside = PermitOutside
    pair = CorePair
    rules = (
        *rules_in(TABLE, SYSTEM.module, PLAIN),
        *whole_run_rules(SYSTEM.module, withdraw="WithdrawChunk", withdraw_barrier="WithdrawBarrier"),
    )
    unit = "permits"
    plain = PLAIN
    used_by_pairs = frozenset(
        {Feature.WEIGHTS, Feature.BATCHING, Feature.BARRIERS, Feature.WATERMARKS, Feature.CANCELLATION}
    )

    def model(
        self,
        agreed: ChannelParameters,
        sizes: Sequence[int],
        *,
        waiters: int,
        tags: int = 1,
        lacks: Lacks = frozenset(),
    ) -> Parameters:
        """The specification's constants, with everything that the channel has switched on."""
        made = model_of(agreed, sizes=tuple(sizes), waiters=waiters, numbered=tags == FEW)
        return replace(made, tags=tags or made.tags, flush_idle=Feature.IDLE_FLUSH not in lacks)

    def graphs(self, lacks: Lacks, hops: int) -> list[Graph]:
        """Graphs of chunks of two sizes, with batches; and of one size without batches, beside barriers or watermarks.

        A chain of channels is walked with chunks of one size only, sent by those who wait: all of it would be a hundred
        times as many edges.
        """
        classes = frozenset({Feature.BARRIERS, Feature.WATERMARKS})
        small = frozenset({Feature.WEIGHTS, Feature.BATCHING, Feature.REFUSALS})
        if hops > 1:
            left_out = [lacks | classes | small]
        else:
            beside = (lacks | small | (classes - {kind}) for kind in sorted(classes - lacks))
            left_out = list(dict.fromkeys((lacks | classes, *beside)))
        return [
            Graph(
                constants(2) if hops > 1 or Feature.BATCHING in without else BATCHES,
                (1,) if Feature.WEIGHTS in without else (1, 2),
                without,
            )
            for without in left_out
        ]

    def pair_graphs(self, lacks: Lacks) -> list[Graph]:
        """Chunks with batches; and all classes in a smaller channel."""
        chunks, *_ = self.graphs(lacks, 1)
        all_classes = Graph(constants(2), (1,) if Feature.WEIGHTS in lacks else (2,), lacks, waiters=1)
        return [chunks] if {Feature.BARRIERS, Feature.WATERMARKS} <= lacks else [chunks, all_classes]

    def left_out(self, lacks: Lacks) -> list[str]:
        """Actions that a pair without these features does not have."""
        never = ["OfferBarrier", "WithdrawBarrier", "SendBarrier"] if Feature.BARRIERS in lacks else []
        never += ["OfferWatermark", "SendWatermark"] if Feature.WATERMARKS in lacks else []
        never += ["WithdrawChunk", "WithdrawBarrier"] if Feature.CANCELLATION in lacks else []
        return never + (["Flush"] if Feature.IDLE_FLUSH in lacks else [])

    def drawn(self, integer: Integer, lacks: Lacks, hops: int) -> tuple[ChannelParameters, tuple[int, ...]]:
        """Two to six permits; chunks without rows, of one row, of ``max_chunk_cost`` and above."""
        row_permits = integer(2, 6)
        # Whether a hop in the middle is idle for a moment, and returns its residue, is a matter of time.
        permit_batch = 1 if Feature.BATCHING in lacks or hops > 1 else integer(1, row_permits - 1)
        tight = row_permits - permit_batch + 1
        agreed = ChannelParameters(
            row_permits=row_permits,
            permit_batch=permit_batch,
            max_chunk_cost=tight if Feature.OVERSIZE in lacks else integer(1, tight),
            barrier_permits=1 if Feature.BARRIERS in lacks else integer(1, 2),
            oversize=Oversize.WHOLE,
        )
        largest = agreed.max_chunk_cost + (0 if Feature.OVERSIZE in lacks else 2)
        sizes = {1} if Feature.WEIGHTS in lacks else {0, 1, agreed.max_chunk_cost, largest}
        return agreed, tuple(sorted(sizes))

    def drawn_pair(self, integer: Integer) -> tuple[ChannelParameters, tuple[int, ...]]:
        """Two to twelve permits, often at the tight bound ``max_chunk_cost = row_permits - permit_batch + 1``.

        Some are withheld at the start.
        """
        row_permits = integer(2, 12)
        permit_batch = integer(1, row_permits - 1)
        tight = row_permits - permit_batch + 1
        agreed = ChannelParameters(
            row_permits=row_permits,
            permit_batch=permit_batch,
            max_chunk_cost=tight if integer(0, 1) == 0 else integer(1, tight),
            barrier_permits=integer(1, 3),
            initial_permits=row_permits if integer(0, 1) == 0 else integer(0, row_permits),
            oversize=list(Oversize)[integer(0, len(Oversize) - 1)],
        )
        return agreed, tuple(range(agreed.max_chunk_cost + (3 if agreed.oversize is Oversize.WHOLE else 1)))

    def of_a_run(self, lacks: Lacks, *, is_observed: bool) -> tuple[ChannelParameters, tuple[int, ...]]:
        """The parameters of a run: a small window, or one that holds a few chunks."""
        if is_observed:
            agreed = constants(3) if Feature.BATCHING in lacks else constants(4, 2)
        else:
            agreed = constants(8, 1 if Feature.BATCHING in lacks else 2, max_chunk_cost=4)
        return agreed, (1,) if Feature.WEIGHTS in lacks else (1, 2, agreed.max_chunk_cost)


RULEBOOK = PermitRules()

"""The rules of the specification, in the order in which they are reported, and for each the mistakes that break it.

A rule is checked by runs that nobody has written down: for each mistake, the shortest run in which the model with the
mistake shows its applications something else than the model does (``probes``).
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from permitflow.errors import InvalidParametersError
from permitflow.protocol.permits import ChannelParameters, Oversize
from permitflow.testing.kit import mistakes
from permitflow.testing.kit.adapter import ChannelAdapter, Feature
from permitflow.testing.kit.mistakes import Perform
from permitflow.testing.kit.outside import Outside
from permitflow.testing.moves import Move
from permitflow_model.manifest import reference
from permitflow_model.permit_channel import Permits

__all__ = [
    "BARRIERS",
    "GIVING_UP",
    "ORDER",
    "PROBED_RULES",
    "RETURNING",
    "RUN_RULES",
    "SPENDING",
    "WATERMARKS",
    "MakeAdapter",
    "Mistake",
    "Rule",
    "all_rules",
    "constants",
    "selected",
]

MakeAdapter: TypeAlias = Callable[[], ChannelAdapter]
"""Makes a new adapter for a run; an adapter's class is one."""


def constants(row_permits: int, permit_batch: int = 1, clamp: int = 0) -> ChannelParameters:
    """Parameters of a small channel; without a clamp, the largest that is live."""
    return ChannelParameters(
        row_permits=row_permits,
        permit_batch=permit_batch,
        max_chunk_cost=clamp or row_permits - permit_batch + 1,
        oversize=Oversize.WHOLE,
    )


@dataclass(frozen=True, eq=False)
class Mistake:
    """One way to break a rule."""

    name: str
    """What the channel does, in words that go after "it"."""

    agreed: ChannelParameters
    """The channel in which it shows."""

    moves: tuple[Move, ...]
    """What the applications may do in the run; as little as is needed, so that no other mistake shows."""

    actions: Mapping[str, Perform] = field(default_factory=dict)
    """The mistaken actions."""

    outside: type[Outside] = Outside
    """A mistake at the applications' side of the channel."""

    needs: frozenset[Feature] = frozenset()
    """Features without which the mistake cannot be made, besides those of the rule."""


@dataclass(frozen=True)
class Rule:
    """Something that every channel must do, unless it lacks what the rule is about."""

    id: str
    statement: str
    operator: str
    """What says so in ``PermitChannel.tla``; empty where the specification is silent."""

    needs: frozenset[Feature] = frozenset()
    mistakes: tuple[Mistake, ...] = ()
    contract: str = ""
    """Where it is promised, if not in the specification."""

    @property
    def clause(self) -> str:
        """File, line and name, as in ``PermitChannel.tla:141 SendChunk``."""
        if not self.operator:
            return self.contract
        return f"{reference('PermitChannel', self.operator)} {self.operator}"


RECEIVE, TAKE, CONSUME = Move("Receive"), Move("Take"), Move("Consume")


def _needs(*features: Feature) -> frozenset[Feature]:
    return frozenset(features)


def _offer(*rows: int) -> tuple[Move, ...]:
    return tuple(Move("OfferChunk", (count,)) for count in rows)


PLAIN = constants(2)
ONES = _offer(1)
BATCHES = constants(3, 2, clamp=2)

SPENDING = (
    Rule(
        "window",
        "A sender without permits waits: never more is in the channel than there are permits.",
        "Bounded",
        mistakes=(Mistake("sends without permits", PLAIN, ONES, {"SendChunk": mistakes.send_chunk_unpaid}),),
    ),
    Rule(
        "whole-window",
        "A chunk whose permits are here leaves at once, down to the last permit.",
        "SendChunk",
        mistakes=(
            Mistake("does not spend the last permit", PLAIN, ONES, {"SendChunk": mistakes.send_chunk_but_keep_one}),
        ),
    ),
    Rule(
        "cost-is-rows",
        "A chunk costs as many permits as it has rows.",
        "Cost",
        _needs(Feature.WEIGHTS),
        (
            Mistake(
                "counts chunks instead of rows", PLAIN, _offer(2), {"OfferChunk": mistakes.offer_at_cost(lambda *_: 1)}
            ),
        ),
    ),
    Rule(
        "empty-costs-one",
        "An empty chunk costs one permit.",
        "Cost",
        _needs(Feature.WEIGHTS),
        (
            Mistake(
                "lets empty chunks pass for nothing",
                PLAIN,
                _offer(0),
                {"OfferChunk": mistakes.offer_at_cost(lambda rows, _: rows)},
            ),
        ),
    ),
    Rule(
        "oversize-costs-clamp",
        "A chunk above the clamp costs the clamp, so that it can leave.",
        "Cost",
        _needs(Feature.WEIGHTS, Feature.OVERSIZE),
        (
            Mistake(
                "charges an oversize chunk for all its rows",
                PLAIN,
                _offer(3),
                {"OfferChunk": mistakes.offer_at_cost(lambda rows, _: max(rows, 1))},
            ),
        ),
    ),
)

RETURNING = (
    Rule(
        "returned-when-consumed",
        "Permits come back when the application has consumed a message, not before.",
        "Consume",
        mistakes=(
            Mistake(
                "returns permits when a message arrives",
                PLAIN,
                ONES,
                {"Deliver": mistakes.deliver_and_return, "Consume": mistakes.consume_silently},
            ),
            Mistake(
                "returns permits when a message is handed over",
                PLAIN,
                (*ONES, TAKE, CONSUME),
                outside=mistakes.ReturnsOnHandOver,
                needs=_needs(Feature.ACKNOWLEDGEMENT),
            ),
        ),
    ),
    Rule(
        "none-lost",
        "No permit is lost: what was consumed comes back whole.",
        "Conservation",
        mistakes=(
            Mistake(
                "returns a permit too few",
                PLAIN,
                (*ONES, RECEIVE),
                {"Consume": mistakes.consume_as(lambda message: message._replace(cost=message.cost - 1))},
            ),
        ),
    ),
    Rule(
        "none-created",
        "No permit is created: what was consumed comes back once.",
        "Conservation",
        mistakes=(
            Mistake(
                "returns permits twice",
                PLAIN,
                (*ONES, RECEIVE),
                {"Consume": mistakes.consume_as(lambda message: message._replace(cost=message.cost * 2))},
            ),
            Mistake(
                "returns the last batch again with the next one",
                BATCHES,
                (*ONES, RECEIVE),
                {"Consume": mistakes.consume_and_remember},
                needs=_needs(Feature.BATCHING),
            ),
        ),
    ),
    Rule(
        "verbatim",
        "A message gives back the permits that it held, whatever its rows would cost.",
        "Held",
        _needs(Feature.WEIGHTS),
        (
            Mistake(
                "returns the rows of an empty chunk",
                PLAIN,
                (*_offer(0), RECEIVE),
                {
                    "Consume": mistakes.consume_as(
                        lambda message: message._replace(cost=min(message.rows, message.cost))
                    )
                },
            ),
            Mistake(
                "returns the rows of an oversize chunk",
                constants(3, clamp=2),
                (*_offer(1, 3), RECEIVE),
                {
                    "Consume": mistakes.consume_as(
                        lambda message: message._replace(cost=max(message.rows, message.cost))
                    )
                },
                needs=_needs(Feature.OVERSIZE),
            ),
        ),
    ),
    Rule(
        "batched",
        "While the consumer is busy, permits come back in batches, not one by one.",
        "GrantsBatched",
        _needs(Feature.BATCHING),
        (
            Mistake(
                "returns the permits of each chunk at once",
                BATCHES,
                (*ONES, RECEIVE),
                {"Consume": mistakes.consume_in_batches_of(lambda _: 1)},
            ),
        ),
    ),
    Rule(
        "batch-in-time",
        "A batch comes back as soon as it is complete.",
        "Consume",
        _needs(Feature.BATCHING),
        (
            Mistake(
                "returns a batch one permit too late",
                constants(4, 2, clamp=2),
                (*ONES, RECEIVE),
                {"Consume": mistakes.consume_in_batches_of(lambda parameters: parameters.batch + 1)},
            ),
        ),
    ),
    Rule(
        "residue-returned",
        "A receiver that has consumed everything returns what it holds below a batch.",
        "Flush",
        _needs(Feature.BATCHING, Feature.IDLE_FLUSH),
        (Mistake("keeps a residue below a batch", BATCHES, (*ONES, RECEIVE), {"Flush": mistakes.never}),),
    ),
)


WITHDRAW = Move("WithdrawChunk")
OFFER_BARRIER, OFFER_WATERMARK = Move("OfferBarrier"), Move("OfferWatermark")


def _now(*rows: int) -> tuple[Move, ...]:
    return tuple(Move("SendChunkNow", (count,)) for count in rows)


ORDER = (
    Rule(
        "oldest-leaves-first",
        "Chunks leave in the order in which they were offered.",
        "SendChunk",
        mistakes=(
            Mistake(
                "lets the newest waiting chunk leave first",
                PLAIN,
                (*ONES, RECEIVE),
                {"SendChunk": mistakes.send_newest_first},
            ),
            Mistake(
                "lets a small chunk overtake a large one that waits",
                constants(2),
                (*_offer(1, 2), RECEIVE),
                {"SendChunk": mistakes.send_whatever_fits},
                needs=_needs(Feature.WEIGHTS),
            ),
        ),
    ),
    Rule(
        "oldest-arrives-first",
        "Messages are received in the order in which they left.",
        "Deliver",
        mistakes=(
            Mistake("hands over the newest message", PLAIN, (*ONES, RECEIVE), {"Deliver": mistakes.deliver_in_front}),
        ),
    ),
    Rule(
        "exactly-once",
        "Every chunk that has left is received, once.",
        "ExactlyOnceInOrder",
        mistakes=(
            Mistake("loses a chunk", PLAIN, (*ONES, RECEIVE), {"Deliver": mistakes.deliver_nothing}),
            Mistake("hands a chunk over twice", PLAIN, (*ONES, RECEIVE), {"Deliver": mistakes.deliver_twice}),
        ),
    ),
)

GIVING_UP = (
    Rule(
        "withdrawn-never-sent",
        "A send that was cancelled while it waited has sent nothing.",
        "WithdrawChunk",
        _needs(Feature.CANCELLATION),
        (
            Mistake(
                "sends a cancelled chunk later",
                PLAIN,
                (*ONES, WITHDRAW, RECEIVE),
                {"WithdrawChunk": mistakes.keep_withdrawn},
            ),
        ),
    ),
    Rule(
        "withdrawn-pays-nothing",
        "A send that was cancelled while it waited has taken no permits.",
        "WithdrawChunk",
        _needs(Feature.CANCELLATION),
        (
            Mistake(
                "loses a permit when a send is cancelled",
                PLAIN,
                (*ONES, WITHDRAW, RECEIVE),
                {"WithdrawChunk": mistakes.withdraw_and_forget},
            ),
        ),
    ),
    Rule(
        "refused-changes-nothing",
        "What the channel refuses leaves it as it was.",
        "SendChunk",
        _needs(Feature.REFUSALS),
        (
            Mistake("sends a refused chunk later", PLAIN, (*_now(1), RECEIVE), outside=mistakes.KeepsRefused),
            Mistake(
                "takes the permits of a refused chunk", PLAIN, (*_now(1), RECEIVE), outside=mistakes.PaysForRefused
            ),
        ),
    ),
    Rule(
        "newcomers-wait",
        "A chunk is refused while others wait for permits, even if its own are here.",
        "SendChunk",
        _needs(Feature.REFUSALS, Feature.WEIGHTS),
        (
            Mistake(
                "lets a newcomer go before those who wait",
                PLAIN,
                (*_offer(1, 2), *_now(1)),
                outside=mistakes.LetsNewcomersPass,
            ),
        ),
    ),
)

BARRIERS = (
    Rule(
        "barrier-keeps-its-place",
        "A barrier leaves after the chunks that were offered before it, and before those that were offered later.",
        "SendBarrier",
        _needs(Feature.BARRIERS),
        (
            Mistake(
                "lets a barrier overtake a chunk that waits",
                PLAIN,
                (*ONES, OFFER_BARRIER, RECEIVE),
                {"SendBarrier": mistakes.send_early("barrier")},
            ),
            Mistake(
                "lets a chunk overtake a barrier that waits",
                PLAIN,
                (*ONES, OFFER_BARRIER, RECEIVE),
                {"SendChunk": mistakes.send_early("chunk")},
            ),
        ),
    ),
    Rule(
        "barrier-needs-no-rows",
        "A barrier whose turn it is does not wait for row permits.",
        "SendBarrier",
        _needs(Feature.BARRIERS),
        (
            Mistake(
                "lets a barrier wait for row permits",
                PLAIN,
                (*ONES, OFFER_BARRIER),
                {"SendBarrier": mistakes.send_barrier_with_rows},
            ),
        ),
    ),
    Rule(
        "barriers-bounded",
        "A barrier waits for a barrier permit.",
        "SendBarrier",
        _needs(Feature.BARRIERS),
        (
            Mistake(
                "sends barriers without permits",
                PLAIN,
                (OFFER_BARRIER,),
                {"SendBarrier": mistakes.send_unpaid("SendBarrier", Permits(0, 1, 0))},
            ),
        ),
    ),
    Rule(
        "barrier-returned",
        "The permit of a consumed barrier comes back, in its own class.",
        "Consume",
        _needs(Feature.BARRIERS),
        (
            Mistake(
                "drops the permit of a barrier",
                PLAIN,
                (OFFER_BARRIER, RECEIVE),
                {"Consume": mistakes.consume_other_class(Permits(0, 0, 0))},
            ),
            Mistake(
                "returns a row permit for a barrier",
                PLAIN,
                (*ONES, OFFER_BARRIER, RECEIVE),
                {"Consume": mistakes.consume_other_class(Permits(1, 1, 0))},
            ),
        ),
    ),
)

WATERMARKS = (
    Rule(
        "watermark-keeps-its-place",
        "A watermark does not overtake what was offered before it.",
        "SendWatermark",
        _needs(Feature.WATERMARKS),
        (
            Mistake(
                "lets a watermark overtake chunks",
                PLAIN,
                (*ONES, OFFER_WATERMARK, RECEIVE),
                {"SendWatermark": mistakes.send_watermark_early},
            ),
        ),
    ),
    Rule(
        "watermarks-bounded",
        "One watermark is in the channel; newer ones wait until it was consumed.",
        "SendWatermark",
        _needs(Feature.WATERMARKS),
        (
            Mistake(
                "lets watermarks pile up",
                PLAIN,
                (OFFER_WATERMARK, RECEIVE),
                {"SendWatermark": mistakes.send_unpaid("SendWatermark", Permits(0, 0, 1))},
            ),
        ),
    ),
    Rule(
        "watermarks-conflated",
        "A newer watermark replaces one that has not left.",
        "OfferWatermark",
        _needs(Feature.WATERMARKS),
        (Mistake("keeps an old watermark", PLAIN, (OFFER_WATERMARK, RECEIVE), outside=mistakes.KeepsOldWatermark),),
    ),
)


PROBED_RULES = (*SPENDING, *RETURNING, *ORDER, *GIVING_UP, *BARRIERS, *WATERMARKS)
"""Rules with mistakes, checked by probes."""

RUN_RULES = (
    Rule("every-edge", "In every state of the graph, every move comes to what the model says.", "Next"),
    Rule("random-runs", "In random runs, every move comes to what the model says.", "Spec"),
    Rule(
        "cancelled-send",
        "A send can be cancelled at every await: it has sent all or nothing, and no permit is lost.",
        "WithdrawChunk",
        _needs(Feature.CANCELLATION),
    ),
    Rule(
        "cancelled-barrier",
        "The sending of a barrier can be cancelled at every await, likewise.",
        "WithdrawBarrier",
        _needs(Feature.CANCELLATION, Feature.BARRIERS),
    ),
    Rule(
        "cancelled-receive",
        "A receive can be cancelled at every await: it has taken nothing, and no message is lost.",
        "Consume",
        _needs(Feature.CANCELLATION),
    ),
    Rule("observed-run", "What is seen of a run that nobody leads is explained by the model.", "Spec"),
    Rule(
        "recorded-run",
        "What the channel records of a run is a behaviour, and ends with all permits at home.",
        "Spec",
        _needs(Feature.RECORDING),
    ),
    Rule(
        "end-comes-last",
        "The end comes after everything that was sent, also what still waits for permits.",
        "",
        _needs(Feature.END),
        contract="SendEnd.end",
    ),
    Rule(
        "abort-is-no-end",
        "A receiver is told that the stream was given up; it does not look like an end.",
        "",
        _needs(Feature.ABORT),
        contract="SendEnd.abort",
    ),
)
"""Rules about whole runs; ``judging`` names who checks them."""


def all_rules() -> tuple[Rule, ...]:
    """Every rule once."""
    return (*PROBED_RULES, *RUN_RULES)


def selected(rules: Sequence[Rule], only: Collection[str]) -> tuple[Rule, ...]:
    """The rules that are named, or all.

    Raises:
        InvalidParametersError: a name is no rule's.
    """
    ids = [rule.id for rule in rules]
    if unknown := sorted(set(only) - set(ids)):
        raise InvalidParametersError(name="only", value=unknown[0], rule=f"must be a rule: {', '.join(ids)}")
    return tuple(rule for rule in rules if not only or rule.id in only)

"""Rules about messages: their order, sends that are given up or refused, barriers and watermarks."""

from permitflow.testing.kit import lessons
from permitflow.testing.kit.features import Feature
from permitflow.testing.kit.rules import Mistake, Rule, constants
from permitflow.testing.moves import Move
from permitflow_model.permit_channel import Permits

__all__ = ["BARRIERS", "GIVING_UP", "ORDER", "WATERMARKS"]

RECEIVE = Move("Receive")
WITHDRAW = Move("WithdrawChunk")
OFFER_BARRIER, OFFER_WATERMARK = Move("OfferBarrier"), Move("OfferWatermark")


def _needs(*features: Feature) -> frozenset[Feature]:
    return frozenset(features)


def _offer(*rows: int) -> tuple[Move, ...]:
    return tuple(Move("OfferChunk", (count,)) for count in rows)


PLAIN = constants(2)
ONES = _offer(1)


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
                {"SendChunk": lessons.send_newest_first},
            ),
            Mistake(
                "lets a small chunk overtake a large one that waits",
                constants(2),
                (*_offer(1, 2), RECEIVE),
                {"SendChunk": lessons.send_whatever_fits},
                needs=_needs(Feature.WEIGHTS),
            ),
        ),
    ),
    Rule(
        "oldest-arrives-first",
        "Messages are received in the order in which they left.",
        "Deliver",
        mistakes=(
            Mistake("hands over the newest message", PLAIN, (*ONES, RECEIVE), {"Deliver": lessons.deliver_in_front}),
        ),
    ),
    Rule(
        "exactly-once",
        "Every chunk that has left is received, once.",
        "ExactlyOnceInOrder",
        mistakes=(
            Mistake("loses a chunk", PLAIN, (*ONES, RECEIVE), {"Deliver": lessons.deliver_nothing}),
            Mistake("hands a chunk over twice", PLAIN, (*ONES, RECEIVE), {"Deliver": lessons.deliver_twice}),
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
                {"WithdrawChunk": lessons.keep_withdrawn},
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
                {"WithdrawChunk": lessons.withdraw_and_forget},
            ),
        ),
    ),
    Rule(
        "refused-changes-nothing",
        "What the channel refuses leaves it as it was.",
        "SendChunk",
        _needs(Feature.REFUSALS),
        (
            Mistake("sends a refused chunk later", PLAIN, (*_now(1), RECEIVE), outside=lessons.KeepsRefused),
            Mistake("takes the permits of a refused chunk", PLAIN, (*_now(1), RECEIVE), outside=lessons.PaysForRefused),
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
                outside=lessons.LetsNewcomersPass,
            ),
        ),
    ),
)

BARRIERS = (
    Rule(
        "barrier-needs-no-rows",
        "A barrier does not wait for row permits: it passes chunks that do.",
        "SendBarrier",
        _needs(Feature.BARRIERS),
        (
            Mistake(
                "lets a barrier wait for row permits",
                PLAIN,
                (*ONES, OFFER_BARRIER),
                {"SendBarrier": lessons.send_barrier_with_rows},
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
                {"SendBarrier": lessons.send_unpaid("SendBarrier", Permits(0, 1, 0))},
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
                {"Consume": lessons.consume_other_class(Permits(0, 0, 0))},
            ),
            Mistake(
                "returns a row permit for a barrier",
                PLAIN,
                (*ONES, OFFER_BARRIER, RECEIVE),
                {"Consume": lessons.consume_other_class(Permits(1, 1, 0))},
            ),
        ),
    ),
)

WATERMARKS = (
    Rule(
        "watermark-keeps-its-place",
        "A watermark does not overtake chunks that were offered before it.",
        "SendWatermark",
        _needs(Feature.WATERMARKS),
        (
            Mistake(
                "lets a watermark overtake chunks",
                PLAIN,
                (*ONES, OFFER_WATERMARK, RECEIVE),
                {"SendWatermark": lessons.send_watermark_early},
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
                {"SendWatermark": lessons.send_unpaid("SendWatermark", Permits(0, 0, 1))},
            ),
        ),
    ),
    Rule(
        "watermarks-conflated",
        "A newer watermark replaces one that has not left.",
        "OfferWatermark",
        _needs(Feature.WATERMARKS),
        (Mistake("keeps an old watermark", PLAIN, (OFFER_WATERMARK, RECEIVE), outside=lessons.KeepsOldWatermark),),
    ),
)

"""Rules about permits: how they are spent, and how they come back."""

from permitflow.testing.kit import lessons
from permitflow.testing.kit.features import Feature
from permitflow.testing.kit.rules import Mistake, Rule, constants
from permitflow.testing.moves import Move

__all__ = ["RETURNING", "SPENDING"]

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
        mistakes=(Mistake("sends without permits", PLAIN, ONES, {"SendChunk": lessons.send_chunk_unpaid}),),
    ),
    Rule(
        "whole-window",
        "A chunk whose permits are here leaves at once, down to the last permit.",
        "SendChunk",
        mistakes=(
            Mistake("does not spend the last permit", PLAIN, ONES, {"SendChunk": lessons.send_chunk_but_keep_one}),
        ),
    ),
    Rule(
        "cost-is-rows",
        "A chunk costs as many permits as it has rows.",
        "Cost",
        _needs(Feature.WEIGHTS),
        (
            Mistake(
                "counts chunks instead of rows", PLAIN, _offer(2), {"OfferChunk": lessons.offer_at_cost(lambda *_: 1)}
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
                {"OfferChunk": lessons.offer_at_cost(lambda rows, _: rows)},
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
                {"OfferChunk": lessons.offer_at_cost(lambda rows, _: max(rows, 1))},
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
                {"Deliver": lessons.deliver_and_return, "Consume": lessons.consume_silently},
            ),
            Mistake(
                "returns permits when a message is handed over",
                PLAIN,
                (*ONES, TAKE, CONSUME),
                outside=lessons.ReturnsOnHandOver,
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
                {"Consume": lessons.consume_as(lambda message: message._replace(cost=message.cost - 1))},
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
                {"Consume": lessons.consume_as(lambda message: message._replace(cost=message.cost * 2))},
            ),
            Mistake(
                "returns the last batch again with the next one",
                BATCHES,
                (*ONES, RECEIVE),
                {"Consume": lessons.consume_and_remember},
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
                {"Consume": lessons.consume_as(lambda message: message._replace(cost=min(message.rows, message.cost)))},
            ),
            Mistake(
                "returns the rows of an oversize chunk",
                constants(3, clamp=2),
                (*_offer(1, 3), RECEIVE),
                {"Consume": lessons.consume_as(lambda message: message._replace(cost=max(message.rows, message.cost)))},
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
                {"Consume": lessons.consume_in_batches_of(lambda _: 1)},
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
                {"Consume": lessons.consume_in_batches_of(lambda parameters: parameters.batch + 1)},
            ),
        ),
    ),
    Rule(
        "residue-returned",
        "A receiver that has consumed everything returns what it holds below a batch.",
        "Flush",
        _needs(Feature.BATCHING, Feature.IDLE_FLUSH),
        (Mistake("keeps a residue below a batch", BATCHES, (*ONES, RECEIVE), {"Flush": lessons.never}),),
    ),
)

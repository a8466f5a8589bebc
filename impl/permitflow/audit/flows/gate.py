"""The laws of one input of a gate; what its inputs share is not in them.

Spec: the updates of credit, stopped, free and borrowed; NothingBehind, StoppedByBarrier, Bounded.
"""

from collections.abc import Mapping

import numpy as np

from permitflow.audit.columns import Events, Integers, Limits, Marks
from permitflow.audit.findings import Clause
from permitflow.audit.laws import Before, BookLaw, Counter, Laws, Line, Order
from permitflow.protocol.gate import GATE_ACTIONS, GateParameters
from permitflow.protocol.recording import ParameterValue

NOTHING_BEHIND = "NothingBehind"
"""Nothing is sent or delivered behind a barrier before consumption is resumed.

Spec: NothingBehind, StoppedByBarrier.
"""

_BARRIERS = ("ConsumeBarrier", "ConsumeNewerBarrier", "ConsumeOlderBarrier")


def _limits(stated: Mapping[str, ParameterValue]) -> Limits:
    of = GateParameters(**stated)  # type: ignore[arg-type]  # it looks at the types itself
    return {"exclusive": of.exclusive, "floating": of.floating, "window": of.window_rows}


def _sent_behind(events: Events, before: Before) -> Marks:
    _, stopped = before.counters
    behind: Marks = events.is_any(["SendData", "SendBarrier", "AnnounceBacklog"]) & before.known & (stopped != 0)
    return behind


def _delivered_behind(events: Events, before: Before) -> Marks:
    *_, is_behind = before.counters
    behind: Marks = events.is_any(["Deliver", "DeliverBacklog"]) & before.known & (is_behind != 0)
    return behind


def _kind_of(events: Events) -> Integers:
    """0 a chunk, 1 a barrier."""
    is_barrier = events.is_any(["SendBarrier", *_BARRIERS])
    if events.end == "receiver":
        is_barrier |= events.is_any(["Deliver"]) & (events.arguments["barriers"] != 0)
    return is_barrier.astype(np.int64)


LAWS = Laws(
    table=GATE_ACTIONS,
    limits=_limits,
    counters={
        "sender": [
            Counter(
                start="exclusive",
                most="window",
                steps={"SendData": "-data", "ReturnCredit": "-data"},
                settled=lambda events, credit: credit + _heard(events),
            ),
            Counter(most=1, steps={"SendBarrier": 1, "Hear": "-resume"}),
        ],
        "receiver": [
            Counter(most="window", steps={"Deliver": "data", "ConsumeData": "-data", "Lose": "-data"}),
            Counter(
                most="window",
                steps={
                    "Borrow": "data",
                    "ConsumeData": "freed",
                    "Grant": "-data",
                    **dict.fromkeys(("Deliver", "ConsumeEnd", "Lose"), "-taken"),
                },
            ),
            Counter(
                most="floating",
                steps={
                    "Borrow": "data",
                    **dict.fromkeys(("Deliver", "DeliverBacklog", "ConsumeData", "ConsumeEnd", "Lose"), "-home"),
                },
            ),
            Counter(
                most=1,
                steps={
                    "Deliver": "barriers",
                    "Lose": "-barriers",
                    **dict.fromkeys(("Align", "Abort", "ConsumeOlderBarrier"), -1),
                },
            ),
        ],
    },
    books=[BookLaw(NOTHING_BEHIND, "sender", _sent_behind), BookLaw(NOTHING_BEHIND, "receiver", _delivered_behind)],
    lines=[
        Line("data", "sender", {"OfferData": "data", "SendData": "-data", "WithdrawData": "-data"}),
        Line("barrier", "sender", {"OfferBarrier": 1, "SendBarrier": -1, "WithdrawBarrier": -1}),
    ],
    order=Order(
        sent=["SendData", "SendBarrier"],
        delivered=["Deliver"],
        consumed=["ConsumeData", *_BARRIERS],
        rows="data",
        kinds=("chunk", "barrier"),
        kind_of=_kind_of,
    ),
    words={
        NOTHING_BEHIND: "nothing is sent or delivered behind a barrier before consumption is resumed",
        Clause.BOUNDED: "nobody has or lends more credit than there is",
    },
)


def _heard(events: Events) -> Integers:
    heard = events.arguments["granted"] - events.arguments["voided"]
    of_credit: Integers = heard * events.is_any(["Hear"])
    return of_credit

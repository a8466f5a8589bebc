"""The laws of one input of a gate; what its inputs share is not in them.

Spec: the updates of credit, stopped, free and borrowed; NothingBehind, StoppedByBarrier, Bounded.
"""

import numpy as np

from permitflow.flows.gate.core import GATE_ACTIONS, GateParameters
from permitflow_tools.audit.columns import Events, Integers, Marks
from permitflow_tools.audit.findings import Clause
from permitflow_tools.audit.laws import Before, Counter, Laws, Line, Order, Rule

NOTHING_BEHIND = "NothingBehind"
"""Nothing is sent or delivered behind a barrier before consumption is resumed.

Spec: NothingBehind, StoppedByBarrier.
"""

_BARRIERS = ("ConsumeBarrier", "ConsumeNewerBarrier", "ConsumeOlderBarrier")


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
    parameters=GateParameters,
    counters={
        "sender": [
            Counter(
                start="exclusive",
                most="window_rows",
                steps={"SendData": "-data", "ReturnCredit": "-data"},
                settled=lambda events, credit: credit + _heard(events),
            ),
            Counter(most=1, steps={"SendBarrier": 1, "Hear": "-resume"}),
        ],
        "receiver": [
            Counter(most="window_rows", steps={"Deliver": "data", "ConsumeData": "-data", "Lose": "-data"}),
            Counter(
                most="window_rows",
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
    rules=[Rule(NOTHING_BEHIND, _sent_behind, "sender"), Rule(NOTHING_BEHIND, _delivered_behind, "receiver")],
    lines=[
        Line("data", {"OfferData": "data", "SendData": "-data", "WithdrawData": "-data"}),
        Line("barrier", {"OfferBarrier": 1, "SendBarrier": -1, "WithdrawBarrier": -1}),
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

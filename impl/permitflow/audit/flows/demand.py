"""The laws of demand: size messages may be out, and whole batches of them are requested again.

Spec: the updates of credit, inbox, unrequested and withheld; Bounded, RequestsBatched.
"""

from collections.abc import Mapping

from permitflow.audit.columns import Events, Integers, Limits, Marks
from permitflow.audit.findings import Clause
from permitflow.audit.laws import Before, BookLaw, Counter, Laws, Line, Order
from permitflow.protocol.demand import DEMAND, Demand
from permitflow.protocol.recording import ParameterValue

BATCHED = "RequestsBatched"
"""The receiver requests a batch when that many messages were consumed, and the withheld messages a single time.

Spec: RequestsBatched, Consume, Ask.
"""


def _limits(stated: Mapping[str, ParameterValue]) -> Limits:
    of = Demand(**stated)  # type: ignore[arg-type]  # it looks at the types itself
    return {"size": of.size, "batch": of.batch, "initial": of.initial, "withheld": of.size - of.initial}


def _unrequested(events: Events, collected: Integers) -> Integers:
    """A complete batch is requested at once."""
    kept: Integers = collected * (collected < events.limit("batch"))
    return kept


def _withheld(events: Events, before: Integers) -> Integers:
    """Nothing, once the application has asked."""
    kept: Integers = before * ~events.is_any(["Ask"])
    return kept


def _asks_in_vain(events: Events, before: Before) -> Marks:
    _, _, withheld = before.counters
    in_vain: Marks = events.is_any(["Ask"]) & before.known & (withheld == 0)
    return in_vain


LAWS = Laws(
    table=DEMAND.table,
    limits=_limits,
    counters={
        "sender": [Counter(start="initial", most="size", steps={"Send": -1, "Request": "messages"})],
        "receiver": [
            Counter(most="size", steps={"Deliver": 1, "Consume": -1}),
            Counter(most="size", steps={"Consume": 1}, settled=_unrequested, clause=BATCHED),
            Counter(start="withheld", most="size", steps={}, settled=_withheld, clause=BATCHED),
        ],
    },
    books=[BookLaw(BATCHED, "receiver", _asks_in_vain)],
    lines=[Line("message", "sender", {"Offer": 1, "Withdraw": -1, "Send": -1})],
    order=Order(sent=["Send"], delivered=["Deliver"], consumed=["Consume"]),
    words={
        BATCHED: "consumed messages are requested again in batches",
        Clause.BOUNDED: "never more messages are out, or requested, than may be",
    },
)
